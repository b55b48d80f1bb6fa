//! Exhibits made up for tests, of windows as they stand in a run: every field filled, nothing that real ones could not
//! hold.

use crate::analysis::exhibits::{
    ClientSample, Exhibits, GAP_ROWS, GapMap, MOST_SLICES, Mark, Quantiles, ServerSample, Slice, Spread, WindowExhibits,
};
use crate::rundir::run_json::{Distribution, RunJson, Window};

/// A number in 0..1 that looks random and is always the same.
pub(super) fn scattered(seed: u64) -> f64 {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d;
    x = (x ^ (x >> 31)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    ((x ^ (x >> 29)) >> 11) as f64 / (1_u64 << 53) as f64
}

/// Of every window of a run.
pub(super) fn exhibits(run: &RunJson) -> Exhibits {
    let all = run.cells.iter().flat_map(|cell| cell.windows.iter().map(move |w| (cell.cell, w)));
    let windows = all.enumerate().map(|(i, (cell, w))| window(cell, w, i as u64)).collect();
    let text = "server restarted by <b>hand</b>".to_owned();
    Exhibits { windows, marks: vec![Mark { at_s: 1.0, text }] }
}

fn quantiles(column: Option<&Distribution>, seed: u64) -> Quantiles {
    let Some(d) = column.filter(|d| d.n > 0) else { return Quantiles::default() };
    let known = [
        (0.0, d.min_ms),
        (50.0, d.p50_ms),
        (90.0, d.p90_ms),
        (95.0, d.p95_ms),
        (99.0, d.p99_ms),
        (99.9, d.p999_ms),
        (100.0, d.max_ms),
    ];
    let known: Vec<(f64, f64)> =
        known.into_iter().filter_map(|(p, ms)| Some((p, ms.or(Some(5.0 + seed as f64 % 3.0))?))).collect();
    let mut points = Vec::new();
    for pair in known.windows(2) {
        for step in 0..9 {
            let share = f64::from(step) / 9.0;
            points.push((pair[0].0 + share * (pair[1].0 - pair[0].0), pair[0].1 + share * (pair[1].1 - pair[0].1)));
        }
    }
    points.extend(known.last());
    Quantiles { n: d.n, points }
}

fn window(cell: u32, w: &Window, seed: u64) -> WindowExhibits {
    let duration_s = w.duration_s.max(0.1);
    let slice_s = duration_s / MOST_SLICES as f64;
    let middle = w.metrics.ttft.gross.as_ref().and_then(|d| d.p50_ms).unwrap_or(5.0);
    let at = |i: usize, kind: u64| scattered(seed * 10_007 + i as u64 * 13 + kind);
    let slices: Vec<Slice> = (0..MOST_SLICES)
        .map(|i| Slice {
            from_s: i as f64 * slice_s,
            sent: (at(i, 0) * 9.0) as u64,
            ok: (at(i, 1) * 9.0) as u64,
            failed: u64::from(at(i, 2) > 0.98),
            in_flight: w.in_flight.max as f64 * (0.8 + 0.2 * at(i, 3)),
            output_tokens_per_s: Some(900.0 + 200.0 * at(i, 4)),
            ttft_gross_p50_ms: Some(middle * (0.9 + 0.3 * at(i, 5))),
            ttft_gross_max_ms: Some(middle * (1.3 + 4.0 * at(i, 6).powi(6))),
            ttft_net_p50_ms: Some(middle * (0.85 + 0.3 * at(i, 5))),
            ttft_net_max_ms: Some(middle * (1.2 + 4.0 * at(i, 6).powi(6))),
            ttft_gross_p95_ms: None,
            ttft_net_p95_ms: None,
            lateness_max_ms: None,
        })
        .collect();
    let columns = (0..MOST_SLICES)
        .map(|i| {
            (0..GAP_ROWS)
                .map(|row| {
                    ((1.0 - (row as f64 - 8.0).abs() / 5.0).max(0.0) * 300.0 * at(i, 20 + row as u64)
                        + 2.0 * at(i, 50 + row as u64).powi(9)) as u64
                })
                .collect()
        })
        .collect();
    let client = (0..MOST_SLICES)
        .map(|i| ClientSample {
            at_s: (i as f64 + 1.0) * slice_s,
            worker: 0,
            cpu_per_wall: Some(0.3 + 0.3 * at(i, 7)),
            busy: Some(0.2 + 0.2 * at(i, 8)),
            run_queue: Some(0.02 * at(i, 9)),
            steal: Some(0.01 * at(i, 10).powi(3)),
        })
        .collect();
    let server = (0..=(duration_s as usize).min(300))
        .map(|i| ServerSample {
            at_s: i as f64,
            running: Some(6.0 + at(i, 11)),
            waiting: Some(2.0 * at(i, 12)),
            kv_cache_usage: Some(0.4),
        })
        .collect();
    let m = &w.metrics;
    let spread = |gross: &Option<Distribution>,
                  tare: &Option<Distribution>,
                  net: &Option<Distribution>,
                  due: Option<&Distribution>| Spread {
        gross: quantiles(gross.as_ref(), seed),
        tare: quantiles(tare.as_ref(), seed),
        net: quantiles(net.as_ref(), seed),
        due: quantiles(due, seed),
    };
    WindowExhibits {
        cell,
        window: w.window,
        opened_s: 0.5,
        duration_s,
        warmup_until_s: Some(duration_s * 0.04),
        slice_s,
        slices,
        ttft: spread(&m.ttft.gross, &m.ttft.tare, &m.ttft.net, m.ttft.due.as_ref()),
        e2e: spread(&m.e2e.gross, &m.e2e.tare, &m.e2e.net, m.e2e.due.as_ref()),
        gap: spread(&m.gap.gross, &m.gap.tare, &m.gap.net, None),
        gap_map: GapMap { floor_ms: 0.01, ceiling_ms: 1_000.0, columns },
        client,
        server,
    }
}

/// A campaign of `cells` loads with two windows each, every percentile and interval filled, as of very many requests.
pub(super) fn campaign(cells: u32) -> RunJson {
    let dir = tempfile::tempdir().unwrap();
    crate::analysis::specimen::Specimen::campaign().write(dir.path());
    let mut run = crate::analysis::summary::summarise(dir.path()).unwrap();
    let pattern = run.cells[0].clone();
    let nominal = [1, 2, 4, 8, 16, 32, 50, 64, 100, 128];
    run.cells = (0..cells)
        .map(|number| {
            let mut cell = pattern.clone();
            cell.cell = number;
            cell.load.concurrency = Some(nominal.get(number as usize).copied().unwrap_or(number * 2 + 100));
            for (w, window) in cell.windows.iter_mut().enumerate() {
                let load = f64::from(number) / f64::from(cells.max(2) - 1);
                let wander = 1.0 + 0.25 * scattered(u64::from(number) * 2 + w as u64);
                fill(window, 1.0 + 2.0 * load * load, wander);
                let tokens = 100.0 * f64::from(number + 1) / (1.0 + load);
                window.throughput.output_tokens_per_s = Some(tokens * (0.98 + 0.04 * scattered(u64::from(number))));
                window.in_flight.max = cell.load.concurrency.map_or(1, u64::from);
            }
            cell
        })
        .collect();
    run.labels = vec!["LOOPBACK".into(), "CACHE TEST".into()];
    run
}

/// p50 stays, p95 bends with the load, p99 wanders.
fn fill(window: &mut Window, bends: f64, wanders: f64) {
    let m = &mut window.metrics;
    let all = [
        &mut m.ttft.gross,
        &mut m.ttft.net,
        &mut m.ttft.tare,
        &mut m.ttft.due,
        &mut m.ttfo.gross,
        &mut m.ttfo.net,
        &mut m.ttfo.tare,
        &mut m.e2e.gross,
        &mut m.e2e.net,
        &mut m.e2e.tare,
        &mut m.gap.gross,
        &mut m.gap.net,
        &mut m.gap.tare,
        &mut m.stall.gross,
        &mut m.stall.net,
        &mut m.tpot.gross,
        &mut m.tpot.net,
        &mut m.tpot.tare,
        &mut m.ntpot.gross,
        &mut m.ntpot.net,
    ];
    for d in all.into_iter().flatten() {
        let p50 = d.p50_ms.unwrap_or(5.0).abs().max(0.01) * (0.98 + 0.04 * wanders);
        let ms = [p50, p50 * 1.6, p50 * 2.0 * bends, p50 * 3.1 * bends * wanders, p50 * 5.0 * bends * wanders];
        d.n = 1_234_567;
        [d.p50_ms, d.p90_ms, d.p95_ms, d.p99_ms, d.p999_ms] = ms.map(Some);
        (d.min_ms, d.max_ms) = (Some(p50 * 0.7), Some(p50 * 9.0 * bends * wanders));
        (d.lo_ms, d.hi_ms) = (None, None);
        for (name, ms) in ["p50", "p90", "p95", "p99", "p999"].into_iter().zip(ms) {
            d.ci_ms.insert(name.into(), [ms * 0.93, ms * 1.09]);
        }
    }
}
