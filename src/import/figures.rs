//! What this project's rules make of another tool's records.

use std::collections::BTreeMap;

use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};
use serde::Serialize;

use super::{Chain, Group, Record, Recording};
use crate::analysis::percentiles::{self, PUBLISHED, Percentile};
use crate::analysis::statistics::order_interval;

/// Longest time that is believed, in ms: a year.
const LONGEST_MS: f64 = 366.0 * 86_400_000.0;
/// Lengths of the chains that are drawn from single calls.
const LENGTHS: [usize; 5] = [1, 3, 5, 10, 20];
/// Chains drawn for each length, and the seed of the draws.
const DRAWS: usize = 100_000;
const SEED: u64 = 42;
/// More abandoned ones than this, and a percentile is one of those that completed.
const ABANDONED: f64 = 0.01;

/// Whether a number can be a time.
pub(super) fn is_time_ms(ms: f64) -> bool {
    (0.0..=LONGEST_MS).contains(&ms)
}

/// A file of records, analysed. Times in ms, speeds in tokens/s.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Imported {
    /// `tarebench.import/1`.
    pub schema: &'static str,
    /// As given.
    pub file: String,
    /// SHA-256 of the file, hex.
    pub sha256: String,
    /// Form it was recognised as.
    pub form: &'static str,
    /// What it says of itself.
    pub facts: BTreeMap<String, String>,
    /// Its loads.
    pub groups: Vec<Sample>,
    /// Its chains of dependent calls.
    pub chains: Option<Chained>,
    /// What no analysis can make good.
    pub notes: Vec<String>,
}

/// One load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// As the file calls it.
    pub name: String,
    /// Records.
    pub records: u64,
    /// Those with an answer.
    pub ok: u64,
    /// Those that failed.
    pub failed: u64,
    /// Those given up.
    pub abandoned: u64,
    /// Answers without a time to first token, though others have one.
    pub without_ttft: u64,
    /// Of the answers.
    pub ttft: Option<Statistics>,
    /// Of the answers.
    pub total: Option<Statistics>,
    /// Of the answers.
    pub max_gap: Option<Statistics>,
    /// Completion tokens / (total - ttft), of the answers that have all three.
    pub tokens_per_s: Option<Statistics>,
    /// Percentiles of total with the abandoned counted as long as they were waited for: lower bounds. None when few were
    /// abandoned.
    pub total_at_least: Option<BTreeMap<&'static str, f64>>,
    /// What the file publishes of it against its own records.
    pub published: Vec<Published>,
}

/// Figures of one quantity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Statistics {
    /// Values.
    pub n: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// With n - 1.
    pub sd: Option<f64>,
    /// `sd / mean`.
    pub cv: Option<f64>,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// p50 to p999, type 7; those that n carries.
    pub percentiles: BTreeMap<&'static str, f64>,
    /// Their 95 % intervals from exact binomial ranks; those that n carries.
    pub ci: BTreeMap<&'static str, [f64; 2]>,
    /// p99 over p50.
    pub p99_to_p50: Option<f64>,
    /// Percentiles whatever n says of their worth: only to see whether a file agrees with itself.
    #[serde(skip)]
    at_any_n: BTreeMap<&'static str, f64>,
}

/// A published figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Published {
    /// `ttft`, `total`, `chain`, ..
    pub metric: String,
    /// Its name in the file.
    pub figure: String,
    /// As the file has it.
    pub stored: f64,
    /// From the records, also where n is too small to publish it; None where this is no figure that is known.
    pub recomputed: Option<f64>,
    /// Equal, as far as the digits of the stored one go.
    pub agrees: Option<bool>,
}

/// Chains of dependent calls.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Chained {
    /// Time of whole chains; of those in which every call was answered.
    pub total: Option<Statistics>,
    /// Chains with a call that failed.
    pub broken: u64,
    /// Time to first token of their calls.
    pub ttft: Option<Statistics>,
    /// What the file publishes against its own records.
    pub published: Vec<Published>,
    /// Chains drawn from single calls of the first load.
    pub drawn: Vec<ChainLength>,
}

/// Time of a chain of so many calls, each drawn with replacement from the single ones.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChainLength {
    /// Calls.
    pub calls: usize,
    /// Median, ms.
    pub p50: f64,
    /// 95th percentile, ms.
    pub p95: f64,
}

impl Imported {
    /// Analyses what was read; `sha256` is of the file.
    pub fn of(recording: &Recording, file: &str, sha256: String) -> Imported {
        let groups: Vec<Sample> = recording.groups.iter().map(Sample::of).collect();
        let chains = (!recording.chains.is_empty()).then(|| Chained::of(recording));
        let mut notes = vec![
            "no record says when it started: neither drift nor dependence between neighbours can be tested, and the intervals \
             assume that there is none"
                .to_owned(),
            "nothing is known of the client: its own share is in every figure".to_owned(),
        ];
        if recording.unit_assumed {
            notes.push("nothing tells the unit of these times: they were taken as ms (--unit)".to_owned());
        }
        if groups.iter().all(|g| g.max_gap.is_none()) {
            notes.push("gaps were not recorded".to_owned());
        }
        Imported {
            schema: "tarebench.import/1",
            file: file.to_owned(),
            sha256,
            form: recording.form,
            facts: recording.facts.iter().cloned().collect(),
            groups,
            chains,
            notes,
        }
    }
}

impl Sample {
    fn of(group: &Group) -> Sample {
        let ok: Vec<&Record> = group.records.iter().filter(|r| r.is_ok()).collect();
        let of = |figure: fn(&Record) -> Option<f64>| Statistics::of(ok.iter().filter_map(|r| figure(r)));
        let ttft = of(|r| r.ttft_ms);
        let total = of(|r| r.total_ms);
        let abandoned = group.records.iter().filter(|r| r.abandoned_after_ms.is_some()).count() as u64;
        let records = group.records.len() as u64;
        let waited = || {
            let given_up = group.records.iter().filter_map(|r| r.abandoned_after_ms);
            Statistics::of(ok.iter().filter_map(|r| r.total_ms).chain(given_up)).map(|s| s.percentiles)
        };
        let published = group.published.iter().map(|(metric, figure, stored)| {
            let statistics = match metric.as_str() {
                "ttft" => ttft.as_ref(),
                "total" | "e2e" => total.as_ref(),
                _ => None,
            };
            Published::of(metric, figure, *stored, statistics, ok.len() as u64)
        });
        Sample {
            name: group.name.clone(),
            records,
            ok: ok.len() as u64,
            failed: group.records.iter().filter(|r| r.error.is_some()).count() as u64,
            abandoned,
            without_ttft: if ttft.is_some() { ok.iter().filter(|r| r.ttft_ms.is_none()).count() as u64 } else { 0 },
            published: published.collect(),
            max_gap: of(|r| r.max_gap_ms),
            tokens_per_s: of(speed),
            total_at_least: (abandoned as f64 > ABANDONED * records as f64).then(waited).flatten(),
            ttft,
            total,
        }
    }
}

/// Tokens per s after the first one came.
fn speed(record: &Record) -> Option<f64> {
    let span_ms = record.total_ms? - record.ttft_ms?;
    (span_ms > 0.0).then_some(record.completion_tokens? as f64 * 1e3 / span_ms)
}

impl Statistics {
    fn of(values: impl Iterator<Item = f64>) -> Option<Statistics> {
        // whole millionths: what was written with a decimal or two comes out again as it was
        let mut millionths: Vec<i64> = values.map(|v| (v * 1e6).round() as i64).collect();
        let f = percentiles::figures(&mut millionths)?;
        let named = |found: [Option<f64>; 5]| PUBLISHED.iter().zip(found).filter_map(|(p, v)| Some((p.name, v?)));
        let percentiles: BTreeMap<&str, f64> = named(f.percentiles_ms).collect();
        let intervals = PUBLISHED.iter().zip(order_interval::intervals(&millionths));
        let at_any_n = PUBLISHED.iter().filter_map(|p| {
            Some((p.name, percentiles::percentile_ms(&millionths, Percentile { smallest_n: 1, ..*p })?))
        });
        let at_any_n: BTreeMap<&str, f64> = at_any_n.collect();
        let p99_to_p50 = percentiles.get("p99").zip(percentiles.get("p50")).map(|(p99, p50)| p99 / p50);
        Some(Statistics {
            n: f.n as u64,
            mean: f.mean_ms,
            sd: f.sd_ms,
            cv: f.sd_ms.filter(|_| f.mean_ms > 0.0).map(|sd| sd / f.mean_ms),
            min: f.min_ms,
            max: f.max_ms,
            ci: intervals.filter_map(|(p, ends)| Some((p.name, ends?))).collect(),
            p99_to_p50: p99_to_p50.filter(|r| r.is_finite()),
            at_any_n,
            percentiles,
        })
    }

    /// A figure by the name that other files give it.
    fn named(&self, figure: &str) -> Option<f64> {
        let stem = figure.trim_end_matches("_ms").trim_end_matches("_seconds").trim_end_matches("_s");
        match stem {
            "n" | "n_chains" => Some(self.n as f64),
            "mean" => Some(self.mean),
            "sd" | "std" | "stdev" => self.sd,
            "cv" => self.cv,
            "min" => Some(self.min),
            "max" | "worst" => Some(self.max),
            "p99_to_p50_ratio" | "p99_to_p50" => {
                Some(self.at_any_n["p99"] / self.at_any_n["p50"]).filter(|r| r.is_finite())
            }
            percentile => self.at_any_n.get(percentile).copied(),
        }
    }
}

impl Published {
    fn of(metric: &str, figure: &str, stored: f64, statistics: Option<&Statistics>, ok: u64) -> Published {
        let recomputed = match (figure, statistics) {
            ("n", _) => Some(ok as f64),
            (_, Some(statistics)) => {
                let in_s = figure.ends_with("_s") || figure.ends_with("_seconds");
                statistics.named(figure).map(|v| if in_s { v / 1e3 } else { v })
            }
            _ => None,
        };
        let agrees = recomputed.map(|v| (v - stored).abs() <= half_a_digit(stored));
        Published { metric: metric.to_owned(), figure: figure.to_owned(), stored, recomputed, agrees }
    }
}

/// Half a unit of the last digit that a number is written with.
fn half_a_digit(stored: f64) -> f64 {
    let written = format!("{stored:?}");
    let digits = written.split_once('.').map_or(0, |(_, digits)| digits.len());
    0.5 * 10_f64.powi(-(digits as i32)) * (1.0 + 1e-6)
}

impl Chained {
    fn of(recording: &Recording) -> Chained {
        let whole = |chain: &&Chain| chain.calls.iter().all(Record::is_ok);
        let time = |chain: &Chain| {
            let sum = || chain.calls.iter().map(|call| call.total_ms).sum::<Option<f64>>();
            chain.total_ms.or_else(sum)
        };
        let total = Statistics::of(recording.chains.iter().filter(whole).filter_map(time));
        let published = recording
            .chains_published
            .iter()
            .map(|(figure, stored)| Published::of("chain", figure, *stored, total.as_ref(), 0));
        let calls = recording.chains.iter().flat_map(|chain| &chain.calls);
        let single = recording.groups.first().map_or(&[][..], |group| &group.records);
        Chained {
            broken: recording.chains.iter().filter(|c| !whole(c)).count() as u64,
            ttft: Statistics::of(calls.filter(|c| c.is_ok()).filter_map(|c| c.ttft_ms)),
            published: published.collect(),
            drawn: drawn(single.iter().filter(|r| r.is_ok()).filter_map(|r| r.total_ms).collect()),
            total,
        }
    }
}

/// Chains made of single calls. What neighbouring calls have in common is lost: a slow minute slows a whole chain.
fn drawn(single: Vec<f64>) -> Vec<ChainLength> {
    if single.is_empty() {
        return Vec::new();
    }
    let mut generator = Pcg64::seed_from_u64(SEED);
    // the high half of the product is even over the indices to within 2^-32
    let mut pick = || single[((u128::from(generator.next_u64()) * single.len() as u128) >> 64) as usize];
    let mut of_length = |calls: usize| {
        let chains = (0..DRAWS).map(|_| (0..calls).map(|_| pick()).sum::<f64>());
        let statistics = Statistics::of(chains)?;
        let of = |name: &str| statistics.percentiles.get(name).copied();
        Some(ChainLength { calls, p50: of("p50")?, p95: of("p95")? })
    };
    LENGTHS.into_iter().filter_map(&mut of_length).collect()
}
