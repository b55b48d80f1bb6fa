//! `calibrate`: steps against a mock elsewhere, what is kept, what a run finds of it.

use crate::binary::{MockProcess, Place, Running, run_against, tarebench, wait_until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tarebench::calibrate::ladder;
use tarebench::calibrate::step::{Runner, WrongTruth};
use tarebench::calibrations::document::Family;
use tempfile::TempDir;

/// The way to another host, over loopback: the mock runs on its own, its log comes over HTTP. Every kind of load gives
/// rows that all have their counterpart in that log.
#[test]
fn steps_of_every_kind_close_against_a_mock_elsewhere() {
    let mock = MockProcess::start(&["--truth-listen", "127.0.0.1:0"], &[]);
    let place = tempfile::tempdir().expect("a directory");
    let runner = Runner {
        dir: place.path().to_owned(),
        arm: None,
        stamps: None,
        workers: None,
        cores: None,
        spin: false,
        remote: Some((mock.url.clone(), mock.truth_url.clone().expect("served"))),
        ca_file: None,
        truth_read: Cell::new(0),
        seconds: 0.2,
        stop: Arc::new(AtomicBool::new(false)),
    };
    let loads =
        [(Family::Streams, 4), (Family::Requests, 50), (Family::Events, 500), (Family::Burst, 8), (Family::Cold, 4)];
    for (number, (family, value)) in loads.into_iter().enumerate() {
        let (step, evidence) = runner.run(number, ladder::load(family, value, runner.seconds)).expect("carried out");
        let closure = &step.closure;
        assert!(closure.requests > 0 && closure.matched == closure.requests, "{family:?}: {closure:?}");
        assert_eq!((closure.truth_without_observed, step.ok), (0, step.requests), "{family:?}: {closure:?}");
        assert_eq!(closure.ttft.gross_err_us.n, closure.matched);
        assert!(evidence.token_events >= closure.matched, "{family:?}");
        if family == Family::Cold {
            assert_eq!(closure.cold.gross_err_us.n, closure.matched, "each has a connection of its own");
        }
        let dir = place.path().join(&step.dir);
        let verified = tarebench(&["verify", dir.to_str().expect("text")]);
        assert_eq!(verified.code, Some(0), "{}{}", verified.out, verified.err);
    }
}

/// A log that holds nothing of what is measured is the end of the calibration, and what it held before is passed over.
#[test]
fn the_log_of_another_mock_is_not_taken_for_the_truth() {
    let measured = MockProcess::start(&["--truth-listen", "127.0.0.1:0"], &[]);
    let other = MockProcess::start(&["--truth-listen", "127.0.0.1:0"], &[]);
    let before = Place::new();
    before.assert_carried_out(&run_against(&other.url, &before, 20, &[]));
    let place = tempfile::tempdir().expect("a directory");
    let runner = |truth: &MockProcess| Runner {
        dir: place.path().to_owned(),
        arm: None,
        stamps: None,
        workers: None,
        cores: None,
        spin: false,
        remote: Some((measured.url.clone(), truth.truth_url.clone().expect("served"))),
        ca_file: None,
        truth_read: Cell::new(0),
        seconds: 0.2,
        stop: Arc::new(AtomicBool::new(false)),
    };
    let wrong = runner(&other);
    wait_until("a log", || {
        wrong.prepare().expect("there is a log");
        wrong.truth_read.get() > 0
    });
    let error = wrong.run(0, ladder::load(Family::Streams, 8, 0.2)).expect_err("nothing matches");
    let said = error.to_string();
    assert!(error.is::<WrongTruth>() && said.contains("the truth URL is not that of this mock"), "{said}");
    // the right one is accepted, whatever it held before
    let right = runner(&measured);
    right.prepare().expect("there is a log");
    let (step, _) = right.run(1, ladder::load(Family::Streams, 8, 0.2)).expect("carried out");
    assert_eq!((step.closure.matched, step.closure.truth_without_observed), (step.closure.requests, 0));
    assert!(step.closure.requests >= 120, "{:?}", step.closure);

    // the whole command says so, and leaves no calibration
    let store = tempfile::tempdir().expect("a directory");
    let flags = ["--calibrations", store.path().to_str().expect("text"), "--base-url", &measured.url];
    let url = other.truth_url.as_deref().expect("served");
    let done = tarebench(&[&["calibrate", "--quick", "--truth-url", url], &flags[..]].concat());
    assert!(done.code == Some(1) && done.err.contains("the truth URL is not that of this mock"), "{}", done.err);
    let none = tempfile::tempdir().expect("a directory");
    let none_text = none.path().join("store");
    let flags = ["--calibrations", none_text.to_str().expect("text"), "--base-url", &measured.url];
    let done = tarebench(&[&["calibrate", "--quick", "--truth-url", "nonsense"], &flags[..]].concat());
    assert!(done.code == Some(1) && done.err.contains("is no truth URL"), "{}", done.err);
    assert!(!none_text.exists(), "what can be known before is checked before a directory is made");
}

/// A calibration that was interrupted once a step was done, as it was left.
fn interrupted(store: &Path) -> PathBuf {
    let store_text = store.to_str().expect("text");
    let running = Running::start(&["calibrate", "--quick", "--calibrations", store_text]);
    let found = || {
        let dirs = std::fs::read_dir(store).into_iter().flatten().flatten();
        dirs.map(|e| e.path()).find(|dir| dir.join("steps/00-streams-1/run.json").exists())
    };
    wait_until("a step", || found().is_some());
    running.signal(Signal::SIGINT);
    let done = running.end();
    assert_eq!(done.code, Some(130), "{}{}", done.out, done.err);
    found().expect("kept")
}

fn read(dir: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(dir.join("calibration.json")).expect("kept")).expect("JSON")
}

fn run_with(store: &TempDir, place: &Place) -> Value {
    let store = store.path().to_str().expect("text");
    let flags = ["run", "--max-concurrency", "2", "--num-prompts", "20", "--drop", "0", "--windows", "1"];
    let done =
        tarebench(&[&flags[..], &["--min-duration", "0", "--calibrations", store, "--out", place.out()]].concat());
    place.assert_carried_out(&done);
    place.assert_verifies();
    place.json("run.json")["calibration"].clone()
}

#[test]
fn a_calibration_is_kept_found_by_what_it_holds_for_and_checked_against() {
    let store = tempfile::tempdir().expect("a directory");
    let store_text = store.path().to_str().expect("text");
    let dir = interrupted(store.path());
    let mut calibration = read(&dir);
    assert_eq!(calibration["interrupted"], true);
    assert!(!calibration["ladder"].as_array().expect("steps").is_empty());
    assert!(std::fs::read_to_string(dir.join("calibration.svg")).expect("a picture").contains("<svg"));
    // an interrupted one holds for nothing
    let shown = tarebench(&["calibrate", "--show", "--calibrations", store_text]);
    assert!(shown.code == Some(1) && shown.err.contains("none was ever completed"), "{}", shown.err);
    assert_eq!(run_with(&store, &Place::new())["none"], "none was ever completed here");

    let put = |calibration: &Value| std::fs::write(dir.join("calibration.json"), calibration.to_string()).expect("put");
    let limit =
        |value: u64| json!({"value": value, "at_least": false, "stopped_by": {"kind": "cap"}, "first_bad": null});
    calibration["interrupted"] = false.into();
    calibration["ladder"][0]["valid"] = true.into();
    calibration["verdict"]["limits"]["streams"] = limit(1000);
    put(&calibration);
    let inside = Place::new();
    let found = run_with(&store, &inside);
    assert_eq!((&found["matches"], &found["id"]), (&true.into(), &calibration["id"]));
    let checked = tarebench(&["calibrate", "--check", inside.out()]);
    assert!(checked.code == Some(0) && checked.out.contains("stayed inside"), "{}{}", checked.out, checked.err);
    let shown = tarebench(&["calibrate", "--show", "--calibrations", store_text]);
    assert!(shown.code == Some(0) && shown.out.contains("1 stream "), "{}{}", shown.out, shown.err);

    // nothing to be tried at the limit is no verdict that holds
    calibration["verdict"]["limits"]["streams"] = limit(0);
    put(&calibration);
    let at_limit = |more: &[&str]| {
        let done = tarebench(&[&["calibrate", "--at-limit", "1", "--calibrations", store_text][..], more].concat());
        assert_eq!(done.code, Some(1), "{}{}", done.out, done.err);
        done.out
    };
    assert!(at_limit(&[]).contains("nothing was shown"));
    let json: Value = serde_json::from_str(&at_limit(&["--json"])).expect("one object and nothing else");
    assert_eq!((&json["answer"], json["steps"].as_array().map(Vec::len)), (&"not_shown".into(), Some(4)));

    calibration["verdict"]["limits"]["streams"] = limit(1);
    put(&calibration);
    let outside = Place::new();
    run_with(&store, &outside);
    let checked = tarebench(&["calibrate", "--check", outside.out()]);
    assert!(checked.code == Some(3) && checked.out.contains("OUTSIDE"), "{}{}", checked.out, checked.err);

    calibration["host"]["kernel"] = "5.4.0".into();
    put(&calibration);
    let elsewhere = run_with(&store, &Place::new());
    assert_eq!(elsewhere["matches"], false);
    let told = elsewhere["differences"].to_string();
    assert!(told.contains("kernel: calibrated 5.4.0, here "), "{told}");
    // what is not a calibration is said and survived
    put(&json!({"schema": "tarebench.calibration/1"}));
    assert!(run_with(&store, &Place::new())["none"].as_str().expect("words").contains("none can be read"));
}
