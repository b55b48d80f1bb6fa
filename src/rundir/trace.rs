//! One line of `trace.jsonl`: what one request of a replay was to be, the same in every window. The line's place, from 0,
//! is its trace id.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name of the file; only replays have it.
pub const FILE: &str = "trace.jsonl";

/// A request of a replay, as it stands in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TraceLine {
    /// When it arrives, in ns of the trace's own time from the first arrival. It is due after this divided by the load
    /// point's `time_scale`, rounded to the nearest ns.
    pub at_ns: u64,
    /// Workload class.
    pub class: String,
    /// Prompt length asked for, in tokens.
    pub prompt_tokens: u64,
    /// Output length asked for, in tokens.
    pub output_tokens: u64,
    /// Blocks of its prompt: those with the same ones before them have the same text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash_ids: Option<Vec<u64>>,
    /// SHA-256 of a text or body that the trace gave, hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_sha256: Option<String>,
}

impl TraceLine {
    /// What the trace hash is made of: class, lengths, then hashes with commas, then the content's own hash.
    pub fn hashed(&self) -> String {
        let mut text = format!("{} {} {}", self.class, self.prompt_tokens, self.output_tokens);
        if let Some(ids) = &self.hash_ids {
            let ids: Vec<String> = ids.iter().map(u64::to_string).collect();
            text.push(' ');
            text.push_str(&ids.join(","));
        }
        if let Some(hash) = &self.content_sha256 {
            text.push(' ');
            text.push_str(hash);
        }
        text.push('\n');
        text
    }
}
