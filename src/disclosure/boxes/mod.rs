//! The fifteen boxes of a campaign (`boxes.json`): what must be known before a benchmark can be believed, each in one
//! sentence that can be printed, filled from what was measured and never from memory.
//!
//! A pure function of `run.json`, `plan.json`, the run's ledger lines and the digests of its files. The questions are
//! those of the seed's disclosure standard 1.0; its list lacks the ninth, which here asks for duration and stability.
//! What people declare is printed as declared, and turns no box `measured`.

mod busy;
mod client;
mod facts;
pub mod questions;
mod sent;
#[cfg(test)]
mod tests;
mod timed;
mod warm;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use facts::{Facts, Fault};
use questions::QUESTIONS;

/// Their `schema`.
pub const SCHEMA: &str = "tarebench.boxes/1";

/// Always fifteen, in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Boxes {
    /// [`SCHEMA`].
    pub schema: String,
    /// Box 1 to 15.
    pub boxes: Vec<Filled>,
}

/// One box.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Filled {
    /// 1 to 15.
    #[serde(rename = "box")]
    pub number: u8,
    /// The question, in a few words.
    pub title: String,
    /// What the answer rests on.
    pub status: Status,
    /// The answer, in one line without control characters.
    pub sentence: String,
    /// Its figures, for machines: latencies in ms, lengths in tokens, shares as fractions; unknown is null.
    pub values: Value,
}

/// What the answer in a box rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Measured in this campaign.
    Measured,
    /// Somebody's word (`--declare`).
    Declared,
    /// It cannot be known from here; the sentence says what is missing.
    NotVerifiable,
    /// Not answered.
    Empty,
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Status::Measured => "measured",
            Status::Declared => "declared",
            Status::NotVerifiable => "not verifiable",
            Status::Empty => "EMPTY",
        })
    }
}

/// What a box is answered with, before it has its number.
struct Answer {
    status: Status,
    sentence: String,
    values: Value,
}

impl Answer {
    fn new(status: Status, parts: impl IntoIterator<Item = String>, values: Value) -> Answer {
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        Answer { status, sentence: parts.join("; "), values }
    }

    fn empty(sentence: impl Into<String>) -> Answer {
        Answer { status: Status::Empty, sentence: sentence.into(), values: Value::Object(serde_json::Map::new()) }
    }
}

/// Fills the boxes.
pub fn fill(facts: &Facts<'_>) -> Boxes {
    let sheet = &facts::Sheet::of(facts);
    let answers: [Answer; 15] = [
        timed::which_event(sheet),
        timed::how_many(sheet),
        timed::raw_files(sheet),
        warm::slow_first_calls(sheet),
        warm::cache(sheet),
        warm::first_hit(sheet),
        busy::one_user_or_a_crowd(sheet),
        busy::only_the_easy_load(sheet),
        busy::how_long(sheet),
        sent::lengths(sheet),
        sent::sampling(sheet),
        sent::model(sheet),
        client::busy(sheet),
        client::location(sheet),
        client::lucky_runs(sheet),
    ];
    let filled = |(question, answer): (&questions::Question, Answer)| {
        let declared = sheet.declared(question.declared);
        Filled {
            number: question.number,
            title: question.title.to_string(),
            status: answer.status,
            sentence: printable(&[answer.sentence, declared].join("")),
            values: answer.values,
        }
    };
    Boxes { schema: SCHEMA.to_string(), boxes: QUESTIONS.iter().zip(answers).map(filled).collect() }
}

/// One line without control characters, whatever a server or a flag brought in.
fn printable(text: &str) -> String {
    crate::lettering::legible(&text.replace(char::is_control, " ")).into_owned()
}

impl Boxes {
    /// Why there is no report: the first of the boxes 1 to 3 that is empty, in words. Without them nobody could even
    /// check it.
    pub fn refusal(&self) -> Option<String> {
        let empty = self.boxes.iter().take(3).find(|b| b.status == Status::Empty)?;
        Some(format!(
            "no report: box {} ({}) is empty, and without boxes 1 to 3 nobody can check a figure: {}",
            empty.number, empty.title, empty.sentence
        ))
    }

    /// `boxes.json` as it is written.
    ///
    /// # Errors
    /// None that boxes can cause.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}
