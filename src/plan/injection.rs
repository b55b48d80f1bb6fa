//! What is done on purpose, from the flags.

use super::{BadPlan, range, seconds};
use crate::cli::{List, RunArgs};
use crate::injection::{AT_FORM, Action, INJECT_FORM, Injection, at, preset};
use crate::load_point::Cell;
use crate::reading::{printable, without};
use crate::target::secret::{KeySource, secrets};
use bench_engine::units::Nanos;

/// Of a command, in s.
const TIMEOUT_S: f64 = 60.0;
/// Requests/s that a preset comes with.
const RATE: f64 = 50.0;
/// Length of a window that a preset comes with, in s.
const WINDOW_S: f64 = 60.0;
/// More than anybody marks by hand.
const MOST: usize = 100;

fn presets(args: &RunArgs) -> Result<Vec<Injection>, BadPlan> {
    let known = |text: &String| preset(text).ok_or_else(|| range("--inject", INJECT_FORM, format!("{text:?}")));
    args.inject.iter().map(known).collect()
}

/// The flags with those that `--inject` brings along; None: it is not given.
pub(super) fn prepared(args: &RunArgs) -> Result<Option<RunArgs>, BadPlan> {
    if args.inject.is_empty() {
        return Ok(None);
    }
    let together = |other, why| Err(BadPlan::Together { flag: "--inject", other, why });
    let mut more = args.clone();
    let mut spikes = 0;
    for (text, preset) in args.inject.iter().zip(presets(args)?) {
        match preset.action {
            Action::NodeLoss { .. } if args.base_url.is_some() => {
                let why = "node-loss stops the built-in mock, and no server but that is ours to stop; --at 20s='..' runs \
                           a command of yours that breaks it";
                return together("--base-url", why);
            }
            Action::Spike { .. } => {
                spikes += 1;
                let bare = text.trim() == "spike";
                more.arrivals = Some(if bare { "spike:4x/10s@30s".to_owned() } else { text.trim().to_owned() });
            }
            _ => {}
        }
    }
    if spikes > 0 && (args.arrivals.is_some() || args.stages.is_some() || args.trace.is_some()) {
        return together("--arrivals, --stages, --trace", "a spike is the load of --arrivals spike; leave one out");
    }
    if spikes > 1 {
        return together("--inject spike", "a load has one spike; leave the other out");
    }
    let sessions = args.sessions.is_some() || args.chain.is_some();
    let loads = args.max_concurrency.is_some()
        || args.arrivals.is_some()
        || args.stages.is_some()
        || args.trace.is_some()
        || sessions;
    if args.request_rate.is_none() && !loads && args.profile.is_none() {
        more.request_rate = Some(List(vec![RATE]));
    }
    // a schedule with an end is as long as it is
    let ends = args.stages.is_some()
        || args.trace.is_some()
        || more.arrivals.as_deref().is_some_and(|a| a.starts_with("ramp"));
    if args.min_duration.is_none() && args.duration.is_none() && !ends {
        more.min_duration = Some(WINDOW_S);
    }
    Ok(Some(more))
}

/// What `--at` and `--inject` ask for, in order of time.
pub(super) fn injections(
    args: &RunArgs,
    cells: &[Cell],
    duration: Option<Nanos>,
    environment: &impl Fn(&str) -> Option<String>,
) -> Result<Vec<Injection>, BadPlan> {
    if args.at.is_empty() && args.at_timeout.is_some() {
        return Err(BadPlan::Alone { flag: "--at-timeout", other: "--at" });
    }
    let (timeout_s, _) = seconds("--at-timeout", args.at_timeout, TIMEOUT_S, false)?;
    let headers: Vec<(String, String)> = args.header.iter().map(|p| (p.0.clone(), p.1.clone())).collect();
    let key = KeySource::of(args.api_key_env.as_deref(), args.api_key_file.as_deref()).read(environment)?;
    let secrets = secrets(key.as_deref(), &headers);
    let mut all: Vec<(&'static str, Injection)> = Vec::new();
    for text in &args.at {
        // what does not parse may hold a secret as well
        let form = || range("--at", AT_FORM, format!("{:?}", printable(text, secrets.as_deref())));
        let (times, script) = at(text).ok_or_else(form)?;
        let command = without(script, secrets.as_deref()).replace(char::is_control, " ");
        all.extend(times.into_iter().map(|at| {
            let action = Action::Command { command: command.clone(), timeout_s, script: script.to_owned() };
            ("--at", Injection { at_s: at.secs_f64(), action })
        }));
    }
    all.extend(presets(args)?.into_iter().map(|preset| ("--inject", preset)));
    if all.len() > MOST {
        return Err(range("--at, --inject", "at most 100 in a window", all.len()));
    }
    all.sort_by(|(_, a), (_, b)| a.at_s.total_cmp(&b.at_s));
    let ends_s = duration.map(Nanos::secs_f64);
    let last_due_s = cells.iter().filter_map(|cell| last_due_s(cell).or(ends_s)).reduce(f64::min);
    if let Some((flag, late, last_due_s)) =
        all.iter().find_map(|(flag, i)| Some((*flag, i, last_due_s.filter(|last| i.at_s > *last)?)))
    {
        return Err(BadPlan::TooLate { flag, at_s: late.at_s, last_due_s });
    }
    let mut runs_again = Nanos::ZERO;
    for (_, loss) in all.iter().filter(|(_, i)| matches!(i.action, Action::NodeLoss { .. })) {
        if loss.at() < runs_again {
            let why = "the mock would still be stopped when it is to stop; leave more time between them";
            return Err(BadPlan::Together { flag: "--inject node-loss", other: "--inject node-loss", why });
        }
        runs_again = loss.at() + loss.lasts();
    }
    Ok(all.into_iter().map(|(_, injection)| injection).collect())
}

/// When the last request is due; not known before in closed loop.
fn last_due_s(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Closed { .. } | Cell::Sessions(_) => None,
        Cell::Open(open) => Some(open.last_due_s),
        Cell::Trace(replay) => Some(replay.last_due_s),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;

    fn plan(change: impl Fn(&mut RunArgs)) -> Result<Plan, BadPlan> {
        let mut args = RunArgs::default();
        change(&mut args);
        Plan::from_args(&args, |name| (name == "KEY").then(|| "sk-secret-1".to_owned()))
    }

    #[test]
    fn a_preset_brings_a_load_that_shows_it() {
        let bare = plan(|a| a.inject = vec!["node-loss".to_owned()]).expect("ok");
        let Cell::Open(open) = &bare.cells[0] else { panic!("a rate makes an open loop") };
        assert_eq!((open.rate, bare.min_duration_s, bare.injections.len()), (Some(50.0), 60.0, 1));
        let spike = plan(|a| a.inject = vec!["spike".to_owned()]).expect("ok");
        let by_arrivals = plan(|a| {
            a.arrivals = Some("spike:4x/10s@30s".to_owned());
            (a.request_rate, a.min_duration) = (Some(List(vec![50.0])), Some(60.0));
        });
        assert_eq!(spike.cells, by_arrivals.expect("ok").cells, "the same load, marked");
        let own = plan(|a| (a.inject, a.max_concurrency) = (vec!["node-loss".to_owned()], Some(List(vec![8]))));
        assert_eq!(own.expect("ok").cells, [Cell::Closed { concurrency: 8 }]);
        let plain = plan(|_| {}).expect("ok");
        assert!(!serde_json::to_string(&plain).expect("JSON").contains("injections"), "old hashes stay");
        assert_ne!(bare.hash("m"), Plan { injections: Vec::new(), ..bare.clone() }.hash("m"));
    }

    #[test]
    fn commands_are_sorted_and_hold_no_key() {
        let plan = plan(|a| {
            a.at = vec!["4s,1s=curl -H sk-secret-1 x".to_owned(), "2s=true".to_owned()];
            (a.request_rate, a.min_duration) = (Some(List(vec![100.0])), Some(5.0));
            (a.base_url, a.api_key_env) = (Some("http://x".to_owned()), Some("KEY".to_owned()));
        });
        let plan = plan.expect("ok");
        assert_eq!(plan.injections.iter().map(|i| i.at_s).collect::<Vec<_>>(), [1.0, 2.0, 4.0]);
        let text = serde_json::to_string(&plan.injections).expect("JSON");
        assert!(text.contains("curl -H [key] x") && !text.contains("secret"), "{text}");
        let Action::Command { script, timeout_s, .. } = &plan.injections[0].action else { panic!("a command") };
        assert_eq!((script.as_str(), *timeout_s), ("curl -H sk-secret-1 x", 60.0));
    }

    #[test]
    fn what_cannot_be_is_refused_by_its_flag() {
        let words = |change: fn(&mut RunArgs)| plan(change).expect_err("refused").to_string();
        assert!(words(|a| a.at = vec!["soon".to_owned()]).starts_with("--at must be TIME='COMMAND'"));
        assert!(words(|a| a.inject = vec!["fire".to_owned()]).starts_with("--inject must be node-loss:T@START"));
        assert!(words(|a| a.at_timeout = Some(1.0)).starts_with("--at-timeout has no meaning without --at"));
        let foreign = words(|a| (a.inject, a.base_url) = (vec!["node-loss".to_owned()], Some("http://x".to_owned())));
        assert!(foreign.contains("no server but that is ours to stop"), "{foreign}");
        let late = words(|a| {
            a.at = vec!["60s=true".to_owned()];
            a.request_rate = Some(List(vec![100.0]));
        });
        assert!(late.starts_with("--at: at 60 s the load is over, its last request is due at"), "{late}");
        let twice = words(|a| {
            a.inject = vec!["spike".to_owned()];
            a.arrivals = Some("batch:1/1s".to_owned());
        });
        assert!(twice.contains("a spike is the load of --arrivals spike"), "{twice}");
        assert!(words(|a| a.inject = vec!["spike".to_owned(); 2]).contains("a load has one spike"));
        let both = words(|a| a.inject = vec!["node-loss".to_owned(), "node-loss:1s@22s".to_owned()]);
        assert!(both.contains("still be stopped"), "{both}");
        assert!(
            words(|a| (a.at, a.max_concurrency) = (vec!["1s=x".to_owned(); 101], Some(List(vec![1]))))
                .contains("at most 100")
        );
    }
}
