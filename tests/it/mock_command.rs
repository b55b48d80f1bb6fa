//! `tarebench mock` as people start it: its flags, what it prints, its truth over HTTP.

use calibration::truth::{fetch_summary, fetch_truth, read_truth};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

const BINARY: &str = env!("CARGO_BIN_EXE_tarebench");
/// No wait of a test is longer.
const PATIENCE: Duration = Duration::from_secs(60);

fn refused(flags: &[&str]) -> String {
    let done = Command::new(BINARY).arg("mock").args(flags).stdin(Stdio::null()).output().expect("the binary runs");
    assert!(!done.status.success(), "{flags:?}");
    String::from_utf8(done.stderr).expect("text")
}

#[test]
fn help_is_in_groups() {
    let done = Command::new(BINARY).args(["mock", "--help"]).output().expect("the binary runs");
    let help = String::from_utf8(done.stdout).expect("text");
    let at = |heading: &str| help.find(&format!("\n{heading}:\n")).unwrap_or_else(|| panic!("{heading} in {help}"));
    let groups = ["Address", "Timeline", "Stream shape", "Capacity", "Truth", "Script"].map(at);
    assert!(groups.is_sorted());
    assert!(help.contains("Options:\n  -h, --help"), "every flag but --help has its group: {help}");
}

#[test]
fn wrong_flags_are_named_with_what_they_may_be() {
    for (flags, words) in [
        (&["--ttft-dist", "normal:1"][..], "constant, lognormal:SIGMA or pareto:ALPHA"),
        (&["--itl-dist", "pareto:0"], "0.1 to 100"),
        (&["--class", "a=tft:1"], "`tft` is not known"),
        (&["--cold-start", "5"], "MS:N"),
        (&["--split-writes", "0"], "1 byte or more"),
        (&["--usage", "sometimes"], "asked, none, final, every"),
        (&["--max-num-seqs", "0"], "running requests must be 1 or more"),
        (&["--merge-writes", "1001"], "1 to 1,000"),
        (&["--event-bytes", "4194305"], "0 to 4,194,304 bytes"),
        (&["--lockstep", "-1"], "--lockstep"),
        (&["--tokens-per-word", "0"], "tokens a word must be above 0, at most 100"),
    ] {
        let said = refused(flags);
        assert!(said.contains(words), "{flags:?}: {said}");
    }
}

#[test]
fn every_flag_works_together_and_the_truth_can_be_fetched() {
    let flags = "--until-stdin-closes --truth-listen 127.0.0.1:0 --ttft 1 --itl 0.5 --ttft-dist lognormal:0.3 \
                 --itl-dist pareto:2.5 --lockstep 1 --prefill-us-per-token 10 --prefix-cache 64 --cold-start 2:1 \
                 --class short=max_tokens:1-4,ttft:0 --max-num-seqs 1 --tokens-per-event 2 --no-role-event --reasoning 3 \
                 --event-bytes 600 --merge-writes 2 --split-writes 400:50 --usage final --stamp-every 2 --tokens-per-word 1.5 --template-tokens 9";
    let mut command = Command::new(BINARY);
    command.arg("mock").args(flags.split_whitespace()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    let mut said = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = || {
        let mut line = String::new();
        said.read_line(&mut line).expect("a line");
        line.trim().to_owned()
    };
    let (first, second) = (line(), line());
    let address = first.strip_prefix("mock: listening on ").expect("where it listens");
    let url = second.strip_prefix("mock: truth at ").expect("where the truth is");
    assert!(url.starts_with("http://127.0.0.1:") && url.ends_with("/truth"), "{url}");
    for n in 0..2 {
        let body = format!(
            "{{\"model\":\"m\",\"messages\":[{{\"role\":\"user\",\"content\":\"n{n} b\"}}],\"stream\":true,\"max_tokens\":9}}"
        );
        let mut socket = TcpStream::connect(address).expect("it listens");
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        socket.write_all((head + &body).as_bytes()).expect("sent");
        let mut reply = String::new();
        socket.read_to_string(&mut reply).expect("a reply");
        // three tokens of reasoning in two events, six of the answer in three, usage though nobody asked
        assert_eq!((reply.matches("data: {").count(), reply.matches("\"reasoning\":\"t").count()), (2 + 3 + 1, 2));
        assert!(
            reply.contains("\"reasoning_tokens\":3") && reply.ends_with("data: [DONE]\n\n\r\n0\r\n\r\n"),
            "{reply}"
        );
    }
    let (mut rows, mut next) = (Vec::new(), 0);
    while rows.len() < 2 {
        let (more, to) = fetch_truth(url, next, PATIENCE).expect("the truth");
        rows.extend(more);
        next = to;
    }
    for row in &rows {
        assert_eq!((row.tokens, row.chunks.len(), row.aborted), (9, 5, false));
        assert!(row.chunks.iter().all(|chunk| chunk.due % 1_000_000 == 0 && chunk.bytes == 600));
        assert!(row.started.is_some_and(|started| row.chunks[0].due >= started));
    }
    while fetch_summary(url, PATIENCE).expect("the summary").requests < 2 {}
    drop(child.stdin.take());
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn a_signal_ends_it_in_peace_although_it_has_other_threads() {
    let place = tempfile::tempdir().expect("a directory");
    let log = place.path().join("truth.jsonl");
    let mut command = Command::new(BINARY);
    command.args(["mock", "--truth-listen", "127.0.0.1:0", "--truth"]).arg(&log);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
    let mut said = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("a line");
    let address = line.trim().strip_prefix("mock: listening on ").expect("where it listens");
    // an answer means that it serves, and has taken the signals over
    let mut socket = TcpStream::connect(address).expect("it listens");
    socket.write_all(b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n").expect("sent");
    socket.read_to_string(&mut String::new()).expect("a reply");
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).expect("it is ours");
    let done = child.wait_with_output().expect("it ends");
    assert_eq!(done.status.code(), Some(0));
    let told = String::from_utf8(done.stderr).expect("text");
    assert!(told.contains("\"unfit_reason\""), "{told}");
    let log = std::fs::read(&log).expect("the log");
    assert!(read_truth(&log[..]).expect("a sound log").1.is_some(), "the summary is its last line");
}
