//! What a server tells of itself beside its models: each engine's own endpoint asked once, and of the answer only what
//! stands in the list below. Their arguments may hold keys; nothing is kept because it happened to be there.

use super::address::Target;
use super::fetch::{self, Patience};
use super::identity::Identity;
use super::server_metrics::ServerMetrics;
use crate::reading::{document_without, printable};
use bench_engine::clock::{Clock, SystemClock};
use bench_engine::units::Nanos;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// One fact, and who told it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fact {
    /// A word, a number, or true and false.
    pub value: Value,
    /// The endpoint, or `Server` for that header.
    pub from: String,
}

/// Facts by name: `engine`, `version`, `build`, `image`, `model_root`, `model_path`, `model_revision`, `parent`,
/// `owned_by`, `max_model_len`, `dtype`, `quantization`, `kv_cache_dtype`, `tensor_parallel`, `pipeline_parallel`,
/// `data_parallel`, `prefix_caching`, `radix_cache_disabled`, `max_num_seqs`, `block_size`, `num_gpu_blocks`,
/// `parameters`, `device`, `gpus`.
pub type Facts = BTreeMap<String, Fact>;

/// Longest wait for each read.
const PATIENCE: Nanos = Nanos::from_secs(2);
/// After so long no further endpoint is asked.
const ALTOGETHER: Nanos = Nanos::from_secs(8);
/// `owned_by`, and the version, of the mock of this program: it has no more to tell.
const MOCK: &str = "tarebench-mock";

/// Whether this program's mock says that it is one.
pub fn is_mock(identity: &Identity) -> bool {
    identity.version.as_ref().and_then(|version| version["version"].as_str()).is_some_and(|v| v.contains(MOCK))
}

/// An endpoint of an engine, and where in its answer which fact stands.
struct Told {
    engine: &'static str,
    endpoint: &'static str,
    facts: &'static [(&'static str, &'static str)],
}

/// In the entry of the model in `/v1/models`.
const OF_MODEL: [(&str, &str); 8] = [
    ("owned_by", "/owned_by"),
    ("model_root", "/root"),
    ("parent", "/parent"),
    ("max_model_len", "/max_model_len"),
    ("max_model_len", "/meta/n_ctx"),
    ("quantization", "/meta/ftype"),
    ("parameters", "/meta/n_params"),
    ("model_bytes", "/meta/size"),
];

const SGLANG: &[(&str, &str)] = &[
    ("version", "/version"),
    ("model_path", "/model_path"),
    ("model_revision", "/revision"),
    ("dtype", "/dtype"),
    ("quantization", "/quantization"),
    ("kv_cache_dtype", "/kv_cache_dtype"),
    ("max_model_len", "/context_length"),
    ("tensor_parallel", "/tp_size"),
    ("pipeline_parallel", "/pp_size"),
    ("data_parallel", "/dp_size"),
    ("radix_cache_disabled", "/disable_radix_cache"),
    ("max_num_seqs", "/max_running_requests"),
    ("block_size", "/page_size"),
    ("device", "/device"),
];

const TOLD: [Told; 6] = [
    Told {
        engine: "vllm",
        // only where it was started in development mode
        endpoint: "/server_info?config_format=json",
        facts: &[
            ("model_path", "/vllm_config/model_config/model"),
            ("model_revision", "/vllm_config/model_config/revision"),
            ("dtype", "/vllm_config/model_config/dtype"),
            ("quantization", "/vllm_config/model_config/quantization"),
            ("max_model_len", "/vllm_config/model_config/max_model_len"),
            ("kv_cache_dtype", "/vllm_config/cache_config/cache_dtype"),
            ("prefix_caching", "/vllm_config/cache_config/enable_prefix_caching"),
            ("block_size", "/vllm_config/cache_config/block_size"),
            ("tensor_parallel", "/vllm_config/parallel_config/tensor_parallel_size"),
            ("pipeline_parallel", "/vllm_config/parallel_config/pipeline_parallel_size"),
            ("data_parallel", "/vllm_config/parallel_config/data_parallel_size"),
            ("max_num_seqs", "/vllm_config/scheduler_config/max_num_seqs"),
            ("gpus", "/system_env/nvidia_gpu_models"),
        ],
    },
    Told { engine: "sglang", endpoint: "/get_server_info", facts: SGLANG },
    Told { engine: "sglang", endpoint: "/server_info", facts: SGLANG },
    Told {
        engine: "sglang",
        endpoint: "/get_model_info",
        facts: &[("model_path", "/model_path"), ("model_revision", "/weight_version")],
    },
    Told {
        engine: "tgi",
        endpoint: "/info",
        facts: &[
            ("version", "/version"),
            ("build", "/sha"),
            ("image", "/docker_label"),
            ("model_path", "/model_id"),
            ("model_revision", "/model_sha"),
            ("dtype", "/model_dtype"),
            ("device", "/model_device_type"),
            ("max_model_len", "/max_total_tokens"),
            ("max_num_seqs", "/max_concurrent_requests"),
        ],
    },
    Told {
        engine: "llama.cpp",
        endpoint: "/props",
        facts: &[
            ("version", "/build_info"),
            ("model_path", "/model_path"),
            ("max_model_len", "/default_generation_settings/n_ctx"),
            ("max_num_seqs", "/total_slots"),
        ],
    },
];

/// Asks what the engine behind `target` has to tell of itself and of `model`; each connect takes at most `connect`. A server that does not answer tells
/// nothing. Whatever it answers, `secret` is not in what is kept.
pub fn ask(
    target: &Target,
    fields: &[(String, String)],
    secret: Option<&str>,
    identity: &Identity,
    model: &str,
    metrics: Option<&ServerMetrics>,
    connect: Nanos,
) -> Facts {
    let mut facts = told_already(identity, model, metrics, secret);
    let engine = facts.get("engine").and_then(|fact| fact.value.as_str()).map(str::to_owned);
    let prefix = target.prefix.strip_suffix("/v1").unwrap_or(&target.prefix).to_owned();
    let root = Target { prefix, ..target.clone() };
    let until = SystemClock.now() + ALTOGETHER;
    let patience = Patience { connect, reply: PATIENCE };
    for told in TOLD.iter().filter(|told| engine.as_deref().is_none_or(|engine| engine == told.engine)) {
        if SystemClock.now() >= until {
            break;
        }
        let Ok(reply) = fetch::get(&root, told.endpoint, fields, patience) else { continue };
        let document = document_without(&String::from_utf8_lossy(&reply.body), secret);
        let Some(document) = document.filter(|_| reply.status == 200) else { continue };
        take(&mut facts, &document, told.endpoint, told.facts, secret);
    }
    facts
}

/// What the list of models, the version, the header and the labels of `/metrics` tell.
fn told_already(identity: &Identity, model: &str, metrics: Option<&ServerMetrics>, secret: Option<&str>) -> Facts {
    let mut facts = Facts::new();
    let entries = identity.models_document.as_ref().and_then(|d| d["data"].as_array()).map_or(&[][..], Vec::as_slice);
    if let Some(entry) = entries.iter().find(|entry| entry["id"] == model).or(entries.first()) {
        take(&mut facts, entry, "/v1/models", &OF_MODEL, secret);
    }
    if let Some(version) = &identity.version {
        take(&mut facts, version, "/version", &[("version", "/version"), ("version", "")], secret);
    }
    let told = |words: Option<&str>, from: &str| {
        let words = words?.to_ascii_lowercase();
        let names =
            [(MOCK, MOCK), ("vllm", "vllm"), ("sglang", "sglang"), ("llama", "llama.cpp"), ("text-generation", "tgi")];
        let (_, engine) = names.iter().find(|(name, _)| words.contains(name))?;
        Some(Fact { value: Value::from(*engine), from: from.to_owned() })
    };
    let words = |name: &str| facts.get(name).and_then(|fact| fact.value.as_str());
    let engine = told(words("version").filter(|v| v.contains(MOCK)), "/version")
        .or_else(|| told(words("owned_by"), "/v1/models"))
        .or_else(|| told(identity.server.as_deref(), "Server"))
        .or_else(|| Some(Fact { value: metrics?.engine?.into(), from: "/metrics".to_owned() }));
    facts.extend(engine.map(|engine| ("engine".to_owned(), engine)));
    let labels = [
        ("kv_cache_dtype", "cache_dtype"),
        ("prefix_caching", "enable_prefix_caching"),
        ("block_size", "block_size"),
        ("num_gpu_blocks", "num_gpu_blocks"),
    ];
    for (name, label) in labels {
        if let Some(value) = metrics.and_then(|m| m.config.get(label)).filter(|value| *value != "None") {
            let fact = Fact { value: printable(value, secret).into(), from: "/metrics".to_owned() };
            facts.entry(name.to_owned()).or_insert(fact);
        }
    }
    facts
}

/// Takes what `wanted` points at and what is a word, a number, or true and false. Who told a fact first is believed.
fn take(facts: &mut Facts, document: &Value, from: &str, wanted: &[(&str, &str)], secret: Option<&str>) {
    for (name, pointer) in wanted {
        let value = match document.pointer(pointer) {
            Some(Value::String(words)) if !words.is_empty() => Value::from(printable(words, secret)),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => value.clone(),
            _ => continue,
        };
        let from = from.split('?').next().unwrap_or(from).to_owned();
        facts.entry((*name).to_owned()).or_insert(Fact { value, from });
    }
}

/// For people: `dtype bfloat16, version 0.32.0`.
pub fn words(facts: &Facts) -> String {
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    facts.iter().map(|(name, fact)| format!("{name} {}", plain(&fact.value))).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn plain(facts: &Facts) -> Vec<(&str, String, &str)> {
        facts.iter().map(|(name, fact)| (name.as_str(), fact.value.to_string(), fact.from.as_str())).collect()
    }

    #[test]
    fn the_list_of_models_names_the_engine() {
        let document = json!({"object": "list", "data": [
            {"id": "other", "owned_by": "x"},
            {"id": "tiny", "owned_by": "vllm", "root": "/srv/llms/tiny", "parent": null, "max_model_len": 2048},
        ]});
        let version = Some(json!({"version": "0.32.0"}));
        let identity = Identity { models_document: Some(document), version, ..Identity::default() };
        let metrics = crate::target::server_metrics::read(
            "vllm:cache_config_info{block_size=\"16\",cache_dtype=\"auto\",num_gpu_blocks=\"None\"} 1\n",
        );
        let facts = told_already(&identity, "tiny", Some(&metrics), None);
        let expected = [
            ("block_size", "\"16\"".to_owned(), "/metrics"),
            ("engine", "\"vllm\"".to_owned(), "/v1/models"),
            ("kv_cache_dtype", "\"auto\"".to_owned(), "/metrics"),
            ("max_model_len", "2048".to_owned(), "/v1/models"),
            ("model_root", "\"/srv/llms/tiny\"".to_owned(), "/v1/models"),
            ("owned_by", "\"vllm\"".to_owned(), "/v1/models"),
            ("version", "\"0.32.0\"".to_owned(), "/version"),
        ];
        assert_eq!(plain(&facts), expected);
        assert!(words(&facts).contains("max_model_len 2048, model_root /srv/llms/tiny"), "{}", words(&facts));
    }

    #[test]
    fn keys_in_arguments_are_not_kept() {
        let document = json!({"model_path": "/m/sk-1", "api_key": "sk-2", "dtype": "auto", "tp_size": 2,
            "quantization": null, "args": {"hf_token": "sk-3"}, "version": ["x"]});
        let mut facts = Facts::new();
        take(&mut facts, &document, "/get_server_info", SGLANG, Some("sk-1"));
        let expected = [
            ("dtype", "\"auto\"".to_owned(), "/get_server_info"),
            ("model_path", "\"/m/[key]\"".to_owned(), "/get_server_info"),
            ("tensor_parallel", "2".to_owned(), "/get_server_info"),
        ];
        assert_eq!(plain(&facts), expected);
        // what was known before stays
        take(&mut facts, &json!({"dtype": "float16"}), "/x?y=z", SGLANG, None);
        assert_eq!(plain(&facts)[0].1, "\"auto\"");
    }

    #[test]
    fn the_header_and_the_counters_name_it_too() {
        let engine = |identity: &Identity, text: &str| {
            let metrics = crate::target::server_metrics::read(text);
            told_already(identity, "m", Some(&metrics), None).get("engine").map(|fact| fact.from.clone())
        };
        let named = Identity { server: Some("llama.cpp".to_owned()), ..Identity::default() };
        assert_eq!(engine(&named, ""), Some("Server".to_owned()));
        assert_eq!(engine(&Identity::default(), "tgi_queue_size 1\n"), Some("/metrics".to_owned()));
        assert_eq!(engine(&Identity::default(), ""), None);
    }
}
