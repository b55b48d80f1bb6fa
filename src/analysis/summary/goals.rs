//! A window against the goals fixed before the run.

use crate::analysis::definitions::failure::Recovery;
use crate::analysis::definitions::goals::{self, Answer, Met};
use crate::analysis::definitions::{load, per_second, share};
use crate::analysis::statistics::proportion;
use crate::goals::{Goals, WindowFigure};
use crate::rundir::row::Row;
use crate::rundir::run_json::{Distribution, GoalsMet, Goodput, LimitMet, Metrics, Requests, Throughput};
use crate::rundir::sessions::Sessions;
use crate::rundir::window::{LoadModel, WindowRow};

/// Kept requests by how they stand to the goals.
#[derive(Default)]
pub(super) struct Keeping {
    met: u64,
    unknown: u64,
    /// When those that met them were over.
    ended: Vec<u64>,
}

/// The figures of a window that goals speak of.
pub(super) struct Found<'a> {
    pub(super) bounds: &'a WindowRow,
    pub(super) requests: &'a Requests,
    pub(super) throughput: &'a Throughput,
    /// Bounds of the throughput, ns.
    pub(super) span: Option<(u64, u64)>,
    pub(super) metrics: &'a Metrics,
    /// Where requests are turns.
    pub(super) sessions: Option<&'a Sessions>,
    /// What starts with the send, gross or in open loop from due, is withheld.
    pub(super) no_gross: bool,
    /// After what was done on purpose.
    pub(super) recovery: Recovery,
}

impl Keeping {
    /// When those that met the goals were over.
    pub(super) fn ended(&self) -> &[u64] {
        &self.ended
    }

    /// Takes a kept request.
    pub(super) fn take(&mut self, row: &Row, asked: &Goals, bounds: &WindowRow) {
        match goals::met(row, asked, is_open(bounds)) {
            Met::Yes => {
                self.met += 1;
                self.ended.extend(load::in_flight(row, bounds.closed).map(|(_, end)| end));
            }
            Met::Unknown => self.unknown += 1,
            Met::No => {}
        }
    }

    pub(super) fn print(self, asked: &Goals, found: &Found) -> GoalsMet {
        let limit = |(figure, limit): (&WindowFigure, &f64)| {
            let (value, ci) = found.figure(figure, *limit);
            LimitMet {
                figure: figure.clone(),
                limit: *limit,
                found: value,
                ci,
                answer: goals::answer(ci, value, *limit, figure.is_at_least()),
            }
        };
        let window = asked.window.iter().map(limit).collect();
        GoalsMet { request: (!asked.request.is_empty()).then(|| self.goodput(asked, found)), window }
    }

    fn goodput(self, asked: &Goals, found: &Found) -> Goodput {
        let kept = found.requests.kept;
        let met_share = share(self.met, kept).filter(|_| !found.no_gross);
        let low = proportion::interval(self.met, kept);
        let high = proportion::interval(self.met + self.unknown, kept);
        let ci = low.zip(high).map(|(low, high)| [low[0], high[1]]).filter(|_| !found.no_gross);
        let within = |(from, to): (u64, u64)| {
            let n = self.ended.iter().filter(|t| (from..=to).contains(*t)).count();
            per_second(n as f64, to.saturating_sub(from))
        };
        Goodput {
            goals: asked.request.clone(),
            kept,
            met: self.met,
            unknown: self.unknown,
            share: met_share,
            ci,
            needed: asked.share,
            requests_per_s: found.span.and_then(within).filter(|_| !found.no_gross),
            reached: met_share.map(|s| s >= asked.share),
            answer: if found.no_gross { Answer::NotJudged } else { goals::answer(ci, met_share, asked.share, true) },
        }
    }
}

impl Found<'_> {
    /// The figure and its 95 % interval.
    fn figure(&self, figure: &WindowFigure, limit: f64) -> (Option<f64>, Option<[f64; 2]>) {
        match figure {
            WindowFigure::Percentile { metric, percentile } => {
                let Some(d) = self.column(metric) else { return (None, None) };
                (d.percentile(percentile), d.ci_ms.get(percentile).copied())
            }
            WindowFigure::Failed => {
                let (failed, kept) = (self.requests.failed, self.requests.kept);
                (share(failed, kept), proportion::interval(failed, kept))
            }
            WindowFigure::OutputTokensPerS => {
                let rate = self.throughput.output_tokens_per_s;
                (rate, goals::exact(rate))
            }
            WindowFigure::RequestsPerS => {
                let rate = self.throughput.requests_per_s;
                (rate, goals::exact(rate))
            }
            WindowFigure::RecoveryS => self.recovery.against(limit),
        }
    }

    /// From due in open loop, where the metric has that column; else gross.
    fn column(&self, metric: &str) -> Option<&Distribution> {
        let m = self.metrics;
        if metric == "session" {
            return self.sessions?.duration.as_ref();
        }
        let (since, between) = match metric {
            "ttft" => (Some(&m.ttft), None),
            "ttfo" => (Some(&m.ttfo), None),
            "e2e" => (Some(&m.e2e), None),
            "waited" => (self.sessions.map(|found| &found.waited), None),
            "gap" => (None, Some(&m.gap)),
            "stall" => (None, Some(&m.stall)),
            "tpot" => (None, Some(&m.tpot)),
            "ntpot" => (None, Some(&m.ntpot)),
            _ => (None, None),
        };
        match (since, between) {
            (Some(m), _) if is_open(self.bounds) => m.due.as_ref(),
            (Some(m), _) => m.gross.as_ref(),
            (None, m) => m?.gross.as_ref(),
        }
    }
}

fn is_open(bounds: &WindowRow) -> bool {
    bounds.load.model != LoadModel::Closed
}
