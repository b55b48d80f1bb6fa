//! Prompt text: the nonce, then common English words, most of them one token in most vocabularies.
//! Lengths approximate tokens by words; what the server counted is in the record.

use super::words::WORDS;
use rand_core::Rng;
use rand_pcg::Pcg64;

/// The prompt of request `trace_id`: `words` words, the first of them `nonce`. Every window of a seed has
/// the same words after its own nonces.
pub fn text(seed: u64, trace_id: u64, nonce: &str, words: u64) -> String {
    let mut rng = Pcg64::new(u128::from(seed) << 64 | u128::from(trace_id), 3);
    let mut text = String::with_capacity(nonce.len() + words as usize * 6);
    text.push_str(nonce);
    let mut bits = 0u64;
    for i in 1..words {
        if i % 8 == 1 {
            bits = rng.next_u64();
        }
        text.push(' ');
        text.push_str(WORDS[(bits & 0xff) as usize]);
        bits >>= 8;
    }
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
