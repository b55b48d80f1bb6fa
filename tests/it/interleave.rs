//! Two servers measured in turns: order, sameness of the work, and what an idle arm costs.

use crate::binary::{MockProcess, Place, Running, tarebench, wait_until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;
use tarebench::interleave::{Order, Sequence};
use tarebench::rundir::row::Row;

fn jsonl(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn plan(dir: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(dir.join("plan.json")).expect("a plan")).expect("JSON")
}

fn rows(dir: &Path) -> Vec<Row> {
    let row = |mut line: Value| {
        line.as_object_mut().expect("a row").remove("h");
        serde_json::from_value(line).expect("a row")
    };
    jsonl(&dir.join("requests.jsonl")).into_iter().map(row).collect()
}

fn assert_verifies(dir: &Path) {
    let done = tarebench(&["verify", dir.to_str().expect("text")]);
    assert!(done.code == Some(0) && !done.out.contains("note:"), "{}{}", done.out, done.err);
}

/// The arms' letters in the order in which their windows were opened, on the clock that both share.
fn order_in_time(dirs: [&Path; 2]) -> String {
    let mut opened: Vec<(u64, char)> = Vec::new();
    for (dir, letter) in dirs.iter().zip(['A', 'B']) {
        let origin = plan(dir)["environment"]["origin_monotonic_ns"].as_u64().expect("an origin");
        let windows = jsonl(&dir.join("windows.jsonl"));
        opened.extend(windows.iter().map(|w| (origin + w["opened"].as_u64().expect("a time"), letter)));
    }
    opened.sort_unstable();
    opened.iter().map(|(_, letter)| letter).collect()
}

/// How often each thread of a kind was on a core during each window of `dir`.
fn switches(dir: &Path, kind: &str) -> Vec<BTreeMap<u64, u64>> {
    let samples = jsonl(&dir.join("health.jsonl"));
    let of_window = |window: Value| {
        let [opened, closed] = ["opened", "closed"].map(|at| window[at].as_u64().expect("a time"));
        let mut by_thread: BTreeMap<u64, Vec<&Value>> = BTreeMap::new();
        for sample in samples.iter().filter(|s| s["thread"].as_str().is_some_and(|name| name.starts_with(kind))) {
            by_thread.entry(sample["tid"].as_u64().expect("a tid")).or_default().push(sample);
        }
        let grown = |samples: Vec<&Value>| {
            let at = |s: &&&Value| s["t"].as_u64().expect("a time");
            let before = samples.iter().rev().find(|s| at(s) <= opened).expect("one before");
            let after = samples.iter().find(|s| at(s) >= closed).expect("one after");
            let count = |s: &Value| s["voluntary_switches"].as_u64().expect("a count");
            count(after) - count(before)
        };
        by_thread.into_iter().map(|(tid, samples)| (tid, grown(samples))).collect()
    };
    jsonl(&dir.join("windows.jsonl")).into_iter().map(of_window).collect()
}

#[test]
fn two_servers_take_turns_and_each_has_a_whole_run() {
    let fast = MockProcess::start(&["--ttft", "1", "--itl", "0.2"], &[]);
    let slow = MockProcess::start(&["--ttft", "150", "--itl", "0.2"], &[]);
    let place = Place::new();
    let work =
        ["--max-concurrency", "2", "--num-prompts", "8", "--drop", "1", "--windows", "4", "--length-scale", "0.05"];
    let targets = ["run", "--base-url", &fast.url, "--interleave", &slow.url, "--out", place.out()];
    let done = tarebench(&[&targets[..], &work].concat());
    assert!(matches!(done.code, Some(0 | 3)), "{:?} {}{}", done.code, done.out, done.err);
    let (a, b) = (place.dir.join("a"), place.dir.join("b"));
    assert!(done.out.contains(&format!("tarebench compare {} {}", a.display(), b.display())), "{}", done.out);
    let narrow = |line: &str| line.chars().count() <= 100 || line.contains(place.out());
    assert!(done.out.lines().all(narrow), "{}", done.out);
    [&a, &b].iter().for_each(|dir| assert_verifies(dir));

    let plans = [plan(&a), plan(&b)];
    let [of_a, of_b] = [&plans[0]["interleave"], &plans[1]["interleave"]];
    assert_eq!((&of_a["arm"], &of_b["arm"], &of_a["order"]), (&json!("a"), &json!("b"), &json!("abba")));
    assert_eq!((&of_a["with"], &of_b["with"]), (&plans[1]["run_id"], &plans[0]["run_id"]));
    assert_eq!((&of_a["sequence"], &of_a["start_seed"]), (&of_b["sequence"], &json!(7)));
    assert_eq!([&plans[0]["base_url"], &plans[1]["base_url"]], [&json!(fast.url), &json!(slow.url)]);
    let order = order_in_time([&a, &b]);
    assert_eq!(order, of_a["sequence"], "as it was laid down before");
    assert!(["ABBAABBA", "BAABBAAB"].contains(&order.as_str()), "{order}");

    // the same work in the same window, in other words
    let all = [rows(&a), rows(&b)];
    let asked = |rows: &[Row]| -> BTreeSet<_> {
        let of = |r: &Row| (r.window, r.trace_id, r.class.clone(), r.asked_prompt_tokens, r.asked_output_tokens);
        rows.iter().map(of).collect()
    };
    assert_eq!((all[0].len(), asked(&all[0])), (4 * 9, asked(&all[1])));
    let nonces: BTreeSet<&str> = all.iter().flatten().map(|r| r.nonce.as_str()).collect();
    assert_eq!(nonces.len(), 2 * 4 * 9);
    // what is slow in B is slow in B only
    let ttfts = |rows: &[Row]| -> Vec<u64> {
        let mut found: Vec<u64> =
            rows.iter().map(|r| r.first_token.expect("answered").seen - r.submit.expect("sent")).collect();
        found.sort_unstable();
        found
    };
    let (of_a, of_b) = (ttfts(&all[0]), ttfts(&all[1]));
    assert!(of_a[of_a.len() / 2] < of_b[0], "most of A come before any of B: {of_a:?}, {of_b:?}");

    // who has no turn sleeps: a worker without looking up, a recorder but for what it had still to do
    let worker = |dir: &Path| jsonl(&dir.join("windows.jsonl"))[0]["workers"][0]["tid"].as_u64().expect("a tid");
    for (dir, other) in [(&a, &b), (&b, &a)] {
        for window in switches(dir, "worker-0") {
            assert_eq!(window[&worker(other)], 0, "{window:?}");
            assert!(window[&worker(dir)] > 0, "{window:?}");
        }
    }
    // a window of the slow one lasts over half a second: a recorder that looked up every millisecond would show
    for window in switches(&b, "recorder") {
        assert_eq!(window.len(), 2);
        assert!(window.values().min() < Some(&50) && window.values().max() > Some(&50), "{window:?}");
    }

    // one ledger beside both, with the lines of both
    let ledger = jsonl(&place.dir.parent().expect("above").join("ledger.jsonl"));
    let dirs: Vec<&str> = ledger.iter().filter_map(|line| line["dir"].as_str()).collect();
    assert_eq!(dirs, ["run/a", "run/b"]);
    assert_eq!(ledger[0]["interleave"], plans[0]["interleave"]);
    assert_eq!(ledger.iter().filter(|line| line["event"] == "end").count(), 2);
    let listed = tarebench(&["ledger", a.to_str().expect("text"), "--verify"]);
    assert!(listed.code == Some(0) && listed.out.contains("run/b"), "{}{}", listed.out, listed.err);
}

#[test]
fn pairs_are_drawn_for_each_load_point_and_json_has_both() {
    let mock = MockProcess::start(&["--ttft", "1", "--itl", "0.2"], &[]);
    let place = Place::new();
    let work = ["--max-concurrency", "1,2", "--num-prompts", "3", "--drop", "0", "--windows", "3", "--seed", "11"];
    let targets = ["run", "--base-url", &mock.url, "--interleave", &mock.url, "--interleave-order", "pairs"];
    let more = ["--length-scale", "0.05", "--json", "--out", place.out()];
    let done = tarebench(&[&targets[..], &work, &more].concat());
    assert!(matches!(done.code, Some(0 | 3)), "{:?} {}", done.code, done.err);
    let (a, b) = (place.dir.join("a"), place.dir.join("b"));
    let printed: Value = serde_json::from_str(&done.out).expect("JSON and nothing else");
    for (arm, dir) in [("a", &a), ("b", &b)] {
        assert_verifies(dir);
        let run: Value = serde_json::from_str(&fs::read_to_string(dir.join("run.json")).expect("there")).expect("JSON");
        assert_eq!(printed[arm], run);
    }
    let of_a = &plan(&a)["interleave"];
    assert_eq!((&of_a["order"], &of_a["start_seed"]), (&json!("pairs"), &json!(11)));
    let order = order_in_time([&a, &b]);
    assert_eq!(order, of_a["sequence"]);
    assert_eq!(order.len(), 2 * 2 * 3);

    // a sequence that was not drawn from the seed is found
    let text = fs::read_to_string(a.join("plan.json")).expect("a plan");
    let other: String = order.chars().map(|c| if c == 'A' { 'B' } else { 'A' }).collect();
    fs::write(a.join("plan.json"), text.replace(&order, &other)).expect("written");
    let found = tarebench(&["verify", a.to_str().expect("text")]);
    assert!(found.code == Some(1) && found.out.contains("ledger.jsonl:1: interleave: stored"), "{}", found.out);
}

#[test]
fn an_interrupt_leaves_both_arms_complete_as_interrupted() {
    let mock = MockProcess::start(&["--ttft", "1", "--itl", "0.2"], &[]);
    let place = Place::new();
    let targets = ["run", "--base-url", &mock.url, "--interleave", &mock.url, "--max-concurrency", "2"];
    let more = ["--windows", "2", "--min-duration", "50", "--length-scale", "0.05", "--out", place.out()];
    let run = Running::start(&[&targets[..], &more].concat());
    let dirs = [place.dir.join("a"), place.dir.join("b")];
    let has_rows = |dir: &Path| fs::read(dir.join("requests.jsonl")).is_ok_and(|bytes| bytes.contains(&b'\n'));
    wait_until("some rows", || dirs.iter().any(|dir| has_rows(dir)));
    run.signal(Signal::SIGINT);
    let done = run.end();
    assert_eq!(done.code, Some(130), "{}{}", done.out, done.err);
    for dir in &dirs {
        let verified = tarebench(&["verify", dir.to_str().expect("text")]);
        assert_eq!(verified.code, Some(0), "{}", verified.out);
        assert!(dir.join("report.md").is_file() && dir.join("report.html").is_file());
        let end = jsonl(&dir.join("ledger.jsonl")).pop().expect("a line");
        assert_eq!((&end["event"], &end["outcome"]), (&json!("end"), &json!("interrupted")));
    }
    assert_eq!(dirs.iter().filter(|dir| has_rows(dir)).count(), 1, "the other one's turn had not come");
}

/// A server that keeps connections, and closes each once it has been idle after a reply for a third of a second.
fn closing_idle_connections() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            std::thread::spawn(move || while let Ok(true) = answer_next(&socket) {});
        }
    });
    url
}

/// Reads a request and answers it; false when the client has closed.
fn answer_next(socket: &TcpStream) -> std::io::Result<bool> {
    let (mut reader, mut writer) = (BufReader::new(socket), socket);
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        let begun = head.len();
        if reader.read_line(&mut head)? == 0 {
            return Ok(false);
        }
        let line = head[begun..].to_ascii_lowercase();
        length = line.strip_prefix("content-length:").and_then(|n| n.trim().parse().ok()).unwrap_or(length);
    }
    reader.read_exact(&mut vec![0; length])?;
    let (kind, body) = match head.starts_with("POST") {
        true => {
            let token = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"A\"}}]}\n\n";
            let finish = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
            ("text/event-stream", format!("{token}{finish}data: [DONE]\n\n"))
        }
        false => ("application/json", "{\"data\":[{\"id\":\"mock\"}]}".to_owned()),
    };
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n", body.len());
    writer.write_all((head + &body).as_bytes())?;
    // only after a reply: a connection that was opened ahead waits as long as it must
    socket.set_read_timeout(Some(Duration::from_millis(333)))?;
    Ok(true)
}

/// Connections that the server closed while the other arm had its turn are opened anew before the next window, however
/// many they are, and their first requests are told apart from warm and cold ones.
#[test]
fn connections_lost_while_idle_are_reopened_and_lose_no_request() {
    const AT_ONCE: usize = 30;
    let a_first = |seed: &u64| Sequence::draw(Order::Abba, *seed, 1, 2).letters() == "ABBA";
    let seed = (0..).find(a_first).expect("one of two").to_string();
    let slow = MockProcess::start(&["--ttft", "300", "--itl", "0.2"], &[]);
    let place = Place::new();
    let targets = ["run", "--base-url", &closing_idle_connections(), "--interleave", &slow.url, "--seed", &seed];
    let work = ["--max-concurrency", "30", "--num-prompts", "90", "--drop", "0", "--windows", "2"];
    let done = tarebench(&[&targets[..], &work, &["--length-scale", "0.05", "--out", place.out()]].concat());
    assert!(matches!(done.code, Some(0 | 3)), "{:?} {}{}", done.code, done.out, done.err);
    let dir = place.dir.join("a");
    assert_verifies(&dir);
    let rows = rows(&dir);
    let reopened = |window: u32| {
        let of = rows.iter().filter(|r| r.window == window && r.flags.iter().any(|flag| flag == "reopened"));
        of.count()
    };
    assert_eq!((rows.len(), reopened(0), reopened(1)), (180, 0, AT_ONCE));
    assert!(rows.iter().all(|r| r.retries == 0 && r.error.is_none()), "no request was lost on a closed connection");
}

#[test]
fn a_second_server_that_is_not_there_leaves_nothing_behind() {
    let mock = MockProcess::start(&[], &[]);
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    let place = Place::new();
    let other = format!("http://{nobody}");
    let done = tarebench(&["run", "--base-url", &mock.url, "--interleave", &other, "--out", place.out()]);
    assert!(done.code == Some(1) && done.err.contains(&nobody.to_string()), "{}", done.err);
    assert!(!place.dir.exists() && !place.dir.parent().expect("above").join("ledger.jsonl").exists());
    let alone = tarebench(&["run", "--interleave", &other, "--out", place.out()]);
    assert!(alone.code == Some(2) && alone.err.contains("--base-url"), "{}", alone.err);
}
