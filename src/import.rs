//! Latencies that another tool recorded, for analysis by this project's rules: percentiles with their intervals, what
//! the sample does not carry left out, and the figures that the file itself publishes held against its records.

mod delimited;
mod figures;
mod study;

use std::io::Read;
use std::path::Path;

use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::workload::hex;

pub use delimited::Columns;
pub use figures::{ChainLength, Chained, Imported, Published, Sample, Statistics};

/// A request as another tool recorded it. Times in ms; None where the file has none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// Time to first token.
    pub ttft_ms: Option<f64>,
    /// Time to the end.
    pub total_ms: Option<f64>,
    /// Longest gap.
    pub max_gap_ms: Option<f64>,
    /// Tokens of the answer.
    pub completion_tokens: Option<u64>,
    /// It failed.
    pub error: Option<String>,
    /// It was given up after so long: its total is longer.
    pub abandoned_after_ms: Option<f64>,
}

impl Record {
    /// It has an answer, and counts.
    pub fn is_ok(&self) -> bool {
        self.error.is_none() && self.abandoned_after_ms.is_none()
    }
}

/// Records of one load, as they stand in a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// What the file calls it.
    pub name: String,
    /// In the order of the file.
    pub records: Vec<Record>,
    /// Figures that the file publishes of it: metric, figure, value.
    pub published: Vec<(String, String, f64)>,
}

/// Calls that depend on each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chain {
    /// As the file has it.
    pub total_ms: Option<f64>,
    /// Its calls, in order.
    pub calls: Vec<Record>,
}

/// What was read from a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// Form in which it is written.
    pub form: &'static str,
    /// Times of which nothing told the unit were taken as ms.
    pub unit_assumed: bool,
    /// What the file says of itself: model, time, ..
    pub facts: Vec<(String, String)>,
    /// Loads, in the order of the file, those of numbers by number.
    pub groups: Vec<Group>,
    /// Chains, when it has some.
    pub chains: Vec<Chain>,
    /// Figures that the file publishes of its chains.
    pub chains_published: Vec<(String, f64)>,
}

/// A file that cannot be read.
#[derive(Debug, Error)]
pub enum BadRecording {
    /// Not there, or no text.
    #[error("{file}: {text}")]
    Unreadable {
        /// As given.
        file: String,
        /// Why.
        text: String,
    },
    /// A place that is not as it must be.
    #[error("{file}:{line}: {text}")]
    Line {
        /// As given.
        file: String,
        /// From 1.
        line: usize,
        /// What is wrong.
        text: String,
    },
    /// No form that is known.
    #[error("{file}: {text}")]
    Form {
        /// As given.
        file: String,
        /// What was looked for.
        text: String,
    },
}

/// Largest file that is read: records are kept in memory.
const LARGEST_BYTES: u64 = 1 << 30;

impl Imported {
    /// Reads and analyses a file of records: a JSON document or lines of JSON by their content, else delimited text.
    ///
    /// # Errors
    /// [`BadRecording`] names file, and line where there is one.
    pub fn from_file(path: &Path, columns: &Columns) -> Result<Imported, BadRecording> {
        let file = path.display().to_string();
        let unreadable = |text: String| BadRecording::Unreadable { file: file.clone(), text };
        let size = std::fs::metadata(path).map_err(|e| unreadable(e.to_string()))?;
        if size.is_dir() {
            return Err(unreadable("is a directory; name the file with the records in it".into()));
        }
        // a pipe, or a device without an end, has no size to go by
        let mut bytes = Vec::new();
        let open = std::fs::File::open(path).map_err(|e| unreadable(e.to_string()))?;
        open.take(LARGEST_BYTES + 1).read_to_end(&mut bytes).map_err(|e| unreadable(e.to_string()))?;
        if bytes.len() as u64 > LARGEST_BYTES {
            return Err(unreadable(format!("has more than {LARGEST_BYTES} bytes, the most that are read")));
        }
        let sha256 = hex(&Sha256::digest(&bytes));
        let text = String::from_utf8(bytes).map_err(|e| {
            let at = e.utf8_error().valid_up_to();
            unreadable(format!("is not UTF-8 at byte {at}; convert it first, for example with iconv -t utf-8"))
        })?;
        Ok(Imported::of(&read(&text, &file, columns)?, &file, sha256))
    }
}

/// What a file holds, of its text.
fn read(text: &str, file: &str, columns: &Columns) -> Result<Recording, BadRecording> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let recording = match text.trim_start().chars().next() {
        None => return Err(BadRecording::Form { file: file.into(), text: "is empty".into() }),
        Some('{' | '[') => study::read(text, file)?,
        Some(_) => delimited::read(text, file, columns)?,
    };
    if recording.groups.iter().all(|g| g.records.is_empty()) && recording.chains.is_empty() {
        return Err(BadRecording::Form { file: file.into(), text: "holds no record".into() });
    }
    Ok(recording)
}

#[cfg(test)]
mod tests;
