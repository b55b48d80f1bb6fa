//! The sessions of a window, while their turns go by in any order.
//!
//! Of a session under way a few sums are kept, of one that is over its values; of a turn its values, as of any request.

use std::collections::BTreeMap;

use super::SummaryError;
use super::columns::{self, Print, Spread, Withheld};
use super::occupancy::Occupancy;
use super::window_tally::verdict;
use crate::analysis::definitions::sessions::{self, Fate, Lack};
use crate::analysis::definitions::{self, Columns, share, wording};
use crate::rundir::row::{Outcome, Phase, Row, Turn};
use crate::rundir::run_json::{Distribution, Verdict, VerdictKind};
use crate::rundir::sessions::{AtOnce, LeftOutCounts, SessionCounts, Sessions, TurnFigures};
use crate::rundir::window::{self, SessionKind, WindowRow};

/// Sessions of one window.
#[derive(Default)]
pub(super) struct SessionTally {
    under_way: BTreeMap<u64, Progress>,
    counts: SessionCounts,
    /// First due and last end of the sessions that are over.
    spans: Vec<(u64, u64)>,
    duration: Vec<i64>,
    waited: Spread<i64>,
    turnaround: Vec<i64>,
    /// `(when it could go out, turnaround)` of the ok ones; None as long as no turn that was sent followed a reply.
    judged: Option<Vec<(u64, i64)>>,
    turns: BTreeMap<u32, TurnTally>,
}

/// What is known of a session so far.
struct Progress {
    turns: u32,
    seen: u32,
    ok: u32,
    failed: Option<u32>,
    first_due: u64,
    until: u64,
    waited: Columns<i64>,
    pauses: Option<i64>,
    /// The last token of the last turn was seen.
    answered: Option<u64>,
}

/// The values of one turn of all sessions.
#[derive(Default)]
struct TurnTally {
    sent: u64,
    ok: u64,
    ttft: Spread<i64>,
    e2e: Spread<i64>,
    tpot: Spread<f64>,
    prompt: Counted,
    completion: Counted,
    cached: Counted,
    /// Cached and prompt tokens of the turns that told both.
    told: (u64, u64),
}

/// Tokens of the turns that told them.
#[derive(Default)]
struct Counted {
    turns: u64,
    tokens: u64,
}

impl Counted {
    fn take(&mut self, tokens: Option<u64>) {
        if let Some(tokens) = tokens {
            self.turns += 1;
            self.tokens = self.tokens.saturating_add(tokens);
        }
    }

    fn mean(&self) -> Option<f64> {
        share(self.tokens, self.turns)
    }
}

impl Progress {
    fn new(turn: &Turn) -> Progress {
        Progress {
            turns: turn.turns,
            seen: 0,
            ok: 0,
            failed: None,
            first_due: u64::MAX,
            until: 0,
            waited: sessions::NOTHING_WAITED,
            pauses: Some(0),
            answered: None,
        }
    }

    fn take(&mut self, row: &Row, turn: &Turn, closed: u64) {
        self.seen += 1;
        self.first_due = self.first_due.min(row.due);
        self.until = self.until.max(sessions::until(row, closed));
        match row.outcome {
            Outcome::Ok => self.ok += 1,
            Outcome::Failed => self.failed = Some(self.failed.map_or(turn.turn, |failed| failed.min(turn.turn))),
            Outcome::Censored | Outcome::NotSent => {}
        }
        self.waited = sessions::together(self.waited, definitions::e2e(row));
        self.pauses = self.pauses.zip(sessions::pause(row)).map(|(sum, pause)| sum.saturating_add(pause));
        if turn.turn.saturating_add(1) == turn.turns {
            self.answered = row.last_token.map(|stamp| stamp.seen);
        }
    }

    fn fate(&self) -> Fate {
        sessions::fate(self.turns, self.ok, self.failed)
    }
}

impl LeftOutCounts {
    fn take(&mut self, row: &Row) {
        match sessions::lack(row) {
            Some(Lack::ToolCalls) => self.tool_calls += 1,
            Some(Lack::Parts) => self.parts += 1,
            Some(Lack::Unparsable) => self.unparsable += 1,
            Some(Lack::Empty) => self.empty += 1,
            None => {}
        }
        self.reasoning += u64::from(sessions::leaves_out_reasoning(row));
    }
}

impl SessionTally {
    /// Takes a turn that was due; `asked` is what the window's sessions are to be like.
    pub(super) fn take(&mut self, row: &Row, asked: &window::Sessions, bounds: &WindowRow) -> Result<(), SummaryError> {
        let Some(turn) = &row.session else {
            let text = format!("trace id {} is of no session, and the load is one of sessions", row.trace_id);
            return Err(SummaryError::counts(bounds, text));
        };
        if (row.phase == Phase::Warmup) != (turn.id < asked.drop) {
            let text = format!("session {} is {:?}, but {} are dropped", turn.id, row.phase, asked.drop);
            return Err(SummaryError::counts(bounds, text));
        }
        if turn.turn >= turn.turns {
            let text = format!("session {} has turn {}, and {} turns", turn.id, turn.turn, turn.turns);
            return Err(SummaryError::counts(bounds, text));
        }
        if row.phase == Phase::Measured {
            self.counts.left_out.take(row);
        }
        if row.outcome != Outcome::NotSent && sessions::needs_reply(row) {
            let judged = self.judged.get_or_insert_default();
            if row.phase == Phase::Measured && row.outcome == Outcome::Ok {
                judged.extend(sessions::could_go_out(row).zip(sessions::turnaround(row)));
            }
        }
        if row.phase == Phase::Measured && row.outcome != Outcome::NotSent {
            self.turnaround.extend(sessions::turnaround(row));
            self.turns.entry(turn.turn).or_default().take(row);
        }
        let session = self.under_way.entry(turn.id).or_insert_with(|| Progress::new(turn));
        session.take(row, turn, bounds.closed);
        if session.seen == session.turns {
            self.close(turn.id, asked, bounds.closed);
        }
        Ok(())
    }

    /// All that is known of a session is known.
    fn close(&mut self, id: u64, asked: &window::Sessions, closed: u64) {
        let Some(session) = self.under_way.remove(&id) else { return };
        let fate = session.fate();
        let until = if fate == Fate::Cut { closed.max(session.until) } else { session.until };
        self.spans.push((session.first_due, until));
        let counts = &mut self.counts;
        counts.begun += 1;
        if id < asked.drop {
            counts.dropped += 1;
            return;
        }
        counts.kept += 1;
        counts.turns_never_due += u64::from(session.turns.saturating_sub(session.seen));
        match fate {
            Fate::Complete => {
                counts.complete += 1;
                let elapsed = session.answered.map(|seen| sessions::elapsed(session.first_due, seen));
                self.duration.extend(elapsed);
                let due =
                    elapsed.zip(session.pauses).map(|(elapsed, pauses)| sessions::waited_since_due(elapsed, pauses));
                self.waited.push(0, Columns { due, ..session.waited });
            }
            Fate::Failed(turn) => {
                counts.failed += 1;
                *counts.failed_at_turn.entry(turn).or_default() += 1;
            }
            Fate::Cut => counts.cut += 1,
        }
    }

    /// What the gate on turnaround looks at.
    pub(super) fn judged(&mut self) -> Option<Vec<(u64, i64)>> {
        self.judged.take()
    }

    /// No turn comes any more. Gives the sessions over time, of which windows are made.
    pub(super) fn end(&mut self, asked: &window::Sessions, bounds: &WindowRow) -> Occupancy {
        let left: Vec<u64> = self.under_way.keys().copied().collect();
        left.into_iter().for_each(|id| self.close(id, asked, bounds.closed));
        Occupancy::of(&self.spans, bounds.opened, bounds.closed)
    }

    pub(super) fn print(
        self,
        (users, asked): (Option<u32>, &window::Sessions),
        at_once: &Occupancy,
        withheld: Withheld,
        verdicts: &mut Vec<Verdict>,
    ) -> Sessions {
        let levels = at_once.figures(None);
        let print = Print { metric: "waited", two_ended: false, classes: &[], withheld };
        if let Some(flag) = too_few(users, levels.max, asked) {
            verdicts.push(flag);
        }
        let blank = |d: Distribution| match withheld.due {
            true => Distribution { n: d.n, ..Distribution::default() },
            false => d,
        };
        let waited = self.waited.with_due(&print, verdicts);
        let turns = self.turns.into_iter();
        Sessions {
            kind: asked.kind,
            counts: self.counts,
            at_once: AtOnce { mean: levels.mean, p95: levels.p95, max: levels.max },
            duration: columns::single(self.duration).map(blank),
            waited,
            turnaround: columns::single(self.turnaround),
            by_turn: turns.map(|(place, turn)| turn.print(place.saturating_add(1), withheld, verdicts)).collect(),
        }
    }
}

/// A flag where the users that were asked for never all led a session.
fn too_few(users: Option<u32>, most: u64, asked: &window::Sessions) -> Option<Verdict> {
    let users = users.map(u64::from).filter(|users| most < *users)?;
    let text = wording::too_few_sessions(users, most, asked.planned, asked.kind == SessionKind::Chain);
    Some(verdict("*", "*", VerdictKind::Flag, Some(most as f64), text))
}

impl TurnTally {
    /// A kept turn that was sent.
    fn take(&mut self, row: &Row) {
        self.sent += 1;
        if row.outcome != Outcome::Ok {
            return;
        }
        self.ok += 1;
        self.ttft.push(0, definitions::ttft(row));
        self.e2e.push(0, definitions::e2e(row));
        self.tpot.push(0, definitions::tpot(row));
        self.prompt.take(row.prompt_tokens);
        self.completion.take(row.completion_tokens);
        self.cached.take(row.cached_tokens);
        if let Some((cached, prompt)) = row.cached_tokens.zip(row.prompt_tokens) {
            self.told = (self.told.0.saturating_add(cached), self.told.1.saturating_add(prompt));
        }
    }

    fn print(self, turn: u32, withheld: Withheld, verdicts: &mut Vec<Verdict>) -> TurnFigures {
        let [ttft, e2e, tpot] = ["ttft", "e2e", "tpot"].map(|metric| format!("{metric}@turn{turn}"));
        let print = |metric, two_ended| Print { metric, two_ended, classes: &[], withheld };
        // an interval stands in its cell; there may be hundreds of turns
        let mut widths = Vec::new();
        let figures = TurnFigures {
            turn,
            sent: self.sent,
            ok: self.ok,
            ttft: self.ttft.between(&print(&ttft, false), &mut widths),
            e2e: self.e2e.between(&print(&e2e, false), &mut widths),
            tpot: self.tpot.between(&print(&tpot, true), &mut widths),
            prompt_tokens_mean: self.prompt.mean(),
            completion_tokens_mean: self.completion.mean(),
            cached_tokens_mean: self.cached.mean(),
            cached_share: share(self.told.0, self.told.1),
        };
        verdicts.extend(widths.into_iter().filter(|v| v.kind == VerdictKind::Withheld));
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::specimen::{MS, Specimen, THINK, US};
    use crate::rundir::row::LeftOut;
    use crate::rundir::run_json::{RunJson, Window};

    fn summary_of(mut specimen: Specimen) -> RunJson {
        let dir = tempfile::tempdir().unwrap();
        specimen.write(dir.path());
        crate::analysis::summary::summarise(dir.path()).unwrap()
    }

    fn first(specimen: Specimen) -> Window {
        summary_of(specimen).cells[0].windows[0].clone()
    }

    fn ms(ns: u64) -> f64 {
        ns as f64 / 1e6
    }

    #[test]
    fn counts_close_and_only_complete_sessions_have_a_time() {
        let mut specimen = Specimen::sessions(Some(3), 40);
        // no last turn, kept: the next one carries nothing; of a last turn nobody asks
        for place in [0, 3] {
            let of = |row: &&mut Row| row.session.as_ref().is_some_and(|turn| (turn.id, turn.turn) == (20, place));
            let row = specimen.windows[0].1.iter_mut().find(of).unwrap();
            let turn = row.session.as_mut().unwrap();
            (turn.reply_sha256, turn.left_out) = (None, vec![LeftOut::Reasoning]);
        }
        let of = |specimen: &mut Specimen, id: u64, change: fn(&mut Row)| {
            let of = |row: &&mut Row| row.session.as_ref().is_some_and(|turn| (turn.id, turn.turn) == (id, 0));
            change(specimen.windows[0].1.iter_mut().find(of).unwrap());
        };
        of(&mut specimen, 21, |row| row.session.as_mut().unwrap().left_out = vec![LeftOut::ToolCalls]);
        of(&mut specimen, 22, |row| row.session.as_mut().unwrap().left_out = vec![LeftOut::Parts]);
        of(&mut specimen, 23, |row| row.flags = vec!["bad_event=2".to_owned()]);
        of(&mut specimen, 1, |row| row.flags = vec!["bad_event=2".to_owned()]);
        let specimen_again = || {
            let mut again = Specimen::sessions(Some(3), 40);
            again.windows = specimen.windows.clone();
            again
        };
        let shuffled = |mut specimen: Specimen| {
            specimen.windows.iter_mut().for_each(|(_, rows)| rows.reverse());
            specimen
        };
        let window = first(specimen_again());
        let found = window.sessions.clone().unwrap();
        let counts = SessionCounts {
            begun: 40,
            dropped: 4,
            kept: 36,
            complete: 34,
            failed: 1,
            cut: 1,
            failed_at_turn: BTreeMap::from([(2, 1)]),
            turns_never_due: 2,
            left_out: LeftOutCounts { tool_calls: 1, parts: 1, unparsable: 1, empty: 1, reasoning: 1 },
        };
        assert_eq!(found.counts, counts);
        let columns = [&found.duration, &found.waited.gross, &found.waited.tare, &found.waited.net, &found.waited.due];
        assert!(columns.iter().all(|column| column.as_ref().map(|d| d.n) == Some(34)));
        // every kept turn was sent; the failed and the cut one are no answers
        let sent: u64 = found.by_turn.iter().map(|turn| turn.sent).sum();
        assert_eq!(
            (sent, found.by_turn.iter().map(|turn| turn.ok).sum::<u64>()),
            (window.requests.kept, window.requests.ok)
        );
        assert_eq!(found.by_turn.iter().map(|turn| turn.turn).collect::<Vec<_>>(), [1, 2, 3, 4]);
        // in whatever order rows were written
        assert_eq!(first(shuffled(specimen_again())).sessions, Some(found));
    }

    #[test]
    fn the_time_of_a_session_is_what_was_waited_and_what_was_paused() {
        // one session of four turns behind those that are dropped; by hand
        let mut specimen = Specimen::sessions(Some(1), 9);
        specimen.windows.truncate(1);
        let rows = &mut specimen.windows[0].1;
        rows.retain(|row| row.session.as_ref().is_some_and(|turn| turn.id == 5));
        let (first_due, last) = (rows[0].due, rows.last().unwrap().last_token.unwrap().seen);
        let waits: u64 = rows.iter().map(|row| row.last_token.unwrap().seen - row.submit.unwrap()).sum();
        let found = first(specimen).sessions.unwrap();
        assert_eq!(found.counts.complete, 1);
        assert_eq!(found.duration.unwrap().p50_ms, Some(ms(last - first_due)));
        assert_eq!(found.waited.gross.unwrap().p50_ms, Some(ms(waits)));
        assert_eq!(found.waited.due.unwrap().p50_ms, Some(ms(last - first_due - 3 * THINK)));
        // 10 us from due to submit in each turn
        assert_eq!(found.turnaround.as_ref().unwrap().max_ms, Some(ms(10 * US)));
    }

    #[test]
    fn users_who_think_are_users_at_once() {
        let window = first(Specimen::sessions(Some(3), 40));
        let found = window.sessions.unwrap();
        // the close is 1 ms after the last reply; near the end users run out of sessions
        assert_eq!(found.at_once.max, 3);
        assert!(window.in_flight.mean < found.at_once.mean.map(|mean| mean * 0.75), "they think half of the time");
        assert!(window.in_flight.full_share > Some(0.9), "{:?}", window.in_flight);
        assert_eq!(window.throughput.from_s, Some(0.0));
        assert!(window.throughput.to_s > Some(window.duration_s * 0.9));
    }

    #[test]
    fn an_answer_is_no_arrival_and_no_lateness() {
        let mut specimen = Specimen::sessions(None, 40);
        // the client answers every reply 3 ms late
        for row in specimen.windows.iter_mut().flat_map(|(_, rows)| rows) {
            if sessions::needs_reply(row) {
                let later = |t: Option<u64>| t.map(|t| t + 3 * MS);
                (row.submit, row.handed, row.sent, row.wire_out) =
                    (later(row.submit), later(row.handed), later(row.sent), later(row.wire_out));
            }
        }
        let window = first(specimen);
        let found = window.sessions.unwrap();
        let arrivals = window.arrivals.unwrap();
        assert_eq!((arrivals.sent, arrivals.not_sent, arrivals.planned), (40, 0, 39));
        assert_eq!(window.offered_rps, Some(25.0), "sessions/s");
        let late = window.metrics.lateness.unwrap();
        assert_eq!((late.n, late.max_ms), (36, Some(ms(10 * US))));
        assert_eq!(found.turnaround.unwrap().p50_ms, Some(ms(3 * MS + 10 * US)));
    }

    #[test]
    fn each_turn_has_its_own_figures() {
        let found = first(Specimen::sessions(Some(3), 40)).sessions.unwrap();
        let prompts: Vec<_> = found.by_turn.iter().map(|turn| turn.prompt_tokens_mean).collect();
        assert_eq!(prompts, [Some(22.0), Some(47.0), Some(72.0), Some(97.0)]);
        let cached: Vec<_> = found.by_turn.iter().map(|turn| turn.cached_share).collect();
        assert_eq!(cached, [Some(0.0), Some(21.0 / 47.0), Some(46.0 / 72.0), Some(71.0 / 97.0)]);
        let unknown = {
            let mut specimen = Specimen::sessions(Some(3), 40);
            let rows = specimen.windows.iter_mut().flat_map(|(_, rows)| rows);
            rows.for_each(|row| (row.cached_tokens, row.prompt_tokens) = (None, None));
            first(specimen).sessions.unwrap()
        };
        let told = |turn: &TurnFigures| turn.prompt_tokens_mean.or(turn.cached_tokens_mean).or(turn.cached_share);
        assert!(unknown.by_turn.iter().all(|turn| told(turn).is_none()), "absent is not 0");
    }

    #[test]
    fn what_voids_gross_and_net_voids_sessions_too() {
        let mut specimen = Specimen::sessions(Some(3), 40);
        for row in specimen.windows.iter_mut().flat_map(|(_, rows)| rows) {
            // read 6 ms late
            for stamp in [&mut row.first_token, &mut row.last_token].into_iter().flatten() {
                stamp.seen += 6 * MS;
            }
            row.chunks.iter_mut().for_each(|chunk| chunk.0 += 6 * MS);
        }
        let window = first(specimen);
        let found = window.sessions.unwrap();
        assert!(window.metrics.ttft.gross.unwrap().p50_ms.is_none(), "the premise");
        let p50 = |column: &Option<Distribution>| column.as_ref().and_then(|d| d.p50_ms);
        assert_eq!([p50(&found.duration), p50(&found.waited.gross), p50(&found.waited.due)], [None; 3]);
        assert!(found.by_turn.iter().all(|turn| p50(&turn.ttft.gross).is_none() && p50(&turn.e2e.gross).is_none()));
        assert!(p50(&found.waited.tare).is_some(), "tare is never void");
        assert_eq!(found.duration.unwrap().n, 34);
    }

    #[test]
    fn a_session_that_is_not_what_the_load_says_is_a_fault() {
        let fault = |change: fn(&mut Row)| {
            let mut specimen = Specimen::sessions(Some(3), 40);
            change(&mut specimen.windows[0].1[30]);
            let dir = tempfile::tempdir().unwrap();
            specimen.write(dir.path());
            crate::analysis::summary::summarise(dir.path()).unwrap_err().to_string()
        };
        assert!(fault(|row| row.session = None).contains("is of no session"));
        assert!(fault(|row| row.session.as_mut().unwrap().id = 1).contains("but 4 are dropped"));
        assert!(fault(|row| row.session.as_mut().unwrap().turn = 9).contains("has turn 9"));
    }
}
