//! Conversations and chains: how many turns a session has, what each asks, and how long its user pauses before it.

use super::Shape;
use crate::rundir::window::SessionKind;
use bench_engine::units::Nanos;
use serde::Serialize;

/// The time between two turns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pause {
    /// The next turn is due when the reply before it ends.
    None,
    /// So long after the end of the reply before, drawn for each turn.
    After(Span),
    /// At a fixed pace from the session's first due, however long replies take; a turn cannot be sent before the reply
    /// that it needs.
    Every {
        /// Between two dues, ns.
        ns: u64,
    },
}

impl Pause {
    /// In words, e.g. `think time 2 s`; None where there is none.
    pub fn words(&self, kind: SessionKind) -> Option<String> {
        let _ = kind;
        None
    }
}

/// How long a pause after a reply is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "law", rename_all = "snake_case")]
pub enum Span {
    /// Always the same.
    Constant {
        /// ns.
        ns: u64,
    },
    /// Exponential.
    Exponential {
        /// ns.
        mean_ns: u64,
    },
    /// Uniform.
    Uniform {
        /// Shortest, ns.
        from_ns: u64,
        /// Longest, ns.
        to_ns: u64,
    },
    /// Log-normal, by the mean and standard deviation of the pauses themselves.
    LogNormal {
        /// ns.
        mean_ns: u64,
        /// ns.
        sd_ns: u64,
    },
}

/// What sessions are like.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SessionLaw {
    /// Chat or chain.
    pub kind: SessionKind,
    /// Fewest and most turns, both included, each equally likely; a file of conversations has turns of its own, and
    /// these bounds choose and cut them.
    pub turns: [u32; 2],
    /// Between turns.
    pub pause: Pause,
}

/// One session, as it is planned. The same in every window.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionShape {
    /// In order, at least one.
    pub turns: Vec<TurnShape>,
}

/// One turn.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnShape {
    /// Its own message, without what was said before; and the length of its reply.
    pub shape: Shape,
    /// Before it: after the end of the reply before, or with [`Pause::Every`] after the due of the turn before. 0 for
    /// the first.
    pub pause: Nanos,
}
