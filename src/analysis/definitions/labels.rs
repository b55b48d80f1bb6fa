//! What must stand in the title of every output, and from where on.

/// The server is on this host: no network is in any figure.
pub const LOOPBACK: &str = "LOOPBACK";
/// Never more than one request in flight, as measured.
pub const ONE_USER: &str = "ONE USER ONLY";
/// Answers came at one load point only.
pub const ONE_LOAD: &str = "ONE LOAD ONLY";
/// In every window the prompts were of nearly one length, see [`UNIFORM_VARIATION`].
pub const UNIFORM: &str = "UNIFORM LENGTHS";
/// A window was shorter than [`SHORT_S`], or kept fewer requests than [`FEW_KEPT`].
pub const SHORT: &str = "SHORT";
/// The server's cache saved at least [`CACHE_SHARE`] of the prompt tokens, as it reports itself.
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
