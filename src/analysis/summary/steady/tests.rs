use super::*;
use crate::analysis::specimen::{MS, Specimen, window};
use crate::analysis::statistics::simulated::{Draws, Law, at_most};
use crate::analysis::summary::summarise;
use crate::rundir::run_json::Window;

const SECOND: u64 = 1_000 * MS;

fn window_of(mut specimen: Specimen) -> Window {
    let dir = tempfile::tempdir().unwrap();
    specimen.write(dir.path());
    summarise(dir.path()).unwrap().cells[0].windows[0].clone()
}

/// Between 0 and 2 ms, without a pattern.
fn scatter(id: u64) -> u64 {
    let mixed = (id + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 40 & 0x1F_FFFF
}

fn texts(window: &Window) -> Vec<(&str, &str)> {
    window.verdicts.iter().map(|v| (v.metric.as_str(), v.text.as_str())).collect()
}

#[test]
fn a_steady_window_has_no_flag() {
    let w = window_of(Specimen::long(130, 1_310, scatter));
    let s = &w.steady;
    assert_eq!((s.drift, s.ttft.drift, s.e2e.drift), (Drift::Steady, Drift::Steady, Drift::Steady));
    assert_eq!(texts(&w), []);
    // 1,300 kept in 129 s: the usual 20 slices, each with 65
    let slices = s.ttft.slices.unwrap();
    assert_eq!((s.ttft.n, slices.n, slices.fewest_requests, &s.ttft.reason), (1_300, 20, 65, &None));
    assert!((slices.length_s - 1_299.0 / 1_310.0 * 130.0 / 20.0).abs() < 1e-6, "{slices:?}");
    assert!(s.ttft.change_points.is_empty() && s.ttft.p50.is_some() && s.e2e.p95.is_some());
    assert!(s.ttft.autocorrelation.unwrap().n_eff > 900.0);
    let warm_up = s.ttft.warm_up.unwrap();
    assert_eq!((warm_up.n, warm_up.longer_than_dropped, warm_up.at_limit), (1_310, false, false));
}

#[test]
fn a_window_that_gets_slower_is_drifting() {
    // 5 ms, and 13 us more each second: by far more than 1 % in 10 minutes
    let w = window_of(Specimen::long(130, 1_310, |id| scatter(id) + id * 1_300));
    let s = &w.steady;
    assert_eq!((s.drift, s.ttft.drift), (Drift::Drifting, Drift::Drifting));
    let p50 = s.ttft.p50.unwrap();
    let expected = 1_300e-6 * 1_310.0 / 130.0 * 600.0;
    assert!((p50.ms_per_10_min / expected - 1.0).abs() < 0.1, "{p50:?} for {expected}");
    let [lo, hi] = p50.ms_per_10_min_ci;
    assert!(lo < expected && expected < hi && lo > 0.0 && p50.p < 1e-5, "{p50:?}");
    let thirds = s.ttft.thirds.unwrap();
    assert!(thirds.ratio.unwrap() > 1.1, "{thirds:?}");
    assert!(
        texts(&w).iter().any(|(m, t)| *m == "ttft" && t.starts_with("drifting: p50 moves by +")),
        "{:?}",
        texts(&w)
    );
    assert!(texts(&w).iter().any(|(m, t)| *m == "e2e" && t.starts_with("drifting: p50 moves by +")));
}

#[test]
fn a_change_of_level_has_its_time() {
    let w = window_of(Specimen::long(130, 1_310, |id| scatter(id) + if id < 655 { 0 } else { 3 * MS }));
    let changes = &w.steady.ttft.change_points;
    assert_eq!(changes.len(), 1, "{changes:?}");
    let change = changes[0];
    assert!((change.at_s - 65.0).abs() < 7.0 && (change.after_ms - change.before_ms - 3.0).abs() < 0.3, "{change:?}");
    assert!(texts(&w).iter().any(|(m, t)| *m == "ttft" && t.starts_with("the level changed: p50 ")), "{:?}", texts(&w));
    // levels that are far apart leave few independent requests
    assert!(texts(&w).iter().any(|(_, t)| t.starts_with("intervals assume independent requests")));
}

#[test]
fn too_short_is_not_unstable() {
    let reason = |seconds, requests| {
        let w = window_of(Specimen::long(seconds, requests, |id| scatter(id) + id * MS));
        let s = w.steady;
        assert_eq!(
            (s.drift, s.ttft.slices, s.ttft.p50, s.ttft.change_points.len()),
            (Drift::TooShortToTell, None, None, 0)
        );
        assert!(!w.verdicts.iter().any(|v| v.text.contains("drifting")));
        s.ttft.reason.unwrap()
    };
    assert_eq!(reason(119, 1_000), "119.0 s, needs 120");
    assert_eq!(reason(130, 190), "too few requests for 10 slices of 20");
    // all sent at the beginning of a long window
    let mut specimen = Specimen::long(60, 600, scatter);
    specimen.windows[0].0.closed = 201 * SECOND;
    assert_eq!(window_of(specimen).steady.ttft.reason.unwrap(), "requests of 58.9 of 200.0 s");
}

#[test]
fn fewer_slices_where_requests_are_few() {
    // 240 kept: 20 slices would hold 12, 12 hold 20
    let w = window_of(Specimen::long(130, 250, scatter));
    let slices = w.steady.ttft.slices.unwrap();
    assert_eq!((slices.n, slices.fewest_requests), (12, 20));
}

#[test]
fn slices_are_longer_than_what_requests_remember() {
    // fades over 20 requests: slices of 20 would resemble each other
    let mut draws = Draws::new(Law::Remembering(0.95), 3);
    let course: Vec<u64> = draws.series(1_310).iter().map(|v| (v * 1e4) as u64).collect();
    let w = window_of(Specimen::long(600, 1_310, |id| course[id as usize]));
    let ttft = &w.steady.ttft;
    assert!(ttft.autocorrelation.unwrap().n_eff < 150.0);
    let slices = ttft.slices.unwrap();
    assert!(slices.fewest_requests as f64 >= 2.0 * 15.0 && slices.n < 20, "{slices:?}");
}

/// A backlog that grows, with waves longer than any slice: no room for slices that forget, and still a drift.
#[test]
fn a_growing_backlog_is_drifting() {
    let wave = |id: u64| (id % 400).abs_diff(200) * 5 * MS;
    let w = window_of(Specimen::long(130, 1_310, |id| scatter(id) + wave(id) + id * 7 * MS));
    let ttft = &w.steady.ttft;
    let slices = ttft.slices.unwrap();
    assert!(2.0 * slices.autocorrelation_time > slices.fewest_requests as f64, "{slices:?}");
    assert_eq!((ttft.drift, w.steady.drift), (Drift::Drifting, Drift::Drifting), "{:?}", ttft.p50);
    assert!(ttft.autocorrelation.unwrap().n_eff < 20.0);
}

#[test]
fn a_warm_up_that_outlasts_the_drop_is_flagged() {
    let w = window_of(Specimen::long(30, 310, |id| scatter(id) + if id < 40 { 6 * MS } else { 0 }));
    let warm_up = w.steady.ttft.warm_up.unwrap();
    assert_eq!((warm_up.cut, warm_up.kept_in_cut, warm_up.longer_than_dropped), (40, 30, true));
    assert!(warm_up.before_ms.unwrap() > 11.0 && warm_up.after_ms.unwrap() < 7.0, "{warm_up:?}");
    let told = "warm-up longer than dropped: the first 40 requests (MSER-5), 10 are dropped";
    assert!(texts(&w).iter().any(|(m, t)| *m == "ttft" && t.starts_with(told)), "{:?}", texts(&w));
    // the same beginning, dropped
    let w = window_of(Specimen::long(30, 310, |id| scatter(id) + if id < 10 { 6 * MS } else { 0 }));
    let warm_up = w.steady.ttft.warm_up.unwrap();
    assert_eq!((warm_up.cut, warm_up.kept_in_cut, warm_up.p, warm_up.longer_than_dropped), (10, 0, None, false));
    assert_eq!(texts(&w), []);
}

#[test]
fn few_requests_have_no_figures() {
    let w = window_of(Specimen::long(20, 39, scatter));
    let ttft = &w.steady.ttft;
    assert_eq!((ttft.n, ttft.warm_up, ttft.thirds, ttft.autocorrelation), (29, None, None, None));
    let w = window_of(Specimen::long(20, 60, scatter));
    let ttft = &w.steady.ttft;
    assert!(ttft.warm_up.is_some() && ttft.thirds.is_some() && ttft.autocorrelation.is_some());
}

#[test]
fn where_gross_and_net_are_withheld_so_is_this() {
    let mut specimen = Specimen::long(130, 1_310, |id| scatter(id) + id * 1_300);
    specimen.windows[0].0.counters.reader_waits = 1;
    let w = window_of(specimen);
    assert_eq!(w.metrics.ttft.gross.as_ref().unwrap().p50_ms, None, "the gate");
    let s = &w.steady;
    assert_eq!((s.drift, s.ttft.drift, s.ttft.n), (Drift::Withheld, Drift::Withheld, 1_300));
    assert_eq!((s.ttft.warm_up, s.ttft.thirds, s.ttft.autocorrelation, s.ttft.p50), (None, None, None, None));
    assert_eq!(s.ttft.reason.as_deref(), Some("gross and net are withheld"));
    assert!(!w.verdicts.iter().any(|v| v.text.contains("drifting") || v.text.contains("effective")));
}

/// A client that is late by more than gates bear says nothing of gross, and net drifts or does not all the same.
#[test]
fn where_gross_alone_is_withheld_net_is_followed() {
    let late = |drift_ns: u64| {
        let mut specimen = Specimen::long(130, 1_310, |id| scatter(id) + id * drift_ns);
        for row in &mut specimen.windows[0].1 {
            let late = |seen: &mut u64| *seen += 6 * MS;
            row.first_token.iter_mut().for_each(|stamp| late(&mut stamp.seen));
            row.last_token.iter_mut().for_each(|stamp| late(&mut stamp.seen));
            row.chunks.iter_mut().for_each(|chunk| late(&mut chunk.0));
        }
        window_of(specimen)
    };
    let drifting = late(1_300);
    assert_eq!(drifting.metrics.ttft.gross.as_ref().unwrap().p50_ms, None, "the gate");
    let s = &drifting.steady;
    assert_eq!((s.drift, s.ttft.column, s.ttft.n), (Drift::Drifting, Some(Followed::Net), 1_300));
    let flags: Vec<_> = drifting.verdicts.iter().filter(|v| v.text.starts_with("drifting")).collect();
    assert!(!flags.is_empty() && flags.iter().all(|v| v.column == "net"), "{:?}", texts(&drifting));
    assert_eq!(late(0).steady.drift, Drift::Steady);
}

/// The order of the rows is that in which requests ended; only submits count.
#[test]
fn the_order_of_the_rows_changes_nothing() {
    let specimen = || Specimen::long(130, 600, |id| scatter(id) * 3);
    let mut mixed = specimen();
    mixed.windows[0].1.sort_by_key(|row| row.trace_id.wrapping_mul(7_919) % 613);
    assert_eq!(window_of(specimen()).steady, window_of(mixed).steady);
}

/// Points of a law at `per_second`, which drift by `share` of themselves per 10 minutes.
fn course(draws: &mut Draws, seconds: u64, per_second: u64, share: f64) -> (Vec<Point>, WindowRow) {
    let n = seconds * per_second;
    let values = draws.series(n as usize);
    let point = |(i, value): (usize, f64)| {
        let at = i as f64 / per_second as f64;
        let ns = (value * (1.0 + share * at / 600.0) * 1e6) as i64;
        Point::new(SECOND + i as u64 * SECOND / per_second, ns, true)
    };
    (values.into_iter().enumerate().map(point).collect(), window(0, 0, SECOND, (1 + seconds) * SECOND))
}

/// Each percentile is wrong once in a hundred; the metric has two, so at most two in a hundred windows.
#[test]
fn windows_without_a_drift_are_seldom_called_drifting() {
    let runs = 300;
    let laws = [Law::Independent, Law::Mixed, Law::LongTailed, Law::Constant, Law::Remembering(0.9)];
    for (seed, law) in laws.into_iter().enumerate() {
        let mut draws = Draws::new(law, 100 + seed as u64);
        let (mut drifting, mut changed, mut p95_changed, mut warm_up) = (0, 0, 0, 0);
        for _ in 0..runs {
            let (points, bounds) = course(&mut draws, 130, 8, 0.0);
            let found = of(points.clone(), Followed::Gross, &bounds);
            drifting += usize::from(found.drift == Drift::Drifting);
            changed += usize::from(!found.change_points.is_empty());
            p95_changed += usize::from(!found.p95_change_points.is_empty());
            warm_up += usize::from(found.warm_up.is_some_and(|w| w.longer_than_dropped));
        }
        assert!(drifting <= at_most(0.02, runs), "{law:?}: {drifting} of {runs}");
        assert!(changed <= at_most(0.01, runs), "{law:?}: {changed} of {runs}");
        assert!(p95_changed <= at_most(0.01, runs), "{law:?}: p95 {p95_changed} of {runs}");
        assert!(warm_up <= at_most(0.02, runs), "{law:?}: {warm_up} of {runs}");
    }
}

/// 1 % in 10 minutes, log-normal noise of sigma 0.5, 10 requests/s: what length of run shows it.
#[test]
fn a_slow_drift_needs_a_long_run() {
    let found = |seconds: u64| {
        let mut draws = Draws::new(Law::Independent, seconds);
        let hits = (0..20).filter(|_| {
            let (points, bounds) = course(&mut draws, seconds, 10, 0.01);
            of(points.clone(), Followed::Gross, &bounds).drift == Drift::Drifting
        });
        hits.count()
    };
    let hits = [130, 1_800, 7_200].map(found);
    println!("of 20 runs of 130 s, 30 min, 2 h: {hits:?}");
    assert!(hits[0] <= 3 && hits[2] >= 19, "{hits:?}");
}

/// A certain change that is too small to matter.
#[test]
fn a_tenth_of_a_percent_is_no_drift() {
    let mut draws = Draws::new(Law::Constant, 1);
    let (points, bounds) = course(&mut draws, 300, 8, 0.005);
    let found = of(points.clone(), Followed::Gross, &bounds);
    let p50 = found.p50.unwrap();
    assert!(p50.p < 1e-6 && p50.share_per_10_min_ci.unwrap()[0] > 0.004, "{p50:?}");
    assert_eq!((found.drift, p50.drift), (Drift::Steady, Drift::Steady));
    let (points, bounds) = course(&mut draws, 300, 8, 0.011);
    assert_eq!(of(points.clone(), Followed::Gross, &bounds).drift, Drift::Drifting);
    // over an hour the same slope is 3 %
    let (points, bounds) = course(&mut draws, 3_600, 1, 0.005);
    assert_eq!(of(points.clone(), Followed::Gross, &bounds).drift, Drift::Drifting);
}

/// A soak of 20 minutes at 20 requests/s of a server whose times scatter by a fifth: 1 % in 10 minutes is found, and none
/// where there is none.
#[test]
fn a_soak_of_twenty_minutes_shows_one_percent_in_ten() {
    let (runs, seconds, per_second) = (20, 1_200, 20);
    let found = |share: f64| {
        let mut random = 7_u64;
        let mut unit = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut counts = [0; 3];
        for _ in 0..runs {
            let point = |i: u64| {
                let at = i as f64 / per_second as f64;
                let ms = 50.0 * (1.0 + share * at / 600.0) * (0.8 + 0.4 * unit());
                Point::new(SECOND + i * SECOND / per_second, (ms * 1e6) as i64, true)
            };
            let points: Vec<Point> = (0..seconds * per_second).map(point).collect();
            let found = of(points.clone(), Followed::Gross, &window(0, 0, SECOND, (1 + seconds) * SECOND));
            counts[0] += usize::from(found.drift == Drift::Drifting);
            counts[1] += usize::from(!found.change_points.is_empty());
            counts[2] += usize::from(!found.p95_change_points.is_empty());
        }
        counts
    };
    assert_eq!(found(0.01)[0], runs);
    let null = found(0.0);
    assert!(null[0] <= at_most(0.02, runs) && null[1..].iter().all(|n| *n <= at_most(0.01, runs)), "{null:?}");
}
