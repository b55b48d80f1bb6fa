//! Which prompts begin as earlier ones did: whole blocks of words, least recently used go first.
//!
//! As in vLLM a block is known by its own words and all words before it, only whole blocks count, and at least one
//! token of a prompt is always computed.

use super::timeline::splitmix64;
use std::collections::HashMap;

/// Words in a block.
pub(super) const BLOCK: usize = 16;
const NOBODY: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u64,
    older: u32,
    newer: u32,
}

/// A bounded set of blocks.
#[derive(Debug)]
pub(super) struct PrefixCache {
    limit: usize,
    places: HashMap<u64, u32>,
    entries: Vec<Entry>,
    oldest: u32,
    newest: u32,
}

impl PrefixCache {
    /// Holds at most `blocks`, at least 1.
    pub(super) fn new(blocks: u32) -> Self {
        PrefixCache {
            limit: blocks.max(1) as usize,
            places: HashMap::new(),
            entries: Vec::new(),
            oldest: NOBODY,
            newest: NOBODY,
        }
    }

    /// Tokens of the prompt that are known already; its blocks are known from now on. `words` are hashes of the
    /// prompt's words; prompts with different `salt` share nothing.
    pub(super) fn take_in(&mut self, salt: u64, words: &[u64]) -> u64 {
        let mut above = salt;
        let keys: Vec<u64> = words
            .chunks_exact(BLOCK)
            .map(|block| {
                above = block.iter().fold(above, |key, word| {
                    let mut state = key ^ word.rotate_left(17);
                    splitmix64(&mut state)
                });
                above
            })
            .collect();
        let usable = words.len().saturating_sub(1) / BLOCK;
        let known = keys[..usable].iter().take_while(|key| self.places.contains_key(key)).count();
        // the end of a prompt first: what is oldest goes first, and a beginning is of more use than an end
        keys.iter().take(self.limit).rev().for_each(|key| self.touch(*key));
        (known * BLOCK) as u64
    }

    fn touch(&mut self, key: u64) {
        let place = match self.places.get(&key).copied() {
            Some(place) => {
                self.unlink(place);
                place
            }
            None if self.entries.len() < self.limit => {
                self.entries.push(Entry { key, older: NOBODY, newer: NOBODY });
                self.entries.len() as u32 - 1
            }
            None => {
                let place = self.oldest;
                self.unlink(place);
                self.places.remove(&self.entries[place as usize].key);
                self.entries[place as usize].key = key;
                place
            }
        };
        self.places.insert(key, place);
        let entry = &mut self.entries[place as usize];
        (entry.older, entry.newer) = (self.newest, NOBODY);
        match self.newest {
            NOBODY => self.oldest = place,
            newest => self.entries[newest as usize].newer = place,
        }
        self.newest = place;
    }

    fn unlink(&mut self, place: u32) {
        let Entry { older, newer, .. } = self.entries[place as usize];
        match older {
            NOBODY => self.oldest = newer,
            older => self.entries[older as usize].newer = newer,
        }
        match newer {
            NOBODY => self.newest = older,
            newer => self.entries[newer as usize].older = older,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(from: u64, n: u64) -> Vec<u64> {
        (from..from + n).collect()
    }

    #[test]
    fn a_repeated_beginning_is_known_by_whole_blocks() {
        let mut cache = PrefixCache::new(100);
        assert_eq!(cache.take_in(0, &words(0, 40)), 0);
        assert_eq!(cache.take_in(0, &words(0, 40)), 32);
        assert_eq!(cache.take_in(0, &words(0, 32)), 16, "one token is always computed");
        assert_eq!(cache.take_in(0, &words(0, 33)), 32);
        assert_eq!(cache.take_in(1, &words(0, 40)), 0, "another model");
        let other_start: Vec<u64> = [vec![99], words(1, 39)].concat();
        assert_eq!(cache.take_in(0, &other_start), 0, "the same words after another beginning are other blocks");
        assert_eq!(cache.take_in(0, &[]), 0);
    }

    #[test]
    fn the_least_recently_used_end_goes_first() {
        let mut cache = PrefixCache::new(4);
        cache.take_in(0, &words(0, 48));
        cache.take_in(0, &words(1000, 32));
        // five blocks in four places: the third of the first prompt went
        assert_eq!(cache.take_in(0, &words(0, 49)), 32);
        assert_eq!(cache.take_in(0, &words(5000, 1600)), 0, "longer than the cache");
        assert_eq!(cache.take_in(0, &words(5000, 1600)), 64);
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_plain_list(prompts in proptest::collection::vec((0u64..4, 0u64..90), 1..60), limit in 1u32..12) {
            let mut cache = PrefixCache::new(limit);
            let mut plain: Vec<(u64, u64)> = Vec::new();
            for (salt, n) in prompts {
                let keys: Vec<(u64, u64)> = (0..n / BLOCK as u64).map(|block| (salt, block)).collect();
                let usable = (n.saturating_sub(1) / BLOCK as u64) as usize;
                let known = keys[..usable].iter().take_while(|key| plain.contains(key)).count();
                prop_assert_eq!(cache.take_in(salt, &words(0, n)), (known * BLOCK) as u64);
                for key in keys.iter().take(limit as usize).rev() {
                    plain.retain(|other| other != key);
                    plain.push(*key);
                }
                let over = plain.len().saturating_sub(limit as usize);
                plain.drain(..over);
                prop_assert_eq!(cache.places.len(), plain.len());
            }
        }
    }
}
