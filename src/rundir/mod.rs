//! The run directory: what stands in it, how it is written.

pub mod chain;
pub mod row;
