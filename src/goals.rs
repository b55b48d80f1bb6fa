//! What a load must keep to: goals of a request and of a window, fixed before the run.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Share of the kept requests that must meet the goals of a request, unless told otherwise.
pub const SHARE: f64 = 0.99;

/// Goals of a campaign, as they stand in the plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Goals {
    /// Each request's, by metric, in ms: the request meets them when it is ok and no figure is above its limit.
    pub request: BTreeMap<RequestMetric, f64>,
    /// The share of the kept requests that must meet them.
    pub share: f64,
    /// Each window's: at most, or for rates at least.
    pub window: BTreeMap<WindowFigure, f64>,
}

/// A figure of one request. In open loop ttft, ttfo and e2e are counted from due, else gross; the others are gross.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RequestMetric {
    /// Time to first token.
    Ttft,
    /// Time to first visible output.
    Ttfo,
    /// Time to last token.
    E2e,
    /// Time per output token after the first.
    Tpot,
    /// End to end per output token.
    Ntpot,
    /// Longest gap.
    Stall,
}

impl RequestMetric {
    const ALL: [(&'static str, RequestMetric); 7] = [
        ("ttft", RequestMetric::Ttft),
        ("ttfo", RequestMetric::Ttfo),
        ("e2e", RequestMetric::E2e),
        ("e2el", RequestMetric::E2e),
        ("tpot", RequestMetric::Tpot),
        ("ntpot", RequestMetric::Ntpot),
        ("stall", RequestMetric::Stall),
    ];

    fn named(name: &str) -> Option<RequestMetric> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, metric)| *metric)
    }

    /// As it is written in flags and files.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, metric)| *metric == self).map_or("", |(name, _)| name)
    }
}

/// A figure of one window.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(into = "String", try_from = "String")]
pub enum WindowFigure {
    /// A percentile of a request's metric or of its gaps, in ms: at most.
    Percentile {
        /// `ttft`, `ttfo`, `e2e`, `gap`, `stall`, `tpot`, `ntpot`; of sessions `session` (from first due to last token) and
        /// `waited` (of that without the pauses).
        metric: String,
        /// `p50` to `p999`.
        percentile: String,
    },
    /// Share of the kept requests that failed: at most.
    Failed,
    /// Output tokens per s: at least.
    OutputTokensPerS,
    /// Ok requests per s: at least.
    RequestsPerS,
    /// Time from something done on purpose until every figure that it moved was back, in s: at most.
    RecoveryS,
}

impl WindowFigure {
    /// Whether the limit is one from below.
    pub fn is_at_least(&self) -> bool {
        matches!(self, WindowFigure::OutputTokensPerS | WindowFigure::RequestsPerS)
    }
}

impl std::fmt::Display for WindowFigure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WindowFigure::Percentile { metric, percentile } => write!(f, "{metric}.{percentile}"),
            WindowFigure::Failed => f.write_str("failed"),
            WindowFigure::OutputTokensPerS => f.write_str("output_tokens_per_s"),
            WindowFigure::RequestsPerS => f.write_str("requests_per_s"),
            WindowFigure::RecoveryS => f.write_str("recovery_s"),
        }
    }
}

impl From<WindowFigure> for String {
    fn from(figure: WindowFigure) -> String {
        figure.to_string()
    }
}

impl TryFrom<String> for WindowFigure {
    type Error = BadGoals;

    fn try_from(name: String) -> Result<Self, BadGoals> {
        let metrics = ["ttft", "ttfo", "e2e", "gap", "stall", "tpot", "ntpot", "session", "waited"];
        let percentiles = ["p50", "p90", "p95", "p99", "p999"];
        match (name.as_str(), name.split_once('.')) {
            ("failed", _) => Ok(WindowFigure::Failed),
            ("output_tokens_per_s", _) => Ok(WindowFigure::OutputTokensPerS),
            ("requests_per_s", _) => Ok(WindowFigure::RequestsPerS),
            ("recovery_s", _) => Ok(WindowFigure::RecoveryS),
            (_, Some((metric, percentile))) if metrics.contains(&metric) && percentiles.contains(&percentile) => {
                Ok(WindowFigure::Percentile { metric: metric.into(), percentile: percentile.into() })
            }
            _ => Err(BadGoals::Window(name)),
        }
    }
}

/// Goals that cannot be.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum BadGoals {
    /// Not `metric:ms`.
    #[error("{0:?} is not METRIC:MS, like ttft:500")]
    Form(String),
    /// No such metric.
    #[error("no goal can be set on {0:?}; a request has ttft, ttfo, e2e, tpot, ntpot and stall")]
    Request(String),
    /// No such figure.
    #[error(
        "no goal can be set on {0:?}; a window has METRIC.PERCENTILE like ttft.p99 (ttft, ttfo, e2e, gap, stall, tpot, ntpot, \
         of sessions session and waited; p50, p90, p95, p99, p999), failed, output_tokens_per_s, requests_per_s and recovery_s"
    )]
    Window(String),
    /// A limit that is none.
    #[error("the goal on {0} must be a number above 0, not {1}")]
    Limit(String, f64),
    /// A share that is none.
    #[error("share must be above 0 and at most 1, not {0}")]
    Share(f64),
    /// Twice the same.
    #[error("two goals on {0}")]
    Twice(&'static str),
    /// A goal on sessions where there are none.
    #[error("{0} is a figure of sessions, and there are none: add --sessions or --chain, or leave the goal out")]
    NoSessions(String),
    /// A file without a single goal.
    #[error("sets no goal: write some under [request] or [window], or leave the file out")]
    None,
    /// A file that is no TOML of this form.
    #[error("{0}")]
    File(String),
}

/// A file of goals as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    request: BTreeMap<String, f64>,
    share: Option<f64>,
    #[serde(default)]
    window: BTreeMap<String, f64>,
}

impl WindowFigure {
    /// It is told of sessions only.
    pub fn is_of_sessions(&self) -> bool {
        matches!(self, WindowFigure::Percentile { metric, .. } if ["session", "waited"].contains(&metric.as_str()))
    }
}

impl Goals {
    /// Goals of the file's text and of `--goodput`, which replaces the file's goals of a request. None without either.
    ///
    /// # Errors
    /// [`BadGoals`].
    pub fn new(file: Option<&str>, goodput: &[String]) -> Result<Option<Goals>, BadGoals> {
        let written: Written = match file {
            Some(text) => toml::from_str(text).map_err(|e| BadGoals::File(e.to_string()))?,
            None => Written { request: BTreeMap::new(), share: None, window: BTreeMap::new() },
        };
        let share = written.share.unwrap_or(SHARE);
        if !(share > 0.0 && share <= 1.0) {
            return Err(BadGoals::Share(share));
        }
        if file.is_some() && written.request.is_empty() && written.window.is_empty() {
            return Err(BadGoals::None);
        }
        let request: Vec<(String, f64)> = match goodput {
            [] => written.request.into_iter().collect(),
            given => given.iter().map(|text| pair(text)).collect::<Result<_, _>>()?,
        };
        let mut goals = Goals { request: BTreeMap::new(), share, window: BTreeMap::new() };
        for (name, limit) in request {
            let metric = RequestMetric::named(&name).ok_or(BadGoals::Request(name))?;
            if goals.request.insert(metric, positive(metric.name(), limit)?).is_some() {
                return Err(BadGoals::Twice(metric.name()));
            }
        }
        for (name, limit) in written.window {
            let limit = positive(&name, limit)?;
            goals.window.insert(WindowFigure::try_from(name)?, limit);
        }
        Ok((!goals.request.is_empty() || !goals.window.is_empty()).then_some(goals))
    }
}

fn pair(text: &str) -> Result<(String, f64), BadGoals> {
    let form = || BadGoals::Form(text.to_owned());
    let (name, limit) = text.split_once([':', '=']).ok_or_else(form)?;
    Ok((name.trim().to_owned(), limit.trim().parse().map_err(|_| form())?))
}

fn positive(name: &str, limit: f64) -> Result<f64, BadGoals> {
    if limit > 0.0 && limit.is_finite() { Ok(limit) } else { Err(BadGoals::Limit(name.to_owned(), limit)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(text: &str) -> Result<Option<Goals>, BadGoals> {
        Goals::new(None, &text.split(',').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn flags_and_files() {
        let goals = flags("ttft:500,e2el:8000").unwrap().unwrap();
        assert_eq!(goals.request, BTreeMap::from([(RequestMetric::Ttft, 500.0), (RequestMetric::E2e, 8000.0)]));
        assert_eq!((goals.share, goals.window.len()), (SHARE, 0));
        let file = "share = 0.95\n[request]\ntpot = 40\n[window]\n\"ttft.p99\" = 900\nfailed = 0.01\noutput_tokens_per_s = 300\n";
        let goals = Goals::new(Some(file), &[]).unwrap().unwrap();
        assert_eq!(goals.request, BTreeMap::from([(RequestMetric::Tpot, 40.0)]));
        let names: Vec<String> = goals.window.keys().map(ToString::to_string).collect();
        assert_eq!(names, ["ttft.p99", "failed", "output_tokens_per_s"]);
        let over = Goals::new(Some(file), &["ttft:1".to_owned()]).unwrap().unwrap();
        assert_eq!(over.request, BTreeMap::from([(RequestMetric::Ttft, 1.0)]), "the flag replaces the file's");
        let text = serde_json::to_string(&goals).unwrap();
        assert_eq!(serde_json::from_str::<Goals>(&text).unwrap(), goals);
        for empty in ["", "share = 0.9", "[request]"] {
            assert_eq!(Goals::new(Some(empty), &[]), Err(BadGoals::None), "asked for, and nothing would be judged");
        }
        assert_eq!(Goals::new(None, &[]).unwrap(), None);
    }

    #[test]
    fn nonsense_is_named() {
        let said = |found: Result<Option<Goals>, BadGoals>| found.unwrap_err().to_string();
        assert!(said(flags("ttft")).contains("METRIC:MS"));
        assert!(said(flags("ttft:fast")).contains("METRIC:MS"));
        assert!(said(flags("itl:5")).contains("no goal can be set on \"itl\""));
        for bad in ["ttft:0", "ttft:-1", "ttft:inf", "ttft:NaN"] {
            assert!(said(flags(bad)).contains("above 0"), "{bad}");
        }
        assert!(said(flags("e2e:1,e2el:2")).contains("two goals on e2e"));
        assert!(said(Goals::new(Some("[window]\n\"ttft.p98\" = 1"), &[])).contains("ttft.p98"));
        assert!(Goals::new(Some("[window]\n\"session.p95\" = 9000\n\"waited.p95\" = 900"), &[]).is_ok());
        assert!(said(Goals::new(Some("share = 2"), &[])).contains("share"));
        assert!(said(Goals::new(Some("shares = 1"), &[])).contains("shares"));
        assert!(said(Goals::new(Some("[request"), &[])).contains("request"));
    }
}
