//! The tail of the normal distribution.

/// 97.5 % quantile of the standard normal distribution: a two-sided 95 % interval is so many deviations wide on each
/// side.
pub const Z_975: f64 = 1.959_963_984_540_054;

/// Probability that a standard normal value is above `z`, from 1 down to 0. To about 12 digits of the smaller tail;
/// beyond 37 it is 0.
pub fn above(z: f64) -> f64 {
    if z < 0.0 { 1.0 - above(-z) } else { upper(z) }
}

/// Probability that a standard normal value is further from 0 than `z`.
pub fn beyond(z: f64) -> f64 {
    (2.0 * upper(z.abs())).min(1.0)
}

fn upper(z: f64) -> f64 {
    if z > 37.0 {
        return 0.0;
    }
    let density = exp_of_negative(z * z / 2.0) * 0.398_942_280_401_432_7;
    if z < 2.5 {
        // Marsaglia 2004: half the distribution as a series of positive terms, z + z^3 / 3 + z^5 / (3 5) + ..
        let (mut term, mut sum, mut k) = (z, z, 1.0);
        while term > sum * 1e-17 && term > 0.0 {
            k += 2.0;
            term *= z * z / k;
            sum += term;
        }
        return 0.5 - density * sum;
    }
    // Laplace's continued fraction z + 1 / (z + 2 / (z + 3 / ..)), from far out inwards
    density / (1..=200).rev().fold(z, |fraction, k| z + f64::from(k) / fraction)
}

/// `e^-x` for x from 0 to 700 by the four operations only: the system's own may differ in the last bit.
fn exp_of_negative(x: f64) -> f64 {
    // e^-x = (e^-(x / 1024))^1024, the inner one by its series
    let small = x / 1024.0;
    let mut sum = 1.0;
    for k in (1..=24_u32).rev() {
        sum = 1.0 - small / f64::from(k) * sum;
    }
    (0..10).fold(sum, |power, _| power * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_tails() {
        // 0.5 erfc(z / sqrt 2), as Python's math.erfc has it
        let known = [
            (0.0, 0.5),
            (0.5, 0.308_537_538_725_986_9),
            (1.0, 0.158_655_253_931_457_05),
            (Z_975, 0.025),
            (2.499_999, 0.006_209_682_854_098_547),
            (2.575_829_303_548_900_4, 0.005),
            (4.0, 3.167_124_183_311_996_5e-5),
            (8.0, 6.220_960_574_271_819e-16),
            (30.0, 4.906_713_927_148_764e-198),
        ];
        for (z, tail) in known {
            assert!((above(z) - tail).abs() <= 1e-11 * tail, "{z}: {} {tail}", above(z));
            assert!((above(-z) - (1.0 - tail)).abs() <= 1e-12, "-{z}");
        }
        assert_eq!((above(40.0), above(-40.0), beyond(0.0)), (0.0, 1.0, 1.0));
    }

    #[test]
    fn it_falls() {
        let tails: Vec<f64> = (0..800).map(|i| above(f64::from(i) * 0.05 - 4.0)).collect();
        assert!(tails.windows(2).all(|pair| pair[0] >= pair[1]));
    }
}
