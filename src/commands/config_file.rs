//! `--config`: flags in a file.

use std::fs;
use tarebench::cli::RunArgs;

/// The flags with those of their file, if they name one; flags win.
///
/// # Errors
/// In words: the file cannot be read, is no TOML, or has a key that is no flag.
pub fn completed(args: RunArgs) -> Result<RunArgs, String> {
    let Some(path) = &args.config else { return Ok(args) };
    let read = fs::read_to_string(path).map_err(|e| e.to_string());
    let file = read.and_then(|text| toml::from_str(&text).map_err(|e| e.to_string()));
    match file {
        Ok(file) => Ok(args.over(file)),
        Err(words) => Err(format!("--config {}: {words}", path.display())),
    }
}
