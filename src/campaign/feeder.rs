//! Makes requests ahead of their turn, on the control core: text, body, head, in order of trace id.

use super::Ticket;
use crate::reading::Asked;
use crate::rundir::row::Phase;
use crate::target::openai::BodyTemplate;
use crate::workload::nonce::{MAX_TRACE_ID, Nonces};
use crate::workload::{Workload, hex, prompt};
use bench_engine::clock::{Clock, SystemClock};
use bench_engine::conn::Job;
use bench_engine::units::{Instant, Nanos};
use bench_engine::wire::request::RequestTemplate;
use bench_engine::worker::Shared;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Requests made and not yet recorded, by job id.
pub type Tickets = Mutex<HashMap<u64, Ticket>>;

/// Time for which requests beyond the planned ones are made ahead: with more of them a window that has lasted long
/// enough would go on until they are used up.
const AHEAD: Nanos = Nanos::from_millis(100);

/// The supply of one window.
pub struct Feeder<'a> {
    /// Lengths and words.
    pub workload: &'a Workload,
    /// Head.
    pub request: &'a RequestTemplate,
    /// Body.
    pub body: &'a BodyTemplate,
    /// Of the run.
    pub nonces: &'a Nonces,
    /// Load point.
    pub cell: u32,
    /// Window.
    pub window: u32,
    /// Window number of the run.
    pub serial: u64,
    /// Warm-up requests.
    pub drop: u64,
    /// Kept requests, at least.
    pub kept: u64,
    /// Goes on past their number until the window has lasted so long.
    pub min_duration: Nanos,
    /// Requests in flight at once.
    pub concurrency: u32,
    /// When the window opened, in ns; 0 before that.
    pub opened: &'a AtomicU64,
    /// Where the requests go.
    pub shared: &'a Shared,
    /// What is known of them.
    pub tickets: &'a Tickets,
}

impl Feeder<'_> {
    /// Fills the supply until the window has its number and its duration, or is stopped. Gives the number of
    /// requests made.
    pub fn run(&self) -> u64 {
        let planned = self.drop + self.kept;
        let mut made = 0;
        for (trace_id, shape) in (0..=MAX_TRACE_ID).zip(self.workload.trace(self.drop, self.kept)) {
            if trace_id >= planned && !self.wait_to_go_on(made) {
                break;
            }
            let nonce = self.nonces.nonce(self.serial, trace_id);
            let text = prompt::text(self.workload.seed, trace_id, &nonce, shape.prompt_tokens);
            let request = self.request.with_json(&self.body.body(&text, shape.output_tokens));
            let asked = Asked {
                trace_id,
                class: shape.class,
                phase: if trace_id < self.drop { Phase::Warmup } else { Phase::Measured },
                prompt_tokens: shape.prompt_tokens,
                output_tokens: shape.output_tokens,
                nonce,
                prompt_sha256: hex(&Sha256::digest(&text)),
                streamed: self.body.stream,
            };
            let id = self.serial << 24 | trace_id;
            if let Ok(mut tickets) = self.tickets.lock() {
                tickets.insert(id, Ticket { cell: self.cell, window: self.window, asked });
            }
            if !self.push(Job::new(id, request)) {
                break;
            }
            made += 1;
        }
        self.shared.supply_over.store(true, Ordering::Release);
        made
    }

    /// Whether the window wants more than its number; waits while enough of them are ready.
    fn wait_to_go_on(&self, made: u64) -> bool {
        while self.min_duration > Nanos::ZERO && !self.shared.stop.load(Ordering::Relaxed) {
            let opened = Instant::from_ns(self.opened.load(Ordering::Acquire));
            let open_for = SystemClock.now().saturating_since(opened);
            let is_open = opened > Instant::default();
            if is_open && open_for >= self.min_duration {
                return false;
            }
            let ready = self.shared.supply.len() as u64;
            let used = u128::from(made.saturating_sub(ready));
            // at the rate so far; the burst at the opening is no rate
            let soon = used * u128::from(AHEAD.ns()) / u128::from(open_for.max(AHEAD).ns());
            if u128::from(ready) < soon.max(u128::from(self.concurrency)) {
                return true;
            }
            std::thread::sleep(Duration::from_micros(300));
        }
        false
    }

    /// Waits for room; false when the window was stopped.
    fn push(&self, job: Job) -> bool {
        let mut job = job;
        loop {
            if self.shared.stop.load(Ordering::Relaxed) {
                return false;
            }
            match self.shared.supply.push(job) {
                Ok(()) => return true,
                Err(back) => job = back,
            }
            std::thread::sleep(Duration::from_micros(300));
        }
    }
}
