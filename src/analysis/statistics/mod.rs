//! Pure statistics: numbers in, numbers out, the same bits on every machine.

pub mod cluster_bootstrap;
pub mod hodges_lehmann;
pub mod holm;
pub mod order_interval;
pub mod permutation;
pub mod proportion;
pub mod token_counts;
