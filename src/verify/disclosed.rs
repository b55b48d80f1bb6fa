//! The facts for the boxes a second time, from all rows of a window at once.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::analysis::definitions::{self, millis, seconds, sessions};
use crate::analysis::percentiles::figures;
use crate::analysis::statistics::length_differences::LengthDifferences;
use crate::analysis::statistics::token_counts::{TokenCounts, variation};
use crate::rundir::row::{Outcome, Phase, Row, StampSource};

/// `lengths` of a window.
pub(super) fn lengths(kept: &[&Row]) -> Value {
    let names: BTreeSet<&str> = kept.iter().map(|r| r.class.as_str()).collect();
    let class = |name: &str| {
        let rows: Vec<&Row> = kept.iter().copied().filter(|r| r.class == name).collect();
        let counts = |of: &dyn Fn(&Row) -> Option<u64>| {
            json!(TokenCounts::of(&mut rows.iter().filter_map(|r| of(r)).collect::<Vec<u64>>()))
        };
        let answered = |r: &Row| r.completion_tokens.filter(|_| r.outcome == Outcome::Ok);
        let limited = rows.iter().filter(|r| r.asked_output_tokens > 0);
        let outputs: Vec<(u64, u64)> = limited.filter_map(|r| Some((answered(r)?, r.asked_output_tokens))).collect();
        let told: Vec<(u64, u64)> =
            rows.iter().filter_map(|r| Some((r.asked_prompt_tokens, r.prompt_tokens?))).collect();
        json!({
            "requests": rows.len(),
            "asked_prompt": counts(&|r| Some(r.asked_prompt_tokens)),
            "prompt": counts(&|r| r.prompt_tokens),
            "asked_output": counts(&|r| Some(r.asked_output_tokens)),
            "output": counts(&answered),
            "length_met": {
                "met": outputs.iter().filter(|(found, asked)| found == asked).count(),
                "known": outputs.len(),
                "shorter": outputs.iter().filter(|(found, asked)| found < asked).count(),
            },
            "prompt_off": LengthDifferences::of(&told),
        })
    };
    json!(names.into_iter().map(|name| (name.to_string(), class(name))).collect::<BTreeMap<String, Value>>())
}

/// `disclosed` of a window.
pub(super) fn facts(sent: &[&Row], no_gross: bool, no_net: bool) -> Value {
    let (kept, dropped): (Vec<&Row>, Vec<&Row>) = sent.iter().partition(|r| r.phase == Phase::Measured);
    let stamped = |source| kept.iter().filter(|r| r.stamps == source).count();
    let variation_of =
        |of: fn(&Row) -> Option<u64>| variation(&mut kept.iter().filter_map(|r| of(r)).collect::<Vec<_>>());
    let first = |cold: bool| {
        let candidates = sent.iter().filter(|r| r.submit.is_some() && (!cold || !r.conn_reused));
        candidates.min_by_key(|r| (r.submit, r.trace_id)).map(|r| first_sent(r, no_gross, no_net))
    };
    let mut beginnings: BTreeMap<&str, u64> = BTreeMap::new();
    let first_turns = sent.iter().filter(|r| sessions::is_arrival(r));
    first_turns.for_each(|r| *beginnings.entry(r.beginning()).or_default() += 1);
    json!({
        "kernel_stamped": stamped(StampSource::Kernel),
        "user_stamped": stamped(StampSource::User),
        "timed": timed(&kept),
        "dropped": warm_up(&dropped, no_gross),
        "first_sent": first(false),
        "first_cold": first(true),
        "shared_beginnings": beginnings.values().filter(|n| **n > 1).sum::<u64>(),
        "cached": cached(&kept),
        "prompt_variation": variation_of(|r| r.prompt_tokens),
        "asked_prompt_variation": variation_of(|r| Some(r.asked_prompt_tokens)),
    })
}

fn timed(kept: &[&Row]) -> Value {
    let ok = || kept.iter().filter(|r| r.outcome == Outcome::Ok);
    let first = |r: &Row| definitions::ttft(r).gross;
    let answer = |r: &Row| definitions::ttfo(r).gross;
    let later = |r: &&&Row| first(r).zip(answer(r)).is_some_and(|(token, text)| text > token);
    json!({
        "first_token": ok().filter_map(|r| first(r)).count(),
        "first_answer": ok().filter_map(|r| answer(r)).count(),
        "answer_later": ok().filter(later).count(),
        "last_token": ok().filter_map(|r| definitions::e2e(r).gross).count(),
    })
}

fn warm_up(dropped: &[&Row], no_gross: bool) -> Value {
    let ids = || dropped.iter().map(|r| r.trace_id);
    let ok = || dropped.iter().filter(|r| r.outcome == Outcome::Ok);
    let mut ttft: Vec<i64> = ok().filter_map(|r| definitions::ttft(r).gross).collect();
    let found = if no_gross { None } else { figures(&mut ttft) };
    json!({
        "first_id": ids().min(),
        "last_id": ids().max(),
        "ok": ok().count(),
        "ttft_gross_p50_ms": found.and_then(|f| f.percentiles_ms[0]),
        "ttft_gross_max_ms": found.map(|f| f.max_ms),
    })
}

fn first_sent(row: &Row, no_gross: bool, no_net: bool) -> Value {
    let ttft = definitions::ttft(row);
    json!({
        "trace_id": row.trace_id,
        "sent_s": row.submit.map(seconds),
        "dropped": row.phase == Phase::Warmup,
        "outcome": row.outcome,
        "connect_ms": definitions::tcp(row).map(millis),
        "ttft_gross_ms": ttft.gross.filter(|_| !no_gross).map(millis),
        "ttft_net_ms": ttft.net.filter(|_| !no_net).map(|net| millis(net.at)),
    })
}

fn cached(kept: &[&Row]) -> Value {
    let told: Vec<(u64, Option<u64>)> = kept.iter().filter_map(|r| Some((r.cached_tokens?, r.prompt_tokens))).collect();
    json!({
        "reported": told.len(),
        "hit": told.iter().filter(|(tokens, _)| *tokens > 0).count(),
        "tokens": told.iter().map(|(tokens, _)| *tokens).reduce(u64::saturating_add),
        "prompt_tokens": told.iter().filter_map(|(_, prompt)| *prompt).reduce(u64::saturating_add),
    })
}
