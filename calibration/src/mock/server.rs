//! The loop: deadlines first, then reads, then the truth log, then sleep.

use super::admission::{Admission, Turn};
use super::connection::{RX_STAMPS, Read, Wire, control_buffer};
use super::journal::{Journal, Record};
use super::log_file::LogFile;
use super::metrics::{Finish, Metrics};
use super::pacing::{Deadlines, Waiter};
use super::prefix_cache::PrefixCache;
use super::reply::{Next, Reply, Score};
use super::request::{Found, Refusal, Request, RequestReader};
use super::script::{self, Case};
use super::truth_server::{Fitness, TruthServer};
use super::{MockConfig, MockError};
use crate::truth::Summary;
use bench_engine::clock::{Clock, ClockMap, SystemClock};
use bench_engine::units::{Instant, Nanos, WallInstant};
use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::epoll::{EpollEvent, EpollFlags};
use nix::sys::eventfd::EventFd;
use nix::sys::prctl;
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{
    AddressFamily, Backlog, Shutdown, SockFlag, SockType, SockaddrStorage, accept4, bind, getpeername, getsockname,
    listen, setsockopt, shutdown, socket, sockopt,
};
use nix::unistd::Pid;
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// Size of one read.
const READ_SIZE: usize = 256 << 10;
/// Requests that may wait on one connection, and bytes of their bodies, before it is read no further.
const PIPELINE_LIMIT: usize = 64;
const PIPELINE_BYTES: usize = 64 << 20;
/// Clock pairs, and everything else that is not urgent.
const TICK: Nanos = Nanos::from_millis(50);
/// A busy wait looks at the sockets this often.
const POLL_EVERY: Nanos = Nanos::from_micros(10);
/// While deadlines follow each other without a gap, the sockets are looked at this often.
const STARVING: Nanos = Nanos::from_micros(100);
/// Gap to the next deadline that a step of other work needs.
const STEP_GAP: Nanos = Nanos::from_micros(8);
/// Gap that a look at the sockets needs.
const POLL_GAP: Nanos = Nanos::from_micros(3);
/// Writes in a row before one arrival is looked at.
const WRITES_IN_A_ROW: usize = 8;
/// Stamps out on one socket before they are read, convenient or not: the kernel's queue holds about 150.
const STAMPS_OUT: usize = 64;
/// Rounds of reading one connection before deadlines are looked at again.
const READS_IN_A_ROW: usize = 4;
/// How long a record waits for its last stamps.
const STAMP_WAIT: Nanos = Nanos::from_millis(100);
/// How old the fitness that is served may be, the gap to the next deadline that bringing it up to date needs, and the
/// age at which that is done without a gap.
const FITNESS_EVERY: Nanos = Nanos::from_millis(250);
const FITNESS_GAP: Nanos = Nanos::from_micros(100);
const FITNESS_LATEST: Nanos = Nanos::from_secs(2);

const LISTENER: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;
const SIGNALS: u64 = u64::MAX - 2;
const STDIN: u64 = u64::MAX - 3;
const STOPPER: u64 = u64::MAX - 4;

/// A request, or what is left of one, waiting its turn.
#[derive(Debug)]
pub(super) struct Arrived {
    pub what: Result<Box<Request>, Refusal>,
    pub rx: Option<WallInstant>,
    pub rx_user: Instant,
}

#[derive(Debug)]
pub(super) struct Connection {
    wire: Wire,
    pub serial: u64,
    pub peer_port: u16,
    reader: RequestReader,
    pub arrived: VecDeque<Arrived>,
    arrived_bytes: usize,
    pub requests: u64,
    reply: Option<Reply>,
    /// The last reply's truth, waiting for stamps.
    settling: Option<Record>,
    in_stamp_queue: bool,
    owes_continue: bool,
    /// More may be in the socket than was read.
    unread: bool,
    /// Refused: what still comes is thrown away until the client closes, or until then.
    pub lingering: Option<Instant>,
}

#[derive(Debug, Default)]
pub(super) struct Slot {
    pub generation: u32,
    pub connection: Option<Box<Connection>>,
}

impl Connection {
    /// Cuts bytes into requests.
    fn take(&mut self, mut bytes: &[u8], rx: Option<WallInstant>, rx_user: Instant) {
        while !bytes.is_empty() {
            let what = match self.reader.push(&mut bytes) {
                Found::Nothing => return,
                Found::WantsContinue => {
                    self.owes_continue = true;
                    continue;
                }
                Found::Request(request) => Ok(request),
                Found::Refused(why) => Err(why),
            };
            self.owes_continue = false;
            self.arrived_bytes += what.as_ref().map_or(0, |request| request.body.len());
            self.arrived.push_back(Arrived { what, rx, rx_user });
        }
    }
}

fn system(call: &'static str) -> impl Fn(Errno) -> MockError {
    move |source| MockError::System { call, source }
}

/// See [`super::Mock`].
#[derive(Debug)]
pub(super) struct Server {
    pub(super) config: MockConfig,
    pub(super) cases: Option<HashMap<String, Arc<Case>>>,
    pub(super) clock: SystemClock,
    pub(super) map: ClockMap,
    listener: OwnedFd,
    waiter: Waiter,
    pub(super) slots: Vec<Slot>,
    free: Vec<u32>,
    deadlines: Deadlines,
    pub(super) journal: Journal,
    pub(super) metrics: Metrics,
    pub(super) admission: Admission,
    pub(super) prefix_cache: Option<PrefixCache>,
    /// Blocks of the key-value cache that running requests hold.
    pub(super) blocks_held: u64,
    /// Requests for tokens so far.
    pub(super) asked: u64,
    truth_server: Option<TruthServer>,
    fitness: Fitness,
    fitness_at: Instant,
    /// When the loop began, and what its thread had used by then.
    began: (Instant, CoreUse),
    notes: Vec<String>,
    /// What is formatted of the log is to go to its file.
    hand_over: bool,
    /// Connections with stamps out.
    stamped: VecDeque<(u32, u32)>,
    /// Connections whose last record waits for stamps.
    settling: Vec<(u32, u32)>,
    streams: u64,
    /// Events not handled yet.
    ready: VecDeque<(u64, EpollFlags)>,
    accept_again: bool,
    accept_at: Instant,
    pub(super) serials: u64,
    buffer: Vec<u8>,
    control: Vec<u8>,
    spin: Nanos,
    last_poll: Instant,
    next_tick: Instant,
    stopped: bool,
}

impl Server {
    pub(super) fn bind(config: MockConfig) -> Result<(Server, SocketAddr), MockError> {
        let cases = config.script.as_deref().map(|path| script::load(path, config.time_scale)).transpose()?;
        let (file, truth_server, fitness) = truth_log(&config)?;
        let notes = raise_descriptors().into_iter().collect();
        let (listener, addr) =
            listen_on(config.listen).map_err(|source| MockError::Listen { addr: config.listen, source })?;
        let waiter = Waiter::new(TIMER).map_err(system("epoll_create"))?;
        let edge = EpollFlags::EPOLLIN | EpollFlags::EPOLLET;
        waiter.watch(&listener, edge, LISTENER).map_err(system("epoll_ctl"))?;
        let server = Server {
            cases,
            clock: SystemClock,
            map: ClockMap::default(),
            listener,
            waiter,
            slots: Vec::new(),
            free: Vec::new(),
            deadlines: Deadlines::default(),
            journal: Journal::new(file),
            metrics: Metrics::new(&config.model),
            admission: Admission::new(config.max_num_seqs),
            prefix_cache: (config.prefix_cache_blocks > 0).then(|| PrefixCache::new(config.prefix_cache_blocks)),
            blocks_held: 0,
            asked: 0,
            truth_server,
            fitness,
            fitness_at: Instant::from_ns(0),
            began: (Instant::from_ns(0), CoreUse::default()),
            notes,
            hand_over: false,
            stamped: VecDeque::new(),
            settling: Vec::new(),
            streams: 0,
            ready: VecDeque::new(),
            accept_again: true,
            accept_at: Instant::from_ns(0),
            serials: config.seed,
            buffer: vec![0; READ_SIZE],
            control: control_buffer(),
            spin: Nanos::ZERO,
            last_poll: Instant::from_ns(0),
            next_tick: Instant::from_ns(0),
            stopped: false,
            config,
        };
        Ok((server, addr))
    }

    pub(super) fn truth_addr(&self) -> Option<SocketAddr> {
        self.truth_server.as_ref().map(TruthServer::addr)
    }

    /// When the loop began: a drift counts from there.
    pub(super) fn started(&self) -> Instant {
        self.began.0
    }

    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }

    pub(super) fn run(mut self, stop: &EventFd) -> Result<Summary, MockError> {
        if let Some(core) = self.config.core {
            pin(core)?;
        }
        // a slack that stays at its default only costs lateness, which is measured
        let _ = prctl::set_timerslack(1);
        let mut signals = SigSet::empty();
        signals.add(Signal::SIGTERM);
        signals.add(Signal::SIGINT);
        let old_mask = SigSet::thread_get_mask().map_err(system("pthread_sigmask"))?;
        signals.thread_block().map_err(system("pthread_sigmask"))?;
        let signal_fd = SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
            .map_err(system("signalfd"))?;
        self.waiter.watch(&signal_fd, EpollFlags::EPOLLIN, SIGNALS).map_err(system("epoll_ctl"))?;
        self.waiter.watch(stop, EpollFlags::EPOLLIN, STOPPER).map_err(system("epoll_ctl"))?;
        let stdin = io::stdin();
        if self.config.until_stdin_closes {
            self.waiter.watch(&stdin, EpollFlags::EPOLLIN, STDIN).map_err(|source| MockError::Stdin { source })?;
        }
        self.began = (self.clock.now(), CoreUse::so_far());
        let mut events = vec![EpollEvent::empty(); 256];
        let served = loop {
            if self.stopped {
                break Ok(());
            }
            if let Err(e) = self.turn(&mut events, &stdin, &signal_fd) {
                break Err(e);
            }
        };
        let ended = served.and_then(|()| self.end());
        old_mask.thread_set_mask().map_err(system("pthread_sigmask"))?;
        ended
    }

    /// One round of the loop.
    fn turn(&mut self, events: &mut [EpollEvent], stdin: &io::Stdin, signals: &SignalFd) -> Result<(), MockError> {
        let mut now = self.clock.now();
        if now >= self.next_tick {
            self.tick(now)?;
        }
        // what is due comes first, but never starves what has arrived
        for _ in 0..WRITES_IN_A_ROW {
            let Some((_, slot)) = self.deadlines.first().filter(|(due, _)| *due <= now) else { break };
            self.serve(slot)?;
            now = self.clock.now();
        }
        if let Some((token, flags)) = self.ready.pop_front() {
            return self.ready(token, flags);
        }
        if self.accept_again && now >= self.accept_at {
            self.accept(now);
            return Ok(());
        }
        if self.journal.is_pressed(now) && self.journal.has_work(&self.map) {
            self.write_journal()?;
            now = self.clock.now();
        }
        let gap = |next: Option<Instant>, now: Instant| next.map_or(TICK, |due| due.saturating_since(now));
        let next = self.deadlines.first().map(|(due, _)| due);
        let mut steps = 0;
        while steps < 4 && gap(next, now) >= STEP_GAP && self.step()? {
            now = self.clock.now();
            steps += 1;
        }
        if self.truth_server.is_some() && now >= self.fitness_at && gap(next, now) >= FITNESS_GAP {
            self.show_fitness(now);
            now = self.clock.now();
        }
        let left = gap(next, now);
        let since_poll = now.saturating_since(self.last_poll);
        let ready = if left > self.config.spin && steps < 4 {
            let alarm = next.map(|due| Instant::from_ns(due.ns().saturating_sub(self.config.spin.ns())));
            let limit = self.next_tick.saturating_since(now);
            self.waiter.sleep(events, alarm, limit)
        } else if steps == 4 || since_poll >= STARVING || (left >= POLL_GAP && since_poll >= POLL_EVERY) {
            self.waiter.poll(events)
        } else {
            // busy until the deadline or the next look at the sockets
            let poll_at = self.last_poll + POLL_EVERY;
            let until = next.map_or(poll_at, |due| if left >= POLL_GAP { due.min(poll_at) } else { due });
            let from = now;
            while now < until {
                std::hint::spin_loop();
                now = self.clock.now();
            }
            self.spin = self.spin + now.saturating_since(from);
            return Ok(());
        };
        let ready = ready.map_err(system("epoll_wait"))?;
        self.last_poll = self.clock.now();
        for event in &events[..ready] {
            match event.data() {
                LISTENER => self.accept_again = true,
                TIMER => {}
                SIGNALS => self.stopped |= signals.read_signal().map_err(system("read(signalfd)"))?.is_some(),
                STOPPER => self.stopped = true,
                STDIN => self.stopped |= matches!(nix::unistd::read(stdin, &mut [0; 512]), Ok(0)),
                token => self.ready.push_back((token, event.events())),
            }
        }
        Ok(())
    }

    /// What is done twenty times a second: a clock pair, records that waited long enough, accepting again.
    fn tick(&mut self, now: Instant) -> Result<(), MockError> {
        self.map.observe(self.clock.pair());
        self.next_tick = now + TICK;
        let mut settling = std::mem::take(&mut self.settling);
        settling.retain(|&(slot, generation)| {
            let Some(connection) = self.connection(slot, generation) else { return false };
            let Some(record) = &connection.settling else { return false };
            if now.saturating_since(record.closed) < STAMP_WAIT {
                return true;
            }
            self.settle(slot);
            false
        });
        self.settling.append(&mut settling);
        if self.truth_server.is_some() && now.saturating_since(self.fitness_at) > FITNESS_LATEST {
            self.show_fitness(now);
        }
        // what is formatted goes to the file, so that a reader sees a row soon after its reply: once everything that this
        // tick's clock pair placed is formatted, or at the latest now, if the last tick's could not be
        if std::mem::replace(&mut self.hand_over, true) {
            self.hand_over()?;
        }
        Ok(())
    }

    fn hand_over(&mut self) -> Result<(), MockError> {
        let handed = self.journal.hand_over(false);
        handed.map(|_| ()).map_err(|source| self.truth_error(source))
    }

    /// Leaves the fitness so far for the thread that serves it.
    fn show_fitness(&mut self, now: Instant) {
        self.fitness_at = now + FITNESS_EVERY;
        let summary = self.summary();
        // that thread holds it for a copy only; next time, then
        if let Ok(mut shown) = self.fitness.try_lock() {
            *shown = summary;
        }
    }

    /// A few microseconds of work that can wait. False when there is none.
    fn step(&mut self) -> Result<bool, MockError> {
        while let Some((slot, generation)) = self.stamped.pop_front() {
            let at = &mut self.slots[slot as usize];
            let Some(connection) = at.connection.as_deref_mut().filter(|_| at.generation == generation) else {
                continue;
            };
            let record = match (&mut connection.reply, &mut connection.settling) {
                (_, Some(record)) => Some(record),
                (Some(reply), None) => reply.record.as_mut(),
                (None, None) => None,
            };
            let mut took = 0;
            if let Some(record) = record {
                while took < 4
                    && connection.wire.awaited() > 0
                    && connection.wire.take_stamp(&mut self.control, &self.clock, record)
                {
                    took += 1;
                }
            }
            // a stamp that is not there yet announces itself
            connection.in_stamp_queue = took == 4 && connection.wire.awaited() > 0;
            if connection.in_stamp_queue {
                self.stamped.push_back((slot, generation));
            }
            if connection.wire.awaited() == 0 && connection.settling.is_some() {
                self.settle(slot);
            }
            return Ok(true);
        }
        if self.journal.has_work(&self.map) {
            self.write_journal()?;
            return Ok(true);
        }
        if std::mem::replace(&mut self.hand_over, false) {
            self.hand_over()?;
        }
        Ok(false)
    }

    fn write_journal(&mut self) -> Result<(), MockError> {
        let written = self.journal.step(&self.map, false);
        written.map_err(|source| self.truth_error(source))
    }

    fn truth_error(&self, source: io::Error) -> MockError {
        MockError::Truth { path: self.config.truth.clone().unwrap_or_default(), source }
    }

    fn connection(&self, slot: u32, generation: u32) -> Option<&Connection> {
        let slot = self.slots.get(slot as usize)?;
        slot.connection.as_deref().filter(|_| slot.generation == generation)
    }

    /// Takes one new connection.
    fn accept(&mut self, now: Instant) {
        let socket = match accept4(&self.listener, SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC) {
            Ok(socket) => socket,
            Err(Errno::EINTR | Errno::ECONNABORTED) => return,
            Err(Errno::EAGAIN) => {
                self.accept_again = false;
                return;
            }
            Err(_) => {
                // no descriptors or no memory: the edge is spent, so try again later
                self.journal.totals.accept_failures += 1;
                self.accept_at = now + TICK;
                return;
            }
        };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let generation = self.slots[slot as usize].generation;
        let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET;
        if self.waiter.watch(&socket, flags, u64::from(generation) << 32 | u64::from(slot)).is_err() {
            self.journal.totals.accept_failures += 1;
            self.free.push(slot);
            return;
        }
        let peer_port = getpeername::<SockaddrStorage>(socket.as_raw_fd()).map_or(0, |peer| {
            let v4 = peer.as_sockaddr_in().map(|peer| peer.port());
            v4.or_else(|| peer.as_sockaddr_in6().map(|peer| peer.port())).unwrap_or(0)
        });
        let serial = self.journal.totals.connections;
        self.journal.totals.connections += 1;
        self.slots[slot as usize].connection = Some(Box::new(Connection {
            wire: Wire::new(socket, self.config.stamp_every > 0),
            serial,
            peer_port,
            reader: RequestReader::default(),
            arrived: VecDeque::new(),
            arrived_bytes: 0,
            requests: 0,
            reply: None,
            settling: None,
            in_stamp_queue: false,
            owes_continue: false,
            unread: false,
            lingering: None,
        }));
    }

    fn ready(&mut self, token: u64, flags: EpollFlags) -> Result<(), MockError> {
        let (slot, generation) = (token as u32, (token >> 32) as u32);
        if self.connection(slot, generation).is_none() {
            return Ok(());
        }
        if flags.contains(EpollFlags::EPOLLERR) {
            self.queue_stamps(slot);
        }
        let Some(connection) = self.slots[slot as usize].connection.as_deref() else { return Ok(()) };
        if flags.contains(EpollFlags::EPOLLOUT) && connection.wire.has_rest() {
            self.serve(slot)?;
        }
        let in_or_out = EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLHUP;
        if flags.intersects(in_or_out) && self.connection(slot, generation).is_some() {
            let to_the_end = flags.intersects(EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLHUP);
            self.pump(slot, to_the_end)?;
        }
        Ok(())
    }

    /// Reads what is there and begins replies, for a few rounds; if there is more, the rest comes after what is due.
    fn pump(&mut self, slot: u32, mut to_the_end: bool) -> Result<(), MockError> {
        for _ in 0..READS_IN_A_ROW {
            self.read(slot, to_the_end)?;
            self.next_reply(slot)?;
            let Some(connection) = self.slots[slot as usize].connection.as_deref() else { return Ok(()) };
            if !connection.unread || connection.reply.is_some() {
                return Ok(());
            }
            to_the_end = true;
        }
        self.deadlines.set(slot, self.clock.now());
        Ok(())
    }

    /// One or two reads, so that nobody can hold the loop.
    fn read(&mut self, slot: u32, to_the_end: bool) -> Result<(), MockError> {
        for _ in 0..2 {
            let Some(connection) = self.slots[slot as usize].connection.as_deref_mut() else { return Ok(()) };
            connection.unread = true;
            if connection.arrived.len() >= PIPELINE_LIMIT || connection.arrived_bytes >= PIPELINE_BYTES {
                return Ok(());
            }
            let (len, rx) = match connection.wire.read(&mut self.buffer, &mut self.control) {
                Read::Bytes { len, stamp } => (len, stamp),
                Read::Nothing => {
                    connection.unread = false;
                    return Ok(());
                }
                Read::Gone => return self.close(slot),
            };
            let rx_user = self.clock.now();
            if connection.lingering.is_none() {
                connection.take(&self.buffer[..len], rx, rx_user);
            }
            // a short read emptied the socket: what comes later is an edge of its own
            if len < self.buffer.len() && !to_the_end {
                connection.unread = false;
                return Ok(());
            }
        }
        Ok(())
    }

    /// Begins replies while requests wait and no reply is running.
    fn next_reply(&mut self, slot: u32) -> Result<(), MockError> {
        loop {
            let Some(connection) = self.slots[slot as usize].connection.as_deref_mut() else { return Ok(()) };
            if connection.reply.is_some() || connection.lingering.is_some() {
                return Ok(());
            }
            let Some(arrived) = connection.arrived.pop_front() else {
                if connection.owes_continue {
                    connection.owes_continue = false;
                    let reply = Reply::new(Score::Plain, None, false);
                    self.begin(slot, reply, Some(b"HTTP/1.1 100 Continue\r\n\r\n"))?;
                    continue;
                }
                return Ok(());
            };
            connection.arrived_bytes -= arrived.what.as_ref().map_or(0, |request| request.body.len());
            let answer = self.answer(slot, arrived);
            self.begin(slot, answer.reply, answer.head.as_deref())?;
        }
    }

    fn begin(&mut self, slot: u32, mut reply: Reply, head: Option<&[u8]>) -> Result<(), MockError> {
        if self.slots[slot as usize].connection.as_ref().is_some_and(|connection| connection.settling.is_some()) {
            self.settle(slot);
        }
        let Some(connection) = self.slots[slot as usize].connection.as_deref_mut() else { return Ok(()) };
        let next = match head {
            Some(head) => reply.start(head, &mut connection.wire, &self.clock),
            None => reply.first(),
        };
        connection.reply = Some(reply);
        self.streams += 1;
        self.journal.totals.max_streams = self.journal.totals.max_streams.max(self.streams);
        self.after(slot, next)
    }

    /// Serves the deadline of `slot`, or goes on with a write that had to wait.
    fn serve(&mut self, slot: u32) -> Result<(), MockError> {
        let Some(connection) = self.slots[slot as usize].connection.as_deref_mut() else {
            self.deadlines.remove(slot);
            return Ok(());
        };
        let Some(reply) = &mut connection.reply else {
            match connection.lingering {
                Some(until) if self.clock.now() >= until => return self.close(slot),
                Some(until) => self.deadlines.set(slot, until),
                None => self.deadlines.remove(slot),
            }
            return self.pump(slot, true);
        };
        let next = reply.serve(&mut connection.wire, &self.clock, &mut self.metrics);
        if connection.wire.awaited() > 0 && !connection.in_stamp_queue {
            connection.in_stamp_queue = true;
            self.stamped.push_back((slot, self.slots[slot as usize].generation));
        } else if connection.wire.awaited() >= STAMPS_OUT
            && let Some(record) = &mut reply.record
        {
            while connection.wire.take_stamp(&mut self.control, &self.clock, record) {}
        }
        self.after(slot, next)?;
        match self.slots[slot as usize].connection.as_deref() {
            Some(connection) if connection.reply.is_none() && connection.lingering.is_none() => {
                self.next_reply(slot)?;
                self.read_on(slot)
            }
            _ => Ok(()),
        }
    }

    /// Reads what was left in the socket while the last reply ran.
    fn read_on(&mut self, slot: u32) -> Result<(), MockError> {
        match self.slots[slot as usize].connection.as_deref() {
            Some(connection) if connection.unread && connection.reply.is_none() => self.pump(slot, true),
            _ => Ok(()),
        }
    }

    fn queue_stamps(&mut self, slot: u32) {
        let at = &mut self.slots[slot as usize];
        if let Some(connection) = at.connection.as_deref_mut()
            && !connection.in_stamp_queue
        {
            connection.in_stamp_queue = true;
            self.stamped.push_back((slot, at.generation));
        }
    }

    fn after(&mut self, slot: u32, next: Next) -> Result<(), MockError> {
        match next {
            Next::At(due) => {
                self.deadlines.set(slot, due);
                Ok(())
            }
            Next::Writable | Next::Turn => {
                self.deadlines.remove(slot);
                Ok(())
            }
            Next::Gone => self.close(slot),
            Next::Done => {
                self.deadlines.remove(slot);
                let at = &mut self.slots[slot as usize];
                let Some(connection) = at.connection.as_deref_mut() else { return Ok(()) };
                let Some(mut reply) = connection.reply.take() else { return Ok(()) };
                self.streams -= 1;
                self.left(&mut reply, false);
                let at = &mut self.slots[slot as usize];
                let Some(connection) = at.connection.as_deref_mut() else { return Ok(()) };
                if let Some(mut record) = reply.record {
                    record.closed = self.clock.now();
                    connection.settling = Some(record);
                    if connection.wire.awaited() == 0 || reply.close {
                        self.settle(slot);
                    } else {
                        self.settling.push((slot, at.generation));
                    }
                }
                if !reply.close {
                    return Ok(());
                }
                let Some(connection) = self.slots[slot as usize].connection.as_deref_mut() else { return Ok(()) };
                if let Some(until) = connection.lingering {
                    let _ = shutdown(connection.wire.socket().as_raw_fd(), Shutdown::Write);
                    self.deadlines.set(slot, until);
                    return Ok(());
                }
                self.close(slot)
            }
        }
    }

    /// A reply has left its connection, written to its end or `aborted`: it is counted, and whoever waits for its place
    /// runs from now on.
    fn left(&mut self, reply: &mut Reply, aborted: bool) {
        let now = self.clock.now();
        if let Some(stages) = &reply.stages {
            let tokens = reply.record.as_ref().map_or(0, |record| record.tokens);
            let finish = match (aborted, stages.stops) {
                (true, _) => Finish::Abort,
                (false, true) => Finish::Stop,
                (false, false) => Finish::Length,
            };
            self.metrics.finished(stages, finish, tokens, now);
            if reply.turn == Turn::Running {
                self.blocks_held -= stages.blocks;
            }
        }
        self.admission.leave(reply.turn);
        reply.turn = Turn::Exempt;
        let slots = &self.slots;
        let waits = |slot: u32, generation: u32| {
            let at = &slots[slot as usize];
            let reply = at.connection.as_ref().filter(|_| at.generation == generation).and_then(|c| c.reply.as_ref());
            reply.is_some_and(|reply| reply.turn == Turn::Waiting)
        };
        let mut turns = Vec::new();
        while let Some((slot, _)) = self.admission.next(waits) {
            turns.push(slot);
        }
        for slot in turns {
            let Some(connection) = self.slots[slot as usize].connection.as_deref_mut() else { continue };
            let Some(reply) = &mut connection.reply else { continue };
            reply.run(now);
            self.blocks_held += reply.stages.map_or(0, |stages| stages.blocks);
            if !connection.wire.has_rest() {
                self.deadlines.set(slot, reply.due());
            }
        }
    }

    /// Reads what stamps there are for the record that waits for them, and closes it.
    fn settle(&mut self, slot: u32) {
        let Some(connection) = self.slots[slot as usize].connection.as_deref_mut() else { return };
        let Some(mut record) = connection.settling.take() else { return };
        while connection.wire.awaited() > 0 && connection.wire.take_stamp(&mut self.control, &self.clock, &mut record) {
        }
        connection.wire.forget_stamps();
        record.closed = self.clock.now();
        self.log(record);
    }

    fn log(&mut self, record: Record) {
        self.journal.push(record);
        if self.journal.is_full() {
            self.journal.totals.log_stalls += 1;
            self.map.observe(self.clock.pair());
            // an error comes again at the next step, which reports it
            while self.journal.is_full()
                && self.journal.has_work(&self.map)
                && self.journal.step(&self.map, true).is_ok()
            {}
        }
    }

    /// Ends the connection; a reply in flight is aborted.
    fn close(&mut self, slot: u32) -> Result<(), MockError> {
        self.deadlines.remove(slot);
        self.settle(slot);
        let at = &mut self.slots[slot as usize];
        let Some(connection) = at.connection.as_deref_mut() else { return Ok(()) };
        if let Some(mut reply) = connection.reply.take() {
            self.streams -= 1;
            self.left(&mut reply, true);
            let at = &mut self.slots[slot as usize];
            let Some(connection) = at.connection.as_deref_mut() else { return Ok(()) };
            if let Some(mut record) = reply.record {
                record.aborted = true;
                // a chunk the kernel never took whole was not written
                record.chunks.retain(|chunk| chunk.written.ns() > 0);
                record.closed = self.clock.now();
                connection.settling = Some(record);
                self.settle(slot);
            }
        }
        let at = &mut self.slots[slot as usize];
        at.connection = None;
        at.generation = at.generation.wrapping_add(1);
        self.free.push(slot);
        Ok(())
    }

    /// How it has fared so far.
    fn summary(&self) -> Summary {
        let (began, core_before) = self.began;
        let core = CoreUse::so_far().since(core_before);
        let lateness = &self.metrics.lateness;
        let mut summary = Summary {
            lateness_n: lateness.n(),
            lateness_p50_us: lateness.quantile_us(0.5),
            lateness_p99_us: lateness.quantile_us(0.99),
            lateness_max_us: lateness.max_us(),
            cpu_s: core.cpu.secs_f64(),
            run_delay_s: core.run_delay.map(Nanos::secs_f64),
            involuntary_switches: core.involuntary_switches,
            spin_s: self.spin.secs_f64(),
            wall_s: self.clock.now().saturating_since(began).secs_f64(),
            clock_uncertainty_ns: self.map.uncertainty().map(Nanos::ns),
            clock_steps: self.map.steps() as u64,
            ..self.journal.totals.clone()
        };
        summary.judge();
        summary
    }

    /// Aborts what is in flight, writes the rest of the log and the summary.
    fn end(&mut self) -> Result<Summary, MockError> {
        let fared = self.summary();
        for slot in 0..self.slots.len() {
            self.close(slot as u32)?;
        }
        self.map.observe(self.clock.pair());
        let flushed = self.journal.flush(&self.map);
        flushed.map_err(|source| self.truth_error(source))?;
        // what closing and flushing took is no part of how it fared; what they logged is
        let Summary { cpu_s, spin_s, wall_s, run_delay_s, involuntary_switches, .. } = fared;
        let mut summary = Summary { cpu_s, spin_s, wall_s, run_delay_s, involuntary_switches, ..self.summary() };
        summary.judge();
        let written = self.journal.finish(&summary);
        written.map_err(|source| self.truth_error(source))?;
        Ok(summary)
    }
}

/// The truth log, and the server that shows it.
fn truth_log(config: &MockConfig) -> Result<(Option<LogFile>, Option<TruthServer>, Fitness), MockError> {
    let fitness = Fitness::default();
    let temporary = || {
        std::env::temp_dir().join(format!("tarebench-truth-{}-{:x}.jsonl", std::process::id(), SystemClock.now().ns()))
    };
    let path = match (&config.truth, config.truth_listen) {
        (Some(path), _) => path.clone(),
        (None, Some(_)) => temporary(),
        (None, None) => return Ok((None, None, fitness)),
    };
    let failed = |source| MockError::Truth { path: path.clone(), source };
    let mut options = File::options();
    options.read(true).write(true);
    let file = if config.truth.is_some() {
        options.create(true).truncate(true).open(&path).map_err(failed)?
    } else {
        let file = options.create_new(true).open(&path).map_err(failed)?;
        // it lives as long as somebody has it open
        std::fs::remove_file(&path).map_err(failed)?;
        file
    };
    let shown = file.try_clone().map_err(failed)?;
    // the threads started here leave all signals to the thread that paces, which ends the log in peace
    let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK).map_err(system("pthread_sigmask"))?;
    let started = start_log(config.truth_listen, file, shown, &fitness, &path);
    mask.thread_set_mask().map_err(system("pthread_sigmask"))?;
    let (log, server) = started?;
    Ok((Some(log), server, fitness))
}

/// The threads that write the log and show it.
fn start_log(
    listen: Option<SocketAddr>,
    file: File,
    shown: File,
    fitness: &Fitness,
    path: &Path,
) -> Result<(LogFile, Option<TruthServer>), MockError> {
    let log = LogFile::new(file).map_err(|source| MockError::Truth { path: path.to_owned(), source })?;
    let Some(addr) = listen else { return Ok((log, None)) };
    let server = TruthServer::start(addr, shown, log.written(), Arc::clone(fitness));
    let server = server.map_err(|e| MockError::Listen {
        addr,
        source: e.raw_os_error().map_or(Errno::UnknownErrno, Errno::from_raw),
    })?;
    Ok((log, Some(server)))
}

/// Asks for as many descriptors as may be had; says so if that changed something.
fn raise_descriptors() -> Option<String> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    if soft >= hard {
        return None;
    }
    Some(match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => format!("raised the limit of open files from {soft} to {hard}"),
        // kept low it shows as accept failures
        Err(e) => format!("the limit of open files stays at {soft}: {e}"),
    })
}

fn listen_on(addr: SocketAddr) -> nix::Result<(OwnedFd, SocketAddr)> {
    let family = if addr.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let listener = socket(family, SockType::Stream, flags, None)?;
    setsockopt(&listener, sockopt::ReuseAddr, &true)?;
    // without stamps the user's reading of the clock stands in, and the log shows null
    let _ = setsockopt(&listener, sockopt::Timestamping, &RX_STAMPS);
    bind(listener.as_raw_fd(), &SockaddrStorage::from(addr))?;
    listen(&listener, Backlog::MAXALLOWABLE)?;
    let bound = getsockname::<SockaddrStorage>(listener.as_raw_fd())?;
    let bound = match (bound.as_sockaddr_in(), bound.as_sockaddr_in6()) {
        (Some(v4), _) => SocketAddr::from((v4.ip(), v4.port())),
        (None, Some(v6)) => SocketAddr::from((v6.ip(), v6.port())),
        (None, None) => addr,
    };
    Ok((listener, bound))
}

fn pin(core: usize) -> Result<(), MockError> {
    let itself = Pid::from_raw(0);
    let refused = |reason: String| {
        let allowed = sched_getaffinity(itself).map_or_else(|_| "unknown".to_owned(), |set| cores_text(&set));
        MockError::Core { core, reason, allowed }
    };
    let mut set = CpuSet::new();
    set.set(core).map_err(|e| refused(e.to_string()))?;
    sched_setaffinity(itself, &set).map_err(|e| refused(e.to_string()))?;
    match sched_getaffinity(itself) {
        Ok(now) if now == set => Ok(()),
        Ok(now) => Err(refused(format!("the kernel chose {} instead", cores_text(&now)))),
        Err(e) => Err(refused(e.to_string())),
    }
}

fn cores_text(set: &CpuSet) -> String {
    let cores: Vec<String> =
        (0..CpuSet::count()).filter(|core| set.is_set(*core).unwrap_or(false)).map(|core| core.to_string()).collect();
    cores.join(",")
}

/// What this thread has used and missed of its core so far.
#[derive(Clone, Copy, Debug, Default)]
struct CoreUse {
    /// User and system time.
    cpu: Nanos,
    run_delay: Option<Nanos>,
    involuntary_switches: u64,
}

impl CoreUse {
    fn so_far() -> CoreUse {
        let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let run_delay = schedstat.split_whitespace().nth(1).and_then(|ns| ns.parse().ok()).map(Nanos::from_ns);
        let Ok(usage) = getrusage(UsageWho::RUSAGE_THREAD) else { return CoreUse { run_delay, ..CoreUse::default() } };
        let micros = |t: nix::sys::time::TimeVal| (t.tv_sec() as u64) * 1_000_000 + t.tv_usec() as u64;
        let cpu = Nanos::from_micros(micros(usage.user_time()) + micros(usage.system_time()));
        CoreUse { cpu, run_delay, involuntary_switches: usage.involuntary_context_switches() as u64 }
    }

    fn since(self, before: CoreUse) -> CoreUse {
        let minus = |a: Nanos, b: Nanos| Nanos::from_ns(a.ns().saturating_sub(b.ns()));
        CoreUse {
            cpu: minus(self.cpu, before.cpu),
            run_delay: self.run_delay.zip(before.run_delay).map(|(a, b)| minus(a, b)),
            involuntary_switches: self.involuntary_switches.saturating_sub(before.involuntary_switches),
        }
    }
}
