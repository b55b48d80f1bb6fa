//! Small campaigns, from their start to the check of their files.

use crate::binary::{Place, Running, count, lines_of, run_against, tarebench, wait_until};
use crate::foreign_server::{Answer, ForeignServer};
use bench_engine::clock::{Clock, SystemClock};
use bench_engine::units::Nanos;
use calibration::truth::read_truth;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::BufReader;
use tarebench::rundir::row::{Outcome, Phase};

#[test]
fn a_small_campaign_against_the_built_in_mock() {
    let place = Place::new();
    let small = ["run", "--max-concurrency", "1,4", "--num-prompts", "20", "--drop", "2", "--windows", "2"];
    let done = tarebench(&[&small[..], &["--min-duration", "0", "--out", place.out()]].concat());
    place.assert_carried_out(&done);
    let raw = ["plan.json", "requests.jsonl", "windows.jsonl", "health.jsonl", "truth.jsonl"];
    for name in raw.into_iter().chain(["run.json", "report.md", "report.html"]) {
        assert!(place.dir.join(name).is_file(), "{name} is there");
    }
    place.assert_verifies();
    let rows = place.rows();
    assert_eq!(rows.len(), 2 * 2 * 22);
    assert_eq!(count(&rows, Outcome::Ok), rows.len());
    let nonces: BTreeSet<&str> = rows.iter().map(|r| r.nonce.as_str()).collect();
    assert_eq!(nonces.len(), rows.len(), "no prompt begins as another one does");
    let hashes =
        |phase| rows.iter().filter(move |r| r.phase == phase).map(|r| &r.prompt_sha256).collect::<BTreeSet<_>>();
    let (warm, measured) = (hashes(Phase::Warmup), hashes(Phase::Measured));
    assert_eq!((warm.len(), measured.len()), (8, 80));
    assert!(warm.is_disjoint(&measured));
    for (cell, window) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let of = rows.iter().filter(|r| (r.cell, r.window) == (cell, window));
        let ids: BTreeSet<u64> = of.map(|r| r.trace_id).collect();
        assert_eq!(ids, (0..22).collect(), "cell {cell}, window {window}");
    }
    // what the gates are made of is on disk, and every gate in the summary
    let health = std::fs::read_to_string(place.dir.join("health.jsonl")).expect("health.jsonl");
    let samples: Vec<Value> = health.lines().map(|l| serde_json::from_str(l).expect("a sample")).collect();
    let worker: Vec<&Value> = samples.iter().filter(|s| s["thread"] == "worker-0").collect();
    assert!(worker.iter().all(|s| s["busy_ns"].is_u64() && s["steal_ns"].is_u64() && s["softirq_ns"].is_u64()));
    let busy = |s: Option<&&Value>| s.and_then(|s| s["busy_ns"].as_u64());
    assert!(busy(worker.first()) < busy(worker.last()), "it grows with the work");
    for window in
        place.json("run.json")["cells"].as_array().expect("cells").iter().flat_map(|c| c["windows"].as_array())
    {
        let gates: BTreeSet<&str> = window
            .iter()
            .flat_map(|w| w["client"]["gates"].as_array())
            .flatten()
            .filter_map(|g| g["gate"].as_str())
            .collect();
        for gate in ["cpu", "busy", "burst_drain", "read_delay", "run_queue", "steal", "net_width", "losses"] {
            assert!(gates.contains(gate), "no {gate} in {gates:?}");
        }
    }
    // the mock saw each of them once, and nothing else
    let log = std::fs::File::open(place.dir.join("truth.jsonl")).expect("a truth log");
    let (truth, summary) = read_truth(BufReader::new(log)).expect("readable");
    assert!(summary.is_some(), "the mock ended in peace");
    let seen: BTreeSet<&str> = truth.iter().map(|t| t.nonce.as_str()).collect();
    assert_eq!((truth.len(), seen), (rows.len(), nonces));

    // one digit of one row
    let path = place.dir.join("requests.jsonl");
    let text = std::fs::read_to_string(&path).expect("text");
    for line in [1, 37, 88] {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let at = lines[line - 1].find("\"submit\":").expect("a submit") + "\"submit\":".len();
        let digit = lines[line - 1].as_bytes()[at];
        let other = if digit == b'9' { "8".to_owned() } else { char::from(digit + 1).to_string() };
        lines[line - 1].replace_range(at..=at, &other);
        std::fs::write(&path, lines.join("\n") + "\n").expect("written");
        let found = place.verify();
        assert_eq!(found.code, Some(1));
        let first = found.out.lines().next().unwrap_or("");
        assert!(first.contains(&format!("requests.jsonl:{line}:")), "{first}");
    }
    std::fs::write(&path, &text).expect("written");
    place.assert_verifies();
}

#[test]
fn a_window_goes_on_past_its_number_until_it_has_lasted() {
    let place = Place::new();
    let few = ["run", "--max-concurrency", "3", "--num-prompts", "4", "--drop", "1", "--windows", "1"];
    let done = tarebench(&[&few[..], &["--min-duration", "0.5", "--out", place.out()]].concat());
    place.assert_carried_out(&done);
    let ids: BTreeSet<u64> = place.rows().iter().map(|r| r.trace_id).collect();
    assert!(ids.len() > 5, "{} requests", ids.len());
    assert_eq!(ids, (0..ids.len() as u64).collect(), "one after another, none left out");
    let windows = std::fs::read_to_string(place.dir.join("windows.jsonl")).expect("windows");
    let window: Value = serde_json::from_str(windows.trim()).expect("one window");
    let at = |name: &str| window[name].as_u64().expect("a time");
    assert!(at("closed") - at("opened") >= 500_000_000, "the record says how long it was: {window}");
    place.assert_verifies();
}

#[test]
fn a_slow_servers_window_does_not_go_on_for_a_whole_queue_of_requests() {
    let server = ForeignServer::start(|r, _| r.is_post().then(|| Answer::stream(1, 100)));
    let place = Place::new();
    let done = run_against(&server.url(), &place, 2, &["--max-concurrency", "1", "--min-duration", "0.5"]);
    place.assert_carried_out(&done);
    let n = place.rows().len();
    assert!((3..20).contains(&n), "a tenth of a second each, half a second in all: {n}");
}

/// G1: two runs with the same seed share no prompt.
#[test]
fn two_runs_share_no_prompt() {
    let server = ForeignServer::start(|r, _| r.is_post().then(|| Answer::stream(1, 0)));
    let (one, other) = (Place::new(), Place::new());
    for place in [&one, &other] {
        place.assert_carried_out(&run_against(&server.url(), place, 20, &[]));
    }
    let hashes = |place: &Place| place.rows().into_iter().map(|r| r.prompt_sha256).collect::<BTreeSet<_>>();
    let (a, b) = (hashes(&one), hashes(&other));
    assert_eq!((a.len(), b.len()), (20, 20));
    assert!(a.is_disjoint(&b));
}

/// The client is stopped in the middle of a run: it shows in what was seen, not in what had arrived.
#[test]
fn a_stopped_client_shows_in_its_own_share() {
    let place = Place::new();
    let run = Running::start(&[
        "run",
        "--max-concurrency",
        "4",
        "--workload",
        "random",
        "--random-input-len",
        "40",
        "--random-output-len",
        "300",
        "--length-scale",
        "1",
        "--num-prompts",
        "16",
        "--drop",
        "0",
        "--windows",
        "1",
        "--min-duration",
        "0",
        "--out",
        place.out(),
    ]);
    wait_until("the first row", || lines_of(&place.dir.join("requests.jsonl")) >= 1);
    run.signal(Signal::SIGSTOP);
    let until = SystemClock.now() + Nanos::from_millis(300);
    wait_until("the end of the stop", || SystemClock.now() >= until);
    run.signal(Signal::SIGCONT);
    let done = run.end();
    assert!(matches!(done.code, Some(0 | 3)), "{:?}: {}{}", done.code, done.out, done.err);
    let rows = place.rows();
    assert_eq!((rows.len(), count(&rows, Outcome::Ok)), (16, 16), "the run is complete");
    place.assert_verifies();

    let plan = place.json("plan.json");
    if plan["environment"]["stamps"] != "kernel" {
        return;
    }
    let origin = plan["environment"]["origin_monotonic_ns"].as_u64().expect("an origin");
    let log = std::fs::File::open(place.dir.join("truth.jsonl")).expect("a truth log");
    let (truth, _) = read_truth(BufReader::new(log)).expect("readable");
    let truth: BTreeMap<&str, _> = truth.iter().map(|t| (t.nonce.as_str(), t)).collect();
    let (mut stopped, mut compared) = (0, 0);
    for row in &rows {
        let sent = truth[row.nonce.as_str()];
        assert_eq!(row.chunks.len(), sent.chunks.len(), "every event that was written was read");
        let mut last: Option<(i64, i64)> = None;
        for (seen, told) in row.chunks.iter().zip(&sent.chunks) {
            let Some(arrived) = seen.1 else { continue };
            stopped += u32::from(seen.0 - arrived > 100_000_000);
            // a read carries the stamp of its last segment, so that the other events in it look later than they were
            let left = told.left.unwrap_or(told.written) as i64 - origin as i64;
            let net_gap = last.map(|(a, l)| (arrived as i64 - a) - (left - l));
            last = Some((arrived as i64, left));
            if let Some(off) = net_gap {
                compared += 1;
                assert!(off.abs() < 100_000_000, "net gap off by {off} ns of a stop of 300 ms");
            }
        }
    }
    assert!(compared > 1_000, "{compared} gaps compared");
    assert!(stopped > 0, "events that arrived during the stop were seen after it");
}
