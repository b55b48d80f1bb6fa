//! The page of a run directory, for everybody who writes, shows or checks one.

use std::path::Path;

use super::render;
use crate::analysis::exhibits::Exhibits;
use crate::disclosure::directory::Disclosed;
use crate::export::terms;
use crate::rundir::run_json::RunJson;

/// The page of `dir`, whose numbers are `run`, and what its boxes say.
///
/// # Errors
/// A raw file that cannot be read, or a line of it that is not what it must be.
pub fn of_directory(dir: &Path, run: &RunJson, disclosed: &Disclosed) -> anyhow::Result<String> {
    // of a run that is refused there are no pictures, and its rows may not be readable at all
    if disclosed.boxes.refusal().is_some() {
        return Ok(render(run, disclosed, &Exhibits::default(), None));
    }
    let exhibits = Exhibits::of_directory(dir)?;
    let terms = terms::of_directory(dir, run)?;
    Ok(render(run, disclosed, &exhibits, terms.as_ref()))
}
