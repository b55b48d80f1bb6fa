//! AIPerf's `profile_export_aiperf.json` (schema 1.4) and `profile_export.jsonl`, as AIPerf 0.13.0 writes them
//! (`aiperf/metrics/types`, `aiperf/common/models`): a directory a window, below `aiperf`.
//!
//! How its definitions are followed, and where rows do not hold what they need:
//!
//! - **Start** (`request_start_ns`) is before a connection is opened: here `submit` less the time that opening one took where
//!   one was opened for this request, `taken` where nothing was submitted. Its clock for durations is monotonic, as here.
//! - **time_to_first_token** ends with the first response with content, reasoning or a tool call: here the first token event (one
//!   that shows its token by ids, logprobs or running usage alone counts too; rows do not tell it apart). All responses of one
//!   read have one stamp. **time_to_first_output_token**: the first answer text; an answer of tool calls alone has none here.
//! - **request_latency** ends with the last response with content: the last token event.
//! - **inter_token_latency** is one mean a request, (request_latency - time_to_first_token) / (output_sequence_length - 1): what
//!   others call TPOT. **inter_chunk_latency** holds the gaps, zeros within a read included.
//! - **Tokens** are the server's usage, as with `--use-server-token-count`: `input_config` says so. AIPerf's own way, its tokenizer
//!   over the texts, cannot be followed: texts are not kept. Without usage nothing is counted, also where token ids would tell.
//!   `output_token_count` is without the reasoning tokens, `output_sequence_length` with them.
//! - **Phases**: warm-up requests, by trace id, are `warmup` in the lines and in `warmup_metrics`; all figures are of the others.
//!   Requests that were never sent have no line. Failed ones have a line with the error; those cut off when the window closed are
//!   `was_cancelled` with AIPerf's own error for it, and both count in `error_request_count`. Their end is the last moment that a
//!   row tells.
//! - **credit_issued_ns** is `due`; `effective_latency` and `credit_to_start_latency` follow from it, through doubles of ns since
//!   1970 as there (steps of 256 ns).
//! - Rates (`request_throughput`, `output_token_throughput`, ..) are over the phase: from its first credit to its last end.
//!   `benchmark_duration` is from the first start to the last content of valid requests.
//! - Percentiles are linear between neighbours whatever n is, deviations over n. `adj_*` count each failed request as one that
//!   never ends, nearest rank; what is infinite is null.
//! - Times since 1970 have the zero of the rows, known to the second: all are off by the same amount, at most a second.
//! - **Turns**: `session_num` counts requests, or sessions where requests are turns of such; then `conversation_id` is `session_N` and
//!   `turn_index` the place. Its figures are over requests, as there.
//! - Not written: what needs texts (`usage_*_diff_pct`, `context_overflow_count`), `usage_total_tokens`, HTTP traces (`http_req_*`), the sweep lines (`effective_concurrency`,
//!   `active_*`), goodput (its goals hold other stamps than the plan's), GPUs and servers.
//! - `input_config` tells the load in AIPerf's words where it has them, else as `fixed_schedule`, and the workload by mean and
//!   deviation of the lengths asked for.
//!
//! What `run.json` withholds stands in `metadata`; a window that is not valid has `is_complete` false with the reason.

mod metric;
mod record;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::measured::{Campaign, MeasuredWindow};
use super::terms::{self, Term};
use super::{Exported, Exporter, marks};
use crate::rundir::row::{Outcome, Row};
use crate::rundir::window::{LoadModel, WindowRow};
use metric::Metric;
use record::{Basis, Record};

/// The version whose layout and definitions these are.
const VERSION: &str = "0.13.0";
/// `JsonExportData.SCHEMA_VERSION` there.
const SCHEMA: &str = "1.4";

/// Metrics with a value a request, in the order of the file.
const METRICS: [Metric; 18] = [
    metric::REQUEST_LATENCY,
    metric::TTFT,
    metric::TTST,
    metric::TTFO,
    metric::ITL,
    metric::ICL,
    metric::DECODE,
    metric::SPEED,
    metric::E2E_SPEED,
    metric::PREFILL_SPEED,
    metric::OSL,
    metric::ISL,
    metric::OUTPUT,
    metric::REASONING,
    metric::USAGE_PROMPT,
    metric::USAGE_COMPLETION,
    metric::USAGE_REASONING,
    metric::USAGE_CACHED,
];

/// Sums of them, and under which key.
const TOTALS: [(&str, Metric); 8] = [
    ("total_isl", metric::ISL),
    ("total_osl", metric::OSL),
    ("total_output_tokens", metric::OUTPUT),
    ("total_reasoning_tokens", metric::REASONING),
    ("total_usage_prompt_tokens", metric::USAGE_PROMPT),
    ("total_usage_completion_tokens", metric::USAGE_COMPLETION),
    ("total_usage_reasoning_tokens", metric::USAGE_REASONING),
    ("total_usage_prompt_cache_read_tokens", metric::USAGE_CACHED),
];

/// The format.
#[derive(Debug, Default)]
pub struct Format;

impl Exporter for Format {
    fn window(&mut self, of: &Campaign, window: &MeasuredWindow) -> anyhow::Result<Vec<Exported>> {
        let records = records(window, of.started_wall_ns, streamed(of));
        let mut lines = String::new();
        for record in &records {
            lines.push_str(&serde_json::to_string(&record.json())?);
            lines.push('\n');
        }
        let mut summary = serde_json::to_string_pretty(&summary(of, window, &records))?;
        summary.push('\n');
        let directory = format!("aiperf/cell{}-window{}", window.bounds.cell, window.bounds.window);
        Ok(vec![
            Exported { name: format!("{directory}/profile_export_aiperf.json"), text: summary },
            Exported { name: format!("{directory}/profile_export.jsonl"), text: lines },
        ])
    }

    fn finish(&mut self, _of: &Campaign) -> anyhow::Result<Vec<Exported>> {
        Ok(Vec::new())
    }
}

fn model(of: &Campaign) -> &str {
    of.plan.get("model").and_then(Value::as_str).unwrap_or("unknown")
}

fn streamed(of: &Campaign) -> bool {
    of.plan.get("stream").and_then(Value::as_bool).unwrap_or(true)
}

/// Those that were sent, in order of their trace.
fn records(window: &MeasuredWindow, zero_ns: u64, streamed: bool) -> Vec<Record> {
    let mut sent: Vec<&Row> = window.rows.iter().filter(|row| row.outcome != Outcome::NotSent).collect();
    sent.sort_by_key(|row| row.trace_id);
    let basis = Basis { zero_ns, streamed, closed: window.bounds.closed };
    sent.into_iter().map(|row| Record::of(row, basis)).collect()
}

/// `JsonExportData`.
fn summary(of: &Campaign, window: &MeasuredWindow, records: &[Record]) -> Value {
    let bounds = &window.bounds;
    let phase = |warmup| -> Vec<&Record> { records.iter().filter(|record| record.warmup == warmup).collect() };
    let (measured, warmup) = (phase(false), phase(true));
    let marks = marks::of(&of.run, bounds.cell, bounds.window);
    let valid = marks::is_valid(&of.run, bounds.cell, bounds.window);
    let mut found = Map::new();
    let mut put = |name: &str, value: Value| drop(found.insert(name.to_owned(), value));
    put("schema_version", json!(SCHEMA));
    put("aiperf_version", json!(format!("{VERSION} (its layout; written by tarebench)")));
    put("benchmark_id", json!(id(bounds)));
    metrics(&measured).into_iter().for_each(|(name, value)| put(&name, value));
    put("input_config", input_config(of, window));
    put("run_info", run_info(of, bounds));
    put("was_cancelled", json!(bounds.interrupted));
    put("is_complete", json!(valid));
    if !valid {
        put("incomplete_reason", json!(marks.join("; ")));
    }
    put("error_summary", errors(&measured));
    if let Some((start, end)) = phase_window(&measured) {
        put("start_time", json!(time(start)));
        put("end_time", json!(time(end)));
    }
    let warmup = metrics(&warmup);
    if !warmup.is_empty() {
        put("warmup_metrics", Value::Object(warmup));
    }
    let mut metadata = json!({
            "model": model(of),
            "tarebench": of.run.tarebench,
            "tarebench_run": of.run.run_id,
            "tarebench_plan_hash": of.run.plan_hash,
            "tarebench_cell": bounds.cell,
            "tarebench_window": bounds.window,
            "tarebench_valid": valid,
            "tarebench_marks": marks,
    });
    if let Some(per_s) = bounds.load.session_rate() {
        metadata["tarebench_session_rate"] = json!(per_s);
    }
    put("metadata", metadata);
    Value::Object(found)
}

/// First credit to last end, ns since 1970.
fn phase_window(records: &[&Record]) -> Option<(u64, u64)> {
    Some((records.iter().map(|record| record.issued).min()?, records.iter().map(|record| record.end).max()?))
}

/// Every metric of a phase.
fn metrics(records: &[&Record]) -> Map<String, Value> {
    let mut found = Map::new();
    let Some((start, end)) = phase_window(records) else { return found };
    let failed = records.iter().filter(|record| record.error.is_some()).count();
    let valid = records.len() - failed;
    let pooled = |metric| -> Vec<f64> { records.iter().flat_map(|record| record.values(metric).to_vec()).collect() };
    let mut adjusted = Vec::new();
    for metric in METRICS {
        let values = pooled(metric);
        found.extend(metric.figures(&values).map(|figures| (metric.tag.to_owned(), figures)));
        let with_failed = metric.with_failed(&values, failed).filter(|_| metric.adjusted);
        adjusted.extend(with_failed.map(|figures| (format!("adj_{}", metric.tag), figures)));
    }
    let mut put = |name: &str, unit: &str, value: Option<f64>| {
        found.extend(value.map(|value| (name.to_owned(), json!({"unit": unit, "avg": value}))));
    };
    let total =
        |metric| Some(pooled(metric)).filter(|values| !values.is_empty()).map(|values| values.iter().sum::<f64>());
    let seconds = end.saturating_sub(start) as f64 / 1e9;
    let per_second = |amount: Option<f64>| amount.filter(|_| seconds > 0.0).map(|amount| amount / seconds);
    let count = |n: usize| Some(n as f64).filter(|n| *n > 0.0);
    put("request_count", "requests", count(valid));
    put("error_request_count", "requests", count(failed));
    put("completed_request_count", "requests", count(records.len()));
    put("request_error_rate", "%", count(records.len()).map(|all| 100.0 * failed as f64 / all));
    put("benchmark_duration", "sec", duration(records));
    put("request_throughput", "requests/sec", per_second(count(valid)));
    let (input, output) = (total(metric::ISL), total(metric::OSL));
    put("output_token_throughput", "tokens/sec", per_second(output));
    put("input_token_throughput", "tokens/sec", per_second(input));
    put("total_token_throughput", "tokens/sec", per_second(input.zip(output).map(|(a, b)| a + b)));
    for (name, metric) in TOTALS {
        put(name, "tokens", total(metric));
    }
    let cached = total(metric::USAGE_CACHED).zip(total(metric::USAGE_PROMPT).filter(|n| *n > 0.0));
    put("overall_usage_prompt_cache_read_pct", "%", cached.map(|(cached, prompt)| 100.0 * cached / prompt));
    found.extend(adjusted);
    // through doubles of ns since 1970, as there
    let after = |until: &dyn Fn(&Record) -> u64| -> Vec<f64> {
        records.iter().map(|record| (until(record) as f64 - record.issued as f64).max(0.0)).collect()
    };
    for (metric, values) in
        [(metric::CREDIT_TO_START, after(&|record| record.start)), (metric::EFFECTIVE, after(&|record| record.end))]
    {
        found.extend(metric.figures(&values).map(|figures| (metric.tag.to_owned(), figures)));
    }
    found
}

/// `benchmark_duration` in s: None where it is not above 0.
fn duration(records: &[&Record]) -> Option<f64> {
    let valid = || records.iter().filter(|record| record.error.is_none());
    let first = valid().map(|record| record.start).min()?;
    let ends = valid().filter_map(|record| Some(record.start + record.one(metric::REQUEST_LATENCY)? as u64));
    let (first, last) = (first as f64, ends.max()? as f64);
    (last > first).then(|| (last - first) / 1e9)
}

/// `ErrorDetailsCount`, the most frequent first.
fn errors(records: &[&Record]) -> Value {
    let mut counts: BTreeMap<String, (u64, &Value)> = BTreeMap::new();
    for error in records.iter().filter_map(|record| record.error.as_ref()) {
        counts.entry(error.to_string()).or_insert((0, error)).0 += 1;
    }
    let mut counts: Vec<(u64, &Value)> = counts.into_values().collect();
    counts.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let each = counts.into_iter().map(|(count, error)| json!({"error_details": error, "count": count}));
    Value::Array(each.collect())
}

fn id(bounds: &WindowRow) -> String {
    format!("{}/{}/{}", bounds.run, bounds.cell, bounds.window)
}

/// RFC 3339, UTC, whole microseconds.
fn time(ns: u64) -> String {
    let text = crate::campaign::timestamp(ns);
    let (date, clock) = text.split_once('T').unwrap_or((&text, ""));
    format!("{date}T{}.{:06}Z", clock.replace('-', ":"), ns / 1000 % 1_000_000)
}

/// `RunInfo`.
fn run_info(of: &Campaign, bounds: &WindowRow) -> Value {
    let load = &bounds.load;
    let (name, amount) = match (load.model, load.rate, &load.sessions) {
        (LoadModel::Closed, ..) => ("concurrency", json!(load.concurrency)),
        // AIPerf has no rate of sessions
        (_, rate, Some(_)) => ("tarebench_session_rate", rate.map_or(json!("inf"), Value::from)),
        (_, Some(rate), None) => ("request_rate", json!(rate)),
        (_, None, None) => ("request_rate", json!("inf")),
    };
    let label = format!("{name}_{}", amount.as_str().map_or_else(|| amount.to_string(), str::to_owned));
    let mut info = json!({
        "benchmark_id": id(bounds),
        "sweep_id": bounds.run,
        "trial": bounds.window,
        "run_label": format!("cell{}-window{}", bounds.cell, bounds.window),
        "variation_label": label,
        "variation_index": bounds.cell,
        "variation_values": {(format!("phases.profiling.{name}")): amount},
    });
    if let Some(seed) = of.plan.pointer("/workload/seed").and_then(Value::as_u64) {
        info["random_seed"] = json!(seed);
    }
    info
}

/// `BenchmarkConfig`: what AIPerf would have been asked for.
fn input_config(of: &Campaign, window: &MeasuredWindow) -> Value {
    let completions = of.plan.get("api").and_then(Value::as_str) == Some("completions");
    let (kind, usual) = if completions { ("completions", "/v1/completions") } else { ("chat", "/v1/chat/completions") };
    let url = of.plan.pointer("/environment/base_url").or(of.plan.get("base_url"));
    let url = url.and_then(Value::as_str).filter(|url| url.starts_with("http")).unwrap_or("http://unknown");
    let mut endpoint = json!({
        "urls": [url], "type": kind, "streaming": streamed(of), "use_server_token_count": true,
    });
    if let Some(path) = of.plan.get("endpoint").and_then(Value::as_str).filter(|path| *path != usual) {
        endpoint["path"] = json!(path);
    }
    let kept: Vec<&Row> = window.kept().collect();
    let lengths = |each: fn(&Row) -> u64| {
        let values: Vec<f64> = kept.iter().map(|row| each(row) as f64).collect();
        let n = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n;
        json!({"mean": mean.max(1.0), "stddev": variance.sqrt()})
    };
    json!({
        "models": {"items": [{"name": model(of)}]},
        "endpoint": endpoint,
        "datasets": [{
            "name": "main",
            "type": "synthetic",
            "entries": kept.len().max(1),
            "prompts": {"isl": lengths(|row| row.asked_prompt_tokens), "osl": lengths(|row| row.asked_output_tokens)},
        }],
        "phases": [load_phase(of, window, kept.len().max(1))],
        "tokenizer": {},
    })
}

/// The load in AIPerf's words.
fn load_phase(of: &Campaign, window: &MeasuredWindow, requests: usize) -> Value {
    let bounds = &window.bounds;
    let load = &bounds.load;
    let planned = &of.plan["cells"][bounds.cell as usize];
    let rate = load.request_rate().filter(|rate| *rate > 0.0 && load.arrivals.is_none());
    let mut phase = json!({"name": "profiling", "kind": "profiling", "requests": requests});
    let mut put = |name: &str, value: Value| phase[name] = value;
    let at_once = bounds.slots.max(1).min(u32::try_from(requests).unwrap_or(u32::MAX));
    match (load.model, rate, planned["arrivals"].as_str()) {
        (LoadModel::Closed, _, _) => {
            put("type", json!("concurrency"));
            put("concurrency", json!(load.concurrency.unwrap_or(at_once).min(at_once.max(1))));
            return phase;
        }
        // whatever begins sessions, their turns come when replies are in
        _ if load.sessions.is_some() => put("type", json!("fixed_schedule")),
        (LoadModel::Open, Some(rate), Some("poisson")) => {
            put("type", json!("poisson"));
            put("rate", json!(rate));
        }
        (LoadModel::Open, Some(rate), Some("gamma")) => {
            put("type", json!("gamma"));
            put("rate", json!(rate));
            put("smoothness", planned["burstiness"].clone());
        }
        (LoadModel::Open, Some(rate), Some("even")) => {
            put("type", json!("constant"));
            put("rate", json!(rate));
        }
        (LoadModel::Open, None, _) if load.rate.is_none() && load.arrivals.is_none() => {
            put("type", json!("concurrency"));
            put("concurrency", json!(at_once));
            return phase;
        }
        _ => put("type", json!("fixed_schedule")),
    }
    if let Some(cap) = load.concurrency.map(|cap| cap.min(at_once)) {
        phase["concurrency"] = json!(cap);
    }
    phase
}

/// What AIPerf calls the streams of this window.
pub fn terms(window: &MeasuredWindow) -> Vec<Term> {
    // a reply that was not streamed has no event before its end
    let streamed = window.ok().any(|row| row.first_token.is_some() && row.first_token != row.end);
    let records = records(window, 0, streamed);
    let measured: Vec<&Record> = records.iter().filter(|record| !record.warmup).collect();
    let pooled = |metric| -> Vec<f64> { measured.iter().flat_map(|record| record.values(metric).to_vec()).collect() };
    let term = |concept, metric: Metric, definition, mut values: Vec<f64>| {
        values.sort_unstable_by(f64::total_cmp);
        let some = |value: f64| (!values.is_empty()).then(|| metric.shown(value));
        Term {
            concept,
            tool: "AIPerf",
            name: metric.tag,
            definition,
            n: values.len() as u64,
            mean: some(values.iter().sum::<f64>() / values.len() as f64),
            p50: some(metric::linear(&values, 50.0)),
            p99: some(metric::linear(&values, 99.0)),
            unit: metric.unit,
        }
    };
    let waited = measured.iter().map(|record| record.start.saturating_sub(record.issued) as f64).collect();
    let lengths = pooled(metric::OSL);
    let total: f64 = lengths.iter().sum();
    let seconds =
        phase_window(&measured).map(|(start, end)| end.saturating_sub(start) as f64 / 1e9).filter(|s| *s > 0.0);
    vec![
        term(
            terms::START,
            metric::CREDIT_TO_START,
            "before a connection is opened (here: submit less dns, connect and tls) - when the request was due",
            waited,
        ),
        term(
            terms::TTFT,
            metric::TTFT,
            "first response with content, reasoning or tool call (here: first token event) - start",
            pooled(metric::TTFT),
        ),
        term(
            terms::FIRST_ANSWER,
            metric::TTFO,
            "first response with more than reasoning (here: first answer text) - start",
            pooled(metric::TTFO),
        ),
        term(
            terms::GAP,
            metric::ICL,
            "between consecutive responses with content, 0 within a read; all pooled",
            pooled(metric::ICL),
        ),
        term(
            terms::TPOT,
            metric::ITL,
            "one mean a request: (request_latency - time_to_first_token) / (output tokens - 1), of two or more",
            pooled(metric::ITL),
        ),
        term(
            terms::E2E,
            metric::REQUEST_LATENCY,
            "last response with content (here: last token event) - start",
            pooled(metric::REQUEST_LATENCY),
        ),
        term(
            terms::OUTPUT_TOKENS,
            metric::OSL,
            "its tokenizer over the text, or the server's usage with --use-server-token-count (here: usage, else none)",
            lengths.clone(),
        ),
        Term {
            name: "output_token_throughput",
            mean: seconds.filter(|_| !lengths.is_empty()).map(|seconds| total / seconds),
            p50: None,
            p99: None,
            unit: "tokens/s",
            ..term(
                terms::THROUGHPUT,
                metric::OSL,
                "output tokens of valid requests / from the first request due to the last end",
                lengths,
            )
        },
    ]
}

#[cfg(test)]
mod tests;
