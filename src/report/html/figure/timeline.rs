//! What happened when, over the time of one window.

use maud::{Markup, html};

use super::canvas::{Canvas, Plot};
use super::{Detail, Figure, none, place};
use crate::analysis::exhibits::{Mark, Slice, WindowExhibits};
use crate::report::axis::{Axis, Scale, px};
use crate::report::html::foreign;
use crate::report::quantity::{count, latency, rate};
use crate::rundir::run_json::{Distribution, Window};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 850.0;
const PANEL: f64 = 92.0;
const STEP: f64 = 132.0;
const TOP: f64 = 36.0;
/// Rows of the table, each over some slices; fine and coarse.
const MOST_ROWS: (usize, usize) = (24, 12);
/// Marks with words; more are only strokes.
const MOST_MARKS: usize = 12;

/// Median and largest of a slice, in the column that may be drawn.
struct Latency {
    name: &'static str,
    p50: fn(&Slice) -> Option<f64>,
    max: fn(&Slice) -> Option<f64>,
}

fn latency_column(window: &Window) -> Option<Latency> {
    let given = |d: &Option<Distribution>| d.as_ref().is_some_and(|d| d.p50_ms.is_some() && d.max_ms.is_some());
    match &window.metrics.ttft {
        m if given(&m.gross) => {
            Some(Latency { name: "gross", p50: |s| s.ttft_gross_p50_ms, max: |s| s.ttft_gross_max_ms })
        }
        m if given(&m.net) => Some(Latency { name: "net", p50: |s| s.ttft_net_p50_ms, max: |s| s.ttft_net_max_ms }),
        _ => None,
    }
}

fn plot(row: usize) -> Plot {
    let top = TOP + row as f64 * STEP;
    Plot { left: LEFT, right: RIGHT, top, bottom: top + PANEL }
}

/// The timeline. `marks` are those of the campaign.
pub(in crate::report::html) fn timeline(
    window: &Window,
    exhibits: &WindowExhibits,
    marks: &[Mark],
    detail: Detail,
) -> Markup {
    let title = "The window in time".to_owned();
    let slices = &exhibits.slices;
    let end = exhibits.duration_s.max(slices.last().map_or(0.0, |s| s.from_s));
    if slices.is_empty() || end <= 0.0 || !end.is_finite() {
        return none(&title, "There is no time to show: the window holds no slices.");
    }
    let x = Axis::between(0.0, end, (LEFT, RIGHT));
    let middle = |s: &Slice| x.px((s.from_s + exhibits.slice_s / 2.0).min(end));
    let shown = latency_column(window);
    let has_tokens = slices.iter().any(|s| s.output_tokens_per_s.is_some());
    let failures = slices.iter().any(|s| s.failed > 0);
    let panels = usize::from(shown.is_some()) + 1 + usize::from(has_tokens);
    let bottom = plot(panels - 1).bottom;
    let mut canvas = Canvas::new(WIDTH, bottom + 44.0);
    if let Some(until) = exhibits.warmup_until_s.filter(|t| *t > 0.0) {
        canvas.rect("warm", LEFT, TOP - 6.0, x.px(until) - LEFT, bottom - TOP + 6.0);
        canvas.text(LEFT + 4.0, bottom + 36.0, "s", "shaded: warm-up, in no latency figure");
    }
    let mut row = 0;
    let path = |y: &Axis, of: &dyn Fn(&Slice) -> Option<f64>| -> Vec<Option<(f64, f64)>> {
        slices.iter().map(|s| of(s).filter(|v| v.is_finite()).map(|v| (middle(s).round(), y.px(v).round()))).collect()
    };
    let end_of = |series: usize, path: &[Option<(f64, f64)>], words: &str| {
        path.iter().rev().flatten().next().map(|(ex, ey)| (series, "", *ex, *ey, words.to_owned()))
    };
    if let Some(column) = &shown {
        let plot = plot(row);
        let values = slices.iter().flat_map(|s| [(column.p50)(s), (column.max)(s)]).flatten();
        let y = Axis::fitting(values, plot.up());
        let log = if y.scale == Scale::Log { ", log scale" } else { "" };
        canvas.y_axis(&plot, &y, &format!("time to first token ({}) by when it was sent, ms{log}", column.name));
        let (most, half) = (path(&y, &column.max), path(&y, &column.p50));
        canvas.line("l l2 thin", &most);
        canvas.line("l l0", &half);
        canvas.ends(&plot, [end_of(2, &most, "largest"), end_of(0, &half, "median")].into_iter().flatten().collect());
        canvas.x_labels(&plot, &[], "");
        row += 1;
    }
    {
        let plot = plot(row);
        let server = exhibits.server.iter().filter(|s| (0.0..=end).contains(&s.at_s));
        let most = slices
            .iter()
            .map(|s| s.in_flight)
            .chain(server.clone().flat_map(|s| [s.running, s.waiting]).flatten())
            .fold(1.0, f64::max);
        let y = Axis::from_zero(most, plot.up());
        let words = if exhibits.server.is_empty() {
            "requests in flight"
        } else {
            "requests in flight; the server's own gauges"
        };
        canvas.y_axis(&plot, &y, words);
        let here = path(&y, &|s| Some(s.in_flight));
        let gauge = |of: fn(&crate::analysis::exhibits::ServerSample) -> Option<f64>| -> Vec<Option<(f64, f64)>> {
            let every = exhibits.server.len().div_ceil(crate::analysis::exhibits::MOST_SLICES).max(1);
            server.clone().step_by(every).map(|s| of(s).map(|v| (x.px(s.at_s), y.px(v)))).collect()
        };
        let (running, waiting) = (gauge(|s| s.running), gauge(|s| s.waiting));
        canvas.line("l l1", &running);
        canvas.line("l l3", &waiting);
        canvas.line("l l0", &here);
        let ends = [
            end_of(0, &here, "in flight"),
            end_of(1, &running, "server: running"),
            end_of(3, &waiting, "server: waiting"),
        ];
        canvas.ends(&plot, ends.into_iter().flatten().collect());
        canvas.x_labels(&plot, &[], "");
        row += 1;
    }
    if has_tokens {
        let plot = plot(row);
        let y = Axis::from_zero(slices.iter().filter_map(|s| s.output_tokens_per_s).fold(0.0, f64::max), plot.up());
        canvas.y_axis(&plot, &y, "output tokens/s");
        let tokens = path(&y, &|s| s.output_tokens_per_s);
        canvas.line("l l0", &tokens);
        canvas.ends(&plot, end_of(0, &tokens, "tokens/s").into_iter().collect());
    }
    let last = plot(panels - 1);
    canvas.seconds(&last, &x, "s from the window's opening");
    let failed: Vec<(f64, f64)> = slices.iter().filter(|s| s.failed > 0).map(|s| (middle(s), TOP - 4.0)).collect();
    if failures {
        let strokes: String = failed.iter().map(|(at, _)| format!("M{} {}V{}", px(*at), px(TOP), px(bottom))).collect();
        canvas.path("fail", &strokes);
        canvas.text(RIGHT + 11.0, TOP - 4.0, "t2", "failures");
        canvas.marks(2, "", failed.into_iter());
    }
    let here: Vec<(f64, &Mark)> =
        marks.iter().map(|m| (m.at_s - exhibits.opened_s, m)).filter(|(at, _)| (0.0..=end).contains(at)).collect();
    for (i, (at, _)) in here.iter().enumerate().take(MOST_MARKS) {
        canvas.path("done", &format!("M{} {}V{}", px(x.px(*at)), px(TOP - 6.0), px(bottom)));
        canvas.text(x.px(*at) + 3.0, TOP + 10.0, "", &(i + 1).to_string());
    }
    let finding = words(window, exhibits, shown.as_ref(), &here);
    let svg = canvas.finish(&title, &finding);
    let table = table(exhibits, shown.as_ref(), &middle, detail.of(MOST_ROWS));
    Figure { title, finding, svg, table, rows_lie_along_y: false }.markup()
}

fn words(window: &Window, exhibits: &WindowExhibits, shown: Option<&Latency>, marks: &[(f64, &Mark)]) -> String {
    let slices = &exhibits.slices;
    let mut text = String::new();
    match shown {
        Some(column) => {
            let medians = || slices.iter().filter_map(|s| (column.p50)(s));
            let (low, high) = (medians().fold(f64::INFINITY, f64::min), medians().fold(0.0, f64::max));
            if low <= high {
                text.push_str(&format!(
                    "From slice to slice ({}) the median time to first token lay between {} and {}",
                    seconds(exhibits.slice_s),
                    latency(low),
                    latency(high)
                ));
            }
            let worst =
                slices.iter().filter_map(|s| Some((s.from_s, (column.max)(s)?))).max_by(|a, b| a.1.total_cmp(&b.1));
            if let Some((at, ms)) = worst {
                text.push_str(&format!("; the largest was {}, sent at about {at:.1} s", latency(ms)));
            }
            text.push('.');
        }
        None => {
            text.push_str("Latency is not drawn: gross and net of time to first token are withheld, or there are none.")
        }
    }
    let most = window.in_flight.max;
    let were = if most == 1 { "request was" } else { "requests were" };
    text.push_str(&format!(" At most {} {were} in flight at once.", count(most)));
    let failed: u64 = slices.iter().map(|s| s.failed).sum();
    if failed > 0 {
        let first = slices.iter().find(|s| s.failed > 0).map_or(0.0, |s| s.from_s);
        text.push_str(&format!(" {} failed, the first at about {first:.1} s.", count(failed)));
    }
    for (i, (at, mark)) in marks.iter().enumerate().take(MOST_MARKS) {
        text.push_str(&format!(" Mark {}, {at:.1} s: {}.", i + 1, foreign::plain(&mark.text, foreign::NAME)));
    }
    if marks.len() > MOST_MARKS {
        text.push_str(&format!(" {} more marks are not drawn.", marks.len() - MOST_MARKS));
    }
    text
}

pub(super) fn seconds(s: f64) -> String {
    if s >= 1.0 { format!("{s:.1} s") } else { format!("{:.0} ms", s * 1e3) }
}

/// Slices taken together, as many as make at most `most` rows.
fn table(exhibits: &WindowExhibits, shown: Option<&Latency>, middle: &dyn Fn(&Slice) -> f64, most: usize) -> Markup {
    let each = exhibits.slices.len().div_ceil(most).max(1);
    let range = |group: &[Slice], of: fn(&Slice) -> Option<f64>| {
        let values = || group.iter().filter_map(of);
        let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
        match () {
            () if low > high => "-".to_owned(),
            () if low == high => latency(low),
            () => crate::report::quantity::between([low, high]),
        }
    };
    let mean = |group: &[Slice], of: fn(&Slice) -> Option<f64>| {
        let known: Vec<f64> = group.iter().filter_map(of).collect();
        rate((!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64))
    };
    let largest = |group: &[Slice], of: fn(&Slice) -> Option<f64>| {
        group.iter().filter_map(of).reduce(f64::max).map_or_else(|| "-".to_owned(), latency)
    };
    let late = exhibits.slices.iter().any(|s| s.lateness_max_ms.is_some());
    html! {
        table {
            thead { tr { th scope="col" { "from" } th scope="col" { "sent" } th scope="col" { "ok" } th scope="col" { "failed" }
                th scope="col" { "in flight, mean" } th scope="col" { "tokens/s" }
                @if let Some(column) = shown { th scope="col" { "ttft " (column.name) ", slices' medians" } th scope="col" { "largest" } }
                @if late { th scope="col" { "latest send" } } } }
            tbody {
                @for group in exhibits.slices.chunks(each) {
                    tr data-x=(place(f64::midpoint(middle(&group[0]), middle(&group[group.len() - 1])))) {
                        th scope="row" { (format!("{:.2} s", group[0].from_s)) }
                        td { (count(group.iter().map(|s| s.sent).sum())) }
                        td { (count(group.iter().map(|s| s.ok).sum())) }
                        td { (count(group.iter().map(|s| s.failed).sum())) }
                        td { (mean(group, |s| Some(s.in_flight))) }
                        td { (mean(group, |s| s.output_tokens_per_s)) }
                        @if let Some(column) = shown { td { (range(group, column.p50)) } td { (largest(group, column.max)) } }
                        @if late { td { (largest(group, |s| s.lateness_max_ms)) } }
                    }
                }
            }
        }
        @if each > 1 { p class="note" { "Each row takes " (each) " slices of " (seconds(exhibits.slice_s)) " together." } }
    }
}
