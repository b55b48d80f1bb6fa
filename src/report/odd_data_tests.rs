//! Every screen with data that nobody hopes for.

use crate::analysis::specimen::{MS, Specimen, failed};
use crate::disclosure::directory::Disclosed;
use crate::lettering;
use crate::report::{card, markdown, terminal};
use crate::rundir::run_json::RunJson;
use proptest::prelude::*;

/// The three screens of a specimen: in short, in full, Markdown.
fn screens(mut specimen: Specimen) -> (RunJson, [String; 3]) {
    let dir = tempfile::tempdir().unwrap();
    specimen.write(dir.path());
    let (run, disclosed) = Disclosed::of_directory(dir.path()).unwrap();
    let boxes = card::terminal(&disclosed.boxes, 100, false);
    let screens = match disclosed.boxes.refusal() {
        None => [terminal::summary(&run, 100, false), terminal::render(&run, 100, false)],
        Some(refusal) => [0, 1].map(|_| terminal::refused(&run, &refusal, 100, false)),
    };
    let [short, full] = screens.map(|text| text + &boxes);
    let texts = [short, full, markdown::render(&run, &disclosed)];
    for text in &texts[..2] {
        let wide = text.lines().find(|line| lettering::width(line) > 100);
        assert_eq!(wide, None);
    }
    for text in &texts {
        assert!(!text.contains(|c| lettering::steers(c) && c != '\n'), "{text}");
    }
    (run, texts)
}

#[test]
fn all_failed() {
    let mut specimen = Specimen::two_windows();
    for (_, rows) in &mut specimen.windows {
        *rows = rows.drain(..).map(|row| failed(row, "transport")).collect();
    }
    let (_, texts) = screens(specimen);
    for text in &texts {
        assert!(text.contains("FAILED") && text.contains("transport"), "{text}");
    }
}

#[test]
fn one_request_and_one_without_usage() {
    let mut specimen = Specimen::two_windows();
    specimen.windows.truncate(1);
    let (bounds, rows) = &mut specimen.windows[0];
    rows.truncate(3);
    (bounds.planned, bounds.drop) = (3, 2);
    rows[2].completion_tokens = None;
    rows[2].prompt_tokens = None;
    rows[2].tokens_source = None;
    let (_, texts) = screens(specimen);
    for text in &texts {
        assert!(text.contains("1 kept") && text.contains("n<100"), "{text}");
    }
}

#[test]
fn five_hundred_loads_are_folded_and_what_is_folded_is_said() {
    let mut specimen = Specimen::two_windows();
    specimen.windows.truncate(1);
    let (bounds, rows) = specimen.windows.remove(0);
    let length = bounds.closed - bounds.opened + 10 * MS;
    for cell in 0..500_u32 {
        let later = u64::from(cell) * length;
        let mut bounds = bounds.clone();
        (bounds.cell, bounds.load.concurrency) = (cell, Some(cell + 1));
        (bounds.opened, bounds.closed) = (bounds.opened + later, bounds.closed + later);
        let moved = rows.iter().filter(|row| row.trace_id < 12 && row.error.is_none()).map(|row| {
            let mut row = crate::analysis::specimen::request(row.trace_id, row.due + later);
            (row.cell, row.phase) =
                (cell, if row.trace_id < 2 { crate::rundir::row::Phase::Warmup } else { row.phase });
            if cell == 77 && row.trace_id == 5 { failed(row, "timeout") } else { row }
        });
        let moved: Vec<_> = moved.collect();
        (bounds.planned, bounds.drop) = (moved.len() as u64, 2);
        specimen.windows.push((bounds, moved));
    }
    let (run, [short, full, md]) = screens(specimen);
    assert_eq!(run.cells.len(), 500);
    let lines = short.lines().count();
    assert!(lines < 260, "{lines} lines:\n{short}");
    assert!(short.contains("c=78 ") && short.contains("timeout"), "what failed is shown:\n{short}");
    assert!(short.contains(" rows of 500, evenly spaced") && short.contains("500 windows: "), "{short}");
    assert!(full.contains("c=400 ") && md.contains("c=400 "), "all of them elsewhere");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Names may hold anything.
    #[test]
    fn names_stay_text_and_columns_columns(
        name in "(<script>)?[\\PC\u{202e}\u{200f}\u{1b}\n日שم👩🔬\u{200d}\u{301}<>|`*_]{0,140}",
        class in "\\PC{0,60}",
        tokens in prop_oneof![Just(3_u64), Just(u64::from(u32::MAX)), Just(1 << 52)],
    ) {
        let mut specimen = Specimen::two_windows();
        specimen.plan["model"] = name.clone().into();
        specimen.plan["run_id"] = name.clone().into();
        specimen.plan["environment"]["host"] = name.clone().into();
        for (bounds, rows) in &mut specimen.windows {
            bounds.load.arrivals = Some(name.clone());
            for row in rows {
                row.class.clone_from(&class);
                row.model_echo = Some(name.clone());
                row.finish_reason = Some(name.clone());
                row.flags = vec![name.clone()];
                row.prompt_tokens = Some(tokens);
                if let Some(error) = &mut row.error {
                    error.class = name.clone();
                }
            }
        }
        let (_, texts) = screens(specimen);
        // what a name opens is escaped; the report's own words open nothing
        prop_assert!(!texts[2].contains("<script"), "{}", texts[2]);
    }
}
