use std::path::Path;

use proptest::prelude::*;

use super::slices::Cut;
use super::*;
use crate::analysis::percentiles::PUBLISHED;
use crate::analysis::specimen::{MS, Specimen, US, failed, request, scrape, shift_answer, window};
use crate::analysis::summary::summarise;
use crate::rundir::health::HealthRow;
use crate::rundir::run_json::{Distribution, RunJson};
use crate::rundir::window::{Load, LoadModel};

fn written(specimen: &mut Specimen) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    specimen.write(dir.path());
    dir
}

fn exhibits(mut specimen: Specimen) -> Exhibits {
    Exhibits::of_directory(written(&mut specimen).path()).unwrap()
}

/// One window of `rows` from `opened` to `closed`, in ns.
fn one(opened: u64, closed: u64, rows: Vec<Row>) -> Specimen {
    Specimen {
        plan: serde_json::json!({}),
        windows: vec![(window(0, 0, opened, closed), rows)],
        health: Vec::new(),
        scrapes: Vec::new(),
    }
}

/// Every percentile that `run.json` tells stands in the curves, to the last bit, and the curves are curves.
fn assert_agree(found: &Exhibits, run: &RunJson) -> usize {
    let mut compared = 0;
    let windows = run.cells.iter().flat_map(|cell| cell.windows.iter().map(move |w| (cell.cell, w)));
    for (cell, window) in windows {
        let exhibits = found.window(cell, window.window).unwrap();
        assert_eq!(exhibits.duration_s, window.duration_s);
        let m = &window.metrics;
        let columns: [(&Quantiles, Option<&Distribution>); 11] = [
            (&exhibits.ttft.gross, m.ttft.gross.as_ref()),
            (&exhibits.ttft.tare, m.ttft.tare.as_ref()),
            (&exhibits.ttft.net, m.ttft.net.as_ref()),
            (&exhibits.ttft.due, m.ttft.due.as_ref()),
            (&exhibits.e2e.gross, m.e2e.gross.as_ref()),
            (&exhibits.e2e.tare, m.e2e.tare.as_ref()),
            (&exhibits.e2e.net, m.e2e.net.as_ref()),
            (&exhibits.e2e.due, m.e2e.due.as_ref()),
            (&exhibits.gap.gross, m.gap.gross.as_ref()),
            (&exhibits.gap.tare, m.gap.tare.as_ref()),
            (&exhibits.gap.net, m.gap.net.as_ref()),
        ];
        for (quantiles, told) in columns {
            assert_curve(quantiles);
            assert_eq!(quantiles.n, told.map_or(0, |d| d.n));
            let Some(told) = told else { continue };
            let at = |percentile: f64| quantiles.points.iter().find(|p| p.0 == percentile).map(|p| p.1);
            for p in PUBLISHED {
                if let Some(ms) = told.percentile(p.name) {
                    assert_eq!(at(f64::from(p.per_mille) / 10.0), Some(ms), "{}", p.name);
                    compared += 1;
                }
            }
            for (end, ms) in [(0.0, told.min_ms), (100.0, told.max_ms)] {
                ms.into_iter().for_each(|ms| assert_eq!(at(end), Some(ms)));
            }
        }
        assert_eq!(exhibits.gap.due, Quantiles::default());
    }
    compared
}

fn assert_curve(quantiles: &Quantiles) {
    let points = &quantiles.points;
    assert_eq!(points.is_empty(), quantiles.n == 0);
    assert!(points.len() <= 60, "{} points", points.len());
    assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1), "{points:?}");
    if let (Some(first), Some(last)) = (points.first(), points.last()) {
        assert_eq!((first.0, last.0), (0.0, 100.0));
    }
    let published = PUBLISHED.iter().filter(|p| quantiles.n >= p.smallest_n as u64);
    published.for_each(|p| assert!(points.iter().any(|point| point.0 == f64::from(p.per_mille) / 10.0)));
}

#[test]
fn the_curves_are_those_of_run_json() {
    let mut specimens = [Specimen::two_windows(), Specimen::campaign(), Specimen::long(120, 2_500, |id| id * id * US)];
    let counts = specimens.each_mut().map(|specimen| {
        let dir = written(specimen);
        assert_agree(&Exhibits::of_directory(dir.path()).unwrap(), &summarise(dir.path()).unwrap())
    });
    // the last has one window with enough values for all five percentiles in all eleven columns
    assert!(counts.iter().all(|n| *n > 40) && counts[2] == 55, "{counts:?}");
}

#[test]
fn a_curve_has_more_points_the_nearer_to_the_end() {
    let of = |n: i64| quantiles::of((0..n).rev().map(|ms| ms * 1_000_000).collect());
    let percentiles = |n: i64| of(n).points.iter().map(|p| p.0).collect::<Vec<_>>();
    assert_eq!(of(0), Quantiles::default());
    assert_eq!(of(1), Quantiles { n: 1, points: vec![(0.0, 0.0), (50.0, 0.0), (100.0, 0.0)] });
    assert_eq!(percentiles(4), [0.0, 12.5, 25.0, 37.5, 50.0, 56.25, 62.5, 68.75, 75.0, 100.0]);
    // type 7 on 0..=1000 ms: the value is the percentile
    let curve = of(1_001);
    assert!(curve.points.iter().all(|(percentile, ms)| (percentile * 10.0 - ms).abs() < 1e-9), "{curve:?}");
    let beyond_90 = curve.points.iter().filter(|p| p.0 > 90.0 && p.0 < 100.0).count();
    assert!(beyond_90 >= 12, "{beyond_90}");
    // as many as one value of a thousand lies beyond the last but one
    assert!(curve.points[curve.points.len() - 2].0 <= 99.9 + 1e-9);
    let most = of(10_000_000);
    assert!(most.points.len() <= 60 && most.points[most.points.len() - 2].0 > 99.999, "{}", most.points.len());
    assert_curve(&most);
}

#[test]
fn a_window_is_cut_into_lengths_that_can_be_read() {
    let cut = |ns: u64| {
        let cut = Cut::of(&window(0, 0, 77, 77 + ns));
        (cut.slices(), cut.length_s())
    };
    let s = 1_000 * MS;
    assert_eq!(cut(310 * MS), (62, 0.005));
    assert_eq!(cut(120 * s), (120, 1.0));
    assert_eq!(cut(120 * s + 1), (61, 2.0));
    assert_eq!(cut(7_200 * s), (120, 60.0));
    assert_eq!(cut(0), (1, 0.0));
    assert_eq!(cut(300), (1, 300e-9));
    // longer than any campaign
    assert_eq!(cut(u64::MAX - 77).0, 120);
    let backwards = Cut::of(&WindowRow { closed: 3, ..window(0, 0, 9, 9) });
    assert_eq!((backwards.slices(), backwards.place(0), backwards.place(u64::MAX)), (1, 0, 0));
}

/// Two requests by hand: 10 ms slices, tokens at 5.025, 6.025 and 8.025 ms after each due.
#[test]
fn slices_by_hand() {
    let mut late = request(1, 1_000 * MS + 6 * MS);
    late.completion_tokens = Some(30);
    late.chunks.iter_mut().for_each(|chunk| chunk.3 = None);
    let warm = Row { phase: Phase::Warmup, ..request(0, 1_000 * MS) };
    let mut lost = failed(request(2, 1_015 * MS), "connect");
    (lost.submit, lost.taken) = (None, Some(1_025 * MS));
    (lost.chunks, lost.first_token, lost.last_token, lost.end) = (Vec::new(), None, None, None);
    let mut specimen = one(1_000 * MS, 2_195 * MS, vec![warm, late, lost]);
    specimen.windows[0].0.drop = 1;
    let window = exhibits(specimen).windows.remove(0);
    assert_eq!((window.slice_s, window.slices.len(), window.opened_s), (0.01, 120, 1.0));
    assert_eq!((window.warmup_until_s, window.duration_s), (Some(10e-6), 1.195));
    let [a, b, c, ..] = window.slices[..] else { panic!("three slices") };
    assert_eq!((a.sent, a.ok, a.failed, b.sent, b.ok, b.failed), (2, 1, 0, 0, 1, 0));
    // it was never submitted: it failed where it was taken up
    assert_eq!((c.sent, c.ok, c.failed), (0, 0, 1));
    // from submit to the end's arrival: 10 us to 8.025 ms, and 6.010 to 14.025 ms
    assert!((a.in_flight - (8.015 + 3.990) / 10.0).abs() < 1e-12, "{a:?}");
    assert!((b.in_flight - 4.025 / 10.0).abs() < 1e-12, "{b:?}");
    // three tokens, one each; thirty over three events of which none, then all came
    assert_eq!((a.output_tokens_per_s, b.output_tokens_per_s), (Some(300.0), Some(3_000.0)));
    assert_eq!(c.output_tokens_per_s, Some(0.0));
    // of the measured one alone
    assert_eq!((a.ttft_gross_p50_ms, a.ttft_gross_max_ms), (Some(5.03), Some(5.03)));
    assert_eq!((a.ttft_net_p50_ms, b.ttft_net_p50_ms, a.lateness_max_ms), (Some(5.0), None, None));
    assert_eq!(window.slices[119].from_s, 1.19);
}

#[test]
fn tokens_that_nobody_told_are_no_rate() {
    let silent = |id: u64, due: u64| {
        let mut row = request(id, due);
        row.completion_tokens = None;
        row.chunks.iter_mut().for_each(|chunk| chunk.3 = None);
        row
    };
    let only = exhibits(one(0, 1_200 * MS, vec![silent(0, 0)]));
    assert!(only.windows[0].slices.iter().all(|s| s.output_tokens_per_s.is_none()));
    // beside one that told them, only where all that came is of the silent one
    let beside = exhibits(one(0, 1_200 * MS, vec![silent(0, 0), request(1, 20 * MS), silent(2, 20 * MS)]));
    let rates: Vec<_> = beside.windows[0].slices.iter().map(|s| s.output_tokens_per_s).collect();
    assert_eq!((rates[0], rates[1], rates[2]), (None, Some(0.0), Some(300.0)));
}

#[test]
fn lateness_is_that_of_run_json() {
    for cap in [None, Some(1), Some(3)] {
        let mut specimen = Specimen::campaign();
        for (bounds, rows) in &mut specimen.windows {
            bounds.load =
                Load { model: LoadModel::Open, concurrency: cap, rate: Some(100.0), arrivals: None, sessions: None };
            bounds.schedule_hash = Some("s".into());
            for row in rows.iter_mut() {
                row.due = row.due.saturating_sub(row.trace_id % 7 * 300 * US);
            }
        }
        let dir = written(&mut specimen);
        let (found, run) = (Exhibits::of_directory(dir.path()).unwrap(), summarise(dir.path()).unwrap());
        for (exhibits, window) in found.windows.iter().zip(&run.cells[0].windows) {
            let largest = exhibits.slices.iter().filter_map(|s| s.lateness_max_ms).reduce(f64::max);
            let told = window.arrivals.as_ref().and_then(|a| a.lateness_ms.as_ref()).map(|spread| spread.max);
            assert!(told.is_some());
            assert_eq!(largest, told, "cap {cap:?}");
        }
    }
}

#[test]
fn an_answer_to_a_reply_is_in_no_lateness() {
    let mut specimen = Specimen::sessions(None, 40);
    for row in specimen.windows.iter_mut().flat_map(|(_, rows)| rows) {
        if row.session.as_ref().is_some_and(|turn| turn.turn > 0) {
            row.submit = row.submit.map(|t| t + 3 * MS);
        }
    }
    let dir = written(&mut specimen);
    let found = Exhibits::of_directory(dir.path()).unwrap();
    let largest = found.windows[0].slices.iter().filter_map(|s| s.lateness_max_ms).reduce(f64::max);
    assert_eq!(largest, Some(0.01));
}

#[test]
fn occupancy_is_that_of_run_json() {
    for mut specimen in [Specimen::two_windows(), Specimen::campaign()] {
        let dir = written(&mut specimen);
        let (found, run) = (Exhibits::of_directory(dir.path()).unwrap(), summarise(dir.path()).unwrap());
        for (exhibits, window) in found.windows.iter().zip(&run.cells[0].windows) {
            let mut left = exhibits.duration_s;
            let mut whole = 0.0;
            for slice in &exhibits.slices {
                whole += slice.in_flight * exhibits.slice_s.min(left);
                left -= exhibits.slice_s;
            }
            let mean = whole / exhibits.duration_s;
            assert!(window.in_flight.mean.is_some_and(|told| (told - mean).abs() < 1e-9), "{mean}");
        }
    }
}

#[test]
fn gaps_land_where_they_ended() {
    let mut row = request(0, 0);
    // 1 ms, and 60 ms into the seventh slice of 10 ms
    (row.chunks[2].0, row.chunks[2].1) = (66_040 * US, Some(66_025 * US));
    let window = exhibits(one(0, 1_200 * MS, vec![row])).windows.remove(0);
    let map = &window.gap_map;
    assert_eq!((map.floor_ms, map.ceiling_ms, map.columns.len()), (1.0, 60.0, 120));
    assert!(map.columns.iter().all(|column| column.len() == GAP_ROWS));
    assert_eq!((map.columns[0][0], map.columns[6][GAP_ROWS - 1]), (1, 1));
    assert_eq!(map.columns.iter().flatten().sum::<u64>(), 2);
    // all alike: a landscape of a factor four, the gaps on top
    let alike = exhibits(one(
        0,
        1_200 * MS,
        vec![{
            let mut row = request(0, 0);
            (row.chunks[2].0, row.chunks[2].1) = (7_040 * US, Some(7_025 * US));
            row
        }],
    ));
    let map = &alike.windows[0].gap_map;
    assert_eq!((map.floor_ms, map.ceiling_ms, map.columns[0][GAP_ROWS - 1]), (0.25, 1.0, 2));
    // reaped together: no time apart
    let together = exhibits(one(
        0,
        1_200 * MS,
        vec![{
            let mut row = request(0, 0);
            row.chunks.iter_mut().for_each(|chunk| chunk.0 = 9 * MS);
            row
        }],
    ));
    let map = &together.windows[0].gap_map;
    assert_eq!((map.floor_ms, map.ceiling_ms, map.columns[0][0]), (0.000_25, 0.001, 2));
    let none = exhibits(one(0, 1_200 * MS, Vec::new()));
    assert_eq!(none.windows[0].gap_map, GapMap::default());
}

/// One long gap among a thousand does not press the others into one row, nor does a very short one.
#[test]
fn rows_of_the_map_are_equal_in_the_logarithm() {
    let mut gaps = Gaps::default();
    (0..1_000).for_each(|i| gaps.push(0, 9_000_000 + i * 2_000));
    gaps.push(0, 3);
    gaps.push(0, 900_000_000);
    let map = gaps.finish(&Cut::of(&window(0, 0, 0, MS)));
    assert!(map.floor_ms > 9.0 && map.floor_ms < 9.1 && map.ceiling_ms == 900.0, "{map:?}");
    let column = &map.columns[0];
    assert!(column[0] >= 1 && column[GAP_ROWS - 1] == 1 && column.iter().sum::<u64>() == 1_002, "{column:?}");
    let row = |ms: f64| ((ms / map.floor_ms).ln() / (map.ceiling_ms / map.floor_ms).ln() * 24.0).floor() as usize;
    assert_eq!(column[row(10.998) + 1..GAP_ROWS - 1].iter().sum::<u64>(), 0);
}

#[test]
fn the_client_second_by_second() {
    let seconds = |length: u64, spin: bool| {
        let mut specimen = Specimen::calm(length);
        specimen.use_up("worker-0", (20, 21), 400 * MS, |row| Some(&mut row.cpu_ns));
        specimen.use_up("worker-0", (21, 22), 900 * MS, |row| row.busy_ns.as_mut());
        specimen.use_up("worker-0", (40, 41), 70 * MS, |row| row.run_delay_ns.as_mut());
        specimen.use_up("worker-0", (60, 61), 30 * MS, |row| row.steal_ns.as_mut());
        // one more just after the opening and one just before the close, too near to the others for a share
        for t in [1_005 * MS, (1 + length) * 1_000 * MS - 3 * MS] {
            let before = specimen.health.iter().rfind(|row| row.t <= t && row.thread == "worker-0").cloned();
            specimen.health.push(HealthRow { t, ..before.unwrap() });
        }
        specimen.windows[0].0.spin = spin;
        exhibits(specimen).windows.remove(0)
    };
    let window = seconds(100, false);
    let ends: Vec<f64> = window.client.iter().map(|c| c.at_s).collect();
    assert_eq!(ends, (1..=100).map(f64::from).collect::<Vec<_>>());
    assert_eq!((window.client[20].cpu_per_wall, window.client[21].cpu_per_wall), (Some(0.4), Some(0.0)));
    assert_eq!((window.client[21].busy, window.client[40].run_queue), (Some(0.9), Some(0.07)));
    assert_eq!((window.client[60].steal, window.client[61].steal), (Some(0.03), Some(0.0)));
    // 150 s in slices of 2 s: of two samples the larger figures
    let longer = seconds(150, false);
    assert_eq!((longer.slice_s, longer.slices.len(), longer.client.len()), (2.0, 75, 75));
    let both = &longer.client[10];
    assert_eq!((both.at_s, both.cpu_per_wall, both.busy, both.worker), (22.0, Some(0.4), Some(0.9), 0));
    // of a worker that spins the busy time
    let spinning = seconds(100, true);
    assert!(spinning.client.iter().all(|c| c.cpu_per_wall == c.busy && c.busy.is_some()));
    assert_eq!(spinning.client[21].cpu_per_wall, Some(0.9));
    // a window shorter than the samples' distance has one share, of one tick of steal nothing
    let short = exhibits(Specimen::two_windows()).windows.remove(0);
    assert_eq!((short.client.len(), short.client[0].steal), (1, Some(0.0)));
    assert!(short.client[0].cpu_per_wall.is_some_and(|cpu| (cpu - 0.25).abs() < 0.01), "{:?}", short.client);
    // without a sample before the opening nothing is known
    let mut blind = Specimen::two_windows();
    blind.health.retain(|row| row.t >= blind.windows[0].0.opened);
    assert!(exhibits(blind).windows[0].client.is_empty());
}

#[test]
fn gauges_of_the_server_while_the_window_was_open() {
    let mut specimen = Specimen::two_windows();
    let gauges = |ms: u64, running: f64, kv: f64| {
        scrape(ms * MS, &[("requests_running", running), ("kv_cache_usage", kv), ("generation_tokens", 7.0)])
    };
    specimen.scrapes = vec![
        gauges(99, 9.0, 0.9),
        gauges(100, 1.0, 0.1),
        gauges(101, 4.0, 0.05),
        scrape(150 * MS, &[("generation_tokens", 8.0)]),
        scrape(160 * MS, &[("requests_waiting", 3.0)]),
        gauges(410, 9.0, 0.9),
    ];
    let mut lost = scrape(200 * MS, &[("requests_running", 5.0)]);
    lost.error = Some("HTTP 500".into());
    specimen.scrapes.push(lost);
    let dir = written(&mut specimen);
    let found = Exhibits::of_directory(dir.path()).unwrap();
    // slices of 5 ms: the first two answers are in one
    let expected = [
        ServerSample { at_s: 0.001, running: Some(4.0), waiting: None, kv_cache_usage: Some(0.1) },
        ServerSample { at_s: 0.06, running: None, waiting: Some(3.0), kv_cache_usage: None },
    ];
    assert_eq!(found.windows[0].server, expected);
    assert!(found.windows[1].server.is_empty());
    let run = summarise(dir.path()).unwrap();
    let told = run.cells[0].windows[0].server.as_ref().unwrap();
    assert_eq!((told.running_max, told.waiting_max, told.kv_cache_usage_max), (Some(4.0), Some(3.0), Some(0.1)));
    std::fs::remove_file(dir.path().join("server-metrics.jsonl")).unwrap();
    assert!(Exhibits::of_directory(dir.path()).unwrap().windows[0].server.is_empty());
}

fn cut_short(dir: &Path, file: &str, bytes: usize) {
    let text = std::fs::read(dir.join(file)).unwrap();
    std::fs::write(dir.join(file), &text[..text.len() - bytes]).unwrap();
}

#[test]
fn a_directory_that_breaks_off_is_read_as_far_as_it_goes() {
    let whole = exhibits(Specimen::two_windows());
    // the line of the second window was being written: its rows belong to no window
    let dir = written(&mut Specimen::two_windows());
    cut_short(dir.path(), "windows.jsonl", 5);
    let found = Exhibits::of_directory(dir.path()).unwrap();
    assert_eq!(found.windows[..], whole.windows[..1]);
    // and its last row, and a sample
    cut_short(dir.path(), "requests.jsonl", 9);
    cut_short(dir.path(), "health.jsonl", 9);
    assert_eq!(Exhibits::of_directory(dir.path()).unwrap().windows[..], whole.windows[..1]);
    assert!(!summarise(dir.path()).unwrap().complete, "and so does the summary");
    // with a line that promises more rows than there are: what is there
    let dir = written(&mut Specimen::two_windows());
    cut_short(dir.path(), "requests.jsonl", 9);
    let found = Exhibits::of_directory(dir.path()).unwrap();
    assert_eq!(found.windows[0], whole.windows[0]);
    assert_eq!(found.windows[1].slices.iter().map(|s| s.sent).sum::<u64>(), 29);
    // a window without a row
    let mut specimen = Specimen::two_windows();
    specimen.windows[0].1.clear();
    let found = exhibits(specimen);
    assert_eq!((found.windows.len(), found.windows[0].ttft.gross.n), (2, 0));
    assert_eq!(found.windows[1], whole.windows[1]);
}

#[test]
fn a_changed_row_is_named() {
    let dir = written(&mut Specimen::two_windows());
    let path = dir.path().join("requests.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("\"trace_id\":5", "\"trace_id\":6", 1)).unwrap();
    let found = Exhibits::of_directory(dir.path()).unwrap_err().to_string();
    assert!(found.starts_with("requests.jsonl:6: "), "{found}");
}

/// Of a run whose boxes refuse it nothing is read: its rows may not be readable.
#[test]
fn a_refused_run_has_a_page_without_pictures() {
    use crate::disclosure::directory::Disclosed;
    let dir = written(&mut Specimen::two_windows());
    let run = summarise(dir.path()).unwrap();
    std::fs::write(dir.path().join("run.json"), crate::analysis::summary::to_json(&run).unwrap()).unwrap();
    let path = dir.path().join("requests.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("\"trace_id\":5", "\"trace_id\":6", 1)).unwrap();
    let (run, disclosed) = Disclosed::of_directory(dir.path()).unwrap();
    assert!(disclosed.boxes.refusal().is_some());
    assert!(crate::report::html::of_directory(dir.path(), &run, &disclosed).is_ok());
}

/// What happened to a request: due (us after the opening), how long its answer took (us), what became of it.
type Fate = (u64, u64, u8);

fn row_of(trace_id: u64, opened: u64, (due, took, fate): Fate) -> Row {
    let mut row = request(trace_id, opened + due * US);
    shift_answer(&mut row, took * US);
    // a gap of its own, within the answer
    let longer = took / 3 * US;
    let last = &mut row.chunks[2];
    (last.0, last.1, last.2) = (last.0 + longer, last.1.map(|t| t + longer), last.2.map(|t| t + longer));
    let last = Some(definitions::event(last));
    (row.last_token, row.done, row.end) = (last, last, last);
    row.chunks[1].4 = if fate.is_multiple_of(5) { 0 } else { 1 };
    match fate % 9 {
        0 => row = failed(row, "timeout"),
        1 => {
            row = failed(row, "connect");
            (row.submit, row.end, row.first_token, row.last_token) = (None, None, None, None);
            row.chunks.clear();
        }
        2 => (row.outcome, row.end, row.done) = (Outcome::Censored, None, None),
        3 => (row.outcome, row.submit, row.taken) = (Outcome::NotSent, None, None),
        4 => row.phase = Phase::Warmup,
        5 => row.completion_tokens = None,
        6 => row.chunks.iter_mut().for_each(|chunk| chunk.3 = None),
        _ => {}
    }
    row
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// What is in the slices is what is in the rows, every gap lands in the map, curves ascend, and the order in which
    /// rows stand in the file changes no bit.
    #[test]
    fn nothing_is_lost_or_doubled(
        opened in 0_u64..5_000_000,
        length in 0_u64..3_000_000,
        fates in prop::collection::vec((0_u64..3_000_000, 0_u64..400_000, 0_u8..45), 0..60),
        turn in 0_usize..60,
    ) {
        let opened = opened * US;
        let rows: Vec<Row> = fates.iter().enumerate().map(|(id, fate)| row_of(id as u64, opened, *fate)).collect();
        let found = exhibits(one(opened, opened + length * US, rows.clone()));
        let window = &found.windows[0];
        prop_assert!(!window.slices.is_empty() && window.slices.len() <= MOST_SLICES);
        let sum = |of: fn(&Slice) -> u64| window.slices.iter().map(of).sum::<u64>();
        let count = |is: &dyn Fn(&Row) -> bool| rows.iter().filter(|row| is(row)).count() as u64;
        prop_assert_eq!(sum(|s| s.sent), count(&|row| row.submit.is_some()));
        prop_assert_eq!(sum(|s| s.ok), count(&|row| row.outcome == Outcome::Ok));
        prop_assert_eq!(sum(|s| s.failed), count(&|row| row.outcome == Outcome::Failed));
        let kept = || rows.iter().filter(|row| row.outcome == Outcome::Ok && row.phase == Phase::Measured);
        let gaps = kept().flat_map(definitions::gaps).count() as u64;
        prop_assert_eq!(window.gap.gross.n, gaps);
        prop_assert_eq!(window.gap_map.columns.iter().flatten().sum::<u64>(), gaps);
        prop_assert_eq!(window.gap_map.columns.len(), if gaps > 0 { window.slices.len() } else { 0 });
        prop_assert!(gaps == 0 || window.gap_map.floor_ms * 4.0 <= window.gap_map.ceiling_ms);
        prop_assert_eq!(window.ttft.gross.n, kept().count() as u64);
        for spread in [&window.ttft, &window.e2e, &window.gap] {
            [&spread.gross, &spread.tare, &spread.net, &spread.due].into_iter().for_each(assert_curve);
        }
        if length > 0 {
            let told = |row: &&Row| row.outcome != Outcome::NotSent && row.completion_tokens.is_some();
            let tokens: u64 = rows.iter().filter(told).map(|row| 3.min(row.chunks.len() as u64 * 3)).sum();
            let per_event = |row: &&Row| {
                row.outcome != Outcome::NotSent && row.completion_tokens.is_none() && !row.chunks.is_empty()
                    && row.chunks.iter().all(|chunk| chunk.3.is_some())
            };
            let tokens = tokens + rows.iter().filter(per_event).map(|row| row.chunks.len() as u64).sum::<u64>();
            let ends = window.slices.iter().skip(1).map(|s| s.from_s).chain([window.duration_s]);
            let whole = window.slices.iter().zip(ends).map(|(s, to)| s.output_tokens_per_s.unwrap_or(0.0) * (to - s.from_s));
            let whole = whole.sum::<f64>();
            prop_assert!((whole - tokens as f64).abs() < 1e-6 * (1.0 + whole), "{} and {}", whole, tokens);
        }
        let mut turned = rows;
        if !turned.is_empty() {
            let by = turn % turned.len();
            turned.rotate_left(by);
            turned.reverse();
        }
        prop_assert_eq!(found, exhibits(one(opened, opened + length * US, turned)));
    }

    #[test]
    fn any_values_make_a_curve(mut values in prop::collection::vec(any::<i64>(), 0..300), large in any::<bool>()) {
        if !large {
            values.iter_mut().for_each(|ns| *ns %= 50_000_000);
        }
        let curve = quantiles::of(values.clone());
        assert_curve(&curve);
        values.reverse();
        prop_assert_eq!(curve, quantiles::of(values));
    }

    /// Whatever bounds a file tells, every moment has a slice, and slices follow each other.
    #[test]
    fn any_bounds_have_slices(opened in any::<u64>(), closed in any::<u64>(), t in any::<u64>()) {
        let bounds = WindowRow { opened, closed, ..window(0, 0, 0, 0) };
        let cut = Cut::of(&bounds);
        prop_assert!(cut.slices() >= 1 && cut.slices() <= MOST_SLICES && cut.place(t) < cut.slices());
        let slices = Course::new(cut).finish(&bounds);
        prop_assert_eq!(slices.len(), cut.slices());
        prop_assert!(slices.windows(2).all(|pair| pair[0].from_s <= pair[1].from_s));
    }
}
