//! One line of `marks.jsonl`: something that was done on purpose in a window, what it came to, and when.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name of the file; only runs in which something is done on purpose have it.
pub const FILE: &str = "marks.jsonl";

/// A mark, as it stands in the file. Times in ns from the campaign's start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MarkRow {
    /// Load point, from 0.
    pub cell: u32,
    /// Window of it, from 0.
    pub window: u32,
    /// Its place in the plan's `injections`, from 0.
    pub mark: u32,
    /// What was to be done, in words.
    pub text: String,
    /// When it was to be done.
    pub due: u64,
    /// When it was; null when the window was over before.
    pub started: Option<u64>,
    /// When that was over: the command had ended, the server went on, the schedule's spike was past.
    pub ended: Option<u64>,
    /// How it ended.
    pub outcome: MarkOutcome,
    /// Exit status of a command; null where it has none.
    pub status: Option<i32>,
    /// Signal that ended a command; null where none did.
    pub signal: Option<i32>,
    /// Last lines that a command wrote, to either output, oldest first.
    pub output: Vec<String>,
}

/// How a mark ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MarkOutcome {
    /// As planned; a command with exit status 0.
    Done,
    /// A command with another exit status, or ended by a signal that was not ours.
    Failed,
    /// A command that was killed, with all it had started, when its time was over.
    TimedOut,
    /// Ended because the window was, or the run was interrupted.
    CutOff,
    /// It could not be begun; `output` says why.
    NotStarted,
    /// The window was over before.
    NotReached,
}

impl MarkRow {
    /// How it ended, in words.
    pub fn end_words(&self) -> String {
        match (self.outcome, self.status, self.signal) {
            (MarkOutcome::Done, Some(status), _) => format!("exit status {status}"),
            (MarkOutcome::Done, ..) => "done".to_owned(),
            (MarkOutcome::Failed, Some(status), _) => format!("FAILED with exit status {status}"),
            (MarkOutcome::Failed, _, Some(signal)) => format!("ENDED BY SIGNAL {signal}"),
            (MarkOutcome::Failed, ..) => "FAILED".to_owned(),
            (MarkOutcome::TimedOut, ..) => "KILLED, its time (--at-timeout) was over".to_owned(),
            (MarkOutcome::CutOff, ..) => "CUT OFF at the end of the window".to_owned(),
            (MarkOutcome::NotStarted, ..) => {
                format!("COULD NOT BE STARTED: {}", self.output.first().map_or("", String::as_str))
            }
            (MarkOutcome::NotReached, ..) => "NOT REACHED, the window was over before".to_owned(),
        }
    }
}
