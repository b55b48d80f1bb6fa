//! How fast a captured trace is read, and how fast requests are made of it: rows/s on one core.
//!
//! cargo run --release --example trace-speed -- FILE [LENGTH-SCALE]

use bench_engine::clock::{Clock, SystemClock};
use serde_json::Map;
use std::path::Path;
use tarebench::target::openai::{Api, BodyTemplate, TokenProof};
use tarebench::trace::captured::Captured;
use tarebench::trace::intake::Rules;
use tarebench::trace::replay::Replay;
use tarebench::workload::cache::Cache;
use tarebench::workload::gauge::Gauge;
use tarebench::workload::ids::PromptForm;
use tarebench::workload::nonce::Nonces;
use tarebench::workload::prompt::PromptMaker;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let file = words.next().ok_or("usage: trace-speed FILE [LENGTH-SCALE]")?;
    let length_scale = words.next().map_or(Ok(1.0), |scale| scale.parse())?;
    let timed = |what: &str, rows: u64, from: bench_engine::units::Instant| {
        let seconds = SystemClock.now().saturating_since(from).secs_f64();
        println!("{what:<40} {rows} rows in {seconds:.3} s: {:.0} rows/s", rows as f64 / seconds);
    };
    let from = SystemClock.now();
    let intake = tarebench::trace::read(Path::new(&file), &Rules { length_scale, ..Rules::default() })?;
    timed("read, checked and spooled", intake.facts.rows, from);
    let from = SystemClock.now();
    let captured = Captured::new(file, intake, 1, 0, None)?;
    timed("gone through for lengths and hash", captured.requests, from);
    let from = SystemClock.now();
    let replay = Replay::new(&captured, 60.0, None, None)?;
    timed("gone through for the schedule", captured.requests, from);
    let nonces = Nonces::of_run("trace-speed");
    let prompts = PromptMaker {
        seed: 7,
        window_words: nonces.clone(),
        nonces,
        gauge: Gauge::WORD_EACH,
        tokenizer: None,
        cache: Cache::Unique,
        texts_counted: false,
        form: PromptForm::Text,
        drop: 0,
    };
    let body = BodyTemplate {
        api: Api::Chat,
        model: "m".to_owned(),
        stream: true,
        temperature: 0.0,
        top_p: 1.0,
        ignore_eos: false,
        token_proof: TokenProof::None,
        extra: Map::new(),
    };
    let (from, mut bytes) = (SystemClock.now(), 0);
    for (trace_id, (shape, due)) in (0..).zip(captured.shapes().zip(replay.dues())) {
        let (shape, _) = (shape?, due?);
        bytes += body.body_of(&prompts.make(0, trace_id, &shape)).len() as u64;
    }
    timed("read again and made into bodies", captured.requests, from);
    println!(
        "{:.0} bytes a body, means {:.0} in and {:.0} out",
        bytes as f64 / captured.requests as f64,
        captured.mean_prompt_tokens,
        captured.mean_output_tokens
    );
    Ok(())
}
