//! How much of a series each of its values remembers, and how many independent values it is worth.
//!
//! The integrated autocorrelation time is `tau = 1 + 2 (rho_1 + rho_2 + ..)`; a mean, or a share of values below some
//! limit, of n values varies as that of `n / tau` independent ones. The estimated `rho` of far lags is noise, so the sum
//! must end: here by Geyer's initial monotone sequence (1992): sums of adjacent pairs `rho_2k + rho_2k+1`, each taken as
//! no larger than the one before, up to the first that is not positive. For an AR(1) process `tau` is
//! `(1 + phi) / (1 - phi)`.
//!
//! Latencies have long tails, and one slow request would be most of a variance: [`of_ranks`] asks the ranks, as
//! Spearman's coefficient does.

use super::ranks;

/// Fewer values than this have no autocorrelation worth telling: a coefficient of so many independent ones is within
/// 0.28 of 0 in 95 of 100 cases.
pub const SMALLEST_N: usize = 50;
/// At most about so many products are summed, but always those of [`FEWEST_LAGS`] lags.
const PRODUCTS: usize = 200_000_000;
const FEWEST_LAGS: usize = 100;

/// What a series remembers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// Correlation of neighbours, -1 to 1.
    pub lag_1: f64,
    /// Integrated autocorrelation time in places of the series, at least 1.
    pub time: f64,
    /// `n / time`: as many independent values say as much.
    pub n_eff: f64,
    /// The sum was ended by the largest lag that is looked at, and not by its terms: `time` is at least, `n_eff` at most,
    /// what is said.
    pub cut_off: bool,
}

/// Memory of the ranks of a series in its order. None with fewer than [`SMALLEST_N`] values, or when all are equal.
pub fn of_ranks(series: &[f64]) -> Option<Memory> {
    let ranks: Vec<f64> = ranks::doubled(series).into_iter().map(|rank| rank as f64).collect();
    of(&ranks)
}

/// Memory of a series in its order. None with fewer than [`SMALLEST_N`] values, or when all are equal.
pub fn of(series: &[f64]) -> Option<Memory> {
    let n = series.len();
    if n < SMALLEST_N {
        return None;
    }
    let mean = series.iter().sum::<f64>() / n as f64;
    let centred: Vec<f64> = series.iter().map(|v| v - mean).collect();
    let products = |lag: usize| centred.iter().zip(&centred[lag..]).map(|(a, b)| a * b).sum::<f64>();
    let variance = products(0);
    if variance <= 0.0 {
        return None;
    }
    let rho = |lag: usize| products(lag) / variance;
    let largest_lag = (n / 2).min((PRODUCTS / n).max(FEWEST_LAGS));
    let lag_1 = rho(1);
    let mut pair = 1.0 + lag_1;
    let (mut pairs, mut lag, mut cut_off) = (0.0, 2, false);
    while pair > 0.0 {
        pairs += pair;
        if lag + 1 > largest_lag {
            cut_off = true;
            break;
        }
        pair = pair.min(rho(lag) + rho(lag + 1));
        lag += 2;
    }
    let time = (2.0 * pairs - 1.0).max(1.0);
    Some(Memory { lag_1, time, n_eff: n as f64 / time, cut_off })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{Draws, Law};
    use proptest::prelude::*;

    /// AR(1): `(1 + phi) / (1 - phi)`; ranks of a normal process have `6 / pi asin(phi^k / 2)` at lag k.
    #[test]
    fn the_time_of_known_processes() {
        for (phi, seed) in [(0.0_f64, 1), (0.5, 2), (0.8, 3), (0.9, 4)] {
            let logs: Vec<f64> =
                Draws::new(Law::Remembering(phi), seed).series(40_000).iter().map(|v| v.ln()).collect();
            let expected = (1.0 + phi) / (1.0 - phi);
            let found = of(&logs).unwrap();
            assert!((found.time / expected - 1.0).abs() < 0.1, "phi {phi}: {} for {expected}", found.time);
            assert!((found.lag_1 - phi).abs() < 0.02, "phi {phi}: {}", found.lag_1);
            assert!((found.n_eff - 40_000.0 / found.time).abs() < 1e-9 && !found.cut_off);
            let rho = |k: i32| 6.0 / std::f64::consts::PI * (phi.powi(k) / 2.0).asin();
            let expected = 1.0 + 2.0 * (1..400).map(rho).sum::<f64>();
            let found = of_ranks(&logs).unwrap();
            assert!((found.time / expected - 1.0).abs() < 0.1, "ranks, phi {phi}: {} for {expected}", found.time);
            assert!((found.lag_1 - rho(1)).abs() < 0.02);
        }
    }

    #[test]
    fn independent_values_are_worth_themselves() {
        for law in [Law::Independent, Law::Mixed, Law::LongTailed, Law::Constant] {
            let found = of_ranks(&Draws::new(law, 9).series(3_000)).unwrap();
            assert!(found.time < 1.3, "{law:?}: {found:?}");
        }
        // a series that alternates says more of its mean than an independent one: no more than n is claimed
        let zigzag: Vec<f64> = (0..60).map(|i| f64::from(i % 2)).collect();
        let found = of(&zigzag).unwrap();
        assert_eq!((found.time, found.n_eff), (1.0, 60.0));
        assert!((found.lag_1 + 59.0 / 60.0).abs() < 1e-12);
    }

    /// A level that changes halfway, by hand: `rho(k) = 1 - 3 k / n`, positive up to lag 19, so the last pair is 18, 19.
    #[test]
    fn a_step_by_hand() {
        let step: Vec<f64> = (0..60).map(|i| f64::from(u8::from(i >= 30))).collect();
        let pairs: f64 = (0..10).map(|m| 2.0 - 3.0 * f64::from(4 * m + 1) / 60.0).sum();
        assert!((of(&step).unwrap().time - (2.0 * pairs - 1.0)).abs() < 1e-9);
        assert!((of_ranks(&step).unwrap().time - (2.0 * pairs - 1.0)).abs() < 1e-9);
    }

    #[test]
    fn too_few_values_and_equal_ones() {
        assert_eq!((of(&[1.0; 49]), of(&[1.0; 50]), of_ranks(&[])), (None, None, None));
        let rising: Vec<f64> = (0..50).map(f64::from).collect();
        assert!(of(&rising).is_some() && of(&rising[..49]).is_none());
    }

    #[test]
    fn the_work_is_bounded() {
        let rising: Vec<f64> = (0..2_500_000).map(f64::from).collect();
        let found = of(&rising).unwrap();
        assert!(found.cut_off && found.time > 190.0 && found.time <= 203.0, "{found:?}");
    }

    proptest! {
        #[test]
        fn ranks_know_no_scale_and_no_direction(values in prop::collection::vec(0_u32..500, 50..200)) {
            let of_all = |f: &dyn Fn(u32) -> f64| values.iter().map(|v| f(*v)).collect::<Vec<f64>>();
            let found = of_ranks(&of_all(&f64::from));
            prop_assert_eq!(found, of_ranks(&of_all(&|v| f64::from(v).powi(3) * 4.0 - 7.0)));
            let mut back = of_all(&f64::from);
            back.reverse();
            prop_assert_eq!(found, of_ranks(&back));
            prop_assert!(found.is_none_or(|m| m.n_eff <= values.len() as f64 && m.n_eff > 0.0 && m.lag_1.abs() <= 1.0));
        }
    }
}
