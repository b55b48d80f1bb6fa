//! Open-loop campaigns: what was planned is what was due, and every request that was due has a row.

use crate::command_line::{MockProcess, Place, Running, count, run_against, tarebench, wait_until};
use bench_engine::schedule::ArrivalLaw;
use bench_engine::units::Nanos;
use nix::sys::signal::Signal;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tarebench::rundir::row::{Outcome, Row};
use tarebench::workload::hex;

/// Dues from the opening, by trace id, of the rows of one window.
fn dues(place: &Place, rows: &[Row], cell: u32, window: u32) -> Vec<u64> {
    let opened = line(place, cell, window)["opened"].as_u64().expect("a time");
    let mut found: Vec<(u64, u64)> =
        rows.iter().filter(|r| (r.cell, r.window) == (cell, window)).map(|r| (r.trace_id, r.due - opened)).collect();
    found.sort_unstable();
    assert!((0..).zip(&found).all(|(i, (id, _))| i == *id), "each trace id once");
    found.into_iter().map(|(_, due)| due).collect()
}

/// The line of a window in `windows.jsonl`.
fn line(place: &Place, cell: u32, window: u32) -> Value {
    let text = std::fs::read_to_string(place.dir.join("windows.jsonl")).expect("windows.jsonl");
    let lines = text.lines().map(|l| serde_json::from_str::<Value>(l).expect("JSON"));
    lines.into_iter().find(|l| l["cell"] == cell && l["window"] == window).expect("a line for the window")
}

fn planned(per_s: f64, n: usize) -> Vec<u64> {
    ArrivalLaw::new(per_s, 1.0).expect("a law").schedule(7).take(n).map(Nanos::ns).collect()
}

#[test]
fn what_was_planned_is_what_was_due() {
    let place = Place::new();
    let flags = ["run", "--request-rate", "200,400", "--num-prompts", "100", "--drop", "5", "--windows", "2"];
    let done = tarebench(&[&flags[..], &["--min-duration", "0", "--out", place.out()]].concat());
    assert!([Some(0), Some(3)].contains(&done.code), "{}{}", done.out, done.err);
    assert!(done.err.contains("Poisson"), "{}", done.err);
    let rows = place.rows();
    assert_eq!((rows.len(), count(&rows, Outcome::Ok)), (420, 420));
    let (plan, run) = (place.json("plan.json"), place.json("run.json"));
    for (cell, per_s) in [(0, 200.0), (1, 400.0)] {
        let planned = planned(per_s, 105);
        let text: String = planned.iter().map(|due| format!("{due}\n")).collect();
        let hash = hex(&Sha256::digest(text));
        assert_eq!(plan["cells"][cell]["schedule_hash"], hash.as_str());
        for window in [0, 1] {
            assert_eq!(dues(&place, &rows, cell as u32, window), planned);
            assert_eq!(line(&place, cell as u32, window)["schedule_hash"], hash.as_str());
            let found = &run["cells"][cell]["windows"][window as usize];
            let counts = &found["requests"];
            assert_eq!((&counts["due"], &counts["dropped"], &counts["kept"]), (&105.into(), &5.into(), &100.into()));
            let realised = 104.0 / (planned[104] as f64 / 1e9);
            let offered = found["offered_rps"].as_f64().expect("a rate");
            assert!((offered / realised - 1.0).abs() < 1e-9, "{offered}, {realised}");
            assert!(found["metrics"]["lateness"]["n"] == 100 && found["metrics"]["ttft"]["due"]["n"] == 100);
        }
        assert_eq!(run["cells"][cell]["load"]["model"], "open");
    }
    for row in &rows {
        assert!(row.taken >= Some(row.due) && row.submit >= row.taken, "nothing goes before its due: {row:?}");
    }
    place.assert_verifies();
}

#[test]
fn two_workers_share_one_schedule() {
    let place = Place::new();
    let flags = ["run", "--request-rate", "300", "--num-prompts", "80", "--drop", "0", "--windows", "1"];
    let done = tarebench(&[&flags[..], &["--min-duration", "0", "--workers", "2", "--out", place.out()]].concat());
    assert!([Some(0), Some(3)].contains(&done.code), "{}{}", done.out, done.err);
    let rows = place.rows();
    assert_eq!(dues(&place, &rows, 0, 0), planned(300.0, 80));
    assert!([0, 1].iter().all(|w| rows.iter().any(|r| r.worker == *w)), "both of them worked");
    place.assert_verifies();
}

#[test]
fn a_cap_holds_requests_back_and_says_so() {
    let place = Place::new();
    let flags = ["run", "--request-rate", "1000,inf", "--max-concurrency", "2", "--num-prompts", "40", "--drop", "0"];
    let done = tarebench(
        &[&flags[..], &["--windows", "1", "--workers", "1", "--min-duration", "0", "--out", place.out()]].concat(),
    );
    assert!([Some(0), Some(3)].contains(&done.code), "{}{}", done.out, done.err);
    let rows = place.rows();
    assert_eq!(count(&rows, Outcome::Ok), 80);
    assert_eq!(dues(&place, &rows, 0, 0), planned(1000.0, 40));
    assert_eq!(dues(&place, &rows, 1, 0), [0; 40], "all at once");
    let run = place.json("run.json");
    for cell in [0, 1] {
        let window = &run["cells"][cell]["windows"][0];
        assert_eq!(window["in_flight"]["max"], 2);
        let waited = window["metrics"]["dispatch_delay"]["max_ms"].as_f64().expect("a delay");
        assert!(waited > 0.0, "cell {cell}: 40 requests on two slots cannot all start at once");
        // in the order of the schedule
        let mut order: Vec<(Option<u64>, u64)> =
            rows.iter().filter(|r| r.cell == cell as u32).map(|r| (r.taken, r.trace_id)).collect();
        order.sort_unstable();
        assert!(order.windows(2).all(|w| w[0].1 < w[1].1), "{order:?}");
    }
    assert_eq!(run["cells"][1]["load"]["rate"], Value::Null);
    place.assert_verifies();
}

#[test]
fn a_minimum_duration_goes_on_by_the_same_law() {
    let place = Place::new();
    let flags = ["run", "--request-rate", "100", "--burstiness", "inf", "--num-prompts", "5", "--drop", "2"];
    let done = tarebench(&[&flags[..], &["--windows", "1", "--min-duration", "0.3", "--out", place.out()]].concat());
    assert!([Some(0), Some(3)].contains(&done.code), "{}{}", done.out, done.err);
    let expected: Vec<u64> = (0..30).map(|i| i * 10_000_000).collect();
    assert_eq!(dues(&place, &place.rows(), 0, 0), expected);
    place.assert_verifies();
}

#[test]
fn an_interrupt_leaves_a_row_for_every_request_that_was_due() {
    let mock = MockProcess::start(&["--ttft", "30", "--itl", "1"], &[]);
    let place = Place::new();
    let flags = ["run", "--base-url", &mock.url, "--request-rate", "500", "--max-concurrency", "1", "--drop", "3"];
    let more = ["--num-prompts", "20000", "--windows", "1", "--length-scale", "0.01", "--out", place.out()];
    let run = Running::start(&[&flags[..], &more].concat());
    let rows_so_far = || std::fs::read_to_string(place.dir.join("requests.jsonl")).map_or(0, |t| t.lines().count());
    wait_until("some rows", || rows_so_far() >= 10);
    run.signal(Signal::SIGINT);
    let done = run.end();
    assert_eq!(done.code, Some(130), "{}{}", done.out, done.err);
    let (rows, line) = (place.rows(), line(&place, 0, 0));
    let open_for = line["closed"].as_u64().expect("a time") - line["opened"].as_u64().expect("a time");
    let due: Vec<u64> = planned(500.0, 20_003).into_iter().take_while(|due| *due <= open_for).collect();
    assert_eq!(dues(&place, &rows, 0, 0), due);
    let not_sent = count(&rows, Outcome::NotSent);
    assert!(not_sent > 0 && count(&rows, Outcome::Ok) >= 9, "{not_sent} of {}", rows.len());
    assert!(rows.iter().filter(|r| r.outcome == Outcome::NotSent).all(|r| r.submit.is_none() && r.conn.is_none()));
    place.assert_verifies();
}

#[test]
fn failures_keep_their_due_and_free_their_slot() {
    let (mock, place) =
        (MockProcess::start(&["--close-after-reply", "--ttft", "1", "--itl", "0.1"], &[]), Place::new());
    let done = run_against(&mock.url, &place, 60, &["--request-rate", "300", "--max-concurrency", "4"]);
    assert!([Some(0), Some(3)].contains(&done.code), "{}{}", done.out, done.err);
    let rows = place.rows();
    assert_eq!(count(&rows, Outcome::Ok), 60);
    assert_eq!(dues(&place, &rows, 0, 0), planned(300.0, 60));
    assert!(rows.iter().any(|r| r.connect.is_some()), "connections are opened as they are needed");
    place.assert_verifies();
}
