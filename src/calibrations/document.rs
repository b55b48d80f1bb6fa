//! `calibration.json`: what a calibration found. The order of the fields is the order in the file.

use super::identity::{Config, Host};
use calibration::clock_cost::ClockCost;
use calibration::closure::Closure;
use calibration::model::Fit;
use calibration::parser_cost::ParserCost;
use calibration::spread::{Errors, Spread};
use calibration::truth::Summary;
use calibration::verdict::{Limit, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Its `schema`.
pub const SCHEMA: &str = "tarebench.calibration/1";
/// Its name in its directory.
pub const FILE: &str = "calibration.json";

/// One calibration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calibration {
    /// [`SCHEMA`].
    pub schema: String,
    /// Names it: the time at which it was made.
    pub id: String,
    /// Wall clock at its start, ns since 1970.
    pub made_at_ns: u64,
    /// Version of the harness.
    pub tarebench: String,
    /// `quick` or `full`.
    pub depth: String,
    /// `loopback`, or the mock's URL on another host.
    pub placement: String,
    /// How long it took, s.
    pub took_s: f64,
    /// It was interrupted: limits that were not reached are null.
    pub interrupted: bool,
    /// Where.
    pub host: Host,
    /// How the harness ran.
    pub config: Config,
    /// L0.
    pub clock: ClockCost,
    /// L1.
    pub parser: ParserCost,
    /// L2, or L3 on another host: every step of load, in order of time.
    pub ladder: Vec<Step>,
    /// Waiting as a queue would have it, fitted below half load.
    pub model: Option<Fit>,
    /// |net - truth| of ttft, all valid steps together.
    pub closure_us: Option<Errors>,
    /// What is to be trusted here.
    pub verdict: VerdictDocument,
}

/// The verdict in numbers and words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictDocument {
    /// Requests/s.
    pub requests_per_s: Option<u64>,
    /// Token events/s.
    pub events_per_s: Option<u64>,
    /// Streams at once.
    pub streams: Option<u64>,
    /// Streams whose tokens come in lock step.
    pub burst: Option<u64>,
    /// For people.
    pub text: String,
    /// How each limit was found.
    pub limits: Limits,
}

/// How each limit was found; null where it was not sought.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// Requests/s.
    pub requests_per_s: Option<Limit>,
    /// Token events/s.
    pub events_per_s: Option<Limit>,
    /// Streams at once.
    pub streams: Option<Limit>,
    /// Streams whose tokens come in lock step.
    pub burst: Option<Limit>,
}

impl From<Verdict> for VerdictDocument {
    fn from(verdict: Verdict) -> Self {
        VerdictDocument {
            requests_per_s: Some(verdict.requests_per_s.value),
            events_per_s: Some(verdict.events_per_s.value),
            streams: Some(verdict.streams.value),
            burst: verdict.burst.as_ref().map(|l| l.value),
            text: verdict.text,
            limits: Limits {
                requests_per_s: Some(verdict.requests_per_s),
                events_per_s: Some(verdict.events_per_s),
                streams: Some(verdict.streams),
                burst: verdict.burst,
            },
        }
    }
}

/// What is varied from step to step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Streams at once, at a moderate rate of events.
    Streams,
    /// Requests/s in open loop, of short replies.
    Requests,
    /// Token events/s, on a fixed number of streams.
    Events,
    /// Streams whose tokens come in lock step.
    Burst,
    /// A connection for each request.
    Cold,
}

/// The load of one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepLoad {
    /// What was varied.
    pub family: Family,
    /// Its value: streams, requests/s, events/s, burst.
    pub value: f64,
    /// `closed` or `open`.
    pub model: String,
    /// Requests at once; a cap in open loop.
    pub concurrency: u32,
    /// Requests/s, open loop only.
    pub rate: Option<f64>,
    /// The mock's time to first token, ms.
    pub ttft_ms: f64,
    /// The mock's time between token events, ms.
    pub itl_ms: f64,
    /// All streams write at multiples of this, ms; null: each on its own.
    pub lockstep_ms: Option<f64>,
    /// Token events of a reply.
    pub tokens: u32,
    /// Token events/s that this comes to.
    pub events_per_s: f64,
}

/// One step of the ladder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// What was asked.
    pub load: StepLoad,
    /// Its run directory, beside this file.
    pub dir: String,
    /// How long the window was, s.
    pub duration_s: f64,
    /// Kept requests, and those answered.
    pub requests: u64,
    /// Of these, answered whole.
    pub ok: u64,
    /// Planned requests/s; null in closed loop.
    pub offered_rps: Option<f64>,
    /// Requests/s: submitted in open loop, else completed.
    pub achieved_rps: Option<f64>,
    /// Token events/s over the whole window.
    pub achieved_events_per_s: f64,
    /// gross - truth of ttft.
    pub gross_err_us: Errors,
    /// net - truth of ttft.
    pub net_err_us: Errors,
    /// The harness's own share of ttft.
    pub tare_us: Spread,
    /// Everything about errors and tare.
    pub closure: Closure,
    /// The client, worst worker.
    pub client: StepClient,
    /// How the mock fared; null when its log has no end.
    pub mock: Option<Summary>,
    /// No gate is past its limit, and the error is inside the bound.
    pub valid: bool,
    /// Why not, and what else is to be known.
    pub reasons: Vec<String>,
    /// The mock was full before the client: nothing is known of the client at this load.
    pub mock_limited: bool,
}

/// The client in one step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepClient {
    /// CPU time per wall time of the busiest worker.
    pub cpu_per_wall: Option<f64>,
    /// Share of the time the busiest worker was handling something.
    pub busy: Option<f64>,
    /// Largest share of a second it was ready to run and did not.
    pub run_delay_share: Option<f64>,
    /// CPU time of the whole process per wall time.
    pub process_cpu_per_wall: Option<f64>,
    /// Completions in one return of the kernel: mean.
    pub mean_batch: Option<f64>,
    /// Completions in one return of the kernel: most.
    pub max_batch: u64,
    /// Longest time from a burst's first arrival to its last event seen, p99.9, us.
    pub burst_drain_us: Option<f64>,
    /// Most events of one burst.
    pub largest_burst: Option<u64>,
    /// Mean of seen - arrived over all token events, us.
    pub mean_wait_us: Option<f64>,
}
