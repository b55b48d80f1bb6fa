//! Flags of `calibrate`.

use super::{Arm, List, Stamps};
use clap::Args;
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "Examples:
  tarebench calibrate --quick
      under a minute: what the harness costs on this host, and the load up to which it is trustworthy here
  tarebench calibrate --base-url http://gpu-7:9000 --truth-url http://gpu-7:9001/truth
      the same through the network, against `tarebench mock --listen 0.0.0.0:9000 --truth-listen 0.0.0.0:9001` there
  tarebench calibrate --show
      the newest calibration that fits this host and these flags
  tarebench calibrate --check runs/2026-11-29T18-22-55-campaign
      was that run inside its envelope?
  tarebench calibrate --at-limit 0.7
      one step of each kind at 70 % of the stored limits, in a fresh process: does the verdict hold?

Exit status: 0 also when the verdict is poor; 1 could not be carried out, or --at-limit could
show nothing; 2 wrong usage; 3 --check: outside, or --at-limit: the verdict does not hold;
130 interrupted.";

/// Flags of `calibrate`.
#[derive(Clone, Debug, Args)]
pub struct CalibrateArgs {
    /// Short windows and coarse limits, under 60 s [default: up to 10 minutes]
    #[arg(long, help_heading = "What to do")]
    pub quick: bool,
    /// Show a stored calibration: the newest that fits, or the one with this id or directory
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "", help_heading = "What to do")]
    pub show: Option<String>,
    /// Say whether a run stayed inside what was calibrated for it
    #[arg(long, value_name = "RUN", conflicts_with_all = ["show", "quick"], help_heading = "What to do")]
    pub check: Option<PathBuf>,
    /// One step of each kind at F times the stored limit: does the verdict still hold?
    #[arg(long, value_name = "F", conflicts_with_all = ["show", "check", "quick"], help_heading = "What to do")]
    pub at_limit: Option<f64>,
    /// A mock on another host instead of one started here
    #[arg(long, value_name = "URL", requires = "truth_url", help_heading = "Target")]
    pub base_url: Option<String>,
    /// Where that mock serves its truth log (`--truth-listen` there)
    #[arg(long, value_name = "URL", requires = "base_url", help_heading = "Target")]
    pub truth_url: Option<String>,
    /// PEM file with the CA of what speaks TLS in front of that mock, where --base-url is https
    #[arg(long, value_name = "FILE", requires = "base_url", help_heading = "Target")]
    pub ca_file: Option<PathBuf>,
    /// Worker threads [default: cores - 1, at least 1]
    #[arg(long, value_name = "N", help_heading = "Harness")]
    pub workers: Option<u32>,
    /// Cores of the workers, in order [default: the first ones this process may use]
    #[arg(long, value_name = "N,..", help_heading = "Harness")]
    pub cores: Option<List<usize>>,
    /// Workers never sleep, as in run --spin
    #[arg(long, help_heading = "Harness")]
    pub spin: bool,
    /// How the client is built [default: uring, else epoll, aloud]
    #[arg(long, value_enum, help_heading = "Harness")]
    pub arm: Option<Arm>,
    /// Kernel stamps (falling back aloud), or the harness's own only [default: kernel]
    #[arg(long, value_enum, help_heading = "Harness")]
    pub stamps: Option<Stamps>,
    /// Directory of calibrations [default: $TAREBENCH_CALIBRATIONS, else tarebench/calibrations in $XDG_STATE_HOME]
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub calibrations: Option<PathBuf>,
    /// Print nothing but errors
    #[arg(long, help_heading = "Output")]
    pub quiet: bool,
    /// Print calibration.json on standard output (with --check, --at-limit: their answer), and nothing else there
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}
