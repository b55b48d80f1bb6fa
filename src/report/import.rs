//! Another tool's records, re-analysed, on a terminal.

use crate::import::{Imported, Sample, Statistics};
use crate::lettering::legible;
use crate::reading::printable;
use crate::report::quantity::{count, latency};

const SHOWN: [&str; 4] = ["p50", "p90", "p95", "p99"];

/// At most 100 columns.
pub fn render(imported: &Imported) -> String {
    let mut out = String::new();
    let mut say = |text: String| {
        out.push_str(&legible(&printable(&text, None)));
        out.push('\n');
    };
    say(format!("{}   {}   sha256 {}", imported.file, imported.form, &imported.sha256[..12]));
    let facts: Vec<String> = imported.facts.iter().map(|(name, value)| format!("{name} {value}")).collect();
    if !facts.is_empty() {
        say(format!("says of itself: {}", facts.join(", ")));
    }
    for group in &imported.groups {
        say(String::new());
        counts(group).into_iter().for_each(&mut say);
        table(group).into_iter().for_each(&mut say);
        differing(&group.published).into_iter().for_each(&mut say);
    }
    if let Some(chains) = &imported.chains {
        say(String::new());
        say(format!("chains of dependent calls   {} broken", count(chains.broken)));
        rows("chain", chains.total.as_ref(), latency).into_iter().for_each(&mut say);
        rows("ttft", chains.ttft.as_ref(), latency).into_iter().for_each(&mut say);
        if let Some(total) = &chains.total {
            say(format!("  slowest {}", latency(total.max)));
        }
        differing(&chains.published).into_iter().for_each(&mut say);
        if !chains.drawn.is_empty() {
            say("  drawn from single calls (100,000 draws, seed 42), as if calls did not depend on each other:".into());
            for length in &chains.drawn {
                say(format!(
                    "  {:>2} calls   p50 {:>9}   p95 {:>9}",
                    length.calls,
                    latency(length.p50),
                    latency(length.p95)
                ));
            }
        }
    }
    say(String::new());
    imported.notes.iter().for_each(|note| say(format!("note: {note}")));
    out
}

fn counts(group: &Sample) -> Vec<String> {
    let mut parts = vec![format!("{} records", count(group.records)), format!("{} ok", count(group.ok))];
    for (n, name) in [
        (group.failed, "failed"),
        (group.abandoned, "abandoned"),
        (group.without_ttft, "without a time to first token"),
    ] {
        if n > 0 {
            parts.push(format!("{} {name}", count(n)));
        }
    }
    let mut lines = vec![format!("{}   {}", group.name, parts.join("   "))];
    if let Some(bounds) = &group.total_at_least {
        let list: Vec<String> =
            SHOWN.iter().filter_map(|p| Some(format!("{p} {}", latency(*bounds.get(p)?)))).collect();
        lines
            .push(format!("  total below is of those that completed; with the abandoned at least {}", list.join(", ")));
    }
    lines
}

fn table(group: &Sample) -> Vec<String> {
    let cells = SHOWN.map(|p| format!("{p:>12}")).concat();
    let mut lines = vec![format!("  {:13}{cells}{:>12}{:>8}{:>9}", "", "mean", "cv", "p99:p50")];
    lines.extend(rows("ttft", group.ttft.as_ref(), latency));
    lines.extend(rows("total", group.total.as_ref(), latency));
    lines.extend(rows("longest gap", group.max_gap.as_ref(), latency));
    lines.extend(rows("tokens/s", group.tokens_per_s.as_ref(), |v| format!("{v:.1}")));
    lines
}

fn rows(name: &str, statistics: Option<&Statistics>, show: impl Fn(f64) -> String) -> Vec<String> {
    let Some(s) = statistics else { return Vec::new() };
    let or_none = |v: Option<String>| v.unwrap_or_else(|| "-".into());
    let cells = SHOWN.map(|p| format!("{:>12}", or_none(s.percentiles.get(p).map(|v| show(*v))))).concat();
    let ratio = |v: Option<f64>| or_none(v.map(|v| format!("{v:.2}")));
    let (mean, cv, tail) = (show(s.mean), ratio(s.cv), ratio(s.p99_to_p50));
    let mut lines = vec![format!("  {name:13}{cells}{mean:>12}{cv:>8}{tail:>9}")];
    let known: Vec<String> = SHOWN
        .iter()
        .filter_map(|p| s.ci.get(p).map(|[low, high]| format!("{p} {}..{}", show(*low), show(*high))))
        .collect();
    let missing: Vec<&str> = SHOWN.into_iter().filter(|p| !s.ci.contains_key(p)).collect();
    if !known.is_empty() {
        lines.push(format!("    95 %   {}", known.join("   ")));
    }
    if !missing.is_empty() {
        lines.push(format!("    n = {} is too small for an interval of {}", count(s.n), missing.join(", ")));
    }
    lines
}

/// What the file says of its own records, where that is not so.
fn differing(published: &[crate::import::Published]) -> Vec<String> {
    let (agree, differ): (Vec<_>, Vec<_>) =
        published.iter().filter(|p| p.agrees.is_some()).partition(|p| p.agrees == Some(true));
    let mut lines: Vec<String> = differ
        .iter()
        .map(|p| {
            let recomputed = p.recomputed.unwrap_or_default();
            format!("  DIFFERS: the file says {} {} {}, its records say {recomputed:.4}", p.metric, p.figure, p.stored)
        })
        .collect();
    if !agree.is_empty() {
        lines.push(format!("  {} of {} published figures agree", agree.len(), agree.len() + differ.len()));
    }
    lines
}
