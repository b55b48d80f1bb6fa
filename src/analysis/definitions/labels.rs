//! What must stand in the title of every output, and from where on.

use crate::workload::cache::Cache;
use serde_json::Value;

/// What the plan's work is against what its name promises: the protocol with its differences, else a scale that makes
/// all lengths shorter or longer; whether the server's cache is meant to help; what was done on purpose; and whether anybody
/// vouched for the server.
pub fn of_work(plan: &Value) -> Vec<String> {
    let scale = plan["workload"]["length_scale"].as_f64().filter(|scale| *scale != 1.0);
    let promised = match plan["protocol"].as_str() {
        Some(protocol) => Some(protocol.to_uppercase()),
        None => scale.map(|scale| format!("LENGTH SCALE {scale}")),
    };
    let cache = plan["workload"]["cache"].as_str().and_then(|words| words.parse::<Cache>().ok());
    let test = cache.filter(|cache| cache.is_test()).map(|_| CACHE_TEST.to_owned());
    promised.into_iter().chain(test).chain(on_purpose(plan)).chain(unverified(plan)).collect()
}

/// The server's certificate was not verified: whoever answered was measured.
pub const UNVERIFIED: &str = "SERVER NOT VERIFIED";

/// `--insecure` over TLS, as planned.
fn unverified(plan: &Value) -> Option<String> {
    (plan["tls"]["roots"] == "nobody").then(|| UNVERIFIED.to_owned())
}

/// Whether the server was broken, or a load marked, on purpose.
fn on_purpose(plan: &Value) -> Option<String> {
    let injections = plan["injections"].as_array().filter(|all| !all.is_empty())?;
    let only_load = injections.iter().all(|injection| injection["kind"] == "spike");
    Some(if only_load { SPIKE } else { FAILURE }.to_owned())
}

/// Something was done on purpose that may break the server.
pub const FAILURE: &str = "FAILURE INJECTED";
/// The load has a marked spike.
pub const SPIKE: &str = "SPIKE INJECTED";

/// Prompts share what a server's cache can save, on purpose.
pub const CACHE_TEST: &str = "CACHE TEST";

/// The server is on this host: no network is in any figure.
pub const LOOPBACK: &str = "LOOPBACK";
/// Never more than one request in flight as measured, or of sessions never more than one under way.
pub const ONE_USER: &str = "ONE USER ONLY";
/// Answers came at one load point only.
pub const ONE_LOAD: &str = "ONE LOAD ONLY";
/// In every window the prompts were of nearly one length, see [`UNIFORM_VARIATION`].
pub const UNIFORM: &str = "UNIFORM LENGTHS";
/// A window was shorter than [`SHORT_S`], or kept fewer requests than [`FEW_KEPT`].
pub const SHORT: &str = "SHORT";
/// The server's cache saved at least [`CACHE_SHARE`] of the prompt tokens, as it reports itself; with sessions, of those of
/// first turns: that a later turn finds its own history is what sessions are about, and the server's counters cannot
/// tell one from the other.
pub const CACHE_HELPED: &str = "CACHE HELPED";
/// The gates on the client withhold gross in some window.
pub const CLIENT_LIMITED: &str = "CLIENT-LIMITED";
/// Not every window that was planned was closed in peace.
pub const NOT_COMPLETE: &str = "NOT COMPLETE";

/// A window shorter than this, in s, shows no drift, and of a server's slow changes nothing.
pub const SHORT_S: f64 = 120.0;
/// Fewer kept requests than this make no tail: the seed's protocol keeps 300.
pub const FEW_KEPT: u64 = 300;
/// Coefficient of variation of the prompt tokens, below.
pub const UNIFORM_VARIATION: f64 = 0.1;
/// Cached tokens of prompt tokens, from here on.
pub const CACHE_SHARE: f64 = 0.01;
/// The gate that blames the load, not the client: what is behind may be the server.
pub const OVERLOAD_GATE: &str = "achieved";

#[cfg(test)]
mod tests {
    use super::of_work;
    use serde_json::json;

    #[test]
    fn the_protocol_and_the_scale_are_said() {
        let scaled = json!({"workload": {"length_scale": 0.1}});
        assert_eq!(of_work(&scaled), ["LENGTH SCALE 0.1"]);
        assert_eq!(of_work(&json!({"workload": {"length_scale": 1.0}, "protocol": null})), [""; 0]);
        let named = json!({"workload": {"length_scale": 0.1}, "protocol": "seed-v1 but for length scale 0.1"});
        assert_eq!(of_work(&named), ["SEED-V1 BUT FOR LENGTH SCALE 0.1"]);
        let of = |roots: &str| of_work(&json!({"workload": {}, "tls": {"roots": roots}}));
        assert_eq!((of("nobody"), of("file").len()), (vec!["SERVER NOT VERIFIED".to_owned()], 0));
        for (cache, is_test) in [("unique", false), ("as-is", false), ("repeat", true), ("shared-prefix:64", true)] {
            let plan = json!({"workload": {"length_scale": 0.5, "cache": cache}});
            let labels = ["LENGTH SCALE 0.5", "CACHE TEST"];
            assert_eq!(of_work(&plan), labels[..1 + usize::from(is_test)], "{cache}");
        }
    }
}
