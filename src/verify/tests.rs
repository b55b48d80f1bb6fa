use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::analysis::specimen::{MS, Specimen, US, calibration, failed, request, sample, scrape, window};
use crate::analysis::summary::{summarise, to_json};
use crate::rundir::health::HealthRow;
use crate::rundir::row::{LeftOut, Outcome, Phase, Row, RowError, Stamp, StampSource};
use crate::rundir::window::{Load, LoadModel};

/// Writes the raw files and everything derived from them.
fn publish(specimen: &mut Specimen, dir: &Path) {
    specimen.write(dir);
    derive(dir);
}

fn derive(dir: &Path) {
    let run = summarise(dir).unwrap();
    fs::write(dir.join("run.json"), to_json(&run).unwrap()).unwrap();
    let disclosed = Disclosed::of_run(dir, &run, None).unwrap();
    fs::write(dir.join("boxes.json"), disclosed.boxes.to_json().unwrap()).unwrap();
    fs::write(dir.join("report.md"), markdown::render(&run, &disclosed)).unwrap();
    fs::write(dir.join("report.html"), html::of_directory(dir, &run, &disclosed).unwrap()).unwrap();
}

fn change(dir: &Path, file: &str, from: &str, to: &str) {
    let text = fs::read_to_string(dir.join(file)).unwrap();
    assert!(text.contains(from), "{file} has no {from}");
    fs::write(dir.join(file), text.replacen(from, to, 1)).unwrap();
}

fn fails_with(file: &str, from: &str, to: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    publish(&mut Specimen::two_windows(), dir.path());
    change(dir.path(), file, from, to);
    verify(dir.path()).unwrap_err().to_string()
}

#[test]
fn what_was_written_comes_out_again() {
    let dir = tempfile::tempdir().unwrap();
    publish(&mut Specimen::two_windows(), dir.path());
    let verified = verify(dir.path()).unwrap();
    assert_eq!((verified.rows, verified.windows, verified.notes.len()), (60, 2, 0));
    assert!(verified.lines > 1000);
}

#[test]
fn a_counter_of_the_server_that_was_changed_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut specimen = Specimen::two_windows();
    let finished = |ms: u64, n: f64| scrape(ms * MS, &[("requests_finished", n)]);
    specimen.scrapes = vec![finished(50, 0.0), finished(420, 30.0), finished(1_420, 60.0)];
    publish(&mut specimen, dir.path());
    verify(dir.path()).unwrap();
    change(dir.path(), "server-metrics.jsonl", "30.0", "29.0");
    let found = verify(dir.path()).unwrap_err().to_string();
    assert!(found.contains("server.requests_finished: stored 30, recomputed 29"), "{found}");
    fs::remove_file(dir.path().join("server-metrics.jsonl")).unwrap();
    let found = verify(dir.path()).unwrap_err().to_string();
    assert!(found.contains("cells[0].windows[0].server"), "{found}");
}

/// Bounds and numbers that no run writes end in a difference or an error, not in a panic.
#[test]
fn impossible_bounds_and_counts_are_answered() {
    let dir = tempfile::tempdir().unwrap();
    let mut specimen = Specimen::two_windows();
    let finished = |ms: u64, n: f64| scrape(ms * MS, &[("requests_finished", n)]);
    specimen.scrapes = [50, 420, 600, 1_420].map(|ms| finished(ms, ms as f64)).to_vec();
    publish(&mut specimen, dir.path());
    let closed = specimen.windows[1].0.closed;
    change(dir.path(), "windows.jsonl", &format!("\"closed\":{closed}"), "\"closed\":3");
    assert!(verify(dir.path()).is_err());
    let _ = summarise(dir.path());
    let mut specimen = Specimen::two_windows();
    specimen.plan["cells"] = serde_json::json!([{}, {}]);
    specimen.plan["windows"] = u64::MAX.into();
    publish(&mut specimen, dir.path());
    assert!(!summarise(dir.path()).unwrap().complete, "no run has so many windows");
    let _ = verify(dir.path());
}

#[test]
fn what_is_said_of_a_verified_run_is_no_more_than_was_done() {
    let dir = tempfile::tempdir().unwrap();
    publish(&mut Specimen::two_windows(), dir.path());
    let whole = verify(dir.path()).unwrap();
    let noted = Verified { comparisons: 1, notes: vec!["of a copy".to_owned()], ..whole };
    let told = noted.to_string();
    assert!(told.contains(
        "and report.md and report.html, bit for bit; so are the comparisons with the mock's log\nnote: of a copy"
    ));
    let told = Verified { published: false, comparisons: 0, ..noted }.to_string();
    assert!(!told.contains("report.") && told.contains("ended before all was published"), "{told}");
}

#[test]
fn one_digit_in_each_file_is_found() {
    let found = fails_with("requests.jsonl", "\"trace_id\":5", "\"trace_id\":6");
    assert!(found.starts_with("requests.jsonl:6: h: stored "), "{found}");
    let found = fails_with("windows.jsonl", "\"rows\":30", "\"rows\":29");
    assert_eq!(found, "windows.jsonl:1: rows: stored 29, recomputed 30");
    let found = fails_with("windows.jsonl", "\"closed\":410000000", "\"closed\":410000001");
    assert!(
        found.starts_with("run.json:") && found.contains("duration_s: stored 0.31, recomputed 0.310000001"),
        "{found}"
    );
    let found = fails_with("health.jsonl", "\"cpu_ns\":50000000", "\"cpu_ns\":50000001");
    assert!(found.contains("cells[0].windows[0].client.cpu_per_wall: stored 0.5, recomputed 0.49999"), "{found}");
    let found = fails_with("health.jsonl", "\"voluntary_switches\":3", "\"voluntary_switches\":4");
    assert_eq!(found, "health.jsonl was changed: report.md has another SHA-256 of it");
    let found = fails_with("plan.json", "\"run_id\": \"r1\"", "\"run_id\": \"r2\"");
    assert_eq!(found, "windows.jsonl:1: run: stored \"r1\", recomputed \"r2\"");
    let found = fails_with("run.json", "\"p50_ms\": 5.03", "\"p50_ms\": 5.04");
    let line = "cells[0].windows[0].metrics.ttft.gross.p50_ms: stored 5.04, recomputed 5.03";
    assert!(found.starts_with("run.json:") && found.contains(line), "{found}");
    let found = fails_with("report.md", "5.03 ms", "5.02 ms");
    assert!(found.starts_with("report.md:"), "{found}");
}

/// The page is a file as any other: a changed character is found at its line.
#[test]
fn a_changed_page_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let mut specimen = Specimen::campaign();
    specimen.plan["run_id"] = "campaign-7".into();
    for (bounds, rows) in &mut specimen.windows {
        bounds.run = "campaign-7".into();
        rows.iter_mut().for_each(|row| row.run = "campaign-7".into());
    }
    publish(&mut specimen, dir.path());
    verify(dir.path()).unwrap();
    let page = fs::read_to_string(dir.path().join("report.html")).unwrap();
    let line = 1 + page.lines().position(|line| line.contains("campaign-7")).unwrap();
    change(dir.path(), "report.html", "campaign-7", "campaign-8");
    let found = verify(dir.path()).unwrap_err().to_string();
    assert!(found.starts_with(&format!("report.html:{line}: text: stored ")), "{found}");
    assert!(found.contains("campaign-8") && found.contains("campaign-7"), "{found}");
    // a byte more at its end
    fs::write(dir.path().join("report.html"), page + "\n").unwrap();
    assert!(verify(dir.path()).unwrap_err().to_string().starts_with("report.html:"));
    fs::remove_file(dir.path().join("report.html")).unwrap();
    let found = verify(dir.path()).unwrap_err().to_string();
    assert!(found.starts_with("report.html: cannot be read: "), "{found}");
}

#[test]
fn goals_are_judged_from_the_rows() {
    let dir = tempfile::tempdir().unwrap();
    let mut specimen = Specimen::two_windows();
    specimen.plan["goals"] = json!({
        "request": {"ttft": 5.03, "tpot": 1.6}, "share": 0.99,
        "window": {"e2e.p50": 9.0, "stall.p95": 1.0, "failed": 0.5, "output_tokens_per_s": 1e6, "gap.p999": 3.0},
    });
    publish(&mut specimen, dir.path());
    verify(dir.path()).unwrap();
    let run = summarise(dir.path()).unwrap();
    let goals = run.cells[0].windows[0].goals.as_ref().unwrap();
    let request = goals.request.as_ref().unwrap();
    // 28 are kept, one of them failed
    assert_eq!((request.kept, request.met, request.unknown, request.reached), (28, 27, 0, Some(false)));
    assert!(request.ci.unwrap()[0] < 27.0 / 28.0 && request.ci.unwrap()[1] > 0.99);
    let said: Vec<(String, Value)> = goals.window.iter().map(|l| (l.figure.to_string(), json!(l.answer))).collect();
    let expected = [
        ("e2e.p50", "pass"),
        ("gap.p999", "not_judged"),
        ("stall.p95", "inconclusive"),
        ("failed", "pass"),
        ("output_tokens_per_s", "fail"),
    ];
    assert_eq!(said, expected.map(|(name, answer)| (name.to_owned(), json!(answer))));
    change(dir.path(), "run.json", "\"met\": 27", "\"met\": 28");
    let found = verify(dir.path()).unwrap_err().to_string();
    assert!(found.contains("goals.request.met: stored 28, recomputed 27"), "{found}");
}

#[test]
fn a_changed_box_or_label_is_found() {
    let found = fails_with("boxes.json", "60 rows in a hash chain", "61 rows in a hash chain");
    assert!(
        found.starts_with("boxes.json:") && found.contains(": boxes[2].sentence: stored \"requests.jsonl"),
        "{found}"
    );
    let found = fails_with("boxes.json", "\"status\": \"empty\"", "\"status\": \"measured\"");
    assert!(found.contains(".status: stored \"measured\", recomputed \"empty\""), "{found}");
    let found = fails_with("run.json", "\"UNIFORM LENGTHS\"", "\"MIXED LENGTHS\"");
    assert!(found.contains("labels[3]: stored \"MIXED LENGTHS\", recomputed \"UNIFORM LENGTHS\""), "{found}");
    let found = fails_with("run.json", "\"answer_later\": 0", "\"answer_later\": 1");
    assert!(found.contains("disclosed.timed.answer_later: stored 1, recomputed 0"), "{found}");
    let found = fails_with("run.json", "\"p90\": 20.0", "\"p90\": 21.0");
    assert!(found.contains("lengths.short.asked_prompt.p90: stored 21.0, recomputed 20.0"), "{found}");
    let found =
        fails_with("report.md", "| 15 | Only the lucky runs? | EMPTY", "| 15 | Only the lucky runs? | measured");
    assert!(found.starts_with("report.md:"), "{found}");
    let dir = tempfile::tempdir().unwrap();
    publish(&mut Specimen::two_windows(), dir.path());
    fs::remove_file(dir.path().join("boxes.json")).unwrap();
    assert!(verify(dir.path()).unwrap_err().to_string().starts_with("boxes.json: cannot be read"));
}

/// Files that no figure of run.json is made of.
#[test]
fn a_changed_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let truth = dir.path().join("truth.jsonl");
    fs::write(&truth, "{}\n").unwrap();
    publish(&mut Specimen::two_windows(), dir.path());
    assert!(verify(dir.path()).is_ok());
    let told = || verify(dir.path()).unwrap_err().to_string();
    fs::write(&truth, "{} \n").unwrap();
    assert_eq!(told(), "truth.jsonl was changed: report.md has another SHA-256 of it");
    fs::remove_file(&truth).unwrap();
    assert_eq!(told(), "truth.jsonl is missing: report.md has its SHA-256");
    fs::write(&truth, "{}\n").unwrap();
    fs::write(dir.path().join("closure.json"), "{}\n").unwrap();
    assert_eq!(told(), "closure.json is not in report.md, which lists every file that was there");
}

/// Nothing that a plan can say of its calibration makes figures that are none, or a report that does not verify.
#[test]
fn any_calibration_verifies() {
    let insane: [(&str, Value); 11] = [
        ("/tare/0/quantiles_us/1/1", json!(1e308)),
        ("/tare/0/quantiles_us/0/1", json!(1e9)),
        ("/tare/0/events_per_s", json!(-1e308)),
        ("/tare/0/n", json!(u64::MAX)),
        ("/tare/0/n", json!(0)),
        ("/limits/streams/value", json!(5e-324)),
        ("/limits/streams", json!("many")),
        ("/limits", json!([])),
        ("/placement", json!([])),
        ("/tare/0", json!([1.0, 5, 2.0, [[0.0, 2.0]]])),
        ("/tare", json!({"falling": true})),
    ];
    for (path, value) in insane {
        let dir = tempfile::tempdir().unwrap();
        let mut specimen = Specimen::two_windows();
        specimen.plan["calibration"] = calibration();
        *specimen.plan["calibration"].pointer_mut(path).unwrap() = value;
        for row in specimen.windows.iter_mut().flat_map(|(_, rows)| rows) {
            (row.stamps, row.wire_out) = (StampSource::User, None);
        }
        publish(&mut specimen, dir.path());
        let found = verify(dir.path());
        assert!(found.is_ok(), "{path}: {found:?}");
        let text = fs::read_to_string(dir.path().join("report.md")).unwrap();
        assert!(!text.contains(" inf") && !text.contains("NaN"), "{path}");
    }
}

#[test]
fn a_changed_interval_or_curve_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let mut specimen = Specimen::campaign();
    (specimen.windows[1].0.cell, specimen.windows[1].0.window) = (1, 0);
    specimen.windows[1].0.load.concurrency = Some(9);
    specimen.windows[1].1.iter_mut().for_each(|row| (row.cell, row.window) = (1, 0));
    publish(&mut specimen, dir.path());
    verify(dir.path()).unwrap();
    let text = fs::read_to_string(dir.path().join("run.json")).unwrap();
    let run: Value = serde_json::from_str(&text).unwrap();
    let interval = run.pointer("/cells/0/windows/0/metrics/gap/gross/ci_ms/p50").unwrap();
    assert_eq!(*interval, json!([1.0, 2.1]));
    for (from, to, field) in [
        ("\"p95\": [\n", "\"p96\": [\n", "metrics.ttft.gross.ci_ms"),
        ("\"shape\": \"rising\"", "\"shape\": \"falling\"", "curves[0].shape: stored \"falling\""),
        ("rises with load", "falls with load", "curves[0].text"),
        ("\"intervals_overlap\": true", "\"intervals_overlap\": false", "intervals_overlap: stored false"),
    ] {
        assert!(text.contains(from), "{from}");
        fs::write(dir.path().join("run.json"), text.replacen(from, to, 1)).unwrap();
        let found = verify(dir.path()).unwrap_err().to_string();
        assert!(found.contains(field), "{found}");
    }
}

#[test]
fn a_changed_gate_is_found() {
    let dir = tempfile::tempdir().unwrap();
    publish(&mut Specimen::two_windows(), dir.path());
    let text = fs::read_to_string(dir.path().join("run.json")).unwrap();
    let at = text.find("\"run_queue\"").unwrap();
    let figure = "\"figure\": 0.0025";
    let place = at + text[at..].find(figure).unwrap();
    for (from, to, field) in [(figure, "\"figure\": 0.0024", "figure"), ("\"ok\"", "\"warn\"", "state")] {
        let place = place + text[place..].find(from).unwrap();
        let changed = format!("{}{to}{}", &text[..place], &text[place + from.len()..]);
        fs::write(dir.path().join("run.json"), changed).unwrap();
        let found = verify(dir.path()).unwrap_err().to_string();
        assert!(found.contains(&format!("client.gates[4].{field}: stored")), "{found}");
    }
    // what it is made of
    let found = fails_with("health.jsonl", "\"run_delay_ns\":1030000", "\"run_delay_ns\":103000");
    assert!(found.contains("client.workers[0].run_delay_share"), "{found}");
    let found = fails_with("windows.jsonl", "\"reader_waits\":0", "\"reader_waits\":1");
    assert!(found.contains("metrics.ttft.gross.mean_ms: stored 5.03, recomputed null"), "{found}");
    let found = fails_with("plan.json", "\"calibration\": null", "\"calibration\": {\"none\": \"lost\"}");
    assert!(found.contains("calibration: stored null"), "{found}");
}

#[test]
fn the_last_h_of_a_window_is_checked() {
    let dir = tempfile::tempdir().unwrap();
    publish(&mut Specimen::two_windows(), dir.path());
    let text = fs::read_to_string(dir.path().join("windows.jsonl")).unwrap();
    let last_h = text.split("\"last_h\":\"").nth(2).unwrap()[..64].to_string();
    change(dir.path(), "windows.jsonl", &last_h, &"f".repeat(64));
    let found = verify(dir.path()).unwrap_err().to_string();
    assert_eq!(found, format!("windows.jsonl:2: last_h: stored {}, recomputed {last_h}", "f".repeat(64)));
}

#[test]
fn lost_files_lines_and_ends_are_named() {
    let raw = ["plan.json", "requests.jsonl", "windows.jsonl", "health.jsonl"];
    for file in raw.into_iter().chain(["run.json", "boxes.json", "report.md", "report.html"]) {
        let dir = tempfile::tempdir().unwrap();
        publish(&mut Specimen::two_windows(), dir.path());
        let text = fs::read(dir.path().join(file)).unwrap();
        fs::write(dir.path().join(file), &text[..text.len() - 7]).unwrap();
        let cut = verify(dir.path()).unwrap_err().to_string();
        assert!(cut.starts_with(file) || cut.starts_with("run.json:"), "{file}: {cut}");
        fs::remove_file(dir.path().join(file)).unwrap();
        assert!(verify(dir.path()).unwrap_err().to_string().starts_with(&format!("{file}: cannot be read")), "{file}");
    }
    let dir = tempfile::tempdir().unwrap();
    publish(&mut Specimen::two_windows(), dir.path());
    let text = fs::read_to_string(dir.path().join("requests.jsonl")).unwrap();
    fs::write(
        dir.path().join("requests.jsonl"),
        text.lines().skip(1).map(|l| l.to_string() + "\n").collect::<String>(),
    )
    .unwrap();
    assert!(verify(dir.path()).unwrap_err().to_string().starts_with("requests.jsonl:1: h: stored "));
}

#[test]
fn an_interrupted_directory_verifies_and_names_its_half_line() {
    let dir = tempfile::tempdir().unwrap();
    let mut specimen = Specimen::two_windows();
    specimen.write(dir.path());
    let text = fs::read_to_string(dir.path().join("requests.jsonl")).unwrap();
    fs::write(dir.path().join("requests.jsonl"), &text[..text.len() - 100]).unwrap();
    let windows = fs::read_to_string(dir.path().join("windows.jsonl")).unwrap();
    fs::write(dir.path().join("windows.jsonl"), windows.lines().next().unwrap().to_string() + "\n").unwrap();
    derive(dir.path());
    let notes = verify(dir.path()).unwrap().notes;
    assert!(notes[0].starts_with("requests.jsonl:60: half-written"), "{notes:?}");
    assert!(notes[1].starts_with("cell 0, window 1: 29 rows"), "{notes:?}");
}

#[test]
fn a_copy_verifies() {
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    publish(&mut Specimen::two_windows(), dir.path());
    for entry in fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    drop(dir);
    assert!(verify(copy.path()).is_ok());
}

/// Shared code would make the comparison empty.
#[test]
fn the_verifier_shares_no_code_with_the_writer() {
    let files = [
        include_str!("../verify.rs"),
        include_str!("calibrated.rs"),
        include_str!("client.rs"),
        include_str!("curves.rs"),
        include_str!("disclosed.rs"),
        include_str!("distributions.rs"),
        include_str!("document.rs"),
        include_str!("gates.rs"),
        include_str!("labels.rs"),
        include_str!("raw.rs"),
        include_str!("steady.rs"),
        include_str!("window.rs"),
    ];
    let allowed = [
        "crate::analysis::definitions",
        "crate::analysis::percentiles",
        "crate::analysis::statistics",
        // derived from what was recomputed, like the report
        "crate::disclosure::directory",
        // the form of the goals in plan.json
        "crate::goals",
        "crate::rundir::row",
        // where the rows lie, and a window that was cut off
        "crate::rundir::opening",
        "crate::rundir::mark",
        "crate::rundir::chain",
        "crate::report::{html, markdown}",
    ];
    for line in files.iter().flat_map(|text| text.lines()).filter(|l| l.contains("crate::")) {
        assert!(allowed.iter().any(|module| line.contains(module)), "{line}");
    }
}

/// Draws from a seed: small, and good enough to disturb rows.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.roll(n) == 0
    }
}

/// What goes wrong in a window: calm ones lose no stamp, lumped ones have most events in shared reads.
#[derive(Clone, Copy)]
struct Mood {
    calm: bool,
    lumped: bool,
    /// The client runs out of descriptors.
    lossy: bool,
}

fn disturbed(trace_id: u64, opened: u64, drop: u64, mood: Mood, dice: &mut Dice) -> Row {
    let mut row = request(trace_id, opened + dice.roll(300 * MS));
    row.phase = if trace_id < drop { Phase::Warmup } else { Phase::Measured };
    crate::analysis::specimen::shift_answer(&mut row, dice.roll(3 * MS));
    let blur = |s: Stamp, dice: &mut Dice| Stamp {
        arrived: s.arrived.filter(|_| mood.calm || !dice.one_in(150)),
        arrived_lo: s.arrived_lo.map(|t| t - dice.roll(2) * dice.roll(2) * dice.roll(5 * MS)),
        ..s
    };
    row.first_token = row.first_token.map(|s| blur(s, dice));
    row.last_token = row.last_token.map(|s| blur(s, dice));
    for c in &mut row.chunks {
        c.0 += dice.roll(50 * US);
        c.2 = c.2.map(|t| t - dice.roll(200 * US) * dice.roll(2));
        c.3 = c.3.filter(|_| !dice.one_in(9));
        c.4 /= 1 + u32::from(mood.lumped || dice.one_in(8));
        c.5 = (dice.roll(12) / 11) as u32;
    }
    row.class = ["short", "long", "medium"][dice.roll(3) as usize].into();
    row.conn_reused = dice.roll(3) > 0;
    row.connect = Some(dice.roll(US)).filter(|_| !row.conn_reused);
    row.completion_tokens = Some(dice.roll(9)).filter(|_| !dice.one_in(8));
    row.cached_tokens = Some(dice.roll(9)).filter(|_| dice.one_in(4));
    row.empty_events = dice.roll(3) as u32;
    row.prompt_tokens = Some(20 + row.due % (1 + row.due % 90)).filter(|_| !row.due.is_multiple_of(11));
    row.nonce = format!("n{}", row.due % 50);
    row.first_answer = row.last_token.filter(|_| row.due.is_multiple_of(7)).or(row.first_answer);
    row.flags = ["reopened", "keepalive=3", "no_done"].iter().filter(|_| dice.one_in(5)).map(|f| (*f).into()).collect();
    row.finish_reason = Some("stop".into()).filter(|_| !dice.one_in(6));
    match dice.roll(40) {
        0 => row = failed(row, "timeout"),
        1 => row = failed(row, "transport"),
        2 => (row.outcome, row.end, row.completion_tokens) = (Outcome::Censored, None, None),
        3 => {
            row.outcome = Outcome::NotSent;
            row.error = Some(RowError {
                class: if mood.lossy { "descriptors" } else { "window_closed" }.into(),
                text: String::new(),
            });
        }
        4 if !mood.calm => row.wire_out = None,
        5 => row.sent = None,
        6 => (row.first_token, row.first_answer, row.chunks) = (None, None, Vec::new()),
        7 if !mood.calm && dice.one_in(3) => (row.stamps, row.wire_out) = (StampSource::User, None),
        8 => (row.outcome, row.submit, row.handed, row.end) = (Outcome::Failed, None, None, None),
        _ => {}
    }
    row
}

/// What a server may have said meanwhile, and whose names its answers bore.
fn scraped(specimen: &mut Specimen, mut dice: Dice) {
    specimen.plan["model"] = if dice.one_in(4) { serde_json::Value::Null } else { "m".into() };
    specimen.plan["extra_body"] = json!({"n": dice.roll(3)});
    let odd = dice.one_in(3);
    for row in specimen.windows.iter_mut().flat_map(|(_, rows)| rows).filter(|_| odd) {
        row.model_echo = ["m", "n", "other"].get(dice.roll(5) as usize).map(|name| (*name).to_owned());
        row.retries = dice.roll(2) as u32;
    }
    if dice.one_in(4) {
        return;
    }
    let names = [
        "requests_finished",
        "prompt_tokens",
        "ttft_sum_s",
        "ttft_count",
        "queue_sum_s",
        "queue_count",
        "prefix_cache_hits",
        "prefix_cache_queries",
        "requests_running",
        "kv_cache_usage",
    ];
    let served: Vec<&str> = names.into_iter().filter(|_| !dice.one_in(5)).collect();
    let (mut at, mut counters, mut start) = (dice.roll(150) * MS, [1_000.0; 10], 1e9);
    let end = if dice.one_in(3) { dice.roll(2_500) } else { 3_200 };
    while at < end * MS {
        let mut values: Vec<(&str, f64)> = served.iter().copied().zip(counters).collect();
        start += if dice.one_in(25) { 1.5 } else { 0.0 };
        values.push(("process_start_time_s", start));
        let mut line = scrape(at, &values);
        line.took_ns = dice.roll(9) * MS;
        line.rtt_us = Some(dice.roll(90) as u32).filter(|us| *us > 10);
        (line.cell, line.window) = (Some(dice.roll(2) as u32), Some(dice.roll(2) as u32));
        if dice.one_in(6) {
            (line.error, line.metrics) = (Some("HTTP 503".into()), Default::default());
        }
        specimen.scrapes.push(line);
        at += (10 + dice.roll(220) + u64::from(dice.one_in(9)) * 1_200) * MS;
        for value in &mut counters {
            *value = if dice.one_in(60) { 0.0 } else { *value + dice.roll(90) as f64 };
        }
    }
}

fn random_specimen(seed: u64, rows: u64) -> Specimen {
    let mut dice = Dice(seed);
    let mut specimen = Specimen::two_windows();
    specimen.windows.clear();
    for index in 0..1 + dice.roll(3) as u32 {
        let opened = 100 * MS + u64::from(index) * 1000 * MS;
        let drop = dice.roll(4);
        let (cell, number) = (index / 2, index % 2);
        let mut bounds = window(cell, number, opened, opened + 250 * MS + dice.roll(100 * MS));
        let model = [LoadModel::Closed, LoadModel::Open, LoadModel::Trace][dice.roll(3) as usize];
        let concurrency = Some(1 + dice.roll(6) as u32).filter(|_| model == LoadModel::Closed || dice.one_in(2));
        let arrivals =
            (model != LoadModel::Closed && seed % 2 == 1).then(|| "ramp: 1 to 6 requests/s in 9 s".to_owned());
        bounds.load =
            Load { model, concurrency, rate: Some(3.5).filter(|_| model == LoadModel::Open), arrivals, sessions: None };
        (bounds.drop, bounds.interrupted, bounds.spin) = (drop, dice.one_in(5), seed % 4 == 1);
        let mood = Mood { calm: dice.one_in(2), lumped: dice.one_in(4), lossy: dice.one_in(5) };
        let mut drawn: Vec<Row> = (0..rows).map(|id| disturbed(id, opened, drop, mood, &mut dice)).collect();
        drawn.iter_mut().for_each(|row| (row.cell, row.window) = (cell, number));
        specimen.windows.push((bounds, drawn));
    }
    let (threads, busier) = (1 + dice.roll(2), dice.one_in(3));
    let [mut cpu, mut busy, mut steal, mut delay] = [0; 4];
    for tenth in 0..40 {
        for thread in ["worker-0", "process"].iter().take(threads as usize) {
            specimen.health.push(HealthRow {
                busy_ns: Some(busy).filter(|_| tenth != 3),
                steal_ns: Some(steal).filter(|_| tenth % 17 != 5),
                run_delay_ns: Some(delay),
                softirq_ns: Some(steal * 3),
                ..sample(thread, tenth * 100 * MS, cpu)
            });
        }
        cpu += (20 + dice.roll(if busier { 80 } else { 30 })) * MS;
        busy += (dice.roll(40) + if busier { 60 } else { 0 }) * MS;
        steal += u64::from(dice.one_in(if busier { 2 } else { 30 })) * 20 * MS;
        delay += dice.roll(if busier { 30 } else { 3 }) * dice.roll(2) * MS;
    }
    if dice.one_in(2) {
        let mut found = calibration();
        found["limits"]["streams"]["value"] = (1.0 + dice.roll(9) as f64).into();
        found["tare"][0]["events_per_s"] = (1.0 + dice.roll(600) as f64).into();
        found["matches"] = (!dice.one_in(4)).into();
        found["limits"]["burst"] = json!({"value": dice.roll(4), "at_least": dice.one_in(2)});
        if dice.one_in(3) {
            found["placement"] = "http://10.0.0.2:1".into();
            found["limits"]["requests_per_s"] = json!({"value": 0, "at_least": false});
        }
        if dice.one_in(8) {
            found["tare"][1]["mean_us"] = 1e300.into();
        }
        specimen.plan["calibration"] = found;
    }
    scraped(&mut specimen, Dice(!seed));
    if dice.one_in(4) {
        for row in specimen.windows.iter_mut().flat_map(|(_, rows)| rows) {
            (row.stamps, row.wire_out) = (StampSource::User, None);
            row.chunks.iter_mut().for_each(|c| (c.1, c.2) = (None, None));
        }
    }
    let law = |per_s: f64| match seed % 3 {
        0 => json!({"name": "poisson", "per_s": per_s}),
        1 => json!({"name": "gamma", "per_s": per_s, "shape": 0.5}),
        _ => json!({"name": "even", "per_s": per_s}),
    };
    specimen.plan["cells"] = json!([{"law": law(100.0)}, {"law": law(900.0)}]);
    if seed.is_multiple_of(7) {
        specimen.plan["shard"] = json!({"index": 1, "of": 3});
    }
    // load points that make a curve
    if seed.is_multiple_of(5) {
        for (at, (bounds, rows)) in specimen.windows.iter_mut().enumerate() {
            (bounds.cell, bounds.window) = (at as u32, 0);
            bounds.load = Load {
                model: LoadModel::Closed,
                concurrency: Some(9 - at as u32),
                rate: None,
                arrivals: None,
                sessions: None,
            };
            if seed.is_multiple_of(2) {
                // the third is of another family
                let arrivals = Some("on-off: 1 s on, 3 s off".to_owned()).filter(|_| at < 2);
                bounds.load = Load {
                    model: LoadModel::Open,
                    concurrency: None,
                    rate: Some(9.0 - at as f64),
                    arrivals,
                    sessions: None,
                };
            }
            rows.iter_mut().for_each(|row| (row.cell, row.window) = (at as u32, 0));
        }
    }
    specimen
}

/// The drawn directories reach every kind of verdict: else the agreement below would prove little.
#[test]
fn drawn_rows_reach_every_rule() {
    let (mut kinds, mut gates) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
    let (mut invalid, mut bounded, mut intervals, mut curves) = (0, 0, 0, 0);
    let mut of_server = std::collections::BTreeSet::new();
    for seed in 0..60 {
        let dir = tempfile::tempdir().unwrap();
        random_specimen(seed * 7919, 120).write(dir.path());
        let run = summarise(dir.path()).unwrap();
        curves += run.curves.iter().filter(|c| c.intervals_overlap.is_some()).count();
        invalid += run.verdicts.iter().filter(|v| v.kind == "invalid").count();
        for window in run.cells.iter().flat_map(|c| &c.windows) {
            bounded += u32::from(window.metrics.ttft.calibrated.is_some_and(|net| net.p90_ms.is_some()));
            if let Some(server) = &window.server {
                of_server.extend(server.no_counters.clone());
                of_server.extend(server.resets.first().map(|_| "reset".to_owned()));
                of_server.extend(server.requests_finished.map(|_| "counted".to_owned()));
            }
            let gap = window.metrics.gap.net.as_ref();
            intervals += u32::from(gap.is_some_and(|d| d.ci_ms.contains_key("p90")));
            gates.extend(window.client.gates.iter().map(|g| format!("{} {:?}", g.gate, g.state)));
        }
        for v in run.cells.iter().flat_map(|c| &c.windows).flat_map(|w| &w.verdicts) {
            let metric = v.metric.split(['/', '@']).next().unwrap_or_default().to_string();
            kinds.insert((metric, v.percentile.is_some(), format!("{:?}", v.kind)));
        }
    }
    for found in ["reset", "counted", "was not answered before", "was not answered after", "another window"] {
        assert!(of_server.iter().any(|words| words.contains(found)), "no {found} in {of_server:?}");
    }
    let expected = [
        ("model", false, "Flag"),
        ("server", false, "Flag"),
        ("*", false, "Flag"),
        ("*", false, "Withheld"),
        ("e2e", true, "Both"),
        ("e2e", true, "Flag"),
        ("gap", false, "Flag"),
        ("gap", false, "Withheld"),
        ("gap", true, "Both"),
        ("requests", false, "Failed"),
        ("stall", true, "Both"),
        ("tokens", false, "Flag"),
        ("tpot", true, "Withheld"),
        ("ttft", true, "Both"),
        ("ttft", true, "Withheld"),
    ];
    assert!(invalid > 3 && bounded > 0, "{invalid} {bounded}");
    assert!(intervals > 3 && curves > 0, "{intervals} {curves}");
    for gate in ["cpu", "busy", "run_queue", "steal", "losses", "achieved", "stamps_missing"] {
        for state in ["Ok", "Void"] {
            assert!(gates.contains(&format!("{gate} {state}")), "no {gate} {state} in {gates:?}");
        }
    }
    for gate in [
        "arrivals Ok",
        "net_width Warn",
        "burst_drain Unknown",
        "calibrated_tare Warn",
        "calibrated_burst Warn",
        "calibrated_requests Warn",
        "calibrated_streams Warn",
        "process_cpu Unknown",
    ] {
        assert!(gates.contains(gate), "no {gate} in {gates:?}");
    }
    for (metric, one, kind) in expected {
        assert!(kinds.contains(&(metric.into(), one, kind.into())), "no {metric} {one} {kind} in {kinds:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_changed_digit_is_found(seed in any::<u64>(), file in 0_usize..7, place in any::<u64>(), by in 1_u8..10) {
        let dir = tempfile::tempdir().unwrap();
        publish(&mut random_specimen(seed, 30), dir.path());
        let names = ["plan.json", "requests.jsonl", "windows.jsonl", "health.jsonl", "run.json", "report.md", "server-metrics.jsonl"];
        // not every run has the last one
        let name = if dir.path().join(names[file]).exists() { names[file] } else { names[0] };
        let mut text = fs::read(dir.path().join(name)).unwrap();
        let digits: Vec<usize> = (0..text.len()).filter(|i| text[*i].is_ascii_digit()).collect();
        let at = digits[(place % digits.len() as u64) as usize];
        text[at] = b'0' + (text[at] - b'0' + by) % 10;
        fs::write(dir.path().join(name), text).unwrap();
        prop_assert!(verify(dir.path()).is_err(), "{} at {}", name, at);
    }

    #[test]
    fn writer_and_verifier_agree_on_any_rows(seed in any::<u64>(), rows in 0_u64..260) {
        let dir = tempfile::tempdir().unwrap();
        publish(&mut random_specimen(seed, rows), dir.path());
        let found = verify(dir.path());
        prop_assert!(found.is_ok(), "{}", found.unwrap_err());
    }
}

/// 2,000,000 token events, written, summarised and verified: `scripts/check-long`.
#[test]
#[ignore = "long"]
fn two_million_events() {
    let dir = tempfile::tempdir().unwrap();
    let mut specimen = Specimen::two_windows();
    for (bounds, rows) in &mut specimen.windows {
        let opened = bounds.opened;
        let long = |id: u64| {
            let mut row = request(id, opened + id * US);
            let last = row.chunks[2];
            row.chunks.extend((0..497_u32).map(|i| {
                let later = u64::from(i) * 30 * US;
                crate::rundir::row::Chunk(last.0 + later, last.1.map(|t| t + later), last.2, Some(1), 3 + i, 0, 9, 1)
            }));
            row.window = bounds.window;
            row.phase = if id < 2 { Phase::Warmup } else { Phase::Measured };
            row
        };
        *rows = (0..2_000).map(long).collect();
    }
    specimen.write(dir.path());
    derive(dir.path());
    println!("summarised");
    verify(dir.path()).unwrap();
}

/// Windows that are long enough for slices: steady, drifting, with a new level, with long memory, with few requests.
#[test]
fn long_windows_verify() {
    let scatter = |id: u64| (id * 7_919 % 1_009) * 2 * US;
    let level = |id: u64| if id < 700 { 0 } else { 2 * MS };
    type Course<'a> = (u64, u64, &'a dyn Fn(u64) -> u64);
    let courses: [Course; 6] = [
        (130, 1_310, &scatter),
        (130, 1_310, &|id| scatter(id) + id * 2 * US),
        (150, 1_210, &|id| scatter(id) + level(id)),
        (1_200, 1_500, &|id| scatter(id) + (id / 60 % 7) * MS),
        (125, 251, &scatter),
        (130, 320, &|id| scatter(id) + if id < 60 { 9 * MS } else { 0 }),
    ];
    let mut drifts = Vec::new();
    for (seconds, requests, later) in courses {
        let dir = tempfile::tempdir().unwrap();
        let mut specimen = Specimen::long(seconds, requests, later);
        let mut dice = Dice(seconds * requests);
        for row in &mut specimen.windows[0].1 {
            // uneven, some at one moment, and some that do not count
            let late = dice.roll(80) * MS * dice.roll(2);
            for stamp in [&mut row.submit, &mut row.handed, &mut row.sent].into_iter().flatten() {
                *stamp += late;
            }
            crate::analysis::specimen::shift_answer(row, late);
            if dice.one_in(90) {
                *row = failed(row.clone(), "transport");
            }
        }
        publish(&mut specimen, dir.path());
        let found = verify(dir.path());
        assert!(found.is_ok(), "{seconds} s: {}", found.unwrap_err());
        let run = summarise(dir.path()).unwrap();
        drifts.push(json!(run.cells[0].windows[0].steady.drift).as_str().unwrap_or_default().to_string());
        let text = fs::read_to_string(dir.path().join("report.md")).unwrap();
        assert!(text.contains("\nSteady: warm-up ") && text.contains("| ttft | 1,") == (requests > 400), "{text}");
    }
    assert_eq!(drifts[..2], ["steady", "drifting"]);
}

#[test]
fn a_changed_figure_of_steadiness_is_found() {
    for (from, to) in [
        ("\"n_eff\": ", "\"n_eff\": 1"),
        ("\"drift\": \"steady\"", "\"drift\": \"drifting\""),
        ("\"cut\": ", "\"cut\": 1"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        publish(&mut Specimen::long(130, 1_310, |id| id * 7_919 % 1_009 * US), dir.path());
        change(dir.path(), "run.json", from, to);
        let found = verify(dir.path()).unwrap_err().to_string();
        assert!(found.contains("cells[0].windows[0].steady."), "{found}");
    }
}

/// An open loop of one cell that sends each request when it is due, or under a cap when a slot is free.
fn scheduled(dues: &[u64], cap: Option<u32>) -> Specimen {
    let opened = 1_000 * MS;
    let mut bounds = window(0, 0, opened, opened);
    bounds.load = Load { model: LoadModel::Open, concurrency: cap, rate: Some(200.0), arrivals: None, sessions: None };
    let mut slots = vec![0; cap.unwrap_or(u32::from(u16::MAX)) as usize];
    let mut rows = Vec::new();
    for (id, due) in (0..).zip(dues) {
        let slot = slots.iter_mut().min().unwrap();
        let mut row = request(id, (opened + due).max(*slot));
        *slot = row.end.unwrap().arrived.unwrap();
        bounds.closed = bounds.closed.max(row.end.unwrap().seen + MS);
        row.due = opened + due;
        rows.push(row);
    }
    let plan = json!({"cells": [{"law": {"name": "poisson", "per_s": 200.0}}]});
    Specimen { plan, windows: vec![(bounds, rows)], health: Vec::new(), scrapes: Vec::new() }
}

fn poisson(n: usize) -> Vec<u64> {
    let law = bench_engine::schedule::ArrivalLaw::new(200.0, 1.0).unwrap();
    law.schedule(7).take(n).map(|due| due.ns()).collect()
}

/// The only window, written, verified and read.
fn verified(specimen: &mut Specimen, dir: &Path) -> crate::rundir::run_json::Window {
    publish(specimen, dir);
    verify(dir).unwrap();
    summarise(dir).unwrap().cells.remove(0).windows.remove(0)
}

#[test]
fn what_goes_out_as_planned_is_of_the_law() {
    let dir = tempfile::tempdir().unwrap();
    let found = verified(&mut scheduled(&poisson(7_000), None), dir.path());
    let a = found.arrivals.unwrap();
    assert_eq!((a.asked_rps, a.planned, a.sent, a.not_sent, a.cap), (Some(200.0), 6_999, 7_000, 0, None));
    assert_eq!((a.held_back, a.dispatch_delay_ms, a.achieved_share), (None, None, Some(1.0)));
    // all of them go out 25 us after they are due: no gap is off
    assert_eq!(a.gap_error_us.wire.map(|s| (s.n, s.max)), Some((6_999, 0.0)));
    assert_eq!(a.lateness_ms.map(|s| (s.n, s.p99, s.max)), Some((7_000, Some(0.01), 0.01)));
    let bins: Vec<_> = a.dispersion.iter().map(|d| (d.bin_ms, d.bins >= 30)).collect();
    assert_eq!(bins, [(100, true), (1_000, true)]);
    assert!(a.dispersion.iter().all(|d| Some(d.planned) == d.wire && (0.5..1.6).contains(&d.planned)), "{a:?}");
    let tests = a.anderson_darling.unwrap();
    assert_eq!(tests.schedule.map(|t| (t.n, t.every)), Some((6_999, 1)));
    assert_eq!(tests.wire.map(|t| (t.n, t.every)), Some((500, 14)));
    assert_eq!(tests.wire, tests.schedule_thinned, "a lag that all share changes nothing");
    assert!(tests.wire.unwrap().p > 0.01 && !found.verdicts.iter().any(|v| v.metric == "arrivals"));
}

#[test]
fn a_client_that_bends_the_law_is_flagged() {
    let (dir, dues) = (tempfile::tempdir().unwrap(), poisson(2_000));
    let mut specimen = scheduled(&dues, None);
    // evenly instead of as planned
    for (row, n) in specimen.windows[0].1.iter_mut().zip(0..) {
        row.wire_out = Some(1_000 * MS + n * 5 * MS);
    }
    let found = verified(&mut specimen, dir.path());
    let flagged: Vec<_> = found.verdicts.iter().filter(|v| v.metric == "arrivals").collect();
    assert_eq!(flagged.len(), 1);
    assert!(
        flagged[0].text.contains("500 gaps, 1 in 4, of the wire") && flagged[0].text.contains("p < .0001"),
        "{flagged:?}"
    );
    // a schedule of another law is the drawing's fault, and no verdict on the client
    let mut specimen = scheduled(&(0..2_000).map(|n| n * 5 * MS).collect::<Vec<_>>(), None);
    let found = verified(&mut specimen, dir.path());
    assert!(found.arrivals.unwrap().anderson_darling.unwrap().schedule.unwrap().p < 1e-4);
    assert!(!found.verdicts.iter().any(|v| v.metric == "arrivals"));
}

#[test]
fn a_cap_that_shapes_the_load_is_named() {
    let (dir, dues) = (tempfile::tempdir().unwrap(), poisson(300));
    let mut specimen = scheduled(&dues, Some(1));
    let held = |row: &&Row| row.submit.unwrap() - 10 * US > row.due + MS;
    let delayed = specimen.windows[0].1.iter().filter(held).count() as u64;
    let found = verified(&mut specimen, dir.path());
    let a = found.arrivals.unwrap();
    let held = a.held_back.unwrap();
    // 200/s on a slot that serves 124/s
    assert!(held.requests == delayed && delayed > 200, "{held:?} {delayed}");
    let said = found.verdicts.iter().find(|v| v.metric == "arrivals").unwrap();
    let words = format!("the cap of 1 held back {delayed} of 300 requests, up to {:.1} ms: ", held.longest_ms.unwrap());
    assert!(said.text.starts_with(&words) && said.text.ends_with("from due contain the wait"), "{}", said.text);
    let gate = found.client.gates.iter().find(|g| g.gate == "achieved").unwrap();
    let words = format!("the cap of 1 left no slot for {} of them until the schedule was over; void", held.past_end);
    assert!(held.past_end > 50 && gate.text.contains(&words), "{}", gate.text);
    change(dir.path(), "run.json", &format!("\"requests\": {delayed}"), "\"requests\": 7");
    let told = verify(dir.path()).unwrap_err().to_string();
    assert!(told.contains("arrivals.held_back.requests: stored 7, recomputed"), "{told}");
    // one that is wide enough says nothing
    let found = verified(&mut scheduled(&dues, Some(40)), dir.path());
    assert_eq!(found.arrivals.unwrap().held_back.unwrap().requests, 0);
    assert!(!found.verdicts.iter().any(|v| v.metric == "arrivals"));
}

#[test]
fn lengths_that_were_not_met_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let mut specimen = Specimen::two_windows();
    for row in &mut specimen.windows[0].1 {
        row.class = "one".into();
        row.asked_prompt_tokens = 100;
        row.prompt_tokens = Some(if row.trace_id.is_multiple_of(10) { 100 } else { 113 });
        row.asked_output_tokens = 4;
    }
    let found = verified(&mut specimen, dir.path());
    let class = &found.lengths["one"];
    // 28 kept, one of them failed
    assert_eq!((class.length_met.met, class.length_met.known, class.length_met.shorter), (0, 27, 27));
    let off = class.prompt_off.unwrap();
    assert_eq!((off.n, off.exact, off.p50, off.max, off.per_cent.above_10), (28, 2, 13.0, 13, 26));
    let report = fs::read_to_string(dir.path().join("report.md")).unwrap();
    for line in ["27 of 27 outputs (100 %) are shorter than asked", "one: the server counts 13 % more prompt tokens"] {
        assert!(report.contains(line), "no {line}");
    }
    change(dir.path(), "run.json", "\"above_10\": 26", "\"above_10\": 25");
    let told = verify(dir.path()).unwrap_err().to_string();
    assert!(told.contains("lengths.one.prompt_off.per_cent.above_10: stored 25, recomputed 26"), "{told}");
}

/// Users and arrivals, with sessions that failed or were cut off, whatever the client could measure.
#[test]
fn sessions_come_out_again() {
    for users in [Some(3), None] {
        let dir = tempfile::tempdir().unwrap();
        let mut specimen = Specimen::sessions(users, 120);
        specimen.plan["goals"] = json!({"request": {}, "share": 0.99,
            "window": {"session.p95": 70.0, "ttft.p50": 500.0, "waited.p50": 1.0}});
        specimen.windows[1].1[40].wire_out = None;
        specimen.windows[1].1[41].cached_tokens = None;
        publish(&mut specimen, dir.path());
        let verified = verify(dir.path()).unwrap();
        assert_eq!(verified.windows, 2);
        let run: Value = serde_json::from_str(&fs::read_to_string(dir.path().join("run.json")).unwrap()).unwrap();
        let window = &run["cells"][0]["windows"][0];
        assert_eq!(window["sessions"]["counts"]["complete"], 114);
        let answers: Vec<&str> =
            window["goals"]["window"].as_array().unwrap().iter().filter_map(|g| g["answer"].as_str()).collect();
        assert_eq!(answers, ["pass", "pass", "fail"], "{}", window["goals"]);
        change(dir.path(), "run.json", "\"cached_share\": 0.44", "\"cached_share\": 0.45");
        let found = verify(dir.path()).unwrap_err().to_string();
        assert!(found.contains("sessions.by_turn[1].cached_share"), "{found}");
    }
    // nothing is told where the client was not fit
    let dir = tempfile::tempdir().unwrap();
    let mut specimen = Specimen::sessions(Some(3), 120);
    for row in specimen.windows.iter_mut().flat_map(|(_, rows)| rows) {
        row.last_token = row.last_token.map(|stamp| Stamp { seen: stamp.seen + 6 * MS, ..stamp });
        row.chunks.iter_mut().for_each(|chunk| chunk.0 += 6 * MS);
        row.first_token = row.first_token.map(|stamp| Stamp { arrived_lo: stamp.arrived.map(|t| t - 3 * MS), ..stamp });
    }
    publish(&mut specimen, dir.path());
    verify(dir.path()).unwrap();
    let run = fs::read_to_string(dir.path().join("run.json")).unwrap();
    assert!(run.contains("ttft@turn2"), "a width that withholds is a verdict of its turn");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Turns that are missing, failed, cut off or never sent, in any order of rows.
    #[test]
    fn sessions_with_holes_come_out_again(fates in prop::collection::vec(0_u8..12, 200), users in prop::option::of(1_u32..5)) {
        let mut specimen = Specimen::sessions(users, 30);
        for (_, rows) in &mut specimen.windows {
            let mut fates = fates.iter();
            rows.retain_mut(|row| match fates.next() {
                Some(0) => false,
                Some(1) => {
                    *row = failed(row.clone(), "timeout");
                    true
                }
                Some(2) => {
                    (row.outcome, row.end, row.done) = (Outcome::Censored, None, None);
                    true
                }
                Some(3) => {
                    (row.outcome, row.submit, row.handed, row.sent, row.wire_out) = (Outcome::NotSent, None, None, None, None);
                    row.error = Some(RowError { class: "client".into(), text: "by hand".into() });
                    true
                }
                Some(4) => {
                    row.session.as_mut().unwrap().after = None;
                    true
                }
                Some(5) => {
                    row.session.as_mut().unwrap().left_out = vec![LeftOut::Parts, LeftOut::Reasoning];
                    true
                }
                Some(6) => {
                    row.flags = vec!["bad_event=2".to_owned()];
                    row.session.as_mut().unwrap().reply_sha256 = None;
                    true
                }
                _ => true,
            });
            if fates.len() % 2 == 0 {
                rows.reverse();
            }
        }
        let dir = tempfile::tempdir().unwrap();
        specimen.write(dir.path());
        fs::write(dir.path().join("run.json"), to_json(&summarise(dir.path()).unwrap()).unwrap()).unwrap();
        let stored: Value = serde_json::from_str(&fs::read_to_string(dir.path().join("run.json")).unwrap()).unwrap();
        let recomputed = run(&Raw::read(dir.path()).unwrap());
        prop_assert_eq!(&stored["cells"][0]["windows"][0]["sessions"], &recomputed["cells"][0]["windows"][0]["sessions"]);
        prop_assert_eq!(stored, recomputed);
    }
}

/// The sessions of a window are what was planned, whatever the window's own line says.
#[test]
fn session_laws_are_held_against_the_plan() {
    let told = |change: fn(&mut Specimen)| {
        let dir = tempfile::tempdir().unwrap();
        let mut specimen = Specimen::sessions(Some(3), 40);
        let (drop, requests) = (specimen.windows[0].0.drop, specimen.windows[0].0.planned);
        let law = json!({"kind": "chat", "turns": [2, 4], "pause": {"after": {"law": "constant", "ns": 7 * MS}}});
        specimen.plan["cells"] = json!([{"model": "sessions", "start": {"users": {"concurrency": 3}}, "law": law,
            "planned": 40, "drop": 4, "requests": requests}]);
        specimen.plan["drop"] = drop.into();
        specimen.windows.iter_mut().for_each(|(bounds, _)| {
            bounds.load.sessions.as_mut().unwrap().pause = Some("think time 0.007 s".into());
        });
        change(&mut specimen);
        // everything that follows from the changed line is made anew
        publish(&mut specimen, dir.path());
        verify(dir.path()).map_err(|difference| difference.to_string())
    };
    assert!(told(|_| ()).is_ok());
    let found = told(|specimen| {
        specimen.windows[1].0.load.sessions.as_mut().unwrap().pause = Some("think time 2 s".into());
    });
    let words = "windows.jsonl:2: load.sessions.pause: stored \"think time 2 s\", recomputed \"think time 0.007 s\"";
    assert_eq!(found, Err(words.to_owned()));
    let found = told(|specimen| specimen.plan["cells"] = json!([{"model": "closed", "concurrency": 3}]));
    assert!(found.is_err_and(|words| words.starts_with("windows.jsonl:1: load.sessions: stored {")));
}

/// What follows replies goes out 3 ms late: due and the time of sessions have that in them, gross and net have not; at a pace net
/// loses its licence instead.
#[test]
fn a_late_turnaround_withholds_what_it_is_in() {
    for (users, paced) in [(Some(3), false), (None, false), (Some(3), true), (None, true)] {
        let mut specimen = Specimen::sessions(users, 120);
        for (bounds, rows) in &mut specimen.windows {
            bounds.load.sessions.as_mut().unwrap().paced = paced;
            for row in rows.iter_mut().filter(|row| row.session.as_ref().is_some_and(|turn| turn.after.is_some())) {
                let stamps = [&mut row.submit, &mut row.handed, &mut row.sent, &mut row.wire_out];
                stamps.into_iter().flatten().for_each(|stamp| *stamp += 3 * MS);
            }
        }
        specimen.plan["goals"] = json!({"request": {"ttft": 500.0}, "share": 0.99, "window": {"session.p50": 70.0}});
        let dir = tempfile::tempdir().unwrap();
        specimen.write(dir.path());
        let stored: Value = serde_json::to_value(summarise(dir.path()).unwrap()).unwrap();
        let recomputed = run(&Raw::read(dir.path()).unwrap());
        assert_eq!(stored, recomputed);
        let window = &stored["cells"][0]["windows"][0];
        let gates = window["client"]["gates"].as_array().unwrap();
        let gate = gates.iter().find(|gate| gate["gate"] == "turnaround").unwrap();
        assert_eq!((&gate["state"], &gate["figure"]), (&json!("void"), &json!(3.01)));
        assert_eq!(gate["voids"], if paced { json!(["net"]) } else { json!(["due"]) });
        assert_eq!(gate["text"], "what follows a reply went out 3.010 ms late at p99 (void above 1.000 ms)");
        let told = |path: &str| window.pointer(&format!("{path}/p50_ms")).is_some_and(Value::is_f64);
        let due = ["/sessions/duration", "/sessions/waited/due", "/metrics/ttft/due"].map(told);
        let net = ["/sessions/waited/net", "/metrics/ttft/net", "/sessions/by_turn/0/ttft/net"].map(told);
        let gross = ["/sessions/waited/gross", "/metrics/ttft/gross", "/sessions/turnaround"].map(told);
        assert_eq!((due, net, gross), ([paced; 3], [!paced; 3], [true; 3]), "{users:?} {paced}");
        let goals = &window["goals"];
        // in open loop goals of requests are counted from due
        let judged = users.is_some() || paced;
        assert_eq!((goals["request"]["answer"] != "not_judged", goals["request"]["share"].is_f64()), (judged, judged));
        assert_eq!(goals["window"][0]["found"].is_f64(), paced);
    }
}

/// Users without a session are told by the window, in either computation.
#[test]
fn requests_sent_again_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let mut specimen = Specimen::two_windows();
    for row in specimen.windows[1].1.iter_mut().filter(|row| row.phase == Phase::Measured).take(2) {
        (row.retries, row.taken) = (1, row.submit.map(|submit| submit - 5 * MS));
    }
    publish(&mut specimen, dir.path());
    verify(dir.path()).unwrap();
    let run = summarise(dir.path()).unwrap();
    let told = |window: usize| {
        let said = &run.cells[0].windows[window].verdicts;
        said.iter().filter(|v| v.text.contains("sent again")).map(|v| v.text.clone()).collect::<Vec<_>>()
    };
    assert!(told(0).is_empty() && told(1).len() == 1, "{:?}", told(1));
    assert!(told(1)[0].contains("requests were sent again") && told(1)[0].contains("up to 5.0 ms"), "{:?}", told(1));
}

#[test]
fn users_without_a_session_are_told() {
    for (users, sessions, words) in [
        (
            50,
            5,
            Some(
                "of 50 users at most 5 led a session at the same time: 5 sessions were asked for, warm-up included; ask for more with --num-sessions",
            ),
        ),
        (5, 5, None),
    ] {
        let mut specimen = Specimen::sessions(Some(users), sessions);
        let dir = tempfile::tempdir().unwrap();
        specimen.write(dir.path());
        let stored: Value = serde_json::to_value(summarise(dir.path()).unwrap()).unwrap();
        assert_eq!(stored, run(&Raw::read(dir.path()).unwrap()));
        let verdicts = stored["cells"][0]["windows"][0]["verdicts"].as_array().unwrap().clone();
        let found: Vec<&Value> = verdicts
            .iter()
            .filter(|v| v["text"].as_str().is_some_and(|text| text.contains("at the same time")))
            .collect();
        assert_eq!(found.iter().filter_map(|v| v["text"].as_str()).collect::<Vec<_>>(), Vec::from_iter(words));
        assert!(found.iter().all(|v| (&v["kind"], &v["figure"]) == (&json!("flag"), &json!(5.0))));
    }
}

/// A window of so many token events that gaps are counted in buckets, in either computation.
#[test]
fn more_values_than_are_kept_are_counted_in_buckets() {
    let mut specimen = Specimen::long(20, 140, |id| id * 7_919 % MS);
    for row in &mut specimen.windows[0].1 {
        let (first, id) = (row.chunks[0], row.trace_id);
        let at = |k: u64| (k * MS + (k + id).wrapping_mul(0x9E37_79B9_7F4A_7C15)) >> 44;
        let chunk = |k: u64| {
            let mut chunk = first;
            let later = |t: u64| t + at(k);
            (chunk.0, chunk.1, chunk.2) = (later(first.0), first.1.map(later), first.2.map(later));
            (chunk.4, chunk.6) = (k as u32, first.6 * 1_000 + k);
            chunk
        };
        row.chunks = (0..400).map(chunk).collect();
        row.token_events = 400;
    }
    let dir = tempfile::tempdir().unwrap();
    publish(&mut specimen, dir.path());
    verify(dir.path()).unwrap();
    let run: Value = serde_json::from_str(&fs::read_to_string(dir.path().join("run.json")).unwrap()).unwrap();
    let metrics = &run["cells"][0]["windows"][0]["metrics"];
    let gap = &metrics["gap"]["gross"];
    assert!(gap["n"].as_u64() > Some(crate::analysis::percentiles::EXACT as u64), "{gap}");
    assert_eq!(gap["buckets"], crate::analysis::percentiles::BUCKETED);
    assert_eq!(gap["ci_ms"], json!({}), "which request each came from is not kept");
    assert!(metrics["ttft"]["gross"].get("buckets").is_none());
    let report = fs::read_to_string(dir.path().join("report.md")).unwrap();
    assert!(report.contains("log buckets of 0.1%"), "the report names the definition");
    let changed = gap["p50_ms"].as_f64().unwrap();
    change(dir.path(), "run.json", &format!("\"p50_ms\": {changed}"), &format!("\"p50_ms\": {}", changed + 1.0));
    assert!(verify(dir.path()).unwrap_err().to_string().starts_with("run.json:"));
}

/// Splits the rows after line `n` into a second file.
fn split(dir: &Path, n: usize) {
    let text = fs::read_to_string(dir.join("requests.jsonl")).unwrap();
    let at = text.match_indices('\n').nth(n - 1).unwrap().0 + 1;
    fs::write(dir.join("requests.jsonl"), &text[..at]).unwrap();
    fs::write(dir.join("requests.2.jsonl"), &text[at..]).unwrap();
}

#[test]
fn rows_in_several_files_are_one_chain() {
    let dir = tempfile::tempdir().unwrap();
    let mut specimen = Specimen::two_windows();
    specimen.windows[1].0.part = 2;
    specimen.write(dir.path());
    split(dir.path(), 30);
    derive(dir.path());
    assert_eq!(verify(dir.path()).unwrap().rows, 60);
    let report = fs::read_to_string(dir.path().join("report.md")).unwrap();
    assert!(report.contains("| requests.2.jsonl | `"), "its digest");
    change(dir.path(), "requests.2.jsonl", "\"trace_id\":5", "\"trace_id\":6");
    let found = verify(dir.path()).unwrap_err().to_string();
    assert!(found.starts_with("requests.2.jsonl:") && found.contains(": h: stored "), "{found}");
    change(dir.path(), "requests.2.jsonl", "\"trace_id\":6", "\"trace_id\":5");
    fs::rename(dir.path().join("requests.2.jsonl"), dir.path().join("requests.3.jsonl")).unwrap();
    let found = verify(dir.path()).unwrap_err().to_string();
    assert_eq!(found, "requests.2.jsonl: cannot be read: it is missing, and requests.3.jsonl is there");
    fs::remove_file(dir.path().join("requests.3.jsonl")).unwrap();
    let found = verify(dir.path()).unwrap_err().to_string();
    assert!(found.starts_with("requests.2.jsonl: cannot be read: it is missing: windows.jsonl:2 says"), "{found}");
}

#[test]
fn a_long_window_is_told_in_slices() {
    let mut specimen = Specimen::long(600, 6_000, |id| id * 7_919 % MS + id * 200);
    let (opened, n) = (specimen.windows[0].0.opened, 600_u64);
    let scrapes = (0..n / 10).map(|i| scrape(opened + i * 10_000 * MS, &[("requests_waiting", i as f64)]));
    specimen.scrapes = scrapes.collect();
    specimen.health = (0..n)
        .map(|i| HealthRow { rss_bytes: Some(30_000_000 + i), ..sample("process", opened + i * 1_000 * MS, i) })
        .collect();
    specimen.windows[0].1[40] = failed(specimen.windows[0].1[40].clone(), "transport");
    let dir = tempfile::tempdir().unwrap();
    publish(&mut specimen, dir.path());
    verify(dir.path()).unwrap();
    let run = summarise(dir.path()).unwrap();
    let window = &run.cells[0].windows[0];
    let soak = window.soak.as_ref().unwrap();
    assert_eq!((soak.slice_s, soak.slices.len()), (30.0, 20));
    assert_eq!(soak.slices.iter().map(|s| s.sent).sum::<u64>(), 6_000);
    assert_eq!(soak.slices.iter().map(|s| s.failed).sum::<u64>(), 1);
    assert!(soak.slices[19].ttft_gross_p50_ms > soak.slices[0].ttft_gross_p50_ms);
    assert_eq!((soak.slices[1].server_waiting, soak.slices[1].client_rss_bytes), (Some(5.0), Some(30_000_059)));
    assert_eq!(soak.client_memory.unwrap().most, 30_000_599);
    let told = soak.slices.iter().filter(|s| s.output_tokens_per_s == Some(30.0)).count();
    assert!(told >= 18 && soak.throughput.is_none(), "slices that are all alike have no trend: {:?}", soak.slices);
    assert!(crate::report::soak::line(window).unwrap().starts_with("10.0 min in 20 slices of 30 s   DRIFTING"));
    let page = fs::read_to_string(dir.path().join("report.html")).unwrap();
    assert!(page.contains("The soak over time"));
    let report = fs::read_to_string(dir.path().join("report.md")).unwrap();
    assert!(report.contains("SOAK: 10.0 min in 20 slices of 30 s") && report.contains("in slices (1 window)"), "box 9");
}

#[test]
fn a_window_that_was_cut_off_is_told_by_its_rows() {
    let dir = tempfile::tempdir().unwrap();
    let mut specimen = Specimen::two_windows();
    specimen.write(dir.path());
    let text = fs::read_to_string(dir.path().join("windows.jsonl")).unwrap();
    let (first, last) = text.trim_end().split_once('\n').unwrap();
    fs::write(dir.path().join("windows.jsonl"), format!("{first}\n")).unwrap();
    let mut opening: crate::rundir::window::WindowRow = serde_json::from_str(last).unwrap();
    (opening.closed, opening.rows) = (opening.opened, 0);
    crate::rundir::opening::write(dir.path(), &opening).unwrap();
    derive(dir.path());
    let verified = verify(dir.path()).unwrap();
    assert_eq!((verified.rows, verified.windows), (60, 2));
    assert!(verified.notes[0].contains("told by its 30 rows"), "{:?}", verified.notes);
    let run = summarise(dir.path()).unwrap();
    let window = &run.cells.iter().flat_map(|cell| &cell.windows).last().unwrap();
    assert!(!run.complete && window.interrupted && window.requests.due == 30, "{:?}", window.requests);
    assert!(run.verdicts.iter().any(|v| v.kind == "window_without_end"));
    crate::rundir::opening::remove(dir.path()).unwrap();
    assert_eq!(summarise(dir.path()).unwrap().cells.iter().flat_map(|cell| &cell.windows).count(), 1);
}

#[test]
fn numbers_that_were_used_up_are_told_alike() {
    let dir = tempfile::tempdir().unwrap();
    let mut specimen = Specimen::two_windows();
    specimen.plan["duration_s"] = 60.into();
    publish(&mut specimen, dir.path());
    verify(dir.path()).unwrap();
    let raw = Raw::read(dir.path()).unwrap();
    let mut cells = cells(&raw);
    let kinds = |cells: &[Value]| run_verdicts(&raw, cells).into_iter().map(|v| v["kind"].clone()).collect::<Vec<_>>();
    assert!(!kinds(&cells).contains(&json!("used_up")));
    cells[0]["windows"][1]["requests"]["due"] = ((1 << 24) - 2).into();
    let found = run_verdicts(&raw, &cells).into_iter().find(|v| v["kind"] == "used_up").unwrap();
    assert!(found["text"].as_str().unwrap().contains("of the 60 s asked for: its 16777214 requests"), "{found}");
    assert_eq!(found["window"], 1);
}
