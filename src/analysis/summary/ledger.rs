//! How each worker followed what came: from the stamps of its token events.

use std::collections::BTreeMap;

use super::buckets::Buckets;
use super::packed::Packed;
use crate::analysis::definitions::{millis, rules};
use crate::analysis::percentiles::{EXACT, PUBLISHED, Percentile, percentile_ms};
use crate::rundir::row::Row;
use crate::rundir::run_json::Bursts;

/// Token events by worker, those that the kernel stamped.
#[derive(Default)]
pub(super) struct Ledger {
    workers: BTreeMap<u32, Events>,
}

/// Events in the order in which they were taken, packed.
#[derive(Default)]
struct Events {
    packed: Packed,
    last: Event,
    n: usize,
    /// Lowest and highest batch.
    batches: Option<[u64; 2]>,
}

#[derive(Clone, Copy, Default)]
struct Event {
    batch: u64,
    seen: u64,
    arrived: u64,
}

impl Events {
    fn push(&mut self, event: Event) {
        let apart = |from: u64, to: u64| to.wrapping_sub(from).cast_signed();
        self.packed.put(apart(self.last.batch, event.batch));
        self.packed.put(apart(self.last.seen, event.seen));
        self.packed.put(apart(event.arrived, event.seen));
        self.last = event;
        self.n += 1;
        let b = event.batch;
        self.batches = Some(self.batches.map_or([b; 2], |[low, high]| [low.min(b), high.max(b)]));
    }

    fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        let (mut reader, mut last) = (self.packed.reader(), Event::default());
        std::iter::from_fn(move || {
            let mut step = || reader.number().map(i64::cast_unsigned);
            let (batch, seen, late) = (step()?, step()?, step()?);
            (last.batch, last.seen) = (last.batch.wrapping_add(batch), last.seen.wrapping_add(seen));
            last.arrived = last.seen.wrapping_sub(late);
            Some(last)
        })
    }

    /// The bursts, in order of time, each handed on once it is over. Events are unpacked so many at a time that memory
    /// stays bounded: a range of batches in each pass.
    fn bursts(&self, mut take: impl FnMut(Burst)) {
        let Some([low, high]) = self.batches else { return };
        let passes = self.n.div_ceil(PASS) as u64;
        let step = ((high - low) / passes.max(1)).saturating_add(1);
        let (mut open, mut began) = (None, 0);
        for pass in 0..passes {
            let from = low.saturating_add(pass.saturating_mul(step));
            let range = from..=from.saturating_add(step - 1);
            let mut events: Vec<Event> = self.iter().filter(|e| range.contains(&e.batch)).collect();
            bursts(&mut events, &mut open, &mut began, &mut take);
        }
        open.into_iter().for_each(take);
    }
}

/// Values that are unpacked at a time.
const PASS: usize = 4_000_000;

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
            let mine = self.workers.entry(row.worker).or_default();
            events.for_each(|event| mine.push(event));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.workers.is_empty()
    }

    /// The worker's figures over a window; None when it had no event.
    pub(super) fn followed(&self, worker: u32, opened: u64, closed: u64) -> Option<Followed> {
        let events = self.workers.get(&worker)?;
        let parts = Parts::of_window(opened, closed);
        let delay = |e: Event| (parts.of(e.seen), ns_apart(e.arrived, e.seen));
        let read_delay_p99_ms = worst(events.n, || events.iter().map(delay), PUBLISHED[3])?;
        let mut drains = Packed::default();
        let (mut n, mut busiest, mut longest) = (0, 0, i64::MIN);
        events.bursts(|burst| {
            let drain = ns_apart(burst.arrived, burst.seen);
            drains.put_natural(parts.of(burst.seen));
            drains.put(drain);
            drains.put_natural(burst.events);
            (n, busiest, longest) = (n + 1, busiest.max(burst.events), longest.max(drain));
        });
        let of_events = || {
            let mut reader = drains.reader();
            let burst = move || Some((reader.natural()?, reader.number()?, reader.natural()?));
            std::iter::from_fn(burst).flat_map(|(part, ns, n)| std::iter::repeat_n((part, ns), n as usize))
        };
        let drain_p999_ms = worst(events.n, of_events, PUBLISHED[4])?;
        let bursts = Bursts { n, drain_p999_ms, drain_max_ms: millis(longest), busiest };
        Some(Followed { read_delay_p99_ms, bursts })
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
pub(super) fn worst_ms(values: &[(u64, i64)], p: Percentile) -> Option<f64> {
    worst(values.len(), || values.iter().copied(), p)
}

/// The same of `n` values that can be gone through again.
fn worst<I: Iterator<Item = (u64, i64)>>(n: usize, values: impl Fn() -> I, p: Percentile) -> Option<f64> {
    let whole = whole_ms(n, values().map(|(_, ns)| ns), Percentile { smallest_n: 1, ..p })?;
    let mut sizes: BTreeMap<u64, usize> = BTreeMap::new();
    values().for_each(|(part, _)| *sizes.entry(part).or_default() += 1);
    let (mut worst, mut sizes) = (whole, sizes.into_iter().peekable());
    while let Some((first, size)) = sizes.next() {
        let (mut last, mut room) = (first, PASS.saturating_sub(size));
        while let Some((part, size)) = sizes.next_if(|(_, size)| *size <= room) {
            (last, room) = (part, room - size);
        }
        let mut pass: Vec<(u64, i64)> = values().filter(|(part, _)| (first..=last).contains(part)).collect();
        pass.sort_unstable();
        for part in pass.chunk_by(|a, b| a.0 == b.0).filter(|part| part.len() >= p.smallest_n) {
            let ns: Vec<i64> = part.iter().map(|(_, ns)| *ns).collect();
            worst = percentile_ms(&ns, p).map_or(worst, |found| worst.max(found));
        }
    }
    Some(worst)
}

/// Of all values: exact, or from so many on by buckets.
fn whole_ms(n: usize, values: impl Iterator<Item = i64>, p: Percentile) -> Option<f64> {
    if n > EXACT {
        let mut buckets = Buckets::default();
        values.for_each(|ns| buckets.take(ns));
        return buckets.percentile_ms(p);
    }
    let mut all: Vec<i64> = values.collect();
    all.sort_unstable();
    percentile_ms(&all, p)
}

/// Sorted by batch. What had arrived when a burst's first batch was seen belongs to it, whichever batch brought it;
/// what came later only queues behind it, and begins the next: else a busy worker would have one burst for ever. `open` is
/// the burst that may go on, `began` when its first batch was seen.
fn bursts(events: &mut [Event], open: &mut Option<Burst>, began: &mut u64, take: &mut impl FnMut(Burst)) {
    events.sort_unstable_by_key(|e| e.batch);
    for batch in events.chunk_by(|a, b| a.batch == b.batch) {
        let (mut arrived, mut seen) = (u64::MAX, 0);
        for event in batch {
            (arrived, seen) = (arrived.min(event.arrived), seen.max(event.seen));
        }
        let events = batch.len() as u64;
        match open {
            Some(burst) if arrived < *began => {
                burst.arrived = burst.arrived.min(arrived);
                burst.seen = burst.seen.max(seen);
                burst.events += events;
            }
            _ => {
                *began = seen;
                open.replace(Burst { arrived, seen, events }).into_iter().for_each(&mut *take);
            }
        }
    }
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
        let mut all = Events::default();
        events.into_iter().for_each(|event| all.push(event));
        let mut found = Vec::new();
        all.bursts(|b| found.push((b.arrived, b.seen, b.events)));
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
        assert_eq!(worst_ms(&values, p95), Some(9.0));
        let few = Percentile { smallest_n: 101, ..p95 };
        assert_eq!(worst_ms(&values, few), Some(1.0));
        assert_eq!(worst_ms(&[], p95), None);
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
