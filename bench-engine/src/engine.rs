//! Worker threads: started once, pinned, given windows to run.

use crate::conn::KeepAlive;
use crate::cpu::{self, PinError};
use crate::io::capabilities::Capabilities;
use crate::io::epoll::EpollDriver;
use crate::io::uring::UringDriver;
use crate::io::{Driver, DriverError, DriverKind, DriverOptions};
use crate::units::Instant;
use crate::worker::{Load, Prepared, Shared, WindowReport, Worker, WorkerOptions};
use nix::unistd::gettid;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use thiserror::Error;

/// What the workers are to be.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// The same for every worker, but for `index` and `slots`.
    pub worker: WorkerOptions,
    /// Slots of each worker: as many workers as entries.
    pub slots: Vec<u32>,
    /// Core of each worker.
    pub cores: Vec<usize>,
}

/// Why the workers could not be started.
#[derive(Debug, Error)]
pub enum EngineError {
    /// A worker could not be pinned.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// A worker has no driver.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// A thread could not be made, or ended by itself.
    #[error("worker {0} ended unexpectedly; this is a bug in tarebench, and what was measured is kept")]
    Gone(u32),
    /// The system refuses a thread.
    #[error("a worker thread cannot be started: {0}")]
    Thread(std::io::Error),
}

/// A running worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerInfo {
    /// From 0.
    pub index: u32,
    /// Where it is pinned.
    pub core: usize,
    /// Kernel thread id.
    pub tid: i32,
    /// How it reaches the kernel.
    pub driver: DriverKind,
    /// Bytes of its receive pool.
    pub receive_pool_bytes: usize,
}

enum Order {
    Prepare { slots: u32 },
    Run { load: Load, slots: u32, opened: Instant },
}

enum Answer {
    Ready(WorkerInfo, Arc<AtomicU64>),
    Failed(EngineError),
    Prepared(Prepared),
    Done(Box<WindowReport>),
}

/// The workers.
pub struct Engine {
    workers: Vec<Handle>,
}

struct Handle {
    info: WorkerInfo,
    busy_ns: Arc<AtomicU64>,
    orders: Sender<Order>,
    answers: Receiver<Answer>,
    thread: Option<JoinHandle<()>>,
}

impl Engine {
    /// Starts and pins the workers, on the driver that was found.
    ///
    /// # Errors
    /// [`EngineError`]; no thread is left behind.
    pub fn start(options: &EngineOptions, found: &Capabilities, shared: &Arc<Shared>) -> Result<Self, EngineError> {
        let mut engine = Engine { workers: Vec::new() };
        for (index, (&slots, &core)) in options.slots.iter().zip(&options.cores).enumerate() {
            let worker = WorkerOptions { index: index as u32, slots, ..options.worker.clone() };
            let (orders, take_order) = channel();
            let (answer, answers) = channel();
            let (shared, kind, stamps) = (Arc::clone(shared), found.driver, found.stamps);
            let thread = std::thread::Builder::new()
                .name(format!("worker-{index}"))
                .spawn(move || {
                    let (orders, answers) = (&take_order, &answer);
                    let driver = DriverOptions { connections: worker.connections(), stamps };
                    let served = match kind {
                        DriverKind::Uring => set_up(worker, core, kind, shared, || {
                            let driver = UringDriver::new(driver)?;
                            let pool = driver.receive_pool_bytes();
                            Ok((driver, pool))
                        })
                        .map(|ready| serve(ready, orders, answers)),
                        DriverKind::Epoll => set_up(worker, core, kind, shared, || {
                            let driver = EpollDriver::new(driver)?;
                            let pool = driver.receive_pool_bytes();
                            Ok((driver, pool))
                        })
                        .map(|ready| serve(ready, orders, answers)),
                    };
                    if let Err(error) = served {
                        let _ = answer.send(Answer::Failed(error));
                    }
                })
                .map_err(EngineError::Thread)?;
            let (info, busy_ns) = match answers.recv() {
                Ok(Answer::Ready(info, busy_ns)) => (info, busy_ns),
                Ok(Answer::Failed(error)) => return Err(error),
                _ => return Err(EngineError::Gone(index as u32)),
            };
            engine.workers.push(Handle { info, busy_ns, orders, answers, thread: Some(thread) });
        }
        Ok(engine)
    }

    /// The workers as they run.
    pub fn workers(&self) -> impl Iterator<Item = WorkerInfo> + '_ {
        self.workers.iter().map(|w| w.info)
    }

    /// Time each worker has spent on non-empty batches and on submitting so far, in ns, in order of the workers.
    pub fn busy_ns(&self) -> impl Iterator<Item = u64> + '_ {
        self.workers.iter().map(|w| w.busy_ns.load(Ordering::Relaxed))
    }

    /// Opens the connections of a window, `slots` for each worker, and waits for it.
    ///
    /// # Errors
    /// [`EngineError::Gone`].
    pub fn prepare(&self, slots: &[u32]) -> Result<Vec<Prepared>, EngineError> {
        self.order(slots, |slots| Order::Prepare { slots })?;
        self.collect(|answer| match answer {
            Answer::Prepared(prepared) => Some(prepared),
            _ => None,
        })
    }

    /// Lets a closed-loop window run from `opened` on. [`Engine::poll_window`] tells when it is over.
    ///
    /// # Errors
    /// [`EngineError::Gone`].
    pub fn begin_window(&self, slots: &[u32], opened: Instant) -> Result<(), EngineError> {
        self.begin(Load::Closed, slots, opened)
    }

    /// Lets a window run from `opened` on, under a load of either kind.
    ///
    /// # Errors
    /// [`EngineError::Gone`].
    pub fn begin(&self, load: Load, slots: &[u32], opened: Instant) -> Result<(), EngineError> {
        self.order(slots, |slots| Order::Run { load, slots, opened })
    }

    /// Whether every worker has finished the window. Reports are kept in `done`.
    ///
    /// # Errors
    /// [`EngineError::Gone`].
    pub fn poll_window(&self, done: &mut Vec<WindowReport>) -> Result<bool, EngineError> {
        for worker in &self.workers {
            if done.iter().any(|r| r.worker == worker.info.index) {
                continue;
            }
            match worker.answers.try_recv() {
                Ok(Answer::Done(report)) => done.push(*report),
                Err(std::sync::mpsc::TryRecvError::Empty) => {}
                _ => return Err(EngineError::Gone(worker.info.index)),
            }
        }
        Ok(done.len() == self.workers.len())
    }

    fn order(&self, slots: &[u32], order: impl Fn(u32) -> Order) -> Result<(), EngineError> {
        for (worker, &slots) in self.workers.iter().zip(slots) {
            worker.orders.send(order(slots)).map_err(|_| EngineError::Gone(worker.info.index))?;
        }
        Ok(())
    }

    fn collect<T>(&self, take: impl Fn(Answer) -> Option<T>) -> Result<Vec<T>, EngineError> {
        let of = |w: &Handle| w.answers.recv().ok().and_then(&take).ok_or(EngineError::Gone(w.info.index));
        self.workers.iter().map(of).collect()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            let (closed, _) = channel();
            worker.orders = closed;
            if let Some(thread) = worker.thread.take() {
                let _ = thread.join();
            }
        }
    }
}

/// A pinned worker with the driver that `driver` makes, and the bytes of its receive pool.
fn set_up<D: Driver>(
    options: WorkerOptions,
    core: usize,
    kind: DriverKind,
    shared: Arc<Shared>,
    driver: impl FnOnce() -> Result<(D, usize), DriverError>,
) -> Result<(WorkerInfo, Worker<D>), EngineError> {
    cpu::pin(core)?;
    // waits end when they should, not up to 50 us later (prctl(2), PR_SET_TIMERSLACK)
    let _ = nix::sys::prctl::set_timerslack(1);
    let (driver, receive_pool_bytes) = driver()?;
    let tid = gettid().as_raw();
    let info = WorkerInfo { index: options.index, core, tid, driver: kind, receive_pool_bytes };
    Ok((info, Worker::new(driver, options, shared)))
}

/// Says that the worker is there, and carries out orders until nobody can give any.
fn serve<D: Driver>((info, mut worker): (WorkerInfo, Worker<D>), orders: &Receiver<Order>, answers: &Sender<Answer>) {
    let _ = answers.send(Answer::Ready(info, worker.busy_ns()));
    while let Ok(order) = orders.recv() {
        let answer = match order {
            Order::Prepare { slots } => Answer::Prepared(worker.prepare(slots)),
            Order::Run { load, slots, opened } => Answer::Done(Box::new(worker.run(load, slots, opened))),
        };
        if answers.send(answer).is_err() {
            break;
        }
    }
    worker.close_all();
}

/// `slots` spread over `workers`, the first ones taking what is left over.
pub fn spread(slots: u32, workers: u32) -> Vec<u32> {
    (0..workers).map(|w| slots / workers + u32::from(w < slots % workers)).collect()
}

/// The strictest knowledge of several workers.
pub fn keep_alive_of(reports: &[WindowReport]) -> KeepAlive {
    let any = |k: KeepAlive| reports.iter().any(|r| r.keep_alive == k);
    match () {
        () if any(KeepAlive::Refused) => KeepAlive::Refused,
        () if any(KeepAlive::Works) => KeepAlive::Works,
        () => KeepAlive::Untried,
    }
}
