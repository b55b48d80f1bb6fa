//! What people read. Reports are functions of files.

pub mod calibration;
mod fitness;
pub mod markdown;
pub mod picture;
pub mod quantity;
mod steady;
pub mod terminal;
