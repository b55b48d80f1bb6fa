//! How often `compare` is wrong about servers that are known, and what it takes to be right: the tables of the README.
//!
//! `cargo run --release --example comparison-power`. Seeded: the same figures each time.
#![forbid(unsafe_code)]

use tarebench::analysis::comparison::simulation::{Server, Size, TYPICAL, covered, outcomes, seed_rule, settings};

fn percent(n: u32, of: u32) -> String {
    format!("{:.1} %", 100.0 * f64::from(n) / f64::from(of))
}

fn main() {
    println!("A request's time is log-normal (sigma {}), and every window has a factor of its own.\n", TYPICAL.spread);
    equal_servers();
    the_seeds_rule();
    slower_server();
    coverage();
}

fn equal_servers() {
    println!("Equal servers, 200 comparisons, window factor sigma 2 %, margin 5 %: comparisons with at least one");
    println!("| windows an arm | requests | loads x metrics | SUPPORTED | by the test alone | EQUIVALENT |");
    println!("|--:|--:|--:|--:|--:|--:|");
    for (windows, requests, loads, metrics) in
        [(4, 300, 1, 1), (5, 300, 1, 3), (6, 300, 1, 3), (6, 300, 3, 3), (8, 300, 3, 3), (6, 3_000, 1, 3)]
    {
        let size = Size { windows, requests, loads };
        let found = outcomes(200, [TYPICAL; 2], size, &settings(metrics, 0.05), 1);
        println!(
            "| {windows} | {requests} | {loads} x {metrics} | {} of 200 | {} of 200 | {} of 200 |",
            found.supported, found.significant, found.equivalent
        );
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
        "\nA server that is 3 % slower (three metrics at one load): SUPPORTED with margin 1 %, in brackets by the test alone;"
    );
    println!("requests of a window, and the factor between windows");
    println!("| windows an arm | 300, 2 % | 300, 0.2 % | 3,000, 0.2 % | 10,000, 0.2 % | 10,000, 1 % |");
    println!("|--:|--:|--:|--:|--:|--:|");
    let of = 100;
    for windows in [4, 5, 6, 8, 12] {
        let cells = [(300, 0.02), (300, 0.002), (3_000, 0.002), (10_000, 0.002), (10_000, 0.01)];
        let cells = cells.map(|(requests, window_spread)| {
            let server = Server { window_spread, ..TYPICAL };
            let slower = Server { factor: 1.03, ..server };
            let size = Size { windows, requests, loads: 1 };
            let found = outcomes(of, [server, slower], size, &settings(3, 0.01), 3);
            format!("{} ({})", percent(found.supported, of), percent(found.significant, of))
        });
        println!("| {windows} | {} |", cells.join(" | "));
    }
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
