//! Boxes 10 to 12: what was sent, and to which model.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::facts::{Sheet, plural, range, scalar, short};
use super::{Answer, Status};
use crate::analysis::definitions::labels::UNIFORM_VARIATION;
use crate::analysis::definitions::{share, wording};
use crate::analysis::statistics::token_counts::TokenCounts;
use crate::report::quantity::count;
use crate::report::sessions::{not_whole, noun, parts, reasoning};
use crate::rundir::disclosed::ClassLengths;
use crate::rundir::sessions::{LeftOutCounts, Sessions, TurnFigures};

/// Lengths of one class over all windows.
#[derive(Default)]
struct Realised<'a> {
    requests: u64,
    windows: Vec<&'a ClassLengths>,
}

fn classes<'a>(sheet: &'a Sheet<'_>) -> Vec<(&'a str, Realised<'a>)> {
    let mut found: BTreeMap<&str, Realised<'a>> = BTreeMap::new();
    for (name, class) in sheet.run.cells.iter().flat_map(|c| &c.windows).flat_map(|w| &w.lengths) {
        let known = found.entry(name).or_default();
        known.requests += class.requests;
        known.windows.push(class);
    }
    let mut classes: Vec<(&str, Realised<'a>)> = found.into_iter().collect();
    classes.sort_by_key(|(_, class)| std::cmp::Reverse(class.requests));
    classes
}

/// From the smallest p10 of a window to the largest p90; the extremes where there are too few for those.
fn span(counts: impl Iterator<Item = TokenCounts>) -> Option<String> {
    let ends = counts.flat_map(|c| [c.p10.unwrap_or(c.min as f64), c.p90.unwrap_or(c.max as f64)]);
    range(ends, |tokens| count(tokens.round() as u64))
}

/// Box 10.
pub(super) fn lengths(sheet: &Sheet<'_>) -> Answer {
    let classes = classes(sheet);
    let kept: u64 = classes.iter().map(|(_, c)| c.requests).sum();
    if kept == 0 {
        return Answer::empty("no request was kept, so no length was realised");
    }
    let told: u64 = classes.iter().flat_map(|(_, c)| &c.windows).filter_map(|w| w.prompt).map(|p| p.n).sum();
    let words = |(name, class): &(&str, Realised<'_>)| {
        let part = share(class.requests, kept).map_or_else(String::new, wording::percent);
        let side = |realised: fn(&ClassLengths) -> Option<TokenCounts>,
                    asked: fn(&ClassLengths) -> Option<TokenCounts>| {
            let asked = span(class.windows.iter().filter_map(|w| asked(w))).unwrap_or_else(|| "?".into());
            match span(class.windows.iter().filter_map(|w| realised(w))) {
                Some(realised) => format!("{realised} (asked {asked})"),
                None => format!("unknown (asked {asked})"),
            }
        };
        let (prompt, output) = (side(|c| c.prompt, |c| c.asked_prompt), side(|c| c.output, |c| c.asked_output));
        format!("{part} {}: prompt {prompt}, output {output}", short(name))
    };
    let list: Vec<String> = classes.iter().map(words).collect();
    let realised = format!("tokens as the server counted them, p10 to p90: {}", list.join(", "));
    let asked = format!("tokens as asked for, the server told none: {}", list.join(", "));
    let windows = || sheet.run.cells.iter().flat_map(|c| &c.windows);
    let of = |w: &crate::rundir::run_json::Window| w.disclosed.prompt_variation.or(w.disclosed.asked_prompt_variation);
    let variations: Vec<f64> = windows().filter_map(of).collect();
    let spread = range(variations.iter().copied(), |cv| format!("{cv:.2}"));
    let spread = match spread {
        None => String::new(),
        Some(cv) if variations.iter().all(|cv| *cv < UNIFORM_VARIATION) => {
            format!(
                "all prompts are of nearly one length (coefficient of variation {cv}): no pile-up of long and short was tried"
            )
        }
        Some(cv) => format!("coefficient of variation of the prompts {cv}"),
    };
    let seed = sheet.plan.pointer("/workload/seed").and_then(Value::as_u64);
    let seed = seed.map_or_else(String::new, |seed| format!("order and lengths from seed {seed}"));
    let per_class: BTreeMap<&str, Value> = classes
        .iter()
        .map(|(name, class)| {
            (*name, json!({"requests": class.requests, "share": share(class.requests, kept), "windows": class.windows}))
        })
        .collect();
    let mut values = json!({"classes": per_class, "prompt_variation": variations, "usage_told": told, "kept": kept});
    let found = sheet.sessions();
    if !found.is_empty() {
        values["by_turn"] = json!(found.iter().map(|s| lengths_by_turn(s)).collect::<Vec<_>>());
        values["left_out"] = json!(found.iter().map(|s| s.counts.left_out).collect::<Vec<_>>());
    }
    let (turns, left_out) = (turns(&found), left_out(&found));
    match told {
        0 => Answer::new(Status::NotVerifiable, [asked, turns, left_out, spread, seed], values),
        _ => Answer::new(Status::Measured, [realised, turns, left_out, spread, seed], values),
    }
}

/// Most turns that a sentence names.
const TURNS: usize = 4;

/// How many turns there were, and how prompts grew over them.
fn turns(found: &[&Sessions]) -> String {
    let Some(first) = found.first() else { return String::new() };
    let most = found.iter().filter_map(|s| Some(s.by_turn.last()?.turn)).max().unwrap_or(0);
    let of = |turn: u32| {
        let here = found.iter().filter_map(|s| s.by_turn.iter().find(|t| t.turn == turn));
        let means = range(here.filter_map(|t| t.prompt_tokens_mean), |mean| count(mean.round() as u64))?;
        Some(format!("{turn}: {means}"))
    };
    // the first ones, and the last
    let places = (1..=most).filter(|turn| (*turn as usize) < TURNS || *turn == most);
    let list: Vec<String> = places.filter_map(of).collect();
    let grown = match list.is_empty() {
        true => ", of prompts that the server did not count".to_string(),
        false => format!(", mean prompt tokens by turn {}", list.join(", ")),
    };
    let grown = grown.replace("by turn", &format!("by {}", parts(first.kind, 1)));
    format!("{} of up to {}{grown}", noun(first.kind), plural(most.into(), parts(first.kind, 1)))
}

/// What the histories of later turns lack.
fn left_out(found: &[&Sessions]) -> String {
    let all = found.iter().fold(LeftOutCounts::default(), |sum, s| sum.and(&s.counts.left_out));
    let told: Vec<String> = not_whole(&all).into_iter().chain(reasoning(&all)).collect();
    told.join("; ")
}

fn lengths_by_turn(found: &Sessions) -> Value {
    let turn = |t: &TurnFigures| json!({"turn": t.turn, "sent": t.sent, "prompt_tokens_mean": t.prompt_tokens_mean, "completion_tokens_mean": t.completion_tokens_mean});
    Value::Array(found.by_turn.iter().take(MOST_TURNS).map(turn).collect())
}

/// Most turns among the values of a box; all are in `run.json`.
const MOST_TURNS: usize = 100;

/// Box 11.
pub(super) fn sampling(sheet: &Sheet<'_>) -> Answer {
    if sheet.sum(|w| w.requests.sent) == 0 {
        return Answer::empty("no request was sent");
    }
    let extra = &sheet.plan["extra_body"];
    // a field of --extra-body takes the place of ours
    let field = |name: &str| if extra[name].is_null() { &sheet.plan[name] } else { &extra[name] };
    let known = |name: &str| scalar(field(name)).unwrap_or_else(|| "not recorded".into());
    let number = |name: &str| match field(name).as_f64() {
        Some(value) => format!("{value}"),
        None => known(name),
    };
    let settings = format!("temperature {}, top_p {}", number("temperature"), number("top_p"));
    let classes = classes(sheet);
    let cap_of = |(name, class): &(&str, Realised<'_>)| {
        let asked = class.windows.iter().filter_map(|w| w.asked_output);
        let ends = asked.flat_map(|a| [a.min as f64, a.max as f64]);
        Some(format!("{} ({})", range(ends, |n| count(n as u64))?, short(name)))
    };
    let caps: Vec<String> = classes.iter().filter_map(cap_of).collect();
    let over = ["max_tokens", "max_completion_tokens"].into_iter().find_map(|name| scalar(&extra[name]));
    let caps = match over {
        Some(cap) => format!("cap of {cap} output tokens by --extra-body"),
        None if caps.is_empty() => String::new(),
        None => format!("caps of {} output tokens", caps.join(", ")),
    };
    let ignored = if sheet.plan["ignore_eos"] == true { "ignore_eos set".to_string() } else { String::new() };
    let others: Vec<String> = extra.as_object().into_iter().flatten().map(|(key, _)| short(key)).collect();
    let others =
        if others.is_empty() { String::new() } else { format!("more fields of the body: {}", others.join(", ")) };
    let ok = sheet.sum(|w| w.requests.ok);
    let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
    for window in sheet.run.cells.iter().flat_map(|c| &c.windows) {
        for (reason, part) in &window.finish_reasons {
            *reasons.entry(reason).or_default() += (part * window.requests.ok as f64).round() as u64;
        }
    }
    let part = |n: u64| share(n, ok).map_or_else(|| "-".into(), wording::percent);
    let list: Vec<String> = reasons.iter().map(|(reason, n)| format!("{} by {}", part(*n), short(reason))).collect();
    let ended = match list.is_empty() {
        true => "no reply ended, so there is no finish reason".to_string(),
        false => format!("{} ended: {}", replies(ok, "ok "), list.join(", ")),
    };
    let values = json!({
        "temperature": field("temperature"), "top_p": field("top_p"), "ignore_eos": sheet.plan["ignore_eos"],
        "extra_body": extra, "ok": ok, "finish_reasons": reasons,
    });
    Answer::new(Status::Measured, [settings, caps, ignored, others, ended], values)
}

/// What a server may tell of itself that pins a model down, and of its precision.
const TELLING: [&str; 16] = [
    "engine",
    "version",
    "build",
    "image",
    "model_path",
    "model_root",
    "model_revision",
    "dtype",
    "quantization",
    "kv_cache_dtype",
    "max_model_len",
    "tensor_parallel",
    "prefix_caching",
    "parameters",
    "device",
    "gpus",
];
const PRECISION: [&str; 3] = ["dtype", "quantization", "precision"];

/// Box 12.
pub(super) fn model(sheet: &Sheet<'_>) -> Answer {
    if sheet.environment("/built_in_mock") == true {
        let told = "no model: the built-in mock, which serves a known timeline".to_string();
        return Answer::new(Status::Measured, [told], json!({"built_in_mock": true}));
    }
    let server = sheet.environment("/server");
    let Some(id) = sheet.plan["model"].as_str() else {
        return Answer::empty("the model id that was asked for is not recorded");
    };
    let asked = format!("asked for \"{}\"", short(id));
    let listed = server.pointer("/models_document/data").and_then(Value::as_array).into_iter().flatten();
    let entry = listed.clone().find(|m| m["id"] == id);
    let list = match (entry, listed.count()) {
        (Some(entry), _) => {
            let facts = ["root", "parent", "max_model_len", "owned_by"].into_iter();
            let facts: Vec<String> = facts.filter_map(|key| Some(format!("{key} {}", scalar(&entry[key])?))).collect();
            let facts = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
            format!("/v1/models lists it{facts}")
        }
        (None, 0) => "/v1/models told nothing".to_string(),
        (None, n) => format!("/v1/models lists {} and not this one", plural(n as u64, "model")),
    };
    let mut echoes: BTreeMap<String, u64> = BTreeMap::new();
    let places = sheet.places();
    for (name, n) in places.iter().flat_map(|p| &p.window.model_echoes) {
        *echoes.entry(name.clone()).or_default() += n;
    }
    let others: Vec<String> = echoes
        .iter()
        .filter(|(name, n)| *name != id && **n > 0)
        .map(|(name, n)| format!("\"{}\" in {}", short(name), count(*n)))
        .collect();
    let echoed: u64 = echoes.values().sum();
    let echo = match (echoed, others.is_empty()) {
        (0, _) => String::new(),
        (n, true) => format!("{} so named", replies(n, "")),
        (_, false) => format!("REPLIES NAME ANOTHER MODEL: {}", others.join(", ")),
    };
    let tells = |key: &str| {
        let fact = server.pointer(&format!("/facts/{key}/value")).and_then(scalar);
        fact.or_else(|| scalar(&server[key])).or_else(|| nested(&server[key], key))
    };
    let told: Vec<String> =
        TELLING.iter().filter_map(|key| Some(format!("{} {}", key.replace('_', " "), tells(key)?))).collect();
    let header = scalar(&server["server"]).map(|name| format!("Server header {name}"));
    let told: Vec<String> = told.into_iter().chain(header).collect();
    let said = if told.is_empty() {
        "the server tells nothing of itself".to_string()
    } else {
        format!("the server says {}", told.join(", "))
    };
    let known = PRECISION.iter().any(|key| tells(key).is_some());
    let declared = ["precision", "quantisation"].iter().any(|key| sheet.said(key).is_some());
    let (status, missing) = match (known && others.is_empty(), declared) {
        (true, _) => (Status::Measured, "weights and hardware cannot be checked from here"),
        (false, true) => (Status::Declared, ""),
        (false, false) => (Status::NotVerifiable, "precision, quantisation and hardware cannot be known from here"),
    };
    let values = json!({
        "model": id, "listed": entry, "echoes": echoes, "echo_differs": !others.is_empty(),
        "version": server["version"], "server": server["server"],
    });
    Answer::new(status, [asked, list, echo, said, missing.to_string()], values)
}

/// `1 ok reply`, `300 ok replies`.
fn replies(n: u64, kind: &str) -> String {
    format!("{} {kind}{}", count(n), if n == 1 { "reply" } else { "replies" })
}

/// `{"version": "0.32.0"}` as some servers answer.
fn nested(value: &Value, key: &str) -> Option<String> {
    scalar(value.get(key)?)
}
