//! Reading the raw files, line by line.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error;

use crate::analysis::definitions::wording;
use crate::rundir::chain::Chain;
use crate::rundir::health::HealthRow;
use crate::rundir::mark::{self, MarkRow};
use crate::rundir::opening;
use crate::rundir::row::Row;
use crate::rundir::rows::{self, FileName, PartFault, Place, REQUESTS};
use crate::rundir::run_json::RunVerdict;
use crate::rundir::scrape::ScrapeRow;
use crate::rundir::window::WindowRow;

/// Why a directory could not be summarised.
#[derive(Debug, Error)]
pub enum SummaryError {
    /// A file that is not there or cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file of rows that is missing between others, or broken off before the last.
    #[error(transparent)]
    Part(PartFault),
    /// A line that is not what it must be.
    #[error("{file}:{line}: {text}")]
    Line {
        /// Name within the directory.
        file: FileName,
        /// From 1.
        line: u64,
        /// What is wrong.
        text: String,
    },
    /// Counts of a window that do not close.
    #[error("cell {cell}, window {window}: the counts do not close: {text}")]
    Counts {
        /// Load point.
        cell: u32,
        /// Window.
        window: u32,
        /// Which sum is broken.
        text: String,
    },
}

impl From<PartFault> for SummaryError {
    fn from(fault: PartFault) -> Self {
        match fault {
            PartFault::Unreadable { path, source, .. } => SummaryError::Unreadable { path, source },
            PartFault::NotText { place: Place { file, line }, text } => SummaryError::Line { file, line, text },
            other => SummaryError::Part(other),
        }
    }
}

impl SummaryError {
    pub(super) fn counts(bounds: &WindowRow, text: String) -> Self {
        SummaryError::Counts { cell: bounds.cell, window: bounds.window, text }
    }
}

pub(in crate::analysis) struct Windows {
    pub(in crate::analysis) rows: Vec<WindowRow>,
    pub(in crate::analysis) tail: Option<u64>,
    /// The last one has no line: the run ended in the middle of it.
    pub(in crate::analysis) cut_off: bool,
}

pub(super) fn read_plan(dir: &Path) -> Result<Value, SummaryError> {
    let path = dir.join("plan.json");
    let text = std::fs::read_to_string(&path).map_err(|source| SummaryError::Unreadable { path, source })?;
    serde_json::from_str(&text).map_err(|e| SummaryError::Line {
        file: "plan.json".into(),
        line: e.line() as u64,
        text: e.to_string(),
    })
}

pub(in crate::analysis) fn read_windows(dir: &Path) -> Result<Windows, SummaryError> {
    let (mut rows, tail) = read_lines::<WindowRow>(dir, "windows.jsonl")?;
    let has_line = |cell, window| rows.iter().any(|w| (w.cell, w.window) == (cell, window));
    let cut_off = opening::cut_off(dir, has_line)?;
    rows.extend(cut_off.clone());
    Ok(Windows { rows, tail, cut_off: cut_off.is_some() })
}

pub(in crate::analysis) fn read_health(dir: &Path) -> Result<(Vec<HealthRow>, Option<u64>), SummaryError> {
    read_lines(dir, "health.jsonl")
}

/// The scrapes of a server; none where no file of them is.
pub(in crate::analysis) fn read_scrapes(dir: &Path) -> Result<(Vec<ScrapeRow>, Option<u64>), SummaryError> {
    let file = "server-metrics.jsonl";
    match dir.join(file).try_exists() {
        Ok(false) => Ok((Vec::new(), None)),
        _ => read_lines(dir, file),
    }
}

/// What was done on purpose; none where no file of it is.
pub(in crate::analysis) fn read_marks(dir: &Path) -> Result<(Vec<MarkRow>, Option<u64>), SummaryError> {
    match dir.join(mark::FILE).try_exists() {
        Ok(false) => Ok((Vec::new(), None)),
        _ => read_lines(dir, mark::FILE),
    }
}

/// Hands each row, its `h` and its place on; gives the place of a half-written last line.
pub(in crate::analysis) fn read_rows(
    dir: &Path,
    take: &mut dyn FnMut(Row, &str, &Place) -> Result<(), SummaryError>,
) -> Result<Option<Place>, SummaryError> {
    let mut chain = Chain::default();
    rows::each_line(dir, REQUESTS, &mut |place, line| {
        let wrong = |text: String| SummaryError::Line { file: place.file.clone(), line: place.line, text };
        let plain =
            chain.open(line).ok_or_else(|| wrong("its h does not continue the chain: a line was changed".into()))?;
        let row: Row = serde_json::from_str(&plain).map_err(|e| wrong(e.to_string()))?;
        take(row, chain.last_hex(), place)
    })
}

pub(super) fn half_written_verdict(file: &str, line: u64) -> RunVerdict {
    RunVerdict { cell: None, window: None, kind: "half_written".into(), text: wording::half_written(file, line) }
}

fn read_lines<T: DeserializeOwned>(dir: &Path, file: &'static str) -> Result<(Vec<T>, Option<u64>), SummaryError> {
    let mut rows = Vec::new();
    let tail = each_line(dir, file, &mut |line, text| {
        rows.push(serde_json::from_str(text).map_err(|e| SummaryError::Line {
            file: file.into(),
            line,
            text: e.to_string(),
        })?);
        Ok(())
    })?;
    Ok((rows, tail))
}

/// A last line without its line end was being written when the run ended: it is not handed on, its number is returned.
fn each_line(
    dir: &Path,
    file: &'static str,
    take: &mut dyn FnMut(u64, &str) -> Result<(), SummaryError>,
) -> Result<Option<u64>, SummaryError> {
    let path = dir.join(file);
    let unreadable = |source| SummaryError::Unreadable { path: path.clone(), source };
    let mut reader = BufReader::with_capacity(1 << 20, File::open(&path).map_err(unreadable)?);
    let (mut bytes, mut number) = (Vec::new(), 0);
    loop {
        bytes.clear();
        if reader.read_until(b'\n', &mut bytes).map_err(unreadable)? == 0 {
            return Ok(None);
        }
        number += 1;
        if bytes.pop() != Some(b'\n') {
            return Ok(Some(number));
        }
        let line = std::str::from_utf8(&bytes).map_err(|e| SummaryError::Line {
            file: file.into(),
            line: number,
            text: e.to_string(),
        })?;
        take(number, line)?;
    }
}
