//! Conversations and chains, from the flags.

use super::duration::Until;
use super::{BadPlan, range};
use crate::cli::{Form, List, Profile, RunArgs};
use crate::load_point::{Cell, Extent};
use crate::rundir::window::SessionKind;
use crate::session_load::{SessionLoad, Start};
use crate::target::openai::Api;
use crate::workload::nonce::MAX_TRACE_ID;
use crate::workload::sessions::{PAUSE_FORM, Pause, SessionLaw, Span, Survey, TURNS_FORM, turns};
use crate::workload::{BadWorkload, Workload};
use bench_engine::schedule::{ArrivalLaw, BadLaw};
use bench_engine::units::Nanos;
use serde::Serialize;

/// Sessions kept in a window, unless told otherwise.
const KEPT: u64 = 30;
/// Warm-up sessions before them.
const DROP: u64 = 2;
/// Users of the load points, unless told otherwise.
const USERS: [u32; 3] = [1, 4, 16];

/// The sessions of a plan: how many, and what they ask for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sessions {
    /// What they are like.
    #[serde(skip)]
    pub law: SessionLaw,
    /// Kept in each window.
    pub num_sessions: u64,
    /// Dropped before them.
    pub drop_sessions: u64,
    /// What the planned ones ask for, all together.
    #[serde(skip)]
    pub survey: Survey,
}

impl Sessions {
    /// As they are called, in the plural.
    pub fn called(&self) -> &'static str {
        match self.law.kind {
            SessionKind::Chat => "conversations",
            SessionKind::Chain => "tasks",
        }
    }

    /// As their turns are called, in the plural.
    pub fn turns_called(&self) -> &'static str {
        match self.law.kind {
            SessionKind::Chat => "turns",
            SessionKind::Chain => "calls",
        }
    }

    /// As those are called who lead them, in the plural.
    pub fn led_by(&self) -> &'static str {
        match self.law.kind {
            SessionKind::Chat => "users",
            SessionKind::Chain => "agents",
        }
    }

    /// Mean duration of a session whose replies take `reply_s` each, in s.
    pub fn duration_s(&self, reply_s: f64) -> f64 {
        let turns = self.survey.mean_turns();
        match self.law.pause {
            Pause::Every { ns } => (turns - 1.0) * reply_s.max(ns as f64 / 1e9) + reply_s,
            Pause::None | Pause::After(_) => turns * reply_s + self.survey.mean_pauses_s,
        }
    }
}

/// Sessions that were asked for.
pub(super) struct Asked {
    /// What they are like.
    pub(super) law: SessionLaw,
    /// Kept in each window.
    pub(super) kept: u64,
    /// Dropped before them.
    pub(super) drop: u64,
}

impl Asked {
    /// None: requests stand for themselves.
    pub(super) fn of(args: &RunArgs) -> Result<Option<Asked>, BadPlan> {
        let (flag, kind, text) = match (&args.sessions, &args.chain) {
            (Some(_), Some(_)) => {
                let why = "a run has conversations or tasks of agents; leave one out";
                return Err(BadPlan::Together { flag: "--sessions", other: "--chain", why });
            }
            (Some(text), None) => ("--sessions", SessionKind::Chat, text),
            (None, Some(text)) => ("--chain", SessionKind::Chain, text),
            (None, None) => return without(args).map(|()| None),
        };
        refused(flag, args)?;
        let turns = turns(text).ok_or_else(|| range(flag, TURNS_FORM, format!("{text:?}")))?;
        let (kept, drop) = (args.num_sessions.unwrap_or(KEPT), args.drop_sessions.unwrap_or(DROP));
        if kept == 0 || kept > MAX_TRACE_ID {
            return Err(range("--num-sessions", "1 to 16,777,000, --drop-sessions included", kept));
        }
        if drop > MAX_TRACE_ID - kept {
            let allowed = "so few that a window has at most 16,777,000 sessions, --num-sessions included";
            return Err(range("--drop-sessions", allowed, drop));
        }
        Ok(Some(Asked { law: SessionLaw { kind, turns, pause: pause(kind, args)? }, kept, drop }))
    }

    /// What the planned sessions of a window ask for.
    pub(super) fn survey(&self, workload: &Workload) -> Result<Survey, BadPlan> {
        // the most that they can be is told before they are counted one by one
        let drawn = workload.lengths.dataset().is_none();
        let sessions = self.drop + self.kept;
        if drawn && sessions.saturating_mul(u64::from(self.law.turns[0])) > MAX_TRACE_ID {
            return Err(self.too_many(sessions));
        }
        let survey = workload.survey(&self.law, self.drop, self.kept).map_err(BadWorkload::from)?;
        if survey.turns > MAX_TRACE_ID { Err(self.too_many(sessions)) } else { Ok(survey) }
    }

    fn too_many(&self, sessions: u64) -> BadPlan {
        // the flag that asked for most of them
        let (flag, rest) = match self.drop > self.kept {
            true => ("--drop-sessions", "those of --num-sessions included"),
            false => ("--num-sessions", "warm-up included"),
        };
        let words = "so few that a window has at most 16,777,000 turns";
        range(flag, words, format!("{sessions} ({rest}) of {} turns or more", self.law.turns[0]))
    }

    /// The load points: numbers of users, or rates of sessions.
    pub(super) fn cells(
        &self,
        args: &RunArgs,
        workload: &Workload,
        survey: &Survey,
        until: Until,
    ) -> Result<Vec<Cell>, BadPlan> {
        let (planned, turns) = match until {
            Until::AtLeast(_) => (self.drop + self.kept, survey.turns),
            // nobody knows how many there will be
            Until::TimeAlone(_) => (0, 0),
        };
        let until = until.time();
        let load = |start, planned, requests, slots, opened_ahead| {
            let (law, drop, kept) = (self.law, self.drop, self.kept);
            Cell::Sessions(SessionLoad { start, law, planned, kept, drop, requests, slots, opened_ahead })
        };
        let Some(List(rates)) = &args.session_rate else {
            let users = super::load::caps(args)?.unwrap_or(&USERS);
            let cell = |n: &u32| load(Start::Users { concurrency: *n }, planned, turns, *n, *n);
            return Ok(users.iter().map(cell).collect());
        };
        let per_session = survey.mean_output_tokens * survey.mean_turns();
        let extent =
            Extent { seed: workload.seed, at_least: planned, until, mean_output_tokens: per_session, shard: None };
        let cell = |per_s: &f64| {
            let law = ArrivalLaw::new(*per_s, args.burstiness.unwrap_or(1.0)).map_err(|bad| match bad {
                BadLaw::Burstiness(got) => super::load::burstiness(got),
                _ => range("--session-rate", "a list of rates from 0.0001 to 1,000,000 sessions/s, or inf", per_s),
            })?;
            let too_long = || {
                let allowed = "so short that no window has more than 16,777,000 turns at any --session-rate";
                range("--min-duration", allowed, until.secs_f64())
            };
            let Ok(Cell::Open(open)) = Cell::open(law, None, extent) else { return Err(too_long()) };
            let turns = match open.requests == planned {
                true => turns,
                false => self.turns_of(workload, open.requests)?,
            };
            if turns > MAX_TRACE_ID {
                return Err(too_long());
            }
            let (sessions, slots, ahead) = (open.requests, open.slots, open.opened_ahead);
            Ok(load(Start::Arrivals(open), sessions, turns, slots, ahead))
        };
        rates.iter().map(cell).collect()
    }

    /// Turns of the first `sessions`.
    fn turns_of(&self, workload: &Workload, sessions: u64) -> Result<u64, BadPlan> {
        let all = workload.sessions(&self.law, self.drop, self.kept).map_err(BadWorkload::from)?;
        let each = all.take(sessions as usize).map(|session| session.map(|session| session.turns.len() as u64));
        Ok(each.sum::<std::io::Result<u64>>().map_err(BadWorkload::from)?)
    }
}

/// The pause between turns.
fn pause(kind: SessionKind, args: &RunArgs) -> Result<Pause, BadPlan> {
    let after = |flag, text: &String| match Span::parse(text) {
        Some(Span::Constant { ns: 0 }) => Ok(Pause::None),
        Some(span) => Ok(Pause::After(span)),
        None => Err(range(flag, PAUSE_FORM, format!("{text:?}"))),
    };
    match (kind, &args.think_time, &args.turn_every, &args.tool_time) {
        (SessionKind::Chat, Some(_), Some(_), _) => {
            let why = "a turn comes so long after the reply, or at a fixed pace; leave one out";
            Err(BadPlan::Together { flag: "--think-time", other: "--turn-every", why })
        }
        (SessionKind::Chat, Some(text), None, None) => after("--think-time", text),
        (SessionKind::Chat, None, Some(text), None) => {
            let pace = crate::arrivals::span(text).filter(|pace| *pace > Nanos::ZERO);
            let form = "a time above 0 and at most 366 days (8784h), in us, ms, s, m or h, like 6s";
            let pace = pace.ok_or_else(|| range("--turn-every", form, format!("{text:?}")))?;
            Ok(Pause::Every { ns: pace.ns() })
        }
        (SessionKind::Chat, _, _, Some(_)) => {
            let why = "a conversation has --think-time; --tool-time is for --chain";
            Err(BadPlan::Together { flag: "--sessions", other: "--tool-time", why })
        }
        (SessionKind::Chain, None, None, Some(text)) => after("--tool-time", text),
        (SessionKind::Chain, Some(_), ..) => {
            let why = "an agent has --tool-time; --think-time is for --sessions";
            Err(BadPlan::Together { flag: "--chain", other: "--think-time", why })
        }
        (SessionKind::Chain, _, Some(_), _) => {
            let why = "an agent calls when its tools are done, --tool-time; --turn-every is for --sessions";
            Err(BadPlan::Together { flag: "--chain", other: "--turn-every", why })
        }
        (_, None, None, None) => Ok(Pause::None),
    }
}

/// Flags that say nothing where there are no sessions.
fn without(args: &RunArgs) -> Result<(), BadPlan> {
    for (flag, given, other) in [
        ("--think-time", args.think_time.is_some(), "--sessions"),
        ("--turn-every", args.turn_every.is_some(), "--sessions"),
        ("--tool-time", args.tool_time.is_some(), "--chain"),
        ("--num-sessions", args.num_sessions.is_some(), "--sessions or --chain"),
        ("--drop-sessions", args.drop_sessions.is_some(), "--sessions or --chain"),
        ("--session-rate", args.session_rate.is_some(), "--sessions or --chain"),
    ] {
        if given {
            return Err(BadPlan::Alone { flag, other });
        }
    }
    Ok(())
}

/// Flags that do not go with sessions.
fn refused(flag: &'static str, args: &RunArgs) -> Result<(), BadPlan> {
    let endpoint = args.endpoint.as_deref().unwrap_or_default();
    let is_text = Api::of_endpoint(endpoint) == Api::Completions;
    let spike = args.inject.iter().any(|text| text.trim_start().starts_with("spike"));
    let own = args.extra_body.as_deref().and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok());
    let own = |field: &str| own.as_ref().is_some_and(|body| body.get(field).is_some());
    let rates = "sessions begin at --session-rate, and their turns follow replies; say --session-rate";
    for (other, given, why) in [
        ("a completions --endpoint", is_text, "turns are messages of a chat; use /v1/chat/completions"),
        ("--prompt-form ids", args.prompt_form == Some(Form::Ids), "a chat takes no token ids; leave it out"),
        ("--trace", args.trace.is_some(), "a trace has requests of its own, at times of their own; leave one out"),
        ("--request-rate", args.request_rate.is_some(), rates),
        ("--arrivals", args.arrivals.is_some(), rates),
        ("--stages", args.stages.is_some(), rates),
        (
            "--inject spike",
            spike,
            "a spike is a rate of requests, and turns follow replies; --at and --inject node-loss work",
        ),
        (
            "--shard",
            args.shard.is_some(),
            "a turn needs the reply before, so there is no schedule that hosts could share; give each host its own \
             --max-concurrency and --seed without --shard",
        ),
        (
            "--cache repeat",
            args.cache.as_deref() == Some("repeat"),
            "each turn asks something else; choose unique or shared-prefix:N (within a session the server may find what \
             was said before in any case)",
        ),
        ("--num-prompts", args.num_prompts.is_some(), "whole sessions are kept; say --num-sessions"),
        ("--drop", args.drop.is_some(), "whole sessions are dropped; say --drop-sessions"),
        (
            "--profile seed-v1",
            args.profile == Some(Profile::SeedV1),
            "that protocol has single requests; leave one of them out",
        ),
        ("--profile", args.profile.is_some(), "a profile is a number of requests; say --num-sessions"),
        ("--extra-body with messages", own("messages"), "it would stand in place of every turn; take messages out"),
        (
            "--max-concurrency",
            args.max_concurrency.is_some() && args.session_rate.is_some(),
            "--max-concurrency is the number of users who lead one session after another, --session-rate lets sessions \
             begin however many are under way; leave one out",
        ),
    ] {
        if given {
            return Err(BadPlan::Together { flag, other, why });
        }
    }
    if args.burstiness.is_some() && args.session_rate.is_none() {
        return Err(BadPlan::Alone { flag: "--burstiness", other: "--session-rate" });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Plan;
    use super::*;
    use crate::workload::Lengths;

    fn plan(change: impl Fn(&mut RunArgs)) -> Result<Plan, BadPlan> {
        let mut args = RunArgs { sessions: Some("2..6".to_owned()), ..RunArgs::default() };
        change(&mut args);
        Plan::from_args(&args, |_| None)
    }

    fn loads(plan: &Plan) -> Vec<&SessionLoad> {
        plan.cells.iter().filter_map(|cell| if let Cell::Sessions(load) = cell { Some(load) } else { None }).collect()
    }

    #[test]
    fn users_lead_so_many_sessions_each_window() {
        let plan = plan(|a| a.think_time = Some("exp:2s".to_owned())).expect("ok");
        let sessions = plan.sessions.clone().expect("sessions");
        assert_eq!((sessions.num_sessions, sessions.drop_sessions), (30, 2));
        let users: Vec<_> = loads(&plan).iter().map(|load| load.start.clone()).collect();
        assert_eq!(users, [1, 4, 16].map(|concurrency| Start::Users { concurrency }));
        for load in loads(&plan) {
            assert_eq!((load.planned, load.kept, load.drop), (32, 30, 2));
            assert_eq!(load.requests, plan.num_prompts + plan.drop, "requests are turns");
            let window = load.recorded();
            assert_eq!(window.sessions.and_then(|s| s.pause).as_deref(), Some("think time exponential, mean 2 s"));
        }
        let first: u64 = loads(&plan)[0]
            .sessions(&plan.workload)
            .expect("no file")
            .take(2)
            .map(|session| session.expect("no file").turns.len() as u64)
            .sum();
        assert_eq!(plan.drop, first, "warm-up are the turns of the first sessions");
        assert_eq!(plan.trace_hash, sessions.survey.hash);
        assert_eq!(plan.rules()["sessions"], serde_json::json!({"num_sessions": 30, "drop_sessions": 2}));
        assert_eq!(plan.requests(), 3 * 2 * (plan.num_prompts + plan.drop));
    }

    #[test]
    fn sessions_arrive_by_a_schedule() {
        let of = |min_duration: f64| {
            let plan = plan(|a| {
                (a.session_rate, a.min_duration) = (Some(List(vec![2.0, f64::INFINITY])), Some(min_duration));
            });
            plan.expect("ok")
        };
        let plan = of(0.0);
        let [steady, at_once] = loads(&plan)[..] else { panic!("two load points") };
        let Start::Arrivals(open) = &steady.start else { panic!("a schedule") };
        assert_eq!((open.requests, open.rate, open.arrivals, steady.planned), (32, Some(2.0), "poisson", 32));
        assert_eq!((steady.slots, at_once.slots), (32, 32), "no session has two requests at once");
        assert_eq!(steady.recorded().rate, Some(2.0));
        // it goes on by the same law
        let longer = of(60.0);
        let long = loads(&longer)[0];
        assert!(long.planned > 90 && long.requests > 3 * longer.num_prompts, "{} {}", long.planned, long.requests);
        assert_eq!((longer.num_prompts, long.kept), (plan.num_prompts, 30));
        let begun = long.sessions(&longer.workload).expect("no file").take(32).collect::<Vec<_>>();
        let same = steady.sessions(&plan.workload).expect("no file").take(32).collect::<Vec<_>>();
        assert!(begun.iter().zip(&same).all(|(a, b)| a.as_ref().ok() == b.as_ref().ok()));
    }

    #[test]
    fn pauses_are_of_their_kind() {
        let pause = |change: fn(&mut RunArgs)| loads(&plan(change).expect("ok"))[0].law.pause;
        assert_eq!(pause(|_| {}), Pause::None);
        assert_eq!(pause(|a| a.think_time = Some("0".to_owned())), Pause::None);
        assert_eq!(pause(|a| a.turn_every = Some("6s".to_owned())), Pause::Every { ns: 6_000_000_000 });
        let tools = |a: &mut RunArgs| {
            (a.sessions, a.chain, a.tool_time) = (None, Some("10".to_owned()), Some("200ms".to_owned()));
        };
        let chain = plan(tools).expect("ok");
        let law = loads(&chain)[0].law;
        assert_eq!((law.kind, law.turns), (SessionKind::Chain, [10, 10]));
        assert_eq!(law.pause, Pause::After(Span::Constant { ns: 200_000_000 }));
    }

    #[test]
    fn estimates_follow_the_pace() {
        let of = |change: fn(&mut RunArgs)| {
            let plan = plan(|a| {
                a.sessions = Some("4".to_owned());
                change(a);
            });
            plan.expect("ok").sessions.expect("sessions").duration_s(2.0)
        };
        assert_eq!(of(|_| {}), 8.0);
        assert_eq!(of(|a| a.think_time = Some("1s".to_owned())), 11.0);
        assert_eq!(of(|a| a.turn_every = Some("6s".to_owned())), 20.0);
        assert_eq!(of(|a| a.turn_every = Some("1s".to_owned())), 8.0, "replies take longer than the pace");
    }

    #[test]
    fn what_does_not_go_with_sessions_is_refused_in_words() {
        let said = |change: fn(&mut RunArgs)| plan(change).expect_err("refused").to_string();
        let both = said(|a| a.chain = Some("10".to_owned()));
        assert!(both.starts_with("--sessions and --chain do not go together"), "{both}");
        for (change, words) in [
            ((|a| a.sessions = Some("0".to_owned())) as fn(&mut RunArgs), "--sessions must be a number of turns"),
            (|a| a.think_time = Some("soon".to_owned()), "--think-time must be a time in us, ms, s, m or h"),
            (|a| a.turn_every = Some("0".to_owned()), "--turn-every must be a time above 0"),
            (|a| a.tool_time = Some("1s".to_owned()), "--tool-time is for --chain"),
            (|a| a.num_sessions = Some(0), "--num-sessions must be"),
            (
                |a| a.num_sessions = Some(16_000_000),
                "--num-sessions must be so few that a window has at most 16,777,000 turns",
            ),
            (|a| a.num_sessions = Some(u64::MAX), "--num-sessions must be 1 to 16,777,000"),
            (
                |a| a.drop_sessions = Some(16_000_000),
                "--drop-sessions must be so few that a window has at most 16,777,000 turns",
            ),
            (
                |a| a.drop_sessions = Some(u64::MAX),
                "--drop-sessions must be so few that a window has at most 16,777,000 sessions",
            ),
            (|a| a.think_time = Some("300d".to_owned()), "at most 366 days (8784h)"),
            (|a| a.think_time = Some("8785h".to_owned()), "at most 366 days (8784h)"),
            (|a| a.turn_every = Some("300d".to_owned()), "at most 366 days (8784h)"),
            (|a| a.num_prompts = Some(9), "say --num-sessions"),
            (|a| a.drop = Some(9), "say --drop-sessions"),
            (|a| a.endpoint = Some("/v1/completions".to_owned()), "use /v1/chat/completions"),
            (|a| a.prompt_form = Some(Form::Ids), "a chat takes no token ids; leave it out"),
            (|a| a.trace = Some("x".into()), "--trace"),
            (|a| a.request_rate = Some(List(vec![1.0])), "say --session-rate"),
            (|a| a.arrivals = Some("batch:1/1s".to_owned()), "say --session-rate"),
            (|a| a.stages = Some(List(vec!["1s@1".to_owned()])), "say --session-rate"),
            (|a| a.inject = vec!["spike".to_owned()], "--inject node-loss work"),
            (|a| a.shard = Some("1/2".to_owned()), "give each host its own"),
            (|a| a.cache = Some("repeat".to_owned()), "choose unique or shared-prefix:N"),
            (|a| a.profile = Some(Profile::SeedV1), "that protocol has single requests"),
            (|a| a.profile = Some(Profile::Tail), "say --num-sessions"),
            (|a| a.extra_body = Some(r#"{"messages":[]}"#.to_owned()), "take messages out"),
            (|a| a.burstiness = Some(2.0), "--burstiness has no meaning without --session-rate"),
            (|a| a.max_concurrency = Some(List(vec![0])), "--max-concurrency must be"),
            (|a| a.session_rate = Some(List(vec![0.0])), "--session-rate must be"),
            (
                |a| {
                    (a.session_rate, a.max_concurrency) = (Some(List(vec![1.0])), Some(List(vec![4])));
                },
                "leave one out",
            ),
            (
                |a| (a.think_time, a.turn_every) = (Some("1s".to_owned()), Some("1s".to_owned())),
                "--think-time and --turn-every do not go together",
            ),
            (
                |a| (a.sessions, a.chain, a.turn_every) = (None, Some("3".to_owned()), Some("1s".to_owned())),
                "--turn-every is for --sessions",
            ),
            (|a| (a.sessions, a.tool_time) = (None, Some("1s".to_owned())), "has no meaning without --chain"),
            (|a| (a.sessions, a.think_time) = (None, Some("1s".to_owned())), "has no meaning without --sessions"),
            (|a| (a.sessions, a.session_rate) = (None, Some(List(vec![1.0]))), "without --sessions or --chain"),
        ] {
            let words_of = said(change);
            assert!(words_of.contains(words), "{words}: {words_of}");
        }
        assert!(plan(|a| a.inject = vec!["node-loss".to_owned()]).is_ok());
        assert!(plan(|a| a.at = vec!["20s=true".to_owned()]).is_ok());
        assert!(plan(|a| a.cache = Some("shared-prefix:5".to_owned())).is_ok());
        assert!(
            plan(|a| a.extra_body = Some(r#"{"user":"me"}"#.to_owned())).is_ok(),
            "one user for all is somebody's wish"
        );
    }

    #[test]
    fn an_injected_loss_brings_no_rate_along() {
        let plan = plan(|a| a.inject = vec!["node-loss".to_owned()]).expect("ok");
        assert_eq!((loads(&plan).len(), plan.min_duration_s), (3, 60.0));
        assert!(matches!(plan.workload.lengths, Lengths::SeedMix { .. }));
    }
}
