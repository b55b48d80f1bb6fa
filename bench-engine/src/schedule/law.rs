//! How arrivals are distributed over time.

use super::profile::{HIGHEST_PER_S, LOWEST_PER_S, RateProfile};
use super::{Gaps, Schedule};
use crate::units::Nanos;
use rand_distr::Gamma;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Most requests of one batch.
pub const LARGEST_BATCH: u64 = 1_000_000;

/// When requests arrive: a rate, constant or over time, and the law of the gaps between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum ArrivalLaw {
    /// All at the opening.
    AtOnce,
    /// Evenly spaced, the first at the opening.
    Even {
        /// Arrivals per s.
        per_s: f64,
    },
    /// Exponential gaps: many users who know nothing of each other.
    Poisson {
        /// Mean arrivals per s.
        per_s: f64,
    },
    /// Gamma-distributed gaps.
    Gamma {
        /// Mean arrivals per s.
        per_s: f64,
        /// Below 1: in bursts; above: more regular than Poisson.
        shape: f64,
    },
    /// So many at the opening and, again and again, after so long: a job that sends all it has at a time of day.
    Batches {
        /// Arrivals of a batch, at least 1.
        size: u64,
        /// From one to the next, in ns; at least 1.
        every_ns: u64,
    },
    /// A rate that changes over time. The gaps are those of the constant law, of mean 1, in the time in which the rate is
    /// 1: the integral of the rate.
    Varying {
        /// The rate.
        rate: RateProfile,
        /// The gaps.
        spacing: Spacing,
    },
}

/// Gaps of mean 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum Spacing {
    /// All alike; the first arrival is where the rate begins.
    Even,
    /// Exponential.
    Poisson,
    /// Gamma-distributed.
    Gamma {
        /// Below 1: in bursts; above: more regular than Poisson.
        shape: f64,
    },
}

/// The law of the gaps once time is counted in mean arrivals ([`ArrivalLaw::mean_arrivals`]), so that their mean is 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GapLaw {
    /// There are none.
    AtOnce,
    /// All alike.
    Even,
    /// Exponential.
    Exponential,
    /// Gamma.
    Gamma {
        /// Its shape.
        shape: f64,
    },
    /// None within a batch; batches at equal times.
    Batches,
}

impl GapLaw {
    /// The law of the sums of `n` gaps, over `n`: what is left of a schedule of which every nth arrival is taken. Of
    /// batches what is left in each depends on where it begins; they stay batches.
    pub fn of_every(self, n: u32) -> GapLaw {
        match self {
            _ if n <= 1 => self,
            GapLaw::Exponential => GapLaw::Gamma { shape: f64::from(n) },
            GapLaw::Gamma { shape } => GapLaw::Gamma { shape: shape * f64::from(n) },
            GapLaw::AtOnce | GapLaw::Even | GapLaw::Batches => self,
        }
    }
}

/// A law that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum BadLaw {
    /// The rate.
    #[error("a rate must be from 0.0001 to 1,000,000 requests/s, or inf for all at once, not {0}")]
    Rate(f64),
    /// The shape of the gamma distribution.
    #[error("burstiness must be from 0.01 to 1,000,000 (1: Poisson), or inf for evenly spaced, not {0}")]
    Burstiness(f64),
    /// A batch.
    #[error("a batch must have from 1 to 1,000,000 requests, and come at most every ns, not {0} every {1} ns")]
    Batch(u64, u64),
}

impl Spacing {
    /// The gaps of a burstiness, the shape of the gamma distribution (1: Poisson; infinite: evenly spaced).
    ///
    /// # Errors
    /// [`BadLaw::Burstiness`] when it is out of range.
    pub fn new(burstiness: f64) -> Result<Self, BadLaw> {
        match burstiness {
            f64::INFINITY => Ok(Spacing::Even),
            1.0 => Ok(Spacing::Poisson),
            shape if (0.01..=1e6).contains(&shape) => Ok(Spacing::Gamma { shape }),
            _ => Err(BadLaw::Burstiness(burstiness)),
        }
    }
}

impl ArrivalLaw {
    /// The law of a rate in requests/s (infinite: all at once) and a burstiness, the shape of the gamma distribution
    /// of the gaps (1: Poisson; infinite: evenly spaced).
    ///
    /// # Errors
    /// [`BadLaw`] when one of them is out of range.
    pub fn new(per_s: f64, burstiness: f64) -> Result<Self, BadLaw> {
        let spacing = Spacing::new(burstiness)?;
        match (per_s, spacing) {
            (f64::INFINITY, _) => Ok(ArrivalLaw::AtOnce),
            _ if !(LOWEST_PER_S..=HIGHEST_PER_S).contains(&per_s) => Err(BadLaw::Rate(per_s)),
            (_, Spacing::Even) => Ok(ArrivalLaw::Even { per_s }),
            (_, Spacing::Poisson) => Ok(ArrivalLaw::Poisson { per_s }),
            (_, Spacing::Gamma { shape }) => Ok(ArrivalLaw::Gamma { per_s, shape }),
        }
    }

    /// `size` requests at the opening and after each `every`.
    ///
    /// # Errors
    /// [`BadLaw::Batch`] when there is none in a batch, or no time between two.
    pub fn batches(size: u64, every: Nanos) -> Result<Self, BadLaw> {
        let every_ns = every.ns();
        match (1..=LARGEST_BATCH).contains(&size) && every_ns > 0 {
            true => Ok(ArrivalLaw::Batches { size, every_ns }),
            false => Err(BadLaw::Batch(size, every_ns)),
        }
    }

    /// Mean arrivals per s where that is the same at all times; of batches, over many of them. None where all come at
    /// once or the rate changes.
    pub fn per_s(&self) -> Option<f64> {
        match *self {
            ArrivalLaw::AtOnce | ArrivalLaw::Varying { .. } => None,
            ArrivalLaw::Even { per_s } | ArrivalLaw::Poisson { per_s } | ArrivalLaw::Gamma { per_s, .. } => Some(per_s),
            ArrivalLaw::Batches { size, every_ns } => Some(size as f64 * 1e9 / every_ns as f64),
        }
    }

    /// Mean rate, in arrivals/s, of a window of `at_least` arrivals that lasts until `until` or longer
    /// ([`ArrivalLaw::window`]); None where all come at once. It follows from the law alone, not from what is drawn.
    pub fn mean_per_s(&self, at_least: u64, until: Nanos) -> Option<f64> {
        match self {
            ArrivalLaw::Varying { rate, .. } => Some(rate.mean_per_s(at_least as f64, until)),
            _ => self.per_s(),
        }
    }

    /// Highest rate, in arrivals/s; of batches their mean, of all at once None.
    pub fn peak_per_s(&self) -> Option<f64> {
        match self {
            ArrivalLaw::Varying { rate, .. } => Some(rate.peak_per_s()),
            _ => self.per_s(),
        }
    }

    /// Mean arrivals from the opening until `until`: the integral of the rate. What is not drawn is counted as it is:
    /// batches by those before `until`, and all at once is infinite.
    pub fn mean_arrivals(&self, until: Nanos) -> f64 {
        match self {
            ArrivalLaw::AtOnce if until == Nanos::ZERO => 0.0,
            ArrivalLaw::AtOnce => f64::INFINITY,
            ArrivalLaw::Even { per_s } | ArrivalLaw::Poisson { per_s } | ArrivalLaw::Gamma { per_s, .. } => {
                until.ns() as f64 * per_s / 1e9
            }
            ArrivalLaw::Batches { size, every_ns } => *size as f64 * until.ns().div_ceil((*every_ns).max(1)) as f64,
            ArrivalLaw::Varying { rate, .. } => rate.arrivals_until(until),
        }
    }

    /// The law of the gaps when time is counted in mean arrivals.
    pub fn gaps(&self) -> GapLaw {
        match *self {
            ArrivalLaw::AtOnce => GapLaw::AtOnce,
            ArrivalLaw::Batches { .. } => GapLaw::Batches,
            ArrivalLaw::Even { .. } | ArrivalLaw::Varying { spacing: Spacing::Even, .. } => GapLaw::Even,
            ArrivalLaw::Poisson { .. } | ArrivalLaw::Varying { spacing: Spacing::Poisson, .. } => GapLaw::Exponential,
            ArrivalLaw::Gamma { shape, .. } | ArrivalLaw::Varying { spacing: Spacing::Gamma { shape }, .. } => {
                GapLaw::Gamma { shape }
            }
        }
    }

    /// End of the last time with arrivals; None: the schedule has no end.
    pub fn end(&self) -> Option<Nanos> {
        match self {
            ArrivalLaw::Varying { rate, .. } => rate.end(),
            _ => None,
        }
    }

    /// The arrivals: without end, unless the law has one.
    pub fn schedule(&self, seed: u64) -> Schedule {
        let gamma = |shape: f64, mean: f64| match Gamma::new(shape, mean / shape) {
            Ok(gamma) => gamma,
            Err(error) => panic!("a checked law has a distribution: {error}"),
        };
        let gaps = match *self {
            ArrivalLaw::AtOnce => Gaps::None,
            ArrivalLaw::Even { per_s } => Gaps::Even { per_s },
            ArrivalLaw::Poisson { per_s } => Gaps::Exponential { mean_ns: 1e9 / per_s },
            ArrivalLaw::Gamma { per_s, shape } => Gaps::Gamma(gamma(shape, 1e9 / per_s)),
            ArrivalLaw::Batches { size, every_ns } => Gaps::Batches { size, every_ns },
            ArrivalLaw::Varying { ref rate, spacing } => {
                let unit = match spacing {
                    Spacing::Even => Gaps::Numbered,
                    Spacing::Poisson => Gaps::Exponential { mean_ns: 1.0 },
                    Spacing::Gamma { shape } => Gaps::Gamma(gamma(shape, 1.0)),
                };
                return Schedule::new(unit, Some(rate.clone()), seed);
            }
        };
        Schedule::new(gaps, None, seed)
    }

    /// The arrivals of a window: `at_least` of them, and by the same law all that come before `until`. Where all come
    /// at once there is no time to go on through: exactly `at_least`. A law with an end may have fewer.
    pub fn window(&self, seed: u64, at_least: u64, until: Nanos) -> impl Iterator<Item = Nanos> + use<> {
        let until = if *self == ArrivalLaw::AtOnce { Nanos::ZERO } else { until };
        (0..).zip(self.schedule(seed)).take_while(move |(i, due)| *i < at_least || *due < until).map(|(_, due)| due)
    }
}
