//! Whether the client was fit to measure, a second time: from the rows and `health.jsonl` as plain JSON.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::arrivals::Indices;
use super::distributions::{percentile_of_sorted, percentiles};
use super::raw::number;
use crate::analysis::definitions::calibrated::LIMITS;
use crate::analysis::definitions::gates::{
    AT_A_PACE, COLUMNS, Gate, LOSSES, Missing, SPINNING, Scope, losses, process_beside_spinning,
};
use crate::analysis::definitions::rules::{self, GateState, Width, width};
use crate::analysis::definitions::{self, dispersion_distance, wording};
use crate::analysis::percentiles::{EXACT, PUBLISHED, figures};
use crate::rundir::row::Row;

/// What the gates need beside the rows and the client's load.
pub(super) struct Evidence<'a> {
    pub(super) line: &'a Value,
    pub(super) sent: &'a [&'a Row],
    pub(super) ok: &'a [&'a Row],
    pub(super) not_sent: Vec<&'a Row>,
    pub(super) user_stamps: bool,
    pub(super) stamps_missing: Option<f64>,
    /// `(due, lateness)`.
    pub(super) lateness: Vec<(u64, i64)>,
    /// `(when it could go out, turnaround)`; None where no turn that was sent followed a reply.
    pub(super) turnaround: Option<Vec<(u64, i64)>>,
    /// Of the counts in bins of 100 ms.
    pub(super) dispersion: Option<Indices>,
    pub(super) rates: (Option<f64>, Option<f64>),
    /// What a cap did to the achieved rate.
    pub(super) cap_in_words: String,
    /// `calibration` of the plan, when it matches.
    pub(super) calibration: Option<&'a Value>,
}

impl Evidence<'_> {
    /// Completes `client` with what the ledger says, and judges it.
    pub(super) fn complete(&self, client: &mut Value) {
        let mut gates = Vec::new();
        let events = self.events();
        for worker in client["workers"].as_array_mut().into_iter().flatten() {
            let mine = events.get(&number(worker, "worker"));
            worker["read_delay_p99_ms"] = json!(mine.and_then(|events| self.read_delay(events)));
            worker["bursts"] = mine.map_or(Value::Null, |events| self.bursts(events));
            self.worker_gates(worker, events.is_empty(), &mut gates);
        }
        let busiest = client["workers"].as_array().into_iter().flatten();
        let busiest: Vec<u64> = busiest.filter_map(|worker| worker["bursts"]["busiest"].as_u64()).collect();
        client["load"]["burst"] = json!((!busiest.is_empty()).then(|| busiest.iter().sum::<u64>()));
        let process = client["cpu_per_wall"].as_f64();
        let used = match self.spins() {
            true => {
                let workers = client["workers"].as_array().into_iter().flatten();
                let workers: Vec<_> = workers.map(|w| (w["cpu_per_wall"].as_f64(), w["busy"].as_f64())).collect();
                process_beside_spinning(process, &workers)
            }
            false => process,
        };
        let said = if self.spins() { SPINNING } else { "" };
        gates.push(entry(Gate::ProcessCpu, Scope::Window, used.ok_or(Missing::Samples), said));
        let why = if process.is_some() { Missing::NotTold } else { Missing::Samples };
        gates.push(entry(Gate::Steal, Scope::Window, client["steal"].as_f64().ok_or(why), ""));
        let scheduled = self.line["load"]["model"] != "closed";
        if scheduled {
            let late = self.worst_percentile(&self.lateness, 3);
            gates.push(entry(Gate::Lateness, Scope::Window, late.ok_or(Missing::Events), ""));
            gates.push(self.arrivals());
        }
        if let Some(turnaround) = &self.turnaround {
            let figure = self.worst_percentile(turnaround, 3).ok_or(Missing::Events);
            let mut gate = entry(Gate::Turnaround, Scope::Window, figure, "");
            if self.line["load"]["sessions"]["paced"] == true {
                gate["voids"] = json!(AT_A_PACE);
            }
            gates.push(gate);
        }
        gates.push(self.net_width());
        let missing = if self.user_stamps { Err(Missing::Stamps) } else { self.stamps_missing.ok_or(Missing::Events) };
        gates.push(entry(Gate::StampsMissing, Scope::Window, missing, ""));
        self.against_calibration(client, &mut gates);
        if scheduled {
            let share = match self.rates {
                (Some(offered), Some(achieved)) if offered > 0.0 => Ok(achieved / offered),
                _ => Err(Missing::NoLength),
            };
            gates.push(entry(Gate::Achieved, Scope::Window, share, &self.cap_in_words));
        }
        gates.push(self.lost());
        client["gates"] = Value::Array(gates);
    }

    fn spins(&self) -> bool {
        self.line["spin"] == true
    }

    fn worker_gates(&self, worker: &Value, nobody_read: bool, gates: &mut Vec<Value>) {
        let scope = Scope::Worker(number(worker, "worker") as u32);
        let of = |key: &str| worker[key].as_f64();
        let unsampled = if of("cpu_per_wall").is_some() { Missing::NotTold } else { Missing::Samples };
        let mut put = |gate, figure: Option<f64>, why, detail: &str| {
            gates.push(entry(gate, scope, figure.ok_or(why), detail));
        };
        let most = |a: &str, b: &str| match (of(a), of(b)) {
            (Some(a), Some(b)) => Some(if b > a { b } else { a }),
            (a, b) => a.or(b),
        };
        if !self.spins() {
            put(Gate::Cpu, most("cpu_per_wall", "worst_5s"), unsampled, "");
        }
        put(Gate::Busy, most("busy", "busy_worst_5s"), unsampled, "");
        let bursts = &worker["bursts"];
        if bursts.is_object() || nobody_read {
            let why = if self.user_stamps { Missing::Stamps } else { Missing::Events };
            let longest = bursts["drain_max_ms"].as_f64().unwrap_or_default();
            let detail = format!("longest {longest:.3} ms, busiest {} events", number(bursts, "busiest"));
            put(Gate::BurstDrain, bursts["drain_p999_ms"].as_f64(), why, if bursts.is_object() { &detail } else { "" });
            put(Gate::ReadDelay, of("read_delay_p99_ms"), why, "");
        }
        let switches = worker["involuntary_switches"].as_u64().map(|n| format!("{n} involuntary switches"));
        put(Gate::RunQueue, of("run_delay_share"), unsampled, &switches.unwrap_or_default());
        put(Gate::Steal, of("steal"), unsampled, "");
    }

    /// Stamped token events `(batch, seen, arrived)` of each worker that had some.
    fn events(&self) -> BTreeMap<u64, Vec<(u64, u64, u64)>> {
        let mut events: BTreeMap<u64, Vec<(u64, u64, u64)>> = BTreeMap::new();
        for row in self.sent {
            for chunk in &row.chunks {
                if let Some(arrived) = chunk.1 {
                    events.entry(row.worker.into()).or_default().push((chunk.6, chunk.0, arrived));
                }
            }
        }
        events
    }

    fn read_delay(&self, events: &[(u64, u64, u64)]) -> Option<f64> {
        let delays: Vec<(u64, i64)> = events.iter().map(|(_, seen, arrived)| (*seen, apart(*arrived, *seen))).collect();
        self.worst_percentile(&delays, 3)
    }

    fn bursts(&self, events: &[(u64, u64, u64)]) -> Value {
        // (first arrival, last seen, events) of each batch, by its number
        let mut batches: BTreeMap<u64, (u64, u64, u64)> = BTreeMap::new();
        for &(batch, seen, arrived) in events {
            let known = batches.entry(batch).or_insert((arrived, seen, 0));
            *known = (known.0.min(arrived), known.1.max(seen), known.2 + 1);
        }
        let batches: Vec<(u64, u64, u64)> = batches.into_values().collect();
        let mut edges: Vec<usize> = Vec::new();
        for (i, (first_arrival, _, _)) in batches.iter().enumerate() {
            // a batch with nothing that was there when the burst's first was seen begins another
            if edges.last().is_none_or(|first| *first_arrival >= batches[*first].1) {
                edges.push(i);
            }
        }
        edges.push(batches.len());
        let (mut drains, mut longest, mut busiest) = (Vec::new(), i64::MIN, 0);
        for edge in edges.windows(2) {
            let parts = &batches[edge[0]..edge[1]];
            let first = parts.iter().map(|p| p.0).min().unwrap_or_default();
            let last = parts.iter().map(|p| p.1).max().unwrap_or_default();
            let size: u64 = parts.iter().map(|p| p.2).sum();
            let drain = apart(first, last);
            (longest, busiest) = (longest.max(drain), busiest.max(size));
            // each event bears the burst it was in
            (0..size).for_each(|_| drains.push((last, drain)));
        }
        json!({
            "n": edges.len() - 1,
            "drain_p999_ms": self.worst_percentile(&drains, 4),
            "drain_max_ms": definitions::millis(longest),
            "busiest": busiest,
        })
    }

    /// Percentile in ms of values at moments: of all, or of the worst 5 s with enough of them.
    fn worst_percentile(&self, values: &[(u64, i64)], published: usize) -> Option<f64> {
        let (opened, closed) = (number(self.line, "opened"), number(self.line, "closed"));
        let parts = (closed.saturating_sub(opened) / rules::PART_NS).max(1);
        let mut all: Vec<i64> = values.iter().map(|v| v.1).collect();
        all.sort_unstable();
        let any = crate::analysis::percentiles::Percentile { smallest_n: 0, ..PUBLISHED[published] };
        let mut worst = percentile_of_sorted(&mut all, any)?;
        let mut by_part: BTreeMap<u64, Vec<i64>> = BTreeMap::new();
        for (t, ns) in values {
            let part = (t.saturating_sub(opened) / rules::PART_NS).min(parts - 1);
            by_part.entry(part).or_default().push(*ns);
        }
        for mut part in by_part.into_values() {
            let found = figures(&mut part).and_then(|f| f.percentiles_ms[published]);
            worst = found.map_or(worst, |found| worst.max(found));
        }
        Some(worst)
    }

    fn arrivals(&self) -> Value {
        if self.user_stamps {
            return entry(Gate::Arrivals, Scope::Window, Err(Missing::Stamps), "");
        }
        match self.dispersion {
            Some((planned, Some(realised))) => {
                let detail = format!("index of dispersion {planned:.3} planned, {realised:.3} sent");
                entry(Gate::Arrivals, Scope::Window, Ok(dispersion_distance(planned, realised)), &detail)
            }
            _ => entry(Gate::Arrivals, Scope::Window, Err(Missing::Bins), ""),
        }
    }

    fn net_width(&self) -> Value {
        let why = if self.user_stamps { Missing::Stamps } else { Missing::Events };
        let nets: Vec<_> = self.ok.iter().filter_map(|r| definitions::ttft(r).net).collect();
        let of = |values: Vec<i64>| {
            let coarse = values.len() > EXACT;
            percentiles(values, coarse)
        };
        let lo = of(nets.iter().map(|n| n.lo).collect());
        let hi = of(nets.iter().map(|n| n.at).collect());
        let mut found: Vec<(f64, &str, Width)> = Vec::new();
        for i in 0..PUBLISHED.len() {
            if let (Some(lo), Some(hi)) = (lo[i], hi[i])
                && hi > 0.0
            {
                found.push(((hi - lo) / hi, PUBLISHED[i].name, width(lo, hi)));
            }
        }
        let Some(&(mut share, mut name, mut severest)) = found.first() else {
            return entry(Gate::NetWidth, Scope::Window, Err(why), "");
        };
        for (other, at, judged) in found {
            if other > share {
                (share, name) = (other, at);
            }
            severest = match (severest, judged) {
                (Width::Withheld, _) | (_, Width::Withheld) => Width::Withheld,
                (Width::Both, _) | (_, Width::Both) => Width::Both,
                _ => Width::Narrow,
            };
        }
        let detail = format!("at {name}");
        let mut gate = entry(Gate::NetWidth, Scope::Window, Ok(share), &detail);
        gate["state"] = json!(match severest {
            Width::Narrow => "ok",
            Width::Both => "warn",
            Width::Withheld => "void",
        });
        gate["text"] = json!(wording::net_width(share, &detail, severest));
        gate
    }

    fn against_calibration(&self, client: &Value, gates: &mut Vec<Value>) {
        if self.user_stamps {
            let mut gross: Vec<i64> = self.ok.iter().filter_map(|r| definitions::ttft(r).gross).collect();
            let ttft = figures(&mut gross).and_then(|f| f.percentiles_ms[3]).filter(|ms| *ms > 0.0);
            let share = match (client["calibrated"]["p99_us"][1].as_f64(), ttft) {
                _ if self.calibration.is_none() => Err(Missing::Calibration),
                (Some(us), Some(ttft)) => Ok(us / 1e3 / ttft),
                (Some(_), None) => Err(Missing::Events),
                (None, _) => Err(Missing::Tare),
            };
            gates.push(entry(Gate::CalibratedTare, Scope::Window, share, ""));
        }
        let Some(calibration) = self.calibration else { return };
        let place = calibration["placement"].as_str();
        for (gate, name) in LIMITS.iter().filter_map(|name| Some((Gate::of_limit(name)?, *name))) {
            let limit = &calibration["limits"][name];
            let Some(value) = limit["value"].as_f64() else { continue };
            let at_least = limit["at_least"] == true;
            let unknown = if name == "burst" && self.user_stamps { Missing::Stamps } else { Missing::Events };
            gates.push(match client["load"][name].as_f64() {
                _ if value <= 0.0 => {
                    let mut warned = entry(gate, Scope::Window, Err(unknown), "");
                    warned["state"] = json!("warn");
                    warned["text"] = json!(gate.nothing_calibrated(at_least));
                    warned
                }
                Some(load) => {
                    let detail = wording::of_limit(load, value, at_least, place);
                    entry(gate, Scope::Window, Ok(load / value), &detail)
                }
                None => entry(gate, Scope::Window, Err(unknown), ""),
            });
        }
    }

    fn lost(&self) -> Value {
        let refused = |rows: &[&Row]| {
            let classes = rows.iter().filter_map(|r| r.error.as_ref()).map(|e| e.class.as_str());
            classes.filter(|class| rules::is_client_loss(class)).count() as u64
        };
        let counted = ["ring_overflow", "pool_exhausted", "reader_waits"].map(|name| number(self.line, name));
        let [ring, blocks, reader] = counted;
        let requests = refused(self.sent) + refused(&self.not_sent);
        let detail = losses([(ring, LOSSES[0]), (blocks, LOSSES[1]), (reader, LOSSES[2]), (requests, LOSSES[3])]);
        let all = [ring, blocks, reader, requests].into_iter().reduce(u64::saturating_add).unwrap_or_default();
        entry(Gate::Losses, Scope::Window, Ok(all as f64), &detail)
    }
}

fn entry(gate: Gate, scope: Scope, figure: Result<f64, Missing>, detail: &str) -> Value {
    let limit = gate.limit();
    let (state, text) = match figure {
        Ok(figure) => (limit.judge(figure), gate.sentence(scope, figure, detail)),
        Err(why) => (GateState::Unknown, gate.unknown(scope, &why.to_string())),
    };
    json!({
        "gate": gate.to_string(),
        "scope": scope.to_string(),
        "figure": figure.ok(),
        "unit": gate.unit(),
        "warn": limit.warn,
        "void": limit.void,
        "state": state,
        "voids": gate.voids(),
        "text": text,
    })
}

/// Whether the gates withhold a whole column.
pub(super) fn withhold(client: &Value, column: &str) -> bool {
    voiding(client, column).next().is_some()
}

/// The gates that void it as a whole; of the width only percentiles are.
pub(super) fn voiding<'a>(client: &'a Value, column: &'a str) -> impl Iterator<Item = &'a Value> {
    let gates = client["gates"].as_array().into_iter().flatten();
    let void = gates.filter(|g| g["state"] == "void" && g["gate"] != "net_width");
    void.filter(move |g| g["voids"].as_array().is_some_and(|columns| columns.iter().any(|c| c == column)))
}

/// The verdicts that follow from gates, in their order.
pub(super) fn verdicts(client: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    for gate in client["gates"].as_array().into_iter().flatten() {
        if gate["gate"] == "net_width" || gate["gate"] == "stamps_missing" {
            continue;
        }
        let mut put = |column: &str, kind: &str| {
            found.push(json!({"metric": "*", "column": column, "percentile": null, "kind": kind,
                "figure": gate["figure"], "text": gate["text"]}));
        };
        if gate["state"] == "warn" {
            put("*", "flag");
        } else if gate["state"] == "void" {
            let named = |column: &&&str| gate["voids"].as_array().is_some_and(|v| v.iter().any(|c| c == **column));
            COLUMNS.iter().filter(named).for_each(|column| put(column, "withheld"));
        }
    }
    found
}

/// Why a window has neither gross nor net of ttft; None when it has one of them.
pub(super) fn invalid(window: &Value) -> Option<String> {
    let all: Vec<&Value> = window["verdicts"].as_array().into_iter().flatten().collect();
    let withheld = |column: &str| {
        let holds = |v: &&&Value| v["metric"] == "*" && v["kind"] == "withheld" && v["column"] == column;
        all.iter().filter(holds).filter_map(|v| v["text"].as_str()).collect::<Vec<_>>()
    };
    let (mut reasons, mut net) = (withheld("gross"), withheld("net"));
    let values = window.pointer("/metrics/ttft/net/n").and_then(Value::as_u64).unwrap_or_default();
    let defined = PUBLISHED.iter().filter(|p| p.smallest_n as u64 <= values).count();
    let of_ttft = |v: &&&Value| v["metric"] == "ttft" && v["column"] == "net" && v["kind"] == "withheld";
    let wide = all.iter().filter(of_ttft).filter(|v| v["percentile"].is_string()).count();
    if defined > 0 && wide == defined {
        net.push(wording::all_too_wide());
    }
    if reasons.is_empty() || net.is_empty() {
        return None;
    }
    let new: Vec<&str> = net.into_iter().filter(|text| !reasons.contains(text)).collect();
    reasons.extend(new);
    Some(wording::invalid(&reasons))
}

fn apart(from: u64, to: u64) -> i64 {
    let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    signed(to).saturating_sub(signed(from))
}
