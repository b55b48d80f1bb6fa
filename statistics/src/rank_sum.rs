//! Wilcoxon's and Mann and Whitney's test: whether values of one sample tend to be larger than those of another.

use super::{normal_tail, ranks};

/// Two-sided probability of ranks as far apart, if both samples came from one distribution: normal approximation with
/// continuity correction and the variance corrected for ties. Values that resemble their neighbours say less: `time`, at
/// least 1, is their integrated autocorrelation time, by which the variance grows. None with an empty sample, or when all
/// values are equal.
pub fn test(a: &[f64], b: &[f64], time: f64) -> Option<f64> {
    let (n, m) = (a.len() as f64, b.len() as f64);
    let all = [a, b].concat();
    let total = n + m;
    // U of a less its expectation, exactly
    let ranks: u64 = ranks::doubled(&all)[..a.len()].iter().sum();
    let apart = (ranks as f64 / 2.0 - n * (total + 1.0) / 2.0).abs();
    let ties: f64 = ranks::ties(&all).iter().map(|&t| t as f64).map(|t| t * t * t - t).sum();
    let variance = time * n * m / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)));
    (n > 0.0 && m > 0.0 && variance > 0.0).then(|| normal_tail::beyond((apart - 0.5).max(0.0) / variance.sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_worked_example() {
        // ranks of a: 1, 2, 3.5, 6, expected 18, 5.5 apart; variance 4 4 / 12 (9 - 6 / 56) = 11.857; z = 5 / 3.4434
        let p = test(&[1.0, 2.0, 3.0, 5.0], &[3.0, 4.0, 6.0, 7.0], 1.0).unwrap();
        let z = 5.0 / (16.0_f64 / 12.0 * (9.0 - 6.0 / 56.0)).sqrt();
        assert!((p - 2.0 * normal_tail::above(z)).abs() < 1e-15);
        assert!((p - 0.146489).abs() < 1e-6, "{p}");
        assert_eq!((test(&[], &[1.0], 1.0), test(&[2.0], &[2.0, 2.0], 1.0)), (None, None));
    }

    proptest! {
        #[test]
        fn only_the_order_of_the_values_counts(
            a in prop::collection::vec(0_i32..40, 1..20), b in prop::collection::vec(0_i32..40, 1..20),
            scale in 1_i32..9, shift in -100_i32..100)
        {
            let of = |v: &[i32]| v.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
            let moved = |v: &[i32]| v.iter().map(|&x| f64::from(x * scale + shift)).collect::<Vec<f64>>();
            let p = test(&of(&a), &of(&b), 1.0);
            prop_assert_eq!(p, test(&moved(&a), &moved(&b), 1.0));
            prop_assert_eq!(p, test(&of(&b), &of(&a), 1.0));
            let mut mixed = of(&a);
            mixed.reverse();
            prop_assert_eq!(p, test(&mixed, &of(&b), 1.0));
            prop_assert!(test(&of(&a), &of(&b), 4.0) >= p, "memory makes it say less");
        }
    }
}
