//! The rate of arrivals as a function of time: stretches over which it is constant or changes evenly, and what comes
//! after them. Its integral, the mean number of arrivals so far, is the time in which every law of gaps is the same
//! at any rate.

use crate::units::Nanos;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Lowest rate other than none, in arrivals/s.
pub const LOWEST_PER_S: f64 = 1e-4;
/// Highest rate, in arrivals/s.
pub const HIGHEST_PER_S: f64 = 1e6;
/// Most stretches of one profile.
pub const MOST_STRETCHES: usize = 1_000;
const LONGEST: Nanos = Nanos::from_secs(366 * 86_400);

/// A stretch of time over which the rate goes evenly from one value to another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stretch {
    /// How long, in ns; at least 1.
    pub lasts_ns: u64,
    /// Arrivals/s at its beginning, 0 or more.
    pub from_per_s: f64,
    /// Arrivals/s at its end, 0 or more.
    pub to_per_s: f64,
}

/// What follows the last stretch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum After {
    /// Nothing: the schedule is finite.
    End,
    /// This rate for ever.
    Constant {
        /// Arrivals/s, above 0.
        per_s: f64,
    },
    /// The stretches, again and again.
    Again,
}

/// A rate over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateProfile {
    /// In order, the first from the opening; at least one.
    pub stretches: Vec<Stretch>,
    /// And then.
    pub after: After,
}

/// A profile that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum BadProfile {
    /// A rate.
    #[error("a rate must be 0, or from 0.0001 to 1,000,000 requests/s, not {0}")]
    Rate(f64),
    /// A span.
    #[error("a span must be from 1 ns to 366 days, not {0} s")]
    Span(f64),
    /// The rate is 0 throughout.
    #[error("with a rate of 0 throughout there is no arrival")]
    Nothing,
    /// The list.
    #[error("there must be from 1 to 1,000 stretches, not {0}")]
    Number(usize),
}

impl Stretch {
    /// A stretch of one rate.
    pub fn constant(lasts: Nanos, per_s: f64) -> Self {
        Stretch { lasts_ns: lasts.ns(), from_per_s: per_s, to_per_s: per_s }
    }

    /// Mean arrivals in it.
    pub fn arrivals(&self) -> f64 {
        self.until(self.lasts_ns)
    }

    /// Mean arrivals in its first `ns`: the trapezium under the rate.
    fn until(&self, ns: u64) -> f64 {
        ns as f64 * (self.from_per_s + self.rate_at(ns)) / 2e9
    }

    /// Rate after `ns`, from the end where it is lower, so that nothing cancels.
    fn rate_at(&self, ns: u64) -> f64 {
        let (t, whole) = (ns as f64, self.lasts_ns as f64);
        let rise = self.to_per_s - self.from_per_s;
        if rise >= 0.0 {
            self.from_per_s + rise * (t / whole)
        } else {
            self.to_per_s - rise * ((self.lasts_ns - ns) as f64 / whole)
        }
    }

    /// When `arrivals` of its arrivals are reached, in ns from its beginning; `arrivals` lies below [`Self::arrivals`].
    ///
    /// The time t solves `from t + rise t^2 / (2 lasts) = arrivals`. Written as `2 arrivals / (from + root)` with a sum of
    /// positive terms under the root it loses nothing; a falling rate is a rising one seen from the end.
    fn reached(&self, arrivals: f64) -> f64 {
        let (whole, rise) = (self.lasts_ns as f64, self.to_per_s - self.from_per_s);
        let rising = |from: f64, rise: f64, arrivals: f64| {
            let root = (from * from + 2e9 * rise * arrivals / whole).sqrt();
            if arrivals > 0.0 { 2e9 * arrivals / (from + root) } else { 0.0 }
        };
        if rise > 0.0 {
            rising(self.from_per_s, rise, arrivals)
        } else if rise < 0.0 {
            whole - rising(self.to_per_s, -rise, self.arrivals() - arrivals)
        } else {
            arrivals * 1e9 / self.from_per_s
        }
    }
}

impl RateProfile {
    /// A checked profile.
    ///
    /// # Errors
    /// [`BadProfile`] when a rate or a span is out of range, or there would be no arrival.
    pub fn new(stretches: Vec<Stretch>, after: After) -> Result<Self, BadProfile> {
        if !(1..=MOST_STRETCHES).contains(&stretches.len()) {
            return Err(BadProfile::Number(stretches.len()));
        }
        let is_rate = |per_s: f64| per_s == 0.0 || (LOWEST_PER_S..=HIGHEST_PER_S).contains(&per_s);
        for stretch in &stretches {
            if let Some(bad) = [stretch.from_per_s, stretch.to_per_s].into_iter().find(|per_s| !is_rate(*per_s)) {
                return Err(BadProfile::Rate(bad));
            }
            if !(1..=LONGEST.ns()).contains(&stretch.lasts_ns) {
                return Err(BadProfile::Span(Nanos::from_ns(stretch.lasts_ns).secs_f64()));
            }
        }
        let profile = RateProfile { stretches, after };
        match after {
            After::Constant { per_s } if per_s == 0.0 || !is_rate(per_s) => Err(BadProfile::Rate(per_s)),
            After::End | After::Again if profile.once() <= 0.0 => Err(BadProfile::Nothing),
            _ => Ok(profile),
        }
    }

    /// Mean arrivals in all stretches, once.
    fn once(&self) -> f64 {
        self.stretches.iter().map(Stretch::arrivals).sum()
    }

    /// All stretches, once.
    fn length_ns(&self) -> u64 {
        self.stretches.iter().map(|stretch| stretch.lasts_ns).sum()
    }

    /// Mean arrivals from the opening until `until`: the integral of the rate.
    pub fn arrivals_until(&self, until: Nanos) -> f64 {
        let (before, mut left) = match self.after {
            After::Again => {
                let length = self.length_ns().max(1);
                ((until.ns() / length) as f64 * self.once(), until.ns() % length)
            }
            After::End | After::Constant { .. } => (0.0, until.ns()),
        };
        let mut sum = before;
        for stretch in &self.stretches {
            if left < stretch.lasts_ns {
                return sum + stretch.until(left);
            }
            sum += stretch.arrivals();
            left -= stretch.lasts_ns;
        }
        match self.after {
            After::Constant { per_s } => sum + left as f64 * per_s / 1e9,
            After::End | After::Again => sum,
        }
    }

    /// The last moment until which there are at most `arrivals` mean arrivals: while the rate is above 0 the one at which
    /// there are so many; where it is 0 just then, the moment at which it is not any more. None: after the end.
    ///
    /// Stretches are open at their end: an arrival that would round onto it belongs to the next one.
    pub fn reached(&self, arrivals: f64) -> Option<Nanos> {
        let once = self.once();
        let (mut at, mut left) = match self.after {
            After::Again => {
                // exact, and so is the whole number of rounds before it
                let left = arrivals % once;
                let rounds = ((arrivals - left) / once).round();
                ((rounds as u64).saturating_mul(self.length_ns()), left)
            }
            After::End | After::Constant { .. } => (0, arrivals),
        };
        let rounds = if self.after == After::Again { 2 } else { 1 };
        for stretch in self.stretches.iter().cycle().take(rounds * self.stretches.len()) {
            let within = stretch.arrivals();
            if left < within {
                let offset = stretch.reached(left).round() as u64;
                if offset < stretch.lasts_ns {
                    return Some(Nanos::from_ns(at.saturating_add(offset)));
                }
                left = 0.0;
            } else {
                left -= within;
            }
            at = at.saturating_add(stretch.lasts_ns);
        }
        match self.after {
            After::Constant { per_s } => {
                // a float beyond the range becomes its end: 584 years
                Some(Nanos::from_ns(at.saturating_add((left * 1e9 / per_s).round() as u64)))
            }
            After::End | After::Again => None,
        }
    }

    /// End of the last stretch with arrivals; None: there is no end.
    pub fn end(&self) -> Option<Nanos> {
        let rests = self.stretches.iter().rev().take_while(|stretch| stretch.arrivals() <= 0.0);
        let rest: u64 = rests.map(|stretch| stretch.lasts_ns).sum();
        (self.after == After::End).then(|| Nanos::from_ns(self.length_ns() - rest))
    }

    /// Highest rate, in arrivals/s.
    pub fn peak_per_s(&self) -> f64 {
        let after = if let After::Constant { per_s } = self.after { per_s } else { 0.0 };
        self.stretches.iter().flat_map(|stretch| [stretch.from_per_s, stretch.to_per_s]).fold(after, f64::max)
    }

    /// Mean rate over the first `at_least` mean arrivals or until `until`, whichever is later, in arrivals/s. A finite
    /// profile ends with its last arrivals; of one that repeats it is the mean of a round.
    pub fn mean_per_s(&self, at_least: f64, until: Nanos) -> f64 {
        let to = match self.after {
            After::Again => Nanos::from_ns(self.length_ns()),
            After::End | After::Constant { .. } => {
                self.reached(at_least).or(self.end()).unwrap_or(Nanos::ZERO).max(until)
            }
        };
        match to {
            Nanos::ZERO => self.peak_per_s(),
            to => self.arrivals_until(to) / to.secs_f64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: u64 = 1_000_000_000;

    fn stretch(s: u64, from_per_s: f64, to_per_s: f64) -> Stretch {
        Stretch { lasts_ns: s * S, from_per_s, to_per_s }
    }

    fn profile(stretches: Vec<Stretch>, after: After) -> RateProfile {
        RateProfile::new(stretches, after).expect("in range")
    }

    fn reached_s(profile: &RateProfile, arrivals: f64) -> Option<f64> {
        profile.reached(arrivals).map(Nanos::secs_f64)
    }

    /// Rates of 0 to 1,000 that begin and end anywhere.
    fn any_profile() -> impl Strategy<Value = RateProfile> {
        let rate = || prop_oneof![Just(0.0), 0.01f64..1_000.0];
        let stretch = (1u64..20_000_000_000, rate(), rate(), any::<bool>()).prop_map(|(lasts_ns, a, b, level)| {
            Stretch { lasts_ns, from_per_s: a, to_per_s: if level { a } else { b } }
        });
        let after = prop_oneof![
            Just(After::End),
            Just(After::Again),
            (0.01f64..1_000.0).prop_map(|per_s| After::Constant { per_s })
        ];
        (prop::collection::vec(stretch, 1..6), after)
            .prop_filter_map("no arrivals", |(stretches, after)| RateProfile::new(stretches, after).ok())
    }

    proptest! {
        #[test]
        fn the_inverse_is_the_inverse(profile in any_profile(), share in 0.0f64..1.0, rounds in 0u32..100) {
            let span = if profile.after == After::End { profile.once() } else { profile.once() + 1.0 };
            let rounds = if profile.after == After::Again { f64::from(rounds) } else { 0.0 };
            let arrivals = share * span + rounds * profile.once();
            let Some(at) = profile.reached(arrivals) else {
                // only where rounding to the ns puts it onto the end
                prop_assert!(profile.after == After::End && span - arrivals < 1e-3 * profile.peak_per_s());
                return Ok(());
            };
            let there = profile.arrivals_until(at);
            // half a ns of rounding at the peak, and what floats of this size can hold
            let bound = profile.peak_per_s() * 1e-9 + arrivals.max(1.0) * 1e-12;
            prop_assert!((there - arrivals).abs() <= bound, "{there} instead of {arrivals} at {at:?}");
        }

        #[test]
        fn an_arrival_lies_where_there_is_a_rate(profile in any_profile(), share in 0.0f64..1.0) {
            let Some(at) = profile.reached(share * profile.once()) else { return Ok(()) };
            let mut from = 0;
            for stretch in &profile.stretches {
                if (from..from + stretch.lasts_ns).contains(&at.ns()) {
                    prop_assert!(stretch.arrivals() > 0.0, "{at:?} is in a pause");
                }
                from += stretch.lasts_ns;
            }
        }

        #[test]
        fn the_inverse_runs_forward(profile in any_profile(), a in 0.0f64..1.0, more in 0.0f64..1.0) {
            let first = a * profile.once();
            if let (Some(one), Some(other)) = (profile.reached(first), profile.reached(first + more * profile.once())) {
                prop_assert!(one.ns() <= other.ns() + 1, "to the ns of rounding");
            }
        }
    }

    #[test]
    fn pauses_are_skipped_to_the_ns() {
        let on_off = profile(vec![stretch(10, 1.0, 1.0), stretch(20, 0.0, 0.0)], After::Again);
        assert_eq!(reached_s(&on_off, 9.0), Some(9.0));
        assert_eq!(reached_s(&on_off, 10.0), Some(30.0), "not at the beginning of the pause");
        assert_eq!(reached_s(&on_off, 1_000_000.0), Some(3_000_000.0));
        assert_eq!(reached_s(&on_off, 10.0 - 1e-12), Some(30.0), "it would round onto the beginning of the pause");
        // 1.1 x 10 is a little more than 11 in floats: the arrival must not fall before the pause for that
        let on_off = profile(vec![stretch(10, 1.1, 1.1), stretch(20, 0.0, 0.0)], After::Again);
        assert_eq!(reached_s(&on_off, 11.0), Some(30.0));
        assert_eq!(reached_s(&on_off, 110_000.0), Some(300_000.0));
        let late = profile(vec![stretch(5, 0.0, 0.0), stretch(5, 2.0, 2.0), stretch(5, 0.0, 0.0)], After::End);
        assert_eq!((reached_s(&late, 0.0), reached_s(&late, 9.0)), (Some(5.0), Some(9.5)));
        assert_eq!((reached_s(&late, 10.0), late.end()), (None, Some(Nanos::from_secs(10))));
        assert_eq!(reached_s(&late, 10.0 - 1e-12), None);
    }

    #[test]
    fn ramps_from_and_to_nothing_lose_nothing() {
        // 0 to 10/s over 20 s: 100 arrivals, the k-th at sqrt(4 k) s
        let up = profile(vec![stretch(20, 0.0, 10.0)], After::End);
        for k in 0..100_u64 {
            let exact = (4.0 * k as f64).sqrt();
            assert!((reached_s(&up, k as f64).expect("before the end") - exact).abs() <= 0.5e-9 + exact * 1e-15, "{k}");
        }
        let down = profile(vec![stretch(20, 10.0, 0.0)], After::End);
        for k in 1..=100_u64 {
            let mirrored = 20.0 - (4.0 * k as f64).sqrt();
            assert!((reached_s(&down, 100.0 - k as f64).expect("before the end") - mirrored).abs() <= 1e-9, "{k}");
        }
        // so close to the end that the usual formula would have nothing left of it: 1e-9 arrivals before it
        let near = reached_s(&down, 100.0 - 1e-9).expect("before the end");
        assert!((20.0 - near - (4.0 * 1e-9_f64).sqrt()).abs() < 2e-9, "{near}");
        // all but level
        let level = profile(vec![stretch(100, 10.0, 10.0 + 1e-12)], After::End);
        assert_eq!(reached_s(&level, 500.0), Some(50.0));
    }

    #[test]
    fn a_spike_is_over_when_it_is_over() {
        let spike = profile(vec![stretch(10, 5.0, 5.0), stretch(2, 20.0, 20.0)], After::Constant { per_s: 5.0 });
        let at = [49.0, 50.0, 89.0, 90.0, 95.0].map(|n| reached_s(&spike, n).expect("without end"));
        assert_eq!(at, [9.8, 10.0, 11.95, 12.0, 13.0]);
        assert_eq!((spike.peak_per_s(), spike.end()), (20.0, None));
        assert_eq!(spike.mean_per_s(95.0, Nanos::ZERO), 95.0 / 13.0);
        assert_eq!(spike.mean_per_s(95.0, Nanos::from_secs(20)), 130.0 / 20.0);
    }

    #[test]
    fn mean_rates() {
        let ramp = profile(vec![stretch(60, 1.0, 20.0)], After::End);
        assert_eq!(ramp.mean_per_s(f64::INFINITY, Nanos::ZERO), 10.5);
        let paused = profile(vec![stretch(60, 5.0, 5.0), stretch(60, 0.0, 0.0)], After::End);
        assert_eq!(paused.mean_per_s(f64::INFINITY, Nanos::ZERO), 5.0, "what follows the last arrival is no load");
        let on_off = profile(vec![stretch(10, 6.0, 6.0), stretch(20, 0.0, 0.0)], After::Again);
        assert_eq!(on_off.mean_per_s(7.0, Nanos::ZERO), 2.0);
    }

    #[test]
    fn nonsense_is_refused() {
        let of = |s, from, to, after| RateProfile::new(vec![stretch(s, from, to)], after);
        assert_eq!(RateProfile::new(Vec::new(), After::Again), Err(BadProfile::Number(0)));
        assert_eq!(of(0, 1.0, 1.0, After::End), Err(BadProfile::Span(0.0)));
        for bad in [-1.0, 1e-5, 2e6, f64::INFINITY] {
            assert_eq!(of(1, 1.0, bad, After::End), Err(BadProfile::Rate(bad)));
        }
        assert!(matches!(of(1, f64::NAN, 1.0, After::End), Err(BadProfile::Rate(_))));
        assert_eq!(of(1, 0.0, 0.0, After::Again), Err(BadProfile::Nothing));
        assert_eq!(of(1, 0.0, 0.0, After::Constant { per_s: 0.0 }), Err(BadProfile::Rate(0.0)));
        assert!(of(1, 0.0, 0.0, After::Constant { per_s: 1.0 }).is_ok(), "a pause first");
    }
}
