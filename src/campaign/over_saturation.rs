//! Ends a window early whose load is more than the server can do: looked at by the control loop, off the workers.

use crate::analysis::saturation::growth::{self, Count, Growth};
use crate::load_point::Cell;
use bench_engine::units::Nanos;
use std::io;
use std::iter::Peekable;

/// Moments at which requests are counted: at least so far apart, s.
const COUNT_EVERY_S: f64 = 0.05;
/// The counts are judged so often, s.
const JUDGE_EVERY_S: f64 = 0.25;
/// Growth ends a window when so many judgements in a row have found it.
const IN_A_ROW: u32 = 3;

/// Requests due and over of a window under way.
pub(super) struct Watch {
    dues: Peekable<Box<dyn Iterator<Item = io::Result<Nanos>> + Send>>,
    due: u64,
    /// The schedule is over: what is in flight can only fall.
    ended: bool,
    offered_per_s: f64,
    counts: Vec<Count>,
    settled_s: Option<f64>,
    next_count_s: f64,
    next_judgement_s: f64,
    found: u32,
}

impl Watch {
    /// Over the requests of a load point whose rate is constant. None: it has no such rate.
    ///
    /// # Errors
    /// The schedule cannot be read.
    pub(super) fn of(cell: &Cell) -> io::Result<Option<Watch>> {
        let Cell::Open(open) = cell else { return Ok(None) };
        let Some(offered_per_s) = open.rate.filter(|_| open.course.is_none()) else { return Ok(None) };
        Ok(Some(Watch {
            dues: open.dues()?.peekable(),
            due: 0,
            ended: false,
            offered_per_s,
            counts: Vec::new(),
            settled_s: None,
            next_count_s: 0.0,
            next_judgement_s: 0.0,
            found: 0,
        }))
    }

    /// At `at_s` from the opening `over` requests are over, of the first [`growth::FIRST`] so many. Gives what it is
    /// to be ended by.
    pub(super) fn look(&mut self, at_s: f64, over: u64, over_of_first: u64) -> Option<Growth> {
        if at_s < self.next_count_s || self.ended {
            return None;
        }
        self.next_count_s = at_s + COUNT_EVERY_S;
        // a schedule that cannot be read ends the feeder, which tells of it
        while self.dues.next_if(|due| due.as_ref().is_ok_and(|due| due.secs_f64() <= at_s)).is_some() {
            self.due += 1;
        }
        self.ended = self.dues.peek().is_none();
        if over_of_first >= growth::FIRST {
            self.settled_s.get_or_insert(at_s);
        }
        self.counts.push(Count { at_s, due: self.due, over });
        let settled_s = self.settled_s.filter(|_| at_s >= self.next_judgement_s)?;
        self.next_judgement_s = at_s + JUDGE_EVERY_S;
        let found = growth::judge(&self.counts, self.offered_per_s, settled_s);
        self.found = if found.is_some() { self.found + 1 } else { 0 };
        found.filter(|_| self.found >= IN_A_ROW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_point::Extent;
    use bench_engine::schedule::ArrivalLaw;

    fn watch(per_s: f64) -> Watch {
        let extent = Extent { seed: 7, at_least: 2_000, until: Nanos::ZERO, mean_output_tokens: 10.0, shard: None };
        let law = ArrivalLaw::new(per_s, f64::INFINITY).expect("in range");
        let cell = Cell::open(law, None, extent).expect("few");
        Watch::of(&cell).expect("no file").expect("a rate")
    }

    /// When a window of 100 requests/s would be ended, whose server does `served` after 0.5 s.
    fn ended_at(served: f64) -> Option<f64> {
        let mut watch = watch(100.0);
        (0..1_500).find_map(|tick| {
            let at_s = f64::from(tick) * 0.02;
            let over = (served.min(100.0) * (at_s - 0.5)).clamp(0.0, 2_000.0) as u64;
            watch.look(at_s, over, over.min(growth::FIRST)).map(|_| at_s)
        })
    }

    #[test]
    fn a_window_ends_when_its_server_falls_behind_and_not_before() {
        assert_eq!((ended_at(200.0), ended_at(99.0)), (None, None));
        // half of what comes: the first 50 are over after 1.5 s, and it is judged from 3 s to 6 s at least
        let at_s = ended_at(50.0).expect("ended");
        assert!((6.0..8.0).contains(&at_s), "{at_s}");
    }

    #[test]
    fn only_a_constant_rate_is_watched() {
        assert!(Watch::of(&Cell::Closed { concurrency: 8 }).expect("no file").is_none());
        let extent = Extent { seed: 7, at_least: 20, until: Nanos::ZERO, mean_output_tokens: 10.0, shard: None };
        let at_once = Cell::open(ArrivalLaw::new(f64::INFINITY, 1.0).expect("in range"), None, extent).expect("few");
        assert!(Watch::of(&at_once).expect("no file").is_none());
    }
}
