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

/// MSER-5 cuts kept requests, and they differ from the rest.
pub fn warm_up_longer(cut: u64, dropped: u64, before_ms: f64, after_ms: f64) -> String {
    format!(
        "warm-up longer than dropped: the first {cut} requests (MSER-5), {dropped} are dropped; median {before_ms:.3} ms in \
         those kept of them, {after_ms:.3} ms after; drop more (--drop)"
    )
}

/// Neighbouring requests resemble each other.
pub fn dependent(n_eff: f64, at_most: bool, n: u64) -> String {
    let at_most = if at_most { "at most " } else { "" };
    format!("intervals assume independent requests: effective n is {at_most}{n_eff:.0} of {n}")
}

/// A percentile that rises or falls over the window; share and interval per 10 minutes.
pub fn drifting(percentile: &str, ms: f64, share: f64, ends: [f64; 2], p: f64) -> String {
    let [share, lo, hi] = [share, ends[0], ends[1]].map(|s| s * 100.0);
    format!(
        "drifting: {percentile} moves by {share:+.1} % ({ms:+.3} ms) per 10 min, 95 % interval {lo:+.1} to {hi:+.1} % \
         (p {p:.2e}); a window that is not steady has no one figure"
    )
}

/// Where a level begins that differs from the one before: seconds from the window's opening, ms before and after.
pub fn level_changed(changes: &[(f64, f64, f64)]) -> String {
    let each = |(at, before, after): &(f64, f64, f64)| format!("{before:.3} to {after:.3} ms at {at:.1} s");
    format!("the level changed: p50 {}", changes.iter().map(each).collect::<Vec<_>>().join(", "))
}

/// Why nothing is said of a drift: the window was short.
pub fn window_too_short(window_s: f64) -> String {
    format!("{window_s:.1} s, needs {:.0}", rules::DRIFT_WINDOW_NS as f64 / 1e9)
}

/// Its requests were sent in a part of it.
pub fn requests_not_spread(span_s: f64, window_s: f64) -> String {
    format!("requests of {span_s:.1} of {window_s:.1} s")
}

/// Slices would hold too few requests.
pub fn slices_too_small(needed: u64) -> String {
    format!("too few requests for {} slices of {needed}", rules::SLICES.0)
}

/// The gates withhold what it is made of.
pub fn steady_withheld() -> String {
    "gross is withheld".into()
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
