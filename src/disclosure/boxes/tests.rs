//! For each box: the measured fact changes, and the sentence with it.

use std::path::Path;

use serde_json::json;

use super::*;
use crate::analysis::definitions::labels;
use crate::analysis::definitions::steadiness::Drift;
use crate::analysis::specimen::{MS, Specimen, US, failed, request, sample, shift_answer};
use crate::analysis::summary::summarise;
use crate::disclosure::directory::Disclosed;
use crate::rundir::chain::Chain;
use crate::rundir::row::{Row, StampSource};
use crate::rundir::run_json::{RunJson, ServerActivity, Thirds};
use crate::rundir::window::{Load, LoadModel};

fn of(dir: &Path) -> Boxes {
    Disclosed::of_directory(dir).unwrap().1.boxes
}

/// Boxes of two windows at one load, after `change`.
fn boxes(change: impl FnOnce(&mut Specimen)) -> Boxes {
    let dir = tempfile::tempdir().unwrap();
    let mut specimen = Specimen::two_windows();
    change(&mut specimen);
    specimen.write(dir.path());
    of(dir.path())
}

fn answer(boxes: &Boxes, number: usize) -> (Status, &str) {
    let filled = &boxes.boxes[number - 1];
    assert_eq!(usize::from(filled.number), number);
    (filled.status, &filled.sentence)
}

/// The measured box `number` says `then` of the specimen as it is, and `now` after `change`.
fn changes(number: usize, then: &str, now: &str, change: impl FnOnce(&mut Specimen)) {
    for (words, boxes) in [(then, boxes(|_| ())), (now, boxes(change))] {
        let (status, sentence) = answer(&boxes, number);
        assert!(status == Status::Measured && sentence.contains(words), "no {words} in {status}: {sentence}");
    }
}

fn rows(specimen: &mut Specimen, change: impl FnMut(&mut Row)) {
    specimen.windows.iter_mut().flat_map(|(_, rows)| rows).for_each(change);
}

/// The same after `change` of `run.json`: what figures bring that rows by hand do not have.
fn from_run(change: impl FnOnce(&mut RunJson)) -> Boxes {
    let dir = tempfile::tempdir().unwrap();
    let mut specimen = Specimen::two_windows();
    specimen.plan["model"] = "m".into();
    specimen.write(dir.path());
    let mut run = summarise(dir.path()).unwrap();
    change(&mut run);
    fill(&Facts { run: &run, plan: &specimen.plan, ledger: None, digests: &[], fault: None })
}

#[test]
fn always_fifteen_in_order_each_one_line() {
    for boxes in [
        boxes(|_| ()),
        boxes(|specimen| (specimen.windows, specimen.health) = (Vec::new(), Vec::new())),
        boxes(|specimen| specimen.plan = json!({"declared": {"region": "a\nb\u{1b}[31m"}})),
    ] {
        let numbers: Vec<u8> = boxes.boxes.iter().map(|b| b.number).collect();
        assert_eq!(numbers, (1..=15).collect::<Vec<u8>>());
        assert!(boxes.boxes.iter().all(|b| !b.sentence.is_empty() && !b.sentence.contains(char::is_control)));
        assert!(boxes.boxes.iter().all(|b| b.values.is_object()));
    }
}

#[test]
fn box_1_stamps_and_first_answers() {
    changes(1, "(net) on all 56 kept requests", "without kernel stamps, so net is not known", |s| {
        rows(s, |row| (row.stamps, row.wire_out) = (StampSource::User, None));
    });
    changes(1, "first token in any channel (54 requests)", "2 of 54 showed the first visible answer later", |s| {
        for (_, rows) in &mut s.windows {
            rows[9].first_answer = rows[9].last_token;
        }
    });
    changes(1, "e2e at the last", "not streamed: e2e (the whole answer) of 54 requests", |s| {
        rows(s, |row| (row.first_token, row.first_answer) = (None, None));
    });
}

#[test]
fn box_2_counts_and_noise() {
    changes(2, "56 kept = 54 ok + 2 failed + 0 censored, in 2 windows (1 load, 2 each)", "= 52 ok + 4 failed", |s| {
        for (_, rows) in &mut s.windows {
            rows[9] = failed(rows[9].clone(), "timeout");
        }
    });
    changes(2, "ttft gross p50 11.3 %", "ttft gross p50 71.5 %", |s| {
        s.windows[1].1.iter_mut().for_each(|row| shift_answer(row, 5 * MS));
    });
    changes(2, "largest gap between two windows", "one window of each load only", |s| s.windows.truncate(1));
    changes(2, "2 windows", "rests of 30 s between rounds, 5 s between the load points of a round", |s| {
        (s.plan["gap_between_windows_s"], s.plan["gap_between_cells_s"]) = (30.0.into(), 5.0.into());
    });
}

#[test]
fn box_3_the_records_and_their_digest() {
    let digest = |boxes: &Boxes| boxes.boxes[2].values["sha256"].as_str().unwrap().to_string();
    let (then, now) = (boxes(|_| ()), boxes(|s| s.windows[0].1[9].bytes_in += 1));
    assert_ne!(digest(&then), digest(&now));
    assert!(answer(&now, 3).1.contains(&digest(&now)), "{}", answer(&now, 3).1);
    changes(3, "60 rows in a hash chain", "59 rows in a hash chain", |s| drop(s.windows[0].1.pop()));
    // declared: printed as such
    let told = boxes(|s| s.plan["declared"]["url"] = "https://x.example/y".into());
    assert!(
        answer(&told, 3).1.ends_with("; declared, not measured: url https://x.example/y"),
        "{}",
        answer(&told, 3).1
    );
}

#[test]
fn box_4_the_dropped_against_the_kept() {
    let then = "trace ids 0 to 1 were dropped in each of 2 windows (4 requests), by id and not by speed; their rows are kept; \
                their ttft gross: medians 5.03 ms to 5.05 ms, slowest 5.07 ms (at 1 at once)";
    changes(4, then, "slowest 805.0 ms (at 1 at once), against medians of the kept of 5.03 ms to 5.63 ms", |s| {
        shift_answer(&mut s.windows[0].1[0], 800 * MS - 30 * US);
    });
    let nothing = |slow: bool| {
        boxes(move |s| {
            for (bounds, rows) in &mut s.windows {
                bounds.drop = 0;
                rows.iter_mut().for_each(|row| row.phase = crate::rundir::row::Phase::Measured);
            }
            if slow {
                shift_answer(&mut s.windows[0].1[0], 100 * MS);
            }
        })
    };
    for (slow, words) in [(false, "; 0 of the 20 first calls"), (true, "; 1 of the 20 first calls")] {
        let found = nothing(slow);
        assert!(answer(&found, 4).1.contains(words), "{}", answer(&found, 4).1);
    }
}

/// Absent is not 0.
#[test]
fn box_4_says_in_how_many_windows_it_could_look() {
    let boxes = from_run(|run| {
        let window = &mut run.cells[0].windows[0];
        window.metrics.ttft.gross = None;
        (window.disclosed.dropped.ttft_gross_p50_ms, window.disclosed.dropped.ttft_gross_max_ms) = (None, None);
    });
    assert!(
        answer(&boxes, 4).1.contains("their ttft gross (told in 1 of 2 windows): medians "),
        "{}",
        answer(&boxes, 4).1
    );
}

#[test]
fn box_5_what_is_told_of_a_cache() {
    let unique = |s: &mut Specimen| {
        let mut n = 0;
        rows(s, |row| (row.nonce, n) = (format!("n{n}"), n + 1));
    };
    let silent = boxes(unique);
    let (status, sentence) = answer(&silent, 5);
    assert_eq!(status, Status::NotVerifiable);
    assert!(
        sentence.starts_with("each of 60 prompts begins with a nonce that no other of its window has; "),
        "{sentence}"
    );
    assert!(sentence.contains("no reply of 56 told cached_tokens, which does not mean 0"), "{sentence}");
    let told = |tokens: u64| {
        boxes(move |s| {
            unique(s);
            rows(s, |row| row.cached_tokens = Some(if row.trace_id == 7 { tokens } else { 0 }));
        })
    };
    let none = told(0);
    let words = "cached_tokens told on 56 of 56 replies: 0 of 1,120 prompt tokens (0 %), more than 0 on 0 requests";
    assert_eq!(
        (answer(&none, 5).0, answer(&none, 5).1.contains(words)),
        (Status::Measured, true),
        "{}",
        answer(&none, 5).1
    );
    let some = told(16);
    assert!(
        answer(&some, 5).1.contains("32 of 1,120 prompt tokens (2.9 %), more than 0 on 2 requests"),
        "{}",
        answer(&some, 5).1
    );
    let alike = boxes(|_| ());
    assert!(answer(&alike, 5).1.starts_with("60 of 60 prompts begin as another one"), "{}", answer(&alike, 5).1);
    // a word is a word
    let said = boxes(|s| s.plan["declared"]["cache"] = "off".into());
    assert_eq!(answer(&said, 5).0, Status::Declared);
    let counted = from_run(|run| {
        let counters = (Some(50), Some(200));
        let server = run.cells[0].windows[1].server.insert(ServerActivity::default());
        (server.prefix_cache_hits, server.prefix_cache_queries) = counters;
    });
    let words = "by the server's own counters 50 of 200 asked tokens were in its prefix cache (25 %)";
    assert_eq!((answer(&counted, 5).0, answer(&counted, 5).1.contains(words)), (Status::Measured, true));
}

#[test]
fn box_5_what_prompts_share_on_purpose() {
    let of = |cache: &str, cached: u64| {
        let told = boxes(|s| {
            let mut n = 0;
            s.plan["workload"] = json!({"cache": cache, "seed": 7});
            rows(s, |row| {
                (row.nonce, n) = (format!("n{n}"), n + 1);
                row.begins = (cache != "unique").then(|| format!("w{}", row.window));
                row.cached_tokens = Some(cached);
            });
        });
        answer(&told, 5).1.to_owned()
    };
    for (cache, words) in [
        ("shared-prefix:64", "CACHE TEST: the first 64 tokens of all prompts of a window are the same (seed 7), "),
        ("repeat", "CACHE TEST: all measured prompts of a window are one text (seed 7), "),
        ("as-is", "prompts are as the file has them (seed 7), the same in every window and every run"),
    ] {
        let sentence = of(cache, 1);
        assert!(sentence.starts_with(words), "{sentence}");
        assert!(sentence.contains("60 of 60 prompts begin as another one of their window does"), "{sentence}");
        assert!(sentence.contains("WARNING: the cache saved 5.0 % of the prompt tokens"), "{sentence}");
        assert!(!of(cache, 0).contains("WARNING"), "{}", of(cache, 0));
    }
    assert!(of("unique", 0).starts_with("each of 60 prompts begins with a nonce"), "{}", of("unique", 0));
}

#[test]
fn box_6_the_first_hit_and_the_first_connection() {
    let then = "the first request of all (id 0, 1 at once, dropped as warm-up, its row kept): ttft 5.03 ms gross, 1.0 times \
                the median of the kept in its window; it was also the first on a new connection (TCP handshake 8.00 us)";
    changes(6, then, "ttft 105.0 ms gross, 20.9 times the median", |s| shift_answer(&mut s.windows[0].1[0], 100 * MS));
    changes(6, "ttft 5.03 ms gross", "ttft 5.00 ms net (gross is withheld)", |s| {
        s.health.iter_mut().filter(|h| h.thread == "worker-0").for_each(|h| h.run_delay_ns = Some(h.cpu_ns));
    });
    let words = "the first on a new connection (TCP handshake 40.0 us) was id 4, 1 at once: ttft 5.03 ms gross";
    changes(6, "it was also the first", words, |s| {
        for (_, rows) in &mut s.windows {
            rows[0].conn_reused = true;
            (rows[4].conn_reused, rows[4].connect) = (false, Some(40 * US));
        }
    });
    changes(
        6,
        "since when the server runs is not known",
        "the server says that it runs since 2026-01-01T00:00:00Z, 90 s before this campaign",
        |s| {
            s.plan["environment"]["server"] = json!({"started_at": "2026-01-01T00:00:00Z", "age_s": 90.2});
        },
    );
}

#[test]
fn box_7_in_flight_as_measured() {
    // asked for one at once, as before: what counts is what was there
    changes(7, "one user only: never more than 1 request", "at most 30 at the same time", |s| {
        rows(s, |row| shift_answer(row, 400 * MS));
    });
    changes(7, "mean of each window: 0.78", "mean of each window: 0.0", |s| {
        s.windows.iter_mut().for_each(|(bounds, _)| bounds.closed += 30_000 * MS);
    });
}

#[test]
fn box_8_loads_that_gave_answers() {
    let three = |silent: bool| {
        move |s: &mut Specimen| {
            let like = s.windows[0].clone();
            for (cell, concurrency) in [(1, 8), (2, 50)] {
                let (mut bounds, mut rows) = like.clone();
                (bounds.cell, bounds.load.concurrency, bounds.slots) = (cell, Some(concurrency), concurrency);
                rows.iter_mut().for_each(|row| row.cell = cell);
                if silent && cell == 2 {
                    rows.iter_mut().for_each(|row| *row = failed(row.clone(), "connect"));
                }
                s.windows.push((bounds, rows));
            }
        }
    };
    changes(
        8,
        "one load only: 1 at once (ttft p50 5.03 ms to 5.63 ms)",
        "3 loads side by side: 1 at once (",
        three(false),
    );
    changes(8, "one load only", "2 loads only: 1 at once (ttft p50 5.03 ms to 5.63 ms), 8 at once (", three(true));
    changes(8, "one load only", "; at 1 load nothing was answered", three(true));
    // gross of one window beside net of another would look like a spread
    let boxes = from_run(|run| run.cells[0].windows[0].metrics.ttft.gross = None);
    assert!(answer(&boxes, 8).1.contains("1 at once (ttft p50 net "), "{}", answer(&boxes, 8).1);
}

#[test]
fn box_9_seconds_and_stability() {
    changes(
        9,
        "2 windows of 0.3 s, 0.6 s in all; all below 120 s",
        "2 windows of 0.3 s to 130.0 s, 130.3 s in all; 1 of them",
        |s| {
            s.windows[1].0.closed = s.windows[1].0.opened + 130_000 * MS;
        },
    );
    changes(9, "2 windows of", ", 1 of them cut short", |s| s.windows[1].0.interrupted = true);
    let judged = from_run(|run| {
        for (window, drift) in run.cells[0].windows.iter_mut().zip([Drift::Drifting, Drift::TooShortToTell]) {
            window.steady.ttft.drift = drift;
            window.steady.ttft.thirds = Some(Thirds { first_ms: 2.0, last_ms: 3.0, ratio: Some(1.5) });
        }
    });
    let words = "drift of ttft: drifting (1 window), too short to tell (1 window); last third over first third of each \
                 window, median ttft: 1.50";
    assert!(answer(&judged, 9).1.contains(words), "{}", answer(&judged, 9).1);
    assert!(answer(&boxes(|_| ()), 9).1.contains("drift of ttft: too short to tell (2 windows)"));
}

#[test]
fn box_10_lengths_as_realised() {
    let then = "68 % short: prompt 20 (asked 20), output 3 (asked 3), 32 % long: prompt 20 (asked 20), output 3 (asked 3); all \
                prompts are of nearly one length (coefficient of variation 0.00)";
    changes(
        10,
        then,
        "long: prompt 6,022 (asked 20), output 3 (asked 3); coefficient of variation of the prompts 1.",
        |s| {
            rows(s, |row| row.prompt_tokens = Some(if row.class == "long" { 6022 } else { 20 }));
        },
    );
    changes(10, "output 3 (asked 3)", "short: prompt 20 (asked 20), output 1 to 2 (asked 3)", |s| {
        rows(s, |row| row.completion_tokens = row.completion_tokens.map(|_| 1 + row.trace_id % 2));
    });
    let silent = boxes(|s| rows(s, |row| row.prompt_tokens = None));
    let (status, sentence) = answer(&silent, 10);
    assert_eq!(status, Status::NotVerifiable);
    assert!(
        sentence.starts_with("tokens as asked for, the server told none: 68 % short: prompt unknown (asked 20)"),
        "{sentence}"
    );
}

#[test]
fn box_11_how_replies_ended() {
    changes(11, "54 ok replies ended: 100 % by length", "54 ok replies ended: 67 % by length, 33 % by stop", |s| {
        rows(s, |row| {
            if row.class == "long" && row.finish_reason.is_some() {
                row.finish_reason = Some("stop".into());
            }
        });
    });
    changes(11, "caps of 3 (short), 3 (long) output tokens", "caps of 3 (short), 600 (long) output tokens", |s| {
        rows(s, |row| row.asked_output_tokens = if row.class == "long" { 600 } else { 3 });
    });
    // what was really sent, where a field of the body takes the place of ours
    let over = boxes(|s| {
        s.plan["temperature"] = json!(0.0);
        s.plan["extra_body"] = json!({"temperature": 0.7});
    });
    assert!(answer(&over, 11).1.starts_with("temperature 0.7, top_p not recorded; "), "{}", answer(&over, 11).1);
}

#[test]
fn box_12_what_is_known_of_the_model() {
    let server = |server: Value| {
        boxes(move |s| {
            s.plan["model"] = "m".into();
            s.plan["environment"]["server"] = server;
        })
    };
    let listed = json!({"data": [{"id": "m", "root": "org/m-8b", "max_model_len": 4096}]});
    let known = server(json!({"models_document": listed, "version": {"version": "0.32.0"}, "server": "uvicorn"}));
    let (status, sentence) = answer(&known, 12);
    assert_eq!(status, Status::NotVerifiable);
    let words = "asked for \"m\"; /v1/models lists it (root org/m-8b, max_model_len 4096); 54 replies so named; the server says \
                 version 0.32.0, Server header uvicorn; precision, quantisation and hardware cannot be known from here";
    assert_eq!(sentence, words);
    let told =
        server(json!({"models_document": listed, "facts": {"dtype": {"value": "bfloat16", "from": "/server_info"}}}));
    assert_eq!(answer(&told, 12).0, Status::Measured);
    assert!(answer(&told, 12).1.contains("the server says dtype bfloat16"), "{}", answer(&told, 12).1);
    let other = server(json!({"models_document": {"data": [{"id": "n"}]}}));
    assert!(answer(&other, 12).1.contains("/v1/models lists 1 model and not this one"), "{}", answer(&other, 12).1);
    let declared = boxes(|s| {
        s.plan["model"] = "m".into();
        s.plan["declared"]["precision"] = "fp8".into();
    });
    assert_eq!(answer(&declared, 12).0, Status::Declared, "a word is not a measurement");
    assert!(
        answer(&declared, 12).1.ends_with("; declared, not measured: precision fp8"),
        "{}",
        answer(&declared, 12).1
    );
    assert!(answer(&known, 12).1.contains("; 54 replies so named; "));
    let sick = boxes(|s| {
        s.plan["model"] = "m".into();
        s.windows[0]
            .1
            .iter_mut()
            .filter(|row| row.trace_id % 4 == 0)
            .for_each(|row| row.model_echo = Some("m-small".into()));
    });
    assert!(answer(&sick, 12).1.contains("REPLIES NAME ANOTHER MODEL: \"m-small\" in 6"), "{}", answer(&sick, 12).1);
}

#[test]
fn box_13_cpu_and_gates() {
    changes(
        13,
        "OK: CPU/wall of this process, worst window of each load, 0.50 at 1 at once (mark 0.7)",
        "BUSY: CPU/wall",
        |s| {
            s.health.iter_mut().filter(|h| h.thread == "process").for_each(|h| h.cpu_ns = h.cpu_ns * 19 / 10);
        },
    );
    changes(13, "0 void", "gross is withheld in 2 of 2 windows", |s| {
        s.windows.iter_mut().for_each(|(bounds, _)| bounds.counters.ring_overflow = 1);
    });
    changes(13, "worst of all: worker CPU 0.25", "worst of all: worker CPU 0.50", |s| {
        s.health.iter_mut().filter(|h| h.thread == "worker-0").for_each(|h| h.cpu_ns *= 2);
    });
    assert_eq!(answer(&boxes(|s| s.health.clear()), 13).0, Status::Empty, "not known is not OK");
}

#[test]
fn box_14_address_and_distance() {
    let at = |s: &mut Specimen, loopback: bool| {
        s.plan["environment"]["loopback"] = loopback.into();
        s.plan["environment"]["address"] = if loopback { "127.0.0.1:80" } else { "10.0.0.2:80" }.into();
    };
    let found = boxes(|s| at(s, true));
    let words = "from h to 127.0.0.1:80; over loopback, on the same host: no network is in any figure; how far away it is was \
                 not measured; no TLS";
    assert_eq!(answer(&found, 14), (Status::Measured, words));
    let far = boxes(|s| {
        at(s, false);
        s.plan["environment"]["network"] = json!({"min_rtt_us": 153_300, "local": "10.0.0.1:4711"});
        s.windows.iter_mut().for_each(|(_, rows)| rows[4].connect = Some(154 * MS));
    });
    let words = "from h (10.0.0.1:4711) to 10.0.0.2:80; round trip of TCP 153.3 ms, TCP handshakes from 154.0 ms up; no TLS; \
                 region not declared";
    assert_eq!(answer(&far, 14), (Status::Measured, words));
    let said = boxes(|s| {
        at(s, false);
        s.plan["declared"]["region"] = "nyc2".into();
    });
    assert!(answer(&said, 14).1.ends_with("; no TLS; declared, not measured: region nyc2"), "{}", answer(&said, 14).1);
    let secured = |roots: &str| {
        let found = boxes(|s| {
            at(s, false);
            s.plan["tls"] = json!({"roots": roots});
            s.plan["environment"]["base_url"] = "https://gw.example".into();
            s.plan["environment"]["tls"] = json!({"version": "TLS 1.3", "certificate": {"subject": "CN=gw.example"}});
            s.plan["environment"]["addresses"] = json!(["10.0.0.2:80", "10.0.0.3:80", "10.0.0.4:80"]);
        });
        answer(&found, 14).1.to_owned()
    };
    let told = secured("nobody");
    assert!(told.contains("TLS 1.3 to CN=gw.example, BUT NOBODY VERIFIED THE SERVER (--insecure)"), "{told}");
    assert!(told.contains("to 10.0.0.2:80 and 2 other addresses in turn"), "{told}");
    assert!(secured("file").contains("verified by a CA given with --ca-file"));
    assert!(secured("webpki-roots").contains("verified by a public CA"));
    assert_eq!(answer(&boxes(|s| s.plan["declared"]["region"] = "nyc2".into()), 14).0, Status::Declared);
    assert_eq!(answer(&boxes(|s| s.plan["declared"]["region"] = " ".into()), 14).0, Status::Empty);
    assert_eq!(answer(&boxes(|_| ()), 14).0, Status::Empty);
}

/// Both lines of a run in its ledger, sealed.
fn ledger(dir: &Path, lines: &[Value]) {
    let mut chain = Chain::default();
    let sealed = lines.iter().map(|line| {
        let mut text = line.to_string();
        chain.seal(&mut text);
        text + "\n"
    });
    std::fs::write(dir.join("ledger.jsonl"), sealed.collect::<String>()).unwrap();
}

#[test]
fn box_15_what_the_ledger_counts() {
    let dir = tempfile::tempdir().unwrap();
    Specimen::two_windows().write(dir.path());
    assert_eq!(answer(&of(dir.path()), 15).0, Status::Empty);
    let records = of(dir.path()).boxes[2].values["sha256"].clone();
    let start = json!({"event": "start", "run_id": "r1", "at": "2026-01-01T00:00:00Z", "plan_hash": "abc",
        "rules_hash": "f".repeat(64), "rules": {"drop": 2, "num_prompts": 28, "windows": 2}});
    let runs = |started: u64| json!({"started": started, "complete": started - 1, "invalid": 1, "interrupted": 0, "failed": 0, "without_end": 0});
    let end = |started: u64, records: &Value| {
        json!({"event": "end", "run_id": "r1", "outcome": "invalid", "files": {"requests.jsonl": records},
            "runs": runs(9), "runs_of_plan": runs(started), "runs_of_target": runs(7)})
    };
    let fixed = "the rules (first 2 dropped by trace id, 28 kept, 2 windows a load) were fixed by hash ffffffffffff at \
                 2026-01-01T00:00:00Z, before the first request";
    for (started, words) in [(4, "4 runs of this plan started"), (5, "5 runs of this plan started")] {
        ledger(dir.path(), &[start.clone(), end(started, &records)]);
        let found = of(dir.path());
        let (status, sentence) = answer(&found, 15);
        let list = format!("in this ledger until this one ended: {} complete, 1 invalid; ", started - 1);
        assert!(status == Status::Measured && sentence.starts_with(words), "{sentence}");
        assert!(sentence.contains(&list) && sentence.ends_with(fixed), "{sentence}");
        assert!(
            sentence.contains("; runs 7 of this server and model, 9 of any kind; this one ended invalid; "),
            "{sentence}"
        );
    }
    let mut cut = end(1, &records);
    cut["ledger_breaks"] = 2.into();
    ledger(dir.path(), &[start.clone(), cut]);
    let found = of(dir.path());
    assert_eq!(answer(&found, 15).0, Status::NotVerifiable);
    assert!(answer(&found, 15).1.contains("BUT THE CHAIN OF THE LEDGER WAS BROKEN in 2 places: "));
    ledger(dir.path(), &[start.clone(), end(4, &json!("0000"))]);
    assert!(answer(&of(dir.path()), 15).1.ends_with("BUT requests.jsonl IS NOT THE ONE THAT THE LEDGER NAMES"));
    ledger(dir.path(), std::slice::from_ref(&start));
    let found = of(dir.path());
    assert_eq!(answer(&found, 15).0, Status::NotVerifiable);
    assert!(answer(&found, 15).1.contains("no end line of this run"), "{}", answer(&found, 15).1);
    let mut other = start.clone();
    other["plan_hash"] = "abd".into();
    ledger(dir.path(), &[other.clone(), end(4, &records)]);
    assert!(answer(&of(dir.path()), 15).1.contains("BUT THE PLAN THAT WAS RUN HAS ANOTHER HASH"));
    other["run_id"] = "r2".into();
    ledger(dir.path(), &[other]);
    assert_eq!(answer(&of(dir.path()), 15).0, Status::Empty, "somebody else's lines");
}

#[test]
fn without_boxes_1_to_3_there_is_no_report() {
    assert_eq!(boxes(|_| ()).refusal(), None);
    let nobody = boxes(|s| rows(s, |row| *row = failed(row.clone(), "http_status")));
    let words = "no report: box 1 (First token or full answer, by which clock?) is empty, and without boxes 1 to 3 nobody can \
                 check a figure: nothing was timed: of 56 kept requests not one was answered";
    assert_eq!(nobody.refusal().as_deref(), Some(words));
    assert_eq!(answer(&nobody, 2).0, Status::Measured);

    let dir = tempfile::tempdir().unwrap();
    Specimen::two_windows().write(dir.path());
    let run = summarise(dir.path()).unwrap();
    std::fs::write(dir.path().join("run.json"), crate::analysis::summary::to_json(&run).unwrap()).unwrap();
    let windows = std::fs::read_to_string(dir.path().join("windows.jsonl")).unwrap();
    std::fs::write(dir.path().join("windows.jsonl"), windows.replacen("\"rows\":30", "\"rows\":31", 1)).unwrap();
    let refusal = of(dir.path()).refusal().unwrap();
    assert!(refusal.starts_with("no report: box 2 ") && refusal.contains("the counts do not close"), "{refusal}");
    std::fs::write(dir.path().join("windows.jsonl"), windows).unwrap();
    std::fs::remove_file(dir.path().join("requests.jsonl")).unwrap();
    let refusal = of(dir.path()).refusal().unwrap();
    assert!(refusal.starts_with("no report: box 3 ") && refusal.contains("requests.jsonl"), "{refusal}");
    std::fs::remove_file(dir.path().join("run.json")).unwrap();
    let lost = Disclosed::of_directory(dir.path()).unwrap_err().to_string();
    assert!(lost.contains("requests.jsonl") && lost.contains("nor does run.json serve instead"), "{lost}");
}

/// Labels follow what was measured, and `verify` says the same: see there.
#[test]
fn labels_of_what_was_measured() {
    let of = |change: fn(&mut Specimen)| {
        let dir = tempfile::tempdir().unwrap();
        let mut specimen = Specimen::two_windows();
        change(&mut specimen);
        specimen.write(dir.path());
        summarise(dir.path()).unwrap().labels
    };
    let has = |change: fn(&mut Specimen), label: &str| of(change).iter().any(|l| l == label);
    let as_it_is: fn(&mut Specimen) = |_| ();
    assert!(has(as_it_is, labels::ONE_USER) && !has(|s| rows(s, |row| shift_answer(row, 400 * MS)), labels::ONE_USER));
    assert!(has(as_it_is, labels::UNIFORM));
    assert!(!has(|s| rows(s, |row| row.prompt_tokens = Some(20 + row.trace_id)), labels::UNIFORM));
    assert!(has(as_it_is, labels::SHORT));
    let long: fn(&mut Specimen) = |s| {
        *s = Specimen::calm(121);
        let (bounds, rows) = &mut s.windows[0];
        *rows = (0..300).map(|id| request(id, bounds.opened + id * 10 * MS)).collect();
    };
    assert!(!has(long, labels::SHORT));
    assert!(!has(as_it_is, labels::CACHE_HELPED));
    assert!(has(|s| rows(s, |row| row.cached_tokens = Some(1)), labels::CACHE_HELPED), "5 %");
    assert!(!has(|s| s.windows[0].1[9].cached_tokens = Some(0), labels::CACHE_HELPED));
    assert!(!has(as_it_is, labels::CLIENT_LIMITED));
    assert!(has(|s| s.windows[1].0.counters.ring_overflow = 1, labels::CLIENT_LIMITED));
    assert!(!has(as_it_is, labels::NOT_COMPLETE) && has(|s| s.windows[1].0.interrupted = true, labels::NOT_COMPLETE));
    assert!(has(as_it_is, labels::ONE_LOAD));
    let two: fn(&mut Specimen) = |s| {
        s.windows[1].0.cell = 1;
        s.windows[1].0.window = 0;
        s.windows[1].0.load =
            Load { model: LoadModel::Closed, concurrency: Some(8), rate: None, arrivals: None, sessions: None };
        s.windows[1].1.iter_mut().for_each(|row| (row.cell, row.window) = (1, 0));
    };
    assert!(!has(two, labels::ONE_LOAD));
}

fn of_sessions(users: Option<u32>, change: impl FnMut(&mut Row)) -> (Boxes, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let mut specimen = Specimen::sessions(users, 120);
    rows(&mut specimen, change);
    specimen.write(dir.path());
    (of(dir.path()), summarise(dir.path()).unwrap().labels)
}

#[test]
fn sessions_that_find_their_own_history_are_no_accident() {
    let (boxes, labels) = of_sessions(Some(3), |_| ());
    let (status, sentence) = answer(&boxes, 5);
    assert_eq!(status, Status::Measured);
    for words in [
        "each of the sessions begins with a nonce that no other of its window has",
        "cached share of the prompts by turn 1: 0 %, 2: 45 %, 3: 64 %, 4: 73 %",
    ] {
        assert!(sentence.contains(words), "no {words} in {sentence}");
    }
    assert!(!sentence.contains("WARNING") && !labels.iter().any(|l| l == labels::CACHE_HELPED), "{labels:?}");
    // a first turn has no history: what it finds, others had sent
    let (boxes, labels) = of_sessions(Some(3), |row| {
        if row.session.as_ref().is_some_and(|turn| turn.turn == 0) {
            row.cached_tokens = Some(11);
        }
    });
    let (_, sentence) = answer(&boxes, 5);
    assert!(sentence.contains("WARNING: the cache saved 50 % of the prompt tokens of first turns"), "{sentence}");
    assert!(labels.iter().any(|l| l == labels::CACHE_HELPED), "{labels:?}");
}

#[test]
fn boxes_tell_of_sessions() {
    let (boxes, labels) = of_sessions(Some(3), |_| ());
    let told = [
        (2, "240 sessions begun, 8 dropped by id, 232 kept = 228 complete + 2 failed + 2 cut off"),
        (7, "mean of each window"),
        (7, "at 3 users, sessions of 2 to 4 turns, think time 7 ms"),
        (7, "sessions under way, pauses included: at most 3"),
        (10, "sessions of up to 4 turns, mean prompt tokens by turn 1: 22, 2: 47, 3: 72, 4: 97"),
    ];
    for (number, words) in told {
        let (_, sentence) = answer(&boxes, number);
        assert!(sentence.contains(words), "no {words} in {sentence}");
    }
    assert!(!labels.iter().any(|l| l == labels::ONE_USER));
    // one user who never has two sessions at once
    let (_, labels) = of_sessions(Some(1), |_| ());
    assert!(labels.iter().any(|l| l == labels::ONE_USER), "{labels:?}");
    let (boxes, _) = of_sessions(None, |_| ());
    let (_, sentence) = answer(&boxes, 7);
    assert!(sentence.starts_with("partly open: tasks arrive, their calls follow the replies"), "{sentence}");
    assert!(sentence.contains("tasks/s of 2 to 4 calls"), "{sentence}");
    let (_, sentence) = answer(&boxes, 10);
    assert!(sentence.contains("tasks of up to 4 calls, mean prompt tokens by call 1: 22"), "{sentence}");
    assert!(answer(&boxes, 5).1.contains("cached share of the prompts by call 1: 0 %"), "{}", answer(&boxes, 5).1);
}

#[test]
fn box_10_what_histories_lack() {
    use crate::rundir::row::LeftOut;
    let (boxes, _) = of_sessions(Some(3), |row| {
        let turn = row.session.as_mut().unwrap();
        if (turn.id, turn.turn) == (30, 0) {
            turn.left_out = vec![LeftOut::ToolCalls, LeftOut::Reasoning];
        }
    });
    let (_, sentence) = answer(&boxes, 10);
    let told = "2 replies NOT SENT BACK WHOLE (2 with calls of tools); the reasoning of 2 replies is not sent back";
    assert!(sentence.contains(told), "{sentence}");
    assert_eq!(boxes.boxes[9].values["left_out"][0]["tool_calls"], 1);
}

#[test]
fn box_13_tells_how_late_replies_were_followed() {
    let dir = tempfile::tempdir().unwrap();
    let mut specimen = Specimen::sessions(Some(3), 40);
    let ends = specimen.windows.iter().flat_map(|(bounds, _)| [bounds.opened - MS, bounds.closed + MS]);
    specimen.health = ends.map(|t| sample("process", t, t / 2)).collect();
    specimen.write(dir.path());
    let found = of(dir.path());
    let (_, sentence) = answer(&found, 13);
    assert!(sentence.contains("turnaround p99 10.0 us"), "{sentence}");
    assert_eq!(found.boxes[12].values["turnaround_p99_ms"], 0.01);
}

#[test]
fn box_15_names_sessions_as_they_are_called() {
    for (users, called) in [(Some(3), "sessions"), (None, "tasks")] {
        let dir = tempfile::tempdir().unwrap();
        Specimen::sessions(users, 40).write(dir.path());
        let rules = json!({"windows": 2, "sessions": {"num_sessions": 36, "drop_sessions": 4}});
        let start = json!({"event": "start", "run_id": "r1", "at": "t", "plan_hash": "abc", "rules": rules});
        ledger(dir.path(), &[start]);
        let found = of(dir.path());
        let told = format!("the rules (first 4 {called} dropped, 36 {called} kept, 2 windows a load)");
        assert!(answer(&found, 15).1.contains(&told), "{}", answer(&found, 15).1);
    }
}
