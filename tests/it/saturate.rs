//! `saturate`: searches against a mock of known capacity, what is kept of them, and that it is what the rows say.

use crate::binary::{MockProcess, Place, tarebench};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// A mock of `slots` slots that serves a request in 20 ms, whoever asks.
fn mock(slots: u32) -> MockProcess {
    let slots = slots.to_string();
    MockProcess::start(&["--ttft", "10", "--itl", "2.5", "--tokens", "5", "--max-num-seqs", &slots], &[])
}

fn search(url: &str, place: &Place, more: &[&str]) -> crate::binary::Done {
    let flags = ["saturate", "--base-url", url, "--goodput", "ttft:60000", "--num-prompts", "60", "--drop", "5"];
    let work = ["--workload", "random", "--random-input-len", "8", "--random-output-len", "5", "--out", place.out()];
    tarebench(&[&flags[..], &work, more].concat())
}

#[test]
fn a_search_is_kept_and_is_what_its_rows_say() {
    let (place, mock) = (Place::new(), mock(4));
    // no miss is possible, and 368 requests are needed to show it: every answer is open or the client's
    let more = ["--step-duration", "0", "--from", "20", "--to", "80", "--max-steps", "6", "--points", "50"];
    let done = search(&mock.url, &place, &more);
    assert_eq!(done.code, Some(3), "{}{}", done.out, done.err);
    let found = place.json("saturation.json");
    assert_eq!((&found["schema"], &found["conclusive"]), (&"tarebench.saturation/1".into(), &false.into()));
    let steps = found["steps"].as_array().expect("steps");
    assert!(!steps.is_empty() && steps.len() <= 6, "{found}");
    for step in steps {
        let dir = place.dir.join(step["dir"].as_str().expect("a name"));
        assert!(dir.join("run.json").exists() && dir.join("report.md").exists(), "{step}");
        let plan: Value =
            serde_json::from_str(&fs::read_to_string(dir.join("plan.json")).expect("a plan")).expect("JSON");
        assert_eq!(plan["early_end"]["when_over_saturated"], true);
        assert!(["unclear", "client"].contains(&step["answer"]["kind"].as_str().expect("a kind")), "{step}");
    }
    assert!(done.out.contains("saturation") && done.out.contains("knee"), "{}", done.out);
    let verified = place.verify();
    assert_eq!(verified.code, Some(0), "{}{}", verified.out, verified.err);
    assert!(verified.out.contains("the search over them, saturation.json, report.md and report.html, bit for bit"));
}

#[test]
fn a_figure_that_was_changed_is_found() {
    let (place, mock) = (Place::new(), mock(4));
    let done = search(&mock.url, &place, &["--step-duration", "0", "--over", "concurrency", "--max-steps", "2"]);
    assert_eq!(done.code, Some(3), "{}{}", done.out, done.err);
    assert_eq!(place.verify().code, Some(0));
    let file = |name: &str| place.dir.join(name);
    let changed = |name: &str, from: &str, to: &str| {
        let before = fs::read_to_string(file(name)).expect("text");
        assert!(before.contains(from), "{name}: {from}");
        fs::write(file(name), before.replacen(from, to, 1)).expect("written");
        let found = place.verify();
        fs::write(file(name), before).expect("written");
        assert_eq!(found.code, Some(1), "{name}: {}{}", found.out, found.err);
        found.out
    };
    assert!(changed("saturation.json", "\"kept\": 60", "\"kept\": 61").contains("saturation.json"));
    assert!(changed("report.md", "# Saturation", "# saturation").contains("report.md:1"));
    let said = changed("search.json", "\"max_steps\": 2", "\"max_steps\": 1");
    assert!(said.contains("the search asks for"), "{said}");
    assert!(changed("search.json", "\"steps/00", "\"../00").contains("not in this directory"));
    assert!(changed("steps/00-climb-1/run.json", "\"kept\": 60", "\"kept\": 61").contains("run.json"));

    // a window that was run and does not count
    for stray in ["steps/07-climb-8", "elsewhere", "extra/deeper/99-stray"] {
        fs::create_dir_all(file(stray)).expect("made");
        assert_eq!(place.verify().code, Some(0), "no run lies there");
        fs::copy(file("steps/00-climb-1/plan.json"), file(stray).join("plan.json")).expect("copied");
        let found = place.verify();
        assert_eq!(found.code, Some(1), "{}", found.out);
        assert!(found.out.contains(stray) && found.out.contains("search.json does not name"), "{}", found.out);
        fs::remove_dir_all(file(stray)).expect("removed");
    }
    for command in ["disclose", "compare", "export"] {
        let mut args = vec![command, place.out()];
        match command {
            "compare" => args.push(place.out()),
            "export" => args.extend(["--format", "csv"]),
            _ => {}
        }
        let done = tarebench(&args);
        assert_eq!(done.code, Some(1), "{command}: {}{}", done.out, done.err);
        assert!(done.err.contains("is a search by tarebench saturate"), "{command}: {}", done.err);
        assert!(done.err.contains("steps/00-climb-1"), "{command}: {}", done.err);
    }
}

#[test]
fn a_window_that_was_left_out_is_missed() {
    let (place, mock) = (Place::new(), mock(4));
    let done = search(&mock.url, &place, &["--step-duration", "0", "--over", "concurrency", "--max-steps", "2"]);
    assert_eq!(done.code, Some(3), "{}{}", done.out, done.err);
    let whole = place.json("search.json");
    let last = whole["steps"][1]["dir"].as_str().expect("two steps").to_owned();
    let aside = tempfile::tempdir().expect("a directory");
    let (file, away) = (|name: &str| place.dir.join(name), aside.path().join("away"));
    let write = |record: &Value| fs::write(file("search.json"), record.to_string()).expect("written");
    let refused = |words: &[&str]| {
        let found = place.verify();
        assert_eq!(found.code, Some(1), "{words:?}: {}{}", found.out, found.err);
        assert!(words.iter().all(|words| found.out.contains(words)), "{words:?}: {}", found.out);
    };
    let moved = |from: &Path, to: &Path| fs::rename(from, to).expect("moved");

    moved(&file(&last), &away);
    refused(&[&last, "the directory is gone"]);
    let mut fewer = whole.clone();
    fewer["settings"]["bounds"]["max_steps"] = 1.into();
    fewer["steps"].as_array_mut().expect("steps").pop();
    write(&fewer);
    assert_eq!(tarebench(&["report", place.out()]).code, Some(0));
    refused(&["steps/ledger.jsonl names", &last, "a window was left out"]);

    let mut cut_off = whole.clone();
    cut_off["steps"].as_array_mut().expect("steps").pop();
    cut_off["cut_off"] = last.clone().into();
    cut_off["ended"] = serde_json::json!({"kind": "interrupted"});
    write(&cut_off);
    refused(&[&last, "the directory is gone"]);
    fs::create_dir(file(&last)).expect("made");
    refused(&[&last, "the file is gone"]);
    fs::remove_dir(file(&last)).expect("removed");
    moved(&away, &file(&last));
    refused(&[&last, "it ended by itself (complete"]);

    write(&whole);
    assert_eq!(tarebench(&["report", place.out()]).code, Some(0));
    assert_eq!(place.verify().code, Some(0));
    let ledger = file("steps/ledger.jsonl");
    let lines = fs::read_to_string(&ledger).expect("a ledger");
    moved(&ledger, &away);
    refused(&["steps/ledger.jsonl is missing", "put it back"]);
    let first_two: String = lines.split_inclusive('\n').take(2).collect();
    fs::write(&ledger, first_two).expect("written");
    refused(&[&last, "steps/ledger.jsonl does not name it"]);
    let last_two: String = lines.split_inclusive('\n').skip(2).collect();
    fs::write(&ledger, last_two).expect("written");
    refused(&["steps/ledger.jsonl: line 1: was cut off"]);
}

/// Far above what the server can do, windows end early, and say so.
#[test]
fn a_load_that_is_too_much_ends_its_window() {
    let (place, mock) = (Place::new(), mock(1));
    let more = ["--step-duration", "0", "--from", "400", "--num-prompts", "3000", "--max-steps", "1"];
    let flags = ["saturate", "--base-url", &mock.url, "--goodput", "ttft:60000", "--drop", "5"];
    let work = ["--workload", "random", "--random-input-len", "8", "--random-output-len", "5", "--out", place.out()];
    let done = tarebench(&[&flags[..], &work, &more].concat());
    assert_eq!(done.code, Some(3), "{}{}", done.out, done.err);
    let found = place.json("saturation.json");
    let step = &found["steps"][0];
    assert_eq!(step["ended_early"], true, "{step}");
    let growth = &step["over_saturated"];
    assert!(growth["in_flight_to"].as_u64() > growth["in_flight_from"].as_u64(), "{step}");
    assert!(["over_saturated", "client"].contains(&step["answer"]["kind"].as_str().expect("a kind")), "{step}");
    assert!(done.out.contains("over-saturated: from"), "{}", done.out);
    place.assert_verifies();
}

#[test]
fn what_cannot_be_searched_is_refused_in_words() {
    let refused = |flags: &[&str], words: &str| {
        let done = tarebench(&[&["saturate"], flags].concat());
        assert_eq!(done.code, Some(2), "{flags:?}: {}{}", done.out, done.err);
        assert!(done.err.contains(words), "{flags:?}: {}", done.err);
    };
    let goal = ["--goodput", "ttft:500"];
    refused(&[], "no goals");
    refused(&["--goodput", "ttft:0"], "above 0");
    for (flags, words) in [
        (&["--request-rate", "5"][..], "--request-rate is not for saturate"),
        (&["--max-concurrency", "5"], "--max-concurrency is not for saturate"),
        (&["--stages", "5s@2"], "--stages is not for saturate"),
        (&["--interleave", "http://x"], "--interleave is not for saturate"),
        (&["--dry-run"], "--dry-run is not for saturate"),
        (&["--declare", "price=3.2"], "AMOUNT/h"),
        (&["--declare", "price=$3/h"], "AMOUNT/h"),
        (&["--from", "0"], "--from must be a rate"),
        (&["--from", "9", "--to", "8"], "--from must be at most --to"),
        (&["--over", "concurrency", "--from", "1.5"], "a whole number"),
        (&["--factor", "1"], "--factor must be above 1"),
        (&["--points", "0"], "--points must be"),
        (&["--budget", "0"], "--budget must be"),
        (&["--num-prompts", "0"], "--num-prompts must be"),
    ] {
        refused(&[&goal[..], flags].concat(), words);
    }
}
