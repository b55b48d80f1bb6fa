//! The one integration test binary.

mod allocations;
mod calibrate;
mod canary;
mod cases;
mod command_line;
mod compare;
mod disclosure;
mod envelope;
mod exhibits;
mod foreign_server;
mod house_rules;
mod interleave;
mod ledger;
mod lengths;
mod live;
mod mock_command;
mod open_loop;
mod replay;
mod schemas;
mod screens;
mod server_facts;
mod without_uring;
mod workloads;
