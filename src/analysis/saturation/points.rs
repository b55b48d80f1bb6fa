//! The named points of a curve of throughput over load. Each is a rule of one line, and has that line beside it
//! wherever it is printed.

use serde::{Deserialize, Serialize};

/// What [`Saturation`] is.
pub const SATURATION_RULE: &str = "saturation: the highest throughput sustained (ok requests/s of one load); a plateau \
    when two further loads, each 25 % or more above the one before, give less than 5 % more";
/// What the optimum is.
pub const OPTIMUM_RULE: &str = "optimum: the highest load that meets the goals in two windows, with a load that misses \
    them above it";
/// What [`Knee`] is.
pub const KNEE_RULE: &str = "knee: the load at which throughput / mean time of a request (Kleinrock's power) is largest, \
    of the loads that were tried and are not over-saturated";
/// What over-saturated is.
pub const OVER_SATURATED_RULE: &str = "over-saturated: in open loop requests in flight grow (Mann-Kendall p < 0.01, \
    Theil-Sen interval above 0) while what is finished stays below what is offered; latencies are then lower bounds";

/// A further load must be above the one before by this factor.
pub const FURTHER: f64 = 1.25;
/// And so many of them must give no more than [`MORE`].
pub const FURTHER_LOADS: usize = 2;
/// Throughput beyond this factor is more.
pub const MORE: f64 = 1.05;

/// Loads with this share of the largest power are near the knee.
pub const NEAR: f64 = 0.95;

/// One load that was tried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Requests/s, or requests in flight.
    pub load: f64,
    /// Ok requests/s.
    pub throughput: f64,
    /// Mean time of an ok request, ms: from due in open loop, else gross. None where it is withheld, or the load is
    /// over-saturated, so that there is no such time.
    pub time_ms: Option<f64>,
}

impl Point {
    /// Kleinrock's power: requests/s over s.
    pub fn power(&self) -> Option<f64> {
        self.time_ms.filter(|ms| *ms > 0.0).map(|ms| self.throughput * 1e3 / ms)
    }
}

/// [`SATURATION_RULE`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saturation {
    /// The highest throughput of one load, ok requests/s.
    pub requests_per_s: f64,
    /// The lowest load from which on nothing gives 5 % more.
    pub load: f64,
    /// Whether further loads show the plateau; if not, the figure is a lower bound.
    pub plateau: bool,
    /// The further loads that show it.
    pub further: Vec<f64>,
}

/// [`KNEE_RULE`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Knee {
    /// Where.
    pub load: f64,
    /// Requests/s over s.
    pub power: f64,
    /// The next loads below and above that were tried; null where there is none on that side.
    pub between: [Option<f64>; 2],
    /// The lowest and the highest load that have [`NEAR`] of that power: a summit is flat, and windows have noise.
    pub near: [f64; 2],
}

/// Windows at one load become one point, in order of load: means over the windows.
pub fn merged(points: &[Point]) -> Vec<Point> {
    let mut sorted = points.to_vec();
    sorted.sort_by(|a, b| a.load.total_cmp(&b.load));
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    sorted
        .chunk_by(|a, b| a.load == b.load)
        .map(|same| {
            let throughput: Vec<f64> = same.iter().map(|p| p.throughput).collect();
            let times: Option<Vec<f64>> = same.iter().map(|p| p.time_ms).collect();
            Point { load: same[0].load, throughput: mean(&throughput), time_ms: times.map(|t| mean(&t)) }
        })
        .collect()
}

/// The saturation of points as [`merged`] gives them; None of none.
pub fn saturation(points: &[Point]) -> Option<Saturation> {
    let most = |points: &[Point]| points.iter().map(|p| p.throughput).fold(f64::NEG_INFINITY, f64::max);
    let begins = (0..points.len()).find(|i| most(&points[*i..]) <= points[*i].throughput * MORE)?;
    let further = further(points, points[begins].load);
    Some(Saturation {
        requests_per_s: most(points),
        load: points[begins].load,
        plateau: further.len() >= FURTHER_LOADS,
        further,
    })
}

/// Loads above `load`, each a factor of [`FURTHER`] or more above the one before.
fn further(points: &[Point], load: f64) -> Vec<f64> {
    let mut found: Vec<f64> = Vec::new();
    for point in points {
        // a rounded load must not fall short of the factor by its last digit
        if point.load >= found.last().copied().unwrap_or(load) * FURTHER * (1.0 - 1e-3) {
            found.push(point.load);
        }
    }
    found
}

/// The knee of points as [`merged`] gives them; None where no load has a power, or only one was tried.
pub fn knee(points: &[Point]) -> Option<Knee> {
    let powers: Vec<(f64, f64)> = points.iter().filter_map(|p| Some((p.load, p.power()?))).collect();
    let (at, (load, power)) = powers.iter().enumerate().max_by(|a, b| a.1.1.total_cmp(&b.1.1))?;
    // an over-saturated load has no power, and ends the stretch all the same
    let above = points.iter().map(|p| p.load).find(|l| l > load);
    let below = at.checked_sub(1).map(|below| powers[below].0);
    let mut near = powers.iter().filter(|(_, p)| *p >= power * NEAR).map(|(load, _)| *load);
    let lowest = near.next().unwrap_or(*load);
    let near = [lowest, near.next_back().unwrap_or(lowest)];
    (points.len() > 1).then_some(Knee { load: *load, power: *power, between: [below, above], near })
}
