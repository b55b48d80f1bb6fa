//! Flags of `saturate`: those of the search, and with them those of `run` that say what is asked of which server.

use super::{List, Margin, RunArgs};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

pub(super) const EXAMPLES: &str = "Examples:
  tarebench saturate --goodput ttft:500,tpot:40 --base-url http://gpu-7:8000
      the highest rate at which 99 % of the requests have their first token in 500 ms and 40 ms a token, the knee, and
      how much the server can do at all
  tarebench saturate --goodput e2e:20000 --over concurrency --from 8 --to 512 --base-url http://gpu-7:8000
  tarebench saturate --goodput ttft:500 --points 25,50,75,90 --declare 'price=3.2 USD/h' --base-url http://gpu-7:8000
      and then windows at 25, 50, 75 and 90 % of that rate, and what a million tokens cost there
  tarebench saturate --goodput ttft:500 --over concurrency --sessions 2..6 --think-time exp:5s --base-url http://gpu-7:8000
      how many people can talk to it at once; goals are of each turn
  tarebench verify runs/2026-11-29T18-22-55-saturation
      every window from its rows, and the search and saturation.json from the windows

Each window is a campaign in a run directory of its own, in steps/. Of the flags of run those that set loads, windows
or requests of their own are refused.
  saturation      the highest throughput sustained; a plateau when two further loads, each 25 % or more above the one
                  before, give less than 5 % more
  optimum         the highest load that meets the goals in two windows, with one that misses them at most --resolution
                  above it
  knee            the load with the largest throughput / mean time of a request (Kleinrock's power)
  over-saturated  open loop: requests in flight grow while less is finished than offered; such a window ends early
A load is asked again with three times the requests when the 95 % interval of its share straddles the goal, and left
open when it still does. Windows in which the client was not fit are tried three times, then the search ends.
--declare price=AMOUNT/h or 'price=AMOUNT CUR/h' (a decimal point, three capital letters) gives the cost of a million
tokens at the optimum.

Exit status: 0 found; 1 could not be carried out; 2 wrong usage; 3 not found to the end: inconclusive, no load meets
or misses the goals, or the client ended before the server; 130 interrupted, everything measured kept.";

/// What is raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// Requests/s, open loop.
    Rate,
    /// Requests in flight, closed loop; with --sessions or --chain users.
    Concurrency,
}

/// Flags of `saturate`.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("json", |arg| arg.help("Print saturation.json on standard output, and nothing else there")))]
#[command(mut_arg("num_prompts", |arg| arg.help(
    "Requests kept in each window; 99 % cannot be shown with fewer than 368 [default: 400]")))]
#[command(mut_arg("seed", |arg| arg.help("Of order, lengths, words and arrivals; a load's second window adds 1 [default: 7]")))]
#[command(mut_arg("out", |arg| arg.help("Directory of the search [default: runs/TIME-NAME]; one that is not empty is refused")))]
#[command(mut_arg("name", |arg| arg.help("Name of the search [default: saturation]")))]
pub struct SaturateArgs {
    /// What is raised: rate (requests/s, open loop) or concurrency (requests in flight, closed loop)
    #[arg(long, value_enum, default_value = "rate", help_heading = "Search")]
    pub over: Over,
    /// First load [default: what one request at a time comes to; concurrency: 1]
    #[arg(long, value_name = "LOAD", help_heading = "Search")]
    pub from: Option<f64>,
    /// No load above it [default: none]
    #[arg(long, value_name = "LOAD", help_heading = "Search")]
    pub to: Option<f64>,
    /// Upwards each load is so many times the one before
    #[arg(long, value_name = "F", default_value_t = 2.0, help_heading = "Search")]
    pub factor: f64,
    /// How far the lowest load that misses the goals may be above the optimum
    #[arg(long, value_name = "SHARE", default_value = "5%", help_heading = "Search")]
    pub resolution: Margin,
    /// Each window goes on past its number of requests until it has lasted so long [default: 5; open loop: 1.1 x the
    /// longest limit on ttft, ttfo or e2e / --resolution if that is longer, so that a load which the server cannot do
    /// misses its goals before the window is over]
    #[arg(long, value_name = "SECONDS", help_heading = "Search")]
    pub step_duration: Option<f64>,
    /// Most windows of the search
    #[arg(long, value_name = "N", default_value_t = 40, help_heading = "Search")]
    pub max_steps: u32,
    /// Time for the search; a window that is not over by then is cut off and counts for nothing
    #[arg(long, value_name = "SECONDS", default_value_t = 1800.0, help_heading = "Search")]
    pub budget: f64,
    /// After the search one campaign at these shares of the optimum, in %, beside the budget
    #[arg(long, value_name = "PERCENT,..", help_heading = "Search")]
    pub points: Option<List<f64>>,
    /// Of run.
    #[command(flatten)]
    pub run: RunArgs,
}
