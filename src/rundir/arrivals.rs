//! What was asked of a window's schedule and what became of it: part of `run.json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::analysis::definitions::arrivals::{LawTest, Spread};

/// Of an open loop or a trace. All requests count, warm-up and failed ones too: they all are load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Arrivals {
    /// Mean requests/s of the law over the schedule; null for traces, and for all at once.
    pub asked_rps: Option<f64>,
    /// Requests due in the schedule's window: from the opening to before the due of the last, or of the first not sent.
    /// All of them where it has no length.
    pub planned: u64,
    /// Those per s; null without length.
    pub offered_rps: Option<f64>,
    /// Requests submitted in that time, per s.
    pub achieved_rps: Option<f64>,
    /// `achieved_rps / offered_rps`.
    pub achieved_share: Option<f64>,
    /// Requests sent, at any time.
    pub sent: u64,
    /// Requests that were due and never sent.
    pub not_sent: u64,
    /// Most requests in flight.
    pub cap: Option<u32>,
    /// What that cap did; null without one.
    pub held_back: Option<HeldBack>,
    /// From the later of due and the moment a slot was free to the first action, in ms.
    pub lateness_ms: Option<Spread>,
    /// How long a cap held requests back after they were due, in ms; null without one.
    pub dispatch_delay_ms: Option<Spread>,
    /// Index of dispersion of counts: in bins of 100 ms, and of 1 s where there are at least 30.
    pub dispersion: Vec<Dispersion>,
    /// How far the gaps between neighbours in the trace are from the planned ones, without sign, in us.
    pub gap_error_us: GapError,
    /// Tests of the gaps against the law; null where nothing is drawn.
    pub anderson_darling: Option<LawTests>,
}

/// Requests that found no free slot when they were due.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HeldBack {
    /// Those with a dispatch delay above 1 ms.
    pub requests: u64,
    /// Their share of those that were tried.
    pub share: Option<f64>,
    /// The longest delay.
    pub longest_ms: Option<f64>,
    /// Planned requests that had no slot before the schedule was over.
    pub past_end: u64,
}

/// Variance over mean of the counts in bins: 1 for a Poisson process, 0 for an even one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dispersion {
    /// Length of a bin.
    pub bin_ms: u64,
    /// Bins.
    pub bins: u64,
    /// Of the dues.
    pub planned: f64,
    /// Of `wire_out`, less its median lag; null without kernel stamps.
    pub wire: Option<f64>,
}

/// How far gaps are from the planned ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GapError {
    /// Between `wire_out`.
    pub wire: Option<Spread>,
    /// Between `submit`.
    pub submit: Option<Spread>,
}

/// The same test on what was drawn and on what went out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LawTests {
    /// All planned gaps, up to 100,000: tests the drawing. Chance makes p smaller than .01 once in 100 schedules.
    pub schedule: Option<LawTest>,
    /// Of the schedule those gaps that are tested on the wire.
    pub schedule_thinned: Option<LawTest>,
    /// Gaps on the wire, in the order in which the requests went out, at most 500: tests what the client made of it.
    pub wire: Option<LawTest>,
}
