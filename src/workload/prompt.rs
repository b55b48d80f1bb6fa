//! Prompts. A made one is text: the nonce, then common English words, most of them one token in most vocabularies. How
//! many words an asked length takes is [`Gauge`]'s to say; what the server counted is in the record.

use super::cache::Cache;
use super::gauge::Gauge;
use super::ids::{IdRange, PromptForm};
use super::nonce::{Nonces, letters};
use super::order::shuffle;
use super::words::WORDS;
use super::{Content, Shape, body, dataset, hex};
use crate::tokenizer::Tokenizer;
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
    /// Of this request alone: the first word of the prompt, or of a turn's own message; else `user`.
    pub nonce: String,
    /// Sent as the body's field `user`, so that a server's log knows the request: the nonce, where the prompt does not
    /// begin with it. Such requests are as if each came from somebody else; the turns of a session have none.
    pub user: Option<String>,
    /// By what the prompt begins, where that is not the nonce: those with the same beginning can share a server's cache.
    pub begins: Option<String>,
    /// The prompt.
    pub prompt: Prompt,
    /// Asked prompt length in tokens.
    pub prompt_tokens: u64,
    /// Asked output length in tokens.
    pub output_tokens: u64,
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
    /// Counts the tokens of made text, less the gauge's overhead; without it the gauge's words are made.
    pub tokenizer: Option<Tokenizer>,
    /// What the prompts of a window share.
    pub cache: Cache,
    /// Texts come without a length: what is asked for is what is counted in them.
    pub texts_counted: bool,
    /// Text or ids.
    pub form: PromptForm,
    /// Warm-up requests: those with a smaller trace id.
    pub drop: u64,
}

/// The words of a shared prefix are those of this trace id, which no request has.
const PREFIX_ID: u64 = u64::MAX;

/// How a prompt begins.
enum Opening {
    /// With the request's nonce.
    Nonce,
    /// With the number of the window, and goes on like the first measured prompt.
    Same(u64),
    /// With so many tokens that begin with the number of the window; then the request's nonce.
    Prefix { window: u64, tokens: u64 },
    /// As its file has it.
    AsIs,
}

impl PromptMaker {
    /// The prompt of request `trace_id` of window number `serial` of the run.
    pub fn make(&self, serial: u64, trace_id: u64, shape: &Shape) -> Made {
        self.made(serial, trace_id, shape, self.opening(serial, trace_id))
    }

    /// The message of a turn that follows others, which is request `trace_id` of window number `serial`: its own nonce
    /// first, whatever prompts share, but for messages that are sent as their file has them.
    pub fn make_later(&self, serial: u64, trace_id: u64, shape: &Shape) -> Made {
        let opening = match self.cache {
            Cache::AsIs => Opening::AsIs,
            Cache::Unique | Cache::SharedPrefix { .. } | Cache::Repeat => Opening::Nonce,
        };
        self.made(serial, trace_id, shape, opening)
    }

    fn made(&self, serial: u64, trace_id: u64, shape: &Shape, opening: Opening) -> Made {
        let nonce = self.nonces.nonce(serial, trace_id);
        let asked = (shape.prompt_tokens, shape.output_tokens);
        let (prompt, (prompt_tokens, output_tokens)) = match &shape.content {
            Content::Words => match self.form {
                PromptForm::Text => (Prompt::Text(self.words(&opening, trace_id, &nonce, shape.prompt_tokens)), asked),
                PromptForm::Ids(range) => {
                    let number = self.nonces.number(serial, trace_id);
                    (Prompt::Ids(self.ids(range, &opening, trace_id, number, shape.prompt_tokens)), asked)
                }
            },
            Content::Text(text) => {
                let text = self.opened(&opening, &nonce, text);
                let tokens = if self.texts_counted { self.tokens(&text) } else { shape.prompt_tokens };
                (Prompt::Text(text), (tokens, shape.output_tokens))
            }
            Content::Conversation { prompt, answer_words } => {
                let text = self.opened(&opening, &nonce, prompt);
                let tokens = self.tokens(&text);
                (Prompt::Text(text), (tokens, self.gauge.tokens_of(*answer_words)))
            }
            Content::Body(fields) => {
                let mut fields = fields.clone();
                if let Some(words) = self.before(&opening, &nonce) {
                    // readers refuse bodies that have no place for it
                    body::mark(&mut fields, &words);
                }
                let counted = self.gauge.tokens(body::words(&fields));
                let tokens = if self.texts_counted { counted } else { shape.prompt_tokens };
                (Prompt::Body(fields), (tokens, shape.output_tokens))
            }
            // no nonce in front: it would part what the trace shares
            Content::Blocks { ids, tokens_each } => {
                let window = self.window_words.of_window(serial, false);
                let blocks = Blocks { seed: self.seed, window, ids };
                let prompt = match self.form {
                    PromptForm::Text => {
                        let each = self.gauge.words_inside(*tokens_each);
                        Prompt::Text(blocks.text(each, trace_id, self.gauge.words(shape.prompt_tokens)))
                    }
                    PromptForm::Ids(range) => {
                        Prompt::Ids(blocks.ids(*tokens_each, range, trace_id, shape.prompt_tokens))
                    }
                };
                (prompt, asked)
            }
        };
        let shares = matches!(shape.content, Content::Blocks { .. });
        let begins = match opening {
            _ if shares => Some(letters(self.window_words.of_window(serial, false))),
            Opening::Nonce => None,
            Opening::Same(window) | Opening::Prefix { window, .. } => Some(letters(window)),
            Opening::AsIs => dataset::beginning(&shape.content),
        };
        let first_word = !shares && matches!((&opening, &prompt), (Opening::Nonce, Prompt::Text(_)));
        let user = match &prompt {
            // a body that is sent as it is keeps its own
            Prompt::Body(fields) if matches!(opening, Opening::AsIs) && fields.contains_key("user") => None,
            _ => (!first_word).then(|| nonce.clone()),
        };
        let sha256 = prompt.sha256();
        Made { nonce, user, begins, prompt, prompt_tokens, output_tokens, sha256 }
    }

    fn opening(&self, serial: u64, trace_id: u64) -> Opening {
        let warm_up = trace_id < self.drop;
        match self.cache {
            Cache::Unique => Opening::Nonce,
            Cache::Repeat if warm_up => Opening::Nonce,
            Cache::Repeat => Opening::Same(self.nonces.of_window(serial, false)),
            Cache::SharedPrefix { tokens } => {
                Opening::Prefix { window: self.nonces.of_window(serial, warm_up), tokens }
            }
            Cache::AsIs => Opening::AsIs,
        }
    }

    fn words(&self, opening: &Opening, trace_id: u64, nonce: &str, tokens: u64) -> String {
        let all = self.gauge.own(tokens);
        match opening {
            Opening::Nonce | Opening::AsIs => self.piece(trace_id, nonce, all),
            Opening::Same(window) => self.piece(self.drop, &letters(*window), all),
            Opening::Prefix { window, tokens } => {
                let prefix = self.piece(PREFIX_ID, &letters(*window), all.min(*tokens));
                match all.checked_sub(*tokens) {
                    None | Some(0) => prefix,
                    Some(own) => format!("{prefix} {}", self.piece(trace_id, nonce, own)),
                }
            }
        }
    }

    /// Text of `tokens` that begins with `first` and goes on with the words of `trace_id`.
    fn piece(&self, trace_id: u64, first: &str, tokens: u64) -> String {
        match &self.tokenizer {
            Some(tokenizer) => tokenizer.text(self.seed, trace_id, first, tokens).text,
            None => text(self.seed, trace_id, first, self.gauge.words_inside(tokens)),
        }
    }

    /// Tokens of a text of somebody's as a prompt.
    fn tokens(&self, text: &str) -> u64 {
        match &self.tokenizer {
            Some(tokenizer) => (tokenizer.count(text) as f64 + self.gauge.overhead).round().max(1.0) as u64,
            None => self.gauge.tokens(count(text)),
        }
    }

    /// What is put in front of a text of somebody's.
    fn before(&self, opening: &Opening, nonce: &str) -> Option<String> {
        match opening {
            Opening::Nonce => Some(nonce.to_owned()),
            Opening::Same(window) => Some(letters(*window)),
            Opening::Prefix { window, tokens } => {
                Some(format!("{} {nonce}", self.piece(PREFIX_ID, &letters(*window), *tokens)))
            }
            Opening::AsIs => None,
        }
    }

    fn opened(&self, opening: &Opening, nonce: &str, text: &str) -> String {
        self.before(opening, nonce).map_or_else(|| text.to_owned(), |words| format!("{words} {text}"))
    }

    /// `tokens` ids exactly.
    fn ids(&self, range: IdRange, opening: &Opening, trace_id: u64, number: u64, tokens: u64) -> Vec<u32> {
        let own = |start: u64, of: u64| range.nonce(start).into_iter().chain(range.draw(self.seed, of, tokens));
        let all = tokens as usize;
        match opening {
            Opening::Nonce | Opening::AsIs => own(number, trace_id).take(all).collect(),
            Opening::Same(window) => own(*window, self.drop).take(all).collect(),
            Opening::Prefix { window, tokens } => {
                own(*window, PREFIX_ID).take(*tokens as usize).chain(own(number, trace_id)).take(all).collect()
            }
        }
    }
}

/// Words of `text`.
fn count(text: &str) -> u64 {
    text.split_whitespace().count() as u64
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
    /// Number of the window (below 2^40), which every prompt of it begins with, in the place of as much of its first
    /// block: no other window has these blocks.
    pub window: u64,
    /// In order.
    pub ids: &'a [u64],
}

impl Blocks<'_> {
    /// The prompt of request `trace_id`: `words` words, `each` of them a block, the last block cut to them; where the
    /// blocks end before that, words that no other request has.
    pub fn text(&self, each: u64, trace_id: u64, words: u64) -> String {
        let first = letters(self.window);
        let mut text = String::with_capacity(first.len() + words as usize * 6);
        text.push_str(&first);
        let mut left = words;
        let drawn = self.ids.iter().map(|id| (self.draws(*id), each));
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

    /// The same in token ids of `range`: `tokens` of them, `each` a block.
    pub fn ids(&self, each: u64, range: IdRange, trace_id: u64, tokens: u64) -> Vec<u32> {
        let salted = self.seed ^ self.window.rotate_left(20);
        let shared = self.ids.iter().flat_map(|id| range.draw(salted, *id, each));
        let mut ids: Vec<u32> = shared.chain(range.draw(self.seed, trace_id, tokens)).take(tokens as usize).collect();
        for (place, id) in ids.iter_mut().zip(range.nonce(self.window)) {
            *place = id;
        }
        ids
    }

    /// What the words of block `id` are drawn from, in this window.
    fn draws(&self, id: u64) -> Pcg64 {
        Pcg64::new(u128::from(self.seed) << 64 | u128::from(id), u128::from(self.window) << 8 | BLOCKS)
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
    use super::super::ids::DEFAULT_IDS;
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
        let maker =
            PromptMaker { nonces: nonces.clone(), window_words: nonces, ..maker(Cache::Unique, PromptForm::Text) };
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
        let blocks = Blocks { seed: 7, window: 1, ids: &[46, 47] };
        assert_eq!(blocks.text(4, 0, 8), GOLDEN_BLOCKS);
    }

    #[test]
    fn blocks_of_ids_share_what_blocks_of_words_share() {
        let blocks = |window, ids| Blocks { seed: 7, window, ids }.ids(16, DEFAULT_IDS, 3, 40);
        let shared = |a: &[u32], b: &[u32]| a.iter().zip(b).take_while(|(a, b)| a == b).count();
        let base = blocks(1, &[46, 47]);
        assert_eq!(base.len(), 40, "beyond its blocks a prompt has ids of its own");
        assert_eq!(base[..4], DEFAULT_IDS.nonce(1), "the window's number stands first");
        assert!((16..19).contains(&shared(&base, &blocks(1, &[46, 99]))));
        assert_eq!(shared(&base, &blocks(2, &[46, 47])), 0);
        let other = Blocks { seed: 7, window: 1, ids: &[46, 47] }.ids(16, DEFAULT_IDS, 4, 40);
        assert!((32..35).contains(&shared(&base, &other)));
    }

    const GOLDEN_BLOCKS: &str = "aaaaaaab lab golf you five pet free fear";

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

    fn maker(cache: Cache, form: PromptForm) -> PromptMaker {
        let nonces = Nonces::of_run("r1");
        PromptMaker {
            window_words: Nonces::of_run("r1"),
            seed: 7,
            nonces,
            gauge: Gauge::WORD_EACH,
            tokenizer: None,
            cache,
            texts_counted: true,
            form,
            drop: 3,
        }
    }

    fn shape(content: Content, prompt_tokens: u64) -> Shape {
        Shape { class: "c".to_owned(), prompt_tokens, output_tokens: 5, content }
    }

    const MODES: [Cache; 3] = [Cache::Unique, Cache::SharedPrefix { tokens: 20 }, Cache::Repeat];

    fn contents() -> Vec<Content> {
        let fields = serde_json::json!({"messages": [{"role": "user", "content": "as they said"}]});
        let Value::Object(fields) = fields else { panic!("an object") };
        let prompt = "as they said".to_owned();
        let conversation = Content::Conversation { prompt: prompt.clone(), answer_words: 9 };
        vec![Content::Words, Content::Text(prompt), conversation, Content::Body(fields)]
    }

    #[test]
    fn warm_up_and_measured_prompts_are_never_the_same() {
        for (cache, form) in MODES.into_iter().flat_map(|c| [(c, PromptForm::Text), (c, PromptForm::Ids(DEFAULT_IDS))])
        {
            let maker = maker(cache, form);
            for content in contents() {
                // longer than the prefix, and its beginning only
                for tokens in [60, 12] {
                    let shape = shape(content.clone(), tokens);
                    let hashes = |ids: std::ops::Range<u64>| -> HashSet<(u64, String)> {
                        let of = |id| (0..3).map(move |serial| (serial, id));
                        ids.flat_map(of).map(|(serial, id)| (0, maker.make(serial, id, &shape).sha256)).collect()
                    };
                    let (warm_up, measured) = (hashes(0..3), hashes(3..30));
                    assert!(warm_up.is_disjoint(&measured), "{cache} {form} {content:?}");
                }
            }
        }
    }

    #[test]
    fn windows_and_runs_share_no_prompt_and_no_beginning() {
        for (cache, form) in MODES.into_iter().flat_map(|c| [(c, PromptForm::Text), (c, PromptForm::Ids(DEFAULT_IDS))])
        {
            let runs = ["r1", "r2"].map(|run| PromptMaker { nonces: Nonces::of_run(run), ..maker(cache, form) });
            for content in contents() {
                let shape = shape(content, 60);
                let of = |run: usize, serial: u64| -> HashSet<String> {
                    let made = (0..20).map(|id| runs[run].make(serial, id, &shape));
                    made.flat_map(|made| [Some(made.sha256), made.begins]).flatten().collect()
                };
                let all = [of(0, 0), of(0, 1), of(1, 0)];
                for (a, b) in [(0, 1), (0, 2), (1, 2)] {
                    assert!(all[a].is_disjoint(&all[b]), "{cache} {form}");
                }
            }
        }
    }

    #[test]
    fn four_threads_with_a_hundred_prompts_each_make_four_hundred() {
        let maker = maker(Cache::Unique, PromptForm::Text);
        let hashes: HashSet<String> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|serial| {
                    let maker = maker.clone();
                    let of = move |id| maker.make(serial, id, &shape(Content::Words, 50)).sha256;
                    scope.spawn(move || (0..100).map(of).collect::<Vec<_>>())
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("made")).collect()
        });
        assert_eq!(hashes.len(), 400);
    }

    #[test]
    fn prompts_do_not_all_start_alike() {
        let maker = maker(Cache::Unique, PromptForm::Text);
        for content in contents() {
            let starts: HashSet<String> = (0..100)
                .map(|id| match maker.make(0, id, &shape(content.clone(), 50)).prompt {
                    Prompt::Text(text) => text.chars().take(4).collect(),
                    Prompt::Body(fields) => fields["messages"][0]["content"].to_string().chars().take(5).collect(),
                    Prompt::Ids(_) => String::new(),
                })
                .collect();
            assert!(starts.len() > 95, "{content:?}: {}", starts.len());
        }
    }

    #[test]
    fn what_a_window_shares_is_what_was_asked() {
        let text_of = |made: Made| match made.prompt {
            Prompt::Text(text) => text,
            other => panic!("no text: {other:?}"),
        };
        let made = |cache, id, content, tokens| maker(cache, PromptForm::Text).make(5, id, &shape(content, tokens));
        let repeat = |id| text_of(made(Cache::Repeat, id, Content::Words, 50));
        assert_eq!(repeat(3), repeat(29));
        assert_eq!(repeat(3).split(' ').count(), 50);
        assert_ne!(repeat(2), repeat(3), "the warm-up");
        let prefix = |id, tokens| text_of(made(Cache::SharedPrefix { tokens: 20 }, id, Content::Words, tokens));
        let first = |text: &str, n: usize| text.split(' ').take(n).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(first(&prefix(3, 60), 20), first(&prefix(9, 45), 20));
        assert_ne!(first(&prefix(3, 60), 21), first(&prefix(9, 45), 21), "then the nonce");
        assert_eq!((prefix(9, 45).split(' ').count(), prefix(9, 12).split(' ').count()), (45, 12));
        assert_eq!(first(&prefix(9, 12), 12), first(&prefix(3, 60), 12), "its beginning only");
        assert_ne!(first(&prefix(2, 60), 1), first(&prefix(3, 60), 1), "the warm-up has another");
        let said = Content::Text("as they said".to_owned());
        let shared = made(Cache::SharedPrefix { tokens: 20 }, 3, said.clone(), 24);
        assert_eq!(shared.prompt_tokens, 24);
        assert!(text_of(shared.clone()).ends_with(&format!(" {} as they said", shared.nonce)));
        assert_eq!(shared.user, Some(shared.nonce));
        assert_eq!(text_of(made(Cache::AsIs, 3, said, 3)), "as they said");
    }

    #[test]
    fn nonces_that_no_prompt_begins_with_go_beside_it() {
        let made = |cache, content: &Content| maker(cache, PromptForm::Text).make(0, 9, &shape(content.clone(), 30));
        for content in contents() {
            let unique = made(Cache::Unique, &content);
            let is_body = matches!(content, Content::Body(_));
            assert_eq!((unique.user.is_some(), unique.begins), (is_body, None), "{content:?}");
            let repeat = made(Cache::Repeat, &content);
            assert!(repeat.user.as_ref() == Some(&repeat.nonce) && repeat.begins.is_some());
        }
        let as_is = made(Cache::AsIs, &contents()[1]);
        assert_eq!((as_is.user, as_is.begins.map(|b| b.len())), (Some(as_is.nonce), Some(16)));
        let mut own = contents().pop();
        if let Some(Content::Body(fields)) = &mut own {
            fields.insert("user".to_owned(), "theirs".into());
        }
        assert_eq!(made(Cache::AsIs, &own.expect("a body")).user, None, "a body as it is keeps its own");
    }

    #[test]
    fn ids_are_as_many_as_asked() {
        for cache in MODES {
            let maker = maker(cache, PromptForm::Ids(DEFAULT_IDS));
            for tokens in [1, 3, 4, 5, 20, 21, 25, 500] {
                let made = maker.make(0, 9, &shape(Content::Words, tokens));
                let Prompt::Ids(ids) = &made.prompt else { panic!("ids") };
                assert_eq!((ids.len() as u64, made.prompt_tokens), (tokens, tokens), "{cache}");
                assert_eq!(made.user.as_ref(), Some(&made.nonce));
            }
        }
        let maker = maker(Cache::Unique, PromptForm::Ids(DEFAULT_IDS));
        let firsts: HashSet<Vec<u32>> = (0..100)
            .map(|id| match maker.make(0, id, &shape(Content::Words, 50)).prompt {
                Prompt::Ids(ids) => ids[..4].to_vec(),
                other => panic!("no ids: {other:?}"),
            })
            .collect();
        assert_eq!(firsts.len(), 100, "the nonce first");
    }

    #[test]
    fn lengths_of_texts_go_through_the_gauge() {
        let gauge = Gauge { overhead: 10.0, per_word: 1.5 };
        let maker = PromptMaker { gauge, ..maker(Cache::Unique, PromptForm::Text) };
        let all = contents();
        let lengths = |content: &Content| {
            let made = maker.make(0, 9, &shape(content.clone(), 40));
            (made.prompt_tokens, made.output_tokens)
        };
        assert_eq!(lengths(&all[0]), (40, 5));
        assert_eq!(lengths(&all[1]), (16, 5), "the nonce and three words");
        assert_eq!(lengths(&all[2]), (16, 14), "nine words of the answer");
        assert_eq!(lengths(&all[3]), (16, 5));
    }
}
