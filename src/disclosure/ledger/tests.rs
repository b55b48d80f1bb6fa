use super::book::{Book, Break};
use super::neighbours::{self, Copies, Fault};
use super::*;
use std::thread;

fn at() -> String {
    "2026-11-29T18-22-55".to_owned()
}

fn start(run_id: &str, plan: &str) -> Start {
    let rules = json!({"drop": 10, "goals": []});
    Start {
        run_id: run_id.to_owned(),
        at: at(),
        dir: run_id.to_owned(),
        tarebench: "0.1.0".to_owned(),
        plan_hash: plan.to_owned(),
        rules_hash: crate::plan::Plan::rules_hash(&rules),
        rules,
        interleave: Value::Null,
        base_url: "http://a".to_owned(),
        model: "m".to_owned(),
        trace_hash: "t".to_owned(),
    }
}

/// Begins a campaign in its own directory below `runs`.
fn begin(runs: &Path, run_id: &str, plan: &str) -> (Entry, Vec<String>) {
    let dir = runs.join(run_id);
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("plan.json"), "{}\n").unwrap();
    Entry::begin(Place::of(&dir, 1), start(run_id, plan), None, at).unwrap()
}

fn run(complete: bool, verdict: Option<&str>) -> RunJson {
    let verdicts: Vec<Value> =
        verdict.iter().map(|kind| json!({"cell": 0, "window": 0, "kind": kind, "text": "why"})).collect();
    serde_json::from_value(json!({"schema": "tarebench.run/1", "tarebench": null, "run_id": null, "plan_hash": null,
        "started_at": null, "complete": complete, "environment": null, "calibration": null, "cells": [],
        "curves": [], "verdicts": verdicts, "labels": [], "definitions": {}}))
    .unwrap()
}

/// A whole campaign.
fn campaign(runs: &Path, run_id: &str) -> Vec<String> {
    let (entry, mut words) = begin(runs, run_id, "p1");
    words.extend(entry.end(&run(true, None), false).unwrap());
    words
}

fn text(runs: &Path) -> String {
    fs::read_to_string(runs.join(FILE)).unwrap()
}

fn book(runs: &Path) -> Book {
    Book::of(&fs::read(runs.join(FILE)).unwrap())
}

fn copy(runs: &Path, run_id: &str) -> Vec<Value> {
    let text = fs::read_to_string(runs.join(run_id).join(FILE)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn change(runs: &Path, change: impl Fn(&mut Vec<String>)) {
    let mut lines: Vec<String> = text(runs).lines().map(str::to_owned).collect();
    change(&mut lines);
    fs::write(runs.join(FILE), lines.join("\n") + "\n").unwrap();
}

#[test]
fn every_campaign_has_two_lines_and_a_crashed_one_has_one() {
    let runs = tempfile::tempdir().unwrap();
    let runs = runs.path();
    campaign(runs, "r1");
    // a process that is killed writes nothing
    std::mem::forget(begin(runs, "r2", "p1"));
    begin(runs, "r3", "p1").0.end(&run(true, Some("failed")), false).unwrap();
    begin(runs, "r4", "p2").0.end(&run(false, None), true).unwrap();
    begin(runs, "r5", "p1").0.fail("the disk is full").unwrap();
    drop(begin(runs, "r6", "p1"));
    let book = book(runs);
    assert!(book.breaks.is_empty(), "{:?}", book.breaks);
    let outcomes: Vec<_> = book.campaigns.iter().map(|c| (c.run_id.as_str(), c.outcome())).collect();
    let expected = [
        ("r1", Some("complete")),
        ("r2", None),
        ("r3", Some("invalid")),
        ("r4", Some("interrupted")),
        ("r5", Some("failed")),
        ("r6", Some("failed")),
    ];
    assert_eq!(outcomes, expected);
    let reasons: Vec<_> = book.campaigns[2..].iter().map(|c| c.end.as_ref().unwrap()["reason"].clone()).collect();
    assert_eq!(reasons, ["why", "the user ended it", "the disk is full", "it ended unexpectedly"]);
    // the last one knew of all of them when it ended
    let last = &copy(runs, "r6")[1];
    let counts = |started, invalid, interrupted, failed, without_end| {
        json!({"started": started, "complete": 1, "invalid": invalid, "interrupted": interrupted, "failed": failed,
            "without_end": without_end})
    };
    assert_eq!(last["runs"], counts(6, 1, 1, 2, 1));
    assert_eq!(last["runs_of_plan"], counts(5, 1, 0, 2, 1));
    assert_eq!(last["runs_of_target"], counts(6, 1, 1, 2, 1));
    // copies are the very lines, and one that was killed has its first
    let all = text(runs);
    for run_id in ["r1", "r2", "r6"] {
        let copies = fs::read_to_string(runs.join(run_id).join(FILE)).unwrap();
        assert!(copies.lines().all(|line| all.lines().any(|other| other == line)), "{run_id}");
        assert_eq!(copies.lines().count(), if run_id == "r2" { 1 } else { 2 });
    }
    assert_eq!(
        copy(runs, "r1")[1]["files"],
        json!({"plan.json": digest::of_file(&runs.join("r1/plan.json")).unwrap()})
    );
}

#[test]
fn fields_stand_in_their_order() {
    let runs = tempfile::tempdir().unwrap();
    campaign(runs.path(), "r1");
    let keys = |line: &Value| line.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(",");
    let lines = copy(runs.path(), "r1");
    assert_eq!(
        keys(&lines[0]),
        "schema,event,run_id,at,dir,tarebench,plan_hash,rules_hash,rules,interleave,base_url,model,trace_hash,prev,h"
    );
    assert_eq!(
        keys(&lines[1]),
        "schema,event,run_id,at,outcome,reason,requests,files,runs,runs_of_plan,runs_of_target,ledger_breaks,prev,h"
    );
    assert_eq!(lines[0]["dir"], "r1");
}

#[test]
fn campaigns_that_begin_and_end_at_once_have_whole_lines() {
    let runs = tempfile::tempdir().unwrap();
    let runs = runs.path();
    thread::scope(|scope| {
        for n in 0..8 {
            scope.spawn(move || {
                for i in 0..5 {
                    campaign(runs, &format!("r{n}-{i}"));
                }
            });
        }
    });
    let book = book(runs);
    assert!(book.breaks.is_empty(), "{:?}", book.breaks);
    assert_eq!((book.lines, book.counts().started, book.counts().complete), (80, 40, 40));
    // each end saw one more
    let mut ended: Vec<u64> =
        book.campaigns.iter().map(|c| c.end.as_ref().unwrap()["runs"]["complete"].as_u64().unwrap()).collect();
    ended.sort_unstable();
    assert_eq!(ended, (1..=40).collect::<Vec<_>>());
}

#[test]
fn a_line_is_never_glued_to_half_a_line_and_the_break_stays() {
    let runs = tempfile::tempdir().unwrap();
    let runs = runs.path();
    campaign(runs, "r1");
    let whole = text(runs);
    let half = &whole[..whole.len() - 40];
    fs::write(runs.join(FILE), half).unwrap();
    assert!(matches!(book(runs).breaks[..], [Break::HalfWritten { line: 2, .. }]));
    let words = campaign(runs, "r2");
    let told = words.iter().filter(|w| w.contains("WARNING") && w.contains("line 2: is half-written")).count();
    assert_eq!(told, 1, "said once, not at the end again: {words:?}");
    let now = text(runs);
    assert!(now.starts_with(half) && now[half.len()..].starts_with('\n'), "nothing that was there is touched");
    let found = book(runs);
    assert!(matches!(found.breaks[..], [Break::NoLine { line: 2 }]), "{:?}", found.breaks);
    let outcomes: Vec<_> = found.campaigns.iter().map(|c| c.outcome()).collect();
    assert_eq!(outcomes, [None, Some("complete")]);
    // the half line is taken out, as if nothing had been there
    change(runs, |lines| drop(lines.remove(1)));
    assert!(matches!(book(runs).breaks[..], [Break::Rewritten { line: 2 }]), "{:?}", book(runs).breaks);
    // whoever writes next says that, too, once
    campaign(runs, "r3");
    let breaks = |text: &str| text.lines().filter(|line| line.contains("\"event\":\"break\"")).count();
    assert_eq!(breaks(&text(runs)), 2);
    campaign(runs, "r4");
    assert_eq!(breaks(&text(runs)), 2);
}

type Tamper = fn(&mut Vec<String>);

#[test]
fn a_line_changed_removed_or_moved_is_found_where_it_was() {
    let tries: [(Tamper, &str); 5] = [
        (|lines| lines[2] = lines[2].replace("\"model\":\"m\"", "\"model\":\"n\""), "line 3: was changed"),
        (|lines| drop(lines.remove(2)), "line 3: was cut off from the line before it"),
        (|lines| drop(lines.remove(0)), "line 1: was cut off from the line before it"),
        (|lines| lines.swap(1, 2), "line 2: was cut off from the line before it"),
        (|lines| lines[3] = "nothing".to_owned(), "line 4: is no line of a ledger"),
    ];
    for (what, said) in tries {
        let runs = tempfile::tempdir().unwrap();
        let runs = runs.path();
        for run_id in ["r1", "r2", "r3"] {
            campaign(runs, run_id);
        }
        assert!(book(runs).breaks.is_empty());
        change(runs, what);
        let first = book(runs).breaks.first().map(ToString::to_string).unwrap_or_default();
        assert!(first.starts_with(said), "{said}: {first}");
        let words = campaign(runs, "r4");
        assert!(words.iter().any(|w| w.starts_with("WARNING") && w.contains(said)), "{words:?}");
        let found = book(runs);
        assert_eq!(found.breaks.first().map(ToString::to_string), Some(first), "it stays");
        assert_eq!(found.campaigns.last().unwrap().outcome(), Some("complete"));
        assert_eq!(found.unsaid().count(), 0);
    }
}

#[test]
fn a_changed_line_with_a_new_h_is_found_at_the_next() {
    let runs = tempfile::tempdir().unwrap();
    let runs = runs.path();
    campaign(runs, "r1");
    campaign(runs, "r2");
    change(runs, |lines| {
        let plain = Chain::after(&"0".repeat(64)).open(&lines[0]).unwrap().replace("\"drop\":10", "\"drop\":90");
        lines[0] = plain;
        Chain::default().seal(&mut lines[0]);
    });
    assert!(matches!(&book(runs).breaks[..], [Break::Cut { line: 2, .. }]), "{:?}", book(runs).breaks);
    campaign(runs, "after-the-cut");
    assert_eq!(copy(runs, "after-the-cut")[1]["ledger_breaks"], 1, "what counts too few says so");
    // and in the run directory
    let missing = Copies::beside(&runs.join(FILE)).missing(&book(runs));
    assert!(
        matches!(&missing[..], [Fault::Missing { dir, event, .. }] if dir == "r1" && event == "start"),
        "{missing:?}"
    );
}

#[test]
fn removed_last_lines_are_missed_by_the_run_directories() {
    let runs = tempfile::tempdir().unwrap();
    let runs = runs.path();
    for run_id in ["r1", "r2", "r3"] {
        campaign(runs, run_id);
    }
    let faults = || Copies::beside(&runs.join(FILE)).missing(&book(runs));
    assert!(faults().is_empty());
    change(runs, |lines| lines.truncate(5));
    assert!(book(runs).breaks.is_empty(), "the chain cannot know");
    assert!(matches!(&faults()[..], [Fault::Missing { dir, event, .. }] if dir == "r3" && event == "end"));
    change(runs, |lines| lines.truncate(3));
    let found: Vec<String> = faults().iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), 3);
    assert!(found[0].starts_with("r2: its end line (h ") && found[1].starts_with("r3: its start line"), "{found:?}");
}

#[test]
fn a_file_that_is_another_one_is_named() {
    let runs = tempfile::tempdir().unwrap();
    let runs = runs.path();
    campaign(runs, "r1");
    campaign(runs, "r2");
    let found = || neighbours::swapped_files(&runs.join(FILE), &book(runs));
    assert_eq!(found(), []);
    fs::write(runs.join("r1/plan.json"), "{ }\n").unwrap();
    assert!(matches!(&found()[..], [Fault::Swapped { dir, file, .. }] if dir == "r1" && file == "plan.json"));
    // a directory that another run was written into is not that run any more
    fs::copy(runs.join("r2").join(FILE), runs.join("r1").join(FILE)).unwrap();
    assert_eq!(found(), []);
}

#[test]
fn a_ledger_that_cannot_be_had_is_said_and_survived() {
    let not_there = |make: &dyn Fn(&Path), said: &str| {
        let runs = tempfile::tempdir().unwrap();
        let runs = runs.path();
        make(&runs.join(FILE));
        let before = fs::read(runs.join(FILE)).ok();
        let words = campaign(runs, "r1");
        assert_eq!(words.len(), 2, "{words:?}");
        assert!(words.iter().all(|w| w.starts_with("WARNING") && w.contains(said)), "{said}: {words:?}");
        assert_eq!(fs::read(runs.join(FILE)).ok(), before, "what is there is left alone");
        let lines = copy(runs, "r1");
        assert_eq!(lines.len(), 2);
        for line in &lines {
            assert_eq!((&line["prev"], &line["h"]), (&Value::Null, &Value::Null));
        }
        assert_eq!((&lines[1]["runs"], &lines[1]["runs_of_plan"]), (&Value::Null, &Value::Null));
        assert_eq!(lines[1]["outcome"], "complete");
    };
    not_there(&|path| fs::write(path, "shopping: milk\n").unwrap(), "something else than a ledger");
    not_there(&|path| fs::write(path, [0xff; 3000]).unwrap(), "something else than a ledger");
    not_there(&|path| fs::create_dir(path).unwrap(), "it is no file");
    not_there(&|path| std::os::unix::fs::symlink(path, path).unwrap(), "cannot be opened");
    let root = Place::of(Path::new("/"), 1);
    assert_eq!((root.ledger, Place::of(Path::new("/proc"), 1).name), (None, "proc".to_owned()));
}

#[test]
fn an_end_whose_start_is_missing_counts_its_campaign_once() {
    let runs = tempfile::tempdir().unwrap();
    let runs = runs.path();
    fs::write(runs.join(FILE), "not yet a ledger").unwrap();
    let (entry, _) = begin(runs, "r1", "p1");
    fs::remove_file(runs.join(FILE)).unwrap();
    entry.end(&run(true, None), false).unwrap();
    let end = &copy(runs, "r1")[1];
    assert_eq!((&end["runs"]["started"], &end["runs"]["complete"]), (&json!(1), &json!(1)));
    let book = book(runs);
    assert_eq!((book.breaks.len(), book.counts().started, book.counts().complete), (0, 1, 1));
}

#[test]
fn a_device_in_the_place_of_a_file_has_no_digest() {
    let runs = tempfile::tempdir().unwrap();
    let (entry, _) = begin(runs.path(), "r1", "p");
    std::os::unix::fs::symlink("/dev/zero", runs.path().join("r1/requests.jsonl")).unwrap();
    entry.fail("the disk is full").unwrap();
    let files = copy(runs.path(), "r1")[1]["files"].clone();
    assert_eq!(files.as_object().unwrap().keys().collect::<Vec<_>>(), ["plan.json"]);
}

#[test]
fn a_secret_is_in_no_reason() {
    let runs = tempfile::tempdir().unwrap();
    let dir = runs.path().join("r1");
    fs::create_dir(&dir).unwrap();
    let secret = Some("sk-hidden-1".to_owned());
    let (entry, _) = Entry::begin(Place::of(&dir, 1), start("r1", "p"), secret, at).unwrap();
    entry.fail("refused sk-hidden-1\n twice").unwrap();
    assert!(!text(runs.path()).contains("sk-hidden"));
    assert_eq!(copy(runs.path(), "r1")[1]["reason"], "refused [key]  twice");
}

#[test]
fn two_arms_have_the_ledger_beside_their_directory() {
    let runs = tempfile::tempdir().unwrap();
    let dir = runs.path().join("out/b");
    fs::create_dir_all(&dir).unwrap();
    let place = Place::of(&dir, 2);
    assert_eq!(place.name, "out/b");
    assert_eq!(place.ledger, Some(runs.path().canonicalize().unwrap().join(FILE)));
    fs::write(dir.join("plan.json"), "{\"interleave\": {\"arm\": \"b\"}}").unwrap();
    fs::write(runs.path().join(FILE), "").unwrap();
    let found = |path: &Path| neighbours::find(path).unwrap();
    let ledger = runs.path().canonicalize().unwrap().join(FILE);
    for path in [&dir, &runs.path().join("out")] {
        assert_eq!(found(path).canonicalize().unwrap(), ledger, "{}", path.display());
    }
    assert_eq!(found(runs.path()), runs.path().join(FILE));
    assert!(neighbours::find(&runs.path().join("nowhere")).is_err());
}

mod whatever_a_ledger_holds {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// No bytes make reading panic, and no change of a byte of a whole ledger goes unseen.
        #[test]
        fn is_read(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let book = Book::of(&bytes);
            prop_assert!(book.breaks.len() >= usize::from(!bytes.is_empty() && !book.is_ledger));
        }

        #[test]
        fn a_changed_byte_is_seen(at in 0usize..4000, to in any::<u8>()) {
            let mut chain = Chain::default();
            let lines: Vec<String> = (0..4)
                .map(|i| sealed(if i % 2 == 0 { "start" } else { "end" }, json!({"run_id": format!("r{}", i / 2)}), &mut chain))
                .collect();
            let mut bytes = (lines.join("\n") + "\n").into_bytes();
            prop_assert!(Book::of(&bytes).breaks.is_empty());
            let at = at % bytes.len();
            prop_assume!(bytes[at] != to);
            bytes[at] = to;
            prop_assert!(!Book::of(&bytes).breaks.is_empty());
        }
    }
}
