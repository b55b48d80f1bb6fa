//! Whether a series of equally spaced values rises or falls as a whole: Mann and Kendall's test, and the slope of Theil
//! and Sen with its interval.
//!
//! The test counts pairs in order of time that rise, less those that fall (`S`), and holds it against the normal
//! distribution with continuity correction. Its variance is corrected for ties, and for neighbours that resemble each
//! other (Yue and Wang 2004): residuals from the Theil-Sen line, ranked, have a lag-1 coefficient, which makes the
//! variance larger by that of an AR(1) process; it is never made smaller. For ten values or more the normal distribution
//! is close enough at the levels asked for here.

use super::levels::middle;
use super::{normal_tail, ranks};

/// Fewer values than this have no trend that the normal approximation could judge.
pub const SMALLEST_N: usize = 10;
/// A coefficient of neighbours beyond this is taken as this: the variance is then more than ten times as large, and
/// nothing but a very long series has a trend.
const LARGEST_LAG_1: f64 = 0.9;

/// A trend over equally spaced values; slopes are per step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// Pairs that rise less pairs that fall.
    pub s: i64,
    /// Two-sided probability of an `S` as far from 0 without a trend.
    pub p: f64,
    /// Median of the slopes of all pairs.
    pub slope: f64,
    /// Low end of its 95 % interval.
    pub lo: f64,
    /// High end.
    pub hi: f64,
    /// Coefficient of neighbours that the variance was corrected for, 0 to 0.9.
    pub lag_1: f64,
}

/// The trend of a series. None with fewer than [`SMALLEST_N`] values, or when all are equal.
pub fn of(values: &[f64]) -> Option<Trend> {
    let n = values.len();
    if n < SMALLEST_N {
        return None;
    }
    let mut s = 0;
    let mut slopes = Vec::with_capacity(n * (n - 1) / 2);
    for (i, a) in values.iter().enumerate() {
        for (j, b) in values.iter().enumerate().skip(i + 1) {
            s += i64::from(b > a) - i64::from(b < a);
            slopes.push((b - a) / (j - i) as f64);
        }
    }
    let independent = variance_of_s(values);
    if independent <= 0.0 {
        return None;
    }
    slopes.sort_by(f64::total_cmp);
    let slope = middle(&slopes);
    let lag_1 = lag_1_of_residuals(values, slope);
    let deviation = (independent * inflation(lag_1, n)).sqrt();
    let z = (s.unsigned_abs().saturating_sub(1)) as f64 / deviation;
    let (lo, hi) = interval(&slopes, deviation);
    Some(Trend { s, p: normal_tail::beyond(z), slope, lo, hi, lag_1 })
}

/// Of independent values, with ties (Kendall 1975).
fn variance_of_s(values: &[f64]) -> f64 {
    let of = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0);
    let ties: f64 = ranks::ties(values).into_iter().map(|t| of(t as f64)).sum();
    (of(values.len() as f64) - ties) / 18.0
}

/// Sen 1968: as many slopes as `S` deviates by in 95 % of cases, around the middle; ranks are rounded outwards.
fn interval(sorted: &[f64], deviation: f64) -> (f64, f64) {
    let (pairs, width) = (sorted.len() as f64, normal_tail::Z_975 * deviation);
    let below = ((pairs - width) / 2.0).floor() - 1.0;
    let above = ((pairs + width) / 2.0).ceil();
    let at = |place: f64| sorted[(place.max(0.0) as usize).min(sorted.len() - 1)];
    (at(below), at(above))
}

fn lag_1_of_residuals(values: &[f64], slope: f64) -> f64 {
    let residuals: Vec<f64> = values.iter().enumerate().map(|(i, v)| v - slope * i as f64).collect();
    let n = residuals.len() as f64;
    let centred: Vec<f64> = ranks::doubled(&residuals).into_iter().map(|rank| rank as f64 - (n + 1.0)).collect();
    let products = |lag: usize| centred.iter().zip(&centred[lag..]).map(|(a, b)| a * b).sum::<f64>();
    let variance = products(0);
    if variance <= 0.0 {
        return 0.0;
    }
    (products(1) / variance).clamp(0.0, LARGEST_LAG_1)
}

/// `1 + 2 sum over k of (1 - k / n) rho^k`.
fn inflation(rho: f64, n: usize) -> f64 {
    let mut power = 1.0;
    let terms = (1..n).map(|k| {
        power *= rho;
        (1.0 - k as f64 / n as f64) * power
    });
    1.0 + 2.0 * terms.sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{Draws, Law, at_most};
    use proptest::prelude::*;

    /// Worked out apart, in Python, with `math.erfc`.
    #[test]
    fn known_trends() {
        let up: Vec<f64> = (1..=10).map(f64::from).collect();
        let noisy = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0, 5.0, 3.0, 5.0, 8.0];
        let rising = [10.0, 12.0, 11.0, 14.0, 13.0, 13.0, 17.0, 16.0, 18.0, 17.0, 20.0, 19.0, 22.0, 21.0, 23.0];
        let wave = [5.0, 6.0, 7.0, 7.0, 6.0, 5.0, 4.0, 3.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 9.0, 8.0, 7.0, 6.0, 5.0];
        let known: [(&[f64], i64, [f64; 5]); 4] = [
            (&up, 45, [8.303_070_332_644_999e-5, 1.0, 1.0, 1.0, 0.0]),
            (&noisy, 25, [0.095_292_838_023_456_67, 11.0 / 30.0, -1.0 / 7.0, 5.0 / 6.0, 0.0]),
            (&rising, 89, [1.267_888_293_945_495_9e-5, 8.0 / 9.0, 0.75, 1.0, 0.0]),
            // neighbours resemble each other: the variance is 7.4 times as large
            (&wave, 40, [0.635_638_912_959_154_3, 1.0 / 11.0, -1.0, 1.0, 0.811_605_124_340_617_9]),
        ];
        for (values, s, [p, slope, lo, hi, lag_1]) in known {
            let found = of(values).unwrap();
            let close = |a: f64, b: f64| (a - b).abs() <= 1e-10 * b.abs();
            assert_eq!(found.s, s);
            assert!(close(found.p, p) && close(found.slope, slope), "{found:?}");
            assert!(close(found.lo, lo) && close(found.hi, hi) && (found.lag_1 - lag_1).abs() < 1e-12, "{found:?}");
        }
        // Kendall 1975: n (n - 1) (2 n + 5) / 18, less the same of each group of ties
        assert_eq!((variance_of_s(&up), variance_of_s(&noisy), variance_of_s(&[4.0; 10])), (125.0, 207.0, 0.0));
    }

    #[test]
    fn too_few_values_and_equal_ones() {
        let up: Vec<f64> = (0..10).map(f64::from).collect();
        assert!(of(&up).is_some());
        assert_eq!((of(&up[..9]), of(&[2.0; 30])), (None, None));
    }

    /// The law of an AR(1) sum: for rho 0.5 and long series three times the variance.
    #[test]
    fn neighbours_that_resemble_each_other_say_less() {
        assert_eq!(inflation(0.0, 20), 1.0);
        assert!((inflation(0.5, 100_000) - 3.0).abs() < 1e-3);
        // 1 + 2 (2/3 0.5 + 1/3 0.25)
        assert!((inflation(0.5, 3) - (1.0 + 2.0 * (1.0 / 3.0 + 0.25 / 3.0))).abs() < 1e-12);
    }

    /// Slices of series that do not drift: p is below 0.01 in one of a hundred, and the interval holds 0 in 95.
    #[test]
    fn false_alarms_and_coverage() {
        let runs = 1_000;
        let laws = [
            (Law::Independent, 20),
            (Law::Mixed, 20),
            (Law::LongTailed, 20),
            (Law::Constant, 20),
            (Law::Remembering(0.5), 20),
            (Law::Remembering(0.8), 30),
        ];
        for slices in [10, 20] {
            for (seed, (law, requests)) in laws.into_iter().enumerate() {
                let mut draws = Draws::new(law, seed as u64);
                let (mut alarms, mut outside) = (0, 0);
                for _ in 0..runs {
                    let medians: Vec<f64> = (0..slices).map(|_| middle(&draws.series(requests))).collect();
                    let found = of(&medians).unwrap();
                    alarms += usize::from(found.p < 0.01);
                    outside += usize::from(found.lo > 0.0 || found.hi < 0.0);
                }
                assert!(alarms <= at_most(0.01, runs), "{law:?}, {slices} slices: {alarms} of {runs}");
                assert!(outside <= at_most(0.05, runs), "{law:?}, {slices} slices: {outside} of {runs}");
            }
        }
    }

    proptest! {
        #[test]
        fn a_series_that_only_rises_has_every_pair(steps in prop::collection::vec(1_u32..1_000, 10..40)) {
            let mut at = 0.0;
            let rising: Vec<f64> = steps.into_iter().map(|step| { at += f64::from(step); at }).collect();
            let found = of(&rising).unwrap();
            let pairs = rising.len() * (rising.len() - 1) / 2;
            prop_assert_eq!(found.s, pairs as i64);
            prop_assert!(found.slope > 0.0 && found.lo > 0.0);
        }

        #[test]
        fn unit_zero_and_direction(values in prop::collection::vec(-1_000_i32..1_000, 10..40)) {
            let series = |f: &dyn Fn(i32) -> i32| values.iter().map(|v| f64::from(f(*v))).collect::<Vec<f64>>();
            let Some(found) = of(&series(&|v| v)) else { return Ok(()) };
            prop_assert!(found.lo <= found.slope && found.slope <= found.hi);
            prop_assert!((0.0..=1.0).contains(&found.p));
            let moved = of(&series(&|v| v + 77)).unwrap();
            // residuals that are nearly equal may change places by rounding, and with them the correction of the ends
            prop_assert_eq!((moved.s, moved.slope), (found.s, found.slope));
            let scaled = of(&series(&|v| v * 4)).unwrap();
            prop_assert_eq!((scaled.s, scaled.p), (found.s, found.p));
            prop_assert_eq!((scaled.slope, scaled.lo, scaled.hi), (found.slope * 4.0, found.lo * 4.0, found.hi * 4.0));
            let mut back = series(&|v| v);
            back.reverse();
            let back = of(&back).unwrap();
            prop_assert_eq!((back.s, back.slope), (-found.s, -found.slope));
        }
    }
}
