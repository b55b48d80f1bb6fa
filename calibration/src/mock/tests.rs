//! The mock against a plain blocking client. Order, counts and content only: no durations.

use super::*;
use crate::truth::{TruthRow, read_truth};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

static LOGS: AtomicU32 = AtomicU32::new(0);

fn fast() -> MockConfig {
    MockConfig { ttft: Nanos::ZERO, itl: Nanos::ZERO, spin: Nanos::ZERO, ..MockConfig::default() }
}

/// Runs a mock while `client` runs, and gives what it logged.
fn with_mock(mut config: MockConfig, client: impl FnOnce(SocketAddr)) -> (Vec<TruthRow>, Summary) {
    let name = format!("tarebench-mock-{}-{}.jsonl", std::process::id(), LOGS.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    config.truth = Some(path.clone());
    let mock = Mock::bind(config).unwrap();
    let (addr, stopper) = (mock.local_addr(), mock.stopper());
    let running = thread::spawn(move || mock.run());
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| client(addr)));
    stopper.stop();
    let summary = running.join().unwrap().unwrap();
    let log = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
    let (rows, last) = read_truth(&log[..]).unwrap();
    assert_eq!(last.as_ref(), Some(&summary));
    assert_eq!(summary.requests, rows.len() as u64);
    (rows, summary)
}

fn post(path: &str, body: &str) -> Vec<u8> {
    format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn chat(nonce: &str, tokens: u32) -> Vec<u8> {
    let body = format!(
        "{{\"model\":\"m\",\"messages\":[{{\"role\":\"user\",\"content\":\"{nonce} b c\"}}],\"stream\":true,\
         \"max_tokens\":{tokens},\"stream_options\":{{\"include_usage\":true}}}}"
    );
    post("/v1/chat/completions", &body)
}

fn connect(addr: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(addr).unwrap();
    socket.set_nodelay(true).unwrap();
    socket
}

/// Reads up to and including `end`; the rest stays in `from` for the next call.
fn until(socket: &mut TcpStream, from: &mut Vec<u8>, end: &[u8]) -> String {
    loop {
        if let Some(at) = from.windows(end.len()).position(|window| window == end) {
            let rest = from.split_off(at + end.len());
            return String::from_utf8(std::mem::replace(from, rest)).unwrap();
        }
        let mut more = [0; 65536];
        let n = socket.read(&mut more).unwrap();
        assert!(n > 0, "end of file after {:?}", String::from_utf8_lossy(from));
        from.extend_from_slice(&more[..n]);
    }
}

const STREAM_END: &[u8] = b"data: [DONE]\n\n\r\n0\r\n\r\n";

/// Reads one reply with a Content-Length: status and body.
fn whole(socket: &mut TcpStream, from: &mut Vec<u8>) -> (u16, String) {
    let head = until(socket, from, b"\r\n\r\n");
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
    while from.len() < length {
        let mut more = [0; 4096];
        let n = socket.read(&mut more).unwrap();
        assert!(n > 0);
        from.extend_from_slice(&more[..n]);
    }
    let rest = from.split_off(length);
    (status, String::from_utf8(std::mem::replace(from, rest)).unwrap())
}

fn assert_numbered(reply: &str, tokens: u32) {
    let mut from = 0;
    for k in 0..tokens {
        let word = format!("\"t{:04} \"", k % 10_000);
        from += reply[from..].find(&word).unwrap_or_else(|| panic!("{word} missing or out of order"));
    }
    assert_eq!(reply.matches(" \"}").count(), tokens as usize);
}

#[test]
fn streams_one_after_the_other_on_one_connection() {
    let (rows, summary) = with_mock(MockConfig { itl: Nanos::from_micros(100), ..fast() }, |addr| {
        let (mut socket, mut bytes) = (connect(addr), Vec::new());
        for (nonce, tokens) in [("n0", 1), ("n1", 2), ("n2", 300)] {
            socket.write_all(&chat(nonce, tokens)).unwrap();
            let reply = until(&mut socket, &mut bytes, STREAM_END);
            assert!(reply.starts_with("HTTP/1.1 200 OK\r\n") && reply.contains("\"role\":\"assistant\""));
            assert_numbered(&reply, tokens);
            let usage =
                format!("{{\"prompt_tokens\":3,\"total_tokens\":{},\"completion_tokens\":{tokens}}}", 3 + tokens);
            assert!(reply.contains(&usage));
            assert_eq!(reply.matches("\"finish_reason\":\"length\"").count(), 1);
        }
        assert!(bytes.is_empty());
    });
    assert_eq!((summary.events, summary.lateness_n, summary.connections, summary.aborted), (303, 303, 1, 0));
    for (no, (row, (nonce, tokens))) in rows.iter().zip([("n0", 1), ("n1", 2), ("n2", 300)]).enumerate() {
        assert_eq!((row.nonce.as_str(), row.model.as_str(), row.conn, row.request_no), (nonce, "m", 0, no as u64));
        assert_eq!((row.tokens, row.chunks.len(), row.aborted), (tokens, tokens as usize, false));
        assert!(row.rx.is_none_or(|rx| rx <= row.rx_user));
        let arrival = row.rx.unwrap_or(row.rx_user);
        for (k, chunk) in row.chunks.iter().enumerate() {
            // the map may place the stamp a little differently once it knows more
            assert!(chunk.due.abs_diff(arrival + k as u64 * 100_000) < 100_000, "{chunk:?}");
            assert!(chunk.due <= chunk.before_write && chunk.before_write <= chunk.written);
            assert!(chunk.left.is_none_or(|left| left + 100_000 > chunk.before_write));
            assert_eq!(chunk.tokens, 1);
        }
        assert!(row.chunks.windows(2).all(|w| w[1].due - w[0].due == 100_000 && w[0].written <= w[1].before_write));
        assert!(
            row.head_written.unwrap() >= row.rx_user && row.done_written.unwrap() >= row.chunks.last().unwrap().written
        );
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let (rows, _) = with_mock(fast(), |addr| {
        let (mut socket, mut bytes) = (connect(addr), Vec::new());
        let mut all = chat("n0", 5);
        all.extend_from_slice(b"GET /version HTTP/1.1\r\n\r\n");
        all.extend_from_slice(&chat("n1", 7));
        (0..500).for_each(|_| all.extend_from_slice(b"GET /health HTTP/1.1\r\n\r\n"));
        all.extend_from_slice(&post("/v1/completions", "{\"model\":\"m\",\"prompt\":\"n2 x\",\"max_tokens\":3}"));
        socket.write_all(&all).unwrap();
        assert_numbered(&until(&mut socket, &mut bytes, STREAM_END), 5);
        assert!(whole(&mut socket, &mut bytes).1.contains("tarebench-mock"));
        assert_numbered(&until(&mut socket, &mut bytes, STREAM_END), 7);
        (0..500).for_each(|_| assert_eq!(whole(&mut socket, &mut bytes), (200, String::new())));
        let (status, body) = whole(&mut socket, &mut bytes);
        assert!(status == 200 && body.contains("\"text\":\"t0000 t0001 t0002 \""), "{body}");
    });
    let nonces: Vec<&str> = rows.iter().map(|row| row.nonce.as_str()).collect();
    assert_eq!(nonces, ["n0", "n1", "n2"]);
    assert_eq!(rows[2].chunks.len(), 1);
}

#[test]
fn a_request_may_come_byte_by_byte_chunked_and_after_a_continue() {
    let (rows, _) = with_mock(fast(), |addr| {
        let (mut socket, mut bytes) = (connect(addr), Vec::new());
        for byte in chat("slow", 3) {
            socket.write_all(&[byte]).unwrap();
        }
        assert_numbered(&until(&mut socket, &mut bytes, STREAM_END), 3);
        let head = b"POST /v1/completions HTTP/1.1\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n";
        socket.write_all(head).unwrap();
        assert_eq!(until(&mut socket, &mut bytes, b"\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
        socket.write_all(b"d\r\n{\"model\":\"m\",\r\n12\r\n\"prompt\":[7,8,9]}\n\r\n0\r\n\r\n").unwrap();
        let (status, body) = whole(&mut socket, &mut bytes);
        assert!(status == 200 && body.contains("\"prompt_tokens\":3"), "{body}");
    });
    assert_eq!((rows.len(), rows[1].nonce.as_str()), (2, "7"));
}

#[test]
fn big_bodies_are_read_and_counted() {
    let (rows, _) = with_mock(fast(), |addr| {
        let (mut socket, mut bytes) = (connect(addr), Vec::new());
        let prompt = format!("big{}", " w".repeat(2_000_000));
        let body = format!("{{\"model\":\"m\",\"prompt\":\"{prompt}\",\"max_tokens\":1}}");
        socket.write_all(&post("/v1/completions", &body)).unwrap();
        assert!(whole(&mut socket, &mut bytes).1.contains("\"prompt_tokens\":2000001"));
    });
    assert_eq!(rows[0].nonce, "big");
}

#[test]
fn errors_have_their_status_and_keep_the_connection() {
    let config = MockConfig { api_key: Some("k".into()), ..fast() };
    let (rows, summary) = with_mock(config, |addr| {
        let (mut socket, mut bytes) = (connect(addr), Vec::new());
        let mut ask = |request: &[u8]| {
            socket.write_all(request).unwrap();
            whole(&mut socket, &mut bytes)
        };
        assert_eq!(ask(b"GET /nowhere HTTP/1.1\r\n\r\n"), (404, "{\"detail\":\"Not Found\"}".into()));
        assert_eq!(ask(b"DELETE /version HTTP/1.1\r\n\r\n").0, 405);
        assert_eq!(ask(b"GET /v1/models HTTP/1.1\r\n\r\n").0, 401);
        assert_eq!(ask(b"GET /v1/models HTTP/1.1\r\nAuthorization: Bearer nok\r\n\r\n").0, 401);
        let models = ask(b"GET /v1/models HTTP/1.1\r\nAuthorization: Bearer k\r\n\r\n");
        assert!(models.0 == 200 && models.1.contains("\"id\":\"mock\""));
        let with_key = |body: &str| {
            let n = body.len();
            let head =
                format!("POST /v1/completions HTTP/1.1\r\nauthorization: Bearer k\r\ncontent-length: {n}\r\n\r\n");
            (head + body).into_bytes()
        };
        assert_eq!(ask(&with_key("{")).0, 400);
        assert_eq!(ask(&with_key("{\"prompt\":\"x\"}")).0, 400);
        let zero = ask(&with_key("{\"model\":\"m\",\"prompt\":\"x\",\"max_tokens\":0}"));
        assert!(zero.0 == 400 && zero.1.contains("\"param\":\"max_tokens\""));
        assert_eq!(ask(b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n").0, 200);
        assert_eq!(socket.read(&mut [0]).unwrap(), 0, "asked to close");
    });
    assert_eq!((rows.len(), summary.refused), (0, 7));
}

#[test]
fn refused_requests_are_answered_before_they_end() {
    with_mock(fast(), |addr| {
        for (request, status) in [
            (&b"POST /v1/completions HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n{\"model\""[..], 413),
            (b"\x00\x01\x02 junk\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nExpect: tea\r\n\r\n", 417),
        ] {
            let (mut socket, mut bytes) = (connect(addr), Vec::new());
            socket.write_all(request).unwrap();
            assert_eq!(whole(&mut socket, &mut bytes).0, status);
            assert_eq!(socket.read(&mut [0]).unwrap(), 0);
        }
    });
}

#[test]
fn a_refused_upload_can_be_sent_to_its_end_and_the_answer_still_read() {
    with_mock(fast(), |addr| {
        let (mut socket, mut bytes) = (connect(addr), Vec::new());
        socket.write_all(b"POST /v1/completions HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n").unwrap();
        let block = vec![b'x'; 1 << 20];
        (0..5).for_each(|_| socket.write_all(&block).unwrap());
        assert_eq!(whole(&mut socket, &mut bytes).0, 413);
    });
}

#[test]
fn noise_does_not_hurt_anybody_else() {
    with_mock(fast(), |addr| {
        let mut state = 1;
        let mut open = Vec::new();
        for n in 0..200 {
            let mut socket = connect(addr);
            let noise: Vec<u8> = (0..n * 7).map(|_| timeline::splitmix64(&mut state) as u8).collect();
            let _ = socket.write_all(&noise);
            let mut cut = chat("x", 9);
            cut.truncate(n);
            let _ = socket.write_all(&cut);
            if n % 2 == 0 {
                open.push(socket);
            }
        }
        let (mut socket, mut bytes) = (connect(addr), Vec::new());
        socket.write_all(&chat("n", 4)).unwrap();
        assert_numbered(&until(&mut socket, &mut bytes, STREAM_END), 4);
    });
}

#[test]
fn a_client_that_goes_away_is_logged_as_aborted() {
    let config = MockConfig { itl: Nanos::from_millis(1), ..fast() };
    let (rows, summary) = with_mock(config, |addr| {
        let (mut socket, mut bytes) = (connect(addr), Vec::new());
        socket.write_all(&chat("gone", 1_000_000)).unwrap();
        until(&mut socket, &mut bytes, b"t0003 ");
        drop(socket);
        let (mut socket, mut bytes) = (connect(addr), Vec::new());
        socket.write_all(&chat("cut", 1_000_000)).unwrap();
        until(&mut socket, &mut bytes, b"t0001 ");
    });
    assert_eq!((rows.len(), summary.aborted), (2, 2));
    for row in &rows {
        assert!(row.aborted && row.done_written.is_none() && row.head_written.is_some());
        assert!(row.chunks.len() >= 2 && row.tokens == row.chunks.len() as u64);
    }
}

#[test]
fn a_client_that_does_not_read_blocks_its_own_stream_only() {
    let tokens = 200_000;
    let (rows, summary) = with_mock(fast(), |addr| {
        let (mut slow, mut slow_bytes) = (connect(addr), Vec::new());
        slow.write_all(&chat("slow", tokens)).unwrap();
        until(&mut slow, &mut slow_bytes, b"t0000 ");
        // due later than everything of the slow stream: comes only once that is blocked
        let (mut socket, mut bytes) = (connect(addr), Vec::new());
        socket.write_all(&chat("quick", 3)).unwrap();
        assert_numbered(&until(&mut socket, &mut bytes, STREAM_END), 3);
        let mut more = vec![0; 1 << 20];
        let mut all = slow_bytes;
        while !all.ends_with(STREAM_END) {
            let n = slow.read(&mut more).unwrap();
            assert!(n > 0);
            all.extend_from_slice(&more[..n]);
        }
        let rest = String::from_utf8(all).unwrap();
        assert_eq!(rest.matches("data: {").count(), tokens as usize - 1 + 1);
    });
    assert_eq!(rows.iter().map(|row| row.nonce.as_str()).collect::<Vec<_>>(), ["quick", "slow"]);
    assert_eq!((rows[0].blocked, rows[1].blocked, summary.blocked), (false, true, 1));
    assert_eq!((rows[1].tokens, rows[1].aborted), (u64::from(tokens), false));
    assert!(rows[1].chunks.windows(2).all(|w| w[0].written <= w[1].before_write));
    assert!(summary.lateness_n < u64::from(tokens) + 3, "waiting for a client is not the mock's lateness");
}

#[test]
fn many_streams_at_once_get_every_token_in_order() {
    let config = MockConfig {
        ttft: Nanos::from_millis(2),
        itl: Nanos::from_micros(300),
        jitter: 0.5,
        tokens: Some(50),
        tokens_per_event: 3,
        stamp_every: 4,
        ..fast()
    };
    let (rows, summary) = with_mock(config, |addr| {
        let clients: Vec<_> = (0..40)
            .map(|n| {
                thread::spawn(move || {
                    let (mut socket, mut bytes) = (connect(addr), Vec::new());
                    for round in 0..3 {
                        socket.write_all(&chat(&format!("c{n}r{round}"), 64)).unwrap();
                        let reply = until(&mut socket, &mut bytes, STREAM_END);
                        let words: Vec<&str> = reply.split("\"content\":\"t").skip(1).collect();
                        assert_eq!(words.len(), 17);
                        for (k, words) in words.iter().enumerate() {
                            assert!(words.starts_with(&format!("{:04} ", 3 * k)));
                        }
                        assert_eq!(reply.matches("\"finish_reason\":\"stop\"").count(), 1);
                    }
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
    });
    assert_eq!((rows.len(), summary.events, summary.connections), (120, 120 * 17, 40));
    assert!(summary.tx_stamps_asked == 0 || summary.tx_stamps_asked == 120 * 5);
    for row in &rows {
        assert_eq!(row.chunks.iter().map(|chunk| chunk.tokens).sum::<u32>(), 50);
        for pair in row.chunks.windows(2) {
            assert!((150_000..450_000).contains(&(pair[1].due - pair[0].due)));
        }
        for (k, chunk) in row.chunks.iter().enumerate() {
            assert!(chunk.left.is_none() || k % 4 == 0, "stamps only where asked for");
        }
    }
}

#[test]
fn a_reply_can_close_what_it_promised_to_keep() {
    with_mock(MockConfig { close_after_reply: true, usage: UsageMode::None, ..fast() }, |addr| {
        let (mut socket, mut bytes) = (connect(addr), Vec::new());
        socket.write_all(&chat("a", 2)).unwrap();
        let reply = until(&mut socket, &mut bytes, STREAM_END);
        assert!(reply.contains("keep-alive: timeout=5") && !reply.contains("usage"));
        assert_eq!(socket.read(&mut [0]).unwrap(), 0);
    });
}

#[test]
fn scripts_play_byte_for_byte() {
    let script = std::env::temp_dir().join(format!("tarebench-script-{}.jsonl", std::process::id()));
    let lines = "{\"id\":\"framed\",\"raw\":false,\"writes\":[[5,\"data: {}\\n\\n\"],[9000,\"\\u00c3\\u00a9\"]]}\n\
                 {\"id\":\"raw\",\"raw\":true,\"writes\":[[1,\"HTTP/1.1 2\"],[2,\"00 OK\\r\\n\\r\\n\\u00ff\"]]}\n";
    std::fs::write(&script, lines).unwrap();
    for bytes_per_write in [None, Some(1)] {
        let config = MockConfig {
            script: Some(script.clone()),
            script_bytes: bytes_per_write,
            time_scale: 0.0,
            stamp_every: 0,
            ..fast()
        };
        let (rows, _) = with_mock(config, |addr| {
            let (mut socket, mut bytes) = (connect(addr), Vec::new());
            let mut framed =
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
            framed.extend_from_slice(b"a\r\ndata: {}\n\n\r\n2\r\n\xc3\xa9\r\n0\r\n\r\n");
            for _ in 0..2 {
                socket.write_all(&post("/v1/chat/completions", "{\"model\":\"framed\"}")).unwrap();
                assert_eq!(until(&mut socket, &mut bytes, b"\r\n0\r\n\r\n").into_bytes(), framed);
            }
            socket.write_all(&post("/v1/chat/completions", "{\"model\":\"nix\"}")).unwrap();
            let (status, body) = whole(&mut socket, &mut bytes);
            assert!(status == 404 && body.contains("`nix`"), "{body}");
            socket.write_all(&post("/v1/chat/completions", "{\"model\":\"raw\"}")).unwrap();
            let mut raw = Vec::new();
            socket.read_to_end(&mut raw).unwrap();
            assert_eq!(raw, b"HTTP/1.1 200 OK\r\n\r\n\xff");
        });
        let writes: Vec<usize> = rows.iter().map(|row| row.chunks.len()).collect();
        assert_eq!(writes, if bytes_per_write.is_none() { [3, 3, 2] } else { [27, 27, 20] });
    }
    std::fs::remove_file(&script).unwrap();
}

#[test]
fn a_wrong_configuration_is_named() {
    let wrong = |config: MockConfig| Mock::bind(config).unwrap_err().to_string();
    assert!(wrong(MockConfig { jitter: 1.5, ..fast() }).contains("jitter must be between 0 and 1, not 1.5"));
    assert!(wrong(MockConfig { jitter: f64::NAN, ..fast() }).contains("jitter"));
    assert!(wrong(MockConfig { tokens: Some(0), ..fast() }).contains("tokens"));
    assert!(wrong(MockConfig { tokens_per_event: 0, ..fast() }).contains("tokens per event"));
    assert!(wrong(MockConfig { time_scale: -1.0, ..fast() }).contains("time scale"));
    assert!(wrong(MockConfig { script_bytes: Some(0), ..fast() }).contains("bytes per write"));
    assert!(wrong(MockConfig { max_num_seqs: Some(0), ..fast() }).contains("running requests"));
    assert!(wrong(MockConfig { merge_writes: 0, ..fast() }).contains("events in a write must be 1 to 1,000, not 0"));
    assert!("0:5".parse::<SplitWrites>().unwrap_err().contains("1 byte or more"));
    assert!("5".parse::<ColdStart>().unwrap_err().contains("MS:N"));
    assert!(wrong(MockConfig { truth: Some("/no/such/dir/truth".into()), ..fast() }).contains("/no/such/dir/truth"));
    let taken = Mock::bind(fast()).unwrap();
    assert!(wrong(MockConfig { listen: taken.local_addr(), ..fast() }).contains("cannot listen on 127.0.0.1"));
    let no_core = Mock::bind(MockConfig { core: Some(1000), ..fast() }).unwrap().run().unwrap_err().to_string();
    assert!(no_core.contains("core 1000") && no_core.contains("cores of this process are 0"), "{no_core}");
}

/// Streams one reply whose body has these further fields.
fn ask(socket: &mut TcpStream, bytes: &mut Vec<u8>, prompt: &str, max_tokens: u32, more: &str) -> String {
    let body = format!(
        "{{\"model\":\"m\",\"messages\":[{{\"role\":\"user\",\"content\":\"{prompt}\"}}],\"stream\":true,\
         \"max_tokens\":{max_tokens}{more}}}"
    );
    socket.write_all(&post("/v1/chat/completions", &body)).unwrap();
    until(socket, bytes, STREAM_END)
}

/// The start of a row's timeline, and the distances of its due times from there.
fn dues(row: &TruthRow) -> Vec<u64> {
    let started = row.started.unwrap();
    row.chunks.iter().map(|chunk| chunk.due - started).collect()
}

/// `due - started`, which is kept to the ns only when nothing was mapped again in between.
fn near(found: &[u64], expected: &[u64]) -> bool {
    found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| a.abs_diff(*b) < 100_000)
}

const MS: u64 = 1_000_000;

#[test]
fn a_request_can_say_how_it_is_to_be_served() {
    let classes = vec!["slow=ttft:3,itl:2".parse().unwrap(), "long=max_tokens:50-60,itl:1".parse().unwrap()];
    let (rows, summary) = with_mock(MockConfig { classes, ..fast() }, |addr| {
        let (mut socket, mut bytes) = (connect(addr), Vec::new());
        let mut tokens = |max: u32, more: &str| {
            let reply = ask(&mut socket, &mut bytes, "n x", max, more);
            reply.matches("\"logprobs\"").count() - reply.matches("\"role\"").count()
        };
        assert_eq!(tokens(3, ""), 3);
        assert_eq!(tokens(3, ",\"mock\":{\"ttft\":2,\"itl\":1.5}"), 3);
        assert_eq!(tokens(9, ",\"mock\":{\"class\":\"slow\",\"tokens\":2}"), 2);
        assert_eq!(tokens(50, ",\"mock\":{\"tokens\":2}"), 2);
        assert_eq!(tokens(50, ",\"mock\":{\"tokens\":4,\"tokens_per_event\":2,\"lockstep\":1,\"itl\":0}"), 2);
        let mut refused = |mock: &str| {
            let body = format!("{{\"model\":\"m\",\"prompt\":\"x\",\"mock\":{mock}}}");
            socket.write_all(&post("/v1/completions", &body)).unwrap();
            let (status, body) = whole(&mut socket, &mut bytes);
            assert_eq!(status, 400);
            body
        };
        assert!(refused("{\"tft\":1}").contains("`tft` is not known"));
        assert!(refused("{\"jitter\":2}").contains("from 0 to 1"));
        assert!(refused("{\"class\":\"no\"}").contains("slow, long"));
    });
    assert_eq!((rows.len(), summary.refused), (5, 3));
    assert!(near(&dues(&rows[0]), &[0, 0, 0]));
    assert!(near(&dues(&rows[1]), &[2 * MS, 3 * MS + MS / 2, 5 * MS]));
    assert!(near(&dues(&rows[2]), &[3 * MS, 5 * MS]));
    assert!(near(&dues(&rows[3]), &[0, MS]));
    assert!(rows[4].chunks.iter().all(|chunk| chunk.due % MS == 0 && chunk.tokens == 2));
}

#[test]
fn streams_in_lockstep_emit_at_once() {
    let config = MockConfig { lockstep: Some(Nanos::from_millis(4)), itl: Nanos::from_millis(1), ..fast() };
    let (rows, _) = with_mock(config, |addr| {
        let mut sockets: Vec<_> = (0..8).map(|_| connect(addr)).collect();
        sockets.iter_mut().enumerate().for_each(|(n, s)| s.write_all(&chat(&format!("n{n}"), 40)).unwrap());
        sockets.iter_mut().for_each(|socket| {
            until(socket, &mut Vec::new(), STREAM_END);
        });
    });
    for row in &rows {
        assert!(row.chunks.iter().all(|chunk| chunk.due % (4 * MS) == 0));
        assert!(row.chunks.windows(2).all(|w| w[1].due - w[0].due == 4 * MS), "one event a step");
    }
    // inside a step the streams keep the order of their connections; a first token may come to light behind its step
    let mut steps = std::collections::BTreeMap::<u64, Vec<(u64, u64)>>::new();
    for (row, chunk) in rows.iter().flat_map(|row| row.chunks.iter().skip(1).map(move |chunk| (row, chunk))) {
        steps.entry(chunk.due).or_default().push((chunk.before_write, row.conn));
    }
    assert!(steps.values().any(|step| step.len() == 8), "all eight met");
    for step in steps.values_mut().filter(|step| step.len() == 8) {
        step.sort_unstable();
        assert!(step.is_sorted_by_key(|(_, conn)| *conn), "{step:?}");
    }
}

#[test]
fn who_finds_no_place_waits_for_one() {
    let config = MockConfig { max_num_seqs: Some(2), itl: Nanos::from_millis(2), ..fast() };
    let (rows, summary) = with_mock(config, |addr| {
        let mut sockets: Vec<_> = (0..6).map(|_| (connect(addr), Vec::new())).collect();
        for (n, (socket, bytes)) in sockets.iter_mut().enumerate() {
            socket.write_all(&chat(&format!("n{n}"), 6)).unwrap();
            // its head comes at once, so that the next is later in line for sure
            until(socket, bytes, b"\r\n\r\n");
        }
        let (mut other, mut bytes) = (connect(addr), Vec::new());
        let (status, metrics) = get(&mut other, &mut bytes, "/metrics");
        let labels = "{engine=\"0\",model_name=\"mock\"}";
        assert!(status == 200 && metrics.contains(&format!("vllm:num_requests_running{labels} 2.0\n")), "{metrics}");
        assert!(metrics.contains(&format!("vllm:num_requests_waiting{labels} 4.0\n")), "{metrics}");
        // the fourth goes away before its turn
        drop(sockets.remove(3));
        for (socket, bytes) in &mut sockets {
            assert_numbered(&until(socket, bytes, STREAM_END), 6);
        }
        let (_, metrics) = get(&mut other, &mut bytes, "/metrics");
        for (name, labels, value) in [
            ("num_requests_running", labels, "0.0"),
            ("num_requests_waiting", labels, "0.0"),
            ("generation_tokens_total", labels, "30.0"),
            ("prompt_tokens_total", labels, "15.0"),
            ("time_to_first_token_seconds_count", labels, "5.0"),
            ("inter_token_latency_seconds_count", labels, "25.0"),
            ("kv_cache_usage_perc", labels, "0.0"),
            ("request_success_total", "{engine=\"0\",finished_reason=\"length\",model_name=\"mock\"}", "5.0"),
            ("request_success_total", "{engine=\"0\",finished_reason=\"abort\",model_name=\"mock\"}", "1.0"),
        ] {
            assert!(metrics.contains(&format!("vllm:{name}{labels} {value}\n")), "{name}: {metrics}");
        }
    });
    assert_eq!((summary.requests, summary.aborted, summary.max_waiting), (6, 1, 4));
    let by_nonce = |nonce: &str| rows.iter().find(|row| row.nonce == nonce).unwrap();
    let gone = by_nonce("n3");
    assert!(gone.aborted && gone.started.is_none() && gone.chunks.is_empty());
    let served: Vec<&TruthRow> = ["n0", "n1", "n2", "n4", "n5"].map(by_nonce).to_vec();
    assert!(served.windows(2).all(|w| w[0].started <= w[1].started), "first come, first served");
    let starts: Vec<u64> = served.iter().map(|row| row.started.unwrap()).collect();
    let mut ends: Vec<u64> = served.iter().map(|row| row.done_written.unwrap()).collect();
    ends.sort_unstable();
    for (start, end) in starts[2..].iter().zip(&ends) {
        assert!(start >= end, "a place is free only when a reply has ended");
    }
    for row in served {
        assert!(near(&dues(row), &[0, 2 * MS, 4 * MS, 6 * MS, 8 * MS, 10 * MS]), "timelines start with the turn");
    }
}

fn get(socket: &mut TcpStream, bytes: &mut Vec<u8>, path: &str) -> (u16, String) {
    socket.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
    whole(socket, bytes)
}

#[test]
fn prefill_cache_and_cold_start_make_the_first_token() {
    let config = MockConfig {
        prefill_per_token: Nanos::from_micros(20),
        prefix_cache_blocks: 10,
        cold_start: Some("5:1".parse().unwrap()),
        ..fast()
    };
    let usage = ",\"stream_options\":{\"include_usage\":true}";
    let (rows, _) = with_mock(config, |addr| {
        let (mut socket, mut bytes) = (connect(addr), Vec::new());
        let long = (0..50).map(|n| format!("w{n}")).collect::<Vec<_>>().join(" ");
        for (prompt, cached) in [(long.as_str(), 0), (&long, 48), (&long[..long.len() - 1], 48), ("w0 w1 w2", 0)] {
            let reply = ask(&mut socket, &mut bytes, prompt, 1, usage);
            assert!(reply.contains(&format!("\"prompt_tokens_details\":{{\"cached_tokens\":{cached}}}")), "{reply}");
        }
        let (_, metrics) = get(&mut socket, &mut bytes, "/metrics");
        assert!(metrics.contains("vllm:prefix_cache_queries_total{engine=\"0\",model_name=\"mock\"} 153.0\n"));
        assert!(metrics.contains("vllm:prefix_cache_hits_total{engine=\"0\",model_name=\"mock\"} 96.0\n"));
    });
    let first: Vec<u64> = rows.iter().map(|row| dues(row)[0]).collect();
    assert!(near(&first, &[6 * MS, 40_000, 40_000, 60_000]), "{first:?}");
}

#[test]
fn events_are_merged_split_and_padded_as_told() {
    let merged = MockConfig { merge_writes: 3, itl: Nanos::from_millis(1), ..fast() };
    let (rows, summary) = with_mock(merged, |addr| {
        assert_numbered(&ask(&mut connect(addr), &mut Vec::new(), "n", 8, ""), 8);
    });
    let chunks = &rows[0].chunks;
    assert!(near(&dues(&rows[0]), &[0, MS, 2 * MS, 3 * MS, 4 * MS, 5 * MS, 6 * MS, 7 * MS]));
    for write in [&chunks[..3], &chunks[3..6], &chunks[6..]] {
        let last = write.last().unwrap();
        assert!(
            write.iter().all(|c| (c.before_write, c.written, c.left) == (last.before_write, last.written, last.left))
        );
        assert!(last.before_write >= last.due);
    }
    assert_eq!((summary.events, summary.lateness_n), (8, 3));

    let split = SplitWrites { bytes: 100, pause: Nanos::from_micros(300) };
    let split = MockConfig { split_writes: Some(split), event_bytes: 450, role_event: false, ..fast() };
    let (rows, summary) = with_mock(split, |addr| {
        let reply = ask(&mut connect(addr), &mut Vec::new(), "n", 3, "");
        assert!(!reply.contains("role"));
        assert_eq!(reply.matches("data: {").count(), 3);
    });
    for chunk in &rows[0].chunks {
        assert_eq!(chunk.bytes, 450);
        assert!(chunk.written >= chunk.due + 4 * 300_000, "the fifth piece is due four pauses later");
        assert!(chunk.left.is_none_or(|left| left + 100_000 >= chunk.due + 4 * 300_000));
    }
    assert_eq!(summary.lateness_n, 1, "what falls due while pieces go out is late by order");

    let big = MockConfig { event_bytes: 100_000, merge_writes: 2, ..fast() };
    let (rows, _) = with_mock(big, |addr| {
        let reply = ask(&mut connect(addr), &mut Vec::new(), "n", 40, "");
        assert!(reply.len() > 4_000_000);
    });
    assert_eq!(rows[0].tokens, 40);
}

#[test]
fn reasoning_comes_first_and_usage_as_told() {
    let config = MockConfig { reasoning: 3, usage: UsageMode::Every, ..fast() };
    with_mock(config, |addr| {
        let (mut socket, mut bytes) = (connect(addr), Vec::new());
        let reply = ask(&mut socket, &mut bytes, "n", 5, "");
        assert_eq!(reply.matches("\"reasoning_content\":\"t").count(), 3);
        assert_eq!(reply.matches("\"content\":\"t").count(), 2);
        assert!(reply.find("\"content\":\"t").unwrap() > reply.rfind("\"reasoning_content\":\"t").unwrap());
        assert!(reply.contains("\"completion_tokens_details\":{\"reasoning_tokens\":3}"));
        assert_eq!(reply.matches("\"usage\":{").count(), 1 + 5 + 1);
    });
}

#[test]
fn the_truth_is_served_over_http_while_the_mock_runs() {
    use crate::truth::{fetch_summary, fetch_truth};
    use std::time::Duration;
    let patience = Duration::from_secs(60);
    for with_file in [true, false] {
        let path = std::env::temp_dir().join(format!("tarebench-served-{}.jsonl", std::process::id()));
        let truth = with_file.then(|| path.clone());
        let any = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        let mock = Mock::bind(MockConfig { truth, truth_listen: any, ..fast() }).unwrap();
        let (addr, stopper) = (mock.local_addr(), mock.stopper());
        let url = format!("http://{}/truth", mock.truth_addr().unwrap());
        let running = thread::spawn(move || mock.run());
        let (mut socket, mut bytes) = (connect(addr), Vec::new());
        let (mut rows, mut next) = (Vec::new(), 0);
        for n in 0..3 {
            socket.write_all(&chat(&format!("n{n}"), 4)).unwrap();
            until(&mut socket, &mut bytes, STREAM_END);
            // the row comes to light by itself; each request waits for nothing but its answer
            while rows.len() <= n {
                let (more, to) = fetch_truth(&url, next, patience).unwrap();
                assert_eq!(more.is_empty(), to == next);
                rows.extend(more);
                next = to;
            }
        }
        assert_eq!(rows.iter().map(|row| row.nonce.as_str()).collect::<Vec<_>>(), ["n0", "n1", "n2"]);
        while fetch_summary(&url, patience).unwrap().requests < 3 {}
        let refused = fetch_truth(&url, 1, patience).unwrap_err().to_string();
        assert!(refused.contains("status 400") && refused.contains("beginning of a line"), "{refused}");
        let behind = fetch_truth(&url, next + 1, patience).unwrap_err().to_string();
        assert!(behind.contains("behind the end"), "{behind}");
        let elsewhere = fetch_truth(&url.replace("/truth", "/x"), 0, patience).unwrap_err().to_string();
        assert!(elsewhere.contains("status 404"), "{elsewhere}");
        // neither noise nor silence keeps the next client from its answer
        let host = url.trim_start_matches("http://").trim_end_matches("/truth");
        TcpStream::connect(host).unwrap().write_all(&[0xff; 20_000]).unwrap();
        drop(TcpStream::connect(host).unwrap());
        assert_eq!(fetch_truth(&url, 0, patience).unwrap(), (rows, next));
        stopper.stop();
        let summary = running.join().unwrap().unwrap();
        assert_eq!(summary.requests, 3);
        if with_file {
            let log = std::fs::read(&path).unwrap();
            std::fs::remove_file(&path).unwrap();
            assert_eq!(read_truth(&log[next as usize..]).unwrap(), (Vec::new(), Some(summary)));
        }
    }
}
