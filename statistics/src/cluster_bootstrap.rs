//! Intervals of percentiles of values that come in clusters: the gaps of one request depend on each other, so it is
//! requests that are drawn again, never gaps (the cluster bootstrap; Davison and Hinkley, Bootstrap Methods and their
//! Application, 3.8).
//!
//! [`REPLICATES`] times as many requests are drawn with replacement as there are; each time the percentile of all their
//! gaps is taken. The interval reaches from the 25th smallest of these to the 975th. Its ends are gaps that were
//! measured, and it is never narrower than the two gaps that the percentile itself lies between.
//!
//! **Exact, and not by sorting each replicate.** The percentile of a replicate is at most t exactly when the gaps of its
//! requests that are at most t are enough: a sum over requests, in whole numbers. So the ends are found by halving over
//! the sorted gaps, all replicates at once, and the order of the rows, the machine and the build change no bit.
//!
//! **Neighbours together.** More than [`MOST_CLUSTERS`] requests are drawn in that many bunches of neighbours by trace
//! id, which bounds the work, and keeps together what requests of one moment share.
//!
//! **When there is none.** A percentile that few requests decide has no honest interval, however many gaps there are:
//! both at or above it and at or below it there must be gaps of [`LEAST_CLUSTERS`] requests.

use rand_core::Rng;
use rand_pcg::Pcg64;

use crate::percentiles::{PUBLISHED, Percentile, Sample};

/// How often requests are drawn again.
pub const REPLICATES: usize = 999;
/// Rank of the low end among the replicates; of the high end from above.
const END: usize = 25;
/// Most clusters that are drawn from.
pub const MOST_CLUSTERS: usize = 1024;
/// Requests that must hold a value at or beyond the percentile, on either side.
pub const LEAST_CLUSTERS: usize = 20;
const SEED: u128 = 7;
const STREAM: u128 = 0xb007;

/// What names a cluster, the trace id, and its values in ns. No two have the same name.
pub type Cluster<'a, T> = (u64, &'a [T]);

/// The intervals of what is published of the values of all clusters, in ms, in the order of [`PUBLISHED`]; None where
/// the percentile itself is not defined, or too few clusters decide it. Clusters may come in any order.
pub fn intervals<T: Sample>(clusters: &[Cluster<T>]) -> [Option<[f64; 2]>; 5] {
    let sample = Clusters::new(clusters);
    let mut draws = Vec::new();
    PUBLISHED.map(|p| {
        if !sample.decides(p) {
            return None;
        }
        if draws.is_empty() {
            draws = sample.draws();
        }
        Some(sample.interval(p, &draws).map(|value| value.ns() / 1e6))
    })
}

struct Clusters<T> {
    /// All values, ascending.
    all: Vec<T>,
    /// The values of each cluster or bunch, ascending.
    clusters: Vec<Vec<T>>,
    /// The smallest value of each request, ascending.
    smallest: Vec<T>,
    /// The largest.
    largest: Vec<T>,
}

impl<T: Sample> Clusters<T> {
    fn new(clusters: &[Cluster<T>]) -> Clusters<T> {
        let mut requests: Vec<Cluster<T>> = clusters.iter().copied().filter(|(_, values)| !values.is_empty()).collect();
        requests.sort_by_key(|(trace_id, _)| *trace_id);
        let ends = |outer: fn(T, T) -> T| {
            let mut ends: Vec<T> = requests.iter().filter_map(|(_, v)| v.iter().copied().reduce(outer)).collect();
            T::sort(&mut ends);
            ends
        };
        let smallest = ends(|a, b| if b < a { b } else { a });
        let largest = ends(|a, b| if b > a { b } else { a });
        let bunches = requests.len().min(MOST_CLUSTERS);
        let bunch = |k: usize| {
            let own = k * requests.len() / bunches..(k + 1) * requests.len() / bunches;
            let mut values = requests[own].iter().map(|(_, values)| *values).collect::<Vec<_>>().concat();
            T::sort(&mut values);
            values
        };
        let clusters: Vec<Vec<T>> = (0..bunches).map(bunch).collect();
        let mut all = clusters.concat();
        T::sort(&mut all);
        Clusters { all, clusters, smallest, largest }
    }

    /// Whether the percentile is defined, and enough requests have a say in it.
    fn decides(&self, p: Percentile) -> bool {
        if self.all.len() < p.smallest_n.max(1) {
            return false;
        }
        let [below, above] = self.around(p).map(|place| self.all[place]);
        let at_most = self.smallest.partition_point(|v| *v <= above);
        let at_least = self.largest.len() - self.largest.partition_point(|v| *v < below);
        at_most.min(at_least) >= LEAST_CLUSTERS
    }

    /// Places of the two values that the percentile lies between.
    fn around(&self, p: Percentile) -> [usize; 2] {
        let position = (self.all.len() as u128 - 1) * u128::from(p.per_mille);
        [(position / 1000) as usize, position.div_ceil(1000) as usize]
    }

    /// For each replicate the clusters that it consists of, one replicate after the other.
    fn draws(&self) -> Vec<u16> {
        let mut rng = Pcg64::new(SEED, STREAM);
        let n = self.clusters.len() as u64;
        (0..REPLICATES * self.clusters.len()).map(|_| below(&mut rng, n)).collect()
    }

    fn interval(&self, p: Percentile, draws: &[u16]) -> [T; 2] {
        let [below, above] = self.around(p);
        // where to look first: what a normal law would say, in places
        let squares: f64 = self.balances(p, self.all[below]).iter().map(|b| (*b as f64 / 1e3).powi(2)).sum();
        let deviation = squares.sqrt();
        let reach = (1.96 * deviation) as usize;
        let search = |start: usize, holds, least| {
            let step = (deviation / 8.0) as usize;
            self.end(start.min(self.all.len() - 1), step.max(1), |t| self.is_enough(p, draws, t, holds, least))
        };
        // where the values at most t are just as many as the percentile asks for, it lies at t or at the next value
        let low = search(below.saturating_sub(reach), |balance| balance >= 0, END);
        let high = search(above + reach, |balance| balance > 0, REPLICATES + 1 - END);
        [self.all[low.min(below)], self.all[high.max(above)]]
    }

    /// The first place whose value is enough, sought from `start` outwards; the last value always is, and what is above
    /// a value that is enough is enough too.
    fn end(&self, start: usize, mut step: usize, enough: impl Fn(T) -> bool) -> usize {
        let last = self.all.len() - 1;
        // at `high` it is enough, below `low` it is not
        let (mut low, mut high) = (start, start);
        if enough(self.all[start]) {
            low = loop {
                let Some(next) = low.checked_sub(step) else { break 0 };
                if !enough(self.all[next]) {
                    break next + 1;
                }
                (low, high, step) = (next, next, step * 2);
            };
        } else {
            high = loop {
                low = high + 1;
                high = (high + step).min(last);
                if high == last || enough(self.all[high]) {
                    break high;
                }
                step *= 2;
            };
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if enough(self.all[middle]) { high = middle } else { low = middle + 1 }
        }
        high
    }

    /// For each cluster how many values at most t it has beyond the percentile's share of its own, in thousandths.
    fn balances(&self, p: Percentile, t: T) -> Vec<i64> {
        let balance = |values: &Vec<T>| {
            let at_most = values.partition_point(|v| *v <= t) as i64;
            at_most * 1000 - values.len() as i64 * i64::from(p.per_mille)
        };
        self.clusters.iter().map(balance).collect()
    }

    /// Whether the percentile of at least `least` replicates is at most `t`.
    fn is_enough(&self, p: Percentile, draws: &[u16], t: T, holds: fn(i64) -> bool, least: usize) -> bool {
        let balances = self.balances(p, t);
        let (mut held, mut failed) = (0, 0);
        for draw in draws.chunks_exact(balances.len()) {
            let mut sum = 0;
            for k in draw {
                sum += balances[usize::from(*k)];
            }
            if holds(sum) {
                held += 1;
            } else {
                failed += 1;
            }
            if held == least || failed > REPLICATES - least {
                break;
            }
        }
        held == least
    }
}

/// Uniform in `0..n`, n being small: the bias of a product of 64 bits is below 2^-53.
fn below(rng: &mut Pcg64, n: u64) -> u16 {
    ((u128::from(rng.next_u64()) * u128::from(n)) >> 64) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order_interval;
    use proptest::prelude::*;

    fn of(requests: &[Vec<i64>]) -> [Option<[f64; 2]>; 5] {
        let clusters: Vec<Cluster<i64>> = requests.iter().enumerate().map(|(i, v)| (i as u64, v.as_slice())).collect();
        intervals(&clusters)
    }

    /// Above 0 and below 1.
    fn uniform(rng: &mut Pcg64) -> f64 {
        ((rng.next_u64() >> 11) as f64 + 0.5) / 2_f64.powi(53)
    }

    /// Box and Muller.
    fn normal(rng: &mut Pcg64) -> f64 {
        (-2.0 * uniform(rng).ln()).sqrt() * (std::f64::consts::TAU * uniform(rng)).cos()
    }

    /// Log-normal gaps around 10 ms, with an effect of the request, and one of its own for each gap.
    fn gaps(rng: &mut Pcg64, requests: usize, each: usize, (between, within): (f64, f64)) -> Vec<Vec<i64>> {
        let request = |_| {
            let effect = between * normal(rng);
            (0..each).map(|_| ((effect + within * normal(rng)).exp() * 1e7) as i64).collect()
        };
        (0..requests).map(request).collect()
    }

    /// The replicates one by one, each sorted: slow, and plainly right.
    fn one_by_one(requests: &[Vec<i64>], per_mille: usize) -> [f64; 2] {
        let clusters: Vec<Cluster<i64>> = requests.iter().enumerate().map(|(i, v)| (i as u64, v.as_slice())).collect();
        let draws = Clusters::new(&clusters).draws();
        let (mut low, mut high) = (Vec::new(), Vec::new());
        for draw in draws.chunks_exact(requests.len()) {
            let mut values: Vec<i64> = draw.iter().flat_map(|k| requests[usize::from(*k)].iter().copied()).collect();
            values.sort_unstable();
            low.push(values[(values.len() * per_mille).div_ceil(1000) - 1]);
            high.push(values[(values.len() * per_mille / 1000).min(values.len() - 1)]);
        }
        low.sort_unstable();
        high.sort_unstable();
        let mut all = requests.concat();
        all.sort_unstable();
        let (below, above) = ((all.len() - 1) * per_mille / 1000, ((all.len() - 1) * per_mille).div_ceil(1000));
        [low[24].min(all[below]) as f64 / 1e6, high[974].max(all[above]) as f64 / 1e6]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn halving_finds_what_sorting_finds(requests in prop::collection::vec(prop::collection::vec(0_i64..60, 1..12), 30..60)) {
            let found = of(&requests);
            for (p, found) in PUBLISHED.iter().zip(found) {
                if let Some(found) = found {
                    prop_assert_eq!(found, one_by_one(&requests, p.per_mille as usize), "{}", p.name);
                }
            }
            prop_assert!(found[0].is_some());
        }

        #[test]
        fn the_order_of_the_requests_changes_nothing(
            requests in prop::collection::vec(prop::collection::vec(0_i64..1_000_000, 0..6), 30..60),
            by in any::<usize>(),
        ) {
            let mut clusters: Vec<Cluster<i64>> = requests.iter().enumerate().map(|(i, v)| (i as u64, v.as_slice())).collect();
            let expected = intervals(&clusters);
            let n = clusters.len();
            clusters.rotate_left(by % n);
            clusters.swap(0, n / 2);
            prop_assert_eq!(intervals(&clusters), expected);
        }
    }

    /// The same bits in every build and on every machine.
    #[test]
    fn known_intervals() {
        // a generator of its own, so that no float is in it
        let mut x = 1_u64;
        let mut next = || {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (x >> 40) as i64
        };
        let requests: Vec<Vec<i64>> = (0..200)
            .map(|_| {
                let base = next();
                (0..9).map(|_| base + next() / 8).collect()
            })
            .collect();
        let expected = [Some([8.507_242, 10.344_66]), Some([15.578_231, 16.683_935]), Some([16.528_061, 17.395_306])];
        assert_eq!(of(&requests), [expected[0], expected[1], expected[2], None, None]);
    }

    /// Requests differ much, gaps of one request little: independent draws would claim far too much. Over 300 windows an
    /// interval that covers 95 % would hold the truth 285 times give or take 3.8; it is allowed to be short of that by
    /// 3 points of bias, which the percentile interval has where 20 to 30 requests decide, and three deviations.
    #[test]
    fn clustered_gaps_are_covered_and_independent_draws_are_not() {
        let (between, within) = (1.0_f64, 0.2_f64);
        let mut rng = Pcg64::new(11, 4);
        let (mut held, mut naive) = ([0; 3], [0; 3]);
        for _ in 0..300 {
            let requests = gaps(&mut rng, 300, 10, (between, within));
            let mut all = requests.concat();
            all.sort_unstable();
            let (independent, clustered) = (order_interval::intervals(&all), of(&requests));
            for (i, z) in [0.0, 1.281_551_565_545, 1.644_853_626_951].into_iter().enumerate() {
                let truth = (z * between.hypot(within)).exp() * 10.0;
                let holds = |[lo, hi]: [f64; 2]| lo <= truth && truth <= hi;
                // none at all makes no false claim
                held[i] += i32::from(clustered[i].is_none_or(holds));
                naive[i] += i32::from(independent[i].is_some_and(holds));
            }
        }
        assert!(held.iter().all(|h| *h >= 264), "{held:?} of 300");
        assert!(naive.iter().all(|h| *h <= 200), "{naive:?} of 300");
    }

    /// Requests of one gap each are independent: the two intervals must nearly agree.
    #[test]
    fn clusters_of_one_are_an_ordinary_sample() {
        let requests = gaps(&mut Pcg64::new(3, 9), 5_000, 1, (0.0, 0.5));
        let mut all = requests.concat();
        all.sort_unstable();
        for (p, (found, exact)) in PUBLISHED.iter().zip(of(&requests).into_iter().zip(order_interval::intervals(&all)))
        {
            let Some((found, exact)) = found.zip(exact) else { continue };
            let width = exact[1] - exact[0];
            for (a, b) in found.into_iter().zip(exact) {
                assert!((a - b).abs() < 0.35 * width, "{}: {found:?} {exact:?}", p.name);
            }
        }
    }

    #[test]
    fn what_few_requests_decide_has_no_interval() {
        // the slow gaps, 1.3 % of all, come from ten requests, however many gaps there are
        let gap = |i: usize, k: usize| if i < 10 && k < 40 { 9_000_000 } else { 1_000_000 + (i + k) as i64 };
        let requests: Vec<Vec<i64>> = (0..300).map(|i| (0..100).map(|k| gap(i, k)).collect()).collect();
        let found = of(&requests).map(|ends| ends.is_some());
        assert_eq!(found, [true, true, true, false, false]);
        let thirty: Vec<Vec<i64>> = requests[..30].to_vec();
        assert_eq!(of(&thirty).map(|ends| ends.is_some()), [true, false, false, false, false]);
        assert_eq!(of(&thirty[..19]), [None; 5]);
        assert_eq!(of(&[]), [None; 5]);
    }

    #[test]
    fn half_and_half_reaches_from_one_half_to_the_other() {
        let requests = vec![vec![1_000_000, 2_100_000]; 30];
        assert_eq!(of(&requests)[0], Some([1.0, 2.1]));
    }
}
