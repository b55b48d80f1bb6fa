//! What the server counted, in words.

use crate::report::quantity::{count, latency, percent};
use crate::rundir::run_json::ServerActivity;

/// One line; empty when the server told nothing that can be printed.
pub(super) fn words(server: &ServerActivity) -> String {
    let figure = |n: f64| if n.fract() == 0.0 { count(n as u64) } else { format!("{n:.1}") };
    let mut parts = Vec::new();
    if let Some(finished) = server.requests_finished {
        parts.push(format!("{} requests finished, {} sent", count(finished), count(server.requests_sent)));
    }
    let tokens = [("prompt", server.prompt_tokens), ("generated", server.generation_tokens)];
    let tokens: Vec<String> = tokens.iter().filter_map(|(name, n)| Some(format!("{} {name}", count((*n)?)))).collect();
    if !tokens.is_empty() {
        parts.push(format!("{} tokens", tokens.join(" and ")));
    }
    let means = [("ttft", server.ttft_mean_ms), ("queue", server.queue_mean_ms)];
    parts.extend(means.iter().filter_map(|(name, ms)| Some(format!("mean {name} {}", latency((*ms)?)))));
    let most = [("running", server.running_max), ("waiting", server.waiting_max)];
    parts.extend(most.iter().filter_map(|(name, n)| Some(format!("{name} at most {}", figure((*n)?)))));
    parts.extend(server.kv_cache_usage_max.map(|share| format!("KV cache at most {}", percent(Some(share)))));
    parts.extend(server.prefix_cache_hit_share.map(|share| format!("prefix cache hits {}", percent(Some(share)))));
    parts.extend(server.preemptions.filter(|n| *n > 0).map(|n| format!("{} preemptions", count(n))));
    if !server.resets.is_empty() {
        parts.push(format!("reset and therefore not known: {}", server.resets.join(", ")));
    }
    parts.extend(server.no_counters.iter().map(|why| format!("no counters: {why}")));
    if server.scrapes_failed > 0 {
        parts.push(format!("{} scrapes not answered", count(server.scrapes_failed)));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_known_is_said() {
        let known = ServerActivity {
            requests_sent: 310,
            requests_finished: Some(310),
            prompt_tokens: Some(41_234),
            generation_tokens: Some(12_345),
            ttft_mean_ms: Some(5.1),
            running_max: Some(8.0),
            waiting_max: Some(0.0),
            kv_cache_usage_max: Some(0.031),
            preemptions: Some(0),
            ..ServerActivity::default()
        };
        assert_eq!(
            words(&known),
            "310 requests finished, 310 sent, 41,234 prompt and 12,345 generated tokens, mean ttft 5.10 ms, \
             running at most 8, waiting at most 0, KV cache at most 3.1 %"
        );
        assert_eq!(words(&ServerActivity::default()), "");
        let lost = ServerActivity {
            resets: vec!["prompt_tokens".into()],
            no_counters: Some("why".into()),
            scrapes_failed: 2,
            ..ServerActivity::default()
        };
        assert_eq!(
            words(&lost),
            "reset and therefore not known: prompt_tokens, no counters: why, 2 scrapes not answered"
        );
    }
}
