//! A tokenizer on this host: `tokenizer.json` as Hugging Face writes it. It counts while prompts are made, ahead of their
//! turn on the control core; the load path knows nothing of it.

use crate::workload::exact::{ExactText, Text};
use crate::workload::hex;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thiserror::Error;

/// Longest file that is read: the largest known ones have 35 MB.
const MOST_BYTES: u64 = 256 << 20;
/// Every letter of a nonce, alone and in a word that no vocabulary has: what cannot be counted must be found before any
/// request is made.
const LETTERS: &str = "a b c d e f g h i j k l m n o p q r s t u v w x y z 2 3 4 5 6 7 ab2cd3ef the and";

/// A tokenizer, shared by all that hold it.
#[derive(Clone)]
pub struct Tokenizer(Arc<Opened>);

struct Opened {
    path: PathBuf,
    facts: TokenizerFacts,
    tokenizer: tokenizers::Tokenizer,
    exact: ExactText,
    missed: AtomicU64,
}

/// What names a tokenizer in a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TokenizerFacts {
    /// SHA-256 of its file, hex.
    pub sha256: String,
    /// Entries of its vocabulary, added ones included.
    pub vocabulary: usize,
}

/// A file that no tokenizer can be made of.
#[derive(Debug, Error)]
pub enum BadTokenizer {
    /// It cannot be read.
    #[error("{0}")]
    File(#[from] io::Error),
    /// It is longer than any.
    #[error("it has more than {MOST_BYTES} bytes, the most that are read")]
    TooLong,
    /// It is no JSON.
    #[error("it is not JSON ({0}); a tokenizer.json is wanted, as Hugging Face writes it")]
    NotJson(serde_json::Error),
    /// It is JSON, and no tokenizer.
    #[error("it is JSON and not a tokenizer ({0}); tokenizer.json is wanted, not tokenizer_config.json or vocab.json")]
    NotOne(String),
    /// It fails on text.
    #[error("it cannot count text: {0}")]
    Fails(String),
    /// Common words have no tokens.
    #[error("by it common English words have no tokens at all: no prompt can be made to a length")]
    Empty,
}

impl Tokenizer {
    /// Reads the file, and learns what the words of prompts cost.
    ///
    /// # Errors
    /// [`BadTokenizer`].
    pub fn open(path: &Path) -> Result<Tokenizer, BadTokenizer> {
        let mut bytes = Vec::new();
        File::open(path)?.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MOST_BYTES {
            return Err(BadTokenizer::TooLong);
        }
        Tokenizer::of(path, &bytes)
    }

    fn of(path: &Path, bytes: &[u8]) -> Result<Tokenizer, BadTokenizer> {
        serde_json::from_slice::<serde::de::IgnoredAny>(bytes).map_err(BadTokenizer::NotJson)?;
        let mut tokenizer =
            tokenizers::Tokenizer::from_bytes(bytes).map_err(|error| BadTokenizer::NotOne(error.to_string()))?;
        // what the file cuts and fills up for its own model would hide how long a prompt is
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|error| BadTokenizer::NotOne(error.to_string()))?;
        tokenizer.encode_fast(LETTERS, false).map_err(|error| BadTokenizer::Fails(error.to_string()))?;
        let exact = ExactText::learn(|text| count(&tokenizer, text)).ok_or(BadTokenizer::Empty)?;
        let facts = TokenizerFacts { sha256: hex(&Sha256::digest(bytes)), vocabulary: tokenizer.get_vocab_size(true) };
        Ok(Tokenizer(Arc::new(Opened { path: path.to_owned(), facts, tokenizer, exact, missed: AtomicU64::new(0) })))
    }

    /// Where it was read.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// What names it.
    pub fn facts(&self) -> &TokenizerFacts {
        &self.0.facts
    }

    /// Tokens of `text`, without special ones; 0 where it has a character that the tokenizer refuses.
    pub fn count(&self, text: &str) -> u64 {
        count(&self.0.tokenizer, text)
    }

    /// Tokens a word of made prompts, in the mean.
    pub fn per_word(&self) -> f64 {
        self.0.exact.mean_cost()
    }

    /// Whether prompts can be made to every length. Where not, they are made as near as it goes.
    pub fn meets_every_length(&self) -> bool {
        self.0.exact.meets_every_length()
    }

    /// The text of request `trace_id`: as [`ExactText::make`] says.
    pub fn text(&self, seed: u64, trace_id: u64, nonce: &str, tokens: u64) -> Text {
        let made = self.0.exact.make(seed, trace_id, nonce, tokens, |text| self.count(text));
        if made.tokens != tokens {
            self.0.missed.fetch_add(1, Ordering::Relaxed);
        }
        made
    }

    /// Texts made so far that are not as long as they were to be.
    pub fn missed(&self) -> u64 {
        self.0.missed.load(Ordering::Relaxed)
    }
}

fn count(tokenizer: &tokenizers::Tokenizer, text: &str) -> u64 {
    tokenizer.encode_fast(text, false).map_or(0, |encoding| encoding.len() as u64)
}

impl PartialEq for Tokenizer {
    /// By what was read.
    fn eq(&self, other: &Tokenizer) -> bool {
        self.facts() == other.facts()
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tokenizer({}, {:?})", self.path().display(), self.facts())
    }
}

impl Serialize for Tokenizer {
    /// Its facts: where it was read from decides nothing.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.facts().serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::nonce::Nonces;

    fn small() -> Tokenizer {
        Tokenizer::open(Path::new("tests/data/tokenizer.json")).expect("it is one")
    }

    #[test]
    fn special_tokens_padding_and_truncation_of_the_file_are_not_counted() {
        let tokenizer = small();
        assert_eq!(tokenizer.count("the and for"), 3, "the file adds one, cuts at eight and fills up to sixteen");
        assert_eq!(tokenizer.count(&"the ".repeat(50)), 50);
        assert_eq!(tokenizer.count("zoo"), 3, "this word is not in its vocabulary");
        assert_eq!((tokenizer.facts().vocabulary, tokenizer.facts().sha256.len()), (TOKENS, 64));
        assert!(tokenizer.meets_every_length() && tokenizer.per_word() > 1.2, "{}", tokenizer.per_word());
    }

    const TOKENS: usize = 192;

    #[test]
    fn made_texts_have_the_asked_number_of_tokens() {
        let (tokenizer, nonces) = (small(), Nonces::of_run("r"));
        for (trace_id, tokens) in [8, 9, 10, 23, 100, 1_000, 4_321].into_iter().enumerate() {
            let nonce = nonces.nonce(0, trace_id as u64);
            let made = tokenizer.text(7, trace_id as u64, &nonce, tokens);
            assert_eq!((made.tokens, tokenizer.count(&made.text)), (tokens, tokens));
            assert!(made.text.starts_with(&nonce));
            assert_eq!(made, tokenizer.clone().text(7, trace_id as u64, &nonce, tokens));
        }
        assert_eq!(tokenizer.missed(), 0);
        assert_eq!(tokenizer.text(7, 0, "abcdefgh", 1).text, "abcdefgh", "never without its nonce");
        assert_eq!(tokenizer.missed(), 1);
    }

    #[test]
    fn a_wrong_file_is_told_by_what_is_wrong_with_it() {
        let file = tempfile::NamedTempFile::new().expect("file");
        let said = |text: &str| {
            std::fs::write(file.path(), text).expect("written");
            Tokenizer::open(file.path()).expect_err("refused").to_string()
        };
        assert!(said("").starts_with("it is not JSON"));
        assert!(said("version https://git-lfs.github.com/spec/v1").starts_with("it is not JSON"));
        assert!(said("[]").starts_with("it is JSON and not a tokenizer"));
        assert!(said("{\"tokenizer_class\": \"GPT2Tokenizer\"}").starts_with("it is JSON and not a tokenizer"));
        let no_unknown =
            "{\"version\":\"1.0\",\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"the\":0},\"unk_token\":\"?\"}}";
        assert!(said(no_unknown).starts_with("it cannot count text"), "{}", said(no_unknown));
        let nothing = "{\"version\":\"1.0\",\"model\":{\"type\":\"BPE\",\"vocab\":{\"~\":0},\"merges\":[]}}";
        assert!(said(nothing).starts_with("by it common English words"), "{}", said(nothing));
        let of = |path: &str| Tokenizer::open(Path::new(path)).expect_err("refused").to_string();
        assert!(of("/nowhere/tokenizer.json").contains("No such file"));
        assert!(of("/").contains("directory"));
        assert!(of("/dev/zero").starts_with("it has more than"));
    }
}
