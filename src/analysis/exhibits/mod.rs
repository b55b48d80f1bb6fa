//! What the pictures of a report are drawn of: more than `run.json` holds, less than the rows. One pass over the raw files,
//! in memory that follows the largest window, and of a size that does not grow with the number of requests.
//!
//! Nothing here knows what is withheld: who draws asks `run.json` (a percentile that is null there is in no picture).
//! Latencies are ms, times s.

use std::path::Path;

/// At most so many [`Slice`]s a window.
pub const MOST_SLICES: usize = 120;
/// Rows of a [`GapMap`].
pub const GAP_ROWS: usize = 24;

/// What is drawn of a campaign.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exhibits {
    /// In the order of `windows.jsonl`.
    pub windows: Vec<WindowExhibits>,
    /// What was done to the server or the client on purpose, in order of time; in s from the campaign's start.
    pub marks: Vec<Mark>,
}

/// Something that was done on purpose.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// s from the campaign's start.
    pub at_s: f64,
    /// What.
    pub text: String,
}

/// What is drawn of a window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WindowExhibits {
    /// Load point, from 0.
    pub cell: u32,
    /// Window of it, from 0.
    pub window: u32,
    /// Its opening, s from the campaign's start.
    pub opened_s: f64,
    /// To its close.
    pub duration_s: f64,
    /// Trace ids below the drop ended here, s from the opening: the last of the warm-up's sends; None without warm-up.
    pub warmup_until_s: Option<f64>,
    /// Length of a slice; the last one may be shorter.
    pub slice_s: f64,
    /// Equal parts of the window, in order of time, at most [`MOST_SLICES`].
    pub slices: Vec<Slice>,
    /// Time to first token of the ok requests.
    pub ttft: Spread,
    /// Time to last token.
    pub e2e: Spread,
    /// Between token events of different reads.
    pub gap: Spread,
    /// When gaps of which length ended.
    pub gap_map: GapMap,
    /// The client, sample by sample.
    pub client: Vec<ClientSample>,
    /// The server's own gauges, scrape by scrape; empty where none were read.
    pub server: Vec<ServerSample>,
}

/// A part of a window's time. Warm-up requests count in what the server did, and are in no latency.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slice {
    /// Its beginning, s from the opening.
    pub from_s: f64,
    /// Requests submitted in it.
    pub sent: u64,
    /// Ok requests that ended in it.
    pub ok: u64,
    /// Failed ones that ended in it.
    pub failed: u64,
    /// Mean requests in flight.
    pub in_flight: f64,
    /// Output tokens that arrived in it, per s; None where no request told its tokens.
    pub output_tokens_per_s: Option<f64>,
    /// Median time to first token of the measured ok requests submitted in it, gross.
    pub ttft_gross_p50_ms: Option<f64>,
    /// Largest of these.
    pub ttft_gross_max_ms: Option<f64>,
    /// Median of net.
    pub ttft_net_p50_ms: Option<f64>,
    /// Largest of net.
    pub ttft_net_max_ms: Option<f64>,
    /// Largest lateness of the requests due in it; None in closed loop.
    pub lateness_max_ms: Option<f64>,
}

/// The columns of one metric.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spread {
    /// What the client saw.
    pub gross: Quantiles,
    /// The harness's own share.
    pub tare: Quantiles,
    /// Server and network.
    pub net: Quantiles,
    /// From when it was due; empty for gaps.
    pub due: Quantiles,
}

/// A distribution as a curve over a percentile axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quantiles {
    /// Values.
    pub n: u64,
    /// `(percentile, ms)`: from (0, smallest) to (100, largest), ascending, at most 60 points, the published percentiles
    /// among them; between these every halving of the distance to 100 has some as far as n carries. Type 7.
    pub points: Vec<(f64, f64)>,
}

/// Counts of gaps (gross) by when they ended and how long they were.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GapMap {
    /// Lower edge of the lowest row, ms; rows are equal in the logarithm.
    pub floor_ms: f64,
    /// Upper edge of the highest row, ms.
    pub ceiling_ms: f64,
    /// One a slice of the window: counts from the lowest row up, [`GAP_ROWS`] each; empty without gaps.
    pub columns: Vec<Vec<u64>>,
}

/// The client between two samples of `health.jsonl`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientSample {
    /// The end of the time it speaks of, s from the opening.
    pub at_s: f64,
    /// Worker, from 0.
    pub worker: u32,
    /// CPU time per wall time; of workers that spin, busy time.
    pub cpu_per_wall: Option<f64>,
    /// Time on non-empty batches and on submitting, per wall time.
    pub busy: Option<f64>,
    /// Time runnable but not running, per wall time.
    pub run_queue: Option<f64>,
    /// Time that the hypervisor took from its core, per wall time.
    pub steal: Option<f64>,
}

/// The server's own gauges at a scrape.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServerSample {
    /// s from the opening.
    pub at_s: f64,
    /// Requests running.
    pub running: Option<f64>,
    /// Requests waiting.
    pub waiting: Option<f64>,
    /// Use of the key-value cache, as a share.
    pub kv_cache_usage: Option<f64>,
}

impl Exhibits {
    /// Of a run directory.
    ///
    /// # Errors
    /// A file that cannot be read, or a line of it that is not what it must be.
    pub fn of_directory(_dir: &Path) -> anyhow::Result<Exhibits> {
        Ok(Exhibits::default())
    }
}
