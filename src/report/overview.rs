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

/// What the times are: a sentence or two under the table.
pub(super) fn clock(run: &RunJson) -> String {
    let open = run.cells.iter().filter(|cell| cell.load.model != LoadModel::Closed).count();
    let gross = match open {
        0 => "gross, from the send; total is to the last token",
        n if n == run.cells.len() => "gross, from due; total is to the last token",
        _ => "gross, in closed loop from the send, else from due; total is to the last token",
    };
    let cells = run.cells.iter().flat_map(|cell| cell.windows.iter().map(|window| (&cell.load, window)));
    let stood_in = cells.flat_map(|(load, window)| columns(load, window)).any(|(_, net)| net);
    let net = if stood_in { "; * net, from the wire, where the client was not fit to tell gross" } else { "" };
    format!("{gross}{net}")
}

fn row(load: &Load, window: &Window) -> [String; 10] {
    let [ttft, total, gap] = columns(load, window).map(|(d, net)| {
        move |name: &str| match (percentile(d, name), net) {
            (text, true) if d.is_some_and(|d| d.percentile(name).is_some()) => format!("{text}*"),
            (text, _) => text,
        }
    });
    [
        short(load),
        window.window.to_string(),
        ttft("p50"),
        ttft("p95"),
        ttft("p99"),
        total("p50"),
        total("p95"),
        total("p99"),
        gap("p99"),
        fraction(window.client.cpu_per_wall),
    ]
}

/// ttft, e2e and the longest gap: gross, or from due in open loop; where the gates withhold that, net, and true.
fn columns<'a>(load: &Load, window: &'a Window) -> [(Option<&'a Distribution>, bool); 3] {
    let m = &window.metrics;
    let open = load.model != LoadModel::Closed;
    let [ttft, total] = [&m.ttft, &m.e2e].map(|m| (if open { &m.due } else { &m.gross }, &m.net));
    [ttft, total, (&m.stall.gross, &m.stall.net)].map(|(gross, net)| {
        let has_figures = |d: &Option<Distribution>| d.as_ref().is_some_and(|d| d.p50_ms.is_some());
        let stands_in = !has_figures(gross) && has_figures(net);
        (if stands_in { net.as_ref() } else { gross.as_ref() }, stands_in)
    })
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
