//! A long window in slices: how long these are, and what a rate does over them.

use super::rules;
use super::steadiness::{self, Drift};
use crate::analysis::statistics::{change_points, levels, trend};
use crate::rundir::soak::{ClientMemory, RateChange, RateTrend};

const S: u64 = 1_000_000_000;
/// Lengths that people can read off an axis, in s.
const LENGTHS: [u64; 14] = [10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400];
/// Most slices of a window.
pub const MOST: u64 = 500;
/// Slices that a window has at least, as far as whole ones go: one more than a trend needs, and the last may be short.
const FEWEST: u64 = 12;

/// Length of a slice in ns: [`rules::SLICE_NS`], less where the window would have fewer than twelve, more where it would
/// have more than [`MOST`]. None for windows too short to judge drift.
pub fn slice_ns(window_ns: u64) -> Option<u64> {
    if window_ns < rules::DRIFT_WINDOW_NS {
        return None;
    }
    let lengths = || LENGTHS.into_iter().map(|s| s * S);
    let usual = lengths().filter(|length| *length <= rules::SLICE_NS && window_ns / length >= FEWEST).max();
    let enough = |length: &u64| window_ns.div_ceil(*length) <= MOST;
    let length = usual.unwrap_or(LENGTHS[0] * S);
    Some(if enough(&length) { length } else { lengths().find(enough).unwrap_or(window_ns.div_ceil(MOST)) })
}

/// Whether a rate rises or falls from slice to slice, and where its level changes. `from_s` is the beginning of the first
/// slice. Without a trend where one of them is not known or fewer than ten are there.
pub fn rate(slices: &[Option<f64>], from_s: f64, slice_s: f64) -> (Option<RateTrend>, Vec<RateChange>) {
    let known: Option<Vec<f64>> = slices.iter().copied().collect();
    let Some(values) = known.filter(|values| values.len() >= trend::SMALLEST_N) else { return (None, Vec::new()) };
    let level = levels::middle(&values);
    let found = trend::of(&values).map(|t| {
        let slope = steadiness::per_10_min(&t, slice_s * 1e9, level);
        RateTrend {
            drift: steadiness::drift(&t, &slope, slice_s * 1e9 * values.len() as f64),
            slices: values.len() as u64,
            s: t.s,
            p: t.p,
            lag_1: t.lag_1,
            per_10_min: slope.ms,
            per_10_min_ci: slope.ms_ci,
            share_per_10_min: slope.share,
            share_per_10_min_ci: slope.share_ci,
        }
    });
    let least = rules::LEVEL_NOISE * level;
    let cuts = if least > 0.0 { change_points::of(&values, least) } else { Vec::new() };
    let parts: Vec<f64> = levels::parts(&values, &cuts).map(levels::middle).collect();
    let change = |(cut, level): (&usize, &[f64])| RateChange {
        at_s: from_s + *cut as f64 * slice_s,
        before: level[0],
        after: level[1],
    };
    (found, cuts.iter().zip(parts.windows(2)).map(change).collect())
}

/// What a client's memory did; None where no slice tells.
pub fn client_memory(slices: &[Option<u64>]) -> Option<ClientMemory> {
    let known: Vec<u64> = slices.iter().copied().flatten().collect();
    let third = (known.len() / 3).max(1);
    let middle = |values: &[u64]| {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        sorted[sorted.len() / 2]
    };
    let most = known.iter().copied().max()?;
    Some(ClientMemory { first_third: middle(&known[..third]), last_third: middle(&known[known.len() - third..]), most })
}

/// The gravest of latency and throughput.
pub fn drift(latency: Drift, throughput: Option<RateTrend>) -> Drift {
    throughput.map_or(latency, |t| latency.and(t.drift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_of_half_a_minute_where_the_window_allows_it() {
        let of = |s: u64| slice_ns(s * S).map(|ns| ns / S);
        assert_eq!([100, 119].map(of), [None; 2]);
        assert_eq!([120, 180, 359, 360, 1_200, 14_400].map(of), [10, 15, 15, 30, 30, 30].map(Some));
        assert_eq!([15_001, 30_001, 86_400, 40 * 86_400].map(of), [60, 120, 300, 7_200].map(Some));
    }

    #[test]
    fn a_rate_that_falls_is_found_and_one_that_does_not_is_not() {
        let noise = |i: u64| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as f64 / f64::from(1 << 24) - 0.5;
        let of = |slope: f64| (0..40).map(|i| Some(1_000.0 + 20.0 * noise(i) - slope * i as f64)).collect::<Vec<_>>();
        let (found, _) = rate(&of(1.0), 0.0, 30.0);
        let found = found.unwrap();
        // one of a thousand less each half minute: 2 % in 10 minutes
        assert_eq!(found.drift, Drift::Drifting);
        assert!((found.per_10_min + 20.0).abs() < 4.0 && found.share_per_10_min.unwrap() < -0.015, "{found:?}");
        let (none, changes) = rate(&of(0.0), 0.0, 30.0);
        assert_eq!((none.unwrap().drift, changes.len()), (Drift::Steady, 0));
        let mut step = of(0.0);
        step[25..].iter_mut().flatten().for_each(|v| *v -= 100.0);
        let (_, changes) = rate(&step, 60.0, 30.0);
        assert_eq!((changes.len(), changes[0].at_s), (1, 60.0 + 25.0 * 30.0));
        step[3] = None;
        assert_eq!(rate(&step, 0.0, 30.0), (None, Vec::new()), "one that is not known is not left out");
        assert_eq!(rate(&step[4..12], 0.0, 30.0).0, None, "too few");
    }

    #[test]
    fn memory_of_the_first_and_the_last_third() {
        let of = |values: &[u64]| client_memory(&values.iter().copied().map(Some).collect::<Vec<_>>());
        let memory = of(&[1, 9, 2, 5, 5, 5, 7, 8, 6]).unwrap();
        assert_eq!((memory.first_third, memory.last_third, memory.most), (2, 7, 9));
        assert_eq!(of(&[4]).unwrap(), ClientMemory { first_third: 4, last_third: 4, most: 4 });
        assert_eq!(client_memory(&[None, None]), None);
    }
}
