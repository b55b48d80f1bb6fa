//! Small blocking requests on the control core, outside every window: what is this server?
//! The same wire code as the load path reads the replies.

use super::address::Target;
use bench_engine::clock::{Clock, SystemClock};
use bench_engine::io::tcp_info::RoundTrip;
use bench_engine::units::{Instant, Nanos};
use bench_engine::wire::body::{Body, Piece};
use bench_engine::wire::head::{HeadReader, ResponseHead};
use bench_engine::wire::request::{BadField, RequestTemplate};
use bench_engine::wire::tls::{Agreed, Client, Session, TlsFault};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thiserror::Error;

/// Longest body taken where a caller sets no other bound.
const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;

/// How long one question may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Connecting, the TLS handshake included: `--connect-timeout`.
    pub connect: Nanos,
    /// Each read, and each write.
    pub reply: Nanos,
}

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
    /// No TLS, or no longer.
    #[error("tls: {address}: {fault}{}", detail.as_ref().map_or_else(String::new, |words| format!(" ({words})")))]
    Tls {
        /// Where.
        address: SocketAddr,
        /// Why.
        fault: TlsFault,
        /// More words for it.
        detail: Option<String>,
    },
    /// It says nothing, or takes nothing.
    #[error("no answer within {} s", .0.secs_f64())]
    Silent(Nanos),
    /// The connection broke.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// It closed, and had not begun to reply.
    #[error("the server closed before its reply was complete, without a byte of it")]
    ClosedAtOnce,
    /// Not HTTP/1.1.
    #[error("{0}")]
    Protocol(String),
    /// A header given by the user is malformed.
    #[error(transparent)]
    Field(#[from] BadField),
}

/// Whether `address` accepts connections. No wait is longer than `timeout`, which is that of `--connect-timeout`.
///
/// # Errors
/// [`FetchError::Connect`].
pub fn connect(address: SocketAddr, timeout: Nanos) -> Result<TcpStream, FetchError> {
    TcpStream::connect_timeout(&address, duration(timeout)).map_err(|why| match why.raw_os_error() {
        // not the kernel's own limit, which is minutes
        None if why.kind() == ErrorKind::TimedOut => {
            let words = format!("no answer within {timeout} ({FLAG})");
            FetchError::Connect { address, why: io::Error::new(ErrorKind::TimedOut, words) }
        }
        _ => FetchError::Connect { address, why },
    })
}

/// What sets the time for connecting.
const FLAG: &str = "--connect-timeout";

/// As the standard library has it, which takes no wait of nothing at all.
fn duration(span: Nanos) -> Duration {
    Duration::from_nanos(span.ns().max(1))
}

/// A connection to a server, secured where its URL says so.
#[derive(Debug)]
pub struct Stream {
    socket: TcpStream,
    tls: Option<Secure>,
}

#[derive(Debug)]
struct Secure {
    session: Session,
    /// Decrypted bytes, and how many of them were taken.
    plain: Vec<u8>,
    taken: usize,
    /// The server said that it will send no more.
    ended: bool,
}

/// Opens a connection to `target`. Connecting takes at most `timeout`, the TLS handshake included.
///
/// # Errors
/// [`FetchError::Connect`], [`FetchError::Tls`].
pub fn open(target: &Target, timeout: Nanos) -> Result<Stream, FetchError> {
    let until = SystemClock.now() + timeout;
    let socket = connect(target.address, timeout)?;
    secure(socket, target.tls.as_ref(), target.address, until, timeout)
}

/// Secures a connection that is open, when there is anything to secure it with, by `until`: that is when the `timeout` of
/// `--connect-timeout` is over, which began with the connect.
///
/// # Errors
/// [`FetchError::Tls`].
pub fn secure(
    socket: TcpStream,
    client: Option<&Client>,
    address: SocketAddr,
    until: Instant,
    timeout: Nanos,
) -> Result<Stream, FetchError> {
    let mut stream = Stream { socket, tls: None };
    let Some(client) = client else { return Ok(stream) };
    let fault = |fault| FetchError::Tls { address, fault, detail: None };
    let silent = || {
        let detail = Some(format!("{timeout} for connecting, {FLAG}"));
        FetchError::Tls { address, fault: TlsFault::Silent, detail }
    };
    let mut session = client.session().map_err(fault)?;
    let (mut buffer, mut plain) = (vec![0; 16 * 1024], Vec::new());
    loop {
        let left = until.saturating_since(SystemClock.now());
        if left == Nanos::ZERO {
            return Err(silent());
        }
        stream.set_patience(left)?;
        if let Some(bytes) = session.outgoing() {
            stream.socket.write_all(&bytes).map_err(|_| fault(TlsFault::CutInHandshake))?;
        }
        if session.is_open() {
            break;
        }
        let n = match stream.socket.read(&mut buffer) {
            Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => {
                return Err(silent());
            }
            read => read.unwrap_or(0),
        };
        let arrived = session.decrypt(&buffer[..n], &mut plain);
        let cut = (n == 0 || arrived.closed).then_some(TlsFault::CutInHandshake);
        if let Some(fault) = arrived.fault.or(cut) {
            // the server may want to know why
            let _ = session.outgoing().map(|alert| stream.socket.write_all(&alert));
            return Err(FetchError::Tls { address, fault, detail: session.detail().map(str::to_owned) });
        }
    }
    stream.tls = Some(Secure { session, plain, taken: 0, ended: false });
    Ok(stream)
}

impl Stream {
    /// Longest wait of one read and of one write.
    fn set_patience(&self, patience: Nanos) -> io::Result<()> {
        self.socket.set_read_timeout(Some(duration(patience)))?;
        self.socket.set_write_timeout(Some(duration(patience)))
    }

    /// What TLS agreed on; None without it.
    pub fn agreed(&self) -> Option<Agreed> {
        self.tls.as_ref()?.session.agreed()
    }

    /// Its socket.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Sends all of these bytes.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.tls {
            None => self.socket.write_all(bytes),
            Some(secure) => self.socket.write_all(&secure.session.encrypt(bytes)),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(secure) = &mut self.tls else { return self.socket.read(buffer) };
        loop {
            let left = &secure.plain[secure.taken..];
            if !left.is_empty() || buffer.is_empty() {
                let n = left.len().min(buffer.len());
                buffer[..n].copy_from_slice(&left[..n]);
                secure.taken += n;
                return Ok(n);
            }
            if secure.ended {
                return Ok(0);
            }
            (secure.taken, secure.plain) = (0, std::mem::take(&mut secure.plain));
            secure.plain.clear();
            let mut wire = [0; 16 * 1024];
            let n = self.socket.read(&mut wire)?;
            if n == 0 {
                let words = "the server closed the connection without TLS's own end (close_notify)";
                return Err(io::Error::new(ErrorKind::UnexpectedEof, words));
            }
            let arrived = secure.session.decrypt(&wire[..n], &mut secure.plain);
            secure.ended |= arrived.closed;
            if let (Some(fault), true) = (arrived.fault, secure.plain.is_empty()) {
                return Err(io::Error::other(format!("tls: {fault}")));
            }
            // what was decrypted before a fault is given first; the next read then finds the session over
            secure.ended |= arrived.fault.is_some();
        }
    }
}

/// GETs `endpoint`.
///
/// # Errors
/// [`FetchError`].
pub fn get(
    target: &Target,
    endpoint: &str,
    fields: &[(String, String)],
    patience: Patience,
) -> Result<Reply, FetchError> {
    get_at_most(target, endpoint, fields, patience, MAX_BODY_BYTES)
}

/// The same with a body of at most `most` bytes. The reply as a whole takes at most twice [`Patience::reply`] and one read.
///
/// # Errors
/// [`FetchError`].
pub fn get_at_most(
    target: &Target,
    endpoint: &str,
    fields: &[(String, String)],
    patience: Patience,
    most: usize,
) -> Result<Reply, FetchError> {
    let template = RequestTemplate::new("GET", &target.path(endpoint), &target.authority, "application/json", fields)?;
    let mut stream = open(target, patience.connect)?;
    stream.set_patience(patience.reply)?;
    let until = SystemClock.now() + patience.reply + patience.reply;
    let sent = stream.send(&template.without_body()).map_err(FetchError::from);
    let reply = sent.and_then(|()| read_reply(&mut stream, until, most)).map_err(|error| match error {
        FetchError::Io(why) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&why.kind()) => {
            FetchError::Silent(patience.reply)
        }
        other => other,
    })?;
    Ok(Reply { round_trip: RoundTrip::of(stream.socket()).unwrap_or_default(), ..reply })
}

/// Sends `request` as it is, head and body, and reads a reply of at most `most` bytes. Connecting takes at most
/// `connect_patience`, the TLS handshake included, all the rest together `patience`; once `stop` is true it ends within a moment.
///
/// # Errors
/// [`FetchError`].
pub fn send(
    target: &Target,
    request: &[u8],
    connect_patience: Nanos,
    patience: Nanos,
    most: usize,
    stop: &AtomicBool,
) -> Result<Reply, FetchError> {
    let mut stream = open(target, connect_patience)?;
    let until = SystemClock.now() + patience;
    stream.socket.set_write_timeout(Some(duration(patience)))?;
    stream.socket.set_read_timeout(Some(STEP))?;
    stream.send(request)?;
    let mut bounded = Bounded { stream: &mut stream, patience, until, stop };
    read_reply(&mut bounded, until, most)
}

/// Between two looks at the time while nothing comes.
const STEP: Duration = Duration::from_millis(50);

/// A connection that is read until a moment, or until somebody stops it.
struct Bounded<'a> {
    stream: &'a mut Stream,
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
            match self.stream.read(buffer) {
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
                None if head.is_empty() => Err(FetchError::ClosedAtOnce),
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
    fn who_does_not_answer_a_connect_is_not_waited_for_longer_than_asked() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let nobody_waits = nix::sys::socket::Backlog::new(0).expect("a length");
        nix::sys::socket::listen(&listener, nobody_waits).expect("it listens already");
        // the one that fits; the next one's SYN is dropped (tcp(7))
        let _first = connect(address, Nanos::from_secs(5)).expect("accepted by the kernel");
        let error = connect(address, Nanos::from_millis(50)).expect_err("no room").to_string();
        assert!(
            error.ends_with("does not accept connections: no answer within 50.0 ms (--connect-timeout)"),
            "{error}"
        );
    }

    #[test]
    fn who_says_nothing_is_told_so() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let target = Target::resolve(&url, None, &crate::target::tls::TlsWords::default()).expect("resolves");
        let patience = Patience { connect: Nanos::from_secs(5), reply: Nanos::from_millis(50) };
        let error = get(&target, "/v1/models", &[], patience).expect_err("silence").to_string();
        assert_eq!(error, "no answer within 0.05 s");
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
