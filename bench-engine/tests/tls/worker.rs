//! A worker over TLS: the simulated clock, and a peer that speaks TLS as the script says.

use crate::authority::{Authority, Demands, server};
use crate::session::options;
use bench_engine::clock::{Clock, SimClock};
use bench_engine::conn::{Job, Reuse};
use bench_engine::record::{ClientFault, Ending, Finished, Note, ProtocolError, Timer, notes};
use bench_engine::sim::{Act, Opening, Peer, Reply, SimDriver, wall};
use bench_engine::timers::Limits;
use bench_engine::units::{Instant, Nanos};
use bench_engine::wire::tls::{Client, TlsFault, Trust};
use bench_engine::worker::{Load, Message, Prepared, Shared, WindowReport, Worker, WorkerOptions};
use bytes::Bytes;
use rustls::{ServerConfig, ServerConnection};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const fn us(n: u64) -> Nanos {
    Nanos::from_micros(n)
}

/// What the server does of its own, after so long.
#[derive(Clone)]
enum Say {
    /// Sends these bytes, encrypted, as one read.
    Words(String),
    /// Sends these, and the session's end behind them in the same read.
    LastWords(String),
    /// Changes its keys; they come into use with the next words.
    Rekey,
    /// Ends the session as TLS asks, in a read of its own.
    CloseNotify,
    /// Closes TCP.
    Fin,
    /// Breaks TCP.
    Reset,
    /// Sends these bytes as they are, beside its session.
    Raw(Vec<u8>),
}

/// A peer behind TLS.
struct Secured {
    config: Arc<ServerConfig>,
    sessions: HashMap<u32, ServerConnection>,
    /// From a part of the handshake to the answer; None: there is none.
    answers_after: Option<Nanos>,
    /// In place of an answer to the first part of the handshake.
    instead: Option<Act>,
    /// Sent unasked, behind its own part of the handshake and in the same read.
    greeting: Option<&'static str>,
    /// Of each request; the last one again and again.
    replies: Vec<Vec<(Nanos, Say)>>,
    requests: usize,
}

fn drain(session: &mut ServerConnection) -> Vec<u8> {
    let mut out = Vec::new();
    while session.wants_write() {
        session.write_tls(&mut out).expect("a vector takes all");
    }
    out
}

impl Secured {
    fn of(config: Arc<ServerConfig>, replies: impl IntoIterator<Item = Vec<(Nanos, Say)>>) -> Self {
        let replies = replies.into_iter().collect();
        let answers_after = Some(us(500));
        Secured { config, sessions: HashMap::new(), answers_after, instead: None, greeting: None, replies, requests: 0 }
    }

    /// What the session has to send, and what it has understood.
    fn take(&mut self, serial: u32, mut bytes: &[u8]) -> (Vec<u8>, String) {
        let config = &self.config;
        let session =
            self.sessions.entry(serial).or_insert_with(|| ServerConnection::new(Arc::clone(config)).expect("a server"));
        let mut plain = Vec::new();
        while !bytes.is_empty() {
            session.read_tls(&mut bytes).expect("room");
            // what it finds wrong goes out as an alert
            if session.process_new_packets().is_err() {
                break;
            }
            let _ = session.reader().read_to_end(&mut plain);
        }
        (drain(session), String::from_utf8(plain).expect("text"))
    }
}

impl Peer for Secured {
    fn open(&mut self, _: u32) -> Opening {
        Opening::Accepts(us(100))
    }

    fn aside(&mut self, serial: u32, bytes: &Bytes) -> Vec<(Nanos, Act)> {
        if let Some(act) = self.instead.take() {
            return vec![(us(500), act)];
        }
        let (mut out, plain) = self.take(serial, bytes);
        assert_eq!(plain, "", "a request is sent as one");
        if let (Some(words), Some(session)) = (self.greeting, self.sessions.get_mut(&serial)) {
            session.writer().write_all(words.as_bytes()).expect("room");
            out.extend(drain(session));
        }
        let Some(after) = self.answers_after.filter(|_| !out.is_empty()) else { return Vec::new() };
        vec![(after, Act::Bytes(out))]
    }

    fn request(&mut self, serial: u32, _: u32, request: &Bytes) -> Reply {
        let (out, plain) = self.take(serial, request);
        let mut acts = Vec::new();
        if !out.is_empty() {
            acts.push((us(1), Act::Bytes(out)));
        }
        if !plain.is_empty() {
            assert!(plain.starts_with("POST / "), "{plain}");
            let script = self.replies[self.requests.min(self.replies.len() - 1)].clone();
            self.requests += 1;
            let session = self.sessions.get_mut(&serial).expect("it spoke before");
            for (after, say) in script {
                let act = match say {
                    Say::Words(words) => {
                        session.writer().write_all(words.as_bytes()).expect("room");
                        Act::Bytes(drain(session))
                    }
                    Say::LastWords(words) => {
                        session.writer().write_all(words.as_bytes()).expect("room");
                        session.send_close_notify();
                        Act::Bytes(drain(session))
                    }
                    Say::Rekey => {
                        session.refresh_traffic_keys().expect("TLS 1.3");
                        continue;
                    }
                    Say::CloseNotify => {
                        session.send_close_notify();
                        Act::Bytes(drain(session))
                    }
                    Say::Fin => Act::Close,
                    Say::Reset => Act::Reset(104),
                    Say::Raw(bytes) => Act::Bytes(bytes),
                };
                acts.push((after, act));
            }
        }
        Reply { sent: Some(us(2)), wire_out: Some((us(1), us(3))), acts, ..Reply::default() }
    }
}

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
const UNTIL_CLOSE: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";

fn chunk(data: &str) -> String {
    let event = format!("data: {data}\n\n");
    format!("{:x}\r\n{event}\r\n", event.len())
}

/// A whole reply of two events, after so long.
fn answer(after: Nanos) -> Vec<(Nanos, Say)> {
    let words = |text: String| Say::Words(text);
    vec![
        (after, words(HEAD.to_owned() + &chunk("{}"))),
        (after + us(100), words(chunk("[DONE]"))),
        (after + us(200), words("0\r\n\r\n".to_owned())),
    ]
}

struct Stage {
    clock: SimClock,
    shared: Arc<Shared>,
    worker: Worker<SimDriver<Secured>>,
    finished: Vec<(Finished, Vec<u8>)>,
}

impl Stage {
    fn new(authority: &Authority, peer: Secured, change: impl FnOnce(&mut WorkerOptions)) -> Stage {
        let clock = SimClock::default();
        clock.advance_to(Instant::from_ns(1_000_000_000));
        let shared = Arc::new(Shared::new(4, 64, 64));
        let trust = Trust::Pem(authority.pem.as_bytes());
        let mut options = WorkerOptions {
            index: 0,
            slots: 1,
            addresses: Arc::new([SocketAddr::from(([127, 0, 0, 1], 1))]),
            tls: Some(Client::new(&options("localhost", trust)).expect("a client")),
            limits: Limits::default(),
            streamed: true,
            reuse: Reuse::Unlimited,
            canary: None,
            spin: false,
        };
        change(&mut options);
        let worker = Worker::new(SimDriver::new(clock.clone(), peer), options, Arc::clone(&shared));
        Stage { clock, shared, worker, finished: Vec::new() }
    }

    fn with(replies: impl IntoIterator<Item = Vec<(Nanos, Say)>>) -> Stage {
        let authority = Authority::new("test CA");
        let config = server(&authority.local(), &Demands { alpn: &["http/1.1"], ..Demands::default() });
        Stage::new(&authority, Secured::of(config, replies), |_| {})
    }

    fn prepare(&mut self) -> Prepared {
        self.worker.prepare(1)
    }

    /// A window of so many requests, one after the other.
    fn window(&mut self, requests: u64) -> WindowReport {
        for id in 0..requests {
            let job = Job { id, due: None, request: Bytes::from_static(b"POST / HTTP/1.1\r\n\r\n") };
            self.shared.supply.push(job).expect("room");
        }
        self.shared.supply_over.store(true, Ordering::Release);
        let report = self.worker.run(Load::Closed, 1, self.clock.now());
        while let Some(message) = self.shared.messages.pop() {
            if let Message::Finished(_, mut finished) = message {
                let mut block = finished.block.take();
                let tape = block.as_ref().map_or_else(Vec::new, |block| block.filled().to_vec());
                if let Some(mut block) = block.take() {
                    block.clear();
                    self.shared.pool.push(block).expect("the pool has room for every block there is");
                }
                self.finished.push((finished, tape));
            }
        }
        report
    }

    fn endings(&self) -> Vec<Ending> {
        self.finished.iter().map(|(f, _)| f.ending).collect()
    }

    /// What was read of a request: the time from its submit, and whether the stamp may be that of later bytes.
    fn reads(&self, n: usize) -> Vec<(Nanos, bool)> {
        let (finished, tape) = &self.finished[n];
        let submit = finished.submit.expect("sent");
        let read = |note: Note<'_>| match note {
            Note::Read(stamp) => {
                assert_eq!(stamp.wall, Some(wall(stamp.seen)));
                Some((stamp.seen.saturating_since(submit), stamp.filled))
            }
            _ => None,
        };
        notes(tape).filter_map(read).collect()
    }
}

#[test]
fn a_handshake_is_timed_apart_and_comes_before_the_request() {
    let mut stage = Stage::with([answer(us(1_000))]);
    let report = stage.window(2);
    assert_eq!(stage.endings(), [Ending::Complete; 2]);
    let (first, second) = (&stage.finished[0].0, &stage.finished[1].0);
    assert_eq!((first.connect, first.tls), (Some(us(100)), Some(us(500))));
    let taken = first.taken.expect("taken up");
    assert_eq!(first.submit, Some(taken + us(600)), "it is submitted when the session is there");
    assert_eq!((second.conn_reused, second.connect, second.tls), (true, None, None));
    assert_eq!((report.opened, report.closed_by_server), (1, 0));
    for (finished, _) in &stage.finished {
        assert!(finished.bytes_out > 19 && finished.bytes_in > 150 && finished.sent.is_some(), "{finished:?}");
        assert_eq!(finished.wire_out.expect("a stamp").0, wall(finished.submit.expect("sent") + us(1)));
    }
    assert!(first.bytes_out > second.bytes_out, "the end of the handshake goes out in front of the first request");
    // the session tickets, which come first, are no read of the reply
    for n in [0, 1] {
        assert_eq!(stage.reads(n), [(us(1_000), false), (us(1_100), false), (us(1_200), false)]);
        assert_eq!(stage.finished[n].0.reads, 3);
    }
}

#[test]
fn tickets_that_come_to_an_idle_connection_do_not_cost_it() {
    let mut stage = Stage::with([answer(us(1_000))]);
    let prepared = stage.prepare();
    assert_eq!((prepared.opened, prepared.failure), (1, None));
    let report = stage.window(1);
    let first = &stage.finished[0].0;
    assert_eq!((first.ending, report.opened, first.retries), (Ending::Complete, 0, 0));
    assert_eq!((first.connect, first.tls, first.conn_reused), (None, None, false));
}

#[test]
fn an_end_announced_behind_the_reply_is_no_loss() {
    let mut last = answer(us(1_000));
    last.pop();
    last.push((us(1_200), Say::LastWords("0\r\n\r\n".to_owned())));
    let mut stage = Stage::with([last, answer(us(1_000))]);
    let report = stage.window(2);
    assert_eq!(stage.endings(), [Ending::Complete; 2]);
    let second = &stage.finished[1].0;
    assert_eq!((second.reopened, second.retries, second.tls), (true, 0, Some(us(500))));
    // a server that closes right after its first reply is taken at its word for the second
    assert_eq!((report.opened, report.closed_by_server), (2, 2));
    let reads = stage.reads(0);
    assert_eq!(reads.last(), Some(&(us(1_200), true)), "what follows the end shares its stamp");
}

#[test]
fn a_kept_connection_that_dies_is_replaced_once() {
    for (end, what) in
        [(vec![Say::CloseNotify, Say::Fin], "announced"), (vec![Say::Fin], "not"), (vec![Say::Reset], "broken")]
    {
        let dying = end.into_iter().map(|say| (us(50), say)).collect();
        let mut stage = Stage::with([answer(us(1_000)), dying, answer(us(1_000))]);
        stage.window(2);
        assert_eq!(stage.endings(), [Ending::Complete; 2], "{what}");
        let second = &stage.finished[1].0;
        assert_eq!((second.retries, second.reopened, second.tls), (1, true, Some(us(500))), "{what}");
    }
}

#[test]
fn a_body_until_close_needs_the_end_of_the_session() {
    let body = format!("{UNTIL_CLOSE}data: {{}}\n\n");
    let of = |ends: Vec<Say>| {
        let mut script = vec![(us(1_000), Say::Words(body.clone()))];
        script.extend(ends.into_iter().map(|say| (us(2_000), say)));
        let mut stage = Stage::with([script]);
        stage.window(1);
        stage.endings()[0]
    };
    assert_eq!(of(vec![Say::CloseNotify, Say::Fin]), Ending::Complete);
    assert_eq!(of(vec![Say::Fin]), Ending::NoCloseNotify, "anybody can close TCP");
    assert_eq!(of(vec![Say::Reset]), Ending::Broken(104));
    assert!(Ending::NoCloseNotify.to_string().contains("cut short"));
}

#[test]
fn keys_change_in_mid_stream() {
    let mut script = answer(us(1_000));
    script.insert(1, (us(1_050), Say::Rekey));
    let mut stage = Stage::with([script, answer(us(1_000))]);
    stage.window(2);
    assert_eq!(stage.endings(), [Ending::Complete; 2]);
    assert!(stage.finished[1].0.conn_reused);
}

#[test]
fn a_session_that_does_not_come_about_is_a_class_of_its_own() {
    let authority = Authority::new("test CA");
    let config = server(&authority.local(), &Demands::default());
    let with = |change: &dyn Fn(&mut Secured), trusted: &Authority| {
        let mut peer = Secured::of(Arc::clone(&config), [answer(us(1_000))]);
        change(&mut peer);
        let mut stage = Stage::new(trusted, peer, |o| o.limits.connect = us(5_000));
        stage.window(1);
        let (finished, _) = &stage.finished[0];
        (finished.ending, finished.connect, finished.submit)
    };
    let tcp = Some(us(100));
    for act in [Act::Close, Act::Reset(104)] {
        let cut = with(&|peer| peer.instead = Some(act.clone()), &authority);
        assert_eq!(cut, (Ending::Tls(TlsFault::CutInHandshake), tcp, None));
    }
    let plain = Act::Bytes(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec());
    let plain = with(&|peer| peer.instead = Some(plain.clone()), &authority);
    assert_eq!(plain, (Ending::Tls(TlsFault::PlainHttp), tcp, None));
    let stranger = with(&|_| {}, &Authority::new("another CA"));
    assert_eq!(stranger, (Ending::Tls(TlsFault::UnknownCa), tcp, None));
    let silent = with(&|peer| peer.answers_after = None, &authority);
    assert_eq!(silent, (Ending::TimedOut(Timer::Connect, us(5_000)), tcp, None), "TCP was connected all the same");
}

#[test]
fn a_server_that_speaks_before_it_is_asked_is_not_asked_again_and_again() {
    let authority = Authority::new("test CA");
    let mut config = (*server(&authority.local(), &Demands::default())).clone();
    // it need not wait for the client's part (RFC 8446, 4.4.4)
    config.send_half_rtt_data = true;
    let mut peer = Secured::of(Arc::new(config), [answer(us(1_000))]);
    peer.greeting = Some("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
    let mut stage = Stage::new(&authority, peer, |o| o.limits.request = us(50_000));
    stage.window(1);
    assert_eq!(stage.endings(), [Ending::Protocol(ProtocolError::Unasked)]);
    assert_eq!((stage.worker.driver().opened(), stage.worker.driver().live()), (1, 0));
}

#[test]
fn a_session_that_breaks_in_mid_reply_ends_its_request_and_frees_its_slot() {
    let mut broken = answer(us(1_000));
    let noise = [&[0x17, 3, 3, 0, 40][..], &[0xa5; 40]].concat();
    broken.insert(1, (us(1_050), Say::Raw(noise)));
    let mut stage = Stage::with([broken, answer(us(1_000))]);
    let report = stage.window(2);
    assert_eq!(stage.endings(), [Ending::Tls(TlsFault::Undecryptable), Ending::Complete]);
    let (first, second) = (&stage.finished[0].0, &stage.finished[1].0);
    assert_eq!(second.due.at, first.ended, "the slot is free at once");
    assert_eq!((second.conn_reused, second.retries, second.tls), (false, 0, Some(us(500))));
    assert_eq!((report.opened, stage.worker.driver().live()), (2, 1));
}

#[test]
fn what_goes_wrong_before_a_window_is_told() {
    let authority = Authority::new("test CA");
    let config = server(&authority.local(), &Demands::default());
    let mut stage = Stage::new(&Authority::new("another CA"), Secured::of(config, [answer(us(1))]), |_| {});
    let prepared = stage.prepare();
    assert_eq!((prepared.opened, prepared.failure), (0, Some(Ending::Tls(TlsFault::UnknownCa))));
}

#[test]
fn a_client_certificate_that_is_wanted_is_named_though_the_request_has_left() {
    let authority = Authority::new("test CA");
    let config = server(&authority.local(), &Demands { client_of: Some(&authority), ..Demands::default() });
    let mut stage = Stage::new(&authority, Secured::of(config, [answer(us(1_000))]), |_| {});
    stage.window(1);
    // in TLS 1.3 the client is done before the server has looked at its certificate
    assert_eq!(stage.endings(), [Ending::Tls(TlsFault::ClientCertificateWanted)]);
    assert!(stage.finished[0].0.submit.is_some());
}

#[test]
fn connections_take_addresses_in_turn_and_carry_as_many_requests_as_asked() {
    let authority = Authority::new("test CA");
    let config = server(&authority.local(), &Demands::default());
    let addresses: Vec<SocketAddr> = [1, 2, 3].map(|host| SocketAddr::from(([127, 0, 0, host], 1))).to_vec();
    for (most, places, opened) in [(1, [1, 2, 0, 1, 2, 0], 6), (2, [1, 1, 2, 2, 0, 0], 3), (9, [1; 6], 1)] {
        let mut stage = Stage::new(&authority, Secured::of(Arc::clone(&config), [answer(us(1_000))]), |o| {
            (o.index, o.addresses) = (1, addresses.clone().into());
            o.reuse = Reuse::AtMost(NonZeroU32::new(most).expect("not 0"));
        });
        let report = stage.window(6);
        assert_eq!(stage.endings(), [Ending::Complete; 6]);
        let went: Vec<u32> = stage.finished.iter().map(|(f, _)| f.address).collect();
        assert_eq!(went, places, "at most {most}");
        let reused = stage.finished.iter().filter(|(f, _)| f.conn_reused).count();
        assert_eq!((report.opened, reused), (opened, 6 - opened as usize));
        assert_eq!((report.closed_by_server, stage.finished.iter().filter(|(f, _)| f.reopened).count()), (0, 0));
        let to: Vec<SocketAddr> = stage.worker.driver().opened_to().to_vec();
        assert_eq!(to[0], addresses[1], "each worker begins elsewhere");
    }
}

#[test]
fn no_socket_is_the_clients_fault_with_tls_as_without() {
    struct None;
    impl Peer for None {
        fn open(&mut self, _: u32) -> Opening {
            Opening::NoSocket(ClientFault::Descriptors)
        }
        fn request(&mut self, _: u32, _: u32, _: &Bytes) -> Reply {
            Reply::default()
        }
    }
    let clock = SimClock::default();
    let shared = Arc::new(Shared::new(1, 8, 8));
    let options = WorkerOptions {
        index: 0,
        slots: 1,
        addresses: Arc::new([SocketAddr::from(([127, 0, 0, 1], 1))]),
        tls: Some(Client::new(&options("localhost", Trust::Public)).expect("a client")),
        limits: Limits::default(),
        streamed: true,
        reuse: Reuse::Unlimited,
        canary: Option::None,
        spin: false,
    };
    let mut worker = Worker::new(SimDriver::new(clock, None), options, shared);
    assert_eq!(worker.prepare(1).failure, Some(Ending::Client(ClientFault::Descriptors)));
}
