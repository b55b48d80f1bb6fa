//! A ledger held against the run directories beside it: each has copies of its own lines, so a line that was removed at
//! the end of the ledger, where no later line misses it, is found there.

use super::FILE;
use super::book::{Book, short};
use crate::rundir::digest;
use serde_json::Value;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// What a run directory shows.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// A line that the ledger does not have.
    #[error(
        "{dir}: its {event} line (h {h}) is not in the ledger: it was removed or changed there, or the directory was \
         copied here from elsewhere"
    )]
    Missing {
        /// Seen from the ledger.
        dir: String,
        /// `start` or `end`.
        event: String,
        /// As much of its h as tells it from others.
        h: String,
    },
    /// A file that is not the one its end line speaks of.
    #[error("{dir}/{file}: is not the file that its end line speaks of: SHA-256 {stored} there, {found} here")]
    Swapped {
        /// Seen from the ledger.
        dir: String,
        /// Its name.
        file: String,
        /// By the line.
        stored: String,
        /// Of the file; `nothing` when it cannot be read.
        found: String,
    },
}

/// Where the ledger of `path` is: a ledger itself, a directory with one, or a run directory beside one.
///
/// # Errors
/// There is none; what to do about it.
pub fn find(path: &Path) -> Result<PathBuf, String> {
    if path.is_file() {
        return Ok(path.to_owned());
    }
    let is_run = path.join("plan.json").is_file();
    // two arms share a directory, and the ledger is beside that
    let arms = ["a", "b"].iter().any(|arm| path.join(arm).join("plan.json").is_file());
    let whole = path.canonicalize().map_err(|error| {
        format!("{}: {error}; name a ledger, a directory of runs, or a run directory", path.display())
    })?;
    let above = |levels: usize| whole.ancestors().nth(levels).map(|dir| dir.join(FILE)).filter(|file| file.is_file());
    let here = Some(path.join(FILE)).filter(|file| file.is_file());
    let found = match (is_run, arms) {
        (true, _) if is_arm(path) => above(2).or(here),
        (true, _) => above(1).or(here),
        (false, true) => here.or_else(|| above(1)),
        (false, false) => here,
    };
    found.ok_or_else(|| {
        format!("{}: there is no {FILE} here: `tarebench run` writes it beside its run directory", path.display())
    })
}

fn is_arm(dir: &Path) -> bool {
    let plan = fs::read_to_string(dir.join("plan.json")).ok();
    plan.and_then(|text| serde_json::from_str::<Value>(&text).ok()).is_some_and(|plan| plan["interleave"].is_object())
}

/// The lines that run directories beside a ledger have copies of, as they stood before the ledger itself was read: a
/// campaign writes into the ledger first.
#[derive(Clone, Debug, Default)]
pub struct Copies {
    /// Directory, event and h.
    lines: Vec<(String, String, String)>,
}

impl Copies {
    /// Reads those beside the ledger at `path`.
    pub fn beside(path: &Path) -> Copies {
        let mut copies = Copies::default();
        let Some(beside) = directory_of(path) else { return copies };
        for name in run_directories(&beside) {
            for line in lines(&beside.join(&name).join(FILE)) {
                let word = |key: &str| line[key].as_str().map(str::to_owned);
                // null: it could not be written there in the first place
                if let (Some(event), Some(h)) = (word("event"), word("h")) {
                    copies.lines.push((name.clone(), event, h));
                }
            }
        }
        copies
    }

    /// Those that the ledger does not have.
    pub fn missing(&self, book: &Book) -> Vec<Fault> {
        let missing = self.lines.iter().filter(|(.., h)| !book.hashes.contains(h));
        let fault = |(dir, event, h): &(String, String, String)| Fault::Missing {
            dir: dir.clone(),
            event: event.clone(),
            h: short(h).to_owned(),
        };
        missing.map(fault).collect()
    }
}

/// Files of run directories beside the ledger at `path` that are not those of their end lines.
pub fn swapped_files(path: &Path, book: &Book) -> Vec<Fault> {
    let Some(beside) = directory_of(path) else { return Vec::new() };
    let mut faults = Vec::new();
    for campaign in &book.campaigns {
        let (Some(name), Some(end)) = (campaign.started("dir"), &campaign.end) else { continue };
        let dir = beside.join(name);
        // one that was removed, or used again for another run, has nothing to say of this one
        if run_id(&dir).as_deref() == Some(&campaign.run_id) {
            faults.extend(swapped(name, &dir, end));
        }
    }
    faults
}

/// Where the run directories of a ledger are; None for the copy in a run directory that stands alone.
fn directory_of(path: &Path) -> Option<PathBuf> {
    let beside = path.canonicalize().ok()?.parent()?.to_owned();
    (!beside.join("plan.json").is_file()).then_some(beside)
}

fn run_id(dir: &Path) -> Option<String> {
    let line = lines(&dir.join(FILE)).into_iter().next()?;
    line["run_id"].as_str().map(str::to_owned)
}

fn swapped(name: &str, dir: &Path, end: &Value) -> Vec<Fault> {
    let differs = |(file, stored): (&String, &Value)| {
        let stored = stored.as_str().unwrap_or_default();
        let found = digest::of_file(&dir.join(file)).unwrap_or_else(|_: io::Error| "nothing".to_owned());
        let (dir, file) = (name.to_owned(), file.clone());
        (found != stored).then(|| Fault::Swapped {
            dir,
            file,
            stored: short(stored).to_owned(),
            found: short(&found).to_owned(),
        })
    };
    end["files"].as_object().into_iter().flatten().filter_map(differs).collect()
}

/// Run directories below `beside`, arms of one among them, in order of their names.
fn run_directories(beside: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(beside).into_iter().flatten().flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
    names.sort();
    let arms = |name: &String| [name.clone(), format!("{name}/a"), format!("{name}/b")];
    let is_run = |name: &String| beside.join(name).join("plan.json").is_file();
    names.iter().flat_map(arms).filter(is_run).collect()
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}
