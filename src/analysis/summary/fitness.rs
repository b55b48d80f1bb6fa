//! Whether the client was fit to measure: the list of gates of a window.

use super::calibrated::Calibration;
use super::ledger::{Ledger, Parts, worst_ms};
use crate::analysis::definitions::gates::{self, COLUMNS, Gate, Missing, Scope};
use crate::analysis::definitions::rules::{GateState, Width};
use crate::analysis::definitions::{dispersion_distance, wording};
use crate::analysis::percentiles::PUBLISHED;
use crate::rundir::arrivals::Dispersion;
use crate::rundir::run_json::{self, Client, Verdict, VerdictKind, WorkerLoad};
use crate::rundir::window::{LoadModel, WindowRow};

/// What the gates look at, beside the health of the threads.
pub(super) struct Signals<'a> {
    pub(super) bounds: &'a WindowRow,
    /// Token events.
    pub(super) ledger: &'a Ledger,
    /// Every kept request has user stamps only, and there is one.
    pub(super) user_stamps: bool,
    /// Kept requests that lack a stamp, as a share; None without kept requests.
    pub(super) stamps_missing: Option<f64>,
    /// `(due, lateness)` of ok requests, ns.
    pub(super) lateness: Vec<(u64, i64)>,
    /// `(when it could go out, turnaround)` of ok turns, ns; None where no turn that was sent followed a reply.
    pub(super) turnaround: Option<Vec<(u64, i64)>>,
    /// Of the counts in bins of 100 ms.
    pub(super) dispersion: Option<Dispersion>,
    /// Offered and achieved requests/s.
    pub(super) rates: (Option<f64>, Option<f64>),
    /// What a cap did to the achieved rate; empty where it is not the reason.
    pub(super) cap_in_words: String,
    /// Widest published percentile of ttft net: share of its high end, judgement.
    pub(super) net_width: Option<(f64, Width, &'static str)>,
    /// p99 of ttft gross in ms.
    pub(super) ttft_p99_ms: Option<f64>,
    pub(super) calibration: Option<&'a Calibration>,
    /// Requests that failed as `client`.
    pub(super) client_failures: u64,
}

/// A figure, or why there is none.
type Figure = Result<f64, Missing>;

/// Judges every gate that applies, and completes what `client` says of the workers.
pub(super) fn judge(mut signals: Signals, client: &mut Client) {
    let mut list = Vec::new();
    let no_events = signals.ledger.is_empty();
    for worker in &mut client.workers {
        signals.worker(worker, no_events, &mut list);
    }
    let busiest = client.workers.iter().filter_map(|worker| Some(worker.bursts?.busiest));
    client.load.burst = busiest.reduce(u64::saturating_add);
    let spin = signals.bounds.spin;
    let process = match spin {
        true => {
            let workers: Vec<_> = client.workers.iter().map(|w| (w.cpu_per_wall, w.busy)).collect();
            gates::process_beside_spinning(client.cpu_per_wall, &workers)
        }
        false => client.cpu_per_wall,
    };
    let of_spinning = if spin { gates::SPINNING } else { "" };
    list.push(gate(Gate::ProcessCpu, Scope::Window, process.ok_or(Missing::Samples), of_spinning));
    let stolen = client.steal.ok_or(if client.cpu_per_wall.is_some() { Missing::NotTold } else { Missing::Samples });
    list.push(gate(Gate::Steal, Scope::Window, stolen, ""));
    let open = signals.bounds.load.model != LoadModel::Closed;
    if open {
        list.push(signals.late());
        list.push(signals.arrivals());
    }
    list.extend(signals.turnaround());
    list.push(signals.width());
    let missing = match (signals.user_stamps, signals.stamps_missing) {
        (true, _) => Err(Missing::Stamps),
        (false, share) => share.ok_or(Missing::Events),
    };
    list.push(gate(Gate::StampsMissing, Scope::Window, missing, ""));
    signals.calibrated(client, &mut list);
    if open {
        list.push(signals.achieved());
    }
    list.push(signals.losses());
    client.gates = list;
}

impl Signals<'_> {
    fn worker(&mut self, worker: &mut WorkerLoad, no_events: bool, list: &mut Vec<run_json::Gate>) {
        let scope = Scope::Worker(worker.worker);
        let sampled = worker.cpu_per_wall.is_some();
        let told = |figure: Option<f64>| figure.ok_or(if sampled { Missing::NotTold } else { Missing::Samples });
        let larger = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::max);
        if !self.bounds.spin {
            list.push(gate(Gate::Cpu, scope, told(larger(worker.cpu_per_wall, worker.worst_5s)), ""));
        }
        list.push(gate(Gate::Busy, scope, told(larger(worker.busy, worker.busy_worst_5s)), ""));
        let followed = self.ledger.followed(worker.worker, self.bounds.opened, self.bounds.closed);
        worker.read_delay_p99_ms = followed.as_ref().map(|f| f.read_delay_p99_ms);
        worker.bursts = followed.map(|f| f.bursts);
        let none = if self.user_stamps { Missing::Stamps } else { Missing::Events };
        // a worker that had nothing to read beside others that had is not in question
        if worker.bursts.is_some() || no_events {
            let detail = worker.bursts.map_or_else(String::new, |b| {
                format!("longest {:.3} ms, busiest {} events", b.drain_max_ms, b.busiest)
            });
            let drain = worker.bursts.map(|b| b.drain_p999_ms).ok_or(none);
            list.push(gate(Gate::BurstDrain, scope, drain, &detail));
            list.push(gate(Gate::ReadDelay, scope, worker.read_delay_p99_ms.ok_or(none), ""));
        }
        let switches = worker.involuntary_switches.map_or_else(String::new, |n| format!("{n} involuntary switches"));
        list.push(gate(Gate::RunQueue, scope, told(worker.run_delay_share), &switches));
        list.push(gate(Gate::Steal, scope, told(worker.steal), ""));
    }

    fn late(&self) -> run_json::Gate {
        gate(Gate::Lateness, Scope::Window, self.worst_p99(&self.lateness), "")
    }

    fn turnaround(&self) -> Option<run_json::Gate> {
        let mut found = gate(Gate::Turnaround, Scope::Window, self.worst_p99(self.turnaround.as_ref()?), "");
        if self.bounds.load.sessions.as_ref().is_some_and(|asked| asked.paced) {
            found.voids = gates::AT_A_PACE.iter().map(|column| (*column).to_string()).collect();
        }
        Some(found)
    }

    /// p99 in ms, of all or of the worst part.
    fn worst_p99(&self, values: &[(u64, i64)]) -> Figure {
        let parts = Parts::of_window(self.bounds.opened, self.bounds.closed);
        let values: Vec<(u64, i64)> = values.iter().map(|(at, ns)| (parts.of(*at), *ns)).collect();
        worst_ms(&values, PUBLISHED[3]).ok_or(Missing::Events)
    }

    fn arrivals(&self) -> run_json::Gate {
        let of = |figure, detail: &str| gate(Gate::Arrivals, Scope::Window, figure, detail);
        match self.dispersion.and_then(|d| Some((d.planned, d.wire?))) {
            _ if self.user_stamps => of(Err(Missing::Stamps), ""),
            None => of(Err(Missing::Bins), ""),
            Some((planned, sent)) => of(
                Ok(dispersion_distance(planned, sent)),
                &format!("index of dispersion {planned:.3} planned, {sent:.3} sent"),
            ),
        }
    }

    fn width(&self) -> run_json::Gate {
        let none = if self.user_stamps { Missing::Stamps } else { Missing::Events };
        let detail = self.net_width.map_or_else(String::new, |(_, _, name)| format!("at {name}"));
        let figure = self.net_width.map(|(share, ..)| share).ok_or(none);
        let mut gate = gate(Gate::NetWidth, Scope::Window, figure, &detail);
        if let Some((share, judged, _)) = self.net_width {
            // a share of very little is nothing: the floor in ms counts as well
            gate.state = match judged {
                Width::Narrow => GateState::Ok,
                Width::Both => GateState::Warn,
                Width::Withheld => GateState::Void,
            };
            gate.text = wording::net_width(share, &detail, judged);
        }
        gate
    }

    fn calibrated(&self, client: &Client, list: &mut Vec<run_json::Gate>) {
        if self.user_stamps {
            // of the two steps around this event rate the worse
            let tare = client.calibrated.as_ref().and_then(|c| c.p99_us).map(|[_, us]| us / 1e3);
            let ttft = self.ttft_p99_ms.filter(|ms| *ms > 0.0);
            let share = match (self.calibration, tare, ttft) {
                (None, ..) => Err(Missing::Calibration),
                (_, None, _) => Err(Missing::Tare),
                (_, _, None) => Err(Missing::Events),
                (_, Some(tare), Some(ttft)) => Ok(tare / ttft),
            };
            list.push(gate(Gate::CalibratedTare, Scope::Window, share, ""));
        }
        let Some(calibration) = self.calibration else { return };
        let (limits, load) = (&calibration.limits, &client.load);
        let loads = [
            (Gate::CalibratedRequests, load.requests_per_s, limits.requests_per_s),
            (Gate::CalibratedEvents, load.events_per_s, limits.events_per_s),
            (Gate::CalibratedStreams, Some(load.streams as f64), limits.streams),
            (Gate::CalibratedBurst, load.burst.map(|n| n as f64), limits.burst),
        ];
        for (of, load, limit) in loads {
            let Some(limit) = limit else { continue };
            let none = if self.user_stamps && of == Gate::CalibratedBurst { Missing::Stamps } else { Missing::Events };
            if limit.value == 0.0 {
                list.push(run_json::Gate {
                    state: GateState::Warn,
                    text: of.nothing_calibrated(limit.at_least),
                    ..gate(of, Scope::Window, Err(none), "")
                });
                continue;
            }
            let words = |load| wording::of_limit(load, limit.value, limit.at_least, calibration.placement.as_deref());
            let detail = load.map_or_else(String::new, words);
            list.push(gate(of, Scope::Window, load.map(|load| load / limit.value).ok_or(none), &detail));
        }
    }

    fn achieved(&self) -> run_json::Gate {
        let (offered, achieved) = self.rates;
        let share = offered.filter(|rate| *rate > 0.0).zip(achieved).map(|(offered, achieved)| achieved / offered);
        gate(Gate::Achieved, Scope::Window, share.ok_or(Missing::NoLength), &self.cap_in_words)
    }

    fn losses(&self) -> run_json::Gate {
        let c = &self.bounds.counters;
        let counts = [c.ring_overflow, c.pool_exhausted, c.reader_waits, self.client_failures];
        let [ring, blocks, reader, requests] = gates::LOSSES;
        let [a, b, r, n] = counts;
        let detail = gates::losses([(a, ring), (b, blocks), (r, reader), (n, requests)]);
        let sum = counts.iter().fold(0, |sum: u64, n| sum.saturating_add(*n));
        gate(Gate::Losses, Scope::Window, Ok(sum as f64), &detail)
    }
}

fn gate(gate: Gate, scope: Scope, figure: Figure, detail: &str) -> run_json::Gate {
    let limit = gate.limit();
    let (state, text) = match figure {
        Ok(figure) => (limit.judge(figure), gate.sentence(scope, figure, detail)),
        Err(why) => (GateState::Unknown, gate.unknown(scope, &why.to_string())),
    };
    run_json::Gate {
        gate: gate.to_string(),
        scope: scope.to_string(),
        figure: figure.ok(),
        unit: gate.unit().into(),
        warn: limit.warn,
        void: limit.void,
        state,
        voids: gate.voids().iter().map(|column| (*column).to_string()).collect(),
        text,
    }
}

/// Whether `column` is withheld as a whole.
pub(super) fn voids(gates: &[run_json::Gate], column: &str) -> bool {
    voiding(gates, column).next().is_some()
}

/// What follows from the gates: a withheld column each, or a flag. The stamps' own rules speak for themselves.
pub(super) fn verdicts(gates: &[run_json::Gate]) -> Vec<Verdict> {
    let of = |gate: &run_json::Gate, column: &str, kind| Verdict {
        metric: "*".into(),
        column: column.into(),
        percentile: None,
        kind,
        figure: gate.figure,
        text: gate.text.clone(),
    };
    let own = [Gate::NetWidth, Gate::StampsMissing].map(|gate| gate.to_string());
    let mut found = Vec::new();
    for gate in gates.iter().filter(|g| !own.contains(&g.gate)) {
        match gate.state {
            GateState::Void => {
                let columns = COLUMNS.iter().filter(|column| gate.voids.iter().any(|c| c == *column));
                found.extend(columns.map(|column| of(gate, column, VerdictKind::Withheld)));
            }
            GateState::Warn => found.push(of(gate, "*", VerdictKind::Flag)),
            GateState::Ok | GateState::Unknown => {}
        }
    }
    found
}

/// Why the window is not valid: nothing can be said of gross, and nothing of net.
pub(super) fn invalid(verdicts: &[Verdict], published: usize) -> Option<String> {
    let withheld = |column: &str| {
        let of_all = |v: &&Verdict| v.metric == "*" && v.kind == VerdictKind::Withheld && v.column == column;
        verdicts.iter().filter(of_all).map(|v| v.text.as_str()).collect::<Vec<_>>()
    };
    let (gross, mut net) = (withheld("gross"), withheld("net"));
    let too_wide = |v: &&Verdict| {
        v.metric == "ttft" && v.column == "net" && v.percentile.is_some() && v.kind == VerdictKind::Withheld
    };
    if published > 0 && verdicts.iter().filter(too_wide).count() == published {
        net.push(wording::all_too_wide());
    }
    if gross.is_empty() || net.is_empty() {
        return None;
    }
    let mut reasons = gross;
    for text in net {
        if !reasons.contains(&text) {
            reasons.push(text);
        }
    }
    Some(wording::invalid(&reasons))
}

/// The gates that void a column as a whole.
pub(super) fn voiding<'a>(gates: &'a [run_json::Gate], column: &'a str) -> impl Iterator<Item = &'a run_json::Gate> {
    // of the width only percentiles are
    gates.iter().filter(move |g| g.state == GateState::Void && !is_net_width(g) && g.voids.iter().any(|c| c == column))
}

fn is_net_width(gate: &run_json::Gate) -> bool {
    gate.gate == Gate::NetWidth.to_string()
}

#[cfg(test)]
mod tests;
