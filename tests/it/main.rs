//! The one integration test binary.

mod allocations;
mod calibrate;
mod canary;
mod cases;
mod command_line;
mod disclosure;
mod envelope;
mod foreign_server;
mod house_rules;
mod live;
mod mock_command;
mod open_loop;
mod without_uring;
