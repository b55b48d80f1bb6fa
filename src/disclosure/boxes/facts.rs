//! What the boxes are filled from, and how it is looked up.

use serde_json::Value;

use super::printable;
use crate::analysis::definitions::wording::nominal;
use crate::report::quantity::rate;
use crate::rundir::rows::{self, FileName};
use crate::rundir::run_json::{Cell, RunJson, Window};
use crate::rundir::sessions::Sessions;
use crate::rundir::window::{Load, LoadModel};

/// Longest piece of text that a server or a flag brings into a sentence, in characters.
const LONGEST: usize = 80;

/// Everything that the boxes are a function of.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// `run.json`.
    pub run: &'a RunJson,
    /// `plan.json`.
    pub plan: &'a Value,
    /// Lines of the run's own `ledger.jsonl`; None where there is no such file.
    pub ledger: Option<&'a [Value]>,
    /// Name and SHA-256 (hex) of the files that are there.
    pub digests: &'a [(FileName, String)],
    /// What is wrong with the raw files, when something is.
    pub fault: Option<&'a Fault>,
}

/// Why the raw files do not carry what is said of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Counts of a window do not close.
    Counts(String),
    /// A raw file is missing, broken or changed.
    Records(String),
}

/// The facts, and how they are asked.
pub(super) struct Sheet<'a> {
    pub(super) run: &'a RunJson,
    pub(super) plan: &'a Value,
    pub(super) ledger: Option<&'a [Value]>,
    digests: &'a [(FileName, String)],
    pub(super) fault: Option<&'a Fault>,
}

/// A window with its load.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) cell: &'a Cell,
    pub(super) window: &'a Window,
}

impl<'a> Sheet<'a> {
    pub(super) fn of(facts: &Facts<'a>) -> Sheet<'a> {
        let Facts { run, plan, ledger, digests, fault } = *facts;
        Sheet { run, plan, ledger, digests, fault }
    }

    /// All windows, load by load.
    pub(super) fn places(&self) -> Vec<Place<'_>> {
        let of_cell = |cell: &'a Cell| cell.windows.iter().map(move |window| Place { cell, window });
        self.run.cells.iter().flat_map(of_cell).collect()
    }

    pub(super) fn sum(&self, of: impl Fn(&Window) -> u64) -> u64 {
        self.places().iter().map(|p| of(p.window)).fold(0, u64::saturating_add)
    }

    /// Windows whose requests are turns of sessions.
    pub(super) fn sessions(&self) -> Vec<&Sessions> {
        self.run.cells.iter().flat_map(|cell| &cell.windows).filter_map(|window| window.sessions.as_ref()).collect()
    }

    pub(super) fn digest(&self, file: &str) -> Option<&str> {
        self.digests.iter().find(|(name, _)| *name == file).map(|(_, digest)| digest.as_str())
    }

    /// The files of rows, in order, with their digests.
    pub(super) fn row_files(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.digests.iter().filter(|(name, _)| rows::is_part(rows::REQUESTS, name));
        all.map(|(name, digest)| (&**name, digest.as_str()))
    }

    pub(super) fn environment(&self, path: &str) -> &Value {
        self.run.environment.pointer(path).unwrap_or(&Value::Null)
    }

    /// What the operator said under `key`; an empty word says nothing.
    pub(super) fn said(&self, key: &str) -> Option<&str> {
        self.plan["declared"][key].as_str().filter(|words| !words.trim().is_empty())
    }

    /// `; declared, not measured: region nyc2`, or nothing.
    pub(super) fn declared(&self, keys: &[&str]) -> String {
        let said: Vec<String> = keys
            .iter()
            .filter_map(|key| Some(format!("{} {}", key.replace('-', " "), short(self.said(key)?))))
            .collect();
        if said.is_empty() { String::new() } else { format!("; declared, not measured: {}", said.join(", ")) }
    }
}

/// Foreign text as it may stand in a sentence.
pub(super) fn short(text: &str) -> String {
    let clean = printable(text);
    match clean.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}...", &clean[..at]),
        None => clean,
    }
}

/// A scalar as it may stand in a sentence; None of null, lists and objects.
pub(super) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(short(text)),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

/// `5.00 ms`, or `5.00 ms to 8.10 ms`, of the figures there are.
pub(super) fn range(figures: impl IntoIterator<Item = f64>, show: impl Fn(f64) -> String) -> Option<String> {
    let figures: Vec<f64> = figures.into_iter().collect();
    let least = figures.iter().copied().reduce(f64::min)?;
    let most = figures.iter().copied().reduce(f64::max)?;
    let (least, most) = (show(least), show(most));
    Some(if least == most { least } else { format!("{least} to {most}") })
}

/// `8 at once`, `12.5 requests/s`.
pub(super) fn load(load: &Load) -> String {
    if let Some(of_sessions) = crate::report::sessions::of_load(load) {
        return of_sessions;
    }
    let at_once = load.concurrency.map(|c| c.to_string());
    let course = load.arrivals.as_ref().map_or_else(String::new, |words| format!(" ({words})"));
    match (load.model, load.rate) {
        (LoadModel::Closed, _) => format!("{} at once", at_once.unwrap_or_else(|| "?".into())),
        (LoadModel::Open, Some(per_s)) => {
            format!(
                "{} requests/s{course}{}",
                nominal(per_s),
                at_once.map_or_else(String::new, |c| format!(" with at most {c} at once"))
            )
        }
        (LoadModel::Open, None) => {
            format!("all at once{course}{}", at_once.map_or_else(String::new, |c| format!(", at most {c}")))
        }
        (LoadModel::Trace, per_s) => {
            let mean = per_s.map_or_else(String::new, |_| format!(" of {} requests/s", rate(per_s)));
            format!(
                "a captured trace{mean}{course}{}",
                at_once.map_or_else(String::new, |c| format!(" with at most {c} at once"))
            )
        }
    }
}

/// `1 request`, `1,800 requests`.
pub(super) fn plural(n: u64, noun: &str) -> String {
    let count = crate::report::quantity::count(n);
    if n == 1 { format!("{count} {noun}") } else { format!("{count} {noun}s") }
}
