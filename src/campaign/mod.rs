//! One campaign: load points x windows against one server, every fact of it on disk.

mod announcement;
mod canary;
pub mod environment;
pub mod feeder;
pub mod health;
pub mod mock_child;
pub mod recorder;
mod server;
mod windows;

use crate::analysis::summary;
use crate::calibrations::identity::{Config, Host};
use crate::calibrations::store::{self, Found};
use crate::cli::{Connection, Stamps};
use crate::disclosure::boxes::Boxes;
use crate::disclosure::directory::Disclosed;
use crate::evidence::{self, Evidence, Pair};
use crate::plan::{Calibrations, Plan};
use crate::reading::Asked;
use crate::report;
use crate::rundir::row::StampSource;
use crate::rundir::run_json::RunJson;
use announcement::{RunFacts, announce, dry_run, plan_document};
use anyhow::{Context, bail};
use bench_engine::clock::{Clock, SystemClock};
use bench_engine::engine::{Engine, EngineOptions, WorkerInfo, spread};
use bench_engine::io::capabilities::{Capabilities, capabilities, choose};
use bench_engine::io::uring::RingError;
use bench_engine::worker::{Shared, WorkerOptions};
use canary::Canary;
use server::{body_template, fetch_log, find_server, request_template};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use windows::Campaign;

/// What is known of a request between its making and its row.
#[derive(Clone, Debug)]
pub struct Ticket {
    /// Load point.
    pub cell: u32,
    /// Window.
    pub window: u32,
    /// Where its row goes.
    pub file: RowFile,
    /// What it asks for.
    pub asked: Asked,
}

/// Where a row goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFile {
    /// `requests.jsonl`: the load.
    Requests,
    /// `canary.jsonl`: in no count and no result.
    Canary,
}

/// How a campaign ended.
#[derive(Debug)]
pub struct Ended {
    /// What stands in `run.json`.
    pub run: RunJson,
    /// What stands in `boxes.json`.
    pub boxes: Boxes,
    /// The run directory.
    pub dir: PathBuf,
    /// It was interrupted.
    pub interrupted: bool,
    /// The run held against its mock's log, where there is one.
    pub evidence: Option<Evidence>,
    /// The same of the canary.
    pub canary: Option<Evidence>,
    /// How far the log of a mock on another host has been read, in bytes.
    pub truth_read: u64,
}

/// Blocks of the pool beside the one that every connection fills: 8 MiB.
const SPARE_BLOCKS: usize = 2048;
/// Says something to people, on standard error.
pub struct Voice {
    /// Print nothing.
    pub quiet: bool,
}

impl Voice {
    pub(crate) fn say(&self, words: impl AsRef<str>) {
        if !self.quiet {
            // whoever read it may be gone: that is no reason to end a measurement
            let _ = writeln!(std::io::stderr(), "{}", words.as_ref());
        }
    }
}

/// Said before the reason when an arm asked for by name cannot be had.
pub const NO_SUCH_ARM: &str = "--arm uring cannot be had here (without --arm, the epoll driver takes its place)";

/// What is said when the default gives way.
pub fn fallen_back(refused: &RingError) -> String {
    format!("WARNING: {refused}; the epoll driver is used instead (--arm epoll asks for it by name)")
}

/// Cores of the parts.
pub(crate) struct Cores {
    pub(crate) workers: Vec<usize>,
    pub(crate) control: Option<usize>,
}

/// Carries out `plan`. `stop` becomes true when the user interrupts.
///
/// # Errors
/// What kept the campaign from being carried out; what was measured until then is in its directory.
pub fn run(plan: &Plan, stop: &Arc<AtomicBool>, voice: &Voice) -> anyhow::Result<Option<Ended>> {
    let cores = cores(plan.cores.as_deref(), plan.workers)?;
    let most = plan.most_connections();
    let canaries = if plan.canary { cores.workers.len() as u32 } else { 0 };
    let connections = most + canaries;
    let descriptors = u64::from(connections) * 3 + 128;
    if let Some(words) = environment::ensure_descriptors(descriptors).map_err(anyhow::Error::msg)? {
        voice.say(words);
    }
    if plan.output.dry_run {
        dry_run(plan, voice);
        return Ok(None);
    }
    let choice = choose(plan.arm_by_name.then(|| plan.arm.into())).context(NO_SUCH_ARM)?;
    if let Some(refused) = &choice.refused {
        voice.say(fallen_back(refused));
    }
    let clock = SystemClock;
    let started_at = timestamp(clock.wall().ns());
    let dir = run_directory(plan, &started_at)?;
    let was_empty = fs::read_dir(&dir)?.next().is_none();
    // dropped after everything that writes there
    let mut begun = Begun { dir: &dir, keep: !was_empty };
    // what an earlier run left must not pass for this one's, nor be lost to a server that is not there
    let built_in = plan.target.base_url.is_none();
    if built_in {
        remove_files(&dir);
    }
    let server = find_server(plan, &dir, cores.control, stop, voice)?;
    if !built_in {
        remove_files(&dir);
    }
    let canary = match plan.canary {
        true => Some(Canary::start(cores.control, &dir, cores.workers.len(), &plan.target.api_key_env.0)?),
        false => None,
    };
    let found = capabilities(choice.driver)?;
    if plan.stamps == Stamps::Kernel && !found.stamps {
        voice.say("WARNING: kernel stamps do not come here: user stamps only, net and tare are not available");
    }
    let stamps = plan.stamps == Stamps::Kernel && found.stamps;
    let found = Capabilities { stamps, ..found };
    let origin = clock.now();
    let run_id = format!("{started_at}-{:08x}", origin.ns() as u32);
    let body = body_template(plan, &server.model);
    let request = request_template(plan, &server)?;
    let reuse = plan.connection == Connection::Reuse;
    let slots = spread(most, cores.workers.len() as u32);
    let blocks = connections as usize + SPARE_BLOCKS;
    let shared = Arc::new(Shared::new(connections as usize, blocks, plan.supply_depth()));
    let options = EngineOptions {
        worker: WorkerOptions {
            index: 0,
            slots: 0,
            address: server.target.address,
            limits: plan.limits,
            streamed: plan.stream,
            reuse,
            canary: canary.as_ref().map(|canary| canary.address),
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
    let refused = choice.refused.as_ref();
    let facts = RunFacts {
        plan,
        server: &server,
        canary: canary.as_ref(),
        found: &found,
        refused,
        workers: &workers,
        cores: &cores,
        origin,
        blocks,
    };
    let environment = facts.environment();
    let calibration = calibration_for(plan, &cores, &found)?;
    let plan_json = plan_document(plan, &run_id, &started_at, &server.model, environment, &calibration)?;
    fs::write(dir.join("plan.json"), plan_json).with_context(|| format!("{}", dir.join("plan.json").display()))?;
    begun.keep = true;
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
        canary: canary.as_ref(),
        secret: server.secret.as_deref(),
        stamps: if found.stamps { StampSource::Kernel } else { StampSource::User },
        stop,
        voice,
    };
    let (interrupted, canary_failed) = campaign.run_windows()?;
    if canary_failed > 0 {
        voice.say(format!(
            "WARNING: {canary_failed} requests of the canary failed, and after {} it was fed no more: is its mock gone? \
             Its comparison is of those that were answered",
            canary::MOST_FAILED
        ));
    }
    drop(engine);
    if let Some(canary) = canary {
        canary.stop();
    }
    if let Some(mock) = server.mock {
        mock.stop();
    }
    let truth_read = match &plan.target.remote_truth {
        Some((url, from)) => fetch_log(url, *from, &dir, stop)?,
        None => 0,
    };
    finish(&dir, interrupted, voice).map(|ended| Some(Ended { truth_read, ..ended }))
}

/// The calibration that holds for this run, as its plan records it.
fn calibration_for(plan: &Plan, cores: &Cores, harness: &Capabilities) -> anyhow::Result<serde_json::Value> {
    let found = match &plan.output.calibrations {
        Calibrations::Unused(words) => Found::Nothing(words.clone()),
        Calibrations::In(given) => {
            let store = store::directory(given.as_deref(), |name| std::env::var(name).ok());
            let host = Host::of(&environment::facts());
            store::find(&store, &host, || Config::of(harness, &cores.workers, cores.control))?
        }
    };
    Ok(store::for_plan(&found))
}

/// Where workers and everything else run. Of two cores or more, the last one not given to a worker is control's.
pub(crate) fn cores(cores: Option<&[usize]>, workers: Option<u32>) -> anyhow::Result<Cores> {
    let allowed = bench_engine::cpu::allowed_cores()?;
    let workers = match (cores, workers) {
        (Some(cores), workers) => {
            if let Some(n) = workers.filter(|n| *n as usize != cores.len()) {
                bail!("--workers {n} and --cores name different numbers of workers: {} cores are given", cores.len());
            }
            cores.to_vec()
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
pub(crate) fn timestamp(wall_ns: u64) -> String {
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
    let probe = dir.join(".writable");
    File::create(&probe).and_then(|_| fs::remove_file(&probe)).map_err(told)?;
    Ok(dir)
}

/// Every file a campaign may write into its directory.
const FILES: [&str; 13] = [
    "plan.json",
    "requests.jsonl",
    "windows.jsonl",
    "health.jsonl",
    "run.json",
    "boxes.json",
    "report.md",
    "truth.jsonl",
    "closure.json",
    "canary.jsonl",
    "canary-truth.jsonl",
    "canary.json",
    "server-metrics.jsonl",
];

fn remove_files(dir: &Path) {
    for path in FILES.map(|name| dir.join(name)) {
        // a link was put there by somebody, and is written through
        if path.symlink_metadata().is_ok_and(|m| m.is_file()) {
            let _ = fs::remove_file(path);
        }
    }
}

/// A run directory in which nothing is measured yet: it goes when the campaign does not come about, so that a second
/// try finds its place free.
struct Begun<'a> {
    dir: &'a Path,
    keep: bool,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if !self.keep {
            remove_files(self.dir);
            // only when it is empty
            let _ = fs::remove_dir(self.dir);
        }
    }
}

/// Derives everything from the raw files.
fn finish(dir: &Path, interrupted: bool, voice: &Voice) -> anyhow::Result<Ended> {
    let run = summary::summarise(dir)?;
    fs::write(dir.join("run.json"), summary::to_json(&run)?)?;
    let weigh = |of: Pair| -> anyhow::Result<Option<Evidence>> {
        let found = Evidence::of(dir, of)?;
        if let Some(evidence) = &found {
            fs::write(dir.join(of.closure), evidence.closure_json()?)?;
        }
        Ok(found)
    };
    // the run stands without it
    let told = |of: Pair| {
        weigh(of).unwrap_or_else(|error| {
            voice.say(format!("WARNING: {} cannot be compared with {}: {error:#}", of.rows, of.truth));
            None
        })
    };
    let (evidence, canary) = (told(evidence::LOAD), told(evidence::CANARY));
    let disclosed = Disclosed::of_run(dir, &run, None)?;
    fs::write(dir.join("boxes.json"), disclosed.boxes.to_json()?)?;
    fs::write(dir.join("report.md"), report::markdown::render(&run, &disclosed))?;
    Ok(Ended { run, boxes: disclosed.boxes, dir: dir.to_owned(), interrupted, evidence, canary, truth_read: 0 })
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
