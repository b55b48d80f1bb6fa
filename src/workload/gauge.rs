//! How long text is in tokens.

use serde::Serialize;

/// How many words make so many tokens, as the server counts them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Gauge {
    /// Tokens that every prompt has beside its words: a chat template's, and what the nonce has more than a word.
    pub overhead: f64,
    /// Tokens a word.
    pub per_word: f64,
}

/// What the server counted for a prompt of known length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Counted {
    /// Its length by our own count: words, or a tokenizer's tokens.
    pub ours: u64,
    /// Tokens by the server's.
    pub server: u64,
}

/// A line through what the server counted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// The line.
    pub gauge: Gauge,
    /// Root mean square of what the counts lie off it, in tokens, the line's two degrees of freedom taken off.
    pub scatter: f64,
    /// The one count that was left out, since all others lie on a line and it does not.
    pub odd: Option<Counted>,
}

/// Counts that no line goes through.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum NoFit {
    /// Too few different lengths.
    #[error("the server counted {0} different lengths, and a line with its scatter needs {LEAST}")]
    TooFew(usize),
    /// Longer prompts are not counted as longer, or by an unlikely factor.
    #[error("by the server's count a word has {0:.2} tokens, and {LOWEST} to {HIGHEST} can be")]
    Slope(f64),
    /// The counts follow their lengths too loosely.
    #[error("the server's counts lie {scatter:.1} tokens off any line")]
    Scatter {
        /// As in [`Fit`].
        scatter: f64,
    },
}

/// Fewest lengths of a fit: two are a line without a scatter.
const LEAST: usize = 3;
/// Fewest tokens a word that can be.
const LOWEST: f64 = 0.2;
/// Most tokens a word that can be.
const HIGHEST: f64 = 20.0;
/// Scatter in shares of the largest count above which counts follow no line.
const LOOSE: f64 = 0.1;
/// A count is odd when it lies so many tokens off the line through all others,
const ODD_TOKENS: f64 = 8.0;
/// and so many times their scatter.
const ODD_TIMES: f64 = 8.0;

impl Gauge {
    /// Every word is a token.
    pub const WORD_EACH: Gauge = Gauge { overhead: 0.0, per_word: 1.0 };

    /// Words of a prompt that is to have `tokens`; at least 1.
    pub fn words(&self, tokens: u64) -> u64 {
        ((tokens as f64 - self.overhead) / self.per_word).round().max(1.0) as u64
    }

    /// Tokens of a text of `words` words that stands in no template, an answer for example; at least 1.
    pub fn tokens_of(&self, words: u64) -> u64 {
        (words as f64 * self.per_word).round().max(1.0) as u64
    }

    /// Tokens of a prompt that are its own, of `tokens` as the server is to count them; at least 1, so that no template
    /// leaves a prompt empty.
    pub fn own(&self, tokens: u64) -> u64 {
        (tokens as f64 - self.overhead).round().max(1.0) as u64
    }

    /// Words of a piece of a prompt, or of a reply, of `tokens`: without what a template adds; at least 1.
    pub fn words_inside(&self, tokens: u64) -> u64 {
        Gauge { overhead: 0.0, ..*self }.words(tokens)
    }

    /// Tokens of a prompt of `words`; at least 1.
    pub fn tokens(&self, words: u64) -> u64 {
        (self.overhead + self.per_word * words as f64).round().max(1.0) as u64
    }

    /// Whether prompts made by the two differ by more than `share` in length, where both are to have `tokens`.
    pub fn differs(&self, other: &Gauge, tokens: u64, share: f64) -> bool {
        let (a, b) = (self.words(tokens) as f64, other.words(tokens) as f64);
        (a - b).abs() > share * a.max(b)
    }
}

impl Fit {
    /// The line of least squares. When one count lies far off the line that all others lie on, as a server's that cuts
    /// the longest prompt, it is left out; that takes at least three others.
    ///
    /// # Errors
    /// [`NoFit`].
    pub fn through(counted: &[Counted]) -> Result<Fit, NoFit> {
        let whole = line(counted);
        let is_odd = |fit: &Fit, count: &Counted| {
            let off = (count.server as f64 - fit.at(count.ours)).abs();
            off > ODD_TOKENS && off > ODD_TIMES * fit.scatter
        };
        let without = (0..counted.len()).filter_map(|i| {
            let others: Vec<Counted> = counted.iter().enumerate().filter(|(k, _)| *k != i).map(|(_, c)| *c).collect();
            let fit = line(&others).ok().filter(|fit| is_odd(fit, &counted[i]))?;
            Some(Fit { odd: Some(counted[i]), ..fit })
        });
        let fit = match without.min_by(|a, b| a.scatter.total_cmp(&b.scatter)) {
            Some(fit) => fit,
            None => whole?,
        };
        let most = counted.iter().map(|c| c.server).max().unwrap_or(0) as f64;
        let slope = fit.gauge.per_word;
        match slope {
            slope if !(LOWEST..=HIGHEST).contains(&slope) => Err(NoFit::Slope(slope)),
            _ if fit.scatter > (LOOSE * most).max(ODD_TOKENS) => Err(NoFit::Scatter { scatter: fit.scatter }),
            _ => Ok(fit),
        }
    }

    /// What the server counts for a length of ours.
    fn at(&self, ours: u64) -> f64 {
        self.gauge.overhead + self.gauge.per_word * ours as f64
    }
}

fn line(counted: &[Counted]) -> Result<Fit, NoFit> {
    let mut lengths: Vec<u64> = counted.iter().map(|c| c.ours).collect();
    lengths.sort_unstable();
    lengths.dedup();
    if lengths.len() < LEAST {
        return Err(NoFit::TooFew(lengths.len()));
    }
    let n = counted.len() as f64;
    let mean = |of: fn(&Counted) -> u64| counted.iter().map(|c| of(c) as f64).sum::<f64>() / n;
    let (x, y) = (mean(|c| c.ours), mean(|c| c.server));
    let of = |f: &dyn Fn(&Counted) -> f64| counted.iter().map(f).sum::<f64>();
    let square = of(&|c| (c.ours as f64 - x).powi(2));
    let per_word = of(&|c| (c.ours as f64 - x) * (c.server as f64 - y)) / square;
    let gauge = Gauge { overhead: y - per_word * x, per_word };
    let fit = Fit { gauge, scatter: 0.0, odd: None };
    let off = of(&|c| (c.server as f64 - fit.at(c.ours)).powi(2));
    Ok(Fit { scatter: (off / (n - 2.0)).sqrt(), ..fit })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LENGTHS: [u64; 5] = [32, 64, 128, 256, 512];

    fn counted(of: impl Fn(u64) -> u64) -> Vec<Counted> {
        LENGTHS.iter().map(|ours| Counted { ours: *ours, server: of(*ours) }).collect()
    }

    #[test]
    fn words_for_tokens() {
        assert_eq!(Gauge::WORD_EACH.words(600), 600);
        let templated = Gauge { overhead: 9.0, per_word: 1.25 };
        assert_eq!((templated.words(109), templated.words(3)), (80, 1), "never without the nonce");
        assert_eq!((templated.tokens_of(80), templated.tokens_of(0)), (100, 1), "an answer has no template");
        assert_eq!((templated.tokens(80), templated.words_inside(100), Gauge::WORD_EACH.tokens(0)), (109, 80, 1));
        assert_eq!((templated.own(109), templated.own(9), templated.own(2)), (100, 1, 1));
    }

    #[test]
    fn two_gauges_differ_by_the_words_they_make() {
        let one = Gauge { overhead: 9.0, per_word: 1.0 };
        assert!(!one.differs(&Gauge { overhead: 10.0, per_word: 1.0 }, 500, 0.01));
        assert!(one.differs(&Gauge { overhead: 10.0, per_word: 1.0 }, 50, 0.01));
        assert!(one.differs(&Gauge { overhead: 9.0, per_word: 1.02 }, 500, 0.01));
    }

    #[test]
    fn what_is_no_line_is_refused() {
        assert_eq!(Fit::through(&[]), Err(NoFit::TooFew(0)));
        let twice = [Counted { ours: 5, server: 5 }, Counted { ours: 9, server: 9 }, Counted { ours: 9, server: 9 }];
        assert_eq!(Fit::through(&twice), Err(NoFit::TooFew(2)));
        assert!(matches!(Fit::through(&counted(|_| 3)), Err(NoFit::Slope(_))), "it does not grow");
        assert!(matches!(Fit::through(&counted(|n| 600 - n)), Err(NoFit::Slope(_))), "it shrinks");
        assert!(matches!(Fit::through(&counted(|n| 25 * n)), Err(NoFit::Slope(_))));
        let loose = [(32, 400), (64, 80), (128, 600), (256, 100), (512, 700)];
        let loose: Vec<Counted> = loose.iter().map(|(ours, server)| Counted { ours: *ours, server: *server }).collect();
        assert!(matches!(Fit::through(&loose), Err(NoFit::Scatter { .. })));
    }

    #[test]
    fn a_prompt_that_the_server_cut_does_not_bend_the_line() {
        let fit = Fit::through(&counted(|n| (n + 9).min(300))).expect("a line");
        assert_eq!(fit.odd, Some(Counted { ours: 512, server: 300 }));
        assert!((fit.gauge.per_word - 1.0).abs() < 1e-9 && (fit.gauge.overhead - 9.0).abs() < 1e-6, "{fit:?}");
    }

    proptest! {
        #[test]
        fn a_linear_server_is_met_exactly(per_word in 1u64..20, template in 0u64..400) {
            let fit = Fit::through(&counted(|n| template + per_word * n)).expect("a line");
            prop_assert!((fit.gauge.per_word - per_word as f64).abs() < 1e-9 && fit.odd.is_none());
            prop_assert!((fit.gauge.overhead - template as f64).abs() < 1e-6 && fit.scatter < 1e-6);
        }

        #[test]
        fn one_odd_count_does_no_harm(per_word in 1u64..4, template in 0u64..40, at in 0usize..5, off in 40i64..200) {
            let mut counts = counted(|n| template + per_word * n);
            counts[at].server = counts[at].server.saturating_add_signed(if at > 2 { -off } else { off });
            let fit = Fit::through(&counts).expect("a line");
            prop_assert_eq!(fit.odd, Some(counts[at]));
            prop_assert!((fit.gauge.per_word - per_word as f64).abs() < 1e-9);
        }

        #[test]
        fn asked_lengths_are_met_by_a_server_that_rounds(share in 30u64..400, template in 0u64..60, asked in 100u64..8_000) {
            let server = |n: u64| template + (n * share + 50) / 100;
            let fit = Fit::through(&counted(server)).expect("a line");
            let made = server(fit.gauge.words(asked));
            // half a word, the rounding of both sides, and what that does to the slope over these five lengths: at most
            // 0.5 * 742 / 152,000 tokens a word
            let allowed = share as f64 / 200.0 + 2.0 + 0.24 * asked as f64 / share as f64;
            prop_assert!((made as f64 - asked as f64).abs() <= allowed, "{asked} asked, {made} counted: {fit:?}");
        }

        #[test]
        fn no_gauge_makes_an_empty_prompt(overhead in -500.0..500.0, per_word in 0.2..20.0, tokens in 0u64..1_000) {
            let gauge = Gauge { overhead, per_word };
            prop_assert!(gauge.words(tokens) >= 1 && gauge.own(tokens) >= 1 && gauge.tokens_of(tokens) >= 1);
        }
    }
}
