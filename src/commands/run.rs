//! `tarebench run`.

use crate::commands::campaign_report::{Depth, on_terminal};
use crate::commands::config_file;
use crate::commands::console::{color, stop_on_signals, tell, tell_failure, usage};
use crate::{INTERRUPTED, INVALID};
use std::sync::atomic::Ordering;
use tarebench::campaign::{self, Ended, Voice};
use tarebench::cli::RunArgs;
use tarebench::plan::Plan;
use tarebench::report;

/// Runs a campaign, or two in turns; the exit status.
pub fn run(args: RunArgs) -> anyhow::Result<u8> {
    let args = match config_file::completed(args) {
        Ok(args) => args,
        Err(words) => return Ok(usage(words)),
    };
    let plan = match Plan::from_args(&args, |name| std::env::var(name).ok()) {
        Ok(plan) => plan,
        Err(error) => return Ok(usage(error)),
    };
    let stop = stop_on_signals()?;
    let voice = Voice { quiet: plan.output.quiet };
    let ended = match plan.interleave {
        None => campaign::run(&plan, &stop, &voice).map(|ended| ended.map(|ended| vec![ended])),
        Some(_) => campaign::run_interleaved(&plan, &stop, &voice).map(|ended| ended.map(Vec::from)),
    };
    match ended {
        Err(error) if stop.load(Ordering::Relaxed) => {
            tell_failure(&error);
            Ok(INTERRUPTED)
        }
        Err(error) => Err(error),
        Ok(None) => Ok(0),
        Ok(Some(ended)) => {
            match &ended[..] {
                [a, b] => print_arms(&plan, [a, b])?,
                others => others.iter().try_for_each(|ended| print_report(&plan, ended))?,
            }
            Ok(ended.iter().map(status).max().unwrap_or(0))
        }
    }
}

fn print_arms(plan: &Plan, [a, b]: [&Ended; 2]) -> anyhow::Result<()> {
    if plan.output.json {
        let both = serde_json::json!({"a": a.run, "b": b.run});
        tell(&(serde_json::to_string_pretty(&both)? + "\n"));
    } else if !plan.output.quiet {
        tell(&report::interleaved::render([&a.run, &b.run], [&a.dir, &b.dir]));
    }
    Ok(())
}

fn print_report(plan: &Plan, ended: &Ended) -> anyhow::Result<()> {
    let text = if plan.output.json {
        tarebench::analysis::summary::to_json(&ended.run)?
    } else if plan.output.quiet {
        return Ok(());
    } else {
        let mut text = on_terminal(
            &ended.run,
            &ended.boxes,
            ended.evidence.as_ref(),
            ended.canary.as_ref(),
            Depth::Short,
            color(),
        );
        text.push_str(&format!(
            "\n{0}: run.json, boxes.json, report.md, report.html, requests.jsonl; rebuild with: tarebench verify {0}\n",
            ended.dir.display()
        ));
        text
    };
    tell(&text);
    Ok(())
}

fn status(ended: &Ended) -> u8 {
    let not_valid = ended.run.verdicts.iter().any(|v| v.kind == "failed" || v.kind == "invalid");
    match () {
        () if ended.interrupted => INTERRUPTED,
        () if not_valid || !ended.run.complete => INVALID,
        () => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tarebench::disclosure::boxes::Boxes;

    #[test]
    fn the_exit_status_says_how_it_ended() {
        let ended = |complete: bool, kind: Option<&str>, interrupted: bool| {
            let verdicts: Vec<_> =
                kind.iter().map(|kind| json!({"cell": 0, "window": 0, "kind": kind, "text": ""})).collect();
            let run = json!({"schema": "tarebench.run/1", "tarebench": null, "run_id": null, "plan_hash": null,
                "started_at": null, "complete": complete, "environment": null, "calibration": null, "cells": [], "curves": [],
                "verdicts": verdicts, "labels": [], "definitions": {}});
            let run = serde_json::from_value(run).expect("a run");
            status(&Ended {
                run,
                boxes: Boxes { schema: String::new(), boxes: Vec::new() },
                dir: std::path::PathBuf::new(),
                interrupted,
                evidence: None,
                canary: None,
                truth_read: 0,
            })
        };
        assert_eq!(ended(true, None, false), 0);
        assert_eq!(ended(true, Some("invalid"), false), INVALID);
        assert_eq!(ended(true, Some("failed"), false), INVALID);
        assert_eq!(ended(false, None, false), INVALID);
        assert_eq!(ended(false, Some("invalid"), true), INTERRUPTED);
    }
}
