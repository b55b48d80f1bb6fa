//! What the record reader has seen of the window that runs, in fixed memory. Filled on the control core from rows that
//! are written anyway: no worker does anything for it.

use crate::analysis::definitions;
use crate::analysis::definitions::load::in_flight;
use crate::analysis::percentiles::PUBLISHED;
use crate::rundir::row::{Outcome, Phase, Row};
use bench_engine::units::Nanos;
use hdrhistogram::Histogram;
use std::collections::{BTreeMap, VecDeque};

/// Shortest latency that is told apart, and longest, in ns: 1 us to 1 h.
const RANGE_NS: (u64, u64) = (1_000, 3_600_000_000_000);
/// Digits that a percentile has.
const DIGITS: u8 = 3;

/// Of the window that runs, so far.
#[derive(Debug)]
pub struct Seen {
    rows: u64,
    failed: BTreeMap<String, u64>,
    latency: Option<Histogram<u64>>,
    late: Option<Histogram<u64>>,
    slots: Slots,
    /// Time in flight of all that were sent, and their number.
    flown: (u64, u64),
    /// Tokens of requests that told their number, and their token events.
    told: (u64, u64),
    streamed: bool,
}

/// What one window asks of [`Seen`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched {
    /// Replies are streams: ttft is told, else e2e.
    pub streamed: bool,
    /// There is a schedule to be late for.
    pub scheduled: bool,
    /// Most requests at once under a schedule; None: no cap.
    pub cap: Option<u32>,
    /// Hosts that share the schedule.
    pub hosts: u32,
}

/// Percentiles so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantiles {
    /// Values.
    pub n: u64,
    /// Median.
    pub p50: Nanos,
    /// None: fewer values than a p99 needs.
    pub p99: Option<Nanos>,
}

/// [`Seen`] at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sight {
    /// Rows written.
    pub rows: u64,
    /// Failed ones among them, by class.
    pub failed: BTreeMap<String, u64>,
    /// ttft, or e2e where replies are no streams; gross, of ok requests that are not warm-up.
    pub latency: Option<Quantiles>,
    /// Lateness of the same requests.
    pub late: Option<Quantiles>,
    /// Mean time in flight.
    pub mean_flight: Option<Nanos>,
    /// Tokens of a token event, in the mean, where servers told.
    pub tokens_per_event: Option<f64>,
}

impl Seen {
    /// Nothing yet.
    pub fn of(watched: Watched) -> Seen {
        let histogram = || Histogram::new_with_bounds(RANGE_NS.0, RANGE_NS.1, DIGITS).ok();
        Seen {
            rows: 0,
            failed: BTreeMap::new(),
            latency: histogram(),
            late: if watched.scheduled { histogram() } else { None },
            slots: Slots { cap: watched.cap, hosts: watched.hosts.max(1), first: 0, ends: VecDeque::new() },
            flown: (0, 0),
            told: (0, 0),
            streamed: watched.streamed,
        }
    }

    /// Takes in a row, in the order in which rows are written.
    pub fn take(&mut self, row: &Row) {
        self.rows += 1;
        if row.outcome == Outcome::Failed {
            let class = row.error.as_ref().map_or("", |error| error.class.as_str());
            *self.failed.entry(class.to_owned()).or_default() += 1;
        }
        if let (Some(tokens), events @ 1..) = (row.completion_tokens, u64::from(row.token_events)) {
            self.told = (self.told.0.saturating_add(tokens), self.told.1 + events);
        }
        let flight = in_flight(row, row.submit.unwrap_or(0));
        if let Some((from, to)) = flight {
            self.flown = (self.flown.0.saturating_add(to - from), self.flown.1 + 1);
        }
        let counts = row.outcome == Outcome::Ok && row.phase == Phase::Measured;
        // a turn that follows a reply has no schedule to be late for
        let follows = row.session.as_ref().is_some_and(|turn| turn.after.is_some());
        if let (Some(late), Some(action), Some((_, end)), false) =
            (&mut self.late, definitions::first_action(row), flight, follows)
        {
            let free = self.slots.take(row.trace_id, end);
            if counts {
                put(late, definitions::lateness(row.due, action, free));
            }
        }
        let gross = if self.streamed { definitions::ttft(row).gross } else { definitions::e2e(row).gross };
        if let (Some(latency), Some(gross), true) = (&mut self.latency, gross, counts) {
            put(latency, gross);
        }
    }

    /// What there is to tell now.
    pub fn sight(&self) -> Sight {
        let (tokens, events) = self.told;
        Sight {
            rows: self.rows,
            failed: self.failed.clone(),
            latency: self.latency.as_ref().and_then(quantiles),
            late: self.late.as_ref().and_then(quantiles),
            mean_flight: self.flown.0.checked_div(self.flown.1).map(Nanos::from_ns),
            tokens_per_event: (events > 0).then(|| tokens as f64 / events as f64),
        }
    }
}

/// A value of no time, or less, is the shortest there is.
fn put(histogram: &mut Histogram<u64>, ns: i64) {
    histogram.saturating_record(u64::try_from(ns).unwrap_or(0));
}

fn quantiles(histogram: &Histogram<u64>) -> Option<Quantiles> {
    let n = histogram.len();
    let at = |name: &str| {
        let p = PUBLISHED.iter().find(|p| p.name == name && n >= p.smallest_n as u64)?;
        Some(Nanos::from_ns(histogram.value_at_quantile(f64::from(p.per_mille) / 1e3)))
    };
    Some(Quantiles { n, p50: at("p50")?, p99: at("p99") })
}

/// When slots became free under a cap: [`slots_free`](definitions::load::slots_free), told row by row. Rows are written
/// nearly in the order of their ends, and at most so many after the last one that matters as there are slots, so the
/// last ends are enough.
#[derive(Debug)]
struct Slots {
    cap: Option<u32>,
    hosts: u32,
    /// Ends that were before those kept.
    first: u64,
    /// The last ones, in order.
    ends: VecDeque<u64>,
}

impl Slots {
    /// Takes in the end of a request, and tells when it found a slot free; 0 for one that was never used, None without a
    /// cap.
    fn take(&mut self, trace_id: u64, end: u64) -> Option<u64> {
        let cap = u64::from(self.cap?);
        let place = self.ends.partition_point(|e| *e <= end);
        self.ends.insert(place, end);
        if self.ends.len() as u64 > 2 * cap + 64 {
            self.ends.pop_front();
            self.first += 1;
        }
        let Some(freed) = (trace_id / u64::from(self.hosts)).checked_sub(cap) else { return Some(0) };
        let kept = freed.checked_sub(self.first).map_or(self.ends.front(), |at| self.ends.get(at as usize));
        kept.copied().or(Some(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::definitions::load::slots_free;
    use crate::analysis::specimen::{failed, request};
    use crate::rundir::row::Turn;

    const OPEN: Watched = Watched { streamed: true, scheduled: true, cap: None, hosts: 1 };

    #[test]
    fn rows_become_counts_and_percentiles() {
        let mut seen = Seen::of(OPEN);
        assert_eq!(seen.sight(), Sight::default(), "nothing is nothing, not zero");
        let one = request(7, 1_000);
        let gross = definitions::ttft(&one).gross.expect("a ttft") as u64;
        for _ in 0..99 {
            seen.take(&one);
        }
        let close = |at: Nanos| at.ns().abs_diff(gross) <= gross / 1_000;
        let sight = seen.sight();
        let latency = sight.latency.expect("values");
        assert!(latency.n == 99 && close(latency.p50) && latency.p99.is_none(), "{latency:?}: {gross}");
        seen.take(&one);
        assert!(seen.sight().latency.and_then(|l| l.p99).is_some_and(close), "a hundred have a p99");
        assert!(sight.late.is_some() && sight.mean_flight.is_some());
        let turn = Turn {
            id: 0,
            turn: 1,
            turns: 2,
            user: None,
            after: Some(5),
            pause: 0,
            message_tokens: 1,
            reply_sha256: None,
            left_out: Vec::new(),
        };
        let mut turns = Seen::of(OPEN);
        for after in [None, Some(5)] {
            turns.take(&Row { session: Some(Turn { after, ..turn.clone() }), ..one.clone() });
        }
        let sight = turns.sight();
        assert_eq!(
            (sight.latency.map(|l| l.n), sight.late.map(|l| l.n)),
            (Some(2), Some(1)),
            "a later turn is not late"
        );
        seen.take(&Row { phase: Phase::Warmup, ..one.clone() });
        seen.take(&failed(one.clone(), "timeout"));
        let sight = seen.sight();
        assert_eq!((sight.rows, sight.latency.map(|l| l.n)), (102, Some(100)), "warm-up and failures are no latency");
        assert_eq!(sight.failed, BTreeMap::from([("timeout".to_owned(), 1)]));
        let whole = Watched { streamed: false, scheduled: false, ..OPEN };
        let mut seen = Seen::of(whole);
        seen.take(&one);
        let e2e = definitions::e2e(&one).gross.expect("an e2e") as u64;
        assert!(seen.sight().latency.is_some_and(|l| l.p50.ns().abs_diff(e2e) <= e2e / 1_000));
        assert_eq!(seen.sight().late, None, "nothing to be late for");
    }

    #[test]
    fn a_slot_that_was_not_free_is_no_lateness() {
        // 2 slots; ends as they come in, a little out of order
        let ends: Vec<u64> = (0..400).map(|k: u64| k * 10 + if k.is_multiple_of(3) { 15 } else { 0 }).collect();
        let mut slots = Slots { cap: Some(2), hosts: 1, first: 0, ends: VecDeque::new() };
        let told: Vec<u64> = (0..).zip(&ends).map(|(k, end)| slots.take(k, *end).expect("a cap")).collect();
        assert_eq!(told, slots_free(2, ends.iter().copied()));
        assert!(slots.ends.len() <= 68, "memory is fixed");
        let mut uncapped = Slots { cap: None, hosts: 1, first: 0, ends: VecDeque::new() };
        assert_eq!(uncapped.take(7, 3), None);
    }
}
