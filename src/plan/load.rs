//! Load points and the order of arms, from the flags.

use super::{BadPlan, range, trace};
use crate::cli::{InterleaveOrder, RunArgs};
use crate::interleave::Order;
use crate::load_point::{Cell, Extent};
use crate::trace::captured::Captured;
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

/// The load points: concurrencies alone, rates or speeds of a trace alone, or all pairs of one of these and caps.
pub(super) fn cells(args: &RunArgs, extent: Extent, captured: Option<&Captured>) -> Result<Vec<Cell>, BadPlan> {
    let caps = args.max_concurrency.as_ref().map(|list| list.0.as_slice());
    if let Some(bad) = caps.unwrap_or_default().iter().find(|n| !(1..=MAX_CONCURRENCY).contains(*n)) {
        return Err(range("--max-concurrency", "a list of numbers from 1 to 100,000 (0 would send nothing)", bad));
    }
    if let Some(captured) = captured {
        return trace::cells(args, captured, caps);
    }
    let Some(rates) = &args.request_rate else {
        if args.burstiness.is_some() {
            return Err(BadPlan::Alone { flag: "--burstiness", other: "--request-rate" });
        }
        return Ok(caps.unwrap_or(&[1, 8, 50]).iter().map(|n| Cell::Closed { concurrency: *n }).collect());
    };
    let caps: Vec<Option<u32>> = caps.map_or(vec![None], |caps| caps.iter().copied().map(Some).collect());
    let mut cells = Vec::new();
    for rate in &rates.0 {
        let law = ArrivalLaw::new(*rate, args.burstiness.unwrap_or(1.0)).map_err(|bad| match bad {
            BadLaw::Rate(got) => {
                range("--request-rate", "a list of rates from 0.0001 to 1,000,000 requests/s, or inf", got)
            }
            BadLaw::Burstiness(got) => range("--burstiness", "from 0.01 to 1,000,000, or inf", got),
        })?;
        for cap in &caps {
            let too_many = |_| {
                let allowed = "so short that no window has more than 16,777,000 requests at any --request-rate";
                range("--min-duration", allowed, extent.until.secs_f64())
            };
            cells.push(Cell::open(law, *cap, extent).map_err(too_many)?);
        }
    }
    Ok(cells)
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
