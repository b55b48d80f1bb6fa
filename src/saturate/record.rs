//! `search.json`: what a search was to do and which windows it has run, written anew after each of them. What they
//! showed stands in their own directories.

use super::settings::Settings;
use crate::analysis::saturation::search::{End, Trial};
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// Its name in the directory of a search.
pub const FILE: &str = "search.json";
/// Its `schema`.
pub const SCHEMA: &str = "tarebench.search/1";

/// A search as it was carried out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// [`SCHEMA`].
    pub schema: String,
    /// Version that searched.
    pub tarebench: String,
    /// Wall clock at the start.
    pub started_at: String,
    /// What it was to do.
    pub settings: Settings,
    /// Windows in order, those that count.
    pub steps: Vec<Step>,
    /// Directory of the window that was cut off and counts for nothing; null: none was.
    pub cut_off: Option<String>,
    /// What ended it before it was over by itself; null: it was, or it is still running.
    pub ended: Option<End>,
    /// Directory of the campaign at shares of the optimum; null: there is none.
    pub points: Option<String>,
}

/// A window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Its run directory, in that of the search.
    pub dir: String,
    /// What was asked for.
    pub trial: Trial,
}

impl Record {
    /// The run directories that it names, in that of the search.
    pub fn named(&self) -> impl Iterator<Item = &String> {
        self.steps.iter().map(|step| &step.dir).chain(&self.points).chain(&self.cut_off)
    }

    /// Reads that of a search.
    ///
    /// # Errors
    /// It is not there, cannot be read, is of another version, or names a directory outside.
    pub fn read(dir: &Path) -> anyhow::Result<Record> {
        let path = dir.join(FILE);
        let about = || path.display().to_string();
        let text = fs::read_to_string(&path).with_context(about)?;
        let record: Record = serde_json::from_str(&text).with_context(about)?;
        anyhow::ensure!(record.schema == SCHEMA, "{}: of schema {:?}, not {SCHEMA}", about(), record.schema);
        for inside in record.named() {
            let plain = |part: &str| !part.is_empty() && part != ".." && part != ".";
            anyhow::ensure!(inside.split('/').all(plain), "{}: {inside:?} is not in this directory", about());
        }
        Ok(record)
    }

    /// Writes it; a reader finds the old one or the new one.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn write(&self, dir: &Path) -> anyhow::Result<()> {
        let path = dir.join(FILE);
        let fresh = dir.join(format!("{FILE}.new"));
        let text = serde_json::to_string_pretty(self)? + "\n";
        fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, &path)).with_context(|| path.display().to_string())
    }
}
