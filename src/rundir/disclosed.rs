//! What the rows of a window say for the fifteen boxes, beside its figures: part of `run.json`.
//!
//! Times are ms unless named otherwise; what a gate withholds of gross and net is null here too.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::analysis::statistics::length_differences::LengthDifferences;
use crate::analysis::statistics::token_counts::TokenCounts;
use crate::rundir::row::Outcome;

/// Lengths by workload class.
pub type Lengths = BTreeMap<String, ClassLengths>;

/// Realised lengths of the kept requests of one class, beside what was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClassLengths {
    /// Kept requests.
    pub requests: u64,
    /// Prompt tokens asked for.
    pub asked_prompt: Option<TokenCounts>,
    /// Prompt tokens by the server's usage; null when none of them reported it.
    pub prompt: Option<TokenCounts>,
    /// Output tokens asked for.
    pub asked_output: Option<TokenCounts>,
    /// Completion tokens of the ok requests; null when none is known.
    pub output: Option<TokenCounts>,
    /// Outputs of exactly the length asked for.
    #[serde(default)]
    pub length_met: LengthMet,
    /// By how much the server's prompt tokens differ from those asked for; null when none of them reported it.
    #[serde(default)]
    pub prompt_off: Option<LengthDifferences>,
}

/// Outputs of ok requests against the length asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LengthMet {
    /// Of that length.
    pub met: u64,
    /// Those whose length is known.
    pub known: u64,
    /// Of these, shorter ones.
    pub shorter: u64,
}

/// Facts of a window that no latency figure holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Disclosed {
    /// Kept requests with kernel stamps.
    pub kernel_stamped: u64,
    /// Kept requests with the harness's own stamps only.
    pub user_stamped: u64,
    /// What was timed.
    pub timed: Timed,
    /// Warm-up.
    pub dropped: Dropped,
    /// The request that was sent first.
    pub first_sent: Option<FirstSent>,
    /// The first one on a connection that had carried none before.
    pub first_cold: Option<FirstSent>,
    /// Sent requests whose prompt begins as another one's in this window does: with the same nonce, or the same shared
    /// beginning; of prompts that are sent as their file has them, with the same 16 words. Of sessions first turns alone: a
    /// later one begins as its session does.
    pub shared_beginnings: u64,
    /// What usage says of the server's cache.
    pub cached: Cached,
    /// Coefficient of variation of the kept requests' prompt tokens by usage; null when fewer than two are known.
    pub prompt_variation: Option<f64>,
    /// The same of the lengths asked for.
    pub asked_prompt_variation: Option<f64>,
}

/// Ok requests of which each moment was timed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Timed {
    /// First token in any channel.
    pub first_token: u64,
    /// First visible answer text.
    pub first_answer: u64,
    /// Of those, how many came after the first token: what came before was thought, or a tool's name.
    pub answer_later: u64,
    /// Last token.
    pub last_token: u64,
}

/// Requests dropped as warm-up, by trace id; they stay in `requests.jsonl`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dropped {
    /// Smallest trace id.
    pub first_id: Option<u64>,
    /// Largest trace id.
    pub last_id: Option<u64>,
    /// Dropped requests that were answered whole.
    pub ok: u64,
    /// Median time to first token of those, gross.
    pub ttft_gross_p50_ms: Option<f64>,
    /// The longest of them.
    pub ttft_gross_max_ms: Option<f64>,
}

/// A request that was the first of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FirstSent {
    /// From 0.
    pub trace_id: u64,
    /// Sent at, s from the campaign's start.
    pub sent_s: f64,
    /// It was dropped as warm-up.
    pub dropped: bool,
    /// What became of it.
    pub outcome: Outcome,
    /// TCP handshake, when it opened a connection.
    pub connect_ms: Option<f64>,
    /// Time to first token, gross.
    pub ttft_gross_ms: Option<f64>,
    /// Server and network.
    pub ttft_net_ms: Option<f64>,
}

/// `cached_tokens` in the usage of kept requests. Absent is not 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cached {
    /// Requests that reported it.
    pub reported: u64,
    /// Requests that reported more than 0.
    pub hit: u64,
    /// Their sum; null when nobody reported it.
    pub tokens: Option<u64>,
    /// Prompt tokens of the requests that reported it.
    pub prompt_tokens: Option<u64>,
}
