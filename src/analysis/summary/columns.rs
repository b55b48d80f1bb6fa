//! Values of one metric on their way to distributions, and what is withheld of them.

use std::collections::BTreeMap;

use crate::analysis::definitions::rules::{self, Width};
use crate::analysis::definitions::{Columns, wording};
use crate::analysis::percentiles::{self, Figures, PUBLISHED, Sample};
use crate::rundir::run_json::{Between, Distribution, Ends, FromDue, Verdict, VerdictKind};

/// What the window as a whole forbids.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Withheld {
    /// Nothing but n is printed of gross and due.
    pub(super) gross: bool,
    /// Nothing but n is printed of net.
    pub(super) net: bool,
    /// No percentile of gaps.
    pub(super) gaps: bool,
}

/// Values of each class, by the class's place in the window's list.
#[derive(Debug)]
struct ByClass<T>(Vec<Vec<T>>);

impl<T: Sample> ByClass<T> {
    fn push(&mut self, class: usize, value: T) {
        if self.0.len() <= class {
            self.0.resize_with(class + 1, Vec::new);
        }
        self.0[class].push(value);
    }

    fn whole(&mut self) -> Option<Figures> {
        percentiles::figures(&mut self.0.concat())
    }

    fn class(&mut self, class: usize) -> Option<Figures> {
        percentiles::figures(self.0.get_mut(class)?)
    }
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

impl<T> Default for Spread<T> {
    fn default() -> Self {
        let empty = || ByClass(Vec::new());
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

impl<T: Sample> Spread<T> {
    pub(super) fn push(&mut self, class: usize, columns: Columns<T>) {
        let put = |into: &mut ByClass<T>, value: Option<T>| value.into_iter().for_each(|v| into.push(class, v));
        put(&mut self.gross, columns.gross);
        put(&mut self.tare, columns.tare);
        put(&mut self.due, columns.due);
        put(&mut self.lo, columns.net.map(|net| net.lo));
        put(&mut self.at, columns.net.map(|net| net.at));
        put(&mut self.hi, columns.net.map(|net| net.hi));
    }

    pub(super) fn with_due(mut self, print: &Print, verdicts: &mut Vec<Verdict>) -> FromDue {
        let due = self.due.whole().map(|f| if print.withheld.gross { counted(&f) } else { plain(&f) });
        let Between { gross, tare, net } = self.between(print, verdicts);
        FromDue { gross, tare, net, due, calibrated: None }
    }

    pub(super) fn between(mut self, print: &Print, verdicts: &mut Vec<Verdict>) -> Between {
        let gaps_withheld = print.metric == "gap" && print.withheld.gaps;
        let gross_column = |figures: Figures| {
            if print.withheld.gross {
                return counted(&figures);
            }
            let mut column = plain(&figures);
            if gaps_withheld {
                withhold_all(&mut column);
            }
            column
        };
        let mut gross = self.gross.whole().map(gross_column);
        let tare = self.tare.whole().map(|f| plain(&f));
        let mut net = self.net(print, None, verdicts);
        let mut names: Vec<(usize, &String)> = print.classes.iter().enumerate().collect();
        names.sort_by_key(|(_, name)| *name);
        for (class, name) in names {
            let of_class = self.gross.class(class).map(gross_column);
            insert(gross.as_mut(), name, of_class);
            let of_class = self.net(print, Some((class, name)), verdicts);
            insert(net.as_mut(), name, of_class);
        }
        Between { gross, tare, net }
    }

    fn net(
        &mut self,
        print: &Print,
        class: Option<(usize, &str)>,
        verdicts: &mut Vec<Verdict>,
    ) -> Option<Distribution> {
        let figures = |values: &mut ByClass<T>| match class {
            None => values.whole(),
            Some((class, _)) => values.class(class),
        };
        let at = figures(&mut self.at)?;
        let mut column = plain(&at);
        let (lo, hi) = (ends(&figures(&mut self.lo)?), ends(&figures(&mut self.hi)?));
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

impl<T: Sample> Spread<T> {
    /// The published percentile of net whose ends are furthest apart as a share of the high one, and the severest
    /// judgement on any of them; for a metric whose high end is net itself.
    pub(super) fn widest(&mut self) -> Option<(f64, Width, &'static str)> {
        let (lo, hi) = (self.lo.whole()?.percentiles_ms, self.at.whole()?.percentiles_ms);
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

/// A column without an interval.
pub(super) fn single(values: &mut [i64]) -> Option<Distribution> {
    percentiles::figures(values).map(|f| plain(&f))
}

fn insert(column: Option<&mut Distribution>, name: &str, of_class: Option<Distribution>) {
    if let Some((column, of_class)) = column.zip(of_class) {
        column.per_class.insert(name.into(), of_class);
    }
}

/// A column of which only the number of values is told.
fn counted(f: &Figures) -> Distribution {
    Distribution { n: f.n as u64, ..Distribution::default() }
}

fn plain(f: &Figures) -> Distribution {
    let [p50_ms, p90_ms, p95_ms, p99_ms, p999_ms] = f.percentiles_ms;
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
        ci_ms: BTreeMap::new(),
        lo_ms: None,
        hi_ms: None,
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
    for ends in [&mut column.lo_ms, &mut column.hi_ms].into_iter().flatten() {
        *end_slots(ends)[index] = None;
    }
}

fn withhold_all(column: &mut Distribution) {
    (0..percentiles::PUBLISHED.len()).for_each(|index| withhold(column, index));
}

fn judge_widths(column: &mut Distribution, mut lo: Ends, mut hi: Ends, metric: &str, verdicts: &mut Vec<Verdict>) {
    let ends = end_slots(&mut lo).map(|e| *e).into_iter().zip(end_slots(&mut hi).map(|e| *e));
    for (index, (p, (lo, hi))) in percentiles::PUBLISHED.iter().zip(ends).enumerate() {
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
