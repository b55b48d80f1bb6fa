//! What the records mean: pure functions over rows. No clock, no socket.

pub mod comparison;
pub mod definitions;
pub mod exhibits;
pub mod percentiles;
pub mod saturation;
#[cfg(test)]
pub(crate) mod specimen;
pub mod summary;

pub use ::statistics;
