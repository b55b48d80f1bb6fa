//! `tarebench probe`.

use crate::INVALID;
use crate::commands::console::{complain, tell, usage};
use anyhow::Context;
use bench_engine::clock::SystemClock;
use bench_engine::io::capabilities::{capabilities, choose};
use bench_engine::timers::Limits;
use bench_engine::units::Nanos;
use bench_engine::wire::request::RequestTemplate;
use tarebench::campaign;
use tarebench::cli::ProbeArgs;
use tarebench::plan::MetricsWords;
use tarebench::probe::{OneRequest, show};
use tarebench::target::address::Target;
use tarebench::target::metrics_source::MetricsSource;
use tarebench::target::openai::{Api, BodyTemplate, TokenProof};
use tarebench::target::route::Route;
use tarebench::target::secret::{Headers, KeySource, key_policy, secrets};
use tarebench::target::tls::TlsWords;
use tarebench::target::{facts, fetch, identity};
use tarebench::workload::prompt::Prompt;

/// Asks a server what it is and sends it one request; the exit status.
pub fn probe(args: &ProbeArgs) -> anyhow::Result<u8> {
    let client = match (args.client_cert.clone(), args.client_key.clone()) {
        (Some(chain), Some(key)) => Some((chain, key)),
        (None, None) => None,
        _ => return Ok(usage("--client-cert and --client-key have no meaning without one another".to_owned())),
    };
    let tls = TlsWords { ca_file: args.ca_file.clone(), client, insecure: args.insecure, resume: false };
    if tls != TlsWords::default() && !args.base_url.to_ascii_lowercase().starts_with("https://") {
        return Ok(usage("flags of TLS have no meaning without an https:// URL"));
    }
    if tls.insecure && tls.ca_file.is_some() {
        return Ok(usage("--insecure and --ca-file do not go together: leave one out"));
    }
    let connect = match Nanos::from_secs_f64(args.connect_timeout).filter(|span| *span > Nanos::ZERO) {
        Some(connect) => connect,
        None => {
            let got = args.connect_timeout;
            return Ok(usage(format!("--connect-timeout must be a number of seconds above 0, not {got}")));
        }
    };
    let mut target = Target::resolve(&args.base_url, args.address.as_deref(), &tls)?;
    target.settle(|address| fetch::connect(address, connect).map(drop))?;
    let source = KeySource::of(args.api_key_env.as_deref(), args.api_key_file.as_deref());
    if args.api_key_env.is_some() && args.api_key_file.is_some() {
        return Ok(usage("--api-key-file and --api-key-env do not go together: a request has one key"));
    }
    let key = match source.read(|name| std::env::var(name).ok()) {
        Ok(key) => key,
        Err(no_key) => return Ok(usage(no_key.to_string())),
    };
    let (send, note) = key_policy(&source, key.is_some(), target.way());
    note.into_iter().for_each(complain);
    let key = key.filter(|_| send);
    let own = Headers::new(args.header.iter().map(|p| (p.0.clone(), p.1.clone())).collect());
    let headers = own.with_key(key.as_ref());
    let secret = secrets(key.as_deref(), &own);
    let mut identity = identity::ask(&target, &headers, secret.as_deref(), connect)?;
    let Some(model) = args.model.clone().or_else(|| identity.models.first().cloned()) else {
        anyhow::bail!(
            "no model: /v1/models told none ({}); name one with --model",
            identity.models_error.unwrap_or_default()
        );
    };
    let metrics = MetricsSource::find(&MetricsWords::BesideLoad, &target, &headers, secret.as_deref(), connect)?;
    let first = metrics.as_ref().ok().and_then(MetricsSource::first);
    identity.facts = facts::ask(&target, &headers, secret.as_deref(), &identity, &model, first, connect);
    identity.started(first, SystemClock.wall());
    let route = Route::probe(&target, connect).ok();
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
        target: target.clone(),
        request: template.with_json(&body.body(&Prompt::Text(args.prompt.clone()), args.max_tokens)),
        streamed: body.stream,
        output_tokens: args.max_tokens,
        limits: Limits { connect, ..Limits::default() },
        secret,
    };
    let choice = choose(args.arm.map(Into::into)).context(campaign::NO_SUCH_ARM)?;
    if let Some(refused) = &choice.refused {
        complain(campaign::fallen_back(refused));
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
            if let Some(tls) = &route.tls {
                text.push_str(&format!("tls      {}\n", tls.words()));
            }
        }
        text.push_str(&format!("asked    {} of {model}, at most {} tokens\n\n", args.endpoint, args.max_tokens));
        text.push_str(&show(&row));
    }
    tell(&text);
    Ok(if row.outcome == tarebench::rundir::row::Outcome::Ok { 0 } else { INVALID })
}
