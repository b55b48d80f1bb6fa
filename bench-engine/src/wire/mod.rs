//! Bytes in, events out: HTTP/1.1 response heads, body framing, server-sent events, request bytes.
//!
//! No socket, clock or thread. Every parser can be fed any split of its input and gives the same events.
//!
//! The seam for TLS is here: `conn` hands a transform the bytes a driver received and takes plain bytes
//! back; nothing below this module knows whether they were encrypted.

pub mod body;
pub mod head;
pub mod request;
pub mod sse;
