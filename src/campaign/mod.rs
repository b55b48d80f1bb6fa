//! One campaign: load points x windows against one server, every fact of it on disk.

pub mod afterwards;
mod announcement;
mod arm;
mod canary;
mod conduct;
pub mod conductor;
pub mod environment;
pub mod feeder;
pub mod health;
mod injector;
mod length_probe;
pub mod mock_child;
mod over_saturation;
pub mod recorder;
mod scraper;
mod server;
mod supply;
mod windows;

use crate::analysis::summary;
use crate::calibrations::identity::{Config, Host};
use crate::calibrations::store::{self, Found};
use crate::cli::Stamps;
use crate::disclosure::boxes::Boxes;
use crate::disclosure::directory::Disclosed;
use crate::disclosure::ledger::{self, Entry};
use crate::evidence::{self, Evidence, Pair};
use crate::interleave::{Arm as Side, Sequence};
use crate::plan::{Calibrations, Plan};
use crate::reading::Asked;
use crate::reading::turns::PlannedTurn;
use crate::report;
use crate::rundir::mark;
use crate::rundir::opening;
use crate::rundir::rows;
use crate::rundir::run_json::RunJson;
use announcement::{announce, dry_run, plan_document};
use anyhow::{Context, bail};
use arm::{Arm, Harness};
use bench_engine::clock::SystemClock;
use bench_engine::io::capabilities::{Capabilities, capabilities, choose};
use bench_engine::io::uring::RingError;
use length_probe::Lengths;
use serde_json::Value;
use server::{fetch_log, find_server};
use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
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
    /// Its place in a session; None: it stands alone.
    pub turn: Option<PlannedTurn>,
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
    let ended = carry_out(&[(None, plan)], stop, voice)?;
    Ok(ended.and_then(|arms| arms.into_iter().next()))
}

/// Carries out a plan that has an [`crate::plan::Interleave`]: two campaigns whose windows take turns, each in a run
/// directory of its own. None: it has none, or was only to be shown.
///
/// # Errors
/// As for [`run`], for either of them.
pub fn run_interleaved(plan: &Plan, stop: &Arc<AtomicBool>, voice: &Voice) -> anyhow::Result<Option<[Ended; 2]>> {
    let Some(other) = plan.other_arm() else { return Ok(None) };
    let ended = carry_out(&[(Some(Side::A), plan), (Some(Side::B), &other)], stop, voice)?;
    Ok(ended.and_then(|arms| arms.try_into().ok()))
}

/// Makes every arm ready, then lets their windows run, then derives what follows from them.
fn carry_out(
    arms: &[(Option<Side>, &Plan)],
    stop: &Arc<AtomicBool>,
    voice: &Voice,
) -> anyhow::Result<Option<Vec<Ended>>> {
    let plan = arms[0].1;
    let cores = cores(plan.cores.as_deref(), plan.workers)?;
    let connections: u32 = arms.iter().map(|(_, plan)| arm::connections(plan, &cores)).sum();
    let descriptors = u64::from(connections) * 3 + 128;
    if let Some(words) = environment::ensure_descriptors(descriptors).map_err(anyhow::Error::msg)? {
        voice.say(words);
    }
    let choice = choose(plan.arm_by_name.then(|| plan.arm.into())).context(NO_SUCH_ARM)?;
    if let Some(refused) = &choice.refused {
        voice.say(fallen_back(refused));
    }
    if plan.output.dry_run {
        plan.output.dir.as_deref().map(|dir| would_be_usable(dir, plan.output.force)).transpose()?;
        dry_run(plan, voice);
        return Ok(None);
    }
    let started_at = timestamp(SystemClock.wall().ns());
    // dropped after everything that writes there
    let mut home = Home::make(plan, arms, &started_at)?;
    // what an earlier run left must not pass for this one's, nor be lost to a server that is not there
    let built_in = plan.target.base_url.is_none();
    if built_in {
        home.remove_old_files();
    }
    let mut servers = Vec::new();
    for ((_, plan), dir) in arms.iter().zip(&home.dirs) {
        servers.push(find_server(plan, dir, cores.control, stop, voice)?);
    }
    if !built_in {
        home.remove_old_files();
    }
    let found = capabilities(choice.driver)?;
    if plan.stamps == Stamps::Kernel && !found.stamps {
        voice.say("WARNING: kernel stamps do not come here: user stamps only, net and tare are not available");
    }
    let found = Capabilities { stamps: plan.stamps == Stamps::Kernel && found.stamps, ..found };
    let harness = Harness { cores: &cores, found, refused: choice.refused.as_ref(), started_at };
    let dirs = home.dirs.clone();
    let mut ready = Vec::new();
    for (((side, plan), dir), server) in arms.iter().zip(&dirs).zip(servers) {
        ready.push(Arm::ready(plan, *side, dir, server, &harness)?);
    }
    if let Some(core) = cores.control {
        bench_engine::cpu::pin(core)?;
    }
    for arm in &mut ready {
        arm.lengths = Lengths::learn(arm, stop);
    }
    let sequence = plan.sequence();
    let calibration = calibration_for(plan, &cores, &harness.found)?;
    let mut entries = Vec::new();
    for arm in &ready {
        let turns = sequence.as_ref().and_then(|sequence| turns_of(arm, &ready, sequence));
        entries.push(lay_down(arm, &harness, &calibration, turns.unwrap_or_default(), voice)?);
        // from here on there is something to keep
        home.keep = true;
    }
    if let [a, b] = &ready[..] {
        let unlike = Lengths::unlike(&a.lengths, &b.lengths, plan.mean_prompt_tokens);
        unlike.into_iter().for_each(|words| voice.say(words));
    }
    if let Some(sequence) = &sequence {
        voice.say(format!("order    {} (in each round all load points, in pairs)", sequence.letters()));
    }
    match measure(ready, sequence.as_ref(), stop, voice) {
        Ok(measured) => {
            let measured = measured.into_iter().zip(&dirs).zip(entries);
            // one arm's results do not wait for the other's to be well
            let ended: Vec<_> = measured.map(|((measured, dir), entry)| finish(dir, measured, entry, voice)).collect();
            ended.into_iter().collect::<anyhow::Result<Vec<_>>>().map(Some)
        }
        Err(error) => {
            entries.into_iter().for_each(|entry| tell_of(entry.fail(&format!("{error:#}")), voice));
            Err(kept(&error, &dirs))
        }
    }
}

/// Why a campaign could not be carried out, and what there is of it all the same.
fn kept(error: &anyhow::Error, dirs: &[PathBuf]) -> anyhow::Error {
    let has_rows = |dir: &&PathBuf| fs::metadata(dir.join(rows::REQUESTS)).is_ok_and(|file| file.len() > 0);
    let dirs: Vec<String> = dirs.iter().filter(has_rows).map(|dir| dir.display().to_string()).collect();
    if dirs.is_empty() {
        return anyhow::anyhow!("{error:#}");
    }
    let reports: Vec<String> = dirs.iter().map(|dir| format!("tarebench report {dir}")).collect();
    anyhow::anyhow!(
        "{error:#}\nwhat was measured until then stays in {}: {} shows it",
        dirs.join(" and "),
        reports.join(", ")
    )
}

/// What the plan of one of two arms says of their turns.
fn turns_of(arm: &Arm<'_>, arms: &[Arm<'_>], sequence: &Sequence) -> Option<Value> {
    let with = arms.iter().find(|other| other.side != arm.side)?;
    Some(arm::interleave_of(arm.side?, &with.run_id, sequence))
}

/// Writes down and says what will be done, last of all in the ledger: after this comes the first request.
fn lay_down(
    arm: &Arm<'_>,
    harness: &Harness<'_>,
    calibration: &Value,
    turns: Value,
    voice: &Voice,
) -> anyhow::Result<Entry> {
    let facts = arm.facts(harness);
    let (run_id, started_at, model) = (&arm.run_id, &arm.started_at, &arm.server.model);
    let gauge = arm.lengths.facts(arm.plan.tokenizer.as_ref());
    let document = plan_document(arm.plan, run_id, started_at, model, facts.environment(), gauge, calibration, &turns)?;
    arm.write_plan(&document)?;
    arm.write_trace()?;
    if let Some(side) = arm.side {
        voice.say(format!("arm      {}", side.name()));
    }
    announce(arm.plan, &facts, arm.dir, voice);
    let place = ledger::Place::of(arm.dir, if arm.side.is_some() { 2 } else { 1 });
    let (entry, words) = arm.enter(place, turns)?;
    words.iter().for_each(|words| voice.say(words));
    Ok(entry)
}

/// What the windows of an arm came to.
#[derive(Clone, Copy, Debug)]
struct Measured {
    interrupted: bool,
    truth_read: u64,
}

/// Runs the windows of every arm and stops what served them.
fn measure(
    arms: Vec<Arm<'_>>,
    sequence: Option<&Sequence>,
    stop: &Arc<AtomicBool>,
    voice: &Voice,
) -> anyhow::Result<Vec<Measured>> {
    let live = RefCell::new(windows::live_view(&arms, voice)?);
    let campaigns: Vec<Campaign<'_>> = arms.iter().map(|arm| Campaign { arm, stop, live: &live }).collect();
    let ran = windows::run(&campaigns, sequence)?;
    drop(campaigns);
    drop(live);
    for failed in ran.canary_failed.into_iter().filter(|failed| *failed > 0) {
        voice.say(format!(
            "WARNING: {failed} requests of the canary failed, and after {} it was fed no more: is its mock gone? \
             Its comparison is of those that were answered",
            canary::MOST_FAILED
        ));
    }
    if let Some(tokenizer) = arms.first().and_then(|arm| arm.plan.tokenizer.as_ref())
        && tokenizer.missed() > 0
    {
        voice.say(format!(
            "WARNING: {} prompts do not have the asked length by {}: the nonce alone is longer, or no words have what \
             it leaves",
            tokenizer.missed(),
            tokenizer.path().display()
        ));
    }
    let mut measured = Vec::new();
    for arm in arms {
        let (plan, dir) = (arm.plan, arm.dir);
        arm.stop();
        let truth_read = match &plan.target.remote_truth {
            Some((url, from)) => fetch_log(url, *from, dir, stop)?,
            None => 0,
        };
        measured.push(Measured { interrupted: ran.interrupted, truth_read });
    }
    Ok(measured)
}

/// The calibration that holds for this run, as its plan records it.
fn calibration_for(plan: &Plan, cores: &Cores, harness: &Capabilities) -> anyhow::Result<serde_json::Value> {
    let found = match &plan.output.calibrations {
        Calibrations::Unused(words) => Found::Nothing(words.clone()),
        Calibrations::In(given) => {
            let store = store::directory(given.as_deref(), |name| std::env::var(name).ok());
            let host = Host::of(&environment::facts());
            store::find(&store, &host, || {
                Config::of(harness, &cores.workers, cores.control, plan.spin, plan.tls.is_some())
            })?
        }
    };
    Ok(store::for_plan(&found))
}

/// Where workers and everything else run. Of two cores or more, the last one not given to a worker is control's.
pub(crate) fn cores(cores: Option<&[usize]>, workers: Option<u32>) -> anyhow::Result<Cores> {
    let allowed = bench_engine::cpu::allowed_cores()?;
    if let Some(core) = cores.unwrap_or_default().iter().find(|core| !allowed.contains(core)) {
        bail!("--cores {core}: this process may not use that core, only {allowed:?}");
    }
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
    timestamp_of_second(wall_ns / 1_000_000_000)
}

/// The same of a second since 1970; in ns a `u64` ends in 2554.
pub(crate) fn timestamp_of_second(wall_s: u64) -> String {
    let (days, second) = (wall_s / 86_400, wall_s % 86_400);
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

/// A campaign's name as part of a file name: one path component, whatever stands in it.
pub(crate) fn file_name(name: &str) -> String {
    let kept = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    name.chars().take(60).map(kept).collect()
}

/// Creates a directory; one that holds something is refused.
pub(crate) fn usable_directory(dir: &Path, force: bool) -> anyhow::Result<()> {
    let told = |e: io::Error| not_usable(dir, &e);
    fs::create_dir_all(dir).map_err(told)?;
    if !force && fs::read_dir(dir).map_err(told)?.next().is_some() {
        bail!("the run directory {} is not empty; choose another with --out, or add --force", dir.display());
    }
    // found out now, not after the measurement
    let probe = dir.join(".writable");
    File::create(&probe).and_then(|_| fs::remove_file(&probe)).map_err(told)
}

fn not_usable(dir: &Path, why: &io::Error) -> anyhow::Error {
    anyhow::anyhow!("the run directory {} cannot be used: {why}; choose another with --out", dir.display())
}

/// The same of a directory that is not to be made: as far as can be known without writing anything.
fn would_be_usable(dir: &Path, force: bool) -> anyhow::Result<()> {
    match fs::read_dir(dir) {
        Ok(mut entries) => match entries.next().is_some() && !force {
            true => usable_directory(dir, force),
            false => Ok(()),
        },
        // it is not there yet: what it would be made in is
        Err(e) if e.kind() == ErrorKind::NotFound => {
            let above =
                dir.ancestors().skip(1).map(|above| if above.as_os_str().is_empty() { Path::new(".") } else { above });
            match above.map(fs::metadata).find_map(Result::ok) {
                Some(found) if !found.is_dir() => Err(not_usable(dir, &ErrorKind::NotADirectory.into())),
                _ => Ok(()),
            }
        }
        Err(e) => Err(not_usable(dir, &e)),
    }
}

/// Every file a campaign may write into its directory.
const FILES: [&str; 18] = [
    "plan.json",
    "requests.jsonl",
    "windows.jsonl",
    "health.jsonl",
    "run.json",
    "boxes.json",
    "report.md",
    "report.html",
    "truth.jsonl",
    "closure.json",
    "canary.jsonl",
    "canary-truth.jsonl",
    "canary.json",
    "server-metrics.jsonl",
    "trace.jsonl",
    mark::FILE,
    ledger::FILE,
    opening::FILE,
];

fn remove_files(dir: &Path) {
    for path in rows::with_parts(dir, &FILES).iter().map(|name| dir.join(&**name)) {
        // a link was put there by somebody, and is written through
        if path.symlink_metadata().is_ok_and(|m| m.is_file()) {
            let _ = fs::remove_file(path);
        }
    }
}

/// The run directory of each arm. Those in which nothing is measured yet go when the campaign does not come about, so
/// that a second try finds their place free.
struct Home {
    /// `--out`.
    whole: PathBuf,
    /// One for each arm: `whole` itself, or two in it.
    dirs: Vec<PathBuf>,
    /// Something is measured, or something was there before.
    keep: bool,
}

impl Home {
    fn make(plan: &Plan, arms: &[(Option<Side>, &Plan)], started_at: &str) -> anyhow::Result<Home> {
        let by_default = || Path::new("runs").join(format!("{started_at}-{}", file_name(&plan.name)));
        let whole = plan.output.dir.clone().unwrap_or_else(by_default);
        usable_directory(&whole, plan.output.force)?;
        let was_empty = fs::read_dir(&whole)?.next().is_none();
        let dir = |(side, _): &(Option<Side>, &Plan)| side.map_or(whole.clone(), |side| whole.join(side.name()));
        let home = Home { dirs: arms.iter().map(dir).collect(), whole, keep: !was_empty };
        for dir in home.dirs.iter().filter(|dir| **dir != home.whole) {
            usable_directory(dir, plan.output.force)?;
        }
        Ok(home)
    }

    fn remove_old_files(&self) {
        self.dirs.iter().for_each(|dir| remove_files(dir));
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if !self.keep {
            self.remove_old_files();
            // only those that are empty
            for dir in self.dirs.iter().filter(|dir| **dir != self.whole).chain([&self.whole]) {
                let _ = fs::remove_dir(dir);
            }
        }
    }
}

/// Derives everything from the raw files, and writes the ledger's line about it.
fn finish(dir: &Path, measured: Measured, entry: Entry, voice: &Voice) -> anyhow::Result<Ended> {
    let Measured { interrupted, truth_read } = measured;
    let derived = derive(dir, voice);
    let (run, evidence, canary) = match derived {
        Ok(derived) => derived,
        Err(error) => {
            tell_of(entry.fail(&format!("{error:#}")), voice);
            return Err(kept(&error, &[dir.to_owned()]));
        }
    };
    let here = |error: anyhow::Error| kept(&error, &[dir.to_owned()]);
    entry.end(&run, interrupted).map_err(here)?.iter().for_each(|words| voice.say(words));
    let Disclosed { boxes, .. } = disclose(dir, &run).map_err(here)?;
    Ok(Ended { run, boxes, dir: dir.to_owned(), interrupted, evidence, canary, truth_read })
}

/// `boxes.json` and the two reports, which speak of all other files.
fn disclose(dir: &Path, run: &RunJson) -> anyhow::Result<Disclosed> {
    let disclosed = Disclosed::of_run(dir, run, None)?;
    put(dir, "boxes.json", &disclosed.boxes.to_json()?)?;
    put(dir, "report.md", &report::markdown::render(run, &disclosed))?;
    put(dir, "report.html", &report::html::of_directory(dir, run, &disclosed)?)?;
    Ok(disclosed)
}

/// Writes a file that follows from others. Half of one is none.
fn put(dir: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let path = dir.join(name);
    fs::write(&path, text).map_err(|why| {
        if path.symlink_metadata().is_ok_and(|found| found.is_file()) {
            let _ = fs::remove_file(&path);
        }
        anyhow::anyhow!("{} cannot be written: {why}", path.display())
    })
}

/// `run.json`, and what comes of the logs of mocks.
fn derive(dir: &Path, voice: &Voice) -> anyhow::Result<(RunJson, Option<Evidence>, Option<Evidence>)> {
    let run = summary::summarise(dir)?;
    put(dir, "run.json", &summary::to_json(&run)?)?;
    let weigh = |of: Pair| -> anyhow::Result<Option<Evidence>> {
        let found = Evidence::of(dir, of)?;
        if let Some(evidence) = &found {
            put(dir, of.closure, &evidence.closure_json()?)?;
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
    Ok((run, told(evidence::LOAD), told(evidence::CANARY)))
}

/// What was found on writing an end line after a failure: that failure is what the campaign ends by.
fn tell_of(written: anyhow::Result<Vec<String>>, voice: &Voice) {
    match written {
        Ok(words) => words.iter().for_each(|words| voice.say(words)),
        Err(error) => voice.say(format!("WARNING: the ledger has no line about the end of this campaign: {error:#}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_to_no_other_directory() {
        assert_eq!(file_name("../../x y\n"), "..-..-x-y-");
        assert_eq!(file_name("nächtlich_1.2-b"), "nächtlich_1.2-b");
        assert_eq!(file_name(&"a".repeat(300)).len(), 60);
    }

    #[test]
    fn timestamps_are_civil() {
        assert_eq!(timestamp(0), "1970-01-01T00-00-00");
        assert_eq!(timestamp(951_782_399_000_000_000), "2000-02-28T23-59-59");
        assert_eq!(timestamp(951_782_400_000_000_000), "2000-02-29T00-00-00");
        assert_eq!(timestamp(1_796_149_375_000_000_000), "2026-12-01T18-22-55");
    }
}
