//! Flags of `report` and `disclose`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "Examples:
  tarebench report runs/2026-11-29T18-22-55-campaign
  tarebench report runs/2026-11-29T18-22-55-campaign --format markdown

Exit status: 0; 1 when there is no report: box 1, 2 or 3 is empty (nothing was answered, the counts do not close, or
requests.jsonl is missing), so that nobody could check a figure.";
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
}

/// Flags of `report`.
#[derive(Clone, Debug, Args)]
pub struct ReportArgs {
    /// Run directory
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// How it is printed
    #[arg(long, value_enum, default_value = "terminal", help_heading = "Output")]
    pub format: ReportFormat,
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
