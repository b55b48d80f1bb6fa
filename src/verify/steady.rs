//! Whether latency stayed what it was, a second time: from the rows, slice by slice.

use serde_json::{Value, json};

use super::window::verdict;
use crate::analysis::definitions::steadiness::{self, Drift, Followed};
use crate::analysis::definitions::{self, Columns, millis, rules, seconds, wording};
use crate::analysis::percentiles::figures;
use crate::analysis::statistics::{autocorrelation, change_points, levels, mser, rank_sum, trend};
use crate::rundir::row::{Outcome, Phase, Row};

/// The bounds of a window, ns.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub(super) opened: u64,
    pub(super) closed: u64,
    /// Trace ids below are warm-up.
    pub(super) drop: u64,
}

/// `(submit, ns, kept)`, in order.
type Series = Vec<(u64, i64, bool)>;

/// What the gates withhold.
#[derive(Clone, Copy)]
pub(super) struct Withheld {
    pub(super) gross: bool,
    pub(super) net: bool,
}

/// The `steady` object of a window, and its verdicts at the end of `verdicts`.
pub(super) fn steady(sent: &[&Row], bounds: Bounds, no: Withheld, verdicts: &mut Vec<Value>) -> Value {
    let metric = |name: &str, of: fn(&Row) -> Columns<i64>, verdicts: &mut Vec<Value>| {
        let series = |column: Followed| {
            let ok = sent.iter().filter(|r| r.outcome == Outcome::Ok);
            let ns = |row: &Row| match column {
                Followed::Gross => of(row).gross,
                Followed::Net => of(row).net.map(|net| net.at),
            };
            let mut series: Series = ok.filter_map(|r| Some((r.submit?, ns(r)?, r.phase == Phase::Measured))).collect();
            series.sort();
            series
        };
        let net = series(Followed::Net);
        let found = match Followed::of(no.gross, no.net || net.is_empty()) {
            Some(Followed::Gross) => Course::of(series(Followed::Gross), Followed::Gross, bounds),
            Some(Followed::Net) => Course::of(net, Followed::Net, bounds),
            None => withheld(&series(Followed::Gross)),
        };
        verdicts.extend(flags(name, &found, bounds.drop));
        found
    };
    let ttft = metric("ttft", definitions::ttft, verdicts);
    let e2e = metric("e2e", definitions::e2e, verdicts);
    json!({"drift": drift_of(&ttft["drift"]).and(drift_of(&e2e["drift"])), "ttft": ttft, "e2e": e2e})
}

fn drift_of(value: &Value) -> Drift {
    let all = [Drift::Drifting, Drift::Steady, Drift::Withheld];
    all.into_iter().find(|drift| json!(drift) == *value).unwrap_or(Drift::TooShortToTell)
}

fn withheld(series: &Series) -> Value {
    json!({
        "column": null,
        "n": series.iter().filter(|r| r.2).count(),
        "warm_up": null, "thirds": null, "autocorrelation": null,
        "drift": Drift::Withheld, "reason": wording::steady_withheld(),
        "slices": null, "p50": null, "p95": null, "change_points": [], "p95_change_points": [],
    })
}

/// The kept requests of one metric.
struct Course {
    submits: Vec<u64>,
    ns: Vec<i64>,
    bounds: Bounds,
}

impl Course {
    fn of(series: Series, column: Followed, bounds: Bounds) -> Value {
        let kept = || series.iter().filter(|r| r.2);
        let course = Course { submits: kept().map(|r| r.0).collect(), ns: kept().map(|r| r.1).collect(), bounds };
        let values: Vec<f64> = course.ns.iter().map(|ns| millis(*ns)).collect();
        let memory = autocorrelation::of_ranks(&values);
        let mut found = json!({
            "column": column,
            "n": values.len(),
            "warm_up": warm_up(&series),
            "thirds": thirds(&values),
            "autocorrelation": memory.map(|m| json!({"lag_1": m.lag_1, "time": m.time, "n_eff": m.n_eff, "at_most": m.cut_off})),
        });
        let rest = course.over_time().unwrap_or_else(|reason| {
            json!({"drift": Drift::TooShortToTell, "reason": reason, "slices": null, "p50": null, "p95": null, "change_points": [],
                   "p95_change_points": []})
        });
        for (key, value) in rest.as_object().into_iter().flatten() {
            found[key] = value.clone();
        }
        found
    }

    fn over_time(&self) -> Result<Value, String> {
        let window = self.bounds.closed.saturating_sub(self.bounds.opened);
        if window < rules::DRIFT_WINDOW_NS {
            return Err(wording::window_too_short(seconds(window)));
        }
        let span = self.span();
        if (span as f64) < rules::DRIFT_SPREAD * rules::DRIFT_WINDOW_NS as f64 {
            return Err(wording::requests_not_spread(seconds(span), seconds(window)));
        }
        let mut slices = self.slices(rules::SLICE_REQUESTS)?;
        let needed = steadiness::slice_needs(memory_of_rest(&slices));
        if slices.iter().any(|slice| (slice.len() as u64) < needed) {
            slices = self.slices(needed).unwrap_or(slices);
        }
        Ok(self.told(&slices))
    }

    fn span(&self) -> u64 {
        self.submits.last().copied().unwrap_or(0) - self.submits.first().copied().unwrap_or(0)
    }

    /// The most slices that hold `needed` requests each.
    fn slices(&self, needed: u64) -> Result<Vec<Vec<i64>>, String> {
        let (fewest, _, _) = rules::SLICES;
        let mut count = steadiness::slices_wanted(self.span());
        while count >= fewest {
            let mut slices = vec![Vec::new(); count as usize];
            for (submit, ns) in self.submits.iter().zip(&self.ns) {
                let since = u128::from(submit - self.submits[0]);
                // the last request ends the last slice
                let place = (since * u128::from(count) / u128::from(self.span())).min(u128::from(count) - 1);
                slices[place as usize].push(*ns);
            }
            if slices.iter().all(|slice| slice.len() as u64 >= needed) {
                return Ok(slices);
            }
            count -= 1;
        }
        Err(wording::slices_too_small(needed))
    }

    fn told(&self, slices: &[Vec<i64>]) -> Value {
        let slice_ns = self.span() as f64 / slices.len() as f64;
        let trend = |p: usize| {
            let series = each(slices, p);
            trend::of(&series).map(|t| {
                let slope = steadiness::per_10_min(&t, slice_ns, levels::middle(&series));
                json!({
                    "drift": steadiness::drift(&t, &slope, self.span() as f64),
                    "s": t.s, "p": t.p, "lag_1": t.lag_1,
                    "ms_per_10_min": slope.ms, "ms_per_10_min_ci": slope.ms_ci,
                    "share_per_10_min": slope.share, "share_per_10_min_ci": slope.share_ci,
                })
            })
        };
        let (p50, p95) = (trend(0), trend(2));
        let drifts = [&p50, &p95].into_iter().flatten().any(|t| t["drift"] == "drifting");
        let begins = self.submits[0].saturating_sub(self.bounds.opened) as f64;
        let changes = |published: usize| {
            let series = each(slices, published);
            let cuts = cuts(&series);
            let mut changes = Vec::new();
            for (i, cut) in cuts.iter().enumerate() {
                let before = if i == 0 { 0 } else { cuts[i - 1] };
                let after = cuts.get(i + 1).copied().unwrap_or(series.len());
                changes.push(json!({
                    "at_s": (begins + *cut as f64 * slice_ns) / 1e9,
                    "before_ms": levels::middle(&series[before..*cut]),
                    "after_ms": levels::middle(&series[*cut..after]),
                }));
            }
            changes
        };
        json!({
            "drift": if drifts { Drift::Drifting } else { Drift::Steady },
            "reason": null,
            "slices": {
                "n": slices.len(),
                "length_s": slice_ns / 1e9,
                "fewest_requests": slices.iter().map(Vec::len).min(),
                "autocorrelation_time": memory_of_rest(slices),
            },
            "p50": p50,
            "p95": p95,
            "change_points": changes(0),
            "p95_change_points": changes(2),
        })
    }
}

/// A published percentile of each slice, ms.
fn each(slices: &[Vec<i64>], published: usize) -> Vec<f64> {
    let of = |slice: &Vec<i64>| figures(&mut slice.clone()).and_then(|f| f.percentiles_ms[published]);
    slices.iter().filter_map(of).collect()
}

fn cuts(medians: &[f64]) -> Vec<usize> {
    let least = levels::middle(medians) * rules::LEVEL_NOISE;
    if least > 0.0 { change_points::of(medians, least) } else { Vec::new() }
}

/// Autocorrelation time without trend and levels.
fn memory_of_rest(slices: &[Vec<i64>]) -> f64 {
    let medians = each(slices, 0);
    let slope = trend::of(&medians).map_or(0.0, |t| t.slope);
    let values: Vec<Vec<f64>> = slices.iter().map(|s| s.iter().map(|ns| millis(*ns)).collect()).collect();
    steadiness::memory_of_rest(&values, &medians, &cuts(&medians), slope)
}

fn warm_up(series: &Series) -> Value {
    let all: Vec<f64> = series.iter().map(|r| millis(r.1)).collect();
    let Some(cut) = mser::of(&all) else { return Value::Null };
    let (first, after) = all.split_at(cut.values);
    let before: Vec<f64> = first.iter().zip(series).filter(|(_, r)| r.2).map(|(ms, _)| *ms).collect();
    let before_ms = if before.is_empty() { None } else { Some(levels::middle(&before)) };
    let after_ms = levels::middle(after);
    let p = match autocorrelation::of_ranks(after) {
        Some(rest) => rank_sum::test(&before, after, rest.time),
        None => None,
    };
    let apart = before_ms.is_some_and(|ms| steadiness::differs(ms, after_ms));
    json!({
        "n": all.len(),
        "cut": cut.values,
        "kept_in_cut": before.len(),
        "before_ms": before_ms,
        "after_ms": after_ms,
        "p": p,
        "at_limit": cut.at_limit,
        "longer_than_dropped": apart && p.is_some_and(|p| p < rules::WARM_UP_P),
    })
}

fn thirds(values: &[f64]) -> Value {
    if values.len() < rules::THIRDS_N {
        return Value::Null;
    }
    let third = values.len() / 3;
    let (first, last) = (levels::middle(&values[..third]), levels::middle(&values[values.len() - third..]));
    json!({"first_ms": first, "last_ms": last, "ratio": if first > 0.0 { Some(last / first) } else { None }})
}

fn flags(metric: &str, found: &Value, dropped: u64) -> Vec<Value> {
    let flag = |figure: f64, text: String| {
        verdict(metric, found["column"].as_str().unwrap_or("gross"), None, "flag", Some(figure), &text)
    };
    let float = |value: &Value| value.as_f64().unwrap_or_default();
    let mut flags = Vec::new();
    let w = &found["warm_up"];
    if w["longer_than_dropped"] == true {
        let cut = w["cut"].as_u64().unwrap_or_default();
        let text = wording::warm_up_longer(cut, dropped, float(&w["before_ms"]), float(&w["after_ms"]));
        flags.push(flag(cut as f64, text));
    }
    for name in ["p50", "p95"] {
        let t = &found[name];
        if t["drift"] == "drifting" {
            let ci = &t["share_per_10_min_ci"];
            let (ms, share) = (float(&t["ms_per_10_min"]), float(&t["share_per_10_min"]));
            let text = wording::drifting(name, ms, share, [float(&ci[0]), float(&ci[1])], float(&t["p"]));
            flags.push(flag(share, text));
        }
    }
    for (name, key) in [("p50", "change_points"), ("p95", "p95_change_points")] {
        let changes = found[key].as_array().into_iter().flatten();
        let changes: Vec<_> =
            changes.map(|c| (float(&c["at_s"]), float(&c["before_ms"]), float(&c["after_ms"]))).collect();
        if !changes.is_empty() {
            flags.push(flag(changes.len() as f64, wording::level_changed(name, &changes)));
        }
    }
    let n = found["n"].as_u64().unwrap_or_default();
    let a = &found["autocorrelation"];
    if let Some(n_eff) = a["n_eff"].as_f64().filter(|n_eff| steadiness::depends(*n_eff, n)) {
        flags.push(flag(n_eff, wording::dependent(n_eff, a["at_most"] == true, n)));
    }
    flags
}
