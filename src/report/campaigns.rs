//! The campaign ledger as people read it: every campaign, and every place where its chain does not hold.

use crate::disclosure::ledger::book::{Book, Campaign, Counts, short};
use crate::disclosure::ledger::neighbours::Fault;
use crate::lettering::{self, legible, width};
use crate::reading::printable;
use crate::report::quantity::count;
use serde_json::{Value, json};
use std::path::Path;

/// Longest line.
pub const WIDEST: usize = 100;
/// What stands instead of an outcome.
const NO_END: &str = "no end line: crashed, killed, or still running";

/// The ledger at `path` for a terminal; `faults` are those that run directories show.
pub fn render(path: &Path, book: &Book, faults: &[Fault]) -> String {
    let mut lines = vec![format!("ledger   {}: {}", path.display(), ended(&book.counts()))];
    lines.extend(book.campaigns.iter().flat_map(|campaign| lines_of(campaign, book)));
    let whole = format!("chain    whole: {} lines, each follows the one above it", count(book.lines as u64));
    let broken = |first: String| format!("BROKEN   {first}");
    let all: Vec<String> =
        book.breaks.iter().map(ToString::to_string).chain(faults.iter().map(ToString::to_string)).collect();
    match all.is_empty() {
        true => lines.push(whole),
        false => lines.extend(all.into_iter().map(broken)),
    }
    lines.iter().flat_map(|line| folded(line)).map(|line| line + "\n").collect()
}

fn ended(counts: &Counts) -> String {
    let kinds = [
        (counts.complete, "complete"),
        (counts.invalid, "invalid"),
        (counts.interrupted, "interrupted"),
        (counts.failed, "failed"),
        (counts.without_end, "without an end line"),
    ];
    let kinds: Vec<String> =
        kinds.iter().filter(|(n, _)| *n > 0).map(|(n, name)| format!("{} {name}", count(*n))).collect();
    let plural = if counts.started == 1 { "campaign" } else { "campaigns" };
    let list = if kinds.is_empty() { String::new() } else { format!(": {}", kinds.join(", ")) };
    format!("{} {plural}{list}", count(counts.started))
}

/// What happened, and what was asked.
fn lines_of(campaign: &Campaign, book: &Book) -> Vec<String> {
    let word = |key: &str| printable(campaign.started(key).unwrap_or("?"), None);
    let end = campaign.end.as_ref();
    let at = campaign.started("at").or_else(|| end?["at"].as_str()).unwrap_or("?");
    let requests = |key: &str| end.and_then(|end| end["requests"][key].as_u64()).map(count);
    let counts = match (requests("ok"), requests("failed")) {
        (Some(ok), Some(failed)) => format!(", {ok} ok, {failed} failed"),
        _ => String::new(),
    };
    let outcome = campaign.outcome().map_or_else(|| NO_END.to_owned(), |outcome| printable(outcome, None));
    let mut lines = vec![format!("{}  {}  {outcome}{counts}", printable(at, None), word("dir"))];
    match &campaign.start {
        Some(_) => {
            let plan = word("plan_hash");
            let same = book.counts_of_plan(&plan).started;
            let target = format!("{} at {}", word("model"), word("base_url"));
            lines.push(format!("    plan {} ({} of this plan)  {target}", short(&plan), count(same)));
        }
        None => lines.push("    no start line: it is not in this ledger, or could not be written".to_owned()),
    }
    if let Some(reason) = end.and_then(|end| end["reason"].as_str()) {
        lines.push(format!("    because: {}", printable(reason, None)));
    }
    lines
}

/// A line in pieces that fit, those after the first set in.
pub(super) fn folded(line: &str) -> Vec<String> {
    let line = legible(line);
    let mut pieces = Vec::new();
    let mut piece = String::new();
    for word in line.split_inclusive(' ') {
        let (mut word, length) = (word, width);
        if length(&piece) + length(word.trim_end()) > WIDEST && !piece.trim().is_empty() {
            pieces.push(std::mem::replace(&mut piece, " ".repeat(9)).trim_end().to_owned());
        }
        // a word that no line holds
        while length(&piece) + length(word.trim_end()) > WIDEST {
            let at = lettering::pieces(word, WIDEST - length(&piece))[0].len();
            piece.push_str(&word[..at]);
            pieces.push(std::mem::replace(&mut piece, " ".repeat(9)));
            word = &word[at..];
        }
        piece.push_str(word);
    }
    pieces.push(piece.trim_end().to_owned());
    pieces
}

/// The same for programs: counts, every campaign's lines as they stand there, and what is broken.
pub fn document(path: &Path, book: &Book, faults: &[Fault]) -> Value {
    let campaign = |campaign: &Campaign| {
        json!({
            "run_id": campaign.run_id,
            "outcome": campaign.outcome(),
            "of_plan": campaign.started("plan_hash").map(|hash| book.counts_of_plan(hash).started),
            "start": campaign.start,
            "end": campaign.end,
        })
    };
    json!({
        "ledger": path.display().to_string(),
        "lines": book.lines,
        "whole": book.breaks.is_empty() && faults.is_empty(),
        "runs": book.counts(),
        "breaks": book.breaks.iter().map(|b| json!({"line": b.line(), "text": b.to_string()})).collect::<Vec<_>>(),
        "directories": faults.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "campaigns": book.campaigns.iter().map(campaign).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_folded_at_words_and_long_words_anywhere() {
        let text = format!("BROKEN   {} {}", "word ".repeat(30), "x".repeat(250));
        let lines = folded(&text);
        assert!(lines.iter().all(|line| line.chars().count() <= WIDEST), "{lines:?}");
        let bare = |text: &str| text.split_whitespace().collect::<String>();
        assert_eq!(bare(&lines.join(" ")), bare(&text), "nothing is lost");
        assert!(lines[1].starts_with("         word"), "{lines:?}");
        assert_eq!(folded("short"), ["short"]);
    }
}
