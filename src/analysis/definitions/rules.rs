//! The figures at which something is withheld, flagged or called a failure.

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

/// A slice of health samples is the first that is at least this share of the span asked for: samples come at 1 Hz,
/// and never to the ns.
pub const SLICE_AT_LEAST: f64 = 0.9;
/// Span of the worst CPU share, in ns.
pub const WORST_CPU_NS: u64 = 5_000_000_000;
/// Span of the worst run-queue share, in ns.
pub const WORST_RUN_DELAY_NS: u64 = 1_000_000_000;

/// How far apart the ends of a net percentile are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_limits_must_be_passed() {
        // 4.9 % of 100 ms; 5.1 % but 40 us; 6 % and 60 us; 21 % but 0.9 ms; 21 % and 2.1 ms
        let judged = [(95.1, 100.0), (0.744, 0.784), (0.94, 1.0), (3.386, 4.286), (7.9, 10.0)];
        let expected = [Width::Narrow, Width::Narrow, Width::Both, Width::Both, Width::Withheld];
        assert_eq!(judged.map(|(lo, hi)| width(lo, hi)), expected);
    }
}
