//! `tarebench report` and `tarebench disclose`.

use crate::FAILED;
use crate::commands::campaign_report::{Depth, on_terminal};
use crate::commands::console::{color, complain, tell, usage};
use anyhow::Context;
use serde_json::{Map, Value, json};
use std::path::Path;
use tarebench::analysis::summary;
use tarebench::cli::{DiscloseArgs, ReportArgs, ReportFormat};
use tarebench::disclosure::directory::Disclosed;
use tarebench::evidence::{self, Evidence};
use tarebench::report::side_by_side::{self, Campaign};
use tarebench::report::{self, terminal};
use tarebench::rundir::kind::Kind;
use tarebench::saturate;
use tarebench::saturate::document::Document;

/// A report again from the files of a run, or several side by side; the exit status.
pub fn report(args: &ReportArgs) -> anyhow::Result<u8> {
    match &args.dirs[..] {
        [dir] if saturate::is_search(dir) => of_search(args, dir),
        [dir] => of_one(args, dir),
        dirs => match side_by_side::check(dirs) {
            Ok(()) => of_several(args),
            Err(words) => Ok(usage(words)),
        },
    }
}

fn format(args: &ReportArgs) -> ReportFormat {
    let ending = args.out.as_ref().and_then(|path| path.extension()).and_then(|ending| ending.to_str());
    args.format.unwrap_or(match ending {
        Some("html" | "htm") => ReportFormat::Html,
        Some("md" | "markdown") => ReportFormat::Markdown,
        _ => ReportFormat::Terminal,
    })
}

fn of_one(args: &ReportArgs, dir: &Path) -> anyhow::Result<u8> {
    Kind::must_be_a_run(dir)?;
    let (run, disclosed) = Disclosed::of_directory(dir)?;
    if let Some(refusal) = disclosed.boxes.refusal() {
        complain(format!("error: {refusal}"));
        return Ok(FAILED);
    }
    let text = match format(args) {
        _ if args.json => summary::to_json(&run)?,
        ReportFormat::Markdown => report::markdown::render(&run, &disclosed),
        ReportFormat::Html => report::html::of_directory(dir, &run, &disclosed)?,
        ReportFormat::Terminal => {
            let of = |pair| Evidence::of(dir, pair);
            let depth = if args.details { Depth::Details } else { Depth::Short };
            let (truth, canary) = (of(evidence::LOAD)?, of(evidence::CANARY)?);
            on_terminal(&run, &disclosed.boxes, truth.as_ref(), canary.as_ref(), depth, color() && args.out.is_none())
        }
    };
    put(args, &text)
}

/// Of a search by `saturate`, searched again over the rows of its windows.
fn of_search(args: &ReportArgs, dir: &Path) -> anyhow::Result<u8> {
    let document = Document::of_directory(dir)?;
    let text = match format(args) {
        _ if args.json => document.to_json()?,
        ReportFormat::Markdown => report::saturation::markdown(&document),
        ReportFormat::Html => report::html::of_search(&document),
        ReportFormat::Terminal => report::saturation::render(&document),
    };
    put(args, &text)
}

fn of_several(args: &ReportArgs) -> anyhow::Result<u8> {
    let form = format(args);
    if form == ReportFormat::Html {
        return Ok(usage("a page is of one run: print several with --format markdown, or one page each"));
    }
    let mut campaigns = Vec::new();
    args.dirs.iter().try_for_each(|dir| Kind::must_be_a_run(dir))?;
    for dir in &args.dirs {
        let (run, disclosed) = Disclosed::of_directory(dir).with_context(|| dir.display().to_string())?;
        campaigns.push(Campaign { dir: dir.display().to_string(), run, plan: disclosed.plan, boxes: disclosed.boxes });
    }
    if let Err(words) = side_by_side::check_runs(&campaigns) {
        return Ok(usage(words));
    }
    let text = match form {
        _ if args.json => format!("{:#}\n", Value::Object(documents(&campaigns)?)),
        ReportFormat::Markdown => side_by_side::markdown(&campaigns),
        _ => side_by_side::terminal(&campaigns, terminal::WIDEST, color() && args.out.is_none()),
    };
    put(args, &text)
}

/// `a`, `b`, ..: run.json, or why there are no figures.
fn documents(campaigns: &[Campaign]) -> anyhow::Result<Map<String, Value>> {
    let mut documents = Map::new();
    for (place, campaign) in campaigns.iter().enumerate() {
        let document = match campaign.boxes.refusal() {
            Some(refusal) => json!({"run_id": campaign.run.run_id, "refused": refusal}),
            None => serde_json::to_value(&campaign.run)?,
        };
        documents.insert(side_by_side::name(place).to_ascii_lowercase().to_string(), document);
    }
    Ok(documents)
}

/// To the file that was asked for, else onto standard output.
fn put(args: &ReportArgs, text: &str) -> anyhow::Result<u8> {
    match &args.out {
        Some(path) => std::fs::write(path, text).with_context(|| path.display().to_string())?,
        None => tell(text),
    }
    Ok(0)
}

/// The fifteen boxes of a run; the exit status.
pub fn disclose(args: &DiscloseArgs) -> anyhow::Result<u8> {
    Kind::must_be_a_run(&args.dir)?;
    let (run, disclosed) = Disclosed::of_directory(&args.dir)?;
    tell(&match args.json {
        true => disclosed.boxes.to_json()?,
        false => report::disclosure::page(&run, &disclosed),
    });
    Ok(0)
}
