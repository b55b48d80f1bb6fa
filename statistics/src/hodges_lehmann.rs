//! How far two samples lie apart, as Hodges and Lehmann estimate it ("Estimates of location based on rank tests",
//! Annals of Mathematical Statistics 34, 1963): one wild value moves it little.

/// Median of all differences `b - a` between a value of each sample; None when one is empty.
pub fn shift(a: &[f64], b: &[f64]) -> Option<f64> {
    median(a.iter().flat_map(|a| b.iter().map(move |b| b - a)).collect())
}

/// Median of the means of all pairs of values, each with itself among them (Walsh averages); None without values.
pub fn centre(values: &[f64]) -> Option<f64> {
    let pairs = values.iter().enumerate().flat_map(|(i, a)| values[i..].iter().map(move |b| (a + b) / 2.0));
    median(pairs.collect())
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let (low, high) = (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some((low + high) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_estimates() {
        // by hand: the differences of {1, 2, 4} from {3, 7} are 2 1 -1 6 5 3, their median 2.5
        assert_eq!(shift(&[1.0, 2.0, 4.0], &[3.0, 7.0]), Some(2.5));
        // R: wilcox.test(c(1, 2, 10), conf.int = TRUE): Walsh averages 1 1.5 2 5.5 6 10, median 3.75
        assert_eq!(centre(&[1.0, 2.0, 10.0]), Some(3.75));
        assert_eq!((shift(&[], &[1.0]), shift(&[1.0], &[]), centre(&[])), (None, None, None));
        assert_eq!(shift(&[5.0], &[3.0]), Some(-2.0));
    }

    proptest! {
        #[test]
        fn it_follows_a_shift_and_turns_with_the_arms(
            a in prop::collection::vec(-1e3_f64..1e3, 1..8),
            b in prop::collection::vec(-1e3_f64..1e3, 1..8),
            by in -100.0_f64..100.0,
        ) {
            let plain = shift(&a, &b).unwrap();
            let moved: Vec<f64> = b.iter().map(|v| v + by).collect();
            prop_assert!((shift(&a, &moved).unwrap() - plain - by).abs() < 1e-9);
            prop_assert!((shift(&b, &a).unwrap() + plain).abs() < 1e-9);
        }

        #[test]
        fn one_wild_value_of_seven_does_not_move_it_beyond_the_others(mut values in prop::collection::vec(-1.0_f64..1.0, 6..7)) {
            values.push(1e9);
            prop_assert!(centre(&values).unwrap() <= 1.0);
        }
    }
}
