//! What is left of a series when its trend, or the levels it went through, are taken off.

/// Values of slices in order of time, less a line that rises by `slope` from slice to slice; within a slice by place.
pub fn less_trend(slices: &[Vec<f64>], slope: f64) -> Vec<f64> {
    let of_slice = |(i, values): (usize, &Vec<f64>)| {
        let at = |j: usize| i as f64 + (j as f64 + 0.5) / values.len() as f64;
        values.iter().enumerate().map(|(j, v)| v - slope * at(j)).collect::<Vec<f64>>()
    };
    slices.iter().enumerate().flat_map(of_slice).collect()
}

/// Values of slices in order of time, less the level that each slice belongs to. `cuts` are the places where a new level
/// begins, `medians` those of the slices, of the same number.
pub fn less_levels(slices: &[Vec<f64>], medians: &[f64], cuts: &[usize]) -> Vec<f64> {
    let levels = parts(medians, cuts).flat_map(|part| vec![middle(part); part.len()]);
    slices.iter().zip(levels).flat_map(|(values, level)| values.iter().map(move |v| v - level)).collect()
}

/// The parts of a series between its cuts, ascending places from 1 to `n - 1`.
pub fn parts<'a>(values: &'a [f64], cuts: &'a [usize]) -> impl Iterator<Item = &'a [f64]> {
    let starts = std::iter::once(0).chain(cuts.iter().copied());
    let ends = cuts.iter().copied().chain(std::iter::once(values.len()));
    starts.zip(ends).map(|(start, end)| &values[start..end])
}

/// The median of some values; of an even number the mean of the middle two. Of none it is 0.
pub fn middle(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_taken_off() {
        let slices = vec![vec![1.0, 2.0, 3.0], vec![2.0], vec![12.0, 10.0, 11.0], vec![10.0, 14.0]];
        let medians: Vec<f64> = slices.iter().map(|s| middle(s)).collect();
        assert_eq!(medians, [2.0, 2.0, 11.0, 12.0]);
        assert_eq!(less_levels(&slices, &medians, &[2]), [-1.0, 0.0, 1.0, 0.0, 0.5, -1.5, -0.5, -1.5, 2.5]);
        assert_eq!(less_levels(&slices, &medians, &[])[..3], [-5.5, -4.5, -3.5]);
        let rising = [vec![1.0, 3.0], vec![5.0, 6.0, 7.0, 8.0]];
        assert_eq!(less_trend(&rising, 4.0), [0.0, 0.0, 0.5, 0.5, 0.5, 0.5]);
        assert_eq!(parts(&medians, &[1, 3]).collect::<Vec<_>>(), [&[2.0][..], &[2.0, 11.0], &[12.0]]);
    }
}
