//! Intervals of percentiles from ranks alone: the exact binomial interval of order statistics (David and Nagaraja,
//! Order Statistics, 3rd ed., 7.1).
//!
//! Of n independent values, the number below the true percentile is binomial whatever their distribution is. The
//! interval is `[X(lower), X(upper)]` in sorted values: `lower` is the largest rank with P(Bin <= lower - 1) <= 2.5 %,
//! `upper` the smallest with P(Bin >= upper) <= 2.5 %. Both tails hold on their own, so the interval covers at least
//! 95 %; ties only widen it. Where one of the ranks does not exist there is no interval: for fewer values than 6 (p50),
//! 36 (p90), 72 (p95), 368 (p99), 3,688 (p99.9) the true percentile may well lie beyond the largest value.
//!
//! Values that depend on each other, as those of neighbouring requests do where a server's state lasts, say less than
//! their number: these intervals are then too narrow.

use crate::percentiles::{PUBLISHED, Percentile, Sample};

/// Largest probability that the true percentile lies beyond one end.
pub const TAIL: f64 = 0.025;

/// Places in sorted values, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranks {
    /// Of the low end.
    pub lower: usize,
    /// Of the high end.
    pub upper: usize,
}

/// Ranks of the two-sided 95 % interval of a percentile (in thousandths, 1 to 999) of `n` values; None where n is too
/// small for one. Exact to 10^7 values and beyond: the probabilities are relative ones, from the most likely count
/// outwards, by additions, multiplications and divisions alone.
pub fn ranks(n: usize, per_mille: u32) -> Option<Ranks> {
    if n == 0 || !(1..=999).contains(&per_mille) {
        return None;
    }
    let counts = Counts::new(n as u64, u64::from(per_mille));
    let most = TAIL * counts.total();
    let (below, above) = (counts.lower_tail(most), counts.upper_tail(most));
    (below > 0 && above < n as u64).then_some(Ranks { lower: below as usize, upper: above as usize + 1 })
}

/// The interval of a percentile of sorted values, in ms.
pub fn interval<T: Sample>(sorted: &[T], p: Percentile) -> Option<[f64; 2]> {
    let Ranks { lower, upper } = ranks(sorted.len(), p.per_mille)?;
    Some([sorted[lower - 1].ns() / 1e6, sorted[upper - 1].ns() / 1e6])
}

/// The intervals of what is published of sorted values, in ms, in the order of [`PUBLISHED`].
pub fn intervals<T: Sample>(sorted: &[T]) -> [Option<[f64; 2]>; 5] {
    PUBLISHED.map(|p| interval(sorted, p))
}

/// How likely each count of values below the percentile is, relative to the most likely one.
struct Counts {
    /// The count that `weights[0]` is of; what lies outside has less than 1e-25 of the whole.
    first: u64,
    weights: Vec<f64>,
}

impl Counts {
    const NEGLIGIBLE: f64 = 1e-30;

    fn new(n: u64, per_mille: u64) -> Counts {
        let mode = ((n + 1) * per_mille / 1000).min(n);
        let (p, q) = (per_mille as f64, (1000 - per_mille) as f64);
        let mut weights = Vec::new();
        let mut weight = 1.0;
        let mut first = mode;
        while first > 0 && weight > Self::NEGLIGIBLE {
            weight *= (first as f64 * q) / ((n - first + 1) as f64 * p);
            weights.push(weight);
            first -= 1;
        }
        weights.reverse();
        weights.push(1.0);
        weight = 1.0;
        let mut last = mode;
        while last < n && weight > Self::NEGLIGIBLE {
            weight *= ((n - last) as f64 * p) / ((last + 1) as f64 * q);
            weights.push(weight);
            last += 1;
        }
        Counts { first, weights }
    }

    /// The smallest are added first.
    fn total(&self) -> f64 {
        let peak = self.weights.iter().position(|w| *w == 1.0).unwrap_or(0);
        let rising: f64 = self.weights[..peak].iter().sum();
        let falling: f64 = self.weights[peak..].iter().rev().sum();
        rising + falling
    }

    /// The smallest count that is not to be had with all below it within `most`.
    fn lower_tail(&self, most: f64) -> u64 {
        let mut sum = 0.0;
        let within = self.weights.iter().take_while(|w| {
            sum += **w;
            sum <= most
        });
        self.first + within.count() as u64
    }

    /// The largest count that is not to be had with all above it within `most`.
    fn upper_tail(&self, most: f64) -> u64 {
        let mut sum = 0.0;
        let within = self.weights.iter().rev().take_while(|w| {
            sum += **w;
            sum <= most
        });
        self.first + (self.weights.len() - 1 - within.count()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand_core::Rng;
    use rand_pcg::Pcg64;

    /// The published table of ranks; `None` for an end that does not exist.
    #[test]
    fn the_published_ranks() {
        let table = [
            (500, 75, Some((29, 47))),
            (500, 300, Some((133, 168))),
            (500, 1_000, Some((469, 532))),
            (900, 300, Some((259, 281))),
            (950, 75, Some((67, 75))),
            (950, 300, Some((277, 293))),
            (950, 1_000, Some((936, 964))),
            (990, 75, None),
            (990, 100, None),
            (990, 300, None),
            (990, 600, Some((589, 599))),
            (990, 1_000, Some((983, 997))),
            (990, 2_000, Some((1_971, 1_989))),
            (990, 5_000, Some((4_936, 4_964))),
            (990, 10_000, Some((9_880, 9_920))),
            (999, 5_000, Some((4_990, 5_000))),
            (999, 10_000, Some((9_983, 9_997))),
            (999, 20_000, Some((19_971, 19_989))),
        ];
        for (per_mille, n, expected) in table {
            assert_eq!(ranks(n, per_mille).map(|r| (r.lower, r.upper)), expected, "{per_mille} of {n}");
        }
        // 0.0009 in q to either side
        let wide = ranks(50_000, 990).unwrap();
        assert_eq!((49_500 - wide.lower, wide.upper - 49_500), (44, 44));
    }

    #[test]
    fn each_interval_has_a_smallest_n() {
        for (per_mille, n) in [(500, 6), (900, 36), (950, 72), (990, 368), (999, 3_688)] {
            assert_eq!(ranks(n - 1, per_mille), None, "{per_mille} of {}", n - 1);
            let found = ranks(n, per_mille).unwrap();
            assert!(found.upper == n && found.lower >= 1, "{per_mille} of {n}: {found:?}");
        }
        assert_eq!((ranks(0, 500), ranks(9, 0), ranks(9, 1_000)), (None, None, None));
    }

    /// At ten million values the normal approximation with the continuity correction is off by less than a rank or two.
    #[test]
    fn ten_million_values_do_not_overflow() {
        for (per_mille, n) in [(500, 10_000_000_usize), (990, 10_000_000), (999, 10_000_000), (1, 10_000_000)] {
            let q = f64::from(per_mille) / 1e3;
            let (middle, half) = (n as f64 * q, 1.959_964 * (n as f64 * q * (1.0 - q)).sqrt());
            let found = ranks(n, per_mille).unwrap();
            let off = [found.lower as f64 - (middle - half), found.upper as f64 - (middle + half) - 1.0];
            assert!(off.iter().all(|d| d.abs() < 2.5), "{per_mille}: {found:?} {off:?}");
        }
    }

    #[test]
    fn the_ends_are_values_of_the_sample() {
        let sorted: Vec<i64> = (1..=300).map(|ms| ms * 1_000_000).collect();
        let found = intervals(&sorted);
        assert_eq!(found[..3], [Some([133.0, 168.0]), Some([259.0, 281.0]), Some([277.0, 293.0])]);
        assert_eq!(found[3..], [None, None]);
    }

    /// P(Bin(n, p) <= k) for each k, throw by throw.
    fn by_throws(n: usize, per_mille: u32) -> Vec<f64> {
        let p = f64::from(per_mille) / 1e3;
        let mut chance = vec![1.0];
        for _ in 0..n {
            let mut next = vec![0.0; chance.len() + 1];
            for (k, c) in chance.iter().enumerate() {
                next[k] += c * (1.0 - p);
                next[k + 1] += c * p;
            }
            chance = next;
        }
        chance
            .iter()
            .scan(0.0, |sum, c| {
                Some({
                    *sum += c;
                    *sum
                })
            })
            .collect()
    }

    proptest! {
        #[test]
        fn ranks_agree_with_brute_force(n in 1_usize..400, per_mille in 1_u32..1000) {
            let at_most = by_throws(n, per_mille);
            // a tail of 2.5 % to the last bit may fall on either side
            prop_assume!(at_most.iter().all(|c| (c - TAIL).abs() > 1e-9 && (1.0 - c - TAIL).abs() > 1e-9));
            let lower = (1..=n).rev().find(|l| at_most[l - 1] <= TAIL);
            let upper = (1..=n).find(|u| 1.0 - at_most[u - 1] <= TAIL);
            let expected = lower.zip(upper).map(|(lower, upper)| Ranks { lower, upper });
            prop_assert_eq!(ranks(n, per_mille), expected);
            if let Some(Ranks { lower, upper }) = expected {
                prop_assert!(at_most[upper - 1] - at_most[lower - 1] >= 0.95);
            }
        }
    }

    /// Above 0 and below 1.
    fn uniform(rng: &mut Pcg64) -> f64 {
        ((rng.next_u64() >> 11) as f64 + 0.5) / 2_f64.powi(53)
    }

    /// Box and Muller.
    fn normal(rng: &mut Pcg64) -> f64 {
        (-2.0 * uniform(rng).ln()).sqrt() * (std::f64::consts::TAU * uniform(rng)).cos()
    }

    /// How often the intervals of 1,000 seeded samples hold the true percentile: at least 95 %, less what 1,000 tries
    /// may be off by at three standard deviations (2.1 %).
    #[test]
    fn the_intervals_cover() {
        type Draw = fn(f64) -> f64;
        let cases: [(&str, Draw); 3] = [
            ("normal", |z| 100.0 + 10.0 * z),
            ("log-normal", |z| (0.5 * z).exp() * 200.0),
            ("ties", |z| ((100.0 + 10.0 * z) / 5.0).floor() * 5.0),
        ];
        for (name, of) in cases {
            let mut rng = Pcg64::new(7, 1);
            let mut held = [0_u32; 4];
            for _ in 0..1_000 {
                let mut sample: Vec<f64> = (0..400).map(|_| of(normal(&mut rng)) * 1e6).collect();
                f64::sort(&mut sample);
                // percentiles of the standard normal
                let truth = [0.0, 1.281_551_565_545, 1.644_853_626_951, 2.326_347_874_041];
                for ((held, z), found) in held.iter_mut().zip(truth).zip(intervals(&sample)) {
                    let [lo, hi] = found.unwrap();
                    *held += u32::from(lo <= of(z) && of(z) <= hi);
                }
            }
            assert!(held.iter().all(|h| *h >= 929), "{name}: {held:?} of 1000");
        }
    }
}
