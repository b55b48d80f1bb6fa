//! `calibrate --check`: a run and the envelope that it was calibrated for; and what `verify` says of lost comparisons.

use crate::binary::{Place, tarebench};
use serde_json::{Value, json};

/// A short run against the built-in mock, with flags of its own.
fn short_run(place: &Place, more: &[&str]) {
    let flags = ["run", "--max-concurrency", "1", "--num-prompts", "4", "--drop", "0", "--windows", "1"];
    let rest = ["--min-duration", "0", "--length-scale", "0.05", "--out", place.out()];
    place.assert_carried_out(&tarebench(&[&flags[..], &rest, more].concat()));
}

/// Puts a calibration into one of the files.
fn calibrate_as(place: &Place, file: &str, calibration: &Value) {
    let mut document = place.json(file);
    document["calibration"] = calibration.clone();
    std::fs::write(place.dir.join(file), document.to_string()).expect("written");
}

#[test]
fn a_check_for_programs_is_one_object_and_warnings_go_elsewhere() {
    let place = Place::new();
    short_run(&place, &[]);
    let calibration = json!({
        "id": "c\u{1b}[2J", "placement": "loopback", "matches": false, "differences": ["kernel: calibrated a, here b"],
        "limits": {"streams": {"value": 10, "at_least": false}}, "tare": [],
    });
    calibrate_as(&place, "run.json", &calibration);
    let differs = tarebench(&["calibrate", "--check", place.out(), "--json"]);
    assert_eq!((differs.code, differs.out.as_str()), (Some(1), ""), "plan.json has another");
    assert!(differs.err.contains("names another calibration"), "{}", differs.err);
    calibrate_as(&place, "plan.json", &calibration);
    let checked = tarebench(&["calibrate", "--check", place.out(), "--json"]);
    assert_eq!(checked.code, Some(3), "{}{}", checked.out, checked.err);
    let object: Value = serde_json::from_str(&checked.out).expect("one object");
    assert_eq!((&object["inside"], &object["uses"][0]["used"]), (&false.into(), &1.0.into()));
    assert!(checked.err.contains("WARNING: the run was not as calibrated: kernel"), "{}", checked.err);
    assert!(!checked.out.contains('\u{1b}') && !checked.err.contains('\u{1b}'));
}

#[test]
fn answers_that_are_not_streamed_are_not_compared_with_the_log() {
    let place = Place::new();
    short_run(&place, &["--no-stream"]);
    assert!(place.dir.join("truth.jsonl").exists() && !place.dir.join("closure.json").exists());
    place.assert_verifies();
}

#[test]
fn a_comparison_that_was_taken_away_is_missed() {
    let place = Place::new();
    short_run(&place, &[]);
    place.assert_verifies();
    let report = std::fs::read_to_string(place.dir.join("report.md")).expect("a report");
    let without: String =
        report.lines().filter(|l| !l.contains("| closure.json |")).map(|l| l.to_owned() + "\n").collect();
    std::fs::write(place.dir.join("report.md"), without).expect("written");
    std::fs::remove_file(place.dir.join("closure.json")).expect("removed");
    let verified = tarebench(&["verify", place.out()]);
    assert!(verified.code == Some(1) && verified.out.contains("closure.json is missing"), "{}", verified.out);
}
