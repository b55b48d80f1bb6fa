//! The truth log: what the mock did and when, one JSON line a request, a summary line at the end.
//!
//! All times are absolute ns on CLOCK_MONOTONIC of the host.

use serde::{Deserialize, Serialize};
use std::io::{self, BufRead};

/// One request as the mock lived it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Bytes of the write, framing included.
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
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
    /// Events whose lateness counts below: those that never waited for the client.
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
    /// Time the thread was ready to run and another had its core, s (`/proc/thread-self/schedstat`).
    pub run_delay_s: Option<f64>,
    /// Times another thread took its core away.
    pub involuntary_switches: u64,
    /// Most replies in flight at once.
    pub max_streams: u64,
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

/// Reads a truth log: rows, and the summary when the mock ended in peace.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] names the line that is neither.
pub fn read_truth(log: impl BufRead) -> io::Result<(Vec<TruthRow>, Option<Summary>)> {
    #[derive(Deserialize)]
    struct SummaryLine {
        summary: Summary,
    }
    let (mut rows, mut summary) = (Vec::new(), None);
    for (at, line) in log.lines().enumerate() {
        let line = line?;
        let named = |e: serde_json::Error| io::Error::new(io::ErrorKind::InvalidData, format!("line {}: {e}", at + 1));
        if line.starts_with("{\"summary\":") {
            summary = Some(serde_json::from_str::<SummaryLine>(&line).map_err(named)?.summary);
        } else {
            rows.push(serde_json::from_str(&line).map_err(named)?);
        }
    }
    Ok((rows, summary))
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
            head_written: Some(6),
            chunks: vec![TruthChunk { due: 1, before_write: 2, written: 3, left: None, bytes: 4, tokens: 5 }],
            done_written: None,
            tokens: 5,
            aborted: true,
            blocked: false,
        };
        let line = serde_json::to_string(&row).unwrap();
        assert!(line.contains("\"chunks\":[[1,2,3,null,4,5]]"), "{line}");
        let summary = Summary { requests: 1, ..Summary::default() };
        let log = format!("{line}\n{{\"summary\":{}}}\n", serde_json::to_string(&summary).unwrap());
        assert_eq!(read_truth(log.as_bytes()).unwrap(), (vec![row], Some(summary)));
        assert!(read_truth(&b"{}\n"[..]).unwrap_err().to_string().starts_with("line 1:"));
    }
}
