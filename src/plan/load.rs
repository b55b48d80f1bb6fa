//! Load points and the order of arms, from the flags.

use super::{BadPlan, range, trace};
use crate::arrivals::{BadPattern, NoLaw, Pattern};
use crate::cli::{InterleaveOrder, Profile, RunArgs};
use crate::interleave::Order;
use crate::load_point::{Cell, Extent};
use crate::shard::Shard;
use crate::trace::captured::Captured;
use crate::workload::nonce;
use bench_engine::schedule::{ArrivalLaw, BadLaw};

/// Most connections of one load point.
const MAX_CONCURRENCY: u32 = 100_000;

/// Another server whose campaign takes turns with this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interleave {
    /// Base URL of arm B.
    pub url: String,
    /// Order within the pairs of windows.
    pub order: Order,
}

/// What `--arrivals` or `--stages` asks for.
pub(super) struct Arrivals {
    flag: &'static str,
    pattern: Pattern,
}

impl Arrivals {
    /// None: neither flag is given, and the rate is constant.
    pub(super) fn of(args: &RunArgs) -> Result<Option<Self>, BadPlan> {
        let bad = |flag| move |bad: BadPattern| range(flag, bad.form, format!("{:?}", bad.got));
        let arrivals = match (&args.arrivals, &args.stages) {
            (None, None) => return Ok(None),
            (Some(_), Some(_)) => {
                let why = "each says how the rate changes; leave one out";
                return Err(BadPlan::Together { flag: "--arrivals", other: "--stages", why });
            }
            (Some(text), None) => {
                let pattern = Pattern::parse(text).map_err(bad("--arrivals"))?;
                let flag = match pattern {
                    Pattern::Batch { .. } => "--arrivals batch",
                    Pattern::OnOff { .. } => "--arrivals on-off",
                    Pattern::Spike { .. } => "--arrivals spike",
                    Pattern::Ramp { .. } | Pattern::Stages(_) => "--arrivals ramp",
                };
                Arrivals { flag, pattern }
            }
            (None, Some(items)) => {
                let pattern = Pattern::stages(&items.0).map_err(bad("--stages"))?;
                Arrivals { flag: "--stages", pattern }
            }
        };
        arrivals.check(args)?;
        Ok(Some(arrivals))
    }

    /// Flags that do not go with the pattern, or are missing.
    fn check(&self, args: &RunArgs) -> Result<(), BadPlan> {
        let together = |other, why| Err(BadPlan::Together { flag: self.flag, other, why });
        let rates = args.request_rate.as_ref().map(|list| list.0.as_slice());
        match rates {
            None if self.pattern.wants_rate() => {
                return Err(BadPlan::Alone { flag: self.flag, other: "--request-rate" });
            }
            Some(_) if !self.pattern.wants_rate() => {
                return together("--request-rate", "it has rates of its own; leave --request-rate out");
            }
            Some(rates) if rates.contains(&f64::INFINITY) => {
                return together("--request-rate inf", "all at once there is no rate that could change; give a number");
            }
            _ => {}
        }
        if args.burstiness.is_some() && matches!(self.pattern, Pattern::Batch { .. }) {
            return together("--burstiness", "nothing is drawn in it: the times of batches are given");
        }
        if !self.pattern.is_finite() {
            return Ok(());
        }
        let why = "the schedule has an end of its own; add to it, or leave the other out";
        if args.min_duration.is_some_and(|s| s != 0.0) {
            return together("--min-duration", why);
        }
        if args.num_prompts.is_none()
            && matches!(args.profile, Some(Profile::Standard | Profile::Tail | Profile::Quick))
        {
            let why = "the schedule decides the number of requests, and so does the profile; leave --profile out, or \
                       give --num-prompts";
            return together("--profile", why);
        }
        Ok(())
    }

    /// Requests that a schedule with an end leaves to be kept; of the first ones, when `--num-prompts` says how many.
    /// None: it has no end.
    pub(super) fn kept(&self, args: &RunArgs, seed: u64, drop: u64) -> Result<Option<u64>, BadPlan> {
        if !self.pattern.is_finite() {
            return Ok(None);
        }
        let law = self.law(f64::NAN, args)?;
        // one more than can be told apart is refused below, and need not be counted to its end
        let scheduled = law.schedule(seed).take(nonce::MAX_TRACE_ID as usize + 1).count() as u64;
        if scheduled > nonce::MAX_TRACE_ID {
            return Err(self.too_many());
        }
        match args.num_prompts {
            Some(wanted) if wanted.saturating_add(drop) > scheduled => {
                Err(BadPlan::TooFew { flag: self.flag, scheduled, drop, wanted })
            }
            Some(wanted) => Ok(Some(wanted)),
            None if scheduled <= drop => Err(BadPlan::NoneKept { flag: self.flag, scheduled, drop }),
            None => Ok(Some(scheduled - drop)),
        }
    }

    fn law(&self, per_s: f64, args: &RunArgs) -> Result<ArrivalLaw, BadPlan> {
        self.pattern.law(per_s, args.burstiness.unwrap_or(1.0)).map_err(|bad| match bad {
            NoLaw::Burstiness(got) => burstiness(got),
            NoLaw::Batch(bad) => self.refused(&bad),
            NoLaw::Profile(bad) => self.refused(&bad),
        })
    }

    fn refused(&self, bad: &dyn std::fmt::Display) -> BadPlan {
        BadPlan::Arrivals { flag: self.flag, bad: bad.to_string() }
    }

    fn too_many(&self) -> BadPlan {
        self.refused(&"a window would have more than 16,777,000 requests; make it shorter, or the rate lower")
    }
}

pub(super) fn burstiness(got: f64) -> BadPlan {
    range("--burstiness", "from 0.01 to 1,000,000, or inf", got)
}

/// `--max-concurrency`.
pub(super) fn caps(args: &RunArgs) -> Result<Option<&[u32]>, BadPlan> {
    let caps = args.max_concurrency.as_ref().map(|list| list.0.as_slice());
    match caps.unwrap_or_default().iter().find(|n| !(1..=MAX_CONCURRENCY).contains(*n)) {
        Some(bad) => Err(range("--max-concurrency", "a list of numbers from 1 to 100,000 (0 would send nothing)", bad)),
        None => Ok(caps),
    }
}

/// The load points: concurrencies alone, rates or speeds of a trace alone, or all pairs of one of these and caps.
pub(super) fn cells(
    args: &RunArgs,
    arrivals: Option<&Arrivals>,
    captured: Option<&Captured>,
    extent: Extent,
) -> Result<Vec<Cell>, BadPlan> {
    let caps = caps(args)?;
    if let Some(captured) = captured {
        return trace::cells(args, captured, caps, extent.shard);
    }
    let laws = laws(args, arrivals)?;
    if laws.is_empty() {
        return Ok(caps.unwrap_or(&[1, 8, 50]).iter().map(|n| Cell::Closed { concurrency: *n }).collect());
    }
    let caps: Vec<Option<u32>> = caps.map_or(vec![None], |caps| caps.iter().copied().map(Some).collect());
    let too_many = |_| match arrivals.filter(|arrivals| arrivals.pattern.is_finite()) {
        Some(arrivals) => arrivals.too_many(),
        None => {
            let allowed = "so short that no window has more than 16,777,000 requests at any --request-rate";
            range("--min-duration", allowed, extent.until.secs_f64())
        }
    };
    let pairs = laws.iter().flat_map(|law| caps.iter().map(move |cap| (law, *cap)));
    pairs.map(|(law, cap)| Cell::open(law.clone(), cap, extent).map_err(too_many)).collect()
}

/// The law of each load point; none in closed loop.
fn laws(args: &RunArgs, arrivals: Option<&Arrivals>) -> Result<Vec<ArrivalLaw>, BadPlan> {
    let constant = |per_s: f64| {
        ArrivalLaw::new(per_s, args.burstiness.unwrap_or(1.0)).map_err(|bad| match bad {
            BadLaw::Burstiness(got) => burstiness(got),
            _ => range("--request-rate", "a list of rates from 0.0001 to 1,000,000 requests/s, or inf", per_s),
        })
    };
    match (&args.request_rate, arrivals) {
        (None, None) if args.burstiness.is_some() => {
            let other = "--request-rate, --arrivals or --stages";
            Err(BadPlan::Alone { flag: "--burstiness", other })
        }
        (None, None) => Ok(Vec::new()),
        (None, Some(arrivals)) => Ok(vec![arrivals.law(f64::NAN, args)?]),
        (Some(rates), None) => rates.0.iter().map(|per_s| constant(*per_s)).collect(),
        (Some(rates), Some(arrivals)) => {
            // what is wrong with the rate itself is said of it
            rates.0.iter().map(|per_s| constant(*per_s).and_then(|_| arrivals.law(*per_s, args))).collect()
        }
    }
}

/// `--shard`.
pub(super) fn shard(args: &RunArgs, has_schedule: bool) -> Result<Option<Shard>, BadPlan> {
    let Some(text) = &args.shard else { return Ok(None) };
    let form = "I/N, host I (from 1) of N (at most 10,000), like 2/4";
    let shard = Shard::parse(text).ok_or_else(|| range("--shard", form, format!("{text:?}")))?;
    if args.request_rate.is_none() && !has_schedule {
        let why = "its requests start when others end, so there is no schedule that hosts could share: give each host its \
                   own --max-concurrency without --shard, or set --request-rate, --arrivals, --stages or --trace";
        return Err(BadPlan::Together { flag: "--shard", other: "a closed loop", why });
    }
    Ok(Some(shard))
}

/// Arm B, when it is asked for.
pub(super) fn interleave(args: &RunArgs) -> Result<Option<Interleave>, BadPlan> {
    let Some(url) = args.interleave.clone() else {
        return match args.interleave_order {
            None => Ok(None),
            Some(_) => Err(BadPlan::Alone { flag: "--interleave-order", other: "--interleave" }),
        };
    };
    if args.base_url.is_none() {
        return Err(BadPlan::Alone { flag: "--interleave", other: "--base-url" });
    }
    if args.address.is_some() {
        let why = "one address cannot be that of both servers; put addresses into the URLs";
        return Err(BadPlan::Together { flag: "--interleave", other: "--address", why });
    }
    let order = match args.interleave_order {
        Some(InterleaveOrder::Pairs) => Order::Pairs,
        Some(InterleaveOrder::Abba) | None => Order::Abba,
    };
    Ok(Some(Interleave { url, order }))
}
