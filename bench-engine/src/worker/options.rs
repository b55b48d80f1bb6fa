//! What a worker is to be, for the whole run.

use crate::conn::Reuse;
use crate::timers::Limits;
use crate::wire::tls;
use std::net::SocketAddr;
use std::sync::Arc;

/// What a worker needs to know for the whole run.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    /// From 0.
    pub index: u32,
    /// Most slots of any window, the canary's not counted.
    pub slots: u32,
    /// The server's addresses: each new connection goes to the next one, beginning with the worker's own number.
    pub addresses: Arc<[SocketAddr]>,
    /// How connections are secured; None: they are not.
    pub tls: Option<tls::Client>,
    /// Bounds of every wait.
    pub limits: Limits,
    /// An event stream is asked for.
    pub streamed: bool,
    /// How long connections are kept.
    pub reuse: Reuse,
    /// A server of known truth that one more slot, after those of the load, keeps a stream to while a window runs. That
    /// stream counts in nothing that is reported of the load, but for the driver's own counters.
    pub canary: Option<SocketAddr>,
    /// While a window runs it looks for events without ever sleeping, and takes its core for itself.
    pub spin: bool,
}

/// What a slot is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotKind {
    /// The load that is measured.
    Load,
    /// One request after another to a server of known truth.
    Canary,
}

impl WorkerOptions {
    /// Connections that the driver must have room for.
    pub fn connections(&self) -> u32 {
        self.slots + u32::from(self.canary.is_some())
    }

    pub(super) fn kind(&self, slot: u32) -> SlotKind {
        if slot < self.slots { SlotKind::Load } else { SlotKind::Canary }
    }
}
