//! What a replay asks for, request by request: the rows of the trace, as often as they are gone through.

use super::intake::{Facts, Intake, counted};
use super::row::Given;
use super::spool::{Reader, Record, Spool};
use crate::rundir::trace::TraceLine;
use crate::workload::nonce::MAX_TRACE_ID;
use crate::workload::{Content, Shape, hex};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::io;
use std::sync::Arc;
use thiserror::Error;

/// Requests of one window: the last nonce is that of the word that all prompts of a window begin with.
pub const MOST_REQUESTS: u64 = MAX_TRACE_ID - 1;
/// Bytes of a word in a prompt, about.
const WORD_BYTES: u64 = 6;

/// A trace at hand, and how much of it is asked for.
#[derive(Clone, Debug, Serialize)]
pub struct Captured {
    /// What was read.
    #[serde(flatten)]
    pub facts: Facts,
    /// Times that it is gone through.
    pub passes: u64,
    /// Requests of a window.
    pub requests: u64,
    /// From the first arrival to the first of the next pass, in ns of the trace's own time; None: there is one pass.
    pub period_ns: Option<u64>,
    /// Where it was read from.
    #[serde(skip)]
    pub file: String,
    /// How its format was known.
    #[serde(skip)]
    pub known_by: &'static str,
    /// Mean prompt length asked for, in tokens.
    #[serde(skip)]
    pub mean_prompt_tokens: f64,
    /// Mean output length asked for, in tokens.
    #[serde(skip)]
    pub mean_output_tokens: f64,
    /// Names what is asked for, in order.
    #[serde(skip)]
    pub trace_hash: String,
    /// About the largest request, in bytes.
    #[serde(skip)]
    pub largest_bytes: u64,
    #[serde(skip)]
    spool: Arc<Spool>,
}

impl PartialEq for Captured {
    fn eq(&self, other: &Self) -> bool {
        (&self.facts, self.passes, self.requests, &self.trace_hash)
            == (&other.facts, other.passes, other.requests, &other.trace_hash)
    }
}

/// A trace that cannot be asked for so.
#[derive(Debug, Error)]
pub enum BadReplay {
    /// It has fewer.
    #[error(
        "--num-prompts {kept} and --drop {drop} want more requests than the {there} of the trace: ask for fewer, or go through it again with --trace-loop"
    )]
    TooFew {
        /// Asked for.
        kept: u64,
        /// Asked for.
        drop: u64,
        /// All passes together.
        there: u64,
    },
    /// Every one of them would be dropped.
    #[error(
        "the trace has {there} requests and --drop {drop} leaves none of them: lower --drop, or go through it again with --trace-loop"
    )]
    NoneKept {
        /// All passes together.
        there: u64,
        /// Dropped.
        drop: u64,
    },
    /// More than can be told apart.
    #[error(
        "the trace has {0} requests in all its passes, and a window can have at most {MOST_REQUESTS}: clip it with --trace-from and --trace-to, or take the first ones with --num-prompts"
    )]
    TooMany(u64),
    /// One arrival, several passes.
    #[error("--trace-loop needs a trace of two arrivals or more: one has no gap to go on by")]
    NoGap,
    /// Longer than 290 years.
    #[error("--trace-loop makes the trace longer than 290 years: lower it")]
    TooLong,
    /// The spool.
    #[error("the temporary file of the trace cannot be read: {0}")]
    Spool(#[from] io::Error),
}

impl Captured {
    /// The trace gone through `passes` times; `kept` requests after `drop` dropped ones, or all.
    ///
    /// # Errors
    /// [`BadReplay`].
    pub fn new(file: String, intake: Intake, passes: u64, drop: u64, kept: Option<u64>) -> Result<Captured, BadReplay> {
        let Intake { facts, known_by, spool } = intake;
        let there = facts.kept.saturating_mul(passes);
        let requests = match kept {
            Some(kept) if drop.saturating_add(kept) > there => return Err(BadReplay::TooFew { kept, drop, there }),
            Some(kept) => drop + kept,
            None if there <= drop => return Err(BadReplay::NoneKept { there, drop }),
            None => there,
        };
        if requests > MOST_REQUESTS {
            return Err(BadReplay::TooMany(requests));
        }
        let period_ns = match (passes, facts.kept) {
            (1, _) => None,
            (_, 0 | 1) => return Err(BadReplay::NoGap),
            (_, n) => Some(facts.span_ns + (facts.span_ns + (n - 1) / 2) / (n - 1)),
        };
        let end = u128::from(period_ns.unwrap_or(facts.span_ns)) * u128::from(passes);
        if end > i64::MAX as u128 {
            return Err(BadReplay::TooLong);
        }
        let mut captured = Captured {
            facts,
            passes,
            requests,
            period_ns,
            file,
            known_by,
            mean_prompt_tokens: 0.0,
            mean_output_tokens: 0.0,
            trace_hash: String::new(),
            largest_bytes: 0,
            spool: Arc::new(spool),
        };
        captured.survey()?;
        Ok(captured)
    }

    /// One pass over all that is asked for.
    fn survey(&mut self) -> io::Result<()> {
        let (mut prompt, mut output, mut longest, mut hash) = (0_u64, 0_u64, 0, Sha256::new());
        for line in self.lines() {
            let line = line?;
            prompt = prompt.saturating_add(line.prompt_tokens);
            output = output.saturating_add(line.output_tokens);
            longest = longest.max(line.prompt_tokens);
            hash.update(line.hashed());
        }
        let n = self.requests as f64;
        (self.mean_prompt_tokens, self.mean_output_tokens) = (prompt as f64 / n, output as f64 / n);
        let made = if self.facts.prompts.keys().all(|kind| ["texts", "bodies"].contains(kind)) { 0 } else { longest };
        self.largest_bytes = self.spool.largest().max(made.saturating_mul(WORD_BYTES));
        self.trace_hash = hex(&hash.finalize());
        Ok(())
    }

    /// Each request in turn.
    fn records(&self) -> Records {
        Records {
            reader: Reader::new(self.spool.clone()),
            spool: self.spool.clone(),
            period_ns: self.period_ns.unwrap_or_default(),
            pass: 0,
            read: 0,
            left: self.requests,
        }
    }

    /// When they arrive, in ns of the trace's own time from the first of them.
    pub fn times(&self) -> impl Iterator<Item = io::Result<u64>> + use<> {
        let mut records = self.records();
        std::iter::from_fn(move || records.advance())
    }

    /// What they ask for.
    pub fn shapes(&self) -> impl Iterator<Item = io::Result<Shape>> + use<> {
        let mut records = self.records();
        let tokens_each = self.facts.asked_block_tokens.unwrap_or(1);
        std::iter::from_fn(move || {
            let record = records.next()?;
            Some(record.map(|record| shape(record, tokens_each)))
        })
    }

    /// The lines of `trace.jsonl`.
    pub fn lines(&self) -> impl Iterator<Item = io::Result<TraceLine>> + use<> {
        self.records().map(|record| record.map(line))
    }

    /// What was read and what became of it, in words.
    pub fn words(&self) -> Vec<String> {
        let facts = &self.facts;
        let mut words = vec![format!(
            "{}: {}, known by {}; {} rows in {:.1} s of its time, {} kept; SHA-256 {}",
            self.file,
            facts.format,
            self.known_by,
            facts.rows,
            facts.span_ns as f64 / 1e9,
            facts.kept,
            &facts.sha256[..16],
        )];
        for (what, reasons) in [("dropped", &facts.dropped), ("changed", &facts.clamped)] {
            if !reasons.is_empty() {
                words.push(format!("{what}: {}", counted(reasons)));
            }
        }
        if facts.at_same_time > 0 {
            words.push(format!(
                "{} of its arrivals come at the same time as the one before: bursts as the trace has them",
                facts.at_same_time
            ));
        }
        if facts.format == super::format::Format::Bailian {
            words.push("chat_id, parent_chat_id and turn are not used: each row is a request of its own".to_owned());
        }
        if let Some(block) = facts.block_tokens {
            let asked = facts.asked_block_tokens.filter(|asked| *asked != block);
            let asked = asked.map_or_else(String::new, |n| format!(", asked for as {n}"));
            words.push(format!(
                "hash_ids: blocks of {block} tokens{asked}; prompts with the same ones begin with the same text, within a window"
            ));
        }
        if facts.prompts.contains_key("texts") || facts.prompts.contains_key("bodies") {
            words.push(
                "prompts that the trace gives are sent as they are; lengths it does not give are counted in words"
                    .to_owned(),
            );
        }
        if self.passes > 1 {
            words.push(format!("{} passes; no pass shares a hash with another one", self.passes));
        }
        words
    }

    /// Whether prompts of a window are to share what the trace says that they shared.
    pub fn shares_prefixes(&self) -> bool {
        self.facts.block_tokens.is_some()
    }
}

/// Requests in order, over all passes.
struct Records {
    reader: Reader,
    spool: Arc<Spool>,
    period_ns: u64,
    pass: u64,
    read: u64,
    left: u64,
}

impl Records {
    /// Goes to the next request: its time. None: there are no more.
    fn advance(&mut self) -> Option<io::Result<u64>> {
        self.left = self.left.checked_sub(1)?;
        if self.read == self.spool.records() {
            (self.pass, self.read) = (self.pass + 1, 0);
            self.reader = Reader::new(self.spool.clone());
        }
        self.read += 1;
        let at = self.reader.advance().map(|at| at + self.pass * self.period_ns);
        if at.is_err() {
            self.left = 0;
        }
        Some(at)
    }
}

impl Iterator for Records {
    type Item = io::Result<Record>;

    fn next(&mut self) -> Option<io::Result<Record>> {
        let at_ns = match self.advance()? {
            Ok(at_ns) => at_ns,
            Err(error) => return Some(Err(error)),
        };
        let record =
            self.reader.record().map(|record| Record { at_ns, given: of_pass(record.given, self.pass), ..record });
        Some(record)
    }
}

/// A later pass would find every prompt of the one before in the server's cache: it gets hashes of its own, which are
/// shared within it as in the capture.
fn of_pass(given: Given, pass: u64) -> Given {
    match given {
        Given::Blocks(ids) => {
            let shift = pass.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            Given::Blocks(ids.into_iter().map(|id| id.wrapping_add(shift)).collect())
        }
        other => other,
    }
}

fn shape(record: Record, tokens_each: u64) -> Shape {
    let Record { class, prompt_tokens, output_tokens, given, .. } = record;
    let content = match given {
        Given::Length => Content::Words,
        Given::Blocks(ids) => Content::Blocks { ids, tokens_each },
        Given::Text(text) => Content::Text(text),
        Given::Body(body) => Content::Body(body),
    };
    Shape { class, prompt_tokens, output_tokens, content }
}

fn line(record: Record) -> TraceLine {
    let Record { at_ns, class, prompt_tokens, output_tokens, given } = record;
    let (hash_ids, content_sha256) = match given {
        Given::Length => (None, None),
        Given::Blocks(ids) => (Some(ids), None),
        Given::Text(text) => (None, Some(hex(&Sha256::digest(text)))),
        Given::Body(body) => {
            let text = serde_json::Value::Object(body).to_string();
            (None, Some(hex(&Sha256::digest(text))))
        }
    };
    TraceLine { at_ns, class, prompt_tokens, output_tokens, hash_ids, content_sha256 }
}
