//! The labels of a campaign, from its windows as they were measured.

use serde_json::Value;

use super::fitness;
use crate::analysis::definitions::labels::{
    CACHE_HELPED, CACHE_SHARE, CLIENT_LIMITED, FEW_KEPT, LOOPBACK, NOT_COMPLETE, ONE_LOAD, ONE_USER, OVERLOAD_GATE,
    SHORT, SHORT_S, UNIFORM, UNIFORM_VARIATION, of_work,
};
use crate::analysis::definitions::share;
use crate::rundir::run_json::{Cell, Window};

/// In the order in which titles have them.
pub(super) fn of(plan: &Value, cells: &[Cell], complete: bool) -> Vec<String> {
    let windows: Vec<&Window> = cells.iter().flat_map(|cell| &cell.windows).collect();
    let any = |holds: fn(&Window) -> bool| windows.iter().any(|w| holds(w));
    let labels = [
        (LOOPBACK, is_loopback(plan)),
        (ONE_USER, windows.iter().map(|w| at_once(w)).max() == Some(1)),
        (ONE_LOAD, one_load(cells)),
        (UNIFORM, uniform(&windows)),
        (SHORT, any(|w| w.duration_s < SHORT_S || w.requests.kept < FEW_KEPT)),
        (CACHE_HELPED, cache_helped(&windows)),
        (CLIENT_LIMITED, any(client_limited)),
        (NOT_COMPLETE, !complete),
    ];
    let measured = labels.iter().filter(|(_, holds)| *holds).map(|(label, _)| (*label).to_string());
    of_work(plan).into_iter().chain(measured).collect()
}

/// Requests, or where requests are turns, sessions.
fn at_once(window: &Window) -> u64 {
    window.sessions.as_ref().map_or(window.in_flight.max, |found| found.at_once.max)
}

/// As the environment says, else by the host in `base_url`.
fn is_loopback(plan: &Value) -> bool {
    if let Some(said) = plan.pointer("/environment/loopback").and_then(Value::as_bool) {
        return said;
    }
    let url = plan.get("base_url").and_then(Value::as_str).unwrap_or_default();
    let host = url.split_once("://").map_or(url, |(_, rest)| rest);
    ["127.", "localhost", "[::1]"].iter().any(|prefix| host.starts_with(prefix))
}

fn one_load(cells: &[Cell]) -> bool {
    let answered = |cell: &&Cell| cell.windows.iter().any(|w| w.requests.ok > 0);
    let mut loads: Vec<_> = cells.iter().filter(answered).map(|cell| &cell.load).collect();
    loads.dedup();
    loads.len() == 1 || (loads.is_empty() && cells.len() == 1)
}

fn uniform(windows: &[&Window]) -> bool {
    let of = |w: &&Window| w.disclosed.prompt_variation.or(w.disclosed.asked_prompt_variation);
    let known: Vec<f64> = windows.iter().filter_map(of).collect();
    !known.is_empty() && known.iter().all(|cv| *cv < UNIFORM_VARIATION)
}

/// By the usage of the requests that reported it, or by the server's own counters; of sessions by their first turns.
fn cache_helped(windows: &[&Window]) -> bool {
    let first = windows.iter().filter_map(|w| w.sessions.as_ref()?.by_turn.iter().find(|turn| turn.turn == 1));
    if first.filter_map(|turn| turn.cached_share).any(|share| share >= CACHE_SHARE) {
        return true;
    }
    let windows: Vec<&Window> = windows.iter().copied().filter(|w| w.sessions.is_none()).collect();
    let sum = |of: &dyn Fn(&Window) -> Option<u64>| windows.iter().filter_map(|w| of(w)).fold(0, u64::saturating_add);
    let told = share(sum(&|w| w.disclosed.cached.tokens), sum(&|w| w.disclosed.cached.prompt_tokens));
    let hits = sum(&|w| w.server.as_ref()?.prefix_cache_hits);
    let counted = share(hits, sum(&|w| w.server.as_ref()?.prefix_cache_queries));
    told.is_some_and(|s| s >= CACHE_SHARE) || counted.is_some_and(|s| s >= CACHE_SHARE)
}

fn client_limited(window: &Window) -> bool {
    let gates: Vec<_> = window.client.gates.iter().filter(|g| g.gate != OVERLOAD_GATE).cloned().collect();
    fitness::voids(&gates, "gross")
}
