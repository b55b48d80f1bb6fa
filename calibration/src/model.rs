//! What queueing theory says a worker's wait should be, fitted at low load and held against high load.
//!
//! A worker is one server. Events arrive at rate `lambda`, each keeps it busy for `S`, it is busy for the share
//! `rho = lambda E[S]`. With Poisson arrivals the mean wait until an event's own service begins is (Pollaczek and
//! Khinchine) `W = w0 + E[S] rho / (1 - rho) (1 + C2) / 2`: `w0` is what waking up costs, `C2` the squared
//! coefficient of variation of `S`. When events come in bursts of `X` at once (M^X/G/1), each also waits for those
//! before it in its own burst and for what that does to the queue: `(E[X^2] / E[X] - 1) E[S] / (2 (1 - rho))` more.
//! In lock-step, `B` events every period and an empty queue between, the wait is `(B - 1) / 2 E[S]` in the mean and
//! `(B - 1) E[S]` for the last one, however low `rho` is.
//!
//! **What wait means here.** One return from the kernel hands over up to about 20 completions, which share one
//! `seen`. `seen - arrived` thus ends when the batch is taken up, not when the event's own turn comes: the events
//! before it in its batch are missing. The wait of the formulas is `seen - arrived + place E[S]`, `place` being the
//! event's place in its batch from 0. Since a worker serves without pause and in order, that sum does not depend on
//! how arrivals are cut into batches. So a point states both means, and everything here compares the sum.
//!
//! **What is predicted from what.** The plain and the batch form use the rate alone: `rho = lambda E[S]` with the
//! fitted `E[S]`. `E[S]` falls as batches grow, since entering the kernel is shared; then they say too much, and
//! [`Predicted::from_busy_mean_wait_us`], which takes the busy share measured at that point, shows whether the form
//! holds all the same. `w0` is the floor at low load; a busy worker wakes up less often, so it is an upper bound
//! later. Everything is per worker.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// One step of load as one worker lived it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadPoint {
    /// Token events and others that the worker handled, per s.
    pub events_per_s: f64,
    /// Time handling batches that were not empty, and submitting, by wall time; 0 to 1.
    pub busy_share: f64,
    /// Mean of seen - arrived over events.
    pub mean_wait_us: f64,
    /// Mean over events of the place in their batch, from 0.
    pub mean_place: f64,
    /// How events came together, see [`Bursts::measure`]; 1 and 1 when each came alone.
    pub bursts: Bursts,
    /// Lock-step bursts, one period apart: no Poisson arrivals, so never fitted.
    pub lock_step: Option<LockStep>,
}

/// Bursts of one size, one period apart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LockStep {
    /// Events of one burst.
    pub burst: u32,
    /// From one event of a burst to the next: 0 when they come at one moment. A server needs time to write them.
    pub spacing_us: f64,
}

impl LockStep {
    /// From the arrivals of one worker (ns, sorted here): bursts are what lies less than half a period apart. The
    /// spacing is that of the median burst of two events or more. None when there is none.
    pub fn measure(arrivals: &mut [u64], burst: u32, period_us: f64) -> Option<LockStep> {
        arrivals.sort_unstable();
        let apart = |a: &u64, b: &u64| (b - a) as f64 / 1e3 <= period_us / 2.0;
        let spacing = |b: &[u64]| (b[b.len() - 1] - b[0]) as f64 / 1e3 / (b.len() - 1) as f64;
        let mut spacings: Vec<f64> = arrivals.chunk_by(apart).filter(|b| b.len() > 1).map(spacing).collect();
        spacings.sort_unstable_by(f64::total_cmp);
        let spacing_us = *spacings.get(spacings.len() / 2)?;
        Some(LockStep { burst, spacing_us })
    }

    /// Mean wait within a burst. A worker that serves as fast as events come keeps no queue.
    fn mean_wait_us(self, service_us: f64) -> f64 {
        lock_step_wait_in_services(self.burst).0 * (service_us - self.spacing_us).max(0.0)
    }
}

/// Moments of the number of events that arrive together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bursts {
    /// E\[X\].
    pub mean_size: f64,
    /// E\[X^2\].
    pub mean_square_size: f64,
}

impl Bursts {
    /// Each event alone.
    pub const SINGLE: Bursts = Bursts { mean_size: 1.0, mean_square_size: 1.0 };

    /// From the arrivals of one worker (ns, sorted here): a burst goes on while the next event comes within one
    /// service time. Independent bursts that come so close by chance are told apart by what a Poisson process of
    /// bursts leads to expect, so that single Poisson arrivals give 1 and 1 in the mean at any load below 1.
    /// None for fewer than two arrivals, or when all came at one moment.
    pub fn measure(arrivals: &mut [u64], service_us: f64) -> Option<Bursts> {
        arrivals.sort_unstable();
        let length_us = (arrivals.last()? - arrivals.first()?) as f64 / 1e3;
        if length_us <= 0.0 || service_us.is_nan() || service_us <= 0.0 {
            return None;
        }
        let (mut chains, mut squares, mut size) = (0.0, 0.0, 0.0_f64);
        let mut before = arrivals[0];
        for &at in arrivals.iter() {
            if (at - before) as f64 / 1e3 > service_us {
                chains += 1.0;
                squares += size * size;
                size = 0.0;
            }
            size += 1.0;
            before = at;
        }
        (chains, squares) = (chains + 1.0, squares + size * size);
        let events = arrivals.len() as f64;
        // chains of bursts: with a = burst rate x service time, a chain ends with probability exp(-a)
        let mean_chain = events / chains;
        let a = lower_root(chains / length_us * service_us);
        let mean_size = (mean_chain * (-a).exp()).max(1.0);
        // E[Y^2] / E[Y] of chains = E[X^2] / E[X] + 2 E[X] (exp(a) - 1)
        let seen_by_an_event = squares / events - 2.0 * mean_size * a.exp_m1();
        Some(Bursts { mean_size, mean_square_size: mean_size * seen_by_an_event.max(mean_size) })
    }

    /// Mean number of others in the burst of an event: E\[X^2\] / E\[X\] - 1.
    pub fn companions(&self) -> f64 {
        (self.mean_square_size / self.mean_size - 1.0).max(0.0)
    }
}

/// The root below 1 of `a exp(-a) = y`; 1 where there is none.
fn lower_root(y: f64) -> f64 {
    if y >= (-1.0_f64).exp() {
        return 1.0;
    }
    let (mut lo, mut hi) = (0.0, 1.0);
    for _ in 0..60 {
        let mid = f64::midpoint(lo, hi);
        if mid * f64::exp(-mid) < y { lo = mid } else { hi = mid }
    }
    f64::midpoint(lo, hi)
}

/// Mean wait in units of E\[S\] with single Poisson arrivals; None unless `0 <= rho < 1`.
pub fn mean_wait_in_services(rho: f64, c2: f64) -> Option<f64> {
    (0.0..1.0).contains(&rho).then(|| rho / (1.0 - rho) * (1.0 + c2) / 2.0)
}

/// What bursts add to the mean wait, in units of E\[S\]; None unless `0 <= rho < 1`.
pub fn burst_wait_in_services(rho: f64, bursts: Bursts) -> Option<f64> {
    (0.0..1.0).contains(&rho).then(|| bursts.companions() / (2.0 * (1.0 - rho)))
}

/// Mean and longest wait within one lock-step burst, in units of E\[S\].
pub fn lock_step_wait_in_services(burst: u32) -> (f64, f64) {
    let before_the_last = f64::from(burst.max(1) - 1);
    (before_the_last / 2.0, before_the_last)
}

/// The model as fitted, and what became of its predictions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fit {
    /// E\[S\]: least squares of busy share on rate, through 0.
    pub service_us: f64,
    /// C2 of the plain form; at least 0.
    pub c2: f64,
    /// w0 of the plain form; at least 0.
    pub floor_us: f64,
    /// C2 once the wait due to bursts is taken off.
    pub batch_c2: f64,
    /// w0 once the wait due to bursts is taken off.
    pub batch_floor_us: f64,
    /// Points it was fitted on: Poisson arrivals, up to half the highest rate.
    pub fitted_points: u32,
    /// Points left out, since a figure of theirs is no figure of a worker below full load.
    pub invalid_points: u32,
    /// The points it was not fitted on, in order of load.
    pub predicted: Vec<Predicted>,
    /// Share of the variance that the plain form explains, over the predicted points only; null with fewer than two,
    /// or when one of them has no prediction. Below 0: a constant would have been better.
    pub r2: Option<f64>,
    /// The same of the batch form.
    pub r2_batch: Option<f64>,
    /// The same of the batch form with the measured busy share.
    pub r2_from_busy: Option<f64>,
}

impl Fit {
    /// Whether any of the three forms explains more of the waits it was not fitted on than a constant would. One that
    /// has no share at all has shown nothing.
    pub fn predicts(&self) -> bool {
        [self.r2, self.r2_batch, self.r2_from_busy].into_iter().flatten().any(|r2| r2 >= 0.0)
    }
}

/// A point that was not fitted. All waits are until the event's own service begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Predicted {
    /// Events per s.
    pub events_per_s: f64,
    /// Busy share, as measured.
    pub busy_share: f64,
    /// Lock-step bursts.
    pub lock_step: Option<LockStep>,
    /// Plain form; null where it says that the worker is overloaded.
    pub predicted_mean_wait_us: Option<f64>,
    /// Batch form, or the lock-step form; null as above.
    pub batch_predicted_mean_wait_us: Option<f64>,
    /// Batch or lock-step form with the busy share and service time measured at this very point.
    pub from_busy_mean_wait_us: Option<f64>,
    /// seen - arrived + place x E\[S\].
    pub measured_mean_wait_us: f64,
    /// seen - arrived, which the record's tare contains.
    pub seen_minus_arrived_us: f64,
}

/// Why nothing could be fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoFit {
    /// A straight line needs two points.
    #[error(
        "{0} valid point(s) at or below half of the highest rate, two are needed: add steps of low load to the ladder"
    )]
    TooFewPoints(u32),
}

/// E\[S\] in us by least squares of busy share on rate, through 0; None without a valid point.
pub fn service_us(points: &[LoadPoint]) -> Option<f64> {
    let valid = points.iter().filter(|p| is_valid(p));
    let (xy, xx) = valid
        .fold((0.0, 0.0), |(xy, xx), p| (xy + p.events_per_s * p.busy_share, xx + p.events_per_s * p.events_per_s));
    (xx > 0.0).then(|| xy / xx * 1e6)
}

fn is_valid(p: &LoadPoint) -> bool {
    let finite = [p.events_per_s, p.mean_wait_us, p.mean_place, p.bursts.mean_size, p.bursts.mean_square_size];
    finite.iter().all(|v| v.is_finite())
        && p.events_per_s > 0.0
        && p.busy_share > 0.0
        && p.busy_share < 1.0
        && p.mean_place >= 0.0
        && p.bursts.mean_size >= 1.0
        && p.bursts.mean_square_size >= p.bursts.mean_size
}

/// Fits the model on the points up to half the highest rate, and predicts the others.
///
/// # Errors
/// [`NoFit`] says what is missing.
pub fn fit(points: &[LoadPoint]) -> Result<Fit, NoFit> {
    let mut valid: Vec<&LoadPoint> = points.iter().filter(|p| is_valid(p)).collect();
    valid.sort_by(|a, b| a.events_per_s.total_cmp(&b.events_per_s));
    let poisson = valid.iter().filter(|p| p.lock_step.is_none());
    let half = poisson.map(|p| p.events_per_s).fold(0.0, f64::max) / 2.0;
    let (low, high): (Vec<&LoadPoint>, Vec<&LoadPoint>) =
        valid.into_iter().partition(|p| p.lock_step.is_none() && p.events_per_s <= half);
    if low.len() < 2 {
        return Err(NoFit::TooFewPoints(low.len() as u32));
    }
    let service_us = low.iter().map(|p| p.events_per_s * p.busy_share).sum::<f64>()
        / low.iter().map(|p| p.events_per_s * p.events_per_s).sum::<f64>()
        * 1e6;
    let waits = |less: fn(&LoadPoint, f64) -> f64| {
        let waits = low.iter().map(|p| {
            let x = service_us * p.busy_share / (1.0 - p.busy_share);
            (x, until_served(p, service_us) - less(p, service_us))
        });
        Law::of(&waits.collect::<Vec<_>>())
    };
    let plain = waits(|_, _| 0.0);
    let batch = waits(|p, s| s * burst_wait_in_services(p.busy_share, p.bursts).unwrap_or(0.0));
    let predicted: Vec<Predicted> = high.iter().map(|p| predict(p, service_us, plain, batch)).collect();
    Ok(Fit {
        service_us,
        c2: plain.c2,
        floor_us: plain.floor_us,
        batch_c2: batch.c2,
        batch_floor_us: batch.floor_us,
        fitted_points: low.len() as u32,
        invalid_points: (points.len() - low.len() - high.len()) as u32,
        r2: explained(&predicted, |p| p.predicted_mean_wait_us),
        r2_batch: explained(&predicted, |p| p.batch_predicted_mean_wait_us),
        r2_from_busy: explained(&predicted, |p| p.from_busy_mean_wait_us),
        predicted,
    })
}

fn until_served(p: &LoadPoint, service_us: f64) -> f64 {
    p.mean_wait_us + p.mean_place * service_us
}

fn predict(p: &LoadPoint, service_us: f64, plain: Law, batch: Law) -> Predicted {
    let rho = p.events_per_s * service_us / 1e6;
    let with_bursts = |rho: f64, service_us: f64| match p.lock_step {
        Some(bursts) if rho < 1.0 => Some(batch.floor_us + bursts.mean_wait_us(service_us)),
        Some(_) => None,
        None => Some(batch.wait_us(rho, service_us)? + service_us * burst_wait_in_services(rho, p.bursts)?),
    };
    let own_service_us = p.busy_share / p.events_per_s * 1e6;
    Predicted {
        events_per_s: p.events_per_s,
        busy_share: p.busy_share,
        lock_step: p.lock_step,
        predicted_mean_wait_us: plain.wait_us(rho, service_us),
        batch_predicted_mean_wait_us: with_bursts(rho, service_us),
        from_busy_mean_wait_us: with_bursts(p.busy_share, own_service_us),
        measured_mean_wait_us: until_served(p, own_service_us),
        seen_minus_arrived_us: p.mean_wait_us,
    }
}

/// `W = floor + x (1 + c2) / 2`, `x = E[S] rho / (1 - rho)`.
#[derive(Clone, Copy, Debug)]
struct Law {
    floor_us: f64,
    c2: f64,
}

impl Law {
    /// Least squares over `(x, W)` with neither floor nor c2 below 0.
    fn of(points: &[(f64, f64)]) -> Law {
        // with y = W - x / 2 both unknowns are plain coefficients: y = floor + x (c2 / 2)
        let n = points.len() as f64;
        let points = points.iter().map(|&(x, w)| (x, w - x / 2.0));
        let (mut sx, mut sy, mut sxx, mut sxy) = (0.0, 0.0, 0.0, 0.0);
        for (x, y) in points {
            (sx, sy, sxx, sxy) = (sx + x, sy + y, sxx + x * x, sxy + x * y);
        }
        let spread = n * sxx - sx * sx;
        let slope = if spread > 0.0 { (n * sxy - sx * sy) / spread } else { 0.0 };
        let floor = (sy - slope * sx) / n;
        // two unknowns: where one would be negative, the best is on that edge
        let (floor, slope) = match (floor < 0.0, slope < 0.0) {
            (false, false) => (floor, slope),
            (_, true) => ((sy / n).max(0.0), 0.0),
            (true, false) => (0.0, (sxy / sxx).max(0.0)),
        };
        Law { floor_us: floor, c2: 2.0 * slope }
    }

    fn wait_us(self, rho: f64, service_us: f64) -> Option<f64> {
        Some(self.floor_us + service_us * mean_wait_in_services(rho, self.c2)?)
    }
}

fn explained(points: &[Predicted], of: impl Fn(&Predicted) -> Option<f64>) -> Option<f64> {
    if points.len() < 2 {
        return None;
    }
    let mean = points.iter().map(|p| p.measured_mean_wait_us).sum::<f64>() / points.len() as f64;
    let (mut unexplained, mut all) = (0.0, 0.0);
    for p in points {
        unexplained += (p.measured_mean_wait_us - of(p)?).powi(2);
        all += (p.measured_mean_wait_us - mean).powi(2);
    }
    (all > 0.0).then(|| 1.0 - unexplained / all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// SplitMix64: seeded, the same everywhere.
    struct Draws(u64);

    impl Draws {
        fn unit(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
        }
        fn exponential(&mut self, mean: f64) -> f64 {
            -mean * (1.0 - self.unit()).ln()
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Service {
        Fixed,
        Exponential,
        /// 8 in 10 take a quarter, 2 in 10 take four times the mean: C2 = 2.25.
        Two,
    }

    impl Service {
        const ALL: [(Service, f64); 3] = [(Service::Fixed, 0.0), (Service::Exponential, 1.0), (Service::Two, 2.25)];

        fn draw(self, mean: f64, draws: &mut Draws) -> f64 {
            match self {
                Service::Fixed => mean,
                Service::Exponential => draws.exponential(mean),
                Service::Two => mean * if draws.unit() < 0.8 { 0.25 } else { 4.0 },
            }
        }
    }

    const SERVICE_US: f64 = 8.0;
    const FLOOR_US: f64 = 5.0;
    /// Most completions that one return hands over.
    const BATCH: usize = 20;

    /// A worker that takes up to 20 events at each return; arrivals (us, ascending), to a load point.
    fn worked(arrivals: &[f64], service: Service, draws: &mut Draws) -> LoadPoint {
        let n = arrivals.len() as f64;
        let (mut free, mut busy, mut waits, mut places, mut next) = (0.0_f64, 0.0, 0.0, 0.0, 0);
        while next < arrivals.len() {
            let seen = free.max(arrivals[next]);
            free = seen;
            for place in 0..BATCH {
                if next == arrivals.len() || arrivals[next] > seen {
                    break;
                }
                let took = service.draw(SERVICE_US, draws);
                (free, busy) = (free + took, busy + took);
                // waking up delays what is seen, and keeps nothing waiting behind it
                waits += seen - arrivals[next] + FLOOR_US;
                places += place as f64;
                next += 1;
            }
        }
        let mut ns: Vec<u64> = arrivals.iter().map(|us| (us * 1e3) as u64).collect();
        LoadPoint {
            events_per_s: n / free * 1e6,
            busy_share: busy / free,
            mean_wait_us: waits / n,
            mean_place: places / n,
            bursts: Bursts::measure(&mut ns, SERVICE_US).expect("bursts"),
            lock_step: None,
        }
    }

    /// Bursts of 1 to `largest`, each as likely, at Poisson moments; `rho` of one worker.
    fn poisson(rho: f64, largest: u32, service: Service, seed: u64) -> LoadPoint {
        let mut draws = Draws(seed);
        let mean_size = f64::from(largest + 1) / 2.0;
        let between = SERVICE_US * mean_size / rho;
        let (mut at, mut arrivals) = (0.0, Vec::new());
        while arrivals.len() < 400_000 {
            at += draws.exponential(between);
            let size = (draws.unit() * f64::from(largest)) as u32 + 1;
            arrivals.extend((0..size).map(|_| at));
        }
        worked(&arrivals, service, &mut draws)
    }

    const LOADS: [f64; 8] = [0.05, 0.1, 0.2, 0.3, 0.38, 0.6, 0.7, 0.8];

    #[test]
    fn a_simulated_queue_gives_its_parameters_back() {
        for (service, c2) in Service::ALL {
            let points: Vec<LoadPoint> = LOADS.iter().map(|&rho| poisson(rho, 1, service, 7)).collect();
            let fit = fit(&points).unwrap();
            assert!((fit.service_us - SERVICE_US).abs() < 0.1, "{service:?}: {fit:?}");
            assert!((fit.c2 - c2).abs() < 0.2, "{service:?}: {fit:?}");
            assert!((fit.floor_us - FLOOR_US).abs() < 0.2, "{service:?}: {fit:?}");
            assert_eq!((fit.fitted_points, fit.predicted.len(), fit.invalid_points), (5, 3, 0));
            assert!(fit.r2.unwrap() > 0.95, "{service:?}: {fit:?}");
            // without bursts both forms say the same
            assert!(fit.r2_batch.unwrap() > 0.95, "{service:?}: {fit:?}");
            for p in &fit.predicted {
                let (said, was) = (p.predicted_mean_wait_us.unwrap(), p.measured_mean_wait_us);
                assert!((said / was - 1.0).abs() < 0.1, "{service:?}: {p:?}");
                assert!(p.seen_minus_arrived_us < was, "{p:?}");
            }
        }
    }

    #[test]
    fn bursts_need_the_batch_form() {
        // E[X] 20.5, E[X^2] 553.5: 26 others; bursts of one size at low load, of another above
        let low = [0.05, 0.1, 0.2, 0.3].map(|rho| poisson(rho, 1, Service::Exponential, 3));
        let high = [0.5, 0.6, 0.7].map(|rho| poisson(rho, 40, Service::Exponential, 3));
        for p in &high {
            assert!((p.bursts.mean_size / 20.5 - 1.0).abs() < 0.1, "{p:?}");
            assert!((p.bursts.companions() / 26.0 - 1.0).abs() < 0.1, "{p:?}");
        }
        let points: Vec<LoadPoint> = low.into_iter().chain(high).collect();
        let fit = fit(&points).unwrap();
        assert!(fit.r2.unwrap() < 0.0, "{fit:?}");
        assert!(fit.r2_batch.unwrap() > 0.9, "{fit:?}");
        for p in &fit.predicted {
            let (plain, batch) = (p.predicted_mean_wait_us.unwrap(), p.batch_predicted_mean_wait_us.unwrap());
            assert!((batch / p.measured_mean_wait_us - 1.0).abs() < 0.1, "{p:?}");
            assert!(plain < p.measured_mean_wait_us / 3.0, "{p:?}");
        }
    }

    #[test]
    fn bursts_in_the_fitted_half_do_not_pass_for_variance() {
        let points: Vec<LoadPoint> = LOADS.iter().map(|&rho| poisson(rho, 9, Service::Exponential, 11)).collect();
        let fit = fit(&points).unwrap();
        assert!((fit.batch_c2 - 1.0).abs() < 0.5, "{fit:?}");
        assert!((fit.batch_floor_us - FLOOR_US).abs() < 1.0, "{fit:?}");
        assert!(fit.r2_batch.unwrap() > 0.95, "{fit:?}");
        assert!(fit.floor_us > FLOOR_US * 2.0, "the plain form takes bursts for a floor: {fit:?}");
    }

    #[test]
    fn lock_step_waits_at_any_load() {
        let mut points: Vec<LoadPoint> =
            [0.05, 0.1, 0.2, 0.4, 0.5].iter().map(|&rho| poisson(rho, 1, Service::Fixed, 5)).collect();
        for burst in [64, 256] {
            let arrivals: Vec<f64> = (0..400).flat_map(|k| (0..burst).map(move |_| f64::from(k) * 20_000.0)).collect();
            let point = worked(&arrivals, Service::Fixed, &mut Draws(1));
            assert!(point.busy_share < 0.11, "{point:?}");
            points.push(LoadPoint { lock_step: Some(LockStep { burst, spacing_us: 0.0 }), ..point });
        }
        let fit = fit(&points).unwrap();
        let lock_step: Vec<&Predicted> = fit.predicted.iter().filter(|p| p.lock_step.is_some()).collect();
        assert_eq!(lock_step.len(), 2, "never fitted: {fit:?}");
        for p in lock_step {
            let batch = p.batch_predicted_mean_wait_us.unwrap();
            assert!((batch / p.measured_mean_wait_us - 1.0).abs() < 0.03, "{p:?}");
            assert!(p.predicted_mean_wait_us.unwrap() < p.measured_mean_wait_us / 10.0, "{p:?}");
        }
        assert!(fit.r2_batch.unwrap() > 0.99 && fit.r2.unwrap() < 0.0, "{fit:?}");
    }

    #[test]
    fn a_burst_that_takes_time_to_come_is_waited_for_less() {
        // three bursts of 4 at 10 us, 20 ms apart
        let mut ns: Vec<u64> = (0..12).map(|i| (i / 4) * 20_000_000 + (i % 4) * 10_000).rev().collect();
        let found = LockStep::measure(&mut ns, 4, 20_000.0).unwrap();
        assert_eq!(found, LockStep { burst: 4, spacing_us: 10.0 });
        // the k-th waits k (S - spacing)
        assert_eq!(found.mean_wait_us(14.0), (1.0 + 2.0 + 3.0) * 4.0 / 4.0);
        assert_eq!(found.mean_wait_us(9.0), 0.0);
        assert_eq!(LockStep::measure(&mut [1, 50_000_000], 1, 20_000.0), None);
    }

    #[test]
    fn the_table_of_mean_waits() {
        let loads = [0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95];
        let table = [
            (0.0, [0.06, 0.21, 0.50, 1.17, 2.0, 4.5, 9.5]),
            (1.0, [0.11, 0.43, 1.0, 2.33, 4.0, 9.0, 19.0]),
            (4.0, [0.28, 1.07, 2.5, 5.83, 10.0, 22.5, 47.5]),
        ];
        for (c2, waits) in table {
            for (rho, wait) in loads.into_iter().zip(waits) {
                let found = mean_wait_in_services(rho, c2).unwrap();
                assert!((found - wait).abs() <= 0.005 + 1e-9, "{rho} {c2}: {found}");
            }
        }
        assert_eq!((mean_wait_in_services(1.0, 1.0), mean_wait_in_services(f64::NAN, 1.0)), (None, None));
        // 256 at 20 us each: the last waits 5.1 ms
        assert_eq!(lock_step_wait_in_services(256).1 * 20.0, 5_100.0);
        assert_eq!(lock_step_wait_in_services(0), (0.0, 0.0));
    }

    #[test]
    fn poisson_arrivals_are_no_bursts() {
        for rho in [0.05, 0.3, 0.6, 0.8] {
            let found = poisson(rho, 1, Service::Fixed, 19).bursts;
            assert!((found.mean_size - 1.0).abs() < 0.02 && found.companions() < 0.1, "{rho}: {found:?}");
        }
        assert_eq!(Bursts::measure(&mut [5], 1.0), None);
        assert_eq!(Bursts::measure(&mut [5, 5], 1.0), None);
        assert_eq!(Bursts::measure(&mut [5, 9], f64::NAN), None);
    }

    fn point(events_per_s: f64, busy_share: f64, mean_wait_us: f64) -> LoadPoint {
        LoadPoint { events_per_s, busy_share, mean_wait_us, mean_place: 0.0, bursts: Bursts::SINGLE, lock_step: None }
    }

    #[test]
    fn little_data_make_no_claim() {
        assert_eq!(fit(&[]), Err(NoFit::TooFewPoints(0)));
        assert_eq!(fit(&[point(10.0, 0.1, 1.0), point(20.0, 0.2, 1.0)]), Err(NoFit::TooFewPoints(1)));
        let few = [point(10e3, 0.1, 6.0), point(20e3, 0.2, 7.0), point(50e3, 0.5, 9.0), point(f64::NAN, 0.5, 9.0)];
        let found = fit(&few).unwrap();
        assert_eq!((found.fitted_points, found.invalid_points, found.r2), (2, 1, None));
        // an overload that was predicted and did not come is a failure of the model, not a missing point
        let cheaper = [point(10e3, 0.2, 6.0), point(20e3, 0.4, 7.0), point(60e3, 0.6, 9.0), point(70e3, 0.6, 10.0)];
        let found = fit(&cheaper).unwrap();
        assert_eq!((found.predicted[0].predicted_mean_wait_us, found.r2), (None, None));
        let none = Fit { r2: None, r2_batch: Some(-0.1), r2_from_busy: Some(-3.0), ..found.clone() };
        assert!(!none.predicts() && Fit { r2_batch: Some(0.1), ..none.clone() }.predicts());
        assert!(found.predicted[0].from_busy_mean_wait_us.is_some() && found.r2_from_busy.is_some());
        let json = serde_json::to_string(&found).unwrap();
        assert_eq!(serde_json::from_str::<Fit>(&json).unwrap(), found);
    }

    proptest! {
        #[test]
        fn the_law_is_the_best_of_those_allowed(
            points in prop::collection::vec((0.01_f64..20.0, 0.0_f64..50.0), 2..8), floor in 0.0_f64..20.0, c2 in 0.0_f64..5.0,
        ) {
            let misses = |law: Law| points.iter().map(|(x, w)| (law.floor_us + x * (1.0 + law.c2) / 2.0 - w).powi(2)).sum::<f64>();
            let found = Law::of(&points);
            prop_assert!(found.floor_us >= 0.0 && found.c2 >= 0.0);
            prop_assert!(misses(found) <= misses(Law { floor_us: floor, c2 }) * (1.0 + 1e-9) + 1e-9, "{found:?}");
        }

        #[test]
        fn a_fit_never_panics(points in prop::collection::vec((any::<f64>(), any::<f64>(), any::<f64>(), any::<f64>()), 0..8)) {
            let points: Vec<LoadPoint> = points
                .into_iter()
                .map(|(a, b, c, d)| LoadPoint { mean_place: d, ..point(a, b, c) })
                .collect();
            let _ = fit(&points);
        }
    }
}
