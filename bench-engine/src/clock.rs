//! The one place that asks the system for time, its simulated twin, and the map from kernel stamps
//! (CLOCK_REALTIME) to the harness axis (CLOCK_MONOTONIC).
//!
//! Between steps REALTIME - MONOTONIC is constant, because NTP slews both (`adjtimex(2)`); only a step
//! changes it. Each clock pair brackets that constant; intersecting the brackets narrows it to tens of ns.
#![allow(clippy::disallowed_methods)]

use crate::units::{Instant, Nanos, WallInstant};
use nix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::rc::Rc;

/// Something that knows the time on the harness axis.
pub trait Clock {
    /// Now, on CLOCK_MONOTONIC (or its simulation).
    fn now(&self) -> Instant;
}

/// The operating system's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

fn read_ns(id: ClockId) -> u64 {
    let t = clock_gettime(id).expect("CLOCK_MONOTONIC and CLOCK_REALTIME always exist on Linux");
    t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64
}

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::from_ns(read_ns(ClockId::CLOCK_MONOTONIC))
    }
}

impl SystemClock {
    /// Wall time, for names and log lines only; never for a latency.
    pub fn wall(&self) -> WallInstant {
        WallInstant::from_ns(read_ns(ClockId::CLOCK_REALTIME))
    }

    /// A clock pair: the tightest of five brackets taken back to back.
    pub fn pair(&self) -> ClockPair {
        let take = || ClockPair { before: self.now(), wall: self.wall(), after: self.now() };
        (0..4).map(|_| take()).fold(take(), |best, p| if p.width() < best.width() { p } else { best })
    }
}

/// A clock that moves only when told to.
#[derive(Clone, Debug, Default)]
pub struct SimClock(Rc<Cell<u64>>);

impl SimClock {
    /// Moves to `at`.
    ///
    /// # Panics
    /// When `at` lies in the past.
    pub fn advance_to(&self, at: Instant) {
        assert!(at.ns() >= self.0.get(), "simulated time cannot run backwards");
        self.0.set(at.ns());
    }
}

impl Clock for SimClock {
    fn now(&self) -> Instant {
        Instant::from_ns(self.0.get())
    }
}

/// Wall time bracketed by two readings of the harness clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockPair {
    /// CLOCK_MONOTONIC before.
    pub before: Instant,
    /// CLOCK_REALTIME between.
    pub wall: WallInstant,
    /// CLOCK_MONOTONIC after.
    pub after: Instant,
}

impl ClockPair {
    /// Width of the bracket.
    pub fn width(&self) -> Nanos {
        self.after.saturating_since(self.before)
    }
}

/// One stretch between two steps of the wall clock: wall - monotonic lies in `[lo, hi]` ns.
#[derive(Clone, Copy, Debug)]
struct Era {
    lo: i128,
    hi: i128,
    first: Instant,
    last: Instant,
}

/// Maps kernel stamps to the harness axis, across steps of the wall clock.
///
/// Feed it pairs at least ten times a second, in order. An empty intersection is a step: stamps from the
/// time between the two pairs around it map to nothing.
#[derive(Clone, Debug, Default)]
pub struct ClockMap {
    eras: Vec<Era>,
}

/// Why a kernel stamp has no place on the harness axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmapped {
    /// No clock pair covers that time yet.
    NoPair,
    /// The wall clock was stepped around that time.
    Step,
    /// Later than the moment the harness saw it, by more than the mapping's uncertainty.
    OutOfOrder,
}

impl ClockMap {
    /// Takes in the next pair.
    pub fn observe(&mut self, pair: ClockPair) {
        let lo = i128::from(pair.wall.ns()) - i128::from(pair.after.ns());
        let hi = i128::from(pair.wall.ns()) - i128::from(pair.before.ns());
        if let Some(era) = self.eras.last_mut() {
            let (l, h) = (era.lo.max(lo), era.hi.min(hi));
            if l <= h {
                (era.lo, era.hi, era.last) = (l, h, pair.after);
                return;
            }
        }
        self.eras.push(Era { lo, hi, first: pair.before, last: pair.after });
    }

    /// The last moment covered by a pair; stamps seen later are not to be mapped yet.
    pub fn covered_until(&self) -> Option<Instant> {
        self.eras.last().map(|e| e.last)
    }

    /// How often the wall clock was stepped.
    pub fn steps(&self) -> usize {
        self.eras.len().saturating_sub(1)
    }

    /// Half the width of the bracket that holds at the end: the mapping's uncertainty.
    pub fn uncertainty(&self) -> Option<Nanos> {
        self.eras.last().map(|e| Nanos::from_ns(((e.hi - e.lo) / 2) as u64 + 1))
    }

    /// wall - monotonic at the end, in ns, middle of the bracket.
    pub fn offset_ns(&self) -> Option<i128> {
        self.eras.last().map(|e| (e.lo + e.hi) / 2)
    }

    /// Places `stamp`, which the harness read at `seen`, on the harness axis.
    ///
    /// # Errors
    /// [`Unmapped`] says why it has no place.
    pub fn map(&self, stamp: WallInstant, seen: Instant) -> Result<Instant, Unmapped> {
        // The era in force when the stamp was read; a read between two eras can be on either side of the step.
        let at = self.eras.partition_point(|e| e.first <= seen);
        let era = self.eras.get(at.saturating_sub(1)).ok_or(Unmapped::NoPair)?;
        let is_first = at <= 1;
        if seen > era.last && at < self.eras.len() {
            return Err(Unmapped::Step);
        }
        let uncertainty = (era.hi - era.lo) / 2 + 1;
        let mono = i128::from(stamp.ns()) - (era.lo + era.hi) / 2;
        if mono > i128::from(seen.ns()) + uncertainty {
            return Err(Unmapped::OutOfOrder);
        }
        let mono = mono.clamp(0, i128::from(seen.ns())) as u64;
        if !is_first && mono < era.first.ns() {
            return Err(Unmapped::Step);
        }
        Ok(Instant::from_ns(mono))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(before: u64, wall: u64, after: u64) -> ClockPair {
        ClockPair { before: Instant::from_ns(before), wall: WallInstant::from_ns(wall), after: Instant::from_ns(after) }
    }

    fn map_ns(map: &ClockMap, stamp: u64, seen: u64) -> Result<u64, Unmapped> {
        map.map(WallInstant::from_ns(stamp), Instant::from_ns(seen)).map(Instant::ns)
    }

    #[test]
    fn brackets_intersect() {
        let mut map = ClockMap::default();
        map.observe(pair(1_000, 501_050, 1_100)); // offset in [499_950, 500_050]
        map.observe(pair(2_000, 502_005, 2_060)); // [499_945, 500_005]
        map.observe(pair(3_000, 503_010, 3_020)); // [499_990, 500_010]
        assert_eq!(map.steps(), 0);
        assert_eq!(map.offset_ns(), Some(499_997)); // [499_990, 500_005]
        assert_eq!(map_ns(&map, 502_497, 2_900), Ok(2_500));
    }

    #[test]
    fn a_step_voids_the_time_around_it_and_nothing_else() {
        let mut map = ClockMap::default();
        map.observe(pair(1_000, 501_000, 1_000));
        map.observe(pair(2_000, 502_000, 2_000));
        map.observe(pair(3_000, 903_000, 3_000)); // stepped forward by 400_000 between 2_000 and 3_000
        map.observe(pair(4_000, 904_000, 4_000));
        assert_eq!(map.steps(), 1);
        assert_eq!(map_ns(&map, 501_500, 1_600), Ok(1_500));
        assert_eq!(map_ns(&map, 502_500, 2_600), Err(Unmapped::Step));
        assert_eq!(map_ns(&map, 902_900, 3_100), Err(Unmapped::Step)); // arrived before the first pair of the new era
        assert_eq!(map_ns(&map, 903_500, 3_600), Ok(3_500));
    }

    #[test]
    fn a_stamp_after_its_own_reading_is_out_of_order() {
        let mut map = ClockMap::default();
        assert_eq!(map_ns(&map, 5, 5), Err(Unmapped::NoPair));
        map.observe(pair(1_000, 501_000, 1_010));
        assert_eq!(map_ns(&map, 503_000, 2_000), Err(Unmapped::OutOfOrder));
        // within the uncertainty it is clamped to the reading, so that a duration is never negative
        assert_eq!(map_ns(&map, 502_000, 2_002), Ok(2_002));
    }

    #[test]
    fn the_system_clock_moves_forward_and_pairs_bracket() {
        let clock = SystemClock;
        let p = clock.pair();
        assert!(p.before <= p.after && clock.now() >= p.after);
    }
}
