//! Latencies as delimited text: one column of numbers, or named columns.

use std::collections::BTreeMap;

use super::figures::is_time_ms;
use super::{BadRecording, Group, Record, Recording};

/// How the columns of a delimited file are to be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Columns {
    /// Column of the time to first token; None: by its name.
    pub ttft: Option<String>,
    /// Column of the total; None: by its name.
    pub total: Option<String>,
    /// Column whose values part the records into groups.
    pub by: Option<String>,
    /// ms in one unit of a column whose name does not end in its unit; None: ms.
    pub unit_ms: Option<f64>,
}

/// Endings of names, and the ms of one such unit.
const UNITS: [(&str, f64); 8] = [
    ("_ms", 1.0),
    ("(ms)", 1.0),
    ("_us", 1e-3),
    ("_ns", 1e-6),
    ("_seconds", 1e3),
    ("_sec", 1e3),
    ("_s", 1e3),
    ("(s)", 1e3),
];
const TTFT: [&str; 3] = ["ttft", "time_to_first_token", "first_token"];
const TOTAL: [&str; 7] = ["total", "e2e", "e2el", "latency", "request_latency", "duration", "elapsed"];

/// A column that holds times.
#[derive(Clone, Copy, Debug)]
struct Times {
    index: usize,
    unit_ms: f64,
    /// Neither its name nor a flag told the unit.
    assumed: bool,
}

impl Times {
    fn of(index: usize, unit_ms: Option<f64>) -> Times {
        Times { index, unit_ms: unit_ms.unwrap_or(1.0), assumed: unit_ms.is_none() }
    }
}

pub(super) fn read(text: &str, file: &str, columns: &Columns) -> Result<Recording, BadRecording> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let bad = |line: usize, text: String| BadRecording::Line { file: file.into(), line: line + 1, text };
    let Some((at, first)) = lines.next() else {
        return Err(BadRecording::Form { file: file.into(), text: "is empty".into() });
    };
    let delimiter = [',', ';', '\t'].into_iter().find(|d| first.contains(*d)).unwrap_or(',');
    let head = fields(first, delimiter).map_err(|text| bad(at, text))?;
    let bare = head.len() == 1 && head[0].trim().parse::<f64>().is_ok();
    if bare && (columns.ttft.is_some() || columns.total.is_some() || columns.by.is_some()) {
        return Err(bad(at, "has no names of columns, but columns were named".into()));
    }
    let (ttft, total, by) = match bare {
        true => (None, Some(Times::of(0, columns.unit_ms)), None),
        false => {
            let find = |asked: &Option<String>, known: &[&str]| column(&head, asked, known, columns.unit_ms);
            let ttft = find(&columns.ttft, &TTFT).map_err(|text| bad(at, text))?;
            let total = find(&columns.total, &TOTAL).map_err(|text| bad(at, text))?;
            let by = columns.by.as_ref().map(|name| place(&head, name)).transpose().map_err(|text| bad(at, text))?;
            (ttft, total, by)
        }
    };
    if ttft.is_none() && total.is_none() {
        let text = format!(
            "no column of times among {}: name one with --ttft-column or --total-column, or call it ttft_ms or total_ms",
            head.join(", ")
        );
        return Err(bad(at, text));
    }
    let error = head.iter().position(|name| name.trim() == "error");
    let tokens = head.iter().position(|name| ["completion_tokens", "output_tokens"].contains(&name.trim()));
    let mut groups: BTreeMap<String, Vec<Record>> = BTreeMap::new();
    let mut order: Vec<String> = Vec::new();
    let first_row = bare.then_some((at, first));
    for (at, line) in first_row.into_iter().chain(lines) {
        let row = fields(line, delimiter).map_err(|text| bad(at, text))?;
        if row.len() != head.len() {
            return Err(bad(at, format!("has {} fields, the first line has {}", row.len(), head.len())));
        }
        let time = |column: Option<Times>| match column {
            None => Ok(None),
            Some(times) => value(&row[times.index], times.unit_ms).map_err(|text| bad(at, text)),
        };
        let record = Record {
            ttft_ms: time(ttft)?,
            total_ms: time(total)?,
            completion_tokens: tokens.and_then(|i| row[i].trim().parse().ok()),
            error: error.map(|i| row[i].trim().to_owned()).filter(|text| !text.is_empty()),
            ..Record::default()
        };
        let name = by.map_or_else(|| "all".to_owned(), |i| row[i].trim().to_owned());
        if !groups.contains_key(&name) {
            order.push(name.clone());
        }
        groups.entry(name).or_default().push(record);
    }
    let group = |name: String| {
        let records = groups.remove(&name).unwrap_or_default();
        Group { name, records, published: Vec::new() }
    };
    let unit_assumed = [ttft, total].into_iter().flatten().any(|times| times.assumed);
    Ok(Recording {
        form: "delimited text",
        unit_assumed,
        groups: order.into_iter().map(group).collect(),
        ..Recording::default()
    })
}

/// An empty field is a time that the file does not have.
fn value(field: &str, unit_ms: f64) -> Result<Option<f64>, String> {
    let field = field.trim();
    if field.is_empty() || ["null", "None", "NA", "nan", "NaN"].contains(&field) {
        return Ok(None);
    }
    let told = || format!("{field:?} is no time of 0 or more");
    let number: f64 = field.parse().map_err(|_| told())?;
    let ms = number * unit_ms;
    if is_time_ms(ms) { Ok(Some(ms)) } else { Err(told()) }
}

fn column(
    head: &[String],
    asked: &Option<String>,
    known: &[&str],
    unit_ms: Option<f64>,
) -> Result<Option<Times>, String> {
    if let Some(name) = asked {
        let index = place(head, name)?;
        let by_name = UNITS.iter().find(|(end, _)| name.trim().to_lowercase().ends_with(end)).map(|(_, ms)| *ms);
        return Ok(Some(Times::of(index, by_name.or(unit_ms))));
    }
    let found = head.iter().enumerate().find_map(|(index, name)| {
        let name = name.trim().to_lowercase();
        let unit = UNITS.iter().find(|(end, _)| name.ends_with(end));
        let stem = unit.map_or(name.as_str(), |(end, _)| name.trim_end_matches(end).trim_end());
        known.contains(&stem).then(|| Times::of(index, unit.map(|(_, ms)| *ms).or(unit_ms)))
    });
    Ok(found)
}

fn place(head: &[String], name: &str) -> Result<usize, String> {
    let found = head.iter().position(|known| known.trim() == name.trim());
    found.ok_or_else(|| format!("no column {name:?}; there are {}", head.join(", ")))
}

/// The fields of a line, RFC 4180: quoted ones may hold the delimiter, and a doubled quote is one.
fn fields(line: &str, delimiter: char) -> Result<Vec<String>, String> {
    let (mut all, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = line.trim_end_matches('\r').chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                field.push('"');
                chars.next();
            }
            '"' => quoted = !quoted,
            c if c == delimiter && !quoted => all.push(std::mem::take(&mut field)),
            c => field.push(c),
        }
    }
    if quoted {
        return Err("a quoted field does not end on its line".into());
    }
    all.push(field);
    Ok(all)
}
