//! The figures at which something is withheld, flagged or called a failure.
//!
//! The limits of the gates come from the project's measurement rules: the seed's protocol (CPU 0.7), queueing theory
//! (burst drain, busy fraction), and the rule that a client's share must stay below a tenth of what it measures.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A net interval wider than both: both ends are printed. Share of the high end, and ns.
pub const BOTH_PRINTED: (f64, f64) = (0.05, 0.05);
/// A net interval wider than both: the percentile is withheld. Share of the high end, and ms.
pub const WITHHELD: (f64, f64) = (0.20, 1.0);
/// More kept requests than this without a stamp that they need: net percentiles are withheld.
pub const STAMPS_MISSING: f64 = 0.01;
/// Coalesced token events from here on: gap percentiles flagged.
pub const COALESCED_FLAG: f64 = 0.05;
/// Coalesced token events from here on: gap percentiles withheld.
pub const COALESCED_WITHHELD: f64 = 0.50;
/// Failed requests above this are a verdict, unless the plan says otherwise.
pub const MAX_FAILED: f64 = 0.01;
/// Time-outs and censored requests above this: percentiles are "of completed".
pub const OF_COMPLETED: f64 = 0.01;
/// The first trace ids, shown apart.
pub const FIRST_REQUESTS: u64 = 10;
/// Class of failure that counts with the censored ones for [`OF_COMPLETED`].
pub const TIMEOUT_CLASS: &str = "timeout";

/// When a gate warns, and when it voids. Both may be missing: what only warns, what only voids.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// Beyond this the figure is flagged.
    pub warn: Option<f64>,
    /// Beyond this the columns it speaks of are withheld.
    pub void: Option<f64>,
    /// Beyond is above; else below.
    pub rises: bool,
}

impl Limit {
    const fn above(warn: f64, void: f64) -> Limit {
        Limit { warn: Some(warn), void: Some(void), rises: true }
    }

    /// Whether a figure is within, beyond the warning, or beyond what may be believed.
    pub fn judge(&self, figure: f64) -> GateState {
        let beyond = |limit: Option<f64>| limit.is_some_and(|l| if self.rises { figure > l } else { figure < l });
        match () {
            () if beyond(self.void) => GateState::Void,
            () if beyond(self.warn) => GateState::Warn,
            () => GateState::Ok,
        }
    }
}

/// What a gate says of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateState {
    /// Within its limits.
    Ok,
    /// Flagged.
    Warn,
    /// Its columns are withheld.
    Void,
    /// The figure could not be had: never the same as ok.
    Unknown,
}

/// CPU time of a worker thread per wall time: beyond .7 a queue's wait grows as 1/(1 - load). The seed's protocol
/// names .7, where the p99 wait of an M/M/1 queue is 14 service times; at .85 it is 30.
pub const CPU: Limit = Limit::above(0.70, 0.85);
/// CPU time of the whole process per wall time, as the seed's protocol counts it: marked, it voids nothing.
pub const PROCESS_CPU: Limit = Limit { warn: Some(0.70), void: None, rises: true };
/// Share of the time a worker handled batches or submitted; the load of the queue that events wait in.
pub const BUSY: Limit = Limit::above(0.70, 0.85);
/// Time from a burst's first arrival to its last event seen, at p99.9, in ms: the last of B events waits B - 1
/// service times however low the load (batch arrivals, M^X/G/1).
pub const BURST_DRAIN: Limit = Limit::above(1.0, 5.0);
/// `seen - arrived` at p99, in ms.
pub const READ_DELAY: Limit = Limit::above(0.5, 5.0);
/// Time a worker was runnable but not running, per wall time, worst second (schedstat, sched-stats(5)).
pub const RUN_QUEUE: Limit = Limit::above(0.01, 0.05);
/// Time the hypervisor gave to others, per wall time (proc_stat(5)). Not even the kernel's stamps see it.
pub const STEAL: Limit = Limit::above(0.01, 0.05);
/// Lateness at p99, in ms: beyond it the requests were not sent when the schedule wanted, and net, which takes that
/// out, would bring coordinated omission back.
pub const LATENESS: Limit = Limit::above(0.5, 1.0);
/// Time from a reply, or a later due, to the turn that follows it, at p99, in ms: as [`LATENESS`] of what is due by a reply.
pub const TURNAROUND: Limit = LATENESS;
/// Distance of the dispersion index of `wire_out` from the schedule's own, see
/// [`dispersion_distance`](super::dispersion_distance).
pub const ARRIVALS: Limit = Limit { warn: None, void: Some(0.05), rises: true };
/// Width of the net interval of ttft as a share of its high end; [`width`] has a floor in ms besides.
pub const NET_WIDTH: Limit = Limit::above(BOTH_PRINTED.0, WITHHELD.0);
/// Kept requests without a stamp that they need.
pub const MISSING_STAMPS: Limit = Limit { warn: None, void: Some(STAMPS_MISSING), rises: true };
/// Calibrated tare over ttft, both at p99, where tare cannot be measured in the run.
pub const CALIBRATED_TARE: Limit = Limit::above(0.01, 0.10);
/// Load over the calibrated limit of this host.
pub const CALIBRATED_LOAD: Limit = Limit { warn: Some(0.70), void: None, rises: true };
/// Requests sent over requests planned, in the schedule's own time: below it the backlog grows without end, and a
/// latency is how long the run was.
pub const ACHIEVED: Limit = Limit { warn: Some(0.995), void: Some(0.99), rises: false };
/// Rates are held against a calibration over at least so long, in ns: over less, one event more or less is a rate.
pub const LOAD_SPAN_NS: u64 = 1_000_000_000;
/// Losses of any kind.
pub const LOSSES: Limit = Limit { warn: None, void: Some(0.0), rises: true };

/// The worst part of a window is sought in parts of this length, in ns; a shorter window is one part.
pub const PART_NS: u64 = 5_000_000_000;
/// Bins of the dispersion index, in ns.
pub const ARRIVAL_BIN_NS: u64 = 100_000_000;
/// Steal is told in ticks of 10 ms. Over less than this span, in ns, one tick may be an accident of rounding, and is
/// left out.
pub const STEAL_SPAN_NS: u64 = 1_000_000_000;
/// One such tick, in ns.
pub const STEAL_TICK_NS: u64 = 10_000_000;

/// Whether a class of failure, or a reason for not sending, is want of something in the client: a loss.
pub fn is_client_loss(class: &str) -> bool {
    ["client", "descriptors", "ports", "memory"].contains(&class)
}

/// A slice of health samples is the first that is at least this share of the span asked for: samples come at 1 Hz,
/// and never to the ns.
pub const SLICE_AT_LEAST: f64 = 0.9;
/// Span of the worst CPU share, in ns.
pub const WORST_CPU_NS: u64 = 5_000_000_000;
/// Span of the worst run-queue share, in ns.
pub const WORST_RUN_DELAY_NS: u64 = 1_000_000_000;

/// Drift is sought in windows of this length at least, in ns: over less, a server's own cycles are taken for one.
pub const DRIFT_WINDOW_NS: u64 = 120_000_000_000;
/// And only when the kept requests were submitted over this share of it at least; the first ones are warm-up.
pub const DRIFT_SPREAD: f64 = 0.9;
/// Requests that each slice needs: for its p95, and so that its median is nearly normal.
pub const SLICE_REQUESTS: u64 = 20;
/// Autocorrelation times that each slice should hold, in requests, where the window has room for that: by simulation the false alarms of drift rise above 1 in 100
/// where a slice is shorter than what its requests remember.
pub const SLICE_TIMES: f64 = 2.0;
/// Length of a slice, in ns, where the window is long enough for more than the usual number.
pub const SLICE_NS: u64 = 30_000_000_000;
/// Fewest, usual and most slices. Fewer than 10 are no ground for the normal approximation of Mann and Kendall's test;
/// beyond 60 longer slices find the same slope.
pub const SLICES: (u64, u64, u64) = (10, 20, 60);
/// A drift is certain below this probability.
pub const DRIFT_P: f64 = 0.01;
/// Slopes are told per this time, in ns: 10 minutes.
pub const DRIFT_PER_NS: f64 = 600e9;
/// Smallest change of a latency that matters, as a share of it.
pub const RELEVANT: f64 = 0.01;
/// Slices are taken to scatter by this share of their level at least when change points are sought: a constant server
/// has no noise, and each us would be a level.
pub const LEVEL_NOISE: f64 = 0.005;
/// The requests that MSER-5 would cut beyond the dropped ones must differ from the rest with this probability: alone the
/// rule cuts more than 10 of 310 independent values in one case of five, of long-tailed ones in two.
pub const WARM_UP_P: f64 = 0.01;
/// Effective n below this share of n is flagged.
pub const INDEPENDENT: f64 = 0.5;
/// Requests from which the first and last third are told: ten each.
pub const THIRDS_N: usize = 30;

/// How far apart the ends of a net percentile are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Width {
    /// One figure says it.
    Narrow,
    /// Both are printed.
    Both,
    /// Neither is.
    Withheld,
}

/// Judges a percentile's ends, in ms.
pub fn width(lo_ms: f64, hi_ms: f64) -> Width {
    let apart = hi_ms - lo_ms;
    let exceeds = |(share, ms): (f64, f64)| apart > share * hi_ms && apart > ms;
    if exceeds(WITHHELD) {
        Width::Withheld
    } else if exceeds(BOTH_PRINTED) {
        Width::Both
    } else {
        Width::Narrow
    }
}

/// Share of a time that the hypervisor gave to others, both in ns; None over no time. Steal comes in ticks: over a short
/// time one of them may be there by rounding alone.
pub fn steal_share(stolen: u64, wall: u64) -> Option<f64> {
    let rounding = if wall < STEAL_SPAN_NS { STEAL_TICK_NS } else { 0 };
    super::share(stolen.saturating_sub(rounding), wall)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_passed_not_reached() {
        let judged = [0.70, 0.71, 0.85, 0.86].map(|share| CPU.judge(share));
        assert_eq!(judged, [GateState::Ok, GateState::Warn, GateState::Warn, GateState::Void]);
        let judged = [1.0, 0.995, 0.994, 0.99, 0.989].map(|share| ACHIEVED.judge(share));
        assert_eq!(judged, [GateState::Ok, GateState::Ok, GateState::Warn, GateState::Warn, GateState::Void]);
        assert_eq!([0.0, 1.0].map(|n| LOSSES.judge(n)), [GateState::Ok, GateState::Void]);
        assert_eq!(PROCESS_CPU.judge(9.0), GateState::Warn);
    }

    #[test]
    fn both_limits_must_be_passed() {
        // 4.9 % of 100 ms; 5.1 % but 40 us; 6 % and 60 us; 21 % but 0.9 ms; 21 % and 2.1 ms
        let judged = [(95.1, 100.0), (0.744, 0.784), (0.94, 1.0), (3.386, 4.286), (7.9, 10.0)];
        let expected = [Width::Narrow, Width::Narrow, Width::Both, Width::Both, Width::Withheld];
        assert_eq!(judged.map(|(lo, hi)| width(lo, hi)), expected);
    }
}
