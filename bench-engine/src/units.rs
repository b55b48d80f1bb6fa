//! Units as types: instants on the harness axis, kernel wall-clock stamps, durations.
//!
//! Everything is whole nanoseconds in a `u64`; 584 years fit.

use std::fmt;
use std::ops::{Add, Sub};

/// A moment on CLOCK_MONOTONIC, in ns. The harness axis: every published time is on it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

/// A moment on CLOCK_REALTIME, in ns since the epoch: what kernel socket stamps are in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct WallInstant(u64);

/// A span of time in ns, never negative.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Nanos(u64);

impl Instant {
    /// From ns on CLOCK_MONOTONIC.
    pub const fn from_ns(ns: u64) -> Self {
        Instant(ns)
    }
    /// ns on CLOCK_MONOTONIC.
    pub const fn ns(self) -> u64 {
        self.0
    }
    /// Time since `earlier`, zero when `earlier` is later.
    pub const fn saturating_since(self, earlier: Instant) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl WallInstant {
    /// From ns on CLOCK_REALTIME.
    pub const fn from_ns(ns: u64) -> Self {
        WallInstant(ns)
    }
    /// ns on CLOCK_REALTIME.
    pub const fn ns(self) -> u64 {
        self.0
    }
}

impl Nanos {
    /// No time at all.
    pub const ZERO: Nanos = Nanos(0);
    /// From ns.
    pub const fn from_ns(ns: u64) -> Self {
        Nanos(ns)
    }
    /// From us.
    pub const fn from_micros(us: u64) -> Self {
        Nanos(us * 1_000)
    }
    /// From ms.
    pub const fn from_millis(ms: u64) -> Self {
        Nanos(ms * 1_000_000)
    }
    /// From s.
    pub const fn from_secs(s: u64) -> Self {
        Nanos(s * 1_000_000_000)
    }
    /// From seconds as people write them. None for negative, infinite or not a number.
    pub fn from_secs_f64(s: f64) -> Option<Self> {
        let ns = s * 1e9;
        (ns >= 0.0 && ns < u64::MAX as f64).then_some(Nanos(ns.round() as u64))
    }
    /// In ns.
    pub const fn ns(self) -> u64 {
        self.0
    }
    /// In s, for printing and ratios.
    pub fn secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// In ms, for printing.
    pub fn millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl Add<Nanos> for Instant {
    type Output = Instant;
    fn add(self, span: Nanos) -> Instant {
        Instant(self.0.saturating_add(span.0))
    }
}

impl Sub for Instant {
    type Output = Nanos;
    /// # Panics
    /// When `earlier` is later: time running backwards on the harness axis is a broken invariant.
    fn sub(self, earlier: Instant) -> Nanos {
        assert!(self.0 >= earlier.0, "time ran backwards: {self:?} - {earlier:?}");
        Nanos(self.0 - earlier.0)
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mono {} ns", self.0)
    }
}

impl fmt::Debug for WallInstant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wall {} ns", self.0)
    }
}

impl fmt::Debug for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ns", self.0)
    }
}

impl fmt::Display for Nanos {
    /// The shortest of ns, us, ms, s that keeps three digits: `850 ns`, `12.3 us`, `4.56 ms`, `61.0 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            0..1_000 => return write!(f, "{} ns", self.0),
            1_000..1_000_000 => (self.0 as f64 / 1e3, "us"),
            1_000_000..1_000_000_000 => (self.0 as f64 / 1e6, "ms"),
            _ => (self.0 as f64 / 1e9, "s"),
        };
        let digits = if value < 10.0 { 2 } else { 1 };
        write!(f, "{value:.digits$} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_print_in_the_unit_people_read() {
        for (ns, text) in [(850, "850 ns"), (12_345, "12.3 us"), (4_560_000, "4.56 ms"), (61_000_000_000, "61.0 s")] {
            assert_eq!(Nanos::from_ns(ns).to_string(), text);
        }
    }

    #[test]
    fn seconds_as_people_write_them() {
        assert_eq!(Nanos::from_secs_f64(0.25), Some(Nanos::from_millis(250)));
        assert_eq!(Nanos::from_secs_f64(-1.0), None);
        assert_eq!(Nanos::from_secs_f64(f64::NAN), None);
        assert_eq!(Nanos::from_secs_f64(1e300), None);
    }

    #[test]
    #[should_panic(expected = "time ran backwards")]
    fn a_negative_span_is_a_broken_invariant() {
        let _ = Instant::from_ns(1) - Instant::from_ns(2);
    }
}
