//! `tarebench export`.

use crate::FAILED;
use tarebench::cli::export::ExportArgs;

/// Writes the files; the exit status.
pub fn export(args: &ExportArgs) -> anyhow::Result<u8> {
    eprintln!("error: {} cannot be exported yet", args.dir.display());
    Ok(FAILED)
}
