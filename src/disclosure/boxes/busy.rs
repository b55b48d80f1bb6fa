//! Boxes 7 to 9: how busy the system was, and for how long.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::facts::{Place, Sheet, load, plural, range, short};
use super::{Answer, Status};
use crate::analysis::definitions::labels::SHORT_S;
use crate::analysis::definitions::soak::drift;
use crate::injection::Injection;
use crate::report::quantity::{count, latency, rate};
use crate::rundir::run_json::{Cell, SteadyMetric, Window};
use crate::rundir::soak::Soak;
use crate::rundir::window::{LoadModel, SessionKind};

/// Box 7.
pub(super) fn one_user_or_a_crowd(sheet: &Sheet<'_>) -> Answer {
    let places = sheet.places();
    let most = places.iter().map(|p| p.window.in_flight.max).max().unwrap_or(0);
    if most == 0 {
        return Answer::empty("no request was in flight");
    }
    let models: Vec<&str> = sheet.run.cells.iter().map(|c| model(sheet, c)).collect();
    let kind = match models.split_first() {
        Some((first, rest)) if rest.iter().all(|m| m == first) => (*first).to_string(),
        _ => "closed and open loop".to_string(),
    };
    let of_cell = |cell: &Cell| {
        let means = cell.windows.iter().filter_map(|w| w.in_flight.mean);
        let mean = range(means, |mean| rate(Some(mean))).unwrap_or_else(|| "-".into());
        format!("{} at {}", mean, load(&cell.load))
    };
    let levels: Vec<String> = sheet.run.cells.iter().map(of_cell).collect();
    let found = sheet.sessions();
    let under_way = found.iter().map(|s| s.at_once.max).max();
    let of_sessions = match (found.first(), under_way) {
        (Some(first), Some(most)) => {
            let means = range(found.iter().filter_map(|s| s.at_once.mean), |mean| rate(Some(mean)));
            let of = crate::report::sessions::noun(first.kind);
            let means = means.map_or_else(String::new, |means| format!(", mean of each window {means}"));
            format!("{of} under way, pauses included: at most {}{means}", count(most))
        }
        _ => String::new(),
    };
    let crowd = match most {
        1 if under_way > Some(1) => "never more than 1 request at the same time".to_string(),
        1 => "one user only: never more than 1 request".to_string(),
        n => format!("at most {} at the same time", count(n)),
    };
    let cells: Vec<Value> = sheet
        .run
        .cells
        .iter()
        .map(|c| json!({"cell": c.cell, "load": c.load, "in_flight": c.windows.iter().map(|w| w.in_flight).collect::<Vec<_>>()}))
        .collect();
    let measured = format!("{kind}; requests in flight as measured, mean of each window: {}", levels.join(", "));
    let mut values = json!({"most": most, "cells": cells});
    if !found.is_empty() {
        values["sessions_at_once"] = json!(found.iter().map(|s| s.at_once).collect::<Vec<_>>());
    }
    Answer::new(Status::Measured, [measured, of_sessions, crowd], values)
}

fn model<'a>(sheet: &'a Sheet<'_>, cell: &Cell) -> &'a str {
    if cell.load.model == LoadModel::Closed {
        return "closed loop";
    }
    if let Some(asked) = &cell.load.sessions {
        return match asked.kind {
            SessionKind::Chat => "partly open: sessions arrive, their turns follow the replies",
            SessionKind::Chain => "partly open: tasks arrive, their calls follow the replies",
        };
    }
    let planned = &sheet.plan["cells"][cell.cell as usize];
    let varying = planned["law"]["name"] == "varying";
    match planned["arrivals"].as_str() {
        Some("poisson") if varying => "open loop, Poisson arrivals at a rate that changes",
        Some("gamma") if varying => "open loop, gamma arrivals at a rate that changes",
        Some("even") if varying => "open loop, even arrivals at a rate that changes",
        Some("poisson") => "open loop, Poisson arrivals",
        Some("gamma") => "open loop, gamma arrivals",
        Some("even") => "open loop, even arrivals",
        Some("batches") => "open loop, batches",
        Some("at_once") => "open loop, all at once",
        _ if cell.load.model == LoadModel::Trace => "captured trace",
        _ => "open loop",
    }
}

/// Box 8: only loads at which something was answered count.
pub(super) fn only_the_easy_load(sheet: &Sheet<'_>) -> Answer {
    let answered = |cell: &&Cell| cell.windows.iter().any(|w| w.requests.ok > 0);
    let mut shown: Vec<&Cell> = Vec::new();
    for cell in sheet.run.cells.iter().filter(answered) {
        if shown.iter().all(|known| known.load != cell.load) {
            shown.push(cell);
        }
    }
    let many = match shown.len() {
        0 => return Answer::empty("nothing was answered at any load"),
        1 => "one load only".to_string(),
        2 => "2 loads only".to_string(),
        n => format!("{n} loads side by side"),
    };
    // one column for all: gross of one window beside net of another would look like a spread
    let gross = |w: &Window| w.metrics.ttft.gross.as_ref()?.p50_ms;
    let net = |w: &Window| w.metrics.ttft.net.as_ref()?.p50_ms;
    let windows = || shown.iter().flat_map(|cell| &cell.windows).filter(|w| w.requests.ok > 0);
    let by_net = windows().any(|w| gross(w).is_none()) && windows().any(|w| net(w).is_some());
    let named = if by_net { " net" } else { "" };
    let of_cell = |cell: &&Cell| {
        let p50 = |w: &Window| if by_net { net(w) } else { gross(w) };
        let p50 = range(cell.windows.iter().filter_map(p50), latency);
        let e2e = range(cell.windows.iter().filter_map(|w| w.metrics.e2e.gross.as_ref()?.p50_ms), latency);
        match (p50, e2e) {
            (Some(p50), _) => format!("{} (ttft p50{named} {p50})", load(&cell.load)),
            (None, Some(e2e)) => format!("{} (e2e p50 {e2e})", load(&cell.load)),
            (None, None) => format!("{} (latency withheld)", load(&cell.load)),
        }
    };
    let list: Vec<String> = shown.iter().map(of_cell).collect();
    let silent = sheet.run.cells.len() - sheet.run.cells.iter().filter(answered).count();
    let silent = match silent {
        0 => String::new(),
        n => format!("at {} nothing was answered", plural(n as u64, "load")),
    };
    let loads: Vec<_> = shown.iter().map(|c| &c.load).collect();
    Answer::new(
        Status::Measured,
        [format!("{many}: {}", list.join(", ")), silent],
        json!({"loads": loads, "enough": shown.len() >= 3}),
    )
}

/// Box 9, which the seed's list lacks.
pub(super) fn how_long(sheet: &Sheet<'_>) -> Answer {
    let places = sheet.places();
    if places.is_empty() {
        return Answer::empty("no window was closed");
    }
    let seconds = |s: f64| format!("{s:.1} s");
    let lengths = || places.iter().map(|p| p.window.duration_s);
    let span = range(lengths(), seconds).unwrap_or_default();
    let total: f64 = lengths().sum();
    let cut = places.iter().filter(|p| p.window.interrupted).count();
    let cut = if cut > 0 { format!(", {cut} of them cut short") } else { String::new() };
    let duration = format!("{} of {span}{cut}, {total:.1} s in all", plural(places.len() as u64, "window"));
    let below = lengths().filter(|s| *s < SHORT_S).count();
    let too_short = match below {
        0 => String::new(),
        n if n == places.len() => format!("all below {SHORT_S:.0} s: what comes after minutes is not seen"),
        n => format!("{n} of them below {SHORT_S:.0} s"),
    };
    let mut verdicts: BTreeMap<String, u64> = BTreeMap::new();
    places.iter().for_each(|p| *verdicts.entry(p.window.steady.ttft.drift.to_string()).or_default() += 1);
    let list: Vec<String> = verdicts.iter().map(|(words, n)| format!("{words} ({})", plural(*n, "window"))).collect();
    let stability = format!("drift of ttft: {}", list.join(", "));
    let ratio = |p: &Place<'_>| p.window.steady.ttft.thirds.and_then(|thirds| thirds.ratio);
    let thirds = range(places.iter().filter_map(ratio), |r| format!("{r:.2}"))
        .map_or_else(String::new, |r| format!("last third over first third of each window, median ttft: {r}"));
    let soaks = || places.iter().filter_map(|p| p.window.soak.as_ref().map(|soak| (p.window, soak)));
    let mut by_drift: BTreeMap<String, u64> = BTreeMap::new();
    soaks().for_each(|(window, soak)| {
        *by_drift.entry(drift(window.steady.drift, soak.throughput).to_string()).or_default() += 1;
    });
    let list: Vec<String> = by_drift.iter().map(|(words, n)| format!("{words} ({n})")).collect();
    let changes = |(w, s): (&Window, &Soak)| {
        let of = |m: &SteadyMetric| m.change_points.len() + m.p95_change_points.len();
        of(&w.steady.ttft) + of(&w.steady.e2e) + s.throughput_changes.len()
    };
    let soak = match soaks().count() as u64 {
        0 => String::new(),
        n => format!(
            "in slices ({}): latency and throughput {}, {}",
            plural(n, "window"),
            list.join(", "),
            plural(soaks().map(changes).sum::<usize>() as u64, "change") + " of level",
        ),
    };
    let injections: Vec<Injection> = serde_json::from_value(sheet.plan["injections"].clone()).unwrap_or_default();
    let list: Vec<String> = injections.iter().map(|injection| short(&injection.to_string())).collect();
    let on_purpose = match list.is_empty() {
        true => String::new(),
        false => format!("ON PURPOSE in every window: {}", list.join(", ")),
    };
    let mut values = json!({
        "seconds": lengths().collect::<Vec<_>>(), "total_s": total, "below_120_s": below, "drift": verdicts,
        "thirds_ratio": places.iter().map(ratio).collect::<Vec<_>>(),
    });
    if soaks().next().is_some() {
        values["soak_drift"] = json!(by_drift);
    }
    if !injections.is_empty() {
        values["injections"] = sheet.plan["injections"].clone();
    }
    Answer::new(Status::Measured, [duration, too_short, on_purpose, stability, thirds, soak], values)
}
