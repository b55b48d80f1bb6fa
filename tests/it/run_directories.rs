//! Run directories that cannot be used, are full, or hold something already.

use crate::binary::{MockProcess, Place, run_against, tarebench};
use std::net::TcpListener;

#[test]
fn a_run_directory_that_cannot_be_used() {
    let place = Place::new();
    std::fs::write(&place.dir, "a file").expect("written");
    for out in [place.out().to_owned(), format!("{}/below", place.out())] {
        let done = tarebench(&["run", "--num-prompts", "1", "--out", &out]);
        assert_eq!(done.code, Some(1), "{}", done.err);
        assert!(done.err.contains(&out) && done.err.contains("--out"), "{}", done.err);
    }
    assert_eq!(std::fs::read_to_string(&place.dir).expect("still there"), "a file");

    let place = Place::new();
    std::fs::create_dir(&place.dir).expect("made");
    std::fs::write(place.dir.join("requests.jsonl"), "precious").expect("written");
    let done = tarebench(&["run", "--num-prompts", "1", "--out", place.out()]);
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert!(done.err.contains("not empty") && done.err.contains("--force"), "{}", done.err);
    assert_eq!(std::fs::read_to_string(place.dir.join("requests.jsonl")).expect("there"), "precious");
}

#[test]
fn a_full_disk_ends_the_run_in_words() {
    let place = Place::new();
    std::fs::create_dir(&place.dir).expect("made");
    std::os::unix::fs::symlink("/dev/full", place.dir.join("requests.jsonl")).expect("linked");
    let flags = ["run", "--force", "--max-concurrency", "4", "--num-prompts", "2000", "--drop", "0", "--windows", "1"];
    let done = tarebench(&[&flags[..], &["--out", place.out()]].concat());
    assert_eq!(done.code, Some(1), "{}{}", done.out, done.err);
    assert!(done.err.contains("requests.jsonl"), "{}", done.err);
}

#[test]
fn a_run_that_does_not_come_about_leaves_its_place_free() {
    let place = Place::new();
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address");
    let done = run_against(&format!("http://{closed}"), &place, 4, &[]);
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert!(!place.dir.exists(), "nothing was measured");
}

#[test]
fn what_an_earlier_run_left_does_not_pass_for_this_ones() {
    let (mock, place) = (MockProcess::start(&[], &[]), Place::new());
    place.assert_carried_out(&run_against(&mock.url, &place, 4, &[]));
    for name in ["truth.jsonl", "closure.json", "canary.jsonl", "canary-truth.jsonl", "canary.json"] {
        std::fs::write(place.dir.join(name), "{}").expect("written");
    }
    std::fs::write(place.dir.join("notes.txt"), "mine").expect("written");
    // a server that is not there costs nothing
    let refused = tarebench(&["run", "--base-url", "http://127.0.0.1:1", "--force", "--out", place.out()]);
    assert_eq!(refused.code, Some(1), "{}", refused.err);
    assert_eq!(place.rows().len(), 4, "what was measured is there");
    place.assert_carried_out(&run_against(&mock.url, &place, 6, &["--force"]));
    assert_eq!(place.rows().len(), 6);
    assert!(!place.dir.join("truth.jsonl").exists() && !place.dir.join("canary.json").exists());
    assert!(place.dir.join("notes.txt").exists(), "what is not ours stays");
    place.assert_verifies();
}
