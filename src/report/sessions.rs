//! Sessions of a window, and loads of them, in words and tables.

use crate::report::quantity::{count, latency, percent, percentile, rate, stamps_bound};
use crate::report::{intervals, markdown, overview};
use crate::rundir::run_json::{Between, Distribution, Window};
use crate::rundir::sessions::{LeftOutCounts, Sessions, TurnFigures};
use crate::rundir::window::{Load, LoadModel, SessionKind};

/// `sessions`, `tasks`: what they are called.
pub fn noun(kind: SessionKind) -> &'static str {
    match kind {
        SessionKind::Chat => "sessions",
        SessionKind::Chain => "tasks",
    }
}

/// Who leads them, one or more.
pub fn leaders(kind: SessionKind, n: u64) -> &'static str {
    match (kind, n) {
        (SessionKind::Chat, 1) => "user",
        (SessionKind::Chat, _) => "users",
        (SessionKind::Chain, 1) => "agent",
        (SessionKind::Chain, _) => "agents",
    }
}

/// What each consists of, one or more.
pub fn parts(kind: SessionKind, n: u64) -> &'static str {
    match (kind, n) {
        (SessionKind::Chat, 1) => "turn",
        (SessionKind::Chat, _) => "turns",
        (SessionKind::Chain, 1) => "call",
        (SessionKind::Chain, _) => "calls",
    }
}

/// What arrives by a schedule: `requests`, or sessions or tasks.
pub(super) fn arriving(window: &Window) -> &'static str {
    window.sessions.as_ref().map_or("requests", |found| noun(found.kind))
}

/// A load of sessions: `8 users, sessions of 2 to 4 turns, think time 2 s`, `2 agents, tasks of 3 calls`; None where requests
/// stand alone.
pub fn of_load(load: &Load) -> Option<String> {
    let asked = load.sessions.as_ref()?;
    let [from, to] = asked.turns;
    let called = parts(asked.kind, to.into());
    let turns = if from == to { format!("{to} {called}") } else { format!("{from} to {to} {called}") };
    let pause = asked.pause.as_ref().map_or_else(String::new, |words| format!(", {words}"));
    let cap = load.concurrency.map_or_else(String::new, |n| format!(", at most {} requests at once", count(n.into())));
    let course = load.arrivals.as_ref().map_or_else(String::new, |words| format!(" ({words})"));
    let of = noun(asked.kind);
    Some(match (load.model, load.rate) {
        (LoadModel::Closed, _) => {
            let n = load.concurrency.map_or_else(|| "?".to_owned(), |n| count(n.into()));
            let who = leaders(asked.kind, load.concurrency.map_or(0, u64::from));
            format!("{n} {who}, {of} of {turns}{pause}")
        }
        (_, Some(per_s)) => format!("{} {of}/s{course} of {turns}{pause}{cap}", rate(Some(per_s))),
        (_, None) => format!("{of} of {turns}, all at once{course}{pause}{cap}"),
    })
}

/// The share of the time at full load, as it stands beside what is in flight; empty where there is none.
pub(super) fn full(window: &Window) -> String {
    let share = percent(window.in_flight.full_share);
    match (window.in_flight.full_share, &window.sessions) {
        (None, _) => String::new(),
        (Some(_), None) => format!("full {share} of the time"),
        (Some(_), Some(found)) => format!("all {} busy {share} of the time, pauses included", leaders(found.kind, 2)),
    }
}

/// What became of them, what went wrong in front; facts three spaces apart.
pub(super) fn counts(found: &Sessions) -> String {
    let c = &found.counts;
    let bad = [(c.failed, "FAILED"), (c.cut, "CUT OFF")];
    let mut facts: Vec<String> =
        bad.iter().filter(|(n, _)| *n > 0).map(|(n, name)| format!("{} {name}", count(*n))).collect();
    facts.extend([
        format!("{} begun", count(c.begun)),
        format!("{} warm-up", count(c.dropped)),
        format!("{} kept", count(c.kept)),
        format!("{} complete", count(c.complete)),
    ]);
    facts.extend(not_whole(&c.left_out));
    facts.join("   ")
}

/// `3 replies NOT SENT BACK WHOLE (2 with calls of tools, 1 without answer text)`; None where all were.
pub(crate) fn not_whole(c: &LeftOutCounts) -> Option<String> {
    let reasons = [
        (c.tool_calls, "with calls of tools"),
        (c.parts, "with content that is no text"),
        (c.unparsable, "with events that cannot be read"),
        (c.empty, "without answer text"),
    ];
    let list: Vec<String> =
        reasons.iter().filter(|(n, _)| *n > 0).map(|(n, why)| format!("{} {why}", count(*n))).collect();
    let replies = if c.not_whole() == 1 { "reply" } else { "replies" };
    (c.not_whole() > 0).then(|| format!("{} {replies} NOT SENT BACK WHOLE ({})", count(c.not_whole()), list.join(", ")))
}

/// That reasoning is not sent back, where there was any.
pub(crate) fn reasoning(c: &LeftOutCounts) -> Option<String> {
    (c.reasoning > 0).then(|| {
        let replies = if c.reasoning == 1 { "reply" } else { "replies" };
        format!("the reasoning of {} {replies} is not sent back, as chat templates leave it out", count(c.reasoning))
    })
}

/// Whether one of them is not complete.
pub(super) fn any_lost(found: &Sessions) -> bool {
    found.counts.failed + found.counts.cut > 0
}

/// Where they failed, and which turns never came; None when all were complete.
pub(super) fn lost(found: &Sessions) -> Option<String> {
    let c = &found.counts;
    let turn = parts(found.kind, 1);
    let at: Vec<String> =
        c.failed_at_turn.iter().map(|(place, n)| format!("{} at {turn} {place}", count(*n))).collect();
    let failed = (!at.is_empty()).then(|| format!("failed: {}", at.join(", ")));
    let never = c.turns_never_due;
    let never = (never > 0).then(|| format!("{} {} never became due", count(never), parts(found.kind, never)));
    let facts: Vec<String> = failed.into_iter().chain(never).collect();
    let of = noun(found.kind);
    (!facts.is_empty()).then(|| format!("{}   figures of {of} are of the complete ones", facts.join("   ")))
}

/// How many were under way over time.
pub(super) fn at_once(found: &Sessions) -> String {
    let p95 = found.at_once.p95.map_or_else(|| "-".into(), count);
    let of = noun(found.kind);
    format!("mean {}   p95 {p95}   max {} {of} under way", rate(found.at_once.mean), count(found.at_once.max))
}

/// What the rows of [`times`] are.
pub(super) fn reading(kind: SessionKind) -> &'static str {
    match kind {
        SessionKind::Chat => {
            "session: from its first due to its last token, pauses included; waited: the sum of its turns' e2e, due: the \
             session less its pauses; turnaround: the client's own time from a reply (or a later due) to the next request; \
             intervals are of sessions"
        }
        SessionKind::Chain => {
            "task: from its first due to its last token, pauses included; waited: the sum of its calls' e2e, due: the task \
             less its pauses; turnaround: the client's own time from a reply (or a later due) to the next call; intervals \
             are of tasks"
        }
    }
}

/// Name and column of each distribution of sessions.
pub(super) fn times(found: &Sessions) -> Vec<(&'static str, &'static str, Option<&Distribution>)> {
    let whole = match found.kind {
        SessionKind::Chat => "session",
        SessionKind::Chain => "task",
    };
    let w = &found.waited;
    vec![
        (whole, "", found.duration.as_ref()),
        ("waited", "gross", w.gross.as_ref()),
        ("waited", "tare", w.tare.as_ref()),
        ("waited", "net", w.net.as_ref()),
        ("waited", "due", w.due.as_ref()),
        ("turnaround", "", found.turnaround.as_ref()),
    ]
}

/// Headings of the table by turn on a screen.
pub(super) fn by_turn(kind: SessionKind) -> [&'static str; 10] {
    [parts(kind, 1), "ok", "prompt", "cached", "ttft net", "p95", "gross", "p95", "tpot", "e2e p50"]
}

/// The median, gross; where that is withheld, net with its mark.
fn median(of: &Between) -> String {
    let gross = percentile(of.gross.as_ref(), "p50");
    let is_withheld = of.gross.as_ref().is_some_and(|gross| gross.n > 0 && gross.p50_ms.is_none());
    let net = of.net.as_ref().filter(|_| is_withheld).and_then(|net| overview::stood_in(net, "p50"));
    net.unwrap_or(gross)
}

/// What the mark in the table by turn says; None where it stands nowhere.
pub(super) fn mark(rows: &[&TurnFigures]) -> Option<&'static str> {
    let marked = |of: &Between| median(of).ends_with('*');
    let any = rows.iter().any(|turn| marked(&turn.tpot) || marked(&turn.e2e));
    any.then_some("* net, from the wire (< at most), where the client was not fit to tell gross")
}

/// One row for a screen: a net that the stamps leave open stands with its high end, `<5.02 ms`.
pub(super) fn row(turn: &TurnFigures) -> [String; 10] {
    let net = |p: &str| match turn.ttft.net.as_ref().and_then(|net| stamps_bound(net, p)) {
        Some((_, high)) => format!("<{}", latency(high)),
        None => percentile(turn.ttft.net.as_ref(), p),
    };
    let gross = |p: &str| percentile(turn.ttft.gross.as_ref(), p);
    let ok = if turn.ok == turn.sent { count(turn.ok) } else { format!("{}/{}", count(turn.ok), count(turn.sent)) };
    [
        turn.turn.to_string(),
        ok,
        tokens(turn.prompt_tokens_mean),
        percent(turn.cached_share),
        net("p50"),
        net("p95"),
        gross("p50"),
        gross("p95"),
        median(&turn.tpot),
        median(&turn.e2e),
    ]
}

/// The rows that stand on a screen where at most `most` may: the first ones and the last; and how many are left out.
pub(super) fn told(found: &Sessions, most: usize) -> (Vec<&TurnFigures>, usize) {
    let turns = &found.by_turn;
    if turns.len() <= most {
        return (turns.iter().collect(), 0);
    }
    let last = most / 4;
    let chosen = turns.iter().take(most - last).chain(turns.iter().skip(turns.len() - last));
    (chosen.collect(), turns.len() - most)
}

/// A mean of tokens: `1,204`, `22.0`.
pub(super) fn tokens(mean: Option<f64>) -> String {
    match mean {
        None => "-".into(),
        Some(mean) if mean >= 100.0 => count(mean.round() as u64),
        Some(mean) => format!("{mean:.1}"),
    }
}

/// Percentiles of the table of times.
const SHOWN: [&str; 4] = ["p50", "p90", "p95", "p99"];

/// Tables in Markdown: the times of sessions, then the first `most` turns.
pub(super) fn tables(found: &Sessions, most: usize) -> Vec<String> {
    let mut lines = vec![
        format!("| {} | column | n | mean | p50 | p90 | p95 | p99 | max |", noun(found.kind)),
        "|---|---|--:|--:|--:|--:|--:|--:|--:|".to_owned(),
    ];
    let figure = |ms: Option<f64>| ms.map_or_else(|| "withheld".into(), latency);
    for (name, column, d) in times(found) {
        let Some(d) = d else { continue };
        let cells = SHOWN.map(|p| markdown::with_interval(Some(d), p)).join(" | ");
        lines.push(format!(
            "| {name} | {column} | {} | {} | {cells} | {} |",
            count(d.n),
            figure(d.mean_ms),
            figure(d.max_ms)
        ));
    }
    lines.push(String::new());
    let turn = parts(found.kind, 1);
    lines.push(format!(
        "| {turn} | sent | ok | prompt tokens | of these cached | completion tokens | ttft net p50 | p95 | gross p50 | p95 | \
         tpot net p50 | gross p50 | p95 | e2e net p50 | gross p50 | p95 |"
    ));
    lines.push(format!("|--:|{}", "--:|".repeat(15)));
    let both = |of: &Between, net: &[&str]| -> Vec<String> {
        let net = net.iter().map(|p| markdown::with_interval(of.net.as_ref(), p));
        net.chain(["p50", "p95"].map(|p| markdown::with_interval(of.gross.as_ref(), p))).collect()
    };
    for t in found.by_turn.iter().take(most) {
        let cached = match (t.cached_share, t.cached_tokens_mean) {
            (Some(share), Some(mean)) => format!("{} ({})", tokens(Some(mean)), percent(Some(share))),
            (_, mean) => tokens(mean),
        };
        let mut cells = vec![t.turn.to_string(), count(t.sent), count(t.ok), tokens(t.prompt_tokens_mean), cached];
        cells.push(tokens(t.completion_tokens_mean));
        cells.extend(both(&t.ttft, &["p50", "p95"]));
        cells.extend(both(&t.tpot, &["p50"]));
        cells.extend(both(&t.e2e, &["p50"]));
        lines.push(format!("| {} |", cells.join(" | ")));
    }
    lines
}

/// Which of the times are printed without an interval.
pub(super) fn lacking(found: &Sessions) -> Option<String> {
    // the client's own time claims nothing of other sessions
    let claims = times(found).into_iter().filter(|(name, column, _)| *name != "turnaround" && *column != "tare");
    let table: Vec<_> = claims.map(|(name, _, d)| (name, d)).collect();
    intervals::lacking(&table, &SHOWN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::specimen::Specimen;
    use crate::report::{html, markdown, terminal};
    use crate::rundir::run_json::RunJson;

    fn run(mut specimen: Specimen) -> (tempfile::TempDir, RunJson) {
        let dir = tempfile::tempdir().unwrap();
        specimen.write(dir.path());
        let run = crate::analysis::summary::summarise(dir.path()).unwrap();
        (dir, run)
    }

    #[test]
    fn a_campaign_of_sessions_looks_as_it_did() {
        let (_dir, run) = run(Specimen::sessions(Some(3), 120));
        let text = terminal::render(&run, 100, false);
        kept("sessions.txt", &text);
        let short = terminal::summary(&run, 100, false);
        kept("sessions-short.txt", &short);
    }

    /// As it was; with `TAREBENCH_BLESS` set it is written anew.
    fn kept(name: &str, now: &str) {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/report/snapshots").join(name);
        if std::env::var_os("TAREBENCH_BLESS").is_some() {
            std::fs::write(&path, now).unwrap();
        }
        let then = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(then == now, "{}: not what it was; now:\n{now}", path.display());
    }

    #[test]
    fn every_report_tells_of_tasks() {
        let (dir, run) = run(Specimen::sessions(None, 120));
        let screen = terminal::summary(&run, 72, false);
        assert!(screen.lines().all(|line| line.chars().count() <= 72), "{screen}");
        for words in
            ["open loop, 25.0 tasks/s of 2 to 4 calls, think time 7 ms", "116 kept   114 complete", "tasks/s ("]
        {
            assert!(screen.replace("\n               ", "   ").contains(words), "no {words} in\n{screen}");
        }
        let disclosed = crate::disclosure::directory::Disclosed::of_run(dir.path(), &run, None).unwrap();
        let md = markdown::render(&run, &disclosed);
        for words in [
            "TASKS:",
            "| call | sent |",
            "failed: 1 at call 2; 2 calls never became due",
            "| task |  | 114 |",
            "| waited | net | 114 |",
            "| 2 | 116 | 115 | 47.0 | 21.0 (44.7 %) | 3.0 |",
        ] {
            assert!(md.contains(words), "no {words} in\n{md}");
        }
        let page = html::of_directory(dir.path(), &run, &disclosed).unwrap();
        for words in ["Time to first token by call", "Prompt tokens by call", "<h4>Tasks</h4>"] {
            assert!(page.contains(words), "no {words}");
        }
    }

    #[test]
    fn what_later_turns_lack_is_told_by_reason() {
        use crate::rundir::row::LeftOut;
        let mut specimen = Specimen::sessions(Some(3), 120);
        let firsts = specimen.windows.iter_mut().flat_map(|(_, rows)| rows);
        for row in firsts.filter(|row| row.session.as_ref().is_some_and(|turn| turn.turn == 0)) {
            let turn = row.session.as_mut().unwrap();
            turn.left_out = match turn.id % 40 {
                10 => vec![LeftOut::ToolCalls, LeftOut::Reasoning],
                11 => vec![LeftOut::Parts],
                _ => Vec::new(),
            };
            turn.reply_sha256 = turn.reply_sha256.take().filter(|_| turn.id != 60);
        }
        let told = "7 replies NOT SENT BACK WHOLE (3 with calls of tools, 3 with content that is no text, 1 without answer text)";
        let reasoning = "the reasoning of 3 replies is not sent back, as chat templates leave it out";
        let (dir, run) = run(specimen);
        let on_one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let disclosed = crate::disclosure::directory::Disclosed::of_run(dir.path(), &run, None).unwrap();
        for report in [
            terminal::render(&run, 100, false),
            terminal::summary(&run, 72, false),
            markdown::render(&run, &disclosed),
            html::of_directory(dir.path(), &run, &disclosed).unwrap(),
        ] {
            let report = on_one_line(&report);
            assert!(report.contains(told) && report.contains(reasoning), "{report}");
        }
        let (_, whole) = self::run(Specimen::sessions(Some(3), 120));
        let text = terminal::render(&whole, 100, false);
        assert!(!text.contains("NOT SENT BACK") && !text.contains("reasoning"), "{text}");
    }

    #[test]
    fn net_stands_in_the_table_by_turn_where_gross_is_withheld() {
        let (_dir, run) = run(Specimen::sessions(Some(3), 40));
        let mut found = run.cells[0].windows[0].sessions.clone().unwrap();
        let turn = &mut found.by_turn[1];
        assert_eq!((row(turn)[8].as_str(), row(turn)[9].as_str(), mark(&[turn])), ("1.55 ms", "10.1 ms", None));
        let n = turn.e2e.gross.as_ref().unwrap().n;
        let withheld = || Some(Distribution { n, ..Distribution::default() });
        (turn.tpot.gross, turn.e2e.gross) = (withheld(), withheld());
        assert_eq!((row(turn)[8].as_str(), row(turn)[9].as_str()), ("1.50 ms*", "10.0 ms*"));
        assert!(mark(&[turn]).is_some_and(|words| words.starts_with("* net")));
        (turn.tpot.net, turn.e2e.net) = (None, None);
        assert_eq!((row(turn)[8].as_str(), mark(&[turn])), ("withheld", None));
    }

    #[test]
    fn of_many_turns_the_first_and_the_last_are_told() {
        let (_dir, run) = run(Specimen::sessions(Some(3), 40));
        let mut found = run.cells[0].windows[0].sessions.clone().unwrap();
        let turn = found.by_turn[0].clone();
        found.by_turn = (1..=50).map(|n| TurnFigures { turn: n, ..turn.clone() }).collect();
        let (rows, left_out) = told(&found, 12);
        let turns: Vec<u32> = rows.iter().map(|row| row.turn).collect();
        assert_eq!((turns, left_out), (vec![1, 2, 3, 4, 5, 6, 7, 8, 9, 48, 49, 50], 38));
    }
}
