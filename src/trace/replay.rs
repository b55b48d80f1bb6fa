//! A load point that replays a captured trace.

use super::captured::Captured;
use crate::load_point::{DEFAULT_SLOTS, opened_ahead};
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
    /// Mean arrivals per s, from the first to the last; None: all at once.
    pub rate: Option<f64>,
    /// `captured`.
    pub arrivals: &'static str,
    /// Arrivals in the busiest second, counted in whole seconds from the opening.
    pub peak_per_s: u64,
    /// Most requests at once; None: as many as there are.
    pub concurrency: Option<u32>,
    /// Whether [`DEFAULT_SLOTS`] set that, not the user.
    pub default_cap: bool,
    /// Connections there may be.
    pub slots: u32,
    /// Connections opened before a window.
    pub opened_ahead: u32,
    /// Requests of a window.
    pub requests: u64,
    /// Due of the last one, in s from the opening.
    pub last_due_s: f64,
    /// SHA-256 of the dues in ns, one a line, hex.
    pub schedule_hash: String,
    #[serde(skip)]
    captured: Captured,
}

impl Replay {
    /// `captured` at `time_scale` trace seconds a second, at most `cap` requests at once.
    ///
    /// # Errors
    /// The spool cannot be read.
    pub fn new(captured: &Captured, time_scale: f64, cap: Option<u32>) -> io::Result<Replay> {
        let (mut hash, mut last) = (Sha256::new(), Nanos::ZERO);
        let (mut second, mut in_second, mut peak_per_s) = (0, 0, 0);
        for at in captured.times() {
            last = due(at?, time_scale);
            hash.update(format!("{}\n", last.ns()));
            let its = last.ns() / 1_000_000_000;
            in_second = if its == second { in_second + 1 } else { 1 };
            second = its;
            peak_per_s = peak_per_s.max(in_second);
        }
        let requests = captured.requests;
        let all = u32::try_from(requests).unwrap_or(u32::MAX);
        let default_cap = cap.is_none() && all > DEFAULT_SLOTS;
        let concurrency = cap.or(default_cap.then_some(DEFAULT_SLOTS));
        let slots = concurrency.unwrap_or(all).min(all);
        let last_due_s = last.secs_f64();
        Ok(Replay {
            time_scale,
            rate: (last > Nanos::ZERO).then(|| (requests - 1) as f64 / last_due_s),
            arrivals: "captured",
            peak_per_s,
            concurrency,
            default_cap,
            slots,
            // what the busiest second needs
            opened_ahead: opened_ahead(Some(peak_per_s as f64), captured.mean_output_tokens, slots),
            requests,
            last_due_s,
            schedule_hash: hex(&hash.finalize()),
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
