//! The run directory: what stands in it, how it is written.

pub mod arrivals;
pub mod chain;
pub mod digest;
pub mod disclosed;
pub mod health;
pub mod kind;
pub mod mark;
pub mod opening;
pub mod row;
pub mod rows;
pub mod run_json;
pub mod scrape;
pub mod sessions;
pub mod soak;
pub mod trace;
pub mod window;
