//! The binary: words in, exit status out.
#![forbid(unsafe_code)]

use anyhow::Context;
use bench_engine::io::uring::probe::capabilities;
use bench_engine::timers::Limits;
use bench_engine::units::Nanos;
use bench_engine::wire::request::RequestTemplate;
use calibration::mock::{Mock, MockConfig};
use clap::Parser;
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tarebench::campaign::{self, Ended, Voice, mock_child};
use tarebench::cli::{Cli, Command, DecodeArgs, MockArgs, ProbeArgs, RunArgs, VerifyArgs};
use tarebench::plan::{Plan, key_policy, secrets};
use tarebench::probe::{OneRequest, show};
use tarebench::target::address::Target;
use tarebench::target::identity;
use tarebench::target::openai::{Api, BodyTemplate, TokenProof};
use tarebench::{decode, report, verify};

const FAILED: u8 = 1;
const USAGE: u8 = 2;
const INVALID: u8 = 3;
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Run(args) => run(*args),
        Command::Mock(args) => mock(args),
        Command::Probe(args) => probe(&args),
        Command::Decode(args) => decode_file(&args),
        Command::Verify(args) => Ok(verify_dir(&args)),
    };
    match done {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(FAILED)
        }
    }
}

fn usage(words: impl std::fmt::Display) -> u8 {
    eprintln!("error: {words}");
    USAGE
}

fn run(args: RunArgs) -> anyhow::Result<u8> {
    let file = match &args.config {
        None => RunArgs::default(),
        Some(path) => {
            let text = match std::fs::read_to_string(path) {
                Ok(text) => text,
                Err(error) => return Ok(usage(format!("--config {}: {error}", path.display()))),
            };
            match toml::from_str(&text) {
                Ok(file) => file,
                Err(error) => return Ok(usage(format!("--config {}: {error}", path.display()))),
            }
        }
    };
    let plan = match Plan::from_args(&args.over(file), |name| std::env::var(name).ok()) {
        Ok(plan) => plan,
        Err(error) => return Ok(usage(error)),
    };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // the second signal ends the process at once
        signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED.into(), Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let voice = Voice { quiet: plan.output.quiet };
    match campaign::run(&plan, &stop, &voice) {
        Err(error) if stop.load(Ordering::Relaxed) => {
            eprintln!("error: {error:#}");
            Ok(INTERRUPTED)
        }
        Err(error) => Err(error),
        Ok(None) => Ok(0),
        Ok(Some(ended)) => {
            print_report(&plan, &ended)?;
            Ok(status(&ended))
        }
    }
}

fn print_report(plan: &Plan, ended: &Ended) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let text = if plan.output.json {
        tarebench::analysis::summary::to_json(&ended.run)?
    } else if plan.output.quiet {
        return Ok(());
    } else {
        let color = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let mut text = report::terminal::render(&ended.run, report::terminal::WIDEST, color);
        text.push_str(&format!(
            "\n{0}: run.json, report.md, requests.jsonl; rebuild with: tarebench verify {0}\n",
            ended.dir.display()
        ));
        text
    };
    // a reader that has gone away is no failure of the campaign
    let _ = out.write_all(text.as_bytes());
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

fn mock(args: MockArgs) -> anyhow::Result<u8> {
    let millis = |flag: &str, ms: f64| {
        Nanos::from_secs_f64(ms / 1e3).with_context(|| format!("{flag} must be a time of 0 or more, not {ms}"))
    };
    let config = MockConfig {
        listen: args.listen,
        model: args.model,
        ttft: millis("--ttft", args.ttft)?,
        itl: millis("--itl", args.itl)?,
        jitter: args.jitter,
        seed: args.seed,
        tokens: args.tokens,
        tokens_per_event: args.tokens_per_event,
        spin: millis("--spin", args.spin / 1e3)?,
        core: args.core,
        truth: args.truth,
        stamp_every: args.stamp_every,
        script: args.script,
        script_bytes: args.script_bytes,
        time_scale: args.time_scale,
        until_stdin_closes: args.until_stdin_closes,
        close_after_reply: args.close_after_reply,
        usage: !args.no_usage,
        api_key: match args.api_key_env {
            None => None,
            Some(name) => Some(std::env::var(&name).with_context(|| format!("--api-key-env {name}: not set"))?),
        },
    };
    let mock = Mock::bind(config)?;
    println!("{}{}", mock_child::LISTENING, mock.local_addr());
    std::io::stdout().flush()?;
    let summary = mock.run()?;
    if !args.until_stdin_closes {
        eprintln!("mock: {}", serde_json::to_string(&summary)?);
    }
    Ok(0)
}

fn probe(args: &ProbeArgs) -> anyhow::Result<u8> {
    let mut target = Target::resolve(&args.base_url, None)?;
    if let Some(open) = target
        .resolved
        .iter()
        .find(|a| tarebench::target::fetch::connect(**a, std::time::Duration::from_secs(5)).is_ok())
    {
        target.use_address(*open);
    }
    let (name, by_flag) = args.api_key_env.as_ref().map_or(("OPENAI_API_KEY", false), |name| (name.as_str(), true));
    let key = std::env::var(name).ok().filter(|k| !k.is_empty());
    if by_flag && key.is_none() {
        return Ok(usage(format!("--api-key-env {name}: that variable is not set")));
    }
    let (send, note) = key_policy(name, by_flag, key.is_some(), target.is_loopback());
    note.into_iter().for_each(|note| eprintln!("{note}"));
    let mut headers: Vec<(String, String)> = args.header.iter().map(|p| (p.0.clone(), p.1.clone())).collect();
    let secret = key.filter(|_| send);
    if let Some(key) = &secret {
        headers.push(("Authorization".to_owned(), format!("Bearer {key}")));
    }
    let own: Vec<(String, String)> = args.header.iter().map(|p| (p.0.clone(), p.1.clone())).collect();
    let secret = secrets(secret.as_deref(), &own);
    let identity = identity::ask(&target, &headers, secret.as_deref())?;
    let Some(model) = args.model.clone().or_else(|| identity.models.first().cloned()) else {
        anyhow::bail!(
            "no model: /v1/models told none ({}); name one with --model",
            identity.models_error.unwrap_or_default()
        );
    };
    let body = BodyTemplate {
        api: Api::of_endpoint(&args.endpoint),
        model: model.clone(),
        stream: !args.no_stream,
        temperature: 0.0,
        top_p: 1.0,
        ignore_eos: false,
        token_proof: TokenProof::None,
        extra: match args.extra_body.as_deref().map(serde_json::from_str) {
            None => serde_json::Map::new(),
            Some(Ok(serde_json::Value::Object(fields))) => fields,
            Some(_) => return Ok(usage("--extra-body must be a JSON object")),
        },
    };
    let accept = if body.stream { "text/event-stream" } else { "application/json" };
    let template = RequestTemplate::new("POST", &target.path(&args.endpoint), &target.authority, accept, &headers)?;
    let one = OneRequest {
        address: target.address,
        request: template.with_json(&body.body(&args.prompt, args.max_tokens)),
        streamed: body.stream,
        output_tokens: args.max_tokens,
        limits: Limits::default(),
        secret,
    };
    let row = one.send(&capabilities()?)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&row)?);
    } else {
        println!(
            "server   {} ({}), {}",
            target.base_url,
            target.address,
            identity.server.as_deref().unwrap_or("no Server header")
        );
        println!("models   {}", identity.models.join(", "));
        if let Some(version) = &identity.version {
            println!("version  {version}");
        }
        println!("asked    {} of {model}, at most {} tokens\n", args.endpoint, args.max_tokens);
        print!("{}", show(&row));
    }
    Ok(if row.outcome == tarebench::rundir::row::Outcome::Ok { 0 } else { INVALID })
}

fn decode_file(args: &DecodeArgs) -> anyhow::Result<u8> {
    let input: Box<dyn Read> = match args.file.as_os_str() == "-" {
        true => Box::new(std::io::stdin()),
        false => Box::new(std::fs::File::open(&args.file).with_context(|| args.file.display().to_string())?),
    };
    let mut out = std::io::stdout().lock();
    let mut malformed = false;
    for (number, line) in BufReader::new(input).split(b'\n').enumerate() {
        let line = line.with_context(|| args.file.display().to_string())?;
        if line.trim_ascii().is_empty() {
            continue;
        }
        let parsed = String::from_utf8(line)
            .map_err(|e| e.to_string())
            .and_then(|l| decode::Case::parse(&l).map_err(|e| e.to_string()));
        match parsed {
            Ok(case) => {
                let wire = case.wire()?;
                let decoded = decode::decode(&case.id, &case.request, &wire, case.raw);
                let value = match args.record {
                    true => serde_json::to_value(&decoded.row)?,
                    false => decode::figures(&case.id, &case.request, &decoded),
                };
                writeln!(out, "{value}")?;
            }
            Err(words) => {
                malformed = true;
                eprintln!("{}:{}: {words}", args.file.display(), number + 1);
            }
        }
    }
    Ok(if malformed { USAGE } else { 0 })
}

fn verify_dir(args: &VerifyArgs) -> u8 {
    match verify::verify(&args.dir) {
        Ok(verified) => {
            println!("{verified}");
            0
        }
        Err(difference) => {
            println!("{difference}");
            FAILED
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_exit_status_says_how_it_ended() {
        let ended = |complete: bool, kind: Option<&str>, interrupted: bool| {
            let verdicts: Vec<_> =
                kind.iter().map(|kind| json!({"cell": 0, "window": 0, "kind": kind, "text": ""})).collect();
            let run = json!({"schema": "tarebench.run/1", "tarebench": null, "run_id": null, "plan_hash": null,
                "started_at": null, "complete": complete, "environment": null, "calibration": null, "cells": [],
                "verdicts": verdicts, "labels": [], "definitions": {}});
            let run = serde_json::from_value(run).expect("a run");
            status(&Ended { run, dir: std::path::PathBuf::new(), interrupted })
        };
        assert_eq!(ended(true, None, false), 0);
        assert_eq!(ended(true, Some("invalid"), false), INVALID);
        assert_eq!(ended(true, Some("failed"), false), INVALID);
        assert_eq!(ended(false, None, false), INVALID);
        assert_eq!(ended(false, Some("invalid"), true), INTERRUPTED);
    }
}
