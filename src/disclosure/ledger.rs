//! The campaign ledger: one file beside the run directories, in which every campaign has a line before its first request
//! and one at its end. It is only ever appended to, each line is on disk before the campaign goes on, and each names
//! the hash of the line before it. A campaign that crashed has no second line, and that is how it stays visible.
//!
//! A ledger that cannot be had (a read-only parent, a file that is something else, a lock that nobody gives back) is
//! said and survived: the copies in the run directory then have null where the chain would be.
//!
//! After a break (a line that was changed or removed, or half of one that a crash left) the chain goes on from the last
//! hash that can be read, behind a line `"event":"break"` that says what was found and has the SHA-256 of everything
//! before it. So a break can neither be passed over nor be mended later without being seen.

pub mod book;
pub mod neighbours;

use crate::reading::printable;
use crate::rundir::chain::Chain;
use crate::rundir::digest;
use crate::rundir::rows::{self, FileName};
use crate::rundir::run_json::RunJson;
use crate::workload::hex;
use anyhow::Context;
use bench_engine::clock::{Clock, SystemClock};
use bench_engine::units::Nanos;
use book::{Book, Counts};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// What a line calls itself.
pub const SCHEMA: &str = "tarebench.ledger/1";
/// Name of the ledger, and of a run directory's copy of its own lines.
pub const FILE: &str = "ledger.jsonl";
/// Longest wait for the lock. It is held for as long as it takes to read the file and to write a line.
const LOCK_PATIENCE: Nanos = Nanos::from_secs(5);
/// Between two tries.
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Where a campaign stands in its ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its run directory.
    pub dir: PathBuf,
    /// The ledger; None: there is no directory above.
    pub ledger: Option<PathBuf>,
    /// Its run directory as the ledger names it: the way there from the ledger.
    pub name: String,
}

impl Place {
    /// A run directory `levels` below the ledger's own: 1, or 2 where two arms share a directory. It must exist.
    pub fn of(dir: &Path, levels: usize) -> Place {
        let whole = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        let above = whole.ancestors().nth(levels);
        let name = above.and_then(|above| whole.strip_prefix(above).ok()).unwrap_or(&whole);
        let name = name.to_string_lossy().into_owned();
        Place { dir: dir.to_owned(), ledger: above.map(|above| above.join(FILE)), name }
    }
}

/// What is fixed before the first request.
#[derive(Clone, Debug, Serialize)]
pub struct Start {
    /// Run id.
    pub run_id: String,
    /// `2026-11-29T18-22-55`, UTC.
    pub at: String,
    /// The run directory, seen from the ledger.
    pub dir: String,
    /// Version.
    pub tarebench: String,
    /// As in `plan.json`.
    pub plan_hash: String,
    /// SHA-256 of `rules` as it stands here, hex.
    pub rules_hash: String,
    /// What decides which requests and windows count: [`crate::plan::Plan::rules`].
    pub rules: Value,
    /// Order of the windows of two arms, as in `plan.json`; null for a campaign of its own.
    pub interleave: Value,
    /// As in `plan.json`: `mock` or a URL.
    pub base_url: String,
    /// Model.
    pub model: String,
    /// Of the plan.
    pub trace_hash: String,
}

/// How a campaign ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// All of it was measured, and every window is valid.
    Complete,
    /// A window is invalid or missing, or too many requests failed.
    Invalid,
    /// The user ended it.
    Interrupted,
    /// It could not be carried out.
    Failed,
}

/// Requests of a campaign, all its windows together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Requests {
    /// Due.
    pub due: u64,
    /// Sent.
    pub sent: u64,
    /// Kept: sent, and not warm-up.
    pub kept: u64,
    /// Answered whole.
    pub ok: u64,
    /// Failed.
    pub failed: u64,
    /// Still running when their window was closed.
    pub censored: u64,
    /// Due and not sent.
    pub not_sent: u64,
}

impl Requests {
    /// Those of a run.
    pub fn of(run: &RunJson) -> Requests {
        let mut sum = Requests::default();
        for requests in run.cells.iter().flat_map(|cell| &cell.windows).map(|window| &window.requests) {
            sum.due += requests.due;
            sum.sent += requests.sent;
            sum.kept += requests.kept;
            sum.ok += requests.ok;
            sum.failed += requests.failed;
            sum.censored += requests.censored;
            sum.not_sent += requests.not_sent;
        }
        sum
    }
}

/// What is known at the end.
#[derive(Clone, Debug, Serialize)]
pub struct End {
    /// Run id.
    pub run_id: String,
    /// When the line was written.
    pub at: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Why, unless it is complete.
    pub reason: Option<String>,
    /// Null where there is no `run.json`.
    pub requests: Option<Requests>,
    /// SHA-256 of each file that is there, hex.
    #[serde(serialize_with = "as_object")]
    pub files: Vec<(FileName, String)>,
}

fn as_object<S: Serializer>(files: &[(FileName, String)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(files.iter().map(|(name, digest)| (name, digest)))
}

/// Files of a run directory that its end line names, those that are there, with every further file of rows. What is written after that line is not
/// among them.
const SEALED: [&str; 14] = [
    "plan.json",
    "requests.jsonl",
    "windows.jsonl",
    "health.jsonl",
    "server-metrics.jsonl",
    "trace.jsonl",
    "marks.jsonl",
    "window.open.json",
    "truth.jsonl",
    "canary.jsonl",
    "canary-truth.jsonl",
    "run.json",
    "closure.json",
    "canary.json",
];

/// How a run that was carried out ended, and why if it is not complete.
fn outcome(run: &RunJson, interrupted: bool) -> (Outcome, Option<String>) {
    let mut against = run.verdicts.iter().filter(|v| v.kind == "failed" || v.kind == "invalid");
    let against = (against.next(), against.count());
    match (interrupted, run.complete, against) {
        (true, ..) => (Outcome::Interrupted, Some("the user ended it".to_owned())),
        (false, true, (None, _)) => (Outcome::Complete, None),
        (false, _, (Some(first), 0)) => (Outcome::Invalid, Some(first.text.clone())),
        (false, _, (Some(first), more)) => (Outcome::Invalid, Some(format!("{} (and {more} more)", first.text))),
        (false, false, (None, _)) => (Outcome::Invalid, Some("not every window of the plan was measured".to_owned())),
    }
}

/// Why a line is in no ledger.
#[derive(Debug, Error)]
enum Unavailable {
    #[error("there is no directory above the run directory; choose another --out")]
    NoParent,
    #[error("it is no file; move it away, or choose another --out")]
    NoFile,
    #[error("it is something else than a ledger and is left alone; move it away, or choose another --out")]
    NoLedger,
    #[error("it cannot be opened ({0}); make its directory writable, or choose another --out")]
    Open(io::Error),
    #[error("another process has held its lock for {LOCK_PATIENCE}; if none of yours is running, find out which does")]
    Locked,
    #[error("it cannot be read ({0})")]
    Read(io::Error),
    #[error("it cannot be written ({0})")]
    Write(io::Error),
}

/// A line as it stands in the ledger, and what was found there.
struct Appended {
    line: String,
    /// Words about breaks found now.
    found: Vec<String>,
    /// Campaigns in the ledger with this line.
    campaigns: Counts,
    /// Those of the same plan.
    of_plan: Counts,
}

/// Makes a line's fields of what stands in the ledger so far.
type Fields<'a> = &'a dyn Fn(&Book) -> Value;

/// Appends a line under the lock: whole and on disk, or not at all.
fn append(
    path: Option<&Path>,
    (event, at): (&str, &str),
    plan_hash: &str,
    fields: Fields<'_>,
) -> Result<Appended, Unavailable> {
    let path = path.ok_or(Unavailable::NoParent)?;
    // a pipe would wait for somebody to read it
    if path.metadata().is_ok_and(|meta| !meta.is_file()) {
        return Err(Unavailable::NoFile);
    }
    let is_new = !path.exists();
    let open = OpenOptions::new().read(true).append(true).create(true).open(path);
    let mut file = open.map_err(Unavailable::Open)?;
    wait_for(|| file.try_lock())?;
    let mut before = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut before)).map_err(Unavailable::Read)?;
    let book = Book::of(&before);
    if !before.is_empty() && !book.is_ledger {
        return Err(Unavailable::NoLedger);
    }
    let mut chain = Chain::after(&book.last_h);
    // a new line is never glued to a half one
    let mut text = if before.is_empty() || before.ends_with(b"\n") { String::new() } else { "\n".to_owned() };
    let found: Vec<String> = book.unsaid().map(ToString::to_string).collect();
    if let Some(first) = found.first() {
        let (bytes, digest) = (before.len() + text.len(), Sha256::new().chain_update(&before).chain_update(&text));
        let said = json!({"at": at, "breaks": found.len(), "first": first, "bytes": bytes,
            "sha256": hex(&digest.finalize())});
        text.push_str(&sealed("break", said, &mut chain));
        text.push('\n');
    }
    let line = sealed(event, fields(&book), &mut chain);
    text.push_str(&line);
    text.push('\n');
    if let Err(error) = file.write_all(text.as_bytes()).and_then(|()| file.sync_all()) {
        // half a line of ours would be a break
        let _ = file.set_len(before.len() as u64);
        return Err(Unavailable::Write(error));
    }
    if let (true, Some(Ok(dir))) = (is_new, path.parent().map(File::open)) {
        let _ = dir.sync_all();
    }
    before.extend_from_slice(text.as_bytes());
    let book = Book::of(&before);
    Ok(Appended { line, found, campaigns: book.counts(), of_plan: book.counts_of_plan(plan_hash) })
}

/// The bytes of a ledger, read while nobody writes there; if somebody never stops, as they are.
///
/// # Errors
/// It cannot be read.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let _ = wait_for(|| file.try_lock_shared());
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Waits for the lock, but not for ever. It goes with the file.
fn wait_for(lock: impl Fn() -> Result<(), TryLockError>) -> Result<(), Unavailable> {
    let until = SystemClock.now() + LOCK_PATIENCE;
    loop {
        match lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if SystemClock.now() >= until => return Err(Unavailable::Locked),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            Err(TryLockError::Error(error)) => return Err(Unavailable::Open(error)),
        }
    }
}

/// `schema` and `event`, the fields, `prev`.
fn line_of(event: &str, fields: Value, prev: Value) -> Map<String, Value> {
    let mut line = Map::new();
    line.insert("schema".to_owned(), json!(SCHEMA));
    line.insert("event".to_owned(), json!(event));
    if let Value::Object(fields) = fields {
        line.extend(fields);
    }
    line.insert("prev".to_owned(), prev);
    line
}

fn sealed(event: &str, fields: Value, chain: &mut Chain) -> String {
    let mut line = Value::Object(line_of(event, fields, json!(chain.last_hex()))).to_string();
    chain.seal(&mut line);
    line
}

/// A line that stands in no ledger, for the run directory alone.
fn unchained(event: &str, fields: Value) -> String {
    let mut line = line_of(event, fields, Value::Null);
    line.insert("h".to_owned(), Value::Null);
    Value::Object(line).to_string()
}

/// A campaign whose end line is still to come. If nobody writes it, dropping does.
pub struct Entry {
    place: Place,
    start: Start,
    secret: Option<String>,
    now: fn() -> String,
    open: bool,
}

impl Entry {
    /// Writes the line before the first request, into the ledger and into the run directory. The words are for people.
    ///
    /// # Errors
    /// The run directory cannot be written. A ledger that cannot is no error.
    pub fn begin(
        place: Place,
        start: Start,
        secret: Option<String>,
        now: fn() -> String,
    ) -> anyhow::Result<(Entry, Vec<String>)> {
        let fields = serde_json::to_value(&start)?;
        let (line, words) =
            match append(place.ledger.as_deref(), ("start", &start.at), &start.plan_hash, &|_| fields.clone()) {
                Ok(appended) => {
                    let (here, plan) = (appended.campaigns.started, appended.of_plan.started);
                    let words = format!("ledger   {}: campaign {here} in it, {plan} of this plan", place.shown());
                    (appended.line, [vec![words], breaks(&place, &appended.found)].concat())
                }
                Err(why) => (unchained("start", fields), vec![place.not_there(&why)]),
            };
        // what the ledger has been told of has an end from here on
        let entry = Entry { place, start, secret, now, open: true };
        let copy = entry.place.dir.join(FILE);
        write_copy(&copy, &line, true).with_context(|| copy.display().to_string())?;
        Ok((entry, words))
    }

    /// Writes the line at the end of a run that was carried out.
    ///
    /// # Errors
    /// The run directory cannot be written or read. A ledger that cannot is no error.
    pub fn end(mut self, run: &RunJson, interrupted: bool) -> anyhow::Result<Vec<String>> {
        let (outcome, reason) = outcome(run, interrupted);
        self.close(outcome, reason, Some(Requests::of(run)))
    }

    /// Writes the line at the end of a campaign that could not be carried out.
    ///
    /// # Errors
    /// As for [`Entry::end`].
    pub fn fail(mut self, reason: &str) -> anyhow::Result<Vec<String>> {
        self.close(Outcome::Failed, Some(reason.to_owned()), None)
    }

    fn close(
        &mut self,
        outcome: Outcome,
        reason: Option<String>,
        requests: Option<Requests>,
    ) -> anyhow::Result<Vec<String>> {
        self.open = false;
        let dir = &self.place.dir;
        let mut files = Vec::new();
        for name in rows::with_parts(dir, &SEALED) {
            match digest::of_file(&dir.join(&*name)) {
                Ok(digest) => files.push((name, digest)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error).with_context(|| dir.join(&*name).display().to_string()),
            }
        }
        let reason = reason.map(|words| printable(&words, self.secret.as_deref()));
        let at = (self.now)();
        let end = End { run_id: self.start.run_id.clone(), at: at.clone(), outcome, reason, requests, files };
        let (fields, start) = (serde_json::to_value(&end)?, &self.start);
        let counted = |book: &Book| {
            // this line is not there yet: its campaign is still one without an end
            let known = book.has_started(&start.run_id);
            let ended = |counts: Counts| json!(counts.with_end(outcome, known));
            let target = (start.base_url.as_str(), start.model.as_str());
            with_counts(
                &fields,
                json!(book.breaks.len()),
                [
                    ended(book.counts()),
                    ended(book.counts_of_plan(&start.plan_hash)),
                    ended(book.counts_of_target(target.0, target.1)),
                ],
            )
        };
        let (line, words) = match append(self.place.ledger.as_deref(), ("end", &at), &start.plan_hash, &counted) {
            Ok(appended) => (appended.line, breaks(&self.place, &appended.found)),
            Err(why) => (
                unchained("end", with_counts(&fields, Value::Null, [const { Value::Null }; 3])),
                vec![self.place.not_there(&why)],
            ),
        };
        let copy = dir.join(FILE);
        write_copy(&copy, &line, false).with_context(|| copy.display().to_string())?;
        Ok(words)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if self.open {
            // nobody is left to tell it to
            let _ = self.close(Outcome::Failed, Some("it ended unexpectedly".to_owned()), None);
        }
    }
}

/// `ledger_breaks`: places where the chain did not hold when the run ended. Where lines are gone, the counts are too low.
fn with_counts(fields: &Value, breaks: Value, [runs, of_plan, of_target]: [Value; 3]) -> Value {
    let mut fields = fields.clone();
    fields["runs"] = runs;
    fields["runs_of_plan"] = of_plan;
    fields["runs_of_target"] = of_target;
    fields["ledger_breaks"] = breaks;
    fields
}

impl Place {
    /// The way there as the run directory was given, where that leads there.
    fn shown(&self) -> String {
        let Some(ledger) = &self.ledger else { return FILE.to_owned() };
        let above = self.dir.ancestors().skip(1).map(|dir| dir.join(FILE));
        let is_it = |near: &PathBuf| near.canonicalize().is_ok_and(|near| near == *ledger);
        above.take(2).find(is_it).unwrap_or_else(|| ledger.clone()).display().to_string()
    }

    fn not_there(&self, why: &Unavailable) -> String {
        format!(
            "WARNING: this campaign's line is missing from the ledger {}: {why}; how many campaigns there were is not \
             known then",
            self.shown()
        )
    }
}

fn breaks(place: &Place, found: &[String]) -> Vec<String> {
    let Some(first) = found.first() else { return Vec::new() };
    let more = if found.len() > 1 { format!(" (and {} more)", found.len() - 1) } else { String::new() };
    vec![format!(
        "WARNING: the chain of the ledger {} is broken: {first}{more}; it goes on behind a line that says so",
        place.shown()
    )]
}

fn write_copy(path: &Path, line: &str, first: bool) -> io::Result<()> {
    if first {
        // what an earlier run left
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    file.write_all(format!("{line}\n").as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests;
