//! Flags of `report` and `disclose`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "Examples:
  tarebench report runs/2026-11-29T18-22-55-campaign
      in short; with --details every figure of every window
  tarebench report runs/2026-11-29T18-22-55-campaign --format markdown
  tarebench report runs/2026-11-29T18-22-55-campaign --out page.html
  tarebench report runs/before runs/after
      side by side, load by load; what of it is a claim says tarebench compare
  tarebench report runs/2026-11-29T19-05-12-saturation --out search.html
      of a search by tarebench saturate

Exit status: 0; 1 when there is no report: box 1, 2 or 3 is empty (nothing was answered, the counts do not close, or
requests.jsonl is missing), so that nobody could check a figure. Of several, such a run stands without figures. 2 wrong
usage.";
pub(super) const DISCLOSE_EXAMPLES: &str = "Examples:
  tarebench disclose runs/2026-11-29T18-22-55-campaign
      one page of Markdown, to be put beside the figures
  tarebench disclose runs/2026-11-29T18-22-55-campaign --json

A box is measured, declared (somebody's word: --declare of run), not verifiable (it cannot be known from here), or
empty; of an empty one the page says what would fill it. Nothing declared makes a box measured.";

/// How a report is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// At most 100 columns wide, as `run` prints it.
    Terminal,
    /// As in report.md.
    Markdown,
    /// One page that stands by itself, as in report.html; of one run only.
    Html,
}

/// Flags of `report`.
#[derive(Clone, Debug, Args)]
pub struct ReportArgs {
    /// Run directory, or that of a search by saturate; several runs stand side by side, at most eight
    #[arg(required = true, value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// How it is printed [default: terminal; html where --out ends in .html, markdown where it ends in .md]
    #[arg(long, value_enum, help_heading = "Output")]
    pub format: Option<ReportFormat>,
    /// On a terminal: every figure of every window, not only what is in short
    #[arg(long, help_heading = "Output")]
    pub details: bool,
    /// Write it to a file instead of standard output
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// Print run.json, made again of the raw files; of several runs {"a": run.json, "b": run.json}. Nothing else
    #[arg(long, conflicts_with_all = ["format", "details"], help_heading = "Output")]
    pub json: bool,
}

/// Flags of `disclose`.
#[derive(Clone, Debug, Args)]
pub struct DiscloseArgs {
    /// Run directory
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Print boxes.json, and nothing else
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}
