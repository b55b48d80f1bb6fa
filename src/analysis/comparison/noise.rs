//! By how much what is compared differs from itself.
//!
//! Noise is the typical gap: the mean of `|a - b|` over all pairs of two values (C. Gini's mean difference, "Variabilità
//! e mutabilità", 1912). Of two values it is their gap. Unlike the largest gap it does not grow with the number of
//! windows, so that more of them never make a difference look smaller beside it; the standard deviation of a normal
//! value is 0.886 of it.

use super::Design;
use crate::analysis::definitions::noise_gap;
use crate::analysis::percentiles;

/// The typical gap between two values of one arm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// In the unit of the values.
    pub gap: f64,
    /// Relative to the mean of the values it lies between, as a share; None where such a mean is not above 0.
    pub share: Option<f64>,
}

impl Noise {
    /// Of the windows of two arms: what is compared is the mean of an arm, and its noise is the typical gap between two
    /// windows of that arm; of the two arms the larger. Of pairs, where `a[i]` and `b[i]` were measured side by side,
    /// what is compared is the difference within a pair, and its noise is the typical gap between two such differences:
    /// what came over both windows of a pair alike is not in it. None with fewer than two windows an arm, or two pairs.
    pub fn of(design: Design, a: &[f64], b: &[f64]) -> Option<Noise> {
        match design {
            Design::Pairs => of_pairs(a, b),
            Design::Separate | Design::Abba => {
                let (a, b) = (of_arm(a)?, of_arm(b)?);
                Some(Noise { gap: a.gap.max(b.gap), share: a.share.zip(b.share).map(|(a, b)| a.max(b)) })
            }
        }
    }
}

fn of_arm(windows: &[f64]) -> Option<Noise> {
    Some(Noise { gap: typical_gap(windows)?, share: mean_over_pairs(windows, noise_gap) })
}

fn of_pairs(a: &[f64], b: &[f64]) -> Option<Noise> {
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| b - a).collect();
    let relative = |(a, b): (&f64, &f64)| noise_gap(*a, *b).map(|share| share.copysign(b - a));
    let shares: Option<Vec<f64>> = a.iter().zip(b).map(relative).collect();
    Some(Noise { gap: typical_gap(&differences)?, share: shares.and_then(|shares| typical_gap(&shares)) })
}

/// The mean of `|x - y|` over all pairs of values; None with fewer than two.
pub fn typical_gap(values: &[f64]) -> Option<f64> {
    mean_over_pairs(values, |x, y| Some((x - y).abs()))
}

/// None with fewer than two values, or where a pair has no gap. Neither the order of the values nor their signs matter.
fn mean_over_pairs(values: &[f64], gap: impl Fn(f64, f64) -> Option<f64>) -> Option<f64> {
    let pairs = values.iter().enumerate().flat_map(|(i, x)| values[i + 1..].iter().map(move |y| (*x, *y)));
    let mut gaps: Vec<f64> = pairs.map(|(x, y)| gap(x, y)).collect::<Option<_>>()?;
    (!gaps.is_empty()).then(|| percentiles::sum(&mut gaps) / gaps.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn of_two_windows_it_is_their_gap() {
        let found = Noise::of(Design::Separate, &[1412.5, 1382.1], &[1148.6, 745.5]).expect("two windows each");
        assert_eq!(found.gap, 1148.6 - 745.5, "of the two arms the larger");
        assert_eq!(found.share, noise_gap(1148.6, 745.5));
        assert_eq!(Noise::of(Design::Abba, &[1.0], &[1.0, 2.0]), None);
        assert_eq!(Noise::of(Design::Separate, &[-3.0, 1.0], &[1.0, 2.0]).expect("values").share, None);
    }

    #[test]
    fn it_is_the_mean_over_all_pairs_and_does_not_grow_with_their_number() {
        // by hand: the gaps of 1, 2, 4, 8 are 1 3 7 2 6 4
        assert_eq!(typical_gap(&[8.0, 1.0, 4.0, 2.0]), Some(23.0 / 6.0));
        // of 1, 2, .., n it is (n + 1) / 3, where the largest is n - 1
        let of = |n: u32| typical_gap(&(1..=n).map(f64::from).collect::<Vec<_>>()).expect("values");
        assert!((of(11) - 4.0).abs() < 1e-12 && (of(101) - 34.0).abs() < 1e-9);
        // the same windows measured again and again: the largest gap stays, more of them are no larger noise
        let again = |times| typical_gap(&[100.0, 104.0].repeat(times)).expect("values");
        assert!(again(1) == 4.0 && again(2) < 4.0 && again(50) < again(2) && again(50) > 2.0);
    }

    #[test]
    fn what_came_over_both_windows_of_a_pair_is_no_noise() {
        let (a, b) = ([100.0, 140.0, 90.0], [110.0, 150.0, 102.0]);
        let found = Noise::of(Design::Pairs, &a, &b).expect("three pairs");
        // differences 10, 10, 12
        assert!((found.gap - 4.0 / 3.0).abs() < 1e-12, "{found:?}");
        let apart = Noise::of(Design::Abba, &a, &b).expect("the same windows");
        assert!((apart.gap - 100.0 / 3.0).abs() < 1e-9, "{apart:?}");
        assert!(found.share.expect("a share") < 0.05 && apart.share.expect("a share") > 0.2);
        assert_eq!(Noise::of(Design::Pairs, &[1.0], &[2.0]), None, "one pair");
    }

    proptest! {
        #[test]
        fn neither_order_nor_names_matter_and_the_largest_gap_bounds_it(
            pairs in prop::collection::vec((1.0_f64..1000.0, 1.0_f64..1000.0), 2..8),
            by in 0.0_f64..100.0,
        ) {
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
            let turned = |values: &[f64]| values.iter().rev().copied().collect::<Vec<_>>();
            for design in [Design::Separate, Design::Abba, Design::Pairs] {
                let found = Noise::of(design, &a, &b).unwrap();
                prop_assert_eq!(Noise::of(design, &turned(&b), &turned(&a)), Some(found));
                // a shift of an arm is an effect, not noise
                let later: Vec<f64> = b.iter().map(|v| v + by).collect();
                prop_assert!((Noise::of(design, &a, &later).unwrap().gap - found.gap).abs() < 1e-9);
            }
            let range = a.iter().copied().fold(f64::MIN, f64::max) - a.iter().copied().fold(f64::MAX, f64::min);
            let found = typical_gap(&a).unwrap();
            prop_assert!(found <= range + 1e-9 && found >= range / a.len() as f64 - 1e-9);
        }
    }
}
