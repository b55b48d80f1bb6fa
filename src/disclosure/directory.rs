//! The boxes of a run directory: what they need of its files, read once.

use std::io;
use std::path::Path;

use serde_json::Value;
use thiserror::Error;

use super::boxes::{Boxes, Facts, Fault, fill};
use crate::analysis::summary::{SummaryError, summarise};
use crate::rundir::digest;
use crate::rundir::rows::{self, FileName};
use crate::rundir::run_json::RunJson;

/// Files of a run directory whose digests are published, those that exist, with every further file of rows; `boxes.json` and the reports are made of
/// them. These are not here: each report would have to hold the digest of the other, and they need none, since `verify`
/// makes them again and compares.
pub const DIGESTED: [&str; 15] = [
    "plan.json",
    "requests.jsonl",
    "windows.jsonl",
    "health.jsonl",
    "server-metrics.jsonl",
    "trace.jsonl",
    "marks.jsonl",
    "window.open.json",
    "ledger.jsonl",
    "truth.jsonl",
    "canary.jsonl",
    "canary-truth.jsonl",
    "run.json",
    "closure.json",
    "canary.json",
];

/// What a report of a run is made of.
#[derive(Clone, Debug)]
pub struct Disclosed {
    /// `plan.json`.
    pub plan: Value,
    /// Digests of [`DIGESTED`].
    pub digests: Vec<(FileName, String)>,
    /// The boxes.
    pub boxes: Boxes,
}

/// Why a directory cannot be disclosed at all.
#[derive(Debug, Error)]
pub enum NotDisclosed {
    /// A file that cannot be read.
    #[error("{file}: {source}; is this a run directory?")]
    Unreadable {
        /// Which.
        file: FileName,
        /// Why.
        source: io::Error,
    },
    /// Neither the raw files nor `run.json` give figures.
    #[error("{raw}; nor does run.json serve instead: {stored}")]
    NoFigures {
        /// What is wrong with the raw files.
        raw: SummaryError,
        /// What is wrong with `run.json`.
        stored: String,
    },
}

impl Disclosed {
    /// Reads what the boxes of `run` need. `fault` is what is wrong with the raw files.
    ///
    /// # Errors
    /// A file that is there but cannot be read, a plan that is none.
    pub fn of_run(dir: &Path, run: &RunJson, fault: Option<&Fault>) -> Result<Disclosed, NotDisclosed> {
        let unreadable =
            |file: &'static str| move |source: io::Error| NotDisclosed::Unreadable { file: file.into(), source };
        let plan = std::fs::read_to_string(dir.join("plan.json")).map_err(unreadable("plan.json"))?;
        let plan: Value = serde_json::from_str(&plan).map_err(|e| unreadable("plan.json")(e.into()))?;
        let mut digests = Vec::new();
        for file in rows::with_parts(dir, &DIGESTED) {
            match digest::of_file(&dir.join(&*file)) {
                Ok(found) => digests.push((file, found)),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(NotDisclosed::Unreadable { file, source }),
            }
        }
        let ledger = ledger(dir).map_err(unreadable("ledger.jsonl"))?;
        let facts = Facts { run, plan: &plan, ledger: ledger.as_deref(), digests: &digests, fault };
        let boxes = fill(&facts);
        Ok(Disclosed { plan, digests, boxes })
    }

    /// Of a run without a directory.
    #[cfg(test)]
    pub(crate) fn in_memory(run: &RunJson) -> Disclosed {
        let (plan, digests) = (serde_json::json!({}), vec![("requests.jsonl".into(), "0".repeat(64))]);
        let boxes = fill(&Facts { run, plan: &plan, ledger: None, digests: &digests, fault: None });
        Disclosed { plan, digests, boxes }
    }

    /// The same of a directory, with its run: from the raw files; where they do not give figures, from `run.json`, and
    /// the boxes say what is wrong.
    ///
    /// # Errors
    /// [`NotDisclosed`].
    pub fn of_directory(dir: &Path) -> Result<(RunJson, Disclosed), NotDisclosed> {
        let (run, fault) = match summarise(dir) {
            Ok(run) => (run, None),
            Err(raw) => {
                let fault = match &raw {
                    SummaryError::Counts { .. } => Fault::Counts(raw.to_string()),
                    _ => Fault::Records(raw.to_string()),
                };
                let stored = std::fs::read_to_string(dir.join("run.json")).map_err(|e| e.to_string());
                let stored = stored.and_then(|text| serde_json::from_str(&text).map_err(|e| e.to_string()));
                match stored {
                    Ok(run) => (run, Some(fault)),
                    Err(stored) => return Err(NotDisclosed::NoFigures { raw, stored }),
                }
            }
        };
        let disclosed = Disclosed::of_run(dir, &run, fault.as_ref())?;
        Ok((run, disclosed))
    }
}

/// Lines of the run's own ledger that are whole; None where there is no such file.
fn ledger(dir: &Path) -> io::Result<Option<Vec<Value>>> {
    match std::fs::read_to_string(dir.join("ledger.jsonl")) {
        Ok(text) => Ok(Some(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}
