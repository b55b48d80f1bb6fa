//! L0: what reading the harness clock costs, how fine it is, and whether the cores agree on it.
//!
//! The clock is CLOCK_MONOTONIC as `bench_engine::clock` reads it (on most hosts from the vDSO, without entering
//! the kernel). The smallest step that can be seen is bounded by what a read costs; where the two are equal, the
//! clock may well be finer.

use crate::spread::quantile_us;
use bench_engine::clock::{Clock, SystemClock};
use bench_engine::cpu::{self, PinError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What was found out about the clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClockCost {
    /// What a reading costs, ns: [`Reads::mean_ns`].
    pub read_ns: Option<f64>,
    /// Name of the kernel's clock source, `tsc`, `kvm-clock`, `arch_sys_counter`; null when it cannot be read.
    pub clock_source: Option<String>,
    /// Back-to-back reads.
    pub reads: Reads,
    /// The first core against each other core; empty with a single core.
    pub agreement: Vec<Agreement>,
}

/// Back-to-back reads of the clock on one core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reads {
    /// Reads.
    pub n: u64,
    /// Time from first to last by their number, ns: what a read costs, disturbances included.
    pub mean_ns: Option<f64>,
    /// Median step from one read to the next, ns.
    pub p50_ns: Option<f64>,
    /// 99th percentile of it, ns.
    pub p99_ns: Option<f64>,
    /// Longest step, ns: the core was taken away.
    pub longest_ns: u64,
    /// Smallest step above 0, ns: an upper bound of the resolution.
    pub resolution_ns: Option<u64>,
    /// Steps of exactly 0: reads cheaper than the resolution.
    pub repeated: u64,
    /// Steps back. Above 0 the clock must not be used.
    pub backwards: u64,
}

/// How far the clocks of two cores can be apart: bounds of (other core - first core).
///
/// A stamp on the first core, one on the other in answer to it, one on the first in answer to that: the one between
/// lies between, so each exchange bounds the offset on either side, and all of them together by their intersection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Agreement {
    /// The first core.
    pub core: usize,
    /// The other.
    pub other: usize,
    /// Exchanges.
    pub exchanges: u64,
    /// The offset is at least this, ns.
    pub offset_lo_ns: i64,
    /// And at most this, ns; below `offset_lo_ns` when the offset did not stay the same.
    pub offset_hi_ns: i64,
    /// No offset within the bounds is larger than this, ns.
    pub bound_ns: u64,
    /// Answers stamped before their question, or after the answer to them: proof of disagreement.
    pub out_of_order: u64,
}

/// Stamps of one exchange, ns: question, answer on the other core, receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Exchange {
    asked: u64,
    answered: u64,
    received: u64,
}

impl Reads {
    /// From stamps in the order they were read, ns.
    fn of(stamps: &[u64]) -> Reads {
        let step = |w: &[u64]| (i128::from(w[1]) - i128::from(w[0])) as i64;
        let mut steps: Vec<i64> = stamps.windows(2).map(step).collect();
        steps.sort_unstable();
        let ns = |q| quantile_us(&steps, q).map(|us| us * 1e3);
        let whole = stamps.first().zip(stamps.last()).map(|(a, b)| b.saturating_sub(*a) as f64);
        Reads {
            n: stamps.len() as u64,
            mean_ns: whole.filter(|_| !steps.is_empty()).map(|whole| whole / steps.len() as f64),
            p50_ns: ns(0.5),
            p99_ns: ns(0.99),
            longest_ns: steps.last().map_or(0, |&s| s.max(0) as u64),
            resolution_ns: steps.iter().find(|&&s| s > 0).map(|&s| s as u64),
            repeated: steps.iter().filter(|&&s| s == 0).count() as u64,
            backwards: steps.iter().filter(|&&s| s < 0).count() as u64,
        }
    }
}

impl Agreement {
    /// None without an exchange.
    fn of(core: usize, other: usize, exchanges: &[Exchange]) -> Option<Agreement> {
        let apart = |a: u64, b: u64| (i128::from(a) - i128::from(b)) as i64;
        let lo = exchanges.iter().map(|e| apart(e.answered, e.received)).max()?;
        let hi = exchanges.iter().map(|e| apart(e.answered, e.asked)).min()?;
        let out_of_order = exchanges.iter().filter(|e| e.answered < e.asked || e.answered > e.received).count();
        Some(Agreement {
            core,
            other,
            exchanges: exchanges.len() as u64,
            offset_lo_ns: lo,
            offset_hi_ns: hi,
            bound_ns: lo.unsigned_abs().max(hi.unsigned_abs()),
            out_of_order: out_of_order as u64,
        })
    }
}

/// Measures with `reads` reads on the first of `cores` (on any, when there is none), and `exchanges` exchanges between
/// it and each other one. Takes about 30 ns a read and 200 ns an exchange on idle cores; cores that are taken away
/// make it last longer, not come out smaller.
///
/// # Errors
/// [`PinError`]: a core of `cores` is not to be had.
pub fn measure(reads: u32, exchanges: u32, cores: &[usize]) -> Result<ClockCost, PinError> {
    let first = cores.first().copied();
    let stamps = std::thread::scope(|s| {
        let reader = s.spawn(|| {
            first.map_or(Ok(()), cpu::pin)?;
            // written to once, so that no page is first touched between two reads
            let mut stamps = vec![u64::MAX; reads as usize];
            stamps.iter_mut().for_each(|stamp| *stamp = SystemClock.now().ns());
            Ok::<_, PinError>(stamps)
        });
        reader.join().expect("reading the clock does not panic")
    })?;
    let mut agreement = Vec::new();
    for &other in cores.iter().skip(1).filter(|&&core| Some(core) != first) {
        let core = cores[0];
        agreement.extend(Agreement::of(core, other, &exchange(core, other, exchanges)?));
    }
    let reads = Reads::of(&stamps);
    Ok(ClockCost { read_ns: reads.mean_ns, clock_source: clock_source(), reads, agreement })
}

fn clock_source() -> Option<String> {
    let name = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource").ok()?;
    Some(name.trim().to_owned())
}

/// What the two threads share: numbers of the last question and of the last answer, and the answer's stamp.
#[derive(Default)]
struct Line {
    asked: AtomicU64,
    answered: AtomicU64,
    stamp: AtomicU64,
}

fn exchange(core: usize, other: usize, exchanges: u32) -> Result<Vec<Exchange>, PinError> {
    let (line, both_here, failed) = (Line::default(), Barrier::new(2), AtomicBool::new(false));
    // both are pinned, or both go home: nobody waits for a partner that never comes
    let take_place = |core: usize| {
        let pinned = cpu::pin(core);
        failed.fetch_or(pinned.is_err(), Ordering::SeqCst);
        both_here.wait();
        pinned.map(|()| !failed.load(Ordering::SeqCst))
    };
    std::thread::scope(|s| {
        let answering = s.spawn(|| {
            if !take_place(other)? {
                return Ok(());
            }
            for number in 1..=u64::from(exchanges) {
                wait_for(&line.asked, number);
                line.stamp.store(SystemClock.now().ns(), Ordering::Relaxed);
                line.answered.store(number, Ordering::Release);
            }
            Ok::<_, PinError>(())
        });
        let asking = s.spawn(|| {
            let mut found = Vec::with_capacity(exchanges as usize);
            if !take_place(core)? {
                return Ok(found);
            }
            for number in 1..=u64::from(exchanges) {
                let asked = SystemClock.now().ns();
                line.asked.store(number, Ordering::Release);
                wait_for(&line.answered, number);
                let received = SystemClock.now().ns();
                found.push(Exchange { asked, answered: line.stamp.load(Ordering::Relaxed), received });
            }
            Ok::<_, PinError>(found)
        });
        answering.join().expect("answering does not panic")?;
        asking.join().expect("asking does not panic")
    })
}

/// Waits busily; now and then it lets others run, should the partner need this core's time.
fn wait_for(place: &AtomicU64, number: u64) {
    let mut turns = 0_u32;
    while place.load(Ordering::Acquire) != number {
        turns += 1;
        if turns.is_multiple_of(20_000) {
            std::thread::yield_now();
        }
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_known_reads() {
        let found = Reads::of(&[100, 130, 130, 125, 225]);
        assert_eq!((found.n, found.mean_ns, found.p50_ns, found.p99_ns), (5, Some(31.25), Some(15.0), None));
        assert_eq!((found.longest_ns, found.resolution_ns), (100, Some(30)));
        assert_eq!((found.repeated, found.backwards), (1, 1));
        assert_eq!(Reads::of(&[7]), Reads { n: 1, ..Reads::default() });
        assert_eq!(Reads::of(&[]), Reads::default());
    }

    #[test]
    fn offsets_are_bounded_from_both_sides() {
        // the other core is 40 ns ahead
        let exchanges = [(0, 160, 300), (1_000, 1_090, 1_120), (2_000, 2_050, 2_300)]
            .map(|(asked, answered, received)| Exchange { asked, answered, received });
        let found = Agreement::of(0, 1, &exchanges).unwrap();
        assert_eq!((found.offset_lo_ns, found.offset_hi_ns, found.bound_ns, found.out_of_order), (-30, 50, 50, 0));
        let behind = [Exchange { asked: 500, answered: 400, received: 600 }];
        let found = Agreement::of(0, 1, &behind).unwrap();
        assert_eq!((found.offset_lo_ns, found.offset_hi_ns, found.bound_ns, found.out_of_order), (-200, -100, 200, 1));
        assert_eq!(Agreement::of(0, 1, &[]), None);
    }

    #[test]
    fn this_hosts_clock_runs_forward_on_every_core() {
        let mut cores = cpu::allowed_cores().expect("readable");
        cores.truncate(2);
        let found = measure(10_000, 500, &cores).expect("allowed cores");
        assert_eq!((found.reads.n, found.reads.backwards), (10_000, 0));
        assert!(found.reads.resolution_ns.is_some());
        assert_eq!(found.agreement.len(), cores.len() - 1);
        for pair in &found.agreement {
            assert_eq!((pair.exchanges, pair.out_of_order), (500, 0), "{pair:?}");
            assert!(pair.offset_lo_ns <= 0 && 0 <= pair.offset_hi_ns, "{pair:?}");
        }
        let json = serde_json::to_string(&found).unwrap();
        assert_eq!(serde_json::from_str::<ClockCost>(&json).unwrap(), found);
    }

    #[test]
    fn a_core_that_is_not_there_is_refused() {
        let here = cpu::allowed_cores().expect("readable")[0];
        assert!(matches!(measure(10, 10, &[here, 1000]), Err(PinError::NotAllowed { core: 1000, .. })));
        assert!(matches!(measure(10, 10, &[1000]), Err(PinError::NotAllowed { core: 1000, .. })));
    }
}
