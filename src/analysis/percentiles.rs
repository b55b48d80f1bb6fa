//! Figures of a sample ([`::statistics::percentiles`]), and up to how many values all of them decide.

pub use ::statistics::percentiles::*;

/// Most values of a column of a window that are kept one by one; beyond, each counts as the middle of its bucket. The
/// unit tests' own switch comes earlier, so that they reach it.
pub const EXACT: usize = if cfg!(test) { 50_000 } else { 10_000_000 };
