//! Two arms that took turns, in short: the percentiles of each window of both beside each other. What follows from them
//! is for `compare` to say.

use crate::report::campaigns::folded;
use crate::report::quantity::percentile;
use crate::report::terminal;
use crate::rundir::run_json::{Distribution, RunJson, Window};
use std::path::Path;

/// Columns of a row: metric and percentiles of what net there is, else of gross.
const SHOWN: [(&str, &str); 4] = [("ttft", "p50"), ("ttft", "p99"), ("gap", "p50"), ("gap", "p99")];

/// The two arms, and what to do next. `dirs` are theirs.
pub fn render(arms: [&RunJson; 2], dirs: [&Path; 2]) -> String {
    let mut text = String::new();
    for (name, run) in ["a", "b"].iter().zip(arms) {
        let url = run.environment["base_url"].as_str().unwrap_or("?");
        folded(&format!("arm {name}    {url}")).iter().for_each(|line| text.push_str(&format!("{line}\n")));
        if !run.labels.is_empty() {
            let labels = format!("         {}", run.labels.join(" | "));
            folded(&labels).iter().for_each(|line| text.push_str(&format!("{line}\n")));
        }
        for verdict in &run.verdicts {
            let place =
                verdict.cell.zip(verdict.window).map_or_else(String::new, |(c, w)| format!("load {c}, window {w}: "));
            for line in folded(&format!("         {place}{}", verdict.text)) {
                text.push_str(&(line + "\n"));
            }
        }
    }
    let cells = arms.map(|run| run.cells.as_slice());
    let all: Vec<u32> = cells.iter().flat_map(|cells| cells.iter().map(|cell| cell.cell)).collect();
    let last = all.into_iter().max().map_or(0, |last| last + 1);
    for number in 0..last {
        let of = |arm: usize| cells[arm].iter().find(|cell| cell.cell == number);
        let Some(cell) = of(0).or(of(1)) else { continue };
        text.push_str(&format!("\nload {number}: {}\n", terminal::load(&cell.load)));
        let heads = SHOWN.map(|(metric, p)| format!("{:>17}", format!("{metric} {p}"))).concat();
        text.push_str(&format!("window  ok/kept  column{heads}\n"));
        let windows = |arm: usize| of(arm).map_or(&[][..], |cell| cell.windows.as_slice());
        let most = windows(0).len().max(windows(1).len());
        for window in 0..most {
            for (arm, name) in ["a", "b"].iter().enumerate() {
                if let Some(window) = windows(arm).get(window) {
                    text.push_str(&row(name, window));
                }
            }
        }
    }
    let [a, b] = dirs.map(|dir| dir.display());
    text.push_str(&format!("\n{a}, {b}: run.json, report.md, report.html, requests.jsonl of each\n"));
    text.push_str(&format!("what is a claim and what is noise: tarebench compare {a} {b}\n"));
    text
}

fn row(name: &str, window: &Window) -> String {
    let metrics = &window.metrics;
    let column = if metrics.ttft.net.is_some() { "net" } else { "gross" };
    let of = |metric: &str| -> Option<&Distribution> {
        match (metric, column) {
            ("ttft", "net") => metrics.ttft.net.as_ref(),
            ("ttft", _) => metrics.ttft.gross.as_ref(),
            (_, "net") => metrics.gap.net.as_ref(),
            _ => metrics.gap.gross.as_ref(),
        }
    };
    let figures = SHOWN.map(|(metric, p)| format!("{:>17}", percentile(of(metric), p))).concat();
    let counts = format!("{}/{}", window.requests.ok, window.requests.kept);
    format!("{name} {:>4} {counts:>9}  {column:<6}{figures}\n", window.window)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::specimen::Specimen;
    use crate::analysis::summary::summarise;

    #[test]
    fn what_stands_in_the_titles_of_the_arms_stands_here() {
        let dir = tempfile::tempdir().unwrap();
        Specimen::campaign().write(dir.path());
        let (mut a, mut b) = (summarise(dir.path()).unwrap(), summarise(dir.path()).unwrap());
        a.labels.clear();
        b.labels = vec!["SERVER NOT VERIFIED".into(), "INTERRUPTED\u{1b}[2J".into()];
        let text = render([&a, &b], [Path::new("runs/x/a"), Path::new("runs/x/b")]);
        let (of_a, of_b) = text.split_once("arm b").unwrap();
        assert!(of_b.contains("\n         SERVER NOT VERIFIED | INTERRUPTED"), "{text}");
        assert!(!of_a.contains("SERVER NOT VERIFIED") && !text.contains('\u{1b}'), "{text}");
    }
}
