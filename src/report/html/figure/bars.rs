//! Medians and 95th percentiles by class of work and by state of the connection.

use maud::{Markup, html};

use super::canvas::{Canvas, Plot};
use super::{Detail, Figure, none, place};
use crate::report::axis::{Axis, px, tick};
use crate::report::html::foreign;
use crate::report::intervals::interval;
use crate::report::quantity::{count, latency, percentile, stretch};
use crate::rundir::run_json::{Distribution, Window};

const WIDTH: f64 = 620.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 540.0;
const TOP: f64 = 20.0;
/// A row: a bar of the median, one of p95.
const ROW: f64 = 38.0;
/// Bars drawn; more classes are in the table.
const MOST: usize = 12;

struct Bar<'a> {
    name: String,
    column: Option<&'a Distribution>,
    gross: bool,
}

fn honest<'a>(name: String, gross: Option<&'a Distribution>, net: Option<&'a Distribution>) -> Bar<'a> {
    let given = |d: Option<&Distribution>| d.is_some_and(|d| d.p50_ms.is_some());
    match given(gross) || !given(net) {
        true => Bar { name, column: gross, gross: true },
        false => Bar { name: format!("{name} (net)"), column: net, gross: false },
    }
}

/// Time to first token and, where it is told finely, to the last one by class, time to first token by connection.
pub(in crate::report::html) fn by_class(window: &Window, detail: Detail) -> Markup {
    let m = &window.metrics;
    let of = |gross: &'_ Option<Distribution>| {
        gross.as_ref().map(|d| d.per_class.keys().cloned().collect::<Vec<_>>()).unwrap_or_default()
    };
    let mut classes = of(&m.ttft.gross);
    classes.extend(of(&m.ttft.net));
    classes.sort();
    classes.dedup();
    let class =
        |column: &'_ Option<Distribution>, name: &str| column.as_ref().and_then(|d| d.per_class.get(name).cloned());
    let found: Vec<(String, [Option<Distribution>; 4])> = classes
        .iter()
        .map(|name| {
            (
                foreign::plain(name, 60),
                [
                    class(&m.ttft.gross, name),
                    class(&m.ttft.net, name),
                    class(&m.e2e.gross, name),
                    class(&m.e2e.net, name),
                ],
            )
        })
        .collect();
    let first: Vec<Bar<'_>> = found.iter().map(|(n, d)| honest(n.clone(), d[0].as_ref(), d[1].as_ref())).collect();
    let total: Vec<Bar<'_>> = found.iter().map(|(n, d)| honest(n.clone(), d[2].as_ref(), d[3].as_ref())).collect();
    let c = &window.by_conn;
    let conn: Vec<Bar<'_>> = [("warm", &c.warm), ("cold", &c.cold), ("reopened", &c.reopened)]
        .into_iter()
        .filter(|(_, row)| row.n > 0)
        .map(|(name, row)| honest(name.to_owned(), row.ttft.gross.as_ref(), row.ttft.net.as_ref()))
        .collect();
    html! {
        div class="pair" {
            (bars("Time to first token by class of work", &first))
            @if detail == Detail::Fine { (bars("Time to last token by class of work", &total)) }
            (bars("Time to first token by connection", &conn))
        }
    }
}

fn bars(title: &str, all: &[Bar<'_>]) -> Markup {
    if all.is_empty() {
        return html! {};
    }
    let drawn: Vec<&Bar<'_>> = all.iter().filter(|b| b.column.is_some_and(|d| d.p50_ms.is_some())).take(MOST).collect();
    if drawn.is_empty() {
        return none(title, "Withheld, or no values: nothing may be drawn.");
    }
    let bottom = TOP + drawn.len() as f64 * ROW;
    let plot = Plot { left: LEFT, right: RIGHT, top: TOP, bottom };
    let figures =
        |b: &Bar<'_>| ["p50", "p95"].map(|p| b.column.and_then(|d| Some((d.percentile(p)?, d.ci_ms.get(p).copied()))));
    let largest = drawn
        .iter()
        .flat_map(|b| figures(b))
        .flatten()
        .flat_map(|(ms, ends)| [ms, ends.map_or(0.0, |e| e[1])])
        .fold(0.0, f64::max);
    let x = Axis::from_zero(largest, plot.across());
    let mut canvas = Canvas::new(WIDTH, bottom + 42.0);
    let ticks = x.ticks(60.0);
    canvas
        .path("g", &ticks.iter().map(|v| format!("M{} {}V{}", px(x.px(*v)), px(TOP), px(bottom))).collect::<String>());
    let mut places = Vec::new();
    for (i, bar) in drawn.iter().enumerate() {
        let y = TOP + i as f64 * ROW + 4.0;
        places.push((bar.name.clone(), y + 14.0));
        canvas.text(LEFT - 8.0, y + 18.0, "e", &shortened(&bar.name));
        for (series, found) in figures(bar).into_iter().enumerate() {
            let Some((ms, ends)) = found else { continue };
            let top = y + series as f64 * 14.0;
            canvas.rect(&format!("bar{series}"), LEFT, top, x.px(ms) - LEFT, 12.0);
            let mut after = x.px(ms);
            if let Some([lo, hi]) = ends {
                let (lo, hi, at) = (px(x.px(lo)), px(x.px(hi)), px(top + 6.0));
                canvas.path("w wk", &format!("M{lo} {at}H{hi}M{lo} {}v6M{hi} {}v6", px(top + 3.0), px(top + 3.0)));
                after = after.max(x.px(ends.map_or(0.0, |e| e[1])));
            }
            canvas.text(after + 5.0, top + 10.0, "s", &format!("{} {}", ["p50", "p95"][series], latency(ms)));
        }
    }
    let labels: Vec<(f64, String)> = ticks.iter().map(|v| (x.px(*v), tick(*v))).collect();
    canvas.x_labels(&plot, &labels, "ms");
    // the highest percentile that all of them have
    let all_have = |p: &&&str| drawn.iter().all(|b| b.column.is_some_and(|d| d.percentile(p).is_some()));
    let p = ["p95", "p90"].iter().find(all_have).copied().unwrap_or("p50");
    let tail = |b: &&&Bar<'_>| b.column.and_then(|d| d.percentile(p)).unwrap_or(0.0);
    let slowest = drawn.iter().max_by(|a, b| tail(a).total_cmp(&tail(b)));
    let quickest = drawn.iter().min_by(|a, b| tail(a).total_cmp(&tail(b)));
    let mut finding = match (slowest, quickest) {
        (Some(slow), Some(quick)) if drawn.len() > 1 && tail(&slow) < 1.05 * tail(&quick) => {
            let all = stretch(latency(tail(&quick)), latency(tail(&slow)));
            format!("No difference above 5 % at {p}: {all}.")
        }
        (Some(slow), Some(quick)) if drawn.len() > 1 && tail(&quick) > 0.0 => format!(
            "{} is the slowest: {} at {p}, {:.1} times that of {}.",
            slow.name,
            latency(tail(&slow)),
            tail(&slow) / tail(&quick),
            quick.name
        ),
        (Some(slow), _) => format!("{} alone: {} at {p}.", slow.name, latency(tail(&slow))),
        _ => String::new(),
    };
    if drawn.iter().any(|b| b.gross) {
        finding.push_str(" Gross, from the send.");
    }
    finding.push_str(" Whiskers are 95 % intervals, where n allows one.");
    let table = html! {
        table class="sort" {
            thead { tr { th scope="col" { "" } th scope="col" { "n" } th scope="col" { "p50" } th scope="col" { "95 % interval" } th scope="col" { "p95" } th scope="col" { "95 % interval" } } }
            tbody {
                @for bar in all.iter().take(200) {
                    tr data-x=[places.iter().find(|(name, _)| *name == bar.name).map(|(_, at)| place(*at))] {
                        th scope="row" { (foreign::name(&bar.name)) }
                        td { (bar.column.map_or_else(|| "-".to_owned(), |d| count(d.n))) }
                        @for p in ["p50", "p95"] {
                            td { (percentile(bar.column, p)) }
                            td { (interval(bar.column, p).unwrap_or_else(|| "-".to_owned())) }
                        }
                    }
                }
            }
        }
    };
    let svg = canvas.finish(title, &finding);
    Figure { title: title.to_owned(), finding, svg, table, rows_lie_along_y: true }.markup()
}

/// What fits beside a bar.
fn shortened(name: &str) -> String {
    match name.char_indices().nth(20) {
        Some((at, _)) => format!("{}..", &name[..at]),
        None => name.to_owned(),
    }
}
