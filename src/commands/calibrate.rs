//! `tarebench calibrate`.

use crate::commands::console::{complain, stop_on_signals, tell, tell_failure, usage};
use crate::{FAILED, INTERRUPTED, INVALID};
use std::sync::atomic::Ordering;
use tarebench::calibrate;
use tarebench::calibrate::at_limit::Answer;
use tarebench::calibrations::check;
use tarebench::calibrations::document::Calibration;
use tarebench::calibrations::identity::Host;
use tarebench::calibrations::store::{self, Found};
use tarebench::campaign::{self, Voice};
use tarebench::cli::CalibrateArgs;
use tarebench::report;
use tarebench::rundir::kind::Kind;

/// Weighs this host, or shows, tries or applies what was weighed; the exit status.
pub fn calibrate(args: &CalibrateArgs) -> anyhow::Result<u8> {
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
                tell_failure(&error);
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
            tell_failure(&error);
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
            complain("WARNING: no calibration fits this host and these flags; the nearest differs in");
            differences.iter().for_each(|words| complain(format!("         {words}")));
            Ok(*found)
        }
        Found::Nothing(words) => {
            anyhow::bail!("no calibration in {}: {words}; tarebench calibrate --quick makes one", store.display())
        }
    }
}

fn say_unreadable(words: &[String]) {
    if !words.is_empty() {
        complain(format!("WARNING: of the calibrations that are kept some cannot be read: {}", words.join("; ")));
    }
}

/// Holds a run against the calibration that it names.
fn check_run(args: &CalibrateArgs, dir: &std::path::Path) -> anyhow::Result<u8> {
    Kind::must_be_a_run(dir)?;
    let checked = check::of_directory(dir).map_err(anyhow::Error::msg)?;
    checked.warnings().iter().for_each(complain);
    tell(&if args.json { checked.json().to_string() + "\n" } else { checked.words() });
    Ok(if checked.is_inside() { 0 } else { INVALID })
}
