//! The truth log and the mock's own fitness over HTTP, one client at a time, on a thread that paces nothing.

use super::log_file::Written;
use crate::truth::Summary;
use bench_engine::clock::{Clock, SystemClock};
use bench_engine::units::{Instant, Nanos};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Longest request head taken, in bytes.
const HEAD_LIMIT: usize = 8 << 10;
/// Bytes of the log in one answer, unless its first line alone is longer.
const ANSWER_LIMIT: u64 = 16 << 20;
/// Bytes read at once.
const BLOCK: usize = 64 << 10;
/// A client that has not asked, or has not read its answer, by then is dropped.
const ASK_WITHIN: Nanos = Nanos::from_secs(5);
const READ_WITHIN: Nanos = Nanos::from_secs(60);
/// How often it is looked whether the mock has ended, in ms.
const LOOK_EVERY: u16 = 50;

/// What the mock last said about itself.
pub(super) type Fitness = Arc<Mutex<Summary>>;

/// The running server; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct TruthServer {
    addr: SocketAddr,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl TruthServer {
    /// Serves what is `written` of `log`, and `fitness`.
    ///
    /// # Errors
    /// The address cannot be had, or no thread started.
    pub(super) fn start(addr: SocketAddr, log: File, written: Written, fitness: Fitness) -> io::Result<TruthServer> {
        let listener = TcpListener::bind(addr)?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&over);
        let thread = std::thread::Builder::new().name("truth-http".to_owned()).spawn(move || {
            while !stop.load(Ordering::Acquire) {
                let mut watched = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
                let ready = poll(&mut watched, PollTimeout::from(LOOK_EVERY));
                if let (Ok(1..), Ok((socket, _))) = (ready, listener.accept()) {
                    // a client that fails has only failed itself
                    let _ = answer(socket, &log, &written, &fitness, &stop);
                }
            }
        })?;
        Ok(TruthServer { addr, over, thread: Some(thread) })
    }

    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for TruthServer {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(
    mut socket: TcpStream,
    log: &File,
    written: &Written,
    fitness: &Fitness,
    over: &AtomicBool,
) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(Duration::from_millis(LOOK_EVERY.into())))?;
    let Some(target) = read_target(&mut socket, over)? else { return Ok(()) };
    let plain = |socket: &mut TcpStream, status: &str, body: &str| {
        let length = body.len();
        let head = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n");
        socket.write_all(format!("{head}Connection: close\r\n\r\n{body}").as_bytes())
    };
    let refuse = |socket: &mut TcpStream, status: &str, why: &str| {
        plain(socket, status, &serde_json::json!({"error": why}).to_string())
    };
    socket.set_write_timeout(Some(Duration::from_millis(LOOK_EVERY.into())))?;
    let Some(target) = target else {
        return refuse(&mut socket, "400 Bad Request", "this is no GET request of HTTP/1.1");
    };
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    if path == "/summary" {
        let summary = fitness.lock().map(|summary| summary.clone()).unwrap_or_default();
        let body = serde_json::to_string(&summary).map_err(io::Error::other)?;
        return plain(&mut socket, "200 OK", &body);
    }
    if path != "/truth" {
        return refuse(&mut socket, "404 Not Found", "ask for /truth?from=BYTE or /summary");
    }
    let from = query.split('&').find_map(|part| part.strip_prefix("from="));
    let Ok(from) = from.map_or(Ok(0), str::parse::<u64>) else {
        return refuse(&mut socket, "400 Bad Request", "from is a number of bytes");
    };
    match span(log, from, written.bytes(), ANSWER_LIMIT)? {
        Err(why) => refuse(&mut socket, "400 Bad Request", why),
        Ok(to) => {
            let length = to - from;
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/jsonl\r\nContent-Length: {length}\r\nX-Truth-Next: {to}\r\n\
                 Connection: close\r\n\r\n"
            );
            let until = SystemClock.now() + READ_WITHIN;
            send(&mut socket, head.as_bytes(), until, over)?;
            let (mut at, mut block) = (from, vec![0; BLOCK]);
            while at < to {
                let n = BLOCK.min((to - at) as usize);
                log.read_exact_at(&mut block[..n], at)?;
                send(&mut socket, &block[..n], until, over)?;
                at += n as u64;
            }
            Ok(())
        }
    }
}

/// Writes all, and looks now and then whether it should still.
fn send(socket: &mut TcpStream, mut bytes: &[u8], until: Instant, over: &AtomicBool) -> io::Result<()> {
    while !bytes.is_empty() {
        match socket.write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(e) if e.kind() == io::ErrorKind::WouldBlock || e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
        if over.load(Ordering::Acquire) || SystemClock.now() > until {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    Ok(())
}

/// The target of a GET; inside None for anything else, outside None for a client that went away or took too long.
fn read_target(socket: &mut TcpStream, over: &AtomicBool) -> io::Result<Option<Option<String>>> {
    let until = SystemClock.now() + ASK_WITHIN;
    let mut bytes = Vec::new();
    loop {
        let mut lines = [httparse::EMPTY_HEADER; 64];
        let mut head = httparse::Request::new(&mut lines);
        match head.parse(&bytes) {
            Ok(httparse::Status::Complete(_)) => {
                return Ok(Some(head.path.filter(|_| head.method == Some("GET")).map(str::to_owned)));
            }
            Ok(httparse::Status::Partial) if bytes.len() < HEAD_LIMIT => {}
            _ => return Ok(Some(None)),
        }
        let mut more = [0; 1024];
        match socket.read(&mut more) {
            Ok(0) => return Ok(None),
            Ok(n) => bytes.extend_from_slice(&more[..n]),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock || e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
        if over.load(Ordering::Acquire) || SystemClock.now() > until {
            return Ok(None);
        }
    }
}

/// Where an answer from `from` on ends: at the end of a line, at most `limit` bytes on unless one line is longer.
fn span(log: &File, from: u64, written: u64, limit: u64) -> io::Result<Result<u64, &'static str>> {
    if from > written {
        return Ok(Err("from lies behind the end of the log"));
    }
    let mut before = [b'\n'];
    if from > 0 {
        log.read_exact_at(&mut before, from - 1)?;
    }
    if before != [b'\n'] {
        return Ok(Err("from is not the beginning of a line"));
    }
    if written - from <= limit {
        return Ok(Ok(written));
    }
    let mut block = vec![0; BLOCK];
    // back to the last end of a line inside the limit; if there is none, forward to the first behind it
    let mut end = from + limit;
    while end > from {
        let start = end.saturating_sub(BLOCK as u64).max(from);
        let part = &mut block[..(end - start) as usize];
        log.read_exact_at(part, start)?;
        if let Some(at) = part.iter().rposition(|byte| *byte == b'\n') {
            return Ok(Ok(start + at as u64 + 1));
        }
        end = start;
    }
    let mut start = from + limit;
    while start < written {
        let part = &mut block[..BLOCK.min((written - start) as usize)];
        log.read_exact_at(part, start)?;
        if let Some(at) = part.iter().position(|byte| *byte == b'\n') {
            return Ok(Ok(start + at as u64 + 1));
        }
        start += part.len() as u64;
    }
    Ok(Ok(written))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn answers_end_at_ends_of_lines_and_always_go_on(lines in proptest::collection::vec(0usize..300_000, 1..6), limit in 1u64..400_000) {
            let text: Vec<u8> = lines.iter().flat_map(|n| [vec![b'x'; *n], vec![b'\n']].concat()).collect();
            let path = std::env::temp_dir().join(format!("tarebench-span-{}.txt", std::process::id()));
            std::fs::write(&path, &text).unwrap();
            let log = File::open(&path).unwrap();
            std::fs::remove_file(&path).unwrap();
            let (mut at, all) = (0, text.len() as u64);
            while at < all {
                let to = span(&log, at, all, limit).unwrap().unwrap();
                prop_assert!(to > at && text[to as usize - 1] == b'\n');
                let one_line = text[at as usize..].iter().position(|b| *b == b'\n').unwrap() as u64 + 1;
                prop_assert!(to - at <= limit.max(one_line));
                at = to;
            }
            prop_assert_eq!(span(&log, all, all, limit).unwrap(), Ok(all));
            prop_assert!(span(&log, all + 1, all, limit).unwrap().is_err());
            if lines[0] > 0 {
                prop_assert!(span(&log, 1, all, limit).unwrap().is_err());
            }
        }
    }
}
