//! A long window slice by slice, a second time: from its rows, `health.jsonl` and the scrapes.

use serde_json::{Value, json};

use super::client::Samples;
use super::raw::number;
use super::window::verdict;
use crate::analysis::definitions::load::{self, TokenTrail};
use crate::analysis::definitions::{per_second, seconds, soak, ttft, wording};
use crate::analysis::percentiles::{self, PUBLISHED, figures};
use crate::rundir::row::{Outcome, Phase, Row};

/// The bounds of the slices, in ns.
struct Slices {
    opened: u64,
    closed: u64,
    length: u64,
}

impl Slices {
    fn of(line: &Value) -> Option<Slices> {
        let (opened, closed) = (number(line, "opened"), number(line, "closed"));
        let length = soak::slice_ns(closed.saturating_sub(opened))?;
        Some(Slices { opened, closed, length })
    }

    fn n(&self) -> u64 {
        (self.closed - self.opened).div_ceil(self.length)
    }

    /// What lies outside belongs to the slice next to it.
    fn place(&self, t: u64) -> u64 {
        (t.max(self.opened) - self.opened).checked_div(self.length).unwrap_or(0).min(self.n() - 1)
    }

    fn from(&self, place: u64) -> u64 {
        self.opened + place * self.length
    }

    fn to(&self, place: u64) -> u64 {
        (self.opened + (place + 1) * self.length).min(self.closed)
    }
}

/// The tokens that came in each slice: sums per s, None where nobody told.
fn tokens(slices: &Slices, sent: &[&Row]) -> Vec<Option<f64>> {
    let n = slices.n() as usize;
    let (mut counted, mut untold, mut told) = (vec![Vec::new(); n], vec![false; n], false);
    for trail in sent.iter().map(|row| TokenTrail::of(row)) {
        let mut places: Vec<u64> = trail.moments().map(|t| slices.place(t)).collect();
        places.sort_unstable();
        let (Some(first), Some(last)) = (places.first(), places.last()) else { continue };
        match trail.by_part(|t| slices.place(t) as i64) {
            Some(parts) => {
                told = true;
                // a slice in which a stream paused has none of it
                (*first..=*last).for_each(|p| counted[p as usize].push(parts.get(&(p as i64)).copied().unwrap_or(0.0)));
            }
            None => places.iter().for_each(|p| untold[*p as usize] = true),
        }
    }
    let rate = |(place, mut parts): (usize, Vec<f64>)| {
        let nobody = untold[place] && parts.is_empty();
        let span = slices.to(place as u64) - slices.from(place as u64);
        if told && !nobody { per_second(percentiles::sum(&mut parts), span) } else { None }
    };
    counted.into_iter().enumerate().map(rate).collect()
}

/// The `soak` object of a window, and its verdicts at the end of `verdicts`; None of a short one. The server's part is
/// null yet.
pub(super) fn soak(
    line: &Value,
    sent: &[&Row],
    health: &Samples,
    window: &Value,
    verdicts: &mut Vec<Value>,
) -> Option<Value> {
    let slices = Slices::of(line)?;
    let tokens = tokens(&slices, sent);
    let published = |column: &str, p: &str| window["metrics"]["ttft"][column][format!("{p}_ms")].is_number();
    let memory = health.resident(line);
    let mut told = Vec::new();
    let mut resident = Vec::new();
    let ended = |row: &Row| load::in_flight(row, slices.closed).map(|(_, end)| end).or(row.taken).unwrap_or(row.due);
    for place in 0..slices.n() {
        let here = |t: u64| slices.place(t) == place;
        let count = |outcome| sent.iter().filter(|r| r.outcome == outcome && here(ended(r))).count();
        let kept = sent.iter().filter(|r| r.outcome == Outcome::Ok && r.phase == Phase::Measured);
        let columns: Vec<_> = kept.filter(|r| r.submit.is_some_and(here)).map(|r| ttft(r)).collect();
        let of = |mut values: Vec<i64>| figures(&mut values).map_or([None; 5], |f| f.percentiles_ms);
        let gross = of(columns.iter().filter_map(|c| c.gross).collect());
        let net = of(columns.iter().filter_map(|c| c.net.map(|net| net.at)).collect());
        let rss = memory.iter().filter(|(t, _)| here(*t)).map(|(_, bytes)| *bytes).max();
        resident.push(rss);
        let shown =
            |of: [Option<f64>; 5], column: &str, i: usize| of[i].filter(|_| published(column, PUBLISHED[i].name));
        told.push(json!({
            "from_s": seconds(slices.from(place) - slices.opened),
            "sent": sent.iter().filter(|r| r.submit.is_some_and(here)).count(),
            "ok": count(Outcome::Ok),
            "failed": count(Outcome::Failed),
            "ttft_gross_p50_ms": shown(gross, "gross", 0),
            "ttft_gross_p95_ms": shown(gross, "gross", 2),
            "ttft_net_p50_ms": shown(net, "net", 0),
            "ttft_net_p95_ms": shown(net, "net", 2),
            "output_tokens_per_s": tokens[place as usize],
            "client_rss_bytes": rss,
            "server_waiting": null,
            "server_kv_cache_usage": null,
        }));
    }
    let slice_s = seconds(slices.length);
    let span = &window["throughput"];
    let whole = |slice: &&Value| match (span["from_s"].as_f64(), span["to_s"].as_f64(), slice["from_s"].as_f64()) {
        (Some(from), Some(to), Some(at)) => at >= from && at + slice_s <= to,
        _ => false,
    };
    let rated: Vec<&Value> = told.iter().filter(whole).collect();
    let begins = rated.first().and_then(|slice| slice["from_s"].as_f64()).unwrap_or(0.0);
    let rates: Vec<Option<f64>> = rated.iter().map(|slice| slice["output_tokens_per_s"].as_f64()).collect();
    let (trend, changes) = soak::rate(&rates, begins, slice_s);
    let mut flag = |figure, text: String| verdicts.push(verdict("throughput", "*", None, "flag", Some(figure), &text));
    let trend = json!(trend);
    if trend["drift"] == "drifting" {
        let float = |value: &Value| value.as_f64().unwrap_or_default();
        let ends = &trend["share_per_10_min_ci"];
        let share = float(&trend["share_per_10_min"]);
        let text = wording::rate_drifting(
            float(&trend["per_10_min"]),
            share,
            [float(&ends[0]), float(&ends[1])],
            float(&trend["p"]),
        );
        flag(share, text);
    }
    if !changes.is_empty() {
        let words: Vec<_> = changes.iter().map(|c| (c.at_s, c.before, c.after)).collect();
        flag(changes.len() as f64, wording::rate_changed(&words));
    }
    Some(json!({
        "slice_s": slice_s,
        "slices": told,
        "throughput": trend,
        "throughput_changes": changes,
        "client_memory": soak::client_memory(&resident),
    }))
}

/// The largest of each gauge of the server in each slice of a window, from the scrapes that were answered.
pub(super) fn add_server(figures: &mut Value, line: &Value, scrapes: &[Value]) {
    let told = figures.get_mut("soak").and_then(|soak| soak["slices"].as_array_mut());
    let (Some(slices), Some(told)) = (Slices::of(line), told) else { return };
    let (opened, closed) = (number(line, "opened"), number(line, "closed"));
    for (place, slice) in told.iter_mut().enumerate() {
        let here = |s: &&Value| {
            let at = number(s, "at");
            s["error"].is_null() && opened <= at && at < closed && slices.place(at) == place as u64
        };
        for (field, gauge) in [("server_waiting", "requests_waiting"), ("server_kv_cache_usage", "kv_cache_usage")] {
            let values = scrapes.iter().filter(here).filter_map(|s| s["metrics"][gauge].as_f64());
            slice[field] = json!(values.reduce(f64::max));
        }
    }
}
