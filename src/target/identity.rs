//! What a server says it is.

use super::address::Target;
use super::fetch::{self, FetchError};
use crate::reading::{printable, without};
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;

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
    /// The server said that it is not ready yet (503).
    #[serde(skip)]
    pub not_ready: bool,
}

/// Asks `/v1/models` and `/version`. A server that does not answer them is still a server; one that does not
/// accept connections is not. Whatever it answers, `secret` is not in what is kept of it.
///
/// # Errors
/// [`FetchError::Connect`] only.
pub fn ask(target: &Target, fields: &[(String, String)], secret: Option<&str>) -> Result<Identity, FetchError> {
    let timeout = Duration::from_secs(10);
    let mut identity = Identity::default();
    let clean = |body: &[u8]| without(&String::from_utf8_lossy(body), secret);
    match fetch::get(target, "/v1/models", fields, timeout) {
        Err(error @ FetchError::Connect { .. }) => return Err(error),
        Err(other) => identity.models_error = Some(other.to_string()),
        Ok(reply) => {
            identity.not_ready = reply.status == 503;
            identity.server = reply.server.map(|server| printable(&server, secret));
            let body = clean(&reply.body);
            let document: Option<Value> = serde_json::from_str(&body).ok();
            let ids =
                document.as_ref().and_then(|d| d.get("data")).and_then(Value::as_array).cloned().unwrap_or_default();
            identity.models = ids.iter().filter_map(|m| Some(m.get("id")?.as_str()?.to_owned())).collect();
            if reply.status == 200 && !identity.models.is_empty() {
                identity.models_document = document;
            } else {
                let said = crate::reading::content::error_body_words(body.as_bytes());
                identity.models_error = Some(format!("HTTP {} {}", reply.status, printable(&said, secret)));
            }
        }
    }
    if let Ok(reply) = fetch::get(target, "/version", fields, timeout) {
        identity.version = serde_json::from_str(&clean(&reply.body)).ok().filter(|_| reply.status == 200);
    }
    Ok(identity)
}
