//! What is asked of the server: lengths, prompts, order. Everything follows from one seed, so that two
//! windows, two hosts or two years ask the same.
//!
//! Random numbers come from PCG64 (`rand_pcg`'s `Pcg64`, a named generator whose values do not change).

pub mod gauge;
pub mod nonce;
pub mod prompt;
mod words;

use crate::trace::captured::Captured;
use rand_core::Rng;
use rand_pcg::Pcg64;
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::io;
use thiserror::Error;

/// The generator's name, as plans record it.
pub const GENERATOR: &str = "pcg64 (rand_pcg)";

/// Streams of the generator, one for each use.
const ORDER: u128 = 1;
const LENGTHS: u128 = 2;

/// A kind of request in a mix.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Class {
    /// Its name in records.
    pub name: String,
    /// Share of the requests, in parts of all parts.
    pub parts: u32,
    /// Prompt length in tokens, before scaling.
    pub prompt_tokens: u64,
    /// Output length in tokens, before scaling.
    pub output_tokens: u64,
}

/// Which lengths are asked for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum Lengths {
    /// Classes in exact shares: the seed's 70/20/10.
    SeedMix {
        /// The classes.
        classes: Vec<Class>,
    },
    /// Uniform within `L(1-r)..=L(1+r)`, prompt and output each.
    Random {
        /// Prompt tokens.
        input_len: u64,
        /// Output tokens.
        output_len: u64,
        /// r, 0 to 1.
        range_ratio: f64,
    },
    /// Those of captured traffic, one request after the other.
    Trace(Box<Captured>),
}

/// A workload, ready to be asked for any request of any window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Workload {
    /// Which lengths.
    #[serde(flatten)]
    pub lengths: Lengths,
    /// Multiplies every asked length.
    pub length_scale: f64,
    /// Of order, lengths and words.
    pub seed: u64,
    /// Replaces every output length.
    pub max_tokens: Option<u64>,
    /// See [`GENERATOR`].
    pub generator: &'static str,
}

/// What one request asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// Class name.
    pub class: String,
    /// Prompt length in tokens, at least 1.
    pub prompt_tokens: u64,
    /// Output length in tokens, at least 1.
    pub output_tokens: u64,
    /// Where its prompt comes from.
    pub content: Content,
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
    /// Not one of ours.
    #[error("unknown workload {0:?}: choose seed-mix or random")]
    Unknown(String),
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
}

impl Lengths {
    /// 70 % of 200 in, 100 out; 20 % of 1,000 in, 300 out; 10 % of 6,000 in, 600 out.
    pub fn seed_mix() -> Self {
        let class = |name: &str, parts, prompt_tokens, output_tokens| Class {
            name: name.to_owned(),
            parts,
            prompt_tokens,
            output_tokens,
        };
        let classes = vec![class("short", 7, 200, 100), class("medium", 2, 1000, 300), class("long", 1, 6000, 600)];
        Lengths::SeedMix { classes }
    }
}

impl Workload {
    /// A checked workload.
    ///
    /// # Errors
    /// [`BadWorkload::Range`].
    pub fn new(lengths: Lengths, length_scale: f64, seed: u64, max_tokens: Option<u64>) -> Result<Self, BadWorkload> {
        check_scale(length_scale, max_tokens)?;
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
        Ok(Workload { lengths, length_scale, seed, max_tokens, generator: GENERATOR })
    }

    /// What the requests of a window ask for, in order of trace id: `drop` warm-up requests, `kept` measured ones, and
    /// as many more as asked for.
    ///
    /// # Errors
    /// The file they come from cannot be read; each item as well.
    pub fn shapes(&self, drop: u64, kept: u64) -> io::Result<Box<dyn Iterator<Item = io::Result<Shape>> + '_>> {
        match &self.lengths {
            Lengths::Trace(captured) => Ok(Box::new(captured.shapes())),
            Lengths::SeedMix { .. } | Lengths::Random { .. } => Ok(Box::new(self.generated(drop, kept).map(Ok))),
        }
    }

    /// Shares are exact in each of the first two parts, and in every ten after them.
    fn generated(&self, drop: u64, kept: u64) -> Generated<'_> {
        let pcg = |stream| Pcg64::new(u128::from(self.seed), stream);
        let sizes = vec![kept, drop];
        Generated { workload: self, order: pcg(ORDER), lengths: pcg(LENGTHS), block: Vec::new(), sizes }
    }

    /// Names what a window asks for in a plan: the hash of every length, in order.
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
            hash.update(format!("{} {} {}\n", shape.class, shape.prompt_tokens, shape.output_tokens));
        }
        Ok(hex(&hash.finalize()))
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

    fn scaled(&self, tokens: u64) -> u64 {
        ((tokens as f64 * self.length_scale).round() as u64).max(1)
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

/// Shapes drawn from the seed, in order of trace id, without end.
struct Generated<'a> {
    workload: &'a Workload,
    order: Pcg64,
    lengths: Pcg64,
    /// Classes of the current part, last one next.
    block: Vec<usize>,
    /// Sizes of the parts to come, last one next; tens after them.
    sizes: Vec<u64>,
}

impl Iterator for Generated<'_> {
    type Item = Shape;

    fn next(&mut self) -> Option<Shape> {
        let shape = match &self.workload.lengths {
            Lengths::SeedMix { classes } => {
                while self.block.is_empty() {
                    let size = self.sizes.pop().unwrap_or(10);
                    self.block = quotas(classes, size);
                    shuffle(&mut self.block, &mut self.order);
                }
                let class = &classes[self.block.pop()?];
                Shape {
                    class: class.name.clone(),
                    prompt_tokens: self.workload.scaled(class.prompt_tokens),
                    output_tokens: self.workload.scaled(class.output_tokens),
                    content: Content::Words,
                }
            }
            // read, not drawn
            Lengths::Trace(_) => return None,
            Lengths::Random { input_len, output_len, range_ratio } => {
                let mut draw = |len: u64| {
                    let (lo, hi) = (len as f64 * (1.0 - range_ratio), len as f64 * (1.0 + range_ratio));
                    let (lo, hi) = (lo.ceil() as u64, hi.floor() as u64);
                    self.workload.scaled(lo + below(&mut self.lengths, hi - lo + 1))
                };
                Shape {
                    class: "random".to_owned(),
                    prompt_tokens: draw(*input_len),
                    output_tokens: draw(*output_len),
                    content: Content::Words,
                }
            }
        };
        Some(Shape { output_tokens: self.workload.max_tokens.unwrap_or(shape.output_tokens), ..shape })
    }
}

/// `size` class indexes in exact shares; what does not divide goes to the largest remainders.
fn quotas(classes: &[Class], size: u64) -> Vec<usize> {
    let parts: u64 = classes.iter().map(|c| u64::from(c.parts)).sum();
    let mut counts: Vec<u64> = classes.iter().map(|c| size * u64::from(c.parts) / parts).collect();
    let mut by_remainder: Vec<usize> = (0..classes.len()).collect();
    by_remainder.sort_by_key(|i| std::cmp::Reverse(size * u64::from(classes[*i].parts) % parts));
    let missing = size - counts.iter().sum::<u64>();
    by_remainder.iter().take(missing as usize).for_each(|i| counts[*i] += 1);
    counts.iter().enumerate().flat_map(|(i, n)| std::iter::repeat_n(i, *n as usize)).collect()
}

/// Fisher and Yates.
fn shuffle(items: &mut [usize], rng: &mut Pcg64) {
    for i in (1..items.len()).rev() {
        items.swap(i, below(rng, i as u64 + 1) as usize);
    }
}

/// Uniform in `0..n`, by rejection: no bias, and the same on every machine.
fn below(rng: &mut Pcg64, n: u64) -> u64 {
    assert!(n > 0, "nothing is below 0");
    let limit = u64::MAX - u64::MAX % n;
    loop {
        let x = rng.next_u64();
        if x < limit {
            return x % n;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn mix(scale: f64) -> Workload {
        Workload::new(Lengths::seed_mix(), scale, 7, None).expect("in range")
    }

    fn count(shapes: impl Iterator<Item = Shape>) -> BTreeMap<String, usize> {
        shapes.fold(BTreeMap::new(), |mut n, s| {
            *n.entry(s.class).or_default() += 1;
            n
        })
    }

    #[test]
    fn quotas_are_exact_in_warm_up_and_measured_part() {
        let w = mix(1.0);
        let all: Vec<Shape> = w.generated(10, 300).take(330).collect();
        let expect =
            |l, m, s| BTreeMap::from([("long".to_owned(), l), ("medium".to_owned(), m), ("short".to_owned(), s)]);
        assert_eq!(count(all[..10].iter().cloned()), expect(1, 2, 7));
        assert_eq!(count(all[10..310].iter().cloned()), expect(30, 60, 210));
        assert_eq!(count(all[310..320].iter().cloned()), expect(1, 2, 7));
    }

    #[test]
    fn lengths_scale_and_never_vanish() {
        let shapes: Vec<Shape> = mix(0.001).generated(0, 10).take(10).collect();
        assert!(shapes.iter().all(|s| s.prompt_tokens >= 1 && s.output_tokens >= 1));
        let tenth: Vec<Shape> = mix(0.1).generated(0, 10).take(10).collect();
        assert!(tenth.iter().any(|s| s.prompt_tokens == 600 && s.output_tokens == 60));
    }

    #[test]
    fn random_lengths_fill_their_range() {
        let lengths = Lengths::Random { input_len: 10, output_len: 4, range_ratio: 0.5 };
        let w = Workload::new(lengths, 1.0, 3, None).expect("in range");
        let seen: Vec<u64> = w.generated(0, 1).take(2000).map(|s| s.prompt_tokens).collect();
        assert_eq!((seen.iter().min(), seen.iter().max()), (Some(&5), Some(&15)));
        let capped = Workload { max_tokens: Some(9), ..w };
        assert!(capped.generated(0, 1).take(50).all(|s| s.output_tokens == 9));
    }

    #[test]
    fn the_order_is_pinned() {
        // a golden vector: this order is what seed 7 means, in every release
        let classes: String =
            mix(1.0).generated(10, 300).take(20).map(|s| s.class.chars().next().unwrap_or('?')).collect();
        assert_eq!(classes, GOLDEN_ORDER);
        assert_eq!(mix(1.0).trace_hash(10, 300).expect("no file"), mix(1.0).trace_hash(10, 300).expect("no file"));
        assert_ne!(mix(1.0).trace_hash(10, 300).expect("no file"), mix(0.1).trace_hash(10, 300).expect("no file"));
    }

    const GOLDEN_ORDER: &str = "msslsssmsssslmssssms";

    #[test]
    fn nonsense_is_refused_by_name() {
        let refused = |l, s| Workload::new(l, s, 7, None).expect_err("refused").to_string();
        assert!(refused(Lengths::seed_mix(), 0.0).starts_with("--length-scale"));
        assert!(refused(Lengths::seed_mix(), f64::NAN).starts_with("--length-scale"));
        let bad = Lengths::Random { input_len: 1, output_len: 1, range_ratio: 1.5 };
        assert!(refused(bad, 1.0).starts_with("--random-range-ratio"));
    }
}
