//! Signals: a run that is interrupted keeps what it measured.

use crate::binary::{BINARY, MockProcess, Place, Running, count, lines_of, wait_until};
use nix::sys::signal::Signal;
use std::net::TcpListener;
use tarebench::rundir::row::Outcome;

#[test]
fn an_interrupted_run_keeps_what_it_measured() {
    let place = Place::new();
    let run = Running::start(&[
        "run",
        "--max-concurrency",
        "4",
        "--num-prompts",
        "50",
        "--drop",
        "0",
        "--windows",
        "3",
        "--min-duration",
        "50",
        "--out",
        place.out(),
    ]);
    wait_until("some rows", || lines_of(&place.dir.join("requests.jsonl")) >= 20);
    run.signal(Signal::SIGINT);
    let done = run.end();
    assert_eq!(done.code, Some(130), "{}{}", done.out, done.err);
    let rows = place.rows();
    assert!(rows.len() >= 20 && count(&rows, Outcome::Ok) >= 20);
    assert!(count(&rows, Outcome::Censored) <= 4, "what was running is censored");
    assert_eq!(count(&rows, Outcome::Failed), 0, "an interrupt is nobody's failure");
    let run = place.json("run.json");
    assert_eq!(run["complete"], false);
    let requests = &run["cells"][0]["windows"][0]["requests"];
    let n = |name: &str| requests[name].as_u64().expect("a count");
    assert_eq!(n("due"), n("not_sent") + n("sent"));
    assert_eq!(n("kept"), n("ok") + n("failed") + n("censored"));
    assert!(place.dir.join("report.md").is_file() && place.dir.join("report.html").is_file());
    place.assert_verifies();
}

#[test]
fn a_second_interrupt_ends_at_once() {
    // a server that accepts and says nothing: the first interrupt has to wait for it
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let place = Place::new();
    let url = format!("http://{}", silent.local_addr().expect("bound"));
    let mut run = Running::start(&["run", "--base-url", &url, "--num-prompts", "2", "--out", place.out()]);
    // a look whether the port is open, then the first question
    let waiting = [silent.accept(), silent.accept()];
    assert!(waiting.iter().all(Result::is_ok));
    // signals of one kind merge while they are pending, so the second is repeated until it is taken
    wait_until("the end of the process", || {
        if !run.has_ended() {
            run.signal(Signal::SIGINT);
        }
        run.has_ended()
    });
    assert_eq!(run.end().code, Some(130));
}

#[test]
fn an_interrupt_while_nothing_is_measured() {
    let address = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    let (place, url) = (Place::new(), format!("http://{address}"));
    let run = Running::start(&["run", "--base-url", &url, "--wait", "50", "--num-prompts", "1", "--out", place.out()]);
    wait_until("the run directory", || place.dir.exists());
    run.signal(Signal::SIGINT);
    let done = run.end();
    assert_eq!(done.code, Some(130), "{}{}", done.out, done.err);
}

#[test]
fn an_interrupt_between_two_windows() {
    let place = Place::new();
    let flags = ["run", "--max-concurrency", "2", "--num-prompts", "6", "--drop", "0", "--windows", "2"];
    let more = ["--min-duration", "0", "--gap-between-windows", "50", "--out", place.out()];
    let run = Running::start(&[&flags[..], &more].concat());
    wait_until("the first window", || lines_of(&place.dir.join("windows.jsonl")) == 1);
    run.signal(Signal::SIGINT);
    let done = run.end();
    assert_eq!(done.code, Some(130), "{}{}", done.out, done.err);
    assert_eq!(place.rows().len(), 6);
    place.assert_verifies();
}

#[test]
fn a_run_under_nohup_outlives_its_terminal() {
    let (mock, place) = (MockProcess::start(&["--ttft", "20", "--itl", "20"], &[]), Place::new());
    let flags = ["run", "--base-url", &mock.url, "--max-concurrency", "2", "--num-prompts", "10", "--drop", "0"];
    let mut nohup = std::process::Command::new("nohup");
    nohup.arg(BINARY);
    let all = [&flags[..], &["--windows", "1", "--length-scale", "0.05", "--out", place.out()]].concat();
    let run = Running::start_by(nohup, &all);
    wait_until("a row", || {
        std::fs::read_to_string(place.dir.join("requests.jsonl")).is_ok_and(|t| t.lines().count() > 0)
    });
    run.signal(Signal::SIGHUP);
    let done = run.end();
    place.assert_carried_out(&done);
    assert_eq!(place.rows().len(), 10);
}
