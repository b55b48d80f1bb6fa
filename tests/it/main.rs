//! The one integration test binary.

mod allocations;
mod cases;
mod command_line;
mod foreign_server;
mod house_rules;
mod live;
mod mock_command;
