//! Whether the client is fit to measure, as far as the samples of its threads tell while a window runs: the gates of
//! [`rules`] on what has come so far.

use crate::analysis::definitions::gates::Gate;
use crate::analysis::definitions::rules;
use crate::analysis::definitions::rules::GateState;
use crate::rundir::health::HealthRow;
use std::collections::{BTreeMap, VecDeque};

/// Samples of a worker that are kept: at one a second, more than the longest slice has.
const KEPT: usize = 16;
/// A first figure is told after this time, in ns.
const SOON: u64 = 300_000_000;

/// The client's health over the window that runs.
#[derive(Debug, Default)]
pub struct Fitness {
    spin: bool,
    workers: BTreeMap<u64, VecDeque<HealthRow>>,
    /// Worst whole slice of any worker.
    worst: BTreeMap<Gate, f64>,
    /// Worst of what there is, until a slice is whole.
    so_far: BTreeMap<Gate, f64>,
}

/// A gate's figure so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Signal {
    /// Which.
    pub gate: Gate,
    /// In the gate's unit.
    pub figure: f64,
    /// What the gate says of it.
    pub state: GateState,
}

impl Signal {
    /// A figure, judged.
    pub fn of(gate: Gate, figure: f64) -> Signal {
        Signal { gate, figure, state: gate.limit().judge(figure) }
    }
}

type Share = fn(&HealthRow, &HealthRow) -> Option<u64>;

impl Fitness {
    /// Before a window. Of workers that spin the busy time counts, not the CPU time.
    pub fn of(spin: bool) -> Fitness {
        Fitness { spin, ..Fitness::default() }
    }

    /// Takes in the samples of one moment.
    pub fn take(&mut self, rows: &[HealthRow]) {
        for row in rows.iter().filter(|row| row.core.is_some()) {
            self.workers.entry(row.tid).or_default().push_back(row.clone());
        }
        for samples in self.workers.values_mut().filter(|samples| samples.len() > KEPT) {
            samples.pop_front();
        }
        let load = if self.spin { Gate::Busy } else { Gate::Cpu };
        let used: Share =
            if self.spin { |a, b| grown(a.busy_ns, b.busy_ns) } else { |a, b| grown(Some(a.cpu_ns), Some(b.cpu_ns)) };
        self.judge(load, rules::WORST_CPU_NS, used);
        self.judge(Gate::RunQueue, rules::WORST_RUN_DELAY_NS, |a, b| grown(a.run_delay_ns, b.run_delay_ns));
        self.judge(Gate::Steal, rules::WORST_CPU_NS, |a, b| grown(a.steal_ns, b.steal_ns));
    }

    /// The gates that can be told so far: CPU (or busy time), run queue, steal.
    pub fn signals(&self) -> Vec<Signal> {
        let told = |gate: &Gate| Some(Signal::of(*gate, *self.worst.get(gate).or(self.so_far.get(gate))?));
        [Gate::Cpu, Gate::Busy, Gate::RunQueue, Gate::Steal].iter().filter_map(told).collect()
    }

    fn judge(&mut self, gate: Gate, span: u64, share: Share) {
        let least = (span as f64 * rules::SLICE_AT_LEAST) as u64;
        let (mut whole, mut part): (Option<f64>, Option<f64>) = (None, None);
        for samples in self.workers.values() {
            let (Some(first), Some(last)) = (samples.front(), samples.back()) else { continue };
            let of = |from: &HealthRow| Some(share(from, last)? as f64 / (last.t - from.t) as f64);
            // as the gate itself: from each sample to the first one that is late enough
            let before = samples.iter().rev().nth(1).map_or(0, |s| s.t);
            let ends_here = |s: &&HealthRow| last.t.saturating_sub(s.t) >= least && before.saturating_sub(s.t) < least;
            whole =
                samples.iter().filter(ends_here).filter_map(of).fold(whole, |worst, share| larger(worst, Some(share)));
            let soon = last.t.saturating_sub(first.t) >= SOON && gate != Gate::Steal;
            part = larger(part, Some(first).filter(|_| soon).and_then(of));
        }
        if let Some(figure) = larger(whole, self.worst.get(&gate).copied()) {
            self.worst.insert(gate, figure);
        }
        if let Some(figure) = part {
            self.so_far.insert(gate, figure);
        }
    }
}

fn grown(from: Option<u64>, to: Option<u64>) -> Option<u64> {
    Some(to?.saturating_sub(from?))
}

fn larger(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    [a, b].into_iter().flatten().max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn sample(t_s: f64, tid: u64, cpu_s: f64, waited_s: f64) -> HealthRow {
        let ns = |s: f64| (s * S as f64) as u64;
        HealthRow {
            t: ns(t_s),
            thread: format!("worker-{tid}"),
            tid,
            core: Some(0),
            cpu_ns: ns(cpu_s),
            run_delay_ns: Some(ns(waited_s)),
            voluntary_switches: None,
            involuntary_switches: None,
            busy_ns: Some(ns(cpu_s / 2.0)),
            steal_ns: Some(0),
            softirq_ns: None,
            rss_bytes: None,
        }
    }

    fn told(fitness: &Fitness, gate: Gate) -> Option<(f64, GateState)> {
        let signals = fitness.signals();
        let of = signals.iter().find(|s| s.gate == gate)?;
        Some(((of.figure * 1e3).round() / 1e3, of.state))
    }

    #[test]
    fn the_worst_slice_of_the_worst_worker_is_told() {
        let mut fitness = Fitness::of(false);
        assert_eq!(fitness.signals(), [], "no sample, no figure");
        fitness.take(&[sample(0.0, 1, 0.0, 0.0), sample(0.0, 2, 0.0, 0.0)]);
        fitness.take(&[sample(0.5, 1, 0.4, 0.0), sample(0.5, 2, 0.1, 0.0)]);
        assert_eq!(told(&fitness, Gate::Cpu), Some((0.8, GateState::Warn)), "so far, of the busier one");
        for t in 1..=5 {
            let t = f64::from(t);
            // worker 2 waits 60 ms in its third second
            let waited = if t > 2.0 { 0.06 } else { 0.0 };
            fitness.take(&[sample(t, 1, 0.4 + (t - 0.5) * 0.1, 0.0), sample(t, 2, 0.1, waited)]);
        }
        assert_eq!(told(&fitness, Gate::Cpu), Some((0.17, GateState::Ok)), "once 5 s are whole, the worst of these");
        assert_eq!(told(&fitness, Gate::RunQueue), Some((0.06, GateState::Void)), "and it stays");
        assert_eq!(told(&fitness, Gate::Steal), Some((0.0, GateState::Ok)));
    }

    #[test]
    fn of_workers_that_spin_the_busy_time_counts() {
        let mut fitness = Fitness::of(true);
        fitness.take(&[sample(0.0, 1, 0.0, 0.0)]);
        fitness.take(&[sample(1.0, 1, 1.0, 0.0)]);
        assert_eq!(told(&fitness, Gate::Busy), Some((0.5, GateState::Ok)));
        assert_eq!(told(&fitness, Gate::Cpu), None);
    }

    #[test]
    fn what_the_kernel_does_not_tell_is_no_figure() {
        let mut fitness = Fitness::of(false);
        let untold = |t| HealthRow { run_delay_ns: None, ..sample(t, 1, 0.0, 0.0) };
        fitness.take(&[untold(0.0)]);
        fitness.take(&[untold(2.0), HealthRow { core: None, ..sample(2.0, 9, 9.0, 9.0) }]);
        assert_eq!(told(&fitness, Gate::RunQueue), None);
        assert_eq!(told(&fitness, Gate::Cpu), Some((0.0, GateState::Ok)), "other threads are no worker");
    }
}
