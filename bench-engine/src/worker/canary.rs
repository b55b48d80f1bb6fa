//! The canary: one request after another to a server of known truth, on a slot of its own, while a window runs.

use super::Desk;
use super::server::Server;
use crate::conn::Current;
use crate::record::{Due, Ending};
use crate::units::Instant;

/// The canary of a worker.
#[derive(Debug)]
pub(super) struct Canary {
    pub(super) server: Server,
    /// The one behind those of the load.
    pub(super) slot: u32,
    /// It is free and a window runs.
    pub(super) waiting: bool,
}

impl Desk {
    /// A window begins: the canary waits for a request.
    pub(super) fn begin_canary(&mut self, opened: Instant) {
        if let Some(canary) = &mut self.canary {
            canary.waiting = true;
            self.slots[canary.slot as usize].free_at = Due { at: opened, wall: None };
        }
        self.feed_canary();
    }

    /// It takes its next request, when it is free and the window goes on.
    #[inline]
    pub(super) fn feed_canary(&mut self) {
        if !self.dispatch.goes_on() {
            return;
        }
        let Some(canary) = self.canary.as_mut().filter(|canary| canary.waiting) else { return };
        if let Some(job) = self.queues.canary_supply.pop() {
            canary.waiting = false;
            let slot = canary.slot;
            let due = self.slots[slot as usize].free_at;
            self.start(slot, Current::new(job, due, self.now));
        }
    }

    /// The window is over, and with it the canary's request.
    pub(super) fn end_canary(&mut self) {
        let Some(slot) = self.canary.as_ref().map(|canary| canary.slot) else { return };
        self.give_up(slot, Ending::Censored);
        if let Some(canary) = &mut self.canary {
            canary.waiting = false;
        }
    }
}
