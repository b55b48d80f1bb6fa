//! A window's schedule held against what was sent.

use std::num::NonZeroU64;

use serde_json::Value;

use bench_engine::schedule::ArrivalLaw;

use super::window_tally::verdict;
use crate::analysis::definitions::arrivals::{self, GapsOf, Spread};
use crate::analysis::definitions::{self, dispersion, per_second, rules, share, wording};
use crate::rundir::arrivals::{Arrivals, Dispersion, GapError, HeldBack, LawTests};
use crate::rundir::run_json::{Verdict, VerdictKind};
use crate::rundir::window::{LoadModel, WindowRow};

/// The laws that the plan names, and the part of their arrivals that this host sends.
#[derive(Clone, Debug, Default)]
pub(super) struct Laws {
    of_cell: Vec<Option<ArrivalLaw>>,
    /// One in so many.
    nth: u32,
}

impl Laws {
    pub(super) fn of_plan(plan: &Value) -> Laws {
        let law = |cell: &Value| serde_json::from_value(cell.get("law")?.clone()).ok();
        let cells = plan.get("cells").and_then(Value::as_array).into_iter().flatten();
        let of = plan.pointer("/shard/of").and_then(Value::as_u64).and_then(|of| u32::try_from(of).ok());
        Laws { of_cell: cells.map(law).collect(), nth: of.unwrap_or(1).max(1) }
    }

    fn of(&self, bounds: &WindowRow) -> Option<&ArrivalLaw> {
        self.of_cell.get(bounds.cell as usize)?.as_ref().filter(|_| bounds.load.model == LoadModel::Open)
    }
}

/// A request that was due, and when something was done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Sending {
    pub(super) trace_id: u64,
    pub(super) due: u64,
    pub(super) sent: bool,
    pub(super) submit: Option<u64>,
    pub(super) wire: Option<u64>,
}

/// A request in half the bytes. The order is that of [`Sending`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Small {
    trace_id: u32,
    sent: bool,
    due: u64,
    submit: Option<NonZeroU64>,
    wire: Option<NonZeroU64>,
}

impl Small {
    fn submit(&self) -> Option<u64> {
        self.submit.map(|t| t.get() - 1)
    }

    fn wire(&self) -> Option<u64> {
        self.wire.map(|t| t.get() - 1)
    }
}

/// Every request of a window that the load model began, in any order: later turns of sessions come when a reply is in, and
/// are no arrivals.
#[derive(Debug, Default)]
pub(super) struct Sendings {
    all: Vec<Small>,
    first_not_sent: Option<u64>,
}

/// What became of the requests under the cap: delays and lateness of those that were tried, in ns.
#[derive(Debug, Default)]
pub(super) struct Dispatches {
    pub(super) lateness: Vec<i64>,
    /// None without a cap.
    pub(super) delays: Option<Vec<i64>>,
    /// Requests of the schedule's window without a slot in it.
    pub(super) past_end: u64,
}

impl Sendings {
    pub(super) fn take(&mut self, sending: Sending) {
        if !sending.sent {
            self.first_not_sent = Some(self.first_not_sent.map_or(sending.due, |due| due.min(sending.due)));
        }
        let Sending { trace_id, due, sent, submit, wire } = sending;
        let some = |t: Option<u64>| t.and_then(|t| NonZeroU64::new(t.saturating_add(1)));
        let trace_id = u32::try_from(trace_id).unwrap_or(u32::MAX);
        self.all.push(Small { trace_id, sent, due, submit: some(submit), wire: some(wire) });
    }

    pub(super) fn submits(&self) -> impl Iterator<Item = u64> + '_ {
        self.all.iter().filter_map(Small::submit)
    }

    /// Bounds of the open-loop window: the opening, and the due of the first arrival not sent, else of the last.
    pub(super) fn span(&self, bounds: &WindowRow) -> Option<(u64, u64)> {
        let to = self.first_not_sent.or_else(|| self.all.iter().map(|s| s.due).max())?;
        (bounds.load.model != LoadModel::Closed && to > bounds.opened).then_some((bounds.opened, to))
    }

    /// Requests due in a span, and those submitted in it.
    fn within(&self, (from, to): (u64, u64)) -> (u64, u64) {
        let within = |t: u64| (from..to).contains(&t);
        let due = self.all.iter().filter(|s| within(s.due)).count();
        (due as u64, self.submits().filter(|t| within(*t)).count() as u64)
    }

    /// Offered and achieved requests/s.
    pub(super) fn rates(&self, bounds: &WindowRow) -> (Option<f64>, Option<f64>) {
        let Some(span) = self.span(bounds) else { return (None, None) };
        let (due, submitted) = self.within(span);
        let rate = |n: u64| per_second(n as f64, span.1 - span.0);
        (rate(due), rate(submitted))
    }

    /// `(due, wire_out)` of the requests that were stamped.
    fn on_wire(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.all.iter().filter_map(|s| Some((s.due, s.wire()?)))
    }

    /// A lag that all requests share moves the whole process and changes nothing about it: the median is taken off.
    fn lag(&self) -> Option<u64> {
        let mut lags: Vec<u64> = self.on_wire().map(|(due, wire)| wire.saturating_sub(due)).collect();
        lags.sort_unstable();
        lags.get(lags.len() / 2).copied()
    }

    /// Counts in bins of what was due and of what went out; without any stamps of what was due alone. None with fewer
    /// than two bins, or nothing in them.
    pub(super) fn dispersion(&self, bounds: &WindowRow, bin_ns: u64) -> Option<Dispersion> {
        let (opened, end) = self.span(bounds)?;
        let bins = (end - opened) / bin_ns;
        let index = |times: &mut dyn Iterator<Item = u64>| {
            let mut counts = vec![0_u64; bins as usize];
            for t in times {
                let bin = t.checked_sub(opened).map(|since| since / bin_ns);
                bin.and_then(|bin| counts.get_mut(bin as usize)).into_iter().for_each(|n| *n += 1);
            }
            dispersion(&counts)
        };
        let (planned, wire) = match self.lag() {
            Some(lag) => {
                let wire = index(&mut self.on_wire().map(|(_, wire)| wire.saturating_sub(lag)))?;
                (index(&mut self.on_wire().map(|(due, _)| due))?, Some(wire))
            }
            None => (index(&mut self.all.iter().filter(|s| s.sent).map(|s| s.due))?, None),
        };
        Some(Dispersion { bin_ms: bin_ns / 1_000_000, bins, planned, wire })
    }

    /// Figures of an open loop or a trace, whose rates are these.
    pub(super) fn figures(&mut self, bounds: &WindowRow, laws: &Laws, mut dispatches: Dispatches) -> Option<Arrivals> {
        if bounds.load.model == LoadModel::Closed {
            return None;
        }
        let (offered_rps, achieved_rps) = self.rates(bounds);
        let law = laws.of(bounds);
        let span = self.span(bounds);
        let length = span.map_or(0, |(from, to)| to - from);
        let share_of = |(offered, achieved): (f64, f64)| (offered > 0.0).then(|| achieved / offered);
        let long = self.dispersion(bounds, arrivals::LONG_BIN_NS).filter(|d| d.bins >= arrivals::LONG_BINS);
        let dispersion = self.dispersion(bounds, rules::ARRIVAL_BIN_NS).into_iter().chain(long).collect();
        let tests = law.and_then(|law| GapsOf::schedule(law, laws.nth)).map(|gaps| self.tests(bounds, &gaps));
        self.all.sort_unstable();
        let sent = self.all.iter().filter(|s| s.sent).count() as u64;
        Some(Arrivals {
            asked_rps: law.and_then(|law| arrivals::asked_rate(law, laws.nth, length)),
            planned: span.map_or(self.all.len() as u64, |span| self.within(span).0),
            offered_rps,
            achieved_rps,
            achieved_share: offered_rps.zip(achieved_rps).and_then(share_of),
            sent,
            not_sent: self.all.len() as u64 - sent,
            cap: bounds.load.concurrency,
            held_back: dispatches.held_back(),
            lateness_ms: Spread::ms(&mut dispatches.lateness),
            dispatch_delay_ms: dispatches.delays.as_mut().and_then(|delays| Spread::ms(delays)),
            dispersion,
            gap_error_us: GapError { wire: self.gap_error(Small::wire), submit: self.gap_error(Small::submit) },
            anderson_darling: tests,
        })
    }

    fn tests(&self, bounds: &WindowRow, gaps: &GapsOf) -> LawTests {
        let since_opening = |t: u64| t.saturating_sub(bounds.opened);
        let sorted = |times: &mut dyn Iterator<Item = u64>| {
            let mut times: Vec<u64> = times.map(since_opening).collect();
            times.sort_unstable();
            times
        };
        let schedule = gaps.test(&sorted(&mut self.all.iter().map(|s| s.due)), arrivals::SCHEDULE_GAPS);
        let sent = self.all.iter().filter(|s| s.sent).count() as u64;
        let stamped = self.on_wire().count() as u64;
        let lag = self.lag().filter(|_| share(sent - stamped, sent) <= Some(arrivals::UNSTAMPED));
        let Some(lag) = lag else { return LawTests { schedule, ..LawTests::default() } };
        let test = |times: &mut dyn Iterator<Item = u64>| gaps.test(&sorted(times), arrivals::WIRE_GAPS);
        LawTests {
            schedule,
            schedule_thinned: test(&mut self.on_wire().map(|(due, _)| due)),
            wire: test(&mut self.on_wire().map(|(_, wire)| wire.saturating_sub(lag))),
        }
    }

    /// Of neighbours in a trace that is sorted.
    fn gap_error(&self, moment: fn(&Small) -> Option<u64>) -> Option<Spread> {
        let of = |pair: &[Small]| {
            let (before, after) = (moment(&pair[0])?, moment(&pair[1])?);
            Some(arrivals::gap_error((pair[0].due, before), (pair[1].due, after)))
        };
        Spread::us(&mut self.all.windows(2).filter_map(of).collect::<Vec<i64>>())
    }

    /// What a gate says of a cap that kept planned requests back past the end of the schedule; empty where it did not,
    /// or kept back fewer than half of those that are missing.
    pub(super) fn cap_in_words(&self, bounds: &WindowRow, dispatches: &Dispatches) -> String {
        let missing = self.span(bounds).map_or(0, |span| {
            let (due, submitted) = self.within(span);
            due.saturating_sub(submitted)
        });
        let late = dispatches.past_end;
        match bounds.load.concurrency {
            Some(cap) if late > 0 && late.saturating_mul(2) >= missing => wording::kept_past_end(cap, late),
            _ => String::new(),
        }
    }
}

impl Dispatches {
    fn held_back(&self) -> Option<HeldBack> {
        let delays = self.delays.as_ref()?;
        let requests = delays.iter().filter(|ns| **ns > arrivals::HELD_BACK_NS).count() as u64;
        Some(HeldBack {
            requests,
            share: share(requests, delays.len() as u64),
            longest_ms: delays.iter().max().map(|ns| definitions::millis(*ns)),
            past_end: self.past_end,
        })
    }
}

/// What must be said of arrivals that are not those asked for.
pub(super) fn verdicts(found: &Arrivals) -> Vec<Verdict> {
    let flag = |figure, text| verdict("arrivals", "*", VerdictKind::Flag, figure, text);
    let held = found.held_back.zip(found.cap).filter(|(held, _)| held.share >= Some(arrivals::SHAPED));
    if let Some((held, cap)) = held {
        let text = wording::cap_shaped(cap, held.requests, found.sent, held.longest_ms.unwrap_or_default());
        return vec![flag(held.share, text)];
    }
    let passes = |test: Option<arrivals::LawTest>| test.is_some_and(|test| test.p >= arrivals::LAW_P);
    let Some(LawTests { schedule, schedule_thinned, wire: Some(wire) }) = found.anderson_darling else {
        return Vec::new();
    };
    match wire.p < arrivals::LAW_P && passes(schedule) && passes(schedule_thinned) {
        true => vec![flag(Some(wire.p), wording::another_law(&wire, schedule_thinned.map_or(1.0, |test| test.p)))],
        false => Vec::new(),
    }
}
