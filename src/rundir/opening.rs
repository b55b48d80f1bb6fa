//! `window.open.json`: the window that is under way, as far as it is known at its opening. It goes when the window has its
//! line in `windows.jsonl`; where it is still there, the run was ended in the middle, by a kill or a full disk, and the
//! rows so far can be told all the same.

use std::fs;
use std::io;
use std::path::Path;

use crate::rundir::chain::Chain;
use crate::rundir::row::Row;
use crate::rundir::rows::{self, PartFault, REQUESTS};
use crate::rundir::window::WindowRow;

/// Its name within the run directory.
pub const FILE: &str = "window.open.json";

/// Writes it, whole or not at all.
///
/// # Errors
/// The directory cannot be written.
pub fn write(dir: &Path, window: &WindowRow) -> io::Result<()> {
    let draft = dir.join(".window.open.json");
    fs::write(&draft, serde_json::to_string(window)? + "\n")?;
    fs::rename(draft, dir.join(FILE))
}

/// The window has its line.
///
/// # Errors
/// The directory cannot be written.
pub fn remove(dir: &Path) -> io::Result<()> {
    match fs::remove_file(dir.join(FILE)) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// The line that a window without one would have: it closed at the last moment that a row knows of, and was
/// interrupted. What was under way then has no row, and what a worker lost is not known. None where no window was cut
/// off, or nothing can be read of its opening.
///
/// # Errors
/// [`PartFault`].
pub fn cut_off(dir: &Path, has_line: impl Fn(u32, u32) -> bool) -> Result<Option<WindowRow>, PartFault> {
    let opening =
        fs::read_to_string(dir.join(FILE)).ok().and_then(|text| serde_json::from_str::<WindowRow>(&text).ok());
    let Some(mut window) = opening.filter(|window| !has_line(window.cell, window.window)) else { return Ok(None) };
    (window.closed, window.rows, window.interrupted) = (window.opened, 0, true);
    window.last_h = Chain::default().last_hex().to_owned();
    rows::each_line(dir, REQUESTS, &mut |_, line| -> Result<(), PartFault> {
        // whoever reads the rows says what is wrong with one
        let parsed = line.rsplit_once(",\"h\":\"").and_then(|(row, h)| {
            let row = serde_json::from_str::<Row>(&format!("{row}}}")).ok()?;
            Some((row, h.trim_end_matches("\"}").to_owned()))
        });
        if let Some((row, h)) = parsed.filter(|(row, _)| (row.cell, row.window) == (window.cell, window.window)) {
            window.closed = window.closed.max(last_moment(&row));
            (window.rows, window.last_h) = (window.rows + 1, h);
        }
        Ok(())
    })?;
    window.part = rows::parts_there(dir, REQUESTS).len().max(1) as u32;
    Ok(Some(window))
}

/// The last thing that is known of a request.
fn last_moment(row: &Row) -> u64 {
    let events = [row.first_byte, row.first_event, row.last_token, row.done, row.end].into_iter().flatten();
    let stamps = events.map(|event| event.seen.max(event.arrived.unwrap_or(0)));
    let sent = [row.taken, row.submit, row.handed, row.sent, row.wire_out].into_iter().flatten();
    stamps.chain(sent).max().unwrap_or(row.due)
}
