//! Flags of `export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

pub(super) const EXAMPLES: &str = "Examples:
  tarebench export runs/2026-11-29T18-22-55-campaign --format vllm
      one JSON a window, as `vllm bench serve --save-result --save-detailed` writes it, in exports/ of the run
  tarebench export runs/2026-11-29T18-22-55-campaign --format aiperf,guidellm,csv --out elsewhere

Exit status: 0; 1 when a file cannot be read or written.";

/// Whose file it is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum ExportFormat {
    /// `vllm bench serve --save-result --save-detailed`: one JSON a window.
    Vllm,
    /// AIPerf's profile_export_aiperf.json and profile_export.jsonl: a directory a window.
    Aiperf,
    /// GuideLLM's benchmarks.json: one file, a benchmark a window.
    Guidellm,
    /// The JSON of the script in the design standard: one file.
    Seed,
    /// requests.csv, gaps.csv, windows.csv.
    Csv,
    /// HdrHistogram logs: one .hlog, a tag a column.
    Hlog,
    /// Text exposition for a Prometheus textfile collector.
    Prometheus,
}

/// Flags of `export`.
#[derive(Clone, Debug, Args)]
pub struct ExportArgs {
    /// Run directory
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Whose format; several with commas
    #[arg(long, value_enum, required = true, value_delimiter = ',', value_name = "FORMAT,..")]
    pub format: Vec<ExportFormat>,
    /// Load points to take, from 0 [default: all]
    #[arg(long, value_delimiter = ',', value_name = "N,..", help_heading = "Choice")]
    pub cell: Vec<u32>,
    /// Windows of each to take, from 0 [default: all]
    #[arg(long, value_delimiter = ',', value_name = "N,..", help_heading = "Choice")]
    pub window: Vec<u32>,
    /// Directory for the files; made when it is not there [default: exports in the run directory]
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub out: Option<PathBuf>,
}
