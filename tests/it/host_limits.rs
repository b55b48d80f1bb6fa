//! What the host allows a process: descriptors, and how long a file may be.

use crate::binary::{MockProcess, Place, count, lines_of, tarebench, under_limits};
use tarebench::rundir::row::Outcome;

#[test]
fn too_few_descriptors_are_refused_before_the_first_request() {
    let place = Place::new();
    let done = under_limits("-n 64", &["run", "--max-concurrency", "50", "--out", place.out()]);
    assert_eq!(done.code, Some(1), "{}", done.err);
    for words in ["278", "64", "ulimit", "--max-concurrency"] {
        assert!(done.err.contains(words), "{words} in {}", done.err);
    }
    assert!(!place.dir.exists(), "nothing was begun");
}

#[test]
fn a_low_soft_limit_on_descriptors_is_raised_aloud() {
    let place = Place::new();
    let args = ["run", "--max-concurrency", "2", "--num-prompts", "4", "--drop", "0", "--windows", "1"];
    let done = under_limits("-Sn 70", &[&args[..], &["--min-duration", "0", "--out", place.out()]].concat());
    place.assert_carried_out(&done);
    assert!(done.err.contains("raised from 70 to 134"), "{}", done.err);
}

#[test]
fn the_number_of_descriptors_that_is_asked_for_is_enough() {
    let place = Place::new();
    let flags = ["run", "--max-concurrency", "20", "--num-prompts", "100", "--drop", "0", "--windows", "1"];
    let more = ["--connection", "per-request", "--min-duration", "0", "--out", place.out()];
    let done = under_limits("-n 188", &[&flags[..], &more].concat());
    place.assert_carried_out(&done);
    assert_eq!(count(&place.rows(), Outcome::Ok), 100);
}

#[test]
fn a_file_that_may_grow_no_further_ends_the_run_like_a_full_disk() {
    let mock = MockProcess::start(&["--ttft", "1", "--itl", "0.1"], &[]);
    // blocks of 1,024 bytes: rows of some 2 KB each; of the few of the second all are written at the window's end
    for (limit, requests, fewest) in [("-f 200", "400", 20), ("-f 14", "12", 2)] {
        let place = Place::new();
        let flags =
            ["run", "--base-url", &mock.url, "--max-concurrency", "2", "--num-prompts", requests, "--drop", "0"];
        let more = ["--windows", "1", "--length-scale", "0.05", "--metrics-url", "none", "--out", place.out()];
        let done = under_limits(limit, &[&flags[..], &more].concat());
        assert_eq!(done.code, Some(1), "{limit}: none where a signal ended it: {}{}", done.out, done.err);
        assert!(done.err.contains("requests.jsonl cannot be written: File too large"), "{}", done.err);
        let kept = format!("stays in {0}: tarebench report {0} shows it", place.out());
        assert!(done.err.contains(&kept), "{}", done.err);
        let rows = lines_of(&place.dir.join("requests.jsonl"));
        assert!(rows >= fewest, "{rows}");
        place.assert_verifies();
        let report = tarebench(&["report", place.out()]);
        assert_eq!(report.code, Some(0), "{}{}", report.out, report.err);
        assert!(report.out.contains(&format!("{rows} ok")), "{}", report.out);
    }
}
