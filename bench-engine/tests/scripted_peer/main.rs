//! A worker against a scripted peer on the simulated clock: everything about time, order and connections that
//! a real socket cannot show without waiting for it.

mod lost;

use bench_engine::clock::{Clock, SimClock};
use bench_engine::conn::{Job, KeepAlive, Reuse};
use bench_engine::record::{ClientFault, Ending, Finished, Note, Timer, notes};
use bench_engine::sim::{Act, Opening, Peer, Reply, Script, SimDriver, wall};
use bench_engine::timers::Limits;
use bench_engine::units::{Instant, Nanos, WallInstant};
use bench_engine::worker::{Load, Message, Shared, WindowReport, Worker, WorkerOptions};
use bytes::Bytes;
use proptest::prelude::*;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const ECONNREFUSED: i32 = 111;
const ECONNRESET: i32 = 104;
const EPIPE: i32 = 32;
const ENOBUFS: i32 = 105;
const ENOMEM: i32 = 12;

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
const TOKEN: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"A\"}}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";
const LAST_CHUNK: &str = "0\r\n\r\n";

fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// A whole streamed reply.
fn whole() -> Vec<u8> {
    [HEAD, &chunk(TOKEN), &chunk(DONE), LAST_CHUNK].concat().into_bytes()
}

fn bytes(text: impl Into<Vec<u8>>) -> Act {
    Act::Bytes(text.into())
}

/// A whole reply after `after`.
fn answer(after: Nanos) -> Reply {
    Reply::of([(after, bytes(whole()))])
}

fn script(replies: impl IntoIterator<Item = Reply>) -> Script {
    Script { replies: replies.into_iter().collect(), ..Script::default() }
}

/// What came out of a window about one request.
#[derive(Debug)]
struct Record {
    finished: Finished,
    tape: Vec<u8>,
}

impl Record {
    fn heads(&self) -> usize {
        notes(&self.tape).filter(|n| matches!(n, Note::HeadEnd)).count()
    }
    fn head(&self) -> String {
        let text = notes(&self.tape).fold(Vec::new(), |mut all, note| {
            if let Note::Head(bytes) = note {
                all.extend_from_slice(bytes);
            }
            all
        });
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// What the record reader would have got.
#[derive(Debug, Default)]
struct Log {
    records: Vec<Record>,
    late: Vec<(u64, WallInstant)>,
    tapes: Vec<(u32, Vec<u8>)>,
}

impl Log {
    fn take_in(&mut self, shared: &Shared) {
        while let Some(message) = shared.messages.pop() {
            match message {
                Message::Block { conn, mut block, .. } => {
                    self.tape(conn).extend_from_slice(block.filled());
                    block.clear();
                    shared.pool.push(block).expect("the pool has room for every block there is");
                }
                Message::Finished(_, mut finished) => {
                    let conn = finished.conn.unwrap_or(u32::MAX);
                    if let Some(mut block) = finished.block.take() {
                        self.tape(conn).extend_from_slice(block.filled());
                        block.clear();
                        shared.pool.push(block).expect("the pool has room for every block there is");
                    }
                    let tape = std::mem::take(self.tape(conn));
                    self.records.push(Record { finished, tape });
                }
                Message::LateWireOut { sequence, wall, .. } => self.late.push((sequence, wall)),
            }
        }
    }

    fn tape(&mut self, conn: u32) -> &mut Vec<u8> {
        let at = self.tapes.iter().position(|(c, _)| *c == conn).unwrap_or_else(|| {
            self.tapes.push((conn, Vec::new()));
            self.tapes.len() - 1
        });
        &mut self.tapes[at].1
    }

    fn endings(&self) -> Vec<Ending> {
        self.records.iter().map(|r| r.finished.ending).collect()
    }
}

/// A script, and something done at each turn.
struct Rehearsed {
    script: Script,
    at_turn: Box<dyn FnMut(Instant)>,
}

impl Peer for Rehearsed {
    fn open(&mut self, serial: u32) -> Opening {
        self.script.open(serial)
    }
    fn request(&mut self, serial: u32, nth: u32, request: &Bytes) -> Reply {
        self.script.request(serial, nth, request)
    }
    fn turn(&mut self, now: Instant) {
        (self.at_turn)(now);
    }
}

struct Stage<P> {
    clock: SimClock,
    shared: Arc<Shared>,
    worker: Worker<SimDriver<P>>,
    slots: u32,
    blocks: usize,
    log: Log,
}

impl<P: Peer> Stage<P> {
    fn with(peer: P, slots: u32, blocks: usize, change: impl FnOnce(&mut WorkerOptions)) -> Self {
        Self::on(Arc::new(Shared::new(slots as usize, blocks, 64)), peer, slots, blocks, change)
    }

    fn on(shared: Arc<Shared>, peer: P, slots: u32, blocks: usize, change: impl FnOnce(&mut WorkerOptions)) -> Self {
        Self::paced(shared, peer, slots, blocks, usize::MAX, change)
    }

    /// With a driver that begins so many requests a turn at most.
    fn paced(
        shared: Arc<Shared>,
        peer: P,
        slots: u32,
        blocks: usize,
        sends_per_turn: usize,
        change: impl FnOnce(&mut WorkerOptions),
    ) -> Self {
        let clock = SimClock::default();
        clock.advance_to(Instant::from_ns(1_000_000_000));
        let mut options = WorkerOptions {
            index: 0,
            slots,
            addresses: Arc::new([SocketAddr::from(([127, 0, 0, 1], 1))]),
            tls: None,
            limits: Limits::default(),
            streamed: true,
            reuse: Reuse::Unlimited,
            canary: None,
            spin: false,
        };
        change(&mut options);
        let driver = SimDriver::new(clock.clone(), peer).with_sends_per_turn(sends_per_turn);
        let worker = Worker::new(driver, options, Arc::clone(&shared));
        Stage { clock, shared, worker, slots, blocks, log: Log::default() }
    }

    fn new(peer: P, slots: u32) -> Self {
        Self::with(peer, slots, 64, |_| {})
    }

    fn supply(&self, ids: impl IntoIterator<Item = u64>) {
        for id in ids {
            self.shared
                .supply
                .push(Job { id, due: None, request: Bytes::from_static(b"POST / HTTP/1.1\r\n\r\n") })
                .expect("room");
        }
    }

    /// One window with these requests and no more.
    fn window(&mut self, ids: impl IntoIterator<Item = u64>) -> WindowReport {
        self.supply(ids);
        self.run(Load::Closed)
    }

    /// One window with what is in the supply and no more.
    fn run(&mut self, load: Load) -> WindowReport {
        self.shared.supply_over.store(true, Ordering::Release);
        let opened = self.clock.now();
        let report = self.worker.run(load, self.slots, opened);
        self.log.take_in(&self.shared);
        assert_eq!(self.shared.pool.len(), self.blocks, "every block of the pool is back");
        report
    }

    fn record(&self, id: u64) -> &Record {
        let mut of = self.log.records.iter().filter(|r| r.finished.job == id);
        let record = of.next().unwrap_or_else(|| panic!("no record of request {id}"));
        assert!(of.next().is_none(), "one record a request");
        record
    }
}

/// Time from the submit to the end.
fn span(finished: &Finished) -> Nanos {
    finished.ended - finished.submit.expect("submitted")
}

#[test]
fn a_stream_may_be_silent_for_longer_than_the_usual_limits() {
    for seconds in [301, 601] {
        let mut stage = Stage::new(script([answer(Nanos::from_secs(seconds))]), 1);
        stage.window([1]);
        let finished = &stage.record(1).finished;
        assert_eq!(finished.ending, Ending::Complete, "{seconds} s");
        assert_eq!(span(finished), Nanos::from_secs(seconds));
    }
}

#[test]
fn a_stream_may_pause_in_its_middle_for_as_long() {
    let pause = Nanos::from_secs(601);
    let acts =
        [(ms(1), bytes([HEAD, &chunk(TOKEN)].concat())), (ms(1) + pause, bytes([&chunk(DONE), LAST_CHUNK].concat()))];
    let mut stage = Stage::new(script([Reply::of(acts)]), 1);
    stage.window([1]);
    assert_eq!(stage.log.endings(), [Ending::Complete]);
    assert_eq!(span(&stage.record(1).finished), ms(1) + pause);
}

#[test]
fn every_timeout_fires_when_it_should_and_says_its_name() {
    let limits = Limits::default();
    let forever = (1..40).map(|n| (Nanos::from_secs(600 * n), bytes([HEAD, &chunk(TOKEN)][usize::from(n > 1)])));
    let begun = [(ms(1), bytes([HEAD, &chunk(TOKEN)].concat()))];
    let undrained = [(ms(1), bytes([HEAD, &chunk(TOKEN), &chunk(DONE)].concat()))];
    let cases = [
        (Reply::default(), Timer::Stall, limits.stall),
        (Reply::of(begun), Timer::Stall, ms(1) + limits.stall),
        (Reply::of(forever), Timer::Request, limits.request),
        (Reply::of(undrained), Timer::Drain, ms(1) + limits.drain),
    ];
    for (reply, timer, after) in cases {
        let mut stage = Stage::new(script([reply]), 1);
        // connections are opened ahead, so that the request is sent when it is taken
        assert_eq!(stage.worker.prepare(1).opened, 1);
        stage.window([1]);
        let finished = &stage.record(1).finished;
        assert_eq!(finished.ending, Ending::TimedOut(timer, limits.of(timer)));
        assert_eq!(span(finished), after, "{timer}");
        let words = finished.ending.to_string();
        assert!(words.contains(&timer.to_string()) && words.contains(&limits.of(timer).to_string()), "{words}");
    }
}

#[test]
fn a_connect_that_hangs_ends_by_its_own_timeout() {
    let silent = Script { openings: [Opening::Silent].into(), ..Script::default() };
    let mut stage = Stage::new(silent.clone(), 1);
    stage.window([1]);
    let finished = &stage.record(1).finished;
    let limit = Limits::default().connect;
    assert_eq!(finished.ending, Ending::TimedOut(Timer::Connect, limit));
    assert_eq!(finished.ended - finished.due.at, limit);
    assert_eq!(finished.submit, None);

    let mut stage = Stage::new(silent, 2);
    let prepared = stage.worker.prepare(2);
    assert_eq!((prepared.opened, prepared.failure), (0, Some(Ending::TimedOut(Timer::Connect, limit))));
}

#[test]
fn a_refused_connect_fails_its_request_and_the_next_one_tries_again() {
    let openings = [Opening::Refuses(ms(1), ECONNREFUSED), Opening::Accepts(ms(2))].into();
    let mut stage = Stage::new(Script { openings, replies: [answer(ms(3))].into() }, 1);
    stage.window([1, 2]);
    assert_eq!(stage.log.endings(), [Ending::NoConnection(ECONNREFUSED), Ending::Complete]);
    assert_eq!(stage.record(2).finished.connect, Some(ms(2)));
}

#[test]
fn a_client_without_descriptors_fails_its_requests_by_that_name() {
    let fault = ClientFault::Descriptors;
    let openings = [Opening::NoSocket(fault), Opening::Accepts(ms(1))].into();
    let mut stage = Stage::new(Script { openings, replies: [answer(ms(1))].into() }, 1);
    stage.window([1, 2]);
    assert_eq!(stage.log.endings(), [Ending::Client(fault), Ending::Complete]);
}

#[test]
fn a_request_whose_kept_alive_connection_died_is_sent_once_more() {
    for death in [Act::Close, Act::Reset(ECONNRESET)] {
        let replies = [answer(ms(5)), Reply::of([(ms(1), death)]), answer(ms(5))];
        let mut stage = Stage::new(script(replies), 1);
        stage.window([1, 2]);
        assert_eq!(stage.log.endings(), [Ending::Complete, Ending::Complete]);
        let (first, second) = (&stage.record(1).finished, &stage.record(2).finished);
        assert_eq!((first.retries, second.retries), (0, 1));
        assert_eq!((second.conn_reused, second.reopened), (false, true), "it went out on a new connection");
        assert_eq!(second.due.at, first.ended, "time still counts from the first due");
        let submit = second.submit.expect("submitted");
        assert!(submit - second.due.at >= ms(1), "submit to wire_out are the last try's");
        assert!(second.wire_out.is_some_and(|(w, _)| w >= wall(submit)));
        assert!(second.connect.is_some(), "the connect is part of its time");
    }
}

#[test]
fn nothing_else_is_sent_again() {
    let dies = |text: &str| Reply::of([(ms(1), bytes(text)), (ms(2), Act::Close)]);
    // a byte of the reply had come
    let mut stage = Stage::new(script([answer(ms(1)), dies("H"), answer(ms(1))]), 1);
    stage.window([1, 2]);
    assert_eq!(stage.log.endings(), [Ending::Complete, Ending::Closed]);
    assert_eq!(stage.record(2).finished.retries, 0);
    // the connection was new
    let mut stage = Stage::new(script([Reply::of([(ms(1), Act::Close)])]), 1);
    stage.window([1]);
    assert_eq!(stage.log.endings(), [Ending::Closed]);
    // it had been sent again before
    let died = Reply::of([(ms(1), Act::Close)]);
    let mut stage = Stage::new(script([answer(ms(1)), died.clone(), died, answer(ms(1))]), 1);
    stage.window([1, 2, 3]);
    assert_eq!(stage.log.endings(), [Ending::Complete, Ending::Closed, Ending::Complete]);
    assert_eq!(stage.record(2).finished.retries, 1);
}

#[test]
fn the_time_of_a_second_try_is_bounded_by_the_request_and_its_waits_by_their_own_names() {
    // the first try waits almost as long as a stall may; the second connect hangs
    let openings = [Opening::Accepts(ms(1)), Opening::Silent].into();
    let died = Reply::of([(Nanos::from_secs(9), Act::Close)]);
    let peer = Script { openings, replies: [answer(ms(1)), died].into() };
    let limits = Limits { connect: Nanos::from_secs(5), stall: Nanos::from_secs(10), ..Limits::default() };
    let mut stage = Stage::with(peer, 1, 64, |o| o.limits = limits);
    stage.window([1, 2]);
    assert_eq!(stage.log.endings(), [Ending::Complete, Ending::TimedOut(Timer::Connect, limits.connect)]);
}

#[test]
fn a_server_that_closes_after_each_reply_is_learnt() {
    let closing = Reply::of([(ms(1), bytes(whole())), (ms(1) + Nanos::from_micros(50), Act::Close)]);
    let mut stage = Stage::new(script([closing]), 1);
    let report = stage.window(0..6);
    assert_eq!(stage.log.endings(), [Ending::Complete; 6]);
    assert_eq!(report.keep_alive, KeepAlive::Refused);
    let retries: Vec<u32> = (0..6).map(|id| stage.record(id).finished.retries).collect();
    assert_eq!(retries, [0, 1, 0, 0, 0, 0], "one request paid for the knowledge");
    for id in 1..6 {
        let finished = &stage.record(id).finished;
        assert!(finished.reopened && !finished.conn_reused, "request {id} opened its connection anew");
    }
    assert_eq!(stage.worker.driver().opened(), 6);
    // it is still known in the next window, and nothing is opened ahead for it
    assert_eq!(stage.worker.prepare(1).opened, 0);
    stage.shared.supply_over.store(false, Ordering::Release);
    stage.window([10, 11]);
    assert!([10, 11].iter().all(|id| stage.record(*id).finished.retries == 0));
}

#[test]
fn an_announced_close_is_no_failure_and_no_retry() {
    let text = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
    let reply = Reply::of([(ms(1), bytes([text, TOKEN, DONE].concat())), (ms(2), Act::Close)]);
    let mut stage = Stage::new(script([reply]), 1);
    let report = stage.window(0..3);
    assert_eq!(stage.log.endings(), [Ending::Complete; 3]);
    assert_eq!((report.closed_by_server, report.opened), (3, 3));
    assert!((0..3).all(|id| stage.record(id).finished.retries == 0));
}

#[test]
fn a_connection_closed_while_idle_is_opened_anew_before_the_next_window() {
    let idle = Nanos::from_secs(30);
    let replies = [Reply::of([(ms(1), bytes(whole())), (idle, Act::Close)]), answer(ms(1))];
    let mut stage = Stage::new(script(replies), 1);
    stage.worker.prepare(1);
    stage.window([1]);
    stage.clock.advance_to(stage.clock.now() + Nanos::from_secs(60));
    assert_eq!(stage.worker.prepare(1).opened, 1);
    let report = stage.window([2]);
    assert_eq!(stage.log.endings(), [Ending::Complete, Ending::Complete]);
    let finished = &stage.record(2).finished;
    assert_eq!((finished.retries, finished.reopened, finished.conn_reused), (0, true, false));
    assert_eq!(report.keep_alive, KeepAlive::Untried, "an idle timeout is no habit");
}

#[test]
fn two_replies_in_one_packet_are_not_read_as_one() {
    let reply = Reply::of([(ms(1), bytes([whole(), whole()].concat()))]);
    let mut stage = Stage::new(script([reply, answer(ms(1))]), 1);
    stage.window([1, 2]);
    assert_eq!(stage.log.endings(), [Ending::Complete, Ending::Complete]);
    assert_eq!(stage.record(1).heads(), 1);
    let second = &stage.record(2).finished;
    assert!(!second.conn_reused && second.retries == 0, "bytes nobody asked for end the connection");
    assert_eq!(stage.worker.driver().opened(), 2);
}

#[test]
fn a_second_reply_right_behind_the_first_is_nobodys() {
    // two reads of one turn: the second reply is there before the next request has left
    let reply = Reply::of([(ms(1), bytes(whole())), (ms(1), bytes(whole()))]);
    let mut stage = Stage::new(script([reply, answer(ms(7))]), 1);
    stage.window([1, 2]);
    let second = &stage.record(2).finished;
    assert_eq!(second.ending, Ending::Complete);
    assert_eq!(span(second), ms(7), "answered by its own reply");
    assert_eq!((second.conn_reused, second.retries), (false, 0));
}

#[test]
fn bytes_nobody_asked_for_end_an_idle_connection() {
    let reply = Reply::of([(ms(1), bytes(whole())), (ms(500), bytes("HTTP/1.1 408 Request Timeout\r\n\r\n"))]);
    let mut stage = Stage::new(script([reply, answer(ms(1))]), 1);
    stage.window([1]);
    stage.clock.advance_to(stage.clock.now() + Nanos::from_secs(1));
    stage.worker.prepare(1);
    stage.window([2]);
    assert_eq!(stage.log.endings(), [Ending::Complete, Ending::Complete]);
    assert!(!stage.record(2).finished.conn_reused);
}

#[test]
fn an_answer_before_the_request_was_sent_whole_ends_it() {
    let text = "HTTP/1.1 413 Payload Too Large\r\nContent-Length: 3\r\n\r\nbig";
    let refusal = Reply { sent: None, wire_out: None, ..Reply::of([(ms(1), bytes(text))]) };
    let mut stage = Stage::new(script([refusal, answer(ms(1))]), 1);
    stage.window([1, 2]);
    let (first, second) = (stage.record(1), &stage.record(2).finished);
    assert_eq!(first.finished.ending, Ending::Complete);
    assert!(first.head().starts_with("HTTP/1.1 413"), "{}", first.head());
    assert_eq!((first.finished.sent, first.finished.wire_out), (None, None), "so there is no net");
    assert_eq!(first.finished.bytes_out, 0);
    assert!(!second.conn_reused, "sending has stopped for good: the connection is not used again");
}

#[test]
fn what_the_server_says_before_it_breaks_off_counts() {
    let text = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno";
    let told = Reply {
        sent: None,
        send_fails: Some((ms(1), EPIPE)),
        wire_out: None,
        acts: vec![(ms(2), bytes(text)), (ms(2), Act::Reset(ECONNRESET))],
    };
    let mut stage = Stage::new(script([told]), 1);
    stage.window([1]);
    assert_eq!(stage.log.endings(), [Ending::Complete]);
    assert!(stage.record(1).head().starts_with("HTTP/1.1 400"));
    // and where it says nothing, the errno of the send does
    let mute = Reply { sent: None, send_fails: Some((ms(1), EPIPE)), ..Reply::of([(ms(2), Act::Close)]) };
    let mut stage = Stage::new(script([mute]), 1);
    stage.window([1]);
    assert_eq!(stage.log.endings(), [Ending::HalfSent(Some(EPIPE))]);
}

#[test]
fn a_tx_stamp_after_the_reply_finds_its_record() {
    let late = Reply { wire_out: Some((ms(1), ms(9))), ..answer(ms(2)) };
    let mut stage = Stage::new(script([late, answer(ms(20))]), 1);
    stage.window([1, 2]);
    let first = &stage.record(1).finished;
    assert_eq!(first.wire_out, None);
    assert_eq!(stage.log.late, [(first.sequence, wall(first.submit.expect("submitted") + ms(1)))]);
    assert!(stage.record(2).finished.wire_out.is_some());
}

#[test]
fn a_tx_stamp_that_never_comes_is_null() {
    let never = Reply { wire_out: None, ..answer(ms(2)) };
    let mut stage = Stage::new(script([never]), 1);
    stage.window([1]);
    assert_eq!((stage.record(1).finished.wire_out, stage.log.late.len()), (None, 0));
}

#[test]
fn a_socket_is_used_again_after_done_when_its_last_chunk_comes_late() {
    let late =
        |after| Reply::of([(ms(1), bytes([HEAD, &chunk(TOKEN), &chunk(DONE)].concat())), (after, bytes(LAST_CHUNK))]);
    let mut stage = Stage::new(script([late(ms(101)), answer(ms(1))]), 1);
    stage.window([1, 2]);
    assert_eq!(stage.log.endings(), [Ending::Complete, Ending::Complete]);
    let (first, second) = (&stage.record(1).finished, &stage.record(2).finished);
    assert!(second.conn_reused);
    assert_eq!(span(first), ms(101));
    assert_eq!(second.due.wall, Some(wall(first.ended)), "the slot is free at the end of the body");
    // longer than a drain may take: the slot is free when the connection is given up
    let mut stage = Stage::new(script([late(ms(900)), answer(ms(1))]), 1);
    stage.window([1, 2]);
    let (first, second) = (&stage.record(1).finished, &stage.record(2).finished);
    assert_eq!(first.ending, Ending::TimedOut(Timer::Drain, ms(250)));
    assert_eq!(second.ending, Ending::Complete);
    assert!(!second.conn_reused && !second.reopened, "the client gave it up, not the server");
    assert_eq!((second.due.at, second.due.wall), (first.ended, None));
}

#[test]
fn the_next_request_is_due_when_the_reply_arrived() {
    let mut stage = Stage::new(script([answer(ms(4))]), 1);
    stage.window([1, 2]);
    let (first, second) = (&stage.record(1).finished, &stage.record(2).finished);
    assert_eq!(second.due.wall, Some(wall(first.submit.expect("submitted") + ms(4))));
    assert_eq!(second.due.at, first.ended);
}

#[test]
fn a_client_that_was_stopped_sees_late_and_stamps_do_not_move() {
    // the client sleeps from 3 ms after the start until 300 ms after it
    let clock = SimClock::default();
    let shared = Arc::new(Shared::new(1, 64, 64));
    let start = Instant::from_ns(1_000_000_000);
    let asleep = clock.clone();
    let peer = Rehearsed {
        script: script([Reply::of([
            (ms(1), bytes([HEAD, &chunk(TOKEN)].concat())),
            (ms(10), bytes([&chunk(TOKEN), &chunk(DONE), LAST_CHUNK].concat())),
        ])]),
        at_turn: Box::new(move |now| {
            if now > start + ms(1) && now < start + ms(9) {
                asleep.advance_to(start + ms(300));
            }
        }),
    };
    let mut stage = {
        clock.advance_to(start);
        let options = WorkerOptions {
            index: 0,
            slots: 1,
            addresses: Arc::new([SocketAddr::from(([127, 0, 0, 1], 1))]),
            tls: None,
            limits: Limits::default(),
            streamed: true,
            reuse: Reuse::Unlimited,
            canary: None,
            spin: false,
        };
        let worker = Worker::new(SimDriver::new(clock.clone(), peer), options, Arc::clone(&shared));
        Stage { clock, shared, worker, slots: 1, blocks: 64, log: Log::default() }
    };
    stage.window([1]);
    let record = stage.record(1);
    let submit = record.finished.submit.expect("submitted");
    let reads: Vec<_> =
        notes(&record.tape).filter_map(|n| if let Note::Read(r) = n { Some(r) } else { None }).collect();
    assert_eq!(reads.len(), 2);
    assert_eq!(reads[1].seen, start + ms(300));
    assert_eq!(reads[1].wall, Some(wall(submit + ms(10))), "it had arrived in the meantime");
    assert_eq!(record.finished.ending, Ending::Complete);
}

#[test]
fn a_stop_censors_what_runs_and_starts_nothing_more() {
    let shared = Arc::new(Shared::new(3, 64, 64));
    let (stop, at) = (Arc::clone(&shared), Instant::from_ns(1_000_000_000) + ms(20));
    let openings = [Opening::Accepts(ms(1)), Opening::Accepts(ms(1)), Opening::Silent].into();
    let peer = Rehearsed {
        script: Script { openings, replies: [answer(ms(5)), answer(Nanos::from_secs(9))].into() },
        at_turn: Box::new(move |now| {
            if now >= at {
                stop.stop.store(true, Ordering::Relaxed);
            }
        }),
    };
    let mut stage = Stage::on(shared, peer, 3, 64, |_| {});
    stage.window(0..20);
    let count = |ending: Ending| stage.log.endings().iter().filter(|e| **e == ending).count();
    // two were on the wire, one was waiting for its connection
    assert_eq!((count(Ending::Complete), count(Ending::Censored)), (1, 3));
    assert_eq!(stage.log.records.len() + stage.shared.supply.len(), 20, "the others were never due");
    let latest = stage.log.records.iter().map(|r| r.finished.ended).max().expect("records");
    assert!(latest - at <= ms(100), "a stop is noticed within one longest wait: {latest:?}, {at:?}");
    assert_eq!(stage.worker.driver().live(), 0, "what was cut short is closed");
}

#[test]
fn an_empty_supply_is_counted_once_for_each_slot_that_met_it() {
    let shared = Arc::new(Shared::new(3, 64, 64));
    let (feed, filled_at) = (Arc::clone(&shared), Instant::from_ns(1_000_000_000) + ms(30));
    let peer = Rehearsed {
        script: script([answer(ms(5))]),
        at_turn: Box::new(move |now| {
            if now >= filled_at && !feed.supply_over.load(Ordering::Acquire) {
                for id in 10..13 {
                    feed.supply.push(Job { id, due: None, request: Bytes::from_static(b"POST") }).expect("room");
                }
                feed.supply_over.store(true, Ordering::Release);
            }
        }),
    };
    let mut stage = Stage::on(shared, peer, 3, 64, |_| {});
    stage.supply(0..3);
    let opened = stage.clock.now();
    let report = stage.worker.run_window(3, opened);
    stage.log.take_in(&stage.shared);
    assert_eq!(stage.log.endings(), [Ending::Complete; 6]);
    assert_eq!(report.starved, 3);
    for id in 10..13 {
        let finished = &stage.record(id).finished;
        assert!(finished.taken.expect("taken") >= filled_at);
        assert!(finished.due.at < filled_at, "due when its slot was free: the rest is the client's lateness");
    }
    let turns = stage.worker.driver().turns();
    assert!(turns < 1_000, "an empty supply is looked at now and then, not all the time: {turns} turns");
}

#[test]
fn slots_that_met_an_empty_supply_are_served_in_turn() {
    let shared = Arc::new(Shared::new(4, 64, 64));
    let (feed, start) = (Arc::clone(&shared), Instant::from_ns(1_000_000_000));
    let mut next = 0;
    let peer = Rehearsed {
        script: script([answer(Nanos::from_micros(300))]),
        // one request a millisecond for four slots: all of them are hungry most of the time
        at_turn: Box::new(move |now| {
            while next < 40 && now >= start + ms(next) {
                feed.supply.push(Job { id: next, due: None, request: Bytes::from_static(b"POST") }).expect("room");
                next += 1;
            }
            if next == 40 {
                feed.supply_over.store(true, Ordering::Release);
            }
        }),
    };
    let mut stage = Stage::on(shared, peer, 4, 64, |_| {});
    let opened = stage.clock.now();
    stage.worker.run_window(4, opened);
    stage.log.take_in(&stage.shared);
    for slot in 0..4 {
        let n = stage.log.records.iter().filter(|r| r.finished.conn == Some(slot)).count();
        assert_eq!(n, 10, "slot {slot} has its share of 40");
    }
}

#[test]
fn an_exhausted_pool_fails_the_request_it_hits_and_nothing_else() {
    let long: String = (0..600).map(|_| chunk(TOKEN)).collect();
    let big = Reply::of([(ms(3), bytes([HEAD, &long, &chunk(DONE), LAST_CHUNK].concat()))]);
    // six blocks are enough for small replies on two slots, not for one of 37 KB
    let mut stage = Stage::with(script([big, answer(ms(2)), answer(ms(3))]), 2, 6, |_| {});
    let report = stage.window(0..2);
    assert_eq!(stage.log.endings(), [Ending::Complete, Ending::Client(ClientFault::Pool)]);
    assert!(report.pool_exhausted > 0);
    // the blocks are back, and everything goes on
    let report = stage.window(10..14);
    assert_eq!(stage.log.endings()[2..], [Ending::Complete; 4]);
    assert_eq!(report.pool_exhausted, 0);
}

#[test]
fn one_connection_for_each_request_when_asked() {
    let mut stage = Stage::with(script([answer(ms(1))]), 2, 64, |o| o.reuse = Reuse::PER_REQUEST);
    assert_eq!(stage.worker.prepare(2).opened, 0);
    let report = stage.window(0..6);
    assert_eq!((stage.worker.driver().opened(), report.opened), (6, 6));
    assert_eq!(report.closed_by_server, 0);
    for record in &stage.log.records {
        let f = &record.finished;
        assert!(!f.conn_reused && !f.reopened && f.connect.is_some() && f.retries == 0, "{f:?}");
    }
}

#[test]
fn one_connection_for_each_request_is_the_clients_choice_also_where_the_server_agrees() {
    let text = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\nContent-Length: ";
    let body = [TOKEN, DONE].concat();
    let closing = Reply::of([(ms(1), bytes(format!("{text}{}\r\n\r\n{body}", body.len()))), (ms(1), Act::Close)]);
    let mut stage = Stage::with(script([closing]), 1, 64, |o| o.reuse = Reuse::PER_REQUEST);
    stage.window(0..3);
    assert_eq!(stage.log.endings(), [Ending::Complete; 3]);
    assert!(stage.log.records.iter().all(|r| !r.finished.reopened), "cold by choice, not reopened by the server");
}

#[test]
fn a_reply_is_read_the_same_however_its_reads_are_cut() {
    let text = whole();
    for at in 1..text.len() {
        let acts = [(ms(1), bytes(&text[..at])), (ms(2), bytes(&text[at..]))];
        let mut stage = Stage::new(script([Reply::of(acts)]), 1);
        stage.window([1, 2]);
        assert_eq!(stage.log.endings(), [Ending::Complete, Ending::Complete], "cut at {at}");
        assert!(stage.record(2).finished.conn_reused);
    }
}

/// Anything a peer may do, drawn beforehand.
#[derive(Clone, Debug)]
struct Chaos {
    openings: Vec<Opening>,
    /// What it does unasked on connections that are open.
    greetings: Vec<Vec<(Nanos, Act)>>,
    replies: Vec<Reply>,
}

impl Peer for Chaos {
    fn open(&mut self, serial: u32) -> Opening {
        self.openings[serial as usize % self.openings.len()]
    }
    fn opened(&mut self, serial: u32) -> Vec<(Nanos, Act)> {
        self.greetings[serial as usize % self.greetings.len()].clone()
    }
    fn request(&mut self, serial: u32, nth: u32, _: &Bytes) -> Reply {
        self.replies[(serial * 7 + nth) as usize % self.replies.len()].clone()
    }
}

fn act() -> impl Strategy<Value = Act> {
    let text = prop_oneof![
        Just(whole()),
        Just([whole(), whole()].concat()),
        Just(HEAD.as_bytes().to_vec()),
        Just(chunk(TOKEN).into_bytes()),
        Just([HEAD, &chunk(TOKEN), &chunk(DONE)].concat().into_bytes()),
        Just(LAST_CHUNK.as_bytes().to_vec()),
        Just(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n".to_vec()),
        Just(b"HTTP/1.1 100 Continue\r\n\r\n".to_vec()),
        Just(b"HTTP/1.0 200 OK\r\n\r\n".to_vec()),
        prop::collection::vec(any::<u8>(), 1..60),
    ];
    prop_oneof![8 => text.prop_map(Act::Bytes), 1 => Just(Act::Close), 1 => Just(Act::Reset(ECONNRESET))]
}

fn some_us() -> impl Strategy<Value = Nanos> + Clone {
    (0u64..30).prop_map(|n| Nanos::from_micros(100 * n))
}

/// Fewer than `most`, in order of time, and nothing after the end.
fn acts(most: usize) -> impl Strategy<Value = Vec<(Nanos, Act)>> {
    prop::collection::vec((some_us(), act()), 0..most).prop_map(|mut acts| {
        acts.sort_by_key(|(at, _)| *at);
        let end = acts.iter().position(|(_, a)| !matches!(a, Act::Bytes(_))).map_or(acts.len(), |i| i + 1);
        acts.truncate(end);
        acts
    })
}

fn reply() -> impl Strategy<Value = Reply> {
    let us = some_us();
    let sent = prop_oneof![6 => us.clone().prop_map(Some), 1 => Just(None)];
    let errno = prop_oneof![3 => Just(EPIPE), 1 => Just(ENOBUFS)];
    let fails = prop_oneof![9 => Just(None), 1 => (us.clone(), errno).prop_map(Some)];
    let stamp = prop::option::of((us.clone(), us).prop_map(|(a, b)| (a, a + b)));
    (sent, fails, stamp, acts(6)).prop_map(|(sent, send_fails, wire_out, acts)| Reply {
        sent,
        send_fails,
        wire_out,
        acts,
    })
}

fn greeting() -> impl Strategy<Value = Vec<(Nanos, Act)>> {
    prop_oneof![4 => Just(Vec::new()), 1 => acts(2)]
}

fn opening() -> impl Strategy<Value = Opening> {
    let us = (0u64..500).prop_map(Nanos::from_micros);
    prop_oneof![
        8 => us.clone().prop_map(Opening::Accepts),
        1 => us.prop_map(|t| Opening::Refuses(t, ECONNREFUSED)),
        1 => Just(Opening::NoSocket(ClientFault::Ports)),
        1 => Just(Opening::Silent),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Whatever the peer does: one record for each request, in bounded time, and no block is lost.
    #[test]
    fn counts_close_under_any_peer(
        openings in prop::collection::vec(opening(), 1..6),
        greetings in prop::collection::vec(greeting(), 1..6),
        replies in prop::collection::vec(reply(), 1..8),
        slots in 1u32..5,
        sends_per_turn in 1usize..4,
        jobs in 1u64..25,
        reuse in any::<bool>(),
        prepared in any::<bool>(),
        stop_after in prop::option::of(0u64..40),
        due_every in prop::option::of(0u64..4),
        load in prop_oneof![Just(Load::Open), Just(Load::Sessions)],
    ) {
        let limits = Limits { connect: ms(40), stall: ms(50), request: ms(200), drain: ms(10) };
        let shared = Arc::new(Shared::new(slots as usize, 64, 64));
        let (stop, start) = (Arc::clone(&shared), Instant::from_ns(1_000_000_000));
        struct Stopping(Chaos, Box<dyn FnMut(Instant)>);
        impl Peer for Stopping {
            fn open(&mut self, serial: u32) -> Opening { self.0.open(serial) }
            fn opened(&mut self, serial: u32) -> Vec<(Nanos, Act)> { self.0.opened(serial) }
            fn request(&mut self, serial: u32, nth: u32, r: &Bytes) -> Reply { self.0.request(serial, nth, r) }
            fn turn(&mut self, now: Instant) { (self.1)(now) }
        }
        let at_turn = move |now: Instant| {
            if stop_after.is_some_and(|after| now >= start + ms(after)) {
                stop.stop.store(true, Ordering::Relaxed);
            }
        };
        let peer = Stopping(Chaos { openings, greetings, replies }, Box::new(at_turn));
        let mut stage = Stage::paced(shared, peer, slots, 64, sends_per_turn, |o| {
            o.limits = limits;
            o.reuse = if reuse { Reuse::Unlimited } else { Reuse::PER_REQUEST };
        });
        if prepared {
            stage.worker.prepare(slots);
        }
        let report = match due_every {
            None => stage.window(0..jobs),
            Some(every) => {
                for id in 0..jobs {
                    let request = Bytes::from_static(b"POST / HTTP/1.1\r\n\r\n");
                    stage.shared.supply.push(Job { id, due: Some(ms(id * every)), request }).expect("room");
                }
                stage.run(load)
            }
        };
        let mut ids: Vec<u64> = stage.log.records.iter().map(|r| r.finished.job).collect();
        ids.sort_unstable();
        let never_due = stage.shared.supply.len() as u64 + u64::from(report.never_due);
        prop_assert_eq!(ids, (0..jobs - never_due).collect::<Vec<_>>());
        prop_assert!(never_due == 0 || stop_after.is_some());
        for record in &stage.log.records {
            let f = &record.finished;
            prop_assert!(f.retries <= 1);
            prop_assert!(f.ended >= f.due.at);
            match f.taken {
                Some(taken) => prop_assert!(f.ended - taken <= limits.request, "{:?}", f),
                None => prop_assert_eq!(f.ending, Ending::NotSent),
            }
            if f.ending == Ending::Complete {
                prop_assert!(f.submit.is_some(), "a reply to what was never sent: {:?}", f);
            }
            prop_assert!(f.submit.is_some() || f.reads == 0, "bytes for what was never sent: {:?}", f);
            let connects = [Ending::TimedOut(Timer::Connect, limits.connect), Ending::Client(ClientFault::Ports)];
            if connects.contains(&f.ending) || matches!(f.ending, Ending::NoConnection(_) | Ending::Unsent(_)) {
                prop_assert!(!f.conn_reused, "on no connection, so on none that was used: {:?}", f);
            }
        }
        stage.worker.close_all();
        prop_assert_eq!(stage.worker.driver().live(), 0);
        let rounds = stage.worker.driver().turns();
        prop_assert!(rounds < 3_000, "{} turns", rounds);
        // one of its own for each request at most
        let most = u64::from(slots) + jobs;
        prop_assert!(u64::from(stage.worker.driver().opened()) <= most, "more than {} connections", most);
    }
}
