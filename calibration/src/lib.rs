//! The known-truth server, and what is learnt about a client from it.
//!
//! The server (`mock`, `truth`) shares no code with the client but `units` and `clock`, so that no mistake can
//! cancel. The calculations beside it judge the client, and may use its code to do so.
#![forbid(unsafe_code)]

pub mod clock_cost;
pub mod closure;
pub mod mock;
pub mod model;
pub mod parser_cost;
pub mod spread;
pub mod truth;
pub mod verdict;
