//! Whether latency stayed what it was over a window.

use super::columns::Withheld;
use super::window_tally::verdict;
use crate::analysis::definitions::steadiness::{self, Drift, Followed};
use crate::analysis::definitions::{Columns, millis, rules, seconds, wording};
use crate::analysis::percentiles::{self, PUBLISHED};
use crate::analysis::statistics::levels::{self, middle};
use crate::analysis::statistics::{autocorrelation, change_points, mser, rank_sum, trend};
use crate::rundir::row::{Phase, Row};
use crate::rundir::run_json::{
    Autocorrelation, ChangePoint, SliceTrend, Slices, Steady, SteadyMetric, Thirds, Verdict, VerdictKind, WarmUp,
};
use crate::rundir::window::WindowRow;

#[cfg(test)]
mod tests;

/// Latencies of the ok requests, the dropped ones included, with their submits.
#[derive(Default)]
pub(super) struct Course {
    ttft: Series,
    e2e: Series,
}

#[derive(Default)]
struct Series {
    gross: Vec<Point>,
    net: Vec<Point>,
}

/// Ordered by submit; ties by value, so that the order does not depend on that of the rows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    submit: u64,
    /// Twice the value, and one more of those that are kept.
    value: i64,
}

impl Point {
    fn new(submit: u64, ns: i64, kept: bool) -> Point {
        Point { submit, value: ns.saturating_mul(2) | i64::from(kept) }
    }

    fn ns(self) -> i64 {
        self.value >> 1
    }

    fn kept(self) -> bool {
        self.value & 1 == 1
    }
}

impl Course {
    /// An ok request.
    pub(super) fn take(&mut self, row: &Row, ttft: &Columns<i64>, e2e: &Columns<i64>) {
        let Some(submit) = row.submit else { return };
        let kept = row.phase == Phase::Measured;
        for (series, of) in [(&mut self.ttft, ttft), (&mut self.e2e, e2e)] {
            series.gross.extend(of.gross.map(|ns| Point::new(submit, ns, kept)));
            series.net.extend(of.net.as_ref().map(|net| Point::new(submit, net.at, kept)));
        }
    }

    /// What it was like, as far as the gates let it be told.
    pub(super) fn judge(self, bounds: &WindowRow, withheld: Withheld, verdicts: &mut Vec<Verdict>) -> Steady {
        let [ttft, e2e] = [("ttft", self.ttft), ("e2e", self.e2e)].map(|(name, Series { gross, net })| {
            let found = match Followed::of(withheld.gross, withheld.net || net.is_empty()) {
                Some(Followed::Gross) => of(gross, Followed::Gross, bounds),
                Some(Followed::Net) => of(net, Followed::Net, bounds),
                None => not_told(&gross),
            };
            verdicts.extend(flags(name, &found, bounds.drop));
            found
        });
        Steady { drift: ttft.drift.and(e2e.drift), ttft, e2e }
    }
}

fn not_told(points: &[Point]) -> SteadyMetric {
    SteadyMetric {
        column: None,
        n: points.iter().filter(|p| p.kept()).count() as u64,
        warm_up: None,
        thirds: None,
        autocorrelation: None,
        drift: Drift::Withheld,
        reason: Some(wording::steady_withheld()),
        slices: None,
        p50: None,
        p95: None,
        change_points: Vec::new(),
        p95_change_points: Vec::new(),
    }
}

fn of(mut points: Vec<Point>, column: Followed, bounds: &WindowRow) -> SteadyMetric {
    points.sort_unstable();
    let kept: Vec<Point> = points.iter().copied().filter(|p| p.kept()).collect();
    let values = in_ms(&kept);
    let found = SteadyMetric {
        column: Some(column),
        n: kept.len() as u64,
        warm_up: warm_up(&points),
        thirds: thirds(&values),
        autocorrelation: autocorrelation::of_ranks(&values).map(|m| Autocorrelation {
            lag_1: m.lag_1,
            time: m.time,
            n_eff: m.n_eff,
            at_most: m.cut_off,
        }),
        drift: Drift::TooShortToTell,
        reason: None,
        ..not_told(&[])
    };
    match Sliced::of(&kept, bounds) {
        Ok(sliced) => sliced.tell(found, bounds),
        Err(reason) => SteadyMetric { reason: Some(reason), ..found },
    }
}

fn warm_up(points: &[Point]) -> Option<WarmUp> {
    let values = in_ms(points);
    let cut = mser::of(&values)?;
    let before: Vec<f64> = in_ms(&points[..cut.values].iter().copied().filter(|p| p.kept()).collect::<Vec<_>>());
    let after = &values[cut.values..];
    let (before_ms, after_ms) = ((!before.is_empty()).then(|| middle(&before)), middle(after));
    // of a rest that is too short nobody knows what it remembers
    let p = autocorrelation::of_ranks(after).and_then(|rest| rank_sum::test(&before, after, rest.time));
    let differs = before_ms.is_some_and(|before| steadiness::differs(before, after_ms));
    Some(WarmUp {
        n: values.len() as u64,
        cut: cut.values as u64,
        kept_in_cut: before.len() as u64,
        before_ms,
        after_ms: Some(after_ms),
        p,
        at_limit: cut.at_limit,
        longer_than_dropped: differs && p.is_some_and(|p| p < rules::WARM_UP_P),
    })
}

fn thirds(values: &[f64]) -> Option<Thirds> {
    let third = values.len() / 3;
    let (first_ms, last_ms) = (middle(&values[..third]), middle(&values[values.len() - third..]));
    let ratio = (first_ms > 0.0).then(|| last_ms / first_ms);
    (values.len() >= rules::THIRDS_N).then_some(Thirds { first_ms, last_ms, ratio })
}

/// Kept requests in slices of equal time.
struct Sliced {
    from: u64,
    to: u64,
    /// Values of each slice, in ms, in order of submit.
    slices: Vec<Vec<f64>>,
    medians: Vec<f64>,
    trends: [Option<trend::Trend>; 2],
    levels: [f64; 2],
    cuts: Vec<usize>,
    /// Of the 95th percentiles, with these.
    p95_cuts: Vec<usize>,
    p95s: Vec<f64>,
    /// What requests remember when trend and levels are taken off.
    time: f64,
}

impl Sliced {
    /// In as many slices as the window is long enough for and as hold enough requests; else why not.
    fn of(kept: &[Point], bounds: &WindowRow) -> Result<Sliced, String> {
        let length = bounds.closed.saturating_sub(bounds.opened);
        if length < rules::DRIFT_WINDOW_NS {
            return Err(wording::window_too_short(seconds(length)));
        }
        let (from, to) = kept.first().zip(kept.last()).map_or((0, 0), |(a, b)| (a.submit, b.submit));
        if ((to - from) as f64) < rules::DRIFT_SPREAD * rules::DRIFT_WINDOW_NS as f64 {
            return Err(wording::requests_not_spread(seconds(to - from), seconds(length)));
        }
        let fewest = rules::SLICE_REQUESTS;
        let sliced = Sliced::cut(kept, (from, to), fewest).ok_or_else(|| wording::slices_too_small(fewest))?;
        // longer slices where requests remember more than one holds, if there is room for them: else the correction of
        // the trend's variance must do, since a backlog that grows is no reason to say nothing
        match steadiness::slice_needs(sliced.time) {
            needed if needed > sliced.fewest() => Ok(Sliced::cut(kept, (from, to), needed).unwrap_or(sliced)),
            _ => Ok(sliced),
        }
    }

    fn cut(kept: &[Point], (from, to): (u64, u64), needed: u64) -> Option<Sliced> {
        let span = u128::from(to - from);
        let bounds = |n: u64| {
            let begins = move |i: u64| from + (u128::from(i) * span).div_ceil(u128::from(n)) as u64;
            let place = move |i: u64| if i == n { kept.len() } else { kept.partition_point(|p| p.submit < begins(i)) };
            (0..n).map(move |i| place(i)..place(i + 1))
        };
        let enough = |n: &u64| bounds(*n).all(|slice| slice.len() as u64 >= needed);
        let n = (rules::SLICES.0..=steadiness::slices_wanted(to - from)).rev().find(enough)?;
        let slices: Vec<Vec<f64>> = bounds(n).map(|slice| in_ms(&kept[slice])).collect();
        let series = [0, 2].map(|published| percentiles_of(bounds(n).map(|slice| &kept[slice]), published));
        let trends = [0, 1].map(|i| trend::of(&series[i]));
        let levels = [0, 1].map(|i| middle(&series[i]));
        let cuts = |i: usize| {
            let least = rules::LEVEL_NOISE * levels[i];
            if least > 0.0 { change_points::of(&series[i], least) } else { Vec::new() }
        };
        let (cuts, p95_cuts) = (cuts(0), cuts(1));
        let [medians, p95s] = series;
        let slope = trends[0].map_or(0.0, |t| t.slope);
        let time = steadiness::memory_of_rest(&slices, &medians, &cuts, slope);
        Some(Sliced { from, to, slices, medians, trends, levels, cuts, p95_cuts, p95s, time })
    }

    fn fewest(&self) -> u64 {
        self.slices.iter().map(Vec::len).min().unwrap_or_default() as u64
    }

    fn tell(&self, found: SteadyMetric, bounds: &WindowRow) -> SteadyMetric {
        let span = (self.to - self.from) as f64;
        let slice_ns = span / self.slices.len() as f64;
        let [p50, p95] = [0, 1].map(|i| {
            let trend = self.trends[i]?;
            let slope = steadiness::per_10_min(&trend, slice_ns, self.levels[i]);
            Some(SliceTrend {
                drift: steadiness::drift(&trend, &slope, span),
                s: trend.s,
                p: trend.p,
                lag_1: trend.lag_1,
                ms_per_10_min: slope.ms,
                ms_per_10_min_ci: slope.ms_ci,
                share_per_10_min: slope.share,
                share_per_10_min_ci: slope.share_ci,
            })
        });
        // slices that are all alike have no trend
        let drift = |t: Option<SliceTrend>| t.map_or(Drift::Steady, |t| t.drift);
        let opened = self.from.saturating_sub(bounds.opened) as f64;
        let changes = |series: &[f64], cuts: &[usize]| {
            let parts: Vec<f64> = levels::parts(series, cuts).map(middle).collect();
            let change = |(cut, level): (&usize, &[f64])| ChangePoint {
                at_s: (opened + *cut as f64 * slice_ns) / 1e9,
                before_ms: level[0],
                after_ms: level[1],
            };
            cuts.iter().zip(parts.windows(2)).map(change).collect()
        };
        SteadyMetric {
            drift: drift(p50).and(drift(p95)),
            slices: Some(Slices {
                n: self.slices.len() as u64,
                length_s: slice_ns / 1e9,
                fewest_requests: self.fewest(),
                autocorrelation_time: self.time,
            }),
            p50,
            p95,
            change_points: changes(&self.medians, &self.cuts),
            p95_change_points: changes(&self.p95s, &self.p95_cuts),
            ..found
        }
    }
}

/// A percentile of each slice, by its place in [`PUBLISHED`]; each slice holds enough for it.
fn percentiles_of<'a>(slices: impl Iterator<Item = &'a [Point]>, published: usize) -> Vec<f64> {
    let of = |slice: &[Point]| {
        let mut values: Vec<i64> = slice.iter().map(|p| p.ns()).collect();
        values.sort_unstable();
        percentiles::percentile_ms(&values, PUBLISHED[published])
    };
    slices.filter_map(of).collect()
}

fn in_ms(points: &[Point]) -> Vec<f64> {
    points.iter().map(|p| millis(p.ns())).collect()
}

fn flags(metric: &str, found: &SteadyMetric, dropped: u64) -> Vec<Verdict> {
    let column = found.column.map_or("gross", Followed::name);
    let flag = |figure: f64, text: String| verdict(metric, column, VerdictKind::Flag, Some(figure), text);
    let mut flags = Vec::new();
    if let Some(w) = found.warm_up.filter(|w| w.longer_than_dropped) {
        let medians = (w.before_ms.unwrap_or_default(), w.after_ms.unwrap_or_default());
        flags.push(flag(w.cut as f64, wording::warm_up_longer(w.cut, dropped, medians.0, medians.1)));
    }
    for (name, t) in [("p50", found.p50), ("p95", found.p95)] {
        let Some(t) = t.filter(|t| t.drift == Drift::Drifting) else { continue };
        let (share, ends) = (t.share_per_10_min.unwrap_or_default(), t.share_per_10_min_ci.unwrap_or_default());
        flags.push(flag(share, wording::drifting(name, t.ms_per_10_min, share, ends, t.p)));
    }
    for (name, changes) in [("p50", &found.change_points), ("p95", &found.p95_change_points)] {
        let changes: Vec<_> = changes.iter().map(|c| (c.at_s, c.before_ms, c.after_ms)).collect();
        if !changes.is_empty() {
            flags.push(flag(changes.len() as f64, wording::level_changed(name, &changes)));
        }
    }
    if let Some(a) = found.autocorrelation.filter(|a| steadiness::depends(a.n_eff, found.n)) {
        flags.push(flag(a.n_eff, wording::dependent(a.n_eff, a.at_most, found.n)));
    }
    flags
}
