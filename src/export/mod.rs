//! A run in the files of other tools. Each figure is recomputed from the rows under the definition that its tool has for the
//! name it stands under: nothing is renamed.

pub mod aiperf;
pub mod csv;
pub mod guidellm;
pub mod histogram_log;
pub mod measured;
pub mod prometheus;
pub mod seed;
pub mod terms;
pub mod vllm;

use crate::cli::export::ExportFormat;
use measured::{Campaign, MeasuredWindow};

/// A file of another tool, before it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// Its name, as that tool would name it; no directory.
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

/// What makes the files of `format`.
pub fn exporter(format: ExportFormat) -> Box<dyn Exporter> {
    match format {
        ExportFormat::Vllm => Box::new(vllm::Format),
        ExportFormat::Aiperf => Box::new(aiperf::Format),
        ExportFormat::Guidellm => Box::new(guidellm::Format),
        ExportFormat::Seed => Box::new(seed::Format),
        ExportFormat::Csv => Box::new(csv::Format),
        ExportFormat::Hlog => Box::new(histogram_log::Format),
        ExportFormat::Prometheus => Box::new(prometheus::Format),
    }
}
