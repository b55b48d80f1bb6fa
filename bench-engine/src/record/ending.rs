//! How exchanges end, in words that say with what.

use crate::units::Nanos;
use crate::wire::body::BodyError;
use crate::wire::head::HeadError;
use crate::wire::sse::SseError;
use crate::wire::tls::TlsFault;
use std::fmt;
use thiserror::Error;

/// The timers that bound every wait of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// From the first connect to an open connection, the TLS handshake included.
    Connect,
    /// Between bytes of the reply, and before its first.
    Stall,
    /// The whole request.
    Request,
    /// From `[DONE]` to the end of the body.
    Drain,
}

impl fmt::Display for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Timer::Connect => "connect",
            Timer::Stall => "stall",
            Timer::Request => "request",
            Timer::Drain => "drain",
        })
    }
}

/// How an exchange ended, as far as bytes and time tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Ending {
    /// The body came to its end.
    #[error("complete")]
    Complete,
    /// The peer closed before that.
    #[error("the server closed the connection before the reply was complete")]
    Closed,
    /// The socket failed with this errno.
    #[error("the connection broke: {}", errno_words(*.0))]
    Broken(i32),
    /// The peer closed, or the socket failed with this errno, while the request was being sent and before anything of a reply.
    #[error(
        "{} before the whole request was sent: it may be larger than the server, or a proxy in front of it, takes{}",
        loss_words(*.0), loss_errno(*.0)
    )]
    HalfSent(Option<i32>),
    /// The same before anything of the request had left, on a connection that had been opened for it.
    #[error(
        "{} before anything of the request was sent: the server, or a proxy in front of it, may accept more connections \
         than it serves{}",
        loss_words(*.0), loss_errno(*.0)
    )]
    Unsent(Option<i32>),
    /// The peer closed a TLS connection without saying so in TLS: what is missing may have been cut off by anybody.
    #[error("the server closed the connection without TLS's own end (close_notify): the reply may have been cut short")]
    NoCloseNotify,
    /// No TLS session, or no longer.
    #[error("{0}")]
    Tls(TlsFault),
    /// No connection, with this errno.
    #[error("no connection: {}", errno_words(*.0))]
    NoConnection(i32),
    /// A wait ran out.
    #[error("the {0} timeout of {1} ran out")]
    TimedOut(Timer, Nanos),
    /// Bytes that are not the protocol.
    #[error("{0}")]
    Protocol(ProtocolError),
    /// The client itself could not go on.
    #[error("{0}")]
    Client(ClientFault),
    /// The window closed first.
    #[error("still running when the window closed")]
    Censored,
    /// Never begun: the run was ended first.
    #[error("the run was ended before it was sent")]
    NotSent,
}

/// What was wrong with the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ProtocolError {
    /// The head.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// The framing of the body.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The event stream.
    #[error(transparent)]
    Sse(#[from] SseError),
    /// A content coding, although identity was asked for.
    #[error("the reply is compressed although identity was asked for: a compressor holds tokens back")]
    Compressed,
    /// 101, or more interim responses than anyone needs.
    #[error("the server answered with interim responses only, or switched protocols")]
    Interim,
    /// Bytes on a new connection before anything of a request had left.
    #[error(
        "the server spoke before it was asked for anything: it refuses connections in this way, or is no HTTP server"
    )]
    Unasked,
    /// A body that is no stream and has no end in sight.
    #[error("the reply is longer than {} MiB", crate::exchange::MAX_WHOLE_BODY_BYTES >> 20)]
    TooLong,
}

/// What the client ran out of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ClientFault {
    /// EMFILE, ENFILE.
    #[error("out of file descriptors: raise the limit (ulimit -n) or lower the concurrency")]
    Descriptors,
    /// EADDRNOTAVAIL, EADDRINUSE.
    #[error("out of local ports: wait for TIME_WAIT to pass, widen net.ipv4.ip_local_port_range, or reuse connections")]
    Ports,
    /// ENOMEM, ENOBUFS.
    #[error("out of kernel memory for sockets")]
    Memory,
    /// See [`super::NoBlock`].
    #[error("the pool of record blocks is used up: the record reader cannot follow; lower the load or give it a core")]
    Pool,
}

impl ClientFault {
    /// The fault behind an errno, when it is one of ours.
    pub fn from_errno(errno: i32) -> Option<Self> {
        match errno {
            libc::EMFILE | libc::ENFILE => Some(ClientFault::Descriptors),
            libc::EADDRNOTAVAIL | libc::EADDRINUSE => Some(ClientFault::Ports),
            libc::ENOMEM | libc::ENOBUFS => Some(ClientFault::Memory),
            _ => None,
        }
    }
}

/// `ECONNREFUSED (Connection refused)`.
fn errno_words(errno: i32) -> String {
    let e = nix::errno::Errno::from_raw(errno);
    format!("{e:?} ({})", e.desc())
}

fn loss_words(errno: Option<i32>) -> &'static str {
    match errno {
        None => "the server closed the connection",
        Some(_) => "the connection broke",
    }
}

fn loss_errno(errno: Option<i32>) -> String {
    errno.map_or_else(String::new, |errno| format!("; {}", errno_words(errno)))
}
