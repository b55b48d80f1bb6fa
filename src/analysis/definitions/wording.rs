//! The sentences of verdicts: one wording wherever a rule fires.

use super::rules;

/// Failed requests above the limit.
pub fn too_many_failed(failed: u64, kept: u64, share: f64, limit: f64) -> String {
    format!(
        "{failed} of {kept} kept requests failed ({}), more than the allowed {}; latency is of the ok ones only",
        percent(share),
        percent(limit)
    )
}

/// No kernel stamps in this window.
pub fn no_kernel_stamps() -> String {
    "no kernel stamps: net and tare were not measured, gross contains the harness's own share".into()
}

/// Stamps missing beyond the limit.
pub fn stamps_missing(missing: u64, kept: u64, share: f64) -> String {
    format!(
        "{missing} of {kept} kept requests ({}) lack a kernel stamp they need, more than {}: net percentiles are withheld, \
         since a busy client loses stamps just when it is slow",
        percent(share),
        percent(rules::STAMPS_MISSING)
    )
}

/// Percentiles that speak of completed requests only.
pub fn of_completed(share: f64) -> String {
    format!(
        "{} of kept requests timed out or were cut off: latency percentiles are of completed requests, \
         lower bounds stand beside",
        percent(share)
    )
}

/// The lower bound beside such a percentile.
pub fn lower_bound(ms: f64) -> String {
    format!("at least {ms:.3} ms when requests that did not complete count as long as they were waited for")
}

/// Token events lumped into one read.
pub fn coalesced(share: f64, withheld: bool) -> String {
    format!(
        "{} of token events share a read with another: gap percentiles {}",
        percent(share),
        if withheld { "are withheld" } else { "miss the gaps inside a read" }
    )
}

/// Requests whose output tokens nobody counted.
pub fn tokens_unknown(requests: u64) -> String {
    format!("{requests} requests streamed tokens without telling how many: output tokens/s is a lower bound")
}

/// A net percentile printed as an interval.
pub fn both(lo_ms: f64, hi_ms: f64) -> String {
    format!("arrival is known to lie between two moments only: {lo_ms:.3} to {hi_ms:.3} ms")
}

/// A net percentile whose ends are too far apart.
pub fn too_wide(lo_ms: f64, hi_ms: f64) -> String {
    format!("withheld: the stamps allow anything from {lo_ms:.3} to {hi_ms:.3} ms")
}

/// Other traffic on the server.
pub fn contaminated(beyond: u64, finished: u64, sent: u64) -> String {
    format!(
        "contaminated: the server finished {finished} requests while {sent} were sent from here, at least {beyond} of them \
         another client's: what is measured is not of this load alone"
    )
}

/// The server's process started anew.
pub fn server_restarted() -> String {
    "the server's process started anew during the window: its counters are not known, and caches were cold".into()
}

/// Answers in another model's name: how many of how many, one of the names, and how many more there are.
pub fn other_model(answers: u64, ok: u64, name: &str, more: usize, asked: &str) -> String {
    let short = |name: &str| {
        let clean: String = name.chars().map(|c| if c.is_control() { ' ' } else { c }).take(80).collect();
        format!("\"{clean}\"")
    };
    let others = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!(
        "{answers} of {ok} ok requests were answered in the name of {}{others}, not of {}, which was asked for: an alias, a \
         dated name, a router or another model; the answer does not say which",
        short(name),
        short(asked)
    )
}

/// Why a window has no counters of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoCounters {
    /// Nothing was read before it.
    NoneBefore,
    /// Nothing was read after it.
    NoneAfter,
    /// Another window lies between the two.
    OtherWindow,
}

impl std::fmt::Display for NoCounters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            NoCounters::NoneBefore => "/metrics was not answered before the window",
            NoCounters::NoneAfter => "/metrics was not answered after the window",
            NoCounters::OtherWindow => "/metrics was answered too late: another window had opened",
        })
    }
}

/// A window that was cut short.
pub fn interrupted() -> String {
    "the window was interrupted; everything measured until then is kept".into()
}

/// Neither gross nor net of ttft can be believed, for these reasons.
pub fn invalid(reasons: &[&str]) -> String {
    format!("the window is not valid: {}", reasons.join("; "))
}

/// Every percentile of ttft's net was too wide.
pub fn all_too_wide() -> &'static str {
    "every percentile of ttft net is withheld, since the stamps bound it too widely"
}

/// Rows of a window that never closed.
pub fn window_without_end(rows: u64) -> String {
    format!("{rows} rows belong to a window that did not close: they stay in requests.jsonl and are in no figure")
}

/// The last line of a file, when a run ended in the middle of it.
pub fn half_written(file: &str, line: u64) -> String {
    format!("{file}:{line}: half-written, the run ended in the middle of it; not counted")
}

/// How wide net of ttft is at its widest; `detail` names the percentile.
pub fn net_width(share: f64, detail: &str, judged: rules::Width) -> String {
    let also = match judged {
        rules::Width::Narrow => "",
        rules::Width::Both => "; both ends are printed",
        rules::Width::Withheld => "; what is too wide is withheld",
    };
    format!("ttft net is known to within {} ({detail}{also})", percent(share))
}

/// A load beside the limit up to which this host is calibrated, and where, if not over loopback.
pub fn of_limit(load: f64, limit: f64, at_least: bool, placement: Option<&str>) -> String {
    let place = match placement {
        Some(LOOPBACK) => String::new(),
        other => format!(", {}", calibrated_where(other)),
    };
    format!("{load:.0} of {}{limit:.0}{place}", if at_least { "at least " } else { "" })
}

/// The `placement` of a calibration against a mock on this host.
pub const LOOPBACK: &str = "loopback";

/// Where the mock of a calibration was.
pub fn calibrated_where(placement: Option<&str>) -> String {
    match placement {
        Some(LOOPBACK) => "calibrated over loopback".into(),
        Some(url) => format!("calibrated against the mock at {url}"),
        None => "calibrated against a mock in a place that is not recorded".into(),
    }
}

/// What a calibration over loopback cannot know of a target that is not.
pub fn loopback_only() -> &'static str {
    "calibrated over loopback: NIC and driver are not in it"
}

/// A calibration that cannot be one; no figure is made of it.
pub fn calibration_unusable(fault: &str) -> String {
    format!("the calibration in plan.json cannot be right and was not used: {fault}")
}

/// A share in percent, as precise as its size asks for.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let digits = match percent {
        p if p == 0.0 || p >= 10.0 => 0,
        p if p >= 0.1 => 1,
        _ => 3,
    };
    format!("{percent:.digits$} %")
}
