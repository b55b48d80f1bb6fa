//! Between start and stop of a window a worker allocates nothing.
//!
//! The whole test binary runs on an allocator that counts, for each thread, while that thread asks it to.

use crate::live::{RunningMock, found};
use bench_engine::clock::{Clock, SystemClock};
use bench_engine::conn::{Job, Reuse};
use bench_engine::io::epoll::EpollDriver;
use bench_engine::io::uring::UringDriver;
use bench_engine::io::{Driver, DriverKind, DriverOptions};
use bench_engine::record::Ending;
use bench_engine::schedule::ArrivalLaw;
use bench_engine::timers::Limits;
use bench_engine::units::Nanos;
use bench_engine::wire::request::RequestTemplate;
use bench_engine::worker::{Load, Message, Shared, Worker, WorkerOptions};
use calibration::mock::MockConfig;
use serde_json::json;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

struct Counting;

thread_local! {
    static COUNTING: Cell<bool> = const { Cell::new(false) };
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static RELEASES: Cell<u64> = const { Cell::new(0) };
}

fn count(what: &'static std::thread::LocalKey<Cell<u64>>) {
    // a thread that is ending has no counters any more
    let _ = COUNTING.try_with(|on| {
        if on.get() {
            let _ = what.try_with(|n| n.set(n.get() + 1));
        }
    });
}

// SAFETY: every call goes to the system's allocator unchanged; the counters are constant-initialised thread locals
// without a destructor, so that counting never allocates.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(&ALLOCATIONS);
        // SAFETY: as the caller promised us.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(&ALLOCATIONS);
        // SAFETY: as the caller promised us.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(&ALLOCATIONS);
        // SAFETY: as the caller promised us.
        unsafe { System.realloc(block, layout, size) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(&RELEASES);
        // SAFETY: as the caller promised us.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations and releases of this thread while `f` runs.
fn counted<T>(f: impl FnOnce() -> T) -> (T, u64, u64) {
    ALLOCATIONS.set(0);
    RELEASES.set(0);
    COUNTING.set(true);
    let result = f();
    COUNTING.set(false);
    (result, ALLOCATIONS.get(), RELEASES.get())
}

#[test]
fn the_counter_counts() {
    let (_, allocations, releases) = counted(|| drop(std::hint::black_box(Box::new(1_u64))));
    assert_eq!((allocations, releases), (1, 1));
    let (_, allocations, _) = counted(|| {
        std::thread::scope(|scope| {
            // another thread's allocations are its own
            let other = scope.spawn(|| vec![1_u8; 100].len());
            std::hint::black_box(other.join().expect("no panic"))
        })
    });
    assert!(allocations < 50, "starting a thread takes a few: {allocations}");
    assert_eq!(counted(|| std::hint::black_box(1 + 1)).1, 0);
}

/// A window of `jobs` requests on `slots` connections, for each driver; allocations and releases of the worker's
/// thread in it must be none.
fn no_allocations(load: Load, mock: MockConfig, slots: u32, jobs: u64, reuse: bool) {
    for kind in [DriverKind::Uring, DriverKind::Epoll] {
        let Some(found) = found(kind) else { continue };
        let options = DriverOptions { connections: slots + 1, stamps: found.stamps };
        let counts = match kind {
            DriverKind::Uring => {
                let driver = UringDriver::new(options).unwrap_or_else(|e| panic!("{e}"));
                window(driver, load, mock.clone(), slots, jobs, reuse)
            }
            DriverKind::Epoll => {
                let driver = EpollDriver::new(options).unwrap_or_else(|e| panic!("{e}"));
                window(driver, load, mock.clone(), slots, jobs, reuse)
            }
        };
        assert_eq!(counts, (0, 0), "{kind}: allocations and releases");
    }
}

/// Tells the reader to end, also when the worker panics: else nobody would hear of it.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// An open loop has a canary beside it, which must allocate nothing either.
fn window(driver: impl Driver, load: Load, mock: MockConfig, slots: u32, jobs: u64, reuse: bool) -> (u64, u64) {
    let mock = RunningMock::start(mock);
    let template = RequestTemplate::new("POST", "/v1/chat/completions", "mock", "text/event-stream", &[]);
    let template = template.expect("fields");
    let shared = Arc::new(Shared::new(slots as usize, 1024, jobs as usize));
    let mut dues: Vec<Nanos> =
        ArrivalLaw::new(2_000.0, 1.0).expect("a law").schedule(7).take(jobs as usize + 4).collect();
    if load == Load::Sessions {
        // in no order, so that many are in hand
        dues.chunks_mut(16).for_each(<[Nanos]>::reverse);
    }
    let canary = (load == Load::Open).then_some(mock.address);
    for (id, due) in (0..).zip(dues) {
        let prompt = format!("n{id} {}", "word ".repeat(200));
        let messages = json!([{"role": "user", "content": prompt}]);
        let body = json!({"model": "mock", "stream": true, "max_tokens": 40, "messages": messages});
        let mut request = template.with_json(&body.to_string());
        // a vector without spare room is the case in which `Bytes` puts its bookkeeping off to the first clone
        request.shrink_to_fit();
        let job = Job::new(id, request);
        match load {
            _ if id >= jobs => shared.canary_supply.push(job).expect("room"),
            Load::Open | Load::Sessions => shared.supply.push(job.due_at(due)).expect("room"),
            Load::Closed => shared.supply.push(job).expect("room"),
        }
    }
    shared.supply_over.store(true, Ordering::Release);
    let over = AtomicBool::new(false);
    let options = WorkerOptions {
        index: 0,
        slots,
        addresses: Arc::new([mock.address]),
        tls: None,
        limits: Limits::default(),
        streamed: true,
        reuse: if reuse { Reuse::Unlimited } else { Reuse::PER_REQUEST },
        canary,
        spin: false,
    };
    let mut worker = Worker::new(driver, options, Arc::clone(&shared));
    std::thread::scope(|scope| {
        let (shared, over) = (&shared, &over);
        let reader = scope.spawn(move || {
            let mut endings = Vec::new();
            loop {
                let last = over.load(Ordering::Acquire);
                while let Some(message) = shared.messages.pop() {
                    let block = match message {
                        Message::Block { block, .. } => Some(block),
                        Message::Finished(_, mut finished) => {
                            if finished.job < jobs {
                                endings.push(finished.ending);
                            }
                            finished.block.take()
                        }
                        Message::LateWireOut { .. } => None,
                    };
                    if let Some(mut block) = block {
                        block.clear();
                        shared.pool.push(block).expect("the pool has room for every block there is");
                    }
                }
                if last {
                    return endings;
                }
                std::thread::yield_now();
            }
        });
        let working = Over(over);
        // in open loop some connections are opened in the window, as they are needed
        worker.prepare(if load == Load::Closed { slots } else { slots / 2 });
        let opened = SystemClock.now() + Nanos::from_millis(5);
        let (report, allocations, releases) = counted(|| worker.run(load, slots, opened));
        drop(working);
        let endings = reader.join().expect("no panic");
        assert_eq!(endings.len() as u64, jobs);
        assert!(endings.iter().all(|e| *e == Ending::Complete), "{endings:?}");
        assert_eq!(report.pool_exhausted, 0);
        (allocations, releases)
    })
}

#[test]
fn a_worker_allocates_nothing_in_a_window() {
    let quick = MockConfig { ttft: Nanos::from_millis(1), itl: Nanos::from_micros(50), ..MockConfig::default() };
    no_allocations(Load::Closed, quick, 8, 200, true);
}

#[test]
fn nor_in_an_open_loop() {
    let quick = MockConfig { ttft: Nanos::from_millis(1), itl: Nanos::from_micros(50), ..MockConfig::default() };
    no_allocations(Load::Open, quick.clone(), 64, 300, true);
    // and with a cap that holds requests back
    no_allocations(Load::Open, quick, 2, 300, true);
}

#[test]
fn nor_with_turns_of_sessions_in_hand() {
    let quick = MockConfig { ttft: Nanos::from_millis(1), itl: Nanos::from_micros(50), ..MockConfig::default() };
    no_allocations(Load::Sessions, quick.clone(), 64, 300, true);
    no_allocations(Load::Sessions, quick, 2, 300, true);
}

#[test]
fn nor_where_every_request_opens_a_connection() {
    let quick = MockConfig { ttft: Nanos::from_millis(1), itl: Nanos::from_micros(50), ..MockConfig::default() };
    no_allocations(Load::Closed, quick.clone(), 4, 60, false);
    // and where the server closes although keep-alive is announced
    let closing = MockConfig { close_after_reply: true, ..quick };
    no_allocations(Load::Closed, closing, 4, 60, true);
}
