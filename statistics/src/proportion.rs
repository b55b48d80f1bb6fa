//! How far a share found in a sample may be from the true one.
//!
//! The interval of Clopper and Pearson (1934): its ends are those shares under which so many hits or more, or so many or
//! fewer, would still be seen with probability 0.025. Its coverage is at least 95 % at every n and every share.

use super::gamma_distribution::ln_gamma;
use super::logarithm::{exp, ln, ln_1p};

/// 2.5 % at each end.
const TAIL: f64 = 0.025;

/// The 95 % interval of a share: `hits` of `n`. None of nothing.
///
/// # Panics
/// When there are more hits than tries.
pub fn interval(hits: u64, n: u64) -> Option<[f64; 2]> {
    assert!(hits <= n, "{hits} of {n}");
    if n == 0 {
        return None;
    }
    let (k, misses) = (hits as f64, (n - hits) as f64);
    // P(X >= k | p) = I_p(k, n - k + 1); P(X <= k | p) = 1 - I_p(k + 1, n - k)
    let low = if hits == 0 { 0.0 } else { quantile(TAIL, k, misses + 1.0) };
    let high = if hits == n { 1.0 } else { quantile(1.0 - TAIL, k + 1.0, misses) };
    Some([low, high])
}

/// The x with `I_x(a, b) = p`, by bisection down to neighbouring floats near it.
fn quantile(p: f64, a: f64, b: f64) -> f64 {
    let (mut below, mut above) = (0.0, 1.0);
    for _ in 0..80 {
        let middle = 0.5 * (below + above);
        if beta(middle, a, b) < p { below = middle } else { above = middle }
    }
    0.5 * (below + above)
}

/// The regularised incomplete beta function `I_x(a, b)`, by its continued fraction (DLMF 8.17.22), evaluated by the
/// method of Lentz.
fn beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // the fraction converges fast on one side of the mode only; the other is its mirror image
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta(1.0 - x, b, a);
    }
    let front = exp(a * ln(x) + b * ln_1p(-x) + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b)) / a;
    front * fraction(x, a, b)
}

fn fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away_from_zero = |v: f64| if v.abs() < TINY { TINY } else { v };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    // some sqrt(max(a, b)) steps are enough
    for m in 1..100_000_u32 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for coefficient in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + coefficient * d);
            c = away_from_zero(1.0 + coefficient / c);
            change = c * d;
            value *= change;
        }
        if (change - 1.0).abs() < 1e-15 {
            break;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 5e-5, "{found} is not {expected}");
    }

    #[test]
    fn known_intervals() {
        // Clopper and Pearson's own example and R's binom.test
        for ((hits, n), [low, high]) in [
            ((0, 10), [0.0, 0.3085]),
            ((10, 10), [0.6915, 1.0]),
            ((7, 20), [0.1539, 0.5922]),
            ((1, 1), [0.025, 1.0]),
            ((300, 300), [0.98778, 1.0]),
            ((990, 1000), [0.98169, 0.99520]),
        ] {
            let found = interval(hits, n).unwrap();
            close(found[0], low);
            close(found[1], high);
        }
        assert_eq!(interval(0, 0), None);
    }

    #[test]
    fn so_many_requests_without_a_miss_make_99_percent_believable() {
        let enough = |n| interval(n, n).unwrap()[0] >= 0.99;
        assert!(!enough(367) && enough(368));
        assert!(interval(10_000_000, 10_000_000).unwrap()[0] > 0.999_999);
    }

    proptest! {
        #[test]
        fn the_ends_are_where_the_binomial_says(n in 1_u64..60, hits in 0_u64..60) {
            let hits = hits.min(n);
            let [low, high] = interval(hits, n).unwrap();
            let at = |p: f64, k: u64| {
                let choose = (0..k).fold(1.0, |c, i| c * (n - i) as f64 / (i + 1) as f64);
                choose * p.powi(k as i32) * (1.0 - p).powi((n - k) as i32)
            };
            if hits > 0 {
                let or_more: f64 = (hits..=n).map(|k| at(low, k)).sum();
                prop_assert!((or_more - TAIL).abs() < 1e-9, "{or_more}");
            }
            if hits < n {
                let or_fewer: f64 = (0..=hits).map(|k| at(high, k)).sum();
                prop_assert!((or_fewer - TAIL).abs() < 1e-9, "{or_fewer}");
            }
        }
    }
}
