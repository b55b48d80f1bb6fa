//! The server as typed: where it is, what is sent with every request, what must not be shown.

use super::{BadPlan, range};
use crate::cli::RunArgs;
use crate::target::address;
use crate::target::secret::{Headers, KeySource};
use crate::target::tls::{Planned, TlsWords};
use bench_engine::units::Nanos;
use bench_engine::wire::request::well_formed;
use serde_json::{Map, Value};

/// Where the server is to be found, as typed.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetWords {
    /// None: the built-in mock.
    pub base_url: Option<String>,
    /// `--address`.
    pub address: Option<String>,
    /// `--model`.
    pub model: Option<String>,
    /// `--wait`.
    pub wait: Nanos,
    /// The user's own headers.
    pub headers: Headers,
    /// Where a mock on another host serves its log, and how much of that is known already, in bytes.
    pub remote_truth: Option<(String, u64)>,
    /// More flags of the built-in mock.
    pub mock_flags: Vec<String>,
    /// Where the key is.
    pub key: KeySource,
    /// The flags of TLS.
    pub tls: TlsWords,
    /// `--metrics-url`.
    pub metrics: MetricsWords,
}

/// Where the server's own counters are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetricsWords {
    /// At the server itself, when it has them.
    BesideLoad,
    /// Not at all.
    Nowhere,
    /// At this URL.
    At(String),
}

impl MetricsWords {
    pub(super) fn of(given: Option<&str>) -> Self {
        match given {
            None => MetricsWords::BesideLoad,
            Some("none") => MetricsWords::Nowhere,
            Some(url) => MetricsWords::At(url.to_owned()),
        }
    }
}

/// `http://user:password@host`: it would stand in the plan and in every report.
pub(super) fn has_user_info(url: &str) -> bool {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest).split(['/', '?', '#']).next();
    authority.is_some_and(|authority| authority.contains('@'))
}

pub(super) fn extra_body(text: Option<&str>) -> Result<Map<String, Value>, BadPlan> {
    match text.map(serde_json::from_str::<Value>) {
        None => Ok(Map::new()),
        Some(Ok(Value::Object(fields))) => Ok(fields),
        Some(Ok(other)) => Err(BadPlan::ExtraBody(format!("this is {other}"))),
        Some(Err(error)) => Err(BadPlan::ExtraBody(error.to_string())),
    }
}

/// The flags of TLS, where they have a meaning: beside an https URL.
pub(super) fn tls(args: &RunArgs) -> Result<TlsWords, BadPlan> {
    let urls = [&args.base_url, &args.interleave, &args.metrics_url];
    let secure = urls.into_iter().flatten().any(|url| is_https(url));
    let given = [
        ("--ca-file", args.ca_file.is_some()),
        ("--client-cert", args.client_cert.is_some()),
        ("--client-key", args.client_key.is_some()),
        ("--insecure", args.insecure),
        ("--tls-resume", args.tls_resume),
    ];
    if let Some((flag, _)) = given.into_iter().find(|(_, given)| *given && !secure) {
        return Err(BadPlan::Alone { flag, other: "an https:// URL" });
    }
    let client = match (args.client_cert.clone(), args.client_key.clone()) {
        (Some(chain), Some(key)) => Some((chain, key)),
        (None, None) => None,
        (Some(_), None) => return Err(BadPlan::Alone { flag: "--client-cert", other: "--client-key" }),
        (None, Some(_)) => return Err(BadPlan::Alone { flag: "--client-key", other: "--client-cert" }),
    };
    if args.insecure && args.ca_file.is_some() {
        let why = "one asks that the server be verified, the other that it be not; leave one out";
        return Err(BadPlan::Together { flag: "--insecure", other: "--ca-file", why });
    }
    Ok(TlsWords { ca_file: args.ca_file.clone(), client, insecure: args.insecure, resume: args.tls_resume })
}

/// Whether the URLs and `--address` can lead anywhere, as far as that is known before anybody is asked.
pub(super) fn addresses(args: &RunArgs, tls: &TlsWords) -> Result<(), BadPlan> {
    let pin = args.address.as_deref();
    if pin.is_some() && args.base_url.is_none() {
        return Err(BadPlan::Alone { flag: "--address", other: "--base-url" });
    }
    for (flag, url, pin) in [("--base-url", &args.base_url, pin), ("--interleave", &args.interleave, None)] {
        url.as_deref().map(|url| address::check(flag, url, pin, tls)).transpose()?;
    }
    match MetricsWords::of(args.metrics_url.as_deref()) {
        MetricsWords::At(url) => Ok(address::check("--metrics-url", &url, None, &tls.to_others())?),
        MetricsWords::BesideLoad | MetricsWords::Nowhere => Ok(()),
    }
}

/// TLS of the load, when it has any.
pub(super) fn planned_tls(url: Option<&str>, words: &TlsWords) -> Option<Planned> {
    url.filter(|url| is_https(url)).map(|_| words.planned())
}

fn is_https(url: &str) -> bool {
    url.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://"))
}

/// Where the key is. That it is there is looked at now, before anything is begun.
pub(super) fn key(args: &RunArgs, environment: impl Fn(&str) -> Option<String>) -> Result<KeySource, BadPlan> {
    if args.api_key_env.is_some() && args.api_key_file.is_some() {
        let why = "a request has one key; leave one out";
        return Err(BadPlan::Together { flag: "--api-key-file", other: "--api-key-env", why });
    }
    let source = KeySource::of(args.api_key_env.as_deref(), args.api_key_file.as_deref());
    source.read(environment)?;
    Ok(source)
}

/// The user's own headers.
pub(super) fn headers(args: &RunArgs) -> Result<Headers, BadPlan> {
    let bad = args.header.iter().find(|p| !well_formed(&p.0, &p.1));
    if let Some(bad) = bad {
        let allowed = "NAME=VALUE with a name of letters, digits and -, not Content-Length or Transfer-Encoding, and a value \
                       without line breaks or control characters";
        return Err(range("--header", allowed, format!("one named {:?}", bad.0)));
    }
    Ok(Headers::new(args.header.iter().map(|p| (p.0.clone(), p.1.clone())).collect()))
}

/// Names of the headers of ours that are not to be sent.
pub(super) fn removed_headers(args: &RunArgs) -> Result<Vec<String>, BadPlan> {
    let name = |given: &String| match given.to_ascii_lowercase() {
        name if ["accept", "accept-encoding", "user-agent"].contains(&name.as_str()) => Ok(name),
        _ => Err(range("--remove-header", "Accept, Accept-Encoding or User-Agent", format!("{given:?}"))),
    };
    args.remove_header.iter().map(name).collect()
}
