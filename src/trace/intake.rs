//! A trace read once, from its first byte to its last: every row checked, counted, and laid into the spool as it will be
//! asked for.

use super::fault::{AtLine, BadTrace, Fault};
use super::format::{Format, Known};
use super::lines::Lines;
use super::row::{Given, Row};
use super::spool::{Record, Spool, Writer};
use super::table::Table;
use super::time::in_seconds;
use super::{objects, scaled};
use crate::workload::hex;
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufReader, Read};

/// Kinds of requests that can be told apart in a report.
const MOST_CLASSES: usize = 1000;
/// Longest time from the first row, in ns.
const LATEST: i128 = i64::MAX as i128;

/// Why rows are left out.
const FAILED: &str = "failed in the capture (no response tokens)";
const NO_OUTPUT: &str = "output length 0";
const BEFORE: &str = "before --trace-from";
const AFTER: &str = "from --trace-to on";
const UNCUTTABLE: &str = "a prompt of its own, longer than --max-input-tokens";
/// Why rows are changed.
const NO_PROMPT: &str = "prompt length 0 becomes 1";
const LONG_PROMPT: &str = "prompt longer than --max-input-tokens";
const LONG_OUTPUT: &str = "output longer than --max-output-tokens";
const SPARE_HASHES: &str = "more hash_ids than its prompt has blocks";
const FEW_HASHES: &str =
    "fewer hash_ids than its prompt has whole blocks (is --hash-block right?): the rest is text of its own";

/// What is done with every row.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// None: by its first line.
    pub format: Option<Format>,
    /// Tokens of a block of `hash_ids`, where it is not the format's own.
    pub hash_block: Option<u64>,
    /// Rows before this time after the first row are left out, in ns.
    pub from_ns: u64,
    /// Rows at this time after the first row or later are left out, in ns.
    pub to_ns: Option<u64>,
    /// Multiplies every length.
    pub length_scale: f64,
    /// Replaces every output length.
    pub max_tokens: Option<u64>,
    /// Cuts prompts.
    pub max_input_tokens: Option<u64>,
    /// Cuts outputs.
    pub max_output_tokens: Option<u64>,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            format: None,
            hash_block: None,
            from_ns: 0,
            to_ns: None,
            length_scale: 1.0,
            max_tokens: None,
            max_input_tokens: None,
            max_output_tokens: None,
        }
    }
}

/// What was read and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Facts {
    /// SHA-256 of every byte of the file, hex.
    pub sha256: String,
    /// Its size.
    pub bytes: u64,
    /// Its format.
    pub format: Format,
    /// Rows read.
    pub rows: u64,
    /// Rows kept.
    pub kept: u64,
    /// Rows left out, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Rows changed, by reason.
    pub clamped: BTreeMap<&'static str, u64>,
    /// Time of the first row, on the trace's own axis, in s.
    pub first_s: String,
    /// Of the last one.
    pub last_s: String,
    /// From the first kept row to the last, in ns.
    pub span_ns: u64,
    /// Kept rows with the time of the kept row before: coarse times make bursts.
    pub at_same_time: u64,
    /// Tokens of a block of `hash_ids`; None: there are none.
    pub block_tokens: Option<u64>,
    /// The same as it is asked for: multiplied by the length scale, rounded up.
    pub asked_block_tokens: Option<u64>,
    /// `--trace-from`, in ns.
    pub from_ns: u64,
    /// `--trace-to`, in ns.
    pub to_ns: Option<u64>,
    /// `--max-input-tokens`.
    pub max_input_tokens: Option<u64>,
    /// `--max-output-tokens`.
    pub max_output_tokens: Option<u64>,
    /// Kept rows by what is given of their prompts: `lengths`, `blocks`, `texts`, `bodies`.
    pub prompts: BTreeMap<&'static str, u64>,
}

/// A trace that was read.
#[derive(Debug)]
pub struct Intake {
    /// What was read.
    pub facts: Facts,
    /// How its format was known.
    pub known_by: &'static str,
    /// What is asked for.
    pub spool: Spool,
}

/// Reads a trace to its end. `file` names it in errors.
///
/// # Errors
/// The first thing that is wrong with it, by line.
pub fn take_in(file: &str, reader: impl Read, rules: &Rules, spool: Writer) -> Result<Intake, BadTrace> {
    let mut digesting = Digesting { inner: reader, hash: Sha256::new(), bytes: 0 };
    let read = rows(BufReader::with_capacity(1 << 20, &mut digesting), rules, spool);
    let (books, known, spool) = read.map_err(|fault| fault.of(file))?;
    let spool = spool.finish().map_err(|e| unspooled(&e).of(file))?;
    let (sha256, bytes) = (hex(&digesting.hash.finalize()), digesting.bytes);
    let Books { rows, kept, dropped, clamped, first_ns, last, span_ns, at_same_time, prompts, .. } = books;
    let block_tokens = block(known.format, rules).filter(|_| prompts.contains_key("blocks"));
    let facts = Facts {
        sha256,
        bytes,
        format: known.format,
        rows,
        kept,
        dropped,
        clamped,
        first_s: in_seconds(first_ns.unwrap_or_default()),
        last_s: in_seconds(last.map(|(_, at)| at).unwrap_or_default()),
        span_ns,
        at_same_time,
        block_tokens,
        asked_block_tokens: block_tokens.map(|n| asked_block(n, rules.length_scale)),
        from_ns: rules.from_ns,
        to_ns: rules.to_ns,
        max_input_tokens: rules.max_input_tokens,
        max_output_tokens: rules.max_output_tokens,
        prompts,
    };
    Ok(Intake { facts, known_by: known.by, spool })
}

fn rows<R: io::BufRead>(reader: R, rules: &Rules, mut spool: Writer) -> Result<(Books, Known, Writer), AtLine> {
    let mut lines = Lines::new(reader);
    let Some((number, first)) = lines.read()? else { return Err(AtLine::whole(Fault::Empty)) };
    let known = match rules.format {
        Some(format) => Known { format, by: "--trace-format" },
        None => Format::sniff(first).map_err(|fault| AtLine::new(number, fault))?,
    };
    let mut books = Books::default();
    let table = match known.format {
        Format::Azure | Format::Burstgpt => {
            Some(Table::of_header(first, known.format).map_err(|fault| AtLine::new(number, fault))?)
        }
        _ => {
            let row = objects::row(known.format, number, first)?;
            books.take(number, row, known.format, rules, &mut spool)?;
            None
        }
    };
    while let Some((number, line)) = lines.read()? {
        let row = match &table {
            Some(table) => table.row(number, line)?,
            None => objects::row(known.format, number, line)?,
        };
        books.take(number, row, known.format, rules, &mut spool)?;
    }
    match (books.rows, books.kept) {
        (0, _) => Err(AtLine::whole(Fault::HeaderOnly)),
        (read, 0) => Err(AtLine::whole(Fault::NothingLeft { read, why: counted(&books.dropped) })),
        _ => Ok((books, known, spool)),
    }
}

/// Counts by reason, in words.
pub fn counted(reasons: &BTreeMap<&'static str, u64>) -> String {
    reasons.iter().map(|(reason, n)| format!("{n} {reason}")).collect::<Vec<_>>().join(", ")
}

fn block(format: Format, rules: &Rules) -> Option<u64> {
    rules.hash_block.or_else(|| format.block_tokens())
}

fn asked_block(tokens: u64, scale: f64) -> u64 {
    // up, so that no prompt has more blocks than hashes
    ((tokens as f64 * scale).ceil() as u64).max(1)
}

fn unspooled(error: &io::Error) -> AtLine {
    AtLine::whole(Fault::Unreadable(format!("its rows cannot be kept in a temporary file ({error}); set TMPDIR")))
}

/// What was read so far.
#[derive(Debug, Default)]
struct Books {
    rows: u64,
    kept: u64,
    dropped: BTreeMap<&'static str, u64>,
    clamped: BTreeMap<&'static str, u64>,
    first_ns: Option<i128>,
    /// Line and time.
    last: Option<(u64, i128)>,
    /// Of the first kept row.
    origin_ns: Option<u64>,
    span_ns: u64,
    at_same_time: u64,
    classes: BTreeSet<String>,
    prompts: BTreeMap<&'static str, u64>,
}

impl Books {
    fn take(&mut self, line: u64, row: Row, format: Format, rules: &Rules, spool: &mut Writer) -> Result<(), AtLine> {
        let at = |fault| AtLine::new(line, fault);
        if let Some((before, _)) = self.last.filter(|(_, last)| row.at_ns < *last) {
            return Err(at(Fault::Back(before)));
        }
        self.last = Some((line, row.at_ns));
        self.rows += 1;
        let since_first = row.at_ns - *self.first_ns.get_or_insert(row.at_ns);
        if since_first > LATEST {
            return Err(at(Fault::TooLate));
        }
        let since_first = since_first as u64;
        let block = block(format, rules);
        if matches!(row.given, Given::Blocks(_)) && block.is_none() {
            return Err(at(Fault::NoBlock));
        }
        let too_long = |tokens| rules.max_input_tokens.is_some_and(|most| tokens > most);
        let own = match &row.given {
            Given::Text(text) => Some(row.prompt_tokens.unwrap_or_else(|| words(&Value::from(text.as_str())))),
            Given::Body(body) => Some(row.prompt_tokens.unwrap_or_else(|| words(&json!(body)))),
            Given::Length | Given::Blocks(_) => None,
        };
        let why = match () {
            () if since_first < rules.from_ns => Some(BEFORE),
            () if rules.to_ns.is_some_and(|to| since_first >= to) => Some(AFTER),
            () if row.failed => Some(FAILED),
            () if row.output_tokens == 0 => Some(NO_OUTPUT),
            () if own.is_some_and(too_long) => Some(UNCUTTABLE),
            () => None,
        };
        if let Some(why) = why {
            *self.dropped.entry(why).or_default() += 1;
            return Ok(());
        }
        let mut record = self.asked(row, own, block, rules);
        record.at_ns = since_first - *self.origin_ns.get_or_insert(since_first);
        if !self.classes.contains(&record.class) {
            self.classes.insert(record.class.clone());
            if self.classes.len() > MOST_CLASSES {
                return Err(at(Fault::Classes(MOST_CLASSES)));
            }
        }
        self.at_same_time += u64::from(self.kept > 0 && record.at_ns == self.span_ns);
        self.span_ns = record.at_ns;
        self.kept += 1;
        spool.put(&record).map_err(|e| unspooled(&e))
    }

    /// What a kept row asks for. `own` is the length of a prompt that is given whole, which no scale makes shorter.
    fn asked(&mut self, row: Row, own: Option<u64>, block: Option<u64>, rules: &Rules) -> Record {
        let mut clamped = |why| *self.clamped.entry(why).or_default() += 1;
        let captured = own.or(row.prompt_tokens).unwrap_or_default();
        if captured == 0 {
            clamped(NO_PROMPT);
        }
        let mut prompt_tokens = if own.is_some() { captured.max(1) } else { scaled(captured, rules.length_scale) };
        if let Some(most) = rules.max_input_tokens.filter(|most| prompt_tokens > *most) {
            prompt_tokens = most;
            clamped(LONG_PROMPT);
        }
        let mut output_tokens = rules.max_tokens.unwrap_or_else(|| scaled(row.output_tokens, rules.length_scale));
        if let Some(most) = rules.max_output_tokens.filter(|most| output_tokens > *most) {
            output_tokens = most;
            clamped(LONG_OUTPUT);
        }
        let (kind, given) = match row.given {
            Given::Length => ("lengths", Given::Length),
            Given::Blocks(mut ids) => {
                let block = block.unwrap_or(1);
                if ids.len() as u64 > captured.max(1).div_ceil(block) {
                    clamped(SPARE_HASHES);
                }
                if (ids.len() as u64) < captured / block {
                    clamped(FEW_HASHES);
                }
                let asked = prompt_tokens.div_ceil(asked_block(block, rules.length_scale));
                ids.truncate(usize::try_from(asked).unwrap_or(usize::MAX));
                ("blocks", Given::Blocks(ids))
            }
            Given::Text(text) => ("texts", Given::Text(text)),
            Given::Body(mut body) => {
                // its own limit is what is sent: it must be the one that is asked for
                for limit in objects::LIMITS {
                    if row.output_tokens != output_tokens && body.contains_key(limit) {
                        body.insert(limit.to_owned(), json!(output_tokens));
                    }
                }
                ("bodies", Given::Body(body))
            }
        };
        *self.prompts.entry(kind).or_default() += 1;
        let class = row.class.filter(|class| !class.is_empty()).unwrap_or_else(|| "trace".to_owned());
        let class = class.chars().take(200).collect();
        Record { at_ns: 0, class, prompt_tokens, output_tokens, given }
    }
}

/// Words in all texts of a value: what is known of the length of a prompt that nobody counted.
fn words(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.split_whitespace().count() as u64,
        Value::Array(items) => items.iter().map(words).sum(),
        Value::Object(fields) => fields.values().map(words).sum(),
        _ => 0,
    }
}

/// Hashes what goes by.
struct Digesting<R> {
    inner: R,
    hash: Sha256,
    bytes: u64,
}

impl<R: Read> Read for Digesting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.hash.update(&buffer[..n]);
        self.bytes += n as u64;
        Ok(n)
    }
}
