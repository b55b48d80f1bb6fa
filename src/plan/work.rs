//! What is asked of the server, from the flags.

use crate::cli::RunArgs;
use crate::workload::{BadWorkload, Lengths};

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
