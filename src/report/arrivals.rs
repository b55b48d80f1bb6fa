//! What was asked of a schedule, offered and sent, in words.

use crate::analysis::definitions::arrivals::{LAW_P, LawTest, Spread};
use crate::analysis::definitions::wording::probability;
use crate::report::quantity::{count, latency, percent, rate};
use crate::report::sessions;
use crate::rundir::arrivals::Arrivals;
use crate::rundir::run_json::Window;

/// Facts of an open loop or a trace: first how much was sent, then how well it was timed. Empty in closed loop.
pub(super) fn facts(window: &Window) -> Vec<Vec<String>> {
    window.arrivals.as_ref().map_or_else(Vec::new, |a| vec![amount(a, sessions::arriving(window)), timing(a)])
}

/// Every figure, a line each; `what` arrives: requests or sessions.
pub(super) fn in_full(a: &Arrivals, what: &str) -> Vec<String> {
    let mut lines =
        vec![format!("{}; {} planned in the schedule's time", amount(a, what).join(", "), count(a.planned))];
    let spread = |name: &str, spread: Option<Spread>, per_ms: f64| {
        spread.map(|s| format!("{name}: {} (n {})", quantiles(&s, per_ms), count(s.n)))
    };
    lines.extend(spread("lateness, from the later of due and a free slot", a.lateness_ms, 1.0));
    lines.extend(spread("dispatch delay under the cap", a.dispatch_delay_ms, 1.0));
    lines.extend(spread("gaps on the wire against the planned ones, without sign", a.gap_error_us.wire, 1e-3));
    lines.extend(spread("gaps between submits against the planned ones", a.gap_error_us.submit, 1e-3));
    for d in &a.dispersion {
        let wire = d.wire.map_or_else(|| "not known on the wire".into(), |wire| format!("{wire:.3} on the wire"));
        let bins = format!("{} bins of {} ms", count(d.bins), count(d.bin_ms));
        lines.push(format!("index of dispersion of counts in {bins}: {:.3} planned, {wire}", d.planned));
    }
    let Some(tests) = a.anderson_darling else { return lines };
    let list = [
        ("as drawn", tests.schedule),
        ("those gaps as drawn that are tested on the wire", tests.schedule_thinned),
        ("on the wire", tests.wire),
    ];
    let told: Vec<String> =
        list.iter().filter_map(|(name, test)| Some(format!("{name}: {}", in_words(&(*test)?)))).collect();
    lines.push(match told.is_empty() {
        true => "Anderson-Darling against the law asked for: too few gaps, or too many below 1 ns, to tell".into(),
        false => format!("Anderson-Darling against the law asked for, {}", told.join("; ")),
    });
    if tests.schedule.is_some_and(|test| test.p < LAW_P) {
        lines.push(
            "the drawn schedule is one of the 1 in 100 that chance makes so unlike its law: no fault of anyone".into(),
        );
    }
    lines
}

fn amount(a: &Arrivals, what: &str) -> Vec<String> {
    let mut facts = Vec::new();
    facts.extend(a.asked_rps.map(|asked| format!("asked {}", rate(Some(asked)))));
    if let (Some(offered), Some(achieved)) = (a.offered_rps, a.achieved_rps) {
        let share = a.achieved_share.map_or_else(String::new, |share| format!(" ({})", percent(Some(share))));
        facts.push(format!("offered {}", rate(Some(offered))));
        facts.push(format!("achieved {} {what}/s{share}", rate(Some(achieved))));
    }
    facts.push(format!("{} sent", count(a.sent)));
    if a.not_sent > 0 {
        facts.push(format!("{} not sent", count(a.not_sent)));
    }
    if let Some((held, cap)) = a.held_back.zip(a.cap).filter(|(held, _)| held.requests > 0) {
        let longest = held.longest_ms.map_or_else(String::new, |ms| format!(", up to {}", latency(ms)));
        facts.push(format!("{} held back by the cap of {}{longest}", count(held.requests), count(cap.into())));
    }
    facts
}

fn timing(a: &Arrivals) -> Vec<String> {
    let mut facts = Vec::new();
    facts.extend(a.lateness_ms.map(|s| format!("late {}", quantiles(&s, 1.0))));
    let error = a.gap_error_us.wire.map(|s| (s, "on the wire")).or(a.gap_error_us.submit.map(|s| (s, "as submitted")));
    facts.extend(error.map(|(s, which)| format!("gaps {which} off by {}", quantiles(&s, 1e-3))));
    if let Some(d) = a.dispersion.first() {
        let wire = d.wire.map_or_else(|| "not known".into(), |wire| format!("{wire:.2}"));
        facts.push(format!("dispersion {:.2} planned, {wire} sent", d.planned));
    }
    if let Some(tests) = a.anderson_darling {
        let p = |test: Option<LawTest>| test.map_or_else(|| "not known".into(), |test| probability(test.p));
        facts.push(format!("Anderson-Darling p {} planned, {} sent", p(tests.schedule), p(tests.wire)));
    }
    facts
}

/// `p50 12.0 us, p99 80.0 us, max 1.20 ms`; a unit is `per_ms` ms.
fn quantiles(s: &Spread, per_ms: f64) -> String {
    let shown = |value: f64| latency(value * per_ms);
    let p99 = s.p99.map_or_else(String::new, |p99| format!("p99 {}, ", shown(p99)));
    format!("{}{p99}max {}", s.p50.map_or_else(String::new, |p50| format!("p50 {}, ", shown(p50))), shown(s.max))
}

fn in_words(test: &LawTest) -> String {
    let which = if test.every > 1 { format!(", 1 in {}", count(test.every)) } else { String::new() };
    format!("A2 {:.3}, p {} (n {}{which})", test.a2, probability(test.p), count(test.n))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rundir::arrivals::{Dispersion, GapError, HeldBack, LawTests};

    fn sample() -> Arrivals {
        let spread = |p50, p99, max| Some(Spread { n: 300, p50: Some(p50), p99: Some(p99), max });
        let test = |n, every, p| Some(LawTest { n, every, a2: 0.5, p });
        Arrivals {
            asked_rps: Some(200.0),
            planned: 299,
            offered_rps: Some(199.6),
            achieved_rps: Some(99.8),
            achieved_share: Some(0.5),
            sent: 300,
            not_sent: 0,
            cap: Some(8),
            held_back: Some(HeldBack { requests: 212, share: Some(0.7), longest_ms: Some(1_900.0), past_end: 140 }),
            lateness_ms: spread(0.012, 0.08, 1.2),
            dispatch_delay_ms: spread(300.0, 1_800.0, 1_900.0),
            dispersion: vec![Dispersion { bin_ms: 100, bins: 15, planned: 0.98, wire: Some(0.412) }],
            gap_error_us: GapError { wire: spread(12.0, 85.0, 2_000.0), submit: None },
            anderson_darling: Some(LawTests { schedule: test(299, 1, 0.004), schedule_thinned: None, wire: None }),
        }
    }

    #[test]
    fn what_a_screen_and_a_report_say() {
        let told = [amount(&sample(), "requests"), timing(&sample())].map(|facts| facts.join("   "));
        let expected = [
            "asked 200   offered 200   achieved 99.8 requests/s (50.0 %)   300 sent   212 held back by the cap of 8, up to \
             1900 ms",
            "late p50 12.0 us, p99 80.0 us, max 1.20 ms   gaps on the wire off by p50 12.0 us, p99 85.0 us, max 2.00 ms   \
             dispersion 0.98 planned, 0.41 sent   Anderson-Darling p .0040 planned, not known sent",
        ];
        assert_eq!(told, expected);
        let full = in_full(&sample(), "requests").join("\n");
        for line in
            ["in 15 bins of 100 ms: 0.980 planned, 0.412", "as drawn: A2 0.500, p .0040 (n 299)", "no fault of anyone"]
        {
            assert!(full.contains(line), "no {line} in\n{full}");
        }
    }
}
