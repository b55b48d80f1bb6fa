//! The JSON Schemas that are kept under `schemas/`: whether they are those of this code, and whether what is really written
//! keeps to them.

use crate::binary::{Place, tarebench};
use crate::live::RunningMock;
use calibration::mock::MockConfig;
use jsonschema::Validator;
use serde_json::Value;
use std::path::Path;
use tarebench::schemas::{self, Schema};

fn schema(file: &str) -> Schema {
    schemas::all().into_iter().find(|s| s.file == file).expect("a schema of that name")
}

fn validator(file: &str) -> Validator {
    jsonschema::validator_for(&schema(file).document).expect("a schema that is one")
}

/// What is wrong with a document.
fn faults(validator: &Validator, document: &Value) -> Vec<String> {
    validator.iter_errors(document).map(|e| format!("{}: {e}", e.instance_path())).take(5).collect()
}

#[test]
fn they_are_those_of_this_code() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
    let mut files: Vec<String> = std::fs::read_dir(&kept)
        .expect("schemas/")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    files.sort();
    let mut expected: Vec<&str> = schemas::all().iter().map(|s| s.file).collect();
    expected.sort_unstable();
    assert_eq!(files, expected, "in schemas/; cargo run --example schemas writes them, what is left over is deleted");
    for schema in schemas::all() {
        let text = std::fs::read_to_string(kept.join(schema.file)).expect("a schema");
        assert!(
            text == schema.text(),
            "schemas/{} is not of what is written as {}. If only words changed, write it anew: cargo run --example schemas. \
             If the shape changed (a key more or less, another type, another meaning), programs that read the old one \
             stumble: unless that version was never released, raise the number of {} first, say so in CHANGELOG.md, then \
             write it anew",
            schema.file,
            schema.of,
            schema.document["title"],
        );
    }
}

#[test]
fn they_refuse_what_is_not_written() {
    let run = validator("run.schema.json");
    let nothing = serde_json::json!({"schema": "tarebench.run/1"});
    assert!(!run.is_valid(&nothing), "keys are missing");
    let boxes = validator("boxes.schema.json");
    assert!(boxes.is_valid(&serde_json::json!({"schema": "tarebench.boxes/1", "boxes": []})));
    assert!(!boxes.is_valid(&serde_json::json!({"schema": "tarebench.boxes/2", "boxes": []})), "another version");
    assert!(!boxes.is_valid(&serde_json::json!({"schema": "tarebench.boxes/1", "boxes": [], "more": 1})));
}

fn read(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).expect("JSON")
}

/// Every document and line of a run directory.
fn hold(dir: &Path) {
    for (file, kept) in [("run.json", "run.schema.json"), ("boxes.json", "boxes.schema.json")] {
        assert_eq!(faults(&validator(kept), &read(&dir.join(file))), Vec::<String>::new(), "{file}");
    }
    let lines = [
        ("requests.jsonl", "requests.schema.json"),
        ("windows.jsonl", "windows.schema.json"),
        ("health.jsonl", "health.schema.json"),
        ("server-metrics.jsonl", "server-metrics.schema.json"),
    ];
    for (file, kept) in lines {
        let validator = validator(kept);
        let text = std::fs::read_to_string(dir.join(file)).expect(file);
        assert!(!text.is_empty(), "{file}");
        for (number, line) in text.lines().enumerate() {
            let line: Value = serde_json::from_str(line).expect("a line of JSON");
            assert_eq!(faults(&validator, &line), Vec::<String>::new(), "{file}:{}", number + 1);
        }
    }
}

#[test]
fn what_runs_write_keeps_to_them() {
    let mock = RunningMock::start(MockConfig::default());
    let url = format!("http://{}", mock.address);
    let run = |loads: &[&str]| {
        let place = Place::new();
        let mut args = vec!["run", "--base-url", &url, "--out", place.out(), "--windows", "2", "--num-prompts", "20"];
        args.extend(["--drop", "2", "--length-scale", "0.02", "--goodput", "ttft:500"]);
        args.extend(loads);
        let done = tarebench(&args);
        assert!([Some(0), Some(3)].contains(&done.code), "{}", done.err);
        hold(&place.dir);
        place
    };
    let closed = run(&["--max-concurrency", "1,2"]);
    let open = run(&["--request-rate", "200,400"]);
    let other = run(&["--max-concurrency", "1,2"]);

    let json = |args: &[&str]| -> Value {
        let done = tarebench(args);
        serde_json::from_str(&done.out).unwrap_or_else(|e| panic!("{args:?}: {e}: {}{}", done.out, done.err))
    };
    let of_run = validator("run.schema.json");
    let again = json(&["report", open.out(), "--json"]);
    assert_eq!(faults(&of_run, &again), Vec::<String>::new());
    assert_eq!(again, read(&open.dir.join("run.json")));
    let several = json(&["report", closed.out(), open.out(), "--json"]);
    for name in ["a", "b"] {
        assert_eq!(faults(&of_run, &several[name]), Vec::<String>::new());
    }
    let verified = json(&["verify", open.out(), "--json"]);
    assert_eq!(verified["verified"], true, "{verified}");
    let compared = json(&["compare", closed.out(), other.out(), "--json"]);
    assert_eq!(faults(&validator("comparison.schema.json"), &compared), Vec::<String>::new());
}
