//! `saturate`: the highest load at which a server still meets its goals, and what it can do at all. Every window is a
//! real campaign in a run directory of its own; what the search makes of them is a function of their files.

pub mod campaigns;
pub mod document;
pub mod record;
pub mod settings;
pub mod window;

use crate::analysis::saturation::search::{End, Next, Trial};
use crate::campaign::{self, Ended, Voice};
use crate::cli::RunArgs;
use crate::plan::Plan;
use crate::report::{html, saturation as report};
use crate::verify;
use anyhow::{Context, bail};
use bench_engine::clock::{Clock, SystemClock};
use bench_engine::units::Instant;
use document::{Document, Replayed, figures_of};
use record::{Record, Step};
use settings::Settings;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Its reports for people.
const REPORT: &str = "report.md";
const PAGE: &str = "report.html";
/// Directory of the campaign at shares of the optimum.
const POINTS: &str = "points";
/// Time that a window needs beside its load: finding the server, opening, deriving, s.
const AROUND_S: f64 = 2.0;

/// A search that was carried out, and where it is.
#[derive(Debug)]
pub struct Made {
    /// What stands in `saturation.json`.
    pub document: Document,
    /// Its directory.
    pub dir: PathBuf,
    /// The user ended it.
    pub interrupted: bool,
}

/// Carries out a search. `stop` becomes true when the user interrupts; `environment` looks up variables.
///
/// # Errors
/// What kept it from being carried out; the windows until then are in its directory.
pub fn saturate(
    settings: Settings,
    run: &RunArgs,
    stop: &Arc<AtomicBool>,
    voice: &Voice,
    environment: &dyn Fn(&str) -> Option<String>,
) -> anyhow::Result<Made> {
    let started_at = campaign::timestamp(SystemClock.wall().ns());
    let run = RunArgs { name: Some(run.name.clone().unwrap_or_else(|| "saturation".to_owned())), ..run.clone() };
    let dir = directory(&run, &started_at)?;
    let record = Record {
        schema: record::SCHEMA.to_owned(),
        tarebench: crate::cli::VERSION.to_owned(),
        started_at,
        settings,
        steps: Vec::new(),
        cut_off: None,
        ended: None,
        points: None,
    };
    record.write(&dir)?;
    voice.say(report::announcement(&record.settings, record.settings.sessions_of_window(&run), &dir));
    let mut searching = Searching { dir: &dir, run: &run, record, stop, voice, environment, began: SystemClock.now() };
    let interrupted = searching.windows()?;
    let document = publish(&dir)?;
    Ok(Made { document, dir, interrupted })
}

/// Writes `saturation.json` and the report again from the files.
fn publish(dir: &Path) -> anyhow::Result<Document> {
    let document = Document::of_directory(dir)?;
    let put = |name: &str, text: String| {
        fs::write(dir.join(name), text).with_context(|| dir.join(name).display().to_string())
    };
    for (name, text) in files(&document)? {
        put(name, text)?;
    }
    Ok(document)
}

/// What is derived of a search, by name of its file.
fn files(document: &Document) -> anyhow::Result<[(&'static str, String); 3]> {
    Ok([(document::FILE, document.to_json()?), (REPORT, report::markdown(document)), (PAGE, html::of_search(document))])
}

/// `--out`, or one in `runs/`; one that holds something is refused.
fn directory(run: &RunArgs, started_at: &str) -> anyhow::Result<PathBuf> {
    let name = run.name.as_deref().unwrap_or("saturation");
    let by_default = || Path::new("runs").join(format!("{started_at}-{}", campaign::file_name(name)));
    let dir = run.out.clone().unwrap_or_else(by_default);
    campaign::usable_directory(&dir, false)?;
    Ok(dir)
}

/// A search under way.
struct Searching<'a> {
    dir: &'a Path,
    run: &'a RunArgs,
    record: Record,
    stop: &'a Arc<AtomicBool>,
    voice: &'a Voice,
    environment: &'a dyn Fn(&str) -> Option<String>,
    began: Instant,
}

impl Searching<'_> {
    /// Runs windows until the search is over, then those at shares of the optimum. Whether the user ended it.
    fn windows(&mut self) -> anyhow::Result<bool> {
        let mut replayed = Replayed::begin(&self.record.settings);
        self.voice.say(report::heading(&self.record.settings));
        while let Next::Try(trial) = replayed.search.next() {
            let left_s = self.record.settings.budget_s - SystemClock.now().saturating_since(self.began).secs_f64();
            if left_s <= AROUND_S {
                return self.end(End::Budget);
            }
            let name = step_name(self.record.steps.len(), &trial);
            let plan = self.record.settings.plan(self.run, &trial, &self.dir.join(&name), left_s, self.environment)?;
            let ended = match self.campaign(&plan) {
                Ok(ended) => ended,
                Err(_) if self.stop.load(Ordering::Relaxed) => {
                    self.name_what_is_there(&name);
                    return self.end(End::Interrupted).map(|_| true);
                }
                // a server that was never there is no search
                Err(error) if self.record.steps.is_empty() => return Err(error),
                Err(error) => {
                    self.voice.say(format!("WARNING: a window could not be run: {error:#}"));
                    self.name_what_is_there(&name);
                    return self.end(End::Failed(format!("{error:#}")));
                }
            };
            if ended.interrupted {
                self.record.cut_off = Some(name);
                return self.end(End::Interrupted).map(|_| true);
            }
            let in_budget = SystemClock.now().saturating_since(self.began).secs_f64() < self.record.settings.budget_s;
            let step = Step { dir: name.clone(), trial };
            let figures = figures_of(self.dir, &step)?;
            if figures.ended_early && figures.over_saturated.is_none() && !in_budget {
                // cut off by its time: what it shows is not what was asked
                self.record.cut_off = Some(name);
                return self.end(End::Budget);
            }
            self.record.steps.push(step);
            self.record.write(self.dir)?;
            self.voice.say(report::line(&figures));
            replayed.take(figures);
            // too late to cut this one off
            if self.stop.load(Ordering::Relaxed) {
                return self.end(End::Interrupted).map(|_| true);
            }
        }
        self.points(replayed.search.bracket().good)
    }

    /// What there is of a window that could not be run is named, so that no run lies there unexplained.
    fn name_what_is_there(&mut self, name: &str) {
        self.record.cut_off = self.dir.join(name).exists().then(|| name.to_owned());
    }

    fn end(&mut self, end: End) -> anyhow::Result<bool> {
        self.record.ended = Some(end);
        self.record.write(self.dir)?;
        Ok(false)
    }

    /// Each campaign confines its own thread to the control core: this one must stay free for the next.
    fn campaign(&self, plan: &Plan) -> anyhow::Result<Ended> {
        let ended =
            std::thread::scope(|scope| scope.spawn(|| campaign::run(plan, self.stop, &Voice { quiet: true })).join());
        let ended = ended.map_err(|_| anyhow::anyhow!("a window ended in a panic"))??;
        ended.context("a window was a dry run")
    }

    fn points(&mut self, optimum: Option<f64>) -> anyhow::Result<bool> {
        let Some(optimum) = optimum else { return Ok(false) };
        let dir = self.dir.join(POINTS);
        let plan = self.record.settings.plan_of_points(self.run, optimum, &dir, self.environment)?;
        let Some(plan) = plan else { return Ok(false) };
        self.voice.say("         and windows at shares of the optimum");
        let ended = match self.campaign(&plan) {
            Ok(ended) => ended,
            Err(error) => {
                let interrupted = self.stop.load(Ordering::Relaxed);
                if !interrupted {
                    self.voice
                        .say(format!("WARNING: the windows at shares of the optimum could not be run: {error:#}"));
                }
                self.name_what_is_there(POINTS);
                self.record.write(self.dir)?;
                return Ok(interrupted);
            }
        };
        self.record.points = Some(POINTS.to_owned());
        self.record.write(self.dir)?;
        Ok(ended.interrupted)
    }
}

/// `steps/07-bisect-90.5`.
fn step_name(number: usize, trial: &Trial) -> String {
    let purpose = serde_json::to_value(trial.purpose).ok();
    let purpose = purpose.as_ref().and_then(|p| p.as_str()).unwrap_or_default().replace('_', "-");
    match trial.load {
        Some(load) => format!("steps/{number:02}-{purpose}-{load}"),
        None => format!("steps/{number:02}-{purpose}"),
    }
}

/// Whether `dir` is that of a search.
pub fn is_search(dir: &Path) -> bool {
    dir.join(record::FILE).is_file() && !dir.join("plan.json").exists()
}

/// Verifies that a search names every campaign that was begun and every run that lies there, and each window from its
/// rows, also one that was cut off; then carries the search through again over them and compares `saturation.json` and
/// its report to the last bit. What was verified, in words.
///
/// # Errors
/// The first difference.
pub fn verify(dir: &Path) -> anyhow::Result<String> {
    let record = Record::read(dir)?;
    campaigns::check(dir, &record)?;
    let (mut windows, mut rows, mut directories) = (0, 0, 0);
    for name in record.named() {
        let of = dir.join(name);
        // one that was cut off before its first window
        if record.cut_off.as_ref() == Some(name) && !of.join("windows.jsonl").exists() {
            continue;
        }
        directories += 1;
        let verified = verify::verify(&of).with_context(|| name.clone())?;
        crate::evidence::verify(&of, verified.published).with_context(|| name.clone())?;
        windows += verified.windows;
        rows += verified.rows;
    }
    let document = Document::of_directory(dir)?;
    for (name, again) in files(&document)? {
        let stored = fs::read_to_string(dir.join(name)).with_context(|| name.to_owned())?;
        if let Some(line) = stored.lines().zip(again.lines()).position(|(a, b)| a != b) {
            let of = |text: &str| text.lines().nth(line).unwrap_or_default().trim().to_owned();
            bail!("{name}:{}: stored {}, recomputed {}", line + 1, of(&stored), of(&again));
        }
        if stored != again {
            bail!("{name}: it is not as long as what is recomputed");
        }
    }
    Ok(format!(
        "verified: {rows} rows, {windows} windows in {directories} run directories; the search over them, {}, {REPORT} and \
         {PAGE}, bit for bit",
        document::FILE
    ))
}
