//! A series after something happened, against what it was before: when it left its band, how far, and when it was back.
//!
//! The band is one-sided: what 199 of 200 further values of the same kind would keep to, by Student's distribution for
//! one new value, and never closer to the mean than a stated share of it. One value outside says nothing in a long series:
//! an excursion begins with as many in a row as the caller asks for, and ends with the first value inside after which no
//! other begins for a stated number of values.

use std::ops::Range;

/// Fewest independent values that a band is made of.
pub const SMALLEST_N: usize = 10;
/// Quantile .995 of the normal distribution.
const Z: f64 = 2.575_829_303_548_901;

/// Which side is the bad one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worse {
    /// Rates.
    Below,
    /// Latencies.
    Above,
}

/// What values were before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    /// Mean.
    pub mean: f64,
    /// Standard deviation, with n - 1.
    pub sd: f64,
    /// Beyond it a value is outside.
    pub limit: f64,
    worse: Worse,
}

/// Outside, from its first value on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Excursion {
    /// Place of the first value outside.
    pub from: usize,
    /// Place of the first value that is back; None: not seen to be back.
    pub back: Option<usize>,
    /// The value farthest out between the two.
    pub worst: f64,
}

/// What a series did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Course {
    /// Excursions that began in time.
    pub excursions: u64,
    /// The one that lasted longest, the first of those.
    pub longest: Option<Excursion>,
}

/// How an excursion is told from noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Values in a row that make one; at least 1.
    pub in_a_row: usize,
    /// It is over when none begins for so many values.
    pub hold: usize,
    /// It must begin before this place.
    pub before: usize,
}

impl Band {
    /// The band of `values`, in order of time, which are worth `independent` ones (fewer, where neighbours share what they
    /// are made of). None with fewer than [`SMALLEST_N`] of them, or a mean that is not positive.
    pub fn of(values: &[f64], independent: usize, worse: Worse, least_share: f64) -> Option<Band> {
        if independent < SMALLEST_N || values.len() < independent {
            return None;
        }
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        if !(mean > 0.0 && mean.is_finite()) {
            return None;
        }
        let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
        let sd = (squares / (n - 1.0)).sqrt();
        let half = (student(independent - 1) * sd * (1.0 + 1.0 / independent as f64).sqrt()).max(least_share * mean);
        let limit = match worse {
            Worse::Below => mean - half,
            Worse::Above => mean + half,
        };
        Some(Band { mean, sd, limit, worse })
    }

    /// Whether a value can be outside at all: of rates, at least 0 is.
    pub fn can_be_left(&self) -> bool {
        self.worse == Worse::Above || self.limit > 0.0
    }

    /// Whether a value is on the bad side of the limit.
    pub fn is_out(&self, value: f64) -> bool {
        match self.worse {
            Worse::Below => value < self.limit,
            Worse::Above => value > self.limit,
        }
    }

    /// What became of the values afterwards; None: a value that could not be had, which begins no excursion and ends none.
    pub fn follow(&self, values: &[Option<f64>], rule: Rule) -> Course {
        let out = |i: usize| values[i].is_some_and(|v| self.is_out(v));
        let inside = |i: usize| values[i].is_some_and(|v| !self.is_out(v));
        let mut course = Course { excursions: 0, longest: None };
        let mut at = 0;
        while let Some(from) = run(at..rule.before.min(values.len()), values.len(), rule.in_a_row, out) {
            let held = |b: usize| {
                let end = b + rule.hold;
                inside(b) && end <= values.len() && run(b..end, end, rule.in_a_row, |i| !inside(i)).is_none()
            };
            let back = (from + 1..values.len()).find(|b| held(*b));
            let end = back.unwrap_or(values.len());
            let farther = |a: f64, b: f64| if self.worse == Worse::Below { a.min(b) } else { a.max(b) };
            let worst = values[from..end].iter().flatten().copied().reduce(farther).unwrap_or(self.mean);
            let lasted = |e: &Excursion| e.back.map_or(usize::MAX, |back| back - e.from);
            let found = Excursion { from, back, worst };
            course.excursions += 1;
            if course.longest.is_none_or(|longest| lasted(&found) > lasted(&longest)) {
                course.longest = Some(found);
            }
            let Some(back) = back else { break };
            at = back;
        }
        course
    }
}

/// The first place in `starts` from which on so many in a row hold, all of them before `end`.
fn run(starts: Range<usize>, end: usize, in_a_row: usize, holds: impl Fn(usize) -> bool) -> Option<usize> {
    let mut length = 0;
    for i in starts.start..end {
        length = if holds(i) { length + 1 } else { 0 };
        if length == 0 && i >= starts.end {
            return None;
        }
        if length == in_a_row.max(1) {
            let first = i + 1 - length;
            return (first < starts.end).then_some(first);
        }
    }
    None
}

/// Quantile .995 of Student's distribution by the expansion of Cornish and Fisher (Abramowitz and Stegun 26.7.5): from 9
/// degrees of freedom on within 1 %.
fn student(degrees: usize) -> f64 {
    let (v, z) = (degrees as f64, Z);
    let (z3, z5) = (z * z * z, z * z * z * z * z);
    z + (z3 + z) / (4.0 * v) + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * v * v)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RULE: Rule = Rule { in_a_row: 2, hold: 3, before: usize::MAX };

    fn band(worse: Worse) -> Band {
        let before: Vec<f64> = (0..20).map(|i| 100.0 + f64::from(i % 3)).collect();
        Band::of(&before, 20, worse, 0.1).unwrap()
    }

    fn some(values: &[f64]) -> Vec<Option<f64>> {
        values.iter().copied().map(Some).collect()
    }

    #[test]
    fn student_by_the_tables() {
        for (degrees, table) in [(9, 3.2498), (19, 2.8609), (29, 2.7564), (120, 2.6174)] {
            assert!((student(degrees) - table).abs() < 0.01 * table, "{degrees}: {}", student(degrees));
        }
    }

    #[test]
    fn a_band_needs_ten_values_and_is_at_least_so_wide() {
        assert_eq!(Band::of(&[1.0; 9], 9, Worse::Below, 0.1), None);
        assert_eq!(Band::of(&[1.0; 20], 9, Worse::Below, 0.1), None, "twenty that are worth nine");
        assert_eq!(Band::of(&[0.0; 20], 20, Worse::Below, 0.1), None);
        let even = Band::of(&[50.0; 20], 20, Worse::Below, 0.1).unwrap();
        assert_eq!((even.mean, even.sd, even.limit), (50.0, 0.0, 45.0));
        assert!(even.can_be_left() && even.is_out(44.9) && !even.is_out(45.0) && !even.is_out(500.0));
        let wild: Vec<f64> = (0..20).map(|i| f64::from(i % 2) * 10.0).collect();
        assert!(!Band::of(&wild, 20, Worse::Below, 0.1).unwrap().can_be_left(), "no rate is below 0");
        assert!(band(Worse::Above).is_out(112.0) && !band(Worse::Above).is_out(0.0));
    }

    #[test]
    fn a_hole_is_found_to_the_value() {
        let values = some(&[100.0, 0.0, 3.0, 0.0, 400.0, 101.0, 99.0, 100.0]);
        let course = band(Worse::Below).follow(&values, RULE);
        assert_eq!(course.excursions, 1);
        assert_eq!(course.longest, Some(Excursion { from: 1, back: Some(4), worst: 0.0 }));
        // one value is noise, and back for less than the hold is not back
        assert_eq!(band(Worse::Below).follow(&some(&[100.0, 0.0, 100.0, 100.0, 100.0]), RULE).longest, None);
        let flaps = some(&[0.0, 0.0, 100.0, 0.0, 0.0, 100.0, 100.0, 0.0, 100.0]);
        assert_eq!(band(Worse::Below).follow(&flaps, RULE).longest.unwrap().back, Some(5), "one value later is noise");
        let late = some(&[0.0, 0.0, 0.0, 100.0, 100.0]);
        assert_eq!(band(Worse::Below).follow(&late, RULE).longest.unwrap().back, None, "not seen to hold");
    }

    #[test]
    fn the_longest_is_told_and_what_begins_too_late_is_not() {
        let calm = [100.0; 4];
        let values = some(&[&[0.0, 0.0][..], &calm, &[1.0; 5], &calm].concat());
        let course = band(Worse::Below).follow(&values, RULE);
        assert_eq!((course.excursions, course.longest.unwrap().from), (2, 6));
        assert_eq!(course.longest.unwrap().worst, 1.0);
        let course = band(Worse::Below).follow(&values, Rule { before: 6, ..RULE });
        assert_eq!((course.excursions, course.longest.unwrap().from), (1, 0));
        let unknown = [None, None, None, Some(100.0), Some(100.0), Some(100.0)];
        assert_eq!(band(Worse::Above).follow(&unknown, RULE).longest, None, "what is not known begins nothing");
        let unknown = [Some(200.0), Some(200.0), None, None, Some(100.0), Some(100.0), Some(100.0)];
        assert_eq!(band(Worse::Above).follow(&unknown, RULE).longest.unwrap().back, Some(4));
    }

    #[test]
    fn noise_alone_is_seldom_an_excursion() {
        // uniform sums of twelve, seeded: nearly normal
        let mut state = 7_u64;
        let mut normal = || {
            let mut uniform = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 11) as f64 / (1_u64 << 53) as f64
            };
            (0..12).map(|_| uniform()).sum::<f64>() - 6.0
        };
        let mut found = 0;
        for _ in 0..1_000 {
            let before: Vec<f64> = (0..40).map(|_| 50.0 + 7.0 * normal()).collect();
            let after: Vec<Option<f64>> = (0..100).map(|_| Some(50.0 + 7.0 * normal())).collect();
            let band = Band::of(&before, 40, Worse::Below, 0.1).unwrap();
            found += usize::from(band.follow(&after, RULE).longest.is_some());
        }
        // .005 squared, a hundred times: 2.5 in a thousand series, and more where a band came out narrow
        assert!(found <= 15, "{found} of 1,000");
    }

    proptest! {
        #[test]
        fn places_are_in_order(values in proptest::collection::vec(proptest::option::of(0.0..200.0_f64), 0..60),
            in_a_row in 0..4_usize, hold in 0..9_usize, before in 0..70_usize) {
            for worse in [Worse::Below, Worse::Above] {
                let course = band(worse).follow(&values, Rule { in_a_row, hold, before });
                prop_assert_eq!(course.excursions == 0, course.longest.is_none());
                if let Some(e) = course.longest {
                    prop_assert!(e.from < before && e.from < values.len());
                    prop_assert!(e.back.is_none_or(|back| back > e.from && back + hold <= values.len()));
                    prop_assert!(band(worse).is_out(e.worst));
                }
            }
        }
    }
}
