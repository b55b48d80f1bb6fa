//! Truth kept in memory while a reply runs, and written as text in the gaps between deadlines.

use super::log_file::LogFile;
use crate::truth::Summary;
use bench_engine::clock::ClockMap;
use bench_engine::units::{Instant, Nanos, WallInstant};
use std::collections::VecDeque;
use std::io;

/// Chunks formatted in one step: about 5 us.
const CHUNKS_PER_STEP: usize = 16;
/// Bytes handed to the file's thread at once.
const WRITE_SIZE: usize = 64 << 10;
/// A record that waits longer is formatted whether there is a gap or not.
const PATIENCE: Nanos = Nanos::from_millis(100);
/// Chunks and rows that may wait before pacing has to.
const BACKLOG_LIMIT: usize = 2 << 20;

/// One token event, stamps still in the kernel's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    pub due: Instant,
    pub before_write: Instant,
    /// Zero until the kernel has its last byte.
    pub written: Instant,
    /// Zero when there is none.
    pub left: WallInstant,
    pub left_seen: Instant,
    pub bytes: u32,
    pub tokens: u32,
}

/// One request's truth in the making.
#[derive(Debug)]
pub(super) struct Record {
    pub nonce: String,
    pub model: String,
    pub conn: u64,
    pub peer_port: u16,
    pub request_no: u64,
    pub rx: Option<WallInstant>,
    pub rx_user: Instant,
    /// None while it waits for its turn, and for scripts.
    pub started: Option<Instant>,
    pub head_written: Option<Instant>,
    pub chunks: Vec<Chunk>,
    pub done_written: Option<Instant>,
    pub tokens: u64,
    pub aborted: bool,
    pub blocked: bool,
    /// When nothing more could be added; the clock map must reach it before stamps are placed.
    pub closed: Instant,
    pub stamps_asked: u32,
}

/// The row being formatted.
#[derive(Debug)]
struct Row {
    record: Record,
    next_chunk: usize,
}

/// The truth log's writer.
#[derive(Debug, Default)]
pub(super) struct Journal {
    file: Option<LogFile>,
    waiting: VecDeque<Record>,
    row: Option<Row>,
    text: Vec<u8>,
    backlog: usize,
    pub(super) totals: Summary,
}

impl Journal {
    pub(super) fn new(file: Option<LogFile>) -> Self {
        Journal { file, text: Vec::with_capacity(2 * WRITE_SIZE), ..Journal::default() }
    }

    /// Takes a closed record.
    pub(super) fn push(&mut self, record: Record) {
        self.totals.requests += 1;
        self.totals.aborted += u64::from(record.aborted);
        self.totals.blocked += u64::from(record.blocked);
        self.totals.events += record.chunks.len() as u64;
        self.totals.tx_stamps_asked += u64::from(record.stamps_asked);
        self.backlog += record.chunks.len() + 1;
        self.waiting.push_back(record);
    }

    /// The backlog is over its bound: pacing must wait for the log.
    pub(super) fn is_full(&self) -> bool {
        self.backlog > BACKLOG_LIMIT
    }

    /// Whether [`Journal::step`] has something to do, once the clock map reaches the next record.
    pub(super) fn has_work(&self, map: &ClockMap) -> bool {
        self.row.is_some() || self.waiting.front().is_some_and(|r| reaches(map, r))
    }

    /// Whether a record has waited so long that it must not wait for a gap any longer.
    pub(super) fn is_pressed(&self, now: Instant) -> bool {
        let since = self.row.as_ref().map(|row| row.record.closed).or(self.waiting.front().map(|record| record.closed));
        since.is_some_and(|since| now.saturating_since(since) > PATIENCE)
    }

    /// A few microseconds of work: some chunks of a row, a block to the file's thread. With `wait` that thread is
    /// waited for where it is behind; else the work is put off.
    pub(super) fn step(&mut self, map: &ClockMap, wait: bool) -> io::Result<()> {
        if self.text.len() >= WRITE_SIZE && !self.hand_over(wait)? {
            return Ok(());
        }
        let mut row = match self.row.take() {
            Some(row) => row,
            None => {
                if !self.waiting.front().is_some_and(|record| reaches(map, record)) {
                    return Ok(());
                }
                let Some(record) = self.waiting.pop_front() else { return Ok(()) };
                self.backlog -= record.chunks.len() + 1;
                self.totals.rx_stamps_missing += u64::from(rx_of(&record, map).is_none());
                if self.file.is_some() {
                    row_start(&mut self.text, &record, map);
                }
                Row { record, next_chunk: 0 }
            }
        };
        let to = (row.next_chunk + CHUNKS_PER_STEP).min(row.record.chunks.len());
        let mut placed = 0;
        for (at, chunk) in row.record.chunks[row.next_chunk..to].iter().enumerate() {
            let left = (chunk.left.ns() > 0).then(|| map.map(chunk.left, chunk.left_seen).ok()).flatten();
            placed += u32::from(left.is_some());
            if self.file.is_some() {
                chunk_text(&mut self.text, chunk, left, row.next_chunk + at == 0);
            }
        }
        row.next_chunk = to;
        row.record.stamps_asked -= placed;
        if to < row.record.chunks.len() {
            self.row = Some(row);
            return Ok(());
        }
        self.totals.tx_stamps_missing += u64::from(row.record.stamps_asked);
        if self.file.is_some() {
            row_end(&mut self.text, &row.record);
        }
        Ok(())
    }

    /// What is formatted goes to the file's thread, if that has room.
    pub(super) fn hand_over(&mut self, wait: bool) -> io::Result<bool> {
        match &mut self.file {
            Some(file) if !self.text.is_empty() => file.hand_over(&mut self.text, wait),
            _ => Ok(true),
        }
    }

    /// Everything that waits goes to the file, however long that takes.
    pub(super) fn flush(&mut self, map: &ClockMap) -> io::Result<()> {
        while self.has_work(map) {
            self.step(map, true)?;
        }
        self.hand_over(true).map(|_| ())
    }

    /// The last line.
    pub(super) fn finish(&mut self, summary: &Summary) -> io::Result<()> {
        if self.file.is_some() {
            let json = serde_json::to_string(summary).map_err(io::Error::other)?;
            self.text.extend_from_slice(format!("{{\"summary\":{json}}}\n").as_bytes());
        }
        self.hand_over(true)?;
        self.file.as_mut().map_or(Ok(()), LogFile::end)
    }
}

fn reaches(map: &ClockMap, record: &Record) -> bool {
    map.covered_until().is_some_and(|until| until >= record.closed)
}

fn rx_of(record: &Record, map: &ClockMap) -> Option<Instant> {
    record.rx.and_then(|stamp| map.map(stamp, record.rx_user).ok())
}

fn row_start(text: &mut Vec<u8>, record: &Record, map: &ClockMap) {
    text.extend_from_slice(b"{\"nonce\":");
    text.extend_from_slice(serde_json::Value::from(record.nonce.as_str()).to_string().as_bytes());
    text.extend_from_slice(b",\"model\":");
    text.extend_from_slice(serde_json::Value::from(record.model.as_str()).to_string().as_bytes());
    number(text, b",\"conn\":", Some(record.conn));
    number(text, b",\"peer_port\":", Some(u64::from(record.peer_port)));
    number(text, b",\"request_no\":", Some(record.request_no));
    number(text, b",\"rx\":", rx_of(record, map).map(Instant::ns));
    number(text, b",\"rx_user\":", Some(record.rx_user.ns()));
    number(text, b",\"started\":", record.started.map(Instant::ns));
    number(text, b",\"head_written\":", record.head_written.map(Instant::ns));
    text.extend_from_slice(b",\"chunks\":[");
}

fn chunk_text(text: &mut Vec<u8>, chunk: &Chunk, left: Option<Instant>, first: bool) {
    number(text, if first { b"[" } else { b",[" }, Some(chunk.due.ns()));
    number(text, b",", Some(chunk.before_write.ns()));
    number(text, b",", Some(chunk.written.ns()));
    number(text, b",", left.map(Instant::ns));
    number(text, b",", Some(u64::from(chunk.bytes)));
    number(text, b",", Some(u64::from(chunk.tokens)));
    text.push(b']');
}

fn row_end(text: &mut Vec<u8>, record: &Record) {
    number(text, b"],\"done_written\":", record.done_written.map(Instant::ns));
    number(text, b",\"tokens\":", Some(record.tokens));
    let (aborted, blocked) = (record.aborted, record.blocked);
    text.extend_from_slice(format!(",\"aborted\":{aborted},\"blocked\":{blocked}}}\n").as_bytes());
}

/// `label`, then the number or null.
fn number(text: &mut Vec<u8>, label: &[u8], value: Option<u64>) {
    text.extend_from_slice(label);
    let Some(mut rest) = value else {
        text.extend_from_slice(b"null");
        return;
    };
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    text.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::truth::{TruthChunk, TruthRow};
    use bench_engine::clock::ClockPair;
    use std::fs::File;

    #[test]
    fn a_row_in_many_steps_reads_back_with_its_stamps_placed() {
        let mut map = ClockMap::default();
        let at = Instant::from_ns;
        map.observe(ClockPair { before: at(1), wall: WallInstant::from_ns(1_000_001), after: at(1) });
        let chunks = (0..40)
            .map(|k| Chunk {
                due: at(100 + k),
                before_write: at(200 + k),
                written: at(300 + k),
                left: WallInstant::from_ns(if k % 2 == 0 { 1_000_250 + k } else { 0 }),
                left_seen: at(400),
                bytes: 7,
                tokens: 1,
            })
            .collect();
        let record = Record {
            nonce: "a\"b".into(),
            model: "m".into(),
            conn: 3,
            peer_port: 4,
            request_no: 5,
            rx: Some(WallInstant::from_ns(1_000_010)),
            rx_user: at(20),
            started: Some(at(15)),
            head_written: None,
            chunks,
            done_written: Some(at(500)),
            tokens: 40,
            aborted: false,
            blocked: true,
            closed: at(600),
            stamps_asked: 21,
        };
        let path = std::env::temp_dir().join(format!("tarebench-journal-{}.jsonl", std::process::id()));
        let mut journal = Journal::new(Some(LogFile::new(File::create(&path).unwrap()).unwrap()));
        journal.push(record);
        assert!(!journal.has_work(&map), "the clock map does not reach the record yet");
        map.observe(ClockPair { before: at(700), wall: WallInstant::from_ns(1_000_700), after: at(700) });
        journal.flush(&map).unwrap();
        journal.finish(&Summary::default()).unwrap();
        let log = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let (rows, summary): (Vec<TruthRow>, _) = crate::truth::read_truth(&log[..]).unwrap();
        assert_eq!(summary, Some(Summary::default()));
        let row = &rows[0];
        assert_eq!(row.started, Some(15));
        assert_eq!((row.nonce.as_str(), row.rx, row.done_written, row.blocked), ("a\"b", Some(10), Some(500), true));
        assert_eq!(row.chunks.len(), 40);
        let third = TruthChunk { due: 102, before_write: 202, written: 302, left: Some(252), bytes: 7, tokens: 1 };
        assert_eq!(row.chunks[2], third);
        assert_eq!(row.chunks[3].left, None);
        assert_eq!((journal.totals.tx_stamps_asked, journal.totals.tx_stamps_missing), (21, 1));
    }

    #[test]
    fn numbers() {
        for n in [0, 9, 10, 1_234_567_890, u64::MAX] {
            let mut text = Vec::new();
            number(&mut text, b"", Some(n));
            assert_eq!(text, n.to_string().into_bytes());
        }
    }
}
