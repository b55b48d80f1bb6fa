//! What the client used up, from `health.jsonl` as plain JSON.

use serde_json::{Value, json};

use super::raw::number;
use crate::analysis::definitions::{rules, share};

/// Samples as `(thread, tid)` and their points, in order of time.
pub(super) struct Samples {
    points: Vec<(String, u64, Value)>,
}

impl Samples {
    pub(super) fn new(lines: &[Value]) -> Samples {
        let name = |l: &Value| l["thread"].as_str().unwrap_or_default().to_string();
        let mut points: Vec<_> = lines.iter().map(|l| (name(l), number(l, "tid"), l.clone())).collect();
        points.sort_by_key(|(_, _, line)| number(line, "t"));
        Samples { points }
    }

    pub(super) fn client(&self, window: &Value) -> Value {
        let process = self.points.iter().filter(|p| p.0 == "process").map(|p| p.1).min();
        let samples = process.map(|tid| self.within(window, "process", tid)).unwrap_or_default();
        let workers = window["workers"].as_array().into_iter().flatten();
        let counters = [
            "tx_stamps_missing",
            "rx_stamps_missing",
            "stamps_out_of_order",
            "clock_steps",
            "map_uncertainty_ns",
            "ring_overflow",
            "receives_repeated",
            "pool_exhausted",
            "supply_starved",
            "reader_waits",
            "connections_opened",
            "connections_closed_by_server",
        ];
        let counters: serde_json::Map<String, Value> = counters
            .iter()
            .map(|name| ((*name).to_string(), json!(window[*name].as_u64().unwrap_or_default())))
            .collect();
        json!({
            "cpu_per_wall": over_all(&samples, "cpu_ns"),
            "workers": workers.map(|w| self.worker(window, w)).collect::<Vec<_>>(),
            "steal": stolen(&samples),
            "load": null,
            "calibrated": null,
            "gates": [],
            "counters": counters,
        })
    }

    /// `(t, rss_bytes)` of the process while the window was open.
    pub(super) fn resident(&self, window: &Value) -> Vec<(u64, u64)> {
        let process = self.points.iter().filter(|p| p.0 == "process").map(|p| p.1).min();
        let open = number(window, "opened")..=number(window, "closed");
        let mine = self.points.iter().filter(|p| p.0 == "process" && Some(p.1) == process).map(|p| &p.2);
        mine.filter(|s| open.contains(&number(s, "t")))
            .filter_map(|s| Some((number(s, "t"), s["rss_bytes"].as_u64()?)))
            .collect()
    }

    fn worker(&self, window: &Value, worker: &Value) -> Value {
        let samples = self.within(window, &format!("worker-{}", number(worker, "worker")), number(worker, "tid"));
        let switches = |s: &&Value| s["involuntary_switches"].as_u64();
        let grown = match (samples.first().and_then(switches), samples.last().and_then(switches)) {
            (Some(from), Some(to)) => Some(to.saturating_sub(from)),
            _ => None,
        };
        json!({
            "worker": worker["worker"],
            "core": worker["core"],
            "cpu_per_wall": over_all(&samples, "cpu_ns"),
            "worst_5s": worst(&samples, rules::WORST_CPU_NS, "cpu_ns"),
            "busy": share(number(worker, "busy_ns"), number(window, "closed").saturating_sub(number(window, "opened"))),
            "busy_worst_5s": worst(&samples, rules::WORST_CPU_NS, "busy_ns"),
            "run_delay_share": worst(&samples, rules::WORST_RUN_DELAY_NS, "run_delay_ns"),
            "involuntary_switches": grown,
            "steal": stolen(&samples),
            "softirq": worst(&samples, rules::WORST_CPU_NS, "softirq_ns"),
            "read_delay_p99_ms": null,
            "bursts": null,
        })
    }

    /// Samples of a thread from the last before the window to the first after it; none when the first is missing.
    fn within(&self, window: &Value, thread: &str, tid: u64) -> Vec<&Value> {
        let (opened, closed) = (number(window, "opened"), number(window, "closed"));
        let mine: Vec<&Value> = self.points.iter().filter(|p| p.0 == thread && p.1 == tid).map(|p| &p.2).collect();
        let before = mine.iter().rposition(|s| number(s, "t") <= opened);
        let after = mine.iter().position(|s| number(s, "t") >= closed);
        match (before, after) {
            (Some(from), Some(to)) => mine[from..=to.max(from)].to_vec(),
            _ => Vec::new(),
        }
    }
}

fn over_all(samples: &[&Value], counter: &str) -> Option<f64> {
    growth(samples.first()?, samples.last()?, counter)
}

fn worst(samples: &[&Value], span: u64, counter: &str) -> Option<f64> {
    worst_of(samples, span, |from, to| growth(from, to, counter))
}

/// Steal over the worst 5 s; of less than a second one tick is taken off.
fn stolen(samples: &[&Value]) -> Option<f64> {
    worst_of(samples, rules::WORST_CPU_NS, |from, to| {
        let ns = to["steal_ns"].as_u64()?.saturating_sub(from["steal_ns"].as_u64()?);
        let wall = number(to, "t").saturating_sub(number(from, "t"));
        share(if wall >= rules::STEAL_SPAN_NS { ns } else { ns.saturating_sub(rules::STEAL_TICK_NS) }, wall)
    })
}

fn worst_of(samples: &[&Value], span: u64, rate: impl Fn(&Value, &Value) -> Option<f64>) -> Option<f64> {
    let least = (span as f64 * rules::SLICE_AT_LEAST) as u64;
    let mut worst: Option<f64> = None;
    for (i, from) in samples.iter().enumerate() {
        let until = number(from, "t").saturating_add(least);
        let slice = samples[i..].iter().find(|to| number(to, "t") >= until);
        if let Some(found) = slice.and_then(|to| rate(from, to)) {
            worst = Some(worst.map_or(found, |w| w.max(found)));
        }
    }
    worst.or_else(|| rate(samples.first()?, samples.last()?))
}

fn growth(from: &Value, to: &Value, counter: &str) -> Option<f64> {
    let grown = to[counter].as_u64()?.saturating_sub(from[counter].as_u64()?);
    share(grown, number(to, "t").saturating_sub(number(from, "t")))
}
