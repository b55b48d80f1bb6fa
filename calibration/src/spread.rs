//! Figures of a sample of ns, in us: how large, how far spread.
//!
//! Percentiles are type 7 of Hyndman and Fan (1996), numpy's `linear`, and null below the n that a percentile
//! needs at all: 1, 10, 100, 1,000 values for p50, p90, p99, p99.9.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Quantiles of the table of [`Spread::with_table`].
pub const TABLE: [f64; 12] = [0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0];

/// A distribution, in us. Signed: a stamp can be placed a little before the moment it follows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// Values.
    pub n: u64,
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// From 10 values on.
    pub p90: Option<f64>,
    /// From 100 values on.
    pub p99: Option<f64>,
    /// From 1,000 values on.
    pub p999: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
    /// `[q, us]` at [`TABLE`], where a table was asked for; a quantile is null where n is too small for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantiles_us: Option<Vec<(f64, Option<f64>)>>,
}

/// How far figures are from the truth, in us: percentiles of |x|, and the mean of x.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Errors {
    /// Values.
    pub n: u64,
    /// Median of |x|.
    pub p50: Option<f64>,
    /// 99th percentile of |x|, from 100 values on.
    pub p99: Option<f64>,
    /// Largest |x|.
    pub max: Option<f64>,
    /// Mean of x: above 0 the client says too much.
    pub signed_mean: Option<f64>,
}

impl Spread {
    /// Of `values` in ns, which it sorts.
    pub fn of(values: &mut [i64]) -> Spread {
        values.sort_unstable();
        Spread {
            n: values.len() as u64,
            mean: mean_us(values),
            p50: quantile_us(values, 0.5),
            p90: quantile_us(values, 0.9),
            p99: quantile_us(values, 0.99),
            p999: quantile_us(values, 0.999),
            max: quantile_us(values, 1.0),
            quantiles_us: None,
        }
    }

    /// As [`Spread::of`], with the table of quantiles.
    pub fn with_table(values: &mut [i64]) -> Spread {
        let spread = Spread::of(values);
        Spread { quantiles_us: Some(TABLE.iter().map(|&q| (q, quantile_us(values, q))).collect()), ..spread }
    }
}

impl Errors {
    /// Of signed differences in ns.
    pub fn of(differences: &[i64]) -> Errors {
        let mut sizes: Vec<i64> = differences.iter().map(|d| d.saturating_abs()).collect();
        sizes.sort_unstable();
        Errors {
            n: sizes.len() as u64,
            p50: quantile_us(&sizes, 0.5),
            p99: quantile_us(&sizes, 0.99),
            max: quantile_us(&sizes, 1.0),
            signed_mean: mean_us(differences),
        }
    }
}

fn mean_us(values: &[i64]) -> Option<f64> {
    let sum: i128 = values.iter().map(|&v| i128::from(v)).sum();
    (!values.is_empty()).then(|| sum as f64 / values.len() as f64 / 1e3)
}

/// Quantile `q` (0 to 1, whole thousandths) of ascending ns, in us; None where n is too small for it.
pub fn quantile_us(sorted: &[i64], q: f64) -> Option<f64> {
    let per_mille = (q.clamp(0.0, 1.0) * 1000.0).round() as u64;
    if sorted.is_empty() || (sorted.len() as u64) < smallest_n(per_mille) {
        return None;
    }
    // the position in whole thousandths, so that nothing depends on how q rounds in binary
    let position = (sorted.len() as u64 - 1) * per_mille;
    let (below, part) = ((position / 1000) as usize, position % 1000);
    let (a, b) = (sorted[below], sorted[(below + 1).min(sorted.len() - 1)]);
    let scaled = i128::from(a) * 1000 + (i128::from(b) - i128::from(a)) * i128::from(part);
    Some(scaled as f64 / 1e6)
}

/// At least one value is to be expected beyond a quantile, on its thinner side; the median and the ends need one.
fn smallest_n(per_mille: u64) -> u64 {
    match per_mille.min(1000 - per_mille) {
        0 | 500 => 1,
        beyond => 1000_u64.div_ceil(beyond),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles_are_those_of_numpy() {
        // numpy.percentile([10, 20, 30, 40], [50]) = 25, (range(1, 101), [90, 99]) = 90.1, 99.01
        assert_eq!(quantile_us(&[10_000, 20_000, 30_000, 40_000], 0.5), Some(25.0));
        let mut hundred: Vec<i64> = (1..=100).rev().map(|us| us * 1000).collect();
        let found = Spread::with_table(&mut hundred);
        assert_eq!((found.n, found.mean, found.p50), (100, Some(50.5), Some(50.5)));
        assert_eq!((found.p90, found.p99, found.p999, found.max), (Some(90.1), Some(99.01), None, Some(100.0)));
        let table = found.quantiles_us.unwrap();
        assert_eq!(table.len(), TABLE.len());
        assert_eq!((table[0], table[1]), ((0.0, Some(1.0)), (0.01, Some(1.99))));
        assert_eq!((table[10], table[11]), ((0.999, None), (1.0, Some(100.0))));
    }

    #[test]
    fn each_percentile_has_a_smallest_n() {
        for (n, defined) in [(1, 1), (9, 1), (10, 2), (99, 2), (100, 3), (999, 3), (1000, 4)] {
            let s = Spread::of(&mut vec![7; n]);
            assert_eq!([s.p50, s.p90, s.p99, s.p999].iter().flatten().count(), defined, "n = {n}");
        }
        assert_eq!(Spread::of(&mut []), Spread::default());
        assert_eq!(Errors::of(&[]), Errors::default());
    }

    #[test]
    fn errors_are_sizes_with_a_signed_mean() {
        let found = Errors::of(&[-3_000, 1_000, 2_000, i64::MIN]);
        assert_eq!((found.n, found.p50), (4, Some(2.5)));
        let found = Errors::of(&[-3_000, 1_000, -1_000]);
        assert_eq!((found.p50, found.p99, found.max, found.signed_mean), (Some(1.0), None, Some(3.0), Some(-1.0)));
    }

    #[test]
    fn a_spread_reads_back_and_null_stays_null() {
        let spread = Spread::with_table(&mut [1_500, -500]);
        let json = serde_json::to_string(&spread).unwrap();
        assert!(json.contains("\"p90\":null") && json.contains("[0.5,0.5]"), "{json}");
        assert_eq!(serde_json::from_str::<Spread>(&json).unwrap(), spread);
        assert!(!serde_json::to_string(&Spread::of(&mut [1])).unwrap().contains("quantiles"));
    }

    proptest! {
        #[test]
        fn quantiles_rise_with_q_and_stay_inside(mut v in prop::collection::vec(any::<i32>().prop_map(i64::from), 1000..1200)) {
            v.sort_unstable();
            let found: Vec<f64> = TABLE.iter().map(|&q| quantile_us(&v, q).unwrap()).collect();
            prop_assert!(found.windows(2).all(|w| w[0] <= w[1]), "{found:?}");
            prop_assert_eq!(found[0], v[0] as f64 / 1e3);
            prop_assert_eq!(found[11], v[v.len() - 1] as f64 / 1e3);
        }
    }
}
