//! How often `compare` is wrong about servers that are known, and what it takes to be right: the tables of the README,
//! and those behind its advice.
//!
//! `cargo run --release --example comparison-power`, with names of tables for only these. Seeded: the same figures each
//! time.
#![forbid(unsafe_code)]

use tarebench::analysis::comparison::Design;
use tarebench::analysis::comparison::needed::{TABLED_PAIRS, TABLED_WINDOWS, TESTS_OF_PAIRS, TESTS_OF_WINDOWS, pairs};
use tarebench::analysis::comparison::simulation::{
    Layout, Server, Size, TYPICAL, covered, outcomes, seed_rule, settings, shown_at,
};

/// What servers share when they take turns: it walks by 1 % from one window to the next.
const TURNS: Layout = Layout::Pairs { walk: 0.01 };

fn percent(n: u32, of: u32) -> String {
    format!("{:.1} %", 100.0 * f64::from(n) / f64::from(of))
}

fn main() {
    println!("A request's time is log-normal (sigma {}), and every window has a factor of its own.\n", TYPICAL.spread);
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let tables: [(&str, fn()); 5] = [
        ("equal", equal_servers),
        ("seed", the_seeds_rule),
        ("slower", slower_server),
        ("coverage", coverage),
        ("shown", shown),
    ];
    let is_asked = |name: &str| asked.is_empty() || asked.iter().any(|table| table == name);
    tables.into_iter().filter(|(name, _)| is_asked(name)).for_each(|(_, print)| print());
}

fn equal_servers() {
    println!("Equal servers, 200 comparisons, window factor sigma 2 %: comparisons with at least one");
    println!(
        "| design | windows an arm | requests | loads x metrics | margin | SUPPORTED | by the test alone | EQUIVALENT |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    for (windows, requests, loads, metrics) in [
        (4, 300, 1, 1),
        (5, 300, 1, 3),
        (6, 300, 1, 1),
        (6, 300, 1, 3),
        (8, 300, 1, 3),
        (10, 300, 1, 3),
        (6, 300, 3, 3),
        (9, 300, 3, 3),
        (6, 3_000, 1, 3),
    ] {
        for (layout, margin) in [(Layout::Apart, 0.05), (Layout::Apart, 0.001), (TURNS, 0.001)] {
            let size = Size { windows, requests, loads };
            let few = layout == TURNS && (windows as usize) < pairs((loads as usize) * metrics);
            if few {
                continue;
            }
            let found = outcomes(200, [TYPICAL; 2], size, layout, &settings(metrics, margin), 1);
            let design = if layout == TURNS { "pairs, walk 1 %" } else { "windows" };
            println!(
                "| {design} | {windows} | {requests} | {loads} x {metrics} | {} % | {} of 200 | {} of 200 | {} of 200 |",
                margin * 100.0,
                found.supported,
                found.significant,
                found.equivalent
            );
        }
    }
}

fn the_seeds_rule() {
    println!(
        "\nEqual servers under \"a difference larger than the gap between two windows is a claim\", 200 comparisons of"
    );
    println!("two windows each, 300 requests a window: false claims");
    println!("| percentile | one new window | means, gap of one arm | means, larger gap of both |");
    println!("|---|--:|--:|--:|");
    for (name, percentile) in [("ttft p50", "p50_ms"), ("ttft p99", "p99_ms")] {
        let found = seed_rule(200, TYPICAL, 300, percentile, 2);
        let [one, gap, larger] = [found.one_candidate, found.one_gap, found.larger_gap].map(|n| percent(n, found.of));
        println!("| {name} | {one} | {gap} | {larger} |");
    }
}

fn slower_server() {
    println!(
        "\nA server that is 3 % slower (three metrics at one load): SUPPORTED with margin 1 %, in brackets by the test"
    );
    println!("alone; requests of a window, and the factor between windows");
    let calm = [(300, 0.02), (300, 0.002), (3_000, 0.002), (10_000, 0.002), (10_000, 0.01)];
    let still = Layout::Pairs { walk: 0.0 };
    for (name, layout, sizes, all) in [
        ("windows an arm", Layout::Apart, &calm[..], &[4, 5, 6, 8, 10, 12][..]),
        ("pairs, walk 1 %", TURNS, &calm[..3], &[7, 8, 10, 12]),
        ("pairs, nothing walks", still, &calm[..3], &[7, 8, 10, 12]),
    ] {
        let titles: Vec<String> = sizes.iter().map(|(n, factor)| format!("{n}, {} %", factor * 100.0)).collect();
        println!("| {name} | {} |\n|--:|{}", titles.join(" | "), "--:|".repeat(titles.len()));
        for windows in all {
            let cells: Vec<String> = sizes.iter().map(|size| slower(*windows, *size, layout)).collect();
            println!("| {windows} | {} |", cells.join(" | "));
        }
        println!();
    }
}

fn slower(windows: u32, (requests, window_spread): (u32, f64), layout: Layout) -> String {
    let of = 100;
    let server = Server { window_spread, ..TYPICAL };
    let slower = Server { factor: 1.03, ..server };
    let size = Size { windows, requests, loads: 1 };
    let found = outcomes(of, [server, slower], size, layout, &settings(3, 0.01), 3);
    format!("{} ({})", percent(found.supported, of), percent(found.significant, of))
}

fn coverage() {
    println!(
        "\n95 % intervals of the ratio of two servers, one 10 % slower, windows of 60 requests: held the true ratio in"
    );
    println!("| windows an arm | of 1,000 |\n|--:|--:|");
    for windows in [4, 5, 6, 8] {
        println!("| {windows} | {} |", covered(1_000, 1.1, windows, 60, TYPICAL, 4));
    }
}

fn shown() {
    for (design, of, rows, tests) in [
        (Design::Separate, "between windows", &TABLED_WINDOWS[..], TESTS_OF_WINDOWS),
        (Design::Pairs, "between the differences of pairs", &TABLED_PAIRS, TESTS_OF_PAIRS),
    ] {
        println!("\nThe effect that 80 of 100 comparisons show, in standard deviations {of}; by number of tests");
        println!("| {} | {} |", design.unit(), tests.map(|tests| tests.to_string()).join(" | "));
        println!("|--:|{}", "--:|".repeat(tests.len()));
        for windows in rows {
            let draws = match *windows {
                ..8 => 20_000,
                8 => 5_000,
                _ => 1_000,
            };
            let found = shown_at(design, *windows, &tests, draws, 5);
            let words: Vec<String> = found.iter().map(|effect| format!("{effect:.2}")).collect();
            println!("| {windows} | {} |", words.join(" | "));
        }
    }
}
