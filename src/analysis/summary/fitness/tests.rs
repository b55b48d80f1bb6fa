use crate::analysis::definitions::rules::GateState::{self, Ok, Unknown, Void, Warn};
use crate::analysis::specimen::{MS, Specimen, US, calibration, failed, request};
use crate::analysis::summary::summarise;
use crate::rundir::health::HealthRow;
use crate::rundir::row::{Row, Stamp, StampSource};
use crate::rundir::run_json::{Gate, RunJson, VerdictKind, Window};
use crate::rundir::window::{Load, LoadModel};

fn run_of(mut specimen: Specimen) -> RunJson {
    let dir = tempfile::tempdir().unwrap();
    specimen.write(dir.path());
    summarise(dir.path()).unwrap()
}

fn window_of(specimen: Specimen) -> Window {
    run_of(specimen).cells[0].windows[0].clone()
}

fn gate(window: &Window, name: &str, scope: &str) -> Gate {
    let found: Vec<&Gate> = window.client.gates.iter().filter(|g| g.gate == name && g.scope == scope).collect();
    assert_eq!(found.len(), 1, "{name} of {scope}");
    found[0].clone()
}

/// The columns of the metrics and of the states of connections.
fn is_withheld(window: &Window) -> (bool, bool) {
    let m = &window.metrics;
    let ttft = |column: &Option<crate::rundir::run_json::Distribution>| {
        let column = column.as_ref().unwrap();
        assert!(column.n > 0, "the number of values stays");
        let empty = column.p50_ms.is_none();
        assert_eq!(empty, column.mean_ms.is_none() && column.max_ms.is_none() && column.sd_ms.is_none());
        for class in column.per_class.values() {
            assert_eq!(class.p50_ms.is_none(), empty, "classes follow");
        }
        empty
    };
    let gross = ttft(&m.ttft.gross);
    for column in [&m.ttft.due, &m.ttfo.gross, &m.ttfo.due, &m.e2e.gross, &m.e2e.due, &m.gap.gross, &m.stall.gross] {
        assert_eq!(ttft(column), gross, "gross and due go together");
    }
    for column in [&m.tpot.gross, &m.ntpot.gross, &window.by_conn.warm.ttft.gross] {
        assert_eq!(ttft(column), gross);
    }
    let net = ttft(&m.ttft.net);
    for column in [&m.e2e.net, &m.gap.net, &m.tpot.net, &window.by_conn.warm.ttft.net] {
        assert_eq!(ttft(column), net);
    }
    for column in [&m.ttft.tare, &m.e2e.tare, &m.gap.tare] {
        assert!(!ttft(column), "tare is never void");
    }
    assert_eq!(window.first_requests[0].ttft_gross_ms.is_none(), gross);
    assert_eq!(window.first_requests[0].ttft_net_ms.is_none(), net);
    (gross, net)
}

/// What a state of a gate withholds, and the verdicts that say so.
fn follows(window: &Window, of: &Gate, voids: (bool, bool)) {
    let withheld = |column: &str| {
        let says = |v: &&crate::rundir::run_json::Verdict| v.text == of.text && v.column == column;
        window.verdicts.iter().find(says).map(|v| v.kind)
    };
    let expected = |columns: bool| (of.state == Void && columns).then_some(VerdictKind::Withheld);
    assert_eq!(withheld("gross"), expected(voids.0), "{}", of.text);
    assert_eq!(withheld("due"), expected(voids.0));
    assert_eq!(withheld("net"), expected(voids.1));
    assert_eq!(withheld("*"), (of.state == Warn).then_some(VerdictKind::Flag));
    assert_eq!(is_withheld(window), (of.state == Void && voids.0, of.state == Void && voids.1), "{}", of.text);
}

#[test]
fn a_calm_window_passes_every_gate() {
    let run = run_of(Specimen::calm(12));
    let window = &run.cells[0].windows[0];
    let states: Vec<_> = window.client.gates.iter().map(|g| (g.gate.as_str(), g.scope.as_str(), g.state)).collect();
    let expected = [
        ("cpu", "worker 0", Ok),
        ("busy", "worker 0", Ok),
        ("burst_drain", "worker 0", Ok),
        ("read_delay", "worker 0", Ok),
        ("run_queue", "worker 0", Ok),
        ("steal", "worker 0", Ok),
        ("process_cpu", "window", Ok),
        ("steal", "window", Ok),
        ("net_width", "window", Ok),
        ("stamps_missing", "window", Ok),
        ("losses", "window", Ok),
    ];
    assert_eq!(states, expected);
    assert_eq!((is_withheld(window), window.verdicts.len(), run.verdicts.len()), ((false, false), 0, 0));
}

/// One counter at a time, in the worst part of a window that is calm else.
#[test]
fn what_threads_use_up() {
    type Counter = fn(&mut HealthRow) -> Option<&mut u64>;
    let cpu: Counter = |row| Some(&mut row.cpu_ns);
    let busy: Counter = |row| row.busy_ns.as_mut();
    let delay: Counter = |row| row.run_delay_ns.as_mut();
    let steal: Counter = |row| row.steal_ns.as_mut();
    // thread, counter, seconds of the worst part, gate, scope, gross and net; ms/s for ok, warn, void
    let cases = [
        ("worker-0", cpu, 5, "cpu", "worker 0", (true, false), [700, 720, 860]),
        ("worker-0", busy, 5, "busy", "worker 0", (true, false), [700, 720, 860]),
        ("worker-0", delay, 1, "run_queue", "worker 0", (true, false), [10, 11, 51]),
        ("worker-0", steal, 5, "steal", "worker 0", (true, true), [10, 12, 60]),
        ("process", steal, 5, "steal", "window", (true, true), [10, 12, 60]),
    ];
    for (thread, counter, length, name, scope, voids, figures) in cases {
        for (ms, state) in figures.into_iter().zip([Ok, Warn, Void]) {
            let mut specimen = Specimen::calm(12);
            specimen.use_up(thread, (4, 4 + length), ms * MS, counter);
            let window = window_of(specimen);
            let found = gate(&window, name, scope);
            assert_eq!((found.state, found.figure), (state, Some(ms as f64 / 1000.0)), "{name} {ms}");
            follows(&window, &found, voids);
        }
        // a counter that the kernel does not keep
        let mut specimen = Specimen::calm(12);
        specimen.health.iter_mut().for_each(|row| (row.run_delay_ns, row.steal_ns) = (None, None));
        let window = window_of(specimen);
        let found = gate(&window, name, scope);
        let kept = ["cpu", "busy"].contains(&name);
        assert_eq!((found.state, found.figure.is_some()), (if kept { Ok } else { Unknown }, kept), "{name}");
    }
}

#[test]
fn without_samples_nothing_is_ok() {
    let mut specimen = Specimen::calm(2);
    specimen.health.clear();
    let window = window_of(specimen);
    for (name, scope) in [
        ("cpu", "worker 0"),
        ("run_queue", "worker 0"),
        ("steal", "worker 0"),
        ("process_cpu", "window"),
        ("steal", "window"),
    ] {
        let found = gate(&window, name, scope);
        assert_eq!((found.state, found.figure), (Unknown, None), "{name}");
        assert!(found.text.contains("no samples"), "{}", found.text);
    }
}

#[test]
fn the_process_total_is_marked_and_voids_nothing() {
    let mut specimen = Specimen::calm(12);
    specimen.use_up("process", (0, 12), 1_500 * MS, |row| Some(&mut row.cpu_ns));
    let window = window_of(specimen);
    let found = gate(&window, "process_cpu", "window");
    assert_eq!((found.state, found.figure, found.void), (Warn, Some(1.5), None));
    assert_eq!(is_withheld(&window), (false, false));
}

#[test]
fn of_workers_that_spin_the_busy_time_counts_and_their_cpu_time_says_nothing() {
    let mut specimen = Specimen::calm(12);
    specimen.windows[0].0.spin = true;
    specimen.use_up("worker-0", (0, 12), 1_000 * MS, |row| Some(&mut row.cpu_ns));
    specimen.use_up("process", (0, 12), 1_250 * MS, |row| Some(&mut row.cpu_ns));
    let window = window_of(specimen);
    assert!(window.client.gates.iter().all(|g| g.gate != "cpu"));
    let busy = window.client.workers[0].busy.expect("known");
    let found = gate(&window, "process_cpu", "window");
    assert_eq!((found.state, found.figure), (Ok, Some(1.25 - 1.0 + busy)), "{}", found.text);
    assert!(found.text.contains("spin"), "{}", found.text);
}

/// A tick of 10 ms in a quarter of a second may be 4 % or nothing.
#[test]
fn one_tick_of_steal_in_a_short_window_is_rounding() {
    for (ticks, state) in [(1, Ok), (2, Warn), (4, Void)] {
        let mut specimen = Specimen::calm(1);
        specimen.windows[0].1.truncate(30);
        specimen.windows[0].0.closed = 1_310 * MS;
        for row in specimen.health.iter_mut().filter(|row| row.t > 1_500 * MS) {
            row.t = 1_320 * MS;
            row.steal_ns = Some(ticks * 10 * MS);
        }
        assert_eq!(gate(&window_of(specimen), "steal", "worker 0").state, state, "{ticks}");
    }
}

fn delayed(row: &mut Row, by: u64) {
    let moved = |s: Stamp| Stamp { seen: s.seen + by, ..s };
    for stamp in [&mut row.first_token, &mut row.first_answer, &mut row.last_token, &mut row.end] {
        *stamp = stamp.map(moved);
    }
    row.chunks.iter_mut().for_each(|c| (c.0, c.6) = (c.0 + by, c.6 + by));
}

#[test]
fn events_seen_late() {
    // 2 of 100 requests: more than 1 % of the events, so that p99 is theirs
    for (by, delay, drain) in [(0, Ok, Ok), (600 * US, Warn, Ok), (980 * US, Warn, Warn), (6 * MS, Void, Void)] {
        let mut specimen = Specimen::calm(2);
        // apart from each other and from the next request
        specimen.windows[0].1 = (0..100).map(|id| request(id, 1_000 * MS + id * 20 * MS)).collect();
        specimen.windows[0].1[40..42].iter_mut().for_each(|row| delayed(row, by));
        let window = window_of(specimen);
        assert_eq!(gate(&window, "read_delay", "worker 0").state, delay, "{by}");
        assert_eq!(gate(&window, "burst_drain", "worker 0").state, drain, "{by}");
        assert_eq!(is_withheld(&window), (delay == Void, false));
    }
}

#[test]
fn a_burst_is_drained_by_its_last_event() {
    // three events of each request come together and are handed over one by one, `apart` after each other
    for (apart, state) in [(100 * US, Ok), (600 * US, Warn), (3 * MS, Void)] {
        let mut specimen = Specimen::calm(2);
        for row in &mut specimen.windows[0].1 {
            let first = row.chunks[0];
            for (i, c) in row.chunks.iter_mut().enumerate() {
                (c.1, c.2) = (first.1, first.2);
                c.0 = first.0 + i as u64 * apart;
                c.6 = c.0;
            }
        }
        let window = window_of(specimen);
        let bursts = window.client.workers[0].bursts.unwrap();
        let drain = (15 * US + 2 * apart) as f64 / 1e6;
        assert_eq!((bursts.n, bursts.busiest, bursts.drain_p999_ms, bursts.drain_max_ms), (100, 3, drain, drain));
        let found = gate(&window, "burst_drain", "worker 0");
        assert_eq!((found.state, found.figure), (state, Some(drain)));
        assert!(found.text.contains("busiest 3 events"), "{}", found.text);
    }
}

#[test]
fn without_kernel_stamps_reads_are_not_known_and_nothing_voids_gross() {
    let run = run_of(user_stamps(Specimen::calm(2)));
    let window = &run.cells[0].windows[0];
    for (name, scope) in [
        ("burst_drain", "worker 0"),
        ("read_delay", "worker 0"),
        ("net_width", "window"),
        ("stamps_missing", "window"),
        ("calibrated_tare", "window"),
    ] {
        assert_eq!(gate(window, name, scope).state, Unknown, "{name}");
    }
    assert!(window.metrics.ttft.gross.as_ref().unwrap().p50_ms.is_some());
    assert_eq!(run.verdicts, [], "gross is left, so the window is valid");
}

fn user_stamps(mut specimen: Specimen) -> Specimen {
    for row in &mut specimen.windows[0].1 {
        row.stamps = StampSource::User;
        row.wire_out = None;
        let bare = |s: Stamp| Stamp { arrived: None, arrived_lo: None, ..s };
        for stamp in
            [&mut row.first_byte, &mut row.first_token, &mut row.first_answer, &mut row.last_token, &mut row.end]
        {
            *stamp = stamp.map(bare);
        }
        row.chunks.iter_mut().for_each(|c| (c.1, c.2) = (None, None));
    }
    specimen
}

fn open_loop(rows: Vec<Row>) -> Specimen {
    let mut specimen = Specimen::calm(12);
    specimen.windows[0].0.load =
        Load { model: LoadModel::Open, concurrency: None, rate: Some(10.0), arrivals: None, sessions: None };
    specimen.windows[0].1 = rows;
    specimen
}

/// Everything of a request later by `ns`, but its due.
fn sent_later(mut row: Row, ns: u64) -> Row {
    crate::analysis::specimen::shift_answer(&mut row, ns);
    for t in [&mut row.taken, &mut row.submit, &mut row.handed, &mut row.sent, &mut row.wire_out] {
        *t = t.map(|t| t + ns);
    }
    row
}

#[test]
fn net_needs_requests_that_went_out_when_they_should() {
    for (late, state) in [(0, Ok), (600 * US, Warn), (1_100 * US, Void)] {
        // all alike, so that the bunches stay as they were planned
        let rows = (0..100).map(|id| sent_later(request(id, 1_000 * MS + id * 100 * MS + 20 * MS), late)).collect();
        let run = run_of(open_loop(rows));
        let window = &run.cells[0].windows[0];
        let found = gate(window, "lateness", "window");
        assert_eq!((found.state, found.figure), (state, Some((late + 10 * US) as f64 / 1e6)));
        follows(window, &found, (false, true));
        assert_eq!(gate(window, "arrivals", "window").state, Ok);
        assert_eq!(run.verdicts.len(), 0, "gross is left");
    }
}

#[test]
fn net_needs_arrivals_as_bunched_as_planned() {
    // planned evenly; a tenth of the requests goes out with the one after it, 0.9 ms late is no excuse for the rest
    for (bunched, state) in [(0, Ok), (1, Ok), (10, Void)] {
        let row = |id: u64| {
            let row = request(id, 1_000 * MS + id * 100 * MS + 20 * MS);
            if id % 10 == 5 && id / 10 < bunched { sent_later(row, 90 * MS) } else { row }
        };
        let window = window_of(open_loop((0..100).map(row).collect()));
        assert_eq!(gate(&window, "arrivals", "window").state, state, "{bunched}");
    }
    let window = window_of(open_loop((0..1).map(|id| request(id, 1_000 * MS)).collect()));
    assert_eq!(gate(&window, "arrivals", "window").state, Unknown);
    assert_eq!(gate(&window, "achieved", "window").state, Unknown);
}

#[test]
fn an_overload_leaves_capacity_only() {
    // of 1,000 planned some are sent after the schedule's end
    for (late, state) in [(4, Ok), (8, Warn), (20, Void)] {
        let row = |id: u64| {
            let row = request(id, 1_000 * MS + id * 10 * MS);
            if id < 1000 - late { row } else { sent_later(row, 500 * MS) }
        };
        let run = run_of(open_loop((0..=1000).map(row).collect()));
        let window = &run.cells[0].windows[0];
        let found = gate(window, "achieved", "window");
        assert_eq!(found.state, state, "{}", found.text);
        if state == Void {
            assert!(found.text.starts_with("overload: capacity only: 98.0 %"), "{}", found.text);
            assert_eq!(is_withheld(window), (true, true));
            assert!(window.throughput.output_tokens_per_s.is_some());
            assert_eq!(run.verdicts.iter().map(|v| v.kind.as_str()).collect::<Vec<_>>(), ["invalid"]);
        }
    }
}

#[test]
fn a_wide_interval_of_net() {
    for (blur, state) in [(0, Ok), (400 * US, Warn), (1_200 * US, Void)] {
        let mut specimen = Specimen::calm(2);
        for row in &mut specimen.windows[0].1 {
            row.first_token = row.first_token.map(|s| Stamp { arrived_lo: s.arrived.map(|t| t - blur), ..s });
        }
        let run = run_of(specimen);
        let window = &run.cells[0].windows[0];
        let found = gate(window, "net_width", "window");
        assert_eq!(found.state, state);
        assert!((found.figure.unwrap() - blur as f64 / 5e6).abs() < 1e-9, "{}", found.text);
        assert!(window.verdicts.iter().all(|v| v.text != found.text), "the percentiles' own verdicts say it");
        assert!(window.metrics.ttft.net.as_ref().unwrap().mean_ms.is_some(), "only percentiles are withheld");
        assert_eq!(run.verdicts.len(), 0);
    }
}

#[test]
fn missing_stamps() {
    for (missing, state) in [(0, Ok), (1, Ok), (2, Void)] {
        let mut specimen = Specimen::calm(2);
        specimen.windows[0].1.iter_mut().take(missing).for_each(|row| row.wire_out = None);
        let window = window_of(specimen);
        let found = gate(&window, "stamps_missing", "window");
        assert_eq!((found.state, found.figure), (state, Some(missing as f64 / 100.0)));
        assert_eq!(is_withheld_but_first(&window), state == Void);
    }
}

/// The first requests are those without a stamp here.
fn is_withheld_but_first(window: &Window) -> bool {
    window.metrics.ttft.net.as_ref().unwrap().p50_ms.is_none()
}

#[test]
fn any_loss_voids_the_window() {
    type Lose = fn(&mut Specimen);
    let cases: [(Lose, &str); 5] = [
        (|s| s.windows[0].0.counters.ring_overflow = 3, "3 completions of the ring"),
        (|s| s.windows[0].0.counters.pool_exhausted = 1, "1 times no record block"),
        (|s| s.windows[0].0.counters.reader_waits = 7, "7 times a worker waited"),
        (|s| s.windows[0].1[9] = failed(request(9, 1_090 * MS), "client"), "1 requests failed for want"),
        (
            |s| {
                let row = &mut s.windows[0].1[9];
                *row = failed(row.clone(), "ports");
                row.outcome = crate::rundir::row::Outcome::NotSent;
            },
            "1 requests failed for want",
        ),
    ];
    for (lose, words) in cases {
        let mut specimen = Specimen::calm(2);
        lose(&mut specimen);
        let run = run_of(specimen);
        let window = &run.cells[0].windows[0];
        let found = gate(window, "losses", "window");
        assert_eq!(found.state, Void);
        assert!(found.text.contains(words), "{}", found.text);
        assert_eq!(is_withheld(window), (true, true));
        let invalid: Vec<_> = run.verdicts.iter().filter(|v| v.kind == "invalid").collect();
        assert!(invalid.len() == 1 && invalid[0].text.contains(words), "{invalid:?}");
        assert!(run.complete, "not valid, but all there");
    }
}

#[test]
fn a_window_is_invalid_when_nothing_is_left_of_ttft() {
    let slow = |specimen: &mut Specimen| specimen.use_up("worker-0", (0, 2), 300 * MS, |row| row.run_delay_ns.as_mut());
    let mut specimen = Specimen::calm(2);
    slow(&mut specimen);
    assert_eq!(run_of(specimen).verdicts, [], "net is left");

    let mut specimen = user_stamps(Specimen::calm(2));
    slow(&mut specimen);
    let found = run_of(specimen).verdicts;
    assert_eq!(found[0].kind, "invalid");
    assert!(
        found[0].text.contains("30 % of its worst second") && found[0].text.contains("no kernel stamps"),
        "{found:?}"
    );

    // every percentile of ttft net is too wide
    let mut specimen = Specimen::calm(2);
    slow(&mut specimen);
    for row in &mut specimen.windows[0].1 {
        row.first_token = row.first_token.map(|s| Stamp { arrived_lo: s.arrived.map(|t| t - 2 * MS), ..s });
    }
    let found = run_of(specimen).verdicts;
    assert!(found.len() == 1 && found[0].text.contains("every percentile of ttft net"), "{found:?}");
}

#[test]
fn a_second_worker_without_events_is_not_in_question() {
    let mut specimen = Specimen::calm(2);
    let mut other = specimen.windows[0].0.workers[0].clone();
    (other.worker, other.tid) = (1, 78);
    specimen.windows[0].0.workers.push(other);
    let window = window_of(specimen);
    assert!(!window.client.gates.iter().any(|g| g.gate == "burst_drain" && g.scope == "worker 1"));
    assert_eq!(gate(&window, "cpu", "worker 1").state, Unknown);
}

fn calibrated(mut specimen: Specimen, calibration: serde_json::Value) -> Specimen {
    specimen.plan["calibration"] = calibration;
    specimen
}

#[test]
fn the_calibrated_tare_of_the_steps_around_an_event_rate() {
    // 300 token events in 2, in 0.1 and in 0.02 s
    for (closed, rate, below, above, mean) in [
        (3_000, 150.0, None, Some(1_000.0), [20.0, 20.0]),
        (1_100, 3_000.0, Some(1_000.0), Some(10_000.0), [20.0, 100.0]),
        (1_020, 15_000.0, Some(10_000.0), None, [100.0, 100.0]),
    ] {
        let mut specimen = calibrated(Specimen::calm(2), calibration());
        let last = specimen.windows[0].1.len() as u64 - 1;
        specimen.windows[0].0.closed = closed * MS;
        // all of them come within the window
        specimen.windows[0].1.iter_mut().for_each(|row| {
            let due = 1_000 * MS + row.trace_id * (closed - 1_009).min(900) * MS / last;
            *row = request(row.trace_id, due);
        });
        let window = window_of(specimen);
        let found = window.client.calibrated.unwrap();
        assert_eq!((found.events_per_s, window.client.load.events_per_s), (rate, Some(rate)));
        assert_eq!((found.below_events_per_s, found.above_events_per_s), (below, above));
        assert_eq!((found.mean_us, found.p50_us, found.p99_us), (mean, Some(mean), Some(mean)));
    }
    for unusable in [serde_json::json!({"none": "never calibrated"}), serde_json::Value::Null] {
        assert_eq!(window_of(calibrated(Specimen::calm(2), unusable)).client.calibrated, None);
    }
    let mut other = calibration();
    other["matches"] = false.into();
    let window = window_of(calibrated(Specimen::calm(2), other));
    assert_eq!((window.client.calibrated, window.client.load.events_per_s), (None, Some(150.0)));
}

/// One definition of each, whatever calibration there is.
#[test]
fn what_the_client_had_to_do() {
    let load = |specimen| window_of(specimen).client.load;
    let found = load(Specimen::calm(2));
    assert_eq!((found.requests_per_s, found.events_per_s), (Some(50.0), Some(150.0)));
    assert_eq!((found.streams, found.burst), (1, Some(1)));
    // the most in flight, not the cap
    let mut capped = open_loop((0..100).map(|id| request(id, 1_000 * MS + id * 20 * MS)).collect());
    capped.windows[0].0.load.concurrency = Some(64);
    capped.windows[0].0.closed = 9_000 * MS;
    let found = load(capped);
    assert_eq!(found.streams, 1);
    // over the schedule (99 arrivals in 1.98 s), not over the wait for the last answers: that is achieved_rps
    assert_eq!(found.requests_per_s.map(|rate| (rate * 100.0).round()), Some(5_000.0));
    assert_eq!(load(user_stamps(Specimen::calm(2))).burst, None);
}

#[test]
fn a_limit_of_nothing_is_a_warning_of_its_own() {
    for (name, limit) in [
        ("calibrated_requests", "requests_per_s"),
        ("calibrated_events", "events_per_s"),
        ("calibrated_streams", "streams"),
        ("calibrated_burst", "burst"),
    ] {
        let with = |at_least: bool| {
            let mut document = calibration();
            document["limits"][limit] = serde_json::json!({"value": 0, "at_least": at_least});
            gate(&window_of(calibrated(Specimen::calm(2), document)), name, "window")
        };
        let found = with(false);
        assert_eq!((found.state, found.figure), (Warn, None));
        assert!(found.text.starts_with("nothing was trustworthy here in the calibration: no "), "{}", found.text);
        assert!(with(true).text.starts_with("nothing is known here of any "));
    }
}

#[test]
fn a_calibration_that_cannot_be_right_is_in_no_figure() {
    type Break = fn(&mut serde_json::Value);
    let broken: [(Break, &str); 5] = [
        (
            |c| c["tare"][0]["quantiles_us"][2][1] = 1e308.into(),
            "step 0 of its table of the tare is no law: a quantile",
        ),
        (
            |c| c["tare"][1]["quantiles_us"][2][1] = 1.0.into(),
            "step 1 of its table of the tare is no law: its quantiles",
        ),
        (|c| c["tare"][0]["mean_us"] = (-1e300).into(), "its mean lies outside its own values"),
        (|c| c["limits"]["streams"]["value"] = 5e-324.into(), "its limit of streams is none"),
        (|c| c["tare"] = "falling".into(), "cannot be read"),
    ];
    for (change, words) in broken {
        let mut document = calibration();
        change(&mut document);
        let run = run_of(calibrated(user_stamps(Specimen::calm(2)), document));
        let window = &run.cells[0].windows[0];
        assert_eq!((&window.client.calibrated, window.metrics.ttft.calibrated), (&None, None));
        assert!(!window.client.gates.iter().any(|g| g.gate == "calibrated_streams"));
        let told = &run.verdicts[0];
        assert!(told.kind == "calibration" && told.text.contains(words), "{told:?}");
        assert!(run.complete, "the run is whole");
    }
}

#[test]
fn loads_near_the_calibrated_limit_are_flagged() {
    // 50 requests/s, 150 events/s, one stream
    for (name, limit, state) in [
        ("calibrated_requests", "requests_per_s", Warn),
        ("calibrated_events", "events_per_s", Warn),
        ("calibrated_streams", "streams", Warn),
        ("calibrated_burst", "burst", Warn),
        ("calibrated_events", "requests_per_s", Ok),
    ] {
        let load = [("requests_per_s", 50.0), ("events_per_s", 150.0), ("streams", 1.0), ("burst", 1.0)];
        let value = load.iter().find(|(name, _)| *name == limit).unwrap().1 / 0.8;
        let mut document = calibration();
        document["limits"][limit] = serde_json::json!({"value": value, "at_least": true});
        let window = window_of(calibrated(Specimen::calm(2), document));
        let found = gate(&window, name, "window");
        assert_eq!(found.state, state, "{}", found.text);
        if state == Warn {
            assert!(found.text.contains("80 %") && found.text.contains("at least"), "{}", found.text);
            follows(&window, &found, (false, false));
        }
    }
    let mut document = calibration();
    document["limits"] = serde_json::json!({"requests_per_s": null, "events_per_s": null, "streams": null});
    let window = window_of(calibrated(Specimen::calm(2), document));
    assert!(!window.client.gates.iter().any(|g| g.gate.starts_with("calibrated")));
}

fn with_tare(us: f64) -> serde_json::Value {
    let mut document = calibration();
    for point in document["tare"][0]["quantiles_us"].as_array_mut().unwrap() {
        point[1] = us.into();
    }
    document["tare"][0]["mean_us"] = us.into();
    document["tare"][0]["events_per_s"] = 150.0.into();
    document
}

#[test]
fn without_stamps_the_calibrated_tare_is_taken_off_as_far_as_it_can_be() {
    // ttft gross is 5.03 ms; 30 us of it the client's
    let window = window_of(calibrated(user_stamps(Specimen::calm(2)), with_tare(30.0)));
    let net = window.metrics.ttft.calibrated.unwrap();
    let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    near(net.mean_ms.unwrap(), 5.0);
    near(net.mean_error_ms.unwrap(), 0.0);
    let [lo, hi] = net.p50_ms.unwrap();
    near(lo, 5.0);
    near(hi, 5.0);
    assert!(net.p99_ms.is_some() && net.p999_ms.is_none(), "100 values");
    assert!(window.metrics.ttfo.calibrated.is_some() && window.metrics.e2e.calibrated.is_some());
    assert_eq!(gate(&window, "calibrated_tare", "window").state, Ok);
    // with stamps of its own a run needs no other's
    assert_eq!(window_of(calibrated(Specimen::calm(2), with_tare(30.0))).metrics.ttft.calibrated, None);
}

#[test]
fn a_calibrated_tare_that_is_not_small_voids_gross() {
    for (us, state) in [(50.0, Ok), (60.0, Warn), (520.0, Void)] {
        let run = run_of(calibrated(user_stamps(Specimen::calm(2)), with_tare(us)));
        let window = &run.cells[0].windows[0];
        let found = gate(window, "calibrated_tare", "window");
        assert_eq!(found.state, state, "{}", found.text);
        assert_eq!(window.metrics.ttft.calibrated.is_none(), state == Void);
        assert_eq!(window.metrics.ttft.gross.as_ref().unwrap().p50_ms.is_none(), state == Void);
        assert_eq!(run.verdicts.len(), usize::from(state == Void));
    }
}

/// The two steps disagree by 1.4 ms: neither is believed, and the printed error says so.
#[test]
fn between_two_steps_the_error_contains_their_disagreement() {
    let mut document = with_tare(30.0);
    document["tare"][0]["events_per_s"] = 100.0.into();
    document["tare"][1]["mean_us"] = 1_430.0.into();
    for point in document["tare"][1]["quantiles_us"].as_array_mut().unwrap() {
        point[1] = 1_430.0.into();
    }
    // so slow that the tare withholds nothing
    let mut specimen = user_stamps(Specimen::calm(2));
    for row in &mut specimen.windows[0].1 {
        row.first_token = row.first_token.map(|s| Stamp { seen: s.seen + 95 * MS, ..s });
    }
    let window = window_of(calibrated(specimen, document));
    let tare = window.client.calibrated.as_ref().unwrap();
    assert_eq!((tare.below_events_per_s, tare.above_events_per_s), (Some(100.0), Some(10_000.0)));
    assert_eq!(tare.mean_us, [30.0, 1_430.0]);
    let net = window.metrics.ttft.calibrated.unwrap();
    // gross is 100.03 ms; by either step alone net would be 100.00 or 98.60 ms
    let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    near(net.mean_ms.unwrap(), 99.3);
    near(net.mean_error_ms.unwrap(), 0.7);
    let [lo, hi] = net.p50_ms.unwrap();
    near(lo, 98.6);
    near(hi, 100.0);
    // the worse of the two decides what gross is worth
    near(gate(&window, "calibrated_tare", "window").figure.unwrap(), 1.43 / 100.03);
}

#[test]
fn outside_the_calibrated_range_nothing_is_taken_off() {
    for (rate, below, above) in [(100.0, Some(100.0), None), (200.0, None, Some(200.0))] {
        let mut document = with_tare(30.0);
        document["tare"].as_array_mut().unwrap().truncate(1);
        document["tare"][0]["events_per_s"] = rate.into();
        let window = window_of(calibrated(user_stamps(Specimen::calm(2)), document));
        let tare = window.client.calibrated.unwrap();
        assert_eq!((tare.below_events_per_s, tare.above_events_per_s), (below, above));
        assert_eq!(window.metrics.ttft.calibrated, None);
    }
}

#[test]
fn a_calibration_without_a_tare_says_so() {
    let mut document = calibration();
    document["tare"] = serde_json::json!([]);
    let window = window_of(calibrated(user_stamps(Specimen::calm(2)), document));
    let found = gate(&window, "calibrated_tare", "window");
    assert!(found.state == Unknown && found.text.contains("does not tell the tare"), "{}", found.text);
}

#[test]
fn health_of_an_older_version_still_reads() {
    let line = r#"{"t":5,"thread":"worker-0","tid":7,"core":0,"cpu_ns":9,"run_delay_ns":1,"voluntary_switches":2,"involuntary_switches":3,"busy_ns":null,"rss_bytes":null}"#;
    let row: HealthRow = serde_json::from_str(line).unwrap();
    assert_eq!((row.steal_ns, row.softirq_ns, row.cpu_ns), (None, None, 9));
}

#[test]
fn states_are_words() {
    let words = [Ok, Warn, Void, Unknown].map(|s: GateState| serde_json::to_value(s).unwrap());
    assert_eq!(words, ["ok", "warn", "void", "unknown"]);
}
