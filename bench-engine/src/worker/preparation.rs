//! Connections that are opened ahead of a window.

use super::Desk;
use crate::conn::Conn;
use crate::record::Ending;
use crate::units::Nanos;

/// What opening the connections before a window came to.
#[derive(Clone, Debug, Default)]
pub struct Prepared {
    /// Connections opened now.
    pub opened: u32,
    /// Their connect times, in ns.
    pub connect_ns: Vec<u64>,
    /// Why some could not be opened.
    pub failure: Option<Ending>,
}

/// Connections being opened ahead of a window.
#[derive(Debug, Default)]
pub(super) struct Preparation {
    /// Those of which it is not known yet whether they will be.
    pub(super) pending: u32,
    pub(super) so_far: Prepared,
}

impl Desk {
    /// Begins to open the connections of slots `0..slots` that are not open, if they are worth it.
    pub(super) fn open_ahead(&mut self, slots: u32) {
        self.preparation.so_far = Prepared { connect_ns: Vec::with_capacity(slots as usize), ..Prepared::default() };
        if !self.server.keeps_connections() {
            return;
        }
        for slot in 0..slots {
            if let Conn::Closed { by_server } = self.slots[slot as usize].conn {
                self.preparation.pending += 1;
                self.open(slot, by_server, None);
            }
        }
    }

    /// One of them is open; its TCP connect took so long.
    pub(super) fn opened_ahead(&mut self, tcp: Nanos) {
        self.preparation.pending -= 1;
        self.preparation.so_far.opened += 1;
        self.preparation.so_far.connect_ns.push(tcp.ns());
    }

    /// One of them will not be.
    pub(super) fn not_opened_ahead(&mut self, ending: Ending) {
        self.preparation.pending -= 1;
        self.preparation.so_far.failure.get_or_insert(ending);
    }
}
