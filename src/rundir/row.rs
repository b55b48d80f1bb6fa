//! One line of `requests.jsonl`: everything that was observed about one request that was due.
//!
//! Times are integer ns from the campaign's start on the monotonic axis, durations integer ns, null where
//! unknown. The order of the fields is the order in the file, and part of what `h` hashes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A request, as it stands in the file. `h` is added by [`crate::rundir::chain`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Run id.
    pub run: String,
    /// Load point, from 0.
    pub cell: u32,
    /// Window within the cell, from 0.
    pub window: u32,
    /// Place in the window's trace, from 0; the same prompt lengths in every window.
    pub trace_id: u64,
    /// Workload class, e.g. `short`.
    pub class: String,
    /// Warm-up rows are dropped from every statistic, by trace id.
    pub phase: Phase,
    /// Worker thread, from 0.
    pub worker: u32,
    /// Connection slot of that worker; null when no connection was tried.
    pub conn: Option<u32>,
    /// Whether this request was sent on a connection that had carried one before.
    pub conn_reused: bool,
    /// 1 when a kept-alive socket had died before any byte of the reply.
    pub retries: u32,
    /// When the load model wanted it to start.
    pub due: u64,
    /// When a worker took it up.
    pub taken: Option<u64>,
    /// Just before the enter that carried its first byte.
    pub submit: Option<u64>,
    /// On return of that enter.
    pub handed: Option<u64>,
    /// The completion of the send with its last byte was reaped.
    pub sent: Option<u64>,
    /// Kernel TX stamp of its last byte.
    pub wire_out: Option<u64>,
    /// First byte of the response.
    pub first_byte: Option<Stamp>,
    /// First dispatched data event.
    pub first_event: Option<Stamp>,
    /// First event with a token in any channel.
    pub first_token: Option<Stamp>,
    /// First event with visible answer text.
    pub first_answer: Option<Stamp>,
    /// Last event with a token.
    pub last_token: Option<Stamp>,
    /// `[DONE]`.
    pub done: Option<Stamp>,
    /// End of the body.
    pub end: Option<Stamp>,
    /// Token events, in order of arrival.
    pub chunks: Vec<Chunk>,
    /// Name resolution; null when the address was known.
    pub dns: Option<u64>,
    /// TCP connect; null on a connection opened earlier.
    pub connect: Option<u64>,
    /// TLS handshake, after TCP's connect; null over plain HTTP, and on a connection opened earlier.
    pub tls: Option<u64>,
    /// Bytes handed to the kernel, over TLS those of its records.
    pub bytes_out: u64,
    /// Bytes of the response, heads and framing included, over TLS those of its records.
    pub bytes_in: u64,
    /// Reads that carried them.
    pub reads: u32,
    /// Data events that parsed, `[DONE]` not counted.
    pub events: u32,
    /// Events with a token.
    pub token_events: u32,
    /// Events with choices and nothing in them: tokens may hide there.
    pub empty_events: u32,
    /// Status of the final response.
    pub http_status: Option<u16>,
    /// `Retry-After`, as the server wrote it.
    pub retry_after: Option<String>,
    /// What became of it.
    pub outcome: Outcome,
    /// Class and words of a failure, or the reason why it was not sent.
    pub error: Option<RowError>,
    /// `name` or `name=count`, sorted. Besides what the stream showed, `reopened`: first request on a connection
    /// that replaces one the server had closed.
    pub flags: Vec<String>,
    /// Finish reason of choice 0 (else of the first choice that had one).
    pub finish_reason: Option<String>,
    /// Server's usage.
    pub prompt_tokens: Option<u64>,
    /// Server's usage, else token ids when every token event had them.
    pub completion_tokens: Option<u64>,
    /// Server's usage: prompt tokens found in its cache; null when not reported.
    pub cached_tokens: Option<u64>,
    /// Server's usage: completion tokens spent thinking.
    pub reasoning_tokens: Option<u64>,
    /// Where completion_tokens comes from.
    pub tokens_source: Option<TokensSource>,
    /// Prompt length asked for.
    pub asked_prompt_tokens: u64,
    /// Output length asked for.
    pub asked_output_tokens: u64,
    /// completion_tokens == asked_output_tokens; null when unknown.
    pub length_met: Option<bool>,
    /// `model` of the reply.
    pub model_echo: Option<String>,
    /// `timings` or `metrics` object of the reply, verbatim.
    pub server_timings: Option<serde_json::Value>,
    /// First word of the prompt, or of a turn's own message, else the body's `user`: ties the request to a server's log, and
    /// keeps caches cold. A turn whose message is sent as its file has it, or begins with what all sessions share, carries
    /// it nowhere in front.
    pub nonce: String,
    /// By what the prompt begins, where that is not the nonce: those with the same beginning can share a server's cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begins: Option<String>,
    /// SHA-256 of the prompt (text, ids, or body), hex.
    pub prompt_sha256: String,
    /// Where `arrived` and `wire_out` come from.
    pub stamps: StampSource,
    /// Address that its connection went to, where the server has several that are taken in turn; else null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Its place in a conversation or chain; null for a request that stands alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Turn>,
}

impl Row {
    /// What the prompt begins with.
    pub fn beginning(&self) -> &str {
        self.begins.as_deref().unwrap_or(&self.nonce)
    }
}

/// The place of a request in a session: one of several that each need the reply before. `asked_prompt_tokens` of a later
/// turn is what the server counted for the turn before, prompt and completion, with the new message: the template's own
/// tokens around messages come on top.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// Session of the window, from 0, in the order in which they are planned to begin.
    pub id: u64,
    /// From 0.
    pub turn: u32,
    /// Turns that the session is to have.
    pub turns: u32,
    /// Who leads it where a fixed number of users lead one session after another, from 0; null where sessions arrive.
    pub user: Option<u32>,
    /// When the reply that it needs had ended: `end.arrived` of the turn before (of the user's session before, for the
    /// first turn of a later session), else its `seen`; null for a first turn that needed none.
    pub after: Option<u64>,
    /// Pause planned before it, ns.
    pub pause: u64,
    /// Length asked for of its own message, in tokens.
    pub message_tokens: u64,
    /// SHA-256 of the reply's text as the server sent it (all answer text of choice 0), hex: it stands in the next turn's
    /// history. Null where there was none.
    pub reply_sha256: Option<String>,
    /// What choice 0 held beside that text, and the history lacks; no key where there was nothing. Events that could not be
    /// read, which may have held more of either, are the flag `bad_event`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

/// A part of a reply that the next turn does not send back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LeftOut {
    /// Calls of tools or functions.
    ToolCalls,
    /// Content that is no text, such as a list of parts.
    Parts,
    /// Reasoning, on purpose: chat templates leave it out as well.
    Reasoning,
}

/// When an event was seen by the harness, and when it had arrived in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stamp {
    /// The batch with the read that completed the event was reaped.
    pub seen: u64,
    /// Kernel RX stamp of that read.
    pub arrived: Option<u64>,
    /// The earliest it can have arrived.
    pub arrived_lo: Option<u64>,
}

/// A token event: `[seen, arrived, arrived_lo, tokens, read_no, choice, batch, pos]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Chunk(
    /// seen
    pub u64,
    /// arrived
    pub Option<u64>,
    /// arrived_lo
    pub Option<u64>,
    /// tokens in it, where the server told (token ids, running usage)
    pub Option<u64>,
    /// read of this request, from 0
    pub u32,
    /// choice index
    pub u32,
    /// completion batch of the worker
    pub u64,
    /// place in that batch, from 0
    pub u32,
);

/// Warm-up or measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Dropped by trace id.
    Warmup,
    /// Kept.
    Measured,
}

/// What became of a request that was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Answered whole.
    Ok,
    /// Failed, see `error`.
    Failed,
    /// Still running when the window closed.
    Censored,
    /// Never sent, see `error`.
    NotSent,
}

/// Why it failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RowError {
    /// One of the classes of [`crate::reading::FailureClass`], or a reason for not sending.
    pub class: String,
    /// For people.
    pub text: String,
}

/// Where the count of completion tokens comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokensSource {
    /// The server's usage object.
    Usage,
    /// Token ids on every token event.
    TokenIds,
}

/// Where arrival and wire stamps come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StampSource {
    /// SO_TIMESTAMPING.
    Kernel,
    /// None: `arrived` and `wire_out` are null.
    User,
}
