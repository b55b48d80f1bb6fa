//! Flags of `compare`.

use super::List;
use crate::analysis::comparison::metric::Metric;
use clap::Args;
use std::path::PathBuf;
use std::str::FromStr;

pub(super) const EXAMPLES: &str = "Examples:
  tarebench compare runs/before runs/after
      the same plan on two servers, or on one server before and after a change
  tarebench compare runs/x/a runs/x/b
      the two arms of run --interleave
  tarebench compare runs/a-morning,runs/a-night runs/b-morning,runs/b-night
      windows of several runs of one plan, put together for each arm
  tarebench compare runs/fp16 runs/fp8 --varies model --metrics ttft.p50 --margin 2%
      the one question: with one metric at one load four windows an arm suffice
  tarebench compare runs/uring runs/epoll --varies arm --metrics ttft.tare.p99,ttft.net.p99

Metrics: METRIC[.COLUMN].PERCENTILE (ttft.p50, gap.net.p99), throughput.requests, throughput.output,
throughput.total. Without a column: from due in open loop (ttft, ttfo, e2e), else gross. What may be named in
--varies and --allow-differences: base_url, server, declared, model, endpoint, workload, sampling, stream, loads,
schedule, protocol, connection, headers, token_proof, host, location, arm, stamps, cores, canary, spin, version.

Verdicts, the first that holds:
  NO RESULT: client    a window is not valid, or a gate withholds the figure
  NO RESULT: unstable  the server drifted within a window, or failed too many requests
  EQUIVALENT           enough windows, and a difference of the margin or more is ruled out
  NOT A CLAIM          not more than the noise
  SUGGESTIVE           more than that, but too few windows for a test: all metrics x loads count as one family,
                       and 1 test needs 4 windows an arm, 2 to 6 need 5, 7 to 23 need 6 (pairs: 1 needs 6, 2 or 3
                       need 7, 4 to 6 need 8)
  SUPPORTED            p at most 0.05 (Holm), and beyond the margin
  INCONCLUSIVE         neither

The noise is the amount by which two windows of one arm typically differ: the mean over all pairs of its windows, of
the arms the larger. The test deals the windows to the arms anew (permutation). Of windows that run --interleave
measured with --interleave-order pairs, the noise is the amount by which the differences B - A of two pairs typically
differ, and the test turns their signs: what moves both servers alike is in neither.

Exit status: 0 compared, also when nothing was found; 1 not comparable (every difference is listed), or no run
directory; 2 wrong usage; 3 NO RESULT everywhere.";

/// Flags of `compare`.
#[derive(Clone, Debug, Args)]
pub struct CompareArgs {
    /// Run directory of the first arm; several, separated by commas, are put together
    #[arg(value_name = "A[,A2..]")]
    pub a: List<PathBuf>,
    /// Run directory of the second arm, likewise
    #[arg(value_name = "B[,B2..]")]
    pub b: List<PathBuf>,
    /// What is compared: each one counts as a test [default: ttft.p50,ttft.p99,e2e.p50]
    #[arg(long, value_name = "METRIC,..")]
    pub metrics: Option<List<Metric>>,
    /// Smallest difference that matters, in percent or as a share
    #[arg(long, value_name = "SHARE", default_value = "5%")]
    pub margin: Margin,
    /// What the comparison is about [default: the server, and what is declared of it]
    #[arg(long, value_name = "NAME,..")]
    pub varies: Option<List<String>>,
    /// What else may differ between the runs
    #[arg(long, value_name = "NAME,..")]
    pub allow_differences: Option<List<String>>,
    /// Print the whole comparison as JSON
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print it as Markdown
    #[arg(long)]
    pub markdown: bool,
}

/// A share above 0 and below 1: `5%`, `0.05`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Margin(pub f64);

impl FromStr for Margin {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let (digits, per) = s.trim().strip_suffix('%').map_or((s, 1.0), |percent| (percent, 100.0));
        let share = digits.trim().parse::<f64>().ok().map(|value| value / per);
        let words = || format!("{s:?} is no margin: write it as 5% or 0.05, above 0 and below 100 %");
        share.filter(|share| *share > 0.0 && *share < 1.0).map(Margin).ok_or_else(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_margin_is_a_share() {
        for (written, share) in [("5%", 0.05), ("0.05", 0.05), (" 2.5 %", 0.025)] {
            assert!((written.parse::<Margin>().expect("a margin").0 - share).abs() < 1e-12, "{written}");
        }
        for written in ["", "%", "0", "0%", "-1%", "100%", "5", "nan", "inf", "x"] {
            assert!(written.parse::<Margin>().is_err(), "{written}");
        }
    }
}
