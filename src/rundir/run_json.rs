//! `run.json`: every published number of a campaign, derived from the raw files. The order of the fields is the
//! order in the file.
//!
//! Latencies are ms, rates per s, shares fractions of 1. A figure that is not defined, or withheld, is null.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::analysis::definitions::curve::{Over, Shape};
use crate::analysis::definitions::failure::{Figure, NotFollowed};
use crate::analysis::definitions::goals::Answer;
use crate::analysis::definitions::rules::GateState;
use crate::analysis::definitions::steadiness::{Drift, Followed};
use crate::goals::{RequestMetric, WindowFigure};
use crate::rundir::arrivals::Arrivals;
use crate::rundir::disclosed::{Disclosed, Lengths};
use crate::rundir::mark::MarkOutcome;
use crate::rundir::sessions::Sessions;
use crate::rundir::soak::Soak;
use crate::rundir::window::{Counters, Load};

/// Its `schema`.
pub const SCHEMA: &str = "tarebench.run/1";

/// A campaign.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunJson {
    /// [`SCHEMA`].
    pub schema: String,
    /// Version that measured; from the plan, like the fields down to `calibration`.
    pub tarebench: Option<String>,
    /// Run id.
    pub run_id: Option<String>,
    /// SHA-256 of the plan.
    pub plan_hash: Option<String>,
    /// Wall clock at the start, RFC 3339.
    pub started_at: Option<String>,
    /// Every window that was opened was closed, uninterrupted.
    pub complete: bool,
    /// Host, kernel, target, what was declared.
    pub environment: Value,
    /// The calibration used.
    pub calibration: Value,
    /// Load points.
    pub cells: Vec<Cell>,
    /// How percentiles follow the load, window by window; empty with fewer than two loads of a kind.
    pub curves: Vec<Curve>,
    /// What holds for the campaign as a whole.
    pub verdicts: Vec<RunVerdict>,
    /// What must stand in every title, see [`crate::analysis::definitions::labels`].
    pub labels: Vec<String>,
    /// Definition id of each metric and column.
    pub definitions: BTreeMap<String, BTreeMap<String, String>>,
}

/// A load point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// From 0.
    pub cell: u32,
    /// What was asked.
    pub load: Load,
    /// In order of time.
    pub windows: Vec<Window>,
    /// Metric, column, percentile: largest relative gap between two windows; null with fewer than two.
    pub noise: BTreeMap<String, BTreeMap<String, NoiseGaps>>,
}

/// A percentile over load, in one window of each load point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// Number of the window in each load point, from 0.
    pub window: u32,
    /// What the loads are.
    pub over: Over,
    /// The cap of an open loop, requests in flight.
    pub at_most: Option<u32>,
    /// How the rate of an open loop changes, and which part of the schedule it is, as in its load points.
    #[serde(default)]
    pub arrivals: Option<String>,
    /// Requests are turns of sessions: the loads are users, or sessions/s.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sessions: bool,
    /// `ttft`, `gap`, `tpot`, `e2e`.
    pub metric: String,
    /// `gross`, `net`, `due`.
    pub column: String,
    /// `p50`, `p95`, `p99`.
    pub percentile: String,
    /// Requests in flight, or per s, ascending; those whose percentile is defined and not withheld.
    pub loads: Vec<f64>,
    /// The percentile at each.
    pub ms: Vec<f64>,
    /// How it goes.
    pub shape: Shape,
    /// Whether a plainer shape fits through the points' 95 % intervals too: a monotone one where this is not monotone,
    /// a level one where it rises or falls. Net's intervals are taken wider by what the stamps leave open (`lo_ms`,
    /// `hi_ms`). Null where a point has no interval.
    pub intervals_overlap: Option<bool>,
    /// For people.
    pub text: String,
}

/// Largest relative gap between two windows, per percentile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoiseGaps {
    /// Of the medians.
    pub p50: Option<f64>,
    /// Of the 95th percentiles.
    pub p95: Option<f64>,
    /// Of the 99th percentiles.
    pub p99: Option<f64>,
}

/// One window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// From 0.
    pub window: u32,
    /// Opened to closed.
    pub duration_s: f64,
    /// Counts.
    pub requests: Requests,
    /// Planned arrivals per s of the realised schedule, where sessions arrive of these; null in closed loop.
    pub offered_rps: Option<f64>,
    /// Submitted per s of the same time; null in closed loop.
    pub achieved_rps: Option<f64>,
    /// What was asked of the schedule and what became of it; null in closed loop.
    pub arrivals: Option<Arrivals>,
    /// Requests in flight, weighted by time.
    pub in_flight: InFlight,
    /// Sums over kept requests; null when none of them reported it.
    pub tokens: TokenSums,
    /// Work per s.
    pub throughput: Throughput,
    /// Latency of the ok requests.
    pub metrics: Metrics,
    /// Time to first token by the state of the connection.
    pub by_conn: ByConn,
    /// Where requests went, where the server has several addresses, in order of the addresses; else empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<AddressShare>,
    /// What the client was doing.
    pub client: Client,
    /// What is withheld, flagged, printed as an interval.
    pub verdicts: Vec<Verdict>,
    /// Whether latency stayed what it was.
    pub steady: Steady,
    /// The first trace ids, apart.
    pub first_requests: Vec<FirstRequest>,
    /// Completion tokens per token event of ok requests that told a count.
    pub tokens_per_event: Option<f64>,
    /// Whether that is 1 in each of them; when not, a gap is between chunks, not tokens.
    pub one_token_per_event: Option<bool>,
    /// Events of kept requests in which tokens may hide.
    pub empty_events: u64,
    /// Token events of ok requests that share a read with another of their request, as a share.
    pub coalesced_share: Option<f64>,
    /// Share of ok requests by finish reason; `none` where there was none.
    pub finish_reasons: BTreeMap<String, f64>,
    /// Flags of kept requests.
    pub flags: BTreeMap<String, FlagCount>,
    /// `model` of the replies of ok requests that named one, with how many did.
    pub model_echoes: BTreeMap<String, u64>,
    /// The server's own counters; null when none were read.
    pub server: Option<ServerActivity>,
    /// Whether it was cut short.
    pub interrupted: bool,
    /// How it stands to the goals fixed before the run; null without any.
    pub goals: Option<GoalsMet>,
    /// What was done on purpose, and what it did to the load; null where nothing was.
    #[serde(default)]
    pub failure: Option<Failure>,
    /// Conversations or chains; null where requests stand alone.
    #[serde(default)]
    pub sessions: Option<Sessions>,
    /// SHA-256 of the realised trace.
    pub trace_hash: String,
    /// Realised lengths by class, beside those asked for.
    pub lengths: Lengths,
    /// What the rows say for the fifteen boxes.
    pub disclosed: Disclosed,
    /// Slice by slice; absent from windows that are too short to judge drift.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soak: Option<Soak>,
}

/// What one address of a server got, warm-up included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddressShare {
    /// Address and port.
    pub address: String,
    /// Requests sent there, or that would have been had the connection come about.
    pub requests: u64,
    /// Ok ones among them.
    pub ok: u64,
    /// Connections opened for one of them; those opened before the window are not among them.
    pub connections: u64,
}

/// A window against its goals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GoalsMet {
    /// The goals of a request; null without any.
    pub request: Option<Goodput>,
    /// Each goal of a window.
    pub window: Vec<LimitMet>,
}

/// How many requests met their goals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Goodput {
    /// Metric and its limit in ms; ttft, ttfo and e2e from due in open loop, the others gross.
    pub goals: BTreeMap<RequestMetric, f64>,
    /// Kept requests.
    pub kept: u64,
    /// Those that are ok with every figure within its limit.
    pub met: u64,
    /// Those with a figure that is not defined and none above: they may have met the goals.
    pub unknown: u64,
    /// `met / kept`.
    pub share: Option<f64>,
    /// 95 % interval of the share (Clopper and Pearson): from `met` below, with `unknown` above.
    pub ci: Option<[f64; 2]>,
    /// The share that is asked for.
    pub needed: f64,
    /// Requests/s that met the goals, in the time of the throughput.
    pub requests_per_s: Option<f64>,
    /// Whether `share` reaches `needed`; null where gross is withheld.
    pub reached: Option<bool>,
    /// What the interval allows to say of it.
    pub answer: Answer,
}

/// One goal of a window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitMet {
    /// `ttft.p99`, `failed`, ..
    pub figure: WindowFigure,
    /// At most, or of rates at least: ms, a share, per s.
    pub limit: f64,
    /// What was found.
    pub found: Option<f64>,
    /// Its 95 % interval.
    pub ci: Option<[f64; 2]>,
    /// What the interval allows to say.
    pub answer: Answer,
}

/// What was done on purpose in a window. Times of the window are s from its opening, those of a mark s from the mark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// From the first due of a kept request to the first mark; null where no mark was reached.
    pub baseline_s: Option<[f64; 2]>,
    /// End of the load: nothing after it shows a recovery. Null where there was none.
    pub load_until_s: Option<f64>,
    /// Arrivals stopped when the server did: fewer requests were touched than users would have sent.
    pub closed_loop: bool,
    /// In the order of the plan.
    pub marks: Vec<MarkEffect>,
}

/// A mark, and what became of the load after it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MarkEffect {
    /// Place in the plan's `injections`.
    pub mark: u32,
    /// What was done.
    pub text: String,
    /// When; null when the window was over before.
    pub started_s: Option<f64>,
    /// When that was over.
    pub ended_s: Option<f64>,
    /// How it ended.
    pub outcome: MarkOutcome,
    /// The same in words.
    pub end: String,
    /// So long the load went on after it.
    pub seen_s: Option<f64>,
    /// Figure by figure; empty when the mark was not reached.
    pub effects: Vec<Effect>,
    /// By the last figure that was back; null when none had left its band, one was not back, or none could be followed.
    pub recovery: Option<Recovered>,
    /// Whether a figure left its band; null when none could be followed.
    pub degraded: Option<bool>,
    /// The requests that were under way meanwhile; null when the mark was not reached.
    pub requests: Option<Touched>,
}

/// A figure before a mark and after it. Rates per s, latencies ms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Effect {
    /// Which.
    pub figure: Figure,
    /// Why it was not followed; the rest is null then.
    pub not_followed: Option<NotFollowed>,
    /// Length of a slice.
    pub slice_s: Option<f64>,
    /// Slices of a value.
    pub slices_per_value: Option<u64>,
    /// Values of the baseline.
    pub n_before: Option<u64>,
    /// Their mean.
    pub before: Option<f64>,
    /// Their standard deviation.
    pub before_sd: Option<f64>,
    /// Beyond it a value is outside the band.
    pub limit: Option<f64>,
    /// How long a figure that is back had to stay so.
    pub hold_s: Option<f64>,
    /// How often it left its band before the next mark; the longest time is told.
    pub excursions: Option<u64>,
    /// Time to degrade: it left its band between these two.
    pub degraded_s: Option<[f64; 2]>,
    /// The value farthest out until it was back.
    pub worst: Option<f64>,
    /// That over `before`.
    pub worst_share: Option<f64>,
    /// Time to recover, and its ends; null when it did not leave its band, or was not seen to be back.
    pub recovery: Option<Recovered>,
}

/// When something was back.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recovered {
    /// At the edge of the first slice inside.
    pub at_s: f64,
    /// As finely as slices can tell.
    pub within_s: [f64; 2],
}

/// Kept requests, and those that should have been, that were under way between a mark and the recovery.
/// `requests = ok + failed + censored + not_sent`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Touched {
    /// From the mark, 0, until so long after it: the recovery, or the close of the window where there was none.
    pub until_s: f64,
    /// All of them.
    pub requests: u64,
    /// Answered whole.
    pub ok: u64,
    /// Of these, with a ttft or a gap longer than that of every request before the first mark; null without any.
    pub slow: Option<u64>,
    /// Lost: failed.
    pub failed: u64,
    /// Lost: cut off at the close.
    pub censored: u64,
    /// Lost: never sent.
    pub not_sent: u64,
    /// Failed ones by class.
    pub by_error: BTreeMap<String, u64>,
    /// Failed or cut off after the first token had come.
    pub broken: u64,
    /// Token events that these delivered before the break.
    pub broken_token_events: u64,
    /// Tokens in them; null where one of them did not tell.
    pub broken_tokens: Option<u64>,
}

/// What the server counted, from just before a window to just after it: warm-up, failed requests and other clients'
/// included. What it does not serve, or what was reset, is null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerActivity {
    /// Scrapes answered while the window was open.
    pub scrapes: u64,
    /// Scrapes of this window that were not answered.
    pub scrapes_failed: u64,
    /// From the scrape before to the scrape after, in s.
    pub span_s: Option<f64>,
    /// Why there are no counters; else null.
    pub no_counters: Option<String>,
    /// Counters that fell, or all of them when the process started anew: they are null here.
    pub resets: Vec<String>,
    /// Requests sent from here, warm-up, retries and each of several choices counted.
    pub requests_sent: u64,
    /// Requests that the server finished.
    pub requests_finished: Option<u64>,
    /// Of these at least so many are not ours.
    pub requests_beyond_ours: Option<u64>,
    /// Prompt tokens it took in.
    pub prompt_tokens: Option<u64>,
    /// Tokens it generated.
    pub generation_tokens: Option<u64>,
    /// Requests it put back into its queue.
    pub preemptions: Option<u64>,
    /// Tokens looked up in its prefix cache.
    pub prefix_cache_queries: Option<u64>,
    /// Tokens found there.
    pub prefix_cache_hits: Option<u64>,
    /// Their share; null when none were looked up.
    pub prefix_cache_hit_share: Option<f64>,
    /// Mean time to first token as the server measures it: without HTTP and the network.
    pub ttft_mean_ms: Option<f64>,
    /// Mean time in its queue.
    pub queue_mean_ms: Option<f64>,
    /// Most requests running, of the scrapes while the window was open.
    pub running_max: Option<f64>,
    /// Most waiting.
    pub waiting_max: Option<f64>,
    /// Highest use of the key-value cache, as a share.
    pub kv_cache_usage_max: Option<f64>,
    /// Smallest round trip of the scrapes' own connections, in us; null when they go elsewhere than the load.
    pub rtt_min_us: Option<u64>,
    /// Largest.
    pub rtt_max_us: Option<u64>,
}

/// Requests by what became of them. `due = not_sent + sent`, `sent = dropped + kept`,
/// `kept = ok + failed + censored`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Requests {
    /// All of them.
    pub due: u64,
    /// Never sent.
    pub not_sent: u64,
    /// Tried, also when no connection came about.
    pub sent: u64,
    /// Warm-up, by trace id.
    pub dropped: u64,
    /// In the statistics.
    pub kept: u64,
    /// Answered whole.
    pub ok: u64,
    /// Failed.
    pub failed: u64,
    /// Running when the window closed.
    pub censored: u64,
    /// Failed ones by class.
    pub by_error: BTreeMap<String, u64>,
    /// Those not sent by reason.
    pub not_sent_reasons: BTreeMap<String, u64>,
}

impl Requests {
    /// Adds those of another window.
    pub fn add(&mut self, other: &Requests) {
        self.due += other.due;
        self.not_sent += other.not_sent;
        self.sent += other.sent;
        self.dropped += other.dropped;
        self.kept += other.kept;
        self.ok += other.ok;
        self.failed += other.failed;
        self.censored += other.censored;
        for (into, from) in
            [(&mut self.by_error, &other.by_error), (&mut self.not_sent_reasons, &other.not_sent_reasons)]
        {
            from.iter().for_each(|(name, n)| *into.entry(name.clone()).or_default() += n);
        }
    }
}

/// Requests in flight from the window's opening to its close.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InFlight {
    /// Over time.
    pub mean: Option<f64>,
    /// Not exceeded for 95 % of the time.
    pub p95: Option<u64>,
    /// Most at once.
    pub max: u64,
    /// Share of the time at the asked concurrency, with sessions that of all users being in one; null without any.
    pub full_share: Option<f64>,
}

/// Sums over kept requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenSums {
    /// Prompt.
    pub prompt: Option<u64>,
    /// Completion.
    pub completion: Option<u64>,
    /// Prompt tokens found in the server's cache; absent is not 0.
    pub cached: Option<u64>,
    /// Completion tokens spent thinking.
    pub reasoning: Option<u64>,
}

/// Work per s between two moments, warm-up and failed requests' tokens included. In closed loop from the first to the
/// last moment at full concurrency (of sessions: with all users in one), else from the opening to the due of the last arrival (or of the first not sent).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Throughput {
    /// From the window's opening.
    pub from_s: Option<f64>,
    /// From the window's opening.
    pub to_s: Option<f64>,
    /// Ok requests that ended in it.
    pub requests_per_s: Option<f64>,
    /// Output tokens that arrived in it.
    pub output_tokens_per_s: Option<f64>,
    /// The same with the prompts that were read in it.
    pub total_tokens_per_s: Option<f64>,
    /// Requests that streamed tokens without telling how many: not in the token figures.
    pub uncounted_requests: u64,
    /// The same from opening to close.
    pub whole: Rates,
}

/// Work per s of the whole window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// Ok requests that ended in it.
    pub requests_per_s: Option<f64>,
    /// Output tokens that arrived in it.
    pub output_tokens_per_s: Option<f64>,
    /// The same with the prompts that were read in it.
    pub total_tokens_per_s: Option<f64>,
}

/// Latency of the ok requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Metrics {
    /// Time to first token.
    pub ttft: FromDue,
    /// Time to first visible output.
    pub ttfo: FromDue,
    /// Time to last token.
    pub e2e: FromDue,
    /// Between consecutive token events.
    pub gap: Between,
    /// Longest gap of a request.
    pub stall: Between,
    /// Per token after the first.
    pub tpot: Between,
    /// Per token after those of the first event.
    pub tpot_adj: Between,
    /// End to end per token.
    pub ntpot: Between,
    /// Hand-over to wire.
    pub upload: Option<Distribution>,
    /// First action after due.
    pub lateness: Option<Distribution>,
    /// Held back by a cap.
    pub dispatch_delay: Option<Distribution>,
    /// Opening a connection.
    pub connect: Connect,
}

/// Columns of a metric that starts with the send.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FromDue {
    /// What the client saw.
    pub gross: Option<Distribution>,
    /// The harness's own share.
    pub tare: Option<Distribution>,
    /// Server and network.
    pub net: Option<Distribution>,
    /// From when it was due.
    pub due: Option<Distribution>,
    /// What a calibration allows to say of net where it could not be measured, upload included; else null.
    pub calibrated: Option<CalibratedNet>,
}

/// Net without kernel stamps: gross less the calibrated tare. Means subtract; percentiles have bounds that hold
/// however tare and server depend on each other, and for the tare of either neighbouring step. In ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CalibratedNet {
    /// Mean of gross less the middle of the mean tares of the two neighbouring steps; null without its error.
    pub mean_ms: Option<f64>,
    /// How far off that may be: half the difference of the two, and the standard error, at most, on top.
    pub mean_error_ms: Option<f64>,
    /// The median lies between these.
    pub p50_ms: Option<[f64; 2]>,
    /// The 90th percentile does.
    pub p90_ms: Option<[f64; 2]>,
    /// The 95th.
    pub p95_ms: Option<[f64; 2]>,
    /// The 99th.
    pub p99_ms: Option<[f64; 2]>,
    /// The 99.9th.
    pub p999_ms: Option<[f64; 2]>,
}

/// Columns of a metric between two events; tare is signed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Between {
    /// What the client saw.
    pub gross: Option<Distribution>,
    /// The harness's own share.
    pub tare: Option<Distribution>,
    /// Server and network.
    pub net: Option<Distribution>,
}

/// Opening a connection, of the requests one was opened for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Connect {
    /// Name resolution.
    pub dns: Option<Distribution>,
    /// TCP handshake.
    pub tcp: Option<Distribution>,
    /// TLS handshake.
    pub tls: Option<Distribution>,
}

/// Figures of one column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Distribution {
    /// Values.
    pub n: u64,
    /// Mean.
    pub mean_ms: Option<f64>,
    /// Standard deviation.
    pub sd_ms: Option<f64>,
    /// Smallest.
    pub min_ms: Option<f64>,
    /// Largest.
    pub max_ms: Option<f64>,
    /// Median.
    pub p50_ms: Option<f64>,
    /// 90th percentile.
    pub p90_ms: Option<f64>,
    /// 95th.
    pub p95_ms: Option<f64>,
    /// 99th.
    pub p99_ms: Option<f64>,
    /// 99.9th.
    pub p999_ms: Option<f64>,
    /// Ends of the 95 % intervals of the percentiles by name (`p50` to `p999`), only those that exist: of gap by drawing
    /// requests again, else by exact ranks. They say what n values can tell of the percentile. Net's are of the figures
    /// that `arrived` gives; how far the stamps bound these stands in `lo_ms` and `hi_ms`, and comes on top: the true
    /// percentile of net may lie lower than the interval by about as much as `lo_ms` is below the percentile, and higher by
    /// as much as `hi_ms` is above it.
    pub ci_ms: BTreeMap<String, [f64; 2]>,
    /// Percentiles of the low ends, net only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lo_ms: Option<Ends>,
    /// Percentiles of the high ends, net between two events only; since the send they are the percentiles themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hi_ms: Option<Ends>,
    /// How percentiles were counted where there were too many values to keep each; absent where all of them decide. The
    /// gaps of so many have no `ci_ms`: which request each came from is not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buckets: Option<String>,
    /// The same per workload class: ttft, e2e and gap, gross and net.
    pub per_class: BTreeMap<String, Distribution>,
}

/// Percentiles of one end of net's interval, in ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ends {
    /// Median.
    pub p50: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 95th.
    pub p95: Option<f64>,
    /// 99th.
    pub p99: Option<f64>,
    /// 99.9th.
    pub p999: Option<f64>,
}

/// Time to first token by the state of the connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ByConn {
    /// A connection that had carried a request.
    pub warm: ConnRow,
    /// One opened for this request.
    pub cold: ConnRow,
    /// One that replaced a connection the server had closed.
    pub reopened: ConnRow,
}

/// One row of [`ByConn`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConnRow {
    /// Ok requests.
    pub n: u64,
    /// Their time to first token.
    pub ttft: Between,
}

/// What the client was doing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// CPU time of the process per wall time; above 1 with several cores.
    pub cpu_per_wall: Option<f64>,
    /// Each worker.
    pub workers: Vec<WorkerLoad>,
    /// Time the hypervisor took, per wall time, mean over the machine's cores, worst 5 s.
    pub steal: Option<f64>,
    /// What it had to do, as it is held against a calibration.
    pub load: ClientLoad,
    /// The calibrated tare at this window's event rate; null when no calibration matches.
    pub calibrated: Option<CalibratedTare>,
    /// Whether the client was fit to measure, signal by signal.
    pub gates: Vec<Gate>,
    /// Losses and repairs.
    pub counters: Counters,
}

/// What the client had to do, one definition for gates and `calibrate --check`. Rates are over the time of the
/// throughput where that is 1 s or more, else over the whole window; warm-up and failed requests count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientLoad {
    /// Requests submitted, per s.
    pub requests_per_s: Option<f64>,
    /// Token events that came, per s.
    pub events_per_s: Option<f64>,
    /// Most requests in flight at once.
    pub streams: u64,
    /// Events of the busiest burst, summed over the workers; null without kernel stamps.
    pub burst: Option<u64>,
}

/// How busy a worker thread was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkerLoad {
    /// From 0.
    pub worker: u32,
    /// Its core.
    pub core: Option<u32>,
    /// CPU time per wall time.
    pub cpu_per_wall: Option<f64>,
    /// The same over its worst 5 s.
    pub worst_5s: Option<f64>,
    /// Time handling non-empty batches and submitting, per wall time.
    pub busy: Option<f64>,
    /// The same over its worst 5 s; null where it was not sampled.
    pub busy_worst_5s: Option<f64>,
    /// Time runnable but not running per wall time, worst second.
    pub run_delay_share: Option<f64>,
    /// Context switches forced on it.
    pub involuntary_switches: Option<u64>,
    /// Time the hypervisor took from its core, per wall time, worst 5 s.
    pub steal: Option<f64>,
    /// Time in soft interrupts on its core, per wall time, worst 5 s.
    pub softirq: Option<f64>,
    /// `seen - arrived` of its token events, p99 in ms, the window's or that of its worst 5 s.
    pub read_delay_p99_ms: Option<f64>,
    /// How it followed events that came together; null without kernel stamps.
    pub bursts: Option<Bursts>,
}

/// Events that came together: a burst is a batch with those right after it that brought something which had arrived
/// before that first batch was seen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bursts {
    /// How many.
    pub n: u64,
    /// Time from first arrival to last event seen, p99.9 in ms, each burst counted once for each of its events; the
    /// window's or that of its worst 5 s.
    pub drain_p999_ms: f64,
    /// The longest.
    pub drain_max_ms: f64,
    /// Events of the largest.
    pub busiest: u64,
}

/// A signal of the client's fitness.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gate {
    /// Its name, e.g. `run_queue`.
    pub gate: String,
    /// `window`, or `worker 0`.
    pub scope: String,
    /// Null when it could not be had.
    pub figure: Option<f64>,
    /// `share`, `ms`, `count`.
    pub unit: String,
    /// Beyond this it is flagged.
    pub warn: Option<f64>,
    /// Beyond this its columns are withheld.
    pub void: Option<f64>,
    /// What it says.
    pub state: GateState,
    /// Columns that are withheld when it is void; of `net_width` only the percentiles that are too wide.
    pub voids: Vec<String>,
    /// For people.
    pub text: String,
}

/// The tare that a calibration of this host found at the steps around this event rate: of the one below and the one at
/// or above, the smaller figure and the larger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CalibratedTare {
    /// Token events per s of the window.
    pub events_per_s: f64,
    /// Event rate of the highest calibrated step below; null when the window is below all of them.
    pub below_events_per_s: Option<f64>,
    /// Event rate of the lowest calibrated step at or above; null when the window is beyond all of them.
    pub above_events_per_s: Option<f64>,
    /// Where the mock of the calibration was: `loopback`, or its URL.
    pub placement: Option<String>,
    /// Values behind it, of the step that has fewer.
    pub n: u64,
    /// Mean, in us.
    pub mean_us: [f64; 2],
    /// Median, in us.
    pub p50_us: Option<[f64; 2]>,
    /// 99th percentile, in us.
    pub p99_us: Option<[f64; 2]>,
}

/// Something a reader must know about a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// A metric, `requests`, `tokens`, or `*` for all; `gap/short` is a class, `ttft@warm` a state of connection.
    pub metric: String,
    /// A column, or `*`.
    pub column: String,
    /// One percentile, or null for all.
    pub percentile: Option<String>,
    /// What follows from it.
    pub kind: VerdictKind,
    /// What fired.
    pub figure: Option<f64>,
    /// For people.
    pub text: String,
}

/// What follows from a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VerdictKind {
    /// Null in the column.
    Withheld,
    /// Both ends are printed.
    Both,
    /// Printed, with a mark.
    Flag,
    /// Too many failed.
    Failed,
}

/// Something a reader must know about the campaign.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunVerdict {
    /// Load point, or null.
    pub cell: Option<u32>,
    /// Window, or null.
    pub window: Option<u32>,
    /// `failed`, `interrupted`, `invalid`, `window_without_end`, `half_written`, `calibration` (it was not used).
    pub kind: String,
    /// For people.
    pub text: String,
}

/// Whether latency stayed what it was over a window. Made of gross, of ok requests in order of submit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Steady {
    /// The gravest of both metrics.
    pub drift: Drift,
    /// Time to first token.
    pub ttft: SteadyMetric,
    /// Time to last token.
    pub e2e: SteadyMetric,
}

/// One metric of it. Kept requests, but for `warm_up`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SteadyMetric {
    /// What was followed: gross, or net where gross is withheld; null where both are.
    pub column: Option<Followed>,
    /// Kept requests with a value.
    pub n: u64,
    /// How long it took to settle; null with fewer than 50 requests.
    pub warm_up: Option<WarmUp>,
    /// Beginning and end; null with fewer than 30.
    pub thirds: Option<Thirds>,
    /// What requests remember of those before; null with fewer than 50, or when all are equal.
    pub autocorrelation: Option<Autocorrelation>,
    /// The gravest of both percentiles.
    pub drift: Drift,
    /// Why drift and change points were not looked for; else null.
    pub reason: Option<String>,
    /// What they were looked for in; null when they were not.
    pub slices: Option<Slices>,
    /// Trend of the slices' medians; null also when all are equal.
    pub p50: Option<SliceTrend>,
    /// Of their 95th percentiles.
    pub p95: Option<SliceTrend>,
    /// Where the level of the slices' medians changed; empty when there are none, or `slices` is null.
    pub change_points: Vec<ChangePoint>,
    /// The same of their 95th percentiles.
    #[serde(default)]
    pub p95_change_points: Vec<ChangePoint>,
}

/// How long latency took to settle, by MSER-5 over all ok requests, the dropped ones included.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WarmUp {
    /// Ok requests looked at.
    pub n: u64,
    /// The first so many, in order of submit, are better cut off.
    pub cut: u64,
    /// Those among them that are kept.
    pub kept_in_cut: u64,
    /// Median of the kept in the cut, ms; null when there are none.
    pub before_ms: Option<f64>,
    /// Median of those after it, ms.
    pub after_ms: Option<f64>,
    /// Two-sided probability (rank sum, for the autocorrelation of the rest) that the two are alike; null when there is
    /// nothing to compare.
    pub p: Option<f64>,
    /// The cut is half of all, the most that the rule may take: it may not have settled at all.
    pub at_limit: bool,
    /// Kept requests are cut, and they differ from the rest: more should be dropped.
    pub longer_than_dropped: bool,
}

/// Medians of the first and the last third of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Thirds {
    /// Of the first third, ms.
    pub first_ms: f64,
    /// Of the last, ms.
    pub last_ms: f64,
    /// Last over first.
    pub ratio: Option<f64>,
}

/// What requests remember of those before them, by rank.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Autocorrelation {
    /// Correlation of neighbours.
    pub lag_1: f64,
    /// Integrated autocorrelation time in requests, 1 for independent ones.
    pub time: f64,
    /// n over that.
    pub n_eff: f64,
    /// `time` is at least, `n_eff` at most, what is said: longer lags were not summed.
    pub at_most: bool,
}

/// Slices of equal time from the first kept submit to the last.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Slices {
    /// How many.
    pub n: u64,
    /// Length of each.
    pub length_s: f64,
    /// Requests in the emptiest.
    pub fewest_requests: u64,
    /// Integrated autocorrelation time in requests once trend or levels are taken off; a slice holds twice that where
    /// there is room for it.
    pub autocorrelation_time: f64,
}

/// Mann and Kendall's test and the slope of Theil and Sen over one percentile of the slices.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SliceTrend {
    /// Whether that is a drift.
    pub drift: Drift,
    /// Pairs of slices that rise less pairs that fall.
    pub s: i64,
    /// Two-sided probability of that without a trend.
    pub p: f64,
    /// Correlation of neighbouring slices that p and intervals allow for.
    pub lag_1: f64,
    /// Slope.
    pub ms_per_10_min: f64,
    /// Its 95 % interval.
    pub ms_per_10_min_ci: [f64; 2],
    /// Slope as a share of the median slice.
    pub share_per_10_min: Option<f64>,
    /// Its 95 % interval.
    pub share_per_10_min_ci: Option<[f64; 2]>,
}

/// A new level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangePoint {
    /// Where its first slice begins, from the window's opening.
    pub at_s: f64,
    /// Median of the slices of the level before, ms.
    pub before_ms: f64,
    /// Of this one, ms.
    pub after_ms: f64,
}

/// One of the first requests of a window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FirstRequest {
    /// From 0.
    pub trace_id: u64,
    /// `ok`, `failed`, `censored`, `not_sent`.
    pub outcome: crate::rundir::row::Outcome,
    /// Time to first token, gross.
    pub ttft_gross_ms: Option<f64>,
    /// The harness's share of it.
    pub ttft_tare_ms: Option<f64>,
    /// Server and network.
    pub ttft_net_ms: Option<f64>,
}

/// How often a flag was raised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlagCount {
    /// Requests that bear it.
    pub requests: u64,
    /// Sum of its counts; a flag without one counts 1.
    pub total: u64,
}

impl Distribution {
    /// The percentile of that name (`p50` to `p999`), in ms.
    pub fn percentile(&self, name: &str) -> Option<f64> {
        match name {
            "p50" => self.p50_ms,
            "p90" => self.p90_ms,
            "p95" => self.p95_ms,
            "p99" => self.p99_ms,
            "p999" => self.p999_ms,
            _ => None,
        }
    }
}

impl Ends {
    /// The percentile of that name (`p50` to `p999`), in ms.
    pub fn percentile(&self, name: &str) -> Option<f64> {
        match name {
            "p50" => self.p50,
            "p90" => self.p90,
            "p95" => self.p95,
            "p99" => self.p99,
            "p999" => self.p999,
            _ => None,
        }
    }
}

impl Metrics {
    /// Every distribution with its metric and column, in the order of the file; `value` where a metric is one.
    pub fn columns(&self) -> Vec<(&'static str, &'static str, Option<&Distribution>)> {
        let mut all = Vec::with_capacity(33);
        for (name, m) in [("ttft", &self.ttft), ("ttfo", &self.ttfo), ("e2e", &self.e2e)] {
            let columns = [("gross", &m.gross), ("tare", &m.tare), ("net", &m.net), ("due", &m.due)];
            all.extend(columns.map(|(column, d)| (name, column, d.as_ref())));
        }
        let between = [
            ("gap", &self.gap),
            ("stall", &self.stall),
            ("tpot", &self.tpot),
            ("tpot_adj", &self.tpot_adj),
            ("ntpot", &self.ntpot),
        ];
        for (name, m) in between {
            let columns = [("gross", &m.gross), ("tare", &m.tare), ("net", &m.net)];
            all.extend(columns.map(|(column, d)| (name, column, d.as_ref())));
        }
        let single = [("upload", &self.upload), ("lateness", &self.lateness), ("dispatch_delay", &self.dispatch_delay)];
        all.extend(single.map(|(name, d)| (name, "value", d.as_ref())));
        let parts = [("dns", &self.connect.dns), ("tcp", &self.connect.tcp), ("tls", &self.connect.tls)];
        all.extend(parts.map(|(part, d)| ("connect", part, d.as_ref())));
        all
    }
}
