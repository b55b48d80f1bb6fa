//! Where calibrations are kept, and which of them holds for a run.

use super::document::{Calibration, FILE, Family, Limits, SCHEMA, Step};
use super::identity::{Config, Host, differences};
use crate::analysis::definitions::calibrated::{self as definitions, Law};
use crate::analysis::definitions::wording::LOOPBACK;
use calibration::spread::Spread;
use calibration::verdict::Limit;
use serde_json::{Value, json};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Length of the time at the head of an id, `2026-11-29T18-22-55`.
const MADE_AT: usize = 19;
/// No calibration is larger, bytes.
const LARGEST: u64 = 64 << 20;

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

/// What was found for a run, with what could not be read beside it.
#[derive(Debug)]
pub enum Found {
    /// One that holds: the newest; others that could not be read.
    Match(Box<Calibration>, Vec<String>),
    /// None holds; this is the newest of those that come nearest, how it differs, and what could not be read.
    Near(Box<Calibration>, Vec<String>, Vec<String>),
    /// There is none.
    Nothing(String),
}

/// Reads one calibration. Control characters in its texts come out as `?`, so that none of them steers a terminal.
///
/// # Errors
/// The file cannot be read, is none, is of another version, or says what no calibration can have found: in words, with
/// its path.
pub fn read(dir: &Path) -> Result<Calibration, String> {
    let path = dir.join(FILE);
    let told = |words: String| format!("{}: {}", shown(&path), printable(&words));
    let about = fs::metadata(&path).map_err(|e| told(e.to_string()))?;
    if !about.is_file() {
        return Err(told("it is no file".to_owned()));
    }
    if about.len() > LARGEST {
        return Err(told(format!("{} bytes are too many for a calibration", about.len())));
    }
    let text = fs::read_to_string(&path).map_err(|e| told(e.to_string()))?;
    let mut document: Value = serde_json::from_str(&text).map_err(|e| told(e.to_string()))?;
    clean(&mut document);
    match document["schema"].as_str() {
        Some(SCHEMA) => {}
        Some(other) => {
            return Err(told(format!("it was made by another version ({other}, not {SCHEMA}); calibrate again")));
        }
        None => return Err(told("it names no schema: it is no calibration".to_owned())),
    }
    let found: Calibration = serde_json::from_value(document).map_err(|e| told(e.to_string()))?;
    fault(&found).map_or(Ok(found), |why| Err(told(why)))
}

/// What a calibration says that none can have found.
fn fault(found: &Calibration) -> Option<String> {
    for (at, step) in found.ladder.iter().enumerate() {
        for (name, spread) in [("tare", &step.tare_us), ("overhead", &step.closure.overhead_us)] {
            let Some(law) = law(step, spread) else { continue };
            if let Some(why) = law.fault() {
                return Some(format!("step {at}: its {name} is no law: {why}"));
            }
        }
    }
    // what a run would make of it
    let plan = json!({"limits": limits(&found.verdict.limits), "tare": tare_by_event_rate(found)});
    definitions::fault(&plan)
}

/// No control character in any text.
fn clean(value: &mut Value) {
    match value {
        Value::String(text) => *text = printable(text),
        Value::Array(items) => items.iter_mut().for_each(clean),
        Value::Object(fields) => fields.values_mut().for_each(clean),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Text for a terminal: control characters as `?`.
pub fn printable(text: &str) -> String {
    crate::lettering::legible(text).into_owned()
}

fn shown(path: &Path) -> String {
    printable(&path.display().to_string())
}

/// Every readable calibration below `store`, oldest first, and what could not be read, the store itself included.
pub fn all(store: &Path) -> (Vec<Calibration>, Vec<String>) {
    let (mut dirs, mut found, mut unreadable): (Vec<PathBuf>, _, _) = (Vec::new(), Vec::new(), Vec::new());
    match fs::read_dir(store) {
        Ok(entries) => {
            for entry in entries {
                match entry {
                    Ok(entry) => dirs.push(entry.path()),
                    Err(error) => unreadable.push(format!("{}: {error}", shown(store))),
                }
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => unreadable.push(format!("{} is no directory that can be read: {error}", shown(store))),
    }
    dirs.sort();
    for dir in dirs {
        match dir.join(FILE).symlink_metadata() {
            Ok(_) => match read(&dir) {
                Ok(calibration) => found.push(calibration),
                Err(words) => unreadable.push(words),
            },
            // other things may lie there
            Err(error) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) => {}
            Err(error) => unreadable.push(format!("{}: {error}", shown(&dir))),
        }
    }
    found.sort_by_key(|c: &Calibration| c.made_at_ns);
    (found, unreadable)
}

/// The calibration for a run of this host and configuration. `config` is asked for only when there is any to compare.
///
/// # Errors
/// Those of `config`.
pub fn find<E>(store: &Path, host: &Host, config: impl FnOnce() -> Result<Config, E>) -> Result<Found, E> {
    let (calibrations, unreadable) = all(store);
    let also = match unreadable.is_empty() {
        true => String::new(),
        false => format!("none can be read ({})", unreadable.join("; ")),
    };
    if calibrations.is_empty() {
        return Ok(Found::Nothing(if also.is_empty() { "none was ever made here".to_owned() } else { also }));
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
        Some((words, calibration)) if words.is_empty() => Found::Match(Box::new(calibration), unreadable),
        Some((words, calibration)) => Found::Near(Box::new(calibration), words, unreadable),
        None if also.is_empty() => Found::Nothing("none was ever completed here".to_owned()),
        None => Found::Nothing(format!("none was ever completed here, and of others {also}")),
    })
}

/// What goes into a run's `plan.json`: all of the calibration that its figures need, so that they can be rebuilt
/// without it.
pub fn for_plan(found: &Found) -> Value {
    let (calibration, differences, unreadable) = match found {
        Found::Nothing(words) => return json!({ "none": words }),
        Found::Match(calibration, unreadable) => (calibration, &[][..], unreadable),
        Found::Near(calibration, differences, unreadable) => (calibration, &differences[..], unreadable),
    };
    let mut plan = json!({
        "id": calibration.id,
        "made_at": calibration.id.get(..MADE_AT).unwrap_or_default(),
        "depth": calibration.depth,
        "placement": calibration.placement,
        "matches": differences.is_empty(),
        "differences": differences,
        "limits": limits(&calibration.verdict.limits),
        "tare": tare_by_event_rate(calibration),
    });
    if !unreadable.is_empty() {
        plan["unreadable"] = json!(unreadable);
    }
    plan
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

/// The harness's own share of ttft at each valid step of the ladder, by event rate: what kernel stamps say of it, else
/// gross - truth. Over a network the latter is the network's share too and says nothing of the client: then there is
/// no law. Neither do lock-step bursts have a place here, whose tare is not that of their event rate, nor connections
/// opened for each request.
fn tare_by_event_rate(calibration: &Calibration) -> Vec<Value> {
    let steady = |s: &&Step| s.valid && !matches!(s.load.family, Family::Burst | Family::Cold);
    let by_truth = calibration.placement == LOOPBACK;
    let of = |step: &Step| match step.tare_us.n {
        0 if by_truth => law(step, &step.closure.overhead_us),
        0 => None,
        _ => law(step, &step.tare_us),
    };
    let mut laws: Vec<Law> = calibration.ladder.iter().filter(steady).filter_map(of).collect();
    laws.sort_by(|a, b| a.events_per_s.total_cmp(&b.events_per_s));
    let told = |law: Law| {
        json!({
            "events_per_s": law.events_per_s,
            "n": law.n,
            "mean_us": law.mean_us,
            "quantiles_us": law.quantiles_us,
        })
    };
    laws.into_iter().map(told).collect()
}

/// The law of a spread at a step; None when the spread is empty or has no table.
fn law(step: &Step, spread: &Spread) -> Option<Law> {
    let quantiles_us: Vec<(f64, f64)> =
        spread.quantiles_us.iter().flatten().filter_map(|(q, us)| Some((*q, (*us)?))).collect();
    let whole = spread.n > 0 && !quantiles_us.is_empty();
    let events_per_s = step.achieved_events_per_s;
    whole.then_some(Law { events_per_s, n: spread.n, mean_us: spread.mean?, quantiles_us })
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

    fn config() -> Config {
        Config {
            arm: "uring".to_owned(),
            stamps: "user".to_owned(),
            cores: vec![0],
            control_core: None,
            spin: false,
            tls: false,
            binary: "00".to_owned(),
        }
    }

    fn spread(us: f64) -> Value {
        json!({"n": 10, "mean": us, "p50": us, "p90": us, "p99": null, "p999": null, "max": us,
            "quantiles_us": [[0.0, us], [0.5, us], [0.99, null], [1.0, us]]})
    }

    /// A step as a calibration keeps it, of user stamps: its tare by the truth alone.
    fn step(family: Family, events_per_s: f64, us: f64) -> Value {
        let errors = json!({"n": 10, "p50": us, "p99": null, "max": us, "signed_mean": us});
        let mut closure = serde_json::to_value(calibration::closure::Closure::default()).expect("JSON");
        closure["overhead_us"] = spread(us);
        json!({
            "load": {"family": family, "value": 1.0, "model": "closed", "concurrency": 1, "rate": null, "ttft_ms": 1.0,
                "itl_ms": 1.0, "lockstep_ms": null, "tokens": 4, "events_per_s": events_per_s},
            "dir": "steps/0", "duration_s": 1.0, "requests": 10, "ok": 10, "offered_rps": null, "achieved_rps": null,
            "achieved_events_per_s": events_per_s, "gross_err_us": errors, "net_err_us": errors,
            "tare_us": Spread::default(), "closure": closure,
            "client": super::super::document::StepClient::default(), "mock": null, "valid": true, "reasons": [],
            "mock_limited": false,
        })
    }

    fn document() -> Value {
        let limit = json!({"value": 100, "at_least": false, "stopped_by": {"kind": "cap"}, "first_bad": null});
        json!({
            "schema": SCHEMA, "id": "2026-11-29T18-22-55", "made_at_ns": 5, "tarebench": "0", "depth": "quick",
            "placement": "loopback", "took_s": 1.0, "interrupted": false, "host": Host::default(),
            "config": config(),
            "clock": {"clock_source": null, "reads": {"n": 0, "mean_ns": null, "p50_ns": null, "p99_ns": null,
                "longest_ns": 0, "resolution_ns": null, "repeated": 0, "backwards": 0}, "agreement": []},
            "parser": {"work": {"repetitions": 1, "rounds": 1, "cuts": 1}, "streams": []},
            "ladder": [step(Family::Events, 1_000.0, 30.0), step(Family::Streams, 100.0, 20.0),
                step(Family::Burst, 500.0, 1_400.0), step(Family::Cold, 600.0, 900.0)],
            "model": null, "closure_us": null,
            "verdict": {"requests_per_s": null, "events_per_s": 100, "streams": null, "burst": null, "text": "good",
                "limits": {"requests_per_s": null, "events_per_s": limit, "streams": null, "burst": null}},
        })
    }

    fn put(store: &Path, name: &str, document: &str) -> PathBuf {
        let dir = store.join(name);
        fs::create_dir_all(&dir).expect("made");
        fs::write(dir.join(FILE), document).expect("written");
        dir
    }

    fn read_with(path: &str, value: Value) -> Result<Calibration, String> {
        let store = tempfile::tempdir().expect("temporary directory");
        let mut changed = document();
        *changed.pointer_mut(path).unwrap_or_else(|| panic!("{path}")) = value;
        read(&put(store.path(), "c", &changed.to_string()))
    }

    #[test]
    fn neither_bursts_nor_new_connections_are_in_the_table() {
        let found = read_with("/depth", "full".into()).expect("good");
        let table = tare_by_event_rate(&found);
        let rates: Vec<_> = table.iter().map(|law| (law["events_per_s"].as_f64(), law["mean_us"].as_f64())).collect();
        assert_eq!(rates, [(Some(100.0), Some(20.0)), (Some(1_000.0), Some(30.0))]);
        assert_eq!(table[0]["quantiles_us"], json!([[0.0, 20.0], [0.5, 20.0], [1.0, 20.0]]));
    }

    #[test]
    fn the_way_to_a_mock_elsewhere_is_no_tare() {
        let mut found = read_with("/placement", "http://10.0.0.2:8000".into()).expect("good");
        assert_eq!(tare_by_event_rate(&found), Vec::<Value>::new());
        // what kernel stamps say of the client has no network in it
        found.ladder[0].tare_us = serde_json::from_value(spread(25.0)).expect("a spread");
        assert_eq!(tare_by_event_rate(&found).len(), 1);
    }

    #[test]
    fn what_no_calibration_can_say_is_refused_with_the_reason() {
        let words = |path: &str, value: Value| read_with(path, value).expect_err(path);
        assert!(
            words("/schema", "tarebench.calibration/2".into()).contains("another version (tarebench.calibration/2")
        );
        assert!(words("/schema", Value::Null).contains("it is no calibration"));
        let quantiles = "/ladder/0/closure/overhead_us/quantiles_us";
        assert!(
            words(quantiles, json!([[0.0, 9.0], [1.0, 8.0]])).contains("step 0: its overhead is no law: its quantiles")
        );
        assert!(
            words("/ladder/2/closure/overhead_us/mean", json!(1e9)).contains("its mean lies outside its own values")
        );
        assert!(words("/ladder/1/achieved_events_per_s", json!(-5.0)).contains("its event rate is none"));
        assert!(
            words("/verdict/limits/events_per_s/value", json!(u64::MAX)).contains("its limit of events_per_s is none")
        );
        assert!(words("/took_s", json!("long")).contains("invalid type"));
    }

    #[test]
    fn no_text_of_it_steers_a_terminal() {
        let found = read_with("/id", "a\u{1b}[2Jb\n".into()).expect("good");
        assert_eq!(found.id, "a?[2Jb?");
        let told = read_with("/schema", "x\u{1b}]0;y\u{7}".into()).expect_err("another");
        assert!(!told.contains(char::is_control), "{told:?}");
    }

    #[test]
    fn one_that_cannot_be_read_is_told_beside_one_that_can() {
        let store = tempfile::tempdir().expect("temporary directory");
        put(store.path(), "good", &document().to_string());
        put(store.path(), "bad", "{");
        fs::create_dir_all(store.path().join("odd").join(FILE)).expect("made");
        fs::write(store.path().join("stray"), "no directory").expect("written");
        let found = find(store.path(), &Host::default(), || Ok::<_, String>(config())).expect("found");
        let Found::Match(_, unreadable) = &found else { panic!("{found:?}") };
        assert_eq!(unreadable.len(), 2, "{unreadable:?}");
        assert!(unreadable[0].contains("bad") && unreadable[1].contains("it is no file"), "{unreadable:?}");
        assert_eq!(for_plan(&found)["unreadable"], json!(unreadable));
        let other = Config { tls: true, ..config() };
        let found = find(store.path(), &Host::default(), || Ok::<_, String>(other)).expect("found");
        assert!(matches!(found, Found::Near(_, differs, unreadable) if differs.len() == 1 && unreadable.len() == 2));
    }

    #[test]
    fn a_store_that_is_a_file_is_said_to_be_none() {
        let place = tempfile::tempdir().expect("temporary directory");
        let store = place.path().join("store");
        fs::write(&store, "").expect("written");
        let found = find(&store, &Host::default(), || -> Result<Config, String> { panic!("not needed") });
        assert!(matches!(found, Ok(Found::Nothing(words)) if words.contains("no directory that can be read")));
    }
}
