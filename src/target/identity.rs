//! What a server says it is.

use super::address::Target;
use super::facts::Facts;
use super::fetch::{self, FetchError, Patience};
use super::server_metrics::{PROCESS_START, ServerMetrics};
use crate::campaign::timestamp;
use crate::reading::{document_without, printable, printable_cut};
use bench_engine::units::{Nanos, WallInstant};
use serde::Serialize;
use serde_json::Value;

/// What was found out. Absent is unknown, never assumed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Identity {
    /// Ids in `/v1/models`, in its order.
    pub models: Vec<String>,
    /// `/v1/models`, verbatim.
    pub models_document: Option<Value>,
    /// `/version`, verbatim.
    pub version: Option<Value>,
    /// `Server` header.
    pub server: Option<String>,
    /// Why `/v1/models` told nothing.
    pub models_error: Option<String>,
    /// What else it tells, of a list of known names.
    pub facts: Facts,
    /// When its process started, RFC 3339, by its own counters.
    pub started_at: Option<String>,
    /// How long before this campaign's start that was, in s, by this host's clock; the two clocks may differ.
    pub age_s: Option<f64>,
    /// The server said that it is not ready yet (503).
    #[serde(skip)]
    pub not_ready: bool,
}

impl Identity {
    /// Takes the start of the server's process from its own counters, at `now`. A start that lies in the future, or in
    /// 1970, was told by a clock that is not set.
    pub fn started(&mut self, metrics: Option<&ServerMetrics>, now: WallInstant) {
        let now_s = now.ns() as f64 / 1e9;
        let told = metrics.and_then(|m| m.values.get(PROCESS_START).copied());
        let started_s = told.filter(|s| (86_400.0..=now_s).contains(s));
        self.started_at = started_s.map(|s| {
            let stamp = timestamp((s * 1e9) as u64);
            let (day, time) = stamp.split_once('T').unwrap_or((&stamp, ""));
            format!("{day}T{}Z", time.replace('-', ":"))
        });
        self.age_s = started_s.map(|s| ((now_s - s) * 1e3).round() / 1e3);
    }
}

/// Longest wait for each read.
const PATIENCE: Nanos = Nanos::from_secs(10);

/// Asks `/v1/models` and `/version`; each connect takes at most `connect`, TLS handshake included. A server that does not answer them is still a server; one that does not
/// accept connections, or with which there is no TLS, is not. Whatever it answers, `secret` is not in what is kept of it.
///
/// # Errors
/// [`FetchError::Connect`] and [`FetchError::Tls`] only.
pub fn ask(
    target: &Target,
    fields: &[(String, String)],
    secret: Option<&str>,
    connect: Nanos,
) -> Result<Identity, FetchError> {
    let patience = Patience { connect, reply: PATIENCE };
    let mut identity = Identity::default();
    let text = |body: &[u8]| String::from_utf8_lossy(body).into_owned();
    match fetch::get(target, "/v1/models", fields, patience) {
        Err(error @ (FetchError::Connect { .. } | FetchError::Tls { .. })) => return Err(error),
        // what a server that speaks TLS does with a plain request, where it sends no alert
        Err(closed @ FetchError::ClosedAtOnce) if target.tls.is_none() => {
            identity.models_error = Some(format!("{closed}; does it speak https:// on this port?"));
        }
        Err(other) => identity.models_error = Some(printable_cut(&other.to_string(), secret)),
        Ok(reply) => {
            identity.not_ready = reply.status == 503;
            identity.server = reply.server.map(|server| printable(&server, secret));
            let document = document_without(&text(&reply.body), secret);
            let ids =
                document.as_ref().and_then(|d| d.get("data")).and_then(Value::as_array).cloned().unwrap_or_default();
            identity.models = ids.iter().filter_map(|m| Some(m.get("id")?.as_str()?.to_owned())).collect();
            if reply.status == 200 && !identity.models.is_empty() {
                identity.models_document = document;
            } else {
                let said = crate::reading::content::error_body_words(&reply.body);
                identity.models_error = Some(format!("HTTP {} {}", reply.status, printable_cut(&said, secret)));
            }
        }
    }
    if identity.not_ready {
        return Ok(identity);
    }
    if let Ok(reply) = fetch::get(target, "/version", fields, patience) {
        identity.version = document_without(&text(&reply.body), secret).filter(|_| reply.status == 200);
    }
    Ok(identity)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::server_metrics::read;

    #[test]
    fn a_start_is_told_as_everybody_tells_time() {
        let now = WallInstant::from_ns(1_796_149_385_000_000_000);
        let told = |text: &str| {
            let mut identity = Identity::default();
            identity.started(Some(&read(text)), now);
            (identity.started_at, identity.age_s)
        };
        let start = "process_start_time_seconds 1796149375.4\n";
        assert_eq!(told(start), (Some("2026-12-01T18:22:55Z".to_owned()), Some(9.6)));
        assert_eq!(told("process_start_time_seconds 1896149375\n"), (None, None));
        assert_eq!(told("process_start_time_seconds 12\n"), (None, None));
        assert_eq!(told("a 1\n"), (None, None));
    }
}
