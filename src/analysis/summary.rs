//! From the raw files of a run directory to [`RunJson`].
//!
//! Rows are read once and leave behind only their values; a window's values are freed as soon as its last row was
//! read, so memory follows the largest window, not the run.

mod calibrated;
mod client;
mod columns;
mod curves;
mod fitness;
mod ledger;
mod noise;
mod occupancy;
mod raw_files;
#[cfg(test)]
mod reported_faults_tests;
#[cfg(test)]
mod tests;
mod window_tally;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::analysis::definitions::{ids, rules, wording};
use crate::analysis::percentiles::PUBLISHED;
use crate::rundir::run_json::{Cell, RunJson, RunVerdict, SCHEMA, VerdictKind, Window};
use crate::rundir::window::{LoadModel, WindowRow};
use calibrated::Calibration;
use client::Health;
pub use raw_files::SummaryError;
use raw_files::{half_written_verdict, read_health, read_plan, read_rows, read_windows};
use window_tally::WindowTally;

/// Reads `plan.json`, `windows.jsonl`, `requests.jsonl` and `health.jsonl` of a run directory.
///
/// # Errors
/// A file that cannot be read, a line that does not parse or breaks the hash chain, counts that do not close.
pub fn summarise(dir: &Path) -> Result<RunJson, SummaryError> {
    let plan = read_plan(dir)?;
    let windows = read_windows(dir)?;
    let (health, health_tail) = read_health(dir)?;
    let (calibration, unusable) = match Calibration::of_plan(&plan) {
        Ok(found) => (found, None),
        Err(fault) => (None, Some(wording::calibration_unusable(&fault))),
    };
    let max_failed = plan.get("max_failed").and_then(Value::as_f64).unwrap_or(rules::MAX_FAILED);
    let mut figures = Figures::new(&windows.rows, Context { health: Health::new(health), calibration, max_failed });
    let requests_tail = read_rows(dir, &mut |row, h, line| figures.take(&row, h, line))?;
    let (cells, orphans) = figures.cells()?;

    let mut verdicts: Vec<RunVerdict> = cells.iter().flat_map(window_verdicts).collect();
    verdicts.extend(orphans.into_iter().map(|((cell, window), rows)| RunVerdict {
        cell: Some(cell),
        window: Some(window),
        kind: "window_without_end".into(),
        text: wording::window_without_end(rows),
    }));
    let tails = [("windows.jsonl", windows.tail), ("requests.jsonl", requests_tail), ("health.jsonl", health_tail)];
    verdicts.extend(tails.iter().filter_map(|(file, tail)| tail.map(|line| half_written_verdict(file, line))));
    let broken_off = verdicts.iter().any(|v| v.kind != "failed" && v.kind != "invalid");
    verdicts.extend(unusable.map(|text| RunVerdict { cell: None, window: None, kind: "calibration".into(), text }));
    let planned = planned_windows(&plan).is_none_or(|n| n == windows.rows.len());
    Ok(RunJson {
        schema: SCHEMA.into(),
        tarebench: text(&plan, "tarebench"),
        run_id: text(&plan, "run_id"),
        plan_hash: text(&plan, "plan_hash"),
        started_at: text(&plan, "started_at"),
        complete: !windows.rows.is_empty() && planned && !broken_off,
        environment: plan.get("environment").cloned().unwrap_or(Value::Null),
        calibration: plan.get("calibration").cloned().unwrap_or(Value::Null),
        labels: labels(&plan, &cells),
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
    max_failed: f64,
}

/// Windows that are still being read, and those that are done.
struct Figures<'a> {
    windows: &'a [WindowRow],
    context: Context,
    open: BTreeMap<usize, WindowTally<'a>>,
    done: BTreeMap<usize, Window>,
    orphans: Orphans,
}

impl<'a> Figures<'a> {
    fn new(windows: &'a [WindowRow], context: Context) -> Self {
        let (open, done, orphans) = Default::default();
        Figures { windows, context, open, done, orphans }
    }

    fn take(&mut self, row: &crate::rundir::row::Row, h: &str, line: u64) -> Result<(), SummaryError> {
        let Some(index) = self.windows.iter().position(|w| (w.cell, w.window) == (row.cell, row.window)) else {
            *self.orphans.entry((row.cell, row.window)).or_default() += 1;
            return Ok(());
        };
        let bounds = &self.windows[index];
        if self.done.contains_key(&index) {
            return Err(SummaryError::counts(
                bounds,
                format!("requests.jsonl:{line} is one row more than its {} rows", bounds.rows),
            ));
        }
        let tally = self.open.entry(index).or_insert_with(|| WindowTally::new(bounds));
        tally.take(row, h)?;
        if tally.rows() == bounds.rows {
            self.close(index)?;
        }
        Ok(())
    }

    fn close(&mut self, index: usize) -> Result<(), SummaryError> {
        let tally = self.open.remove(&index).unwrap_or_else(|| WindowTally::new(&self.windows[index]));
        let window = tally.finish(&self.context)?;
        self.done.insert(index, window);
        Ok(())
    }

    /// Cells in their order, and the rows of windows that have no line.
    fn cells(mut self) -> Result<(Vec<Cell>, Orphans), SummaryError> {
        let missing: Vec<usize> = (0..self.windows.len()).filter(|i| !self.done.contains_key(i)).collect();
        missing.into_iter().try_for_each(|index| self.close(index))?;
        let mut cells: BTreeMap<u32, Cell> = BTreeMap::new();
        for (bounds, (_, window)) in self.windows.iter().zip(self.done) {
            let empty =
                || Cell { cell: bounds.cell, load: bounds.load.clone(), windows: Vec::new(), noise: BTreeMap::new() };
            cells.entry(bounds.cell).or_insert_with(empty).windows.push(window);
        }
        let mut cells: Vec<Cell> = cells.into_values().collect();
        cells.iter_mut().for_each(|cell| cell.noise = noise::of_windows(&cell.windows));
        Ok((cells, self.orphans))
    }
}

fn window_verdicts(cell: &Cell) -> Vec<RunVerdict> {
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

/// `cells` x `windows` of the plan, where it tells.
fn planned_windows(plan: &Value) -> Option<usize> {
    let cells = plan.get("cells")?.as_array()?.len();
    Some(cells * usize::try_from(plan.get("windows")?.as_u64()?).ok()?)
}

fn labels(plan: &Value, cells: &[Cell]) -> Vec<String> {
    let one_user = |c: &Cell| c.load.model == LoadModel::Closed && c.load.concurrency == Some(1);
    let asked = [
        ("LOOPBACK", is_loopback(plan)),
        ("ONE USER ONLY", !cells.is_empty() && cells.iter().all(one_user)),
        ("ONE LOAD ONLY", cells.len() == 1),
    ];
    asked.iter().filter(|(_, holds)| *holds).map(|(label, _)| (*label).to_string()).collect()
}

/// As the environment says, else by the host in `base_url`.
fn is_loopback(plan: &Value) -> bool {
    if let Some(said) = plan.pointer("/environment/loopback").and_then(Value::as_bool) {
        return said;
    }
    let url = plan.get("base_url").and_then(Value::as_str).unwrap_or_default();
    let host = url.split_once("://").map_or(url, |(_, rest)| rest);
    ["127.", "localhost", "[::1]"].iter().any(|prefix| host.starts_with(prefix))
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
