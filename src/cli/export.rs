//! Flags of `export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

pub(super) const EXAMPLES: &str = "Examples:
  tarebench export runs/2026-11-29T18-22-55-campaign --format vllm
      one JSON a window, as `vllm bench serve --save-result --save-detailed` writes it, in exports/ of the run
  tarebench export runs/2026-11-29T18-22-55-campaign --format aiperf,guidellm,csv --out elsewhere
  tarebench export runs/2026-11-29T18-22-55-campaign --format prometheus --out /var/lib/node_exporter/textfile --force
      each new run in the place of the last one; the file changes at once, as the collector needs it
  tarebench export runs/2026-11-29T18-22-55-campaign --format terms
      definitions.md: what vLLM, AIPerf, GuideLLM and others call the same stream, and what they would print
  duckdb -c \"copy 'exports/requests.csv' to 'requests.parquet'\"
      Parquet, which is not written here: Arrow would be a large part of the build

The files that were written are printed, one a line. What run.json withholds is a warning on standard error, and a mark
in every format that has room for one. In exports of the run files are replaced; elsewhere only with --force.

Exit status: 0; 1 when a file cannot be read or written; 2 wrong usage, also a load point or window that is not there.";

/// Whose file it is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum ExportFormat {
    /// `vllm bench serve --save-result --save-detailed`: one JSON a window.
    Vllm,
    /// AIPerf's profile_export_aiperf.json and profile_export.jsonl: a directory a window.
    Aiperf,
    /// GuideLLM's benchmarks.json: one file, a benchmark a window.
    Guidellm,
    /// The JSON of the script in the design standard, as far as its text shows it: one file a window.
    Seed,
    /// requests.csv, gaps.csv (every token event), windows.csv (the figures of run.json).
    Csv,
    /// HdrHistogram interval log: one .hlog, a tag a load point, metric and column, an interval a window.
    Hlog,
    /// Text exposition for a Prometheus textfile collector: tarebench.prom.
    Prometheus,
    /// definitions.md: what the same stream is called in each tool, with the figures of one window.
    Terms,
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
    /// Replace files that are in --out already
    #[arg(long, help_heading = "Output")]
    pub force: bool,
}
