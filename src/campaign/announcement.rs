//! What is said and written before the first request: the plan, the environment, what it will take.

use super::canary::Canary;
use super::length_probe::Lengths;
use super::server::Server;
use super::{Cores, Voice, environment};
use crate::analysis::definitions::wording::{self, nominal};
use crate::cli::Connection;
use crate::lettering::legible;
use crate::load_point::{ASSUMED_TOKENS_PER_S, Cell, OpenLoop};
use crate::plan::{Plan, Sessions};
use crate::reading::printable;
use crate::report::sessions::leaders;
use crate::rundir::window::SessionKind;
use crate::session_load::{SessionLoad, Start};
use crate::target::address::Target;
use crate::target::metrics_source::MetricsSource;
use crate::trace::replay::Replay;
use crate::workload::ids::PromptForm;
use crate::workload::sessions::Pause;
use bench_engine::engine::WorkerInfo;
use bench_engine::io::capabilities::Capabilities;
use bench_engine::io::uring::RingError;
use bench_engine::record::BLOCK_BYTES;
use bench_engine::units::{Instant, Nanos};
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
    load(plan).into_iter().chain(rests(plan)).for_each(|line| voice.say(line));
    on_purpose(plan).into_iter().for_each(|line| voice.say(line));
    let cap = plan.workload.max_tokens.map(|n| format!(", outputs {n}")).unwrap_or_default();
    let form = match plan.workload.prompt_form {
        PromptForm::Text => String::new(),
        PromptForm::Ids(range) => format!("; token ids of {range}"),
    };
    let (mean_in, mean_out) = mean_lengths(plan);
    let [of_in, of_out] = if plan.sessions.is_some() { ["a message", "a reply"] } else { ["in", "out"] };
    voice.say(format!(
        "work     {}{cap}, mean {mean_in:.0} {of_in} and {mean_out:.0} {of_out}; seed {}; temperature {}, top_p {}{form}; {}",
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
            "         TLS allocates memory on the workers while a window runs; what it costs is in tare and lateness",
        );
    }
    if let Some(canary) = facts.canary {
        voice.say(format!("canary   {}", canary.words()));
    }
    voice.say(format!("records  {}", dir.display()));
}

/// How long nothing is sent between windows.
fn rests(plan: &Plan) -> Option<String> {
    let rests = wording::rests(plan.gap_between_windows_s, plan.gap_between_cells_s)?;
    Some(format!("         {rests}"))
}

/// Time of all rests, in s.
fn resting_s(plan: &Plan) -> f64 {
    let places = (0..plan.windows).flat_map(|window| (0..plan.cells.len()).map(move |cell| (window, cell)));
    places.map(|(window, cell)| plan.rest_before(window, cell).secs_f64()).sum()
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
    let said = match &plan.sessions {
        Some(sessions) => plan.workload.remarks_of_sessions(
            &sessions.law,
            sessions.drop_sessions,
            sessions.num_sessions,
            plan.most_measured_sessions(),
        ),
        None => plan.workload.remarks(plan.drop, plan.num_prompts, plan.most_measured()),
    };
    match said {
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
        _ if plan.sessions.is_some() => plan.workload.cache.words_of_sessions(),
        _ => plan.workload.cache.words(),
    }
}

/// What is asked for, and for an open loop what follows from it.
fn load(plan: &Plan) -> Vec<String> {
    let long = match plan.min_duration_s > 0.0 {
        _ if plan.duration_s.is_some() => String::new(),
        true => format!(", at least {} s long", plan.min_duration_s),
        false => String::new(),
    };
    if let Some(sessions) = &plan.sessions {
        return of_sessions(plan, sessions, &long);
    }
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
    let (each, windows) = (plan.drop + plan.num_prompts, windows_of(plan));
    let size = match plan.duration() {
        Some(lasts) => format!("{}, then what is under way ends", of_time(lasts)),
        None => format!("{each} requests"),
    };
    let mut lines = vec![format!("load     {kind}; {windows} each of {size} (first {} dropped){long}", plan.drop)];
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

fn windows_of(plan: &Plan) -> String {
    if plan.windows == 1 { "1 window".to_owned() } else { format!("{} windows", plan.windows) }
}

/// A load of conversations or tasks.
fn of_sessions(plan: &Plan, sessions: &Sessions, long: &str) -> Vec<String> {
    let (called, turns, survey) = (sessions.called(), sessions.turns_called(), &sessions.survey);
    let loads: Vec<&SessionLoad> =
        plan.cells.iter().filter_map(|c| if let Cell::Sessions(load) = c { Some(load) } else { None }).collect();
    let users: Vec<u32> = loads
        .iter()
        .filter_map(|l| if let Start::Users { concurrency } = l.start { Some(concurrency) } else { None })
        .collect();
    let one = match sessions.law.kind {
        SessionKind::Chat => "conversation",
        SessionKind::Chain => "task",
    };
    let led = match users.is_empty() {
        true => format!("{called} that begin at drawn times"),
        false => {
            let numbers: Vec<String> = users.iter().map(u32::to_string).collect();
            match users[..] {
                [1] => format!("1 {} leading one {one} after another", leaders(sessions.law.kind, 1)),
                _ => format!("{} {}, each leading one {one} after another", numbers.join(", "), sessions.led_by()),
            }
        }
    };
    let [from, to] = sessions.law.turns;
    let each = if from == to { format!("{from} {turns}") } else { format!("{from} to {to} {turns}") };
    let (last_mean, last_most) =
        (format!("{:.0}", survey.last_prompt_tokens.0), survey.last_prompt_tokens.1.to_string());
    let last = match last_mean == last_most {
        true => last_most,
        false => format!("{last_mean} tokens in the mean and {last_most} at most"),
    };
    let size = match plan.duration() {
        Some(lasts) => format!(
            "{}, then {called} under way go on to their ends (first {} {called} dropped, {} {turns}){long}",
            of_time(lasts),
            sessions.drop_sessions,
            survey.dropped_turns
        ),
        None => format!(
            "{} {called} (first {} dropped), {} {turns} (first {} dropped){long}",
            survey.sessions, sessions.drop_sessions, survey.turns, survey.dropped_turns,
        ),
    };
    let mut lines = vec![
        format!("load     {led}; {} each of {size}", windows_of(plan)),
        format!("         {each} each, {}", between(sessions)),
        format!(
            "         a request carries what was said before, replies as the server gives them, and its own message: mean {:.0} tokens as \
             asked for, the last of a {one} {last}",
            survey.mean_prompt_tokens,
        ),
        "         the model's context must hold that, the reply and the chat template's own tokens".to_owned(),
    ];
    let reuse = plan.connection;
    lines.extend(loads.iter().filter_map(|load| match &load.start {
        Start::Users { .. } => None,
        Start::Arrivals(open) => Some(format!("         {}", arriving(open, called, reuse))),
    }));
    if let Some(most) =
        users.iter().max().filter(|most| plan.duration_s.is_none() && u64::from(**most) > survey.sessions)
    {
        lines.push(format!(
            "         WARNING: {most} {} have {} a window between them, so not all of them have one: raise --num-sessions",
            sessions.led_by(),
            if survey.sessions == 1 { format!("1 {one}") } else { format!("{} {called}", survey.sessions) }
        ));
    }
    lines
}

/// What is between the turns of a session, in words.
fn between(sessions: &Sessions) -> String {
    let (flag, next) = match sessions.law.kind {
        SessionKind::Chat => ("--think-time", "turn"),
        SessionKind::Chain => ("--tool-time", "call"),
    };
    match (sessions.law.pause, sessions.law.pause.words(sessions.law.kind)) {
        (Pause::Every { .. }, Some(words)) => {
            format!("{words} from its start however long replies take, but none before the reply that it needs")
        }
        (_, Some(words)) => format!("{words} after each reply"),
        (_, None) => format!("the next {next} is sent as soon as the reply is in ({flag} sets a time between)"),
    }
}

/// Sessions that arrive.
fn arriving(open: &OpenLoop, called: &str, reuse: Connection) -> String {
    let rate = open.rate.map_or_else(|| "all at once".to_owned(), |per_s| format!("{per_s} {called}/s"));
    format!(
        "{rate}{}: {} {called} begin in {:.1} s, {}, {}",
        law(open),
        open.requests,
        open.last_due_s,
        cap(open.concurrency, open.default_cap),
        ahead(open.opened_ahead, reuse)
    )
}

fn open_load(open: &OpenLoop, reuse: Connection) -> String {
    let rate = match (open.rate, &open.course) {
        (None, _) => "all at once".to_owned(),
        (Some(per_s), None) => format!("{per_s} requests/s"),
        (Some(per_s), Some(course)) => format!("mean {} requests/s ({course})", nominal(per_s)),
    };
    let law = law(open);
    let cap = cap(open.concurrency, open.default_cap);
    let ahead = ahead(open.opened_ahead, reuse);
    let requests = of_scheduled(open.requests, open.scheduled);
    format!("{rate}{law}: {requests} requests in {:.1} s, {cap}, {ahead}", open.last_due_s)
}

/// By which law requests arrive, or sessions.
fn law(open: &OpenLoop) -> String {
    match (open.arrivals, open.burstiness) {
        ("poisson", _) => ", Poisson".to_owned(),
        ("gamma", Some(shape)) => format!(", gamma gaps of shape {shape}"),
        ("even", _) => ", evenly spaced".to_owned(),
        ("batches", _) => String::new(),
        _ => " (no schedule to go on by: exactly the number asked for)".to_owned(),
    }
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

/// A length as people write it.
fn of_time(span: Nanos) -> String {
    let s = span.secs_f64();
    match () {
        () if s >= 3600.0 && s % 360.0 == 0.0 => format!("{} h", s / 3600.0),
        () if s >= 60.0 && s % 6.0 == 0.0 => format!("{} min", s / 60.0),
        () => format!("{s} s"),
    }
}

/// Requests of a window. Where time alone ends a closed loop as many as an assumed speed of the replies makes.
fn expected_requests(plan: &Plan, cell: &Cell, mean_out: f64) -> f64 {
    match (plan.duration_s, cell) {
        (Some(lasts_s), Cell::Closed { concurrency }) => {
            f64::from(*concurrency) * lasts_s * ASSUMED_TOKENS_PER_S / mean_out.max(1.0)
        }
        (Some(lasts_s), Cell::Sessions(SessionLoad { start: Start::Users { concurrency }, .. })) => {
            let session_s = session_s(plan, mean_out / ASSUMED_TOKENS_PER_S).max(1e-3);
            let turns = plan.sessions.as_ref().map_or(1.0, |sessions| sessions.survey.mean_turns());
            f64::from(*concurrency) * lasts_s / session_s * turns
        }
        _ => plan.requests_of_window(cell) as f64,
    }
}

/// How long a session takes when a reply takes `reply_s`, pauses included, in s.
fn session_s(plan: &Plan, reply_s: f64) -> f64 {
    plan.sessions.as_ref().map_or(0.0, |sessions| sessions.duration_s(reply_s))
}

/// Bytes of a row without its token events, and of each of these: measured on rows against the mock.
const ROW_BYTES: (f64, f64) = (1_460.0, 59.0);

fn on_disk(requests: f64, mean_out: f64) -> String {
    let bytes = requests * (ROW_BYTES.0 + ROW_BYTES.1 * mean_out);
    match bytes {
        _ if bytes >= 1e9 => format!("{:.1} GB", bytes / 1e9),
        _ if bytes >= 1e6 => format!("{:.0} MB", bytes / 1e6),
        _ => format!("{:.0} kB", bytes / 1e3),
    }
}

/// About how long the windows of a load point take, in s.
fn estimated_s(plan: &Plan, cell: &Cell, mean_out: f64) -> f64 {
    let reply_s = mean_out / ASSUMED_TOKENS_PER_S;
    let busy_s = |requests: u64, at_once: u32| requests as f64 * reply_s / f64::from(at_once);
    f64::from(plan.windows)
        * match cell {
            Cell::Closed { .. } if plan.duration_s.is_some() => plan.duration_s.unwrap_or_default() + reply_s,
            Cell::Closed { concurrency } => busy_s(plan.drop + plan.num_prompts, *concurrency).max(plan.min_duration_s),
            Cell::Sessions(load) => {
                let session_s = session_s(plan, reply_s);
                match &load.start {
                    Start::Users { concurrency } => {
                        let at_once = u64::from(*concurrency).min(load.planned).max(1);
                        (load.planned as f64 * session_s / at_once as f64)
                            .max(session_s)
                            .max(plan.duration_s.unwrap_or(plan.min_duration_s))
                    }
                    Start::Arrivals(open) => open.last_due_s + session_s,
                }
            }
            Cell::Open(open) => (open.last_due_s + reply_s).max(busy_s(open.requests, open.slots)),
            Cell::Trace(replay) => (replay.last_due_s + reply_s).max(busy_s(replay.requests, replay.slots)),
        }
}

pub(super) fn dry_run(plan: &Plan, voice: &Voice) {
    let (mean_in, mean_out) = mean_lengths(plan);
    let arms = if plan.interleave.is_some() { 2 } else { 1 };
    let each: f64 = plan.cells.iter().map(|cell| expected_requests(plan, cell, mean_out)).sum();
    let requests = (each * f64::from(plan.windows)).round() * arms as f64;
    let guessed = plan.duration_s.is_some() && plan.cells.iter().any(|cell| cell.requests().unwrap_or(0) == 0);
    let about = if guessed { "about " } else { "" };
    // a turn sends what was said before as well
    let mean_sent = plan.sessions.as_ref().map_or(mean_in, |sessions| sessions.survey.mean_prompt_tokens);
    // whoever read it may have seen enough
    let _ = writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(plan).unwrap_or_default());
    load(plan).into_iter().chain(rests(plan)).chain(on_purpose(plan)).for_each(|line| voice.say(line));
    if let Some((other, sequence)) = plan.interleave.as_ref().map(|other| &other.url).zip(plan.sequence()) {
        voice.say(format!("in turns with {other}: {}", sequence.letters()));
    }
    remarks(plan, voice);
    voice.say(format!(
        "{about}{requests} requests, about {:.0} prompt and {:.0} output tokens, {} of rows on disk; at {ASSUMED_TOKENS_PER_S} tokens/s a stream about {:.0} s; nothing was sent",
        mean_sent * requests,
        mean_out * requests,
        on_disk(requests, if plan.stream { mean_out } else { 0.0 }),
        plan.cells.iter().map(|cell| estimated_s(plan, cell, mean_out)).sum::<f64>() * arms as f64 + resting_s(plan),
    ));
}
