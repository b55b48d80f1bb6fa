//! The rows of a run directory, window by window, as exporters take them.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use crate::rundir::row::{Outcome, Phase, Row};
use crate::rundir::rows::each_row;
use crate::rundir::run_json::RunJson;
use crate::rundir::window::WindowRow;

/// What holds for all windows.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// `plan.json`.
    pub plan: Value,
    /// `run.json`: what is withheld there must be marked in an export.
    pub run: RunJson,
    /// Wall clock at the campaign's start, ns since 1970: the zero of every time in rows.
    pub started_wall_ns: u64,
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
    let path = dir.join("windows.jsonl");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let mut open: BTreeMap<(u32, u32), MeasuredWindow> = BTreeMap::new();
    // a last line without its end was being written when the run was ended
    for (number, line) in text.split_inclusive('\n').filter(|line| line.ends_with('\n')).enumerate() {
        let bounds: WindowRow =
            serde_json::from_str(line).with_context(|| format!("{}:{}", path.display(), number + 1))?;
        if wanted(&bounds) {
            open.insert((bounds.cell, bounds.window), MeasuredWindow { bounds, rows: Vec::new() });
        }
    }
    let mut result = Ok(());
    each_row(&dir.join("requests.jsonl"), |row| {
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
