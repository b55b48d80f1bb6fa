//! Whether a window was steady, in a line and in a table.

use crate::analysis::definitions::steadiness::{Drift, Followed};
use crate::report::quantity::{count, latency};
use crate::rundir::run_json::{SliceTrend, SteadyMetric, Window};

/// `warm-up 0 of 10 dropped needed   drift: too short to tell (2.1 s, needs 120)   effective n ttft 288 of 300`.
pub(super) fn line(window: &Window) -> String {
    let s = &window.steady;
    if s.drift == Drift::Withheld {
        return "not told: gross and net are withheld".into();
    }
    let metrics = [("ttft", &s.ttft), ("e2e", &s.e2e)];
    let metrics: Vec<(&str, &SteadyMetric)> = metrics.into_iter().filter(|(_, m)| m.n > 0).collect();
    let stands_in = metrics.iter().any(|(_, m)| m.column == Some(Followed::Net));
    let mut parts = vec![warm_up(&metrics, window.requests.dropped), drift(&metrics)];
    let of_p95 = |m: &SteadyMetric, name: &str| {
        m.p95_change_points.iter().map(|c| format!("{name} p95 at {:.1} s", c.at_s)).collect::<Vec<_>>()
    };
    let changes = metrics.iter().flat_map(|(name, m)| {
        m.change_points.iter().map(|c| format!("{name} at {:.1} s", c.at_s)).chain(of_p95(m, name)).collect::<Vec<_>>()
    });
    let changes: Vec<String> = changes.collect();
    if !changes.is_empty() {
        parts.push(format!("LEVEL CHANGED: {}", changes.join(", ")));
    }
    let known = |(name, m): &(&str, &SteadyMetric)| Some(format!("{name} {}", effective(m)?));
    let known: Vec<String> = metrics.iter().filter_map(known).collect();
    parts.push(match known.join(", ") {
        none if none.is_empty() => "effective n not known (fewer than 50 requests)".into(),
        known => format!("effective n {known}"),
    });
    if stands_in {
        parts.push("all of net, since gross is withheld".into());
    }
    parts.join("   ")
}

/// Whether it was not as it should be: it drifted, its level changed, or it took longer to settle than was dropped.
pub(super) fn is_remarkable(window: &Window) -> bool {
    let changed = |m: &SteadyMetric| !m.change_points.is_empty() || !m.p95_change_points.is_empty();
    let of = |m: &SteadyMetric| changed(m) || m.warm_up.is_some_and(|w| w.longer_than_dropped);
    window.steady.drift == Drift::Drifting || of(&window.steady.ttft) || of(&window.steady.e2e)
}

fn warm_up(metrics: &[(&str, &SteadyMetric)], dropped: u64) -> String {
    let known = || metrics.iter().filter_map(|(name, m)| Some((*name, m.warm_up?)));
    if let Some((name, w)) = known().find(|(_, w)| w.longer_than_dropped) {
        return format!("warm-up {} requests ({name}), LONGER than the {} dropped", count(w.cut), count(dropped));
    }
    match known().map(|(_, w)| w.cut).max() {
        None => "warm-up not known (fewer than 50 requests)".into(),
        Some(cut) if cut <= dropped => format!("warm-up {} of {} dropped needed", count(cut), count(dropped)),
        Some(_) => format!("warm-up no longer than the {} dropped", count(dropped)),
    }
}

fn drift(metrics: &[(&str, &SteadyMetric)]) -> String {
    let of = |p50: bool| {
        let slope = move |m: &SteadyMetric| if p50 { m.p50 } else { m.p95 };
        let name = if p50 { "p50" } else { "p95" };
        metrics.iter().filter_map(move |(metric, m)| Some((format!("{metric} {name}"), slope(m)?)))
    };
    let all: Vec<(String, SliceTrend)> = of(true).chain(of(false)).collect();
    let words = |(name, t): &(String, SliceTrend)| format!("{name} {}", slope(t));
    let drifting: Vec<String> = all.iter().filter(|(_, t)| t.drift == Drift::Drifting).map(words).collect();
    if !drifting.is_empty() {
        return format!("DRIFTING: {} per 10 min", drifting.join(", "));
    }
    if let Some(reason) = metrics.iter().find_map(|(_, m)| m.reason.as_deref()) {
        return format!("drift: too short to tell ({reason})");
    }
    let medians: Vec<String> = of(true).map(|found| words(&found)).collect();
    match medians.join(", ") {
        none if none.is_empty() => "drift: too short to tell (no request)".into(),
        medians => format!("no drift found ({medians} per 10 min)"),
    }
}

/// `+3.2 %`.
fn slope(t: &SliceTrend) -> String {
    t.share_per_10_min.map_or_else(|| "-".into(), |share| format!("{:+.1} %", share * 100.0))
}

/// `288 of 300`.
fn effective(m: &SteadyMetric) -> Option<String> {
    let a = m.autocorrelation?;
    let at_most = if a.at_most { "at most " } else { "" };
    Some(format!("{at_most}{} of {}", count(a.n_eff.round() as u64), count(m.n)))
}

/// A row of Markdown for each metric that has values, under a heading; empty when gross and net are withheld.
pub(super) fn table(window: &Window) -> String {
    let s = &window.steady;
    if s.drift == Drift::Withheld {
        return String::new();
    }
    let mut text =
        "| steady | n | MSER-5 cut | first third | last third | lag 1 | effective n | slices | p50 per 10 min | p \
                    | p95 per 10 min | p |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"
            .to_string();
    let dash = || "-".to_string();
    for (name, m) in [("ttft", &s.ttft), ("e2e", &s.e2e)] {
        if m.n == 0 {
            continue;
        }
        let third = |ms: Option<f64>| ms.map_or_else(dash, latency);
        let mut cells = vec![
            match m.column {
                Some(Followed::Net) => format!("{name} (net, gross is withheld)"),
                _ => name.to_string(),
            },
            count(m.n),
            m.warm_up.map_or_else(dash, |w| format!("{} of {}", count(w.cut), count(w.n))),
            third(m.thirds.map(|t| t.first_ms)),
            third(m.thirds.map(|t| t.last_ms)),
            m.autocorrelation.map_or_else(dash, |a| format!("{:.2}", a.lag_1)),
            effective(m).unwrap_or_else(dash),
            m.slices.map_or_else(dash, |s| format!("{} of {:.1} s", s.n, s.length_s)),
        ];
        for trend in [m.p50, m.p95] {
            let slope = |t: SliceTrend| {
                let ends = t
                    .share_per_10_min_ci
                    .map_or_else(String::new, |[lo, hi]| format!(" ({:+.1} to {:+.1})", lo * 100.0, hi * 100.0));
                format!("{}{ends}", slope(&t))
            };
            cells.push(trend.map_or_else(dash, slope));
            cells.push(trend.map_or_else(dash, |t| format!("{:.2e}", t.p)));
        }
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text
}
