//! All loads and windows in one table, as the seed's protocol prints them: what bends under load, and what wanders from
//! window to window, is seen here.

use crate::analysis::definitions::wording::nominal;
use crate::arrivals;
use crate::report::quantity::{fraction, latency, percentile, stamps_bound};
use crate::report::sessions;
use crate::rundir::run_json::{Distribution, RunJson, Window};
use crate::rundir::window::{Load, LoadModel};

/// Headings: load and window, then percentiles of time to first token and to the last one, p99 of each request's
/// longest gap, and CPU time of the client per wall time.
pub(super) const COLUMNS: [&str; 10] =
    ["load", "window", "ttft p50", "p95", "p99", "total p50", "p95", "p99", "max gap p99", "CPU/wall"];

/// Widths of the columns in characters, 0 where one has to stay away for the others to fit: p95 first, it stands in
/// each window's own table.
pub(super) fn widths(available: usize, longest_load: usize) -> [usize; 10] {
    let mut widths = [longest_load.max(10) + 1, 7, 10, 10, 10, 11, 10, 10, 12, 9];
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
    let stood_in: Vec<&Window> =
        cells.filter(|(load, window)| columns(load, window).iter().any(|(_, net)| *net)).map(|(_, w)| w).collect();
    let has_gross = |w: &&Window| w.metrics.ttft.gross.as_ref().is_some_and(|gross| gross.p50_ms.is_some());
    let untold = if stood_in.iter().any(|w| !has_gross(w)) { "gross" } else { "due" };
    let net = match stood_in.is_empty() {
        true => String::new(),
        false => format!("; * net, from the wire (< at most), where the client was not fit to tell {untold}"),
    };
    format!("{gross}{net}")
}

fn row(load: &Load, window: &Window) -> [String; 10] {
    let [ttft, total, gap] = columns(load, window).map(|(d, net)| {
        move |name: &str| {
            let marked = d.filter(|_| net).and_then(|net| stood_in(net, name));
            marked.unwrap_or_else(|| percentile(d, name))
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

/// A percentile of net, marked; where the stamps leave it open, the high end, which it is not above. None without one.
pub(super) fn stood_in(net: &Distribution, name: &str) -> Option<String> {
    let at = net.percentile(name)?;
    Some(
        stamps_bound(net, name).map_or_else(|| format!("{}*", latency(at)), |(_, high)| format!("<{}*", latency(high))),
    )
}

/// ttft, e2e and the longest gap: gross, or from due in open loop; where the gates withhold that, net, and true.
pub(super) fn columns<'a>(load: &Load, window: &'a Window) -> [(Option<&'a Distribution>, bool); 3] {
    let m = &window.metrics;
    let open = load.model != LoadModel::Closed;
    let [ttft, total] = [&m.ttft, &m.e2e].map(|m| (if open { &m.due } else { &m.gross }, &m.net));
    [ttft, total, (&m.stall.gross, &m.stall.net)].map(|(gross, net)| {
        let has_figures = |d: &Option<Distribution>| d.as_ref().is_some_and(|d| d.p50_ms.is_some());
        let stands_in = !has_figures(gross) && has_figures(net);
        (if stands_in { net.as_ref() } else { gross.as_ref() }, stands_in)
    })
}

/// `c=50`, `10/s`, `10/s c<=8`, `10.5/s ramp`, `at once`.
pub(super) fn short(load: &Load) -> String {
    let cap = load.concurrency.map(|c| format!("c<={c}"));
    let kind = load.arrivals.as_deref().map(|words| arrivals::kind(words).to_owned());
    if let Some(asked) = &load.sessions {
        let per_s = load.rate.map(|per_s| format!("{} {}/s", nominal(per_s), sessions::noun(asked.kind)));
        let of_them = load.concurrency.map(u64::from).map(|n| format!("{n} {}", sessions::leaders(asked.kind, n)));
        return match load.model {
            LoadModel::Closed => of_them.unwrap_or_else(|| "closed".into()),
            _ => per_s.into_iter().chain(kind).chain(cap).collect::<Vec<_>>().join(" "),
        };
    }
    match (load.model, load.rate, load.concurrency) {
        (LoadModel::Closed, _, Some(c)) => format!("c={c}"),
        (LoadModel::Closed, _, None) => "closed".into(),
        (LoadModel::Trace, Some(rate), _) => {
            [Some(format!("trace {rate:.3}/s")), kind, cap].into_iter().flatten().collect::<Vec<_>>().join(" ")
        }
        (_, Some(per_s), _) => {
            [Some(format!("{}/s", nominal(per_s))), kind, cap].into_iter().flatten().collect::<Vec<_>>().join(" ")
        }
        (LoadModel::Trace, None, _) => "trace".into(),
        (_, None, _) => [Some("at once".to_owned()), kind, cap].into_iter().flatten().collect::<Vec<_>>().join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rundir::run_json::Ends;

    #[test]
    fn a_net_that_the_stamps_leave_open_is_told_by_its_high_end() {
        let mut net = Distribution { n: 300, p50_ms: Some(14.1), p99_ms: Some(20.0), ..Distribution::default() };
        net.lo_ms = Some(Ends { p50: Some(13.0), p99: Some(19.9), ..Ends::default() });
        let told = stood_in;
        assert_eq!((told(&net, "p50").as_deref(), told(&net, "p99").as_deref()), (Some("<14.1 ms*"), Some("20.0 ms*")));
        net.hi_ms = Some(Ends { p50: Some(14.5), ..Ends::default() });
        assert_eq!((told(&net, "p50").as_deref(), told(&net, "p95")), (Some("<14.5 ms*"), None));
    }
}
