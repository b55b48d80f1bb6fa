//! A request as AIPerf 0.13.0 keeps it: a line of `profile_export.jsonl`.

use serde_json::{Map, Value, json};

use super::metric::{self, Metric};
use crate::reading::printable;
use crate::rundir::row::{Outcome, Phase, Row, TokensSource};

/// Values of a metric for one request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Measured {
    /// One of them.
    One(f64),
    /// A list.
    Many(Vec<f64>),
}

/// Moments in ns since 1970, durations in ns.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub issued: u64,
    pub start: u64,
    pub end: u64,
    ack: Option<u64>,
    cancelled: Option<u64>,
    session: u64,
    /// Place in a conversation.
    turn: Option<u32>,
    worker: u32,
    pub warmup: bool,
    /// In the order of the file.
    pub metrics: Vec<(Metric, Measured)>,
    /// `ErrorDetails`; None for a valid request.
    pub error: Option<Value>,
}

/// Where the campaign's zero lies, and how it asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Basis {
    /// Unix time of the rows' zero, ns.
    pub zero_ns: u64,
    /// Replies were streamed.
    pub streamed: bool,
    /// The window's close, ns from the rows' zero.
    pub closed: u64,
}

/// When AIPerf's clock of a request starts: before a connection is opened for it.
fn start(row: &Row) -> u64 {
    let opening: u64 = [row.dns, row.connect, row.tls].into_iter().flatten().sum();
    match row.submit {
        Some(submit) => submit.saturating_sub(opening),
        None => row.taken.unwrap_or(row.due),
    }
}

/// The last moment that a row tells.
fn last_known(row: &Row) -> u64 {
    let stamps = [row.first_byte, row.first_event, row.last_token, row.done, row.end];
    let seen = stamps.into_iter().flatten().map(|stamp| stamp.seen);
    let sent = [Some(row.due), row.taken, row.submit, row.handed, row.sent].into_iter().flatten();
    seen.chain(sent).max().unwrap_or(row.due)
}

impl Record {
    pub fn of(row: &Row, basis: Basis) -> Record {
        let start = start(row);
        let end = match row.outcome {
            Outcome::Ok => row.end.or(row.done).or(row.last_token).map_or_else(|| last_known(row), |stamp| stamp.seen),
            Outcome::Censored => basis.closed,
            _ => last_known(row),
        };
        let answered = row.http_status == Some(200) && basis.streamed;
        Record {
            issued: basis.zero_ns + row.due,
            start: basis.zero_ns + start,
            end: basis.zero_ns + end,
            ack: row.first_byte.filter(|_| answered).map(|stamp| basis.zero_ns + stamp.seen),
            cancelled: (row.outcome == Outcome::Censored).then_some(basis.zero_ns + basis.closed),
            session: row.session.as_ref().map_or(row.trace_id, |turn| turn.id),
            turn: row.session.as_ref().map(|turn| turn.turn),
            worker: row.worker,
            warmup: row.phase == Phase::Warmup,
            metrics: if row.outcome == Outcome::Ok { metrics(row, start, basis.streamed) } else { Vec::new() },
            error: error(row),
        }
    }

    /// The value of a metric that has one a request.
    pub fn one(&self, of: Metric) -> Option<f64> {
        self.metrics.iter().find_map(|(metric, value)| match value {
            Measured::One(value) if metric.tag == of.tag => Some(*value),
            _ => None,
        })
    }

    /// All its values of a metric.
    pub fn values(&self, of: Metric) -> &[f64] {
        let found = self.metrics.iter().find(|(metric, _)| metric.tag == of.tag);
        match found {
            Some((_, Measured::One(value))) => std::slice::from_ref(value),
            Some((_, Measured::Many(values))) => values,
            None => &[],
        }
    }

    /// `MetricRecordInfo`; what is not there is left out, as there.
    pub fn json(&self) -> Value {
        let mut metadata = Map::new();
        let mut put = |name: &str, value: Value| drop(metadata.insert(name.to_owned(), value));
        put("session_num", json!(self.session));
        if self.turn.is_some() {
            put("conversation_id", json!(format!("session_{}", self.session)));
        }
        put("turn_index", json!(self.turn.unwrap_or(0)));
        put("credit_issued_ns", json!(self.issued));
        put("request_start_ns", json!(self.start));
        if let Some(ack) = self.ack {
            put("request_ack_ns", json!(ack));
        }
        put("request_end_ns", json!(self.end));
        put("worker_id", json!(format!("worker_{}", self.worker)));
        put("record_processor_id", json!("tarebench"));
        put("benchmark_phase", json!(if self.warmup { "warmup" } else { "profiling" }));
        put("was_cancelled", json!(self.cancelled.is_some()));
        if let Some(at) = self.cancelled {
            put("cancellation_time_ns", json!(at));
        }
        let mut metrics = Map::new();
        for (metric, value) in &self.metrics {
            let shown = match value {
                Measured::One(value) => json!(whole(metric.shown(*value), metric.unit)),
                Measured::Many(values) => json!(values.iter().map(|v| metric.shown(*v)).collect::<Vec<_>>()),
            };
            metrics.insert(metric.tag.to_owned(), json!({"value": shown, "unit": metric.unit}));
        }
        let mut record = json!({"metadata": metadata, "metrics": metrics});
        if let Some(error) = &self.error {
            record["error"] = error.clone();
        }
        record
    }
}

/// Counts are whole numbers there.
fn whole(value: f64, unit: &str) -> Value {
    if unit == "tokens" { json!(value as u64) } else { json!(value) }
}

fn error(row: &Row) -> Option<Value> {
    let words = row.error.as_ref();
    match row.outcome {
        Outcome::Ok => None,
        // as AIPerf names what it cancels itself
        Outcome::Censored => Some(json!({
            "code": 499, "type": "RequestCancellationError", "message": "still running when the window closed",
        })),
        _ => {
            let class = words.map_or("failed", |error| error.class.as_str());
            let mut error = json!({
                "type": printable(class, None),
                "message": printable(words.map_or("failed", |error| error.text.as_str()), None),
            });
            if let Some(code) = row.http_status.filter(|_| class == "http_status") {
                error["code"] = json!(code);
            }
            Some(error)
        }
    }
}

/// The metrics of an answered request, each as its class in `aiperf/metrics/types` has it.
fn metrics(row: &Row, start: u64, streamed: bool) -> Vec<(Metric, Measured)> {
    let mut found = Vec::new();
    let since = |at: u64| at.saturating_sub(start) as f64;
    let mut put = |metric, value: Option<f64>| found.extend(value.map(|value| (metric, Measured::One(value))));
    let last = row.last_token.or(row.end).map(|stamp| since(stamp.seen));
    put(metric::REQUEST_LATENCY, last);

    let counted = row.tokens_source == Some(TokensSource::Usage);
    let usage = |count: Option<u64>| count.filter(|_| counted).map(|n| n as f64);
    let (prompt, completion) = (usage(row.prompt_tokens), usage(row.completion_tokens));
    let reasoning = usage(row.reasoning_tokens);
    let output = completion.map(|n| (n - reasoning.unwrap_or(0.0)).max(0.0));
    let length = output.or(reasoning).map(|_| output.unwrap_or(0.0) + reasoning.unwrap_or(0.0));

    let chunks: Vec<u64> = row.chunks.iter().map(|chunk| chunk.0).filter(|_| streamed).collect();
    let first = row.first_token.filter(|_| streamed).map(|stamp| since(stamp.seen));
    let gaps: Vec<f64> = chunks.windows(2).map(|pair| pair[1].saturating_sub(pair[0]) as f64).collect();
    let decode = last.zip(first).map(|(last, first)| last - first);
    let itl = decode.zip(length.filter(|n| *n >= 2.0)).map(|(decode, n)| decode / (n - 1.0));
    put(metric::TTFT, first);
    put(metric::TTST, gaps.first().copied());
    put(metric::TTFO, row.first_answer.filter(|_| streamed).map(|stamp| since(stamp.seen)));
    put(metric::ITL, itl);
    put(metric::DECODE, decode);
    put(metric::SPEED, itl.filter(|ns| *ns > 0.0).map(|ns| 1.0 / (ns / 1e9)));
    put(metric::E2E_SPEED, length.zip(last.filter(|ns| *ns > 0.0)).map(|(n, ns)| n / (ns / 1e9)));
    put(metric::PREFILL_SPEED, prompt.zip(first.filter(|ns| *ns > 0.0)).map(|(n, ns)| n / (ns / 1e9)));
    put(metric::OSL, length);
    put(metric::ISL, prompt);
    put(metric::OUTPUT, output.filter(|n| *n > 0.0));
    put(metric::REASONING, reasoning);
    put(metric::USAGE_PROMPT, prompt);
    put(metric::USAGE_COMPLETION, completion);
    put(metric::USAGE_REASONING, reasoning);
    put(metric::USAGE_CACHED, usage(row.cached_tokens));
    if !gaps.is_empty() {
        found.push((metric::ICL, Measured::Many(gaps)));
    }
    found
}
