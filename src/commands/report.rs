//! `tarebench report` and `tarebench disclose`.

use crate::FAILED;
use crate::commands::campaign_report::on_terminal;
use crate::commands::console::tell;
use tarebench::cli::{DiscloseArgs, ReportArgs, ReportFormat};
use tarebench::disclosure::directory::Disclosed;
use tarebench::evidence::{self, Evidence};
use tarebench::report;

/// A report again from the files of a run; the exit status.
pub fn report(args: &ReportArgs) -> anyhow::Result<u8> {
    let (run, disclosed) = Disclosed::of_directory(&args.dir)?;
    if let Some(refusal) = disclosed.boxes.refusal() {
        eprintln!("error: {refusal}");
        return Ok(FAILED);
    }
    tell(&match args.format {
        ReportFormat::Markdown => report::markdown::render(&run, &disclosed),
        ReportFormat::Terminal => {
            let of = |pair| Evidence::of(&args.dir, pair);
            on_terminal(&run, &disclosed.boxes, of(evidence::LOAD)?.as_ref(), of(evidence::CANARY)?.as_ref())
        }
    });
    Ok(0)
}

/// The fifteen boxes of a run; the exit status.
pub fn disclose(args: &DiscloseArgs) -> anyhow::Result<u8> {
    let (run, disclosed) = Disclosed::of_directory(&args.dir)?;
    tell(&match args.json {
        true => disclosed.boxes.to_json()?,
        false => report::disclosure::page(&run, &disclosed),
    });
    Ok(0)
}
