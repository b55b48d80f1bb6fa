//! What fills the supply of a window: the feeder, from a list that is known beforehand, or the conductor, from replies.

use super::conductor::Conducting;
use super::feeder::{Feeder, Unsent};
use bench_engine::units::Instant;
use std::io;

/// The one that a window has.
pub enum Supply<'a> {
    /// Requests that stand alone.
    Listed {
        /// Makes them.
        feeder: Feeder<'a>,
        /// So many so far.
        made: u64,
    },
    /// Turns of sessions.
    Conducted(Box<Conducting<'a>>),
}

impl Supply<'_> {
    /// Fills the supply until the window has all its requests, or is stopped. Gives the number of requests made.
    ///
    /// # Errors
    /// The file that requests come from can be read no more.
    pub fn run(&mut self) -> io::Result<u64> {
        match self {
            Supply::Listed { feeder, made } => {
                *made = feeder.run()?;
                Ok(*made)
            }
            Supply::Conducted(conducting) => conducting.run(),
        }
    }

    /// After a window that was stopped at `at`, of whose requests workers had `in_hand` when their dues had not come:
    /// requests that had become due and that no worker took, made or not, go to the record reader as not sent.
    ///
    /// # Errors
    /// As for [`Supply::run`].
    pub fn leave_unsent(&mut self, opened: Instant, at: Instant, in_hand: u64) -> io::Result<Unsent> {
        match self {
            Supply::Listed { feeder, made } => feeder.leave_unsent(*made, opened, at),
            Supply::Conducted(conducting) => conducting.leave_unsent(opened, at, in_hand),
        }
    }

    /// Requests with a schedule of their own that were made only after they were due, as far as workers can not tell.
    pub fn late(&self) -> u64 {
        match self {
            Supply::Listed { .. } => 0,
            Supply::Conducted(conducting) => conducting.late(),
        }
    }
}
