//! The limit of a client, found by bisection, and the verdict in words.
//!
//! A search doubles the load until a gate fires, then halves the distance (in ratio) between the highest load that
//! was good and the lowest that was not. A step that failed is tried once more at the same load and counts only
//! when it fails again: hosts are shared, and a neighbour's burst must not become the client's limit. When one of
//! the two tries says that the mock was full, the client is not blamed, and the limit is an "at least".
//!
//! What was tried before a search begins is known to it: a load that was good is where it starts, and a failure is the
//! first of the two tries. The lowest load at which a gate of the client fired is tried next, since everything above
//! waits for the answer. A search that ends before that names the load all the same, as one that failed once: a limit
//! above which a gate has fired is no "at least".

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// How to search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// First load, when nothing is known.
    pub start: u64,
    /// Lowest load to try, from 1, at most `start`: below it a step would take too long to show anything.
    pub floor: u64,
    /// Highest load to try, at least `start`.
    pub cap: u64,
    /// Bisection is over when the lowest bad load is at most this times the highest good one; above 1.
    pub ratio: f64,
    /// Most steps to run, repetitions included.
    pub max_steps: u32,
}

/// What a step of load showed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind", content = "words")]
pub enum StepResult {
    /// No gate fired and the mock kept up.
    Good,
    /// A gate of the client fired: which, and the figure.
    Gate(String),
    /// The mock could not do more: why.
    MockFull(String),
    /// The step could not be run, or does not show anything: why. Never repeated.
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limit {
    /// Highest load that was tried and good, below every one that is known to be bad; 0 when none was.
    pub value: u64,
    /// The true limit may be higher: the client was not what ended the search, and no gate of it is known to fire above.
    pub at_least: bool,
    /// What ended it.
    pub stopped_by: StoppedBy,
    /// Lowest load at which a gate of the client fired twice, or once when it could not be tried again.
    pub first_bad: Option<u64>,
}

/// What ended a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind", content = "words")]
pub enum StoppedBy {
    /// A gate of the client, in words.
    Gate(String),
    /// A gate of the client that fired once, in words; there was no step left to try again.
    GateOnce(String),
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

/// Where a search is.
#[derive(Clone, Debug, PartialEq)]
enum State {
    /// No load so far was bad; every one was good up to `good`.
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
    /// Loads that were good before the search began.
    good_before: Vec<u64>,
    /// How the first try at a load failed, by load; never good, and not yet tried again.
    failed_once: BTreeMap<u64, StepResult>,
}

impl Search {
    /// A search that begins with what `shown`, steps of any load, have found; of two at one load the later counts.
    ///
    /// # Panics
    /// When the bounds are none: floor below 1, start below it, a cap below that, a ratio that is not above 1, no steps.
    pub fn new(bounds: Bounds, shown: impl IntoIterator<Item = (u64, StepResult)>) -> Search {
        let Bounds { start, floor, cap, ratio, max_steps } = bounds;
        let sound = floor >= 1 && start >= floor && cap >= start && ratio > 1.0 && max_steps >= 1;
        assert!(sound, "no bounds of a search: {bounds:?}");
        let shown: BTreeMap<u64, StepResult> = shown.into_iter().collect();
        let good_before: Vec<u64> = shown.iter().filter(|(_, r)| **r == StepResult::Good).map(|(l, _)| *l).collect();
        let highest = good_before.last().copied();
        let failed_once = shown.into_iter().filter(|(load, result)| match result {
            StepResult::Gate(_) => true,
            // a mock that did more at another time was only disturbed
            StepResult::MockFull(_) => highest.is_none_or(|good| *load > good),
            StepResult::Good | StepResult::Error(_) => false,
        });
        let mut search = Search {
            bounds,
            state: State::Doubling { good: None },
            steps: 0,
            good_before: Vec::new(),
            failed_once: failed_once.collect(),
        };
        search.good_before = good_before;
        search.state = search.doubling(None);
        search
    }

    /// What to do next; the same answer until a step is reported.
    pub fn next(&self) -> Next {
        match &self.state {
            State::Doubling { good } => Next::Try(self.upwards(*good)),
            State::Halving { bad, .. } => Next::Try((bad / 2).max(self.bounds.floor)),
            State::Bisecting { good, bad, .. } => Next::Try(middle(*good, *bad)),
            State::Over(limit) => Next::Over(limit.clone()),
        }
    }

    /// The load to try above `good`: at once the lowest that gates of the client have failed, else twice as much, and
    /// where the mock was full once no more than that.
    fn upwards(&self, good: Option<u64>) -> u64 {
        let doubled = good.map_or(self.bounds.start, |good| good.saturating_mul(2).min(self.bounds.cap));
        match self.failed_once.iter().find(|(load, _)| good.is_none_or(|good| **load > good)) {
            Some((load, StepResult::Gate(_))) => *load,
            Some((load, _)) => doubled.min(*load),
            None => doubled,
        }
    }

    /// Takes in the outcome of the step that [`Search::next`] asked for; once over, nothing changes any more.
    pub fn report(&mut self, result: StepResult) {
        let Next::Try(load) = self.next() else { return };
        self.steps += 1;
        let verdict = match (self.failed_once.remove(&load), result) {
            (_, StepResult::Good) => StepResult::Good,
            (_, StepResult::Error(words)) => StepResult::Error(words),
            (Some(StepResult::MockFull(words)), _) => StepResult::MockFull(words),
            (Some(_), second) => second,
            (None, first) => {
                self.failed_once.insert(load, first);
                if self.steps >= self.bounds.max_steps {
                    self.state = State::Over(self.give_up(StoppedBy::Steps));
                }
                return;
            }
        };
        let state = std::mem::replace(&mut self.state, State::Doubling { good: None });
        self.state = self.moved(state, load, verdict);
        if self.steps >= self.bounds.max_steps && !matches!(self.state, State::Over(_)) {
            self.state = State::Over(self.give_up(StoppedBy::Steps));
        }
    }

    /// What is known when no further step can be run, for this reason. A gate of the client that has fired above counts
    /// for more than the reason.
    pub fn give_up(&self, reason: StoppedBy) -> Limit {
        match &self.state {
            State::Doubling { good } => {
                let above = |load: u64| good.is_none_or(|good| load > good);
                let once = self.failed_once.iter().find_map(|(load, result)| match result {
                    StepResult::Gate(gate) if above(*load) => Some((*load, gate.clone())),
                    _ => None,
                });
                let value = good.unwrap_or(0);
                match once {
                    Some((load, gate)) => {
                        Limit { value, at_least: false, stopped_by: StoppedBy::GateOnce(gate), first_bad: Some(load) }
                    }
                    None => Limit { value, at_least: true, stopped_by: reason, first_bad: None },
                }
            }
            State::Halving { bad, gate } => limited(None, *bad, gate.clone()),
            State::Bisecting { good, bad, gate } => limited(Some(*good), *bad, gate.clone()),
            State::Over(limit) => limit.clone(),
        }
    }

    fn moved(&self, state: State, load: u64, verdict: StepResult) -> State {
        match (verdict, state) {
            (_, State::Over(limit)) => State::Over(limit),
            // no load below can show more than the one that is known to be bad
            (StepResult::Error(_) | StepResult::MockFull(_), State::Halving { bad, gate }) => {
                State::Over(limited(None, bad, gate))
            }
            (StepResult::Error(_) | StepResult::MockFull(_), State::Bisecting { good, bad, gate }) => {
                State::Over(limited(Some(good), bad, gate))
            }
            (StepResult::Error(words), State::Doubling { good }) => {
                let known = Search { state: State::Doubling { good }, ..self.clone() };
                State::Over(known.give_up(StoppedBy::Error(words)))
            }
            (StepResult::MockFull(words), State::Doubling { good }) => State::Over(Limit {
                value: good.unwrap_or(0),
                at_least: true,
                stopped_by: StoppedBy::Mock(words),
                first_bad: None,
            }),
            (StepResult::Good, State::Doubling { .. }) => self.doubling(Some(load)),
            (StepResult::Good, State::Halving { bad, gate } | State::Bisecting { bad, gate, .. }) => {
                self.narrowed(Some(load), bad, gate)
            }
            (StepResult::Gate(gate), State::Doubling { good }) => self.narrowed(good, load, gate),
            (StepResult::Gate(gate), State::Halving { .. }) => self.narrowed(None, load, gate),
            (StepResult::Gate(gate), State::Bisecting { good, .. }) => self.narrowed(Some(good), load, gate),
        }
    }

    /// Upwards from `good`, or from the highest load that was good before and lies below every gate that fired once.
    fn doubling(&self, good: Option<u64>) -> State {
        let fired = |(load, result): (&u64, &StepResult)| matches!(result, StepResult::Gate(_)).then_some(*load);
        let lowest_fired = self.failed_once.iter().find_map(fired).unwrap_or(u64::MAX);
        let before = self.good_before.iter().copied().filter(|load| *load < lowest_fired).max();
        match good.max(before) {
            Some(good) if good >= self.bounds.cap && lowest_fired == u64::MAX => {
                State::Over(Limit { value: good, at_least: true, stopped_by: StoppedBy::Cap, first_bad: None })
            }
            good => State::Doubling { good },
        }
    }

    fn narrowed(&self, good: Option<u64>, bad: u64, gate: String) -> State {
        match good {
            None if bad > self.bounds.floor => State::Halving { bad, gate },
            Some(good) if bad - good > 1 && bad as f64 > good as f64 * self.bounds.ratio => {
                State::Bisecting { good, bad, gate }
            }
            good => State::Over(limited(good, bad, gate)),
        }
    }
}

/// The limit that a gate of the client has set.
fn limited(good: Option<u64>, bad: u64, gate: String) -> Limit {
    Limit { value: good.unwrap_or(0), at_least: false, stopped_by: StoppedBy::Gate(gate), first_bad: Some(bad) }
}

/// The load between two in ratio, strictly between them.
fn middle(good: u64, bad: u64) -> u64 {
    let geometric = (good as f64 * bad as f64).sqrt().round() as u64;
    geometric.clamp(good + 1, bad - 1)
}

/// How far this client can be trusted on this host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
        match (&limit.stopped_by, limit.first_bad) {
            (StoppedBy::Gate(words), Some(bad)) => format!("{amount} ({} failed: {})", count(bad), short(words)),
            (StoppedBy::GateOnce(words), Some(bad)) => {
                format!("{amount} ({} failed once: {})", count(bad), short(words))
            }
            (by, _) if limit.at_least => format!("at least {amount} ({by})"),
            (by, _) => format!("{amount} ({by})"),
        }
    }

    fn none(self, limit: &Limit) -> String {
        let what = match self {
            Load::Requests => "rate of requests",
            Load::Events => "rate of events",
            Load::Streams => "number of streams",
            Load::Burst => "size of bursts",
        };
        let lowest = limit.first_bad.map_or_else(String::new, count);
        match &limit.stopped_by {
            StoppedBy::Gate(words) => {
                format!("no {what} that was tried is trustworthy here ({lowest} failed: {})", short(words))
            }
            StoppedBy::GateOnce(words) => {
                format!("no {what} that was tried is trustworthy here ({lowest} failed once: {})", short(words))
            }
            StoppedBy::Mock(words) => format!("nothing is known of any {what} (at once {})", short(words)),
            by => format!("nothing is known of any {what} ({by})"),
        }
    }
}

/// The first of several reasons, without what it says in brackets.
fn short(words: &str) -> &str {
    let end = [" (", "; "].into_iter().filter_map(|mark| words.find(mark)).min();
    &words[..end.unwrap_or(words.len())]
}

impl fmt::Display for StoppedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoppedBy::Gate(words) => write!(f, "limited by the client: {}", short(words)),
            StoppedBy::GateOnce(words) => write!(f, "limited by the client, seen once: {}", short(words)),
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

    const BOUNDS: Bounds = Bounds { start: 100, floor: 1, cap: 20_000, ratio: 1.25, max_steps: 60 };

    fn gate() -> StepResult {
        StepResult::Gate("seen - arrived p99 7.1 ms".into())
    }

    /// Runs a search to its end against `server`; the loads in order, with what it said.
    fn run(bounds: Bounds, server: impl FnMut(u64) -> StepResult) -> (Limit, Vec<(u64, StepResult)>) {
        run_knowing(bounds, &[], server)
    }

    /// The same, after steps that have shown this.
    fn run_knowing(
        bounds: Bounds,
        shown: &[(u64, StepResult)],
        mut server: impl FnMut(u64) -> StepResult,
    ) -> (Limit, Vec<(u64, StepResult)>) {
        let (mut search, mut tried) = (Search::new(bounds, shown.iter().cloned()), Vec::new());
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
        // a single failure is told as one
        assert_eq!((after(5).value, after(5).at_least, after(5).first_bad), (800, false, Some(1_600)));
        assert_eq!(after(5).stopped_by, StoppedBy::GateOnce("seen - arrived p99 7.1 ms".into()));
        assert_eq!((after(6).value, after(6).at_least, after(6).first_bad), (800, false, Some(1_600)));
    }

    fn limit(value: u64, at_least: bool, stopped_by: StoppedBy) -> Limit {
        Limit { value, at_least, stopped_by, first_bad: None }
    }

    #[test]
    fn a_verdict_in_words() {
        let gate = "worker 0's busy share 0.91 (void above 0.85); burst drain 9 ms";
        let failed = |value, bad| Limit { first_bad: Some(bad), ..limit(value, false, StoppedBy::Gate(gate.into())) };
        let by_mock = StoppedBy::Mock("late".into());
        let once = StoppedBy::GateOnce("steal 0.06 (void above 0.05)".into());
        let verdict = Verdict::new(
            failed(5_000, 10_000),
            limit(90_000, true, by_mock),
            failed(1_000, 1_200),
            Some(Limit { first_bad: Some(1_024), ..limit(256, false, once) }),
        );
        assert_eq!(
            verdict.text,
            "trustworthy here up to 5,000 requests/s (10,000 failed: worker 0's busy share 0.91), at least 90,000 \
             events/s (limited by the mock), 1,000 streams (1,200 failed: worker 0's busy share 0.91), bursts of 256 \
             (1,024 failed once: steal 0.06)"
        );
        let json = serde_json::to_string(&verdict).unwrap();
        assert_eq!(serde_json::from_str::<Verdict>(&json).unwrap(), verdict);
        let verdict = Verdict::new(
            failed(0, 20),
            limit(1_234_567, true, StoppedBy::Cap),
            limit(1, true, StoppedBy::Time),
            Some(limit(0, true, StoppedBy::Error("no ports".into()))),
        );
        assert_eq!(
            verdict.text,
            "trustworthy here up to at least 1,234,567 events/s (no higher load was tried), at least 1 stream (there was \
             no time for more); no rate of requests that was tried is trustworthy here (20 failed: worker 0's busy share \
             0.91); nothing is known of any size of bursts (the next step failed: no ports)"
        );
    }

    #[test]
    fn what_was_shown_before_is_not_forgotten() {
        let shown = [(1, StepResult::Good), (50, gate()), (200, gate()), (1_000, gate())];
        let words = || "seen - arrived p99 7.1 ms".to_owned();
        // no time for a single step
        let search = Search::new(BOUNDS, shown.iter().cloned());
        assert_eq!(search.next(), Next::Try(50), "the lowest failure decides");
        let limit = search.give_up(StoppedBy::Time);
        assert_eq!((limit.value, limit.at_least, limit.first_bad), (1, false, Some(50)));
        assert_eq!(limit.stopped_by, StoppedBy::GateOnce(words()));
        // one confirming try decides, and then no time
        let mut search = Search::new(BOUNDS, shown.iter().cloned());
        search.report(gate());
        let limit = search.give_up(StoppedBy::Time);
        assert_eq!((limit.value, limit.at_least, limit.first_bad), (1, false, Some(50)));
        assert_eq!((limit.stopped_by, search.next()), (StoppedBy::Gate(words()), Next::Try(7)));
        // the lowest was noise, the next one is not
        let (limit, tried) = run_knowing(BOUNDS, &shown, |load| if load <= 100 { StepResult::Good } else { gate() });
        let loads: Vec<u64> = tried.iter().map(|t| t.0).collect();
        assert_eq!(loads, [50, 200, 100, 141, 141, 119, 119]);
        assert_eq!((limit.value, limit.first_bad), (100, Some(119)));
        // an error says nothing against what gates have said
        let (limit, _) = run_knowing(BOUNDS, &shown, |load| match load {
            50 => StepResult::Good,
            _ => StepResult::Error("no ports".into()),
        });
        assert_eq!((limit.value, limit.at_least, limit.first_bad), (50, false, Some(1_000)));
    }

    #[test]
    fn a_load_below_one_that_was_good_is_tried_again() {
        let shown = [(1, StepResult::Good), (50, gate()), (200, StepResult::Good), (1_000, gate())];
        let (limit, tried) = run_knowing(BOUNDS, &shown, |load| if load < 1_000 { StepResult::Good } else { gate() });
        let loads: Vec<u64> = tried.iter().map(|t| t.0).collect();
        assert_eq!(loads, [50, 1_000, 447, 669, 818], "200 need not be tried again");
        assert_eq!((limit.value, limit.first_bad), (818, Some(1_000)));
        let (limit, _) = run_knowing(BOUNDS, &shown, |load| if load < 50 { StepResult::Good } else { gate() });
        assert!(
            limit.value < 50 && !limit.at_least,
            "two failures count for more than the 200 that was good: {limit:?}"
        );
    }

    #[test]
    fn a_full_mock_hides_no_gate_that_fired_below() {
        let full = || StepResult::MockFull("late by 3 ms at p99".into());
        let shown = [(1, StepResult::Good), (50, gate()), (200, full())];
        let (limit, _) = run_knowing(BOUNDS, &shown, |load| if load < 50 { full() } else { gate() });
        assert_eq!((limit.value, limit.at_least, limit.first_bad), (1, false, Some(50)));
        assert!(matches!(limit.stopped_by, StoppedBy::Gate(_)), "{limit:?}");
        // where only the mock was full, the way up to it is tried
        let shown = [(50, StepResult::Good), (180, full())];
        let (limit, tried) = run_knowing(BOUNDS, &shown, |load| if load < 180 { StepResult::Good } else { full() });
        assert_eq!((limit.value, limit.at_least, tried.len()), (100, true, 2));
        assert!(matches!(limit.stopped_by, StoppedBy::Mock(_)), "{limit:?}");
        // a mock that was full below a load it held was disturbed
        let shown = [(50, full()), (200, StepResult::Good)];
        assert_eq!(Search::new(BOUNDS, shown).next(), Next::Try(400));
    }

    #[test]
    fn a_search_keeps_to_its_floor_and_its_cap() {
        let (limit, tried) = run(Bounds { floor: 40, ..BOUNDS }, |_| gate());
        let loads: Vec<u64> = tried.iter().map(|t| t.0).collect();
        assert_eq!((loads, limit.value, limit.first_bad), (vec![100, 100, 50, 50, 40, 40], 0, Some(40)));
        let search = Search::new(BOUNDS, [(30_000, StepResult::Good)]);
        let Next::Over(limit) = search.next() else { panic!("{search:?}") };
        assert_eq!((limit.value, limit.at_least, limit.stopped_by), (30_000, true, StoppedBy::Cap));
    }

    proptest! {
        #[test]
        fn a_steady_server_is_found(truth in 0_u64..200_000, start in 1_u64..5_000, cap in 5_000_u64..100_000) {
            let bounds = Bounds { start, floor: 1, cap, ratio: 1.25, max_steps: 100 };
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
            noise in prop::collection::vec(0_u8..10, 64), truth in 1_u64..50_000, max_steps in 1_u32..60,
            before in prop::collection::btree_set(1_u64..20_000, 0..4),
        ) {
            let mut noise = noise.into_iter();
            let mut server = |load| match noise.next().unwrap() {
                0 | 1 => gate(),
                2 => StepResult::MockFull("late".into()),
                3 => StepResult::Good,
                _ if load <= truth => StepResult::Good,
                _ => gate(),
            };
            let shown: Vec<(u64, StepResult)> = before.into_iter().map(|load| (load, server(load))).collect();
            let (limit, tried) = run_knowing(Bounds { max_steps, ..BOUNDS }, &shown, server);
            let tried: Vec<(u64, StepResult)> = shown.into_iter().chain(tried).collect();
            let good = |load: u64| tried.iter().any(|(l, r)| *l == load && *r == StepResult::Good);
            prop_assert!(limit.value == 0 || good(limit.value), "{limit:?} {tried:?}");
            let fired = |load: u64| tried.iter().filter(|(l, r)| *l == load && matches!(r, StepResult::Gate(_))).count();
            match (&limit.stopped_by, limit.first_bad) {
                (StoppedBy::Gate(_), Some(bad)) => prop_assert!(fired(bad) == 2 && bad > limit.value, "{limit:?} {tried:?}"),
                (StoppedBy::GateOnce(_), Some(bad)) => prop_assert!(fired(bad) == 1 && bad > limit.value, "{limit:?} {tried:?}"),
                (by, bad) => prop_assert!(bad.is_none() && limit.at_least && !matches!(by, StoppedBy::Gate(_) | StoppedBy::GateOnce(_)), "{limit:?} {tried:?}"),
            }
            // no load that gates failed twice is called good, nor is any above it
            for (load, _) in &tried {
                prop_assert!(fired(*load) < 2 || limit.value < *load, "{limit:?} {tried:?}");
                // a load is tried at most twice
                prop_assert!(tried.iter().filter(|(l, _)| l == load).count() <= 2, "{tried:?}");
            }
        }
    }
}
