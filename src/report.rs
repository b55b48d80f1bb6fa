//! What people read. Reports are functions of files.

pub mod calibration;
pub mod card;
pub mod disclosure;
mod fitness;
pub mod markdown;
pub mod picture;
pub mod quantity;
pub mod terminal;
