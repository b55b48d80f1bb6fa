//! The epoll driver: non-blocking sockets, edge-triggered, with plain calls only. It serves where io_uring is
//! forbidden, and as the other architecture to compare with.
//!
//! **What `seen` is.** `epoll_wait` says only that bytes are there; they are in user space when the `recvmsg` that
//! brings them returns. That return is `seen`, so that gross holds everything until the client has the bytes, the wait
//! in the line of ready sockets included. The stamp is read before anything of the message is looked at.
//!
//! **What `emptied` is.** A `recvmsg` on a stream socket that returns fewer bytes than it had room for, or EAGAIN, has
//! found the end of the queue: whatever comes with a later read arrived after the start of that call. Likewise a socket
//! that `epoll_wait` reports without EPOLLIN was empty at some moment after the start of that wait.
//!
//! **Edges.** A socket is registered once, for everything (`epoll(7)`): an edge is lost only if it is not followed to its
//! end. Reading ends at a short read, unless the peer's end was reported too, which gives no edge of its own; writing
//! ends at EAGAIN. A socket that keeps delivering gets a share of each turn and is read on in the next one.

mod socket;

use super::outgoing::Outgoing;
use super::stamps::{Control, from_error_queue, rx_stamp, switch_on};
use super::{ConnId, Driver, DriverCounters, DriverOptions, Event, Events, READ_BYTES};
use crate::clock::{Clock, SystemClock};
use crate::record::ReadStamp;
use crate::units::{Instant, WallInstant};
use bytes::Bytes;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{MsgFlags, getsockopt, recvmsg, send, sockopt};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use socket::{Refusal, Socket, Stage};
use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use thiserror::Error;

/// Sockets reported by one wait at most, so that what is to be sent does not wait for a long line of them.
const READY_PER_WAIT: usize = 64;
/// Requests begun in one turn at most: replies are looked at in between.
const SENDS_PER_TURN: usize = 8;
/// Calls for one large request in one turn at most.
const WRITES_PER_TURN: usize = 8;
/// Reads of one socket in one turn at most.
const READS_PER_TURN: usize = 4;
/// What the timer's events carry; no connection has this number.
const TIMER: u64 = u64::MAX;

/// Why there is no epoll set.
#[derive(Debug, Error)]
#[error("epoll cannot be set up: {0}; raise the limit on descriptors (ulimit -n), or end what uses them up")]
pub struct EpollError(#[from] Errno);

/// The driver.
#[derive(Debug)]
pub struct EpollDriver {
    epoll: Epoll,
    timer: TimerFd,
    /// What the timer is set to.
    armed: Instant,
    clock: SystemClock,
    stamps: bool,
    sockets: Box<[Option<Socket>]>,
    /// Connections with a request to be sent; each at most once.
    outbox: VecDeque<ConnId>,
    /// Connections that have not been read to their end; each at most once.
    backlog: VecDeque<ConnId>,
    refused: Vec<(ConnId, Refusal)>,
    ready: Box<[EpollEvent]>,
    buffer: Box<[u8]>,
    control: Box<Control>,
    counters: DriverCounters,
    /// Completions of the current batch; 0 before its first.
    in_batch: u32,
    /// When what came or was sent began to be handled, while it is.
    handling_since: Option<Instant>,
}

impl EpollDriver {
    /// A driver with its epoll set and its timer.
    ///
    /// # Errors
    /// [`EpollError`] when the system gives no descriptors.
    pub fn new(options: DriverOptions) -> Result<Self, EpollError> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
        // edge-triggered, so that nobody needs to read it: setting it again clears it
        epoll.add(timer.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, TIMER))?;
        let connections = options.connections as usize;
        Ok(EpollDriver {
            epoll,
            timer,
            armed: Instant::default(),
            clock: SystemClock,
            stamps: options.stamps,
            sockets: (0..connections).map(|_| None).collect(),
            outbox: VecDeque::with_capacity(connections),
            backlog: VecDeque::with_capacity(connections),
            refused: Vec::with_capacity(connections),
            ready: vec![EpollEvent::empty(); READY_PER_WAIT].into_boxed_slice(),
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
            control: Box::default(),
            counters: DriverCounters::default(),
            in_batch: 0,
            handling_since: None,
        })
    }

    /// Bytes of the pool that received data go to.
    pub fn receive_pool_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Counts a completion; its place in the batch.
    fn completed(&mut self) -> u32 {
        let pos = self.in_batch;
        self.in_batch += 1;
        self.counters.batches += u64::from(pos == 0);
        self.counters.completions += 1;
        self.counters.max_batch = self.counters.max_batch.max(self.in_batch);
        pos
    }

    /// Begins some of what is queued.
    fn send_some(&mut self, events: &mut impl Events) {
        // those that are put back for another turn come behind the ones counted here
        for _ in 0..SENDS_PER_TURN.min(self.outbox.len()) {
            let Some(conn) = self.outbox.pop_front() else { break };
            self.write(conn, events);
        }
    }

    /// Gives the kernel as much of a request as it takes.
    fn write(&mut self, conn: ConnId, events: &mut impl Events) {
        for _ in 0..WRITES_PER_TURN {
            let Some(slot) = &mut self.sockets[conn.0 as usize] else { return };
            slot.queued = false;
            let Some(out) = slot.outgoing.first_mut() else { return };
            let rest = &out.bytes[out.offset..];
            let submit = self.clock.now();
            let taken = send(slot.fd.as_raw_fd(), rest, MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT);
            let handed = self.clock.now();
            self.handling_since.get_or_insert(submit);
            match taken {
                Ok(n) => {
                    let (sequence, begins) = (out.sequence, out.offset == 0);
                    out.offset += n;
                    let whole = out.offset == out.bytes.len();
                    if whole {
                        slot.outgoing.pop();
                    }
                    let all = slot.outgoing.is_empty();
                    self.completed();
                    if let (true, Some(sequence)) = (begins, sequence) {
                        events.on(conn, Event::Handed { sequence, submit, handed });
                    }
                    if let (true, Some(sequence)) = (whole, sequence) {
                        events.on(conn, Event::Sent { sequence, at: handed });
                    }
                    if all {
                        return;
                    }
                }
                Err(Errno::EINTR) => {}
                // only now does the kernel promise to say when there is room
                Err(Errno::EAGAIN) => return,
                Err(errno) => {
                    slot.outgoing.clear();
                    self.completed();
                    events.on(conn, Event::SendFailed { at: handed, errno: errno as i32 });
                    return;
                }
            }
        }
        if let Some(slot) = &mut self.sockets[conn.0 as usize] {
            slot.queued = true;
            self.outbox.push_back(conn);
        }
    }

    fn open_socket(&mut self, conn: ConnId) -> &mut Socket {
        self.sockets[conn.0 as usize].as_mut().expect("bytes are sent on an open connection")
    }

    /// Puts bytes behind what the socket has to send already.
    fn queue(&mut self, conn: ConnId, out: Outgoing) {
        let slot = self.open_socket(conn);
        // with others in front it is in the outbox, or waits for room
        if slot.outgoing.push(out) {
            slot.queued = true;
            self.outbox.push_back(conn);
        }
    }

    /// What the last turn brought has been handled until now.
    fn handled(&mut self, now: Instant) {
        if let Some(since) = self.handling_since.take() {
            self.counters.busy_ns += now.saturating_since(since).ns();
        }
    }

    fn wait(&mut self, until: Instant, events: &mut impl Events) {
        let began = self.clock.now();
        self.handled(began);
        let left_over = self.backlog.len();
        let idle = self.outbox.is_empty() && self.refused.is_empty() && left_over == 0;
        let timeout = if idle && until > began {
            self.arm(began, until);
            EpollTimeout::NONE
        } else {
            EpollTimeout::ZERO
        };
        let n = match self.epoll.wait(&mut self.ready, timeout) {
            Ok(n) => n,
            Err(Errno::EINTR) => 0,
            Err(errno) => panic!("epoll_wait failed with {errno}: an argument of ours is wrong"),
        };
        let woken = self.clock.now();
        self.in_batch = 0;
        for i in 0..n {
            let (token, flags) = (self.ready[i].data(), self.ready[i].events());
            if token != TIMER {
                self.handling_since.get_or_insert(woken);
                self.on_ready(ConnId(token as u32), flags, began, events);
            }
        }
        for _ in 0..left_over {
            let Some(conn) = self.backlog.pop_front() else { break };
            self.handling_since.get_or_insert(woken);
            self.on_left_over(conn, events);
        }
    }

    /// Sets the timer, unless it will ring in time anyway: deadlines mostly move away as time goes on, and a turn may
    /// end early.
    fn arm(&mut self, now: Instant, until: Instant) {
        if now < self.armed && self.armed <= until {
            return;
        }
        let at = TimeSpec::new((until.ns() / 1_000_000_000) as i64, (until.ns() % 1_000_000_000) as i64);
        let set = self.timer.set(Expiration::OneShot(at), TimerSetTimeFlags::TFD_TIMER_ABSTIME);
        set.expect("a valid time is taken by a timer");
        self.armed = until;
    }

    fn on_ready(&mut self, conn: ConnId, flags: EpollFlags, began: Instant, events: &mut impl Events) {
        let readable = flags.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLHUP);
        let Some(slot) = &mut self.sockets[conn.0 as usize] else { return };
        if slot.stage == Stage::Opening {
            let decided = flags.intersects(EpollFlags::EPOLLOUT | EpollFlags::EPOLLERR | EpollFlags::EPOLLHUP);
            if !decided || !self.on_connected(conn, events) {
                return;
            }
        } else if flags.contains(EpollFlags::EPOLLERR) {
            self.take_tx_stamps(conn, events);
        }
        let Some(slot) = &mut self.sockets[conn.0 as usize] else { return };
        if !readable {
            slot.emptied = began;
        } else if flags.intersects(EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLHUP) && slot.stage == Stage::Open {
            slot.stage = Stage::Ending;
        }
        if flags.contains(EpollFlags::EPOLLOUT) && !slot.queued && !slot.outgoing.is_empty() {
            self.write(conn, events);
        }
        if readable {
            self.read(conn, events);
        }
    }

    /// A connect came to its end: whether in a connection.
    fn on_connected(&mut self, conn: ConnId, events: &mut impl Events) -> bool {
        let Some(slot) = &mut self.sockets[conn.0 as usize] else { return false };
        let errno = getsockopt(&slot.fd, sockopt::SocketError).unwrap_or(Errno::ENOTCONN as i32);
        // not the return of the wait: reads in line before it were seen later than that, and time does not go back
        let at = self.clock.now();
        if errno == 0 {
            slot.stage = Stage::Open;
            if self.stamps {
                // a socket that refuses gives no stamps, and its requests say so
                let _ = switch_on(&slot.fd);
            }
        }
        self.completed();
        if errno != 0 {
            self.close(conn);
            events.on(conn, Refusal::of(Errno::from_raw(errno)).event(at));
            return false;
        }
        events.on(conn, Event::Connected { at });
        true
    }

    fn take_tx_stamps(&mut self, conn: ConnId, events: &mut impl Events) {
        let mut any = false;
        while let Some(slot) = &mut self.sockets[conn.0 as usize] {
            let Some((byte, wall)) = from_error_queue(slot.fd.as_fd(), &mut self.control) else { break };
            // not the return of the wait: stamps are queued at any time, and none may be later than its reading
            let at = self.clock.now();
            any = true;
            if let Some(sequence) = slot.tx.stamped(byte) {
                events.on(conn, Event::WireOut { sequence, wall, at });
            }
        }
        if any {
            self.completed();
        }
    }

    /// A socket that had more than its share of the last turn.
    fn on_left_over(&mut self, conn: ConnId, events: &mut impl Events) {
        let Some(slot) = &mut self.sockets[conn.0 as usize] else { return };
        if !std::mem::replace(&mut slot.behind, false) {
            return;
        }
        if self.in_batch > 0 && slot.read_in == self.counters.batches {
            // it was reported again, and has had its share
            slot.behind = true;
            self.backlog.push_back(conn);
            return;
        }
        self.read(conn, events);
    }

    /// Reads a socket to the end of its queue, or its share of this turn.
    fn read(&mut self, conn: ConnId, events: &mut impl Events) {
        for _ in 0..READS_PER_TURN {
            let Some(slot) = &mut self.sockets[conn.0 as usize] else { return };
            if matches!(slot.stage, Stage::Over | Stage::Opening) {
                return;
            }
            let fd = slot.fd.as_raw_fd();
            let control = if self.stamps { Some(self.control.room()) } else { None };
            let mut into = [IoSliceMut::new(&mut self.buffer)];
            let began = self.clock.now();
            let got = recvmsg::<()>(fd, &mut into, control, MsgFlags::MSG_DONTWAIT);
            let seen = self.clock.now();
            match got.map(|message| (message.bytes, rx_stamp(&message))) {
                Ok((0, _)) => {
                    slot.stage = Stage::Over;
                    self.completed();
                    events.on(conn, Event::PeerClosed { at: seen });
                    return;
                }
                Ok((n, wall)) => {
                    let short = n < READ_BYTES;
                    self.hand_over(conn, n, wall, seen, events);
                    let Some(slot) = &mut self.sockets[conn.0 as usize] else { return };
                    if short {
                        slot.emptied = began;
                        if slot.stage == Stage::Open {
                            return;
                        }
                    }
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => {
                    slot.emptied = began;
                    return;
                }
                Err(errno) => {
                    slot.stage = Stage::Over;
                    self.completed();
                    events.on(conn, Event::ReceiveFailed { at: seen, errno: errno as i32 });
                    return;
                }
            }
        }
        if let Some(slot) = &mut self.sockets[conn.0 as usize]
            && !std::mem::replace(&mut slot.behind, true)
        {
            self.backlog.push_back(conn);
        }
    }

    /// Hands the first `n` bytes of the buffer over.
    fn hand_over(
        &mut self,
        conn: ConnId,
        n: usize,
        wall: Option<WallInstant>,
        seen: Instant,
        events: &mut impl Events,
    ) {
        let pos = self.completed();
        self.counters.rx_stamps_missing += u64::from(self.stamps && wall.is_none());
        let Some(slot) = &mut self.sockets[conn.0 as usize] else { return };
        let stamp = ReadStamp {
            seen,
            wall,
            previous_wall: slot.last_wall,
            emptied: slot.emptied,
            batch: self.counters.batches,
            pos,
            read_no: 0,
            filled: n == READ_BYTES,
        };
        slot.last_wall = wall;
        slot.read_in = self.counters.batches;
        events.on(conn, Event::Received(&self.buffer[..n], stamp));
    }
}

impl Driver for EpollDriver {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn open(&mut self, conn: ConnId, to: SocketAddr) {
        assert!(self.sockets[conn.0 as usize].is_none(), "a connection is opened once");
        match Socket::connecting(&self.epoll, conn, &to, self.clock.now()) {
            Ok(socket) => self.sockets[conn.0 as usize] = Some(socket),
            Err(refusal) => self.refused.push((conn, refusal)),
        }
    }

    fn send(&mut self, conn: ConnId, sequence: u64, request: Bytes) {
        let slot = self.open_socket(conn);
        assert!(!slot.outgoing.has_request(), "one request at a time");
        slot.tx.expect(request.len(), sequence);
        self.queue(conn, Outgoing::new(request, Some(sequence)));
    }

    fn send_aside(&mut self, conn: ConnId, bytes: Bytes) {
        self.open_socket(conn).tx.pass(bytes.len());
        self.queue(conn, Outgoing::new(bytes, None));
    }

    fn close(&mut self, conn: ConnId) {
        let Some(slot) = self.sockets[conn.0 as usize].take() else { return };
        if slot.queued {
            self.outbox.retain(|queued| *queued != conn);
        }
        if slot.behind {
            self.backlog.retain(|queued| *queued != conn);
        }
    }

    fn turn(&mut self, until: Instant, events: &mut impl Events) {
        while let Some((conn, refusal)) = self.refused.pop() {
            events.on(conn, refusal.event(self.clock.now()));
        }
        self.in_batch = 0;
        self.send_some(events);
        self.wait(until, events);
    }

    fn rest(&mut self) {
        self.handled(self.clock.now());
    }

    fn counters(&self) -> DriverCounters {
        self.counters
    }
}
