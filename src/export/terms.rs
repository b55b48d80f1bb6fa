//! What the same stream is called in each tool: definitions side by side, with the figures they give for one window.

use std::path::Path;

use super::measured::{MeasuredWindow, each_window};
use super::{aiperf, guidellm, marks, seed, vllm};
use crate::rundir::run_json::{Cell, Distribution, RunJson, Window};

/// From what moment a request is timed.
pub const START: &str = "start";
/// Time to first token.
pub const TTFT: &str = "time to first token";
/// Time to the first visible answer text.
pub const FIRST_ANSWER: &str = "time to first answer";
/// Between tokens, or chunks.
pub const GAP: &str = "gap between tokens";
/// Per token after the first.
pub const TPOT: &str = "time per output token";
/// The whole reply.
pub const E2E: &str = "end-to-end latency";
/// Length of a reply.
pub const OUTPUT_TOKENS: &str = "output tokens";
/// Output tokens per time.
pub const THROUGHPUT: &str = "output throughput";

/// The concepts in the order of the table.
const CONCEPTS: [&str; 8] = [START, TTFT, FIRST_ANSWER, GAP, TPOT, E2E, OUTPUT_TOKENS, THROUGHPUT];

/// The terms for one window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Terms {
    /// Load point of the window.
    pub cell: u32,
    /// The window.
    pub window: u32,
    /// In order of concept, then tool.
    pub terms: Vec<Term>,
}

/// One name in one tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// What is meant to be measured, in the words of this report: `time to first token`.
    pub concept: &'static str,
    /// `tarebench`, `vLLM bench serve`, `AIPerf`, `GuideLLM`, `seed script`.
    pub tool: &'static str,
    /// The name there: `inter_token_latency`.
    pub name: &'static str,
    /// From what to what, over what: `first chunk with choices, role-only too - before the request is made`.
    pub definition: &'static str,
    /// Values; 0 where the tool has none for this stream.
    pub n: u64,
    /// Mean of them, in `unit`.
    pub mean: Option<f64>,
    /// Median under the tool's own percentile rule, in `unit`.
    pub p50: Option<f64>,
    /// 99th percentile likewise.
    pub p99: Option<f64>,
    /// `ms`, `tokens/s`, `tokens`.
    pub unit: &'static str,
}

/// The terms for the window with most ok requests of the highest load whose gross latencies are not withheld: other tools
/// see gross alone, and none of their figures may stand where these do not. None where there is no such window, or nothing was
/// answered in it.
///
/// # Errors
/// A file of `dir` that cannot be read, or a line of it that is not what it must be.
pub fn of_directory(dir: &Path, run: &RunJson) -> anyhow::Result<Option<Terms>> {
    let Some((cell, window)) = chosen(run) else { return Ok(None) };
    let mut terms = tarebench(window);
    let mut found = false;
    each_window(
        dir,
        |bounds| (bounds.cell, bounds.window) == (cell.cell, window.window),
        |measured| {
            found = true;
            terms.extend(of_tools(&measured));
            Ok(())
        },
    )?;
    // stable: the tools stay in their order
    terms.sort_by_key(|term| CONCEPTS.iter().position(|concept| *concept == term.concept).unwrap_or(CONCEPTS.len()));
    Ok(found.then_some(Terms { cell: cell.cell, window: window.window, terms }))
}

/// Why [`of_directory`] found no window.
pub fn none_because(run: &RunJson) -> &'static str {
    let windows = || run.cells.iter().flat_map(|cell| &cell.windows);
    if windows().any(|window| window.requests.ok > 0 && is_too_large(window)) {
        return "the window is too large: its rows would have to be in memory all at once";
    }
    match windows().any(|window| window.requests.ok > 0) {
        true => "gross latencies are withheld in every window: other tools' figures would be made of them",
        false => "no request was answered",
    }
}

fn of_tools(window: &MeasuredWindow) -> Vec<Term> {
    [vllm::terms(window), aiperf::terms(window), guidellm::terms(window), seed::terms(window)].concat()
}

fn chosen(run: &RunJson) -> Option<(&Cell, &Window)> {
    let windows = run.cells.iter().flat_map(|cell| cell.windows.iter().map(move |window| (cell, window)));
    let usable =
        windows.filter(|(_, window)| window.requests.ok > 0 && !gross_is_withheld(window) && !is_too_large(window));
    let load = |cell: &Cell| cell.load.rate.unwrap_or(f64::from(cell.load.concurrency.unwrap_or(u32::MAX)));
    // the later of equals: windows that are warm for longer
    usable.max_by(|(a, x), (b, y)| {
        load(a).total_cmp(&load(b)).then(x.requests.ok.cmp(&y.requests.ok)).then(x.window.cmp(&y.window))
    })
}

/// Requests and gaps of a window from which on its terms are not made: all its rows would have to be in memory.
const LARGEST: (u64, u64) = (100_000, 2_000_000);

fn is_too_large(window: &Window) -> bool {
    let gaps = window.metrics.gap.gross.as_ref().map_or(0, |gap| gap.n);
    window.requests.due > LARGEST.0 || gaps > LARGEST.1
}

fn gross_is_withheld(window: &Window) -> bool {
    ["ttft", "e2e", "gap"].iter().any(|metric| marks::withholds(window, metric, "gross"))
}

/// Our own terms, of `run.json`: what it withholds is null here.
fn tarebench(window: &Window) -> Vec<Term> {
    let metrics = &window.metrics;
    let term = |concept, name, definition, of: &Option<Distribution>| Term {
        concept,
        tool: "tarebench",
        name,
        definition,
        n: of.as_ref().map_or(0, |of| of.n),
        mean: of.as_ref().and_then(|of| of.mean_ms),
        p50: of.as_ref().and_then(|of| of.p50_ms),
        p99: of.as_ref().and_then(|of| of.p99_ms),
        unit: "ms",
    };
    let mut terms = vec![
        term(START, "lateness", "first action (connect or submit) - due", &metrics.lateness),
        term(
            TTFT,
            "ttft gross",
            "first event with a token in any channel, seen - just before the kernel is entered with the first byte",
            &metrics.ttft.gross,
        ),
        term(
            TTFT,
            "ttft net",
            "the same event's arrival in the kernel - last byte of the request on the wire",
            &metrics.ttft.net,
        ),
        term(FIRST_ANSWER, "ttfo gross", "first event with visible answer text, seen - submit", &metrics.ttfo.gross),
        term(FIRST_ANSWER, "ttfo net", "arrival of the same - on the wire", &metrics.ttfo.net),
        term(
            GAP,
            "gap gross",
            "between consecutive token events of one choice that came in different reads; all pooled",
            &metrics.gap.gross,
        ),
        term(GAP, "gap net", "the same between arrivals in the kernel", &metrics.gap.net),
        term(TPOT, "tpot gross", "(last token event - first) / (tokens - 1), seen", &metrics.tpot.gross),
        term(TPOT, "tpot net", "the same between arrivals in the kernel", &metrics.tpot.net),
        term(TPOT, "ntpot gross", "e2e gross / tokens", &metrics.ntpot.gross),
        term(E2E, "e2e gross", "last token event, seen - submit", &metrics.e2e.gross),
        term(E2E, "e2e net", "arrival of the same - on the wire", &metrics.e2e.net),
    ];
    // nothing was sent that has a lateness
    terms.retain(|term| term.concept != START || term.n > 0);
    let figure = |concept, name, definition, n, mean, unit| Term {
        concept,
        tool: "tarebench",
        name,
        definition,
        n,
        mean,
        p50: None,
        p99: None,
        unit,
    };
    let kept = window.requests.kept;
    terms.push(figure(
        OUTPUT_TOKENS,
        "completion tokens",
        "server's usage, else token ids; of the requests that are not warm-up, those told divided by all of these",
        kept,
        window.tokens.completion.filter(|_| kept > 0).map(|n| n as f64 / kept as f64),
        "tokens",
    ));
    terms.push(figure(
        THROUGHPUT,
        "output_tokens_per_s",
        "tokens of events that arrived while the load was full, failed and warm-up requests' too / that time",
        window.requests.sent,
        window.throughput.output_tokens_per_s,
        "tokens/s",
    ));
    terms
}

/// The table in Markdown, for `definitions.md`.
pub fn markdown(run: &RunJson, terms: Option<&Terms>) -> String {
    use std::fmt::Write;
    let mut text = String::from("# What the same stream is called in each tool\n\n");
    let Some(terms) = terms else {
        let _ = writeln!(text, "No figures: {}.", none_because(run));
        return text;
    };
    let _ = writeln!(
        text,
        "Run {}, load point {}, window {}. Every figure is made of the same records, under the definition beside it; other\n\
         tools give percentiles of however few values, tarebench gives none where n is too small or it is withheld (-).\n",
        plain(run.run_id.as_deref().unwrap_or("-")),
        terms.cell,
        terms.window
    );
    for mark in marks::of(run, terms.cell, terms.window) {
        let _ = writeln!(text, "- {}", plain(&mark));
    }
    text.push_str("\n| | tool | name there | from what to what | n | mean | p50 | p99 | |\n|---|---|---|---|--:|--:|--:|--:|---|\n");
    let mut last = "";
    for term in &terms.terms {
        let figure = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            if term.concept == last { "" } else { term.concept },
            term.tool,
            plain(term.name),
            plain(term.definition),
            term.n,
            figure(term.mean),
            figure(term.p50),
            figure(term.p99),
            term.unit
        );
        last = term.concept;
    }
    text
}

/// Text that is no markup in a table of Markdown.
fn plain(text: &str) -> String {
    let mut out = String::new();
    for c in crate::reading::printable(text, None).chars() {
        match c {
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '#' => out.extend(['\\', c]),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            c => out.push(c),
        }
    }
    out
}
