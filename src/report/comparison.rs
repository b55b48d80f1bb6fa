//! A comparison on a terminal, at most 100 columns wide, and as Markdown.

use crate::analysis::comparison::differences::Standing;
use crate::analysis::comparison::metric::change;
use crate::analysis::comparison::shift::Shift;
use crate::analysis::comparison::verdict::Verdict;
use crate::analysis::comparison::{Comparison, Row, RunName, WindowFigure};
use crate::report::markdown::cell_text;
use crate::report::terminal::{WIDEST, load};
use std::fmt::Write;

/// Windows whose figures are printed one by one.
const ONE_BY_ONE: usize = 8;
const INDENT: usize = 4;
/// A server that was set up anew says the same of itself as before: only people know what they changed.
const SAME: &str = "one plan, one address, and the server says the same of itself: what differs is noise, or a change that \
                    nobody declared (--declare)";

/// The comparison as it stands on a terminal.
pub fn terminal(compared: &Comparison) -> String {
    let mut text = String::from("tarebench compare");
    if !compared.labels.is_empty() {
        let _ = write!(text, "  {}", labels(compared));
    }
    text.push('\n');
    for (name, runs) in [("A", &compared.a), ("B", &compared.b)] {
        runs.iter().for_each(|run| wrap(&mut text, &format!("{name}  {}", run_words(run)), 3));
    }
    for d in &compared.differences {
        wrap(
            &mut text,
            &format!("differ in {}: {} | {}{}", d.name, one_line(&d.a), one_line(&d.b), standing(d.standing)),
            INDENT,
        );
    }
    if compared.differences.is_empty() {
        wrap(&mut text, SAME, INDENT);
    }
    wrap(&mut text, &format!("rules: {}", compared.rules.text), INDENT);
    wrap(&mut text, &format!("noise: {}", compared.rules.noise), INDENT);
    compared.notes.iter().for_each(|note| wrap(&mut text, &format!("note: {}", one_line(note)), INDENT));
    for cell in &compared.cells {
        let heading = load(&cell.load);
        let _ = writeln!(text, "\n{heading} {}", "-".repeat(WIDEST.saturating_sub(heading.len() + 1)));
        let _ = writeln!(
            text,
            "  {:<19}{:>12}{:>12}{:>12}{:>9}  {:<20}{:>11}",
            "", "A", "B", "B - A", "B / A", "[95 %]", "noise"
        );
        for (at, row) in cell.rows.iter().enumerate() {
            // what voids a whole load is said once
            let same = cell.rows[..at].iter().find(|before| !row.verdict.is_result() && before.why == row.why);
            terminal_row(&mut text, row, same);
        }
        cell.shifts.iter().for_each(|shift| terminal_shift(&mut text, shift));
    }
    text
}

fn labels(compared: &Comparison) -> String {
    one_line(&compared.labels.join(" | "))
}

fn run_words(run: &RunName) -> String {
    let plan = run.plan_hash.as_deref().map_or("unknown", |hash| hash.get(..12).unwrap_or(hash));
    let started = run.started_at.as_deref().unwrap_or("start unknown");
    format!("{}   {}   plan {}", run.dir, one_line(started), one_line(plan))
}

fn standing(standing: Standing) -> &'static str {
    match standing {
        Standing::UnderTest => "   (under test)",
        Standing::Harmless => "",
        Standing::Accepted => "   (may move the figures too)",
        Standing::Refused => "   (not comparable)",
    }
}

fn terminal_row(text: &mut String, row: &Row, same_as: Option<&Row>) {
    let words = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| row.unit.words(v));
    let effect = row.effect.map_or_else(|| "-".to_owned(), |v| row.unit.signed(v));
    let ratio = row.ratio.map_or_else(String::new, change);
    let _ = writeln!(
        text,
        "  {:<19}{:>12}{:>12}{effect:>12}{ratio:>9}  {:<20}{:>11}",
        row.label,
        words(row.a_mean),
        words(row.b_mean),
        interval(row),
        words(row.noise)
    );
    let why = same_as.map_or_else(|| one_line(&row.why), |before| format!("as for {}", before.label));
    wrap(text, &format!("    {}   {why}", row.verdict), 2 * INDENT);
    wrap(text, &format!("    windows of A {}; of B {}", windows(row, &row.a), windows(row, &row.b)), 2 * INDENT);
    if let Some(sentence) = row.sentence.as_ref().filter(|_| says_something(row.verdict)) {
        wrap(text, &format!("    {sentence}"), 2 * INDENT);
    }
    if let Some(advice) = &row.advice {
        wrap(text, &format!("    {}", advice.text), 2 * INDENT);
    }
}

/// What a file wrote must not move the cursor.
fn one_line(words: &str) -> String {
    crate::lettering::legible(&words.replace(char::is_control, " ")).into_owned()
}

/// Verdicts whose sentence may be quoted; the others say why nothing may.
fn says_something(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Supported | Verdict::Equivalent | Verdict::Suggestive)
}

fn interval(row: &Row) -> String {
    match (row.ratio_interval, row.effect_interval) {
        (Some([lo, hi]), _) => format!("[{}, {}]", change(lo), change(hi)),
        (None, Some([lo, hi])) if row.ratio.is_none() => format!("[{lo:+.3}, {hi:+.3}]"),
        _ => "[none]".to_owned(),
    }
}

fn windows(row: &Row, figures: &[WindowFigure]) -> String {
    let known: Vec<f64> = figures.iter().filter_map(|f| f.value).collect();
    let without = figures.len() - known.len();
    let withheld = if without > 0 { format!(" ({without} of {} without)", figures.len()) } else { String::new() };
    if known.len() > ONE_BY_ONE {
        let (least, most) = known.iter().fold((f64::MAX, f64::MIN), |(l, m), v| (l.min(*v), m.max(*v)));
        return format!("{}: {} to {}{withheld}", known.len(), row.unit.words(least), row.unit.words(most));
    }
    let known: Vec<String> = known.iter().map(|v| row.unit.words(*v)).collect();
    match known.is_empty() {
        true => format!("none{withheld}"),
        false => known.join(", ") + &withheld,
    }
}

fn terminal_shift(text: &mut String, shift: &Shift) {
    let [a, b] = shift.windows;
    let note = shift.note.as_ref().map_or_else(String::new, |note| format!(" ({note})"));
    if shift.deciles.is_empty() {
        wrap(text, &format!("  shift of {} {}: none{note}", shift.metric, shift.column), INDENT);
        return;
    }
    let of = format!(
        "  shift of {} {}, ms, B - A by decile, mean over {a} and {b} windows{note}",
        shift.metric, shift.column
    );
    wrap(text, &of, INDENT);
    let mut line = |name: &str, value: &dyn Fn(usize) -> Option<String>| {
        let values: Option<Vec<String>> = (0..shift.deciles.len()).map(value).collect();
        if let Some(values) = values {
            let cells: String = values.iter().map(|v| format!("{v:>9}")).collect();
            let _ = writeln!(text, "    {name:<12}{cells}");
        }
    };
    line("", &|i| Some(shift.deciles[i].name.clone()));
    line("B - A", &|i| Some(signed_ms(shift.deciles[i].shift_ms)));
    line("95 % from", &|i| Some(signed_ms(shift.deciles[i].interval_ms?[0])));
    line("to", &|i| Some(signed_ms(shift.deciles[i].interval_ms?[1])));
    line("p (Holm, 9)", &|i| Some(format!("{:.3}", shift.deciles[i].p_holm?)));
}

fn signed_ms(ms: f64) -> String {
    let digits = match ms.abs() {
        size if size < 9.995 => 3,
        size if size < 999.5 => 1,
        _ => 0,
    };
    format!("{ms:+.digits$}")
}

/// Adds a line, broken at blanks so that it fits; what follows is indented.
fn wrap(text: &mut String, words: &str, indent: usize) {
    let all = words.trim_start();
    let mut line = " ".repeat(words.len() - all.len());
    for (at, word) in all.split(' ').enumerate() {
        if at > 0 && line.chars().count() + 1 + word.chars().count() > WIDEST {
            let _ = writeln!(text, "{}", line.trim_end());
            line = " ".repeat(indent);
        } else if at > 0 {
            line.push(' ');
        }
        line.push_str(word);
    }
    let _ = writeln!(text, "{}", line.trim_end());
}

/// The comparison as Markdown.
pub fn markdown(compared: &Comparison) -> String {
    let mut md = String::from("# Comparison");
    if !compared.labels.is_empty() {
        let _ = write!(md, " ({})", cell_text(&labels(compared)));
    }
    md.push_str("\n\n");
    for (name, runs) in [("A", &compared.a), ("B", &compared.b)] {
        runs.iter().for_each(|run| {
            let _ = writeln!(md, "- {name}: {}", cell_text(&run_words(run)));
        });
    }
    match compared.differences.is_empty() {
        true => {
            let _ = writeln!(md, "\nThe same: {SAME}.");
        }
        false => md.push_str("\n| differs | A | B | |\n|---|---|---|---|\n"),
    }
    for d in &compared.differences {
        let _ = writeln!(
            md,
            "| {} | {} | {} | {} |",
            d.name,
            cell_text(&d.a),
            cell_text(&d.b),
            standing(d.standing).trim()
        );
    }
    let _ = writeln!(md, "\nRules: {}.\n\nNoise: {}.\n", compared.rules.text, compared.rules.noise);
    compared.notes.iter().for_each(|note| {
        let _ = writeln!(md, "- {}", cell_text(note));
    });
    for cell in &compared.cells {
        let _ = writeln!(
            md,
            "\n## {}\n\n| metric | A | B | B - A | ratio | 95 % | noise | p (Holm) | verdict |",
            load(&cell.load)
        );
        md.push_str("|---|--:|--:|--:|--:|---|--:|--:|---|\n");
        for row in &cell.rows {
            let words = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| row.unit.words(v));
            let effect = row.effect.map_or_else(|| "-".to_owned(), |v| row.unit.signed(v));
            let ratio = row.ratio.map_or_else(|| "-".to_owned(), change);
            let p = row.p_holm.map_or_else(|| "not tested".to_owned(), |p| format!("{p:.4}"));
            let _ = writeln!(
                md,
                "| {} | {} | {} | {effect} | {ratio} | {} | {} | {p} | **{}** |",
                row.label,
                words(row.a_mean),
                words(row.b_mean),
                interval(row),
                words(row.noise),
                row.verdict
            );
        }
        md.push('\n');
        for (at, row) in cell.rows.iter().enumerate() {
            let same = cell.rows[..at].iter().find(|before| !row.verdict.is_result() && before.why == row.why);
            let why = same.map_or_else(|| cell_text(&row.why), |before| format!("as for {}", before.label));
            let _ = write!(
                md,
                "- {}: {why}. Windows of A {}; of B {}.",
                row.label,
                windows(row, &row.a),
                windows(row, &row.b)
            );
            let sentence = row.sentence.as_ref().filter(|_| says_something(row.verdict));
            let more = sentence.into_iter().chain(row.advice.as_ref().map(|advice| &advice.text));
            more.for_each(|words| {
                let _ = write!(md, " {}.", capital(words));
            });
            md.push('\n');
        }
        cell.shifts.iter().for_each(|shift| markdown_shift(&mut md, shift));
    }
    md
}

fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn markdown_shift(md: &mut String, shift: &Shift) {
    let [a, b] = shift.windows;
    let note = shift.note.as_ref().map_or_else(String::new, |note| format!("; {note}"));
    let _ = writeln!(
        md,
        "\nShift of {} {} (ms, B - A by decile, mean over {a} and {b} windows{note})",
        shift.metric, shift.column
    );
    if shift.deciles.is_empty() {
        return;
    }
    md.push_str("\n| decile | A | B - A | 95 % | p (Holm over nine) |\n|---|--:|--:|---|--:|\n");
    for d in &shift.deciles {
        let interval = d
            .interval_ms
            .map_or_else(|| "none".to_owned(), |[lo, hi]| format!("{} to {}", signed_ms(lo), signed_ms(hi)));
        let p = d.p_holm.map_or_else(|| "not tested".to_owned(), |p| format!("{p:.3}"));
        let _ = writeln!(md, "| {} | {:.3} | {} | {interval} | {p} |", d.name, d.a_ms, signed_ms(d.shift_ms));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::comparison::simulation::{self, Chance, Layout, Server, Size, TYPICAL};

    fn compared(windows: u32) -> Comparison {
        let far = Server { factor: 1.5, ..TYPICAL };
        let size = Size { windows, requests: 300, loads: 2 };
        Chance::of_seed(3).comparison([TYPICAL, far], size, Layout::Apart, &simulation::settings(3, 0.05))
    }

    #[test]
    fn two_runs_of_one_address_are_not_called_one_server() {
        let mut compared = compared(2);
        compared.differences.clear();
        for text in [terminal(&compared), markdown(&compared)] {
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.contains(SAME) && !words.contains("one server"), "{text}");
        }
    }

    #[test]
    fn a_comparison_fits_a_terminal_and_names_every_verdict() {
        for windows in [1, 2, 6, 9] {
            let mut compared = compared(windows);
            compared.notes.push("a note that is far too long for one line ".repeat(5));
            let deciles: Vec<[f64; 9]> = (0..windows).map(|w| [f64::from(w) + 100_000.0; 9]).collect();
            let shift =
                crate::analysis::comparison::shift::of_windows("ttft", "gross", &deciles, &deciles, compared.design);
            compared.cells[0].shifts.extend(shift);
            let text = terminal(&compared);
            for line in text.lines() {
                assert!(line.chars().count() <= WIDEST, "{} columns: {line}", line.chars().count());
            }
            for row in compared.cells.iter().flat_map(|cell| &cell.rows) {
                assert!(text.contains(&row.verdict.to_string()) && text.contains(&row.label), "{text}");
            }
            let md = markdown(&compared);
            assert!(md.contains("| ttft p50 |") && md.contains(&format!("**{}**", compared.cells[0].rows[0].verdict)));
            assert!(!md.contains("NaN") && !text.contains("NaN") && !text.contains("inf"));
        }
    }

    #[test]
    fn a_claim_is_quoted_whole() {
        let text = terminal(&compared(6)).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("SUPPORTED p = "), "{text}");
        assert!(text.contains("on this system whatever changed between the runs moved ttft p50 by +"), "{text}");
        assert!(text.contains(", noise ") && text.contains(", overhead unknown"), "{text}");
    }

    #[test]
    fn lines_break_at_blanks() {
        let mut text = String::new();
        wrap(&mut text, &format!("    SUGGESTIVE   {}", "word ".repeat(30)), 8);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("    SUGGESTIVE   word") && lines[1].starts_with("        word"), "{text}");
        assert!(lines.iter().all(|l| l.len() <= WIDEST && !l.ends_with(' ')));
    }
}
