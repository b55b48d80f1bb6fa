//! When a window counts as steady: the formulas over its slices and over what its requests remember of each other.
//!
//! The series is gross (what the client saw), of ok requests in order of `submit`, ties by value; where the gates withhold
//! gross it is net by `arrived`, which the client's own delays do not touch. Drift and change points
//! are sought in slices of equal time from the first kept `submit` to the last: `p50` and `p95` of each slice.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::gates::Gate;
use super::rules;
use crate::analysis::statistics::trend::Trend;
use crate::analysis::statistics::{autocorrelation, levels};

/// The column that is followed over a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Followed {
    /// What the client saw.
    Gross,
    /// Server and network, where the client was not fit to tell gross.
    Net,
}

impl Followed {
    /// By what the gates withhold.
    pub fn of(no_gross: bool, no_net: bool) -> Option<Followed> {
        match (no_gross, no_net) {
            (false, _) => Some(Followed::Gross),
            (true, false) => Some(Followed::Net),
            (true, true) => None,
        }
    }

    /// As columns are called.
    pub fn name(self) -> &'static str {
        match self {
            Followed::Gross => "gross",
            Followed::Net => "net",
        }
    }
}

/// Whether net is lost for slices of time, by the names of the gates that void net, and lateness and turnaround of the whole
/// window at p99, in ms. Requests that were late in its worst seconds take net from the window, whose tail they may decide; one
/// slice of many does not decide how they move, so here lateness counts over all of it, and turnaround as well.
pub fn net_is_lost<'a>(
    void: impl IntoIterator<Item = &'a str>,
    late_p99_ms: Option<f64>,
    turnaround_p99_ms: Option<f64>,
) -> bool {
    let over_all = [
        (Gate::Lateness.to_string(), late_p99_ms, rules::LATENESS.void),
        (Gate::Turnaround.to_string(), turnaround_p99_ms, rules::TURNAROUND.void),
    ];
    void.into_iter().any(|gate| match over_all.iter().find(|(name, ..)| name == gate) {
        Some((_, p99_ms, most)) => p99_ms.zip(*most).is_none_or(|(ms, most)| ms > most),
        None => true,
    })
}

/// What can be said of a window's drift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Drift {
    /// It rises or falls: p below [`rules::DRIFT_P`], the interval of the slope excludes 0, and it is large enough to
    /// matter.
    Drifting,
    /// Looked for, not found.
    Steady,
    /// Not looked for: too little time, or too few requests. Never the same as unstable.
    TooShortToTell,
    /// The gates withhold gross and net, and everything made of them.
    Withheld,
}

impl Drift {
    /// The gravest of two: one series that drifts is enough, and all must have been looked at.
    pub fn and(self, other: Drift) -> Drift {
        let gravity = [Drift::Steady, Drift::TooShortToTell, Drift::Withheld, Drift::Drifting];
        let of = |drift| gravity.iter().position(|g| *g == drift);
        if of(other) > of(self) { other } else { self }
    }
}

impl std::fmt::Display for Drift {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Drift::Drifting => "drifting",
            Drift::Steady => "steady",
            Drift::TooShortToTell => "too short to tell",
            Drift::Withheld => "not told, gross and net are withheld",
        })
    }
}

/// A slope in the units that it is printed in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Per10Min {
    /// ms.
    pub ms: f64,
    /// 95 % interval, ms.
    pub ms_ci: [f64; 2],
    /// The same as a share of the median slice; None where that is not positive.
    pub share: Option<f64>,
    /// Its interval.
    pub share_ci: Option<[f64; 2]>,
}

/// A slope per slice, in ms, over slices of `slice_ns`; `level` is the median of the slices, in ms.
pub fn per_10_min(trend: &Trend, slice_ns: f64, level: f64) -> Per10Min {
    let factor = rules::DRIFT_PER_NS / slice_ns;
    let [ms, lo, hi] = [trend.slope, trend.lo, trend.hi].map(|slope| slope * factor);
    let of_level = |ms: f64| (level > 0.0).then(|| ms / level);
    Per10Min { ms, ms_ci: [lo, hi], share: of_level(ms), share_ci: of_level(lo).zip(of_level(hi)).map(|(a, b)| [a, b]) }
}

/// Whether a trend is a drift. A change of less than [`rules::RELEVANT`] of the level, over 10 minutes or over the window
/// if that is longer, is none however certain.
pub fn drift(trend: &Trend, per_10_min: &Per10Min, span_ns: f64) -> Drift {
    let certain = trend.p < rules::DRIFT_P && (trend.lo > 0.0 || trend.hi < 0.0);
    let periods = (span_ns / rules::DRIFT_PER_NS).max(1.0);
    let relevant = per_10_min.share.is_some_and(|share| share.abs() * periods >= rules::RELEVANT);
    if certain && relevant { Drift::Drifting } else { Drift::Steady }
}

/// How many slices a span is cut into if it holds enough requests: of [`rules::SLICE_NS`] each, within
/// [`rules::SLICES`].
pub fn slices_wanted(span_ns: u64) -> u64 {
    let (_, usual, most) = rules::SLICES;
    (span_ns / rules::SLICE_NS).clamp(usual, most)
}

/// Requests that a slice needs when neighbours resemble each other over `time` places.
pub fn slice_needs(time: f64) -> u64 {
    ((rules::SLICE_TIMES * time).ceil() as u64).max(rules::SLICE_REQUESTS)
}

/// Over how many places requests resemble each other when what the slices do as a whole is taken off: its trend or its
/// levels, whichever leaves less. 1 where that cannot be told.
pub fn memory_of_rest(slices: &[Vec<f64>], medians: &[f64], cuts: &[usize], slope: f64) -> f64 {
    let rests = [levels::less_trend(slices, slope), levels::less_levels(slices, medians, cuts)];
    let [a, b] = rests.map(|rest| autocorrelation::of_ranks(&rest).map_or(1.0, |memory| memory.time));
    a.min(b)
}

/// Whether two levels differ enough to matter.
pub fn differs(before_ms: f64, after_ms: f64) -> bool {
    (before_ms - after_ms).abs() > rules::RELEVANT * after_ms.abs()
}

/// Whether intervals that take requests as independent are too narrow by more than a factor of about 1.4.
pub fn depends(n_eff: f64, n: u64) -> bool {
    n_eff < rules::INDEPENDENT * n as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_stretch_takes_net_from_the_tail_and_not_from_slices() {
        let net_is_lost = |void: &[&'static str], late: Option<f64>| net_is_lost(void.iter().copied(), late, None);
        assert!(!net_is_lost(&[], None));
        assert!(!net_is_lost(&["lateness"], Some(0.3)), "late in some seconds, not over all");
        assert!(net_is_lost(&["lateness"], Some(1.3)) && net_is_lost(&["lateness"], None));
        assert!(net_is_lost(&["steal", "lateness"], Some(0.3)), "what is stolen is in net");
        let by_turns = |late, turned| super::net_is_lost(["lateness", "turnaround"], Some(late), Some(turned));
        assert!(!by_turns(0.3, 0.4) && by_turns(0.3, 1.4) && by_turns(1.3, 0.4));
    }
}
