//! The one integration test binary.

mod allocations;
#[path = "../../bench-engine/tests/tls/authority.rs"]
mod authority;
mod calibrate;
mod canary;
mod cases;
mod command_line;
mod compare;
mod disclosure;
mod envelope;
mod exhibits;
mod exports;
mod failure;
mod foreign_server;
mod house_rules;
mod interleave;
mod ledger;
mod lengths;
mod live;
mod live_view;
mod mock_command;
mod open_loop;
mod replay;
mod saturate;
mod schemas;
mod screens;
mod server_facts;
mod session_plans;
mod sessions;
mod soak;
mod tls;
mod tls_front;
mod without_uring;
mod workloads;
