//! The page of a search for the highest load that meets the goals.

use maud::{Markup, html};

use super::{figure, foreign, shell};
use crate::report::saturation;
use crate::saturate::document::Document;

/// The page, a function of `saturation.json`.
pub fn of_search(document: &Document) -> String {
    let header = html! {
        h1 { "tarebench saturate" }
        @if !document.labels.is_empty() {
            p { @for label in &document.labels { span class="label" { (foreign::name(label)) } } }
        }
        dl class="facts" {
            dt { "Server" } dd { (foreign::name(document.server.as_deref().unwrap_or("no window was run"))) }
            dt { "Model" } dd { (foreign::name(document.model.as_deref().unwrap_or("not recorded"))) }
            dt { "Started" } dd { (foreign::name(&document.started_at)) }
            dt { "Measured with" } dd { "tarebench " (foreign::name(&document.tarebench)) }
            dt { "Goals" } dd { (foreign::sentence(&saturation::goals(&document.settings))) }
            dt { "Windows" } dd { (document.steps.len()) " of the search, " (document.points.len()) " at shares of the optimum; each is a run directory of its own, with a page of its own" }
        }
        div class="tools" id="tools" hidden { (shell::theme_button()) }
    };
    let main = html! {
        h2 id="verdict" { "How much can it carry?" }
        (verdict(document))
        h2 id="load" { "Over load" }
        (figure::of_search(document))
        h2 id="windows" { "Windows" }
        div class="scroll" tabindex="0" {
            table class="sort" {
                thead { tr { @for name in saturation::COLUMNS { th scope="col" { (name) } } th scope="col" class="l" { "directory" } } }
                tbody {
                    @for found in document.steps.iter().chain(&document.points) {
                        tr {
                            @for (i, cell) in saturation::cells(found).iter().enumerate() {
                                @if i == 0 { th scope="row" { (cell) } } @else { td { (cell) } }
                            }
                            td class="l" { a href=(format!("{}/report.html", found.dir)) { code { (found.dir) } } }
                        }
                    }
                }
            }
        }
        p class="note" { (saturation::legend(&document.settings)) }
        @let notes = saturation::notes(document);
        @if !notes.is_empty() { ul { @for (dir, words) in &notes { li { code { (dir) } ": " (foreign::sentence(words)) } } } }
        h2 id="rules" { "Rules" }
        ul { @for rule in document.definitions.values() { li { (foreign::sentence(rule)) } } }
        h2 id="files" { "Files and how to rebuild" }
        pre {
            "tarebench verify DIR                   # verifies every window, searches again over their rows, compares\n"
            "tarebench report DIR --out again.html  # makes this page again"
        }
    };
    let labels = if document.labels.is_empty() { String::new() } else { format!(" ({})", document.labels.join(", ")) };
    shell::page(&foreign::plain(&format!("tarebench saturate{labels}"), foreign::SENTENCE), &header, &main)
}

fn verdict(document: &Document) -> Markup {
    let (class, headline) = match (&document.optimum, document.conclusive) {
        (Some(found), true) => {
            ("good", format!("{} meet the goals, and what lies above does not.", saturation::at(document, found.load)))
        }
        (Some(found), false) => (
            "caution",
            format!(
                "{} are known to meet the goals; the search did not come to an end that is sure.",
                saturation::at(document, found.load)
            ),
        ),
        (None, _) => ("bad", "No load is known to meet the goals.".to_owned()),
    };
    html! {
        div class=(format!("verdict {class}")) {
            strong { (headline) }
            ul {
                @for sentence in saturation::sentences(document) {
                    @let (name, words) = sentence.split_once(": ").unwrap_or(("", &sentence));
                    li { b { (name) ": " } (foreign::sentence(words)) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::saturation::search::Answer;
    use crate::report::saturation::specimen::{document, figures};

    fn pictures(page: &str) -> usize {
        page.matches("<svg").count()
    }

    #[test]
    fn a_search_is_drawn_and_told() {
        let found = document();
        let steps = [16.0, 32.0, 64.0, 76.2].map(|load| figures(load, Answer::Meets));
        let page = of_search(&Document { steps: steps.to_vec(), ..found });
        assert_eq!(pictures(&page), 3);
        for words in [
            "76.2 requests/s meet the goals",
            "<title>tarebench saturate (SERVER NOT VERIFIED)",
            "https://gpu-7:8000",
            ">optimum</text>",
            ">knee</text>",
            "goal 99.0 %",
            "goal 500.0 ms",
            "saturation 80.1",
        ] {
            assert!(page.contains(words), "{words}: {page}");
        }
        assert!(page.contains("href=\"steps/00-climb-64/report.html\""), "{page}");
    }

    #[test]
    fn what_is_withheld_or_the_clients_is_not_drawn() {
        let mut withheld = figures(64.0, Answer::Meets);
        (withheld.ttft.p50_ms, withheld.ttft.p95_ms, withheld.ttft.p99_ms) = (None, None, None);
        (withheld.goodput, withheld.goodput_ci) = (None, None);
        let page = of_search(&Document { steps: vec![withheld], ..document() });
        assert_eq!(pictures(&page), 1, "throughput alone");
        assert!(page.contains("there is nothing that may be drawn"), "{page}");
        let client = figures(64.0, Answer::Client("worker 0 was busy".to_owned()));
        let page = of_search(&Document { steps: vec![client], optimum: None, conclusive: false, ..document() });
        assert_eq!(pictures(&page), 0);
        assert!(page.contains("No load is known to meet the goals."), "{page}");
    }

    #[test]
    fn names_of_others_are_text() {
        let mut hostile = figures(64.0, Answer::Meets);
        hostile.dir = "\"><script>alert(1)</script>".to_owned();
        hostile.client = vec!["<img src=x>".to_owned()];
        let page = of_search(&Document { steps: vec![hostile], ..document() });
        assert!(!page.contains("<script>alert") && !page.contains("<img"), "{page}");
    }
}
