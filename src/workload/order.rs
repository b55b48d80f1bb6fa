//! Order and chance: whole numbers below another, without bias, and the same on every machine.

use rand_core::Rng;
use rand_pcg::Pcg64;

/// Streams of the generator, one for each use; 3 belongs to the words of prompts, 4 to the order of two arms.
pub(super) const ORDER: u128 = 1;
/// Of lengths.
pub(super) const LENGTHS: u128 = 2;
/// Of the entries of a file.
pub(super) const ENTRIES: u128 = 21;
/// Of token ids.
pub(super) const IDS: u128 = 22;
/// Of the number of turns of sessions.
pub(super) const TURNS: u128 = 23;
/// Of the pauses between turns.
pub(super) const PAUSES: u128 = 24;

/// Fisher and Yates.
pub(super) fn shuffle<T>(items: &mut [T], rng: &mut Pcg64) {
    for i in (1..items.len()).rev() {
        items.swap(i, below(rng, i as u64 + 1) as usize);
    }
}

/// Uniform in `0..n`, by rejection.
pub(super) fn below(rng: &mut Pcg64, n: u64) -> u64 {
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

    #[test]
    fn every_order_comes_up_as_often() {
        let mut seen = std::collections::BTreeMap::new();
        let mut rng = Pcg64::new(7, ORDER);
        for _ in 0..6000 {
            let mut items = [0, 1, 2];
            shuffle(&mut items, &mut rng);
            *seen.entry(items).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 6);
        // 1,000 each, standard deviation 29
        assert!(seen.values().all(|n| (850..1150).contains(n)), "{seen:?}");
    }
}
