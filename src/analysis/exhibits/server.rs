//! The server's own gauges over the time of a window.

use std::collections::BTreeMap;

use super::ServerSample;
use super::slices::Cut;
use crate::rundir::scrape::ScrapeRow;
use crate::rundir::window::WindowRow;

/// Scrapes that were answered while the window was open and told a gauge, in order of time, at most one a slice: of
/// several the largest of each gauge.
pub(super) fn of_window(scrapes: &[ScrapeRow], bounds: &WindowRow, cut: &Cut) -> Vec<ServerSample> {
    let mut by_slice: BTreeMap<usize, ServerSample> = BTreeMap::new();
    let open = |row: &&ScrapeRow| row.error.is_none() && bounds.opened <= row.at && row.at < bounds.closed;
    for row in scrapes.iter().filter(open) {
        let gauge = |name: &str| row.metrics.get(name).copied();
        let told = ["requests_running", "requests_waiting", "kv_cache_usage"].map(gauge);
        if told.iter().all(Option::is_none) {
            continue;
        }
        let [running, waiting, kv_cache_usage] = told;
        let largest = by_slice.entry(cut.place(row.at)).or_default();
        *largest = ServerSample {
            at_s: largest.at_s.max(cut.at_s(row.at)),
            running: larger(largest.running, running),
            waiting: larger(largest.waiting, waiting),
            kv_cache_usage: larger(largest.kv_cache_usage, kv_cache_usage),
        };
    }
    by_slice.into_values().collect()
}

fn larger(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.into_iter().chain(b).reduce(f64::max)
}
