//! The gates: signals of a client that is not fit to measure, their limits, what they take away, and their words.
//!
//! A gate withholds columns, it does not repair them: what voids gross voids due; tare is never void, it is the
//! witness. Where a signal could not be had the gate is unknown, which is not ok.

use super::rules::{self, GateState, Limit};
use super::wording::percent;
use std::fmt;

/// A signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gate {
    /// CPU time of a worker per wall time, worst 5 s.
    Cpu,
    /// CPU time of the process per wall time.
    ProcessCpu,
    /// Busy fraction of a worker, worst 5 s.
    Busy,
    /// Longest time from a burst's first arrival to its last event seen.
    BurstDrain,
    /// `seen - arrived`.
    ReadDelay,
    /// Time waiting for a core, worst second.
    RunQueue,
    /// Time stolen by the hypervisor, worst 5 s.
    Steal,
    /// Lateness of the requests, open loop only.
    Lateness,
    /// Turnaround of the turns that follow a reply, only where there are such.
    Turnaround,
    /// Dispersion of the arrivals on the wire against the schedule's, open loop only.
    Arrivals,
    /// Width of the net interval of ttft.
    NetWidth,
    /// Kernel stamps that did not come.
    StampsMissing,
    /// Calibrated tare over ttft at p99, where net is not available.
    CalibratedTare,
    /// Requests/s over the calibrated limit.
    CalibratedRequests,
    /// Events/s over the calibrated limit.
    CalibratedEvents,
    /// Streams over the calibrated limit.
    CalibratedStreams,
    /// The busiest burst over the calibrated limit.
    CalibratedBurst,
    /// Requests sent over requests planned, open loop only.
    Achieved,
    /// Descriptors, ports, ring, blocks, record backlog.
    Losses,
}

/// What the process used when workers never sleep, per wall time: of those their busy time counts. `workers`: CPU and
/// busy time of each, per wall time. None: one of them is not known.
pub fn process_beside_spinning(process: Option<f64>, workers: &[(Option<f64>, Option<f64>)]) -> Option<f64> {
    workers.iter().try_fold(process?, |process, (cpu, busy)| Some(process - (*cpu)? + (*busy)?))
}

/// Said with that figure.
pub const SPINNING: &str = "of workers that spin, their busy time";

/// Column names in the order in which they are withheld.
pub const COLUMNS: [&str; 3] = ["gross", "due", "net"];

/// What [`Gate::Turnaround`] voids where turns come at a fixed pace: the clock says when they are due, as it does of arrivals,
/// and as with [`Gate::Lateness`] net, which takes out that they were late, would bring coordinated omission back.
pub const AT_A_PACE: &[&str] = &["net"];

impl Gate {
    /// Its limits.
    pub fn limit(self) -> Limit {
        match self {
            Gate::Cpu => rules::CPU,
            Gate::ProcessCpu => rules::PROCESS_CPU,
            Gate::Busy => rules::BUSY,
            Gate::BurstDrain => rules::BURST_DRAIN,
            Gate::ReadDelay => rules::READ_DELAY,
            Gate::RunQueue => rules::RUN_QUEUE,
            Gate::Steal => rules::STEAL,
            Gate::Lateness => rules::LATENESS,
            Gate::Turnaround => rules::TURNAROUND,
            Gate::Arrivals => rules::ARRIVALS,
            Gate::NetWidth => rules::NET_WIDTH,
            Gate::StampsMissing => rules::MISSING_STAMPS,
            Gate::CalibratedTare => rules::CALIBRATED_TARE,
            Gate::CalibratedRequests | Gate::CalibratedEvents | Gate::CalibratedStreams | Gate::CalibratedBurst => {
                rules::CALIBRATED_LOAD
            }
            Gate::Achieved => rules::ACHIEVED,
            Gate::Losses => rules::LOSSES,
        }
    }

    /// Columns that are withheld when it is void, in the order of [`COLUMNS`]. Of [`Gate::NetWidth`] only the
    /// percentiles that are too wide are. With due goes the time of sessions, which is counted from due as well.
    ///
    /// A turn that follows a reply is due by it: answered late it shifts all that comes after, and nothing is omitted. So
    /// gross and net stand, and due and the time of the session alone have the client's own time in them.
    /// [`AT_A_PACE`] is the exception.
    pub fn voids(self) -> &'static [&'static str] {
        match self {
            Gate::Cpu | Gate::Busy | Gate::BurstDrain | Gate::ReadDelay | Gate::RunQueue | Gate::CalibratedTare => {
                &["gross", "due"]
            }
            Gate::Turnaround => &["due"],
            Gate::Steal | Gate::Achieved | Gate::Losses => &["gross", "due", "net"],
            Gate::Lateness | Gate::Arrivals | Gate::NetWidth | Gate::StampsMissing => &["net"],
            Gate::ProcessCpu
            | Gate::CalibratedRequests
            | Gate::CalibratedEvents
            | Gate::CalibratedStreams
            | Gate::CalibratedBurst => &[],
        }
    }

    /// Unit of the figure: `share` (fraction of 1), `ms`, `count`.
    pub fn unit(self) -> &'static str {
        match self {
            Gate::BurstDrain | Gate::ReadDelay | Gate::Lateness | Gate::Turnaround => "ms",
            Gate::Losses => "count",
            _ => "share",
        }
    }

    /// Whether a rule of its own withholds and flags percentile by percentile, with verdicts of its own.
    pub fn has_own_verdicts(self) -> bool {
        matches!(self, Gate::NetWidth | Gate::StampsMissing)
    }

    /// One sentence about a figure. `detail` is what stands in brackets: a maximum, a count; may be empty.
    pub fn sentence(self, scope: Scope, figure: f64, detail: &str) -> String {
        let limit = self.limit();
        let said = self.figure_in_words(scope, figure);
        let beyond = if limit.rises { "above" } else { "below" };
        let shown = |l: Option<f64>| l.map_or_else(String::new, |l| self.quantity(l));
        let bracket = match limit.judge(figure) {
            GateState::Void => format!("void {beyond} {}", shown(limit.void)),
            GateState::Warn => format!("flagged {beyond} {}", shown(limit.warn)),
            GateState::Ok | GateState::Unknown => String::new(),
        };
        let parts: Vec<&str> = [detail, &bracket].into_iter().filter(|part| !part.is_empty()).collect();
        if parts.is_empty() { said } else { format!("{said} ({})", parts.join("; ")) }
    }

    /// The gate of a load, by the name of its limit in a calibration: one of
    /// [`LIMITS`](super::calibrated::LIMITS).
    pub fn of_limit(name: &str) -> Option<Gate> {
        match name {
            "requests_per_s" => Some(Gate::CalibratedRequests),
            "events_per_s" => Some(Gate::CalibratedEvents),
            "streams" => Some(Gate::CalibratedStreams),
            "burst" => Some(Gate::CalibratedBurst),
            _ => None,
        }
    }

    /// Whether it holds the load against a limit of the calibration, by its name.
    pub fn is_of_limit(name: &str) -> bool {
        let all = super::calibrated::LIMITS.into_iter().filter_map(Gate::of_limit);
        all.into_iter().any(|gate| gate.to_string() == name)
    }

    /// One sentence about a calibrated limit of 0. `at_least`: the calibration was not ended by the client.
    pub fn nothing_calibrated(self, at_least: bool) -> String {
        let what = match self {
            Gate::CalibratedRequests => "rate of requests",
            Gate::CalibratedEvents => "rate of events",
            Gate::CalibratedStreams => "number of streams",
            _ => "size of bursts",
        };
        match at_least {
            false => format!("nothing was trustworthy here in the calibration: no {what} that was tried"),
            true => format!("nothing is known here of any {what}: the calibration could not tell"),
        }
    }

    /// One sentence about a figure that could not be had.
    pub fn unknown(self, scope: Scope, why: &str) -> String {
        match scope {
            Scope::Window => format!("{self} is not known: {why}"),
            Scope::Worker(_) => format!("{self} of {scope} is not known: {why}"),
        }
    }

    fn figure_in_words(self, scope: Scope, figure: f64) -> String {
        let value = self.quantity(figure);
        match self {
            Gate::Cpu => format!("{scope} used {value} of its core"),
            Gate::ProcessCpu => format!("the process used {value} of a core"),
            Gate::Busy => format!("{scope} was busy {value} of the time"),
            Gate::BurstDrain => format!("{scope} needed {value} to drain a burst at p99.9"),
            Gate::ReadDelay => format!("{scope} saw events {value} after they had come, at p99"),
            Gate::RunQueue => format!("{scope} waited for its core {value} of its worst second"),
            Gate::Steal => match scope {
                Scope::Window => format!("the hypervisor took {value} of the machine"),
                Scope::Worker(_) => format!("the hypervisor took {value} of the core of {scope}"),
            },
            Gate::Lateness => format!("requests went out {value} late at p99"),
            Gate::Turnaround => format!("what follows a reply went out {value} late at p99"),
            Gate::Arrivals => format!("requests went out in other bunches than planned, by {value}"),
            Gate::NetWidth => format!("ttft net is known to within {value}"),
            Gate::StampsMissing => format!("{value} of requests lack a kernel stamp"),
            Gate::CalibratedTare => format!("the calibrated tare is {value} of ttft, both at p99"),
            Gate::CalibratedRequests => format!("requests/s are at {value} of what is calibrated here"),
            Gate::CalibratedEvents => format!("events/s are at {value} of what is calibrated here"),
            Gate::CalibratedStreams => format!("streams are at {value} of what is calibrated here"),
            Gate::CalibratedBurst => format!("the busiest burst is at {value} of what is calibrated here"),
            Gate::Achieved => {
                let state =
                    if self.limit().judge(figure) == GateState::Void { "overload: capacity only: " } else { "" };
                format!("{state}{value} of the planned requests were sent in time")
            }
            Gate::Losses if figure == 0.0 => "nothing was lost".into(),
            Gate::Losses => "something was lost".into(),
        }
    }

    fn quantity(self, figure: f64) -> String {
        match self.unit() {
            "ms" => format!("{figure:.3} ms"),
            "count" => format!("{figure:.0}"),
            // close to the whole, a rounded share would hide what is missing
            _ if self == Gate::Achieved => format!("{:.1} %", figure * 100.0),
            _ => percent(figure),
        }
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Gate::Cpu => "cpu",
            Gate::ProcessCpu => "process_cpu",
            Gate::Busy => "busy",
            Gate::BurstDrain => "burst_drain",
            Gate::ReadDelay => "read_delay",
            Gate::RunQueue => "run_queue",
            Gate::Steal => "steal",
            Gate::Lateness => "lateness",
            Gate::Turnaround => "turnaround",
            Gate::Arrivals => "arrivals",
            Gate::NetWidth => "net_width",
            Gate::StampsMissing => "stamps_missing",
            Gate::CalibratedTare => "calibrated_tare",
            Gate::CalibratedRequests => "calibrated_requests",
            Gate::CalibratedEvents => "calibrated_events",
            Gate::CalibratedStreams => "calibrated_streams",
            Gate::CalibratedBurst => "calibrated_burst",
            Gate::Achieved => "achieved",
            Gate::Losses => "losses",
        })
    }
}

/// What a figure is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The client as a whole.
    Window,
    /// One worker thread.
    Worker(u32),
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scope::Window => f.write_str("window"),
            Scope::Worker(index) => write!(f, "worker {index}"),
        }
    }
}

/// Why a figure could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// No health samples around the window.
    Samples,
    /// The kernel does not tell.
    NotTold,
    /// No kernel stamps.
    Stamps,
    /// No event to judge by.
    Events,
    /// Too few bins, or nothing in them.
    Bins,
    /// All requests at one moment.
    NoLength,
    /// No calibration that matches.
    Calibration,
    /// One that matches, but has no tare for this event rate.
    Tare,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Missing::Samples => "health.jsonl has no samples around the window",
            Missing::NotTold => "the kernel does not tell it here",
            Missing::Stamps => "there are no kernel stamps",
            Missing::Events => "there was no event to judge by",
            Missing::Bins => "the schedule is shorter than two bins of 100 ms",
            Missing::NoLength => "the schedule has no length",
            Missing::Calibration => "no calibration matches",
            Missing::Tare => "the calibration does not tell the tare at this event rate",
        })
    }
}

/// What was lost, in words; counts of zero are left out.
pub fn losses(counts: [(u64, &str); 4]) -> String {
    let lost = counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}"));
    lost.collect::<Vec<_>>().join(", ")
}

/// The names of the losses, in the order in which they are counted: ring, blocks, record backlog, requests.
pub const LOSSES: [&str; 4] = [
    "completions of the ring lost",
    "times no record block was free",
    "times a worker waited for the record reader",
    "requests failed for want of descriptors, ports, memory or record blocks",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_workers_that_spin_their_busy_time_counts() {
        let workers = [(Some(1.0), Some(0.25)), (Some(0.75), Some(0.5))];
        assert_eq!(process_beside_spinning(Some(2.0), &workers), Some(1.0));
        assert_eq!(process_beside_spinning(Some(2.0), &[(None, Some(0.5))]), None);
        assert_eq!(process_beside_spinning(None, &workers), None);
    }

    #[test]
    fn a_sentence_says_figure_and_limit() {
        let worker = Scope::Worker(0);
        let said = Gate::RunQueue.sentence(worker, 0.073, "31 involuntary switches");
        assert_eq!(
            said,
            "worker 0 waited for its core 7.3 % of its worst second (31 involuntary switches; void above 5.0 %)"
        );
        assert_eq!(Gate::Cpu.sentence(worker, 0.42, ""), "worker 0 used 42 % of its core");
        assert_eq!(
            Gate::Achieved.sentence(Scope::Window, 0.871, ""),
            "overload: capacity only: 87.1 % of the planned requests were sent in time (void below 99.0 %)"
        );
        assert_eq!(
            Gate::BurstDrain.unknown(worker, &Missing::Stamps.to_string()),
            "burst_drain of worker 0 is not known: there are no kernel stamps"
        );
        assert_eq!(losses([(0, "a"), (2, "b"), (0, "c"), (1, "d")]), "2 b, 1 d");
    }
}
