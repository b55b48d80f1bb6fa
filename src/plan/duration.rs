//! `--duration`: windows that time alone ends. And how large a file of rows may become, since long runs make large ones.

use super::load::Arrivals;
use super::{BadPlan, range};
use crate::arrivals::span;
use crate::cli::{Profile, RunArgs};
use crate::load_point::Cell;
use crate::rundir::rows;
use crate::workload::nonce::MAX_TRACE_ID;
use bench_engine::schedule::ArrivalLaw;
use bench_engine::units::Nanos;

/// Shortest: a window that is over before its connections are warm says nothing.
const SHORTEST: Nanos = Nanos::from_secs(1);

/// The length of each window. None: the number of requests decides.
pub(super) fn of(args: &RunArgs, arrivals: Option<&Arrivals>) -> Result<Option<Nanos>, BadPlan> {
    let Some(text) = &args.duration else { return Ok(None) };
    let form = "a time like 90s, 20m or 4h, from 1s to 366 days";
    let duration =
        span(text).filter(|span| *span >= SHORTEST).ok_or_else(|| range("--duration", form, format!("{text:?}")))?;
    let number = "time decides the number of requests; --min-duration with --num-prompts asks for both, at least";
    let profile = "a profile decides the number of requests, and here time does; leave one of the two out";
    let at_once = "all at once there is no schedule that could go on; give a rate";
    let once = args.request_rate.as_ref().is_some_and(|rates| rates.0.contains(&f64::INFINITY));
    let ends = arrivals.is_some_and(Arrivals::is_finite);
    for (other, given, why) in [
        ("--num-prompts", args.num_prompts.is_some(), number),
        (
            "--num-sessions",
            args.num_sessions.is_some(),
            "time decides the number of sessions; leave one of the two out",
        ),
        ("--min-duration", args.min_duration.is_some(), "both say how long a window is; leave one out"),
        ("--profile", args.profile.is_some_and(|profile| profile != Profile::SeedV1), profile),
        ("--profile seed-v1", args.profile == Some(Profile::SeedV1), "that protocol has a fixed number of requests"),
        ("--trace", args.trace.is_some(), "a trace has an end of its own; --trace-loop goes on from there"),
        ("--stages", args.stages.is_some(), "stages have an end of their own; add to them, or leave --duration out"),
        ("--arrivals ramp", ends, "a ramp has an end of its own; leave --duration out"),
        ("--request-rate inf", once, at_once),
    ] {
        if given {
            return Err(BadPlan::Together { flag: "--duration", other, why });
        }
    }
    Ok(Some(duration))
}

/// How long a window goes on for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// Past its number of requests until it has lasted so long.
    AtLeast(Nanos),
    /// As long as that, whatever their number.
    TimeAlone(Nanos),
}

impl Until {
    /// Of `--duration`, else of `--min-duration`.
    pub(super) fn of(duration: Option<Nanos>, min_duration: Nanos) -> Until {
        duration.map_or(Until::AtLeast(min_duration), Until::TimeAlone)
    }

    /// From the opening.
    pub(super) fn time(self) -> Nanos {
        match self {
            Until::AtLeast(time) | Until::TimeAlone(time) => time,
        }
    }
}

/// Whether each schedule leaves something to keep.
pub(super) fn check(cells: &[Cell], drop: u64) -> Result<(), BadPlan> {
    for cell in cells {
        let Cell::Open(open) = cell else { continue };
        if open.scheduled <= drop {
            return Err(BadPlan::NoneKept { flag: "--duration", scheduled: open.scheduled, drop });
        }
    }
    Ok(())
}

/// A schedule with more requests than can be told apart, in figures.
pub(super) fn too_many(duration: Nanos, laws: &[ArrivalLaw]) -> BadPlan {
    let fastest = laws.iter().filter_map(|law| law.mean_per_s(0, duration)).fold(0.0, f64::max);
    let most_s = if fastest > 0.0 { MAX_TRACE_ID as f64 / fastest } else { 0.0 };
    BadPlan::Arrivals {
        flag: "--duration",
        bad: format!(
            "at {fastest:.0} requests/s it makes about {:.0} requests a window, and {MAX_TRACE_ID} can be told apart: ask for \
             {:.0} s at most, a lower rate, or several windows",
            fastest * duration.secs_f64(),
            (most_s * 0.99).floor(),
        ),
    }
}

/// `--raw-file-size`, in bytes.
pub(super) fn raw_file_bytes(args: &RunArgs) -> Result<u64, BadPlan> {
    let Some(text) = &args.raw_file_size else { return Ok(rows::PART_BYTES) };
    let form = "a size from 1MiB to 1TiB, like 256MiB or 1GiB";
    size(text)
        .filter(|bytes| (1 << 20..=1 << 40).contains(bytes))
        .ok_or_else(|| range("--raw-file-size", form, format!("{text:?}")))
}

fn size(text: &str) -> Option<u64> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];
    let (digits, shift) = units.iter().find_map(|(name, shift)| Some((text.trim().strip_suffix(name)?, *shift)))?;
    digits.trim().parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::super::Plan;
    use super::*;
    use crate::cli::List;

    fn plan(change: impl Fn(&mut RunArgs)) -> Result<Plan, BadPlan> {
        let mut args = RunArgs { duration: Some("20m".to_owned()), ..RunArgs::default() };
        change(&mut args);
        Plan::from_args(&args, |_| None)
    }

    #[test]
    fn time_decides_the_number() {
        let closed = plan(|_| {}).expect("ok");
        assert_eq!((closed.duration_s, closed.windows, closed.min_duration_s), (Some(1200.0), 1, 0.0));
        assert_eq!(closed.requests_of_window(&closed.cells[0]), 0, "nobody knows");
        let open = plan(|a| a.request_rate = Some(List(vec![10.0, 20.0]))).expect("ok");
        let of = |cell: &Cell| open.requests_of_window(cell);
        assert!((11_500..12_500).contains(&of(&open.cells[0])) && (23_300..24_700).contains(&of(&open.cells[1])));
        let longer = plan(|a| a.duration = Some("21m".to_owned())).expect("ok");
        assert_ne!(closed.hash("m"), longer.hash("m"));
        assert_eq!(closed.rules()["duration_s"], 1200.0);
        let without = plan(|a| a.duration = None).expect("ok");
        assert!(without.rules().get("duration_s").is_none(), "plans without it keep their hash");
    }

    #[test]
    fn what_does_not_go_with_it_is_said() {
        let words = |change: fn(&mut RunArgs)| plan(change).expect_err("refused").to_string();
        assert!(
            words(|a| a.num_prompts = Some(5)).starts_with("--duration and --num-prompts do not go together: time")
        );
        assert!(words(|a| a.min_duration = Some(5.0)).contains("--min-duration"));
        assert!(words(|a| a.profile = Some(Profile::Tail)).contains("--profile"));
        assert!(words(|a| a.request_rate = Some(List(vec![f64::INFINITY]))).contains("inf"));
        assert!(words(|a| a.stages = Some("6s@5".parse().expect("a list"))).contains("--stages"));
        assert!(words(|a| a.arrivals = Some("ramp:0..40/20s".to_owned())).contains("--arrivals ramp"));
        assert!(words(|a| a.trace = Some("t.jsonl".into())).contains("--trace"));
        assert!(
            words(|a| a.duration = Some("20 minutes".to_owned())).starts_with("--duration must be a time like 90s")
        );
        assert!(words(|a| a.duration = Some("0.5s".to_owned())).starts_with("--duration must be"));
        let few = words(|a| (a.request_rate, a.duration) = (Some(List(vec![0.5])), Some("10s".to_owned())));
        assert!(few.starts_with("--duration: the whole schedule has"), "{few}");
        let many = words(|a| (a.request_rate, a.duration) = (Some(List(vec![5_000.0])), Some("4h".to_owned())));
        assert!(many.contains("5000 requests/s") && many.contains("72000000 requests a window"), "{many}");
        assert!(words(|a| a.raw_file_size = Some("100".to_owned())).starts_with("--raw-file-size must be a size"));
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(plan(|_| {}).expect("ok").output.raw_file_bytes, 256 << 20);
        assert_eq!(plan(|a| a.raw_file_size = Some("2GiB".to_owned())).expect("ok").output.raw_file_bytes, 2 << 30);
        assert_eq!((size("1 MiB"), size("1MB"), size("x"), size("99999999999TiB")), (Some(1 << 20), None, None, None));
    }
}
