//! The campaign ledger as the binary writes and reads it: every start, every end, and what tampering shows.

use crate::binary::{Done, MockProcess, Place, Running, run_against, tarebench, wait_until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use tarebench::rundir::chain::Chain;

const SMALL: [&str; 11] =
    ["run", "--max-concurrency", "2", "--num-prompts", "6", "--drop", "1", "--windows", "1", "--min-duration", "0"];

/// A campaign against the built-in mock, in `runs/NAME`.
fn campaign(runs: &Path, name: &str, more: &[&str]) -> Done {
    let out = runs.join(name);
    tarebench(&[&SMALL[..], more, &["--out", out.to_str().expect("text")]].concat())
}

fn ledger_at(path: &Path, more: &[&str]) -> Done {
    tarebench(&[&["ledger", path.to_str().expect("text")], more].concat())
}

fn verify(dir: &Path) -> Done {
    tarebench(&["verify", dir.to_str().expect("text")])
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn change(path: &Path, change: impl Fn(&mut Vec<String>)) {
    let mut lines: Vec<String> = fs::read_to_string(path).expect("there").lines().map(str::to_owned).collect();
    change(&mut lines);
    fs::write(path, lines.join("\n") + "\n").expect("written");
}

/// Everything in `from`, as `to`.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("there").flatten() {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        match path.is_dir() {
            true => copy(&path, &to),
            false => drop(fs::copy(&path, &to).expect("copied")),
        }
    }
}

/// Replaces text in a line that has an h, and gives it the h that it would have had.
fn resealed(line: &mut String, from: &str, to: &str) {
    let prev = serde_json::from_str::<Value>(line).expect("JSON")["prev"].as_str().expect("chained").to_owned();
    let plain = Chain::after(&prev).open(line).expect("whole");
    assert!(plain.contains(from), "{from} in {plain}");
    *line = plain.replacen(from, to, 1);
    Chain::after(&prev).seal(line);
}

type Tamper = (&'static str, fn(&Path), &'static str);

#[test]
fn what_is_tampered_with_is_found_and_named() {
    let place = Place::new();
    let runs = place.dir.as_path();
    for name in ["r1", "r2"] {
        let done = campaign(runs, name, &[]);
        assert!(matches!(done.code, Some(0 | 3)), "{}", done.err);
        assert!(done.err.contains("ledger.jsonl: campaign"), "it is said where it stands: {}", done.err);
    }
    let ended = lines(&runs.join("ledger.jsonl"));
    let events: Vec<_> = ended.iter().map(|line| line["event"].as_str().expect("an event")).collect();
    assert_eq!(events, ["start", "end", "start", "end"]);
    assert_eq!(lines(&runs.join("r2/ledger.jsonl")), ended[2..], "the run directory has the very lines");
    assert_eq!(ended[3]["runs"]["started"], 2);
    assert_eq!(ended[3]["runs_of_plan"]["started"], 2, "the same flags are the same plan");
    let requests = json!({"due": 7, "sent": 7, "kept": 6, "ok": 6, "failed": 0, "censored": 0, "not_sent": 0});
    assert_eq!(ended[3]["requests"], requests);
    for name in ["r1", "r2"] {
        let verified = verify(&runs.join(name));
        assert!(verified.code == Some(0) && !verified.out.contains("note:"), "{}", verified.out);
    }
    let listed = ledger_at(runs, &["--verify"]);
    assert_eq!(listed.code, Some(0), "{}{}", listed.out, listed.err);
    assert!(listed.out.contains("2 campaigns") && listed.out.contains("(2 of this plan)"), "{}", listed.out);
    assert!(
        listed.out.contains("6 ok, 0 failed") && listed.out.contains("model mock")
            || listed.out.contains("mock at mock")
    );
    assert!(listed.out.lines().all(|line| line.chars().count() <= 100), "{}", listed.out);
    let document: Value = serde_json::from_str(&ledger_at(runs, &["--json"]).out).expect("JSON");
    assert_eq!((&document["whole"], &document["runs"]["started"]), (&json!(true), &json!(2)));
    assert_eq!(document["campaigns"][1]["end"], ended[3]);
    // named by a run directory, it is the same ledger
    assert!(ledger_at(&runs.join("r1"), &[]).out.contains("2 campaigns"));

    let of_run: [Tamper; 16] = [
        ("requests.jsonl", |p| change(p, |l| drop(l.remove(2))), "requests.jsonl:3: h: stored"),
        (
            "run.json",
            |p| {
                change(p, |l| {
                    let at = l.iter().position(|l| l.contains("\"p50_ms\": ") && !l.contains("null")).expect("one");
                    l[at] = "      \"p50_ms\": 1.5,".to_owned();
                })
            },
            "p50_ms: stored",
        ),
        ("truth.jsonl", |p| change(p, |l| l.truncate(2)), "ledger.jsonl:2: files.truth.jsonl: stored"),
        (
            "plan.json",
            |p| {
                change(p, |l| l.iter_mut().for_each(|l| *l = l.replace("\"temperature\": 0.0", "\"temperature\": 0.5")))
            },
            "plan_hash: stored",
        ),
        (
            "ledger.jsonl",
            |p| change(p, |l| l[0] = l[0].replacen("\"drop\":1", "\"drop\":5", 1)),
            "ledger.jsonl:1: h: stored",
        ),
        (
            "ledger.jsonl",
            |p| change(p, |l| resealed(&mut l[0], "\"drop\":1", "\"drop\":5")),
            "ledger.jsonl:1: rules.drop: stored 5, recomputed 1",
        ),
        (
            "ledger.jsonl",
            |p| change(p, |l| resealed(&mut l[0], "\"goals\":null", "\"goals\":[1]")),
            "ledger.jsonl:1: rules.goals: stored [1], recomputed nothing",
        ),
        (
            "ledger.jsonl",
            |p| change(p, |l| resealed(&mut l[1], "\"ok\":6", "\"ok\":5")),
            "ledger.jsonl:2: requests.ok: stored 5, recomputed 6",
        ),
        (
            "ledger.jsonl",
            |p| change(p, |l| resealed(&mut l[1], "\"started\":2", "\"started\":1")),
            "ledger.jsonl:2: runs.started: stored 1, recomputed 2",
        ),
        (
            "ledger.jsonl",
            |p| change(p, |l| resealed(&mut l[1], "\"event\":\"end\"", "\"event\":\"start\"")),
            "ledger.jsonl:2: event: stored \"start\", recomputed \"end\"",
        ),
        ("ledger.jsonl", |p| change(p, |l| l.truncate(1)), "ledger.jsonl:2: the line at the end is missing"),
        (
            "ledger.jsonl",
            |p| change(p, |l| drop(l.remove(0))),
            "ledger.jsonl:1: event: stored \"end\", recomputed \"start\"",
        ),
        ("report.html", |p| change(p, |l| l[0].push('7')), "report.html:1: text: stored"),
        ("report.html", |p| fs::remove_file(p).expect("there"), "report.html: cannot be read: "),
        ("ledger.jsonl", |p| fs::remove_file(p).expect("there"), "ledger.jsonl is missing: report.md has its SHA-256"),
        (
            "../ledger.jsonl",
            |p| change(p, |l| l.truncate(3)),
            "../ledger.jsonl:4: the end line of this run was removed",
        ),
    ];
    for (file, tamper, said) in of_run {
        let other = Place::new();
        copy(runs, &other.dir);
        tamper(&other.dir.join("r2").join(file));
        let found = verify(&other.dir.join("r2"));
        assert_eq!(found.code, Some(1), "{file}, {said}: {}", found.out);
        assert!(found.out.contains(said), "{file}: {said} in {}", found.out);
    }
    // an outcome other than what the figures say, whichever it is here
    let other = Place::new();
    copy(runs, &other.dir);
    let outcome = ended[3]["outcome"].as_str().expect("an outcome");
    let wrong = if outcome == "complete" { "invalid" } else { "complete" };
    change(&other.dir.join("r2/ledger.jsonl"), |l| {
        resealed(&mut l[1], &format!("\"outcome\":\"{outcome}\""), &format!("\"outcome\":\"{wrong}\""));
    });
    assert_eq!(verify(&other.dir.join("r2")).code, Some(1));

    // the ledger: what is removed, changed, or swapped beside it
    let of_ledger: [Tamper; 6] = [
        ("ledger.jsonl", |p| change(p, |l| drop(l.remove(1))), "line 2: was cut off from the line before it"),
        ("ledger.jsonl", |p| change(p, |l| drop(l.remove(0))), "line 1: was cut off from the line before it"),
        ("ledger.jsonl", |p| change(p, |l| l[1] = l[1].replace("\"failed\":0", "\"failed\":9")), "line 2: was changed"),
        ("ledger.jsonl", |p| change(p, |l| l.truncate(3)), "r2: its end line (h "),
        ("ledger.jsonl", |p| change(p, |l| l.truncate(2)), "r2: its start line (h "),
        ("r1/health.jsonl", |p| fs::write(p, "{}\n").expect("written"), "r1/health.jsonl: is not the file"),
    ];
    for (file, tamper, said) in of_ledger {
        let other = Place::new();
        copy(runs, &other.dir);
        tamper(&other.dir.join(file));
        let found = ledger_at(&other.dir, &["--verify"]);
        assert_eq!(found.code, Some(1), "{said}: {}", found.out);
        assert!(found.err.contains(said), "the first one is named: {said}: {}", found.err);
        let unfolded = found.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(unfolded.contains("BROKEN") && unfolded.contains(said), "{said} in {}", found.out);
        assert!(found.out.lines().all(|line| line.chars().count() <= 100), "{}", found.out);
        let document: Value = serde_json::from_str(&ledger_at(&other.dir, &["--json", "--verify"]).out).expect("JSON");
        assert_eq!(document["whole"], false);
    }

    // a copied directory needs nothing else; beside another ledger that is said
    let alone = Place::new();
    copy(&runs.join("r2"), &alone.dir.join("copied"));
    assert_eq!(verify(&alone.dir.join("copied")).code, Some(0));
    assert_eq!(campaign(&alone.dir, "other", &[]).code.map(|code| code == 0 || code == 3), Some(true));
    let verified = verify(&alone.dir.join("copied"));
    assert!(verified.code == Some(0) && verified.out.contains("has no line of this run"), "{}", verified.out);
    assert_eq!(ledger_at(&alone.dir, &[]).code, Some(1), "a campaign that this ledger does not know");
}

#[test]
fn a_killed_run_has_no_end_and_an_interrupted_one_has() {
    let place = Place::new();
    let start = |name: &str| {
        let out = place.dir.join(name);
        let flags = ["run", "--max-concurrency", "2", "--windows", "1", "--min-duration", "50", "--out"];
        let run = Running::start(&[&flags[..], &[out.to_str().expect("text")]].concat());
        let rows = out.join("requests.jsonl");
        wait_until("some rows", || fs::read(&rows).is_ok_and(|bytes| bytes.contains(&b'\n')));
        // its line was there before its first request
        assert_eq!(lines(&out.join("ledger.jsonl")).len(), 1);
        run
    };
    let killed = start("killed");
    killed.signal(Signal::SIGKILL);
    assert_eq!(killed.end().code, None);
    let interrupted = start("interrupted");
    interrupted.signal(Signal::SIGINT);
    assert_eq!(interrupted.end().code, Some(130));
    let ledger = lines(&place.dir.join("ledger.jsonl"));
    let events: Vec<_> = ledger.iter().map(|line| (line["event"].as_str(), line["outcome"].as_str())).collect();
    let expected = [(Some("start"), None), (Some("start"), None), (Some("end"), Some("interrupted"))];
    assert_eq!(events, expected);
    let runs = &ledger[2]["runs"];
    assert_eq!((&runs["started"], &runs["interrupted"], &runs["without_end"]), (&json!(2), &json!(1), &json!(1)));
    let listed = ledger_at(&place.dir, &[]);
    assert_eq!(listed.code, Some(0), "{}", listed.out);
    let crashed = listed.out.lines().find(|line| line.contains("killed  ")).expect("listed");
    assert!(crashed.ends_with("no end line: crashed, killed, or still running"), "{crashed}");
    let verified = verify(&place.dir.join("killed"));
    assert_eq!(verified.code, Some(0), "{}", verified.out);
    assert!(verified.out.contains("note: ledger.jsonl has no line at the end"), "{}", verified.out);
    assert_eq!(verify(&place.dir.join("interrupted")).code, Some(0));
    // what it left is still held together by its chain
    change(&place.dir.join("killed/requests.jsonl"), |lines| {
        lines[0] = lines[0].replacen("\"worker\":0", "\"worker\":1", 1)
    });
    assert!(verify(&place.dir.join("killed")).out.starts_with("requests.jsonl:1: h: stored"));
}

#[test]
fn a_campaign_that_cannot_be_carried_out_says_why() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    // tells its model, and is gone when the first window wants it: a look whether the port is open, and two questions
    let server = std::thread::spawn(move || {
        for _ in 0..3 {
            let (mut socket, _) = listener.accept().expect("a client");
            let _ = socket.read(&mut [0; 4096]);
            let body = "{\"data\":[{\"id\":\"m\"}]}";
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n";
            let _ = write!(socket, "{head}Content-Length: {}\r\n\r\n{body}", body.len());
        }
    });
    let place = Place::new();
    let done = run_against(&format!("http://{address}"), &place, 4, &[]);
    server.join().expect("no panic");
    assert_eq!(done.code, Some(1), "{}{}", done.out, done.err);
    assert!(done.err.contains("no connection could be opened"), "{}", done.err);
    let copies = lines(&place.dir.join("ledger.jsonl"));
    let end = copies.last().expect("an end");
    assert_eq!((&end["event"], &end["outcome"], &end["requests"]), (&json!("end"), &json!("failed"), &Value::Null));
    assert!(end["reason"].as_str().expect("a reason").contains("no connection could be opened"), "{end}");
    let verified = verify(&place.dir);
    assert!(verified.code == Some(0) && verified.out.contains("note: the campaign could not"), "{}", verified.out);
    let listed = ledger_at(&place.dir, &[]);
    assert!(listed.code == Some(0) && listed.out.contains("because: no connection"), "{}", listed.out);
}

#[test]
fn two_campaigns_at_once_have_four_whole_lines() {
    let mock = MockProcess::start(&["--ttft", "1", "--itl", "0.2"], &[]);
    let place = Place::new();
    let start = |name: &str| {
        let out = place.dir.join(name);
        let flags = [&SMALL[..], &["--base-url", &mock.url, "--length-scale", "0.05"]].concat();
        Running::start(&[&flags[..], &["--out", out.to_str().expect("text")]].concat())
    };
    let running = ["a1", "a2", "a3"].map(start);
    for run in running {
        let done = run.end();
        assert!(matches!(done.code, Some(0 | 3)), "{}{}", done.out, done.err);
    }
    let listed = ledger_at(&place.dir, &["--verify"]);
    assert_eq!(listed.code, Some(0), "{}{}", listed.out, listed.err);
    assert!(listed.out.contains("3 campaigns") && listed.out.contains("whole: 6 lines"), "{}", listed.out);
    ["a1", "a2", "a3"].iter().for_each(|name| assert_eq!(verify(&place.dir.join(name)).code, Some(0)));
}

#[test]
fn an_old_directory_used_again_keeps_its_old_lines_in_the_ledger() {
    let place = Place::new();
    campaign(&place.dir, "r1", &[]);
    let before = fs::read_to_string(place.dir.join("ledger.jsonl")).expect("a ledger");
    let done = campaign(&place.dir, "r1", &["--force"]);
    assert!(matches!(done.code, Some(0 | 3)), "{}", done.err);
    let after = fs::read_to_string(place.dir.join("ledger.jsonl")).expect("a ledger");
    assert!(after.starts_with(&before) && after.lines().count() == 4, "{after}");
    assert_eq!(lines(&place.dir.join("r1/ledger.jsonl")).len(), 2, "its own lines only");
    assert_eq!(verify(&place.dir.join("r1")).code, Some(0));
    assert_eq!(ledger_at(&place.dir, &["--verify"]).code, Some(0));
}

/// Puts something where the ledger would be.
type Block = fn(PathBuf);

#[test]
fn a_parent_without_room_for_a_ledger_is_said_and_survived() {
    let blocked: [(Block, &str); 2] = [
        (|path| fs::create_dir_all(path).expect("made"), "it is no file"),
        (
            |path| {
                fs::create_dir_all(path.parent().expect("below")).expect("made");
                fs::write(path, "notes\n").expect("written");
            },
            "something else than a ledger",
        ),
    ];
    for (block, said) in blocked {
        let place = Place::new();
        block(place.dir.join("ledger.jsonl"));
        let done = campaign(&place.dir, "r1", &[]);
        assert!(matches!(done.code, Some(0 | 3)), "{}", done.err);
        assert_eq!(done.err.matches(said).count(), 2, "at the start and at the end: {}", done.err);
        let copies = lines(&place.dir.join("r1/ledger.jsonl"));
        assert_eq!(copies.len(), 2);
        assert!(copies.iter().all(|line| line["h"].is_null() && line["prev"].is_null()));
        assert_eq!(copies[1]["runs"], Value::Null, "how many there were is not known");
        let verified = verify(&place.dir.join("r1"));
        assert!(verified.code == Some(0) && verified.out.contains("could not be written into"), "{}", verified.out);
        let listed = ledger_at(&place.dir, &[]);
        assert_eq!(listed.code, Some(1), "{}", listed.out);
    }
    let nowhere = ledger_at(Path::new("/no/such/place"), &[]);
    assert!(nowhere.code == Some(1) && nowhere.err.contains("/no/such/place"), "{}", nowhere.err);
    let none = Place::new();
    fs::create_dir(&none.dir).expect("made");
    let none = ledger_at(&none.dir, &[]);
    assert!(none.code == Some(1) && none.err.contains("there is no ledger.jsonl"), "{}", none.err);
}
