//! The binary: words in, exit status out.
#![forbid(unsafe_code)]

mod commands;

use commands::console::{complain, outlive_full_files, tell_failure};
use std::process::ExitCode;
use tarebench::cli::{self, Command};

const FAILED: u8 = 1;
const USAGE: u8 = 2;
const INVALID: u8 = 3;
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    if let Err(error) = outlive_full_files() {
        complain(format!("WARNING: a file that reaches its limit (ulimit -f) will end this process: {error}"));
    }
    let done = match cli::parse(std::env::args_os()).unwrap_or_else(|error| error.exit()).command {
        Command::Run(args) => commands::run::run(*args),
        Command::Calibrate(args) => commands::calibrate::calibrate(&args),
        Command::Mock(args) => commands::mock::mock(*args),
        Command::Probe(args) => commands::probe::probe(&args),
        Command::Compare(args) => commands::compare::compare(&args),
        Command::Decode(args) => commands::decode::decode(&args),
        Command::Import(args) => commands::import::import(&args),
        Command::Verify(args) => Ok(commands::verify::verify(&args)),
        Command::Ledger(args) => commands::ledger::ledger(&args),
        Command::Report(args) => commands::report::report(&args),
        Command::Disclose(args) => commands::report::disclose(&args),
        Command::Export(args) => commands::export::export(&args),
        Command::Completions(args) => commands::shell::completions(&args),
        Command::Man(args) => commands::shell::man(&args),
        Command::Saturate(args) => commands::saturate::saturate(*args),
    };
    match done {
        Ok(0) if commands::console::output_lost() => ExitCode::from(FAILED),
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            tell_failure(&error);
            ExitCode::from(FAILED)
        }
    }
}
