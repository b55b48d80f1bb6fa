//! One campaign: load points x windows against one server, every fact of it on disk.

pub mod environment;
pub mod feeder;
pub mod health;
pub mod mock_child;
pub mod recorder;

use crate::analysis::summary;
use crate::cli::{Connection, Stamps};
use crate::plan::{Cell, Plan, key_policy};
use crate::reading::Asked;
use crate::report;
use crate::rundir::row::StampSource;
use crate::rundir::run_json::RunJson;
use crate::rundir::window::{Counters, Load, LoadModel, WindowRow, WorkerShare};
use crate::target::address::Target;
use crate::target::fetch::{self, FetchError};
use crate::target::identity::{self, Identity};
use crate::target::openai::BodyTemplate;
use crate::workload::nonce::Nonces;
use anyhow::{Context, bail};
use bench_engine::clock::{Clock, SystemClock};
use bench_engine::conn::KeepAlive;
use bench_engine::engine::{Engine, EngineOptions, WorkerInfo, keep_alive_of, spread};
use bench_engine::io::uring::probe::{Capabilities, capabilities};
use bench_engine::record::BLOCK_BYTES;
use bench_engine::units::{Instant, Nanos};
use bench_engine::wire::request::RequestTemplate;
use bench_engine::worker::{Shared, WindowReport, WorkerOptions};
use feeder::{Feeder, Tickets};
use mock_child::MockChild;
use recorder::Recorder;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// What is known of a request between its making and its row.
#[derive(Clone, Debug)]
pub struct Ticket {
    /// Load point.
    pub cell: u32,
    /// Window.
    pub window: u32,
    /// What it asks for.
    pub asked: Asked,
}

/// How a campaign ended.
#[derive(Debug)]
pub struct Ended {
    /// What stands in `run.json`.
    pub run: RunJson,
    /// The run directory.
    pub dir: PathBuf,
    /// It was interrupted.
    pub interrupted: bool,
}

/// Blocks of the pool beside the one that every connection fills: 8 MiB.
const SPARE_BLOCKS: usize = 2048;
/// Between giving the order and the opening of a window.
const LEAD: Nanos = Nanos::from_millis(20);
/// Pause of the control loop.
const TICK: Duration = Duration::from_millis(20);

/// Says something to people, on standard error.
pub struct Voice {
    /// Print nothing.
    pub quiet: bool,
}

impl Voice {
    fn say(&self, words: impl AsRef<str>) {
        if !self.quiet {
            eprintln!("{}", words.as_ref());
        }
    }
}

/// A server found, and how it is spoken to.
struct Server {
    target: Target,
    identity: Identity,
    model: String,
    headers: Vec<(String, String)>,
    secret: Option<String>,
    mock: Option<MockChild>,
}

/// Cores of the parts.
struct Cores {
    workers: Vec<usize>,
    control: Option<usize>,
}

/// Carries out `plan`. `stop` becomes true when the user interrupts.
///
/// # Errors
/// What kept the campaign from being carried out; what was measured until then is in its directory.
pub fn run(plan: &Plan, stop: &Arc<AtomicBool>, voice: &Voice) -> anyhow::Result<Option<Ended>> {
    let cores = cores(plan)?;
    let most = plan.most_connections();
    let descriptors = u64::from(most) * 3 + 128;
    if let Some(words) = environment::ensure_descriptors(descriptors).map_err(anyhow::Error::msg)? {
        voice.say(words);
    }
    if plan.output.dry_run {
        dry_run(plan, voice);
        return Ok(None);
    }
    let clock = SystemClock;
    let started_at = timestamp(clock.wall().ns());
    let dir = run_directory(plan, &started_at)?;
    let server = find_server(plan, &dir, cores.control, stop, voice)?;
    let found = capabilities().context("the io_uring driver cannot be used here")?;
    if plan.stamps == Stamps::Kernel && !found.stamps {
        voice.say("WARNING: kernel stamps do not come here: user stamps only, net and tare are not available");
    }
    let stamps = plan.stamps == Stamps::Kernel && found.stamps;
    let found = Capabilities { stamps, keeper: found.keeper };
    let origin = clock.now();
    let run_id = format!("{started_at}-{:08x}", origin.ns() as u32);
    let body = body_template(plan, &server.model);
    let request = request_template(plan, &server)?;
    let reuse = plan.connection == Connection::Reuse;
    let slots = spread(most, cores.workers.len() as u32);
    let blocks = most as usize + SPARE_BLOCKS;
    let shared = Arc::new(Shared::new(most as usize, blocks, most as usize + 64));
    let options = EngineOptions {
        worker: WorkerOptions {
            index: 0,
            slots: 0,
            address: server.target.address,
            limits: plan.limits,
            streamed: plan.stream,
            reuse,
        },
        slots,
        cores: cores.workers.clone(),
    };
    // workers pin themselves: they start before this thread, whose mask they inherit, is confined
    let engine = Engine::start(&options, &found, &shared)?;
    let workers: Vec<WorkerInfo> = engine.workers().collect();
    if let Some(core) = cores.control {
        bench_engine::cpu::pin(core)?;
    }
    let facts = RunFacts { server: &server, found: &found, workers: &workers, cores: &cores, origin, blocks };
    let environment = facts.environment();
    let plan_json = plan_document(plan, &run_id, &started_at, &server.model, environment)?;
    fs::write(dir.join("plan.json"), plan_json).with_context(|| format!("{}", dir.join("plan.json").display()))?;
    announce(plan, &facts, &dir, voice);
    let campaign = Campaign {
        plan,
        dir: &dir,
        run_id: &run_id,
        origin,
        engine: &engine,
        workers: &workers,
        shared: &shared,
        request: &request,
        body: &body,
        secret: server.secret.as_deref(),
        stamps: if found.stamps { StampSource::Kernel } else { StampSource::User },
        stop,
        voice,
    };
    let interrupted = campaign.run_windows()?;
    drop(engine);
    if let Some(mock) = server.mock {
        mock.stop();
    }
    finish(&dir, interrupted).map(Some)
}

/// Where workers and everything else run. Of two cores or more, the last one not given to a worker is control's.
fn cores(plan: &Plan) -> anyhow::Result<Cores> {
    let allowed = bench_engine::cpu::allowed_cores()?;
    let workers = match (&plan.cores, plan.workers) {
        (Some(cores), workers) => {
            if let Some(n) = workers.filter(|n| *n as usize != cores.len()) {
                bail!("--workers {n} and --cores name different numbers of workers: {} cores are given", cores.len());
            }
            cores.clone()
        }
        (None, workers) => {
            let n = workers.map_or(allowed.len().saturating_sub(1).max(1), |n| n as usize);
            if n > allowed.len() {
                bail!("--workers {n}: this process may use {} cores only ({allowed:?})", allowed.len());
            }
            allowed[..n].to_vec()
        }
    };
    let control = allowed.iter().rev().find(|core| !workers.contains(core)).copied();
    Ok(Cores { workers, control })
}

/// `2026-11-29T18-22-55`: usable as the name of a directory.
fn timestamp(wall_ns: u64) -> String {
    let days = wall_ns / 86_400_000_000_000;
    let second = wall_ns / 1_000_000_000 % 86_400;
    // civil-from-days, Howard Hinnant's algorithm for the proleptic Gregorian calendar
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}-{:02}-{:02}", second / 3600, second / 60 % 60, second % 60)
}

/// Creates the run directory; one that holds something is refused.
fn run_directory(plan: &Plan, started_at: &str) -> anyhow::Result<PathBuf> {
    let dir = plan.output.dir.clone().unwrap_or_else(|| Path::new("runs").join(format!("{started_at}-{}", plan.name)));
    let told = |e: std::io::Error| {
        anyhow::anyhow!("the run directory {} cannot be used: {e}; choose another with --out", dir.display())
    };
    fs::create_dir_all(&dir).map_err(told)?;
    if !plan.output.force && fs::read_dir(&dir).map_err(told)?.next().is_some() {
        bail!("the run directory {} is not empty; choose another with --out, or add --force", dir.display());
    }
    // found out now, not after the measurement
    File::create(dir.join("requests.jsonl")).map_err(told)?;
    Ok(dir)
}

/// Starts the mock, or waits for the server; asks it what it is.
fn find_server(
    plan: &Plan,
    dir: &Path,
    mock_core: Option<usize>,
    stop: &AtomicBool,
    voice: &Voice,
) -> anyhow::Result<Server> {
    let words = &plan.target;
    let (mock, url) = match &words.base_url {
        Some(url) => (None, url.clone()),
        None => {
            let mock = MockChild::start(mock_core, &dir.join("truth.jsonl"), &[])?;
            let url = mock.base_url.clone();
            (Some(mock), url)
        }
    };
    for name in environment::ignored_proxies(|name| std::env::var(name).ok()) {
        voice.say(format!("proxy variable {name} is set and ignored: the server is spoken to directly"));
    }
    let mut target = Target::resolve(&url, words.address.as_deref())?;
    wait_for(&mut target, words.wait, stop, voice)?;
    let (name, by_flag) = &words.api_key_env;
    let key = std::env::var(name).ok().filter(|k| !k.is_empty());
    let (send, note) = key_policy(name, *by_flag, key.is_some() && mock.is_none(), target.is_loopback());
    note.into_iter().for_each(|note| voice.say(note));
    let mut headers = words.headers.clone();
    let secret = key.filter(|_| send);
    if let Some(key) = &secret {
        headers.push(("Authorization".to_owned(), format!("Bearer {key}")));
    }
    let identity = ask_when_ready(&target, &headers, secret.as_deref(), words.wait, stop)?;
    let model = match words.model.clone().or_else(|| identity.models.first().cloned()) {
        Some(model) => model,
        None => bail!(
            "no model: /v1/models of {} told none ({}); name one with --model",
            target.base_url,
            identity.models_error.as_deref().unwrap_or("empty list")
        ),
    };
    if !identity.models.is_empty() && !identity.models.contains(&model) {
        voice.say(format!("WARNING: --model {model:?} is not in /v1/models ({})", identity.models.join(", ")));
    }
    Ok(Server { target, identity, model, headers, secret, mock })
}

/// Asks the server what it is; while it answers that it is still loading, as long as it was to be waited for.
fn ask_when_ready(
    target: &Target,
    headers: &[(String, String)],
    secret: Option<&str>,
    patience: Nanos,
    stop: &AtomicBool,
) -> anyhow::Result<Identity> {
    let until = SystemClock.now() + patience;
    loop {
        let identity = identity::ask(target, headers, secret)?;
        if !identity.not_ready || SystemClock.now() >= until || stop.load(Ordering::Relaxed) {
            return Ok(identity);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Finds an address of the target that accepts connections, waiting for it when asked to.
fn wait_for(target: &mut Target, patience: Nanos, stop: &AtomicBool, voice: &Voice) -> anyhow::Result<()> {
    let clock = SystemClock;
    let until = clock.now() + patience;
    let mut told = false;
    loop {
        let pinned = target.address;
        let others = target.resolved.clone().into_iter().filter(|a| *a != pinned);
        let mut failure: Option<FetchError> = None;
        for address in std::iter::once(pinned).chain(others) {
            match fetch::connect(address, Duration::from_secs(5)) {
                Ok(_) => {
                    target.use_address(address);
                    return Ok(());
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        let words = failure.map(|e| e.to_string()).unwrap_or_default();
        if stop.load(Ordering::Relaxed) {
            bail!("interrupted while waiting for the server ({words})");
        }
        if clock.now() >= until {
            bail!("{words}; is the server running? --wait SECONDS waits for it");
        }
        if !std::mem::replace(&mut told, true) {
            voice.say(format!("{words}; waiting up to {patience}"));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn body_template(plan: &Plan, model: &str) -> BodyTemplate {
    BodyTemplate {
        api: plan.api,
        model: model.to_owned(),
        stream: plan.stream,
        temperature: plan.temperature,
        top_p: plan.top_p,
        ignore_eos: plan.ignore_eos,
        token_proof: plan.token_proof,
        extra: plan.extra_body.clone(),
    }
}

fn request_template(plan: &Plan, server: &Server) -> anyhow::Result<RequestTemplate> {
    let accept = if plan.stream { "text/event-stream" } else { "application/json" };
    let target = &server.target;
    Ok(RequestTemplate::new("POST", &target.path(&plan.endpoint), &target.authority, accept, &server.headers)?)
}

/// Facts found out before the first request.
struct RunFacts<'a> {
    server: &'a Server,
    found: &'a Capabilities,
    workers: &'a [WorkerInfo],
    cores: &'a Cores,
    origin: Instant,
    blocks: usize,
}

impl RunFacts<'_> {
    fn environment(&self) -> Value {
        let target = &self.server.target;
        let mut environment = environment::facts();
        let more = json!({
            "origin_monotonic_ns": self.origin.ns(),
            "loopback": target.is_loopback(),
            "built_in_mock": self.server.mock.is_some(),
            "base_url": target.base_url,
            "address": target.address.to_string(),
            "resolved": target.resolved.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "server": self.server.identity,
            "stamps": if self.found.stamps { "kernel" } else { "user" },
            "workers": self.workers.iter().map(|w| json!({"worker": w.index, "core": w.core})).collect::<Vec<_>>(),
            "control_core": self.cores.control,
            "receive_pool_bytes": self.workers.iter().map(|w| w.receive_pool_bytes).sum::<usize>(),
            "record_pool_bytes": self.blocks * BLOCK_BYTES,
        });
        if let (Value::Object(fields), Value::Object(more)) = (&mut environment, more) {
            fields.extend(more);
        }
        environment
    }
}

fn plan_document(
    plan: &Plan,
    run_id: &str,
    started_at: &str,
    model: &str,
    environment: Value,
) -> anyhow::Result<String> {
    let mut document = json!({
        "schema": "tarebench.plan/1",
        "tarebench": crate::cli::VERSION,
        "run_id": run_id,
        "plan_hash": plan.hash(model),
        "started_at": started_at,
        "model": model,
    });
    if let (Value::Object(fields), Value::Object(plan)) = (&mut document, serde_json::to_value(plan)?) {
        fields.extend(plan);
        fields.insert("environment".to_owned(), environment);
    }
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

/// Everything that decides the run, in a few lines.
fn announce(plan: &Plan, facts: &RunFacts<'_>, dir: &Path, voice: &Voice) {
    let server = facts.server;
    let what = if server.mock.is_some() { "built-in mock, TTFT 5 ms, 1 ms a token, at " } else { "" };
    let version = server.identity.version.as_ref().map(|v| format!(", version {v}")).unwrap_or_default();
    voice.say(format!(
        "server   {what}{} ({}), model {}{version}",
        server.target.base_url, server.target.address, server.model
    ));
    let loads: Vec<String> = plan.cells.iter().map(|c| c.concurrency.to_string()).collect();
    voice.say(format!(
        "load     closed loop at {}; {} windows each of {} requests (first {} dropped){}",
        loads.join(", "),
        plan.windows,
        plan.drop + plan.num_prompts,
        plan.drop,
        if plan.min_duration_s > 0.0 { format!(", at least {} s long", plan.min_duration_s) } else { String::new() }
    ));
    let cap = plan.workload.max_tokens.map(|n| format!(", outputs {n}")).unwrap_or_default();
    let (mean_in, mean_out) = mean_lengths(plan);
    voice.say(format!(
        "work     {} x {}{cap}, mean {mean_in:.0} in and {mean_out:.0} out; seed {}; temperature {}, top_p {}; a nonce first in every prompt",
        workload_name(plan),
        plan.workload.length_scale,
        plan.workload.seed,
        plan.temperature,
        plan.top_p,
    ));
    let stamps = if facts.found.stamps { "kernel stamps" } else { "user stamps only: no net, no tare" };
    let on: Vec<String> = facts.workers.iter().map(|w| w.core.to_string()).collect();
    let control = match facts.cores.control {
        Some(core) => format!("control and records on core {core}"),
        None => "WARNING: no core is left for control and records, they share the workers'".to_owned(),
    };
    voice.say(format!(
        "harness  io_uring, {} worker(s) on core {}, {control}; {stamps}; pools {} KiB receive, {} KiB record",
        facts.workers.len(),
        on.join(", "),
        facts.workers.iter().map(|w| w.receive_pool_bytes).sum::<usize>() / 1024,
        facts.blocks * BLOCK_BYTES / 1024,
    ));
    voice.say(format!("records  {}", dir.display()));
}

fn workload_name(plan: &Plan) -> &'static str {
    match plan.workload.lengths {
        crate::workload::Lengths::SeedMix { .. } => "seed-mix",
        crate::workload::Lengths::Random { .. } => "random",
    }
}

fn mean_lengths(plan: &Plan) -> (f64, f64) {
    let n = (plan.drop + plan.num_prompts) as usize;
    let (p, o) = plan
        .workload
        .trace(plan.drop, plan.num_prompts)
        .take(n)
        .fold((0, 0), |(p, o), s| (p + s.prompt_tokens, o + s.output_tokens));
    (p as f64 / n as f64, o as f64 / n as f64)
}

fn dry_run(plan: &Plan, voice: &Voice) {
    let (mean_in, mean_out) = mean_lengths(plan);
    let requests = plan.requests();
    println!("{}", serde_json::to_string_pretty(plan).unwrap_or_default());
    voice.say(format!(
        "{requests} requests, about {:.0} prompt and {:.0} output tokens; at 50 tokens/s a stream about {:.0} s; nothing was sent",
        mean_in * requests as f64,
        mean_out * requests as f64,
        plan.cells.iter().map(|c| {
            let per_cell = f64::from(plan.windows) * (plan.num_prompts + plan.drop) as f64;
            per_cell * mean_out / 50.0 / f64::from(c.concurrency)
        }).sum::<f64>(),
    ));
}

/// Derives everything from the raw files.
fn finish(dir: &Path, interrupted: bool) -> anyhow::Result<Ended> {
    let run = summary::summarise(dir)?;
    fs::write(dir.join("run.json"), summary::to_json(&run)?)?;
    fs::write(dir.join("report.md"), report::markdown::of_directory(dir, &run)?)?;
    Ok(Ended { run, dir: dir.to_owned(), interrupted })
}

/// A campaign under way.
struct Campaign<'a> {
    plan: &'a Plan,
    dir: &'a Path,
    run_id: &'a str,
    origin: Instant,
    engine: &'a Engine,
    workers: &'a [WorkerInfo],
    shared: &'a Shared,
    request: &'a RequestTemplate,
    body: &'a BodyTemplate,
    secret: Option<&'a str>,
    stamps: StampSource,
    stop: &'a AtomicBool,
    voice: &'a Voice,
}

impl Campaign<'_> {
    /// Runs every window: one round of all load points after another, so that the windows of a load point lie
    /// apart in time. True when the user interrupted it.
    fn run_windows(&self) -> anyhow::Result<bool> {
        let open =
            |name: &str| File::create(self.dir.join(name)).with_context(|| self.dir.join(name).display().to_string());
        let mut files = Files { windows: open("windows.jsonl")?, health: open("health.jsonl")? };
        let tickets = Tickets::default();
        let desk = recorder::Desk::default();
        let recorder = Recorder {
            shared: self.shared,
            tickets: &tickets,
            desk: &desk,
            run: self.run_id,
            origin: self.origin,
            stamps: self.stamps,
            secret: self.secret,
            out: BufWriter::with_capacity(1 << 18, open("requests.jsonl")?),
        };
        std::thread::scope(|scope| {
            let recording =
                std::thread::Builder::new().name("recorder".to_owned()).spawn_scoped(scope, || recorder.run())?;
            let ran = self.rounds(&tickets, &desk, &mut files);
            desk.over.store(true, Ordering::Release);
            let recorded = recording.join().map_err(|_| anyhow::anyhow!("the record reader ended unexpectedly"))?;
            recorded.with_context(|| format!("{} cannot be written", self.dir.join("requests.jsonl").display()))?;
            ran
        })
    }

    fn rounds(&self, tickets: &Tickets, desk: &recorder::Desk, files: &mut Files) -> anyhow::Result<bool> {
        let nonces = Nonces::of_run(self.run_id);
        let mut serial = 0;
        for window in 0..self.plan.windows {
            if window > 0 {
                self.rest(files)?;
            }
            for (index, cell) in self.plan.cells.iter().enumerate() {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(true);
                }
                let place = WindowPlace { index: index as u32, cell: *cell, window, serial };
                let row = self.window(place, &nonces, tickets, desk, files)?;
                files.window(&row)?;
                serial += 1;
                if row.interrupted {
                    let by_user = self.stop.load(Ordering::Relaxed);
                    if let (false, Some(limit)) = (by_user, self.plan.stop_at_failed) {
                        self.voice.say(format!("the run ends here: --stop-at-failed {limit} is reached"));
                    }
                    return Ok(by_user);
                }
            }
        }
        Ok(self.stop.load(Ordering::Relaxed))
    }

    fn rest(&self, files: &mut Files) -> anyhow::Result<()> {
        let gap = Nanos::from_secs_f64(self.plan.gap_between_windows_s).unwrap_or(Nanos::ZERO);
        let until = SystemClock.now() + gap;
        let mut next_sample = SystemClock.now();
        while SystemClock.now() < until && !self.stop.load(Ordering::Relaxed) {
            self.sample_when_due(&mut next_sample, files)?;
            std::thread::sleep(TICK);
        }
        Ok(())
    }

    fn window(
        &self,
        place: WindowPlace,
        nonces: &Nonces,
        tickets: &Tickets,
        desk: &recorder::Desk,
        files: &mut Files,
    ) -> anyhow::Result<WindowRow> {
        let slots = spread(place.cell.concurrency, self.workers.len() as u32);
        let prepared = self.engine.prepare(&slots)?;
        if let Some(failure) = prepared.iter().find_map(|p| p.failure) {
            let opened: u32 = prepared.iter().map(|p| p.opened).sum();
            if place.serial == 0 && opened == 0 {
                bail!("no connection could be opened for the first window: {failure}");
            }
            self.voice.say(format!("WARNING: not all connections could be opened ahead: {failure}"));
        }
        desk.begin_window();
        self.shared.stop.store(false, Ordering::Relaxed);
        self.shared.supply_over.store(false, Ordering::Release);
        let steps_before = desk.clock_steps.load(Ordering::Relaxed);
        let waits_before = self.shared.reader_waits.load(Ordering::Relaxed);
        let plan = self.plan;
        let feeding = AtomicBool::new(true);
        let opened_at = AtomicU64::new(0);
        let mut opened = Instant::default();
        let mut reports: Vec<WindowReport> = Vec::new();
        let mut next_sample = Instant::default();
        let made = std::thread::scope(|scope| -> anyhow::Result<u64> {
            let min_duration = Nanos::from_secs_f64(plan.min_duration_s).unwrap_or(Nanos::ZERO);
            // requests are made ahead; the window opens when the first ones of every slot are there
            let start = SystemClock.now() + self.lead(place.cell.concurrency);
            let feeder = Feeder {
                workload: &plan.workload,
                request: self.request,
                body: self.body,
                nonces,
                cell: place.index,
                window: place.window,
                serial: place.serial,
                drop: plan.drop,
                kept: plan.num_prompts,
                min_duration,
                concurrency: place.cell.concurrency,
                opened: &opened_at,
                shared: self.shared,
                tickets,
            };
            let feeding = &feeding;
            let feeder = std::thread::Builder::new().name("feeder".to_owned()).spawn_scoped(scope, move || {
                let made = feeder.run();
                feeding.store(false, Ordering::Release);
                made
            })?;
            let mut go = || -> anyhow::Result<()> {
                let enough = (place.cell.concurrency as usize).min(self.shared.supply.capacity());
                while SystemClock.now() < start && self.shared.supply.len() < enough && feeding.load(Ordering::Acquire)
                {
                    std::thread::sleep(Duration::from_millis(1));
                }
                self.sample(files)?;
                opened = SystemClock.now() + LEAD;
                opened_at.store(opened.ns(), Ordering::Release);
                self.engine.begin_window(&slots, opened)?;
                while !self.engine.poll_window(&mut reports)? {
                    let failed = desk.tally.failed.load(Ordering::Relaxed);
                    let too_many = plan.stop_at_failed.is_some_and(|limit| failed >= limit);
                    let broken = desk.broken.load(Ordering::Relaxed);
                    if self.stop.load(Ordering::Relaxed) || too_many || broken {
                        self.shared.stop.store(true, Ordering::Relaxed);
                    }
                    self.sample_when_due(&mut next_sample, files)?;
                    std::thread::sleep(TICK);
                }
                Ok(())
            };
            let ran = go();
            let interrupted = self.shared.stop.load(Ordering::Relaxed);
            // whatever happened, the feeder must not wait for room that nobody makes
            self.shared.stop.store(true, Ordering::Relaxed);
            let made = feeder.join().map_err(|_| anyhow::anyhow!("the request feeder ended unexpectedly"))?;
            self.shared.stop.store(interrupted, Ordering::Relaxed);
            ran.map(|()| made)
        })?;
        let closed = SystemClock.now();
        self.sample(files)?;
        let rows = self.wait_for_rows(made, desk);
        let counters = self.counters(&reports, desk, steps_before);
        let row = self.window_row(place, opened, closed, rows, counters, &reports, desk);
        self.tell(&row, &reports, desk, self.shared.reader_waits.load(Ordering::Relaxed) - waits_before);
        Ok(row)
    }

    /// Time to make the first requests in: generous, since the window opens as soon as they are there.
    fn lead(&self, concurrency: u32) -> Nanos {
        Nanos::from_millis(200) + Nanos::from_micros(500 * u64::from(concurrency))
    }

    /// Requests still in the supply were never due; the others all become rows.
    fn wait_for_rows(&self, made: u64, desk: &recorder::Desk) -> u64 {
        let mut never_due = 0;
        while self.shared.supply.pop().is_some() {
            never_due += 1;
        }
        let expected = made - never_due;
        while desk.tally.rows.load(Ordering::Acquire) < expected && !desk.broken.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(2));
        }
        desk.tally.rows.load(Ordering::Acquire)
    }

    fn counters(&self, reports: &[WindowReport], desk: &recorder::Desk, steps_before: u64) -> Counters {
        let sum = |of: fn(&WindowReport) -> u64| reports.iter().map(of).sum::<u64>();
        Counters {
            tx_stamps_missing: desk.tally.tx_stamps_missing.load(Ordering::Relaxed),
            rx_stamps_missing: sum(|r| r.driver.rx_stamps_missing),
            stamps_out_of_order: desk.tally.out_of_order.load(Ordering::Relaxed),
            clock_steps: desk.clock_steps.load(Ordering::Relaxed) - steps_before,
            map_uncertainty_ns: desk.map_uncertainty_ns.load(Ordering::Relaxed),
            ring_overflow: sum(|r| r.driver.ring_overflow),
            receives_repeated: sum(|r| r.driver.receives_repeated),
            pool_exhausted: sum(|r| u64::from(r.pool_exhausted)),
            supply_starved: sum(|r| u64::from(r.starved)),
            connections_opened: sum(|r| u64::from(r.opened)),
            connections_closed_by_server: sum(|r| u64::from(r.closed_by_server)),
        }
    }

    #[allow(clippy::too_many_arguments)] // the row has no other maker
    fn window_row(
        &self,
        place: WindowPlace,
        opened: Instant,
        closed: Instant,
        rows: u64,
        counters: Counters,
        reports: &[WindowReport],
        desk: &recorder::Desk,
    ) -> WindowRow {
        let axis = |at: Instant| at.saturating_since(self.origin).ns();
        let share = |w: &WorkerInfo| {
            let report = reports.iter().find(|r| r.worker == w.index).copied().unwrap_or_default();
            WorkerShare {
                worker: w.index,
                core: Some(w.core as u32),
                tid: w.tid as u64,
                batches: report.driver.batches,
                max_batch: u64::from(report.driver.max_batch),
                busy_ns: report.driver.busy_ns,
            }
        };
        WindowRow {
            run: self.run_id.to_owned(),
            cell: place.index,
            window: place.window,
            load: Load { model: LoadModel::Closed, concurrency: Some(place.cell.concurrency), rate: None },
            opened: axis(opened),
            closed: axis(closed),
            planned: self.plan.drop + self.plan.num_prompts,
            drop: self.plan.drop,
            slots: place.cell.concurrency,
            trace_hash: self.plan.trace_hash.clone(),
            interrupted: self.shared.stop.load(Ordering::Relaxed),
            rows,
            last_h: desk.last_h(),
            counters,
            workers: self.workers.iter().map(share).collect(),
        }
    }

    fn tell(&self, row: &WindowRow, reports: &[WindowReport], desk: &recorder::Desk, reader_waits: u64) {
        let failed = desk.tally.failed.load(Ordering::Relaxed);
        self.voice.say(format!(
            "window   {}/{} at concurrency {}: {} requests, {failed} failed, {:.1} s{}",
            row.window + 1,
            self.plan.windows,
            row.slots,
            row.rows,
            (row.closed - row.opened) as f64 / 1e9,
            if row.interrupted { ", INTERRUPTED" } else { "" },
        ));
        if row.window == 0 && keep_alive_of(reports) == KeepAlive::Refused {
            self.voice.say(
                "         the server closes each connection after a reply although it announces keep-alive: \
                 every request gets a new one (flag reopened)",
            );
        }
        let c = &row.counters;
        for (n, words) in [
            (c.ring_overflow, "completions were lost: this window is not valid"),
            (c.pool_exhausted, "times no block was free to record in: requests failed as client"),
            (c.supply_starved, "times a free slot found no request ready: the load was late"),
            (c.clock_steps, "steps of the wall clock: kernel stamps around them are null"),
            (reader_waits, "times a worker waited for the record reader"),
        ] {
            if n > 0 {
                self.voice.say(format!("WARNING: {n} {words}"));
            }
        }
    }

    fn sample_when_due(&self, next: &mut Instant, files: &mut Files) -> anyhow::Result<()> {
        if SystemClock.now() >= *next {
            self.sample(files)?;
            *next = SystemClock.now() + Nanos::from_secs(1);
        }
        Ok(())
    }

    fn sample(&self, files: &mut Files) -> anyhow::Result<()> {
        let t = SystemClock.now().saturating_since(self.origin).ns();
        let cores: BTreeMap<u64, u32> = self.workers.iter().map(|w| (w.tid as u64, w.core as u32)).collect();
        health::sample(t, &cores).iter().try_for_each(|row| write_line(&mut files.health, row))
    }
}

/// Which window.
#[derive(Clone, Copy)]
struct WindowPlace {
    index: u32,
    cell: Cell,
    window: u32,
    serial: u64,
}

struct Files {
    windows: File,
    health: File,
}

impl Files {
    fn window(&mut self, row: &WindowRow) -> anyhow::Result<()> {
        write_line(&mut self.windows, row)
    }
}

fn write_line(file: &mut File, row: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut line = serde_json::to_string(row)?;
    line.push('\n');
    file.write_all(line.as_bytes()).context("the run directory cannot be written")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_civil() {
        assert_eq!(timestamp(0), "1970-01-01T00-00-00");
        assert_eq!(timestamp(951_782_399_000_000_000), "2000-02-28T23-59-59");
        assert_eq!(timestamp(951_782_400_000_000_000), "2000-02-29T00-00-00");
        assert_eq!(timestamp(1_796_149_375_000_000_000), "2026-12-01T18-22-55");
    }
}
