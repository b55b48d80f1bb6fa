//! Goals, from a flag and a file.

use super::BadPlan;
use crate::cli::RunArgs;
use crate::goals::{BadGoals, Goals};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// A file that people write; at most 1 MiB, whatever it says of its size.
pub(super) fn short_file(path: &Path) -> io::Result<String> {
    const MOST: u64 = 1 << 20;
    let mut text = String::new();
    File::open(path)?.take(MOST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST {
        return Err(io::Error::other(format!("it has more than {MOST} bytes, the most that are read")));
    }
    Ok(text)
}

/// The file is read here, once: the plan holds what it says.
pub(super) fn goals(args: &RunArgs) -> Result<Option<Goals>, BadPlan> {
    let flag = args.slo.as_ref().map(|path| format!("--slo {}", path.display()));
    let text = match (&args.slo, &flag) {
        (Some(path), Some(flag)) => Some(
            short_file(path)
                .map_err(|error| BadPlan::Goals { flag: flag.clone(), bad: BadGoals::File(error.to_string()) })?,
        ),
        _ => None,
    };
    let goodput = args.goodput.as_ref().map_or(&[][..], |list| &list.0);
    let found = Goals::new(text.as_deref(), goodput).and_then(|goals| match &goals {
        Some(asked) if args.sessions.is_none() && args.chain.is_none() => {
            match asked.window.keys().find(|figure| figure.is_of_sessions()) {
                Some(figure) => Err(BadGoals::NoSessions(figure.to_string())),
                None => Ok(goals),
            }
        }
        _ => Ok(goals),
    });
    found.map_err(|bad| {
        let of_flag = matches!(bad, BadGoals::Form(_)) || args.slo.is_none();
        BadPlan::Goals { flag: flag.filter(|_| !of_flag).unwrap_or_else(|| "--goodput".to_owned()), bad }
    })
}
