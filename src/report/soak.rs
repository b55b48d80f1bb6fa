//! A long window in a line, and in a table.

use crate::analysis::definitions::soak::drift;
use crate::analysis::definitions::steadiness::Drift;
use crate::report::quantity::{between, count, latency, rate};
use crate::rundir::run_json::Window;
use crate::rundir::soak::{Soak, SoakSlice};

/// Rows of the table, each over some slices.
const MOST_ROWS: usize = 24;

/// `20.0 min in 40 slices of 30 s   DRIFTING   ttft p50 50.1..50.7 ms, p95 ..   tokens/s 980..1,010, no drift (-0.1 % per 10
/// min)   client memory 31.2 MB in the first third, 31.3 MB in the last`. None of a window too short for slices.
pub fn line(window: &Window) -> Option<String> {
    let soak = window.soak.as_ref()?;
    let mut parts = vec![
        format!("{:.1} min in {} slices of {} s", window.duration_s / 60.0, soak.slices.len(), soak.slice_s),
        match verdict(window, soak) {
            Drift::Drifting => "DRIFTING".to_owned(),
            other => other.to_string(),
        },
    ];
    let range = |of: fn(&SoakSlice) -> Option<f64>| {
        let known = || soak.slices.iter().filter_map(of);
        known().reduce(f64::min).zip(known().reduce(f64::max)).map(|(low, high)| between([low, high]))
    };
    for (name, p50, p95) in [
        (
            "gross",
            (|s| s.ttft_gross_p50_ms) as fn(&SoakSlice) -> Option<f64>,
            (|s| s.ttft_gross_p95_ms) as fn(&SoakSlice) -> Option<f64>,
        ),
        ("net", |s| s.ttft_net_p50_ms, |s| s.ttft_net_p95_ms),
    ] {
        if let Some(median) = range(p50) {
            let high = range(p95).map_or_else(String::new, |high| format!(", p95 {high}"));
            parts.push(format!("ttft {name} p50 {median}{high}"));
            break;
        }
    }
    parts.extend(throughput(soak, window.duration_s));
    let failed: u64 = soak.slices.iter().map(|s| s.failed).sum();
    if failed > 0 {
        let slices = soak.slices.iter().filter(|s| s.failed > 0).count();
        parts.push(format!("{} FAILED in {slices} of the slices", count(failed)));
    }
    parts.extend(soak.client_memory.map(|m| {
        format!(
            "client memory {} in the first third, {} in the last",
            megabytes(m.first_third),
            megabytes(m.last_third)
        )
    }));
    Some(parts.join("   "))
}

/// Whether it drifted, or its level changed: in latency or throughput.
pub fn is_remarkable(window: &Window) -> bool {
    window.soak.as_ref().is_some_and(|s| verdict(window, s) == Drift::Drifting || !s.throughput_changes.is_empty())
}

fn verdict(window: &Window, soak: &Soak) -> Drift {
    drift(window.steady.drift, soak.throughput)
}

fn throughput(soak: &Soak, duration_s: f64) -> Option<String> {
    // the last slice is what is left of the window, and its rate that of a load that ends
    let whole = |s: &&SoakSlice| s.from_s + soak.slice_s <= duration_s;
    let known = || soak.slices.iter().filter(whole).filter_map(|s| s.output_tokens_per_s);
    let (low, high) = known().reduce(f64::min).zip(known().reduce(f64::max))?;
    let share = |share: Option<f64>| share.map_or_else(|| "-".into(), |share| format!("{:+.1} %", share * 100.0));
    let trend = match soak.throughput {
        Some(t) if t.drift == Drift::Drifting => format!(", DRIFTING: {} per 10 min", share(t.share_per_10_min)),
        Some(t) => format!(", no drift found ({} per 10 min)", share(t.share_per_10_min)),
        None => String::new(),
    };
    let changes: Vec<String> = soak.throughput_changes.iter().map(|c| format!("{:.0} s", c.at_s)).collect();
    let changes = if changes.is_empty() { String::new() } else { format!(", LEVEL CHANGED at {}", changes.join(", ")) };
    Some(format!("tokens/s {}..{}{trend}{changes}", rate(Some(low)), rate(Some(high))))
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// Rows of Markdown, under a heading: slices, several taken together where there are many. None of a short window.
pub fn table(window: &Window) -> Option<String> {
    let soak = window.soak.as_ref()?;
    let each = soak.slices.len().div_ceil(MOST_ROWS).max(1);
    let mut text = "| from | sent | ok | failed | ttft gross p50 | p95 | net p50 | p95 | tokens/s | client memory | server waiting \
                    | KV cache |\n|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"
        .to_owned();
    for group in soak.slices.chunks(each) {
        text.push_str(&format!("| {} |\n", cells(group).join(" | ")));
    }
    if each > 1 {
        text.push_str(&format!("\nEach row takes {each} slices of {} s together.\n", soak.slice_s));
    }
    Some(text)
}

/// Sums of counts, the range of what has one, the largest of the rest.
pub fn cells(group: &[SoakSlice]) -> Vec<String> {
    let dash = || "-".to_owned();
    let sum = |of: fn(&SoakSlice) -> u64| count(group.iter().map(of).sum());
    let ends = |of: fn(&SoakSlice) -> Option<f64>| {
        let known = || group.iter().filter_map(of);
        known().reduce(f64::min).zip(known().reduce(f64::max))
    };
    let range = |of: fn(&SoakSlice) -> Option<f64>| match ends(of) {
        Some((low, high)) if low < high => between([low, high]),
        Some((low, _)) => latency(low),
        None => dash(),
    };
    let rates = match ends(|s| s.output_tokens_per_s) {
        Some((low, high)) if low < high => format!("{}..{}", rate(Some(low)), rate(Some(high))),
        Some((low, _)) => rate(Some(low)),
        None => dash(),
    };
    let most = |of: fn(&SoakSlice) -> Option<f64>| ends(of).map(|(_, high)| high);
    vec![
        format!("{:.0} s", group.first().map_or(0.0, |s| s.from_s)),
        sum(|s| s.sent),
        sum(|s| s.ok),
        sum(|s| s.failed),
        range(|s| s.ttft_gross_p50_ms),
        range(|s| s.ttft_gross_p95_ms),
        range(|s| s.ttft_net_p50_ms),
        range(|s| s.ttft_net_p95_ms),
        rates,
        group.iter().filter_map(|s| s.client_rss_bytes).max().map_or_else(dash, megabytes),
        most(|s| s.server_waiting).map_or_else(dash, |n| format!("{n:.0}")),
        most(|s| s.server_kv_cache_usage).map_or_else(dash, |share| format!("{:.1} %", share * 100.0)),
    ]
}
