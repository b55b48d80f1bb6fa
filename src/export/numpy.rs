//! Statistics as numpy computes them, for the tools that use it.

/// `numpy.mean(values or 0)`.
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// `numpy.std(values or 0)`: over n, not n - 1.
pub fn std(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: Vec<f64> = values.iter().map(|v| (v - mean) * (v - mean)).collect();
    self::mean(&squares).sqrt()
}

/// `numpy.percentile(values or 0, q)`: linear between the two nearest, whatever n is. `q` in percent.
pub fn percentile(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let place = last as f64 * (q / 100.0);
    let below = (place.floor() as usize).min(last);
    let (a, b, share) = (sorted[below], sorted[(below + 1).min(last)], place - place.floor());
    // numpy goes from the nearer end
    if share < 0.5 { a + (b - a) * share } else { b - (b - a) * (1.0 - share) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_numpy() {
        // numpy 2.4.6, to the bit
        let values = [40.0, 10.0, 30.0, 20.0];
        assert_eq!((mean(&values), std(&values)), (25.0, 11.180_339_887_498_949));
        assert_eq!(
            [50.0, 90.0, 95.0, 99.0].map(|q| percentile(&values, q)),
            [25.0, 37.0, 38.5, 39.699_999_999_999_996]
        );
        assert_eq!((percentile(&[7.0], 99.0), percentile(&[], 99.0), mean(&[]), std(&[])), (7.0, 0.0, 0.0, 0.0));
    }
}
