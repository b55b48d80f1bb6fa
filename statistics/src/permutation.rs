//! Permutation tests of a shift, and the intervals that follow from them.
//!
//! Two arms of windows: under "B is A moved by `t`", every way of dealing the windows `a` and `b - t` to the two arms is
//! as likely as the one seen (windows are exchangeable: that is the assumption). The statistic is the difference of the
//! arms' means. Exchanging the windows `Sa` of A with the windows `Sb` of B, as many of each, brings the difference to at
//! least what was seen exactly when `t >= mean(Sb) - mean(Sa)`. So the test at every `t` is a count among the numbers
//! `mean(Sb) - mean(Sa)` of all exchanges, and its inversion, the confidence interval, is made of their order
//! statistics (J. A. Hartigan, "Using subsample values as typical values", JASA 64, 1969; J. S. Maritz, "Distribution-Free
//! Statistical Methods", 1995).
//!
//! Pairs whose order was drawn at random: under "the differences are symmetric about `t`" every set of signs is as likely
//! as any other, and the numbers are the means of all non-empty subsets of the differences.
//!
//! All assignments are taken while there are at most [`MOST_EXACT`]; beyond, [`DRAWN`] are drawn with a fixed seed,
//! and p is `(r + 1) / (drawn + 1)`.

use rand_core::Rng;
use rand_pcg::Pcg64;

/// Up to so many assignments are counted one by one: ten windows an arm, seventeen pairs.
pub const MOST_EXACT: u64 = 200_000;
/// So many are drawn beyond; with the one seen 20,000, hence p-values in steps of 0.00005.
pub const DRAWN: u64 = 19_999;
const SEED: u128 = 7;
const STREAM: u128 = 0x7065_726d;

/// The test of every shift at once.
#[derive(Clone, Debug, PartialEq)]
pub struct ShiftTest {
    /// For each assignment the shift from which on it is as extreme as the one seen; ascending.
    turning: Vec<f64>,
    /// Assignments that are as extreme whatever the shift: the one seen.
    always: u64,
    exact: bool,
    /// Shifts closer than this are the same: they differ by rounding only.
    rounding: f64,
}

impl ShiftTest {
    /// Two independent arms. None when one is empty or a value is not finite.
    pub fn of_arms(a: &[f64], b: &[f64]) -> Option<ShiftTest> {
        let (a, b) = (sorted(a)?, sorted(b)?);
        let all = assignments_of_arms(a.len(), b.len());
        let mut test = ShiftTest::empty(a.iter().chain(&b), all.is_some());
        let mut take = |from_a: &[bool], from_b: &[bool]| match (mean(&b, from_b), mean(&a, from_a)) {
            (Some(b), Some(a)) => test.turning.push(b - a),
            _ => test.always += 1,
        };
        let pooled = a.len() + b.len();
        let (mut leaves_a, mut leaves_b) = (vec![false; a.len()], vec![false; b.len()]);
        let mut deal = |stays_or_joins_a: &dyn Fn(usize) -> bool| {
            leaves_a.iter_mut().enumerate().for_each(|(i, leaves)| *leaves = !stays_or_joins_a(i));
            leaves_b.iter_mut().enumerate().for_each(|(i, leaves)| *leaves = stays_or_joins_a(a.len() + i));
            take(&leaves_a, &leaves_b);
        };
        if all.is_some() {
            // every set of `a.len()` of the pooled windows, in the order of its bits
            let mut set = (1_u64 << a.len()) - 1;
            while set < 1 << pooled {
                deal(&|i| set >> i & 1 == 1);
                let lowest = set & set.wrapping_neg();
                let ripple = set + lowest;
                set = (((ripple ^ set) >> 2) / lowest) | ripple;
            }
        } else {
            random_orders(pooled, |order| {
                let mut in_a = vec![false; pooled];
                order[..a.len()].iter().for_each(|i| in_a[*i] = true);
                deal(&|i| in_a[i]);
            });
            test.always += 1;
        }
        Some(test.done())
    }

    /// Differences of pairs whose order was drawn at random. None without pairs, or when a value is not finite.
    pub fn of_pairs(differences: &[f64]) -> Option<ShiftTest> {
        let values = sorted(differences)?;
        let all = assignments_of_pairs(values.len());
        let mut test = ShiftTest::empty(values.iter(), all.is_some());
        let mut take = |turned: &[bool]| match mean(&values, turned) {
            Some(mean) => test.turning.push(mean),
            None => test.always += 1,
        };
        let mut turned = vec![false; values.len()];
        if let Some(all) = all {
            for set in 0..all {
                turned.iter_mut().enumerate().for_each(|(i, turned)| *turned = set >> i & 1 == 1);
                take(&turned);
            }
        } else {
            let mut rng = Pcg64::new(SEED, STREAM);
            for _ in 0..DRAWN {
                turned.iter_mut().for_each(|turned| *turned = rng.next_u64() >> 63 == 1);
                take(&turned);
            }
            test.always += 1;
        }
        Some(test.done())
    }

    fn empty<'a>(values: impl Iterator<Item = &'a f64>, exact: bool) -> ShiftTest {
        let largest = values.fold(0.0_f64, |most, v| most.max(v.abs()));
        ShiftTest { turning: Vec::new(), always: 0, exact, rounding: largest * 1e-12 }
    }

    fn done(mut self) -> ShiftTest {
        self.turning.sort_unstable_by(f64::total_cmp);
        self
    }

    /// Assignments behind every p: all there are, or those drawn and the one seen.
    pub fn assignments(&self) -> u64 {
        self.turning.len() as u64 + self.always
    }

    /// Whether all assignments were counted.
    pub fn is_exact(&self) -> bool {
        self.exact
    }

    /// p of "the shift is at most `shift`", one-sided: small when it is larger.
    pub fn at_most(&self, shift: f64) -> f64 {
        let as_extreme = self.turning.partition_point(|t| *t <= shift + self.rounding);
        (as_extreme as u64 + self.always) as f64 / self.assignments() as f64
    }

    /// p of "the shift is at least `shift`", one-sided: small when it is smaller.
    pub fn at_least(&self, shift: f64) -> f64 {
        let as_extreme = self.turning.len() - self.turning.partition_point(|t| *t < shift - self.rounding);
        (as_extreme as u64 + self.always) as f64 / self.assignments() as f64
    }

    /// p of "the shift is `shift`": twice the smaller of the two one-sided ones.
    pub fn two_sided(&self, shift: f64) -> f64 {
        (2.0 * self.at_most(shift).min(self.at_least(shift))).min(1.0)
    }

    /// p of "the shift is not within -`margin`..`margin`": the larger of two one-sided tests (TOST, D. J. Schuirmann,
    /// Journal of Pharmacokinetics and Biopharmaceutics 15, 1987).
    pub fn outside(&self, margin: f64) -> f64 {
        self.at_most(-margin).max(self.at_least(margin))
    }

    /// All shifts that the test does not reject with so many thousandths in each tail: 25 for a 95 % interval, 50 for a
    /// 90 % one. None when there are too few assignments for any shift to be rejected.
    pub fn interval(&self, tail_per_mille: u64) -> Option<[f64; 2]> {
        // assignments that count whatever the shift are among the most extreme ones
        let out = (self.assignments() * tail_per_mille / 1000).checked_sub(self.always)?;
        let lowest = usize::try_from(out).ok()?;
        let highest = self.turning.len().checked_sub(lowest + 1)?;
        let (low, high) = (self.turning.get(lowest)?, self.turning.get(highest)?);
        (low <= high).then_some([*low, *high])
    }
}

/// Ways to deal `a + b` windows to arms of that size; None when more than [`MOST_EXACT`], or windows than bits.
pub fn assignments_of_arms(a: usize, b: usize) -> Option<u64> {
    if a + b > 63 {
        return None;
    }
    let smaller = a.min(b) as u64;
    (1..=smaller)
        .try_fold(1_u64, |ways, i| Some(ways.checked_mul((a + b) as u64 - smaller + i)? / i))
        .filter(|ways| *ways <= MOST_EXACT)
}

/// Sets of signs of so many pairs; None when more than [`MOST_EXACT`].
pub fn assignments_of_pairs(pairs: usize) -> Option<u64> {
    1_u64.checked_shl(u32::try_from(pairs).ok()?).filter(|ways| *ways <= MOST_EXACT)
}

fn sorted(values: &[f64]) -> Option<Vec<f64>> {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    (!values.is_empty() && values.iter().all(|v| v.is_finite())).then_some(values)
}

/// Mean of the chosen values; None when there are none.
fn mean(values: &[f64], chosen: &[bool]) -> Option<f64> {
    let of_chosen = values.iter().zip(chosen).filter(|(_, chosen)| **chosen);
    let (sum, n) = of_chosen.fold((0.0, 0_u32), |(sum, n), (v, _)| (sum + v, n + 1));
    (n > 0).then(|| sum / f64::from(n))
}

/// Hands out [`DRAWN`] random orders of `0..n` (Fisher and Yates).
fn random_orders(n: usize, mut take: impl FnMut(&[usize])) {
    let mut rng = Pcg64::new(SEED, STREAM);
    let mut order: Vec<usize> = (0..n).collect();
    for _ in 0..DRAWN {
        for i in (1..n).rev() {
            // the bias of the product is below n / 2^64
            let other = (u128::from(rng.next_u64()) * (i as u128 + 1)) >> 64;
            order.swap(i, other as usize);
        }
        take(&order);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The test as a textbook has it: all ways to deal, differences of means, those as extreme counted.
    fn by_hand(a: &[f64], b: &[f64], shift: f64) -> (f64, f64) {
        let pooled: Vec<f64> = a.iter().copied().chain(b.iter().map(|v| v - shift)).collect();
        let difference = |in_a: &dyn Fn(usize) -> bool| {
            let (mut sums, mut counts) = ([0.0; 2], [0.0; 2]);
            for (i, v) in pooled.iter().enumerate() {
                let arm = usize::from(!in_a(i));
                sums[arm] += v;
                counts[arm] += 1.0;
            }
            sums[1] / counts[1] - sums[0] / counts[0]
        };
        let seen = difference(&|i| i < a.len());
        let (mut all, mut above, mut below) = (0.0, 0.0, 0.0);
        for set in 0_u32..1 << pooled.len() {
            if set.count_ones() as usize == a.len() {
                let found = difference(&|i| set >> i & 1 == 1);
                all += 1.0;
                above += f64::from(found >= seen - 1e-9);
                below += f64::from(found <= seen + 1e-9);
            }
        }
        (above / all, below / all)
    }

    #[test]
    fn separated_arms_have_the_smallest_p_that_their_size_allows() {
        let arm = |from: f64, n: usize| (0..n).map(|i| from + i as f64).collect::<Vec<_>>();
        for (n, ways) in [(2, 6.0), (3, 20.0), (4, 70.0), (5, 252.0), (6, 924.0)] {
            let test = ShiftTest::of_arms(&arm(0.0, n), &arm(100.0, n)).unwrap();
            assert!((test.two_sided(0.0) - 2.0 / ways).abs() < 1e-12, "{n}");
            assert!(test.is_exact() && test.assignments() as f64 == ways);
            assert_eq!(test.interval(25).is_some(), n >= 4, "three windows an arm carry no 95 % interval");
        }
        // by hand: the ends for four windows an arm are the extreme exchanges, of one window each
        let test = ShiftTest::of_arms(&[1.0, 2.0, 3.0, 5.0], &[11.0, 12.0, 13.0, 17.0]).unwrap();
        assert_eq!(test.interval(25), Some([11.0 - 5.0, 17.0 - 1.0]));
    }

    #[test]
    fn six_pairs_of_one_sign_are_the_fewest_that_can_be_told() {
        for (n, p) in [(5, 0.0625), (6, 0.03125), (7, 0.015625)] {
            let differences: Vec<f64> = (1..=n).map(f64::from).collect();
            let test = ShiftTest::of_pairs(&differences).unwrap();
            assert!((test.two_sided(0.0) - p).abs() < 1e-12, "{n}");
            assert_eq!(test.interval(25).is_some(), n >= 6);
        }
        assert_eq!(ShiftTest::of_pairs(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap().interval(25), Some([1.0, 6.0]));
    }

    #[test]
    fn equal_arms_are_not_told_apart_and_nothing_is_made_of_rounding() {
        let test = ShiftTest::of_arms(&[0.1, 0.2, 0.3, 0.4], &[0.1, 0.2, 0.3, 0.4]).unwrap();
        assert_eq!(test.two_sided(0.0), 1.0);
        let equal = ShiftTest::of_arms(&[0.1 + 0.2; 4], &[0.3; 4]).unwrap();
        assert_eq!(equal.two_sided(0.0), 1.0);
        assert!(ShiftTest::of_arms(&[], &[1.0]).is_none() && ShiftTest::of_arms(&[f64::NAN], &[1.0]).is_none());
        assert!(ShiftTest::of_pairs(&[]).is_none());
    }

    #[test]
    fn beyond_what_can_be_counted_assignments_are_drawn_and_p_is_never_zero() {
        let a: Vec<f64> = (0..12).map(f64::from).collect();
        let b: Vec<f64> = a.iter().map(|v| v + 1000.0).collect();
        let test = ShiftTest::of_arms(&a, &b).unwrap();
        assert!(!test.is_exact());
        assert_eq!(test.assignments(), 20_000);
        assert_eq!(test.two_sided(0.0), 2.0 / 20_000.0);
        assert_eq!(test, ShiftTest::of_arms(&a, &b).unwrap(), "the draws are the same each time");
        let pairs = ShiftTest::of_pairs(&[1.0; 20]).unwrap();
        assert!(!pairs.is_exact() && pairs.two_sided(0.0) <= 0.001);
        // drawn and counted agree: ten windows can be counted, eleven cannot
        let near = |n: i32, by: f64| {
            let a: Vec<f64> = (0..n).map(|i| f64::from(i * i % 7)).collect();
            ShiftTest::of_arms(&a, &a.iter().map(|v| v + by).collect::<Vec<_>>()).unwrap()
        };
        assert!(near(10, 1.0).is_exact() && !near(11, 1.0).is_exact());
        assert!((near(10, 1.0).two_sided(0.0) - near(11, 1.0).two_sided(0.0)).abs() < 0.1);
    }

    #[test]
    fn the_number_of_assignments() {
        let of_arms = [(1, 1, 2), (2, 2, 6), (4, 4, 70), (5, 5, 252), (6, 6, 924), (10, 10, 184_756), (3, 7, 120)];
        for (a, b, ways) in of_arms {
            assert_eq!(assignments_of_arms(a, b), Some(ways));
        }
        assert_eq!((assignments_of_arms(11, 11), assignments_of_arms(5000, 5000)), (None, None));
        assert_eq!((assignments_of_pairs(6), assignments_of_pairs(17)), (Some(64), Some(131_072)));
        assert_eq!((assignments_of_pairs(18), assignments_of_pairs(500)), (None, None));
    }

    proptest! {
        #[test]
        fn it_is_the_test_of_the_textbook(
            a in prop::collection::vec(-100_i32..100, 1..6),
            b in prop::collection::vec(-100_i32..100, 1..6),
            shift in -50_i32..50,
        ) {
            let whole = |v: &[i32]| v.iter().map(|v| f64::from(*v)).collect::<Vec<_>>();
            let (a, b, shift) = (whole(&a), whole(&b), f64::from(shift));
            let test = ShiftTest::of_arms(&a, &b).unwrap();
            let (above, below) = by_hand(&a, &b, shift);
            prop_assert!((test.at_most(shift) - above).abs() < 1e-12, "{} {above}", test.at_most(shift));
            prop_assert!((test.at_least(shift) - below).abs() < 1e-12);
        }

        #[test]
        fn the_interval_holds_what_the_test_does_not_reject(
            a in prop::collection::vec(-100.0_f64..100.0, 4..7),
            b in prop::collection::vec(-100.0_f64..100.0, 4..7),
            shift in -100.0_f64..100.0,
        ) {
            let test = ShiftTest::of_arms(&a, &b).unwrap();
            let [low, high] = test.interval(25).unwrap();
            prop_assume!((shift - low).abs() > 1e-6 && (shift - high).abs() > 1e-6);
            prop_assert_eq!(test.two_sided(shift) > 0.05, low < shift && shift < high);
            let estimate = super::super::hodges_lehmann::shift(&a, &b).unwrap();
            prop_assert!(low <= estimate + 1e-9 && estimate <= high + 1e-9);
            let within = test.interval(50).unwrap();
            prop_assume!((within[0] + 50.0).abs() > 1e-6 && (within[1] - 50.0).abs() > 1e-6);
            prop_assert_eq!(test.outside(50.0) <= 0.05, within[0] > -50.0 && within[1] < 50.0);
        }

        #[test]
        fn neither_order_nor_the_names_of_the_arms_matter(
            mut a in prop::collection::vec(-100.0_f64..100.0, 1..6),
            mut b in prop::collection::vec(-100.0_f64..100.0, 1..6),
        ) {
            let test = ShiftTest::of_arms(&a, &b).unwrap();
            let turned = ShiftTest::of_arms(&b, &a).unwrap();
            prop_assert!((test.at_most(3.0) - turned.at_least(-3.0)).abs() < 1e-12);
            prop_assert!((test.two_sided(0.0) - turned.two_sided(0.0)).abs() < 1e-12);
            a.reverse();
            b.rotate_left(1);
            prop_assert_eq!(test, ShiftTest::of_arms(&a, &b).unwrap());
        }

        #[test]
        fn pairs_are_counted_as_by_hand(d in prop::collection::vec(-100_i32..100, 1..9), shift in -50_i32..50) {
            let d: Vec<f64> = d.iter().map(|v| f64::from(*v)).collect();
            let centred: Vec<f64> = d.iter().map(|v| v - f64::from(shift)).collect();
            let seen: f64 = centred.iter().sum();
            let ways = 1_u32 << d.len();
            let above = (0..ways).filter(|set| {
                let sum: f64 = centred.iter().enumerate().map(|(i, v)| if set >> i & 1 == 1 { -v } else { *v }).sum();
                sum >= seen - 1e-9
            });
            let expected = above.count() as f64 / f64::from(ways);
            let found = ShiftTest::of_pairs(&d).unwrap().at_most(f64::from(shift));
            prop_assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
    }
}
