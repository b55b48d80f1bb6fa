//! A server of k slots and a first-come queue, simulated: what the built-in mock is with `--max-num-seqs k`.

use super::growth::{self, Growth};
use rand_core::Rng;
use rand_pcg::Pcg64;

/// The law of the mock: a time to the first token, then tokens at equal distances, each interval stretched by
/// `1 + jitter u`, u uniform from -1 to 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Server {
    pub(super) slots: usize,
    pub(super) ttft_s: f64,
    pub(super) itl_s: f64,
    pub(super) tokens: u32,
    pub(super) jitter: f64,
}

/// A request in open loop, s.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served {
    pub(super) due: f64,
    pub(super) first_token: f64,
    pub(super) end: f64,
}

impl Server {
    /// Mean time of a request that does not wait, s.
    pub(super) fn service_s(&self) -> f64 {
        self.ttft_s + f64::from(self.tokens - 1) * self.itl_s
    }

    pub(super) fn capacity(&self) -> f64 {
        self.slots as f64 / self.service_s()
    }

    /// `n` Poisson arrivals, or evenly spaced ones, into an empty server.
    pub(super) fn serve(&self, per_s: f64, n: usize, poisson: bool, seed: u64) -> Vec<Served> {
        let mut rng = Pcg64::new(u128::from(seed), 21);
        let mut uniform = move || ((rng.next_u64() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64;
        let mut free = vec![0.0_f64; self.slots];
        let mut now = 0.0;
        let mut served = Vec::with_capacity(n);
        for _ in 0..n {
            now += if poisson { -uniform().ln() / per_s } else { 1.0 / per_s };
            let slot = (0..free.len()).min_by(|a, b| free[*a].total_cmp(&free[*b])).expect("a slot");
            let start = free[slot].max(now);
            let mut stretched = |s: f64| s * (1.0 + self.jitter * (2.0 * uniform() - 1.0));
            let first_token = start + stretched(self.ttft_s);
            let rest: f64 = (1..self.tokens).map(|_| stretched(self.itl_s)).sum();
            free[slot] = first_token + rest;
            served.push(Served { due: now, first_token, end: free[slot] });
        }
        served
    }
}

/// What the harness would say of over-saturation at the moment of the last arrival.
pub(super) fn growth(served: &[Served], per_s: f64, until_s: f64) -> Option<Growth> {
    let known = |s: &Served| (s.due, (s.end <= until_s).then_some(s.end));
    let requests: Vec<_> = served.iter().filter(|s| s.due <= until_s).map(known).collect();
    let (counts, settled) = growth::counts(&requests, until_s, 200);
    growth::judge(&counts, per_s, settled?)
}
