//! Ranks with ties.

/// Twice the mid-rank of each value, so that it is whole: from 2 for a smallest one to `2 n`; ties share the mean of their
/// ranks. The sum is `n (n + 1)`.
pub fn doubled(values: &[f64]) -> Vec<u64> {
    let mut ranks = vec![0; values.len()];
    let mut below = 0;
    for group in groups(values) {
        // places below + 1 to below + len
        let twice = (2 * below + group.len() + 1) as u64;
        below += group.len();
        group.into_iter().for_each(|index| ranks[index] = twice);
    }
    ranks
}

/// Sizes of the groups of equal values that hold more than one.
pub fn ties(values: &[f64]) -> Vec<u64> {
    groups(values).into_iter().map(|group| group.len() as u64).filter(|&size| size > 1).collect()
}

/// Indices of equal values together, ascending by value.
fn groups(values: &[f64]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    order.chunk_by(|&a, &b| values[a] == values[b]).map(<[usize]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ties_share_a_rank() {
        // scipy.stats.rankdata([30, 10, 20, 20, 20, 40]) = 5, 1, 3, 3, 3, 6
        assert_eq!(doubled(&[30.0, 10.0, 20.0, 20.0, 20.0, 40.0]), [10, 2, 6, 6, 6, 12]);
        assert_eq!(ties(&[1.0, 2.0, 2.0, 1.0, 1.0, 7.0]), [3, 2]);
        assert!(doubled(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn ranks_count_what_is_below(values in prop::collection::vec(0_u8..9, 0..60)) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let ranks = doubled(&values);
            for (i, v) in values.iter().enumerate() {
                let below = values.iter().filter(|w| *w < v).count() as u64;
                let equal = values.iter().filter(|w| *w == v).count() as u64;
                prop_assert_eq!(ranks[i], 2 * below + equal + 1);
            }
        }
    }
}
