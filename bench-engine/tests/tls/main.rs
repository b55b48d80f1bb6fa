//! TLS: what a session makes of a server's bytes, and what a worker makes of a session.

mod authority;
mod session;
mod worker;
