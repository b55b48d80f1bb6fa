//! The first word of every prompt, and of every turn's own message: different in every request of a run, so that no request
//! can hit the prefix another one left in the server's cache, and a key to the server's own log.

use sha2::{Digest, Sha256};

/// Letters and digits of RFC 4648 base 32: 5 bits each.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
/// 8 letters: 8 tokens at the very most, and 40 bits.
const LETTERS: u32 = 8;
const HALF_BITS: u32 = 20;
const HALF_MASK: u64 = (1 << HALF_BITS) - 1;
/// Requests of one window that can be told apart. The two numbers above it are those of the window itself.
pub const MAX_TRACE_ID: u64 = (1 << 24) - 3;
/// Windows of one run that can be told apart.
pub const MAX_WINDOWS: u64 = 1 << 16;

/// The nonces of a run: a permutation of 40 bits keyed by the run id, so no two requests share one.
#[derive(Clone, Debug)]
pub struct Nonces {
    round_keys: [u64; 4],
}

impl Nonces {
    /// The nonces of the run `run_id`.
    pub fn of_run(run_id: &str) -> Self {
        let digest = Sha256::digest(run_id.as_bytes());
        let key = |i: usize| digest[i * 8..i * 8 + 8].iter().fold(0u64, |k, b| k << 8 | u64::from(*b));
        Nonces { round_keys: [key(0), key(1), key(2), key(3)] }
    }

    /// Of all hosts that share one load by its seed.
    pub fn of_shards(seed: u64) -> Self {
        Nonces::of_run(&format!("shards of seed {seed}"))
    }

    /// The nonce of request `trace_id` of window number `serial` of the run (all cells counted together).
    ///
    /// # Panics
    /// Above [`MAX_TRACE_ID`] or [`MAX_WINDOWS`]: plans keep to them.
    pub fn nonce(&self, serial: u64, trace_id: u64) -> String {
        letters(self.number(serial, trace_id))
    }

    /// The same as a number below 2^40.
    ///
    /// # Panics
    /// As [`Nonces::nonce`].
    pub fn number(&self, serial: u64, trace_id: u64) -> u64 {
        assert!(serial < MAX_WINDOWS && trace_id <= MAX_TRACE_ID, "plans keep windows and requests within the nonce");
        self.permute(serial << 24 | trace_id)
    }

    /// What the prompts of a window have in common where they have something in common, as a number below 2^40: no
    /// request and no other window of the run has it, and the warm-up has one of its own.
    ///
    /// # Panics
    /// Above [`MAX_WINDOWS`].
    pub fn of_window(&self, serial: u64, warm_up: bool) -> u64 {
        assert!(serial < MAX_WINDOWS, "plans keep windows within the nonce");
        self.permute(serial << 24 | (MAX_TRACE_ID + 1 + u64::from(warm_up)))
    }

    /// A Feistel network of four rounds on two halves of 20 bits: one to one, whatever the round function.
    fn permute(&self, n: u64) -> u64 {
        let halves = (n >> HALF_BITS & HALF_MASK, n & HALF_MASK);
        let (left, right) = self.round_keys.iter().fold(halves, |(left, right), key| {
            let mixed = (right ^ key).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            (right, left ^ (mixed >> 40 & HALF_MASK))
        });
        left << HALF_BITS | right
    }
}

/// A number below 2^40 as a word.
pub(super) fn letters(number: u64) -> String {
    (0..LETTERS).rev().map(|i| char::from(ALPHABET[(number >> (5 * i)) as usize & 31])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_two_requests_of_a_run_share_one() {
        let nonces = Nonces::of_run("r1");
        let all: HashSet<String> =
            (0..8).flat_map(|w| (0..5_000).map(move |t| (w, t))).map(|(w, t)| nonces.nonce(w, t)).collect();
        assert_eq!(all.len(), 40_000);
        assert!(all.iter().all(|n| n.len() == 8 && n.bytes().all(|b| ALPHABET.contains(&b))));
    }

    #[test]
    fn windows_have_numbers_that_no_request_has() {
        let nonces = Nonces::of_run("r1");
        let windows = (0..50).flat_map(|serial| [false, true].map(|warm_up| nonces.of_window(serial, warm_up)));
        let requests = (0..50).flat_map(|serial| [0, 1, MAX_TRACE_ID].map(|id| nonces.number(serial, id)));
        assert_eq!(windows.chain(requests).collect::<HashSet<_>>().len(), 250);
    }

    #[test]
    fn runs_differ_and_first_letters_spread() {
        let (a, b) = (Nonces::of_run("r1"), Nonces::of_run("r2"));
        assert!((0..100).all(|t| a.nonce(0, t) != b.nonce(0, t)));
        let firsts: HashSet<char> = (0..300).filter_map(|t| a.nonce(0, t).chars().next()).collect();
        assert!(firsts.len() > 25, "prompts that begin alike would share a cache block: {firsts:?}");
    }
}
