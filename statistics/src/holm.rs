//! Holm's correction for several tests: S. Holm, "A simple sequentially rejective multiple test procedure",
//! Scandinavian Journal of Statistics 6 (1979). It holds the chance of any false rejection, however the tests depend
//! on each other.

/// Adjusted p-values, in the order given: a test is rejected at level alpha when its adjusted p is at most alpha. A test
/// that was planned and could not be made goes in with p = 1.
pub fn adjust(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let (mut adjusted, mut largest) = (vec![1.0; p_values.len()], 0.0_f64);
    for (rank, index) in order.into_iter().enumerate() {
        let left = (p_values.len() - rank) as f64;
        largest = largest.max((left * p_values[index]).min(1.0));
        adjusted[index] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_known_adjustment() {
        // R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm") = 0.03 0.06 0.06 0.02
        let found = adjust(&[0.01, 0.04, 0.03, 0.005]);
        for (found, expected) in found.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
        assert_eq!(adjust(&[]), Vec::<f64>::new());
        assert_eq!(adjust(&[0.04]), [0.04]);
        assert_eq!(adjust(&[0.4, 0.9]), [0.8, 0.9]);
    }

    proptest! {
        #[test]
        fn rejections_are_those_of_the_stepwise_rule(p in prop::collection::vec(0.0_f64..1.0, 1..12)) {
            let alpha = 0.05;
            let adjusted = adjust(&p);
            let mut order: Vec<usize> = (0..p.len()).collect();
            order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
            let mut going_on = true;
            for (rank, index) in order.into_iter().enumerate() {
                going_on &= p[index] * (p.len() - rank) as f64 <= alpha;
                prop_assert_eq!(adjusted[index] <= alpha, going_on);
            }
        }

        #[test]
        fn never_smaller_than_alone_nor_larger_than_bonferroni(p in prop::collection::vec(0.0_f64..1.0, 1..12)) {
            for (p_holm, alone) in adjust(&p).into_iter().zip(&p) {
                prop_assert!(p_holm >= *alone && p_holm <= (alone * p.len() as f64).min(1.0) + 1e-15);
            }
        }
    }
}
