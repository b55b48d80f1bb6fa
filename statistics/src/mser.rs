//! How long a series takes to settle: the marginal standard error rule of White (1997) on means of five, MSER-5.
//!
//! Of all beginnings that could be cut off, up to half of the series, the one is taken that leaves the smallest
//! `sum (x - mean)^2 / n^2` of the rest: cutting pays as long as what is cut is further from the mean than what is lost
//! by having fewer values.

/// Values in a batch.
pub const BATCH: usize = 5;
/// Fewer values than this have no cut worth telling: ten batches.
pub const SMALLEST_N: usize = 10 * BATCH;

/// Where the settled part begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Values before it, a multiple of [`BATCH`].
    pub values: usize,
    /// The rule took as much as it may, half of the batches: the series may not have settled at all.
    pub at_limit: bool,
}

/// The cut of a series in its order; values that fill no batch at the end are left out. None with fewer than
/// [`SMALLEST_N`] values.
pub fn of(series: &[f64]) -> Option<Cut> {
    if series.len() < SMALLEST_N {
        return None;
    }
    let batches: Vec<f64> = series.chunks_exact(BATCH).map(|b| b.iter().sum::<f64>() / BATCH as f64).collect();
    let most = batches.len() / 2;
    // from the end, so that each rest is the one before with a batch more
    let (mut mean, mut squares, mut rest) = (0.0, 0.0, 0.0);
    let mut least: Option<(f64, usize)> = None;
    for (cut, batch) in batches.iter().enumerate().rev() {
        rest += 1.0;
        let apart = batch - mean;
        mean += apart / rest;
        squares += apart * (batch - mean);
        let error = squares / (rest * rest);
        if cut <= most && least.is_none_or(|(smallest, _)| error <= smallest) {
            least = Some((error, cut));
        }
    }
    let (_, cut) = least?;
    Some(Cut { values: cut * BATCH, at_limit: cut == most })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{Draws, Law};
    use proptest::prelude::*;

    /// `sum (x - mean)^2 / n^2` of each rest, as the paper writes it.
    fn errors(series: &[f64]) -> Vec<f64> {
        let batches: Vec<f64> = series.chunks_exact(5).map(|b| b.iter().sum::<f64>() / 5.0).collect();
        let error = |cut: usize| {
            let rest = &batches[cut..];
            let n = rest.len() as f64;
            let mean = rest.iter().sum::<f64>() / n;
            rest.iter().map(|b| (b - mean) * (b - mean)).sum::<f64>() / (n * n)
        };
        (0..=batches.len() / 2).map(error).collect()
    }

    #[test]
    fn a_slow_beginning_is_cut() {
        // means of five: 100, 100, then 0 and 1 in turn
        let series: Vec<f64> = (0..60).map(|i| if i < 10 { 100.0 } else { f64::from(i / 5 % 2) }).collect();
        assert_eq!(of(&series), Some(Cut { values: 10, at_limit: false }));
        // values that fill no batch change nothing
        assert_eq!(of(&[series, vec![1e6; 4]].concat()), Some(Cut { values: 10, at_limit: false }));
    }

    #[test]
    fn what_never_settles_is_cut_in_half() {
        let rising: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(of(&rising), Some(Cut { values: 50, at_limit: true }));
        assert_eq!(of(&[3.0; 50]), Some(Cut { values: 0, at_limit: false }));
        assert_eq!(of(&[3.0; 49]), None);
    }

    /// As simulations of the literature do: an exponential transient on an AR(1) process.
    #[test]
    fn a_transient_is_found() {
        let mut near = 0;
        for seed in 0..40 {
            let noise = Draws::new(Law::Remembering(0.5), seed).series(1_000);
            let fading = |i: usize| 1_000.0 * (-(i as f64) / 30.0).exp();
            let series: Vec<f64> = noise.iter().enumerate().map(|(i, v)| v + fading(i)).collect();
            near += usize::from(of(&series).is_some_and(|cut| (40..=250).contains(&cut.values)));
        }
        assert!(near >= 36, "{near} of 40");
    }

    proptest! {
        #[test]
        fn it_is_the_smallest_error(values in prop::collection::vec(0_u32..1_000, 50..300)) {
            let series: Vec<f64> = values.into_iter().map(f64::from).collect();
            let cut = of(&series).unwrap();
            let errors = errors(&series);
            let least = errors.iter().copied().fold(f64::INFINITY, f64::min);
            prop_assert!(cut.values.is_multiple_of(BATCH) && cut.values / BATCH < errors.len());
            prop_assert!(errors[cut.values / BATCH] <= least * (1.0 + 1e-9));
        }
    }
}
