//! `tarebench probe`.

use crate::INVALID;
use crate::commands::console::{tell, usage};
use anyhow::Context;
use bench_engine::clock::SystemClock;
use bench_engine::io::capabilities::{capabilities, choose};
use bench_engine::timers::Limits;
use bench_engine::wire::request::RequestTemplate;
use tarebench::campaign;
use tarebench::cli::ProbeArgs;
use tarebench::plan::{MetricsWords, key_policy, secrets};
use tarebench::probe::{OneRequest, show};
use tarebench::target::address::Target;
use tarebench::target::metrics_source::MetricsSource;
use tarebench::target::openai::{Api, BodyTemplate, TokenProof};
use tarebench::target::route::Route;
use tarebench::target::{facts, identity};
use tarebench::workload::prompt::Prompt;

/// Asks a server what it is and sends it one request; the exit status.
pub fn probe(args: &ProbeArgs) -> anyhow::Result<u8> {
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
    let mut identity = identity::ask(&target, &headers, secret.as_deref())?;
    let Some(model) = args.model.clone().or_else(|| identity.models.first().cloned()) else {
        anyhow::bail!(
            "no model: /v1/models told none ({}); name one with --model",
            identity.models_error.unwrap_or_default()
        );
    };
    let metrics = MetricsSource::find(&MetricsWords::BesideLoad, &target, &headers, secret.as_deref())?;
    let first = metrics.as_ref().ok().and_then(MetricsSource::first);
    identity.facts = facts::ask(&target, &headers, secret.as_deref(), &identity, &model, first);
    identity.started(first, SystemClock.wall());
    let route = Route::probe(target.address, std::time::Duration::from_secs(5)).ok();
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
        request: template.with_json(&body.body(&Prompt::Text(args.prompt.clone()), args.max_tokens)),
        streamed: body.stream,
        output_tokens: args.max_tokens,
        limits: Limits::default(),
        secret,
    };
    let choice = choose(args.arm.map(Into::into)).context(campaign::NO_SUCH_ARM)?;
    if let Some(refused) = &choice.refused {
        eprintln!("{}", campaign::fallen_back(refused));
    }
    let row = one.send(&capabilities(choice.driver)?)?;
    let mut text = String::new();
    if args.json {
        text.push_str(&(serde_json::to_string_pretty(&row)? + "\n"));
    } else {
        let said = identity.server.as_deref().unwrap_or("no Server header");
        text.push_str(&format!("server   {} ({}), {said}\n", target.base_url, target.address));
        text.push_str(&format!("models   {}\n", identity.models.join(", ")));
        if let Some(version) = &identity.version {
            text.push_str(&format!("version  {version}\n"));
        }
        let facts = facts::words(&identity.facts);
        if !facts.is_empty() {
            text.push_str(&format!("facts    {facts}\n"));
        }
        match &metrics {
            Ok(source) => text.push_str(&format!("metrics  {}\n", source.figures())),
            Err(why) => text.push_str(&format!("metrics  none ({why})\n")),
        }
        if let (Some(at), Some(age_s)) = (&identity.started_at, identity.age_s) {
            text.push_str(&format!("started  {at}, {age_s:.0} s ago\n"));
        }
        if let Some(route) = &route {
            text.push_str(&format!("network  {}\n", route.words()));
        }
        text.push_str(&format!("asked    {} of {model}, at most {} tokens\n\n", args.endpoint, args.max_tokens));
        text.push_str(&show(&row));
    }
    tell(&text);
    Ok(if row.outcome == tarebench::rundir::row::Outcome::Ok { 0 } else { INVALID })
}
