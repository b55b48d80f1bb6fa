//! When each chunk is due: a pure function of the configuration, the request's start and the seed.

use bench_engine::units::{Instant, Nanos};
use std::f64::consts::TAU;
use std::fmt;
use std::str::FromStr;

/// No interval is longer than so many times its given value, whatever the law says.
pub const LAW_LIMIT: f64 = 1_000.0;

/// How the intervals of a timeline vary about their given value.
///
/// Written `constant`, `lognormal:SIGMA` or `pareto:ALPHA`. No interval is longer than 1,000 times the given value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Law {
    /// Always the given value.
    #[default]
    Constant,
    /// The given value is the median; the logarithm has this standard deviation, 0 to 5.
    LogNormal {
        /// Standard deviation of the natural logarithm.
        sigma: f64,
    },
    /// A Pareto law cut at 1,000 times the given value, its minimum chosen so that the given value is its mean.
    Pareto(Pareto),
}

/// A bounded Pareto law with mean 1 and maximum 1,000.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pareto {
    alpha: f64,
    least: f64,
}

impl Pareto {
    /// `alpha` is the exponent of the tail, 0.1 to 100; small is heavy. None outside.
    pub fn new(alpha: f64) -> Option<Pareto> {
        if !(0.1..=100.0).contains(&alpha) {
            return None;
        }
        // the mean grows with the minimum, so halving finds it
        let (mut low, mut high) = (1e-300_f64, 1.0_f64);
        for _ in 0..200 {
            // halving in the logarithm while the two are far apart, since heavy tails have tiny minima
            let middle = if high > 2.0 * low { (low * high).sqrt() } else { f64::midpoint(low, high) };
            if (Pareto { alpha, least: middle }).mean() < 1.0 {
                low = middle;
            } else {
                high = middle;
            }
        }
        Some(Pareto { alpha, least: high })
    }

    fn mean(self) -> f64 {
        let (a, l, h) = (self.alpha, self.least, LAW_LIMIT);
        let kept = 1.0 - (l / h).powf(a);
        if (a - 1.0).abs() < 1e-9 {
            return l / kept * (h / l).ln();
        }
        a / (a - 1.0) * l * (1.0 - (l / h).powf(a - 1.0)) / kept
    }

    /// The value below which a share `u` of [0, 1) lies.
    fn at(self, u: f64) -> f64 {
        let kept = 1.0 - (self.least / LAW_LIMIT).powf(self.alpha);
        self.least / (1.0 - u * kept).powf(self.alpha.recip())
    }
}

impl Law {
    /// A factor on the given value.
    fn factor(self, random: &mut u64) -> f64 {
        match self {
            Law::Constant => 1.0,
            Law::LogNormal { sigma } => {
                // Box and Muller (1958); 1 - u is in (0, 1], so that its logarithm exists
                let radius = (-2.0 * (1.0 - unit(random)).ln()).sqrt();
                let normal = radius * (TAU * unit(random)).cos();
                (sigma * normal).exp().min(LAW_LIMIT)
            }
            Law::Pareto(pareto) => pareto.at(unit(random)).min(LAW_LIMIT),
        }
    }
}

impl FromStr for Law {
    type Err = String;

    fn from_str(text: &str) -> Result<Law, String> {
        let (name, value) = text.split_once(':').map_or((text, None), |(name, value)| (name, Some(value)));
        let number = |what: &str, range: &str, fits: &dyn Fn(f64) -> bool| {
            let number = value.and_then(|value| value.parse::<f64>().ok()).filter(|number| fits(*number));
            number.ok_or_else(|| format!("{name} needs {what}, {range}: {name}:{what}, not {text:?}"))
        };
        match name {
            "constant" if value.is_none() => Ok(Law::Constant),
            "lognormal" => {
                number("SIGMA", "0 to 5", &|sigma| (0.0..=5.0).contains(&sigma)).map(|sigma| Law::LogNormal { sigma })
            }
            "pareto" => {
                let alpha = number("ALPHA", "0.1 to 100", &|alpha| Pareto::new(alpha).is_some())?;
                Pareto::new(alpha).map(Law::Pareto).ok_or_else(|| format!("{text:?} is no Pareto law"))
            }
            _ => Err(format!("a law is constant, lognormal:SIGMA or pareto:ALPHA, not {text:?}")),
        }
    }
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Law::Constant => f.write_str("constant"),
            Law::LogNormal { sigma } => write!(f, "lognormal:{sigma}"),
            Law::Pareto(pareto) => write!(f, "pareto:{}", pareto.alpha),
        }
    }
}

/// How a server becomes slower while it runs: each interval is multiplied by `1 + share * t / per`, t from the mock's start
/// to the moment at which the interval begins. Continuous and linear.
///
/// Written `1%/10m`: a share in percent, negative for one that becomes faster, and a time in ms, s, m or h.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    share: f64,
    per: Nanos,
}

impl Drift {
    /// The factor after a time. Never below 0.
    fn factor(self, after: Nanos) -> f64 {
        (1.0 + self.share * (after.ns() as f64 / self.per.ns() as f64)).max(0.0)
    }
}

impl FromStr for Drift {
    type Err = String;

    fn from_str(text: &str) -> Result<Drift, String> {
        let parsed = || {
            let (share, per) = text.split_once('/')?;
            let share = share.trim().strip_suffix('%')?.trim().parse::<f64>().ok()?;
            let units = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
            let (digits, unit) = units.iter().find_map(|(name, s)| Some((per.trim().strip_suffix(name)?, *s)))?;
            let per = Nanos::from_secs_f64(digits.trim().parse::<f64>().ok()? * unit)?;
            let fits = (-100.0..=1000.0).contains(&share) && per > Nanos::ZERO;
            fits.then_some(Drift { share: share / 100.0, per })
        };
        parsed().ok_or_else(|| format!("a drift is PERCENT%/TIME, -100 to 1000 percent, like 1%/10m, not {text:?}"))
    }
}

/// What decides the intervals of one reply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pace {
    pub ttft: Nanos,
    pub itl: Nanos,
    pub ttft_law: Law,
    pub itl_law: Law,
    pub jitter: f64,
    pub lockstep: Option<Nanos>,
}

/// The due times of one reply, in order and without end.
///
/// The first is `start + ttft + extra`, each later one `itl` after the one before. Each interval is multiplied by
/// its law's factor and, with jitter, by `1 + jitter * u`, u uniform in [-1, 1); `extra` is not. With a drift all of it,
/// `extra` too, is then multiplied by the factor of the moment at which it begins. In lock-step each
/// is then moved up to the grid of that period, whose origin is the zero of CLOCK_MONOTONIC, and to a later step
/// than the one before. Due times do not depend on when anything was written, so lateness never adds up.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    pace: Pace,
    extra: Nanos,
    at: Instant,
    begun: bool,
    last_step: Option<Instant>,
    random: u64,
    /// With the moment from which on it counts.
    drift: Option<(Drift, Instant)>,
}

impl Timeline {
    /// `extra` is what the first token takes longer: prefill, a cold start.
    pub(super) fn new(pace: Pace, start: Instant, extra: Nanos, seed: u64) -> Self {
        Timeline { pace, extra, at: start, begun: false, last_step: None, random: seed, drift: None }
    }

    /// The same of a server that becomes slower from `since` on.
    pub(super) fn drifting(self, drift: Option<Drift>, since: Instant) -> Self {
        Timeline { drift: drift.map(|drift| (drift, since)), ..self }
    }

    /// Moves the start of a timeline that has not begun.
    pub(super) fn start(&mut self, at: Instant) {
        debug_assert!(!self.begun, "a timeline starts once");
        self.at = at;
    }

    /// The next due time.
    pub(super) fn advance(&mut self) -> Instant {
        let Pace { ttft, itl, ttft_law, itl_law, .. } = self.pace;
        let interval = if std::mem::replace(&mut self.begun, true) {
            self.scaled(itl, itl_law)
        } else {
            self.scaled(ttft, ttft_law) + self.extra
        };
        let interval = self.drift.map_or(interval, |(drift, since)| {
            Nanos::from_ns((interval.ns() as f64 * drift.factor(self.at.saturating_since(since))).round() as u64)
        });
        self.at = self.at + interval;
        let Some(step) = self.pace.lockstep.filter(|step| step.ns() > 0) else { return self.at };
        let up = Instant::from_ns(self.at.ns().div_ceil(step.ns()).saturating_mul(step.ns()));
        let due = self.last_step.map_or(up, |last| up.max(last + step));
        self.last_step = Some(due);
        due
    }

    /// The due time of the `n`-th from here on; `n` from 1.
    pub(super) fn nth(&mut self, n: u32) -> Instant {
        let constant = self.pace.itl_law == Law::Constant && self.pace.jitter == 0.0;
        let plain = constant && self.pace.lockstep.is_none() && self.drift.is_none();
        let first = self.advance();
        if plain {
            self.at = self.at + Nanos::from_ns(self.pace.itl.ns().saturating_mul(u64::from(n - 1)));
            return self.at;
        }
        (1..n).fold(first, |_, _| self.advance())
    }

    fn scaled(&mut self, interval: Nanos, law: Law) -> Nanos {
        let mut factor = law.factor(&mut self.random);
        if self.pace.jitter != 0.0 {
            factor *= 1.0 + self.pace.jitter * (2.0 * unit(&mut self.random) - 1.0);
        } else if law == Law::Constant {
            return interval;
        }
        Nanos::from_ns((interval.ns() as f64 * factor).max(0.0) as u64)
    }
}

/// Uniform in [0, 1), 53 bits.
fn unit(random: &mut u64) -> f64 {
    (splitmix64(random) >> 11) as f64 / (1u64 << 53) as f64
}

/// The seed of one request: the same prompt gets the same timeline, in whatever order requests come.
pub(super) fn request_seed(seed: u64, nonce: &str) -> u64 {
    let mut mixed = seed ^ fnv(nonce.as_bytes()).rotate_left(32);
    splitmix64(&mut mixed)
}

/// FNV-1a, 64 bits.
pub(super) fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3))
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
    use proptest::prelude::*;

    const PACE: Pace = Pace {
        ttft: Nanos::from_micros(50),
        itl: Nanos::from_micros(10),
        ttft_law: Law::Constant,
        itl_law: Law::Constant,
        jitter: 0.0,
        lockstep: None,
    };

    fn dues_of(pace: Pace, extra: Nanos, n: usize, seed: u64) -> Vec<u64> {
        let mut line = Timeline::new(pace, Instant::from_ns(1_000), extra, seed);
        (0..n).map(|_| line.advance().ns()).collect()
    }

    fn dues(n: usize, jitter: f64, seed: u64) -> Vec<u64> {
        dues_of(Pace { jitter, ..PACE }, Nanos::ZERO, n, seed)
    }

    fn gaps(dues: &[u64]) -> Vec<f64> {
        dues.windows(2).map(|w| (w[1] - w[0]) as f64).collect()
    }

    #[test]
    fn without_jitter_dues_are_a_ruler() {
        assert_eq!(dues(4, 0.0, 7), [51_000, 61_000, 71_000, 81_000]);
        assert_eq!(dues_of(PACE, Nanos::from_ns(7), 2, 7), [51_007, 61_007]);
        let zero = Pace { ttft: Nanos::ZERO, itl: Nanos::ZERO, ..PACE };
        assert_eq!(dues_of(zero, Nanos::ZERO, 3, 7), [1_000; 3]);
    }

    #[test]
    fn a_drift_makes_each_interval_longer_by_when_it_begins() {
        let minute = 60_000_000_000;
        let of = |text: &str, start: u64| {
            let pace = Pace { ttft: Nanos::from_millis(100), itl: Nanos::from_millis(10), ..PACE };
            let line = Timeline::new(pace, Instant::from_ns(start), Nanos::from_millis(20), 7);
            let mut line = line.drifting(Some(text.parse().unwrap()), Instant::from_ns(minute));
            (0..3).map(|_| line.advance().ns()).collect::<Vec<_>>()
        };
        // 5 minutes after the start of a mock that becomes 1 % slower in 10: every interval is 0.5 % longer, and the later ones a
        // little more
        let dues = of("1%/10m", 6 * minute);
        assert_eq!(dues[0] - 6 * minute, 120_600_000);
        assert_eq!(dues[1] - dues[0], 10_050_020);
        assert_eq!(dues[2] - dues[1], 10_050_022);
        assert_eq!(of("1%/10m", minute)[0] - minute, 120_000_000, "nothing at its start");
        assert_eq!(of("1%/10m", 0)[0], 120_000_000, "nor before it");
        assert_eq!(of("-50%/1m", 6 * minute)[2], 6 * minute, "no interval is negative");
        let pace = Pace { itl: Nanos::from_millis(10), ..PACE };
        let line = || Timeline::new(pace, Instant::from_ns(minute), Nanos::ZERO, 7);
        let drifting = || line().drifting(Some("600%/1m".parse().unwrap()), Instant::from_ns(0));
        let mut by_step = drifting();
        let last = (0..40).map(|_| by_step.advance()).last();
        assert_eq!(Some(drifting().nth(40)), last, "no short cut past it");
    }

    #[test]
    fn drifts_as_people_write_them() {
        for (text, share, s) in [("1%/10m", 0.01, 600), ("-2.5%/1h", -0.025, 3600), (" 3 % / 90s ", 0.03, 90)] {
            assert_eq!(text.parse(), Ok(Drift { share, per: Nanos::from_secs(s) }), "{text}");
        }
        for bad in ["1%", "1/10m", "1%/0s", "1%/10", "2000%/1m", "x%/1m", "nan%/1m"] {
            assert!(bad.parse::<Drift>().is_err_and(|e| e.contains("like 1%/10m")), "{bad}");
        }
    }

    #[test]
    fn jitter_stays_in_its_bounds_and_averages_out() {
        let dues = dues(20_001, 0.5, 7);
        assert!(dues[0] >= 26_000 && dues[0] < 76_000);
        let gaps = gaps(&dues);
        assert!(gaps.iter().all(|g| (5_000.0..15_000.0).contains(g)));
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
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

    #[test]
    fn the_given_value_is_the_median_of_a_lognormal() {
        let pace = Pace { itl_law: Law::LogNormal { sigma: 0.5 }, ..PACE };
        let mut gaps = gaps(&dues_of(pace, Nanos::ZERO, 40_001, 3));
        gaps.sort_by(f64::total_cmp);
        let (median, upper) = (gaps[20_000], gaps[(0.841_344_7 * 40_000.0) as usize]);
        assert!((median / 10_000.0 - 1.0).abs() < 0.02, "{median}");
        assert!((upper / 10_000.0 / 0.5_f64.exp() - 1.0).abs() < 0.03, "one sigma up: {upper}");
    }

    #[test]
    fn the_given_value_is_the_mean_of_a_pareto() {
        for alpha in [0.1, 0.5, 1.0, 1.5, 2.5, 20.0] {
            let pareto = Pareto::new(alpha).unwrap();
            assert!((pareto.mean() - 1.0).abs() < 1e-6, "{alpha}: {}", pareto.mean());
            // the mean of the quantile function over a fine grid is the mean of the law
            let n = 2_000_000;
            let sum: f64 = (0..n).map(|k| pareto.at((f64::from(k) + 0.5) / f64::from(n))).sum();
            assert!((sum / f64::from(n) - 1.0).abs() < 0.01, "{alpha}: {}", sum / f64::from(n));
        }
        let steep = Pareto::new(2.5).unwrap();
        assert!((steep.least - 0.6).abs() < 1e-3, "(alpha - 1) / alpha, but for the cut: {}", steep.least);
    }

    #[test]
    fn laws_are_read_and_written() {
        for text in ["constant", "lognormal:0.4", "pareto:1.5"] {
            assert_eq!(text.parse::<Law>().unwrap().to_string(), text);
        }
        for text in ["", "normal:1", "constant:1", "lognormal", "lognormal:-1", "lognormal:x", "pareto:0", "pareto:nan"]
        {
            assert!(text.parse::<Law>().is_err(), "{text}");
        }
        assert!("pareto:0".parse::<Law>().unwrap_err().contains("0.1 to 100"));
    }

    #[test]
    fn in_lockstep_all_streams_meet_on_one_grid() {
        let pace = Pace { lockstep: Some(Nanos::from_micros(25)), ..PACE };
        // 51 us goes up to 75; then one event a step, although 10 us would allow more
        assert_eq!(dues_of(pace, Nanos::ZERO, 3, 7), [75_000, 100_000, 125_000]);
        let slow = Pace { itl: Nanos::from_micros(30), ..pace };
        // 51, 81, 111, 141, 171 go up to the grid
        assert_eq!(dues_of(slow, Nanos::ZERO, 5, 7), [75_000, 100_000, 125_000, 150_000, 175_000]);
        let on_grid = Pace { ttft: Nanos::from_micros(24), ..pace };
        assert_eq!(dues_of(on_grid, Nanos::ZERO, 1, 7), [25_000], "a time on the grid stays");
    }

    proptest! {
        #[test]
        fn any_timeline_goes_forward_and_is_bounded(
            ttft in 0u64..100_000, itl in 0u64..100_000, jitter in 0.0f64..=1.0, law in 0usize..4, step in 0u64..50_000,
            seed: u64,
        ) {
            let law = ["constant", "lognormal:2", "pareto:0.3", "pareto:3"][law].parse::<Law>().unwrap();
            let lockstep = (step > 0).then(|| Nanos::from_ns(step));
            let (ttft, itl) = (Nanos::from_ns(ttft), Nanos::from_ns(itl));
            let pace = Pace { ttft, itl, ttft_law: law, itl_law: law, jitter, lockstep };
            let dues = dues_of(pace, Nanos::ZERO, 40, seed);
            prop_assert!(dues[0] >= 1_000);
            for pair in dues.windows(2) {
                prop_assert!(pair[1] >= pair[0]);
                prop_assert!(step == 0 || (pair[0] % step == 0 && pair[1] > pair[0]));
                prop_assert!(pair[1] - pair[0] <= 2_000 * itl.ns() + 2 * step);
            }
            let mut line = Timeline::new(pace, Instant::from_ns(1_000), Nanos::ZERO, seed);
            prop_assert_eq!(line.nth(40).ns(), dues[39]);
        }
    }
}
