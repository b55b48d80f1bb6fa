//! Who speaks when: the sessions of a window as a state machine over their replies. It knows no clock and sends nothing:
//! times are counted from the opening of the window.
//!
//! A session is made of turns, each of which needs the reply before. Users lead one session after another; else sessions
//! arrive by a schedule. A turn that fails ends its session.

use crate::session_load::{SessionLoad, Start};
use crate::workload::nonce::MAX_TRACE_ID;
use crate::workload::sessions::{Pause, SessionShape, TurnShape};
use bench_engine::units::Nanos;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::io;
use std::iter::Peekable;

/// What sessions of a window ask for, in order of their ids.
pub type Shapes<'a> = Box<dyn Iterator<Item = io::Result<SessionShape>> + Send + 'a>;
/// When sessions arrive.
pub type Dues<'a> = Box<dyn Iterator<Item = io::Result<Nanos>> + Send + 'a>;

/// A turn that is to be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct NextTurn {
    /// Session, from 0.
    pub session: u64,
    /// From 0.
    pub turn: u32,
    /// Turns that the session is to have.
    pub turns: u32,
    /// The turns of all sessions numbered through, in order of their sessions.
    pub trace_id: u64,
    /// Who leads it, where users lead sessions.
    pub user: Option<u32>,
    /// From the opening.
    pub due: Nanos,
    /// Trace id of the request whose reply it follows: the turn before, or the last one of its user's session before.
    pub needs: Option<u64>,
    /// What it asks for, and the pause before it.
    pub shape: TurnShape,
}

/// What became of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Whole.
    Ok,
    /// None that the next turn could follow.
    Failed,
    /// The window was stopped before it was there.
    Cut,
}

/// The sessions of a window.
pub struct Conduct<'a> {
    shapes: Shapes<'a>,
    begins: Begins<'a>,
    paced: bool,
    /// Sessions begun.
    begun: u64,
    /// Trace id of the next session's first turn.
    next_trace: u64,
    under_way: HashMap<u64, UnderWay>,
    /// First turns and later ones whose reply before is there: by due, then by trace id; with the session.
    waiting: BinaryHeap<Reverse<(Nanos, u64, u64)>>,
}

/// What begins a session.
enum Begins<'a> {
    /// A user who has time for it.
    Users {
        /// Sessions that are led in any case.
        planned: u64,
        /// Others begin before this.
        until: Nanos,
        /// In the order in which they became free.
        free: VecDeque<FreeUser>,
    },
    /// A schedule.
    Arrivals(Peekable<Dues<'a>>),
}

#[derive(Clone, Copy, Debug)]
struct FreeUser {
    user: u32,
    since: Nanos,
    /// The request that ended the session before.
    after: Option<u64>,
}

/// A session that has begun and is not over. Its next turn, or the one whose reply it waits for, is `turn`.
struct UnderWay {
    turns: Vec<TurnShape>,
    turn: usize,
    /// Of that turn.
    due: Nanos,
    /// Of its first turn.
    first_trace: u64,
    user: Option<u32>,
    /// What its first turn follows.
    after: Option<u64>,
}

impl UnderWay {
    fn trace_id(&self) -> u64 {
        self.first_trace + self.turn as u64
    }
}

impl<'a> Conduct<'a> {
    /// The sessions of a window of `load`, none of which has begun. Users go on past the planned ones until
    /// `min_duration`.
    ///
    /// # Errors
    /// The schedule cannot be read.
    pub fn new(load: &SessionLoad, shapes: Shapes<'a>, min_duration: Nanos) -> io::Result<Self> {
        let begins = match &load.start {
            Start::Users { concurrency } => Begins::Users {
                planned: load.planned,
                until: min_duration,
                free: (0..*concurrency).map(|user| FreeUser { user, since: Nanos::ZERO, after: None }).collect(),
            },
            Start::Arrivals(open) => Begins::Arrivals(open.dues()?.peekable()),
        };
        Ok(Conduct {
            shapes,
            begins,
            paced: matches!(load.law.pause, Pause::Every { .. }),
            begun: 0,
            next_trace: 0,
            under_way: HashMap::new(),
            waiting: BinaryHeap::new(),
        })
    }

    /// The next turn that is due by `until`, in order of their dues. Its session waits for [`Conduct::ended`] then.
    ///
    /// # Errors
    /// The file that sessions come from cannot be read.
    pub fn next(&mut self, until: Nanos) -> io::Result<Option<NextTurn>> {
        self.begin_sessions(until)?;
        let Some(Reverse((due, ..))) = self.waiting.peek() else { return Ok(None) };
        if *due > until {
            return Ok(None);
        }
        Ok(self.waiting.pop().and_then(|Reverse((.., session))| self.turn_of(session)))
    }

    /// When the next turn is due of those that are known.
    pub fn next_due(&mut self) -> Option<Nanos> {
        let waiting = self.waiting.peek().map(|Reverse((due, ..))| *due);
        let begins = match &mut self.begins {
            Begins::Users { free, .. } => free.front().map(|user| user.since),
            // what cannot be read is told of by the next call of `next`
            Begins::Arrivals(dues) => dues.peek().map(|due| due.as_ref().map_or(Nanos::ZERO, |due| *due)),
        };
        waiting.into_iter().chain(begins).min()
    }

    /// The turn of `session` that was sent last is over since `at`.
    pub fn ended(&mut self, session: u64, reply: Reply, at: Nanos) {
        let Some(under_way) = self.under_way.get_mut(&session) else { return };
        if reply == Reply::Ok && under_way.turn + 1 < under_way.turns.len() {
            under_way.turn += 1;
            let pause = under_way.turns[under_way.turn].pause;
            under_way.due = pause + if self.paced { under_way.due } else { at };
            self.waiting.push(Reverse((under_way.due, under_way.trace_id(), session)));
            return;
        }
        let Some(over) = self.under_way.remove(&session) else { return };
        if let (Begins::Users { free, .. }, Some(user)) = (&mut self.begins, over.user)
            && reply != Reply::Cut
        {
            free.push_back(FreeUser { user, since: at, after: Some(over.trace_id()) });
        }
    }

    /// Whether nothing will be sent any more, and every reply is there.
    pub fn is_over(&mut self) -> bool {
        let begins = match &mut self.begins {
            Begins::Users { free, .. } => !free.is_empty(),
            Begins::Arrivals(dues) => dues.peek().is_some(),
        };
        !begins && self.under_way.is_empty()
    }

    /// Whether `session` has begun and is not over.
    pub fn is_under_way(&self, session: u64) -> bool {
        self.under_way.contains_key(&session)
    }

    fn begin_sessions(&mut self, until: Nanos) -> io::Result<()> {
        loop {
            let (due, user, after) = match &mut self.begins {
                Begins::Users { planned, until: go_on_until, free } => {
                    let Some(user) = free.pop_front() else { return Ok(()) };
                    // with no planned session left they are needed only where the window must last longer
                    if self.begun >= *planned && user.since >= *go_on_until {
                        continue;
                    }
                    (user.since, Some(user.user), user.after)
                }
                Begins::Arrivals(dues) => match dues.next_if(|due| due.as_ref().map_or(true, |due| *due <= until)) {
                    Some(due) => (due?, None, None),
                    None => return Ok(()),
                },
            };
            // the plan has numbers for all that it asks for; what goes on beyond it may use them up
            let Some(shape) = self.shapes.next().transpose()? else { continue };
            let turns = shape.turns;
            if turns.is_empty() || self.next_trace + turns.len() as u64 - 1 > MAX_TRACE_ID {
                continue;
            }
            let (session, first_trace) = (self.begun, self.next_trace);
            self.begun += 1;
            self.next_trace += turns.len() as u64;
            self.under_way.insert(session, UnderWay { turns, turn: 0, due, first_trace, user, after });
            self.waiting.push(Reverse((due, first_trace, session)));
        }
    }

    fn turn_of(&self, session: u64) -> Option<NextTurn> {
        let under_way = self.under_way.get(&session)?;
        let trace_id = under_way.trace_id();
        Some(NextTurn {
            session,
            turn: under_way.turn as u32,
            turns: under_way.turns.len() as u32,
            trace_id,
            user: under_way.user,
            due: under_way.due,
            needs: if under_way.turn == 0 { under_way.after } else { Some(trace_id - 1) },
            shape: under_way.turns[under_way.turn].clone(),
        })
    }
}

#[cfg(test)]
mod tests;
