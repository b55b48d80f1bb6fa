//! The gamma distribution: sums of independent exponential times, and what lies between and beside them.

use super::logarithm::{exp, ln};

/// Terms that a series or fraction may need: about six times the square root of the largest shape.
const TERMS: u32 = 100_000;

/// Probabilities that a value of the gamma distribution with this shape and scale 1 is at most `x`, and that it is above:
/// the regularised incomplete gamma functions P and Q, each with its own digits however small it is. By the series of
/// DLMF 8.11.4 below the shape, by Legendre's continued fraction (DLMF 8.9.2, by the method of Lentz) above it.
///
/// # Panics
/// When the shape is not positive.
pub fn below_and_above(shape: f64, x: f64) -> [f64; 2] {
    assert!(shape > 0.0, "a shape is above 0, not {shape}");
    if x.is_nan() || x <= 0.0 {
        return [0.0, 1.0];
    }
    if x == f64::INFINITY {
        return [1.0, 0.0];
    }
    // x^shape e^-x / gamma(shape + 1)
    let front = exp(shape * ln(x) - x - ln_gamma(shape + 1.0));
    if x < shape + 1.0 {
        let below = (front * series(shape, x)).min(1.0);
        [below, 1.0 - below]
    } else {
        let above = (front * shape * fraction(shape, x)).min(1.0);
        [1.0 - above, above]
    }
}

/// `1 + x / (a + 1) + x^2 / ((a + 1)(a + 2)) + ..`
fn series(a: f64, x: f64) -> f64 {
    let (mut term, mut sum) = (1.0, 1.0);
    for k in 1..TERMS {
        term *= x / (a + f64::from(k));
        sum += term;
        if term < sum * 1e-17 {
            break;
        }
    }
    sum
}

/// `1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / (x + 5 - a - ..)))`
fn fraction(a: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away_from_zero = |v: f64| if v.abs() < TINY { TINY } else { v };
    let mut b = x + 1.0 - a;
    let mut c = 1.0 / TINY;
    let mut d = 1.0 / away_from_zero(b);
    let mut value = d;
    for k in 1..TERMS {
        let k = f64::from(k);
        let numerator = -k * (k - a);
        b += 2.0;
        d = 1.0 / away_from_zero(numerator * d + b);
        c = away_from_zero(b + numerator / c);
        value *= c * d;
        if (c * d - 1.0).abs() < 1e-15 {
            break;
        }
    }
    value
}

/// Logarithm of the gamma function for x > 0: Stirling's series (DLMF 5.11.1) where it is exact to the last digits,
/// brought there by the recurrence.
pub fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut shift) = (x, 0.0);
    while x < 15.0 {
        shift += ln(x);
        x += 1.0;
    }
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    let series = inverse * (1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square * (1.0 / 1680.0))));
    (x - 0.5) * ln(x) - x + 0.5 * ln(2.0 * std::f64::consts::PI) + series - shift
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_values() {
        // chi-square tables: P(k / 2, chi2 / 2)
        let tables = [(1, 3.841_458_820_694_124), (2, 5.991_464_547_107_979), (10, 18.307_038_053_275_143)];
        for (freedom, chi2) in tables {
            let [below, above] = below_and_above(f64::from(freedom) / 2.0, chi2 / 2.0);
            assert!((below - 0.95).abs() < 1e-12 && (above - 0.05).abs() < 1e-12, "{freedom}: {below}");
        }
        // shape 1/2 is the error function: P(1/2, z^2) = erf z
        for (z, erf) in
            [(0.1, 0.112_462_916_018_284_89), (1.0, 0.842_700_792_949_714_9), (2.0, 0.995_322_265_018_952_7)]
        {
            assert!((below_and_above(0.5, z * z)[0] - erf).abs() < 1e-13, "{z}");
        }
        // gamma(1/2) = sqrt(pi), gamma(11) = 10!
        assert!((ln_gamma(0.5) - 0.572_364_942_924_700_1).abs() < 1e-13);
        assert!((ln_gamma(11.0) - 15.104_412_573_075_516).abs() < 1e-13);
        assert_eq!([below_and_above(3.0, 0.0), below_and_above(3.0, f64::INFINITY)], [[0.0, 1.0], [1.0, 0.0]]);
    }

    #[test]
    fn large_shapes_are_nearly_normal() {
        let shape = 1e6_f64;
        for z in [-3.0, -1.0, 0.0, 1.0, 3.0] {
            let [below, _] = below_and_above(shape, shape + z * shape.sqrt());
            let normal = 1.0 - super::super::normal_tail::above(z);
            // the skewness of the distribution is 2 / 1000
            assert!((below - normal).abs() < 5e-4, "{z}: {below} {normal}");
        }
    }

    proptest! {
        #[test]
        fn whole_shapes_count_the_events_of_a_poisson_process(shape in 1_u32..12, x in 0.0_f64..40.0) {
            // fewer than `shape` events in a time x
            let (mut term, mut sum) = ((-x).exp(), 0.0);
            for k in 0..shape {
                sum += term;
                term *= x / f64::from(k + 1);
            }
            let [below, above] = below_and_above(f64::from(shape), x);
            prop_assert!((above - sum).abs() <= 1e-12 * sum.max(1e-3), "{above} {sum}");
            prop_assert!((below + above - 1.0).abs() < 1e-12);
        }

        #[test]
        fn it_rises(shape in 0.05_f64..500.0, x in 0.0_f64..1_000.0, more in 0.0_f64..10.0) {
            let ([below, above], [later, rest]) = (below_and_above(shape, x), below_and_above(shape, x + more));
            prop_assert!(later >= below - 1e-12 && rest <= above + 1e-12);
            prop_assert!((0.0..=1.0).contains(&below) && (0.0..=1.0).contains(&above));
        }
    }
}
