//! Which request goes to which slot, and when.
//!
//! In closed loop a slot fetches: when it becomes free it takes the next request of the supply, and where there is none
//! it is hungry until one comes. Where requests have dues it is they that wait: so many are taken in hand as there are
//! slots free for them, and one goes out when its due has come.
//!
//! Whoever owns the slots is told which to begin with what; nothing here knows of connections but whether there is one.

use super::queues::{Message, Shared};
use crate::conn::Job;
use crate::units::{Instant, Nanos};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::atomic::Ordering;

/// Wait between looks at an empty supply.
const HUNGRY_WAIT: Nanos = Nanos::from_micros(200);
/// The same just after a reply of a session: the next turn may be made of it at once.
const EAGER_WAIT: Nanos = Nanos::from_micros(50);
/// How long that goes on.
const EAGER_FOR: Nanos = Nanos::from_millis(2);

/// What decides when a request starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// A slot that becomes free takes the next request at once.
    Closed,
    /// Each request has a due of its own, [`Job::due`]. One whose due has passed goes at once and keeps it; with no
    /// slot free they wait in order.
    Open,
    /// Each request has a due of its own, and comes into the supply shortly before it or after it, in no order: turns of
    /// sessions, which are made when the replies that they need are there. A worker holds as many as it has slots free for
    /// them, and the one that is due first goes first.
    Sessions,
}

/// How requests come to slots. Its memory is sized once, for any window.
#[derive(Debug)]
pub(super) struct Dispatch {
    mode: Mode,
    /// The window was stopped: nothing is begun any more.
    stopped: bool,
    /// Closed loop: slots that found no request ready, the longest waiting first.
    hungry: VecDeque<u32>,
    /// With dues: requests that wait for theirs, never more than slots are free.
    hand: BinaryHeap<Reverse<InHand>>,
    /// With dues: free slots.
    idle: Idle,
    /// See [`super::WindowReport::starved`].
    pub(super) starved: u32,
    /// See [`super::WindowReport::never_due`].
    pub(super) never_due: u32,
}

/// How requests come to slots in the current window.
#[derive(Debug)]
enum Mode {
    /// Slots fetch them.
    Closed {
        /// Slots that take requests.
        live: u32,
    },
    /// They wait for their due, in hand.
    Due {
        /// What dues count from.
        opened: Instant,
        /// In what order they come.
        order: Order,
        /// Slots with a request.
        busy: u32,
        /// Nothing more will come.
        over: bool,
    },
}

/// What looking into the supply came to.
enum Taken {
    Job(Job),
    /// There is none for now.
    NotYet,
    /// There will be none.
    Over,
}

impl Taken {
    fn from(queues: &Shared, stopped: bool) -> Self {
        if stopped {
            return Taken::Over;
        }
        // asked first: what is put in last is there before this is said
        let over = queues.supply_over.load(Ordering::Acquire);
        match queues.supply.pop() {
            Some(job) => Taken::Job(job),
            None if over => Taken::Over,
            None => Taken::NotYet,
        }
    }
}

impl Dispatch {
    /// No window, and room for any on so many slots.
    pub(super) fn new(slots: usize) -> Self {
        Dispatch {
            mode: Mode::Closed { live: 0 },
            stopped: false,
            hungry: VecDeque::with_capacity(slots),
            hand: BinaryHeap::with_capacity(slots),
            idle: Idle { connected: Vec::with_capacity(slots), unconnected: Vec::with_capacity(slots) },
            starved: 0,
            never_due: 0,
        }
    }

    /// Forgets the window before.
    pub(super) fn clear(&mut self) {
        self.mode = Mode::Closed { live: 0 };
        self.stopped = false;
        self.hungry.clear();
        self.hand.clear();
        self.idle.connected.clear();
        self.idle.unconnected.clear();
        (self.starved, self.never_due) = (0, 0);
    }

    /// A window on slots `0..slots`, all of them free. In closed loop [`Dispatch::freed`] is to be told so of each.
    pub(super) fn open(&mut self, load: Load, slots: u32, opened: Instant, is_connected: impl Fn(u32) -> bool) {
        // without a slot there is nothing to fetch a request for
        let due = |order| Mode::Due { opened, order, busy: 0, over: slots == 0 };
        self.mode = match load {
            Load::Closed => Mode::Closed { live: slots },
            Load::Open => due(Order::ByDue { found_empty: None }),
            Load::Sessions => due(Order::Any { freed: None }),
        };
        if load != Load::Closed {
            (0..slots).rev().for_each(|slot| self.idle.put(slot, is_connected(slot)));
        }
    }

    /// Nothing runs, and nothing more will.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        match &self.mode {
            Mode::Closed { live } => *live == 0,
            Mode::Due { busy, over, .. } => *over && *busy == 0 && self.hand.is_empty(),
        }
    }

    /// Neither over nor stopped.
    #[inline]
    pub(super) fn goes_on(&self) -> bool {
        !self.stopped && !self.is_over()
    }

    /// A slot has become free, with a connection or without: the request that it takes at once, if it does.
    pub(super) fn freed(&mut self, slot: u32, is_connected: bool, now: Instant, queues: &Shared) -> Option<Job> {
        match &mut self.mode {
            Mode::Closed { .. } => match Taken::from(queues, self.stopped) {
                Taken::Job(job) => return Some(job),
                Taken::Over => self.retire(1),
                Taken::NotYet => {
                    self.starved += 1;
                    self.hungry.push_back(slot);
                }
            },
            Mode::Due { busy, order, .. } => {
                *busy -= 1;
                if let Order::Any { freed } = order {
                    *freed = Some(now);
                }
                self.idle.put(slot, is_connected);
            }
        }
        None
    }

    /// Closed loop: the slot that has been hungry longest, with a request that has come.
    #[inline]
    pub(super) fn next_fed(&mut self, queues: &Shared) -> Option<(u32, Job)> {
        while !self.hungry.is_empty() {
            match Taken::from(queues, self.stopped) {
                Taken::Job(job) => return self.hungry.pop_front().map(|slot| (slot, job)),
                Taken::Over => {
                    self.hungry.pop_front();
                    self.retire(1);
                }
                Taken::NotYet => break,
            }
        }
        None
    }

    /// With dues: the next request if its due has come, with the slot that is to begin with it.
    #[inline]
    pub(super) fn next_due(
        &mut self,
        now: Instant,
        queues: &Shared,
        is_connected: impl Fn(u32) -> bool,
    ) -> Option<(u32, Instant, Job)> {
        if let Mode::Closed { .. } = self.mode {
            return None;
        }
        self.fetch(now, queues);
        let Mode::Due { busy, .. } = &mut self.mode else { return None };
        if self.hand.peek()?.0.due > now {
            return None;
        }
        let Reverse(InHand { due, job }) = self.hand.pop()?;
        *busy += 1;
        let slot = self.idle.take(is_connected).expect("a request is in hand only while a slot is free");
        Some((slot, due, job))
    }

    /// Takes in hand what there are slots for.
    fn fetch(&mut self, now: Instant, queues: &Shared) {
        let Mode::Due { opened, order, over, .. } = &mut self.mode else { return };
        while !*over && self.hand.len() < order.most_in_hand(self.idle.len()) {
            match Taken::from(queues, self.stopped) {
                Taken::Job(job) => {
                    let due = *opened + job.due.expect("under such a load every request has a due");
                    if let Order::ByDue { found_empty } = order {
                        let missed = found_empty.is_some_and(|at| due <= at);
                        self.starved += u32::from(missed);
                    }
                    self.hand.push(Reverse(InHand { due, job }));
                }
                Taken::Over => *over = true,
                Taken::NotYet => {
                    if let Order::ByDue { found_empty } = order {
                        *found_empty = Some(now);
                    }
                    return;
                }
            }
        }
    }

    /// The window is stopped: nothing more is begun. What is in hand and was due is told to the record reader; what was
    /// not due goes back where it came from, if others may still take it.
    pub(super) fn stop(&mut self, now: Instant, worker: u32, queues: &Shared) {
        self.stopped = true;
        self.retire(self.hungry.len() as u32);
        self.hungry.clear();
        let Mode::Due { opened, order, over, .. } = &mut self.mode else { return };
        *over = true;
        while let Some(Reverse(InHand { due, job })) = self.hand.pop() {
            if due <= now {
                queues.post(Message::Finished(worker, job.not_sent(*opened, now)));
                continue;
            }
            // of many in hand some become due before the window is closed, which is for others to say
            let left = match order {
                Order::Any { .. } => queues.supply.push(job),
                Order::ByDue { .. } => Err(job),
            };
            self.never_due += u32::from(left.is_err());
        }
    }

    /// How long may pass before the supply is looked at again; None: nothing is wanted from it.
    #[inline]
    pub(super) fn patience(&self, now: Instant) -> Option<Nanos> {
        match &self.mode {
            Mode::Closed { .. } => (!self.hungry.is_empty()).then_some(HUNGRY_WAIT),
            Mode::Due { order, over, .. } => {
                let wants = !over && self.hand.len() < order.most_in_hand(self.idle.len());
                wants.then(|| order.patience(now))
            }
        }
    }

    /// The due of the first request in hand.
    #[inline]
    pub(super) fn first_due(&self) -> Option<Instant> {
        self.hand.peek().map(|Reverse(first)| first.due)
    }

    /// Closed loop: so many slots take no more requests.
    fn retire(&mut self, slots: u32) {
        if let Mode::Closed { live } = &mut self.mode {
            *live -= slots;
        }
    }
}

/// The order of a supply whose requests have dues.
#[derive(Clone, Copy, Debug)]
enum Order {
    /// That of their dues: one in hand is enough.
    ByDue {
        /// When the supply was last found empty while a slot was free.
        found_empty: Option<Instant>,
    },
    /// None: as many in hand as there are slots for.
    Any {
        /// When a slot became free last: a request may be made of its reply.
        freed: Option<Instant>,
    },
}

impl Order {
    /// Most requests in hand while `free` slots are free. One is fetched only while there is a slot for it: without,
    /// another worker may have one.
    fn most_in_hand(self, free: usize) -> usize {
        match self {
            Order::ByDue { .. } => free.min(1),
            Order::Any { .. } => free,
        }
    }

    /// Between looks at an empty supply.
    fn patience(self, now: Instant) -> Nanos {
        match self {
            Order::Any { freed: Some(at) } if now < at + EAGER_FOR => EAGER_WAIT,
            Order::Any { .. } | Order::ByDue { .. } => HUNGRY_WAIT,
        }
    }
}

/// A request in hand: by its due, those due at the same time in order of their ids.
#[derive(Debug)]
struct InHand {
    due: Instant,
    job: Job,
}

impl PartialEq for InHand {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for InHand {}

impl PartialOrd for InHand {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for InHand {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.job.id).cmp(&(other.due, other.job.id))
    }
}

/// Free slots where requests have dues, each in one of two stacks. The connection used last is used next: few stay warm
/// rather than many lukewarm, and those that a server's idle timeout is about to close are not the ones to send on.
#[derive(Debug)]
struct Idle {
    /// With a connection when they became free; it may have been lost since.
    connected: Vec<u32>,
    /// Without one.
    unconnected: Vec<u32>,
}

impl Idle {
    fn len(&self) -> usize {
        self.connected.len() + self.unconnected.len()
    }

    fn put(&mut self, slot: u32, is_connected: bool) {
        match is_connected {
            true => self.connected.push(slot),
            false => self.unconnected.push(slot),
        }
    }

    /// A slot with a connection, else one without.
    fn take(&mut self, is_connected: impl Fn(u32) -> bool) -> Option<u32> {
        while let Some(slot) = self.connected.pop() {
            if is_connected(slot) {
                return Some(slot);
            }
            self.unconnected.push(slot);
        }
        self.unconnected.pop()
    }
}
