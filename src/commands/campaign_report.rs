//! A campaign as a terminal shows it.

use tarebench::disclosure::boxes::Boxes;
use tarebench::evidence::Evidence;
use tarebench::report;
use tarebench::rundir::run_json::RunJson;

/// How much of each window is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// What a reader must know.
    Short,
    /// Every figure that has a place on a screen.
    Details,
}

/// A campaign as a terminal shows it: its tables, what a mock's log says of them, and the boxes.
pub fn on_terminal(
    run: &RunJson,
    boxes: &Boxes,
    truth: Option<&Evidence>,
    canary: Option<&Evidence>,
    depth: Depth,
    color: bool,
) -> String {
    let width = report::terminal::WIDEST;
    let mut text = match boxes.refusal() {
        None if depth == Depth::Short => report::terminal::summary(run, width, color),
        None => report::terminal::render(run, width, color),
        Some(refusal) => report::terminal::refused(run, &refusal, width, color),
    };
    if let Some(evidence) = truth {
        text.push_str(&report::calibration::truth("truth", "the mock's own log", &evidence.closure));
    }
    if let Some(canary) = canary {
        text.push_str(&report::calibration::truth("canary", "beside the load, in no figure above", &canary.closure));
    }
    text.push_str(&report::card::terminal(boxes, width, color));
    text
}
