//! How long text is in tokens.

use serde::Serialize;

/// How many words make so many tokens, as the server counts them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Gauge {
    /// Tokens that every prompt has beside its words: a chat template's.
    pub overhead: f64,
    /// Tokens a word.
    pub per_word: f64,
}

impl Gauge {
    /// Every word is a token.
    pub const WORD_EACH: Gauge = Gauge { overhead: 0.0, per_word: 1.0 };

    /// Words of a prompt that is to have `tokens`; at least 1.
    pub fn words(&self, tokens: u64) -> u64 {
        ((tokens as f64 - self.overhead) / self.per_word).round().max(1.0) as u64
    }

    /// Words of a piece of a prompt that is to have `tokens`; at least 1.
    pub fn block_words(&self, tokens: u64) -> u64 {
        (tokens as f64 / self.per_word).round().max(1.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_tokens() {
        assert_eq!(Gauge::WORD_EACH.words(600), 600);
        let templated = Gauge { overhead: 9.0, per_word: 1.25 };
        assert_eq!((templated.words(109), templated.words(3)), (80, 1), "never without the nonce");
    }
}
