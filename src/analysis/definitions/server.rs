//! What a window's share of a server's own counters is.
//!
//! A window's counters are those between two scrapes: the last whose answer was whole when the window opened, and the
//! first that was asked for when it had closed. They hold whatever the server did between the two, warm-up, failed
//! requests and other clients' included. Without both, or with another window between them, there are none. A counter
//! that fell between two scrapes was reset, and so was every counter when the server's process started anew: its share
//! is not known, since nobody saw how far it had come. A gauge is looked at while the window is open only.

use serde_json::Value;

/// Counters published as they are, in the order of the fields.
pub const COUNTERS: [&str; 6] = [
    "requests_finished",
    "prompt_tokens",
    "generation_tokens",
    "preemptions",
    "prefix_cache_queries",
    "prefix_cache_hits",
];
/// Counters that make means only.
pub const OF_MEANS: [&str; 4] = ["ttft_sum_s", "ttft_count", "queue_sum_s", "queue_count"];
/// Seconds since 1970 at which the server's process started.
pub const PROCESS_START: &str = "process_start_time_s";

/// What a counter grew by, whole; None when it fell.
pub fn grown(before: f64, after: f64) -> Option<f64> {
    (after >= before).then_some(after - before)
}

/// A growth as a count.
pub fn count(growth: f64) -> u64 {
    growth.round() as u64
}

/// Mean in ms of what was observed `count` times between two scrapes, `sum_s` in all; None when it never was.
pub fn mean_ms(sum_s: f64, count: f64) -> Option<f64> {
    (count > 0.0).then(|| sum_s / count * 1e3)
}

/// Requests that a server may count for each one sent: `n` choices are counted one by one by some.
pub fn counted_per_request(plan: &Value) -> u64 {
    plan["extra_body"]["n"].as_u64().unwrap_or(1).max(1)
}

/// Requests that the server finished and that are not ours. `sent` were sent in the window; of `earlier` ones the server
/// had finished `finished_earlier` when it opened, so that the rest of them may have been finished in it.
pub fn beyond_ours(finished: u64, sent: u64, earlier: u64, finished_earlier: u64) -> u64 {
    finished.saturating_sub(sent).saturating_sub(earlier.saturating_sub(finished_earlier))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_was_sent_before_may_be_finished_later() {
        assert_eq!(beyond_ours(310, 310, 0, 0), 0);
        assert_eq!(beyond_ours(312, 310, 620, 618), 0);
        assert_eq!(beyond_ours(322, 310, 620, 618), 10);
        // other traffic before the window leaves nothing of ours over
        assert_eq!(beyond_ours(320, 310, 620, 900), 10);
        assert_eq!(beyond_ours(300, 310, 0, 0), 0);
    }

    #[test]
    fn counters_grow_and_means_need_observations() {
        assert_eq!((grown(3.0, 5.0), grown(5.0, 3.0), grown(5.0, 5.0)), (Some(2.0), None, Some(0.0)));
        assert_eq!((mean_ms(1.5, 3.0), mean_ms(0.0, 0.0)), (Some(500.0), None));
        assert_eq!(counted_per_request(&json!({"extra_body": {"n": 3}})), 3);
        assert_eq!(counted_per_request(&json!({})), 1);
    }
}
