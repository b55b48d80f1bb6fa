//! How long a worker may wait, and what becomes of a slot that waited too long.

use super::Desk;
use crate::record::Ending;
use crate::units::{Instant, Nanos};

/// Longest wait in the kernel: how late a stop from outside is noticed at most.
const LONGEST_WAIT: Nanos = Nanos::from_millis(50);

impl Desk {
    /// When there is something to do at the latest.
    #[inline]
    pub(super) fn wake(&self, now: Instant) -> Instant {
        let patience = now + self.dispatch.patience(now).unwrap_or(LONGEST_WAIT);
        [self.timers.next(), self.dispatch.first_due()].into_iter().flatten().fold(patience, Instant::min)
    }

    /// Every bounded wait that is over ends its request, or its connect.
    #[inline]
    pub(super) fn end_what_waited_too_long(&mut self) {
        while let Some((timer, slot)) = self.timers.expired(self.now) {
            self.give_up(slot, Ending::TimedOut(timer, self.timers.limits().of(timer)));
        }
    }
}
