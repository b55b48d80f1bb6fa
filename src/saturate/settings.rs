//! What a search is to do, from its flags: checked once, and kept beside the windows.

use crate::analysis::saturation::search::{Bounds, Purpose, Trial};
use crate::cli::saturate::{Over, SaturateArgs};
use crate::cli::{List, RunArgs};
use crate::goals::{Goals, RequestMetric, WindowFigure};
use crate::plan::{BadPlan, EarlyEnd, Plan};
use crate::price::{Price, Unclear};
use crate::rundir::window::SessionKind;
use crate::workload::sessions::turns;
use serde::{Deserialize, Serialize};
use std::path::Path;
use thiserror::Error;

/// Requests kept in a window, unless told otherwise: 368 without a miss are needed to show 99 %.
const NUM_PROMPTS: u64 = 400;
/// Requests of the window that has one at a time: it is to show a time, not a share.
const ONE_AT_A_TIME: u64 = 30;
/// Warm-up requests of it, and of others unless told otherwise.
const DROP: (u64, u64) = (3, 10);

/// Warm-up sessions, unless told otherwise; at least one of each user.
const DROP_SESSIONS: u64 = 2;

/// Shortest window, unless told otherwise, s.
const STEP_DURATION_S: f64 = 5.0;
/// And so much longer than the time in which a load that is more than the server can do by the resolution has made the
/// last requests wait for longer than their limit: one of a hundred may.
const LONGER: f64 = 1.1;

/// Settings of a search, as they stand in `search.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// What is raised.
    pub over: Over,
    /// What a load is made of, where not of single requests: then it is users who are raised, and what they lead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<SessionKind>,
    /// Where.
    pub bounds: Bounds,
    /// What the load must keep to.
    pub goals: Goals,
    /// Requests kept in a window, at least.
    pub num_prompts: u64,
    /// Warm-up requests before them; in closed loop at least as many as are in flight.
    pub drop: u64,
    /// Length of a window, at least, s.
    pub step_duration_s: f64,
    /// Time for the search, s.
    pub budget_s: f64,
    /// Of everything drawn.
    pub seed: u64,
    /// Shares of the optimum that get windows after the search, in %.
    pub points: Vec<f64>,
    /// As declared; null: not told.
    pub price: Option<Price>,
}

/// Flags that make no search.
#[derive(Debug, Error)]
pub enum BadSearch {
    /// A flag of `run` that has no meaning here.
    #[error("{flag} is not for saturate: {why}")]
    Refused {
        /// Which.
        flag: &'static str,
        /// Why not, and what to do.
        why: &'static str,
    },
    /// Out of range.
    #[error("{flag} must be {range}, not {got}")]
    Range {
        /// Which.
        flag: &'static str,
        /// What it may be.
        range: &'static str,
        /// What it is.
        got: String,
    },
    /// Nothing to keep to.
    #[error("no goals: give --goodput METRIC:MS,.. like --goodput ttft:500,tpot:40, or --slo FILE")]
    NoGoals,
    /// `--declare price=..`.
    #[error("--declare {0}")]
    Price(#[from] Unclear),
    /// As for `run`.
    #[error(transparent)]
    Plan(#[from] BadPlan),
}

impl Settings {
    /// The settings behind the flags.
    ///
    /// # Errors
    /// [`BadSearch`] names the flag.
    pub fn of(args: &SaturateArgs, environment: impl Fn(&str) -> Option<String>) -> Result<Settings, BadSearch> {
        refused(&args.run)?;
        if args.over == Over::Rate && has_sessions(&args.run) {
            let flag = if args.run.chain.is_some() { "--chain" } else { "--sessions" };
            let why = "with --over rate: a turn follows the reply before, so requests have no rate that could be set; say \
                       --over concurrency, which raises the number of users";
            return Err(BadSearch::Refused { flag, why });
        }
        let range = |flag, range, got: String| Err(BadSearch::Range { flag, range, got });
        let whole = args.over == Over::Concurrency;
        let sound = |load: f64| match whole {
            true => load.fract() == 0.0 && (1.0..=100_000.0).contains(&load),
            false => (0.001..=1_000_000.0).contains(&load),
        };
        let allowed = match whole {
            true => "a whole number from 1 to 100,000",
            false => "a rate from 0.001 to 1,000,000 requests/s",
        };
        let to = args.to.or(whole.then_some(100_000.0));
        for (flag, load) in [("--from", args.from), ("--to", to)] {
            if let Some(bad) = load.filter(|load| !sound(*load)) {
                return range(flag, allowed, bad.to_string());
            }
        }
        if let Some((from, to)) = args.from.zip(to).filter(|(from, to)| from > to) {
            return range("--from", "at most --to", format!("{from} (--to {to})"));
        }
        if !(args.factor > 1.0 && args.factor <= 16.0) {
            return range("--factor", "above 1, at most 16", args.factor.to_string());
        }
        if args.max_steps == 0 {
            return range("--max-steps", "at least 1", "0".to_owned());
        }
        for (flag, s) in [("--budget", args.budget), ("--step-duration", args.step_duration.unwrap_or(1.0))] {
            let least = if flag == "--budget" { 1.0 } else { 0.0 };
            if !(least..=1e7).contains(&s) {
                return range(flag, "a number of seconds, from 1 (--step-duration: 0) to 10,000,000", s.to_string());
            }
        }
        let points = args.points.as_ref().map_or_else(Vec::new, |list| list.0.clone());
        if let Some(bad) = points.iter().find(|p| !(**p > 0.0 && **p <= 200.0)) {
            return range("--points", "shares of the optimum in %, above 0 and at most 200", bad.to_string());
        }
        let declared = args.run.declare.iter().rfind(|pair| pair.0 == "price");
        let price = declared.map(|pair| pair.1.parse()).transpose()?;
        let bounds = Bounds {
            from: args.from.or(whole.then_some(1.0)),
            to,
            factor: args.factor,
            resolution: args.resolution.0,
            whole,
            max_steps: args.max_steps,
        };
        let kind = match (&args.run.sessions, &args.run.chain) {
            (Some(_), _) => Some(SessionKind::Chat),
            (None, Some(_)) => Some(SessionKind::Chain),
            (None, None) => None,
        };
        let mut settings = Settings {
            over: args.over,
            sessions: kind,
            bounds,
            goals: Goals::default(),
            num_prompts: args.run.num_prompts.unwrap_or(NUM_PROMPTS),
            drop: args.run.drop.unwrap_or(DROP.1),
            step_duration_s: args.step_duration.unwrap_or(STEP_DURATION_S),
            budget_s: args.budget,
            seed: args.run.seed.unwrap_or(7),
            points,
            price,
        };
        // what a window would be refused for is said before the first
        let at = bounds.from.unwrap_or(1.0);
        let trial = Trial { purpose: Purpose::Climb, load: Some(at), requests: 1, attempt: 0 };
        let plan = settings.plan(&args.run, &trial, Path::new(""), f64::INFINITY, environment)?;
        settings.goals = plan.goals.ok_or(BadSearch::NoGoals)?;
        if args.step_duration.is_none() && !whole {
            let needed_s = longest_wait_s(&settings.goals) / args.resolution.0 * LONGER;
            settings.step_duration_s = needed_s.max(STEP_DURATION_S);
        }
        Ok(settings)
    }

    /// The campaign of a window, which ends when it is over-saturated, and after `at_most_s` in any case.
    ///
    /// # Errors
    /// As for `run`.
    pub fn plan(
        &self,
        run: &RunArgs,
        trial: &Trial,
        dir: &Path,
        at_most_s: f64,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Plan, BadPlan> {
        let (num_prompts, drop, min_duration) = match trial.purpose {
            Purpose::OneAtATime => (ONE_AT_A_TIME.min(self.num_prompts), DROP.0, 0.0),
            _ => (
                self.num_prompts * u64::from(trial.requests),
                self.drop_at(trial.load),
                self.step_duration_s * f64::from(trial.requests),
            ),
        };
        let (rates, caps) = match (trial.load, self.over) {
            (None, _) => (None, Some(List(vec![1]))),
            (Some(rate), Over::Rate) => (Some(List(vec![rate])), None),
            (Some(load), Over::Concurrency) => (None, Some(List(vec![load as u32]))),
        };
        let args = RunArgs {
            request_rate: rates,
            max_concurrency: caps,
            num_prompts: Some(num_prompts),
            drop: Some(drop),
            min_duration: Some(min_duration),
            windows: Some(1),
            // arrivals of a second window at the same load are others
            seed: Some(self.seed + u64::from(trial.attempt)),
            out: Some(dir.to_owned()),
            // a window of one at a time has no arrivals that it could shape
            burstiness: run.burstiness.filter(|_| trial.load.is_some()),
            force: false,
            quiet: true,
            ..run.clone()
        };
        let args = of_whole_sessions(args, run, u64::from(trial.requests));
        let mut plan = Plan::from_args(&args, environment)?;
        plan.early_end = Some(EarlyEnd { when_over_saturated: true, at_most_s });
        Ok(plan)
    }

    /// How many sessions a window has, in its first try; None where requests are no turns of sessions.
    pub fn sessions_of_window(&self, run: &RunArgs) -> Option<u64> {
        let args = RunArgs { num_prompts: Some(self.num_prompts), ..run.clone() };
        has_sessions(run).then(|| of_whole_sessions(args, run, 1).num_sessions).flatten()
    }

    /// The campaign at shares of the optimum; None where none are wanted.
    ///
    /// # Errors
    /// As for `run`.
    pub fn plan_of_points(
        &self,
        run: &RunArgs,
        optimum: f64,
        dir: &Path,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Plan>, BadPlan> {
        if self.points.is_empty() {
            return Ok(None);
        }
        let loads = self.loads_of_points(optimum);
        let (rates, caps) = match self.over {
            Over::Rate => (Some(List(loads)), None),
            Over::Concurrency => (None, Some(List(loads.iter().map(|load| *load as u32).collect()))),
        };
        let most = self.loads_of_points(optimum).into_iter().fold(0.0, f64::max);
        let args = RunArgs {
            request_rate: rates,
            max_concurrency: caps,
            num_prompts: Some(self.num_prompts),
            drop: Some(self.drop_at(Some(most))),
            min_duration: Some(self.step_duration_s),
            windows: Some(run.windows.unwrap_or(1)),
            seed: Some(self.seed),
            out: Some(dir.to_owned()),
            force: false,
            quiet: true,
            ..run.clone()
        };
        Plan::from_args(&of_whole_sessions(args, run, 1), environment).map(Some)
    }

    /// Loads at the shares of the optimum, each once.
    pub fn loads_of_points(&self, optimum: f64) -> Vec<f64> {
        let mut loads: Vec<f64> = self.points.iter().map(|percent| optimum * percent / 100.0).collect();
        if self.over == Over::Concurrency {
            loads.iter_mut().for_each(|load| *load = load.round().max(1.0));
        }
        loads.dedup();
        loads
    }

    /// The start of a closed loop, where all begin at once, is no steady state.
    fn drop_at(&self, load: Option<f64>) -> u64 {
        match self.over {
            Over::Rate => self.drop,
            Over::Concurrency => self.drop.max(load.map_or(0, |load| load as u64)),
        }
    }
}

/// Requests are turns of sessions.
fn has_sessions(run: &RunArgs) -> bool {
    run.sessions.is_some() || run.chain.is_some()
}

/// `args` with numbers of sessions in the place of those of requests: so many that they have at least these turns in the
/// mean, or `times` as many as `run` asks for.
fn of_whole_sessions(args: RunArgs, run: &RunArgs, times: u64) -> RunArgs {
    let Some(text) = args.sessions.as_ref().or(args.chain.as_ref()) else { return args };
    // a number that is none is refused with the plan
    let [least, most] = turns(text).unwrap_or([1, 1]).map(u64::from);
    let of_file = run.workload.as_deref().is_some_and(|name| {
        ["sharegpt", "jsonl", "custom"].contains(&name.split_once(':').map_or(name, |(name, _)| name))
    });
    // conversations of a file may all have the fewest; where numbers are drawn they come out a little below their mean
    let enough = |requests: u64| match (least == most, of_file) {
        (false, false) => (requests * 22).div_ceil(10 * (least + most)),
        _ => requests.div_ceil(least),
    };
    let wanted = run.num_sessions.map(|n| n.saturating_mul(times));
    let users = args.max_concurrency.as_ref().and_then(|list| list.0.iter().max()).map_or(1, |most| u64::from(*most));
    RunArgs {
        num_sessions: wanted.or_else(|| args.num_prompts.map(enough)),
        // the start of a closed loop, where all begin at once, is no steady state
        drop_sessions: Some(run.drop_sessions.unwrap_or(DROP_SESSIONS).max(users)),
        num_prompts: None,
        drop: None,
        ..args
    }
}

/// The largest limit on a time that begins with the request, s; 0: there is none.
fn longest_wait_s(goals: &Goals) -> f64 {
    let request = goals
        .request
        .iter()
        .filter(|(metric, _)| matches!(metric, RequestMetric::Ttft | RequestMetric::Ttfo | RequestMetric::E2e));
    let window = goals.window.iter().filter(|(figure, _)| match figure {
        WindowFigure::Percentile { metric, .. } => ["ttft", "ttfo", "e2e"].contains(&metric.as_str()),
        WindowFigure::Failed
        | WindowFigure::OutputTokensPerS
        | WindowFigure::RequestsPerS
        | WindowFigure::RecoveryS => false,
    });
    request.map(|(_, ms)| ms).chain(window.map(|(_, ms)| ms)).fold(0.0_f64, |most, ms| most.max(*ms)) / 1e3
}

/// Flags of `run` that set what the search sets itself, or that have no meaning in it.
fn refused(run: &RunArgs) -> Result<(), BadSearch> {
    let loads = "the search sets the loads; --from and --to bound them";
    let constant = "the search needs loads that stay what they are; use run";
    let given = [
        (run.request_rate.is_some(), "--request-rate", loads),
        (run.max_concurrency.is_some(), "--max-concurrency", loads),
        (run.arrivals.is_some(), "--arrivals", constant),
        (run.stages.is_some(), "--stages", constant),
        (run.trace.is_some(), "--trace", constant),
        (run.session_rate.is_some(), "--session-rate", loads),
        (
            has_sessions(run) && run.drop.is_some(),
            "--drop",
            "with --sessions or --chain whole sessions are dropped; say --drop-sessions",
        ),
        (run.num_sessions.is_some() && run.num_prompts.is_some(), "--num-prompts", "--num-sessions says how many"),
        (run.shard.is_some(), "--shard", "one host searches; use run for loads of several"),
        (run.interleave.is_some(), "--interleave", "it searches one server; search each, then compare"),
        (run.min_duration.is_some(), "--min-duration", "say --step-duration"),
        (run.duration.is_some(), "--duration", "say --step-duration"),
        (run.profile.is_some(), "--profile", "say --num-prompts and --step-duration"),
        (
            run.stop_at_failed.is_some(),
            "--stop-at-failed",
            "a load that fails requests misses its goals, which is an answer",
        ),
        (run.dry_run, "--dry-run", "what comes next depends on what was measured"),
        (run.no_stream, "--no-stream", "without a stream only e2e could be a goal; use run"),
        (run.force, "--force", "an old search in the same directory could not be told from this one"),
    ];
    match given.into_iter().find(|(given, ..)| *given) {
        Some((_, flag, why)) => Err(BadSearch::Refused { flag, why }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use crate::load_point;
    use crate::report::saturation::announcement;
    use clap::Parser;

    fn args(flags: &[&str]) -> SaturateArgs {
        let words = [&["tarebench", "saturate"], flags].concat();
        match Cli::try_parse_from(words).expect("flags").command {
            Command::Saturate(args) => *args,
            other => panic!("{other:?}"),
        }
    }

    fn settings(flags: &[&str]) -> Settings {
        Settings::of(&args(flags), |_| None).expect("settings")
    }

    #[test]
    fn a_window_is_long_enough_for_what_cannot_be_done_to_show() {
        // 5 % too much makes the last of 11 s wait for 0.5 s, and one in a hundred may
        assert!((settings(&["--goodput", "ttft:500,tpot:40"]).step_duration_s - 11.0).abs() < 1e-9);
        assert!((settings(&["--goodput", "ttft:500", "--resolution", "10%"]).step_duration_s - 5.5).abs() < 1e-9);
        assert_eq!(settings(&["--goodput", "ttft:50"]).step_duration_s, 5.0);
        assert_eq!(settings(&["--goodput", "tpot:4000"]).step_duration_s, 5.0, "it does not wait");
        assert_eq!(settings(&["--goodput", "ttft:500", "--step-duration", "2"]).step_duration_s, 2.0);
        let closed = settings(&["--goodput", "ttft:500", "--over", "concurrency"]);
        assert_eq!((closed.step_duration_s, closed.bounds.from), (5.0, Some(1.0)), "no queue grows without end");
    }

    #[test]
    fn each_window_is_a_campaign_that_ends_early() {
        let flags = ["--goodput", "ttft:500", "--seed", "40", "--from", "3", "--burstiness", "2"];
        let (args, settings) = (args(&flags), settings(&flags));
        let plan = |trial: Trial| settings.plan(&args.run, &trial, Path::new("x"), 60.0, |_| None).expect("a plan");
        let again = Trial { purpose: Purpose::Bisect, load: Some(3.5), requests: 3, attempt: 2 };
        let found = plan(again);
        assert_eq!((found.num_prompts, found.drop, found.windows, found.workload.seed), (1_200, 10, 1, 42));
        assert_eq!(found.early_end, Some(EarlyEnd { when_over_saturated: true, at_most_s: 60.0 }));
        assert!((found.min_duration_s - 33.0).abs() < 1e-9);
        assert!(matches!(&found.cells[..], [load_point::Cell::Open(open)] if open.rate == Some(3.5)));
        let one = plan(Trial { purpose: Purpose::OneAtATime, load: None, requests: 1, attempt: 0 });
        assert_eq!((&one.cells[..], one.num_prompts), (&[load_point::Cell::Closed { concurrency: 1 }][..], 30));
        assert!(one.hash("m") != found.hash("m"));
    }

    #[test]
    fn users_are_searched_by_whole_sessions() {
        let flags = ["--goodput", "ttft:500", "--over", "concurrency", "--sessions", "2..6", "--think-time", "exp:1s"];
        let (of_run, found) = (args(&flags), settings(&flags));
        let plan = |load: u32, requests| {
            let trial = Trial { purpose: Purpose::Climb, load: Some(f64::from(load)), requests, attempt: 0 };
            found.plan(&of_run.run, &trial, Path::new("x"), 60.0, |_| None).expect("a plan")
        };
        let of = |plan: &Plan| plan.sessions.as_ref().map(|s| (s.num_sessions, s.drop_sessions)).expect("sessions");
        assert_eq!((of(&plan(1, 1)), of(&plan(40, 3))), ((110, 2), (330, 40)));
        assert_eq!(found.sessions_of_window(&of_run.run), Some(110));
        assert!(plan(1, 1).num_prompts >= 400, "enough turns to show 99 %");
        assert!(matches!(&plan(8, 1).cells[..], [load_point::Cell::Sessions(load)] if load.slots == 8));
        let own = args(&[&flags[..], &["--num-sessions", "50"]].concat());
        let trial = Trial { purpose: Purpose::Climb, load: Some(4.0), requests: 3, attempt: 0 };
        let own = found.plan(&own.run, &trial, Path::new("x"), 60.0, |_| None).expect("a plan");
        assert_eq!(of(&own), (150, 4));
        let said_of = |more: &[&str]| {
            let args = args(&[&flags[..], more].concat());
            announcement(&found, found.sessions_of_window(&args.run), Path::new("x"))
        };
        assert!(said_of(&["--num-sessions", "50"]).contains("; windows of 50 sessions and "));
        assert!(said_of(&["--num-sessions", "1"]).contains("; windows of 1 session and "));
        let said = |flags: &[&str]| Settings::of(&args(flags), |_| None).expect_err("refused").to_string();
        let rate = said(&["--goodput", "ttft:500", "--chain", "10"]);
        assert!(
            rate.starts_with("--chain is not for saturate: with --over rate") && rate.contains("--over concurrency")
        );
        assert!(
            said(&[&flags[..], &["--session-rate", "1"]].concat()).starts_with("--session-rate is not for saturate")
        );
    }

    #[test]
    fn shares_of_the_optimum_are_one_campaign() {
        let flags = ["--goodput", "ttft:500", "--over", "concurrency", "--points", "25,50,90,95"];
        let (args, settings) = (args(&flags), settings(&flags));
        assert_eq!(settings.loads_of_points(10.0), [3.0, 5.0, 9.0, 10.0]);
        assert_eq!(settings.loads_of_points(2.0), [1.0, 2.0], "each load once");
        let plan = settings.plan_of_points(&args.run, 40.0, Path::new("x"), |_| None).expect("a plan").expect("wanted");
        assert_eq!((plan.cells.len(), plan.drop, plan.early_end), (4, 38, None));
        let none = Settings { points: Vec::new(), ..settings };
        assert!(none.plan_of_points(&args.run, 40.0, Path::new("x"), |_| None).expect("a plan").is_none());
    }
}
