//! What the report of a run directory costs, stage by stage: CPU time, which does not depend on who else is busy.
//!
//! cargo run --release --example many-events -- DIR
//! cargo run --release --example report-speed -- DIR

use nix::sys::resource::{UsageWho, getrusage};
use std::path::Path;
use tarebench::analysis::exhibits::Exhibits;
use tarebench::disclosure::directory::Disclosed;
use tarebench::export::terms;
use tarebench::rundir::rows::{REQUESTS, each_row};
use tarebench::{analysis::summary::summarise, report};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args().nth(1).ok_or("usage: report-speed DIR")?;
    let dir = Path::new(&dir);
    let mut from = used()?;
    let mut told = |what: &str| -> Result<(), nix::Error> {
        let now = used()?;
        println!("{what:<52} {:.3} s of CPU", now - from);
        from = used()?;
        Ok(())
    };
    let (mut rows, mut events) = (0_u64, 0);
    each_row(dir, REQUESTS, |row| {
        rows += 1;
        events += row.chunks.len();
    })?;
    told("one pass over the rows, nothing kept")?;
    let run = summarise(dir)?;
    told("every figure of run.json")?;
    let disclosed = Disclosed::of_run(dir, &run, None)?;
    told("digests and boxes")?;
    report::markdown::render(&run, &disclosed);
    told("report.md")?;
    let exhibits = Exhibits::of_directory(dir)?;
    told("what pictures are drawn of")?;
    let terms = terms::of_directory(dir, &run)?;
    told("terms")?;
    let page = report::html::render(&run, &disclosed, &exhibits, terms.as_ref());
    told("report.html")?;
    println!("{rows} rows, {events} token events, {} bytes of report.html", page.len());
    Ok(())
}

/// CPU time of this process so far, user and system, in s.
fn used() -> Result<f64, nix::Error> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}
