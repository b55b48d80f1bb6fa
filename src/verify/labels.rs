//! The labels a second time, from the recomputed windows as plain JSON.

use serde_json::Value;

use crate::analysis::definitions::labels;

/// `labels` of `run.json`.
pub(super) fn of(plan: &Value, cells: &[Value], complete: bool) -> Vec<String> {
    let windows: Vec<&Value> = cells.iter().flat_map(|c| c["windows"].as_array().into_iter().flatten()).collect();
    let mut found = Vec::from_iter(labels::of_work(plan));
    let mut add = |label: &str, holds: bool| found.extend(holds.then(|| label.to_owned()));
    let url = plan["base_url"].as_str().unwrap_or("");
    let host = url.split_once("://").unwrap_or(("", url)).1;
    let by_host = host.starts_with("127.") || host.starts_with("localhost") || host.starts_with("[::1]");
    add(labels::LOOPBACK, plan["environment"]["loopback"].as_bool().unwrap_or(by_host));
    let at_once = |w: &Value| match &w["sessions"] {
        Value::Null => w["in_flight"]["max"].as_u64(),
        found => found["at_once"]["max"].as_u64(),
    };
    let most = windows.iter().filter_map(|w| at_once(w)).max();
    add(labels::ONE_USER, most == Some(1));
    add(labels::ONE_LOAD, one_load(cells));
    add(labels::UNIFORM, uniform(&windows));
    let short = |w: &&Value| {
        w["duration_s"].as_f64().is_some_and(|s| s < labels::SHORT_S)
            || w["requests"]["kept"].as_u64().is_some_and(|n| n < labels::FEW_KEPT)
    };
    add(labels::SHORT, windows.iter().any(short));
    add(labels::CACHE_HELPED, cache_helped(&windows));
    add(labels::CLIENT_LIMITED, windows.iter().any(|w| client_limited(w)));
    add(labels::NOT_COMPLETE, !complete);
    found
}

fn one_load(cells: &[Value]) -> bool {
    let answers =
        |c: &Value| c["windows"].as_array().into_iter().flatten().any(|w| w["requests"]["ok"].as_u64() > Some(0));
    let mut loads: Vec<String> = cells.iter().filter(|c| answers(c)).map(|c| c["load"].to_string()).collect();
    loads.dedup();
    match loads.len() {
        0 => cells.len() == 1,
        n => n == 1,
    }
}

fn uniform(windows: &[&Value]) -> bool {
    let mut known = false;
    for window in windows {
        let facts = &window["disclosed"];
        match facts["prompt_variation"].as_f64().or(facts["asked_prompt_variation"].as_f64()) {
            Some(cv) if cv >= labels::UNIFORM_VARIATION => return false,
            Some(_) => known = true,
            None => {}
        }
    }
    known
}

fn cache_helped(windows: &[&Value]) -> bool {
    let turns = windows.iter().flat_map(|w| w["sessions"]["by_turn"].as_array().into_iter().flatten());
    let mut first = turns.filter(|turn| turn["turn"] == 1).filter_map(|turn| turn["cached_share"].as_f64());
    let by_accident = first.any(|share| share >= labels::CACHE_SHARE);
    let windows: Vec<&Value> = windows.iter().copied().filter(|w| w["sessions"].is_null()).collect();
    let sum = |name: &str| {
        let counts = windows.iter().filter_map(|w| w["disclosed"]["cached"][name].as_u64());
        counts.fold(0, u64::saturating_add) as f64
    };
    let server = |name: &str| windows.iter().filter_map(|w| w["server"][name].as_f64()).sum::<f64>();
    let at_least = |part: f64, whole: f64| whole > 0.0 && part / whole >= labels::CACHE_SHARE;
    by_accident
        || at_least(sum("tokens"), sum("prompt_tokens"))
        || at_least(server("prefix_cache_hits"), server("prefix_cache_queries"))
}

fn client_limited(window: &Value) -> bool {
    let void = |g: &&Value| g["state"] == "void" && g["gate"] != "net_width" && g["gate"] != labels::OVERLOAD_GATE;
    let gates = window["client"]["gates"].as_array().into_iter().flatten().filter(void);
    gates.flat_map(|g| g["voids"].as_array().into_iter().flatten()).any(|column| column == "gross")
}
