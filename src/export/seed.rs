//! The JSON of `protocol_demos.py`, the script in the design standard for benchmarks: one file a window, as `--out` of one of
//! its runs.
//!
//! **The text does not print the script's schema**, and the script was not to be had. What stands here is what is given: the
//! words of its command line (`model`, `arm`, `concurrency`, `n`), `client_cpu_seconds_per_wall_second` in each summary, the
//! three stamps (first visible word, longest pause between words, last word), the percentiles of its tables (p50, p95,
//! p99, type 7), and the keys of the author's earlier study (`ttft_ms`, `total_ms`, `prompt_tokens`, `completion_tokens`,
//! `error`; `summary` with `n`, `p50_ms`, `p95_ms`, `p99_ms`). The other keys, and how they are nested, are ours: no
//! reader of the author's has seen this file.
//!
//! - **Start**: before a connection is opened: `taken`, or `due` where a worker held the request ready for it.
//! - **ttft_ms** ends with the first visible word, here `first_answer.seen`; there the clock is read after the JSON was parsed.
//! - **total_ms** ends with the last word: `last_token.seen`.
//! - **max_gap_ms**: the longest time between two token events of whichever choice from that first word on; null with fewer.
//! - **client_cpu_seconds_per_wall_second** is the process's, all threads, over the window, as `run.json` has it.
//! - Warm-up is dropped by trace id; those left are in order of trace id, so that pairs of windows can be matched.
//! - Failed and censored requests stand in `records` with null times and an `error`, and in no percentile. Texts are not kept.

use serde_json::{Value, json};

use super::measured::{Campaign, MeasuredWindow};
use super::terms::{self, Term};
use super::{Exported, Exporter, marks, numpy};
use crate::reading::printable;
use crate::rundir::row::{Outcome, Row};

/// The format.
#[derive(Debug, Default)]
pub struct Format;

impl Exporter for Format {
    fn window(&mut self, of: &Campaign, window: &MeasuredWindow) -> anyhow::Result<Vec<Exported>> {
        let bounds = &window.bounds;
        let load = match (bounds.load.concurrency, bounds.load.request_rate(), bounds.load.session_rate()) {
            (_, _, Some(per_s)) => format!("s{per_s}"),
            (Some(n), None, None) => format!("c{n}"),
            (_, Some(rate), None) => format!("r{rate}"),
            (None, None, None) => "all".into(),
        };
        let name = format!("protocol_demos_{load}_cell{}_w{}.json", bounds.cell, bounds.window + 1);
        Ok(vec![Exported { name, text: serde_json::to_string_pretty(&document(of, window))? + "\n" }])
    }

    fn finish(&mut self, _of: &Campaign) -> anyhow::Result<Vec<Exported>> {
        Ok(Vec::new())
    }
}

/// What the script keeps of a request, in ms.
struct Record {
    ttft: Option<f64>,
    max_gap: Option<f64>,
    total: Option<f64>,
    speed: Option<f64>,
}

fn record(row: &Row) -> Record {
    let none = Record { ttft: None, max_gap: None, total: None, speed: None };
    if row.outcome != Outcome::Ok {
        return none;
    }
    let start = row.taken.or(row.submit).unwrap_or(row.due).max(row.due);
    let since = |at: u64| at.saturating_sub(start) as f64 / 1e6;
    let ttft = row.first_answer.map(|stamp| since(stamp.seen));
    let total = row.last_token.map(|stamp| since(stamp.seen));
    let words = row
        .chunks
        .iter()
        .map(|chunk| chunk.0)
        .skip_while(|seen| row.first_answer.is_some_and(|first| *seen < first.seen));
    let words: Vec<u64> = words.collect();
    let gaps = words.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
    let speed = ttft
        .zip(total)
        .zip(row.completion_tokens)
        .and_then(|((ttft, total), tokens)| (total > ttft).then(|| tokens as f64 / ((total - ttft) / 1e3)));
    Record { ttft, max_gap: gaps.max().map(|ns| ns as f64 / 1e6), total, speed }
}

/// Rows in the statistics, in order of trace id.
fn kept(window: &MeasuredWindow) -> Vec<&Row> {
    let mut kept: Vec<&Row> = window.kept().collect();
    kept.sort_by_key(|row| row.trace_id);
    kept
}

fn document(of: &Campaign, window: &MeasuredWindow) -> Value {
    let bounds = &window.bounds;
    let kept = kept(window);
    let published = of.published(bounds);
    let records: Vec<Record> = kept.iter().map(|row| record(row)).collect();
    let rows: Vec<Value> = kept.iter().zip(&records).map(|(row, record)| line(row, record)).collect();
    let ok = kept.iter().filter(|row| row.outcome == Outcome::Ok).count();
    let values = |pick: fn(&Record) -> Option<f64>| records.iter().filter_map(pick).collect::<Vec<f64>>();
    let mut document = json!({
        "model": of.model(),
        "arm": "tarebench",
        "concurrency": bounds.load.concurrency,
        "request_rate": bounds.load.request_rate(),
        "n": kept.len(),
        "dropped": bounds.drop,
        "submitted": window.rows.iter().filter(|row| row.outcome != Outcome::NotSent).count(),
        "errors": kept.len() - ok,
        "seed": of.plan.pointer("/workload/seed"),
        "timestamp": of.run.started_at,
        "window": bounds.window + 1,
        "summary": {
            "n": ok,
            "wall_seconds": published.map(|window| window.duration_s),
            "client_cpu_seconds_per_wall_second": published.and_then(|window| window.client.cpu_per_wall),
            "ttft": summary(&values(|record| record.ttft)),
            "max_gap": summary(&values(|record| record.max_gap)),
            "total": summary(&values(|record| record.total)),
        },
        "tarebench": {
            "run": of.run.run_id,
            "plan_hash": of.run.plan_hash,
            "cell": bounds.cell,
            "valid": marks::is_valid(&of.run, bounds.cell, bounds.window),
            "marks": marks::of(&of.run, bounds.cell, bounds.window),
        },
        "records": rows,
    });
    if let Some(per_s) = bounds.load.session_rate() {
        document["tarebench"]["session_rate"] = json!(per_s);
    }
    document
}

/// Percentiles of type 7, whatever n is; null of nothing.
fn summary(values: &[f64]) -> Value {
    let at = |q: f64| (!values.is_empty()).then(|| numpy::percentile(values, q));
    json!({"n": values.len(), "p50_ms": at(50.0), "p95_ms": at(95.0), "p99_ms": at(99.0)})
}

fn line(row: &Row, record: &Record) -> Value {
    let error = match (&row.error, row.outcome) {
        (_, Outcome::Ok) => None,
        (Some(error), _) => Some(printable(&format!("{}: {}", error.class, error.text), None)),
        (None, _) => Some("censored: still running when the window closed".into()),
    };
    json!({
        "id": row.trace_id,
        "class": row.class,
        "ttft_ms": record.ttft,
        "max_gap_ms": record.max_gap,
        "total_ms": record.total,
        "prompt_tokens": row.prompt_tokens,
        "completion_tokens": row.completion_tokens,
        "error": error,
    })
}

/// What the script calls the streams of this window.
pub fn terms(window: &MeasuredWindow) -> Vec<Term> {
    let records: Vec<Record> = kept(window).into_iter().map(record).collect();
    let term = |concept, name, definition, pick: fn(&Record) -> Option<f64>, unit| {
        let values: Vec<f64> = records.iter().filter_map(pick).collect();
        let figure = |of: fn(&[f64]) -> f64| (!values.is_empty()).then(|| of(&values));
        Term {
            concept,
            tool: "seed script",
            name,
            definition,
            n: values.len() as u64,
            mean: figure(numpy::mean),
            p50: figure(|values| numpy::percentile(values, 50.0)),
            p99: figure(|values| numpy::percentile(values, 99.0)),
            unit,
        }
    };
    vec![
        term(
            terms::FIRST_ANSWER,
            "ttft_ms",
            "first visible word, after its JSON was parsed (here: first event with answer text) - before a connection is \
             opened (here: taken)",
            |record| record.ttft,
            "ms",
        ),
        term(
            terms::GAP,
            "max_gap_ms",
            "longest pause between words of a request (here: between token events from the first answer on)",
            |record| record.max_gap,
            "ms",
        ),
        term(
            terms::E2E,
            "total_ms",
            "last word (here: last token event) - the same start",
            |record| record.total,
            "ms",
        ),
        term(
            terms::THROUGHPUT,
            "generation speed",
            "per request: completion tokens / (total - ttft)",
            |record| record.speed,
            "tokens/s",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::specimen::{MS, failed, request, stamp};

    #[test]
    fn three_stamps_of_a_request() {
        let mut row = request(1, 0);
        let found = record(&row);
        // taken at 5 us, first answer seen at 5.040 ms, the last word at 8.140 after a pause of 2.1
        assert_eq!((found.ttft, found.max_gap, found.total), (Some(5.035), Some(2.1), Some(8.135)));
        assert_eq!(found.speed, Some(3.0 / ((8.135 - 5.035) / 1e3)));
        // thinking is no visible word
        row.first_answer = Some(stamp(8 * MS + 25_000, 115_000));
        assert_eq!((record(&row).ttft, record(&row).max_gap), (Some(8.135), None));
        assert_eq!(record(&failed(row, "transport")).total, None);
    }
}
