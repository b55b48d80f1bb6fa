//! The server as typed: where it is, what is sent with every request, what must not be shown.

use super::BadPlan;
use bench_engine::units::Nanos;
use serde_json::{Map, Value};

/// Where the server is to be found, as typed.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetWords {
    /// None: the built-in mock.
    pub base_url: Option<String>,
    /// `--address`.
    pub address: Option<String>,
    /// `--model`.
    pub model: Option<String>,
    /// `--wait`.
    pub wait: Nanos,
    /// Headers, `Authorization` among them when there is a key.
    pub headers: Vec<(String, String)>,
    /// Where a mock on another host serves its log, and how much of that is known already, in bytes.
    pub remote_truth: Option<(String, u64)>,
    /// More flags of the built-in mock.
    pub mock_flags: Vec<String>,
    /// Name of the variable with the key, and whether it was given by flag.
    pub api_key_env: (String, bool),
    /// `--metrics-url`.
    pub metrics: MetricsWords,
}

/// Where the server's own counters are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetricsWords {
    /// At the server itself, when it has them.
    BesideLoad,
    /// Not at all.
    Nowhere,
    /// At this URL.
    At(String),
}

impl MetricsWords {
    pub(super) fn of(given: Option<&str>) -> Self {
        match given {
            None => MetricsWords::BesideLoad,
            Some("none") => MetricsWords::Nowhere,
            Some(url) => MetricsWords::At(url.to_owned()),
        }
    }
}

/// `http://user:password@host`: it would stand in the plan and in every report.
pub(super) fn has_user_info(url: &str) -> bool {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest).split(['/', '?', '#']).next();
    authority.is_some_and(|authority| authority.contains('@'))
}

pub(super) fn extra_body(text: Option<&str>) -> Result<Map<String, Value>, BadPlan> {
    match text.map(serde_json::from_str::<Value>) {
        None => Ok(Map::new()),
        Some(Ok(Value::Object(fields))) => Ok(fields),
        Some(Ok(other)) => Err(BadPlan::ExtraBody(format!("this is {other}"))),
        Some(Err(error)) => Err(BadPlan::ExtraBody(error.to_string())),
    }
}

pub(super) fn api_key_env(
    given: Option<&str>,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<(String, bool), BadPlan> {
    match given {
        Some(name) if environment(name).is_none_or(|v| v.is_empty()) => Err(BadPlan::NoKey(name.to_owned())),
        Some(name) => Ok((name.to_owned(), true)),
        None => Ok(("OPENAI_API_KEY".to_owned(), false)),
    }
}

/// Whether a key goes out, and what is to be said about it. A key is never sent over plain http to another host
/// unless it was asked for by name.
pub fn key_policy(name: &str, by_flag: bool, is_set: bool, loopback: bool) -> (bool, Option<String>) {
    match (by_flag, is_set, loopback) {
        (true, _, _) => (true, Some(format!("Authorization: Bearer is sent, from ${name}"))),
        (false, true, true) => {
            (true, Some(format!("Authorization: Bearer is sent, from ${name} (the default; unset it to send none)")))
        }
        (false, true, false) => (
            false,
            Some(format!("${name} is set but NOT sent: the connection is plain http; --api-key-env {name} sends it")),
        ),
        (false, false, _) => (false, None),
    }
}

/// What must not appear in any record, one a line: the key, and the values of the user's own headers. Values of fewer
/// than eight characters keep no secret, and taking them out would garble ordinary words.
pub fn secrets(key: Option<&str>, headers: &[(String, String)]) -> Option<String> {
    let values = headers.iter().map(|(_, value)| value.as_str()).filter(|value| value.len() >= 8);
    let all: Vec<&str> = key.into_iter().chain(values).collect();
    (!all.is_empty()).then(|| all.join("\n"))
}
