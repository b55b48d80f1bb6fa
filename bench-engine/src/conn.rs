//! One connection slot: whether there is a connection, what it has carried, and the request on it.
//! Also what is learnt about the server's idea of keep-alive.

use crate::record::{Due, Ending, Finished};
use crate::units::{Instant, Nanos, WallInstant};
use crate::wire::tls::Session;
use bytes::Bytes;
use std::fmt;
use std::num::NonZeroU32;

/// A request ready to go, made before its turn.
#[derive(Clone)]
pub struct Job {
    /// Names it to whoever reads the records.
    pub id: u64,
    /// When it is due, from the opening of its window; None: as soon as a slot is free.
    pub due: Option<Nanos>,
    /// Head and body.
    pub request: Bytes,
}

impl fmt::Debug for Job {
    /// Without its bytes, which hold keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.request.len();
        f.debug_struct("Job").field("id", &self.id).field("due", &self.due).field("bytes", &bytes).finish()
    }
}

impl Job {
    /// A job whose bytes are shared with the driver without an allocation.
    pub fn new(id: u64, request: Vec<u8>) -> Self {
        let request = Bytes::from(request);
        // bytes made of a vector get their count of owners at the first clone: here, not on a worker
        drop(request.clone());
        Job { id, due: None, request }
    }

    /// The same, due so long after the opening of its window.
    pub fn due_at(self, due: Nanos) -> Self {
        Job { due: Some(due), ..self }
    }

    /// The record of a request that was due in a window opened at `opened` and is not sent: at `at` the run is ended.
    pub fn not_sent(self, opened: Instant, at: Instant) -> Finished {
        let due = Due { at: opened + self.due.unwrap_or(Nanos::ZERO), wall: None };
        Finished { conn: None, taken: None, ..Current::new(self, due, at).finished(0, Ending::NotSent, at) }
    }
}

/// How many requests a connection carries before it is closed from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// As many as the server lets it.
    Unlimited,
    /// So many: with one, each request has a connection of its own.
    AtMost(NonZeroU32),
}

impl Reuse {
    /// Each request has a connection of its own.
    pub const PER_REQUEST: Reuse = Reuse::AtMost(NonZeroU32::MIN);

    /// Whether one that has carried so many may carry another.
    pub fn goes_on(self, carried: u32) -> bool {
        match self {
            Reuse::Unlimited => true,
            Reuse::AtMost(most) => carried < most.get(),
        }
    }
}

/// A connection slot's state.
///
/// ```text
///            open               connected, TLS               secured
///   Closed --------> Opening -------------------> Securing -----------+
///     ^                 |                                             |
///     |                 +------------- connected, plain --------------+
///     |                                                               |
///     |                      send                                     |
///     |          Ready ----------------> Busy <-- opened for a request+
///     |            ^ ^----- reply over ----'                          |
///     |            +--------------------------------- opened ahead ---+
///     |
///     +-- from each: refused, lost, ended by the peer, timed out, cut short, or not worth keeping
/// ```
#[derive(Debug)]
pub enum Conn {
    /// No connection.
    Closed {
        /// The server ended the one before.
        by_server: bool,
    },
    /// Being opened.
    Opening {
        /// Since when.
        since: Instant,
        /// It replaces one that the server ended.
        replaces: bool,
        /// Place of its address in the list.
        address: u32,
        /// The request that waits for it.
        current: Option<Current>,
    },
    /// Connected; the TLS handshake runs.
    Securing {
        /// Since when.
        since: Instant,
        /// How long the TCP connect took.
        tcp: Nanos,
        /// What it will be.
        open: Open,
        /// The request that waits for it.
        current: Option<Current>,
    },
    /// Open, and nothing on it.
    Ready(Open),
    /// Open, with a request on it.
    Busy(Open, Current),
}

/// What was under way on a connection that was given up.
#[allow(clippy::large_enum_variant)] // boxing the request would allocate on a worker
#[derive(Debug)]
pub enum Abandoned {
    /// A request: on it, or waiting for it.
    Request(Current),
    /// Nothing but its being opened, ahead of any request.
    OpenedAhead,
}

impl Conn {
    /// Leaves for [`Conn::Closed`]: what it was until now. Its TLS ends with what is returned.
    #[inline]
    pub fn leave(&mut self, by_server: bool) -> Conn {
        std::mem::replace(self, Conn::Closed { by_server })
    }

    /// Leaves for [`Conn::Closed`] if something is under way: what that is. Else nothing changes.
    pub fn abandon(&mut self) -> Option<Abandoned> {
        let current = match self.leave(false) {
            Conn::Busy(_, current) => Some(current),
            Conn::Opening { current, .. } => current,
            Conn::Securing { tcp, current, .. } => current.map(|current| Current { connect: Some(tcp), ..current }),
            idle @ (Conn::Closed { .. } | Conn::Ready(_)) => {
                *self = idle;
                return None;
            }
        };
        Some(current.map_or(Abandoned::OpenedAhead, Abandoned::Request))
    }

    /// Open, and nothing on it.
    #[inline]
    pub fn is_ready(&self) -> bool {
        matches!(self, Conn::Ready(_))
    }

    /// Whatever comes on it is TLS's.
    #[inline]
    pub fn is_encrypted(&self) -> bool {
        match self {
            Conn::Securing { open, .. } | Conn::Ready(open) | Conn::Busy(open, _) => open.tls.is_some(),
            Conn::Closed { .. } | Conn::Opening { .. } => false,
        }
    }

    /// Its TLS, from TCP's connect on.
    #[inline]
    pub fn tls(&mut self) -> Option<&mut Session> {
        match self {
            Conn::Securing { open, .. } | Conn::Ready(open) | Conn::Busy(open, _) => open.tls.as_deref_mut(),
            Conn::Closed { .. } | Conn::Opening { .. } => None,
        }
    }
}

/// What an open connection has been through.
#[derive(Debug)]
pub struct Open {
    /// Requests it carried before.
    pub carried: u32,
    /// It replaces one that the server ended.
    pub replaces: bool,
    /// Place of its address in the list.
    pub address: u32,
    /// Its last reply ended then.
    pub idle_since: Instant,
    /// What secures it, where it is secured.
    pub tls: Option<Box<Session>>,
}

/// The request of a slot, and its stamps so far.
#[derive(Debug)]
pub struct Current {
    /// The job.
    pub job: Job,
    /// Number of its last send.
    pub sequence: u64,
    /// When its turn had come.
    pub due: Due,
    /// When it was taken up.
    pub taken: Instant,
    /// Duration of the TCP connect made for it.
    pub connect: Option<Nanos>,
    /// Duration of the TLS handshake made for it.
    pub tls: Option<Nanos>,
    /// Place of its server's address in the list.
    pub address: u32,
    /// Its bytes as they go over the wire.
    pub wire_bytes: u64,
    /// Sent on a connection that had carried one.
    pub reused: bool,
    /// Sent on the first use of a connection that replaces one the server ended.
    pub reopened: bool,
    /// Times it was sent anew.
    pub retries: u32,
    /// Before the enter with its first byte.
    pub submit: Option<Instant>,
    /// After it.
    pub handed: Option<Instant>,
    /// The kernel has its last byte.
    pub sent: Option<Instant>,
    /// TX stamp of its last byte, and when that was read.
    pub wire_out: Option<(WallInstant, Instant)>,
    /// Sending failed with this errno; what the server has to say may still come.
    pub send_failed: Option<i32>,
    /// Bytes of the reply.
    pub bytes_in: u64,
    /// Reads of the reply.
    pub reads: u32,
}

impl Current {
    /// A request taken up at `taken`.
    pub fn new(job: Job, due: Due, taken: Instant) -> Self {
        Current {
            job,
            sequence: 0,
            due,
            taken,
            connect: None,
            tls: None,
            address: 0,
            wire_bytes: 0,
            reused: false,
            reopened: false,
            retries: 0,
            submit: None,
            handed: None,
            sent: None,
            wire_out: None,
            send_failed: None,
            bytes_in: 0,
            reads: 0,
        }
    }

    /// It may go out on another connection: nothing of it has left, and this one was not opened for it. So it moves once
    /// at most.
    pub fn may_move(&self) -> bool {
        self.submit.is_none() && self.connect.is_none()
    }

    /// It may be sent anew: it went out on a kept-alive connection that died before any byte of the reply.
    pub fn may_retry(&self) -> bool {
        self.reused && self.reads == 0 && self.retries == 0
    }

    /// Forgets the connection it was on, all but its turn: for another one.
    pub fn moved(self) -> Self {
        Current { retries: self.retries, ..Current::new(self.job, self.due, self.taken) }
    }

    /// The same, and counts that it was sent.
    pub fn retry(self) -> Self {
        Current { retries: self.retries + 1, ..self.moved() }
    }

    /// The record of it. The tape's last block is added by the caller.
    pub fn finished(self, conn: u32, ending: Ending, ended: Instant) -> Finished {
        let bytes_out = if self.sent.is_some() { self.wire_bytes } else { 0 };
        Finished {
            job: self.job.id,
            request: Some(self.job.request),
            conn: Some(conn),
            conn_reused: self.reused,
            reopened: self.reopened,
            retries: self.retries,
            due: self.due,
            taken: Some(self.taken),
            submit: self.submit,
            handed: self.handed,
            sent: self.sent,
            wire_out: self.wire_out,
            connect: self.connect,
            tls: self.tls,
            address: self.address,
            bytes_out,
            bytes_in: self.bytes_in,
            reads: self.reads,
            ending,
            ended,
            block: None,
            sequence: self.sequence,
        }
    }
}

/// What is known of the server's keep-alive. Some servers announce it and close after every reply; sending
/// on such a connection loses the request, so it is learnt from the first one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeepAlive {
    /// Nothing yet.
    #[default]
    Untried,
    /// A connection has carried two requests.
    Works,
    /// A connection was closed right after its first reply, although it was to be kept.
    Refused,
}

/// A close within this time after a reply is taken for the server's habit, not for an idle timeout.
const HABIT: Nanos = Nanos::from_secs(1);
/// The same where a request was sent meanwhile: its own end follows a server's last bytes with nothing in between.
const AT_ONCE: Nanos = Nanos::from_millis(100);

impl KeepAlive {
    /// A reply came on a connection that had carried a request before.
    pub fn reuse_worked(&mut self) {
        *self = KeepAlive::Works;
    }

    /// A kept-alive connection was found closed, so long after its last reply.
    pub fn found_closed(&mut self, open: &Open, now: Instant) {
        let soon = now.saturating_since(open.idle_since) < HABIT;
        if *self == KeepAlive::Untried && open.carried > 0 && soon {
            *self = KeepAlive::Refused;
        }
    }

    /// A kept-alive connection was lost under a request. It may have been for that request: only what came at once after the
    /// reply before, and not in the middle of sending, is taken for the habit of closing after replies.
    pub fn lost_under(&mut self, current: &Current, open: &Open, now: Instant) {
        let begun = current.submit.is_some();
        let half_sent = begun && current.sent.is_none();
        let at_once = now.saturating_since(open.idle_since) < AT_ONCE;
        if current.reads == 0 && !half_sent && (at_once || !begun) {
            self.found_closed(open, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(carried: u32) -> Open {
        Open { carried, replaces: false, address: 0, idle_since: Instant::from_ns(0), tls: None }
    }

    #[test]
    fn a_key_in_a_request_is_not_printed() {
        let job = Job::new(7, b"GET / HTTP/1.1\r\nAuthorization: Bearer sk-planted\r\n\r\n".to_vec());
        assert_eq!(format!("{job:?}"), "Job { id: 7, due: None, bytes: 52 }");
    }

    #[test]
    fn a_connection_carries_as_many_as_asked() {
        let two = Reuse::AtMost(NonZeroU32::new(2).expect("not 0"));
        assert_eq!([0, 1, 2].map(|carried| two.goes_on(carried)), [true, true, false]);
        assert!(!Reuse::PER_REQUEST.goes_on(1) && Reuse::Unlimited.goes_on(u32::MAX));
    }

    #[test]
    fn a_habit_is_learnt_and_an_idle_timeout_is_not() {
        let mut soon = KeepAlive::default();
        soon.found_closed(&open(1), Instant::from_ns(1_000));
        assert_eq!(soon, KeepAlive::Refused);
        let mut late = KeepAlive::default();
        late.found_closed(&open(1), Instant::from_ns(5_000_000_000));
        assert_eq!(late, KeepAlive::Untried);
        let mut works = KeepAlive::default();
        works.reuse_worked();
        works.found_closed(&open(1), Instant::from_ns(1_000));
        assert_eq!(works, KeepAlive::Works);
        let mut unused = KeepAlive::default();
        unused.found_closed(&open(0), Instant::from_ns(1_000));
        assert_eq!(unused, KeepAlive::Untried);
    }
}
