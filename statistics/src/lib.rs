//! Pure statistics: numbers in, numbers out; no rows, no units, no time but the place in the series.
//!
//! The same input gives the same bits on every machine: sums are taken in a stated order, random draws have a stated seed.

#![forbid(unsafe_code)]

pub mod anderson_darling;
pub mod autocorrelation;
pub mod change_points;
pub mod cluster_bootstrap;
pub mod disturbance;
pub mod gamma_distribution;
pub mod hodges_lehmann;
pub mod holm;
pub mod length_differences;
pub mod levels;
pub mod logarithm;
pub mod mser;
pub mod normal_tail;
pub mod order_interval;
pub mod percentiles;
pub mod permutation;
pub mod proportion;
pub mod rank_sum;
pub mod ranks;
pub mod simulated;
pub mod token_counts;
pub mod trend;
