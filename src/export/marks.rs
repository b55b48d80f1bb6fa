//! What a reader must know about a window before its figures are used, as an export carries it: other tools have no word for a
//! figure that is withheld.

use crate::rundir::run_json::{RunJson, RunVerdict, VerdictKind, Window};

/// Sentences about one window: its titles (`LOOPBACK`), what is wrong with it as a whole, and what `run.json` withholds.
pub fn of(run: &RunJson, cell: u32, window: u32) -> Vec<String> {
    let title = run.labels.iter().cloned();
    let whole = verdicts(run, cell, window).map(|verdict| format!("{}: {}", verdict.kind, verdict.text));
    let withheld = find(run, cell, window).map(withheld).unwrap_or_default();
    title.chain(whole).chain(withheld).collect()
}

/// Whether nothing speaks against the window as a whole: it was closed, and its latencies are not void.
pub fn is_valid(run: &RunJson, cell: u32, window: u32) -> bool {
    find(run, cell, window).is_some() && verdicts(run, cell, window).next().is_none()
}

/// Whether `run.json` withholds a column of a metric, or one of its percentiles.
pub fn withholds(window: &Window, metric: &str, column: &str) -> bool {
    window.verdicts.iter().any(|verdict| {
        verdict.kind == VerdictKind::Withheld
            && [metric, "*"].contains(&verdict.metric.as_str())
            && [column, "*"].contains(&verdict.column.as_str())
    })
}

/// A window of `run.json`.
pub fn find(run: &RunJson, cell: u32, window: u32) -> Option<&Window> {
    run.cells.iter().find(|of| of.cell == cell)?.windows.iter().find(|of| of.window == window)
}

fn withheld(window: &Window) -> Vec<String> {
    let mut found = Vec::new();
    for verdict in window.verdicts.iter().filter(|verdict| verdict.kind == VerdictKind::Withheld) {
        // some texts say it themselves
        let sentence = format!("withheld: {}", verdict.text.strip_prefix("withheld: ").unwrap_or(&verdict.text));
        if !found.contains(&sentence) {
            found.push(sentence);
        }
    }
    found
}

/// Those of the run as a whole included; a calibration that was not used speaks against no figure.
fn verdicts(run: &RunJson, cell: u32, window: u32) -> impl Iterator<Item = &RunVerdict> {
    let speaks = move |verdict: &&RunVerdict| {
        verdict.kind != "calibration"
            && verdict.cell.is_none_or(|of| of == cell)
            && verdict.window.is_none_or(|of| of == window)
    };
    run.verdicts.iter().filter(speaks)
}
