//! Texts of an exact number of tokens, by whatever counts them.
//!
//! What each word costs after a space is learnt once; where costs add up, as they do with tokenizers that split at
//! spaces, a text is right at the first try. Each text is counted whole before it is used, and made again where they do
//! not: nothing depends on additivity but the time it takes.

use super::words::WORDS;
use rand_core::Rng;
use rand_pcg::Pcg64;

/// Times that a text is made anew, each time with what was missing or too much.
const TRIES: usize = 8;

/// What the words cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExactText {
    costs: Vec<u64>,
    /// Whether words can be found that cost so much together.
    reached: Vec<bool>,
    /// Beyond that, every multiple of this can.
    step: u64,
}

/// A text and its length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The words, the nonce first.
    pub text: String,
    /// Tokens of it, counted.
    pub tokens: u64,
}

impl ExactText {
    /// Learns what each word costs. None when common words have no tokens at all.
    pub fn learn(count: impl Fn(&str) -> u64) -> Option<ExactText> {
        let first = WORDS[0];
        let alone = count(first);
        let costs: Vec<u64> =
            WORDS.iter().map(|word| count(&format!("{first} {word}")).saturating_sub(alone)).collect();
        let most = costs.iter().copied().max().filter(|most| *most > 0)?;
        let step = costs.iter().fold(0, |a, b| gcd(a, *b));
        // sums of numbers up to `most` have no gaps from its square on
        let mut reached = vec![true];
        for sum in 1..=most * most {
            reached.push(costs.iter().any(|cost| *cost > 0 && *cost <= sum && reached[(sum - cost) as usize]));
        }
        Some(ExactText { costs, reached, step })
    }

    /// Tokens a word, in the mean.
    pub fn mean_cost(&self) -> f64 {
        self.costs.iter().sum::<u64>() as f64 / self.costs.len() as f64
    }

    /// Whether every length can be met.
    pub fn meets_every_length(&self) -> bool {
        self.reached.iter().all(|reached| *reached) && self.step == 1
    }

    /// The text of request `trace_id`, of `tokens` tokens, or as near to it as words come. The nonce is always there,
    /// whatever it costs. The same seed and trace id give the same words after it, up to the last few, which fill what
    /// this nonce leaves.
    pub fn make(&self, seed: u64, trace_id: u64, nonce: &str, tokens: u64, count: impl Fn(&str) -> u64) -> Text {
        let mut budget = tokens.saturating_sub(count(nonce));
        let mut best: Option<Text> = None;
        for _ in 0..TRIES {
            let text = self.words(seed, trace_id, nonce, budget);
            let made = Text { tokens: count(&text), text };
            let off = tokens as i64 - made.tokens as i64;
            if best.as_ref().is_none_or(|best| off.unsigned_abs() < best.tokens.abs_diff(tokens)) {
                best = Some(made);
            }
            let next = budget.saturating_add_signed(off);
            if off == 0 || next == budget {
                break;
            }
            budget = next;
        }
        best.unwrap_or_else(|| Text { text: nonce.to_owned(), tokens: count(nonce) })
    }

    fn words(&self, seed: u64, trace_id: u64, nonce: &str, budget: u64) -> String {
        let mut rng = Pcg64::new(u128::from(seed) << 64 | u128::from(trace_id), 3);
        let mut text = String::with_capacity(nonce.len() + budget as usize * 6);
        text.push_str(nonce);
        let mut left = (0..=budget).rev().find(|sum| self.is_reached(*sum)).unwrap_or(0);
        let fits = |place: usize, left: u64| {
            let cost = self.costs[place];
            cost > 0 && cost <= left && self.is_reached(left - cost)
        };
        let (mut bits, mut bytes) = (0_u64, 0);
        while left > 0 {
            if bytes == 0 {
                (bits, bytes) = (rng.next_u64(), 8);
            }
            let drawn = (bits & 0xff) as usize;
            (bits, bytes) = (bits >> 8, bytes - 1);
            // the next one in the list that leaves what others can fill
            let Some(place) = (0..WORDS.len()).map(|k| (drawn + k) % WORDS.len()).find(|place| fits(*place, left))
            else {
                break;
            };
            text.push(' ');
            text.push_str(WORDS[place]);
            left -= self.costs[place];
        }
        text
    }

    fn is_reached(&self, sum: u64) -> bool {
        self.reached.get(sum as usize).copied().unwrap_or_else(|| sum.is_multiple_of(self.step))
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn by_words(text: &str) -> u64 {
        text.split(' ').count() as u64
    }

    /// A piece for each `n` bytes of a word.
    fn by_bytes(n: usize) -> impl Fn(&str) -> u64 {
        move |text| text.split(' ').map(|word| word.len().div_ceil(n) as u64).sum()
    }

    #[test]
    fn where_a_word_is_a_token_the_words_are_those_that_are_always_made() {
        let exact = ExactText::learn(by_words).expect("words have tokens");
        assert_eq!((exact.mean_cost(), exact.meets_every_length()), (1.0, true));
        let made = exact.make(7, 3, "abcdefgh", 600, by_words);
        assert_eq!(made, Text { text: super::super::prompt::text(7, 3, "abcdefgh", 600), tokens: 600 });
    }

    #[test]
    fn a_text_is_never_without_its_nonce() {
        let exact = ExactText::learn(by_bytes(2)).expect("words have tokens");
        for tokens in [0, 1, 4] {
            assert_eq!(exact.make(7, 3, "abcdefgh", tokens, by_bytes(2)).text, "abcdefgh", "{tokens}");
        }
        assert_eq!(exact.make(7, 3, "abcdefgh", 5, by_bytes(2)).tokens, 4, "no word has one token here");
        assert_eq!(exact.make(7, 3, "abcdefgh", 6, by_bytes(2)).tokens, 6);
    }

    #[test]
    fn lengths_that_no_words_have_are_known_and_missed_by_the_least() {
        let twice = |text: &str| 2 * by_words(text);
        let exact = ExactText::learn(twice).expect("words have tokens");
        assert!(!exact.meets_every_length());
        assert_eq!(exact.make(7, 3, "abcdefgh", 101, twice).tokens.abs_diff(101), 1);
        assert_eq!(exact.make(7, 3, "abcdefgh", 100, twice).tokens, 100);
        assert_eq!(ExactText::learn(|_| 0), None);
    }

    #[test]
    fn costs_that_do_not_add_up_are_made_good() {
        // two words of four letters in a row are one token
        let joined = |text: &str| {
            let lengths: Vec<usize> = text.split(' ').map(str::len).collect();
            let (mut tokens, mut open) = (0, false);
            for length in lengths {
                open = length == 4 && !open;
                tokens += u64::from(length != 4 || open);
            }
            tokens
        };
        let exact = ExactText::learn(joined).expect("words have tokens");
        for trace_id in 0..50 {
            assert_eq!(exact.make(7, trace_id, "abcdefgh", 300, joined).tokens, 300, "{trace_id}");
        }
    }

    proptest! {
        #[test]
        fn every_length_is_met(n in prop::sample::select(&[1usize, 3, 4]), tokens in 30u64..2_000, trace_id in 0u64..1_000) {
            let exact = ExactText::learn(by_bytes(n)).expect("words have tokens");
            let made = exact.make(7, trace_id, "abcdefgh", tokens, by_bytes(n));
            prop_assert_eq!(made.tokens, tokens);
            prop_assert_eq!(made.tokens, by_bytes(n)(&made.text));
            prop_assert_eq!(&made, &exact.make(7, trace_id, "abcdefgh", tokens, by_bytes(n)));
        }

        #[test]
        fn nonces_change_the_end_only(a in "[a-z2-7]{8}", b in "[a-z2-7]{1,7}") {
            let exact = ExactText::learn(by_bytes(3)).expect("words have tokens");
            let words = |nonce: &str| {
                let text = exact.make(7, 3, nonce, 500, by_bytes(3)).text;
                text.split(' ').skip(1).map(str::to_owned).collect::<Vec<_>>()
            };
            let (a, b) = (words(&a), words(&b));
            let same = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
            prop_assert!(same + 8 >= a.len().min(b.len()), "{same} of {} and {}", a.len(), b.len());
        }
    }
}
