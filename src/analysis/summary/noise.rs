//! How far apart the windows of one load point are.

use std::collections::BTreeMap;

use crate::analysis::definitions::noise_gap;
use crate::rundir::run_json::{Distribution, NoiseGaps, Window};

/// Largest relative gap between two windows, for each metric, column and percentile.
pub(super) fn of_windows(windows: &[Window]) -> BTreeMap<String, BTreeMap<String, NoiseGaps>> {
    let mut seen: BTreeMap<(&str, &str), Vec<&Distribution>> = BTreeMap::new();
    for (metric, column, distribution) in windows.iter().flat_map(|w| w.metrics.columns()) {
        seen.entry((metric, column)).or_default().extend(distribution);
    }
    let mut noise: BTreeMap<String, BTreeMap<String, NoiseGaps>> = BTreeMap::new();
    for ((metric, column), found) in seen {
        let gap = |name: &str| largest_gap(&found.iter().filter_map(|d| d.percentile(name)).collect::<Vec<_>>());
        let gaps = NoiseGaps { p50: gap("p50"), p95: gap("p95"), p99: gap("p99") };
        noise.entry(metric.into()).or_default().insert(column.into(), gaps);
    }
    noise
}

/// The largest pair is that of the extremes only while means are positive; with few windows all pairs are cheap.
fn largest_gap(values: &[f64]) -> Option<f64> {
    let pairs = values.iter().enumerate().flat_map(|(i, a)| values[i + 1..].iter().map(move |b| noise_gap(*a, *b)));
    pairs.flatten().max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_noise_of_the_published_windows() {
        let percent = |values: &[f64]| largest_gap(values).map(|gap| format!("{:.1} %", gap * 100.0));
        assert_eq!(percent(&[822.3, 634.4]).as_deref(), Some("25.8 %"));
        assert_eq!(percent(&[192.0, 202.1]).as_deref(), Some("5.1 %"));
        assert_eq!(percent(&[202.1, 200.0, 192.0]).as_deref(), Some("5.1 %"));
        assert_eq!(percent(&[202.1]), None);
        assert_eq!(percent(&[-3.0, 1.0]), None);
    }
}
