//! The bounded waits of many connections. Each timer has one fixed duration for the whole run, so
//! deadlines are armed in the order in which they fall due: one queue per timer, linked through the
//! connections, with O(1) arming and disarming and no memory beyond what is sized at start.

use crate::record::Timer;
use crate::units::{Instant, Nanos};

/// How long each wait may last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// [`Timer::Connect`].
    pub connect: Nanos,
    /// [`Timer::Stall`].
    pub stall: Nanos,
    /// [`Timer::Request`].
    pub request: Nanos,
    /// [`Timer::Drain`].
    pub drain: Nanos,
}

impl Default for Limits {
    /// Connect 10 s, stall 20 min, request 2 h, drain 250 ms: generous, because a limit that cuts a slow
    /// server off measures the limit, yet no wait is without one.
    fn default() -> Self {
        Limits {
            connect: Nanos::from_secs(10),
            stall: Nanos::from_secs(20 * 60),
            request: Nanos::from_secs(2 * 3600),
            drain: Nanos::from_millis(250),
        }
    }
}

impl Limits {
    /// The duration of `timer`.
    pub fn of(&self, timer: Timer) -> Nanos {
        match timer {
            Timer::Connect => self.connect,
            Timer::Stall => self.stall,
            Timer::Request => self.request,
            Timer::Drain => self.drain,
        }
    }
}

const TIMERS: [Timer; 4] = [Timer::Connect, Timer::Stall, Timer::Request, Timer::Drain];
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    previous: u32,
    next: u32,
    deadline: Instant,
    armed: bool,
}

#[derive(Debug)]
struct Queue {
    head: u32,
    tail: u32,
    links: Box<[Link]>,
}

/// The timers of a fixed number of connections.
#[derive(Debug)]
pub struct Timers {
    limits: Limits,
    queues: [Queue; 4],
}

impl Timers {
    /// Timers for connections `0..connections`.
    pub fn new(limits: Limits, connections: u32) -> Self {
        let free = Link { previous: NONE, next: NONE, deadline: Instant::default(), armed: false };
        let queue = || Queue { head: NONE, tail: NONE, links: vec![free; connections as usize].into_boxed_slice() };
        Timers { limits, queues: [queue(), queue(), queue(), queue()] }
    }

    /// The limits in force.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// (Re)arms `timer` of `conn` from `now`.
    pub fn arm(&mut self, timer: Timer, conn: u32, now: Instant) {
        let deadline = now + self.limits.of(timer);
        let queue = &mut self.queues[timer as usize];
        queue.unlink(conn);
        queue.append(conn, deadline);
    }

    /// Disarms `timer` of `conn`, armed or not.
    pub fn disarm(&mut self, timer: Timer, conn: u32) {
        self.queues[timer as usize].unlink(conn);
    }

    /// Disarms all timers of `conn`.
    pub fn disarm_all(&mut self, conn: u32) {
        self.queues.iter_mut().for_each(|q| q.unlink(conn));
    }

    /// Whether `timer` of `conn` is armed.
    pub fn is_armed(&self, timer: Timer, conn: u32) -> bool {
        self.queues[timer as usize].links[conn as usize].armed
    }

    /// The earliest deadline of all.
    pub fn next(&self) -> Option<Instant> {
        self.queues.iter().filter_map(Queue::first).map(|(_, deadline)| deadline).min()
    }

    /// Takes the earliest timer that has run out by `now`.
    pub fn expired(&mut self, now: Instant) -> Option<(Timer, u32)> {
        let (timer, conn, deadline) = TIMERS
            .into_iter()
            .filter_map(|t| self.queues[t as usize].first().map(|(conn, deadline)| (t, conn, deadline)))
            .min_by_key(|(_, _, deadline)| *deadline)?;
        if deadline > now {
            return None;
        }
        self.disarm(timer, conn);
        Some((timer, conn))
    }
}

impl Queue {
    fn first(&self) -> Option<(u32, Instant)> {
        self.links.get(self.head as usize).map(|link| (self.head, link.deadline))
    }

    fn append(&mut self, conn: u32, deadline: Instant) {
        if let Some(last) = self.links.get_mut(self.tail as usize) {
            assert!(last.deadline <= deadline, "one fixed duration and a clock that never runs back");
            last.next = conn;
        } else {
            self.head = conn;
        }
        self.links[conn as usize] = Link { previous: self.tail, next: NONE, deadline, armed: true };
        self.tail = conn;
    }

    fn unlink(&mut self, conn: u32) {
        let link = self.links[conn as usize];
        if !link.armed {
            return;
        }
        match self.links.get_mut(link.previous as usize) {
            Some(previous) => previous.next = link.next,
            None => self.head = link.next,
        }
        match self.links.get_mut(link.next as usize) {
            Some(next) => next.previous = link.previous,
            None => self.tail = link.previous,
        }
        self.links[conn as usize].armed = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const LIMITS: Limits = Limits {
        connect: Nanos::from_ns(5),
        stall: Nanos::from_ns(11),
        request: Nanos::from_ns(40),
        drain: Nanos::from_ns(2),
    };

    proptest! {
        #[test]
        fn agrees_with_a_list_of_deadlines(
            steps in proptest::collection::vec((0u8..4, 0u32..5, 0usize..4, 0u64..9), 1..120)
        ) {
            let mut timers = Timers::new(LIMITS, 5);
            let mut model: HashMap<(usize, u32), Instant> = HashMap::new();
            let mut now = Instant::from_ns(1_000);
            for (what, conn, timer, wait) in steps {
                let t = TIMERS[timer];
                match what {
                    0 | 1 => {
                        timers.arm(t, conn, now);
                        model.insert((timer, conn), now + LIMITS.of(t));
                    }
                    2 => {
                        timers.disarm(t, conn);
                        model.remove(&(timer, conn));
                    }
                    _ => {
                        now = now + Nanos::from_ns(wait);
                        while let Some((t, conn)) = timers.expired(now) {
                            let deadline = model.remove(&(t as usize, conn));
                            prop_assert!(deadline.is_some_and(|d| d <= now));
                        }
                        prop_assert!(model.values().all(|d| *d > now));
                    }
                }
                prop_assert_eq!(timers.next(), model.values().min().copied());
                prop_assert_eq!(timers.is_armed(t, conn), model.contains_key(&(timer, conn)));
            }
        }
    }

    #[test]
    fn a_connection_disarms_as_a_whole() {
        let mut timers = Timers::new(LIMITS, 2);
        let now = Instant::from_ns(1);
        TIMERS.into_iter().for_each(|t| timers.arm(t, 1, now));
        timers.arm(Timer::Stall, 0, now);
        timers.disarm_all(1);
        assert_eq!(timers.next(), Some(now + LIMITS.stall));
        assert_eq!(timers.expired(now + LIMITS.stall), Some((Timer::Stall, 0)));
        assert_eq!(timers.next(), None);
    }
}
