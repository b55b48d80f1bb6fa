//! What the records mean: pure functions over rows. No clock, no socket.

pub mod definitions;
pub mod percentiles;
#[cfg(test)]
pub(crate) mod specimen;
pub mod statistics;
pub mod summary;
