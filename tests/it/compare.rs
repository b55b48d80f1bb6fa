//! `tarebench compare` on the directories of real runs.

use crate::binary::{Place, tarebench};
use crate::live::RunningMock;
use calibration::mock::MockConfig;
use serde_json::Value;

/// A run of four windows at one load.
fn measured(mock: &RunningMock, more: &[&str]) -> Place {
    let place = Place::new();
    let url = format!("http://{}", mock.address);
    let mut args = vec!["run", "--base-url", &url, "--out", place.out(), "--windows", "4", "--max-concurrency", "2"];
    args.extend(["--num-prompts", "20", "--drop", "0", "--length-scale", "0.02"]);
    args.extend(more);
    let done = tarebench(&args);
    assert!([Some(0), Some(3)].contains(&done.code), "{}", done.err);
    place
}

#[test]
fn two_runs_of_one_plan_and_one_of_another() {
    let mock = RunningMock::start(MockConfig::default());
    let (a, b, other) = (measured(&mock, &[]), measured(&mock, &[]), measured(&mock, &["--temperature", "0.5"]));

    let compared = tarebench(&["compare", a.out(), b.out(), "--json", "--metrics", "ttft.p50,throughput.output"]);
    // whether the client was fit is an answer about this machine
    assert!([Some(0), Some(3)].contains(&compared.code), "{}", compared.err);
    let document: Value = serde_json::from_str(&compared.out).expect("JSON and nothing else");
    assert_eq!(document["schema"], "tarebench.comparison/1");
    assert_eq!((&document["rules"]["tests"], &document["rules"]["windows_needed"]), (&2.into(), &5.into()));
    assert_eq!(document["differences"], Value::Array(Vec::new()), "one plan, one server");
    let row = &document["cells"][0]["rows"][0];
    assert_eq!((row["a"].as_array().map(Vec::len), row["b"].as_array().map(Vec::len)), (Some(4), Some(4)));
    let verdict = row["verdict"].as_str().expect("a verdict");
    assert!(verdict != "SUPPORTED", "four windows cannot carry two tests");

    for form in [None, Some("--markdown")] {
        let args: Vec<&str> = ["compare", a.out(), b.out()].into_iter().chain(form).collect();
        let shown = tarebench(&args);
        assert!(shown.out.contains("ttft p50") && shown.out.contains("ttft p99"), "{}{}", shown.out, shown.err);
        assert!(form.is_some() || shown.out.lines().all(|l| l.chars().count() <= 100), "{}", shown.out);
    }

    let refused = tarebench(&["compare", a.out(), other.out()]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.err.contains("x sampling") && refused.err.contains("temperature 0.0  |  temperature 0.5"),
        "{}",
        refused.err
    );
    let named = tarebench(&["compare", a.out(), other.out(), "--varies", "sampling"]);
    assert!([Some(0), Some(3)].contains(&named.code), "{}", named.err);
    assert!(named.out.contains("(under test)"), "{}", named.out);

    let both = format!("{},{}", a.out(), b.out());
    let twice = tarebench(&["compare", &both, a.out()]);
    assert!(twice.code == Some(1) && twice.err.contains("are the same run"), "{}", twice.err);
}

#[test]
fn words_that_mean_nothing_are_wrong_usage() {
    for args in [
        &["a", "b", "--metrics", "ttft.mean"][..],
        &["a", "b", "--metrics", "ttft.p50,ttft.p50"],
        &["a", "b", "--margin", "0"],
        &["a", "b", "--varies", "weather"],
        &["a", "b", "--allow-differences", "weather"],
        &["a", "b", "--json", "--markdown"],
        &["a"],
    ] {
        let args: Vec<&str> = ["compare"].into_iter().chain(args.iter().copied()).collect();
        assert_eq!(tarebench(&args).code, Some(2), "{args:?}");
    }
    let nowhere = tarebench(&["compare", "/nowhere/a", "/nowhere/b"]);
    assert!(nowhere.code == Some(1) && nowhere.err.contains("/nowhere/a: no such directory"), "{}", nowhere.err);
}
