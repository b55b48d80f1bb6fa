//! The limit of a client, found by bisection, and the verdict in words.
//!
//! A search doubles the load until a gate fires, then halves the distance (in ratio) between the highest load that
//! was good and the lowest that was not. A step that failed is tried once more at the same load and counts only
//! when it fails again: hosts are shared, and a neighbour's burst must not become the client's limit. When one of
//! the two tries says that the mock was full, the client is not blamed, and the limit is an "at least".

use serde::{Deserialize, Serialize};
use std::fmt;

/// Share of a limit above which a run is warned that it comes near.
pub const NEAR: f64 = 0.7;

/// How to search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// First load, from 1.
    pub start: u64,
    /// Highest load to try, at least `start`.
    pub cap: u64,
    /// Bisection is over when the lowest bad load is at most this times the highest good one; above 1.
    pub ratio: f64,
    /// Most steps to run, repetitions included.
    pub max_steps: u32,
}

/// What a step of load showed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "words")]
pub enum StepResult {
    /// No gate fired and the mock kept up.
    Good,
    /// A gate of the client fired: which, and the figure.
    Gate(String),
    /// The mock could not do more: why.
    MockFull(String),
    /// The step could not be run at all: why. Never repeated.
    Error(String),
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Run a step at this load and report it.
    Try(u64),
    /// The search is over.
    Over(Limit),
}

/// How far a client can be trusted along one kind of load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// Highest load that was tried and good; 0 when none was.
    pub value: u64,
    /// The true limit may be higher: the client was not what ended the search.
    pub at_least: bool,
    /// What ended it.
    pub stopped_by: StoppedBy,
    /// Lowest load at which a gate of the client fired twice.
    pub first_bad: Option<u64>,
}

/// What ended a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "words")]
pub enum StoppedBy {
    /// A gate of the client, in words.
    Gate(String),
    /// The mock, in words.
    Mock(String),
    /// The highest load that was asked for.
    Cap,
    /// The number of steps, before a gate had fired.
    Steps,
    /// The time that was given for it.
    Time,
    /// A step that could not be run, in words.
    Error(String),
}

/// Where a load lies with respect to a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Up to 70 % of it.
    Within,
    /// Above 70 % of it.
    Near,
    /// Above it: for an "at least", beyond what is known.
    Beyond,
}

impl Limit {
    /// Where `load` lies.
    pub fn standing(&self, load: f64) -> Standing {
        match load {
            l if l > self.value as f64 => Standing::Beyond,
            l if l > self.value as f64 * NEAR => Standing::Near,
            _ => Standing::Within,
        }
    }
}

/// Where a search is.
#[derive(Clone, Debug, PartialEq)]
enum State {
    /// Every load so far was good, up to `good`.
    Doubling { good: Option<u64> },
    /// No load so far was good, down to `bad`.
    Halving { bad: u64, gate: String },
    /// Between the highest good and the lowest bad load.
    Bisecting { good: u64, bad: u64, gate: String },
    /// Nothing left to do.
    Over(Limit),
}

/// A search for one limit. Ask [`Search::next`], run it, [`Search::report`] it, until it is over.
#[derive(Clone, Debug)]
pub struct Search {
    bounds: Bounds,
    state: State,
    steps: u32,
    /// How the first try at the current load failed.
    failed_once: Option<StepResult>,
}

impl Search {
    /// A search that has not begun.
    ///
    /// # Panics
    /// When the bounds are none: start below 1, a cap below it, a ratio that is not above 1, no steps.
    pub fn new(bounds: Bounds) -> Search {
        let Bounds { start, cap, ratio, max_steps } = bounds;
        assert!(start >= 1 && cap >= start && ratio > 1.0 && max_steps >= 1, "no bounds of a search: {bounds:?}");
        Search { bounds, state: State::Doubling { good: None }, steps: 0, failed_once: None }
    }

    /// What to do next; the same answer until a step is reported.
    pub fn next(&self) -> Next {
        match &self.state {
            State::Doubling { good: None } => Next::Try(self.bounds.start),
            State::Doubling { good: Some(good) } => Next::Try(good.saturating_mul(2).min(self.bounds.cap)),
            State::Halving { bad, .. } => Next::Try(bad / 2),
            State::Bisecting { good, bad, .. } => Next::Try(middle(*good, *bad)),
            State::Over(limit) => Next::Over(limit.clone()),
        }
    }

    /// Takes in the outcome of the step that [`Search::next`] asked for; once over, nothing changes any more.
    pub fn report(&mut self, result: StepResult) {
        let Next::Try(load) = self.next() else { return };
        self.steps += 1;
        let verdict = match (self.failed_once.take(), result) {
            (_, StepResult::Good) => StepResult::Good,
            (_, StepResult::Error(words)) => StepResult::Error(words),
            (Some(StepResult::MockFull(words)), _) => StepResult::MockFull(words),
            (Some(_), second) => second,
            (None, first) if self.steps < self.bounds.max_steps => {
                self.failed_once = Some(first);
                return;
            }
            // no step left to try again: one failure shows nothing
            (None, _) => {
                self.state = State::Over(self.out_of_steps());
                return;
            }
        };
        let state = std::mem::replace(&mut self.state, State::Doubling { good: None });
        self.state = self.moved(state, load, verdict);
        if self.steps >= self.bounds.max_steps && !matches!(self.state, State::Over(_)) {
            self.state = State::Over(self.out_of_steps());
        }
    }

    /// What is known when no further step can be run, for this reason.
    pub fn give_up(&self, reason: StoppedBy) -> Limit {
        let limit = self.out_of_steps();
        match limit.stopped_by {
            StoppedBy::Steps => Limit { stopped_by: reason, ..limit },
            _ => limit,
        }
    }

    fn moved(&self, state: State, load: u64, verdict: StepResult) -> State {
        let highest_good = match &state {
            State::Doubling { good } => *good,
            State::Bisecting { good, .. } => Some(*good),
            _ => None,
        };
        let lowest_bad = match &state {
            State::Halving { bad, .. } | State::Bisecting { bad, .. } => Some(*bad),
            _ => None,
        };
        let over = |stopped_by: StoppedBy| {
            let value = highest_good.unwrap_or(0);
            State::Over(Limit { value, at_least: true, stopped_by, first_bad: lowest_bad })
        };
        match (verdict, state) {
            (StepResult::Error(words), _) => over(StoppedBy::Error(words)),
            (StepResult::MockFull(words), _) => over(StoppedBy::Mock(words)),
            (StepResult::Good, State::Doubling { .. }) if load >= self.bounds.cap => {
                State::Over(Limit { value: load, at_least: true, stopped_by: StoppedBy::Cap, first_bad: None })
            }
            (StepResult::Good, State::Doubling { .. }) => State::Doubling { good: Some(load) },
            (StepResult::Good, State::Halving { bad, gate } | State::Bisecting { bad, gate, .. }) => {
                self.narrowed(Some(load), bad, gate)
            }
            (StepResult::Gate(gate), State::Doubling { good }) => self.narrowed(good, load, gate),
            (StepResult::Gate(gate), State::Halving { .. }) => self.narrowed(None, load, gate),
            (StepResult::Gate(gate), State::Bisecting { good, .. }) => self.narrowed(Some(good), load, gate),
            (_, State::Over(limit)) => State::Over(limit),
        }
    }

    fn narrowed(&self, good: Option<u64>, bad: u64, gate: String) -> State {
        match good {
            None if bad > 1 => State::Halving { bad, gate },
            Some(good) if bad - good > 1 && bad as f64 > good as f64 * self.bounds.ratio => {
                State::Bisecting { good, bad, gate }
            }
            good => State::Over(Limit {
                value: good.unwrap_or(0),
                at_least: false,
                stopped_by: StoppedBy::Gate(gate),
                first_bad: Some(bad),
            }),
        }
    }

    fn out_of_steps(&self) -> Limit {
        match &self.state {
            State::Doubling { good } => {
                Limit { value: good.unwrap_or(0), at_least: true, stopped_by: StoppedBy::Steps, first_bad: None }
            }
            State::Halving { bad, gate } => {
                Limit { value: 0, at_least: false, stopped_by: StoppedBy::Gate(gate.clone()), first_bad: Some(*bad) }
            }
            State::Bisecting { good, bad, gate } => Limit {
                value: *good,
                at_least: false,
                stopped_by: StoppedBy::Gate(gate.clone()),
                first_bad: Some(*bad),
            },
            State::Over(limit) => limit.clone(),
        }
    }
}

/// The load between two in ratio, strictly between them.
fn middle(good: u64, bad: u64) -> u64 {
    let geometric = (good as f64 * bad as f64).sqrt().round() as u64;
    geometric.clamp(good + 1, bad - 1)
}

/// How far this client can be trusted on this host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Requests per s.
    pub requests_per_s: Limit,
    /// Token events per s.
    pub events_per_s: Limit,
    /// Streams at once.
    pub streams: Limit,
    /// Events at one moment; null when not searched for.
    pub burst: Option<Limit>,
    /// All of it in a sentence.
    pub text: String,
}

impl Verdict {
    /// Puts the limits into words.
    pub fn new(requests_per_s: Limit, events_per_s: Limit, streams: Limit, burst: Option<Limit>) -> Verdict {
        let kinds = [(&requests_per_s, Load::Requests), (&events_per_s, Load::Events), (&streams, Load::Streams)];
        let kinds: Vec<(&Limit, Load)> = kinds.into_iter().chain(burst.iter().map(|b| (b, Load::Burst))).collect();
        let good: Vec<String> = kinds.iter().filter(|(l, _)| l.value > 0).map(|(l, k)| k.up_to(l)).collect();
        let none: Vec<String> = kinds.iter().filter(|(l, _)| l.value == 0).map(|(l, k)| k.none(l)).collect();
        let good = (!good.is_empty()).then(|| format!("trustworthy here up to {}", good.join(", ")));
        let text = good.into_iter().chain(none).collect::<Vec<_>>().join("; ");
        Verdict { requests_per_s, events_per_s, streams, burst, text }
    }
}

#[derive(Clone, Copy, Debug)]
enum Load {
    Requests,
    Events,
    Streams,
    Burst,
}

impl Load {
    fn amount(self, n: u64) -> String {
        let (n, s) = (count(n), if n == 1 { "" } else { "s" });
        match self {
            Load::Requests => format!("{n} request{s}/s"),
            Load::Events => format!("{n} event{s}/s"),
            Load::Streams => format!("{n} stream{s}"),
            Load::Burst => format!("bursts of {n}"),
        }
    }

    fn up_to(self, limit: &Limit) -> String {
        let amount = self.amount(limit.value);
        match (limit.at_least, &limit.stopped_by) {
            (true, by) => format!("at least {amount} ({by})"),
            (false, _) => amount,
        }
    }

    fn none(self, limit: &Limit) -> String {
        let what = match self {
            Load::Requests => "rate of requests",
            Load::Events => "rate of events",
            Load::Streams => "number of streams",
            Load::Burst => "size of bursts",
        };
        match &limit.stopped_by {
            StoppedBy::Gate(words) => format!("no {what} that was tried is trustworthy here ({words})"),
            StoppedBy::Mock(words) => format!("nothing is known of any {what} (the mock was full at once: {words})"),
            by => format!("nothing is known of any {what} ({by})"),
        }
    }
}

impl fmt::Display for StoppedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoppedBy::Gate(words) => write!(f, "limited by the client: {words}"),
            StoppedBy::Mock(_) => f.write_str("limited by the mock"),
            StoppedBy::Cap => f.write_str("no higher load was tried"),
            StoppedBy::Steps => f.write_str("the search ran out of steps"),
            StoppedBy::Time => f.write_str("there was no time for more"),
            StoppedBy::Error(words) => write!(f, "the next step failed: {words}"),
        }
    }
}

/// `90,000`.
fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const BOUNDS: Bounds = Bounds { start: 100, cap: 20_000, ratio: 1.25, max_steps: 60 };

    fn gate() -> StepResult {
        StepResult::Gate("seen - arrived p99 7.1 ms".into())
    }

    /// Runs a search to its end against `server`; the loads in order, with what it said.
    fn run(bounds: Bounds, mut server: impl FnMut(u64) -> StepResult) -> (Limit, Vec<(u64, StepResult)>) {
        let (mut search, mut tried) = (Search::new(bounds), Vec::new());
        loop {
            match search.next() {
                Next::Over(limit) => return (limit, tried),
                Next::Try(load) => {
                    let result = server(load);
                    tried.push((load, result.clone()));
                    search.report(result);
                }
            }
            assert!(tried.len() <= bounds.max_steps as usize, "{tried:?}");
        }
    }

    #[test]
    fn doubles_then_bisects() {
        let (limit, tried) = run(BOUNDS, |load| if load <= 1_000 { StepResult::Good } else { gate() });
        let loads: Vec<u64> = tried.iter().map(|t| t.0).collect();
        assert_eq!(loads, [100, 200, 400, 800, 1_600, 1_600, 1_131, 1_131, 951]);
        assert_eq!((limit.value, limit.at_least, limit.first_bad), (951, false, Some(1_131)));
        assert_eq!(limit.stopped_by, StoppedBy::Gate("seen - arrived p99 7.1 ms".into()));
    }

    #[test]
    fn one_failure_is_noise_and_two_are_a_limit() {
        let mut tries = HashMap::new();
        let (limit, _) = run(BOUNDS, |load| {
            let n: &mut u32 = tries.entry(load).or_default();
            *n += 1;
            if *n == 1 { gate() } else { StepResult::Good }
        });
        assert_eq!((limit.value, limit.stopped_by), (20_000, StoppedBy::Cap));
    }

    #[test]
    fn a_full_mock_does_not_blame_the_client() {
        let full = || StepResult::MockFull("late by 3 ms at p99".into());
        for order in [[full(), gate()], [gate(), full()], [full(), full()]] {
            let mut order = order.into_iter();
            let (limit, tried) = run(BOUNDS, |load| if load <= 800 { StepResult::Good } else { order.next().unwrap() });
            assert_eq!((limit.value, limit.at_least, limit.first_bad, tried.len()), (800, true, None, 6));
            assert!(matches!(limit.stopped_by, StoppedBy::Mock(_)), "{limit:?}");
        }
    }

    #[test]
    fn a_step_that_cannot_be_run_ends_the_search() {
        let (limit, tried) =
            run(BOUNDS, |l| if l < 400 { StepResult::Good } else { StepResult::Error("no ports".into()) });
        assert_eq!((limit.value, limit.at_least, tried.len()), (200, true, 3));
        assert_eq!(limit.stopped_by, StoppedBy::Error("no ports".into()));
    }

    #[test]
    fn below_the_start_it_goes_down() {
        let (limit, _) = run(BOUNDS, |load| if load <= 30 { StepResult::Good } else { gate() });
        assert!(limit.value <= 30 && limit.value * 5 >= 30 * 4, "{limit:?}");
        let (limit, _) = run(BOUNDS, |_| gate());
        assert_eq!((limit.value, limit.at_least, limit.first_bad), (0, false, Some(1)));
    }

    #[test]
    fn out_of_steps_says_what_is_known() {
        let server = |load| if load <= 1_000 { StepResult::Good } else { gate() };
        let after = |max_steps| run(Bounds { max_steps, ..BOUNDS }, server).0;
        assert_eq!((after(3).value, after(3).at_least, after(3).stopped_by), (400, true, StoppedBy::Steps));
        // a single failure is no limit
        assert_eq!((after(5).value, after(5).at_least, after(5).first_bad), (800, true, None));
        assert_eq!((after(6).value, after(6).at_least, after(6).first_bad), (800, false, Some(1_600)));
    }

    fn limit(value: u64, at_least: bool, stopped_by: StoppedBy) -> Limit {
        Limit { value, at_least, stopped_by, first_bad: None }
    }

    #[test]
    fn a_verdict_in_words() {
        let by_gate = || StoppedBy::Gate("busy 0.91".into());
        let by_mock = StoppedBy::Mock("late".into());
        let verdict = Verdict::new(
            limit(5_000, false, by_gate()),
            limit(90_000, true, by_mock),
            limit(1_000, false, by_gate()),
            Some(limit(256, false, by_gate())),
        );
        assert_eq!(
            verdict.text,
            "trustworthy here up to 5,000 requests/s, at least 90,000 events/s (limited by the mock), 1,000 streams, \
             bursts of 256"
        );
        let json = serde_json::to_string(&verdict).unwrap();
        assert_eq!(serde_json::from_str::<Verdict>(&json).unwrap(), verdict);
        let verdict = Verdict::new(
            limit(0, false, by_gate()),
            limit(1_234_567, true, StoppedBy::Cap),
            limit(1, false, by_gate()),
            Some(limit(0, true, StoppedBy::Error("no ports".into()))),
        );
        assert_eq!(
            verdict.text,
            "trustworthy here up to at least 1,234,567 events/s (no higher load was tried), 1 stream; no rate of \
             requests that was tried is trustworthy here (busy 0.91); nothing is known of any size of bursts (the next \
             step failed: no ports)"
        );
    }

    #[test]
    fn a_run_stands_within_near_or_beyond() {
        let limit = limit(1_000, false, StoppedBy::Cap);
        for (load, standing) in
            [(700.0, Standing::Within), (701.0, Standing::Near), (1_000.0, Standing::Near), (1_001.0, Standing::Beyond)]
        {
            assert_eq!(limit.standing(load), standing);
        }
    }

    proptest! {
        #[test]
        fn a_steady_server_is_found(truth in 0_u64..200_000, start in 1_u64..5_000, cap in 5_000_u64..100_000) {
            let bounds = Bounds { start, cap, ratio: 1.25, max_steps: 100 };
            let (limit, tried) = run(bounds, |load| if load <= truth { StepResult::Good } else { gate() });
            prop_assert!(limit.value <= truth);
            prop_assert!(tried.iter().all(|(load, _)| (1..=cap).contains(load)));
            match limit.stopped_by {
                StoppedBy::Cap => prop_assert!(limit.value == cap && truth >= cap && limit.at_least),
                StoppedBy::Gate(_) => {
                    let bad = limit.first_bad.unwrap();
                    prop_assert!(!limit.at_least && bad > truth);
                    prop_assert!(bad <= limit.value + 1 || bad as f64 <= limit.value as f64 * 1.25, "{:?}", (limit.value, bad));
                }
                other => prop_assert!(false, "{other:?}"),
            }
        }

        #[test]
        fn a_noisy_server_never_makes_a_claim_it_did_not_show(
            noise in prop::collection::vec(0_u8..10, 60), truth in 1_u64..50_000, max_steps in 1_u32..60,
        ) {
            let mut noise = noise.into_iter();
            let (limit, tried) = run(Bounds { max_steps, ..BOUNDS }, |load| match noise.next().unwrap() {
                0 | 1 => gate(),
                2 => StepResult::MockFull("late".into()),
                3 => StepResult::Good,
                _ if load <= truth => StepResult::Good,
                _ => gate(),
            });
            let good = |load: u64| tried.iter().any(|(l, r)| *l == load && *r == StepResult::Good);
            prop_assert!(limit.value == 0 || good(limit.value), "{limit:?} {tried:?}");
            if let Some(bad) = limit.first_bad {
                let twice = tried.windows(2).any(|w| w.iter().all(|(l, r)| *l == bad && matches!(r, StepResult::Gate(_))));
                prop_assert!(twice && bad > limit.value, "{limit:?} {tried:?}");
            }
            prop_assert_eq!(limit.at_least, !matches!(limit.stopped_by, StoppedBy::Gate(_)));
            // a load is tried at most twice
            prop_assert!(tried.windows(3).all(|w| w[0].0 != w[1].0 || w[1].0 != w[2].0), "{tried:?}");
        }
    }
}
