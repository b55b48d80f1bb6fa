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

    /// Those that were answered, in order of time.
    pub(super) fn answered(&self) -> &[ScrapeRow] {
        &self.answered
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
        // of a window that closed before it opened there is none
        let after = after.filter(|after| *after >= before).ok_or(NoCounters::NoneAfter)?;
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

#[cfg(test)]
mod tests {
    use crate::analysis::specimen::{MS, Specimen, scrape};
    use crate::analysis::summary::summarise;
    use crate::rundir::run_json::{RunJson, ServerActivity, Window};
    use crate::rundir::scrape::ScrapeRow;

    /// Two windows of 30 requests, from 100 to 410 ms and from 1,100 to 1,410 ms.
    fn run(scrapes: Vec<ScrapeRow>) -> RunJson {
        let dir = tempfile::tempdir().unwrap();
        let mut specimen = Specimen::two_windows();
        (specimen.scrapes, specimen.plan["model"]) = (scrapes, "m".into());
        specimen.write(dir.path());
        summarise(dir.path()).unwrap()
    }

    fn finished(counts: &[(u64, f64)]) -> Vec<ScrapeRow> {
        counts.iter().map(|(ms, n)| scrape(ms * MS, &[("requests_finished", *n)])).collect()
    }

    fn windows(run: &RunJson) -> [&ServerActivity; 2] {
        [0, 1].map(|i| run.cells[0].windows[i].server.as_ref().unwrap())
    }

    fn of_server(window: &Window) -> Vec<&str> {
        window.verdicts.iter().filter(|v| v.metric == "server").map(|v| v.text.as_str()).collect()
    }

    #[test]
    fn counters_between_two_scrapes_and_gauges_within() {
        let all = |finished: f64, tokens: f64, ttft: (f64, f64), running: f64| {
            [
                ("requests_finished", finished),
                ("generation_tokens", tokens),
                ("ttft_sum_s", ttft.0),
                ("ttft_count", ttft.1),
                ("requests_running", running),
                ("prefix_cache_queries", tokens * 2.0),
                ("prefix_cache_hits", tokens),
            ]
        };
        let mut scrapes = vec![
            scrape(50 * MS, &all(1_000.0, 5_000.0, (10.0, 1_000.0), 9.0)),
            scrape(200 * MS, &all(1_010.0, 5_030.0, (10.05, 1_010.0), 1.0)),
            scrape(300 * MS, &all(1_020.0, 5_060.0, (10.1, 1_020.0), 4.0)),
            scrape(420 * MS, &all(1_030.0, 5_090.0, (10.15, 1_030.0), 7.0)),
            scrape(1_420 * MS, &all(1_060.0, 5_180.0, (10.15, 1_030.0), 0.0)),
        ];
        (scrapes[1].rtt_us, scrapes[2].rtt_us) = (Some(40), Some(30));
        let mut lost = scrape(310 * MS, &[]);
        (lost.error, lost.cell, lost.window) = (Some("HTTP 500".into()), Some(0), Some(0));
        scrapes.insert(3, lost);
        let run = run(scrapes);
        let [first, second] = windows(&run);
        assert_eq!((first.scrapes, first.scrapes_failed, first.span_s), (2, 1, Some(0.37)));
        assert_eq!((first.requests_sent, first.requests_finished, first.requests_beyond_ours), (30, Some(30), Some(0)));
        assert_eq!((first.generation_tokens, first.prompt_tokens), (Some(90), None));
        assert_eq!(first.prefix_cache_hit_share, Some(0.5));
        assert!(first.ttft_mean_ms.is_some_and(|ms| (ms - 5.0).abs() < 1e-9), "{first:?}");
        assert_eq!((first.running_max, first.waiting_max), (Some(4.0), None));
        assert_eq!((first.rtt_min_us, first.rtt_max_us), (Some(30), Some(40)));
        // nothing was observed, so that there is no mean; and no scrape while it was open
        assert_eq!((second.ttft_mean_ms, second.running_max, second.requests_finished), (None, None, Some(30)));
        assert!(run.cells[0].windows.iter().all(|w| of_server(w).is_empty()));
    }

    #[test]
    fn other_traffic_contaminates_the_window_it_falls_into() {
        let run = run(finished(&[(50, 0.0), (420, 30.0), (1_420, 72.0)]));
        assert_eq!(windows(&run).map(|s| s.requests_beyond_ours), [Some(0), Some(12)]);
        assert!(of_server(&run.cells[0].windows[0]).is_empty());
        let [text] = of_server(&run.cells[0].windows[1])[..] else { panic!("one verdict") };
        assert!(text.starts_with("contaminated: the server finished 42 requests while 30 were sent"), "{text}");
    }

    #[test]
    fn requests_of_an_earlier_window_may_be_finished_later() {
        let late = run(finished(&[(50, 0.0), (420, 28.0), (1_420, 60.0)]));
        assert_eq!(windows(&late).map(|s| s.requests_beyond_ours), [Some(0), Some(0)]);
        // but not more of them than were left over
        let more = run(finished(&[(50, 0.0), (420, 28.0), (1_420, 61.0)]));
        assert_eq!(windows(&more).map(|s| s.requests_beyond_ours), [Some(0), Some(1)]);
    }

    #[test]
    fn a_counter_that_fell_is_not_known() {
        let of = |ms: u64, finished: f64, tokens: f64| {
            scrape(ms * MS, &[("requests_finished", finished), ("generation_tokens", tokens)])
        };
        let fell = run(vec![of(50, 900.0, 5.0), of(200, 3.0, 6.0), of(420, 990.0, 9.0), of(1_420, 1_020.0, 99.0)]);
        let [first, second] = windows(&fell);
        assert_eq!(
            (first.requests_finished, first.requests_beyond_ours, first.generation_tokens),
            (None, None, Some(4))
        );
        assert_eq!((first.resets.as_slice(), second.resets.len()), (&["requests_finished".to_owned()][..], 0));
        assert_eq!(second.requests_finished, Some(30));
        let start =
            |ms: u64, n: f64, at: f64| scrape(ms * MS, &[("requests_finished", n), ("process_start_time_s", at)]);
        let anew = run(vec![start(50, 0.0, 1e9), start(420, 30.0, 2e9), start(1_420, 60.0, 2e9)]);
        assert_eq!(windows(&anew).map(|s| s.requests_finished), [None, Some(30)]);
        assert!(of_server(&anew.cells[0].windows[0])[0].contains("started anew"));
        assert!(of_server(&anew.cells[0].windows[1]).is_empty());
    }

    #[test]
    fn without_a_scrape_on_either_side_there_are_no_counters() {
        let why = |scrapes: Vec<ScrapeRow>| windows(&run(scrapes)).map(|s| s.no_counters.clone().unwrap_or_default());
        let [first, second] = why(finished(&[(99, 0.0), (420, 30.0)]));
        assert_eq!(
            (first.as_str(), second.as_str()),
            ("/metrics was not answered before the window", "/metrics was not answered after the window",)
        );
        // the first ends when the window is open already
        let [first, second] = why(finished(&[(97, 0.0), (1_200, 30.0), (1_420, 60.0)]));
        assert!(first.contains("another window had opened") && second.contains("another window"), "{first} {second}");
        assert!(run(Vec::new()).cells[0].windows[0].server.is_none());
    }

    #[test]
    fn answers_in_another_name_are_flagged() {
        let mut specimen = Specimen::two_windows();
        specimen.plan["model"] = "m".into();
        for (row, name) in specimen.windows[1].1.iter_mut().skip(5).zip([Some("x\n"), Some("y"), None]) {
            row.model_echo = name.map(str::to_owned);
        }
        let dir = tempfile::tempdir().unwrap();
        specimen.write(dir.path());
        let run = summarise(dir.path()).unwrap();
        let [first, second] = [0, 1].map(|i| &run.cells[0].windows[i]);
        assert_eq!(first.model_echoes.iter().map(|(n, k)| (n.as_str(), *k)).collect::<Vec<_>>(), [("m", 27)]);
        assert_eq!(second.model_echoes.values().sum::<u64>(), 26);
        let words = |w: &Window| w.verdicts.iter().find(|v| v.metric == "model").map(|v| v.text.clone());
        assert_eq!(words(first), None);
        let text = words(second).unwrap();
        let start = "2 of 27 ok requests were answered in the name of \"x \" and 1 more, not of \"m\"";
        assert!(text.starts_with(start), "{text}");
    }
}
