//! A window's schedule held against what was sent, a second time: from all rows at once.

use std::collections::BTreeMap;

use bench_engine::schedule::ArrivalLaw;
use serde_json::{Value, json};

use super::raw::number;
use super::window::verdict;
use crate::analysis::definitions::arrivals::{
    FEWEST_GAPS, GapsOf, HELD_BACK_NS, LAW_P, LONG_BIN_NS, LONG_BINS, LawTest, SCHEDULE_GAPS, SHAPED, Spread,
    UNSTAMPED, WIRE_GAPS, asked_rate, gap_error,
};
use crate::analysis::definitions::{dispatch_delay, dispersion, lateness, millis, rules, share, wording};
use crate::rundir::row::{Outcome, Row};

/// What the figures are made of.
pub(super) struct Course<'a> {
    pub(super) line: &'a Value,
    /// What the load model began.
    pub(super) rows: &'a [&'a Row],
    pub(super) sent: &'a [&'a Row],
    /// The due of the first request not sent, else of the last.
    pub(super) end: Option<u64>,
    /// Offered and achieved requests/s.
    pub(super) rates: (Option<f64>, Option<f64>),
    /// Every request that was tried, and when it found a free slot.
    pub(super) dispatched: &'a [(Times, Option<u64>)],
}

/// First action, end and due of a request that was tried.
pub(super) type Times = (u64, u64, u64);

/// Index of dispersion planned and on the wire.
pub(super) type Indices = (f64, Option<f64>);

impl Course<'_> {
    fn opened(&self) -> u64 {
        number(self.line, "opened")
    }

    fn cap(&self) -> Option<u64> {
        self.line["load"]["concurrency"].as_u64()
    }

    fn stamped(&self) -> Vec<(u64, u64)> {
        self.sent.iter().filter_map(|r| Some((r.due, r.wire_out?))).collect()
    }

    /// Moments at which the stamped requests went out, less what all of them were late.
    fn outgoing(&self) -> Vec<u64> {
        let stamped = self.stamped();
        let mut lags: Vec<u64> = stamped.iter().map(|(due, wire)| wire.saturating_sub(*due)).collect();
        lags.sort_unstable();
        let lag = lags.get(lags.len() / 2).copied().unwrap_or_default();
        stamped.iter().map(|(_, wire)| wire.saturating_sub(lag)).collect()
    }

    /// The bins, and the indices where there are some.
    pub(super) fn dispersion(&self, bin_ns: u64) -> (u64, Option<Indices>) {
        let opened = self.opened();
        let bins = self.end.map_or(0, |end| end.saturating_sub(opened) / bin_ns);
        let index = |moments: Vec<u64>| {
            let mut counts = BTreeMap::new();
            for t in moments.into_iter().filter(|t| *t >= opened) {
                *counts.entry((t - opened) / bin_ns).or_insert(0_u64) += 1;
            }
            dispersion(&(0..bins).map(|bin| counts.get(&bin).copied().unwrap_or(0)).collect::<Vec<u64>>())
        };
        let stamped = self.stamped();
        if stamped.is_empty() {
            return (bins, index(self.sent.iter().map(|r| r.due).collect()).map(|planned| (planned, None)));
        }
        let planned = index(stamped.iter().map(|(due, _)| *due).collect());
        (bins, planned.zip(index(self.outgoing())).map(|(planned, wire)| (planned, Some(wire))))
    }

    fn in_time(&self, t: u64) -> bool {
        self.end.is_some_and(|end| self.opened() <= t && t < end)
    }

    /// Requests without a slot before the schedule was over.
    fn past_end(&self) -> u64 {
        let late = |((_, _, due), slot): &&(Times, Option<u64>)| {
            self.end.is_some_and(|end| *due < end && slot.is_some_and(|slot| slot >= end))
        };
        self.dispatched.iter().filter(late).count() as u64
    }

    /// What a cap did to the achieved rate, for its gate.
    pub(super) fn cap_in_words(&self) -> String {
        let planned = self.rows.iter().filter(|r| self.in_time(r.due)).count() as u64;
        let submitted = self.sent.iter().filter(|r| r.submit.is_some_and(|t| self.in_time(t))).count() as u64;
        let (late, missing) = (self.past_end(), planned.saturating_sub(submitted));
        let reason = late > 0 && late.saturating_mul(2) >= missing;
        self.cap().filter(|_| reason).map_or_else(String::new, |cap| wording::kept_past_end(cap as u32, late))
    }

    /// `arrivals` of the window; null in closed loop.
    pub(super) fn figures(&self, plan: &Value) -> Value {
        if self.line["load"]["model"] == "closed" {
            return Value::Null;
        }
        let nth = plan["shard"]["of"].as_u64().and_then(|n| u32::try_from(n).ok()).filter(|n| *n > 0).unwrap_or(1);
        let written = &plan["cells"][number(self.line, "cell") as usize]["law"];
        let law: Option<ArrivalLaw> = match self.line["load"]["model"].as_str() {
            Some("open") if !written.is_null() => serde_json::from_value(written.clone()).ok(),
            _ => None,
        };
        let length = self.end.map_or(0, |end| end - self.opened());
        let planned = match self.end {
            Some(_) => self.rows.iter().filter(|r| self.in_time(r.due)).count(),
            None => self.rows.len(),
        };
        let achieved_share = match self.rates {
            (Some(offered), Some(achieved)) if offered > 0.0 => Some(achieved / offered),
            _ => None,
        };
        let mut late: Vec<i64> = Vec::new();
        let mut delays: Vec<i64> = Vec::new();
        for ((action, _, due), slot) in self.dispatched {
            late.push(lateness(*due, *action, *slot));
            delays.extend(slot.map(|slot| dispatch_delay(*due, slot)));
        }
        let held: Vec<i64> = delays.iter().copied().filter(|ns| *ns > HELD_BACK_NS).collect();
        let held_back = self.cap().map(|_| {
            json!({
                "requests": held.len(),
                "share": share(held.len() as u64, delays.len() as u64),
                "longest_ms": delays.iter().copied().max().map(millis),
                "past_end": self.past_end(),
            })
        });
        let mut bins = Vec::new();
        for (bin_ns, fewest) in [(rules::ARRIVAL_BIN_NS, 0), (LONG_BIN_NS, LONG_BINS)] {
            let (n, indices) = self.dispersion(bin_ns);
            let indices = indices.filter(|_| n >= fewest);
            bins.extend(indices.map(
                |(planned, wire)| json!({"bin_ms": bin_ns / 1_000_000, "bins": n, "planned": planned, "wire": wire}),
            ));
        }
        json!({
            "asked_rps": law.as_ref().and_then(|law| asked_rate(law, nth, length)),
            "planned": planned,
            "offered_rps": self.rates.0,
            "achieved_rps": self.rates.1,
            "achieved_share": achieved_share,
            "sent": self.sent.len(),
            "not_sent": self.rows.len() - self.sent.len(),
            "cap": self.cap(),
            "held_back": held_back,
            "lateness_ms": Spread::ms(&mut late),
            "dispatch_delay_ms": Spread::ms(&mut delays),
            "dispersion": bins,
            "gap_error_us": {"wire": self.gap_error(|r| r.wire_out), "submit": self.gap_error(|r| r.submit)},
            "anderson_darling": law.as_ref().and_then(|law| GapsOf::schedule(law, nth)).map(|gaps| self.tests(&gaps)),
        })
    }

    fn gap_error(&self, of: fn(&Row) -> Option<u64>) -> Value {
        let sent = |r: &Row| r.outcome != Outcome::NotSent;
        let moment = |r: &Row| of(r).filter(|_| sent(r));
        let mut order: Vec<&Row> = self.rows.to_vec();
        let time = |r: &Row, t: Option<u64>| t.filter(|_| sent(r));
        order.sort_by_key(|r| (r.trace_id, r.due, sent(r), time(r, r.submit), time(r, r.wire_out)));
        let mut errors = Vec::new();
        for i in 1..order.len() {
            let (before, after) = (order[i - 1], order[i]);
            if let (Some(from), Some(to)) = (moment(before), moment(after)) {
                errors.push(gap_error((before.due, from), (after.due, to)));
            }
        }
        json!(Spread::us(&mut errors))
    }

    fn tests(&self, gaps: &GapsOf) -> Value {
        let test = |moments: Vec<u64>, most: usize| {
            let mut since: Vec<u64> = moments.into_iter().map(|t| t.saturating_sub(self.opened())).collect();
            since.sort_unstable();
            gaps.test(&since, most)
        };
        let stamped = self.stamped();
        let unstamped = share((self.sent.len() - stamped.len()) as u64, self.sent.len() as u64);
        let trusted = stamped.len() > FEWEST_GAPS && unstamped.is_some_and(|share| share <= UNSTAMPED);
        let if_trusted = |moments: Vec<u64>| if trusted { test(moments, WIRE_GAPS) } else { None };
        json!({
            "schedule": test(self.rows.iter().map(|r| r.due).collect(), SCHEDULE_GAPS),
            "schedule_thinned": if_trusted(stamped.iter().map(|(due, _)| *due).collect()),
            "wire": if_trusted(self.outgoing()),
        })
    }
}

/// What follows from `arrivals` of a window.
pub(super) fn verdicts(arrivals: &Value) -> Vec<Value> {
    let flag = |figure: Option<f64>, text: &str| verdict("arrivals", "*", None, "flag", figure, text);
    let held = &arrivals["held_back"];
    if let (Some(cap), Some(found)) = (arrivals["cap"].as_u64(), held["share"].as_f64().filter(|s| *s >= SHAPED)) {
        let longest = held["longest_ms"].as_f64().unwrap_or_default();
        let text = wording::cap_shaped(cap as u32, number(held, "requests"), number(arrivals, "sent"), longest);
        return vec![flag(Some(found), &text)];
    }
    let test = |name: &str| serde_json::from_value::<LawTest>(arrivals["anderson_darling"][name].clone()).ok();
    match (test("schedule"), test("schedule_thinned"), test("wire")) {
        (Some(drawn), Some(thinned), Some(wire)) if drawn.p >= LAW_P && thinned.p >= LAW_P && wire.p < LAW_P => {
            vec![flag(Some(wire.p), &wording::another_law(&wire, thinned.p))]
        }
        _ => Vec::new(),
    }
}
