//! Lengths of prompts and replies in tokens: where they lie, and how different they are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Below this many values p10 and p90 are not defined.
const TAILS_FROM: usize = 10;

/// Where the lengths of a sample lie, in tokens. Quantiles are type 7, as all percentiles here.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenCounts {
    /// Values.
    pub n: u64,
    /// Smallest.
    pub min: u64,
    /// 10th percentile; null below ten values.
    pub p10: Option<f64>,
    /// Median.
    pub p50: f64,
    /// 90th percentile; null below ten values.
    pub p90: Option<f64>,
    /// Largest.
    pub max: u64,
}

impl TokenCounts {
    /// Sorts `values` and says where they lie; None when there are none.
    pub fn of(values: &mut [u64]) -> Option<TokenCounts> {
        values.sort_unstable();
        let (&min, &max) = (values.first()?, values.last()?);
        let tail = |per_mille| (values.len() >= TAILS_FROM).then(|| quantile(values, per_mille));
        let n = values.len() as u64;
        Some(TokenCounts { n, min, p10: tail(100), p50: quantile(values, 500), p90: tail(900), max })
    }
}

/// Of sorted values, of which there is at least one.
fn quantile(sorted: &[u64], per_mille: u32) -> f64 {
    let position = (sorted.len() as u128 - 1) * u128::from(per_mille);
    let (below, thousandths) = ((position / 1000) as usize, (position % 1000) as i128);
    let (a, b) = (i128::from(sorted[below]), i128::from(sorted[(below + 1).min(sorted.len() - 1)]));
    // beyond 2^53 the rounding must not lead out of the two
    ((a * 1000 + (b - a) * thousandths) as f64 / 1e3).clamp(a as f64, b as f64)
}

/// Coefficient of variation: standard deviation (n - 1) over mean. Sorts `values`; None for fewer than two, or when all
/// are 0.
pub fn variation(values: &mut [u64]) -> Option<f64> {
    values.sort_unstable();
    let sum: u128 = values.iter().map(|v| u128::from(*v)).sum();
    if values.len() < 2 || sum == 0 {
        return None;
    }
    let mean = sum as f64 / values.len() as f64;
    // addition of floats depends on the order, so the order is fixed
    let squares: f64 = values.iter().map(|v| (*v as f64 - mean) * (*v as f64 - mean)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt() / mean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lengths_by_hand() {
        assert_eq!(TokenCounts::of(&mut []), None);
        let one = TokenCounts { n: 1, min: 7, p10: None, p50: 7.0, p90: None, max: 7 };
        assert_eq!(TokenCounts::of(&mut [7]), Some(one));
        // 1..=11: positions 1, 5 and 9 exactly
        let found = TokenCounts::of(&mut (1..=11).rev().collect::<Vec<u64>>());
        let expected = TokenCounts { n: 11, min: 1, p10: Some(2.0), p50: 6.0, p90: Some(10.0), max: 11 };
        assert_eq!(found, Some(expected));
        assert_eq!(TokenCounts::of(&mut [1, 4]).map(|c| c.p50), Some(2.5));
    }

    #[test]
    fn variation_by_hand() {
        assert_eq!(variation(&mut [5, 5, 5]), Some(0.0));
        // mean 2, deviations 1 and 1, n - 1 = 1
        assert_eq!(variation(&mut [3, 1]), Some(2.0_f64.sqrt() / 2.0));
        assert_eq!([variation(&mut []), variation(&mut [9]), variation(&mut [0, 0])], [None; 3]);
    }

    proptest! {
        #[test]
        fn order_and_size_change_nothing(mut values in prop::collection::vec(any::<u64>(), 1..60)) {
            let found = TokenCounts::of(&mut values.clone()).expect("values");
            let spread = variation(&mut values.clone());
            values.reverse();
            prop_assert_eq!(TokenCounts::of(&mut values), Some(found));
            prop_assert_eq!(variation(&mut values), spread);
            prop_assert!(found.min as f64 <= found.p50 && found.p50 <= found.max as f64);
            prop_assert!(spread.is_none_or(|cv| cv.is_finite() && cv >= 0.0));
        }
    }
}
