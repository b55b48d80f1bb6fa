//! What is told of a campaign while it runs: on a terminal a view of a few lines at 2 Hz, elsewhere a line now and then.
//! All of it happens on the control core, from what is counted there anyway.

pub mod board;
pub mod course;
pub mod fitness;
pub mod line;
pub mod painter;
pub mod screen;
pub mod seen;

use crate::campaign::Voice;
use crate::rundir::health::HealthRow;
use bench_engine::units::{Instant, Nanos};
use board::{Board, Counts, Facts, Window};
use painter::Painter;
use std::io::{IsTerminal, stderr};

/// Between two pictures.
const FRAME: Nanos = Nanos::from_millis(500);
/// Between two lines where there is no terminal.
const LINE: Nanos = Nanos::from_secs(10);

/// How it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Not at all.
    Silent,
    /// A plain line now and then.
    Lines,
    /// A few lines at the end of a terminal, drawn over and over.
    View {
        /// Escape sequences for colours are wanted.
        color: bool,
    },
}

impl Manner {
    /// Of what standard error is, and what the environment says. `silent`: nothing is to be told.
    pub fn of(silent: bool, terminal: bool, variable: impl Fn(&str) -> Option<String>) -> Manner {
        let term = variable("TERM").unwrap_or_default();
        match () {
            () if silent => Manner::Silent,
            // dumb: it cannot move its cursor
            () if !terminal || term.is_empty() || term == "dumb" => Manner::Lines,
            // no-color.org: present and not empty
            () => Manner::View { color: variable("NO_COLOR").is_none_or(|value| value.is_empty()) },
        }
    }
}

/// The campaign's own account of itself.
pub struct Live {
    voice: Voice,
    out: Out,
    board: Board,
    next: Instant,
}

enum Out {
    Silent,
    Lines,
    View(Painter, bool),
}

impl Live {
    /// Everything else that is said while it lives must be said by [`Live::say`]. `silent`: only that is said.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn start(voice: &Voice, silent: bool, facts: Facts) -> std::io::Result<Live> {
        let manner = Manner::of(silent || voice.quiet, stderr().is_terminal(), |name| std::env::var(name).ok());
        let out = match manner {
            Manner::Silent => Out::Silent,
            Manner::Lines => Out::Lines,
            Manner::View { color } => Out::View(Painter::start()?, color),
        };
        Ok(Live { voice: Voice { quiet: voice.quiet }, out, board: Board::new(facts), next: Instant::default() })
    }

    /// Whether anything is told at all.
    pub fn is_told(&self) -> bool {
        !matches!(self.out, Out::Silent)
    }

    /// Says something above the view.
    pub fn say(&self, words: impl AsRef<str>) {
        match &self.out {
            Out::View(painter, _) if !self.voice.quiet => painter.print(words.as_ref()),
            _ => self.voice.say(words),
        }
    }

    /// A window is made ready.
    pub fn prepare(&mut self, now: Instant, window: Window) {
        self.board.prepare(window);
        self.show_at_once(now);
    }

    /// It opens at `opened`.
    pub fn open(&mut self, opened: Instant) {
        self.board.open(opened);
        self.next = opened + self.pace();
    }

    /// All its requests are over.
    pub fn close(&mut self, now: Instant) {
        self.board.close(now);
        self.show_at_once(now);
    }

    /// Its line is going to be said.
    pub fn end(&mut self, now: Instant) {
        self.board.end();
        self.show_at_once(now);
    }

    /// A pause before the next round.
    pub fn rest(&mut self, now: Instant, until: Instant) {
        self.board.rest(until);
        self.show_at_once(now);
    }

    /// Takes in samples of the client's threads.
    pub fn health(&mut self, rows: &[HealthRow]) {
        if self.is_told() {
            self.board.health(rows);
        }
    }

    /// Shows how things stand, when it is time for that. Only then `counts` is asked.
    pub fn tick(&mut self, now: Instant, counts: impl FnOnce() -> Counts) {
        if now < self.next || !self.is_told() {
            return;
        }
        if self.board.is_open() {
            self.board.take(now, counts());
        }
        self.show(now);
    }

    /// The view changes with what happens; lines keep their pace.
    fn show_at_once(&mut self, now: Instant) {
        if matches!(self.out, Out::View(..)) {
            self.show(now);
        }
    }

    fn show(&mut self, now: Instant) {
        match &self.out {
            Out::Silent => {}
            Out::Lines => self.board.plain(now).into_iter().for_each(|line| self.voice.say(line)),
            // the last column stays free: some terminals break a line that fills it
            Out::View(painter, color) => {
                painter.draw(self.board.lines(now, painter::size().0.saturating_sub(1), *color));
            }
        }
        self.next = now + self.pace();
    }

    fn pace(&self) -> Nanos {
        if matches!(self.out, Out::Lines) { LINE } else { FRAME }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_that_can_do_it_has_a_view() {
        let manner = |silent, terminal, variables: &[(&str, &str)]| {
            let given: Vec<(String, String)> =
                variables.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
            Manner::of(silent, terminal, |name| given.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone()))
        };
        let xterm = ("TERM", "xterm-256color");
        assert_eq!(manner(false, true, &[xterm]), Manner::View { color: true });
        assert_eq!(manner(false, true, &[xterm, ("NO_COLOR", "1")]), Manner::View { color: false });
        assert_eq!(manner(false, true, &[xterm, ("NO_COLOR", "")]), Manner::View { color: true });
        assert_eq!(manner(false, true, &[("TERM", "dumb")]), Manner::Lines);
        assert_eq!(manner(false, true, &[]), Manner::Lines);
        assert_eq!(manner(false, false, &[xterm]), Manner::Lines);
        assert_eq!(manner(true, true, &[xterm]), Manner::Silent);
    }
}
