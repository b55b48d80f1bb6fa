//! A schedule held against what became of it: who was held back, whether the gaps are those of the law asked for.

use bench_engine::schedule::{ArrivalLaw, GapLaw};
use bench_engine::units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::analysis::percentiles;
use crate::analysis::statistics::anderson_darling;
use crate::analysis::statistics::gamma_distribution::below_and_above;

/// A request counts as held back by a cap when its dispatch delay is longer, in ns. Below it, an end and the next due may
/// fall together by chance.
pub const HELD_BACK_NS: i64 = 1_000_000;
/// From this share of the sent requests on, those held back make it another load than the one asked for.
pub const SHAPED: f64 = 0.01;
/// Longer bins of the dispersion index, in ns, for windows of at least [`LONG_BINS`] of them: slow waves show there.
pub const LONG_BIN_NS: u64 = 1_000_000_000;
/// Fewest long bins.
pub const LONG_BINS: u64 = 30;
/// Most gaps of the schedule that are tested.
pub const SCHEDULE_GAPS: usize = 100_000;
/// Most gaps on the wire that are tested. With more, the few us that any send needs would be found every time.
pub const WIRE_GAPS: usize = 500;
/// Fewest gaps from which anything is said.
pub const FEWEST_GAPS: usize = 20;
/// Most requests without a stamp, as a share of the sent ones, with which the wire is tested: a gap over a missing one is
/// two.
pub const UNSTAMPED: f64 = 0.01;
/// Below this probability gaps are taken for those of another law.
pub const LAW_P: f64 = 0.01;

/// Where some times lie.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// Values.
    pub n: u64,
    /// Median.
    pub p50: Option<f64>,
    /// 99th percentile; null below 100 values.
    pub p99: Option<f64>,
    /// Largest.
    pub max: f64,
}

impl Spread {
    /// Of times in ns, in ms; None of nothing. Sorts them.
    pub fn ms(values: &mut [i64]) -> Option<Spread> {
        let f = percentiles::figures(values)?;
        Some(Spread { n: f.n as u64, p50: f.percentiles_ms[0], p99: f.percentiles_ms[3], max: f.max_ms })
    }

    /// The same in us.
    pub fn us(values: &mut [i64]) -> Option<Spread> {
        let us = |ms: f64| ms * 1e3;
        let f = Spread::ms(values)?;
        Some(Spread { n: f.n, p50: f.p50.map(us), p99: f.p99.map(us), max: us(f.max) })
    }
}

/// By how much a gap between two requests is not the planned one, in ns. `moments` are due and what was done, of both.
pub fn gap_error(before: (u64, u64), after: (u64, u64)) -> i64 {
    let gap = |from: u64, to: u64| i128::from(to) - i128::from(from);
    let error = (gap(before.1, after.1) - gap(before.0, after.0)).abs();
    i64::try_from(error).unwrap_or(i64::MAX)
}

/// A test of Anderson and Darling on gaps between arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LawTest {
    /// Gaps tested.
    pub n: u64,
    /// Every so manieth gap is one of them, from the first on; 1: all of them.
    pub every: u64,
    /// The statistic, A squared.
    pub a2: f64,
    /// How often chance makes one as large, if the gaps are of the law.
    pub p: f64,
}

/// The law of the gaps of a drawn schedule, or of every n-th of its arrivals.
///
/// In expected arrivals instead of time each law of the rate becomes one: the gaps are of the gamma distribution with
/// mean 1, and those over n arrivals, being sums of n, of the one with n times the shape and mean n.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GapsOf<'a> {
    law: &'a ArrivalLaw,
    /// Of one gap: 1 is exponential.
    shape: f64,
    arrivals: f64,
}

impl<'a> GapsOf<'a> {
    /// Of a schedule of which every `nth` arrival is sent; None where nothing is drawn.
    pub fn schedule(law: &'a ArrivalLaw, nth: u32) -> Option<GapsOf<'a>> {
        Some(GapsOf { law, shape: gap_shape(law)?, arrivals: f64::from(nth.max(1)) })
    }

    /// Tests the gaps between `times`, ascending, in ns from the opening; at most `most` of them. None with fewer than
    /// [`FEWEST_GAPS`], or where so many gaps of the law are below 1 ns that rounding decides.
    pub fn test(&self, times: &[u64], most: usize) -> Option<LawTest> {
        let (last, gaps) = (*times.last()?, times.len() - 1);
        let per_ns = self.law.mean_arrivals(Nanos::from_ns(last)) / last.max(1) as f64;
        // gaps of 0 ns and 1 ns are one value: what that does to the statistic grows as n times the square of their share
        let shortest = self.place(per_ns)[0];
        let told_apart = (0.1 / (shortest * shortest)).min(most as f64) as usize;
        let every = gaps.div_ceil(told_apart.max(1)).max(1);
        let at = |i: usize| self.law.mean_arrivals(Nanos::from_ns(times[i]));
        let place = |i: usize| self.place((at(i + 1) - at(i)).max(0.5 * per_ns));
        let mut places: Vec<[f64; 2]> = (0..gaps).step_by(every).map(place).collect();
        let n = places.len();
        let found = anderson_darling::test(&mut places).filter(|_| n >= FEWEST_GAPS)?;
        Some(LawTest { n: n as u64, every: every as u64, a2: found.a2, p: found.p })
    }

    fn place(&self, expected: f64) -> [f64; 2] {
        below_and_above(self.shape * self.arrivals, self.shape * expected)
    }
}

/// Mean arrivals/s from the opening until then, of every `nth` arrival; None where all come at once.
pub fn asked_rate(law: &ArrivalLaw, nth: u32, until_ns: u64) -> Option<f64> {
    if *law == ArrivalLaw::AtOnce || until_ns == 0 {
        return None;
    }
    // a constant rate is not to be rounded
    let per_s = law.per_s().unwrap_or_else(|| law.mean_arrivals(Nanos::from_ns(until_ns)) * 1e9 / until_ns as f64);
    Some(per_s / f64::from(nth.max(1)))
}

/// Shape of the gamma distribution of the gaps in expected arrivals; None where nothing is drawn.
fn gap_shape(law: &ArrivalLaw) -> Option<f64> {
    match law.gaps() {
        GapLaw::Exponential => Some(1.0),
        GapLaw::Gamma { shape } => Some(shape),
        GapLaw::AtOnce | GapLaw::Even | GapLaw::Batches => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dues(per_s: f64, shape: f64, seed: u64, n: usize) -> Vec<u64> {
        ArrivalLaw::new(per_s, shape).unwrap().schedule(seed).take(n).map(Nanos::ns).collect()
    }

    /// Tests against the law of that shape at 200/s, of every `nth` arrival.
    fn tested(shape: f64, nth: u32, dues: &[u64], most: usize) -> Option<LawTest> {
        GapsOf::schedule(&ArrivalLaw::new(200.0, shape).unwrap(), nth).unwrap().test(dues, most)
    }

    #[test]
    fn a_schedule_is_of_its_law_and_of_no_other() {
        for shape in [0.5, 1.0, 4.0] {
            let dues = dues(200.0, shape, 7, 2_001);
            let found = tested(shape, 1, &dues, SCHEDULE_GAPS).unwrap();
            assert!((found.n, found.every) == (2_000, 1) && found.p > 0.01, "{shape}: {found:?}");
            let other = tested(shape * 2.0, 1, &dues, SCHEDULE_GAPS).unwrap();
            assert!(other.p < 1e-4, "{shape}: {other:?}");
        }
        let law = ArrivalLaw::new(200.0, f64::INFINITY).unwrap();
        assert_eq!(GapsOf::schedule(&law, 1), None, "nothing is drawn");
    }

    #[test]
    fn every_third_arrival_has_sums_of_three() {
        let dues: Vec<u64> = dues(200.0, 2.0, 7, 6_001).into_iter().skip(1).step_by(3).collect();
        let found = tested(2.0, 3, &dues, SCHEDULE_GAPS).unwrap();
        assert!(found.p > 0.01, "{found:?}");
        assert!(tested(2.0, 1, &dues, SCHEDULE_GAPS).unwrap().p < 1e-4);
        assert_eq!(asked_rate(&ArrivalLaw::new(200.0, 2.0).unwrap(), 4, 10), Some(50.0));
    }

    #[test]
    fn a_thinning_is_fixed() {
        let dues = dues(200.0, 1.0, 7, 2_001);
        let found = tested(1.0, 1, &dues, WIRE_GAPS).unwrap();
        assert_eq!((found.n, found.every), (500, 4));
        let found = tested(1.0, 1, &dues[..1_002], WIRE_GAPS).unwrap();
        assert_eq!((found.n, found.every), (334, 3), "at most, and from the first on");
        assert_eq!(tested(1.0, 1, &dues[..20], WIRE_GAPS), None, "19 gaps");
        assert_eq!(tested(1.0, 1, &[], WIRE_GAPS), None);
    }

    /// Half of the gaps of such a law are shorter than a ns: whole ns cannot tell it from another.
    #[test]
    fn what_rounding_decides_is_not_tested() {
        assert_eq!(tested(0.01, 1, &dues(200.0, 0.01, 7, 2_001), SCHEDULE_GAPS), None);
        // one gap in 300 is: fewer of them are tested
        let found = tested(0.3, 1, &dues(200.0, 0.3, 7, 5_001), SCHEDULE_GAPS).unwrap();
        assert!(found.every > 1 && found.p > 0.01, "{found:?}");
    }

    #[test]
    fn an_error_of_a_gap_has_no_sign() {
        assert_eq!([gap_error((10, 15), (20, 24)), gap_error((10, 15), (20, 26))], [1, 1]);
        assert_eq!(gap_error((u64::MAX, 0), (0, u64::MAX)), i64::MAX);
        let found = Spread::us(&mut [3_000, 1_000, 2_000]).unwrap();
        assert_eq!((found.n, found.p50, found.p99, found.max), (3, Some(2.0), None, 3.0));
        assert_eq!(Spread::ms(&mut []), None);
    }
}
