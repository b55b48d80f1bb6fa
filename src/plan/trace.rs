//! Replays of captured traffic, from the flags.

use super::{BadPlan, range};
use crate::cli::{RunArgs, TraceFormat};
use crate::load_point::Cell;
use crate::shard::Shard;
use crate::trace;
use crate::trace::captured::Captured;
use crate::trace::fault::MOST_TOKENS;
use crate::trace::format::Format;
use crate::trace::intake::Rules;
use crate::trace::replay::Replay;
use crate::workload::check_scale;
use bench_engine::units::Nanos;

/// Most passes of a trace.
const MOST_PASSES: u64 = 1_000_000;

/// The trace, read to its end; None where none is to be replayed. `drop` warm-up requests; `kept` ones when their number
/// was asked for.
pub(super) fn captured(args: &RunArgs, drop: u64, kept: Option<u64>) -> Result<Option<Captured>, BadPlan> {
    let Some(path) = &args.trace else { return without(args).map(|()| None) };
    for (flag, given, why) in [
        ("--request-rate", args.request_rate.is_some(), "a trace has times of its own; --time-scale changes its speed"),
        ("--arrivals", args.arrivals.is_some(), "a trace has times of its own; --time-scale changes its speed"),
        ("--stages", args.stages.is_some(), "a trace has times of its own; --time-scale changes its speed"),
        ("--burstiness", args.burstiness.is_some(), "a trace has times of its own"),
        ("--workload", args.workload.is_some(), "a trace has lengths of its own; --length-scale changes them"),
        ("--dataset-path", args.dataset_path.is_some(), "a trace has requests of its own"),
        ("--random-input-len", args.random_input_len.is_some(), "a trace has lengths of its own"),
        ("--random-output-len", args.random_output_len.is_some(), "a trace has lengths of its own"),
        ("--random-range-ratio", args.random_range_ratio.is_some(), "a trace has lengths of its own"),
        (
            "--min-duration",
            args.min_duration.is_some(),
            "a trace has an end of its own; --trace-loop goes on from there",
        ),
    ] {
        if given {
            return Err(BadPlan::Together { flag: "--trace", other: flag, why });
        }
    }
    let passes = args.trace_loop.unwrap_or(1);
    if !(1..=MOST_PASSES).contains(&passes) {
        return Err(range("--trace-loop", "a number of passes from 1 to 1,000,000", passes));
    }
    for (flag, value) in [
        ("--hash-block", args.hash_block),
        ("--max-input-tokens", args.max_input_tokens),
        ("--max-output-tokens", args.max_output_tokens),
    ] {
        if let Some(bad) = value.filter(|n| !(1..=MOST_TOKENS).contains(n)) {
            return Err(range(flag, "a number of tokens from 1 to 1,000,000,000", bad));
        }
    }
    let seconds = |flag, value: Option<f64>| {
        let of = |s| {
            let allowed = "a number of seconds after the first row, 0 or more";
            Nanos::from_secs_f64(s).filter(|n| n.ns() <= i64::MAX as u64).ok_or_else(|| range(flag, allowed, s))
        };
        value.map(of).transpose()
    };
    let from = seconds("--trace-from", args.trace_from)?.unwrap_or(Nanos::ZERO);
    let to = seconds("--trace-to", args.trace_to)?;
    if let Some(to) = to.filter(|to| *to <= from) {
        return Err(range("--trace-to", "later than --trace-from", to.secs_f64()));
    }
    scales(args)?;
    let length_scale = args.length_scale.unwrap_or(1.0);
    check_scale(length_scale, args.max_tokens)?;
    let rules = Rules {
        format: args.trace_format.and_then(format),
        hash_block: args.hash_block,
        from_ns: from.ns(),
        to_ns: to.map(Nanos::ns),
        length_scale,
        max_tokens: args.max_tokens,
        max_input_tokens: args.max_input_tokens,
        max_output_tokens: args.max_output_tokens,
    };
    let intake = trace::read(path, &rules)?;
    Ok(Some(Captured::new(trace::name(path), intake, passes, drop, kept)?))
}

/// A load point for every speed and cap.
pub(super) fn cells(
    args: &RunArgs,
    captured: &Captured,
    caps: Option<&[u32]>,
    shard: Option<Shard>,
) -> Result<Vec<Cell>, BadPlan> {
    let caps: Vec<Option<u32>> = caps.map_or(vec![None], |caps| caps.iter().copied().map(Some).collect());
    let mut cells = Vec::new();
    for scale in scales(args)? {
        for cap in &caps {
            let replay = Replay::new(captured, scale, *cap, shard).map_err(crate::trace::captured::BadReplay::from)?;
            cells.push(Cell::Trace(replay));
        }
    }
    Ok(cells)
}

fn scales(args: &RunArgs) -> Result<Vec<f64>, BadPlan> {
    let scales = args.time_scale.as_ref().map_or_else(|| vec![1.0], |list| list.0.clone());
    match scales.iter().find(|scale| !(1e-6..=1e9).contains(*scale)) {
        Some(bad) => {
            Err(range("--time-scale", "a list of numbers from 0.000001 to 1,000,000,000 (2: twice as fast)", bad))
        }
        None => Ok(scales),
    }
}

/// Flags that say nothing without a trace.
fn without(args: &RunArgs) -> Result<(), BadPlan> {
    let given = [
        ("--trace-format", args.trace_format.is_some()),
        ("--time-scale", args.time_scale.is_some()),
        ("--trace-from", args.trace_from.is_some()),
        ("--trace-to", args.trace_to.is_some()),
        ("--trace-loop", args.trace_loop.is_some()),
        ("--hash-block", args.hash_block.is_some()),
        ("--max-input-tokens", args.max_input_tokens.is_some()),
        ("--max-output-tokens", args.max_output_tokens.is_some()),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        Some((flag, _)) => Err(BadPlan::Alone { flag, other: "--trace" }),
        None => Ok(()),
    }
}

fn format(given: TraceFormat) -> Option<Format> {
    match given {
        TraceFormat::Auto => None,
        TraceFormat::Azure => Some(Format::Azure),
        TraceFormat::Burstgpt => Some(Format::Burstgpt),
        TraceFormat::Mooncake => Some(Format::Mooncake),
        TraceFormat::Vllm => Some(Format::Vllm),
        TraceFormat::Bailian => Some(Format::Bailian),
        TraceFormat::Generic => Some(Format::Generic),
    }
}
