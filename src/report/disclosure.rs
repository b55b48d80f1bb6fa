//! The disclosure of a campaign on one page of Markdown, to be put beside its figures.

use std::fmt::Write as _;

use crate::disclosure::boxes::questions::{GROUPS, OF_NO_BOX, QUESTIONS};
use crate::disclosure::boxes::{Filled, Status};
use crate::disclosure::directory::Disclosed;
use crate::report::card::counts;
use crate::report::markdown::{cell_text, title};
use crate::rundir::run_json::RunJson;

/// The page.
pub fn page(run: &RunJson, disclosed: &Disclosed) -> String {
    let mut md = title("Disclosure of tarebench", run);
    let or = |text: &Option<String>| cell_text(text.as_deref().unwrap_or("unknown"));
    let _ = writeln!(
        md,
        "Started {}, measured with tarebench {}, plan `{}`.",
        or(&run.started_at),
        or(&run.tarebench),
        or(&run.plan_hash)
    );
    let _ = writeln!(md, "{}. A ticked box has an answer; an empty one means \"trust me\".", counts(&disclosed.boxes));
    let mut rest = disclosed.boxes.boxes.iter().zip(QUESTIONS).peekable();
    for (group, last) in GROUPS {
        let _ = writeln!(md, "\n## {group}\n");
        while let Some((filled, question)) = rest.next_if(|(filled, _)| filled.number <= last) {
            tick(&mut md, filled, question.fill);
        }
    }
    let belongs = |key: &&String| !QUESTIONS.iter().any(|q| q.declared.contains(&key.as_str()));
    let others = disclosed.plan["declared"].as_object().into_iter().flatten().filter(|(key, _)| belongs(key));
    let others: Vec<String> = others
        .map(|(key, value)| format!("- {}: {}", cell_text(key), cell_text(value.as_str().unwrap_or_default())))
        .collect();
    if !others.is_empty() {
        let _ = writeln!(md, "\n## Declared beside, not measured\n\n{}", others.join("\n"));
    }
    debug_assert!(OF_NO_BOX.iter().all(|key| belongs(&&(*key).to_string())), "it has no box");
    md
}

fn tick(md: &mut String, filled: &Filled, fill: &str) {
    let mark = if filled.status == Status::Empty { ' ' } else { 'x' };
    let (title, sentence) = (cell_text(&filled.title), cell_text(&filled.sentence));
    let _ = writeln!(
        md,
        "- [{mark}] {}. **{title}** ({}) {sentence}.",
        filled.number,
        filled.status.to_string().to_lowercase()
    );
    if matches!(filled.status, Status::Empty | Status::NotVerifiable) {
        let _ = writeln!(md, "  What would fill it: {fill}.");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::specimen::Specimen;

    #[test]
    fn five_groups_fifteen_ticks() {
        let dir = tempfile::tempdir().unwrap();
        let mut specimen = Specimen::campaign();
        specimen.plan["declared"] = serde_json::json!({"region": "nyc2", "price": "3 | 4", "mood": "good"});
        specimen.write(dir.path());
        let (run, disclosed) = Disclosed::of_directory(dir.path()).unwrap();
        let text = page(&run, &disclosed);
        assert!(
            text.starts_with("# Disclosure of tarebench r1 (LOOPBACK, ONE LOAD ONLY, UNIFORM LENGTHS, SHORT)\n"),
            "{text}"
        );
        assert_eq!(text.matches("\n## ").count(), 6, "{text}");
        let marks = |mark: &str| text.lines().filter(|l| l.starts_with(mark)).count();
        assert_eq!((marks("- [x] "), marks("- [ ] ")), (13, 2), "{text}");
        let fill = "  What would fill it: the lines of a ledger that was kept from before the first request.";
        assert!(text.contains(fill), "{text}");
        assert!(text.ends_with("## Declared beside, not measured\n\n- price: 3 \\| 4\n- mood: good\n"), "{text}");
    }
}
