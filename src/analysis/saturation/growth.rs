//! Over-saturation in open loop: requests in flight grow for as long as they keep coming.
//!
//! A queue that starts empty fills before it is steady, and a steady one wanders; neither is over-saturated. So three
//! things must hold together, all of them over the same stretch of time:
//!
//! - the stretch begins at twice the time at which the first [`FIRST`] requests were all over, and is at least as long
//!   as what lies before it: by then a server that can carry the load is full of requests of every length;
//! - the number in flight, at [`SAMPLES`] equally spaced moments, rises (Mann and Kendall, p below [`P`], variance
//!   corrected for what neighbours remember, interval of the Theil-Sen slope above 0);
//! - what was finished per s, taken higher by [`DEVIATIONS`] standard deviations of a Poisson count, is still less than
//!   [`KEPT_UP`] of what was offered.

use crate::analysis::statistics::trend;
use serde::{Deserialize, Serialize};

/// The first requests: all of them must be over before anything is judged.
pub const FIRST: u64 = 50;
/// Moments at which requests in flight are counted.
pub const SAMPLES: usize = 20;
/// Probability of such a rise without a trend.
pub const P: f64 = 0.01;
/// Requests that must have been finished in the stretch.
pub const FINISHED: u64 = 50;
/// Standard deviations that the finished ones are taken higher by.
pub const DEVIATIONS: f64 = 3.0;
/// A server that finishes this share of what comes keeps up.
pub const KEPT_UP: f64 = 0.97;

/// How many requests were due and over at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Count {
    /// From the window's opening, s.
    pub at_s: f64,
    /// Due until then.
    pub due: u64,
    /// Of these over, well or not.
    pub over: u64,
}

impl Count {
    fn in_flight(&self) -> f64 {
        self.due.saturating_sub(self.over) as f64
    }
}

/// A load that is more than the server can do, with the figures that say so.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Growth {
    /// The stretch that was judged begins, s from the window's opening.
    pub from_s: f64,
    /// It ends.
    pub to_s: f64,
    /// Requests due and not over when it begins.
    pub in_flight_from: u64,
    /// When it ends.
    pub in_flight_to: u64,
    /// Theil-Sen slope of that number, per s.
    pub slope_per_s: f64,
    /// Low end of its 95 % interval.
    pub slope_lo_per_s: f64,
    /// Two-sided probability without a trend (Mann and Kendall).
    pub p: f64,
    /// Nominal requests/s.
    pub offered_per_s: f64,
    /// Requests over per s in the stretch.
    pub finished_per_s: f64,
}

/// Judges counts in order of time, at a nominal rate of `offered_per_s`, of a window whose first [`FIRST`] requests
/// were all over at `settled_s`. None: not over-saturated as far as can be told.
pub fn judge(counts: &[Count], offered_per_s: f64, settled_s: f64) -> Option<Growth> {
    let to_s = counts.last()?.at_s;
    let from_s = 2.0 * settled_s;
    if to_s < 2.0 * from_s {
        return None;
    }
    let step = (to_s - from_s) / (SAMPLES - 1) as f64;
    let at = |k: usize| {
        let moment = from_s + step * k as f64;
        let after = counts.partition_point(|c| c.at_s <= moment);
        counts.get(after.checked_sub(1)?)
    };
    let sampled: Vec<&Count> = (0..SAMPLES).map(at).collect::<Option<_>>()?;
    let (first, last) = (sampled[0], sampled[SAMPLES - 1]);
    let span = last.at_s - first.at_s;
    let finished = last.over.saturating_sub(first.over);
    if finished < FINISHED || span <= 0.0 {
        return None;
    }
    let at_most = (finished as f64 + DEVIATIONS * (finished as f64).sqrt()) / span;
    if at_most >= KEPT_UP * offered_per_s {
        return None;
    }
    let in_flight: Vec<f64> = sampled.iter().map(|c| c.in_flight()).collect();
    let found = trend::of(&in_flight)?;
    (found.p < P && found.lo > 0.0).then_some(Growth {
        from_s: first.at_s,
        to_s: last.at_s,
        in_flight_from: first.in_flight() as u64,
        in_flight_to: last.in_flight() as u64,
        slope_per_s: found.slope / step,
        slope_lo_per_s: found.lo / step,
        p: found.p,
        offered_per_s,
        finished_per_s: finished as f64 / span,
    })
}

/// The counts of a window from when each of its requests was due and over (None: not when it closed), s from its
/// opening, by trace id; up to `until_s`. And when the first [`FIRST`] were all over.
pub fn counts(requests: &[(f64, Option<f64>)], until_s: f64, moments: usize) -> (Vec<Count>, Option<f64>) {
    let mut dues: Vec<f64> = requests.iter().map(|(due, _)| *due).collect();
    let mut ends: Vec<f64> = requests.iter().filter_map(|(_, end)| *end).collect();
    dues.sort_unstable_by(f64::total_cmp);
    ends.sort_unstable_by(f64::total_cmp);
    let until = |sorted: &[f64], at: f64| sorted.partition_point(|t| *t <= at) as u64;
    let count = |k: usize| {
        let at_s = until_s * k as f64 / moments as f64;
        Count { at_s, due: until(&dues, at_s), over: until(&ends, at_s) }
    };
    let first = requests.get(..FIRST as usize);
    let settled = first.and_then(|first| {
        let ends: Option<Vec<f64>> = first.iter().map(|(_, end)| *end).collect();
        ends.map(|ends| ends.into_iter().fold(0.0, f64::max))
    });
    ((0..=moments).map(count).collect(), settled)
}
