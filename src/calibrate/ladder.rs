//! The ladder: which loads are tried, in which order, and the search for each limit.

use crate::calibrations::document::{Family, Step, StepLoad};
use calibration::verdict::{Bounds, Limit, Next, Search, StepResult, StoppedBy};

/// Most streams over which a rate of events is spread: at 20 ms a token up to 10,000 events/s, faster beyond.
const EVENT_STREAMS: u64 = 200;
/// Events/s of one such stream.
const EVENTS_OF_STREAM: u64 = 50;
/// Streams that are to show the cost of streams bear no more than so many events/s together.
const MODERATE_EVENTS_PER_S: f64 = 20_000.0;
/// Period of lock-step bursts: time enough to write and to read the largest.
const LOCKSTEP_MS: f64 = 50.0;
/// Requests at once where each opens a connection of its own.
pub const COLD_CONCURRENCY: u32 = 50;

/// How much is tried.
#[derive(Clone, Copy, Debug)]
pub struct Depth {
    /// Length of a window, s.
    pub seconds: f64,
    /// A search ends when the lowest bad load is at most this times the highest good one.
    pub ratio: f64,
    /// Steps of one search at most.
    pub steps: u32,
    /// No further step is begun after so many s; searches under way end with what they have.
    pub budget_s: f64,
}

/// Under a minute.
pub const QUICK: Depth = Depth { seconds: 1.2, ratio: 1.6, steps: 5, budget_s: 50.0 };
/// Under ten minutes.
pub const FULL: Depth = Depth { seconds: 5.0, ratio: 1.25, steps: 10, budget_s: 540.0 };

/// The fixed steps, in order.
pub fn fixed() -> Vec<(Family, u64)> {
    let of = |family: Family, values: &[u64]| values.iter().map(|v| (family, *v)).collect::<Vec<_>>();
    [
        of(Family::Streams, &[1, 50, 200, 1000]),
        of(Family::Requests, &[100, 1000, 5000]),
        of(Family::Events, &[1000, 10_000, 50_000]),
        of(Family::Burst, &[1, 64, 256, 1024]),
        of(Family::Cold, &[u64::from(COLD_CONCURRENCY)]),
    ]
    .concat()
}

/// Families whose limit is sought, and the highest load that is tried.
pub const SOUGHT: [(Family, u64); 4] =
    [(Family::Requests, 200_000), (Family::Events, 2_000_000), (Family::Streams, 20_000), (Family::Burst, 8192)];

/// What is asked of harness and mock at `value` of `family`, in a window of `seconds`.
pub fn load(family: Family, value: u64, seconds: f64) -> StepLoad {
    let n = value as f64;
    // some three generations of replies a window, each at least two tokens long
    let reply = |itl_ms: f64| ((seconds * 1e3 / 3.0 / itl_ms).ceil() as u32).max(2);
    let closed = |concurrency: u32, ttft_ms: f64, itl_ms: f64, tokens: u32, lockstep_ms: Option<f64>| {
        let cycle_ms = match lockstep_ms {
            Some(period) => period * f64::from(tokens),
            None => ttft_ms + f64::from(tokens - 1) * itl_ms,
        };
        StepLoad {
            family,
            value: n,
            model: "closed".to_owned(),
            concurrency,
            rate: None,
            ttft_ms,
            itl_ms,
            lockstep_ms,
            tokens,
            events_per_s: f64::from(concurrency) * f64::from(tokens) * 1e3 / cycle_ms,
        }
    };
    match family {
        Family::Streams => {
            let itl_ms = (n * 1e3 / MODERATE_EVENTS_PER_S).max(10.0);
            closed(value as u32, itl_ms, itl_ms, reply(itl_ms), None)
        }
        Family::Events => {
            let streams = (value / EVENTS_OF_STREAM).clamp(1, EVENT_STREAMS) as u32;
            let itl_ms = f64::from(streams) * 1e3 / n;
            closed(streams, itl_ms, itl_ms, reply(itl_ms), None)
        }
        Family::Burst => closed(value as u32, 5.0, LOCKSTEP_MS, reply(LOCKSTEP_MS), Some(LOCKSTEP_MS)),
        Family::Cold => closed(value as u32, 5.0, 1.0, 10, None),
        Family::Requests => StepLoad {
            model: "open".to_owned(),
            // replies last 8 ms: room for twelve times as many as are in flight on average
            concurrency: (n / 10.0).ceil().max(64.0) as u32,
            rate: Some(n),
            events_per_s: n * 4.0,
            ..closed(1, 5.0, 1.0, 4, None)
        },
    }
}

/// What a search learns from a step.
pub fn outcome(step: &Step) -> StepResult {
    match (step.valid, step.mock_limited) {
        (true, _) => StepResult::Good,
        (false, true) => StepResult::MockFull(step.reasons.join("; ")),
        (false, false) => StepResult::Gate(step.reasons.join("; ")),
    }
}

/// Seeks the limit of `family` from the highest of the `tried` steps that was good. `run` gives None when there is no
/// time left, or the user interrupts.
///
/// # Errors
/// Whatever `run` fails with is the end of this search, not of the calibration.
pub fn seek(
    family: Family,
    cap: u64,
    depth: Depth,
    tried: &[Step],
    mut run: impl FnMut(Family, u64) -> Option<anyhow::Result<Step>>,
) -> Limit {
    let mine = || tried.iter().filter(|s| s.load.family == family);
    let lowest_bad = mine().filter(|s| !s.valid).map(|s| s.load.value).min_by(f64::total_cmp).unwrap_or(f64::INFINITY);
    let good = mine().filter(|s| s.valid && s.load.value < lowest_bad).map(|s| s.load.value as u64).max();
    let start = good.or_else(|| mine().map(|s| s.load.value as u64).min()).unwrap_or(1);
    let mut search = Search::new(Bounds { start, cap: cap.max(start), ratio: depth.ratio, max_steps: depth.steps });
    if good.is_some() {
        search.report(StepResult::Good);
    }
    loop {
        let load = match search.next() {
            Next::Over(limit) => return limit,
            Next::Try(load) => load,
        };
        match run(family, load) {
            Some(Ok(step)) => search.report(outcome(&step)),
            Some(Err(error)) => search.report(StepResult::Error(format!("{error:#}"))),
            None => return search.give_up(StoppedBy::Time),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_comes_to_the_events_it_says() {
        let events = load(Family::Events, 50_000, 1.0);
        assert_eq!((events.concurrency, events.itl_ms), (200, 4.0));
        assert!((events.events_per_s - 50_000.0).abs() < 1.0, "{events:?}");
        let streams = load(Family::Streams, 1000, 1.0);
        assert_eq!((streams.concurrency, streams.itl_ms), (1000, 50.0));
        assert!((streams.events_per_s - 20_000.0).abs() < 1.0, "{streams:?}");
        assert!((load(Family::Burst, 256, 1.0).events_per_s - 256.0 * 20.0).abs() < 1e-6);
        let requests = load(Family::Requests, 5000, 1.0);
        assert_eq!((requests.rate, requests.events_per_s, requests.concurrency), (Some(5000.0), 20_000.0, 500));
        assert_eq!(load(Family::Events, 1000, 1.0).concurrency, 20);
    }
}
