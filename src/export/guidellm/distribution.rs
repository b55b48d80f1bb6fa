//! The statistics of GuideLLM 0.8.1 (`guidellm/schemas/base/statistics.py`), step by step as there: what is rounded, merged
//! and left out decides which value a percentile is.
//!
//! - A percentile is the first value at which the weights of all values up to it reach it: no interpolation. `p001` is the
//!   0.1th, `p999` the 99.9th; the median is `p50`.
//! - The deviation is over n. An empty distribution is all zeros there, with a count of 0.
//! - Rates are events over half the time to their neighbours, weighted by that time; concurrency is weighted by time. Both
//!   take moments within 0.1 ms for one.

use serde_json::{Value, json};

/// Moments closer than this are one, in s.
const MERGED_S: f64 = 1e-4;
/// What a weight, or the last stretch of time, is at least.
const EPSILON: f64 = 1e-6;

const PERCENTILES: [(&str, f64); 11] = [
    ("p001", 0.001),
    ("p01", 0.01),
    ("p05", 0.05),
    ("p10", 0.1),
    ("p25", 0.25),
    ("p50", 0.5),
    ("p75", 0.75),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p999", 0.999),
];

/// `DistributionSummary`, without intervals.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Distribution {
    pub mean: f64,
    pub mode: f64,
    pub variance: f64,
    pub min: f64,
    pub max: f64,
    /// Sum of the weights, rounded.
    pub count: u64,
    /// In the order of [`PERCENTILES`].
    percentiles: [f64; 11],
}

impl Distribution {
    /// `from_values`, of values with weights.
    pub fn of(weighted: &[(f64, f64)]) -> Distribution {
        let weights: Vec<f64> = weighted.iter().map(|(_, weight)| *weight).collect();
        Distribution::counted(weighted, sum(&weights).round_ties_even() as u64)
    }

    fn counted(weighted: &[(f64, f64)], count: u64) -> Distribution {
        if weighted.is_empty() {
            return Distribution { count, ..Distribution::default() };
        }
        let mut sorted = weighted.to_vec();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut combined: Vec<(f64, f64)> = Vec::new();
        for (value, weight) in sorted {
            match combined.last_mut() {
                Some(last) if last.0 == value => last.1 += weight,
                _ => combined.push((value, weight)),
            }
        }
        combined.retain(|(_, weight)| *weight > 0.0);
        let weights: Vec<f64> = combined.iter().map(|(_, weight)| *weight).collect();
        let total = sum(&weights);
        // nothing has a weight that counts: there they all get the same
        let (total, uniform) = if total <= EPSILON { (combined.len() as f64, true) } else { (total, false) };
        let share = |weight: f64| if uniform { 1.0 / total } else { weight / total };
        let pdf: Vec<(f64, f64)> = combined.iter().map(|(value, weight)| (*value, share(*weight))).collect();
        Distribution::of_shares(&pdf, count)
    }

    /// `from_pdf`.
    fn of_shares(pdf: &[(f64, f64)], count: u64) -> Distribution {
        let (Some(first), Some(last)) = (pdf.first(), pdf.last()) else {
            return Distribution { count, ..Distribution::default() };
        };
        let of = |each: &dyn Fn(f64, f64) -> f64| sum(&pdf.iter().map(|(v, p)| each(*v, *p)).collect::<Vec<_>>());
        let mean = of(&|value, share| value * share);
        let mut mode = *first;
        for value in pdf {
            if value.1 > mode.1 {
                mode = *value;
            }
        }
        let mut percentiles = [last.0; 11];
        let (mut reached, mut next) = (0.0, 0);
        for (value, share) in pdf {
            reached += share;
            while next < PERCENTILES.len() && reached >= PERCENTILES[next].1 {
                percentiles[next] = *value;
                next += 1;
            }
        }
        Distribution {
            mean,
            mode: mode.0,
            variance: of(&|value, share| (value - mean) * (value - mean) * share),
            min: first.0,
            max: last.0,
            count,
            percentiles,
        }
    }

    /// `rate_distribution_from_timings`: (moment in s, how much happened), within the window where one is given.
    pub fn of_rates(events: &[(f64, f64)], window: Option<(f64, f64)>) -> Distribution {
        let mut times: Vec<(f64, f64)> = events.to_vec();
        if let Some((start, end)) = window {
            times.retain(|(at, _)| *at >= start && *at <= end);
            times.insert(0, (start, 0.0));
            times.push((end, 0.0));
        }
        let times = merged(times);
        if times.len() <= 1 {
            return Distribution { count: times.len() as u64, ..Distribution::default() };
        }
        let middle = |i: usize| (times[i + 1].0 + times[i].0) / 2.0;
        let last = times.len() - 1;
        let span = |i: usize| match i {
            0 => middle(0) - times[0].0,
            i if i == last => (times[last].0 - middle(last - 1)).max(EPSILON),
            i => middle(i) - middle(i - 1),
        };
        let rates: Vec<(f64, f64)> = (0..=last).map(|i| (times[i].1 / span(i), span(i))).collect();
        let happened: Vec<f64> = times.iter().map(|(_, weight)| *weight).collect();
        Distribution::counted(&rates, sum(&happened).round_ties_even() as u64)
    }

    /// `concurrency_distribution_from_timings`: (start, end, weight), in s.
    pub fn of_concurrency(intervals: &[(f64, f64, f64)], window: Option<(f64, f64)>) -> Distribution {
        let within = |(start, end, _): &&(f64, f64, f64)| window.is_none_or(|(from, to)| *end >= from && *start <= to);
        let kept: Vec<&(f64, f64, f64)> = intervals.iter().filter(within).collect();
        let count = kept.len() as u64;
        let starts = kept.iter().map(|(start, _, weight)| (*start, *weight));
        let ends = kept.iter().map(|(_, end, weight)| (*end, -weight));
        let mut changes = merged(starts.chain(ends).collect());
        if let Some((from, to)) = window.filter(|_| !changes.is_empty()) {
            let before = changes.partition_point(|(at, _)| *at < from);
            let running = sum(&changes[..before].iter().map(|(_, change)| *change).collect::<Vec<_>>());
            changes.drain(..before);
            changes.insert(0, (from, running));
            changes.truncate(changes.partition_point(|(at, _)| *at <= to));
            changes.push((to, 0.0));
        }
        let mut level = 0.0;
        let levels: Vec<f64> = changes
            .iter()
            .map(|(_, change)| {
                level += change;
                level.max(0.0)
            })
            .collect();
        match levels.as_slice() {
            [] => Distribution::default(),
            [one] => Distribution::of(&[(*one, 1.0)][..usize::from(count > 0)]),
            _ => {
                let span = |i: usize| (changes[i + 1].0 - changes[i].0).max(0.0);
                let values: Vec<(f64, f64)> = (0..levels.len() - 1).map(|i| (levels[i], span(i))).collect();
                let some = values.iter().any(|(_, span)| *span > 0.0);
                Distribution::counted(if some { &values } else { &[] }, count)
            }
        }
    }

    /// One of its percentiles: `p50`, `p99`.
    pub fn percentile(&self, name: &str) -> f64 {
        PERCENTILES.iter().position(|(of, _)| *of == name).map_or(0.0, |at| self.percentiles[at])
    }

    /// As it stands in the file.
    pub fn json(&self) -> Value {
        let percentiles: serde_json::Map<String, Value> = PERCENTILES
            .iter()
            .zip(self.percentiles)
            .map(|((name, _), value)| ((*name).to_owned(), json!(value)))
            .collect();
        json!({
            "mean": self.mean,
            "median": self.percentile("p50"),
            "mode": self.mode,
            "variance": self.variance,
            "std_dev": self.variance.sqrt(),
            "min": self.min,
            "max": self.max,
            "count": self.count,
            "total_sum": self.mean * self.count as f64,
            "percentiles": percentiles,
            "pdf": null,
            "mean_ci": null,
            "percentile_cis": null,
        })
    }
}

/// `_merge_sorted_times_with_weights`: ascending, each group of moments within 0.1 ms of its first one at that one.
fn merged(mut times: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    times.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut groups: Vec<(f64, f64)> = Vec::with_capacity(times.len());
    let mut before = f64::NEG_INFINITY;
    for (at, weight) in times {
        match groups.last_mut() {
            Some(group) if at == group.0 || (at <= group.0 + MERGED_S && at - before <= MERGED_S) => group.1 += weight,
            _ => groups.push((at, weight)),
        }
        before = at;
    }
    groups
}

/// `numpy.sum` of doubles: in pairs of blocks, so that the last bit is the same.
pub(super) fn sum(values: &[f64]) -> f64 {
    match values.len() {
        0..8 => values.iter().fold(0.0, |total, v| total + v),
        8..=128 => {
            let mut lanes = [0.0; 8];
            lanes.copy_from_slice(&values[..8]);
            let blocks = values[8..].chunks_exact(8);
            let rest = blocks.remainder();
            for block in blocks {
                lanes.iter_mut().zip(block).for_each(|(lane, v)| *lane += v);
            }
            let [a, b, c, d, e, f, g, h] = lanes;
            rest.iter().fold(((a + b) + (c + d)) + ((e + f) + (g + h)), |total, v| total + v)
        }
        n => {
            let half = n / 2 - (n / 2) % 8;
            sum(&values[..half]) + sum(&values[half..])
        }
    }
}

/// `numpy.linspace(first, last, n)`.
pub(super) fn linspace(first: f64, last: f64, n: u64) -> impl Iterator<Item = f64> {
    let step = (last - first) / (n.max(2) - 1) as f64;
    (0..n).map(move |i| if i + 1 == n && n > 1 { last } else { i as f64 * step + first })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(values: &[f64]) -> Distribution {
        Distribution::of(&values.iter().map(|v| (*v, 1.0)).collect::<Vec<_>>())
    }

    #[test]
    fn a_percentile_is_a_value_and_p001_is_the_thousandth() {
        let values: Vec<f64> = (1..=2000).rev().map(f64::from).collect();
        let all = plain(&values);
        // a thousandth of 2,000 values is reached by the second, give or take the rounding of a sum
        let figures = ["p001", "p01", "p50", "p999"].map(|name| all.percentile(name));
        for (found, exact) in figures.iter().zip([2.0, 20.0, 1000.0, 1998.0]) {
            assert!((found - exact).abs() <= 1.0, "{figures:?}");
        }
        let few = plain(&[30.0, 10.0, 20.0]);
        assert_eq!((few.percentile("p50"), few.percentile("p99"), few.percentile("p001")), (20.0, 30.0, 10.0));
        assert_eq!((few.mode, few.min, few.max, few.count), (10.0, 10.0, 30.0, 3), "of equals the first is the mode");
    }

    #[test]
    fn weights_count_and_nothing_is_zero() {
        let two = Distribution::of(&[(10.0, 9.0), (110.0, 1.0)]);
        assert_eq!((two.count, two.mean, two.percentile("p90"), two.percentile("p95")), (10, 20.0, 10.0, 110.0));
        assert_eq!(Distribution::of(&[]), Distribution::default());
        assert_eq!(Distribution::of(&[(5.0, 0.0)]), Distribution::default(), "a value without weight is none");
    }

    #[test]
    fn rates_and_levels_are_weighted_by_time() {
        let one_a_second: Vec<(f64, f64)> = (1..=9).map(|s| (f64::from(s), 1.0)).collect();
        let rates = Distribution::of_rates(&one_a_second, Some((0.0, 10.0)));
        assert_eq!((rates.count, rates.percentile("p50")), (9, 1.0));
        assert!((rates.mean - 0.9).abs() < 1e-9, "{rates:?}");
        let levels = Distribution::of_concurrency(&[(0.0, 2.0, 1.0), (1.0, 4.0, 1.0)], Some((0.0, 4.0)));
        assert_eq!((levels.count, levels.mean, levels.max), (2, 1.25, 2.0));
        assert_eq!(Distribution::of_concurrency(&[], Some((0.0, 1.0))), Distribution::default());
    }

    #[test]
    fn moments_within_a_tenth_of_a_millisecond_are_one() {
        let times = vec![(1.0, 1.0), (1.000_05, 1.0), (1.000_09, 1.0), (1.000_12, 1.0), (2.0, 1.0)];
        assert_eq!(merged(times), [(1.0, 3.0), (1.000_12, 1.0), (2.0, 1.0)]);
    }

    #[test]
    fn sums_are_those_of_numpy() {
        // numpy.sum(numpy.full(n, .1)) of numpy 2.4, which addition in order misses from n = 10 on
        for (n, expected) in [(7, 0.7), (10, 1.0), (100, 9.999_999_999_999_998), (1000, 100.000_000_000_000_01)] {
            assert_eq!(sum(&vec![0.1; n]), expected, "{n}");
        }
        assert_eq!(linspace(1.0, 2.0, 3).collect::<Vec<_>>(), [1.0, 1.5, 2.0]);
    }
}
