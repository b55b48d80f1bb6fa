//! `saturation.json`: what a search found, a function of `search.json` and of the windows' own files.

use super::record::{Record, Step};
use super::window::{self, Figures, Place};
use crate::analysis::saturation::points::{
    self, KNEE_RULE, Knee, OPTIMUM_RULE, OVER_SATURATED_RULE, Point, SATURATION_RULE, Saturation,
};
use crate::analysis::saturation::search::{Answer, End, Next, Search};
use crate::cli::saturate::Over;
use crate::price::Price;
use crate::saturate::settings::Settings;
use anyhow::bail;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Its name in the directory of a search.
pub const FILE: &str = "saturation.json";
/// Its `schema`.
pub const SCHEMA: &str = "tarebench.saturation/1";

/// What a search found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// [`SCHEMA`].
    pub schema: String,
    /// Version that searched.
    pub tarebench: String,
    /// Wall clock at the start.
    pub started_at: String,
    /// Whom it asked, as typed; null: no window was run.
    pub server: Option<String>,
    /// Which model.
    pub model: Option<String>,
    /// What stands in the titles of its runs (`SERVER NOT VERIFIED`, ..), but for what is so of any window of a search.
    pub labels: Vec<String>,
    /// What it was to do.
    pub settings: Settings,
    /// The windows of the search, in order of time.
    pub steps: Vec<Figures>,
    /// Those at shares of the optimum.
    pub points: Vec<Figures>,
    /// The highest load that meets the goals; null: none is known to.
    pub optimum: Option<Optimum>,
    /// How much the server can do; null: nothing is known.
    pub saturation: Option<Saturation>,
    /// Null: no load has a power, or only one was tried.
    pub knee: Option<Knee>,
    /// At the optimum, with the declared price; null without one of them.
    pub cost: Option<Cost>,
    /// What ended the search.
    pub ended: End,
    /// The optimum was met in two windows, missed within the resolution above it, and no load above that meets the goals.
    pub conclusive: bool,
    /// A load that meets the goals, and one below it that misses them; null: there is no such pair.
    pub not_monotone: Option<[f64; 2]>,
    /// Why the loads above are not known: the client ended there; null: it did not.
    pub client_above: Option<String>,
    /// The rules behind the names.
    pub definitions: BTreeMap<String, String>,
}

/// The highest load that meets the goals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Optimum {
    /// Requests/s or requests in flight.
    pub load: f64,
    /// Windows in which it met them.
    pub windows: u64,
    /// The lowest load that misses them; null: none is known to.
    pub missed_at: Option<f64>,
    /// Loads between the two that leave it open.
    pub open_at: Vec<f64>,
    /// Ok requests/s there, mean over its windows.
    pub requests_per_s: Option<f64>,
    /// Output tokens/s there, likewise.
    pub output_tokens_per_s: Option<f64>,
    /// With prompts, likewise.
    pub total_tokens_per_s: Option<f64>,
}

/// What tokens cost at the optimum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// As declared.
    pub price: Price,
    /// A million output tokens.
    pub per_million_output_tokens: Option<f64>,
    /// A million tokens, prompts and output.
    pub per_million_total_tokens: Option<f64>,
}

/// A search carried through again over the windows that are there.
pub struct Replayed {
    /// As far as they go.
    pub search: Search,
    /// Their figures.
    pub steps: Vec<Figures>,
}

impl Replayed {
    /// Nothing yet.
    pub fn begin(settings: &Settings) -> Replayed {
        Replayed { search: Search::new(settings.bounds), steps: Vec::new() }
    }

    /// Takes the search in `dir` through its windows.
    ///
    /// # Errors
    /// A file that cannot be read, or a window that this search would not have run.
    pub fn of(dir: &Path, record: &Record) -> anyhow::Result<Replayed> {
        let mut replayed = Replayed::begin(&record.settings);
        for step in &record.steps {
            match replayed.search.next() {
                Next::Try(asked) if asked == step.trial => {}
                asked => bail!("{}: the search asks for {asked:?} here, not for {:?}", step.dir, step.trial),
            }
            replayed.take(figures_of(dir, step)?);
        }
        Ok(replayed)
    }

    /// Takes in a window.
    pub fn take(&mut self, figures: Figures) {
        self.search.report(figures.shown());
        self.steps.push(figures);
    }
}

/// What a step of the search in `dir` shows.
///
/// # Errors
/// A file that cannot be read, or it has not one window.
pub fn figures_of(dir: &Path, step: &Step) -> anyhow::Result<Figures> {
    let trial = step.trial;
    let place = Place { purpose: Some(trial.purpose), load: trial.load, attempt: trial.attempt };
    let mut found = window::of_directory(dir, &step.dir, |_| place)?;
    match found.pop().filter(|_| found.is_empty()) {
        Some(figures) => Ok(figures),
        None => bail!("{}: a step of a search has one window", step.dir),
    }
}

impl Document {
    /// Of the search in `dir`.
    ///
    /// # Errors
    /// As for [`Replayed::of`].
    pub fn of_directory(dir: &Path) -> anyhow::Result<Document> {
        let record = Record::read(dir)?;
        let Replayed { search, steps } = Replayed::of(dir, &record)?;
        let bracket = search.bracket();
        let runs = record.steps.iter().map(|step| step.dir.as_str()).chain(record.points.as_deref());
        let asked = window::Asked::of(dir, runs)?;
        let points = match &record.points {
            None => Vec::new(),
            Some(name) => {
                let over = record.settings.over;
                let load = |cell: &crate::rundir::run_json::Cell| match over {
                    Over::Rate => cell.load.rate,
                    Over::Concurrency => cell.load.concurrency.map(f64::from),
                };
                window::of_directory(dir, name, |cell| Place { purpose: None, load: load(cell), attempt: 0 })?
            }
        };
        let curve = curve(steps.iter().chain(&points));
        let optimum = bracket.good.map(|load| {
            let there: Vec<&Figures> =
                steps.iter().filter(|f| f.load == Some(load) && f.answer == Answer::Meets).collect();
            Optimum {
                load,
                windows: bracket.windows as u64,
                missed_at: bracket.bad,
                open_at: bracket.unclear.clone(),
                requests_per_s: mean(&there, |f| f.requests_per_s),
                output_tokens_per_s: mean(&there, |f| f.output_tokens_per_s),
                total_tokens_per_s: mean(&there, |f| f.total_tokens_per_s),
            }
        });
        let ended = match (search.next(), record.ended) {
            (Next::Over(end), _) => end,
            (Next::Try(_), Some(end)) => end,
            (Next::Try(_), None) => End::Failed("the search was broken off, and nobody wrote down why".to_owned()),
        };
        let cost = record.settings.price.clone().zip(optimum.as_ref()).map(|(price, at)| Cost {
            per_million_output_tokens: at.output_tokens_per_s.and_then(|per_s| price.per_million(per_s)),
            per_million_total_tokens: at.total_tokens_per_s.and_then(|per_s| price.per_million(per_s)),
            price,
        });
        let rules = [
            ("saturation", SATURATION_RULE),
            ("optimum", OPTIMUM_RULE),
            ("knee", KNEE_RULE),
            ("over_saturated", OVER_SATURATED_RULE),
        ];
        Ok(Document {
            schema: SCHEMA.to_owned(),
            tarebench: record.tarebench,
            started_at: record.started_at,
            server: asked.server,
            model: asked.model,
            labels: asked.labels,
            settings: record.settings,
            optimum,
            saturation: points::saturation(&curve),
            knee: points::knee(&curve),
            cost,
            ended,
            conclusive: search.is_conclusive(),
            not_monotone: bracket.turns,
            client_above: search.client_above().map(str::to_owned),
            definitions: rules.into_iter().map(|(name, rule)| (name.to_owned(), rule.to_owned())).collect(),
            steps,
            points,
        })
    }

    /// As it stands in the file.
    ///
    /// # Errors
    /// It cannot be written as JSON.
    pub fn to_json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

/// Throughput over load, of windows in which the client was fit.
fn curve<'a>(windows: impl Iterator<Item = &'a Figures>) -> Vec<Point> {
    let fit = windows.filter(|f| !matches!(f.answer, Answer::Client(_)));
    let of = |f: &Figures| {
        let Figures { load, requests_per_s, .. } = f;
        Some(Point { load: (*load)?, throughput: (*requests_per_s)?, time_ms: f.shown().time_ms })
    };
    points::merged(&fit.filter_map(of).collect::<Vec<_>>())
}

fn mean(windows: &[&Figures], of: fn(&Figures) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = windows.iter().copied().map(of).collect::<Option<_>>()?;
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
