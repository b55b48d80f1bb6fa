//! Two arms in turns: which of them goes first in each pair of adjacent windows. Everything follows from one seed, so
//! that the order is fixed before the first request.

use rand_core::Rng;
use rand_pcg::Pcg64;
use serde::Serialize;

/// Stream of the generator; those below 4 belong to the workload.
const STREAM: u128 = 4;

/// One of two campaigns that take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Arm {
    /// `--base-url`.
    A,
    /// `--interleave`.
    B,
}

impl Arm {
    /// Both, in order.
    pub const BOTH: [Arm; 2] = [Arm::A, Arm::B];

    /// Its name, which is also that of its directory.
    pub fn name(self) -> &'static str {
        match self {
            Arm::A => "a",
            Arm::B => "b",
        }
    }

    /// The other one's name.
    pub fn other(self) -> &'static str {
        match self {
            Arm::A => "b",
            Arm::B => "a",
        }
    }
}

/// How the order within a pair comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// ABBA.. or BAAB.., drawn for each load point: a drift that is even in time falls on both arms alike.
    Abba,
    /// Drawn for each pair: what the sign-flip test takes for granted.
    Pairs,
}

/// The order of all windows of two arms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// How it was drawn.
    pub order: Order,
    /// Of the draw.
    pub start_seed: u64,
    cells: usize,
    /// Whether B goes first, by window and load point.
    b_first: Vec<bool>,
}

impl Sequence {
    /// Draws the order of `windows` pairs at each of `cells` load points.
    pub fn draw(order: Order, seed: u64, cells: usize, windows: u32) -> Sequence {
        let mut rng = Pcg64::new(u128::from(seed), STREAM);
        let mut draws = || rng.next_u64() >> 63 == 1;
        let windows = windows as usize;
        let b_first = match order {
            Order::Abba => {
                let starts: Vec<bool> = (0..cells).map(|_| draws()).collect();
                (0..windows).flat_map(|w| starts.iter().map(move |start| *start ^ (w % 2 == 1))).collect()
            }
            Order::Pairs => (0..windows * cells).map(|_| draws()).collect(),
        };
        Sequence { order, start_seed: seed, cells, b_first }
    }

    /// The two arms in the order in which they run window `window` of load point `cell`.
    pub fn pair(&self, cell: usize, window: u32) -> [Arm; 2] {
        match self.b_first[window as usize * self.cells + cell] {
            true => [Arm::B, Arm::A],
            false => [Arm::A, Arm::B],
        }
    }

    /// One letter for each window of either arm, in order of time: a round of all load points after another.
    pub fn letters(&self) -> String {
        self.b_first.iter().map(|b_first| if *b_first { "BA" } else { "AB" }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn abba_balances_each_load_point_and_starts_by_chance() {
        let starts: HashSet<String> = (0..20)
            .map(|seed| {
                let drawn = Sequence::draw(Order::Abba, seed, 1, 4);
                let letters = drawn.letters();
                assert!(["ABBAABBA", "BAABBAAB"].contains(&letters.as_str()), "{letters}");
                assert_eq!(drawn, Sequence::draw(Order::Abba, seed, 1, 4), "the same seed, the same order");
                letters
            })
            .collect();
        assert_eq!(starts.len(), 2, "both starts come");
        // of several load points each has a start of its own, and each its ABBA
        let starts: HashSet<[bool; 3]> = (0..40)
            .map(|seed| {
                let drawn = Sequence::draw(Order::Abba, seed, 3, 2);
                for cell in 0..3 {
                    let [first, second] = [0, 1].map(|window| drawn.pair(cell, window));
                    assert_eq!(first, [second[1], second[0]], "load point {cell}");
                }
                [0, 1, 2].map(|cell| drawn.pair(cell, 0)[0] == Arm::B)
            })
            .collect();
        assert!(starts.len() > 4, "they are drawn apart: {starts:?}");
    }

    #[test]
    fn pairs_are_drawn_one_by_one() {
        let first = |seed| (0..64).map(move |w| Sequence::draw(Order::Pairs, seed, 1, 64).pair(0, w)[0] == Arm::B);
        let b_first = (0..8).flat_map(first).filter(|b| *b).count();
        assert!((200..312).contains(&b_first), "{b_first} of 512");
        let letters = Sequence::draw(Order::Pairs, 7, 2, 3).letters();
        assert_eq!(letters.len(), 12);
        assert!(letters.as_bytes().chunks(2).all(|pair| pair == b"AB" || pair == b"BA"), "{letters}");
        assert_ne!(letters, Sequence::draw(Order::Pairs, 8, 2, 3).letters());
    }

    #[test]
    fn letters_are_the_pairs_in_order_of_time() {
        let drawn = Sequence::draw(Order::Pairs, 3, 3, 5);
        let by_pairs: String = (0..5)
            .flat_map(|w| (0..3).map(move |c| (c, w)))
            .flat_map(|(cell, window)| drawn.pair(cell, window))
            .map(|arm| if arm == Arm::A { 'A' } else { 'B' })
            .collect();
        assert_eq!(drawn.letters(), by_pairs);
    }
}
