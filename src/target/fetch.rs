//! Small blocking requests on the control core, outside every window: what is this server?
//! The same wire code as the load path reads the replies.

use super::address::Target;
use bench_engine::clock::{Clock, SystemClock};
use bench_engine::io::tcp_info::RoundTrip;
use bench_engine::units::{Instant, Nanos};
use bench_engine::wire::body::{Body, Piece};
use bench_engine::wire::head::{HeadReader, ResponseHead};
use bench_engine::wire::request::{BadField, RequestTemplate};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thiserror::Error;

/// Longest body taken where a caller sets no other bound.
const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;

/// A reply, whole.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Status code.
    pub status: u16,
    /// `Server` header.
    pub server: Option<String>,
    /// `Content-Encoding` other than `identity`: the body is not what it seems.
    pub encoding: Option<String>,
    /// The body.
    pub body: Vec<u8>,
    /// Round trip of its connection.
    pub round_trip: RoundTrip,
}

/// No reply.
#[derive(Debug, Error)]
pub enum FetchError {
    /// No connection.
    #[error("connect: {address} does not accept connections: {why}")]
    Connect {
        /// Where.
        address: SocketAddr,
        /// The kernel's words.
        why: std::io::Error,
    },
    /// The connection broke.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// Not HTTP/1.1.
    #[error("{0}")]
    Protocol(String),
    /// A header given by the user is malformed.
    #[error(transparent)]
    Field(#[from] BadField),
}

/// Whether `address` accepts connections.
///
/// # Errors
/// [`FetchError::Connect`].
pub fn connect(address: SocketAddr, timeout: Duration) -> Result<TcpStream, FetchError> {
    TcpStream::connect_timeout(&address, timeout).map_err(|why| FetchError::Connect { address, why })
}

/// GETs `endpoint`.
///
/// # Errors
/// [`FetchError`].
pub fn get(
    target: &Target,
    endpoint: &str,
    fields: &[(String, String)],
    timeout: Duration,
) -> Result<Reply, FetchError> {
    get_at_most(target, endpoint, fields, timeout, MAX_BODY_BYTES)
}

/// The same with a body of at most `most` bytes. Connecting, each read, and writing take at most `timeout` each, the
/// reply as a whole at most twice that and one read.
///
/// # Errors
/// [`FetchError`].
pub fn get_at_most(
    target: &Target,
    endpoint: &str,
    fields: &[(String, String)],
    timeout: Duration,
    most: usize,
) -> Result<Reply, FetchError> {
    let template = RequestTemplate::new("GET", &target.path(endpoint), &target.authority, "application/json", fields)?;
    let mut socket = connect(target.address, timeout)?;
    socket.set_read_timeout(Some(timeout))?;
    socket.set_write_timeout(Some(timeout))?;
    socket.write_all(&template.without_body())?;
    let patience = Nanos::from_millis(2 * timeout.as_millis() as u64);
    let reply = read_reply(&mut socket, SystemClock.now() + patience, most)?;
    Ok(Reply { round_trip: RoundTrip::of(&socket).unwrap_or_default(), ..reply })
}

/// Sends `request` as it is, head and body, and reads a reply of at most `most` bytes. Connecting takes at most
/// `connect_patience`, all the rest together `patience`; once `stop` is true it ends within a moment.
///
/// # Errors
/// [`FetchError`].
pub fn send(
    address: SocketAddr,
    request: &[u8],
    connect_patience: Duration,
    patience: Nanos,
    most: usize,
    stop: &AtomicBool,
) -> Result<Reply, FetchError> {
    let mut socket = connect(address, connect_patience)?;
    let until = SystemClock.now() + patience;
    socket.set_write_timeout(Some(Duration::from_nanos(patience.ns().max(1))))?;
    socket.set_read_timeout(Some(STEP))?;
    socket.write_all(request)?;
    let mut bounded = Bounded { socket: &mut socket, patience, until, stop };
    read_reply(&mut bounded, until, most)
}

/// Between two looks at the time while nothing comes.
const STEP: Duration = Duration::from_millis(50);

/// A socket that is read until a moment, or until somebody stops it.
struct Bounded<'a> {
    socket: &'a mut TcpStream,
    patience: Nanos,
    until: Instant,
    stop: &'a AtomicBool,
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(io::Error::other("interrupted"));
            }
            match self.socket.read(buffer) {
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if SystemClock.now() > self.until {
                        let words = format!("no whole reply within {}", self.patience);
                        return Err(io::Error::new(ErrorKind::TimedOut, words));
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }
}

fn read_reply(socket: &mut impl Read, until: Instant, most: usize) -> Result<Reply, FetchError> {
    let (mut head, mut buffer) = (HeadReader::default(), vec![0; 64 * 1024]);
    let (mut started, mut body): (Option<(ResponseHead, Body)>, Vec<u8>) = (None, Vec::new());
    loop {
        let n = socket.read(&mut buffer)?;
        if SystemClock.now() > until {
            return Err(FetchError::Protocol("the reply took too long to come whole".to_owned()));
        }
        if n == 0 {
            return match started {
                Some((found, state)) if state.may_end() => Ok(reply(&found, &head, body)),
                _ => Err(FetchError::Protocol("the server closed before its reply was complete".to_owned())),
            };
        }
        let mut input = &buffer[..n];
        while !input.is_empty() {
            match &mut started {
                None => {
                    let (taken, found) = head.push(input).map_err(|e| FetchError::Protocol(e.to_string()))?;
                    input = &input[taken..];
                    match found {
                        Some(interim) if interim.status < 200 => head.clear(),
                        Some(found) => started = Some((found, Body::new(found.framing))),
                        None => {}
                    }
                }
                Some((_, Body::Done)) => break,
                Some((_, state)) => {
                    let (taken, piece) = state.next(input).map_err(|e| FetchError::Protocol(e.to_string()))?;
                    if let Piece::Payload(bytes) = piece {
                        body.extend_from_slice(bytes);
                    }
                    input = &input[taken..];
                }
            }
        }
        if body.len() > most {
            return Err(FetchError::Protocol(format!("the reply is longer than {most} bytes")));
        }
        if let Some((found, Body::Done)) = started {
            return Ok(reply(&found, &head, body));
        }
    }
}

fn reply(found: &ResponseHead, head: &HeadReader, body: Vec<u8>) -> Reply {
    let (mut server, mut encoding) = (None, None);
    bench_engine::wire::head::each_field(head.bytes(), |name, value| {
        let text = || Some(String::from_utf8_lossy(value).into_owned());
        if name.eq_ignore_ascii_case("server") {
            server = text();
        } else if name.eq_ignore_ascii_case("content-encoding") {
            encoding = text().filter(|e| !e.trim().eq_ignore_ascii_case("identity"));
        }
    });
    Reply { status: found.status, server, encoding, body, round_trip: RoundTrip::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_of_every_framing() {
        for (wire, body) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "{}"),
            (
                "HTTP/1.1 100 C\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nServer: x\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
                "{}",
            ),
            ("HTTP/1.0 200 OK\r\n\r\nabc", "abc"),
            ("HTTP/1.1 204 No\r\n\r\n", ""),
        ] {
            let reply = read(wire, 3).expect("reply");
            assert_eq!(reply.body, body.as_bytes(), "{wire}");
        }
        assert!(read("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", 9).is_err());
    }

    fn read(wire: &str, most: usize) -> Result<Reply, FetchError> {
        read_reply(&mut wire.as_bytes(), Instant::from_ns(u64::MAX), most)
    }

    #[test]
    fn a_longer_body_is_refused_and_a_coded_one_is_named() {
        let error = read("HTTP/1.0 200 OK\r\n\r\nabcd", 3).expect_err("too long").to_string();
        assert!(error.contains("longer than 3 bytes"), "{error}");
        let coded = |value: &str| {
            let wire = format!("HTTP/1.1 200 OK\r\nContent-Encoding: {value}\r\nContent-Length: 2\r\n\r\n{{}}");
            read(&wire, 9).expect("a reply").encoding
        };
        assert_eq!((coded("gzip"), coded("identity")), (Some("gzip".to_owned()), None));
    }
}
