//! Percentiles over load: those that turn back, or the word that none does.

use crate::analysis::definitions::curve::{METRICS, Over, PERCENTILES, Shape};
use crate::rundir::run_json::{Curve, RunJson};

/// Curves that go up and down.
pub(super) fn turning<'a>(curves: &[&'a Curve]) -> Vec<&'a Curve> {
    curves.iter().copied().filter(|c| c.shape == Shape::NonMonotone).collect()
}

/// One curve for each window, metric and percentile: of the column that stands for it. That is gross, from due where
/// requests come on a schedule, net where these are withheld.
pub(super) fn headline(run: &RunJson) -> Vec<&Curve> {
    let rank = |c: &Curve| match (c.column.as_str(), c.over) {
        ("due", Over::Rate) => 0,
        ("gross", _) => 1,
        _ => 2,
    };
    let same = |a: &Curve, b: &Curve| {
        let of = |c: &Curve| (c.window, c.over, c.at_most);
        of(a) == of(b) && a.metric == b.metric && a.percentile == b.percentile
    };
    let first = |c: &&Curve| !run.curves.iter().any(|other| same(c, other) && rank(other) < rank(c));
    run.curves.iter().filter(first).collect()
}

/// What is to be said when nothing turns back: `every percentile rises with load: p50, p95, p99 of ttft, gap`. None
/// where there is no curve, or one that turns.
pub(super) fn none_turns(curves: &[&Curve]) -> Option<String> {
    if curves.is_empty() || !turning(curves).is_empty() {
        return None;
    }
    let of = |shape| curves.iter().filter(|c| c.shape == shape).count();
    let does = match (of(Shape::Rising), of(Shape::Falling), of(Shape::Flat)) {
        (rising, ..) if rising == curves.len() => "every percentile rises with load".to_string(),
        (rising, falling, flat) => format!(
            "no percentile turns back as the load grows ({rising} rise, {falling} fall, {flat} stay, of {})",
            curves.len()
        ),
    };
    let named = |all: &[&'static str], of: fn(&Curve) -> &str| {
        all.iter().copied().filter(|name| curves.iter().any(|c| of(c) == *name)).collect::<Vec<_>>().join(", ")
    };
    let (percentiles, metrics) = (named(&PERCENTILES, |c| &c.percentile), named(&METRICS, |c| &c.metric));
    Some(format!("{does}: {percentiles} of {metrics}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(metric: &str, column: &str, ms: &[f64]) -> Curve {
        Curve {
            window: 0,
            arrivals: None,
            sessions: false,
            over: Over::Concurrency,
            at_most: None,
            metric: metric.into(),
            column: column.into(),
            percentile: "p99".into(),
            loads: vec![1.0, 8.0, 50.0],
            ms: ms.to_vec(),
            shape: crate::analysis::definitions::curve::shape(ms),
            intervals_overlap: None,
            text: String::new(),
        }
    }

    #[test]
    fn one_line_when_all_rise() {
        let (ttft, gap) = (curve("ttft", "gross", &[1.0, 2.0, 3.0]), curve("gap", "gross", &[1.0, 2.0, 2.0]));
        assert_eq!(none_turns(&[&gap, &ttft]).as_deref(), Some("every percentile rises with load: p99 of ttft, gap"));
        let falls = curve("tpot", "gross", &[3.0, 2.0, 1.0]);
        let text = none_turns(&[&gap, &falls]).unwrap();
        assert_eq!(text, "no percentile turns back as the load grows (1 rise, 1 fall, 0 stay, of 2): p99 of gap, tpot");
        let turns = curve("e2e", "gross", &[822.3, 631.5, 1_305.6]);
        assert_eq!((none_turns(&[&ttft, &turns]), turning(&[&ttft, &turns]).len()), (None, 1));
        assert_eq!(none_turns(&[]), None);
    }
}
