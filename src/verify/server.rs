//! The server's counters once more: from the lines of `server-metrics.jsonl` as plain JSON, each window by itself.

use serde_json::{Map, Value, json};

use super::raw::number;
use super::soak;
use crate::analysis::definitions::server::{
    COUNTERS, PROCESS_START, beyond_ours, count, counted_per_request, grown, mean_ms,
};
use crate::analysis::definitions::wording::{self, NoCounters};
use crate::analysis::definitions::{seconds, share};
use crate::rundir::row::{Outcome, Row};

/// Requests of which bytes were sent, each of its tries counted.
pub(super) fn attempts(rows: &[Row]) -> u64 {
    let sent = rows.iter().filter(|r| r.outcome != Outcome::NotSent && r.submit.is_some());
    sent.map(|r| 1 + u64::from(r.retries)).sum()
}

/// `model` of the ok requests' replies, and the verdict when it is not the one asked for.
pub(super) fn echoes(ok: &[&Row], plan: &Value) -> (Value, Option<Value>) {
    let mut names: Vec<&str> = ok.iter().filter_map(|r| r.model_echo.as_deref()).collect();
    names.sort_unstable();
    let mut found = Map::new();
    let mut others: Vec<(&str, usize)> = Vec::new();
    for same in names.chunk_by(|a, b| a == b) {
        found.insert(same[0].to_owned(), json!(same.len()));
        if plan["model"].as_str().is_some_and(|asked| asked != same[0]) {
            others.push((same[0], same.len()));
        }
    }
    let answers = others.iter().map(|(_, n)| *n as u64).sum::<u64>();
    let verdict = others.first().map(|(name, _)| {
        let asked = plan["model"].as_str().unwrap_or_default();
        let text = wording::other_model(answers, ok.len() as u64, name, others.len() - 1, asked);
        flag("model", Some(answers as f64), &text)
    });
    (Value::Object(found), verdict)
}

/// Puts the server's part into each of the `figures`; `sent` are the attempts of each window, in the same order.
pub(super) fn complete(windows: &[Value], sent: &[u64], scrapes: &[Value], plan: &Value, figures: &mut [&mut Value]) {
    if scrapes.is_empty() {
        return;
    }
    for (index, figures) in figures.iter_mut().enumerate() {
        soak::add_server(figures, &windows[index], scrapes);
        let recount = Recount { windows, sent, scrapes, index, each: counted_per_request(plan) };
        let (activity, verdicts) = recount.window();
        figures["server"] = activity;
        if let Some(list) = figures["verdicts"].as_array_mut() {
            list.extend(verdicts);
        }
    }
}

struct Recount<'a> {
    windows: &'a [Value],
    sent: &'a [u64],
    scrapes: &'a [Value],
    index: usize,
    each: u64,
}

impl<'a> Recount<'a> {
    fn answered(&self) -> impl DoubleEndedIterator<Item = &'a Value> {
        self.scrapes.iter().filter(|s| s["error"].is_null())
    }

    fn window(&self) -> (Value, Vec<Value>) {
        let line = &self.windows[self.index];
        let (opened, closed) = (number(line, "opened"), number(line, "closed"));
        let during: Vec<&Value> = self.answered().filter(|s| (opened..closed).contains(&number(s, "at"))).collect();
        let highest = |name: &str| {
            let values = during.iter().filter_map(|s| metric(s, name));
            values.fold(None, |most: Option<f64>, v| Some(most.map_or(v, |m| m.max(v))))
        };
        let mut round_trips: Vec<u64> = during.iter().filter_map(|s| s["rtt_us"].as_u64()).collect();
        round_trips.sort_unstable();
        let ours = |s: &&Value| !s["error"].is_null() && s["cell"] == line["cell"] && s["window"] == line["window"];
        let sent = self.sent[self.index] * self.each;
        let mut verdicts = Vec::new();
        let mut counted = Counted::default();
        let no_counters = match self.between() {
            Err(why) => Some(why.to_string()),
            Ok(between) => {
                counted = Counted::of(&between);
                if let Some(finished) = counted.of[0] {
                    let (earlier, already) = self.earlier(between[0]);
                    let beyond = beyond_ours(finished, sent, earlier, already);
                    counted.beyond = Some(beyond);
                    if beyond > 0 {
                        let text = wording::contaminated(beyond, finished, sent);
                        verdicts.push(flag("server", Some(beyond as f64), &text));
                    }
                }
                if restarted(&between) {
                    verdicts.push(flag("server", None, &wording::server_restarted()));
                }
                None
            }
        };
        let [finished, prompts, generated, preempted, queries, hits] = counted.of;
        let activity = json!({
            "scrapes": during.len(),
            "scrapes_failed": self.scrapes.iter().filter(ours).count(),
            "span_s": counted.span_s,
            "no_counters": no_counters,
            "resets": counted.resets,
            "requests_sent": sent,
            "requests_finished": finished,
            "requests_beyond_ours": counted.beyond,
            "prompt_tokens": prompts,
            "generation_tokens": generated,
            "preemptions": preempted,
            "prefix_cache_queries": queries,
            "prefix_cache_hits": hits,
            "prefix_cache_hit_share": hits.and_then(|hits| share(hits, queries?)),
            "ttft_mean_ms": counted.ttft_mean_ms,
            "queue_mean_ms": counted.queue_mean_ms,
            "running_max": highest("requests_running"),
            "waiting_max": highest("requests_waiting"),
            "kv_cache_usage_max": highest("kv_cache_usage"),
            "rtt_min_us": round_trips.first(),
            "rtt_max_us": round_trips.last(),
        });
        (activity, verdicts)
    }

    /// The scrape before, those that lie between, and the scrape after.
    fn between(&self) -> Result<Vec<&'a Value>, NoCounters> {
        let line = &self.windows[self.index];
        let (opened, closed) = (number(line, "opened"), number(line, "closed"));
        let before =
            self.answered().filter(|s| ended(s) <= opened).count().checked_sub(1).ok_or(NoCounters::NoneBefore)?;
        let after = self.answered().filter(|s| number(s, "at") < closed).count();
        let all: Vec<&Value> = self.answered().collect();
        let last = *all.get(after).filter(|_| after >= before).ok_or(NoCounters::NoneAfter)?;
        let (from, to) = (number(all[before], "at"), ended(last));
        for (place, other) in self.windows.iter().enumerate() {
            if place != self.index && number(other, "closed") > from && number(other, "opened") < to {
                return Err(NoCounters::OtherWindow);
            }
        }
        Ok(all[before..=after].to_vec())
    }

    /// Requests sent between the start of the unbroken count of finished requests that leads up to `before` and that
    /// scrape, and how many of them were finished.
    fn earlier(&self, before: &Value) -> (u64, u64) {
        let finished = |s: &Value| metric(s, "requests_finished");
        let mut start = before;
        for scrape in self.answered().rev().skip_while(|s| number(s, "at") > number(before, "at")).skip(1) {
            match finished(scrape).zip(finished(start)) {
                Some((then, later)) if then <= later => start = scrape,
                _ => break,
            }
        }
        let (from, to) = (number(start, "at"), number(before, "at"));
        let inside = |line: &Value| from < number(line, "closed") && number(line, "closed") <= to;
        let sent: u64 =
            self.windows.iter().zip(self.sent).filter(|(line, _)| inside(line)).map(|(_, n)| n * self.each).sum();
        let grew = finished(start).zip(finished(before)).and_then(|(then, now)| grown(then, now));
        (sent, grew.map_or(0, count))
    }
}

/// What was counted between two scrapes.
#[derive(Default)]
struct Counted {
    /// In the order of [`COUNTERS`].
    of: [Option<u64>; 6],
    resets: Vec<&'static str>,
    beyond: Option<u64>,
    span_s: Option<f64>,
    ttft_mean_ms: Option<f64>,
    queue_mean_ms: Option<f64>,
}

impl Counted {
    fn of(between: &[&Value]) -> Self {
        let [first, .., last] = between else { return Counted::default() };
        let mut resets = Vec::new();
        let mut growth = |name: &'static str| {
            let (then, now) = (metric(first, name)?, metric(last, name)?);
            let values: Vec<f64> = between.iter().filter_map(|s| metric(s, name)).collect();
            if values.windows(2).any(|pair| pair[1] < pair[0]) || restarted(between) {
                resets.push(name);
                return None;
            }
            grown(then, now)
        };
        let of = COUNTERS.map(|name| growth(name).map(count));
        let [ttft_s, ttfts] = ["ttft_sum_s", "ttft_count"].map(&mut growth);
        let [queue_s, queues] = ["queue_sum_s", "queue_count"].map(&mut growth);
        Counted {
            of,
            resets,
            beyond: None,
            span_s: Some(seconds(number(last, "at").saturating_sub(number(first, "at")))),
            ttft_mean_ms: mean_ms(ttft_s.unwrap_or_default(), ttfts.unwrap_or_default()).filter(|_| ttft_s.is_some()),
            queue_mean_ms: mean_ms(queue_s.unwrap_or_default(), queues.unwrap_or_default())
                .filter(|_| queue_s.is_some()),
        }
    }
}

fn restarted(between: &[&Value]) -> bool {
    let starts: Vec<f64> = between.iter().filter_map(|s| metric(s, PROCESS_START)).collect();
    starts.windows(2).any(|pair| pair[0] != pair[1])
}

fn metric(scrape: &Value, name: &str) -> Option<f64> {
    scrape["metrics"][name].as_f64()
}

fn ended(scrape: &Value) -> u64 {
    number(scrape, "at").saturating_add(number(scrape, "took_ns"))
}

fn flag(metric: &str, figure: Option<f64>, text: &str) -> Value {
    json!({"metric": metric, "column": "*", "percentile": null, "kind": "flag", "figure": figure, "text": text})
}
