//! What is asked of the server: lengths, prompts, order. Everything follows from one seed, so that two
//! windows, two hosts or two years ask the same.
//!
//! Random numbers come from PCG64 (`rand_pcg`'s `Pcg64`, a named generator whose values do not change).

pub mod body;
pub mod cache;
pub mod conversation;
pub mod dataset;
pub mod distributions;
pub mod exact;
pub mod gauge;
pub mod histogram;
pub mod ids;
pub mod jsonl;
pub mod lengths;
pub mod lines;
pub mod nonce;
mod order;
pub mod prompt;
mod remarks;
pub mod sessions;
mod sharegpt;
mod words;

pub use lengths::{Class, Lengths};

use cache::Cache;
use dataset::{Dataset, Entry};
use ids::PromptForm;
use lengths::Generated;
use lines::BadFile;
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::io;
use thiserror::Error;

/// The generator's name, as plans record it.
pub const GENERATOR: &str = "pcg64 (rand_pcg)";
/// Output length of texts that come without one, in tokens: vLLM's for the same files.
pub const DEFAULT_OUTPUT_TOKENS: u64 = 256;

/// A workload, ready to be asked for any request of any window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Workload {
    /// Which lengths.
    #[serde(flatten)]
    pub lengths: Lengths,
    /// Multiplies every drawn length; 1 for texts from a file.
    pub length_scale: f64,
    /// Of order, lengths and words.
    pub seed: u64,
    /// Replaces every output length.
    pub max_tokens: Option<u64>,
    /// What the prompts of a window share.
    pub cache: Cache,
    /// Text or token ids.
    pub prompt_form: PromptForm,
    /// See [`GENERATOR`].
    pub generator: &'static str,
}

/// What one request asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// Class name.
    pub class: String,
    /// Prompt length in tokens, at least 1. Of a text or a body: its words, with those that are put in front of it; how
    /// many tokens they are is the gauge's to say.
    pub prompt_tokens: u64,
    /// Output length in tokens, at least 1. Of a conversation: words of its answer.
    pub output_tokens: u64,
    /// Where its prompt comes from.
    pub content: Content,
}

impl Shape {
    /// Into the hash that names what a window asks for: its lengths, and a text of somebody's.
    fn digest(&self, hash: &mut Sha256) {
        hash.update(format!("{} {} {}\n", self.class, self.prompt_tokens, self.output_tokens));
        match &self.content {
            Content::Words => {}
            Content::Blocks { ids, tokens_each } => hash.update(format!("{tokens_each} {ids:?}\n")),
            Content::Text(text) | Content::Conversation { prompt: text, .. } => hash.update(format!("{text}\n")),
            Content::Body(fields) => hash.update(Value::Object(fields.clone()).to_string() + "\n"),
        }
    }
}

/// Where a prompt comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Words, made from the seed.
    Words,
    /// Text of somebody's.
    Text(String),
    /// A whole body of somebody's.
    Body(Map<String, Value>),
    /// A turn of somebody's, and the length of the answer it had, which is the length that is asked for.
    Conversation {
        /// The turn.
        prompt: String,
        /// Words of the answer.
        answer_words: u64,
    },
    /// Blocks of words, each made from its id: prompts that begin with the same ids begin with the same text.
    Blocks {
        /// In order.
        ids: Vec<u64>,
        /// Tokens of each, at least 1.
        tokens_each: u64,
    },
}

/// A workload that cannot be.
#[derive(Debug, Error)]
pub enum BadWorkload {
    /// The file that requests come from.
    #[error("the workload cannot be read: {0}")]
    File(#[from] io::Error),
    /// What stands in it.
    #[error("the workload cannot be read: {0}")]
    Content(#[from] BadFile),
    /// Not one of ours.
    #[error(
        "unknown workload {0:?}: choose seed-mix, random, lognormal:.., normal:.., uniform:.., histogram:FILE, \
         sharegpt:FILE or jsonl:FILE"
    )]
    Unknown(String),
    /// The words after a name.
    #[error("--workload {given}: {text}; an example: {example}")]
    Form {
        /// What was given.
        given: String,
        /// What is wrong with it.
        text: String,
        /// A good one.
        example: &'static str,
    },
    /// A number out of range.
    #[error("{flag} must be {range}, not {got}")]
    Range {
        /// Which.
        flag: &'static str,
        /// What it may be.
        range: &'static str,
        /// What it is.
        got: String,
    },
    /// Parts that do not fit.
    #[error("{0}")]
    Unfit(String),
}

impl Workload {
    /// A checked workload: prompts as text, each with a nonce in front.
    ///
    /// # Errors
    /// [`BadWorkload::Range`], [`BadWorkload::Unfit`].
    pub fn new(lengths: Lengths, length_scale: f64, seed: u64, max_tokens: Option<u64>) -> Result<Self, BadWorkload> {
        check_scale(length_scale, max_tokens)?;
        if lengths.dataset().is_some() && length_scale != 1.0 {
            let words = format!(
                "--length-scale {length_scale} cannot be: the prompts of {} are texts, and only drawn lengths can be scaled; leave it out",
                lengths.name()
            );
            return Err(BadWorkload::Unfit(words));
        }
        if let Lengths::Random { input_len, output_len, range_ratio } = lengths {
            if !(0.0..=1.0).contains(&range_ratio) {
                let got = range_ratio.to_string();
                return Err(BadWorkload::Range { flag: "--random-range-ratio", range: "between 0 and 1", got });
            }
            if input_len == 0 || output_len == 0 {
                return Err(BadWorkload::Range {
                    flag: "--random-input-len and --random-output-len",
                    range: "at least 1",
                    got: "0".to_owned(),
                });
            }
        }
        let (cache, prompt_form) = (Cache::Unique, PromptForm::Text);
        Ok(Workload { lengths, length_scale, seed, max_tokens, cache, prompt_form, generator: GENERATOR })
    }

    /// The same with prompts that share `cache` and are sent in `form`.
    ///
    /// # Errors
    /// [`BadWorkload::Unfit`].
    pub fn with(self, cache: Cache, prompt_form: PromptForm) -> Result<Self, BadWorkload> {
        let (name, from_file) = (self.lengths.name(), self.lengths.dataset().is_some());
        if cache == Cache::AsIs && !from_file && !matches!(self.lengths, Lengths::Trace(_)) {
            let words = format!(
                "--cache as-is cannot be: the prompts of {name} are made here, no file has them; choose unique, shared-prefix:N or repeat"
            );
            return Err(BadWorkload::Unfit(words));
        }
        if prompt_form != PromptForm::Text && from_file {
            let words = format!(
                "--prompt-form ids cannot be: {name} has texts of its own; leave it out, or choose a workload of drawn lengths"
            );
            return Err(BadWorkload::Unfit(words));
        }
        Ok(Workload { cache, prompt_form, ..self })
    }

    /// What the requests of a window ask for, in order of trace id: `drop` warm-up requests, `kept` measured ones, and
    /// as many more as asked for.
    ///
    /// # Errors
    /// The file they come from cannot be read; each item as well.
    pub fn shapes(&self, drop: u64, kept: u64) -> io::Result<Box<dyn Iterator<Item = io::Result<Shape>> + '_>> {
        let each = self.unrepeated(drop, kept)?;
        if self.cache != Cache::Repeat {
            return Ok(each);
        }
        // the first measured request again and again
        let mut again = None;
        let repeated = (0_u64..).zip(each).map(move |(trace_id, shape)| {
            let shape = shape?;
            Ok(if trace_id < drop { shape } else { again.get_or_insert(shape).clone() })
        });
        Ok(Box::new(repeated))
    }

    fn capped(&self, shape: Shape) -> Shape {
        Shape { output_tokens: self.max_tokens.unwrap_or(shape.output_tokens), ..shape }
    }

    fn unrepeated(&self, drop: u64, kept: u64) -> io::Result<Box<dyn Iterator<Item = io::Result<Shape>> + '_>> {
        if let Lengths::Trace(captured) = &self.lengths {
            // cut and scaled as they were read
            return Ok(Box::new(captured.shapes()));
        }
        let Some(dataset) = self.lengths.dataset() else {
            return Ok(Box::new(self.generated(drop, kept).map(move |shape| Ok(self.capped(shape)))));
        };
        let places = dataset.select(self.seed, drop, kept).map_err(io::Error::other)?.places(drop);
        Ok(Box::new(places.map(move |place| self.of_file(dataset, place))))
    }

    fn generated(&self, drop: u64, kept: u64) -> Generated<'_> {
        Generated::new(&self.lengths, self.length_scale, self.seed, drop, kept)
    }

    fn of_file(&self, dataset: &Dataset, place: u32) -> io::Result<Shape> {
        Ok(self.of_entry(dataset.entry(place)?, true))
    }

    /// What an entry of a file asks for: the first message of a session, or one after it.
    fn of_entry(&self, mut entry: Entry, is_first: bool) -> Shape {
        let mut output_tokens = entry.output_tokens.unwrap_or(DEFAULT_OUTPUT_TOKENS);
        if let Content::Conversation { answer_words, .. } = &entry.content {
            output_tokens = *answer_words;
        }
        if let Some(cap) = self.max_tokens {
            output_tokens = cap;
            entry.content = match entry.content {
                Content::Conversation { prompt, .. } => Content::Text(prompt),
                Content::Body(mut fields) => {
                    // what a body asks for itself would win over what is asked for here
                    fields.shift_remove("max_tokens");
                    if fields.contains_key("max_completion_tokens") {
                        fields.insert("max_completion_tokens".to_owned(), cap.into());
                    }
                    Content::Body(fields)
                }
                other => other,
            };
        }
        let in_front = match self.cache {
            Cache::AsIs => 0,
            Cache::SharedPrefix { tokens } if is_first => tokens + 1,
            Cache::Unique | Cache::Repeat | Cache::SharedPrefix { .. } => 1,
        };
        Shape {
            class: self.lengths.name().to_owned(),
            prompt_tokens: (entry.prompt_words + in_front).max(1),
            output_tokens,
            content: entry.content,
        }
    }

    /// Names what a window asks for in a plan: the hash of every length and every text of somebody's, in order.
    ///
    /// # Errors
    /// As for [`Workload::shapes`].
    pub fn trace_hash(&self, drop: u64, kept: u64) -> io::Result<String> {
        if let Lengths::Trace(captured) = &self.lengths {
            return Ok(captured.trace_hash.clone());
        }
        let mut hash = Sha256::new();
        for shape in self.shapes(drop, kept)?.take((drop + kept) as usize) {
            let shape = shape?;
            shape.digest(&mut hash);
        }
        Ok(hex(&hash.finalize()))
    }

    /// Whether prompts are made of words or of somebody's text, so that it must be known how many tokens a word has.
    pub fn is_of_words(&self) -> bool {
        self.prompt_form == PromptForm::Text
    }

    /// Mean prompt and output length of a window, in tokens.
    ///
    /// # Errors
    /// As for [`Workload::shapes`].
    pub fn mean_lengths(&self, drop: u64, kept: u64) -> io::Result<(f64, f64)> {
        if let Lengths::Trace(captured) = &self.lengths {
            return Ok((captured.mean_prompt_tokens, captured.mean_output_tokens));
        }
        let (mut n, mut prompt, mut output) = (0_u64, 0, 0);
        for shape in self.shapes(drop, kept)?.take((drop + kept) as usize) {
            let shape = shape?;
            (n, prompt, output) = (n + 1, prompt + shape.prompt_tokens, output + shape.output_tokens);
        }
        let n = n.max(1) as f64;
        Ok((prompt as f64 / n, output as f64 / n))
    }
}

/// Whether lengths can be multiplied and replaced so.
///
/// # Errors
/// [`BadWorkload::Range`].
pub fn check_scale(length_scale: f64, max_tokens: Option<u64>) -> Result<(), BadWorkload> {
    if !(length_scale.is_finite() && length_scale > 0.0 && length_scale <= 1000.0) {
        let got = length_scale.to_string();
        return Err(BadWorkload::Range { flag: "--length-scale", range: "above 0, at most 1000", got });
    }
    if max_tokens == Some(0) {
        return Err(BadWorkload::Range { flag: "--max-tokens", range: "at least 1", got: "0".to_owned() });
    }
    Ok(())
}

/// Lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests;
