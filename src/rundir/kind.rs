//! What lies where people say that a run is: a run, or something else that is worth a word.

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Files of which a run directory has at least one, however early the run ended.
const OF_A_RUN: [&str; 4] = ["plan.json", "requests.jsonl", "windows.jsonl", "run.json"];
/// Said where nothing better is known.
const WANTED: &str = "what is wanted is a run directory, as tarebench run names it at its end, by default in runs/";

/// What lies at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The directory of a run, whole or not.
    Run,
    /// That of a search by `saturate`; the first window of it, when there is one.
    Search(Option<PathBuf>),
    /// That in which the two arms of `run --interleave` lie.
    Arms,
    /// A calibration.
    Calibration,
    /// Where run directories lie; the last of them by its name, when there is one.
    Home(Option<PathBuf>),
    /// A file; the run directory it lies in, when that is one.
    File(Option<PathBuf>),
    /// A directory with nothing in it.
    Empty,
    /// Nothing.
    Missing,
    /// It cannot be looked at, for this reason.
    Unreadable(ErrorKind),
    /// Any other directory.
    Other,
}

/// What was given is no run directory. Says what it is, and what to give instead.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct NotARun {
    /// As given.
    pub path: PathBuf,
    /// What lies there.
    pub kind: Kind,
}

impl Kind {
    /// What lies at `path`.
    pub fn of(path: &Path) -> Kind {
        let has = |name: &str| path.join(name).exists();
        match fs::metadata(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Kind::Missing,
            Err(e) if e.kind() == ErrorKind::NotADirectory => return Kind::Missing,
            Err(e) => return Kind::Unreadable(e.kind()),
            Ok(found) if !found.is_dir() => {
                let above =
                    path.parent().map(|above| if above.as_os_str().is_empty() { Path::new(".") } else { above });
                return Kind::File(above.filter(|above| Kind::of(above) == Kind::Run).map(Path::to_owned));
            }
            Ok(_) => {}
        }
        match () {
            () if OF_A_RUN.into_iter().any(has) => Kind::Run,
            () if has("search.json") => Kind::Search(runs_in(&path.join("steps")).into_iter().next()),
            () if has("a/plan.json") || has("b/plan.json") => Kind::Arms,
            () if has("calibration.json") => Kind::Calibration,
            () => match (fs::read_dir(path), runs_in(path).pop()) {
                (Err(e), _) => Kind::Unreadable(e.kind()),
                (Ok(_), last @ Some(_)) => Kind::Home(last),
                (Ok(_), None) if has("ledger.jsonl") => Kind::Home(None),
                (Ok(mut entries), None) => {
                    if entries.next().is_none() {
                        Kind::Empty
                    } else {
                        Kind::Other
                    }
                }
            },
        }
    }

    /// Nothing where a run directory lies at `path`.
    ///
    /// # Errors
    /// [`NotARun`].
    pub fn must_be_a_run(path: &Path) -> Result<(), NotARun> {
        match Kind::of(path) {
            Kind::Run => Ok(()),
            kind => Err(NotARun { path: path.to_owned(), kind }),
        }
    }
}

/// Run directories in `dir`, by name.
pub fn runs_in(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut runs: Vec<PathBuf> =
        entries.filter(|path| path.is_dir() && OF_A_RUN.iter().any(|name| path.join(name).exists())).collect();
    runs.sort();
    runs
}

impl fmt::Display for NotARun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.kind {
            Kind::Run => write!(f, "{path} is a run directory"),
            Kind::Search(step) => {
                write!(f, "{path} is a search by tarebench saturate, whose windows are each a run of its own: ")?;
                match step {
                    Some(step) => write!(f, "give one of those in {path}/steps, like {}", step.display())?,
                    None => write!(f, "it has none yet")?,
                }
                write!(f, " (of the search itself there are tarebench report {path} and tarebench verify {path})")
            }
            Kind::Arms => write!(
                f,
                "{path} holds the two arms of a run with --interleave, each in a run directory: give {path}/a or {path}/b, or \
                 both to tarebench compare"
            ),
            Kind::Calibration => write!(
                f,
                "{path} is a calibration, whose steps are each a run of its own: give one of the directories in it \
                 (tarebench calibrate --show {path} shows the calibration)"
            ),
            Kind::Home(Some(last)) => {
                write!(f, "{path} is where run directories lie: give one of them, like {}", last.display())
            }
            Kind::Home(None) => write!(f, "{path} has a ledger of runs and none of their directories; {WANTED}"),
            Kind::File(Some(run)) => write!(f, "{path} is a file of a run: give its directory, {}", run.display()),
            Kind::File(None) => write!(f, "{path} is a file; {WANTED}"),
            Kind::Empty => write!(f, "{path} is empty; {WANTED}"),
            Kind::Missing => write!(f, "{path}: no such directory; {WANTED}"),
            Kind::Unreadable(why) => write!(f, "{path} cannot be read: {why}"),
            Kind::Other => {
                write!(f, "{path} is no run directory: it has neither plan.json nor requests.jsonl; {WANTED}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_run_is_named_and_what_to_give_instead() {
        let root = tempfile::tempdir().expect("a directory");
        let at = |name: &str| root.path().join(name);
        let put = |name: &str| {
            let path = at(name);
            fs::create_dir_all(path.parent().expect("one above")).expect("made");
            fs::write(path, "{}").expect("written");
        };
        for name in [
            "run/plan.json",
            "killed/requests.jsonl",
            "search/search.json",
            "search/steps/01-x/plan.json",
            "search/steps/00-x/plan.json",
            "both/a/plan.json",
            "both/b/plan.json",
            "weighed/calibration.json",
            "home/2026/plan.json",
            "home/2027/plan.json",
            "home/ledger.jsonl",
            "left/ledger.jsonl",
            "other/x.txt",
        ] {
            put(name);
        }
        fs::create_dir(at("empty")).expect("made");
        assert_eq!(Kind::must_be_a_run(&at("run")), Ok(()));
        assert_eq!(Kind::must_be_a_run(&at("killed")), Ok(()), "its damage is told of elsewhere");
        for (name, words, instead) in [
            ("search", "is a search by tarebench saturate", "search/steps/00-x (of the search itself"),
            ("both", "holds the two arms", "both/a or "),
            ("weighed", "is a calibration", "calibrate --show"),
            ("home", "is where run directories lie", "home/2027"),
            ("left", "has a ledger of runs and none", "in runs/"),
            ("run/plan.json", "is a file of a run", "give its directory, "),
            ("other/x.txt", "is a file; ", "in runs/"),
            ("empty", "is empty; ", "in runs/"),
            ("nothing", "no such directory", "in runs/"),
            ("other/x.txt/below", "no such directory", "in runs/"),
            ("other", "it has neither plan.json nor requests.jsonl", "in runs/"),
        ] {
            let said = Kind::must_be_a_run(&at(name)).expect_err(name).to_string();
            assert!(said.starts_with(&at(name).display().to_string()), "{said}");
            assert!(said.contains(words) && said.contains(instead), "{name}: {said}");
        }
    }
}
