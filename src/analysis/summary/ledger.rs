//! How each worker followed what came: from the stamps of its token events.

use std::collections::BTreeMap;

use crate::analysis::definitions::{millis, rules};
use crate::analysis::percentiles::{PUBLISHED, Percentile, percentile_ms};
use crate::rundir::row::Row;
use crate::rundir::run_json::Bursts;

/// Token events by worker, those that the kernel stamped.
#[derive(Default)]
pub(super) struct Ledger {
    workers: BTreeMap<u32, Vec<Event>>,
}

#[derive(Clone, Copy)]
struct Event {
    batch: u64,
    seen: u64,
    arrived: u64,
}

/// What a worker's events say.
pub(super) struct Followed {
    pub(super) read_delay_p99_ms: f64,
    pub(super) bursts: Bursts,
}

/// Events of batches that continue each other.
struct Burst {
    arrived: u64,
    seen: u64,
    events: u64,
}

impl Ledger {
    pub(super) fn take(&mut self, row: &Row) {
        let events = row.chunks.iter().filter_map(|c| Some(Event { batch: c.6, seen: c.0, arrived: c.1? }));
        let mut events = events.peekable();
        if events.peek().is_some() {
            self.workers.entry(row.worker).or_default().extend(events);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.workers.is_empty()
    }

    /// The worker's figures over a window; None when it had no event.
    pub(super) fn followed(&mut self, worker: u32, opened: u64, closed: u64) -> Option<Followed> {
        let events = self.workers.get_mut(&worker)?;
        let parts = Parts::of_window(opened, closed);
        let mut delays: Vec<(u64, i64)> =
            events.iter().map(|e| (parts.of(e.seen), ns_apart(e.arrived, e.seen))).collect();
        let bursts = bursts(events);
        let drain = |b: &Burst| ns_apart(b.arrived, b.seen);
        let of_events = |b: &Burst| std::iter::repeat_n((parts.of(b.seen), drain(b)), b.events as usize);
        let mut drains: Vec<(u64, i64)> = bursts.iter().flat_map(of_events).collect();
        Some(Followed {
            read_delay_p99_ms: worst_ms(&mut delays, PUBLISHED[3])?,
            bursts: Bursts {
                n: bursts.len() as u64,
                drain_p999_ms: worst_ms(&mut drains, PUBLISHED[4])?,
                drain_max_ms: millis(bursts.iter().map(drain).max()?),
                busiest: bursts.iter().map(|b| b.events).max()?,
            },
        })
    }
}

/// Parts of a window; what is left over belongs to the last.
pub(super) struct Parts {
    pub(super) opened: u64,
    pub(super) last: u64,
}

impl Parts {
    pub(super) fn of_window(opened: u64, closed: u64) -> Parts {
        Parts { opened, last: (closed.saturating_sub(opened) / rules::PART_NS).max(1) - 1 }
    }

    pub(super) fn of(&self, t: u64) -> u64 {
        (t.saturating_sub(self.opened) / rules::PART_NS).min(self.last)
    }
}

/// The percentile in ms of `(part, ns)`: of the whole, however few, or of the worst part that has enough for it.
pub(super) fn worst_ms(values: &mut [(u64, i64)], p: Percentile) -> Option<f64> {
    let any = Percentile { smallest_n: 1, ..p };
    let mut all: Vec<i64> = values.iter().map(|(_, ns)| *ns).collect();
    all.sort_unstable();
    let whole = percentile_ms(&all, any)?;
    values.sort_unstable();
    let parts = values.chunk_by(|a, b| a.0 == b.0);
    let of_parts = parts.filter_map(|part| percentile_ms(&part.iter().map(|(_, ns)| *ns).collect::<Vec<_>>(), p));
    Some(of_parts.fold(whole, f64::max))
}

/// Sorted by batch. What had arrived when a burst's first batch was seen belongs to it, whichever batch brought it;
/// what came later only queues behind it, and begins the next: else a busy worker would have one burst for ever.
fn bursts(events: &mut [Event]) -> Vec<Burst> {
    events.sort_unstable_by_key(|e| e.batch);
    let mut bursts: Vec<Burst> = Vec::new();
    // when the first batch of the current burst was seen
    let mut began: Option<u64> = None;
    for batch in events.chunk_by(|a, b| a.batch == b.batch) {
        let (mut arrived, mut seen) = (u64::MAX, 0);
        for event in batch {
            (arrived, seen) = (arrived.min(event.arrived), seen.max(event.seen));
        }
        let events = batch.len() as u64;
        match (bursts.last_mut(), began) {
            (Some(burst), Some(began)) if arrived < began => {
                burst.arrived = burst.arrived.min(arrived);
                burst.seen = burst.seen.max(seen);
                burst.events += events;
            }
            _ => {
                began = Some(seen);
                bursts.push(Burst { arrived, seen, events });
            }
        }
    }
    bursts
}

fn ns_apart(from: u64, to: u64) -> i64 {
    i64::try_from(to).unwrap_or(i64::MAX).saturating_sub(i64::try_from(from).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(batch: u64, arrived: u64, seen: u64) -> Event {
        Event { batch, arrived, seen }
    }

    #[test]
    fn a_batch_that_was_there_already_continues_the_burst() {
        // five at once, handed over as 2 and 2 and 1; then one that came while they were handled
        let mut events = [
            event(7, 100, 120),
            event(7, 101, 120),
            event(9, 102, 150),
            event(9, 103, 150),
            event(10, 119, 170),
            event(12, 149, 190),
        ];
        events.reverse();
        let found: Vec<_> = bursts(&mut events).iter().map(|b| (b.arrived, b.seen, b.events)).collect();
        // 119 is before batch 7 was seen at 120; 149 is after it
        assert_eq!(found, [(100, 170, 5), (149, 190, 1)]);
    }

    #[test]
    fn the_worst_part_counts_when_it_has_enough_values() {
        let mut values: Vec<(u64, i64)> = (0..400).map(|i| (i / 100, 1_000_000)).collect();
        for (_, ns) in &mut values[200..210] {
            *ns = 9_000_000;
        }
        // 10 of 400 pass p95 of the whole but not that of the third part
        let p95 = PUBLISHED[2];
        assert_eq!(worst_ms(&mut values, p95), Some(9.0));
        let few = Percentile { smallest_n: 101, ..p95 };
        assert_eq!(worst_ms(&mut values, few), Some(1.0));
        assert_eq!(worst_ms(&mut [], p95), None);
    }

    #[test]
    fn a_rest_belongs_to_the_last_part() {
        let second = 1_000_000_000;
        let parts = Parts::of_window(second, 13 * second);
        let found = [0, 1, 5, 6, 10, 12, 13, 99].map(|t| parts.of(t * second));
        assert_eq!(found, [0, 0, 0, 1, 1, 1, 1, 1]);
        assert_eq!(Parts::of_window(0, 3 * second).of(2 * second), 0);
    }
}
