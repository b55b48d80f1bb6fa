//! Finding the server: the built-in mock or one that runs elsewhere, what it says it is, how it is spoken to.

use super::mock_child::MockChild;
use super::{Voice, environment};
use crate::evidence::LOAD;
use crate::plan::Plan;
use crate::target::address::Target;
use crate::target::facts;
use crate::target::fetch;
use crate::target::identity::{self, Identity};
use crate::target::metrics_source::{Found, MetricsSource};
use crate::target::openai::BodyTemplate;
use crate::target::route::Route;
use crate::target::secret::{Headers, Secret, key_policy, secrets};
use anyhow::{Context, bail};
use bench_engine::clock::{Clock, SystemClock};
use bench_engine::units::Nanos;
use bench_engine::wire::request::RequestTemplate;
use calibration::truth::fetch_truth;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Longest time for fetching the log of a mock on another host.
const LOG_PATIENCE: Nanos = Nanos::from_secs(30);

/// A server found, and how it is spoken to.
pub(super) struct Server {
    pub(super) target: Target,
    pub(super) identity: Identity,
    pub(super) model: String,
    pub(super) headers: Headers,
    pub(super) secret: Option<Secret>,
    pub(super) mock: Option<MockChild>,
    /// The way there; None when the one more connection that shows it was refused.
    pub(super) route: Option<Route>,
    /// Where its own counters are read.
    pub(super) metrics: Found,
}

/// Starts the mock, or waits for the server; asks it what it is.
pub(super) fn find_server(
    plan: &Plan,
    dir: &Path,
    mock_core: Option<usize>,
    stop: &AtomicBool,
    voice: &Voice,
) -> anyhow::Result<Server> {
    let words = &plan.target;
    let (mock, url) = match &words.base_url {
        Some(url) => (None, url.clone()),
        None => {
            let flags: Vec<&str> = words.mock_flags.iter().map(String::as_str).collect();
            let mock = MockChild::start(mock_core, &dir.join(LOAD.truth), &flags)?;
            let url = mock.base_url.clone();
            (Some(mock), url)
        }
    };
    for name in environment::ignored_proxies(|name| std::env::var(name).ok()) {
        voice.say(format!("proxy variable {name} is set and ignored: the server is spoken to directly"));
    }
    let mut target = Target::resolve(&url, words.address.as_deref(), &words.tls)?;
    let connect = plan.limits.connect;
    wait_for(&mut target, words.wait, connect, stop, voice)?;
    let key = words.key.read(|name| std::env::var(name).ok())?;
    let (send, note) = key_policy(&words.key, key.is_some() && mock.is_none(), target.way());
    note.into_iter().for_each(|note| voice.say(note));
    let key = key.filter(|_| send);
    let headers = words.headers.with_key(key.as_ref());
    let secret = secrets(key.as_deref(), &words.headers);
    let mut identity = ask_when_ready(&target, &headers, secret.as_deref(), words.wait, connect, stop)?;
    let model = match words.model.clone().or_else(|| identity.models.first().cloned()) {
        Some(model) => model,
        None => bail!(
            "no model: /v1/models of {} told none ({}); name one with --model",
            target.base_url,
            identity.models_error.as_deref().unwrap_or("empty list")
        ),
    };
    if !identity.models.is_empty() && !identity.models.contains(&model) {
        voice.say(format!("WARNING: --model {model:?} is not in /v1/models ({})", identity.models.join(", ")));
    }
    let metrics = MetricsSource::find(&words.metrics, &target, &headers, secret.as_deref(), connect)?;
    let first = metrics.as_ref().ok().and_then(MetricsSource::first);
    identity.facts = facts::ask(&target, &headers, secret.as_deref(), &identity, &model, first, connect);
    identity.started(first, SystemClock.wall());
    let route = Route::probe(&target, connect).ok();
    Ok(Server { target, identity, model, headers, secret, mock, route, metrics })
}

/// Asks the server what it is; while it answers that it is still loading, as long as it was to be waited for.
fn ask_when_ready(
    target: &Target,
    headers: &[(String, String)],
    secret: Option<&str>,
    patience: Nanos,
    connect: Nanos,
    stop: &AtomicBool,
) -> anyhow::Result<Identity> {
    let until = SystemClock.now() + patience;
    loop {
        let identity = identity::ask(target, headers, secret, connect)?;
        if !identity.not_ready || SystemClock.now() >= until || stop.load(Ordering::Relaxed) {
            return Ok(identity);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Finds the addresses of the target that accept connections, waiting for them when asked to.
fn wait_for(
    target: &mut Target,
    patience: Nanos,
    connect: Nanos,
    stop: &AtomicBool,
    voice: &Voice,
) -> anyhow::Result<()> {
    let clock = SystemClock;
    let until = clock.now() + patience;
    let mut told = false;
    loop {
        let words = match target.settle(|address| fetch::connect(address, connect).map(drop)) {
            Ok(()) => return Ok(()),
            Err(refused) => refused.to_string(),
        };
        if stop.load(Ordering::Relaxed) {
            bail!("interrupted while waiting for the server ({words})");
        }
        if clock.now() >= until {
            bail!("{words}; is the server running? --wait SECONDS waits for it");
        }
        if !std::mem::replace(&mut told, true) {
            voice.say(format!("{words}; waiting up to {patience}"));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Writes what a mock on another host has logged from byte `from` on into `dir`; gives where to go on.
pub(super) fn fetch_log(url: &str, from: u64, dir: &Path, stop: &AtomicBool) -> anyhow::Result<u64> {
    // the mock makes its rows visible within 200 ms of the end of a reply
    std::thread::sleep(Duration::from_millis(400));
    let (mut log, mut at) = (String::new(), from);
    let until = SystemClock.now() + LOG_PATIENCE;
    // a mock that serves others as well always has more
    while SystemClock.now() < until && !stop.load(Ordering::Relaxed) {
        let (rows, next) = fetch_truth(url, at, Duration::from_secs(20))?;
        at = next;
        if rows.is_empty() {
            break;
        }
        for row in rows {
            log.push_str(&serde_json::to_string(&row)?);
            log.push('\n');
        }
    }
    let path = dir.join(LOAD.truth);
    std::fs::write(&path, log).with_context(|| path.display().to_string())?;
    Ok(at)
}

pub(super) fn body_template(plan: &Plan, model: &str) -> BodyTemplate {
    BodyTemplate {
        api: plan.api,
        model: model.to_owned(),
        stream: plan.stream,
        temperature: plan.temperature,
        top_p: plan.top_p,
        ignore_eos: plan.ignore_eos,
        token_proof: plan.token_proof,
        extra: plan.extra_body.clone(),
    }
}

pub(super) fn request_template(plan: &Plan, server: &Server) -> anyhow::Result<RequestTemplate> {
    let accept = if plan.stream { "text/event-stream" } else { "application/json" };
    let target = &server.target;
    let path = target.path(&plan.endpoint);
    let template = RequestTemplate::new("POST", &path, &target.authority, accept, &server.headers)?;
    Ok(plan.removed_headers.iter().fold(template, |template, name| template.without(name)))
}
