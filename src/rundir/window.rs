//! One line of `windows.jsonl`: the bounds of a window and the facts of its schedule.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A window, as it stands in the file. Times in ns from the campaign's start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WindowRow {
    /// Run id.
    pub run: String,
    /// Load point, from 0.
    pub cell: u32,
    /// Window within the cell, from 0.
    pub window: u32,
    /// What was asked of the load.
    pub load: Load,
    /// All slots were released: the origin of the schedule.
    pub opened: u64,
    /// The last request was over, or was cut off.
    pub closed: u64,
    /// Requests planned here, the dropped ones included; in closed loop more may be sent under a minimum duration.
    pub planned: u64,
    /// Trace ids below this one are warm-up.
    pub drop: u64,
    /// Requests that could be in flight at once.
    pub slots: u32,
    /// The workers never slept: their CPU time says nothing, their busy time does.
    #[serde(default)]
    pub spin: bool,
    /// SHA-256 of the realised trace, hex.
    pub trace_hash: String,
    /// SHA-256 of the planned dues in ns from the opening, one a line, hex; where several hosts share the schedule, of
    /// all of it. Null in closed loop.
    #[serde(default)]
    pub schedule_hash: Option<String>,
    /// Whether it was cut short.
    pub interrupted: bool,
    /// Rows of this window in `requests.jsonl`.
    pub rows: u64,
    /// `h` of the last of them; zeros when there is none.
    pub last_h: String,
    /// The file of rows that held the last of them when the window was over, from 1: beyond 1 it is `requests.N.jsonl`.
    #[serde(default = "first_part", skip_serializing_if = "is_first_part")]
    pub part: u32,
    /// What was lost or had to be repaired.
    #[serde(flatten)]
    pub counters: Counters,
    /// Each worker's accounting over the window.
    pub workers: Vec<WorkerShare>,
}

fn first_part() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde hands it over so
fn is_first_part(part: &u32) -> bool {
    *part == 1
}

/// The load asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// What decides when a request starts.
    pub model: LoadModel,
    /// Requests in flight: the load itself in closed loop, a cap elsewhere.
    pub concurrency: Option<u32>,
    /// Nominal requests/s of this host, the mean over the schedule where the rate changes or a trace is replayed; null in
    /// closed loop and for all at once.
    pub rate: Option<f64>,
    /// What that does not tell, in words: how the rate changes, which part of the schedule this host sends; null where
    /// all of it comes at a constant rate.
    #[serde(default)]
    pub arrivals: Option<String>,
    /// Where requests are turns of sessions: what these are like. `concurrency` is then the number of users who lead one
    /// session after another, and `rate` that of sessions/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<Sessions>,
}

impl Load {
    /// `closed`, `open` or `trace`; of sessions `closed-sessions`, whose concurrency is users, and `open-sessions`, whose rate
    /// is sessions/s.
    pub fn model_name(&self) -> &'static str {
        match (self.model, self.sessions.is_some()) {
            (LoadModel::Closed, false) => "closed",
            (LoadModel::Closed, true) => "closed-sessions",
            (LoadModel::Open, false) => "open",
            (LoadModel::Open, true) => "open-sessions",
            (LoadModel::Trace, _) => "trace",
        }
    }

    /// Requests/s asked for. None where there is no such rate: in closed loop, for all at once, and where sessions arrive,
    /// most of whose requests follow a reply.
    pub fn request_rate(&self) -> Option<f64> {
        self.rate.filter(|_| self.sessions.is_none())
    }

    /// Sessions/s asked for; None where none arrive by a rate.
    pub fn session_rate(&self) -> Option<f64> {
        self.rate.filter(|_| self.sessions.is_some())
    }
}

/// What the sessions of a load are like.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sessions {
    /// Conversations of people or tasks of agents.
    pub kind: SessionKind,
    /// Fewest and most turns.
    pub turns: [u32; 2],
    /// The pauses in words, e.g. `think time 2 s`; null where there are none.
    pub pause: Option<String>,
    /// Turns are due at a fixed pace, not after the reply before.
    pub paced: bool,
    /// Sessions planned, the dropped ones included.
    pub planned: u64,
    /// Sessions below this id are warm-up.
    pub drop: u64,
}

/// Conversations of people or tasks of agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionKind {
    /// Reads, thinks, asks again.
    Chat,
    /// Dependent calls of an agent.
    Chain,
}

/// What decides when a request starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LoadModel {
    /// A slot that became free.
    Closed,
    /// A drawn schedule.
    Open,
    /// Captured times.
    Trace,
}

/// Losses and repairs within one window, counts unless named otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counters {
    /// TX stamps that did not come within 100 ms.
    pub tx_stamps_missing: u64,
    /// Reads without an RX stamp.
    pub rx_stamps_missing: u64,
    /// Stamps out of order by more than the mapping's uncertainty, made null.
    pub stamps_out_of_order: u64,
    /// Steps of the wall clock.
    pub clock_steps: u64,
    /// Largest half-width of the mapping between the clocks, in ns.
    pub map_uncertainty_ns: u64,
    /// Completions lost by a full ring.
    pub ring_overflow: u64,
    /// Multishot receives re-armed after ENOBUFS.
    pub receives_repeated: u64,
    /// Requests that found the block pool empty.
    pub pool_exhausted: u64,
    /// Closed loop: times a free slot had to wait for a prepared body. Open loop: requests whose body was not ready
    /// when they were due.
    pub supply_starved: u64,
    /// Times a worker had to wait for the record reader, whose queue was full.
    #[serde(default)]
    pub reader_waits: u64,
    /// Connections opened.
    pub connections_opened: u64,
    /// Kept-alive connections that the server closed.
    pub connections_closed_by_server: u64,
}

/// A worker's accounting over one window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkerShare {
    /// Worker thread, from 0.
    pub worker: u32,
    /// Core it is pinned to.
    pub core: Option<u32>,
    /// Kernel thread id.
    pub tid: u64,
    /// Completion batches reaped.
    pub batches: u64,
    /// Most completions in one batch.
    pub max_batch: u64,
    /// Time spent on non-empty batches and on submitting, in ns.
    pub busy_ns: u64,
}
