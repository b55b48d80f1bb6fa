//! A run in the files of other tools. Each figure is recomputed from the rows under the definition that its tool has for the
//! name it stands under: nothing is renamed.

pub mod aiperf;
pub mod csv;
pub mod guidellm;
pub mod histogram_log;
pub mod marks;
pub mod measured;
pub mod numpy;
pub mod prometheus;
pub mod published;
pub mod seed;
#[cfg(test)]
mod specimens;
pub mod terms;
pub mod vllm;

use crate::cli::export::ExportFormat;
use measured::{Campaign, MeasuredWindow};

/// A file of another tool, or a part of one, before it is written. Parts of the same name are put together in the order in
/// which they come, so that a file about many windows need not be in memory whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// Its name, as that tool would name it, below the directory of the exports; `/` between directories.
    pub name: String,
    /// What stands in it.
    pub text: String,
}

/// Makes the files of one format out of windows that come one after another.
pub trait Exporter {
    /// Takes a window in; a format with one file a window gives it here.
    ///
    /// # Errors
    /// Why this window cannot be told in the format.
    fn window(&mut self, of: &Campaign, window: &MeasuredWindow) -> anyhow::Result<Vec<Exported>>;

    /// After the last window: the files that speak of all of them.
    ///
    /// # Errors
    /// Why they cannot be made.
    fn finish(&mut self, of: &Campaign) -> anyhow::Result<Vec<Exported>>;
}

/// What makes the files of `format`; None for the table of terms, which is of one window and made by [`terms`].
pub fn exporter(format: ExportFormat) -> Option<Box<dyn Exporter>> {
    Some(match format {
        ExportFormat::Terms => return None,
        ExportFormat::Vllm => Box::new(vllm::Format),
        ExportFormat::Aiperf => Box::new(aiperf::Format),
        ExportFormat::Guidellm => Box::new(guidellm::Format::default()),
        ExportFormat::Seed => Box::new(seed::Format),
        ExportFormat::Csv => Box::new(csv::Format::default()),
        ExportFormat::Hlog => Box::new(histogram_log::Format::default()),
        ExportFormat::Prometheus => Box::new(prometheus::Format::default()),
    })
}

/// A name as a part of a file's name: letters, digits, `-`, `_` and `.`; anything else becomes `-`.
pub fn file_part(name: &str) -> String {
    let kept = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    name.chars().take(60).map(kept).collect()
}
