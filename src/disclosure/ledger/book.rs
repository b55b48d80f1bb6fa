//! A ledger as it reads: its campaigns, and every place where its chain does not hold. Pure: bytes in.

use super::{Outcome, SCHEMA};
use crate::rundir::chain::Chain;
use crate::workload::hex;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::{HashMap, HashSet};
use std::fmt;

/// What stands in a ledger.
#[derive(Clone, Debug)]
pub struct Book {
    /// At least one line is one of a ledger, or begins like one.
    pub is_ledger: bool,
    /// Lines, broken ones and a half-written last one included.
    pub lines: usize,
    /// In the order in which they began.
    pub campaigns: Vec<Campaign>,
    /// Where the chain does not hold, in order of the lines.
    pub breaks: Vec<Break>,
    /// The last h that can be read; zeros when there is none. The chain goes on from here.
    pub last_h: String,
    /// Every h that can be read.
    pub hashes: HashSet<String>,
    /// The last line that speaks of breaks, from 1.
    said_at: Option<usize>,
}

/// A campaign by its lines.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// Run id.
    pub run_id: String,
    /// Its first line; None: that is not there.
    pub start: Option<Value>,
    /// Its last line; None: it crashed, was killed, or is still running.
    pub end: Option<Value>,
}

impl Campaign {
    /// A text field of its start line.
    pub fn started(&self, key: &str) -> Option<&str> {
        self.start.as_ref()?[key].as_str()
    }

    /// How it ended, as its end line says; None without one.
    pub fn outcome(&self) -> Option<&str> {
        self.end.as_ref().map(|end| end["outcome"].as_str().unwrap_or("unknown"))
    }
}

/// A place where the chain does not hold. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Break {
    /// A line that says nothing a ledger says.
    NoLine {
        /// Which.
        line: usize,
    },
    /// A last line without its end.
    HalfWritten {
        /// Which.
        line: usize,
        /// What is there of it.
        bytes: usize,
    },
    /// A line whose h is not that of its text.
    Changed {
        /// Which.
        line: usize,
        /// What stands there.
        stored: String,
        /// What its text gives.
        recomputed: String,
    },
    /// A line that follows another one than the one above it.
    Cut {
        /// Which.
        line: usize,
        /// The h of the line it was written after.
        names: String,
        /// The h of the line that is above it now.
        above: String,
    },
    /// What stood before a line that speaks of breaks is not as it was then.
    Rewritten {
        /// That line.
        line: usize,
    },
}

impl Break {
    /// The line it is at, from 1.
    pub fn line(&self) -> usize {
        match self {
            Break::NoLine { line }
            | Break::HalfWritten { line, .. }
            | Break::Changed { line, .. }
            | Break::Cut { line, .. }
            | Break::Rewritten { line } => *line,
        }
    }
}

impl fmt::Display for Break {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Break::NoLine { line } => {
                write!(f, "line {line}: is no line of a ledger: overwritten, or half of one that a crash left")
            }
            Break::HalfWritten { line, bytes } => write!(
                f,
                "line {line}: is half-written, {bytes} bytes without a line end: a crash in mid-line, or cut off"
            ),
            Break::Changed { line, stored, recomputed } => {
                write!(f, "line {line}: was changed: its h is {}, its text gives {}", short(stored), short(recomputed))
            }
            Break::Cut { line, names, above } => write!(
                f,
                "line {line}: was cut off from the line before it: it follows h {}, and the line above has h {}: lines \
                 between them were removed, changed or moved",
                short(names),
                short(above)
            ),
            Break::Rewritten { line } => {
                write!(f, "line {line}: tells of a break, and what is before it is no longer what it was then")
            }
        }
    }
}

/// As much of a hash as is needed to tell it from others.
pub fn short(h: &str) -> &str {
    h.get(..12).unwrap_or(h)
}

/// Campaigns and how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// All.
    pub started: u64,
    /// By outcome.
    pub complete: u64,
    /// By outcome.
    pub invalid: u64,
    /// By outcome.
    pub interrupted: u64,
    /// By outcome.
    pub failed: u64,
    /// Without an end line: crashed, killed, or still running.
    pub without_end: u64,
}

impl Counts {
    fn of<'a>(campaigns: impl Iterator<Item = &'a Campaign>) -> Counts {
        let mut counts = Counts::default();
        for campaign in campaigns {
            counts.started += 1;
            match campaign.outcome() {
                None => counts.without_end += 1,
                Some("complete") => counts.complete += 1,
                Some("invalid") => counts.invalid += 1,
                Some("interrupted") => counts.interrupted += 1,
                Some(_) => counts.failed += 1,
            }
        }
        counts
    }

    /// With one more campaign ended; `known`: it is among those without an end.
    pub fn with_end(mut self, outcome: Outcome, known: bool) -> Counts {
        match known {
            true => self.without_end = self.without_end.saturating_sub(1),
            false => self.started += 1,
        }
        match outcome {
            Outcome::Complete => self.complete += 1,
            Outcome::Invalid => self.invalid += 1,
            Outcome::Interrupted => self.interrupted += 1,
            Outcome::Failed => self.failed += 1,
        }
        self
    }
}

impl Book {
    /// Reads a ledger, whatever it holds.
    pub fn of(bytes: &[u8]) -> Book {
        let mut book = Book {
            is_ledger: false,
            lines: 0,
            campaigns: Vec::new(),
            breaks: Vec::new(),
            last_h: Chain::default().last_hex().to_owned(),
            hashes: HashSet::new(),
            said_at: None,
        };
        let mut open = HashMap::new();
        let mut at = 0;
        for whole in bytes.split_inclusive(|b| *b == b'\n') {
            book.lines += 1;
            match whole.strip_suffix(b"\n") {
                Some(line) => book.line(line, &bytes[..at], &mut open),
                None => {
                    book.is_ledger |= whole.starts_with(format!("{{\"schema\":\"{SCHEMA}\"").as_bytes());
                    book.breaks.push(Break::HalfWritten { line: book.lines, bytes: whole.len() });
                }
            }
            at += whole.len();
        }
        book
    }

    /// The next line; `open` are the campaigns without an end so far, by run id.
    fn line(&mut self, text: &[u8], before: &[u8], open: &mut HashMap<String, usize>) {
        let number = self.lines;
        let Some((fields, prev, h)) = parse(text) else {
            return self.breaks.push(Break::NoLine { line: number });
        };
        self.is_ledger = true;
        if prev != self.last_h {
            let above = std::mem::take(&mut self.last_h);
            self.breaks.push(Break::Cut { line: number, names: prev.clone(), above });
        }
        let recomputed = resealed(text, &prev);
        if recomputed.as_deref() != Some(&h) {
            let recomputed = recomputed.unwrap_or_else(|| "nothing".to_owned());
            self.breaks.push(Break::Changed { line: number, stored: h.clone(), recomputed });
        }
        let run_id = fields["run_id"].as_str().unwrap_or_default().to_owned();
        match fields["event"].as_str() {
            Some("start") => {
                open.insert(run_id.clone(), self.campaigns.len());
                self.campaigns.push(Campaign { run_id, start: Some(fields), end: None });
            }
            Some("end") => match open.remove(&run_id) {
                Some(place) => self.campaigns[place].end = Some(fields),
                None => self.campaigns.push(Campaign { run_id, start: None, end: Some(fields) }),
            },
            _ => {
                self.said_at = Some(number);
                let as_then = fields["bytes"].as_u64() == Some(before.len() as u64)
                    && fields["sha256"].as_str() == Some(&hex(&Sha256::digest(before)));
                if !as_then {
                    self.breaks.push(Break::Rewritten { line: number });
                }
            }
        }
        self.hashes.insert(h.clone());
        self.last_h = h;
    }

    /// Breaks of which no later line speaks.
    pub fn unsaid(&self) -> impl Iterator<Item = &Break> {
        let said_at = self.said_at.unwrap_or(0);
        self.breaks.iter().filter(move |b| b.line() >= said_at)
    }

    /// Whether a campaign has its first line here and not yet its last.
    pub fn has_started(&self, run_id: &str) -> bool {
        self.campaigns.iter().any(|c| c.run_id == run_id && c.start.is_some() && c.end.is_none())
    }

    /// All campaigns.
    pub fn counts(&self) -> Counts {
        Counts::of(self.campaigns.iter())
    }

    /// Those of one plan.
    pub fn counts_of_plan(&self, plan_hash: &str) -> Counts {
        Counts::of(self.campaigns.iter().filter(|c| c.started("plan_hash") == Some(plan_hash)))
    }

    /// Those of one server and model.
    pub fn counts_of_target(&self, base_url: &str, model: &str) -> Counts {
        let is_it = |c: &&Campaign| (c.started("base_url"), c.started("model")) == (Some(base_url), Some(model));
        Counts::of(self.campaigns.iter().filter(is_it))
    }
}

/// Fields, prev and h of a line of a ledger.
fn parse(text: &[u8]) -> Option<(Value, String, String)> {
    let fields: Value = serde_json::from_slice(text).ok()?;
    let word = |key: &str| fields[key].as_str().map(str::to_owned);
    let known = ["start", "end", "break"].contains(&fields["event"].as_str()?);
    let (prev, h) = (word("prev")?, word("h")?);
    (known && fields["schema"] == SCHEMA).then_some((fields, prev, h))
}

/// The h that a line has by its text and the h before it.
fn resealed(text: &[u8], prev: &str) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?;
    let (body, _) = text.strip_suffix("\"}")?.rsplit_once(",\"h\":\"")?;
    let mut chain = Chain::after(prev);
    chain.seal(&mut format!("{body}}}"));
    Some(chain.last_hex().to_owned())
}
