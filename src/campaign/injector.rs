//! What is done on purpose while a window is open: commands, the mock stopped, a spike marked. By the control thread, in its
//! loop; nothing here waits.

use crate::injection::{Action, Injection};
use crate::reading::printable;
use crate::reading::redaction::without_rest;
use crate::rundir::mark::{MarkOutcome, MarkRow};
use anyhow::Context;
use bench_engine::units::{Instant, Nanos};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, PipeReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Last lines of a command's output that are kept.
const LINES: usize = 20;
/// Bytes of output that are read at a time, and of the end of it that are kept.
const CHUNK: usize = 1 << 16;
/// Most that is read of one command in one turn of the control loop.
const TURN: usize = 1 << 20;

/// What commands are told.
pub(super) struct Surroundings<'a> {
    pub(super) base_url: &'a str,
    /// Of the built-in mock.
    pub(super) server: Option<u32>,
    pub(super) secret: Option<&'a str>,
    /// The campaign's start.
    pub(super) origin: Instant,
    pub(super) cell: u32,
    pub(super) window: u32,
}

/// The injections of one window. When it is dropped, whatever still runs is killed, and a stopped mock goes on.
pub(super) struct Injector<'a> {
    of: Surroundings<'a>,
    opened: Instant,
    /// In order of time, with their places in the plan.
    waiting: VecDeque<(u32, &'a Injection)>,
    running: Vec<Running>,
    /// Commands that are over; what they left running in their groups is killed with them, at the end of the window.
    over: Vec<Shell>,
}

struct Running {
    row: MarkRow,
    /// It is over then.
    until: Instant,
    what: Under,
}

enum Under {
    Command(Shell),
    /// The mock is stopped.
    Stopped(Paused),
    Spike,
}

/// A command in a process group of its own. Its leader is not waited for before the group is killed: its number cannot
/// become another's meanwhile.
struct Shell {
    child: Child,
    output: PipeReader,
    tail: Vec<u8>,
}

/// A process that is stopped, and goes on when this is dropped.
struct Paused(Pid);

impl Paused {
    fn stop(pid: Pid) -> Result<Paused, Errno> {
        kill(pid, Signal::SIGSTOP).map(|()| Paused(pid))
    }

    fn go_on(&self) {
        // of one that is gone there is nothing to be said here: its requests say it
        let _ = kill(self.0, Signal::SIGCONT);
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        self.go_on();
    }
}

impl Shell {
    fn start(script: &str, of: &Surroundings<'_>) -> std::io::Result<Shell> {
        let (output, to) = std::io::pipe()?;
        // the control loop reads what is there, and never waits for more
        fcntl(&output, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let mut command = Command::new("sh");
        command.args(["-c", script]).process_group(0).stdin(Stdio::null());
        command.stdout(to.try_clone()?).stderr(to);
        command.env("TAREBENCH_BASE_URL", of.base_url).env_remove("TAREBENCH_SERVER_PID");
        command.env("TAREBENCH_CELL", of.cell.to_string()).env("TAREBENCH_WINDOW", of.window.to_string());
        command.envs(of.server.map(|pid| ("TAREBENCH_SERVER_PID", pid.to_string())));
        let child = command.spawn()?;
        Ok(Shell { child, output, tail: Vec::new() })
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Takes what it wrote; of much only the end is kept.
    fn read(&mut self) {
        let mut bytes = vec![0; CHUNK];
        let mut taken = 0;
        while taken < TURN {
            match self.output.read(&mut bytes) {
                Ok(0) => return,
                Ok(n) => {
                    taken += n;
                    self.tail.extend_from_slice(&bytes[..n]);
                    let surplus = self.tail.len().saturating_sub(CHUNK);
                    self.tail.drain(..surplus);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    /// How its shell ended; None: it runs.
    fn ended(&self) -> Option<WaitStatus> {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        match waitid(Id::Pid(self.pid()), flags) {
            Ok(WaitStatus::StillAlive) | Err(Errno::EINTR) => None,
            Ok(status) => Some(status),
            // somebody else has waited for it: nothing more will be known
            Err(_) => Some(WaitStatus::StillAlive),
        }
    }

    fn lines(&self, secret: Option<&str>) -> Vec<String> {
        let mut text = String::from_utf8_lossy(&self.tail).into_owned();
        if self.tail.len() >= CHUNK {
            text = without_rest(text.trim_start_matches('\u{fffd}'), secret);
        }
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].iter().map(|line| printable(line, secret)).collect()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // the group has its leader still, alive or not waited for
        let _ = killpg(self.pid(), Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

impl<'a> Injector<'a> {
    /// For a window that opens at `opened`; `injections` in order of time.
    pub(super) fn new(injections: &'a [Injection], opened: Instant, of: Surroundings<'a>) -> Self {
        Injector { of, opened, waiting: (0..).zip(injections).collect(), running: Vec::new(), over: Vec::new() }
    }

    /// So long until there is something to do.
    pub(super) fn idle(&self, now: Instant) -> Option<Nanos> {
        let starts = self.waiting.front().map(|(_, injection)| self.opened + injection.at());
        let ends = self.running.iter().map(|running| running.until);
        ends.chain(starts).min().map(|at| at.saturating_since(now))
    }

    /// Begins what is due and ends what is over; `cut`: the run ends, nothing more is begun.
    pub(super) fn tend(
        &mut self,
        now: impl Fn() -> Instant,
        cut: bool,
        log: &mut Option<File>,
        say: &dyn Fn(&str),
    ) -> anyhow::Result<()> {
        let mut at = 0;
        while at < self.running.len() {
            match self.running[at].tend(now(), cut, &self.of) {
                Some(row) => {
                    let ended = [MarkOutcome::Done, MarkOutcome::Failed].contains(&row.outcome);
                    match self.running.swap_remove(at).what {
                        Under::Command(shell) if ended => self.over.push(shell),
                        // killed, or let go on
                        what => drop(what),
                    }
                    self.write(&row, log, say)?;
                }
                None => at += 1,
            }
        }
        // nothing that is left of them must wait for a reader
        self.over.iter_mut().for_each(Shell::read);
        while let Some((place, injection)) = self.waiting.pop_front() {
            if cut || now() < self.opened + injection.at() {
                self.waiting.push_front((place, injection));
                break;
            }
            let begun = self.begin(place, injection, &now);
            match begun {
                Ok(running) => {
                    let late = running.row.started.unwrap_or(running.row.due).saturating_sub(running.row.due);
                    say(&format!("mark     {} ({:.0} ms late)", running.row.text, late as f64 / 1e6));
                    self.running.push(running);
                }
                Err(row) => self.write(&row, log, say)?,
            }
        }
        Ok(())
    }

    /// The window is over: ends what runs, and says what was not reached.
    pub(super) fn close(
        mut self,
        now: impl Fn() -> Instant,
        log: &mut Option<File>,
        say: &dyn Fn(&str),
    ) -> anyhow::Result<()> {
        self.tend(now, true, log, say)?;
        for (place, injection) in std::mem::take(&mut self.waiting) {
            let row = MarkRow { outcome: MarkOutcome::NotReached, ..self.row(place, injection) };
            self.write(&row, log, say)?;
        }
        Ok(())
    }

    fn axis(&self, at: Instant) -> u64 {
        at.saturating_since(self.of.origin).ns()
    }

    fn row(&self, mark: u32, injection: &Injection) -> MarkRow {
        MarkRow {
            cell: self.of.cell,
            window: self.of.window,
            mark,
            text: printable(&injection.to_string(), self.of.secret),
            due: self.axis(self.opened + injection.at()),
            started: None,
            ended: None,
            outcome: MarkOutcome::Done,
            status: None,
            signal: None,
            output: Vec::new(),
        }
    }

    fn begin(&self, place: u32, injection: &Injection, now: impl Fn() -> Instant) -> Result<Running, MarkRow> {
        let row = self.row(place, injection);
        let not_started = |why: String| MarkRow {
            outcome: MarkOutcome::NotStarted,
            output: vec![printable(&why, self.of.secret)],
            ..row.clone()
        };
        // stamped before it can do anything: what it does comes after the mark
        let started = now();
        let what = match &injection.action {
            Action::Command { script, .. } => {
                Under::Command(Shell::start(script, &self.of).map_err(|e| not_started(e.to_string()))?)
            }
            Action::NodeLoss { .. } => {
                let pid = self.of.server.ok_or_else(|| not_started("there is no mock of ours".to_owned()))?;
                Under::Stopped(Paused::stop(Pid::from_raw(pid as i32)).map_err(|e| not_started(e.to_string()))?)
            }
            Action::Spike { .. } => Under::Spike,
        };
        let begins = if matches!(what, Under::Spike) { self.opened + injection.at() } else { started };
        let row = MarkRow { started: Some(self.axis(begins)), ..row };
        Ok(Running { row, until: begins + injection.lasts(), what })
    }

    fn write(&self, row: &MarkRow, log: &mut Option<File>, say: &dyn Fn(&str)) -> anyhow::Result<()> {
        say(&format!("mark     {}: {}", row.text, row.end_words()));
        if row.outcome == MarkOutcome::Failed {
            row.output.iter().rev().take(3).rev().for_each(|line| say(&format!("         {line}")));
        }
        let Some(log) = log else { return Ok(()) };
        let line = serde_json::to_string(row)? + "\n";
        log.write_all(line.as_bytes()).with_context(|| format!("{} cannot be written", crate::rundir::mark::FILE))
    }
}

impl Running {
    /// Its row, when it is over.
    fn tend(&mut self, now: Instant, cut: bool, of: &Surroundings<'_>) -> Option<MarkRow> {
        let axis = |at: Instant| at.saturating_since(of.origin).ns();
        let over = now >= self.until;
        match &mut self.what {
            Under::Command(shell) => {
                shell.read();
                let ended = shell.ended();
                if self.row.ended.is_none() && (ended.is_some() || over || cut) {
                    self.row.ended = Some(axis(now));
                    (self.row.outcome, self.row.status, self.row.signal) = match ended {
                        Some(WaitStatus::Exited(_, 0)) => (MarkOutcome::Done, Some(0), None),
                        Some(WaitStatus::Exited(_, status)) => (MarkOutcome::Failed, Some(status), None),
                        Some(WaitStatus::Signaled(_, signal, _)) => (MarkOutcome::Failed, None, Some(signal as i32)),
                        Some(_) => (MarkOutcome::Failed, None, None),
                        None if over => (MarkOutcome::TimedOut, None, None),
                        None => (MarkOutcome::CutOff, None, None),
                    };
                    self.row.output = shell.lines(of.secret);
                    return Some(self.row.clone());
                }
                None
            }
            Under::Stopped(_) | Under::Spike if over || cut => {
                if let Under::Stopped(paused) = &self.what {
                    paused.go_on();
                }
                let outcome = if over { MarkOutcome::Done } else { MarkOutcome::CutOff };
                Some(MarkRow { ended: Some(axis(now)), outcome, ..self.row.clone() })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::injection::preset;
    use std::io::{Seek, SeekFrom};

    const S: u64 = 1_000_000_000;

    fn window(injections: &[Injection]) -> Injector<'_> {
        let origin = Instant::default();
        let of =
            Surroundings { base_url: "http://mock", server: None, secret: Some("hidden"), origin, cell: 1, window: 2 };
        Injector::new(injections, origin + Nanos::from_secs(100), of)
    }

    fn tend(of: &mut Injector<'_>, s: u64, cut: bool, log: &mut Option<File>) {
        of.tend(|| Instant::default() + Nanos::from_secs(s), cut, log, &|_| ()).unwrap();
    }

    fn rows(log: &mut Option<File>) -> Vec<MarkRow> {
        let mut text = String::new();
        let file = log.as_mut().unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.read_to_string(&mut text).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn marks_by_a_simulated_clock() {
        let plan = [preset("spike:2x/10s@5s").unwrap(), preset("spike:2x/1s@90s").unwrap()];
        let mut log = Some(tempfile::tempfile().unwrap());
        let mut of = window(&plan);
        assert_eq!(of.idle(Instant::default() + Nanos::from_secs(101)), Some(Nanos::from_secs(4)));
        tend(&mut of, 104, false, &mut log);
        tend(&mut of, 105, false, &mut log);
        assert_eq!((of.running.len(), rows(&mut log).len()), (1, 0));
        assert_eq!(of.idle(Instant::default() + Nanos::from_secs(106)), Some(Nanos::from_secs(9)));
        tend(&mut of, 116, false, &mut log);
        of.close(|| Instant::default() + Nanos::from_secs(120), &mut log, &|_| ()).unwrap();
        let found = rows(&mut log);
        let of = |row: &MarkRow| (row.cell, row.window, row.mark, row.due, row.started, row.ended, row.outcome);
        assert_eq!(of(&found[0]), (1, 2, 0, 105 * S, Some(105 * S), Some(116 * S), MarkOutcome::Done));
        assert_eq!(of(&found[1]), (1, 2, 1, 190 * S, None, None, MarkOutcome::NotReached));
    }

    #[test]
    fn what_runs_is_cut_off_and_nothing_more_begins() {
        let command = |at_s: f64| Injection {
            at_s,
            action: Action::Command {
                command: "sleep".into(),
                timeout_s: 3600.0,
                script: "sleep 3600 & sleep 3600".into(),
            },
        };
        let plan = [command(1.0), command(2.0)];
        let mut log = Some(tempfile::tempfile().unwrap());
        let mut of = window(&plan);
        tend(&mut of, 101, false, &mut log);
        let leader = match &of.running[0].what {
            Under::Command(shell) => shell.pid(),
            _ => panic!("it is a command"),
        };
        tend(&mut of, 102, true, &mut log);
        assert_eq!(rows(&mut log)[0].outcome, MarkOutcome::CutOff);
        assert_eq!(kill(leader, None), Err(Errno::ESRCH), "it is gone, and waited for");
        drop(of);
        let no_mock = [preset("node-loss").unwrap()];
        let mut of = window(&no_mock);
        tend(&mut of, 121, false, &mut log);
        let last = rows(&mut log).pop().unwrap();
        assert_eq!((last.outcome, last.output.len()), (MarkOutcome::NotStarted, 1));
    }
}
