//! `tarebench completions` and `tarebench man`: what shells and `man` want to know, made of the command line itself.

use crate::commands::console::tell;
use anyhow::Context;
use clap::CommandFactory;
use clap_mangen::Man;
use std::path::Path;
use tarebench::cli::{Cli, CompletionsArgs, ManArgs};

/// Prints a completion script; the exit status.
pub fn completions(args: &CompletionsArgs) -> anyhow::Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "tarebench", &mut script);
    tell(&String::from_utf8(script)?);
    Ok(0)
}

/// Prints the main page of the manual, or writes every page; the exit status.
pub fn man(args: &ManArgs) -> anyhow::Result<u8> {
    // a version of several words would stand in the foot of each page
    let command = Cli::command().version(env!("CARGO_PKG_VERSION"));
    let Some(dir) = &args.out else {
        tell(&page(command)?);
        return Ok(0);
    };
    std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let pages = command.get_subcommands().map(|sub| {
        let name = format!("tarebench-{}", sub.get_name());
        (name, sub.clone().version(env!("CARGO_PKG_VERSION")))
    });
    let pages: Vec<(String, clap::Command)> = pages.collect();
    write(dir, "tarebench", command)?;
    pages.into_iter().try_for_each(|(name, sub)| write(dir, &name, sub))?;
    Ok(0)
}

fn write(dir: &Path, name: &str, command: clap::Command) -> anyhow::Result<()> {
    let path = dir.join(format!("{name}.1"));
    std::fs::write(&path, page(command)?).with_context(|| path.display().to_string())?;
    tell(&format!("{}\n", path.display()));
    Ok(())
}

fn page(command: clap::Command) -> anyhow::Result<String> {
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    Ok(String::from_utf8(page)?)
}
