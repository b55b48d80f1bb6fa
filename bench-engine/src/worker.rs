//! A worker: connection slots, their timers and a driver, on one thread. In a window it neither allocates,
//! locks, logs nor reads JSON; what it leaves goes to the record reader through bounded queues. TLS is the exception: it
//! allocates.

use crate::conn::{Conn, Current, Job, KeepAlive, Open, Reuse};
use crate::exchange::{Exchange, Progress};
use crate::io::{ConnId, Driver, DriverCounters, Event, Events};
use crate::record::{Block, Blocks, Due, Ending, Finished, ReadStamp, Timer};
use crate::timers::{Limits, Timers};
use crate::units::{Instant, Nanos, WallInstant};
use crate::wire::tls::{self, TlsFault};
use bytes::Bytes;
use crossbeam_queue::ArrayQueue;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Longest wait in the kernel: how late a stop from outside is noticed at most.
const LONGEST_WAIT: Nanos = Nanos::from_millis(50);
/// Wait between looks at an empty supply.
const HUNGRY_WAIT: Nanos = Nanos::from_micros(200);
/// The same just after a reply of a session: the next turn may be made of it at once.
const EAGER_WAIT: Nanos = Nanos::from_micros(50);
/// How long that goes on.
const EAGER_FOR: Nanos = Nanos::from_millis(2);
/// Most requests ready for the canaries of all workers.
const CANARY_SUPPLY: usize = 256;

/// What workers share with the feeder and the record reader. All of it lock-free and of fixed size.
#[derive(Debug)]
pub struct Shared {
    /// Requests in order of their trace, which is that of their dues under [`Load::Open`]; under [`Load::Sessions`] in no
    /// order.
    pub supply: ArrayQueue<Job>,
    /// Requests for the canaries: any worker's takes the next one.
    pub canary_supply: ArrayQueue<Job>,
    /// Nothing more will be put into the supply in this window.
    pub supply_over: AtomicBool,
    /// Empty blocks.
    pub pool: ArrayQueue<Block>,
    /// To the record reader.
    pub messages: ArrayQueue<Message>,
    /// End the window now: what runs is censored.
    pub stop: AtomicBool,
    /// Times a worker had to wait for the record reader.
    pub reader_waits: AtomicU64,
}

impl Shared {
    /// Queues for `slots` connections, `blocks` blocks and a supply of `depth` requests.
    pub fn new(slots: usize, blocks: usize, depth: usize) -> Self {
        let pool = ArrayQueue::new(blocks);
        while pool.push(Block::default()).is_ok() {}
        Shared {
            supply: ArrayQueue::new(depth.max(1)),
            canary_supply: ArrayQueue::new(CANARY_SUPPLY),
            supply_over: AtomicBool::new(false),
            messages: ArrayQueue::new(blocks + slots + 256),
            pool,
            stop: AtomicBool::new(false),
            reader_waits: AtomicU64::new(0),
        }
    }

    /// Hands a message to the record reader; waits when that is behind by the whole queue, and counts it.
    pub fn post(&self, message: Message) {
        let mut message = message;
        while let Err(back) = self.messages.push(message) {
            self.reader_waits.fetch_add(1, Ordering::Relaxed);
            message = back;
            std::thread::yield_now();
        }
    }
}

/// From a worker to the record reader.
#[allow(clippy::large_enum_variant)] // boxing the large one would allocate on a worker
#[derive(Debug)]
pub enum Message {
    /// A full block of the tape of the request on `conn`.
    Block {
        /// Worker.
        worker: u32,
        /// Slot.
        conn: u32,
        /// The block.
        block: Block,
    },
    /// A request is over. Its last block is inside.
    Finished(u32, Finished),
    /// A TX stamp that came after its request was over.
    LateWireOut {
        /// Worker.
        worker: u32,
        /// Number of the send.
        sequence: u64,
        /// The stamp.
        wall: WallInstant,
        /// When it was read.
        at: Instant,
    },
}

/// What a worker needs to know for the whole run.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    /// From 0.
    pub index: u32,
    /// Most slots of any window, the canary's not counted.
    pub slots: u32,
    /// The server's addresses: each new connection goes to the next one, beginning with the worker's own number.
    pub addresses: Arc<[SocketAddr]>,
    /// How connections are secured; None: they are not.
    pub tls: Option<tls::Client>,
    /// Bounds of every wait.
    pub limits: Limits,
    /// An event stream is asked for.
    pub streamed: bool,
    /// How long connections are kept.
    pub reuse: Reuse,
    /// A server of known truth that one more slot, after those of the load, keeps a stream to while a window runs. That
    /// stream counts in nothing that is reported of the load, but for the driver's own counters.
    pub canary: Option<SocketAddr>,
    /// While a window runs it looks for events without ever sleeping, and takes its core for itself.
    pub spin: bool,
}

/// What a slot is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotKind {
    /// The load that is measured.
    Load,
    /// One request after another to a server of known truth.
    Canary,
}

impl WorkerOptions {
    /// Connections that the driver must have room for.
    pub fn connections(&self) -> u32 {
        self.slots + u32::from(self.canary.is_some())
    }

    fn kind(&self, slot: u32) -> SlotKind {
        if slot < self.slots { SlotKind::Load } else { SlotKind::Canary }
    }
}

/// Whom slots of one kind speak to, and how.
#[derive(Debug)]
struct Server {
    addresses: Arc<[SocketAddr]>,
    /// Place in them for the next connection.
    next: usize,
    tls: Option<tls::Client>,
    streamed: bool,
    reuse: Reuse,
    keep_alive: KeepAlive,
}

/// The canary of a worker.
#[derive(Debug)]
struct Canary {
    server: Server,
    slot: u32,
    /// It is free and a window runs.
    waiting: bool,
}

/// What opening the connections before a window came to.
#[derive(Clone, Debug, Default)]
pub struct Prepared {
    /// Connections opened now.
    pub opened: u32,
    /// Their connect times, in ns.
    pub connect_ns: Vec<u64>,
    /// Why some could not be opened.
    pub failure: Option<Ending>,
}

/// What a window was like for one worker.
#[derive(Clone, Copy, Debug, Default)]
pub struct WindowReport {
    /// Worker.
    pub worker: u32,
    /// Counters of the driver, in this window.
    pub driver: DriverCounters,
    /// Connections opened in it.
    pub opened: u32,
    /// Connections the server ended in it, announced or not.
    pub closed_by_server: u32,
    /// Closed loop: times a free slot found no request ready. Open loop: requests that were made only after they
    /// were due, while a slot was free.
    pub starved: u32,
    /// With dues: requests taken from the supply whose due had not come when the window was stopped, and that are not in
    /// it again.
    pub never_due: u32,
    /// Times the pool had no block.
    pub pool_exhausted: u32,
    /// What is known of keep-alive at its end.
    pub keep_alive: KeepAlive,
}

/// What decides when a request starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// A slot that becomes free takes the next request at once.
    Closed,
    /// Each request has a due of its own, [`Job::due`]. One whose due has passed goes at once and keeps it; with no
    /// slot free they wait in order.
    Open,
    /// Each request has a due of its own, and comes into the supply shortly before it or after it, in no order: turns of
    /// sessions, which are made when the replies that they need are there. A worker holds as many as it has slots free for
    /// them, and the one that is due first goes first.
    Sessions,
}

/// How requests come to slots in the current window.
#[derive(Debug)]
enum Dispatch {
    /// Slots fetch them.
    Closed {
        /// Slots that take requests.
        live: u32,
    },
    /// They wait for their due, in hand.
    Due {
        /// What dues count from.
        opened: Instant,
        /// In what order they come.
        order: Order,
        /// Slots with a request.
        busy: u32,
        /// Nothing more will come.
        over: bool,
    },
}

/// The order of a supply whose requests have dues.
#[derive(Clone, Copy, Debug)]
enum Order {
    /// That of their dues: one in hand is enough.
    ByDue {
        /// When the supply was last found empty while a slot was free.
        found_empty: Option<Instant>,
    },
    /// None: as many in hand as there are slots for.
    Any {
        /// When a slot became free last: a request may be made of its reply.
        freed: Option<Instant>,
    },
}

impl Order {
    /// Most requests in hand while `free` slots are free. One is fetched only while there is a slot for it: without,
    /// another worker may have one.
    fn most_in_hand(self, free: usize) -> usize {
        match self {
            Order::ByDue { .. } => free.min(1),
            Order::Any { .. } => free,
        }
    }

    /// Between looks at an empty supply.
    fn patience(self, now: Instant) -> Nanos {
        match self {
            Order::Any { freed: Some(at) } if now < at + EAGER_FOR => EAGER_WAIT,
            Order::Any { .. } | Order::ByDue { .. } => HUNGRY_WAIT,
        }
    }
}

/// A request in hand: by its due, those due at the same time in order of their ids.
#[derive(Debug)]
struct InHand {
    due: Instant,
    job: Job,
}

impl PartialEq for InHand {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for InHand {}

impl PartialOrd for InHand {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for InHand {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.job.id).cmp(&(other.due, other.job.id))
    }
}

/// Free slots where requests have dues, each in one of two stacks. The connection used last is used next: few stay warm
/// rather than many lukewarm, and those that a server's idle timeout is about to close are not the ones to send on.
#[derive(Debug, Default)]
struct Idle {
    /// With a connection when they became free; it may have been lost since.
    connected: Vec<u32>,
    /// Without one.
    unconnected: Vec<u32>,
}

impl Idle {
    fn len(&self) -> usize {
        self.connected.len() + self.unconnected.len()
    }

    fn put(&mut self, slot: u32, conn: &Conn) {
        match conn {
            Conn::Ready(_) => self.connected.push(slot),
            _ => self.unconnected.push(slot),
        }
    }

    /// A slot with a connection, else one without.
    fn take(&mut self, conns: &[Conn]) -> Option<u32> {
        while let Some(slot) = self.connected.pop() {
            if let Conn::Ready(_) = conns[slot as usize] {
                return Some(slot);
            }
            self.unconnected.push(slot);
        }
        self.unconnected.pop()
    }
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Open(u32),
    Close(u32),
    Send(u32),
    /// Whatever TLS has to send by itself.
    SendAside(u32),
}

/// How a connection ended from the other side.
#[derive(Clone, Copy, Debug)]
enum Gone {
    /// With the end of what it sends.
    Closed,
    /// The same without the word that TLS has for it.
    Unannounced,
    /// With an errno.
    Broken(i32),
    /// TLS could not go on.
    Tls(TlsFault),
}

/// A worker with its driver.
pub struct Worker<D> {
    driver: D,
    desk: Desk,
    busy_ns: Arc<AtomicU64>,
}

/// Everything of a worker but the driver: what events arrive at.
struct Desk {
    options: WorkerOptions,
    shared: Arc<Shared>,
    conns: Box<[Conn]>,
    exchanges: Box<[Exchange]>,
    /// TLS of the connections that have it, from TCP's connect on until they are closed.
    sessions: Box<[Option<tls::Session>]>,
    /// What the current read decrypts to.
    plain: Vec<u8>,
    /// When each slot became free.
    free_at: Box<[Due]>,
    timers: Timers,
    actions: Vec<Action>,
    /// Slots that found no request ready, the longest waiting first.
    hungry: VecDeque<u32>,
    dispatch: Dispatch,
    /// Requests that wait for their due: never more than slots.
    hand: BinaryHeap<Reverse<InHand>>,
    /// Free slots where requests have dues.
    idle: Idle,
    /// Slots being opened before a window.
    preparing: u32,
    prepared: Prepared,
    /// Of the load.
    server: Server,
    canary: Option<Canary>,
    sequence: u64,
    now: Instant,
    stopping: bool,
    report: WindowReport,
}

/// [`Blocks`] of one slot, for the duration of one call.
struct SlotBlocks<'a> {
    shared: &'a Shared,
    worker: u32,
    conn: u32,
    exhausted: &'a mut u32,
}

impl Blocks for SlotBlocks<'_> {
    fn take(&mut self) -> Option<Block> {
        let block = self.shared.pool.pop();
        *self.exhausted += u32::from(block.is_none());
        block
    }
    fn full(&mut self, block: Block) {
        self.shared.post(Message::Block { worker: self.worker, conn: self.conn, block });
    }
}

impl<D: Driver> Worker<D> {
    /// A worker without connections.
    pub fn new(driver: D, options: WorkerOptions, shared: Arc<Shared>) -> Self {
        let slots = options.connections() as usize;
        let server = Server {
            addresses: Arc::clone(&options.addresses),
            next: options.index as usize,
            tls: options.tls.clone(),
            streamed: options.streamed,
            reuse: options.reuse,
            keep_alive: KeepAlive::default(),
        };
        let canary = options.canary.map(|address| Canary {
            server: Server {
                addresses: Arc::new([address]),
                next: 0,
                tls: None,
                streamed: true,
                reuse: Reuse::Unlimited,
                keep_alive: KeepAlive::default(),
            },
            slot: options.slots,
            waiting: false,
        });
        let due = Due { at: Instant::default(), wall: None };
        let desk = Desk {
            timers: Timers::new(options.limits, options.connections()),
            options,
            shared,
            conns: (0..slots).map(|_| Conn::Closed { by_server: false }).collect(),
            exchanges: (0..slots).map(|_| Exchange::default()).collect(),
            free_at: vec![due; slots].into_boxed_slice(),
            sessions: (0..slots).map(|_| None).collect(),
            plain: Vec::new(),
            actions: Vec::with_capacity(slots * 4 + 16),
            hungry: VecDeque::with_capacity(slots),
            dispatch: Dispatch::Closed { live: 0 },
            hand: BinaryHeap::with_capacity(slots),
            idle: Idle { connected: Vec::with_capacity(slots), unconnected: Vec::with_capacity(slots) },
            preparing: 0,
            prepared: Prepared::default(),
            server,
            canary,
            sequence: 0,
            now: driver.now(),
            stopping: false,
            report: WindowReport::default(),
        };
        Worker { driver, desk, busy_ns: Arc::default() }
    }

    /// Opens the connections of slots `0..slots` that are not open, before a window. Nothing to do when each
    /// request opens its own.
    pub fn prepare(&mut self, slots: u32) -> Prepared {
        let desk = &mut self.desk;
        desk.prepared = Prepared { connect_ns: Vec::with_capacity(slots as usize), ..Prepared::default() };
        // closes that happened while nobody looked are noticed first, all of them: one return of the kernel brings some
        // twenty, and a connection that is taken for open loses its next request
        for _ in 0..=slots {
            let known = self.driver.counters().completions;
            self.driver.turn(self.driver.now(), &mut self.desk);
            self.act();
            if self.driver.counters().completions == known {
                break;
            }
        }
        let desk = &mut self.desk;
        desk.now = self.driver.now();
        if desk.server.reuse.goes_on(1) && desk.server.keep_alive != KeepAlive::Refused {
            (0..slots).for_each(|slot| desk.open_ahead(slot));
        }
        self.act();
        while self.desk.preparing > 0 {
            self.turn();
        }
        self.rest();
        std::mem::take(&mut self.desk.prepared)
    }

    /// Runs a closed-loop window: [`Worker::run`] with [`Load::Closed`].
    pub fn run_window(&mut self, slots: u32, opened: Instant) -> WindowReport {
        self.run(Load::Closed, slots, opened)
    }

    /// Runs a window on slots `0..slots` from `opened` on, until the supply is over and every reply is in, or the
    /// window is stopped.
    pub fn run(&mut self, load: Load, slots: u32, opened: Instant) -> WindowReport {
        let before = self.driver.counters();
        self.desk.begin_window();
        while self.driver.now() < opened {
            let until = self.until(opened);
            self.driver.turn(until, &mut self.desk);
        }
        self.desk.now = self.driver.now();
        self.desk.open_window(load, slots, opened);
        self.act();
        while !self.desk.window_is_over() {
            self.turn();
        }
        self.desk.end_canary();
        self.act();
        self.rest();
        let mut report = self.desk.report;
        report.worker = self.desk.options.index;
        report.keep_alive = self.desk.server.keep_alive;
        report.driver = since(self.driver.counters(), before);
        report
    }

    /// Closes every connection.
    pub fn close_all(&mut self) {
        for (slot, conn) in self.desk.conns.iter_mut().enumerate() {
            *conn = Conn::Closed { by_server: false };
            self.desk.sessions[slot] = None;
            self.driver.close(ConnId(slot as u32));
        }
        self.driver.turn(self.driver.now(), &mut self.desk);
    }

    /// The driver's busy time in ns, brought up to date once a turn: readable from any thread.
    pub fn busy_ns(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.busy_ns)
    }

    /// The driver.
    pub fn driver(&self) -> &D {
        &self.driver
    }

    /// Until when to wait in the kernel, when there is nothing to do before `wake`.
    fn until(&self, wake: Instant) -> Instant {
        if self.desk.options.spin { self.driver.now() } else { wake }
    }

    fn turn(&mut self) {
        let until = self.until(self.desk.wake(self.driver.now()));
        self.driver.turn(until, &mut self.desk);
        self.busy_ns.store(self.driver.counters().busy_ns, Ordering::Relaxed);
        self.desk.after_turn(self.driver.now());
        self.act();
    }

    /// Nothing is turned until the next order, which may be minutes away.
    fn rest(&mut self) {
        self.driver.rest();
        self.busy_ns.store(self.driver.counters().busy_ns, Ordering::Relaxed);
    }

    /// Does what the desk asked for.
    fn act(&mut self) {
        for i in 0..self.desk.actions.len() {
            match self.desk.actions[i] {
                Action::Open(slot) => {
                    if let Some(address) = self.desk.address_of(slot) {
                        self.driver.open(ConnId(slot), address);
                    }
                }
                Action::Close(slot) => self.driver.close(ConnId(slot)),
                Action::Send(slot) => {
                    if let Some((sequence, request)) = self.desk.outgoing(slot) {
                        self.driver.send(ConnId(slot), sequence, request);
                    }
                }
                Action::SendAside(slot) => {
                    let session = self.desk.sessions[slot as usize].as_mut();
                    if let Some(bytes) = session.and_then(tls::Session::outgoing) {
                        self.driver.send_aside(ConnId(slot), bytes);
                    }
                }
            }
        }
        self.desk.actions.clear();
    }
}

/// When a request of a load with dues is due.
fn due_of(job: &Job, opened: Instant) -> Instant {
    opened + job.due.expect("under such a load every request has a due")
}

fn since(now: DriverCounters, before: DriverCounters) -> DriverCounters {
    DriverCounters {
        batches: now.batches - before.batches,
        max_batch: now.max_batch,
        completions: now.completions - before.completions,
        busy_ns: now.busy_ns - before.busy_ns,
        receives_repeated: now.receives_repeated - before.receives_repeated,
        ring_overflow: now.ring_overflow - before.ring_overflow,
        rx_stamps_missing: now.rx_stamps_missing - before.rx_stamps_missing,
    }
}

impl Desk {
    fn begin_window(&mut self) {
        self.report = WindowReport::default();
        self.hungry.clear();
        self.idle.connected.clear();
        self.idle.unconnected.clear();
        self.hand.clear();
        self.dispatch = Dispatch::Closed { live: 0 };
        self.stopping = false;
    }

    fn open_window(&mut self, load: Load, slots: u32, opened: Instant) {
        assert!(slots <= self.options.slots, "slots are sized from the plan");
        match load {
            Load::Closed => {
                self.dispatch = Dispatch::Closed { live: slots };
                for slot in 0..slots {
                    self.free_at[slot as usize] = Due { at: opened, wall: None };
                    self.is_free(slot);
                }
            }
            Load::Open | Load::Sessions => {
                // without a slot there is nothing to fetch a request for
                let over = slots == 0;
                let order = match load {
                    Load::Sessions => Order::Any { freed: None },
                    _ => Order::ByDue { found_empty: None },
                };
                self.dispatch = Dispatch::Due { opened, order, busy: 0, over };
                (0..slots).rev().for_each(|slot| self.idle.put(slot, &self.conns[slot as usize]));
                self.dispatch_due();
            }
        }
        if let Some(canary) = &mut self.canary {
            canary.waiting = true;
            self.free_at[canary.slot as usize] = Due { at: opened, wall: None };
        }
        self.feed_canary();
    }

    /// The server of a slot.
    fn server_of(&mut self, slot: u32) -> &mut Server {
        match (self.options.kind(slot), &mut self.canary) {
            (SlotKind::Canary, Some(canary)) => &mut canary.server,
            (SlotKind::Canary, None) => panic!("slot {slot} is beyond those of the plan"),
            (SlotKind::Load, _) => &mut self.server,
        }
    }

    /// The canary takes its next request, when it is free and the window goes on.
    fn feed_canary(&mut self) {
        if self.stopping || self.window_is_over() {
            return;
        }
        let Some(canary) = self.canary.as_mut().filter(|canary| canary.waiting) else { return };
        if let Some(job) = self.shared.canary_supply.pop() {
            canary.waiting = false;
            let slot = canary.slot;
            self.start(slot, Current::new(job, self.free_at[slot as usize], self.now));
        }
    }

    /// The window is over, and with it the canary's request.
    fn end_canary(&mut self) {
        let Some(slot) = self.canary.as_ref().map(|canary| canary.slot) else { return };
        self.censor(slot);
        if let Some(canary) = &mut self.canary {
            canary.waiting = false;
        }
    }

    fn window_is_over(&self) -> bool {
        match &self.dispatch {
            Dispatch::Closed { live } => *live == 0,
            Dispatch::Due { busy, over, .. } => *over && *busy == 0 && self.hand.is_empty(),
        }
    }

    /// When there is something to do at the latest.
    fn wake(&self, now: Instant) -> Instant {
        let starving = match &self.dispatch {
            Dispatch::Closed { .. } => (!self.hungry.is_empty()).then_some(HUNGRY_WAIT),
            Dispatch::Due { order, over, .. } => {
                let wants = !over && self.hand.len() < order.most_in_hand(self.idle.len());
                wants.then(|| order.patience(now))
            }
        };
        let due = self.hand.peek().map(|Reverse(first)| first.due);
        let patience = now + starving.unwrap_or(LONGEST_WAIT);
        [self.timers.next(), due].into_iter().flatten().fold(patience, Instant::min)
    }

    /// With dues: sends whatever is due, in order, as far as there are slots.
    fn dispatch_due(&mut self) {
        while let Some(InHand { due, job }) = self.next_due() {
            let slot = self.idle.take(&self.conns).expect("a request is in hand only while a slot is free");
            self.start(slot, Current::new(job, Due { at: due, wall: None }, self.now));
        }
    }

    /// The next request if its due has come.
    fn next_due(&mut self) -> Option<InHand> {
        self.fetch();
        let Dispatch::Due { busy, .. } = &mut self.dispatch else { return None };
        if self.hand.peek()?.0.due > self.now {
            return None;
        }
        *busy += 1;
        self.hand.pop().map(|Reverse(first)| first)
    }

    /// Takes from the supply what there are slots for.
    fn fetch(&mut self) {
        let Dispatch::Due { opened, order, over, .. } = &mut self.dispatch else { return };
        while !*over && self.hand.len() < order.most_in_hand(self.idle.len()) {
            let ended = self.shared.supply_over.load(Ordering::Acquire);
            match self.shared.supply.pop() {
                Some(job) => {
                    let due = due_of(&job, *opened);
                    if let Order::ByDue { found_empty } = order {
                        let missed = found_empty.is_some_and(|at| due <= at);
                        self.report.starved += u32::from(missed);
                    }
                    self.hand.push(Reverse(InHand { due, job }));
                }
                None if ended => *over = true,
                None => {
                    if let Order::ByDue { found_empty } = order {
                        *found_empty = Some(self.now);
                    }
                    return;
                }
            }
        }
    }

    fn open_ahead(&mut self, slot: u32) {
        if let Conn::Closed { by_server } = self.conns[slot as usize] {
            self.preparing += 1;
            self.open(slot, by_server, None);
        }
    }

    fn open(&mut self, slot: u32, replaces: bool, current: Option<Current>) {
        let server = self.server_of(slot);
        let address = (server.next % server.addresses.len()) as u32;
        server.next += 1;
        let current = current.map(|current| Current { address, ..current });
        self.conns[slot as usize] = Conn::Opening { since: self.now, replaces, address, current };
        self.timers.arm(Timer::Connect, slot, self.now);
        self.actions.push(Action::Open(slot));
    }

    /// Where the connection that is being opened goes.
    fn address_of(&mut self, slot: u32) -> Option<SocketAddr> {
        match self.conns[slot as usize] {
            Conn::Opening { address, .. } => self.server_of(slot).addresses.get(address as usize).copied(),
            _ => None,
        }
    }

    /// Gives a connection up. Its state is set by the caller.
    fn close(&mut self, slot: u32) {
        self.sessions[slot as usize] = None;
        self.actions.push(Action::Close(slot));
    }

    /// A slot has become free.
    fn is_free(&mut self, slot: u32) {
        match (self.options.kind(slot), &mut self.canary) {
            (SlotKind::Canary, Some(canary)) => canary.waiting = true,
            _ => self.load_slot_is_free(slot),
        }
    }

    /// A slot of the load has become free. In closed loop it takes the next request; when none is ready, that is counted once.
    fn load_slot_is_free(&mut self, slot: u32) {
        match &mut self.dispatch {
            Dispatch::Closed { .. } => {
                let waiting = self.hungry.len();
                self.take_job(slot);
                self.report.starved += u32::from(self.hungry.len() > waiting);
            }
            Dispatch::Due { busy, order, .. } => {
                *busy -= 1;
                if let Order::Any { freed } = order {
                    *freed = Some(self.now);
                }
                self.idle.put(slot, &self.conns[slot as usize]);
            }
        }
    }

    /// Closed loop: a free slot takes the next request, waits for one, or retires.
    fn take_job(&mut self, slot: u32) {
        let over = self.shared.supply_over.load(Ordering::Acquire);
        let job = if self.stopping { None } else { self.shared.supply.pop() };
        match job {
            Some(job) => self.start(slot, Current::new(job, self.free_at[slot as usize], self.now)),
            None if over || self.stopping => self.retire(1),
            None => self.hungry.push_back(slot),
        }
    }

    /// Closed loop: so many slots take no more requests.
    fn retire(&mut self, slots: u32) {
        if let Dispatch::Closed { live } = &mut self.dispatch {
            *live -= slots;
        }
    }

    /// A free slot begins with a request.
    fn start(&mut self, slot: u32, current: Current) {
        self.timers.arm(Timer::Request, slot, self.now);
        match std::mem::replace(&mut self.conns[slot as usize], Conn::Closed { by_server: false }) {
            Conn::Ready(open) => self.send(slot, open, current),
            Conn::Closed { by_server } => self.open(slot, by_server, Some(current)),
            Conn::Opening { .. } | Conn::Securing { .. } | Conn::Busy(..) => {
                panic!("slot {slot} took a request while it had one")
            }
        }
    }

    fn send(&mut self, slot: u32, open: Open, mut current: Current) {
        self.sequence += 1;
        current.sequence = self.sequence;
        current.reused = open.carried > 0;
        current.reopened = open.carried == 0 && open.replaces;
        current.address = open.address;
        let streamed = self.server_of(slot).streamed;
        self.exchanges[slot as usize].begin(streamed);
        self.timers.arm(Timer::Stall, slot, self.now);
        self.conns[slot as usize] = Conn::Busy(open, current);
        self.actions.push(Action::Send(slot));
    }

    /// What of the slot's request goes over the wire.
    fn outgoing(&mut self, slot: u32) -> Option<(u64, Bytes)> {
        let Conn::Busy(_, current) = &mut self.conns[slot as usize] else { return None };
        let bytes = match &mut self.sessions[slot as usize] {
            Some(session) => session.encrypt(&current.job.request),
            None => current.job.request.clone(),
        };
        current.wire_bytes = bytes.len() as u64;
        Some((current.sequence, bytes))
    }

    /// Timers, hungry slots, requests that are due, a stop from outside, and the canary.
    fn after_turn(&mut self, now: Instant) {
        self.now = now;
        while let Some((timer, slot)) = self.timers.expired(now) {
            self.on_timer(timer, slot);
        }
        for _ in 0..self.hungry.len() {
            let Some(slot) = self.hungry.pop_front() else { break };
            self.take_job(slot);
        }
        if !self.stopping && !self.window_is_over() && self.shared.stop.load(Ordering::Relaxed) {
            self.stop();
        }
        self.dispatch_due();
        self.feed_canary();
    }

    fn stop(&mut self) {
        self.stopping = true;
        self.retire(self.hungry.len() as u32);
        self.hungry.clear();
        if let Dispatch::Due { opened, order, over, .. } = &mut self.dispatch {
            *over = true;
            while let Some(Reverse(InHand { due, job })) = self.hand.pop() {
                if due <= self.now {
                    let unsent = job.not_sent(*opened, self.now);
                    self.shared.post(Message::Finished(self.options.index, unsent));
                    continue;
                }
                // of many in hand some become due before the window is closed, which is for others to say
                let left = match order {
                    Order::Any { .. } => self.shared.supply.push(job),
                    Order::ByDue { .. } => Err(job),
                };
                self.report.never_due += u32::from(left.is_err());
            }
        }
        (0..self.options.slots).for_each(|slot| self.censor(slot));
    }

    /// Cuts the request of a slot short, if it has one.
    fn censor(&mut self, slot: u32) {
        let conn = std::mem::replace(&mut self.conns[slot as usize], Conn::Closed { by_server: false });
        match conn {
            Conn::Busy(_, current)
            | Conn::Opening { current: Some(current), .. }
            | Conn::Securing { current: Some(current), .. } => {
                self.close(slot);
                self.end(slot, current, Ending::Censored, None);
            }
            other => self.conns[slot as usize] = other,
        }
    }

    /// Adds to a count that is about the load: what the canary meets is in its own records.
    fn count(&mut self, slot: u32, count: impl FnOnce(&mut WindowReport) -> &mut u32, n: u32) {
        if self.options.kind(slot) == SlotKind::Load {
            *count(&mut self.report) += n;
        }
    }

    fn on_timer(&mut self, timer: Timer, slot: u32) {
        let ending = Ending::TimedOut(timer, self.timers.limits().of(timer));
        match std::mem::replace(&mut self.conns[slot as usize], Conn::Closed { by_server: false }) {
            Conn::Busy(_, current) => {
                self.close(slot);
                self.end(slot, current, ending, None);
            }
            Conn::Opening { current, .. } | Conn::Securing { current, .. } => {
                self.close(slot);
                self.not_opened(slot, current, ending);
            }
            other => self.conns[slot as usize] = other,
        }
    }

    fn not_opened(&mut self, slot: u32, current: Option<Current>, ending: Ending) {
        self.timers.disarm(Timer::Connect, slot);
        match current {
            Some(current) => self.end(slot, current, ending, None),
            None => {
                self.preparing -= 1;
                self.prepared.failure.get_or_insert(ending);
            }
        }
    }

    /// A request is over: its record goes out, and its slot takes the next one. `end` is the read that ended
    /// it, when one did. The connection's own state has been set by the caller.
    fn end(&mut self, slot: u32, current: Current, ending: Ending, end: Option<ReadStamp>) {
        self.timers.disarm_all(slot);
        let mut finished = current.finished(slot, ending, self.now);
        finished.block = self.exchanges[slot as usize].cut_tape();
        self.shared.post(Message::Finished(self.options.index, finished));
        self.free_at[slot as usize] = match end {
            Some(read) => Due { at: read.seen, wall: read.wall },
            None => Due { at: self.now, wall: None },
        };
        self.is_free(slot);
    }
}

impl Events for Desk {
    fn on(&mut self, conn: ConnId, event: Event<'_>) {
        let slot = conn.0;
        match event {
            Event::Connected { at } => self.on_connected(slot, at),
            Event::ConnectFailed { at, errno } => self.on_connect_failed(slot, at, Ending::NoConnection(errno)),
            Event::NoSocket { at, fault } => self.on_connect_failed(slot, at, Ending::Client(fault)),
            Event::Handed { sequence, submit, handed } => {
                if let Some(current) = self.current(slot, sequence) {
                    (current.submit, current.handed) = (Some(submit), Some(handed));
                }
            }
            Event::Sent { sequence, at } => {
                if let Some(current) = self.current(slot, sequence) {
                    current.sent = Some(at);
                }
            }
            // what the server has to say about it may still be read: the receiving side ends the request
            Event::SendFailed(errno) => {
                if let Conn::Busy(_, current) = &mut self.conns[slot as usize] {
                    current.send_failed = Some(errno);
                }
            }
            Event::WireOut { sequence, wall, at } => match self.current(slot, sequence) {
                Some(current) => current.wire_out = Some((wall, at)),
                None => {
                    let worker = self.options.index;
                    self.shared.post(Message::LateWireOut { worker, sequence, wall, at });
                }
            },
            Event::Received(bytes, stamp) if self.sessions[slot as usize].is_some() => {
                self.on_encrypted(slot, bytes, stamp);
            }
            Event::Received(bytes, stamp) => self.on_received(slot, bytes, bytes.len(), stamp, false),
            Event::PeerClosed { at } => {
                let announced = self.sessions[slot as usize].is_none();
                self.on_gone(slot, at, if announced { Gone::Closed } else { Gone::Unannounced });
            }
            Event::ReceiveFailed { at, errno } => self.on_gone(slot, at, Gone::Broken(errno)),
        }
    }
}

impl Desk {
    /// The request of `slot`, when its last send is `sequence`.
    fn current(&mut self, slot: u32, sequence: u64) -> Option<&mut Current> {
        match &mut self.conns[slot as usize] {
            Conn::Busy(_, current) if current.sequence == sequence => Some(current),
            _ => None,
        }
    }

    fn on_connected(&mut self, slot: u32, at: Instant) {
        self.now = at;
        self.count(slot, |r| &mut r.opened, 1);
        let conn = std::mem::replace(&mut self.conns[slot as usize], Conn::Closed { by_server: false });
        let Conn::Opening { since, replaces, address, current } = conn else {
            panic!("slot {slot} was connected without having asked for it");
        };
        let open = Open { carried: 0, replaces, address, idle_since: at };
        let tcp = at.saturating_since(since);
        match self.server_of(slot).tls.as_ref().map(tls::Client::session) {
            None => self.is_open(slot, open, current, tcp, None),
            Some(Ok(session)) => {
                self.sessions[slot as usize] = Some(session);
                self.conns[slot as usize] = Conn::Securing { since: at, tcp, open, current };
                self.actions.push(Action::SendAside(slot));
            }
            Some(Err(fault)) => {
                self.close(slot);
                self.not_opened(slot, current, Ending::Tls(fault));
            }
        }
    }

    /// A connection has come as far as to carry requests.
    fn is_open(&mut self, slot: u32, open: Open, current: Option<Current>, tcp: Nanos, tls: Option<Nanos>) {
        self.timers.disarm(Timer::Connect, slot);
        match current {
            Some(mut current) => {
                (current.connect, current.tls) = (Some(tcp), tls);
                self.send(slot, open, current);
            }
            None => {
                self.preparing -= 1;
                self.prepared.opened += 1;
                self.prepared.connect_ns.push(tcp.ns());
                self.conns[slot as usize] = Conn::Ready(open);
            }
        }
    }

    /// Bytes of a connection that is secured: what they decrypt to is taken in under the stamp of their read.
    fn on_encrypted(&mut self, slot: u32, bytes: &[u8], mut stamp: ReadStamp) {
        self.now = stamp.seen;
        let Some(session) = &mut self.sessions[slot as usize] else { return };
        let mut plain = std::mem::take(&mut self.plain);
        plain.clear();
        let arrived = session.decrypt(bytes, &mut plain);
        let secured = session.is_open();
        // the stamp is that of the last byte, and what was decrypted ended before it
        stamp.filled |= arrived.more_followed;
        if let Conn::Securing { .. } = self.conns[slot as usize] {
            match arrived.fault.or(arrived.closed.then_some(TlsFault::CutInHandshake)) {
                Some(fault) => self.not_secured(slot, fault),
                None if secured => self.on_secured(slot),
                None => {}
            }
        }
        let gone = arrived.fault.map(Gone::Tls).or(arrived.closed.then_some(Gone::Closed));
        if self.sessions[slot as usize].is_some() {
            if plain.is_empty() {
                self.on_silent_read(slot, bytes.len(), arrived.inside_record);
            } else {
                self.on_received(slot, &plain, bytes.len(), stamp, gone.is_some());
            }
        }
        if let (Some(gone), true) = (gone, self.sessions[slot as usize].is_some()) {
            self.on_gone(slot, stamp.seen, gone);
        }
        if self.sessions[slot as usize].as_ref().is_some_and(tls::Session::has_outgoing) {
            self.actions.push(Action::SendAside(slot));
        }
        self.plain = plain;
    }

    /// The TLS handshake is over: what waits goes out.
    fn on_secured(&mut self, slot: u32) {
        let conn = std::mem::replace(&mut self.conns[slot as usize], Conn::Closed { by_server: false });
        let Conn::Securing { since, tcp, open, current } = conn else {
            panic!("slot {slot} was secured without having asked for it");
        };
        let open = Open { idle_since: self.now, ..open };
        self.is_open(slot, open, current, tcp, Some(self.now.saturating_since(since)));
    }

    /// There will be no TLS on this connection.
    fn not_secured(&mut self, slot: u32, fault: TlsFault) {
        let conn = std::mem::replace(&mut self.conns[slot as usize], Conn::Closed { by_server: false });
        if let Conn::Securing { current, tcp, .. } = conn {
            self.close(slot);
            let current = current.map(|current| Current { connect: Some(tcp), ..current });
            self.not_opened(slot, current, Ending::Tls(fault));
        }
    }

    /// A read of TLS's own records, or of a part of one of the reply's.
    fn on_silent_read(&mut self, slot: u32, wire_bytes: usize, of_reply: bool) {
        if let Conn::Busy(_, current) = &mut self.conns[slot as usize]
            && current.submit.is_some()
        {
            current.bytes_in += wire_bytes as u64;
            current.reads += u32::from(of_reply);
            self.timers.arm(Timer::Stall, slot, self.now);
        }
    }

    /// The driver has closed the slot already.
    fn on_connect_failed(&mut self, slot: u32, at: Instant, ending: Ending) {
        self.now = self.now.max(at);
        let conn = std::mem::replace(&mut self.conns[slot as usize], Conn::Closed { by_server: false });
        if let Conn::Opening { current, .. } = conn {
            self.not_opened(slot, current, ending);
        }
    }

    /// Bytes of a reply, which were `wire_bytes` on the wire; the connection is `ending` when it can carry no other request.
    fn on_received(&mut self, slot: u32, bytes: &[u8], wire_bytes: usize, mut stamp: ReadStamp, ending: bool) {
        self.now = stamp.seen;
        let current = match &mut self.conns[slot as usize] {
            // the next request was taken up, but nothing of it has left: what came is not its reply
            Conn::Busy(_, current) if current.submit.is_none() => return self.move_to_another(slot),
            Conn::Busy(_, current) => current,
            // bytes nobody asked for: what they belong to is unknowable, so the connection is given up
            conn @ Conn::Ready(_) => {
                *conn = Conn::Closed { by_server: false };
                return self.close(slot);
            }
            Conn::Closed { .. } | Conn::Opening { .. } | Conn::Securing { .. } => return,
        };
        stamp.read_no = current.reads;
        current.reads += 1;
        current.bytes_in += wire_bytes as u64;
        self.timers.arm(Timer::Stall, slot, self.now);
        let (taken, progress) = self.with_exchange(slot, |exchange, blocks| exchange.on_read(bytes, stamp, blocks));
        match progress {
            Progress::Over(how) => self.on_over(slot, how, taken == bytes.len(), ending, stamp),
            Progress::More => {
                if self.exchanges[slot as usize].seen_done() && !self.timers.is_armed(Timer::Drain, slot) {
                    self.timers.arm(Timer::Drain, slot, self.now);
                }
            }
        }
    }

    /// A request of which nothing has left goes out on another connection.
    fn move_to_another(&mut self, slot: u32) {
        let conn = std::mem::replace(&mut self.conns[slot as usize], Conn::Closed { by_server: false });
        if let Conn::Busy(_, current) = conn {
            self.close(slot);
            self.timers.disarm(Timer::Stall, slot);
            self.open(slot, false, Some(current));
        }
    }

    /// A reply is over, by the read stamped `end`; `all` when nothing followed it there, `closing` when the connection's end
    /// did.
    fn on_over(&mut self, slot: u32, ending: Ending, all: bool, closing: bool, end: ReadStamp) {
        let conn = std::mem::replace(&mut self.conns[slot as usize], Conn::Closed { by_server: false });
        let Conn::Busy(open, current) = conn else { panic!("slot {slot} got a reply to nothing") };
        let exchange = &self.exchanges[slot as usize];
        let whole = ending == Ending::Complete && all && current.sent.is_some();
        let kept = whole && exchange.keep_alive();
        let keeps = exchange.keep_alive() && !closing;
        let server = self.server_of(slot);
        if kept && open.carried > 0 {
            server.keep_alive.reuse_worked();
        }
        let open = Open { carried: open.carried + 1, idle_since: end.seen, ..open };
        if kept && closing {
            server.keep_alive.found_closed(open, end.seen);
        }
        let (goes_on, refuses) = (server.reuse.goes_on(open.carried), server.keep_alive == KeepAlive::Refused);
        self.conns[slot as usize] = if kept && !closing && goes_on && !refuses {
            Conn::Ready(open)
        } else {
            self.close(slot);
            // where a connection carries no more requests than asked, its end is nobody's doing but ours
            let by_server = whole && goes_on && (!keeps || refuses);
            self.count(slot, |r| &mut r.closed_by_server, u32::from(by_server));
            Conn::Closed { by_server }
        };
        self.end(slot, current, ending, Some(end));
    }

    /// The peer closed, or the connection broke.
    fn on_gone(&mut self, slot: u32, at: Instant, gone: Gone) {
        self.now = self.now.max(at);
        let conn = std::mem::replace(&mut self.conns[slot as usize], Conn::Closed { by_server: true });
        match conn {
            Conn::Busy(open, current) => {
                self.close(slot);
                self.count(slot, |r| &mut r.closed_by_server, 1);
                if current.may_retry() && !matches!(gone, Gone::Tls(_)) {
                    let now = self.now;
                    self.server_of(slot).keep_alive.found_closed(open, now);
                    self.exchanges[slot as usize].cut_tape().into_iter().for_each(|block| {
                        // nothing was read, so nothing of worth is on it
                        let _ = self.shared.pool.push(block);
                    });
                    self.timers.disarm(Timer::Stall, slot);
                    self.open(slot, true, Some(current.retry()));
                    return;
                }
                let ending = match (gone, current.send_failed) {
                    (Gone::Tls(fault), _) => Ending::Tls(fault),
                    (Gone::Broken(errno), _) | (_, Some(errno)) => Ending::Broken(errno),
                    (Gone::Unannounced, None) => Ending::NoCloseNotify,
                    (Gone::Closed, None) => self.with_exchange(slot, |exchange, blocks| exchange.on_close(blocks)),
                };
                self.end(slot, current, ending, None);
            }
            Conn::Ready(open) => {
                self.close(slot);
                self.count(slot, |r| &mut r.closed_by_server, 1);
                let now = self.now;
                self.server_of(slot).keep_alive.found_closed(open, now);
            }
            securing @ Conn::Securing { .. } => {
                self.conns[slot as usize] = securing;
                self.not_secured(slot, TlsFault::CutInHandshake);
            }
            other => self.conns[slot as usize] = other,
        }
    }

    fn with_exchange<T>(&mut self, slot: u32, f: impl FnOnce(&mut Exchange, &mut SlotBlocks<'_>) -> T) -> T {
        let mut exhausted = 0;
        let (worker, conn) = (self.options.index, slot);
        let mut blocks = SlotBlocks { shared: &self.shared, worker, conn, exhausted: &mut exhausted };
        let result = f(&mut self.exchanges[slot as usize], &mut blocks);
        self.count(slot, |r| &mut r.pool_exhausted, exhausted);
        result
    }
}
