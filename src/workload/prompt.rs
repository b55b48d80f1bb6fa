//! Prompts. A made one is text: the nonce, then common English words, most of them one token in most vocabularies. How
//! many words an asked length takes is [`Gauge`]'s to say; what the server counted is in the record.

use super::gauge::Gauge;
use super::nonce::Nonces;
use super::words::WORDS;
use super::{Content, Shape, hex, shuffle};
use crate::tokenizer::Tokenizer;
use rand_core::Rng;
use rand_pcg::Pcg64;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// What a request asks of the model.
#[derive(Clone, Debug, PartialEq)]
pub enum Prompt {
    /// One message, or the prompt itself.
    Text(String),
    /// Token ids.
    Ids(Vec<u32>),
    /// A whole body. Its fields win over ours, but for `model`, `stream` and `stream_options`.
    Body(Map<String, Value>),
}

/// A prompt with what records say of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Made {
    /// Its first word.
    pub nonce: String,
    /// The prompt.
    pub prompt: Prompt,
    /// SHA-256 of the text, of the ids in decimal with commas, or of the body; hex.
    pub sha256: String,
}

/// Makes the prompts of a campaign.
#[derive(Clone, Debug)]
pub struct PromptMaker {
    /// Of the words.
    pub seed: u64,
    /// Of the run.
    pub nonces: Nonces,
    /// How long text is.
    pub gauge: Gauge,
    /// Counts the tokens of made text, less the gauge's overhead; without it the gauge's words are made.
    pub tokenizer: Option<Tokenizer>,
}

impl PromptMaker {
    /// The prompt of request `trace_id` of window number `serial` of the run.
    pub fn make(&self, serial: u64, trace_id: u64, shape: &Shape) -> Made {
        let nonce = self.nonces.nonce(serial, trace_id);
        let prompt = match &shape.content {
            Content::Words => Prompt::Text(self.words(trace_id, &nonce, shape.prompt_tokens)),
            Content::Text(text) => Prompt::Text(format!("{nonce} {text}")),
            Content::Body(body) => Prompt::Body(body.clone()),
        };
        let sha256 = prompt.sha256();
        Made { nonce, prompt, sha256 }
    }

    fn words(&self, trace_id: u64, nonce: &str, tokens: u64) -> String {
        match &self.tokenizer {
            Some(tokenizer) => tokenizer.text(self.seed, trace_id, nonce, self.gauge.own(tokens)).text,
            None => text(self.seed, trace_id, nonce, self.gauge.words(tokens)),
        }
    }
}

impl Prompt {
    fn sha256(&self) -> String {
        let digest = match self {
            Prompt::Text(text) => Sha256::digest(text),
            Prompt::Ids(ids) => Sha256::digest(ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",")),
            Prompt::Body(body) => Sha256::digest(Value::Object(body.clone()).to_string()),
        };
        hex(&digest)
    }
}

/// The prompt of request `trace_id`: `words` words, the first of them `nonce`. Every window of a seed has
/// the same words after its own nonces.
pub fn text(seed: u64, trace_id: u64, nonce: &str, words: u64) -> String {
    let mut rng = Pcg64::new(u128::from(seed) << 64 | u128::from(trace_id), 3);
    let mut text = String::with_capacity(nonce.len() + words as usize * 6);
    text.push_str(nonce);
    let mut bits = 0u64;
    for i in 1..words {
        if i % 8 == 1 {
            bits = rng.next_u64();
        }
        text.push(' ');
        text.push_str(WORDS[(bits & 0xff) as usize]);
        bits >>= 8;
    }
    text
}

/// A text of `words` words, the first of them `nonce`, with each word of the list as often as any other, give or take one:
/// what words cost in the mean is seen in few of them.
pub fn even_text(nonce: &str, words: u64) -> String {
    let mut rng = Pcg64::new(u128::from(words), 5);
    let mut deck: Vec<usize> = Vec::new();
    let mut text = nonce.to_owned();
    for _ in 1..words {
        if deck.is_empty() {
            deck = (0..WORDS.len()).collect();
            shuffle(&mut deck, &mut rng);
        }
        text.push(' ');
        text.push_str(deck.pop().map_or("", |place| WORDS[place]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn as_many_words_as_asked_and_the_nonce_first() {
        for n in [1, 2, 9, 600] {
            let t = text(7, 3, "abcdefgh", n);
            assert_eq!(t.split(' ').count() as u64, n);
            assert!(t.starts_with("abcdefgh"));
        }
    }

    #[test]
    fn an_even_text_has_every_word_alike() {
        let text = even_text("abcdefgh", 513);
        let mut times = std::collections::BTreeMap::<&str, u32>::new();
        text.split(' ').skip(1).for_each(|word| *times.entry(word).or_default() += 1);
        assert!(times.len() == 256 && times.values().all(|n| *n == 2), "{times:?}");
        assert_eq!((even_text("abcdefgh", 1).as_str(), even_text("abcdefgh", 9).split(' ').count()), ("abcdefgh", 9));
    }

    #[test]
    fn words_repeat_by_trace_id_and_differ_between_them() {
        assert_eq!(&text(7, 3, "aaaaaaaa", 50)[8..], &text(7, 3, "bbbbbbbb", 50)[8..]);
        assert_ne!(&text(7, 3, "aaaaaaaa", 50)[8..], &text(7, 4, "aaaaaaaa", 50)[8..]);
        assert_ne!(&text(7, 3, "aaaaaaaa", 50)[8..], &text(8, 3, "aaaaaaaa", 50)[8..]);
    }

    #[test]
    fn the_list_is_256_different_short_words() {
        assert_eq!(WORDS.iter().collect::<HashSet<_>>().len(), 256);
        assert!(WORDS.iter().all(|w| (2..=6).contains(&w.len()) && w.bytes().all(|b| b.is_ascii_lowercase())));
    }
}
