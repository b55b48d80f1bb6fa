//! What the mock has done, under vLLM's names and in Prometheus' text (vLLM 0.25 to 0.27).

use crate::truth::DurationCounts;
use bench_engine::units::{Instant, Nanos};
use std::fmt::Write;

/// Upper bounds in s, as vLLM has them.
const TTFT_BOUNDS: [f64; 22] = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
];
const PER_TOKEN_BOUNDS: [f64; 19] =
    [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0];
const REQUEST_BOUNDS: [f64; 21] = [
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
];

/// Durations counted by upper bounds. The text around the counts is made once, so that printing is cheap.
#[derive(Clone, Debug)]
struct Histogram {
    announcement: String,
    /// A bound in ns, how many values lie above the one before and not above it, and the start of its line.
    buckets: Vec<(u64, u64, String)>,
    /// The starts of the last three lines: all, their number, their sum.
    ends: [String; 3],
    sum: u128,
    n: u64,
}

impl Histogram {
    fn new(model: &str, name: &str, help: &str, bounds: &[f64]) -> Self {
        let line = |bound: &str| format!("vllm:{name}_bucket{{engine=\"0\",le=\"{bound}\",model_name=\"{model}\"}} ");
        let whole = |what: &str| format!("vllm:{name}_{what}{{engine=\"0\",model_name=\"{model}\"}} ");
        Histogram {
            announcement: format!("# HELP vllm:{name} {help}\n# TYPE vllm:{name} histogram\n"),
            buckets: bounds.iter().map(|s| ((s * 1e9).round() as u64, 0, line(&format!("{s:?}")))).collect(),
            ends: [line("+Inf"), whole("count"), whole("sum")],
            sum: 0,
            n: 0,
        }
    }

    fn add(&mut self, value: Nanos) {
        self.n += 1;
        self.sum += u128::from(value.ns());
        if let Some((_, count, _)) = self.buckets.iter_mut().find(|(bound, ..)| value.ns() <= *bound) {
            *count += 1;
        }
    }

    fn print(&self, out: &mut String) {
        out.push_str(&self.announcement);
        let mut below = 0;
        for (_, count, line) in &self.buckets {
            below += count;
            out.push_str(line);
            // writing to a string cannot fail
            let _ = writeln!(out, "{below}.0");
        }
        let [all, count, sum] = &self.ends;
        let n = self.n;
        let _ = writeln!(out, "{all}{n}.0\n{count}{n}.0\n{sum}{:?}", self.sum as f64 / 1e9);
    }
}

/// The stages of one request, as they pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stages {
    pub arrival: Instant,
    /// When it began to run.
    pub started: Instant,
    pub first: Option<Instant>,
    pub last: Instant,
    pub prompt_tokens: u64,
    /// It ends because the mock had no more to say, not because of `max_tokens`.
    pub stops: bool,
    /// Blocks of the key-value cache that it holds while it runs.
    pub blocks: u64,
}

/// How a request ended, as vLLM words it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    Stop,
    Length,
    Abort,
}

/// Counters of the whole mock.
#[derive(Debug)]
pub(super) struct Metrics {
    pub(super) lateness: DurationCounts,
    /// The model's name as a label holds it.
    model: String,
    prompt_tokens: u64,
    generation_tokens: u64,
    finished: [u64; 3],
    pub(super) cache_queries: u64,
    pub(super) cache_hits: u64,
    ttft: Histogram,
    itl: Histogram,
    per_token: Histogram,
    e2e: Histogram,
    queue: Histogram,
    prefill: Histogram,
    decode: Histogram,
    inference: Histogram,
}

/// What `/metrics` says that is not counted here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gauges {
    pub running: u32,
    pub waiting: u32,
    /// Blocks that running requests hold, and all there are.
    pub blocks: (u64, u64),
    pub prefix_cache: bool,
}

impl Metrics {
    /// `model` is the value of the label `model_name`.
    pub(super) fn new(model: &str) -> Self {
        let model = model.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let request = |name, help| Histogram::new(&model, name, help, &REQUEST_BOUNDS);
        let token = |name, help| Histogram::new(&model, name, help, &PER_TOKEN_BOUNDS);
        Metrics {
            lateness: DurationCounts::default(),
            prompt_tokens: 0,
            generation_tokens: 0,
            finished: [0; 3],
            cache_queries: 0,
            cache_hits: 0,
            ttft: Histogram::new(
                &model,
                "time_to_first_token_seconds",
                "Histogram of time to first token in seconds.",
                &TTFT_BOUNDS,
            ),
            itl: token("inter_token_latency_seconds", "Histogram of inter-token latency in seconds."),
            per_token: token(
                "request_time_per_output_token_seconds",
                "Histogram of time_per_output_token_seconds per request.",
            ),
            e2e: request("e2e_request_latency_seconds", "Histogram of e2e request latency in seconds."),
            queue: request("request_queue_time_seconds", "Histogram of time spent in WAITING phase for request."),
            prefill: request("request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request."),
            decode: request("request_decode_time_seconds", "Histogram of time spent in DECODE phase for request."),
            inference: request(
                "request_inference_time_seconds",
                "Histogram of time spent in RUNNING phase for request.",
            ),
            model,
        }
    }

    /// A request was asked whether its prompt is known.
    pub(super) fn looked_up(&mut self, prompt_tokens: u64, cached: u64) {
        self.cache_queries += prompt_tokens;
        self.cache_hits += cached;
    }

    /// A streamed token event is with the kernel.
    pub(super) fn token_event(&mut self, stages: &mut Stages, tokens: u32, at: Instant) {
        self.generation_tokens += u64::from(tokens);
        match stages.first {
            None => {
                stages.first = Some(at);
                self.prompt_tokens += stages.prompt_tokens;
                self.ttft.add(at.saturating_since(stages.arrival));
            }
            Some(_) => self.itl.add(at.saturating_since(stages.last)),
        }
        stages.last = at;
    }

    /// A reply that is not streamed is with the kernel: when its tokens came, nobody saw.
    pub(super) fn whole_reply(&mut self, stages: &mut Stages, tokens: u32, at: Instant) {
        self.generation_tokens += u64::from(tokens);
        self.prompt_tokens += stages.prompt_tokens;
        stages.last = at;
    }

    /// A request has ended; `tokens` were written.
    pub(super) fn finished(&mut self, stages: &Stages, finish: Finish, tokens: u64, at: Instant) {
        self.finished[finish as usize] += 1;
        if finish == Finish::Abort {
            return;
        }
        self.e2e.add(at.saturating_since(stages.arrival));
        self.queue.add(stages.started.saturating_since(stages.arrival));
        self.inference.add(stages.last.saturating_since(stages.started));
        let Some(first) = stages.first else { return };
        let decode = stages.last.saturating_since(first);
        self.prefill.add(first.saturating_since(stages.started));
        self.decode.add(decode);
        if tokens > 1 {
            self.per_token.add(Nanos::from_ns(decode.ns() / (tokens - 1)));
        }
    }

    /// The text of `/metrics`: about 20 KB.
    pub(super) fn print(&self, gauges: Gauges) -> String {
        let mut out = String::with_capacity(24 << 10);
        let model = &self.model;
        let both = format!("engine=\"0\",model_name=\"{model}\"");
        let mut one = |kind: &str, name: &str, help: &str, value: String| {
            let _ =
                write!(out, "# HELP vllm:{name} {help}\n# TYPE vllm:{name} {kind}\nvllm:{name}{{{both}}} {value}\n");
        };
        let whole = |n: u64| format!("{n}.0");
        one(
            "gauge",
            "num_requests_running",
            "Number of requests in model execution batches.",
            whole(gauges.running.into()),
        );
        one(
            "gauge",
            "num_requests_waiting",
            "Number of requests waiting to be processed.",
            whole(gauges.waiting.into()),
        );
        let (held, all) = gauges.blocks;
        one(
            "gauge",
            "kv_cache_usage_perc",
            "KV-cache usage. 1 means 100 percent usage.",
            format!("{:?}", (held as f64 / all.max(1) as f64).min(1.0)),
        );
        one(
            "counter",
            "prefix_cache_queries_total",
            "Prefix cache queries, in terms of number of queried tokens.",
            whole(self.cache_queries),
        );
        one(
            "counter",
            "prefix_cache_hits_total",
            "Prefix cache hits, in terms of number of cached tokens.",
            whole(self.cache_hits),
        );
        one("counter", "num_preemptions_total", "Cumulative number of preemption from the engine.", whole(0));
        one("counter", "prompt_tokens_total", "Number of prefill tokens processed.", whole(self.prompt_tokens));
        one(
            "counter",
            "generation_tokens_total",
            "Number of generation tokens processed.",
            whole(self.generation_tokens),
        );
        out.push_str(
            "# HELP vllm:request_success_total Count of successfully processed requests.\n\
             # TYPE vllm:request_success_total counter\n",
        );
        for (reason, n) in ["stop", "length", "abort"].iter().zip(self.finished) {
            let labels = format!("engine=\"0\",finished_reason=\"{reason}\",model_name=\"{model}\"");
            let _ = writeln!(out, "vllm:request_success_total{{{labels}}} {n}.0");
        }
        let histograms = [
            &self.ttft,
            &self.itl,
            &self.per_token,
            &self.e2e,
            &self.queue,
            &self.inference,
            &self.prefill,
            &self.decode,
        ];
        histograms.iter().for_each(|histogram| histogram.print(&mut out));
        let caching = if gauges.prefix_cache { "True" } else { "False" };
        let _ = write!(
            out,
            "# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig\n\
             # TYPE vllm:cache_config_info gauge\n\
             vllm:cache_config_info{{block_size=\"{}\",enable_prefix_caching=\"{caching}\",engine=\"0\",\
             num_gpu_blocks=\"{all}\"}} 1.0\n",
            super::prefix_cache::BLOCK
        );
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn values(text: &str) -> HashMap<String, f64> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines
            .map(|line| {
                let (name, value) = line.rsplit_once(' ').unwrap();
                assert!(name.starts_with("vllm:") && name.ends_with('}'), "{line}");
                (name.to_owned(), value.parse().unwrap())
            })
            .collect()
    }

    #[test]
    fn the_text_says_what_was_done() {
        let at = |ms: u64| Instant::from_ns(ms * 1_000_000);
        let mut metrics = Metrics::new("a\"b");
        let mut stages = Stages {
            arrival: at(1_000),
            started: at(1_100),
            first: None,
            last: at(0),
            prompt_tokens: 40,
            stops: false,
            blocks: 3,
        };
        metrics.looked_up(40, 32);
        metrics.token_event(&mut stages, 2, at(1_220));
        metrics.token_event(&mut stages, 2, at(1_250));
        metrics.token_event(&mut stages, 1, at(1_400));
        metrics.finished(&stages, Finish::Length, 5, at(1_401));
        metrics.finished(&stages, Finish::Abort, 5, at(1_401));
        let gauges = Gauges { running: 3, waiting: 2, blocks: (3, 12), prefix_cache: true };
        let text = metrics.print(gauges);
        let values = values(&text);
        let get = |name: &str, more: &str| {
            let key = format!("vllm:{name}{{engine=\"0\",{more}model_name=\"a\\\"b\"}}");
            *values.get(&key).unwrap_or_else(|| panic!("{key} in {text}"))
        };
        for (name, value) in [
            ("num_requests_running", 3.0),
            ("num_requests_waiting", 2.0),
            ("kv_cache_usage_perc", 0.25),
            ("prefix_cache_queries_total", 40.0),
            ("prefix_cache_hits_total", 32.0),
            ("prompt_tokens_total", 40.0),
            ("generation_tokens_total", 5.0),
            ("time_to_first_token_seconds_count", 1.0),
            ("time_to_first_token_seconds_sum", 0.22),
            ("inter_token_latency_seconds_count", 2.0),
            ("inter_token_latency_seconds_sum", 0.18),
            ("request_time_per_output_token_seconds_sum", 0.045),
            ("e2e_request_latency_seconds_sum", 0.401),
            ("request_queue_time_seconds_sum", 0.1),
            ("request_prefill_time_seconds_sum", 0.12),
            ("request_decode_time_seconds_sum", 0.18),
            ("request_inference_time_seconds_sum", 0.3),
        ] {
            assert!((get(name, "") - value).abs() < 1e-9, "{name}: {}", get(name, ""));
        }
        assert_eq!(get("request_success_total", "finished_reason=\"length\","), 1.0);
        assert_eq!(get("request_success_total", "finished_reason=\"abort\","), 1.0);
        for (le, below) in [("0.025", 0.0), ("0.05", 1.0), ("0.15", 2.0), ("80.0", 2.0), ("+Inf", 2.0)] {
            assert_eq!(get("inter_token_latency_seconds_bucket", &format!("le=\"{le}\",")), below, "{le}");
        }
        assert_eq!(get("time_to_first_token_seconds_bucket", "le=\"2560.0\","), 1.0);
        // each name is announced once, before its first value
        for line in text.lines().filter(|line| line.starts_with("# TYPE")) {
            assert_eq!(text.matches(line).count(), 1, "{line}");
        }
    }
}
