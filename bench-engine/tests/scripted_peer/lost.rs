//! Requests whose connection is lost, at every moment of their way.

use super::*;
use bench_engine::record::ProtocolError;

/// A script, and what the server does unasked on each connection once it is open; none where the list ends.
struct Forward {
    script: Script,
    greetings: Vec<Vec<(Nanos, Act)>>,
}

impl Peer for Forward {
    fn open(&mut self, serial: u32) -> Opening {
        self.script.open(serial)
    }
    fn opened(&mut self, serial: u32) -> Vec<(Nanos, Act)> {
        self.greetings.get(serial as usize).cloned().unwrap_or_default()
    }
    fn request(&mut self, serial: u32, nth: u32, request: &Bytes) -> Reply {
        self.script.request(serial, nth, request)
    }
}

#[test]
fn a_close_right_behind_a_reply_costs_the_next_request_no_try() {
    for death in [Act::Close, Act::Reset(ECONNRESET)] {
        // both in one turn: the next request is taken up, and has not left
        let closing = Reply::of([(ms(1), bytes(whole())), (ms(1), death)]);
        let mut stage = Stage::new(script([closing, answer(ms(1))]), 1);
        let report = stage.window([1, 2]);
        assert_eq!(stage.log.endings(), [Ending::Complete, Ending::Complete]);
        let second = &stage.record(2).finished;
        assert_eq!(second.retries, 0, "nothing of it had been sent");
        assert_eq!((second.conn_reused, second.reopened), (false, true));
        assert_eq!((report.keep_alive, report.closed_by_server), (KeepAlive::Refused, 2), "and the habit is learnt");
    }
}

#[test]
fn a_connection_opened_ahead_that_dies_before_its_request_has_left_costs_it_nothing() {
    // closed just after it was opened, which is seen when two of three requests have not left yet
    let closed = |later: u64| vec![(Nanos::from_micros(later), Act::Close)];
    let greetings = vec![Vec::new(), closed(10), closed(10)];
    let peer = Forward { script: script([answer(ms(5))]), greetings };
    let mut stage = Stage::paced(Arc::new(Shared::new(3, 64, 64)), peer, 3, 64, 1, |_| {});
    assert_eq!(stage.worker.prepare(3).opened, 3);
    stage.clock.advance_to(stage.clock.now() + ms(1));
    stage.window([1, 2, 3]);
    assert_eq!(stage.log.endings(), [Ending::Complete; 3]);
    for id in [2, 3] {
        let f = &stage.record(id).finished;
        assert_eq!((f.retries, f.conn_reused, f.reopened, f.connect.is_some()), (0, false, true, true), "{id}");
    }
    assert_eq!(stage.worker.driver().opened(), 5);
}

#[test]
fn a_request_that_was_moved_and_finds_no_connection_was_on_none() {
    // a second reply nobody asked for, and then nobody listens
    let reply = Reply::of([(ms(1), bytes(whole())), (ms(1), bytes(whole()))]);
    let openings = [Opening::Accepts(ms(1)), Opening::Refuses(ms(1), ECONNREFUSED)].into();
    let mut stage = Stage::new(Script { openings, replies: [reply].into() }, 1);
    stage.window([1, 2]);
    let second = &stage.record(2).finished;
    assert_eq!((second.ending, second.submit), (Ending::NoConnection(ECONNREFUSED), None));
    assert!(!second.conn_reused, "the connection it would have been sent on is not the one it failed on");
}

#[test]
fn a_server_that_speaks_or_closes_before_it_is_asked_ends_the_request() {
    let unasked = Ending::Protocol(ProtocolError::Unasked);
    let cases = [
        (bytes("220 mail.example ESMTP\r\n"), unasked),
        (bytes("HTTP/1.1 408 Request Timeout\r\n\r\n"), unasked),
        (Act::Close, Ending::Unsent(None)),
        (Act::Reset(ECONNRESET), Ending::Unsent(Some(ECONNRESET))),
    ];
    for (act, ending) in cases {
        let greetings = vec![vec![(Nanos::ZERO, act.clone())]; 1_000];
        let peer = Forward { script: script([answer(ms(1))]), greetings };
        let mut stage = Stage::with(peer, 1, 64, |o| o.limits.request = ms(50));
        stage.window([1, 2]);
        assert_eq!(stage.log.endings(), [ending; 2], "{act:?}");
        assert_eq!(stage.worker.driver().opened(), 2, "one connection a request, not one after the other: {act:?}");
        for id in [1, 2] {
            let f = &stage.record(id).finished;
            assert_eq!((f.submit, f.reads, f.retries, f.connect.is_some()), (None, 0, 0, true));
        }
    }
}

#[test]
fn how_far_a_request_had_come_is_in_the_words() {
    let unsent = |acts: Vec<(Nanos, Act)>| Reply { sent: None, wire_out: None, ..Reply::of(acts) };
    let ending_of = |reply: Reply| {
        let mut stage = Stage::new(script([reply]), 1);
        stage.window([1]);
        stage.log.endings()[0]
    };
    let (close, reset) = ((ms(2), Act::Close), (ms(2), Act::Reset(ECONNRESET)));
    let half = [
        ending_of(unsent(vec![close.clone()])),
        ending_of(unsent(vec![reset.clone()])),
        ending_of(Reply { send_fails: Some((ms(1), EPIPE)), ..unsent(vec![close.clone()]) }),
    ];
    assert_eq!(half, [Ending::HalfSent(None), Ending::HalfSent(Some(ECONNRESET)), Ending::HalfSent(Some(EPIPE))]);
    let whole = [ending_of(Reply::of([close.clone()])), ending_of(Reply::of([reset]))];
    assert_eq!(whole, [Ending::Closed, Ending::Broken(ECONNRESET)]);
    // where an answer had begun, that is what was cut short
    assert_eq!(ending_of(unsent(vec![(ms(1), bytes(HEAD)), close])), Ending::Closed);
    let words = |ending: Ending| ending.to_string();
    assert!(words(half[0]).contains("before the whole request was sent"), "{}", words(half[0]));
    assert!(words(half[1]).contains("ECONNRESET") && words(half[1]).contains("before the whole request was sent"));
    assert!(words(Ending::Unsent(None)).contains("before anything of the request was sent"));
    assert!(words(Ending::Closed).contains("before the reply was complete"));
}

#[test]
fn memory_that_the_client_lacks_is_its_own_fault_and_no_wait() {
    // the kernel takes no more of a request, and the server waits for the rest
    let starved = Reply { sent: None, wire_out: None, send_fails: Some((ms(1), ENOBUFS)), ..Reply::default() };
    let mut stage = Stage::new(script([starved, answer(ms(1))]), 1);
    stage.window([1, 2]);
    assert_eq!(stage.log.endings(), [Ending::Client(ClientFault::Memory), Ending::Complete]);
    assert_eq!(span(&stage.record(1).finished), ms(1), "known at once");
    // nor is it the server's that it cannot be read from
    let unread = Reply::of([(ms(1), Act::Reset(ENOMEM))]);
    let mut stage = Stage::new(script([answer(ms(1)), unread, answer(ms(1))]), 1);
    let report = stage.window([1, 2, 3]);
    let memory = Ending::Client(ClientFault::Memory);
    assert_eq!(stage.log.endings(), [Ending::Complete, memory, Ending::Complete]);
    assert_eq!((report.closed_by_server, stage.record(2).finished.retries), (0, 0));
    assert!(!stage.record(3).finished.reopened);
}

#[test]
fn a_close_that_may_be_about_the_request_is_no_habit_of_closing_after_replies() {
    let dies = |after| Reply::of([(after, Act::Close)]);
    let half_sent = Reply { sent: None, wire_out: None, ..dies(ms(1)) };
    for lost in [dies(ms(400)), half_sent] {
        let mut stage = Stage::new(script([answer(ms(1)), lost, answer(ms(1))]), 1);
        // the second is sent anew, and the third on that connection
        let report = stage.window([1, 2, 3]);
        assert_eq!(stage.log.endings(), [Ending::Complete; 3]);
        assert_eq!((stage.record(2).finished.retries, report.keep_alive), (1, KeepAlive::Works));
        assert!(stage.record(3).finished.conn_reused);
    }
}
