//! What people read. Reports are functions of files.

pub mod calibration;
pub mod campaigns;
mod fitness;
pub mod interleaved;
pub mod markdown;
pub mod picture;
pub mod quantity;
pub mod terminal;
