//! The goals of a window, in sentences.

use crate::analysis::definitions::goals::Answer;
use crate::report::quantity::{count, latency, percent, rate};
use crate::rundir::run_json::{GoalsMet, Goodput, LimitMet};

/// One sentence for each goal, and whether it passed.
pub(super) fn sentences(goals: &GoalsMet) -> Vec<(String, bool)> {
    let request = goals.request.iter().map(|g| (goodput(g), g.answer == Answer::Pass));
    request.chain(goals.window.iter().map(|l| (limit(l), l.answer == Answer::Pass))).collect()
}

fn goodput(g: &Goodput) -> String {
    let asked: Vec<String> = g.goals.iter().map(|(metric, ms)| format!("{} {}", metric.name(), latency(*ms))).collect();
    let asked = asked.join(", ");
    let needed = percent(Some(g.needed));
    let (Some(share), Some([low, high]), Some(reached)) = (g.share, g.ci, g.reached) else {
        let why = if g.kept == 0 { "no request was kept" } else { "gross, or what is counted from due, is withheld" };
        return format!("{asked} for {needed} of requests: not judged, {why}");
    };
    let unknown = match g.unknown {
        0 => String::new(),
        n => format!(", {} not known", count(n)),
    };
    let verdict = match (g.answer, reached) {
        (Answer::Pass, _) => "PASS".to_owned(),
        (Answer::Fail, _) => "FAIL".to_owned(),
        (_, true) => "reached, but with so few requests INCONCLUSIVE".to_owned(),
        (_, false) => "not reached, but with so few requests INCONCLUSIVE".to_owned(),
    };
    format!(
        "{asked} for {needed} of requests: {verdict}; {} of {} ({}{unknown}; 95 % interval {}..{}), {} good requests/s",
        count(g.met),
        count(g.kept),
        percent(Some(share)),
        percent(Some(low)),
        percent(Some(high)),
        rate(g.requests_per_s),
    )
}

fn limit(l: &LimitMet) -> String {
    let name = l.figure.to_string();
    let show = |value: f64| match name.as_str() {
        "failed" => percent(Some(value)),
        "output_tokens_per_s" | "requests_per_s" => rate(Some(value)),
        "recovery_s" => format!("{value:.2} s"),
        _ => latency(value),
    };
    let bound = if l.figure.is_at_least() { "at least" } else { "at most" };
    let asked = format!("{name} {bound} {}", show(l.limit));
    let Some(found) = l.found else { return format!("{asked}: not judged, the figure is null or withheld") };
    let interval = match l.ci {
        Some([low, high]) if low < high => format!(" ({}..{})", show(low), show(high)),
        Some(_) => String::new(),
        None => " (n too small for an interval)".into(),
    };
    let verdict = match l.answer {
        Answer::Pass => "PASS",
        Answer::Fail => "FAIL",
        Answer::Inconclusive => "INCONCLUSIVE",
        Answer::NotJudged => "not judged",
    };
    format!("{asked}: {verdict}, {}{interval}", show(found))
}
