//! The one integration test binary.

mod allocations;
mod cases;
mod foreign_server;
mod house_rules;
mod live;
