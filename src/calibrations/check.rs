//! Whether a run stayed inside what was calibrated for it.

use super::store::printable;
use crate::analysis::definitions::calibrated::{LIMITS, fault};
use crate::analysis::definitions::rules::{self, GateState};
use crate::analysis::definitions::wording::{LOOPBACK, calibrated_where, loopback_only};
use crate::rundir::run_json::{RunJson, Window};
use serde_json::{Value, json};
use std::path::Path;

/// A run held against the calibration that it names.
#[derive(Clone, Debug, PartialEq)]
pub enum Checked {
    /// It names none, for this reason.
    None(String),
    /// It names one.
    Against(Against),
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Against {
    /// Id of the calibration, and where its mock was, in words.
    pub calibration: String,
    /// How the run was not as calibrated.
    pub differences: Vec<String>,
    /// The use of every limit by every window.
    pub uses: Vec<Use>,
}

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
    /// What was calibrated; 0: nothing was trustworthy.
    pub limit: f64,
    /// More was not tried: beyond it nothing is known.
    pub at_least: bool,
}

impl Use {
    /// Above the limit. A limit of 0 is left by any load.
    pub fn is_outside(&self) -> bool {
        self.used > self.limit || self.limit == 0.0
    }

    fn verdict(&self) -> &'static str {
        match (self.is_outside(), self.at_least) {
            (true, false) if self.limit == 0.0 => "OUTSIDE: nothing was trustworthy here in the calibration",
            (true, true) => "BEYOND what was calibrated: unknown there",
            (true, false) => "OUTSIDE",
            (false, _) if rules::CALIBRATED_LOAD.judge(self.used / self.limit) != GateState::Ok => {
                "inside, above 70 % of the limit"
            }
            (false, _) => "inside",
        }
    }
}

/// Holds the run in `dir` against the calibration in its `run.json`.
///
/// # Errors
/// A file cannot be read, `plan.json` names another calibration, or the calibration cannot be right: in words.
pub fn of_directory(dir: &Path) -> Result<Checked, String> {
    let about = |name: &str| printable(&dir.join(name).display().to_string());
    let read = |name: &str| {
        std::fs::read_to_string(dir.join(name)).map_err(|e| format!("{}: is this a run directory? {e}", about(name)))
    };
    let run: RunJson = serde_json::from_str(&read("run.json")?).map_err(|e| {
        format!("{}: {}; was it written by another version?", about("run.json"), printable(&e.to_string()))
    })?;
    let plan: Value = serde_json::from_str(&read("plan.json")?)
        .map_err(|e| format!("{}: {}", about("plan.json"), printable(&e.to_string())))?;
    if plan["calibration"] != run.calibration {
        return Err(format!(
            "{} names another calibration than run.json: one of them was changed, tarebench verify says more",
            about("plan.json")
        ));
    }
    check(&run).map_err(|words| format!("{}: {words}", about("run.json")))
}

/// Holds a run against the calibration that it names.
///
/// # Errors
/// The calibration cannot be right: why.
pub fn check(run: &RunJson) -> Result<Checked, String> {
    let calibration = &run.calibration;
    match &calibration["none"] {
        Value::Null if calibration.is_object() => {}
        why => return Ok(Checked::None(printable(why.as_str().unwrap_or("it was made without looking for one")))),
    }
    if let Some(why) = fault(calibration) {
        return Err(format!("the calibration that it names cannot be right: {why}"));
    }
    let listed = calibration["differences"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut differences: Vec<String> = listed.map(printable).collect();
    if calibration["matches"] != true && differences.is_empty() {
        differences.push("it does not say in what".to_owned());
    }
    let placement = calibration["placement"].as_str();
    let place = match placement {
        Some(LOOPBACK) if !run.labels.iter().any(|label| label == "LOOPBACK") => loopback_only().to_owned(),
        other => calibrated_where(other),
    };
    let id = calibration["id"].as_str().unwrap_or("without id");
    let calibration_in_words = printable(&format!("calibration {id}, {place}"));
    Ok(Checked::Against(Against { calibration: calibration_in_words, differences, uses: uses(run, calibration) }))
}

/// The use of every limit by every window: the figures that the gates have judged, in `client.load`.
fn uses(run: &RunJson, calibration: &Value) -> Vec<Use> {
    let windows = run.cells.iter().flat_map(|cell| cell.windows.iter().map(|window| (cell.cell, window)));
    let of = |(cell, window): (u32, &Window)| {
        let load = &window.client.load;
        let whole = |n: u64| n as f64;
        let used = [load.requests_per_s, load.events_per_s, Some(whole(load.streams)), load.burst.map(whole)];
        let names = ["requests/s", "events/s", "streams", "burst"];
        let found = LIMITS.into_iter().zip(names).zip(used).filter_map(|((key, what), used)| {
            let limit = &calibration["limits"][key];
            let (used, value) = (used?, limit["value"].as_f64()?);
            let at_least = limit["at_least"] == true;
            Some(Use { cell, window: window.window, what, used, limit: value, at_least })
        });
        found.collect::<Vec<_>>()
    };
    windows.flat_map(of).collect()
}

impl Checked {
    /// It was as calibrated, some figure could be held against a limit, and none was beyond.
    pub fn is_inside(&self) -> bool {
        match self {
            Checked::None(_) => false,
            Checked::Against(found) => {
                // the size of bursts is a warning: it is what came, not what was asked
                let outside = |u: &Use| u.is_outside() && u.what != "burst";
                found.differences.is_empty() && !found.uses.is_empty() && !found.uses.iter().any(outside)
            }
        }
    }

    /// What must be said before, one a line.
    pub fn warnings(&self) -> Vec<String> {
        match self {
            Checked::None(_) => Vec::new(),
            Checked::Against(found) => {
                let told = |words: &String| format!("WARNING: the run was not as calibrated: {words}");
                found.differences.iter().map(told).collect()
            }
        }
    }

    /// One line for each use, and a last one with the answer.
    pub fn words(&self) -> String {
        let found = match self {
            Checked::None(why) => return format!("the run had no calibration: {why}\n"),
            Checked::Against(found) => found,
        };
        let mut text = format!("{}\n", found.calibration);
        for used in &found.uses {
            text.push_str(&format!(
                "load point {} window {}: {:<10} {:>10.1} of {}{:.1}: {}\n",
                used.cell,
                used.window,
                used.what,
                used.used,
                if used.at_least { "at least " } else { "" },
                used.limit,
                used.verdict(),
            ));
        }
        let outside = found.uses.iter().filter(|u| u.is_outside()).count();
        text.push_str(&match (found.uses.len(), outside) {
            (0, _) => "nothing of this run can be held against a limit\n".to_owned(),
            (_, 0) => "the run stayed inside its calibrated envelope\n".to_owned(),
            (n, outside) => format!("the run left its calibrated envelope in {outside} of {n} figures\n"),
        });
        if outside > 0 && self.is_inside() {
            text.push_str("only in the size of bursts, which is a warning: the rest stayed inside\n");
        }
        text
    }

    /// The same for programs.
    pub fn json(&self) -> Value {
        match self {
            Checked::None(why) => json!({"inside": false, "none": why}),
            Checked::Against(found) => {
                let listed = found.uses.iter().map(|u| {
                    json!({"cell": u.cell, "window": u.window, "what": u.what, "used": u.used, "limit": u.limit,
                        "at_least": u.at_least, "outside": u.is_outside()})
                });
                json!({
                    "inside": self.is_inside(),
                    "calibration": found.calibration,
                    "differences": found.differences,
                    "uses": listed.collect::<Vec<_>>(),
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::specimen::{Specimen, calibration};
    use crate::analysis::summary::{summarise, to_json};

    /// One window of 50 requests/s, 150 events/s, one stream, bursts of one event.
    fn directory(change: impl Fn(&mut Value)) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("temporary directory");
        let mut specimen = Specimen::calm(2);
        let mut found = calibration();
        change(&mut found);
        specimen.plan["calibration"] = found;
        specimen.write(dir.path());
        let run = summarise(dir.path()).expect("summarised");
        std::fs::write(dir.path().join("run.json"), to_json(&run).expect("JSON")).expect("written");
        dir
    }

    fn checked(change: impl Fn(&mut Value)) -> Checked {
        of_directory(directory(change).path()).expect("checked")
    }

    fn limit(value: f64, at_least: bool) -> Value {
        json!({"value": value, "at_least": at_least})
    }

    #[test]
    fn each_standing_has_its_words() {
        let inside = checked(|c| c["limits"]["events_per_s"] = limit(180.0, false));
        let text = inside.words();
        assert!(inside.is_inside() && text.contains("inside\n") && text.contains("above 70 %"), "{text}");
        assert!(
            text.starts_with("calibration c1, calibrated over loopback") && text.contains("stayed inside"),
            "{text}"
        );
        for (value, at_least, words) in [
            (149.0, false, "149.0: OUTSIDE\n"),
            (149.0, true, "at least 149.0: BEYOND"),
            (0.0, false, "0.0: OUTSIDE: nothing was trustworthy here in the calibration"),
            (0.0, true, "BEYOND"),
        ] {
            let found = checked(|c| c["limits"]["events_per_s"] = limit(value, at_least));
            let text = found.words();
            assert!(!found.is_inside() && text.contains(words) && text.contains("in 1 of 3"), "{text}");
            assert_eq!(found.json()["uses"][1]["outside"], true);
        }
        let exact = checked(|c| c["limits"]["events_per_s"] = limit(150.0, false));
        assert!(exact.is_inside(), "{}", exact.words());
        assert!(checked(|c| c["limits"] = json!({})).words().contains("nothing of this run"));
    }

    #[test]
    fn a_burst_beyond_its_limit_is_a_warning() {
        let found = checked(|c| c["limits"]["burst"] = limit(0.0, false));
        let text = found.words();
        assert!(found.is_inside() && text.contains("only in the size of bursts"), "{text}");
    }

    /// Also where the calibration is of another host, which leaves no other figure of it in run.json.
    #[test]
    fn what_a_run_used_does_not_depend_on_whose_calibration_it_is() {
        let other = checked(|c| (c["matches"], c["differences"]) = (false.into(), json!(["kernel: a\u{1b}[2J, b"])));
        let Checked::Against(found) = &other else { panic!("{other:?}") };
        let used: Vec<_> = found.uses.iter().map(|u| (u.what, u.used)).collect();
        assert_eq!(used, [("requests/s", 50.0), ("events/s", 150.0), ("streams", 1.0)]);
        assert!(!other.is_inside());
        assert_eq!(other.warnings(), ["WARNING: the run was not as calibrated: kernel: a?[2J, b"]);
    }

    #[test]
    fn a_changed_plan_and_a_calibration_that_cannot_be_right_are_refused() {
        let dir = directory(|_| ());
        let plan = dir.path().join("plan.json");
        let text = std::fs::read_to_string(&plan).expect("read");
        std::fs::write(&plan, text.replace("\"c1\"", "\"c2\"")).expect("written");
        assert!(of_directory(dir.path()).expect_err("changed").contains("names another calibration"));
        for value in [json!(-1.0), json!("much"), json!(1e300)] {
            let dir = directory(|c| c["limits"]["streams"]["value"] = value.clone());
            let words = of_directory(dir.path()).expect_err("refused");
            assert!(words.contains("its limit of streams is none"), "{words}");
        }
        assert!(of_directory(&dir.path().join("no")).expect_err("nothing").contains("is this a run directory?"));
    }

    #[test]
    fn a_run_without_calibration_is_not_inside() {
        let none = checked(|c| *c = json!({"none": "never\u{7}"}));
        assert!(!none.is_inside() && none.words().contains("no calibration: never?"), "{}", none.words());
        assert_eq!(none.json()["inside"], false);
        assert!(checked(|c| *c = Value::Null).words().contains("without looking"));
    }

    #[test]
    fn where_it_was_calibrated_stands_beside_it() {
        let text = checked(|c| c["placement"] = "http://10.0.0.2:1".into()).words();
        assert!(text.starts_with("calibration c1, calibrated against the mock at http://10.0.0.2:1\n"), "{text}");
        let text = checked(|c| c["placement"] = Value::Null).words();
        assert!(text.contains("not recorded"), "{text}");
        let text = checked(|_| ()).words();
        assert!(text.contains("NIC and driver are not in it"), "the target is not on loopback: {text}");
    }
}
