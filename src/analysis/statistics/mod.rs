//! Statistics over plain numbers: no rows, no units, no time but the place in the series.
//!
//! The same input gives the same bits on every machine: sums are taken in the order of the series, and nothing but the
//! four operations and the square root, which IEEE 754 rounds the same everywhere, is asked of the processor.

pub mod autocorrelation;
pub mod change_points;
pub mod levels;
pub mod mser;
pub mod normal_tail;
pub mod rank_sum;
pub mod ranks;
#[cfg(test)]
pub(crate) mod simulated;
pub mod trend;
