//! One reply as a sequence of writes, each with its due time and its truth.

use super::SplitWrites;
use super::admission::Turn;
use super::connection::{Wire, Wrote};
use super::journal::{Chunk, Record};
use super::metrics::{Metrics, Stages};
use super::openai::StreamBytes;
use super::script::Case;
use super::timeline::Timeline;
use bench_engine::clock::{Clock, SystemClock};
use bench_engine::units::{Instant, Nanos, WallInstant};
use std::sync::Arc;

/// What is written, and when.
#[derive(Debug)]
pub(super) enum Score {
    /// One write, at once, without truth.
    Plain,
    /// A head, then the token events, `merge` of them in a write, then the tail right after the last.
    Stream { bytes: Box<StreamBytes>, timeline: Timeline, next: u32, merge: u32 },
    /// One write when the last of `events` events would be due.
    Whole { bytes: Vec<u8>, tokens: u32, events: u32, timeline: Timeline },
    /// A recorded stream, in pieces of at most `piece` bytes.
    Script { case: Arc<Case>, arrival: Instant, next: usize, offset: usize, piece: usize },
}

/// What the write in progress is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Head,
    /// A piece of a split write, not its last.
    Piece,
    /// The end of a write with chunks in it. `whole`: of a script, the end of a recorded write.
    Chunks {
        whole: bool,
    },
    Tail,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    At(Instant),
    /// When the socket takes bytes again.
    Writable,
    /// When there is a place to run.
    Turn,
    Done,
    /// The client went away.
    Gone,
}

/// A reply being written.
#[derive(Debug)]
pub(super) struct Reply {
    score: Score,
    /// None when nobody is to know the truth (errors, lists of models).
    pub record: Option<Record>,
    /// None for what is no request for tokens.
    pub stages: Option<Stages>,
    pub turn: Turn,
    /// Close the connection afterwards.
    pub close: bool,
    /// Of the next write, or of the next piece of one.
    due: Instant,
    /// Of the events in the write, and when its first piece was due.
    dues: Vec<Instant>,
    write_due: Instant,
    /// A write of several events or pieces, how much of it has gone, and in how many pieces.
    write: Vec<u8>,
    write_from: usize,
    pieces: u32,
    /// Number of the first chunk of the write, and how many chunks it has.
    first_chunk: u32,
    chunks: u32,
    part: Part,
    /// Chunks due before this waited for the client, or for pieces that were to come late; not for us.
    free_since: Instant,
    split: Option<SplitWrites>,
    stamp_every: u32,
    stamping: bool,
}

impl Reply {
    /// A reply whose head is written by [`Reply::start`]. What has a timeline needs [`Reply::run`].
    pub(super) fn new(score: Score, record: Option<Record>, close: bool) -> Self {
        let due = match &score {
            Score::Script { case, arrival, .. } => *arrival + case.writes.first().map_or(Nanos::ZERO, |(at, _)| *at),
            _ => Instant::from_ns(0),
        };
        Reply {
            score,
            record,
            stages: None,
            turn: Turn::Exempt,
            close,
            due,
            dues: Vec::new(),
            write_due: due,
            write: Vec::new(),
            write_from: 0,
            pieces: 0,
            first_chunk: 0,
            chunks: 0,
            part: Part::Head,
            free_since: Instant::from_ns(0),
            split: None,
            stamp_every: 0,
            stamping: false,
        }
    }

    /// Kernel stamps on each k-th chunk, and token events in pieces.
    pub(super) fn written(self, stamp_every: u32, split: Option<SplitWrites>) -> Self {
        Reply { stamp_every, split, ..self }
    }

    /// It has its turn: the timeline starts at `at`.
    pub(super) fn run(&mut self, at: Instant) {
        self.turn = Turn::Running;
        if let Some(record) = &mut self.record {
            record.started = Some(at);
        }
        if let Some(stages) = &mut self.stages {
            stages.started = at;
        }
        match &mut self.score {
            Score::Stream { timeline, .. } => {
                timeline.start(at);
                self.plan();
            }
            Score::Whole { timeline, events, .. } => {
                timeline.start(at);
                self.due = timeline.nth(*events);
            }
            Score::Plain | Score::Script { .. } => {}
        }
    }

    /// When the next write is due.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Lays down when the events of the next write are due; the write is due with the last of them.
    fn plan(&mut self) {
        let Score::Stream { bytes, timeline, next, merge } = &mut self.score else { return };
        self.dues.clear();
        self.dues.extend((*next..bytes.events()).take(*merge as usize).map(|_| timeline.advance()));
        self.due = self.dues.last().copied().unwrap_or(self.due);
        self.write_due = self.due;
        self.pieces = 0;
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
            Wrote::All => {
                let now = clock.now();
                self.head_written(now)
            }
            Wrote::Part => self.blocked(),
            Wrote::Gone => Next::Gone,
        }
    }

    /// What comes first when no head is written at once.
    pub(super) fn first(&self) -> Next {
        if self.turn == Turn::Waiting { Next::Turn } else { Next::At(self.due) }
    }

    /// Writes what is due; `metrics` are told of tokens, and of the lateness of each write that did not wait for the
    /// client.
    pub(super) fn serve(&mut self, wire: &mut Wire, clock: &SystemClock, metrics: &mut Metrics) -> Next {
        if wire.has_rest() {
            return match wire.flush() {
                Wrote::All => {
                    let now = clock.now();
                    self.free_since = now;
                    self.completed(wire, clock, now, metrics)
                }
                Wrote::Part => Next::Writable,
                Wrote::Gone => Next::Gone,
            };
        }
        if self.turn == Turn::Waiting {
            return Next::Turn;
        }
        let before_write = clock.now();
        if before_write < self.due {
            return Next::At(self.due);
        }
        let mut record = self.record.as_mut();
        let known = record.as_ref().map_or(0, |record| record.chunks.len() as u32);
        let mut note = |due, bytes: usize, tokens| {
            if let Some(record) = &mut record {
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
        };
        let is_new = self.write_from == self.write.len();
        if is_new {
            (self.first_chunk, self.chunks) = (known, 1);
        }
        let (out, part) = match &mut self.score {
            Score::Plain => return Next::Done,
            Score::Whole { bytes, tokens, .. } => {
                note(self.due, bytes.len(), *tokens);
                (bytes.as_slice(), Part::Chunks { whole: true })
            }
            Score::Script { case, next, offset, piece, .. } => {
                let Some((_, bytes)) = case.writes.get(*next) else { return self.finished(before_write) };
                let to = offset.saturating_add(*piece).min(bytes.len());
                note(self.due, to - *offset, 0);
                (&bytes[*offset..to], Part::Chunks { whole: to == bytes.len() })
            }
            Score::Stream { bytes, next, .. } => {
                let role = if *next == 0 { bytes.role() } else { &[] };
                if let ([due], true, None) = (self.dues.as_slice(), role.is_empty(), self.split) {
                    let (out, tokens) = bytes.event(*next);
                    note(*due, out.len(), tokens);
                    (out, Part::Chunks { whole: true })
                } else {
                    if is_new {
                        self.write.clear();
                        self.write_from = 0;
                        self.write.extend_from_slice(role);
                        let mut from = 0;
                        for (k, due) in self.dues.iter().enumerate() {
                            let (out, tokens) = bytes.event(*next + k as u32);
                            self.write.extend_from_slice(out);
                            note(*due, self.write.len() - from, tokens);
                            from = self.write.len();
                        }
                        self.chunks = self.dues.len() as u32;
                    }
                    let size = self.split.map_or(usize::MAX, |split| split.bytes);
                    let to = self.write_from.saturating_add(size).min(self.write.len());
                    let out = &self.write[self.write_from..to];
                    self.write_from = to;
                    (out, if to == self.write.len() { Part::Chunks { whole: true } } else { Part::Piece })
                }
            }
        };
        self.part = part;
        let stamped = self.stamp_every > 0
            && part != Part::Piece
            && self.first_chunk.next_multiple_of(self.stamp_every) < self.first_chunk + self.chunks;
        self.stamping = self.stamp_every > 0 && wire.want_stamp(stamped) && stamped;
        match wire.write(out) {
            Wrote::Gone => Next::Gone,
            Wrote::Part => self.blocked(),
            Wrote::All => self.completed(wire, clock, clock.now(), metrics),
        }
    }

    fn blocked(&mut self) -> Next {
        // what is due before the client has taken this waits for the client
        self.free_since = Instant::from_ns(u64::MAX);
        if let Some(record) = &mut self.record {
            record.blocked = true;
        }
        Next::Writable
    }

    fn head_written(&mut self, now: Instant) -> Next {
        if let Some(record) = &mut self.record {
            record.head_written = Some(now);
        }
        match &self.score {
            Score::Plain => Next::Done,
            Score::Script { case, .. } if case.writes.is_empty() => self.finished(now),
            _ => self.first(),
        }
    }

    /// The write in progress is with the kernel.
    fn completed(&mut self, wire: &mut Wire, clock: &SystemClock, now: Instant, metrics: &mut Metrics) -> Next {
        match self.part {
            Part::Head => self.head_written(now),
            Part::Piece => {
                self.pieces += 1;
                let pause = self.split.map_or(0, |split| split.pause.ns());
                self.due = self.write_due + Nanos::from_ns(pause.saturating_mul(u64::from(self.pieces)));
                Next::At(self.due)
            }
            Part::Chunks { whole } => {
                self.chunks_written(wire, now, metrics);
                self.step(whole, wire, clock, now)
            }
            Part::Tail => self.finished(now),
        }
    }

    fn chunks_written(&mut self, wire: &mut Wire, now: Instant, metrics: &mut Metrics) {
        let Some(record) = &mut self.record else { return };
        let (first, chunks) = (self.first_chunk, self.chunks);
        for chunk in record.chunks.iter_mut().skip(first as usize) {
            chunk.written = now;
            record.tokens += u64::from(chunk.tokens);
            if let Some(stages) = &mut self.stages {
                match &self.score {
                    Score::Whole { .. } => metrics.whole_reply(stages, chunk.tokens, now),
                    _ => metrics.token_event(stages, chunk.tokens, now),
                }
            }
        }
        if self.due >= self.free_since {
            metrics.lateness.add(now.saturating_since(self.due).ns());
        }
        if self.pieces > 0 {
            // what falls due while pieces go out is late by order
            self.free_since = now;
        }
        if self.stamping && record.chunks.last().is_some_and(|chunk| chunk.bytes > 0) {
            record.stamps_asked += chunks;
            wire.await_stamp(first, chunks);
        }
    }

    /// After a write: on to the next, or to the end.
    fn step(&mut self, whole: bool, wire: &mut Wire, clock: &SystemClock, now: Instant) -> Next {
        match &mut self.score {
            Score::Plain => self.finished(now),
            Score::Whole { .. } => {
                if let Some(record) = &mut self.record {
                    record.head_written = Some(now);
                }
                self.finished(now)
            }
            Score::Stream { bytes, next, .. } => {
                *next += self.chunks;
                if *next < bytes.events() {
                    self.plan();
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
