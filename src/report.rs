//! What people read. Reports are functions of files.

mod fitness;
pub mod markdown;
pub mod quantity;
pub mod terminal;
