//! By how many tokens lengths differ from those asked for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Below this many values p05 and p95 are not defined.
const TAILS_FROM: usize = 20;

/// Where the differences `realised - asked` of a sample lie, in tokens. Quantiles are type 7, as all percentiles here.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LengthDifferences {
    /// Values.
    pub n: u64,
    /// Those of exactly the length asked for.
    pub exact: u64,
    /// Smallest.
    pub min: i64,
    /// 5th percentile; null below twenty values.
    pub p05: Option<f64>,
    /// Median.
    pub p50: f64,
    /// 95th percentile; null below twenty values.
    pub p95: Option<f64>,
    /// Largest.
    pub max: i64,
    /// Median of the differences as shares of the length asked for.
    pub p50_share: f64,
    /// How many differ by how much.
    pub per_cent: PerCent,
}

/// Counts of differences by their size in per cent of the length asked for; each value is in one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PerCent {
    /// Shorter by more than 10 %.
    pub below_10: u64,
    /// Shorter by more than 1 %, up to 10 %.
    pub below_1: u64,
    /// Not the same, but within 1 % either way.
    pub within_1: u64,
    /// The same.
    pub exact: u64,
    /// Longer by more than 1 %, up to 10 %.
    pub above_1: u64,
    /// Longer by more than 10 %.
    pub above_10: u64,
}

impl PerCent {
    /// The classes in order, with their names.
    pub fn classes(&self) -> [(&'static str, u64); 6] {
        [
            ("below -10 %", self.below_10),
            ("-10..-1 %", self.below_1),
            ("within 1 %", self.within_1),
            ("exact", self.exact),
            ("1..10 %", self.above_1),
            ("above 10 %", self.above_10),
        ]
    }

    fn count(&mut self, asked: i128, by: i128) {
        let class = match () {
            () if by == 0 => &mut self.exact,
            () if by * 10 < -asked => &mut self.below_10,
            () if by * 100 < -asked => &mut self.below_1,
            () if by * 10 > asked => &mut self.above_10,
            () if by * 100 > asked => &mut self.above_1,
            () => &mut self.within_1,
        };
        *class += 1;
    }
}

impl LengthDifferences {
    /// Of pairs `(asked, realised)`. Where nothing was asked for there is nothing to differ from: such pairs are left
    /// out. None when no pair is left.
    pub fn of(pairs: &[(u64, u64)]) -> Option<LengthDifferences> {
        let pairs = || pairs.iter().filter(|(asked, _)| *asked > 0).map(|(a, b)| (i128::from(*a), i128::from(*b)));
        // a server may tell anything
        let whole = |by: i128| i64::try_from(by).unwrap_or(if by < 0 { i64::MIN } else { i64::MAX });
        let mut by: Vec<i64> = pairs().map(|(asked, realised)| whole(realised - asked)).collect();
        by.sort_unstable();
        let (&min, &max) = (by.first()?, by.last()?);
        let mut shares: Vec<f64> = pairs().map(|(asked, realised)| (realised - asked) as f64 / asked as f64).collect();
        shares.sort_unstable_by(f64::total_cmp);
        let mut per_cent = PerCent::default();
        pairs().for_each(|(asked, realised)| per_cent.count(asked, realised - asked));
        let tail = |per_cent| (by.len() >= TAILS_FROM).then(|| quantile(&by, per_cent));
        let middle = (shares[(shares.len() - 1) / 2] + shares[shares.len() / 2]) / 2.0;
        let (n, exact) = (by.len() as u64, per_cent.exact);
        let (p05, p50, p95) = (tail(5), quantile(&by, 50), tail(95));
        Some(LengthDifferences { n, exact, min, p05, p50, p95, max, p50_share: middle, per_cent })
    }
}

/// Of sorted values, of which there is at least one.
fn quantile(sorted: &[i64], per_cent: u32) -> f64 {
    let position = (sorted.len() as u128 - 1) * u128::from(per_cent);
    let (below, hundredths) = ((position / 100) as usize, (position % 100) as i128);
    let (a, b) = (i128::from(sorted[below]), i128::from(sorted[(below + 1).min(sorted.len() - 1)]));
    // beyond 2^53 the rounding must not lead out of the two
    ((a * 100 + (b - a) * hundredths) as f64 / 1e2).clamp(a as f64, b as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn three_hundred_exact_lengths_are_all_zero() {
        let found = LengthDifferences::of(&[(100, 100); 300]).unwrap();
        let none = PerCent { exact: 300, ..PerCent::default() };
        assert_eq!((found.n, found.exact, found.min, found.max, found.per_cent), (300, 300, 0, 0, none));
        assert_eq!((found.p05, found.p50, found.p95, found.p50_share), (Some(0.0), 0.0, Some(0.0), 0.0));
    }

    #[test]
    fn differences_by_hand() {
        // of 200 asked: by -21 (10.5 %), -20 (10 %), -2 (1 %), 0, +2, +3 (1.5 %), +20, +21
        let found = LengthDifferences::of(&[179, 180, 198, 200, 202, 203, 220, 221].map(|n| (200, n))).unwrap();
        let counts = found.per_cent.classes().map(|(_, n)| n);
        assert_eq!(counts, [1, 1, 2, 1, 2, 1]);
        assert_eq!((found.min, found.p50, found.max, found.p05), (-21, 1.0, 21, None));
        assert!((found.p50_share - 0.005).abs() < 1e-15);
        // 1..=21: positions 1 and 19
        let found = LengthDifferences::of(&(1..=21).map(|n| (1_000, 1_000 + n)).collect::<Vec<_>>()).unwrap();
        assert_eq!((found.p05, found.p50, found.p95), (Some(2.0), 11.0, Some(20.0)));
        assert_eq!(LengthDifferences::of(&[(0, 7)]), None, "nothing was asked for");
    }

    proptest! {
        #[test]
        fn every_value_is_in_one_class(pairs in prop::collection::vec((any::<u64>(), any::<u64>()), 1..60)) {
            let Some(found) = LengthDifferences::of(&pairs) else { return Ok(()) };
            prop_assert_eq!(found.per_cent.classes().iter().map(|(_, n)| n).sum::<u64>(), found.n);
            prop_assert!(found.min as f64 <= found.p50 && found.p50 <= found.max as f64);
            let mut turned = pairs.clone();
            turned.reverse();
            prop_assert_eq!(LengthDifferences::of(&turned), Some(found));
        }
    }
}
