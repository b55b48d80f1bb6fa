//! TLS as a box: the bytes of the wire in, plain bytes out, and the other way round. The only folder that names rustls.
//!
//! What decrypts is told record by record, so that the stamp of a read keeps its meaning: an event belongs to the read that
//! completed its record, and [`Arrived::more_followed`] says that other bytes came behind it in that read.
//!
//! rustls allocates: a session's buffers, every record that goes out. A worker that speaks TLS therefore does allocate in a
//! window, and its cost is in its tare.

mod client;
mod fault;
mod records;
mod session;
mod verifier;

pub use client::{BadClient, Client, ClientOptions, Identity, Trust};
pub use fault::{Alert, TlsFault};
pub use session::{Agreed, Arrived, Session};
