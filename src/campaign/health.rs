//! What this process's threads use up, read from /proc by the control thread: no cost to a worker.

use crate::rundir::health::HealthRow;
use bench_engine::cpu;
use nix::sys::resource::{UsageWho, getrusage};
use std::collections::BTreeMap;
use std::fs;

/// The kernel tells times of cores and threads in ticks of this many ns: USER_HZ is 100 on every architecture that
/// Linux and Rust share (proc_stat(5)).
const TICK_NS: u64 = 10_000_000;

/// A worker thread as the engine knows it.
#[derive(Clone, Copy, Debug)]
pub struct Pinned {
    /// Its core.
    pub core: u32,
    /// Time on non-empty batches and on submitting so far, in ns.
    pub busy_ns: u64,
}

/// One sample of every thread and of the process, at `t` ns. `workers` are the pinned threads by tid.
pub fn sample(t: u64, workers: &BTreeMap<u64, Pinned>) -> Vec<HealthRow> {
    let machine = fs::read_to_string("/proc/stat").map(|text| CoreTimes::all(&text)).unwrap_or_default();
    let row = |tid| thread(t, tid, workers.get(&tid), &machine);
    let mut rows: Vec<HealthRow> = tids().into_iter().filter_map(row).collect();
    rows.push(process(t, &machine));
    rows
}

/// What a core did for nobody here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CoreTimes {
    core: u32,
    softirq_ns: u64,
    steal_ns: u64,
}

impl CoreTimes {
    /// The `cpuN` lines of /proc/stat: user nice system idle iowait irq softirq steal.
    fn all(stat: &str) -> Vec<CoreTimes> {
        let core = |line: &str| {
            let mut words = line.strip_prefix("cpu")?.split_whitespace();
            let core = words.next()?.parse().ok()?;
            let ticks: Vec<u64> = words.map_while(|n| n.parse().ok()).collect();
            Some(CoreTimes { core, softirq_ns: ticks.get(6)? * TICK_NS, steal_ns: ticks.get(7)? * TICK_NS })
        };
        stat.lines().filter(|l| !l.starts_with("cpu ")).filter_map(core).collect()
    }
}

fn tids() -> Vec<u64> {
    let entries = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let mut tids: Vec<u64> = entries.filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
    tids.sort_unstable();
    tids
}

/// A thread may be gone between the listing and the reading.
fn thread(t: u64, tid: u64, worker: Option<&Pinned>, machine: &[CoreTimes]) -> Option<HealthRow> {
    let read = |name: &str| fs::read_to_string(format!("/proc/self/task/{tid}/{name}")).ok();
    let name = read("comm")?.trim().to_owned();
    let own = tid == u64::from(std::process::id());
    let (cpu_ns, run_delay_ns) = match read("schedstat").and_then(|text| on_and_off(&text)) {
        Some((cpu_ns, run_delay_ns)) => (cpu_ns, Some(run_delay_ns)),
        None => (cpu_of(&read("stat")?)?, None),
    };
    let status = read("status")?;
    let count = |key: &str| status.lines().find_map(|l| l.strip_prefix(key)?.trim().parse::<u64>().ok());
    let core = worker.and_then(|w| machine.iter().find(|times| times.core == w.core));
    Some(HealthRow {
        t,
        thread: if own { "control".to_owned() } else { name },
        tid,
        core: worker.map(|w| w.core),
        cpu_ns,
        run_delay_ns,
        voluntary_switches: count("voluntary_ctxt_switches:"),
        involuntary_switches: count("nonvoluntary_ctxt_switches:"),
        busy_ns: worker.map(|w| w.busy_ns),
        steal_ns: core.map(|times| times.steal_ns),
        softirq_ns: core.map(|times| times.softirq_ns),
        rss_bytes: None,
    })
}

/// Time on a core and time waiting for one, in ns, from schedstat. A kernel that does not keep them tells zeros: a
/// thread that has run this far has used some time.
fn on_and_off(schedstat: &str) -> Option<(u64, u64)> {
    let mut numbers = schedstat.split_whitespace().map(|n| n.parse::<u64>().ok());
    let (on, off) = (numbers.next()??, numbers.next()??);
    (on > 0).then_some((on, off))
}

/// User and system time in ns, from stat: fields 14 and 15, counted after the name, which may hold anything.
fn cpu_of(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some((ticks()? + ticks()?) * TICK_NS)
}

fn process(t: u64, machine: &[CoreTimes]) -> HealthRow {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok();
    let ns = |time: nix::sys::time::TimeVal| (time.tv_sec() as u64 * 1_000_000 + time.tv_usec() as u64) * 1_000;
    let mean = |of: fn(&CoreTimes) -> u64| machine.iter().map(of).sum::<u64>().checked_div(machine.len() as u64);
    HealthRow {
        t,
        thread: "process".to_owned(),
        tid: u64::from(std::process::id()),
        core: None,
        cpu_ns: usage.map_or(0, |u| ns(u.user_time()) + ns(u.system_time())),
        run_delay_ns: None,
        voluntary_switches: usage.map(|u| u.voluntary_context_switches() as u64),
        involuntary_switches: usage.map(|u| u.involuntary_context_switches() as u64),
        busy_ns: None,
        steal_ns: mean(|core| core.steal_ns),
        softirq_ns: mean(|core| core.softirq_ns),
        rss_bytes: resident_bytes(),
    }
}

/// Resident memory of this process.
pub fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// The cores this process may use, for people.
pub fn allowed_cores() -> Vec<usize> {
    cpu::allowed_cores().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_this_thread_and_the_process() {
        let rows = sample(5, &BTreeMap::new());
        assert!(rows.iter().any(|r| r.thread == "process" && r.rss_bytes.is_some_and(|b| b > 100_000)));
        assert!(rows.iter().any(|r| r.thread == "process" && r.steal_ns.is_some() && r.softirq_ns.is_some()));
        assert!(rows.iter().any(|r| r.thread == "control" && r.run_delay_ns.is_some() && r.steal_ns.is_none()));
        assert!(rows.iter().all(|r| r.t == 5));
    }

    #[test]
    fn a_worker_is_sampled_with_its_core() {
        let tid = u64::from(std::process::id());
        let core = allowed_cores()[0] as u32;
        let rows = sample(5, &BTreeMap::from([(tid, Pinned { core, busy_ns: 42 })]));
        let row = rows.iter().find(|r| r.tid == tid && r.thread == "control").expect("sampled");
        assert_eq!((row.core, row.busy_ns, row.steal_ns.is_some()), (Some(core), Some(42), true));
    }

    #[test]
    fn steal_is_the_eighth_column_of_a_core() {
        let stat = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu12 0 0 0 0 0 0 0 3\nintr 5\n";
        let core = |core, softirq, steal| CoreTimes { core, softirq_ns: softirq * TICK_NS, steal_ns: steal * TICK_NS };
        assert_eq!(CoreTimes::all(stat), [core(0, 7, 8), core(12, 0, 3)]);
    }

    #[test]
    fn a_kernel_without_schedstat_leaves_the_run_queue_unknown() {
        assert_eq!(on_and_off("123 45 6\n"), Some((123, 45)));
        assert_eq!(on_and_off("0 0 0\n"), None);
        let stat = "77 (a) name) S 1 2 3 4 5 6 7 8 9 10 250 17 0 0 20";
        assert_eq!(cpu_of(stat), Some(267 * TICK_NS));
    }
}
