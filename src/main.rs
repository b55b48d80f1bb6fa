//! The binary: words in, exit status out.
#![forbid(unsafe_code)]

mod commands;

use anyhow::Context;
use bench_engine::clock::SystemClock;
use bench_engine::io::capabilities::{capabilities, choose};
use bench_engine::timers::Limits;
use bench_engine::units::Nanos;
use bench_engine::wire::request::RequestTemplate;
use calibration::mock::{Mock, MockConfig, UsageMode};
use clap::Parser;
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tarebench::analysis::comparison::Settings;
use tarebench::analysis::comparison::differences::Named;
use tarebench::analysis::comparison::metric::{self, Metric};
use tarebench::calibrate;
use tarebench::calibrate::at_limit::Answer;
use tarebench::calibrations::check;
use tarebench::calibrations::document::Calibration;
use tarebench::calibrations::identity::Host;
use tarebench::calibrations::store::{self, Found};
use tarebench::campaign::{self, Ended, Voice, mock_child};
use tarebench::cli::{
    self, CalibrateArgs, Cli, Command, CompareArgs, DecodeArgs, DiscloseArgs, ImportArgs, LedgerArgs, List, MockArgs,
    MockUsage, ProbeArgs, ReportArgs, ReportFormat, RunArgs, VerifyArgs,
};
use tarebench::disclosure::boxes::Boxes;
use tarebench::disclosure::directory::Disclosed;
use tarebench::disclosure::ledger::book::Book;
use tarebench::disclosure::ledger::{neighbours, read};
use tarebench::evidence::{self, Evidence};
use tarebench::import::{self, Imported};
use tarebench::plan::{MetricsWords, Plan, key_policy, secrets};
use tarebench::probe::{OneRequest, show};
use tarebench::rundir::run_json::RunJson;
use tarebench::target::address::Target;
use tarebench::target::metrics_source::MetricsSource;
use tarebench::target::openai::{Api, BodyTemplate, TokenProof};
use tarebench::target::route::Route;
use tarebench::target::{facts, identity};
use tarebench::workload::prompt::Prompt;
use tarebench::{compare, decode, report, verify};

const FAILED: u8 = 1;
const USAGE: u8 = 2;
const INVALID: u8 = 3;
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let done = match Cli::try_parse().unwrap_or_else(|error| cli::without_values(error).exit()).command {
        Command::Run(args) => run(*args),
        Command::Calibrate(args) => calibrate(&args),
        Command::Mock(args) => mock(*args),
        Command::Probe(args) => probe(&args),
        Command::Compare(args) => compare_runs(&args),
        Command::Decode(args) => decode_file(&args),
        Command::Import(args) => import_files(&args),
        Command::Verify(args) => Ok(verify_dir(&args)),
        Command::Ledger(args) => ledger(&args),
        Command::Report(args) => report_dir(&args),
        Command::Disclose(args) => disclose(&args),
        Command::Export(args) => commands::export::export(&args),
        Command::Saturate(args) => commands::saturate::saturate(*args),
    };
    match done {
        Ok(0) if OUTPUT_LOST.load(Ordering::Relaxed) => ExitCode::from(FAILED),
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(FAILED)
        }
    }
}

fn usage(words: impl std::fmt::Display) -> u8 {
    eprintln!("error: {words}");
    USAGE
}

fn run(args: RunArgs) -> anyhow::Result<u8> {
    let file = match &args.config {
        None => RunArgs::default(),
        Some(path) => {
            let text = match std::fs::read_to_string(path) {
                Ok(text) => text,
                Err(error) => return Ok(usage(format!("--config {}: {error}", path.display()))),
            };
            match toml::from_str(&text) {
                Ok(file) => file,
                Err(error) => return Ok(usage(format!("--config {}: {error}", path.display()))),
            }
        }
    };
    let plan = match Plan::from_args(&args.over(file), |name| std::env::var(name).ok()) {
        Ok(plan) => plan,
        Err(error) => return Ok(usage(error)),
    };
    let stop = stop_on_signals()?;
    let voice = Voice { quiet: plan.output.quiet };
    let ended = match plan.interleave {
        None => campaign::run(&plan, &stop, &voice).map(|ended| ended.map(|ended| vec![ended])),
        Some(_) => campaign::run_interleaved(&plan, &stop, &voice).map(|ended| ended.map(Vec::from)),
    };
    match ended {
        Err(error) if stop.load(Ordering::Relaxed) => {
            eprintln!("error: {error:#}");
            Ok(INTERRUPTED)
        }
        Err(error) => Err(error),
        Ok(None) => Ok(0),
        Ok(Some(ended)) => {
            match &ended[..] {
                [a, b] => print_arms(&plan, [a, b])?,
                others => others.iter().try_for_each(|ended| print_report(&plan, ended))?,
            }
            Ok(ended.iter().map(status).max().unwrap_or(0))
        }
    }
}

fn print_arms(plan: &Plan, [a, b]: [&Ended; 2]) -> anyhow::Result<()> {
    if plan.output.json {
        let both = serde_json::json!({"a": a.run, "b": b.run});
        tell(&(serde_json::to_string_pretty(&both)? + "\n"));
    } else if !plan.output.quiet {
        tell(&report::interleaved::render([&a.run, &b.run], [&a.dir, &b.dir]));
    }
    Ok(())
}

/// Becomes true at the first interrupt or hang-up; the second one ends the process at once.
fn stop_on_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut signals = vec![signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM];
    if !ignores_hang_up() {
        signals.push(signal_hook::consts::SIGHUP);
    }
    for signal in signals {
        signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED.into(), Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

fn calibrate(args: &CalibrateArgs) -> anyhow::Result<u8> {
    let store = store::directory(args.calibrations.as_deref(), |name| std::env::var(name).ok());
    let voice = Voice { quiet: args.quiet };
    if let Some(run) = &args.check {
        return check_run(args, run);
    }
    if let Some(id) = &args.show {
        let found = stored(args, &store, id)?;
        tell(&match args.json {
            true => serde_json::to_string_pretty(&found)? + "\n",
            false => report::calibration::render(&found),
        });
        return Ok(0);
    }
    let stop = stop_on_signals()?;
    if let Some(share) = args.at_limit {
        if !(share > 0.0 && share <= 10.0) {
            return Ok(usage(format!("--at-limit must be above 0 and at most 10, not {share}")));
        }
        let found = stored(args, &store, "")?;
        if !args.json {
            tell(&format!("verdict   {}\n", found.verdict.text));
        }
        let tried = match calibrate::try_limits(&found, share, args, &stop, &voice) {
            Ok(Some(tried)) => tried,
            Ok(None) => return Ok(INTERRUPTED),
            Err(error) if stop.load(Ordering::Relaxed) => {
                eprintln!("error: {error:#}");
                return Ok(INTERRUPTED);
            }
            Err(error) => return Err(error),
        };
        tell(&match args.json {
            true => serde_json::to_string(&tried)? + "\n",
            false => tried.words(),
        });
        return Ok(match tried.answer {
            Answer::Holds => 0,
            Answer::DoesNotHold => INVALID,
            Answer::NotShown => FAILED,
        });
    }
    let made = match calibrate::calibrate(args, &stop, &voice) {
        Err(error) if stop.load(Ordering::Relaxed) => {
            eprintln!("error: {error:#}");
            return Ok(INTERRUPTED);
        }
        made => made?,
    };
    if args.json {
        tell(&(serde_json::to_string_pretty(&made.calibration)? + "\n"));
    } else if !args.quiet {
        tell(&format!("\n{}\n", report::calibration::render(&made.calibration)));
        tell(&format!("{}: calibration.json, its pictures, and each step's own run directory\n", made.dir.display()));
    }
    Ok(if made.calibration.interrupted { INTERRUPTED } else { 0 })
}

/// The stored calibration that `id` names (an id or a directory), or, when it is empty, the newest that fits.
fn stored(args: &CalibrateArgs, store: &std::path::Path, id: &str) -> anyhow::Result<Calibration> {
    if !id.is_empty() {
        let given = std::path::Path::new(id);
        let dir = if given.is_dir() { given.to_owned() } else { store.join(id) };
        return store::read(&dir).map_err(anyhow::Error::msg);
    }
    match store::find(store, &Host::of(&campaign::environment::facts()), || {
        calibrate::config(args, &Voice { quiet: true })
    })? {
        Found::Match(found, unreadable) => {
            say_unreadable(&unreadable);
            Ok(*found)
        }
        Found::Near(found, differences, unreadable) => {
            say_unreadable(&unreadable);
            eprintln!("WARNING: no calibration fits this host and these flags; the nearest differs in");
            differences.iter().for_each(|words| eprintln!("         {words}"));
            Ok(*found)
        }
        Found::Nothing(words) => {
            anyhow::bail!("no calibration in {}: {words}; tarebench calibrate --quick makes one", store.display())
        }
    }
}

fn say_unreadable(words: &[String]) {
    if !words.is_empty() {
        eprintln!("WARNING: of the calibrations that are kept some cannot be read: {}", words.join("; "));
    }
}

/// Holds a run against the calibration that it names.
fn check_run(args: &CalibrateArgs, dir: &std::path::Path) -> anyhow::Result<u8> {
    let checked = check::of_directory(dir).map_err(anyhow::Error::msg)?;
    checked.warnings().iter().for_each(|words| eprintln!("{words}"));
    tell(&if args.json { checked.json().to_string() + "\n" } else { checked.words() });
    Ok(if checked.is_inside() { 0 } else { INVALID })
}

/// Whether this process was started to outlive its terminal (`nohup`): the kernel's mask of ignored signals.
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok())
        .is_some_and(|m| m & (1 << (signal_hook::consts::SIGHUP - 1)) != 0)
}

/// Something that was to stand on standard output does not.
static OUTPUT_LOST: AtomicBool = AtomicBool::new(false);

/// Onto standard output. A reader that has gone away is no failure; a full disk is one.
fn tell(text: &str) {
    let mut out = std::io::stdout().lock();
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush())
        && error.kind() != std::io::ErrorKind::BrokenPipe
    {
        OUTPUT_LOST.store(true, Ordering::Relaxed);
        eprintln!("error: standard output cannot be written: {error}");
    }
}

fn print_report(plan: &Plan, ended: &Ended) -> anyhow::Result<()> {
    let text = if plan.output.json {
        tarebench::analysis::summary::to_json(&ended.run)?
    } else if plan.output.quiet {
        return Ok(());
    } else {
        let mut text = on_terminal(&ended.run, &ended.boxes, ended.evidence.as_ref(), ended.canary.as_ref());
        text.push_str(&format!(
            "\n{0}: run.json, boxes.json, report.md, requests.jsonl; rebuild with: tarebench verify {0}\n",
            ended.dir.display()
        ));
        text
    };
    tell(&text);
    Ok(())
}

/// A campaign as a terminal shows it: its tables, what a mock's log says of them, and the boxes.
fn on_terminal(run: &RunJson, boxes: &Boxes, truth: Option<&Evidence>, canary: Option<&Evidence>) -> String {
    let color = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let width = report::terminal::WIDEST;
    let mut text = match boxes.refusal() {
        None => report::terminal::render(run, width, color),
        Some(refusal) => report::terminal::refused(run, &refusal, width, color),
    };
    if let Some(evidence) = truth {
        text.push_str(&report::calibration::truth("truth", "the mock's own log", &evidence.closure));
    }
    if let Some(canary) = canary {
        text.push_str(&report::calibration::truth("canary", "beside the load, in no figure above", &canary.closure));
    }
    text.push_str(&report::card::terminal(boxes, width, color));
    text
}

/// A report again from the files of a run.
fn report_dir(args: &ReportArgs) -> anyhow::Result<u8> {
    let (run, disclosed) = Disclosed::of_directory(&args.dir)?;
    if let Some(refusal) = disclosed.boxes.refusal() {
        eprintln!("error: {refusal}");
        return Ok(FAILED);
    }
    tell(&match args.format {
        ReportFormat::Markdown => report::markdown::render(&run, &disclosed),
        ReportFormat::Terminal => {
            let of = |pair| Evidence::of(&args.dir, pair);
            on_terminal(&run, &disclosed.boxes, of(evidence::LOAD)?.as_ref(), of(evidence::CANARY)?.as_ref())
        }
    });
    Ok(0)
}

/// The fifteen boxes of a run.
fn disclose(args: &DiscloseArgs) -> anyhow::Result<u8> {
    let (run, disclosed) = Disclosed::of_directory(&args.dir)?;
    tell(&match args.json {
        true => disclosed.boxes.to_json()?,
        false => report::disclosure::page(&run, &disclosed),
    });
    Ok(0)
}

fn status(ended: &Ended) -> u8 {
    let not_valid = ended.run.verdicts.iter().any(|v| v.kind == "failed" || v.kind == "invalid");
    match () {
        () if ended.interrupted => INTERRUPTED,
        () if not_valid || !ended.run.complete => INVALID,
        () => 0,
    }
}

fn mock(args: MockArgs) -> anyhow::Result<u8> {
    let millis = |flag: &str, ms: f64| {
        Nanos::from_secs_f64(ms / 1e3).with_context(|| format!("{flag} must be a time of 0 or more, not {ms}"))
    };
    let config = MockConfig {
        listen: args.listen,
        model: args.model,
        ttft: millis("--ttft", args.ttft)?,
        itl: millis("--itl", args.itl)?,
        ttft_law: args.ttft_dist,
        itl_law: args.itl_dist,
        jitter: args.jitter,
        seed: args.seed,
        lockstep: args.lockstep.map(|ms| millis("--lockstep", ms)).transpose()?,
        classes: args.class,
        prefill_per_token: millis("--prefill-us-per-token", args.prefill_us_per_token / 1e3)?,
        prefix_cache_blocks: args.prefix_cache,
        cold_start: args.cold_start,
        max_num_seqs: args.max_num_seqs,
        tokens: args.tokens,
        tokens_per_event: args.tokens_per_event,
        role_event: !args.no_role_event,
        reasoning: args.reasoning,
        event_bytes: args.event_bytes,
        merge_writes: args.merge_writes,
        split_writes: args.split_writes,
        spin: millis("--spin", args.spin / 1e3)?,
        core: args.core,
        truth: args.truth,
        truth_listen: args.truth_listen,
        stamp_every: args.stamp_every,
        script: args.script,
        script_bytes: args.script_bytes,
        time_scale: args.time_scale,
        until_stdin_closes: args.until_stdin_closes,
        tokens_per_word: args.tokens_per_word,
        template_tokens: args.template_tokens,
        close_after_reply: args.close_after_reply,
        usage: match args.usage {
            MockUsage::Asked => UsageMode::Asked,
            MockUsage::None => UsageMode::None,
            MockUsage::Final => UsageMode::Final,
            MockUsage::Every => UsageMode::Every,
        },
        api_key: match args.api_key_env {
            None => None,
            Some(name) => Some(std::env::var(&name).with_context(|| format!("--api-key-env {name}: not set"))?),
        },
    };
    let mock = Mock::bind(config)?;
    mock.notes().iter().for_each(|note| eprintln!("mock: {note}"));
    let mut said = format!("{}{}\n", mock_child::LISTENING, mock.local_addr());
    if let Some(addr) = mock.truth_addr() {
        said += &format!("mock: truth at http://{addr}/truth\n");
    }
    // in one write: whoever started this may read no further than the first line
    std::io::stdout().write_all(said.as_bytes())?;
    std::io::stdout().flush()?;
    let summary = mock.run()?;
    if !args.until_stdin_closes {
        eprintln!("mock: {}", serde_json::to_string(&summary)?);
        if let Some(reason) = &summary.unfit_reason {
            eprintln!("mock: not fit: {reason}");
        }
    }
    Ok(0)
}

fn import_files(args: &ImportArgs) -> anyhow::Result<u8> {
    let columns = import::Columns {
        ttft: args.ttft_column.clone(),
        total: args.total_column.clone(),
        by: args.by.clone(),
        unit_ms: args.unit.map(|unit| unit.ms()),
    };
    let mut status = 0;
    for path in &args.files {
        match Imported::from_file(path, &columns) {
            Ok(imported) if args.json => tell(&(serde_json::to_string(&imported)? + "\n")),
            Ok(imported) => tell(&report::import::render(&imported)),
            // the other files can be read all the same
            Err(error) => {
                eprintln!("error: {error}");
                status = FAILED;
            }
        }
    }
    Ok(status)
}

fn probe(args: &ProbeArgs) -> anyhow::Result<u8> {
    let mut target = Target::resolve(&args.base_url, None)?;
    if let Some(open) = target
        .resolved
        .iter()
        .find(|a| tarebench::target::fetch::connect(**a, std::time::Duration::from_secs(5)).is_ok())
    {
        target.use_address(*open);
    }
    let (name, by_flag) = args.api_key_env.as_ref().map_or(("OPENAI_API_KEY", false), |name| (name.as_str(), true));
    let key = std::env::var(name).ok().filter(|k| !k.is_empty());
    if by_flag && key.is_none() {
        return Ok(usage(format!("--api-key-env {name}: that variable is not set")));
    }
    let (send, note) = key_policy(name, by_flag, key.is_some(), target.is_loopback());
    note.into_iter().for_each(|note| eprintln!("{note}"));
    let mut headers: Vec<(String, String)> = args.header.iter().map(|p| (p.0.clone(), p.1.clone())).collect();
    let secret = key.filter(|_| send);
    if let Some(key) = &secret {
        headers.push(("Authorization".to_owned(), format!("Bearer {key}")));
    }
    let own: Vec<(String, String)> = args.header.iter().map(|p| (p.0.clone(), p.1.clone())).collect();
    let secret = secrets(secret.as_deref(), &own);
    let mut identity = identity::ask(&target, &headers, secret.as_deref())?;
    let Some(model) = args.model.clone().or_else(|| identity.models.first().cloned()) else {
        anyhow::bail!(
            "no model: /v1/models told none ({}); name one with --model",
            identity.models_error.unwrap_or_default()
        );
    };
    let metrics = MetricsSource::find(&MetricsWords::BesideLoad, &target, &headers, secret.as_deref())?;
    let first = metrics.as_ref().ok().and_then(MetricsSource::first);
    identity.facts = facts::ask(&target, &headers, secret.as_deref(), &identity, &model, first);
    identity.started(first, SystemClock.wall());
    let route = Route::probe(target.address, std::time::Duration::from_secs(5)).ok();
    let body = BodyTemplate {
        api: Api::of_endpoint(&args.endpoint),
        model: model.clone(),
        stream: !args.no_stream,
        temperature: 0.0,
        top_p: 1.0,
        ignore_eos: false,
        token_proof: TokenProof::None,
        extra: match args.extra_body.as_deref().map(serde_json::from_str) {
            None => serde_json::Map::new(),
            Some(Ok(serde_json::Value::Object(fields))) => fields,
            Some(_) => return Ok(usage("--extra-body must be a JSON object")),
        },
    };
    let accept = if body.stream { "text/event-stream" } else { "application/json" };
    let template = RequestTemplate::new("POST", &target.path(&args.endpoint), &target.authority, accept, &headers)?;
    let one = OneRequest {
        address: target.address,
        request: template.with_json(&body.body(&Prompt::Text(args.prompt.clone()), args.max_tokens)),
        streamed: body.stream,
        output_tokens: args.max_tokens,
        limits: Limits::default(),
        secret,
    };
    let choice = choose(args.arm.map(Into::into)).context(campaign::NO_SUCH_ARM)?;
    if let Some(refused) = &choice.refused {
        eprintln!("{}", campaign::fallen_back(refused));
    }
    let row = one.send(&capabilities(choice.driver)?)?;
    let mut text = String::new();
    if args.json {
        text.push_str(&(serde_json::to_string_pretty(&row)? + "\n"));
    } else {
        let said = identity.server.as_deref().unwrap_or("no Server header");
        text.push_str(&format!("server   {} ({}), {said}\n", target.base_url, target.address));
        text.push_str(&format!("models   {}\n", identity.models.join(", ")));
        if let Some(version) = &identity.version {
            text.push_str(&format!("version  {version}\n"));
        }
        let facts = facts::words(&identity.facts);
        if !facts.is_empty() {
            text.push_str(&format!("facts    {facts}\n"));
        }
        match &metrics {
            Ok(source) => text.push_str(&format!("metrics  {}\n", source.figures())),
            Err(why) => text.push_str(&format!("metrics  none ({why})\n")),
        }
        if let (Some(at), Some(age_s)) = (&identity.started_at, identity.age_s) {
            text.push_str(&format!("started  {at}, {age_s:.0} s ago\n"));
        }
        if let Some(route) = &route {
            text.push_str(&format!("network  {}\n", route.words()));
        }
        text.push_str(&format!("asked    {} of {model}, at most {} tokens\n\n", args.endpoint, args.max_tokens));
        text.push_str(&show(&row));
    }
    tell(&text);
    Ok(if row.outcome == tarebench::rundir::row::Outcome::Ok { 0 } else { INVALID })
}

fn decode_file(args: &DecodeArgs) -> anyhow::Result<u8> {
    let input: Box<dyn Read> = match args.file.as_os_str() == "-" {
        true => Box::new(std::io::stdin()),
        false => Box::new(std::fs::File::open(&args.file).with_context(|| args.file.display().to_string())?),
    };
    let mut out = std::io::stdout().lock();
    let mut malformed = false;
    for (number, line) in BufReader::new(input).split(b'\n').enumerate() {
        let line = line.with_context(|| args.file.display().to_string())?;
        if line.trim_ascii().is_empty() {
            continue;
        }
        let parsed = String::from_utf8(line)
            .map_err(|e| e.to_string())
            .and_then(|l| decode::Case::parse(&l).map_err(|e| e.to_string()));
        match parsed {
            Ok(case) => {
                let wire = case.wire()?;
                let decoded = decode::decode(&case.id, &case.request, &wire, case.raw);
                let value = match args.record {
                    true => serde_json::to_value(&decoded.row)?,
                    false => decode::figures(&case.id, &case.request, &decoded),
                };
                writeln!(out, "{value}")?;
            }
            Err(words) => {
                malformed = true;
                eprintln!("{}:{}: {words}", args.file.display(), number + 1);
            }
        }
    }
    Ok(if malformed { USAGE } else { 0 })
}

fn compare_runs(args: &CompareArgs) -> anyhow::Result<u8> {
    let metrics = match &args.metrics {
        Some(named) => named.0.clone(),
        None => metric::DEFAULT.iter().map(|name| name.parse()).collect::<Result<Vec<Metric>, _>>()?,
    };
    if let Some((_, twice)) = metrics.iter().enumerate().find(|(i, m)| metrics[..*i].contains(m)) {
        return Ok(usage(format!("--metrics names {twice} twice")));
    }
    let names = |of: &Option<List<String>>| of.as_ref().map(|list| list.0.clone()).unwrap_or_default();
    let named = Named { varies: names(&args.varies), accepted: names(&args.allow_differences) };
    if let Err(words) = named.check() {
        return Ok(usage(words));
    }
    let settings = Settings { metrics, margin: args.margin.0 };
    let compared = compare::compare(&args.a.0, &args.b.0, &settings, &named)?;
    tell(&match (args.json, args.markdown) {
        (true, _) => serde_json::to_string_pretty(&compared)? + "\n",
        (_, true) => report::comparison::markdown(&compared),
        _ => report::comparison::terminal(&compared),
    });
    Ok(if compare::has_result(&compared) { 0 } else { INVALID })
}

fn verify_dir(args: &VerifyArgs) -> u8 {
    if tarebench::saturate::is_search(&args.dir) {
        return commands::saturate::verify(&args.dir);
    }
    match verify::verify(&args.dir) {
        Ok(verified) => match tarebench::evidence::verify(&args.dir, verified.published) {
            Ok(comparisons) => {
                tell(&format!("{}\n", verify::Verified { comparisons, ..verified }));
                0
            }
            Err(difference) => {
                tell(&format!("{difference:#}\n"));
                FAILED
            }
        },
        Err(difference) => {
            tell(&format!("{difference}\n"));
            FAILED
        }
    }
}

fn ledger(args: &LedgerArgs) -> anyhow::Result<u8> {
    let path = neighbours::find(&args.path).map_err(anyhow::Error::msg)?;
    let copies = neighbours::Copies::beside(&path);
    let bytes = read(&path).with_context(|| path.display().to_string())?;
    let book = Book::of(&bytes);
    if !bytes.is_empty() && !book.is_ledger {
        anyhow::bail!("{}: is no ledger of campaigns; name one, or a directory with one", path.display());
    }
    let mut faults = copies.missing(&book);
    if args.verify {
        faults.extend(neighbours::swapped_files(&path, &book));
    }
    tell(&match args.json {
        true => serde_json::to_string_pretty(&report::campaigns::document(&path, &book, &faults))? + "\n",
        false => report::campaigns::render(&path, &book, &faults),
    });
    let first = book.breaks.first().map(ToString::to_string).or_else(|| faults.first().map(ToString::to_string));
    Ok(match first {
        None => 0,
        Some(first) => {
            eprintln!("error: {}: {first}", path.display());
            FAILED
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_exit_status_says_how_it_ended() {
        let ended = |complete: bool, kind: Option<&str>, interrupted: bool| {
            let verdicts: Vec<_> =
                kind.iter().map(|kind| json!({"cell": 0, "window": 0, "kind": kind, "text": ""})).collect();
            let run = json!({"schema": "tarebench.run/1", "tarebench": null, "run_id": null, "plan_hash": null,
                "started_at": null, "complete": complete, "environment": null, "calibration": null, "cells": [], "curves": [],
                "verdicts": verdicts, "labels": [], "definitions": {}});
            let run = serde_json::from_value(run).expect("a run");
            status(&Ended {
                run,
                boxes: Boxes { schema: String::new(), boxes: Vec::new() },
                dir: std::path::PathBuf::new(),
                interrupted,
                evidence: None,
                canary: None,
                truth_read: 0,
            })
        };
        assert_eq!(ended(true, None, false), 0);
        assert_eq!(ended(true, Some("invalid"), false), INVALID);
        assert_eq!(ended(true, Some("failed"), false), INVALID);
        assert_eq!(ended(false, None, false), INVALID);
        assert_eq!(ended(false, Some("invalid"), true), INTERRUPTED);
    }
}
