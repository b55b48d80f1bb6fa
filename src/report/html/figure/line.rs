//! Percentiles and throughput over load: a point a window, a line through the means of the windows of each load.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::canvas::{Canvas, Plot};
use super::{Figure, none, place};
use crate::analysis::definitions::curve::Over;
use crate::analysis::definitions::curve::Shape;
use crate::analysis::definitions::wording::{load_unit, nominal};
use crate::report::axis::{Axis, px};
use crate::report::html::foreign;
use crate::report::overview;
use crate::report::quantity::{latency, percent, percentile, rate, stamps_bound};
use crate::rundir::run_json::{Distribution, RunJson, Window};
use crate::rundir::window::{Load, LoadModel};

/// Kinds of load that are drawn, each by itself; more stay in the table of all windows.
const MOST_KINDS: usize = 3;
/// Percentiles drawn.
const DRAWN: [&str; 3] = ["p50", "p95", "p99"];

/// Loads that lie on one axis.
struct Kind<'a> {
    unit: String,
    over: Over,
    at_most: Option<u32>,
    arrivals: Option<&'a str>,
    /// Of sessions.
    sessions: bool,
    /// Load, and its windows; ascending.
    loads: Vec<(f64, &'a Load, Vec<&'a Window>)>,
}

/// All of them, and what has no place on such an axis.
fn kinds(run: &RunJson) -> (Vec<Kind<'_>>, usize) {
    let mut kinds: Vec<Kind<'_>> = Vec::new();
    let mut without = 0;
    for cell in &run.cells {
        let load = &cell.load;
        let key = match (load.model, load.concurrency, load.rate) {
            (LoadModel::Closed, Some(at_once), _) => (Over::Concurrency, f64::from(at_once), None),
            (LoadModel::Open | LoadModel::Trace, cap, Some(per_s)) => (Over::Rate, per_s, cap),
            _ => {
                without += 1;
                continue;
            }
        };
        let (over, at, at_most) = key;
        let arrivals = load.arrivals.as_deref().filter(|_| over == Over::Rate);
        let sessions = load.sessions.is_some();
        let same = |k: &Kind<'_>| (k.over, k.at_most, k.arrivals, k.sessions) == (over, at_most, arrivals, sessions);
        let place = kinds.iter().position(same).unwrap_or_else(|| {
            let unit = load_unit(over, at_most.map(u64::from), arrivals, sessions);
            kinds.push(Kind { unit, over, at_most, arrivals, sessions, loads: Vec::new() });
            kinds.len() - 1
        });
        let loads = &mut kinds[place].loads;
        match loads.iter_mut().find(|(known, _, _)| *known == at) {
            Some((_, _, windows)) => windows.extend(&cell.windows),
            None => loads.push((at, load, cell.windows.iter().collect())),
        }
    }
    kinds.iter_mut().for_each(|kind| kind.loads.sort_by(|a, b| a.0.total_cmp(&b.0)));
    (kinds, without)
}

/// Every figure over load, and a word about what none shows.
pub(in crate::report::html) fn over_load(run: &RunJson) -> Markup {
    let (kinds, without) = kinds(run);
    html! {
        @for kind in kinds.iter().take(MOST_KINDS) {
            @if kind.loads.len() == 1 {
                p class="note" {
                    "One load only (" (foreign::plain(&kind.unit, foreign::NAME)) "): there are points, and no line over load. "
                    "What bends under load cannot be seen here."
                }
            }
            p class="note" {
                "A mark is one window, with its 95 % interval where it has one; the line joins the means of the windows of a load; "
                "the band reaches from the lowest to the highest end of their intervals."
            }
            div class="pair" {
                (latencies(run, kind, "Time to first token", "ttft", |l, w| overview::columns(l, w)[0]))
                (latencies(run, kind, "Time to first token, net", "ttft", |_, w| (w.metrics.ttft.net.as_ref(), true)))
                (latencies(run, kind, "Time to last token", "e2e", |l, w| overview::columns(l, w)[1]))
                (latencies(run, kind, "Time per token after the first", "tpot", |_, w| either(&w.metrics.tpot.gross, &w.metrics.tpot.net)))
                (latencies(run, kind, "Longest gap of a request", "stall", |l, w| overview::columns(l, w)[2]))
                (throughput(kind))
            }
        }
        @if kinds.len() > MOST_KINDS {
            p class="note" { (kinds.len() - MOST_KINDS) " more kinds of load are in the table of all windows." }
        }
        @if without > 0 {
            p class="note" { (without) " loads have no figure of their own (all at once, or a trace): they are in the table of all windows." }
        }
    }
}

fn either<'a>(gross: &'a Option<Distribution>, net: &'a Option<Distribution>) -> (Option<&'a Distribution>, bool) {
    let has_figures = |d: &Option<Distribution>| d.as_ref().is_some_and(|d| d.p50_ms.is_some());
    let stands_in = !has_figures(gross) && has_figures(net);
    (if stands_in { net.as_ref() } else { gross.as_ref() }, stands_in)
}

type Pick = for<'a> fn(&Load, &'a Window) -> (Option<&'a Distribution>, bool);

/// One window's point of a percentile.
struct Point {
    load: f64,
    x: f64,
    ms: f64,
    ends: Option<[f64; 2]>,
}

const WIDTH: f64 = 620.0;
const HEIGHT: f64 = 330.0;
const PLOT: Plot = Plot { left: 52.0, right: 520.0, top: 32.0, bottom: 282.0 };

fn x_axis(kind: &Kind<'_>) -> Axis {
    let inner = (PLOT.left + 26.0, PLOT.right - 20.0);
    let (first, last) = (kind.loads.first().map_or(1.0, |l| l.0), kind.loads.last().map_or(1.0, |l| l.0));
    Axis::of_loads(first, last, inner)
}

/// Windows of one load lie beside each other, so that both are seen.
fn beside(window: usize, of: usize) -> f64 {
    let step = (12.0 / of as f64).min(6.0);
    (window as f64 - (of as f64 - 1.0) / 2.0) * step
}

fn latencies(run: &RunJson, kind: &Kind<'_>, name: &str, metric: &str, pick: Pick) -> Markup {
    let x = x_axis(kind);
    let net_alone = name.ends_with(", net");
    let (mut all, mut stood_in, mut columns, mut open) = (Vec::new(), 0, 0, 0);
    let mut withheld: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for p in DRAWN {
        let mut points = Vec::new();
        for (at, load, windows) in &kind.loads {
            for (i, window) in windows.iter().enumerate() {
                let (column, net) = pick(load, window);
                let Some(column) = column else { continue };
                columns += usize::from(p == "p50");
                stood_in += usize::from(p == "p50" && net && !net_alone);
                match column.percentile(p) {
                    Some(ms) if ms.is_finite() => {
                        let bound = stamps_bound(column, p).map(|(lo, hi)| [lo, hi]);
                        open += usize::from(bound.is_some());
                        let ends = bound.or(column.ci_ms.get(p).copied());
                        points.push(Point { load: *at, x: x.px(*at) + beside(i, windows.len()), ms, ends });
                    }
                    _ => *withheld.entry((p, percentile(Some(column), p))).or_default() += 1,
                }
            }
        }
        all.push(points);
    }
    let title = format!("{name} over load");
    if all.iter().all(Vec::is_empty) {
        let why = if columns == 0 {
            "Not measured in any window."
        } else {
            "Withheld, or too few values, in every window: there is nothing that may be drawn."
        };
        return none(&title, why);
    }
    let values = all.iter().flatten().flat_map(|p| [Some(p.ms), p.ends.map(|e| e[0]), p.ends.map(|e| e[1])]).flatten();
    let y = Axis::fitting(values, PLOT.up());
    let mut canvas = Canvas::new(WIDTH, HEIGHT);
    canvas.y_axis(
        &PLOT,
        &y,
        if y.from == 0.0 && y.scale == crate::report::axis::Scale::Linear { "ms" } else { "ms, log scale" },
    );
    loads_below(&mut canvas, kind, &x);
    let mut ends = Vec::new();
    for (series, points) in all.iter().enumerate() {
        band(&mut canvas, series, points, kind, &x, &y);
    }
    for (series, points) in all.iter().enumerate() {
        let means = means(points, kind);
        let path: Vec<_> = means.iter().map(|(at, mean)| mean.map(|ms| (x.px(*at), y.px(ms)))).collect();
        if kind.loads.len() > 1 {
            canvas.line(&format!("l l{series}"), &path);
        }
        let whiskers: String = points
            .iter()
            .filter_map(|p| p.ends.map(|[lo, hi]| format!("M{} {}V{}", px(p.x), px(y.px(lo)), px(y.px(hi)))))
            .collect();
        canvas.path(&format!("w w{series}"), &whiskers);
        canvas.marks(series, "", points.iter().map(|p| (p.x, y.px(p.ms))));
        let last = means.iter().rev().find_map(|(at, mean)| mean.map(|ms| (*at, ms)));
        ends.extend(
            last.map(|(at, ms)| (series, "", x.px(at), y.px(ms), format!("{} {}", DRAWN[series], latency(ms)))),
        );
    }
    canvas.ends(&PLOT, ends);
    let found: Vec<String> =
        DRAWN.iter().zip(&all).filter_map(|(p, points)| goes(p, &means(points, kind), kind)).collect();
    let mut finding = format!("{}.", found.join("; "));
    if let Some(text) = wandering(&all, kind) {
        finding.push_str(&text);
    }
    if net_alone {
        finding.push_str(" Server and network, from kernel stamps on the wire.");
    }
    if stood_in > 0 {
        finding.push_str(&format!(
            " In {stood_in} of {columns} windows the client was not fit to tell gross: net stands there."
        ));
    }
    let turning = run.curves.iter().filter(|c| c.metric == metric && c.shape == Shape::NonMonotone);
    let turning = turning.filter(|c| (c.column == "net") == net_alone).count();
    if turning > 0 {
        finding.push_str(&format!(" {turning} of its curves turn back as the load grows: see the sentences below."));
    }
    if open > 0 {
        finding.push_str(" Where the stamps leave net open, the whisker reaches over what they bound.");
    }
    if !withheld.is_empty() {
        let told: Vec<String> = withheld
            .iter()
            .map(|((p, why), windows)| format!("{p} in {windows} of {columns} windows ({why})"))
            .collect();
        finding.push_str(&format!(" Not drawn: {}; why stands in the verdict above.", told.join(", ")));
    }
    let svg = canvas.finish(&title, &finding);
    Figure { title, finding, svg, table: table(kind, &x, pick), rows_lie_along_y: false }.markup()
}

fn loads_below(canvas: &mut Canvas, kind: &Kind<'_>, x: &Axis) {
    let labels: Vec<(f64, String)> = kind.loads.iter().map(|(at, _, _)| (x.px(*at), nominal(*at))).collect();
    let title = foreign::plain(&kind.unit, 60);
    let log = if x.scale == crate::report::axis::Scale::Log { ", log scale" } else { "" };
    canvas.x_labels(
        &PLOT,
        &labels,
        &format!(
            "{}{log}",
            if kind.over == Over::Concurrency && !kind.sessions { "requests at once".to_owned() } else { title }
        ),
    );
}

/// The mean of the windows of each load; None where a load has no point.
fn means(points: &[Point], kind: &Kind<'_>) -> Vec<(f64, Option<f64>)> {
    let mut sums: BTreeMap<u64, (f64, u32)> = BTreeMap::new();
    for p in points {
        let sum = sums.entry(p.load.to_bits()).or_default();
        *sum = (sum.0 + p.ms, sum.1 + 1);
    }
    kind.loads.iter().map(|(at, _, _)| (*at, sums.get(&at.to_bits()).map(|(sum, n)| sum / f64::from(*n)))).collect()
}

/// Between loads at which every point has an interval.
fn band(canvas: &mut Canvas, series: usize, points: &[Point], kind: &Kind<'_>, x: &Axis, y: &Axis) {
    let around = |at: f64| {
        let here = points.iter().filter(|p| p.load == at);
        let ends: Option<Vec<[f64; 2]>> = here.map(|p| p.ends).collect();
        let ends = ends.filter(|ends| !ends.is_empty())?;
        let low = ends.iter().map(|e| e[0]).fold(f64::INFINITY, f64::min);
        Some((low, ends.iter().map(|e| e[1]).fold(0.0, f64::max)))
    };
    let mut d = String::new();
    for pair in kind.loads.windows(2) {
        let (Some((low, high)), Some((next_low, next_high))) = (around(pair[0].0), around(pair[1].0)) else { continue };
        let (left, right) = (px(x.px(pair[0].0)), px(x.px(pair[1].0)));
        let [a, b, c, e] = [low, high, next_high, next_low].map(|ms| px(y.px(ms)));
        d.push_str(&format!("M{left} {a}V{b}L{right} {c}V{e}Z"));
    }
    canvas.path(&format!("b b{series}"), &d);
}

/// `p95 goes from 5.10 ms at 1 to 14.0 ms at 50 (2.7 times)`.
fn goes(p: &str, means: &[(f64, Option<f64>)], kind: &Kind<'_>) -> Option<String> {
    let mut known = means.iter().filter_map(|(at, ms)| ms.map(|ms| (*at, ms)));
    let first = known.next()?;
    let Some(last) = known.next_back() else {
        return Some(format!("{p} is {} at {} {}", latency(first.1), nominal(first.0), foreign::plain(&kind.unit, 60)));
    };
    let change = match last.1 / first.1 {
        times if !times.is_finite() || times <= 0.0 => String::new(),
        times if (0.95..=1.05).contains(&times) => " (nearly the same)".to_owned(),
        times if times >= 2.0 => format!(" ({times:.1} times)"),
        times => format!(" ({:+.0} %)", (times - 1.0) * 100.0),
    };
    let (low, high) = (nominal(first.0), nominal(last.0));
    Some(match (latency(first.1), latency(last.1)) {
        (from, to) if from == to => format!("{p} is {from} at {low} and at {high}"),
        (from, to) => format!("{p} goes from {from} at {low} to {to} at {high}{change}"),
    })
}

/// How far two windows of one load lie from each other.
fn wandering(all: &[Vec<Point>], kind: &Kind<'_>) -> Option<String> {
    let gap = |points: &Vec<Point>| {
        let of_load = |(at, _, _): &(f64, &Load, Vec<&Window>)| {
            let here: Vec<f64> = points.iter().filter(|p| p.load == *at).map(|p| p.ms).collect();
            let low = here.iter().copied().fold(f64::INFINITY, f64::min);
            let high = here.iter().copied().fold(0.0, f64::max);
            (here.len() > 1 && low + high > 0.0).then(|| 2.0 * (high - low) / (high + low))
        };
        kind.loads.iter().filter_map(of_load).fold(None, |most: Option<f64>, g| Some(most.map_or(g, |m| m.max(g))))
    };
    let told: Vec<String> = DRAWN
        .iter()
        .zip(all)
        .filter_map(|(p, points)| Some(format!("{} at {p}", percent(Some(gap(points)?)))))
        .collect();
    (!told.is_empty()).then(|| format!(" Windows of the same load differ by up to {}.", told.join(", ")))
}

fn table(kind: &Kind<'_>, x: &Axis, pick: Pick) -> Markup {
    html! {
        table class="sort" {
            thead { tr { th scope="col" { "load" } th scope="col" { "window" } th scope="col" { "n" }
                @for p in DRAWN { th scope="col" { (p) } th scope="col" { "95 % interval" } } } }
            tbody {
                @for (at, load, windows) in &kind.loads {
                    @for (i, window) in windows.iter().enumerate() {
                        @let (column, net) = pick(load, window);
                        tr data-x=(place(x.px(*at) + beside(i, windows.len()))) {
                            th scope="row" { (foreign::name(&overview::short(load))) @if net { " *" } }
                            td { (window.window) }
                            td { (column.map_or_else(|| "-".to_owned(), |c| crate::report::quantity::count(c.n))) }
                            @for p in DRAWN {
                                td { (percentile(column, p)) }
                                td { (crate::report::intervals::interval(column, p).unwrap_or_else(|| "-".to_owned())) }
                            }
                        }
                    }
                }
            }
        }
        p class="note" { "* net, from the wire." }
    }
}

fn throughput(kind: &Kind<'_>) -> Markup {
    let x = x_axis(kind);
    let title = "Throughput over load".to_owned();
    let tokens = |w: &Window| w.throughput.output_tokens_per_s.or(w.throughput.whole.output_tokens_per_s);
    let requests = |w: &Window| w.throughput.requests_per_s.or(w.throughput.whole.requests_per_s);
    let counted = kind.loads.iter().flat_map(|l| &l.2).any(|w| tokens(w).is_some());
    let of = |w: &Window| if counted { tokens(w) } else { requests(w) };
    let mut points = Vec::new();
    for (at, _, windows) in &kind.loads {
        for (i, window) in windows.iter().enumerate() {
            if let Some(per_s) = of(window).filter(|v| v.is_finite()) {
                points.push(Point { load: *at, x: x.px(*at) + beside(i, windows.len()), ms: per_s, ends: None });
            }
        }
    }
    if points.is_empty() {
        return none(&title, "No window tells how much was done per second.");
    }
    let unit = if counted { "output tokens/s" } else { "requests/s" };
    let y = Axis::from_zero(points.iter().map(|p| p.ms).fold(0.0, f64::max), PLOT.up());
    let mut canvas = Canvas::new(WIDTH, HEIGHT);
    canvas.y_axis(&PLOT, &y, unit);
    loads_below(&mut canvas, kind, &x);
    let means = means(&points, kind);
    if kind.loads.len() > 1 {
        canvas.line("l l0", &means.iter().map(|(at, v)| v.map(|v| (x.px(*at), y.px(v)))).collect::<Vec<_>>());
    }
    canvas.marks(0, "", points.iter().map(|p| (p.x, y.px(p.ms))));
    let last = means.iter().rev().find_map(|(at, v)| v.map(|v| (*at, v)));
    let ends = last.map(|(at, v)| (0, "", x.px(at), y.px(v), format!("{} /s", rate(Some(v)))));
    canvas.ends(&PLOT, ends.into_iter().collect());
    let most = means.iter().filter_map(|(at, v)| v.map(|v| (*at, v))).max_by(|a, b| a.1.total_cmp(&b.1));
    let (at, best) = most.unwrap_or_default();
    let finding = format!(
        "At most {} {unit}, at {} {}. Failed requests' tokens count here and in no latency; a mark is one window, the line joins their means.",
        rate(Some(best)),
        nominal(at),
        foreign::plain(&kind.unit, 60)
    );
    let table = html! {
        table class="sort" {
            thead { tr { th scope="col" { "load" } th scope="col" { "window" } th scope="col" { "requests/s" } th scope="col" { "output tokens/s" } th scope="col" { "total tokens/s" } } }
            tbody {
                @for (at, load, windows) in &kind.loads {
                    @for (i, w) in windows.iter().enumerate() {
                        tr data-x=(place(x.px(*at) + beside(i, windows.len()))) {
                            th scope="row" { (foreign::name(&overview::short(load))) }
                            td { (w.window) }
                            td { (rate(requests(w))) } td { (rate(tokens(w))) }
                            td { (rate(w.throughput.total_tokens_per_s.or(w.throughput.whole.total_tokens_per_s))) }
                        }
                    }
                }
            }
        }
    };
    let svg = canvas.finish(&title, &finding);
    Figure { title, finding, svg, table, rows_lie_along_y: false }.markup()
}
