//! The 95 % intervals of percentiles, and the percentiles that have none.

use crate::analysis::percentiles::EXACT;
use crate::report::quantity::{between, count, stamps_bound};
use crate::rundir::run_json::Distribution;

/// The interval of a percentile, `40.1..45.0 ms`; None where there is none, and where the stamps bound net so loosely
/// that both its ends are printed: what the sample says of one end would pass for the whole.
pub(super) fn interval(column: Option<&Distribution>, name: &str) -> Option<String> {
    let column = column?;
    let ends = column.ci_ms.get(name)?;
    (column.percentile(name).is_some() && stamps_bound(column, name).is_none()).then(|| between(*ends))
}

/// Names the percentiles of a table that are printed without an interval, since there are too few values: `n too small
/// for an interval, so no claim: p99 of ttft, e2e; p95 p99 of gap`.
pub(super) fn lacking(table: &[(&str, Option<&Distribution>)], shown: &[&str]) -> Option<String> {
    let lacks = |metric: &str, p: &str| {
        let columns = table.iter().filter(|(name, _)| *name == metric).filter_map(|(_, column)| *column);
        let few = |column: &&Distribution| column.buckets.is_none() && !column.ci_ms.contains_key(p);
        columns.into_iter().filter(few).any(|column| column.percentile(p).is_some())
    };
    let mut sets: Vec<(String, Vec<&str>)> = Vec::new();
    for (place, (metric, _)) in table.iter().enumerate() {
        if table[..place].iter().any(|(before, _)| before == metric) {
            continue;
        }
        let missing: Vec<&str> = shown.iter().copied().filter(|p| lacks(metric, p)).collect();
        let missing = missing.join(" ").replace("p999", "p99.9");
        match sets.iter_mut().find(|(known, _)| *known == missing) {
            _ if missing.is_empty() => {}
            Some((_, metrics)) => metrics.push(metric),
            None => sets.push((missing, vec![metric])),
        }
    }
    let sets: Vec<String> =
        sets.iter().map(|(missing, metrics)| format!("{missing} of {}", metrics.join(", "))).collect();
    let few = (!sets.is_empty()).then(|| format!("n too small for an interval, so no claim: {}", sets.join("; ")));
    let told: Vec<String> = few.into_iter().chain(in_buckets(table)).collect();
    (!told.is_empty()).then(|| told.join("; "))
}

/// Names the metrics of which there are so many values that they are counted in buckets, where that leaves no interval.
fn in_buckets(table: &[(&str, Option<&Distribution>)]) -> Option<String> {
    let bare = |column: &Distribution| {
        column.buckets.is_some() && column.ci_ms.is_empty() && column.percentile("p50").is_some()
    };
    let mut metrics: Vec<&str> =
        table.iter().filter(|(_, column)| column.is_some_and(bare)).map(|(metric, _)| *metric).collect();
    metrics.dedup();
    let many = count(EXACT as u64);
    let told = || {
        format!("more than {many} values, counted in buckets without an interval, so no claim: {}", metrics.join(", "))
    };
    (!metrics.is_empty()).then(told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rundir::run_json::Ends;

    fn column(intervals: &[(&str, [f64; 2])]) -> Distribution {
        let ci_ms = intervals.iter().map(|(name, ends)| ((*name).to_string(), *ends)).collect();
        let mut d = Distribution { n: 300, ci_ms, ..Distribution::default() };
        (d.p50_ms, d.p95_ms, d.p99_ms) = (Some(5.0), Some(8.0), Some(9.0));
        d
    }

    #[test]
    fn an_interval_stands_where_one_figure_does() {
        let mut d = column(&[("p50", [4.9, 5.1]), ("p90", [1.0, 2.0])]);
        assert_eq!(interval(Some(&d), "p50").as_deref(), Some("4.90..5.10 ms"));
        assert_eq!((interval(Some(&d), "p99"), interval(None, "p50")), (None, None));
        assert_eq!(interval(Some(&d), "p90"), None, "no figure, no interval");
        d.lo_ms = Some(Ends { p50: Some(4.0), ..Ends::default() });
        assert_eq!(interval(Some(&d), "p50"), None, "4.0..5.0 stands there");
    }

    #[test]
    fn what_has_no_interval_is_named_once() {
        let (most, few) = (column(&[("p50", [4.9, 5.1]), ("p95", [7.0, 9.0])]), column(&[("p50", [4.9, 5.1])]));
        let table =
            [("ttft", Some(&most)), ("ttft", Some(&most)), ("gap", Some(&few)), ("e2e", Some(&most)), ("x", None)];
        let told = lacking(&table, &["p50", "p90", "p95", "p99"]);
        let expected = "n too small for an interval, so no claim: p99 of ttft, e2e; p95 p99 of gap";
        assert_eq!(told.as_deref(), Some(expected));
        assert_eq!(lacking(&table[..2], &["p50"]), None);
        let mut many = column(&[]);
        many.buckets = Some("named".into());
        let told = lacking(&[("gap", Some(&many)), ("gap", Some(&many))], &["p50", "p95"]).unwrap();
        assert!(told.starts_with("more than ") && told.ends_with("so no claim: gap"), "{told}");
    }
}
