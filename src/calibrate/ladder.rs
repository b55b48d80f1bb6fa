//! The ladder: which loads are tried, in which order, and the search for each limit.

use super::step;
use crate::calibrations::document::{Family, Step, StepLoad};
use calibration::verdict::{Bounds, Limit, Next, Search, StepResult, StoppedBy};

/// Replies that a step is to bring at least: an error is judged at p99, for which 100 must be matched with the log.
pub const REPLIES: u32 = 120;

/// Most streams over which a rate of events is spread: at 20 ms a token up to 10,000 events/s, faster beyond.
const EVENT_STREAMS: u64 = 200;
/// Events/s of one such stream.
const EVENTS_OF_STREAM: u64 = 50;
/// Streams that are to show the cost of streams bear no more than so many events/s together.
const MODERATE_EVENTS_PER_S: f64 = 20_000.0;
/// Period of lock-step bursts: time enough to write and to read the largest. Small ones come more often.
const LOCKSTEP_MS: f64 = 50.0;
/// Time between the token events of a stream among few.
const FEW_STREAMS_ITL_MS: f64 = 10.0;
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
pub const QUICK: Depth = Depth { seconds: 1.2, ratio: 1.6, steps: 8, budget_s: 50.0 };
/// Under ten minutes.
pub const FULL: Depth = Depth { seconds: 5.0, ratio: 1.25, steps: 12, budget_s: 540.0 };

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

/// A family whose limit is sought.
#[derive(Clone, Copy, Debug)]
pub struct Sought {
    /// Which.
    pub family: Family,
    /// Lowest load that is tried: below it [`REPLIES`] take too long to come.
    pub floor: u64,
    /// Highest load that is tried.
    pub cap: u64,
}

/// Everything whose limit is sought.
pub const SOUGHT: [Sought; 4] = [
    Sought { family: Family::Requests, floor: 20, cap: 200_000 },
    Sought { family: Family::Events, floor: 50, cap: 2_000_000 },
    Sought { family: Family::Streams, floor: 1, cap: 20_000 },
    Sought { family: Family::Burst, floor: 1, cap: 8192 },
];

/// What is asked of harness and mock at `value` of `family`, in a window of `seconds`.
pub fn load(family: Family, value: u64, seconds: f64) -> StepLoad {
    let n = value as f64;
    let window_ms = seconds * 1e3;
    // what the start of the window drops included
    let replies_of_each = |concurrency: u32| f64::from(REPLIES.div_ceil(concurrency) + 1);
    // some three generations of replies a window, more where they are few at once; each at least two tokens long
    let reply = |concurrency: u32, itl_ms: f64| {
        let longest_ms = (window_ms / 3.0).min(window_ms / replies_of_each(concurrency));
        ((longest_ms / itl_ms).floor() as u32).max(2)
    };
    let shortest = |concurrency: u32, most_ms: f64| (window_ms / replies_of_each(concurrency) / 2.0).min(most_ms);
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
            let streams = value as u32;
            let itl_ms = shortest(streams, FEW_STREAMS_ITL_MS).max(n * 1e3 / MODERATE_EVENTS_PER_S);
            closed(streams, itl_ms, itl_ms, reply(streams, itl_ms), None)
        }
        Family::Events => {
            let streams = (value / EVENTS_OF_STREAM).clamp(1, EVENT_STREAMS) as u32;
            let itl_ms = f64::from(streams) * 1e3 / n;
            closed(streams, itl_ms, itl_ms, reply(streams, itl_ms), None)
        }
        Family::Burst => {
            let burst = value as u32;
            let period_ms = shortest(burst, LOCKSTEP_MS);
            // ready well before the next moment to write
            closed(burst, (period_ms * 0.4).min(5.0), period_ms, reply(burst, period_ms), Some(period_ms))
        }
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

/// What a search learns from a step. Of several reasons the first one: what the client did comes before what the mock
/// did, and that before what the step does not show.
pub fn outcome(step: &Step) -> StepResult {
    let first = || step.reasons.first().cloned().unwrap_or_default();
    match (step.valid, step.mock_limited) {
        (true, _) => StepResult::Good,
        (false, true) => StepResult::MockFull(first()),
        (false, false) if step::too_few(&step.closure).is_some_and(|words| words == first()) => {
            StepResult::Error(first())
        }
        (false, false) => StepResult::Gate(first()),
    }
}

/// Seeks every limit of [`SOUGHT`], in its order, a step of each in turn so that each has its share of the time. What
/// the `tried` steps showed is known to the searches. `run` gives None when there is no time left, or the user
/// interrupts.
///
/// An error of `run` is the end of that search, not of the calibration.
pub fn seek(
    depth: Depth,
    tried: &[Step],
    mut run: impl FnMut(Family, u64) -> Option<anyhow::Result<Step>>,
) -> [Limit; 4] {
    let mut searches = SOUGHT.map(|sought| {
        let bounds = Bounds {
            start: sought.floor,
            floor: sought.floor,
            cap: sought.cap,
            ratio: depth.ratio,
            max_steps: depth.steps,
        };
        let mine = tried.iter().filter(|s| s.load.family == sought.family);
        Search::new(bounds, mine.map(|step| (step.load.value as u64, outcome(step))))
    });
    let mut in_time = true;
    while in_time {
        let mut stepped = false;
        for (search, sought) in searches.iter_mut().zip(SOUGHT) {
            let Next::Try(load) = search.next() else { continue };
            stepped = true;
            match run(sought.family, load) {
                Some(Ok(step)) => search.report(outcome(&step)),
                Some(Err(error)) => search.report(StepResult::Error(format!("{error:#}"))),
                None => in_time = false,
            }
            if !in_time {
                break;
            }
        }
        in_time &= stepped;
    }
    searches.map(|search| search.give_up(StoppedBy::Time))
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

    /// How long the mock takes for so many replies and those that the start drops, ms.
    fn needed_ms(load: &StepLoad, replies: u32) -> f64 {
        let reply_ms = match load.lockstep_ms {
            Some(period) => period * f64::from(load.tokens),
            None => load.ttft_ms + f64::from(load.tokens - 1) * load.itl_ms,
        };
        match load.rate {
            Some(rate) => f64::from(replies) / rate * 1e3 + reply_ms,
            None => f64::from(replies.div_ceil(load.concurrency) + 1) * reply_ms,
        }
    }

    #[test]
    fn every_step_brings_replies_enough_to_judge_an_error() {
        for seconds in [QUICK.seconds, FULL.seconds] {
            for (family, value) in fixed() {
                let load = load(family, value, seconds);
                let needed = needed_ms(&load, REPLIES);
                assert!(needed <= seconds * 1e3 + 10.0, "{needed} ms for {load:?}");
                assert!(load.tokens >= 2 && load.itl_ms >= 1.0 && load.ttft_ms >= 1.0, "{load:?}");
                assert!(load.lockstep_ms.is_none_or(|period| load.ttft_ms < period / 2.0), "{load:?}");
            }
            // the lowest and highest that a search may try end in bounded time all the same
            for sought in SOUGHT {
                for value in [sought.floor, sought.cap] {
                    let load = load(sought.family, value, seconds);
                    assert!(needed_ms(&load, REPLIES.max(load.concurrency)) <= seconds * 1e3 + 7e3, "{load:?}");
                }
            }
        }
    }

    fn step(family: Family, value: u64, reason: Option<&str>) -> Step {
        super::step::of_test(load(family, value, 1.0), reason)
    }

    fn words(limit: &Limit) -> (u64, bool, Option<u64>) {
        (limit.value, limit.at_least, limit.first_bad)
    }

    #[test]
    fn searches_take_turns_and_know_what_was_tried() {
        let tried = [
            step(Family::Requests, 100, None),
            step(Family::Events, 1000, None),
            step(Family::Streams, 1, None),
            step(Family::Streams, 50, Some("busy 0.9")),
            step(Family::Streams, 200, Some("busy 0.9")),
            step(Family::Burst, 64, None),
        ];
        let mut order = Vec::new();
        let mut left = 6;
        let limits = seek(QUICK, &tried, |family, value| {
            left -= 1;
            (left >= 0).then(|| {
                order.push((family, value));
                Ok(step(family, value, (family == Family::Streams).then_some("busy 0.9")))
            })
        });
        use Family::{Burst, Events, Requests, Streams};
        let turns = [(Requests, 200), (Events, 2000), (Streams, 50), (Burst, 128), (Requests, 400), (Events, 4000)];
        assert_eq!(order, turns);
        let [requests, events, streams, burst] = &limits;
        assert_eq!((words(requests), words(events)), ((400, true, None), (4000, true, None)));
        assert_eq!((words(streams), words(burst)), ((1, false, Some(50)), (128, true, None)));
        // no time at all
        let [_, _, streams, _] = seek(QUICK, &tried, |_, _| None);
        assert_eq!(words(&streams), (1, false, Some(50)));
        // until each is over
        let all = seek(FULL, &tried, |family, value| Ok(step(family, value, (value > 300).then_some("late"))).into());
        assert!(all.iter().all(|limit| limit.first_bad.is_some() && !limit.at_least), "{all:?}");
    }
}
