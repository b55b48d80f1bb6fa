//! The rows of sessions held against each other: each turn follows the one before it, and is due by its end or its due.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Difference;
use super::raw::number;
use crate::rundir::row::{Outcome, Row, Turn};
use crate::rundir::rows::Place;

/// The last row of a session so far.
struct Last {
    turn: Turn,
    trace_id: u64,
    due: u64,
    /// As it arrived, else as it was seen.
    end: Option<u64>,
    goes_on: bool,
}

/// All windows, one after the other.
pub(super) struct Turns<'a> {
    windows: &'a [Value],
    window: Option<(u32, u32)>,
    /// Whether turns of this window are due at a pace; None: its requests stand alone.
    paced: Option<bool>,
    sessions: BTreeMap<u64, Last>,
    trace_ids: BTreeSet<u64>,
}

impl<'a> Turns<'a> {
    pub(super) fn new(windows: &'a [Value]) -> Self {
        Turns { windows, window: None, paced: None, sessions: BTreeMap::new(), trace_ids: BTreeSet::new() }
    }

    /// A row, and where it stands. Rows of a session come in the order of its turns.
    pub(super) fn take(&mut self, row: &Row, at: &Place) -> Result<(), Difference> {
        if self.window != Some((row.cell, row.window)) {
            let key = (u64::from(row.cell), u64::from(row.window));
            let line = self.windows.iter().find(|w| (number(w, "cell"), number(w, "window")) == key);
            let load = line.map(|line| &line["load"]["sessions"]);
            *self = Turns {
                window: Some((row.cell, row.window)),
                paced: load.filter(|load| load.is_object()).map(|load| load["paced"] == true),
                ..Turns::new(self.windows)
            };
        }
        let broken = |text: String| Err(Difference::Broken { file: at.file.clone(), line: at.line as usize, text });
        let (Some(paced), Some(turn)) = (self.paced, &row.session) else { return Ok(()) };
        if !self.trace_ids.insert(row.trace_id) {
            return broken(format!("trace id {} has a row already", row.trace_id));
        }
        let name = format!("turn {} of session {}", turn.turn, turn.id);
        if turn.turn >= turn.turns {
            return broken(format!("{name}: the session has {} turns", turn.turns));
        }
        let before = self.sessions.get(&turn.id);
        match (turn.turn.checked_sub(1), before) {
            (None, Some(_)) => return broken(format!("{name}: it has a row already")),
            (Some(place), Some(last)) => {
                let same = (last.turn.turns, last.turn.user) == (turn.turns, turn.user);
                if last.turn.turn != place || !last.goes_on || last.trace_id + 1 != row.trace_id || !same {
                    return broken(format!(
                        "{name}: it does not follow turn {}, trace id {}",
                        last.turn.turn, last.trace_id
                    ));
                }
                if turn.after != last.end {
                    return broken(format!(
                        "{name}: after is {:?}, the reply before ended at {:?}",
                        turn.after, last.end
                    ));
                }
            }
            (Some(_), None) => return broken(format!("{name}: the turn before it has no row")),
            (None, None) => {}
        }
        let from = match before.filter(|_| paced) {
            Some(last) => Some(last.due),
            None => turn.after,
        };
        if from.is_some_and(|from| from.saturating_add(turn.pause) != row.due) {
            return broken(format!(
                "{name}: due is {}, not {} and the pause of {}",
                row.due,
                from.unwrap_or(0),
                turn.pause
            ));
        }
        let end = row.end.map(|end| end.arrived.unwrap_or(end.seen));
        let goes_on = row.outcome == Outcome::Ok;
        self.sessions.insert(turn.id, Last { turn: turn.clone(), trace_id: row.trace_id, due: row.due, end, goes_on });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::specimen::Specimen;

    /// What is said of the rows of a window of sessions, changed.
    fn said(change: impl Fn(&mut Vec<Row>)) -> Option<String> {
        let mut specimen = Specimen::sessions(Some(3), 12);
        let (bounds, rows) = &mut specimen.windows[0];
        let windows = [serde_json::to_value(&*bounds).expect("json")];
        change(rows);
        let mut turns = Turns::new(&windows);
        let at = |line| Place { file: "requests.jsonl".into(), line };
        rows.iter().zip(1..).find_map(|(row, line)| turns.take(row, &at(line)).err()).map(|e| e.to_string())
    }

    fn session(row: &mut Row) -> &mut Turn {
        row.session.as_mut().expect("a turn")
    }

    #[test]
    fn rows_that_contradict_each_other_are_found() {
        assert_eq!(said(|_| ()), None);
        let later = |rows: &mut Vec<Row>| {
            rows.iter().position(|r| r.session.as_ref().is_some_and(|s| s.turn == 1)).expect("one")
        };
        type Change = fn(&mut Row);
        let changes: [(&str, Change); 6] = [
            ("due", |row| row.due += 20),
            ("pause", |row| session(row).pause += 1),
            ("after", |row| session(row).after = session(row).after.map(|t| t + 1)),
            ("turns", |row| session(row).turns = 1),
            ("follow", |row| session(row).user = Some(77)),
            ("follow", |row| row.trace_id += 1_000),
        ];
        for (word, change) in changes {
            let found = said(|rows| {
                let at = later(rows);
                change(&mut rows[at]);
            });
            assert!(found.as_ref().is_some_and(|text| text.contains(word)), "{word}: {found:?}");
        }
        let twice = said(|rows| {
            let at = later(rows);
            let again = rows[at].clone();
            rows.push(again);
        });
        assert!(twice.is_some_and(|text| text.contains("has a row already")));
    }
}
