//! `tarebench ledger`.

use crate::FAILED;
use crate::commands::console::{complain, tell};
use anyhow::Context;
use tarebench::cli::LedgerArgs;
use tarebench::disclosure::ledger::book::Book;
use tarebench::disclosure::ledger::{neighbours, read};
use tarebench::report;

/// Shows the campaigns of a ledger and whether its chain is whole; the exit status.
pub fn ledger(args: &LedgerArgs) -> anyhow::Result<u8> {
    let path = neighbours::find(&args.path).map_err(anyhow::Error::msg)?;
    let copies = neighbours::Copies::beside(&path);
    let bytes = read(&path).with_context(|| path.display().to_string())?;
    let book = Book::of(&bytes);
    if !bytes.is_empty() && !book.is_ledger {
        anyhow::bail!("{}: is no ledger of campaigns; name one, or a directory with one", path.display());
    }
    let mut faults = copies.missing(&book);
    if args.verify {
        faults.extend(neighbours::swapped_files(&path, &book));
    }
    tell(&match args.json {
        true => serde_json::to_string_pretty(&report::campaigns::document(&path, &book, &faults))? + "\n",
        false => report::campaigns::render(&path, &book, &faults),
    });
    let first = book.breaks.first().map(ToString::to_string).or_else(|| faults.first().map(ToString::to_string));
    Ok(match first {
        None => 0,
        Some(first) => {
            complain(format!("error: {}: {first}", path.display()));
            FAILED
        }
    })
}
