//! Boxes 4 to 6: was it warm. What was slow at first is told, never silently left out.

use serde_json::{Value, json};

use super::facts::{Place, Sheet, load, plural, range, scalar};
use super::{Answer, Status};
use crate::analysis::definitions::labels::CACHE_SHARE;
use crate::analysis::definitions::{share, wording};
use crate::report::quantity::{count, latency};
use crate::report::sessions::parts;
use crate::rundir::disclosed::FirstSent;
use crate::rundir::row::Outcome;
use crate::rundir::run_json::{ServerActivity, Window};
use crate::rundir::sessions::Sessions;
use crate::workload::cache::Cache;

/// A first call is slow when it took more than so many kept medians.
const SLOW: f64 = 2.0;

fn kept_median(window: &Window) -> Option<f64> {
    window.metrics.ttft.gross.as_ref()?.p50_ms
}

/// Box 4.
pub(super) fn slow_first_calls(sheet: &Sheet<'_>) -> Answer {
    let places = sheet.places();
    if sheet.sum(|w| w.requests.sent) == 0 {
        return Answer::empty("no request was sent");
    }
    let medians = range(places.iter().filter_map(|p| kept_median(p.window)), latency);
    let kept = medians.unwrap_or_else(|| "not known or withheld".to_string());
    let dropped = sheet.sum(|w| w.requests.dropped);
    let of = |p: &Place<'_>| p.window.disclosed.dropped;
    let ids: Vec<(u64, u64)> = places.iter().filter_map(|p| of(p).first_id.zip(of(p).last_id)).collect();
    let values = json!({
        "dropped": dropped,
        "first_id": ids.iter().map(|i| i.0).min(), "last_id": ids.iter().map(|i| i.1).max(),
        "dropped_ttft_gross_p50_ms": places.iter().map(|p| of(p).ttft_gross_p50_ms).collect::<Vec<_>>(),
        "dropped_ttft_gross_max_ms": places.iter().map(|p| of(p).ttft_gross_max_ms).collect::<Vec<_>>(),
        "kept_ttft_gross_p50_ms": places.iter().map(|p| kept_median(p.window)).collect::<Vec<_>>(),
    });
    if let (Some(first), Some(last)) = (ids.iter().map(|i| i.0).min(), ids.iter().map(|i| i.1).max()) {
        let which = format!(
            "trace ids {first} to {last} were dropped in {} ({}), by id and not by speed; their rows are kept",
            if ids.len() == 1 { "the window".to_string() } else { format!("each of {} windows", ids.len()) },
            plural(dropped, "request"),
        );
        // what a gate withholds must not look as if it had been looked at
        let known = places.iter().filter(|p| of(p).ttft_gross_p50_ms.is_some()).count();
        let told = match known == ids.len() {
            true => String::new(),
            false => format!(" (told in {known} of {} windows)", ids.len()),
        };
        let slowest = places.iter().filter_map(|p| Some((of(p).ttft_gross_max_ms?, p)));
        let slowest = slowest.max_by(|a, b| a.0.total_cmp(&b.0));
        let slow = match (range(places.iter().filter_map(|p| of(p).ttft_gross_p50_ms), latency), slowest) {
            (Some(p50), Some((ms, p))) => format!(
                "their ttft gross{told}: medians {p50}, slowest {} (at {}), against medians of the kept of {kept}",
                latency(ms),
                load(&p.cell.load),
            ),
            _ => format!("their ttft is not known or withheld; medians of the kept: {kept}"),
        };
        return Answer::new(Status::Measured, [which, slow], values);
    }
    // nothing was dropped: how much of what is slow at first is in the figures?
    let slow = |p: &Place<'_>| {
        let median = kept_median(p.window)?;
        let first = p.window.first_requests.iter().filter_map(|r| r.ttft_gross_ms);
        Some(first.filter(|ms| *ms > SLOW * median).count() as u64)
    };
    let slow: u64 = places.iter().filter_map(slow).sum();
    let first: u64 = places.iter().map(|p| p.window.first_requests.len() as u64).sum();
    let told = format!(
        "{} of the {} (the first ten ids of each window) took more than {SLOW:.0} times the median of ttft gross ({kept})",
        count(slow),
        plural(first, "first call"),
    );
    Answer::new(
        Status::Measured,
        ["nothing was dropped: slow first calls are in the figures".to_string(), told],
        values,
    )
}

/// Box 5. Absent is not 0.
pub(super) fn cache(sheet: &Sheet<'_>) -> Answer {
    let (sent, kept) = (sheet.sum(|w| w.requests.sent), sheet.sum(|w| w.requests.kept));
    if sent == 0 {
        return Answer::empty("no request was sent");
    }
    let shared = sheet.sum(|w| w.disclosed.shared_beginnings);
    let mode = sheet.plan["workload"]["cache"].as_str().and_then(|words| words.parse().ok()).unwrap_or(Cache::Unique);
    let found = sheet.sessions();
    let beginnings = match (mode, shared) {
        (Cache::Unique, 0) if !found.is_empty() => format!(
            "each of the {} begins with a nonce that no other of its window has",
            crate::report::sessions::noun(found[0].kind)
        ),
        _ if !found.is_empty() => {
            let first = format!("first {}", parts(found[0].kind, 1));
            format!("{} begin as another one of their window does", plural(shared, &first))
        }
        (Cache::Unique, 0) => {
            format!("each of {} begins with a nonce that no other of its window has", plural(sent, "prompt"))
        }
        _ => format!("{} of {} begin as another one of their window does", count(shared), plural(sent, "prompt")),
    };
    let seed = sheet.plan["workload"]["seed"].as_u64().map_or_else(String::new, |seed| format!(" (seed {seed})"));
    let meant = match mode {
        Cache::Unique => String::new(),
        Cache::SharedPrefix { tokens } => format!(
            "CACHE TEST: the first {} of all prompts of a window are the same{seed}, others in the warm-up and in every other window",
            plural(tokens, "token")
        ),
        Cache::Repeat => format!(
            "CACHE TEST: all measured prompts of a window are one text{seed}, another one in every window and none of the warm-up's"
        ),
        Cache::AsIs => format!(
            "prompts are as the file has them{seed}, the same in every window and every run: whoever sent them before may have warmed the cache"
        ),
    };
    let [reported, hit] = [sheet.sum(|w| w.disclosed.cached.reported), sheet.sum(|w| w.disclosed.cached.hit)];
    let tokens = sheet.sum(|w| w.disclosed.cached.tokens.unwrap_or(0));
    let prompt = sheet.sum(|w| w.disclosed.cached.prompt_tokens.unwrap_or(0));
    let cached_share = share(tokens, prompt);
    let usage = match reported {
        0 => format!("no reply of {} told cached_tokens, which does not mean 0", count(kept)),
        n => format!(
            "cached_tokens told on {} of {} replies: {} of {} prompt tokens ({}), more than 0 on {}",
            count(n),
            count(kept),
            count(tokens),
            count(prompt),
            cached_share.map_or_else(|| "-".to_string(), wording::percent),
            plural(hit, "request"),
        ),
    };
    let server = |of: fn(&ServerActivity) -> Option<u64>| {
        let known = sheet.places().into_iter().filter_map(|p| of(p.window.server.as_ref()?));
        known.reduce(u64::saturating_add)
    };
    let (hits, queries) = (server(|s| s.prefix_cache_hits), server(|s| s.prefix_cache_queries));
    let counters = match (hits, queries) {
        (Some(hits), Some(queries)) if queries > 0 => format!(
            "by the server's own counters {} of {} asked tokens were in its prefix cache ({})",
            count(hits),
            count(queries),
            wording::percent(hits as f64 / queries as f64)
        ),
        (Some(hits), _) if hits > 0 => {
            format!("by the server's own counters its prefix cache was hit {} times", count(hits))
        }
        (Some(_), Some(_)) => "by its own counters the server's prefix cache was not asked".to_string(),
        _ => String::new(),
    };
    let told = [cached_share, share(hits.unwrap_or(0), queries.unwrap_or(0))].into_iter().flatten();
    // that a turn finds its own history is what sessions are about: what a first turn finds is not
    let most = match found.is_empty() {
        true => told.fold(0.0, f64::max),
        false => found.iter().filter_map(|s| s.by_turn.iter().find(|t| t.turn == 1)?.cached_share).fold(0.0, f64::max),
    };
    let by_turn = cached_by_turn(&found);
    let warning = match most >= CACHE_SHARE {
        true if !found.is_empty() => format!(
            "WARNING: the cache saved {} of the prompt tokens of first {}, which have no history: they were shorter for what \
             others had sent",
            wording::percent(most),
            parts(found[0].kind, 2)
        ),
        true => format!(
            "WARNING: the cache saved {} of the prompt tokens, and latencies are shorter for it",
            wording::percent(most)
        ),
        false => String::new(),
    };
    let status = match (reported > 0 || hits.is_some(), sheet.said("cache")) {
        (true, _) => Status::Measured,
        (false, Some(_)) => Status::Declared,
        (false, None) => Status::NotVerifiable,
    };
    let cannot = match status {
        Status::NotVerifiable => "whether a cache helped cannot be told from here".to_string(),
        _ => String::new(),
    };
    let mut values = json!({
        "cache": mode.to_string(), "shared_beginnings": shared, "sent": sent, "kept": kept, "reported": reported, "hit": hit,
        "cached_tokens": (reported > 0).then_some(tokens), "prompt_tokens": (reported > 0).then_some(prompt),
        "cached_share": cached_share, "server_hits": hits, "server_queries": queries,
    });
    if !found.is_empty() {
        let shares =
            |s: &&Sessions| s.by_turn.iter().take(MOST_TURNS).map(|t| json!(t.cached_share)).collect::<Vec<Value>>();
        values["cached_share_by_turn"] = json!(found.iter().map(shares).collect::<Vec<_>>());
    }
    Answer::new(status, [meant, beginnings, usage, by_turn, counters, warning, cannot], values)
}

/// Most turns among the values of a box; all are in `run.json`.
const MOST_TURNS: usize = 100;

/// What each turn found of its history; empty where requests stand alone.
fn cached_by_turn(found: &[&Sessions]) -> String {
    let Some(last) = found.iter().filter_map(|s| Some(s.by_turn.last()?.turn)).max() else { return String::new() };
    let of = |turn: u32| {
        let here = found.iter().filter_map(|s| s.by_turn.iter().find(|t| t.turn == turn)?.cached_share);
        Some(format!("{turn}: {}", range(here, wording::percent)?))
    };
    let list: Vec<String> = (1..=last).filter(|turn| *turn < 4 || *turn == last).filter_map(of).collect();
    let turn = parts(found[0].kind, 1);
    let history = format!("a later {turn} begins with what was said before, which a cache is meant to find");
    match list.is_empty() {
        true => history,
        false => format!("{history}: cached share of the prompts by {turn} {}", list.join(", ")),
    }
}

/// Box 6.
pub(super) fn first_hit(sheet: &Sheet<'_>) -> Answer {
    let earliest = |of: &dyn Fn(&Window) -> Option<FirstSent>| {
        let found = sheet.places().into_iter().filter_map(|p| Some((of(p.window)?, p)));
        found
            .min_by(|a, b| a.0.sent_s.total_cmp(&b.0.sent_s).then(a.0.trace_id.cmp(&b.0.trace_id)))
            .map(|(first, p)| (first, load(&p.cell.load), kept_median(p.window)))
    };
    let Some((first, at, median)) = earliest(&|w| w.disclosed.first_sent) else {
        return Answer::empty("no request was sent");
    };
    let times = |ms: Option<f64>, median: Option<f64>| ms.zip(median).filter(|m| m.1 > 0.0).map(|(ms, m)| ms / m);
    let ratio = times(first.ttft_gross_ms, median);
    let beside = ratio.map_or_else(String::new, |r| format!(", {r:.1} times the median of the kept in its window"));
    let hidden = if first.dropped { "dropped as warm-up, its row kept" } else { "kept in the figures" };
    let told =
        format!("the first request of all (id {}, {at}, {hidden}): {}{beside}", first.trace_id, time_of(&first),);
    let cold = earliest(&|w| w.disclosed.first_cold);
    let connection = match &cold {
        None => "none opened a connection".to_string(),
        Some((cold, at, _)) => {
            let same = cold.trace_id == first.trace_id && cold.sent_s == first.sent_s;
            let connect = cold.connect_ms.map_or_else(String::new, |ms| format!(" (TCP handshake {})", latency(ms)));
            match same {
                true => format!("it was also the first on a new connection{connect}"),
                false => {
                    format!("the first on a new connection{connect} was id {}, {at}: {}", cold.trace_id, time_of(cold))
                }
            }
        }
    };
    let started = scalar(sheet.environment("/server/started_at"));
    let server = match (&started, sheet.said("restarted")) {
        (Some(at), _) => {
            let age = sheet.environment("/server/age_s").as_f64();
            let age = age.map_or_else(String::new, |s| format!(", {s:.0} s before this campaign"));
            format!("the server says that it runs since {at}{age}")
        }
        (None, Some(_)) => String::new(),
        (None, None) => "since when the server runs is not known".to_string(),
    };
    // they are in no row, and the server was asked all the same
    let before = match sheet.plan["gauge"]["requests"].as_u64() {
        None | Some(0) => String::new(),
        Some(n) => format!("before it {} had shown how this server counts tokens", plural(n, "short request")),
    };
    let values = json!({
        "length_probe_requests": sheet.plan["gauge"]["requests"],
        "first": first, "first_over_median": ratio, "first_cold": cold.as_ref().map(|c| c.0),
        "server_started_at": sheet.environment("/server/started_at"), "server_age_s": sheet.environment("/server/age_s"), "restarted": sheet.said("restarted").map(Value::from),
    });
    Answer::new(Status::Measured, [told, before, connection, server], values)
}

fn time_of(first: &FirstSent) -> String {
    match (first.outcome, first.ttft_gross_ms, first.ttft_net_ms) {
        (Outcome::Failed, ..) => "it failed".to_string(),
        (Outcome::Censored, ..) => "it was cut off".to_string(),
        (_, Some(ms), _) => format!("ttft {} gross", latency(ms)),
        (_, None, Some(ms)) => format!("ttft {} net (gross is withheld)", latency(ms)),
        (_, None, None) => "its ttft is not known or withheld".to_string(),
    }
}
