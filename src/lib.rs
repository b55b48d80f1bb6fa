//! The library half of the `tarebench` binary: what to run, and what it meant.
#![forbid(unsafe_code)]

pub mod decode;
pub mod reading;
pub mod rundir;
