//! Flags of `import`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "Examples:
  tarebench import study/mistral-3-14B.json
      the record files of the serverless tail-latency study: sweep, chains, and whether the file agrees with itself
  tarebench import latencies.csv --total-column wait_s --by arm
      named columns, a group for each arm; a file of bare numbers is read as total in ms

Forms: JSON with baseline_sweep.concurrency_N.records[] and chained_session; an array, or records, requests, results or
raw, of objects with ttft_ms, total_ms, max_gap_ms, completion_tokens, error, abandoned_after_ms; one such object a line;
delimited text (comma, semicolon, tab), whose columns may end in _ms, _us, _ns or _s.";

/// Flags of `import`.
#[derive(Clone, Debug, Args)]
pub struct ImportArgs {
    /// Files of records
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Delimited text: column of the time to first token [default: ttft, time_to_first_token, first_token]
    #[arg(long, value_name = "NAME")]
    pub ttft_column: Option<String>,
    /// Delimited text: column of the total [default: total, e2e, e2el, latency, duration, elapsed]
    #[arg(long, value_name = "NAME")]
    pub total_column: Option<String>,
    /// Delimited text: a group for each value of this column
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
    /// Delimited text: unit of columns whose names do not tell [default: ms]
    #[arg(long, value_enum, value_name = "UNIT")]
    pub unit: Option<TimeUnit>,
    /// Print one JSON document a file, one a line
    #[arg(long)]
    pub json: bool,
}

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TimeUnit {
    /// Seconds
    S,
    /// Milliseconds
    Ms,
    /// Microseconds
    Us,
    /// Nanoseconds
    Ns,
}

impl TimeUnit {
    /// ms in one of them.
    pub fn ms(self) -> f64 {
        match self {
            TimeUnit::S => 1e3,
            TimeUnit::Ms => 1.0,
            TimeUnit::Us => 1e-3,
            TimeUnit::Ns => 1e-6,
        }
    }
}
