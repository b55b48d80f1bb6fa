//! What people read. Reports are functions of files.

pub mod calibration;
mod curves;
mod fitness;
mod intervals;
pub mod markdown;
pub mod picture;
pub mod quantity;
pub mod terminal;
