//! What people read. Reports are functions of files.

mod arrivals;
mod axis;
pub mod calibration;
pub mod campaigns;
pub mod card;
pub mod comparison;
mod connections;
mod curves;
pub mod disclosure;
mod failure;
mod fitness;
mod goals;
pub mod html;
pub mod import;
pub mod interleaved;
mod intervals;
mod lengths;
pub mod markdown;
#[cfg(test)]
mod odd_data_tests;
mod overview;
pub mod picture;
pub mod quantity;
pub mod saturation;
mod server;
pub mod sessions;
pub mod side_by_side;
pub mod soak;
mod steady;
pub mod terminal;
