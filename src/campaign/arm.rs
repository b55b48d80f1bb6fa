//! An arm made ready: one server found, the engine that will load it, and the directory its facts go to. A campaign has
//! one arm; two that take turns have one engine each, all of them on the same cores.

use super::announcement::RunFacts;
use super::canary::Canary;
use super::length_probe::Lengths;
use super::server::{Server, body_template, request_template};
use super::{Cores, SPARE_BLOCKS, timestamp};
use crate::disclosure::ledger;
use crate::interleave;
use crate::plan::Plan;
use crate::rundir::row::StampSource;
use crate::rundir::trace;
use crate::target::openai::BodyTemplate;
use anyhow::Context;
use bench_engine::clock::{Clock, SystemClock};
use bench_engine::engine::{Engine, EngineOptions, WorkerInfo, spread};
use bench_engine::io::capabilities::Capabilities;
use bench_engine::io::uring::RingError;
use bench_engine::units::Instant;
use bench_engine::wire::request::RequestTemplate;
use bench_engine::worker::{Shared, WorkerOptions};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

/// Everything of one arm that is there before its first window. The engine goes first when it is dropped, the mocks last.
pub(super) struct Arm<'a> {
    pub(super) engine: Engine,
    pub(super) plan: &'a Plan,
    /// Which of two; None: there is only this one.
    pub(super) side: Option<interleave::Arm>,
    pub(super) dir: &'a Path,
    pub(super) run_id: String,
    pub(super) started_at: String,
    pub(super) origin: Instant,
    pub(super) workers: Vec<WorkerInfo>,
    pub(super) shared: Arc<Shared>,
    pub(super) blocks: usize,
    pub(super) request: RequestTemplate,
    pub(super) body: BodyTemplate,
    pub(super) stamps: StampSource,
    pub(super) canary: Option<Canary>,
    pub(super) server: Server,
    /// How prompts are made to their lengths.
    pub(super) lengths: Lengths,
}

/// What is the same for every arm.
pub(super) struct Harness<'a> {
    pub(super) cores: &'a Cores,
    pub(super) found: Capabilities,
    /// Why the default driver is not used.
    pub(super) refused: Option<&'a RingError>,
    pub(super) started_at: String,
}

impl<'a> Arm<'a> {
    /// Starts the canary's mock and the engine. Workers pin themselves: this must be done before the calling thread,
    /// whose mask they inherit, is confined to a core.
    ///
    /// # Errors
    /// What could not be started.
    pub(super) fn ready(
        plan: &'a Plan,
        side: Option<interleave::Arm>,
        dir: &'a Path,
        server: Server,
        harness: &Harness<'_>,
    ) -> anyhow::Result<Arm<'a>> {
        let cores = harness.cores;
        let workers = cores.workers.len();
        let canary = match plan.canary {
            true => Some(Canary::start(cores.control, dir, workers, plan.target.key.variable())?),
            false => None,
        };
        let origin = SystemClock.now();
        let most = plan.most_connections();
        let connections = connections(plan, cores);
        let blocks = connections as usize + SPARE_BLOCKS;
        let shared = Arc::new(Shared::new(connections as usize, blocks, plan.supply_depth()));
        let options = EngineOptions {
            worker: WorkerOptions {
                index: 0,
                slots: 0,
                addresses: server.target.used.clone().into(),
                tls: server.target.tls.clone(),
                limits: plan.limits,
                streamed: plan.stream,
                reuse: plan.connection.into(),
                canary: canary.as_ref().map(|canary| canary.address),
                spin: plan.spin,
            },
            slots: spread(most, workers as u32),
            cores: cores.workers.clone(),
        };
        let engine = Engine::start(&options, &harness.found, &shared)?;
        Ok(Arm {
            plan,
            side,
            dir,
            run_id: format!("{}-{:08x}", harness.started_at, origin.ns() as u32),
            started_at: harness.started_at.clone(),
            origin,
            workers: engine.workers().collect(),
            engine,
            shared,
            blocks,
            request: request_template(plan, &server)?,
            body: body_template(plan, &server.model),
            stamps: if harness.found.stamps { StampSource::Kernel } else { StampSource::User },
            canary,
            server,
            lengths: Lengths::default(),
        })
    }

    /// Facts for the plan and for people.
    pub(super) fn facts<'b>(&'b self, harness: &'b Harness<'b>) -> RunFacts<'b> {
        RunFacts {
            plan: self.plan,
            server: &self.server,
            canary: self.canary.as_ref(),
            lengths: &self.lengths,
            found: &harness.found,
            refused: harness.refused,
            workers: &self.workers,
            cores: harness.cores,
            origin: self.origin,
            blocks: self.blocks,
        }
    }

    /// Writes `plan.json`.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn write_plan(&self, document: &str) -> anyhow::Result<()> {
        let path = self.dir.join("plan.json");
        fs::write(&path, document).with_context(|| path.display().to_string())
    }

    /// Writes `trace.jsonl`, where a trace is replayed.
    ///
    /// # Errors
    /// It cannot be written, or the trace cannot be read again.
    pub(super) fn write_trace(&self) -> anyhow::Result<()> {
        let Some(captured) = self.plan.workload.lengths.captured() else { return Ok(()) };
        let path = self.dir.join(trace::FILE);
        let written = || -> anyhow::Result<()> {
            let mut out = BufWriter::with_capacity(1 << 18, File::create(&path)?);
            for line in captured.lines() {
                serde_json::to_writer(&mut out, &line?)?;
                out.write_all(b"\n")?;
            }
            Ok(out.flush()?)
        };
        written().with_context(|| path.display().to_string())
    }

    /// Its entry in the campaign ledger, which `place` leads to.
    ///
    /// # Errors
    /// The run directory cannot be written.
    pub(super) fn enter(
        &self,
        place: ledger::Place,
        interleave: Value,
    ) -> anyhow::Result<(ledger::Entry, Vec<String>)> {
        let rules = self.plan.rules();
        let start = ledger::Start {
            run_id: self.run_id.clone(),
            at: now(),
            dir: place.name.clone(),
            tarebench: crate::cli::VERSION.to_owned(),
            plan_hash: self.plan.hash(&self.server.model),
            rules_hash: Plan::rules_hash(&rules),
            rules,
            interleave,
            base_url: self.plan.base_url.clone(),
            model: self.server.model.clone(),
            trace_hash: self.plan.trace_hash.clone(),
        };
        ledger::Entry::begin(place, start, self.server.secret.as_deref().map(str::to_owned), now)
    }

    /// Ends the engine, then the mocks, which write the rest of their logs.
    pub(super) fn stop(self) {
        drop(self.engine);
        if let Some(canary) = self.canary {
            canary.stop();
        }
        if let Some(mock) = self.server.mock {
            mock.stop();
        }
    }
}

/// Connections of an arm, the canary's included.
pub(super) fn connections(plan: &Plan, cores: &Cores) -> u32 {
    plan.most_connections() + if plan.canary { cores.workers.len() as u32 } else { 0 }
}

/// What `plan.json` says of two arms that take turns: which this one is, and the order.
pub(super) fn interleave_of(side: interleave::Arm, with: &str, sequence: &interleave::Sequence) -> Value {
    json!({
        "arm": side,
        "with": with,
        "order": sequence.order,
        "sequence": sequence.letters(),
        "start_seed": sequence.start_seed,
    })
}

fn now() -> String {
    timestamp(SystemClock.wall().ns())
}
