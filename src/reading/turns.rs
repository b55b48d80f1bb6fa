//! What a row says of its place in a session: what it followed, and when it was due by that.

use crate::rundir::row::{LeftOut, Outcome, Row, Turn};
use crate::workload::hex;
use bench_engine::units::Nanos;
use sha2::{Digest, Sha256};
use std::collections::HashMap;

/// The place of a request in a session, as far as it is known before it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedTurn {
    /// Session of the window, from 0.
    pub id: u64,
    /// From 0.
    pub turn: u32,
    /// Turns that the session is to have.
    pub turns: u32,
    /// Who leads it, where users lead sessions.
    pub user: Option<u32>,
    /// Job of the request whose reply it follows.
    pub needs: Option<u64>,
    /// The pause before it counts from the due of the turn before, not from the end of its reply.
    pub paced: bool,
    /// See there.
    pub pause: Nanos,
    /// Length asked for of its own message, in tokens.
    pub message_tokens: u64,
}

/// What the turns of a window that others follow came to, until these have rows of their own.
#[derive(Debug, Default)]
pub struct Turns {
    /// Load point and window.
    window: (u32, u32),
    /// By job.
    followed: HashMap<u64, Followed>,
}

#[derive(Clone, Copy, Debug)]
struct Followed {
    due: u64,
    /// As it arrived, else as it was seen.
    end: u64,
}

impl Turns {
    /// Completes the row of `job`, whose reply's text is `reply`, and which held `left_out` beside it. Rows of a session
    /// come in the order of its turns.
    pub fn place(&mut self, row: &mut Row, job: u64, turn: &PlannedTurn, reply: &str, left_out: &[LeftOut]) {
        if self.window != (row.cell, row.window) {
            *self = Turns { window: (row.cell, row.window), followed: HashMap::new() };
        }
        let before = turn.needs.and_then(|job| self.followed.remove(&job));
        if let Some(before) = before {
            let from = if turn.paced && turn.turn > 0 { before.due } else { before.end };
            row.due = from.saturating_add(turn.pause.ns());
        }
        let goes_on = row.outcome == Outcome::Ok && turn.turn + 1 < turn.turns;
        if let (Some(end), true) = (row.end, goes_on || turn.user.is_some()) {
            self.followed.insert(job, Followed { due: row.due, end: end.arrived.unwrap_or(end.seen) });
        }
        row.session = Some(Turn {
            id: turn.id,
            turn: turn.turn,
            turns: turn.turns,
            user: turn.user,
            after: before.map(|before| before.end),
            pause: turn.pause.ns(),
            message_tokens: turn.message_tokens,
            reply_sha256: (!reply.is_empty()).then(|| hex(&Sha256::digest(reply))),
            left_out: left_out.to_vec(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::specimen::{failed, request};
    use crate::rundir::row::Stamp;

    fn turn(id: u64, turn: u32, needs: Option<u64>) -> PlannedTurn {
        let pause = Nanos::from_micros(if turn > 0 { 50 } else { 0 });
        PlannedTurn { id, turn, turns: 3, user: Some(4), needs, paced: false, pause, message_tokens: 9 }
    }

    fn row(due: u64, arrived: Option<u64>, seen: u64) -> Row {
        Row { due, end: Some(Stamp { seen, arrived, arrived_lo: arrived }), ..request(0, 1_000) }
    }

    fn placed(turns: &mut Turns, mut row: Row, job: u64, turn: &PlannedTurn, reply: &str) -> (u64, Turn) {
        turns.place(&mut row, job, turn, reply, &[]);
        (row.due, row.session.expect("a place"))
    }

    #[test]
    fn a_turn_is_due_its_pause_after_the_reply_before() {
        let mut turns = Turns::default();
        let (due, first) = placed(&mut turns, row(100, Some(7_000), 7_090), 10, &turn(0, 0, None), "hé");
        assert_eq!((due, first.after, first.pause, first.user), (100, None, 0, Some(4)));
        assert_eq!(first.reply_sha256, Some(hex(&Sha256::digest("hé"))));
        let (due, second) = placed(&mut turns, row(1, None, 90_000), 11, &turn(0, 1, Some(10)), "");
        assert_eq!(
            (due, second.after, second.pause),
            (57_000, Some(7_000), 50_000),
            "as it arrived, not as it was seen"
        );
        assert_eq!(second.reply_sha256, None, "no answer text");
        let (due, third) = placed(&mut turns, row(1, Some(95_000), 95_001), 12, &turn(0, 2, Some(11)), "x");
        assert_eq!((due, third.after), (140_000, Some(90_000)), "without a stamp as it was seen");
        let (due, next) = placed(&mut turns, row(1, Some(99_000), 99_001), 13, &turn(1, 0, Some(12)), "x");
        assert_eq!((due, next.after), (95_000, Some(95_000)), "the user goes on at once");
        assert_eq!(turns.followed.len(), 1, "what has been followed is forgotten");
        let elsewhere = Row { window: 1, ..row(5, None, 6) };
        assert_eq!(placed(&mut turns, elsewhere, 13, &turn(0, 0, None), "").0, 5);
        assert_eq!(turns.followed.len(), 1, "of this window");
    }

    #[test]
    fn a_pace_counts_from_the_due_before_however_late_it_was() {
        let mut turns = Turns::default();
        let paced = |t: u32, needs| PlannedTurn { paced: true, ..turn(0, t, needs) };
        placed(&mut turns, row(100, Some(400_000), 400_001), 10, &paced(0, None), "x");
        assert_eq!(placed(&mut turns, row(1, Some(500_000), 500_001), 11, &paced(1, Some(10)), "x").0, 50_100);
        assert_eq!(placed(&mut turns, row(1, Some(600_000), 600_001), 12, &paced(2, Some(11)), "x").0, 100_100);
        let next = PlannedTurn { id: 1, ..paced(0, Some(12)) };
        assert_eq!(placed(&mut turns, row(1, Some(700_000), 700_001), 13, &next, "x").0, 600_000, "a new session");
    }

    #[test]
    fn nobody_follows_what_failed_but_its_user() {
        let mut turns = Turns::default();
        let arrived = PlannedTurn { user: None, ..turn(0, 0, None) };
        placed(&mut turns, failed(row(1, None, 5), "transport"), 10, &arrived, "");
        assert!(turns.followed.is_empty());
        placed(&mut turns, failed(row(1, None, 5), "transport"), 11, &turn(0, 0, None), "");
        assert_eq!(placed(&mut turns, row(1, None, 9), 12, &turn(1, 0, Some(11)), "x").0, 5);
        let last = PlannedTurn { turn: 2, ..arrived };
        placed(&mut turns, row(1, None, 5), 13, &last, "");
        assert_eq!(turns.followed.len(), 1, "the user's");
    }
}
