//! Open loop on the simulated clock: when requests go out, on which connection, and what becomes of those that
//! cannot. `scripted_peer/` has the rest of a worker's behaviour.

mod reported;
mod sessions;

use bench_engine::clock::{Clock, SimClock};
use bench_engine::conn::{Job, Reuse};
use bench_engine::record::{Ending, Finished};
use bench_engine::schedule::{After, ArrivalLaw, RateProfile, Spacing, Stretch};
use bench_engine::sim::{Act, Opening, Peer, Reply, Script, SimDriver};
use bench_engine::timers::Limits;
use bench_engine::units::{Instant, Nanos};
use bench_engine::worker::{Load, Message, Shared, WindowReport, Worker, WorkerOptions};
use bytes::Bytes;
use proptest::prelude::*;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const START: Instant = Instant::from_ns(1_000_000_000);
/// Enough for every record of a test: nobody reads them meanwhile.
const BLOCKS: usize = 1024;
const CONNECT: Nanos = Nanos::from_micros(100);

fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

/// A whole reply after `after`.
fn answer(after: Nanos) -> Reply {
    let text = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 14\r\n\r\ndata: [DONE]\n\n";
    Reply::of([(after, Act::Bytes(text.as_bytes().to_vec()))])
}

fn script(replies: impl IntoIterator<Item = Reply>) -> Script {
    Script { replies: replies.into_iter().collect(), ..Script::default() }
}

/// A script, and something done at each turn.
struct Rehearsed<F>(Script, F);

impl<F: FnMut(Instant)> Peer for Rehearsed<F> {
    fn open(&mut self, serial: u32) -> Opening {
        self.0.open(serial)
    }
    fn request(&mut self, serial: u32, nth: u32, request: &Bytes) -> Reply {
        self.0.request(serial, nth, request)
    }
    fn turn(&mut self, now: Instant) {
        (self.1)(now);
    }
}

fn shared(slots: u32) -> Arc<Shared> {
    Arc::new(Shared::new(slots as usize, BLOCKS, 1024))
}

fn worker<P: Peer>(clock: &SimClock, shared: &Arc<Shared>, peer: P, index: u32, slots: u32) -> Worker<SimDriver<P>> {
    worker_that(clock, shared, peer, WorkerOptions { index, slots, ..options() })
}

fn worker_that<P: Peer>(
    clock: &SimClock,
    shared: &Arc<Shared>,
    peer: P,
    options: WorkerOptions,
) -> Worker<SimDriver<P>> {
    if clock.now() < START {
        clock.advance_to(START);
    }
    Worker::new(SimDriver::new(clock.clone(), peer), options, Arc::clone(shared))
}

fn options() -> WorkerOptions {
    WorkerOptions {
        index: 0,
        slots: 1,
        addresses: Arc::new([SocketAddr::from(([127, 0, 0, 1], 1))]),
        tls: None,
        limits: Limits::default(),
        streamed: true,
        reuse: Reuse::Unlimited,
        canary: None,
        spin: false,
    }
}

fn job(id: u64, due: Nanos) -> Job {
    Job { id, due: Some(due), request: Bytes::from_static(b"POST / HTTP/1.1\r\n\r\n") }
}

/// Puts requests in the supply, numbered from 0, and ends it.
fn supply(shared: &Shared, dues: &[Nanos]) {
    for (id, due) in (0..).zip(dues) {
        shared.supply.push(job(id, *due)).expect("room");
    }
    shared.supply_over.store(true, Ordering::Release);
}

/// What came out, in order of completion, once the window is over.
fn records(shared: &Shared) -> Vec<Finished> {
    let all = records_so_far(shared);
    assert_eq!(shared.pool.len(), BLOCKS, "every block of the pool is back");
    all
}

fn records_so_far(shared: &Shared) -> Vec<Finished> {
    let mut all = Vec::new();
    while let Some(message) = shared.messages.pop() {
        if let Message::Finished(_, mut finished) = message {
            if let Some(mut block) = finished.block.take() {
                block.clear();
                shared.pool.push(block).expect("the pool has room for every block there is");
            }
            all.push(finished);
        }
    }
    all
}

/// A window of one worker, with `ready` connections opened before it.
fn window<P: Peer>(peer: P, slots: u32, ready: u32, dues: &[Nanos]) -> (Vec<Finished>, WindowReport) {
    let (clock, shared) = (SimClock::default(), shared(slots));
    let mut worker = worker(&clock, &shared, peer, 0, slots);
    assert_eq!(worker.prepare(ready).opened, ready);
    supply(&shared, dues);
    // the window opens later, so that its origin is not the moment of the call
    let opened = clock.now() + ms(20);
    let report = worker.run(Load::Open, slots, opened);
    let mut found = records(&shared);
    found.sort_by_key(|f| f.job);
    for (finished, due) in found.iter().zip(dues) {
        assert_eq!(finished.due.at, opened + *due, "a due is the schedule's, whatever happens");
        assert_eq!(finished.due.wall, None);
    }
    assert_eq!(found.len(), dues.len());
    assert_eq!(shared.supply.len(), 0);
    (found, report)
}

fn submit(finished: &Finished) -> Instant {
    finished.submit.expect("submitted")
}

#[test]
fn the_pause_between_windows_is_not_busy() {
    let (clock, shared) = (SimClock::default(), shared(1));
    let mut worker = worker(&clock, &shared, script([answer(ms(1)), answer(ms(1))]), 0, 1);
    let busy = worker.busy_ns();
    assert_eq!(worker.prepare(1).opened, 1);
    for _ in 0..2 {
        supply(&shared, &[ms(1)]);
        // another arm's window, or --gap-between-windows
        clock.advance_to(clock.now() + Nanos::from_secs(60));
        assert_eq!(worker.prepare(1).opened, 0);
        clock.advance_to(clock.now() + Nanos::from_secs(60));
        let report = worker.run(Load::Open, 1, clock.now());
        assert_eq!(
            (report.driver.batches > 0, report.driver.busy_ns),
            (true, 0),
            "on this clock handling takes no time"
        );
        assert_eq!(busy.load(Ordering::Relaxed), 0, "as others read it");
    }
}

#[test]
fn requests_leave_at_their_due_to_the_ns() {
    let dues: Vec<Nanos> = ArrivalLaw::new(300.0, 1.0).expect("a law").schedule(7).take(200).collect();
    let (found, report) = window(script([answer(ms(15))]), 64, 64, &dues);
    for finished in &found {
        assert_eq!((finished.taken, submit(finished)), (Some(finished.due.at), finished.due.at));
        assert_eq!((finished.ending, finished.connect), (Ending::Complete, None));
    }
    assert_eq!((report.starved, report.never_due), (0, 0));
}

#[test]
fn without_a_ready_connection_one_is_opened_at_the_due() {
    let (found, report) = window(script([answer(ms(15))]), 4, 1, &[ms(1), ms(2), ms(30)]);
    assert_eq!((found[0].connect, submit(&found[0])), (None, found[0].due.at));
    assert_eq!((found[1].connect, submit(&found[1])), (Some(CONNECT), found[1].due.at + CONNECT));
    assert_eq!(found[1].taken, Some(found[1].due.at));
    assert!(found[2].conn_reused && found[2].connect.is_none());
    assert_eq!(report.opened, 1);
}

#[test]
fn the_connection_used_last_is_used_next() {
    // one at a time on eight open connections
    let dues: Vec<Nanos> = (0..20).map(|i| ms(10 * i)).collect();
    let (found, _) = window(script([answer(ms(5))]), 8, 8, &dues);
    assert!(found.iter().all(|f| f.conn == Some(0)), "the others may be closed by the server meanwhile");
    assert!(found[1..].iter().all(|f| f.conn_reused));
}

#[test]
fn requests_due_together_leave_together_and_in_order() {
    let (found, _) = window(script([answer(ms(15))]), 8, 8, &[ms(5); 8]);
    assert!(found.iter().all(|f| submit(f) == f.due.at));
    let sequences: Vec<u64> = found.iter().map(|f| f.sequence).collect();
    assert_eq!(sequences, (1..=8).collect::<Vec<_>>(), "sent in the order of the schedule");
    let (found, _) = window(script([answer(ms(15))]), 8, 8, &[Nanos::ZERO; 8]);
    assert!(found.iter().all(|f| submit(f) == f.due.at), "at the opening");
}

#[test]
fn a_late_request_goes_at_once_and_keeps_its_due() {
    // the client sleeps from 3 ms after the opening until 50 ms after it
    let opened = START + ms(20) + CONNECT;
    let (clock, shared) = (SimClock::default(), shared(4));
    let asleep = clock.clone();
    let sleep = move |now| {
        if now >= opened + ms(3) && now < opened + ms(50) {
            asleep.advance_to(opened + ms(50));
        }
    };
    let mut worker = worker(&clock, &shared, Rehearsed(script([answer(ms(1))]), sleep), 0, 4);
    worker.prepare(4);
    let dues = [ms(3), ms(10), ms(20), ms(49), ms(60)];
    supply(&shared, &dues);
    worker.run(Load::Open, 4, opened);
    let mut found = records(&shared);
    found.sort_by_key(|f| f.job);
    for (finished, due) in found.iter().zip(dues) {
        assert_eq!(finished.due.at, opened + due);
        assert_eq!(submit(finished), (opened + ms(50)).max(opened + due), "nothing is skipped, nothing waits longer");
    }
}

#[test]
fn a_worker_that_spins_looks_all_the_time_and_never_sleeps() {
    let look = Nanos::from_micros(2);
    let run = |spin| {
        let (clock, shared) = (SimClock::default(), shared(1));
        let (passing, looks) = (clock.clone(), std::rc::Rc::new(std::cell::Cell::new(0)));
        let counted = std::rc::Rc::clone(&looks);
        // time passes by looking, too
        let turn = move |now| {
            counted.set(counted.get() + 1);
            passing.advance_to(now + look);
        };
        let peer = Rehearsed(script([answer(ms(1))]), turn);
        let mut worker = worker_that(&clock, &shared, peer, WorkerOptions { spin, ..options() });
        worker.prepare(1);
        let dues = [ms(3), ms(10), ms(20)];
        supply(&shared, &dues);
        let opened = clock.now() + ms(20);
        looks.set(0);
        worker.run(Load::Open, 1, opened);
        let found = records(&shared);
        let late = found.iter().zip(dues).map(|(f, due)| submit(f).saturating_since(opened + due)).max();
        (looks.get(), late.expect("three"))
    };
    let (looks, late) = run(true);
    // from the order to the last reply 41 ms pass, and every look takes 2 us
    assert!(looks > 20_000, "{looks}");
    assert!(late <= look + look, "{late:?}");
    assert!(run(false).0 < 100, "asleep it looks when there is something to see");
}

#[test]
fn with_the_cap_reached_requests_wait_in_order_and_keep_their_due() {
    let dues: Vec<Nanos> = (0..12).map(|i| ms(i * 2)).collect();
    let (found, report) = window(script([answer(ms(30))]), 3, 3, &dues);
    for (k, finished) in found.iter().enumerate() {
        let free = k.checked_sub(3).map(|freed| found[freed].ended);
        assert_eq!(submit(finished), free.unwrap_or(finished.due.at).max(finished.due.at), "request {k}");
        assert_eq!(finished.taken, finished.submit);
    }
    assert_eq!(report.starved, 0, "waiting for a slot is not waiting for a request");
}

#[test]
fn a_cap_below_the_number_of_workers_still_ends() {
    let (found, _) = window(script([answer(ms(3))]), 1, 1, &[ms(1); 5]);
    assert_eq!(found.len(), 5);
    // a worker without a slot has nothing to do and says so
    let (clock, shared) = (SimClock::default(), shared(1));
    let mut idle = worker(&clock, &shared, script([]), 1, 1);
    shared.supply.push(job(0, ms(5))).expect("room");
    idle.run(Load::Open, 0, clock.now());
    assert_eq!(shared.supply.len(), 1, "the request is for another worker");
}

#[test]
fn a_stop_censors_what_runs_and_accounts_for_what_was_due() {
    let (clock, shared) = (SimClock::default(), shared(2));
    let opened = START + CONNECT;
    let stopping = Arc::clone(&shared);
    let stop = move |now| {
        if now >= opened + ms(10) {
            stopping.stop.store(true, Ordering::Relaxed);
        }
    };
    let peer = Rehearsed(script([answer(ms(1)), answer(Nanos::from_secs(9))]), stop);
    let mut worker = worker(&clock, &shared, peer, 0, 2);
    worker.prepare(2);
    // the first is answered; two run; of the others one was due, the last one was not
    let dues = [ms(1), ms(4), ms(8), ms(9), Nanos::from_secs(5)];
    supply(&shared, &dues);
    let report = worker.run(Load::Open, 2, opened);
    let mut found = records(&shared);
    found.sort_by_key(|f| f.job);
    let endings: Vec<Ending> = found.iter().map(|f| f.ending).collect();
    assert_eq!(endings, [Ending::Complete, Ending::Censored, Ending::Censored]);
    let left: Vec<u64> = std::iter::from_fn(|| shared.supply.pop()).map(|j| j.id).collect();
    assert_eq!(left, [3, 4], "with no slot free nothing is taken from the supply");
    assert_eq!(report.never_due, 0);
    assert!(clock.now().saturating_since(opened + ms(10)) <= ms(100));
    assert_eq!(worker.driver().live(), 0, "what was cut short is closed");
}

#[test]
fn a_request_in_hand_when_the_window_is_stopped_is_counted() {
    for (due, ending) in [(Nanos::from_secs(5), None), (ms(12), Some(Ending::NotSent))] {
        let (clock, shared) = (SimClock::default(), shared(2));
        let opened = START;
        let (stopping, asleep) = (Arc::clone(&shared), clock.clone());
        // one turn begins before the due and ends after it, and finds that the window was stopped
        let stop = move |now| {
            if now >= opened + ms(10) {
                stopping.stop.store(true, Ordering::Relaxed);
                asleep.advance_to((opened + ms(20)).max(now));
            }
        };
        let mut worker = worker(&clock, &shared, Rehearsed(script([answer(ms(9))]), stop), 0, 2);
        supply(&shared, &[ms(1), due]);
        let report = worker.run(Load::Open, 2, opened);
        let found = records(&shared);
        assert_eq!(found.iter().find(|f| f.job == 1).map(|f| f.ending), ending);
        assert_eq!(report.never_due, u32::from(ending.is_none()));
        if let Some(unsent) = found.iter().find(|f| f.job == 1) {
            assert_eq!((unsent.due.at, unsent.taken, unsent.conn), (opened + due, None, None));
        }
    }
}

#[test]
fn an_idle_connection_that_died_is_not_sent_on() {
    let mut closing = answer(ms(1));
    // long before the next request, and too late to be taken for a habit
    closing.acts.push((ms(2_000), Act::Close));
    let (found, report) = window(script([closing, answer(ms(1))]), 2, 1, &[ms(1), ms(3_000), ms(3_100)]);
    assert!(found.iter().all(|f| f.ending == Ending::Complete && f.retries == 0));
    assert_eq!((found[1].connect, found[1].reopened), (Some(CONNECT), true));
    assert!(found[2].conn_reused);
    assert_eq!(report.closed_by_server, 1);
    // nor does it keep a request from a connection that is there
    let mut closing = answer(ms(1));
    closing.acts.push((ms(2_000), Act::Close));
    let (found, report) = window(script([closing, answer(ms(1))]), 3, 2, &[ms(1), ms(3_000)]);
    assert_eq!((found[0].conn, found[1].conn, found[1].connect), (Some(0), Some(1), None));
    assert_eq!(report.opened, 0);
}

#[test]
fn a_connection_that_dies_under_a_request_costs_one_retry_and_keeps_the_due() {
    let died = Reply::of([(ms(2), Act::Close)]);
    // so long after the reply before that it is not taken for a habit
    let dues = [ms(1), ms(2_000), ms(2_001)];
    let (found, _) = window(script([answer(ms(1)), died.clone(), answer(ms(3))]), 1, 1, &dues);
    assert_eq!((found[1].retries, found[1].ending), (1, Ending::Complete));
    assert_eq!(submit(&found[1]), found[1].due.at + ms(2) + CONNECT);
    assert_eq!(submit(&found[2]), found[1].ended, "it waited for the one slot");
    // on a new connection there is no retry, and the slot is free again
    let (found, _) = window(script([died, answer(ms(3))]), 1, 1, &[ms(1), ms(10)]);
    assert_eq!([found[0].ending, found[1].ending], [Ending::Closed, Ending::Complete]);
}

#[test]
fn a_supply_that_falls_behind_is_counted_by_the_request() {
    let (clock, shared) = (SimClock::default(), shared(4));
    let (opened, feed) = (START, Arc::clone(&shared));
    let mut made = 0;
    // requests are due every ms and made in tens, at 5, 15 and 25 ms
    let feeding = move |now: Instant| {
        while made < 30 && now >= opened + ms(5 + made / 10 * 10) {
            feed.supply.push(job(made, ms(made))).expect("room");
            made += 1;
        }
        if made == 30 {
            feed.supply_over.store(true, Ordering::Release);
        }
    };
    let mut worker = worker(&clock, &shared, Rehearsed(script([answer(Nanos::from_micros(50))]), feeding), 0, 4);
    let report = worker.run(Load::Open, 4, opened);
    let found = records(&shared);
    assert_eq!(found.len(), 30);
    let late = found.iter().filter(|f| f.taken > Some(f.due.at)).count();
    assert_eq!(report.starved as usize, late, "those and no others");
    assert_eq!(late, 6 + 6 + 6, "0 to 5, 10 to 15, 20 to 25 were due when they were made");
    assert!(worker.driver().turns() < 1_000, "an empty supply is looked at now and then: {}", worker.driver().turns());
}

#[test]
fn a_long_wait_for_a_due_is_not_spent_in_turns() {
    let (clock, shared) = (SimClock::default(), shared(1));
    let mut worker = worker(&clock, &shared, script([answer(ms(1))]), 0, 1);
    supply(&shared, &[Nanos::from_secs(10)]);
    worker.run(Load::Open, 1, START);
    assert!(worker.driver().turns() < 10_000 / 50 + 20, "{}", worker.driver().turns());
}

/// Workers that take their turns on threads of their own would need a real clock; here each has its own simulated
/// one, and they run one after the other on one supply as long as each has a slot.
#[test]
fn one_worker_or_eight_have_one_schedule() {
    let ramp = Stretch { lasts_ns: 1_000_000_000, from_per_s: 0.0, to_per_s: 1_000.0 };
    let rate = RateProfile::new(vec![ramp], After::Constant { per_s: 1_000.0 }).expect("a profile");
    let laws = [
        ArrivalLaw::new(1_000.0, 1.0).expect("a law"),
        ArrivalLaw::Varying { rate, spacing: Spacing::Gamma { shape: 0.5 } },
        ArrivalLaw::batches(16, ms(10)).expect("a law"),
    ];
    laws.iter().for_each(one_or_eight);
}

fn one_or_eight(law: &ArrivalLaw) {
    let dues: Vec<Nanos> = law.schedule(7).take(400).collect();
    let of = |workers: u32| {
        let shared = shared(400);
        let mut found = Vec::new();
        for (index, part) in (0..workers).zip(dues.chunks(400 / workers as usize)) {
            let clock = SimClock::default();
            let mut worker = worker(&clock, &shared, script([answer(ms(2))]), index, 64);
            let first = 400 / u64::from(workers) * u64::from(index);
            for (id, due) in (first..).zip(part) {
                shared.supply.push(job(id, *due)).expect("room");
            }
            shared.supply_over.store(true, Ordering::Release);
            worker.prepare(64);
            worker.run(Load::Open, 64, START + ms(100));
            found.extend(records(&shared).iter().map(|f| (f.job, f.due.at, submit(f))));
        }
        found.sort_unstable();
        found
    };
    let one = of(1);
    assert_eq!(one, of(8));
    assert!(one.iter().zip(&dues).all(|((_, due, submit), offset)| *due == START + ms(100) + *offset && submit == due));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Whatever the replies and the cap: each request once, in order, never before its due, and never held back while
    /// a slot was free.
    #[test]
    fn the_schedule_is_kept_as_far_as_the_slots_go(
        gaps_us in prop::collection::vec(0u64..4_000, 1..40),
        replies_us in prop::collection::vec(1u64..20_000, 1..8),
        slots in 1u32..6,
        ready in 0u32..6,
    ) {
        let mut at = 0;
        let dues: Vec<Nanos> = gaps_us.iter().map(|gap| { at += gap; Nanos::from_micros(at) }).collect();
        let replies = replies_us.iter().map(|us| answer(Nanos::from_micros(*us)));
        let (found, report) = window(script(replies), slots, ready.min(slots), &dues);
        let mut ends: Vec<Instant> = found.iter().map(|f| f.ended).collect();
        ends.sort_unstable();
        for (k, finished) in found.iter().enumerate() {
            let taken = finished.taken.expect("taken");
            // request k starts once all but slots - 1 of the k before it are over
            let free = k.checked_sub(slots as usize).map_or(finished.due.at, |freed| ends[freed]);
            prop_assert_eq!(taken, finished.due.at.max(free));
            prop_assert_eq!(finished.ending, Ending::Complete);
        }
        prop_assert_eq!(report.starved, 0);
    }
}
