//! `--canary`: a stream of known truth beside a campaign, in files of its own.

use crate::binary::{MockProcess, Place, Running, count, run_against, tarebench, wait_until};
use crate::foreign_server::{Answer, ForeignServer};
use calibration::truth::{TruthRow, read_truth};
use nix::sys::signal::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::BufReader;
use tarebench::rundir::chain::Chain;
use tarebench::rundir::row::{Outcome, Row};

/// The canary's rows; their chain holds.
fn canary_rows(place: &Place) -> Vec<Row> {
    let text = std::fs::read_to_string(place.dir.join("canary.jsonl")).expect("canary.jsonl");
    let mut chain = Chain::default();
    let open = |line: &str| serde_json::from_str(&chain.open(line).expect("the chain holds")).expect("a row");
    text.lines().map(open).collect()
}

/// What its mock did, by nonce.
fn truth(place: &Place) -> BTreeMap<String, TruthRow> {
    let file = File::open(place.dir.join("canary-truth.jsonl")).expect("canary-truth.jsonl");
    let (rows, _) = read_truth(BufReader::new(file)).expect("a truth log");
    rows.into_iter().map(|row| (row.nonce.clone(), row)).collect()
}

/// Every row of the canary has its counterpart, and none of them is among those of the load.
fn check(place: &Place) {
    let (rows, canary, truth) = (place.rows(), canary_rows(place), truth(place));
    assert!(!canary.is_empty());
    let origin = place.json("plan.json")["environment"]["origin_monotonic_ns"].as_u64().expect("an origin");
    let slots = rows.iter().filter_map(|r| r.conn).max().expect("rows");
    for row in &canary {
        assert_eq!((row.class.as_str(), row.nonce.starts_with("canary-")), ("canary", true));
        assert!(row.conn > Some(slots), "a slot of its own");
        assert!([Outcome::Ok, Outcome::Censored].contains(&row.outcome), "{:?}", row.error);
        if row.outcome == Outcome::Ok {
            let truth = &truth[&row.nonce];
            assert_eq!((row.token_events, truth.tokens), (50, 50));
            let first = row.first_token.expect("a token").seen + origin;
            assert!(row.submit.expect("submitted") + origin <= truth.rx_user && truth.chunks[0].before_write <= first);
        }
    }
    assert!(rows.iter().all(|r| r.class != "canary" && !truth.contains_key(&r.nonce)));
    let ids: BTreeSet<u64> = canary.iter().map(|r| r.trace_id).collect();
    assert_eq!(ids.len(), canary.len());
}

#[test]
fn a_canary_beside_a_campaign_is_in_no_count() {
    let mock = MockProcess::start(&["--ttft", "100", "--itl", "20"], &[]);
    let place = Place::new();
    let flags = ["run", "--base-url", &mock.url, "--max-concurrency", "2", "--num-prompts", "20", "--drop", "0"];
    let more = ["--windows", "2", "--length-scale", "0.05", "--canary", "--out", place.out()];
    let done = tarebench(&[&flags[..], &more].concat());
    assert!([Some(0), Some(3)].contains(&done.code), "{}{}", done.out, done.err);
    assert!(done.err.contains("canary.jsonl"), "{}", done.err);
    check(&place);
    let (rows, run) = (place.rows(), place.json("run.json"));
    assert_eq!((rows.len(), count(&rows, Outcome::Ok)), (40, 40));
    for window in [0, 1] {
        let found = &run["cells"][0]["windows"][window];
        assert_eq!(found["requests"]["due"], 20);
        assert_eq!(found["in_flight"]["max"], 2, "the load alone");
        assert!(canary_rows(&place).iter().any(|r| r.window == window as u32));
    }
    let plan = place.json("plan.json");
    assert_eq!((&plan["canary"], &plan["environment"]["canary"]["itl_ms"]), (&true.into(), &10.into()));
    place.assert_verifies();
}

#[test]
fn a_canary_beside_an_open_loop_leaves_its_schedule_alone() {
    let place = Place::new();
    let mock = MockProcess::start(&[], &[]);
    let more = ["--canary", "--request-rate", "50", "--max-concurrency", "8"];
    let done = run_against(&mock.url, &place, 40, &more);
    assert!([Some(0), Some(3)].contains(&done.code), "{}{}", done.out, done.err);
    check(&place);
    assert_eq!(count(&place.rows(), Outcome::Ok), 40);
    place.assert_verifies();
}

#[test]
fn both_files_of_a_canary_are_whole_after_an_interrupt() {
    let mock = MockProcess::start(&["--ttft", "20", "--itl", "5"], &[]);
    let place = Place::new();
    let flags = ["run", "--base-url", &mock.url, "--max-concurrency", "2", "--num-prompts", "5000", "--canary"];
    let run = Running::start(&[&flags[..], &["--length-scale", "0.05", "--out", place.out()]].concat());
    let lines = || std::fs::read_to_string(place.dir.join("canary.jsonl")).map_or(0, |t| t.lines().count());
    wait_until("rows of the canary", || lines() >= 2);
    run.signal(Signal::SIGINT);
    let done = run.end();
    assert_eq!(done.code, Some(130), "{}{}", done.out, done.err);
    check(&place);
    assert!(count(&canary_rows(&place), Outcome::Ok) >= 2);
    place.assert_verifies();
}

#[test]
fn without_the_flag_there_is_no_canary() {
    let (mock, place) = (MockProcess::start(&[], &[]), Place::new());
    let done = run_against(&mock.url, &place, 4, &[]);
    place.assert_carried_out(&done);
    assert!(!place.dir.join("canary.jsonl").exists() && !place.dir.join("canary-truth.jsonl").exists());
}

/// The target's headers go to the target only, and the canary's requests to its mock only.
#[test]
fn the_targets_headers_stay_with_the_target() {
    let server = ForeignServer::start(|r, _| r.is_post().then(|| Answer::stream(20, 20)));
    let place = Place::new();
    let more = ["--canary", "--header", "X-Tenant=very-secret-tenant", "--model", "m", "--length-probe", "off"];
    let done = run_against(&server.url(), &place, 6, &more);
    assert!([Some(0), Some(3)].contains(&done.code), "{}{}", done.out, done.err);
    let received = server.received();
    let posts: Vec<_> = received.iter().filter(|r| r.is_post()).collect();
    assert_eq!(posts.len(), 6, "the canary's requests go elsewhere");
    assert!(posts.iter().all(|r| r.field("x-tenant") == Some("very-secret-tenant")));
    check(&place);
    assert!(truth(&place).values().all(|row| row.model == "canary"));
    for name in ["canary.jsonl", "canary-truth.jsonl"] {
        let text = std::fs::read_to_string(place.dir.join(name)).expect("written");
        assert!(!text.contains("very-secret-tenant"), "{name}");
    }
}

#[test]
fn a_canary_whose_mock_is_gone_is_said_and_not_fed_for_ever() {
    let mock = MockProcess::start(&["--ttft", "20", "--itl", "10"], &[]);
    let place = Place::new();
    let flags = ["run", "--base-url", &mock.url, "--max-concurrency", "2", "--num-prompts", "60", "--canary"];
    let more = ["--drop", "0", "--windows", "1", "--length-scale", "0.05", "--out", place.out()];
    let run = Running::start(&[&flags[..], &more].concat());
    let lines = || std::fs::read_to_string(place.dir.join("canary.jsonl")).map_or(0, |t| t.lines().count());
    wait_until("a row of the canary", || lines() >= 1);
    for pid in run.children("canary-truth.jsonl") {
        nix::sys::signal::kill(pid, Signal::SIGKILL).expect("it is ours");
    }
    let done = run.end();
    place.assert_carried_out(&done);
    assert!(done.err.contains("requests of the canary failed"), "{}", done.err);
    let failed = count(&canary_rows(&place), Outcome::Failed);
    assert!((5..30).contains(&failed), "{failed}");
    assert_eq!(count(&place.rows(), Outcome::Ok), 60, "the load knows nothing of it");
}

#[test]
fn a_canary_whose_mock_is_stopped_does_not_hold_the_results_up() {
    let mock = MockProcess::start(&["--ttft", "20", "--itl", "10"], &[]);
    let place = Place::new();
    let flags = ["run", "--base-url", &mock.url, "--max-concurrency", "2", "--num-prompts", "40", "--canary"];
    let more = ["--drop", "0", "--windows", "1", "--length-scale", "0.05", "--out", place.out()];
    let run = Running::start(&[&flags[..], &more].concat());
    let lines = || std::fs::read_to_string(place.dir.join("canary.jsonl")).map_or(0, |t| t.lines().count());
    wait_until("a row of the canary", || lines() >= 1);
    for pid in run.children("canary-truth.jsonl") {
        nix::sys::signal::kill(pid, Signal::SIGSTOP).expect("it is ours");
    }
    let done = run.end();
    place.assert_carried_out(&done);
    assert_eq!(count(&place.rows(), Outcome::Ok), 40);
}
