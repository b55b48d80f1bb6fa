//! Deadlines, and sleeping until just before the next one.

use bench_engine::units::{Instant, Nanos};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use std::os::fd::AsFd;

const NOWHERE: u32 = u32::MAX;

/// A binary min-heap with at most one deadline per slot, so that it is never larger than the number of slots.
/// Equal deadlines come in the order of their slots.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    heap: Vec<(Instant, u32)>,
    place: Vec<u32>,
}

impl Deadlines {
    /// The earliest deadline and its slot.
    pub(super) fn first(&self) -> Option<(Instant, u32)> {
        self.heap.first().copied()
    }

    /// Sets or moves the deadline of `slot`.
    pub(super) fn set(&mut self, slot: u32, due: Instant) {
        if self.place.len() <= slot as usize {
            self.place.resize(slot as usize + 1, NOWHERE);
        }
        let at = match self.place[slot as usize] {
            NOWHERE => {
                self.heap.push((due, slot));
                self.heap.len() - 1
            }
            at => {
                self.heap[at as usize].0 = due;
                at as usize
            }
        };
        self.place[slot as usize] = at as u32;
        let at = self.up(at);
        self.down(at);
    }

    /// Forgets the deadline of `slot`, if it has one.
    pub(super) fn remove(&mut self, slot: u32) {
        let Some(at) = self.place.get(slot as usize).copied().filter(|at| *at != NOWHERE) else { return };
        self.place[slot as usize] = NOWHERE;
        self.heap.swap_remove(at as usize);
        if let Some((_, moved)) = self.heap.get(at as usize) {
            self.place[*moved as usize] = at;
            let at = self.up(at as usize);
            self.down(at);
        }
    }

    fn up(&mut self, mut at: usize) -> usize {
        while at > 0 && self.heap[at] < self.heap[(at - 1) / 2] {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
        at
    }

    fn down(&mut self, mut at: usize) {
        loop {
            let left = 2 * at + 1;
            let Some(mut least) = (left < self.heap.len()).then_some(left) else { return };
            if left + 1 < self.heap.len() && self.heap[left + 1] < self.heap[left] {
                least = left + 1;
            }
            if self.heap[at] <= self.heap[least] {
                return;
            }
            self.swap(at, least);
            at = least;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.place[self.heap[a].1 as usize] = a as u32;
        self.place[self.heap[b].1 as usize] = b as u32;
    }
}

/// An epoll set with a timer in it.
#[derive(Debug)]
pub(super) struct Waiter {
    epoll: Epoll,
    timer: TimerFd,
    armed: Option<Instant>,
}

impl Waiter {
    /// `timer_token` is what the timer's events carry.
    pub(super) fn new(timer_token: u64) -> nix::Result<Waiter> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
        // edge-triggered, so that nobody needs to read it: arming it again clears it
        epoll.add(timer.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, timer_token))?;
        Ok(Waiter { epoll, timer, armed: None })
    }

    pub(super) fn watch(&self, fd: impl AsFd, flags: EpollFlags, token: u64) -> nix::Result<()> {
        self.epoll.add(fd, EpollEvent::new(flags, token))
    }

    /// What is ready now.
    pub(super) fn poll(&self, events: &mut [EpollEvent]) -> nix::Result<usize> {
        self.wait(events, EpollTimeout::ZERO)
    }

    /// Sleeps until something is ready, `alarm` comes, or `limit` has passed (in steps of a millisecond).
    pub(super) fn sleep(
        &mut self,
        events: &mut [EpollEvent],
        alarm: Option<Instant>,
        limit: Nanos,
    ) -> nix::Result<usize> {
        if alarm.is_some() && self.armed != alarm {
            // an absolute time of zero would disarm
            let at = alarm.map_or(1, |at| at.ns().max(1));
            let at = TimeSpec::new((at / 1_000_000_000) as i64, (at % 1_000_000_000) as i64);
            self.timer.set(Expiration::OneShot(at), TimerSetTimeFlags::TFD_TIMER_ABSTIME)?;
            self.armed = alarm;
        }
        let ms = u16::try_from(limit.ns().div_ceil(1_000_000)).unwrap_or(u16::MAX);
        self.wait(events, EpollTimeout::from(ms))
    }

    fn wait(&self, events: &mut [EpollEvent], timeout: EpollTimeout) -> nix::Result<usize> {
        match self.epoll.wait(events, timeout) {
            Err(Errno::EINTR) => Ok(0),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn the_heap_agrees_with_a_plain_map(steps in proptest::collection::vec((0u32..20, proptest::option::of(0u64..50)), 0..300)) {
            let mut heap = Deadlines::default();
            let mut map: BTreeMap<u32, u64> = BTreeMap::new();
            for (slot, due) in steps {
                match due {
                    Some(due) => {
                        heap.set(slot, Instant::from_ns(due));
                        map.insert(slot, due);
                    }
                    None => {
                        heap.remove(slot);
                        map.remove(&slot);
                    }
                }
                prop_assert_eq!(heap.heap.len(), map.len());
                let first = heap.first().map(|(due, slot)| (due.ns(), slot));
                prop_assert_eq!(first, map.iter().map(|(slot, due)| (*due, *slot)).min());
            }
            let mut drained = Vec::new();
            while let Some((due, slot)) = heap.first() {
                drained.push((due.ns(), slot));
                heap.remove(slot);
            }
            let mut sorted: Vec<(u64, u32)> = map.into_iter().map(|(slot, due)| (due, slot)).collect();
            sorted.sort_unstable();
            prop_assert_eq!(drained, sorted);
        }
    }
}
