//! A driver without a kernel: a scripted peer on a simulated clock, for everything that is about time.
//!
//! It is deterministic and never sleeps: [`Driver::turn`] moves the clock to what happens next. Bytes carry the
//! stamp of the moment the script sends them; they are `seen` when the turn that hands them over returns, which
//! is later when a test has moved the clock itself, as if the client had been stopped.

use crate::clock::{Clock, SimClock};
use crate::io::{ConnId, Driver, DriverCounters, Event, Events};
use crate::record::{ClientFault, ReadStamp};
use crate::units::{Instant, Nanos, WallInstant};
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;

/// CLOCK_REALTIME - CLOCK_MONOTONIC of the simulation, in ns.
pub const WALL_OFFSET_NS: u64 = 1_700_000_000_000_000_000;

/// The kernel's stamp of `at`.
pub fn wall(at: Instant) -> WallInstant {
    WallInstant::from_ns(at.ns() + WALL_OFFSET_NS)
}

/// What becomes of an attempt to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// Open after this time.
    Accepts(Nanos),
    /// Fails after this time, with this errno.
    Refuses(Nanos, i32),
    /// The client has no socket for it.
    NoSocket(ClientFault),
    /// Nothing ever comes of it.
    Silent,
}

/// Something the peer does on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Sends bytes, which arrive as one read.
    Bytes(Vec<u8>),
    /// Closes its side.
    Close,
    /// Breaks the connection: receiving fails with this errno.
    Reset(i32),
}

/// How the kernel and the peer take a request, in time from its submit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The kernel has taken its last byte; None: it never has room for the rest.
    pub sent: Option<Nanos>,
    /// Sending fails then, with this errno.
    pub send_fails: Option<(Nanos, i32)>,
    /// The TX stamp's own time, and when it can be read; None: it never comes.
    pub wire_out: Option<(Nanos, Nanos)>,
    /// What the peer does. It may go on after the end of the reply.
    pub acts: Vec<(Nanos, Act)>,
}

impl Default for Reply {
    /// Sent and stamped at once, and no answer.
    fn default() -> Self {
        let soon = Nanos::from_micros(5);
        Reply { sent: Some(soon), send_fails: None, wire_out: Some((soon, soon)), acts: Vec::new() }
    }
}

impl Reply {
    /// Sent and stamped at once; then `acts`.
    pub fn of(acts: impl IntoIterator<Item = (Nanos, Act)>) -> Self {
        Reply { acts: acts.into_iter().collect(), ..Reply::default() }
    }
}

/// The other end of every connection.
pub trait Peer {
    /// The `serial`th attempt to connect, from 0.
    fn open(&mut self, serial: u32) -> Opening;

    /// The `nth` request, from 0, on connection `serial`.
    fn request(&mut self, serial: u32, nth: u32, request: &Bytes) -> Reply;

    /// What the peer does of its own on connection `serial`, in time from its being open: a server that speaks or closes
    /// before it is asked.
    fn opened(&mut self, _serial: u32) -> Vec<(Nanos, Act)> {
        Vec::new()
    }

    /// Bytes on connection `serial` that are no request: of TLS. What the peer does then.
    fn aside(&mut self, _serial: u32, _bytes: &Bytes) -> Vec<(Nanos, Act)> {
        Vec::new()
    }

    /// Called at each turn: to fill a supply, to stop a window.
    fn turn(&mut self, _now: Instant) {}
}

/// A peer that answers from two lists, and as in their last entries once they are used up.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// For attempts to connect; empty: accepted after 100 us.
    pub openings: VecDeque<Opening>,
    /// For requests, over all connections; empty: never answered.
    pub replies: VecDeque<Reply>,
}

fn next_of<T: Clone>(list: &mut VecDeque<T>) -> Option<T> {
    if list.len() > 1 { list.pop_front() } else { list.front().cloned() }
}

impl Peer for Script {
    fn open(&mut self, _serial: u32) -> Opening {
        next_of(&mut self.openings).unwrap_or(Opening::Accepts(Nanos::from_micros(100)))
    }
    fn request(&mut self, _serial: u32, _nth: u32, _request: &Bytes) -> Reply {
        next_of(&mut self.replies).unwrap_or_default()
    }
}

#[derive(Debug)]
enum Coming {
    Opened,
    NotOpened(i32),
    NoSocket(ClientFault),
    Sent(u64),
    SendFailed(i32),
    WireOut(u64, WallInstant),
    Act(Act),
}

#[derive(Debug)]
struct Connection {
    conn: ConnId,
    requests: u32,
    last_wall: Option<WallInstant>,
}

/// The driver.
pub struct SimDriver<P> {
    clock: SimClock,
    peer: P,
    opened: u32,
    opened_to: Vec<SocketAddr>,
    serial_of: HashMap<ConnId, u32>,
    live: HashMap<u32, Connection>,
    /// With the sequence of a request; without one they are bytes of something else.
    outbox: VecDeque<(u32, Option<u64>, Bytes)>,
    /// By time, then in order of making; with the connection's serial number.
    coming: BTreeMap<(Instant, u64), (u32, Coming)>,
    made: u64,
    turns: u64,
    /// Requests begun in one turn at most.
    sends_per_turn: usize,
    counters: DriverCounters,
    /// What was handed over is being handled since then.
    handling_since: Option<Instant>,
    emptied: Instant,
}

impl<P: Peer> SimDriver<P> {
    /// A driver whose time is `clock`'s.
    pub fn new(clock: SimClock, peer: P) -> Self {
        let emptied = clock.now();
        SimDriver {
            clock,
            peer,
            opened: 0,
            opened_to: Vec::new(),
            serial_of: HashMap::new(),
            live: HashMap::new(),
            outbox: VecDeque::new(),
            coming: BTreeMap::new(),
            made: 0,
            turns: 0,
            sends_per_turn: usize::MAX,
            counters: DriverCounters::default(),
            handling_since: None,
            emptied,
        }
    }

    /// The same, which begins so many requests in one turn at most, as the drivers that reach the kernel do: what happens
    /// meanwhile is handed over while the others have not left.
    pub fn with_sends_per_turn(self, most: usize) -> Self {
        SimDriver { sends_per_turn: most, ..self }
    }

    /// The peer.
    pub fn peer(&self) -> &P {
        &self.peer
    }

    /// Attempts to connect so far.
    pub fn opened(&self) -> u32 {
        self.opened
    }

    /// Where each attempt to connect went, in order.
    pub fn opened_to(&self) -> &[SocketAddr] {
        &self.opened_to
    }

    /// Connections that are neither closed nor refused.
    pub fn live(&self) -> usize {
        self.live.len()
    }

    /// Turns so far: a worker that goes round without waiting shows here.
    pub fn turns(&self) -> u64 {
        self.turns
    }

    fn plan(&mut self, at: Instant, serial: u32, what: Coming) {
        self.made += 1;
        self.coming.insert((at, self.made), (serial, what));
    }

    fn send_some(&mut self, events: &mut impl Events) {
        let submit = self.clock.now();
        for _ in 0..self.sends_per_turn.min(self.outbox.len()) {
            let Some((serial, sequence, request)) = self.outbox.pop_front() else { break };
            let Some(connection) = self.live.get_mut(&serial) else { continue };
            let Some(sequence) = sequence else {
                for (after, act) in self.peer.aside(serial, &request) {
                    self.plan(submit + after, serial, Coming::Act(act));
                }
                continue;
            };
            let nth = connection.requests;
            connection.requests += 1;
            let conn = connection.conn;
            let reply = self.peer.request(serial, nth, &request);
            events.on(conn, Event::Handed { sequence, submit, handed: submit });
            if let Some(after) = reply.sent {
                self.plan(submit + after, serial, Coming::Sent(sequence));
            }
            if let Some((after, errno)) = reply.send_fails {
                self.plan(submit + after, serial, Coming::SendFailed(errno));
            }
            if let Some((stamp, read)) = reply.wire_out {
                self.plan(submit + read, serial, Coming::WireOut(sequence, wall(submit + stamp)));
            }
            for (after, act) in reply.acts {
                self.plan(submit + after, serial, Coming::Act(act));
            }
        }
    }

    fn hand_over(&mut self, serial: u32, happened: Instant, what: Coming, pos: u32, events: &mut impl Events) {
        let seen = self.clock.now();
        let Some(connection) = self.live.get_mut(&serial) else { return };
        let conn = connection.conn;
        match what {
            Coming::Opened => events.on(conn, Event::Connected { at: seen }),
            Coming::NotOpened(errno) => {
                self.forget(conn);
                events.on(conn, Event::ConnectFailed { at: seen, errno });
            }
            Coming::NoSocket(fault) => {
                self.forget(conn);
                events.on(conn, Event::NoSocket { at: seen, fault });
            }
            Coming::Sent(sequence) => events.on(conn, Event::Sent { sequence, at: seen }),
            Coming::SendFailed(errno) => events.on(conn, Event::SendFailed { at: seen, errno }),
            Coming::WireOut(sequence, wall) => events.on(conn, Event::WireOut { sequence, wall, at: seen }),
            Coming::Act(Act::Close) => events.on(conn, Event::PeerClosed { at: seen }),
            Coming::Act(Act::Reset(errno)) => events.on(conn, Event::ReceiveFailed { at: seen, errno }),
            Coming::Act(Act::Bytes(bytes)) => {
                let stamp = ReadStamp {
                    seen,
                    wall: Some(wall(happened)),
                    previous_wall: connection.last_wall.replace(wall(happened)),
                    emptied: self.emptied,
                    batch: self.counters.batches,
                    pos,
                    read_no: 0,
                    filled: false,
                };
                events.on(conn, Event::Received(&bytes, stamp));
            }
        }
    }

    fn forget(&mut self, conn: ConnId) {
        if let Some(serial) = self.serial_of.remove(&conn) {
            self.live.remove(&serial);
            self.outbox.retain(|(s, ..)| *s != serial);
            self.coming.retain(|_, (s, _)| *s != serial);
        }
    }
}

impl<P: Peer> Driver for SimDriver<P> {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn open(&mut self, conn: ConnId, to: SocketAddr) {
        let (serial, now) = (self.opened, self.clock.now());
        self.opened += 1;
        self.opened_to.push(to);
        assert!(self.serial_of.insert(conn, serial).is_none(), "a connection is opened once");
        self.live.insert(serial, Connection { conn, requests: 0, last_wall: None });
        match self.peer.open(serial) {
            Opening::Accepts(after) => {
                self.plan(now + after, serial, Coming::Opened);
                for (later, act) in self.peer.opened(serial) {
                    self.plan(now + after + later, serial, Coming::Act(act));
                }
            }
            Opening::Refuses(after, errno) => self.plan(now + after, serial, Coming::NotOpened(errno)),
            Opening::NoSocket(fault) => self.plan(now, serial, Coming::NoSocket(fault)),
            Opening::Silent => {}
        }
    }

    fn send(&mut self, conn: ConnId, sequence: u64, request: Bytes) {
        let serial = *self.serial_of.get(&conn).expect("a request is sent on an open connection");
        self.outbox.push_back((serial, Some(sequence), request));
    }

    fn send_aside(&mut self, conn: ConnId, bytes: Bytes) {
        let serial = *self.serial_of.get(&conn).expect("bytes are sent on an open connection");
        self.outbox.push_back((serial, None, bytes));
    }

    fn close(&mut self, conn: ConnId) {
        self.forget(conn);
    }

    fn turn(&mut self, until: Instant, events: &mut impl Events) {
        self.rest();
        self.turns += 1;
        self.peer.turn(self.clock.now());
        self.send_some(events);
        let began = self.clock.now();
        let until = if self.outbox.is_empty() { until } else { began };
        let next = self.coming.keys().next().map(|(at, _)| *at);
        let wake = next.map_or(until, |at| at.min(until)).max(began);
        self.clock.advance_to(wake);
        let mut batch = Vec::new();
        while let Some(entry) = self.coming.first_entry().filter(|e| e.key().0 <= wake) {
            batch.push(entry.remove_entry());
        }
        if !batch.is_empty() {
            self.counters.batches += 1;
            self.counters.completions += batch.len() as u64;
            self.counters.max_batch = self.counters.max_batch.max(batch.len() as u32);
            self.handling_since = Some(self.clock.now());
        }
        for (pos, ((happened, _), (serial, what))) in batch.into_iter().enumerate() {
            self.hand_over(serial, happened, what, pos as u32, events);
        }
        self.emptied = began;
    }

    fn rest(&mut self) {
        if let Some(since) = self.handling_since.take() {
            self.counters.busy_ns += self.clock.now().saturating_since(since).ns();
        }
    }

    fn counters(&self) -> DriverCounters {
        self.counters
    }
}
