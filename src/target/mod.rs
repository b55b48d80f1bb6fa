//! The server: where it is, what it says it is, and the bodies it is sent.

pub mod address;
pub mod fetch;
pub mod identity;
pub mod openai;
