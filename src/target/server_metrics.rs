//! A server's own counters and gauges under one set of names, whatever engine serves them. What a server does not serve
//! is absent: never 0, never worked out from something else.

use super::prometheus::{Sample, samples};
use std::collections::BTreeMap;

/// What was found in one text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerMetrics {
    /// Engine whose names they are.
    pub engine: Option<&'static str>,
    /// Normalised name to value; finite ones only.
    pub values: BTreeMap<String, f64>,
    /// What the server tells of its configuration in labels (`vllm:cache_config_info`).
    pub config: BTreeMap<&'static str, String>,
    /// Samples of any name: none, and the text is not of this format.
    pub samples: u64,
}

/// The start of the server's process, seconds since 1970. Of no engine in particular.
pub const PROCESS_START: &str = "process_start_time_s";

/// How the samples of a family make one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    /// Engines, models and reasons add up.
    Sum,
    /// Shares do not.
    Max,
}
use Over::{Max, Sum};

/// One name of one engine.
struct Known {
    engine: &'static str,
    name: &'static str,
    /// With underscores for colons and without `_total`.
    family: &'static str,
    over: Over,
}

const fn known(engine: &'static str, name: &'static str, family: &'static str, over: Over) -> Known {
    Known { engine, name, family, over }
}

/// vLLM 0.6 to 0.32, SGLang 0.4 to 0.5 (`--enable-metrics`), TGI 2 and 3, llama.cpp (`--metrics`). Where an engine changed
/// a name, the newer one stands first.
const KNOWN: [Known; 40] = [
    known("vllm", "requests_running", "vllm_num_requests_running", Sum),
    known("vllm", "requests_waiting", "vllm_num_requests_waiting", Sum),
    known("vllm", "kv_cache_usage", "vllm_kv_cache_usage_perc", Max),
    known("vllm", "kv_cache_usage", "vllm_gpu_cache_usage_perc", Max),
    known("vllm", "prefix_cache_queries", "vllm_prefix_cache_queries", Sum),
    known("vllm", "prefix_cache_queries", "vllm_gpu_prefix_cache_queries", Sum),
    known("vllm", "prefix_cache_hits", "vllm_prefix_cache_hits", Sum),
    known("vllm", "prefix_cache_hits", "vllm_gpu_prefix_cache_hits", Sum),
    known("vllm", "preemptions", "vllm_num_preemptions", Sum),
    known("vllm", "prompt_tokens", "vllm_prompt_tokens", Sum),
    known("vllm", "generation_tokens", "vllm_generation_tokens", Sum),
    known("vllm", "requests_finished", "vllm_request_success", Sum),
    known("vllm", "ttft_sum_s", "vllm_time_to_first_token_seconds_sum", Sum),
    known("vllm", "ttft_count", "vllm_time_to_first_token_seconds_count", Sum),
    known("vllm", "queue_sum_s", "vllm_request_queue_time_seconds_sum", Sum),
    known("vllm", "queue_count", "vllm_request_queue_time_seconds_count", Sum),
    known("sglang", "requests_running", "sglang_num_running_reqs", Sum),
    known("sglang", "requests_waiting", "sglang_num_queue_reqs", Sum),
    known("sglang", "kv_cache_usage", "sglang_token_usage", Max),
    // hits of how many is not served; the gauge cache_hit_rate is of the last batch
    known("sglang", "prefix_cache_hits", "sglang_cached_tokens", Sum),
    known("sglang", "preemptions", "sglang_num_retracted_requests", Sum),
    known("sglang", "prompt_tokens", "sglang_prompt_tokens", Sum),
    known("sglang", "generation_tokens", "sglang_generation_tokens", Sum),
    known("sglang", "requests_finished", "sglang_num_requests", Sum),
    known("sglang", "ttft_sum_s", "sglang_time_to_first_token_seconds_sum", Sum),
    known("sglang", "ttft_count", "sglang_time_to_first_token_seconds_count", Sum),
    known("sglang", "queue_sum_s", "sglang_queue_time_seconds_sum", Sum),
    known("sglang", "queue_count", "sglang_queue_time_seconds_count", Sum),
    known("tgi", "requests_running", "tgi_batch_current_size", Sum),
    known("tgi", "requests_waiting", "tgi_queue_size", Sum),
    known("tgi", "prompt_tokens", "tgi_request_input_length_sum", Sum),
    known("tgi", "generation_tokens", "tgi_request_generated_tokens_sum", Sum),
    known("tgi", "requests_finished", "tgi_request_success", Sum),
    known("tgi", "queue_sum_s", "tgi_request_queue_duration_sum", Sum),
    known("tgi", "queue_count", "tgi_request_queue_duration_count", Sum),
    known("llama.cpp", "requests_running", "llamacpp_requests_processing", Sum),
    known("llama.cpp", "requests_waiting", "llamacpp_requests_deferred", Sum),
    known("llama.cpp", "prompt_tokens", "llamacpp_prompt_tokens", Sum),
    // those found in the cache are not among its prompt tokens
    known("llama.cpp", "prefix_cache_hits", "llamacpp_prompt_tokens_cached", Sum),
    known("llama.cpp", "generation_tokens", "llamacpp_tokens_predicted", Sum),
];
/// Older llama.cpp only; of the share kind, so that it stands apart from the sums above.
const LLAMA_KV: Known = known("llama.cpp", "kv_cache_usage", "llamacpp_kv_cache_usage_ratio", Max);
const START: Known = known("", PROCESS_START, "process_start_time_seconds", Max);

/// Ranks of one model tell the same requests once each.
const RANKS: [&str; 4] = ["tp_rank", "pp_rank", "ep_rank", "moe_ep_rank"];

/// Labels of a configuration that are facts about the server; all others stay where they are.
const CONFIG_FAMILY: &str = "vllm_cache_config_info";
const CONFIG: [&str; 5] = ["cache_dtype", "enable_prefix_caching", "block_size", "num_gpu_blocks", "num_cpu_blocks"];

/// Reads `/metrics`.
pub fn read(text: &str) -> ServerMetrics {
    let mut found = ServerMetrics::default();
    // by place in the table, then by the name as it was served: a wrapper may serve a family under two names
    let mut families: BTreeMap<(usize, String), BTreeMap<String, f64>> = BTreeMap::new();
    for sample in samples(text) {
        found.samples += 1;
        let plain = sample.name.replace([':', '.'], "_");
        if lies_at_the_end(&plain, CONFIG_FAMILY) {
            let told = CONFIG.iter().filter_map(|name| Some((*name, sample.label(name)?.to_owned())));
            found.config.extend(told);
        }
        let plain = plain.strip_suffix("_total").unwrap_or(&plain);
        let Some(place) = table().position(|known| lies_at_the_end(plain, known.family)) else { continue };
        if sample.value.is_finite() {
            let group = families.entry((place, sample.name.to_string())).or_default();
            let value = group.entry(beside_ranks(&sample)).or_insert(f64::NEG_INFINITY);
            *value = value.max(sample.value);
        }
    }
    let mut engines: BTreeMap<&str, usize> = BTreeMap::new();
    for (place, _) in families.keys() {
        table().nth(*place).into_iter().for_each(|known| *engines.entry(known.engine).or_default() += 1);
    }
    engines.remove(START.engine);
    let most = engines.values().max();
    found.engine = table().map(|known| known.engine).find(|engine| engines.get(engine) == most && most.is_some());
    for (place, known) in table().enumerate() {
        let ours = known.engine == START.engine || Some(known.engine) == found.engine;
        if !ours || found.values.contains_key(known.name) {
            continue;
        }
        // of two wrappers the shorter name is the engine's own
        let families = families.iter().filter(|((at, _), _)| *at == place);
        let Some((_, groups)) = families.min_by_key(|((_, name), _)| (name.len(), name.clone())) else { continue };
        // in the order of the labels: the same text gives the same bits
        let value = match known.over {
            Sum => groups.values().sum(),
            Max => groups.values().copied().fold(f64::NEG_INFINITY, f64::max),
        };
        if f64::is_finite(value) {
            found.values.insert(known.name.to_owned(), value);
        }
    }
    found
}

fn table() -> impl Iterator<Item = &'static Known> {
    KNOWN.iter().chain([&LLAMA_KV, &START])
}

/// `name` is `family`, or ends in it after an underscore (`ray_vllm_...`).
fn lies_at_the_end(name: &str, family: &str) -> bool {
    name.strip_suffix(family).is_some_and(|before| before.is_empty() || before.ends_with('_'))
}

/// The labels that tell one count from another.
fn beside_ranks(sample: &Sample<'_>) -> String {
    let mut labels: Vec<String> = sample
        .labels
        .iter()
        .filter(|(name, _)| !RANKS.contains(&name.as_ref()))
        .map(|(name, value)| format!("{name}={value:?}"))
        .collect();
    labels.sort_unstable();
    labels.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const VLLM: &str = r#"# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 4.0
vllm:num_requests_waiting{engine="0",model_name="m"} 0.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 9.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.5
vllm:prompt_tokens_total{engine="0",model_name="m"} 1000.0
vllm:prompt_tokens_created{engine="0",model_name="m"} 1.79e+09
vllm:request_prompt_tokens_sum{engine="0",model_name="m"} 77.0
vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 5.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="m"} 7.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.001",model_name="m"} 0.0
vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} 12.0
vllm:time_to_first_token_seconds_sum{engine="0",model_name="m"} 1.5
vllm:cache_config_info{block_size="16",cache_dtype="auto",enable_prefix_caching="True",secret="sk-1"} 1.0
process_start_time_seconds 1.79596e+09
"#;

    fn values(text: &str) -> Vec<(String, f64)> {
        read(text).values.into_iter().collect()
    }

    fn named(pairs: &[(&str, f64)]) -> Vec<(String, f64)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn engines_and_reasons_add_up_and_shares_do_not() {
        let found = read(VLLM);
        assert_eq!(found.engine, Some("vllm"));
        let expected = named(&[
            ("kv_cache_usage", 0.5),
            ("process_start_time_s", 1.79596e9),
            ("prompt_tokens", 1000.0),
            ("requests_finished", 12.0),
            ("requests_running", 7.0),
            ("requests_waiting", 0.0),
            ("ttft_count", 12.0),
            ("ttft_sum_s", 1.5),
        ]);
        assert_eq!(found.values.into_iter().collect::<Vec<_>>(), expected);
        let config: Vec<(&str, &str)> = found.config.iter().map(|(n, v)| (*n, v.as_str())).collect();
        assert_eq!(config, [("block_size", "16"), ("cache_dtype", "auto"), ("enable_prefix_caching", "True")]);
    }

    #[test]
    fn colons_underscores_and_wrappers_are_one_name() {
        let all = [VLLM.replace("vllm:", "vllm_"), VLLM.replace("vllm:", "ray_vllm:"), VLLM.replace("_total", "")];
        all.iter().for_each(|text| assert_eq!(values(text), values(VLLM)));
        // the same counts under two names are not counted twice
        assert_eq!(values(&(VLLM.to_owned() + &VLLM.replace("vllm:", "ray_vllm:"))), values(VLLM));
    }

    #[test]
    fn other_engines_have_their_own_names() {
        let sglang = "sglang:num_running_reqs{tp_rank=\"0\",dp_rank=\"0\"} 2\nsglang:num_running_reqs{tp_rank=\"1\",dp_rank=\"0\"} 2\n\
            sglang:num_running_reqs{tp_rank=\"0\",dp_rank=\"1\"} 3\nsglang:num_requests_total 8\nsglang:num_so_requests_total 5\n\
            sglang:cached_tokens_total{cache_source=\"device\"} 6\nsglang:cached_tokens_total{cache_source=\"host\"} 1\n";
        let expected = named(&[("prefix_cache_hits", 7.0), ("requests_finished", 8.0), ("requests_running", 5.0)]);
        assert_eq!((values(sglang), read(sglang).engine), (expected, Some("sglang")));
        let tgi = "tgi_queue_size 1\ntgi_batch_current_size 4\ntgi_request_count 9\ntgi_request_success{method=\"a\"} 7\n\
            tgi_request_generated_tokens_sum 70\ntgi_request_queue_duration_sum 0.5\ntgi_request_queue_duration_count 7\n";
        let expected = [
            ("generation_tokens", 70.0),
            ("queue_count", 7.0),
            ("queue_sum_s", 0.5),
            ("requests_finished", 7.0),
            ("requests_running", 4.0),
            ("requests_waiting", 1.0),
        ];
        assert_eq!((values(tgi), read(tgi).engine), (named(&expected), Some("tgi")));
        let llama = "llamacpp:prompt_tokens_total 11\nllamacpp:prompt_tokens_cached_total 5\nllamacpp:prompt_tokens_seconds 3\nllamacpp:tokens_predicted_total 22\n\
            llamacpp:tokens_predicted_seconds_total 4\nllamacpp:requests_processing 1\nllamacpp:requests_deferred 0\n";
        let expected = [
            ("generation_tokens", 22.0),
            ("prefix_cache_hits", 5.0),
            ("prompt_tokens", 11.0),
            ("requests_running", 1.0),
            ("requests_waiting", 0.0),
        ];
        assert_eq!((values(llama), read(llama).engine), (named(&expected), Some("llama.cpp")));
    }

    #[test]
    fn what_is_not_served_is_absent() {
        let found = read("go_goroutines 7\nprocess_start_time_seconds 5\n");
        assert_eq!((found.engine, found.samples), (None, 2));
        assert_eq!(found.values.into_iter().collect::<Vec<_>>(), named(&[(PROCESS_START, 5.0)]));
        // neither is a value that is none
        assert!(values("vllm:num_requests_running NaN\nvllm:num_requests_waiting +Inf\n").is_empty());
        assert_eq!(read("<html><body>404 not found</body></html>").samples, 0);
        assert_eq!(read("[{\"iter\": 1, \"gpuMemUsage\": 5}]\n").samples, 0);
    }

    #[test]
    fn of_two_engines_the_one_that_tells_more() {
        assert_eq!(read(&format!("llamacpp:requests_processing 1\n{VLLM}")).engine, Some("vllm"));
        assert_eq!(read("llamacpp:requests_processing 1\nvllm:num_requests_running 2\n").engine, Some("vllm"));
    }

    proptest! {
        #[test]
        fn the_order_of_lines_changes_nothing(seed in any::<u64>()) {
            let mut lines: Vec<&str> = VLLM.lines().collect();
            let mut state = seed;
            for i in (1..lines.len()).rev() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                lines.swap(i, (state >> 33) as usize % (i + 1));
            }
            prop_assert_eq!(read(&lines.join("\n")), read(VLLM));
        }

        #[test]
        fn a_text_cut_anywhere_gives_no_more_than_the_whole(cut in 0..VLLM.len()) {
            let part = read(&VLLM[..cut]);
            prop_assert!(part.samples <= read(VLLM).samples);
            prop_assert!(part.values.values().all(|v| v.is_finite()));
        }
    }
}
