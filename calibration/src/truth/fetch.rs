//! The truth log of a mock on another host, over HTTP. Blocking; every wait is bounded by the deadline.

use super::{Line, Summary, TruthRow, read_line};
use bench_engine::clock::{Clock, SystemClock};
use bench_engine::units::{Instant, Nanos};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;
use thiserror::Error;

/// Longest head taken, in bytes.
const HEAD_LIMIT: usize = 16 << 10;
/// Longest body taken, in bytes: the mock sends 16 MiB at once, or one line, however long.
const BODY_LIMIT: usize = 256 << 20;

/// Why the truth could not be fetched.
#[derive(Debug, Error)]
pub enum FetchTruthError {
    /// The URL is none of a mock's.
    #[error(
        "{url:?} is no truth URL: give the one that `tarebench mock --truth-listen ADDR` prints, http://HOST:PORT/truth"
    )]
    Url {
        /// What was given.
        url: String,
    },
    /// Nobody answers there, or not in time.
    #[error(
        "cannot fetch the truth from {url}: {source}; is the mock running there with --truth-listen, and is the port open?"
    )]
    Io {
        /// Where.
        url: String,
        /// Why.
        source: io::Error,
    },
    /// The mock refused.
    #[error("{url} answered with status {status}: {body}")]
    Status {
        /// Where.
        url: String,
        /// Its HTTP status.
        status: u16,
        /// The beginning of what it said.
        body: String,
    },
    /// What came is not what a mock sends.
    #[error("{url} does not answer as a mock of this version does: {what}")]
    Answer {
        /// Where.
        url: String,
        /// What is wrong with it.
        what: String,
    },
}

/// Fetches the rows from byte `from` of the log on; 0 is its beginning. Gives them, and where to go on. No rows and the
/// same byte mean that there is nothing new.
///
/// `url` is what the mock printed, `http://HOST:PORT/truth`. Resolving a host's name is not bounded by `deadline`;
/// everything else is.
///
/// # Errors
/// [`FetchTruthError`].
pub fn fetch_truth(url: &str, from: u64, deadline: Duration) -> Result<(Vec<TruthRow>, u64), FetchTruthError> {
    let answer = get(url, &format!("{}?from={from}", path(url)?), deadline)?;
    let wrong = |what: String| FetchTruthError::Answer { url: url.to_owned(), what };
    let next = answer.next.ok_or_else(|| wrong("it has no X-Truth-Next".to_owned()))?;
    if next != from.saturating_add(answer.body.len() as u64) {
        return Err(wrong(format!("X-Truth-Next is {next} after {} bytes from {from} on", answer.body.len())));
    }
    let text = std::str::from_utf8(&answer.body).map_err(|e| wrong(e.to_string()))?;
    if !text.is_empty() && !text.ends_with('\n') {
        return Err(wrong("it ends inside a line".to_owned()));
    }
    let mut rows = Vec::new();
    for line in text.lines() {
        match read_line(line).map_err(|e| wrong(e.to_string()))? {
            Line::Row(row) => rows.push(*row),
            Line::Summary(_) => {}
        }
    }
    Ok((rows, next))
}

/// Fetches the mock's own fitness so far. `url` is that of the truth, `http://HOST:PORT/truth`.
///
/// # Errors
/// [`FetchTruthError`].
pub fn fetch_summary(url: &str, deadline: Duration) -> Result<Summary, FetchTruthError> {
    let path = path(url)?;
    let path = format!("{}/summary", &path[..path.rfind('/').unwrap_or(0)]);
    let answer = get(url, &path, deadline)?;
    let wrong = |e: serde_json::Error| FetchTruthError::Answer { url: url.to_owned(), what: e.to_string() };
    serde_json::from_slice(&answer.body).map_err(wrong)
}

#[derive(Debug)]
struct Answer {
    next: Option<u64>,
    body: Vec<u8>,
}

/// Host and port, and the path.
fn parts(url: &str) -> Result<(&str, &str), FetchTruthError> {
    let bad = || FetchTruthError::Url { url: url.to_owned() };
    let rest = url.strip_prefix("http://").ok_or_else(bad)?;
    let (host, path) = rest.find('/').map_or((rest, "/truth"), |at| rest.split_at(at));
    let sound = |text: &str, also: &str| {
        let known = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c) || also.contains(c);
        !text.is_empty() && text.chars().all(known)
    };
    if !sound(host, "") || !sound(path, "/~%") || !host.contains(':') {
        return Err(bad());
    }
    Ok((host, path))
}

fn path(url: &str) -> Result<&str, FetchTruthError> {
    parts(url).map(|(_, path)| path)
}

fn get(url: &str, path: &str, deadline: Duration) -> Result<Answer, FetchTruthError> {
    let until = SystemClock.now() + Nanos::from_ns(u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX));
    let (host, _) = parts(url)?;
    let failed = |source| FetchTruthError::Io { url: url.to_owned(), source };
    let wrong = |what: &str| FetchTruthError::Answer { url: url.to_owned(), what: what.to_owned() };
    let mut socket = connect(host, until).map_err(failed)?;
    socket.set_write_timeout(Some(left(until).map_err(failed)?)).map_err(failed)?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).map_err(failed)?;

    let mut bytes = Vec::new();
    let (status, length, next, body_at) = loop {
        let mut lines = [httparse::EMPTY_HEADER; 32];
        let mut head = httparse::Response::new(&mut lines);
        match head.parse(&bytes).map_err(|e| wrong(&format!("its head is not HTTP: {e}")))? {
            httparse::Status::Complete(body_at) => {
                let value = |name: &str| {
                    let line = head.headers.iter().find(|line| line.name.eq_ignore_ascii_case(name))?;
                    std::str::from_utf8(line.value).ok()?.trim().parse::<u64>().ok()
                };
                break (head.code.unwrap_or(0), value("content-length"), value("x-truth-next"), body_at);
            }
            httparse::Status::Partial if bytes.len() > HEAD_LIMIT => return Err(wrong("its head is too long")),
            httparse::Status::Partial => {}
        }
        if read_some(&mut socket, &mut bytes, HEAD_LIMIT, until).map_err(failed)? == 0 {
            return Err(wrong("it ended inside its head"));
        }
    };
    let length = length.ok_or_else(|| wrong("it has no Content-Length"))?;
    let length = usize::try_from(length).ok().filter(|n| *n <= BODY_LIMIT);
    let length = length.ok_or_else(|| wrong("its body is longer than 256 MiB"))?;
    let mut body = bytes.split_off(body_at);
    while body.len() < length {
        let most = (length - body.len()).min(1 << 20);
        if read_some(&mut socket, &mut body, most, until).map_err(failed)? == 0 {
            return Err(wrong("it ended inside its body"));
        }
    }
    body.truncate(length);
    if status != 200 {
        let body = String::from_utf8_lossy(&body[..body.len().min(300)]).escape_debug().to_string();
        return Err(FetchTruthError::Status { url: url.to_owned(), status, body });
    }
    Ok(Answer { next, body })
}

fn left(until: Instant) -> io::Result<Duration> {
    match until.saturating_since(SystemClock.now()).ns() {
        0 => Err(io::Error::new(io::ErrorKind::TimedOut, "the deadline has passed")),
        ns => Ok(Duration::from_nanos(ns)),
    }
}

fn connect(host: &str, until: Instant) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for addr in host.to_socket_addrs()?.collect::<Vec<SocketAddr>>() {
        match TcpStream::connect_timeout(&addr, left(until)?) {
            Ok(socket) => return Ok(socket),
            Err(e) => last = e,
        }
    }
    Err(last)
}

/// One read of at most `most` bytes, onto the end of `bytes`.
fn read_some(socket: &mut TcpStream, bytes: &mut Vec<u8>, most: usize, until: Instant) -> io::Result<usize> {
    let from = bytes.len();
    bytes.resize(from + most, 0);
    let read = loop {
        socket.set_read_timeout(Some(left(until)?))?;
        match socket.read(&mut bytes[from..]) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            // what a read timeout is called on Linux
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                break Err(io::Error::new(io::ErrorKind::TimedOut, "the deadline has passed"));
            }
            other => break other,
        }
    };
    bytes.truncate(from + read.as_ref().map_or(0, |n| *n));
    read
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Answers one request with these bytes, and closes.
    fn answering(bytes: impl Into<Vec<u8>>) -> String {
        let bytes = bytes.into();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/truth", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            let _ = socket.read(&mut request);
            let _ = socket.write_all(&bytes);
        });
        url
    }

    fn reply(next: &str, body: &str) -> String {
        format!("HTTP/1.1 200 OK\r\n{next}Content-Length: {}\r\n\r\n{body}", body.len())
    }

    const PATIENCE: Duration = Duration::from_secs(30);

    #[test]
    fn rows_and_where_to_go_on() {
        let row = serde_json::to_string(&TruthRow { nonce: "n".into(), ..TruthRow::default() }).unwrap();
        let body = format!("{row}\n{{\"summary\":{{}}}}\n");
        let url = answering(reply(&format!("x-truth-next: {}\r\n", 7 + body.len()), &body));
        let (rows, next) = fetch_truth(&url, 7, PATIENCE).unwrap();
        assert_eq!((rows.len(), rows[0].nonce.as_str(), next), (1, "n", 7 + body.len() as u64));
        let url = answering(reply("X-Truth-Next: 7\r\n", ""));
        assert_eq!(fetch_truth(&url, 7, PATIENCE).unwrap(), (Vec::new(), 7));
    }

    #[test]
    fn hostile_answers_are_named() {
        let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "a".repeat(1 << 20));
        for (bytes, words) in [
            ("SSH-2.0\r\n\r\n".to_owned(), "not HTTP"),
            (String::new(), "ended inside its head"),
            (long, "too long"),
            (reply("", ""), "X-Truth-Next"),
            (reply("X-Truth-Next: 99\r\n", "{}\n"), "X-Truth-Next is 99"),
            (reply("X-Truth-Next: 3\r\n", "{}\n"), "missing field"),
            (reply("X-Truth-Next: 2\r\n", "{}"), "inside a line"),
            ("HTTP/1.1 200 OK\r\n\r\n".to_owned(), "Content-Length"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n".to_owned(), "256 MiB"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nx".to_owned(), "ended inside its body"),
            ("HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno".to_owned(), "status 404: no"),
        ] {
            let said = fetch_truth(&answering(bytes), 0, PATIENCE).unwrap_err().to_string();
            assert!(said.contains(words), "{words}: {said}");
        }
    }

    #[test]
    fn wrong_urls_and_silent_servers() {
        for url in ["", "https://h:1/truth", "http://", "http://h/truth", "http://h:1/a b", "http://h:1/x\r\nA: b"] {
            assert!(matches!(fetch_truth(url, 0, PATIENCE), Err(FetchTruthError::Url { .. })), "{url:?}");
        }
        // the kernel takes the connection, nobody answers
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", silent.local_addr().unwrap());
        let Err(FetchTruthError::Io { source, .. }) = fetch_truth(&url, 0, Duration::from_millis(1)) else { panic!() };
        assert_eq!(source.kind(), io::ErrorKind::TimedOut);
    }
}
