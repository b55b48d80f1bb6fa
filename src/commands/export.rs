//! `tarebench export`.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use crate::commands::console::{complain, tell, usage};
use anyhow::{Context, bail};
use tarebench::cli::export::{ExportArgs, ExportFormat};
use tarebench::export::measured::{Campaign, each_window, windows};
use tarebench::export::{Exported, exporter, marks, terms};
use tarebench::reading::printable;
use tarebench::rundir::kind::Kind;
use tarebench::rundir::window::WindowRow;
use tempfile::NamedTempFile;

/// Writes the files; the exit status.
pub fn export(args: &ExportArgs) -> anyhow::Result<u8> {
    Kind::must_be_a_run(&args.dir)?;
    let there = windows(&args.dir)?;
    if let Err(words) = check_choice(args, &there) {
        return Ok(usage(words));
    }
    let of = Campaign::of_directory(&args.dir)?;
    let wanted = |bounds: &WindowRow| {
        (args.cell.is_empty() || args.cell.contains(&bounds.cell))
            && (args.window.is_empty() || args.window.contains(&bounds.window))
    };
    warn(&of, there.iter().filter(|bounds| wanted(bounds)));

    let out = args.out.clone().unwrap_or_else(|| args.dir.join("exports"));
    let mut files = Files { out: &out, replace: args.out.is_none() || args.force, open: Vec::new() };
    let mut formats = args.format.clone();
    formats.sort_unstable();
    formats.dedup();
    let mut exporters: Vec<_> = formats.iter().filter_map(|format| exporter(*format)).collect();
    if !exporters.is_empty() {
        each_window(&args.dir, wanted, |window| {
            for exporter in &mut exporters {
                files.take(exporter.window(&of, &window)?)?;
            }
            Ok(())
        })?;
        for exporter in &mut exporters {
            files.take(exporter.finish(&of)?)?;
        }
    }
    if formats.contains(&ExportFormat::Terms) {
        let found = terms::of_directory(&args.dir, &of.run)?;
        let text = terms::markdown(&of.run, found.as_ref());
        files.take(vec![Exported { name: "definitions.md".into(), text }])?;
    }
    let written = files.finish()?;
    tell(&written.iter().map(|path| format!("{}\n", path.display())).collect::<String>());
    Ok(0)
}

/// A choice that is not there, in words with what there is.
fn check_choice(args: &ExportArgs, there: &[WindowRow]) -> Result<(), String> {
    let listed = |mut numbers: Vec<u32>| {
        numbers.sort_unstable();
        numbers.dedup();
        numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
    };
    let cells: Vec<u32> = there.iter().map(|bounds| bounds.cell).collect();
    if let Some(cell) = args.cell.iter().find(|cell| !cells.contains(cell)) {
        return Err(format!("--cell {cell}: this run has no such load point; there are {}", listed(cells)));
    }
    let of_cells = there.iter().filter(|bounds| args.cell.is_empty() || args.cell.contains(&bounds.cell));
    let numbers: Vec<u32> = of_cells.map(|bounds| bounds.window).collect();
    match args.window.iter().find(|window| !numbers.contains(window)) {
        Some(window) => Err(format!(
            "--window {window}: there is no such window of these load points; there are {}",
            listed(numbers)
        )),
        None => Ok(()),
    }
}

/// What other tools have no mark for, on standard error: one line a reason.
fn warn<'a>(of: &Campaign, windows: impl Iterator<Item = &'a WindowRow>) {
    let mut reasons: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for bounds in windows {
        for mark in marks::of(&of.run, bounds.cell, bounds.window) {
            let place = format!("{}/{}", bounds.cell, bounds.window);
            reasons.entry(mark).or_default().push(place);
        }
    }
    for (reason, places) in reasons {
        complain(format!("warning: load point/window {}: {}", places.join(", "), printable(&reason, None)));
    }
}

/// Files that are written beside their places, and put there when all are whole.
struct Files<'a> {
    out: &'a Path,
    replace: bool,
    /// In order of their first parts.
    open: Vec<(PathBuf, NamedTempFile)>,
}

impl Files<'_> {
    fn take(&mut self, parts: Vec<Exported>) -> anyhow::Result<()> {
        for part in parts {
            let path = self.out.join(inside(&part.name)?);
            let told = || format!("{} cannot be written", path.display());
            let place = match self.open.iter().position(|(known, _)| *known == path) {
                Some(place) => place,
                None => {
                    self.open.push((path.clone(), self.begin(&path)?));
                    self.open.len() - 1
                }
            };
            self.open[place].1.write_all(part.text.as_bytes()).with_context(told)?;
        }
        Ok(())
    }

    fn begin(&self, path: &Path) -> anyhow::Result<NamedTempFile> {
        if !self.replace && path.symlink_metadata().is_ok() {
            bail!("{} is there already; --force replaces it, --out chooses another directory", path.display());
        }
        let dir = path.parent().unwrap_or(self.out);
        std::fs::create_dir_all(dir).with_context(|| format!("{} cannot be made", dir.display()))?;
        // readable by whoever the umask allows: a collector runs as somebody else
        let mut builder = tempfile::Builder::new();
        builder.prefix(".export-").suffix(".part").permissions(Permissions::from_mode(0o666));
        builder.tempfile_in(dir).with_context(|| format!("nothing can be written in {}", dir.display()))
    }

    fn finish(self) -> anyhow::Result<Vec<PathBuf>> {
        let mut written = Vec::new();
        for (path, mut file) in self.open {
            let told = || format!("{} cannot be written", path.display());
            file.flush().with_context(told)?;
            match self.replace {
                true => file.persist(&path).map(drop).map_err(|error| error.error),
                false => file.persist_noclobber(&path).map(drop).map_err(|error| error.error),
            }
            .with_context(told)?;
            written.push(path);
        }
        Ok(written)
    }
}

/// A name of an export, which stays below the directory of the exports.
fn inside(name: &str) -> anyhow::Result<&Path> {
    let path = Path::new(name);
    if name.is_empty() || !path.components().all(|part| matches!(part, Component::Normal(_))) {
        bail!("{name}: not a name below a directory");
    }
    Ok(path)
}
