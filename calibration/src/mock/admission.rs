//! Who runs and who waits: a limit on running requests, and a queue in order of arrival.

use std::collections::VecDeque;

/// A request's place in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Not counted: errors, lists of models, scripts.
    Exempt,
    Waiting,
    Running,
}

/// The places and the queue. A request is named by its connection's slot and generation.
#[derive(Debug, Default)]
pub(super) struct Admission {
    /// None: everybody runs.
    limit: Option<u32>,
    running: u32,
    waiting: u32,
    queue: VecDeque<(u32, u32)>,
}

impl Admission {
    /// At most `limit` run at once; None is no limit.
    pub(super) fn new(limit: Option<u32>) -> Self {
        Admission { limit, ..Admission::default() }
    }

    pub(super) fn running(&self) -> u32 {
        self.running
    }

    pub(super) fn waiting(&self) -> u32 {
        self.waiting
    }

    /// A request has come.
    pub(super) fn arrive(&mut self, slot: u32, generation: u32) -> Turn {
        if self.limit.is_none_or(|limit| self.running < limit) {
            self.running += 1;
            return Turn::Running;
        }
        self.waiting += 1;
        self.queue.push_back((slot, generation));
        Turn::Waiting
    }

    /// A request has ended, or its client has gone.
    pub(super) fn leave(&mut self, turn: Turn) {
        match turn {
            Turn::Exempt => {}
            // it stays in the queue and is passed over there, so that leaving costs nothing
            Turn::Waiting => self.waiting -= 1,
            Turn::Running => self.running -= 1,
        }
    }

    /// The next to run, when there is a place. `waits` says whether a request is still there.
    pub(super) fn next(&mut self, waits: impl Fn(u32, u32) -> bool) -> Option<(u32, u32)> {
        while self.limit.is_none_or(|limit| self.running < limit) {
            let (slot, generation) = self.queue.pop_front()?;
            if waits(slot, generation) {
                self.waiting -= 1;
                self.running += 1;
                return Some((slot, generation));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_come_run_first() {
        let mut line = Admission::new(Some(2));
        let turns: Vec<Turn> = (0..5).map(|slot| line.arrive(slot, 0)).collect();
        assert_eq!(turns, [Turn::Running, Turn::Running, Turn::Waiting, Turn::Waiting, Turn::Waiting]);
        assert_eq!(line.next(|_, _| true), None, "no place");
        line.leave(Turn::Waiting); // 2 has gone
        line.leave(Turn::Running);
        assert_eq!(line.next(|slot, _| slot != 2), Some((3, 0)));
        assert_eq!((line.running(), line.waiting()), (2, 1));
        let mut open = Admission::new(None);
        assert!((0..1000).all(|slot| open.arrive(slot, 0) == Turn::Running));
    }

    proptest! {
        #[test]
        fn nobody_overtakes_and_no_place_stays_empty(steps in proptest::collection::vec(0u32..3, 0..200), limit in 1u32..4) {
            let mut line = Admission::new(Some(limit));
            let (mut running, mut waiting, mut came) = (Vec::new(), Vec::new(), 0);
            for step in steps {
                match step {
                    0 => {
                        match line.arrive(came, 0) {
                            Turn::Running => running.push(came),
                            _ => waiting.push(came),
                        }
                        came += 1;
                    }
                    1 if !running.is_empty() => {
                        running.remove(0);
                        line.leave(Turn::Running);
                    }
                    2 if !waiting.is_empty() => {
                        waiting.pop();
                        line.leave(Turn::Waiting);
                    }
                    _ => {}
                }
                while let Some((slot, _)) = line.next(|slot, _| waiting.contains(&slot)) {
                    prop_assert_eq!(slot, waiting.remove(0));
                    running.push(slot);
                }
                prop_assert_eq!((line.running() as usize, line.waiting() as usize), (running.len(), waiting.len()));
                prop_assert!(waiting.is_empty() || running.len() == limit as usize);
            }
        }
    }
}
