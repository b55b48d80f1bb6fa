//! What is said and written before the first request: the plan, the environment, what it will take.

use super::server::Server;
use super::{Cores, Voice, environment};
use crate::plan::Plan;
use crate::reading::printable;
use bench_engine::engine::WorkerInfo;
use bench_engine::io::capabilities::Capabilities;
use bench_engine::io::uring::RingError;
use bench_engine::record::BLOCK_BYTES;
use bench_engine::units::Instant;
use serde_json::{Value, json};
use std::path::Path;

/// Facts found out before the first request.
pub(super) struct RunFacts<'a> {
    pub(super) plan: &'a Plan,
    pub(super) server: &'a Server,
    pub(super) found: &'a Capabilities,
    /// Why the default arm is not used.
    pub(super) refused: Option<&'a RingError>,
    pub(super) workers: &'a [WorkerInfo],
    pub(super) cores: &'a Cores,
    pub(super) origin: Instant,
    pub(super) blocks: usize,
}

impl RunFacts<'_> {
    pub(super) fn environment(&self) -> Value {
        let target = &self.server.target;
        let mut environment = environment::facts();
        let more = json!({
            "origin_monotonic_ns": self.origin.ns(),
            "loopback": target.is_loopback(),
            "built_in_mock": self.server.mock.is_some(),
            "base_url": target.base_url,
            "address": target.address.to_string(),
            "resolved": target.resolved.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "server": self.server.identity,
            "arm": {
                "asked": self.plan.arm_by_name.then_some(self.plan.arm),
                "used": self.found.driver.to_string(),
                "refused": self.refused.map(ToString::to_string),
            },
            "stamps": if self.found.stamps { "kernel" } else { "user" },
            "workers": self.workers.iter().map(|w| json!({"worker": w.index, "core": w.core})).collect::<Vec<_>>(),
            "control_core": self.cores.control,
            "receive_pool_bytes": self.workers.iter().map(|w| w.receive_pool_bytes).sum::<usize>(),
            "record_pool_bytes": self.blocks * BLOCK_BYTES,
        });
        if let (Value::Object(fields), Value::Object(more)) = (&mut environment, more) {
            fields.extend(more);
        }
        environment
    }
}

pub(super) fn plan_document(
    plan: &Plan,
    run_id: &str,
    started_at: &str,
    model: &str,
    environment: Value,
) -> anyhow::Result<String> {
    let mut document = json!({
        "schema": "tarebench.plan/1",
        "tarebench": crate::cli::VERSION,
        "run_id": run_id,
        "plan_hash": plan.hash(model),
        "started_at": started_at,
        "model": model,
    });
    if let (Value::Object(fields), Value::Object(plan)) = (&mut document, serde_json::to_value(plan)?) {
        fields.extend(plan);
        fields.insert("environment".to_owned(), environment);
    }
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

/// Everything that decides the run, in a few lines.
pub(super) fn announce(plan: &Plan, facts: &RunFacts<'_>, dir: &Path, voice: &Voice) {
    let server = facts.server;
    let what = if server.mock.is_some() { "built-in mock, TTFT 5 ms, 1 ms a token, at " } else { "" };
    let version = server.identity.version.as_ref().map(|v| format!(", version {v}")).unwrap_or_default();
    voice.say(format!(
        "server   {what}{} ({}), model {}{version}",
        server.target.base_url,
        server.target.address,
        printable(&server.model, None)
    ));
    let loads: Vec<String> = plan.cells.iter().map(|c| c.concurrency.to_string()).collect();
    voice.say(format!(
        "load     closed loop at {}; {} windows each of {} requests (first {} dropped){}",
        loads.join(", "),
        plan.windows,
        plan.drop + plan.num_prompts,
        plan.drop,
        if plan.min_duration_s > 0.0 { format!(", at least {} s long", plan.min_duration_s) } else { String::new() }
    ));
    let cap = plan.workload.max_tokens.map(|n| format!(", outputs {n}")).unwrap_or_default();
    let (mean_in, mean_out) = mean_lengths(plan);
    voice.say(format!(
        "work     {} x {}{cap}, mean {mean_in:.0} in and {mean_out:.0} out; seed {}; temperature {}, top_p {}; a nonce first in every prompt",
        workload_name(plan),
        plan.workload.length_scale,
        plan.workload.seed,
        plan.temperature,
        plan.top_p,
    ));
    let stamps = if facts.found.stamps { "kernel stamps" } else { "user stamps only: no net, no tare" };
    let on: Vec<String> = facts.workers.iter().map(|w| w.core.to_string()).collect();
    let control = match facts.cores.control {
        Some(core) => format!("control and records on core {core}"),
        None => "WARNING: no core is left for control and records, they share the workers'".to_owned(),
    };
    voice.say(format!(
        "harness  {}, {} worker(s) on core {}, {control}; {stamps}; pools {} KiB receive, {} KiB record",
        facts.found.driver,
        facts.workers.len(),
        on.join(", "),
        facts.workers.iter().map(|w| w.receive_pool_bytes).sum::<usize>() / 1024,
        facts.blocks * BLOCK_BYTES / 1024,
    ));
    voice.say(format!("records  {}", dir.display()));
}

fn workload_name(plan: &Plan) -> &'static str {
    match plan.workload.lengths {
        crate::workload::Lengths::SeedMix { .. } => "seed-mix",
        crate::workload::Lengths::Random { .. } => "random",
    }
}

fn mean_lengths(plan: &Plan) -> (f64, f64) {
    let n = (plan.drop + plan.num_prompts) as usize;
    let (p, o) = plan
        .workload
        .trace(plan.drop, plan.num_prompts)
        .take(n)
        .fold((0, 0), |(p, o), s| (p + s.prompt_tokens, o + s.output_tokens));
    (p as f64 / n as f64, o as f64 / n as f64)
}

pub(super) fn dry_run(plan: &Plan, voice: &Voice) {
    let (mean_in, mean_out) = mean_lengths(plan);
    let requests = plan.requests();
    println!("{}", serde_json::to_string_pretty(plan).unwrap_or_default());
    voice.say(format!(
        "{requests} requests, about {:.0} prompt and {:.0} output tokens; at 50 tokens/s a stream about {:.0} s; nothing was sent",
        mean_in * requests as f64,
        mean_out * requests as f64,
        plan.cells.iter().map(|c| {
            let per_cell = f64::from(plan.windows) * (plan.num_prompts + plan.drop) as f64;
            per_cell * mean_out / 50.0 / f64::from(c.concurrency)
        }).sum::<f64>(),
    ));
}
