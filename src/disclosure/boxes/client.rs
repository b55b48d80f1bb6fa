//! Boxes 13 to 15: who was timing, from where, and which runs are shown.

use serde_json::json;

use super::facts::{Place, Sheet, load, plural, scalar, short};
use super::{Answer, Status};
use crate::analysis::definitions::rules::{GateState, PROCESS_CPU};
use crate::report::quantity::{count, fraction, latency, micros};
use crate::rundir::run_json::{Cell, WorkerLoad};
use crate::rundir::window::SessionKind;

/// Box 13.
pub(super) fn busy(sheet: &Sheet<'_>) -> Answer {
    let places = sheet.places();
    let process = |cell: &Cell| cell.windows.iter().filter_map(|w| w.client.cpu_per_wall).reduce(f64::max);
    let known: Vec<(String, f64)> = sheet.run.cells.iter().filter_map(|c| Some((load(&c.load), process(c)?))).collect();
    let worst = known.iter().map(|(_, cpu)| *cpu).reduce(f64::max);
    let Some(worst) = worst else {
        return Answer::empty("the client's CPU time was not recorded");
    };
    let mark = PROCESS_CPU.warn.unwrap_or(0.7);
    let verdict = if PROCESS_CPU.judge(worst) == GateState::Ok { "OK" } else { "BUSY" };
    let list: Vec<String> = known.iter().map(|(load, cpu)| format!("{} at {load}", fraction(Some(*cpu)))).collect();
    let cpu = format!(
        "CPU {verdict}: CPU/wall of this process, worst window of each load, {} (mark {mark})",
        list.join(", ")
    );
    let workers = || places.iter().flat_map(|p| &p.window.client.workers);
    let most = |of: fn(&WorkerLoad) -> Option<f64>| workers().filter_map(of).reduce(f64::max);
    let lateness = places.iter().filter_map(|p| p.window.metrics.lateness.as_ref()?.p99_ms).reduce(f64::max);
    let turnaround = sheet.sessions().into_iter().filter_map(|s| s.turnaround.as_ref()?.p99_ms).reduce(f64::max);
    let drain = most(|w| w.bursts.map(|b| b.drain_p999_ms));
    let figures = [
        ("worker CPU", most(|w| w.worst_5s).map(|s| fraction(Some(s)))),
        ("busy", most(|w| w.busy).map(|s| fraction(Some(s)))),
        ("burst drain p99.9", drain.map(latency)),
        ("lateness p99", lateness.map(latency)),
        ("turnaround p99", turnaround.map(latency)),
    ];
    let figures: Vec<String> =
        figures.into_iter().filter_map(|(name, figure)| Some(format!("{name} {}", figure?))).collect();
    let figures = if figures.is_empty() { String::new() } else { format!("worst of all: {}", figures.join(", ")) };
    let of = |state: GateState| {
        places.iter().flat_map(|p| &p.window.client.gates).filter(|g| g.state == state).count() as u64
    };
    let (void, warn, unknown) = (of(GateState::Void), of(GateState::Warn), of(GateState::Unknown));
    let withholds = |p: &&Place<'_>| {
        p.window
            .client
            .gates
            .iter()
            .any(|g| g.state == GateState::Void && g.gate != "net_width" && g.voids.iter().any(|v| v == "gross"))
    };
    let withheld = places.iter().filter(withholds).count();
    let gates = format!(
        "gates: {} ok, {} flagged, {} void, {} not known{}",
        count(of(GateState::Ok)),
        count(warn),
        count(void),
        count(unknown),
        if withheld > 0 {
            format!("; BUT gross is withheld in {withheld} of {}", plural(places.len() as u64, "window"))
        } else {
            String::new()
        },
    );
    let calibration = &sheet.run.calibration;
    let weighed = match (calibration["id"].as_str(), calibration["matches"] == true) {
        (Some(id), true) => format!("weighed beforehand by calibration {}", short(id)),
        (Some(_), false) => "the calibration there is, is of another configuration".to_string(),
        (None, _) => "no calibration of this host".to_string(),
    };
    let mut values = json!({
        "client_cpu_seconds_per_wall_second": known.iter().map(|(load, cpu)| json!({"load": load, "worst": cpu})).collect::<Vec<_>>(),
        "verdict": verdict, "mark": mark, "worker_cpu_worst_5s": most(|w| w.worst_5s), "busy": most(|w| w.busy),
        "burst_drain_p999_ms": drain, "lateness_p99_ms": lateness,
        "gates": {"ok": of(GateState::Ok), "flagged": warn, "void": void, "unknown": unknown},
        "windows_without_gross": withheld, "calibration": calibration["id"],
    });
    if let Some(ms) = turnaround {
        values["turnaround_p99_ms"] = json!(ms);
    }
    Answer::new(Status::Measured, [cpu, figures, gates, weighed], values)
}

/// Box 14.
pub(super) fn location(sheet: &Sheet<'_>) -> Answer {
    let network = sheet.environment("/network");
    let address = scalar(sheet.environment("/address")).or_else(|| scalar(&network["peer"]));
    let Some(address) = address else {
        return match sheet.said("region") {
            Some(_) => Answer::new(Status::Declared, ["the server's address is not recorded".to_string()], json!({})),
            None => Answer::empty("neither the server's address nor a region is recorded"),
        };
    };
    let host = scalar(sheet.environment("/host")).unwrap_or_else(|| "an unnamed host".into());
    let local = ["/local", "/local_address"].iter().find_map(|path| scalar(network.pointer(path)?));
    let local = local.map_or_else(String::new, |at| format!(" ({at})"));
    let others = sheet.environment("/addresses").as_array().map_or(0, |all| all.len().saturating_sub(1));
    let others = match others {
        0 => String::new(),
        1 => " and 1 other address in turn".to_string(),
        n => format!(" and {} other addresses in turn", count(n as u64)),
    };
    let way = format!("from {host}{local} to {address}{others}");
    let loopback = sheet.environment("/loopback") == true;
    let same_host = loopback || network["co_located"] == true || network["same_host"] == true;
    let place = match (loopback, same_host) {
        (true, _) => "over loopback, on the same host: no network is in any figure",
        (_, true) => "on the same host: client and server share it",
        _ => "",
    };
    let rtt = ["/min_rtt_us", "/rtt_us/min", "/rtt_us"].iter().find_map(|path| network.pointer(path)?.as_f64());
    let handshakes =
        sheet.run.cells.iter().flat_map(|c| &c.windows).filter_map(|w| w.metrics.connect.tcp.as_ref()?.min_ms);
    let handshake = handshakes.reduce(f64::min);
    let near: Vec<String> = [
        rtt.map(|us| format!("round trip of TCP {}", micros(us))),
        handshake.map(|ms| format!("TCP handshakes from {} up", latency(ms))),
    ]
    .into_iter()
    .flatten()
    .collect();
    let near = if near.is_empty() { "how far away it is was not measured".to_string() } else { near.join(", ") };
    let url = sheet.environment("/base_url").as_str().or_else(|| sheet.plan["base_url"].as_str()).unwrap_or_default();
    let secure = url.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://"));
    let tls = if secure { secured(sheet) } else { "no TLS".to_string() };
    let region = match sheet.said("region") {
        Some(_) => String::new(),
        None if same_host => String::new(),
        None => "region not declared".to_string(),
    };
    let values = json!({
        "host": sheet.environment("/host"), "address": address, "loopback": loopback, "same_host": same_host,
        "rtt_us": rtt, "tcp_handshake_min_ms": handshake, "tls": secure, "verified": secure.then(|| sheet.plan["tls"]["roots"] != "nobody"),
        "addresses": sheet.environment("/addresses"), "region": sheet.said("region"),
    });
    Answer::new(Status::Measured, [way, place.to_string(), near, tls, region], values)
}

/// How connections were secured, and who vouched for the server.
fn secured(sheet: &Sheet<'_>) -> String {
    let shown = sheet.environment("/tls");
    let version = scalar(&shown["version"]).unwrap_or_else(|| "TLS".to_string());
    let certificate = scalar(&shown["certificate"]["subject"]).map_or_else(String::new, |of| format!(" to {of}"));
    match sheet.plan["tls"]["roots"].as_str() {
        Some("nobody") => {
            format!("{version}{certificate}, BUT NOBODY VERIFIED THE SERVER (--insecure): it may be anybody")
        }
        Some("file") => format!("{version}{certificate}, verified by a CA given with --ca-file"),
        _ => format!("{version}{certificate}, verified by a public CA"),
    }
}

/// How a campaign can have ended, as the ledger counts them.
const ENDS: [&str; 5] = ["complete", "invalid", "interrupted", "failed", "without_end"];

/// Box 15.
pub(super) fn lucky_runs(sheet: &Sheet<'_>) -> Answer {
    let line = |event: &str| sheet.ledger.into_iter().flatten().find(|line| line["event"] == event);
    let Some(start) = line("start") else {
        return match sheet.said("runs") {
            Some(_) => Answer::new(Status::Declared, ["no ledger was kept".to_string()], json!({})),
            None => Answer::empty("no ledger was kept: whether other runs were thrown away cannot be told"),
        };
    };
    if sheet.run.run_id.as_deref().is_some_and(|id| start["run_id"] != id) {
        return Answer::empty("the ledger lines beside this run are those of another run");
    }
    let at = scalar(&start["at"]).unwrap_or_else(|| "an unknown time".into());
    let rules = &start["rules"];
    let rule = |key: &str, words: &str| scalar(&rules[key]).map(|n| words.replace('#', &n));
    let kind = sheet.run.cells.iter().find_map(|cell| Some(cell.load.sessions.as_ref()?.kind));
    let called = crate::report::sessions::noun(kind.unwrap_or(SessionKind::Chat));
    let of_sessions = |key: &str, words: &str| {
        scalar(&rules["sessions"][key]).map(|n| words.replace('#', &n).replace("sessions", called))
    };
    let stated = [
        of_sessions("drop_sessions", "first # sessions dropped"),
        of_sessions("num_sessions", "# sessions kept"),
        rule("drop", "first # dropped by trace id"),
        rule("num_prompts", "# kept"),
        rule("windows", "# windows a load"),
    ];
    let stated: Vec<String> = stated.into_iter().flatten().collect();
    let hash = start["rules_hash"].as_str().map(|h| h.get(..12).unwrap_or(h).to_string());
    let fixed = format!(
        "the rules{} were fixed by hash {} at {at}, before the first request",
        if stated.is_empty() { String::new() } else { format!(" ({})", stated.join(", ")) },
        hash.map_or_else(|| "unknown".into(), |h| short(&h)),
    );
    let another = match (start["plan_hash"].as_str(), sheet.run.plan_hash.as_deref()) {
        (Some(then), Some(now)) if then != now => {
            "BUT THE PLAN THAT WAS RUN HAS ANOTHER HASH THAN THE LEDGER".to_string()
        }
        _ => String::new(),
    };
    let Some(end) = line("end") else {
        let told = "the ledger has no end line of this run: how many there were until then is not known".to_string();
        return Answer::new(Status::NotVerifiable, [fixed, another, told], json!({"start": start, "end": null}));
    };
    let counts = |key: &str| {
        let list = ENDS.iter().filter_map(|name| Some((end[key][name].as_u64()?, name.replace('_', " "))));
        let list: Vec<String> = list.filter(|(n, _)| *n > 0).map(|(n, name)| format!("{} {name}", count(n))).collect();
        (end[key]["started"].as_u64(), list.join(", "))
    };
    let plural_runs = |n: u64| plural(n, "run");
    let of_plan = match counts("runs_of_plan") {
        (Some(n), list) => {
            format!("{} of this plan started in this ledger until this one ended: {list}", plural_runs(n))
        }
        (None, _) => "how often this plan was started is not told".to_string(),
    };
    let others = [("runs_of_target", "this server and model"), ("runs", "any kind")];
    let others: Vec<String> =
        others.iter().filter_map(|(key, what)| Some(format!("{} of {what}", count(counts(key).0?)))).collect();
    let others = if others.is_empty() { String::new() } else { format!("runs {}", others.join(", ")) };
    let other = |(name, now): &(&str, &str)| end["files"][*name].as_str().is_some_and(|then| then != *now);
    let swapped = sheet
        .row_files()
        .find(other)
        .map_or_else(String::new, |(name, _)| format!("BUT {name} IS NOT THE ONE THAT THE LEDGER NAMES"));
    let breaks = end["ledger_breaks"].as_u64().filter(|n| *n > 0);
    let cut = breaks.map_or_else(String::new, |n| {
        format!("BUT THE CHAIN OF THE LEDGER WAS BROKEN in {}: there may have been more runs", plural(n, "place"))
    });
    let outcome = scalar(&end["outcome"]).map_or_else(String::new, |o| format!("this one ended {o}"));
    let values = json!({
        "at": start["at"], "rules": rules, "rules_hash": start["rules_hash"], "outcome": end["outcome"],
        "runs_of_plan": end["runs_of_plan"], "runs_of_target": end["runs_of_target"], "runs": end["runs"],
        "ledger_breaks": end["ledger_breaks"], "plan_differs": !another.is_empty(), "records_differ": !swapped.is_empty(),
    });
    // counts that may be too low are no measurement
    let status = if breaks.is_some() { Status::NotVerifiable } else { Status::Measured };
    Answer::new(status, [of_plan, others, cut, outcome, fixed, another, swapped], values)
}
