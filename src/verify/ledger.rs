//! The run directory's copies of its lines in the campaign ledger: what they say against the plan, the files and the
//! recomputed figures, and, where the ledger itself is still beside the directory, against that.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use rand_core::Rng;
use rand_pcg::Pcg64;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{Difference, raw};
use crate::rundir::chain::Chain;

const FILE: &str = "ledger.jsonl";
const BESIDE: &str = "../ledger.jsonl";
/// Files that every end line speaks of; others when they are there.
const ALWAYS: [&str; 5] = ["plan.json", "requests.jsonl", "windows.jsonl", "health.jsonl", "run.json"];
/// Fields that the start line has from the plan's document as they stand there.
const OF_PLAN: [&str; 6] = ["run_id", "tarebench", "plan_hash", "base_url", "model", "trace_hash"];

/// The lines of a run directory.
pub(super) struct Entry {
    pub(super) start: Value,
    /// None: the run crashed, was killed, or is still running.
    pub(super) end: Option<Value>,
    /// As they stand there.
    texts: Vec<String>,
}

impl Entry {
    /// The campaign did not come to the point at which its figures are published.
    pub(super) fn is_unfinished(&self) -> bool {
        self.end.as_ref().is_none_or(|end| end["outcome"] == "failed")
    }
}

/// Reads the copies and checks each line's own h. None: a directory of a version that wrote no ledger; one that was
/// taken away is missed by `report.md`.
pub(super) fn read(dir: &Path) -> Result<Option<Entry>, Difference> {
    if !dir.join(FILE).exists() {
        return Ok(None);
    }
    let text = raw::text(dir, FILE)?;
    let mut lines = Vec::new();
    for (index, whole) in text.split_inclusive('\n').enumerate() {
        let Some(line) = whole.strip_suffix('\n') else {
            // a crash in mid-line: as if it had not been begun
            if index == 1 {
                break;
            }
            return Err(broken(index, "half-written"));
        };
        let value: Value = serde_json::from_str(line).map_err(|e| broken(index, &e.to_string()))?;
        let event = if index == 0 { "start" } else { "end" };
        for (field, said) in [("schema", "tarebench.ledger/1"), ("event", event)] {
            equal(index, field, &value[field], &json!(said))?;
        }
        own_hash(index, line, &value)?;
        lines.push((value, line.to_owned()));
    }
    if lines.len() > 2 {
        return Err(broken(2, "a run has two lines in its ledger, and this is one more"));
    }
    let texts = lines.iter().map(|(_, text)| text.clone()).collect();
    let mut values = lines.into_iter().map(|(value, _)| value);
    let Some(start) = values.next() else { return Err(broken(0, "the line before the first request is missing")) };
    let end = values.next();
    if end.is_none()
        && let Some(report) = super::REPORTS.iter().find(|report| dir.join(report).exists())
    {
        let text = format!("the line at the end is missing: {report} is there, which is written after it");
        return Err(broken(1, &text));
    }
    Ok(Some(Entry { start, end, texts }))
}

fn broken(index: usize, text: &str) -> Difference {
    Difference::Broken { file: FILE, line: index + 1, text: text.into() }
}

fn differs(index: usize, field: &str, stored: &Value, recomputed: &Value) -> Difference {
    let shown = |value: &Value| if value.is_null() { "nothing".to_string() } else { value.to_string() };
    let (stored, recomputed) = (shown(stored), shown(recomputed));
    Difference::Value { file: FILE, line: index + 1, field: field.into(), stored, recomputed }
}

fn equal(index: usize, field: &str, stored: &Value, recomputed: &Value) -> Result<(), Difference> {
    if stored == recomputed { Ok(()) } else { Err(differs(index, field, stored, recomputed)) }
}

/// A line that stands in a ledger has the h that follows from its text and the h before it; one that does not has
/// neither.
fn own_hash(index: usize, line: &str, value: &Value) -> Result<(), Difference> {
    let Some(prev) = value["prev"].as_str() else { return equal(index, "h", &value["h"], &Value::Null) };
    let Some((body, h)) = line.strip_suffix("\"}").and_then(|line| line.rsplit_once(",\"h\":\"")) else {
        return Err(broken(index, "the line does not end in its h"));
    };
    let mut chain = Chain::after(prev);
    chain.seal(&mut format!("{body}}}"));
    equal(index, "h", &json!(h), &json!(chain.last_hex()))
}

/// Holds the lines against `plan.json`, the files, and `run`, the recomputed run.json where one was published. Gives what
/// a reader must know.
pub(super) fn check(dir: &Path, entry: &Entry, plan: &Value, run: Option<&Value>) -> Result<Vec<String>, Difference> {
    plan_hash(dir, plan)?;
    start(entry, plan)?;
    let mut notes = Vec::new();
    match &entry.end {
        Some(line) => {
            end(dir, line, plan, run)?;
            if let ("failed", Some(why)) = (line["outcome"].as_str().unwrap_or(""), line["reason"].as_str()) {
                notes.push(format!("the campaign could not be carried out: {why}"));
            }
        }
        None => notes.push(
            "ledger.jsonl has no line at the end: the run crashed, was killed, or is still running; what there is of it \
             was verified"
                .to_string(),
        ),
    }
    let alone = |line: &Value| line["h"].is_null();
    if alone(&entry.start) || entry.end.as_ref().is_some_and(alone) {
        notes.push("a line of ledger.jsonl could not be written into the campaign ledger itself".to_string());
    }
    notes.extend(beside(dir, entry, plan)?);
    Ok(notes)
}

/// The plan's hash over what stands in the document between the model and the environment.
fn plan_hash(dir: &Path, document: &Value) -> Result<(), Difference> {
    let fields = document.as_object().into_iter().flatten().skip_while(|(key, _)| *key != "model").skip(1);
    let plan: Map<String, Value> =
        fields.take_while(|(key, _)| *key != "environment").map(|(key, value)| (key.clone(), value.clone())).collect();
    let hash = sha256(json!({"plan": plan, "model": document["model"]}).to_string().as_bytes());
    if document["plan_hash"] == hash {
        return Ok(());
    }
    let text = raw::text(dir, "plan.json")?;
    let line = text.lines().position(|line| line.trim_start().starts_with("\"plan_hash\":")).map_or(1, |at| at + 1);
    let stored = document["plan_hash"].to_string();
    Err(Difference::Value {
        file: "plan.json",
        line,
        field: "plan_hash".into(),
        stored,
        recomputed: format!("\"{hash}\""),
    })
}

fn start(entry: &Entry, plan: &Value) -> Result<(), Difference> {
    let line = &entry.start;
    for field in OF_PLAN {
        equal(0, field, &line[field], &plan[field])?;
    }
    let of_plan = |key: &str| plan[key].clone();
    let mut rules = Map::new();
    for key in ["drop", "num_prompts", "windows", "min_duration_s", "max_failed", "stop_at_failed"] {
        rules.insert(key.into(), of_plan(key));
    }
    rules.insert("goals".into(), plan["goals"].clone());
    if let Some(sessions) = plan.get("sessions") {
        rules.insert("sessions".into(), sessions.clone());
    }
    for (key, value) in &rules {
        equal(0, &format!("rules.{key}"), &line["rules"][key], value)?;
    }
    let rules = Value::Object(rules);
    equal(0, "rules", &line["rules"], &rules)?;
    equal(0, "rules_hash", &line["rules_hash"], &json!(sha256(rules.to_string().as_bytes())))?;
    equal(0, "interleave", &line["interleave"], &of_plan("interleave"))?;
    if let Some(turns) = plan["interleave"].as_object() {
        equal(0, "interleave.start_seed", &turns["start_seed"], &plan["workload"]["seed"])?;
        equal(0, "interleave.sequence", &turns["sequence"], &json!(sequence(plan)))?;
    }
    Ok(())
}

/// The order of the windows of two arms, drawn again.
fn sequence(plan: &Value) -> String {
    let cells = plan["cells"].as_array().map_or(0, Vec::len) as u64;
    let windows = plan["windows"].as_u64().unwrap_or(0);
    let mut rng = Pcg64::new(u128::from(plan["workload"]["seed"].as_u64().unwrap_or(0)), 4);
    let mut b_goes_first = || rng.next_u64() >> 63 == 1;
    let by_pair = plan["interleave"]["order"] == "pairs";
    let first_of_cell: Vec<bool> = if by_pair { Vec::new() } else { (0..cells).map(|_| b_goes_first()).collect() };
    let mut letters = String::new();
    for window in 0..windows {
        for cell in 0..cells {
            let b_first = match by_pair {
                true => b_goes_first(),
                false => first_of_cell[cell as usize] != (window % 2 == 1),
            };
            letters.push_str(if b_first { "BA" } else { "AB" });
        }
    }
    letters
}

fn end(dir: &Path, line: &Value, plan: &Value, run: Option<&Value>) -> Result<(), Difference> {
    equal(1, "run_id", &line["run_id"], &plan["run_id"])?;
    let files = line["files"].as_object().cloned().unwrap_or_default();
    let failed = line["outcome"] == "failed";
    // a run that could not be carried out to its end has less
    if let Some(name) = ALWAYS.iter().find(|name| !failed && !files.contains_key(**name)) {
        return Err(differs(1, &format!("files.{name}"), &Value::Null, &digest(dir, name)));
    }
    for (name, stored) in &files {
        if !dir.join(name).is_file() {
            return Err(broken(1, &format!("{name} is missing: this line has its SHA-256")));
        }
        equal(1, &format!("files.{name}"), stored, &digest(dir, name))?;
    }
    for group in ["runs", "runs_of_plan", "runs_of_target"] {
        counts_close(line, group)?;
    }
    let Some(run) = run.filter(|_| !failed) else { return Ok(()) };
    for key in ["due", "sent", "kept", "ok", "failed", "censored", "not_sent"] {
        let windows =
            run["cells"].as_array().into_iter().flatten().flat_map(|cell| cell["windows"].as_array()).flatten();
        let sum: u64 = windows.filter_map(|window| window["requests"][key].as_u64()).sum();
        equal(1, &format!("requests.{key}"), &line["requests"][key], &json!(sum))?;
    }
    let against =
        run["verdicts"].as_array().into_iter().flatten().any(|v| v["kind"] == "failed" || v["kind"] == "invalid");
    let clean = run["complete"] == true && !against;
    let outcome = match line["outcome"].as_str() {
        // that somebody ended it stands nowhere else
        Some("interrupted") => "interrupted",
        _ if clean => "complete",
        _ => "invalid",
    };
    equal(1, "outcome", &line["outcome"], &json!(outcome))
}

/// Every campaign ended in one way or has no end; this one did end.
fn counts_close(line: &Value, group: &str) -> Result<(), Difference> {
    let counts = &line[group];
    let chained = !line["h"].is_null();
    if !chained {
        return equal(1, group, counts, &Value::Null);
    }
    let of = |key: &str| counts[key].as_u64().unwrap_or(0);
    let ways = ["complete", "invalid", "interrupted", "failed", "without_end"];
    equal(1, &format!("{group}.started"), &counts["started"], &json!(ways.iter().map(|way| of(way)).sum::<u64>()))?;
    match line["outcome"].as_str() {
        Some(own) if of(own) == 0 => Err(Difference::Value {
            file: FILE,
            line: 2,
            field: format!("{group}.{own}"),
            stored: counts[own].to_string(),
            recomputed: "at least 1: this run is one".into(),
        }),
        _ => Ok(()),
    }
}

/// One of the lines, looked for in the ledger.
struct Sought<'a> {
    text: &'a str,
    event: &'a str,
    prev: &'a str,
    there: bool,
    /// The place of the line that it was written after, from 1.
    after: Option<usize>,
}

impl<'a> Sought<'a> {
    /// None: it could not be written there in the first place.
    fn of(text: &'a str, line: &'a Value) -> Option<Self> {
        let (event, prev) = (line["event"].as_str()?, line["prev"].as_str()?);
        Some(Sought { text, event, prev, there: false, after: None })
    }

    fn look(&mut self, number: usize, line: &str) {
        self.there |= line == self.text;
        let is_before = line.strip_suffix("\"}").is_some_and(|line| line.ends_with(&format!(",\"h\":\"{}", self.prev)));
        if is_before {
            self.after = Some(number);
        }
    }
}

/// The ledger that the directory has its copies from, when it is still beside it.
fn beside(dir: &Path, entry: &Entry, plan: &Value) -> Result<Option<String>, Difference> {
    let Some(path) = ledger_of(dir, plan) else { return Ok(None) };
    let unreadable = |e: std::io::Error| Difference::Unreadable { file: BESIDE, text: e.to_string() };
    let lines = [Some(&entry.start), entry.end.as_ref()].into_iter().flatten();
    let mut sought: Vec<Sought<'_>> = entry.texts.iter().zip(lines).filter_map(|(t, l)| Sought::of(t, l)).collect();
    let mut reader = BufReader::new(File::open(&path).map_err(unreadable)?);
    let (mut bytes, mut number) = (Vec::new(), 0);
    while reader.read_until(b'\n', &mut bytes).map_err(unreadable)? > 0 {
        number += 1;
        let text = String::from_utf8_lossy(bytes.strip_suffix(b"\n").unwrap_or(&bytes)).into_owned();
        sought.iter_mut().for_each(|line| line.look(number, &text));
        bytes.clear();
    }
    let knows_this_run = sought.iter().any(|line| line.there);
    let Some(missing) = sought.iter().find(|line| !line.there) else { return Ok(None) };
    if !knows_this_run && missing.after.is_none() {
        return Ok(Some(format!(
            "{} has no line of this run: the directory was copied here, or its lines were removed there (`tarebench \
             ledger` tells)",
            path.display()
        )));
    }
    let line = missing.after.unwrap_or(number) + 1;
    let text = format!("the {} line of this run was removed from the ledger, or changed there", missing.event);
    Err(Difference::Broken { file: BESIDE, line, text })
}

fn ledger_of(dir: &Path, plan: &Value) -> Option<PathBuf> {
    let levels = if plan["interleave"].is_object() { 2 } else { 1 };
    let path = dir.canonicalize().ok()?.ancestors().nth(levels)?.join(FILE);
    path.is_file().then_some(path)
}

/// Of a file; null when it cannot be read, or is a device, which may have no end.
fn digest(dir: &Path, name: &str) -> Value {
    let path = dir.join(name);
    let Some(mut file) = path.is_file().then(|| File::open(&path).ok()).flatten() else { return Value::Null };
    let (mut digest, mut block) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut block) {
            Ok(0) => return json!(hex(&digest.finalize())),
            Ok(n) => digest.update(&block[..n]),
            Err(_) => return Value::Null,
        }
    }
}

fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
