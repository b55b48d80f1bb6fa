//! Failure on purpose, live: what was done, in which order, and that every request is accounted for.

use crate::binary::{Done, Place, Running, tarebench, wait_until};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tarebench::rundir::mark::{MarkOutcome, MarkRow};

/// Some 2.5 s of load against the built-in mock, one window.
const LOAD: [&str; 13] = [
    "run",
    "--request-rate",
    "200",
    "--burstiness",
    "inf",
    "--num-prompts",
    "500",
    "--drop",
    "0",
    "--windows",
    "1",
    "--min-duration",
    "0",
];

fn run(place: &Place, more: &[&str]) -> Done {
    tarebench(&[&LOAD[..], &["--out", place.out()], more].concat())
}

fn marks(place: &Place) -> Vec<MarkRow> {
    let text = std::fs::read_to_string(place.dir.join("marks.jsonl")).expect("marks.jsonl");
    text.lines().map(|line| serde_json::from_str(line).expect("a mark")).collect()
}

fn failure(place: &Place) -> Value {
    place.json("run.json")["cells"][0]["windows"][0]["failure"].clone()
}

fn is_gone(pid: &str) -> bool {
    let pid: i32 = pid.parse().expect("a pid");
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // dead, and whoever took it over has not waited for it yet
    kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH) || stat.contains(") Z ")
}

#[test]
fn the_mock_is_stopped_and_goes_on_and_counts_close() {
    let place = Place::new();
    let done = run(&place, &["--inject", "node-loss:700ms@1500ms"]);
    place.assert_carried_out(&done);
    let found = marks(&place);
    assert_eq!((found.len(), found[0].outcome), (1, MarkOutcome::Done));
    let (started, ended) = (found[0].started.expect("reached"), found[0].ended.expect("over"));
    assert!(found[0].due <= started && started + 700_000_000 <= ended, "{found:?}");
    let rows = place.rows();
    // a server that is stopped sends nothing: what had not arrived then came later
    let token_in = |from: u64, to: u64| {
        let arrived = rows.iter().flat_map(|row| &row.chunks).map(|chunk| chunk.1.unwrap_or(chunk.0));
        arrived.filter(|t| (from..to).contains(t)).count()
    };
    assert_eq!(token_in(started + 100_000_000, ended), 0, "stopped");
    let window = &place.json("run.json")["cells"][0]["windows"][0];
    let count = |of: &Value, name: &str| of[name].as_u64().unwrap_or_else(|| panic!("{name} in {of}"));
    let requests = &window["requests"];
    assert_eq!((count(requests, "due"), count(requests, "ok")), (500, 500), "late, and not lost");
    let mark = &window["failure"]["marks"][0];
    assert_eq!(mark["degraded"], true, "{mark}");
    let touched = &mark["requests"];
    let parts = ["ok", "failed", "censored", "not_sent"].map(|name| count(touched, name));
    assert_eq!(count(touched, "requests"), parts.iter().sum::<u64>());
    assert!(count(touched, "requests") >= 140, "200/s for 0.7 s: {touched}");
    assert!(done.err.contains("mark     node loss at 1.5 s"), "{}", done.err);
    assert!(done.out.contains("FAILURE INJECTED"), "{}", done.out);
    place.assert_verifies();
}

#[test]
fn commands_that_fail_and_hang_are_told_and_leave_nothing() {
    let place = Place::new();
    let pids = place.dir.with_extension("pids");
    let hang = format!("1s=sleep 600 & echo $$ $! > {}; sleep 600", pids.display());
    let fail = "500ms=echo $TAREBENCH_BASE_URL $TAREBENCH_CELL/$TAREBENCH_WINDOW; echo my hidden-value >&2; \
                kill -0 $TAREBENCH_SERVER_PID && exit 3";
    let late = "2s=true";
    let more = ["--header", "X-Key=hidden-value", "--at-timeout", "0.3", "--at", &hang, "--at", fail, "--at", late];
    let done = run(&place, &more);
    place.assert_carried_out(&done);
    let mut found = marks(&place);
    found.sort_by_key(|mark| mark.mark);
    let outcomes: Vec<_> = found.iter().map(|mark| (mark.outcome, mark.status)).collect();
    let expected = [(MarkOutcome::Failed, Some(3)), (MarkOutcome::TimedOut, None), (MarkOutcome::Done, Some(0))];
    assert_eq!(outcomes, expected, "{found:?}");
    let [url, key] = &found[0].output[..] else { panic!("two lines: {:?}", found[0].output) };
    assert!(url.starts_with("http://127.0.0.1:") && url.ends_with(" 0/0"), "{url}");
    assert_eq!(key, "my [key]");
    let text = std::fs::read_to_string(&pids).expect("it ran");
    wait_until("nothing of the command is left", || text.split_whitespace().all(is_gone));
    for file in ["plan.json", "marks.jsonl", "run.json", "report.md", "boxes.json"] {
        let text = std::fs::read_to_string(place.dir.join(file)).expect(file);
        assert!(!text.contains("hidden-value"), "{file}");
    }
    assert!(!done.err.contains("hidden-value") && done.err.contains("FAILED with exit status 3"), "{}", done.err);
    assert_eq!(failure(&place)["marks"].as_array().map(Vec::len), Some(3));
    place.assert_verifies();
}

#[test]
fn interrupted_in_the_middle_of_a_mark() {
    let place = Place::new();
    let pids = place.dir.with_extension("pids");
    let hang = format!("600ms=echo $$ $TAREBENCH_SERVER_PID > {0}.part; mv {0}.part {0}; sleep 600", pids.display());
    let more = ["--inject", "node-loss:600s@500ms", "--at", &hang, "--out", place.out()];
    let running = Running::start(&[&LOAD[..], &more].concat());
    wait_until("the command runs", || pids.exists());
    running.signal(Signal::SIGINT);
    let done = running.end();
    assert_eq!(done.code, Some(130), "{}", done.err);
    let found = marks(&place);
    assert_eq!(found.iter().map(|mark| mark.outcome).collect::<Vec<_>>(), [MarkOutcome::CutOff; 2], "{found:?}");
    let text = std::fs::read_to_string(&pids).expect("it ran");
    wait_until("neither the command nor the mock is left", || text.split_whitespace().all(is_gone));
    place.assert_verifies();
}
