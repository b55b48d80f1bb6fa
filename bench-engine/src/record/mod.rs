//! What an exchange leaves behind on the load path: a tape of what came when, in fixed blocks, and one
//! [`Finished`] with the stamps. Meaning (JSON, tokens, outcome) is read from them on another core.

mod ending;
mod tape;

pub use ending::{ClientFault, Ending, ProtocolError, Timer};
pub use tape::{BLOCK_BYTES, Block, Blocks, Dispatch, NoBlock, Note, ReadStamp, Tape, notes};

use crate::units::{Instant, Nanos, WallInstant};
use bytes::Bytes;

/// When a request's turn had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// On the harness clock.
    pub at: Instant,
    /// The kernel stamp it really refers to (the end of the reply that freed the slot), when there is one.
    pub wall: Option<WallInstant>,
}

/// The fixed part of a finished exchange.
#[derive(Debug)]
pub struct Finished {
    /// Id of the [`crate::conn::Job`] it was.
    pub job: u64,
    /// The request's bytes, to be freed elsewhere.
    pub request: Option<Bytes>,
    /// Connection slot of the worker; None when none was tried.
    pub conn: Option<u32>,
    /// The connection had carried a request before.
    pub conn_reused: bool,
    /// The connection replaces one that the server closed.
    pub reopened: bool,
    /// See [`crate::worker`].
    pub retries: u32,
    /// When its turn came.
    pub due: Due,
    /// When the worker took it up.
    pub taken: Option<Instant>,
    /// Before the enter with its first byte.
    pub submit: Option<Instant>,
    /// After that enter.
    pub handed: Option<Instant>,
    /// Its last byte is in the kernel.
    pub sent: Option<Instant>,
    /// TX stamp of its last byte, and when that stamp was read.
    pub wire_out: Option<(WallInstant, Instant)>,
    /// Duration of the TCP connect made for it.
    pub connect: Option<Nanos>,
    /// Duration of the TLS handshake made for it.
    pub tls: Option<Nanos>,
    /// Place of its server's address in the worker's list.
    pub address: u32,
    /// Bytes accepted by the kernel, as they go over the wire: over TLS those of its records, with whatever the handshake
    /// still had to send in front of them.
    pub bytes_out: u64,
    /// Bytes read, as they came over the wire.
    pub bytes_in: u64,
    /// Reads.
    pub reads: u32,
    /// How it ended.
    pub ending: Ending,
    /// When the worker was done with it.
    pub ended: Instant,
    /// The last block of its tape.
    pub block: Option<Block>,
    /// Distinguishes late TX stamps of the same worker.
    pub sequence: u64,
}
