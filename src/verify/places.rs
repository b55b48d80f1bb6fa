//! Rows in their places: those of a window stand together in the order of `windows.jsonl`, are of the planned run, and none
//! of a window that ran to its end is missing or there twice. The stamps of a row never run backwards.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Difference;
use super::raw::number;
use crate::rundir::row::{Outcome, Phase, Row, Stamp};
use crate::rundir::rows::Place;

/// The rows of a session so far.
struct Session {
    first_trace: u64,
    turns: u32,
    last: u32,
    /// Its next turn is sent in any case.
    goes_on: bool,
}

/// All windows, one after the other.
pub(super) struct Places<'a> {
    plan: &'a Value,
    windows: &'a [Value],
    /// Place in `windows` of the window whose rows come in; their number for rows of a window without a line.
    at: usize,
    trace_ids: BTreeSet<u64>,
    sessions: BTreeMap<u64, Session>,
}

impl<'a> Places<'a> {
    pub(super) fn new(plan: &'a Value, windows: &'a [Value]) -> Self {
        Places { plan, windows, at: 0, trace_ids: BTreeSet::new(), sessions: BTreeMap::new() }
    }

    /// A row, and where it stands. `index` is the place of its window; None where that has no line.
    pub(super) fn take(&mut self, row: &Row, at: &Place, index: Option<usize>) -> Result<(), Difference> {
        let index = index.unwrap_or(self.windows.len());
        let differs = |field: &str, stored: String, recomputed: String| Difference::Value {
            file: at.file.clone(),
            line: at.line as usize,
            field: field.into(),
            stored,
            recomputed,
        };
        if let Some(run) = self.plan["run_id"].as_str().filter(|run| *run != row.run) {
            return Err(differs("run", format!("{:?}", row.run), format!("{run:?}")));
        }
        if index < self.at {
            let words = |line: Option<&Value>| {
                line.map_or_else(
                    || "one without a line".to_owned(),
                    |line| format!("{}/{}", line["cell"], line["window"]),
                )
            };
            let [stored, recomputed] = [index, self.at].map(|index| words(self.windows.get(index)));
            return Err(differs("cell/window", stored, format!("{recomputed}, as in the rows before")));
        }
        self.go_to(index)?;
        if let Some((field, stored, before)) = backwards(row) {
            return Err(differs(field, stored.to_string(), format!("{} or later", before)));
        }
        let Some(line) = self.windows.get(index) else { return Ok(()) };
        let phase = if row.trace_id < number(line, "drop") { Phase::Warmup } else { Phase::Measured };
        if row.phase != phase {
            return Err(differs("phase", format!("{:?}", row.phase), format!("{phase:?}")));
        }
        let in_sessions = line["load"]["sessions"].is_object();
        if in_sessions != row.session.is_some() {
            let words = |there: bool| if there { "a turn" } else { "null" }.to_owned();
            return Err(differs("session", words(!in_sessions), words(in_sessions)));
        }
        if !self.trace_ids.insert(row.trace_id) {
            return Err(differs("trace_id", row.trace_id.to_string(), "one that has no row yet".to_owned()));
        }
        if let Some(turn) = &row.session {
            let first_trace = row.trace_id.saturating_sub(u64::from(turn.turn));
            let goes_on = row.outcome == Outcome::Ok;
            self.sessions.insert(turn.id, Session { first_trace, turns: turn.turns, last: turn.turn, goes_on });
        }
        Ok(())
    }

    /// No more rows.
    pub(super) fn finish(&mut self) -> Result<(), Difference> {
        self.go_to(self.windows.len())
    }

    fn go_to(&mut self, index: usize) -> Result<(), Difference> {
        while self.at < index {
            let found = self.missing();
            self.at += 1;
            self.trace_ids.clear();
            self.sessions.clear();
            found?;
        }
        Ok(())
    }

    /// What a window that ran to its end lacks. Of one that was cut short any part can be there.
    fn missing(&self) -> Result<(), Difference> {
        let Some(line) = self.windows.get(self.at).filter(|line| line["interrupted"] == false) else { return Ok(()) };
        let differs = |field: &str, stored: String, recomputed: String| Difference::Value {
            file: "windows.jsonl".into(),
            line: self.at + 1,
            field: field.into(),
            stored,
            recomputed,
        };
        let is_closed = line["load"]["model"] == "closed";
        if line["load"]["sessions"].is_object() {
            return self
                .missing_turn()
                .map_or(Ok(()), |(field, stored, recomputed)| Err(differs(field, stored, recomputed)));
        }
        // where time ends a closed loop, what was made ahead is taken back while workers still take from it
        if is_closed && self.plan["duration_s"].is_number() {
            return Ok(());
        }
        let shard = &self.plan["shard"];
        let shard = shard["index"].as_u64().zip(shard["of"].as_u64());
        let (first, step) = shard.map_or((0, 1), |(index, of)| (index.saturating_sub(1), of.max(1)));
        let (rows, planned) = (self.trace_ids.len() as u64, number(line, "planned"));
        let mut expected = (0..rows.max(planned)).map(|k| first.saturating_add(k.saturating_mul(step)));
        if let Some(id) = expected.find(|id| !self.trace_ids.contains(id)) {
            return Err(differs("trace_id", format!("{id} has no row"), format!("{id} has one")));
        }
        Ok(())
    }

    /// Field, stored and recomputed: a session that is not there, or that ended before its last turn.
    fn missing_turn(&self) -> Option<(&'static str, String, String)> {
        let planned = number(&self.windows[self.at]["load"]["sessions"], "planned");
        let (mut next, mut trace_id) = (0, 0);
        for (id, session) in &self.sessions {
            if *id != next {
                break;
            }
            if session.first_trace != trace_id {
                let (stored, recomputed) = (session.first_trace.to_string(), trace_id.to_string());
                return Some(("session.trace_id", format!("{stored} for the first turn of session {id}"), recomputed));
            }
            if session.goes_on && session.last + 1 < session.turns {
                let turn = session.last + 1;
                return Some(("session.turn", format!("{turn} of session {id} has no row"), "it has one".to_owned()));
            }
            (next, trace_id) = (next + 1, trace_id + u64::from(session.turns));
        }
        let all = planned.max(self.sessions.len() as u64);
        (next < all).then(|| ("session.id", format!("{next} has no row"), format!("{next} has one")))
    }
}

/// The first stamp that is earlier than one before it: its field, it, and that one.
fn backwards(row: &Row) -> Option<(&'static str, u64, u64)> {
    let seen = |stamp: Option<Stamp>| stamp.map(|stamp| stamp.seen);
    // a due may be the arrival of a reply, which is known only within the mapping between the clocks: it is not held here
    let sending = [("taken", row.taken), ("submit", row.submit), ("handed", row.handed), ("sent", row.sent)];
    let reply = [
        ("submit", row.submit),
        ("first_byte.seen", seen(row.first_byte)),
        ("first_event.seen", seen(row.first_event)),
        ("first_token.seen", seen(row.first_token)),
        ("last_token.seen", seen(row.last_token)),
        ("end.seen", seen(row.end)),
    ];
    let done =
        [("first_event.seen", seen(row.first_event)), ("done.seen", seen(row.done)), ("end.seen", seen(row.end))];
    fell(&sending).or_else(|| fell(&reply)).or_else(|| fell(&done))
}

fn fell(stamps: &[(&'static str, Option<u64>)]) -> Option<(&'static str, u64, u64)> {
    let mut latest = 0;
    for (field, at) in stamps.iter().filter_map(|(field, at)| Some((*field, (*at)?))) {
        if at < latest {
            return Some((field, at, latest));
        }
        latest = at;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::specimen::Specimen;

    #[test]
    fn a_row_after_those_of_a_later_window_is_found() {
        let specimen = Specimen::two_windows();
        let windows = specimen.windows.iter().map(|(bounds, _)| serde_json::to_value(bounds).expect("json"));
        let (windows, plan) = (windows.collect::<Vec<_>>(), specimen.plan);
        let mut places = Places::new(&plan, &windows);
        let at = |line| Place { file: "requests.jsonl".into(), line };
        for (row, line) in specimen.windows[0].1.iter().zip(1..) {
            assert_eq!(places.take(row, &at(line), Some(0)), Ok(()));
        }
        assert_eq!(places.take(&specimen.windows[1].1[0], &at(31), Some(1)), Ok(()));
        let found = places.take(&specimen.windows[0].1[4], &at(32), Some(0)).expect_err("a difference").to_string();
        assert_eq!(found, "requests.jsonl:32: cell/window: stored 0/0, recomputed 0/1, as in the rows before");
    }
}
