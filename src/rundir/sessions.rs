//! What `run.json` says of the sessions of a window: how many, how long, and how each turn fared.

use crate::rundir::run_json::{Between, Distribution, FromDue};
use crate::rundir::window::SessionKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Sessions of a window. Distributions are over complete kept sessions, or over turns where it says so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sessions {
    /// Conversations or chains.
    pub kind: SessionKind,
    /// How many, and what became of them.
    pub counts: SessionCounts,
    /// Sessions under way, from first due to last end, pauses included.
    pub at_once: AtOnce,
    /// Elapsed time: from the due of the first turn to the last token of the last one, pauses included.
    pub duration: Option<Distribution>,
    /// The time that its user or agent had to wait: the sums of the turns' e2e. `due`: elapsed time less the planned
    /// pauses.
    pub waited: FromDue,
    /// First action of a turn after both its due and the reply that it needs: the client's own time to make the next
    /// request of a reply. Turns that need one. Not in gross, in every `due`.
    pub turnaround: Option<Distribution>,
    /// By place in the session: ok kept turns, those of incomplete sessions included.
    pub by_turn: Vec<TurnFigures>,
}

/// Counts that close: begun = dropped + kept; kept = complete + failed + cut.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionCounts {
    /// With at least one turn that was due.
    pub begun: u64,
    /// Warm-up, by id.
    pub dropped: u64,
    /// The others.
    pub kept: u64,
    /// Every turn ok.
    pub complete: u64,
    /// A turn failed, which ended it.
    pub failed: u64,
    /// The window ended before its last turn.
    pub cut: u64,
    /// Kept sessions that failed, by the turn that failed, from 1.
    pub failed_at_turn: BTreeMap<u32, u64>,
    /// What the history of later turns lacks.
    pub left_out: LeftOutCounts,
    /// Turns of kept sessions that were planned and never became due, since their session failed or was cut.
    pub turns_never_due: u64,
}

/// Replies that the next turn of their session does not carry whole: it carries the answer text of choice 0. Of ok turns of
/// kept sessions, but for last ones. Each reply counts once, under the first of the reasons that holds; reasoning, which is
/// left out on purpose, is counted beside them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LeftOutCounts {
    /// It called tools or functions.
    pub tool_calls: u64,
    /// Its content was no text but a list of parts or the like.
    pub parts: u64,
    /// Some of its events could not be read.
    pub unparsable: u64,
    /// It had no answer text, and none of this.
    pub empty: u64,
    /// It had reasoning, or its usage told reasoning tokens. Chat templates leave it out as well.
    pub reasoning: u64,
}

impl LeftOutCounts {
    /// Replies that were not sent back whole; reasoning alone is no such lack.
    pub fn not_whole(&self) -> u64 {
        self.tool_calls + self.parts + self.unparsable + self.empty
    }

    /// Those of both.
    pub fn and(&self, other: &LeftOutCounts) -> LeftOutCounts {
        LeftOutCounts {
            tool_calls: self.tool_calls + other.tool_calls,
            parts: self.parts + other.parts,
            unparsable: self.unparsable + other.unparsable,
            empty: self.empty + other.empty,
            reasoning: self.reasoning + other.reasoning,
        }
    }
}

/// A level over the time of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AtOnce {
    /// Mean over time.
    pub mean: Option<f64>,
    /// Not exceeded for 95 % of the time.
    pub p95: Option<u64>,
    /// Most.
    pub max: u64,
}

/// How one turn of all sessions fared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TurnFigures {
    /// From 1.
    pub turn: u32,
    /// Kept turns that were sent, and how many of them were ok.
    pub sent: u64,
    /// See above.
    pub ok: u64,
    /// Time to first token.
    pub ttft: Between,
    /// Time to last token.
    pub e2e: Between,
    /// Per token after the first.
    pub tpot: Between,
    /// Mean prompt tokens by the server's count; null when no turn has one.
    pub prompt_tokens_mean: Option<f64>,
    /// Mean completion tokens.
    pub completion_tokens_mean: Option<f64>,
    /// Mean of the prompt tokens that the server found in its cache, over the turns that tell; null when none does.
    pub cached_tokens_mean: Option<f64>,
    /// Cached tokens over prompt tokens, sums of the turns that tell both.
    pub cached_share: Option<f64>,
}
