//! One request and its reply: a state machine over bytes and stamps. It writes a tape and says when the
//! reply is over; it knows nothing of sockets, clocks or JSON.

use crate::record::{Blocks, ClientFault, Dispatch, Ending, NoBlock, Note, ProtocolError, ReadStamp, Tape};
use crate::wire::body::{Body, Piece};
use crate::wire::head::{self, Framing, HeadReader, MediaType, ResponseHead};
use crate::wire::sse::{Item, Sse};

/// Longest reply accepted that is not an event stream.
pub const MAX_WHOLE_BODY_BYTES: u64 = 16 * 1024 * 1024;
/// Bytes kept of the body of a reply that is no success; the rest is read and dropped.
const MAX_ERROR_BODY_BYTES: u64 = 64 * 1024;
/// Most interim responses before a final one.
const MAX_INTERIM: u8 = 16;

/// Where in the reply we are.
#[derive(Debug)]
enum Receive {
    /// Before the end of the head.
    Head,
    /// In a body that is an event stream.
    Stream { body: Body, sse: Sse },
    /// In any other body.
    Whole { body: Body, kept: u64, success: bool },
    /// After its end, or after a fault.
    Over,
}

/// What a read did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The reply goes on.
    More,
    /// It is over.
    Over(Ending),
}

/// The receiving half of an exchange. The head's buffer lives as long as the connection.
#[derive(Debug)]
pub struct Exchange {
    head: HeadReader,
    tape: Tape,
    receive: Receive,
    /// As asked: an event stream, or one JSON document.
    streamed: bool,
    event_start: [u8; 8],
    event_len: usize,
    has_name: bool,
    interim: u8,
    seen_done: bool,
    keep_alive: bool,
    status: Option<u16>,
    /// Payload bytes of the current read after its last dispatch.
    trailing: bool,
}

impl Default for Exchange {
    fn default() -> Self {
        Exchange {
            head: HeadReader::default(),
            tape: Tape::default(),
            receive: Receive::Over,
            streamed: true,
            event_start: [0; 8],
            event_len: 0,
            has_name: false,
            interim: 0,
            seen_done: false,
            keep_alive: false,
            status: None,
            trailing: false,
        }
    }
}

impl Exchange {
    /// Begins to wait for a reply. `streamed` says whether an event stream was asked for.
    pub fn begin(&mut self, streamed: bool) {
        self.head.clear();
        self.receive = Receive::Head;
        self.streamed = streamed;
        self.end_event();
        self.interim = 0;
        self.seen_done = false;
        self.keep_alive = false;
        self.status = None;
        self.trailing = false;
    }

    /// `[DONE]` was read.
    pub fn seen_done(&self) -> bool {
        self.seen_done
    }

    /// The connection may carry another request, once the reply was complete.
    pub fn keep_alive(&self) -> bool {
        self.keep_alive
    }

    /// The last block of the tape.
    pub fn cut_tape(&mut self) -> Option<crate::record::Block> {
        self.tape.cut()
    }

    /// Takes in a read: how many of its bytes belong to this reply, and what they did.
    pub fn on_read(&mut self, bytes: &[u8], stamp: ReadStamp, blocks: &mut impl Blocks) -> (usize, Progress) {
        let mut at = 0;
        match self.read(bytes, stamp, &mut at, blocks) {
            Ok(progress) => (at, progress),
            Err(ending) => {
                self.receive = Receive::Over;
                (at, Progress::Over(ending))
            }
        }
    }

    /// The peer will send no more.
    pub fn on_close(&mut self, blocks: &mut impl Blocks) -> Ending {
        let ending = match &mut self.receive {
            Receive::Stream { body: Body::UntilClose, sse } => {
                let tail = sse.finish();
                match self.finish_stream(tail, blocks) {
                    Ok(()) => Ending::Complete,
                    Err(NoBlock) => Ending::Client(ClientFault::Pool),
                }
            }
            Receive::Whole { body: Body::UntilClose, .. } => match self.tape.write(Note::BodyEnd, blocks) {
                Ok(()) => Ending::Complete,
                Err(NoBlock) => Ending::Client(ClientFault::Pool),
            },
            _ => Ending::Closed,
        };
        self.receive = Receive::Over;
        ending
    }

    fn read(
        &mut self,
        bytes: &[u8],
        stamp: ReadStamp,
        at: &mut usize,
        blocks: &mut impl Blocks,
    ) -> Result<Progress, Ending> {
        self.note(Note::Read(stamp), blocks)?;
        self.trailing = false;
        let mut progress = Progress::More;
        while *at < bytes.len() && progress == Progress::More {
            let rest = &bytes[*at..];
            let (taken, next) = match &mut self.receive {
                Receive::Over => break,
                Receive::Head => self.read_head(rest, blocks)?,
                Receive::Stream { .. } => self.read_stream(rest, blocks)?,
                Receive::Whole { .. } => self.read_whole(rest, blocks)?,
            };
            *at += taken;
            progress = next;
        }
        if self.trailing {
            self.note(Note::Trailing, blocks)?;
        }
        Ok(progress)
    }

    fn read_head(&mut self, input: &[u8], blocks: &mut impl Blocks) -> Result<(usize, Progress), Ending> {
        let whole = if self.head.is_empty() { head::parse_whole(input) } else { Ok(None) };
        let (taken, head) = match whole.map_err(|e| Ending::Protocol(e.into()))? {
            Some((taken, head)) => {
                self.note(Note::Head(&input[..taken]), blocks)?;
                (taken, head)
            }
            None => {
                let (taken, head) = self.head.push(input).map_err(|e| Ending::Protocol(e.into()))?;
                let Some(head) = head else { return Ok((taken, Progress::More)) };
                let collected = Note::Head(self.head.bytes());
                self.tape.write(collected, blocks).map_err(|NoBlock| Ending::Client(ClientFault::Pool))?;
                (taken, head)
            }
        };
        self.note(Note::HeadEnd, blocks)?;
        if head.status < 200 {
            self.interim += 1;
            if head.status == 101 || self.interim > MAX_INTERIM {
                return Err(Ending::Protocol(ProtocolError::Interim));
            }
            self.head.clear();
            return Ok((taken, Progress::More));
        }
        let progress = self.begin_body(head, blocks)?;
        Ok((taken, progress))
    }

    fn begin_body(&mut self, head: ResponseHead, blocks: &mut impl Blocks) -> Result<Progress, Ending> {
        let success = (200..300).contains(&head.status);
        self.status = Some(head.status);
        self.keep_alive = head.keep_alive;
        if head.encoded && head.framing != Framing::Empty && success {
            return Err(Ending::Protocol(ProtocolError::Compressed));
        }
        let body = Body::new(head.framing);
        // a success that does not say it is JSON is read as the stream that was asked for
        let stream =
            success && (head.media == MediaType::EventStream || self.streamed && head.media != MediaType::Json);
        self.receive = match stream {
            true => Receive::Stream { body, sse: Sse::default() },
            false => Receive::Whole { body, kept: 0, success },
        };
        self.end_if_done(body, blocks)
    }

    fn read_stream(&mut self, input: &[u8], blocks: &mut impl Blocks) -> Result<(usize, Progress), Ending> {
        let Receive::Stream { body, .. } = &mut self.receive else { return Ok((0, Progress::More)) };
        let (taken, piece) = body.next(input).map_err(|e| Ending::Protocol(e.into()))?;
        let body = *body;
        if let Piece::Payload(mut payload) = piece {
            while !payload.is_empty() {
                let Receive::Stream { sse, .. } = &mut self.receive else { break };
                let (n, item) = sse.next(payload).map_err(|e| Ending::Protocol(e.into()))?;
                payload = &payload[n..];
                self.trailing |= n > 0;
                if let Some(item) = item {
                    self.take_item(item, Dispatch::Whole, blocks)?;
                }
            }
        }
        Ok((taken, self.end_if_done(body, blocks)?))
    }

    fn take_item(&mut self, item: Item<'_>, how: Dispatch, blocks: &mut impl Blocks) -> Result<(), Ending> {
        match item {
            Item::Data(bytes) => {
                let room = self.event_start.len() - self.event_len.min(self.event_start.len());
                let n = bytes.len().min(room);
                let start = self.event_len.min(self.event_start.len());
                self.event_start[start..start + n].copy_from_slice(&bytes[..n]);
                self.event_len += bytes.len();
                self.note(Note::Data(bytes), blocks)
            }
            Item::EventName(bytes) => {
                self.has_name = true;
                self.note(Note::EventName(bytes), blocks)
            }
            Item::ErrorStart => {
                self.has_name = true;
                self.note(Note::ErrorField(b""), blocks)
            }
            Item::ErrorField(bytes) => self.note(Note::ErrorField(bytes), blocks),
            Item::Comment => self.note(Note::KeepAlive, blocks),
            Item::Blank { data_line, has_data } => {
                let event = match (how, has_data) {
                    (_, false) => None,
                    (Dispatch::Whole, true) if self.is_done() => Some(Dispatch::Done),
                    (Dispatch::Unterminated, true) if self.is_done() => Some(Dispatch::UnterminatedDone),
                    (how, true) => Some(how),
                };
                if let Some(how) = event {
                    self.seen_done |= matches!(how, Dispatch::Done | Dispatch::UnterminatedDone);
                    self.note(Note::Event(how), blocks)?;
                    self.trailing = false;
                } else if self.has_name {
                    self.note(Note::Event(Dispatch::Bare), blocks)?;
                } else if data_line {
                    self.note(Note::KeepAlive, blocks)?;
                }
                self.end_event();
                Ok(())
            }
        }
    }

    fn read_whole(&mut self, input: &[u8], blocks: &mut impl Blocks) -> Result<(usize, Progress), Ending> {
        let Receive::Whole { body, kept, success } = &mut self.receive else { return Ok((0, Progress::More)) };
        let (taken, piece) = body.next(input).map_err(|e| Ending::Protocol(e.into()))?;
        let body = *body;
        if let Piece::Payload(payload) = piece {
            let limit = if *success { MAX_WHOLE_BODY_BYTES } else { MAX_ERROR_BODY_BYTES };
            let room = usize::try_from(limit - *kept).unwrap_or(usize::MAX);
            if payload.len() > room && *success {
                return Err(Ending::Protocol(ProtocolError::TooLong));
            }
            let keep = &payload[..payload.len().min(room)];
            *kept += keep.len() as u64;
            if !keep.is_empty() {
                self.note(Note::Body(keep), blocks)?;
            }
        }
        Ok((taken, self.end_if_done(body, blocks)?))
    }

    #[inline]
    fn end_if_done(&mut self, body: Body, blocks: &mut impl Blocks) -> Result<Progress, Ending> {
        if body != Body::Done {
            return Ok(Progress::More);
        }
        let tail = match &mut self.receive {
            Receive::Stream { sse, .. } => sse.finish(),
            _ => None,
        };
        self.finish_stream(tail, blocks).map_err(|NoBlock| Ending::Client(ClientFault::Pool))?;
        self.receive = Receive::Over;
        Ok(Progress::Over(Ending::Complete))
    }

    fn finish_stream(&mut self, tail: Option<Item<'_>>, blocks: &mut impl Blocks) -> Result<(), NoBlock> {
        if let Some(tail) = tail {
            self.take_item(tail, Dispatch::Unterminated, blocks).map_err(|_| NoBlock)?;
        }
        self.tape.write(Note::BodyEnd, blocks)
    }

    fn is_done(&self) -> bool {
        self.event_len <= self.event_start.len() && self.event_start[..self.event_len].trim_ascii() == b"[DONE]"
    }

    fn end_event(&mut self) {
        self.event_len = 0;
        self.has_name = false;
    }

    fn note(&mut self, note: Note<'_>, blocks: &mut impl Blocks) -> Result<(), Ending> {
        self.tape.write(note, blocks).map_err(|NoBlock| Ending::Client(ClientFault::Pool))
    }
}
