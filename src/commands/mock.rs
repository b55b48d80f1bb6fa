//! `tarebench mock`.

use crate::commands::console::complain;
use anyhow::Context;
use bench_engine::units::Nanos;
use calibration::mock::{Mock, MockConfig, UsageMode};
use std::io::Write;
use tarebench::campaign::mock_child;
use tarebench::cli::{MockArgs, MockUsage};
use tarebench::target::secret::NoKey;

/// Serves until it is told to stop; the exit status.
pub fn mock(args: MockArgs) -> anyhow::Result<u8> {
    let millis = |flag: &str, ms: f64| {
        Nanos::from_secs_f64(ms / 1e3).with_context(|| format!("{flag} must be a time of 0 or more, not {ms}"))
    };
    let config = MockConfig {
        listen: args.listen,
        model: args.model,
        ttft: millis("--ttft", args.ttft)?,
        itl: millis("--itl", args.itl)?,
        ttft_law: args.ttft_dist,
        itl_law: args.itl_dist,
        jitter: args.jitter,
        seed: args.seed,
        drift: args.drift,
        lockstep: args.lockstep.map(|ms| millis("--lockstep", ms)).transpose()?,
        classes: args.class,
        prefill_per_token: millis("--prefill-us-per-token", args.prefill_us_per_token / 1e3)?,
        prefix_cache_blocks: args.prefix_cache,
        cold_start: args.cold_start,
        max_num_seqs: args.max_num_seqs,
        tokens: args.tokens,
        tokens_per_event: args.tokens_per_event,
        role_event: !args.no_role_event,
        reasoning: args.reasoning,
        event_bytes: args.event_bytes,
        merge_writes: args.merge_writes,
        split_writes: args.split_writes,
        spin: millis("--spin", args.spin / 1e3)?,
        core: args.core,
        truth: args.truth,
        truth_listen: args.truth_listen,
        stamp_every: args.stamp_every,
        script: args.script,
        script_bytes: args.script_bytes,
        time_scale: args.time_scale,
        until_stdin_closes: args.until_stdin_closes,
        tokens_per_word: args.tokens_per_word,
        template_tokens: args.template_tokens,
        close_after_reply: args.close_after_reply,
        usage: match args.usage {
            MockUsage::Asked => UsageMode::Asked,
            MockUsage::None => UsageMode::None,
            MockUsage::Final => UsageMode::Final,
            MockUsage::Every => UsageMode::Every,
        },
        api_key: match args.api_key_env {
            None => None,
            Some(name) => Some(std::env::var(&name).map_err(|_| NoKey::Unset)?),
        },
    };
    let mock = Mock::bind(config)?;
    mock.notes().iter().for_each(|note| complain(format!("mock: {note}")));
    let mut said = format!("{}{}\n", mock_child::LISTENING, mock.local_addr());
    if let Some(addr) = mock.truth_addr() {
        said += &format!("mock: truth at http://{addr}/truth\n");
    }
    // in one write: whoever started this may read no further than the first line
    std::io::stdout().write_all(said.as_bytes())?;
    std::io::stdout().flush()?;
    let summary = mock.run()?;
    if !args.until_stdin_closes {
        complain(format!("mock: {}", serde_json::to_string(&summary)?));
        if let Some(reason) = &summary.unfit_reason {
            complain(format!("mock: not fit: {reason}"));
        }
    }
    Ok(0)
}
