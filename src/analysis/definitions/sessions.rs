//! Formulas of sessions: several requests that each need the reply before.
//!
//! Turns of one session hang together: what is said of sessions (their time, what was waited) is of sessions that are
//! complete, and its intervals are of sessions, never of turns.

use super::{Columns, Net, first_action, load, span};
use crate::rundir::row::{LeftOut, Outcome, Row, Turn};

/// What became of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Every turn was answered whole.
    Complete,
    /// This turn, from 1, failed and ended it.
    Failed(u32),
    /// The window ended before its last turn.
    Cut,
}

/// What became of a session of `planned` turns, of which `ok` were answered whole; `failed` is the first that failed,
/// from 0. A turn that was cut off or not sent is no failure of the session.
pub fn fate(planned: u32, ok: u32, failed: Option<u32>) -> Fate {
    match failed {
        Some(turn) => Fate::Failed(turn.saturating_add(1)),
        None if ok >= planned => Fate::Complete,
        None => Fate::Cut,
    }
}

/// Whether a request was begun by the load model alone: it stands alone, or is the first turn of a session. The others
/// come when a reply is in, and are no arrivals.
pub fn is_arrival(row: &Row) -> bool {
    row.session.as_ref().is_none_or(|turn| turn.turn == 0)
}

/// Whether a request answers a reply: its first action is the client's own answer time ([`turnaround`]) and not a
/// schedule kept late.
pub fn needs_reply(row: &Row) -> bool {
    row.session.as_ref().is_some_and(|turn| turn.after.is_some())
}

/// Why the next turn of a session does not carry a reply whole: it carries the answer text of choice 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// The reply called tools or functions.
    ToolCalls,
    /// Its content was no text.
    Parts,
    /// Some of its events could not be read.
    Unparsable,
    /// It had no answer text, and none of the reasons above explains that.
    Empty,
}

/// What the next turn lacks of the reply of this one, the first reason that holds; None where it carries it whole, or there is
/// no next turn.
pub fn lack(row: &Row) -> Option<Lack> {
    let turn = carried_on(row)?;
    let unreadable = |flag: &String| flag == "bad_event" || flag.starts_with("bad_event=");
    match () {
        () if turn.left_out.contains(&LeftOut::ToolCalls) => Some(Lack::ToolCalls),
        () if turn.left_out.contains(&LeftOut::Parts) => Some(Lack::Parts),
        () if row.flags.iter().any(unreadable) => Some(Lack::Unparsable),
        () if turn.reply_sha256.is_none() => Some(Lack::Empty),
        () => None,
    }
}

/// Whether the next turn goes on without the reasoning of this one.
pub fn leaves_out_reasoning(row: &Row) -> bool {
    carried_on(row).is_some_and(|turn| turn.left_out.contains(&LeftOut::Reasoning))
}

/// The place of a turn whose reply another one carries.
fn carried_on(row: &Row) -> Option<&Turn> {
    row.session.as_ref().filter(|turn| row.outcome == Outcome::Ok && turn.turn.saturating_add(1) < turn.turns)
}

/// When a turn that needs a reply could go out: the reply was in, and the turn was due, in ns. None for one that needs none.
pub fn could_go_out(row: &Row) -> Option<u64> {
    Some(row.due.max(row.session.as_ref()?.after?))
}

/// From then to the first thing done for it, in ns. None for a turn that needs no reply, or was never submitted.
pub fn turnaround(row: &Row) -> Option<i64> {
    Some(span(could_go_out(row)?, first_action(row)?))
}

/// How long nobody waited before a turn: from the end of the reply before to its due, in ns; 0 for a turn that was due
/// before that, and for the first of a session. None for a later turn without the end of the reply that it needs.
pub fn pause(row: &Row) -> Option<i64> {
    let turn = row.session.as_ref()?;
    match (turn.turn, turn.after) {
        (0, _) => Some(0),
        (_, Some(after)) => Some(span(after, row.due).max(0)),
        (_, None) => None,
    }
}

/// Until when a turn keeps its session under way, in ns from the campaign's start: the end of its reply; its due where it
/// was never submitted.
pub fn until(row: &Row, closed: u64) -> u64 {
    load::in_flight(row, closed).map_or(row.due, |(_, end)| end.max(row.due))
}

/// From the due of the first turn to the moment the last token of the last one was seen, in ns.
pub fn elapsed(first_due: u64, last_token: u64) -> i64 {
    span(first_due, last_token)
}

/// What two turns were waited for together, column by column; a column is known when both are. `due` is not a sum: it is
/// [`waited_since_due`].
pub fn together(a: Columns<i64>, b: Columns<i64>) -> Columns<i64> {
    let sum = |a: Option<i64>, b: Option<i64>| Some(a?.saturating_add(b?));
    let net = a.net.zip(b.net).map(|(a, b)| Net {
        lo: a.lo.saturating_add(b.lo),
        at: a.at.saturating_add(b.at),
        hi: a.hi.saturating_add(b.hi),
    });
    Columns { gross: sum(a.gross, b.gross), tare: sum(a.tare, b.tare), net, due: None }
}

/// Nothing waited yet.
pub const NOTHING_WAITED: Columns<i64> =
    Columns { gross: Some(0), tare: Some(0), net: Some(Net { lo: 0, at: 0, hi: 0 }), due: None };

/// The time of a session less its pauses, in ns: what its user or agent waited, the client's own time between a reply and
/// the next request and what follows a last token included.
pub fn waited_since_due(elapsed: i64, pauses: i64) -> i64 {
    elapsed.saturating_sub(pauses)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::definitions::e2e;
    use crate::analysis::specimen::{MS, US, request, turn};

    #[test]
    fn a_turn_that_waits_for_its_reply_has_no_pause() {
        let mut row = request(1, 100 * MS);
        row.session = Some(turn(0, 1, 2, Some(90 * MS)));
        assert_eq!((pause(&row), turnaround(&row)), (Some(10_000_000), Some(10_000)));
        // due before the reply was in, as at a fixed pace: the client could not begin before that
        row.session = Some(turn(0, 1, 2, Some(100 * MS + 4 * US)));
        assert_eq!((pause(&row), turnaround(&row)), (Some(0), Some(6_000)));
        row.session = Some(turn(0, 1, 2, None));
        assert_eq!((pause(&row), turnaround(&row), needs_reply(&row), is_arrival(&row)), (None, None, false, false));
        // the first turn of a user's later session answers the end of the one before, and is no pause of its own
        row.session = Some(turn(1, 0, 2, Some(90 * MS)));
        assert_eq!(
            (pause(&row), turnaround(&row), needs_reply(&row), is_arrival(&row)),
            (Some(0), Some(10_000), true, true)
        );
    }

    #[test]
    fn sums_are_of_what_every_turn_has() {
        let both = [request(1, 0), request(2, 50 * MS)];
        let sum = both.iter().fold(NOTHING_WAITED, |sum, row| together(sum, e2e(row)));
        let one = e2e(&both[0]);
        assert_eq!(sum.gross, one.gross.map(|ns| 2 * ns));
        assert_eq!(sum.net.map(|net| net.at), one.net.map(|net| 2 * net.at));
        let mut unstamped = both[1].clone();
        unstamped.wire_out = None;
        let sum = together(one, e2e(&unstamped));
        assert_eq!((sum.gross.is_some(), sum.tare, sum.net), (true, None, None));
    }

    #[test]
    fn a_reply_lacks_one_thing_and_reasoning_is_no_lack() {
        let of = |left_out: &[LeftOut], text: bool, flags: &[&str]| {
            let mut row = request(1, 0);
            let mut place = turn(0, 0, 2, None);
            place.left_out = left_out.to_vec();
            place.reply_sha256 = place.reply_sha256.filter(|_| text);
            (row.session, row.flags) = (Some(place), flags.iter().map(|flag| (*flag).to_owned()).collect());
            (lack(&row), leaves_out_reasoning(&row))
        };
        assert_eq!(of(&[], true, &["keepalive=2"]), (None, false));
        assert_eq!(of(&[LeftOut::Reasoning], true, &[]), (None, true));
        assert_eq!(of(&[LeftOut::Reasoning], false, &[]), (Some(Lack::Empty), true));
        assert_eq!(of(&[LeftOut::ToolCalls], false, &["bad_event=1"]), (Some(Lack::ToolCalls), false));
        assert_eq!(of(&[LeftOut::Parts], true, &[]), (Some(Lack::Parts), false));
        assert_eq!(of(&[], false, &["bad_event=1"]), (Some(Lack::Unparsable), false));
        let mut last = request(1, 0);
        last.session = Some(Turn { left_out: vec![LeftOut::ToolCalls], ..turn(0, 1, 2, None) });
        assert_eq!(lack(&last), None, "no turn follows");
    }

    #[test]
    fn fates() {
        assert_eq!(fate(3, 3, None), Fate::Complete);
        assert_eq!(fate(3, 2, None), Fate::Cut);
        assert_eq!(fate(3, 2, Some(2)), Fate::Failed(3));
    }
}
