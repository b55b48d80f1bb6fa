//! A long window over time: latency, throughput and the client's memory, slice by slice.

use maud::{Markup, html};

use super::canvas::{Canvas, Plot};
use super::{Detail, Figure, none, place};
use crate::report::axis::{Axis, Scale};
use crate::report::soak;
use crate::rundir::run_json::Window;
use crate::rundir::soak::SoakSlice;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 850.0;
const PANEL: f64 = 92.0;
const STEP: f64 = 132.0;
const TOP: f64 = 36.0;
/// Rows of the table, each over some slices; fine and coarse.
const MOST_ROWS: (usize, usize) = (60, 20);

type Value = fn(&SoakSlice) -> Option<f64>;

/// Lines of one panel, each with its series and name.
struct Panel {
    title: String,
    lines: Vec<(usize, &'static str, Value)>,
    from_zero: bool,
}

/// The figure; None of a window without slices.
pub(in crate::report::html) fn over_time(window: &Window, detail: Detail) -> Option<Markup> {
    let soak = window.soak.as_ref()?;
    let title = "The soak over time".to_owned();
    let slices = &soak.slices;
    let end = window.duration_s;
    let panels: Vec<Panel> = panels().into_iter().filter(|panel| panel.is_known(slices)).collect();
    if panels.is_empty() || !(end.is_finite() && end > 0.0) {
        return Some(none(&title, "There is nothing to draw: no slice has a figure."));
    }
    let x = Axis::between(0.0, end, (LEFT, RIGHT));
    let middle = |s: &SoakSlice| x.px((s.from_s + soak.slice_s / 2.0).min(end));
    let plot = |row: usize| {
        let top = TOP + row as f64 * STEP;
        Plot { left: LEFT, right: RIGHT, top, bottom: top + PANEL }
    };
    let bottom = plot(panels.len() - 1).bottom;
    let mut canvas = Canvas::new(WIDTH, bottom + 44.0);
    for (row, panel) in panels.iter().enumerate() {
        let plot = plot(row);
        let values = || slices.iter().flat_map(|s| panel.lines.iter().filter_map(|(_, _, of)| of(s)));
        let y = match panel.from_zero {
            true => Axis::from_zero(values().fold(0.0, f64::max), plot.up()),
            false => Axis::fitting(values(), plot.up()),
        };
        let log = if y.scale == Scale::Log { ", log scale" } else { "" };
        canvas.y_axis(&plot, &y, &format!("{}{log}", panel.title));
        let mut ends = Vec::new();
        for (series, name, of) in &panel.lines {
            let point = |s: &SoakSlice| Some((middle(s).round(), y.px(of(s).filter(|v| v.is_finite())?).round()));
            let path: Vec<Option<(f64, f64)>> = slices.iter().map(point).collect();
            canvas.line(&format!("l l{series}"), &path);
            ends.extend(path.iter().rev().flatten().next().map(|(ex, ey)| (*series, "", *ex, *ey, (*name).to_owned())));
        }
        canvas.ends(&plot, ends);
        if row + 1 < panels.len() {
            canvas.x_labels(&plot, &[], "");
        }
    }
    canvas.seconds(&plot(panels.len() - 1), &x, "s from the window's opening");
    let finding = format!("{}.", soak::line(window).unwrap_or_default().replace("   ", "; "));
    let svg = canvas.finish(&title, &finding);
    let table = table(slices, &middle, detail.of(MOST_ROWS));
    Some(Figure { title, finding, svg, table, rows_lie_along_y: false }.markup())
}

fn panels() -> Vec<Panel> {
    let mb = |s: &SoakSlice| s.client_rss_bytes.map(|bytes| bytes as f64 / 1e6);
    vec![
        Panel {
            title: "time to first token (gross) by when it was sent, ms".to_owned(),
            lines: vec![(0, "p50", |s| s.ttft_gross_p50_ms), (2, "p95", |s| s.ttft_gross_p95_ms)],
            from_zero: false,
        },
        Panel {
            title: "output tokens/s".to_owned(),
            lines: vec![(0, "tokens/s", |s| s.output_tokens_per_s)],
            from_zero: true,
        },
        Panel { title: "memory of the client, MB".to_owned(), lines: vec![(1, "resident", mb)], from_zero: true },
        Panel {
            title: "requests that the server keeps waiting".to_owned(),
            lines: vec![(3, "waiting", |s| s.server_waiting)],
            from_zero: true,
        },
    ]
}

impl Panel {
    fn is_known(&self, slices: &[SoakSlice]) -> bool {
        slices.iter().any(|s| self.lines.iter().any(|(_, _, of)| of(s).is_some()))
    }
}

fn table(slices: &[SoakSlice], middle: &dyn Fn(&SoakSlice) -> f64, most: usize) -> Markup {
    let each = slices.len().div_ceil(most).max(1);
    let heads = [
        "from",
        "sent",
        "ok",
        "failed",
        "ttft gross p50",
        "p95",
        "ttft net p50",
        "p95",
        "tokens/s",
        "client memory",
        "server waiting",
        "KV cache",
    ];
    html! {
        table {
            thead { tr { @for head in heads { th scope="col" { (head) } } } }
            tbody {
                @for group in slices.chunks(each) {
                    tr data-x=(place(f64::midpoint(middle(&group[0]), middle(&group[group.len() - 1])))) {
                        @for (i, cell) in soak::cells(group).into_iter().enumerate() {
                            @if i == 0 { th scope="row" { (cell) } } @else { td { (cell) } }
                        }
                    }
                }
            }
        }
        @if each > 1 { p class="note" { "Each row takes " (each) " slices together." } }
    }
}
