//! A long window slice by slice, from what its rows left and what was sampled beside them.

use super::client::Health;
use super::window_tally::verdict;
use crate::analysis::definitions::soak;
use crate::analysis::definitions::{steadiness::Drift, wording};
use crate::analysis::exhibits::slices::{Course, Cut, Part};
use crate::rundir::row::Row;
use crate::rundir::run_json::{Distribution, Metrics, Throughput, Verdict, VerdictKind};
use crate::rundir::scrape::ScrapeRow;
use crate::rundir::soak::{Soak, SoakSlice};
use crate::rundir::window::WindowRow;

/// What is kept of a window on its way to slices; only of those that are long enough.
pub(super) struct Soaking {
    cut: Cut,
    course: Course,
}

impl Soaking {
    pub(super) fn of(bounds: &WindowRow) -> Option<Soaking> {
        let length = soak::slice_ns(bounds.closed.saturating_sub(bounds.opened))?;
        let cut = Cut::every(bounds, length);
        Some(Soaking { cut, course: Course::new(cut).without(Part::Lateness) })
    }

    /// Takes a row that was sent, or tried.
    pub(super) fn take(&mut self, row: &Row, closed: u64) {
        self.course.take(row, closed);
    }

    /// What it was like; `metrics` and `throughput` are those that are published.
    pub(super) fn finish(
        self,
        bounds: &WindowRow,
        health: &Health,
        metrics: &Metrics,
        throughput: &Throughput,
        verdicts: &mut Vec<Verdict>,
    ) -> Soak {
        let cut = self.cut;
        let mut memory: Vec<Option<u64>> = vec![None; cut.slices()];
        for (t, bytes) in health.resident(bounds) {
            let most = &mut memory[cut.place(t)];
            *most = (*most).max(Some(bytes));
        }
        // what is withheld of the whole is told of no part
        let told = |column: &Option<Distribution>, of: fn(&Distribution) -> Option<f64>| {
            column.as_ref().is_some_and(|column| of(column).is_some())
        };
        let [gross, net] =
            [&metrics.ttft.gross, &metrics.ttft.net].map(|c| [told(c, |d| d.p50_ms), told(c, |d| d.p95_ms)]);
        let slices: Vec<SoakSlice> = self
            .course
            .finish(bounds)
            .into_iter()
            .zip(&memory)
            .map(|(slice, rss)| SoakSlice {
                from_s: slice.from_s,
                sent: slice.sent,
                ok: slice.ok,
                failed: slice.failed,
                ttft_gross_p50_ms: slice.ttft_gross_p50_ms.filter(|_| gross[0]),
                ttft_gross_p95_ms: slice.ttft_gross_p95_ms.filter(|_| gross[1]),
                ttft_net_p50_ms: slice.ttft_net_p50_ms.filter(|_| net[0]),
                ttft_net_p95_ms: slice.ttft_net_p95_ms.filter(|_| net[1]),
                output_tokens_per_s: slice.output_tokens_per_s,
                client_rss_bytes: *rss,
                server_waiting: None,
                server_kv_cache_usage: None,
            })
            .collect();
        let slice_s = cut.length_s();
        let whole = |slice: &&SoakSlice| {
            let span = throughput.from_s.zip(throughput.to_s);
            span.is_some_and(|(from, to)| from <= slice.from_s && slice.from_s + slice_s <= to)
        };
        let rated: Vec<&SoakSlice> = slices.iter().filter(whole).collect();
        let rates: Vec<Option<f64>> = rated.iter().map(|slice| slice.output_tokens_per_s).collect();
        let (trend, changes) = soak::rate(&rates, rated.first().map_or(0.0, |slice| slice.from_s), slice_s);
        let flag = |figure: f64, text| verdict("throughput", "*", VerdictKind::Flag, Some(figure), text);
        if let Some(t) = trend.filter(|t| t.drift == Drift::Drifting) {
            let (share, ends) = (t.share_per_10_min.unwrap_or_default(), t.share_per_10_min_ci.unwrap_or_default());
            verdicts.push(flag(share, wording::rate_drifting(t.per_10_min, share, ends, t.p)));
        }
        if !changes.is_empty() {
            let words: Vec<_> = changes.iter().map(|c| (c.at_s, c.before, c.after)).collect();
            verdicts.push(flag(changes.len() as f64, wording::rate_changed(&words)));
        }
        Soak {
            slice_s,
            slices,
            throughput: trend,
            throughput_changes: changes,
            client_memory: soak::client_memory(&memory),
        }
    }
}

/// The server's own gauges, of scrapes that were answered: the largest of each slice.
pub(super) fn add_server(soak: &mut Soak, bounds: &WindowRow, answered: &[ScrapeRow]) {
    let Some(length) = soak::slice_ns(bounds.closed.saturating_sub(bounds.opened)) else { return };
    let cut = Cut::every(bounds, length);
    let larger = |a: Option<f64>, b: Option<&f64>| a.into_iter().chain(b.copied()).reduce(f64::max);
    for row in answered.iter().filter(|row| bounds.opened <= row.at && row.at < bounds.closed) {
        let slice = &mut soak.slices[cut.place(row.at)];
        slice.server_waiting = larger(slice.server_waiting, row.metrics.get("requests_waiting"));
        slice.server_kv_cache_usage = larger(slice.server_kv_cache_usage, row.metrics.get("kv_cache_usage"));
    }
}
