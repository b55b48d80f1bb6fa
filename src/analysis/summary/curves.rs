//! Percentiles over load, window by window.

use std::collections::BTreeMap;

use crate::analysis::definitions::curve::{COLUMNS, METRICS, Over, PERCENTILES, intervals_overlap, shape, widened};
use crate::analysis::definitions::wording::{self, CurveWords};
use crate::rundir::run_json::{Cell, Curve, Distribution, Window};
use crate::rundir::window::{Load, LoadModel};

/// One load's figure.
struct Point {
    load: f64,
    ms: f64,
    n: u64,
    interval: Option<[f64; 2]>,
}

/// Load points that differ in nothing but the load: what the load is, the cap of an open loop, how its rate
/// changes, and whether it is one of sessions.
type Family = (Over, Option<u32>, Option<String>, bool);

/// The curves of all load points that differ in nothing but the load, two at least.
pub(super) fn of_cells(cells: &[Cell]) -> Vec<Curve> {
    let mut families: BTreeMap<Family, Vec<(f64, &Cell)>> = BTreeMap::new();
    for cell in cells {
        if let Some((family, load)) = place(&cell.load) {
            families.entry(family).or_default().push((load, cell));
        }
    }
    let mut curves = Vec::new();
    for (kind, mut family) in families {
        family.sort_by(|a, b| a.0.total_cmp(&b.0));
        let windows = family.iter().map(|(_, cell)| cell.windows.len()).max().unwrap_or(0);
        for index in 0..windows {
            let at: Vec<(f64, &Window)> =
                family.iter().filter_map(|(load, cell)| Some((*load, cell.windows.get(index)?))).collect();
            curves.extend(of_windows(&kind, index as u32, &at));
        }
    }
    curves
}

/// What a load is a point of: closed loops by concurrency, open ones by rate under the same cap and course. All at once is
/// no rate, and a captured trace has none.
fn place(load: &Load) -> Option<(Family, f64)> {
    let sessions = load.sessions.is_some();
    match load.model {
        LoadModel::Closed => Some(((Over::Concurrency, None, None, sessions), f64::from(load.concurrency?))),
        LoadModel::Open => Some(((Over::Rate, load.concurrency, load.arrivals.clone(), sessions), load.rate?)),
        LoadModel::Trace => None,
    }
}

fn of_windows(kind: &Family, window: u32, at: &[(f64, &Window)]) -> Vec<Curve> {
    let mut curves = Vec::new();
    for metric in METRICS {
        for column in COLUMNS {
            for percentile in PERCENTILES {
                let point = |(load, window): &(f64, &Window)| {
                    let d = column_of(kind.0, window, metric, column)?;
                    let ms = d.percentile(percentile)?;
                    let [lo, hi] = [d.lo_ms, d.hi_ms].map(|ends| ends?.percentile(percentile));
                    let interval = d.ci_ms.get(percentile).map(|ends| widened(*ends, ms, lo, hi));
                    Some(Point { load: *load, ms, n: d.n, interval })
                };
                let points: Vec<Point> = at.iter().filter_map(point).collect();
                if points.len() > 1 {
                    let names = [metric, column, percentile];
                    curves.push(curve(kind, window, names, &points));
                }
            }
        }
    }
    curves
}

fn column_of<'a>(over: Over, window: &'a Window, metric: &str, column: &str) -> Option<&'a Distribution> {
    if column == "due" && over == Over::Concurrency {
        return None;
    }
    window.metrics.columns().into_iter().find(|(m, c, _)| (*m, *c) == (metric, column))?.2
}

fn curve(kind: &Family, window: u32, names: [&str; 3], points: &[Point]) -> Curve {
    let (over, at_most, arrivals, sessions) = kind.clone();
    let loads: Vec<f64> = points.iter().map(|p| p.load).collect();
    let ms: Vec<f64> = points.iter().map(|p| p.ms).collect();
    let intervals: Vec<_> = points.iter().map(|p| p.interval).collect();
    let shape = shape(&ms);
    let overlap = intervals_overlap(shape, &intervals);
    let [metric, column, percentile] = names.map(str::to_string);
    // what a gap's interval wants is requests, and how many gaps there are says nothing of them
    let lacking = points.iter().filter(|p| p.interval.is_none() && metric != "gap").map(|p| p.n).collect();
    let text = wording::curve(&CurveWords {
        name: names.join(" "),
        window: u64::from(window),
        loads: &loads,
        unit: wording::load_unit(over, at_most.map(u64::from), arrivals.as_deref(), sessions),
        ms: &ms,
        shape,
        overlap,
        lacking,
    });
    Curve {
        window,
        over,
        at_most,
        arrivals,
        sessions,
        metric,
        column,
        percentile,
        loads,
        ms,
        shape,
        intervals_overlap: overlap,
        text,
    }
}
