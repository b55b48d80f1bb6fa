//! Faults that users of other tools reported of their summaries: wrong counts, wrong divisors, impossible rates.

use super::*;
use crate::analysis::definitions;
use crate::analysis::specimen::{MS, Specimen, US, failed, request, shift_answer, stamp, window};
use crate::disclosure::directory::Disclosed;
use crate::report::{markdown, terminal};
use crate::rundir::row::{Outcome, Row, RowError, Stamp};
use crate::rundir::run_json::Distribution;
use crate::rundir::window::{Load, LoadModel};

fn summary(rows: Vec<Row>, concurrency: u32, closed: u64) -> RunJson {
    let dir = tempfile::tempdir().unwrap();
    let mut bounds = window(0, 0, 0, closed);
    bounds.load.concurrency = Some(concurrency);
    let windows = vec![(bounds, rows)];
    let mut specimen = Specimen { plan: serde_json::json!({}), windows, health: Vec::new(), scrapes: Vec::new() };
    specimen.write(dir.path());
    summarise(dir.path()).unwrap()
}

fn only(run: &RunJson) -> &Window {
    &run.cells[0].windows[0]
}

fn on_screen(run: &RunJson) -> String {
    terminal::render(run, 100, false)
}

/// A reply that ended without any token.
fn without_token(mut row: Row) -> Row {
    row = failed(row, "no_token");
    (row.first_token, row.first_answer, row.last_token, row.chunks) = (None, None, None, Vec::new());
    row.token_events = 0;
    row
}

/// No token gave a time to first token of 0, and counted as a success.
#[test]
fn a_reply_without_a_token_has_no_first_token_at_zero() {
    let mut good = request(0, 0);
    shift_answer(&mut good, 94_970 * US);
    let run = summary(vec![good, without_token(request(1, 200 * MS))], 1, 1_000 * MS);
    let w = only(&run);
    assert_eq!((w.requests.ok, w.requests.failed, w.requests.by_error.get("no_token")), (1, 1, Some(&1)));
    for d in [&w.metrics.ttft.gross, &w.metrics.ttft.due, &w.metrics.ttfo.gross] {
        let d = d.as_ref().unwrap();
        assert_eq!((d.n, d.min_ms, d.p50_ms), (1, d.max_ms, d.mean_ms));
    }
    assert_eq!(w.metrics.ttft.gross.as_ref().unwrap().p50_ms, Some(100.0));
}

/// A crash, or NaN, when nothing succeeded.
#[test]
fn nothing_succeeded_and_everything_is_null() {
    let refused = |id: u64| {
        let mut row = without_token(request(id, id * 10 * MS));
        row.error.as_mut().unwrap().class = "connect".into();
        (row.taken, row.submit, row.handed, row.sent, row.wire_out) = (None, None, None, None, None);
        (row.first_byte, row.first_event, row.done, row.end) = (None, None, None, None);
        row
    };
    let run = summary((0..20).map(refused).collect(), 2, 1_000 * MS);
    let w = only(&run);
    assert_eq!((w.requests.kept, w.requests.failed, w.requests.by_error.get("connect")), (20, 20, Some(&20)));
    let of_answers = w.metrics.columns().into_iter().filter(|(metric, ..)| *metric != "connect");
    assert_eq!(of_answers.filter(|(_, _, d)| d.is_some()).count(), 0);
    assert_eq!((w.throughput.whole.requests_per_s, w.throughput.whole.output_tokens_per_s), (Some(0.0), Some(0.0)));
    assert!(run.curves.is_empty() && run.verdicts.iter().any(|v| v.kind == "failed"));
    let json = to_json(&run).unwrap();
    let text = on_screen(&run) + &markdown::render(&run, &Disclosed::in_memory(&run));
    for text in [json.as_str(), text.as_str()] {
        assert!(!text.contains("NaN") && !text.contains(" inf") && !text.contains(": inf"), "{text}");
    }
    assert_eq!(serde_json::from_str::<RunJson>(&json).unwrap(), run);
}

/// Failures were not shown.
#[test]
fn failures_stand_in_the_first_lines_by_cause() {
    let row = |id: u64| match id {
        2 | 5 => failed(request(id, id * 10 * MS), "http_status"),
        7 => failed(request(id, id * 10 * MS), "transport"),
        _ => request(id, id * 10 * MS),
    };
    let text = on_screen(&summary((0..10).map(row).collect(), 1, 1_000 * MS));
    let first: Vec<&str> = text.lines().take(10).collect();
    assert!(first.iter().any(|l| l.contains("3 FAILED") && l.contains("7 ok")), "{text}");
    assert!(first.iter().any(|l| l.contains("http_status 2, transport 1")), "{text}");
}

/// Requests that were cut at the deadline, or failed half-way, lost the tokens they had delivered.
#[test]
fn tokens_of_cut_requests_count_in_the_throughput_and_nowhere_else() {
    let mut rows: Vec<Row> = (0..10).map(|id| request(id, id * 100 * MS)).collect();
    let mut cut = request(10, 985 * MS);
    // two tokens before the window closes at 1 s, and no more
    cut.chunks.truncate(2);
    (cut.outcome, cut.end, cut.done, cut.completion_tokens) = (Outcome::Censored, None, None, None);
    (cut.last_token, cut.token_events) = (Some(definitions::event(&cut.chunks[1])), 2);
    rows.push(cut);
    rows.push(failed(request(11, 950 * MS), "transport"));
    let run = summary(rows, 2, 1_000 * MS);
    let w = only(&run);
    assert_eq!((w.requests.ok, w.requests.censored, w.requests.failed), (10, 1, 1));
    assert_eq!(w.throughput.whole.output_tokens_per_s, Some(33.0), "10 x 3, and 2, and 1, in one second");
    assert_eq!(w.throughput.whole.requests_per_s, Some(10.0), "only whole replies are requests");
    for (metric, column, d) in w.metrics.columns() {
        let n = d.map_or(0, |d| d.n);
        assert!(n <= if metric == "gap" { 20 } else { 10 }, "{metric} {column}: {n}");
    }
}

/// Ramp and drain inside the denominator: 637 tokens/s with a long tail, 2,446 with the batch full.
#[test]
fn ramp_and_drain_are_outside_the_throughput() {
    // one slot serves 50 replies of three tokens, one after the other, for 500 ms; the other one reply for 4 s
    let mut rows: Vec<Row> = (0..50).map(|id| request(id, id * 10 * MS)).collect();
    let mut long = request(50, 0);
    let end = stamp(4_000 * MS, 15 * US);
    long.chunks[2] = crate::rundir::row::Chunk(end.seen, end.arrived, end.arrived_lo, Some(1), 2, 0, end.seen, 0);
    (long.last_token, long.done, long.end) = (Some(end), Some(end), Some(end));
    rows.push(long);
    let run = summary(rows, 2, 4_000 * MS + MS);
    let t = &only(&run).throughput;
    // at full concurrency from the first submit to the end of the 50th reply; one of 152 tokens comes after it
    let (from, to) = (0.000_01, 0.49 + 0.008_025);
    assert_eq!((t.from_s, t.to_s), (Some(from), Some(to)));
    assert!((t.output_tokens_per_s.unwrap() - 152.0 / (to - from)).abs() < 1e-6);
    assert!((t.whole.output_tokens_per_s.unwrap() - 153.0 / 4.001).abs() < 1e-6);
    let text = on_screen(&run);
    let line = text.lines().find(|l| l.contains("both over")).unwrap();
    assert!(line.contains("both over 0.00..0.50 s   whole window 38.2 tokens/s"), "bounds, and the whole: {line}");
}

/// A mean of means, a wrong divisor, two definitions in one report.
#[test]
fn a_mean_is_over_values_and_each_figure_has_one_definition() {
    // two gaps of 1 and 2.1 ms in one reply, ten of 0.1 ms in another
    let mut fast = request(1, 100 * MS);
    let first = fast.chunks[0];
    fast.chunks = (0..11_u32)
        .map(|i| {
            let t = u64::from(i) * 100 * US;
            crate::rundir::row::Chunk(
                first.0 + t,
                first.1.map(|at| at + t),
                first.2.map(|at| at + t),
                None,
                i,
                0,
                first.0 + t,
                0,
            )
        })
        .collect();
    let last: Stamp = definitions::event(&fast.chunks[10]);
    (fast.last_token, fast.token_events, fast.completion_tokens) = (Some(last), 11, Some(21));
    let run = summary(vec![request(0, 0), fast], 1, 1_000 * MS);
    let w = only(&run);
    let gap = w.metrics.gap.gross.as_ref().unwrap();
    assert_eq!(gap.n, 12);
    assert!((gap.mean_ms.unwrap() - 4.1 / 12.0).abs() < 1e-12, "not the mean of 1.55 and 0.1");
    // by the server's 21 tokens, less the first, not by the 11 events
    let tpot = w.metrics.tpot.gross.as_ref().unwrap();
    assert_eq!((tpot.n, tpot.min_ms, tpot.max_ms), (2, Some(0.05), Some(1.55)));
    assert_eq!(w.one_token_per_event, Some(false));
    assert!(on_screen(&run).contains("gap (chunks)"));

    let mut names: Vec<(&str, &str)> = ids::ALL.iter().map(|(metric, column, _)| (*metric, *column)).collect();
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all, "one definition each");
    for (metric, column, _) in w.metrics.columns() {
        assert!(run.definitions[metric].contains_key(column), "{metric} {column}");
    }
}

/// Millions of tokens/s, from a span that was nearly nothing.
#[test]
fn a_reply_in_one_read_has_no_rate_and_is_counted() {
    let mut rows: Vec<Row> = (0..4).map(|id| request(id, id * 100 * MS)).collect();
    for row in &mut rows[2..] {
        let (at, seen) = (row.first_token, row.chunks[0].0);
        row.chunks.iter_mut().for_each(|c| *c = crate::rundir::row::Chunk(seen, c.1, c.2, c.3, 0, 0, seen, 0));
        (row.last_token, row.done, row.end) = (at, at, at);
    }
    let run = summary(rows, 1, 1_000 * MS);
    let w = only(&run);
    let n = |d: &Option<Distribution>| d.as_ref().map(|d| d.n);
    assert_eq!(
        (n(&w.metrics.e2e.gross), n(&w.metrics.tpot.gross), n(&w.metrics.gap.gross)),
        (Some(4), Some(2), Some(4))
    );
    assert_eq!(n(&w.metrics.stall.gross), Some(2));
    assert_eq!(w.coalesced_share, Some(0.5));
    assert!(w.metrics.tpot.gross.as_ref().unwrap().min_ms > Some(1.0));
    // 12 tokens in a second are 12 tokens/s
    assert_eq!(w.throughput.whole.output_tokens_per_s, Some(12.0));
    let text = on_screen(&run);
    assert!(text.contains("50 % of token events share a read with another: gap percentiles are withheld"), "{text}");
    let report = markdown::render(&run, &Disclosed::in_memory(&run));
    assert!(report.contains("| tpot | gross | 2 |") && report.contains("| e2e | gross | 4 |"), "{report}");
}

/// "Completed", with the lengths that were asked for as output.
#[test]
fn replies_without_tokens_have_no_output() {
    let empty = |id: u64| {
        let mut row = without_token(request(id, id * 3 * MS));
        (row.asked_output_tokens, row.events) = (1_000, 2);
        row
    };
    let run = summary((0..300).map(empty).collect(), 1, 1_000 * MS);
    let w = only(&run);
    assert_eq!((w.requests.kept, w.requests.ok, w.requests.failed), (300, 0, 300));
    assert_eq!((w.tokens.completion, w.throughput.whole.output_tokens_per_s), (None, Some(0.0)));
    assert_eq!((&w.metrics.ttft.gross, &w.metrics.e2e.gross, &w.metrics.ntpot.gross), (&None, &None, &None));
    assert!(on_screen(&run).contains("300 FAILED"));
}

/// Of a request that waited for a slot: sent `after` its due, its last token seen 500 ms after that.
fn waited(id: u64, due: u64, after: u64) -> Row {
    let mut row = request(id, due + after - 10 * US);
    shift_answer(&mut row, 500 * MS - 8_130 * US);
    (row.due, row.taken) = (due, row.submit);
    row
}

/// Waiting for a slot was left out of the latency. One slot, 500 ms of service, 10/s, eight requests.
#[test]
fn waiting_for_a_slot_counts_from_due() {
    let start = 1_000 * MS;
    let rows: Vec<Row> = (0..8).map(|id| waited(id, start + id * 100 * MS, id * 400 * MS)).collect();
    let columns: Vec<_> = rows.iter().map(definitions::e2e).collect();
    assert!(columns.iter().all(|c| c.gross == Some(500 * MS as i64)), "from the send");
    let from_due: Vec<i64> = columns.iter().filter_map(|c| c.due).collect();
    assert_eq!(from_due.iter().sum::<i64>() / 8, 1_900 * MS as i64);
    assert_eq!(from_due.iter().max(), Some(&(3_300 * MS as i64)));
}

/// Asked load was quietly not offered: of 5/s for 60 s on ten slots with 11 s of service, 60 requests could be sent.
#[test]
fn what_was_due_and_not_sent_is_in_the_counts() {
    let opened = 1_000 * MS;
    let row = |id: u64| {
        let due = opened + id * 200 * MS;
        if id < 60 {
            return waited(id, due, (id / 10) * 9_000 * MS);
        }
        let mut row = without_token(request(id, due));
        row.outcome = Outcome::NotSent;
        row.error = Some(RowError { class: "interrupted".into(), text: "by hand".into() });
        (row.taken, row.submit, row.handed, row.sent, row.wire_out) = (None, None, None, None, None);
        (row.first_byte, row.first_event, row.end, row.conn) = (None, None, None, None);
        row
    };
    let mut bounds = window(0, 0, opened, opened + 67_000 * MS);
    bounds.load =
        Load { model: LoadModel::Open, concurrency: Some(10), rate: Some(5.0), arrivals: None, sessions: None };
    let windows = vec![(bounds, (0..300).map(row).collect())];
    let mut specimen = Specimen { plan: serde_json::json!({}), windows, health: Vec::new(), scrapes: Vec::new() };
    let dir = tempfile::tempdir().unwrap();
    specimen.write(dir.path());
    let run = summarise(dir.path()).unwrap();
    let w = only(&run);
    assert_eq!((w.requests.due, w.requests.sent, w.requests.not_sent), (300, 60, 240));
    assert_eq!(w.requests.not_sent_reasons.get("interrupted"), Some(&240));
    // until the first that was not sent, due at 12 s, 10 went at once and 5 as slots were freed
    assert_eq!((w.offered_rps, w.achieved_rps), (Some(5.0), Some(15.0 / 12.0)));
    let text = on_screen(&run);
    assert!(
        text.contains("240 NOT SENT") && text.contains("300 due") && text.contains("overload: capacity only"),
        "{text}"
    );
}
