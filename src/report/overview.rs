//! All loads and windows in one table, as the seed's protocol prints them: what bends under load, and what wanders from
//! window to window, is seen here.

use crate::report::quantity::{fraction, percentile};
use crate::rundir::run_json::{Distribution, RunJson, Window};
use crate::rundir::window::{Load, LoadModel};

/// Headings: load and window, then percentiles of time to first token and to the last one, p99 of each request's
/// longest gap, and CPU time of the client per wall time.
pub(super) const COLUMNS: [&str; 10] =
    ["load", "window", "ttft p50", "p95", "p99", "total p50", "p95", "p99", "max gap p99", "CPU/wall"];

/// Widths of the columns in characters, 0 where one has to stay away for the others to fit: p95 first, it stands in
/// each window's own table.
pub(super) fn widths(available: usize) -> [usize; 10] {
    let mut widths = [11, 7, 10, 10, 10, 11, 10, 10, 12, 9];
    for out in [3, 6, 9, 8] {
        if widths.iter().sum::<usize>() > available {
            widths[out] = 0;
        }
    }
    widths
}

/// One row a window, load by load.
pub(super) fn rows(run: &RunJson) -> Vec<[String; 10]> {
    let of_cell = |cell: &crate::rundir::run_json::Cell| {
        let load = cell.load.clone();
        cell.windows.iter().map(move |window| row(&load, window)).collect::<Vec<_>>()
    };
    run.cells.iter().flat_map(of_cell).collect()
}

/// What the times are counted from: one sentence under the table.
pub(super) fn clock(run: &RunJson) -> &'static str {
    let open = run.cells.iter().filter(|cell| cell.load.model != LoadModel::Closed).count();
    match open {
        0 => "gross, from the send; total is to the last token",
        n if n == run.cells.len() => "gross, from due; total is to the last token",
        _ => "gross, in closed loop from the send, else from due; total is to the last token",
    }
}

fn row(load: &Load, window: &Window) -> [String; 10] {
    let m = &window.metrics;
    let since = |due: &Option<Distribution>, gross: &Option<Distribution>| match load.model {
        LoadModel::Closed => gross.clone(),
        LoadModel::Open | LoadModel::Trace => due.clone(),
    };
    let (ttft, total) = (since(&m.ttft.due, &m.ttft.gross), since(&m.e2e.due, &m.e2e.gross));
    let of = |d: &Option<Distribution>, name: &str| percentile(d.as_ref(), name);
    [
        short(load),
        window.window.to_string(),
        of(&ttft, "p50"),
        of(&ttft, "p95"),
        of(&ttft, "p99"),
        of(&total, "p50"),
        of(&total, "p95"),
        of(&total, "p99"),
        of(&m.stall.gross, "p99"),
        fraction(window.client.cpu_per_wall),
    ]
}

/// `c=50`, `10/s`, `10/s c<=8`, `at once`.
fn short(load: &Load) -> String {
    let cap = load.concurrency.map(|c| format!("c<={c}"));
    match (load.model, load.rate, load.concurrency) {
        (LoadModel::Closed, _, Some(c)) => format!("c={c}"),
        (LoadModel::Closed, _, None) => "closed".into(),
        (_, Some(rate), _) => [Some(format!("{rate}/s")), cap].into_iter().flatten().collect::<Vec<_>>().join(" "),
        (LoadModel::Trace, None, _) => "trace".into(),
        (_, None, _) => [Some("at once".to_owned()), cap].into_iter().flatten().collect::<Vec<_>>().join(" "),
    }
}
