//! What a campaign shows of itself while it runs. Pure: it is handed counts, samples and the time, and gives lines.

use super::course::Course;
use super::fitness::{Fitness, Signal};
use super::line::{self, Part, Tone};
use super::seen::{Quantiles, Sight};
use crate::analysis::definitions::gates::Gate;
use crate::analysis::definitions::rules::GateState;
use crate::report::quantity::{count, latency, percent, rate};
use crate::rundir::health::HealthRow;
use bench_engine::units::{Instant, Nanos};
use std::collections::VecDeque;

/// Rates are those of the last seconds.
const RATE_OVER: Nanos = Nanos::from_secs(5);
/// Less time is no rate.
const RATE_LEAST: Nanos = Nanos::from_millis(400);
/// Most columns of a name that others chose.
const NAME_COLUMNS: usize = 40;
/// Columns of the bar.
const BAR: usize = 20;
/// A ratio this close to 1 is one token an event, to the digits that are shown.
const ONE_TOKEN: f64 = 0.005;

/// What a campaign is, before its first window.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The model as the server, or the user, names it.
    pub model: String,
    /// Share of failed requests above which a run fails.
    pub max_failed: f64,
    /// Its windows.
    pub course: Course,
}

/// One window, before it opens.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// Which of two arms; None: there is one.
    pub arm: Option<&'static str>,
    /// Load point, from 0.
    pub load_point: usize,
    /// Window of that load point, from 0.
    pub window: u32,
    /// The load in words.
    pub load: String,
    /// Requests planned, dropped ones included.
    pub planned: u64,
    /// Requests that there can be in flight.
    pub slots: u32,
    /// What ends it.
    pub end: End,
    /// Replies are streams.
    pub streamed: bool,
    /// Workers never sleep.
    pub spin: bool,
}

/// What ends a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its number of requests, and this time.
    Number {
        /// It lasts at least so long.
        at_least: Nanos,
    },
    /// Time alone: no request begins after it.
    Time {
        /// From the opening.
        lasts: Nanos,
    },
    /// Its schedule.
    Schedule {
        /// From the opening to the last request that is due.
        last_due: Nanos,
    },
}

/// What is counted at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// Of the rows that are written.
    pub sight: Sight,
    /// Token events that the record reader has read.
    pub token_events: u64,
    /// Requests in flight.
    pub in_flight: u64,
    /// What the server said last; None: it was not asked, or did not answer.
    pub server: Option<Server>,
}

/// The server's own gauges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Server {
    /// Requests that it works on.
    pub running: Option<f64>,
    /// Requests that it keeps waiting.
    pub waiting: Option<f64>,
}

/// What the campaign is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing that is shown.
    Between,
    /// Connections are opened and requests made.
    Preparing,
    /// Requests are sent.
    Open { opened: Instant },
    /// All are over; the last records are written.
    Recording { opened: Instant, closed: Instant },
    /// A pause before the next round.
    Resting { until: Instant },
}

#[derive(Clone, Copy, Debug)]
struct Point {
    at: Instant,
    rows: u64,
    token_events: u64,
}

/// The state behind the view.
#[derive(Debug)]
pub struct Board {
    facts: Facts,
    window: Option<Window>,
    phase: Phase,
    fitness: Fitness,
    trail: VecDeque<Point>,
    counts: Counts,
}

impl Board {
    /// Nothing has begun.
    pub fn new(facts: Facts) -> Board {
        let facts = Facts { model: line::name(&facts.model, NAME_COLUMNS), ..facts };
        Board {
            facts,
            window: None,
            phase: Phase::Between,
            fitness: Fitness::default(),
            trail: VecDeque::new(),
            counts: Counts::default(),
        }
    }

    /// A window is made ready. What was counted in the one before is forgotten.
    pub fn prepare(&mut self, window: Window) {
        self.facts.course.begin();
        self.fitness = Fitness::of(window.spin);
        self.trail.clear();
        self.counts = Counts::default();
        self.window = Some(window);
        self.phase = Phase::Preparing;
    }

    /// It opens.
    pub fn open(&mut self, opened: Instant) {
        self.trail.push_back(Point { at: opened, rows: 0, token_events: 0 });
        self.phase = Phase::Open { opened };
    }

    /// All its requests are over.
    pub fn close(&mut self, closed: Instant) {
        if let (Phase::Open { opened }, Some(window)) = (self.phase, &self.window) {
            self.facts.course.measured(window.load_point, closed.saturating_since(opened));
            self.phase = Phase::Recording { opened, closed };
        }
    }

    /// It is told of elsewhere from here on.
    pub fn end(&mut self) {
        self.phase = Phase::Between;
    }

    /// A pause before the next round.
    pub fn rest(&mut self, until: Instant) {
        self.phase = Phase::Resting { until };
    }

    /// Whether requests are sent.
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open { .. })
    }

    /// Takes in what is counted now.
    pub fn take(&mut self, now: Instant, counts: Counts) {
        if !self.is_open() {
            return;
        }
        self.trail.push_back(Point { at: now, rows: counts.sight.rows, token_events: counts.token_events });
        // the oldest one kept is the first that is old enough
        while self.trail.get(1).is_some_and(|second| now.saturating_since(second.at) >= RATE_OVER) {
            self.trail.pop_front();
        }
        self.counts = counts;
    }

    /// Takes in samples of the client's threads.
    pub fn health(&mut self, rows: &[HealthRow]) {
        if matches!(self.phase, Phase::Preparing | Phase::Open { .. }) {
            self.fitness.take(rows);
        }
    }

    /// At most four lines of at most `width` columns each; none where there is nothing to show. `color` allows escape
    /// sequences.
    pub fn lines(&self, now: Instant, width: usize, color: bool) -> Vec<String> {
        let Some(window) = &self.window else { return Vec::new() };
        let rows = match self.phase {
            Phase::Between => Vec::new(),
            Phase::Preparing => vec![self.place(window), vec![Part::new(5, "opening connections, making requests")]],
            Phase::Open { opened } => {
                vec![
                    self.place(window),
                    self.progress(window, opened, now),
                    self.load(window),
                    self.health_and_server(),
                ]
            }
            Phase::Recording { opened, closed } => {
                let done = Part::new(
                    5,
                    format!("closed after {}, writing the last records", time(closed.saturating_since(opened))),
                )
                .or("writing the last records");
                vec![self.place(window), vec![done]]
            }
            Phase::Resting { until } => vec![self.rest_line(until, now)],
        };
        rows.iter().map(|parts| line::line(parts, width, color)).filter(|line| !line.is_empty()).collect()
    }

    /// The same in one line without end, for a file. None where there is nothing new to say.
    pub fn plain(&self, now: Instant) -> Option<String> {
        let window = self.window.as_ref()?;
        let rows = match self.phase {
            Phase::Open { opened } => {
                let mut progress = self.progress(window, opened, now);
                // a bar says what the figures say
                progress.retain(|part| !part.words().starts_with('['));
                vec![self.place(window), progress, self.load(window), self.health_and_server()]
            }
            Phase::Resting { until } => vec![self.rest_line(until, now)],
            Phase::Between | Phase::Preparing | Phase::Recording { .. } => return None,
        };
        let words: Vec<&str> = rows.iter().flatten().map(Part::words).collect();
        Some(format!("live     {}", words.join("; ")))
    }

    fn place(&self, window: &Window) -> Vec<Part> {
        let of = |n: u64, all: u64| format!("{n}/{all}");
        let number = format!("window {}", of(u64::from(window.window) + 1, u64::from(self.facts.course.windows())));
        let mut parts: Vec<Part> = window.arm.map(|arm| Part::new(9, format!("arm {arm}"))).into_iter().collect();
        parts.push(Part::new(8, number));
        let load_points = self.facts.course.load_points();
        let load = line::name(&window.load, 10 * NAME_COLUMNS);
        parts.push(match load_points {
            0 | 1 => Part::new(7, load),
            more => {
                let number = of(window.load_point as u64 + 1, more as u64);
                Part::new(7, format!("load {number}: {load}")).or(format!("load {number}"))
            }
        });
        if !self.facts.model.is_empty() {
            // last, where a name that is written from right to left turns nothing round but itself
            parts.push(Part::new(1, self.facts.model.clone()));
        }
        parts
    }

    fn progress(&self, window: &Window, opened: Instant, now: Instant) -> Vec<Part> {
        let elapsed = now.saturating_since(opened);
        let (rows, planned) = (self.counts.sight.rows, window.planned);
        let shares = match window.end {
            End::Number { at_least: Nanos::ZERO } | End::Schedule { .. } => vec![share(rows, planned)],
            End::Number { at_least } => vec![share(rows, planned), share(elapsed.ns(), at_least.ns())],
            End::Time { lasts } => vec![share(elapsed.ns(), lasts.ns())],
        };
        let done = shares.into_iter().fold(1.0, f64::min);
        let (ended, all) = (count(rows), count(planned));
        let number = match rows > planned {
            _ if matches!(window.end, End::Time { .. }) => Part::new(8, format!("{ended} requests")),
            false => Part::new(8, format!("{ended} of {all} requests")).or(format!("{ended} of {all}")),
            true => Part::new(8, format!("{ended} requests, {all} planned")).or(format!("{ended}, {all} planned")),
        };
        let mut parts = vec![Part::new(2, bar(done)), number];
        parts.push(self.failures());
        let left = self.left(window, elapsed);
        parts.push(match left {
            Left::About(left) => Part::new(7, format!("{}, about {} left", time(elapsed), time(left))).or(format!(
                "{}, ~{} left",
                time(elapsed),
                time(left)
            )),
            Left::Untold => Part::new(7, time(elapsed)),
            Left::ScheduleOver => Part::new(7, format!("{}, all are sent", time(elapsed))).or(time(elapsed)),
        });
        let rest = self.facts.course.left().filter(|rest| *rest > Nanos::ZERO);
        if let (Left::About(left), Some(rest)) = (left, rest) {
            parts.push(
                Part::new(3, format!("campaign: about {} left", time(left + rest)))
                    .or(format!("all ~{}", time(left + rest))),
            );
        }
        parts
    }

    fn failures(&self) -> Part {
        let failed = &self.counts.sight.failed;
        let n: u64 = failed.values().sum();
        let mut by_class: Vec<(&String, &u64)> = failed.iter().collect();
        by_class.sort_by_key(|(class, n)| (u64::MAX - **n, class.as_str()));
        let classes: Vec<String> =
            by_class.iter().map(|(class, n)| format!("{} {}", line::name(class, NAME_COLUMNS), count(**n))).collect();
        let short = format!("{} failed", count(n));
        let tone = match n {
            0 => Tone::Plain,
            _ if share(n, self.counts.sight.rows) > self.facts.max_failed => Tone::Void,
            _ => Tone::Warn,
        };
        match n {
            0 => Part::new(3, short),
            _ => Part::new(6, format!("{short} ({})", classes.join(", "))).or(short).toned(tone),
        }
    }

    fn left(&self, window: &Window, elapsed: Nanos) -> Left {
        let since = |until: Nanos| Nanos::from_ns(until.ns().saturating_sub(elapsed.ns()));
        match window.end {
            End::Schedule { last_due: end } | End::Time { lasts: end } if elapsed >= end => Left::ScheduleOver,
            End::Schedule { last_due: end } | End::Time { lasts: end } => {
                let flight = self.counts.sight.mean_flight.unwrap_or(Nanos::ZERO);
                Left::About(since(end) + flight)
            }
            End::Number { at_least } => {
                let (rows, left) = (self.counts.sight.rows, window.planned.saturating_sub(self.counts.sight.rows));
                let by_number = u128::from(elapsed.ns()) * u128::from(left);
                // at the rate so far
                let by_number =
                    by_number.checked_div(u128::from(rows)).map(|ns| Nanos::from_ns(ns.try_into().unwrap_or(u64::MAX)));
                by_number.map_or(Left::Untold, |by_number| Left::About(by_number.max(since(at_least))))
            }
        }
    }

    fn load(&self, window: &Window) -> Vec<Part> {
        let counts = &self.counts;
        let flying = count(counts.in_flight);
        let slots = count(u64::from(window.slots));
        let mut parts = vec![match window.end {
            End::Number { .. } | End::Time { .. } => {
                Part::new(6, format!("in flight {flying} of {slots}")).or(format!("in flight {flying}"))
            }
            End::Schedule { .. } => Part::new(6, format!("in flight {flying}")),
        }];
        if let Some((requests, events)) = self.rates() {
            let requests = rate(Some(requests));
            parts.push(Part::new(7, format!("{requests} requests/s")).or(format!("{requests} req/s")));
            let shown = rate(Some(events));
            parts.push(match counts.sight.tokens_per_event {
                Some(each) if (each - 1.0).abs() < ONE_TOKEN => {
                    Part::new(5, format!("{shown} tokens/s")).or(format!("{shown} tok/s"))
                }
                Some(each) => Part::new(5, format!("{shown} token events/s ({each:.2} tokens each)"))
                    .or(format!("{shown} token events/s"))
                    .or(format!("{shown} ev/s")),
                None => Part::new(5, format!("{shown} token events/s")).or(format!("{shown} ev/s")),
            });
        }
        parts.extend(self.latency(window));
        parts
    }

    /// The gross column: the one that is there with and without kernel stamps.
    fn latency(&self, window: &Window) -> Option<Part> {
        let Quantiles { n, p50, p99 } = self.counts.sight.latency?;
        let name = if window.streamed { "ttft" } else { "e2e" };
        let p50 = latency(p50.millis_f64());
        let p99 = p99.map_or_else(|| "n<100".to_owned(), |p99| latency(p99.millis_f64()));
        let voided = self.signals().iter().any(|s| s.state == GateState::Void && s.gate.voids().contains(&"gross"));
        let (mark, tone) = if voided { (" VOID", Tone::Void) } else { ("", Tone::Plain) };
        let part = Part::new(8, format!("{name} gross p50 {p50} p99 {p99} (n {}){mark}", count(n)))
            .or(format!("{name} gross p50 {p50} p99 {p99}{mark}"));
        Some(part.toned(tone))
    }

    /// Requests and token events per s, of the last seconds.
    fn rates(&self) -> Option<(f64, f64)> {
        let (from, to) = (self.trail.front()?, self.trail.back()?);
        let time = to.at.saturating_since(from.at);
        let per_s = |n: u64| n as f64 / time.secs_f64();
        let events = to.token_events.saturating_sub(from.token_events);
        (time >= RATE_LEAST).then(|| (per_s(to.rows.saturating_sub(from.rows)), per_s(events)))
    }

    fn signals(&self) -> Vec<Signal> {
        let mut signals = self.fitness.signals();
        let late = self.counts.sight.late.and_then(|late| late.p99);
        signals.extend(late.map(|p99| Signal::of(Gate::Lateness, p99.millis_f64())));
        signals
    }

    fn health_and_server(&self) -> Vec<Part> {
        // the hypervisor is spoken of when it takes something
        let signals = self.signals();
        let told = signals.iter().filter(|s| s.gate != Gate::Steal || s.state != GateState::Ok);
        let mut parts: Vec<Part> =
            told.enumerate().map(|(i, s)| signal(*s, if i == 0 { "client " } else { "" })).collect();
        if parts.is_empty() {
            parts.push(Part::new(2, "client: no figure yet"));
        }
        if let Some(Server { running, waiting }) = self.counts.server {
            let figure = |n: Option<f64>| n.map_or_else(|| "?".to_owned(), |n| count(n.max(0.0) as u64));
            let (running, waiting) = (figure(running), figure(waiting));
            parts.push(
                Part::new(4, format!("server {running} running, {waiting} waiting"))
                    .or(format!("server {running}, {waiting} wait")),
            );
        }
        parts
    }

    fn rest_line(&self, until: Instant, now: Instant) -> Vec<Part> {
        let rest = until.saturating_since(now);
        let mut parts = vec![
            Part::new(5, format!("resting before the next windows, {} left", time(rest)))
                .or(format!("resting, {}", time(rest))),
        ];
        if let Some(left) = self.facts.course.left_after_rest() {
            let left = rest + left;
            parts.push(Part::new(3, format!("campaign: about {} left", time(left))).or(format!("all ~{}", time(left))));
        }
        parts
    }
}

/// What is left of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    About(Nanos),
    /// Nothing is finished yet that it could be told by.
    Untold,
    /// Every request is sent, and how long a reply takes is the server's affair.
    ScheduleOver,
}

fn signal(signal: Signal, prefix: &str) -> Part {
    let Signal { gate, figure, state } = signal;
    let share = percent(Some(figure));
    let (words, short) = match gate {
        Gate::Cpu => (format!("cpu {share}"), None),
        Gate::Busy => (format!("busy {share}"), None),
        Gate::RunQueue => (format!("run queue {share}"), Some(format!("queue {share}"))),
        Gate::Steal => (format!("steal {share}"), None),
        Gate::Lateness => (format!("late p99 {}", latency(figure)), Some(format!("late {}", latency(figure)))),
        other => (format!("{other} {figure:.3}"), None),
    };
    // in words as well: colours are not for everyone, nor always there
    let (mark, tone) = match state {
        GateState::Void => (" VOID", Tone::Void),
        GateState::Warn => (" warn", Tone::Warn),
        GateState::Ok | GateState::Unknown => ("", Tone::Plain),
    };
    let part = Part::new(5, format!("{prefix}{words}{mark}"));
    let part = if prefix.is_empty() { part } else { part.or(format!("{words}{mark}")) };
    short.map_or(part.clone(), |short| part.or(format!("{short}{mark}"))).toned(tone)
}

fn share(n: u64, of: u64) -> f64 {
    if of == 0 { 1.0 } else { n as f64 / of as f64 }
}

fn bar(done: f64) -> String {
    let full = (done.clamp(0.0, 1.0) * BAR as f64) as usize;
    format!("[{}{}]", "#".repeat(full), ".".repeat(BAR - full))
}

/// `8 s`, `3 min 20 s`, `2 h 5 min`.
fn time(time: Nanos) -> String {
    let s = time.ns() / 1_000_000_000;
    match s {
        0..120 => format!("{s} s"),
        120..7_200 => format!("{} min {} s", s / 60, s % 60),
        _ => format!("{} h {} min", s / 3_600, s / 60 % 60),
    }
}

#[cfg(test)]
mod tests;
