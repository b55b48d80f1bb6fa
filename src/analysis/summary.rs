//! From the raw files of a run directory to [`RunJson`].
//!
//! Rows are read once and leave behind only their values; a window's values are freed as soon as its last row was
//! read, so memory follows the largest window, not the run.

mod arrivals;
mod buckets;
mod calibrated;
pub(super) mod client;
mod columns;
mod curves;
mod disclosed;
mod failure;
mod fitness;
mod goals;
mod labels;
mod ledger;
mod noise;
mod occupancy;
pub(super) mod packed;
pub(super) mod raw_files;
#[cfg(test)]
mod reported_faults_tests;
mod server;
mod sessions;
mod soak;
mod steady;
#[cfg(test)]
mod tests;
mod window_tally;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::analysis::definitions::{ids, load, rules, wording};
use crate::analysis::percentiles::PUBLISHED;
use crate::goals::Goals;
use crate::rundir::mark::{self, MarkRow};
use crate::rundir::rows::Place;
use crate::rundir::run_json::{Cell, RunJson, RunVerdict, SCHEMA, VerdictKind, Window};
use crate::rundir::window::{LoadModel, WindowRow};
use arrivals::Laws;
use calibrated::Calibration;
use client::Health;
pub use raw_files::SummaryError;
use raw_files::{half_written_verdict, read_health, read_marks, read_plan, read_rows, read_scrapes, read_windows};
use server::{Scrapes, Sent};
use window_tally::WindowTally;

/// Reads `plan.json`, `windows.jsonl`, `requests.jsonl` and `health.jsonl` of a run directory, and `server-metrics.jsonl`
/// and `marks.jsonl` where there are such.
///
/// # Errors
/// A file that cannot be read, a line that does not parse or breaks the hash chain, counts that do not close.
pub fn summarise(dir: &Path) -> Result<RunJson, SummaryError> {
    let plan = read_plan(dir)?;
    let windows = read_windows(dir)?;
    let (health, health_tail) = read_health(dir)?;
    let (scrapes, scrapes_tail) = read_scrapes(dir)?;
    let (marks, marks_tail) = read_marks(dir)?;
    let (calibration, unusable) = match Calibration::of_plan(&plan) {
        Ok(found) => (found, None),
        Err(fault) => (None, Some(wording::calibration_unusable(&fault))),
    };
    let goals = plan_goals(&plan)?;
    let max_failed = plan.get("max_failed").and_then(Value::as_f64).unwrap_or(rules::MAX_FAILED);
    let (laws, model) = (Laws::of_plan(&plan), text(&plan, "model"));
    let context = Context { health: Health::new(health), calibration, goals, max_failed, model, laws, marks };
    let mut figures = Figures::new(&windows.rows, context);
    let requests_tail = read_rows(dir, &mut |row, h, line| figures.take(&row, h, line))?;
    let (cells, orphans) = figures.cells(&Scrapes::new(scrapes, &plan))?;

    let asked_s = ["duration_s", "min_duration_s"].iter().find_map(|key| plan.get(key)?.as_f64()).unwrap_or(0.0);
    let mut verdicts: Vec<RunVerdict> = cells.iter().flat_map(|cell| window_verdicts(cell, asked_s)).collect();
    verdicts.extend(orphans.into_iter().map(|((cell, window), rows)| RunVerdict {
        cell: Some(cell),
        window: Some(window),
        kind: "window_without_end".into(),
        text: wording::window_without_end(rows),
    }));
    if let Some(window) = windows.rows.last().filter(|_| windows.cut_off) {
        verdicts.push(RunVerdict {
            cell: Some(window.cell),
            window: Some(window.window),
            kind: "window_without_end".into(),
            text: wording::window_cut_off(window.rows),
        });
    }
    let tail = |file: &'static str, line: Option<u64>| line.map(|line| Place { file: file.into(), line });
    let tails = [
        tail("windows.jsonl", windows.tail),
        requests_tail,
        tail("health.jsonl", health_tail),
        tail("server-metrics.jsonl", scrapes_tail),
        tail(mark::FILE, marks_tail),
    ];
    verdicts.extend(tails.iter().flatten().map(|tail| half_written_verdict(&tail.file, tail.line)));
    let broken_off = verdicts.iter().any(|v| v.kind != "failed" && v.kind != "invalid");
    verdicts.extend(unusable.map(|text| RunVerdict { cell: None, window: None, kind: "calibration".into(), text }));
    let planned = planned_windows(&plan).is_none_or(|n| n == windows.rows.len());
    let complete = !windows.rows.is_empty() && planned && !broken_off;
    Ok(RunJson {
        schema: SCHEMA.into(),
        tarebench: text(&plan, "tarebench"),
        run_id: text(&plan, "run_id"),
        plan_hash: text(&plan, "plan_hash"),
        started_at: text(&plan, "started_at"),
        complete,
        environment: plan.get("environment").cloned().unwrap_or(Value::Null),
        calibration: plan.get("calibration").cloned().unwrap_or(Value::Null),
        labels: labels::of(&plan, &cells, complete),
        curves: curves::of_cells(&cells),
        cells,
        verdicts,
        definitions: definitions(),
    })
}

/// `run.json` as it is written.
///
/// # Errors
/// None that a [`RunJson`] can cause.
pub fn to_json(run: &RunJson) -> Result<String, serde_json::Error> {
    let mut text = serde_json::to_string_pretty(run)?;
    text.push('\n');
    Ok(text)
}

/// Rows of windows that have no line, by cell and window.
type Orphans = BTreeMap<(u32, u32), u64>;

/// What every window is judged by, beside its rows.
struct Context {
    health: Health,
    calibration: Option<Calibration>,
    goals: Option<Goals>,
    max_failed: f64,
    /// The model that was asked for.
    model: Option<String>,
    /// What arrivals were drawn from.
    laws: Laws,
    /// What was done on purpose.
    marks: Vec<MarkRow>,
}

/// Windows that are still being read, and those that are done.
struct Figures<'a> {
    windows: &'a [WindowRow],
    context: Context,
    open: BTreeMap<usize, WindowTally<'a>>,
    done: BTreeMap<usize, Done>,
    orphans: Orphans,
}

/// A window that is done, and the requests that were sent in it, retries included.
struct Done {
    window: Window,
    attempts: u64,
}

impl<'a> Figures<'a> {
    fn new(windows: &'a [WindowRow], context: Context) -> Self {
        let (open, done, orphans) = Default::default();
        Figures { windows, context, open, done, orphans }
    }

    fn take(&mut self, row: &crate::rundir::row::Row, h: &str, line: &Place) -> Result<(), SummaryError> {
        let Some(index) = self.windows.iter().position(|w| (w.cell, w.window) == (row.cell, row.window)) else {
            *self.orphans.entry((row.cell, row.window)).or_default() += 1;
            return Ok(());
        };
        let bounds = &self.windows[index];
        if self.done.contains_key(&index) {
            return Err(SummaryError::counts(bounds, format!("{line} is one row more than its {} rows", bounds.rows)));
        }
        let marks = &self.context.marks;
        let tally = self.open.entry(index).or_insert_with(|| WindowTally::new(bounds, marks));
        tally.take(row, h, self.context.goals.as_ref())?;
        if tally.rows() == bounds.rows {
            self.close(index)?;
        }
        Ok(())
    }

    fn close(&mut self, index: usize) -> Result<(), SummaryError> {
        let tally =
            self.open.remove(&index).unwrap_or_else(|| WindowTally::new(&self.windows[index], &self.context.marks));
        let attempts = tally.attempts();
        let window = tally.finish(&self.context)?;
        self.done.insert(index, Done { window, attempts });
        Ok(())
    }

    /// Cells in their order, and the rows of windows that have no line.
    fn cells(mut self, scrapes: &Scrapes) -> Result<(Vec<Cell>, Orphans), SummaryError> {
        let missing: Vec<usize> = (0..self.windows.len()).filter(|i| !self.done.contains_key(i)).collect();
        missing.into_iter().try_for_each(|index| self.close(index))?;
        let sent: Vec<Sent<'_>> = self
            .windows
            .iter()
            .zip(self.done.values())
            .map(|(bounds, done)| Sent { bounds, attempts: done.attempts })
            .collect();
        let mut cells: BTreeMap<u32, Cell> = BTreeMap::new();
        for (bounds, (index, Done { mut window, .. })) in self.windows.iter().zip(self.done) {
            if let Some(soak) = &mut window.soak {
                soak::add_server(soak, bounds, scrapes.answered());
            }
            if let Some((activity, verdicts)) = scrapes.activity(&sent, index) {
                window.server = Some(activity);
                window.verdicts.extend(verdicts);
            }
            let empty =
                || Cell { cell: bounds.cell, load: bounds.load.clone(), windows: Vec::new(), noise: BTreeMap::new() };
            cells.entry(bounds.cell).or_insert_with(empty).windows.push(window);
        }
        let mut cells: Vec<Cell> = cells.into_values().collect();
        cells.iter_mut().for_each(|cell| cell.noise = noise::of_windows(&cell.windows));
        Ok((cells, self.orphans))
    }
}

/// Of windows that were to last `asked_s`.
fn window_verdicts(cell: &Cell, asked_s: f64) -> Vec<RunVerdict> {
    let of = |window: &Window, kind: &str, text: String| RunVerdict {
        cell: Some(cell.cell),
        window: Some(window.window),
        kind: kind.into(),
        text,
    };
    let mut found = Vec::new();
    for window in &cell.windows {
        if window.interrupted {
            found.push(of(window, "interrupted", wording::interrupted()));
        } else if load::is_used_up(
            cell.load.model == LoadModel::Closed,
            window.requests.due,
            window.duration_s,
            asked_s,
        ) {
            let text = wording::used_up(window.requests.due, window.duration_s, asked_s);
            found.push(of(window, "used_up", text));
        }
        let n = window.metrics.ttft.net.as_ref().map_or(0, |net| net.n);
        let published = PUBLISHED.iter().filter(|p| n >= p.smallest_n as u64).count();
        let invalid = fitness::invalid(&window.verdicts, published);
        found.extend(invalid.map(|text| of(window, "invalid", text)));
        let failed = window.verdicts.iter().filter(|v| v.kind == VerdictKind::Failed);
        found.extend(failed.map(|v| of(window, "failed", v.text.clone())));
    }
    found
}

/// The goals fixed before the run.
fn plan_goals(plan: &Value) -> Result<Option<Goals>, SummaryError> {
    let broken =
        |e: serde_json::Error| SummaryError::Line { file: "plan.json".into(), line: 1, text: format!("goals: {e}") };
    plan.get("goals").map_or(Ok(None), |goals| serde_json::from_value(goals.clone()).map_err(broken))
}

/// `cells` x `windows` of the plan, where it tells.
fn planned_windows(plan: &Value) -> Option<usize> {
    let cells = plan.get("cells")?.as_array()?.len();
    Some(cells.saturating_mul(usize::try_from(plan.get("windows")?.as_u64()?).ok()?))
}

fn definitions() -> BTreeMap<String, BTreeMap<String, String>> {
    let mut by_metric: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for (metric, column, id) in ids::ALL {
        by_metric.entry(metric.into()).or_default().insert(column.into(), id.into());
    }
    by_metric
}

fn text(plan: &Value, key: &str) -> Option<String> {
    plan.get(key)?.as_str().map(str::to_string)
}
