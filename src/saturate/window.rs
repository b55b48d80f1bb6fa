//! What one window of a search shows: its figures as its `run.json` has them, and how it stands to the goals.

use crate::analysis::definitions::goals::Answer as Judged;
use crate::analysis::definitions::rules::GateState;
use crate::analysis::definitions::{labels, load};
use crate::analysis::saturation::growth::{self, Growth};
use crate::analysis::saturation::search::{Answer, Purpose, Shown};
use crate::rundir::row::{Outcome, Row};
use crate::rundir::rows::{REQUESTS, each_row};
use crate::rundir::run_json::{Cell, Distribution, RunJson, Window};
use crate::rundir::window::LoadModel;
use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Moments at which requests in flight are counted.
const MOMENTS: usize = 200;

/// A window of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// Its run directory, in that of the search.
    pub dir: String,
    /// Load point in it, from 0.
    pub cell: u32,
    /// Window of that, from 0.
    pub window: u32,
    /// What it was for; null: a share of the optimum, after the search.
    pub purpose: Option<Purpose>,
    /// Requests/s or requests in flight; null: one request at a time, to begin from.
    pub load: Option<f64>,
    /// How many windows this load had before.
    pub attempt: u32,
    /// Planned arrivals per s of the realised schedule; null in closed loop.
    pub offered_rps: Option<f64>,
    /// Submitted per s of the same time; null in closed loop.
    pub achieved_rps: Option<f64>,
    /// Ok requests that ended, per s of the throughput's time.
    pub requests_per_s: Option<f64>,
    /// Output tokens per s.
    pub output_tokens_per_s: Option<f64>,
    /// With prompts.
    pub total_tokens_per_s: Option<f64>,
    /// Most requests in flight.
    pub in_flight_max: u64,
    /// Kept requests.
    pub kept: u64,
    /// Answered whole.
    pub ok: u64,
    /// Time to first token, from due in open loop, else gross; of ok requests.
    pub ttft: Percentiles,
    /// The same net.
    pub ttft_net: Percentiles,
    /// Per output token after the first, gross.
    pub tpot: Percentiles,
    /// Mean time to the last token, ms: from due in open loop, else gross; null where it is withheld.
    pub e2e_mean_ms: Option<f64>,
    /// Share of the kept requests that met the goals; null where it is withheld, or there is no such goal.
    pub goodput: Option<f64>,
    /// Its 95 % interval.
    pub goodput_ci: Option<[f64; 2]>,
    /// How it stands to the goals.
    pub answer: Answer,
    /// Why, for people.
    pub why: String,
    /// Requests in flight grew; then all latencies are lower bounds.
    pub over_saturated: Option<Growth>,
    /// It did not run to its end.
    pub ended_early: bool,
    /// What the client was not fit for: void gates, and limits of its calibration that the window left.
    pub client: Vec<String>,
}

/// Whom a search asked, and under which reservations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    /// As typed, or `mock`.
    pub server: Option<String>,
    /// Model.
    pub model: Option<String>,
    /// What stands in the titles of its runs, but for what is so of any window of a search.
    pub labels: Vec<String>,
}

/// Labels that say no more than that a window of a search has one load and is short, and what the table tells.
const OF_ANY_WINDOW: [&str; 4] = [labels::ONE_LOAD, labels::ONE_USER, labels::SHORT, labels::CLIENT_LIMITED];

impl Asked {
    /// Of the run directories `names` in `dir`, by the last of them; labels of any.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn of<'a>(dir: &Path, names: impl Iterator<Item = &'a str>) -> anyhow::Result<Asked> {
        let mut asked = Asked::default();
        for name in names {
            let read = |file: &str| -> anyhow::Result<Value> {
                let path = dir.join(name).join(file);
                let about = || path.display().to_string();
                serde_json::from_str(&fs::read_to_string(&path).with_context(about)?).with_context(about)
            };
            let (run, plan) = (read("run.json")?, read("plan.json")?);
            let text = |value: &Value| value.as_str().map(str::to_owned);
            (asked.server, asked.model) = (text(&plan["base_url"]), text(&plan["model"]));
            for label in run["labels"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                if !OF_ANY_WINDOW.contains(&label) && !asked.labels.iter().any(|known| known == label) {
                    asked.labels.push(label.to_owned());
                }
            }
        }
        Ok(asked)
    }
}

/// Percentiles of one column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Percentiles {
    /// `due`, `gross`, `net`.
    pub column: String,
    /// Values.
    pub n: u64,
    /// Median; null: too few, or withheld.
    pub p50_ms: Option<f64>,
    /// 95th, likewise.
    pub p95_ms: Option<f64>,
    /// 99th, likewise.
    pub p99_ms: Option<f64>,
}

impl Percentiles {
    fn of(column: &str, found: Option<&Distribution>) -> Percentiles {
        Percentiles {
            column: column.to_owned(),
            n: found.map_or(0, |d| d.n),
            p50_ms: found.and_then(|d| d.p50_ms),
            p95_ms: found.and_then(|d| d.p95_ms),
            p99_ms: found.and_then(|d| d.p99_ms),
        }
    }
}

/// What a window was for, and at which load.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// None: a share of the optimum.
    pub purpose: Option<Purpose>,
    /// None: one at a time.
    pub load: Option<f64>,
    /// Windows at this load before.
    pub attempt: u32,
}

/// The figures of every window in the run directory `name` of the search in `dir`, in order of load point and window.
/// `place` says what a load point was for.
///
/// # Errors
/// A file that cannot be read.
pub fn of_directory(dir: &Path, name: &str, place: impl Fn(&Cell) -> Place) -> anyhow::Result<Vec<Figures>> {
    let of = dir.join(name);
    let path = of.join("run.json");
    let about = || path.display().to_string();
    let run: RunJson = serde_json::from_str(&fs::read_to_string(&path).with_context(about)?).with_context(about)?;
    let mut all = Vec::new();
    for cell in &run.cells {
        for window in &cell.windows {
            let growth = growth_of(&of, cell, window)?;
            all.push(figures(name, place(cell), &run, cell, window, growth));
        }
    }
    if all.is_empty() {
        bail!("{}: it has no window", about());
    }
    Ok(all)
}

/// Whether requests in flight grew, by the rows of a window at a constant rate. Times count from its opening, which is
/// where its first due would be without rounding: what is judged lies far behind it.
fn growth_of(dir: &Path, cell: &Cell, window: &Window) -> anyhow::Result<Option<Growth>> {
    let Some(per_s) = cell.load.rate.filter(|_| cell.load.model == LoadModel::Open && cell.load.arrivals.is_none())
    else {
        return Ok(None);
    };
    let (opened, closed) = bounds(dir, cell.cell, window.window)?;
    let since = |t: u64| t.saturating_sub(opened) as f64 / 1e9;
    let mut requests: Vec<(u64, f64, Option<f64>)> = Vec::new();
    let mut take = |row: Row| {
        if (row.cell, row.window) == (cell.cell, window.window) {
            let is_over = matches!(row.outcome, Outcome::Ok | Outcome::Failed);
            let end = load::in_flight(&row, closed).map(|(_, end)| end).filter(|_| is_over);
            requests.push((row.trace_id, since(row.due), end.map(since)));
        }
    };
    each_row(dir, REQUESTS, &mut take)?;
    requests.sort_unstable_by_key(|(id, ..)| *id);
    let last_due = requests.iter().map(|(_, due, _)| *due).fold(0.0, f64::max);
    let requests: Vec<(f64, Option<f64>)> = requests.into_iter().map(|(_, due, end)| (due, end)).collect();
    let (counts, settled) = growth::counts(&requests, last_due.min(since(closed)), MOMENTS);
    Ok(settled.and_then(|settled| growth::judge(&counts, per_s, settled)))
}

/// Opening and close of a window, ns.
fn bounds(dir: &Path, cell: u32, window: u32) -> anyhow::Result<(u64, u64)> {
    let path = dir.join("windows.jsonl");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let lines = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut mine = lines.filter(|line| line["cell"] == cell && line["window"] == window);
    let found = mine.next().and_then(|line| Some((line["opened"].as_u64()?, line["closed"].as_u64()?)));
    found.with_context(|| format!("{}: load point {cell}, window {window} is not there", path.display()))
}

fn figures(
    name: &str,
    place: Place,
    run: &RunJson,
    cell: &Cell,
    window: &Window,
    over_saturated: Option<Growth>,
) -> Figures {
    let m = &window.metrics;
    let is_open = cell.load.model != LoadModel::Closed;
    let (since, ttft, e2e) = match is_open {
        true => ("due", m.ttft.due.as_ref(), m.e2e.due.as_ref()),
        false => ("gross", m.ttft.gross.as_ref(), m.e2e.gross.as_ref()),
    };
    let goodput = window.goals.as_ref().and_then(|goals| goals.request.as_ref());
    let client = client(run, window, over_saturated.is_some());
    let (answer, why) = answer(window, over_saturated.as_ref(), &client);
    Figures {
        dir: name.to_owned(),
        cell: cell.cell,
        window: window.window,
        purpose: place.purpose,
        load: place.load,
        attempt: place.attempt,
        offered_rps: window.offered_rps,
        achieved_rps: window.achieved_rps,
        requests_per_s: window.throughput.requests_per_s.or(window.throughput.whole.requests_per_s),
        output_tokens_per_s: window.throughput.output_tokens_per_s,
        total_tokens_per_s: window.throughput.total_tokens_per_s,
        in_flight_max: window.in_flight.max,
        kept: window.requests.kept,
        ok: window.requests.ok,
        ttft: Percentiles::of(since, ttft),
        ttft_net: Percentiles::of("net", m.ttft.net.as_ref()),
        tpot: Percentiles::of("gross", m.tpot.gross.as_ref()),
        e2e_mean_ms: e2e.and_then(|d| d.mean_ms),
        goodput: goodput.and_then(|g| g.share),
        goodput_ci: goodput.and_then(|g| g.ci),
        answer,
        why,
        over_saturated,
        ended_early: window.interrupted,
        client,
    }
}

/// Gates that void what goals are judged by. In an over-saturated window not the one that says that requests were held
/// back by a full client: it was full of the server's requests.
fn client(run: &RunJson, window: &Window, over_saturated: bool) -> Vec<String> {
    let void = window.client.gates.iter().filter(|gate| gate.state == GateState::Void);
    let counts = void.filter(|gate| {
        gate.voids.iter().any(|column| column == "gross") && !(over_saturated && gate.gate == "achieved")
    });
    let mut said: Vec<String> = counts.map(|gate| gate.text.clone()).collect();
    if let (false, Some(limit)) = (said.is_empty(), run.calibration["limits"]["requests_per_s"]["value"].as_f64()) {
        said.push(format!("the calibration of this host found it trustworthy up to {limit:.0} requests/s"));
    }
    said
}

fn answer(window: &Window, growth: Option<&Growth>, client: &[String]) -> (Answer, String) {
    if !client.is_empty() {
        let words = client.join("; ");
        return (Answer::Client(words.clone()), words);
    }
    if growth.is_some() {
        return (Answer::OverSaturated, "requests in flight grow".to_owned());
    }
    if window.interrupted {
        return (Answer::Unclear, "it ended early, and its rows do not say why".to_owned());
    }
    let Some(goals) = &window.goals else { return (Answer::Unclear, "it has no goals".to_owned()) };
    let share = goals.request.iter().map(|g| ("the share of requests".to_owned(), g.answer));
    let limits = goals.window.iter().map(|l| (l.figure.to_string(), l.answer));
    let all: Vec<(String, Judged)> = share.chain(limits).collect();
    let of = |wanted: &[Judged]| {
        let names = all.iter().filter(|(_, judged)| wanted.contains(judged)).map(|(name, _)| name.as_str());
        names.collect::<Vec<_>>().join(", ")
    };
    let (failed, open) = (of(&[Judged::Fail]), of(&[Judged::Inconclusive, Judged::NotJudged]));
    match () {
        () if !failed.is_empty() => (Answer::Misses, format!("missed: {failed}")),
        () if !open.is_empty() => (Answer::Unclear, format!("left open: {open}")),
        () => (Answer::Meets, "met".to_owned()),
    }
}

impl Figures {
    /// What the search learns from it.
    pub fn shown(&self) -> Shown {
        Shown {
            answer: self.answer.clone(),
            throughput: self.requests_per_s,
            time_ms: self.e2e_mean_ms.filter(|_| self.over_saturated.is_none()),
        }
    }
}
