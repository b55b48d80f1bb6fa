//! A long window slice by slice: part of `run.json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::analysis::definitions::steadiness::Drift;

/// Of windows that are long enough to judge drift. Slices are of equal time from the opening, the last one may be shorter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Soak {
    /// Length of a slice: 30 s, less in windows of a few minutes, more where there would be more than 500.
    pub slice_s: f64,
    /// In order of time.
    pub slices: Vec<SoakSlice>,
    /// Trend of the slices' output tokens/s, of those that lie whole in the time of the throughput; null where these are too
    /// few, one of them is not known, or all are equal.
    pub throughput: Option<RateTrend>,
    /// Where the level of these changed.
    pub throughput_changes: Vec<RateChange>,
    /// Resident memory of the client; null where it was not sampled.
    pub client_memory: Option<ClientMemory>,
}

/// One slice. Null what there is none of, and what the window withholds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SoakSlice {
    /// Its beginning, s from the opening.
    pub from_s: f64,
    /// Requests submitted in it, warm-up and all.
    pub sent: u64,
    /// Ok requests that ended in it.
    pub ok: u64,
    /// Failed ones that did.
    pub failed: u64,
    /// Median time to first token of the kept ok requests submitted in it, gross.
    pub ttft_gross_p50_ms: Option<f64>,
    /// 95th percentile of these; null below 20.
    pub ttft_gross_p95_ms: Option<f64>,
    /// Median of net.
    pub ttft_net_p50_ms: Option<f64>,
    /// 95th percentile of net.
    pub ttft_net_p95_ms: Option<f64>,
    /// Output tokens that arrived in it, per s.
    pub output_tokens_per_s: Option<f64>,
    /// Most resident memory of the client.
    pub client_rss_bytes: Option<u64>,
    /// Most requests that the server kept waiting at a scrape.
    pub server_waiting: Option<f64>,
    /// Highest use of its key-value cache at a scrape, as a share.
    pub server_kv_cache_usage: Option<f64>,
}

/// Mann and Kendall's test and the slope of Theil and Sen over a rate, per s.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateTrend {
    /// Whether that is a drift.
    pub drift: Drift,
    /// Slices.
    pub slices: u64,
    /// Pairs of slices that rise less pairs that fall.
    pub s: i64,
    /// Two-sided probability of that without a trend.
    pub p: f64,
    /// Correlation of neighbouring slices that p and intervals allow for.
    pub lag_1: f64,
    /// Slope.
    pub per_10_min: f64,
    /// Its 95 % interval.
    pub per_10_min_ci: [f64; 2],
    /// Slope as a share of the median slice.
    pub share_per_10_min: Option<f64>,
    /// Its 95 % interval.
    pub share_per_10_min_ci: Option<[f64; 2]>,
}

/// A new level of a rate, per s.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateChange {
    /// Where its first slice begins, from the window's opening.
    pub at_s: f64,
    /// Median of the slices of the level before.
    pub before: f64,
    /// Of this one.
    pub after: f64,
}

/// Resident memory of the client, bytes: upper medians of the slices' largest, and the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientMemory {
    /// In the first third of the slices.
    pub first_third: u64,
    /// In the last.
    pub last_third: u64,
    /// In any.
    pub most: u64,
}
