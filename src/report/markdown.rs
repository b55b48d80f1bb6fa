//! `report.md`: the numbers of `run.json` as tables, and what it takes to rebuild them.

use std::path::Path;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::analysis::definitions::rules::GateState;
use crate::disclosure::directory::{Disclosed, NotDisclosed};
use crate::lettering::legible;
use crate::report::quantity::{between, count, fraction, percent, percentile, rate};
use crate::report::{
    arrivals, card, connections, curves, failure, fitness, goals, intervals, lengths, overview, server, sessions, soak,
    steady, terminal,
};
use crate::rundir::row::Outcome;
use crate::rundir::run_json::{Cell, Distribution, RunJson, Window};
use crate::workload::hex;

/// Heading of the last section, which lists them.
pub const FILES: &str = "## Files\n";

/// What the words and signs of a report mean.
pub(super) const HOW_TO_READ: &str = "\
    gross is what the client saw, tare the harness's own share of it, net the server and the network; with upload \
    they add up request by request, so percentiles of the columns do not add up. For gap, stall and tpot tare is \
    signed: a late read lengthens one gap and shortens the next. `a..b` is a net figure that is known to lie \
    between two moments only. In brackets stands the 95 % interval of a percentile: by exact ranks; for gap, where \
    those of one request hang together, by drawing requests again. A percentile without one carries no claim. \
    `n<100` means too few values for that percentile. Anderson-Darling on the schedule tests what was drawn, and p is \
    below .01 in 1 of 100 schedules by chance; on the wire it tests what the client made of it. Failed and censored requests are \
    in no latency figure.";

const SHOWN: [&str; 5] = ["p50", "p90", "p95", "p99", "p999"];

/// The report of a directory whose numbers are `run`; reads the files it names, to hash them, and the plan.
///
/// # Errors
/// A file that is there but cannot be read.
pub fn of_directory(dir: &Path, run: &RunJson) -> Result<String, NotDisclosed> {
    Ok(render(run, &Disclosed::of_run(dir, run, None)?))
}

/// The report, from what it is a function of. When one of the boxes 1 to 3 is empty, it says so in place of tables.
pub fn render(run: &RunJson, disclosed: &Disclosed) -> String {
    let boxes = &disclosed.boxes;
    let mut md = title("tarebench", run);
    facts(&mut md, run);
    match boxes.refusal() {
        None => {
            overview_table(&mut md, run);
            run.cells.iter().for_each(|cell| section_cell(&mut md, cell));
        }
        Some(refusal) => section_refused(&mut md, run, &refusal),
    }
    over_load(&mut md, run);
    md.push_str(&card::markdown(boxes));
    reading(&mut md);
    object(&mut md, "Environment", &run.environment);
    object(&mut md, "Plan", &what_was_asked(&disclosed.plan));
    definitions(&mut md, run);
    files(&mut md, disclosed);
    md
}

/// The heading, with every label that must be read before a figure is.
pub(super) fn title(of: &str, run: &RunJson) -> String {
    let labels = if run.labels.is_empty() { String::new() } else { format!(" ({})", run.labels.join(", ")) };
    format!("# {of} {}{labels}\n\n", cell_text(run.run_id.as_deref().unwrap_or("without run id")))
}

fn facts(md: &mut String, run: &RunJson) {
    let or = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".into());
    push(md, &format!("- started: {}", cell_text(&or(&run.started_at))));
    push(md, &format!("- measured with: tarebench {}", cell_text(&or(&run.tarebench))));
    push(md, &format!("- plan: `{}`", cell_text(&or(&run.plan_hash))));
    push(md, &format!("- {}", cell_text(&fitness::calibration(run).0)));
    push(md, &format!("- complete: {}", if run.complete { "yes" } else { "**no**" }));
    for v in run.verdicts.iter().filter(|v| !fitness::is_of_calibration(&v.kind)) {
        let place = v.cell.zip(v.window).map_or_else(String::new, |(c, w)| format!("cell {c}, window {w}: "));
        push(md, &format!("- **{place}{}**", cell_text(&v.text)));
    }
    push(md, "");
}

/// Loads and windows side by side.
fn overview_table(md: &mut String, run: &RunJson) {
    let rows = overview::rows(run);
    if rows.is_empty() {
        return;
    }
    push(md, &format!("| {} |", overview::COLUMNS.join(" | ")));
    push(md, &format!("|---|{}", "--:|".repeat(overview::COLUMNS.len() - 1)));
    rows.iter().for_each(|row| push(md, &format!("| {} |", row.each_ref().map(|c| cell_text(c)).join(" | "))));
    push(md, &format!("\n{}.\n", overview::clock(run)));
}

/// Counts alone.
fn section_refused(md: &mut String, run: &RunJson, refusal: &str) {
    push(md, &format!("## No report\n\n**{}**\n", cell_text(refusal)));
    for cell in &run.cells {
        for window in &cell.windows {
            push(md, &format!("### {}, window {}\n", cell_text(&terminal::load(&cell.load)), window.window));
            counts(md, window);
        }
    }
}

fn section_cell(md: &mut String, cell: &Cell) {
    push(md, &format!("## Load {}: {}\n", cell.cell, cell_text(&terminal::load(&cell.load))));
    for window in &cell.windows {
        section_window(md, window);
    }
    noise(md, cell);
}

fn section_window(md: &mut String, window: &Window) {
    let cut = if window.interrupted { ", INTERRUPTED" } else { "" };
    push(md, &format!("### Window {} ({:.2} s{cut})\n", window.window, window.duration_s));
    counts(md, window);
    metrics(md, window);
    by_conn(md, window);
    work(md, window);
    of_sessions(md, window);
    of_arrivals(md, window);
    of_lengths(md, window);
    for (sentence, _) in window.goals.iter().flat_map(goals::sentences) {
        push(md, &format!("- goal: {}\n", cell_text(&sentence)));
    }
    on_purpose(md, window);
    of_server(md, window);
    client(md, window);
    push(md, &format!("Steady: {}.\n", steady::line(window).replace("   ", "; ")));
    push(md, &steady::table(window));
    if let Some((line, table)) = soak::line(window).zip(soak::table(window)) {
        push(md, &format!("SOAK: {}.\n", line.replace("   ", "; ")));
        push(md, &table);
    }
    first_requests(md, window);
    verdicts(md, window);
}

/// Percentiles that turn back as the load grows, or that none does.
fn over_load(md: &mut String, run: &RunJson) {
    let all: Vec<_> = run.curves.iter().collect();
    if all.is_empty() {
        return;
    }
    push(md, "## Over load\n");
    curves::turning(&all).iter().for_each(|curve| push(md, &format!("- {}", cell_text(&curve.text))));
    if let Some(text) = curves::none_turns(&all) {
        push(md, &format!("{}.", cell_text(&text)));
    }
    push(md, "");
}

/// Slow first calls are shown, not removed.
fn first_requests(md: &mut String, window: &Window) {
    push(md, "| first requests | outcome | ttft gross | tare | net |\n|--:|---|--:|--:|--:|");
    let latency = |ms: Option<f64>| ms.map_or_else(|| "-".into(), crate::report::quantity::latency);
    for r in &window.first_requests {
        let cells = [r.ttft_gross_ms, r.ttft_tare_ms, r.ttft_net_ms].map(latency).join(" | ");
        let outcome = match r.outcome {
            Outcome::Ok => "ok",
            Outcome::Failed => "failed",
            Outcome::Censored => "censored",
            Outcome::NotSent => "not sent",
        };
        push(md, &format!("| {} | {outcome} | {cells} |", r.trace_id));
    }
    push(md, "");
}

fn verdicts(md: &mut String, window: &Window) {
    let mut gates = fitness::withheld(window, true, usize::MAX);
    gates.extend(fitness::flagged(window, usize::MAX));
    let others: Vec<_> = window.verdicts.iter().filter(|v| !fitness::is_of_gate(window, v)).collect();
    if gates.is_empty() && others.is_empty() {
        return;
    }
    push(md, "What a reader must know:\n");
    gates.iter().for_each(|text| push(md, &format!("- {}", cell_text(text))));
    for v in others {
        let percentile = v.percentile.as_deref().unwrap_or("*");
        let about = [v.metric.as_str(), v.column.as_str(), percentile].into_iter().filter(|part| *part != "*");
        let about = about.map(cell_text).collect::<Vec<_>>().join(" ");
        let colon = if about.is_empty() { "" } else { ": " };
        push(md, &format!("- {about}{colon}{}", cell_text(&v.text)));
    }
    push(md, "");
}

fn counts(md: &mut String, window: &Window) {
    let r = &window.requests;
    push(md, &format!("Requests: {}.\n", terminal::requests(r).replace("   ", ", ")));
    for (name, classes) in [("failed", &r.by_error), ("not sent", &r.not_sent_reasons)] {
        if !classes.is_empty() {
            let list: Vec<String> = classes.iter().map(|(c, n)| format!("{} {}", cell_text(c), count(*n))).collect();
            push(md, &format!("- {name}: {}", list.join(", ")));
        }
    }
    let flags: Vec<String> =
        window.flags.iter().map(|(name, f)| format!("{} {}", cell_text(name), count(f.requests))).collect();
    if !flags.is_empty() {
        push(md, &format!("- flags (requests): {}", flags.join(", ")));
    }
    let reasons: Vec<String> =
        window.finish_reasons.iter().map(|(name, s)| format!("{} {}", cell_text(name), percent(Some(*s)))).collect();
    if !reasons.is_empty() {
        push(md, &format!("- finish reasons: {}", reasons.join(", ")));
    }
    let echoes: Vec<String> =
        window.model_echoes.iter().map(|(name, n)| format!("{} {}", cell_text(name), count(*n))).collect();
    if !echoes.is_empty() {
        push(md, &format!("- model in the replies: {}", echoes.join(", ")));
    }
    let known = |n: Option<u64>| n.map_or_else(|| "not reported".into(), count);
    let t = &window.tokens;
    let tokens = [("prompt", t.prompt), ("completion", t.completion), ("cached", t.cached), ("reasoning", t.reasoning)];
    let tokens: Vec<String> = tokens.iter().map(|(name, n)| format!("{name} {}", known(*n))).collect();
    push(md, &format!("- tokens of kept requests: {}", tokens.join(", ")));
    let per_event = window.tokens_per_event.map_or_else(|| "unknown".into(), |n| format!("{n:.3}"));
    let hidden = count(window.empty_events);
    push(md, &format!("- tokens per event: {per_event}; events in which tokens may hide: {hidden}"));
    push(md, &format!("- token events that share a read: {}\n", percent(window.coalesced_share)));
}

fn metrics(md: &mut String, window: &Window) {
    push(md, "| metric | column | n | mean | p50 | p90 | p95 | p99 | p99.9 | max |");
    push(md, "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|");
    for (metric, column, values) in window.metrics.columns() {
        if let Some(values) = values {
            distribution(md, metric, column, values);
            for (class, values) in &values.per_class {
                distribution(md, &format!("{metric} ({})", cell_text(class)), column, values);
            }
        }
    }
    push(md, "");
    let table: Vec<_> = window.metrics.columns().into_iter().map(|(metric, _, values)| (metric, values)).collect();
    if let Some(text) = intervals::lacking(&table, &SHOWN) {
        push(md, &format!("{text}.\n"));
    }
}

/// A percentile with its 95 % interval: `42.5 ms (40.1..45.0 ms)`.
pub(super) fn with_interval(values: Option<&Distribution>, name: &str) -> String {
    let interval = intervals::interval(values, name).map_or_else(String::new, |ends| format!(" ({ends})"));
    format!("{}{interval}", percentile(values, name))
}

fn distribution(md: &mut String, metric: &str, column: &str, values: &Distribution) {
    let latency = |ms: Option<f64>| ms.map_or_else(|| "withheld".into(), crate::report::quantity::latency);
    let percentiles = SHOWN.map(|p| with_interval(Some(values), p)).join(" | ");
    let (n, mean, max) = (count(values.n), latency(values.mean_ms), latency(values.max_ms));
    push(md, &format!("| {metric} | {column} | {n} | {mean} | {percentiles} | {max} |"));
}

fn by_conn(md: &mut String, window: &Window) {
    push(md, "| ttft by connection | n | gross p50 | p99 | tare p50 | net p50 | p99 |");
    push(md, "|---|--:|--:|--:|--:|--:|--:|");
    let c = &window.by_conn;
    for (name, row) in [("warm", &c.warm), ("cold", &c.cold), ("reopened", &c.reopened)] {
        let t = &row.ttft;
        let cells = [(&t.gross, "p50"), (&t.gross, "p99"), (&t.tare, "p50"), (&t.net, "p50"), (&t.net, "p99")];
        let cells = cells.map(|(column, p)| with_interval(column.as_ref(), p)).join(" | ");
        push(md, &format!("| {name} | {} | {cells} |", count(row.n)));
    }
    push(md, "");
}

fn work(md: &mut String, window: &Window) {
    let (t, f) = (&window.throughput, &window.in_flight);
    push(md, "| over | requests/s | output tokens/s | total tokens/s |");
    push(md, "|---|--:|--:|--:|");
    if let Some((from, to)) = t.from_s.zip(t.to_s) {
        let rates = [t.requests_per_s, t.output_tokens_per_s, t.total_tokens_per_s].map(rate).join(" | ");
        push(md, &format!("| {from:.3} to {to:.3} s | {rates} |"));
    }
    let whole = [t.whole.requests_per_s, t.whole.output_tokens_per_s, t.whole.total_tokens_per_s].map(rate).join(" | ");
    push(md, &format!("| the whole window | {whole} |\n"));
    let p95 = f.p95.map_or_else(|| "-".into(), count);
    let full = sessions::full(window);
    let comma = if full.is_empty() { "" } else { ", " };
    push(md, &format!("In flight: mean {}, p95 {p95}, max {}{comma}{full}.", rate(f.mean), count(f.max)));
    push(md, "");
}

/// Conversations or chains: how many, how long, and turn by turn.
fn of_sessions(md: &mut String, window: &Window) {
    let Some(found) = &window.sessions else { return };
    push(
        md,
        &format!("{}: {}.\n", sessions::noun(found.kind).to_uppercase(), sessions::counts(found).replace("   ", ", ")),
    );
    sessions::lost(found).into_iter().for_each(|text| push(md, &format!("- {}", text.replace("   ", "; "))));
    sessions::reasoning(&found.counts.left_out).into_iter().for_each(|text| push(md, &format!("- {text}")));
    push(md, &format!("- at once: {}", sessions::at_once(found).replace("   ", ", ")));
    push(md, &format!("- {}\n", sessions::reading(found.kind)));
    sessions::tables(found, usize::MAX).iter().for_each(|line| push(md, line));
    push(md, "");
    if let Some(text) = sessions::lacking(found) {
        push(md, &format!("{text}.\n"));
    }
}

/// What was asked of the schedule, offered and sent.
fn of_arrivals(md: &mut String, window: &Window) {
    let Some(found) = &window.arrivals else { return };
    push(md, "Arrivals:\n");
    arrivals::in_full(found, sessions::arriving(window))
        .iter()
        .for_each(|line| push(md, &format!("- {}", cell_text(line))));
    push(md, "");
}

/// Realised beside those asked for, class by class.
fn of_lengths(md: &mut String, window: &Window) {
    if window.lengths.is_empty() {
        return;
    }
    lengths::tables(window).iter().for_each(|line| push(md, line));
    push(md, "");
    let remarks: Vec<String> = lengths::remarks(window).into_iter().chain(connections::words(window)).collect();
    remarks.iter().for_each(|text| push(md, &format!("- {}", cell_text(text))));
    if !remarks.is_empty() {
        push(md, "");
    }
}

/// What was done on purpose, and what it did.
fn on_purpose(md: &mut String, window: &Window) {
    let Some(found) = &window.failure else { return };
    push(md, "FAILURE (done on purpose):\n");
    failure::sentences(found).iter().for_each(|sentence| push(md, &format!("- {}", cell_text(&sentence.text))));
    push(md, "");
}

/// The server's own counters, over a span that begins before the window and ends after it.
fn of_server(md: &mut String, window: &Window) {
    let Some(server) = &window.server else { return };
    let words = server::words(server);
    let span = server.span_s.map_or_else(String::new, |s| format!(" over {s:.2} s"));
    let words = if words.is_empty() { "nothing of what is known here".to_owned() } else { words };
    push(md, &format!("Server, by its own counters{span}: {}.\n", cell_text(&words)));
}

fn client(md: &mut String, window: &Window) {
    let client = &window.client;
    push(md, &format!("Client: process {} CPU/wall.\n", fraction(client.cpu_per_wall)));
    push(md, "| worker | core | CPU/wall | worst 5 s | busy | run queue | involuntary switches |");
    push(md, "|--:|--:|--:|--:|--:|--:|--:|");
    for w in &client.workers {
        let core = w.core.map_or_else(|| "-".into(), |core| core.to_string());
        let shares = [w.cpu_per_wall, w.worst_5s, w.busy].map(fraction).join(" | ");
        let switches = w.involuntary_switches.map_or_else(|| "-".into(), count);
        push(md, &format!("| {} | {core} | {shares} | {} | {switches} |", w.worker, percent(w.run_delay_share)));
    }
    push(md, "");
    let counters = serde_json::to_value(client.counters).unwrap_or_default();
    let lost: Vec<String> =
        counters.as_object().into_iter().flatten().map(|(name, n)| format!("{} {n}", name.replace('_', " "))).collect();
    push(md, &format!("Counters: {}.\n", lost.join(", ")));
    gates(md, window);
}

/// Every signal of the client's fitness, with its limits and what it withholds when it is void.
fn gates(md: &mut String, window: &Window) {
    push(md, "| gate | scope | state | figure | warn | void | withholds | in words |");
    push(md, "|---|---|---|--:|--:|--:|---|---|");
    let number = |n: Option<f64>| n.map_or_else(|| "-".into(), |n| format!("{n:.3}"));
    for g in &window.client.gates {
        let state = match g.state {
            GateState::Ok => "ok",
            GateState::Warn => "flagged",
            GateState::Void => "**void**",
            GateState::Unknown => "not known",
        };
        let [figure, warn, void] = [g.figure, g.warn, g.void].map(number);
        let figure = if g.figure.is_some() { format!("{figure} {}", g.unit) } else { figure };
        let (voids, text) = (g.voids.join(", "), cell_text(&g.text));
        let line = [&g.gate, &g.scope, state, &figure, &warn, &void, &voids, &text].map(|s: &str| s.to_string());
        push(md, &format!("| {} |", line.join(" | ")));
    }
    push(md, "");
    if let Some(text) = fitness::calibrated_tare(window) {
        push(md, &format!("{text}.\n"));
    }
    let bounded = fitness::calibrated_net(window);
    if !bounded.is_empty() {
        push(md, "| net (calibrated bounds), upload included | mean | p50 | p90 | p95 | p99 | p99.9 |");
        push(md, "|---|--:|--:|--:|--:|--:|--:|");
        for (metric, net) in bounded {
            let mean = fitness::corrected_mean(net).unwrap_or_default();
            let ends = fitness::bounded(net).map(|(_, ends)| ends.map_or_else(|| "-".into(), between)).join(" | ");
            push(md, &format!("| {metric} | {} | {ends} |", mean.trim_start_matches("mean ")));
        }
        push(md, "");
    }
}

fn noise(md: &mut String, cell: &Cell) {
    if cell.windows.len() < 2 {
        return;
    }
    push(md, "Noise: the largest gap between two windows, relative to their mean. What is smaller is no finding.\n");
    push(md, "| metric | column | p50 | p95 | p99 |");
    push(md, "|---|---|--:|--:|--:|");
    for (metric, columns) in &cell.noise {
        for (column, gaps) in columns.iter().filter(|(_, gaps)| gaps.p50.is_some()) {
            let cells = [gaps.p50, gaps.p95, gaps.p99].map(percent).join(" | ");
            push(md, &format!("| {metric} | {column} | {cells} |"));
        }
    }
    push(md, "");
}

fn reading(md: &mut String) {
    push(md, &format!("## How to read this\n\n{HOW_TO_READ}\n"));
}

fn object(md: &mut String, heading: &str, value: &Value) {
    push(md, &format!("## {heading}\n"));
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            push(md, "| | |\n|---|---|");
            for (key, field) in fields {
                let text = field.as_str().map_or_else(|| field.to_string(), str::to_string);
                push(md, &format!("| {} | {} |", cell_text(key), cell_text(&text)));
            }
            push(md, "");
        }
        _ => push(md, "not recorded\n"),
    }
}

/// The environment has its own section.
pub(super) fn what_was_asked(plan: &Value) -> Value {
    let mut plan = plan.clone();
    if let Value::Object(fields) = &mut plan {
        fields.retain(|key, _| key != "environment" && key != "calibration");
    }
    plan
}

fn definitions(md: &mut String, run: &RunJson) {
    push(md, "## Definitions\n");
    for id in run.definitions.values().flat_map(|columns| columns.values()) {
        push(md, &format!("- `{id}`"));
    }
    if let Some(id) = in_buckets(run) {
        push(md, &format!("- of more values than are kept one by one: `{id}`"));
    }
    push(md, "");
}

/// How percentiles of too many values were counted, where there were so many.
fn in_buckets(run: &RunJson) -> Option<&str> {
    let windows = run.cells.iter().flat_map(|cell| &cell.windows);
    windows
        .flat_map(|w| [&w.metrics.gap.gross, &w.metrics.e2e.gross, &w.metrics.lateness])
        .flatten()
        .find_map(|d| d.buckets.as_deref())
}

fn files(md: &mut String, disclosed: &Disclosed) {
    push(md, FILES);
    push(md, "| file | SHA-256 |\n|---|---|");
    for (name, digest) in &disclosed.digests {
        push(md, &format!("| {name} | `{digest}` |"));
    }
    let boxes = disclosed.boxes.to_json().unwrap_or_default();
    push(md, &format!("| boxes.json | `{}` |", hex(&Sha256::digest(boxes))));
    push(md, "\nEvery number above can be rebuilt from these files, offline: `tarebench verify DIR`.");
}

/// What a server or a file wrote must not break a table or become markup, least of all a link or a picture.
pub(super) fn cell_text(text: &str) -> String {
    let text = text.replace(['\n', '\r'], " ");
    legible(&text)
        .replace('|', "\\|")
        .replace('<', "&lt;")
        .replace('`', "'")
        .replace("](", "]\\(")
        .replace("][", "]\\[")
}

fn push(md: &mut String, line: &str) {
    md.push_str(line);
    md.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::specimen::Specimen;
    use crate::analysis::summary::summarise;

    #[test]
    fn the_report_holds_what_it_must() {
        let dir = tempfile::tempdir().unwrap();
        let mut specimen = Specimen::two_windows();
        specimen.plan["environment"]["kernel"] = "6.12 | <b>`x` ![y](http://z)".into();
        specimen.write(dir.path());
        let text = of_directory(dir.path(), &summarise(dir.path()).unwrap()).unwrap();
        let expected = [
            "# tarebench r1 (LOOPBACK, ONE USER ONLY, ONE LOAD ONLY, UNIFORM LENGTHS, SHORT)",
            "| 15 | Only the lucky runs? | EMPTY | no ledger was kept",
            "Requests: 1 FAILED, 30 due, 2 warm-up, 28 kept, 27 ok, 0 censored.",
            "| ttft | net | 27 | 5.00 ms | 5.00 ms (5.00..5.00 ms) | 5.00 ms | 5.00 ms | n<100 | n<1,000 | 5.00 ms |",
            "n too small for an interval, so no claim: p90 p95 of ttft, ttfo, e2e, ",
            "- `ttft.gross=first_token.seen-submit`",
            "| kernel | 6.12 \\| &lt;b>'x' ![y]\\(http://z) |",
            "`tarebench verify DIR`",
            "| gate | scope | state | figure | warn | void | withholds | in words |",
            "| run_queue | worker 0 | ok | 0.003 share | 0.010 | 0.050 | gross, due | worker 0 waited for its core",
            "- no calibration of this host",
        ];
        for line in expected {
            assert!(text.contains(line), "no {line}");
        }
        for name in ["plan.json", "requests.jsonl", "windows.jsonl", "health.jsonl", "boxes.json"] {
            assert!(text.contains(&format!("| {name} | `")), "no digest of {name}");
        }
    }
}
