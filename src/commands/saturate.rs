//! `tarebench saturate`.

use crate::commands::config_file;
use crate::commands::console::{stop_on_signals, tell, tell_failure, usage};
use crate::{INTERRUPTED, INVALID};
use std::io::IsTerminal;
use std::sync::atomic::Ordering;
use tarebench::campaign::Voice;
use tarebench::cli::saturate::SaturateArgs;
use tarebench::report;
use tarebench::saturate::settings::Settings;

/// Searches; the exit status.
pub fn saturate(args: SaturateArgs) -> anyhow::Result<u8> {
    let environment = |name: &str| std::env::var(name).ok();
    let args = match config_file::completed(args.run.clone()) {
        Ok(run) => SaturateArgs { run, ..args },
        Err(words) => return Ok(usage(words)),
    };
    let settings = match Settings::of(&args, environment) {
        Ok(settings) => settings,
        Err(error) => return Ok(usage(error)),
    };
    let stop = stop_on_signals()?;
    let voice = Voice { quiet: args.run.quiet };
    let made = match tarebench::saturate::saturate(settings, &args.run, &stop, &voice, &environment) {
        Err(error) if stop.load(Ordering::Relaxed) => {
            tell_failure(&error);
            return Ok(INTERRUPTED);
        }
        made => made?,
    };
    if args.run.json {
        tell(&made.document.to_json()?);
    } else if !args.run.quiet {
        // where both go to one screen, the windows stand there already
        let seen = std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
        let render = if seen { report::saturation::findings } else { report::saturation::render };
        tell(&format!("\n{}", render(&made.document)));
        tell(&format!(
            "\n{0}: saturation.json, report.md, report.html, a run directory a window; rebuild with: tarebench verify {0}\n",
            made.dir.display()
        ));
    }
    Ok(match () {
        () if made.interrupted => INTERRUPTED,
        () if made.document.conclusive => 0,
        () => INVALID,
    })
}
