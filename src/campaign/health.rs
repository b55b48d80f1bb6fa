//! What this process's threads use up, read from /proc by the control thread: no cost to a worker.

use crate::rundir::health::HealthRow;
use bench_engine::cpu;
use nix::sys::resource::{UsageWho, getrusage};
use std::collections::BTreeMap;
use std::fs;

/// One sample of every thread and of the process, at `t` ns. `cores` names pinned threads' cores by tid.
pub fn sample(t: u64, cores: &BTreeMap<u64, u32>) -> Vec<HealthRow> {
    let mut rows: Vec<HealthRow> = tids().into_iter().filter_map(|tid| thread(t, tid, cores)).collect();
    rows.push(process(t));
    rows
}

fn tids() -> Vec<u64> {
    let entries = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let mut tids: Vec<u64> = entries.filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
    tids.sort_unstable();
    tids
}

/// A thread may be gone between the listing and the reading.
fn thread(t: u64, tid: u64, cores: &BTreeMap<u64, u32>) -> Option<HealthRow> {
    let read = |name: &str| fs::read_to_string(format!("/proc/self/task/{tid}/{name}")).ok();
    let name = read("comm")?.trim().to_owned();
    let own = tid == u64::from(std::process::id());
    let schedstat = read("schedstat")?;
    let mut numbers = schedstat.split_whitespace().map(|n| n.parse::<u64>().ok());
    let cpu_ns = numbers.next()??;
    let run_delay_ns = numbers.next()?;
    let status = read("status")?;
    let count = |key: &str| status.lines().find_map(|l| l.strip_prefix(key)?.trim().parse::<u64>().ok());
    Some(HealthRow {
        t,
        thread: if own { "control".to_owned() } else { name },
        tid,
        core: cores.get(&tid).copied(),
        cpu_ns,
        run_delay_ns,
        voluntary_switches: count("voluntary_ctxt_switches:"),
        involuntary_switches: count("nonvoluntary_ctxt_switches:"),
        busy_ns: None,
        rss_bytes: None,
    })
}

fn process(t: u64) -> HealthRow {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok();
    let ns = |time: nix::sys::time::TimeVal| (time.tv_sec() as u64 * 1_000_000 + time.tv_usec() as u64) * 1_000;
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
        assert!(rows.iter().any(|r| r.thread == "control" && r.run_delay_ns.is_some()));
        assert!(rows.iter().all(|r| r.t == 5));
    }
}
