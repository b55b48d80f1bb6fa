//! One side of a comparison: the windows of one or several runs of one plan, by load.
//!
//! Read from `run.json` as plain JSON, so that a field which another version adds does not matter here.

use super::metric::Metric;
use crate::rundir::run_json::SCHEMA;
use crate::rundir::window::Load;
use serde_json::Value;
use thiserror::Error;

/// What is compared of a run directory.
#[derive(Clone, Debug, PartialEq)]
pub struct RunDocuments {
    /// As people named the directory.
    pub dir: String,
    /// `plan.json`.
    pub plan: Value,
    /// `run.json`.
    pub run: Value,
}

impl RunDocuments {
    /// Run id; the directory's name where there is none.
    pub fn run_id(&self) -> &str {
        self.run["run_id"].as_str().unwrap_or(&self.dir)
    }

    /// Wall clock at the start, as recorded.
    pub fn started_at(&self) -> Option<&str> {
        self.run["started_at"].as_str()
    }
}

/// One side.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// Its runs, as given.
    pub runs: Vec<RunDocuments>,
    /// Its load points, in the order in which they are met.
    pub cells: Vec<ArmCell>,
    /// Windows that are not compared, and why.
    pub left_out: Vec<String>,
}

/// All windows at one load.
#[derive(Clone, Debug, PartialEq)]
pub struct ArmCell {
    /// What was asked.
    pub load: Load,
    /// By run, then in order of time.
    pub windows: Vec<ArmWindow>,
}

/// One window: the unit of every test.
#[derive(Clone, Debug, PartialEq)]
pub struct ArmWindow {
    /// Index of its run in [`Arm::runs`].
    pub run: usize,
    /// Its load point in that run.
    pub cell: u32,
    /// Its number there.
    pub window: u32,
    /// What `run.json` says of it.
    pub document: Value,
    /// Why the client could not measure in it.
    pub invalid: Option<String>,
    /// Why its latencies are those of survivors.
    pub failed: Option<String>,
    /// Whether the server stayed the same while it lasted.
    pub drift: Drift,
}

/// What `run.json` says of a window's drift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drift {
    /// Tested, and found the same throughout.
    Steady,
    /// Found to change.
    Drifting,
    /// Too short to tell.
    TooShort,
    /// Not said.
    Unknown,
}

/// Why there is no figure in a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoFigure {
    /// Withheld, since the client was not fit: what the gate says.
    Withheld(String),
    /// Fewer requests than it needs.
    TooFew {
        /// There are.
        n: u64,
        /// There must be.
        smallest: u64,
    },
    /// It was not measured.
    Absent,
}

/// A directory whose documents are not those of a run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoArm {
    /// Not a `run.json` that is understood.
    #[error("{dir}: run.json has the schema {found}, not {SCHEMA}: was it written by another version of tarebench?")]
    Schema {
        /// Which directory.
        dir: String,
        /// What it says.
        found: String,
    },
    /// Something in it is not what it must be.
    #[error("{dir}: run.json: {what}; tarebench verify {dir} says more")]
    Malformed {
        /// Which directory.
        dir: String,
        /// What is wrong.
        what: String,
    },
    /// The same measurements twice.
    #[error("{first} and {second} are the same run ({run_id}): windows counted twice are no evidence")]
    Twice {
        /// One directory.
        first: String,
        /// The other.
        second: String,
        /// Of both.
        run_id: String,
    },
}

impl Arm {
    /// The windows of these runs, by load. Windows that were interrupted are left out.
    ///
    /// # Errors
    /// [`NoArm`].
    pub fn of(runs: Vec<RunDocuments>) -> Result<Arm, NoArm> {
        let (mut cells, mut left_out) = (Vec::new(), Vec::new());
        for (index, run) in runs.iter().enumerate() {
            if let Some(first) = runs[..index].iter().find(|other| other.run_id() == run.run_id()) {
                return Err(twice(first, run));
            }
            take_run(run, index, &mut cells, &mut left_out)?;
        }
        Ok(Arm { runs, cells, left_out })
    }

    /// Whether a run stands on both sides.
    ///
    /// # Errors
    /// [`NoArm::Twice`].
    pub fn is_apart_from(&self, other: &Arm) -> Result<(), NoArm> {
        let pairs = self.runs.iter().flat_map(|a| other.runs.iter().map(move |b| (a, b)));
        pairs.filter(|(a, b)| a.run_id() == b.run_id()).map(|(a, b)| Err(twice(a, b))).next().unwrap_or(Ok(()))
    }

    /// Where a window stands, in words: `window 1 of runs/a`.
    pub(super) fn place(&self, window: &ArmWindow) -> String {
        let dir = self.runs.get(window.run).map_or("", |run| run.dir.as_str());
        format!("window {} of {dir}", window.window)
    }
}

fn twice(first: &RunDocuments, second: &RunDocuments) -> NoArm {
    NoArm::Twice { first: first.dir.clone(), second: second.dir.clone(), run_id: first.run_id().to_owned() }
}

fn take_run(
    run: &RunDocuments,
    index: usize,
    cells: &mut Vec<ArmCell>,
    left_out: &mut Vec<String>,
) -> Result<(), NoArm> {
    let malformed = |what: String| NoArm::Malformed { dir: run.dir.clone(), what };
    let schema = &run.run["schema"];
    if schema.as_str() != Some(SCHEMA) {
        return Err(NoArm::Schema { dir: run.dir.clone(), found: schema.to_string() });
    }
    let found = run.run["cells"].as_array().ok_or_else(|| malformed("it has no list of load points (cells)".into()))?;
    if found.is_empty() {
        return Err(malformed("no window was measured".into()));
    }
    for cell in found {
        let load: Load = serde_json::from_value(cell["load"].clone())
            .map_err(|e| malformed(format!("a load point is not understood: {e}")))?;
        let number = |value: &Value, what: &str| {
            let number = value.as_u64().and_then(|n| u32::try_from(n).ok());
            number.ok_or_else(|| malformed(format!("a {what} has no number")))
        };
        let cell_number = number(&cell["cell"], "load point")?;
        let windows = cell["windows"].as_array().ok_or_else(|| malformed("a load point has no windows".into()))?;
        for document in windows {
            let window = number(&document["window"], "window")?;
            let said = |kind: &str| {
                let verdicts = run.run["verdicts"].as_array().into_iter().flatten();
                let mut of_window = verdicts.filter(|v| v["cell"] == cell["cell"] && v["window"] == document["window"]);
                let text = of_window.find(|v| v["kind"] == kind)?["text"].as_str();
                Some(text.unwrap_or(kind).to_owned())
            };
            if document["interrupted"] == true {
                left_out.push(format!("{}: window {window} was interrupted and is left out", run.dir));
                continue;
            }
            let taken = ArmWindow {
                run: index,
                cell: cell_number,
                window,
                document: document.clone(),
                invalid: said("invalid"),
                failed: said("failed"),
                drift: drift(&document["steady"]),
            };
            match cells.iter_mut().find(|c: &&mut ArmCell| c.load == load) {
                Some(known) => known.windows.push(taken),
                None => cells.push(ArmCell { load: load.clone(), windows: vec![taken] }),
            }
        }
    }
    Ok(())
}

fn drift(steady: &Value) -> Drift {
    match steady["drift"].as_str() {
        Some("drifting") => Drift::Drifting,
        Some("steady") => Drift::Steady,
        Some("too_short_to_tell") => Drift::TooShort,
        _ => Drift::Unknown,
    }
}

impl ArmWindow {
    /// The value of a metric in this window.
    pub(super) fn figure(&self, metric: &Metric, load: &Load) -> Result<f64, NoFigure> {
        if let Some(value) = self.document.pointer(&metric.pointer(load.model)).and_then(Value::as_f64) {
            return Ok(value);
        }
        let verdicts = self.document["verdicts"].as_array().into_iter().flatten();
        let withheld = verdicts.filter(|v| v["kind"] == "withheld").find(|v| {
            let word = |key: &str| v[key].as_str().unwrap_or("*");
            metric.is_meant(load.model, word("metric"), word("column"), v["percentile"].as_str())
        });
        if let Some(verdict) = withheld {
            return Err(NoFigure::Withheld(verdict["text"].as_str().unwrap_or("withheld").to_owned()));
        }
        let n = self.document.pointer(&metric.column_pointer(load.model)).and_then(|d| d["n"].as_u64());
        match n {
            Some(n) if n < metric.smallest_n() => Err(NoFigure::TooFew { n, smallest: metric.smallest_n() }),
            _ => Err(NoFigure::Absent),
        }
    }

    /// The harness's own share of a metric, in ms.
    pub(super) fn tare(&self, metric: &Metric) -> Option<f64> {
        self.document.pointer(&metric.tare_pointer()?)?.as_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_said_of_drift() {
        let of = |word: &str| drift(&json!({"drift": word, "ttft": {"drift": "drifting"}}));
        assert_eq!(drift(&Value::Null), Drift::Unknown);
        assert_eq!(["drifting", "steady"].map(of), [Drift::Drifting, Drift::Steady]);
        assert_eq!(["too_short_to_tell", "withheld"].map(of), [Drift::TooShort, Drift::Unknown]);
    }

    #[test]
    fn documents_that_are_none_of_a_run() {
        let of = |run: Value| {
            let runs = vec![RunDocuments { dir: "d".into(), plan: Value::Null, run }];
            Arm::of(runs).expect_err("not a run").to_string()
        };
        assert!(of(json!(null)).contains("schema null"));
        assert!(of(json!({"schema": SCHEMA})).contains("no list of load points"));
        assert!(of(json!({"schema": SCHEMA, "cells": []})).contains("no window was measured"));
        assert!(of(json!({"schema": SCHEMA, "cells": [{}]})).contains("a load point is not understood"));
        let load = json!({"model": "closed", "concurrency": 1, "rate": null});
        assert!(of(json!({"schema": SCHEMA, "cells": [{"cell": 0, "load": load}]})).contains("has no windows"));
        let cell = json!({"cell": 0, "load": load, "windows": [{"window": -1}]});
        assert!(of(json!({"schema": SCHEMA, "cells": [cell]})).contains("a window has no number"));
    }
}
