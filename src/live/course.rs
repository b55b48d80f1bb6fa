//! How far a campaign is, and how long the rest of it may take.

use bench_engine::units::Nanos;

/// The windows of a campaign, in the order in which they run.
#[derive(Clone, Debug)]
pub struct Course {
    /// What is known beforehand of the length of a window at each load point; None: only a window tells.
    planned: Vec<Option<Nanos>>,
    /// Windows of each load point and arm.
    windows: u32,
    /// Arms that take turns at each of them; 1 where there is one arm.
    arms: u32,
    /// Rests between windows.
    rests: Rests,
    /// Sum and number of the windows that were measured, by load point.
    measured: Vec<(u64, u64)>,
    /// Turns that have begun.
    begun: usize,
}

/// How long nothing is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rests {
    /// Before each round but the first.
    pub rounds: Nanos,
    /// Before each other load point.
    pub load_points: Nanos,
}

impl Course {
    /// Nothing has begun.
    pub fn new(planned: Vec<Option<Nanos>>, windows: u32, arms: u32, rests: Rests) -> Course {
        let measured = vec![(0, 0); planned.len()];
        Course { planned, windows, arms, rests, measured, begun: 0 }
    }

    /// Load points.
    pub fn load_points(&self) -> usize {
        self.planned.len()
    }

    /// Windows of each of them.
    pub fn windows(&self) -> u32 {
        self.windows
    }

    /// The next window begins.
    pub fn begin(&mut self) {
        self.begun += 1;
    }

    /// A window at a load point has taken so long.
    pub fn measured(&mut self, load_point: usize, length: Nanos) {
        if let Some((sum, n)) = self.measured.get_mut(load_point) {
            (*sum, *n) = (sum.saturating_add(length.ns()), *n + 1);
        }
    }

    /// Time that the windows after the current one, and the rests before them, will take. None: one of them is of a
    /// load point of which nothing is known yet. Zero: there are none.
    pub fn left(&self) -> Option<Nanos> {
        self.left_from(self.rest_before(self.begun))
    }

    /// The same without the rest before the next window: it is under way.
    pub fn left_after_rest(&self) -> Option<Nanos> {
        self.left_from(Nanos::ZERO)
    }

    /// `first`: the rest before the next window.
    fn left_from(&self, first: Nanos) -> Option<Nanos> {
        let (arms, load_points) = (self.arms as usize, self.planned.len());
        let mut left = Nanos::ZERO;
        for turn in self.begun..arms * load_points * self.windows as usize {
            let rest = if turn == self.begun { first } else { self.rest_before(turn) };
            left = left + rest + self.expected(turn / arms % load_points)?;
        }
        Some(left)
    }

    fn rest_before(&self, turn: usize) -> Nanos {
        let (arms, round) = (self.arms as usize, self.arms as usize * self.planned.len());
        if turn == 0 || turn >= round * self.windows as usize || !turn.is_multiple_of(arms) {
            return Nanos::ZERO;
        }
        if turn.is_multiple_of(round) { self.rests.rounds } else { self.rests.load_points }
    }

    fn expected(&self, load_point: usize) -> Option<Nanos> {
        let (sum, n) = self.measured[load_point];
        sum.checked_div(n).map(Nanos::from_ns).or(self.planned[load_point])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(s: u64) -> Nanos {
        Nanos::from_secs(s)
    }

    const fn rests(rounds: u64, load_points: u64) -> Rests {
        Rests { rounds: s(rounds), load_points: s(load_points) }
    }

    #[test]
    fn what_is_left_is_told_once_every_load_point_is_known() {
        let mut course = Course::new(vec![None, Some(s(20))], 2, 1, rests(30, 0));
        course.begin();
        assert_eq!(course.left(), None, "nothing is known of the first");
        course.measured(0, s(8));
        course.begin();
        assert_eq!(course.left(), Some(s(30 + 8 + 20)));
        course.measured(1, s(22));
        assert_eq!((course.left(), course.left_after_rest()), (Some(s(30 + 8 + 22)), Some(s(8 + 22))));
        course.begin();
        assert_eq!(course.left(), Some(s(22)), "the rest is over; what was measured counts more than what was planned");
        course.begin();
        assert_eq!(course.left(), Some(Nanos::ZERO));
        course.begin();
        assert_eq!(course.left(), Some(Nanos::ZERO), "no more than all");
    }

    #[test]
    fn two_arms_run_each_window_twice() {
        let mut course = Course::new(vec![Some(s(1)), Some(s(10))], 2, 2, rests(100, 7));
        assert_eq!(course.left(), Some(s(2 + 7 + 20 + 100 + 2 + 7 + 20)), "they follow each other without a rest");
        (0..3).for_each(|_| course.begin());
        assert_eq!(course.left(), Some(s(10 + 100 + 22 + 7)));
    }
}
