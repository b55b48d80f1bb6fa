//! One window in full: what was asked, what came of it, and whether the client could tell.

use maud::{Markup, html};

use super::figure::Detail;
use super::{figure, foreign, tables};
use crate::analysis::definitions::rules::GateState;
use crate::analysis::exhibits::{Mark, WindowExhibits};
use crate::report::quantity::{between, count, fraction, latency, percent, percentile, rate};
use crate::report::{arrivals, failure, fitness, goals, intervals, lengths, server, sessions, steady, terminal};
use crate::rundir::row::Outcome;
use crate::rundir::run_json::{Cell, Distribution, Verdict, VerdictKind, Window};
use crate::rundir::window::SessionKind;

const SHOWN: [&str; 5] = ["p50", "p90", "p95", "p99", "p999"];
/// Metrics told where there are many windows.
const IN_SHORT: [&str; 4] = ["ttft", "e2e", "gap", "tpot"];
/// Turns in the table of a window, told finely or not; more are in the Markdown report.
const TURNS: [usize; 2] = [60, 12];
/// Sentences of a window; more are in the Markdown report.
const MOST_SENTENCES: usize = 12;

/// The section of a window.
pub(super) fn section(cell: &Cell, window: &Window, drawn: &WindowExhibits, marks: &[Mark], detail: Detail) -> Markup {
    let cut = if window.interrupted { ", INTERRUPTED" } else { "" };
    let verdicts = sentences(window, detail);
    html! {
        section aria-label=(format!("Load {}, window {}", cell.cell, window.window)) {
            h3 id=(format!("c{}w{}", cell.cell, window.window)) { "Window " (window.window) (format!(" ({:.2} s{cut})", window.duration_s)) }
            p { (terminal::requests(&window.requests).replace("   ", ", ")) "." }
            @if !verdicts.is_empty() {
                div class="verdict caution" {
                    b { "What a reader must know" }
                    ul { @for text in verdicts.iter().take(MOST_SENTENCES) { li { (foreign::sentence(text)) } } }
                    @if verdicts.len() > MOST_SENTENCES { p class="note" { (verdicts.len() - MOST_SENTENCES) " more are in report.md." } }
                }
            }
            h4 { "Latency" }
            (metrics(window, detail))
            (of_sessions(window, detail))
            @if detail == Detail::Tables {
                p class="note" { "Pictures are drawn of the first window of each load; what else is known of this one is in report.md." }
                (facts(window))
            } @else {
                div class="wide" { (figure::timeline(window, drawn, marks, detail)) (figure::heatmap(window, drawn, detail)) }
                (figure::distributions(window, drawn))
                (figure::by_class(window, detail))
                h4 { "Work" }
                (work(window, detail))
                (facts(window))
                h4 { "The client" }
                div class="wide" { (figure::health(window, drawn, detail)) }
                (client(window))
                h4 { "Steadiness" @if detail == Detail::Fine { " and first requests" } }
                p { (steady::line(window).replace("   ", "; ")) "." }
                @if let Some(soak) = figure::over_time(window, detail) { div class="wide" { (soak) } }
                @if detail == Detail::Fine {
                    (tables::of_markdown(&steady::table(window).lines().collect::<Vec<_>>()))
                    (first_requests(window))
                }
            }
        }
    }
}

/// What a reader must know. That net has two ends is seen in its cells too: one word suffices where there are many
/// windows.
fn sentences(window: &Window, detail: Detail) -> Vec<String> {
    let mut all = fitness::withheld(window, true, usize::MAX);
    all.extend(fitness::flagged(window, usize::MAX));
    let in_short = |v: &&Verdict| detail != Detail::Fine && v.kind == VerdictKind::Both;
    let both = window.verdicts.iter().filter(in_short).count();
    if both > 0 {
        all.push(format!("{both} figures of net are known to lie between two moments only: a..b"));
    }
    let told = window.verdicts.iter().filter(|v| !in_short(v) && !fitness::is_of_gate(window, v));
    for v in told {
        let percentile = v.percentile.as_deref().unwrap_or("*");
        let about: Vec<&str> =
            [v.metric.as_str(), v.column.as_str(), percentile].into_iter().filter(|part| *part != "*").collect();
        let colon = if about.is_empty() { "" } else { ": " };
        all.push(format!("{}{colon}{}", about.join(" "), v.text));
    }
    all
}

/// The class of the toggle of a column.
fn toggle(column: &str) -> Option<&'static str> {
    Some(match column {
        "gross" => "cg",
        "tare" => "ct",
        "net" => "cn",
        "due" => "cd",
        _ => return None,
    })
}

fn metrics(window: &Window, detail: Detail) -> Markup {
    let mut columns = window.metrics.columns();
    if detail != Detail::Fine {
        columns.retain(|(metric, ..)| IN_SHORT.contains(metric));
    }
    let table: Vec<_> = columns.iter().map(|(metric, _, values)| (*metric, *values)).collect();
    let dash = |ms: Option<f64>| ms.map_or_else(|| "withheld".to_owned(), latency);
    html! {
        div class="scroll" tabindex="0" {
            table {
                thead { tr { th scope="col" { "metric" } th scope="col" class="l" { "column" } th scope="col" { "n" } th scope="col" { "mean" }
                    @for p in SHOWN { th scope="col" { (p.replace("p999", "p99.9")) } } th scope="col" { "max" } } }
                tbody {
                    @for (metric, column, values) in &columns {
                        @if let Some(d) = values {
                            tr class=[toggle(column)] {
                                th scope="row" { (metric) } td class="l" { (column) } td { (count(d.n)) } td { (dash(d.mean_ms)) }
                                @for p in SHOWN { td { (with_interval(d, p)) } }
                                td { (dash(d.max_ms)) }
                            }
                        }
                    }
                }
            }
        }
        p class="note" {
            @if detail != Detail::Fine { "The other metrics of this window are in report.md. " }
            "In grey stands the 95 % interval. The columns' percentiles do not add up; for gap, stall and tpot tare is signed. "
            @if let Some(text) = intervals::lacking(&table, &SHOWN) { (text) "." }
        }
        @let bounded = fitness::calibrated_net(window);
        @if !bounded.is_empty() {
            div class="scroll" tabindex="0" {
                table {
                    thead { tr { th scope="col" { "net (calibrated bounds), upload included" } th scope="col" { "mean" }
                        @for p in SHOWN { th scope="col" { (p.replace("p999", "p99.9")) } } } }
                    tbody { @for (metric, net) in bounded { tr {
                        th scope="row" { (metric) } td { (fitness::corrected_mean(net).unwrap_or_default().trim_start_matches("mean ")) }
                        @for (_, ends) in fitness::bounded(net) { td { (ends.map_or_else(|| "-".to_owned(), between)) } }
                    } } }
                }
            }
        }
    }
}

fn with_interval(d: &Distribution, p: &str) -> Markup {
    html! { (percentile(Some(d), p)) @if let Some(ends) = intervals::interval(Some(d), p) { br; i { (ends) } } }
}

/// Conversations or chains: how many, how long, and turn by turn.
fn of_sessions(window: &Window, detail: Detail) -> Markup {
    let Some(found) = &window.sessions else { return html! {} };
    let most = if detail == Detail::Fine { TURNS[0] } else { TURNS[1] };
    let title = match found.kind {
        SessionKind::Chat => "Sessions",
        SessionKind::Chain => "Tasks",
    };
    let tables = sessions::tables(found, most);
    html! {
        h4 { (title) }
        p { (sessions::counts(found).replace("   ", ", ")) "." }
        @if let Some(text) = sessions::lost(found) { p class="note" { (text.replace("   ", "; ")) "." } }
        @if let Some(text) = sessions::reasoning(&found.counts.left_out) { p class="note" { (text) "." } }
        @if detail != Detail::Tables {
            div class="pair" { (figure::ttft_by_turn(found)) (figure::tokens_by_turn(found)) }
        }
        (tables::of_markdown(&tables.iter().map(String::as_str).collect::<Vec<_>>()))
        p class="note" {
            "At once: " (sessions::at_once(found).replace("   ", ", ")) ". "
            (sessions::reading(found.kind)) ". "
            @if found.by_turn.len() > most { (found.by_turn.len() - most) " more " (sessions::parts(found.kind, 2)) " are in report.md. " }
            @if let Some(text) = sessions::lacking(found) { (text) "." }
        }
    }
}

fn work(window: &Window, detail: Detail) -> Markup {
    let t = &window.throughput;
    let rows = [
        t.from_s.zip(t.to_s).map(|(from, to)| {
            (format!("{from:.3} to {to:.3} s"), [t.requests_per_s, t.output_tokens_per_s, t.total_tokens_per_s])
        }),
        Some((
            "the whole window".to_owned(),
            [t.whole.requests_per_s, t.whole.output_tokens_per_s, t.whole.total_tokens_per_s],
        )),
    ];
    html! {
        div class="scroll" tabindex="0" {
            table {
                thead { tr { th scope="col" { "over" } th scope="col" { "requests/s" } th scope="col" { "output tokens/s" } th scope="col" { "total tokens/s" } } }
                tbody { @for (name, rates) in rows.iter().flatten() { tr { th scope="row" { (name) } @for per_s in rates { td { (rate(*per_s)) } } } } }
            }
        }
        @if !window.lengths.is_empty() {
            @let all = lengths::tables(window);
            // the second table tells by how much prompts are off
            @let shown = all.iter().map(String::as_str).take_while(|line| detail == Detail::Fine || !line.is_empty());
            (tables::of_markdown(&shown.collect::<Vec<_>>()))
        }
    }
}

/// What is said in sentences, one a line.
fn facts(window: &Window) -> Markup {
    let f = &window.in_flight;
    let p95 = f.p95.map_or_else(|| "-".to_owned(), count);
    let full = sessions::full(window);
    let comma = if full.is_empty() { "" } else { ", " };
    let known = |n: Option<u64>| n.map_or_else(|| "not reported".to_owned(), count);
    let t = &window.tokens;
    let mut lines = vec![
        format!("in flight: mean {}, p95 {p95}, max {}{comma}{full}", rate(f.mean), count(f.max)),
        format!(
            "tokens of kept requests: prompt {}, completion {}, cached {}, reasoning {}",
            known(t.prompt),
            known(t.completion),
            known(t.cached),
            known(t.reasoning)
        ),
        format!(
            "tokens per event: {}; events in which tokens may hide: {}; token events that share a read: {}",
            window.tokens_per_event.map_or_else(|| "unknown".to_owned(), |n| format!("{n:.3}")),
            count(window.empty_events),
            percent(window.coalesced_share)
        ),
    ];
    let listed = |name: &str, all: Vec<String>| (!all.is_empty()).then(|| format!("{name}: {}", all.join(", ")));
    lines.extend(listed(
        "flags (requests)",
        window.flags.iter().map(|(n, f)| format!("{n} {}", count(f.requests))).collect(),
    ));
    lines.extend(listed(
        "finish reasons",
        window.finish_reasons.iter().map(|(n, s)| format!("{n} {}", percent(Some(*s)))).collect(),
    ));
    lines.extend(listed(
        "model in the replies",
        window
            .model_echoes
            .iter()
            .map(|(n, k)| format!("{} {}", foreign::plain(n, foreign::NAME), count(*k)))
            .collect(),
    ));
    if let Some(found) = &window.arrivals {
        lines.extend(
            arrivals::in_full(found, sessions::arriving(window)).into_iter().map(|line| format!("arrivals: {line}")),
        );
    }
    lines.extend(lengths::remarks(window));
    lines.extend(window.goals.iter().flat_map(goals::sentences).map(|(text, _)| format!("goal: {text}")));
    let on_purpose = window.failure.iter().flat_map(failure::sentences);
    lines.extend(on_purpose.map(|sentence| format!("done on purpose: {}", sentence.text)));
    if let Some(found) = &window.server {
        let words = server::words(found);
        let words = if words.is_empty() { "nothing of what is known here".to_owned() } else { words };
        let span = found.span_s.map_or_else(String::new, |s| format!(" over {s:.2} s"));
        lines.push(format!("server, by its own counters{span}: {words}"));
    }
    html! { ul { @for line in &lines { li { (foreign::sentence(line)) } } } }
}

fn client(window: &Window) -> Markup {
    let client = &window.client;
    let number = |n: Option<f64>| n.map_or_else(|| "-".to_owned(), |n| format!("{n:.3}"));
    let counters = serde_json::to_value(client.counters).unwrap_or_default();
    let counters: Vec<String> =
        counters.as_object().into_iter().flatten().map(|(name, n)| format!("{} {n}", name.replace('_', " "))).collect();
    html! {
        div class="scroll" tabindex="0" {
            table class="sort" {
                thead { tr { th scope="col" { "gate" } th scope="col" class="l" { "scope" } th scope="col" class="l" { "state" } th scope="col" { "figure" } th scope="col" { "flags beyond" } th scope="col" { "withholds beyond" } th scope="col" class="l" { "what" } } }
                tbody {
                    @for g in &client.gates {
                        @let (class, state) = match g.state {
                            GateState::Ok => ("l", "ok"),
                            GateState::Warn => ("l st1", "flagged"),
                            GateState::Void => ("l st0", "VOID"),
                            GateState::Unknown => ("l", "not known"),
                        };
                        tr {
                            th scope="row" { (g.gate) } td class="l" { (foreign::name(&g.scope)) } td class=(class) { (state) }
                            td { (number(g.figure)) @if g.figure.is_some() { " " (g.unit) } } td { (number(g.warn)) } td { (number(g.void)) }
                            td class="l" { (g.voids.join(", ")) }
                        }
                    }
                }
            }
        }
        ul {
            li { "Gates: " (fitness::counts(window).replace("   ", ", ")) "." }
            @if let Some(text) = fitness::calibrated_tare(window) { li { (foreign::sentence(&text)) "." } }
            li { "Process " (fraction(client.cpu_per_wall)) " CPU per wall time; "
                @for (i, w) in client.workers.iter().enumerate().take(16) {
                    @if i > 0 { "; " }
                    "worker " (w.worker) (w.core.map_or_else(String::new, |core| format!(" on core {core}"))) ": " (fraction(w.cpu_per_wall)) ", worst 5 s " (fraction(w.worst_5s))
                    ", busy " (fraction(w.busy)) ", run queue " (percent(w.run_delay_share)) ", "
                    (w.involuntary_switches.map_or_else(|| "unknown".to_owned(), count)) " involuntary switches"
                } "." }
            li { "Counters: " (counters.join(", ")) "." }
        }
    }
}

/// Slow first calls are shown, not removed.
fn first_requests(window: &Window) -> Markup {
    let shown = |ms: Option<f64>| ms.map_or_else(|| "-".to_owned(), latency);
    html! {
        @if !window.first_requests.is_empty() {
            div class="scroll" tabindex="0" {
                table {
                    thead { tr { th scope="col" { "first requests" } th scope="col" class="l" { "outcome" } th scope="col" class="cg" { "ttft gross" } th scope="col" class="ct" { "tare" } th scope="col" class="cn" { "net" } } }
                    tbody {
                        @for r in &window.first_requests {
                            tr {
                                th scope="row" { (r.trace_id) }
                                td class="l" { (match r.outcome { Outcome::Ok => "ok", Outcome::Failed => "failed", Outcome::Censored => "censored", Outcome::NotSent => "not sent" }) }
                                td class="cg" { (shown(r.ttft_gross_ms)) } td class="ct" { (shown(r.ttft_tare_ms)) } td class="cn" { (shown(r.ttft_net_ms)) }
                            }
                        }
                    }
                }
            }
        }
    }
}
