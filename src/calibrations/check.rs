//! Whether a run stayed inside what was calibrated for it.

use crate::rundir::run_json::{RunJson, Window};
use serde_json::Value;

/// Share of a limit above which a run is warned about.
const CLOSE: f64 = 0.7;

/// What one window used of one limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Use {
    /// Load point.
    pub cell: u32,
    /// Window.
    pub window: u32,
    /// `events/s`, ...
    pub what: &'static str,
    /// What the window came to.
    pub used: f64,
    /// What was calibrated.
    pub limit: f64,
    /// More was not tried: beyond it nothing is known.
    pub at_least: bool,
}

impl Use {
    /// Used by limit.
    pub fn share(&self) -> f64 {
        self.used / self.limit
    }

    /// Above the limit.
    pub fn is_outside(&self) -> bool {
        self.share() > 1.0
    }
}

/// The use of every limit by every window. `calibration` is that of the run's `plan.json`, or one in its form.
pub fn uses(run: &RunJson, calibration: &Value) -> Vec<Use> {
    let mut found = Vec::new();
    for cell in &run.cells {
        for window in &cell.windows {
            let figures = [
                ("requests/s", "requests_per_s", window.achieved_rps.or(window.throughput.whole.requests_per_s)),
                ("events/s", "events_per_s", events_per_s(window)),
                ("streams", "streams", Some(window.in_flight.max as f64)),
            ];
            for (what, key, used) in figures {
                let limit = &calibration["limits"][key];
                if let (Some(used), Some(value)) = (used, limit["value"].as_f64()) {
                    let at_least = limit["at_least"].as_bool().unwrap_or(false);
                    found.push(Use { cell: cell.cell, window: window.window, what, used, limit: value, at_least });
                }
            }
        }
    }
    found
}

fn events_per_s(window: &Window) -> Option<f64> {
    window.client.calibrated.as_ref().map(|c| c.events_per_s)
}

/// In words, one line for each use, and a last one with the answer.
pub fn words(uses: &[Use]) -> String {
    let mut text = String::new();
    for used in uses {
        let verdict = match used.share() {
            _ if used.is_outside() && used.at_least => "BEYOND what was calibrated: unknown there",
            _ if used.is_outside() => "OUTSIDE",
            share if share > CLOSE => "inside, above 70 % of the limit",
            _ => "inside",
        };
        text.push_str(&format!(
            "load point {} window {}: {:<10} {:>10.1} of {}{:.1}: {verdict}\n",
            used.cell,
            used.window,
            used.what,
            used.used,
            if used.at_least { "at least " } else { "" },
            used.limit,
        ));
    }
    let outside = uses.iter().filter(|u| u.is_outside()).count();
    text.push_str(&match (uses.len(), outside) {
        (0, _) => "nothing of this run can be held against a limit\n".to_owned(),
        (_, 0) => "the run stayed inside its calibrated envelope\n".to_owned(),
        (n, outside) => format!("the run left its calibrated envelope in {outside} of {n} figures\n"),
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(used: f64, limit: f64, at_least: bool) -> Use {
        Use { cell: 0, window: 1, what: "events/s", used, limit, at_least }
    }

    #[test]
    fn each_standing_has_its_words() {
        let text = words(&[used(50.0, 100.0, false), used(80.0, 100.0, false)]);
        assert!(text.contains("inside\n") && text.contains("above 70 %") && text.contains("stayed inside"), "{text}");
        let text = words(&[used(101.0, 100.0, false), used(101.0, 100.0, true)]);
        assert!(text.contains("OUTSIDE") && text.contains("BEYOND") && text.contains("in 2 of 2"), "{text}");
        assert!(words(&[]).contains("nothing of this run"));
        assert!(!used(100.0, 100.0, false).is_outside());
    }
}
