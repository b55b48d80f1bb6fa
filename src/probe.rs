//! One request, shown event by event: what does this server send, and when.

use crate::campaign::recorder::{Desk, Recorder};
use crate::campaign::{RowFile, Ticket, feeder::Tickets};
use crate::reading::Asked;
use crate::rundir::row::{Phase, Row, StampSource};
use crate::target::address::Target;
use crate::target::secret::Secret;
use bench_engine::clock::{Clock, SystemClock};
use bench_engine::conn::{Job, Reuse};
use bench_engine::engine::{Engine, EngineError, EngineOptions};
use bench_engine::io::capabilities::Capabilities;
use bench_engine::timers::Limits;
use bench_engine::worker::{Shared, WorkerOptions};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// One request on its own connection.
#[derive(Clone, Debug)]
pub struct OneRequest {
    /// The server.
    pub target: Target,
    /// Head and body.
    pub request: Vec<u8>,
    /// An event stream is asked for.
    pub streamed: bool,
    /// Output length asked for.
    pub output_tokens: u64,
    /// Bounds of its waits.
    pub limits: Limits,
    /// Must not appear in the record.
    pub secret: Option<Secret>,
}

impl OneRequest {
    /// Sends it through the real engine and gives its record; times count from just before.
    ///
    /// # Errors
    /// When there are no workers; what the server does is in the record.
    pub fn send(&self, found: &Capabilities) -> Result<Row, EngineError> {
        let shared = Arc::new(Shared::new(1, 4096, 1));
        let core = bench_engine::cpu::allowed_cores()?.first().copied().unwrap_or(0);
        let options = EngineOptions {
            worker: WorkerOptions {
                index: 0,
                slots: 1,
                addresses: Arc::new([self.target.address]),
                tls: self.target.tls.clone(),
                limits: self.limits,
                streamed: self.streamed,
                reuse: Reuse::Unlimited,
                canary: None,
                spin: false,
            },
            slots: vec![1],
            cores: vec![core],
        };
        let engine = Engine::start(&options, found, &shared)?;
        let (tickets, desk) = (Tickets::default(), Desk::default());
        let asked = Asked {
            trace_id: 0,
            class: "probe".to_owned(),
            phase: Phase::Measured,
            prompt_tokens: 0,
            output_tokens: self.output_tokens,
            nonce: String::new(),
            begins: None,
            prompt_sha256: String::new(),
            streamed: self.streamed,
        };
        if let Ok(mut tickets) = tickets.lock() {
            tickets.insert(0, Ticket { cell: 0, window: 0, file: RowFile::Requests, asked, turn: None });
        }
        let _ = shared.supply.push(Job::new(0, self.request.clone()));
        shared.supply_over.store(true, Ordering::Release);
        let mut lines = Vec::new();
        std::thread::scope(|scope| -> Result<(), EngineError> {
            let recorder = Recorder {
                shared: &shared,
                tickets: &tickets,
                desk: &desk,
                run: "probe",
                origin: SystemClock.now(),
                stamps: if found.stamps { StampSource::Kernel } else { StampSource::User },
                addresses: Vec::new(),
                secret: self.secret.as_deref(),
                load_slots: vec![1],
                out: &mut lines,
                canary_out: None,
            };
            let recording = scope.spawn(|| recorder.run());
            let ran = run_one(&engine);
            desk.over.store(true, Ordering::Release);
            let _ = recording.join();
            ran
        })?;
        let sealed = String::from_utf8_lossy(&lines).into_owned();
        let line = crate::rundir::chain::Chain::default().open(sealed.trim_end());
        line.and_then(|l| serde_json::from_str(&l).ok()).ok_or(EngineError::Gone(0))
    }
}

fn run_one(engine: &Engine) -> Result<(), EngineError> {
    engine.prepare(&[1])?;
    engine.begin_window(&[1], SystemClock.now())?;
    let mut reports = Vec::new();
    while !engine.poll_window(&mut reports)? {
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// The record as a person reads it: one line an event, times in ms from the submit.
pub fn show(row: &Row) -> String {
    let mut out = String::new();
    let zero = row.submit.unwrap_or(row.due);
    let ms = |t: u64| format!("{:10.3}", (t as f64 - zero as f64) / 1e6);
    let mut line = |when: Option<u64>, what: String| {
        let when = when.map_or_else(|| " ".repeat(10), ms);
        out.push_str(&format!("{when} ms  {what}\n"));
    };
    line(row.submit, "submit: the request is given to the kernel".to_owned());
    line(row.wire_out, format!("wire_out: its last byte leaves ({} bytes)", row.bytes_out));
    if let Some(s) = row.first_byte {
        line(Some(s.seen), format!("first_byte: HTTP {}", row.http_status.map_or("?".to_owned(), |s| s.to_string())));
    }
    let mut last = None;
    for (i, chunk) in row.chunks.iter().enumerate() {
        let gap = last.map_or(String::new(), |t: u64| format!("  gap {:.3} ms", (chunk.0 - t) as f64 / 1e6));
        let held = chunk
            .1
            .map_or(String::new(), |a| format!("  seen {:.1} us after it arrived", (chunk.0 as f64 - a as f64) / 1e3));
        let tokens = chunk.3.map_or(String::new(), |n| format!("  tokens {n}"));
        let name = if i == 0 { "first_token" } else { "token" };
        line(Some(chunk.0), format!("{name}: event {i}, read {}, choice {}{tokens}{gap}{held}", chunk.4, chunk.5));
        last = Some(chunk.0);
    }
    if let Some(s) = row.done {
        line(Some(s.seen), "done: [DONE]".to_owned());
    }
    if let Some(s) = row.end {
        line(Some(s.seen), "end of the body".to_owned());
    }
    let error = row.error.as_ref().map_or(String::new(), |e| format!(":{} {}", e.class, e.text));
    out.push_str(&format!("outcome  {:?}{error}\n", row.outcome));
    let count = |n: Option<u64>| n.map_or("not told".to_owned(), |n| n.to_string());
    out.push_str(&format!(
        "tokens   prompt {}, completion {}, cached {}; {} events, {} with tokens, {} empty; finish {}\n",
        count(row.prompt_tokens),
        count(row.completion_tokens),
        count(row.cached_tokens),
        row.events,
        row.token_events,
        row.empty_events,
        row.finish_reason.as_deref().unwrap_or("not told"),
    ));
    if !row.flags.is_empty() {
        out.push_str(&format!("flags    {}\n", row.flags.join(", ")));
    }
    out
}
