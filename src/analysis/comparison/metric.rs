//! Which figure of a window is compared, and how its values read.

use crate::rundir::window::LoadModel;
use std::fmt;
use std::str::FromStr;

/// Compared when nothing else is asked for.
pub const DEFAULT: [&str; 3] = ["ttft.p50", "ttft.p99", "e2e.p50"];

const SINCE_SEND: [&str; 3] = ["ttft", "ttfo", "e2e"];
const BETWEEN: [&str; 5] = ["gap", "stall", "tpot", "tpot_adj", "ntpot"];
const SINGLE: [&str; 3] = ["upload", "lateness", "dispatch_delay"];
/// Of sessions: their time, and what of it was waited for; `task` is another word for the latter.
const OF_SESSIONS: [&str; 2] = ["session", "waited"];
const PERCENTILES: [&str; 5] = ["p50", "p90", "p95", "p99", "p999"];
const THROUGHPUT: [(&str, &str); 3] =
    [("requests", "requests_per_s"), ("output", "output_tokens_per_s"), ("total", "total_tokens_per_s")];

/// A figure that every window has one of, fixed before the comparison: `ttft.p50`, `gap.net.p99`, `throughput.output`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    name: String,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Latency { metric: &'static str, column: Column, percentile: &'static str },
    Throughput { field: &'static str },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    /// As people meet it: from due in open loop, where waiting for a slot is part of the latency; gross elsewhere.
    Met,
    Named(&'static str),
    Only,
}

/// No such figure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no metric to compare: write METRIC.PERCENTILE or METRIC.COLUMN.PERCENTILE, with METRIC one of ttft, ttfo, \
     e2e, gap, stall, tpot, tpot_adj, ntpot, upload, lateness, dispatch_delay, of sessions session and waited (or task), COLUMN gross, tare, net or due, PERCENTILE \
     p50, p90, p95, p99 or p999 (ttft.p50, gap.net.p99); or throughput.requests, throughput.output, throughput.total"
)]
pub struct NoSuchMetric(pub String);

impl FromStr for Metric {
    type Err = NoSuchMetric;

    fn from_str(name: &str) -> Result<Metric, NoSuchMetric> {
        kind(name).map(|kind| Metric { name: name.to_owned(), kind }).ok_or_else(|| NoSuchMetric(name.to_owned()))
    }
}

fn kind(name: &str) -> Option<Kind> {
    let one_of = |words: &[&'static str], word: &str| words.iter().find(|w| **w == word).copied();
    let parts: Vec<&str> = name.split('.').collect();
    let (metric, column, percentile) = match parts[..] {
        ["throughput", field] => {
            let (_, field) = THROUGHPUT.iter().find(|(name, _)| *name == field)?;
            return Some(Kind::Throughput { field });
        }
        [metric, percentile] => (metric, None, percentile),
        [metric, column, percentile] => (metric, Some(column), percentile),
        _ => return None,
    };
    let percentile = one_of(&PERCENTILES, percentile)?;
    let metric = if metric == "task" { "waited" } else { metric };
    match one_of(&OF_SESSIONS, metric) {
        Some("session") => {
            return column.is_none().then_some(Kind::Latency { metric: "session", column: Column::Only, percentile });
        }
        Some(metric) => {
            let column = match column {
                None => Column::Met,
                Some(column) => Column::Named(one_of(&["gross", "tare", "net", "due"], column)?),
            };
            return Some(Kind::Latency { metric, column, percentile });
        }
        None => {}
    }
    if let Some(metric) = one_of(&SINGLE, metric) {
        return column.is_none().then_some(Kind::Latency { metric, column: Column::Only, percentile });
    }
    let (metric, columns): (_, &[&'static str]) = match one_of(&SINCE_SEND, metric) {
        Some(metric) => (metric, &["gross", "tare", "net", "due"]),
        None => (one_of(&BETWEEN, metric)?, &["gross", "tare", "net"]),
    };
    let column = match column {
        None if columns.contains(&"due") => Column::Met,
        None => Column::Named("gross"),
        Some(column) => Column::Named(one_of(columns, column)?),
    };
    Some(Kind::Latency { metric, column, percentile })
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Where a metric stands in a window.
fn home(metric: &str) -> &'static str {
    if OF_SESSIONS.contains(&metric) { "/sessions" } else { "/metrics" }
}

/// The column that an unnamed one stands for under a load: `due` in open loop, else `gross`.
pub fn column_met(load: LoadModel) -> &'static str {
    if load == LoadModel::Closed { "gross" } else { "due" }
}

impl Metric {
    /// The same of net; None where it is that already, or has none.
    pub(super) fn of_net(&self) -> Option<Metric> {
        match &self.kind {
            Kind::Latency { metric, column: Column::Met | Column::Named("gross" | "due"), percentile } => {
                format!("{metric}.net.{percentile}").parse().ok()
            }
            _ => None,
        }
    }

    /// Where its value stands in a window of `run.json`.
    pub(super) fn pointer(&self, load: LoadModel) -> String {
        match &self.kind {
            Kind::Throughput { field } => format!("/throughput/{field}"),
            Kind::Latency { percentile, .. } => format!("{}/{percentile}_ms", self.column_pointer(load)),
        }
    }

    /// Where its distribution stands; the throughput object for a throughput.
    pub(super) fn column_pointer(&self, load: LoadModel) -> String {
        match &self.kind {
            Kind::Throughput { .. } => "/throughput".to_owned(),
            Kind::Latency { metric: "session", .. } => "/sessions/duration".to_owned(),
            Kind::Latency { metric, .. } => {
                let home = home(metric);
                self.column(load).map_or_else(|| format!("{home}/{metric}"), |c| format!("{home}/{metric}/{c}"))
            }
        }
    }

    /// Where the harness's own share of it stands; None where there is none, or it is itself the harness's.
    pub(super) fn tare_pointer(&self) -> Option<String> {
        match &self.kind {
            Kind::Latency { metric, column, percentile } if !matches!(column, Column::Only | Column::Named("tare")) => {
                Some(format!("{}/{metric}/tare/{percentile}_ms", home(metric)))
            }
            _ => None,
        }
    }

    fn column(&self, load: LoadModel) -> Option<&'static str> {
        match self.kind {
            Kind::Latency { column: Column::Met, .. } => Some(column_met(load)),
            Kind::Latency { column: Column::Named(column), .. } => Some(column),
            _ => None,
        }
    }

    /// Whether a verdict of a window (its metric, column, percentile; `*` and none are all) speaks of it.
    pub(super) fn is_meant(&self, load: LoadModel, metric: &str, column: &str, percentile: Option<&str>) -> bool {
        match &self.kind {
            Kind::Throughput { .. } => metric == "throughput",
            Kind::Latency { metric: own, percentile: p, .. } => {
                let of_column = column == "*" || self.column(load).is_none_or(|own| own == column);
                (metric == "*" || metric == *own) && of_column && percentile.is_none_or(|other| other == *p)
            }
        }
    }

    /// In words: `ttft p50`, `ttft due p50`, `output tokens/s`. The gross column is not named.
    pub fn label(&self, load: LoadModel) -> String {
        match &self.kind {
            Kind::Throughput { field: "requests_per_s" } => "requests/s".to_owned(),
            Kind::Throughput { field: "output_tokens_per_s" } => "output tokens/s".to_owned(),
            Kind::Throughput { .. } => "total tokens/s".to_owned(),
            Kind::Latency { metric, percentile, .. } => match self.column(load) {
                None | Some("gross") => format!("{metric} {percentile}"),
                Some(column) => format!("{metric} {column} {percentile}"),
            },
        }
    }

    /// Unit of its values.
    pub fn unit(&self) -> Unit {
        match self.kind {
            Kind::Latency { .. } => Unit::Millis,
            Kind::Throughput { .. } => Unit::PerSecond,
        }
    }

    /// Fewest requests of a window for which it is defined.
    pub(super) fn smallest_n(&self) -> u64 {
        match &self.kind {
            Kind::Throughput { .. } => 0,
            Kind::Latency { percentile, .. } => {
                let published = crate::analysis::percentiles::PUBLISHED.iter().find(|p| p.name == *percentile);
                published.map_or(0, |p| p.smallest_n as u64)
            }
        }
    }
}

/// Unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub enum Unit {
    /// ms.
    #[serde(rename = "ms")]
    Millis,
    /// Per s.
    #[serde(rename = "1/s")]
    PerSecond,
}

impl Unit {
    /// `412.3 ms`, `8,123 /s` without the comma: three digits or more, never fewer than the figure has before its point.
    pub fn words(self, value: f64) -> String {
        let digits = match value.abs() {
            size if size < 0.9995 => 3,
            size if size < 9.995 => 2,
            size if size < 9_999.5 => 1,
            _ => 0,
        };
        let value = if value.abs() < 0.0005 { 0.0 } else { value };
        match self {
            Unit::Millis => format!("{value:.digits$} ms"),
            Unit::PerSecond => format!("{value:.digits$}/s"),
        }
    }

    /// The same with its sign.
    pub fn signed(self, value: f64) -> String {
        let plain = self.words(value);
        if plain.starts_with('-') { plain } else { format!("+{plain}") }
    }
}

/// `+3.1 %`, from a ratio; `x 12.3` where it is more than ten times.
pub fn change(ratio: f64) -> String {
    if ratio >= 10.0 {
        return format!("x {ratio:.1}");
    }
    let percent = (ratio - 1.0) * 100.0;
    let percent = if percent.abs() < 0.05 { 0.0 } else { percent };
    format!("{percent:+.1} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_figures() {
        let at = |name: &str, load| name.parse::<Metric>().expect("a metric").pointer(load);
        assert_eq!(at("ttft.p50", LoadModel::Closed), "/metrics/ttft/gross/p50_ms");
        assert_eq!(at("ttft.p50", LoadModel::Open), "/metrics/ttft/due/p50_ms", "waiting for a slot belongs to it");
        assert_eq!(at("ttft.net.p99", LoadModel::Open), "/metrics/ttft/net/p99_ms");
        assert_eq!(at("gap.p999", LoadModel::Open), "/metrics/gap/gross/p999_ms");
        assert_eq!(at("upload.p90", LoadModel::Closed), "/metrics/upload/p90_ms");
        assert_eq!(at("session.p95", LoadModel::Closed), "/sessions/duration/p95_ms");
        assert_eq!(at("task.p50", LoadModel::Open), "/sessions/waited/due/p50_ms");
        assert_eq!(at("waited.net.p50", LoadModel::Closed), "/sessions/waited/net/p50_ms");
        assert_eq!(at("throughput.output", LoadModel::Closed), "/throughput/output_tokens_per_s");
        let bad = [
            "",
            "ttft",
            "ttft.mean",
            "ttft.p51",
            "gap.due.p50",
            "upload.net.p50",
            "session.net.p50",
            "throughput.p50",
            "a.b.c.d",
        ];
        for bad in bad {
            assert_eq!(bad.parse::<Metric>(), Err(NoSuchMetric(bad.to_owned())));
        }
        DEFAULT.iter().for_each(|name| assert!(name.parse::<Metric>().is_ok()));
    }

    #[test]
    fn which_verdicts_speak_of_it() {
        let metric: Metric = "ttft.p99".parse().expect("a metric");
        let meant = |m, c, p| metric.is_meant(LoadModel::Closed, m, c, p);
        assert!(meant("*", "gross", None) && meant("ttft", "*", Some("p99")) && meant("*", "*", None));
        assert!(!meant("gap", "gross", None) && !meant("ttft", "net", None) && !meant("ttft", "gross", Some("p50")));
    }

    #[test]
    fn figures_in_words() {
        let shown = [0.0, 0.0213, 5.019, 412.34, 1412.5, 61_234.0, -0.5].map(|v| Unit::Millis.words(v));
        assert_eq!(shown, ["0.000 ms", "0.021 ms", "5.02 ms", "412.3 ms", "1412.5 ms", "61234 ms", "-0.500 ms"]);
        assert_eq!([1.5, -2.0].map(|v| Unit::PerSecond.signed(v)), ["+1.50/s", "-2.00/s"]);
        assert_eq!([1.031, 0.9, 1.0001, 12.34].map(change), ["+3.1 %", "-10.0 %", "+0.0 %", "x 12.3"]);
    }
}
