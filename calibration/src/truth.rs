//! The truth log: what the mock did and when, one JSON line a request, a summary line at the end.
//!
//! All times are absolute ns on CLOCK_MONOTONIC of the host.

mod fetch;

pub use fetch::{FetchTruthError, fetch_summary, fetch_truth};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead};

/// One request as the mock lived it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TruthRow {
    /// First whitespace-separated word of the first message or of the prompt (at most 256 characters).
    pub nonce: String,
    /// The model that was asked for.
    pub model: String,
    /// Serial number of the connection, from 0.
    pub conn: u64,
    /// The client's port.
    pub peer_port: u16,
    /// Number of this request on its connection, from 0.
    pub request_no: u64,
    /// Kernel receive stamp of the read that completed the request; null when it has no place on the axis.
    pub rx: Option<u64>,
    /// When that read was handed to the mock.
    pub rx_user: u64,
    /// When it began to run, which is where its timeline starts: its arrival, or when a place became free. Null while
    /// it waited, for scripts, and in logs that know no queue.
    #[serde(default)]
    pub started: Option<u64>,
    /// When the reply's head was written; null when it never was.
    pub head_written: Option<u64>,
    /// Token events, in order.
    pub chunks: Vec<TruthChunk>,
    /// When the last byte of the reply was written; null when it never was.
    pub done_written: Option<u64>,
    /// Tokens written.
    pub tokens: u64,
    /// The client went away, or the mock was stopped, before the reply was written.
    pub aborted: bool,
    /// A write had to wait for the client.
    pub blocked: bool,
}

/// One token event: `[due, before_write, written, left|null, bytes, tokens]`.
///
/// Of events that share a write (`--merge-writes`) each has its own `due` and `bytes`; the write's other times stand
/// with all of them. Of an event in pieces (`--split-writes`) `before_write` belongs to the first piece, `written` and
/// `left` to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "(u64, u64, u64, Option<u64>, u32, u32)", into = "(u64, u64, u64, Option<u64>, u32, u32)")]
pub struct TruthChunk {
    /// When the timeline wanted it written.
    pub due: u64,
    /// Read just before the write.
    pub before_write: u64,
    /// Read just after the kernel had taken its last byte.
    pub written: u64,
    /// Kernel transmit stamp of its last byte, where one was asked for and came back.
    pub left: Option<u64>,
    /// Its bytes in the write, framing included; of the first event of a chat with the role in front of it.
    pub bytes: u32,
    /// Tokens in it.
    pub tokens: u32,
}

impl From<(u64, u64, u64, Option<u64>, u32, u32)> for TruthChunk {
    fn from((due, before_write, written, left, bytes, tokens): (u64, u64, u64, Option<u64>, u32, u32)) -> Self {
        TruthChunk { due, before_write, written, left, bytes, tokens }
    }
}

impl From<TruthChunk> for (u64, u64, u64, Option<u64>, u32, u32) {
    fn from(c: TruthChunk) -> Self {
        (c.due, c.before_write, c.written, c.left, c.bytes, c.tokens)
    }
}

/// How the mock fared: its own fitness to tell the truth.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Summary {
    /// The mock was able to keep its timeline: what it measured of a client was the client.
    pub fit: bool,
    /// Why it was not.
    #[serde(default = "not_judged")]
    pub unfit_reason: Option<String>,
    /// Requests with a row in the log.
    pub requests: u64,
    /// Of these, cut short.
    pub aborted: u64,
    /// Of these, with a write that had to wait for the client.
    pub blocked: u64,
    /// Requests answered with an error status, without a row.
    pub refused: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Times accept failed for want of descriptors or memory.
    pub accept_failures: u64,
    /// Token events written.
    pub events: u64,
    /// Writes whose lateness counts below: those that never waited for the client. One write carries one event
    /// unless events are merged; of those the last one's due time counts.
    pub lateness_n: u64,
    /// Median of written - due, us; to 1 %.
    pub lateness_p50_us: Option<f64>,
    /// 99th percentile of written - due, us; to 1 %.
    pub lateness_p99_us: Option<f64>,
    /// Largest written - due, us.
    pub lateness_max_us: Option<f64>,
    /// User and system time of the mock's thread, s.
    pub cpu_s: f64,
    /// Of it, time spent waiting busily, s.
    pub spin_s: f64,
    /// From the start of the loop to its end, s.
    pub wall_s: f64,
    /// (cpu_s - spin_s) / wall_s: the share of its time in which it had work to do.
    pub busy_share: f64,
    /// Time the thread was ready to run and another had its core, s (`/proc/thread-self/schedstat`).
    pub run_delay_s: Option<f64>,
    /// Times another thread took its core away.
    pub involuntary_switches: u64,
    /// Most replies in flight at once.
    pub max_streams: u64,
    /// Most requests that waited for a place at once.
    pub max_waiting: u64,
    /// Half width of the bracket that places kernel stamps on the axis, ns.
    pub clock_uncertainty_ns: Option<u64>,
    /// Steps of the wall clock seen.
    pub clock_steps: u64,
    /// Transmit stamps asked for.
    pub tx_stamps_asked: u64,
    /// Of these, not come back.
    pub tx_stamps_missing: u64,
    /// Receive stamps that were missing or had no place on the axis.
    pub rx_stamps_missing: u64,
    /// Times pacing had to wait for the log because its backlog was full.
    pub log_stalls: u64,
}

/// A mock later than this at p99 has not kept its timeline, us.
const LATENESS_LIMIT_US: f64 = 1_000.0;
/// A mock busier than this has no room to keep it.
const BUSY_LIMIT: f64 = 0.85;

fn not_judged() -> Option<String> {
    Some("this log is from before the mock judged itself".to_owned())
}

impl Summary {
    /// Fills in `busy_share`, `fit` and `unfit_reason` from the other values.
    pub(crate) fn judge(&mut self) {
        self.busy_share = if self.wall_s > 0.0 { ((self.cpu_s - self.spin_s) / self.wall_s).max(0.0) } else { 0.0 };
        let late = self.lateness_p99_us.filter(|us| *us > LATENESS_LIMIT_US).map(|us| {
            let limit = LATENESS_LIMIT_US / 1e3;
            format!("1 % of its writes were more than {:.2} ms late (limit {limit} ms)", us / 1e3)
        });
        let busy = (self.busy_share > BUSY_LIMIT).then(|| {
            let limit = BUSY_LIMIT * 100.0;
            format!("it had work to do {:.0} % of the time (limit {limit} %)", self.busy_share * 100.0)
        });
        let reasons: Vec<String> = [late, busy].into_iter().flatten().collect();
        self.fit = reasons.is_empty();
        self.unfit_reason = (!self.fit).then(|| {
            format!(
                "{}: the mock, not the client, is the limit here; give it a core of its own, or ask less of it",
                reasons.join("; ")
            )
        });
    }
}

/// Reads a truth log: rows, and the summary when the mock ended in peace.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] names the line that is neither.
pub fn read_truth(log: impl BufRead) -> io::Result<(Vec<TruthRow>, Option<Summary>)> {
    let (mut rows, mut summary) = (Vec::new(), None);
    for (at, line) in log.lines().enumerate() {
        let named = |e: serde_json::Error| io::Error::new(io::ErrorKind::InvalidData, format!("line {}: {e}", at + 1));
        match read_line(&line?).map_err(named)? {
            Line::Row(row) => rows.push(*row),
            Line::Summary(last) => summary = Some(*last),
        }
    }
    Ok((rows, summary))
}

/// A line of the log.
enum Line {
    Row(Box<TruthRow>),
    Summary(Box<Summary>),
}

fn read_line(line: &str) -> serde_json::Result<Line> {
    #[derive(Deserialize)]
    struct SummaryLine {
        summary: Box<Summary>,
    }
    if line.starts_with("{\"summary\":") {
        return serde_json::from_str::<SummaryLine>(line).map(|line| Line::Summary(line.summary));
    }
    serde_json::from_str(line).map(Line::Row)
}

/// Counts of durations in ns in buckets less than 1 % wide; the largest is kept exactly.
#[derive(Clone, Debug)]
pub(crate) struct DurationCounts {
    counts: Vec<u64>,
    n: u64,
    max: u64,
}

/// Buckets per doubling, as a power of two.
const SUB_BITS: u32 = 7;

impl Default for DurationCounts {
    fn default() -> Self {
        DurationCounts { counts: vec![0; (65 - SUB_BITS as usize) << SUB_BITS], n: 0, max: 0 }
    }
}

impl DurationCounts {
    pub(crate) fn add(&mut self, ns: u64) {
        self.counts[bucket(ns)] += 1;
        self.n += 1;
        self.max = self.max.max(ns);
    }

    pub(crate) fn n(&self) -> u64 {
        self.n
    }

    pub(crate) fn max_us(&self) -> Option<f64> {
        (self.n > 0).then_some(self.max as f64 / 1e3)
    }

    /// Upper end of the bucket that holds the quantile; `q` in (0, 1].
    pub(crate) fn quantile_us(&self, q: f64) -> Option<f64> {
        let rank = (q * self.n as f64).ceil() as u64;
        let mut below = 0;
        let at = self.counts.iter().position(|count| {
            below += count;
            *count > 0 && below >= rank
        })?;
        Some(bucket_top(at).min(self.max) as f64 / 1e3)
    }
}

fn bucket(ns: u64) -> usize {
    if ns < 1 << SUB_BITS {
        return ns as usize;
    }
    let shift = 63 - ns.leading_zeros() - SUB_BITS;
    ((shift as usize + 1) << SUB_BITS) + (ns >> shift) as usize - (1 << SUB_BITS)
}

fn bucket_top(at: usize) -> u64 {
    if at < 1 << SUB_BITS {
        return at as u64;
    }
    let shift = (at >> SUB_BITS) as u32 - 1;
    let sub = (at & ((1 << SUB_BITS) - 1)) as u128 + (1 << SUB_BITS);
    (((sub + 1) << shift) - 1).min(u128::from(u64::MAX)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_their_values_to_one_percent() {
        for ns in (0..64).map(|k| 1u64 << k).flat_map(|p| [p - 1, p, p + 1, p + p / 3]).chain([u64::MAX]) {
            let top = bucket_top(bucket(ns));
            assert!(top >= ns && (top - ns) as f64 <= ns as f64 / 100.0, "{ns} in a bucket up to {top}");
        }
    }

    #[test]
    fn quantiles() {
        let mut counts = DurationCounts::default();
        assert_eq!(counts.quantile_us(0.5), None);
        (1..=100).for_each(|us| counts.add(us * 1_000));
        let p50 = counts.quantile_us(0.5).unwrap();
        assert!((49.9..=50.6).contains(&p50), "{p50}");
        assert_eq!(counts.quantile_us(1.0), Some(100.0));
        assert_eq!((counts.n(), counts.max_us()), (100, Some(100.0)));
    }

    #[test]
    fn a_log_reads_back() {
        let row = TruthRow {
            nonce: "n".into(),
            model: "m".into(),
            conn: 1,
            peer_port: 2,
            request_no: 3,
            rx: Some(4),
            rx_user: 5,
            started: Some(4),
            head_written: Some(6),
            chunks: vec![TruthChunk { due: 1, before_write: 2, written: 3, left: None, bytes: 4, tokens: 5 }],
            done_written: None,
            tokens: 5,
            aborted: true,
            blocked: false,
        };
        let line = serde_json::to_string(&row).unwrap();
        assert!(line.contains("\"chunks\":[[1,2,3,null,4,5]]"), "{line}");
        let summary = Summary { requests: 1, fit: true, ..Summary::default() };
        let log = format!("{line}\n{{\"summary\":{}}}\n", serde_json::to_string(&summary).unwrap());
        assert_eq!(read_truth(log.as_bytes()).unwrap(), (vec![row], Some(summary)));
        assert!(read_truth(&b"{}\n"[..]).unwrap_err().to_string().starts_with("line 1:"));
    }

    #[test]
    fn an_older_log_still_reads() {
        let log = "{\"nonce\":\"n\",\"model\":\"m\",\"conn\":1,\"peer_port\":2,\"request_no\":3,\"rx\":null,\"rx_user\":5,\
                   \"head_written\":null,\"chunks\":[],\"done_written\":null,\"tokens\":0,\"aborted\":true,\"blocked\":false}\n\
                   {\"summary\":{\"requests\":1,\"cpu_s\":0.5}}\n";
        let (rows, summary) = read_truth(log.as_bytes()).unwrap();
        let summary = summary.unwrap();
        assert_eq!((rows[0].started, summary.requests, summary.fit), (None, 1, false));
        assert!(summary.unfit_reason.unwrap().contains("before the mock judged itself"));
    }

    #[test]
    fn the_mock_judges_itself() {
        let judged = |p99: f64, cpu_s: f64| {
            let mut summary =
                Summary { lateness_p99_us: Some(p99), cpu_s, spin_s: 1.0, wall_s: 10.0, ..Summary::default() };
            summary.judge();
            summary
        };
        let fit = judged(999.0, 9.4);
        assert_eq!((fit.fit, fit.unfit_reason), (true, None));
        assert!((fit.busy_share - 0.84).abs() < 1e-9);
        let late = judged(1_500.0, 2.0).unfit_reason.unwrap();
        assert!(late.contains("1.50 ms late") && late.contains("not the client"), "{late}");
        let both = judged(1_500.0, 9.9).unfit_reason.unwrap();
        assert!(both.contains("late") && both.contains("89 %"), "{both}");
        let mut idle = Summary::default();
        idle.judge();
        assert!(idle.fit);
    }
}
