use super::*;
use crate::analysis::definitions::curve;
use crate::analysis::specimen::{MS, Specimen, US, failed, request, sample, window};
use crate::rundir::row::{Outcome, Phase, Row};
use crate::rundir::run_json::InFlight;
use crate::rundir::window::LoadModel;

fn summary_of(mut specimen: Specimen) -> RunJson {
    let dir = tempfile::tempdir().unwrap();
    specimen.write(dir.path());
    summarise(dir.path()).unwrap()
}

fn one_window(rows: Vec<Row>) -> Specimen {
    let closed = 1_000 * MS;
    let windows = vec![(window(0, 0, 0, closed), rows)];
    Specimen { plan: serde_json::json!({}), windows, health: Vec::new(), scrapes: Vec::new() }
}

fn kinds(window: &Window) -> Vec<(String, String, VerdictKind)> {
    window.verdicts.iter().map(|v| (v.metric.clone(), v.column.clone(), v.kind)).collect()
}

#[test]
fn counts_of_two_windows() {
    let run = summary_of(Specimen::two_windows());
    assert!(run.complete);
    assert_eq!(run.labels, ["LOOPBACK", "ONE USER ONLY", "ONE LOAD ONLY", "UNIFORM LENGTHS", "SHORT"]);
    let r = &run.cells[0].windows[1].requests;
    assert_eq!((r.due, r.sent, r.dropped, r.kept, r.ok, r.failed), (30, 30, 2, 28, 27, 1));
    assert_eq!(r.by_error.get("transport"), Some(&1));
    // 1 of 28 failed, and 1 % is allowed
    assert!(run.verdicts.iter().any(|v| v.kind == "failed" && v.window == Some(0)));
}

#[test]
fn a_window_that_used_up_its_numbers_says_so() {
    let run = summary_of(Specimen::two_windows());
    let mut cell = run.cells[0].clone();
    let said = |cell: &Cell, asked_s: f64| {
        let found = window_verdicts(cell, asked_s);
        found.into_iter().filter(|v| v.kind == "used_up").map(|v| (v.window, v.text)).collect::<Vec<_>>()
    };
    assert_eq!(said(&cell, 60.0), [], "it was short, and not for that");
    cell.windows[1].requests.due = (1 << 24) - 2;
    assert_eq!(said(&cell, 0.1), [], "it lasted as long as asked");
    let found = said(&cell, 60.0);
    assert_eq!(found[0].0, Some(1));
    assert!(found[0].1.contains("of the 60 s asked for: its 16777214 requests are all"), "{found:?}");
    cell.windows[1].interrupted = true;
    assert_eq!(said(&cell, 60.0), []);
}

#[test]
fn figures_of_the_first_window_by_hand() {
    let run = summary_of(Specimen::two_windows());
    let w = &run.cells[0].windows[0];
    let ttft =
        |d: &Option<crate::rundir::run_json::Distribution>| d.as_ref().map(|d| (d.n, d.p50_ms, d.p95_ms, d.p99_ms));
    assert_eq!(ttft(&w.metrics.ttft.gross), Some((27, Some(5.03), Some(5.03), None)));
    assert_eq!(ttft(&w.metrics.ttft.tare), Some((27, Some(0.025), Some(0.025), None)));
    assert_eq!(ttft(&w.metrics.ttft.net), Some((27, Some(5.0), Some(5.0), None)));
    // gaps 1.0 and 2.1 ms, 27 of each
    let gap = w.metrics.gap.gross.as_ref().unwrap();
    assert_eq!((gap.n, gap.p50_ms, gap.mean_ms, gap.max_ms), (54, Some(1.55), Some(1.55), Some(2.1)));
    assert_eq!(w.metrics.lateness.as_ref().unwrap().p50_ms, Some(0.01));
    assert_eq!(w.metrics.dispatch_delay, None);
    assert_eq!((w.offered_rps, w.achieved_rps), (None, None));
    assert_eq!((w.by_conn.warm.n, w.by_conn.cold.n, w.by_conn.reopened.n), (27, 0, 0));
    assert_eq!((w.tokens.prompt, w.tokens.completion, w.tokens.cached), (Some(560), Some(81), None));
    assert_eq!(w.first_requests.len(), 10);
    assert_eq!((w.tokens_per_event, w.one_token_per_event), (Some(1.0), Some(true)));
    let classes: Vec<_> = gap.per_class.iter().map(|(name, d)| (name.as_str(), d.n)).collect();
    assert_eq!(classes, [("long", 18), ("short", 36)]);
}

#[test]
fn load_and_throughput_by_hand() {
    let run = summary_of(Specimen::two_windows());
    let w = &run.cells[0].windows[0];
    // 30 requests of 8.015 ms (submit to the last arrival) within 310 ms
    let mean = 30.0 * 8_015_000.0 / 310_000_000.0;
    assert_eq!(w.in_flight, InFlight { mean: Some(mean), p95: Some(1), max: 1, full_share: Some(mean) });
    // from the first submit (10 us) to the last arrival (290 + 8.025 ms): 29 ok, 30 streams, one without a count
    let t = &w.throughput;
    let span = 0.298_015;
    assert_eq!((t.from_s, t.to_s, t.uncounted_requests), (Some(0.00001), Some(0.298025), 0));
    assert!((t.requests_per_s.unwrap() - 29.0 / span).abs() < 1e-9);
    assert!((t.output_tokens_per_s.unwrap() - 88.0 / span).abs() < 1e-9);
    assert!((t.total_tokens_per_s.unwrap() - (88.0 + 600.0) / span).abs() < 1e-9);
    assert!((t.whole.output_tokens_per_s.unwrap() - 88.0 / 0.31).abs() < 1e-9);
}

#[test]
fn client_load_is_a_difference_of_samples() {
    let w = &summary_of(Specimen::two_windows()).cells[0].windows[0];
    // process: from 99 ms (cpu 50) to 411 ms (cpu 206): 156 of 312
    assert_eq!(w.client.cpu_per_wall, Some(0.5));
    let worker = &w.client.workers[0];
    assert_eq!((worker.cpu_per_wall, worker.worst_5s, worker.busy), (Some(0.25), Some(0.25), Some(0.25)));
    assert_eq!(worker.run_delay_share, Some(0.0025));
    assert_eq!(worker.involuntary_switches, Some(78));
}

#[test]
fn the_worst_five_seconds() {
    let mut specimen = one_window(Vec::new());
    specimen.windows[0].0.closed = 20_000 * MS;
    let mut cpu = 0;
    for second in 0..=20_u64 {
        specimen.health.push(sample("worker-0", second * 1_000 * MS, cpu));
        cpu += if (8..13).contains(&second) { 900 * MS } else { 100 * MS };
    }
    let client = summary_of(specimen).cells[0].windows[0].client.clone();
    assert_eq!((client.workers[0].cpu_per_wall, client.workers[0].worst_5s), (Some(0.3), Some(0.9)));
    assert_eq!(client.cpu_per_wall, None);
}

#[test]
fn a_wide_net_interval_is_withheld_or_printed_as_both() {
    let mut rows: Vec<Row> = (0..20).map(|id| request(id, id * 10 * MS)).collect();
    for row in &mut rows {
        // 5 ms net, from 4.6: both. e2e 8 ms net, from 6: withheld
        row.first_token =
            row.first_token.map(|s| crate::rundir::row::Stamp { arrived_lo: s.arrived.map(|t| t - 400 * US), ..s });
        row.last_token =
            row.last_token.map(|s| crate::rundir::row::Stamp { arrived_lo: s.arrived.map(|t| t - 2 * MS), ..s });
    }
    let w = summary_of(one_window(rows)).cells[0].windows[0].clone();
    let ttft = w.metrics.ttft.net.as_ref().unwrap();
    assert_eq!((ttft.p50_ms, ttft.lo_ms.unwrap().p50, ttft.hi_ms), (Some(5.0), Some(4.6), None));
    let e2e = w.metrics.e2e.net.as_ref().unwrap();
    assert_eq!((e2e.p50_ms, e2e.lo_ms.unwrap().p50, e2e.mean_ms), (None, None, Some(8.0)));
    assert_eq!(w.metrics.e2e.gross.as_ref().unwrap().p50_ms, Some(8.13));
    let found = kinds(&w);
    assert!(found.contains(&("ttft".into(), "net".into(), VerdictKind::Both)));
    assert!(found.contains(&("e2e".into(), "net".into(), VerdictKind::Withheld)));
}

#[test]
fn missing_stamps_withhold_net_beyond_one_percent() {
    for (missing, withheld) in [(1, false), (2, true)] {
        let mut rows: Vec<Row> = (0..100).map(|id| request(id, id * 10 * MS)).collect();
        rows.iter_mut().take(missing).for_each(|row| row.wire_out = None);
        let w = summary_of(one_window(rows)).cells[0].windows[0].clone();
        let net = w.metrics.ttft.net.as_ref().unwrap();
        assert_eq!((net.n, net.p50_ms.is_none()), (100 - missing as u64, withheld));
        assert_eq!(w.metrics.ttft.gross.as_ref().unwrap().p99_ms, Some(5.03));
        assert_eq!(w.verdicts.len(), usize::from(withheld));
    }
}

#[test]
fn coalesced_events_flag_and_withhold_gaps() {
    for (lumped, kind) in
        [(2, None), (3, Some(VerdictKind::Flag)), (22, Some(VerdictKind::Flag)), (23, Some(VerdictKind::Withheld))]
    {
        let mut rows: Vec<Row> = (0..30).map(|id| request(id, id * 10 * MS)).collect();
        // two of a request's three events in one read
        rows.iter_mut().take(lumped).for_each(|row| row.chunks.iter_mut().for_each(|c| c.4 /= 2));
        let w = summary_of(one_window(rows)).cells[0].windows[0].clone();
        assert_eq!(w.coalesced_share, Some(2.0 * lumped as f64 / 90.0));
        assert_eq!(w.verdicts.first().map(|v| v.kind), kind, "{lumped}");
        assert_eq!(w.metrics.gap.gross.unwrap().p50_ms.is_none(), kind == Some(VerdictKind::Withheld));
    }
}

#[test]
fn half_of_the_events_in_shared_reads_withhold_gaps() {
    let mut rows: Vec<Row> = (0..30).map(|id| request(id, id * 10 * MS)).collect();
    rows.iter_mut().for_each(|row| row.chunks[1].4 = 0);
    let w = summary_of(one_window(rows)).cells[0].windows[0].clone();
    assert_eq!(kinds(&w), [("gap".into(), "*".into(), VerdictKind::Withheld)]);
    let (gross, net) = (w.metrics.gap.gross.unwrap(), w.metrics.gap.net.unwrap());
    assert_eq!((gross.n, gross.p50_ms, net.p50_ms, net.lo_ms.unwrap().p50), (30, None, None, None));
    assert_eq!(w.metrics.gap.tare.unwrap().p50_ms, Some(0.1), "tare is never void");
}

#[test]
fn without_kernel_stamps_there_is_no_net() {
    let mut rows: Vec<Row> = (0..5).map(|id| request(id, id * 10 * MS)).collect();
    for row in &mut rows {
        row.stamps = crate::rundir::row::StampSource::User;
        row.wire_out = None;
    }
    let w = summary_of(one_window(rows)).cells[0].windows[0].clone();
    assert_eq!((&w.metrics.ttft.net, &w.metrics.upload), (&None, &None));
    assert_eq!(kinds(&w), [("*".into(), "net".into(), VerdictKind::Withheld)]);
}

#[test]
fn censored_requests_give_a_lower_bound() {
    let mut rows: Vec<Row> = (0..20).map(|id| request(id, id * 10 * MS)).collect();
    let cut = &mut rows[19];
    (cut.outcome, cut.end, cut.done, cut.finish_reason) = (Outcome::Censored, None, None, None);
    let timed_out = failed(request(20, 500 * MS), "timeout");
    rows.push(timed_out);
    let w = summary_of(one_window(rows)).cells[0].windows[0].clone();
    assert_eq!((w.requests.ok, w.requests.censored, w.requests.failed), (19, 1, 1));
    let bounds = |metric: &str| -> Vec<_> {
        w.verdicts
            .iter()
            .filter(|v| v.metric == metric)
            .map(|v| (v.percentile.clone().unwrap(), v.figure.unwrap()))
            .collect()
    };
    // 19 of 8.13 ms, one waited for 8.015 ms, one for 1,000 - 190.01 = 809.99 ms
    assert_eq!(bounds("e2e"), [("p50".into(), 8.13), ("p90".into(), 8.13), ("p95".into(), 8.13)]);
    assert_eq!(bounds("ttft")[0], ("p50".into(), 5.03));
    assert_eq!(w.metrics.e2e.gross.as_ref().unwrap().n, 19);
}

/// 2 % time out: percentiles say that they are of the completed ones, and bounds stand beside, in an open loop from due
/// as well.
#[test]
fn two_in_a_hundred_time_out() {
    for model in [LoadModel::Closed, LoadModel::Open] {
        let mut rows: Vec<Row> = (0..200).map(|id| request(id, id * 4 * MS)).collect();
        for row in &mut rows[196..] {
            *row = failed(row.clone(), "timeout");
            let gave_up = crate::analysis::specimen::stamp(row.due + 500 * MS, 0);
            (row.first_token, row.first_answer, row.last_token, row.chunks) = (None, None, None, Vec::new());
            row.end = Some(gave_up);
        }
        let mut specimen = one_window(rows);
        specimen.windows[0].0.closed = 2_000 * MS;
        specimen.windows[0].0.load.model = model;
        let run = summary_of(specimen);
        let w = &run.cells[0].windows[0];
        assert_eq!((w.requests.ok, w.requests.failed, w.requests.censored), (196, 4, 0), "they stay failed");
        assert_eq!(w.metrics.ttft.gross.as_ref().unwrap().p99_ms, Some(5.03));
        let told = w.verdicts.iter().find(|v| (v.metric.as_str(), v.column.as_str()) == ("*", "*")).unwrap();
        let expected = "2.0 % of kept requests timed out or were cut off: latency percentiles and their intervals are of \
                        completed requests, lower bounds stand beside";
        assert_eq!(told.text, expected);
        let bound = |metric: &str, column: &str| {
            let found = w
                .verdicts
                .iter()
                .find(|v| v.metric == metric && v.column == column && v.percentile.as_deref() == Some("p99"));
            found.and_then(|v| v.figure)
        };
        // submitted 10 us after due
        assert_eq!((bound("ttft", "gross"), bound("e2e", "gross")), (Some(499.99), Some(499.99)));
        let due = (model == LoadModel::Open).then_some(500.0);
        assert_eq!((bound("ttft", "due"), bound("e2e", "due")), (due, due));
        let text = crate::report::terminal::render(&run, 100, false);
        assert!(text.contains("their intervals are of"), "{text}");
        assert!(
            text.contains("ttft, with those counted as long as they were waited for: at least p99 500.0 ms"),
            "{text}"
        );
        assert_eq!(text.contains("ttft from due, with those"), model == LoadModel::Open, "{text}");
    }
}

#[test]
fn intervals_by_hand() {
    // gross ttft 5.03, 6.03, .. 304.03 ms: 300 of them
    let mut rows: Vec<Row> = (0..300).map(|id| request(id, id * 3 * MS)).collect();
    rows.iter_mut().for_each(|row| crate::analysis::specimen::shift_answer(row, row.trace_id * MS));
    let w = summary_of(one_window(rows)).cells[0].windows[0].clone();
    let gross = w.metrics.ttft.gross.as_ref().unwrap();
    let ci = |name: &str| gross.ci_ms.get(name).copied();
    // the 133rd and the 168th, the 259th and the 281st, the 277th and the 293rd
    assert_eq!([ci("p50"), ci("p90")], [Some([137.03, 172.03]), Some([263.03, 285.03])]);
    assert_eq!([ci("p95"), ci("p99"), ci("p999")], [Some([281.03, 297.03]), None, None]);
    assert_eq!(w.metrics.ttft.net.as_ref().unwrap().ci_ms["p50"], [137.0, 172.0]);
    assert_eq!(w.metrics.ttft.tare.as_ref().unwrap().ci_ms["p50"], [0.025, 0.025]);
    // 100 of them: the 40th and the 61st; ids 0, 3, 6, ..
    assert_eq!(gross.per_class["long"].ci_ms["p50"], [5.03 + 3.0 * 39.0, 5.03 + 3.0 * 60.0]);
    assert_eq!(w.by_conn.warm.ttft.gross.as_ref().unwrap().ci_ms.len(), 3);
    assert_eq!(w.by_conn.cold.ttft.gross.as_ref().unwrap().ci_ms.len(), 0, "one request");
    assert_eq!(w.metrics.lateness.as_ref().unwrap().ci_ms["p95"], [0.01, 0.01]);
    assert_eq!(w.metrics.ttft.due.as_ref().unwrap().ci_ms["p50"], [137.04, 172.04]);
}

/// A hundred gaps in each of sixty requests, the same within a request: as many facts as requests, not as gaps.
#[test]
fn gaps_of_one_request_count_once() {
    let steady = |id: u64| {
        let mut row = request(id, id * 10 * MS);
        let (first, pause) = (row.chunks[0], (1 + id) * 10 * US);
        row.chunks = (0..101_u32)
            .map(|i| {
                let t = u64::from(i) * pause;
                let arrived = first.1.map(|at| at + t);
                crate::rundir::row::Chunk(first.0 + t, arrived, arrived, Some(1), i, 0, first.0 + t, 0)
            })
            .collect();
        row.class = "one".into();
        row
    };
    let w = summary_of(one_window((0..60).map(steady).collect())).cells[0].windows[0].clone();
    let gap = w.metrics.gap.gross.as_ref().unwrap();
    assert_eq!((gap.n, gap.p50_ms), (6_000, Some(0.305)));
    let [lo, hi] = gap.ci_ms["p50"];
    // 6,000 independent gaps would claim 0.30..0.31; a replicate of 60 requests is off by sqrt(60) / 2 of them, 10 us each
    assert!(lo <= 0.25 && hi >= 0.36, "{lo} {hi}");
    assert_eq!(gap.ci_ms.keys().collect::<Vec<_>>(), ["p50"], "six requests decide p90");
    assert_eq!(gap.per_class["one"].ci_ms, gap.ci_ms);
    assert_eq!(w.metrics.gap.net.as_ref().unwrap().ci_ms["p50"], [lo, hi]);
}

#[test]
fn what_is_withheld_has_no_interval() {
    let mut rows: Vec<Row> = (0..100).map(|id| request(id, id * 10 * MS)).collect();
    for row in &mut rows {
        row.last_token =
            row.last_token.map(|s| crate::rundir::row::Stamp { arrived_lo: s.arrived.map(|t| t - 2 * MS), ..s });
        row.chunks[1].4 = 0;
    }
    let w = summary_of(one_window(rows)).cells[0].windows[0].clone();
    let empty = |d: &Option<crate::rundir::run_json::Distribution>| d.as_ref().is_some_and(|d| d.ci_ms.is_empty());
    assert!(empty(&w.metrics.e2e.net) && empty(&w.metrics.gap.gross) && empty(&w.metrics.gap.net));
    assert!(!empty(&w.metrics.e2e.gross) && !empty(&w.metrics.ttft.net));
}

/// Three loads of a closed loop whose time to first token is `ms` each time, `n` requests.
fn three_loads(ms: [f64; 3], n: u64) -> Specimen {
    let mut specimen = one_window(Vec::new());
    specimen.windows.clear();
    // the order in which they were asked is not that of the loads
    for (cell, (concurrency, ms)) in [(8, ms[1]), (1, ms[0]), (50, ms[2])].into_iter().enumerate() {
        let opened = 1_000_000 * MS * cell as u64;
        let mut rows: Vec<Row> = (0..n).map(|id| request(id, opened + id * 2_000 * MS)).collect();
        for row in &mut rows {
            row.cell = cell as u32;
            crate::analysis::specimen::shift_answer(row, (ms * 1e6) as u64 - 5_030 * US);
        }
        let mut bounds = window(cell as u32, 0, opened, opened + 1_000_000 * MS);
        bounds.load.concurrency = Some(concurrency);
        specimen.windows.push((bounds, rows));
    }
    specimen
}

#[test]
fn the_published_curve_is_not_monotone() {
    let run = summary_of(three_loads([822.3, 631.5, 1_305.6], 300));
    let curve = |column: &str, p: &str| {
        let of = |c: &&crate::rundir::run_json::Curve| c.metric == "ttft" && c.column == column && c.percentile == p;
        run.curves.iter().find(of).cloned()
    };
    let p99 = curve("gross", "p99").unwrap();
    assert_eq!((p99.loads, p99.ms), (vec![1.0, 8.0, 50.0], vec![822.3, 631.5, 1_305.6]));
    assert_eq!((p99.shape, p99.intervals_overlap, p99.window), (curve::Shape::NonMonotone, None, 0));
    let told = "ttft gross p99 over load is not monotone in window 0: 822.3 -> 631.5 -> 1305.6 ms at 1, 8, 50 at once; \
                intervals: none at n = 300, so nothing is said of the cause";
    assert_eq!(p99.text, told);
    // the median has an interval; here it is the figure itself
    let p50 = curve("gross", "p50").unwrap();
    assert_eq!(p50.intervals_overlap, Some(false));
    assert!(p50.text.ends_with("no monotone curve fits through the 95 % intervals"), "{}", p50.text);
    assert!(curve("net", "p95").is_some() && curve("due", "p50").is_none());
    let text = crate::report::terminal::render(&run, 100, false);
    assert!(text.contains("  ! ttft gross p99 over load is not monotone in window 0: 822.3 -> 631.5 ->"), "{text}");
    let markdown = crate::report::markdown::render(&run, &crate::disclosure::directory::Disclosed::in_memory(&run));
    assert!(markdown.contains("## Over load\n\n- ttft gross p50") && markdown.contains(told), "{markdown}");
    let mut within = run;
    within.curves.iter_mut().for_each(|curve| curve.intervals_overlap = Some(true));
    let text = crate::report::terminal::render(&within, 100, false);
    assert!(text.contains("percentiles turn back within their 95 %") && !text.contains("is not monotone"), "{text}");
}

#[test]
fn curves_that_rise_are_told_in_one_line() {
    let run = summary_of(three_loads([202.1, 220.0, 238.4], 120));
    let text = crate::report::terminal::render(&run, 100, false);
    // the gaps are the same at each load
    assert!(text.contains("  over load    no percentile turns back as the load grows (6 rise, 0 fall, 6 stay, of 12)"));
    let p50 = run.curves.iter().find(|c| c.percentile == "p50").unwrap();
    let told = "ttft gross p50 rises with load in window 0: 202.1 -> 220.0 -> 238.4 ms at 1, 8, 50 at once, +18 %";
    assert_eq!(p50.text, told);

    // an open loop's headline is from due; one load alone is no curve
    let mut specimen = three_loads([202.1, 220.0, 238.4], 120);
    for (at, (bounds, _)) in specimen.windows.iter_mut().enumerate() {
        let (concurrency, rate) = (Some(9).filter(|_| at < 2), Some([4.0, 2.5, 1.0][at]));
        bounds.load =
            crate::rundir::window::Load { model: LoadModel::Open, concurrency, rate, arrivals: None, sessions: None };
    }
    let run = summary_of(specimen);
    assert!(run.curves.iter().all(|c| c.at_most == Some(9) && c.loads == [2.5, 4.0]), "the third has no cap");
    assert!(run.curves.iter().any(|c| c.column == "due" && c.text.contains("requests/s with at most 9 at once")));

    // rates that change are no points among those that do not
    let mut specimen = three_loads([202.1, 220.0, 238.4], 120);
    let ramps = "on-off: 1 s on, 2 s off";
    for (at, (bounds, _)) in specimen.windows.iter_mut().enumerate() {
        let (rate, arrivals) = (Some([4.0, 10.0 / 3.0, 1.0][at]), Some(ramps.to_owned()).filter(|_| at < 2));
        bounds.load =
            crate::rundir::window::Load { model: LoadModel::Open, concurrency: None, rate, arrivals, sessions: None };
    }
    let run = summary_of(specimen);
    assert!(run.curves.iter().all(|c| c.arrivals.as_deref() == Some(ramps) && c.loads == [10.0 / 3.0, 4.0]));
    assert!(run.curves[0].text.contains("at 3.3333, 4 requests/s (on-off: 1 s on, 2 s off)"), "{}", run.curves[0].text);
    let text = crate::report::terminal::render(&run, 100, false);
    assert!(text.contains("open loop, 3.33 requests/s (on-off: 1 s on, 2 s off) ---"), "{text}");
    let rows: Vec<&str> = text.lines().filter(|line| line.contains("/s on-off  ")).collect();
    assert!(rows.len() == 2 && rows[0].len() == rows[1].len(), "as wide as the longest name asks for: {text}");
}

#[test]
fn an_open_loop_offers_what_its_schedule_says() {
    let mut specimen = one_window((0..11).map(|id| request(id, id * 100 * MS)).collect());
    specimen.windows[0].0.load = crate::rundir::window::Load {
        model: LoadModel::Open,
        concurrency: None,
        rate: Some(9.0),
        arrivals: None,
        sessions: None,
    };
    specimen.windows[0].1[5].submit = Some(1_005 * MS);
    let w = summary_of(specimen).cells[0].windows[0].clone();
    assert_eq!((w.offered_rps, w.achieved_rps), (Some(10.0), Some(9.0)));
    assert_eq!((w.throughput.from_s, w.throughput.to_s), (Some(0.0), Some(1.0)));
    assert_eq!(w.in_flight.full_share, None);
}

#[test]
fn counts_that_do_not_close_are_an_error() {
    let mut specimen = Specimen::two_windows();
    specimen.windows[1].1[7].phase = Phase::Warmup;
    let dir = tempfile::tempdir().unwrap();
    specimen.write(dir.path());
    let text = summarise(dir.path()).unwrap_err().to_string();
    assert_eq!(text, "cell 0, window 1: the counts do not close: trace id 7 is Warmup, but 2 are dropped");

    let dir = tempfile::tempdir().unwrap();
    Specimen::two_windows().write(dir.path());
    let path = dir.path().join("windows.jsonl");
    std::fs::write(&path, std::fs::read_to_string(&path).unwrap().replace("\"rows\":30", "\"rows\":31")).unwrap();
    let text = summarise(dir.path()).unwrap_err().to_string();
    assert_eq!(
        text,
        "cell 0, window 0: the counts do not close: rows in requests.jsonl, rows in windows.jsonl: 30, 31"
    );
}

#[test]
fn a_run_that_died_is_summarised_and_said_so() {
    let dir = tempfile::tempdir().unwrap();
    Specimen::two_windows().write(dir.path());
    let windows = std::fs::read_to_string(dir.path().join("windows.jsonl")).unwrap();
    std::fs::write(dir.path().join("windows.jsonl"), windows.lines().next().unwrap().to_string() + "\n").unwrap();
    let requests = std::fs::read_to_string(dir.path().join("requests.jsonl")).unwrap();
    std::fs::write(dir.path().join("requests.jsonl"), &requests[..requests.len() - 40]).unwrap();
    let run = summarise(dir.path()).unwrap();
    assert!(!run.complete);
    let found: Vec<_> = run.verdicts.iter().map(|v| v.text.as_str()).collect();
    assert!(found.iter().any(|t| t.starts_with("29 rows belong to a window that did not close")), "{found:?}");
    assert!(found.iter().any(|t| t.starts_with("requests.jsonl:60: half-written")), "{found:?}");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let dir = tempfile::tempdir().unwrap();
    Specimen::two_windows().write(dir.path());
    std::fs::remove_file(dir.path().join("health.jsonl")).unwrap();
    assert!(summarise(dir.path()).unwrap_err().to_string().contains("health.jsonl"));
}

#[test]
fn the_json_reads_back() {
    let run = summary_of(Specimen::two_windows());
    let text = to_json(&run).unwrap();
    let again: RunJson = serde_json::from_str(&text).unwrap();
    assert_eq!(again.cells[0].windows[0].requests, run.cells[0].windows[0].requests);
    let value = serde_json::to_value(&run).unwrap();
    assert_eq!(to_json(&serde_json::from_value(value).unwrap()).unwrap(), text);
    assert!(
        text.starts_with("{\n  \"schema\": \"tarebench.run/1\",\n  \"tarebench\": \"0.1.0\",\n  \"run_id\": \"r1\"")
    );
}
