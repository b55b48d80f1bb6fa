//! guidellm

use super::measured::{Campaign, MeasuredWindow};
use super::{Exported, Exporter};

/// The format.
#[derive(Debug, Default)]
pub struct Format;

impl Exporter for Format {
    fn window(&mut self, _of: &Campaign, _window: &MeasuredWindow) -> anyhow::Result<Vec<Exported>> {
        anyhow::bail!("not there yet")
    }

    fn finish(&mut self, _of: &Campaign) -> anyhow::Result<Vec<Exported>> {
        Ok(Vec::new())
    }
}

/// What the tool calls the streams of this window.
pub fn terms(_window: &MeasuredWindow) -> Vec<super::terms::Term> {
    Vec::new()
}
