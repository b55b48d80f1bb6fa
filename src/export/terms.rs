//! What the same stream is called in each tool: definitions side by side, with the figures they give for one window.

use std::path::Path;

use crate::rundir::run_json::RunJson;

/// The terms of a run directory; None where no window has any.
///
/// # Errors
/// A file that cannot be read, or a line of it that is not what it must be.
pub fn of_directory(_dir: &Path, _run: &RunJson) -> anyhow::Result<Option<Terms>> {
    Ok(None)
}

/// The terms for one window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Terms {
    /// Load point of the window.
    pub cell: u32,
    /// The window.
    pub window: u32,
    /// In order of concept, then tool.
    pub terms: Vec<Term>,
}

/// One name in one tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// What is meant to be measured, in the words of this report: `time to first token`.
    pub concept: &'static str,
    /// `tarebench`, `vLLM bench serve`, `AIPerf`, `GuideLLM`, `seed script`.
    pub tool: &'static str,
    /// The name there: `inter_token_latency`.
    pub name: &'static str,
    /// From what to what, over what: `first chunk with choices, role-only too - before the request is made`.
    pub definition: &'static str,
    /// Values; 0 where the tool has none for this stream.
    pub n: u64,
    /// Mean of them, in `unit`.
    pub mean: Option<f64>,
    /// Median under the tool's own percentile rule, in `unit`.
    pub p50: Option<f64>,
    /// 99th percentile likewise.
    pub p99: Option<f64>,
    /// `ms`, `tokens/s`, `tokens`.
    pub unit: &'static str,
}
