//! Laws that lengths are drawn from, as they are typed: `in=512/300[16..4096],out=128/100`.

use super::BadWorkload;
use super::order::below;
use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64;
use serde::Serialize;

/// Longest length that can be asked for, in tokens.
pub const MAX_TOKENS: u64 = 10_000_000;

/// The kind of a law with a mean and a standard deviation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// Logarithms are normal.
    Lognormal,
    /// Lengths themselves are.
    Normal,
}

/// Lengths around a mean. What falls outside the bounds is drawn again.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Of the lengths, before the bounds; in tokens.
    pub mean: f64,
    /// Standard deviation of the lengths (not of their logarithms), before the bounds; in tokens.
    pub sd: f64,
    /// Least length, in tokens.
    pub at_least: u64,
    /// Greatest length, in tokens.
    pub at_most: u64,
}

/// Lengths between two, both included, each as likely as any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Between {
    /// Least length, in tokens.
    pub at_least: u64,
    /// Greatest length, in tokens.
    pub at_most: u64,
}

/// Draws by which a law is tried before it is used.
const TRIED: u64 = 10_000;
/// Of those, so many must lie inside the bounds: 1 %.
const ENOUGH: u64 = 100;

impl Spread {
    /// A length, and how many were drawn and fell outside before it.
    pub(super) fn draw(&self, law: Law, rng: &mut Pcg64) -> (u64, u64) {
        let mut outside = 0;
        loop {
            match self.inside(law, rng) {
                Some(tokens) => return (tokens, outside),
                None => outside += 1,
            }
        }
    }

    fn inside(&self, law: Law, rng: &mut Pcg64) -> Option<u64> {
        let z: f64 = StandardNormal.sample(rng);
        let length = match law {
            Law::Normal => self.mean + self.sd * z,
            Law::Lognormal => {
                let variance_of_log = (1.0 + (self.sd / self.mean).powi(2)).ln();
                (self.mean.ln() - variance_of_log / 2.0 + variance_of_log.sqrt() * z).exp()
            }
        };
        let tokens = length.round();
        (tokens >= self.at_least as f64 && tokens <= self.at_most as f64).then_some(tokens as u64)
    }

    /// Whether the bounds leave enough of the law to draw from.
    fn is_hopeful(&self, law: Law) -> bool {
        let mut rng = Pcg64::new(1, 1);
        (0..TRIED).filter(|_| self.inside(law, &mut rng).is_some()).count() as u64 >= ENOUGH
    }
}

impl Between {
    /// A length.
    pub(super) fn draw(&self, rng: &mut Pcg64) -> u64 {
        self.at_least + below(rng, self.at_most - self.at_least + 1)
    }
}

/// `in=A,out=B`, each side in the words of its law.
fn sides(text: &str) -> Result<(&str, &str), String> {
    let (mut input, mut output) = (None, None);
    for part in text.split(',') {
        let place = match part.trim().split_once('=') {
            Some(("in", value)) => (&mut input, value),
            Some(("out", value)) => (&mut output, value),
            _ => return Err(format!("{part:?} is neither in=.. nor out=..")),
        };
        if place.0.replace(place.1).is_some() {
            return Err(format!("{part:?} is the second of its kind"));
        }
    }
    match (input, output) {
        (Some(input), Some(output)) => Ok((input, output)),
        (None, _) => Err("in=.. is missing".to_owned()),
        (_, None) => Err("out=.. is missing".to_owned()),
    }
}

/// `16..4096`.
fn between(text: &str) -> Result<Between, String> {
    let tokens = |text: &str| {
        let number = text.trim().parse::<u64>().ok().filter(|n| (1..=MAX_TOKENS).contains(n));
        number.ok_or_else(|| format!("{text:?} is no number of tokens from 1 to 10,000,000"))
    };
    let (at_least, at_most) = match text.split_once("..") {
        Some((low, high)) => (tokens(low)?, tokens(high)?),
        None => (tokens(text)?, tokens(text)?),
    };
    if at_least > at_most {
        return Err(format!("{text:?} ends below its beginning"));
    }
    Ok(Between { at_least, at_most })
}

/// `512/300`, `512`, `512/300[16..4096]`.
fn spread(text: &str, law: Law) -> Result<Spread, String> {
    let (figures, bounds) = match text.split_once('[') {
        None => (text, Between { at_least: 1, at_most: MAX_TOKENS }),
        Some((figures, rest)) => match rest.strip_suffix(']') {
            Some(inner) if inner.contains("..") => (figures, between(inner)?),
            _ => return Err(format!("the bounds of {text:?} are not of the form [16..4096]")),
        },
    };
    let number = |text: &str| {
        let number = text.trim().parse::<f64>().ok().filter(|x| x.is_finite());
        number.ok_or_else(|| format!("{text:?} is no number"))
    };
    let (mean, sd) = match figures.split_once('/') {
        Some((mean, sd)) => (number(mean)?, number(sd)?),
        None => (number(figures)?, 0.0),
    };
    if !(1.0..=MAX_TOKENS as f64).contains(&mean) {
        return Err(format!("the mean must be from 1 to 10,000,000 tokens, not {mean}"));
    }
    if !(0.0..=MAX_TOKENS as f64).contains(&sd) {
        return Err(format!("the standard deviation must be from 0 to 10,000,000 tokens, not {sd}"));
    }
    let spread = Spread { mean, sd, at_least: bounds.at_least, at_most: bounds.at_most };
    match spread.is_hopeful(law) {
        true => Ok(spread),
        false => Err(format!("fewer than 1 % of the lengths of {text:?} lie inside its bounds; widen them")),
    }
}

/// The two sides of a law with mean and standard deviation, from what stands after its name.
///
/// # Errors
/// [`BadWorkload::Form`].
pub fn spreads(given: &str, text: &str, law: Law) -> Result<(Spread, Spread), BadWorkload> {
    let read = || {
        let (input, output) = sides(text)?;
        Ok((spread(input, law)?, spread(output, law)?))
    };
    read().map_err(|text| BadWorkload::Form {
        given: given.to_owned(),
        text,
        example: "lognormal:in=512/300[16..4096],out=128/100 (mean/standard deviation in tokens)",
    })
}

/// The two sides of a uniform law.
///
/// # Errors
/// [`BadWorkload::Form`].
pub fn betweens(given: &str, text: &str) -> Result<(Between, Between), BadWorkload> {
    let read = || {
        let (input, output) = sides(text)?;
        Ok((between(input)?, between(output)?))
    };
    let example = "uniform:in=16..1024,out=1..256";
    read().map_err(|text| BadWorkload::Form { given: given.to_owned(), text, example })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn moments(draws: &[f64]) -> (f64, f64) {
        let n = draws.len() as f64;
        let mean = draws.iter().sum::<f64>() / n;
        (mean, (draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt())
    }

    /// Kurtosis of the law: how uncertain a sample's standard deviation is.
    fn kurtosis(law: Law, spread: Spread) -> f64 {
        let v = (1.0 + (spread.sd / spread.mean).powi(2)).ln();
        match law {
            Law::Normal => 3.0,
            Law::Lognormal => (4.0 * v).exp() + 2.0 * (3.0 * v).exp() + 3.0 * (2.0 * v).exp() - 3.0,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn drawn_lengths_have_the_asked_mean_and_deviation(
            mean in 100.0_f64..5000.0, cv in 0.05_f64..0.6, seed: u64, is_log: bool
        ) {
            // a normal law so wide is cut at 1: that is another test's matter
            let (law, cv) = if is_log { (Law::Lognormal, cv) } else { (Law::Normal, cv.min(0.15)) };
            let spread = Spread { mean, sd: mean * cv, at_least: 1, at_most: MAX_TOKENS };
            let mut rng = Pcg64::new(u128::from(seed), 2);
            const N: usize = 20_000;
            let draws: Vec<f64> = (0..N).map(|_| spread.draw(law, &mut rng).0 as f64).collect();
            let (found, deviation) = moments(&draws);
            let n = N as f64;
            // rounding adds 1/12 to the variance
            let sd = (spread.sd.powi(2) + 1.0 / 12.0).sqrt();
            let errors = (sd / n.sqrt(), sd * ((kurtosis(law, spread) - 1.0) / (4.0 * n)).sqrt());
            prop_assert!((found - mean).abs() < 5.0 * errors.0, "mean {found} of {mean}");
            prop_assert!((deviation - sd).abs() < 5.0 * errors.1, "standard deviation {deviation} of {sd}");
        }

        #[test]
        fn what_is_drawn_lies_inside(low in 1_u64..600, width in 0_u64..400, seed: u64) {
            let text = format!("500/300[{low}..{}]", low + width);
            if let Ok(spread) = spread(&text, Law::Lognormal) {
                let mut rng = Pcg64::new(u128::from(seed), 2);
                for _ in 0..50 {
                    let (tokens, _) = spread.draw(Law::Lognormal, &mut rng);
                    prop_assert!((low..=low + width).contains(&tokens));
                }
            }
        }

        #[test]
        fn no_words_are_too_strange(text in "[a-z0-9=/,.\\[\\]-]{0,40}") {
            let _ = spreads("x", &text, Law::Normal);
            let _ = betweens("x", &text);
        }

        #[test]
        fn words_come_back(mean in 1_u64..100_000, sd in 0_u64..1000, low in 1_u64..100, width in 1_u64..1_000_000) {
            let low = low.min(mean);
            let text = format!("in={mean}/{sd}[{low}..{}],out={low}", mean + width);
            let (input, output) = spreads("x", &text, Law::Normal).expect("good words");
            prop_assert_eq!((input.mean, input.sd), (mean as f64, sd as f64));
            prop_assert_eq!((input.at_least, input.at_most), (low, mean + width));
            prop_assert_eq!((output.mean, output.sd), (low as f64, 0.0));
        }
    }

    #[test]
    fn a_law_is_pinned() {
        // golden vectors: what a seed means, in every release
        let mut rng = Pcg64::new(7, 2);
        let spread = Spread { mean: 512.0, sd: 300.0, at_least: 1, at_most: MAX_TOKENS };
        let draws: Vec<u64> = (0..8).map(|_| spread.draw(Law::Lognormal, &mut rng).0).collect();
        assert_eq!(draws, GOLDEN_LOGNORMAL);
        let mut rng = Pcg64::new(7, 2);
        let draws: Vec<u64> = (0..8).map(|_| spread.draw(Law::Normal, &mut rng).0).collect();
        assert_eq!(draws, GOLDEN_NORMAL);
        let mut rng = Pcg64::new(7, 2);
        let between = Between { at_least: 16, at_most: 1024 };
        let draws: Vec<u64> = (0..8).map(|_| between.draw(&mut rng)).collect();
        assert_eq!(draws, GOLDEN_UNIFORM);
    }

    const GOLDEN_LOGNORMAL: [u64; 8] = [244, 155, 547, 110, 1066, 474, 1173, 151];
    const GOLDEN_NORMAL: [u64; 8] = [185, 630, 998, 550, 1051, 623, 698, 1053];
    const GOLDEN_UNIFORM: [u64; 8] = [915, 70, 745, 354, 386, 153, 780, 113];

    #[test]
    fn bad_words_say_what_is_wrong() {
        let said = |text: &str| spreads("lognormal", text, Law::Lognormal).expect_err("refused").to_string();
        assert!(said("in=512/300").contains("out=.. is missing"), "{}", said("in=512/300"));
        assert!(said("in=512/300,out=x").contains("\"x\" is no number"));
        assert!(said("in=0/300,out=1").contains("the mean must be"));
        assert!(said("in=5/-1,out=1").contains("the standard deviation"));
        assert!(said("in=5/1,in=5/1,out=1").contains("second of its kind"));
        assert!(said("in=512/30[9000..9001],out=1").contains("fewer than 1 %"));
        assert!(said("in=512/30[9,out=1").contains("form [16..4096]"));
        let uniform = |text: &str| betweens("uniform", text).expect_err("refused").to_string();
        assert!(uniform("in=9..3,out=1").contains("ends below"));
        assert!(uniform("in=0..3,out=1").contains("from 1 to 10,000,000"));
    }
}
