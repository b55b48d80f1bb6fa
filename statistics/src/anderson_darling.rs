//! The test of Anderson and Darling (1952): whether values come from a distribution that is known in full (case 0: none
//! of its parameters was taken from the values). It weighs both tails, where a schedule that is not kept shows first.

use super::logarithm::{exp, ln};

/// The statistic, and how often chance makes one as large or larger.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// A squared.
    pub a2: f64,
    /// Probability of a statistic at least so large, if the values do come from the distribution. To about four digits
    /// behind the point.
    pub p: f64,
}

/// Tests values by their places in the distribution: the probabilities of a value below, and above. Sorts them. None with
/// no values.
pub fn test(places: &mut [[f64; 2]]) -> Option<Found> {
    if places.is_empty() {
        return None;
    }
    places.sort_unstable_by(|a, b| a[0].total_cmp(&b[0]).then(b[1].total_cmp(&a[1])));
    let n = places.len();
    let log = |p: f64| ln(p.max(f64::MIN_POSITIVE));
    let weighed = |i: usize| (2 * i + 1) as f64 * (log(places[i][0]) + log(places[n - 1 - i][1]));
    let sum: f64 = (0..n).map(weighed).sum();
    let a2 = -(n as f64) - sum / n as f64;
    Some(Found { a2, p: beyond(n, a2) })
}

/// Probability that the statistic of `n` values is above `a2`.
///
/// Marsaglia and Marsaglia, Evaluating the Anderson-Darling distribution, Journal of Statistical Software 9(2), 2004: the
/// limit for many values, to 2 in a million, and its correction for n.
pub fn beyond(n: usize, a2: f64) -> f64 {
    if a2 <= 0.0 {
        return 1.0;
    }
    let n = n as f64;
    // the limit's complement, which keeps its digits where it is small
    let (limit, rest) = if a2 < 2.0 {
        let limit = exp(-1.2337141 / a2) / a2.sqrt()
            * polynomial(&[2.00012, 0.247105, -0.0649821, 0.0347962, -0.011672, 0.00168691], a2);
        (limit, 1.0 - limit)
    } else {
        let rate = exp(polynomial(&[1.0776, -2.30695, 0.43424, -0.082433, 0.008056, -0.0003146], a2));
        (exp(-rate), if rate < 1e-4 { rate - rate * rate / 2.0 } else { 1.0 - exp(-rate) })
    };
    (rest - correction(n, limit)).clamp(0.0, 1.0)
}

/// What the distribution for `n` values has more than the limit, where the limit is `x`.
fn correction(n: f64, x: f64) -> f64 {
    let bend = 0.01265 + 0.1757 / n;
    if x > 0.8 {
        polynomial(&[-130.2137, 745.2337, -1705.091, 1950.646, -1116.360, 255.7844], x) / n
    } else if x < bend {
        let t = x / bend;
        t.sqrt() * (1.0 - t) * (49.0 * t - 102.0) * (0.0037 / (n * n) + 0.00078 / n + 0.00006) / n
    } else {
        let t = (x - bend) / (0.8 - bend);
        polynomial(&[-0.00022633, 6.54034, -14.6538, 14.458, -8.259, 1.91864], t) * (0.04213 + 0.01365 / n) / n
    }
}

/// Coefficients from the constant on.
fn polynomial(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gamma_distribution::below_and_above;
    use bench_engine::schedule::ArrivalLaw;
    use proptest::prelude::*;

    /// Places in the gamma distribution `tested` of gaps that a schedule drew from the one of shape `drawn`.
    fn places(drawn: f64, tested: f64, seed: u64, n: usize) -> Vec<[f64; 2]> {
        let law = ArrivalLaw::new(1.0, drawn).unwrap();
        let dues: Vec<u64> = law.schedule(seed).take(n + 1).map(|due| due.ns()).collect();
        dues.windows(2)
            .map(|pair| below_and_above(tested, tested * ((pair[1] - pair[0]) as f64).max(0.5) / 1e9))
            .collect()
    }

    #[test]
    fn the_published_table() {
        // upper points of the limit, by the exact series of the same paper
        for (a2, p) in [(1.93296, 0.10), (2.49237, 0.05), (3.07750, 0.025), (3.87813, 0.01)] {
            let found = beyond(1_000_000, a2);
            assert!((found - p).abs() < 0.001 * p, "{a2}: {found}, not {p}");
        }
        // as they are usually printed (Stephens 1974, case 0, any n from 5 on), the last two a little low
        for (a2, p) in [(1.933, 0.10), (2.492, 0.05), (3.070, 0.025), (3.857, 0.01)] {
            for n in [20, 100, 500, 1_000_000] {
                assert!((beyond(n, a2) - p).abs() < 0.05 * p, "{a2} of {n}: {}", beyond(n, a2));
            }
        }
    }

    #[test]
    fn a_worked_example() {
        // of the three quarters: A2 = -3 - (ln(1/4 1/4) + 3 ln(1/2 1/2) + 5 ln(3/4 3/4)) / 3
        let a2 = -3.0 - (0.0625_f64.ln() + 3.0 * 0.25_f64.ln() + 5.0 * 0.5625_f64.ln()) / 3.0;
        let found = test(&mut [[0.75, 0.25], [0.25, 0.75], [0.5, 0.5]]).unwrap();
        assert!((found.a2 - a2).abs() < 1e-15 && found.p > 0.9, "{found:?}");
        assert_eq!(test(&mut []), None);
        let impossible = test(&mut [[0.0, 1.0]; 4]).unwrap();
        assert!(impossible.a2.is_finite() && impossible.p < 2e-4, "{impossible:?}");
    }

    /// Of 2,000 samples that do come from their law, 1 in 100 is below .01, 1 in 10 below .1: within four standard
    /// deviations of the binomial.
    #[test]
    fn chance_is_as_frequent_as_it_says() {
        for shape in [0.3_f64, 1.0, 4.0] {
            let found: Vec<f64> = (0..2_000).map(|seed| test(&mut places(shape, shape, seed, 60)).unwrap().p).collect();
            for level in [0.01, 0.1, 0.5] {
                let below = found.iter().filter(|p| **p < level).count() as f64;
                let slack = 4.0 * (2_000.0 * level * (1.0 - level)).sqrt();
                assert!((below - 2_000.0 * level).abs() < slack, "shape {shape}: {below} below {level}");
            }
        }
    }

    #[test]
    fn another_law_is_seen() {
        let found = test(&mut places(4.0, 1.0, 7, 200)).unwrap();
        assert!(found.a2 > 10.0 && found.p < 1e-4, "{found:?}");
    }

    proptest! {
        #[test]
        fn it_falls(n in 1_usize..2_000, a2 in 0.01_f64..30.0, more in 0.01_f64..5.0) {
            let (p, later) = (beyond(n, a2), beyond(n, a2 + more));
            prop_assert!((0.0..=1.0).contains(&p));
            // the published fit is so precise, with few values less so
            prop_assert!(later <= p + 2e-4 + 0.002 / n as f64, "{n}: {p} then {later}");
        }

        #[test]
        fn order_changes_nothing(mut values in prop::collection::vec(0.0_f64..1.0, 1..50)) {
            let places = |values: &[f64]| values.iter().map(|v| [*v, 1.0 - v]).collect::<Vec<_>>();
            let found = test(&mut places(&values));
            values.reverse();
            prop_assert_eq!(test(&mut places(&values)), found);
        }
    }
}
