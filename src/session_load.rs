//! A load of sessions: users who lead one session after another, or sessions that arrive at drawn times.

use crate::load_point::OpenLoop;
use crate::rundir::window::{self, LoadModel};
use crate::workload::Workload;
use crate::workload::sessions::{Pause, SessionLaw, SessionShape};
use serde::Serialize;
use std::io;

/// A load point whose requests are turns of sessions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionLoad {
    /// What begins a session.
    pub start: Start,
    /// What sessions are like.
    pub law: SessionLaw,
    /// Sessions of a window, the dropped ones included; under a minimum duration users go on past them.
    pub planned: u64,
    /// Sessions that are kept at least: `planned` less the dropped ones, but where arrivals go on for a minimum duration.
    pub kept: u64,
    /// Sessions with a smaller id are warm-up.
    pub drop: u64,
    /// Turns of the planned sessions.
    pub requests: u64,
    /// Connections there may be.
    pub slots: u32,
    /// Connections opened before a window.
    pub opened_ahead: u32,
}

/// What begins a session.
#[allow(clippy::large_enum_variant)] // a plan has a handful of them
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// So many users, each of whom begins the next session when the last one is over.
    Users {
        /// At once.
        concurrency: u32,
    },
    /// Sessions arrive by a schedule, however many are under way; its requests are their first turns.
    Arrivals(OpenLoop),
}

impl SessionLoad {
    /// What the sessions of a window ask for, in order of id, without end. The same in every window.
    ///
    /// # Errors
    /// As for [`Workload::sessions`].
    pub fn sessions<'a>(
        &self,
        workload: &'a Workload,
    ) -> io::Result<Box<dyn Iterator<Item = io::Result<SessionShape>> + Send + 'a>> {
        workload.sessions(&self.law, self.drop, self.kept)
    }

    /// The load as windows record it.
    pub fn recorded(&self) -> window::Load {
        let (model, concurrency, rate, arrivals) = match &self.start {
            Start::Users { concurrency } => (LoadModel::Closed, Some(*concurrency), None, None),
            Start::Arrivals(open) => (LoadModel::Open, open.concurrency, open.rate, open.course.clone()),
        };
        let SessionLaw { kind, turns, pause } = self.law;
        let sessions = window::Sessions {
            kind,
            turns,
            pause: pause.words(kind),
            paced: matches!(pause, Pause::Every { .. }),
            planned: self.planned,
            drop: self.drop,
        };
        window::Load { model, concurrency, rate, arrivals, sessions: Some(sessions) }
    }
}
