//! `calibrate`: the harness weighs itself on this host. Every step of load is a real campaign against the mock, held
//! against the mock's own log; what comes out is kept, and found again by each run it holds for.

pub mod at_limit;
pub mod ladder;
mod pictures;
pub mod step;

use crate::calibrations::document::{Calibration, FILE, Family, SCHEMA, Step, VerdictDocument};
use crate::calibrations::identity::{Config, Host};
use crate::calibrations::store;
use crate::campaign::{self, Voice};
use crate::cli::{CalibrateArgs, Stamps};
use crate::evidence::Evidence;
use crate::report::calibration as report;
use anyhow::Context;
use bench_engine::clock::{Clock, SystemClock};
use bench_engine::io::capabilities::{Capabilities, capabilities, choose};
use bench_engine::units::Instant;
use calibration::model::{self, Bursts, Fit, LoadPoint, LockStep};
use calibration::spread::Errors;
use calibration::verdict::Verdict;
use calibration::{clock_cost, parser_cost};
use ladder::Depth;
use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use step::{GROSS_BOUND_NS, Runner, WrongTruth};

/// How a configuration without kernel stamps is written.
const USER_STAMPS: &str = "user";
const CLOCK_READS: u32 = 1_000_000;
const CLOCK_EXCHANGES: u32 = 100_000;
const PARSER_WORK: parser_cost::Work = parser_cost::Work { repetitions: 15, rounds: 20, cuts: 2_000 };

/// A calibration that was made, and where it is.
#[derive(Debug)]
pub struct Made {
    /// What stands in `calibration.json`.
    pub calibration: Calibration,
    /// Its directory.
    pub dir: PathBuf,
}

/// Carries out a calibration. `stop` becomes true when the user interrupts.
///
/// # Errors
/// What kept it from being carried out.
pub fn calibrate(args: &CalibrateArgs, stop: &Arc<AtomicBool>, voice: &Voice) -> anyhow::Result<Made> {
    let depth = if args.quick { ladder::QUICK } else { ladder::FULL };
    let clock = SystemClock;
    let (began, made_at_ns) = (clock.now(), clock.wall().ns());
    let store = store::directory(args.calibrations.as_deref(), |name| std::env::var(name).ok());
    let (host, config) = (Host::of(&campaign::environment::facts()), config(args, voice)?);
    // two may begin within one second
    let id = format!("{}-{}-{}", campaign::timestamp(made_at_ns), config.binary, std::process::id());
    let dir = store.join(&id);
    let runner = runner(args, &dir, depth, stop);
    runner.prepare()?;
    fs::create_dir_all(&dir).with_context(|| format!("{}; choose another with --calibrations", dir.display()))?;
    voice.say(format!(
        "calibrating {} worker(s) on {}; about {:.0} s; every file goes to {}",
        config.cores.len(),
        host.name.as_deref().unwrap_or("this host"),
        depth.budget_s + 5.0,
        dir.display()
    ));
    let costs = std::thread::scope(|scope| scope.spawn(|| costs(&config)).join());
    let (clock_cost, parser_cost) = costs.map_err(|_| anyhow::anyhow!("the measuring thread ended in a panic"))??;
    voice.say(report::clock(&clock_cost));
    voice.say(report::parser(&parser_cost));
    let mut climb = Climb {
        runner: &runner,
        depth,
        began,
        stop,
        voice,
        steps: Vec::new(),
        points: Vec::new(),
        net_errors_ns: Vec::new(),
        failed: Vec::new(),
    };
    for (family, value) in ladder::fixed() {
        match climb.step(family, value) {
            // one that could not be run is told of in the verdict, and is no reason to lose the others
            Some(outcome) => drop(climb.unless_fatal(outcome)?),
            None => break,
        }
    }
    if climb.steps.is_empty() {
        let words = climb.failed.first().map_or("there was no time for any, or it was interrupted", String::as_str);
        anyhow::bail!("no step of the calibration could be run: {words}");
    }
    let tried = climb.steps.clone();
    let mut fatal = None;
    let limits = ladder::seek(depth, &tried, |family, value| {
        match climb.step(family, value).map(|outcome| climb.unless_fatal(outcome))? {
            Ok(outcome) => Some(outcome),
            Err(error) => {
                fatal = Some(error);
                None
            }
        }
    });
    if let Some(error) = fatal {
        return Err(error);
    }
    let interrupted = stop.load(Ordering::Relaxed);
    let (fit, closure) = (climb.fit(), Errors::of(&climb.net_errors_ns));
    let (ladder, failed) = (climb.steps, climb.failed);
    let verdict = match interrupted {
        false => {
            let [requests, events, streams, burst] = limits;
            let verdict = Verdict::new(requests, events, streams, Some(burst));
            let text = verdict_text(&verdict.text, &config.stamps, &failed);
            VerdictDocument { text, ..VerdictDocument::from(verdict) }
        }
        true => VerdictDocument { text: "none: the calibration was interrupted".to_owned(), ..Default::default() },
    };
    let calibration = Calibration {
        schema: SCHEMA.to_owned(),
        id,
        made_at_ns,
        tarebench: crate::cli::VERSION.to_owned(),
        depth: if args.quick { "quick" } else { "full" }.to_owned(),
        placement: args.base_url.clone().unwrap_or_else(|| "loopback".to_owned()),
        took_s: clock.now().saturating_since(began).secs_f64(),
        interrupted,
        host,
        config,
        clock: clock_cost,
        parser: parser_cost,
        closure_us: (closure.n > 0).then_some(closure),
        model: fit,
        ladder,
        verdict,
    };
    write(&dir, &calibration)?;
    Ok(Made { calibration, dir })
}

/// The verdict with what must be known beside it: what it was held to without kernel stamps, and what went wrong.
fn verdict_text(verdict: &str, stamps: &str, failed: &[String]) -> String {
    let mut text = verdict.to_owned();
    if stamps == USER_STAMPS {
        let bound_ms = GROSS_BOUND_NS as f64 / 1e6;
        text +=
            &format!("; held to gross within {bound_ms:.0} ms of the truth at p99, since there are no kernel stamps");
    }
    if let Some(first) = failed.first() {
        let more = match failed.len() {
            1 => String::new(),
            n => format!(" (and {} more)", n - 1),
        };
        text += &format!("; could not be run: {first}{more}");
    }
    text
}

/// The steps so far, and how the next one is taken.
struct Climb<'a> {
    runner: &'a Runner,
    depth: Depth,
    began: Instant,
    stop: &'a AtomicBool,
    voice: &'a Voice,
    steps: Vec<Step>,
    points: Vec<PointFacts>,
    net_errors_ns: Vec<i64>,
    /// Steps that could not be run, and why.
    failed: Vec<String>,
}

/// What the queueing model needs of a step, before the service time is known.
struct PointFacts {
    point: LoadPoint,
    arrivals: Vec<u64>,
}

impl Climb<'_> {
    /// Takes a step; None when there is no time left or the user interrupts.
    fn step(&mut self, family: Family, value: u64) -> Option<anyhow::Result<Step>> {
        let elapsed_s = SystemClock.now().saturating_since(self.began).secs_f64();
        if self.stop.load(Ordering::Relaxed) || elapsed_s > self.depth.budget_s {
            return None;
        }
        let load = ladder::load(family, value, self.depth.seconds);
        let what = report::load(&load);
        let outcome = self.runner.run(self.steps.len() + self.failed.len(), load);
        if outcome.is_err() && self.stop.load(Ordering::Relaxed) {
            return None; // broken off by the user: no fault of the step
        }
        Some(outcome.map(|(step, evidence)| self.keep(step, &evidence)).map_err(|error| {
            self.failed.push(format!("{what}: {error:#}"));
            error
        }))
    }

    fn keep(&mut self, step: Step, evidence: &Evidence) -> Step {
        self.voice.say(report::progress(self.steps.len() + 1, &step));
        if step.valid {
            self.take_points(&step, evidence);
            self.net_errors_ns.extend(&evidence.net_errors_ns);
        }
        self.steps.push(step.clone());
        step
    }

    /// What came of a step; an error that would be that of every step is the end of the calibration.
    fn unless_fatal(&self, outcome: anyhow::Result<Step>) -> anyhow::Result<anyhow::Result<Step>> {
        match outcome {
            Err(error) if error.is::<WrongTruth>() => Err(error),
            Err(error) => {
                let last = self.failed.last().map_or("", String::as_str);
                self.voice.say(format!("WARNING: a step could not be run: {last}"));
                Ok(Err(error))
            }
            outcome => Ok(outcome),
        }
    }

    /// What the model is fitted on and held against: steps that can be trusted, on connections that were open.
    fn take_points(&mut self, step: &Step, evidence: &Evidence) {
        if step.load.family == Family::Cold {
            return; // connects are no events
        }
        for events in evidence.workers.values() {
            let Some((wait, place)) = events.mean_wait_us().zip(events.mean_place()) else { continue };
            let Some(busy) = step.client.busy else { continue };
            self.points.push(PointFacts {
                point: LoadPoint {
                    events_per_s: events.arrivals.len() as f64 / step.duration_s.max(1e-9),
                    busy_share: busy,
                    mean_wait_us: wait,
                    mean_place: place,
                    bursts: Bursts::SINGLE,
                    lock_step: step.load.lockstep_ms.and_then(|period| {
                        LockStep::measure(&mut events.arrivals.clone(), step.load.value as u32, period * 1e3)
                    }),
                },
                arrivals: events.arrivals.clone(),
            });
        }
    }

    /// The queueing model over all steps: bursts are measured once the service time is known.
    fn fit(&mut self) -> Option<Fit> {
        let plain: Vec<LoadPoint> = self.points.iter().map(|p| p.point.clone()).collect();
        let service_us = model::service_us(&plain)?;
        for facts in &mut self.points {
            facts.point.bursts = Bursts::measure(&mut facts.arrivals, service_us).unwrap_or(Bursts::SINGLE);
        }
        let points: Vec<LoadPoint> = self.points.iter().map(|p| p.point.clone()).collect();
        model::fit(&points).ok()
    }
}

/// How the harness would run with these flags.
///
/// # Errors
/// Cores that are not to be had, or no way to reach the kernel.
pub fn config(args: &CalibrateArgs, voice: &Voice) -> anyhow::Result<Config> {
    let cores = campaign::cores(args.cores.as_ref().map(|c| &c.0[..]), args.workers)?;
    let choice = choose(args.arm.map(Into::into)).context(campaign::NO_SUCH_ARM)?;
    if let Some(refused) = &choice.refused {
        voice.say(campaign::fallen_back(refused));
    }
    let found = capabilities(choice.driver)?;
    let asked = args.stamps.unwrap_or(Stamps::Kernel) == Stamps::Kernel;
    if asked && !found.stamps {
        voice.say("WARNING: kernel stamps do not come here: user stamps only, net and tare are not available");
    }
    let found = Capabilities { stamps: asked && found.stamps, ..found };
    Ok(Config::of(&found, &cores.workers, cores.control, args.spin, over_tls(args))?)
}

/// The steps go over TLS.
fn over_tls(args: &CalibrateArgs) -> bool {
    args.base_url.as_deref().is_some_and(|url| url.to_ascii_lowercase().starts_with("https://"))
}

/// L0 and L1, on the workers' cores.
fn costs(config: &Config) -> anyhow::Result<(clock_cost::ClockCost, parser_cost::ParserCost)> {
    let cores: Vec<usize> = config.cores.iter().copied().chain(config.control_core).collect();
    let clock = clock_cost::measure(CLOCK_READS, CLOCK_EXCHANGES, &cores)?;
    if let Some(core) = config.cores.first() {
        bench_engine::cpu::pin(*core)?;
    }
    Ok((clock, parser_cost::measure(PARSER_WORK)))
}

fn runner(args: &CalibrateArgs, dir: &Path, depth: Depth, stop: &Arc<AtomicBool>) -> Runner {
    Runner {
        dir: dir.to_owned(),
        arm: args.arm,
        stamps: args.stamps,
        workers: args.workers,
        cores: args.cores.as_ref().map(|c| c.0.clone()),
        spin: args.spin,
        remote: args.base_url.clone().zip(args.truth_url.clone()),
        ca_file: args.ca_file.clone(),
        truth_read: Cell::new(0),
        seconds: depth.seconds,
        stop: Arc::clone(stop),
    }
}

/// Puts `calibration.json` and its picture into `dir`.
fn write(dir: &Path, calibration: &Calibration) -> anyhow::Result<()> {
    let put = |name: &str, text: String| {
        let path = dir.join(name);
        fs::write(&path, text).with_context(|| path.display().to_string())
    };
    put(FILE, serde_json::to_string_pretty(calibration)? + "\n")?;
    put("calibration.svg", pictures::distance(calibration).svg())?;
    if let Some(waits) = pictures::waits(calibration) {
        put("waits.svg", waits.svg())?;
    }
    Ok(())
}

/// As [`at_limit::at_limit`], with the flags of the command line.
///
/// # Errors
/// What would keep every step from being run.
pub fn try_limits(
    calibration: &Calibration,
    share: f64,
    args: &CalibrateArgs,
    stop: &Arc<AtomicBool>,
    voice: &Voice,
) -> anyhow::Result<Option<at_limit::Outcome>> {
    config(args, voice)?;
    let dir = std::env::temp_dir().join(format!("tarebench-at-limit-{}", std::process::id()));
    let depth = if calibration.depth == "quick" { ladder::QUICK } else { ladder::FULL };
    at_limit::at_limit(calibration, share, runner(args, &dir, depth, stop), depth, voice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runner_in(dir: &Path) -> Runner {
        Runner {
            dir: dir.to_owned(),
            arm: None,
            stamps: None,
            workers: None,
            cores: None,
            spin: false,
            remote: None,
            ca_file: None,
            truth_read: Cell::new(0),
            seconds: 0.2,
            stop: Arc::default(),
        }
    }

    #[test]
    fn a_step_that_cannot_be_run_is_told_and_ends_nothing() {
        let place = tempfile::tempdir().expect("a directory");
        // where the steps' directories would lie is a file
        fs::write(place.path().join("steps"), "").expect("put");
        let (runner, stop, voice) = (runner_in(place.path()), AtomicBool::new(false), Voice { quiet: true });
        let mut climb = Climb {
            runner: &runner,
            depth: ladder::FULL,
            began: SystemClock.now(),
            stop: &stop,
            voice: &voice,
            steps: Vec::new(),
            points: Vec::new(),
            net_errors_ns: Vec::new(),
            failed: Vec::new(),
        };
        let outcome = climb.step(Family::Streams, 1).expect("there is time");
        assert!(climb.unless_fatal(outcome).expect("no end of the calibration").is_err());
        assert!(climb.failed[0].starts_with("1 stream: the run directory"), "{:?}", climb.failed);
        let wrong = WrongTruth { requests: 120, base_url: String::new(), truth_url: String::new() };
        assert!(climb.unless_fatal(Err(wrong.into())).is_err(), "it would be that of every step");
        stop.store(true, Ordering::Relaxed);
        assert!(climb.step(Family::Streams, 1).is_none());
    }

    #[test]
    fn a_verdict_names_what_it_was_held_to_and_what_failed() {
        assert_eq!(verdict_text("good", "kernel", &[]), "good");
        let failed = ["1 stream: no ports".to_owned(), "burst 8: no ports".to_owned()];
        assert_eq!(
            verdict_text("good", USER_STAMPS, &failed),
            "good; held to gross within 1 ms of the truth at p99, since there are no kernel stamps; could not be run: 1 \
             stream: no ports (and 1 more)"
        );
    }
}
