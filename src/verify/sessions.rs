//! The sessions of a window a second time: from all of its rows, session by session and turn by turn.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::distributions::{Forbidden, Metric, distribution};
use super::raw::number;
use super::window::verdict;
use crate::analysis::definitions::sessions::{
    Fate, Lack, elapsed, fate, lack, leaves_out_reasoning, pause, together, turnaround, until, waited_since_due,
};
use crate::analysis::definitions::{self, Columns, share, wording};
use crate::analysis::percentiles::Sample;
use crate::rundir::row::{Outcome, Row, Turn};

/// The sessions of a window.
pub(super) struct Course<'a> {
    line: &'a Value,
    opened: u64,
    closed: u64,
    sent: &'a [&'a Row],
    /// By id, each with its turns in order.
    all: BTreeMap<u64, Vec<(&'a Turn, &'a Row)>>,
}

impl<'a> Course<'a> {
    /// None where requests stand alone.
    pub(super) fn of(line: &'a Value, rows: &'a [Row], sent: &'a [&'a Row]) -> Option<Course<'a>> {
        line["load"]["sessions"].as_object()?;
        let mut all: BTreeMap<u64, Vec<(&Turn, &Row)>> = BTreeMap::new();
        for row in rows {
            if let Some(turn) = &row.session {
                all.entry(turn.id).or_default().push((turn, row));
            }
        }
        all.values_mut().for_each(|turns| turns.sort_by_key(|(turn, _)| turn.turn));
        Some(Course { line, opened: number(line, "opened"), closed: number(line, "closed"), sent, all })
    }

    fn dropped(&self, id: u64) -> bool {
        id < number(&self.line["load"]["sessions"], "drop")
    }

    fn fate(turns: &[(&Turn, &Row)]) -> Fate {
        let with = |outcome| turns.iter().filter(move |(_, row)| row.outcome == outcome).map(|(turn, _)| turn.turn);
        let planned = turns.first().map_or(0, |(turn, _)| turn.turns);
        fate(planned, with(Outcome::Ok).count() as u32, with(Outcome::Failed).next())
    }

    /// Each session's time under way.
    fn spans(&self) -> Vec<(u64, u64)> {
        let span = |turns: &Vec<(&Turn, &Row)>| {
            let from = turns.iter().map(|(_, row)| row.due).min()?;
            let last = turns.iter().map(|(_, row)| until(row, self.closed)).max()?;
            Some((from, if Self::fate(turns) == Fate::Cut { last.max(self.closed) } else { last }))
        };
        self.all.values().filter_map(span).collect()
    }

    /// Level over time: from, to, sessions under way.
    pub(super) fn levels(&self) -> Vec<(u64, u64, i64)> {
        super::window::levels(self.spans().into_iter(), self.opened, self.closed)
    }

    /// `sessions` of the window; the flag on turns, and verdicts on widths, are appended.
    pub(super) fn figures(&self, forbidden: Forbidden, verdicts: &mut Vec<Value>) -> Value {
        verdicts.push(verdict("*", "*", None, "flag", None, &wording::turns_hang_together()));
        verdicts.extend(self.too_few());
        let kept: Vec<&Vec<(&Turn, &Row)>> =
            self.all.iter().filter(|(id, _)| !self.dropped(**id)).map(|(_, turns)| turns).collect();
        let complete: Vec<&Vec<(&Turn, &Row)>> =
            kept.iter().copied().filter(|turns| Self::fate(turns) == Fate::Complete).collect();
        let last_token = |turns: &[(&Turn, &Row)]| Some(turns.last()?.1.last_token?.seen);
        let time = |turns: &[(&Turn, &Row)]| Some(elapsed(turns.first()?.1.due, last_token(turns)?));
        let mut duration = distribution(complete.iter().filter_map(|turns| time(turns)).collect::<Vec<i64>>());
        if forbidden.due && duration.is_object() {
            super::distributions::blank_all(&mut duration);
        }
        // a metric's rows stand for sessions here: the first turn of each
        let by_id: BTreeMap<u64, &Vec<(&Turn, &Row)>> =
            complete.iter().filter_map(|turns| Some((turns.first()?.0.id, *turns))).collect();
        let waited = |row: &Row| {
            let Some(turns) = row.session.as_ref().and_then(|turn| by_id.get(&turn.id)) else { return Vec::new() };
            let each = turns.iter().map(|(_, row)| definitions::e2e(row));
            let Some(sum) = each.reduce(together) else { return Vec::new() };
            let pauses: Option<i64> = turns.iter().map(|(_, row)| pause(row)).sum();
            vec![Columns { due: time(turns).zip(pauses).map(|(all, idle)| waited_since_due(all, idle)), ..sum }]
        };
        let firsts: Vec<&Row> = complete.iter().filter_map(|turns| Some(turns.first()?.1)).collect();
        let waited = Metric { name: "waited", of: &waited, two_ended: false, forbidden };
        let waited = waited.with_due(&firsts, false, verdicts);
        let sent: Vec<&Row> = kept_turns(self.sent, |turn| !self.dropped(turn.id));
        let turnaround = distribution(sent.iter().filter_map(|row| turnaround(row)).collect::<Vec<i64>>());
        let places: BTreeSet<u32> = sent.iter().filter_map(|row| Some(row.session.as_ref()?.turn)).collect();
        let by_turn: Vec<Value> = places
            .into_iter()
            .map(|place| turn_figures(place, &kept_turns(&sent, |turn| turn.turn == place), forbidden, verdicts))
            .collect();
        json!({
            "kind": self.line["load"]["sessions"]["kind"],
            "counts": self.counts(&kept),
            "at_once": self.at_once(),
            "duration": duration,
            "waited": waited,
            "turnaround": turnaround,
            "by_turn": by_turn,
        })
    }

    /// A flag where the users that were asked for never all led a session.
    fn too_few(&self) -> Option<Value> {
        let load = &self.line["load"];
        let users = load["concurrency"].as_u64().filter(|_| load["model"] == "closed")?;
        let most = self.at_once()["max"].as_u64().unwrap_or_default();
        let asked = &load["sessions"];
        let text = wording::too_few_sessions(users, most, number(asked, "planned"), asked["kind"] == "chain");
        (most < users).then(|| verdict("*", "*", None, "flag", Some(most as f64), &text))
    }

    fn counts(&self, kept: &[&Vec<(&Turn, &Row)>]) -> Value {
        let fates: Vec<Fate> = kept.iter().map(|turns| Self::fate(turns)).collect();
        let mut failed_at: BTreeMap<u32, u64> = BTreeMap::new();
        for fate in &fates {
            if let Fate::Failed(turn) = fate {
                *failed_at.entry(*turn).or_default() += 1;
            }
        }
        let never = |turns: &Vec<(&Turn, &Row)>| {
            let planned = turns.first().map_or(0, |(turn, _)| u64::from(turn.turns));
            planned.saturating_sub(turns.len() as u64)
        };
        json!({
            "begun": self.all.len(),
            "dropped": self.all.len() - kept.len(),
            "kept": kept.len(),
            "complete": fates.iter().filter(|fate| **fate == Fate::Complete).count(),
            "failed": failed_at.values().sum::<u64>(),
            "cut": fates.iter().filter(|fate| **fate == Fate::Cut).count(),
            "failed_at_turn": failed_at.into_iter().map(|(turn, n)| (turn.to_string(), n)).collect::<BTreeMap<_, _>>(),
            "left_out": Self::left_out(kept),
            "turns_never_due": kept.iter().map(|turns| never(turns)).sum::<u64>(),
        })
    }

    fn left_out(kept: &[&Vec<(&Turn, &Row)>]) -> Value {
        let rows: Vec<&Row> = kept.iter().flat_map(|turns| turns.iter().map(|(_, row)| *row)).collect();
        let lacking = |what: Lack| rows.iter().filter(|row| lack(row) == Some(what)).count();
        json!({
            "tool_calls": lacking(Lack::ToolCalls),
            "parts": lacking(Lack::Parts),
            "unparsable": lacking(Lack::Unparsable),
            "empty": lacking(Lack::Empty),
            "reasoning": rows.iter().filter(|row| leaves_out_reasoning(row)).count(),
        })
    }

    fn at_once(&self) -> Value {
        let in_flight = super::window::weighted(self.levels(), None);
        json!({"mean": in_flight["mean"], "p95": in_flight["p95"], "max": in_flight["max"]})
    }
}

fn kept_turns<'a>(rows: &[&'a Row], holds: impl Fn(&Turn) -> bool) -> Vec<&'a Row> {
    rows.iter().copied().filter(|row| row.session.as_ref().is_some_and(&holds)).collect()
}

fn turn_figures(place: u32, sent: &[&Row], forbidden: Forbidden, verdicts: &mut Vec<Value>) -> Value {
    let ok: Vec<&Row> = sent.iter().copied().filter(|row| row.outcome == Outcome::Ok).collect();
    let turn = place.saturating_add(1);
    let mean = |of: fn(&Row) -> Option<u64>| {
        let told: Vec<u64> = ok.iter().filter_map(|row| of(row)).collect();
        share(definitions::tokens(told.iter().copied()), told.len() as u64)
    };
    let told: Vec<(u64, u64)> = ok.iter().filter_map(|row| row.cached_tokens.zip(row.prompt_tokens)).collect();
    let sum = |of: fn(&(u64, u64)) -> u64| definitions::tokens(told.iter().map(of));
    let ttft = columns("ttft", turn, definitions::ttft, false, &ok, forbidden, verdicts);
    let e2e = columns("e2e", turn, definitions::e2e, false, &ok, forbidden, verdicts);
    let tpot = columns("tpot", turn, definitions::tpot, true, &ok, forbidden, verdicts);
    json!({
        "turn": turn,
        "sent": sent.len(),
        "ok": ok.len(),
        "ttft": ttft,
        "e2e": e2e,
        "tpot": tpot,
        "prompt_tokens_mean": mean(|row| row.prompt_tokens),
        "completion_tokens_mean": mean(|row| row.completion_tokens),
        "cached_tokens_mean": mean(|row| row.cached_tokens),
        "cached_share": share(sum(|t| t.0), sum(|t| t.1)),
    })
}

/// Of widths only what is withheld is told: there may be hundreds of turns.
fn columns<T: Sample>(
    name: &str,
    turn: u32,
    of: fn(&Row) -> Columns<T>,
    two_ended: bool,
    ok: &[&Row],
    forbidden: Forbidden,
    verdicts: &mut Vec<Value>,
) -> Value {
    let name = format!("{name}@turn{turn}");
    let of = move |row: &Row| vec![of(row)];
    let mut widths = Vec::new();
    let found = Metric { name: &name, of: &of, two_ended, forbidden }.columns(ok, false, &mut widths);
    verdicts.extend(widths.into_iter().filter(|v| v["kind"] == "withheld"));
    Value::Object(found)
}
