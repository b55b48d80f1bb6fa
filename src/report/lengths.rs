//! Lengths asked for and realised, by class, in words.

use crate::analysis::definitions::wording;
use crate::analysis::statistics::length_differences::LengthDifferences;
use crate::analysis::statistics::token_counts::TokenCounts;
use crate::report::markdown::cell_text;
use crate::report::quantity::{count, percent};
use crate::rundir::disclosed::{ClassLengths, LengthMet};
use crate::rundir::run_json::Window;

/// From this median difference on, as a share of the length asked for, prompts are said to be off.
const OFF: f64 = 0.01;

/// Facts of each class, the first of them with its name.
pub(super) fn facts(window: &Window) -> Vec<Vec<String>> {
    let of_class = |(name, class): (&String, &ClassLengths)| {
        let prompt = format!("{name}: prompt {}", realised(class.prompt, class.asked_prompt));
        let mut facts = vec![prompt, format!("output {}", realised(class.output, class.asked_output))];
        if class.length_met.known > 0 {
            facts.push(format!("length met {}", met(class.length_met)));
        }
        facts.extend(class.prompt_off.map(|off| format!("prompts {}", histogram(&off))));
        facts
    };
    window.lengths.iter().map(of_class).collect()
}

/// What a reader must know of lengths that are not those asked for.
pub(super) fn remarks(window: &Window) -> Vec<String> {
    let sum = |of: fn(&LengthMet) -> u64| window.lengths.values().map(|class| of(&class.length_met)).sum::<u64>();
    let (shorter, known) = (sum(|m| m.shorter), sum(|m| m.known));
    let short = (shorter > 0).then(|| wording::outputs_short(shorter, known));
    let off = |(name, class): (&String, &ClassLengths)| {
        let share = class.prompt_off?.p50_share;
        (share.abs() > OFF).then(|| format!("{name}: {}", wording::prompts_off(share)))
    };
    short.into_iter().chain(window.lengths.iter().filter_map(off)).collect()
}

/// Two tables: lengths, and by how much prompts are off.
pub(super) fn tables(window: &Window) -> Vec<String> {
    let mut lines = vec![
        "| tokens, median (smallest..largest) | requests | prompt asked | realised | output asked | realised | length met |"
            .to_string(),
        "|---|--:|--:|--:|--:|--:|--:|".to_string(),
    ];
    for (name, class) in &window.lengths {
        let columns = [class.asked_prompt, class.prompt, class.asked_output, class.output].map(spread).join(" | ");
        let (name, requests) = (cell_text(name), count(class.requests));
        lines.push(format!("| {name} | {requests} | {columns} | {} |", met(class.length_met)));
    }
    let told: Vec<_> = window.lengths.iter().filter_map(|(name, class)| Some((name, class.prompt_off?))).collect();
    if let Some((_, first)) = told.first() {
        let names = first.per_cent.classes().map(|(name, _)| name).join(" | ");
        lines.push(String::new());
        lines.push(format!("| prompt tokens, realised - asked | n | min | p05 | p50 | p95 | max | {names} |"));
        lines.push(format!("|---|{}", "--:|".repeat(12)));
    }
    for (name, off) in told {
        let quantiles = [Some(off.min as f64), off.p05, Some(off.p50), off.p95, Some(off.max as f64)];
        let quantiles = quantiles.map(|tokens| tokens.map_or_else(|| "n<20".into(), signed)).join(" | ");
        let counts = off.per_cent.classes().map(|(_, n)| count(n)).join(" | ");
        lines.push(format!("| {} | {} | {quantiles} | {counts} |", cell_text(name), count(off.n)));
    }
    lines
}

/// As the boxes have it: `24, 20..31 (asked 24, 20..31)`.
fn realised(found: Option<TokenCounts>, asked: Option<TokenCounts>) -> String {
    let found = if found.is_some() { spread(found) } else { "unknown".into() };
    format!("{found} (asked {})", spread(asked))
}

/// `24, 20..31`, or `24` where all are the same.
fn spread(counts: Option<TokenCounts>) -> String {
    let Some(c) = counts else { return "-".into() };
    let median = count(c.p50.round() as u64);
    if c.min == c.max { median } else { format!("{median}, {}..{}", count(c.min), count(c.max)) }
}

fn met(m: LengthMet) -> String {
    match m.known {
        0 => "-".into(),
        known => format!("{} of {} ({})", count(m.met), count(known), percent(Some(m.met as f64 / known as f64))),
    }
}

/// `exact 99 of 99`, or the classes that are not empty.
fn histogram(off: &LengthDifferences) -> String {
    if off.exact == off.n {
        return format!("exact {} of {}", count(off.exact), count(off.n));
    }
    let classes = off.per_cent.classes();
    let found = classes.iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!("{name} {}", count(*n)));
    let found = found.collect::<Vec<_>>().join(", ");
    format!("off by p50 {}, {}..{} tokens: {found}", signed(off.p50), signed(off.min as f64), signed(off.max as f64))
}

fn signed(tokens: f64) -> String {
    if tokens == 0.0 { "0".into() } else { format!("{tokens:+}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_is_printed_and_exact_when_all_are() {
        let exact = LengthDifferences::of(&[(100, 100); 300]).unwrap();
        assert_eq!(histogram(&exact), "exact 300 of 300");
        let off: Vec<(u64, u64)> = (0..300).map(|i| (100, if i < 24 { 100 } else { 113 })).collect();
        let off = LengthDifferences::of(&off).unwrap();
        assert_eq!(histogram(&off), "off by p50 +13, 0..+13 tokens: exact 24, above 10 % 276");
        let said = wording::prompts_off(off.p50_share);
        assert!(said.starts_with("the server counts 13 % more prompt tokens than asked for"), "{said}");
    }

    #[test]
    fn lengths_in_words() {
        let counts = |values: &[u64]| TokenCounts::of(&mut values.to_vec());
        assert_eq!(realised(counts(&[1_300, 1_000, 1_200]), counts(&[7, 7])), "1,200, 1,000..1,300 (asked 7)");
        assert_eq!(realised(None, None), "unknown (asked -)");
        assert_eq!(met(LengthMet { met: 2, known: 3, shorter: 1 }), "2 of 3 (66.7 %)");
        assert_eq!(met(LengthMet::default()), "-");
    }
}
