//! A request as GuideLLM 0.8.1 keeps it (`guidellm/schemas/base/request_stats.py`), and its figures of one request.

use serde_json::{Value, json};

use super::distribution::linspace;
use crate::reading::printable;
use crate::rundir::row::{Outcome, Row, TokensSource};

/// Under which of the three lists a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// Answered whole.
    Successful,
    /// Cancelled when the window closed.
    Incomplete,
    /// Failed.
    Errored,
}

/// Moments in unix seconds, as doubles: there they have steps of about 0.24 us, and so do all figures made of them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Request {
    pub status: Status,
    id: String,
    /// Session and place in it.
    turn: Option<(u64, u32)>,
    node: u32,
    pub targeted: f64,
    pub resolve_start: Option<f64>,
    pub request_start: Option<f64>,
    first_line: Option<f64>,
    pub first_token: Option<f64>,
    pub first_output: Option<f64>,
    pub last_token: Option<f64>,
    last_line: Option<f64>,
    lines: u64,
    pub iterations: u64,
    pub request_end: Option<f64>,
    pub resolve_end: f64,
    pub prompt: Option<u64>,
    cached: Option<u64>,
    completion: Option<u64>,
    error: Option<String>,
}

/// Where the campaign's zero lies, and how it asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Basis {
    /// Unix time of the rows' zero, ns.
    pub zero_ns: u64,
    /// Replies were streamed.
    pub streamed: bool,
    /// The window's close, ns from the rows' zero.
    pub closed: u64,
}

/// ns since 1970 as unix seconds, rounded once.
pub(super) fn seconds(ns: u64) -> f64 {
    (ns / 1_000_000_000) as f64 + (ns % 1_000_000_000) as f64 / 1e9
}

/// The count behind `name=`, 1 for the name alone, 0 where it is not set.
fn flagged(row: &Row, name: &str) -> u64 {
    let count = |flag: &String| match flag.split_once('=') {
        Some((of, count)) if of == name => count.parse().ok(),
        None if flag == name => Some(1),
        _ => None,
    };
    row.flags.iter().find_map(count).unwrap_or(0)
}

/// The last moment that a row tells, ns.
pub(super) fn last_known(row: &Row) -> u64 {
    let stamps = [row.first_byte, row.first_event, row.last_token, row.done, row.end];
    let seen = stamps.into_iter().flatten().map(|stamp| stamp.seen);
    let sent = [Some(row.due), row.taken, row.submit, row.handed, row.sent].into_iter().flatten();
    seen.chain(sent).max().unwrap_or(row.due)
}

impl Request {
    pub fn of(row: &Row, basis: Basis) -> Request {
        let at = |ns: u64| seconds(basis.zero_ns + ns);
        let seen = |stamp: Option<crate::rundir::row::Stamp>| stamp.map(|stamp| stamp.seen);
        let status = match row.outcome {
            Outcome::Ok => Status::Successful,
            Outcome::Censored => Status::Incomplete,
            Outcome::Failed | Outcome::NotSent => Status::Errored,
        };
        let streamed = |stamp| seen(stamp).filter(|_| basis.streamed).map(at);
        // there the stream is left at [DONE]; an exception leaves it before the end is written down
        let end = match status {
            Status::Successful => seen(row.done).or(seen(row.end)).or(seen(row.last_token)),
            Status::Errored if !basis.streamed => seen(row.end),
            _ => None,
        };
        let resolved = match status {
            Status::Incomplete => basis.closed,
            _ => end.unwrap_or_else(|| last_known(row)),
        };
        let usage = |count: Option<u64>| count.filter(|_| row.tokens_source == Some(TokensSource::Usage));
        let keepalive = flagged(row, "keepalive");
        Request {
            status,
            id: format!("{}/{}/{}/{}", row.run, row.cell, row.window, row.trace_id),
            turn: row.session.as_ref().map(|turn| (turn.id, turn.turn)),
            node: row.worker,
            targeted: at(row.due),
            resolve_start: row.taken.map(at),
            request_start: row.submit.or(row.taken).map(at),
            first_line: streamed(row.first_event),
            first_token: streamed(row.first_token),
            first_output: streamed(row.first_answer),
            last_token: streamed(row.last_token),
            last_line: streamed(row.done),
            lines: if basis.streamed { u64::from(row.events) + keepalive + u64::from(row.done.is_some()) } else { 0 },
            iterations: if basis.streamed { u64::from(row.token_events) } else { 0 },
            request_end: end.map(at),
            resolve_end: at(resolved),
            prompt: usage(row.prompt_tokens).filter(|_| status == Status::Successful),
            cached: row.cached_tokens.filter(|_| status == Status::Successful),
            completion: usage(row.completion_tokens).filter(|_| status == Status::Successful),
            error: row.error.as_ref().map(|error| printable(&format!("{}: {}", error.class, error.text), None)),
        }
    }

    /// `request_start_time`.
    pub fn start(&self) -> Option<f64> {
        self.request_start.or(self.resolve_start)
    }

    /// `request_end_time`.
    pub fn end(&self) -> f64 {
        self.request_end.unwrap_or(self.resolve_end)
    }

    /// `request_latency`, s.
    pub fn latency(&self) -> Option<f64> {
        Some(self.request_end? - self.request_start?)
    }

    /// `request_dispatch_delay`, s.
    pub fn dispatch_delay(&self) -> Option<f64> {
        Some(self.request_start? - self.targeted)
    }

    /// `request_scheduled_latency`, s.
    pub fn scheduled_latency(&self) -> Option<f64> {
        Some(self.request_end? - self.targeted)
    }

    /// `request_iterations`: lines of the stream that are not blank.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// `output_tokens`: the server's usage, else the iterations.
    pub fn output(&self) -> Option<u64> {
        self.completion.or(Some(self.iterations).filter(|n| *n > 0))
    }

    /// `text_tokens` of the output: the server's usage alone.
    pub fn completion(&self) -> Option<u64> {
        self.completion
    }

    /// `total_tokens`.
    pub fn total(&self) -> Option<u64> {
        match (self.prompt, self.output()) {
            (None, None) => None,
            (prompt, output) => Some(prompt.unwrap_or(0) + output.unwrap_or(0)),
        }
    }

    /// `time_to_first_token_ms`.
    pub fn ttft_ms(&self) -> Option<f64> {
        Some(1000.0 * (self.first_token? - self.request_start?))
    }

    /// `time_to_first_output_token_ms`.
    pub fn ttfo_ms(&self) -> Option<f64> {
        Some(1000.0 * (self.first_output? - self.request_start?))
    }

    /// `time_per_output_token_ms`: from the start, the first token included.
    pub fn tpot_ms(&self) -> Option<f64> {
        let output = self.output().filter(|n| *n > 0)?;
        Some(1000.0 * (self.last_token.unwrap_or(self.end()) - self.request_start?) / output as f64)
    }

    /// `inter_token_latency_ms`: one mean a request.
    pub fn itl_ms(&self) -> Option<f64> {
        let output = self.output().filter(|n| *n > 1)?;
        Some(1000.0 * (self.last_token? - self.first_token?) / (output - 1) as f64)
    }

    fn per_second(&self, tokens: Option<u64>) -> Option<f64> {
        let latency = self.latency().filter(|s| *s != 0.0)?;
        Some(tokens? as f64 / latency)
    }

    /// `iter_tokens_per_iteration`.
    fn tokens_after_first(&self) -> Option<f64> {
        let output = self.output().filter(|n| *n > 1 && self.iterations > 1)?;
        Some((output as f64 - 1.0) / (self.iterations as f64 - 1.0))
    }

    /// `prompt_tokens_timing`.
    pub fn prompt_timing(&self) -> (f64, f64) {
        (self.first_token.unwrap_or(self.end()), self.prompt.unwrap_or(0) as f64)
    }

    /// `iter_tokens_timings`: evenly spread there, the moments of single tokens are not kept.
    pub fn iteration_timings(&self) -> Vec<(f64, f64)> {
        match (self.first_token, self.last_token, self.tokens_after_first()) {
            (Some(first), Some(last), Some(each)) => {
                linspace(first, last, self.iterations).skip(1).map(|at| (at, each)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// `output_tokens_timings`.
    pub fn output_timings(&self) -> Vec<(f64, f64)> {
        let output = self.output().unwrap_or(0) as f64;
        match (self.first_token, self.last_token) {
            (Some(first), Some(_)) if self.iterations > 1 => {
                let mut all = vec![(first, f64::from(u8::from(output != 0.0)))];
                all.extend(self.iteration_timings());
                all
            }
            (_, last) => vec![(last.unwrap_or(self.end()), output)],
        }
    }

    /// `total_tokens_timings`.
    pub fn total_timings(&self) -> Vec<(f64, f64)> {
        std::iter::once(self.prompt_timing()).chain(self.output_timings()).collect()
    }

    /// `GenerativeRequestStats`, its computed fields included.
    pub fn json(&self) -> Value {
        let status = match self.status {
            Status::Successful => "completed",
            Status::Incomplete => "cancelled",
            Status::Errored => "errored",
        };
        let mut stats = json!({
            "type_": "generative_request_stats",
            "request_id": self.id,
            "response_id": null,
            "request_args": null,
            "output": null,
            "reasoning_output": null,
            "tool_calls": null,
            "info": {
                "request_id": self.id,
                "conversation_id": self.turn.map(|(session, _)| format!("session_{session}")),
                "history_len": self.turn.map_or(0, |(_, turn)| turn),
                "turn_index": self.turn.map_or(0, |(_, turn)| turn),
                "preceding_nodes": 0,
                "node_id": null,
                "agent_id": null,
                "parent_node_ids": [],
                "status": status,
                "scheduler_node_id": 0,
                "scheduler_process_id": self.node,
                "scheduler_start_time": -1.0,
                "timings": self.timings(),
                "settings": {"relative_timestamp": null, "requeue_delay": null, "trace_duration": null},
                "error": self.error,
                "traceback": null,
                "started_at": self.start(),
                "completed_at": self.end(),
            },
            "input_metrics": usage(self.prompt, self.cached),
            "response_metrics": null,
            "output_metrics": usage(self.completion, None),
        });
        if let (Value::Object(stats), Value::Object(computed)) = (&mut stats, self.computed()) {
            stats.extend(computed);
        }
        stats
    }

    fn timings(&self) -> Value {
        json!({
            "targeted_start": self.targeted,
            "predecessor_completed": null,
            "queued": null,
            "dequeued": null,
            "scheduled_at": null,
            "resolve_start": self.resolve_start,
            "request_start": self.request_start,
            "first_request_iteration": self.first_line,
            "first_token_iteration": self.first_token,
            "first_output_token_iteration": self.first_output,
            "last_token_iteration": self.last_token,
            "last_request_iteration": self.last_line,
            "request_iterations": self.lines,
            "token_iterations": self.iterations,
            "last_request_sent": null,
            "request_sent_sum": 0.0,
            "request_sent_count": 0,
            "token_received_sum": 0.0,
            "token_received_count": 0,
            "request_end": self.request_end,
            "resolve_end": self.resolve_end,
            "finalized": null,
        })
    }

    fn computed(&self) -> Value {
        let dispatch = self.dispatch_delay();
        let each = self.output().filter(|_| self.iterations > 0).map(|n| n as f64 / self.iterations as f64);
        json!({
            "request_start_time": self.start(),
            "request_end_time": self.end(),
            "request_latency": self.latency(),
            "request_dispatch_delay": dispatch,
            "turn_predecessor_delay": dispatch.map(|_| 0.0),
            "turn_scheduling_delay": dispatch,
            "request_scheduled_latency": self.scheduled_latency(),
            "prompt_tokens": self.prompt,
            "cached_tokens": self.cached,
            "output_tokens": self.output(),
            "total_tokens": self.total(),
            "time_to_first_token_ms": self.ttft_ms(),
            "time_to_last_round_trip_ms": null,
            "avg_round_trip_time_ms": null,
            "time_per_output_token_ms": self.tpot_ms(),
            "inter_token_latency_ms": self.itl_ms(),
            "tokens_per_second": self.per_second(self.total()),
            "output_tokens_per_second": self.per_second(self.output()),
            "time_to_first_output_token_ms": self.ttfo_ms(),
            "iter_tokens_per_iteration": self.tokens_after_first(),
            "output_tokens_per_iteration": each,
        })
    }
}

/// `UsageMetrics`: words and characters are not kept in rows.
fn usage(tokens: Option<u64>, cached: Option<u64>) -> Value {
    json!({
        "text_tokens": tokens,
        "cached_tokens": cached,
        "text_words": null,
        "text_characters": null,
        "image_tokens": null,
        "image_count": null,
        "image_pixels": null,
        "image_bytes": null,
        "video_tokens": null,
        "video_frames": null,
        "video_seconds": null,
        "video_bytes": null,
        "audio_tokens": null,
        "audio_samples": null,
        "audio_seconds": null,
        "audio_bytes": null,
        "tool_call_tokens": null,
        "mixed_content_tool_tokens": null,
        "tool_call_count": null,
        "total_tokens": tokens,
    })
}
