//! `tarebench import`.

use crate::FAILED;
use crate::commands::console::{complain, tell};
use tarebench::cli::ImportArgs;
use tarebench::import::{self, Imported};
use tarebench::report;

/// Analyses the files of other tools; the exit status.
pub fn import(args: &ImportArgs) -> anyhow::Result<u8> {
    let columns = import::Columns {
        ttft: args.ttft_column.clone(),
        total: args.total_column.clone(),
        by: args.by.clone(),
        unit_ms: args.unit.map(|unit| unit.ms()),
    };
    let mut status = 0;
    for path in &args.files {
        match Imported::from_file(path, &columns) {
            Ok(imported) if args.json => tell(&(serde_json::to_string(&imported)? + "\n")),
            Ok(imported) => tell(&report::import::render(&imported)),
            // the other files can be read all the same
            Err(error) => {
                complain(format!("error: {error}"));
                status = FAILED;
            }
        }
    }
    Ok(status)
}
