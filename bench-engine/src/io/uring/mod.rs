//! The io_uring driver: one ring per worker, multishot `recvmsg` into provided buffers, kernel stamps.
//!
//! The only unsafe code of the project is in this folder. What the flags and operations do is in
//! `io_uring_setup(2)`, `io_uring_enter(2)` and liburing's manual pages.
#![allow(unsafe_code)]

mod buffers;
mod refusal;
mod socket;
mod stamps;

pub use refusal::RingError;

use super::outgoing::Outgoing;
use super::stamps::{Control, from_error_queue, switch_on};
use super::tx_ids::TxIds;
use super::{ConnId, Driver, DriverCounters, DriverOptions, Event, Events, READ_BYTES};
use crate::clock::{Clock, SystemClock};
use crate::record::{ClientFault, ReadStamp};
use crate::units::{Instant, Nanos, WallInstant};
use buffers::BufferRing;
use bytes::Bytes;
use io_uring::types::{CancelBuilder, Fd, RecvMsgOut, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};
use nix::errno::Errno;
use nix::sys::socket::{SockaddrLike, SockaddrStorage};
use socket::Socket;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};

/// Requests begun in one turn at most, each by an enter of its own: one that carried eight gave all of them the
/// `submit` of the first. The rest waits for the next turn, so that what arrives is seen between.
const SENDS_PER_TURN: usize = 8;
/// Buffers the kernel can fill before they are handled. One enter completes some twenty receives.
const BUFFERS: u16 = 1024;
const BUFFER_GROUP: u16 = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Op {
    Connect,
    Receive,
    Send,
    ErrorQueue,
    Cancel,
}

/// One completion, copied out of the ring.
#[derive(Clone, Copy, Debug)]
struct Completion {
    user_data: u64,
    result: i32,
    flags: u32,
}

/// The driver.
pub struct UringDriver {
    // dropped first: it ends the kernel's use of everything below
    ring: IoUring,
    buffers: BufferRing,
    message: Box<libc::msghdr>,
    /// For what is read from error queues.
    control: Box<Control>,
    clock: SystemClock,
    stamps: bool,
    sockets: Vec<Socket>,
    free: Vec<u32>,
    of_conn: Vec<Option<u32>>,
    outbox: VecDeque<u32>,
    faults: Vec<(ConnId, ClientFault)>,
    batch: Vec<Completion>,
    counters: DriverCounters,
    /// Enters refused because completions had overflowed.
    refused_enters: u64,
    /// When what came or is sent began to be handled, while it is.
    handling_since: Option<Instant>,
}

// SAFETY: every pointer in here refers to heap memory owned by the driver itself; a driver is used by one
// thread at a time.
unsafe impl Send for UringDriver {}

impl UringDriver {
    /// A driver with its ring. Must be made on the thread that will use it (SINGLE_ISSUER).
    ///
    /// # Errors
    /// [`RingError`] says in words why there is none.
    pub fn new(options: DriverOptions) -> Result<Self, RingError> {
        let sockets = options.connections * 2 + 16;
        let completions = (sockets * 4).next_power_of_two().max(4096);
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_cqsize(completions)
            .build(512)
            .map_err(RingError::from_setup)?;
        // a registered ring saves the kernel a lookup on each enter; without it everything still works
        let _ = ring.submitter().register_ring_fd();
        let buffers =
            BufferRing::register(&ring.submitter(), BUFFER_GROUP, BUFFERS).map_err(RingError::from_register)?;
        // a filter may allow the set-up and deny the entering: that is found out now
        ring.submit().map_err(RingError::from_setup)?;
        // SAFETY: an all-zero msghdr is a valid empty one.
        let mut message: Box<libc::msghdr> = Box::new(unsafe { std::mem::zeroed() });
        message.msg_controllen = if options.stamps { stamps::CONTROL_BYTES } else { 0 };
        Ok(UringDriver {
            ring,
            buffers,
            message,
            control: Box::default(),
            clock: SystemClock,
            stamps: options.stamps,
            sockets: (0..sockets).map(|_| Socket::unused()).collect(),
            free: (0..sockets).rev().collect(),
            of_conn: vec![None; options.connections as usize],
            outbox: VecDeque::with_capacity(sockets as usize),
            faults: Vec::with_capacity(options.connections as usize),
            batch: Vec::with_capacity(completions as usize),
            counters: DriverCounters::default(),
            refused_enters: 0,
            handling_since: None,
        })
    }

    /// Bytes of the pool that received data go to.
    pub fn receive_pool_bytes(&self) -> usize {
        self.buffers.pool_bytes()
    }

    fn push(&mut self, op: Op, socket: u32, entry: squeue::Entry) {
        let entry = entry.user_data((op as u64) << 32 | u64::from(socket));
        self.sockets[socket as usize].pending += 1;
        loop {
            // SAFETY: what the entry points to (address, message, request bytes) is owned by the socket slot or the
            // driver, and stays in place until its completion is reaped: `pending` keeps the slot from being reused.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return;
            }
            self.submit_only();
        }
    }

    /// Gives the kernel what is queued, without waiting and without running its deferred work.
    fn submit_only(&mut self) {
        let queued = self.ring.submission().len() as u32;
        if queued > 0 {
            // SAFETY: plain submission: no argument is passed.
            let entered = unsafe { self.ring.submitter().enter::<libc::sigset_t>(queued, 0, 0, None) };
            self.check_enter(entered.map(|_| ()));
        }
    }

    fn check_enter(&mut self, entered: io::Result<()>) {
        match entered.err().and_then(|e| e.raw_os_error()) {
            None | Some(libc::ETIME | libc::EINTR | libc::EAGAIN) => {}
            Some(libc::EBUSY) => self.refused_enters += 1,
            Some(errno) => panic!("io_uring_enter failed with {}: an entry of ours is wrong", Errno::from_raw(errno)),
        }
    }

    fn arm_receive(&mut self, socket: u32) {
        let Some(fd) = self.sockets[socket as usize].fd.as_ref().map(|fd| Fd(fd.as_raw_fd())) else { return };
        let entry = opcode::RecvMsgMulti::new(fd, &raw const *self.message, BUFFER_GROUP).build();
        self.push(Op::Receive, socket, entry);
    }

    /// Watches for TX stamps: the kernel queues them on the socket's error queue.
    fn arm_tx_stamps(&mut self, socket: u32) {
        let Some(fd) = self.sockets[socket as usize].fd.as_ref().map(|fd| Fd(fd.as_raw_fd())) else { return };
        if self.stamps {
            let entry = opcode::PollAdd::new(fd, libc::POLLERR as u32).multi(true).build();
            self.push(Op::ErrorQueue, socket, entry);
        }
    }

    /// Sends the next of what is queued, in an enter of its own: the only place where a request begins to leave.
    fn send_next(&mut self, events: &mut impl Events) {
        let Some(socket) = self.outbox.pop_front() else { return };
        let slot = &self.sockets[socket as usize];
        let (Some(fd), Some(out)) = (&slot.fd, slot.outgoing.first()) else { return };
        let rest = &out.bytes[out.offset..];
        let entry = opcode::Send::new(Fd(fd.as_raw_fd()), rest.as_ptr(), rest.len() as u32)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
            .build();
        self.push(Op::Send, socket, entry);
        let submit = self.clock.now();
        self.handling_since.get_or_insert(submit);
        self.submit_only();
        let handed = self.clock.now();
        let slot = &self.sockets[socket as usize];
        if let (Some(conn), Some(Outgoing { sequence: Some(sequence), offset: 0, .. })) =
            (slot.conn, slot.outgoing.first())
        {
            events.on(conn, Event::Handed { sequence: *sequence, submit, handed });
        }
        self.reap(submit, handed, events);
    }

    /// Takes all completions there are; `seen` was read when the enter that began at `began` returned.
    fn reap(&mut self, began: Instant, seen: Instant, events: &mut impl Events) {
        let mut batch = std::mem::take(&mut self.batch);
        batch.extend(self.ring.completion().map(|c| Completion {
            user_data: c.user_data(),
            result: c.result(),
            flags: c.flags(),
        }));
        self.counters.ring_overflow = self.refused_enters + u64::from(self.ring.completion().overflow());
        if !batch.is_empty() {
            self.handling_since.get_or_insert(seen);
            self.counters.batches += 1;
            self.counters.completions += batch.len() as u64;
            self.counters.max_batch = self.counters.max_batch.max(batch.len() as u32);
            // all of them before any is given back: a buffer named twice is found here
            batch.iter().filter_map(|c| cqueue::buffer_select(c.flags)).for_each(|id| self.buffers.take(id));
            for (pos, completion) in batch.iter().enumerate() {
                self.complete(completion, began, seen, pos as u32, events);
            }
            self.buffers.publish();
            batch.clear();
        }
        self.batch = batch;
    }

    fn complete(&mut self, c: &Completion, began: Instant, seen: Instant, pos: u32, events: &mut impl Events) {
        let socket = c.user_data as u32;
        let more = cqueue::more(c.flags);
        if !more {
            let pending = &mut self.sockets[socket as usize].pending;
            *pending = pending.checked_sub(1).expect("the kernel completes each operation once");
        }
        match (c.user_data >> 32) as u8 {
            op if op == Op::Connect as u8 => self.on_connect(socket, c.result, began, seen, events),
            op if op == Op::Receive as u8 => self.on_receive(socket, c, began, seen, pos, events),
            op if op == Op::Send as u8 => self.on_send(socket, c.result, seen, events),
            op if op == Op::ErrorQueue as u8 => self.on_error_queue(socket, c.result, more, events),
            _ => {}
        }
        self.free_if_idle(socket);
    }

    fn on_connect(&mut self, socket: u32, result: i32, began: Instant, seen: Instant, events: &mut impl Events) {
        let slot = &mut self.sockets[socket as usize];
        let Some(conn) = slot.conn else { return };
        if result < 0 {
            self.close(conn);
            let (at, errno) = (seen, -result);
            let fault = ClientFault::from_errno(errno);
            events.on(conn, fault.map_or(Event::ConnectFailed { at, errno }, |fault| Event::NoSocket { at, fault }));
            return;
        }
        slot.emptied = began;
        if let (true, Some(fd)) = (self.stamps, &slot.fd) {
            // a socket that refuses gives no stamps, and its requests say so
            let _ = switch_on(fd);
        }
        self.arm_receive(socket);
        self.arm_tx_stamps(socket);
        events.on(conn, Event::Connected { at: seen });
    }

    fn on_receive(
        &mut self,
        socket: u32,
        c: &Completion,
        began: Instant,
        seen: Instant,
        pos: u32,
        events: &mut impl Events,
    ) {
        let conn = self.sockets[socket as usize].conn;
        let mut goes_on = true;
        if let Some(buffer) = cqueue::buffer_select(c.flags) {
            if let (Some(conn), true) = (conn, c.result > 0) {
                goes_on = self.hand_over(socket, conn, buffer, c, began, seen, pos, events);
            }
            self.buffers.give(buffer);
        } else if c.result == 0 {
            goes_on = false;
            conn.into_iter().for_each(|conn| events.on(conn, Event::PeerClosed { at: seen }));
        } else if c.result == -libc::ENOBUFS {
            self.counters.receives_repeated += 1;
        } else if c.result < 0 && c.result != -libc::ECANCELED {
            goes_on = false;
            let event = || Event::ReceiveFailed { at: seen, errno: -c.result };
            conn.into_iter().for_each(|conn| events.on(conn, event()));
        }
        // a multishot receive ends now and then for reasons of its own: to re-arm it is normal
        let alive = self.sockets[socket as usize].conn.is_some();
        if !cqueue::more(c.flags) && goes_on && alive {
            self.arm_receive(socket);
        }
    }

    /// Hands received bytes over; false when they were the end.
    #[allow(clippy::too_many_arguments)] // one completion with its place in time, taken apart nowhere else
    fn hand_over(
        &mut self,
        socket: u32,
        conn: ConnId,
        buffer: u16,
        c: &Completion,
        began: Instant,
        seen: Instant,
        pos: u32,
        events: &mut impl Events,
    ) -> bool {
        let received = &self.buffers.get(buffer)[..c.result as usize];
        let out = RecvMsgOut::parse(received, &self.message).expect("the kernel writes the header it was asked for");
        let bytes = out.payload_data();
        if bytes.is_empty() {
            events.on(conn, Event::PeerClosed { at: seen });
            return false;
        }
        let wall = stamps::rx_stamp(out.control_data());
        self.counters.rx_stamps_missing += u64::from(self.stamps && wall.is_none());
        let slot = &mut self.sockets[socket as usize];
        let stamp = ReadStamp {
            seen,
            wall,
            previous_wall: slot.last_wall,
            emptied: slot.emptied,
            batch: self.counters.batches,
            pos,
            read_no: 0,
            filled: received.len() == READ_BYTES,
        };
        slot.last_wall = wall;
        if !cqueue::sock_nonempty(c.flags) {
            slot.emptied = began;
        }
        events.on(conn, Event::Received(bytes, stamp));
        true
    }

    fn on_send(&mut self, socket: u32, result: i32, seen: Instant, events: &mut impl Events) {
        let slot = &mut self.sockets[socket as usize];
        let (Some(conn), Some(out)) = (slot.conn, slot.outgoing.first_mut()) else {
            slot.outgoing.clear();
            return;
        };
        if result < 0 {
            slot.outgoing.clear();
            events.on(conn, Event::SendFailed { at: seen, errno: -result });
            return;
        }
        out.offset += result as usize;
        if out.offset < out.bytes.len() {
            self.outbox.push_back(socket);
            return;
        }
        let sequence = out.sequence;
        slot.outgoing.pop();
        if !slot.outgoing.is_empty() {
            self.outbox.push_back(socket);
        }
        if let Some(sequence) = sequence {
            events.on(conn, Event::Sent { sequence, at: seen });
        }
    }

    fn on_error_queue(&mut self, socket: u32, result: i32, more: bool, events: &mut impl Events) {
        loop {
            let Some(fd) = &self.sockets[socket as usize].fd else { return };
            let Some((byte, wall)) = from_error_queue(fd.as_fd(), &mut self.control) else { break };
            // not the return of the enter: stamps are queued at any time, and none may be later than its reading
            let at = self.clock.now();
            self.tx_stamp(socket, byte, wall, at, events);
        }
        if !more && result >= 0 && self.sockets[socket as usize].conn.is_some() {
            self.arm_tx_stamps(socket);
        }
    }

    fn tx_stamp(&mut self, socket: u32, byte: u32, wall: WallInstant, at: Instant, events: &mut impl Events) {
        let slot = &mut self.sockets[socket as usize];
        if let (Some(sequence), Some(conn)) = (slot.tx.stamped(byte), slot.conn) {
            events.on(conn, Event::WireOut { sequence, wall, at });
        }
    }

    fn free_if_idle(&mut self, socket: u32) {
        let slot = &mut self.sockets[socket as usize];
        if slot.conn.is_none() && slot.pending == 0 && slot.fd.take().is_some() {
            slot.outgoing.clear();
            self.free.push(socket);
        }
    }

    fn open_socket(&mut self, conn: ConnId) -> (u32, &mut Socket) {
        let socket = self.of_conn[conn.0 as usize].expect("bytes are sent on an open connection");
        (socket, &mut self.sockets[socket as usize])
    }

    /// Puts bytes behind what the socket has to send already.
    fn queue(&mut self, socket: u32, out: Outgoing) {
        if self.sockets[socket as usize].outgoing.push(out) {
            self.outbox.push_back(socket);
        }
    }

    /// What the last turn brought has been handled until now.
    fn handled(&mut self, now: Instant) {
        if let Some(since) = self.handling_since.take() {
            self.counters.busy_ns += now.saturating_since(since).ns();
        }
    }

    /// An enter that asks for events and wants none returns at once. One that wants an event within no time would set a
    /// timer and sleep.
    fn look(&mut self) -> io::Result<usize> {
        let queued = self.ring.submission().len() as u32;
        // SAFETY: no argument is passed, and whatever the queued entries point at stays in place until their completions
        // are reaped, as `push` says.
        unsafe { self.ring.submitter().enter::<()>(queued, 0, EnterFlags::GETEVENTS.bits(), None) }
    }

    fn wait(&mut self, until: Instant, events: &mut impl Events) {
        let began = self.clock.now();
        self.handled(began);
        // work the kernel has deferred runs at the start of any enter that asks for events: no need to look for its flag,
        // which stays set for a while after the work was done
        let idle = self.outbox.is_empty() && self.faults.is_empty();
        let patience = if idle { until.saturating_since(began) } else { Nanos::ZERO };
        let entered = if patience == Nanos::ZERO {
            self.look()
        } else {
            let span = Timespec::new().sec(patience.ns() / 1_000_000_000).nsec((patience.ns() % 1_000_000_000) as u32);
            self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&span))
        };
        let seen = self.clock.now();
        self.check_enter(entered.map(|_| ()));
        self.reap(began, seen, events);
    }
}

impl Driver for UringDriver {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn open(&mut self, conn: ConnId, to: SocketAddr) {
        assert!(self.of_conn[conn.0 as usize].is_none(), "a connection is opened once");
        let Some(&socket) = self.free.last() else {
            self.faults.push((conn, ClientFault::Descriptors));
            return;
        };
        let fd = match socket::new(&to) {
            Ok(fd) => fd,
            Err(fault) => {
                self.faults.push((conn, fault));
                return;
            }
        };
        self.free.pop();
        self.of_conn[conn.0 as usize] = Some(socket);
        let slot = &mut self.sockets[socket as usize];
        *slot.address = SockaddrStorage::from(to);
        let entry = opcode::Connect::new(Fd(fd.as_raw_fd()), slot.address.as_ptr().cast(), slot.address.len()).build();
        slot.fd = Some(fd);
        slot.conn = Some(conn);
        slot.tx = TxIds::default();
        slot.last_wall = None;
        self.push(Op::Connect, socket, entry);
    }

    fn send(&mut self, conn: ConnId, sequence: u64, request: Bytes) {
        let (socket, slot) = self.open_socket(conn);
        assert!(!slot.outgoing.has_request(), "one request at a time");
        slot.tx.expect(request.len(), sequence);
        self.queue(socket, Outgoing::new(request, Some(sequence)));
    }

    fn send_aside(&mut self, conn: ConnId, bytes: Bytes) {
        let (socket, slot) = self.open_socket(conn);
        slot.tx.pass(bytes.len());
        self.queue(socket, Outgoing::new(bytes, None));
    }

    fn close(&mut self, conn: ConnId) {
        let Some(socket) = self.of_conn[conn.0 as usize].take() else { return };
        let slot = &mut self.sockets[socket as usize];
        slot.conn = None;
        if !slot.outgoing.is_empty() && self.outbox.contains(&socket) {
            // what has not been given to the kernel stays here
            slot.outgoing.clear();
            self.outbox.retain(|queued| *queued != socket);
        }
        if let (true, Some(fd)) = (slot.pending > 0, &slot.fd) {
            let entry = opcode::AsyncCancel2::new(CancelBuilder::fd(Fd(fd.as_raw_fd())).all()).build();
            self.push(Op::Cancel, socket, entry);
        } else {
            self.free_if_idle(socket);
        }
    }

    fn turn(&mut self, until: Instant, events: &mut impl Events) {
        while let Some((conn, fault)) = self.faults.pop() {
            events.on(conn, Event::NoSocket { at: self.clock.now(), fault });
        }
        for _ in 0..SENDS_PER_TURN.min(self.outbox.len()) {
            self.send_next(events);
        }
        self.wait(until, events);
    }

    fn rest(&mut self) {
        self.handled(self.clock.now());
    }

    fn counters(&self) -> DriverCounters {
        self.counters
    }
}
