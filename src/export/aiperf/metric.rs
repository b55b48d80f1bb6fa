//! Figures of a metric as AIPerf 0.13.0 makes them (`aiperf/metrics/metric_dicts.py`, `derived_latency.py`): made in the unit
//! in which they are measured, shown in the one in which they stand in the file.

use serde_json::{Map, Value, json};

/// In percent.
const PERCENTILES: [u32; 9] = [1, 5, 10, 25, 50, 75, 90, 95, 99];

/// A metric that has a value a request, or several.
#[derive(Clone, Copy, Debug)]
pub(super) struct Metric {
    /// Its key.
    pub tag: &'static str,
    /// Of the file.
    pub unit: &'static str,
    /// What one of `unit` is in the unit in which it is measured.
    scale: f64,
    /// There is a variant in which each failed request counts as one that never ends.
    pub adjusted: bool,
}

const fn metric(tag: &'static str, unit: &'static str, scale: f64, adjusted: bool) -> Metric {
    Metric { tag, unit, scale, adjusted }
}

pub(super) const REQUEST_LATENCY: Metric = metric("request_latency", "ms", 1e6, true);
pub(super) const TTFT: Metric = metric("time_to_first_token", "ms", 1e6, true);
pub(super) const TTST: Metric = metric("time_to_second_token", "ms", 1e6, false);
pub(super) const TTFO: Metric = metric("time_to_first_output_token", "ms", 1e6, false);
pub(super) const ITL: Metric = metric("inter_token_latency", "ms", 1e6, true);
pub(super) const ICL: Metric = metric("inter_chunk_latency", "ms", 1e6, false);
pub(super) const DECODE: Metric = metric("decode_duration", "ms", 1e6, true);
pub(super) const SPEED: Metric = metric("output_token_throughput_per_user", "tokens/sec/user", 1.0, false);
pub(super) const E2E_SPEED: Metric = metric("e2e_output_token_throughput", "tokens/sec/user", 1.0, false);
pub(super) const PREFILL_SPEED: Metric = metric("prefill_throughput_per_user", "tokens/sec/user", 1.0, false);
pub(super) const OSL: Metric = metric("output_sequence_length", "tokens", 1.0, false);
pub(super) const ISL: Metric = metric("input_sequence_length", "tokens", 1.0, false);
pub(super) const OUTPUT: Metric = metric("output_token_count", "tokens", 1.0, false);
pub(super) const REASONING: Metric = metric("reasoning_token_count", "tokens", 1.0, false);
pub(super) const USAGE_PROMPT: Metric = metric("usage_prompt_tokens", "tokens", 1.0, false);
pub(super) const USAGE_COMPLETION: Metric = metric("usage_completion_tokens", "tokens", 1.0, false);
pub(super) const USAGE_REASONING: Metric = metric("usage_reasoning_tokens", "tokens", 1.0, false);
pub(super) const USAGE_CACHED: Metric = metric("usage_prompt_cache_read_tokens", "tokens", 1.0, false);
pub(super) const CREDIT_TO_START: Metric = metric("credit_to_start_latency", "ms", 1e6, false);
pub(super) const EFFECTIVE: Metric = metric("effective_latency", "ms", 1e6, false);

impl Metric {
    /// A value in the unit of the file.
    pub fn shown(&self, value: f64) -> f64 {
        value / self.scale
    }

    /// `JsonMetricResult`; None without values.
    pub fn figures(&self, values: &[f64]) -> Option<Value> {
        let sorted = ascending(values);
        let (first, last) = (*sorted.first()?, *sorted.last()?);
        let n = sorted.len() as f64;
        let sum: f64 = values.iter().sum();
        let mean = sorted.iter().sum::<f64>() / n;
        let variance = sorted.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n;
        let mut found = Map::new();
        let mut put = |name: &str, value: f64| found.insert(name.to_owned(), json!(self.shown(value)));
        put("avg", sum / n);
        PERCENTILES.iter().for_each(|p| drop(put(&format!("p{p}"), linear(&sorted, f64::from(*p)))));
        put("min", first);
        put("max", last);
        put("std", variance.sqrt());
        put("sum", sum);
        found.insert("count".into(), json!(values.len()));
        found.insert("unit".into(), json!(self.unit));
        Some(Value::Object(found))
    }

    /// The same with `failed` more that never end, nearest rank; what is infinite is null, as AIPerf writes it.
    pub fn with_failed(&self, values: &[f64], failed: usize) -> Option<Value> {
        let sorted = ascending(values);
        let first = *sorted.first().filter(|_| failed > 0)?;
        let n = sorted.len() + failed;
        let mut found = Map::new();
        for name in ["avg", "sum", "max"] {
            found.insert(name.into(), Value::Null);
        }
        for p in PERCENTILES {
            let rank = (f64::from(p) / 100.0 * (n - 1) as f64).round_ties_even() as usize;
            found.insert(format!("p{p}"), json!(sorted.get(rank).map(|value| self.shown(*value))));
        }
        found.insert("min".into(), json!(self.shown(first)));
        found.insert("count".into(), json!(n));
        found.insert("unit".into(), json!(self.unit));
        Some(Value::Object(found))
    }
}

fn ascending(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// Percentile of sorted values, linear between neighbours whatever their number; 0 of none.
pub(super) fn linear(sorted: &[f64], p: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let place = p / 100.0 * last as f64;
    let below = (place as usize).min(last);
    sorted[below] + (place - below as f64) * (sorted[(below + 1).min(last)] - sorted[below])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_linear_and_deviations_over_n() {
        let found = REQUEST_LATENCY.figures(&[40e6, 10e6, 30e6, 20e6]).expect("values");
        let of = |name: &str| found[name].as_f64().expect("a number");
        assert_eq!((of("avg"), of("p50"), of("p90"), of("p99")), (25.0, 25.0, 37.0, 39.7));
        assert_eq!((of("min"), of("max"), of("sum"), of("count")), (10.0, 40.0, 100.0, 4.0));
        assert!((of("std") - 11.180_339_887_498_949).abs() < 1e-12);
        assert_eq!(REQUEST_LATENCY.figures(&[]), None);
        assert_eq!(OSL.figures(&[7.0]).expect("a value")["p1"], 7.0);
    }

    #[test]
    fn a_failed_request_never_ends() {
        let found = TTFT.with_failed(&[10e6, 20e6, 30e6], 1).expect("values");
        // ranks .5 and 1.5 of 0..3: to the even one
        assert_eq!(
            (&found["p25"], &found["p50"], &found["p75"], &found["p99"]),
            (&json!(20.0), &json!(30.0), &json!(30.0), &Value::Null)
        );
        assert_eq!((&found["count"], &found["min"], &found["avg"]), (&json!(4), &json!(10.0), &Value::Null));
        assert_eq!((TTFT.with_failed(&[10e6], 0), TTFT.with_failed(&[], 3)), (None, None));
    }
}
