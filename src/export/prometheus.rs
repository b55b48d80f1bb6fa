//! Prometheus text exposition for the textfile collector of node_exporter: `tarebench.prom`, gauges without timestamps, which that
//! collector refuses. The file is put in place whole, by renaming, as it asks for.
//!
//! The figures are those of `run.json`: a percentile that is null there has no sample, and
//! `tarebench_latency_withheld` is 1 where it is withheld for a reason. `tarebench_window_valid` is 0 where something
//! speaks against a window as a whole; alerts should ask it first. Latencies are s, as Prometheus has it; label values come
//! from servers and are escaped.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::measured::{Campaign, MeasuredWindow};
use super::{Exported, Exporter, marks, published};
use crate::analysis::definitions::rules::GateState;
use crate::rundir::run_json::{Requests, VerdictKind, Window};
use crate::rundir::window::WindowRow;

/// The format.
#[derive(Debug, Default)]
pub struct Format {
    windows: Vec<WindowRow>,
}

impl Exporter for Format {
    fn window(&mut self, _of: &Campaign, window: &MeasuredWindow) -> anyhow::Result<Vec<Exported>> {
        self.windows.push(window.bounds.clone());
        Ok(Vec::new())
    }

    fn finish(&mut self, of: &Campaign) -> anyhow::Result<Vec<Exported>> {
        self.windows.sort_by_key(|bounds| (bounds.cell, bounds.window));
        let mut page = Page::default();
        for bounds in &self.windows {
            if let Some(window) = of.published(bounds) {
                samples(of, bounds, window, &mut page);
            }
        }
        Ok(vec![Exported { name: "tarebench.prom".into(), text: page.text() }])
    }
}

/// A family of samples: its name, and what it says.
type Family = (&'static str, &'static str);

const VALID: Family = ("tarebench_window_valid", "1 when nothing speaks against the window as a whole, else 0");
const INFO: Family = ("tarebench_window_info", "What was asked of the load, as labels; always 1");
const DURATION: Family = ("tarebench_window_duration_seconds", "From the opening of the window to its close");
const REQUESTS: Family = (
    "tarebench_window_requests",
    "Requests by what became of them; those that are not warm-up, but for due and dropped",
);
const FAILED: Family = ("tarebench_window_failed_requests", "Failed requests by class");
const LATENCY: Family = (
    "tarebench_latency_seconds",
    "Percentiles of the ok requests; gross: as seen by the client, net: server and network, tare: the client's own share",
);
const LATENCY_CI: Family = ("tarebench_latency_ci_seconds", "Ends of the 95 % interval of a percentile");
const LATENCY_MEAN: Family = ("tarebench_latency_mean_seconds", "Mean of the ok requests");
const LATENCY_VALUES: Family = ("tarebench_latency_values", "Values behind the percentiles");
const WITHHELD: Family =
    ("tarebench_latency_withheld", "1 for a percentile that run.json withholds; an empty quantile stands for all");
const OFFERED: Family = ("tarebench_offered_requests_per_second", "Planned arrivals; open loop only");
const ACHIEVED: Family = ("tarebench_achieved_requests_per_second", "Requests sent in the same time; open loop only");
const IN_FLIGHT: Family = ("tarebench_in_flight_requests", "Requests in flight over time");
const THROUGHPUT_REQUESTS: Family = ("tarebench_throughput_requests_per_second", "Ok requests that ended");
const THROUGHPUT_OUTPUT: Family = ("tarebench_throughput_output_tokens_per_second", "Output tokens that arrived");
const THROUGHPUT_TOTAL: Family =
    ("tarebench_throughput_total_tokens_per_second", "The same with the prompts that were read");
const TOKENS: Family =
    ("tarebench_window_tokens", "Tokens of the requests that are not warm-up, as the server counted them");
const CLIENT_CPU: Family = (
    "tarebench_client_cpu_seconds_per_wall_second",
    "CPU time of the client, all threads; from .7 on it measures itself",
);
const GATE: Family = (
    "tarebench_client_gate",
    "Whether the client was fit to measure: 0 ok, 1 flagged, 2 figures are withheld, -1 not known",
);
const GATE_FIGURE: Family = ("tarebench_client_gate_figure", "What the gate judges, in the unit of its label");

fn samples(of: &Campaign, bounds: &WindowRow, window: &Window, page: &mut Page) {
    let (cell, number) = (bounds.cell.to_string(), bounds.window.to_string());
    let place = [("run", bounds.run.as_str()), ("cell", &cell), ("window", &number)];
    let mut put = |family: Family, labels: &[(&str, &str)], value: Option<f64>| {
        page.put(family, &[&place, labels].concat(), value);
    };
    put(VALID, &[], Some(f64::from(marks::is_valid(&of.run, bounds.cell, bounds.window))));
    let (concurrency, rate) = (text(bounds.load.concurrency), text(bounds.load.rate));
    let info = [
        ("load", bounds.load.model_name()),
        ("concurrency", concurrency.as_str()),
        ("rate", &rate),
        ("model", of.model()),
        ("labels", &of.run.labels.join(", ")),
        ("plan_hash", of.run.plan_hash.as_deref().unwrap_or_default()),
        ("version", of.run.tarebench.as_deref().unwrap_or_default()),
    ];
    put(INFO, &info, Some(1.0));
    put(DURATION, &[], Some(window.duration_s));
    let Requests { due, not_sent, sent: _, dropped, kept: _, ok, failed, censored, by_error, not_sent_reasons: _ } =
        &window.requests;
    for (outcome, n) in [
        ("due", due),
        ("not_sent", not_sent),
        ("dropped", dropped),
        ("ok", ok),
        ("failed", failed),
        ("censored", censored),
    ] {
        put(REQUESTS, &[("outcome", outcome)], Some(*n as f64));
    }
    for (class, n) in by_error {
        put(FAILED, &[("class", class)], Some(*n as f64));
    }
    let metrics = published::distributions(&window.metrics);
    for (metric, column, distribution) in metrics.into_iter().chain(published::of_sessions(window)) {
        let named = [("metric", metric), ("column", column)];
        for known in published::percentiles(distribution) {
            let labels = [&named[..], &[("quantile", known.quantile)]].concat();
            put(LATENCY, &labels, known.value.map(seconds));
            for (end, at) in known.ci.into_iter().flat_map(|[lo, hi]| [("lower", lo), ("upper", hi)]) {
                put(LATENCY_CI, &[&labels[..], &[("end", end)]].concat(), Some(seconds(at)));
            }
        }
        put(LATENCY_MEAN, &named, distribution.mean_ms.map(seconds));
        put(LATENCY_VALUES, &named, Some(distribution.n as f64));
    }
    let withheld = window.verdicts.iter().filter(|verdict| verdict.kind == VerdictKind::Withheld);
    let quantile = |name: Option<&str>| match name {
        Some("p50") => "0.5",
        Some("p90") => "0.9",
        Some("p95") => "0.95",
        Some("p99") => "0.99",
        Some("p999") => "0.999",
        _ => "",
    };
    for verdict in withheld {
        let quantile = quantile(verdict.percentile.as_deref());
        put(WITHHELD, &[("metric", &verdict.metric), ("column", &verdict.column), ("quantile", quantile)], Some(1.0));
    }
    put(OFFERED, &[], window.offered_rps);
    put(ACHIEVED, &[], window.achieved_rps);
    put(IN_FLIGHT, &[("statistic", "mean")], window.in_flight.mean);
    put(IN_FLIGHT, &[("statistic", "max")], Some(window.in_flight.max as f64));
    let whole = &window.throughput.whole;
    for (span, requests, output, total) in [
        (
            "steady",
            window.throughput.requests_per_s,
            window.throughput.output_tokens_per_s,
            window.throughput.total_tokens_per_s,
        ),
        ("whole", whole.requests_per_s, whole.output_tokens_per_s, whole.total_tokens_per_s),
    ] {
        put(THROUGHPUT_REQUESTS, &[("span", span)], requests);
        put(THROUGHPUT_OUTPUT, &[("span", span)], output);
        put(THROUGHPUT_TOTAL, &[("span", span)], total);
    }
    let tokens = window.tokens;
    for (kind, n) in [
        ("prompt", tokens.prompt),
        ("completion", tokens.completion),
        ("cached", tokens.cached),
        ("reasoning", tokens.reasoning),
    ] {
        put(TOKENS, &[("kind", kind)], n.map(|n| n as f64));
    }
    put(CLIENT_CPU, &[], window.client.cpu_per_wall);
    for gate in &window.client.gates {
        let state = match gate.state {
            GateState::Ok => 0.0,
            GateState::Warn => 1.0,
            GateState::Void => 2.0,
            GateState::Unknown => -1.0,
        };
        let named = [("gate", gate.gate.as_str()), ("scope", &gate.scope)];
        put(GATE, &named, Some(state));
        put(GATE_FIGURE, &[&named[..], &[("unit", &gate.unit)]].concat(), gate.figure);
    }
}

fn seconds(ms: f64) -> f64 {
    ms / 1e3
}

fn text<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// Samples by family: all of one stand together. A sample that would come twice is kept once.
#[derive(Default)]
struct Page {
    order: Vec<Family>,
    samples: BTreeMap<&'static str, Vec<(String, f64)>>,
}

impl Page {
    fn put(&mut self, family: Family, labels: &[(&str, &str)], value: Option<f64>) {
        // NaN would be a sample too: what is not known has none
        let Some(value) = value.filter(|value| value.is_finite()) else { return };
        if !self.samples.contains_key(family.0) {
            self.order.push(family);
        }
        let named = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
        let line = format!("{}{{{}}}", family.0, named.collect::<Vec<_>>().join(","));
        let samples = self.samples.entry(family.0).or_default();
        if !samples.iter().any(|(known, _)| *known == line) {
            samples.push((line, value));
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (name, help) in &self.order {
            let _ = write!(text, "# HELP {name} {}\n# TYPE {name} gauge\n", help.replace('\\', "\\\\"));
            for (line, value) in self.samples.get(name).into_iter().flatten() {
                let _ = writeln!(text, "{line} {value}");
            }
        }
        text
    }
}

/// A label's value in its quotes.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_cannot_leave_their_quotes() {
        let mut page = Page::default();
        let hostile = "a\"} 1\nevil{x=\"\\";
        page.put(INFO, &[("model", hostile)], Some(1.0));
        page.put(INFO, &[("model", hostile)], Some(2.0));
        page.put(DURATION, &[], Some(f64::NAN));
        page.put(DURATION, &[], None);
        let text = page.text();
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(samples, [r#"tarebench_window_info{model="a\"} 1\nevil{x=\"\\"} 1"#]);
        assert!(
            text.starts_with("# HELP tarebench_window_info ") && text.contains("# TYPE tarebench_window_info gauge\n")
        );
    }
}
