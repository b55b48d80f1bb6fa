//! Every workload, every form and every way of sharing, live against the mock: what was asked is what came.

use crate::binary::{Done, MockProcess, Place, count, tarebench};
use calibration::truth::read_truth;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufReader, Write};
use tarebench::rundir::row::{Outcome, Phase, Row};
use tempfile::NamedTempFile;

fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("written");
    file
}

fn lines(n: u32) -> NamedTempFile {
    file(
        &(0..n)
            .map(|i| format!("{{\"prompt\":\"{}\",\"output_tokens\":3}}\n", format!("q{i} ").repeat(40)))
            .collect::<String>(),
    )
}

/// Two windows of 12 requests each, the first two of them warm-up.
fn run(url: &str, place: &Place, more: &[&str]) -> Done {
    let mut args = vec!["run", "--base-url", url, "--num-prompts", "10", "--drop", "2", "--windows", "2"];
    args.extend(["--max-concurrency", "2", "--out", place.out()]);
    args.extend(more);
    tarebench(&args)
}

/// The rows of a run that was carried out and verifies.
fn rows_of(place: &Place, done: &Done) -> Vec<Row> {
    place.assert_carried_out(done);
    place.assert_verifies();
    let rows = place.rows();
    assert_eq!((rows.len(), count(&rows, Outcome::Ok)), (24, 24), "{}", done.err);
    let hashes = |phase| rows.iter().filter(move |r| r.phase == phase).map(|r| &r.prompt_sha256);
    let (warm_up, measured) = (hashes(Phase::Warmup).collect::<BTreeSet<_>>(), hashes(Phase::Measured).collect());
    assert!(warm_up.is_disjoint(&measured), "the warm-up sends nothing that is measured");
    rows
}

fn labels(place: &Place) -> Vec<String> {
    serde_json::from_value(place.json("run.json")["labels"].clone()).expect("labels")
}

fn box_5(place: &Place) -> String {
    place.json("boxes.json")["boxes"][4]["sentence"].as_str().expect("a sentence").to_owned()
}

#[test]
fn drawn_lengths_are_met() {
    let mock = MockProcess::start(&[], &[]);
    let histogram = file("input_tokens,output_tokens,count\n20,3,5\n70,4,1\n");
    let histogram = format!("histogram:{}", histogram.path().display());
    for workload in
        ["lognormal:in=60/40[9..200],out=4/3", "normal:in=60/20,out=4", "uniform:in=9..60,out=1..5", &histogram]
    {
        let place = Place::new();
        let done = run(&mock.url, &place, &["--workload", workload]);
        let rows = rows_of(&place, &done);
        let name = workload.split(':').next();
        for row in &rows {
            assert_eq!(row.prompt_tokens, Some(row.asked_prompt_tokens), "{workload}");
            assert_eq!((row.length_met, Some(row.class.as_str())), (Some(true), name));
        }
        let of = |window| rows.iter().filter(move |r| r.window == window).map(|r| (r.trace_id, r.asked_prompt_tokens));
        assert_eq!(of(0).collect::<BTreeMap<_, _>>(), of(1).collect(), "windows ask the same");
        let plan = place.json("plan.json");
        assert_eq!((&plan["workload"]["name"], &plan["workload"]["length_scale"]), (&name.into(), &1.0.into()));
    }
}

#[test]
fn two_default_runs_share_no_prompt() {
    let hashes = || {
        let place = Place::new();
        let done = tarebench(&[
            "run",
            "--num-prompts",
            "10",
            "--drop",
            "2",
            "--windows",
            "2",
            "--max-concurrency",
            "2",
            "--min-duration",
            "0",
            "--out",
            place.out(),
        ]);
        let rows = rows_of(&place, &done);
        rows.iter().flat_map(|r| [r.prompt_sha256.clone(), r.nonce.clone()]).collect::<BTreeSet<_>>()
    };
    let (a, b) = (hashes(), hashes());
    assert_eq!((a.len(), b.len()), (48, 48));
    assert!(a.is_disjoint(&b));
}

#[test]
fn texts_come_from_their_file() {
    let mock = MockProcess::start(&[], &[]);
    let turn = |from: &str, text: &str| format!("{{\"from\":\"{from}\",\"value\":\"{text}\"}}");
    let exchange = |i: usize| {
        format!(
            "{{\"conversations\":[{},{}]}}",
            turn("human", &format!("question {i}")),
            turn("gpt", &"w ".repeat(i + 1))
        )
    };
    let list: Vec<String> = (0..8).map(exchange).chain(["{\"id\":1}".to_owned()]).collect();
    let conversations = file(&format!("[{}]", list.join(",\n")));
    let place = Place::new();
    let path = conversations.path().to_str().expect("text");
    let done = run(&mock.url, &place, &["--dataset-name", "sharegpt", "--dataset-path", path]);
    let rows = rows_of(&place, &done);
    assert!(done.err.contains("1 entry gives no request: 1 with no list of turns"), "{}", done.err);
    assert!(done.err.contains("it starts over after every 7"), "{}", done.err);
    assert!(
        rows.iter().all(|r| r.asked_prompt_tokens == 3 && r.prompt_tokens == Some(3) && r.length_met == Some(true))
    );
    let asked: BTreeSet<u64> = rows.iter().map(|r| r.asked_output_tokens).collect();
    assert_eq!(asked, (1..=8).collect());
    let plan = place.json("plan.json");
    assert_eq!(plan["workload"]["dropped"], serde_json::json!({"no list of turns": 1}));
    assert_eq!((&plan["workload"]["entries"], &plan["workload"]["path"]), (&8.into(), &path.into()));

    let bodies = "{\"messages\":[{\"role\":\"user\",\"content\":\"a b\"}],\"max_tokens\":2,\"user\":\"theirs\"}\n\
                  {\"body\":{\"messages\":[{\"role\":\"system\",\"content\":\"be brief\"},{\"role\":\"user\",\"content\":\"c\"}]},\"output_tokens\":4}\n\
                  {\"prompt\":\"d e f g\"}\n";
    let place = Place::new();
    let path = file(bodies);
    let done = run(&mock.url, &place, &["--workload", &format!("jsonl:{}", path.path().display())]);
    let rows = rows_of(&place, &done);
    // words with the nonce, and lengths: their own, the line's, vLLM's
    let asked: BTreeSet<(u64, u64)> = rows.iter().map(|r| (r.asked_prompt_tokens, r.asked_output_tokens)).collect();
    assert_eq!(asked, BTreeSet::from([(3, 2), (4, 4), (5, 256)]));
    assert!(rows.iter().all(|r| r.length_met == Some(true) && r.prompt_tokens == Some(r.asked_prompt_tokens)));
}

#[test]
fn prompts_as_ids_meet_every_length() {
    let place = Place::new();
    let done = tarebench(&[
        "run",
        "--endpoint",
        "/v1/completions",
        "--prompt-form",
        "ids",
        "--workload",
        "uniform:in=5..40,out=2..4",
        "--num-prompts",
        "10",
        "--drop",
        "2",
        "--windows",
        "2",
        "--max-concurrency",
        "2",
        "--min-duration",
        "0",
        "--out",
        place.out(),
    ]);
    let rows = rows_of(&place, &done);
    assert!(rows.iter().all(|r| r.prompt_tokens == Some(r.asked_prompt_tokens) && r.length_met == Some(true)));
    // the mock knows each by its nonce, which no prompt has
    let log = std::fs::File::open(place.dir.join("truth.jsonl")).expect("a truth log");
    let (truth, _) = read_truth(BufReader::new(log)).expect("readable");
    let known: BTreeSet<&str> = truth.iter().map(|t| t.nonce.as_str()).collect();
    assert!(rows.iter().all(|r| known.contains(r.nonce.as_str())));
    assert!(box_5(&place).starts_with("each of 24 prompts begins with a nonce"), "{}", box_5(&place));
    let chat = tarebench(&["run", "--prompt-form", "ids", "--out", Place::new().out()]);
    assert!(
        chat.code == Some(2) && chat.err.contains("add --endpoint /v1/completions"),
        "{:?} {}",
        chat.code,
        chat.err
    );
}

#[test]
fn what_is_shared_shows_in_the_servers_cache_and_in_the_title() {
    let texts = lines(30);
    let texts = format!("jsonl:{}", texts.path().display());
    let drawn = "uniform:in=64..64,out=2..3";
    for (workload, cache, title, least, most) in [
        (drawn, "unique", false, 0.0, 0.0),
        // of 64 tokens 32 in nine of ten, and of the first where the other began first; 48 where all are known
        (drawn, "shared-prefix:40", true, 0.25, 0.5),
        (drawn, "repeat", true, 0.5, 0.75),
        // the second window sends the texts of the first
        (&texts, "as-is", false, 0.3, 0.45),
        (&texts, "shared-prefix:40", true, 0.2, 0.4),
        (&texts, "repeat", true, 0.5, 0.81),
    ] {
        let mock = MockProcess::start(&["--prefix-cache", "4096"], &[]);
        let place = Place::new();
        let done = run(&mock.url, &place, &["--workload", workload, "--cache", cache]);
        let rows = rows_of(&place, &done);
        let of = format!("{workload} {cache}: {}", box_5(&place));
        assert_eq!(labels(&place).contains(&"CACHE TEST".to_owned()), title, "{of}");
        assert_eq!(place.json("plan.json")["workload"]["cache"], cache);
        let measured = || rows.iter().filter(|r| r.phase == Phase::Measured);
        let cached: u64 = measured().filter_map(|r| r.cached_tokens).sum();
        let share = cached as f64 / measured().filter_map(|r| r.prompt_tokens).sum::<u64>() as f64;
        assert!((least..=most).contains(&share), "{share} of {of}");
        let helped = share >= 0.01;
        assert_eq!(of.contains("WARNING: the cache saved"), helped, "{of}");
        assert_eq!(labels(&place).contains(&"CACHE HELPED".to_owned()), helped, "{of}");
        assert!(cache == "unique" || of.contains("(seed 7)"), "{of}");
        assert!(of.contains("cached_tokens told on 20 of 20 replies"), "{of}");
        let disclosed = |window: usize| {
            place.json("run.json")["cells"][0]["windows"][window]["disclosed"]["shared_beginnings"].as_u64()
        };
        // ten measured ones, and two of the warm-up among themselves
        let shared = match cache {
            "repeat" => 10,
            "shared-prefix:40" => 12,
            _ => 0,
        };
        assert_eq!((disclosed(0), disclosed(1)), (Some(shared), Some(shared)), "{of}");
        let hashes = |window| measured().filter(move |r| r.window == window).map(|r| &r.prompt_sha256);
        let (first, second) = (hashes(0).collect::<BTreeSet<_>>(), hashes(1).collect::<BTreeSet<_>>());
        assert_eq!(first.len(), if cache == "repeat" { 1 } else { 10 }, "{of}");
        assert_eq!(first == second, cache == "as-is", "{of}");
        assert_eq!(first.is_disjoint(&second), cache != "as-is", "{of}");
        let shown = tarebench(&["report", place.out()]);
        let title_of = |text: &str| text.lines().take(3).any(|line| line.contains("CACHE TEST"));
        assert_eq!(title_of(&shown.out), title, "{}", shown.out);
    }
}

#[test]
fn bad_files_are_refused_before_any_request() {
    let unmarked = "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}\n{\"messages\":[{\"role\":\"user\",\"content\":null}]}\n";
    for (workload, text, words) in [
        ("jsonl", "", "is empty"),
        ("jsonl", "{\"question\":\"a\"}\n", ":1: has none of \"prompt\""),
        ("jsonl", unmarked, ":2: the body has no text"),
        ("jsonl", "{\"prompt\":\"only one\"}\n", "two different prompts"),
        ("jsonl", "\u{0}", "zero bytes"),
        ("sharegpt", "[{\"conversations\":[]}]", "has no entry that gives a request: 1 with fewer than two turns"),
        ("sharegpt", "[{\"conversations\":", "ends inside this conversation"),
        ("sharegpt", "{\"conversations\": 5}", ":1: is no conversation"),
        ("histogram", "a,b\n1,2\n", ":1: no column input_tokens"),
        ("histogram", "input_tokens,output_tokens,count\n5,-1,2\n", ":2: output_tokens must be"),
    ] {
        let file = file(text);
        let place = Place::new();
        let path = file.path().to_str().expect("text");
        let done = tarebench(&["run", "--workload", &format!("{workload}:{path}"), "--out", place.out()]);
        assert!(done.code == Some(2) && done.err.contains(words), "{workload}: {:?} {}", done.code, done.err);
        assert!(!place.dir.exists(), "nothing was begun");
    }
    for (path, words) in [("/", "is a directory"), ("/dev/zero", "no regular file"), ("/nowhere", "cannot be read")] {
        let done = tarebench(&["run", "--workload", "sharegpt", "--dataset-path", path]);
        assert!(done.code == Some(2) && done.err.contains(words), "{:?} {}", done.code, done.err);
    }
    let utf16: Vec<u8> = "\u{feff}{\"prompt\":\"a\"}\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let mut file = NamedTempFile::new().expect("a file");
    file.write_all(&utf16).expect("written");
    let done = tarebench(&["run", "--workload", &format!("jsonl:{}", file.path().display())]);
    assert!(done.code == Some(2) && done.err.contains("is UTF-16"), "{}", done.err);
}

#[test]
fn equal_lengths_are_warned_about_once() {
    let of = |workload: &str| {
        let done = tarebench(&["run", "--dry-run", "--workload", workload, "--drop", "1", "--num-prompts", "9"]);
        assert_eq!(done.code, Some(0), "{}", done.err);
        done.err.matches("WARNING: all measured prompts are 50 tokens long").count()
    };
    assert_eq!((of("uniform:in=50,out=1..9"), of("uniform:in=49..50,out=1..9")), (1, 0));
    let done = tarebench(&["run", "--dry-run", "--workload", "lognormal:in=50/30,out=9"]);
    let plan: Value = serde_json::from_str(&done.out).expect("a plan");
    assert_eq!(plan["workload"]["input"]["sd"], 30.0);
}
