//! What was done on purpose in a window, and what it did to the load, in sentences.

use crate::analysis::definitions::failure::{Figure, NotFollowed};
use crate::report::quantity::{count, latency, rate};
use crate::rundir::mark::MarkOutcome;
use crate::rundir::run_json::{Effect, Failure, MarkEffect, Recovered, Touched};

/// A sentence, and whether it is one of alarm.
pub(super) struct Sentence {
    pub(super) text: String,
    pub(super) alarm: bool,
}

/// In order of time: each mark with what followed it, then what all of them share.
pub(super) fn sentences(failure: &Failure) -> Vec<Sentence> {
    let mut found = Vec::new();
    for mark in &failure.marks {
        found.push(done(mark));
        if mark.requests.is_none() {
            continue;
        }
        found.push(recovery(mark));
        found.extend(mark.effects.iter().filter_map(of_figure));
        found.extend(mark.requests.as_ref().map(touched));
    }
    found.push(Sentence { text: terms(failure), alarm: false });
    found
}

/// `at 20.00 s: node loss at 20 s: the mock is stopped for 5 s; over at 25.00 s, done`.
fn done(mark: &MarkEffect) -> Sentence {
    let when = match (mark.started_s, mark.ended_s) {
        (Some(started), Some(ended)) => format!("{started:.2} s to {ended:.2} s: "),
        (Some(started), None) => format!("{started:.2} s: "),
        _ => String::new(),
    };
    Sentence { text: format!("{when}{} ({})", mark.text, mark.end), alarm: mark.outcome != MarkOutcome::Done }
}

/// `5.10 s (4.80..5.40)`.
fn time(back: Recovered) -> String {
    format!("{:.2} s ({:.2}..{:.2})", back.at_s, back.within_s[0], back.within_s[1])
}

fn recovery(mark: &MarkEffect) -> Sentence {
    let seen = mark.seen_s.unwrap_or(0.0);
    let (text, alarm) = match (mark.degraded, mark.recovery) {
        (None, _) => ("what it did cannot be told: no figure had a baseline".to_owned(), true),
        (Some(false), _) => (format!("no figure left its band in the {seen:.1} s of load after it"), false),
        (Some(true), Some(back)) => {
            (format!("RECOVERED after {}, by the last figure that was back", time(back)), false)
        }
        (Some(true), None) => (format!("NOT RECOVERED in the {seen:.1} s of load after it"), true),
    };
    Sentence { text, alarm }
}

fn name(figure: Figure) -> &'static str {
    match figure {
        Figure::Goodput => "good requests/s",
        Figure::Requests => "ok requests/s",
        Figure::OutputTokens => "output tokens/s",
        Figure::TtftP95 => "ttft p95 from due",
    }
}

/// None of goals that were not set.
fn of_figure(effect: &Effect) -> Option<Sentence> {
    let name = name(effect.figure);
    let quiet = |text: String| Some(Sentence { text, alarm: false });
    match effect.not_followed {
        Some(NotFollowed::NoGoals) => return None,
        Some(why) => return quiet(format!("{name}: not followed, {why}")),
        None => {}
    }
    let show = |value: Option<f64>| match (effect.figure, value) {
        (Figure::TtftP95, Some(ms)) => latency(ms),
        (_, value) => rate(value),
    };
    let of_slices = match (effect.slice_s, effect.slices_per_value) {
        (Some(s), Some(1)) => format!("slices of {s} s"),
        (Some(s), Some(n)) => format!("{n} slices of {s} s together"),
        _ => String::new(),
    };
    let before = format!("{} before, band to {} ({of_slices})", show(effect.before), show(effect.limit));
    let Some([from, to]) = effect.degraded_s else {
        return quiet(format!("{name}: {before}; stayed in its band"));
    };
    let share = effect.worst_share.map_or_else(String::new, |share| match effect.figure {
        Figure::TtftP95 => format!(" ({share:.1} times)"),
        _ => format!(" ({:.0} %)", share * 100.0),
    });
    let back = effect.recovery.map_or_else(|| "NOT BACK".to_owned(), |back| format!("back after {}", time(back)));
    let often = match effect.excursions {
        Some(n) if n > 1 => format!("; out {n} times, the longest is told"),
        _ => String::new(),
    };
    let text =
        format!("{name}: {before}; out after {from:.2}..{to:.2} s; worst {}{share}; {back}{often}", show(effect.worst));
    Some(Sentence { text, alarm: effect.recovery.is_none() })
}

fn touched(t: &Touched) -> Sentence {
    let lost = t.failed + t.censored + t.not_sent;
    let slow = t.slow.map_or_else(String::new, |n| format!(", {} of them slower than any before", count(n)));
    let classes: Vec<String> = t.by_error.iter().map(|(class, n)| format!("{class} {}", count(*n))).collect();
    let classes = if classes.is_empty() { String::new() } else { format!(" ({})", classes.join(", ")) };
    let broken = match (t.broken, t.broken_tokens) {
        (0, _) => String::new(),
        (n, tokens) => {
            let tokens = tokens.map_or_else(|| "tokens not told".to_owned(), |n| format!("{} tokens", count(n)));
            let events = count(t.broken_token_events);
            format!("; {} broke after {events} token events ({tokens}) had come", count(n))
        }
    };
    let text = format!(
        "{} requests under way in the {:.2} s from then: {} answered{slow}; {} LOST: {} failed{classes}, {} cut off, {} not sent{broken}",
        count(t.requests),
        t.until_s,
        count(t.ok),
        count(lost),
        count(t.failed),
        count(t.censored),
        count(t.not_sent),
    );
    Sentence { text, alarm: lost > 0 }
}

fn terms(failure: &Failure) -> String {
    let baseline = failure
        .baseline_s
        .map_or_else(|| "no mark was reached".to_owned(), |[from, to]| format!("baseline {from:.2} to {to:.2} s"));
    let load = failure.load_until_s.map_or_else(String::new, |until| format!(", load until {until:.2} s"));
    let holds = failure.marks.iter().flat_map(|mark| &mark.effects).filter_map(|effect| effect.hold_s);
    let hold = holds.reduce(f64::max);
    let hold = hold.map_or_else(String::new, |s| format!("; out means two values in a row outside (of p95, two that share no request), back means none such for up to {s} s"));
    let closed = match failure.closed_loop {
        true => "; closed loop: arrivals stopped when the server did, users would have sent more",
        false => "",
    };
    format!("{baseline}{load}{hold}{closed}")
}
