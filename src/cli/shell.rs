//! Flags of `completions` and `man`.

use clap::Args;
use std::path::PathBuf;

pub(super) const COMPLETIONS_EXAMPLES: &str = "Examples:
  source <(tarebench completions bash)
  tarebench completions zsh > \"${fpath[1]}/_tarebench\"
  tarebench completions fish > ~/.config/fish/completions/tarebench.fish";
pub(super) const MAN_EXAMPLES: &str = "Examples:
  tarebench man | man -l -
  tarebench man --out ~/.local/share/man/man1
      tarebench.1 and a page for each command, tarebench-run.1, ..";

/// Flags of `completions`.
#[derive(Clone, Debug, Args)]
pub struct CompletionsArgs {
    /// Shell that is to complete
    #[arg(value_enum, value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}

/// Flags of `man`.
#[derive(Clone, Debug, Args)]
pub struct ManArgs {
    /// Directory for one page a command; made when it is not there [default: the main page on standard output]
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub out: Option<PathBuf>,
}
