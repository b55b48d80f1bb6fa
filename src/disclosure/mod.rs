//! What a reader must be told before believing a benchmark.

pub mod ledger;
