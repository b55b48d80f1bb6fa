//! One step of the ladder: a real campaign of one window against the mock, held against the mock's log.

use super::ladder;
use crate::analysis::definitions::rules::GateState;
use crate::calibrations::document::{Family, Step, StepClient, StepLoad};
use crate::campaign::{self, Voice};
use crate::cli::{Arm, Connection, List, RunArgs, Stamps};
use crate::evidence::{Evidence, NET_BOUND_NS};
use crate::plan::{Calibrations, Plan};
use crate::rundir::run_json::{Window, WorkerLoad};
use anyhow::{Context, bail};
use calibration::closure::Closure;
use calibration::truth::{Summary, fetch_truth};
use serde_json::json;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use thiserror::Error;

/// How far gross may be from the truth at p99 where there is no net to hold against it, ns: without kernel stamps good
/// means this much. It is the scale at which a late read is told of.
pub const GROSS_BOUND_NS: u64 = 1_000_000;
/// Matched requests that a step needs at least: an error is judged at p99.
const MATCHED_AT_LEAST: u64 = 100;
/// So many requests without a trace in the log are no accident.
const MANY: u64 = 10;
/// Later than this at p99 the mock was not on time, us.
const MOCK_LATE_US: f64 = 1000.0;
/// Longest wait for a piece of a log that was there before.
const LOG_PATIENCE: Duration = Duration::from_secs(20);
/// A log is read to its end in so many pieces at most; the mock sends 16 MiB each.
const LOG_PIECES: usize = 64;

/// The log that is read is not of the mock that is measured.
#[derive(Debug, Error)]
#[error(
    "the truth URL is not that of this mock: none of {requests} requests to {base_url} stands in the log at {truth_url}; \
     give --truth-url as `tarebench mock --truth-listen` prints it on that host"
)]
pub struct WrongTruth {
    /// Requests of the step.
    pub requests: u64,
    /// Where they went.
    pub base_url: String,
    /// Whose log was read.
    pub truth_url: String,
}

/// Below this share of the asked events/s with a client at ease, the mock was full.
const MOCK_KEEPS_UP: f64 = 0.9;

/// Events/s up to which the mock takes a transmit stamp of every token event. A stamp costs it as much as a write.
const STAMP_ALL_UP_TO: f64 = 5_000.0;
/// Beyond that, of the first event of each reply and each n-th after it.
const STAMP_EVERY: u32 = 16;

/// How steps are run: the harness as the user asked for it.
#[derive(Clone, Debug)]
pub struct Runner {
    /// Directory of the calibration.
    pub dir: PathBuf,
    /// Architecture of the client; None: io_uring, else epoll, aloud.
    pub arm: Option<Arm>,
    /// Stamps.
    pub stamps: Option<Stamps>,
    /// Worker threads.
    pub workers: Option<u32>,
    /// Their cores.
    pub cores: Option<Vec<usize>>,
    /// They never sleep.
    pub spin: bool,
    /// The mock on another host: its URL and that of its truth log.
    pub remote: Option<(String, String)>,
    /// CA of that mock's TLS, where it is behind some.
    pub ca_file: Option<PathBuf>,
    /// How far that log has been read, in bytes.
    pub truth_read: Cell<u64>,
    /// Length of a window, s.
    pub seconds: f64,
    /// Interrupted by the user.
    pub stop: Arc<AtomicBool>,
}

impl Runner {
    /// Finds out before the first step what would keep every step from being run, and passes over what a mock elsewhere
    /// has logged before.
    ///
    /// # Errors
    /// Flags that are no plan, or a log that cannot be had.
    pub fn prepare(&self) -> anyhow::Result<()> {
        let load = ladder::load(Family::Streams, 1, self.seconds);
        Plan::from_args(&self.args(&load, &self.dir), |_| None).context("a step of the calibration is no plan")?;
        let Some((_, url)) = &self.remote else { return Ok(()) };
        for _ in 0..LOG_PIECES {
            let (rows, next) = fetch_truth(url, self.truth_read.get(), LOG_PATIENCE)?;
            self.truth_read.set(next);
            if rows.is_empty() {
                return Ok(());
            }
        }
        bail!("the log at {url} has no end: is another client measuring with that mock?")
    }

    /// Runs one step.
    ///
    /// # Errors
    /// The campaign could not be carried out, or its files not be read; [`WrongTruth`].
    pub fn run(&self, number: usize, load: StepLoad) -> anyhow::Result<(Step, Evidence)> {
        let name = format!("steps/{number:02}-{:?}-{}", load.family, load.value).to_lowercase();
        let dir = self.dir.join(&name);
        let args = self.args(&load, &dir);
        let mut plan = Plan::from_args(&args, |_| None).context("a step of the calibration is no plan")?;
        if load.events_per_s > STAMP_ALL_UP_TO {
            plan.target.mock_flags = vec!["--stamp-every".to_owned(), STAMP_EVERY.to_string()];
        }
        plan.target.remote_truth = self.remote.as_ref().map(|(_, url)| (url.clone(), self.truth_read.get()));
        plan.output.calibrations = Calibrations::Unused("this run is a step of a calibration".to_owned());
        // each campaign confines its own thread to the control core: this one must stay free for the next
        let stop = Arc::clone(&self.stop);
        let ended =
            std::thread::scope(|scope| scope.spawn(|| campaign::run(&plan, &stop, &Voice { quiet: true })).join());
        let ended = ended.map_err(|_| anyhow::anyhow!("the step {name} ended in a panic"))??;
        let ended = ended.context("a step was a dry run")?;
        let run = ended.run;
        let Some(window) = run.cells.first().and_then(|c| c.windows.first()) else {
            bail!("the step {name} has no window");
        };
        self.truth_read.set(ended.truth_read);
        let evidence = ended.evidence.with_context(|| format!("the step {name} has no truth log"))?;
        if let Some((base_url, truth_url)) = self.remote.clone() {
            let closure = &evidence.closure;
            if closure.requests >= MANY && closure.observed_without_truth == closure.requests {
                bail!(WrongTruth { requests: closure.requests, base_url, truth_url });
            }
        }
        Ok((step(load, name, window, &evidence), evidence))
    }

    fn args(&self, load: &StepLoad, dir: &Path) -> RunArgs {
        let jitter = if load.lockstep_ms.is_some() { 0.0 } else { 0.2 };
        let mut mock = json!({ "ttft": load.ttft_ms, "itl": load.itl_ms, "jitter": jitter });
        if let Some(ms) = load.lockstep_ms {
            mock["lockstep"] = json!(ms);
        }
        let (kept, drop) = match load.rate {
            // the start of a closed loop, where all begin at once, is no steady state
            None => (u64::from(load.concurrency.max(ladder::REPLIES)), u64::from(load.concurrency)),
            Some(rate) => (((rate * self.seconds).ceil() as u64).max(ladder::REPLIES.into()), 0),
        };
        RunArgs {
            base_url: self.remote.as_ref().map(|(url, _)| url.clone()),
            ca_file: self.ca_file.clone(),
            // a step weighs the client alone
            metrics_url: Some("none".to_owned()),
            extra_body: Some(json!({ "mock": mock }).to_string()),
            connection: (load.family == Family::Cold).then_some(Connection::PerRequest),
            max_concurrency: Some(List(vec![load.concurrency])),
            request_rate: load.rate.map(|rate| List(vec![rate])),
            workload: Some("random".to_owned()),
            length_scale: Some(1.0),
            random_input_len: Some(16),
            random_output_len: Some(u64::from(load.tokens)),
            num_prompts: Some(kept),
            drop: Some(drop),
            windows: Some(1),
            min_duration: load.rate.is_none().then_some(self.seconds),
            timeout: Some(60.0),
            stall_timeout: Some(20.0),
            arm: self.arm,
            stamps: self.stamps,
            workers: self.workers,
            cores: self.cores.clone().map(List),
            spin: self.spin,
            out: Some(dir.to_owned()),
            name: Some("calibration".to_owned()),
            quiet: true,
            ..RunArgs::default()
        }
    }
}

/// The figures of a step, and whether it is to be trusted.
fn step(load: StepLoad, dir: String, window: &Window, evidence: &Evidence) -> Step {
    let closure = evidence.closure.clone();
    // as a run's own rate is taken, so that the two can be compared
    let events_per_s = window.client.load.events_per_s.unwrap_or(0.0);
    let mut reasons: Vec<String> = Vec::new();
    let void = window.client.gates.iter().filter(|g| g.state == GateState::Void);
    reasons.extend(void.map(|gate| gate.text.clone()));
    let requests = &window.requests;
    if requests.ok * 100 < requests.kept * 99 {
        reasons.push(format!("{} of {} requests were not answered whole", requests.kept - requests.ok, requests.kept));
    }
    reasons.extend(error_reasons(&closure));
    let client_at_fault = !reasons.is_empty();
    let mock = mock_reason(&load, events_per_s, evidence.mock.as_ref(), closure.mock_lateness_us.p99);
    let mock_limited = mock.is_some() && !client_at_fault;
    reasons.extend(mock);
    reasons.extend(too_few(&closure));
    Step {
        dir,
        duration_s: window.duration_s,
        requests: requests.kept,
        ok: requests.ok,
        offered_rps: window.offered_rps,
        achieved_rps: window.achieved_rps.or(window.throughput.whole.requests_per_s),
        achieved_events_per_s: events_per_s,
        gross_err_us: closure.ttft.gross_err_us.clone(),
        net_err_us: closure.ttft.net_err_us.clone(),
        tare_us: closure.tare_us.total.clone(),
        client: client(window, evidence),
        mock: evidence.mock.clone(),
        valid: reasons.is_empty(),
        reasons,
        mock_limited,
        load,
        closure,
    }
}

/// What the truth has against the client's figures. Where a read swallowed several events net is an interval, which
/// must hold the truth; where net is one figure, that figure must be near it. Where there is no net at all, gross must.
fn error_reasons(closure: &Closure) -> Vec<String> {
    let mut reasons = Vec::new();
    let bound_us = GROSS_BOUND_NS as f64 / 1e3;
    if let Some(p99) = closure.ttft.gross_err_us.p99.filter(|p99| closure.ttft.net_err_us.n == 0 && *p99 > bound_us) {
        reasons.push(format!(
            "gross is {:.1} ms from the truth at p99 (limit {:.0}; there is no net without kernel stamps)",
            p99 / 1e3,
            bound_us / 1e3
        ));
    }
    if let Some(p99) = closure.narrow.ttft_err_us.p99.filter(|p99| *p99 > NET_BOUND_NS as f64 / 1e3) {
        reasons.push(format!("net is {p99:.0} us from the truth at p99 (limit {})", NET_BOUND_NS / 1000));
    }
    let outside = &closure.outside;
    if outside.ttft * 100 > outside.ttft_n {
        reasons.push(format!(
            "{} of {} truths lie outside net's interval by more than {:.0} us",
            outside.ttft, outside.ttft_n, outside.uncertainty_us
        ));
    }
    let lost = closure.mismatched + closure.observed_without_truth + closure.ambiguous;
    if lost > 0 {
        reasons.push(format!("{lost} of {} requests could not be matched with the mock's log", closure.requests));
    }
    reasons
}

/// That a step does not show how far from the truth it is: too few requests with a net, or without kernel stamps with
/// a gross, were matched.
pub fn too_few(closure: &Closure) -> Option<String> {
    let ttft = &closure.ttft;
    let n = if ttft.net_err_us.n > 0 { ttft.net_err_us.n } else { ttft.gross_err_us.n };
    (n < MATCHED_AT_LEAST).then(|| format!("too few requests ({n}) to tell"))
}

/// Why the mock is not to be trusted with this step: by its own account, or where there is none by its log.
fn mock_reason(load: &StepLoad, events_per_s: f64, mock: Option<&Summary>, late_p99_us: Option<f64>) -> Option<String> {
    let mut words = Vec::new();
    // the last of a burst cannot be written when the first is: that is no lateness of the mock
    if load.family != Family::Burst {
        let late_us = mock.and_then(|mock| mock.lateness_p99_us).or(late_p99_us).filter(|us| *us > MOCK_LATE_US);
        let unfit = mock.filter(|mock| !mock.fit);
        match (late_us, unfit) {
            (Some(us), _) => words.push(format!("the mock was late itself (p99 {:.1} ms)", us / 1e3)),
            (None, Some(mock)) => {
                // what it was, without what could be done about it
                let why = mock.unfit_reason.as_deref().and_then(|why| why.split(": ").next());
                let why = why.unwrap_or("it does not say why");
                words.push(format!("the mock was not fit ({why})"));
            }
            (None, None) => {}
        }
    }
    if load.rate.is_none() && load.family != Family::Cold && events_per_s < MOCK_KEEPS_UP * load.events_per_s {
        words.push(format!("the mock was full ({events_per_s:.0} of {:.0} events/s came)", load.events_per_s));
    }
    (!words.is_empty()).then(|| words.join("; "))
}

fn client(window: &Window, evidence: &Evidence) -> StepClient {
    let most = |of: fn(&WorkerLoad) -> Option<f64>| window.client.workers.iter().filter_map(of).max_by(f64::total_cmp);
    StepClient {
        cpu_per_wall: most(|w| w.cpu_per_wall),
        busy: most(|w| w.busy),
        run_delay_share: most(|w| w.run_delay_share),
        process_cpu_per_wall: window.client.cpu_per_wall,
        mean_batch: evidence.mean_batch,
        max_batch: evidence.max_batch,
        burst_drain_us: most(|w| w.bursts.map(|b| b.drain_p999_ms * 1e3)),
        largest_burst: window.client.workers.iter().filter_map(|w| Some(w.bursts?.busiest)).max(),
        mean_wait_us: evidence.closure.tare_us.events.mean,
    }
}

/// A step that was good, or not for this reason of the client's.
#[cfg(test)]
pub(crate) fn of_test(load: StepLoad, reason: Option<&str>) -> Step {
    let mut closure = Closure { requests: 200, matched: 200, ..Closure::default() };
    for errors in [&mut closure.ttft.gross_err_us, &mut closure.ttft.net_err_us] {
        (errors.n, errors.p99) = (200, Some(10.0));
    }
    Step {
        dir: format!("steps/{}", load.value),
        duration_s: 1.0,
        requests: 200,
        ok: 200,
        offered_rps: load.rate,
        achieved_rps: load.rate,
        achieved_events_per_s: load.events_per_s,
        gross_err_us: closure.ttft.gross_err_us.clone(),
        net_err_us: closure.ttft.net_err_us.clone(),
        tare_us: closure.tare_us.total.clone(),
        client: StepClient::default(),
        mock: None,
        valid: reason.is_none(),
        reasons: reason.map(str::to_owned).into_iter().collect(),
        mock_limited: false,
        load,
        closure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use calibration::spread::Errors;

    fn errors(n: u64, p99: Option<f64>) -> Errors {
        Errors { n, p99, ..Errors::default() }
    }

    #[test]
    fn an_error_that_was_not_checked_is_no_good_step() {
        let mut closure = Closure::default();
        assert_eq!(too_few(&closure).as_deref(), Some("too few requests (0) to tell"));
        closure.ttft.gross_err_us = errors(100, Some(5.0));
        assert_eq!(too_few(&closure), None, "without kernel stamps gross is what is held");
        closure.ttft.net_err_us = errors(99, None);
        assert_eq!(too_few(&closure).as_deref(), Some("too few requests (99) to tell"));
        closure.ttft.net_err_us = errors(100, Some(5.0));
        assert_eq!(too_few(&closure), None);
        // what shows nothing blames neither the client nor the mock
        let load = ladder::load(Family::Streams, 1, 1.0);
        let mut step = of_test(load, Some("too few requests (7) to tell"));
        step.closure.ttft.net_err_us.n = 7;
        assert!(matches!(ladder::outcome(&step), calibration::verdict::StepResult::Error(_)));
        step.reasons.insert(0, "busy 0.9".to_owned());
        assert!(matches!(ladder::outcome(&step), calibration::verdict::StepResult::Gate(_)));
    }

    #[test]
    fn without_net_gross_is_held_to_a_bound() {
        let mut closure = Closure::default();
        closure.ttft.gross_err_us = errors(200, Some(1_001.0));
        assert!(error_reasons(&closure)[0].starts_with("gross is 1.0 ms from the truth at p99 (limit 1;"));
        closure.ttft.gross_err_us = errors(200, Some(999.0));
        assert!(error_reasons(&closure).is_empty());
        // with net it is net that is held; gross has gates of its own
        closure.ttft.gross_err_us = errors(200, Some(5_000.0));
        closure.ttft.net_err_us = errors(200, Some(10.0));
        assert!(error_reasons(&closure).is_empty());
    }

    #[test]
    fn a_late_mock_and_a_full_one_are_told_apart() {
        let load = |family| ladder::load(family, 100, 1.0);
        let streams = load(Family::Streams);
        let asked = streams.events_per_s;
        let late = Some("the mock was late itself (p99 3.9 ms)".to_owned());
        // on another host there is its log only
        assert_eq!(mock_reason(&streams, asked, None, Some(3_900.0)), late);
        assert_eq!(mock_reason(&streams, asked, None, Some(900.0)), None);
        let unfit = Summary {
            fit: false,
            unfit_reason: Some("busy 0.97".to_owned()),
            lateness_p99_us: Some(3_900.0),
            ..Summary::default()
        };
        assert_eq!(mock_reason(&streams, asked, Some(&unfit), Some(3_900.0)), late);
        let busy = Summary { lateness_p99_us: Some(30.0), ..unfit };
        let said = mock_reason(&streams, asked, Some(&busy), Some(30.0));
        assert_eq!(said.as_deref(), Some("the mock was not fit (busy 0.97)"));
        let full = mock_reason(&streams, asked / 2.0, None, Some(900.0)).expect("full");
        assert!(full.starts_with("the mock was full (") && full.ends_with("events/s came)"), "{full}");
        // the last of a burst is written after the first
        let burst = load(Family::Burst);
        assert_eq!(mock_reason(&burst, burst.events_per_s, Some(&busy), Some(3_900.0)), None);
    }
}
