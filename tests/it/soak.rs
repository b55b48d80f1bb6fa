//! Windows that time ends, files of rows that go on in the next, and a run that is killed in the middle.

use crate::binary::{Place, Running, tarebench, wait_until};
use nix::sys::signal::Signal;
use std::fs;

fn lines_of(place: &Place, name: &str) -> usize {
    fs::read_to_string(place.dir.join(name)).map_or(0, |text| text.lines().count())
}

#[test]
fn a_window_of_a_given_time_goes_on_in_further_files_and_each_is_needed() {
    let place = Place::new();
    let flags = ["run", "--max-concurrency", "16", "--duration", "2s", "--max-tokens", "4", "--raw-file-size", "1MiB"];
    let done = tarebench(&[&flags[..], &["--out", place.out()]].concat());
    place.assert_carried_out(&done);
    assert!(done.err.contains("1 window each of 2 s, then what is under way ends"), "{}", done.err);
    let (plan, run) = (place.json("plan.json"), place.json("run.json"));
    assert_eq!((&plan["duration_s"], &plan["windows"], &run["complete"]), (&2.0.into(), &1.into(), &true.into()));
    let requests = &run["cells"][0]["windows"][0]["requests"];
    assert!(requests["kept"].as_u64() > Some(310), "time decides the number: {requests}");
    assert_eq!((&requests["censored"], &requests["not_sent"]), (&0.into(), &0.into()), "what was under way ended");
    place.assert_verifies();
    let last = place.json("windows.jsonl")["part"].as_u64().expect("several parts");
    let names: Vec<String> = (2..=last).map(|n| format!("requests.{n}.jsonl")).collect();
    assert!(!names.is_empty() && names.iter().all(|name| lines_of(&place, name) > 0), "{names:?}");
    assert!(fs::metadata(place.dir.join("requests.jsonl")).expect("there").len() <= 1 << 20);
    let report = fs::read_to_string(place.dir.join("report.md")).expect("written");
    assert!(report.contains(&format!("up to {} beside this file", names[names.len() - 1])), "box 3 counts them");
    let ledger = fs::read_to_string(place.dir.join("ledger.jsonl")).expect("written");
    assert!(ledger.lines().nth(1).is_some_and(|end| end.contains(&format!("\"{}\":", names[0]))), "{ledger}");
    // of the last one nothing else tells but the window's line
    let last_name = place.dir.join(&names[names.len() - 1]);
    let kept = fs::read(&last_name).expect("read");
    fs::remove_file(&last_name).expect("removed");
    let missing = place.verify();
    let named = format!("{}: cannot be read: it is missing", names[names.len() - 1]);
    assert!(missing.code == Some(1) && missing.out.starts_with(&named), "{}", missing.out);
    fs::write(&last_name, kept).expect("written");
    let first = place.dir.join("requests.jsonl");
    let (a, b) = (fs::read(&first).expect("read"), fs::read(place.dir.join(&names[0])).expect("read"));
    fs::write(&first, &b).expect("written");
    fs::write(place.dir.join(&names[0]), &a).expect("written");
    let swapped = place.verify();
    assert!(swapped.code == Some(1) && swapped.out.starts_with("requests.jsonl:1: h: stored"), "{}", swapped.out);
    fs::write(&first, &a).expect("written");
    fs::write(place.dir.join(&names[0]), &b).expect("written");
    place.assert_verifies();
}

#[test]
fn a_schedule_goes_on_for_its_time_and_a_second_run_removes_old_parts() {
    let place = Place::new();
    fs::create_dir_all(&place.dir).expect("made");
    fs::write(place.dir.join("requests.7.jsonl"), "of another run").expect("written");
    let flags = ["run", "--request-rate", "200", "--duration", "1s", "--max-tokens", "2", "--force"];
    let done = tarebench(&[&flags[..], &["--out", place.out()]].concat());
    place.assert_carried_out(&done);
    assert!(!place.dir.join("requests.7.jsonl").exists());
    let (plan, run) = (place.json("plan.json"), place.json("run.json"));
    let due = run["cells"][0]["windows"][0]["requests"]["due"].as_u64();
    assert_eq!(due, plan["cells"][0]["requests"].as_u64(), "the whole schedule");
    assert!((140..260).contains(&due.expect("a number")), "200 in 1 s: {due:?}");
    place.assert_verifies();
}

#[test]
fn a_killed_soak_is_told_by_its_rows() {
    let place = Place::new();
    let flags = ["run", "--max-concurrency", "2", "--duration", "50s", "--max-tokens", "2", "--out", place.out()];
    let run = Running::start(&flags);
    // the first ten are warm-up
    wait_until("some rows", || lines_of(&place, "requests.jsonl") >= 50);
    run.signal(Signal::SIGKILL);
    assert_eq!(run.end().code, None);
    assert_eq!(lines_of(&place, "windows.jsonl"), 0);
    let verified = place.verify();
    assert_eq!(verified.code, Some(0), "{}", verified.out);
    assert!(
        verified.out.contains("1 windows") && verified.out.contains("ended before the window closed"),
        "{}",
        verified.out
    );
    let told = tarebench(&["report", "--json", place.out()]);
    let run: serde_json::Value = serde_json::from_str(&told.out).expect("run.json");
    let window = &run["cells"][0]["windows"][0];
    assert_eq!((&run["complete"], &window["interrupted"]), (&false.into(), &true.into()));
    assert!(window["requests"]["ok"].as_u64() >= Some(39) && window["metrics"]["ttft"]["net"]["n"].as_u64() > Some(30));
    let shown = tarebench(&["report", place.out()]);
    assert!(shown.out.contains("INTERRUPTED"), "{}{}", shown.out, shown.err);
}

#[test]
fn a_dry_run_says_how_long_and_how_much() {
    let flags = ["run", "--request-rate", "10", "--duration", "20m", "--dry-run"];
    let done = tarebench(&flags);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(done.err.contains("1 window each of 20 min"), "{}", done.err);
    assert!(done.err.contains("of rows on disk"), "{}", done.err);
    let refused = tarebench(&["run", "--duration", "4h", "--request-rate", "5000", "--dry-run"]);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(refused.err.contains("72000000 requests a window"), "{}", refused.err);
}
