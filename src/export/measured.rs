//! The rows of a run directory, window by window, as exporters take them.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use crate::rundir::row::{Outcome, Phase, Row};
use crate::rundir::rows::{REQUESTS, each_row};
use crate::rundir::run_json::{RunJson, Window};
use crate::rundir::window::WindowRow;
use crate::trace::time::civil_ns;

/// What holds for all windows.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// `plan.json`.
    pub plan: Value,
    /// `run.json`: what is withheld there must be marked in an export.
    pub run: RunJson,
    /// Wall clock at the campaign's start, ns since 1970, in whole seconds: the zero of every time in rows.
    pub started_wall_ns: u64,
}

impl Campaign {
    /// What holds for all windows of a run directory. `run.json` is made anew of the raw files, so that nothing stands in an
    /// export that these do not hold.
    ///
    /// # Errors
    /// A file that cannot be read, a line that was changed, or a plan without the time of its start.
    pub fn of_directory(dir: &Path) -> anyhow::Result<Campaign> {
        let path = dir.join("plan.json");
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let plan: Value = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
        let started_wall_ns = plan.get("started_at").and_then(Value::as_str).and_then(wall_ns).with_context(|| {
            format!("{}: started_at is not a time like 2026-11-29T18-22-55; is this a run directory?", path.display())
        })?;
        Ok(Campaign { plan, run: crate::analysis::summary::summarise(dir)?, started_wall_ns })
    }

    /// CLOCK_MONOTONIC at the zero of every time in rows, ns; 0 where the plan does not tell.
    pub fn started_monotonic_ns(&self) -> u64 {
        self.plan.pointer("/environment/origin_monotonic_ns").and_then(Value::as_u64).unwrap_or(0)
    }

    /// The model asked for.
    pub fn model(&self) -> &str {
        self.plan.get("model").and_then(Value::as_str).unwrap_or("unknown")
    }

    /// Whether replies were streamed.
    pub fn streamed(&self) -> bool {
        self.plan.get("stream").and_then(Value::as_bool).unwrap_or(true)
    }

    /// What `run.json` says of a window; None where it has no such window.
    pub fn published(&self, bounds: &WindowRow) -> Option<&Window> {
        let cell = self.run.cells.iter().find(|cell| cell.cell == bounds.cell)?;
        cell.windows.iter().find(|window| window.window == bounds.window)
    }
}

/// `2026-11-29T18-22-55` (UTC) in ns since 1970: plans tell whole seconds.
fn wall_ns(started_at: &str) -> Option<u64> {
    let (date, time) = started_at.split_once('T')?;
    u64::try_from(civil_ns(&format!("{date}T{}", time.replace('-', ":")))?).ok()
}

/// One window with all its rows.
#[derive(Clone, Debug)]
pub struct MeasuredWindow {
    /// Its bounds and its load.
    pub bounds: WindowRow,
    /// Every row, warm-up included, in order of completion.
    pub rows: Vec<Row>,
}

impl MeasuredWindow {
    /// Rows in the statistics: those that are not warm-up and were sent.
    pub fn kept(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.phase == Phase::Measured && row.outcome != Outcome::NotSent)
    }

    /// Kept rows that were answered whole.
    pub fn ok(&self) -> impl Iterator<Item = &Row> {
        self.kept().filter(|row| row.outcome == Outcome::Ok)
    }
}

/// The bounds of every window of `dir`, in the order of the file.
///
/// # Errors
/// A file that cannot be read, or a line that is not what it must be.
pub fn windows(dir: &Path) -> anyhow::Result<Vec<WindowRow>> {
    let path = dir.join("windows.jsonl");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    // a last line without its end was being written when the run was ended
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let row = |(number, line)| serde_json::from_str(line).with_context(|| format!("{}:{}", path.display(), number + 1));
    whole.enumerate().map(row).collect()
}

/// Hands on each window of `dir` that `wanted` asks for, in the order in which they end in the file, one at a time in
/// memory.
///
/// # Errors
/// A file that cannot be read, a line that is not what it must be, or what `take` says.
pub fn each_window(
    dir: &Path,
    mut wanted: impl FnMut(&WindowRow) -> bool,
    mut take: impl FnMut(MeasuredWindow) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut open: BTreeMap<(u32, u32), MeasuredWindow> = BTreeMap::new();
    for bounds in windows(dir)? {
        if wanted(&bounds) {
            open.insert((bounds.cell, bounds.window), MeasuredWindow { bounds, rows: Vec::new() });
        }
    }
    let mut result = Ok(());
    each_row(dir, REQUESTS, |row| {
        let place = (row.cell, row.window);
        let Some(window) = open.get_mut(&place).filter(|_| result.is_ok()) else { return };
        window.rows.push(row);
        if window.rows.len() as u64 == window.bounds.rows
            && let Some(whole) = open.remove(&place)
        {
            result = take(whole);
        }
    })?;
    result?;
    // windows without rows, or cut short
    open.into_values().try_for_each(take)
}
