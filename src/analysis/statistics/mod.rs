//! Pure statistics: numbers in, numbers out, the same bits on every machine.

pub mod hodges_lehmann;
pub mod holm;
pub mod permutation;
