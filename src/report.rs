//! What people read. Reports are functions of files.

pub mod calibration;
mod curves;
mod fitness;
mod goals;
pub mod import;
mod intervals;
pub mod markdown;
pub mod picture;
pub mod quantity;
pub mod terminal;
