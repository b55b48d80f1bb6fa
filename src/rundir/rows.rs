//! Reading a chained file of rows, for what is derived from it beside the figures.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, bail};

use crate::rundir::chain::Chain;
use crate::rundir::row::Row;

/// Hands on every row of a chained file. A last line without its end was being written when the run was ended.
///
/// # Errors
/// A file that cannot be read, a line that is no row or was changed.
pub fn each_row(path: &Path, mut take: impl FnMut(Row)) -> anyhow::Result<()> {
    let mut reader = BufReader::with_capacity(1 << 20, File::open(path).with_context(|| path.display().to_string())?);
    let (mut line, mut number, mut chain) = (String::new(), 0, Chain::default());
    loop {
        line.clear();
        number += 1;
        if reader.read_line(&mut line)? == 0 || !line.ends_with('\n') {
            return Ok(());
        }
        let Some(plain) = chain.open(line.trim_end_matches('\n')) else {
            bail!("{}:{number}: its h does not continue the chain: a line was changed", path.display());
        };
        take(serde_json::from_str(&plain).with_context(|| format!("{}:{number}", path.display()))?);
    }
}
