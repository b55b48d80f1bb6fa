//! `report.html`: one file that needs nothing else, in light and dark, on paper, and without a script.
//!
//! A function of files, like every report: the same run gives the same bytes. What `run.json` withholds is in no picture.
//! Its size follows the windows, never the requests, and beyond some windows not even these.

mod figure;
mod foreign;
mod page;
mod search;
mod shell;
#[cfg(test)]
mod specimen;
mod tables;
#[cfg(test)]
mod tests;
mod window;

mod directory;

pub use directory::of_directory;
pub use search::of_search;

use crate::analysis::exhibits::Exhibits;
use crate::disclosure::directory::Disclosed;
use crate::export::terms::Terms;
use crate::rundir::run_json::RunJson;

/// The page, from what it is a function of. When one of the boxes 1 to 3 is empty it says so in place of figures and
/// pictures.
pub fn render(run: &RunJson, disclosed: &Disclosed, exhibits: &Exhibits, terms: Option<&Terms>) -> String {
    page::page(run, disclosed, exhibits, terms)
}
