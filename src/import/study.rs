//! Records in JSON: the sweep and chains of the serverless tail-latency study, one object a line of its bounded runs,
//! and any document with an array of such records.

use serde_json::{Map, Value};

use super::{BadRecording, Chain, Group, Record, Recording};

/// Names under which documents keep their records.
const ARRAYS: [&str; 4] = ["records", "requests", "results", "raw"];

pub(super) fn read(text: &str, file: &str) -> Result<Recording, BadRecording> {
    match serde_json::from_str::<Value>(text) {
        Ok(document) => of_document(&document, file),
        Err(error) => lines(text, file).map_err(|bad| match bad {
            // a document that breaks off is no file of lines
            BadRecording::Line { line: 1, .. } => {
                BadRecording::Line { file: file.into(), line: error.line(), text: error.to_string() }
            }
            other => other,
        }),
    }
}

fn of_document(document: &Value, file: &str) -> Result<Recording, BadRecording> {
    let form = |text: &str| BadRecording::Form { file: file.into(), text: text.into() };
    let place = Place { file };
    if let Value::Array(items) = document {
        let records = place.records(items, "")?;
        return Ok(Recording {
            form: "array of records",
            groups: vec![Group { name: "all".into(), records, published: Vec::new() }],
            ..Recording::default()
        });
    }
    let Value::Object(fields) = document else { return Err(form("is neither an object nor an array")) };
    let facts = facts(fields);
    if let Some(Value::Object(sweep)) = fields.get("baseline_sweep") {
        let groups = place.sweep(sweep)?;
        let (chains, chains_published) = place.chains(fields.get("chained_session"))?;
        return Ok(Recording {
            form: "tail-latency study",
            unit_assumed: false,
            facts,
            groups,
            chains,
            chains_published,
        });
    }
    // a single record, as the only line of a file
    if is_record(fields) {
        let records = vec![place.record(document, "")?];
        let groups = vec![Group { name: "all".into(), records, published: Vec::new() }];
        return Ok(Recording { form: "lines of records", groups, ..Recording::default() });
    }
    let Some((name, items)) = ARRAYS.iter().find_map(|name| Some((*name, fields.get(*name)?.as_array()?))) else {
        return Err(form(
            "is JSON of no known form: neither baseline_sweep, nor an array named records, requests, results or raw, nor an \
             array or lines of objects with ttft_ms or total_ms",
        ));
    };
    let name_of_group = match fields.get("concurrency").and_then(Value::as_u64) {
        Some(n) => format!("concurrency {n}"),
        None => "all".into(),
    };
    let group = Group {
        name: name_of_group,
        records: place.records(items, name)?,
        published: published(fields.get("summary")),
    };
    Ok(Recording { form: "document with records", facts, groups: vec![group], ..Recording::default() })
}

fn is_record(fields: &Map<String, Value>) -> bool {
    ["ttft_ms", "total_ms", "error", "abandoned_after_ms"].iter().any(|key| fields.contains_key(*key))
}

fn lines(text: &str, file: &str) -> Result<Recording, BadRecording> {
    let place = Place { file };
    let mut records = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let bad = |text: String| BadRecording::Line { file: file.into(), line: index + 1, text };
        let value: Value = serde_json::from_str(line).map_err(|e| bad(e.to_string()))?;
        let record = place.record(&value, "").map_err(|e| bad(reason(e)))?;
        records.push(record);
    }
    let groups = vec![Group { name: "all".into(), records, published: Vec::new() }];
    Ok(Recording { form: "lines of records", groups, ..Recording::default() })
}

fn reason(bad: BadRecording) -> String {
    match bad {
        BadRecording::Unreadable { text, .. } | BadRecording::Line { text, .. } | BadRecording::Form { text, .. } => {
            text
        }
    }
}

/// Chains, and the figures that the file publishes of them.
type ChainsRead = (Vec<Chain>, Vec<(String, f64)>);

struct Place<'a> {
    file: &'a str,
}

impl Place<'_> {
    fn bad(&self, at: &str, text: &str) -> BadRecording {
        let at = if at.is_empty() { String::new() } else { format!("{at}: ") };
        BadRecording::Form { file: self.file.into(), text: format!("{at}{text}") }
    }

    /// Loads by number where their names hold one.
    fn sweep(&self, sweep: &Map<String, Value>) -> Result<Vec<Group>, BadRecording> {
        let mut groups = Vec::new();
        for (name, cell) in sweep {
            let at = format!("baseline_sweep.{name}");
            let items = cell.get("records").and_then(Value::as_array);
            let items = items.ok_or_else(|| self.bad(&at, "has no records"))?;
            let number: Option<u64> = name.rsplit('_').next().and_then(|n| n.parse().ok());
            let shown = number.map_or_else(|| name.clone(), |n| format!("concurrency {n}"));
            let records = self.records(items, &format!("{at}.records"))?;
            groups.push((number, Group { name: shown, records, published: published(cell.get("summary")) }));
        }
        groups.sort_by_key(|(number, _)| *number);
        Ok(groups.into_iter().map(|(_, group)| group).collect())
    }

    fn chains(&self, session: Option<&Value>) -> Result<ChainsRead, BadRecording> {
        let Some(session) = session else { return Ok((Vec::new(), Vec::new())) };
        let listed = session.get("chains").and_then(Value::as_array);
        let mut chains = Vec::new();
        for (i, chain) in listed.into_iter().flatten().enumerate() {
            let at = format!("chained_session.chains[{i}]");
            let calls = chain.get("calls").and_then(Value::as_array);
            let calls = calls.ok_or_else(|| self.bad(&at, "has no calls"))?;
            chains.push(Chain {
                total_ms: self.time(chain, "total_chain_ms", &at)?,
                calls: self.records(calls, &format!("{at}.calls"))?,
            });
        }
        let summary = session.get("chain_summary").and_then(Value::as_object);
        let figures = summary.into_iter().flatten().filter_map(|(name, value)| Some((name.clone(), value.as_f64()?)));
        Ok((chains, figures.filter(|(name, _)| name != "n_chains").collect()))
    }

    fn records(&self, items: &[Value], at: &str) -> Result<Vec<Record>, BadRecording> {
        items.iter().enumerate().map(|(i, item)| self.record(item, &format!("{at}[{i}]"))).collect()
    }

    fn record(&self, item: &Value, at: &str) -> Result<Record, BadRecording> {
        let Value::Object(fields) = item else { return Err(self.bad(at, "is no object")) };
        if !is_record(fields) {
            return Err(self.bad(at, "has neither ttft_ms, total_ms, error nor abandoned_after_ms"));
        }
        let error = match fields.get("error") {
            None | Some(Value::Null | Value::Bool(false)) => None,
            // of those that succeeded some tools write ""
            Some(Value::String(text)) => Some(text.clone()).filter(|text| !text.is_empty()),
            Some(other) => Some(other.to_string()),
        };
        Ok(Record {
            ttft_ms: self.time(item, "ttft_ms", at)?,
            total_ms: self.time(item, "total_ms", at)?,
            max_gap_ms: self.time(item, "max_gap_ms", at)?,
            completion_tokens: fields.get("completion_tokens").and_then(Value::as_u64),
            error,
            abandoned_after_ms: self.time(item, "abandoned_after_ms", at)?,
        })
    }

    fn time(&self, item: &Value, key: &str, at: &str) -> Result<Option<f64>, BadRecording> {
        match item.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_f64().filter(|ms| super::figures::is_time_ms(*ms)) {
                Some(ms) => Ok(Some(ms)),
                None => Err(self.bad(at, &format!("{key} must be a time in ms of 0 or more, not {value}"))),
            },
        }
    }
}

/// `{"p50_ms": ..}` of ttft, or `{"ttft": {"p50_ms": ..}, "total": {..}}`.
fn published(summary: Option<&Value>) -> Vec<(String, String, f64)> {
    let mut found = Vec::new();
    for (name, value) in summary.and_then(Value::as_object).into_iter().flatten() {
        match value {
            Value::Object(inner) => {
                let metric = name.trim_end_matches("_ms").to_owned();
                let figures =
                    inner.iter().filter_map(|(figure, v)| Some((metric.clone(), figure.clone(), v.as_f64()?)));
                found.extend(figures);
            }
            other => found.extend(other.as_f64().map(|v| ("ttft".to_owned(), name.clone(), v))),
        }
    }
    found
}

/// What the document says of itself in single values.
fn facts(fields: &Map<String, Value>) -> Vec<(String, String)> {
    let single = |(name, value): (&String, &Value)| {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(n) => n.to_string(),
            Value::Bool(b) => b.to_string(),
            _ => return None,
        };
        Some((name.clone(), text))
    };
    fields.iter().filter_map(single).collect()
}
