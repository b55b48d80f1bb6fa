//! Where calibrations are kept, and which of them holds for a run.

use super::document::{Calibration, FILE, Limits};
use super::identity::{Config, Host, differences};
use calibration::verdict::Limit;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Length of the time at the head of an id, `2026-11-29T18-22-55`.
const MADE_AT: usize = 19;

/// The directory of calibrations: what was given, else `tarebench/calibrations` in the user's state directory
/// (XDG Base Directory Specification). `environment` looks up variables.
pub fn directory(given: Option<&Path>, environment: impl Fn(&str) -> Option<String>) -> PathBuf {
    let variable = |name: &str| environment(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    match given {
        Some(dir) => dir.to_owned(),
        None => variable("TAREBENCH_CALIBRATIONS").unwrap_or_else(|| {
            variable("XDG_STATE_HOME")
                .or_else(|| variable("HOME").map(|home| home.join(".local/state")))
                .unwrap_or_else(|| PathBuf::from("."))
                .join("tarebench/calibrations")
        }),
    }
}

/// What was found for a run.
#[derive(Debug)]
pub enum Found {
    /// One that holds: the newest.
    Match(Box<Calibration>),
    /// None holds; this is the newest of those that come nearest, and how it differs.
    Near(Box<Calibration>, Vec<String>),
    /// There is none.
    Nothing(String),
}

/// Reads one calibration.
///
/// # Errors
/// The file cannot be read, or is none: in words, with its path.
pub fn read(dir: &Path) -> Result<Calibration, String> {
    let path = dir.join(FILE);
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))
}

/// Every readable calibration below `store`, oldest first, and what could not be read.
pub fn all(store: &Path) -> (Vec<Calibration>, Vec<String>) {
    let mut dirs: Vec<PathBuf> = fs::read_dir(store)
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.join(FILE).exists())
        .collect();
    dirs.sort();
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    for dir in dirs {
        match read(&dir) {
            Ok(calibration) => found.push(calibration),
            Err(words) => unreadable.push(words),
        }
    }
    found.sort_by_key(|c| c.made_at_ns);
    (found, unreadable)
}

/// The calibration for a run of this host and configuration. `config` is asked for only when there is any to compare.
///
/// # Errors
/// Those of `config`.
pub fn find<E>(store: &Path, host: &Host, config: impl FnOnce() -> Result<Config, E>) -> Result<Found, E> {
    let (calibrations, unreadable) = all(store);
    if calibrations.is_empty() {
        return Ok(Found::Nothing(match unreadable.is_empty() {
            true => "none was ever made here".to_owned(),
            false => format!("none can be read ({})", unreadable.join("; ")),
        }));
    }
    let config = config()?;
    let mut nearest: Option<(Vec<String>, Calibration)> = None;
    for calibration in calibrations.into_iter().filter(|c| !c.interrupted) {
        let words = differences((&calibration.host, &calibration.config), (host, &config));
        // of equally near ones the newest, which comes last
        if nearest.as_ref().is_none_or(|(least, _)| words.len() <= least.len()) {
            nearest = Some((words, calibration));
        }
    }
    Ok(match nearest {
        Some((words, calibration)) if words.is_empty() => Found::Match(Box::new(calibration)),
        Some((words, calibration)) => Found::Near(Box::new(calibration), words),
        None => Found::Nothing("none was ever completed here".to_owned()),
    })
}

/// What goes into a run's `plan.json`: all of the calibration that its figures need, so that they can be rebuilt
/// without it.
pub fn for_plan(found: &Found) -> Value {
    let (calibration, differences) = match found {
        Found::Nothing(words) => return json!({ "none": words }),
        Found::Match(calibration) => (calibration, &[][..]),
        Found::Near(calibration, differences) => (calibration, &differences[..]),
    };
    json!({
        "id": calibration.id,
        "made_at": calibration.id.get(..MADE_AT).unwrap_or_default(),
        "depth": calibration.depth,
        "placement": calibration.placement,
        "matches": differences.is_empty(),
        "differences": differences,
        "limits": limits(&calibration.verdict.limits),
        "tare": tare_by_event_rate(calibration),
    })
}

fn limits(limits: &Limits) -> Value {
    let one = |limit: &Option<Limit>| limit.as_ref().map(|l| json!({"value": l.value, "at_least": l.at_least}));
    json!({
        "requests_per_s": one(&limits.requests_per_s),
        "events_per_s": one(&limits.events_per_s),
        "streams": one(&limits.streams),
        "burst": one(&limits.burst),
    })
}

/// The harness's own share of ttft at each valid step of the ladder, by event rate: what kernel stamps say of it,
/// else gross - truth, which is the same by another way.
fn tare_by_event_rate(calibration: &Calibration) -> Vec<Value> {
    let mut steps: Vec<_> = calibration.ladder.iter().filter(|s| s.valid).collect();
    steps.sort_by(|a, b| a.achieved_events_per_s.total_cmp(&b.achieved_events_per_s));
    let told = steps.iter().filter_map(|step| {
        let spread = if step.tare_us.n > 0 { &step.tare_us } else { &step.closure.overhead_us };
        let quantiles: Vec<(f64, f64)> =
            spread.quantiles_us.iter().flatten().filter_map(|(q, us)| Some((*q, (*us)?))).collect();
        let mean = spread.mean?;
        Some(json!({
            "events_per_s": step.achieved_events_per_s,
            "n": spread.n,
            "mean_us": mean,
            "quantiles_us": quantiles,
        }))
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_follows_flag_then_variable_then_the_users_state() {
        let none = |_: &str| None;
        let given = PathBuf::from("x");
        assert_eq!(directory(Some(&given), none), given);
        let of = |set: &'static [(&str, &str)]| {
            directory(None, move |name| set.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
        };
        assert_eq!(of(&[("TAREBENCH_CALIBRATIONS", "/c"), ("HOME", "/h")]), PathBuf::from("/c"));
        assert_eq!(of(&[("XDG_STATE_HOME", "/s"), ("HOME", "/h")]), PathBuf::from("/s/tarebench/calibrations"));
        assert_eq!(
            of(&[("XDG_STATE_HOME", ""), ("HOME", "/h")]),
            PathBuf::from("/h/.local/state/tarebench/calibrations")
        );
    }

    #[test]
    fn nothing_there_is_said_and_the_configuration_not_asked_for() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let host = Host::default();
        let found = find(dir.path(), &host, || -> Result<Config, String> { panic!("not needed") }).expect("found");
        assert!(matches!(&found, Found::Nothing(words) if words == "none was ever made here"));
        assert_eq!(for_plan(&found), json!({"none": "none was ever made here"}));
        fs::create_dir(dir.path().join("broken")).expect("made");
        fs::write(dir.path().join("broken").join(FILE), "{").expect("written");
        let found = find(dir.path(), &host, || -> Result<Config, String> { panic!("not needed") }).expect("found");
        assert!(
            matches!(found, Found::Nothing(words) if words.contains("none can be read") && words.contains("broken"))
        );
    }
}
