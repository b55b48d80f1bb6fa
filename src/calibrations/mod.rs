//! Calibrations as they are kept: what stands in one, for which host and configuration it holds, which of them holds for
//! a run, and whether a run stayed inside it.

pub mod check;
pub mod document;
pub mod identity;
pub mod store;
