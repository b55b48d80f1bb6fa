//! The search: which load is tried next, and when enough is known. A state machine over answers; it knows no server and
//! no clock.
//!
//! One request at a time first (it shows what the server does at its ease, and where to begin), then upwards by a factor
//! until the goals are missed, then between the highest load that met them and the lowest that missed them until these
//! are close, then the load found once more; then upwards again until throughput has a plateau, and last around the
//! knee. What an answer leaves open is asked again with more requests, and left open if it stays so.

use super::points::{self, Point};
use serde::{Deserialize, Serialize};

/// An answer that leaves it open is asked again with so many times the requests.
pub const MORE_REQUESTS: u32 = 3;
/// A load at which the client was not fit is tried so often: hosts are shared, and a neighbour's burst is no limit.
pub const CLIENT_TRIES: u32 = 3;
/// Halvings below the first load, when that misses the goals.
const LOWEST: f64 = 1.0 / 1024.0;
/// So many loads that stay open are enough: the edge is wider than windows of this size can see.
const MOST_OPEN: usize = 4;
/// Most loads that are confirmed or not.
const MOST_CONFIRMED: u32 = 3;
/// Further loads are this much above the highest one tried.
const BEYOND: f64 = 1.3;
/// Most further loads.
const MOST_BEYOND: u32 = 6;
/// Most loads around the knee.
const MOST_KNEE: u32 = 4;
/// Neighbours of the knee at most this factor apart are close enough.
const KNEE_RATIO: f64 = 1.35;

/// Where to search.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// First load; None: what one request at a time comes to.
    pub from: Option<f64>,
    /// No load above it.
    pub to: Option<f64>,
    /// Each load of the climb is so many times the one before; above 1.
    pub factor: f64,
    /// The search is over when the lowest bad load is at most this share above the highest good one.
    pub resolution: f64,
    /// Loads are whole numbers.
    pub whole: bool,
    /// Most windows, repetitions included.
    pub max_steps: u32,
}

/// What a window is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// One request at a time.
    OneAtATime,
    /// Upwards by a factor.
    Climb,
    /// Downwards, since the first load missed the goals.
    Descend,
    /// Between a load that met the goals and one that missed them.
    Bisect,
    /// The load found, a second time.
    Confirm,
    /// Above it, until throughput has a plateau.
    Beyond,
    /// Around the knee.
    Knee,
}

/// A window to run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// What it is for.
    pub purpose: Purpose,
    /// Requests/s or requests in flight; null: one request at a time.
    pub load: Option<f64>,
    /// So many times the usual requests.
    pub requests: u32,
    /// How many windows this load has had before.
    pub attempt: u32,
}

/// How a load stands to the goals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "words")]
pub enum Answer {
    /// Its whole interval keeps to them.
    Meets,
    /// Its whole interval does not.
    Misses,
    /// It is more than the server can do, which misses any goal.
    OverSaturated,
    /// The interval straddles the goal.
    Unclear,
    /// The client was not fit to measure it: why.
    Client(String),
}

/// What a window showed.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// How it stands to the goals.
    pub answer: Answer,
    /// Ok requests/s; None: not known.
    pub throughput: Option<f64>,
    /// Mean time of a request, ms; None as in [`Point::time_ms`].
    pub time_ms: Option<f64>,
}

/// What ended a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "words")]
pub enum End {
    /// Everything that was sought was found or cannot be.
    Complete,
    /// Even one request at a time, or the lowest load tried, misses the goals.
    NoneMeets,
    /// The highest load that was allowed meets them.
    AllMeet,
    /// The client, not the server: why.
    Client(String),
    /// The number of windows.
    Steps,
    /// The time that was given for it.
    Budget,
    /// The user.
    Interrupted,
    /// A window that could not be run: why.
    Failed(String),
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Run this window and report it.
    Try(Trial),
    /// The search is over.
    Over(End),
}

/// Where a search is.
#[derive(Clone, Debug, PartialEq)]
enum State {
    OneAtATime,
    Climbing { at: f64 },
    Descending { at: f64 },
    Bisecting { at: f64 },
    Confirming { at: f64 },
    Beyond { at: f64, tried: u32 },
    AroundKnee { at: f64, tried: u32 },
    Over(End),
}

/// How a load stands after all its windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Every window met the goals.
    Meets,
    /// Every window missed them.
    Misses,
    /// Windows disagree, or leave it open.
    Unclear,
}

/// A load and its windows.
#[derive(Clone, Debug, PartialEq)]
struct Tried {
    load: f64,
    /// Settled answers, in order.
    answers: Vec<Standing>,
}

impl Tried {
    fn standing(&self) -> Standing {
        let all = |s: Standing| self.answers.iter().all(|a| *a == s);
        match (all(Standing::Meets), all(Standing::Misses)) {
            (true, _) => Standing::Meets,
            (_, true) => Standing::Misses,
            (false, false) => Standing::Unclear,
        }
    }
}

/// What is known of the highest load that meets the goals.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bracket {
    /// The highest load that meets them, below every one that misses them.
    pub good: Option<f64>,
    /// Windows that it has met them in.
    pub windows: usize,
    /// The lowest that misses them.
    pub bad: Option<f64>,
    /// Loads between the two that leave it open.
    pub unclear: Vec<f64>,
    /// A load that meets the goals above one that misses them, and that one: the server is not monotone.
    pub turns: Option<[f64; 2]>,
}

/// A search. Ask [`Search::next`], run it, [`Search::report`] it, until it is over.
#[derive(Clone, Debug)]
pub struct Search {
    bounds: Bounds,
    state: State,
    steps: u32,
    /// By load.
    tried: Vec<Tried>,
    points: Vec<Point>,
    /// Loads that were to be confirmed.
    confirmations: u32,
    /// Windows at the present load that showed nothing because of the client.
    client_tries: u32,
    /// The present load is asked with more requests.
    more: bool,
    /// What the client ended beside the search for the optimum.
    client: Option<String>,
}

impl Search {
    /// A search within bounds.
    ///
    /// # Panics
    /// When the bounds are none: a load that is not above 0, a ceiling below the first load, a factor that is not above
    /// 1, no resolution, no steps.
    pub fn new(bounds: Bounds) -> Search {
        let Bounds { from, to, factor, resolution, max_steps, .. } = bounds;
        let loads = [from, to].into_iter().flatten().all(|load| load > 0.0 && load.is_finite());
        let ordered = from.zip(to).is_none_or(|(from, to)| from <= to);
        let sound = loads && ordered && factor > 1.0 && resolution > 0.0 && max_steps > 0;
        assert!(sound, "no bounds of a search: {bounds:?}");
        let state = match from {
            Some(at) => State::Climbing { at },
            None => State::OneAtATime,
        };
        Search {
            bounds,
            state,
            steps: 0,
            tried: Vec::new(),
            points: Vec::new(),
            confirmations: 0,
            client_tries: 0,
            more: false,
            client: None,
        }
    }

    /// What to do next; the same answer until a window is reported.
    pub fn next(&self) -> Next {
        let (purpose, load) = match &self.state {
            State::OneAtATime => (Purpose::OneAtATime, None),
            State::Climbing { at } => (Purpose::Climb, Some(*at)),
            State::Descending { at } => (Purpose::Descend, Some(*at)),
            State::Bisecting { at } => (Purpose::Bisect, Some(*at)),
            State::Confirming { at } => (Purpose::Confirm, Some(*at)),
            State::Beyond { at, .. } => (Purpose::Beyond, Some(*at)),
            State::AroundKnee { at, .. } => (Purpose::Knee, Some(*at)),
            State::Over(end) => return Next::Over(end.clone()),
        };
        if self.steps >= self.bounds.max_steps {
            return Next::Over(End::Steps);
        }
        let before = load.map_or(0, |load| self.tried.iter().find(|t| t.load == load).map_or(0, |t| t.answers.len()));
        let attempt = before as u32 + self.client_tries + u32::from(self.more);
        Next::Try(Trial { purpose, load, requests: if self.more { MORE_REQUESTS } else { 1 }, attempt })
    }

    /// Takes in what the window that [`Search::next`] asked for has shown; once over, nothing changes any more.
    pub fn report(&mut self, shown: Shown) {
        let Next::Try(trial) = self.next() else { return };
        self.steps += 1;
        // a rate to begin from is known whatever the client's latencies are worth
        let client = matches!(shown.answer, Answer::Client(_)) && trial.purpose != Purpose::OneAtATime;
        if client && self.client_tries + 1 < CLIENT_TRIES {
            self.client_tries += 1;
            return;
        }
        // what is only to show a curve, or has few requests by design, is not asked twice
        let judged = !matches!(trial.purpose, Purpose::OneAtATime | Purpose::Beyond | Purpose::Knee);
        if shown.answer == Answer::Unclear && judged && !self.more {
            self.more = true;
            return;
        }
        (self.client_tries, self.more) = (0, false);
        self.keep(&trial, &shown);
        let state = std::mem::replace(&mut self.state, State::Over(End::Complete));
        self.state = self.moved(state, shown);
    }

    fn keep(&mut self, trial: &Trial, shown: &Shown) {
        let Some(load) = trial.load else { return };
        let standing = match shown.answer {
            Answer::Meets => Standing::Meets,
            Answer::Misses | Answer::OverSaturated => Standing::Misses,
            Answer::Unclear => Standing::Unclear,
            Answer::Client(_) => return,
        };
        if let Some(throughput) = shown.throughput {
            self.points.push(Point { load, throughput, time_ms: shown.time_ms });
        }
        match self.tried.iter_mut().find(|t| t.load == load) {
            Some(tried) => tried.answers.push(standing),
            None => self.tried.push(Tried { load, answers: vec![standing] }),
        }
        self.tried.sort_by(|a, b| a.load.total_cmp(&b.load));
    }

    fn moved(&mut self, state: State, shown: Shown) -> State {
        match (state, shown.answer) {
            (State::Over(end), _) => State::Over(end),
            // a curve without its upper part is a curve
            (State::OneAtATime, Answer::Meets | Answer::Unclear | Answer::Client(_)) => match shown.throughput {
                Some(per_s) if per_s > 0.0 => State::Climbing { at: self.allowed(per_s) },
                _ => State::Over(End::Failed("one request at a time gave no throughput to begin from".to_owned())),
            },
            (State::Beyond { .. }, Answer::Client(words)) => {
                self.client = Some(words);
                self.around_knee(0)
            }
            (State::AroundKnee { .. }, Answer::Client(words)) => {
                self.client = Some(words);
                State::Over(End::Complete)
            }
            (_, Answer::Client(words)) => State::Over(End::Client(words)),
            (State::OneAtATime, Answer::Misses | Answer::OverSaturated) => State::Over(End::NoneMeets),
            (State::Climbing { at }, Answer::Meets | Answer::Unclear) => {
                let higher = self.allowed(at * self.bounds.factor);
                if higher > at { State::Climbing { at: higher } } else { self.narrowed() }
            }
            (State::Climbing { .. }, Answer::Misses | Answer::OverSaturated) => self.narrowed(),
            (State::Confirming { .. }, _) => {
                self.confirmations += 1;
                self.narrowed()
            }
            (State::Descending { .. } | State::Bisecting { .. }, _) => self.narrowed(),
            (State::Beyond { tried, .. }, _) => self.beyond(tried + 1),
            (State::AroundKnee { tried, .. }, _) => self.around_knee(tried + 1),
        }
    }

    /// The next load of the search for the highest one that meets the goals.
    fn narrowed(&self) -> State {
        let bracket = self.bracket();
        match (bracket.good, bracket.bad) {
            (None, None) | (None, Some(_)) => self.descended(),
            (Some(good), None) => match self.tried.last() {
                // the ceiling leaves it open
                Some(top) if top.load > good => self.between(good, top.load, &bracket),
                _ => self.confirmed(good, &bracket),
            },
            (Some(good), Some(bad)) => self.between(good, bad, &bracket),
        }
    }

    /// Below everything that was tried.
    fn descended(&self) -> State {
        let Some(lowest) = self.tried.first() else { return State::Over(End::NoneMeets) };
        let first = self.bounds.from.unwrap_or(lowest.load);
        let lower = self.rounded(lowest.load / self.bounds.factor);
        let floor = if self.bounds.whole { 1.0 } else { first * LOWEST };
        if lower < lowest.load && lower >= floor {
            State::Descending { at: lower }
        } else {
            State::Over(End::NoneMeets)
        }
    }

    /// Within the widest part of a bracket that is not known to leave it open; when all are narrow, once more at its
    /// lower end.
    fn between(&self, good: f64, bad: f64, bracket: &Bracket) -> State {
        let open = self.tried.iter().filter(|t| t.standing() == Standing::Unclear).count();
        if self.is_narrow(good, bad, 1.0) || open >= MOST_OPEN {
            return self.confirmed(good, bracket);
        }
        let lowest = bracket.unclear.first().copied();
        let highest = bracket.unclear.last().copied();
        // with something unclear in between both of its sides must be close for the whole to be
        let part = if bracket.unclear.is_empty() { 1.0 } else { 0.49 };
        let gaps = [(good, lowest.unwrap_or(bad)), (highest.unwrap_or(bad), bad)];
        let wide = gaps.into_iter().filter(|(a, b)| b > a && !self.is_narrow(*a, *b, part));
        let widest = wide.max_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)));
        let middle = widest.map(|(a, b)| (a, self.rounded((a * b).sqrt()), b));
        match middle {
            Some((a, at, b)) if at > a && at < b => State::Bisecting { at },
            _ => self.confirmed(good, bracket),
        }
    }

    fn is_narrow(&self, good: f64, bad: f64, part: f64) -> bool {
        // loads are rounded to four digits
        bad <= good * (1.0 + self.bounds.resolution * part) + 1e-9 * bad || (self.bounds.whole && bad - good <= 1.0)
    }

    /// Once more at the load found, unless that was done.
    fn confirmed(&self, good: f64, bracket: &Bracket) -> State {
        match bracket.windows < 2 && self.confirmations < MOST_CONFIRMED {
            true => State::Confirming { at: good },
            false => self.beyond(0),
        }
    }

    /// Upwards until throughput has a plateau.
    fn beyond(&self, tried: u32) -> State {
        let points = points::merged(&self.points);
        let plateau = points::saturation(&points).is_some_and(|s| s.plateau);
        let highest = self.tried.last().map(|t| t.load).filter(|_| !plateau && tried < MOST_BEYOND);
        let higher = highest.map(|highest| (highest, self.allowed(highest * BEYOND)));
        match higher {
            Some((highest, at)) if at > highest => State::Beyond { at, tried },
            _ => self.around_knee(0),
        }
    }

    /// In the wider gap beside the knee, until both are narrow.
    fn around_knee(&self, tried: u32) -> State {
        let over = || match self.bracket() {
            Bracket { bad: None, unclear, .. } if unclear.is_empty() => State::Over(End::AllMeet),
            _ => State::Over(End::Complete),
        };
        let Some(knee) = points::knee(&points::merged(&self.points)).filter(|_| tried < MOST_KNEE) else {
            return over();
        };
        let [below, above] = knee.between;
        let gaps = [(below, Some(knee.load)), (Some(knee.load), above)];
        let wide = gaps.into_iter().filter_map(|(a, b)| a.zip(b)).filter(|(a, b)| b / a > KNEE_RATIO);
        let widest = wide.max_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)));
        match widest.map(|(a, b)| (a, self.rounded((a * b).sqrt()), b)) {
            Some((a, at, b)) if at > a && at < b => State::AroundKnee { at, tried },
            _ => over(),
        }
    }

    /// What all windows together say of the highest load that meets the goals.
    pub fn bracket(&self) -> Bracket {
        let of = |standing| self.tried.iter().filter(move |t| t.standing() == standing);
        let bad = of(Standing::Misses).map(|t| t.load).next();
        let below = |load: f64| bad.is_none_or(|bad| load < bad);
        let good = of(Standing::Meets).rfind(|t| below(t.load));
        let turned = bad.and_then(|bad| Some([of(Standing::Meets).map(|t| t.load).find(|load| *load > bad)?, bad]));
        let unclear = of(Standing::Unclear).map(|t| t.load);
        Bracket {
            windows: good.map_or(0, |t| t.answers.len()),
            unclear: unclear.filter(|load| below(*load) && good.is_none_or(|good| *load > good.load)).collect(),
            good: good.map(|t| t.load),
            bad,
            turns: turned,
        }
    }

    /// Whether the bracket says it: met in two windows, missed within the resolution above, and no load above that
    /// meets the goals again.
    pub fn is_conclusive(&self) -> bool {
        let Bracket { good, windows, bad, turns, .. } = self.bracket();
        let narrow = good.zip(bad).is_some_and(|(good, bad)| self.is_narrow(good, bad, 1.0));
        narrow && windows >= 2 && turns.is_none()
    }

    /// Loads that were tried, with what their windows say together.
    pub fn standings(&self) -> impl Iterator<Item = (f64, Standing)> + '_ {
        self.tried.iter().map(|t| (t.load, t.standing()))
    }

    /// What the client ended beside the search for the optimum: the curve above the highest load is not known.
    pub fn client_above(&self) -> Option<&str> {
        self.client.as_deref()
    }

    /// Windows reported so far.
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// Four digits, or a whole number.
    fn rounded(&self, load: f64) -> f64 {
        if self.bounds.whole {
            return load.round().max(1.0);
        }
        // by whole numbers alone: the nearest float to what is printed, the same everywhere
        let (mut whole, mut fraction) = (1.0, 1.0);
        while load / whole >= 10_000.0 {
            whole *= 10.0;
        }
        while load * fraction < 1_000.0 && fraction < 1e12 {
            fraction *= 10.0;
        }
        (load / whole * fraction).round() / fraction * whole
    }

    fn allowed(&self, load: f64) -> f64 {
        let load = self.rounded(load);
        self.bounds.to.map_or(load, |to| load.min(to))
    }
}
