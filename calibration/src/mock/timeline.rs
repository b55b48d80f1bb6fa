//! When each chunk is due: a pure function of the configuration, the request's arrival and the seed.

use bench_engine::units::{Instant, Nanos};

/// The due times of one reply, in order and without end.
///
/// The first is `arrival + ttft`, each later one `itl` after the one before; with jitter every interval, the
/// first included, is multiplied by `1 + jitter * u`, u uniform in [-1, 1). Due times do not depend on when
/// anything was written, so lateness never adds up.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    at: Instant,
    next_interval: Nanos,
    itl: Nanos,
    jitter: f64,
    random: u64,
}

impl Timeline {
    pub(super) fn new(arrival: Instant, ttft: Nanos, itl: Nanos, jitter: f64, seed: u64) -> Self {
        Timeline { at: arrival, next_interval: ttft, itl, jitter, random: seed }
    }

    /// The next due time.
    pub(super) fn advance(&mut self) -> Instant {
        let interval = std::mem::replace(&mut self.next_interval, self.itl);
        let interval = if self.jitter == 0.0 {
            interval
        } else {
            let u = (splitmix64(&mut self.random) >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
            Nanos::from_ns((interval.ns() as f64 * (1.0 + self.jitter * u)).max(0.0) as u64)
        };
        self.at = self.at + interval;
        self.at
    }
}

/// The seed of one request: the same prompt gets the same timeline, in whatever order requests come.
pub(super) fn request_seed(seed: u64, nonce: &str) -> u64 {
    // FNV-1a, 64 bits
    let hash = nonce.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    let mut mixed = seed ^ hash.rotate_left(32);
    splitmix64(&mut mixed)
}

/// Steele, Lea, Flood: Fast splittable pseudorandom number generators (2014).
pub(super) fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dues(n: usize, jitter: f64, seed: u64) -> Vec<u64> {
        let arrival = Instant::from_ns(1_000);
        let mut line = Timeline::new(arrival, Nanos::from_micros(50), Nanos::from_micros(10), jitter, seed);
        (0..n).map(|_| line.advance().ns()).collect()
    }

    #[test]
    fn without_jitter_dues_are_a_ruler() {
        assert_eq!(dues(4, 0.0, 7), [51_000, 61_000, 71_000, 81_000]);
    }

    #[test]
    fn jitter_stays_in_its_bounds_and_averages_out() {
        let dues = dues(20_001, 0.5, 7);
        assert!(dues[0] >= 26_000 && dues[0] < 76_000);
        let gaps: Vec<u64> = dues.windows(2).map(|w| w[1] - w[0]).collect();
        assert!(gaps.iter().all(|g| (5_000..15_000).contains(g)));
        let mean = gaps.iter().sum::<u64>() as f64 / gaps.len() as f64;
        assert!((mean - 10_000.0).abs() < 100.0, "{mean}");
    }

    #[test]
    fn the_seed_and_the_nonce_decide() {
        assert_eq!(dues(50, 0.3, 9), dues(50, 0.3, 9));
        assert_ne!(dues(50, 0.3, 9), dues(50, 0.3, 10));
        assert_eq!(request_seed(7, "n1"), request_seed(7, "n1"));
        assert_ne!(request_seed(7, "n1"), request_seed(7, "n2"));
        assert_ne!(request_seed(7, "n1"), request_seed(8, "n1"));
    }
}
