//! What stands on standard output, and readers of it that go away.

use crate::binary::{BINARY, MockProcess, PATIENCE, Place, done, run_against, tarebench};
use assert_cmd::Command;
use serde_json::Value;

#[test]
fn json_is_the_only_thing_on_standard_output_when_asked() {
    let place = Place::new();
    let small = ["run", "--max-concurrency", "2", "--num-prompts", "6", "--drop", "0", "--windows", "1", "--json"];
    let done = tarebench(&[&small[..], &["--min-duration", "0", "--out", place.out()]].concat());
    place.assert_carried_out(&done);
    let printed: Value = serde_json::from_str(&done.out).expect("JSON and nothing else");
    assert_eq!(printed, place.json("run.json"));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let place = Place::new();
    let words = format!(
        "'{BINARY}' run --quiet --json --max-concurrency 1 --num-prompts 2 --drop 0 --windows 1 --min-duration 0 --out \
         '{}' | true; exit ${{PIPESTATUS[0]}}",
        place.out()
    );
    let mut command = Command::new("bash");
    let done = done(&command.args(["-c", &words]).timeout(PATIENCE).output().expect("bash runs"));
    place.assert_carried_out(&done);
    place.assert_verifies();
}

#[test]
fn a_result_that_cannot_be_printed_is_a_failure() {
    let (mock, place) = (MockProcess::start(&[], &[]), Place::new());
    place.assert_carried_out(&run_against(&mock.url, &place, 4, &[]));
    let full = || std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    let mut command = std::process::Command::new(BINARY);
    let done = done(&command.args(["verify", place.out()]).stdout(full()).output().expect("runs"));
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert!(done.err.contains("standard output cannot be written"), "{}", done.err);
}

#[test]
fn a_complaint_that_nobody_reads_is_no_panic() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = std::process::Command::new(BINARY);
    let done = done(&command.args(["report", "/no/such/run"]).stderr(writer).output().expect("runs"));
    assert_eq!(done.code, Some(1), "101 would be a panic");
}

#[test]
fn cases_that_nobody_reads_any_more_are_no_failure() {
    let case = r#"{"id":"a","raw":false,"writes":[[1,"data: [DONE]\n\n"]]}"#;
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), format!("{case}\n").repeat(3)).expect("written");
    let mut command = std::process::Command::new(BINARY);
    let done = done(&command.arg("decode").arg(file.path()).stdout(writer).output().expect("runs"));
    assert_eq!((done.code, done.err.as_str()), (Some(0), ""));
}
