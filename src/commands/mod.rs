//! The subcommands that turn what was measured into something else.

pub mod export;
pub mod saturate;
