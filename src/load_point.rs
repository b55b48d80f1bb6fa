//! Load points: how many requests at once, or at which times. Everything about a load that can be known before the
//! first request is worked out here, once.

use crate::arrivals;
use crate::rundir::window::{self, LoadModel};
use crate::session_load::{SessionLoad, Start};
use crate::shard::Shard;
use crate::trace::replay::Replay;
use crate::workload::{hex, nonce};
use bench_engine::schedule::{ArrivalLaw, GapLaw};
use bench_engine::units::Nanos;
use bench_engine::worker;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::io;

/// Most requests at once of an open loop without `--max-concurrency`: what one worker can hold without the plan's
/// memory and descriptors getting out of hand.
pub const DEFAULT_SLOTS: u32 = 4096;
/// Output tokens per s and stream that estimates assume before anything is known of the server.
pub const ASSUMED_TOKENS_PER_S: f64 = 50.0;
/// Requests ready beyond those that a closed loop may want at once.
const SPARE_REQUESTS: usize = 64;
/// Most requests ready in an open loop: at some 6 KB each 50 MB.
const MOST_READY: usize = 8192;

/// One load point.
#[allow(clippy::large_enum_variant)] // a plan has a handful of them
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "model", rename_all = "snake_case")]
pub enum Cell {
    /// Each reply is followed by the next request.
    Closed {
        /// Requests at once.
        concurrency: u32,
    },
    /// Requests start at times drawn beforehand.
    Open(OpenLoop),
    /// Requests start at captured times.
    Trace(Replay),
    /// Requests are turns of sessions: each but the first needs the reply before.
    Sessions(SessionLoad),
}

/// An open-loop load point. Each of its windows has the same schedule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OpenLoop {
    /// Mean requests/s of this host over the schedule; None: all at once.
    pub rate: Option<f64>,
    /// `poisson`, `gamma`, `even`, `batches` or `at_once`.
    pub arrivals: &'static str,
    /// In words, what the mean rate does not tell: how the rate changes ([`arrivals::words`]), and which part of the
    /// schedule this host sends.
    pub course: Option<String>,
    /// Shape of the gamma distribution of the gaps; None where nothing is drawn.
    pub burstiness: Option<f64>,
    /// Most requests at once; None: as many as there are.
    pub concurrency: Option<u32>,
    /// Whether [`DEFAULT_SLOTS`] set that, not the user.
    pub default_cap: bool,
    /// Connections there may be.
    pub slots: u32,
    /// Connections opened before a window.
    pub opened_ahead: u32,
    /// Requests of a window that this host sends.
    pub requests: u64,
    /// Those of the whole schedule; others than `requests` only where several hosts share it.
    pub scheduled: u64,
    /// Due of the last one that this host sends, in s from the opening.
    pub last_due_s: f64,
    /// SHA-256 of the dues of the whole schedule in ns, one a line, hex.
    pub schedule_hash: String,
    /// The law behind the figures above.
    pub law: ArrivalLaw,
    #[serde(skip)]
    seed: u64,
    #[serde(skip)]
    at_least: u64,
    #[serde(skip)]
    until: Nanos,
    #[serde(skip)]
    shard: Option<Shard>,
}

/// What the schedule of a window is drawn from beside its law.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Of the run.
    pub seed: u64,
    /// Requests, dropped ones and those of other hosts included.
    pub at_least: u64,
    /// The schedule goes on until then.
    pub until: Nanos,
    /// Mean output length asked for, in tokens.
    pub mean_output_tokens: f64,
    /// The part of the schedule that this host sends; None: all of it.
    pub shard: Option<Shard>,
}

/// More requests than can be told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany;

impl Cell {
    /// An open-loop load point.
    ///
    /// # Errors
    /// [`TooMany`] when a window would have more than [`nonce::MAX_TRACE_ID`] requests.
    pub fn open(law: ArrivalLaw, cap: Option<u32>, extent: Extent) -> Result<Cell, TooMany> {
        let Extent { seed, at_least, until, mean_output_tokens, shard } = extent;
        let (mut requests, mut last_due, mut hash) = (0, Nanos::ZERO, Sha256::new());
        let mut scheduled = 0;
        for (trace_id, due) in (0..).zip(law.window(seed, at_least, until)) {
            scheduled += 1;
            if scheduled > nonce::MAX_TRACE_ID {
                return Err(TooMany);
            }
            hash.update(format!("{}\n", due.ns()));
            if shard.is_none_or(|shard| shard.sends(trace_id)) {
                (requests, last_due) = (requests + 1, due);
            }
        }
        let hosts = shard.map_or(1, |shard| shard.of);
        let all = u32::try_from(requests).unwrap_or(u32::MAX);
        let default_cap = cap.is_none() && all > DEFAULT_SLOTS;
        let concurrency = cap.or(default_cap.then_some(DEFAULT_SLOTS));
        let slots = concurrency.unwrap_or(all).min(all);
        let (arrivals, burstiness) = match law.gaps() {
            GapLaw::AtOnce => ("at_once", None),
            GapLaw::Batches => ("batches", None),
            GapLaw::Even => ("even", None),
            GapLaw::Exponential => ("poisson", Some(1.0)),
            GapLaw::Gamma { shape } => ("gamma", Some(shape)),
        };
        let course: Vec<String> = arrivals::words(&law).into_iter().chain(shard.map(Shard::words)).collect();
        Ok(Cell::Open(OpenLoop {
            rate: law.mean_per_s(at_least, until).map(|per_s| per_s / f64::from(hosts)),
            arrivals,
            course: (!course.is_empty()).then(|| course.join("; ")),
            burstiness,
            concurrency,
            default_cap,
            slots,
            opened_ahead: opened_ahead(&law, hosts, mean_output_tokens, slots),
            requests,
            scheduled,
            last_due_s: last_due.secs_f64(),
            schedule_hash: hex(&hash.finalize()),
            law,
            seed,
            at_least,
            until,
            shard,
        }))
    }

    /// Connections there may be.
    pub fn slots(&self) -> u32 {
        match self {
            Cell::Closed { concurrency } => *concurrency,
            Cell::Open(open) => open.slots,
            Cell::Trace(replay) => replay.slots,
            Cell::Sessions(load) => load.slots,
        }
    }

    /// Connections opened before a window.
    pub fn opened_ahead(&self) -> u32 {
        match self {
            Cell::Closed { concurrency } => *concurrency,
            Cell::Open(open) => open.opened_ahead,
            Cell::Trace(replay) => replay.opened_ahead,
            Cell::Sessions(load) => load.opened_ahead,
        }
    }

    /// Requests that must be ready when a window opens, and stay so: all slots' in closed loop, those of the next
    /// second in open loop.
    pub fn supply_depth(&self) -> usize {
        match self {
            Cell::Closed { concurrency } => *concurrency as usize + SPARE_REQUESTS,
            Cell::Open(open) => {
                let hosts = open.shard.map_or(1, |shard| shard.of);
                let second = most_at_once(&open.law, hosts, 1.0).map_or(MOST_READY, |most| most.ceil() as usize);
                second.clamp(SPARE_REQUESTS, MOST_READY).min(open.requests as usize)
            }
            Cell::Trace(replay) => replay.supply_depth(),
            Cell::Sessions(load) => load.slots as usize + SPARE_REQUESTS,
        }
    }

    /// What a worker is to do.
    pub fn load(&self) -> worker::Load {
        match self {
            Cell::Closed { .. } => worker::Load::Closed,
            Cell::Open(_) | Cell::Trace(_) => worker::Load::Open,
            Cell::Sessions(_) => worker::Load::Sessions,
        }
    }

    /// The load as windows record it.
    pub fn recorded(&self) -> window::Load {
        match self {
            Cell::Closed { concurrency } => window::Load {
                model: LoadModel::Closed,
                concurrency: Some(*concurrency),
                rate: None,
                arrivals: None,
                sessions: None,
            },
            Cell::Open(open) => window::Load {
                model: LoadModel::Open,
                concurrency: open.concurrency,
                rate: open.rate,
                arrivals: open.course.clone(),
                sessions: None,
            },
            Cell::Trace(replay) => window::Load {
                model: LoadModel::Trace,
                concurrency: replay.concurrency,
                rate: replay.rate,
                arrivals: replay.shard.map(Shard::words),
                sessions: None,
            },
            Cell::Sessions(load) => load.recorded(),
        }
    }

    /// Requests of a window that are sent from here; None in closed loop, where there is no schedule.
    pub fn requests(&self) -> Option<u64> {
        match self {
            Cell::Closed { .. } => None,
            Cell::Open(open) => Some(open.requests),
            Cell::Trace(replay) => Some(replay.requests),
            Cell::Sessions(load) => Some(load.requests),
        }
    }

    /// Names the schedule, when there is one.
    pub fn schedule_hash(&self) -> Option<&str> {
        match self {
            Cell::Closed { .. } => None,
            Cell::Open(open) => Some(&open.schedule_hash),
            Cell::Trace(replay) => Some(&replay.schedule_hash),
            Cell::Sessions(load) => match &load.start {
                Start::Users { .. } => None,
                Start::Arrivals(open) => Some(&open.schedule_hash),
            },
        }
    }
}

impl OpenLoop {
    /// When the requests of a window are due, from its opening, by trace id: those of other hosts as well.
    ///
    /// # Errors
    /// The file they come from cannot be read; each item as well.
    pub fn dues(&self) -> io::Result<Box<dyn Iterator<Item = io::Result<Nanos>> + Send>> {
        Ok(Box::new(self.law.window(self.seed, self.at_least, self.until).map(Ok)))
    }
}

/// Mean arrivals at this host in the `s` seconds in which there are most; of batches, what they bring. None: all at once.
fn most_at_once(law: &ArrivalLaw, hosts: u32, s: f64) -> Option<f64> {
    let most = match law {
        ArrivalLaw::Batches { size, every_ns } => *size as f64 * (s * 1e9 / *every_ns as f64).ceil().max(1.0),
        _ => law.peak_per_s()? * s,
    };
    Some(most / f64::from(hosts))
}

/// Connections that will be busy at the same time when most are, by Little's law, with a margin of three standard
/// deviations of a Poisson number; the time of a reply is that of its tokens at an assumed speed.
fn opened_ahead(law: &ArrivalLaw, hosts: u32, mean_output_tokens: f64, slots: u32) -> u32 {
    let busy = most_at_once(law, hosts, mean_output_tokens / ASSUMED_TOKENS_PER_S);
    busy.map_or(slots, |busy| opened_for(busy, slots))
}

/// Connections for so many that are busy in the mean.
pub(crate) fn opened_for(busy: f64, slots: u32) -> u32 {
    let wanted = (busy + 3.0 * busy.sqrt()).ceil();
    (wanted as u32).clamp(1, slots.max(1)).min(slots)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dues(open: &OpenLoop) -> Vec<Nanos> {
        open.dues().expect("no file").map(|due| due.expect("no file")).collect()
    }

    fn open(per_s: f64, cap: Option<u32>, at_least: u64, until_s: u64) -> OpenLoop {
        let law = ArrivalLaw::new(per_s, 1.0).expect("in range");
        let extent =
            Extent { seed: 7, at_least, until: Nanos::from_secs(until_s), mean_output_tokens: 25.0, shard: None };
        match Cell::open(law, cap, extent) {
            Ok(Cell::Open(open)) => open,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_open_loop_is_sized_from_its_schedule() {
        let small = open(100.0, None, 310, 0);
        assert_eq!((small.requests, small.slots, small.concurrency), (310, 310, None), "no cap can be reached");
        assert_eq!(small.opened_ahead, 50 + 22, "50 at once, and three standard deviations");
        assert!((2.0..4.5).contains(&small.last_due_s), "{}", small.last_due_s);
        let capped = open(100.0, Some(8), 310, 0);
        assert_eq!((capped.slots, capped.concurrency, capped.opened_ahead), (8, Some(8), 8));
        let large = open(1000.0, None, 10_000, 0);
        assert_eq!((large.slots, large.concurrency, large.default_cap), (DEFAULT_SLOTS, Some(DEFAULT_SLOTS), true));
        let once = open(f64::INFINITY, None, 40, 5);
        assert_eq!((once.requests, once.slots, once.opened_ahead, once.rate), (40, 40, 40, None));
    }

    #[test]
    fn the_hash_names_the_dues() {
        let a = open(100.0, None, 310, 0);
        assert_eq!(a.schedule_hash, open(100.0, Some(8), 310, 0).schedule_hash, "a cap changes no due");
        assert_ne!(a.schedule_hash, open(101.0, None, 310, 0).schedule_hash);
        assert_ne!(a.schedule_hash, open(100.0, None, 311, 0).schedule_hash);
        let longer = open(100.0, None, 310, 10);
        assert!(longer.requests > 900 && dues(&longer).len() as u64 == longer.requests);
        assert!(dues(&longer)[..310] == dues(&a), "it goes on by the same law");
        let text: String = dues(&a).iter().map(|due| format!("{}\n", due.ns())).collect();
        assert_eq!(a.schedule_hash, hex(&Sha256::digest(text)));
    }

    #[test]
    fn more_requests_than_can_be_told_apart_are_refused() {
        let law = ArrivalLaw::new(1e6, f64::INFINITY).expect("in range");
        let extent = Extent { seed: 7, at_least: 1, until: Nanos::from_secs(17), mean_output_tokens: 1.0, shard: None };
        assert_eq!(Cell::open(law, None, extent), Err(TooMany));
    }

    #[test]
    fn load_points_as_plans_record_them() {
        let text = serde_json::to_string(&Cell::Closed { concurrency: 8 }).expect("json");
        assert_eq!(text, r#"{"model":"closed","concurrency":8}"#);
        let text = serde_json::to_string(&Cell::Open(open(10.0, Some(2), 3, 0))).expect("json");
        assert!(text.starts_with(
            r#"{"model":"open","rate":10.0,"arrivals":"poisson","course":null,"burstiness":1.0,"concurrency":2"#
        ));
    }

    fn varying(pattern: &str, shard: Option<&str>) -> OpenLoop {
        let law = crate::arrivals::Pattern::parse(pattern).expect("a pattern").law(100.0, 1.0).expect("a law");
        let shard = shard.map(|text| Shard::parse(text).expect("a shard"));
        let extent = Extent { seed: 7, at_least: 310, until: Nanos::ZERO, mean_output_tokens: 25.0, shard };
        match Cell::open(law, None, extent) {
            Ok(Cell::Open(open)) => open,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_rate_that_changes_is_sized_by_its_highest() {
        let spike = varying("spike:10x/100ms@500ms", None);
        assert_eq!((spike.opened_ahead, spike.arrivals), (310, "poisson"), "500 at once, were there so many");
        // 50 + 100 in .6 s, the other 160 in 1.6 s
        assert_eq!(spike.rate, Some(310.0 / 2.2));
        assert_eq!(Cell::Open(spike).supply_depth(), 310, "1,000 in the next second, were there so many");
        let ramp = varying("ramp:0..40/20s", None);
        let mean = ramp.rate.expect("a rate");
        assert_eq!(ramp.opened_ahead, 20 + 14);
        assert!((mean - 310f64.sqrt()).abs() < 1e-6, "the first 310 of 400, of which t^2 come in t seconds: {mean}");
        let batches = varying("batch:30/1s", None);
        assert_eq!((batches.rate, batches.arrivals, batches.burstiness), (Some(30.0), "batches", None));
        assert_eq!((batches.opened_ahead, batches.last_due_s), (30 + 17, 10.0), "one batch at a time, of .5 s");
        assert_eq!(batches.course.as_deref(), Some("batches of 30 every 1 s"));
        assert_eq!(Cell::Open(batches).recorded().arrivals.as_deref(), Some("batches of 30 every 1 s"));
        let large = Cell::Open(varying("batch:300/1h", None));
        assert_eq!(large.supply_depth(), 300, "a batch is wanted at once");
    }

    #[test]
    fn shards_are_parts_of_one_schedule() {
        let whole = varying("ramp:0..40/20s", None);
        let parts: Vec<OpenLoop> = ["1/3", "2/3", "3/3"].map(|shard| varying("ramp:0..40/20s", Some(shard))).into();
        assert!(parts.iter().all(|part| part.schedule_hash == whole.schedule_hash && part.scheduled == 310));
        assert_eq!(parts.iter().map(|part| part.requests).collect::<Vec<_>>(), [104, 103, 103]);
        assert!(parts.iter().all(|part| dues(part) == dues(&whole)), "thinned by trace id, where shapes are too");
        assert_eq!(parts[0].last_due_s, whole.last_due_s, "id 309 is its last one");
        assert!(parts[1].last_due_s < whole.last_due_s);
        assert_eq!(parts[1].rate, whole.rate.map(|rate| rate / 3.0));
        assert_eq!(parts[1].course.as_deref(), Some("ramp: 0 to 40 requests/s in 20 s; shard 2/3"));
        assert_eq!((parts[1].opened_ahead, whole.opened_ahead), (7 + 8, 34));
    }
}
