//! One step of the ladder: a real campaign of one window against the mock, held against the mock's log.

use crate::analysis::definitions::rules::GateState;
use crate::calibrations::document::{Family, Step, StepClient, StepLoad};
use crate::campaign::{self, Voice};
use crate::cli::{Arm, Connection, List, RunArgs, Stamps};
use crate::evidence::{Evidence, NET_BOUND_NS};
use crate::plan::{Calibrations, Plan};
use crate::rundir::run_json::{Window, WorkerLoad};
use anyhow::{Context, bail};
use calibration::closure::Closure;
use serde_json::json;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

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
    /// The mock on another host: its URL and that of its truth log.
    pub remote: Option<(String, String)>,
    /// How far that log has been read, in bytes.
    pub truth_read: Cell<u64>,
    /// Length of a window, s.
    pub seconds: f64,
    /// Interrupted by the user.
    pub stop: Arc<AtomicBool>,
}

impl Runner {
    /// Runs one step.
    ///
    /// # Errors
    /// The campaign could not be carried out, or its files not be read.
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
            None => (u64::from(load.concurrency), u64::from(load.concurrency)),
            Some(rate) => ((rate * self.seconds).ceil() as u64, 0),
        };
        RunArgs {
            base_url: self.remote.as_ref().map(|(url, _)| url.clone()),
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
    // of the time at full concurrency: a window's last replies come alone. The mock sends one token an event
    let at_full = window.throughput.output_tokens_per_s.filter(|_| load.rate.is_none());
    let events_per_s = at_full.unwrap_or(evidence.token_events as f64 / window.duration_s.max(1e-9));
    let mut reasons: Vec<String> = Vec::new();
    let void = window.client.gates.iter().filter(|g| g.state == GateState::Void);
    reasons.extend(void.map(|gate| gate.text.clone()));
    let requests = &window.requests;
    if requests.ok * 100 < requests.kept * 99 {
        reasons.push(format!("{} of {} requests were not answered whole", requests.kept - requests.ok, requests.kept));
    }
    reasons.extend(error_reasons(&closure));
    let client_at_fault = !reasons.is_empty();
    let mock = mock_reason(&load, events_per_s, evidence);
    let mock_limited = mock.is_some() && !client_at_fault;
    reasons.extend(mock);
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
        valid: !client_at_fault && !mock_limited,
        reasons,
        mock_limited,
        load,
        closure,
    }
}

/// What the truth has against the client's figures. Where a read swallowed several events net is an interval, which
/// must hold the truth; where net is one figure, that figure must be near it.
fn error_reasons(closure: &Closure) -> Vec<String> {
    let mut reasons = Vec::new();
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

/// Why the mock is not to be trusted with this step.
fn mock_reason(load: &StepLoad, events_per_s: f64, evidence: &Evidence) -> Option<String> {
    let mut words = Vec::new();
    // the last of a burst cannot be written when the first is: that is no lateness of the mock
    let on_time = load.family == Family::Burst;
    if let Some(mock) = evidence.mock.as_ref().filter(|m| !m.fit && !on_time) {
        words.push(format!(
            "late p99 {:.1} ms, busy {:.2}",
            mock.lateness_p99_us.unwrap_or(0.0) / 1e3,
            mock.busy_share
        ));
    }
    if load.rate.is_none() && load.family != Family::Cold && events_per_s < MOCK_KEEPS_UP * load.events_per_s {
        words.push(format!("{events_per_s:.0} of {:.0} events/s came", load.events_per_s));
    }
    (!words.is_empty()).then(|| format!("the mock was full: {}", words.join(", ")))
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
