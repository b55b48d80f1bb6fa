//! The server: where it is, what it says it is, what it counts, and the bodies it is sent.

pub mod address;
pub mod facts;
pub mod fetch;
pub mod identity;
pub mod metrics_source;
pub mod openai;
pub mod prometheus;
pub mod route;
pub mod secret;
pub mod server_metrics;
pub mod tls;
