//! The real engine against servers that are there: the mock playing recorded streams, and hyper.

use crate::cases::{check, lines};
use crate::foreign_server::{Answer, ForeignServer};
use bench_engine::io::DriverKind;
use bench_engine::io::capabilities::{Capabilities, capabilities, choose};
use bench_engine::timers::Limits;
use bench_engine::wire::request::RequestTemplate;
use calibration::mock::{Mock, MockConfig, Stopper};
use hyper::Version;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use tarebench::decode::{Case, Decoded, decode, figures};
use tarebench::probe::OneRequest;
use tarebench::rundir::row::{Outcome, Row};
use tarebench::target::address::Target;
use tarebench::target::tls::TlsWords;

/// A mock on a thread of its own, ended when this is dropped.
pub struct RunningMock {
    pub address: SocketAddr,
    stopper: Stopper,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl RunningMock {
    pub fn start(config: MockConfig) -> Self {
        let mock = Mock::bind(config).unwrap_or_else(|e| panic!("{e}"));
        let (address, stopper) = (mock.local_addr(), mock.stopper());
        let thread = std::thread::spawn(move || {
            mock.run().unwrap_or_else(|e| panic!("{e}"));
        });
        RunningMock { address, stopper, thread: Some(thread) }
    }

    /// Plays the cases of `script`, at once and `bytes` a write.
    fn playing(script: &Path, bytes: Option<usize>) -> Self {
        RunningMock::start(MockConfig {
            script: Some(script.to_owned()),
            script_bytes: bytes,
            time_scale: 0.0,
            stamp_every: 0,
            ..MockConfig::default()
        })
    }
}

impl Drop for RunningMock {
    fn drop(&mut self) {
        self.stopper.stop();
        let ended = self.thread.take().map(std::thread::JoinHandle::join);
        assert!(std::thread::panicking() || matches!(ended, Some(Ok(()))), "the mock ended in peace");
    }
}

/// What `driver` can do here; None where it is refused, which is said.
pub fn found(driver: DriverKind) -> Option<Capabilities> {
    match choose(Some(driver)) {
        Ok(_) => Some(capabilities(driver).unwrap_or_else(|e| panic!("{driver}: {e}"))),
        Err(refused) => {
            println!("SKIPPED: {refused}");
            None
        }
    }
}

/// Every case on every driver.
macro_rules! on_every_driver {
    ($($case:ident),+ $(,)?) => {
        mod uring {
            $(#[test]
            fn $case() {
                if let Some(found) = super::found(super::DriverKind::Uring) {
                    super::$case(&found);
                }
            })+
        }
        mod epoll {
            $(#[test]
            fn $case() {
                super::$case(&super::found(super::DriverKind::Epoll).expect("nothing refuses epoll"));
            })+
        }
    };
}

/// One request for `model` through the real engine.
fn ask(address: SocketAddr, model: &str, streamed: bool, found: &Capabilities) -> Row {
    ask_with(address, model, streamed, found, "n x")
}

fn ask_with(address: SocketAddr, model: &str, streamed: bool, found: &Capabilities, prompt: &str) -> Row {
    let accept = if streamed { "text/event-stream" } else { "application/json" };
    let template = RequestTemplate::new("POST", "/v1/chat/completions", &address.to_string(), accept, &[]);
    let body = json!({"model": model, "stream": streamed, "messages": [{"role": "user", "content": prompt}]});
    let one = OneRequest {
        target: Target::resolve(&format!("http://{address}"), None, &TlsWords::default()).expect("an address"),
        request: template.expect("fields").with_json(&body.to_string()),
        streamed,
        output_tokens: 0,
        limits: Limits::default(),
        secret: None,
    };
    one.send(found).unwrap_or_else(|e| panic!("{model}: {e}"))
}

/// What a case expects of a live reply: its text is not kept, its request asks for no length, and which events
/// share a read is the kernel's affair.
fn live_expectation(line: &str) -> Value {
    let mut expect = serde_json::from_str::<Value>(line).expect("a case")["expect"].clone();
    if let Some(fields) = expect.as_object_mut() {
        fields.remove("text");
        fields.remove("length_met");
        // null where all token events happen to share a read
        ["stall_ms", "tpot_ms", "tpot_adj_ms"].iter().for_each(|name| drop(fields.remove(*name)));
        if let Some(Value::Array(flags)) = fields.get_mut("flags") {
            flags.retain(|f| f.as_str().is_some_and(|f| !f.starts_with("coalesced")));
        }
    }
    expect
}

fn play(name: &str, found: &Capabilities) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(name);
    let mock = RunningMock::playing(&script, Some(1));
    let mut wrong = Vec::new();
    for line in lines(name) {
        let case = Case::parse(&line).expect("parsed elsewhere");
        let row = ask(mock.address, &case.id, case.request.stream, found);
        let got = figures(&case.id, &case.request, &Decoded { row, text: String::new() });
        wrong.extend(check(&case.id, &live_expectation(&line), &got, true));
    }
    assert!(wrong.is_empty(), "{} wrong in {name}, live:\n{}", wrong.len(), wrong.join("\n"));
}

fn streams_one_byte_a_write(found: &Capabilities) {
    play("streams.jsonl", found);
}

fn captures_one_byte_a_write(found: &Capabilities) {
    play("captures.jsonl", found);
}

fn user_reports_one_byte_a_write(found: &Capabilities) {
    play("user-reports.jsonl", found);
}

/// A data line of 2 MiB in writes of 64 KiB.
fn long_line() -> String {
    let text = "x".repeat(2 * 1024 * 1024);
    let event = format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n");
    let finish = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let pieces = event.as_bytes().chunks(64 * 1024).map(|c| String::from_utf8_lossy(c).into_owned());
    let mut writes: Vec<Value> = pieces.enumerate().map(|(i, piece)| json!([i, piece])).collect();
    writes.push(json!([100, finish]));
    json!({"id": "long", "raw": false, "writes": writes}).to_string()
}

fn a_data_line_of_two_mebibytes(found: &Capabilities) {
    let line = long_line();
    let case = Case::parse(&line).expect("a case");
    let offline = decode("long", &case.request, &case.wire().expect("bytes"), false);
    assert_eq!((offline.row.outcome, offline.row.events, offline.row.token_events), (Outcome::Ok, 2, 1));
    assert_eq!(offline.text.len(), 2 * 1024 * 1024);
    assert_eq!(offline.row.first_token.expect("a token").seen, 32_000_000, "at the write that completes the event");

    let dir = tempfile::tempdir().expect("a directory");
    let script = dir.path().join("long.jsonl");
    std::fs::write(&script, line).expect("written");
    let mock = RunningMock::playing(&script, None);
    let row = ask(mock.address, "long", true, found);
    assert_eq!((row.outcome, row.events, row.token_events), (Outcome::Ok, 2, 1), "{:?}", row.error);
    assert!(row.reads > 100, "it took many reads: {}", row.reads);
    assert!(row.bytes_in > 2 * 1024 * 1024);
}

fn hyper_streams_in_chunks(found: &Capabilities) {
    let server = ForeignServer::start(|r, _| r.is_post().then(|| Answer::stream(20, 2)));
    let row = ask(server.address, "foreign", true, found);
    assert_eq!(row.outcome, Outcome::Ok, "{:?}", row.error);
    assert_eq!((row.events, row.token_events, row.empty_events), (22, 20, 0));
    assert_eq!((row.prompt_tokens, row.completion_tokens), (Some(3), Some(20)));
    assert_eq!(row.finish_reason.as_deref(), Some("stop"));
    assert!(row.chunks.windows(2).all(|w| w[0].0 <= w[1].0), "in order of arrival");
    // where the kernel stamps, each stamp lies before the reading of it, and the request left before its answer came
    let order = [Some(row.due), row.taken, row.submit, row.handed, row.first_byte.map(|s| s.seen)];
    assert!(order.windows(2).all(|w| w[0] <= w[1]), "{order:?}");
    for chunk in &row.chunks {
        assert!(chunk.1.is_none_or(|arrived| arrived <= chunk.0));
        assert!(chunk.2.zip(chunk.1).is_none_or(|(lo, arrived)| lo <= arrived));
    }
    if let (Some(out), Some(first)) = (row.wire_out, row.first_token.and_then(|s| s.arrived)) {
        assert!(out <= first);
    }
    let request = server.received().into_iter().find(|r| r.is_post()).expect("a request");
    assert_eq!(request.field("accept-encoding"), Some("identity"));
    assert_eq!(request.field("authorization"), None, "no key, no such header");
}

fn hyper_says_503(found: &Capabilities) {
    let server = ForeignServer::start(|r, _| {
        let mut answer = Answer::json(503, r#"{"error":{"message":"overloaded"}}"#);
        answer.fields.push(("retry-after", "7".to_owned()));
        r.is_post().then_some(answer)
    });
    let row = ask(server.address, "foreign", true, found);
    assert_eq!((row.outcome, row.http_status), (Outcome::Failed, Some(503)));
    let error = row.error.expect("an error");
    assert_eq!(error.class, "http_status");
    assert!(error.text.contains("overloaded"), "{}", error.text);
    assert_eq!(row.retry_after.as_deref(), Some("7"));
    assert_eq!(row.first_token, None);
}

fn hyper_cuts_a_slow_stream_in_its_middle(found: &Capabilities) {
    let server = ForeignServer::start(|r, _| {
        let mut answer = Answer::stream(5, 2);
        answer.pieces.truncate(5);
        answer.pieces.push((5, None));
        r.is_post().then_some(answer)
    });
    let row = ask(server.address, "foreign", true, found);
    assert_eq!(row.outcome, Outcome::Failed);
    assert_eq!(row.error.expect("an error").class, "transport");
    assert_eq!((row.token_events, row.retries), (5, 0), "what came is kept, and nothing is sent again");
}

fn hyper_closes_after_its_answer_as_http_1_0_does(found: &Capabilities) {
    let server = ForeignServer::start(|r, _| {
        let answer = Answer { version: Version::HTTP_10, ..Answer::stream(3, 1) };
        r.is_post().then_some(answer)
    });
    let row = ask(server.address, "foreign", true, found);
    assert_eq!((row.outcome, row.token_events), (Outcome::Ok, 3), "{:?}", row.error);
    assert!(row.flags.contains(&"close_delimited".to_owned()), "{:?}", row.flags);
}

fn hyper_sends_a_document(found: &Capabilities) {
    let body = r#"{"model":"m","choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"}],
        "usage":{"prompt_tokens":1,"completion_tokens":2}}"#;
    let server = ForeignServer::start(move |r, _| r.is_post().then(|| Answer::json(200, body)));
    let row = ask(server.address, "foreign", false, found);
    assert_eq!((row.outcome, row.completion_tokens), (Outcome::Ok, Some(2)), "{:?}", row.error);
    assert_eq!(row.first_token, None, "there is no first token to speak of");
    let row = ask(server.address, "foreign", true, found);
    assert_eq!(row.error.expect("an error").class, "not_streamed");
}

fn nobody_listens(found: &Capabilities) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    let row = ask(port, "nobody", true, found);
    let error = row.error.expect("an error");
    assert_eq!((row.outcome, error.class.as_str()), (Outcome::Failed, "connect"));
    assert!(error.text.contains("ECONNREFUSED"), "{}", error.text);
}

fn a_large_request_is_stamped_at_its_last_byte(found: &Capabilities) {
    let server = ForeignServer::start(|r, _| r.is_post().then(|| Answer::stream(2, 0)));
    let prompt = "n ".to_owned() + &"word ".repeat(600_000);
    let mut stamped = 0;
    for _ in 0..5 {
        let row = ask_with(server.address, "foreign", true, found, &prompt);
        assert_eq!(row.outcome, Outcome::Ok, "{:?}", row.error);
        assert!(row.bytes_out > 3_000_000, "{}", row.bytes_out);
        assert!(row.submit <= row.handed && row.handed <= row.sent);
        let Some(out) = row.wire_out else { continue };
        stamped += 1;
        assert!(Some(out) >= row.submit);
        let arrived = row.first_byte.and_then(|s| s.arrived).expect("a stamp");
        assert!(out <= arrived, "the request left after its answer came: {out} > {arrived}");
    }
    assert!(stamped > 0 || !found.stamps, "the last byte of a large request has a stamp");
    let received: Vec<usize> = server.received().iter().map(|r| r.body.len()).collect();
    assert!(received.iter().all(|n| *n > 3_000_000), "{received:?}");
}

/// A listener whose connections are handled one after another by `serve`.
fn by_hand(serve: impl Fn(std::net::TcpStream) + Send + 'static) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || listener.incoming().flatten().for_each(serve));
    address
}

fn a_refusal_before_the_request_was_read_is_reported_and_sending_stops(found: &Capabilities) {
    let (told, sent) = std::sync::mpsc::channel();
    let (answered, read_on) = std::sync::mpsc::channel();
    let address = by_hand(move |mut socket| {
        let mut buffer = vec![0; 4096];
        let mut n = socket.read(&mut buffer).expect("a request");
        let _ = socket.write_all(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig");
        // what was on its way is read only when the client has stopped
        let _ = read_on.recv();
        while let Ok(more @ 1..) = socket.read(&mut buffer) {
            n += more;
        }
        let _ = told.send(n);
    });
    let prompt = "word ".repeat(8_000_000);
    let row = ask_with(address, "m", true, found, &prompt);
    assert_eq!((row.outcome, row.http_status), (Outcome::Failed, Some(413)), "{:?}", row.error);
    assert!(row.error.expect("an error").text.contains("big"));
    answered.send(()).expect("the server waits");
    let arrived = sent.recv().expect("the connection was closed");
    if row.sent.is_none() {
        assert_eq!((row.wire_out, row.bytes_out), (None, 0), "so there is no net");
        assert!(arrived < prompt.len(), "sending stopped");
    }
}

fn a_connection_that_is_reset_is_a_transport_failure(found: &Capabilities) {
    let address = by_hand(|mut socket| {
        let _ = socket.read(&mut [0; 16]);
        let _ = socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n");
        // bytes of the request are left unread, so closing resets the connection
    });
    let row = ask(address, "m", true, found);
    let error = row.error.expect("an error");
    assert_eq!((row.outcome, error.class.as_str()), (Outcome::Failed, "transport"), "{}", error.text);
}

fn two_replies_in_one_packet(found: &Capabilities) {
    let address = by_hand(|mut socket| {
        let _ = socket.read(&mut [0; 65536]);
        let body = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"A\"}}]}\n\ndata: [DONE]\n\n";
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: ";
        let reply = format!("{head}{}\r\n\r\n{body}", body.len());
        let _ = socket.write_all(format!("{reply}{reply}").as_bytes());
        let _ = socket.read(&mut [0; 65536]);
    });
    let row = ask(address, "m", true, found);
    assert_eq!((row.outcome, row.token_events, row.events), (Outcome::Ok, 1, 1), "{:?}", row.error);
    assert!(!row.flags.iter().any(|f| f.starts_with("after_done")), "{:?}", row.flags);
}

on_every_driver!(
    streams_one_byte_a_write,
    captures_one_byte_a_write,
    user_reports_one_byte_a_write,
    a_data_line_of_two_mebibytes,
    hyper_streams_in_chunks,
    hyper_says_503,
    hyper_cuts_a_slow_stream_in_its_middle,
    hyper_closes_after_its_answer_as_http_1_0_does,
    hyper_sends_a_document,
    nobody_listens,
    a_large_request_is_stamped_at_its_last_byte,
    a_refusal_before_the_request_was_read_is_reported_and_sending_stops,
    a_connection_that_is_reset_is_a_transport_failure,
    two_replies_in_one_packet,
);
