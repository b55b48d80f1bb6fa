//! Writes a run directory of as many token events as asked for, to see what reports of long runs cost.
//!
//! cargo run --release --example many-events -- DIR [REQUESTS] [TOKENS] [WINDOWS]
//!
//! REQUESTS of TOKENS tokens each (20,000 and 100) over WINDOWS load points (1), 256 at once, a token each 10 ms or so,
//! with kernel stamps. Times are drawn, so that no two gaps need be alike; the rows, their chain, windows and samples have
//! the shape that a campaign writes, and `tarebench report`, `verify` and `export` read them as any other.

use serde_json::json;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use tarebench::rundir::chain::Chain;
use tarebench::rundir::health::HealthRow;
use tarebench::rundir::row::{Chunk, Outcome, Phase, Row, Stamp, StampSource, TokensSource};
use tarebench::rundir::window::{Counters, Load, LoadModel, WindowRow, WorkerShare};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
const SLOTS: usize = 256;
const DROP: u64 = 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let dir = words.next().ok_or("usage: many-events DIR [REQUESTS] [TOKENS] [WINDOWS]")?;
    let mut number = |default: u64| words.next().map_or(Ok(default), |word| word.parse::<u64>());
    let (requests, tokens, windows) = (number(20_000)?, number(100)?.max(1), number(1)?.max(1));
    let dir = Path::new(&dir);
    std::fs::create_dir_all(dir)?;
    let mut rows = BufWriter::new(File::create(dir.join("requests.jsonl"))?);
    let mut bounds = BufWriter::new(File::create(dir.join("windows.jsonl"))?);
    let mut health = BufWriter::new(File::create(dir.join("health.jsonl"))?);
    let mut chain = Chain::default();
    let mut drawn = Drawn(0x9e37_79b9_7f4a_7c15);
    let mut opened = S;
    for cell in 0..windows {
        let share = requests / windows;
        let mut slots = [opened; SLOTS];
        let mut made: Vec<Row> =
            (0..share).map(|id| request(cell as u32, id, tokens, &mut slots, &mut drawn)).collect();
        // a batch is what was seen at one moment; rows stand in order of their end
        made.sort_by_key(|row| row.end.map(|end| end.seen));
        let closed = slots.into_iter().max().unwrap_or(opened) + MS;
        for row in &made {
            let mut line = serde_json::to_string(row)?;
            chain.seal(&mut line);
            writeln!(rows, "{line}")?;
        }
        writeln!(bounds, "{}", serde_json::to_string(&window(cell as u32, opened, closed, share, &chain))?)?;
        for t in (opened - MS..closed + S).step_by(S as usize) {
            for thread in ["process", "worker-0"] {
                writeln!(health, "{}", serde_json::to_string(&sample(thread, t))?)?;
            }
        }
        opened = closed + 2 * S;
    }
    let cells: Vec<_> = (0..windows).map(|_| json!({"model": "closed", "concurrency": SLOTS})).collect();
    let plan = json!({"run_id": "many-events", "started_at": "2026-01-01T00:00:00Z", "tarebench": "0.1.0", "model": "m",
        "cells": cells, "windows": 1, "environment": {"host": "h"}, "calibration": null, "max_failed": 0.01});
    std::fs::write(dir.join("plan.json"), serde_json::to_string_pretty(&plan)? + "\n")?;
    [rows.flush(), bounds.flush(), health.flush()].into_iter().collect::<Result<(), _>>()?;
    println!("{}: {requests} requests of {tokens} tokens in {windows} windows", dir.display());
    Ok(())
}

/// Knuth's multiplier over 64 bits: even enough for times.
struct Drawn(u64);

impl Drawn {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

fn request(cell: u32, trace_id: u64, tokens: u64, slots: &mut [u64; SLOTS], drawn: &mut Drawn) -> Row {
    let (slot, due) = slots.iter().copied().enumerate().min_by_key(|(_, free)| *free).unwrap_or_default();
    let wire = due + 25_000;
    let mut arrived = wire + 40 * MS + drawn.below(20 * MS);
    let mut chunks = Vec::with_capacity(tokens as usize);
    for read in 0..tokens {
        let seen = arrived + 12_000 + drawn.below(30_000);
        chunks.push(Chunk(seen, Some(arrived), Some(arrived), Some(1), read as u32, 0, seen, 0));
        // one in two hundred stalls
        let stalled = if drawn.below(200) == 0 { 40 * MS } else { 0 };
        arrived += 8 * MS + drawn.below(4 * MS) + stalled;
    }
    let at = |chunk: &Chunk| Stamp { seen: chunk.0, arrived: chunk.1, arrived_lo: chunk.2 };
    let (first, last) = (chunks.first().map(at), chunks.last().map(at));
    slots[slot] = last.map_or(due, |last| last.seen);
    Row {
        run: "many-events".into(),
        cell,
        window: 0,
        trace_id,
        class: ["short", "medium", "long"][(trace_id % 3) as usize].into(),
        phase: if trace_id < DROP { Phase::Warmup } else { Phase::Measured },
        worker: 0,
        conn: Some(slot as u32),
        conn_reused: trace_id >= SLOTS as u64,
        retries: 0,
        due,
        taken: Some(due + 5_000),
        submit: Some(due + 10_000),
        handed: Some(due + 20_000),
        sent: Some(due + 20_000),
        wire_out: Some(wire),
        first_byte: first,
        first_event: first,
        first_token: first,
        first_answer: first,
        last_token: last,
        done: last,
        end: last,
        dns: None,
        connect: None,
        tls: None,
        bytes_out: 500,
        bytes_in: 200 * tokens,
        reads: tokens as u32,
        events: tokens as u32 + 1,
        token_events: tokens as u32,
        chunks,
        empty_events: 0,
        http_status: Some(200),
        retry_after: None,
        outcome: Outcome::Ok,
        error: None,
        flags: Vec::new(),
        finish_reason: Some("length".into()),
        prompt_tokens: Some(100 + trace_id % 400),
        completion_tokens: Some(tokens),
        cached_tokens: None,
        reasoning_tokens: None,
        tokens_source: Some(TokensSource::Usage),
        asked_prompt_tokens: 100 + trace_id % 400,
        asked_output_tokens: tokens,
        length_met: Some(true),
        model_echo: Some("m".into()),
        server_timings: None,
        nonce: format!("n{cell}-{trace_id}"),
        begins: None,
        prompt_sha256: format!("{trace_id:064x}"),
        stamps: StampSource::Kernel,
        address: None,
        session: None,
    }
}

fn window(cell: u32, opened: u64, closed: u64, rows: u64, chain: &Chain) -> WindowRow {
    WindowRow {
        run: "many-events".into(),
        cell,
        window: 0,
        load: Load {
            model: LoadModel::Closed,
            concurrency: Some(SLOTS as u32),
            rate: None,
            arrivals: None,
            sessions: None,
        },
        opened,
        closed,
        planned: rows,
        drop: DROP,
        slots: SLOTS as u32,
        spin: false,
        trace_hash: "t".into(),
        schedule_hash: None,
        interrupted: false,
        rows,
        last_h: chain.last_hex().to_owned(),
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

fn sample(thread: &str, t: u64) -> HealthRow {
    HealthRow {
        t,
        thread: thread.into(),
        tid: 77,
        core: None,
        cpu_ns: t / 4,
        run_delay_ns: Some(t / 1_000),
        voluntary_switches: Some(t / MS),
        involuntary_switches: Some(t / S),
        busy_ns: (thread == "worker-0").then_some(t / 4),
        steal_ns: Some(0),
        softirq_ns: Some(0),
        rss_bytes: None,
    }
}
