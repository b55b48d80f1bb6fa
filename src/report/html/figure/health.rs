//! The client over the time of a window, with the limits it is held against.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::canvas::{Canvas, Plot};
use super::{Detail, Figure, none, place};
use crate::analysis::exhibits::{ClientSample, MOST_SLICES, WindowExhibits};
use crate::report::axis::{Axis, px};
use crate::report::quantity::{fraction, percent};
use crate::rundir::run_json::Window;

const WIDTH: f64 = 960.0;
const ABOVE: Plot = Plot { left: 52.0, right: 850.0, top: 32.0, bottom: 132.0 };
const BELOW: Plot = Plot { left: 52.0, right: 850.0, top: 172.0, bottom: 262.0 };
/// Rows of the table, fine and coarse.
const MOST_ROWS: (usize, usize) = (24, 8);
/// Times in the picture.
const MOST_TIMES: (usize, usize) = (MOST_SLICES, 48);

type Figures = [Option<f64>; 4];

/// The worst worker at each time, at most `most` times: CPU, busy, run queue, steal.
fn worst(samples: &[ClientSample], end: f64, most: usize) -> Vec<(f64, Figures)> {
    let mut bins: BTreeMap<u64, (f64, Figures)> = BTreeMap::new();
    for s in samples.iter().filter(|s| s.at_s.is_finite()) {
        let bin = ((s.at_s / end).clamp(0.0, 0.999_999) * most as f64) as u64;
        let (at, figures) = bins.entry(bin).or_insert((s.at_s, [None; 4]));
        *at = at.max(s.at_s);
        for (worst, here) in figures.iter_mut().zip([s.cpu_per_wall, s.busy, s.run_queue, s.steal]) {
            *worst = [*worst, here].into_iter().flatten().reduce(f64::max);
        }
    }
    bins.into_values().collect()
}

/// The picture.
pub(in crate::report::html) fn health(window: &Window, exhibits: &WindowExhibits, detail: Detail) -> Markup {
    let title = "The client in time".to_owned();
    let end = exhibits.duration_s;
    let samples = if end > 0.0 { worst(&exhibits.client, end, detail.of(MOST_TIMES)) } else { Vec::new() };
    if samples.is_empty() {
        return none(&title, "The client was not sampled in this window.");
    }
    let limit = |name: &str| {
        let gates = window.client.gates.iter().filter(|g| g.gate == name);
        gates.filter_map(|g| Some((g.warn?, g.void?))).next()
    };
    let workers = exhibits.client.iter().map(|s| s.worker).max().map_or(1, |w| w + 1);
    let x = Axis::between(0.0, end, ABOVE.across());
    let mut canvas = Canvas::new(WIDTH, BELOW.bottom + 44.0);
    let share = limit("cpu").or(limit("busy"));
    let top = samples.iter().flat_map(|(_, f)| [f[0], f[1]]).flatten().fold(1.0, f64::max);
    let y = Axis::from_zero(top, ABOVE.up());
    canvas.y_axis(&ABOVE, &y, "CPU time and busy time per wall time");
    limits(&mut canvas, &ABOVE, &y, share);
    let path = |y: &Axis, of: usize, per: f64| -> Vec<Option<(f64, f64)>> {
        samples.iter().map(|(at, f)| f[of].map(|v| (x.px(*at).round(), y.px(v * per).round()))).collect()
    };
    let end_of = |series: usize, path: &[Option<(f64, f64)>], words: &str| {
        path.iter().rev().flatten().next().map(|(ex, ey)| (series, "", *ex, *ey, words.to_owned()))
    };
    let (cpu, busy) = (path(&y, 0, 1.0), path(&y, 1, 1.0));
    canvas.line("l l0", &cpu);
    canvas.line("l l1", &busy);
    canvas.ends(&ABOVE, [end_of(0, &cpu, "CPU"), end_of(1, &busy, "busy")].into_iter().flatten().collect());
    canvas.x_labels(&ABOVE, &[], "");
    let waits = limit("run_queue").or(limit("steal")).map(|(warn, void)| (warn * 100.0, void * 100.0));
    let top = samples.iter().flat_map(|(_, f)| [f[2], f[3]]).flatten().fold(0.06, f64::max) * 100.0;
    let y = Axis::from_zero(top, BELOW.up());
    canvas.y_axis(&BELOW, &y, "waiting for a core, % of the time");
    limits(&mut canvas, &BELOW, &y, waits);
    let (queue, steal) = (path(&y, 2, 100.0), path(&y, 3, 100.0));
    canvas.line("l l2", &queue);
    canvas.line("l l3", &steal);
    canvas.ends(&BELOW, [end_of(2, &queue, "run queue"), end_of(3, &steal, "stolen")].into_iter().flatten().collect());
    canvas.seconds(&BELOW, &x, "s from the window's opening");
    let most = |of: usize| samples.iter().filter_map(|(_, f)| f[of]).reduce(f64::max);
    let who = if workers > 1 { format!("The worst of {workers} workers: ") } else { "The worker: ".to_owned() };
    let mut finding = format!(
        "{who}at most {} CPU per wall time, {} busy, {} of the time waiting in the run queue, {} stolen by the hypervisor",
        fraction(most(0)),
        fraction(most(1)),
        percent(most(2)),
        percent(most(3))
    );
    finding.push_str("; thin lines are the limits beyond which a gate flags (dotted) and withholds (solid). A gate judges its own stretch of time (CPU the worst 5 s, the run queue the worst second), so a single sample may stand above a line.");
    let rows = worst(&exhibits.client, end, detail.of(MOST_ROWS));
    let table = html! {
        table {
            thead { tr { th scope="col" { "until" } th scope="col" { "CPU/wall" } th scope="col" { "busy" } th scope="col" { "run queue" } th scope="col" { "stolen" } } }
            tbody {
                @for (at, f) in &rows {
                    tr data-x=(place(x.px(*at))) {
                        th scope="row" { (format!("{at:.2} s")) }
                        td { (fraction(f[0])) } td { (fraction(f[1])) } td { (percent(f[2])) } td { (percent(f[3])) }
                    }
                }
            }
        }
        @if rows.len() < exhibits.client.len() { p class="note" { "Each row is the worst of the samples in its stretch." } }
    };
    let svg = canvas.finish(&title, &finding);
    Figure { title, finding, svg, table, rows_lie_along_y: false }.markup()
}

fn limits(canvas: &mut Canvas, plot: &Plot, y: &Axis, limits: Option<(f64, f64)>) {
    let Some((warn, void)) = limits else { return };
    for (class, at) in [("warn", warn), ("void", void)] {
        if at <= y.to {
            canvas.path(class, &format!("M{} {}H{}", px(plot.left), px(y.px(at)), px(plot.right)));
        }
    }
}
