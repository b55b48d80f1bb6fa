//! Bytes in, events out: HTTP/1.1 response heads, body framing, server-sent events, request bytes.
//!
//! No socket, clock or thread. Every parser can be fed any split of its input and gives the same events.
//!
//! [`tls`] lies between a driver and the rest: the worker hands it the bytes received and takes plain bytes back; nothing
//! else knows whether they were encrypted.

pub mod body;
pub mod certificate;
pub mod head;
pub mod request;
pub mod sse;
pub mod tls;
