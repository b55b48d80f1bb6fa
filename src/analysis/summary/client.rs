//! What the client's threads used up during a window, from differences of health samples.

use std::collections::BTreeMap;

use crate::analysis::definitions::{rules, share};
use crate::rundir::health::HealthRow;
use crate::rundir::run_json::{Client, ClientLoad, WorkerLoad};
use crate::rundir::window::{WindowRow, WorkerShare};

/// Samples by thread, in order of time.
pub(in crate::analysis) struct Health {
    threads: BTreeMap<(String, u64), Vec<HealthRow>>,
}

impl Health {
    pub(in crate::analysis) fn new(samples: Vec<HealthRow>) -> Self {
        let mut threads: BTreeMap<(String, u64), Vec<HealthRow>> = BTreeMap::new();
        for sample in samples {
            threads.entry((sample.thread.clone(), sample.tid)).or_default().push(sample);
        }
        threads.values_mut().for_each(|samples| samples.sort_by_key(|s| s.t));
        Health { threads }
    }

    /// What the process and each worker did in a window; what the ledger knows is left open.
    pub(super) fn client(&self, bounds: &WindowRow) -> Client {
        let process = self.threads.iter().find(|((name, _), _)| name == "process");
        let samples = process.and_then(|(_, samples)| around(samples, bounds)).unwrap_or_default();
        Client {
            cpu_per_wall: whole(samples, |s| Some(s.cpu_ns)),
            workers: bounds.workers.iter().map(|worker| self.worker(worker, bounds)).collect(),
            steal: worst_steal(samples),
            load: ClientLoad::default(),
            calibrated: None,
            gates: Vec::new(),
            counters: bounds.counters,
        }
    }

    /// Resident memory of the process while a window was open: moment and bytes.
    pub(super) fn resident(&self, bounds: &WindowRow) -> impl Iterator<Item = (u64, u64)> + '_ {
        let process = self.threads.iter().find(|((name, _), _)| name == "process");
        let open = bounds.opened..=bounds.closed;
        let samples = process.into_iter().flat_map(|(_, samples)| samples).filter(move |s| open.contains(&s.t));
        samples.filter_map(|s| Some((s.t, s.rss_bytes?)))
    }

    /// Samples of a worker from the last before a window to the first after it; none when one of these is missing.
    pub(in crate::analysis) fn of_worker(&self, worker: &WorkerShare, bounds: &WindowRow) -> &[HealthRow] {
        let thread = self.threads.get(&(format!("worker-{}", worker.worker), worker.tid));
        thread.and_then(|samples| around(samples, bounds)).unwrap_or_default()
    }

    fn worker(&self, worker: &WorkerShare, bounds: &WindowRow) -> WorkerLoad {
        let samples = self.of_worker(worker, bounds);
        let cpu = |s: &HealthRow| Some(s.cpu_ns);
        WorkerLoad {
            worker: worker.worker,
            core: worker.core,
            cpu_per_wall: whole(samples, cpu),
            worst_5s: worst(samples, rules::WORST_CPU_NS, cpu),
            busy: share(worker.busy_ns, bounds.closed.saturating_sub(bounds.opened)),
            busy_worst_5s: worst(samples, rules::WORST_CPU_NS, |s| s.busy_ns),
            run_delay_share: worst(samples, rules::WORST_RUN_DELAY_NS, |s| s.run_delay_ns),
            involuntary_switches: grown(samples, |s| s.involuntary_switches),
            steal: worst_steal(samples),
            softirq: worst(samples, rules::WORST_CPU_NS, |s| s.softirq_ns),
            read_delay_p99_ms: None,
            bursts: None,
        }
    }
}

/// The last sample at or before the opening, to the first at or after the close.
fn around<'a>(samples: &'a [HealthRow], bounds: &WindowRow) -> Option<&'a [HealthRow]> {
    let first = samples.partition_point(|s| s.t <= bounds.opened).checked_sub(1)?;
    let last = samples.partition_point(|s| s.t < bounds.closed).max(first);
    samples.get(first..=last)
}

type Counter = fn(&HealthRow) -> Option<u64>;

fn whole(samples: &[HealthRow], counter: Counter) -> Option<f64> {
    rate(samples.first()?, samples.last()?, counter)
}

/// Largest rate over a slice of about `span` ns; over the whole window when that is shorter.
fn worst(samples: &[HealthRow], span: u64, counter: Counter) -> Option<f64> {
    worst_by(samples, span, |from, to| rate(from, to, counter))
}

fn worst_steal(samples: &[HealthRow]) -> Option<f64> {
    worst_by(samples, rules::WORST_CPU_NS, |from, to| {
        rules::steal_share(to.steal_ns?.saturating_sub(from.steal_ns?), to.t.saturating_sub(from.t))
    })
}

fn worst_by(samples: &[HealthRow], span: u64, rate: impl Fn(&HealthRow, &HealthRow) -> Option<f64>) -> Option<f64> {
    let least = (span as f64 * rules::SLICE_AT_LEAST) as u64;
    let mut to = 0;
    let slices = samples.iter().filter_map(|from| {
        to += samples[to..].iter().position(|s| s.t >= from.t.saturating_add(least))?;
        rate(from, &samples[to])
    });
    slices.max_by(f64::total_cmp).or_else(|| rate(samples.first()?, samples.last()?))
}

fn rate(from: &HealthRow, to: &HealthRow, counter: Counter) -> Option<f64> {
    share(counter(to)?.saturating_sub(counter(from)?), to.t.saturating_sub(from.t))
}

fn grown(samples: &[HealthRow], counter: Counter) -> Option<u64> {
    Some(counter(samples.last()?)?.saturating_sub(counter(samples.first()?)?))
}
