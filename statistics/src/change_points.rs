//! Where the level of a series changes for good.
//!
//! The series is cut so that the sum of its parts' costs, and of a penalty for each cut, is smallest: the optimum that
//! PELT finds (Killick, Fearnhead and Eckley 2012), here by the plain recursion over all cuts (Jackson et al. 2005),
//! since a series has a few dozen values. The cost of a part is the bounded squared distance from its level
//! (Fearnhead and Rigaill 2019): one value far off costs no more than one three deviations off, so that an outlier makes
//! no level of its own.
//!
//! The deviation is that of the noise: from the median of absolute differences of values one, two and three places
//! apart, the largest of the three, which a change of level hardly moves and which neighbours that resemble each other
//! do not make too small.

/// Fewest values that have a level of their own.
pub const SHORTEST: usize = 3;
/// What a cut must save, in squared deviations of the noise: chosen by simulation, so that of a hundred series of
/// independent values fewer than two have one, and of values with a lag-1 coefficient of 0.3 fewer than five.
pub const PENALTY: f64 = 14.0;
/// A value further off, in squared deviations, costs this.
const FARTHEST: f64 = 9.0;
/// From a median of absolute differences to the deviation of one value: 1 / (0.6745 sqrt 2).
const DEVIATION_OF_DIFFERENCES: f64 = 1.048_4;

/// Places where a new level begins, ascending, each from [`SHORTEST`] to `n - SHORTEST`. The noise is taken to deviate by
/// `least_deviation` at least; must be positive.
pub fn of(values: &[f64], least_deviation: f64) -> Vec<usize> {
    let n = values.len();
    if n < 2 * SHORTEST {
        return Vec::new();
    }
    let deviation = noise(values).max(least_deviation);
    let scaled: Vec<f64> = values.iter().map(|v| v / deviation).collect();
    let costs = costs(&scaled);
    // best[t]: of the first t values; a penalty was paid for the part that begins at 0, too
    let mut best: Vec<Option<(f64, usize)>> = vec![None; n + 1];
    best[0] = Some((-PENALTY, 0));
    for end in SHORTEST..=n {
        for start in 0..=end - SHORTEST {
            let Some((before, _)) = best[start] else { continue };
            let total = before + costs[start][end - start] + PENALTY;
            if best[end].is_none_or(|(least, _)| total < least) {
                best[end] = Some((total, start));
            }
        }
    }
    let mut cuts = Vec::new();
    let mut end = n;
    while let Some((_, start)) = best[end].filter(|_| end > 0) {
        cuts.extend((start > 0).then_some(start));
        end = start;
    }
    cuts.reverse();
    cuts
}

/// Deviation of the noise around the levels.
fn noise(values: &[f64]) -> f64 {
    let of_lag = |lag: usize| {
        let mut apart: Vec<f64> = values.iter().zip(&values[lag..]).map(|(a, b)| (b - a).abs()).collect();
        apart.sort_by(f64::total_cmp);
        apart.get(apart.len() / 2).copied().unwrap_or_default()
    };
    (1..=3).map(of_lag).fold(0.0, f64::max) * DEVIATION_OF_DIFFERENCES
}

/// By start and length: the smallest sum of `min((value - level)^2, FARTHEST)` over all levels.
fn costs(values: &[f64]) -> Vec<Vec<f64>> {
    let of_start = |start: usize| {
        let mut sorted: Vec<f64> = Vec::with_capacity(values.len() - start);
        let mut costs = vec![0.0];
        for &value in &values[start..] {
            sorted.insert(sorted.partition_point(|v| *v <= value), value);
            costs.push(bounded(&sorted));
        }
        costs
    };
    (0..values.len()).map(of_start).collect()
}

/// Whatever the level, the values near it are neighbours in order of size: all runs of those are tried, the others cost
/// [`FARTHEST`].
fn bounded(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    let mut least = n as f64 * FARTHEST;
    for first in 0..n {
        let (mut mean, mut squares) = (0.0, 0.0);
        for (count, value) in sorted[first..].iter().enumerate() {
            let apart = value - mean;
            mean += apart / (count + 1) as f64;
            squares += apart * (value - mean);
            if squares >= least {
                break;
            }
            least = least.min(squares + (n - count - 1) as f64 * FARTHEST);
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::levels::middle;
    use crate::simulated::{Draws, Law, at_most};
    use proptest::prelude::*;

    /// Noise of about one around levels.
    fn noisy(levels: &[(usize, f64)]) -> Vec<f64> {
        let values = levels.iter().flat_map(|(n, level)| vec![*level; *n]);
        values.enumerate().map(|(i, v)| v + [0.9, -0.6, 0.2, -1.1, 0.5, 0.0, -0.3][i * 3 % 7]).collect()
    }

    #[test]
    fn levels_are_told_apart() {
        assert_eq!(of(&noisy(&[(20, 50.0)]), 0.1), [] as [usize; 0]);
        assert_eq!(of(&noisy(&[(12, 50.0), (8, 60.0)]), 0.1), [12]);
        assert_eq!(of(&noisy(&[(7, 50.0), (5, 60.0), (8, 50.0)]), 0.1), [7, 12]);
        assert_eq!(of(&noisy(&[(3, 50.0), (17, 40.0)]), 0.1), [3]);
        // one or two slices that are far off are no level
        assert_eq!(of(&noisy(&[(9, 50.0), (1, 5_000.0), (10, 50.0)]), 0.1), [] as [usize; 0]);
        // what is below the least deviation is no change
        assert_eq!(of(&noisy(&[(12, 50.0), (8, 60.0)]), 9.0), [] as [usize; 0]);
        assert_eq!(of(&[1.0, 1.0, 1.0, 9.0, 9.0], 0.1), [] as [usize; 0]);
    }

    #[test]
    fn a_bounded_distance_by_hand() {
        // around 1: 0, 1, 1 and one that costs 9
        assert_eq!(bounded(&[0.0, 1.0, 2.0, 100.0]), 11.0);
        assert_eq!(bounded(&[5.0]), 0.0);
    }

    /// Of a hundred windows without a change fewer than two have one.
    #[test]
    fn false_alarms() {
        let runs = 400;
        let laws = [Law::Independent, Law::Mixed, Law::LongTailed, Law::Constant, Law::Remembering(0.8)];
        for (slices, requests) in [(10, 20), (20, 30)] {
            for (seed, law) in laws.into_iter().enumerate() {
                let mut draws = Draws::new(law, seed as u64);
                let alarms = (0..runs).filter(|_| {
                    let medians: Vec<f64> = (0..slices).map(|_| middle(&draws.series(requests))).collect();
                    !of(&medians, 0.005 * middle(&medians)).is_empty()
                });
                let alarms = alarms.count();
                assert!(alarms <= at_most(0.01, runs), "{law:?}, {slices} slices: {alarms} of {runs}");
            }
        }
    }

    #[test]
    fn a_level_of_half_as_much_again_is_found() {
        let mut draws = Draws::new(Law::Independent, 5);
        let mut found = 0;
        for _ in 0..100 {
            let slice = |i: usize, draws: &mut Draws| middle(&draws.series(50)) * if i < 12 { 1.0 } else { 1.5 };
            let medians: Vec<f64> = (0..20).map(|i| slice(i, &mut draws)).collect();
            found += usize::from(of(&medians, 1.0).iter().any(|cut| (11..=13).contains(cut)));
        }
        assert!(found >= 95, "{found} of 100");
    }

    /// All ways to cut a series, by brute force.
    fn least_cost(values: &[f64], deviation: f64) -> f64 {
        let scaled: Vec<f64> = values.iter().map(|v| v / deviation).collect();
        let n = values.len();
        let cost = |part: &[f64]| {
            let mut sorted = part.to_vec();
            sorted.sort_by(f64::total_cmp);
            bounded(&sorted)
        };
        let all = (0..1_u32 << (n - 1)).map(|mask| {
            let mut places: Vec<usize> = (1..n).filter(|i| mask >> (i - 1) & 1 == 1).collect();
            places.push(n);
            let (mut total, mut from) = (-PENALTY, 0);
            for to in places {
                total += if to - from < SHORTEST { f64::INFINITY } else { PENALTY + cost(&scaled[from..to]) };
                from = to;
            }
            total
        });
        all.fold(f64::INFINITY, f64::min)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn no_other_cuts_cost_less(values in prop::collection::vec(0_i32..60, 6..11)) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let deviation = noise(&values).max(1.0);
            let cuts = of(&values, 1.0);
            let (mut total, mut from) = (-PENALTY, 0);
            for to in cuts.iter().copied().chain([values.len()]) {
                prop_assert!(to - from >= SHORTEST);
                let mut part: Vec<f64> = values[from..to].iter().map(|v| v / deviation).collect();
                part.sort_by(f64::total_cmp);
                total += PENALTY + bounded(&part);
                from = to;
            }
            prop_assert!((total - least_cost(&values, deviation)).abs() < 1e-9);
        }

        #[test]
        fn a_bounded_distance_has_no_better_level(values in prop::collection::vec(-40_i32..40, 1..12)) {
            let mut sorted: Vec<f64> = values.iter().map(|v| f64::from(*v) / 4.0).collect();
            sorted.sort_by(f64::total_cmp);
            let found = bounded(&sorted);
            let at = |level: f64| sorted.iter().map(|v| ((v - level) * (v - level)).min(FARTHEST)).sum::<f64>();
            let least = (-2_000..=2_000).map(|i| at(f64::from(i) / 200.0)).fold(f64::INFINITY, f64::min);
            prop_assert!(found <= least + 1e-9 && found >= least - 0.01 * sorted.len() as f64, "{} {}", found, least);
        }

        #[test]
        fn the_unit_does_not_count(values in prop::collection::vec(0_i32..100, 6..40)) {
            let series: Vec<f64> = values.iter().map(|v| f64::from(*v)).collect();
            let scaled: Vec<f64> = series.iter().map(|v| v * 8.0).collect();
            prop_assert_eq!(of(&series, 1.0), of(&scaled, 8.0));
        }
    }
}
