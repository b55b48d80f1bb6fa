//! The canary on the simulated clock: a stream to a server of known truth beside the load, which must not feel it.

use bench_engine::clock::{Clock, SimClock};
use bench_engine::conn::{Job, KeepAlive, Reuse};
use bench_engine::record::{Ending, Finished};
use bench_engine::sim::{Act, Opening, Peer, Reply, SimDriver};
use bench_engine::timers::Limits;
use bench_engine::units::{Instant, Nanos};
use bench_engine::worker::{Load, Message, Shared, WindowReport, Worker, WorkerOptions};
use bytes::Bytes;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const START: Instant = Instant::from_ns(1_000_000_000);
const CANARY_JOB: &[u8] = b"POST /canary HTTP/1.1\r\n\r\n";
const LOAD_JOB: &[u8] = b"POST /load HTTP/1.1\r\n\r\n";
/// Ids of canary jobs count from here.
const FIRST_CANARY: u64 = 1000;
const BLOCKS: usize = 512;

fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

fn server() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 1))
}

fn canary() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 2], 2))
}

fn answer(after: Nanos) -> Reply {
    let text = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 14\r\n\r\ndata: [DONE]\n\n";
    Reply::of([(after, Act::Bytes(text.as_bytes().to_vec()))])
}

/// Answers the load and the canary each in its own way.
struct Two {
    load: Reply,
    canary: Reply,
    canary_refused: bool,
    stop: Option<(Instant, Arc<Shared>)>,
}

impl Two {
    fn of(load: Reply, canary: Reply) -> Self {
        Two { load, canary, canary_refused: false, stop: None }
    }
}

impl Peer for Two {
    fn open(&mut self, serial: u32) -> Opening {
        // the load's one connection is opened ahead
        if self.canary_refused && serial > 0 {
            return Opening::Refuses(ms(1), 111);
        }
        Opening::Accepts(Nanos::from_micros(100))
    }
    fn request(&mut self, _serial: u32, _nth: u32, request: &Bytes) -> Reply {
        if request == CANARY_JOB { self.canary.clone() } else { self.load.clone() }
    }
    fn turn(&mut self, now: Instant) {
        if let Some((_, shared)) = self.stop.take_if(|(at, _)| now >= *at) {
            shared.stop.store(true, Ordering::Relaxed);
        }
    }
}

struct Ran {
    load: Vec<Finished>,
    canary: Vec<Finished>,
    report: WindowReport,
    closed: Instant,
    opened_to: Vec<SocketAddr>,
    live: usize,
}

fn shared() -> Arc<Shared> {
    Arc::new(Shared::new(2, BLOCKS, 64))
}

/// A window on one slot with `dues.len()` requests of the load, opened at [`START`] + 1 ms.
fn run(shared: &Arc<Shared>, peer: Two, load: Load, dues: &[Nanos], canaries: u64, with_canary: bool) -> Ran {
    let clock = SimClock::default();
    clock.advance_to(START);
    let options = WorkerOptions {
        index: 0,
        slots: 1,
        addresses: Arc::new([server()]),
        tls: None,
        limits: Limits::default(),
        streamed: true,
        reuse: Reuse::Unlimited,
        canary: with_canary.then(canary),
        spin: false,
    };
    let mut worker = Worker::new(SimDriver::new(clock.clone(), peer), options, Arc::clone(shared));
    assert_eq!(worker.prepare(1).opened, 1, "the canary's connection is not among those of the load");
    for (id, due) in (0..).zip(dues) {
        let due = (load == Load::Open).then_some(*due);
        shared.supply.push(Job { id, due, request: Bytes::from_static(LOAD_JOB) }).expect("room");
    }
    shared.supply_over.store(true, Ordering::Release);
    for id in FIRST_CANARY..FIRST_CANARY + canaries {
        shared.canary_supply.push(Job { id, due: None, request: Bytes::from_static(CANARY_JOB) }).expect("room");
    }
    let report = worker.run(load, 1, START + ms(1));
    let closed = clock.now();
    let mut found: Vec<Finished> = Vec::new();
    while let Some(message) = shared.messages.pop() {
        if let Message::Finished(_, mut finished) = message {
            if let Some(mut block) = finished.block.take() {
                block.clear();
                shared.pool.push(block).expect("the pool has room for every block there is");
            }
            found.push(finished);
        }
    }
    assert_eq!(shared.pool.len(), BLOCKS, "every block of the pool is back");
    let (canary, load) = found.into_iter().partition(|f| f.job >= FIRST_CANARY);
    let (opened_to, live) = (worker.driver().opened_to().to_vec(), worker.driver().live());
    Ran { load, canary, report, closed, opened_to, live }
}

#[test]
fn a_canary_runs_beside_the_load_one_request_after_another() {
    let ran = run(&shared(), Two::of(answer(ms(30)), answer(ms(7))), Load::Closed, &[ms(0); 10], 100, true);
    assert_eq!(ran.load.len(), 10);
    assert!(ran.load.iter().all(|f| f.ending == Ending::Complete && f.conn == Some(0)));
    let (last, whole) = ran.canary.split_last().expect("a canary");
    assert!(ran.canary.iter().all(|f| f.conn == Some(1)), "the slot after those of the load");
    assert!(whole.len() > 35 && whole.iter().all(|f| f.ending == Ending::Complete), "{}", whole.len());
    assert_eq!(last.ending, Ending::Censored, "it ends with the window");
    assert!(ran.canary.windows(2).all(|w| w[1].due.at == w[0].ended && w[1].submit == Some(w[0].ended)));
    assert_eq!(ran.canary[0].due.at, START + ms(1));
    assert_eq!(ran.opened_to, [server(), canary()], "each to its own");
}

#[test]
fn the_load_does_not_feel_it() {
    for load in [Load::Closed, Load::Open] {
        let dues: Vec<Nanos> = (0..12).map(|i| ms(i * 20)).collect();
        let one = |with_canary: bool, canary: Reply| {
            run(&shared(), Two::of(answer(ms(30)), canary), load, &dues, 50, with_canary)
        };
        let without = one(false, answer(ms(7)));
        assert!(without.canary.is_empty());
        for reply in [answer(ms(7)), answer(Nanos::from_secs(3600)), Reply::default()] {
            let with = one(true, reply);
            let times = |ran: &Ran| -> Vec<_> {
                ran.load.iter().map(|f| (f.job, f.due.at, f.taken, f.submit, f.ended)).collect()
            };
            assert_eq!(times(&with), times(&without), "{load:?}");
            assert_eq!(with.closed, without.closed, "{load:?}: the window is no longer");
            let counts = |r: &WindowReport| (r.opened, r.closed_by_server, r.starved, r.pool_exhausted, r.never_due);
            assert_eq!(counts(&with.report), counts(&without.report));
        }
    }
}

#[test]
fn what_is_cut_short_is_closed() {
    let ran = run(&shared(), Two::of(answer(ms(30)), Reply::default()), Load::Closed, &[ms(0)], 5, true);
    assert_eq!(ran.canary.iter().map(|f| f.ending).collect::<Vec<_>>(), [Ending::Censored]);
    assert_eq!(ran.live, 1, "the load's connection is kept, the canary's is not");
}

#[test]
fn neither_takes_the_others_requests() {
    let shared = shared();
    let ran = run(&shared, Two::of(answer(ms(30)), answer(ms(7))), Load::Closed, &[ms(0); 3], 2, true);
    assert_eq!(ran.load.iter().map(|f| f.job).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(ran.canary.iter().map(|f| f.job).collect::<Vec<_>>(), [FIRST_CANARY, FIRST_CANARY + 1]);
    assert_eq!(ran.report.starved, 0, "a canary without a request is no starvation");
}

#[test]
fn what_a_canary_meets_is_not_the_servers_doing() {
    // its server closes after each reply
    let mut closing = answer(ms(1));
    closing.acts.push((ms(1) + Nanos::from_micros(50), Act::Close));
    let ran = run(&shared(), Two::of(answer(ms(30)), closing), Load::Closed, &[ms(0); 5], 20, true);
    assert_eq!(ran.report.keep_alive, KeepAlive::Works, "learnt of the load's server alone");
    assert_eq!((ran.report.opened, ran.report.closed_by_server), (0, 0));
    assert!(ran.load[1..].iter().all(|f| f.conn_reused));
    // or cannot be reached at all
    let peer = Two { canary_refused: true, ..Two::of(answer(ms(30)), answer(ms(7))) };
    let ran = run(&shared(), peer, Load::Closed, &[ms(0); 5], 4, true);
    assert!(ran.load.iter().all(|f| f.ending == Ending::Complete));
    assert_eq!(ran.canary.iter().map(|f| f.ending).collect::<Vec<_>>(), [Ending::NoConnection(111); 4]);
    assert_eq!(ran.report.opened, 0);
}

#[test]
fn a_stop_ends_the_canary_too() {
    for load in [Load::Closed, Load::Open] {
        let shared = shared();
        let stop = Some((START + ms(50), Arc::clone(&shared)));
        let peer = Two { stop, ..Two::of(answer(Nanos::from_secs(60)), answer(ms(7))) };
        let ran = run(&shared, peer, load, &[ms(0); 2], 100, true);
        assert_eq!(ran.load[0].ending, Ending::Censored);
        assert_eq!(ran.canary.last().map(|f| f.ending), Some(Ending::Censored));
        assert!(ran.closed.saturating_since(START + ms(50)) <= ms(60), "{load:?}: {:?}", ran.closed);
        assert_eq!(ran.live, 0);
    }
}
