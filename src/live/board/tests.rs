use super::*;
use crate::live::course::Rests;
use crate::live::line::columns;
use crate::rundir::health::HealthRow;
use proptest::prelude::*;
use std::collections::BTreeMap;

const S: u64 = 1_000_000_000;

/// So many ms on the harness axis, of which windows open at 100 s.
fn at(ms: u64) -> Instant {
    Instant::from_ns(100 * S + ms * 1_000_000)
}

fn board(load_points: usize, windows: u32, model: &str) -> Board {
    let course = Course::new(
        vec![None; load_points],
        windows,
        1,
        Rests { rounds: Nanos::from_secs(30), load_points: Nanos::ZERO },
    );
    Board::new(Facts { model: model.to_owned(), max_failed: 0.01, course })
}

fn closed(load_point: usize, window: u32) -> Window {
    Window {
        arm: None,
        load_point,
        window,
        load: "closed loop, 50 at once".to_owned(),
        planned: 310,
        slots: 50,
        end: End::Number { at_least: Nanos::ZERO },
        streamed: true,
        spin: false,
    }
}

fn open_loop(last_due: Nanos) -> Window {
    Window { load: "open loop, 500 requests/s".to_owned(), end: End::Schedule { last_due }, ..closed(0, 0) }
}

fn counts(rows: u64, token_events: u64) -> Counts {
    Counts { sight: Sight { rows, ..Sight::default() }, token_events, in_flight: 50, server: None }
}

fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

fn sample(t_ms: u64, cpu_ms: u64, waited_ms: u64) -> HealthRow {
    HealthRow {
        t: t_ms * 1_000_000,
        thread: "worker-0".to_owned(),
        tid: 7,
        core: Some(0),
        cpu_ns: cpu_ms * 1_000_000,
        run_delay_ns: Some(waited_ms * 1_000_000),
        voluntary_switches: None,
        involuntary_switches: None,
        busy_ns: Some(0),
        steal_ns: Some(0),
        softirq_ns: None,
        rss_bytes: None,
    }
}

/// A window with everything there can be, 8 s after its opening.
fn full(model: &str, arm: Option<&'static str>) -> Board {
    let mut board = board(3, 4, model);
    board.prepare(Window { arm, ..closed(0, 1) });
    board.health(&[sample(0, 0, 0)]);
    board.open(at(0));
    for second in 1..=8 {
        board.health(&[sample(second * 1_000, second * 780, second * 3)]);
        let sight = Sight {
            rows: second * 20,
            failed: BTreeMap::from([("http_status".to_owned(), 1), ("timeout".to_owned(), 2)]),
            latency: Some(Quantiles { n: 157, p50: ms(52), p99: Some(ms(81)) }),
            late: Some(Quantiles { n: 157, p50: ms(0), p99: Some(Nanos::from_micros(1_200)) }),
            mean_flight: Some(ms(2_500)),
            tokens_per_event: Some(1.0),
        };
        let server = Some(Server { running: Some(48.0), waiting: Some(2.0) });
        board.take(at(second * 1_000), Counts { sight, token_events: second * 1_204, in_flight: 50, server });
    }
    board
}

#[test]
fn a_whole_view() {
    let shown = full("llama-3.1-8b", None).lines(at(8_000), 120, false);
    let expected = [
        "window 2/4  load 1/3: closed loop, 50 at once  llama-3.1-8b",
        "[##########..........]  160 of 310 requests  3 failed (timeout 2, http_status 1)  8 s, about 7 s left",
        "in flight 50 of 50  20.0 requests/s  1,204 tokens/s  ttft gross p50 52.0 ms p99 81.0 ms (n 157)",
        "client cpu 78.0 % warn  run queue 0.3 %  late p99 1.20 ms VOID  server 48 running, 2 waiting",
    ];
    assert_eq!(shown, expected);
}

#[test]
fn a_narrow_view_keeps_what_matters() {
    let shown = full("llama-3.1-8b", Some("b")).lines(at(8_000), 60, false);
    let expected = [
        "arm b  window 2/4  load 1/3: closed loop, 50 at once",
        "160 of 310 requests  3 failed  8 s, about 7 s left",
        "in flight 50  20.0 req/s  ttft gross p50 52.0 ms p99 81.0 ms",
        "client cpu 78.0 % warn  queue 0.3 %  late p99 1.20 ms VOID",
    ];
    assert_eq!(shown, expected);
}

#[test]
fn colours_stand_where_a_gate_is_near_and_only_when_asked_for() {
    let board = full("m", None);
    let colored = board.lines(at(8_000), 120, true);
    assert!(colored[3].starts_with("\x1b[33mclient cpu 78.0 % warn\x1b[0m  run queue 0.3 %"), "{colored:?}");
    assert!(colored[3].contains("\x1b[31mlate p99 1.20 ms VOID\x1b[0m"), "{colored:?}");
    assert!(colored[1].contains("\x1b[31m3 failed (timeout 2, http_status 1)\x1b[0m"), "3 of 160 are above 1 %");
    let plain: Vec<String> = colored
        .iter()
        .map(|line| ["\x1b[33m", "\x1b[31m", "\x1b[0m"].iter().fold(line.clone(), |l, code| l.replace(code, "")))
        .collect();
    assert_eq!(plain, board.lines(at(8_000), 120, false), "the same words with and without");
}

#[test]
fn gross_is_marked_while_a_gate_takes_it_away() {
    let mut board = board(1, 1, "");
    board.prepare(closed(0, 0));
    board.open(at(0));
    board.health(&[sample(0, 0, 0)]);
    let latency = Some(Quantiles { n: 99, p50: ms(52), p99: None });
    let seen = Counts { sight: Sight { rows: 99, latency, ..Sight::default() }, ..counts(0, 0) };
    board.take(at(1_000), seen);
    assert!(board.lines(at(1_000), 120, false)[2].ends_with("ttft gross p50 52.0 ms p99 n<100 (n 99)"));
    board.health(&[sample(1_000, 900, 0)]);
    let marked = board.lines(at(1_000), 120, true);
    assert!(marked[2].ends_with("\x1b[31mttft gross p50 52.0 ms p99 n<100 (n 99) VOID\x1b[0m"), "{marked:?}");
}

#[test]
fn a_window_from_beginning_to_end() {
    let mut board = board(1, 2, "");
    assert!(board.lines(at(0), 100, false).is_empty() && board.plain(at(0)).is_none(), "nothing has begun");
    board.prepare(closed(0, 0));
    let shown = board.lines(at(0), 100, false);
    assert_eq!(shown, ["window 1/2  closed loop, 50 at once", "opening connections, making requests"]);
    assert_eq!(board.plain(at(0)), None);
    board.take(at(0), counts(7, 7));
    assert!(!board.is_open());
    board.open(at(1_000));
    let shown = board.lines(at(1_500), 100, false);
    assert_eq!(shown[1], "[....................]  0 of 310 requests  0 failed  0 s", "nothing to tell a rest by");
    assert_eq!(shown[2..], ["in flight 0 of 50", "client: no figure yet"]);
    board.take(at(11_000), counts(100, 4_000));
    let shown = board.lines(at(11_000), 100, false);
    assert_eq!(shown[1], "[######..............]  100 of 310 requests  0 failed  10 s, about 21 s left");
    assert_eq!(shown[2], "in flight 50 of 50  10.0 requests/s  400 token events/s", "no server has told its tokens");
    let plain = board.plain(at(11_000)).expect("something to say");
    assert_eq!(
        plain,
        "live     window 1/2; closed loop, 50 at once; 100 of 310 requests; 0 failed; 10 s, about 21 s left; in flight 50 \
         of 50; 10.0 requests/s; 400 token events/s; client: no figure yet"
    );
    board.close(at(32_000));
    let shown = board.lines(at(32_000), 100, false);
    assert_eq!(shown[1..], ["closed after 31 s, writing the last records"]);
    board.end();
    assert!(board.lines(at(32_000), 100, false).is_empty());
    board.rest(at(62_000));
    let shown = board.lines(at(40_000), 100, false);
    assert_eq!(shown, ["resting before the next windows, 22 s left  campaign: about 53 s left"], "22 and 31");
    board.prepare(closed(0, 1));
    board.open(at(70_000));
    let shown = board.lines(at(70_500), 100, false);
    assert_eq!(
        shown[1], "[....................]  0 of 310 requests  0 failed  0 s",
        "what was counted before is forgotten"
    );
}

#[test]
fn rates_are_those_of_the_last_seconds() {
    let mut board = board(1, 1, "");
    board.prepare(closed(0, 0));
    board.open(at(0));
    assert_eq!(board.rates(), None);
    board.take(at(300), counts(300, 0));
    assert_eq!(board.rates(), None, "too short for a rate");
    for half in 1..=40 {
        // 100 a second for ten seconds, then nothing
        let rows = (half * 50).min(1_000);
        board.take(at(half * 500), counts(rows, rows * 20));
        if half == 20 {
            assert_eq!(board.rates(), Some((100.0, 2_000.0)));
        }
    }
    assert_eq!(board.rates(), Some((0.0, 0.0)));
    assert!(board.trail.len() < 14, "memory is fixed: {}", board.trail.len());
}

#[test]
fn a_schedule_tells_its_own_end() {
    let mut board = board(1, 1, "");
    board.prepare(open_loop(Nanos::from_secs(20)));
    board.open(at(0));
    assert!(board.lines(at(5_000), 100, false)[1].ends_with("5 s, about 15 s left"));
    let sight = Sight { rows: 5, mean_flight: Some(ms(3_000)), ..Sight::default() };
    board.take(at(5_000), Counts { sight, ..counts(5, 0) });
    assert!(
        board.lines(at(5_000), 100, false)[1].ends_with("5 s, about 18 s left"),
        "and the replies to the last ones"
    );
    assert!(board.lines(at(20_000), 100, false)[1].ends_with("20 s, all are sent"));
}

#[test]
fn a_least_duration_counts_as_well() {
    let mut board = board(1, 1, "");
    board.prepare(Window { end: End::Number { at_least: Nanos::from_secs(60) }, ..closed(0, 0) });
    board.open(at(0));
    board.take(at(15_000), counts(300, 0));
    let shown = board.lines(at(15_000), 100, false);
    assert!(shown[1].starts_with("[#####...") && shown[1].ends_with("15 s, about 45 s left"), "{shown:?}");
    board.take(at(30_000), counts(600, 0));
    let shown = board.lines(at(30_000), 100, false);
    assert!(shown[1].contains("600 requests, 310 planned"), "{shown:?}");
}

#[test]
fn the_campaigns_rest_is_told_when_every_load_point_is_known() {
    let mut board = board(2, 2, "");
    for load_point in 0..2 {
        board.prepare(closed(load_point, 0));
        board.open(at(0));
        board.take(at(5_000), counts(155, 0));
        assert!(!board.lines(at(5_000), 120, false)[1].contains("campaign"));
        board.close(at(10_000));
    }
    board.prepare(closed(0, 1));
    board.open(at(0));
    board.take(at(5_000), counts(155, 0));
    let shown = board.lines(at(5_000), 120, false);
    assert!(shown[1].ends_with("5 s, about 5 s left  campaign: about 15 s left"), "{shown:?}");
}

#[test]
fn several_tokens_an_event_are_said() {
    let mut board = board(1, 1, "");
    board.prepare(closed(0, 0));
    board.open(at(0));
    let sight = Sight { rows: 10, tokens_per_event: Some(1.85), ..Sight::default() };
    board.take(at(1_000), Counts { sight, ..counts(10, 100) });
    assert!(board.lines(at(1_000), 100, false)[2].ends_with("100 token events/s (1.85 tokens each)"));
}

#[test]
fn steal_is_spoken_of_when_there_is_some() {
    let mut board = board(1, 1, "");
    board.prepare(closed(0, 0));
    board.open(at(0));
    let stolen = |t: u64, ns| HealthRow { steal_ns: Some(ns), ..sample(t, 0, 0) };
    board.health(&[stolen(0, 0)]);
    board.health(&[stolen(5_000, 0)]);
    assert!(!board.lines(at(5_000), 100, false)[3].contains("steal"));
    board.health(&[stolen(10_000, S)]);
    assert!(board.lines(at(5_000), 100, false)[3].contains("steal 20.0 % VOID"));
}

/// Names in wide and in narrow letters, from left and from right, with what moves a cursor.
fn names() -> impl Strategy<Value = String> {
    let letters = prop_oneof![
        Just("模".to_owned()),
        Just("ﷺ".to_owned()),
        Just("مرحبا".to_owned()),
        Just("👩\u{200d}👩\u{200d}👧".to_owned()),
        Just("❤\u{fe0f}".to_owned()),
        Just("e\u{301}".to_owned()),
        Just("\u{1b}[31m\n\t\u{202e}".to_owned()),
        any::<char>().prop_map(String::from),
    ];
    proptest::collection::vec(letters, 0..60).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn no_line_is_ever_wider_than_the_terminal(
        width in 40usize..=200,
        model in names(),
        class in names(),
        load in names(),
        rows in 0u64..u64::MAX / 2,
        events in 0u64..u64::MAX / 2,
        latency_ns in 0u64..1 << 60,
        elapsed_ms in 0u64..10_000_000_000,
        color in any::<bool>(),
        scheduled in any::<bool>(),
        cpu_ms in 0u64..2_000,
    ) {
        let mut board = board(12, 1_000, &model);
        let end = if scheduled { End::Schedule { last_due: Nanos::from_secs(7) } } else { closed(0, 0).end };
        board.prepare(Window { arm: Some("a"), load, end, planned: events, ..closed(0, 0) });
        board.health(&[sample(0, 0, 0)]);
        board.health(&[sample(1_000, cpu_ms, cpu_ms / 9)]);
        board.open(at(0));
        let quantiles = Some(Quantiles { n: rows, p50: Nanos::from_ns(latency_ns), p99: Some(Nanos::from_ns(latency_ns)) });
        let sight = Sight {
            rows,
            failed: BTreeMap::from([(class, rows / 3), ("timeout".to_owned(), 1)]),
            latency: quantiles,
            late: quantiles,
            mean_flight: Some(Nanos::from_ns(latency_ns)),
            tokens_per_event: Some(latency_ns as f64),
        };
        let server = Some(Server { running: Some(rows as f64), waiting: None });
        board.take(at(elapsed_ms), Counts { sight, token_events: events, in_flight: rows, server });
        let mut seen = vec![board.lines(at(elapsed_ms), width, color)];
        board.close(at(elapsed_ms));
        seen.push(board.lines(at(elapsed_ms), width, color));
        board.rest(at(elapsed_ms + 60_000));
        seen.push(board.lines(at(elapsed_ms), width, color));
        prop_assert_eq!(seen[0].len(), 4);
        for line in seen.iter().flatten() {
            let plain = ["\x1b[33m", "\x1b[31m", "\x1b[0m"].iter().fold(line.clone(), |l, code| l.replace(code, ""));
            prop_assert!(columns(&plain) <= width, "{} > {}: {}", columns(&plain), width, line);
            prop_assert!(!plain.chars().any(char::is_control), "{:?}", plain);
            prop_assert!(color || plain == *line);
        }
    }
}
