//! The load path of tarebench: bytes in, stamped exchanges out.
//!
//! This crate never prints, logs or exits. `wire`, `exchange`, `conn`, `timers`, `schedule` and `record` are pure:
//! time is a parameter, there is no socket, clock or thread in them. Unsafe code is confined to
//! `io::uring`.
#![deny(unsafe_code)]

pub mod clock;
pub mod conn;
pub mod cpu;
pub mod engine;
pub mod exchange;
pub mod io;
pub mod record;
pub mod schedule;
pub mod sim;
pub mod timers;
pub mod units;
pub mod wire;
pub mod worker;
