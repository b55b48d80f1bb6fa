//! A load point that replays a captured trace.

use super::captured::Captured;
use crate::load_point::{ASSUMED_TOKENS_PER_S, DEFAULT_SLOTS, opened_for};
use crate::shard::Shard;
use crate::workload::hex;
use bench_engine::units::Nanos;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::io;

/// Requests made ahead hold at most so many bytes, about.
const READY_BYTES: u64 = 256 * 1024 * 1024;
/// But at least so many are made.
const LEAST_READY: usize = 64;
/// Most requests ready, however small they are.
const MOST_READY: usize = 8192;

/// A trace at one speed. Each window of the load point has the same schedule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Replay {
    /// Seconds of the trace that pass in one second.
    pub time_scale: f64,
    /// Mean arrivals per s from the first to the last of the whole schedule, over the number of hosts; None: all at once.
    pub rate: Option<f64>,
    /// `captured`.
    pub arrivals: &'static str,
    /// Arrivals at this host in the busiest second, counted in whole seconds from the opening.
    pub peak_per_s: u64,
    /// Most requests at once; None: as many as there are.
    pub concurrency: Option<u32>,
    /// Whether [`DEFAULT_SLOTS`] set that, not the user.
    pub default_cap: bool,
    /// Connections there may be.
    pub slots: u32,
    /// Connections opened before a window.
    pub opened_ahead: u32,
    /// Requests of a window that this host sends.
    pub requests: u64,
    /// Those of the whole schedule; others than `requests` only where several hosts share it.
    pub scheduled: u64,
    /// Due of the last one that this host sends, in s from the opening.
    pub last_due_s: f64,
    /// SHA-256 of the dues of the whole schedule in ns, one a line, hex.
    pub schedule_hash: String,
    #[serde(skip)]
    pub(crate) shard: Option<Shard>,
    #[serde(skip)]
    captured: Captured,
}

impl Replay {
    /// `captured` at `time_scale` trace seconds a second, at most `cap` requests at once; of several hosts the part of
    /// `shard`.
    ///
    /// # Errors
    /// The spool cannot be read.
    pub fn new(captured: &Captured, time_scale: f64, cap: Option<u32>, shard: Option<Shard>) -> io::Result<Replay> {
        let (mut hash, mut last) = (Sha256::new(), Nanos::ZERO);
        let (mut second, mut in_second, mut peak_per_s) = (0, 0, 0);
        let mut requests = 0_u64;
        let mut end = Nanos::ZERO;
        for (trace_id, at) in (0..).zip(captured.times()) {
            let due = due(at?, time_scale);
            hash.update(format!("{}\n", due.ns()));
            end = due;
            if shard.is_some_and(|shard| !shard.sends(trace_id)) {
                continue;
            }
            (requests, last) = (requests + 1, due);
            let its = last.ns() / 1_000_000_000;
            in_second = if its == second { in_second + 1 } else { 1 };
            second = its;
            peak_per_s = peak_per_s.max(in_second);
        }
        let all = u32::try_from(requests).unwrap_or(u32::MAX);
        let default_cap = cap.is_none() && all > DEFAULT_SLOTS;
        let concurrency = cap.or(default_cap.then_some(DEFAULT_SLOTS));
        let slots = concurrency.unwrap_or(all).min(all);
        let last_due_s = last.secs_f64();
        let hosts = shard.map_or(1.0, |shard| f64::from(shard.of));
        Ok(Replay {
            time_scale,
            rate: (end > Nanos::ZERO).then(|| (captured.requests - 1) as f64 / end.secs_f64() / hosts),
            arrivals: "captured",
            peak_per_s,
            concurrency,
            default_cap,
            slots,
            // what the busiest second needs
            opened_ahead: opened_for(peak_per_s as f64 * captured.mean_output_tokens / ASSUMED_TOKENS_PER_S, slots),
            requests,
            scheduled: captured.requests,
            last_due_s,
            schedule_hash: hex(&hash.finalize()),
            shard,
            captured: captured.clone(),
        })
    }

    /// When the requests of a window are due, from its opening.
    pub fn dues(&self) -> impl Iterator<Item = io::Result<Nanos>> + use<> {
        let time_scale = self.time_scale;
        self.captured.times().map(move |at| at.map(|at| due(at, time_scale)))
    }

    /// Requests that must be ready when a window opens, and stay so: those of the busiest second, within the memory that
    /// they may take.
    pub fn supply_depth(&self) -> usize {
        let room = READY_BYTES / self.captured.largest_bytes.max(1);
        let most = usize::try_from(room).unwrap_or(MOST_READY).clamp(LEAST_READY, MOST_READY);
        let second = usize::try_from(self.peak_per_s).unwrap_or(MOST_READY);
        second.clamp(LEAST_READY, most).min(self.requests as usize)
    }
}

/// A time of the trace in the time of the replay.
fn due(at_ns: u64, time_scale: f64) -> Nanos {
    // exact where nothing is scaled
    let scaled = if time_scale == 1.0 { at_ns } else { (at_ns as f64 / time_scale).round() as u64 };
    Nanos::from_ns(scaled)
}
