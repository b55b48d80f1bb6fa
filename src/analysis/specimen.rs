//! Run directories made of rows written by hand, for tests.

use std::path::Path;

use serde_json::{Value, json};

use crate::rundir::chain::Chain;
use crate::rundir::health::HealthRow;
use crate::rundir::row::{Chunk, Outcome, Phase, Row, RowError, Stamp, StampSource, TokensSource, Turn};
use crate::rundir::scrape::{Moment, ScrapeRow};
use crate::rundir::window::{Counters, Load, LoadModel, SessionKind, Sessions, WindowRow, WorkerShare};

/// A run directory before it is written.
pub(crate) struct Specimen {
    pub(crate) plan: Value,
    pub(crate) windows: Vec<(WindowRow, Vec<Row>)>,
    pub(crate) health: Vec<HealthRow>,
    /// Written when there are any.
    pub(crate) scrapes: Vec<ScrapeRow>,
}

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const US: u64 = 1_000;

/// An event that had arrived `delay` before it was seen.
pub(crate) fn stamp(arrived: u64, delay: u64) -> Stamp {
    Stamp { seen: arrived + delay, arrived: Some(arrived), arrived_lo: Some(arrived) }
}

/// A request with three tokens. From `due`: submit 10 us, handed 20 us, wire 25 us; tokens arrive 5, 6 and 8 ms after
/// the wire and are seen 15, 15 and 115 us later; the body ends with the last. A batch's number is when it was seen.
pub(crate) fn request(trace_id: u64, due: u64) -> Row {
    let wire = due + 25 * US;
    let at = [stamp(wire + 5 * MS, 15 * US), stamp(wire + 6 * MS, 15 * US), stamp(wire + 8 * MS, 115 * US)];
    let chunks =
        (0..3).map(|i| Chunk(at[i].seen, at[i].arrived, at[i].arrived_lo, Some(1), i as u32, 0, at[i].seen, 0));
    Row {
        run: "r1".into(),
        cell: 0,
        window: 0,
        trace_id,
        class: if trace_id.is_multiple_of(3) { "long".into() } else { "short".into() },
        phase: Phase::Measured,
        worker: 0,
        conn: Some(0),
        conn_reused: trace_id > 0,
        retries: 0,
        due,
        taken: Some(due + 5 * US),
        submit: Some(due + 10 * US),
        handed: Some(due + 20 * US),
        sent: Some(due + 20 * US),
        wire_out: Some(wire),
        first_byte: Some(at[0]),
        first_event: Some(at[0]),
        first_token: Some(at[0]),
        first_answer: Some(at[0]),
        last_token: Some(at[2]),
        done: Some(at[2]),
        end: Some(at[2]),
        chunks: chunks.collect(),
        dns: None,
        connect: None,
        tls: None,
        bytes_out: 500,
        bytes_in: 900,
        reads: 3,
        events: 4,
        token_events: 3,
        empty_events: 0,
        http_status: Some(200),
        retry_after: None,
        outcome: Outcome::Ok,
        error: None,
        flags: Vec::new(),
        finish_reason: Some("length".into()),
        prompt_tokens: Some(20),
        completion_tokens: Some(3),
        cached_tokens: None,
        reasoning_tokens: None,
        tokens_source: Some(TokensSource::Usage),
        asked_prompt_tokens: 20,
        asked_output_tokens: 3,
        length_met: Some(true),
        model_echo: Some("m".into()),
        server_timings: None,
        nonce: "n".into(),
        begins: None,
        prompt_sha256: "0".repeat(64),
        stamps: StampSource::Kernel,
        address: None,
        session: None,
    }
}

/// The same request, failed before its second token.
pub(crate) fn failed(mut row: Row, class: &str) -> Row {
    row.outcome = Outcome::Failed;
    row.error = Some(RowError { class: class.into(), text: "by hand".into() });
    row.chunks.truncate(1);
    row.token_events = 1;
    (row.last_token, row.done, row.completion_tokens, row.finish_reason) = (row.first_token, None, None, None);
    row
}

/// A closed-loop window of concurrency 1 with worker 0, holding nothing yet.
pub(crate) fn window(cell: u32, window: u32, opened: u64, closed: u64) -> WindowRow {
    WindowRow {
        run: "r1".into(),
        cell,
        window,
        load: Load { model: LoadModel::Closed, concurrency: Some(1), rate: None, arrivals: None, sessions: None },
        opened,
        closed,
        planned: 0,
        drop: 0,
        slots: 1,
        spin: false,
        trace_hash: "t".into(),
        schedule_hash: None,
        interrupted: false,
        rows: 0,
        last_h: String::new(),
        part: 1,
        counters: Counters::default(),
        workers: vec![WorkerShare {
            worker: 0,
            core: Some(1),
            tid: 77,
            batches: 9,
            max_batch: 2,
            busy_ns: (closed - opened) / 4,
        }],
    }
}

/// A sample of the process or of worker 0, having used `cpu_ns`.
pub(crate) fn sample(thread: &str, t: u64, cpu_ns: u64) -> HealthRow {
    HealthRow {
        t,
        thread: thread.into(),
        tid: 77,
        core: None,
        cpu_ns,
        run_delay_ns: Some(cpu_ns / 100),
        voluntary_switches: Some(3),
        involuntary_switches: Some(cpu_ns / 1_000_000),
        busy_ns: None,
        steal_ns: Some(0),
        softirq_ns: Some(0),
        rss_bytes: None,
    }
}

impl Specimen {
    /// Closed loop of one, two windows of 30 requests 10 ms apart, the first two dropped, one failed.
    pub(crate) fn two_windows() -> Specimen {
        Specimen::two_windows_of(30)
    }

    /// As a campaign looks: eight slots, 310 requests a window with answers of 8 to 80 ms, net within 1 ms.
    pub(crate) fn campaign() -> Specimen {
        let mut specimen = Specimen::two_windows_of(310);
        for (bounds, rows) in &mut specimen.windows {
            let mut free = [bounds.opened; 8];
            let due = |free: &mut [u64; 8]| free.iter_mut().min().map_or(0, |t| *t);
            *rows = (0..310_u64)
                .map(|id| {
                    let mut row = request(id, due(&mut free));
                    row.window = bounds.window;
                    row.phase = if id < 10 { Phase::Warmup } else { Phase::Measured };
                    shift_answer(
                        &mut row,
                        (id + u64::from(bounds.window)) * 7919 % 97 * (780 + 15 * u64::from(bounds.window)) * US,
                    );
                    if let (Some(slot), Some(end)) = (free.iter_mut().min(), row.end) {
                        *slot = end.seen;
                    }
                    let blur = id * 31 % 17 * 60 * US;
                    let lower = |s: Stamp| Stamp { arrived_lo: s.arrived.map(|t| t - blur), ..s };
                    (row.first_token, row.last_token) = (row.first_token.map(lower), row.last_token.map(lower));
                    row
                })
                .collect();
            let cut = rows.remove(200);
            rows.push(failed(cut, "transport"));
            bounds.load.concurrency = Some(8);
            (bounds.slots, bounds.drop) = (8, 10);
            bounds.closed = free.into_iter().max().unwrap_or_default();
        }
        specimen
    }

    fn two_windows_of(requests: u64) -> Specimen {
        let length = (requests + 1) * 10 * MS;
        let mut windows = Vec::new();
        let mut health = Vec::new();
        for index in 0..2_u32 {
            let opened = 100 * MS + u64::from(index) * (length + 690 * MS);
            let mut rows: Vec<Row> = (0..requests).map(|id| request(id, opened + id * 10 * MS)).collect();
            for row in &mut rows {
                row.window = index;
                row.phase = if row.trace_id < 2 { Phase::Warmup } else { Phase::Measured };
                // the second window is slower by trace id
                shift_answer(row, u64::from(index) * row.trace_id * 40 * US);
            }
            rows[0].connect = Some(8 * US);
            let cut = rows.remove(20);
            rows.push(failed(cut, "transport"));
            let bounds = WindowRow { planned: requests, drop: 2, ..window(0, index, opened, opened + length) };
            for (thread, busy) in [("process", 2), ("worker-0", 4)] {
                health.push(sample(thread, opened - MS, opened / busy));
                health.push(sample(thread, opened + length + MS, (opened + length + 2 * MS) / busy));
            }
            windows.push((bounds, rows));
        }
        let environment = json!({"host": "h", "kernel": "6.12", "loopback": true});
        let plan = json!({"run_id": "r1", "plan_hash": "abc", "started_at": "2026-01-01T00:00:00Z", "tarebench": "0.1.0",
            "environment": environment, "calibration": null, "max_failed": 0.01});
        Specimen { plan, windows, health, scrapes: Vec::new() }
    }

    /// Writes the raw files; fills in each window's `rows` and `last_h`.
    pub(crate) fn write(&mut self, dir: &Path) {
        let mut chain = Chain::default();
        let (mut requests, mut windows) = (String::new(), String::new());
        for (bounds, rows) in &mut self.windows {
            bounds.rows = rows.len() as u64;
            bounds.last_h = "0".repeat(64);
            for row in rows {
                let mut line = serde_json::to_string(row).unwrap();
                chain.seal(&mut line);
                chain.last_hex().clone_into(&mut bounds.last_h);
                requests += &line;
                requests.push('\n');
            }
            windows += &(serde_json::to_string(bounds).unwrap() + "\n");
        }
        let health: String = self.health.iter().map(|h| serde_json::to_string(h).unwrap() + "\n").collect();
        let plan = serde_json::to_string_pretty(&self.plan).unwrap();
        let files =
            [("plan.json", plan), ("requests.jsonl", requests), ("windows.jsonl", windows), ("health.jsonl", health)];
        files.iter().for_each(|(name, text)| std::fs::write(dir.join(name), text).unwrap());
        if !self.scrapes.is_empty() {
            let scrapes: String = self.scrapes.iter().map(|s| serde_json::to_string(s).unwrap() + "\n").collect();
            std::fs::write(dir.join("server-metrics.jsonl"), scrapes).unwrap();
        }
    }
}

/// A scrape asked for at `at` and answered within 2 ms.
pub(crate) fn scrape(at: u64, metrics: &[(&str, f64)]) -> ScrapeRow {
    ScrapeRow {
        at,
        cell: None,
        window: None,
        moment: Moment::During,
        error: None,
        metrics: metrics.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
        took_ns: 2 * MS,
        rtt_us: None,
    }
}

/// Moves everything that came back by `ns`.
pub(crate) fn shift_answer(row: &mut Row, ns: u64) {
    let moved = |s: Stamp| Stamp {
        seen: s.seen + ns,
        arrived: s.arrived.map(|t| t + ns),
        arrived_lo: s.arrived_lo.map(|t| t + ns),
    };
    let stamps = [
        &mut row.first_byte,
        &mut row.first_event,
        &mut row.first_token,
        &mut row.first_answer,
        &mut row.last_token,
        &mut row.done,
        &mut row.end,
    ];
    stamps.into_iter().for_each(|s| *s = s.map(moved));
    for c in &mut row.chunks {
        (c.0, c.1, c.2) = (c.0 + ns, c.1.map(|t| t + ns), c.2.map(|t| t + ns));
        c.6 += ns;
    }
}

impl Specimen {
    /// A closed loop of one over `seconds`, a request each 10 ms for the first second, and health sampled each second
    /// with nothing used up: every gate is ok.
    pub(crate) fn calm(seconds: u64) -> Specimen {
        let second = 1_000 * MS;
        let mut specimen = Specimen { plan: json!({}), windows: Vec::new(), health: Vec::new(), scrapes: Vec::new() };
        let rows = (0..100).map(|id| request(id, second + id * 10 * MS)).collect();
        let mut bounds = window(0, 0, second, (1 + seconds) * second);
        bounds.workers[0].busy_ns = 0;
        specimen.windows.push((bounds, rows));
        for t in 1..=1 + seconds {
            for thread in ["process", "worker-0"] {
                let busy_ns = (thread == "worker-0").then_some(0);
                specimen.health.push(HealthRow { busy_ns, ..sample(thread, t * second, 0) });
            }
        }
        specimen
    }

    /// Adds to a counter of one thread, from the second `from` to the second `to` of the window, `per_second` ns each.
    pub(crate) fn use_up(
        &mut self,
        thread: &str,
        (from, to): (u64, u64),
        per_second: u64,
        counter: impl Fn(&mut HealthRow) -> Option<&mut u64>,
    ) {
        for row in self.health.iter_mut().filter(|row| row.thread == thread) {
            let second = row.t / (1_000 * MS) - 1;
            if let Some(value) = counter(row) {
                *value += (second.clamp(from, to) - from) * per_second;
            }
        }
    }
}

/// `calibration` as a plan holds it: constant tares of 20 us up to 1,000 events/s and of 100 us up to 10,000, and limits
/// of 1,000 requests/s, 10,000 events/s and at least 100 streams.
pub(crate) fn calibration() -> Value {
    let step = |events_per_s: f64, us: f64| {
        json!({"events_per_s": events_per_s, "n": 10_000, "mean_us": us,
            "quantiles_us": [[0.0, us], [0.01, us], [0.5, us], [0.99, us], [1.0, us]]})
    };
    let limit = |value: f64, at_least: bool| json!({"value": value, "at_least": at_least});
    json!({"id": "c1", "made_at": "2026-01-01", "placement": "loopback", "matches": true, "differences": [],
        "limits": {"requests_per_s": limit(1_000.0, false), "events_per_s": limit(10_000.0, false),
            "streams": limit(100.0, true), "burst": null},
        "tare": [step(1_000.0, 20.0), step(10_000.0, 100.0)]})
}

impl Specimen {
    /// A closed loop of one over `seconds`, its requests evenly spread, the first ten dropped; the answer of each comes
    /// `later` (by its place, from 0) ns later than it would.
    pub(crate) fn long(seconds: u64, requests: u64, later: impl Fn(u64) -> u64) -> Specimen {
        let second = 1_000 * MS;
        let mut bounds = window(0, 0, second, (1 + seconds) * second);
        (bounds.drop, bounds.planned) = (10, requests);
        let row = |id: u64| {
            let mut row = request(id, second + id * seconds * second / requests);
            row.phase = if id < 10 { Phase::Warmup } else { Phase::Measured };
            shift_answer(&mut row, later(id));
            row
        };
        let rows = (0..requests).map(row).collect();
        Specimen { plan: json!({}), windows: vec![(bounds, rows)], health: Vec::new(), scrapes: Vec::new() }
    }
}

/// A place in a session.
pub(crate) fn turn(id: u64, turn: u32, turns: u32, after: Option<u64>) -> Turn {
    let reply_sha256 = Some("0".repeat(64));
    Turn { id, turn, turns, user: Some(0), after, pause: 0, message_tokens: 20, reply_sha256, left_out: Vec::new() }
}

/// Think time in the specimens of sessions.
pub(crate) const THINK: u64 = 7 * MS;

impl Specimen {
    /// Sessions of two to four turns, two windows of them, the first four of a window dropped: by three users, or (`users`
    /// None) arriving every 40 ms. Prompts grow by reply and message of 20 tokens, and of what was said before all but 4
    /// tokens are cached. Session 17 fails in its second turn, the last one is cut off in its last.
    pub(crate) fn sessions(users: Option<u32>, sessions: u64) -> Specimen {
        let mut specimen = Specimen::two_windows_of(30);
        let turns_of = |id: u64| 2 + (id % 3) as u32;
        for (bounds, rows) in &mut specimen.windows {
            rows.clear();
            let mut free: Vec<(u64, Option<u64>)> = vec![(bounds.opened, None); users.unwrap_or(1) as usize];
            let (mut trace_id, mut closed) = (0, bounds.opened);
            for id in 0..sessions {
                let user = (0..free.len()).min_by_key(|user| free[*user].0).unwrap_or_default();
                let (mut due, mut after) = match users {
                    Some(_) => free[user],
                    None => (bounds.opened + id * 40 * MS, None),
                };
                let (turns, mut history) = (turns_of(id), 0);
                for place in 0..turns {
                    let mut row = request(trace_id + u64::from(place), due);
                    row.window = bounds.window;
                    row.phase = if id < 4 { Phase::Warmup } else { Phase::Measured };
                    row.session = Some(Turn {
                        user: users.map(|_| user as u32),
                        pause: if place == 0 { 0 } else { THINK },
                        ..turn(id, place, turns, after)
                    });
                    row.nonce = format!("n{}", row.trace_id);
                    shift_answer(&mut row, (id * 5 + u64::from(place) * 3) % 11 * 400 * US);
                    row.asked_prompt_tokens = history + 20;
                    (row.prompt_tokens, row.cached_tokens) =
                        (Some(history + 22), Some(u64::saturating_sub(history, 4)));
                    history += 25;
                    let end = row.end.map_or(due, |end| end.arrived.unwrap_or(end.seen));
                    let last = id + 1 == sessions && place + 1 == turns;
                    if id == 17 && place == 1 {
                        row = failed(row, "transport");
                    } else if last {
                        (row.outcome, row.end, row.done) = (Outcome::Censored, None, None);
                        (row.completion_tokens, row.finish_reason) = (None, None);
                    }
                    let over = row.outcome != Outcome::Ok;
                    rows.push(row);
                    free[user] = (end, Some(end));
                    (due, after, closed) = (end + THINK, Some(end), closed.max(end));
                    if over {
                        break;
                    }
                }
                trace_id += u64::from(turns);
            }
            bounds.closed = closed + MS;
            bounds.drop = (0..4).map(|id| u64::from(turns_of(id))).sum();
            bounds.planned = trace_id;
            bounds.load = Load {
                model: if users.is_some() { LoadModel::Closed } else { LoadModel::Open },
                concurrency: users,
                rate: if users.is_some() { None } else { Some(25.0) },
                arrivals: None,
                sessions: Some(Sessions {
                    kind: if users.is_some() { SessionKind::Chat } else { SessionKind::Chain },
                    turns: [2, 4],
                    pause: Some("think time 7 ms".into()),
                    paced: false,
                    planned: sessions,
                    drop: 4,
                }),
            };
        }
        specimen
    }
}
