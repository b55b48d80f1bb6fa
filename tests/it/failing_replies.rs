//! Replies that fail, and what a campaign makes of them.

use crate::binary::{MockProcess, Place, Running, count, lines_of, run_against, wait_until};
use crate::foreign_server::{Answer, ForeignServer};
use std::collections::BTreeSet;
use tarebench::rundir::row::{Outcome, Row};

#[test]
fn a_path_that_is_not_there() {
    let mock = MockProcess::start(&[], &[]);
    let place = Place::new();
    let done = run_against(&mock.url, &place, 8, &["--endpoint", "/v7/chat/completions"]);
    assert_eq!(done.code, Some(3), "{}{}", done.out, done.err);
    assert!(done.out.contains("http_status"), "{}", done.out);
    let rows = place.rows();
    assert_eq!((rows.len(), count(&rows, Outcome::Failed)), (8, 8), "nothing is lost");
    for row in &rows {
        assert_eq!(row.http_status, Some(404));
        assert_eq!(row.error.as_ref().map(|e| e.class.as_str()), Some("http_status"));
    }
    let report = std::fs::read_to_string(place.dir.join("report.md")).expect("a report");
    assert!(report.contains("http_status"), "{report}");
    place.assert_verifies();
}

/// F1: a reply of nothing but `[DONE]` has no first token, and is no success.
#[test]
fn a_reply_of_nothing_but_done_is_a_failure_without_figures() {
    let server = ForeignServer::start(|r, posts| {
        let mut answer = Answer::stream(1, 0);
        if posts == 1 {
            answer.pieces = vec![(0, Some("data: [DONE]\n\n".to_owned()))];
        }
        r.is_post().then_some(answer)
    });
    let place = Place::new();
    let done = run_against(&server.url(), &place, 2, &["--max-concurrency", "1", "--length-probe", "off"]);
    assert_eq!(done.code, Some(3), "{}{}", done.out, done.err);
    let window = &place.json("run.json")["cells"][0]["windows"][0];
    assert_eq!((&window["requests"]["ok"], &window["requests"]["by_error"]["no_token"]), (&1.into(), &1.into()));
    assert_eq!(
        (&window["metrics"]["ttft"]["gross"]["n"], &window["metrics"]["e2e"]["due"]["n"]),
        (&1.into(), &1.into())
    );
    place.assert_verifies();
}

/// F7: a reply that came in one read has no time per token, and does not pass for a fast one.
#[test]
fn a_reply_in_one_read_has_no_time_per_token() {
    let server = ForeignServer::start(|r, _| {
        let mut answer = Answer::stream(5, 0);
        let whole = answer.pieces.iter().filter_map(|(_, text)| text.clone()).collect();
        answer.pieces = vec![(0, Some(whole))];
        r.is_post().then_some(answer)
    });
    let place = Place::new();
    let done = run_against(&server.url(), &place, 20, &[]);
    place.assert_carried_out(&done);
    let rows = place.rows();
    let apart = |row: &&Row| row.chunks.first().map(|c| c.4) != row.chunks.last().map(|c| c.4);
    let apart = rows.iter().filter(apart).count();
    let metrics = &place.json("run.json")["cells"][0]["windows"][0]["metrics"];
    assert_eq!(metrics["e2e"]["gross"]["n"], 20);
    assert_eq!(metrics["tpot"]["gross"]["n"].as_u64().unwrap_or(0), apart as u64, "only those of several reads");
    assert!(apart < 20, "the server writes each at once");
    assert!(done.out.contains("of token events share a read"), "{}", done.out);
    place.assert_verifies();
}

/// F8: 300 replies of 200 without a token: nothing was completed, whatever length was asked for.
#[test]
fn replies_of_a_role_and_an_end_are_no_output() {
    let role = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
    let finish = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let server = ForeignServer::start(move |r, _| {
        let mut answer = Answer::stream(0, 0);
        answer.pieces = vec![(0, Some(format!("{role}{finish}")))];
        r.is_post().then_some(answer)
    });
    let place = Place::new();
    let done = run_against(&server.url(), &place, 300, &["--max-concurrency", "4"]);
    assert_eq!(done.code, Some(3), "{}{}", done.out, done.err);
    let window = &place.json("run.json")["cells"][0]["windows"][0];
    assert_eq!((&window["requests"]["ok"], &window["requests"]["by_error"]["no_token"]), (&0.into(), &300.into()));
    assert!(window["tokens"]["completion"].is_null() && window["metrics"]["ttft"]["gross"].is_null());
    let rate = &window["throughput"]["whole"]["output_tokens_per_s"];
    assert!(rate.as_f64().unwrap_or(0.0) == 0.0, "{rate}");
    place.assert_verifies();
}

/// F2: nothing succeeded.
#[test]
fn a_cell_where_nothing_succeeds_has_no_figures() {
    let server = ForeignServer::start(|r, _| r.is_post().then(|| Answer::json(500, "{\"error\":\"no\"}")));
    let place = Place::new();
    let done = run_against(&server.url(), &place, 20, &[]);
    assert_eq!(done.code, Some(3), "{}{}", done.out, done.err);
    let run = place.json("run.json");
    let window = &run["cells"][0]["windows"][0];
    assert_eq!((&window["requests"]["ok"], &window["requests"]["failed"]), (&0.into(), &20.into()));
    assert_eq!(window["requests"]["by_error"]["http_status"], 20);
    for metric in ["ttft", "ttfo", "e2e", "gap", "stall", "tpot"] {
        for column in ["gross", "tare", "net"] {
            let p50 = &window["metrics"][metric][column]["p50_ms"];
            assert!(p50.is_null(), "{metric} {column}: {p50}");
        }
    }
    assert_eq!(place.rows().len(), 20);
    place.assert_verifies();
}

/// F3: failures are shown.
#[test]
fn three_of_ten_fail() {
    let server = ForeignServer::start(|r, posts| {
        let bad = [2, 5, 7].contains(&posts);
        r.is_post().then(|| if bad { Answer::json(500, "{\"error\":\"no\"}") } else { Answer::stream(3, 0) })
    });
    let place = Place::new();
    let done = run_against(&server.url(), &place, 10, &["--max-concurrency", "1", "--length-probe", "off"]);
    assert_eq!(done.code, Some(3), "{}{}", done.out, done.err);
    let requests = &place.json("run.json")["cells"][0]["windows"][0]["requests"];
    assert_eq!((&requests["kept"], &requests["ok"], &requests["failed"]), (&10.into(), &7.into(), &3.into()));
    assert_eq!(requests["by_error"]["http_status"], 3);
    let first: String = done.out.lines().take(12).collect::<Vec<_>>().join("\n");
    assert!(first.contains("7 ok") && first.contains("3 FAILED"), "the first lines say so: {first}");
    assert!(done.out.contains("http_status"), "split by cause: {}", done.out);
    place.assert_verifies();
}

#[test]
fn a_hung_reply_ends_by_its_timeout_and_the_others_count() {
    // H1: one of twenty never comes
    let server = ForeignServer::start(|r, posts| {
        let mut answer = Answer::stream(2, 0);
        if posts == 9 {
            answer.pieces.insert(1, (600_000, Some(String::new())));
        }
        r.is_post().then_some(answer)
    });
    let place = Place::new();
    let done = run_against(&server.url(), &place, 20, &["--stall-timeout", "0.5"]);
    assert_eq!(done.code, Some(3), "5 % failed: {}{}", done.out, done.err);
    let rows = place.rows();
    assert_eq!((count(&rows, Outcome::Ok), count(&rows, Outcome::Failed)), (19, 1));
    let error = rows.iter().find_map(|r| r.error.clone()).expect("one");
    assert_eq!(error.class, "timeout");
    assert!(error.text.contains("stall") && error.text.contains("500"), "its name and value: {}", error.text);
    place.assert_verifies();
}

#[test]
fn a_server_that_dies_in_the_middle_fails_the_rest_and_loses_nothing() {
    let mut mock = MockProcess::start(&[], &[]);
    let place = Place::new();
    let flags = ["run", "--base-url", &mock.url, "--max-concurrency", "4", "--num-prompts", "300", "--drop", "0"];
    let more = ["--windows", "1", "--length-scale", "0.1", "--out", place.out()];
    let run = Running::start(&[&flags[..], &more].concat());
    wait_until("some rows", || lines_of(&place.dir.join("requests.jsonl")) >= 20);
    mock.child.kill().expect("it is ours");
    let done = run.end();
    assert_eq!(done.code, Some(3), "{}{}", done.out, done.err);
    let rows = place.rows();
    assert_eq!((rows.len(), count(&rows, Outcome::Ok) + count(&rows, Outcome::Failed)), (300, 300));
    let classes: BTreeSet<&str> = rows.iter().filter_map(|r| r.error.as_ref()).map(|e| e.class.as_str()).collect();
    assert!(classes.contains("connect"), "{classes:?}");
    assert!(classes.is_subset(&["connect", "transport"].into()), "{classes:?}");
    place.assert_verifies();
}

#[test]
fn a_run_ends_at_its_limit_of_failures() {
    let server = ForeignServer::start(|r, _| r.is_post().then(|| Answer::json(500, "{\"error\":\"no\"}")));
    let place = Place::new();
    let done = run_against(&server.url(), &place, 1_000_000, &["--stop-at-failed", "5"]);
    assert_eq!(done.code, Some(3), "nobody interrupted it: {}{}", done.out, done.err);
    assert!(done.err.contains("--stop-at-failed"), "{}", done.err);
    let rows = place.rows();
    assert!(count(&rows, Outcome::Failed) >= 5);
    assert_eq!(place.json("run.json")["complete"], false);
    place.assert_verifies();
}
