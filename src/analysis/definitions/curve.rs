//! What a percentile does as the load grows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Metrics whose percentiles are followed over load.
pub const METRICS: [&str; 4] = ["ttft", "gap", "tpot", "e2e"];
/// Their columns; `due` in open loop alone, where it is another thing than gross.
pub const COLUMNS: [&str; 3] = ["gross", "net", "due"];
/// The percentiles.
pub const PERCENTILES: [&str; 3] = ["p50", "p95", "p99"];

/// What the loads of a curve are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// Requests in flight, closed loop.
    Concurrency,
    /// Nominal requests/s, open loop.
    Rate,
}

/// How a curve goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Never down, and up at least once.
    Rising,
    /// Never up, and down at least once.
    Falling,
    /// All the same.
    Flat,
    /// Up and down.
    NonMonotone,
}

/// The shape of a curve, by its figures as they are: whether a step is more than chance is another question.
pub fn shape(ms: &[f64]) -> Shape {
    let steps = || ms.windows(2).map(|pair| pair[1] - pair[0]);
    match (steps().any(|s| s > 0.0), steps().any(|s| s < 0.0)) {
        (true, true) => Shape::NonMonotone,
        (true, false) => Shape::Rising,
        (false, true) => Shape::Falling,
        (false, false) => Shape::Flat,
    }
}

/// Whether a plainer curve fits through the intervals of all points as well: a monotone one where the shape is not
/// monotone, else a level one. None where a point has no interval.
pub fn intervals_overlap(shape: Shape, intervals: &[Option<[f64; 2]>]) -> Option<bool> {
    let ends: Vec<[f64; 2]> = intervals.iter().copied().collect::<Option<_>>()?;
    Some(match shape {
        Shape::NonMonotone => rises_through(ends.iter()) || rises_through(ends.iter().rev()),
        Shape::Rising | Shape::Falling | Shape::Flat => {
            let low = ends.iter().map(|e| e[0]).fold(f64::NEG_INFINITY, f64::max);
            let high = ends.iter().map(|e| e[1]).fold(f64::INFINITY, f64::min);
            low <= high
        }
    })
}

/// The interval of a net percentile, where the stamps bound the figure to `lo`..`hi`, as far as that reaches beyond it:
/// what the sample tells and what the stamps tell are wrong independently of each other, so both come on top.
pub fn widened([from, to]: [f64; 2], at: f64, lo: Option<f64>, hi: Option<f64>) -> [f64; 2] {
    [from - lo.map_or(0.0, |lo| (at - lo).max(0.0)), to + hi.map_or(0.0, |hi| (hi - at).max(0.0))]
}

/// Whether a curve that never falls can pass through all intervals: none ends below where an earlier one begins.
fn rises_through<'a>(mut ends: impl Iterator<Item = &'a [f64; 2]>) -> bool {
    let mut floor = f64::NEG_INFINITY;
    ends.all(|[lo, hi]| {
        floor = floor.max(*lo);
        floor <= *hi
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_curves() {
        // TTFT p50, p95 and total p50 of both windows rise; p99 of the first does not
        for rising in [[202.1, 238.4], [192.0, 234.8], [445.4, 1_245.1], [363.7, 1_174.7], [741.4, 2_241.2]] {
            assert_eq!(shape(&rising), Shape::Rising, "{rising:?}");
        }
        assert_eq!(shape(&[822.3, 631.5, 1_305.6]), Shape::NonMonotone);
        assert_eq!([shape(&[2.0, 1.0, 1.0]), shape(&[1.0, 1.0])], [Shape::Falling, Shape::Flat]);
        // 300 requests give p99 no interval, so nothing can be said of the dip
        assert_eq!(intervals_overlap(Shape::NonMonotone, &[None, None, None]), None);
    }

    #[test]
    fn what_the_stamps_leave_open_is_open() {
        assert_eq!(widened([4.5, 5.5], 5.0, Some(3.0), Some(5.25)), [2.5, 5.75]);
        assert_eq!(widened([4.5, 5.5], 5.0, Some(5.5), None), [4.5, 5.5]);
        let dip = [widened([14.05, 14.07], 14.06, Some(13.0), None), [14.02, 14.03], [54.0, 55.0]];
        assert_eq!(intervals_overlap(Shape::NonMonotone, &dip.map(Some)), Some(true));
    }

    #[test]
    fn a_dip_within_the_intervals_may_be_none() {
        let through = |ends: [[f64; 2]; 3], shape| intervals_overlap(shape, &ends.map(Some));
        let rise = [1_200.0, 1_400.0];
        assert_eq!(through([[700.0, 950.0], [600.0, 720.0], rise], Shape::NonMonotone), Some(true));
        assert_eq!(through([[730.0, 950.0], [600.0, 720.0], rise], Shape::NonMonotone), Some(false));
        // not the neighbours but the first and the last disagree
        assert_eq!(through([[5.0, 6.0], [4.0, 9.0], [1.0, 4.5]], Shape::NonMonotone), Some(true), "falling");
        assert_eq!(through([[5.0, 6.0], [1.0, 2.0], [4.0, 4.5]], Shape::NonMonotone), Some(false));
        assert_eq!(through([[1.0, 3.0], [2.0, 4.0], [3.0, 5.0]], Shape::Rising), Some(true));
        assert_eq!(through([[1.0, 2.9], [2.0, 4.0], [3.0, 5.0]], Shape::Rising), Some(false));
        let one_missing = [Some([1.0, 2.0]), None, Some([1.0, 2.0])];
        assert_eq!(intervals_overlap(Shape::NonMonotone, &one_missing), None);
    }
}
