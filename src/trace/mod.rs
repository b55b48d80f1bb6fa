//! Captured traffic, replayed with its own times. A trace is read once, before the run, whatever it comes from; its rows
//! are checked, counted and kept in an unnamed file, from which every window takes them. Memory does not grow with it.

pub mod captured;
pub mod fault;
pub mod format;
pub mod intake;
pub mod lines;
pub mod objects;
pub mod replay;
pub mod row;
pub mod spool;
pub mod table;
#[cfg(test)]
mod tests;
pub mod time;

use fault::{AtLine, BadTrace, Fault};
use intake::{Intake, Rules};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Opens and reads the trace `path`; `-` is standard input.
///
/// # Errors
/// The first thing that is wrong with it, by file and line.
pub fn read(path: &Path, rules: &Rules) -> Result<Intake, BadTrace> {
    let name = name(path);
    let unreadable = |error: &io::Error| AtLine::whole(Fault::Unreadable(error.to_string())).of(&name);
    if path != Path::new("-") && path.is_dir() {
        return Err(AtLine::whole(Fault::Directory).of(&name));
    }
    let spool = spool::Writer::new(temporary().map_err(|error| unreadable(&error))?);
    if path == Path::new("-") {
        return intake::take_in(&name, io::stdin().lock(), rules, spool);
    }
    let file = File::open(path).map_err(|error| unreadable(&error))?;
    intake::take_in(&name, file, rules, spool)
}

/// What a trace is called in words.
pub fn name(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}

/// An unnamed file in TMPDIR; where that is not set in /var/tmp, which is a disk where /tmp may be memory.
fn temporary() -> io::Result<File> {
    let dirs = match std::env::var_os("TMPDIR") {
        Some(dir) => vec![PathBuf::from(dir)],
        None => vec![PathBuf::from("/var/tmp"), PathBuf::from("/tmp")],
    };
    let mut last = io::Error::other("no directory for temporary files");
    for dir in dirs {
        match tempfile::tempfile_in(&dir) {
            Ok(file) => return Ok(file),
            Err(error) => {
                last = io::Error::new(error.kind(), format!("no temporary file in {}: {error}", dir.display()))
            }
        }
    }
    Err(last)
}

/// A length multiplied by the scale of lengths, at least 1.
fn scaled(tokens: u64, scale: f64) -> u64 {
    ((tokens as f64 * scale).round() as u64).max(1)
}
