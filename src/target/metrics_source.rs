//! Where a server's own counters are read, and how one reading goes: outside the load path, with every wait bounded.

use super::address::{AddressError, Target};
use super::fetch::{self, Patience};
use super::secret::{Headers, Secret};
use super::server_metrics::{self, PROCESS_START, ServerMetrics};
use crate::plan::MetricsWords;
use crate::reading::printable;
use bench_engine::units::Nanos;
use serde_json::{Value, json};

/// Longest wait for each read, and beside the load for a connection. llama.cpp answers between two steps of its decoding: on a busy host
/// one reading in four took longer than a second.
const PATIENCE: Nanos = Nanos::from_secs(2);
/// For each read at the start, where nothing waits: the first answer of a busy vLLM took more than a second.
const PATIENCE_AT_START: Nanos = Nanos::from_secs(5);
/// Longest text taken.
const MOST_BYTES: usize = 8 * 1024 * 1024;

/// Where the server's counters are read.
pub struct MetricsSource {
    url: String,
    target: Target,
    path: String,
    fields: Headers,
    secret: Option<Secret>,
    /// It goes the way that the load goes.
    beside_load: bool,
    /// Longest wait for a connection at the start.
    connect: Nanos,
    /// What was found at the start.
    first: Result<ServerMetrics, String>,
}

/// A source, or why there is none.
pub type Found = Result<MetricsSource, String>;

impl MetricsSource {
    /// Looks where `words` say for the counters of the server at `load`, which is spoken to with `fields`. A connect takes
    /// at most `connect`, TLS handshake included.
    ///
    /// # Errors
    /// A `--metrics-url` that is no URL. Within, why there is no source; one that was asked for by name is a source even
    /// when it does not answer yet.
    pub fn find(
        words: &MetricsWords,
        load: &Target,
        fields: &[(String, String)],
        secret: Option<&str>,
        connect: Nanos,
    ) -> Result<Found, AddressError> {
        let at = |target: Target, path: String| MetricsSource {
            url: format!("{}://{}{path}", if target.tls.is_some() { "https" } else { "http" }, target.authority),
            beside_load: target.address == load.address,
            fields: if target.authority == load.authority { Headers::new(fields.to_vec()) } else { Headers::default() },
            target: Target { prefix: String::new(), ..target },
            path,
            secret: secret.map(|secret| Secret::new(secret.to_owned())),
            connect,
            first: Err(String::new()),
        };
        let mut source = match words {
            MetricsWords::Nowhere => return Ok(Err("--metrics-url none".to_owned())),
            MetricsWords::BesideLoad => at(load.clone(), load.metrics_path()),
            MetricsWords::At(url) => {
                let tls = &load.tls_words;
                let target = Target::resolve_given_by("--metrics-url", url, None, &tls.to_others())?;
                // what opens the server's door, a certificate of our own included, is shown at no other
                let target = match target.authority == load.authority && target.tls.is_some() {
                    true => Target::resolve_given_by("--metrics-url", url, None, tls)?,
                    false => target,
                };
                let path = if target.prefix.is_empty() { "/metrics".to_owned() } else { target.prefix.clone() };
                at(target, path)
            }
        };
        source.first = source.ask(Patience { connect, reply: PATIENCE_AT_START }).0;
        let told = match &source.first {
            Err(why) => Some(why.clone()),
            Ok(found) if found.values.keys().all(|name| name == PROCESS_START) => {
                Some(format!("none of its {} samples has a name of vLLM, SGLang, TGI or llama.cpp", found.samples))
            }
            Ok(_) => None,
        };
        Ok(match (told, words) {
            (Some(why), MetricsWords::BesideLoad) => Err(format!("{}: {why}", source.url)),
            _ => Ok(source),
        })
    }

    /// What was read at the start.
    pub fn first(&self) -> Option<&ServerMetrics> {
        self.first.as_ref().ok()
    }

    /// What was read at the start, for people: `http://h/metrics (vllm): requests_running 0, ...`.
    pub fn figures(&self) -> String {
        let Some(first) = self.first() else { return self.url.clone() };
        let list: Vec<String> = first.values.iter().map(|(name, value)| format!("{name} {value}")).collect();
        format!("{} ({}): {}", self.url, first.engine.unwrap_or("no engine known here"), list.join(", "))
    }

    /// Both cases for people.
    pub fn words(found: &Found) -> String {
        match found {
            Err(why) => format!("none ({why}): the server's own counters are not in this report"),
            Ok(source) => match &source.first {
                Err(why) => format!("WARNING: {}: {why}; it is asked again beside the load", source.url),
                Ok(first) => {
                    let (n, engine) = (first.values.len(), first.engine.unwrap_or("no engine known here"));
                    let names = if n == 1 { "figure" } else { "figures" };
                    format!("{} ({engine}, {n} {names}), once a second beside the load", source.url)
                }
            },
        }
    }

    /// Facts for the plan.
    pub fn facts(found: &Found) -> Value {
        match found {
            Err(why) => json!({"url": null, "engine": null, "names": [], "why_not": why}),
            Ok(source) => json!({
                "url": source.url,
                "engine": source.first().and_then(|first| first.engine),
                "names": source.first().map_or_else(Vec::new, |first| first.values.keys().collect()),
                "why_not": source.first.as_ref().err(),
            }),
        }
    }

    /// Asks once; also the round trip of the connection, when it goes the load's way.
    pub fn scrape(&self) -> (Result<ServerMetrics, String>, Option<u32>) {
        // a reading that takes longer than its pace is of no use beside a load
        self.ask(Patience { connect: self.connect.min(PATIENCE), reply: PATIENCE })
    }

    fn ask(&self, patience: Patience) -> (Result<ServerMetrics, String>, Option<u32>) {
        let reply = match fetch::get_at_most(&self.target, &self.path, &self.fields, patience, MOST_BYTES) {
            Err(error) => return (Err(printable(&error.to_string(), self.secret.as_deref())), None),
            Ok(reply) => reply,
        };
        let rtt_us = reply.round_trip.rtt_us.filter(|_| self.beside_load);
        let found = match (reply.status, reply.encoding) {
            (200, None) => {
                let found = server_metrics::read(&String::from_utf8_lossy(&reply.body));
                if found.samples > 0 { Ok(found) } else { Err("what it answers is no Prometheus text".to_owned()) }
            }
            (200, Some(coding)) => Err(format!(
                "its answer is compressed ({}), although that was not asked for",
                printable(&coding, self.secret.as_deref())
            )),
            (status, _) => Err(format!("HTTP {status}")),
        };
        (found, rtt_us)
    }
}
