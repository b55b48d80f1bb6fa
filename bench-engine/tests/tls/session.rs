//! The client's half, bytes in and bytes out, against rustls's own server.

use crate::authority::{Authority, Demands, Shown, self_signed, server};
use bench_engine::units::WallInstant;
use bench_engine::wire::certificate::Certificate;
use bench_engine::wire::tls::{Alert, Arrived, BadClient, Client, ClientOptions, Identity, Session, TlsFault, Trust};
use proptest::prelude::*;
use rustls::{ServerConfig, ServerConnection};
use std::io::{Read, Write};
use std::sync::Arc;

/// 2026-11-30.
pub fn now() -> WallInstant {
    WallInstant::from_ns(1_796_000_000_000_000_000)
}

pub fn options<'a>(host: &'a str, trust: Trust<'a>) -> ClientOptions<'a> {
    ClientOptions { host, trust, identity: None, resume: false, now }
}

fn client(host: &str, authority: &Authority) -> Client {
    Client::new(&options(host, Trust::Pem(authority.pem.as_bytes()))).expect("a client")
}

/// Both ends of one connection, and everything the client read in plain.
struct Talk {
    client: Session,
    server: ServerConnection,
    plain: Vec<u8>,
}

impl Talk {
    fn begin(client: &Client, config: Arc<ServerConfig>) -> Talk {
        let client = client.session().expect("a session");
        let server = ServerConnection::new(config).expect("a server");
        Talk { client, server, plain: Vec::new() }
    }

    /// What the server has to send.
    fn wire(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.server.wants_write() {
            self.server.write_tls(&mut bytes).expect("a vector takes all");
        }
        bytes
    }

    /// Gives the server what the client sent.
    fn give(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            self.server.read_tls(&mut bytes).expect("room");
            // what it finds wrong goes out as an alert
            let _ = self.server.process_new_packets();
        }
    }

    /// Bytes to and fro until both have no more to say. The first fault ends it.
    fn settle(&mut self) -> Result<(), TlsFault> {
        loop {
            if let Some(bytes) = self.client.outgoing() {
                self.give(&bytes);
            }
            let wire = self.wire();
            if wire.is_empty() {
                return Ok(());
            }
            if let Some(fault) = self.client.decrypt(&wire, &mut self.plain).fault {
                return Err(fault);
            }
        }
    }

    fn says(&mut self, words: &[u8]) -> Vec<u8> {
        self.server.writer().write_all(words).expect("room");
        self.wire()
    }
}

fn shake(client: &Client, config: Arc<ServerConfig>) -> Result<Talk, TlsFault> {
    let mut talk = Talk::begin(client, config);
    talk.settle()?;
    assert!(talk.client.is_open());
    Ok(talk)
}

fn fault_of(client: &Client, config: Arc<ServerConfig>) -> TlsFault {
    let mut talk = Talk::begin(client, config);
    let fault = talk.settle().expect_err("refused");
    assert!(!fault.to_string().is_empty());
    fault
}

#[test]
fn a_session_is_agreed_on_and_a_request_and_its_reply_go_through() {
    let ca = Authority::new("test CA");
    for (old, version) in [(false, "TLS 1.3"), (true, "TLS 1.2")] {
        let config = server(&ca.local(), &Demands { alpn: &["h2", "http/1.1"], old, ..Demands::default() });
        let mut talk = shake(&client("localhost", &ca), config).expect("a session");
        let agreed = talk.client.agreed().expect("agreed");
        assert_eq!((agreed.version, agreed.alpn.as_deref(), agreed.resumed), (version, Some("http/1.1"), false));
        assert!(agreed.cipher.starts_with("TLS_") && !agreed.cipher.contains("TLS13"), "{}", agreed.cipher);
        let certificate = Certificate::read(&agreed.chain[0]).expect("a certificate");
        assert_eq!((certificate.subject.as_str(), certificate.issuer.contains("test CA")), ("CN=a server", true));
        let request = vec![b'q'; 100_000];
        let wire = talk.client.encrypt(&request);
        assert!(wire.len() > request.len() && !wire.windows(8).any(|w| w == b"qqqqqqqq"));
        let mut got = Vec::new();
        let mut rest = &wire[..];
        while !rest.is_empty() {
            talk.server.read_tls(&mut rest).expect("room");
            talk.server.process_new_packets().expect("understood");
            let _ = talk.server.reader().read_to_end(&mut got);
        }
        assert_eq!(got, request);
        let wire = talk.says(b"the reply");
        assert_eq!(talk.client.decrypt(&wire, &mut talk.plain), Arrived::default());
        assert_eq!(talk.plain, b"the reply");
    }
}

#[test]
fn a_certificate_is_believed_for_a_reason_or_not_at_all() {
    let (ca, other) = (Authority::new("test CA"), Authority::new("another CA"));
    let with = |shown: &Shown| server(shown, &Demands::default());
    let good = with(&ca.local());
    assert!(shake(&client("127.0.0.1", &ca), Arc::clone(&good)).is_ok(), "by address");
    for (client, config, fault, word) in [
        (client("localhost", &other), Arc::clone(&good), TlsFault::UnknownCa, "certificate is of an unknown CA"),
        (
            Client::new(&options("localhost", Trust::Public)).expect("a client"),
            Arc::clone(&good),
            TlsFault::UnknownCa,
            "--ca-file",
        ),
        (client("elsewhere.example", &ca), Arc::clone(&good), TlsFault::WrongHost, "certificate is for another host"),
        (client("127.0.0.2", &ca), Arc::clone(&good), TlsFault::WrongHost, "--address"),
        (
            client("localhost", &ca),
            with(&ca.certify(&["localhost"], (2020, 2024))),
            TlsFault::Expired,
            "certificate has expired",
        ),
        (
            client("localhost", &ca),
            with(&ca.certify(&["localhost"], (2090, 2099))),
            TlsFault::NotYetValid,
            "certificate is not valid yet",
        ),
    ] {
        assert_eq!(fault_of(&client, config), fault);
        assert!(fault.to_string().contains(word), "{fault}");
    }
    let anyone = Client::new(&options("elsewhere.example", Trust::Anyone)).expect("a client");
    assert!(shake(&anyone, with(&ca.certify(&["localhost"], (2020, 2024)))).is_ok(), "nobody is asked");
}

#[test]
fn a_certificate_that_signed_itself_is_believed_when_it_is_given() {
    let own = self_signed(&["localhost"], (2020, 2120));
    let config = server(&own, &Demands::default());
    let given =
        |shown: &Shown, host| Client::new(&options(host, Trust::Pem(shown.chain.as_bytes()))).expect("a client");
    assert!(shake(&given(&own, "localhost"), Arc::clone(&config)).is_ok());
    assert_eq!(fault_of(&given(&own, "other.example"), Arc::clone(&config)), TlsFault::WrongHost);
    let other = self_signed(&["localhost"], (2020, 2120));
    assert_eq!(fault_of(&given(&other, "localhost"), Arc::clone(&config)), TlsFault::UnknownCa);
    let public = Client::new(&options("localhost", Trust::Public)).expect("a client");
    assert_eq!(fault_of(&public, config), TlsFault::UnknownCa);
    for (years, fault) in [((2020, 2024), TlsFault::Expired), ((2090, 2099), TlsFault::NotYetValid)] {
        let own = self_signed(&["localhost"], years);
        assert_eq!(fault_of(&given(&own, "localhost"), server(&own, &Demands::default())), fault);
    }
}

#[test]
fn a_peer_that_speaks_http_2_only_is_named_as_such() {
    let ca = Authority::new("test CA");
    let config = server(&ca.local(), &Demands { alpn: &["h2"], ..Demands::default() });
    let fault = fault_of(&client("localhost", &ca), config);
    assert_eq!(fault, TlsFault::NoHttp11);
    assert!(fault.to_string().contains("HTTP/2"), "{fault}");
}

#[test]
fn a_client_certificate_is_shown_wanted_or_refused() {
    let (ca, other) = (Authority::new("test CA"), Authority::new("another CA"));
    let showing = |shown: &Shown| {
        let identity = Some(Identity { chain: shown.chain.as_bytes(), key: shown.key.as_bytes() });
        Client::new(&ClientOptions { identity, ..options("localhost", Trust::Pem(ca.pem.as_bytes())) })
            .expect("a client")
    };
    for old in [false, true] {
        let config = server(&ca.local(), &Demands { client_of: Some(&ca), old, ..Demands::default() });
        assert!(shake(&showing(&ca.local()), Arc::clone(&config)).is_ok());
        let wanted = fault_of(&client("localhost", &ca), Arc::clone(&config));
        assert!(matches!(wanted, TlsFault::ClientCertificateWanted | TlsFault::Refused(Alert(40))), "{wanted:?}");
        assert!(wanted.to_string().contains("client certificate"), "{wanted}");
        let refused = fault_of(&showing(&other.local()), config);
        assert!(matches!(refused, TlsFault::ClientCertificateRefused(_)), "{refused:?}");
        assert!(refused.to_string().contains("refused the client certificate (alert "), "{refused}");
    }
}

#[test]
fn what_is_no_tls_and_what_is_too_old_is_said() {
    let ca = Authority::new("test CA");
    let said = |bytes: &[u8]| {
        let mut session = client("localhost", &ca).session().expect("a session");
        let _ = session.outgoing();
        session.decrypt(bytes, &mut Vec::new()).fault
    };
    assert_eq!(said(b"SSH-2.0-OpenSSH_9.9\r\n"), Some(TlsFault::NotTls));
    let http = b"HTTP/1.1 400 Bad Request\r\nServer: nginx\r\n\r\n";
    assert_eq!(said(http), Some(TlsFault::PlainHttp));
    // wherever it is cut; of fewer bytes than a record's head has nobody knows more than that they are no TLS
    for cut in 1..http.len() {
        let mut session = client("localhost", &ca).session().expect("a session");
        let _ = session.outgoing();
        let faults = [&http[..cut], &http[cut..]].map(|piece| session.decrypt(piece, &mut Vec::new()).fault);
        let told = if cut < 5 { TlsFault::NotTls } else { TlsFault::PlainHttp };
        assert_eq!(faults.into_iter().flatten().next(), Some(told), "cut at {cut}");
    }
    // alerts that end a handshake: protocol_version, handshake_failure, unrecognized_name, internal_error
    for (code, fault) in [
        (70, TlsFault::NoSharedVersion),
        (40, TlsFault::Refused(Alert(40))),
        (71, TlsFault::NoSharedCipher),
        (112, TlsFault::UnknownName(Alert(112))),
        (116, TlsFault::ClientCertificateWanted),
        (120, TlsFault::NoHttp11),
        (80, TlsFault::Alert(Alert(80))),
    ] {
        assert_eq!(said(&[21, 3, 1, 0, 2, 2, code]), Some(fault));
    }
    assert_eq!(TlsFault::Alert(Alert(80)).to_string(), "the server ended TLS with alert 80 InternalError");
    // a ServerHello of TLS 1.1: version 3.2, random, no session id, a suite, no compression
    let mut hello = vec![22, 3, 2, 0, 42, 2, 0, 0, 38, 3, 2];
    hello.extend([7; 32]);
    hello.extend([0, 0xc0, 0x2f, 0]);
    assert_eq!(said(&hello), Some(TlsFault::NoSharedVersion));
}

#[test]
fn what_follows_the_last_event_of_a_read_is_said() {
    let ca = Authority::new("test CA");
    let mut talk = shake(&client("localhost", &ca), server(&ca.local(), &Demands::default())).expect("a session");
    let (first, second) = (talk.says(b"one"), talk.says(b"two"));
    let both = [&first[..], &second[..7]].concat();
    let arrived = talk.client.decrypt(&both, &mut talk.plain);
    assert_eq!((talk.plain.as_slice(), arrived.more_followed, arrived.inside_record), (&b"one"[..], true, true));
    talk.plain.clear();
    let arrived = talk.client.decrypt(&second[7..], &mut talk.plain);
    assert_eq!((talk.plain.as_slice(), arrived), (&b"two"[..], Arrived::default()));
    // the end of the session in the same read as the last event
    let last = talk.says(b"three");
    talk.server.send_close_notify();
    let end = talk.wire();
    let arrived = talk.client.decrypt(&[last, end].concat(), &mut talk.plain);
    assert_eq!((arrived.closed, arrived.more_followed, arrived.fault), (true, true, None));
    assert!(talk.plain.ends_with(b"three"));
    let arrived = talk.client.decrypt(b"and more", &mut talk.plain);
    assert!(arrived.more_followed && talk.plain.ends_with(b"three"), "nothing is taken in behind the end");
}

#[test]
fn keys_are_renewed_in_mid_stream() {
    let ca = Authority::new("test CA");
    let mut talk = shake(&client("localhost", &ca), server(&ca.local(), &Demands::default())).expect("a session");
    let before = talk.says(b"before ");
    talk.server.refresh_traffic_keys().expect("TLS 1.3");
    let after = talk.says(b"after");
    let arrived = talk.client.decrypt(&[before, after].concat(), &mut talk.plain);
    assert_eq!((talk.plain.as_slice(), arrived.fault), (&b"before after"[..], None));
    // the answer, with keys of our own, goes in front of the next request
    let wire = talk.client.encrypt(b"next");
    talk.give(&wire);
    let mut got = [0; 16];
    let n = talk.server.reader().read(&mut got).expect("plain bytes");
    assert_eq!(&got[..n], b"next");
    talk.client.renew_keys().expect("TLS 1.3");
    let wire = talk.client.encrypt(b"again");
    talk.give(&wire);
    let n = talk.server.reader().read(&mut got).expect("plain bytes");
    assert_eq!(&got[..n], b"again");
    let wire = talk.says(b"!");
    assert_eq!(talk.client.decrypt(&wire, &mut talk.plain).fault, None);
    assert!(talk.plain.ends_with(b"after!"));
}

#[test]
fn a_changed_record_is_a_fault_and_what_came_before_it_counts() {
    let ca = Authority::new("test CA");
    let mut talk = shake(&client("localhost", &ca), server(&ca.local(), &Demands::default())).expect("a session");
    let mut wire = talk.says(b"good");
    let mut bad = talk.says(b"bad");
    bad[9] ^= 1;
    wire.extend(bad);
    let arrived = talk.client.decrypt(&wire, &mut talk.plain);
    assert_eq!((talk.plain.as_slice(), arrived.fault), (&b"good"[..], Some(TlsFault::Undecryptable)));
}

#[test]
fn sessions_are_resumed_only_when_asked() {
    let ca = Authority::new("test CA");
    let config = server(&ca.local(), &Demands::default());
    for resume in [false, true] {
        let options = ClientOptions { resume, ..options("localhost", Trust::Pem(ca.pem.as_bytes())) };
        let client = Client::new(&options).expect("a client");
        let resumed = [0, 1].map(|_| {
            let talk = shake(&client, Arc::clone(&config)).expect("a session");
            talk.client.agreed().expect("agreed").resumed
        });
        assert_eq!(resumed, [false, resume]);
    }
}

#[test]
fn what_is_wrong_with_the_files_is_said_and_no_key_with_it() {
    let ca = Authority::new("test CA");
    let shown = ca.local();
    fn new(trust: Trust<'_>, identity: Option<Identity<'_>>) -> Option<BadClient> {
        Client::new(&ClientOptions { identity, ..options("localhost", trust) }).err()
    }
    let of = |chain: &str, key: &str| {
        let identity = Some(Identity { chain: chain.as_bytes(), key: key.as_bytes() });
        new(Trust::Pem(ca.pem.as_bytes()), identity).expect("refused")
    };
    assert_eq!(new(Trust::Pem(b"hello"), None), Some(BadClient::NoRoots));
    assert!(matches!(
        new(Trust::Pem(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), None),
        Some(BadClient::BadRoot(_))
    ));
    assert_eq!(of(&shown.key, &shown.key), BadClient::NoChain);
    assert_eq!(of(&shown.chain, &shown.chain), BadClient::NoKey);
    let other = ca.local();
    let said = of(&shown.chain, &other.key);
    assert!(matches!(said, BadClient::NotAPair(_)), "{said}");
    let damaged = shown.key.replacen("M", "!", 3);
    for said in [said, of(&shown.chain, &damaged)] {
        let secret = shown.key.lines().nth(1).expect("a line of the key");
        assert!(!said.to_string().contains(&secret[..8]), "{said}");
    }
    assert!(matches!(Client::new(&options("a b", Trust::Public)), Err(BadClient::BadName(_))));
    assert!(Client::new(&options("[::1]", Trust::Public)).is_ok());
}

proptest! {
    #[test]
    fn any_cut_of_the_stream_gives_the_same_bytes(
        pieces in proptest::collection::vec(1usize..700, 1..40),
        words in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..600), 1..8),
    ) {
        let ca = Authority::new("test CA");
        let mut talk = Talk::begin(&client("localhost", &ca), server(&ca.local(), &Demands::default()));
        let hello = talk.client.outgoing().expect("a hello");
        talk.give(&hello);
        let mut cuts = pieces.iter().cycle();
        let mut feed = |talk: &mut Talk, wire: &[u8]| {
            let mut rest = wire;
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(rest.len().min(*cuts.next().expect("a cycle")));
                rest = after;
                let arrived = talk.client.decrypt(piece, &mut talk.plain);
                assert_eq!(arrived.fault, None);
            }
        };
        let flight = talk.wire();
        feed(&mut talk, &flight);
        prop_assert!(talk.client.is_open());
        let finished = talk.client.outgoing().expect("a finished");
        talk.give(&finished);
        let mut wire = talk.wire();
        for word in &words {
            wire.extend(talk.says(word));
        }
        feed(&mut talk, &wire);
        prop_assert_eq!(&talk.plain, &words.concat());
    }

    #[test]
    fn any_bytes_are_taken_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let client = Client::new(&options("localhost", Trust::Public)).expect("a client");
        let mut session = client.session().expect("a session");
        let arrived = session.decrypt(&bytes, &mut Vec::new());
        prop_assert!(!session.is_open());
        prop_assert!(arrived.fault.is_none() || session.detail().is_some());
    }
}
