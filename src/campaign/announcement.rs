//! What is said and written before the first request: the plan, the environment, what it will take.

use super::canary::Canary;
use super::length_probe::Lengths;
use super::server::Server;
use super::{Cores, Voice, environment};
use crate::analysis::definitions::wording::nominal;
use crate::cli::Connection;
use crate::lettering::legible;
use crate::load_point::{ASSUMED_TOKENS_PER_S, Cell, OpenLoop};
use crate::plan::Plan;
use crate::reading::printable;
use crate::target::address::Target;
use crate::target::metrics_source::MetricsSource;
use crate::trace::replay::Replay;
use crate::workload::ids::PromptForm;
use bench_engine::engine::WorkerInfo;
use bench_engine::io::capabilities::Capabilities;
use bench_engine::io::uring::RingError;
use bench_engine::record::BLOCK_BYTES;
use bench_engine::units::Instant;
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;

/// Facts found out before the first request.
pub(super) struct RunFacts<'a> {
    pub(super) plan: &'a Plan,
    pub(super) server: &'a Server,
    pub(super) canary: Option<&'a Canary>,
    pub(super) lengths: &'a Lengths,
    pub(super) found: &'a Capabilities,
    /// Why the default arm is not used.
    pub(super) refused: Option<&'a RingError>,
    pub(super) workers: &'a [WorkerInfo],
    pub(super) cores: &'a Cores,
    pub(super) origin: Instant,
    pub(super) blocks: usize,
}

impl RunFacts<'_> {
    pub(super) fn environment(&self) -> Value {
        let target = &self.server.target;
        let mut environment = environment::facts();
        let more = json!({
            "origin_monotonic_ns": self.origin.ns(),
            "loopback": target.is_loopback(),
            "built_in_mock": self.server.mock.is_some(),
            "base_url": target.base_url,
            "address": target.address.to_string(),
            "addresses": target.used.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "resolved": target.resolved.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "server": self.server.identity,
            "network": self.server.route,
            "tls": self.server.route.as_ref().and_then(|route| route.tls.as_ref()),
            "metrics": MetricsSource::facts(&self.server.metrics),
            "arm": {
                "asked": self.plan.arm_by_name.then_some(self.plan.arm),
                "used": self.found.driver.to_string(),
                "refused": self.refused.map(ToString::to_string),
            },
            "stamps": if self.found.stamps { "kernel" } else { "user" },
            "workers": self.workers.iter().map(|w| json!({"worker": w.index, "core": w.core})).collect::<Vec<_>>(),
            "control_core": self.cores.control,
            "receive_pool_bytes": self.workers.iter().map(|w| w.receive_pool_bytes).sum::<usize>(),
            "canary": self.canary.map(Canary::facts),
            "record_pool_bytes": self.blocks * BLOCK_BYTES,
        });
        if let (Value::Object(fields), Value::Object(more)) = (&mut environment, more) {
            fields.extend(more);
        }
        environment
    }
}

/// `plan.json`. What stands between `model` and `environment` is the plan that `plan_hash` covers.
#[allow(clippy::too_many_arguments)] // the document has no other maker
pub(super) fn plan_document(
    of: &Plan,
    run_id: &str,
    started_at: &str,
    model: &str,
    environment: Value,
    gauge: Value,
    calibration: &Value,
    interleave: &Value,
) -> anyhow::Result<String> {
    let mut document = json!({
        "schema": "tarebench.plan/1",
        "tarebench": crate::cli::VERSION,
        "run_id": run_id,
        "plan_hash": of.hash(model),
        "started_at": started_at,
        "model": model,
    });
    if let (Value::Object(fields), Value::Object(plan)) = (&mut document, serde_json::to_value(of)?) {
        fields.extend(plan);
        fields.insert("environment".to_owned(), environment);
        fields.insert("gauge".to_owned(), gauge);
        fields.insert("calibration".to_owned(), calibration.clone());
        if let Some(captured) = of.workload.lengths.captured() {
            // where it was read and how it was known decides nothing that is sent
            let source = json!({"file": captured.file, "format_known_by": captured.known_by});
            fields.insert("trace_source".to_owned(), source);
        }
        if !interleave.is_null() {
            fields.insert("interleave".to_owned(), interleave.clone());
        }
    }
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

/// Everything that decides the run, in a few lines.
pub(super) fn announce(plan: &Plan, facts: &RunFacts<'_>, dir: &Path, voice: &Voice) {
    let server = facts.server;
    let what = if server.mock.is_some() { "built-in mock, TTFT 5 ms, 1 ms a token, at " } else { "" };
    let version = server.identity.version.as_ref().map(|v| format!(", version {v}")).unwrap_or_default();
    voice.say(format!(
        "server   {what}{} ({}), model {}{version}",
        server.target.base_url,
        addresses(&server.target),
        legible(&printable(&server.model, None))
    ));
    if let Some(route) = &server.route {
        voice.say(format!("network  {}", route.words()));
        if let Some(tls) = &route.tls {
            voice.say(format!("tls      {}", tls.words()));
        }
    }
    voice.say(format!("metrics  {}", MetricsSource::words(&server.metrics)));
    load(plan).into_iter().for_each(|line| voice.say(line));
    on_purpose(plan).into_iter().for_each(|line| voice.say(line));
    let cap = plan.workload.max_tokens.map(|n| format!(", outputs {n}")).unwrap_or_default();
    let form = match plan.workload.prompt_form {
        PromptForm::Text => String::new(),
        PromptForm::Ids(range) => format!("; token ids of {range}"),
    };
    let (mean_in, mean_out) = mean_lengths(plan);
    voice.say(format!(
        "work     {}{cap}, mean {mean_in:.0} in and {mean_out:.0} out; seed {}; temperature {}, top_p {}{form}; {}",
        plan.workload.words(),
        plan.workload.seed,
        plan.temperature,
        plan.top_p,
        first_words(plan),
    ));
    remarks(plan, voice);
    facts.lengths.tell(plan.tokenizer.as_ref(), voice);
    let stamps = if facts.found.stamps { "kernel stamps" } else { "user stamps only: no net, no tare" };
    let on: Vec<String> = facts.workers.iter().map(|w| w.core.to_string()).collect();
    let control = match facts.cores.control {
        Some(core) => format!("control and records on core {core}"),
        None => "WARNING: no core is left for control and records, they share the workers'".to_owned(),
    };
    voice.say(format!(
        "harness  {}, {} worker(s) on core {}, {control}; {stamps}; pools {} KiB receive, {} KiB record",
        facts.found.driver,
        facts.workers.len(),
        on.join(", "),
        facts.workers.iter().map(|w| w.receive_pool_bytes).sum::<usize>() / 1024,
        facts.blocks * BLOCK_BYTES / 1024,
    ));
    if plan.tls.is_some() {
        voice.say(
            "         TLS allocates memory on the workers while a window runs; what it costs is in tare and lateness"
                .to_owned(),
        );
    }
    if let Some(canary) = facts.canary {
        voice.say(format!("canary   {}", canary.words()));
    }
    voice.say(format!("records  {}", dir.display()));
}

/// The addresses that connections take: `10.0.0.1:80`, `10.0.0.1:80, 10.0.0.2:80 in turn (of 3 resolved)`.
fn addresses(target: &Target) -> String {
    let list: Vec<String> = target.used.iter().map(ToString::to_string).collect();
    let turn = if list.len() > 1 { " in turn" } else { "" };
    let others = match target.resolved.len() - list.len() {
        0 => String::new(),
        n => format!(", {n} more resolved and not used"),
    };
    format!("{}{turn}{others}", list.join(", "))
}

/// What is done in every window, and when.
fn on_purpose(plan: &Plan) -> Vec<String> {
    let lines = plan.injections.iter().enumerate();
    lines
        .map(|(i, injection)| {
            let head = if i == 0 { "purpose " } else { "        " };
            format!("{head} in every window: {}", printable(&injection.to_string(), None))
        })
        .collect()
}

/// What the workload has to say of itself.
fn remarks(plan: &Plan, voice: &Voice) {
    match plan.workload.remarks(plan.drop, plan.num_prompts, plan.most_measured()) {
        Ok(said) => said.iter().for_each(|words| voice.say(format!("         {words}"))),
        // the window that needs the file will fail by it
        Err(error) => voice.say(format!("WARNING: {error}")),
    }
}

/// How prompts begin.
fn first_words(plan: &Plan) -> String {
    match plan.workload.lengths.captured() {
        Some(captured) if captured.shares_prefixes() => {
            let counted = match plan.tokenizer {
                Some(_) => "; of blocks, whose length goes by tokens a word and is not counted prompt by prompt",
                None => "",
            };
            format!("prompts share what the trace shares, after one word of the window{counted}")
        }
        _ => plan.workload.cache.words(),
    }
}

/// What is asked for, and for an open loop what follows from it.
fn load(plan: &Plan) -> Vec<String> {
    let long = match plan.min_duration_s > 0.0 {
        true => format!(", at least {} s long", plan.min_duration_s),
        false => String::new(),
    };
    let closed: Vec<String> = plan
        .cells
        .iter()
        .filter_map(|c| if let Cell::Closed { concurrency } = c { Some(concurrency.to_string()) } else { None })
        .collect();
    let captured = plan.workload.lengths.captured();
    let kind = match closed.is_empty() {
        true if captured.is_some() => "replay of a captured trace".to_owned(),
        true => "open loop".to_owned(),
        false => format!("closed loop at {}", closed.join(", ")),
    };
    let (each, windows) = (plan.drop + plan.num_prompts, plan.windows);
    let mut lines =
        vec![format!("load     {kind}; {windows} windows each of {each} requests (first {} dropped){long}", plan.drop)];
    if let Some(shard) = plan.shard {
        let each = if shard.of == 1 { "each request".to_owned() } else { format!("one of {} requests", shard.of) };
        lines.push(format!(
            "         {}: sends {each} of the schedule, by trace id; rates are of this host, the schedule's hash is of the whole",
            shard.words()
        ));
    }
    lines.extend(captured.into_iter().flat_map(|captured| captured.words()).map(|words| format!("         {words}")));
    let reuse = plan.connection;
    for cell in &plan.cells {
        match cell {
            Cell::Closed { .. } | Cell::Sessions(_) => {}
            Cell::Open(open) => lines.push(format!("         {}", open_load(open, reuse))),
            Cell::Trace(replay) => lines.push(format!("         {}", replayed_load(replay, reuse))),
        }
    }
    lines
}

fn open_load(open: &OpenLoop, reuse: Connection) -> String {
    let rate = match (open.rate, &open.course) {
        (None, _) => "all at once".to_owned(),
        (Some(per_s), None) => format!("{per_s} requests/s"),
        (Some(per_s), Some(course)) => format!("mean {} requests/s ({course})", nominal(per_s)),
    };
    let law = match (open.arrivals, open.burstiness) {
        ("poisson", _) => ", Poisson".to_owned(),
        ("gamma", Some(shape)) => format!(", gamma gaps of shape {shape}"),
        ("even", _) => ", evenly spaced".to_owned(),
        ("batches", _) => String::new(),
        _ => " (no schedule to go on by: exactly the number of requests)".to_owned(),
    };
    let cap = cap(open.concurrency, open.default_cap);
    let ahead = ahead(open.opened_ahead, reuse);
    let requests = of_scheduled(open.requests, open.scheduled);
    format!("{rate}{law}: {requests} requests in {:.1} s, {cap}, {ahead}", open.last_due_s)
}

/// Requests that this host sends, of those of the schedule.
fn of_scheduled(requests: u64, scheduled: u64) -> String {
    if requests == scheduled { requests.to_string() } else { format!("{requests} of {scheduled}") }
}

fn replayed_load(replay: &Replay, reuse: Connection) -> String {
    let rate = replay.rate.map_or_else(|| "all at once".to_owned(), |per_s| format!("mean {per_s:.3} requests/s"));
    format!(
        "time x {}: {} requests in {:.1} s, {rate}, busiest second {}; {}, {}",
        replay.time_scale,
        of_scheduled(replay.requests, replay.scheduled),
        replay.last_due_s,
        replay.peak_per_s,
        cap(replay.concurrency, replay.default_cap),
        ahead(replay.opened_ahead, reuse),
    )
}

fn cap(concurrency: Option<u32>, by_default: bool) -> String {
    match (concurrency, by_default) {
        (None, _) => "no cap".to_owned(),
        (Some(cap), false) => format!("at most {cap} at once"),
        (Some(cap), true) => format!("at most {cap} at once (the default; --max-concurrency sets it)"),
    }
}

fn ahead(opened: u32, connection: Connection) -> String {
    match connection {
        Connection::PerRequest => "a new connection for each".to_owned(),
        Connection::Reuse => format!("{opened} connections opened ahead"),
        Connection::AtMost(n) => format!("{opened} connections opened ahead, a new one after {n} requests"),
    }
}

fn mean_lengths(plan: &Plan) -> (f64, f64) {
    (plan.mean_prompt_tokens, plan.mean_output_tokens)
}

/// About how long the windows of a load point take, in s.
fn estimated_s(plan: &Plan, cell: &Cell, mean_out: f64) -> f64 {
    let reply_s = mean_out / ASSUMED_TOKENS_PER_S;
    let busy_s = |requests: u64, at_once: u32| requests as f64 * reply_s / f64::from(at_once);
    f64::from(plan.windows)
        * match cell {
            Cell::Closed { concurrency } => busy_s(plan.drop + plan.num_prompts, *concurrency).max(plan.min_duration_s),
            Cell::Sessions(load) => busy_s(load.requests, load.slots).max(plan.min_duration_s),
            Cell::Open(open) => (open.last_due_s + reply_s).max(busy_s(open.requests, open.slots)),
            Cell::Trace(replay) => (replay.last_due_s + reply_s).max(busy_s(replay.requests, replay.slots)),
        }
}

pub(super) fn dry_run(plan: &Plan, voice: &Voice) {
    let (mean_in, mean_out) = mean_lengths(plan);
    let arms = if plan.interleave.is_some() { 2 } else { 1 };
    let requests = plan.requests() * arms;
    // whoever read it may have seen enough
    let _ = writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(plan).unwrap_or_default());
    load(plan).into_iter().chain(on_purpose(plan)).for_each(|line| voice.say(line));
    if let Some((other, sequence)) = plan.interleave.as_ref().map(|other| &other.url).zip(plan.sequence()) {
        voice.say(format!("in turns with {other}: {}", sequence.letters()));
    }
    remarks(plan, voice);
    voice.say(format!(
        "{requests} requests, about {:.0} prompt and {:.0} output tokens; at {ASSUMED_TOKENS_PER_S} tokens/s a stream about {:.0} s; nothing was sent",
        mean_in * requests as f64,
        mean_out * requests as f64,
        plan.cells.iter().map(|cell| estimated_s(plan, cell, mean_out)).sum::<f64>() * arms as f64,
    ));
}
