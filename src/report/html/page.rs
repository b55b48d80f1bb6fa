//! The page from top to bottom.

use maud::{Markup, html};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{figure, foreign, shell, tables, window};
use crate::analysis::exhibits::{Exhibits, WindowExhibits};
use crate::disclosure::boxes::Status;
use crate::disclosure::directory::Disclosed;
use crate::export::terms::Terms;
use crate::report::quantity::{count, percent};
use crate::report::{card, curves, fitness, markdown, overview, terminal};
use crate::rundir::run_json::{Cell, Requests, RunJson, Window};
use crate::workload::hex;

/// Windows that are told one by one; of more, only the first.
pub(super) const MOST_WINDOWS: usize = 24;
/// With more windows than this the pictures are coarser, and of the first window of each load alone.
const FINE_WINDOWS: usize = 8;
/// Sentences about curves that are printed.
const MOST_SENTENCES: usize = 40;

/// The page.
pub(super) fn page(run: &RunJson, disclosed: &Disclosed, exhibits: &Exhibits, terms: Option<&Terms>) -> String {
    let refusal = disclosed.boxes.refusal();
    let name = foreign::plain(run.run_id.as_deref().unwrap_or("without run id"), foreign::NAME);
    let labels = if run.labels.is_empty() { String::new() } else { format!(" ({})", run.labels.join(", ")) };
    let title = foreign::plain(&format!("tarebench {name}{labels}"), foreign::SENTENCE);
    let header = html! {
        h1 { "tarebench " (foreign::name(run.run_id.as_deref().unwrap_or("without run id"))) }
        @if !run.labels.is_empty() {
            p { @for label in &run.labels { span class="label" { (foreign::name(label)) } } }
        }
        (what_was_measured(run, disclosed))
        div class="tools" id="tools" hidden {
            span { "Show columns:" }
            @for (class, name) in [("cg", "gross"), ("ct", "tare"), ("cn", "net"), ("cd", "due")] {
                label { input type="checkbox" value=(class) checked; (name) }
            }
            (shell::theme_button())
        }
        (contents(run, refusal.is_some()))
    };
    let main = html! {
        (verdict(run, refusal.as_deref()))
        @match &refusal {
            Some(_) => { (counts_alone(run)) }
            None => { (findings(run, exhibits)) }
        }
        (boxes(disclosed))
        @if refusal.is_none() { @if let Some(terms) = terms { (names_elsewhere(run, terms)) } }
        (how_to_read())
        (rebuild(run, disclosed))
    };
    shell::page(&title, &header, &main)
}

fn what_was_measured(run: &RunJson, disclosed: &Disclosed) -> Markup {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let environment = &run.environment;
    let server =
        [text(&environment["base_url"]), text(&environment["server"]["server"]), text(&environment["address"])];
    let server: Vec<String> = server.into_iter().flatten().collect();
    let (windows, requests) = totals(run);
    let loads: Vec<String> = run.cells.iter().take(12).map(|c| overview::short(&c.load)).collect();
    let more = if run.cells.len() > loads.len() {
        format!(" and {} more", run.cells.len() - loads.len())
    } else {
        String::new()
    };
    let host = [
        text(&environment["host"]),
        text(&environment["cpu_model"]),
        text(&environment["kernel"]).map(|k| format!("Linux {k}")),
    ];
    let host: Vec<String> = host.into_iter().flatten().collect();
    let known = |words: String| if words.is_empty() { "not recorded".to_owned() } else { words };
    html! {
        dl class="facts" {
            dt { "Server" } dd { (foreign::name(&known(server.join(", ")))) }
            dt { "Model" } dd { (foreign::name(&known(text(&disclosed.plan["model"]).unwrap_or_default()))) }
            dt { "Loads" } dd { (foreign::name(&format!("{}{more}; {} windows, {} requests kept", loads.join(", "), count(windows), count(requests.kept)))) }
            dt { "Started" } dd { (foreign::name(run.started_at.as_deref().unwrap_or("unknown"))) }
            dt { "Measured from" } dd { (foreign::name(&known(host.join(", ")))) }
            dt { "Measured with" } dd { "tarebench " (foreign::name(run.tarebench.as_deref().unwrap_or("of unknown version"))) }
            dt { "Client weighed" } dd { (foreign::sentence(&fitness::calibration(run).0)) }
            dt { "Plan" } dd { code { (foreign::name(run.plan_hash.as_deref().unwrap_or("unknown"))) } }
        }
    }
}

fn totals(run: &RunJson) -> (u64, Requests) {
    let mut sum = Requests::default();
    let windows = run.cells.iter().flat_map(|c| &c.windows);
    let n = windows.map(|w| sum.add(&w.requests)).count();
    (n as u64, sum)
}

fn contents(run: &RunJson, refused: bool) -> Markup {
    html! {
        nav aria-label="Contents" {
            ul {
                li { a href="#verdict" { "Verdict" } }
                @if !refused {
                    li { a href="#all" { "All windows" } }
                    li { a href="#load" { "Over load" } }
                    li { a href="#noise" { "Noise" } }
                    @for cell in told(run) {
                        li { a href=(format!("#c{}", cell.cell)) { "Load " (cell.cell) ": " (foreign::name(&overview::short(&cell.load))) } }
                    }
                }
                li { a href="#boxes" { "The fifteen boxes" } }
                li { a href="#read" { "How to read this" } }
                li { a href="#files" { "Files and how to rebuild" } }
            }
        }
    }
}

/// Loads of which at least one window is told by itself.
fn told(run: &RunJson) -> impl Iterator<Item = &Cell> {
    let mut before = 0;
    run.cells.iter().filter(|cell| !cell.windows.is_empty()).take_while(move |cell| {
        let goes_on = before < MOST_WINDOWS;
        before += cell.windows.len();
        goes_on
    })
}

/// Whether the figures can be believed, in words, before any of them.
fn verdict(run: &RunJson, refusal: Option<&str>) -> Markup {
    let (windows, r) = totals(run);
    let all = || run.cells.iter().flat_map(|c| c.windows.iter().map(move |w| (c, w)));
    let invalid = run.verdicts.iter().filter(|v| v.kind == "invalid").count();
    let lost = r.failed + r.censored + r.not_sent;
    let voided = all().filter(|(_, w)| !fitness::withheld(w, true, 1).is_empty()).count();
    let share = |n: u64| percent((r.due > 0).then(|| n as f64 / r.due as f64));
    let (class, headline) = match () {
        () if refusal.is_some() => ("bad", refusal.unwrap_or_default().to_owned()),
        () if windows == 0 => ("bad", "Nothing was measured: no window was closed.".to_owned()),
        () if r.ok == 0 => (
            "bad",
            format!(
                "No request was answered: {} due, {} failed, {} not sent.",
                count(r.due),
                count(r.failed),
                count(r.not_sent)
            ),
        ),
        () if invalid > 0 => (
            "bad",
            format!("{invalid} of {windows} windows are not valid: their figures are withheld or carry no claim."),
        ),
        () if !run.complete => ("bad", "The campaign is not complete.".to_owned()),
        () if run.verdicts.iter().any(|v| v.kind == "failed") => {
            ("bad", format!("Too many requests failed: {} of {} due.", count(lost), count(r.due)))
        }
        () if voided > 0 => (
            "caution",
            format!(
                "In {voided} of {windows} windows the client was not fit to tell every column: what it cannot tell is withheld."
            ),
        ),
        () if lost > 0 => (
            "caution",
            format!(
                "All {windows} windows are valid; {} of {} requests due ({}) gave no latency.",
                count(lost),
                count(r.due),
                share(lost)
            ),
        ),
        () => (
            "good",
            format!(
                "All {windows} windows are valid: every one of {} requests kept was answered, and no gate on the client withholds a column.",
                count(r.kept)
            ),
        ),
    };
    html! {
        h2 id="verdict" { "Can these figures be believed?" }
        div class=(format!("verdict {class}")) {
            strong { (foreign::sentence(&headline)) }
            ul {
                li { (count(r.due)) " requests due, " (count(r.dropped)) " of them warm-up; of " (count(r.kept)) " kept "
                    (count(r.ok)) " ok, " (count(r.failed)) " failed, " (count(r.censored)) " cut off by the end of their window; "
                    (count(r.not_sent)) " never sent. Failed and cut-off requests are in no latency." }
                @for (name, classes) in [("Failed", &r.by_error), ("Not sent", &r.not_sent_reasons)] {
                    @if !classes.is_empty() {
                        li { (name) ": " @for (i, (class, n)) in classes.iter().enumerate() {
                            @if i > 0 { ", " } (foreign::name(class)) " " (count(*n)) } "." }
                    }
                }
                @for v in run.verdicts.iter().filter(|v| !fitness::is_of_calibration(&v.kind)).take(MOST_SENTENCES) {
                    li { @if let (Some(c), Some(w)) = (v.cell, v.window) { b { "Load " (c) ", window " (w) ": " } } (foreign::sentence(&v.text)) }
                }
                @if run.verdicts.len() > MOST_SENTENCES { li { (run.verdicts.len() - MOST_SENTENCES) " more verdicts are in report.md." } }
            }
            @if refusal.is_none() { (gates(&all().collect::<Vec<_>>())) }
        }
    }
}

/// What the gates withhold, window by window.
fn gates(all: &[(&Cell, &Window)]) -> Markup {
    let told: Vec<(u32, &Window, Vec<String>)> = all
        .iter()
        .map(|(c, w)| {
            let mut lines = fitness::withheld(w, true, 3);
            lines.extend(fitness::too_wide(w));
            (c.cell, *w, lines)
        })
        .filter(|(_, _, lines)| !lines.is_empty())
        .collect();
    html! {
        @if !told.is_empty() {
            details open[told.len() <= 4] {
                summary { "What the client withholds, and why: " (told.len()) " windows" }
                ul {
                    @for (cell, window, lines) in told.iter().take(MOST_SENTENCES) {
                        @for line in lines { li { b { "Load " (cell) ", window " (window.window) ": " } (foreign::sentence(line)) "." } }
                    }
                    @if told.len() > MOST_SENTENCES { li { (told.len() - MOST_SENTENCES) " more windows are in report.md." } }
                }
            }
        }
    }
}

fn counts_alone(run: &RunJson) -> Markup {
    html! {
        h2 { "Counts" }
        p { "There is no report without boxes 1 to 3, so only counts are shown." }
        div class="scroll" tabindex="0" {
            table {
                thead { tr { th scope="col" { "load" } th scope="col" { "window" } th scope="col" class="w" { "requests" } } }
                tbody {
                    @for cell in &run.cells {
                        @for window in &cell.windows {
                            tr {
                                th scope="row" { (foreign::name(&terminal::load(&cell.load))) }
                                td { (window.window) }
                                td class="w" { (terminal::requests(&window.requests).replace("   ", ", ")) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn findings(run: &RunJson, exhibits: &Exhibits) -> Markup {
    let rows = overview::rows(run);
    let windows: usize = run.cells.iter().map(|c| c.windows.len()).sum();
    let detail = |place: usize| match () {
        () if windows <= FINE_WINDOWS => figure::Detail::Fine,
        () if place == 0 => figure::Detail::Coarse,
        () => figure::Detail::Tables,
    };
    let all: Vec<_> = run.curves.iter().collect();
    let turning = curves::turning(&all);
    let nothing = WindowExhibits::default();
    let mut left = MOST_WINDOWS;
    html! {
        h2 id="all" { "All windows" }
        div class="scroll" tabindex="0" {
            table class="sort" {
                thead { tr { @for head in overview::COLUMNS { th scope="col" { (head) } } } }
                tbody { @for row in &rows { tr { @for (i, cell) in row.iter().enumerate() {
                    @if i == 0 { th scope="row" { (foreign::name(cell)) } } @else { td { (cell) } } } } } }
            }
        }
        p class="note" { (overview::clock(run)) "." }
        h2 id="load" { "Over load" }
        (figure::over_load(run))
        @if !turning.is_empty() {
            p { "Percentiles that turn back as the load grows:" }
            ul { @for curve in turning.iter().take(MOST_SENTENCES) { li { (foreign::sentence(&curve.text)) } } }
            @if turning.len() > MOST_SENTENCES { p class="note" { (turning.len() - MOST_SENTENCES) " more are in report.md." } }
        }
        @if let Some(text) = curves::none_turns(&all) { p { (text) "." } }
        h2 id="noise" { "Noise between windows" }
        (figure::noise(run))
        @for cell in &run.cells {
            @let shown = left.min(cell.windows.len());
            @if shown > 0 {
                h2 id=(format!("c{}", cell.cell)) { "Load " (cell.cell) ": " (foreign::name(&terminal::load(&cell.load))) }
                @for (place, found) in cell.windows.iter().take(shown).enumerate() {
                    @let drawn = exhibits.windows.iter().find(|e| (e.cell, e.window) == (cell.cell, found.window)).unwrap_or(&nothing);
                    (window::section(cell, found, drawn, &exhibits.marks, detail(place)))
                }
            }
            @let () = left -= shown;
        }
        @if windows > MOST_WINDOWS {
            h2 { "Other windows" }
            p { (windows - MOST_WINDOWS) " of " (windows) " windows are in the tables and pictures above, and not told one by one here: that is in report.md, beside this file." }
        }
    }
}

fn boxes(disclosed: &Disclosed) -> Markup {
    let boxes = &disclosed.boxes;
    html! {
        h2 id="boxes" { "The fifteen boxes" }
        p { "What must be known before a benchmark can be believed: " (card::counts(boxes)) "." }
        div class="scroll" tabindex="0" {
            table {
                thead { tr { th scope="col" { "box" } th scope="col" class="k" { "question" } th scope="col" class="l" { "status" } th scope="col" class="w" { "answer" } } }
                tbody {
                    @for b in &boxes.boxes {
                        tr {
                            th scope="row" { (b.number) }
                            td class="k" { (b.title) }
                            td class=(if b.status == Status::Empty { "l st0" } else { "l" }) { (b.status) }
                            td class="w" { (foreign::sentence(&b.sentence)) }
                        }
                    }
                }
            }
        }
    }
}

/// What the same stream is called in each tool.
fn names_elsewhere(run: &RunJson, terms: &Terms) -> Markup {
    let cell = run.cells.iter().find(|c| c.cell == terms.cell);
    let window = cell.and_then(|c| c.windows.iter().find(|w| w.window == terms.window));
    // what the client was not fit to tell is told by no tool either
    let withheld = window.is_some_and(|w| w.metrics.ttft.gross.as_ref().is_some_and(|d| d.n > 0 && d.p50_ms.is_none()));
    let figure = |value: Option<f64>, unit: &str| match value {
        Some(v) if withheld && unit == "ms" => format!("{v:.3} !"),
        Some(v) => format!("{v:.3}"),
        None => "-".to_owned(),
    };
    let mut concepts: Vec<&str> = terms.terms.iter().map(|t| t.concept).collect();
    concepts.dedup();
    html! {
        h2 id="terms" { "What the same stream is called in each tool" }
        p { "One window of this run (load " (terms.cell) ", window " (terms.window) "), counted again from its raw records under each tool's own definitions." }
        @if withheld { p class="note" { "! The client was not fit to tell what it saw in this window: this report withholds it, and these figures carry no claim." } }
        div class="scroll" tabindex="0" {
            table {
                thead { tr { th scope="col" { "tool" } th scope="col" class="l" { "name there" } th scope="col" { "n" } th scope="col" { "mean" } th scope="col" { "p50" } th scope="col" { "p99" } th scope="col" class="l" { "unit" } th scope="col" class="w" { "from what to what" } } }
                @for concept in concepts {
                    tbody {
                        tr { th scope="rowgroup" colspan="8" { b { (concept) } } }
                        @for t in terms.terms.iter().filter(|t| t.concept == concept) {
                            tr {
                                th scope="row" { (t.tool) }
                                td class="l" { code { (t.name) } }
                                td { (count(t.n)) }
                                td { (figure(t.mean, t.unit)) } td { (figure(t.p50, t.unit)) } td { (figure(t.p99, t.unit)) }
                                td class="l" { (t.unit) }
                                td class="w" { (t.definition) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn how_to_read() -> Markup {
    html! {
        h2 id="read" { "How to read this" }
        p { (markdown::HOW_TO_READ.replace('`', "")) }
    }
}

fn rebuild(run: &RunJson, disclosed: &Disclosed) -> Markup {
    let own = disclosed.boxes.to_json().unwrap_or_default();
    let own = hex(&Sha256::digest(own));
    let files =
        disclosed.digests.iter().map(|(name, digest)| (*name, digest.as_str())).chain([("boxes.json", own.as_str())]);
    html! {
        h2 id="environment" { "Environment" }
        (tables::object(&run.environment))
        h2 id="plan" { "Plan" }
        details { summary { "What was asked" } (tables::object(&markdown::what_was_asked(&disclosed.plan))) }
        h2 id="definitions" { "Definitions" }
        details {
            summary { "From what to what each figure is" }
            ul { @for id in run.definitions.values().flat_map(|columns| columns.values()) { li { code { (foreign::name(id)) } } } }
        }
        h2 id="files" { "Files and how to rebuild" }
        p { "Every number above can be rebuilt from these files, offline. DIR is the directory this page lies in." }
        pre {
            "tarebench verify DIR                                  # counts every figure again and compares
    "
            "tarebench report DIR --format html --out again.html   # makes this page again
    "
            "sha256sum DIR/*.jsonl DIR/*.json                      # compare with the digests below"
        }
        div class="scroll" tabindex="0" {
            table {
                thead { tr { th scope="col" { "file" } th scope="col" class="l" { "SHA-256" } } }
                tbody { @for (name, digest) in files { tr { th scope="row" { (name) } td class="l" { code { (digest) } } } } }
            }
        }
    }
}
