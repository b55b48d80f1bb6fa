//! The live view on a terminal, as its reader finds it: while a window runs, after an interrupt, and where there is none.

use crate::binary::{MockProcess, Place, tarebench_command, wait_until};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::File;
use std::io::Read;
use std::process::{Child, Stdio};

/// What a terminal shows.
struct Glass {
    columns: usize,
    rows: Vec<Vec<char>>,
    at: (usize, usize),
}

impl Glass {
    fn showing(columns: usize, written: &str) -> Glass {
        let mut glass = Glass { columns, rows: vec![Vec::new()], at: (0, 0) };
        let mut rest = written;
        while let Some(c) = rest.chars().next() {
            match rest.strip_prefix("\x1b[") {
                Some(code) => {
                    let end = code.find(|c: char| c.is_ascii_alphabetic()).expect("a whole sequence");
                    glass.obey(&code[..end], &code[end..=end]);
                    rest = &code[end + 1..];
                }
                None => {
                    glass.put(c);
                    rest = &rest[c.len_utf8()..];
                }
            }
        }
        glass
    }

    fn obey(&mut self, number: &str, sequence: &str) {
        let (row, column) = self.at;
        match sequence {
            "A" => self.at.0 = row.checked_sub(number.parse().expect("a number")).expect("not above the screen"),
            "K" => self.rows[row].truncate(column),
            "J" => {
                self.rows[row].truncate(column);
                self.rows.truncate(row + 1);
            }
            "m" => {}
            other => panic!("a sequence that ends with {other}"),
        }
    }

    fn put(&mut self, c: char) {
        match c {
            '\r' => self.at.1 = 0,
            '\n' => self.at.0 += 1,
            c => {
                if self.at.1 == self.columns {
                    self.at = (self.at.0 + 1, 0);
                }
                self.make_room();
                let (row, column) = self.at;
                let row = &mut self.rows[row];
                row.resize(row.len().max(column + 1), ' ');
                row[column] = c;
                self.at.1 += 1;
            }
        }
        self.make_room();
    }

    fn make_room(&mut self) {
        while self.rows.len() <= self.at.0 {
            self.rows.push(Vec::new());
        }
    }

    fn text(&self) -> String {
        self.rows.iter().map(|row| row.iter().collect::<String>() + "\n").collect()
    }
}

/// A run whose standard error is a terminal.
struct OnTerminal {
    child: Child,
    terminal: File,
    columns: u16,
    written: Vec<u8>,
}

impl OnTerminal {
    fn start(columns: u16, args: &[&str], environment: &[(&str, &str)]) -> Self {
        let size = Winsize { ws_row: 30, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None::<&nix::sys::termios::Termios>).expect("a terminal");
        fcntl(&pty.master, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).expect("it is ours");
        let mut command = tarebench_command(args);
        command.env("TERM", "xterm").env_remove("NO_COLOR").envs(environment.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::from(pty.slave));
        let child = command.spawn().expect("the binary runs");
        OnTerminal { child, terminal: File::from(pty.master), columns, written: Vec::new() }
    }

    fn read(&mut self) -> String {
        // an error: nothing there yet, or nobody has it open any more
        let mut bytes = [0; 4096];
        while let Ok(n @ 1..) = self.terminal.read(&mut bytes) {
            self.written.extend_from_slice(&bytes[..n]);
        }
        String::from_utf8_lossy(&self.written).into_owned()
    }

    fn wait_for(&mut self, words: &str) {
        wait_until(words, || self.read().contains(words));
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("it is ours");
    }

    /// Exit status and all that was written.
    fn end(mut self) -> (Option<i32>, String) {
        let mut status = None;
        wait_until("the end of the process", || {
            self.read();
            status = self.child.try_wait().expect("it is ours");
            status.is_some()
        });
        (status.and_then(|s| s.code()), self.read())
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Its window does not end by itself within a test.
fn endless<'a>(url: &'a str, place: &'a Place, more: &[&'a str]) -> Vec<&'a str> {
    let run = ["run", "--base-url", url, "--max-concurrency", "3", "--num-prompts", "100000", "--drop", "0"];
    [&run[..], &["--windows", "2", "--out", place.out()], more].concat()
}

#[test]
fn an_interrupted_view_leaves_the_terminal_clean() {
    let mock = MockProcess::start(&["--ttft", "5", "--itl", "1"], &[]);
    let place = Place::new();
    let mut run = OnTerminal::start(60, &endless(&mock.url, &place, &[]), &[]);
    run.wait_for("in flight 3");
    run.wait_for("ttft gross");
    let seen = Glass::showing(usize::from(run.columns), &run.read()).text();
    assert!(seen.contains("window 1/2"), "{seen}");
    run.signal(Signal::SIGINT);
    let (code, written) = run.end();
    assert_eq!(code, Some(130), "{written}");
    let left = Glass::showing(60, &written).text();
    assert!(left.contains("INTERRUPTED"), "the line of the window stays: {left}");
    for gone in ["in flight", "ttft gross", "client", "requests/s", "opening connections", "[#", "[."] {
        assert!(!left.contains(gone), "{gone} is left:\n{left}");
    }
    assert!(left.ends_with("\n\n") && !left.ends_with("\n\n\n"), "the cursor stands on an empty line: {left:?}");
}

#[test]
fn a_run_to_its_end_leaves_only_its_lines() {
    let place = Place::new();
    let run = ["run", "--max-concurrency", "2", "--num-prompts", "20", "--drop", "2", "--windows", "2"];
    let args = [&run[..], &["--min-duration", "0", "--length-scale", "0.05", "--out", place.out()]].concat();
    let (code, written) = OnTerminal::start(100, &args, &[]).end();
    assert!(matches!(code, Some(0 | 3)), "{code:?} {written}");
    assert!(written.contains("opening connections"), "there was a view: {written}");
    let left = Glass::showing(100, &written).text();
    assert_eq!(left.matches("window   ").count(), 2, "{left}");
    assert!(!left.contains("opening connections") && !left.contains("writing the last records"), "{left}");
}

#[test]
fn no_view_where_none_is_wanted() {
    let run = |place: &Place, more: &[&str], environment: &[(&str, &str)]| {
        let run = ["run", "--max-concurrency", "2", "--num-prompts", "10", "--drop", "0", "--windows", "1"];
        let args = [&run[..], &["--min-duration", "0", "--length-scale", "0.05", "--out", place.out()], more].concat();
        let (code, written) = OnTerminal::start(100, &args, environment).end();
        assert!(matches!(code, Some(0 | 3)), "{code:?} {written}");
        written
    };
    assert_eq!(run(&Place::new(), &["--quiet"], &[]), "");
    for (more, environment) in [(&["--json"][..], &[][..]), (&[], &[("TERM", "dumb")])] {
        let written = run(&Place::new(), more, environment);
        assert!(written.contains("window   1/1") && !written.contains('\x1b'), "{more:?} {written:?}");
    }
}

#[test]
fn what_is_no_terminal_gets_no_escape() {
    let place = Place::new();
    let run = ["run", "--max-concurrency", "2", "--num-prompts", "10", "--drop", "0", "--windows", "1"];
    let args = [&run[..], &["--min-duration", "0", "--length-scale", "0.05", "--out", place.out()]].concat();
    let output = tarebench_command(&args).env("TERM", "xterm").output().expect("the binary runs");
    let text = String::from_utf8(output.stderr).expect("text");
    assert!(text.contains("window   1/1") && !text.contains('\x1b') && !text.contains('\r'), "{text:?}");
}

#[test]
fn colours_only_where_they_are_wanted() {
    // every request fails: the count of failures is red
    let broken = ["--max-failed", "0", "--timeout", "0.1"];
    let mock = MockProcess::start(&["--ttft", "60000"], &[]);
    for (environment, red) in [(&[][..], true), (&[("NO_COLOR", "1")], false)] {
        let place = Place::new();
        let mut run = OnTerminal::start(100, &endless(&mock.url, &place, &broken), environment);
        run.wait_for("failed (timeout");
        run.signal(Signal::SIGINT);
        let (_, written) = run.end();
        assert_eq!(written.contains("\x1b[31m"), red, "{written:?}");
    }
}
