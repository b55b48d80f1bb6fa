//! The library half of the `tarebench` binary: what to run, and what it meant.
#![forbid(unsafe_code)]

pub mod analysis;
pub mod arrivals;
pub mod calibrate;
pub mod calibrations;
pub mod campaign;
pub mod cli;
pub mod compare;
pub mod decode;
pub mod disclosure;
pub mod evidence;
pub mod export;
pub mod goals;
pub mod import;
pub mod injection;
pub mod interleave;
pub mod lettering;
pub mod live;
pub mod load_point;
pub mod plan;
pub mod price;
pub mod probe;
pub mod reading;
pub mod report;
pub mod rundir;
pub mod saturate;

pub mod schemas;
pub mod session_load;
pub mod shard;
pub mod target;
pub mod tokenizer;
pub mod trace;
pub mod verify;
pub mod workload;
