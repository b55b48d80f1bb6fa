//! Every recorded case gives its right answers, however its writes are cut.

use serde_json::Value;
use tarebench::decode::{Case, WireWrite, decode, figures};

/// Lines of a case file under tests/cases.
pub fn lines(name: &str) -> Vec<String> {
    let path = format!("{}/tests/cases/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    text.lines().filter(|l| !l.trim().is_empty()).map(str::to_owned).collect()
}

/// Whether `got` is what `expect` asks for: numbers as numbers, flags as a subset.
pub fn check(id: &str, expect: &Value, got: &Value, skip_times: bool) -> Vec<String> {
    let Some(expect) = expect.as_object() else { return vec![format!("{id}: no expect")] };
    let same = |a: &Value, b: &Value| match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => (a - b).abs() < 1e-9,
        _ => a == b,
    };
    let same_list = |a: &Value, b: &Value| match (a.as_array(), b.as_array()) {
        (Some(a), Some(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        _ => same(a, b),
    };
    let mut wrong = Vec::new();
    for (name, want) in expect {
        let have = got.get(name).unwrap_or(&Value::Null);
        let right = match name.as_str() {
            "flags" => {
                want.as_array().is_some_and(|w| w.iter().all(|f| have.as_array().is_some_and(|h| h.contains(f))))
            }
            _ if skip_times && name.ends_with("_ms") => have.is_null() == want.is_null(),
            _ => same_list(want, have),
        };
        if !right {
            wrong.push(format!("{id}: {name}: want {want}, got {have}"));
        }
    }
    wrong
}

fn cut(wire: &[WireWrite], at: usize) -> Vec<WireWrite> {
    wire.iter()
        .flat_map(|w| {
            let (a, b) = w.bytes.split_at(at.min(w.bytes.len()));
            [a, b].map(|bytes| WireWrite { bytes: bytes.to_vec(), ..w.clone() })
        })
        .collect()
}

fn one_byte_each(wire: &[WireWrite]) -> Vec<WireWrite> {
    wire.iter().flat_map(|w| w.bytes.iter().map(|b| WireWrite { bytes: vec![*b], ..w.clone() })).collect()
}

fn check_file(name: &str) {
    let mut wrong = Vec::new();
    let lines = lines(name);
    assert!(!lines.is_empty());
    for line in &lines {
        let case = Case::parse(line).unwrap_or_else(|e| panic!("{name}: {e}: {line}"));
        let expect = serde_json::from_str::<Value>(line).expect("parsed before")["expect"].clone();
        let wire = case.wire().expect("checked before");
        let run =
            |wire: &[WireWrite]| figures(&case.id, &case.request, &decode(&case.id, &case.request, wire, case.raw));
        let whole = run(&wire);
        wrong.extend(check(&case.id, &expect, &whole, false));
        // times belong to the write, so a cut changes nothing at all
        let longest = wire.iter().map(|w| w.bytes.len()).max().unwrap_or(0);
        for at in 1..longest {
            if run(&cut(&wire, at)) != whole {
                wrong.push(format!("{}: differs when every write is cut at {at}", case.id));
                break;
            }
        }
        if run(&one_byte_each(&wire)) != whole {
            wrong.push(format!("{}: differs byte by byte", case.id));
        }
    }
    assert!(wrong.is_empty(), "{} wrong in {name}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn streams() {
    check_file("streams.jsonl");
}

#[test]
fn captures() {
    check_file("captures.jsonl");
}

#[test]
fn user_reports() {
    check_file("user-reports.jsonl");
}
