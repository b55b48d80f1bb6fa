//! The fifteen boxes below a report: number, status and sentence.

use crate::disclosure::boxes::{Boxes, Filled, Status};
use crate::lettering;
use crate::report::markdown::cell_text;
use crate::report::terminal::{Paper, Tone};

/// Width of the columns before the sentence: ` 1  not verifiable  `.
const BEFORE: usize = 20;
/// Columns of the longest sentence that is not cut.
const LONGEST: usize = 800;

/// On a terminal.
pub fn terminal(boxes: &Boxes, width: usize, color: bool) -> String {
    let mut paper = Paper::new(width, color);
    paper.line(Tone::Plain, "");
    paper.line(Tone::Strong, &format!("The fifteen boxes: {}", counts(boxes)));
    for filled in &boxes.boxes {
        let status = filled.status.to_string();
        let first = format!("{:>2}  {status:14}  ", filled.number);
        let tone = match filled.status {
            Status::Measured => Tone::Quiet,
            Status::Declared | Status::NotVerifiable => Tone::Plain,
            Status::Empty => Tone::Alarm,
        };
        // breaks between words only: a run of spaces in a sentence is somebody else's
        let whole: Vec<&str> = filled.sentence.split_whitespace().collect();
        // what names each of hundreds of loads is for a page
        let mut columns = 0;
        let wide = |word: &&&str| {
            columns += lettering::width(word) + 1;
            columns <= LONGEST
        };
        let mut words: Vec<&str> = whole.iter().take_while(wide).copied().collect();
        if words.len() < whole.len() {
            words.push(".. (cut here; the whole of it: tarebench disclose, or report.md)");
        }
        paper.paragraph(tone, &first, &" ".repeat(BEFORE), &words.join(" "));
    }
    paper.text
}

/// As a section of `report.md`.
pub(super) fn markdown(boxes: &Boxes) -> String {
    let row = |b: &Filled| {
        let (title, sentence) = (cell_text(&b.title), cell_text(&b.sentence));
        format!("| {} | {title} | {} | {sentence} |\n", b.number, b.status)
    };
    let rows: String = boxes.boxes.iter().map(row).collect();
    format!(
        "## The fifteen boxes\n\n{}.\n\n| box | question | status | answer |\n|--:|---|---|---|\n{rows}\n",
        counts(boxes)
    )
}

/// `13 measured, 1 not verifiable, 1 empty`.
pub(super) fn counts(boxes: &Boxes) -> String {
    let all = [
        (Status::Measured, "measured"),
        (Status::Declared, "declared"),
        (Status::NotVerifiable, "not verifiable"),
        (Status::Empty, "empty"),
    ];
    let of = |status| boxes.boxes.iter().filter(|b| b.status == status).count();
    let parts =
        all.iter().filter(|(status, _)| of(*status) > 0).map(|(status, name)| format!("{} {name}", of(*status)));
    parts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::specimen::Specimen;
    use crate::disclosure::directory::Disclosed;
    use serde_json::json;

    fn boxes() -> Boxes {
        let dir = tempfile::tempdir().unwrap();
        let mut specimen = Specimen::campaign();
        for (key, value) in [("model", json!("m")), ("temperature", json!(0.0)), ("top_p", json!(1.0))] {
            specimen.plan[key] = value;
        }
        specimen.plan["declared"] = json!({"region": "nyc2", "hardware": "1 x H200"});
        specimen.plan["environment"]["address"] = "127.0.0.1:8000".into();
        specimen.plan["environment"]["server"] =
            json!({"models_document": {"data": [{"id": "m"}]}, "server": "uvicorn"});
        let rows = specimen.windows.iter_mut().flat_map(|(_, rows)| rows);
        rows.for_each(|row| row.nonce = format!("n{}", row.trace_id));
        specimen.write(dir.path());
        let start = json!({"event": "start", "run_id": "r1", "at": "2026-01-01T00:00:00Z", "plan_hash": "abc",
            "rules_hash": "0123456789abcdef", "rules": {"drop": 10, "num_prompts": 300, "windows": 2}});
        let runs = json!({"started": 3, "complete": 2, "invalid": 1});
        let end = json!({"event": "end", "run_id": "r1", "outcome": "complete", "runs_of_plan": runs, "runs": runs});
        std::fs::write(dir.path().join("ledger.jsonl"), format!("{start}\n{end}\n")).unwrap();
        Disclosed::of_directory(dir.path()).unwrap().1.boxes
    }

    #[test]
    fn a_card_looks_as_it_did() {
        let text = terminal(&boxes(), 100, false);
        let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/src/report/snapshots/card.txt");
        assert!(text == std::fs::read_to_string(kept).unwrap(), "now:\n{text}");
    }

    #[test]
    fn it_fits_and_colour_changes_no_character() {
        let mut boxes = boxes();
        boxes.boxes[11].sentence.push_str(" \u{1b}[31m x   y");
        for width in [40, 72, 100, 200] {
            let widest = terminal(&boxes, width, false).lines().map(|l| l.chars().count()).max();
            assert!(widest <= Some(width.clamp(72, 100)), "{width}: {widest:?}");
        }
        let (plain, mut colored) = (terminal(&boxes, 100, false), terminal(&boxes, 100, true));
        assert!(!plain.contains('\u{1b}'));
        for code in ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[33m"] {
            colored = colored.replace(code, "");
        }
        assert_eq!(colored, plain);
    }

    #[test]
    fn markup_stays_text() {
        let mut boxes = boxes();
        (boxes.boxes[11].sentence, boxes.boxes[11].status) = ("a | b <c> `d`".into(), Status::NotVerifiable);
        assert!(markdown(&boxes).contains("| 12 | Exactly which model? | not verifiable | a \\| b &lt;c> 'd' |\n"));
    }
}
