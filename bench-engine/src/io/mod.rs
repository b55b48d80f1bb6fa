//! The contract of a driver: what a worker asks of the kernel, and what comes back with stamps on it.
//!
//! A driver owns sockets and buffers; a worker owns meaning. Time enters here: `seen` is read once when a
//! system call returns, before anything is parsed, and `submit` once just before the call that sends.
//!
//! There are two, and what they hand over means the same. Where they differ is the call that brings bytes: an enter of
//! the ring brings those of many sockets, which share its return as `seen`; beside epoll each read is a call of its own,
//! and its own return is `seen`.

pub mod capabilities;
pub mod epoll;
mod outgoing;
mod stamps;
pub mod tcp_info;
mod tx_ids;
pub mod uring;

use crate::record::{ClientFault, ReadStamp};
use crate::units::{Instant, WallInstant};
use bytes::Bytes;
use std::fmt;
use std::net::SocketAddr;
use thiserror::Error;

/// Bytes of one receive buffer. Small enough that a backlog is not swallowed under one stamp, large enough for some
/// twenty token events.
pub const READ_BYTES: usize = 4096;

/// The drivers there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DriverKind {
    /// A ring per worker ([`uring`]).
    Uring,
    /// Non-blocking sockets and an epoll set per worker ([`epoll`]).
    Epoll,
}

impl fmt::Display for DriverKind {
    /// As people call it: `io_uring`, `epoll`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DriverKind::Uring => "io_uring",
            DriverKind::Epoll => "epoll",
        })
    }
}

/// What a driver is made for.
#[derive(Clone, Copy, Debug)]
pub struct DriverOptions {
    /// Connections at once.
    pub connections: u32,
    /// Ask for kernel stamps.
    pub stamps: bool,
}

/// Why there is no driver.
#[derive(Debug, Error)]
pub enum DriverError {
    /// No ring.
    #[error(transparent)]
    Ring(#[from] uring::RingError),
    /// No epoll set.
    #[error(transparent)]
    Epoll(#[from] epoll::EpollError),
}

/// A connection slot of one worker, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u32);

/// Something that happened on a connection. The times of successive events of one driver do not go back;
/// [`Event::WireOut`] stands apart.
#[derive(Debug)]
pub enum Event<'a> {
    /// The connection is open.
    Connected {
        /// When the completion was seen.
        at: Instant,
    },
    /// It could not be opened, with this errno.
    ConnectFailed {
        /// When that was seen.
        at: Instant,
        /// Why.
        errno: i32,
    },
    /// There is no socket to open it with.
    NoSocket {
        /// When that was seen.
        at: Instant,
        /// Why.
        fault: ClientFault,
    },
    /// The first bytes of a request were given to the kernel.
    Handed {
        /// As given with the send.
        sequence: u64,
        /// Just before the system call.
        submit: Instant,
        /// On its return.
        handed: Instant,
    },
    /// The kernel has taken the last byte of a request.
    Sent {
        /// As given with the send.
        sequence: u64,
        /// When the completion was seen.
        at: Instant,
    },
    /// Sending failed with this errno.
    SendFailed {
        /// When that was seen.
        at: Instant,
        /// Why.
        errno: i32,
    },
    /// TX stamp of the last byte of a request. It may come after the reply.
    WireOut {
        /// As given with the send.
        sequence: u64,
        /// The stamp.
        wall: WallInstant,
        /// When it was read.
        at: Instant,
    },
    /// Bytes of the reply. The driver leaves `read_no` at 0.
    Received(&'a [u8], ReadStamp),
    /// The peer will send no more.
    PeerClosed {
        /// When that was seen.
        at: Instant,
    },
    /// Receiving failed with this errno.
    ReceiveFailed {
        /// When that was seen.
        at: Instant,
        /// Why.
        errno: i32,
    },
}

/// Takes in what happened.
pub trait Events {
    /// One event on one connection.
    fn on(&mut self, conn: ConnId, event: Event<'_>);
}

/// Counters of a driver, cumulative.
///
/// A completion is a connect, a send, a read or TX stamps that were handled; a batch is those that one wait in the kernel
/// brought: one enter of the ring, or one `epoll_wait` with the reads that follow it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriverCounters {
    /// Waits that brought completions.
    pub batches: u64,
    /// Most completions of one such wait.
    pub max_batch: u32,
    /// Completions.
    pub completions: u64,
    /// Time from the return of a call with completions, or from the first call that sends, to the next wait, in ns. The
    /// reads themselves lie inside it beside epoll and outside it in a ring, whose enter does them: it is not compared
    /// across drivers.
    pub busy_ns: u64,
    /// Receives that ended without a reason of their own; armed again. Beside epoll there are none.
    pub receives_repeated: u64,
    /// Completions lost: must stay 0. Beside epoll there is nothing to lose them from.
    pub ring_overflow: u64,
    /// Reads without the RX stamp they should have had.
    pub rx_stamps_missing: u64,
}

/// How a worker reaches the kernel.
pub trait Driver {
    /// The time, from this driver's clock.
    fn now(&self) -> Instant;

    /// Begins to open `conn`, which must not be open. Ends in `Connected`, `ConnectFailed` or `NoSocket`.
    fn open(&mut self, conn: ConnId, to: SocketAddr);

    /// Queues the whole of a request; it goes out in the next turn, after what was queued before. Ends in `Handed`, then `Sent` or
    /// `SendFailed`; `WireOut` comes when and if the kernel gives it.
    fn send(&mut self, conn: ConnId, sequence: u64, request: Bytes);

    /// Queues bytes that are no request: of a TLS handshake, or an alert. They go out in order with what was queued before
    /// them, and nothing is told of them but `SendFailed`. Behind a request that has not left yet they can take its stamp with them:
    /// the kernel keeps one for each packet.
    fn send_aside(&mut self, conn: ConnId, bytes: Bytes);

    /// Ends everything on `conn` and frees it: no event of it follows but late `WireOut`s.
    fn close(&mut self, conn: ConnId);

    /// Sends what is queued, waits for something to happen, at most until `until`, and hands it over. It may return
    /// early with nothing.
    fn turn(&mut self, until: Instant, events: &mut impl Events);

    /// No turn follows for now. What was being handled ends here: a pause is not work, and must not count as busy.
    fn rest(&mut self);

    /// Counters so far.
    fn counters(&self) -> DriverCounters;
}
