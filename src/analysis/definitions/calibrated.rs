//! What may be said of a latency whose tare was not measured with it but only its law, on another day.
//!
//! Let M = S + C: measured, server's, client's. Means subtract, always. Percentiles do not: the bounds of Makarov
//! (1981) and of Frank, Nelsen and Schweizer (1987) hold for any dependence of S and C, and nothing narrower does
//! without knowing it:
//!
//! `max_d [q_M(p - d) - q_C(1 - d)] <= q_S(p) <= min_d [q_M(p + d) - q_C(d)]`, with `d = 0` in the second giving
//! `q_M(p) - min C`.
//!
//! C is known at the event rates of the calibration's steps only. Between two of them, the one below and the one at or
//! above, nothing is known exactly. What is assumed is that the law lies between theirs: the bounds are made of the
//! envelope of both (at each quantile the smaller value and the larger), and so hold for either; the mean taken off is
//! the middle of theirs, and its error contains half their difference beside the standard error. Outside the calibrated
//! range nothing is taken off.
//!
//! The law of C is known at the points of a table only, and as percentiles of a sample of n values by linear
//! interpolation. `d` runs over these points, so nothing is interpolated here; each inner point may be off by one
//! value of that sample, which is taken off it (1/n). The bounds hold for the interpolated percentile of S that is
//! printed elsewhere.

use serde::Deserialize;
use serde_json::Value;

/// The law of the tare of ttft at one event rate. An array of them, by event rate, is `calibration.tare` of a plan.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Law {
    /// Token events per s.
    pub events_per_s: f64,
    /// Values behind it.
    pub n: u64,
    /// Mean, us.
    pub mean_us: f64,
    /// `(q, us)`, ascending; q from 0 to 1.
    pub quantiles_us: Vec<(f64, f64)>,
}

/// No rate, and no limit, is larger.
const LARGEST: f64 = 1e15;
/// No time is longer, us: eleven days.
const LONGEST_US: f64 = 1e12;
/// Sums of ns are rounded before they are us: a mean may be so much, us, and so large a share of itself, off its table.
const ROUNDING_US: f64 = 1e-3;
const ROUNDING: f64 = 1e-9;

impl Law {
    /// Why it can be no law of a sample; None when it can.
    pub fn fault(&self) -> Option<&'static str> {
        let within = |us: f64| us.abs() <= LONGEST_US;
        let table = &self.quantiles_us;
        let (Some(first), Some(last)) = (table.first(), table.last()) else { return Some("it has no quantiles") };
        let slack = ROUNDING_US + ROUNDING * self.mean_us.abs();
        match () {
            () if !(0.0..=LARGEST).contains(&self.events_per_s) => Some("its event rate is none"),
            () if self.n == 0 => Some("it is made of no values"),
            () if !table.iter().all(|(q, us)| (0.0..=1.0).contains(q) && within(*us)) => {
                Some("a quantile of it is none")
            }
            () if !table.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1) => {
                Some("its quantiles do not ascend")
            }
            () if !(first.1 - slack..=last.1 + slack).contains(&self.mean_us) => {
                Some("its mean lies outside its own values")
            }
            () => None,
        }
    }
}

/// The loads that a calibration has limits for, by their names in `calibration.limits` of a plan.
pub const LIMITS: [&str; 4] = ["requests_per_s", "events_per_s", "streams", "burst"];

/// Why `calibration` of a plan, which claims to match, cannot be used; None when it can. A limit is null, or 0 or more
/// and no fraction below 1; the laws ascend by event rate.
pub fn fault(calibration: &Value) -> Option<String> {
    if !matches!(calibration.get("placement"), None | Some(Value::Null | Value::String(_))) {
        return Some("its placement is none".into());
    }
    if !matches!(calibration.get("limits"), None | Some(Value::Object(_))) {
        return Some("its limits cannot be read".into());
    }
    for name in LIMITS {
        let limit = &calibration["limits"][name];
        let value = limit["value"].as_f64().is_some_and(|v| v == 0.0 || (1.0..=LARGEST).contains(&v));
        let known = value && limit["at_least"].is_boolean();
        if !(known || limit.is_null()) {
            return Some(format!("its limit of {name} is none"));
        }
    }
    let tare = &calibration["tare"];
    let named = tare.as_array().is_none_or(|laws| laws.iter().all(Value::is_object));
    let Some(Ok(laws)) = named.then(|| Option::<Vec<Law>>::deserialize(tare)) else {
        return Some("its table of the tare cannot be read".into());
    };
    let laws = laws.unwrap_or_default();
    if let Some((at, fault)) = laws.iter().enumerate().find_map(|(at, law)| Some((at, law.fault()?))) {
        return Some(format!("step {at} of its table of the tare is no law: {fault}"));
    }
    let ascend = laws.windows(2).all(|pair| pair[0].events_per_s <= pair[1].events_per_s);
    (!ascend).then(|| "its table of the tare does not ascend by event rate".into())
}

/// At each quantile that two tables have: `(q, smaller, larger)`.
pub fn envelope(a: &[(f64, f64)], b: &[(f64, f64)]) -> Vec<(f64, f64, f64)> {
    let both = |(q, x): &(f64, f64)| {
        let (_, y) = b.iter().find(|(other, _)| other == q)?;
        Some((*q, x.min(*y), x.max(*y)))
    };
    a.iter().filter_map(both).collect()
}

/// What is taken off a mean between two calibrated steps, and how far the steps disagree with that: the middle of their
/// means, and half their difference.
pub fn mean_between(below: f64, above: f64) -> (f64, f64) {
    (below + (above - below) / 2.0, (above - below).abs() / 2.0)
}

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

/// Bounds of a percentile of S in the unit of the values. `measured` is sorted; `table` is the envelope of what C can
/// be, of at least `n` values, in the same unit, and must reach from 0 to 1; `p` is in thousandths.
pub fn bounds(measured: &[i64], table: &[(f64, f64, f64)], n: u64, per_mille: u32) -> Option<(f64, f64)> {
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
    for &(q, smaller, larger) in table {
        // rounding of the products must not win a rank
        let d = if q > 0.0 { q + slack } else { 0.0 };
        if let Some(m) = ranked(upper + (count * d - 1e-9).ceil().max(0.0)) {
            hi = hi.min(m - smaller);
        }
        let d = if q < 1.0 { 1.0 - q + slack } else { 0.0 };
        let rank = (lower - count * d - 1e-9).ceil();
        if let Some(m) = (rank >= 1.0).then(|| ranked(rank)).flatten() {
            lo = lo.max(m - larger);
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

    fn exact(sorted: &[i64]) -> Vec<(f64, f64, f64)> {
        envelope(&table(sorted), &table(sorted))
    }

    fn law(change: impl Fn(&mut Law)) -> Option<&'static str> {
        let mut law =
            Law { events_per_s: 10.0, n: 5, mean_us: 2.0, quantiles_us: vec![(0.0, 1.0), (0.5, 2.0), (1.0, 3.0)] };
        change(&mut law);
        law.fault()
    }

    #[test]
    fn what_can_be_no_law_is_named() {
        assert_eq!(law(|_| ()), None);
        assert_eq!(law(|l| l.n = 0), Some("it is made of no values"));
        assert_eq!(law(|l| l.quantiles_us.clear()), Some("it has no quantiles"));
        assert_eq!(law(|l| l.events_per_s = f64::INFINITY), Some("its event rate is none"));
        assert_eq!(law(|l| l.quantiles_us[2].1 = 1e300), Some("a quantile of it is none"));
        assert_eq!(law(|l| l.quantiles_us[1].1 = f64::NAN), Some("a quantile of it is none"));
        assert_eq!(law(|l| l.quantiles_us[1].1 = 0.5), Some("its quantiles do not ascend"));
        assert_eq!(law(|l| l.quantiles_us[1].0 = 0.0), Some("its quantiles do not ascend"));
        assert_eq!(law(|l| l.mean_us = 3.1), Some("its mean lies outside its own values"));
        assert_eq!(law(|l| l.mean_us = f64::NAN), Some("its mean lies outside its own values"));
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let good = crate::analysis::specimen::calibration();
        assert_eq!(fault(&good), None);
        let with = |path: &str, value: Value| {
            let mut changed = good.clone();
            *changed.pointer_mut(path).unwrap() = value;
            fault(&changed)
        };
        for value in [(-1.0).into(), 1e300.into(), 5e-324.into(), "7".into(), Value::Null] {
            assert_eq!(with("/limits/streams/value", value).as_deref(), Some("its limit of streams is none"));
        }
        assert_eq!(with("/limits/streams/value", 0.into()), None, "nothing was good: that is a limit");
        assert_eq!(with("/limits", Value::Array(Vec::new())).as_deref(), Some("its limits cannot be read"));
        assert_eq!(with("/placement", 7.into()).as_deref(), Some("its placement is none"));
        let in_order = serde_json::json!([1.0, 5, 2.0, [[0.0, 2.0]]]);
        assert!(with("/tare/0", in_order).unwrap().contains("cannot be read"), "no names, no law");
        assert!(with("/tare", 7.into()).unwrap().contains("cannot be read"));
        assert!(with("/tare/0/n", (-1).into()).unwrap().contains("cannot be read"));
        assert!(with("/tare/1/mean_us", 1e9.into()).unwrap().contains("step 1"));
        assert!(with("/tare/0/events_per_s", 20_000.into()).unwrap().contains("ascend by event rate"));
        assert_eq!(with("/tare", Value::Null), None);
    }

    #[test]
    fn between_two_steps_neither_is_believed_alone() {
        assert_eq!(mean_between(20.0, 100.0), (60.0, 40.0));
        assert_eq!(mean_between(100.0, 20.0), (60.0, 40.0));
        let (a, b) = ([(0.0, 1.0), (0.5, 9.0), (1.0, 9.0)], [(0.0, 2.0), (0.9, 3.0), (1.0, 5.0)]);
        assert_eq!(envelope(&a, &b), [(0.0, 1.0, 2.0), (1.0, 5.0, 9.0)]);
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
        let constant = [(0.0, 7.0, 7.0), (0.5, 7.0, 7.0), (1.0, 7.0, 7.0)];
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
        let (lo, hi) = bounds(&measured, &exact(&client), 10_000, 999).unwrap();
        assert!(lo <= 5_000.0 && hi >= 44_000.0, "{lo}..{hi}");
        // far from the stall they are tight
        let (lo, hi) = bounds(&measured, &exact(&client), 10_000, 500).unwrap();
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
            neighbour in 0_i64..300,
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
            let (lo, hi) = bounds(&measured, &exact(&client), client.len() as u64, per_mille).unwrap();
            prop_assert!(lo <= truth + 1e-6 && truth <= hi + 1e-6, "{lo} <= {truth} <= {hi}");
            // beside a neighbour of another law they hold for either
            let mut other: Vec<i64> = client.iter().map(|us| us * neighbour / 100).collect();
            other.sort_unstable();
            let both = envelope(&table(&client), &table(&other));
            let (wider_lo, wider_hi) = bounds(&measured, &both, client.len() as u64, per_mille).unwrap();
            prop_assert!(wider_lo <= lo && hi <= wider_hi);
        }
    }
}
