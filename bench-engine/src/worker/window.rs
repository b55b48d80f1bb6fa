//! A window of a worker: from its opening until nothing runs any more, or it is stopped.

use super::dispatch::Load;
use super::options::SlotKind;
use super::{Desk, Slot};
use crate::conn::{Current, KeepAlive};
use crate::io::DriverCounters;
use crate::record::{Due, Ending};
use crate::units::Instant;
use std::sync::atomic::Ordering;

/// What a window was like for one worker.
#[derive(Clone, Copy, Debug, Default)]
pub struct WindowReport {
    /// Worker.
    pub worker: u32,
    /// Counters of the driver, in this window.
    pub driver: DriverCounters,
    /// Connections opened in it.
    pub opened: u32,
    /// Connections the server ended in it, announced or not.
    pub closed_by_server: u32,
    /// Closed loop: times a free slot found no request ready. Open loop: requests that were made only after they
    /// were due, while a slot was free.
    pub starved: u32,
    /// With dues: requests taken from the supply whose due had not come when the window was stopped, and that are not in
    /// it again.
    pub never_due: u32,
    /// Times the pool had no block.
    pub pool_exhausted: u32,
    /// What is known of keep-alive at its end.
    pub keep_alive: KeepAlive,
}

impl Desk {
    /// Forgets the window before: from now on everything counts in the next one.
    pub(super) fn begin_window(&mut self) {
        self.report = WindowReport::default();
        self.dispatch.clear();
    }

    /// From now on requests are sent, on slots `0..slots`.
    pub(super) fn open_window(&mut self, load: Load, slots: u32, opened: Instant) {
        assert!(slots <= self.options.slots, "slots are sized from the plan");
        self.dispatch.open(load, slots, opened, |slot| self.slots[slot as usize].conn.is_ready());
        if load == Load::Closed {
            for slot in 0..slots {
                self.slots[slot as usize].free_at = Due { at: opened, wall: None };
                self.is_free(slot);
            }
        }
        self.dispatch_due();
        self.begin_canary(opened);
    }

    /// After each turn: what waited too long, what can begin, and whether the window was stopped from outside.
    pub(super) fn after_turn(&mut self, now: Instant) {
        self.now = now;
        self.end_what_waited_too_long();
        self.dispatch_fed();
        if self.dispatch.goes_on() && self.queues.stop.load(Ordering::Relaxed) {
            self.stop();
        }
        self.dispatch_due();
        self.feed_canary();
    }

    /// Ends the window's load now: what runs is cut short.
    fn stop(&mut self) {
        self.dispatch.stop(self.now, self.options.index, &self.queues);
        (0..self.options.slots).for_each(|slot| self.give_up(slot, Ending::Censored));
    }

    /// What the window was like, but for the driver's part in it.
    pub(super) fn report(&self) -> WindowReport {
        WindowReport {
            worker: self.options.index,
            starved: self.dispatch.starved,
            never_due: self.dispatch.never_due,
            keep_alive: self.server.keep_alive,
            ..self.report
        }
    }

    /// Adds to a count that is about the load: what the canary meets is in its own records.
    #[inline]
    pub(super) fn count(&mut self, slot: u32, count: impl FnOnce(&mut WindowReport) -> &mut u32, n: u32) {
        if self.options.kind(slot) == SlotKind::Load {
            *count(&mut self.report) += n;
        }
    }

    /// A slot has become free. In closed loop it may begin with the next request at once.
    pub(super) fn is_free(&mut self, slot: u32) {
        if let (SlotKind::Canary, Some(canary)) = (self.options.kind(slot), &mut self.canary) {
            canary.waiting = true;
            return;
        }
        let is_connected = self.slots[slot as usize].conn.is_ready();
        if let Some(job) = self.dispatch.freed(slot, is_connected, self.now, &self.queues) {
            let due = self.slots[slot as usize].free_at;
            self.start(slot, Current::new(job, due, self.now));
        }
    }

    /// Closed loop: hungry slots begin with what has come.
    #[inline]
    fn dispatch_fed(&mut self) {
        while let Some((slot, job)) = self.dispatch.next_fed(&self.queues) {
            let due = self.slots[slot as usize].free_at;
            self.start(slot, Current::new(job, due, self.now));
        }
    }

    /// With dues: begins with whatever is due, in order, as far as there are slots.
    #[inline]
    fn dispatch_due(&mut self) {
        let is_connected = |slots: &[Slot], slot: u32| slots[slot as usize].conn.is_ready();
        while let Some((slot, due, job)) =
            self.dispatch.next_due(self.now, &self.queues, |slot| is_connected(&self.slots, slot))
        {
            self.start(slot, Current::new(job, Due { at: due, wall: None }, self.now));
        }
    }
}
