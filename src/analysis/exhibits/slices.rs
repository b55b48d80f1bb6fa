//! A window in equal parts of time, and what happened in each.

use super::{MOST_SLICES, Slice};
use crate::analysis::definitions::load::{self, TokenTrail};
use crate::analysis::definitions::{self, millis, per_second, seconds, sessions};
use crate::analysis::percentiles::{self, PUBLISHED, percentile_ms};
use crate::analysis::summary::packed::Values;
use crate::rundir::row::{Outcome, Phase, Row};
use crate::rundir::window::{LoadModel, WindowRow};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
/// Lengths that people can read off an axis, in ns, ascending.
const LENGTHS: [u64; 25] = [
    MS,
    2 * MS,
    5 * MS,
    10 * MS,
    20 * MS,
    50 * MS,
    100 * MS,
    200 * MS,
    500 * MS,
    S,
    2 * S,
    5 * S,
    10 * S,
    15 * S,
    30 * S,
    60 * S,
    120 * S,
    300 * S,
    600 * S,
    900 * S,
    1_800 * S,
    3_600 * S,
    7_200 * S,
    21_600 * S,
    86_400 * S,
];

/// How a window is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::analysis) struct Cut {
    opened: u64,
    /// At or after the opening.
    closed: u64,
    /// Of a slice, in ns, 1 or more.
    length: u64,
    slices: usize,
}

impl Cut {
    /// Slices of the shortest length of [`LENGTHS`] that makes at most [`MOST_SLICES`]; a window without a length has
    /// one, of no length.
    pub(in crate::analysis) fn of(bounds: &WindowRow) -> Cut {
        let (opened, closed) = (bounds.opened, bounds.closed.max(bounds.opened));
        let (whole, most) = (closed - opened, MOST_SLICES as u64);
        let readable = LENGTHS.into_iter().find(|length| whole.div_ceil(*length) <= most);
        let length = readable.unwrap_or(whole.div_ceil(most));
        Cut { opened, closed, length, slices: (whole.div_ceil(length) as usize).max(1) }
    }

    /// Slices of a given length, 1 ns or more; the last one may be shorter.
    pub(in crate::analysis) fn every(bounds: &WindowRow, length: u64) -> Cut {
        let (opened, closed) = (bounds.opened, bounds.closed.max(bounds.opened));
        Cut { opened, closed, length, slices: ((closed - opened).div_ceil(length) as usize).max(1) }
    }

    /// Of a slice, in s.
    pub(in crate::analysis) fn length_s(&self) -> f64 {
        seconds(self.length.min(self.closed - self.opened))
    }

    pub(in crate::analysis) fn slices(&self) -> usize {
        self.slices
    }

    /// The slice of a moment; what lies outside the window belongs to the slice next to it.
    pub(in crate::analysis) fn place(&self, t: u64) -> usize {
        ((t.saturating_sub(self.opened) / self.length) as usize).min(self.slices - 1)
    }

    /// A moment in s from the opening.
    pub(in crate::analysis) fn at_s(&self, t: u64) -> f64 {
        seconds(t.saturating_sub(self.opened))
    }

    /// Its bounds, the second one excluded.
    fn bounds(&self, place: usize) -> (u64, u64) {
        let from = self.opened + place as u64 * self.length;
        (from, from.saturating_add(self.length).min(self.closed))
    }
}

/// What is kept of the rows of a window on their way to slices.
pub(in crate::analysis) struct Course {
    cut: Cut,
    parts: Vec<Gathered>,
    /// First action, end and due of what was tried, and whether it was by a schedule and not by a reply.
    dispatched: Vec<(u64, u64, u64, bool)>,
    with_lateness: bool,
    /// One request or more told its tokens.
    told: bool,
}

/// What can be left out of slices where nobody asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::analysis) enum Part {
    /// The largest lateness, for which every dispatch must be known.
    Lateness,
}

#[derive(Default)]
struct Gathered {
    sent: u64,
    ok: u64,
    failed: u64,
    /// Time in flight of all requests, in ns.
    in_flight: u128,
    /// Of each request that told them: its tokens here.
    tokens: Vec<f64>,
    /// Token events came of a request that did not tell its tokens.
    untold: bool,
    ttft_gross: Values<i64>,
    ttft_net: Values<i64>,
    lateness: Option<i64>,
}

impl Course {
    pub(in crate::analysis) fn new(cut: Cut) -> Course {
        let parts = (0..cut.slices).map(|_| Gathered::default()).collect();
        Course { cut, parts, dispatched: Vec::new(), with_lateness: true, told: false }
    }

    /// The same without a part that takes memory.
    pub(in crate::analysis) fn without(self, part: Part) -> Course {
        match part {
            Part::Lateness => Course { with_lateness: false, ..self },
        }
    }

    /// Takes a row that was sent, or tried.
    pub(in crate::analysis) fn take(&mut self, row: &Row, closed: u64) {
        let span = load::in_flight(row, closed);
        if let Some((submit, end)) = span {
            self.at(submit).sent += 1;
            self.in_flight(submit, end);
            let scheduled = !sessions::needs_reply(row);
            let dispatched = definitions::first_action(row).filter(|_| self.with_lateness);
            self.dispatched.extend(dispatched.map(|action| (action, end, row.due, scheduled)));
        }
        // without a submit there is no end: then it failed after it was taken up
        let over = span.map(|(_, end)| end).or(row.taken).unwrap_or(row.due);
        match row.outcome {
            Outcome::Ok => self.at(over).ok += 1,
            Outcome::Failed => self.at(over).failed += 1,
            Outcome::Censored | Outcome::NotSent => {}
        }
        self.tokens(&TokenTrail::of(row));
        if let Some(submit) = row.submit.filter(|_| row.outcome == Outcome::Ok && row.phase == Phase::Measured) {
            let ttft = definitions::ttft(row);
            let part = self.at(submit);
            part.ttft_gross.extend(ttft.gross);
            part.ttft_net.extend(ttft.net.map(|net| net.at));
        }
    }

    fn at(&mut self, t: u64) -> &mut Gathered {
        let place = self.cut.place(t);
        &mut self.parts[place]
    }

    fn in_flight(&mut self, submit: u64, end: u64) {
        for place in self.cut.place(submit)..=self.cut.place(end) {
            let (from, to) = self.cut.bounds(place);
            self.parts[place].in_flight += u128::from(end.min(to).saturating_sub(submit.max(from)));
        }
    }

    fn tokens(&mut self, trail: &TokenTrail) {
        let ends = trail.moments().fold(None, |ends: Option<(u64, u64)>, t| match ends {
            Some((first, last)) => Some((first.min(t), last.max(t))),
            None => Some((t, t)),
        });
        let Some((first, last)) = ends else { return };
        let (first, last) = (self.cut.place(first), self.cut.place(last));
        for place in first..=last {
            // what lies outside the window belongs to its ends, here as elsewhere
            let (from, to) = self.cut.bounds(place);
            let from = if place == first { 0 } else { from };
            let to = if place == last { u64::MAX } else { to - 1 };
            match trail.between(from, to) {
                Some(tokens) => {
                    self.told = true;
                    self.parts[place].tokens.push(tokens);
                }
                None => self.parts[place].untold |= trail.moments().any(|t| (from..=to).contains(&t)),
            }
        }
    }

    /// The slices in order of time.
    pub(in crate::analysis) fn finish(mut self, bounds: &WindowRow) -> Vec<Slice> {
        self.lateness(bounds);
        let (cut, told) = (self.cut, self.told);
        let slice = |(place, part): (usize, Gathered)| {
            let (from, to) = cut.bounds(place);
            part.finish(cut.at_s(from), to - from, told)
        };
        self.parts.into_iter().enumerate().map(slice).collect()
    }

    /// As `run.json` has it: under a cap a request is late only from when its slot was free.
    fn lateness(&mut self, bounds: &WindowRow) {
        if bounds.load.model == LoadModel::Closed || !self.with_lateness {
            return;
        }
        self.dispatched.sort_unstable();
        let dispatched = std::mem::take(&mut self.dispatched);
        let ends = || dispatched.iter().map(|(_, end, ..)| *end);
        let free = bounds.load.concurrency.map(|cap| load::slots_free(cap as usize, ends()));
        for (k, (action, _, due, _)) in dispatched.iter().enumerate().filter(|(_, d)| d.3) {
            let late = definitions::lateness(*due, *action, free.as_ref().map(|free| free[k]));
            let largest = &mut self.at(*due).lateness;
            *largest = (*largest).max(Some(late));
        }
    }
}

impl Gathered {
    fn finish(mut self, from_s: f64, ns: u64, told: bool) -> Slice {
        let only_untold = self.untold && self.tokens.is_empty();
        let tokens = (told && !only_untold).then(|| percentiles::sum(&mut self.tokens));
        let [gross, net] = [self.ttft_gross, self.ttft_net].map(|values| {
            let mut values = values.to_vec();
            values.sort_unstable();
            let of = |published: usize| percentile_ms(&values, PUBLISHED[published]);
            (of(0), values.last().map(|ns| millis(*ns)), of(2))
        });
        Slice {
            from_s,
            sent: self.sent,
            ok: self.ok,
            failed: self.failed,
            in_flight: if ns > 0 { self.in_flight as f64 / ns as f64 } else { 0.0 },
            output_tokens_per_s: tokens.and_then(|tokens| per_second(tokens, ns)),
            ttft_gross_p50_ms: gross.0,
            ttft_gross_max_ms: gross.1,
            ttft_gross_p95_ms: gross.2,
            ttft_net_p50_ms: net.0,
            ttft_net_max_ms: net.1,
            ttft_net_p95_ms: net.2,
            lateness_max_ms: self.lateness.map(millis),
        }
    }
}
