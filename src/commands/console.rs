//! What every command shares with its terminal: standard output, signals, words about wrong usage.

use crate::{INTERRUPTED, USAGE};
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Says something to people, on standard error. Whoever read it may be gone: that is no reason to end.
pub fn complain(words: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{words}");
}

/// Says why a command could not be carried out: each cause once, also where one repeats the next in its own words.
pub fn tell_failure(error: &anyhow::Error) {
    complain(format!("error: {}", causes(error)));
}

fn causes(error: &anyhow::Error) -> String {
    let mut told = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if told.is_empty() {
            told = cause;
        } else if !told.ends_with(&cause) {
            told = format!("{told}: {cause}");
        }
    }
    told
}

/// Says what was wrong with the command line; the exit status for it.
pub fn usage(words: impl std::fmt::Display) -> u8 {
    complain(format!("error: {words}"));
    USAGE
}

/// A file that may grow no further (`ulimit -f`) makes its write fail, which is told like a full disk; by default the
/// kernel ends the process instead (signal(7), SIGXFSZ). A handler, since no child inherits one: commands of --at keep the
/// default. Of SIGPIPE the standard library sees to the same.
///
/// # Errors
/// The kernel refuses.
pub fn outlive_full_files() -> std::io::Result<()> {
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default()).map(drop)
}

/// Becomes true at the first interrupt, termination or hang-up. A further interrupt ends the process at once; a further
/// termination does not, since `timeout` and others send it to the process and then to its group, and what was measured is
/// still being written.
pub fn stop_on_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut signals = vec![signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM];
    if !ignores_hang_up() {
        signals.push(signal_hook::consts::SIGHUP);
    }
    for signal in signals {
        if signal == signal_hook::consts::SIGINT {
            signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED.into(), Arc::clone(&stop))?;
        }
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Whether this process was started to outlive its terminal (`nohup`): the kernel's mask of ignored signals.
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok())
        .is_some_and(|m| m & (1 << (signal_hook::consts::SIGHUP - 1)) != 0)
}

/// Whether standard output gets colours: on a terminal, unless NO_COLOR is set to anything (<https://no-color.org>) or the
/// terminal is a dumb one; elsewhere where CLICOLOR_FORCE is set to anything but 0.
pub fn color() -> bool {
    wants_color(std::io::stdout().is_terminal(), |name| std::env::var(name).ok().filter(|value| !value.is_empty()))
}

fn wants_color(is_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> bool {
    match (variable("NO_COLOR"), variable("CLICOLOR_FORCE")) {
        (Some(_), _) => false,
        (None, Some(force)) if force != "0" => true,
        _ => is_terminal && variable("TERM").is_none_or(|term| term != "dumb"),
    }
}

/// Something that was to stand on standard output does not.
static OUTPUT_LOST: AtomicBool = AtomicBool::new(false);

/// Whether something that was to stand on standard output does not.
pub fn output_lost() -> bool {
    OUTPUT_LOST.load(Ordering::Relaxed)
}

/// Onto standard output. A reader that has gone away is no failure; a full disk is one.
pub fn tell(text: &str) {
    let mut out = std::io::stdout().lock();
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush())
        && error.kind() != std::io::ErrorKind::BrokenPipe
    {
        OUTPUT_LOST.store(true, Ordering::Relaxed);
        complain(format!("error: standard output cannot be written: {error}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("x.jsonl: {source}")]
        struct Told {
            source: std::io::Error,
        }
        let source = || std::io::Error::other("no room");
        assert_eq!(causes(&anyhow::Error::new(Told { source: source() }).context("ended")), "ended: x.jsonl: no room");
        assert_eq!(causes(&anyhow::Error::new(source()).context("ended")), "ended: no room");
    }

    #[test]
    fn colours_are_for_terminals_and_those_who_ask() {
        let asked = |is_terminal, set: &[(&str, &str)]| {
            wants_color(is_terminal, |name| set.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
        };
        assert_eq!((asked(true, &[]), asked(false, &[])), (true, false));
        assert!(!asked(true, &[("NO_COLOR", "1")]) && !asked(true, &[("NO_COLOR", "0"), ("CLICOLOR_FORCE", "1")]));
        assert!(asked(false, &[("CLICOLOR_FORCE", "1")]) && !asked(false, &[("CLICOLOR_FORCE", "0")]));
        assert!(!asked(true, &[("TERM", "dumb")]) && asked(true, &[("TERM", "xterm")]));
    }
}
