//! The figures of a window as `run.json` has them, one name after another, for formats that list figures rather than requests.

use serde_json::Value;

use crate::rundir::run_json::{Distribution, Ends, Metrics, Window};

/// Every distribution of a window: metric, column (`value` where a metric is one distribution).
pub fn distributions(metrics: &Metrics) -> Vec<(&'static str, &'static str, &Distribution)> {
    let mut found: Vec<(&'static str, &'static str, Option<&Distribution>)> = Vec::new();
    for (metric, of) in [("ttft", &metrics.ttft), ("ttfo", &metrics.ttfo), ("e2e", &metrics.e2e)] {
        found.push((metric, "gross", of.gross.as_ref()));
        found.push((metric, "tare", of.tare.as_ref()));
        found.push((metric, "net", of.net.as_ref()));
        found.push((metric, "due", of.due.as_ref()));
    }
    for (metric, of) in [
        ("gap", &metrics.gap),
        ("stall", &metrics.stall),
        ("tpot", &metrics.tpot),
        ("tpot_adj", &metrics.tpot_adj),
        ("ntpot", &metrics.ntpot),
    ] {
        found.push((metric, "gross", of.gross.as_ref()));
        found.push((metric, "tare", of.tare.as_ref()));
        found.push((metric, "net", of.net.as_ref()));
    }
    found.push(("upload", "value", metrics.upload.as_ref()));
    found.push(("lateness", "value", metrics.lateness.as_ref()));
    found.push(("dispatch_delay", "value", metrics.dispatch_delay.as_ref()));
    found.push(("connect", "dns", metrics.connect.dns.as_ref()));
    found.push(("connect", "tcp", metrics.connect.tcp.as_ref()));
    found.push(("connect", "tls", metrics.connect.tls.as_ref()));
    found.into_iter().filter_map(|(metric, column, of)| Some((metric, column, of?))).collect()
}

/// The same of its sessions; turn by turn they stand in `run.json` alone.
pub fn of_sessions(window: &Window) -> Vec<(&'static str, &'static str, &Distribution)> {
    let Some(found) = &window.sessions else { return Vec::new() };
    let all = [
        ("session", "value", found.duration.as_ref()),
        ("waited", "gross", found.waited.gross.as_ref()),
        ("waited", "tare", found.waited.tare.as_ref()),
        ("waited", "net", found.waited.net.as_ref()),
        ("waited", "due", found.waited.due.as_ref()),
        ("turnaround", "value", found.turnaround.as_ref()),
    ];
    all.into_iter().filter_map(|(metric, column, of)| Some((metric, column, of?))).collect()
}

/// A percentile with all that is known of it, in ms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Known {
    /// `p50` to `p999`.
    pub name: &'static str,
    /// 0.5 to 0.999.
    pub quantile: &'static str,
    /// Null where it is withheld, or n is too small.
    pub value: Option<f64>,
    /// 95 % interval.
    pub ci: Option<[f64; 2]>,
    /// Percentile of net's low ends.
    pub lo: Option<f64>,
    /// Of its high ends.
    pub hi: Option<f64>,
}

/// The published percentiles of a distribution, those that are null included.
pub fn percentiles(of: &Distribution) -> [Known; 5] {
    let end = |ends: Option<Ends>, pick: fn(Ends) -> Option<f64>| ends.and_then(pick);
    let known = |name: &'static str, quantile: &'static str, value: Option<f64>, pick: fn(Ends) -> Option<f64>| Known {
        name,
        quantile,
        value,
        ci: of.ci_ms.get(name).copied(),
        lo: end(of.lo_ms, pick),
        hi: end(of.hi_ms, pick),
    };
    [
        known("p50", "0.5", of.p50_ms, |ends| ends.p50),
        known("p90", "0.9", of.p90_ms, |ends| ends.p90),
        known("p95", "0.95", of.p95_ms, |ends| ends.p95),
        known("p99", "0.99", of.p99_ms, |ends| ends.p99),
        known("p999", "0.999", of.p999_ms, |ends| ends.p999),
    ]
}

/// A figure of a window that is no distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// `requests`, `throughput`, `in_flight`, ..
    pub metric: String,
    /// `ok`, `output_tokens_per_s`, ..; dots between the levels of `run.json`.
    pub name: String,
    /// Never a text.
    pub value: Option<f64>,
}

/// Parts of a window that are trees of numbers, in the order of `run.json`.
const TREES: [&str; 12] = [
    "duration_s",
    "requests",
    "offered_rps",
    "achieved_rps",
    "in_flight",
    "tokens",
    "throughput",
    "tokens_per_event",
    "empty_events",
    "coalesced_share",
    "finish_reasons",
    "server",
];

/// Counts, rates and shares of a window: every number below these keys of `run.json`, and of `client` what is no list.
///
/// # Errors
/// None that a [`Window`] can cause.
pub fn figures(window: &Window) -> anyhow::Result<Vec<Figure>> {
    let value = serde_json::to_value(window)?;
    let mut found = Vec::new();
    for key in TREES {
        leaves(key, "", value.get(key).unwrap_or(&Value::Null), &mut found);
    }
    for key in ["cpu_per_wall", "steal", "load", "counters"] {
        leaves("client", key, value.pointer(&format!("/client/{key}")).unwrap_or(&Value::Null), &mut found);
    }
    Ok(found)
}

fn leaves(metric: &str, name: &str, value: &Value, found: &mut Vec<Figure>) {
    let mut push = |value| found.push(Figure { metric: metric.to_owned(), name: name.to_owned(), value });
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| {
            let below = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
            leaves(metric, &below, value, found);
        }),
        Value::Number(number) => push(number.as_f64()),
        Value::Null => push(None),
        Value::Bool(_) | Value::String(_) | Value::Array(_) => {}
    }
}
