//! How many requests were in flight, over time.

use crate::rundir::run_json::InFlight;

/// Time spent at each level between the bounds of a window.
pub(super) struct Occupancy {
    /// In ns, by level.
    time_at: Vec<u64>,
    /// Level from each moment on; the last one is the close.
    steps: Vec<(u64, usize)>,
}

impl Occupancy {
    /// `spans` from submit to end; what lies outside `opened..closed` is cut off.
    pub(super) fn of(spans: &[(u64, u64)], opened: u64, closed: u64) -> Occupancy {
        let clip = |t: u64| t.clamp(opened, closed.max(opened));
        let mut starts: Vec<u64> = spans.iter().map(|s| clip(s.0)).collect();
        let mut ends: Vec<u64> = spans.iter().map(|s| clip(s.1)).collect();
        starts.sort_unstable();
        ends.sort_unstable();
        let mut moments: Vec<u64> = [opened, closed].into_iter().chain(starts.iter().chain(&ends).copied()).collect();
        moments.sort_unstable();
        moments.dedup();
        // whatever starts and ends at the same moment cancels: a level counts only when it lasted
        let level = |t: u64| starts.partition_point(|&s| s <= t) - ends.partition_point(|&e| e <= t);
        let steps: Vec<(u64, usize)> = moments.into_iter().map(|t| (t, level(t))).collect();
        let mut time_at = vec![0];
        for pair in steps.windows(2) {
            let (from, level) = pair[0];
            time_at.resize(time_at.len().max(level + 1), 0);
            time_at[level] += pair[1].0 - from;
        }
        Occupancy { time_at, steps }
    }

    /// From the first to the last moment at `level` or above; None when it was never reached.
    pub(super) fn at_least(&self, level: usize) -> Option<(u64, u64)> {
        let mut full = self.steps.windows(2).filter(|pair| pair[0].1 >= level).map(|pair| (pair[0].0, pair[1].0));
        let first = full.next()?;
        Some((first.0, full.next_back().unwrap_or(first).1))
    }

    pub(super) fn figures(&self, concurrency: Option<usize>) -> InFlight {
        let total: u64 = self.time_at.iter().sum();
        let weighted: u128 = self.time_at.iter().enumerate().map(|(level, t)| level as u128 * u128::from(*t)).sum();
        let full = |level: usize| self.time_at.iter().skip(level).sum::<u64>();
        InFlight {
            mean: (total > 0).then(|| weighted as f64 / total as f64),
            p95: self.not_exceeded(total),
            max: self.time_at.len() as u64 - 1,
            full_share: concurrency.and_then(|level| crate::analysis::definitions::share(full(level), total)),
        }
    }

    /// Smallest level that was not exceeded for 95 % of the time.
    fn not_exceeded(&self, total: u64) -> Option<u64> {
        let mut below = 0_u128;
        let level = self.time_at.iter().position(|t| {
            below += u128::from(*t);
            below * 100 >= u128::from(total) * 95
        });
        level.filter(|_| total > 0).map(|level| level as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_overlapping_requests() {
        // 0..10 idle, 10..20 one, 20..30 two, 30..40 one
        let occupancy = Occupancy::of(&[(10, 30), (20, 40)], 0, 40);
        let found = occupancy.figures(Some(2));
        assert_eq!(found, InFlight { mean: Some(1.0), p95: Some(2), max: 2, full_share: Some(0.25) });
        assert_eq!(occupancy.at_least(2), Some((20, 30)));
        assert_eq!(occupancy.at_least(3), None);
    }

    #[test]
    fn a_hand_over_at_one_moment_is_no_peak() {
        let occupancy = Occupancy::of(&[(0, 20), (20, 40)], 0, 40);
        assert_eq!(occupancy.figures(Some(1)).max, 1);
        assert_eq!(occupancy.at_least(1), Some((0, 40)));
    }
}
