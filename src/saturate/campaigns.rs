//! What a search names, held against what is there: every campaign that was begun has a line in the ledger beside its
//! run directory, whatever `search.json` says, so that no window can be left out of the search unseen.

use super::document::figures_of;
use super::record::{self, Record, Step};
use crate::analysis::saturation::search::{End, Purpose, Trial};
use crate::disclosure::ledger::book::{Book, Campaign};
use crate::disclosure::ledger::{self, FILE};
use crate::rundir::kind;
use anyhow::{Context, bail};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Every campaign that was begun is named, in the order in which they were begun; every directory that is named is there,
/// and no other run directory; what was cut off was not a whole window.
///
/// # Errors
/// The first difference.
pub fn check(dir: &Path, record: &Record) -> anyhow::Result<()> {
    if let Some(gone) = record.named().find(|name| !dir.join(name).is_dir()) {
        bail!(
            "{gone}: the directory is gone: {} names it, and without it the search cannot be verified; put it back",
            record::FILE
        );
    }
    let mut folders = BTreeSet::from(["", "steps"]);
    folders.extend(record.named().map(|name| folder_of(name)));
    for folder in folders {
        let campaigns = begun(dir, folder, record)?;
        let Some(name) = record.cut_off.as_ref().filter(|name| folder_of(name) == folder) else { continue };
        if let Some(campaign) = campaigns.iter().find(|campaign| name_of(folder, campaign) == *name) {
            cut_off(dir, name, campaign, record)?;
        }
    }
    strays(dir, record)
}

/// Where a run directory lies, in that of the search.
fn folder_of(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn inside(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// The run directory of a campaign, as `search.json` names it.
fn name_of(folder: &str, campaign: &Campaign) -> String {
    inside(folder, campaign.started("dir").unwrap_or_default())
}

/// The campaigns by the ledger of a folder, which are those that the search names there.
fn begun(dir: &Path, folder: &str, record: &Record) -> anyhow::Result<Vec<Campaign>> {
    let (shown, path) = (inside(folder, FILE), dir.join(folder).join(FILE));
    let named: Vec<&String> = record.named().filter(|name| folder_of(name) == folder).collect();
    let is_there = path.exists();
    let book = if is_there { Book::of(&ledger::read(&path).with_context(|| shown.clone())?) } else { Book::of(&[]) };
    let mut campaigns = book.campaigns;
    campaigns.retain(|campaign| campaign.start.is_some());
    // a line that could not be written into the ledger has no h, and a campaign that was cut off may have come to none
    let is_expected = |name: &&&String| match start_line(&dir.join(name)) {
        Some(line) => line["h"].is_string(),
        None => record.cut_off.as_ref() != Some(**name) || campaigns.iter().any(|c| name_of(folder, c) == ***name),
    };
    let expected: Vec<&String> = named.iter().filter(is_expected).copied().collect();
    if !is_there {
        return match expected.first() {
            None => Ok(campaigns),
            Some(_) => bail!(
                "{shown} is missing: it belongs to the search and names every campaign of it; without it nobody can tell \
                 whether a window was left out; put it back"
            ),
        };
    }
    if let Some(first) = book.breaks.first() {
        bail!("{shown}: {first}");
    }
    if let Some(left_out) = campaigns.iter().find(|campaign| !named.contains(&&name_of(folder, campaign))) {
        bail!(
            "{shown} names {} (run {}), and {} does not: a window was left out of the search",
            name_of(folder, left_out),
            left_out.run_id,
            record::FILE
        );
    }
    if let Some(unknown) = expected.iter().find(|name| !campaigns.iter().any(|c| name_of(folder, c) == ***name)) {
        bail!("{unknown}: {shown} does not name it: its lines were removed there, or the directory is from elsewhere");
    }
    for (at, campaign) in campaigns.iter().enumerate() {
        let name = name_of(folder, campaign);
        if expected.get(at) != Some(&&name) {
            bail!(
                "{shown} names {name} as campaign {}, and {} does not: it has another order, or another number of windows",
                at + 1,
                record::FILE
            );
        }
        let own = start_line(&dir.join(&name));
        if let Some(own) = own.as_ref().and_then(|line| line["run_id"].as_str()).filter(|own| *own != campaign.run_id) {
            bail!("{name}: is run {own}, and {shown} names run {} there: it was exchanged", campaign.run_id);
        }
    }
    Ok(campaigns)
}

/// The line before the first request, as a run directory has it.
fn start_line(dir: &Path) -> Option<Value> {
    serde_json::from_str(fs::read_to_string(dir.join(FILE)).ok()?.lines().next()?).ok()
}

/// A window that was run to its end counts; one that was cut off is kept as it was left.
fn cut_off(dir: &Path, name: &str, campaign: &Campaign, record: &Record) -> anyhow::Result<()> {
    let files = campaign.end.as_ref().and_then(|end| end["files"].as_object());
    if let Some(gone) =
        files.into_iter().flat_map(|files| files.keys()).find(|file| !dir.join(name).join(file).exists())
    {
        bail!("{name}/{gone}: the file is gone: the ledger has its SHA-256; put it back");
    }
    let by_time = || {
        let trial = Trial { purpose: Purpose::Climb, load: None, requests: 1, attempt: 0 };
        let figures = figures_of(dir, &Step { dir: name.to_owned(), trial });
        record.ended == Some(End::Budget) && figures.is_ok_and(|f| f.ended_early && f.over_saturated.is_none())
    };
    match campaign.outcome() {
        Some(outcome @ ("complete" | "invalid")) if !by_time() => bail!(
            "{name}: {} says that it was cut off, and it ended by itself ({outcome} in the ledger): a window was left out \
             of the search",
            record::FILE
        ),
        _ => Ok(()),
    }
}

/// A window that was run and is in no figure may be one that did not please.
fn strays(dir: &Path, record: &Record) -> anyhow::Result<()> {
    let named: Vec<PathBuf> = record.named().map(|name| dir.join(name)).collect();
    match runs_below(dir).into_iter().find(|run| !named.contains(run)) {
        Some(stray) => bail!(
            "{} is a run directory that {} does not name: a window was left out of the search, or a run was put there",
            stray.display(),
            record::FILE
        ),
        None => Ok(()),
    }
}

/// Run directories anywhere below `dir`. A link is looked at and not followed further.
fn runs_below(dir: &Path) -> Vec<PathBuf> {
    let mut found = kind::runs_in(dir);
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    found.extend(below.flat_map(|entry| runs_below(&entry.path())));
    found
}
