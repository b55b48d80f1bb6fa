//! The binary as tests use it: words in, files and an exit status out.

use assert_cmd::Command;
use bench_engine::clock::{Clock, SystemClock};
use bench_engine::units::Nanos;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::time::Duration;
use tarebench::rundir::chain::Chain;
use tarebench::rundir::row::{Outcome, Row};
use tempfile::TempDir;

/// The program.
pub const BINARY: &str = env!("CARGO_BIN_EXE_tarebench");
/// Where there are no calibrations: those of whoever runs the tests are none of theirs.
const NO_CALIBRATIONS: (&str, &str) = ("TAREBENCH_CALIBRATIONS", "/dev/null/none");
/// No wait of a test is longer.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What a finished process left.
pub struct Done {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

pub fn tarebench(args: &[&str]) -> Done {
    tarebench_with(args, &[])
}

pub fn tarebench_with(args: &[&str], environment: &[(&str, &str)]) -> Done {
    let mut command = Command::new(BINARY);
    command.args(args).env_remove("OPENAI_API_KEY").env(NO_CALIBRATIONS.0, NO_CALIBRATIONS.1);
    command.envs(environment.iter().copied()).timeout(PATIENCE);
    done(&command.output().expect("the binary runs"))
}

/// The binary with `args`, for a test that gives it streams of its own.
pub fn tarebench_command(args: &[&str]) -> std::process::Command {
    let mut command = std::process::Command::new(BINARY);
    command.args(args).env_remove("OPENAI_API_KEY").env(NO_CALIBRATIONS.0, NO_CALIBRATIONS.1);
    command
}

pub fn done(output: &std::process::Output) -> Done {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    Done { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
}

/// A run directory that does not exist yet, in a directory that is removed at the end.
pub struct Place {
    pub keep: TempDir,
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

    pub fn start_by(mut command: std::process::Command, args: &[&str]) -> Self {
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

    pub fn has_ended(&mut self) -> bool {
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
    pub child: Child,
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

pub fn under_limits(limits: &str, args: &[&str]) -> Done {
    let mut command = Command::new("bash");
    command.args(["-c", &format!("ulimit {limits} && exec \"$0\" \"$@\""), BINARY]).args(args);
    done(&command.env_remove("OPENAI_API_KEY").timeout(PATIENCE).output().expect("bash runs"))
}

pub fn lines_of(path: &Path) -> usize {
    std::fs::read(path).map_or(0, |bytes| bytes.iter().filter(|b| **b == b'\n').count())
}
