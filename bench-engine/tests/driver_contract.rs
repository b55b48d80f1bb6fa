//! What a worker may count on, whichever driver it has: each case runs on all of them, against real sockets.

use bench_engine::io::epoll::EpollDriver;
use bench_engine::io::uring::UringDriver;
use bench_engine::io::{ConnId, Driver, DriverOptions, Event, Events, READ_BYTES};
use bench_engine::record::ReadStamp;
use bench_engine::units::{Instant, Nanos};
use bytes::Bytes;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::channel;

const ECONNREFUSED: i32 = 111;
const ECONNRESET: i32 = 104;

/// An event, kept.
#[derive(Clone, Debug)]
enum Kept {
    Connected,
    ConnectFailed(i32),
    NoSocket,
    Handed(u64, Instant, Instant),
    Sent(u64, Instant),
    SendFailed,
    WireOut,
    Received(Vec<u8>, ReadStamp),
    PeerClosed,
    ReceiveFailed(i32),
}

/// All that happened, in order, and the time of the last of it.
#[derive(Default)]
struct Log(Vec<(ConnId, Kept)>, Instant);

impl Events for Log {
    fn on(&mut self, conn: ConnId, event: Event<'_>) {
        let at = match &event {
            Event::Connected { at } | Event::ConnectFailed { at, .. } | Event::NoSocket { at, .. } => *at,
            Event::Handed { handed, .. } => *handed,
            Event::Sent { at, .. } => *at,
            Event::Received(_, stamp) => stamp.seen,
            Event::PeerClosed { at } | Event::ReceiveFailed { at, .. } | Event::SendFailed { at, .. } => *at,
            Event::WireOut { .. } => self.1,
        };
        assert!(at >= self.1, "time went back from {:?} to {at:?} with {event:?}", self.1);
        self.1 = at;
        let kept = match event {
            Event::Connected { .. } => Kept::Connected,
            Event::ConnectFailed { errno, .. } => Kept::ConnectFailed(errno),
            Event::NoSocket { .. } => Kept::NoSocket,
            Event::Handed { sequence, submit, handed } => Kept::Handed(sequence, submit, handed),
            Event::Sent { sequence, at } => Kept::Sent(sequence, at),
            Event::SendFailed { .. } => Kept::SendFailed,
            Event::WireOut { .. } => Kept::WireOut,
            Event::Received(bytes, stamp) => Kept::Received(bytes.to_vec(), stamp),
            Event::PeerClosed { .. } => Kept::PeerClosed,
            Event::ReceiveFailed { errno, .. } => Kept::ReceiveFailed(errno),
        };
        self.0.push((conn, kept));
    }
}

impl Log {
    fn of(&self, conn: ConnId) -> impl Iterator<Item = &Kept> {
        self.0.iter().filter(move |(c, _)| *c == conn).map(|(_, kept)| kept)
    }

    fn reads(&self, conn: ConnId) -> Vec<(&[u8], ReadStamp)> {
        fn read(kept: &Kept) -> Option<(&[u8], ReadStamp)> {
            match kept {
                Kept::Received(bytes, stamp) => Some((bytes, *stamp)),
                _ => None,
            }
        }
        self.of(conn).filter_map(read).collect()
    }

    fn bytes(&self, conn: ConnId) -> Vec<u8> {
        self.reads(conn).into_iter().flat_map(|(bytes, _)| bytes.to_vec()).collect()
    }

    fn has(&self, conn: ConnId, is: impl Fn(&Kept) -> bool) -> bool {
        self.of(conn).any(is)
    }
}

/// A driver with what came out of it, and a listener for its connections.
struct Bench<D> {
    driver: D,
    log: Log,
    listener: TcpListener,
}

impl<D: Driver> Bench<D> {
    fn new(driver: D) -> Self {
        Bench { driver, log: Log::default(), listener: TcpListener::bind("127.0.0.1:0").expect("a port") }
    }

    fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("bound")
    }

    fn turn(&mut self) {
        let until = self.driver.now() + Nanos::from_millis(20);
        self.driver.turn(until, &mut self.log);
    }

    /// Turns until it is so; there is no other end to it than a great many turns.
    fn turn_until(&mut self, what: &str, is_so: impl Fn(&Log) -> bool) {
        for _ in 0..1000 {
            if is_so(&self.log) {
                return;
            }
            self.turn();
        }
        panic!("never: {what}; {:?}", self.log.0.iter().rev().take(5).collect::<Vec<_>>());
    }

    /// Opens `conn`; the other end of it.
    fn open(&mut self, conn: ConnId) -> TcpStream {
        let address = self.address();
        self.driver.open(conn, address);
        let before = self.log.0.len();
        self.turn_until("connected", |log| {
            log.0[before..].iter().any(|(c, k)| *c == conn && matches!(k, Kept::Connected))
        });
        self.listener.accept().expect("a connection").0
    }
}

const A: ConnId = ConnId(0);
const B: ConnId = ConnId(1);

fn options(stamps: bool) -> DriverOptions {
    DriverOptions { connections: 2, stamps }
}

fn bytes_aside_keep_their_place_and_the_stamp_is_the_requests<D: Driver>(make: impl Fn(DriverOptions) -> D) {
    let mut bench = Bench::new(make(options(true)));
    let mut peer = bench.open(A);
    let long = vec![b'r'; 300_000];
    bench.driver.send_aside(A, Bytes::from_static(b"hello "));
    bench.driver.send(A, 7, Bytes::from(long.clone()));
    let reader = std::thread::spawn(move || {
        let mut got = vec![0; 6 + 300_000];
        peer.read_exact(&mut got).expect("all of it");
        (peer, got)
    });
    bench.turn_until("the stamp", |log| log.has(A, |k| matches!(k, Kept::WireOut)));
    let (mut peer, got) = reader.join().expect("read");
    assert_eq!(got, [b"hello ", long.as_slice()].concat());
    // behind one another, before anything of them has left
    bench.driver.send_aside(A, Bytes::from_static(b"by"));
    bench.driver.send_aside(A, Bytes::from_static(b"e"));
    let told = |is: fn(&Kept) -> bool| bench.log.of(A).filter(|kept| is(kept)).count();
    assert_eq!(told(|k| matches!(k, Kept::Handed(..))), 1, "nothing is told of what is no request");
    assert_eq!(told(|k| matches!(k, Kept::Sent(..))), 1);
    assert_eq!(told(|k| matches!(k, Kept::WireOut)), 1);
    let reader = std::thread::spawn(move || {
        let mut bye = [0; 3];
        peer.read_exact(&mut bye).expect("both");
        peer.write_all(b"yes").expect("written");
        bye
    });
    bench.turn_until("the reply", |log| log.bytes(A) == b"yes");
    assert_eq!(&reader.join().expect("read"), b"bye");
}

fn a_request_and_its_reply<D: Driver>(make: impl Fn(DriverOptions) -> D) {
    for stamps in [true, false] {
        let mut bench = Bench::new(make(options(stamps)));
        let mut peer = bench.open(A);
        bench.driver.send(A, 7, Bytes::from_static(b"what?"));
        bench.turn_until("sent", |log| log.has(A, |k| matches!(k, Kept::Sent(7, _))));
        let mut asked = [0; 5];
        peer.read_exact(&mut asked).expect("a request");
        assert_eq!(&asked, b"what?");
        peer.write_all(b"that").expect("written");
        bench.turn_until("a reply", |log| log.bytes(A) == b"that");
        drop(peer);
        bench.turn_until("the end", |log| log.has(A, |k| matches!(k, Kept::PeerClosed)));
        let of: Vec<Kept> = bench.log.of(A).cloned().collect();
        let at = |is: fn(&Kept) -> bool| of.iter().position(is).expect("it is there");
        let order = [
            at(|k| matches!(k, Kept::Connected)),
            at(|k| matches!(k, Kept::Handed(..))),
            at(|k| matches!(k, Kept::Sent(..))),
            at(|k| matches!(k, Kept::Received(..))),
            at(|k| matches!(k, Kept::PeerClosed)),
        ];
        assert!(order.is_sorted(), "{of:?}");
        let (Kept::Handed(7, submit, handed), Kept::Sent(7, sent)) = (&of[order[1]], &of[order[2]]) else {
            panic!("another send: {of:?}")
        };
        let (_, stamp) = bench.log.reads(A)[0];
        let times = [*submit, *handed, *sent, stamp.seen];
        assert!(times.is_sorted(), "{times:?}");
        assert!(stamp.emptied <= stamp.seen && !stamp.filled && stamp.previous_wall.is_none());
        if !stamps {
            assert!(stamp.wall.is_none() && !of.iter().any(|k| matches!(k, Kept::WireOut)), "nobody asked for stamps");
            assert_eq!(bench.driver.counters().rx_stamps_missing, 0);
        }
        bench.driver.close(A);
    }
}

fn nobody_listens<D: Driver>(make: impl Fn(DriverOptions) -> D) {
    let mut bench = Bench::new(make(options(true)));
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    for tries in 1..=2 {
        // the slot is free again by itself
        bench.driver.open(A, nobody);
        let refused = |k: &&Kept| matches!(k, Kept::ConnectFailed(ECONNREFUSED));
        bench.turn_until("refused", |log| log.of(A).filter(refused).count() == tries);
    }
    bench.open(A);
}

fn the_end_comes_with_the_last_bytes<D: Driver>(make: impl Fn(DriverOptions) -> D) {
    let mut bench = Bench::new(make(options(true)));
    let mut peer = bench.open(A);
    // all of it is there before the driver looks: bytes and end are one edge
    peer.write_all(b"bye").expect("written");
    drop(peer);
    bench.turn_until("the end", |log| log.has(A, |k| matches!(k, Kept::PeerClosed)));
    assert_eq!(bench.log.bytes(A), b"bye");
    let ends = bench.log.of(A).filter(|k| matches!(k, Kept::PeerClosed)).count();
    bench.turn();
    assert_eq!((ends, bench.log.of(A).filter(|k| matches!(k, Kept::PeerClosed)).count()), (1, 1), "said once");
}

fn a_reset_comes_after_what_was_read_before_it<D: Driver>(make: impl Fn(DriverOptions) -> D) {
    let mut bench = Bench::new(make(options(true)));
    let mut peer = bench.open(A);
    bench.driver.send(A, 1, Bytes::from_static(b"left unread"));
    bench.turn_until("sent", |log| log.has(A, |k| matches!(k, Kept::Sent(..))));
    peer.write_all(b"half").expect("written");
    bench.turn_until("half a reply", |log| log.bytes(A) == b"half");
    // a socket that is closed with bytes unread resets its connection
    drop(peer);
    bench.turn_until("a reset", |log| log.has(A, |k| matches!(k, Kept::ReceiveFailed(ECONNRESET))));
    bench.driver.close(A);
    bench.open(A);
}

fn a_large_request_goes_out_as_there_is_room<D: Driver>(make: impl Fn(DriverOptions) -> D) {
    let mut bench = Bench::new(make(options(true)));
    let mut peer = bench.open(A);
    let request: Vec<u8> = (0..20_000_000u32).map(|i| (i % 251) as u8).collect();
    bench.driver.send(A, 3, Bytes::from(request.clone()));
    bench.turn();
    bench.turn();
    assert!(!bench.log.has(A, |k| matches!(k, Kept::Sent(..))), "nobody has read any of it");
    let (done, got) = channel();
    let reader = std::thread::spawn(move || {
        let mut all = vec![0; 20_000_000];
        peer.read_exact(&mut all).expect("the request");
        let _ = done.send(all);
        peer
    });
    bench.turn_until("sent", |log| log.has(A, |k| matches!(k, Kept::Sent(3, _))));
    assert!(got.recv().expect("it was read") == request, "byte for byte");
    let mut peer = reader.join().expect("no panic");
    peer.write_all(b"ok").expect("written");
    bench.turn_until("a reply", |log| log.bytes(A) == b"ok");
    let count = |is: fn(&Kept) -> bool| bench.log.of(A).filter(|k| is(k)).count();
    assert_eq!((count(|k| matches!(k, Kept::Handed(..))), count(|k| matches!(k, Kept::Sent(..)))), (1, 1));
    assert!(count(|k| matches!(k, Kept::WireOut)) <= 1, "one stamp a request");
}

fn a_backlog_is_read_in_pieces_with_stamps_that_chain<D: Driver>(make: impl Fn(DriverOptions) -> D) {
    let mut bench = Bench::new(make(options(true)));
    let mut peer = bench.open(A);
    let reply: Vec<u8> = (0..300_000u32).map(|i| (i % 253) as u8).collect();
    let writing = reply.clone();
    let writer = std::thread::spawn(move || peer.write_all(&writing).map(|()| peer));
    bench.turn_until("all of it", |log| log.bytes(A).len() == reply.len());
    drop(writer.join().expect("no panic").expect("written"));
    assert!(bench.log.bytes(A) == reply, "byte for byte");
    let reads = bench.log.reads(A);
    assert!(reads.iter().all(|(bytes, _)| bytes.len() <= READ_BYTES), "no read holds more than a buffer");
    assert!(reads.iter().any(|(_, stamp)| stamp.filled), "some were full");
    for pair in reads.windows(2) {
        let ((_, before), (_, after)) = (pair[0], pair[1]);
        assert_eq!(after.previous_wall, before.wall);
        assert!((before.batch, before.pos) < (after.batch, after.pos), "{before:?} {after:?}");
        assert!(before.seen <= after.seen);
        // a full buffer says nothing about the socket's being empty
        assert!(!before.filled || after.emptied <= before.emptied, "{before:?} {after:?}");
    }
}

fn what_was_closed_is_heard_of_no_more<D: Driver>(make: impl Fn(DriverOptions) -> D) {
    let mut bench = Bench::new(make(options(true)));
    let mut old = bench.open(A);
    old.write_all(b"never read").expect("written");
    bench.driver.send(A, 1, Bytes::from_static(b"never sent"));
    bench.driver.close(A);
    // closing twice is nothing
    bench.driver.close(A);
    let heard = bench.log.0.len();
    let mut new = bench.open(A);
    bench.driver.send(A, 2, Bytes::from_static(b"second"));
    bench.turn_until("sent", |log| log.has(A, |k| matches!(k, Kept::Sent(2, _))));
    let since = &bench.log.0[heard..];
    assert!(!since.iter().any(|(_, k)| matches!(k, Kept::Received(..) | Kept::Handed(1, ..) | Kept::Sent(1, _))));
    let mut got = [0; 6];
    new.read_exact(&mut got).expect("a request");
    assert_eq!(&got, b"second");
    drop(bench);
    let mut left = Vec::new();
    let _ = old.read_to_end(&mut left);
    assert!(left.is_empty(), "a request that was given up before its turn never leaves");
}

fn a_connection_that_is_given_up_while_it_opens<D: Driver>(make: impl Fn(DriverOptions) -> D) {
    let mut bench = Bench::new(make(options(true)));
    for _ in 0..20 {
        let address = bench.address();
        bench.driver.open(A, address);
        bench.driver.close(A);
        bench.turn();
    }
    assert_eq!(bench.log.of(A).count(), 0);
}

fn time_does_not_go_back_within_a_turn<D: Driver>(make: impl Fn(DriverOptions) -> D) {
    // the log asserts it; here a read stands in line before a connect
    for _ in 0..5 {
        let mut bench = Bench::new(make(options(true)));
        let mut peer = bench.open(A);
        peer.write_all(b"first").expect("written");
        let address = bench.address();
        bench.driver.open(B, address);
        bench.turn_until("both", |log| log.bytes(A) == b"first" && log.has(B, |k| matches!(k, Kept::Connected)));
    }
}

fn several_in_one_turn<D: Driver>(make: impl Fn(DriverOptions) -> D) {
    let mut bench = Bench::new(make(options(true)));
    let mut peers = [bench.open(A), bench.open(B)];
    for round in 0..10u64 {
        for (conn, sequence) in [(A, 2 * round), (B, 2 * round + 1)] {
            bench.driver.send(conn, sequence, Bytes::from_static(b"?"));
        }
        bench.turn_until("both sent", |log| {
            log.0.iter().filter(|(_, k)| matches!(k, Kept::Sent(..))).count() as u64 == 2 * round + 2
        });
        for peer in &mut peers {
            let mut one = [0];
            peer.read_exact(&mut one).expect("a request");
            peer.write_all(b"!").expect("written");
        }
        let all = |log: &Log| [A, B].iter().all(|c| log.bytes(*c).len() as u64 == round + 1);
        bench.turn_until("both replies", all);
    }
    let reads: Vec<ReadStamp> = [A, B].iter().flat_map(|c| bench.log.reads(*c)).map(|(_, stamp)| stamp).collect();
    let places: BTreeSet<(u64, u32)> = reads.iter().map(|s| (s.batch, s.pos)).collect();
    assert_eq!(places.len(), reads.len(), "each read has a place of its own");
    let counters = bench.driver.counters();
    assert!(reads.iter().all(|s| s.batch <= counters.batches && s.pos < counters.max_batch));
    assert!(counters.completions >= counters.batches && counters.busy_ns > 0);
    assert_eq!(counters.ring_overflow, 0);
    let stamped = |conn| bench.log.of(conn).filter(|k| matches!(k, Kept::WireOut)).count();
    assert!(stamped(A) <= 10 && stamped(B) <= 10, "at most one a request");
}

fn a_rest_is_not_busy<D: Driver>(make: impl Fn(DriverOptions) -> D) {
    let mut bench = Bench::new(make(options(false)));
    let mut peer = bench.open(A);
    peer.write_all(b"x").expect("written");
    bench.turn_until("read", |log| !log.bytes(A).is_empty());
    bench.driver.rest();
    let rested = bench.driver.counters().busy_ns;
    assert!(rested > 0, "what was handled counts");
    bench.driver.turn(bench.driver.now(), &mut bench.log);
    assert_eq!(bench.driver.counters().busy_ns, rested, "from the rest to the next turn nothing was handled");
}

fn over_ip_version_6<D: Driver>(make: impl Fn(DriverOptions) -> D) {
    let Ok(listener) = TcpListener::bind("[::1]:0") else {
        println!("SKIPPED: this host has no IPv6 loopback");
        return;
    };
    let mut bench = Bench { driver: make(options(true)), log: Log::default(), listener };
    let mut peer = bench.open(A);
    bench.driver.send(A, 1, Bytes::from_static(b"?"));
    bench.turn_until("sent", |log| log.has(A, |k| matches!(k, Kept::Sent(1, _))));
    peer.write_all(b"six").expect("written");
    bench.turn_until("a reply", |log| log.bytes(A) == b"six");
}

fn any_writes<D: Driver>(make: impl Fn(DriverOptions) -> D) {
    let writes = proptest::collection::vec((1usize..12_000, any::<bool>()), 1..20);
    let config = ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let run = |(writes, closes): (Vec<(usize, bool)>, bool)| {
        let mut bench = Bench::new(make(options(true)));
        let mut peer = bench.open(A);
        let mut all = Vec::new();
        for (n, (size, look)) in writes.into_iter().enumerate() {
            let piece = vec![n as u8; size];
            // what fits into the socket's buffers is written without anybody reading it
            if all.len() - bench.log.bytes(A).len() > 30_000 {
                bench.turn_until("room", |log| log.bytes(A).len() == all.len());
            }
            peer.write_all(&piece).expect("written");
            all.extend(piece);
            if look {
                bench.turn();
            }
        }
        let end = closes.then(|| drop(peer));
        bench.turn_until("all of it", |log| log.bytes(A).len() == all.len());
        if end.is_some() {
            bench.turn_until("the end", |log| log.has(A, |k| matches!(k, Kept::PeerClosed)));
        }
        prop_assert!(bench.log.bytes(A) == all);
        let reads = bench.log.reads(A);
        prop_assert!(reads.iter().all(|(_, s)| s.emptied <= s.seen));
        Ok(())
    };
    runner.run(&(writes, any::<bool>()), run).unwrap_or_else(|e| panic!("{e}"));
}

/// Every case on every driver. A host without io_uring is said, not hidden.
macro_rules! on_every_driver {
    ($($case:ident),+ $(,)?) => {
        mod uring {
            $(#[test]
            fn $case() {
                if let Err(refused) = super::UringDriver::new(super::options(false)) {
                    println!("SKIPPED: {refused}");
                    return;
                }
                super::$case(|options| super::UringDriver::new(options).expect("there was one before"));
            })+
        }
        mod epoll {
            $(#[test]
            fn $case() {
                super::$case(|options| super::EpollDriver::new(options).expect("descriptors"));
            })+
        }
    };
}

on_every_driver!(
    a_request_and_its_reply,
    bytes_aside_keep_their_place_and_the_stamp_is_the_requests,
    nobody_listens,
    the_end_comes_with_the_last_bytes,
    a_reset_comes_after_what_was_read_before_it,
    a_large_request_goes_out_as_there_is_room,
    a_backlog_is_read_in_pieces_with_stamps_that_chain,
    what_was_closed_is_heard_of_no_more,
    a_connection_that_is_given_up_while_it_opens,
    time_does_not_go_back_within_a_turn,
    several_in_one_turn,
    a_rest_is_not_busy,
    over_ip_version_6,
    any_writes,
);

#[test]
fn epoll_lets_no_socket_starve_another() {
    let mut bench = Bench::new(EpollDriver::new(options(true)).expect("descriptors"));
    let (mut loud, mut quiet) = (bench.open(A), bench.open(B));
    loud.set_nonblocking(true).expect("a socket");
    // as much as the socket takes: many shares of a turn, reported first
    let mut written = 0;
    while let Ok(n) = loud.write(&[1; 65536]) {
        written += n;
    }
    quiet.write_all(b"x").expect("written");
    let before = bench.log.0.len();
    bench.turn();
    let came: Vec<ConnId> = bench.log.0[before..].iter().map(|(conn, _)| *conn).collect();
    assert!(came.contains(&B), "heard in the first turn: {came:?}");
    let share = came.iter().filter(|c| **c == A).count();
    assert!((1..=4).contains(&share), "a share and no more: {share}");
    assert!(written > 5 * READ_BYTES);
    bench.turn_until("all of it", |log| log.bytes(A).len() == written);
}
