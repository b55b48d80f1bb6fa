//! When gaps of which length ended.

use super::slices::Cut;
use super::{GAP_ROWS, GapMap};
use crate::analysis::summary::packed::Values;

/// The shortest that the highest row reaches up to, in ns.
const LEAST_CEILING_NS: i64 = 1_000;
/// The lowest row lies at least this many times below the highest: gaps that are all alike are no wide landscape.
const LEAST_REACH: f64 = 4.0;

/// Gaps (gross) of a window on their way to the map.
#[derive(Default)]
pub(super) struct Gaps {
    /// Place of the slice in which each ended, and its length in ns, one after the other.
    ended: Values<i64>,
}

impl Gaps {
    pub(super) fn push(&mut self, slice: usize, ns: i64) {
        self.ended.extend([slice as i64, ns]);
    }

    /// The map over the slices of `cut`.
    pub(super) fn finish(self, cut: &Cut) -> GapMap {
        let Some(edges) = self.edges() else { return GapMap::default() };
        let mut columns = vec![vec![0; GAP_ROWS]; cut.slices()];
        let mut ended = self.ended.iter();
        while let Some((slice, ns)) = ended.next().zip(ended.next()) {
            // upper edges belong to the row below: the longest gap lies on the highest
            let row = edges[1..].partition_point(|edge| *edge < ns as f64).min(GAP_ROWS - 1);
            columns[slice as usize][row] += 1;
        }
        GapMap { floor_ms: edges[0] / 1e6, ceiling_ms: edges[GAP_ROWS] / 1e6, columns }
    }

    /// Edges of the rows in ns, ascending, from the floor to the ceiling.
    fn edges(&self) -> Option<[f64; GAP_ROWS + 1]> {
        let mut lengths: Vec<i64> = self.ended.iter().skip(1).step_by(2).collect();
        let longest = lengths.iter().copied().max()?;
        // one hundredth of all may lie below the floor, and is in the lowest row all the same: two reads that were
        // reaped together are no time apart, and no logarithm has a place for that
        let place = (lengths.len() - 1) / 100;
        let (_, low, _) = lengths.select_nth_unstable(place);
        let ceiling = longest.max(LEAST_CEILING_NS) as f64;
        let floor = (*low as f64).min(ceiling / LEAST_REACH).max(LEAST_CEILING_NS as f64 / LEAST_REACH);
        let step = root(ceiling / floor);
        let mut edges = [floor; GAP_ROWS + 1];
        (1..GAP_ROWS).for_each(|row| edges[row] = edges[row - 1] * step);
        edges[GAP_ROWS] = ceiling;
        Some(edges)
    }
}

/// The [`GAP_ROWS`]-th root of a number of 1 or more, by halving: products have the same bits everywhere, which
/// logarithms have not.
fn root(number: f64) -> f64 {
    let (mut low, mut high) = (1.0, number);
    loop {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            return low;
        }
        // stops once it is too large: the whole power need not be a number
        let mut power = 1.0;
        let too_large = (0..GAP_ROWS).any(|_| {
            power *= middle;
            power > number
        });
        if too_large { high = middle } else { low = middle }
    }
}
