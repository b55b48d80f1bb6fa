//! Figures of a sample: n, mean, spread and percentiles, the same bits whatever the order of the values.
//!
//! Where there are too many values to keep, each counts as the middle of its bucket of 0.1 % ([`bucket_middle`]); number,
//! mean, deviation and ends stay those of the values, in whole ns. The output names that ([`BUCKETED`]).
//!
//! Percentiles are type 7 of Hyndman and Fan (1996), numpy's `linear`. The position `(n - 1) p` is kept as whole
//! thousandths, so that nothing depends on how `p` rounds in binary.

/// The definition of percentiles of more values, as outputs name it.
pub const BUCKETED: &str = "percentiles=type7 over middles of log buckets of 0.1%;n,mean,sd,min,max of whole ns";

/// The edge after one: one more, or 0.1 % more, whichever is larger.
const fn next_edge(edge: i64) -> Option<i64> {
    let step = edge / 1000;
    edge.checked_add(if step > 1 { step } else { 1 })
}

const fn count_edges() -> usize {
    let (mut n, mut edge) = (1, 1);
    while let Some(next) = next_edge(edge) {
        (n, edge) = (n + 1, next);
    }
    n
}

/// Lower edges of the buckets of positive values, in ns, from 1 on.
static EDGES: [i64; count_edges()] = {
    let mut edges = [1; count_edges()];
    let mut i = 0;
    while let Some(next) = next_edge(edges[i]) {
        i += 1;
        edges[i] = next;
    }
    edges
};

/// The middle of the bucket of a value, in ns; the value itself up to 2,000 ns. Negative values have the same buckets.
pub fn bucket_middle(ns: i64) -> i64 {
    let size = ns.checked_abs().unwrap_or(i64::MAX);
    if size < 2_000 {
        return ns;
    }
    let above = EDGES.partition_point(|edge| *edge <= size);
    let low = EDGES[above - 1];
    let last = EDGES.get(above).map_or(i64::MAX, |edge| edge - 1);
    ns.signum() * (low + (last - low) / 2)
}

/// Sums that give mean and deviation in any order of the values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moments {
    n: u64,
    sum: i128,
    squares: u128,
}

impl Moments {
    /// Takes a value in ns; beyond 40 days it counts as 40 days, so that no sum overflows.
    pub fn take(&mut self, ns: i64) {
        let ns = i128::from(ns.clamp(-(1 << 52), 1 << 52));
        self.n += 1;
        self.sum += ns;
        self.squares += (ns * ns).cast_unsigned();
    }

    /// Takes the values of another.
    pub fn add(&mut self, other: &Moments) {
        self.n += other.n;
        self.sum += other.sum;
        self.squares += other.squares;
    }

    /// Values.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// Mean in ns; None of none.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.n > 0).then(|| self.sum as f64 / self.n as f64)
    }

    /// Standard deviation in ns with n - 1; None of fewer than two.
    pub fn sd_ns(&self) -> Option<f64> {
        let degrees = self.n.checked_sub(1).filter(|degrees| *degrees > 0)?;
        // about a whole number next to the mean, where whole sums lose nothing
        let (n, middle) = (i128::from(self.n), self.sum / i128::from(self.n));
        let rest = self.sum - middle * n;
        let about = self.squares.cast_signed() - 2 * middle * self.sum + n * middle * middle;
        let squares = about as f64 - (rest * rest) as f64 / n as f64;
        Some((squares / degrees as f64).max(0.0).sqrt())
    }
}

/// A percentile that is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percentile {
    /// `p50`, `p90`, `p95`, `p99`, `p999`.
    pub name: &'static str,
    /// In thousandths.
    pub per_mille: u32,
    /// Below this many values it is not defined.
    pub smallest_n: usize,
}

/// What is published of every distribution, in this order.
pub const PUBLISHED: [Percentile; 5] = [
    Percentile { name: "p50", per_mille: 500, smallest_n: 1 },
    Percentile { name: "p90", per_mille: 900, smallest_n: 10 },
    Percentile { name: "p95", per_mille: 950, smallest_n: 20 },
    Percentile { name: "p99", per_mille: 990, smallest_n: 100 },
    Percentile { name: "p999", per_mille: 999, smallest_n: 1000 },
];

/// Figures of one sample, in ms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Values.
    pub n: usize,
    /// Arithmetic mean.
    pub mean_ms: f64,
    /// Standard deviation with n - 1; None for a single value.
    pub sd_ms: Option<f64>,
    /// Smallest.
    pub min_ms: f64,
    /// Largest.
    pub max_ms: f64,
    /// In the order of [`PUBLISHED`]; None where n is too small.
    pub percentiles_ms: [Option<f64>; 5],
}

/// A number of ns that figures can be made of: whole (`i64`) or divided (`f64`).
pub trait Sample: Copy + PartialOrd {
    /// Ascending.
    fn sort(values: &mut [Self]);
    /// In ns.
    fn ns(self) -> f64;
    /// In whole ns, the nearest.
    fn whole_ns(self) -> i64;
    /// Mean of sorted values in ns.
    fn mean(sorted: &[Self]) -> f64;
    /// `a + (b - a) thousandths / 1000`, in ms.
    fn between_ms(a: Self, b: Self, thousandths: u32) -> f64;
}

impl Sample for i64 {
    fn sort(values: &mut [i64]) {
        values.sort_unstable();
    }
    fn ns(self) -> f64 {
        self as f64
    }
    fn whole_ns(self) -> i64 {
        self
    }
    fn mean(sorted: &[i64]) -> f64 {
        let sum: i128 = sorted.iter().map(|&v| i128::from(v)).sum();
        sum as f64 / sorted.len() as f64
    }
    fn between_ms(a: i64, b: i64, thousandths: u32) -> f64 {
        // exact up to here: one rounding, whatever the size
        let scaled = i128::from(a) * 1000 + (i128::from(b) - i128::from(a)) * i128::from(thousandths);
        scaled as f64 / 1e9
    }
}

impl Sample for f64 {
    fn sort(values: &mut [f64]) {
        values.sort_unstable_by(f64::total_cmp);
    }
    fn ns(self) -> f64 {
        self
    }
    fn whole_ns(self) -> i64 {
        self.round() as i64
    }
    fn mean(sorted: &[f64]) -> f64 {
        // addition of floats depends on the order, so the order is fixed
        sorted.iter().sum::<f64>() / sorted.len() as f64
    }
    fn between_ms(a: f64, b: f64, thousandths: u32) -> f64 {
        (a + (b - a) * (f64::from(thousandths) / 1e3)) / 1e6
    }
}

/// Sorts `values` and gives their figures; None when there are none.
pub fn figures<T: Sample>(values: &mut [T]) -> Option<Figures> {
    T::sort(values);
    let (&first, &last) = (values.first()?, values.last()?);
    let mean = T::mean(values);
    Some(Figures {
        n: values.len(),
        mean_ms: mean / 1e6,
        sd_ms: deviation(values, mean).map(|ns| ns / 1e6),
        min_ms: first.ns() / 1e6,
        max_ms: last.ns() / 1e6,
        percentiles_ms: PUBLISHED.map(|p| percentile_ms(values, p)),
    })
}

/// Percentile of sorted values in ms, None where n is too small.
pub fn percentile_ms<T: Sample>(sorted: &[T], p: Percentile) -> Option<f64> {
    if sorted.len() < p.smallest_n.max(1) {
        return None;
    }
    let position = (sorted.len() as u128 - 1) * u128::from(p.per_mille);
    let (below, thousandths) = ((position / 1000) as usize, (position % 1000) as u32);
    let above = (below + 1).min(sorted.len() - 1);
    Some(T::between_ms(sorted[below], sorted[above], thousandths))
}

/// A percentile by the share of values beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Parts beyond it.
    pub beyond: u32,
    /// Of so many.
    pub of: u64,
}

/// The value in ms of sorted ns that a part lies beyond, type 7 as everywhere; None of no values, of no parts, and where
/// more lie beyond than there are. How many values it takes for that to say something is the caller's affair.
pub fn part_ms(sorted: &[i64], part: Part) -> Option<f64> {
    let (of, below) = (i128::from(part.of), part.of.checked_sub(u64::from(part.beyond))?);
    let position = (sorted.len() as u128).checked_sub(1)? * u128::from(below);
    let place = usize::try_from(position.checked_div(u128::from(part.of))?).ok()?;
    let (low, high) = (i128::from(sorted[place]), i128::from(sorted[(place + 1).min(sorted.len() - 1)]));
    let rest = (position % u128::from(part.of)) as i128;
    // exact up to here, as the others: the fraction is below 1, and the difference of two i64 below 2^64
    let scaled = low.checked_mul(of)?.checked_add((high - low).checked_mul(rest)?)?;
    Some(scaled as f64 / of as f64 / 1e6)
}

/// Sum that does not depend on the order of the values; sorts them.
pub fn sum(values: &mut [f64]) -> f64 {
    f64::sort(values);
    // from +0: the empty `sum()` of floats is -0
    values.iter().fold(0.0, |total, v| total + v)
}

fn deviation<T: Sample>(sorted: &[T], mean: f64) -> Option<f64> {
    let degrees = sorted.len().checked_sub(1).filter(|&d| d > 0)?;
    let squares: f64 = sorted.iter().map(|v| (v.ns() - mean) * (v.ns() - mean)).sum();
    Some((squares / degrees as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(values: &mut [i64], per_mille: u32) -> f64 {
        values.sort_unstable();
        percentile_ms(values, Percentile { name: "", per_mille, smallest_n: 1 }).unwrap()
    }

    #[test]
    fn percentiles_are_those_of_numpy() {
        // numpy.percentile([10, 20, 30, 40], [50, 90, 95, 99]) = 25, 37, 38.5, 39.7
        let mut ms = [40_000_000, 10_000_000, 30_000_000, 20_000_000];
        for (per_mille, expected) in [(500, 25.0), (900, 37.0), (950, 38.5), (990, 39.7)] {
            assert_eq!(at(&mut ms, per_mille), expected);
        }
        // numpy.percentile(range(1, 1001), 99.9) = 999.001
        let mut thousand: Vec<i64> = (1..=1000).rev().map(|v| v * 1_000_000).collect();
        assert_eq!(figures(&mut thousand).unwrap().percentiles_ms[4], Some(999.001));
    }

    #[test]
    fn each_percentile_has_a_smallest_n() {
        for (n, defined) in [(1, 1), (9, 1), (10, 2), (19, 2), (20, 3), (99, 3), (100, 4), (999, 4), (1000, 5)] {
            let found = figures(&mut vec![7_i64; n]).unwrap().percentiles_ms;
            assert_eq!(found.iter().flatten().count(), defined, "n = {n}");
        }
        assert!(figures::<i64>(&mut []).is_none());
    }

    #[test]
    fn mean_and_deviation_of_a_known_sample() {
        // numpy.std([2, 4, 4, 4, 5, 5, 7, 9], ddof=1) = 2.13808993529939
        let mut ms: Vec<i64> = [2, 4, 4, 4, 5, 5, 7, 9].map(|v| v * 1_000_000).to_vec();
        let found = figures(&mut ms).unwrap();
        assert_eq!((found.mean_ms, found.min_ms, found.max_ms), (5.0, 2.0, 9.0));
        assert!((found.sd_ms.unwrap() - 2.138_089_935_299_39).abs() < 1e-12);
        assert_eq!(figures(&mut [3_i64]).unwrap().sd_ms, None);
    }

    #[test]
    fn a_bucket_is_a_thousandth_wide() {
        assert_eq!([0, 1, -7, 1_999].map(bucket_middle), [0, 1, -7, 1_999]);
        assert_eq!([10_000_000, -10_000_000].map(|ns| (bucket_middle(ns) - ns).abs() <= 5_000), [true; 2]);
        assert_eq!(bucket_middle(-10_000_000), -bucket_middle(10_000_000));
        assert!((20_000..60_000).contains(&EDGES.len()) && EDGES[1_999] == 2_000 && EDGES[2_000] == 2_002);
        let _ = [i64::MAX, i64::MIN].map(bucket_middle);
    }

    #[test]
    fn sums_give_the_moments() {
        let mut moments = Moments::default();
        [2, 4, 4, 4, 5, 5, 7, 9].into_iter().for_each(|ms| moments.take(ms * 1_000_000));
        assert_eq!(moments.mean_ns(), Some(5e6));
        assert!((moments.sd_ns().unwrap() / 1e6 - 2.138_089_935_299_39).abs() < 1e-12);
        let mut far = Moments::default();
        [-1, 0, 1].into_iter().for_each(|ns| far.take(3_600_000_000_000_000 + ns));
        assert_eq!(far.sd_ns(), Some(1.0), "nothing is lost to a large mean");
        assert_eq!((Moments::default().mean_ns(), Moments::default().sd_ns()), (None, None));
    }

    proptest! {
        #[test]
        fn percentiles_agree_with_brute_force(mut v in prop::collection::vec(-1_000_000_000_i64..1_000_000_000_000, 1..400), q in 0_u32..=1000) {
            let found = at(&mut v, q);
            let h = (v.len() - 1) as f64 * f64::from(q) / 1000.0;
            let (a, b) = (v[h.floor() as usize] as f64, v[(h.ceil() as usize).min(v.len() - 1)] as f64);
            let expected = (a + (b - a) * (h - h.floor())) / 1e6;
            prop_assert!((found - expected).abs() <= 1e-6 * expected.abs().max(1.0), "{found} {expected}");
        }

        #[test]
        fn the_order_of_the_values_changes_no_bit(v in prop::collection::vec(-1e12_f64..1e12, 1..200), seed in any::<u64>()) {
            let mut mixed = v.clone();
            let n = mixed.len();
            (0..n).for_each(|i| mixed.swap(i, (seed.rotate_left(i as u32) % n as u64) as usize));
            let mut whole: Vec<i64> = v.iter().map(|x| *x as i64).collect();
            let mut whole_mixed: Vec<i64> = mixed.iter().map(|x| *x as i64).collect();
            prop_assert_eq!(sum(&mut v.clone()).to_bits(), sum(&mut mixed.clone()).to_bits());
            prop_assert_eq!(figures(&mut v.clone()), figures(&mut mixed));
            prop_assert_eq!(figures(&mut whole), figures(&mut whole_mixed));
        }
    }
}
