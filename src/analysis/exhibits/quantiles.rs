//! Distributions as curves over a percentile axis: more points the nearer to 100, as far as there are values.

use super::{Quantiles, Spread};
use crate::analysis::definitions::{Columns, millis};
use crate::analysis::percentiles::{EXACT, PUBLISHED, Part, bucket_middle, part_ms, percentile_ms};
use crate::analysis::summary::packed::Values as Packed;

/// Halvings of the distance to 100 that have four points.
const DENSE: u32 = 3;
/// Halvings that have points at all: enough for 10^7 values.
const HALVINGS: u32 = 24;

/// Values of a metric's columns, in ns.
#[derive(Default)]
pub(super) struct Values {
    gross: Packed<i64>,
    tare: Packed<i64>,
    net: Packed<i64>,
    due: Packed<i64>,
}

impl Values {
    pub(super) fn push(&mut self, columns: Columns<i64>) {
        self.gross.extend(columns.gross);
        self.tare.extend(columns.tare);
        self.net.extend(columns.net.map(|net| net.at));
        self.due.extend(columns.due);
    }

    pub(super) fn finish(self) -> Spread {
        // one after the other: unpacked, a column takes several times the room
        let of = |values: Packed<i64>| of(values.to_vec());
        Spread { gross: of(self.gross), tare: of(self.tare), net: of(self.net), due: of(self.due) }
    }
}

/// The curve of values in ns.
pub(super) fn of(mut values: Vec<i64>) -> Quantiles {
    values.sort_unstable();
    let ends = values.first().copied().zip(values.last().copied());
    if let Some((least, most)) = ends.filter(|_| values.len() > EXACT) {
        // as run.json counts them
        values.iter_mut().for_each(|ns| *ns = bucket_middle(*ns).clamp(least, most));
        (values[0], *values.last_mut().expect("not empty")) = (least, most);
    }
    let (Some(first), Some(last)) = (values.first(), values.last()) else { return Quantiles::default() };
    let mut points = vec![Point { percentile: 0.0, ms: millis(*first), published: false }];
    points.extend(between(&values));
    points.extend(PUBLISHED.iter().filter_map(|p| {
        let ms = percentile_ms(&values, *p)?;
        Some(Point { percentile: f64::from(p.per_mille) / 10.0, ms, published: true })
    }));
    points.push(Point { percentile: 100.0, ms: millis(*last), published: false });
    // p50 is both published and a halving: the published one stays
    points.sort_by(|a, b| a.percentile.total_cmp(&b.percentile).then(b.published.cmp(&a.published)));
    points.dedup_by(|later, earlier| later.percentile == earlier.percentile);
    ascending(&mut points);
    let points = points.into_iter().map(|point| (point.percentile, point.ms)).collect();
    Quantiles { n: values.len() as u64, points }
}

#[derive(Clone, Copy)]
struct Point {
    percentile: f64,
    ms: f64,
    published: bool,
}

/// Percentiles beside the published ones: each halving of the distance to 100 in equal parts, as long as as many values
/// as one lie beyond.
fn between(sorted: &[i64]) -> impl Iterator<Item = Point> + '_ {
    let parts = (0..HALVINGS).flat_map(|halving| {
        let parts = if halving < DENSE { 4 } else { 2 };
        (0..parts).map(move |part| Part { beyond: 2 * parts - part, of: u64::from(2 * parts) << halving })
    });
    let carried = move |part: &Part| u128::from(part.beyond) * sorted.len() as u128 >= u128::from(part.of);
    let inner = parts.filter(|part| u64::from(part.beyond) < part.of).take_while(carried);
    inner.filter_map(|part| {
        let percentile = 100.0 - 100.0 * f64::from(part.beyond) / part.of as f64;
        Some(Point { percentile, ms: part_ms(sorted, part)?, published: false })
    })
}

/// Interpolated in other fractions, a point can be the last bit of a large number off its neighbours: the published one
/// is right.
fn ascending(points: &mut [Point]) {
    for i in 1..points.len() {
        if !points[i].published {
            points[i].ms = points[i].ms.max(points[i - 1].ms);
        }
    }
    for i in (1..points.len()).rev() {
        if !points[i - 1].published {
            points[i - 1].ms = points[i - 1].ms.min(points[i].ms);
        }
    }
}
