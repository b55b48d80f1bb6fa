//! One line of `health.jsonl`: what one thread, or the process, had used up so far.
//!
//! Samples come once a second, and once just before each window opens and just after it closes, so that what a
//! window cost is a difference of two samples.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A sample. Counters are cumulative.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HealthRow {
    /// ns from the campaign's start.
    pub t: u64,
    /// `worker-0`, `reader`, `feeder`, `control`, `metrics`, `live`, `process`.
    pub thread: String,
    /// Kernel thread id; the process id for the process.
    pub tid: u64,
    /// Core it is pinned to.
    pub core: Option<u32>,
    /// CPU time, user and system, in ns.
    pub cpu_ns: u64,
    /// Time runnable but not running, in ns.
    pub run_delay_ns: Option<u64>,
    /// Context switches it asked for.
    pub voluntary_switches: Option<u64>,
    /// Context switches forced on it.
    pub involuntary_switches: Option<u64>,
    /// Time spent on non-empty batches and on submitting, in ns; workers only.
    pub busy_ns: Option<u64>,
    /// Time the hypervisor gave to others, in ns, in ticks of 10 ms: of the worker's core; for the process the mean
    /// over all cores of the machine.
    #[serde(default)]
    pub steal_ns: Option<u64>,
    /// Time in soft interrupts, which is where the network stack receives, in ns, of the same core or cores.
    #[serde(default)]
    pub softirq_ns: Option<u64>,
    /// Resident memory; process only.
    pub rss_bytes: Option<u64>,
}
