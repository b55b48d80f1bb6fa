//! When the requests of an open-loop window are due, as offsets from its opening. Everything follows from the
//! arrival law and a seed: no clock, no worker and no reply has a say in it.

mod law;
mod profile;

pub use law::{ArrivalLaw, BadLaw, GapLaw, LARGEST_BATCH, Spacing};
pub use profile::{After, BadProfile, RateProfile, Stretch};

use crate::units::Nanos;
use rand_distr::{Distribution, Exp1, Gamma};
use rand_pcg::Pcg64;

/// Stream of the generator that arrivals are drawn from; order, lengths and words of a workload have their own, 1 to 3.
const ARRIVALS: u128 = 4;

#[derive(Clone, Debug)]
enum Gaps {
    None,
    Even {
        per_s: f64,
    },
    /// The number of the arrival itself: even, where time is counted in arrivals.
    Numbered,
    Exponential {
        mean_ns: f64,
    },
    Gamma(Gamma<f64>),
    Batches {
        size: u64,
        every_ns: u64,
    },
}

/// Offsets of arrivals from the opening of a window, never decreasing. The first one of a drawn law comes after a first
/// gap, so that n - 1 arrivals over the time of the n-th have the mean rate.
#[derive(Clone, Debug)]
pub struct Schedule {
    gaps: Gaps,
    /// With one, gaps are in mean arrivals instead of ns.
    rate: Option<RateProfile>,
    rng: Pcg64,
    drawn: u64,
    /// Kept unrounded: rounding each gap would bend the rate of fast schedules.
    at: f64,
    last: Nanos,
}

impl Schedule {
    fn new(gaps: Gaps, rate: Option<RateProfile>, seed: u64) -> Self {
        let rng = Pcg64::new(u128::from(seed), ARRIVALS);
        Schedule { gaps, rate, rng, drawn: 0, at: 0.0, last: Nanos::ZERO }
    }
}

impl Iterator for Schedule {
    type Item = Nanos;

    fn next(&mut self) -> Option<Nanos> {
        let drawn = self.drawn;
        self.drawn += 1;
        match &self.gaps {
            Gaps::None => {}
            // from its number and not from the one before: no error adds up
            Gaps::Even { per_s } => self.at = drawn as f64 * 1e9 / per_s,
            Gaps::Numbered => self.at = drawn as f64,
            Gaps::Exponential { mean_ns } => {
                let gap: f64 = Exp1.sample(&mut self.rng);
                self.at += gap * mean_ns;
            }
            Gaps::Gamma(gamma) => self.at += gamma.sample(&mut self.rng),
            Gaps::Batches { size, every_ns } => return Some(Nanos::from_ns((drawn / size).saturating_mul(*every_ns))),
        }
        let due = match &self.rate {
            // a float beyond the range becomes its end: 584 years
            None => Nanos::from_ns(self.at.round() as u64),
            Some(rate) => rate.reached(self.at)?,
        };
        // floats are rounded on both sides of half a ns
        self.last = self.last.max(due);
        Some(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn law(per_s: f64, burstiness: f64) -> ArrivalLaw {
        ArrivalLaw::new(per_s, burstiness).expect("in range")
    }

    fn dues(law: &ArrivalLaw, seed: u64, n: usize) -> Vec<u64> {
        law.schedule(seed).take(n).map(Nanos::ns).collect()
    }

    /// Variance over mean of the counts in bins of ten mean gaps.
    fn dispersion(law: &ArrivalLaw, seed: u64) -> f64 {
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
            let first = dues(&law, seed, 500);
            prop_assert!(first.windows(2).all(|w| w[0] <= w[1]));
            prop_assert_eq!(&first, &dues(&law, seed, 500));
            // the seed decides wherever anything is drawn
            prop_assert_eq!(first == dues(&law, seed ^ 1, 500), burstiness == f64::INFINITY);
        }

        #[test]
        fn the_mean_rate_is_the_one_asked_for(per_s in 0.1f64..50_000.0, shape in 0.5f64..10.0, seed in any::<u64>()) {
            for law in [law(per_s, 1.0), law(per_s, shape)] {
                let n = 20_000;
                let found = (n - 1) as f64 / (dues(&law, seed, n)[n - 1] as f64 / 1e9);
                // six standard errors of the mean of n gaps
                let bound = 6.0 / (n as f64 * shape.min(1.0)).sqrt();
                prop_assert!((found / per_s - 1.0).abs() < bound, "{found} for {per_s}");
            }
        }

        #[test]
        fn an_even_schedule_is_even_to_the_ns(per_s in 0.01f64..1e6, seed in any::<u64>()) {
            let dues = dues(&law(per_s, f64::INFINITY), seed, 3_000);
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
            let poisson = dispersion(&law(100.0, 1.0), seed);
            assert!((poisson - 1.0).abs() < 0.08, "Poisson: {poisson}");
            let regular = dispersion(&law(100.0, 4.0), seed);
            assert!((regular - 0.25).abs() < 0.08, "shape 4: {regular}");
            let bursts = dispersion(&law(100.0, 0.25), seed);
            assert!((2.5..4.6).contains(&bursts), "shape 0.25: {bursts}");
        }
    }

    #[test]
    fn the_gaps_of_poisson_arrivals_are_exponential() {
        let dues = dues(&law(1000.0, 1.0), 7, 100_001);
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
        assert_eq!(dues(&law(10.0, 1.0), 7, 4), GOLDEN_POISSON);
        assert_eq!(dues(&law(10.0, 2.0), 7, 4), GOLDEN_GAMMA);
        assert_eq!(dues(&law(10.0, f64::INFINITY), 7, 4), [0, 100_000_000, 200_000_000, 300_000_000]);
    }

    #[test]
    fn a_rate_that_changes_has_its_golden_vector_too() {
        let stage = |s, per_s| Stretch::constant(Nanos::from_secs(s), per_s);
        let stages =
            RateProfile::new(vec![stage(1, 2.0), stage(1, 0.0), stage(1, 10.0)], After::End).expect("in range");
        let of = |spacing| dues(&ArrivalLaw::Varying { rate: stages.clone(), spacing }, 7, 4);
        assert_eq!(of(Spacing::Even), [0, 500_000_000, 2_000_000_000, 2_100_000_000]);
        assert_eq!(of(Spacing::Poisson), GOLDEN_STAGES);
        assert_eq!(
            dues(&ArrivalLaw::batches(2, Nanos::from_secs(3)).expect("ok"), 7, 5),
            [0, 0, 3, 3, 6].map(|s| s * 1_000_000_000)
        );
    }

    const GOLDEN_STAGES: [u64; 4] = [941_145_961, 2_315_358_915, 2_399_861_190, 2_462_143_055];
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

    /// Every kind of rate over time, each with all three spacings.
    fn any_varying() -> impl Strategy<Value = ArrivalLaw> {
        let rate = || prop_oneof![1 => Just(0.0), 3 => 0.5f64..200.0];
        let stretch = (1_000_000u64..5_000_000_000, rate(), rate())
            .prop_map(|(lasts_ns, from_per_s, to_per_s)| Stretch { lasts_ns, from_per_s, to_per_s });
        let after = prop_oneof![
            Just(After::End),
            Just(After::Again),
            (0.5f64..200.0).prop_map(|per_s| After::Constant { per_s })
        ];
        let spacing = prop_oneof![
            Just(Spacing::Even),
            Just(Spacing::Poisson),
            (0.2f64..9.0).prop_map(|shape| Spacing::Gamma { shape })
        ];
        (prop::collection::vec(stretch, 1..5), after, spacing).prop_filter_map(
            "no arrivals",
            |(stretches, after, spacing)| {
                Some(ArrivalLaw::Varying { rate: RateProfile::new(stretches, after).ok()?, spacing })
            },
        )
    }

    proptest! {
        #[test]
        fn a_varying_schedule_runs_forward_is_repeatable_and_ends_with_its_law(law in any_varying(), seed in any::<u64>()) {
            let first = dues(&law, seed, 500);
            prop_assert!(first.windows(2).all(|w| w[0] <= w[1]));
            prop_assert_eq!(&first, &dues(&law, seed, 500));
            if let Some(end) = law.end() {
                prop_assert!(first.iter().all(|due| *due < end.ns()));
            } else {
                prop_assert_eq!(first.len(), 500);
            }
        }

        #[test]
        fn the_nth_even_arrival_is_where_the_integral_is_n(law in any_varying(), per_s in 0.1f64..1e5) {
            let even = match law {
                ArrivalLaw::Varying { rate, .. } => ArrivalLaw::Varying { rate, spacing: Spacing::Even },
                other => other,
            };
            let constant = ArrivalLaw::Even { per_s };
            for law in [even, constant] {
                let peak = law.peak_per_s().expect("a rate");
                for (n, due) in (0..300).zip(law.schedule(1)) {
                    let found = law.mean_arrivals(due);
                    prop_assert!((found - f64::from(n)).abs() <= peak * 1e-9 + 1e-9, "arrival {n} at {due:?} is {found}");
                }
            }
        }

        #[test]
        fn batches_come_whole_and_on_time(size in 1u64..50, every_ns in 1u64..10_000_000_000) {
            let law = ArrivalLaw::batches(size, Nanos::from_ns(every_ns)).expect("in range");
            for (n, due) in (0..200).zip(law.schedule(7)) {
                prop_assert_eq!(due.ns(), n / size * every_ns);
                // those before it, then its whole batch
                prop_assert_eq!(law.mean_arrivals(due), (n / size * size) as f64);
                prop_assert_eq!(law.mean_arrivals(due + Nanos::from_ns(1)), ((n / size + 1) * size) as f64);
            }
        }
    }

    /// Gaps of one schedule in mean arrivals.
    fn rescaled(law: &ArrivalLaw, seed: u64, n: usize) -> Vec<f64> {
        let at: Vec<f64> = law.schedule(seed).take(n + 1).map(|due| law.mean_arrivals(due)).collect();
        at.windows(2).map(|w| w[1] - w[0]).collect()
    }

    #[test]
    fn the_rescaled_gaps_of_a_varying_rate_are_those_of_the_constant_one() {
        let s = Nanos::from_secs;
        let ramps = vec![
            Stretch { lasts_ns: s(3).ns(), from_per_s: 0.0, to_per_s: 400.0 },
            Stretch { lasts_ns: s(3).ns(), from_per_s: 400.0, to_per_s: 0.0 },
            Stretch::constant(s(2), 0.0),
            Stretch::constant(s(1), 900.0),
        ];
        let rate = RateProfile::new(ramps, After::Again).expect("in range");
        let law = |spacing| ArrivalLaw::Varying { rate: rate.clone(), spacing };
        for seed in 0..3 {
            let gaps = rescaled(&law(Spacing::Poisson), seed, 100_000);
            for at in [0.1, 0.5, 1.0, 2.0, 4.0_f64] {
                let share = gaps.iter().filter(|gap| **gap > at).count() as f64 / gaps.len() as f64;
                let expected = f64::exp(-at);
                assert!((share - expected).abs() < 0.008, "{share} are longer than {at} means, not {expected}");
            }
            // neighbours know nothing of each other
            let product: f64 = gaps.windows(2).map(|w| (w[0] - 1.0) * (w[1] - 1.0)).sum();
            assert!((product / gaps.len() as f64).abs() < 0.02);
            let gaps = rescaled(&law(Spacing::Gamma { shape: 4.0 }), seed, 100_000);
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let variance = gaps.iter().map(|gap| (gap - mean) * (gap - mean)).sum::<f64>() / gaps.len() as f64;
            assert!((mean - 1.0).abs() < 0.01 && (variance - 0.25).abs() < 0.01, "{mean}, {variance}");
        }
    }

    #[test]
    fn a_profile_of_one_rate_is_the_constant_law() {
        for spacing in [Spacing::Even, Spacing::Poisson, Spacing::Gamma { shape: 2.0 }] {
            let constant = match spacing {
                Spacing::Even => law(70.0, f64::INFINITY),
                Spacing::Poisson => law(70.0, 1.0),
                Spacing::Gamma { shape } => law(70.0, shape),
            };
            let rate =
                RateProfile::new(vec![Stretch::constant(Nanos::from_secs(3), 70.0)], After::Constant { per_s: 70.0 });
            let varying = ArrivalLaw::Varying { rate: rate.expect("in range"), spacing };
            assert_eq!(varying.gaps(), constant.gaps());
            let pairs = dues(&varying, 7, 1_000).into_iter().zip(dues(&constant, 7, 1_000));
            pairs.for_each(|(a, b)| assert!(a.abs_diff(b) <= 1, "{a}, {b}"));
        }
    }

    #[test]
    fn every_third_arrival_of_poisson_is_gamma_of_shape_three() {
        assert_eq!(GapLaw::Exponential.of_every(3), GapLaw::Gamma { shape: 3.0 });
        assert_eq!(GapLaw::Gamma { shape: 0.5 }.of_every(4), GapLaw::Gamma { shape: 2.0 });
        assert_eq!((GapLaw::Even.of_every(3), GapLaw::Exponential.of_every(1)), (GapLaw::Even, GapLaw::Exponential));
        let at: Vec<f64> = dues(&law(1.0, 1.0), 7, 90_000).into_iter().step_by(3).map(|ns| ns as f64 / 3e9).collect();
        let gaps: Vec<f64> = at.windows(2).map(|w| w[1] - w[0]).collect();
        let variance = gaps.iter().map(|gap| (gap - 1.0) * (gap - 1.0)).sum::<f64>() / gaps.len() as f64;
        assert!((variance - 1.0 / 3.0).abs() < 0.02, "{variance}");
    }
}
