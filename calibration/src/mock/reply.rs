//! One reply as a sequence of writes, each with its due time and its truth.

use super::connection::{Wire, Wrote};
use super::journal::{Chunk, Record};
use super::openai::StreamBytes;
use super::script::Case;
use super::timeline::Timeline;
use bench_engine::clock::{Clock, SystemClock};
use bench_engine::units::{Instant, WallInstant};
use std::sync::Arc;

/// What is written, and when.
#[derive(Debug)]
pub(super) enum Score {
    /// One write, at once, without truth.
    Plain,
    /// A head, then one write for each token event, then the tail right after the last.
    Stream { bytes: Box<StreamBytes>, timeline: Timeline, next: u32 },
    /// One write when the last token is due.
    Whole { bytes: Vec<u8>, tokens: u32 },
    /// A recorded stream, in pieces of at most `piece` bytes.
    Script { case: Arc<Case>, arrival: Instant, next: usize, offset: usize, piece: usize },
}

/// What the write in progress is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Head,
    Chunk { whole: bool },
    Tail,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    At(Instant),
    /// When the socket takes bytes again.
    Writable,
    Done,
    /// The client went away.
    Gone,
}

/// A reply being written.
#[derive(Debug)]
pub(super) struct Reply {
    pub score: Score,
    /// None when nobody is to know the truth (errors, lists of models).
    pub record: Option<Record>,
    /// Close the connection afterwards.
    pub close: bool,
    due: Instant,
    part: Part,
    /// Chunks due before this waited for the client, not for us.
    free_since: Instant,
    stamp_every: u32,
    stamping: bool,
}

impl Reply {
    /// A reply whose head is written by [`Reply::start`] and whose first write after that is due at `due`.
    pub(super) fn new(score: Score, record: Option<Record>, close: bool, due: Instant, stamp_every: u32) -> Self {
        let free_since = Instant::from_ns(0);
        Reply { score, record, close, due, part: Part::Head, free_since, stamp_every, stamping: false }
    }

    /// When the first write after the head is due.
    pub(super) fn first_due(&self) -> Instant {
        self.due
    }

    /// Writes the head (of a plain reply, everything).
    pub(super) fn start(&mut self, head: &[u8], wire: &mut Wire, clock: &SystemClock) -> Next {
        self.part = Part::Head;
        self.stamping = false;
        // stamps of heads are of no use
        if self.stamp_every > 1 {
            wire.want_stamp(false);
        }
        match wire.write(head) {
            Wrote::All => self.completed(wire, clock, clock.now(), None),
            Wrote::Part => self.blocked(),
            Wrote::Gone => Next::Gone,
        }
    }

    /// Writes what is due. `lateness` is told written - due in ns of each event that did not wait for the client.
    pub(super) fn serve(&mut self, wire: &mut Wire, clock: &SystemClock, lateness: &mut dyn FnMut(u64)) -> Next {
        if wire.has_rest() {
            return match wire.flush() {
                Wrote::All => {
                    let now = clock.now();
                    self.free_since = now;
                    self.completed(wire, clock, now, None)
                }
                Wrote::Part => Next::Writable,
                Wrote::Gone => Next::Gone,
            };
        }
        let before_write = clock.now();
        if before_write < self.due {
            return Next::At(self.due);
        }
        let chunk_no = self.record.as_ref().map_or(0, |record| record.chunks.len() as u32);
        let stamped = self.stamp_every > 0 && chunk_no.is_multiple_of(self.stamp_every);
        self.stamping = self.stamp_every > 0 && wire.want_stamp(stamped) && stamped;
        let due = self.due;
        let (wrote, bytes, tokens, whole) = match &mut self.score {
            Score::Plain => return Next::Done,
            Score::Stream { bytes, next, .. } => {
                let (bytes, tokens) = bytes.event(*next);
                (wire.write(bytes), bytes.len(), tokens, true)
            }
            Score::Whole { bytes, tokens } => (wire.write(bytes), bytes.len(), *tokens, true),
            Score::Script { case, next, offset, piece, .. } => {
                let Some((_, bytes)) = case.writes.get(*next) else { return self.finished(before_write) };
                let to = offset.saturating_add(*piece).min(bytes.len());
                let out = &bytes[*offset..to];
                (wire.write(out), out.len(), 0, to == bytes.len())
            }
        };
        if wrote == Wrote::Gone {
            return Next::Gone;
        }
        if let Some(record) = &mut self.record {
            record.chunks.push(Chunk {
                due,
                before_write,
                written: Instant::from_ns(0),
                left: WallInstant::from_ns(0),
                left_seen: Instant::from_ns(0),
                bytes: bytes as u32,
                tokens,
            });
        }
        self.part = Part::Chunk { whole };
        if wrote == Wrote::Part {
            return self.blocked();
        }
        let written = clock.now();
        let on_time = (due >= self.free_since).then_some(lateness);
        self.completed(wire, clock, written, on_time)
    }

    fn blocked(&mut self) -> Next {
        if let Some(record) = &mut self.record {
            record.blocked = true;
        }
        Next::Writable
    }

    /// The write in progress is with the kernel.
    fn completed(
        &mut self,
        wire: &mut Wire,
        clock: &SystemClock,
        now: Instant,
        lateness: Option<&mut dyn FnMut(u64)>,
    ) -> Next {
        match self.part {
            Part::Head => {
                if let Some(record) = &mut self.record {
                    record.head_written = Some(now);
                }
                match &self.score {
                    Score::Plain => Next::Done,
                    Score::Script { case, .. } if case.writes.is_empty() => self.finished(now),
                    _ => Next::At(self.due),
                }
            }
            Part::Chunk { whole } => {
                if let Some(record) = &mut self.record {
                    let at = record.chunks.len() - 1;
                    let chunk = &mut record.chunks[at];
                    chunk.written = now;
                    record.tokens += u64::from(chunk.tokens);
                    if let Some(lateness) = lateness {
                        lateness(now.saturating_since(chunk.due).ns());
                    }
                    if self.stamping && chunk.bytes > 0 {
                        record.stamps_asked += 1;
                        wire.await_stamp(at as u32);
                    }
                }
                self.step(whole, wire, clock, now)
            }
            Part::Tail => self.finished(now),
        }
    }

    /// After a chunk: on to the next, or to the end.
    fn step(&mut self, whole: bool, wire: &mut Wire, clock: &SystemClock, now: Instant) -> Next {
        match &mut self.score {
            Score::Plain => self.finished(now),
            Score::Whole { .. } => {
                if let Some(record) = &mut self.record {
                    record.head_written = Some(now);
                }
                self.finished(now)
            }
            Score::Stream { bytes, timeline, next } => {
                *next += 1;
                if *next < bytes.events() {
                    self.due = timeline.advance();
                    return Next::At(self.due);
                }
                if self.stamp_every > 1 {
                    wire.want_stamp(false);
                }
                self.part = Part::Tail;
                match wire.write(bytes.tail()) {
                    Wrote::All => self.finished(clock.now()),
                    Wrote::Part => self.blocked(),
                    Wrote::Gone => Next::Gone,
                }
            }
            Score::Script { case, arrival, next, offset, piece } => {
                if whole {
                    (*next, *offset) = (*next + 1, 0);
                } else {
                    *offset += *piece;
                }
                match case.writes.get(*next) {
                    Some((after, _)) => {
                        self.due = *arrival + *after;
                        Next::At(self.due)
                    }
                    None => self.finished(now),
                }
            }
        }
    }

    fn finished(&mut self, now: Instant) -> Next {
        if let Some(record) = &mut self.record {
            record.done_written = Some(now);
        }
        Next::Done
    }
}
