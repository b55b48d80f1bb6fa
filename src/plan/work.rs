//! What is asked of the server, from the flags.

use super::BadPlan;
use crate::cli::RunArgs;
use crate::tokenizer::Tokenizer;
use crate::workload::{BadWorkload, Lengths};
use std::path::Path;

/// The file is read here, once: a wrong one ends the run before anything is sent.
pub(super) fn tokenizer(path: &Path) -> Result<Tokenizer, BadPlan> {
    Tokenizer::open(path).map_err(|bad| BadPlan::Tokenizer { path: path.to_owned(), bad })
}

pub(super) fn lengths(args: &RunArgs) -> Result<Lengths, BadWorkload> {
    match args.workload.as_deref().unwrap_or("seed-mix") {
        "seed-mix" => Ok(Lengths::seed_mix()),
        "random" => Ok(Lengths::Random {
            input_len: args.random_input_len.unwrap_or(1024),
            output_len: args.random_output_len.unwrap_or(128),
            range_ratio: args.random_range_ratio.unwrap_or(0.0),
        }),
        other => Err(BadWorkload::Unknown(other.to_owned())),
    }
}
