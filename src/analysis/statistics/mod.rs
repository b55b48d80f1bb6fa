//! Statistics as pure functions of numbers.

pub mod proportion;
