//! Whether the client was fit to measure, in a few lines: what is withheld and why, what is near a limit, what is not
//! known, and what the calibration says.

use serde_json::Value;

use crate::analysis::definitions::gates::{self, COLUMNS};
use crate::analysis::definitions::rules::GateState;
use crate::analysis::definitions::wording::{LOOPBACK, calibrated_where, loopback_only};
use crate::report::quantity::{between, count, latency, micros, rate};
use crate::rundir::run_json::{CalibratedNet, Gate, RunJson, Verdict, VerdictKind, Window};
use crate::rundir::window::SessionKind;

/// Reasons that stand in one line of a screen; more are counted.
pub(super) const ON_SCREEN: usize = 2;

/// Whether a verdict only repeats a gate: gates are told together.
pub(super) fn is_of_gate(window: &Window, verdict: &Verdict) -> bool {
    verdict.metric == "*" && window.client.gates.iter().any(|gate| gate.text == verdict.text)
}

/// One line for each set of columns that gates withhold: `gross withheld: ..`. `due` is named where it is shown, and with
/// sessions their time, which goes with it; `most` reasons stand in a line.
pub(super) fn withheld(window: &Window, shows_due: bool, most: usize) -> Vec<String> {
    let shows_due = shows_due || window.sessions.is_some();
    let time = window.sessions.as_ref().map(|found| match found.kind {
        SessionKind::Chat => "session time",
        SessionKind::Chain => "task time",
    });
    let mut found: Vec<(Vec<&str>, Vec<&str>)> = Vec::new();
    // of the width only percentiles are withheld: their cells say so
    for gate in in_state(window, GateState::Void).filter(|g| g.gate != "net_width") {
        let named = |column: &&str| (*column != "due" || shows_due) && gate.voids.iter().any(|c| c == column);
        let mut columns: Vec<&str> = COLUMNS.into_iter().filter(named).collect();
        if let Some(due) = columns.iter().position(|column| *column == "due") {
            time.into_iter().for_each(|time| columns.insert(due + 1, time));
        }
        match found.iter_mut().find(|(known, _)| *known == columns) {
            Some((_, reasons)) => reasons.push(&gate.text),
            None => found.push((columns, vec![&gate.text])),
        }
    }
    found
        .into_iter()
        .map(|(columns, reasons)| format!("{} withheld: {}", columns.join(", "), few(&reasons, most)))
        .collect()
}

/// Percentiles of net that the stamps bound too widely, in one line; how widely stands in the Markdown report.
pub(super) fn too_wide(window: &Window) -> Option<String> {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    for v in &window.verdicts {
        let Some(percentile) = v.percentile.as_deref() else { continue };
        if v.kind != VerdictKind::Withheld || v.column != "net" || v.metric.contains(['/', '@']) {
            continue;
        }
        match found.iter_mut().find(|(metric, _)| *metric == v.metric) {
            Some((_, percentiles)) => percentiles.push(percentile),
            None => found.push((&v.metric, vec![percentile])),
        }
    }
    let list: Vec<String> = found.iter().map(|(metric, p)| format!("{metric} {}", p.join(" "))).collect();
    (!list.is_empty()).then(|| format!("net withheld where the stamps bound it too widely: {}", list.join(", ")))
}

/// What is near its limit, in one line. What the calibration says of the load comes first: beyond its limits nothing
/// else is known to hold.
pub(super) fn flagged(window: &Window, most: usize) -> Option<String> {
    let (first, then): (Vec<&Gate>, Vec<&Gate>) =
        in_state(window, GateState::Warn).partition(|g| gates::Gate::is_of_limit(&g.gate));
    let texts: Vec<&str> = first.into_iter().chain(then).map(|g| g.text.as_str()).collect();
    (!texts.is_empty()).then(|| format!("flagged: {}", few(&texts, most)))
}

/// `12 ok   1 flagged   1 void   2 not known (steal, run_queue)`.
pub(super) fn counts(window: &Window) -> String {
    let of = |state| in_state(window, state).count() as u64;
    let mut parts = vec![format!("{} ok", count(of(GateState::Ok)))];
    for (state, name) in [(GateState::Warn, "flagged"), (GateState::Void, "VOID")] {
        if of(state) > 0 {
            parts.push(format!("{} {name}", count(of(state))));
        }
    }
    let mut unknown: Vec<&str> = in_state(window, GateState::Unknown).map(|g| g.gate.as_str()).collect();
    unknown.dedup();
    if !unknown.is_empty() {
        parts.push(format!("{} not known ({})", count(of(GateState::Unknown)), unknown.join(", ")));
    }
    parts.join("   ")
}

/// `calibrated tare: mean 21.0 us, p50 18.0 us, p99 80.0..120 us between 1,000 and 10,000 events/s ..`.
pub(super) fn calibrated_tare(window: &Window) -> Option<String> {
    let c = window.client.calibrated.as_ref()?;
    let ends = |[lo, hi]: [f64; 2]| if lo == hi { micros(lo) } else { between([lo / 1e3, hi / 1e3]) };
    let known = |us: Option<[f64; 2]>| us.map_or_else(|| "-".into(), ends);
    let here = rate(Some(c.events_per_s));
    let place = match (c.below_events_per_s, c.above_events_per_s) {
        (Some(below), Some(above)) => {
            format!("between {} and {} events/s (this window: {here})", rate(Some(below)), rate(Some(above)))
        }
        (Some(highest), None) => {
            let highest = rate(Some(highest));
            format!("at {highest} events/s, the highest calibrated: this window, at {here}, is beyond it")
        }
        (None, Some(lowest)) if lowest == c.events_per_s => format!("at {here} events/s"),
        (None, lowest) => {
            let lowest = rate(lowest);
            format!("at {lowest} events/s, the lowest calibrated: this window, at {here}, is below it")
        }
    };
    Some(format!(
        "calibrated tare: mean {}, p50 {}, p99 {} {place}, {}",
        ends(c.mean_us),
        known(c.p50_us),
        known(c.p99_us),
        calibrated_where(c.placement.as_deref()),
    ))
}

/// Metrics whose net is known through the calibration only.
pub(super) fn calibrated_net(window: &Window) -> Vec<(&'static str, &CalibratedNet)> {
    let m = &window.metrics;
    let all = [("ttft", &m.ttft), ("ttfo", &m.ttfo), ("e2e", &m.e2e)];
    all.into_iter().filter_map(|(name, columns)| Some((name, columns.calibrated.as_ref()?))).collect()
}

/// `mean 5.01 ms +/- 12.0 us`.
pub(super) fn corrected_mean(net: &CalibratedNet) -> Option<String> {
    Some(format!("mean {} +/- {}", latency(net.mean_ms?), latency(net.mean_error_ms?)))
}

/// Percentiles with their bounds.
pub(super) fn bounded(net: &CalibratedNet) -> [(&'static str, Option<[f64; 2]>); 5] {
    [("p50", net.p50_ms), ("p90", net.p90_ms), ("p95", net.p95_ms), ("p99", net.p99_ms), ("p99.9", net.p999_ms)]
}

/// Which calibration stands behind the run, in one line, and whether that is as it should be.
pub(super) fn calibration(run: &RunJson) -> (String, bool) {
    let text = |key: &str| run.calibration.get(key).and_then(Value::as_str);
    let list = |key: &str| {
        let listed = run.calibration.get(key).and_then(Value::as_array);
        listed.into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join("; ")
    };
    let others = match list("unreadable") {
        none if none.is_empty() => none,
        some => format!("; of others that are kept some cannot be read: {some}"),
    };
    if let Some(why) = text("none") {
        return (format!("no calibration: {why}{others}"), false);
    }
    if !run.calibration.is_object() {
        return (
            "no calibration of this host: the client's share is known from this run's own stamps only".into(),
            false,
        );
    }
    let name = text("id").unwrap_or("without id");
    let made = text("made_at").map_or_else(String::new, |at| format!(" of {at}"));
    if let Some(unusable) = run.verdicts.iter().find(|v| is_of_calibration(&v.kind)) {
        return (format!("calibration {name}{made}: {}{others}", unusable.text), false);
    }
    if run.calibration.get("matches") == Some(&Value::Bool(true)) {
        let placement = text("placement");
        let over_network = !run.labels.iter().any(|label| label == "LOOPBACK");
        let place = match placement {
            Some(LOOPBACK) if over_network => loopback_only().to_string(),
            other => calibrated_where(other),
        };
        return (format!("calibration {name}{made}, {place}{others}"), others.is_empty());
    }
    let differences = list("differences");
    let differences = if differences.is_empty() { "it does not say in what".into() } else { differences };
    (format!("calibration {name}{made} is not of this configuration and was not used: {differences}{others}"), false)
}

/// Whether a verdict on the run is told by the line about its calibration.
pub(super) fn is_of_calibration(kind: &str) -> bool {
    kind == "calibration"
}

fn in_state(window: &Window, state: GateState) -> impl Iterator<Item = &Gate> {
    window.client.gates.iter().filter(move |gate| gate.state == state)
}

fn few(texts: &[&str], most: usize) -> String {
    let shown = texts[..texts.len().min(most)].join("; ");
    match texts.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown}; and {more} more, see report.md"),
    }
}
