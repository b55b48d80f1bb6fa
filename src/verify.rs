//! Rebuilds every published number of a run directory from its raw files, and compares to the last bit.
//!
//! It shares with the writer only the definitions of the metrics, the percentiles and other pure statistics, the shape of
//! a row and the hash chain; `windows.jsonl`, `health.jsonl`, `marks.jsonl` it reads as plain JSON. Where the writer lets rows go by and keeps values,
//! this keeps the rows of a window and asks them metric by metric. It needs no network, no clock, and no other file.

mod arrivals;
mod calibrated;
mod client;
mod curves;
mod disclosed;
mod distributions;
mod document;
mod failure;
mod gates;
mod goals;
mod labels;
mod laws;
mod ledger;
mod raw;
mod server;
mod sessions;
mod soak;
mod steady;
#[cfg(test)]
mod tests;
mod trace;
mod turns;
mod window;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::analysis::definitions::{ids, load, noise_gap, rules, wording};
use crate::disclosure::directory::{DIGESTED, Disclosed};
use crate::report::{html, markdown};
use crate::rundir::rows::{self, FileName};
use raw::Raw;

/// What is written last of all into a run directory, in this order.
const REPORTS: [&str; 2] = ["report.md", "report.html"];

/// A directory whose numbers are what its raw files say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Rows whose hash chain holds.
    pub rows: u64,
    /// Windows recomputed.
    pub windows: usize,
    /// Lines of `run.json` and `boxes.json` recomputed and found equal.
    pub lines: usize,
    /// The run came to the point at which its figures are published; one that crashed before has at most some of them.
    pub published: bool,
    /// Files of comparisons with a mock's log that were recomputed too, by whoever has that log.
    pub comparisons: usize,
    /// What a reader must know: half-written last lines, windows without an end.
    pub notes: Vec<String>,
}

impl std::fmt::Display for Verified {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Verified { rows, windows, lines, .. } = self;
        write!(f, "verified: {rows} rows, {windows} windows")?;
        match self.published {
            true => {
                write!(f, ", {lines} lines of run.json and boxes.json, and report.md and report.html, bit for bit")?
            }
            false => write!(f, ", {lines} lines of run.json and boxes.json; the run ended before all was published")?,
        }
        if self.comparisons > 0 {
            write!(f, "; so are the comparisons with the mock's log")?;
        }
        self.notes.iter().try_for_each(|note| write!(f, "\nnote: {note}"))
    }
}

/// The first thing that is not as the raw files say.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Difference {
    /// A stored figure that does not come out again.
    #[error("{file}:{line}: {field}: stored {stored}, recomputed {recomputed}")]
    Value {
        /// Name within the directory.
        file: FileName,
        /// From 1.
        line: usize,
        /// Path of the field, or `h`, `rows`, `last_h`.
        field: String,
        /// What stands there.
        stored: String,
        /// What should.
        recomputed: String,
    },
    /// A line that is no record.
    #[error("{file}:{line}: {text}")]
    Broken {
        /// Name within the directory.
        file: FileName,
        /// From 1.
        line: usize,
        /// What is wrong.
        text: String,
    },
    /// A raw file that is not the one that the report was made of.
    #[error("{file} {text}")]
    Changed {
        /// Name within the directory.
        file: FileName,
        /// How.
        text: &'static str,
    },
    /// A file that is missing or cannot be read.
    #[error("{file}: cannot be read: {text}")]
    Unreadable {
        /// Name within the directory.
        file: FileName,
        /// Why.
        text: String,
    },
}

/// Recomputes `run.json`, `boxes.json`, `report.md` and `report.html` of `dir`, and holds its lines of the campaign ledger against them.
/// A run that crashed has published less, or nothing: what is there is verified.
///
/// # Errors
/// The first difference.
pub fn verify(dir: &Path) -> Result<Verified, Difference> {
    let entry = ledger::read(dir)?;
    let reported = REPORTS.iter().any(|report| dir.join(report).exists());
    let broken_off = entry.as_ref().is_some_and(ledger::Entry::is_unfinished) && !reported;
    // what was not published when the run ended is not missing
    let published = |file: &str| !broken_off || dir.join(file).exists();
    let stored = if published("run.json") { Some(raw::text(dir, "run.json")?) } else { None };
    let mut raw = Raw::read(dir)?;
    if let Some(contradiction) = raw.contradiction.take() {
        return Err(contradiction);
    }
    let mut notes = notes(&raw);
    let mut lines = 0;
    let recomputed = run(&raw);
    if let Some(stored) = &stored {
        lines = document::compare("run.json", stored, &recomputed)?;
    }
    if let Some(entry) = &entry {
        notes.extend(ledger::check(dir, entry, &raw.plan, stored.is_some().then_some(&recomputed))?);
    }
    if !broken_off {
        lines += derived(dir, recomputed)?;
    }
    Ok(Verified { rows: raw.rows, windows: raw.windows.len(), lines, published: !broken_off, comparisons: 0, notes })
}

/// `boxes.json` and the reports are derived: they must be what the recomputed numbers say. Gives the lines of boxes.json.
/// The pictures of `report.html` are drawn of more than run.json holds: that is worked out once again from the raw files,
/// by the code that worked it out before.
fn derived(dir: &Path, recomputed: Value) -> Result<usize, Difference> {
    let [report, page] = REPORTS.map(|file| raw::text(dir, file));
    let (report, boxes, page) = (report?, raw::text(dir, "boxes.json")?, page?);
    let unreadable = |file: &'static str, text: String| Difference::Unreadable { file: file.into(), text };
    let run = serde_json::from_value(recomputed).map_err(|e| unreadable("report.md", e.to_string()))?;
    let disclosed = Disclosed::of_run(dir, &run, None).map_err(|e| unreadable("report.md", e.to_string()))?;
    let rendered = markdown::render(&run, &disclosed);
    files(dir, &report, &rendered)?;
    let filled = serde_json::to_value(&disclosed.boxes).map_err(|e| unreadable("boxes.json", e.to_string()))?;
    let lines = document::compare("boxes.json", &boxes, &filled)?;
    document::compare_text("report.md", &report, &rendered)?;
    let rendered =
        html::of_directory(dir, &run, &disclosed).map_err(|e| unreadable("report.html", format!("{e:#}")))?;
    document::compare_text("report.html", &page, &rendered)?;
    Ok(lines)
}

/// Names the file whose digest, in the report's last section, is not the recomputed one.
fn files(dir: &Path, stored: &str, rendered: &str) -> Result<(), Difference> {
    let digest = |report: &str, file: &str| {
        let (_, section) = report.rsplit_once(markdown::FILES)?;
        let row = section.lines().find_map(|line| line.strip_prefix(&format!("| {file} | ")));
        row.map(str::to_string)
    };
    // a part that is not there any more still stands in the report
    let of_report = |file: &'static str| match file {
        rows::REQUESTS => listed_parts(stored),
        other => vec![other.into()],
    };
    let mut names = rows::with_parts(dir, &DIGESTED);
    names.extend(DIGESTED.into_iter().flat_map(of_report));
    for file in names {
        let text = match (digest(stored, &file), digest(rendered, &file)) {
            (Some(then), Some(now)) if then != now => "was changed: report.md has another SHA-256 of it",
            (Some(_), None) => "is missing: report.md has its SHA-256",
            (None, Some(_)) => "is not in report.md, which lists every file that was there",
            _ => continue,
        };
        return Err(Difference::Changed { file, text });
    }
    Ok(())
}

/// The files of rows that a report's last section names.
fn listed_parts(report: &str) -> Vec<FileName> {
    let section = report.rsplit_once(markdown::FILES).map_or("", |(_, section)| section);
    let names = section.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | ").map(|(name, _)| name));
    names.filter(|name| rows::is_part(rows::REQUESTS, name)).map(|name| name.to_owned().into()).collect()
}

fn notes(raw: &Raw) -> Vec<String> {
    let tails = raw.tails.iter().map(|(file, line)| wording::half_written(file, *line as u64));
    let orphans = raw
        .orphans
        .iter()
        .map(|((cell, window), rows)| format!("cell {cell}, window {window}: {}", wording::window_without_end(*rows)));
    let cut_off = raw.windows.last().filter(|_| raw.cut_off).map(|line| {
        let rows = line["rows"].as_u64().unwrap_or_default();
        format!("cell {}, window {}: {}", line["cell"], line["window"], wording::window_cut_off(rows))
    });
    tails.chain(orphans).chain(cut_off).collect()
}

fn run(raw: &Raw) -> Value {
    let cells = cells(raw);
    let mut verdicts = run_verdicts(raw, &cells);
    let broken_off = verdicts.iter().any(|v| v["kind"] != "failed" && v["kind"] != "invalid");
    let plan = &raw.plan;
    if let Some(text) = calibrated::unusable(plan) {
        verdicts.push(json!({"cell": null, "window": null, "kind": "calibration", "text": text}));
    }
    let planned =
        plan["cells"].as_array().zip(plan["windows"].as_u64()).map(|(c, w)| (c.len() as u64).saturating_mul(w));
    let all_there = !raw.windows.is_empty() && planned.is_none_or(|n| n == raw.windows.len() as u64);
    let complete = all_there && !broken_off;
    let labels = labels::of(plan, &cells, complete);
    let words = |key: &str| plan[key].as_str();
    json!({
        "schema": "tarebench.run/1",
        "tarebench": words("tarebench"),
        "run_id": words("run_id"),
        "plan_hash": words("plan_hash"),
        "started_at": words("started_at"),
        "complete": complete,
        "environment": plan["environment"],
        "calibration": plan["calibration"],
        "cells": cells,
        "curves": curves::of_cells(&cells),
        "verdicts": verdicts,
        "labels": labels,
        "definitions": definitions(),
    })
}

fn cells(raw: &Raw) -> Vec<Value> {
    let mut by_cell: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (index, line) in raw.windows.iter().enumerate() {
        by_cell.entry(line["cell"].as_u64().unwrap_or_default()).or_default().push(index);
    }
    let cell = |(cell, indices): (u64, Vec<usize>)| {
        let load = &raw.windows[indices[0]]["load"];
        let windows: Vec<Value> = indices.iter().map(|i| raw.figures[i].clone()).collect();
        let mut asked = json!({"model": load["model"], "concurrency": load["concurrency"],
            "rate": load["rate"].as_f64(), "arrivals": load["arrivals"]});
        if load["sessions"].is_object() {
            asked["sessions"] = load["sessions"].clone();
        }
        json!({
            "cell": cell,
            "load": asked,
            "windows": windows,
            "noise": noise(&windows),
        })
    };
    by_cell.into_iter().map(cell).collect()
}

/// Metric by metric, column by column: the largest gap over all pairs of windows.
fn noise(windows: &[Value]) -> Value {
    let single = ["upload", "lateness", "dispatch_delay"];
    let mut noise: BTreeMap<String, BTreeMap<String, Value>> = BTreeMap::new();
    for (metric, columns) in windows[0]["metrics"].as_object().into_iter().flatten() {
        let names: Vec<&str> = match columns {
            _ if single.contains(&metric.as_str()) => vec!["value"],
            Value::Object(columns) => columns.keys().map(String::as_str).filter(|name| *name != "calibrated").collect(),
            _ => Vec::new(),
        };
        for name in names {
            let path = if name == "value" { format!("/metrics/{metric}") } else { format!("/metrics/{metric}/{name}") };
            let gap = |p: &str| {
                let key = format!("{path}/{p}_ms");
                let values: Vec<f64> = windows.iter().filter_map(|w| w.pointer(&key)?.as_f64()).collect();
                let mut largest: Option<f64> = None;
                for (i, a) in values.iter().enumerate() {
                    for gap in values[..i].iter().filter_map(|b| noise_gap(*b, *a)) {
                        largest = Some(largest.map_or(gap, |l| l.max(gap)));
                    }
                }
                largest
            };
            let gaps = json!({"p50": gap("p50"), "p95": gap("p95"), "p99": gap("p99")});
            noise.entry(metric.clone()).or_default().insert(name.into(), gaps);
        }
    }
    json!(noise)
}

fn run_verdicts(raw: &Raw, cells: &[Value]) -> Vec<Value> {
    let verdict = |cell: &Value, window: &Value, kind: &str, text: &Value| json!({"cell": cell, "window": window, "kind": kind, "text": text});
    let mut found = Vec::new();
    let of_plan = |key: &str| raw.plan[key].as_f64();
    let asked_s = of_plan("duration_s").or(of_plan("min_duration_s")).unwrap_or(0.0);
    for cell in cells {
        let closed = cell["load"]["model"] == "closed";
        for window in cell["windows"].as_array().into_iter().flatten() {
            let due = window["requests"]["due"].as_u64().unwrap_or(0);
            let lasted_s = window["duration_s"].as_f64().unwrap_or(0.0);
            if window["interrupted"] == true {
                found.push(verdict(&cell["cell"], &window["window"], "interrupted", &json!(wording::interrupted())));
            } else if load::is_used_up(closed, due, lasted_s, asked_s) {
                let text = json!(wording::used_up(due, lasted_s, asked_s));
                found.push(verdict(&cell["cell"], &window["window"], "used_up", &text));
            }
            if let Some(text) = gates::invalid(window) {
                found.push(verdict(&cell["cell"], &window["window"], "invalid", &json!(text)));
            }
            for v in window["verdicts"].as_array().into_iter().flatten().filter(|v| v["kind"] == "failed") {
                found.push(verdict(&cell["cell"], &window["window"], "failed", &v["text"]));
            }
        }
    }
    for ((cell, window), rows) in &raw.orphans {
        let text = json!(wording::window_without_end(*rows));
        found.push(verdict(&json!(cell), &json!(window), "window_without_end", &text));
    }
    if let Some(line) = raw.windows.last().filter(|_| raw.cut_off) {
        let text = json!(wording::window_cut_off(line["rows"].as_u64().unwrap_or_default()));
        found.push(verdict(&line["cell"], &line["window"], "window_without_end", &text));
    }
    for (file, line) in &raw.tails {
        let text = json!(wording::half_written(file, *line as u64));
        found.push(verdict(&Value::Null, &Value::Null, "half_written", &text));
    }
    found
}

fn definitions() -> Value {
    let mut metrics: Vec<&str> = ids::ALL.iter().map(|(metric, ..)| *metric).collect();
    metrics.sort_unstable();
    metrics.dedup();
    let columns = |metric: &str| {
        let mut columns: Vec<_> = ids::ALL.iter().filter(|(m, ..)| *m == metric).map(|(_, c, id)| (*c, *id)).collect();
        columns.sort_unstable();
        columns.into_iter().map(|(column, id)| (column.to_string(), json!(id))).collect::<Map<_, _>>()
    };
    Value::Object(metrics.into_iter().map(|m| (m.to_string(), Value::Object(columns(m)))).collect())
}

/// The share of failed requests above which a window gets a verdict.
fn max_failed(plan: &Value) -> f64 {
    plan["max_failed"].as_f64().unwrap_or(rules::MAX_FAILED)
}
