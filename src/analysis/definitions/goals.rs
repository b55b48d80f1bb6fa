//! Whether a request, or a window, keeps to its goals.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{e2e, millis, ntpot, stall, tpot, ttfo, ttft};
use crate::goals::{Goals, RequestMetric};
use crate::rundir::row::{Outcome, Row};

/// How a kept request stands to the goals of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Met {
    /// It is ok, and no figure is above its limit.
    Yes,
    /// It is not ok, or a figure is above.
    No,
    /// A figure that a goal speaks of is not defined, and none of the others is above.
    Unknown,
}

/// Judges a kept request. `open`: what starts with the send is counted from due.
pub fn met(row: &Row, goals: &Goals, open: bool) -> Met {
    if row.outcome != Outcome::Ok {
        return Met::No;
    }
    let mut found = Met::Yes;
    for (metric, limit_ms) in &goals.request {
        match figure_ms(row, *metric, open) {
            Some(ms) if ms > *limit_ms => return Met::No,
            Some(_) => {}
            None if has_none(row, *metric) => {}
            None => found = Met::Unknown,
        }
    }
    found
}

/// A reply of one token has no time between tokens, and keeps every goal on it.
fn has_none(row: &Row, metric: RequestMetric) -> bool {
    let between = matches!(metric, RequestMetric::Tpot | RequestMetric::Stall);
    between && row.token_events == 1 && row.completion_tokens == Some(1)
}

fn figure_ms(row: &Row, metric: RequestMetric, open: bool) -> Option<f64> {
    let since = |columns: super::Columns<i64>| if open { columns.due } else { columns.gross }.map(millis);
    match metric {
        RequestMetric::Ttft => since(ttft(row)),
        RequestMetric::Ttfo => since(ttfo(row)),
        RequestMetric::E2e => since(e2e(row)),
        RequestMetric::Tpot => tpot(row).gross.map(|ns| ns / 1e6),
        RequestMetric::Ntpot => ntpot(row).gross.map(|ns| ns / 1e6),
        RequestMetric::Stall => stall(row).gross.map(millis),
    }
}

/// What is to be said of a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Its whole interval keeps to it.
    Pass,
    /// Its whole interval does not.
    Fail,
    /// The interval straddles the limit, or there is none.
    Inconclusive,
    /// The figure is not there, or withheld.
    NotJudged,
}

/// A figure, with the interval it lies in, against a limit from above or below.
pub fn answer(interval: Option<[f64; 2]>, figure: Option<f64>, limit: f64, at_least: bool) -> Answer {
    if figure.is_none() {
        return Answer::NotJudged;
    }
    let Some([low, high]) = interval else { return Answer::Inconclusive };
    match at_least {
        true if low >= limit => Answer::Pass,
        true if high < limit => Answer::Fail,
        false if high <= limit => Answer::Pass,
        false if low > limit => Answer::Fail,
        _ => Answer::Inconclusive,
    }
}

/// A rate over stated bounds is a count, and known: nothing but itself is its interval.
pub fn exact(figure: Option<f64>) -> Option<[f64; 2]> {
    figure.map(|f| [f, f])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::specimen::{MS, failed, request};

    fn goals(text: &str) -> Goals {
        let flags: Vec<String> = text.split(',').map(str::to_owned).collect();
        Goals::new(None, &flags).unwrap().unwrap()
    }

    #[test]
    fn a_request_by_hand() {
        // gross: ttft 5.03, e2e 8.13, tpot 1.55, longest gap 2.1 ms; from due 10 us more
        let row = request(1, MS);
        let of = |text: &str, open: bool| met(&row, &goals(text), open);
        assert_eq!(of("ttft:5.03,e2e:8.13,tpot:1.55,stall:2.1", false), Met::Yes);
        assert_eq!(of("ttft:5.03", true), Met::No);
        assert_eq!(of("ttft:5.04,tpot:1.55", true), Met::Yes);
        for just_missed in ["ttft:5.029", "e2e:8.129", "tpot:1.549", "stall:2.09", "ntpot:2.7", "ttfo:5"] {
            assert_eq!(of(just_missed, false), Met::No, "{just_missed}");
        }
    }

    #[test]
    fn what_failed_met_nothing_and_what_is_not_defined_is_not_known() {
        assert_eq!(met(&failed(request(1, MS), "timeout"), &goals("ttft:1000"), false), Met::No);
        let mut uncounted = request(1, MS);
        uncounted.completion_tokens = None;
        assert_eq!(met(&uncounted, &goals("tpot:1000"), false), Met::Unknown);
        assert_eq!(met(&uncounted, &goals("tpot:1000,ttft:1"), false), Met::No, "one figure above is enough");
        let mut single = request(1, MS);
        single.chunks.truncate(1);
        (single.token_events, single.completion_tokens, single.last_token) = (1, Some(1), single.first_token);
        assert_eq!(met(&single, &goals("tpot:0.001,stall:0.001"), false), Met::Yes);
    }

    #[test]
    fn an_interval_across_the_limit_is_inconclusive() {
        let at_most = |ci| answer(ci, Some(5.0), 10.0, false);
        assert_eq!(at_most(Some([4.0, 10.0])), Answer::Pass);
        assert_eq!(at_most(Some([4.0, 10.1])), Answer::Inconclusive);
        assert_eq!(at_most(Some([10.1, 12.0])), Answer::Fail);
        assert_eq!(at_most(None), Answer::Inconclusive);
        assert_eq!(answer(Some([1.0, 2.0]), None, 10.0, false), Answer::NotJudged);
        let at_least = |ci| answer(Some(ci), Some(5.0), 10.0, true);
        assert_eq!(
            [[10.0, 11.0], [9.0, 11.0], [8.0, 9.9]].map(at_least),
            [Answer::Pass, Answer::Inconclusive, Answer::Fail]
        );
    }
}
