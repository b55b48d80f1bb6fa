//! One line of `server-metrics.jsonl`: what the server said of itself at one moment, or why it did not.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A scrape, as it stands in the file. Its figures were taken between `at` and `at + took_ns`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScrapeRow {
    /// When it was asked, ns from the campaign's start.
    pub at: u64,
    /// Load point it was asked for; null outside a window.
    pub cell: Option<u32>,
    /// Window of that load point; null outside a window.
    pub window: Option<u32>,
    /// Before, during or after the load.
    pub moment: Moment,
    /// Why there are no figures; else null.
    pub error: Option<String>,
    /// Normalised name to value. What the server does not serve is absent.
    pub metrics: BTreeMap<String, f64>,
    /// Until the answer was whole, in ns.
    pub took_ns: u64,
    /// Smoothed round trip of its connection, in us; null when it goes elsewhere than the load, or is not known.
    pub rtt_us: Option<u32>,
}

impl ScrapeRow {
    /// The answer was whole, or given up.
    pub fn ended(&self) -> u64 {
        self.at.saturating_add(self.took_ns)
    }
}

/// When a scrape was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// Before the first window.
    Before,
    /// While a window was open.
    During,
    /// After a window's last request, or after the last window.
    After,
}
