//! The sentences of verdicts: one wording wherever a rule fires.

use super::arrivals::LawTest;
use super::curve::{Over, Shape};
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
        "{} of kept requests timed out or were cut off: latency percentiles and their intervals are of completed \
         requests, lower bounds stand beside",
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

/// Requests that are turns of sessions.
pub fn turns_hang_together() -> String {
    "requests are turns of sessions, and turns of one session hang together: 95 % intervals of request figures take them for \
     independent and are too narrow; those of sessions are of sessions"
        .into()
}

/// Requests whose output tokens nobody counted.
pub fn tokens_unknown(requests: u64) -> String {
    format!("{requests} requests streamed tokens without telling how many: output tokens/s is a lower bound")
}

/// Requests whose connection ended before a byte of the reply, and the longest time before the last try, in ns.
pub fn sent_again(requests: u64, kept: u64, longest_ns: u64) -> String {
    let were = if requests == 1 { "was" } else { "were" };
    format!(
        "{requests} of {kept} requests {were} sent again, since the connection ended before a byte of the reply: gross, tare \
         and net are of the last try; what passed before it, up to {:.1} ms, is in figures from due alone",
        longest_ns as f64 / 1e6
    )
}

/// A net percentile printed as an interval.
pub fn both(lo_ms: f64, hi_ms: f64) -> String {
    format!("arrival is known to lie between two moments only: {lo_ms:.3} to {hi_ms:.3} ms")
}

/// A net percentile whose ends are too far apart.
pub fn too_wide(lo_ms: f64, hi_ms: f64) -> String {
    format!("withheld: the stamps allow anything from {lo_ms:.3} to {hi_ms:.3} ms")
}

/// A cap made it another load. Counts of requests, and the longest delay in ms.
pub fn cap_shaped(cap: u32, held_back: u64, sent: u64, longest_ms: f64) -> String {
    let longest = match longest_ms {
        ms if ms >= 1_000.0 => format!("{:.1} s", ms / 1e3),
        ms => format!("{ms:.1} ms"),
    };
    format!(
        "the cap of {cap} held back {held_back} of {sent} requests, up to {longest}: the load is no longer the one asked for; \
         ttft and e2e from due contain the wait"
    )
}

/// Why planned requests were not sent in time: they had no slot.
pub fn kept_past_end(cap: u32, requests: u64) -> String {
    format!("the cap of {cap} left no slot for {requests} of them until the schedule was over")
}

/// The gaps on the wire are not those of the law, though the planned ones are; `planned_p` is of the same gaps as planned.
pub fn another_law(wire: &LawTest, planned_p: f64) -> String {
    let LawTest { n, every, a2, p } = wire;
    let which = if *every > 1 { format!("{n} gaps, 1 in {every},") } else { format!("{n} gaps") };
    format!(
        "what went out is not of the law asked for: Anderson-Darling on {which} of the wire finds A2 {a2:.1}, p {}, on the \
         same gaps as planned p {}: the client bent them",
        probability(*p),
        probability(planned_p)
    )
}

/// A probability as it is printed: `.43`, `< .0001`.
pub fn probability(p: f64) -> String {
    let digits = |n: usize| format!("{p:.n$}").trim_start_matches('0').to_string();
    match p {
        p if p < 1e-4 => "< .0001".into(),
        p if p < 0.095 => digits(4),
        p if p < 0.995 => digits(2),
        _ => "> .99".into(),
    }
}

/// Outputs that ended before their limit.
pub fn outputs_short(shorter: u64, known: u64) -> String {
    let share = if known > 0 { percent(shorter as f64 / known as f64) } else { "-".into() };
    format!(
        "{shorter} of {known} outputs ({share}) are shorter than asked: the model stopped before the limit; --ignore-eos asks \
         the server to go on"
    )
}

/// Prompts that the server counts otherwise; `share` is the median difference as a share of the length asked for.
pub fn prompts_off(share: f64) -> String {
    let more = if share > 0.0 { "more" } else { "fewer" };
    format!(
        "the server counts {} {more} prompt tokens than asked for, in the median: a chat template or another tokenizer; \
         --tokenizer fits the prompts to it",
        percent(share.abs())
    )
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

/// A window of a closed loop whose requests are all that can be told apart.
pub fn used_up(due: u64, lasted_s: f64, asked_s: f64) -> String {
    format!(
        "the window ended after {lasted_s:.1} s of the {asked_s} s asked for: its {due} requests are all that can be told apart \
         in one window; ask for shorter windows, and more of them (--windows)"
    )
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

/// A window in the middle of which the run was ended, and how many rows it has.
pub fn window_cut_off(rows: u64) -> String {
    format!(
        "the run was ended before the window closed: it is told by its {rows} rows, up to the last moment that they know of; \
         requests that were under way have none"
    )
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

/// A curve in the words of a verdict: what, in which window, and its points; `lacking` are the numbers of values at the
/// points that have no interval.
pub struct CurveWords<'a> {
    /// `ttft gross p99`.
    pub name: String,
    /// From 0.
    pub window: u64,
    /// Ascending.
    pub loads: &'a [f64],
    /// `at once`, or `requests/s`, with the cap where there is one.
    pub unit: String,
    /// At each load.
    pub ms: &'a [f64],
    /// How it goes.
    pub shape: Shape,
    /// Whether a plainer shape fits through the intervals.
    pub overlap: Option<bool>,
    /// Numbers of values at the points without interval; empty where values come in clusters.
    pub lacking: Vec<u64>,
}

/// A load as it was asked for, to four digits behind the point: `10`, `33.3333`.
pub fn nominal(load: f64) -> String {
    ((load * 1e4).round() / 1e4).to_string()
}

/// What the loads of a curve are counted in, the cap of an open loop, and what its rate does beside; of sessions, users
/// and sessions/s.
pub fn load_unit(over: Over, at_most: Option<u64>, arrivals: Option<&str>, sessions: bool) -> String {
    let what = if sessions { "sessions" } else { "requests" };
    let arrivals = arrivals.map_or_else(String::new, |words| format!(" ({words})"));
    match (over, at_most) {
        (Over::Concurrency, _) if sessions => "users".into(),
        (Over::Concurrency, _) => "at once".into(),
        (Over::Rate, None) => format!("{what}/s{arrivals}"),
        (Over::Rate, Some(cap)) => format!("{what}/s{arrivals} with at most {cap} at once"),
    }
}

/// That fewer sessions were under way at the same time, `most`, than `users` were asked for; `planned`: sessions that were,
/// 0 where time alone ended the window.
pub fn too_few_sessions(users: u64, most: u64, planned: u64, is_chain: bool) -> String {
    let (who, at) = if is_chain { ("agents", "were at a task") } else { ("users", "led a session") };
    let what = match (is_chain, planned) {
        (true, 1) => "task was",
        (true, _) => "tasks were",
        (false, 1) => "session was",
        (false, _) => "sessions were",
    };
    let why = match (1..users).contains(&planned) {
        true => format!(": {planned} {what} asked for, warm-up included; ask for more with --num-sessions"),
        false => String::new(),
    };
    format!("of {users} {who} at most {most} {at} at the same time{why}")
}

/// The sentence about a curve.
pub fn curve(c: &CurveWords) -> String {
    let largest = c.ms.iter().copied().fold(0.0, f64::max);
    let digits = if largest >= 100.0 { 1 } else { 3 };
    let points: Vec<String> = c.ms.iter().map(|ms| format!("{ms:.digits$}")).collect();
    let loads: Vec<String> = c.loads.iter().copied().map(nominal).collect();
    let (points, loads) = (points.join(" -> "), loads.join(", "));
    let does = match c.shape {
        Shape::Rising => "rises with load",
        Shape::Falling => "falls with load",
        Shape::Flat => "is the same at each load",
        Shape::NonMonotone => "over load is not monotone",
    };
    let change = match (c.shape, c.ms.first(), c.ms.last()) {
        (Shape::Rising | Shape::Falling, Some(first), Some(last)) => change(*first, *last),
        _ => String::new(),
    };
    let intervals = match (c.overlap, c.shape) {
        (None, Shape::NonMonotone) => {
            let mut n = c.lacking.clone();
            n.sort_unstable();
            n.dedup();
            let n: Vec<String> = n.iter().map(u64::to_string).collect();
            let at = if n.is_empty() { "where few requests decide".into() } else { format!("at n = {}", n.join(", ")) };
            format!("; intervals: none {at}, so nothing is said of the cause")
        }
        (Some(true), Shape::NonMonotone) => "; a monotone curve fits through the 95 % intervals too".into(),
        (Some(false), Shape::NonMonotone) => "; no monotone curve fits through the 95 % intervals".into(),
        (Some(true), Shape::Rising | Shape::Falling) => "; a level one fits through the 95 % intervals too".into(),
        _ => String::new(),
    };
    let CurveWords { name, window, unit, .. } = c;
    format!("{name} {does} in window {window}: {points} ms at {loads} {unit}{change}{intervals}")
}

/// From the first figure to the last: `, +18 %`, or `, 2.8 times` from twice on.
fn change(first: f64, last: f64) -> String {
    match last / first {
        times if !times.is_finite() || times <= 0.0 => String::new(),
        times if times >= 2.0 => format!(", {times:.1} times"),
        times => format!(", {:+.0} %", (times - 1.0) * 100.0),
    }
}

/// MSER-5 cuts kept requests, and they differ from the rest.
pub fn warm_up_longer(cut: u64, dropped: u64, before_ms: f64, after_ms: f64) -> String {
    format!(
        "warm-up longer than dropped: the first {cut} requests (MSER-5), {dropped} are dropped; median {before_ms:.3} ms in \
         those kept of them, {after_ms:.3} ms after; drop more (--drop, of sessions --drop-sessions)"
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

/// How long nothing is sent between windows, in words; None: there are no rests.
pub fn rests(between_windows_s: f64, between_cells_s: f64) -> Option<String> {
    let rounds_s = between_windows_s.max(between_cells_s);
    match (rounds_s > 0.0, between_cells_s > 0.0) {
        (false, _) => None,
        (true, false) => Some(format!("rests of {rounds_s} s between rounds, none between the load points of a round")),
        (true, true) if rounds_s == between_cells_s => Some(format!("rests of {rounds_s} s before each load point")),
        (true, true) => Some(format!(
            "rests of {rounds_s} s between rounds, {between_cells_s} s between the load points of a round"
        )),
    }
}

/// Where a level begins that differs from the one before: seconds from the window's opening, ms before and after.
pub fn level_changed(percentile: &str, changes: &[(f64, f64, f64)]) -> String {
    let each = |(at, before, after): &(f64, f64, f64)| format!("{before:.3} to {after:.3} ms at {at:.1} s");
    format!("the level changed: {percentile} {}", changes.iter().map(each).collect::<Vec<_>>().join(", "))
}

/// Output tokens/s that rise or fall over a window: slope, share of the median slice with its 95 % interval, p.
pub fn rate_drifting(per_10_min: f64, share: f64, ends: [f64; 2], p: f64) -> String {
    let [share, lo, hi] = [share, ends[0], ends[1]].map(|s| s * 100.0);
    format!(
        "drifting: output tokens/s move by {share:+.1} % ({per_10_min:+.1}/s) per 10 min, 95 % interval {lo:+.1} to \
         {hi:+.1} % (p {p:.2e}); a window that is not steady has no one figure"
    )
}

/// Where a level of the output tokens/s begins that differs from the one before.
pub fn rate_changed(changes: &[(f64, f64, f64)]) -> String {
    let each = |(at, before, after): &(f64, f64, f64)| format!("{before:.1} to {after:.1}/s at {at:.1} s");
    format!("the level changed: output tokens {}", changes.iter().map(each).collect::<Vec<_>>().join(", "))
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
    "gross and net are withheld".into()
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

#[cfg(test)]
mod tests {
    #[test]
    fn too_few_sessions_say_why_where_the_number_asked_for_is_why() {
        let of = super::too_few_sessions;
        assert_eq!(
            of(8, 1, 1, true),
            "of 8 agents at most 1 were at a task at the same time: 1 task was asked for, warm-up included; ask for more with \
             --num-sessions"
        );
        assert_eq!(
            of(8, 7, 0, false),
            "of 8 users at most 7 led a session at the same time",
            "time alone ends the window"
        );
        assert_eq!(of(8, 7, 9, false), "of 8 users at most 7 led a session at the same time");
    }

    use super::*;

    #[test]
    fn rests_in_words() {
        assert_eq!(rests(0.0, 0.0), None);
        let words = |windows, cells| rests(windows, cells).expect("rests");
        assert_eq!(words(30.0, 0.0), "rests of 30 s between rounds, none between the load points of a round");
        assert_eq!(words(30.0, 5.0), "rests of 30 s between rounds, 5 s between the load points of a round");
        assert_eq!(words(0.0, 5.0), "rests of 5 s before each load point");
    }

    #[test]
    fn the_published_curves_in_words() {
        let words = |name: &str, ms: &[f64], shape, overlap, lacking: &[u64]| {
            let loads: &[f64] = if ms.len() == 3 { &[1.0, 8.0, 50.0] } else { &[1.0, 50.0] };
            let (name, unit, lacking) = (name.to_string(), "at once".to_string(), lacking.to_vec());
            curve(&CurveWords { name, window: 0, loads, unit, ms, shape, overlap, lacking })
        };
        let p99 = words("ttft gross p99", &[822.3, 631.5, 1_305.6], Shape::NonMonotone, None, &[300, 300, 300]);
        let expected = "ttft gross p99 over load is not monotone in window 0: 822.3 -> 631.5 -> 1305.6 ms at 1, 8, 50 at \
                        once; intervals: none at n = 300, so nothing is said of the cause";
        assert_eq!(p99, expected);
        let rise = |ms: &[f64]| words("ttft gross p50", ms, Shape::Rising, Some(false), &[]);
        let expected = "ttft gross p50 rises with load in window 0: 202.1 -> 238.4 ms at 1, 50 at once, +18 %";
        assert_eq!(rise(&[202.1, 238.4]), expected);
        // the published changes
        let changes = [
            ([192.0, 234.8], "+22 %"),
            ([445.4, 1_245.1], "2.8 times"),
            ([363.7, 1_174.7], "3.2 times"),
            ([741.4, 2_241.2], "3.0 times"),
            ([748.2, 2_176.4], "2.9 times"),
        ];
        for (ms, change) in changes {
            assert!(rise(&ms).ends_with(&format!(", {change}")), "{}", rise(&ms));
        }
    }

    #[test]
    fn what_the_intervals_say_of_a_dip() {
        let words = |overlap| {
            let (name, unit) = ("gap net p95".to_string(), "requests/s".to_string());
            let (loads, ms, shape) = (&[1.5, 2.0, 9.0], &[5.0, 4.0, 7.0], Shape::NonMonotone);
            curve(&CurveWords { name, window: 1, loads, unit, ms, shape, overlap, lacking: Vec::new() })
        };
        assert!(words(Some(true)).ends_with("; a monotone curve fits through the 95 % intervals too"));
        assert!(words(Some(false)).ends_with("; no monotone curve fits through the 95 % intervals"));
        let none = "gap net p95 over load is not monotone in window 1: 5.000 -> 4.000 -> 7.000 ms at 1.5, 2, 9 requests/s; \
                    intervals: none where few requests decide, so nothing is said of the cause";
        assert_eq!(words(None), none);
    }
}
