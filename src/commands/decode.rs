//! `tarebench decode`.

use crate::USAGE;
use crate::commands::console::complain;
use anyhow::Context;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use tarebench::cli::DecodeArgs;
use tarebench::decode;

/// Puts recorded streams through the parsers; the exit status.
pub fn decode(args: &DecodeArgs) -> anyhow::Result<u8> {
    let input: Box<dyn Read> = match args.file.as_os_str() == "-" {
        true => Box::new(std::io::stdin()),
        false => Box::new(std::fs::File::open(&args.file).with_context(|| args.file.display().to_string())?),
    };
    let mut out = std::io::stdout().lock();
    let mut malformed = false;
    for (number, line) in BufReader::new(input).split(b'\n').enumerate() {
        let line = line.with_context(|| args.file.display().to_string())?;
        if line.trim_ascii().is_empty() {
            continue;
        }
        let parsed = String::from_utf8(line)
            .map_err(|e| e.to_string())
            .and_then(|l| decode::Case::parse(&l).map_err(|e| e.to_string()));
        match parsed {
            Ok(case) => {
                let wire = case.wire()?;
                let decoded = decode::decode(&case.id, &case.request, &wire, case.raw);
                let value = match args.record {
                    true => serde_json::to_value(&decoded.row)?,
                    false => decode::figures(&case.id, &case.request, &decoded),
                };
                match writeln!(out, "{value}") {
                    // whoever read it has seen enough
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
                    written => written.context("standard output cannot be written")?,
                }
            }
            Err(words) => {
                malformed = true;
                complain(format!("{}:{}: {words}", args.file.display(), number + 1));
            }
        }
    }
    Ok(if malformed { USAGE } else { 0 })
}
