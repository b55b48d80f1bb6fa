//! What was done on purpose in a window, and what it did to the load.

use std::collections::BTreeMap;

use super::window_tally::Trails;
use crate::analysis::definitions::failure::{
    Around, Figure, Followed, NotFollowed, Recovery, Request, Usual, Wanted, follow, touched_until,
};
use crate::analysis::definitions::seconds;
use crate::analysis::percentiles::{self, PUBLISHED};
use crate::rundir::mark::MarkRow;
use crate::rundir::row::{Outcome, Phase, Row};
use crate::rundir::run_json::{Effect, Failure, MarkEffect, Recovered, Touched};
use crate::rundir::window::{LoadModel, WindowRow};

/// A window with marks: its requests one by one.
pub(super) struct Disturbed {
    marks: Vec<MarkRow>,
    opened: u64,
    closed: u64,
    open_loop: bool,
    requests: Vec<Kept>,
    first_due: Option<u64>,
}

struct Kept {
    request: Request,
    class: Option<String>,
    token_events: u64,
    tokens: Option<u64>,
}

/// What was found out of the window beside its marks.
pub(super) struct Seen<'a> {
    /// Bounds of the throughput, ns.
    pub(super) span: Option<(u64, u64)>,
    pub(super) ended_ok: &'a [u64],
    /// Ends of the requests that met their goals; None without such goals.
    pub(super) good: Option<&'a [u64]>,
    pub(super) trails: &'a Trails,
    /// Gross is withheld.
    pub(super) no_gross: bool,
}

impl Disturbed {
    /// None: nothing was done in this window.
    pub(super) fn by(marks: &[MarkRow], bounds: &WindowRow) -> Option<Disturbed> {
        let of_window = |mark: &&MarkRow| (mark.cell, mark.window) == (bounds.cell, bounds.window);
        let mut marks: Vec<MarkRow> = marks.iter().filter(of_window).cloned().collect();
        marks.sort_by_key(|mark| mark.mark);
        (!marks.is_empty()).then(|| Disturbed {
            marks,
            opened: bounds.opened,
            closed: bounds.closed,
            open_loop: bounds.load.model != LoadModel::Closed,
            requests: Vec::new(),
            first_due: None,
        })
    }

    pub(super) fn take(&mut self, row: &Row) {
        if row.phase == Phase::Measured && row.outcome != Outcome::NotSent {
            self.first_due = Some(self.first_due.map_or(row.due, |first| first.min(row.due)));
        }
        self.requests.extend(Request::of(row, self.closed, self.open_loop).map(|request| Kept {
            request,
            class: row.error.as_ref().map(|e| e.class.clone()),
            token_events: row.chunks.len() as u64,
            tokens: row.chunks.iter().try_fold(0, |sum: u64, c| Some(sum.saturating_add(c.3?))),
        }));
    }

    /// ttft of the ok requests with their dues, in order.
    fn by_due(&self) -> Vec<(u64, i64)> {
        let of = |kept: &Kept| Some((kept.request.due, kept.request.ttft?));
        let mut all: Vec<(u64, i64)> =
            self.requests.iter().filter(|k| k.request.outcome == Outcome::Ok).filter_map(of).collect();
        all.sort_unstable();
        all
    }
}

/// `failure` of the window, and how its recovery stands to a goal.
pub(super) fn of(disturbed: Option<&Disturbed>, seen: &Seen<'_>) -> (Option<Failure>, Recovery) {
    let Some(window) = disturbed else { return (None, Recovery::Unknown) };
    let since_opening = |t: u64| seconds(t.saturating_sub(window.opened));
    let mut starts: Vec<u64> = window.marks.iter().filter_map(|mark| mark.started).collect();
    starts.sort_unstable();
    let from = window.first_due.unwrap_or(window.opened).max(seen.span.map_or(0, |(from, _)| from));
    let (mut marks, mut recovery) = (Vec::new(), Recovery::Unknown);
    for mark in &window.marks {
        let around = mark.started.map(|started| Around {
            from,
            first_mark: starts[0],
            mark: started,
            next: starts.iter().copied().find(|t| *t > started),
            until: seen.span.map_or(started, |(_, until)| until),
        });
        let (effect, of_mark) = of_mark(window, seen, mark, around);
        marks.push(effect);
        recovery = recovery.and(of_mark);
    }
    let failure = Failure {
        baseline_s: starts.first().map(|first| [since_opening(from), since_opening(*first)]),
        load_until_s: seen.span.map(|(_, until)| since_opening(until)),
        closed_loop: !window.open_loop,
        marks,
    };
    (Some(failure), recovery)
}

fn of_mark(window: &Disturbed, seen: &Seen<'_>, mark: &MarkRow, around: Option<Around>) -> (MarkEffect, Recovery) {
    let since_opening = |t: u64| seconds(t.saturating_sub(window.opened));
    let seen_s = around.map(|around| seconds(around.until.saturating_sub(around.mark)));
    let mut effect = MarkEffect {
        mark: mark.mark,
        text: mark.text.clone(),
        started_s: mark.started.map(since_opening),
        ended_s: mark.ended.map(since_opening),
        outcome: mark.outcome,
        end: mark.end_words(),
        seen_s,
        effects: Vec::new(),
        recovery: None,
        degraded: None,
        requests: None,
    };
    let Some(around) = around else { return (effect, Recovery::Unknown) };
    let mut followed = Vec::new();
    for figure in Figure::ALL {
        let found = figure_of(figure, window, seen, &around);
        effect.effects.push(print(figure, found));
        followed.extend(found.ok());
    }
    let left: Vec<&Followed> = followed.iter().filter(|f| f.course.longest.is_some()).collect();
    effect.degraded = (!followed.is_empty()).then_some(!left.is_empty());
    let backs: Option<Vec<(u64, [u64; 2])>> = left.iter().map(|f| f.back()).collect();
    effect.recovery = backs.as_ref().and_then(|backs| {
        let latest = |of: fn(&(u64, [u64; 2])) -> u64| backs.iter().map(of).max();
        Some(recovered((latest(|b| b.0)?, [latest(|b| b.1[0])?, latest(|b| b.1[1])?])))
    });
    let until = touched_until(&followed, &around, mark.ended, window.closed);
    effect.requests = Some(touched(window, seen, &around, until));
    let recovery = match (effect.degraded, effect.recovery) {
        (None, _) => Recovery::Unknown,
        (Some(false), _) => Recovery::NotNeeded,
        (Some(true), Some(back)) => Recovery::Back { at_s: back.at_s, within_s: back.within_s },
        (Some(true), None) => Recovery::NotSeen { waited_s: seen_s.unwrap_or(0.0) },
    };
    (effect, recovery)
}

fn figure_of(figure: Figure, window: &Disturbed, seen: &Seen<'_>, around: &Around) -> Result<Followed, NotFollowed> {
    let known = seen.trails.iter().any(|trail| trail.between(0, 0).is_some());
    let why_not = match figure {
        Figure::Goodput if seen.good.is_none() => Some(NotFollowed::NoGoals),
        Figure::Goodput | Figure::TtftP95 if seen.no_gross => Some(NotFollowed::Withheld),
        Figure::OutputTokens if !known => Some(NotFollowed::NotTold),
        Figure::TtftP95 if !window.open_loop => Some(NotFollowed::ClosedLoop),
        _ => None,
    };
    if let Some(why_not) = why_not {
        return Err(why_not);
    }
    let by_due = if figure == Figure::TtftP95 { window.by_due() } else { Vec::new() };
    let dues: Vec<u64> = by_due.iter().map(|(due, _)| *due).collect();
    let values = |wanted: &Wanted| match figure {
        Figure::Goodput => counts(seen.good.unwrap_or_default(), wanted),
        Figure::Requests => counts(seen.ended_ok, wanted),
        Figure::OutputTokens => tokens(seen.trails, wanted),
        Figure::TtftP95 => p95(&by_due, wanted),
    };
    follow(figure, around, &dues, values).ok_or(NotFollowed::NoBaseline)
}

/// Per s, slice by slice.
fn counts(ends: &[u64], wanted: &Wanted) -> Vec<Option<f64>> {
    let mut counts = vec![0_u64; wanted.n];
    for end in ends {
        if let Some(count) = index(wanted, wanted.place(*end)).and_then(|i| counts.get_mut(i)) {
            *count += 1;
        }
    }
    counts.into_iter().map(|n| Some(n as f64 / seconds(wanted.slices.step))).collect()
}

/// The same of output tokens.
fn tokens(trails: &Trails, wanted: &Wanted) -> Vec<Option<f64>> {
    let mut slices: Vec<Vec<f64>> = vec![Vec::new(); wanted.n];
    for (place, n) in trails.iter().filter_map(|trail| trail.by_part(|at| wanted.place(at))).flatten() {
        if let Some(slice) = index(wanted, place).and_then(|i| slices.get_mut(i)) {
            slice.push(n);
        }
    }
    slices.into_iter().map(|mut parts| Some(percentiles::sum(&mut parts) / seconds(wanted.slices.step))).collect()
}

fn index(wanted: &Wanted, place: i64) -> Option<usize> {
    usize::try_from(place.checked_sub(wanted.first)?).ok()
}

/// In ms, of requests in order of due.
fn p95(by_due: &[(u64, i64)], wanted: &Wanted) -> Vec<Option<f64>> {
    let of = |i| {
        let (from, to) = wanted.bounds(i);
        let at = |t: u64| by_due.partition_point(|(due, _)| *due < t);
        let mut values: Vec<i64> = by_due[at(from)..at(to).max(at(from))].iter().map(|(_, ns)| *ns).collect();
        values.sort_unstable();
        percentiles::percentile_ms(&values, PUBLISHED[2])
    };
    (0..wanted.n).map(of).collect()
}

fn recovered((at, [lo, hi]): (u64, [u64; 2])) -> Recovered {
    Recovered { at_s: seconds(at), within_s: [seconds(lo), seconds(hi)] }
}

fn print(figure: Figure, found: Result<Followed, NotFollowed>) -> Effect {
    let f = found.as_ref().ok();
    let longest = f.and_then(|f| f.course.longest);
    Effect {
        figure,
        not_followed: found.as_ref().err().copied(),
        slice_s: f.map(|f| seconds(f.step)),
        slices_per_value: f.map(|f| f.width as u64),
        n_before: f.map(|f| f.before as u64),
        before: f.map(|f| f.band.mean),
        before_sd: f.map(|f| f.band.sd),
        limit: f.map(|f| f.band.limit),
        hold_s: f.map(|f| seconds(f.hold())),
        excursions: f.map(|f| f.course.excursions),
        degraded_s: f.and_then(Followed::left).map(|ends| ends.map(seconds)),
        worst: longest.map(|longest| longest.worst),
        worst_share: longest.zip(f).map(|(longest, f)| longest.worst / f.band.mean),
        recovery: f.and_then(Followed::back).map(recovered),
    }
}

fn touched(window: &Disturbed, seen: &Seen<'_>, around: &Around, until: u64) -> Touched {
    let mut usual = Usual::default();
    window.requests.iter().filter(|k| k.request.is_before(around)).for_each(|k| usual.take(&k.request));
    let mut found = Touched {
        until_s: seconds(until.saturating_sub(around.mark)),
        slow: usual.ttft.filter(|_| !seen.no_gross).map(|_| 0),
        broken_tokens: Some(0),
        by_error: BTreeMap::new(),
        ..Touched::default()
    };
    for kept in window.requests.iter().filter(|k| k.request.is_touched(around.mark, until)) {
        found.requests += 1;
        match kept.request.outcome {
            Outcome::Ok => {
                found.ok += 1;
                let slow = usual.is_slow(&kept.request) == Some(true);
                found.slow = found.slow.map(|n| n + u64::from(slow));
                continue;
            }
            Outcome::Failed => {
                found.failed += 1;
                let class = kept.class.clone().unwrap_or_else(|| "unnamed".into());
                *found.by_error.entry(class).or_default() += 1;
            }
            Outcome::Censored => found.censored += 1,
            Outcome::NotSent => found.not_sent += 1,
        }
        if kept.token_events > 0 {
            found.broken += 1;
            found.broken_token_events += kept.token_events;
            found.broken_tokens = found.broken_tokens.zip(kept.tokens).map(|(sum, n)| sum.saturating_add(n));
        }
    }
    found
}
