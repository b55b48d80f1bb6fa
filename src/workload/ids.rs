//! Prompts as token ids: their length is exact, whatever the vocabulary.

use super::order::{IDS, below};
use rand_pcg::Pcg64;
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// In which form prompts are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PromptForm {
    /// As text.
    #[default]
    Text,
    /// As token ids, each of this range.
    Ids(IdRange),
}

/// Token ids from one to another, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdRange {
    first: u32,
    last: u32,
}

/// Ids that are ordinary tokens in every usual vocabulary.
pub const DEFAULT_IDS: IdRange = IdRange { first: 1_000, last: 10_000 };
/// Fewest ids of a range: a nonce takes at most five of them.
const FEWEST: u64 = 256;
/// What a nonce tells apart.
const NONCE_BITS: u32 = 40;

impl IdRange {
    fn size(self) -> u64 {
        u64::from(self.last - self.first) + 1
    }

    /// Ids that a nonce takes.
    pub fn nonce_ids(self) -> u64 {
        let (mut told, mut ids) = (1_u64, 0);
        while told < 1 << NONCE_BITS {
            (told, ids) = (told.saturating_mul(self.size()), ids + 1);
        }
        ids
    }

    /// `number` (below 2^40) in ids.
    pub(super) fn nonce(self, number: u64) -> Vec<u32> {
        let digits = (0..self.nonce_ids()).scan(number, |rest, _| {
            let digit = (*rest % self.size()) as u32;
            *rest /= self.size();
            Some(self.first + digit)
        });
        digits.collect()
    }

    /// `count` ids, drawn for `seed` and `of`; more of them begin with fewer of them.
    pub(super) fn draw(self, seed: u64, of: u64, count: u64) -> impl Iterator<Item = u32> {
        let mut rng = Pcg64::new(u128::from(seed) << 64 | u128::from(of), IDS);
        (0..count).map(move |_| self.first + below(&mut rng, self.size()) as u32)
    }
}

impl FromStr for IdRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let (first, last) = text.split_once("..")?;
            let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            (first < last && last <= i32::MAX as u32).then_some(IdRange { first, last })
        };
        read().filter(|range| range.size() >= FEWEST).ok_or_else(|| text.to_owned())
    }
}

impl fmt::Display for IdRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.first, self.last)
    }
}

impl fmt::Display for PromptForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PromptForm::Text => f.write_str("text"),
            PromptForm::Ids(range) => write!(f, "ids:{range}"),
        }
    }
}

impl Serialize for PromptForm {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn ranges_are_read_and_refused() {
        assert_eq!("1000..10000".parse(), Ok(DEFAULT_IDS));
        assert_eq!((DEFAULT_IDS.size(), DEFAULT_IDS.nonce_ids()), (9001, 4));
        for bad in ["", "5", "9..3", "0..254", "1..9999999999", "a..b"] {
            assert!(bad.parse::<IdRange>().is_err(), "{bad}");
        }
        assert_eq!("0..255".parse::<IdRange>().map(IdRange::nonce_ids), Ok(5));
    }

    proptest! {
        #[test]
        fn nonces_are_told_apart_and_ids_stay_in_range(numbers in proptest::collection::hash_set(0_u64..1 << 40, 2..50), first in 0_u32..50_000, more in 255_u32..100_000) {
            let range: IdRange = format!("{first}..{}", first + more).parse().expect("a range");
            let nonces: HashSet<Vec<u32>> = numbers.iter().map(|n| range.nonce(*n)).collect();
            prop_assert_eq!(nonces.len(), numbers.len());
            let ids = nonces.into_iter().flatten().chain(range.draw(7, 3, 100));
            prop_assert!(ids.into_iter().all(|id| (first..=first + more).contains(&id)));
        }
    }
}
