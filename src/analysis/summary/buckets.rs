//! A column of more values than are kept one by one: how many lie in each bucket of 0.1 %.

use std::collections::BTreeMap;

use crate::analysis::percentiles::{Figures, Moments, PUBLISHED, Percentile, Sample, bucket_middle};
use crate::analysis::statistics::order_interval;

/// Counts by the middle of the bucket.
#[derive(Clone, Debug, Default)]
pub(super) struct Buckets {
    counts: BTreeMap<i64, u64>,
    moments: Moments,
    ends: Option<[i64; 2]>,
}

impl Buckets {
    /// Takes a value, whole ns.
    pub(super) fn take(&mut self, ns: i64) {
        *self.counts.entry(bucket_middle(ns)).or_default() += 1;
        self.moments.take(ns);
        self.ends = Some(self.ends.map_or([ns; 2], |[least, most]| [least.min(ns), most.max(ns)]));
    }

    pub(super) fn add(&mut self, other: &Buckets) {
        other.counts.iter().for_each(|(middle, n)| *self.counts.entry(*middle).or_default() += n);
        self.moments.add(&other.moments);
        for end in other.ends.into_iter().flatten() {
            self.ends = Some(self.ends.map_or([end; 2], |[least, most]| [least.min(end), most.max(end)]));
        }
    }

    pub(super) fn figures(&self) -> Option<Figures> {
        let [least, most] = self.ends?;
        let (mean, sd) = (self.moments.mean_ns()?, self.moments.sd_ns());
        Some(Figures {
            n: self.n(),
            mean_ms: mean / 1e6,
            sd_ms: sd.map(|ns| ns / 1e6),
            min_ms: least.ns() / 1e6,
            max_ms: most.ns() / 1e6,
            percentiles_ms: PUBLISHED.map(|p| self.percentile_ms(p)),
        })
    }

    /// By exact ranks, as of values one by one.
    pub(super) fn intervals(&self) -> [Option<[f64; 2]>; 5] {
        PUBLISHED.map(|p| {
            let ranks = order_interval::ranks(self.n(), p.per_mille)?;
            Some([ranks.lower, ranks.upper].map(|rank| self.at(rank as u64 - 1).ns() / 1e6))
        })
    }

    fn n(&self) -> usize {
        self.moments.n() as usize
    }

    pub(super) fn percentile_ms(&self, p: Percentile) -> Option<f64> {
        if self.n() < p.smallest_n.max(1) {
            return None;
        }
        let position = (self.n() as u128 - 1) * u128::from(p.per_mille);
        let (below, thousandths) = ((position / 1000) as u64, (position % 1000) as u32);
        let above = (below + 1).min(self.moments.n() - 1);
        Some(i64::between_ms(self.at(below), self.at(above), thousandths))
    }

    /// The value at a place in ascending order, from 0: the middle of its bucket, never beyond the ends.
    fn at(&self, place: u64) -> i64 {
        let mut passed = 0;
        let found = self.counts.iter().find(|(_, n)| {
            passed += **n;
            passed > place
        });
        let [least, most] = self.ends.unwrap_or_default();
        found.map_or(most, |(middle, _)| (*middle).clamp(least, most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::percentiles;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn buckets_are_within_a_twentieth_of_a_percent(values in prop::collection::vec(-1_000_000_000_i64..100_000_000_000, 1..2_000)) {
            let mut halves = [Buckets::default(), Buckets::default()];
            values.iter().enumerate().for_each(|(i, ns)| halves[i % 2].take(*ns));
            let [mut buckets, rest] = halves;
            buckets.add(&rest);
            let (found, exact) = (buckets.figures().unwrap(), percentiles::figures(&mut values.clone()).unwrap());
            prop_assert_eq!((found.n, found.mean_ms, found.min_ms, found.max_ms), (exact.n, exact.mean_ms, exact.min_ms, exact.max_ms));
            let close = |a: f64, b: f64, share: f64| (a - b).abs() <= share * b.abs() + 1e-6;
            prop_assert!(found.sd_ms.zip(exact.sd_ms).is_none_or(|(a, b)| close(a, b, 1e-9)));
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let n = sorted.len();
            for (i, p) in PUBLISHED.iter().enumerate() {
                let Some(ms) = found.percentiles_ms[i] else {
                    prop_assert_eq!(exact.percentiles_ms[i], None);
                    continue;
                };
                // between the neighbours, each moved by half a bucket
                let place = (n - 1) * p.per_mille as usize / 1000;
                let (low, high) = (sorted[place] as f64 / 1e6, sorted[(place + 1).min(n - 1)] as f64 / 1e6);
                prop_assert!(ms >= low - low.abs() * 5.1e-4 - 1e-6 && ms <= high + high.abs() * 5.1e-4 + 1e-6, "{ms}: {low}..{high}");
            }
        }
    }
}
