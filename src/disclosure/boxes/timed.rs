//! Boxes 1 to 3: what was timed. When one of them is empty, there is no report.

use serde_json::json;

use super::facts::{Fault, Sheet, plural};
use super::{Answer, Status};
use crate::analysis::definitions::wording;
use crate::report::quantity::{count, percent};
use crate::rundir::run_json::{NoiseGaps, Requests};
use crate::rundir::sessions::SessionCounts;

/// Box 1.
pub(super) fn which_event(sheet: &Sheet<'_>) -> Answer {
    let sum = |of: fn(&crate::rundir::disclosed::Disclosed) -> u64| sheet.sum(|w| of(&w.disclosed));
    let (ok, kept) = (sheet.sum(|w| w.requests.ok), sheet.sum(|w| w.requests.kept));
    let (first, answer) = (sum(|d| d.timed.first_token), sum(|d| d.timed.first_answer));
    let (later, last) = (sum(|d| d.timed.answer_later), sum(|d| d.timed.last_token));
    let (kernel, user) = (sum(|d| d.kernel_stamped), sum(|d| d.user_stamped));
    if first + last == 0 {
        return Answer::empty(format!("nothing was timed: of {} not one was answered", plural(kept, "kept request")));
    }
    let events = match first {
        0 => format!("not streamed: e2e (the whole answer) of {}, no first token", plural(last, "request")),
        _ => format!("ttft ends at the first token in any channel ({}), e2e at the last", plural(first, "request")),
    };
    let answers = match later {
        0 => String::new(),
        n => format!("{} of {} showed the first visible answer later: ttfo times it apart", count(n), count(answer)),
    };
    let kernel_words = match (kernel, user) {
        (0, _) => "without kernel stamps, so net is not known".to_string(),
        (_, 0) => format!("the kernel's own stamps (net) on all {}", plural(kernel, "kept request")),
        _ => format!("the kernel's own stamps (net) on {} of {}", count(kernel), plural(kept, "kept request")),
    };
    let clock = format!("timed on this machine: CLOCK_MONOTONIC at the return of the read (gross), {kernel_words}");
    let values = json!({
        "ok": ok, "first_token": first, "first_answer": answer, "answer_later": later, "last_token": last,
        "clock": "CLOCK_MONOTONIC", "kernel_stamped": kernel, "user_stamped": user,
    });
    Answer::new(Status::Measured, [events, answers, clock], values)
}

/// Box 2.
pub(super) fn how_many(sheet: &Sheet<'_>) -> Answer {
    let places = sheet.places();
    if let Some(Fault::Counts(words)) = sheet.fault {
        return Answer::empty(format!("the counts do not close: {words}"));
    }
    if places.is_empty() {
        return Answer::empty("no window was closed: nothing was counted");
    }
    if let Some((place, sum)) = places.iter().find_map(|p| Some((p, open_sum(&p.window.requests)?))) {
        let (cell, window) = (place.cell.cell, place.window.window);
        return Answer::empty(format!("the counts do not close: load {cell}, window {window}: {sum}"));
    }
    let [due, sent, dropped, kept, ok, failed, censored, not_sent] = [
        |r: &Requests| r.due,
        |r: &Requests| r.sent,
        |r: &Requests| r.dropped,
        |r: &Requests| r.kept,
        |r: &Requests| r.ok,
        |r: &Requests| r.failed,
        |r: &Requests| r.censored,
        |r: &Requests| r.not_sent,
    ]
    .map(|of| sheet.sum(|w| of(&w.requests)));
    let loads = sheet.run.cells.len();
    let each = || sheet.run.cells.iter().map(|c| c.windows.len());
    let (least, most) = (each().min().unwrap_or(0), each().max().unwrap_or(0));
    let refused = if not_sent > 0 { format!(" ({} never sent)", count(not_sent)) } else { String::new() };
    let counts = format!(
        "{} due{refused}, {} sent, {} dropped by trace id, {} kept = {} ok + {} failed + {} censored, in {} ({}, {} each)",
        count(due),
        count(sent),
        count(dropped),
        count(kept),
        count(ok),
        count(failed),
        count(censored),
        plural(places.len() as u64, "window"),
        plural(loads as u64, "load"),
        if least == most { most.to_string() } else { format!("{least} to {most}") },
    );
    let gap = |of: fn(&NoiseGaps) -> Option<f64>| {
        let column = |name: &str| {
            let gaps = sheet.run.cells.iter().filter_map(|c| of(c.noise.get("ttft")?.get(name)?));
            gaps.reduce(f64::max)
        };
        column("gross").map(|gap| (gap, "gross")).or_else(|| column("net").map(|gap| (gap, "net")))
    };
    let (p50, p99) = (gap(|g| g.p50), gap(|g| g.p99));
    let noise = match (p50, p99) {
        (None, _) if most < 2 => "one window of each load only: how far a repetition is off is not known".to_string(),
        (None, _) => "no two windows have figures that could be compared: the noise is not known".to_string(),
        (Some((p50, column)), p99) => {
            let p99 = p99.map_or_else(String::new, |(gap, _)| format!(", p99 {}", percent(Some(gap))));
            format!("largest gap between two windows of a load: ttft {column} p50 {}{p99}", percent(Some(p50)))
        }
    };
    let rest = |key: &str| sheet.plan[key].as_f64().unwrap_or(0.0);
    let rests = wording::rests(rest("gap_between_windows_s"), rest("gap_between_cells_s")).unwrap_or_default();
    let found = sheet.sessions();
    let of = |count: fn(&SessionCounts) -> u64| found.iter().map(|s| count(&s.counts)).sum::<u64>();
    let sessions = match found.first() {
        None => String::new(),
        Some(first) => format!(
            "{} {} begun, {} dropped by id, {} kept = {} complete + {} failed + {} cut off by the end of a window: their time is of \
             the complete ones",
            count(of(|c| c.begun)),
            crate::report::sessions::noun(first.kind),
            count(of(|c| c.dropped)),
            count(of(|c| c.kept)),
            count(of(|c| c.complete)),
            count(of(|c| c.failed)),
            count(of(|c| c.cut)),
        ),
    };
    let mut values = json!({
        "due": due, "not_sent": not_sent, "sent": sent, "dropped": dropped, "kept": kept, "ok": ok, "failed": failed,
        "censored": censored, "loads": loads, "windows": places.len(),
        "ttft_gap_p50": p50.map(|g| g.0), "ttft_gap_p99": p99.map(|g| g.0),
    });
    if !found.is_empty() {
        values["sessions"] = json!(found.iter().map(|s| &s.counts).collect::<Vec<_>>());
    }
    Answer::new(Status::Measured, [counts, sessions, rests, noise], values)
}

/// The first sum that does not close.
fn open_sum(r: &Requests) -> Option<String> {
    let sums = [
        ("due, not sent + sent", r.due, r.not_sent + r.sent),
        ("sent, dropped + kept", r.sent, r.dropped + r.kept),
        ("kept, ok + failed + censored", r.kept, r.ok + r.failed + r.censored),
        ("failed, sum over classes", r.failed, r.by_error.values().sum()),
    ];
    sums.into_iter().find(|(_, a, b)| a != b).map(|(names, a, b)| format!("{names}: {}, {}", count(a), count(b)))
}

/// Box 3.
pub(super) fn raw_files(sheet: &Sheet<'_>) -> Answer {
    const FILE: &str = "requests.jsonl";
    if let Some(Fault::Records(words)) = sheet.fault {
        return Answer::empty(format!("the raw records do not carry the figures: {words}"));
    }
    let Some(digest) = sheet.digest(FILE) else {
        return Answer::empty(format!("{FILE} is missing: no figure can be rebuilt"));
    };
    let rows = sheet.sum(|w| w.requests.due);
    if rows == 0 {
        return Answer::empty(format!("{FILE} holds no request of a window that closed"));
    }
    let file = format!("{FILE} beside this file, SHA-256 {digest}, {} in a hash chain", plural(rows, "row"));
    let rebuild = "every figure is rebuilt from it by tarebench verify".to_string();
    let published = match sheet.said("url") {
        Some(_) => String::new(),
        None => "where it is published was not declared".to_string(),
    };
    Answer::new(
        Status::Measured,
        [file, rebuild, published],
        json!({"file": FILE, "sha256": digest, "rows": rows, "url": sheet.said("url")}),
    )
}
