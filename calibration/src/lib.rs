//! The known-truth server, and what is learnt about a client from it.
//!
//! The server shares no code with the client but `units` and `clock`, so that no mistake can cancel.
#![forbid(unsafe_code)]

pub mod mock;
pub mod truth;
