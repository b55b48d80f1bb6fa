//! How far windows of the same load lie from each other: what is smaller than that is no finding.

use maud::{Markup, html};

use super::canvas::{Canvas, Plot};
use super::{Figure, none, place};
use crate::report::axis::{Axis, px, tick};
use crate::report::html::foreign;
use crate::report::overview;
use crate::report::quantity::percent;
use crate::rundir::run_json::{Cell, NoiseGaps, RunJson};

const WIDTH: f64 = 620.0;
const LEFT: f64 = 120.0;
const RIGHT: f64 = 540.0;
const TOP: f64 = 40.0;
const ROW: f64 = 26.0;
/// Loads drawn; more are in the table.
const MOST: usize = 24;
/// Rows of the table.
const MOST_ROWS: usize = 600;

/// Gaps of a metric in the column that has them: gross, else net.
fn gaps(cell: &Cell, metric: &str) -> Option<(&'static str, NoiseGaps)> {
    let columns = cell.noise.get(metric)?;
    ["gross", "due", "net"]
        .into_iter()
        .find_map(|name| Some((name, columns.get(name).copied().filter(|g| g.p50.is_some())?)))
}

/// Both pictures.
pub(in crate::report::html) fn noise(run: &RunJson) -> Markup {
    html! {
        div class="pair" {
            (one(run, "Noise of time to first token between windows", "ttft"))
            (one(run, "Noise of time to last token between windows", "e2e"))
        }
    }
}

fn one(run: &RunJson, title: &str, metric: &str) -> Markup {
    let found: Vec<(String, &'static str, [Option<f64>; 3])> = run
        .cells
        .iter()
        .filter_map(|cell| {
            gaps(cell, metric)
                .map(|(column, g)| (foreign::plain(&overview::short(&cell.load), 60), column, [g.p50, g.p95, g.p99]))
        })
        .collect();
    if found.is_empty() {
        return none(
            title,
            "No load has two windows with figures that may be compared, so nothing is known of the noise: no difference smaller than any other can be ruled out.",
        );
    }
    let drawn = &found[..found.len().min(MOST)];
    let plot = Plot { left: LEFT, right: RIGHT, top: TOP, bottom: TOP + drawn.len() as f64 * ROW };
    let largest = drawn.iter().flat_map(|(.., g)| g.iter().flatten()).fold(0.0_f64, |a, b| a.max(*b)) * 100.0;
    let x = Axis::from_zero(largest.max(1.0), plot.across());
    let mut canvas = Canvas::new(WIDTH, plot.bottom + 44.0);
    canvas.path(
        "g",
        &x.ticks(60.0).iter().map(|v| format!("M{} {}V{}", px(x.px(*v)), px(TOP), px(plot.bottom))).collect::<String>(),
    );
    for (i, (name, ..)) in drawn.iter().enumerate() {
        let y = TOP + (i as f64 + 0.5) * ROW;
        canvas.text(
            LEFT - 10.0,
            y + 4.0,
            "e",
            name.get(..name.char_indices().nth(16).map_or(name.len(), |(at, _)| at)).unwrap_or(name),
        );
        canvas.path("ld", &format!("M{} {}H{}", px(LEFT), px(y), px(RIGHT)));
    }
    let mut key = LEFT;
    for (series, p) in ["p50", "p95", "p99"].iter().enumerate() {
        let marks = drawn
            .iter()
            .enumerate()
            .filter_map(|(i, (.., g))| Some((x.px(g[series]? * 100.0), TOP + (i as f64 + 0.5) * ROW)));
        canvas.marks(series, "", marks);
        canvas.marks(series, "", std::iter::once((key + 6.0, 16.0)));
        canvas.text(key + 16.0, 20.0, &format!("t{series}"), p);
        key += 64.0;
    }
    let labels: Vec<(f64, String)> = x.ticks(60.0).iter().map(|v| (x.px(*v), tick(*v))).collect();
    canvas.x_labels(&plot, &labels, "% of the mean of both");
    let worst = |series: usize| {
        found.iter().filter_map(|(name, _, g)| Some((name, g[series]?))).max_by(|a, b| a.1.total_cmp(&b.1))
    };
    let told: Vec<String> = ["p50", "p95", "p99"]
        .iter()
        .enumerate()
        .filter_map(|(series, p)| worst(series).map(|(name, g)| format!("{p} by up to {} ({name})", percent(Some(g)))))
        .collect();
    let finding = format!(
        "Two windows of the same load, with nothing changed between them, differ in {}. A difference that is smaller is no finding.",
        told.join(", ")
    );
    let table = html! {
        table class="sort" {
            thead { tr { th scope="col" { "load" } th scope="col" { "column" } th scope="col" { "p50" } th scope="col" { "p95" } th scope="col" { "p99" } } }
            tbody {
                @for (i, (name, column, g)) in found.iter().enumerate().take(MOST_ROWS) {
                    tr data-x=[(i < drawn.len()).then(|| place(TOP + (i as f64 + 0.5) * ROW))] {
                        th scope="row" { (foreign::name(name)) } td { (*column) }
                        @for gap in g { td { (percent(*gap)) } }
                    }
                }
            }
        }
        @if found.len() > drawn.len() { p class="note" { "The picture shows the first " (drawn.len()) " loads of " (found.len()) "." } }
    };
    let svg = canvas.finish(title, &finding);
    Figure { title: title.to_owned(), finding, svg, table, rows_lie_along_y: true }.markup()
}
