//! Where a distribution moved: the difference of each decile (the shift function of K. Doksum, Annals of Statistics 2,
//! 1974, and of R. Wilcox), from windows.
//!
//! A decile is taken in each window and averaged over windows; the interval and p are those of the same test over windows,
//! or pairs of them, as the verdicts'. Requests are never pooled over windows: that would call the noise between windows
//! significant. It shows where to look, and is no claim of its own.

use super::Design;
use super::verdict::ALPHA;
use crate::analysis::percentiles::{self, Percentile};
use crate::analysis::statistics::holm;
use crate::analysis::statistics::permutation::ShiftTest;
use schemars::JsonSchema;
use serde::Serialize;

/// Fewest windows an arm with which an interval exists.
pub const FEWEST_WINDOWS: usize = 4;
/// Fewest pairs of windows with which one does.
pub const FEWEST_PAIRS: usize = 6;
/// Fewest requests of a window whose deciles are taken.
pub const FEWEST_REQUESTS: usize = 10;

/// The nine deciles of one window, in ms; None with fewer than [`FEWEST_REQUESTS`] values. Values in ns.
pub fn deciles(mut values: Vec<i64>) -> Option<[f64; 9]> {
    if values.len() < FEWEST_REQUESTS {
        return None;
    }
    values.sort_unstable();
    let at = |tenth: usize| {
        let per_mille = 100 * (tenth as u32 + 1);
        percentiles::percentile_ms(&values, Percentile { name: "decile", per_mille, smallest_n: FEWEST_REQUESTS })
    };
    let found: Vec<f64> = (0..9).filter_map(at).collect();
    found.try_into().ok()
}

/// How each decile of a metric moved, B - A.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Shift {
    /// `ttft` or `e2e`.
    pub metric: &'static str,
    /// `gross`, or `due` in open loop.
    pub column: &'static str,
    /// Windows of A and of B.
    pub windows: [usize; 2],
    /// p10 to p90.
    pub deciles: Vec<Decile>,
    /// What must be known to read it.
    pub note: Option<String>,
}

/// One decile.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Decile {
    /// `p10` to `p90`.
    pub name: String,
    /// Mean over windows of A, in ms.
    pub a_ms: f64,
    /// B - A, in ms.
    pub shift_ms: f64,
    /// 95 % interval of the shift; None with too few windows.
    pub interval_ms: Option<[f64; 2]>,
    /// p of "no shift", Holm-adjusted over the nine deciles; None with too few windows.
    pub p_holm: Option<f64>,
}

/// The shift function from the deciles of each window; of pairs `a[i]` with `b[i]`. None when an arm has no window.
pub fn of_windows(
    metric: &'static str,
    column: &'static str,
    a: &[[f64; 9]],
    b: &[[f64; 9]],
    design: Design,
) -> Option<Shift> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let of = |arm: &[[f64; 9]], decile: usize| arm.iter().map(|d| d[decile]).collect::<Vec<_>>();
    let fewest = if design == Design::Pairs { FEWEST_PAIRS } else { FEWEST_WINDOWS };
    let tested = a.len().min(b.len()) >= fewest;
    let tests: Vec<Option<ShiftTest>> = (0..9).map(|d| design.test(&of(a, d), &of(b, d)).filter(|_| tested)).collect();
    let p_values: Vec<f64> = tests.iter().map(|t| t.as_ref().map_or(1.0, |t| t.two_sided(0.0))).collect();
    let adjusted = holm::adjust(&p_values);
    let mean = |values: &mut [f64]| percentiles::sum(values) / values.len() as f64;
    let deciles = tests.iter().enumerate().map(|(d, test)| {
        let (a_ms, b_ms) = (mean(&mut of(a, d)), mean(&mut of(b, d)));
        Decile {
            name: format!("p{}0", d + 1),
            a_ms,
            shift_ms: b_ms - a_ms,
            interval_ms: test.as_ref().and_then(|t| t.interval(25)),
            p_holm: test.as_ref().map(|_| adjusted[d]),
        }
    });
    let smallest = tests.iter().flatten().map(|t| 2.0 / t.assignments() as f64).fold(0.0, f64::max);
    let note = match tested {
        false if design == Design::Pairs => {
            Some(format!("no interval: the unit is the pair of windows, and fewer than {fewest} carry none"))
        }
        false => Some(format!("no interval: the unit is the window, and fewer than {fewest} an arm carry none")),
        true if smallest * 9.0 > ALPHA => {
            let few = if design == Design::Pairs { "pairs" } else { "windows" };
            Some(format!("so few {few} cannot single out one of nine deciles: look at the intervals together"))
        }
        true => None,
    };
    Some(Shift { metric, column, windows: [a.len(), b.len()], deciles: deciles.collect(), note })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nine deciles, each 100 ms apart, with a tail that is `by` later.
    fn window(base: f64, by: f64) -> [f64; 9] {
        std::array::from_fn(|d| base + 100.0 * d as f64 + if d >= 7 { by } else { 0.0 })
    }

    #[test]
    fn deciles_of_known_values() {
        // numpy.percentile(range(0, 101), [10, .., 90]) = 10, .., 90
        let found = deciles((0..=100).rev().map(|v| v * 1_000_000).collect()).expect("enough values");
        assert_eq!(found, [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0]);
        assert_eq!(deciles(vec![1; 9]), None);
    }

    #[test]
    fn a_moved_tail_is_found_in_the_tail() {
        let arm = |by: f64| (0..6).map(|w| window(1000.0 + f64::from(w), by)).collect::<Vec<_>>();
        let shift = of_windows("ttft", "gross", &arm(0.0), &arm(50.0), Design::Separate).expect("a shift");
        for (d, decile) in shift.deciles.iter().enumerate() {
            assert_eq!(decile.shift_ms, if d >= 7 { 50.0 } else { 0.0 });
            assert_eq!(decile.p_holm.expect("tested") <= ALPHA, d >= 7, "{decile:?}");
            let [lo, hi] = decile.interval_ms.expect("an interval");
            assert!(lo <= decile.shift_ms && decile.shift_ms <= hi);
        }
        assert_eq!((shift.note, shift.windows), (None, [6, 6]));
    }

    #[test]
    fn few_windows_have_no_interval_and_say_so() {
        let two = of_windows("ttft", "gross", &[window(0.0, 0.0); 2], &[window(9.0, 0.0); 5], Design::Separate)
            .expect("a shift");
        assert!(two.deciles.iter().all(|d| d.interval_ms.is_none() && d.p_holm.is_none() && d.shift_ms == 9.0));
        assert!(two.note.expect("a note").contains("no interval"));
        let four = of_windows("ttft", "gross", &[window(0.0, 0.0); 4], &[window(9.0, 0.0); 4], Design::Separate)
            .expect("a shift");
        assert!(four.deciles.iter().all(|d| d.interval_ms == Some([9.0, 9.0])));
        assert!(four.note.expect("a note").contains("nine deciles"));
        assert_eq!(of_windows("ttft", "gross", &[], &[window(0.0, 0.0)], Design::Separate), None);
    }

    #[test]
    fn pairs_show_a_shift_that_windows_apart_would_hide() {
        // both servers drift together by far more than they differ
        let drift = [0.0, 400.0, 100.0, 550.0, 200.0, 50.0, 300.0, 700.0, 20.0, 600.0];
        let arm = |by: f64| drift.map(|o| window(1000.0 + o + by, 0.0)).to_vec();
        let (a, b) = (arm(0.0), arm(9.0));
        let of = |pairs: usize, design| of_windows("ttft", "gross", &a[..pairs], &b[..pairs], design).expect("a shift");
        let pairs = of(10, Design::Pairs);
        assert!(pairs.deciles.iter().all(|d| d.p_holm.is_some_and(|p| p < 0.02) && d.interval_ms == Some([9.0; 2])));
        assert!(of(10, Design::Abba).deciles.iter().all(|d| d.p_holm.is_some_and(|p| p > 0.5)));
        assert!(of(6, Design::Pairs).note.expect("a note").contains("so few pairs"), "2/64, nine times");
        let five = of(5, Design::Pairs);
        assert!(five.deciles.iter().all(|d| d.interval_ms.is_none()));
        assert!(five.note.expect("a note").contains("the pair of windows, and fewer than 6"));
    }

    #[test]
    fn many_requests_do_not_make_up_for_few_windows() {
        // windows that differ among themselves: however many requests stand behind a decile, nothing is significant
        let arm = |offsets: [f64; 6]| offsets.map(|o| window(1000.0 + o, 0.0)).to_vec();
        let (a, b) = (arm([0.0, 40.0, 10.0, 55.0, 20.0, 5.0]), arm([8.0, 60.0, 2.0, 35.0, 50.0, 12.0]));
        let shift = of_windows("ttft", "gross", &a, &b, Design::Separate).expect("a shift");
        assert!(shift.deciles.iter().all(|d| d.p_holm.expect("tested") > 0.5));
    }
}
