//! Gross, tare and net as curves over the log percentile axis that HdrHistogram's users know.

use maud::{Markup, html};

use super::canvas::{Canvas, Plot, percentile_labels};
use super::{Figure, none, place};
use crate::analysis::exhibits::{Quantiles, Spread, WindowExhibits};
use crate::analysis::percentiles::PUBLISHED;
use crate::report::axis::{Axis, Scale};
use crate::report::quantity::{count, latency, percentile, stamps_bound};
use crate::rundir::run_json::{Distribution, Window};

const WIDTH: f64 = 620.0;
const HEIGHT: f64 = 300.0;
const PLOT: Plot = Plot { left: 52.0, right: 530.0, top: 32.0, bottom: 252.0 };
/// Values that carry the last published percentile, with some room behind it.
const MOST_N: u64 = 2_000;
/// Points nearer than this to the one before are not seen apart, px.
const NEAR: f64 = 3.0;

/// A column: name, colour, class of its toggle.
const COLUMNS: [(&str, usize, &str); 4] = [("gross", 2, "cg"), ("tare", 1, "ct"), ("net", 0, "cn"), ("due", 3, "cd")];

/// Of time to first token and of the gap.
pub(in crate::report::html) fn distributions(window: &Window, exhibits: &WindowExhibits) -> Markup {
    let m = &window.metrics;
    html! {
        div class="pair" {
            (one("Distribution of time to first token", "requests", &exhibits.ttft,
                [m.ttft.gross.as_ref(), m.ttft.tare.as_ref(), m.ttft.net.as_ref(), m.ttft.due.as_ref()]))
            (one(if window.one_token_per_event == Some(true) { "Distribution of gaps" } else { "Distribution of gaps between chunks" },
                "gaps", &exhibits.gap, [m.gap.gross.as_ref(), m.gap.tare.as_ref(), m.gap.net.as_ref(), None]))
        }
    }
}

/// Whether a point may be drawn: only between percentiles that the run publishes.
fn allowed(column: &Distribution, p: f64) -> bool {
    let published = PUBLISHED.map(|known| (f64::from(known.per_mille) / 10.0, column.percentile(known.name).is_some()));
    let below = published.iter().rfind(|(at, _)| *at <= p + 1e-9);
    let above = published.iter().find(|(at, _)| *at >= p - 1e-9);
    match (below, above) {
        (None, Some((_, given))) => *given,
        (Some((_, low)), Some((_, high))) => *low && *high,
        (Some((_, low)), None) => *low,
        (None, None) => false,
    }
}

fn one(title: &str, of: &str, spread: &Spread, columns: [Option<&Distribution>; 4]) -> Markup {
    let curves = [&spread.gross, &spread.tare, &spread.net, &spread.due];
    let drawn: Vec<(usize, &Quantiles, &Distribution)> = (0..4)
        .filter_map(|i| {
            let column = columns[i]?;
            // from due is another thing than gross in open loop alone
            let twice = i == 3
                && columns[0].is_some_and(|gross| {
                    gross.p50_ms == column.p50_ms && gross.p99_ms == column.p99_ms && gross.max_ms == column.max_ms
                });
            (column.p50_ms.is_some() && !twice && !curves[i].points.is_empty()).then_some((i, curves[i], column))
        })
        .collect();
    if drawn.is_empty() {
        let all_withheld = columns.iter().flatten().any(|c| c.n > 0 && c.p50_ms.is_none());
        let why = if all_withheld {
            "Withheld: the client was not fit to tell it, or the stamps bound it too widely."
        } else {
            "No values."
        };
        return none(title, why);
    }
    let n = drawn.iter().map(|(_, q, _)| q.n).max().unwrap_or(0);
    // no percentile above 99.9 is published, so none has a place
    let x = Axis::percentiles(n.min(MOST_N), PLOT.across());
    let points: Vec<(usize, Vec<(f64, f64)>)> = drawn
        .iter()
        .map(|(i, q, column)| {
            (*i, q.points.iter().copied().filter(|(p, ms)| *p < 100.0 && *ms > 0.0 && allowed(column, *p)).collect())
        })
        .collect();
    let largest: Vec<(usize, f64)> =
        drawn.iter().filter_map(|(i, _, c)| Some((*i, c.max_ms.filter(|ms| *ms > 0.0)?))).collect();
    let floor = 1e-4;
    let values =
        points.iter().flat_map(|(_, p)| p.iter().map(|(_, ms)| ms.max(floor))).chain(largest.iter().map(|(_, ms)| *ms));
    let y = Axis::fitting(values, PLOT.up());
    let mut canvas = Canvas::new(WIDTH, HEIGHT);
    canvas.y_axis(&PLOT, &y, if y.scale == Scale::Log { "ms, log scale" } else { "ms" });
    let mut labels = percentile_labels(&x);
    labels.retain(|(at, _)| *at < PLOT.right - 34.0);
    labels.push((PLOT.right, "max".to_owned()));
    canvas.x_labels(&PLOT, &labels, "percentile, spread by its distance from 100");
    let mut ends = Vec::new();
    for (i, points) in &points {
        let (name, colour, class) = COLUMNS[*i];
        let mut path: Vec<Option<(f64, f64)>> = Vec::new();
        for (at, (p, ms)) in points.iter().enumerate() {
            let here = (x.px(*p).round(), y.px(ms.max(floor)).round());
            let near =
                path.last().copied().flatten().is_some_and(|(bx, by)| here.0 - bx < NEAR && (here.1 - by).abs() < NEAR);
            if !near || at + 1 == points.len() {
                path.push(Some(here));
            }
        }
        canvas.line(&format!("l l{colour} {class}"), &path);
        let max = largest.iter().find(|(of, _)| of == i).map(|(_, ms)| y.px(*ms));
        if let Some(at) = max {
            canvas.marks(colour, class, std::iter::once((PLOT.right, at)));
        }
        let last = path.last().copied().flatten();
        let end = max.map(|at| (PLOT.right, at)).or(last);
        ends.extend(end.map(|(ex, ey)| (colour, class, ex, ey, name.to_owned())));
    }
    canvas.ends(&PLOT, ends);
    // the sentence is about gross, else net, else what there is
    let first = [0, 2].iter().find_map(|of| drawn.iter().find(|(i, ..)| i == of));
    let (name, column) = first.or(drawn.first()).map_or(("", None), |(i, _, c)| (COLUMNS[*i].0, Some(*c)));
    let tail = column.and_then(|c| {
        [("p99", "one in a hundred"), ("p95", "one in twenty"), ("p90", "one in ten")]
            .into_iter()
            .find_map(|(p, words)| Some((words, c.percentile(p)?)))
    });
    let mut finding = format!(
        "Half of {} {of} ({name}) took at most {}",
        count(column.map_or(0, |c| c.n)),
        latency(column.and_then(|c| c.p50_ms).unwrap_or_default())
    );
    if let Some((words, ms)) = tail {
        finding.push_str(&format!(", {words} more than {}", latency(ms)));
    }
    finding.push('.');
    if let Some((p, tare)) = columns[1].and_then(|c| Some(("p99", c.p99_ms?)).or(Some(("p50", c.p50_ms?)))) {
        finding.push_str(&format!(" The harness's own share was {} at {p}.", latency(tare)));
    }
    let is_withheld = |c: &Option<&Distribution>| c.is_some_and(|c| c.n > 0 && c.p50_ms.is_none());
    let withheld: Vec<&str> = (0..4).filter(|i| is_withheld(&columns[*i])).map(|i| COLUMNS[i].0).collect();
    if !withheld.is_empty() {
        finding.push_str(&format!(" Withheld and not drawn: {}.", withheld.join(", ")));
    }
    if columns[2].is_some_and(|net| PUBLISHED.iter().any(|p| stamps_bound(net, p.name).is_some())) {
        finding.push_str(" Net is drawn at its upper end where the stamps leave it open; the table has both ends.");
    }
    finding.push_str(" A curve ends at the last percentile that is published, a mark is the largest value.");
    let table = html! {
        table {
            thead { tr { th scope="col" { "percentile" } @for (i, ..) in &drawn { th scope="col" class=(COLUMNS[*i].2) { (COLUMNS[*i].0) } } } }
            tbody {
                @for known in PUBLISHED {
                    tr data-x=(place(x.px(f64::from(known.per_mille) / 10.0))) {
                        th scope="row" { (known.name.replace("p999", "p99.9")) }
                        @for (i, _, column) in &drawn { td class=(COLUMNS[*i].2) { (percentile(Some(column), known.name)) } }
                    }
                }
                tr data-x=(place(PLOT.right)) { th scope="row" { "max" } @for (i, _, column) in &drawn {
                    td class=(COLUMNS[*i].2) { (column.max_ms.map_or_else(|| "withheld".to_owned(), latency)) } } }
            }
        }
    };
    let svg = canvas.finish(title, &finding);
    Figure { title: title.to_owned(), finding, svg, table, rows_lie_along_y: false }.markup()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_goes_only_as_far_as_the_run_publishes_it() {
        let column =
            Distribution { n: 60, p50_ms: Some(1.0), p90_ms: None, p95_ms: Some(3.0), ..Distribution::default() };
        let seen: Vec<bool> = [0.0, 50.0, 70.0, 90.0, 94.0, 95.0, 97.0, 99.95].map(|p| allowed(&column, p)).to_vec();
        assert_eq!(seen, [true, true, false, false, false, true, false, false]);
        let all = Distribution { p90_ms: Some(2.0), p99_ms: Some(4.0), p999_ms: Some(5.0), ..column };
        assert!([0.0, 70.0, 94.0, 97.0, 99.95].iter().all(|p| allowed(&all, *p)));
        assert!(!allowed(&Distribution::default(), 10.0));
    }
}
