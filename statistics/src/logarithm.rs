//! Logarithms and powers of e by the four operations only: the system's own may differ in the last bit from machine to
//! machine, and what is published must not.

/// ln 2 in two parts: the first has so few digits that its product with an exponent is exact.
const LN_2: [f64; 2] = [0.693_147_180_369_123_8, 1.908_214_929_270_587_7e-10];

/// Natural logarithm of x > 0, to about the last digit; minus infinity of 0, not a number below.
pub fn ln(x: f64) -> f64 {
    if x.is_nan() || x < 0.0 {
        return f64::NAN;
    }
    if x == 0.0 || x == f64::INFINITY {
        return if x == 0.0 { f64::NEG_INFINITY } else { x };
    }
    // what is too small to have all its digits gets them
    let (x, shift) = if x < f64::MIN_POSITIVE { (x * TWO_TO_54, -54) } else { (x, 0) };
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i32 - 1023 + shift;
    let mut mantissa = f64::from_bits(bits & 0x000f_ffff_ffff_ffff | 1023 << 52);
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa *= 0.5;
        exponent += 1;
    }
    let exponent = f64::from(exponent);
    exponent * LN_2[0] + (twice_artanh((mantissa - 1.0) / (mantissa + 1.0)) + exponent * LN_2[1])
}

/// Logarithm of 1 + x, with all its digits also where x is small.
pub fn ln_1p(x: f64) -> f64 {
    if x.abs() < 0.3 { twice_artanh(x / (2.0 + x)) } else { ln(1.0 + x) }
}

/// e to the x, to about the last digits; 0 below -745, infinity above 709.78.
pub fn exp(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if !(-745.2..709.8).contains(&x) {
        return if x < 0.0 { 0.0 } else { f64::INFINITY };
    }
    let twos = (x * std::f64::consts::LOG2_E).round();
    let rest = x - twos * LN_2[0] - twos * LN_2[1];
    let mut sum = 1.0;
    for k in (1..=20_u32).rev() {
        sum = 1.0 + rest / f64::from(k) * sum;
    }
    // in two steps: one power of two alone may be out of range
    let half = (twos as i32) / 2;
    sum * power_of_two(half) * power_of_two(twos as i32 - half)
}

const TWO_TO_54: f64 = 18_014_398_509_481_984.0;

/// For exponents of normal numbers.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// `ln((1 + s) / (1 - s))` for |s| below 0.18, by its series.
fn twice_artanh(s: f64) -> f64 {
    let square = s * s;
    let mut sum = 0.0;
    for k in (1..=12_u32).rev() {
        sum = (sum + 1.0 / f64::from(2 * k + 1)) * square;
    }
    2.0 * s + 2.0 * s * sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_ends() {
        assert_eq!([ln(1.0), ln_1p(0.0), exp(0.0), exp(-800.0)], [0.0, 0.0, 1.0, 0.0]);
        assert_eq!([ln(0.0), ln(f64::INFINITY), exp(710.0)], [f64::NEG_INFINITY, f64::INFINITY, f64::INFINITY]);
        assert!(ln(-1.0).is_nan() && ln(f64::NAN).is_nan() && exp(f64::NAN).is_nan());
        assert!((ln(5e-324) + 744.440_071_921_381_2).abs() < 1e-12);
        assert!((ln_1p(1e-18) - 1e-18).abs() < 1e-33, "no digit is lost next to 1");
    }

    proptest! {
        #[test]
        fn as_the_system_has_it(x in -700.0_f64..700.0, small in -0.9_f64..2.0) {
            prop_assert!((exp(x) / x.exp() - 1.0).abs() < 1e-15 * (4.0 + x.abs()), "{x}");
            let size = x.exp();
            prop_assert!((ln(size) - size.ln()).abs() <= 3e-16 * size.ln().abs().max(1.0), "{size}");
            prop_assert!((ln_1p(small) - small.ln_1p()).abs() <= 6e-16 * small.ln_1p().abs().max(0.5), "{small}");
        }
    }
}
