//! Sessions carried out: what a turn sends is what was said, in the order in which it was said, and every turn that was
//! due has a row.

use crate::binary::{Done, MockProcess, Place, Running, count, tarebench, wait_until};
use crate::foreign_server::{Answer, ForeignServer, Received};
use crate::live::found;
use bench_engine::io::DriverKind;
use bench_engine::schedule::ArrivalLaw;
use bench_engine::units::Nanos;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use tarebench::rundir::row::{Outcome, Phase, Row, Turn};
use tarebench::workload::hex;

/// Answers that are hard to keep as they are, each as pieces of one stream; None: thought only.
const ODD: [Option<&[&str]>; 5] = [
    Some(&["héllo ", "\"quoted\" \\ back\\slash", "\n\tline\r\n", "\u{0}\u{7f}</s>"]),
    Some(&["日本", "語 ", "👩\u{200d}🔬", "e\u{301} \u{202e}lanoitcerid"]),
    None,
    Some(&[" ", "  leading and trailing  ", "\n"]),
    Some(&["{\"role\":\"user\",\"content\":\"[DONE]\"}", "\n\ndata: [DONE]\n\n"]),
];

fn text_of(odd: Option<&[&str]>) -> String {
    odd.map_or_else(String::new, <[&str]>::concat)
}

/// A stream of content pieces, or of thoughts.
fn odd_answer(odd: Option<&[&str]>, prompt_tokens: usize) -> Answer {
    let event = |delta: Value| (0, Some(format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta}]}))));
    let mut pieces = vec![event(json!({"role": "assistant", "content": ""}))];
    match odd {
        Some(texts) => pieces.extend(texts.iter().map(|text| event(json!({"content": text})))),
        None => pieces.extend(["I ", "think"].map(|text| event(json!({"reasoning_content": text})))),
    }
    pieces.push((
        0,
        Some(format!(
            "data: {}\n\ndata: {}\n\ndata: [DONE]\n\n",
            json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
            json!({"choices": [], "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": 4}}),
        )),
    ));
    Answer { pieces, ..Answer::stream(0, 0) }
}

/// Role and content of every message of a body.
fn messages(received: &Received) -> Vec<(String, String)> {
    let body: Value = serde_json::from_str(&received.body).expect("JSON");
    let text = |message: &Value, name: &str| message[name].as_str().expect("text").to_owned();
    let each = body["messages"].as_array().expect("messages").iter();
    each.map(|message| (text(message, "role"), text(message, "content"))).collect()
}

/// Which turn it is, by the replies in it.
fn turn_of(received: &Received) -> usize {
    messages(received).iter().filter(|(role, _)| role == "assistant").count()
}

/// What the server received of the load, in order, with its rows: the first word of its last message tells whose it is.
fn turns_at<'a>(server: &ForeignServer, rows: &'a [Row]) -> Vec<(Received, &'a Row)> {
    let by_nonce: BTreeMap<&str, &Row> = rows.iter().map(|row| (row.nonce.as_str(), row)).collect();
    assert_eq!(by_nonce.len(), rows.len(), "each turn has a nonce of its own");
    let row_of = |post: &Received| {
        let (_, own) = messages(post).pop()?;
        by_nonce.get(own.split(' ').next()?).copied()
    };
    let posts = server.received().into_iter().filter(Received::is_post);
    posts.filter_map(|post| row_of(&post).map(|row| (post, row))).collect()
}

fn session(row: &Row) -> &Turn {
    row.session.as_ref().expect("a turn")
}

/// Rows by cell, window and session, in order of their turns.
fn by_session(rows: &[Row]) -> BTreeMap<(u32, u32, u64), Vec<&Row>> {
    let mut found: BTreeMap<_, Vec<&Row>> = BTreeMap::new();
    rows.iter().for_each(|row| found.entry((row.cell, row.window, session(row).id)).or_default().push(row));
    found.values_mut().for_each(|turns| turns.sort_by_key(|row| session(row).turn));
    found
}

fn end(row: &Row) -> u64 {
    let end = row.end.expect("an end");
    end.arrived.unwrap_or(end.seen)
}

/// Turns follow each other without a hole, each its pause after the reply before or at its pace, none before it, and
/// nothing follows a turn that is not ok.
fn assert_led_in_order(rows: &[Row], paced: bool) {
    for turns in by_session(rows).values() {
        for (k, row) in turns.iter().enumerate() {
            let at = session(row);
            assert_eq!((at.turn as usize, at.turns, at.user), (k, session(turns[0]).turns, session(turns[0]).user));
            assert_eq!(row.trace_id, turns[0].trace_id + k as u64);
            if let Some(action) = row.taken {
                assert!(action >= row.due && Some(action) >= at.after, "{row:?}");
            }
            if let Some(before) = k.checked_sub(1).map(|k| turns[k]) {
                assert_eq!(before.outcome, Outcome::Ok, "nothing follows what failed");
                assert_eq!(at.after, Some(end(before)));
                assert_eq!(row.due, at.pause + if paced { before.due } else { end(before) });
                assert!(row.conn.is_none() || before.worker != row.worker || row.submit > before.submit);
            }
        }
        assert!(turns.len() <= session(turns[0]).turns as usize);
    }
}

/// Each user leads one session after another, each due with the end of the one before.
fn assert_users_go_on(rows: &[Row]) {
    let mut last: BTreeMap<(u32, u32, u32), &Row> = BTreeMap::new();
    for turns in by_session(rows).values() {
        let first = turns[0];
        let user = session(first).user.expect("a user");
        if let Some(before) = last.insert((first.cell, first.window, user), turns[turns.len() - 1]) {
            assert_eq!((session(first).after, first.due), (Some(end(before)), end(before)));
        } else {
            assert_eq!(session(first).after, None);
        }
    }
}

/// A run of one load point against `url`.
fn run(url: &str, place: &Place, more: &[&str]) -> Done {
    let mut args = vec!["run", "--base-url", url, "--windows", "1", "--min-duration", "0", "--out", place.out()];
    if !more.contains(&"--length-scale") {
        args.extend(["--length-scale", "0.05"]);
    }
    args.extend(more);
    tarebench(&args)
}

/// Those that can be had here.
fn arms() -> impl Iterator<Item = &'static str> {
    let arms = [(DriverKind::Uring, "uring"), (DriverKind::Epoll, "epoll")];
    arms.into_iter().filter(|(kind, _)| found(*kind).is_some()).map(|(_, name)| name)
}

#[test]
fn a_turn_sends_what_was_said_byte_for_byte() {
    for arm in arms() {
        let server = ForeignServer::start(|r, _| r.is_post().then(|| odd_answer(ODD[turn_of(r) % ODD.len()], 7)));
        let place = Place::new();
        let flags = ["--sessions", "1..6", "--num-sessions", "12", "--drop-sessions", "2", "--max-concurrency", "3"];
        let done = run(&server.url(), &place, &[&flags[..], &["--arm", arm]].concat());
        place.assert_carried_out(&done);
        let rows = place.rows();
        let posts = turns_at(&server, &rows);
        assert_eq!((posts.len(), count(&rows, Outcome::Ok)), (rows.len(), rows.len()));
        let mut said: BTreeMap<u64, Vec<(String, String)>> = BTreeMap::new();
        for (post, row) in &posts {
            let messages = messages(post);
            let (role, own) = messages.last().expect("a message");
            let (at, turn) = (session(row), turn_of(post));
            assert_eq!((role.as_str(), at.turn as usize, messages.len()), ("user", turn, 2 * turn + 1));
            let body: Value = serde_json::from_str(&post.body).expect("JSON");
            assert!(body.get("user").is_none(), "a router that goes by it would part the turns");
            // what was sent before, the reply to it, and the new message
            let before = said.entry(at.id).or_default();
            assert_eq!(&messages[..2 * turn], &before[..], "session {} turn {turn}", at.id);
            let reply = text_of(ODD[turn % ODD.len()]);
            before.push((role.clone(), own.clone()));
            before.push(("assistant".to_owned(), reply.clone()));
            let hash = (!reply.is_empty()).then(|| hex(&Sha256::digest(&reply)));
            assert_eq!(at.reply_sha256, hash);
            let asked = at.message_tokens + if turn > 0 { 7 + 4 } else { 0 };
            assert_eq!(row.asked_prompt_tokens, asked, "what the server counted, and the new message");
        }
        assert_eq!(said.len(), 14);
        assert_led_in_order(&rows, false);
        assert_users_go_on(&rows);
        assert!(rows.iter().all(|row| (row.phase == Phase::Warmup) == (session(row).id < 2)));
        let ids: BTreeSet<u64> = rows.iter().map(|row| row.trace_id).collect();
        assert_eq!(ids, (0..rows.len() as u64).collect(), "the turns numbered through");
        let counts = &place.json("run.json")["cells"][0]["windows"][0]["requests"];
        assert_eq!((&counts["due"], &counts["sent"]), (&rows.len().into(), &rows.len().into()));
        place.assert_verifies();
    }
}

#[test]
fn a_reply_that_is_no_stream_is_said_as_well() {
    let server = ForeignServer::start(|r, _| {
        let said = r.is_post().then(|| format!("\"{}\" é", turn_of(r)))?;
        let message = json!({"message": {"role": "assistant", "content": said}, "finish_reason": "stop"});
        let usage = json!({"prompt_tokens": 3, "completion_tokens": 2});
        Some(Answer::json(200, json!({"choices": [message], "usage": usage}).to_string()))
    });
    let place = Place::new();
    let flags =
        ["--chain", "3", "--num-sessions", "2", "--drop-sessions", "0", "--max-concurrency", "1", "--no-stream"];
    let done = run(&server.url(), &place, &flags);
    place.assert_carried_out(&done);
    let rows = place.rows();
    let posts = turns_at(&server, &rows);
    assert_eq!(posts.len(), 6);
    for (post, _) in &posts {
        for (k, (_, content)) in messages(post).iter().filter(|(role, _)| role == "assistant").enumerate() {
            assert_eq!(content, &format!("\"{k}\" é"));
        }
    }
    assert_led_in_order(&rows, false);
    place.assert_verifies();
}

#[test]
fn what_a_reply_holds_beside_its_text_is_counted_and_not_sent_back() {
    let deltas = [
        json!({"content": "a", "tool_calls": [{"index": 0, "function": {"name": "look", "arguments": "{}"}}]}),
        json!({"content": [{"type": "text", "text": "b"}]}),
        json!({"content": "c"}),
        json!({"reasoning_content": "d"}),
        json!({"content": "e", "tool_calls": [{"index": 0, "function": {"name": "last"}}]}),
    ];
    let server = ForeignServer::start(move |r, _| {
        let turn = r.is_post().then(|| turn_of(r))?;
        let event = |value: Value| format!("data: {value}\n\n");
        let said = event(json!({"choices": [{"index": 0, "delta": deltas[turn]}]}));
        let broken = if turn == 2 { "data: {\"choices\": [\n\n" } else { "" };
        let end = event(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}));
        let pieces = vec![(0, Some(format!("{said}{broken}{end}data: [DONE]\n\n")))];
        Some(Answer { pieces, ..Answer::stream(0, 0) })
    });
    let place = Place::new();
    let flags = ["--chain", "5", "--num-sessions", "2", "--drop-sessions", "0", "--max-concurrency", "1"];
    let done = run(&server.url(), &place, &flags);
    place.assert_carried_out(&done);
    let rows = place.rows();
    for (post, _) in turns_at(&server, &rows).iter().filter(|(post, _)| turn_of(post) == 4) {
        let said = messages(post).into_iter().filter(|(role, _)| role == "assistant").map(|(_, content)| content);
        assert_eq!(said.collect::<Vec<_>>(), ["a", "", "c", ""], "the text alone goes back");
    }
    let told = &place.json("run.json")["cells"][0]["windows"][0]["sessions"]["counts"]["left_out"];
    assert_eq!(
        told,
        &json!({"tool_calls": 2, "parts": 2, "unparsable": 2, "empty": 2, "reasoning": 2}),
        "no last turn's"
    );
    place.assert_verifies();
}

#[test]
fn a_turn_that_fails_ends_its_session_and_no_other() {
    // by the first letter of its session: refused at turn 2, broken off at turn 1, or answered
    let server = ForeignServer::start(|r, _| {
        let first = r.is_post().then(|| messages(r)[0].1.chars().next()).flatten()?;
        Some(match (first, turn_of(r)) {
            ('a'..='h', 2) => Answer::json(503, r#"{"error":{"message":"full"}}"#),
            ('i'..='p', 1) => {
                let mut broken = Answer::stream(3, 1);
                broken.pieces.truncate(2);
                broken.pieces.push((1, None));
                broken
            }
            _ => Answer::stream(3, 1),
        })
    });
    let place = Place::new();
    let flags = ["--sessions", "4", "--num-sessions", "20", "--drop-sessions", "1", "--max-concurrency", "4"];
    let done = run(&server.url(), &place, &[&flags[..], &["--think-time", "2ms", "--max-failed", "1"]].concat());
    assert!([Some(0), Some(3)].contains(&done.code), "{}{}", done.out, done.err);
    let rows = place.rows();
    assert_led_in_order(&rows, false);
    assert_users_go_on(&rows);
    let sessions = by_session(&rows);
    assert_eq!(sessions.len(), 21, "every planned session was begun");
    for turns in sessions.values() {
        let led = match turns[0].nonce.as_bytes()[0] {
            b'a'..=b'h' => 3,
            b'i'..=b'p' => 2,
            _ => 4,
        };
        let last = if led == 4 { Outcome::Ok } else { Outcome::Failed };
        assert_eq!((turns.len(), turns[turns.len() - 1].outcome), (led, last));
    }
    assert!(count(&rows, Outcome::Failed) > 0, "twenty-one draws of a letter");
    let received: BTreeSet<u64> = turns_at(&server, &rows).iter().map(|(_, row)| row.trace_id).collect();
    assert_eq!(received, rows.iter().map(|row| row.trace_id).collect(), "nothing else was sent");
    place.assert_verifies();
}

#[test]
fn two_workers_lead_sessions_together() {
    for arm in arms() {
        let mock = MockProcess::start(&["--ttft", "2", "--itl", "0.2"], &[]);
        let place = Place::new();
        let flags = ["--sessions", "2..5", "--num-sessions", "30", "--drop-sessions", "2", "--max-concurrency", "8"];
        let more = ["--workers", "2", "--think-time", "exp:4ms", "--arm", arm];
        let done = run(&mock.url, &place, &[&flags[..], &more].concat());
        place.assert_carried_out(&done);
        let rows = place.rows();
        assert_eq!(count(&rows, Outcome::Ok), rows.len());
        assert_eq!(by_session(&rows).len(), 32);
        assert!([0, 1].iter().all(|w| rows.iter().any(|row| row.worker == *w)), "both of them worked");
        assert_led_in_order(&rows, false);
        assert_users_go_on(&rows);
        place.assert_verifies();
    }
}

#[test]
fn sessions_arrive_by_their_schedule_at_a_pace_of_their_own() {
    for arm in arms() {
        let mock = MockProcess::start(&["--ttft", "4", "--itl", "1"], &[]);
        let place = Place::new();
        let flags = ["--sessions", "3", "--num-sessions", "25", "--drop-sessions", "5", "--session-rate", "100"];
        let done = run(&mock.url, &place, &[&flags[..], &["--turn-every", "15ms", "--arm", arm]].concat());
        place.assert_carried_out(&done);
        let rows = place.rows();
        assert_eq!((rows.len(), count(&rows, Outcome::Ok)), (90, 90));
        assert_led_in_order(&rows, true);
        let opened = windows_line(&place)["opened"].as_u64().expect("a time");
        let firsts: Vec<u64> = by_session(&rows).values().map(|turns| turns[0].due - opened).collect();
        let planned: Vec<u64> =
            ArrivalLaw::new(100.0, 1.0).expect("a law").schedule(7).take(30).map(Nanos::ns).collect();
        assert_eq!(firsts, planned, "in order of their ids");
        assert!(
            rows.iter()
                .all(|row| session(row).user.is_none() && session(row).after.is_some() == (session(row).turn > 0))
        );
        place.assert_verifies();
    }
}

#[test]
fn users_go_on_until_the_window_has_lasted() {
    let mock = MockProcess::start(&["--ttft", "2", "--itl", "0.2"], &[]);
    let place = Place::new();
    let flags = ["run", "--base-url", &mock.url, "--chain", "3", "--num-sessions", "2", "--drop-sessions", "1"];
    let more = ["--max-concurrency", "2", "--windows", "1", "--min-duration", "0.4", "--length-scale", "0.02"];
    let done = tarebench(&[&flags[..], &more, &["--out", place.out()]].concat());
    place.assert_carried_out(&done);
    let rows = place.rows();
    assert_led_in_order(&rows, false);
    assert_users_go_on(&rows);
    assert!(by_session(&rows).len() > 6, "{} sessions", by_session(&rows).len());
    assert!(by_session(&rows).values().all(|turns| turns.len() == 3), "those that were begun are led to their end");
    let line = windows_line(&place);
    let at = |name: &str| line[name].as_u64().expect("a time");
    assert!(at("closed") - at("opened") >= 400_000_000);
    place.assert_verifies();
}

#[test]
fn the_cache_holds_more_of_a_session_with_every_turn() {
    let place = Place::new();
    let mock = MockProcess::start(&["--prefix-cache", "100000", "--ttft", "2", "--itl", "0.1"], &[]);
    let flags = ["--chain", "5", "--num-sessions", "6", "--drop-sessions", "1", "--max-concurrency", "2"];
    let done = run(&mock.url, &place, &[&flags[..], &["--length-scale", "0.3"]].concat());
    place.assert_carried_out(&done);
    for turns in by_session(&place.rows()).values() {
        let cached: Vec<u64> = turns.iter().map(|row| row.cached_tokens.expect("told")).collect();
        assert_eq!(cached[0], 0, "no session finds another one's");
        assert!(cached.windows(2).all(|pair| pair[0] < pair[1]), "{cached:?}");
        for pair in turns.windows(2) {
            // all of what was asked before but its last block, at least
            assert!(pair[1].cached_tokens.expect("told") + 16 > pair[0].prompt_tokens.expect("told"));
        }
    }
    place.assert_verifies();
}

fn windows_line(place: &Place) -> Value {
    let text = std::fs::read_to_string(place.dir.join("windows.jsonl")).expect("windows.jsonl");
    serde_json::from_str(text.lines().next().expect("a window")).expect("JSON")
}

/// Of a run that was interrupted: every turn that was due has a row, and no other.
fn assert_cut_cleanly(place: &Place, done: &Done) {
    assert_eq!(done.code, Some(130), "{}{}", done.out, done.err);
    let (rows, line) = (place.rows(), windows_line(place));
    let closed = line["closed"].as_u64().expect("a time");
    assert_led_in_order(&rows, false);
    assert_eq!(line["rows"], rows.len());
    let mut last: BTreeMap<Option<u32>, &Row> = BTreeMap::new();
    for turns in by_session(&rows).values() {
        let row = turns[turns.len() - 1];
        assert!(row.due <= closed);
        let at = session(row);
        if row.outcome == Outcome::Ok && at.turn + 1 < at.turns {
            panic!("turn {} of session {} was due with the reply before, and has no row", at.turn + 1, at.id);
        }
        if at.user.is_some() {
            last.insert(at.user, row);
        }
    }
    // planned sessions are left, so that each user had something to do
    assert!(last.values().all(|row| matches!(row.outcome, Outcome::Censored | Outcome::NotSent)), "{last:?}");
    place.assert_verifies();
}

#[test]
fn an_interrupt_leaves_a_row_for_every_turn_that_was_due() {
    for arm in arms() {
        let mock = MockProcess::start(&["--ttft", "3", "--itl", "0.2"], &[]);
        let place = Place::new();
        let flags = ["run", "--base-url", &mock.url, "--chain", "2..4", "--num-sessions", "100000", "--arm", arm];
        let more = ["--max-concurrency", "8", "--windows", "1", "--length-scale", "0.02", "--out", place.out()];
        let run = Running::start(&[&flags[..], &more].concat());
        let rows = || std::fs::read_to_string(place.dir.join("requests.jsonl")).map_or(0, |text| text.lines().count());
        wait_until("some rows", || rows() >= 60);
        run.signal(Signal::SIGINT);
        assert_cut_cleanly(&place, &run.end());
    }
}

#[test]
fn turns_that_wait_for_a_slot_when_the_run_is_interrupted_have_rows() {
    // sessions come ten times as fast as one slot serves them
    let mock = MockProcess::start(&["--ttft", "20", "--itl", "1", "--max-num-seqs", "1"], &[]);
    let place = Place::new();
    let flags = ["run", "--base-url", &mock.url, "--sessions", "3", "--num-sessions", "20000", "--session-rate", "300"];
    let more = ["--windows", "1", "--length-scale", "0.02", "--out", place.out()];
    let run = Running::start(&[&flags[..], &more].concat());
    let rows = || std::fs::read_to_string(place.dir.join("requests.jsonl")).map_or(0, |text| text.lines().count());
    wait_until("some rows", || rows() >= 10);
    run.signal(Signal::SIGINT);
    let done = run.end();
    assert_cut_cleanly(&place, &done);
    let (rows, line) = (place.rows(), windows_line(&place));
    let opened = line["opened"].as_u64().expect("a time");
    let open_for = line["closed"].as_u64().expect("a time") - opened;
    let planned = ArrivalLaw::new(300.0, 1.0).expect("a law").schedule(7).map(Nanos::ns);
    let due: Vec<u64> = planned.take_while(|due| *due <= open_for).collect();
    let firsts: Vec<u64> = by_session(&rows).values().map(|turns| turns[0].due - opened).collect();
    assert_eq!(firsts, due);
}

#[test]
fn failures_enough_end_a_window_of_sessions() {
    let server = ForeignServer::start(|r, _| {
        r.is_post().then(|| match turn_of(r) {
            0 => Answer::stream(2, 1),
            _ => Answer::json(500, r#"{"error":{"message":"down"}}"#),
        })
    });
    let place = Place::new();
    let flags = ["--chain", "3", "--num-sessions", "5000", "--drop-sessions", "0", "--max-concurrency", "3"];
    let done = run(&server.url(), &place, &[&flags[..], &["--stop-at-failed", "5"]].concat());
    assert!(done.err.contains("--stop-at-failed 5 is reached"), "{}{}", done.out, done.err);
    let rows = place.rows();
    assert!(count(&rows, Outcome::Failed) >= 5 && by_session(&rows).len() < 4000);
    assert_led_in_order(&rows, false);
    assert_users_go_on(&rows);
    place.assert_verifies();
}
