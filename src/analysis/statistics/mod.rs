//! Statistics as pure functions of numbers.

pub mod order_interval;
pub mod proportion;
