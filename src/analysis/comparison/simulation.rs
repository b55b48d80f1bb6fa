//! Comparisons of servers that are known: how often the rules of a verdict are wrong, and what it takes to be right.
//!
//! A simulated request takes a log-normal time; a simulated window makes all of its requests slower or faster by a
//! log-normal factor of its own. The windows are handed to the comparison as documents, so that everything after
//! `run.json` is on trial. Where the servers take turns, what both share walks at random from window to window. Seeded: the same figures each time.

use super::arm::{Arm, RunDocuments};
use super::metric::{self, Metric};
use super::noise::Noise;
use super::verdict::{ALPHA, Verdict};
use super::{Comparison, Design, Settings, compare, within_pairs};
use crate::analysis::percentiles;
use crate::analysis::statistics::permutation::ShiftTest;
use crate::interleave::{Arm as Turn, Order, Sequence};
use crate::rundir::run_json::SCHEMA;
use rand_core::Rng;
use rand_pcg::Pcg64;
use serde_json::{Value, json};

/// A server whose times are known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Server {
    /// Median time to first token, in ms.
    pub ttft_ms: f64,
    /// Standard deviation of the logarithm of a request's time to first token: .48 to .60 in the seed's windows.
    pub spread: f64,
    /// Standard deviation of the logarithm of a window's own factor.
    pub window_spread: f64,
    /// Every time is multiplied by it.
    pub factor: f64,
}

/// What the seed's windows look like, and how far apart the same server lies from window to window.
pub const TYPICAL: Server = Server { ttft_ms: 200.0, spread: 0.5, window_spread: 0.02, factor: 1.0 };

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Windows an arm.
    pub windows: u32,
    /// Requests of a window.
    pub requests: u32,
    /// Load points.
    pub loads: u32,
}

/// How the windows of two servers lie in time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Layout {
    /// Each on its own; nothing but its server and its own factor moves a window.
    Apart,
    /// In turns: adjacent pairs in an order drawn at random.
    Pairs {
        /// Standard deviation of the logarithm by which what both share becomes slower or faster from one window to the
        /// next, whichever server it is of.
        walk: f64,
    },
}

/// A source of simulated requests.
#[derive(Debug)]
pub struct Chance(Pcg64);

impl Chance {
    /// The same each time.
    pub fn of_seed(seed: u64) -> Chance {
        Chance(Pcg64::new(u128::from(seed), 0x0073_696d))
    }

    fn uniform(&mut self) -> f64 {
        // above 0, at most 1
        ((self.0.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Standard normal (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// One window, as `run.json` has it.
    fn window(&mut self, number: u32, server: Server, requests: u32) -> Value {
        let of_window = server.factor * (server.window_spread * self.normal()).exp();
        let (mut ttft, mut e2e): (Vec<i64>, Vec<i64>) = (Vec::new(), Vec::new());
        for _ in 0..requests {
            let first = server.ttft_ms * of_window * (server.spread * self.normal()).exp();
            let rest = 3.0 * server.ttft_ms * of_window * (0.4 * server.spread * self.normal()).exp();
            ttft.push((first * 1e6) as i64);
            e2e.push(((first + rest) * 1e6) as i64);
        }
        let column = |values: &mut [i64]| {
            let found = percentiles::figures(values)?;
            let [p50, p90, p95, p99, p999] = found.percentiles_ms;
            Some(json!({"n": found.n, "p50_ms": p50, "p90_ms": p90, "p95_ms": p95, "p99_ms": p99, "p999_ms": p999}))
        };
        json!({"window": number, "interrupted": false, "verdicts": [],
            "metrics": {"ttft": {"gross": column(&mut ttft)}, "e2e": {"gross": column(&mut e2e)}}})
    }

    /// One arm: a run of its own, all windows of the first load, then those of the next.
    pub fn arm(&mut self, name: &str, server: Server, size: Size) -> Arm {
        let of_load =
            |chance: &mut Chance| (0..size.windows).map(|w| chance.window(w, server, size.requests)).collect();
        let windows = (0..size.loads).map(|_| of_load(self)).collect();
        arm(name, json!({}), windows)
    }

    /// Two arms in one campaign, in adjacent pairs whose order is drawn at random.
    pub(super) fn pairs(&mut self, servers: [Server; 2], size: Size, walk: f64) -> [Arm; 2] {
        let order = Sequence::draw(Order::Pairs, self.0.next_u64(), size.loads as usize, size.windows);
        let mut windows = [0, 1].map(|_| vec![Vec::new(); size.loads as usize]);
        let mut shared = 0.0;
        for (window, load) in (0..size.windows).flat_map(|w| (0..size.loads as usize).map(move |load| (w, load))) {
            for turn in order.pair(load, window) {
                shared += walk * self.normal();
                let of_arm = usize::from(turn == Turn::B);
                let server = servers[of_arm];
                let now = Server { factor: server.factor * f64::exp(shared), ..server };
                windows[of_arm][load].push(self.window(window, now, size.requests));
            }
        }
        let [a, b] = windows;
        [("a", "b", a), ("b", "a", b)]
            .map(|(name, with, windows)| arm(name, json!({"arm": name, "with": with, "order": "pairs"}), windows))
    }

    /// A comparison of two servers by the rules, from the first window to the last verdict.
    pub fn comparison(&mut self, servers: [Server; 2], size: Size, layout: Layout, settings: &Settings) -> Comparison {
        let [a, b] = match layout {
            Layout::Apart => [self.arm("a", servers[0], size), self.arm("b", servers[1], size)],
            Layout::Pairs { walk } => self.pairs(servers, size, walk),
        };
        compare(&a, &b, Vec::new(), settings)
    }
}

/// A run of these windows, by load.
///
/// # Panics
/// Never: the documents are those of a run.
fn arm(name: &str, interleave: Value, windows: Vec<Vec<Value>>) -> Arm {
    let cell = |(cell, windows): (usize, Vec<Value>)| {
        let load = json!({"model": "closed", "concurrency": cell + 1, "rate": null});
        json!({"cell": cell, "load": load, "windows": windows})
    };
    let cells: Vec<Value> = windows.into_iter().enumerate().map(cell).collect();
    let run = json!({"schema": SCHEMA, "run_id": name, "plan_hash": "simulated", "cells": cells, "verdicts": []});
    let documents = RunDocuments { dir: name.to_owned(), plan: json!({"interleave": interleave}), run };
    Arm::of(vec![documents]).unwrap_or_else(|e| panic!("a simulated run is a run: {e}"))
}

/// How many of some comparisons came out how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Comparisons.
    pub of: u32,
    /// With at least one SUPPORTED.
    pub supported: u32,
    /// With at least one difference that the test alone, Holm-adjusted, would have called: no veto, no margin.
    pub significant: u32,
    /// With at least one EQUIVALENT.
    pub equivalent: u32,
}

/// The settings of the simulations: the default metrics, or the first so many of them.
///
/// # Panics
/// Never: the default metrics are metrics.
pub fn settings(metrics: usize, margin: f64) -> Settings {
    let named = metric::DEFAULT.iter().take(metrics).map(|name| name.parse::<Metric>());
    let metrics = named.map(|m| m.unwrap_or_else(|e| panic!("{e}"))).collect();
    Settings { metrics, margin }
}

/// Compares two servers again and again, with new requests each time.
pub fn outcomes(of: u32, servers: [Server; 2], size: Size, layout: Layout, settings: &Settings, seed: u64) -> Outcomes {
    let mut chance = Chance::of_seed(seed);
    let mut found = Outcomes { of, ..Outcomes::default() };
    for _ in 0..of {
        let comparison = chance.comparison(servers, size, layout, settings);
        let rows = || comparison.cells.iter().flat_map(|cell| &cell.rows);
        let any = |verdict: Verdict| u32::from(rows().any(|row| row.verdict == verdict));
        found.supported += any(Verdict::Supported);
        found.equivalent += any(Verdict::Equivalent);
        found.significant += u32::from(rows().any(|row| row.p_holm.is_some_and(|p| p <= ALPHA)));
    }
    found
}

/// False claims of equal servers under "a difference larger than the noise gap is a claim", the gap being that between
/// two windows of one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeedRule {
    /// Comparisons.
    pub of: u32,
    /// One new window against the first of the two.
    pub one_candidate: u32,
    /// Means of two windows each, against the gap of the first arm.
    pub one_gap: u32,
    /// The same against the larger of both arms' gaps.
    pub larger_gap: u32,
}

/// Compares equal servers by the seed's own rule, on one percentile of the time to first token (`p50_ms`, `p99_ms`).
pub fn seed_rule(of: u32, server: Server, requests: u32, percentile: &str, seed: u64) -> SeedRule {
    let mut chance = Chance::of_seed(seed);
    let mut found = SeedRule { of, one_candidate: 0, one_gap: 0, larger_gap: 0 };
    for _ in 0..of {
        let [a1, a2, b1, b2]: [f64; 4] = std::array::from_fn(|_| {
            let window = chance.window(0, server, requests);
            window["metrics"]["ttft"]["gross"][percentile].as_f64().unwrap_or(f64::NAN)
        });
        let (gap_a, gap_b) = ((a1 - a2).abs(), (b1 - b2).abs());
        let effect = ((b1 + b2 - a1 - a2) / 2.0).abs();
        found.one_candidate += u32::from((b1 - a1).abs() > gap_a);
        found.one_gap += u32::from(effect > gap_a);
        found.larger_gap += u32::from(effect > gap_a.max(gap_b));
    }
    found
}

/// How often the 95 % interval of a ratio, made of windows, holds the true one.
pub fn covered(of: u32, ratio: f64, windows: u32, requests: u32, server: Server, seed: u64) -> u32 {
    let mut chance = Chance::of_seed(seed);
    let mut logs = |server: Server| -> Vec<f64> {
        let values = (0..windows).map(|w| chance.window(w, server, requests));
        values.map(|w| w["metrics"]["ttft"]["gross"]["p50_ms"].as_f64().unwrap_or(f64::NAN).ln()).collect()
    };
    let mut held = 0;
    for _ in 0..of {
        let (a, b) = (logs(server), logs(Server { factor: server.factor * ratio, ..server }));
        let interval = ShiftTest::of_arms(&a, &b).and_then(|test| test.interval(25));
        held += u32::from(interval.is_some_and(|[lo, hi]| lo <= ratio.ln() && ratio.ln() <= hi));
    }
    held
}

/// The effect that so many windows an arm, or pairs, show in 80 of 100 comparisons, for each number of tests: in standard
/// deviations of a window, or of the difference of a pair. Infinite where none does.
///
/// Each draw makes windows (or differences) that are normal, without an effect. An effect would be added to all windows
/// of B alike, so the smallest that is larger than the noise, and the smallest whose p is at most [`ALPHA`] over the number
/// of tests, follow from the same draw. The larger of both is what it takes; of the draws the 80th percentile counts.
pub fn shown_at(design: Design, windows: usize, tests: &[usize], draws: u32, seed: u64) -> Vec<f64> {
    let mut chance = Chance::of_seed(seed);
    let mut found = vec![Vec::new(); tests.len()];
    for _ in 0..draws {
        let deviation = if design == Design::Pairs { std::f64::consts::FRAC_1_SQRT_2 } else { 1.0 };
        let mut arm = || (0..windows).map(|_| deviation * chance.normal()).collect::<Vec<f64>>();
        let (a, b) = (arm(), arm());
        let within = within_pairs(&a, &b);
        let effect = percentiles::sum(&mut within.clone()) / windows as f64;
        let (Some(test), Some(noise)) = (design.test(&a, &b), Noise::of(design, &a, &b)) else { continue };
        for (found, tests) in found.iter_mut().zip(tests) {
            let level = ALPHA / *tests as f64;
            let significant = smallest_with(|added| 2.0 * test.at_most(-added) <= level);
            found.push(significant.max(noise.gap - effect));
        }
    }
    let of_100 = |mut draws: Vec<f64>| {
        draws.sort_unstable_by(f64::total_cmp);
        draws.get((draws.len() * 4).div_ceil(5).saturating_sub(1)).copied().unwrap_or(f64::INFINITY)
    };
    found.into_iter().map(of_100).collect()
}

/// The smallest number within -20..20, to a millionth, from which on something holds; infinite when it never does.
fn smallest_with(holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (-20.0, 20.0);
    if !holds(high) {
        return f64::INFINITY;
    }
    while high - low > 1e-6 {
        let middle = (low + high) / 2.0;
        if holds(middle) { high = middle } else { low = middle }
    }
    high
}
