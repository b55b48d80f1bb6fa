//! Replays of captured traffic, whole: what the trace says is what was due and asked.

use crate::binary::{MockProcess, Place, Running, count, tarebench, wait_until};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::io::Write;
use tarebench::rundir::row::{Outcome, Row};

/// Azure rows every `gap_ms`, the i-th of 20 + i tokens in and 2 out.
fn azure(rows: u64, gap_ms: u64) -> String {
    let row = |i: u64| {
        let at = i * gap_ms;
        format!("2024-05-10 00:{:02}:{:02}.{:03}0000,{},2\n", at / 60_000, at / 1000 % 60, at % 1000, 20 + i)
    };
    let rows: String = (0..rows).map(row).collect();
    format!("TIMESTAMP,ContextTokens,GeneratedTokens\n{rows}")
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("written");
    file
}

fn path(file: &tempfile::NamedTempFile) -> &str {
    file.path().to_str().expect("text")
}

/// Dues from the opening and prompts asked for, by trace id, of one window.
fn asked(place: &Place, rows: &[Row], cell: u32, window: u32) -> Vec<(u64, u64)> {
    let text = std::fs::read_to_string(place.dir.join("windows.jsonl")).expect("windows.jsonl");
    let mut lines = text.lines().map(|l| serde_json::from_str::<Value>(l).expect("JSON"));
    let line = lines.find(|l| l["cell"] == cell && l["window"] == window).expect("a line for the window");
    let opened = line["opened"].as_u64().expect("a time");
    let mut found: Vec<_> = rows
        .iter()
        .filter(|r| (r.cell, r.window) == (cell, window))
        .map(|r| (r.trace_id, (r.due - opened, r.asked_prompt_tokens)))
        .collect();
    found.sort_unstable();
    assert!((0..).zip(&found).all(|(i, (id, _))| i == *id), "each trace id once");
    found.into_iter().map(|(_, asked)| asked).collect()
}

#[test]
fn what_was_captured_is_what_was_due() {
    let (place, trace) = (Place::new(), file(&azure(60, 50)));
    let flags = ["run", "--trace", path(&trace), "--time-scale", "5,10", "--length-scale", "1", "--drop", "4"];
    let done = tarebench(&[&flags[..], &["--max-output-tokens", "1", "--out", place.out()]].concat());
    assert!([Some(0), Some(3)].contains(&done.code), "{}{}", done.out, done.err);
    for words in
        ["azure, known by the names of its columns; 60 rows", "60 output longer than --max-output-tokens", "time x 10"]
    {
        assert!(done.err.contains(words), "{words}: {}", done.err);
    }
    let rows = place.rows();
    assert_eq!((rows.len(), count(&rows, Outcome::Ok)), (240, 240));
    for (cell, gap_ns) in [(0, 10_000_000), (1, 5_000_000)] {
        let expected: Vec<(u64, u64)> = (0..60).map(|i| (i * gap_ns, 20 + i)).collect();
        for window in [0, 1] {
            assert_eq!(asked(&place, &rows, cell, window), expected);
        }
    }
    assert!(rows.iter().all(|r| r.submit >= Some(r.due)), "nothing goes before its due");
    let (plan, run) = (place.json("plan.json"), place.json("run.json"));
    assert_eq!((&plan["num_prompts"], &plan["min_duration_s"]), (&56.into(), &0.0.into()));
    assert_eq!((&plan["workload"]["name"], &plan["workload"]["rows"]), (&"trace".into(), &60.into()));
    assert_eq!(run["cells"][0]["load"]["model"], "trace");
    let counts = &run["cells"][1]["windows"][0]["requests"];
    assert_eq!((&counts["due"], &counts["dropped"], &counts["kept"]), (&60.into(), &4.into(), &56.into()));
    place.assert_verifies();
    // what the rows say is held against what the trace says
    let trace = std::fs::read_to_string(place.dir.join("trace.jsonl")).expect("trace.jsonl");
    assert_eq!(trace.lines().count(), 60);
    for (from, to, field) in [
        ("\"at_ns\":150000000,", "\"at_ns\":150000005,", "due"),
        ("\"prompt_tokens\":33,", "\"prompt_tokens\":34,", "asked_prompt_tokens"),
        ("\"class\":\"trace\"", "\"class\":\"other\"", "class"),
    ] {
        assert!(trace.contains(from), "{from}");
        std::fs::write(place.dir.join("trace.jsonl"), trace.replacen(from, to, 1)).expect("written");
        let verified = place.verify();
        assert_eq!(verified.code, Some(1), "{}", verified.out);
        let said = verified.out + &verified.err;
        assert!(said.contains(&format!(": {field}: stored")), "{field}: {said}");
    }
    let shorter: String = trace.lines().take(59).map(|line| format!("{line}\n")).collect();
    std::fs::write(place.dir.join("trace.jsonl"), shorter).expect("written");
    let verified = place.verify();
    let said = verified.out + &verified.err;
    assert!(said.contains("has no line for trace id 59"), "{said}");
    std::fs::write(place.dir.join("trace.jsonl"), format!("{trace}{}\n", trace.lines().next().expect("a line")))
        .expect("written");
    assert_eq!(place.verify().code, Some(1), "a line more is seen by the hashes");
    std::fs::remove_file(place.dir.join("trace.jsonl")).expect("removed");
    let verified = place.verify();
    let said = verified.out + &verified.err;
    assert!(said.contains("trace.jsonl: cannot be read"), "{said}");
}

#[test]
fn a_pipe_is_read_once_and_its_prefixes_are_shared() {
    let (mock, place) = (MockProcess::start(&["--ttft", "1", "--itl", "0.1"], &[]), Place::new());
    let row = |ms: u64, tokens: u64, ids: &str| {
        format!("{{\"timestamp\":{ms},\"input_length\":{tokens},\"output_length\":2,\"hash_ids\":[{ids}]}}\n")
    };
    let trace = [row(0, 600, "1,2"), row(5, 600, "1,2"), row(9, 600, "1,3"), row(9, 700, "1,2")].concat();
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_tarebench"));
    command.args([
        "run",
        "--base-url",
        &mock.url,
        "--trace",
        "-",
        "--drop",
        "0",
        "--length-scale",
        "0.1",
        "--windows",
        "2",
    ]);
    command.args(["--out", place.out()]).env("TAREBENCH_CALIBRATIONS", "/dev/null/none").write_stdin(trace);
    let output = command.timeout(std::time::Duration::from_secs(60)).output().expect("the binary runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!([Some(0), Some(3)].contains(&output.status.code()), "{said}");
    assert!(said.contains("standard input: mooncake, known by one hash for every 512 tokens"), "{said}");
    let rows = place.rows();
    assert_eq!((rows.len(), count(&rows, Outcome::Ok)), (8, 8), "two windows of what could be read once");
    let prompt = |window: u32, id: u64| {
        let row = rows.iter().find(|r| (r.window, r.trace_id) == (window, id)).expect("a row");
        row.prompt_sha256.clone()
    };
    assert_eq!(prompt(0, 0), prompt(0, 1), "the same blocks are the same prompt");
    assert_ne!(prompt(0, 0), prompt(0, 2));
    assert_ne!(prompt(0, 0), prompt(0, 3), "one is longer");
    assert_ne!(prompt(0, 0), prompt(1, 0), "windows do not find one another's prompts in a cache");
    place.assert_verifies();
}

#[test]
fn prompts_and_bodies_of_a_trace_are_sent() {
    let (mock, place) = (MockProcess::start(&["--ttft", "1", "--itl", "0.1"], &[]), Place::new());
    let trace = file(concat!(
        r#"{"arrival_ms":0,"prompt":"name a colour","max_tokens":3,"class":"text"}"#,
        "\n",
        r#"{"arrival_ms":3,"body":{"messages":[{"role":"user","content":"n1 name two"}],"max_tokens":5},"class":"body"}"#,
        "\n",
        r#"{"arrival_ms":4,"input_tokens":12,"output_tokens":4,"class":"made"}"#,
        "\n"
    ));
    let flags = ["run", "--base-url", &mock.url, "--trace", path(&trace), "--drop", "0", "--windows", "1"];
    let done = tarebench(&[&flags[..], &["--trace-loop", "2", "--out", place.out()]].concat());
    assert!([Some(0), Some(3)].contains(&done.code), "{}{}", done.out, done.err);
    let mut rows = place.rows();
    rows.sort_by_key(|r| r.trace_id);
    let found: Vec<(&str, Option<u64>)> = rows.iter().map(|r| (r.class.as_str(), r.completion_tokens)).collect();
    let once = [("text", Some(3)), ("body", Some(5)), ("made", Some(4))];
    assert_eq!(found, [once, once].concat());
    assert_eq!(rows[1].prompt_sha256, rows[4].prompt_sha256, "a body is sent as it stands");
    place.assert_verifies();
}

#[test]
fn an_interrupted_replay_has_a_row_for_every_request_that_was_due() {
    let mock = MockProcess::start(&["--ttft", "30", "--itl", "1"], &[]);
    let (place, trace) = (Place::new(), file(&azure(20_000, 2)));
    let flags = ["run", "--base-url", &mock.url, "--trace", path(&trace), "--max-concurrency", "1", "--drop", "3"];
    let run =
        Running::start(&[&flags[..], &["--windows", "1", "--length-scale", "0.01", "--out", place.out()]].concat());
    let rows_so_far = || std::fs::read_to_string(place.dir.join("requests.jsonl")).map_or(0, |t| t.lines().count());
    wait_until("some rows", || rows_so_far() >= 10);
    run.signal(Signal::SIGINT);
    let done = run.end();
    assert_eq!(done.code, Some(130), "{}{}", done.out, done.err);
    let rows = place.rows();
    assert!(count(&rows, Outcome::NotSent) > 0 && rows.len() < 20_000);
    let dues: Vec<u64> = asked(&place, &rows, 0, 0).into_iter().map(|(due, _)| due).collect();
    assert!(dues.iter().copied().eq((0..dues.len() as u64).map(|i| i * 2_000_000)));
    place.assert_verifies();
}

#[test]
fn bad_traces_end_the_run_before_any_request() {
    let place = Place::new();
    let refused = |trace: &str, more: &[&str]| {
        // a port at which nobody listens: whatever is sent would be told otherwise
        let flags = ["run", "--base-url", "http://127.0.0.1:9", "--trace", trace, "--out", place.out()];
        let done = tarebench(&[&flags[..], more].concat());
        assert_eq!(done.code, Some(2), "{trace}: {}{}", done.out, done.err);
        assert!(!place.dir.exists(), "{trace}: nothing is left behind");
        done.err
    };
    let of = |text: &str| {
        let file = file(text);
        let said = refused(path(&file), &[]);
        said.replace(path(&file), "T")
    };
    assert_eq!(of(""), "error: --trace T: it is empty: a trace has at least one row\n");
    assert!(of("TIMESTAMP,ContextTokens,GeneratedTokens\n").contains("a header and no row"));
    assert!(of("a,b\n1,2\n").contains("--trace T:1: the first line begins \"a,b\""));
    let fine = azure(3, 10);
    assert!(
        of(&(fine.clone() + "2024-05-10 00:00:00.0000000,5,5\n"))
            .contains("--trace T:5: its time is before that of line 4")
    );
    assert!(
        of(&(fine.clone() + "2024-05-10 00:00:01.0000000,-5,5\n")).contains("--trace T:5: ContextTokens is \"-5\"")
    );
    assert!(of(&(fine.clone() + &"x".repeat(100_000))).contains("--trace T:5: the line is longer than 65536 bytes"));
    assert!(of("{\"arrival_ms\":1,").contains("--trace T:1: it is no JSON object: it ends too soon"));
    assert!(of("T\0I\0M\0E\0").contains("UTF-16"));
    assert!(refused("/", &[]).contains("--trace /: it is a directory"));
    assert!(refused("/nowhere/t.csv", &[]).contains("--trace /nowhere/t.csv: it cannot be read: No such file"));
    assert!(refused("/dev/zero", &[]).contains("--trace /dev/zero:1: the line is longer than 65536 bytes"));
    let trace = file(&fine);
    for (more, words) in [
        (["--num-prompts", "4"], "--num-prompts 4 and --drop 10 want more requests than the 3 of the trace"),
        (["--drop", "3"], "--drop 3 leaves none of them"),
        (["--request-rate", "5"], "--trace and --request-rate do not go together"),
        (["--workload", "random"], "--trace and --workload do not go together"),
        (["--min-duration", "5"], "--trace and --min-duration do not go together"),
        (["--time-scale", "1,0"], "--time-scale must be"),
        (["--trace-from", "nan"], "--trace-from must be"),
        (["--trace-to", "0"], "--trace-to must be later"),
        (["--trace-loop", "0"], "--trace-loop must be"),
        (["--hash-block", "0"], "--hash-block must be"),
        (["--trace-format", "vllm"], "--trace"),
    ] {
        let said = refused(path(&trace), &more);
        assert!(said.contains(words), "{more:?}: {said}");
    }
    let alone = tarebench(&["run", "--time-scale", "2"]);
    assert!(
        alone.code == Some(2) && alone.err.contains("--time-scale has no meaning without --trace"),
        "{}",
        alone.err
    );
}

#[test]
fn shards_of_a_trace_are_the_whole_trace_and_each_verifies() {
    let row =
        |ms: u64| format!("{{\"timestamp\":{ms},\"input_length\":90,\"output_length\":2,\"hash_ids\":[{}]}}\n", ms % 3);
    let trace: String = (0..11).map(|i| row(i * 20)).collect();
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), trace).expect("written");
    let path = file.path().to_str().expect("UTF-8");
    let common = ["run", "--trace", path, "--trace-format", "mooncake", "--drop", "2", "--windows", "1"];
    let run = |more: &[&str]| {
        let place = Place::new();
        let done = tarebench(&[&common[..], &["--out", place.out()], more].concat());
        place.assert_carried_out(&done);
        place.assert_verifies();
        place
    };
    let of = |place: &Place| {
        let (rows, opened) = (place.rows(), place.json("windows.jsonl")["opened"].as_u64().expect("a time"));
        let sent = rows.iter().map(|r| (r.trace_id, r.due - opened, r.prompt_sha256.clone(), r.class.clone()));
        sent.collect::<Vec<_>>()
    };
    let whole: Vec<(u64, u64)> = {
        let mut whole: Vec<_> = of(&run(&[])).into_iter().map(|(id, due, ..)| (id, due)).collect();
        whole.sort_unstable();
        whole
    };
    let shards: Vec<Place> = ["1/3", "2/3", "3/3"].map(|shard| run(&["--shard", shard])).into();
    let mut parts: Vec<_> = shards.iter().flat_map(of).collect();
    parts.sort_unstable();
    assert_eq!(parts.iter().map(|(id, due, ..)| (*id, *due)).collect::<Vec<_>>(), whole);
    // hosts that know nothing of each other's run make one text of one block
    assert!(parts.iter().all(|(id, _, text, _)| *text == parts[(*id % 3) as usize].2));
    let rate = |place: &Place| place.json("plan.json")["cells"][0]["rate"].as_f64().expect("a rate");
    assert!((shards.iter().map(rate).sum::<f64>() - 50.0).abs() < 1e-9, "together they have the rate of the trace");
    // a row that another host should have sent
    let text = std::fs::read_to_string(shards[0].dir.join("plan.json")).expect("plan.json");
    std::fs::write(shards[0].dir.join("plan.json"), text.replacen("\"index\": 1", "\"index\": 2", 1)).expect("written");
    assert_eq!(shards[0].verify().code, Some(1));
}
