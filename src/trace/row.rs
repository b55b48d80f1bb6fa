//! One arrival of a captured trace, as its file has it.

use super::fault::{Fault, MOST_TOKENS, Shown};
use super::time::decimal_ns;
use serde_json::{Map, Value};

/// One arrival.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// On the trace's own axis, in ns.
    pub at_ns: i128,
    /// Its kind, by the capture.
    pub class: Option<String>,
    /// Prompt length; None: the prompt itself is there, and nothing says how long it is.
    pub prompt_tokens: Option<u64>,
    /// Output length.
    pub output_tokens: u64,
    /// The capture says that it came to nothing.
    pub failed: bool,
    /// What was asked.
    pub given: Given,
}

/// What a trace has of a prompt.
#[derive(Clone, Debug, PartialEq)]
pub enum Given {
    /// Its length.
    Length,
    /// The hashes of its blocks, each of which stands for that block and all before it.
    Blocks(Vec<u64>),
    /// Its text.
    Text(String),
    /// The whole body of the request.
    Body(Map<String, Value>),
}

/// A number of tokens, from 0 to [`MOST_TOKENS`]; `12.0` is one too.
pub(super) fn tokens(name: &'static str, text: &str) -> Result<u64, Fault> {
    let text = text.trim();
    let whole = match text.split_once('.') {
        Some((whole, zeros)) if !whole.is_empty() && zeros.bytes().all(|b| b == b'0') => whole,
        _ => text,
    };
    match whole.parse::<u64>() {
        Ok(n) if n <= MOST_TOKENS => Ok(n),
        _ => Err(Fault::Field { name, found: Shown::new(text), wanted: "a number of tokens from 0 to 1,000,000,000" }),
    }
}

/// A time in units of 10^`power` ns.
pub(super) fn time(name: &'static str, text: &str, power: i32) -> Result<i128, Fault> {
    let wanted = if power == 9 { "a number of seconds" } else { "a number of ms" };
    decimal_ns(text, power).ok_or_else(|| Fault::Field { name, found: Shown::new(text), wanted })
}
