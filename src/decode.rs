//! Recorded streams through the same parsers, offline: one case a line in, one line of figures out.
//! Times are exact, because they are the case's own.

use crate::analysis::definitions;
use crate::reading::{Asked, Place, Reading};
use crate::rundir::row::{Outcome, Phase, Row, StampSource};
use bench_engine::clock::ClockMap;
use bench_engine::exchange::{Exchange, Progress};
use bench_engine::record::{Block, Blocks, Due, Ending, Finished, ReadStamp};
use bench_engine::units::Instant;
use serde::Deserialize;
use serde_json::{Value, json};
use thiserror::Error;

/// A recorded response.
#[derive(Clone, Debug, Deserialize)]
pub struct Case {
    /// Its name.
    pub id: String,
    /// The writes are the whole response, and the socket closes after the last; else they are body bytes,
    /// one HTTP chunk each, of a well-behaved event stream.
    pub raw: bool,
    /// When (ms after the request was in), and what (each character one byte).
    pub writes: Vec<(f64, String)>,
    /// What had been asked.
    #[serde(default)]
    pub request: CaseRequest,
}

/// What had been asked.
#[derive(Clone, Debug, Deserialize)]
pub struct CaseRequest {
    /// An event stream.
    #[serde(default = "yes")]
    pub stream: bool,
    /// Output length.
    #[serde(default)]
    pub max_tokens: Option<u64>,
}

fn yes() -> bool {
    true
}

impl Default for CaseRequest {
    fn default() -> Self {
        CaseRequest { stream: true, max_tokens: None }
    }
}

/// A case that cannot be played.
#[derive(Debug, Error)]
pub enum BadCase {
    /// Not the format.
    #[error("not a case: {0}")]
    Json(#[from] serde_json::Error),
    /// A character that is no byte.
    #[error("write {write}: the character {character:?} is above U+00FF, so it is not one byte")]
    NotAByte {
        /// Which write, from 0.
        write: usize,
        /// The character.
        character: char,
    },
    /// A time that is none, or goes back.
    #[error("write {write}: {ms} ms is no time, or lies before the write before it")]
    BadTime {
        /// Which write, from 0.
        write: usize,
        /// As given.
        ms: f64,
    },
}

/// Bytes on the wire: when, which write they belong to, and what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireWrite {
    /// Since the request was in.
    pub at: Instant,
    /// Number of the write, from 0; kept when it is cut.
    pub write: u32,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl Case {
    /// Reads one line.
    ///
    /// # Errors
    /// [`BadCase`] says what is wrong with it.
    pub fn parse(line: &str) -> Result<Case, BadCase> {
        let case: Case = serde_json::from_str(line)?;
        case.wire()?;
        Ok(case)
    }

    /// What the peer puts on the wire.
    ///
    /// # Errors
    /// [`BadCase`]: a character above U+00FF, or a time that goes back.
    pub fn wire(&self) -> Result<Vec<WireWrite>, BadCase> {
        let mut wire = Vec::with_capacity(self.writes.len() + 2);
        if !self.raw {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
            wire.push(WireWrite { at: Instant::default(), write: 0, bytes: head.into() });
        }
        let mut last_ms = 0.0;
        for (i, (ms, text)) in self.writes.iter().enumerate() {
            if !(ms.is_finite() && *ms >= last_ms && *ms < 1e12) {
                return Err(BadCase::BadTime { write: i, ms: *ms });
            }
            last_ms = *ms;
            let bytes = text
                .chars()
                .map(|c| u8::try_from(u32::from(c)).map_err(|_| BadCase::NotAByte { write: i, character: c }))
                .collect::<Result<Vec<u8>, _>>()?;
            let bytes = match self.raw {
                true => bytes,
                false if bytes.is_empty() => continue,
                false => [format!("{:x}\r\n", bytes.len()).as_bytes(), &bytes, b"\r\n"].concat(),
            };
            wire.push(WireWrite { at: instant(*ms), write: i as u32 + 1, bytes });
        }
        if !self.raw {
            let write = wire.len() as u32;
            wire.push(WireWrite { at: instant(last_ms), write, bytes: b"0\r\n\r\n".to_vec() });
        }
        Ok(wire)
    }
}

fn instant(ms: f64) -> Instant {
    Instant::from_ns((ms * 1e6).round() as u64)
}

/// Blocks from the heap: there is no load to keep up with here.
#[derive(Default)]
struct Heap(Vec<Block>);

impl Blocks for Heap {
    fn take(&mut self) -> Option<Block> {
        Some(Block::default())
    }
    fn full(&mut self, block: Block) {
        self.0.push(block);
    }
}

/// What a case comes to.
#[derive(Debug)]
pub struct Decoded {
    /// The record a run would have written.
    pub row: Row,
    /// Answer text of choice 0.
    pub text: String,
}

/// Plays `wire` as the reply to a request sent at time 0. `closes`: the peer closes after the last write.
pub fn decode(id: &str, request: &CaseRequest, wire: &[WireWrite], closes: bool) -> Decoded {
    let (mut exchange, mut heap) = (Exchange::default(), Heap::default());
    exchange.begin(request.stream);
    let (mut ending, mut bytes_in) = (None, 0);
    for (pos, write) in wire.iter().enumerate().filter(|(_, w)| !w.bytes.is_empty()) {
        let stamp = ReadStamp { seen: write.at, batch: pos as u64, read_no: write.write, ..ReadStamp::default() };
        let (taken, progress) = exchange.on_read(&write.bytes, stamp, &mut heap);
        bytes_in += taken as u64;
        if let Progress::Over(how) = progress {
            ending = Some(how);
            break;
        }
    }
    let ending = ending.unwrap_or_else(|| if closes { exchange.on_close(&mut heap) } else { Ending::Closed });
    let start = Instant::default();
    let finished = Finished {
        job: 0,
        request: None,
        conn: Some(0),
        conn_reused: false,
        reopened: false,
        retries: 0,
        due: Due { at: start, wall: None },
        taken: Some(start),
        submit: Some(start),
        handed: Some(start),
        sent: Some(start),
        wire_out: None,
        connect: None,
        tls: None,
        address: 0,
        bytes_out: 0,
        bytes_in,
        reads: wire.len() as u32,
        ending,
        ended: wire.last().map_or(start, |w| w.at),
        block: exchange.cut_tape(),
        sequence: 0,
    };
    let mut reading = Reading::keeping_text();
    heap.0.iter().chain(&finished.block).for_each(|block| reading.block(block.filled()));
    let asked = Asked {
        trace_id: 0,
        class: id.to_owned(),
        phase: Phase::Measured,
        prompt_tokens: 0,
        output_tokens: request.max_tokens.unwrap_or(0),
        nonce: String::new(),
        begins: None,
        prompt_sha256: String::new(),
        streamed: request.stream,
    };
    let place = Place {
        run: "decode",
        cell: 0,
        window: 0,
        worker: 0,
        origin: start,
        stamps: StampSource::User,
        addresses: &[],
        secret: None,
    };
    let done = reading.finish(&finished, &asked, place, &ClockMap::default());
    Decoded { row: done.row, text: done.text }
}

/// The figures of a case, under the names its `expect` uses.
pub fn figures(id: &str, request: &CaseRequest, decoded: &Decoded) -> Value {
    let row = &decoded.row;
    let ms = |stamp: Option<crate::rundir::row::Stamp>| stamp.map(|s| s.seen as f64 / 1e6);
    let status = match (&row.outcome, &row.error) {
        (Outcome::Ok, _) => "ok".to_owned(),
        (_, Some(error)) => format!("failed:{}", error.class),
        (outcome, None) => format!("{outcome:?}").to_lowercase(),
    };
    json!({
        "id": id,
        "status": status,
        "error": row.error.as_ref().map(|e| &e.text),
        "events": row.events,
        "token_events": row.token_events,
        "empty_events": row.empty_events,
        "first_event_ms": ms(row.first_event),
        "ttft_ms": ms(row.first_token),
        "ttfo_ms": ms(row.first_answer),
        "gaps_ms": gaps_ms(row),
        "stall_ms": definitions::stall(row).gross.map(|ns| ns as f64 / 1e6),
        "tpot_ms": definitions::tpot(row).gross.map(|ns| ns / 1e6),
        "tpot_adj_ms": definitions::tpot_adj(row).gross.map(|ns| ns / 1e6),
        "ntpot_ms": definitions::ntpot(row).gross.map(|ns| ns / 1e6),
        "tokens_per_event": tokens_per_event(row),
        "e2e_ms": ms(row.last_token),
        "end_ms": ms(row.end),
        "prompt_tokens": row.prompt_tokens,
        "completion_tokens": row.completion_tokens,
        "tokens_source": row.tokens_source,
        "cached_tokens": row.cached_tokens,
        "reasoning_tokens": row.reasoning_tokens,
        "finish_reason": row.finish_reason,
        "length_met": row.length_met.filter(|_| request.max_tokens.is_some()),
        "text": decoded.text,
        "flags": row.flags,
    })
}

/// 1 everywhere is what makes a gap a time per token.
fn tokens_per_event(row: &Row) -> Option<f64> {
    let tokens = row.completion_tokens.filter(|n| *n > 0 && row.token_events > 0)?;
    Some(tokens as f64 / f64::from(row.token_events))
}

/// Every gap of every choice in order, those inside one read too (as 0).
fn gaps_ms(row: &Row) -> Vec<f64> {
    let mut choices: Vec<u32> = row.chunks.iter().map(|c| c.5).collect();
    choices.sort_unstable();
    choices.dedup();
    let of = |choice: u32| row.chunks.iter().filter(move |c| c.5 == choice).map(|c| c.0);
    choices.iter().flat_map(|c| of(*c).zip(of(*c).skip(1)).map(|(a, b)| (b - a) as f64 / 1e6)).collect()
}
