//! How a server is reached, and how connections to it are kept.

use crate::binary::{MockProcess, Place, count, run_against, tarebench, tarebench_with};
use crate::foreign_server::{Answer, ForeignServer};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use tarebench::rundir::row::Outcome;

#[test]
fn hyper_keeps_connections_and_they_are_used_again() {
    let server = ForeignServer::start(|r, _| r.is_post().then(|| Answer::stream(4, 1)));
    let place = Place::new();
    let done = run_against(&server.url(), &place, 12, &["--length-probe", "off"]);
    place.assert_carried_out(&done);
    assert_eq!(server.connections(), 2, "two requests at once, so two connections");
    let rows = place.rows();
    assert_eq!((rows.len(), count(&rows, Outcome::Ok)), (12, 12));
    assert_eq!(rows.iter().filter(|r| r.conn_reused).count(), 10);
    let bodies: BTreeSet<String> = server.received().iter().filter(|r| r.is_post()).map(|r| r.body.clone()).collect();
    assert_eq!(bodies.len(), 12);
    place.assert_verifies();

    let place = Place::new();
    let before = server.connections();
    let done = run_against(&server.url(), &place, 6, &["--connection", "per-request", "--length-probe", "off"]);
    place.assert_carried_out(&done);
    assert_eq!(server.connections() - before, 6);
    assert!(place.rows().iter().all(|r| !r.conn_reused && r.connect.is_some()));
}

/// H5: a kept-alive socket that the server has closed neither fails a request nor hides a second try.
#[test]
fn a_server_that_closes_after_each_reply_although_it_says_keep_alive() {
    let mock = MockProcess::start(&["--close-after-reply", "--ttft", "1", "--itl", "0.1"], &[]);
    let place = Place::new();
    let done = run_against(&mock.url, &place, 60, &["--max-concurrency", "4"]);
    place.assert_carried_out(&done);
    let rows = place.rows();
    assert_eq!((rows.len(), count(&rows, Outcome::Ok)), (60, 60));
    let reopened = rows.iter().filter(|r| r.flags.contains(&"reopened".to_owned())).count();
    assert_eq!(reopened, 56, "all but the first of each connection");
    let retried = rows.iter().filter(|r| r.retries > 0).count();
    assert!(retried <= 4, "learnt at once, by each connection under way at most: {retried}");
    assert!(
        done.err.contains("connections: 56 opened in place of one that had ended (flag reopened); of 60 replies"),
        "{}",
        done.err
    );
    assert!(done.err.contains("of 60 replies none had announced it"), "{}", done.err);
    place.assert_verifies();
}

#[test]
fn a_port_where_nobody_listens() {
    let address = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    let place = Place::new();
    let done = run_against(&format!("http://{address}"), &place, 5, &[]);
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert!(done.err.contains(&address.to_string()) && done.err.contains("--wait"), "{}", done.err);
}

#[test]
fn a_host_nobody_knows() {
    let place = Place::new();
    let done = run_against("http://no-such-host.invalid:8000", &place, 5, &[]);
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert!(done.err.contains("dns") && done.err.contains("no-such-host.invalid"), "{}", done.err);
}

/// J5: a name that resolves to several addresses, of which one answers.
#[test]
fn localhost_leads_to_the_address_that_answers() {
    let server = ForeignServer::start(|r, _| r.is_post().then(|| Answer::stream(1, 0)));
    let place = Place::new();
    let done = run_against(&format!("http://localhost:{}", server.address.port()), &place, 2, &[]);
    place.assert_carried_out(&done);
    assert_eq!(place.json("plan.json")["environment"]["address"], server.address.to_string());
}

#[test]
fn a_proxy_is_ignored_aloud() {
    let server = ForeignServer::start(|r, _| r.is_post().then(|| Answer::stream(1, 0)));
    let (place, url) = (Place::new(), server.url());
    let args = [
        "run",
        "--base-url",
        &url,
        "--num-prompts",
        "2",
        "--drop",
        "0",
        "--windows",
        "1",
        "--length-scale",
        "0.05",
        "--length-probe",
        "off",
    ];
    let more = ["--max-concurrency", "1", "--out", place.out()];
    let done = tarebench_with(&[&args[..], &more].concat(), &[("http_proxy", "http://127.0.0.1:1")]);
    place.assert_carried_out(&done);
    assert!(done.err.contains("http_proxy"), "{}", done.err);
    assert_eq!(server.received().iter().filter(|r| r.is_post()).count(), 2);
}

#[test]
fn a_server_that_speaks_only_http_2_is_named_as_such() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            // SETTINGS, empty, stream 0 (RFC 9113 6.5), then GOAWAY
            let _ = socket.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
            let _ = socket.write_all(&[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
            let _ = socket.read(&mut [0; 4096]);
        }
    });
    let place = Place::new();
    let done = run_against(&url, &place, 3, &["--model", "m"]);
    assert_eq!(done.code, Some(3), "{}{}", done.out, done.err);
    for row in place.rows() {
        let error = row.error.expect("an error");
        assert_eq!(error.class, "protocol");
        assert!(error.text.contains("HTTP/2"), "{}", error.text);
    }
    let done = run_against(&url, &Place::new(), 3, &[]);
    assert!(done.code == Some(1) && done.err.contains("HTTP/2"), "{}", done.err);
}

/// A server that answers whatever it is sent with `bytes`, and closes then.
fn answering(bytes: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            if socket.read(&mut [0; 4096]).is_ok_and(|n| n > 0) {
                let _ = socket.write_all(bytes);
            }
        }
    });
    address
}

#[test]
fn a_port_that_speaks_the_other_of_http_and_https_is_named_as_such() {
    // a fatal alert: unexpected_message
    let secure = answering(&[21, 3, 3, 0, 2, 2, 10]);
    let plain = answering(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let silent = answering(b"");
    for (url, words) in [
        (format!("http://{secure}"), "this port speaks https://, and was asked over http://"),
        (format!("https://{plain}"), "this port speaks http://, and was asked over https://"),
        (format!("http://{silent}"), "does it speak https:// on this port?"),
    ] {
        let done = run_against(&url, &Place::new(), 3, &[]);
        assert_eq!(done.code, Some(1), "{}{}", done.out, done.err);
        assert!(done.err.contains(words), "{url}: {}", done.err);
    }
    // with a model given there is a load, and its rows say so
    let place = Place::new();
    let done = run_against(&format!("http://{secure}"), &place, 3, &["--model", "m", "--metrics-url", "none"]);
    assert_eq!(done.code, Some(3), "{}{}", done.out, done.err);
    for row in place.rows() {
        let error = row.error.expect("an error");
        assert!(error.class == "protocol" && error.text.contains("this port speaks https://"), "{}", error.text);
    }
}

#[test]
fn what_is_asked_before_the_load_waits_no_longer_than_the_connect_timeout() {
    // the kernel accepts, and nobody answers the handshake
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("https://{}", silent.local_addr().expect("bound"));
    let place = Place::new();
    let flags = ["--model", "m", "--connect-timeout", "0.25"];
    let run = run_against(&url, &place, 3, &flags);
    let probe = tarebench(&[&["probe", "--base-url", &url], &flags[..]].concat());
    for done in [run, probe] {
        assert_eq!(done.code, Some(1), "{}{}", done.out, done.err);
        assert!(done.err.contains("(250.0 ms for connecting, --connect-timeout)"), "{}", done.err);
    }
    let never = tarebench(&["probe", "--base-url", &url, "--connect-timeout", "0"]);
    assert_eq!(never.code, Some(2), "{}", never.err);
}
