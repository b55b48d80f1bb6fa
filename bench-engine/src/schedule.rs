//! When the requests of an open-loop window are due, as offsets from its opening. Everything follows from the
//! arrival law and a seed: no clock, no worker and no reply has a say in it.

use crate::units::Nanos;
use rand_distr::{Distribution, Exp1, Gamma};
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Stream of the generator that arrivals are drawn from; order, lengths and words of a workload have their own, 1 to 3.
const ARRIVALS: u128 = 4;

/// How the times between arrivals are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum ArrivalLaw {
    /// All at the opening.
    AtOnce,
    /// Evenly spaced, the first at the opening.
    Even {
        /// Arrivals per s.
        per_s: f64,
    },
    /// Exponential gaps: many users who know nothing of each other.
    Poisson {
        /// Mean arrivals per s.
        per_s: f64,
    },
    /// Gamma-distributed gaps.
    Gamma {
        /// Mean arrivals per s.
        per_s: f64,
        /// Below 1: in bursts; above: more regular than Poisson.
        shape: f64,
    },
}

/// A law that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum BadLaw {
    /// The rate.
    #[error("a rate must be from 0.0001 to 1,000,000 requests/s, or inf for all at once, not {0}")]
    Rate(f64),
    /// The shape of the gamma distribution.
    #[error("burstiness must be from 0.01 to 1,000,000 (1: Poisson), or inf for evenly spaced, not {0}")]
    Burstiness(f64),
}

impl ArrivalLaw {
    /// The law of a rate in requests/s (infinite: all at once) and a burstiness, the shape of the gamma distribution
    /// of the gaps (1: Poisson; infinite: evenly spaced).
    ///
    /// # Errors
    /// [`BadLaw`] when one of them is out of range.
    pub fn new(per_s: f64, burstiness: f64) -> Result<Self, BadLaw> {
        if !(burstiness == f64::INFINITY || (0.01..=1e6).contains(&burstiness)) {
            return Err(BadLaw::Burstiness(burstiness));
        }
        match per_s {
            f64::INFINITY => Ok(ArrivalLaw::AtOnce),
            _ if !(1e-4..=1e6).contains(&per_s) => Err(BadLaw::Rate(per_s)),
            _ if burstiness == f64::INFINITY => Ok(ArrivalLaw::Even { per_s }),
            _ if burstiness == 1.0 => Ok(ArrivalLaw::Poisson { per_s }),
            _ => Ok(ArrivalLaw::Gamma { per_s, shape: burstiness }),
        }
    }

    /// Mean arrivals per s; None where all come at once.
    pub fn per_s(&self) -> Option<f64> {
        match *self {
            ArrivalLaw::AtOnce => None,
            ArrivalLaw::Even { per_s } | ArrivalLaw::Poisson { per_s } | ArrivalLaw::Gamma { per_s, .. } => Some(per_s),
        }
    }

    /// The arrivals, without end.
    pub fn schedule(self, seed: u64) -> Schedule {
        let gaps = match self {
            ArrivalLaw::AtOnce => Gaps::None,
            ArrivalLaw::Even { per_s } => Gaps::Even { per_s },
            ArrivalLaw::Poisson { per_s } => Gaps::Exponential { mean_ns: 1e9 / per_s },
            ArrivalLaw::Gamma { per_s, shape } => match Gamma::new(shape, 1e9 / per_s / shape) {
                Ok(gamma) => Gaps::Gamma(gamma),
                Err(error) => panic!("a checked law has a distribution: {error}"),
            },
        };
        Schedule { gaps, rng: Pcg64::new(u128::from(seed), ARRIVALS), drawn: 0, at_ns: 0.0 }
    }

    /// The arrivals of a window: `at_least` of them, and by the same law all that come before `until`. Where all come
    /// at once there is no time to go on through: exactly `at_least`.
    pub fn window(self, seed: u64, at_least: u64, until: Nanos) -> impl Iterator<Item = Nanos> {
        let until = if self == ArrivalLaw::AtOnce { Nanos::ZERO } else { until };
        (0..).zip(self.schedule(seed)).take_while(move |(i, due)| *i < at_least || *due < until).map(|(_, due)| due)
    }
}

#[derive(Clone, Debug)]
enum Gaps {
    None,
    Even { per_s: f64 },
    Exponential { mean_ns: f64 },
    Gamma(Gamma<f64>),
}

/// Offsets of arrivals from the opening of a window, never decreasing, without end. The first one of a drawn law
/// comes after a first gap, so that n - 1 arrivals over the time of the n-th have the mean rate.
#[derive(Clone, Debug)]
pub struct Schedule {
    gaps: Gaps,
    rng: Pcg64,
    drawn: u64,
    /// Kept unrounded: rounding each gap would bend the rate of fast schedules.
    at_ns: f64,
}

impl Iterator for Schedule {
    type Item = Nanos;

    fn next(&mut self) -> Option<Nanos> {
        let drawn = self.drawn as f64;
        self.drawn += 1;
        match &self.gaps {
            Gaps::None => {}
            // from its number and not from the one before: no error adds up
            Gaps::Even { per_s } => self.at_ns = drawn * 1e9 / per_s,
            Gaps::Exponential { mean_ns } => {
                let gap: f64 = Exp1.sample(&mut self.rng);
                self.at_ns += gap * mean_ns;
            }
            Gaps::Gamma(gamma) => self.at_ns += gamma.sample(&mut self.rng),
        }
        // a float beyond the range becomes its end: 584 years
        Some(Nanos::from_ns(self.at_ns.round() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn law(per_s: f64, burstiness: f64) -> ArrivalLaw {
        ArrivalLaw::new(per_s, burstiness).expect("in range")
    }

    fn dues(law: ArrivalLaw, seed: u64, n: usize) -> Vec<u64> {
        law.schedule(seed).take(n).map(Nanos::ns).collect()
    }

    /// Variance over mean of the counts in bins of ten mean gaps.
    fn dispersion(law: ArrivalLaw, seed: u64) -> f64 {
        let bin = (10.0 * 1e9 / law.per_s().expect("a rate")) as u64;
        let dues = dues(law, seed, 100_000);
        let bins = dues[dues.len() - 1] / bin;
        let mut counts = vec![0.0; bins as usize];
        dues.iter()
            .map(|due| (due / bin) as usize)
            .filter(|b| *b < counts.len())
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|b| counts[b] += 1.0);
        let mean = counts.iter().sum::<f64>() / bins as f64;
        counts.iter().map(|n| (n - mean) * (n - mean)).sum::<f64>() / (bins - 1) as f64 / mean
    }

    proptest! {
        #[test]
        fn a_schedule_runs_forward_and_is_the_same_each_time(
            per_s in 0.01f64..100_000.0,
            burstiness in prop_oneof![Just(1.0), Just(f64::INFINITY), 0.05f64..20.0],
            seed in any::<u64>(),
        ) {
            let law = law(per_s, burstiness);
            let first = dues(law, seed, 500);
            prop_assert!(first.windows(2).all(|w| w[0] <= w[1]));
            prop_assert_eq!(&first, &dues(law, seed, 500));
            // the seed decides wherever anything is drawn
            prop_assert_eq!(first == dues(law, seed ^ 1, 500), burstiness == f64::INFINITY);
        }

        #[test]
        fn the_mean_rate_is_the_one_asked_for(per_s in 0.1f64..50_000.0, shape in 0.5f64..10.0, seed in any::<u64>()) {
            for law in [law(per_s, 1.0), law(per_s, shape)] {
                let n = 20_000;
                let found = (n - 1) as f64 / (dues(law, seed, n)[n - 1] as f64 / 1e9);
                // six standard errors of the mean of n gaps
                let bound = 6.0 / (n as f64 * shape.min(1.0)).sqrt();
                prop_assert!((found / per_s - 1.0).abs() < bound, "{found} for {per_s}");
            }
        }

        #[test]
        fn an_even_schedule_is_even_to_the_ns(per_s in 0.01f64..1e6, seed in any::<u64>()) {
            let dues = dues(law(per_s, f64::INFINITY), seed, 3_000);
            prop_assert_eq!(dues[0], 0);
            for (i, due) in dues.iter().enumerate() {
                prop_assert!((*due as f64 - i as f64 * 1e9 / per_s).abs() <= 0.5);
            }
        }

        #[test]
        fn a_window_has_its_number_and_its_time(n in 0u64..300, until_ms in 0u64..3_000, seed in any::<u64>()) {
            let (law, until) = (law(100.0, 1.0), Nanos::from_millis(until_ms));
            let window: Vec<Nanos> = law.window(seed, n, until).collect();
            let before = law.schedule(seed).take_while(|due| *due < until).count() as u64;
            prop_assert_eq!(window.len() as u64, n.max(before));
            prop_assert!(window.iter().copied().eq(law.schedule(seed).take(window.len())), "one law throughout");
        }
    }

    #[test]
    fn counts_scatter_as_the_law_says() {
        // with gaps of shape k the counts' variance over their mean tends to 1/k; the standard error of the figure
        // is about sqrt(2/10,000)
        for seed in 0..5 {
            let poisson = dispersion(law(100.0, 1.0), seed);
            assert!((poisson - 1.0).abs() < 0.08, "Poisson: {poisson}");
            let regular = dispersion(law(100.0, 4.0), seed);
            assert!((regular - 0.25).abs() < 0.08, "shape 4: {regular}");
            let bursts = dispersion(law(100.0, 0.25), seed);
            assert!((2.5..4.6).contains(&bursts), "shape 0.25: {bursts}");
        }
    }

    #[test]
    fn the_gaps_of_poisson_arrivals_are_exponential() {
        let dues = dues(law(1000.0, 1.0), 7, 100_001);
        let gaps: Vec<f64> = dues.windows(2).map(|w| (w[1] - w[0]) as f64 / 1e6).collect();
        for at in [0.1, 0.5, 1.0, 2.0, 4.0_f64] {
            let share = gaps.iter().filter(|gap| **gap > at).count() as f64 / gaps.len() as f64;
            let expected = f64::exp(-at);
            assert!((share - expected).abs() < 0.008, "{share} of the gaps are longer than {at} means, not {expected}");
        }
    }

    #[test]
    fn these_times_are_what_seed_7_means() {
        // a golden vector, in every release
        assert_eq!(dues(law(10.0, 1.0), 7, 4), GOLDEN_POISSON);
        assert_eq!(dues(law(10.0, 2.0), 7, 4), GOLDEN_GAMMA);
        assert_eq!(dues(law(10.0, f64::INFINITY), 7, 4), [0, 100_000_000, 200_000_000, 300_000_000]);
    }

    const GOLDEN_POISSON: [u64; 4] = [188_229_192, 515_358_915, 599_861_190, 662_143_055];
    const GOLDEN_GAMMA: [u64; 4] = [182_289_312, 333_800_255, 431_502_117, 504_017_288];

    #[test]
    fn all_at_once_has_an_end() {
        let law = law(f64::INFINITY, 1.0);
        assert_eq!(law.per_s(), None);
        assert_eq!(law.window(7, 5, Nanos::from_secs(9)).collect::<Vec<_>>(), [Nanos::ZERO; 5]);
    }

    #[test]
    fn nonsense_is_refused() {
        for bad in [0.0, -1.0, 1e-5, f64::NAN, f64::NEG_INFINITY, 2e6] {
            assert!(matches!(ArrivalLaw::new(bad, 1.0), Err(BadLaw::Rate(_))), "{bad}");
        }
        for bad in [0.0, -1.0, f64::NAN, 1e7] {
            assert!(matches!(ArrivalLaw::new(1.0, bad), Err(BadLaw::Burstiness(_))), "{bad}");
        }
    }
}
