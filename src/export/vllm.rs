//! `vllm bench serve --save-result --save-detailed`, as vLLM 0.32 writes it (`vllm/benchmarks/serve.py`,
//! `lib/endpoint_request_func.py`, backend `openai-chat` or `openai`): one JSON a window.
//!
//! How its definitions are followed, and where rows do not hold what they need:
//!
//! - **Start** (`start_times`) is taken there before the request is made and before a connection is opened: here `taken`,
//!   when a worker took the request up, or `due` where a worker held it ready for a due still to come. The times are
//!   CLOCK_MONOTONIC in s, which Python's `perf_counter` reads too.
//! - **TTFT** ends there with the first chunk with non-empty `choices`, one with the role alone too: here `first_event`, the
//!   first data event. A first event without choices (filter results of some gateways) cannot be told from it.
//! - **ITL** is there the time between two consecutive chunks with choices, whichever choice they belong to: here between
//!   that first event and each token event in order. Chunks that are no token event and not the first one (finish reason
//!   alone, empty text) have no stamps in rows: they are left out, and end no request. Chunks of one read are apart there
//!   by the time of parsing, here by 0.
//! - **E2EL** is the last such chunk - start. **TPOT** is (E2EL - TTFT) / (tokens - 1), of requests with more than one.
//! - **Output tokens** are the server's usage. Without it vLLM counts the text by a tokenizer; texts are not kept here, so
//!   the token events are counted, and `tarebench_output_lens_from_events` says for how many requests.
//! - **Input tokens**: usage, else the length asked for. **generated_texts** are empty: texts are not kept.
//! - **Requests** are those that are not warm-up and were sent, by trace id. What failed here counts as failed, also a stream
//!   cut short, which vLLM would count as completed; a request that was running when the window closed is failed with
//!   the error `censored`, since vLLM waits for all.
//! - **Duration** runs from the first start to the last end of these requests: vLLM's warm-up comes before its clock.
//! - **queue_times** are start - due: how long a request waited for a free slot. In a closed loop a request is due when its
//!   slot became free, so there they are near 0 where vLLM, which hands all over at once, has the whole wait.
//! - Percentiles are numpy's whatever n is, standard deviations over n. Where nothing was answered, vLLM's figures are 0.
//! - A reply that was not streamed is one chunk at its end: TTFT is E2EL.
//! - **Conversations** (`mode` and what follows it) have the keys of the Rust front end (`multi-turn`); the Python one has none.
//!   There every conversation has the same number of turns and the same delay: here the most turns and the mean pause. A
//!   conversation that was cut off by the end of the window counts as failed.
//! - **Sessions that arrive** at a rate have the `request_rate` of none, `inf`: their turns follow replies. The rate of
//!   sessions is `tarebench_session_rate`.
//! - `request_goodput` is null, as without `--goodput`: its limits would be held against other stamps than those that the
//!   goals of the plan were fixed for.
//!
//! Keys that begin with `tarebench_` stand where `--metadata` puts its own; `tarebench_marks` has what `run.json` withholds.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::measured::{Campaign, MeasuredWindow};
use super::terms::{self, Term};
use super::{Exported, Exporter, file_part, marks, numpy};
use crate::campaign::timestamp;
use crate::reading::printable;
use crate::rundir::row::{Outcome, Row, Turn};

/// `--metric-percentiles`, in percent.
const PERCENTILES: [(u32, usize); 4] = [(50, 1), (90, 10), (95, 20), (99, 100)];

/// The format.
#[derive(Debug, Default)]
pub struct Format;

impl Exporter for Format {
    fn window(&mut self, of: &Campaign, window: &MeasuredWindow) -> anyhow::Result<Vec<Exported>> {
        let (name, document) = document(of, window);
        Ok(vec![Exported { name, text: serde_json::to_string(&document)? }])
    }

    fn finish(&mut self, _of: &Campaign) -> anyhow::Result<Vec<Exported>> {
        Ok(Vec::new())
    }
}

/// What vLLM keeps of a request, in s.
#[derive(Clone, Debug, PartialEq)]
struct Reply {
    start: f64,
    queue: f64,
    ttft: f64,
    itl: Vec<f64>,
    latency: f64,
    ok: bool,
    input: u64,
    output: u64,
    from_events: bool,
    error: String,
}

/// `RequestFuncOutput` of a row; `origin` is what its zero is on the clock of starts, in ns.
fn reply(row: &Row, origin: u64) -> Reply {
    let start = start(row);
    let since = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e9;
    let chunks = chunks(row);
    let ok = row.outcome == Outcome::Ok;
    let first = chunks.first().copied().unwrap_or(start);
    let last = chunks.last().copied().unwrap_or(start);
    let answered = row.http_status == Some(200);
    Reply {
        start: origin.saturating_add(start) as f64 / 1e9,
        queue: since(row.due, start),
        ttft: if answered { since(start, first) } else { 0.0 },
        itl: if answered { chunks.windows(2).map(|pair| since(pair[0], pair[1])).collect() } else { Vec::new() },
        // there it is set after the last chunk: an exception leaves it at 0
        latency: if ok { since(start, last) } else { 0.0 },
        ok,
        input: row.prompt_tokens.filter(|_| ok).unwrap_or(row.asked_prompt_tokens),
        output: if ok { row.completion_tokens.unwrap_or(u64::from(row.token_events)) } else { 0 },
        from_events: ok && row.completion_tokens.is_none(),
        error: match (&row.error, row.outcome) {
            (_, Outcome::Ok) => String::new(),
            (Some(error), _) => printable(&format!("{}: {}", error.class, error.text), None),
            (None, Outcome::Censored) => "censored: still running when the window closed".into(),
            (None, _) => "failed".into(),
        },
    }
}

/// When vLLM's clock of the request would start.
fn start(row: &Row) -> u64 {
    row.taken.or(row.submit).unwrap_or(row.due).max(row.due)
}

/// When each chunk with choices that rows have a stamp for was seen.
fn chunks(row: &Row) -> Vec<u64> {
    let tokens = row.chunks.iter().map(|chunk| chunk.0);
    // a first event in the same read as the first token, with the same bounds, may be that token: it is not counted twice
    let apart = row.first_event.filter(|event| Some(*event) != row.first_token);
    let seen: Vec<u64> = apart.map(|event| event.seen).into_iter().chain(tokens).collect();
    match (seen.is_empty(), row.last_token.or(row.first_event)) {
        // not streamed: the document is one chunk
        (true, Some(whole)) => vec![whole.seen],
        _ => seen,
    }
}

/// The requests that vLLM would have: sent, not warm-up, in the order in which they were made.
fn requests(window: &MeasuredWindow) -> Vec<&Row> {
    let mut kept: Vec<&Row> = window.kept().collect();
    kept.sort_by_key(|row| row.trace_id);
    kept
}

fn replies(window: &MeasuredWindow, origin: u64) -> Vec<Reply> {
    requests(window).into_iter().map(|row| reply(row, origin)).collect()
}

/// From the first start to the last end, in s.
fn duration(window: &MeasuredWindow) -> f64 {
    let kept = requests(window);
    let end = |row: &&Row| match row.outcome {
        Outcome::Censored => Some(window.bounds.closed),
        _ => [row.end, row.last_token].into_iter().flatten().map(|stamp| stamp.seen).max(),
    };
    let first = kept.iter().map(|row| start(row)).min();
    let last = kept.iter().filter_map(end).max().unwrap_or(window.bounds.closed);
    first.map_or(0.0, |first| last.saturating_sub(first) as f64 / 1e9)
}

/// The values of the four metrics over the completed requests, in s.
struct Values {
    ttft: Vec<f64>,
    tpot: Vec<f64>,
    itl: Vec<f64>,
    e2el: Vec<f64>,
}

impl Values {
    fn of(replies: &[Reply]) -> Values {
        let ok = || replies.iter().filter(|reply| reply.ok);
        let several = ok().filter(|reply| reply.output > 1);
        Values {
            ttft: ok().map(|reply| reply.ttft).collect(),
            tpot: several.map(|reply| (reply.latency - reply.ttft) / (reply.output - 1) as f64).collect(),
            itl: ok().flat_map(|reply| reply.itl.iter().copied()).collect(),
            e2el: ok().map(|reply| reply.latency).collect(),
        }
    }

    fn named(&self) -> [(&'static str, &[f64]); 4] {
        [("ttft", &self.ttft), ("tpot", &self.tpot), ("itl", &self.itl), ("e2el", &self.e2el)]
    }
}

/// Most chunks, and most requests, in one of the seconds since the first start.
fn peaks(replies: &[Reply]) -> (f64, u64) {
    let ok = || replies.iter().filter(|reply| reply.ok);
    let Some(first) = ok().map(|reply| reply.start).reduce(f64::min) else { return (0.0, 0) };
    let last = ok().map(|reply| reply.start + reply.latency).fold(first, f64::max);
    let seconds = (last - first).ceil() as usize + 1;
    let (mut chunks, mut requests) = (vec![0_u64; seconds], vec![0_u64; seconds]);
    for reply in ok() {
        let mut at = reply.start + reply.ttft;
        let mut count = |at: f64| {
            if let Some(second) = chunks.get_mut((at - first) as usize) {
                *second += 1;
            }
        };
        count(at);
        for gap in &reply.itl {
            at += gap;
            count(at);
        }
        let (from, to) = ((reply.start - first) as usize, (reply.start + reply.latency - first) as usize);
        requests.iter_mut().take(to + 1).skip(from).for_each(|second| *second += 1);
    }
    (chunks.into_iter().max().unwrap_or(0) as f64, requests.into_iter().max().unwrap_or(0))
}

fn document(of: &Campaign, window: &MeasuredWindow) -> (String, Map<String, Value>) {
    let bounds = &window.bounds;
    let replies = replies(window, of.started_monotonic_ns());
    let values = Values::of(&replies);
    let seconds = duration(window);
    let completed = replies.iter().filter(|reply| reply.ok).count();
    let input: u64 = replies.iter().filter(|reply| reply.ok).fold(0, |sum, reply| sum.saturating_add(reply.input));
    let output: u64 = replies.iter().fold(0, |sum, reply| sum.saturating_add(reply.output));
    let per_second = |count: f64| if seconds > 0.0 { count / seconds } else { 0.0 };
    let (chunk_peak, request_peak) = peaks(&replies);
    let each = |figure: fn(&Reply) -> Value| Value::from(replies.iter().map(figure).collect::<Vec<_>>());

    let backend = if of.plan.get("api").and_then(Value::as_str) == Some("chat") { "openai-chat" } else { "openai" };
    let label = format!("cell{}-window{}", bounds.cell, bounds.window);
    let date = date(of.started_wall_ns.saturating_add(bounds.closed));
    let rate = bounds.load.request_rate().map_or(json!("inf"), Value::from);
    let burstiness = of.plan.pointer(&format!("/cells/{}/burstiness", bounds.cell)).and_then(Value::as_f64);
    let mut document = Map::new();
    let mut put = |key: &str, value: Value| {
        document.insert(key.to_owned(), value);
    };
    put("date", json!(date));
    put("endpoint_type", json!(backend));
    put("backend", json!(backend));
    put("label", json!(label));
    put("model_id", json!(of.model()));
    put("tokenizer_id", json!(of.model()));
    put("num_prompts", json!(replies.len()));
    for (key, value) in metadata(of, window, &replies) {
        put(key, value);
    }
    put("request_rate", rate.clone());
    put("burstiness", json!(burstiness.unwrap_or(1.0)));
    put("max_concurrency", json!(bounds.load.concurrency));
    put("duration", json!(seconds));
    put("completed", json!(completed));
    put("failed", json!(replies.len() - completed));
    put("total_input_tokens", json!(input));
    put("total_output_tokens", json!(output));
    put("request_throughput", json!(per_second(completed as f64)));
    put("request_goodput", Value::Null);
    put("output_throughput", json!(per_second(output as f64)));
    put("total_token_throughput", json!(per_second(input.saturating_add(output) as f64)));
    put("input_lens", each(|reply| json!(reply.input)));
    put("output_lens", each(|reply| json!(reply.output)));
    put("ttfts", each(|reply| json!(reply.ttft)));
    put("itls", each(|reply| json!(reply.itl)));
    put("latencies", each(|reply| json!(reply.latency)));
    put("start_times", each(|reply| json!(reply.start)));
    put("queue_times", each(|reply| json!(reply.queue)));
    put("generated_texts", each(|_| json!("")));
    put("errors", each(|reply| json!(reply.error)));
    put("max_output_tokens_per_s", json!(chunk_peak));
    put("max_concurrent_requests", json!(request_peak));
    put("rtfx", json!(0.0));
    for (key, value) in multi_turn(window, of.started_monotonic_ns()) {
        put(key, value);
    }
    for (name, of) in values.named() {
        put(&format!("mean_{name}_ms"), json!(numpy::mean(of) * 1e3));
        put(&format!("median_{name}_ms"), json!(numpy::percentile(of, 50.0) * 1e3));
        put(&format!("std_{name}_ms"), json!(numpy::std(of) * 1e3));
        for (q, _) in PERCENTILES {
            put(&format!("p{q}_{name}_ms"), json!(numpy::percentile(of, f64::from(q)) * 1e3));
        }
    }
    let rate = rate.as_f64().map_or_else(|| "inf".to_owned(), |rate| format!("{rate:?}"));
    let at_most = bounds.load.concurrency.map_or_else(String::new, |n| format!("-concurrency{n}"));
    let model = file_part(of.model().rsplit('/').next().unwrap_or_default());
    (format!("{label}-{rate}qps{at_most}-{model}-{date}.json"), document)
}

/// `%Y%m%d-%H%M%S`, UTC.
fn date(wall_ns: u64) -> String {
    timestamp(wall_ns).replace('-', "").replace('T', "-")
}

fn metadata(of: &Campaign, window: &MeasuredWindow, replies: &[Reply]) -> Vec<(&'static str, Value)> {
    let bounds = &window.bounds;
    let mut marks = marks::of(&of.run, bounds.cell, bounds.window);
    let ok = replies.iter().filter(|reply| reply.ok).count();
    for (q, smallest) in PERCENTILES.into_iter().filter(|(_, smallest)| ok < *smallest) {
        marks.push(format!("p{q}_*_ms: of {ok} requests, and run.json gives none below {smallest}"));
    }
    if !of.streamed() {
        marks.push("not streamed: TTFT is the time to the whole reply".into());
    }
    let not_sent = window.rows.iter().filter(|row| row.outcome == Outcome::NotSent).count();
    let censored = window.kept().filter(|row| row.outcome == Outcome::Censored).count();
    let from_events = replies.iter().filter(|reply| reply.from_events).count();
    vec![
        ("tarebench", json!(of.run.tarebench)),
        ("tarebench_run", json!(of.run.run_id)),
        ("tarebench_plan_hash", json!(of.run.plan_hash)),
        ("tarebench_cell", json!(bounds.cell)),
        ("tarebench_window", json!(bounds.window)),
        ("tarebench_valid", json!(marks::is_valid(&of.run, bounds.cell, bounds.window))),
        ("tarebench_marks", json!(marks.join("; "))),
        ("tarebench_not_sent", json!(not_sent)),
        ("tarebench_censored", json!(censored)),
        ("tarebench_output_lens_from_events", json!(from_events)),
    ]
    .into_iter()
    .chain(bounds.load.session_rate().map(|per_s| ("tarebench_session_rate", json!(per_s))))
    .collect()
}

/// What the Rust front end of `vllm bench serve` writes of conversations beside the figures of all turns
/// (`rust/src/bench`, mode `multi-turn`): the kept sessions of this window. Nothing where requests stand alone.
fn multi_turn(window: &MeasuredWindow, origin: u64) -> Vec<(&'static str, Value)> {
    let bounds = &window.bounds;
    let Some(asked) = &bounds.load.sessions else { return Vec::new() };
    let mut by_session: BTreeMap<u64, Vec<(&Turn, &Row)>> = BTreeMap::new();
    let mut by_turn: BTreeMap<u32, Vec<Reply>> = BTreeMap::new();
    for row in requests(window) {
        let Some(turn) = &row.session else { continue };
        by_session.entry(turn.id).or_default().push((turn, row));
        by_turn.entry(turn.turn).or_default().push(reply(row, origin));
    }
    let whole = |turns: &[(&Turn, &Row)]| {
        turns.iter().all(|(turn, row)| row.outcome == Outcome::Ok && turn.turns as usize == turns.len())
    };
    let completed = by_session.values().filter(|turns| whole(turns)).count();
    let mean = |of: &mut dyn Iterator<Item = f64>| numpy::mean(&of.collect::<Vec<f64>>());
    // from the first start to the last end, pauses included
    let lasted = |turns: &Vec<(&Turn, &Row)>| {
        let from = turns.iter().map(|(_, row)| start(row)).min().unwrap_or_default();
        let ends = turns.iter().filter_map(|(_, row)| row.end.or(row.last_token)).map(|stamp| stamp.seen);
        ends.max().unwrap_or(from).saturating_sub(from) as f64 / 1e6
    };
    let pauses = by_session.values().flatten().filter(|(turn, _)| turn.turn > 0);
    let seconds = duration(window);
    let per_turn = by_turn.iter().map(|(place, replies)| turn_metrics(*place, replies, seconds)).collect::<Vec<_>>();
    vec![
        ("mode", json!("multi-turn")),
        ("num_conversations", json!(by_session.len())),
        ("turns_per_conversation", json!(asked.turns[1])),
        ("multi_turn_concurrency", json!(bounds.load.concurrency)),
        ("inter_turn_delay_ms", json!(mean(&mut pauses.map(|(turn, _)| turn.pause as f64 / 1e6)))),
        ("conversations_completed", json!(completed)),
        ("conversations_failed", json!(by_session.len() - completed)),
        ("avg_turns_completed", json!(mean(&mut by_session.values().map(|turns| turns.len() as f64)))),
        ("avg_conversation_duration_ms", json!(mean(&mut by_session.values().map(lasted)))),
        ("per_turn_metrics", Value::Array(per_turn)),
    ]
}

/// The figures of one turn of all conversations, rates over the whole time as there.
fn turn_metrics(place: u32, replies: &[Reply], seconds: f64) -> Value {
    let completed = replies.iter().filter(|reply| reply.ok).count();
    let input: u64 = replies.iter().filter(|reply| reply.ok).fold(0, |sum, reply| sum.saturating_add(reply.input));
    let output: u64 = replies.iter().fold(0, |sum, reply| sum.saturating_add(reply.output));
    let per_second = |n: f64| if seconds > 0.0 { n / seconds } else { 0.0 };
    let mut turn = json!({
        "turn_index": place, "num_samples": replies.len(), "completed": completed, "failed": replies.len() - completed,
        "total_input_tokens": input, "total_output_tokens": output,
        "request_throughput": per_second(completed as f64), "input_throughput": per_second(input as f64),
        "output_throughput": per_second(output as f64),
        "total_token_throughput": per_second(input.saturating_add(output) as f64),
    });
    for (name, of) in Values::of(replies).named() {
        turn[format!("mean_{name}_ms")] = json!(numpy::mean(of) * 1e3);
        turn[format!("median_{name}_ms")] = json!(numpy::percentile(of, 50.0) * 1e3);
        turn[format!("std_{name}_ms")] = json!(numpy::std(of) * 1e3);
        for (q, _) in PERCENTILES {
            turn[format!("p{q}_{name}_ms")] = json!(numpy::percentile(of, f64::from(q)) * 1e3);
        }
    }
    turn
}

/// What vLLM calls the streams of this window.
pub fn terms(window: &MeasuredWindow) -> Vec<Term> {
    let replies = replies(window, 0);
    let values = Values::of(&replies);
    let seconds = duration(window);
    let lengths: Vec<f64> = replies.iter().filter(|reply| reply.ok).map(|reply| reply.output as f64).collect();
    let queues: Vec<f64> = replies.iter().filter(|reply| reply.ok).map(|reply| reply.queue).collect();
    let term = |concept, name, definition, values: &[f64], scale: f64, unit| Term {
        concept,
        tool: "vLLM bench serve",
        name,
        definition,
        n: values.len() as u64,
        mean: (!values.is_empty()).then(|| numpy::mean(values) * scale),
        p50: (!values.is_empty()).then(|| numpy::percentile(values, 50.0) * scale),
        p99: (!values.is_empty()).then(|| numpy::percentile(values, 99.0) * scale),
        unit,
    };
    let total: f64 = lengths.iter().sum();
    vec![
        term(
            terms::START,
            "client_queue_time",
            "before the request is made and a connection is opened, when a slot is free (here: taken) - when it was due",
            &queues,
            1e3,
            "ms",
        ),
        term(
            terms::TTFT,
            "ttft",
            "first chunk with choices, role-only too (here: first data event) - start",
            &values.ttft,
            1e3,
            "ms",
        ),
        term(
            terms::GAP,
            "itl",
            "between consecutive chunks with choices, whichever choice; all pooled (here: first event and token events)",
            &values.itl,
            1e3,
            "ms",
        ),
        term(terms::TPOT, "tpot", "(e2el - ttft) / (output tokens - 1), of more than one", &values.tpot, 1e3, "ms"),
        term(terms::E2E, "e2el", "last chunk with choices (here: last token event) - start", &values.e2el, 1e3, "ms"),
        term(
            terms::OUTPUT_TOKENS,
            "output_lens",
            "server's usage, else a tokenizer's count of the text (here: else token events)",
            &lengths,
            1.0,
            "tokens",
        ),
        Term {
            mean: (seconds > 0.0).then(|| total / seconds),
            p50: None,
            p99: None,
            ..term(
                terms::THROUGHPUT,
                "output_throughput",
                "output tokens of completed requests / from the first start to the last end",
                &lengths,
                1.0,
                "tokens/s",
            )
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::specimen::{MS, Specimen, failed, request, stamp};
    use crate::export::measured::each_window;
    use serde_json::json;

    /// What `vllm bench serve` would have written of the first window.
    fn exported(mut specimen: Specimen) -> (String, Value) {
        let dir = tempfile::tempdir().unwrap();
        specimen.plan["started_at"] = "2026-01-01T00-00-00".into();
        specimen.write(dir.path());
        let of = Campaign::of_directory(dir.path()).unwrap();
        let mut files = Vec::new();
        each_window(
            dir.path(),
            |bounds| bounds.window == 0,
            |window| {
                files.extend(Format.window(&of, &window)?);
                Ok(())
            },
        )
        .unwrap();
        let Exported { name, text } = files.remove(0);
        (name, serde_json::from_str(&text).unwrap())
    }

    #[test]
    fn figures_of_a_known_window() {
        let mut specimen = Specimen::calm(2);
        specimen.windows[0].1.truncate(2);
        specimen.plan["environment"] = json!({"origin_monotonic_ns": 5_000_000_000_u64});
        specimen.plan["model"] = "org/../a b\"\u{202e}".into();
        specimen.plan["api"] = "chat".into();
        let (name, of) = exported(specimen);
        assert_eq!(name, "cell0-window0-infqps-concurrency1-a-b---20260101-000003.json");
        // taken at 5 us; chunks seen at 5.040, 6.040 and 8.140 ms; the second request 10 ms later
        assert_eq!(of["ttfts"], json!([0.005035, 0.005035]));
        assert_eq!(of["itls"], json!([[0.001, 0.0021], [0.001, 0.0021]]));
        assert_eq!(of["latencies"], json!([0.008135, 0.008135]));
        assert_eq!(of["start_times"], json!([6.000005, 6.010005]));
        assert_eq!(of["duration"], 0.018135);
        let near = |key: &str, value: f64| {
            let found = of[key].as_f64().unwrap();
            assert!((found - value).abs() < 1e-9, "{key}: {found}");
        };
        near("mean_ttft_ms", 5.035);
        near("median_itl_ms", 1.55);
        near("p90_itl_ms", 2.1);
        near("std_itl_ms", 0.55);
        near("mean_tpot_ms", 1.55);
        near("request_throughput", 2.0 / 0.018135);
        near("output_throughput", 6.0 / 0.018135);
        assert_eq!((&of["max_output_tokens_per_s"], &of["max_concurrent_requests"]), (&json!(6.0), &json!(2)));
        assert_eq!((&of["request_rate"], &of["model_id"]), (&json!("inf"), &json!("org/../a b\"\u{202e}")));
    }

    #[test]
    fn a_role_alone_ends_the_time_to_the_first_token() {
        let mut specimen = Specimen::calm(2);
        specimen.windows[0].1.truncate(1);
        specimen.windows[0].1[0].first_event = Some(stamp(1_002 * MS, 0));
        let (_, of) = exported(specimen);
        assert_eq!(of["ttfts"], json!([0.001995]));
        assert_eq!(of["itls"], json!([[0.00304, 0.001, 0.0021]]));
    }

    #[test]
    fn a_request_held_ready_starts_when_it_is_due() {
        let mut row = request(3, 100 * MS);
        row.taken = Some(20 * MS);
        assert_eq!(start(&row), 100 * MS);
    }

    #[test]
    fn what_was_not_streamed_is_one_chunk() {
        let mut specimen = Specimen::calm(2);
        specimen.windows[0].1.truncate(1);
        specimen.plan["stream"] = false.into();
        let row = &mut specimen.windows[0].1[0];
        (row.first_token, row.first_answer, row.chunks) = (None, None, Vec::new());
        row.first_event = row.last_token;
        let (_, of) = exported(specimen);
        assert_eq!((&of["ttfts"], &of["itls"]), (&json!([0.008135]), &json!([[]])));
        assert!(of["tarebench_marks"].as_str().unwrap().contains("not streamed"));
    }

    #[test]
    fn nothing_answered_is_zeros_and_a_mark() {
        let mut specimen = Specimen::calm(2);
        for row in &mut specimen.windows[0].1 {
            *row = failed(row.clone(), "transport");
        }
        let (_, of) = exported(specimen);
        assert_eq!((&of["completed"], &of["failed"], &of["p99_ttft_ms"]), (&json!(0), &json!(100), &json!(0.0)));
        assert_eq!(of["tarebench_valid"], false);
    }

    #[test]
    fn conversations_have_the_keys_of_the_rust_front_end() {
        let (_, document) = exported(Specimen::sessions(Some(3), 40));
        let told =
            ["mode", "num_conversations", "turns_per_conversation", "multi_turn_concurrency", "inter_turn_delay_ms"];
        let told = told.map(|key| document[key].clone());
        assert_eq!(told, [json!("multi-turn"), json!(36), json!(4), json!(3), json!(7.0)]);
        assert_eq!((&document["conversations_completed"], &document["conversations_failed"]), (&json!(34), &json!(2)));
        let turns = document["per_turn_metrics"].as_array().unwrap();
        let samples: u64 = turns.iter().filter_map(|turn| turn["num_samples"].as_u64()).sum();
        assert_eq!((turns.len(), Some(samples)), (4, document["num_prompts"].as_u64()));
        assert_eq!(turns[1]["total_input_tokens"], json!(47 * 34), "of 36 second turns one failed, one was cut off");
        let (_, alone) = exported(Specimen::two_windows());
        assert_eq!(alone["mode"], Value::Null);
    }
}
