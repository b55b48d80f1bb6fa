//! What the server counted, window by window.

use serde_json::Value;

use crate::analysis::definitions::server::{
    COUNTERS, OF_MEANS, PROCESS_START, beyond_ours, count, counted_per_request, grown, mean_ms,
};
use crate::analysis::definitions::wording::{self, NoCounters};
use crate::analysis::definitions::{seconds, share};
use crate::rundir::run_json::{ServerActivity, Verdict, VerdictKind};
use crate::rundir::scrape::ScrapeRow;
use crate::rundir::window::WindowRow;

/// Scrapes that were answered, in their order, and the windows they lie between.
pub(super) struct Scrapes {
    answered: Vec<ScrapeRow>,
    failed: Vec<(Option<u32>, Option<u32>)>,
    counted_per_request: u64,
}

/// A window and the requests sent in it, retries included.
#[derive(Clone, Copy)]
pub(super) struct Sent<'a> {
    pub(super) bounds: &'a WindowRow,
    pub(super) attempts: u64,
}

impl Scrapes {
    pub(super) fn new(rows: Vec<ScrapeRow>, plan: &Value) -> Self {
        let (failed, answered): (Vec<ScrapeRow>, _) = rows.into_iter().partition(|row| row.error.is_some());
        let failed = failed.iter().map(|row| (row.cell, row.window)).collect();
        Scrapes { answered, failed, counted_per_request: counted_per_request(plan) }
    }

    /// The server's part in `windows[index]`, and what a reader must know of it.
    pub(super) fn activity(&self, windows: &[Sent<'_>], index: usize) -> Option<(ServerActivity, Vec<Verdict>)> {
        if self.answered.is_empty() && self.failed.is_empty() {
            return None;
        }
        let Sent { bounds, attempts } = windows[index];
        let place = (Some(bounds.cell), Some(bounds.window));
        let open = |row: &&ScrapeRow| bounds.opened <= row.at && row.at < bounds.closed;
        let during: Vec<&ScrapeRow> = self.answered.iter().filter(open).collect();
        let most = |name: &str| during.iter().filter_map(|row| row.metrics.get(name)).copied().reduce(f64::max);
        let round_trips = || during.iter().filter_map(|row| row.rtt_us).map(u64::from);
        let mut activity = ServerActivity {
            scrapes: during.len() as u64,
            scrapes_failed: self.failed.iter().filter(|failed| **failed == place).count() as u64,
            requests_sent: attempts * self.counted_per_request,
            running_max: most("requests_running"),
            waiting_max: most("requests_waiting"),
            kv_cache_usage_max: most("kv_cache_usage"),
            rtt_min_us: round_trips().min(),
            rtt_max_us: round_trips().max(),
            ..ServerActivity::default()
        };
        let mut verdicts = Vec::new();
        match self.around(windows, index) {
            Err(why) => activity.no_counters = Some(why.to_string()),
            Ok((before, after)) => {
                self.count(&mut activity, before, after);
                if let Some(finished) = activity.requests_finished {
                    let (earlier, finished_earlier) = self.left_over(windows, before);
                    let beyond = beyond_ours(finished, activity.requests_sent, earlier, finished_earlier);
                    activity.requests_beyond_ours = Some(beyond);
                    if beyond > 0 {
                        let text = wording::contaminated(beyond, finished, activity.requests_sent);
                        verdicts.push(flag(Some(beyond as f64), text));
                    }
                }
                if self.restarted(before, after) {
                    verdicts.push(flag(None, wording::server_restarted()));
                }
            }
        }
        Some((activity, verdicts))
    }

    /// Places of the scrape before and of the one after.
    fn around(&self, windows: &[Sent<'_>], index: usize) -> Result<(usize, usize), NoCounters> {
        let bounds = windows[index].bounds;
        let before = self.answered.iter().rposition(|row| row.ended() <= bounds.opened);
        let after = self.answered.iter().position(|row| row.at >= bounds.closed);
        let before = before.ok_or(NoCounters::NoneBefore)?;
        let after = after.ok_or(NoCounters::NoneAfter)?;
        let (from, to) = (self.answered[before].at, self.answered[after].ended());
        let between = |other: &WindowRow| other.closed > from && other.opened < to;
        let others = windows.iter().enumerate().filter(|(place, _)| *place != index);
        match others.into_iter().any(|(_, other)| between(other.bounds)) {
            true => Err(NoCounters::OtherWindow),
            false => Ok((before, after)),
        }
    }

    fn count(&self, activity: &mut ServerActivity, before: usize, after: usize) {
        let between = &self.answered[before..=after];
        let (first, last) = (&between[0], &between[between.len() - 1]);
        let anew = self.restarted(before, after);
        let mut grew = |name: &str| {
            let ends = first.metrics.get(name).zip(last.metrics.get(name))?;
            let mut known = between.iter().filter_map(|row| row.metrics.get(name));
            if anew || !known.by_ref().is_sorted() {
                activity.resets.push(name.to_owned());
                return None;
            }
            grown(*ends.0, *ends.1)
        };
        let [finished, prompts, generated, preempted, queries, hits] = COUNTERS.map(|name| grew(name).map(count));
        let [ttft_s, ttfts, queue_s, queues] = OF_MEANS.map(grew);
        activity.span_s = Some(seconds(last.at.saturating_sub(first.at)));
        activity.requests_finished = finished;
        activity.prompt_tokens = prompts;
        activity.generation_tokens = generated;
        activity.preemptions = preempted;
        activity.prefix_cache_queries = queries;
        activity.prefix_cache_hits = hits;
        activity.prefix_cache_hit_share = hits.zip(queries).and_then(|(hits, queries)| share(hits, queries));
        activity.ttft_mean_ms = ttft_s.zip(ttfts).and_then(|(sum, n)| mean_ms(sum, n));
        activity.queue_mean_ms = queue_s.zip(queues).and_then(|(sum, n)| mean_ms(sum, n));
    }

    fn restarted(&self, before: usize, after: usize) -> bool {
        let starts = self.answered[before..=after].iter().filter_map(|row| row.metrics.get(PROCESS_START));
        let mut starts = starts.copied();
        let first = starts.next();
        starts.any(|start| Some(start) != first)
    }

    /// Requests sent, and requests finished, between `before` and the earliest scrape since which the server has
    /// counted without a break.
    fn left_over(&self, windows: &[Sent<'_>], before: usize) -> (u64, u64) {
        let finished = |row: &ScrapeRow| row.metrics.get("requests_finished").copied();
        let mut first = before;
        while first > 0
            && finished(&self.answered[first - 1]).is_some_and(|n| Some(n) <= finished(&self.answered[first]))
        {
            first -= 1;
        }
        let (first, before) = (&self.answered[first], &self.answered[before]);
        let since = windows.iter().filter(|w| w.bounds.closed > first.at && w.bounds.closed <= before.at);
        let sent: u64 = since.map(|w| w.attempts).sum();
        let grew = finished(first).zip(finished(before)).and_then(|(a, b)| grown(a, b)).map_or(0, count);
        (sent * self.counted_per_request, grew)
    }
}

fn flag(figure: Option<f64>, text: String) -> Verdict {
    Verdict { metric: "server".into(), column: "*".into(), percentile: None, kind: VerdictKind::Flag, figure, text }
}
