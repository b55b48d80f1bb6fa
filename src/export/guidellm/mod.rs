//! GuideLLM's `benchmarks.json`, report version 2, as GuideLLM 0.8.1 writes it (`guidellm/benchmark/schemas`): one file, a
//! benchmark a window.
//!
//! How its definitions are followed, and where rows do not hold what they need:
//!
//! - **Times** are unix seconds in doubles there, and every latency is a difference of two: steps of about 0.24 us. The same
//!   differences are taken here, not better ones. The zero of rows is known to the second only: all times are late or early
//!   by the same amount, at most a second.
//! - **Start** (`request_start`) is when the request's head is about to be written, a connection already open: here `submit`.
//!   Of a request that never came so far it is when the attempt began: here `taken`.
//! - **TTFT** ends with the first line that has text, reasoning or a tool call: here the first token event (one that shows
//!   its token by ids, logprobs or running usage alone counts too; rows do not tell it apart). All events of one read have
//!   one stamp. **TTFOT** ends with the first that has more than reasoning: here the first answer text; an answer of tool
//!   calls alone has none.
//! - **ITL** is one mean a request, (last token - first token) / (tokens - 1), weighted by tokens - 1. **TPOT** is (last token
//!   \- start) / tokens: the first token's time is in it. Weighted by tokens.
//! - **Tokens** are the server's usage. Without usage the prompt has none, and each token event counts as one output token.
//!   Where token ids told the number, usage is still missing: events are counted, as there.
//! - **Requests** are those that are not warm-up and were sent, by trace id; the measured time goes from the first start to
//!   the last end of these. Cut off when the window closed: `incomplete`. Failed: `errored`; their end is the last moment
//!   that a row tells, and their latencies stand as 0 in the columns `errored` and `total`, as there.
//! - `request_iterations` are lines that are not blank: here events, keep-alive lines and `[DONE]`; lines `event:`, `id:` and
//!   `retry:` are not counted in rows.
//! - `targeted_start` is `due`, `resolve_start` is `taken`. Queues of GuideLLM's processes (`queued`, `dequeued`,
//!   `scheduled_at`, `finalized`) have no like here: null, and their means are -1, which stands for "none" there.
//! - Texts, words, characters, tool calls, images, sound are null. `confidence` is null: no intervals, those of run.json are
//!   made with care for what depends on what. `slo` is null: the plan's goals hold other stamps.
//! - `config` tells the load by GuideLLM's own words where it has them (`concurrent`, `poisson`, `constant`, `throughput`), else
//!   as `trace`, and the workload by the mean lengths asked for; `metadata.labels` and `environment` name the run itself.
//! - Percentiles, deviations, rates, concurrency: `distribution`.
//!
//! What `run.json` withholds stands in each benchmark's `warnings`, which GuideLLM prints, and in its `environment`.

mod distribution;
mod request;

use serde_json::{Map, Value, json};

use super::measured::{Campaign, MeasuredWindow};
use super::terms::{self, Term};
use super::{Exported, Exporter, marks};
use crate::rundir::row::{Outcome, Row};
use crate::rundir::window::LoadModel;
use distribution::Distribution;
use request::{Basis, Request, Status};

/// The version whose layout and definitions these are.
const VERSION: &str = "0.8.1";
/// The file.
const NAME: &str = "benchmarks.json";

/// The format.
#[derive(Debug, Default)]
pub struct Format {
    benchmarks: u32,
    strategies: Vec<Value>,
    asked: Asked,
}

/// Lengths asked for, over all windows.
#[derive(Debug, Default)]
struct Asked {
    requests: u64,
    prompt: u64,
    output: u64,
}

impl Exporter for Format {
    fn window(&mut self, of: &Campaign, window: &MeasuredWindow) -> anyhow::Result<Vec<Exported>> {
        let strategy = strategy(of, window);
        let benchmark = benchmark(of, window, &strategy, self.benchmarks);
        let before = if self.benchmarks == 0 { "{\"benchmarks\":[\n" } else { ",\n" };
        self.benchmarks += 1;
        self.strategies.push(strategy);
        for row in window.kept() {
            self.asked.requests += 1;
            self.asked.prompt += row.asked_prompt_tokens;
            self.asked.output += row.asked_output_tokens;
        }
        Ok(vec![Exported { name: NAME.into(), text: format!("{before}{}", serde_json::to_string(&benchmark)?) }])
    }

    fn finish(&mut self, of: &Campaign) -> anyhow::Result<Vec<Exported>> {
        let before = if self.benchmarks == 0 { "{\"benchmarks\":[" } else { "" };
        let text = format!(
            "{before}\n],\n\"metadata\":{},\n\"config\":{},\n\"conclusions\":[]}}\n",
            serde_json::to_string(&metadata(of))?,
            serde_json::to_string(&self.config(of))?,
        );
        Ok(vec![Exported { name: NAME.into(), text }])
    }
}

impl Format {
    /// `BenchmarkScenario`: what GuideLLM would have been asked for.
    fn config(&self, of: &Campaign) -> Value {
        let mean = |sum: u64| (sum as f64 / self.asked.requests.max(1) as f64).round().max(1.0) as u64;
        let timeout = |name| of.plan.pointer(&format!("/timeouts_s/{name}")).cloned().unwrap_or(Value::Null);
        let connect = Some(timeout("connect")).filter(|s| s.is_number()).unwrap_or(json!(5.0));
        let none = json!({"percent": null, "value": null, "mode": "prefer_duration"});
        let mut profile = profile(&self.strategies);
        for (key, value) in [("rampup_duration", json!(0.0)), ("warmup", none.clone()), ("cooldown", none)] {
            profile.insert(key.into(), value);
        }
        json!({
            "metadata": {"labels": labels(of)},
            "spec": {
                "backend": {
                    "kind": "openai_http",
                    "target": target(of),
                    "model": model(of),
                    "request_format": request_format(of),
                    "api_key": null,
                    "api_routes": {
                        "/health": "health",
                        "/v1/models": "v1/models",
                        "/v1/completions": "v1/completions",
                        "/v1/chat/completions": "v1/chat/completions",
                        "/v1/embeddings": "v1/embeddings",
                        "/v1/responses": "v1/responses",
                        "/v1/audio/transcriptions": "v1/audio/transcriptions",
                        "/v1/audio/translations": "v1/audio/translations",
                        "/pooling": "pooling",
                    },
                    "timeout": timeout("stall"),
                    "timeout_connect": connect,
                    "http2": false,
                    "follow_redirects": false,
                    "verify": true,
                    "validate_backend": false,
                    "stream": streamed(of),
                    "extras": null,
                    "max_tokens": null,
                    "server_history": false,
                    "tool_call_missing_behavior": "ignore_continue",
                    "multiturn_reasoning": false,
                },
                "profile": profile,
                "constraints": [],
                "tokenizer": {"kind": "huggingface_auto", "model": null, "load_kwargs": {}},
                "data": [synthetic(mean(self.asked.prompt), mean(self.asked.output))],
                "data_column_mapper": {"kind": "generative_column_mapper", "column_mappings": null},
                "data_preprocessors": [],
                "data_finalizer": {"kind": "generative", "tool_call_mode": "client"},
                "data_loader": {
                    "kind": "pytorch", "samples": -1, "shuffle": false, "num_workers": 1, "prefetch_factor": 4096,
                },
                "seed": {"kind": "static", "value": of.plan.pointer("/workload/seed").and_then(Value::as_i64).unwrap_or(0)},
                "outputs": [],
                "metrics": {
                    "kind": "generative",
                    "warnings": [],
                    "sample_size": null,
                    "prefer_response_metrics": true,
                    "confidence": null,
                    "slo": null,
                },
            },
            "benchmarks": [null],
        })
    }
}

fn metadata(of: &Campaign) -> Value {
    json!({
        "version": 2,
        "guidellm_version": format!("{VERSION} (its layout; written by tarebench)"),
        "python_version": "none",
        "platform": of.plan.pointer("/environment/kernel").and_then(Value::as_str).unwrap_or("unknown"),
    })
}

fn labels(of: &Campaign) -> Value {
    let mut labels = Map::new();
    let run = [("tarebench", &of.run.tarebench), ("run", &of.run.run_id), ("plan", &of.run.plan_hash)];
    for (name, value) in run {
        labels.extend(value.as_ref().map(|value| (name.to_owned(), json!(value))));
    }
    labels.extend((!of.run.labels.is_empty()).then(|| ("titles".to_owned(), json!(of.run.labels.join(", ")))));
    Value::Object(labels)
}

fn synthetic(prompt: u64, output: u64) -> Value {
    let mut data = json!({"kind": "synthetic_text", "load_kwargs": {}});
    for (name, tokens) in [
        ("prompt_tokens", Some(prompt)),
        ("output_tokens", Some(output)),
        ("first_prompt_tokens", None),
        ("first_output_tokens", None),
        ("delay", None),
    ] {
        data[name] = json!(tokens);
        for part in ["stdev", "min", "max"] {
            data[format!("{name}_{part}")] = Value::Null;
        }
    }
    let rest = json!({
        "turns": 1, "tool_call_turns": [], "tools": null, "tool_response_tokens": null, "tool_response_tokens_stdev": null,
        "tool_response_tokens_min": null, "tool_response_tokens_max": null, "server_tool_call_turns": [], "branches": [],
        "prefix_buckets": null,
    });
    if let (Value::Object(data), Value::Object(rest)) = (&mut data, rest) {
        data.extend(rest);
    }
    data
}

fn model(of: &Campaign) -> &str {
    of.plan.get("model").and_then(Value::as_str).unwrap_or("unknown")
}

fn streamed(of: &Campaign) -> bool {
    of.plan.get("stream").and_then(Value::as_bool).unwrap_or(true)
}

fn target(of: &Campaign) -> &str {
    let found = of.plan.pointer("/environment/base_url").or(of.plan.get("base_url"));
    found.and_then(Value::as_str).unwrap_or("unknown")
}

fn request_format(of: &Campaign) -> &'static str {
    match of.plan.get("api").and_then(Value::as_str) {
        Some("completions") => "/v1/completions",
        _ => "/v1/chat/completions",
    }
}

/// `SchedulingStrategy`: the load in GuideLLM's words, `trace` where it has none.
fn strategy(of: &Campaign, window: &MeasuredWindow) -> Value {
    let load = &window.bounds.load;
    let planned = &of.plan["cells"][window.bounds.cell as usize];
    let rate = load.request_rate().filter(|rate| *rate > 0.0 && load.arrivals.is_none());
    let trace = json!({
        "type_": "trace", "worker_count": null, "max_concurrency": load.concurrency, "time_scale": 1.0,
        "schedule_turn": "timestamp",
    });
    match (load.model, rate, planned["arrivals"].as_str()) {
        (LoadModel::Closed, _, _) => json!({
            "type_": "concurrent", "worker_count": null, "max_concurrency": null,
            "streams": load.concurrency.unwrap_or(window.bounds.slots).max(1), "rampup_duration": 0.0,
        }),
        // whatever begins sessions, their turns come when replies are in
        _ if load.sessions.is_some() => trace,
        (LoadModel::Open, Some(rate), Some("poisson")) => json!({
            "type_": "poisson", "worker_count": null, "max_concurrency": load.concurrency, "rate": rate,
            "random_seed": of.plan.pointer("/workload/seed").and_then(Value::as_i64).unwrap_or(0),
        }),
        (LoadModel::Open, Some(rate), Some("even")) => json!({
            "type_": "constant", "worker_count": null, "max_concurrency": load.concurrency, "rate": rate,
            "rampup_duration": 0.0,
        }),
        (LoadModel::Open, None, _) if load.rate.is_none() && load.arrivals.is_none() => json!({
            "type_": "throughput", "worker_count": null, "max_concurrency": load.concurrency, "rampup_duration": 0.0,
        }),
        _ => trace,
    }
}

/// `ProfileArgs` of all windows: one kind, or `replay`.
fn profile(strategies: &[Value]) -> Map<String, Value> {
    let kind = |strategy: &Value| strategy["type_"].as_str().unwrap_or_default().to_owned();
    let first = strategies.first().map(kind).unwrap_or_default();
    let alike = strategies.iter().all(|strategy| kind(strategy) == first);
    let each = |key: &str| {
        let mut values: Vec<Value> = Vec::new();
        for value in strategies.iter().map(|strategy| &strategy[key]) {
            if !values.contains(value) {
                values.push(value.clone());
            }
        }
        values
    };
    let cap = each("max_concurrency").first().cloned().unwrap_or(Value::Null);
    let found = match first.as_str() {
        "concurrent" if alike => json!({"kind": "concurrent", "streams": each("streams")}),
        "poisson" | "constant" if alike => json!({"kind": first, "rate": each("rate"), "max_concurrency": cap}),
        "throughput" if alike => json!({"kind": "throughput", "max_concurrency": cap}),
        _ => json!({"kind": "replay", "time_scale": 1.0, "schedule_turn": "timestamp"}),
    };
    match found {
        Value::Object(profile) => profile,
        _ => Map::new(),
    }
}

/// The requests of a window in their three lists, and the measured time in unix seconds.
struct Measured {
    successful: Vec<Request>,
    incomplete: Vec<Request>,
    errored: Vec<Request>,
    window: (f64, f64),
}

impl Measured {
    fn of(window: &MeasuredWindow, zero_ns: u64, streamed: bool) -> Measured {
        let basis = Basis { zero_ns, streamed, closed: window.bounds.closed };
        let all: Vec<Request> = requests(window).map(|row| Request::of(row, basis)).collect();
        let first = all.iter().filter_map(Request::start).min_by(f64::total_cmp);
        let last = all.iter().map(Request::end).max_by(f64::total_cmp);
        let at = |ns: u64| request::seconds(zero_ns + ns);
        let list = |status| all.iter().filter(|request| request.status == status).cloned().collect();
        Measured {
            window: (first.unwrap_or(at(window.bounds.opened)), last.unwrap_or(at(window.bounds.closed))),
            successful: list(Status::Successful),
            incomplete: list(Status::Incomplete),
            errored: list(Status::Errored),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Request> {
        self.lists().into_iter().flat_map(|(_, list)| list)
    }

    fn lists(&self) -> [(&'static str, &[Request]); 3] {
        [("successful", &self.successful), ("incomplete", &self.incomplete), ("errored", &self.errored)]
    }

    /// Values with weights of each list, made into a distribution each, and of all together.
    fn by_status<T>(&self, mut each: impl FnMut(&Request) -> Vec<T>, make: impl Fn(&[T]) -> Distribution) -> Value {
        let mut found = Map::new();
        let mut total = Vec::new();
        for (name, list) in self.lists() {
            let values: Vec<T> = list.iter().flat_map(&mut each).collect();
            found.insert(name.into(), make(&values).json());
            total.extend(values);
        }
        found.insert("total".into(), make(&total).json());
        Value::Object(found)
    }

    fn values(&self, each: impl Fn(&Request) -> Option<f64>) -> Value {
        self.by_status(|request| each(request).map(|value| (value, 1.0)).into_iter().collect(), Distribution::of)
    }

    fn weighted(&self, each: impl Fn(&Request) -> (f64, f64)) -> Value {
        self.by_status(|request| vec![each(request)], Distribution::of)
    }

    fn rates(&self, each: impl Fn(&Request) -> Vec<(f64, f64)>) -> Value {
        self.by_status(each, |events| Distribution::of_rates(events, Some(self.window)))
    }

    fn counts(&self) -> Value {
        json!({
            "successful": self.successful.len(),
            "incomplete": self.incomplete.len(),
            "errored": self.errored.len(),
            "total": self.all().count(),
        })
    }

    /// `GenerativeMetrics`.
    fn metrics(&self, scheduled: bool) -> Value {
        let or_zero = |value: Option<f64>| Some(value.unwrap_or(0.0));
        let number = |count: Option<u64>| Some(count.unwrap_or(0) as f64);
        let only = |value: Value| if scheduled { value } else { Value::Null };
        let delays: Vec<(f64, f64)> =
            self.all().filter_map(Request::dispatch_delay).map(|delay| (delay, 1.0)).collect();
        let mut metrics = json!({
            "request_totals": self.counts(),
            "requests_per_second": self.rates(|request| vec![(request.end(), 1.0)]),
            "request_concurrency": self.by_status(
                |request| request.start().map(|start| (start, request.end(), 1.0)).into_iter().collect(),
                |intervals| Distribution::of_concurrency(intervals, Some(self.window)),
            ),
            "request_latency": self.values(|request| or_zero(request.latency())),
            "request_dispatch_delay": only(self.values(Request::dispatch_delay)),
            "request_scheduled_latency": only(self.values(Request::scheduled_latency)),
            "turn_predecessor_delay": only(self.values(|request| request.dispatch_delay().map(|_| 0.0))),
            "turn_scheduling_delay": only(self.values(Request::dispatch_delay)),
            "root_dispatch_delay": if delays.is_empty() { Value::Null } else { Distribution::of(&delays).json() },
            "request_streaming_iterations_count": self.values(|request| Some(request.lines() as f64)),
            "prompt_token_count": self.values(|request| number(request.prompt)),
            "output_token_count": self.values(|request| number(request.output())),
            "total_token_count": self.values(|request| number(request.total())),
            "time_to_first_token_ms":
                self.values(|request| request.first_token.and(or_zero(request.ttft_ms()))),
            "time_to_first_output_token_ms":
                self.values(|request| request.first_output.and(or_zero(request.ttfo_ms()))),
            "time_per_output_token_ms": self.weighted(|request| {
                (request.tpot_ms().unwrap_or(0.0), request.output().unwrap_or(0) as f64)
            }),
            "inter_token_latency_ms": self.weighted(inter_token),
            "time_to_last_round_trip_ms": self.values(|_| Some(0.0)),
            "avg_round_trip_time_ms": self.values(|_| Some(0.0)),
            "prompt_tokens_per_second": self.rates(|request| vec![request.prompt_timing()]),
            "output_tokens_per_second": self.rates(Request::output_timings),
            "tokens_per_second": self.rates(Request::total_timings),
            "output_tokens_per_iteration": self.by_status(
                |request| request.output_timings().into_iter().map(|(_, tokens)| (tokens, 1.0)).collect(),
                Distribution::of,
            ),
            "iter_tokens_per_iteration": self.by_status(
                |request| request.iteration_timings().into_iter().map(|(_, tokens)| (tokens, 1.0)).collect(),
                Distribution::of,
            ),
        });
        let rest = json!({
            "text": {"tokens": self.tokens(), "words": nothing(), "characters": nothing()},
            "image": {"tokens": nothing(), "images": nothing(), "pixels": nothing(), "bytes": nothing()},
            "video": {"tokens": nothing(), "frames": nothing(), "seconds": nothing(), "bytes": nothing()},
            "audio": {"tokens": nothing(), "samples": nothing(), "seconds": nothing(), "bytes": nothing()},
            "tool_call": {"tokens": nothing(), "mixed_tokens": nothing(), "count": nothing()},
            "turns": null,
            "slo_attainment": null,
            "slo_determined_requests": 0,
            "request_goodput": null,
        });
        if let (Value::Object(metrics), Value::Object(rest)) = (&mut metrics, rest) {
            metrics.extend(rest);
        }
        metrics
    }

    /// `GenerativeMetricsSummary` of `text_tokens`.
    fn tokens(&self) -> Value {
        type Side = fn(&Request) -> Option<u64>;
        let counted = |request: &&Request| request.prompt.or(request.completion()).is_some();
        let some = |side: Side| self.all().any(|request| side(request).is_some());
        // how a request stands in a rate or a level: with 0 where its own side is unknown
        let weight = |request: &Request, side: Side| side(request).unwrap_or(0) as f64;
        let summary = |sides: &[Side]| {
            let of = |request: &Request| Some(request).filter(counted).map(|_| sides.to_vec()).unwrap_or_default();
            [
                self.by_status(
                    |request| {
                        let known = of(request).into_iter().filter_map(|side| side(request));
                        known.map(|tokens| (tokens as f64, 1.0)).collect::<Vec<_>>()
                    },
                    Distribution::of,
                ),
                self.by_status(
                    |request| of(request).into_iter().map(|side| (request.end(), weight(request, side))).collect(),
                    |events: &[(f64, f64)]| Distribution::of_rates(events, None),
                ),
                self.by_status(
                    |request| {
                        let interval = |side| (request.start().unwrap_or(0.0), request.end(), weight(request, side));
                        of(request).into_iter().map(interval).collect::<Vec<_>>()
                    },
                    |intervals| Distribution::of_concurrency(intervals, None),
                ),
            ]
        };
        let (input, output): (Side, Side) = (|request| request.prompt, Request::completion);
        let mut found = nothing();
        for (name, sides) in [("input", vec![input]), ("output", vec![output]), ("total", vec![input, output])] {
            if sides.iter().all(|side| some(*side)) {
                let keys = [name.to_owned(), format!("{name}_per_second"), format!("{name}_concurrency")];
                keys.into_iter().zip(summary(&sides)).for_each(|(key, value)| found[key] = value);
            }
        }
        found
    }
}

/// A value of `inter_token_latency_ms` with its weight.
fn inter_token(request: &Request) -> (f64, f64) {
    (request.itl_ms().unwrap_or(0.0), request.output().unwrap_or(1).saturating_sub(1) as f64)
}

/// `GenerativeMetricsSummary` of what nothing is known of.
fn nothing() -> Value {
    let mut found = Map::new();
    for name in ["input", "output", "total"] {
        for part in ["", "_per_second", "_concurrency"] {
            found.insert(format!("{name}{part}"), Value::Null);
        }
    }
    Value::Object(found)
}

/// Requests in the statistics, in order of their trace.
fn requests(window: &MeasuredWindow) -> impl Iterator<Item = &Row> {
    let mut kept: Vec<&Row> = window.kept().collect();
    kept.sort_by_key(|row| row.trace_id);
    kept.into_iter()
}

/// `GenerativeBenchmark`.
fn benchmark(of: &Campaign, window: &MeasuredWindow, strategy: &Value, index: u32) -> Value {
    let bounds = &window.bounds;
    let measured = Measured::of(window, of.started_wall_ns, streamed(of));
    let (start, end) = measured.window;
    let kind = strategy["type_"].as_str().unwrap_or_default();
    let (scheduler, request_start) = scheduler(of, window, &measured, kind);
    let marks = marks::of(&of.run, bounds.cell, bounds.window);
    let warnings: Vec<Value> = marks
        .iter()
        .map(|mark| {
            json!({
                "code": "tarebench", "message": mark, "observed": 1.0, "threshold": 0.0, "unit": "boolean",
                "sample_count": measured.all().count(), "note": "",
            })
        })
        .collect();
    let none = json!({"percent": null, "value": null, "mode": "prefer_duration"});
    let mut benchmark = json!({
        "type_": "generative_benchmark",
        "config": {
            "id_": format!("{}/{}/{}", bounds.run, bounds.cell, bounds.window),
            "run_id": bounds.run,
            "run_index": index,
            "strategy": strategy,
            "constraints": {},
            "sample_size": null,
            "warmup": {"percent": null, "value": Some(bounds.drop).filter(|n| *n > 0), "mode": "requests"},
            "cooldown": none,
            "prefer_response_metrics": true,
            "slo": null,
            "confidence": null,
            "warnings": [],
            "profile": {"tarebench_load": bounds.load},
            "requests": {
                "tarebench_workload": of.plan.get("workload"), "trace_hash": bounds.trace_hash,
                "schedule_hash": bounds.schedule_hash,
            },
            "backend": {"model": model(of), "target": target(of), "request_format": request_format(of)},
            "environment": {
                "tarebench": of.run.tarebench,
                "tarebench_cell": bounds.cell,
                "tarebench_window": bounds.window,
                "tarebench_valid": marks::is_valid(&of.run, bounds.cell, bounds.window),
                "tarebench_marks": marks,
            },
        },
        "scheduler_state": {
            "node_id": 0,
            "num_processes": bounds.workers.len(),
            "start_time": scheduler["start_time"],
            "end_time": scheduler["end_time"],
            "start_requests_time": request_start,
            "end_requests_time": scheduler["request_end_time"],
            "end_queuing_time": null,
            "end_queuing_constraints": {},
            "end_processing_time": scheduler["end_time"],
            "end_processing_constraints": {},
            "scheduler_constraints": {},
            "progress": {
                "remaining_requests": null, "total_requests": null, "remaining_duration": null, "total_duration": null,
                "stop_time": null,
            },
            "created_requests": window.rows.len(),
            "queued_requests": 0,
            "pending_requests": 0,
            "processing_requests": 0,
            "processed_requests": scheduler["requests_made"]["total"],
            "successful_requests": scheduler["requests_made"]["successful"],
            "errored_requests": scheduler["requests_made"]["errored"],
            "cancelled_requests": scheduler["requests_made"]["incomplete"],
        },
        "scheduler_metrics": scheduler,
        "metrics": measured.metrics(matches!(kind, "poisson" | "constant" | "trace")),
        "requests": {
            "successful": list(&measured.successful),
            "incomplete": list(&measured.incomplete),
            "errored": list(&measured.errored),
            "total": null,
        },
        "warnings": warnings,
        "start_time": start,
        "end_time": end,
        "duration": end - start,
        "warmup_duration": start - request_start,
        "cooldown_duration": 0.0,
    });
    if let Some(per_s) = bounds.load.session_rate() {
        benchmark["config"]["environment"]["tarebench_session_rate"] = json!(per_s);
    }
    benchmark
}

fn list(requests: &[Request]) -> Vec<Value> {
    requests.iter().map(Request::json).collect()
}

/// `SchedulerMetrics`, and when the first request of the window was made, warm-up included.
fn scheduler(of: &Campaign, window: &MeasuredWindow, measured: &Measured, kind: &str) -> (Value, f64) {
    let at = |ns: u64| request::seconds(of.started_wall_ns + ns);
    let (start, end) = measured.window;
    let sent = || window.rows.iter().filter(|row| row.outcome != Outcome::NotSent);
    let first = sent().filter_map(|row| row.submit.or(row.taken)).min().map(at).unwrap_or(start).min(start);
    let made = |outcome| sent().filter(|row| row.outcome == outcome).count();
    // -1 stands there for no values, and for a mean of 0 as well
    let mean = |each: &dyn Fn(&Request) -> Option<f64>| {
        let values: Vec<f64> = measured.all().filter_map(each).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        if values.is_empty() || mean == 0.0 { -1.0 } else { mean }
    };
    let scheduler = json!({
        "start_time": at(window.bounds.opened),
        "request_start_time": first,
        "measure_start_time": start,
        "measure_end_time": end,
        "request_end_time": end,
        "end_time": at(window.bounds.closed),
        "requests_made": {
            "successful": made(Outcome::Ok),
            "incomplete": made(Outcome::Censored),
            "errored": made(Outcome::Failed),
            "total": sent().count(),
        },
        "generation_delay": Distribution::default().json(),
        "queued_time_avg": -1.0,
        "resolve_start_delay_avg": -1.0,
        "resolve_targeted_start_delay_avg": mean(&|request| Some(request.resolve_start? - request.targeted)),
        "request_start_delay_avg": mean(&|request| Some(request.request_start? - request.resolve_start?)),
        "request_targeted_start_delay_avg": mean(&Request::dispatch_delay),
        "request_time_avg": mean(&Request::latency),
        "resolve_end_delay_avg": mean(&|request| Some(request.resolve_end - request.request_end?)),
        "resolve_time_avg": mean(&|request| Some(request.resolve_end - request.resolve_start?)),
        "finalized_delay_avg": -1.0,
        "processed_delay_avg": -1.0,
        "dataset_incomplete": window.bounds.interrupted,
        "strategy_type": kind,
    });
    (scheduler, first)
}

/// What GuideLLM calls the streams of this window: its column `successful`.
pub fn terms(window: &MeasuredWindow) -> Vec<Term> {
    // a reply that was not streamed has no event before its end
    let streamed = window.ok().any(|row| row.first_token.is_some() && row.first_token != row.end);
    let measured = Measured::of(window, 0, streamed || window.ok().next().is_none());
    let ok = &measured.successful;
    let plain = |each: &dyn Fn(&Request) -> Option<f64>| {
        Distribution::of(&ok.iter().filter_map(each).map(|value| (value, 1.0)).collect::<Vec<_>>())
    };
    let weighted = |each: &dyn Fn(&Request) -> (f64, f64)| Distribution::of(&ok.iter().map(each).collect::<Vec<_>>());
    let term = |concept, name, definition, of: Distribution, scale: f64, unit| {
        let some = |value: f64| (of.count > 0).then_some(value * scale);
        Term {
            concept,
            tool: "GuideLLM",
            name,
            definition,
            n: of.count,
            mean: some(of.mean),
            p50: some(of.percentile("p50")),
            p99: some(of.percentile("p99")),
            unit,
        }
    };
    let rates = |each: &dyn Fn(&Request) -> Vec<(f64, f64)>| {
        Distribution::of_rates(&ok.iter().flat_map(each).collect::<Vec<_>>(), Some(measured.window))
    };
    vec![
        term(
            terms::START,
            "request_dispatch_delay",
            "head of the request about to be written, on an open connection (here: submit) - when it was due; null there in \
             a closed loop",
            plain(&Request::dispatch_delay),
            1e3,
            "ms",
        ),
        term(
            terms::TTFT,
            "time_to_first_token_ms",
            "first line with text, reasoning or tool call (here: first token event) - start",
            plain(&Request::ttft_ms),
            1.0,
            "ms",
        ),
        term(
            terms::FIRST_ANSWER,
            "time_to_first_output_token_ms",
            "first line with more than reasoning (here: first answer text) - start",
            plain(&Request::ttfo_ms),
            1.0,
            "ms",
        ),
        term(terms::GAP, "none", "single gaps are not kept there", Distribution::default(), 1.0, "ms"),
        term(
            terms::TPOT,
            "inter_token_latency_ms",
            "one mean a request: (last token - first token) / (output tokens - 1); weighted by output tokens - 1",
            weighted(&inter_token),
            1.0,
            "ms",
        ),
        term(
            terms::TPOT,
            "time_per_output_token_ms",
            "(last token - start) / output tokens, the first token's time included; weighted by output tokens",
            weighted(&|request| (request.tpot_ms().unwrap_or(0.0), request.output().unwrap_or(0) as f64)),
            1.0,
            "ms",
        ),
        term(
            terms::E2E,
            "request_latency",
            "stream left at [DONE], else at the end of the body - start",
            plain(&Request::latency),
            1e3,
            "ms",
        ),
        term(
            terms::OUTPUT_TOKENS,
            "output_token_count",
            "server's usage, else token events",
            plain(&|request| Some(request.output().unwrap_or(0) as f64)),
            1.0,
            "tokens",
        ),
        term(
            terms::THROUGHPUT,
            "output_tokens_per_second",
            "tokens spread evenly from first to last token event, over half the time to their neighbours; weighted by time, \
             from the first start to the last end. Percentiles are of time, n is of tokens",
            rates(&Request::output_timings),
            1.0,
            "tokens/s",
        ),
    ]
}

#[cfg(test)]
mod tests;
