//! A run's rows held against the log of the mock that served it.

use crate::rundir::row::{Chunk, Outcome, Row};
use crate::rundir::rows::each_row;
use anyhow::{Context, bail};
use calibration::closure::{Closure, Joiner, Observed, ObservedToken};
use calibration::truth::{Summary, read_truth};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// How far net may be from the truth and still be trusted, ns. It holds the way of the bytes from the mock's transmit
/// stamp to the client's receive stamp and back, which net contains and the truth does not, and the mapping between the
/// clocks: a few us on a quiet host over loopback.
pub const NET_BOUND_NS: u64 = 100_000;

/// Names of the files of one comparison within a run directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Rows of the client.
    pub rows: &'static str,
    /// The mock's log.
    pub truth: &'static str,
    /// What comes of it.
    pub closure: &'static str,
}

/// The load, against the built-in mock.
pub const LOAD: Pair = Pair { rows: "requests.jsonl", truth: "truth.jsonl", closure: "closure.json" };
/// The canary beside the load.
pub const CANARY: Pair = Pair { rows: "canary.jsonl", truth: "canary-truth.jsonl", closure: "canary.json" };

impl Pair {
    /// What in a run directory says that the files of the comparison are there, in words.
    fn promise(self, dir: &Path, plan: &Value) -> Option<String> {
        match () {
            () if self == CANARY && plan["canary"] == true => Some("plan.json has a canary".to_owned()),
            () if self == CANARY => None,
            () if plan["environment"]["built_in_mock"] == true => {
                Some("plan.json says that the built-in mock served the run".to_owned())
            }
            () => dir.join(self.truth).exists().then(|| format!("{} is there", self.truth)),
        }
    }

    /// Whether there is something to compare: of answers that are not streamed the mock's log has no counterpart.
    fn is_compared(self, plan: &Value) -> bool {
        self == CANARY || plan["stream"] != false
    }
}

fn plan(dir: &Path) -> anyhow::Result<Value> {
    let path = dir.join("plan.json");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

/// Computes the comparisons of `dir` again and compares them with what stands there: their number. Of a run that was
/// broken off before it was `published` none is missed.
///
/// # Errors
/// The file that differs, or why it cannot be told.
pub fn verify(dir: &Path, published: bool) -> anyhow::Result<usize> {
    let mut equal = 0;
    let plan = plan(dir)?;
    for of in [LOAD, CANARY] {
        if let Some(promised) = of.promise(dir, &plan).filter(|_| published) {
            let needed = [Some(of.rows), Some(of.truth), Some(of.closure).filter(|_| of.is_compared(&plan))];
            if let Some(file) = needed.into_iter().flatten().find(|file| !dir.join(file).exists()) {
                bail!("{file} is missing: {promised}");
            }
        }
        let path = dir.join(of.closure);
        if !path.exists() {
            continue;
        }
        let stored = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let again = Evidence::of(dir, of)?.with_context(|| {
            format!(
                "{}: there is nothing that it can be made of: {} is missing, or answers were not streamed",
                of.closure, of.truth
            )
        })?;
        let again = again.closure_json()?;
        if let Some(line) = stored.lines().zip(again.lines()).position(|(a, b)| a != b) {
            bail!("{}:{}: not what {} and {} say", of.closure, line + 1, of.rows, of.truth);
        }
        if stored != again {
            bail!("{}: not what {} and {} say", of.closure, of.rows, of.truth);
        }
        equal += 1;
    }
    Ok(equal)
}

/// What client and mock say of the same requests.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The comparison.
    pub closure: Closure,
    /// net - truth of every time to the first token, ns.
    pub net_errors_ns: Vec<i64>,
    /// The mock's own account; None when its log has no end.
    pub mock: Option<Summary>,
    /// Token events of all rows, the warm-up's included.
    pub token_events: u64,
    /// Token events in one batch of a worker: mean, over the batches that brought any.
    pub mean_batch: Option<f64>,
    /// Token events in one batch: most.
    pub max_batch: u64,
    /// Each worker's token events.
    pub workers: BTreeMap<u32, WorkerEvents>,
}

/// The token events of one worker, as the queueing model wants them.
#[derive(Clone, Debug, Default)]
pub struct WorkerEvents {
    /// Arrivals, ns, in no particular order.
    pub arrivals: Vec<u64>,
    wait_ns: u128,
    places: u128,
}

impl WorkerEvents {
    fn add(&mut self, arrived: u64, chunk: &Chunk) {
        self.arrivals.push(arrived);
        self.wait_ns += u128::from(chunk.0.saturating_sub(arrived));
        self.places += u128::from(chunk.7);
    }

    /// Mean of seen - arrived, us; None without events.
    pub fn mean_wait_us(&self) -> Option<f64> {
        (!self.arrivals.is_empty()).then(|| self.wait_ns as f64 / self.arrivals.len() as f64 / 1e3)
    }

    /// Mean place of an event in its batch, from 0; None without events.
    pub fn mean_place(&self) -> Option<f64> {
        (!self.arrivals.is_empty()).then(|| self.places as f64 / self.arrivals.len() as f64)
    }
}

impl Evidence {
    /// From a run directory; None when it has no such truth log, or answers were not streamed: they have no time to
    /// first token.
    ///
    /// # Errors
    /// A file cannot be read or a line of it is not what it must be.
    pub fn of(dir: &Path, of: Pair) -> anyhow::Result<Option<Evidence>> {
        let truth = dir.join(of.truth);
        if !truth.exists() || !of.is_compared(&plan(dir)?) {
            return Ok(None);
        }
        Evidence::of_files(dir, of.rows, &truth).map(Some)
    }

    /// What stands in the file of the comparison.
    ///
    /// # Errors
    /// Never, but for a bug in serialisation.
    pub fn closure_json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(&self.closure)? + "\n")
    }

    fn of_files(dir: &Path, rows: &'static str, truth: &Path) -> anyhow::Result<Evidence> {
        let log = BufReader::new(File::open(truth).with_context(|| truth.display().to_string())?);
        let (truths, mock) = read_truth(log).with_context(|| truth.display().to_string())?;
        let mut joiner = Joiner::new(truths, NET_BOUND_NS);
        let (mut batches, mut token_events) = (Batches::default(), 0);
        let mut workers: BTreeMap<u32, WorkerEvents> = BTreeMap::new();
        each_row(dir, rows, |row| {
            token_events += row.chunks.len() as u64;
            for chunk in &row.chunks {
                batches.add(row.worker, chunk.6);
                if let Some(arrived) = chunk.1 {
                    workers.entry(row.worker).or_default().add(arrived, chunk);
                }
            }
            observed(&row).iter().for_each(|request| joiner.observe(request));
        })?;
        let (closure, net_errors_ns) = joiner.finish();
        Ok(Evidence {
            closure,
            net_errors_ns,
            mock,
            token_events,
            mean_batch: batches.mean(),
            max_batch: batches.most,
            workers,
        })
    }
}

/// Token events by the batch that brought them. The rows of a run name batches in no particular order.
#[derive(Debug, Default)]
struct Batches {
    sizes: HashMap<(u32, u64), u64>,
    most: u64,
}

impl Batches {
    fn add(&mut self, worker: u32, batch: u64) {
        let size = self.sizes.entry((worker, batch)).or_default();
        *size += 1;
        self.most = self.most.max(*size);
    }

    fn mean(&self) -> Option<f64> {
        let n: u64 = self.sizes.values().sum();
        (n > 0).then(|| n as f64 / self.sizes.len() as f64)
    }
}

/// An answered request as the closure wants it; warm-up included, since the truth is as good there.
fn observed(row: &Row) -> Option<Observed> {
    if row.outcome != Outcome::Ok {
        return None;
    }
    let choices: HashSet<u32> = row.chunks.iter().map(|c| c.5).collect();
    // an answer that began before the request was out has no net
    let answered_early = row.first_token.and_then(|t| t.arrived).zip(row.wire_out).is_some_and(|(a, w)| a < w);
    Some(Observed {
        nonce: row.nonce.clone(),
        submit: row.submit?,
        handed: row.handed?,
        wire_out: row.wire_out.filter(|_| !answered_early),
        cold: !row.conn_reused && row.connect.is_some(),
        tokens: row
            .chunks
            .iter()
            .filter(|_| choices.len() == 1)
            .map(|c| ObservedToken { seen: c.0, arrived: c.1, arrived_lo: c.2, read_no: c.4 })
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::specimen::Specimen;
    use std::fs;

    /// A run with logs of mocks that know of no request, and what comes of comparing.
    fn directory(change: impl Fn(&mut Value)) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("temporary directory");
        let mut specimen = Specimen::two_windows();
        change(&mut specimen.plan);
        specimen.write(dir.path());
        for file in [LOAD.truth, CANARY.truth, CANARY.rows] {
            fs::write(dir.path().join(file), "").expect("written");
        }
        for of in [LOAD, CANARY] {
            if let Some(found) = Evidence::of(dir.path(), of).expect("compared") {
                fs::write(dir.path().join(of.closure), found.closure_json().expect("JSON")).expect("written");
            }
        }
        dir
    }

    fn without(files: &[&str], change: impl Fn(&mut Value)) -> Result<usize, String> {
        let dir = directory(change);
        files.iter().for_each(|file| fs::remove_file(dir.path().join(file)).expect("removed"));
        verify(dir.path(), true).map_err(|e| format!("{e:#}"))
    }

    #[test]
    fn what_a_directory_promises_must_be_there() {
        let canary = |plan: &mut Value| plan["canary"] = true.into();
        assert_eq!(without(&[], canary), Ok(2));
        assert_eq!(without(&["closure.json"], canary), Err("closure.json is missing: truth.jsonl is there".to_owned()));
        for file in ["canary.json", "canary.jsonl", "canary-truth.jsonl"] {
            assert_eq!(without(&[file], canary), Err(format!("{file} is missing: plan.json has a canary")));
        }
        let all = ["canary.json", "canary.jsonl", "canary-truth.jsonl"];
        assert!(without(&all, canary).is_err());
        assert_eq!(without(&all, |_| ()), Ok(1), "none was planned");
        // the log of a mock elsewhere may not have been asked for, that of the built-in one always is
        assert_eq!(without(&["closure.json", "truth.jsonl"], |_| ()), Ok(1));
        let built_in = |plan: &mut Value| plan["environment"]["built_in_mock"] = true.into();
        let found = without(&["closure.json", "truth.jsonl"], built_in);
        assert!(found.is_err_and(|words| words.starts_with("truth.jsonl is missing: plan.json says")));
    }

    #[test]
    fn answers_that_were_not_streamed_are_not_compared() {
        let dir = directory(|plan| plan["stream"] = false.into());
        assert!(!dir.path().join(LOAD.closure).exists() && dir.path().join(CANARY.closure).exists());
        assert_eq!(verify(dir.path(), true).expect("as it should be"), 1);
    }
}
