//! The canary: while a real campaign runs, each worker also keeps one slow stream to a mock on this host, through the
//! same driver and the same code. What the mock did is in its own log, so that the error of this client under this load
//! can be told. Its rows are in a file of their own and count in nothing else.

use super::feeder::Tickets;
use super::mock_child::MockChild;
use super::recorder::Desk;
use super::{RowFile, Ticket};
use crate::evidence::CANARY;
use crate::reading::Asked;
use crate::rundir::row::Phase;
use crate::target::openai::{Api, BodyTemplate, TokenProof};
use crate::workload::hex;
use crate::workload::prompt::{self, Prompt};
use anyhow::Context;
use bench_engine::conn::Job;
use bench_engine::wire::request::RequestTemplate;
use bench_engine::worker::Shared;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Class of its rows.
pub const CLASS: &str = "canary";
/// Time to the first token, in ms.
const TTFT_MS: u64 = 5;
/// Time between tokens, in ms: about 100 events/s for each worker.
const ITL_MS: u64 = 10;
/// Tokens of a reply.
const TOKENS: u64 = 50;
/// Length of its prompts, in tokens.
const PROMPT_TOKENS: u64 = 20;
/// After so many failed requests the canary is fed no more.
pub(super) const MOST_FAILED: u64 = 5;
/// Requests ready for each worker: one reply lasts half a second, and the control loop looks fifty times in a second.
const READY_PER_WORKER: usize = 2;
/// Job ids of the canary have this bit, those of the load never: they are a window's number and a trace id.
const JOB_IDS: u64 = 1 << 63;

/// Whether a job is a canary's.
pub(super) fn is_canary(job: u64) -> bool {
    job & JOB_IDS != 0
}

/// The canary's mock, and how it is spoken to. Nothing of the target's headers, key or body is known here.
pub(super) struct Canary {
    mock: MockChild,
    pub(super) address: SocketAddr,
    request: RequestTemplate,
    body: BodyTemplate,
    ready: usize,
    /// Requests made so far.
    made: AtomicU64,
}

impl Canary {
    /// Starts the mock on `core`, its truth log in `dir`, for so many workers. It does not get the variable `key_env`.
    ///
    /// # Errors
    /// Why it could not be started.
    pub(super) fn start(core: Option<usize>, dir: &Path, workers: usize, key_env: &str) -> anyhow::Result<Self> {
        let (ttft, itl, tokens) = (TTFT_MS.to_string(), ITL_MS.to_string(), TOKENS.to_string());
        let flags = ["--ttft", &ttft, "--itl", &itl, "--tokens", &tokens, "--model", CLASS];
        let mock = MockChild::start_without(key_env, core, &dir.join(CANARY.truth), &flags).context("--canary")?;
        let authority = mock.base_url.trim_start_matches("http://").to_owned();
        let address = authority.parse().with_context(|| format!("--canary: its mock is at {authority:?}"))?;
        let request = RequestTemplate::new("POST", "/v1/chat/completions", &authority, "text/event-stream", &[])?;
        let body = BodyTemplate {
            api: Api::Chat,
            model: CLASS.to_owned(),
            stream: true,
            temperature: 0.0,
            top_p: 1.0,
            ignore_eos: false,
            token_proof: TokenProof::None,
            extra: Map::new(),
        };
        Ok(Canary { mock, address, request, body, ready: workers * READY_PER_WORKER, made: AtomicU64::new(0) })
    }

    /// Makes requests until enough are ready. They belong to the window they are made in. A mock that is gone is not
    /// asked for ever: a worker that opens connections in vain is not the one that is measured.
    pub(super) fn top_up(&self, shared: &Shared, tickets: &Tickets, desk: &Desk, cell: u32, window: u32) {
        if desk.canary_failed.load(Ordering::Relaxed) >= MOST_FAILED {
            return;
        }
        while shared.canary_supply.len() < self.ready {
            let n = self.made.fetch_add(1, Ordering::Relaxed);
            // the mock's log knows a request by this word; no nonce of the load has a hyphen
            let nonce = format!("{CLASS}-{n:08}");
            let text = prompt::text(0, n, &nonce, PROMPT_TOKENS);
            let asked = Asked {
                trace_id: n,
                class: CLASS.to_owned(),
                phase: Phase::Measured,
                prompt_tokens: PROMPT_TOKENS,
                output_tokens: TOKENS,
                prompt_sha256: hex(&Sha256::digest(&text)),
                nonce,
                begins: None,
                streamed: true,
            };
            let job = Job::new(JOB_IDS | n, self.request.with_json(&self.body.body(&Prompt::Text(text), TOKENS)));
            if let Ok(mut tickets) = tickets.lock() {
                tickets.insert(job.id, Ticket { cell, window, file: RowFile::Canary, asked, turn: None });
            }
            if shared.canary_supply.push(job).is_err() {
                return;
            }
        }
    }

    /// Takes back what no worker took before a window was over.
    pub(super) fn take_back(&self, shared: &Shared, tickets: &Tickets) {
        while let Some(job) = shared.canary_supply.pop() {
            if let Ok(mut tickets) = tickets.lock() {
                tickets.remove(&job.id);
            }
        }
    }

    /// Facts for the plan.
    pub(super) fn facts(&self) -> Value {
        json!({
            "address": self.address.to_string(),
            "ttft_ms": TTFT_MS,
            "itl_ms": ITL_MS,
            "tokens": TOKENS,
            "rows": CANARY.rows,
            "truth": CANARY.truth,
        })
    }

    /// In words.
    pub(super) fn words(&self) -> String {
        format!(
            "beside the load each worker keeps one stream ({TOKENS} tokens, TTFT {TTFT_MS} ms, {ITL_MS} ms a token) to a mock at {}; its rows are in {} and count nowhere else",
            self.address, CANARY.rows
        )
    }

    /// Ends the mock, which writes the rest of its log.
    pub(super) fn stop(self) {
        self.mock.stop();
    }
}
