//! The binary as people use it: words in, files and an exit status out.

use crate::foreign_server::{Answer, ForeignServer};
use assert_cmd::Command;
use bench_engine::clock::{Clock, SystemClock};
use bench_engine::units::Nanos;
use calibration::truth::read_truth;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::time::Duration;
use tarebench::rundir::chain::Chain;
use tarebench::rundir::row::{Outcome, Phase, Row};
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_tarebench");
/// Where there are no calibrations: those of whoever runs the tests are none of theirs.
const NO_CALIBRATIONS: (&str, &str) = ("TAREBENCH_CALIBRATIONS", "/dev/null/none");
/// No wait of a test is longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a finished process left.
pub struct Done {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

pub fn tarebench(args: &[&str]) -> Done {
    tarebench_with(args, &[])
}

fn tarebench_with(args: &[&str], environment: &[(&str, &str)]) -> Done {
    let mut command = Command::new(BINARY);
    command.args(args).env_remove("OPENAI_API_KEY").env(NO_CALIBRATIONS.0, NO_CALIBRATIONS.1);
    command.envs(environment.iter().copied()).timeout(PATIENCE);
    done(&command.output().expect("the binary runs"))
}

fn done(output: &std::process::Output) -> Done {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    Done { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
}

/// A run directory that does not exist yet, in a directory that is removed at the end.
pub struct Place {
    keep: TempDir,
    pub dir: PathBuf,
}

impl Place {
    pub fn new() -> Self {
        let keep = tempfile::tempdir().expect("a directory");
        let dir = keep.path().join("run");
        Place { keep, dir }
    }

    pub fn out(&self) -> &str {
        self.dir.to_str().expect("text")
    }

    pub fn json(&self, name: &str) -> Value {
        let text = std::fs::read_to_string(self.dir.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        // as values; in words they may stand
        assert!(!text.contains("NaN") && !text.contains(": inf") && !text.contains(": -inf"), "{name} is JSON");
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    pub fn rows(&self) -> Vec<Row> {
        let text = std::fs::read_to_string(self.dir.join("requests.jsonl")).expect("requests.jsonl");
        let mut chain = Chain::default();
        let open = |line: &str| serde_json::from_str(&chain.open(line).expect("the chain holds")).expect("a row");
        text.lines().map(open).collect()
    }

    pub fn verify(&self) -> Done {
        tarebench(&["verify", self.out()])
    }

    /// The campaign was carried out whole. A machine that is busy with other things may have kept the client from
    /// measuring: that is an answer about the machine, and the only one that is let pass.
    pub fn assert_carried_out(&self, done: &Done) {
        let starved = || {
            let run = self.json("run.json");
            let verdicts = run["verdicts"].as_array().expect("verdicts");
            let of_machine =
                |v: &Value| v["kind"] == "invalid" && !v["text"].as_str().is_some_and(|t| t.contains("lost"));
            run["complete"] == true && !verdicts.is_empty() && verdicts.iter().all(of_machine)
        };
        assert!(done.code == Some(0) || done.code == Some(3) && starved(), "{:?} {}{}", done.code, done.out, done.err);
    }

    pub fn assert_verifies(&self) {
        let verified = self.verify();
        assert_eq!(verified.code, Some(0), "{}{}", verified.out, verified.err);
    }
}

/// A campaign of one window with `n` requests, no warm-up.
pub fn run_against(url: &str, place: &Place, n: u32, more: &[&str]) -> Done {
    let n = n.to_string();
    let mut args = vec!["run", "--base-url", url, "--num-prompts", &n, "--drop", "0", "--windows", "1"];
    args.extend(["--length-scale", "0.05", "--out", place.out()]);
    if !more.contains(&"--max-concurrency") {
        args.extend(["--max-concurrency", "2"]);
    }
    args.extend(more);
    tarebench(&args)
}

/// Waits for something that another process does.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = SystemClock.now() + Nanos::from_secs(PATIENCE.as_secs());
    while !is_so() {
        assert!(SystemClock.now() < until, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A process that is still running.
pub struct Running(Option<Child>);

impl Running {
    pub fn start(args: &[&str]) -> Self {
        Running::start_by(std::process::Command::new(BINARY), args)
    }

    fn start_by(mut command: std::process::Command, args: &[&str]) -> Self {
        command.args(args).env_remove("OPENAI_API_KEY").env(NO_CALIBRATIONS.0, NO_CALIBRATIONS.1);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(Some(command.spawn().expect("the binary runs")))
    }

    pub fn signal(&self, signal: Signal) {
        let pid = self.0.as_ref().expect("running").id();
        kill(Pid::from_raw(pid as i32), signal).expect("it is ours");
    }

    /// Pids of its children whose command line contains `word`.
    pub fn children(&self, word: &str) -> Vec<Pid> {
        let pid = self.0.as_ref().expect("running").id();
        let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let is_it =
            |pid: &&str| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|c| c.contains(word));
        list.split_whitespace().filter(is_it).filter_map(|pid| pid.parse().ok().map(Pid::from_raw)).collect()
    }

    fn has_ended(&mut self) -> bool {
        self.0.as_mut().expect("running").try_wait().expect("it is ours").is_some()
    }

    pub fn end(mut self) -> Done {
        wait_until("the end of the process", || self.has_ended());
        done(&self.0.take().expect("running").wait_with_output().expect("it is ours"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// `tarebench mock` as a process of its own.
pub struct MockProcess {
    child: Child,
    pub url: String,
    /// With `--truth-listen`.
    pub truth_url: Option<String>,
    _until: Option<ChildStdin>,
}

impl MockProcess {
    pub fn start(flags: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command = std::process::Command::new(BINARY);
        command.args(["mock", "--until-stdin-closes"]).args(flags).envs(environment.iter().copied());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the mock runs");
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        out.read_line(&mut line).expect("a line");
        let truth_url = flags.contains(&"--truth-listen").then(|| {
            let mut line = String::new();
            out.read_line(&mut line).expect("a line");
            line.trim().strip_prefix("mock: truth at ").expect("its truth").to_owned()
        });
        let address: SocketAddr =
            line.trim().strip_prefix("mock: listening on ").and_then(|a| a.parse().ok()).expect("its address");
        let until = child.stdin.take();
        MockProcess { child, url: format!("http://{address}"), truth_url, _until: until }
    }
}

impl Drop for MockProcess {
    fn drop(&mut self) {
        drop(self._until.take());
        let _ = self.child.wait();
    }
}

pub fn count(rows: &[Row], outcome: Outcome) -> usize {
    rows.iter().filter(|r| r.outcome == outcome).count()
}

#[test]
fn a_small_campaign_against_the_built_in_mock() {
    let place = Place::new();
    let small = ["run", "--max-concurrency", "1,4", "--num-prompts", "20", "--drop", "2", "--windows", "2"];
    let done = tarebench(&[&small[..], &["--min-duration", "0", "--out", place.out()]].concat());
    place.assert_carried_out(&done);
    let raw = ["plan.json", "requests.jsonl", "windows.jsonl", "health.jsonl", "truth.jsonl"];
    for name in raw.into_iter().chain(["run.json", "report.md", "report.html"]) {
        assert!(place.dir.join(name).is_file(), "{name} is there");
    }
    place.assert_verifies();
    let rows = place.rows();
    assert_eq!(rows.len(), 2 * 2 * 22);
    assert_eq!(count(&rows, Outcome::Ok), rows.len());
    let nonces: BTreeSet<&str> = rows.iter().map(|r| r.nonce.as_str()).collect();
    assert_eq!(nonces.len(), rows.len(), "no prompt begins as another one does");
    let hashes =
        |phase| rows.iter().filter(move |r| r.phase == phase).map(|r| &r.prompt_sha256).collect::<BTreeSet<_>>();
    let (warm, measured) = (hashes(Phase::Warmup), hashes(Phase::Measured));
    assert_eq!((warm.len(), measured.len()), (8, 80));
    assert!(warm.is_disjoint(&measured));
    for (cell, window) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let of = rows.iter().filter(|r| (r.cell, r.window) == (cell, window));
        let ids: BTreeSet<u64> = of.map(|r| r.trace_id).collect();
        assert_eq!(ids, (0..22).collect(), "cell {cell}, window {window}");
    }
    // what the gates are made of is on disk, and every gate in the summary
    let health = std::fs::read_to_string(place.dir.join("health.jsonl")).expect("health.jsonl");
    let samples: Vec<Value> = health.lines().map(|l| serde_json::from_str(l).expect("a sample")).collect();
    let worker: Vec<&Value> = samples.iter().filter(|s| s["thread"] == "worker-0").collect();
    assert!(worker.iter().all(|s| s["busy_ns"].is_u64() && s["steal_ns"].is_u64() && s["softirq_ns"].is_u64()));
    let busy = |s: Option<&&Value>| s.and_then(|s| s["busy_ns"].as_u64());
    assert!(busy(worker.first()) < busy(worker.last()), "it grows with the work");
    for window in
        place.json("run.json")["cells"].as_array().expect("cells").iter().flat_map(|c| c["windows"].as_array())
    {
        let gates: BTreeSet<&str> = window
            .iter()
            .flat_map(|w| w["client"]["gates"].as_array())
            .flatten()
            .filter_map(|g| g["gate"].as_str())
            .collect();
        for gate in ["cpu", "busy", "burst_drain", "read_delay", "run_queue", "steal", "net_width", "losses"] {
            assert!(gates.contains(gate), "no {gate} in {gates:?}");
        }
    }
    // the mock saw each of them once, and nothing else
    let log = std::fs::File::open(place.dir.join("truth.jsonl")).expect("a truth log");
    let (truth, summary) = read_truth(BufReader::new(log)).expect("readable");
    assert!(summary.is_some(), "the mock ended in peace");
    let seen: BTreeSet<&str> = truth.iter().map(|t| t.nonce.as_str()).collect();
    assert_eq!((truth.len(), seen), (rows.len(), nonces));

    // one digit of one row
    let path = place.dir.join("requests.jsonl");
    let text = std::fs::read_to_string(&path).expect("text");
    for line in [1, 37, 88] {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let at = lines[line - 1].find("\"submit\":").expect("a submit") + "\"submit\":".len();
        let digit = lines[line - 1].as_bytes()[at];
        let other = if digit == b'9' { "8".to_owned() } else { char::from(digit + 1).to_string() };
        lines[line - 1].replace_range(at..=at, &other);
        std::fs::write(&path, lines.join("\n") + "\n").expect("written");
        let found = place.verify();
        assert_eq!(found.code, Some(1));
        let first = found.out.lines().next().unwrap_or("");
        assert!(first.contains(&format!("requests.jsonl:{line}:")), "{first}");
    }
    std::fs::write(&path, &text).expect("written");
    place.assert_verifies();
}

#[test]
fn a_window_goes_on_past_its_number_until_it_has_lasted() {
    let place = Place::new();
    let few = ["run", "--max-concurrency", "3", "--num-prompts", "4", "--drop", "1", "--windows", "1"];
    let done = tarebench(&[&few[..], &["--min-duration", "0.5", "--out", place.out()]].concat());
    place.assert_carried_out(&done);
    let ids: BTreeSet<u64> = place.rows().iter().map(|r| r.trace_id).collect();
    assert!(ids.len() > 5, "{} requests", ids.len());
    assert_eq!(ids, (0..ids.len() as u64).collect(), "one after another, none left out");
    let windows = std::fs::read_to_string(place.dir.join("windows.jsonl")).expect("windows");
    let window: Value = serde_json::from_str(windows.trim()).expect("one window");
    let at = |name: &str| window[name].as_u64().expect("a time");
    assert!(at("closed") - at("opened") >= 500_000_000, "the record says how long it was: {window}");
    place.assert_verifies();
}

#[test]
fn a_slow_servers_window_does_not_go_on_for_a_whole_queue_of_requests() {
    let server = ForeignServer::start(|r, _| r.is_post().then(|| Answer::stream(1, 100)));
    let place = Place::new();
    let done = run_against(&server.url(), &place, 2, &["--max-concurrency", "1", "--min-duration", "0.5"]);
    place.assert_carried_out(&done);
    let n = place.rows().len();
    assert!((3..20).contains(&n), "a tenth of a second each, half a second in all: {n}");
}

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
fn hyper_keeps_connections_and_they_are_used_again() {
    let server = ForeignServer::start(|r, _| r.is_post().then(|| Answer::stream(4, 1)));
    let place = Place::new();
    let done = run_against(&server.url(), &place, 12, &["--length-probe", "off"]);
    place.assert_carried_out(&done);
    assert_eq!(server.connections(), 2, "two requests at once, so two connections");
    let rows = place.rows();
    assert_eq!((rows.len(), count(&rows, Outcome::Ok)), (12, 12));
    assert_eq!(rows.iter().filter(|r| r.conn_reused).count(), 10);
    let bodies: BTreeSet<String> = server.received().iter().filter(|r| r.is_post()).map(|r| r.body.clone()).collect();
    assert_eq!(bodies.len(), 12);
    place.assert_verifies();

    let place = Place::new();
    let before = server.connections();
    let done = run_against(&server.url(), &place, 6, &["--connection", "per-request", "--length-probe", "off"]);
    place.assert_carried_out(&done);
    assert_eq!(server.connections() - before, 6);
    assert!(place.rows().iter().all(|r| !r.conn_reused && r.connect.is_some()));
}

#[test]
fn a_port_where_nobody_listens() {
    let address = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    let place = Place::new();
    let done = run_against(&format!("http://{address}"), &place, 5, &[]);
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert!(done.err.contains(&address.to_string()) && done.err.contains("--wait"), "{}", done.err);
}

#[test]
fn a_host_nobody_knows() {
    let place = Place::new();
    let done = run_against("http://no-such-host.invalid:8000", &place, 5, &[]);
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert!(done.err.contains("dns") && done.err.contains("no-such-host.invalid"), "{}", done.err);
}

#[test]
fn a_path_that_is_not_there() {
    let mock = MockProcess::start(&[], &[]);
    let place = Place::new();
    let done = run_against(&mock.url, &place, 8, &["--endpoint", "/v7/chat/completions"]);
    assert_eq!(done.code, Some(3), "{}{}", done.out, done.err);
    assert!(done.out.contains("http_status"), "{}", done.out);
    let rows = place.rows();
    assert_eq!((rows.len(), count(&rows, Outcome::Failed)), (8, 8), "nothing is lost");
    for row in &rows {
        assert_eq!(row.http_status, Some(404));
        assert_eq!(row.error.as_ref().map(|e| e.class.as_str()), Some("http_status"));
    }
    let report = std::fs::read_to_string(place.dir.join("report.md")).expect("a report");
    assert!(report.contains("http_status"), "{report}");
    place.assert_verifies();
}

/// F1: a reply of nothing but `[DONE]` has no first token, and is no success.
#[test]
fn a_reply_of_nothing_but_done_is_a_failure_without_figures() {
    let server = ForeignServer::start(|r, posts| {
        let mut answer = Answer::stream(1, 0);
        if posts == 1 {
            answer.pieces = vec![(0, Some("data: [DONE]\n\n".to_owned()))];
        }
        r.is_post().then_some(answer)
    });
    let place = Place::new();
    let done = run_against(&server.url(), &place, 2, &["--max-concurrency", "1", "--length-probe", "off"]);
    assert_eq!(done.code, Some(3), "{}{}", done.out, done.err);
    let window = &place.json("run.json")["cells"][0]["windows"][0];
    assert_eq!((&window["requests"]["ok"], &window["requests"]["by_error"]["no_token"]), (&1.into(), &1.into()));
    assert_eq!(
        (&window["metrics"]["ttft"]["gross"]["n"], &window["metrics"]["e2e"]["due"]["n"]),
        (&1.into(), &1.into())
    );
    place.assert_verifies();
}

/// F7: a reply that came in one read has no time per token, and does not pass for a fast one.
#[test]
fn a_reply_in_one_read_has_no_time_per_token() {
    let server = ForeignServer::start(|r, _| {
        let mut answer = Answer::stream(5, 0);
        let whole = answer.pieces.iter().filter_map(|(_, text)| text.clone()).collect();
        answer.pieces = vec![(0, Some(whole))];
        r.is_post().then_some(answer)
    });
    let place = Place::new();
    let done = run_against(&server.url(), &place, 20, &[]);
    place.assert_carried_out(&done);
    let rows = place.rows();
    let apart = |row: &&Row| row.chunks.first().map(|c| c.4) != row.chunks.last().map(|c| c.4);
    let apart = rows.iter().filter(apart).count();
    let metrics = &place.json("run.json")["cells"][0]["windows"][0]["metrics"];
    assert_eq!(metrics["e2e"]["gross"]["n"], 20);
    assert_eq!(metrics["tpot"]["gross"]["n"].as_u64().unwrap_or(0), apart as u64, "only those of several reads");
    assert!(apart < 20, "the server writes each at once");
    assert!(done.out.contains("of token events share a read"), "{}", done.out);
    place.assert_verifies();
}

/// F8: 300 replies of 200 without a token: nothing was completed, whatever length was asked for.
#[test]
fn replies_of_a_role_and_an_end_are_no_output() {
    let role = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
    let finish = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let server = ForeignServer::start(move |r, _| {
        let mut answer = Answer::stream(0, 0);
        answer.pieces = vec![(0, Some(format!("{role}{finish}")))];
        r.is_post().then_some(answer)
    });
    let place = Place::new();
    let done = run_against(&server.url(), &place, 300, &["--max-concurrency", "4"]);
    assert_eq!(done.code, Some(3), "{}{}", done.out, done.err);
    let window = &place.json("run.json")["cells"][0]["windows"][0];
    assert_eq!((&window["requests"]["ok"], &window["requests"]["by_error"]["no_token"]), (&0.into(), &300.into()));
    assert!(window["tokens"]["completion"].is_null() && window["metrics"]["ttft"]["gross"].is_null());
    let rate = &window["throughput"]["whole"]["output_tokens_per_s"];
    assert!(rate.as_f64().unwrap_or(0.0) == 0.0, "{rate}");
    place.assert_verifies();
}

/// F2: nothing succeeded.
#[test]
fn a_cell_where_nothing_succeeds_has_no_figures() {
    let server = ForeignServer::start(|r, _| r.is_post().then(|| Answer::json(500, "{\"error\":\"no\"}")));
    let place = Place::new();
    let done = run_against(&server.url(), &place, 20, &[]);
    assert_eq!(done.code, Some(3), "{}{}", done.out, done.err);
    let run = place.json("run.json");
    let window = &run["cells"][0]["windows"][0];
    assert_eq!((&window["requests"]["ok"], &window["requests"]["failed"]), (&0.into(), &20.into()));
    assert_eq!(window["requests"]["by_error"]["http_status"], 20);
    for metric in ["ttft", "ttfo", "e2e", "gap", "stall", "tpot"] {
        for column in ["gross", "tare", "net"] {
            let p50 = &window["metrics"][metric][column]["p50_ms"];
            assert!(p50.is_null(), "{metric} {column}: {p50}");
        }
    }
    assert_eq!(place.rows().len(), 20);
    place.assert_verifies();
}

/// F3: failures are shown.
#[test]
fn three_of_ten_fail() {
    let server = ForeignServer::start(|r, posts| {
        let bad = [2, 5, 7].contains(&posts);
        r.is_post().then(|| if bad { Answer::json(500, "{\"error\":\"no\"}") } else { Answer::stream(3, 0) })
    });
    let place = Place::new();
    let done = run_against(&server.url(), &place, 10, &["--max-concurrency", "1", "--length-probe", "off"]);
    assert_eq!(done.code, Some(3), "{}{}", done.out, done.err);
    let requests = &place.json("run.json")["cells"][0]["windows"][0]["requests"];
    assert_eq!((&requests["kept"], &requests["ok"], &requests["failed"]), (&10.into(), &7.into(), &3.into()));
    assert_eq!(requests["by_error"]["http_status"], 3);
    let first: String = done.out.lines().take(12).collect::<Vec<_>>().join("\n");
    assert!(first.contains("7 ok") && first.contains("3 FAILED"), "the first lines say so: {first}");
    assert!(done.out.contains("http_status"), "split by cause: {}", done.out);
    place.assert_verifies();
}

#[test]
fn a_key_is_wanted_and_there_is_none() {
    let mock = MockProcess::start(&["--api-key-env", "MOCK_KEY"], &[("MOCK_KEY", "open-sesame-42")]);
    let place = Place::new();
    let done = run_against(&mock.url, &place, 4, &["--model", "mock"]);
    assert_eq!(done.code, Some(3), "{}{}", done.out, done.err);
    assert!(place.rows().iter().all(|r| r.http_status == Some(401)));
    // without a model's name there is nothing to ask for, and the server's refusal is said
    let place = Place::new();
    let done = run_against(&mock.url, &place, 4, &[]);
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert!(done.err.contains("401") && done.err.contains("--model"), "{}", done.err);
}

/// Every file below `dir`, and what was printed, is without `secret`.
fn assert_nowhere(secret: &str, dir: &Path, done: &Done) {
    assert!(!done.out.contains(secret), "standard output: {}", done.out);
    assert!(!done.err.contains(secret), "standard error: {}", done.err);
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    for path in files.map(|f| f.path()) {
        let text = std::fs::read(&path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        if let Some(at) = text.find(secret) {
            let around: String = text[at.saturating_sub(120)..].chars().take(200).collect();
            panic!("{}: ...{around}...", path.display());
        }
    }
}

#[test]
fn a_key_is_sent_and_is_written_nowhere() {
    let key = "sk-quite-secret-77";
    // a server that shows all it was sent, in every place a client might copy from
    let echo = |status: u16| {
        ForeignServer::start(move |r, _| {
            let said = r.field("authorization").unwrap_or("nothing").to_owned();
            let mut answer = if !r.is_post() && status == 200 {
                Answer::json(
                    200,
                    format!("{{\"version\":\"{said}\",\"data\":[{{\"id\":\"m\",\"owned_by\":\"{said}\"}}]}}"),
                )
            } else if status == 200 {
                let mut stream = Answer::stream(2, 0);
                let event = format!(
                    "data: {{\"model\":\"{said}\",\"timings\":{{\"for\":\"{said}\"}},\"choices\":[{{\"index\":0,\
                     \"delta\":{{\"content\":\"{said}\"}},\"finish_reason\":\"{said}\"}}]}}\n\n"
                );
                stream.pieces.insert(0, (0, Some(event)));
                stream
            } else {
                Answer::json(status, format!("{{\"error\":{{\"message\":\"not with {said}\"}}}}"))
            };
            answer.fields.push(("server", said.clone()));
            answer.fields.push(("retry-after", said));
            Some(answer)
        })
    };
    for status in [200, 401] {
        let (server, place) = (echo(status), Place::new());
        let (url, out) = (server.url(), place.out().to_owned());
        let args = ["run", "--base-url", &url, "--model", "m", "--api-key-env", "TEST_KEY", "--num-prompts", "4"];
        let more = ["--drop", "0", "--windows", "1", "--max-concurrency", "1", "--length-scale", "0.05", "--out", &out];
        let done = tarebench_with(&[&args[..], &more].concat(), &[("TEST_KEY", key)]);
        match status {
            200 => place.assert_carried_out(&done),
            _ => assert_eq!(done.code, Some(3), "{}{}", done.out, done.err),
        }
        assert!(done.err.contains("TEST_KEY"), "that a key is sent is said: {}", done.err);
        let sent = server.received();
        assert!(sent.iter().filter(|r| r.is_post()).all(|r| r.field("authorization").is_some_and(|a| a.contains(key))));
        assert_nowhere(key, &place.dir, &done);
        place.assert_verifies();
        let probe = ["probe", "--base-url", &url, "--model", "m", "--api-key-env", "TEST_KEY"];
        assert_nowhere(key, &place.dir, &tarebench_with(&probe, &[("TEST_KEY", key)]));
        assert_nowhere(key, &place.dir, &tarebench_with(&[&probe[..], &["--json"]].concat(), &[("TEST_KEY", key)]));
    }
    // and where no model is named, the words about that are without it too
    let (server, place) = (echo(401), Place::new());
    let (url, out) = (server.url(), place.out().to_owned());
    let done =
        tarebench_with(&["run", "--base-url", &url, "--api-key-env", "TEST_KEY", "--out", &out], &[("TEST_KEY", key)]);
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert_nowhere(key, &place.dir, &done);
    let done = tarebench_with(&["probe", "--base-url", &url, "--api-key-env", "TEST_KEY"], &[("TEST_KEY", key)]);
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert_nowhere(key, &place.dir, &done);
}

#[test]
fn wrong_words_are_wrong_usage() {
    let place = Place::new();
    let config = place.keep.path().join("campaign.toml");
    std::fs::write(&config, "max-concurency = 4\n").expect("written");
    let config = config.to_str().expect("text");
    for (args, said) in [
        (vec!["run", "--max-concurrency", "0", "--out", place.out()], "--max-concurrency"),
        (vec!["run", "--max-concurrency", "1,x", "--out", place.out()], "--max-concurrency"),
        (vec!["run", "--max-concurency", "1", "--out", place.out()], "--max-concurency"),
        (vec!["run", "--config", config, "--out", place.out()], "max-concurency"),
        (vec!["run", "--config", "/no/such/file.toml", "--out", place.out()], "/no/such/file.toml"),
        (vec!["run", "--num-prompts", "0", "--out", place.out()], "--num-prompts"),
        (vec!["run", "--api-key-env", "NO_SUCH_VARIABLE", "--out", place.out()], "NO_SUCH_VARIABLE"),
        (vec!["run", "--extra-body", "[1]", "--out", place.out()], "--extra-body"),
        (vec!["walk"], "walk"),
        (vec![], "Usage"),
    ] {
        let done = tarebench(&args);
        assert_eq!(done.code, Some(2), "{args:?}: {}", done.err);
        assert!(done.err.contains(said), "{args:?}: {}", done.err);
        assert!(!place.dir.exists(), "{args:?}: nothing was begun");
    }
}

#[test]
fn a_run_directory_that_cannot_be_used() {
    let place = Place::new();
    std::fs::write(&place.dir, "a file").expect("written");
    for out in [place.out().to_owned(), format!("{}/below", place.out())] {
        let done = tarebench(&["run", "--num-prompts", "1", "--out", &out]);
        assert_eq!(done.code, Some(1), "{}", done.err);
        assert!(done.err.contains(&out) && done.err.contains("--out"), "{}", done.err);
    }
    assert_eq!(std::fs::read_to_string(&place.dir).expect("still there"), "a file");

    let place = Place::new();
    std::fs::create_dir(&place.dir).expect("made");
    std::fs::write(place.dir.join("requests.jsonl"), "precious").expect("written");
    let done = tarebench(&["run", "--num-prompts", "1", "--out", place.out()]);
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert!(done.err.contains("not empty") && done.err.contains("--force"), "{}", done.err);
    assert_eq!(std::fs::read_to_string(place.dir.join("requests.jsonl")).expect("there"), "precious");
}

fn under_limits(limits: &str, args: &[&str]) -> Done {
    let mut command = Command::new("bash");
    command.args(["-c", &format!("ulimit {limits} && exec \"$0\" \"$@\""), BINARY]).args(args);
    done(&command.env_remove("OPENAI_API_KEY").timeout(PATIENCE).output().expect("bash runs"))
}

#[test]
fn too_few_descriptors_are_refused_before_the_first_request() {
    let place = Place::new();
    let done = under_limits("-n 64", &["run", "--max-concurrency", "50", "--out", place.out()]);
    assert_eq!(done.code, Some(1), "{}", done.err);
    for words in ["278", "64", "ulimit", "--max-concurrency"] {
        assert!(done.err.contains(words), "{words} in {}", done.err);
    }
    assert!(!place.dir.exists(), "nothing was begun");
}

#[test]
fn a_low_soft_limit_on_descriptors_is_raised_aloud() {
    let place = Place::new();
    let args = ["run", "--max-concurrency", "2", "--num-prompts", "4", "--drop", "0", "--windows", "1"];
    let done = under_limits("-Sn 70", &[&args[..], &["--min-duration", "0", "--out", place.out()]].concat());
    place.assert_carried_out(&done);
    assert!(done.err.contains("raised from 70 to 134"), "{}", done.err);
}

fn lines_of(path: &Path) -> usize {
    std::fs::read(path).map_or(0, |bytes| bytes.iter().filter(|b| **b == b'\n').count())
}

#[test]
fn an_interrupted_run_keeps_what_it_measured() {
    let place = Place::new();
    let run = Running::start(&[
        "run",
        "--max-concurrency",
        "4",
        "--num-prompts",
        "50",
        "--drop",
        "0",
        "--windows",
        "3",
        "--min-duration",
        "50",
        "--out",
        place.out(),
    ]);
    wait_until("some rows", || lines_of(&place.dir.join("requests.jsonl")) >= 20);
    run.signal(Signal::SIGINT);
    let done = run.end();
    assert_eq!(done.code, Some(130), "{}{}", done.out, done.err);
    let rows = place.rows();
    assert!(rows.len() >= 20 && count(&rows, Outcome::Ok) >= 20);
    assert!(count(&rows, Outcome::Censored) <= 4, "what was running is censored");
    assert_eq!(count(&rows, Outcome::Failed), 0, "an interrupt is nobody's failure");
    let run = place.json("run.json");
    assert_eq!(run["complete"], false);
    let requests = &run["cells"][0]["windows"][0]["requests"];
    let n = |name: &str| requests[name].as_u64().expect("a count");
    assert_eq!(n("due"), n("not_sent") + n("sent"));
    assert_eq!(n("kept"), n("ok") + n("failed") + n("censored"));
    assert!(place.dir.join("report.md").is_file() && place.dir.join("report.html").is_file());
    place.assert_verifies();
}

#[test]
fn a_second_interrupt_ends_at_once() {
    // a server that accepts and says nothing: the first interrupt has to wait for it
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let place = Place::new();
    let url = format!("http://{}", silent.local_addr().expect("bound"));
    let mut run = Running::start(&["run", "--base-url", &url, "--num-prompts", "2", "--out", place.out()]);
    // a look whether the port is open, then the first question
    let waiting = [silent.accept(), silent.accept()];
    assert!(waiting.iter().all(Result::is_ok));
    // signals of one kind merge while they are pending, so the second is repeated until it is taken
    wait_until("the end of the process", || {
        if !run.has_ended() {
            run.signal(Signal::SIGINT);
        }
        run.has_ended()
    });
    assert_eq!(run.end().code, Some(130));
}

/// The client is stopped in the middle of a run: it shows in what was seen, not in what had arrived.
#[test]
fn a_stopped_client_shows_in_its_own_share() {
    let place = Place::new();
    let run = Running::start(&[
        "run",
        "--max-concurrency",
        "4",
        "--workload",
        "random",
        "--random-input-len",
        "40",
        "--random-output-len",
        "300",
        "--length-scale",
        "1",
        "--num-prompts",
        "16",
        "--drop",
        "0",
        "--windows",
        "1",
        "--min-duration",
        "0",
        "--out",
        place.out(),
    ]);
    wait_until("the first row", || lines_of(&place.dir.join("requests.jsonl")) >= 1);
    run.signal(Signal::SIGSTOP);
    let until = SystemClock.now() + Nanos::from_millis(300);
    wait_until("the end of the stop", || SystemClock.now() >= until);
    run.signal(Signal::SIGCONT);
    let done = run.end();
    assert!(matches!(done.code, Some(0 | 3)), "{:?}: {}{}", done.code, done.out, done.err);
    let rows = place.rows();
    assert_eq!((rows.len(), count(&rows, Outcome::Ok)), (16, 16), "the run is complete");
    place.assert_verifies();

    let plan = place.json("plan.json");
    if plan["environment"]["stamps"] != "kernel" {
        return;
    }
    let origin = plan["environment"]["origin_monotonic_ns"].as_u64().expect("an origin");
    let log = std::fs::File::open(place.dir.join("truth.jsonl")).expect("a truth log");
    let (truth, _) = read_truth(BufReader::new(log)).expect("readable");
    let truth: BTreeMap<&str, _> = truth.iter().map(|t| (t.nonce.as_str(), t)).collect();
    let (mut stopped, mut compared) = (0, 0);
    for row in &rows {
        let sent = truth[row.nonce.as_str()];
        assert_eq!(row.chunks.len(), sent.chunks.len(), "every event that was written was read");
        let mut last: Option<(i64, i64)> = None;
        for (seen, told) in row.chunks.iter().zip(&sent.chunks) {
            let Some(arrived) = seen.1 else { continue };
            stopped += u32::from(seen.0 - arrived > 100_000_000);
            // a read carries the stamp of its last segment, so that the other events in it look later than they were
            let left = told.left.unwrap_or(told.written) as i64 - origin as i64;
            let net_gap = last.map(|(a, l)| (arrived as i64 - a) - (left - l));
            last = Some((arrived as i64, left));
            if let Some(off) = net_gap {
                compared += 1;
                assert!(off.abs() < 100_000_000, "net gap off by {off} ns of a stop of 300 ms");
            }
        }
    }
    assert!(compared > 1_000, "{compared} gaps compared");
    assert!(stopped > 0, "events that arrived during the stop were seen after it");
}

#[test]
fn decode_reads_what_it_can_and_names_the_rest() {
    let good = r#"{"id":"a","raw":false,"writes":[[1,"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"A\"}}]}\n\ndata: [DONE]\n\n"]]}"#;
    let input = format!("{good}\nnot json\n\n{}\n", good.replace("\"a\"", "\"b\""));
    let decode = |input: String| {
        let mut command = Command::new(BINARY);
        done(&command.args(["decode", "-"]).write_stdin(input).timeout(PATIENCE).output().expect("the binary runs"))
    };
    let mixed = decode(input);
    assert_eq!(mixed.code, Some(2), "{}", mixed.err);
    assert!(mixed.err.contains(":2:"), "its number: {}", mixed.err);
    let ids: Vec<Value> =
        mixed.out.lines().map(|l| serde_json::from_str::<Value>(l).expect("JSON")["id"].clone()).collect();
    assert_eq!(ids, ["a", "b"], "the rest is decoded");
    let fine = decode(format!("{good}\n"));
    assert_eq!(fine.code, Some(0), "{}", fine.err);
    let wide = decode(good.replace('A', "\u{2014}"));
    assert_eq!(wide.code, Some(2), "{}", wide.err);
    let missing = tarebench(&["decode", "/no/such/file.jsonl"]);
    assert_eq!(missing.code, Some(1));
    assert!(missing.err.contains("/no/such/file.jsonl"), "{}", missing.err);
}

#[test]
fn verify_of_no_run_directory_says_so() {
    let empty = tempfile::tempdir().expect("a directory");
    let done = tarebench(&["verify", empty.path().to_str().expect("text")]);
    assert_eq!(done.code, Some(1), "{}{}", done.out, done.err);
    assert!(!done.out.trim().is_empty());
}

#[test]
fn a_hung_reply_ends_by_its_timeout_and_the_others_count() {
    // H1: one of twenty never comes
    let server = ForeignServer::start(|r, posts| {
        let mut answer = Answer::stream(2, 0);
        if posts == 9 {
            answer.pieces.insert(1, (600_000, Some(String::new())));
        }
        r.is_post().then_some(answer)
    });
    let place = Place::new();
    let done = run_against(&server.url(), &place, 20, &["--stall-timeout", "0.5"]);
    assert_eq!(done.code, Some(3), "5 % failed: {}{}", done.out, done.err);
    let rows = place.rows();
    assert_eq!((count(&rows, Outcome::Ok), count(&rows, Outcome::Failed)), (19, 1));
    let error = rows.iter().find_map(|r| r.error.clone()).expect("one");
    assert_eq!(error.class, "timeout");
    assert!(error.text.contains("stall") && error.text.contains("500"), "its name and value: {}", error.text);
    place.assert_verifies();
}

#[test]
fn a_server_that_dies_in_the_middle_fails_the_rest_and_loses_nothing() {
    let mut mock = MockProcess::start(&[], &[]);
    let place = Place::new();
    let flags = ["run", "--base-url", &mock.url, "--max-concurrency", "4", "--num-prompts", "300", "--drop", "0"];
    let more = ["--windows", "1", "--length-scale", "0.1", "--out", place.out()];
    let run = Running::start(&[&flags[..], &more].concat());
    wait_until("some rows", || lines_of(&place.dir.join("requests.jsonl")) >= 20);
    mock.child.kill().expect("it is ours");
    let done = run.end();
    assert_eq!(done.code, Some(3), "{}{}", done.out, done.err);
    let rows = place.rows();
    assert_eq!((rows.len(), count(&rows, Outcome::Ok) + count(&rows, Outcome::Failed)), (300, 300));
    let classes: BTreeSet<&str> = rows.iter().filter_map(|r| r.error.as_ref()).map(|e| e.class.as_str()).collect();
    assert!(classes.contains("connect"), "{classes:?}");
    assert!(classes.is_subset(&["connect", "transport"].into()), "{classes:?}");
    place.assert_verifies();
}

/// H5: a kept-alive socket that the server has closed neither fails a request nor hides a second try.
#[test]
fn a_server_that_closes_after_each_reply_although_it_says_keep_alive() {
    let mock = MockProcess::start(&["--close-after-reply", "--ttft", "1", "--itl", "0.1"], &[]);
    let place = Place::new();
    let done = run_against(&mock.url, &place, 60, &["--max-concurrency", "4"]);
    place.assert_carried_out(&done);
    let rows = place.rows();
    assert_eq!((rows.len(), count(&rows, Outcome::Ok)), (60, 60));
    let reopened = rows.iter().filter(|r| r.flags.contains(&"reopened".to_owned())).count();
    assert_eq!(reopened, 56, "all but the first of each connection");
    let retried = rows.iter().filter(|r| r.retries > 0).count();
    assert!(retried <= 4, "learnt at once, by each connection under way at most: {retried}");
    assert!(done.err.contains("closes each connection"), "{}", done.err);
    place.assert_verifies();
}

#[test]
fn a_run_ends_at_its_limit_of_failures() {
    let server = ForeignServer::start(|r, _| r.is_post().then(|| Answer::json(500, "{\"error\":\"no\"}")));
    let place = Place::new();
    let done = run_against(&server.url(), &place, 1_000_000, &["--stop-at-failed", "5"]);
    assert_eq!(done.code, Some(3), "nobody interrupted it: {}{}", done.out, done.err);
    assert!(done.err.contains("--stop-at-failed"), "{}", done.err);
    let rows = place.rows();
    assert!(count(&rows, Outcome::Failed) >= 5);
    assert_eq!(place.json("run.json")["complete"], false);
    place.assert_verifies();
}

#[test]
fn an_interrupt_while_nothing_is_measured() {
    let address = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    let (place, url) = (Place::new(), format!("http://{address}"));
    let run = Running::start(&["run", "--base-url", &url, "--wait", "50", "--num-prompts", "1", "--out", place.out()]);
    wait_until("the run directory", || place.dir.exists());
    run.signal(Signal::SIGINT);
    let done = run.end();
    assert_eq!(done.code, Some(130), "{}{}", done.out, done.err);
}

#[test]
fn an_interrupt_between_two_windows() {
    let place = Place::new();
    let flags = ["run", "--max-concurrency", "2", "--num-prompts", "6", "--drop", "0", "--windows", "2"];
    let more = ["--min-duration", "0", "--gap-between-windows", "50", "--out", place.out()];
    let run = Running::start(&[&flags[..], &more].concat());
    wait_until("the first window", || lines_of(&place.dir.join("windows.jsonl")) == 1);
    run.signal(Signal::SIGINT);
    let done = run.end();
    assert_eq!(done.code, Some(130), "{}{}", done.out, done.err);
    assert_eq!(place.rows().len(), 6);
    place.assert_verifies();
}

#[test]
fn the_number_of_descriptors_that_is_asked_for_is_enough() {
    let place = Place::new();
    let flags = ["run", "--max-concurrency", "20", "--num-prompts", "100", "--drop", "0", "--windows", "1"];
    let more = ["--connection", "per-request", "--min-duration", "0", "--out", place.out()];
    let done = under_limits("-n 188", &[&flags[..], &more].concat());
    place.assert_carried_out(&done);
    assert_eq!(count(&place.rows(), Outcome::Ok), 100);
}

#[test]
fn a_server_that_speaks_only_http_2_is_named_as_such() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            // SETTINGS, empty, stream 0 (RFC 9113 6.5), then GOAWAY
            let _ = std::io::Write::write_all(&mut socket, &[0, 0, 0, 4, 0, 0, 0, 0, 0]);
            let _ = std::io::Write::write_all(&mut socket, &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
            let _ = std::io::Read::read(&mut socket, &mut [0; 4096]);
        }
    });
    let place = Place::new();
    let done = run_against(&url, &place, 3, &["--model", "m"]);
    assert_eq!(done.code, Some(3), "{}{}", done.out, done.err);
    for row in place.rows() {
        let error = row.error.expect("an error");
        assert_eq!(error.class, "protocol");
        assert!(error.text.contains("HTTP/2"), "{}", error.text);
    }
    let done = run_against(&url, &Place::new(), 3, &[]);
    assert!(done.code == Some(1) && done.err.contains("HTTP/2"), "{}", done.err);
}

#[test]
fn a_dry_run_sends_nothing() {
    let server = ForeignServer::start(|_, _| None);
    let place = Place::new();
    let done = run_against(&server.url(), &place, 5, &["--dry-run"]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(serde_json::from_str::<Value>(&done.out).expect("the plan")["num_prompts"] == 5);
    assert_eq!(server.received().len(), 0);
    assert!(!place.dir.exists());
}

#[test]
fn a_proxy_is_ignored_aloud() {
    let server = ForeignServer::start(|r, _| r.is_post().then(|| Answer::stream(1, 0)));
    let (place, url) = (Place::new(), server.url());
    let args = [
        "run",
        "--base-url",
        &url,
        "--num-prompts",
        "2",
        "--drop",
        "0",
        "--windows",
        "1",
        "--length-scale",
        "0.05",
        "--length-probe",
        "off",
    ];
    let more = ["--max-concurrency", "1", "--out", place.out()];
    let done = tarebench_with(&[&args[..], &more].concat(), &[("http_proxy", "http://127.0.0.1:1")]);
    place.assert_carried_out(&done);
    assert!(done.err.contains("http_proxy"), "{}", done.err);
    assert_eq!(server.received().iter().filter(|r| r.is_post()).count(), 2);
}

/// J5: a name that resolves to several addresses, of which one answers.
#[test]
fn localhost_leads_to_the_address_that_answers() {
    let server = ForeignServer::start(|r, _| r.is_post().then(|| Answer::stream(1, 0)));
    let place = Place::new();
    let done = run_against(&format!("http://localhost:{}", server.address.port()), &place, 2, &[]);
    place.assert_carried_out(&done);
    assert_eq!(place.json("plan.json")["environment"]["address"], server.address.to_string());
}

/// G1: two runs with the same seed share no prompt.
#[test]
fn two_runs_share_no_prompt() {
    let server = ForeignServer::start(|r, _| r.is_post().then(|| Answer::stream(1, 0)));
    let (one, other) = (Place::new(), Place::new());
    for place in [&one, &other] {
        place.assert_carried_out(&run_against(&server.url(), place, 20, &[]));
    }
    let hashes = |place: &Place| place.rows().into_iter().map(|r| r.prompt_sha256).collect::<BTreeSet<_>>();
    let (a, b) = (hashes(&one), hashes(&other));
    assert_eq!((a.len(), b.len()), (20, 20));
    assert!(a.is_disjoint(&b));
}

#[test]
fn a_full_disk_ends_the_run_in_words() {
    let place = Place::new();
    std::fs::create_dir(&place.dir).expect("made");
    std::os::unix::fs::symlink("/dev/full", place.dir.join("requests.jsonl")).expect("linked");
    let flags = ["run", "--force", "--max-concurrency", "4", "--num-prompts", "2000", "--drop", "0", "--windows", "1"];
    let done = tarebench(&[&flags[..], &["--out", place.out()]].concat());
    assert_eq!(done.code, Some(1), "{}{}", done.out, done.err);
    assert!(done.err.contains("requests.jsonl"), "{}", done.err);
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
fn a_run_that_does_not_come_about_leaves_its_place_free() {
    let place = Place::new();
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address");
    let done = run_against(&format!("http://{closed}"), &place, 4, &[]);
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert!(!place.dir.exists(), "nothing was measured");
}

#[test]
fn what_an_earlier_run_left_does_not_pass_for_this_ones() {
    let (mock, place) = (MockProcess::start(&[], &[]), Place::new());
    place.assert_carried_out(&run_against(&mock.url, &place, 4, &[]));
    for name in ["truth.jsonl", "closure.json", "canary.jsonl", "canary-truth.jsonl", "canary.json"] {
        std::fs::write(place.dir.join(name), "{}").expect("written");
    }
    std::fs::write(place.dir.join("notes.txt"), "mine").expect("written");
    // a server that is not there costs nothing
    let refused = tarebench(&["run", "--base-url", "http://127.0.0.1:1", "--force", "--out", place.out()]);
    assert_eq!(refused.code, Some(1), "{}", refused.err);
    assert_eq!(place.rows().len(), 4, "what was measured is there");
    place.assert_carried_out(&run_against(&mock.url, &place, 6, &["--force"]));
    assert_eq!(place.rows().len(), 6);
    assert!(!place.dir.join("truth.jsonl").exists() && !place.dir.join("canary.json").exists());
    assert!(place.dir.join("notes.txt").exists(), "what is not ours stays");
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
fn a_run_under_nohup_outlives_its_terminal() {
    let (mock, place) = (MockProcess::start(&["--ttft", "20", "--itl", "20"], &[]), Place::new());
    let flags = ["run", "--base-url", &mock.url, "--max-concurrency", "2", "--num-prompts", "10", "--drop", "0"];
    let mut nohup = std::process::Command::new("nohup");
    nohup.arg(BINARY);
    let all = [&flags[..], &["--windows", "1", "--length-scale", "0.05", "--out", place.out()]].concat();
    let run = Running::start_by(nohup, &all);
    wait_until("a row", || {
        std::fs::read_to_string(place.dir.join("requests.jsonl")).is_ok_and(|t| t.lines().count() > 0)
    });
    run.signal(Signal::SIGHUP);
    let done = run.end();
    place.assert_carried_out(&done);
    assert_eq!(place.rows().len(), 10);
}
