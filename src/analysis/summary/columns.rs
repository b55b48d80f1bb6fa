//! Values of one metric on their way to distributions, and what is withheld of them.

use std::collections::BTreeMap;

use super::buckets::Buckets;
use super::packed::{Kept, Packed, Values};
use crate::analysis::definitions::rules::{self, Width};
use crate::analysis::definitions::{Columns, wording};
use crate::analysis::percentiles::{self, BUCKETED, EXACT, Figures, PUBLISHED};
use crate::analysis::statistics::cluster_bootstrap::{self, Cluster};
use crate::analysis::statistics::order_interval;
use crate::rundir::run_json::{Between, Distribution, Ends, FromDue, Verdict, VerdictKind};

/// What the window as a whole forbids.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Withheld {
    /// Nothing but n is printed of gross.
    pub(super) gross: bool,
    /// Nothing but n is printed of due, and of the time of sessions.
    pub(super) due: bool,
    /// Nothing but n is printed of net.
    pub(super) net: bool,
    /// No percentile of gaps.
    pub(super) gaps: bool,
}

/// Values of each class, by the class's place in the window's list: one by one, or beyond [`EXACT`] of all classes
/// together in buckets.
#[derive(Debug)]
enum ByClass<T> {
    Exact(OneByOne<T>),
    Coarse {
        classes: Vec<Buckets>,
        /// Values come several a request.
        clustered: bool,
    },
}

#[derive(Debug)]
struct OneByOne<T> {
    n: usize,
    values: Vec<Values<T>>,
    /// Where values come several a request: each request's trace id, and how many it has in its class.
    requests: Vec<Requests>,
}

/// Pairs of a trace id, as its difference to the one before, and a number of values.
#[derive(Debug, Default)]
struct Requests {
    packed: Packed,
    last_id: u64,
    /// Values of the class so far.
    values: usize,
}

/// What is published of a column.
struct Column {
    figures: Figures,
    /// In ms, in the order of [`PUBLISHED`].
    intervals: [Option<[f64; 2]>; 5],
    coarse: bool,
}

impl<T: Kept> ByClass<T> {
    const EMPTY: ByClass<T> = ByClass::Exact(OneByOne { n: 0, values: Vec::new(), requests: Vec::new() });

    fn push(&mut self, class: usize, value: T) {
        match self {
            ByClass::Coarse { classes, .. } => place(classes, class).take(value.whole_ns()),
            ByClass::Exact(all) => {
                place(&mut all.values, class).push(value);
                all.n += 1;
                if all.n > EXACT {
                    self.become_coarse();
                }
            }
        }
    }

    fn become_coarse(&mut self) {
        let ByClass::Exact(all) = std::mem::replace(self, ByClass::Coarse { classes: Vec::new(), clustered: false })
        else {
            return;
        };
        let clustered = !all.requests.is_empty();
        let mut classes: Vec<Buckets> = Vec::new();
        // each is freed as soon as it is counted
        for (class, values) in all.values.into_iter().enumerate() {
            let buckets = place(&mut classes, class);
            values.iter().for_each(|value| buckets.take(value.whole_ns()));
        }
        *self = ByClass::Coarse { classes, clustered };
    }

    /// All values of a request were pushed.
    fn close(&mut self, class: usize, trace_id: u64) {
        let ByClass::Exact(all) = self else { return };
        let end = place(&mut all.values, class).len();
        let requests = place(&mut all.requests, class);
        requests.packed.put(trace_id.wrapping_sub(requests.last_id).cast_signed());
        requests.packed.put_natural((end - requests.values) as u64);
        (requests.last_id, requests.values) = (trace_id, end);
    }

    fn buckets(classes: &[Buckets], class: Option<usize>) -> Buckets {
        match class {
            Some(class) => classes.get(class).cloned().unwrap_or_default(),
            None => classes.iter().fold(Buckets::default(), |mut all, class| {
                all.add(class);
                all
            }),
        }
    }

    fn figures(&self, class: Option<usize>) -> Option<Figures> {
        match self {
            ByClass::Exact(all) => percentiles::figures(&mut all.values(class)),
            ByClass::Coarse { classes, .. } => Self::buckets(classes, class).figures(),
        }
    }

    fn column(&self, class: Option<usize>) -> Option<Column> {
        match self {
            ByClass::Exact(all) => {
                let mut values = all.values(class);
                let figures = percentiles::figures(&mut values)?;
                if all.requests.is_empty() {
                    return Some(Column { figures, intervals: order_interval::intervals(&values), coarse: false });
                }
                drop(values);
                Some(Column { figures, intervals: all.clustered_intervals(class), coarse: false })
            }
            ByClass::Coarse { classes, clustered } => {
                let buckets = Self::buckets(classes, class);
                let figures = buckets.figures()?;
                // which request each came from is not kept
                let intervals = if *clustered { [None; 5] } else { buckets.intervals() };
                Some(Column { figures, intervals, coarse: true })
            }
        }
    }
}

impl<T: Kept> OneByOne<T> {
    fn values(&self, class: Option<usize>) -> Vec<T> {
        let mut all = Vec::with_capacity(if class.is_none() { self.n } else { 0 });
        let wanted = self.values.iter().enumerate().filter(|(at, _)| class.is_none_or(|class| *at == class));
        wanted.for_each(|(_, values)| all.extend(values.iter()));
        all
    }

    fn clustered_intervals(&self, class: Option<usize>) -> [Option<[f64; 2]>; 5] {
        let values = self.values(class);
        let mut clusters: Vec<Cluster<'_, T>> = Vec::new();
        let mut from = 0;
        for (_, requests) in self.requests.iter().enumerate().filter(|(at, _)| class.is_none_or(|class| *at == class)) {
            let (mut reader, mut trace_id) = (requests.packed.reader(), 0_u64);
            while let Some((step, n)) = reader.number().zip(reader.natural()) {
                trace_id = trace_id.wrapping_add(step.cast_unsigned());
                clusters.push((trace_id, &values[from..from + n as usize]));
                from += n as usize;
            }
        }
        cluster_bootstrap::intervals(&clusters)
    }
}

fn place<T: Default>(classes: &mut Vec<T>, class: usize) -> &mut T {
    if classes.len() <= class {
        classes.resize_with(class + 1, T::default);
    }
    &mut classes[class]
}

/// Values of one metric, ns, column by column.
#[derive(Debug)]
pub(super) struct Spread<T> {
    gross: ByClass<T>,
    tare: ByClass<T>,
    lo: ByClass<T>,
    at: ByClass<T>,
    hi: ByClass<T>,
    due: ByClass<T>,
}

impl<T: Kept> Default for Spread<T> {
    fn default() -> Self {
        let empty = || ByClass::EMPTY;
        Spread { gross: empty(), tare: empty(), lo: empty(), at: empty(), hi: empty(), due: empty() }
    }
}

/// How a metric's columns are printed.
pub(super) struct Print<'a> {
    /// Its name in verdicts.
    pub(super) metric: &'a str,
    /// Whether the high end is another figure than net itself: between two events.
    pub(super) two_ended: bool,
    /// Classes to print apart, by place; empty for none.
    pub(super) classes: &'a [String],
    /// What the window forbids.
    pub(super) withheld: Withheld,
}

impl<T: Kept> Spread<T> {
    pub(super) fn push(&mut self, class: usize, columns: Columns<T>) {
        let put = |into: &mut ByClass<T>, value: Option<T>| value.into_iter().for_each(|v| into.push(class, v));
        put(&mut self.gross, columns.gross);
        put(&mut self.tare, columns.tare);
        put(&mut self.due, columns.due);
        put(&mut self.lo, columns.net.map(|net| net.lo));
        put(&mut self.at, columns.net.map(|net| net.at));
        put(&mut self.hi, columns.net.map(|net| net.hi));
    }

    /// All values of a request were pushed: they are one cluster. For metrics with several values a request.
    pub(super) fn close(&mut self, class: usize, trace_id: u64) {
        [&mut self.gross, &mut self.tare, &mut self.at].into_iter().for_each(|column| column.close(class, trace_id));
    }

    pub(super) fn with_due(self, print: &Print, verdicts: &mut Vec<Verdict>) -> FromDue {
        let due = self.due.column(None).map(|c| if print.withheld.due { counted(&c) } else { plain(&c) });
        let Between { gross, tare, net } = self.between(print, verdicts);
        FromDue { gross, tare, net, due, calibrated: None }
    }

    pub(super) fn between(self, print: &Print, verdicts: &mut Vec<Verdict>) -> Between {
        let gaps_withheld = print.metric == "gap" && print.withheld.gaps;
        let gross_column = |found: Column| {
            if print.withheld.gross {
                return counted(&found);
            }
            let mut column = plain(&found);
            if gaps_withheld {
                withhold_all(&mut column);
            }
            column
        };
        let mut gross = self.gross.column(None).map(gross_column);
        let tare = self.tare.column(None).map(|c| plain(&c));
        let mut net = self.net(print, None, verdicts);
        let mut names: Vec<(usize, &String)> = print.classes.iter().enumerate().collect();
        names.sort_by_key(|(_, name)| *name);
        for (class, name) in names {
            let of_class = self.gross.column(Some(class)).map(gross_column);
            insert(gross.as_mut(), name, of_class);
            let of_class = self.net(print, Some((class, name)), verdicts);
            insert(net.as_mut(), name, of_class);
        }
        Between { gross, tare, net }
    }

    fn net(&self, print: &Print, class: Option<(usize, &str)>, verdicts: &mut Vec<Verdict>) -> Option<Distribution> {
        let place = class.map(|(place, _)| place);
        let at = self.at.column(place)?;
        let mut column = plain(&at);
        let (lo, hi) = (ends(&self.lo.figures(place)?), ends(&self.hi.figures(place)?));
        column.lo_ms = Some(lo);
        column.hi_ms = print.two_ended.then_some(hi);
        if print.withheld.net {
            column = counted(&at);
            column.lo_ms = Some(Ends::default());
            column.hi_ms = print.two_ended.then(Ends::default);
        } else if print.metric == "gap" && print.withheld.gaps {
            withhold_all(&mut column);
        } else {
            let metric = class.map_or(print.metric.to_string(), |(_, name)| format!("{}/{name}", print.metric));
            judge_widths(&mut column, lo, hi, &metric, verdicts);
        }
        Some(column)
    }
}

impl<T: Kept> Spread<T> {
    /// The published percentile of net whose ends are furthest apart as a share of the high one, and the severest
    /// judgement on any of them; for a metric whose high end is net itself.
    pub(super) fn widest(&self) -> Option<(f64, Width, &'static str)> {
        let (lo, hi) = (self.lo.figures(None)?.percentiles_ms, self.at.figures(None)?.percentiles_ms);
        let ends = PUBLISHED.iter().zip(lo.into_iter().zip(hi));
        let known = ends.filter_map(|(p, (lo, hi))| Some((p.name, lo?, hi?))).filter(|(_, _, hi)| *hi > 0.0);
        let mut widest: Option<(f64, Width, &'static str)> = None;
        for (name, lo, hi) in known {
            let (share, judged) = ((hi - lo) / hi, rules::width(lo, hi));
            widest = Some(match widest {
                Some((most, worst, at)) if most >= share => (most, worst.max(judged), at),
                Some((_, worst, _)) => (share, worst.max(judged), name),
                None => (share, judged, name),
            });
        }
        widest
    }
}

/// A column on its own.
pub(super) fn single(values: impl IntoIterator<Item = i64>) -> Option<Distribution> {
    let mut column = ByClass::EMPTY;
    values.into_iter().for_each(|value| column.push(0, value));
    Some(plain(&column.column(None)?))
}

fn insert(column: Option<&mut Distribution>, name: &str, of_class: Option<Distribution>) {
    if let Some((column, of_class)) = column.zip(of_class) {
        column.per_class.insert(name.into(), of_class);
    }
}

/// A column of which only the number of values is told.
fn counted(c: &Column) -> Distribution {
    Distribution { n: c.figures.n as u64, buckets: c.coarse.then(|| BUCKETED.to_owned()), ..Distribution::default() }
}

fn plain(c: &Column) -> Distribution {
    let f = &c.figures;
    let [p50_ms, p90_ms, p95_ms, p99_ms, p999_ms] = f.percentiles_ms;
    let intervals = PUBLISHED.iter().zip(c.intervals);
    Distribution {
        n: f.n as u64,
        mean_ms: Some(f.mean_ms),
        sd_ms: f.sd_ms,
        min_ms: Some(f.min_ms),
        max_ms: Some(f.max_ms),
        p50_ms,
        p90_ms,
        p95_ms,
        p99_ms,
        p999_ms,
        ci_ms: intervals.filter_map(|(p, ends)| Some((p.name.to_string(), ends?))).collect(),
        lo_ms: None,
        hi_ms: None,
        buckets: c.coarse.then(|| BUCKETED.to_owned()),
        per_class: BTreeMap::new(),
    }
}

fn ends(f: &Figures) -> Ends {
    let [p50, p90, p95, p99, p999] = f.percentiles_ms;
    Ends { p50, p90, p95, p99, p999 }
}

fn slots(column: &mut Distribution) -> [&mut Option<f64>; 5] {
    [&mut column.p50_ms, &mut column.p90_ms, &mut column.p95_ms, &mut column.p99_ms, &mut column.p999_ms]
}

fn end_slots(ends: &mut Ends) -> [&mut Option<f64>; 5] {
    [&mut ends.p50, &mut ends.p90, &mut ends.p95, &mut ends.p99, &mut ends.p999]
}

fn withhold(column: &mut Distribution, index: usize) {
    *slots(column)[index] = None;
    column.ci_ms.remove(PUBLISHED[index].name);
    for ends in [&mut column.lo_ms, &mut column.hi_ms].into_iter().flatten() {
        *end_slots(ends)[index] = None;
    }
}

fn withhold_all(column: &mut Distribution) {
    (0..PUBLISHED.len()).for_each(|index| withhold(column, index));
}

fn judge_widths(column: &mut Distribution, mut lo: Ends, mut hi: Ends, metric: &str, verdicts: &mut Vec<Verdict>) {
    let ends = end_slots(&mut lo).map(|e| *e).into_iter().zip(end_slots(&mut hi).map(|e| *e));
    for (index, (p, (lo, hi))) in PUBLISHED.iter().zip(ends).enumerate() {
        let Some((lo, hi)) = lo.zip(hi) else { continue };
        let (kind, text) = match rules::width(lo, hi) {
            Width::Narrow => continue,
            Width::Both => (VerdictKind::Both, wording::both(lo, hi)),
            Width::Withheld => {
                withhold(column, index);
                (VerdictKind::Withheld, wording::too_wide(lo, hi))
            }
        };
        verdicts.push(Verdict {
            metric: metric.into(),
            column: "net".into(),
            percentile: Some(p.name.into()),
            kind,
            figure: Some(hi - lo),
            text,
        });
    }
}
