//! Two arms compared: what is a claim, what is below the noise.
//!
//! The unit is the window, never the request: requests of one window share what the server and the host were doing, and
//! resampling them over windows would call the noise between windows significant. What is assumed, and said in every
//! output, is that windows are exchangeable; with pairs whose order was drawn at random, only that chance drew it.
//!
//! Tests and intervals are of logarithms, so that they speak of ratios and that naming the arms the other way round
//! changes nothing; where a value is not above 0 they are of the values themselves. Effect and noise are in the metric's
//! own unit. Holm's correction is over all tests of the comparison, metrics times loads, whether or not a test could be
//! made.

pub mod arm;
pub mod differences;
pub mod metric;
pub mod needed;
pub mod noise;
pub mod shift;
pub mod simulation;
#[cfg(test)]
mod tests;
pub mod verdict;

use crate::analysis::percentiles;
use crate::analysis::statistics::permutation::ShiftTest;
use crate::analysis::statistics::{hodges_lehmann, holm};
use crate::rundir::window::Load;
use arm::{Arm, ArmCell, ArmWindow, Drift, NoFigure};
use differences::{Difference, Standing};
use metric::{Metric, Unit, change};
use noise::Noise;
use schemars::JsonSchema;
use serde::Serialize;
use verdict::{Evidence, Verdict, decide};

/// Schema of the document.
pub const SCHEMA: &str = "tarebench.comparison/1";
/// Smallest difference that matters when nothing else is said, as a share.
pub const DEFAULT_MARGIN: f64 = 0.05;

/// What was fixed before looking.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Compared, in this order.
    pub metrics: Vec<Metric>,
    /// Smallest difference that matters, as a share above 0 and below 1.
    pub margin: f64,
}

/// How the windows of the arms lie in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Design {
    /// Each arm on its own.
    Separate,
    /// In one campaign, ABBA.
    Abba,
    /// In one campaign, adjacent pairs in an order drawn at random.
    Pairs,
}

impl Design {
    /// What is counted, in words.
    pub fn unit(self) -> &'static str {
        match self {
            Design::Separate | Design::Abba => "windows an arm",
            Design::Pairs => "pairs of windows",
        }
    }

    /// The test of a shift; of pairs `a[i]` with `b[i]`. None when an arm is empty or a value is not finite.
    fn test(self, a: &[f64], b: &[f64]) -> Option<ShiftTest> {
        match self {
            Design::Separate | Design::Abba => ShiftTest::of_arms(a, b),
            Design::Pairs => ShiftTest::of_pairs(&within_pairs(a, b)),
        }
    }
}

/// B - A of each pair.
fn within_pairs(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| b - a).collect()
}

/// A comparison, as it is written.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// What must stand in every title: the labels of all runs.
    pub labels: Vec<String>,
    /// Runs of the first arm.
    pub a: Vec<RunName>,
    /// Runs of the second.
    pub b: Vec<RunName>,
    /// What the arms differ in.
    pub differences: Vec<Difference>,
    /// What was fixed before looking.
    pub rules: Rules,
    /// How the windows lie in time.
    pub design: Design,
    /// What a reader must know.
    pub notes: Vec<String>,
    /// By load.
    pub cells: Vec<ComparedCell>,
}

/// A run, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RunName {
    /// Its directory, as given.
    pub dir: String,
    /// Run id.
    pub run_id: String,
    /// Wall clock at its start.
    pub started_at: Option<String>,
    /// SHA-256 of its plan.
    pub plan_hash: Option<String>,
}

/// What was fixed before looking, and what follows from it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Rules {
    /// Compared, in this order.
    pub metrics: Vec<String>,
    /// Smallest difference that matters, as a share.
    pub margin: f64,
    /// Level of the tests, over all of them together.
    pub alpha: f64,
    /// Level of the printed intervals, each on its own.
    pub interval_level: f64,
    /// Tests of this comparison: metrics times loads.
    pub tests: usize,
    /// Windows an arm (or pairs) that so many tests need.
    pub windows_needed: usize,
    /// In words.
    pub text: String,
    /// What is called noise, in words.
    pub noise: String,
}

/// One load point of both arms.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ComparedCell {
    /// The load.
    pub load: Load,
    /// One a metric.
    pub rows: Vec<Row>,
    /// Where the distributions moved.
    pub shifts: Vec<shift::Shift>,
}

/// One metric at one load.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Row {
    /// As it was asked for.
    pub metric: String,
    /// In words.
    pub label: String,
    /// Of every figure of the row that is not a share or a p.
    pub unit: Unit,
    /// Each window of A.
    pub a: Vec<WindowFigure>,
    /// Each window of B.
    pub b: Vec<WindowFigure>,
    /// Mean over the windows of A; null where a window has no figure.
    pub a_mean: Option<f64>,
    /// The same of B.
    pub b_mean: Option<f64>,
    /// B - A of the means.
    pub effect: Option<f64>,
    /// 95 % interval of the difference; null with too few windows.
    pub effect_interval: Option<[f64; 2]>,
    /// B / A: Hodges-Lehmann over the windows.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio; null with too few windows.
    pub ratio_interval: Option<[f64; 2]>,
    /// Typical (mean) gap between two windows of one arm, of the arms the larger; of pairs, between the differences of two
    /// pairs. Null with one window an arm, or one pair.
    pub noise: Option<f64>,
    /// The same of relative gaps, as a share.
    pub noise_share: Option<f64>,
    /// The harness's own share at the same percentile, mean over the windows of A and of B, in ms.
    pub overhead_ms: [Option<f64>; 2],
    /// Assignments of windows behind p; null when it was not tested.
    pub assignments: Option<u64>,
    /// Whether these are all there are.
    pub exact: Option<bool>,
    /// p of "no difference", on its own.
    pub p: Option<f64>,
    /// The same, adjusted over the comparison.
    pub p_holm: Option<f64>,
    /// p of "a difference of the margin or more", adjusted over the comparison.
    pub p_outside_margin_holm: Option<f64>,
    /// What may be said.
    pub verdict: Verdict,
    /// Why.
    pub why: String,
    /// The whole in one sentence; null where there is no effect to speak of.
    pub sentence: Option<String>,
    /// What would show more; null where nothing more is wanted or known.
    pub advice: Option<needed::Advice>,
}

/// The figure of one window.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WindowFigure {
    /// Its run.
    pub run_id: String,
    /// Its number there.
    pub window: u32,
    /// Null where there is none.
    pub value: Option<f64>,
}

/// Compares two arms whose differences have been looked at.
pub fn compare(a: &Arm, b: &Arm, differences: Vec<Difference>, settings: &Settings) -> Comparison {
    let design = design(a, b);
    let cells: Vec<(&ArmCell, &ArmCell)> =
        a.cells.iter().filter_map(|of_a| Some((of_a, b.cells.iter().find(|c| c.load == of_a.load)?))).collect();
    let tests = cells.len() * settings.metrics.len();
    let needed = if design == Design::Pairs { needed::pairs(tests) } else { needed::windows(tests) };
    let mut found: Vec<Measured<'_>> = Vec::new();
    for (of_a, of_b) in &cells {
        found.extend(
            settings.metrics.iter().map(|metric| measure((a, of_a), (b, of_b), metric, design, settings.margin)),
        );
    }
    // what was planned and could not be tested counts, with p = 1
    let p_of = |p: fn(&Tested) -> f64| holm::adjust(&found.iter().map(|m| m.fit().map_or(1.0, p)).collect::<Vec<_>>());
    let (p_holm, p_outside) = (p_of(|t| t.p), p_of(|t| t.p_outside));
    let moved = what_moved(&differences);
    let rows = found.into_iter().zip(p_holm.into_iter().zip(p_outside));
    let rules = rules(settings, tests, needed, design);
    let mut rows = rows.map(|(m, p)| m.judge(p, &rules, design, &moved));
    let cells: Vec<ComparedCell> = cells
        .iter()
        .map(|(of_a, _)| ComparedCell {
            load: of_a.load.clone(),
            rows: rows.by_ref().take(settings.metrics.len()).collect(),
            shifts: Vec::new(),
        })
        .collect();
    Comparison {
        schema: SCHEMA,
        labels: labels(a, b),
        a: a.runs.iter().map(run_name).collect(),
        b: b.runs.iter().map(run_name).collect(),
        differences,
        rules,
        design,
        notes: notes(a, b, design).into_iter().chain(net_instead(a, b, &settings.metrics)).collect(),
        cells,
    }
}

/// In the order in which they are met, each once.
fn labels(a: &Arm, b: &Arm) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for run in a.runs.iter().chain(&b.runs) {
        let of_run = run.run["labels"].as_array().into_iter().flatten().filter_map(|label| label.as_str());
        for label in of_run {
            if !labels.iter().any(|known| known == label) {
                labels.push(label.to_owned());
            }
        }
    }
    labels
}

fn run_name(run: &arm::RunDocuments) -> RunName {
    RunName {
        dir: run.dir.clone(),
        run_id: run.run_id().to_owned(),
        started_at: run.started_at().map(str::to_owned),
        plan_hash: run.run["plan_hash"].as_str().map(str::to_owned),
    }
}

fn rules(settings: &Settings, tests: usize, needed: usize, design: Design) -> Rules {
    let unit = design.unit();
    let noise = match design {
        Design::Pairs => {
            "the amount by which two pairs typically differ in B - A (mean over all of them); what moves both windows of a \
             pair alike is not in it"
        }
        _ => {
            "the amount by which two windows of one arm typically differ (mean over all of them), of the arms the larger"
        }
    };
    let test = match design {
        Design::Pairs => "sign-flip test on pairs of windows whose order was drawn at random",
        _ => "permutation test on windows, taken to be exchangeable",
    };
    Rules {
        metrics: settings.metrics.iter().map(Metric::to_string).collect(),
        margin: settings.margin,
        alpha: verdict::ALPHA,
        interval_level: 0.95,
        tests,
        windows_needed: needed,
        text: format!(
            "{test}; {} {needed} {unit}; margin {} %, equivalence by two one-sided tests; intervals 95 %, each on its own; \
             B - A is of means over windows, B / A the Hodges-Lehmann ratio of windows",
            match tests {
                1 => format!("1 test at {} %, which needs", verdict::ALPHA * 100.0),
                _ => format!("{tests} tests at {} % together (Holm), which need", verdict::ALPHA * 100.0),
            },
            settings.margin * 100.0
        ),
        noise: format!(
            "{noise}; the noise in a run's own report is the largest gap between two windows, relative to their mean"
        ),
    }
}

/// Every run of one arm has its partner in the other, measured in one campaign.
fn design(a: &Arm, b: &Arm) -> Design {
    let partners = |one: &Arm, other: &Arm| {
        one.runs.iter().all(|run| {
            let with = run.plan["interleave"]["with"].as_str();
            with.is_some_and(|with| other.runs.iter().any(|partner| partner.run_id() == with))
        })
    };
    let order = |order: &str| {
        let mut runs = a.runs.iter().chain(&b.runs);
        runs.all(|run| run.plan["interleave"]["order"] == order)
    };
    match () {
        () if !partners(a, b) || !partners(b, a) => Design::Separate,
        () if order("pairs") => Design::Pairs,
        () => Design::Abba,
    }
}

fn notes(a: &Arm, b: &Arm, design: Design) -> Vec<String> {
    let mut notes: Vec<String> = a.left_out.iter().chain(&b.left_out).cloned().collect();
    let cut_short = a.runs.iter().chain(&b.runs).filter(|run| run.run["complete"] == false);
    notes.extend(cut_short.map(|run| format!("{} is not complete: what it measured is compared", run.dir)));
    let starts = |arm: &Arm| arm.runs.iter().filter_map(|r| r.started_at().map(str::to_owned)).collect::<Vec<_>>();
    let (of_a, of_b) = (starts(a), starts(b));
    let apart = of_a.iter().max() < of_b.iter().min() || of_b.iter().max() < of_a.iter().min();
    if design == Design::Separate && apart && !of_a.is_empty() && !of_b.is_empty() {
        notes.push(
            "all windows of one arm were measured before those of the other: whatever else changed in between is in the \
             effect too, and no test on windows can tell; let the arms take turns (run --interleave)"
                .to_owned(),
        );
    }
    let windows = || a.cells.iter().chain(&b.cells).flat_map(|cell| &cell.windows);
    if a.runs.len().max(b.runs.len()) > 1 {
        notes.push(
            "windows of one run may be more alike than windows of two; the test takes all windows of an arm as exchangeable"
                .to_owned(),
        );
    }
    if design == Design::Pairs {
        let single = |one: &Arm, other: &Arm| {
            let partners = |c: &ArmCell| {
                other.cells.iter().find(|o| o.load == c.load).map_or(0, |o| pairs_of((one, c), (other, o)).len())
            };
            one.cells.iter().map(|c| c.windows.len() - partners(c)).sum::<usize>()
        };
        let left = single(a, b) + single(b, a);
        if left > 0 {
            notes.push(format!("{left} windows have no partner in the other arm and are left out"));
        }
    }
    let untold = windows().filter(|w| matches!(w.drift, Drift::TooShort | Drift::Unknown)).count();
    if untold > 0 {
        notes.push(format!(
            "whether the server drifted is not known in {untold} of {} windows: they are too short to tell, or nothing is \
             said of it",
            windows().count()
        ));
    }
    notes
}

/// What to ask for where the client kept a metric from being compared, and net has it in every window of a load.
fn net_instead(a: &Arm, b: &Arm, metrics: &[Metric]) -> Option<String> {
    let stands_in = |metric: &Metric| {
        let net = metric.of_net()?;
        let at_load = |x: &ArmCell| {
            let Some(y) = b.cells.iter().find(|y| y.load == x.load) else { return false };
            let windows = || x.windows.iter().chain(&y.windows);
            let withheld = |w: &ArmWindow| matches!(w.figure(metric, &x.load), Err(NoFigure::Withheld(_)));
            windows().any(withheld) && windows().all(|w| w.invalid.is_none() && w.figure(&net, &x.load).is_ok())
        };
        a.cells.iter().any(at_load).then(|| net.to_string())
    };
    let names: Vec<String> = metrics.iter().filter_map(stands_in).collect();
    (!names.is_empty()).then(|| {
        format!(
            "what the client saw is withheld in windows where net stands; to compare that: --metrics {}",
            names.join(",")
        )
    })
}

/// What the effect is put down to.
fn what_moved(differences: &[Difference]) -> String {
    let of = |standing: Standing| {
        differences.iter().filter(|d| d.standing == standing).map(|d| d.name).collect::<Vec<_>>().join(", ")
    };
    match (of(Standing::UnderTest).as_str(), of(Standing::Accepted).as_str()) {
        ("", "") => "whatever changed between the runs".to_owned(),
        (tested, "") => format!("this change ({tested})"),
        ("", also) => format!("what differs ({also})"),
        (tested, also) => format!("this change ({tested}; {also} differ too)"),
    }
}

/// One metric at one load, before the tests of the comparison are counted together.
struct Measured<'a> {
    metric: &'a Metric,
    load: &'a Load,
    a: Vec<WindowFigure>,
    b: Vec<WindowFigure>,
    overhead_ms: [Option<f64>; 2],
    client: Option<String>,
    unstable: Option<String>,
    missing: Option<String>,
    windows: usize,
    tested: Option<Tested>,
}

/// Figures of a metric that every window has.
struct Tested {
    a_mean: f64,
    b_mean: f64,
    noise: Option<Noise>,
    ratio: Option<f64>,
    ratio_interval: Option<[f64; 2]>,
    effect_interval: Option<[f64; 2]>,
    assignments: u64,
    exact: bool,
    p: f64,
    p_outside: f64,
    /// Of logarithms: between the windows of an arm, or the differences of pairs.
    deviation: Option<f64>,
}

fn measure<'a>(
    (a, of_a): (&Arm, &'a ArmCell),
    (b, of_b): (&Arm, &ArmCell),
    metric: &'a Metric,
    design: Design,
    margin: f64,
) -> Measured<'a> {
    let load = &of_a.load;
    let figures = |arm: &Arm, cell: &ArmCell| {
        let of = |w: &ArmWindow| WindowFigure {
            run_id: arm.runs.get(w.run).map_or("", |run| run.run_id()).to_owned(),
            window: w.window,
            value: w.figure(metric, load).ok(),
        };
        cell.windows.iter().map(of).collect::<Vec<_>>()
    };
    let all = || of_a.windows.iter().map(|w| (a, w)).chain(of_b.windows.iter().map(|w| (b, w)));
    let first = |say: &dyn Fn(&ArmWindow) -> Option<String>| {
        all().find_map(|(arm, w)| Some(format!("{}: {}", arm.place(w), say(w)?)))
    };
    let client = first(&|w| w.invalid.clone()).or_else(|| {
        first(&|w| match w.figure(metric, load) {
            Err(NoFigure::Withheld(text)) => Some(text),
            _ => None,
        })
    });
    let drifted = |w: &ArmWindow| (w.drift == Drift::Drifting).then(|| "the server drifted while it lasted".to_owned());
    let unstable = first(&|w| w.failed.clone()).or_else(|| first(&drifted));
    let missing = first(&|w| match w.figure(metric, load) {
        Err(NoFigure::TooFew { n, smallest }) => {
            Some(format!("{n} requests, and it is defined from {smallest} on: measure more requests a window"))
        }
        Err(NoFigure::Absent) => Some("it was not measured".to_owned()),
        _ => None,
    });
    let (mut figures_a, mut figures_b) = (figures(a, of_a), figures(b, of_b));
    let mut windows = figures_a.len().min(figures_b.len());
    if design == Design::Pairs {
        let paired = pairs_of((a, of_a), (b, of_b));
        windows = paired.len();
        figures_a = paired.iter().map(|(i, _)| figures_a[*i].clone()).collect();
        figures_b = paired.iter().map(|(_, i)| figures_b[*i].clone()).collect();
    }
    let values = |figures: &[WindowFigure]| figures.iter().map(|f| f.value).collect::<Option<Vec<f64>>>();
    let tested = values(&figures_a).zip(values(&figures_b)).and_then(|(a, b)| test(&a, &b, design, margin));
    let nothing = (tested.is_none() && missing.is_none()).then(|| "no window of both arms can be compared".to_owned());
    let overhead = |cell: &ArmCell| {
        let mut shares = cell.windows.iter().map(|w| w.tare(metric)).collect::<Option<Vec<f64>>>()?;
        (!shares.is_empty()).then(|| percentiles::sum(&mut shares) / shares.len() as f64)
    };
    Measured {
        metric,
        load,
        overhead_ms: [overhead(of_a), overhead(of_b)],
        a: figures_a,
        b: figures_b,
        client,
        unstable,
        missing: missing.or(nothing),
        windows,
        tested,
    }
}

/// Windows of the same number in runs that were measured in turns: indices into the windows of both arms.
pub(crate) fn pairs_of((a, of_a): (&Arm, &ArmCell), (b, of_b): (&Arm, &ArmCell)) -> Vec<(usize, usize)> {
    let is_pair = |w_a: &ArmWindow, w_b: &ArmWindow| {
        let with = a.runs.get(w_a.run).and_then(|run| run.plan["interleave"]["with"].as_str());
        w_a.window == w_b.window && b.runs.get(w_b.run).is_some_and(|run| Some(run.run_id()) == with)
    };
    let partner = |w_a: &ArmWindow| of_b.windows.iter().position(|w_b| is_pair(w_a, w_b));
    of_a.windows.iter().enumerate().filter_map(|(i, w)| Some((i, partner(w)?))).collect()
}

fn test(a: &[f64], b: &[f64], design: Design, margin: f64) -> Option<Tested> {
    let of_values = design.test(a, b)?;
    let positive = a.iter().chain(b).all(|v| *v > 0.0);
    let logs = |values: &[f64]| values.iter().map(|v| v.ln()).collect::<Vec<_>>();
    let (log_a, log_b) = (logs(a), logs(b));
    let of_ratios = positive.then(|| design.test(&log_a, &log_b)).flatten();
    let ratio = of_ratios.as_ref().and_then(|_| match design {
        Design::Pairs => hodges_lehmann::centre(&within_pairs(&log_a, &log_b)),
        _ => hodges_lehmann::shift(&log_a, &log_b),
    });
    let deviation = match design {
        Design::Pairs => deviation_within(&[&within_pairs(&log_a, &log_b)]),
        _ => deviation_within(&[&log_a, &log_b]),
    };
    let judged = of_ratios.as_ref().unwrap_or(&of_values);
    let mean = |values: &[f64]| percentiles::sum(&mut values.to_vec()) / values.len() as f64;
    let noise = Noise::of(design, a, b);
    Some(Tested {
        a_mean: mean(a),
        b_mean: mean(b),
        noise,
        ratio: ratio.map(f64::exp),
        ratio_interval: of_ratios.as_ref().and_then(|t| t.interval(25)).map(|ends| ends.map(f64::exp)),
        effect_interval: of_values.interval(25),
        assignments: judged.assignments(),
        exact: judged.is_exact(),
        p: judged.two_sided(0.0),
        p_outside: of_ratios.as_ref().map_or(1.0, |t| t.outside(margin.ln_1p())),
        deviation: deviation.filter(|_| positive),
    })
}

/// Standard deviation within samples, all of them together.
fn deviation_within(samples: &[&[f64]]) -> Option<f64> {
    let values: usize = samples.iter().map(|sample| sample.len()).sum();
    let degrees = values.checked_sub(samples.len()).filter(|d| *d > 0)?;
    let squares = |values: &[f64]| {
        let mean = percentiles::sum(&mut values.to_vec()) / values.len() as f64;
        percentiles::sum(&mut values.iter().map(|v| (v - mean) * (v - mean)).collect::<Vec<_>>())
    };
    Some((samples.iter().map(|sample| squares(sample)).sum::<f64>() / degrees as f64).sqrt())
}

impl Measured<'_> {
    /// Its figures, when nothing speaks against comparing them.
    fn fit(&self) -> Option<&Tested> {
        let against = [&self.client, &self.unstable, &self.missing];
        self.tested.as_ref().filter(|_| against.iter().all(|words| words.is_none()))
    }

    fn judge(self, (p_holm, p_outside): (f64, f64), rules: &Rules, design: Design, moved: &str) -> Row {
        let (needed, tests, margin) = (rules.windows_needed, rules.tests, rules.margin);
        let tested = self.tested.as_ref();
        let unit = self.metric.unit();
        let evidence = Evidence {
            client: self.client,
            unstable: self.unstable,
            missing: self.missing,
            effect: tested.map_or(0.0, |t| t.b_mean - t.a_mean),
            unit,
            noise: tested.and_then(|t| t.noise).map(|noise| noise.gap),
            design,
            windows: self.windows,
            needed,
            tests,
            p_holm,
            p_outside_holm: p_outside,
            ratio: tested.and_then(|t| t.ratio),
            margin,
        };
        let (verdict, reason) = decide(&evidence);
        // what was not fit to be compared shows its windows, and nothing that could be read as an effect
        let tested = tested.filter(|_| verdict.is_result());
        let enough = self.windows >= needed;
        let label = self.metric.label(self.load.model);
        let sentence = tested.map(|t| sentence(t, moved, &label, unit, self.overhead_ms));
        let wants_more = matches!(verdict, Verdict::NotAClaim | Verdict::Suggestive | Verdict::Inconclusive);
        let advice = tested.filter(|_| wants_more).and_then(|t| {
            needed::advice(&needed::Seen {
                deviation: t.deviation?,
                effect: t.ratio?.ln(),
                margin: margin.ln_1p(),
                windows: needed.max(self.windows),
                tests,
                design,
            })
        });
        Row {
            metric: self.metric.to_string(),
            label,
            unit,
            a_mean: tested.map(|t| t.a_mean),
            b_mean: tested.map(|t| t.b_mean),
            effect: tested.map(|t| t.b_mean - t.a_mean),
            effect_interval: tested.and_then(|t| t.effect_interval),
            ratio: tested.and_then(|t| t.ratio),
            ratio_interval: tested.and_then(|t| t.ratio_interval),
            noise: tested.and_then(|t| t.noise).map(|noise| noise.gap),
            noise_share: tested.and_then(|t| t.noise?.share),
            overhead_ms: self.overhead_ms,
            assignments: tested.filter(|_| enough).map(|t| t.assignments),
            exact: tested.filter(|_| enough).map(|t| t.exact),
            p: tested.filter(|_| enough).map(|t| t.p),
            p_holm: tested.filter(|_| enough).map(|_| p_holm),
            p_outside_margin_holm: tested.filter(|t| enough && t.ratio.is_some()).map(|_| p_outside),
            verdict,
            why: reason.to_string(),
            sentence,
            advice,
            a: self.a,
            b: self.b,
        }
    }
}

/// What was found, in the one form in which it may be quoted.
fn sentence(t: &Tested, moved: &str, label: &str, unit: Unit, overhead: [Option<f64>; 2]) -> String {
    let effect = unit.signed(t.b_mean - t.a_mean);
    let ratio = t.ratio.map_or_else(String::new, |r| format!(" ({})", change(r)));
    let interval = match (t.effect_interval, t.ratio_interval) {
        (Some([lo, hi]), Some([lo_ratio, hi_ratio])) => {
            format!("[{} to {}; {} to {}]", unit.signed(lo), unit.signed(hi), change(lo_ratio), change(hi_ratio))
        }
        (Some([lo, hi]), None) => format!("[{} to {}]", unit.signed(lo), unit.signed(hi)),
        (None, _) => "[no interval: too few windows]".to_owned(),
    };
    let noise = t.noise.map_or_else(|| "unknown".to_owned(), |noise| unit.words(noise.gap));
    let overhead = match overhead {
        [Some(a), Some(b)] => format!("{} in A, {} in B", Unit::Millis.words(a), Unit::Millis.words(b)),
        _ => "unknown".to_owned(),
    };
    format!("on this system {moved} moved {label} by {effect}{ratio} {interval}, noise {noise}, overhead {overhead}")
}
