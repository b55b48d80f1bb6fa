//! Open-loop campaigns: what was planned is what was due, and every request that was due has a row.

use crate::binary::{MockProcess, Place, Running, count, run_against, tarebench, wait_until};
use bench_engine::schedule::ArrivalLaw;
use bench_engine::units::Nanos;
use nix::sys::signal::Signal;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tarebench::rundir::row::{Outcome, Row};
use tarebench::workload::gauge::Gauge;
use tarebench::workload::{hex, prompt};

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

/// Each with what makes it short, and what is to be said of it.
const PATTERNS: [(&str, &[&str], &str); 5] = [
    ("batch:8/100ms", &[], "batches of 8 every 0.1 s"),
    ("on-off:100ms/200ms", &["--request-rate", "100", "--burstiness", "inf"], "on-off: 0.1 s on, 0.2 s off"),
    ("spike:5x/200ms@100ms", &["--request-rate", "50"], "spike: 50 requests/s, but 250 for 0.2 s from 0.1 s on"),
    ("ramp:20..120/800ms", &["--burstiness", "2"], "ramp: 20 to 120 requests/s in 0.8 s"),
    ("300ms@40,200ms@0,300ms@100", &[], "stages: 0.3 s at 40, 0.2 s at 0, 0.3 s at 100 requests/s"),
];

#[test]
fn a_rate_that_changes_is_offered_as_it_was_asked_for() {
    for (pattern, more, words) in PATTERNS {
        let place = Place::new();
        let flag = if pattern.contains(':') { "--arrivals" } else { "--stages" };
        let flags =
            ["run", flag, pattern, "--num-prompts", "20", "--drop", "4", "--windows", "1", "--min-duration", "0"];
        let done = tarebench(&[&flags[..], more, &["--length-scale", "0.02", "--out", place.out()]].concat());
        place.assert_carried_out(&done);
        assert!(done.err.contains(words) && done.out.contains(words), "{pattern}: {}{}", done.err, done.out);
        let (plan, run) = (place.json("plan.json"), place.json("run.json"));
        let law: ArrivalLaw = serde_json::from_value(plan["cells"][0]["law"].clone()).expect("a law");
        let planned: Vec<u64> = law.schedule(7).take(24).map(Nanos::ns).collect();
        assert_eq!(dues(&place, &place.rows(), 0, 0), planned, "{pattern}");
        let text: String = planned.iter().map(|due| format!("{due}\n")).collect();
        assert_eq!(line(&place, 0, 0)["schedule_hash"], hex(&Sha256::digest(text)).as_str());
        assert_eq!((&line(&place, 0, 0)["planned"], &plan["num_prompts"]), (&24.into(), &20.into()));
        assert_eq!(run["cells"][0]["load"]["arrivals"], words);
        let per_s = run["cells"][0]["load"]["rate"].as_f64().expect("a rate");
        let offered = run["cells"][0]["windows"][0]["offered_rps"].as_f64().expect("a rate");
        assert!((offered / per_s - 1.0).abs() < 0.9, "{pattern}: {offered} of {per_s}");
        place.assert_verifies();
    }
}

#[test]
fn a_schedule_with_an_end_is_sent_to_its_end() {
    let place = Place::new();
    let flags =
        ["run", "--stages", "200ms@50,100ms@0,200ms@100", "--burstiness", "inf", "--drop", "5", "--windows", "2"];
    let done = tarebench(&[&flags[..], &["--length-scale", "0.02", "--out", place.out()]].concat());
    place.assert_carried_out(&done);
    assert!(done.err.contains("2 windows each of 30 requests (first 5 dropped)"), "{}", done.err);
    let first = (0..10).map(|i| i * 20_000_000);
    let expected: Vec<u64> = first.chain((0..20).map(|i| 300_000_000 + i * 10_000_000)).collect();
    for window in [0, 1] {
        assert_eq!(dues(&place, &place.rows(), 0, window), expected);
    }
    assert_eq!(place.json("run.json")["cells"][0]["load"]["rate"], 60.0);
    place.assert_verifies();
}

/// Trace id, due and what is asked of each request; and that its prompt is the one of that trace id but for the nonce.
fn asked(place: &Place) -> Vec<(u64, u64, u64, u64)> {
    let opened = line(place, 0, 0)["opened"].as_u64().expect("a time");
    let of_row = |row: &Row| {
        let text = prompt::text(7, row.trace_id, &row.nonce, Gauge::WORD_EACH.words(row.asked_prompt_tokens));
        assert_eq!(row.prompt_sha256, hex(&Sha256::digest(text)), "prompt {}", row.trace_id);
        (row.trace_id, row.due - opened, row.asked_prompt_tokens, row.asked_output_tokens)
    };
    place.rows().iter().map(of_row).collect()
}

#[test]
fn the_shards_together_send_exactly_the_schedule() {
    let flags = ["run", "--arrivals", "ramp:40..160/600ms", "--drop", "7", "--windows", "1", "--length-scale", "0.02"];
    let run = |more: &[&str]| {
        let place = Place::new();
        let done = tarebench(&[&flags[..], more, &["--out", place.out()]].concat());
        place.assert_carried_out(&done);
        place.assert_verifies();
        (place, done)
    };
    let (whole, _) = run(&[]);
    let mut expected = asked(&whole);
    expected.sort_unstable();
    let n = expected.len() as u64;
    let (mut found, mut kept) = (Vec::new(), 0);
    for (shard, index) in [("1/3", 0), ("2/3", 1), ("3/3", 2)] {
        let (place, done) = run(&["--shard", shard]);
        let told = format!("shard {shard}: sends one of 3 requests of the schedule");
        assert!(
            done.err.contains(&told) && done.out.contains(&format!("; shard {shard})")),
            "{}{}",
            done.err,
            done.out
        );
        let part = asked(&place);
        assert!(part.iter().all(|(id, ..)| id % 3 == index), "{part:?}");
        assert_eq!(line(&place, 0, 0)["planned"], part.len());
        assert_eq!(line(&place, 0, 0)["schedule_hash"], line(&whole, 0, 0)["schedule_hash"]);
        assert_eq!(line(&place, 0, 0)["trace_hash"], line(&whole, 0, 0)["trace_hash"]);
        assert_eq!(place.json("plan.json")["shard"], serde_json::json!({"index": index + 1, "of": 3}));
        let counts = &place.json("run.json")["cells"][0]["windows"][0]["requests"];
        assert_eq!(counts["due"], part.len());
        kept += counts["kept"].as_u64().expect("a count");
        found.extend(part);
    }
    found.sort_unstable();
    assert_eq!(found, expected, "each request once, at its time, with its prompt");
    assert_eq!(kept, n - 7, "and the dropped ones are those of the whole");
    assert_eq!(whole.json("plan.json")["shard"], Value::Null);
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
