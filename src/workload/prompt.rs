//! Prompts. A made one is text: the nonce, then common English words, most of them one token in most vocabularies. How
//! many words an asked length takes is [`Gauge`]'s to say; what the server counted is in the record.

use super::gauge::Gauge;
use super::nonce::{MAX_TRACE_ID, Nonces};
use super::words::WORDS;
use super::{Content, Shape, hex};
use rand_core::Rng;
use rand_pcg::Pcg64;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// Streams of the generator.
const WORDS_OF_REQUESTS: u128 = 3;
const BLOCKS: u128 = 5;

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
    /// Its first word, but where prompts share blocks.
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
    /// Of the words that all prompts of a window begin with where prompts share blocks: those of the run, so that no run
    /// finds the blocks of another one in a server's cache. Hosts that share a load must share these.
    pub window_words: Nonces,
    /// How long text is.
    pub gauge: Gauge,
}

impl PromptMaker {
    /// The prompt of request `trace_id` of window number `serial` of the run.
    pub fn make(&self, serial: u64, trace_id: u64, shape: &Shape) -> Made {
        let nonce = self.nonces.nonce(serial, trace_id);
        let prompt = match &shape.content {
            Content::Words => Prompt::Text(text(self.seed, trace_id, &nonce, self.gauge.words(shape.prompt_tokens))),
            Content::Text(text) => Prompt::Text(format!("{nonce} {text}")),
            Content::Body(body) => Prompt::Body(body.clone()),
            // no nonce in front: it would part what the trace shares
            Content::Blocks { ids, tokens_each } => {
                let blocks = Blocks {
                    seed: self.seed,
                    word: &self.window_words.nonce(serial, MAX_TRACE_ID),
                    ids,
                    words_each: self.gauge.block_words(*tokens_each),
                };
                Prompt::Text(blocks.text(trace_id, self.gauge.words(shape.prompt_tokens)))
            }
        };
        let sha256 = prompt.sha256();
        Made { nonce, prompt, sha256 }
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

/// A prompt of blocks, each made from its id.
#[derive(Clone, Copy, Debug)]
pub struct Blocks<'a> {
    /// Of the run.
    pub seed: u64,
    /// The first word of every prompt of the window, in the place of the first word of its first block.
    pub word: &'a str,
    /// In order.
    pub ids: &'a [u64],
    /// Words of each, at least 1.
    pub words_each: u64,
}

impl Blocks<'_> {
    /// The prompt of request `trace_id`: `words` words, the last block cut to them; where the blocks end before that,
    /// words that no other request has.
    pub fn text(&self, trace_id: u64, words: u64) -> String {
        let mut text = String::with_capacity(self.word.len() + words as usize * 6);
        text.push_str(self.word);
        let mut left = words;
        let drawn = self.ids.iter().map(|id| (self.draws(*id), self.words_each));
        let rest = std::iter::once_with(|| (own_draws(self.seed, trace_id), u64::MAX));
        let mut is_first = true;
        for (mut rng, each) in drawn.chain(rest) {
            let here = each.min(left);
            // the word in front stands for one of the first block
            push_words(&mut text, &mut rng, here - u64::from(is_first && here > 0));
            (left, is_first) = (left - here, false);
            if left == 0 {
                break;
            }
        }
        text
    }

    /// What block `id` is drawn from, in this window.
    fn draws(&self, id: u64) -> Pcg64 {
        let salt = self.word.bytes().fold(0_u128, |salt, b| salt << 8 | u128::from(b));
        Pcg64::new(u128::from(self.seed) << 64 | u128::from(id), salt << 8 | BLOCKS)
    }
}

/// What the words of one request are drawn from.
fn own_draws(seed: u64, trace_id: u64) -> Pcg64 {
    Pcg64::new(u128::from(seed) << 64 | u128::from(trace_id), WORDS_OF_REQUESTS)
}

/// Eight words of each drawn number.
fn push_words(text: &mut String, rng: &mut Pcg64, words: u64) {
    let mut bits = 0_u64;
    for i in 0..words {
        if i % 8 == 0 {
            bits = rng.next_u64();
        }
        text.push(' ');
        text.push_str(WORDS[(bits & 0xff) as usize]);
        bits >>= 8;
    }
}

/// The prompt of request `trace_id`: `words` words, the first of them `nonce`. Every window of a seed has
/// the same words after its own nonces.
pub fn text(seed: u64, trace_id: u64, nonce: &str, words: u64) -> String {
    let mut text = String::with_capacity(nonce.len() + words as usize * 6);
    text.push_str(nonce);
    push_words(&mut text, &mut own_draws(seed, trace_id), words.saturating_sub(1));
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

    /// Words that two texts begin with alike.
    fn shared(a: &str, b: &str) -> usize {
        a.split(' ').zip(b.split(' ')).take_while(|(a, b)| a == b).count()
    }

    #[test]
    fn prompts_share_the_text_of_the_blocks_they_share_and_no_more() {
        let nonces = Nonces::of_run("r1");
        let maker = PromptMaker { seed: 7, nonces: nonces.clone(), window_words: nonces, gauge: Gauge::WORD_EACH };
        let made = |maker: &PromptMaker, serial, trace_id, ids: &[u64], prompt_tokens| {
            let content = Content::Blocks { ids: ids.to_vec(), tokens_each: 64 };
            let shape = Shape { class: "trace".to_owned(), prompt_tokens, output_tokens: 1, content };
            match maker.make(serial, trace_id, &shape).prompt {
                Prompt::Text(text) => text,
                other => panic!("{other:?}"),
            }
        };
        let base = made(&maker, 0, 0, &[1, 2, 3, 4], 250);
        assert_eq!(base.split(' ').count(), 250, "the last block is cut");
        for shared_blocks in 0..4 {
            let mut ids = [1, 2, 3, 4];
            ids[shared_blocks] = 99;
            let other = made(&maker, 0, 1, &ids, 250);
            let least = (shared_blocks * 64).max(1);
            let found = shared(&base, &other);
            // of 256 words a few may be the same by chance
            assert!((least..least + 3).contains(&found), "{shared_blocks} blocks: {found} words");
        }
        assert_eq!(made(&maker, 0, 5, &[1, 2, 3, 4], 250), base, "the request has no say");
        assert_eq!(shared(&base, &made(&maker, 0, 1, &[1, 2], 100)), 100, "a shorter prompt is its beginning");
        let longer = made(&maker, 0, 1, &[1, 2], 200);
        assert!((128..131).contains(&shared(&base, &longer)), "beyond its hashes a prompt has words of its own");
        assert!(shared(&longer, &made(&maker, 0, 2, &[1, 2], 200)) < 131);
        assert_eq!(made(&maker, 0, 9, &[], 3).split(' ').count(), 3);
        assert_eq!(made(&maker, 0, 9, &[1], 1).split(' ').count(), 1);
        // another window, another run, and another host with the same run
        assert_eq!(shared(&base, &made(&maker, 1, 0, &[1, 2, 3, 4], 250)), 0);
        let run = |id: &str| PromptMaker { window_words: Nonces::of_run(id), ..maker.clone() };
        assert_eq!(shared(&base, &made(&run("r2"), 0, 0, &[1, 2, 3, 4], 250)), 0);
        assert_eq!(made(&run("r1"), 0, 0, &[1, 2, 3, 4], 250), base);
    }

    #[test]
    fn these_blocks_are_what_seed_7_means() {
        // a golden text: the same in every process, on every host, in every release
        let blocks = Blocks { seed: 7, word: "abcdefgh", ids: &[46, 47], words_each: 4 };
        assert_eq!(blocks.text(0, 8), GOLDEN_BLOCKS);
    }

    const GOLDEN_BLOCKS: &str = "abcdefgh bee due card ran file feel full";

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
