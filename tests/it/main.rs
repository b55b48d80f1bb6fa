//! The one integration test binary.

mod cases;
mod foreign_server;
mod house_rules;
mod live;
