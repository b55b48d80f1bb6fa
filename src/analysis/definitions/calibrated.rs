//! What may be said of a latency whose tare was not measured with it but only its law, on another day.
//!
//! Let M = S + C: measured, server's, client's. Means subtract, always. Percentiles do not: the bounds of Makarov
//! (1981) and of Frank, Nelsen and Schweizer (1987) hold for any dependence of S and C, and nothing narrower does
//! without knowing it:
//!
//! `max_d [q_M(p - d) - q_C(1 - d)] <= q_S(p) <= min_d [q_M(p + d) - q_C(d)]`, with `d = 0` in the second giving
//! `q_M(p) - min C`.
//!
//! The law of C is known at the points of a table only, and as percentiles of a sample of n values by linear
//! interpolation. `d` runs over these points, so nothing is interpolated here; each inner point may be off by one
//! value of that sample, which is taken off it (1/n). The bounds hold for the interpolated percentile of S that is
//! printed elsewhere.

/// Percentile of a table of `(p, value)`, ascending, by linear interpolation; None outside it.
pub fn quantile(table: &[(f64, f64)], p: f64) -> Option<f64> {
    let above = table.iter().position(|(q, _)| *q >= p)?;
    let (q, value) = table[above];
    match above.checked_sub(1) {
        _ if q == p => Some(value),
        None => None,
        Some(below) => {
            let (q0, value0) = table[below];
            Some(value0 + (value - value0) * ((p - q0) / (q - q0)))
        }
    }
}

/// Bounds of a percentile of S in the unit of the values. `measured` is sorted; `table` is that of C with its `n`, in
/// the same unit, and must reach from 0 to 1; `p` is in thousandths.
pub fn bounds(measured: &[i64], table: &[(f64, f64)], n: u64, per_mille: u32) -> Option<(f64, f64)> {
    if measured.is_empty() || n == 0 || table.first()?.0 > 0.0 || table.last()?.0 < 1.0 {
        return None;
    }
    let count = measured.len() as f64;
    // the interpolated percentile lies between these two, counted from 1
    let position = (measured.len() as u64 - 1) * u64::from(per_mille);
    let lower = (position / 1000 + 1) as f64;
    let upper = lower + f64::from(u8::from(!position.is_multiple_of(1000)));
    let slack = 1.0 / n as f64;
    let ranked = |rank: f64| measured.get((rank as usize).checked_sub(1)?).map(|v| *v as f64);
    let (mut lo, mut hi) = (f64::NEG_INFINITY, f64::INFINITY);
    for &(q, value) in table {
        // rounding of the products must not win a rank
        let d = if q > 0.0 { q + slack } else { 0.0 };
        if let Some(m) = ranked(upper + (count * d - 1e-9).ceil().max(0.0)) {
            hi = hi.min(m - value);
        }
        let d = if q < 1.0 { 1.0 - q + slack } else { 0.0 };
        let rank = (lower - count * d - 1e-9).ceil();
        if let Some(m) = (rank >= 1.0).then(|| ranked(rank)).flatten() {
            lo = lo.max(m - value);
        }
    }
    (lo.is_finite() && hi.is_finite()).then_some((lo, hi))
}

/// Standard error of `mean(M) - mean(C)`, in the unit of the values. `sd` and `n` are of M; the spread of C is not in
/// its table, so the largest that fits the table is taken.
pub fn standard_error(sd: f64, n: u64, table: &[(f64, f64)], mean: f64, calibrated_n: u64) -> Option<f64> {
    let share = |sum: f64, n: u64| (n > 0).then(|| sum / n as f64);
    Some((share(sd * sd, n)? + share(largest_variance(table, mean), calibrated_n)?).sqrt())
}

/// No sample with these percentiles and this mean varies more.
fn largest_variance(table: &[(f64, f64)], mean: f64) -> f64 {
    let apart = |value: f64| (value - mean) * (value - mean);
    table.windows(2).map(|pair| (pair[1].0 - pair[0].0) * apart(pair[0].1).max(apart(pair[1].1))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::percentiles::{Percentile, percentile_ms};
    use proptest::prelude::*;

    const POINTS: [f64; 9] = [0.0, 0.01, 0.1, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0];

    fn type7(sorted: &[i64], p: f64) -> f64 {
        let h = (sorted.len() - 1) as f64 * p;
        let (a, b) = (sorted[h.floor() as usize] as f64, sorted[h.ceil() as usize] as f64);
        a + (b - a) * (h - h.floor())
    }

    fn table(sorted: &[i64]) -> Vec<(f64, f64)> {
        POINTS.iter().map(|p| (*p, type7(sorted, *p))).collect()
    }

    #[test]
    fn a_table_is_read_between_its_points() {
        let table = [(0.0, 1.0), (0.5, 3.0), (1.0, 13.0)];
        let read = [0.0, 0.25, 0.5, 0.75, 1.0].map(|p| quantile(&table, p));
        assert_eq!(read, [Some(1.0), Some(2.0), Some(3.0), Some(8.0), Some(13.0)]);
        assert_eq!((quantile(&table[1..], 0.2), quantile(&table[..2], 0.7)), (None, None));
    }

    #[test]
    fn a_constant_client_is_taken_off_exactly() {
        let measured: Vec<i64> = (1..=100).map(|i| i * 1000 + 7).collect();
        let constant = [(0.0, 7.0), (0.5, 7.0), (1.0, 7.0)];
        // p50 of 100 values lies between the 50th and the 51st
        assert_eq!(bounds(&measured, &constant, 1000, 500), Some((50_000.0, 51_000.0)));
        assert_eq!(bounds(&measured, &constant[1..], 1000, 500), None, "no smallest value, no bound");
        assert_eq!(bounds(&[], &constant, 1000, 500), None);
    }

    #[test]
    fn a_rare_stall_of_the_client_leaves_the_tail_wide_open() {
        // one in a hundred measured values has 40 ms of the client's in it
        let mut measured: Vec<i64> = (0..10_000).map(|i| 5_000 + if i % 100 == 0 { 40_000 } else { 20 }).collect();
        let mut client: Vec<i64> = (0..10_000).map(|i| if i % 100 == 0 { 40_000 } else { 20 }).collect();
        measured.sort_unstable();
        client.sort_unstable();
        let (lo, hi) = bounds(&measured, &table(&client), 10_000, 999).unwrap();
        assert!(lo <= 5_000.0 && hi >= 44_000.0, "{lo}..{hi}");
        // far from the stall they are tight
        let (lo, hi) = bounds(&measured, &table(&client), 10_000, 500).unwrap();
        assert!(lo >= 4_900.0 && hi <= 5_001.0, "{lo}..{hi}");
    }

    #[test]
    fn a_standard_error_is_not_too_small() {
        let client: Vec<i64> = (0..=1000).map(|i| i * i / 50).collect();
        let mean = client.iter().sum::<i64>() as f64 / client.len() as f64;
        let variance = client.iter().map(|c| (*c as f64 - mean).powi(2)).sum::<f64>() / client.len() as f64;
        assert!(largest_variance(&table(&client), mean) >= variance);
        let error = standard_error(300.0, 100, &table(&client), mean, 1001).unwrap();
        assert!(
            error >= (900.0 + variance / 1001.0).sqrt() && error < 2.0 * (900.0 + variance / 1001.0).sqrt(),
            "{error}"
        );
        assert_eq!(standard_error(300.0, 0, &table(&client), mean, 1001), None);
    }

    proptest! {
        /// Whatever the coupling: rows of S and C are paired as they were drawn, sorted alike, against each other, and
        /// with a stall moved onto the slowest.
        #[test]
        fn the_bounds_hold_for_any_coupling(
            pairs in prop::collection::vec((0_i64..100_000, 0_i64..30_000), 1..250),
            coupling in 0_usize..4,
            per_mille in prop::sample::select(vec![0_u32, 10, 500, 900, 950, 990, 999, 1000]),
        ) {
            let (mut server, mut client): (Vec<i64>, Vec<i64>) = pairs.into_iter().unzip();
            match coupling {
                1 => { server.sort_unstable(); client.sort_unstable(); }
                2 => { server.sort_unstable(); client.sort_unstable_by(|a, b| b.cmp(a)); }
                3 => { server.sort_unstable(); let last = client.len() - 1; client[last] += 200_000; }
                _ => {}
            }
            let mut measured: Vec<i64> = server.iter().zip(&client).map(|(s, c)| s + c).collect();
            measured.sort_unstable();
            server.sort_unstable();
            client.sort_unstable();
            let truth = percentile_ms(&server, Percentile { name: "", per_mille, smallest_n: 1 }).unwrap() * 1e6;
            let (lo, hi) = bounds(&measured, &table(&client), client.len() as u64, per_mille).unwrap();
            prop_assert!(lo <= truth + 1e-6 && truth <= hi + 1e-6, "{lo} <= {truth} <= {hi}");
        }
    }
}
