//! Series of known laws, for tests and simulations: the same bits for the same seed. Nothing published is made of them.

use rand_core::Rng;
use rand_pcg::Pcg64;

/// How the values of a series come about.
#[derive(Clone, Copy, Debug)]
pub enum Law {
    /// Independent, log-normal with sigma 0.5 around 200: the spread that real TTFTs have.
    Independent,
    /// Independent, of three lengths (70, 20 and 10 %) with 100, 200 and 800 in the middle.
    Mixed,
    /// Independent with a tail that has no variance (Pareto, alpha 1.5).
    LongTailed,
    /// A constant server: 5 ms and a few us.
    Constant,
    /// Logarithms of an AR(1) process with this coefficient, sigma 0.5 around 200.
    Remembering(f64),
}

/// Draws from a law.
pub struct Draws {
    rng: Pcg64,
    law: Law,
    state: f64,
}

impl Draws {
    /// From the beginning of the stream that `seed` names.
    pub fn new(law: Law, seed: u64) -> Draws {
        let mut draws = Draws { rng: Pcg64::new(u128::from(seed), 11), law, state: 0.0 };
        draws.state = draws.normal();
        draws
    }

    /// The next `n` values.
    pub fn series(&mut self, n: usize) -> Vec<f64> {
        (0..n).map(|_| self.value()).collect()
    }

    /// From 0 to 1, neither of them.
    fn uniform(&mut self) -> f64 {
        ((self.rng.next_u64() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
    }

    /// Standard normal (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let (radius, angle) = ((-2.0 * self.uniform().ln()).sqrt(), self.uniform() * std::f64::consts::TAU);
        radius * angle.cos()
    }

    fn value(&mut self) -> f64 {
        match self.law {
            Law::Independent => 200.0 * (0.5 * self.normal()).exp(),
            Law::Mixed => {
                let middle = match self.uniform() {
                    u if u < 0.7 => 100.0,
                    u if u < 0.9 => 200.0,
                    _ => 800.0,
                };
                middle * (0.2 * self.normal()).exp()
            }
            Law::LongTailed => 100.0 * self.uniform().powf(-1.0 / 1.5),
            Law::Constant => 5.0 + 0.003 * self.normal().abs(),
            Law::Remembering(phi) => {
                self.state = phi * self.state + (1.0 - phi * phi).sqrt() * self.normal();
                200.0 * (0.5 * self.state).exp()
            }
        }
    }
}

/// The largest count of hits that `runs` tries of this probability give in 999 of 1,000 cases, nearly.
pub fn at_most(probability: f64, runs: usize) -> usize {
    let mean = probability * runs as f64;
    (mean + 3.1 * (mean * (1.0 - probability)).sqrt() + 1.0).ceil() as usize
}
