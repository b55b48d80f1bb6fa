//! Whom slots speak to: the server of the load, and beside it the canary's.

use super::Desk;
use super::options::{SlotKind, WorkerOptions};
use crate::conn::{KeepAlive, Reuse};
use crate::wire::tls;
use std::net::SocketAddr;
use std::sync::Arc;

/// Whom slots of one kind speak to, and how.
#[derive(Debug)]
pub(super) struct Server {
    addresses: Arc<[SocketAddr]>,
    /// Place in them for the next connection.
    next: usize,
    pub(super) tls: Option<tls::Client>,
    pub(super) streamed: bool,
    pub(super) reuse: Reuse,
    pub(super) keep_alive: KeepAlive,
}

impl Server {
    /// That of the load.
    pub(super) fn of_load(options: &WorkerOptions) -> Self {
        Server {
            addresses: Arc::clone(&options.addresses),
            next: options.index as usize,
            tls: options.tls.clone(),
            streamed: options.streamed,
            reuse: options.reuse,
            keep_alive: KeepAlive::default(),
        }
    }

    /// A mock: it speaks plainly, and streams.
    pub(super) fn of_canary(address: SocketAddr) -> Self {
        Server {
            addresses: Arc::new([address]),
            next: 0,
            tls: None,
            streamed: true,
            reuse: Reuse::Unlimited,
            keep_alive: KeepAlive::default(),
        }
    }

    /// The place of the address that the next connection goes to.
    pub(super) fn next_address(&mut self) -> u32 {
        let place = self.next % self.addresses.len();
        self.next += 1;
        place as u32
    }

    /// The address at a place.
    pub(super) fn address(&self, place: u32) -> Option<SocketAddr> {
        self.addresses.get(place as usize).copied()
    }

    /// A connection is worth keeping, and so worth opening ahead: it may carry a second request, as far as is known.
    pub(super) fn keeps_connections(&self) -> bool {
        self.reuse.goes_on(1) && self.keep_alive != KeepAlive::Refused
    }
}

impl Desk {
    /// The server of a slot.
    pub(super) fn server_of(&mut self, slot: u32) -> &mut Server {
        match (self.options.kind(slot), &mut self.canary) {
            (SlotKind::Load, _) => &mut self.server,
            (SlotKind::Canary, Some(canary)) => &mut canary.server,
            (SlotKind::Canary, None) => panic!("slot {slot} is beyond those of the plan"),
        }
    }
}
