//! A window against its goals, from all of its rows and from the figures recomputed of it.

use serde_json::{Value, json};

use crate::analysis::definitions::failure::Recovery;
use crate::analysis::definitions::goals::{self, Answer, Met};
use crate::analysis::definitions::{load, per_second, share};
use crate::analysis::statistics::proportion;
use crate::goals::{Goals, WindowFigure};
use crate::rundir::row::{Outcome, Row};

/// What the goals are held against.
pub(super) struct Judged<'a> {
    pub(super) kept: &'a [&'a Row],
    pub(super) closed: u64,
    /// Open loop: what starts with the send is counted from due.
    pub(super) open: bool,
    pub(super) no_gross: bool,
    /// Bounds of the throughput, ns.
    pub(super) span: Option<(u64, u64)>,
    /// `throughput`, `metrics` and `sessions` as they were recomputed.
    pub(super) window: &'a Value,
    /// After what was done on purpose.
    pub(super) recovery: Recovery,
}

impl Judged<'_> {
    /// `goals` of the window, null where the plan has none.
    pub(super) fn by(&self, plan: &Value) -> Value {
        let Ok(Some(asked)) = serde_json::from_value::<Option<Goals>>(plan["goals"].clone()) else {
            return Value::Null;
        };
        let limit = |(figure, limit): (&WindowFigure, &f64)| {
            let (found, ci) = self.figure(&figure.to_string(), *limit);
            let answer = goals::answer(ci, found, *limit, figure.is_at_least());
            json!({"figure": figure, "limit": limit, "found": found, "ci": ci, "answer": answer})
        };
        let window: Vec<Value> = asked.window.iter().map(limit).collect();
        let request = if asked.request.is_empty() { Value::Null } else { self.goodput(&asked) };
        json!({"request": request, "window": window})
    }

    fn goodput(&self, asked: &Goals) -> Value {
        let of = |wanted: Met| self.kept.iter().filter(move |r| goals::met(r, asked, self.open) == wanted);
        let kept = self.kept.len() as u64;
        let (met, unknown) = (of(Met::Yes).count() as u64, of(Met::Unknown).count() as u64);
        let found = if self.no_gross { None } else { share(met, kept) };
        let ci = match (proportion::interval(met, kept), proportion::interval(met + unknown, kept)) {
            (Some([low, _]), Some([_, high])) if !self.no_gross => Some([low, high]),
            _ => None,
        };
        let ends = of(Met::Yes).filter_map(|r| Some(load::in_flight(r, self.closed)?.1));
        let rate = self.span.filter(|_| !self.no_gross).and_then(|(from, to)| {
            per_second(ends.filter(|t| from <= *t && *t <= to).count() as f64, to.saturating_sub(from))
        });
        let answer = if self.no_gross { Answer::NotJudged } else { goals::answer(ci, found, asked.share, true) };
        json!({
            "goals": asked.request, "kept": kept, "met": met, "unknown": unknown, "share": found, "ci": ci,
            "needed": asked.share, "requests_per_s": rate, "reached": found.map(|s| s >= asked.share), "answer": answer,
        })
    }

    fn figure(&self, name: &str, limit: f64) -> (Option<f64>, Option<[f64; 2]>) {
        let kept = self.kept.len() as u64;
        match name {
            "failed" => {
                let failed = self.kept.iter().filter(|r| r.outcome == Outcome::Failed).count() as u64;
                (share(failed, kept), proportion::interval(failed, kept))
            }
            "recovery_s" => self.recovery.against(limit),
            "output_tokens_per_s" | "requests_per_s" => {
                let found = self.window["throughput"][name].as_f64();
                (found, goals::exact(found))
            }
            _ => {
                let Some((metric, percentile)) = name.split_once('.') else { return (None, None) };
                let from_due = self.open && ["ttft", "ttfo", "e2e", "waited"].contains(&metric);
                let clock = if from_due { "due" } else { "gross" };
                let column = match metric {
                    "session" => &self.window["sessions"]["duration"],
                    "waited" => &self.window["sessions"]["waited"][clock],
                    _ => &self.window["metrics"][metric][clock],
                };
                let ends = &column["ci_ms"][percentile];
                let ci = ends[0].as_f64().zip(ends[1].as_f64()).map(|(low, high)| [low, high]);
                (column[format!("{percentile}_ms")].as_f64(), ci)
            }
        }
    }
}
