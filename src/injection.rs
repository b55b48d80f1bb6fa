//! What is done on purpose in every window, as people write it and as the plan holds it.

use crate::arrivals::{self, Pattern};
use bench_engine::units::Nanos;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Form of `--at`.
pub const AT_FORM: &str = "TIME='COMMAND', a time after a window's opening and what sh is to run then, like \
                           60s='kill -9 1234' or 30s,60s='./break-it'";
/// Form of `--inject`.
pub const INJECT_FORM: &str = "node-loss:T@START (the built-in mock stopped for T from START on, like node-loss:5s@20s) or \
                               spike:Kx/T@START (K times the rate for T, like spike:4x/10s@30s)";

/// Something that is done at a stated time of every window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Injection {
    /// From the window's opening, in s.
    pub at_s: f64,
    /// What.
    #[serde(flatten)]
    pub action: Action,
}

/// What is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Action {
    /// A command of the user's.
    Command {
        /// For people and for the plan: one line, without secrets.
        command: String,
        /// It is ended after so long, in s.
        timeout_s: f64,
        /// What sh is given.
        #[serde(skip)]
        script: String,
    },
    /// The built-in mock is stopped, then goes on.
    NodeLoss {
        /// For so long, in s.
        lasts_s: f64,
    },
    /// More load: the schedule has it, and here it is only marked.
    Spike {
        /// Times the rate.
        times: f64,
        /// For so long, in s.
        lasts_s: f64,
    },
}

impl Injection {
    /// From the window's opening.
    pub fn at(&self) -> Nanos {
        Nanos::from_secs_f64(self.at_s).unwrap_or(Nanos::ZERO)
    }

    /// How long it lasts or may last.
    pub fn lasts(&self) -> Nanos {
        let (Action::Command { timeout_s: s, .. } | Action::NodeLoss { lasts_s: s } | Action::Spike { lasts_s: s, .. }) =
            &self.action;
        Nanos::from_secs_f64(*s).unwrap_or(Nanos::ZERO)
    }
}

impl fmt::Display for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at_s;
        match &self.action {
            Action::Command { command, .. } => write!(f, "command at {at} s: {command}"),
            Action::NodeLoss { lasts_s } => write!(f, "node loss at {at} s: the mock is stopped for {lasts_s} s"),
            Action::Spike { times, lasts_s } => write!(f, "spike at {at} s: {times} times the rate for {lasts_s} s"),
        }
    }
}

/// Times and command of `--at`; None: it has another form.
pub fn at(text: &str) -> Option<(Vec<Nanos>, &str)> {
    let (times, command) = text.split_once('=')?;
    let times = times.split(',').map(arrivals::span).collect::<Option<Vec<_>>>()?;
    (!command.trim().is_empty()).then_some((times, command))
}

/// What `--inject` names; None: it has another form.
pub fn preset(text: &str) -> Option<Injection> {
    let text = text.trim();
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    match kind {
        "node-loss" => {
            let (lasts, start) = if text == kind { ("5s", "20s") } else { rest.split_once('@')? };
            let lasts = arrivals::span(lasts).filter(|span| *span > Nanos::ZERO)?;
            let at_s = arrivals::span(start)?.secs_f64();
            Some(Injection { at_s, action: Action::NodeLoss { lasts_s: lasts.secs_f64() } })
        }
        "spike" => match Pattern::parse(if text == kind { "spike:4x/10s@30s" } else { text }) {
            Ok(Pattern::Spike { times, lasts, start }) => {
                Some(Injection { at_s: start.secs_f64(), action: Action::Spike { times, lasts_s: lasts.secs_f64() } })
            }
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn commands_and_their_times() {
        let (times, command) = at("60s,2m='kill -9 1' && x=1").unwrap();
        assert_eq!((times, command), (vec![Nanos::from_secs(60), Nanos::from_secs(120)], "'kill -9 1' && x=1"));
        assert_eq!(at("500ms=true").unwrap().0, [Nanos::from_millis(500)]);
        for bad in ["", "60s", "60s=", "60s= ", "=x", "soon=x", "1s,=x", "-1s=x", "infs=x", "NaN=x"] {
            assert_eq!(at(bad), None, "{bad}");
        }
    }

    #[test]
    fn presets_have_defaults_and_say_what_they_do() {
        let said = |text: &str| preset(text).unwrap().to_string();
        assert_eq!(said("node-loss"), "node loss at 20 s: the mock is stopped for 5 s");
        assert_eq!(said("node-loss:500ms@1m"), "node loss at 60 s: the mock is stopped for 0.5 s");
        assert_eq!(said("spike"), "spike at 30 s: 4 times the rate for 10 s");
        assert_eq!(said("spike:2.5x/1s@2s"), "spike at 2 s: 2.5 times the rate for 1 s");
        for bad in ["", "node-loss:", "node-loss:0s@1s", "node-loss:5s", "spike:", "spike:4/10s@30s", "ramp:1..2/3s"] {
            assert_eq!(preset(bad), None, "{bad}");
        }
        let text = serde_json::to_string(&preset("node-loss").unwrap()).unwrap();
        assert_eq!(text, r#"{"at_s":20.0,"kind":"node_loss","lasts_s":5.0}"#);
        assert_eq!(serde_json::from_str::<Injection>(&text).unwrap(), preset("node-loss").unwrap());
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in "\\PC{0,40}") {
            let _ = (at(&text), preset(&text));
        }
    }
}
