//! Where a campaign ran: facts about this host, read once.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::{Value, json};
use std::fs;

/// Facts about the host. Unknown is null.
pub fn facts() -> Value {
    let read = |path: &str| fs::read_to_string(path).ok().map(|s| s.trim().to_owned());
    let uname = nix::sys::utsname::uname().ok();
    let text = |s: &std::ffi::OsStr| s.to_string_lossy().into_owned();
    let cpu_model = read("/proc/cpuinfo").and_then(|info| {
        let line = info.lines().find(|l| l.starts_with("model name"))?.to_owned();
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    json!({
        "host": uname.as_ref().map(|u| text(u.nodename())),
        "kernel": uname.as_ref().map(|u| text(u.release())),
        "machine": uname.as_ref().map(|u| text(u.machine())),
        "cpu_model": cpu_model,
        "cpus_online": read("/sys/devices/system/cpu/online"),
        "clocksource": read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "governor": read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
    })
}

/// Proxy variables that are set; they are ignored.
pub fn ignored_proxies(environment: impl Fn(&str) -> Option<String>) -> Vec<&'static str> {
    let names = ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];
    names.into_iter().filter(|name| environment(name).is_some_and(|v| !v.is_empty())).collect()
}

/// Raises the soft limit on descriptors to `needed` when it is lower: words about it, when it was raised.
///
/// # Errors
/// The number needed and the hard limit, when that is lower.
pub fn ensure_descriptors(needed: u64) -> Result<Option<String>, String> {
    let (soft, hard) =
        getrlimit(Resource::RLIMIT_NOFILE).map_err(|e| format!("the descriptor limit cannot be read: {e}"))?;
    if soft >= needed {
        return Ok(None);
    }
    let too_few = format!(
        "the plan needs {needed} file descriptors, and the hard limit here is {hard}: raise it (ulimit -Hn {needed}, or LimitNOFILE= of the service), or lower --max-concurrency"
    );
    if hard < needed {
        return Err(too_few);
    }
    setrlimit(Resource::RLIMIT_NOFILE, needed, hard).map_err(|e| format!("{too_few} ({e})"))?;
    Ok(Some(format!("soft limit on descriptors raised from {soft} to {needed}")))
}
