//! A worker: connection slots, their timers and a driver, on one thread. In a window it neither allocates,
//! locks, logs nor reads JSON; what it leaves goes to the record reader through bounded queues. TLS is the exception: it
//! allocates.
//!
//! A turn: the driver sends what is queued, waits, and hands over what happened (`completion`); each event moves a slot
//! from one state of [`crate::conn::Conn`] to another (`connection`, `request`); then whatever waited too long is ended
//! (`deadline`) and whatever may begin is begun (`dispatch` says what). All of that only asks for actions, which are
//! carried out at the end of the turn.
//!
//! | to find | look into |
//! |---|---|
//! | when a request starts, on which slot; closed loop, schedule, sessions | `dispatch` |
//! | opening, the TLS handshake, a connection that is lost or given up | `connection` |
//! | sending, the reply, reuse of its connection, a second try, the record | `request` |
//! | which event of the driver does what | `completion` |
//! | timeouts, how long to sleep | `deadline` |
//! | a window's opening, stop, end and report | `window` |
//! | connections opened ahead of a window | `preparation` |
//! | the stream to a server of known truth beside the load | `canary` |
//! | addresses, what is learnt of keep-alive | `server` |
//! | the queues to feeder and record reader | `queues` |

mod canary;
mod completion;
mod connection;
mod deadline;
mod dispatch;
mod options;
mod preparation;
mod queues;
mod request;
mod server;
mod window;

pub use dispatch::Load;
pub use options::WorkerOptions;
pub use preparation::Prepared;
pub use queues::{Message, Shared};
pub use window::WindowReport;

use crate::conn::Conn;
use crate::exchange::Exchange;
use crate::io::{ConnId, Driver, DriverCounters};
use crate::record::Due;
use crate::timers::Timers;
use crate::units::Instant;
use crate::wire::tls;
use canary::Canary;
use dispatch::Dispatch;
use preparation::Preparation;
use server::Server;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A worker with its driver.
pub struct Worker<D> {
    driver: D,
    desk: Desk,
    busy_ns: Arc<AtomicU64>,
}

/// Everything of a worker but the driver: what events arrive at.
struct Desk {
    options: WorkerOptions,
    queues: Arc<Shared>,
    /// Those of the load, then the canary's.
    slots: Box<[Slot]>,
    timers: Timers,
    /// What the driver is to do at the end of the turn, in order.
    actions: Vec<Action>,
    dispatch: Dispatch,
    preparation: Preparation,
    /// Of the load.
    server: Server,
    canary: Option<Canary>,
    /// What the current read decrypts to.
    plain: Vec<u8>,
    /// Number of the last send.
    sequence: u64,
    /// When what is being handled was seen.
    now: Instant,
    /// Counts of the current window.
    report: WindowReport,
}

/// A place for one connection and one request at a time.
#[derive(Debug)]
struct Slot {
    conn: Conn,
    exchange: Exchange,
    /// When it became free.
    free_at: Due,
}

/// What the driver is asked for. It applies to the state the slot is in when it is carried out.
#[derive(Clone, Copy, Debug)]
enum Action {
    Open(u32),
    Close(u32),
    Send(u32),
    /// Whatever TLS has to send by itself.
    SendAside(u32),
}

impl Desk {
    fn new(options: WorkerOptions, queues: Arc<Shared>, now: Instant) -> Self {
        let slots = options.connections();
        let slot = |_| Slot {
            conn: Conn::Closed { by_server: false },
            exchange: Exchange::default(),
            free_at: Due { at: Instant::default(), wall: None },
        };
        let canary = options.canary.map(|address| Canary {
            server: Server::of_canary(address),
            slot: options.slots,
            waiting: false,
        });
        Desk {
            timers: Timers::new(options.limits, slots),
            slots: (0..slots).map(slot).collect(),
            actions: Vec::with_capacity(slots as usize * 4 + 16),
            dispatch: Dispatch::new(slots as usize),
            preparation: Preparation::default(),
            server: Server::of_load(&options),
            canary,
            plain: Vec::new(),
            sequence: 0,
            now,
            report: WindowReport::default(),
            options,
            queues,
        }
    }
}

impl<D: Driver> Worker<D> {
    /// A worker without connections.
    pub fn new(driver: D, options: WorkerOptions, shared: Arc<Shared>) -> Self {
        let desk = Desk::new(options, shared, driver.now());
        Worker { driver, desk, busy_ns: Arc::default() }
    }

    /// Opens the connections of slots `0..slots` that are not open, before a window. Nothing to do when each
    /// request opens its own.
    pub fn prepare(&mut self, slots: u32) -> Prepared {
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
        self.desk.now = self.driver.now();
        self.desk.open_ahead(slots);
        self.act();
        while self.desk.preparation.pending > 0 {
            self.turn();
        }
        self.rest();
        std::mem::take(&mut self.desk.preparation.so_far)
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
        while !self.desk.dispatch.is_over() {
            self.turn();
        }
        self.desk.end_canary();
        self.act();
        self.rest();
        WindowReport { driver: since(self.driver.counters(), before), ..self.desk.report() }
    }

    /// Closes every connection.
    pub fn close_all(&mut self) {
        for (conn, slot) in (0..).map(ConnId).zip(&mut self.desk.slots) {
            slot.conn = Conn::Closed { by_server: false };
            self.driver.close(conn);
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
                    let session = self.desk.slots[slot as usize].conn.tls();
                    if let Some(bytes) = session.and_then(tls::Session::outgoing) {
                        self.driver.send_aside(ConnId(slot), bytes);
                    }
                }
            }
        }
        self.desk.actions.clear();
    }
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
