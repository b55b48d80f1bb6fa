//! The client over the time of a window, from differences of health samples.

use std::collections::BTreeMap;

use super::ClientSample;
use super::slices::Cut;
use crate::analysis::definitions::rules::{self, steal_share};
use crate::analysis::definitions::share;
use crate::analysis::summary::client::Health;
use crate::rundir::health::HealthRow;
use crate::rundir::window::WindowRow;

/// Worker by worker in order of time, at most one sample a slice: of several the largest of each figure.
pub(super) fn of_window(health: &Health, bounds: &WindowRow, cut: &Cut) -> Vec<ClientSample> {
    let mut found = Vec::new();
    for worker in &bounds.workers {
        let mut by_slice: BTreeMap<usize, ClientSample> = BTreeMap::new();
        for (from, to) in steps(health.of_worker(worker, bounds)) {
            let sample = between(from, to, worker.worker, bounds.spin, cut);
            // one that ends where a slice does speaks of that slice, not of the next
            let largest = by_slice.entry(cut.place(to.t.saturating_sub(1))).or_default();
            *largest = ClientSample {
                cpu_per_wall: larger(largest.cpu_per_wall, sample.cpu_per_wall),
                busy: larger(largest.busy, sample.busy),
                run_queue: larger(largest.run_queue, sample.run_queue),
                steal: larger(largest.steal, sample.steal),
                ..sample
            };
        }
        found.extend(by_slice.into_values());
    }
    found
}

/// Neighbouring samples that are far enough apart for a share to say something: besides those of each second there are
/// some beside the opening and the close.
fn steps(samples: &[HealthRow]) -> Vec<(&HealthRow, &HealthRow)> {
    let least = (rules::WORST_RUN_DELAY_NS as f64 * rules::SLICE_AT_LEAST) as u64;
    let mut ends: Vec<&HealthRow> = Vec::new();
    for sample in samples {
        if ends.last().is_none_or(|end| sample.t.saturating_sub(end.t) >= least) {
            ends.push(sample);
        }
    }
    // what is left over is added to the last step; alone it is one, however short
    if let Some(last) = samples.last().filter(|last| ends.last().is_some_and(|end| end.t < last.t)) {
        if ends.len() > 1 {
            ends.pop();
        }
        ends.push(last);
    }
    ends.windows(2).map(|pair| (pair[0], pair[1])).collect()
}

fn between(from: &HealthRow, to: &HealthRow, worker: u32, spin: bool, cut: &Cut) -> ClientSample {
    let wall = to.t.saturating_sub(from.t);
    let grown = |counter: fn(&HealthRow) -> Option<u64>| Some(counter(to)?.saturating_sub(counter(from)?));
    let busy = grown(|s| s.busy_ns).and_then(|ns| share(ns, wall));
    let cpu = grown(|s| Some(s.cpu_ns)).and_then(|ns| share(ns, wall));
    ClientSample {
        at_s: cut.at_s(to.t),
        worker,
        cpu_per_wall: if spin { busy } else { cpu },
        busy,
        run_queue: grown(|s| s.run_delay_ns).and_then(|ns| share(ns, wall)),
        steal: grown(|s| s.steal_ns).and_then(|ns| steal_share(ns, wall)),
    }
}

fn larger(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.into_iter().chain(b).reduce(f64::max)
}
