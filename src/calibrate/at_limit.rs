//! `--at-limit`: does a verdict that was kept still hold?
//!
//! Up to the limit a step must come out valid. Beyond a limit that gates of the client have set they must fire again;
//! beyond one that the mock set, or time, nothing was claimed. What the mock could not keep up with shows neither.

use super::ladder::{self, Depth};
use super::step::Runner;
use crate::calibrations::document::{Calibration, Family, Limits, Step};
use crate::campaign::Voice;
use crate::report::calibration as report;
use calibration::verdict::Limit;
use serde::Serialize;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

/// From this share of a limit on its gates are expected to fire.
const GATES_FIRE_FROM: f64 = 2.0;

/// Whether a verdict holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Everything that was shown is as it says.
    Holds,
    /// A step came out otherwise, twice.
    DoesNotHold,
    /// Nothing was shown.
    NotShown,
}

/// One kind of load at its share of the limit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shown {
    /// Which kind.
    pub family: Family,
    /// What the verdict says of it; null when it says nothing.
    pub limit: Option<u64>,
    /// What was tried; null when nothing was.
    pub load: Option<u64>,
    /// What that showed.
    pub answer: Answer,
    /// Why.
    pub words: String,
    /// The last try.
    pub step: Option<Step>,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// All together.
    pub answer: Answer,
    /// One for each kind of load.
    pub steps: Vec<Shown>,
}

impl Outcome {
    fn of(steps: Vec<Shown>) -> Outcome {
        let any = |answer| steps.iter().any(|shown| shown.answer == answer);
        let answer = match () {
            () if any(Answer::DoesNotHold) => Answer::DoesNotHold,
            () if any(Answer::Holds) => Answer::Holds,
            () => Answer::NotShown,
        };
        Outcome { answer, steps }
    }

    /// A line for each kind of load, and the answer.
    pub fn words(&self) -> String {
        let mut text = String::new();
        for shown in &self.steps {
            let answer = match shown.answer {
                Answer::Holds => "holds",
                Answer::DoesNotHold => "does NOT hold",
                Answer::NotShown => "not shown",
            };
            let family = format!("{:?}", shown.family).to_lowercase();
            text += &format!("{family:<9} {answer}: {}\n", shown.words);
        }
        text += match self.answer {
            Answer::Holds if self.steps.iter().any(|shown| shown.answer == Answer::NotShown) => {
                "the verdict holds in what was shown\n"
            }
            Answer::Holds => "the verdict holds\n",
            Answer::DoesNotHold => "the verdict does NOT hold\n",
            Answer::NotShown => "nothing was shown: whether the verdict holds is not known\n",
        };
        text
    }
}

/// What to try of one limit, or why nothing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trial {
    /// It must come out valid.
    Inside(u64),
    /// Gates of the client must fire.
    Beyond(u64),
    /// Nothing is claimed there.
    Nothing(&'static str),
}

impl Trial {
    fn of(limit: Option<&Limit>, share: f64) -> Trial {
        let Some(limit) = limit else { return Trial::Nothing("no limit is known: the calibration has none") };
        let at = |value: u64| ((value as f64 * share).round() as u64).max(1);
        match (limit.value, limit.first_bad) {
            (0, _) => Trial::Nothing("no load of this kind was good: there is no limit to try"),
            (value, _) if share <= 1.0 => Trial::Inside(at(value)),
            (_, None) => Trial::Nothing("no gate of the client set this limit: nothing is claimed beyond it"),
            (_, Some(_)) if share < GATES_FIRE_FROM => {
                Trial::Nothing("limits are known to a ratio only: nothing is claimed up to twice the limit")
            }
            // what lies between the limit and the first load that failed was not tried
            (value, Some(bad)) => Trial::Beyond(at(value).max(bad)),
        }
    }

    fn load(self) -> Option<u64> {
        match self {
            Trial::Inside(load) | Trial::Beyond(load) => Some(load),
            Trial::Nothing(_) => None,
        }
    }

    /// What a step shows, and why.
    fn judge(self, step: &Step) -> (Answer, String) {
        let first = || step.reasons.first().cloned().unwrap_or_default();
        match (self, ladder::outcome(step)) {
            (Trial::Nothing(words), _) => (Answer::NotShown, words.to_owned()),
            (_, calibration::verdict::StepResult::MockFull(_) | calibration::verdict::StepResult::Error(_)) => {
                (Answer::NotShown, format!("{}: {}", report::load(&step.load), first()))
            }
            (Trial::Inside(_), _) if step.valid => {
                (Answer::Holds, format!("{} is to be trusted, as it says", report::load(&step.load)))
            }
            (Trial::Inside(_), _) => (Answer::DoesNotHold, format!("{}: {}", report::load(&step.load), first())),
            (Trial::Beyond(_), _) if step.valid => (
                Answer::DoesNotHold,
                format!("no gate of the client fired at {}: the client can do more", report::load(&step.load)),
            ),
            (Trial::Beyond(_), _) => {
                (Answer::Holds, format!("gates fire at {}, as it says: {}", report::load(&step.load), first()))
            }
        }
    }
}

/// Tries `share` of every limit. A step that comes out otherwise than the verdict says is tried once more: hosts are
/// shared. `run` gives None when the user interrupts.
fn try_all(
    limits: &Limits,
    share: f64,
    mut run: impl FnMut(Family, u64) -> Option<anyhow::Result<Step>>,
) -> Option<Outcome> {
    let mut steps = Vec::new();
    for (family, limit) in [
        (Family::Requests, &limits.requests_per_s),
        (Family::Events, &limits.events_per_s),
        (Family::Streams, &limits.streams),
        (Family::Burst, &limits.burst),
    ] {
        let trial = Trial::of(limit.as_ref(), share);
        let mut shown = Shown {
            family,
            limit: limit.as_ref().map(|l| l.value),
            load: trial.load(),
            answer: Answer::NotShown,
            words: String::new(),
            step: None,
        };
        match trial {
            Trial::Nothing(words) => shown.words = words.to_owned(),
            Trial::Inside(load) | Trial::Beyond(load) => {
                for _ in 0..2 {
                    match run(family, load)? {
                        Ok(step) => {
                            (shown.answer, shown.words) = trial.judge(&step);
                            shown.step = Some(step);
                        }
                        Err(error) => {
                            (shown.answer, shown.words) = (Answer::NotShown, format!("could not be run: {error:#}"));
                        }
                    }
                    if shown.answer != Answer::DoesNotHold {
                        break;
                    }
                }
            }
        }
        steps.push(shown);
    }
    Some(Outcome::of(steps))
}

/// A directory that goes away, unless what is in it must be looked at.
struct Scratch {
    dir: PathBuf,
    kept: bool,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.kept {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// A step of each kind at `share` of the limits of `calibration`; None when the user interrupted. The runs of the steps
/// are kept, and it is said where, when the verdict does not hold.
///
/// # Errors
/// What would keep every step from being run.
pub fn at_limit(
    calibration: &Calibration,
    share: f64,
    runner: Runner,
    depth: Depth,
    voice: &Voice,
) -> anyhow::Result<Option<Outcome>> {
    runner.prepare()?;
    let mut scratch = Scratch { dir: runner.dir.clone(), kept: false };
    let mut number = 0;
    let outcome = try_all(&calibration.verdict.limits, share, |family, value| {
        if runner.stop.load(Ordering::Relaxed) {
            return None;
        }
        let outcome = runner.run(number, ladder::load(family, value, depth.seconds));
        number += 1;
        if runner.stop.load(Ordering::Relaxed) {
            return None;
        }
        Some(outcome.map(|(step, _)| {
            voice.say(report::step(&step));
            step
        }))
    });
    if outcome.as_ref().is_some_and(|found| found.answer == Answer::DoesNotHold) {
        scratch.kept = true;
        voice.say(format!("the runs of the steps are kept in {}", scratch.dir.display()));
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::step::of_test;
    use calibration::verdict::StoppedBy;

    fn by_gate(value: u64, bad: u64) -> Limit {
        Limit { value, at_least: false, stopped_by: StoppedBy::Gate("busy 0.9".into()), first_bad: Some(bad) }
    }

    fn by_mock(value: u64) -> Limit {
        Limit { value, at_least: true, stopped_by: StoppedBy::Mock("full".into()), first_bad: None }
    }

    /// A client that can do `most` of anything.
    fn client(most: u64) -> impl Fn(Family, u64) -> Option<anyhow::Result<Step>> {
        move |family, value| Some(Ok(of_test(ladder::load(family, value, 1.0), (value > most).then_some("busy 0.9"))))
    }

    fn answers(limits: &Limits, share: f64, most: u64) -> (Answer, Vec<Answer>) {
        let found = try_all(limits, share, client(most)).expect("no interrupt");
        (found.answer, found.steps.iter().map(|shown| shown.answer).collect())
    }

    #[test]
    fn three_answers() {
        use Answer::{DoesNotHold, Holds, NotShown};
        let limits = Limits {
            requests_per_s: Some(by_gate(1000, 1200)),
            events_per_s: Some(by_mock(1000)),
            streams: Some(by_gate(0, 1)),
            burst: None,
        };
        assert_eq!(answers(&limits, 0.7, 1100), (Holds, vec![Holds, Holds, NotShown, NotShown]));
        assert_eq!(answers(&limits, 0.7, 600), (DoesNotHold, vec![DoesNotHold, DoesNotHold, NotShown, NotShown]));
        assert_eq!(answers(&limits, 2.0, 1100), (Holds, vec![Holds, NotShown, NotShown, NotShown]));
        assert_eq!(answers(&limits, 2.0, 9000), (DoesNotHold, vec![DoesNotHold, NotShown, NotShown, NotShown]));
        assert_eq!(answers(&limits, 1.5, 1100), (NotShown, vec![NotShown; 4]));
        assert_eq!(answers(&Limits::default(), 0.7, 1100), (NotShown, vec![NotShown; 4]));
        // nothing between a limit and the first load that failed was tried
        assert_eq!(Trial::of(Some(&by_gate(1, 50)), 2.0), Trial::Beyond(50));
    }

    #[test]
    fn a_full_mock_shows_nothing_and_noise_is_tried_again() {
        let limits = Limits { streams: Some(by_gate(100, 120)), ..Limits::default() };
        let full = |family, value| {
            let mut step = of_test(ladder::load(family, value, 1.0), Some("the mock was full (1 of 2 events/s came)"));
            step.mock_limited = true;
            Some(Ok(step))
        };
        for share in [0.7, 2.0] {
            assert_eq!(try_all(&limits, share, full).map(|found| found.answer), Some(Answer::NotShown));
        }
        let mut tries = 0;
        let once = try_all(&limits, 0.7, |family, value| {
            tries += 1;
            Some(Ok(of_test(ladder::load(family, value, 1.0), (tries == 1).then_some("busy 0.9"))))
        });
        assert_eq!((once.map(|found| found.answer), tries), (Some(Answer::Holds), 2));
        let error = try_all(&limits, 0.7, |_, _| Some(Err(anyhow::anyhow!("no ports")))).expect("no interrupt");
        assert_eq!((error.answer, error.steps[2].words.as_str()), (Answer::NotShown, "could not be run: no ports"));
        assert!(error.words().ends_with("is not known\n"), "{}", error.words());
        assert_eq!(try_all(&limits, 0.7, |_, _| None), None);
    }

    #[test]
    fn what_was_measured_goes_away_unless_it_is_to_be_looked_at() {
        let place = tempfile::tempdir().expect("a directory");
        let at = |name: &str| {
            let dir = place.path().join(name);
            fs::create_dir(&dir).expect("made");
            dir
        };
        let (gone, kept) = (at("gone"), at("kept"));
        drop(Scratch { dir: gone.clone(), kept: false });
        drop(Scratch { dir: kept.clone(), kept: true });
        assert_eq!((gone.exists(), kept.exists()), (false, true));
    }
}
