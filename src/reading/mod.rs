//! From what an exchange left on tape to the line of `requests.jsonl`: JSON, tokens, flags, outcome, and
//! stamps on the campaign's axis. Runs off the workers' cores.

pub mod content;
pub mod outcome;
pub mod redaction;
pub mod turns;

pub use outcome::FailureClass;
pub use redaction::without;

use crate::rundir::row::{Chunk, LeftOut, Outcome, Phase, Row, RowError, Stamp, StampSource, TokensSource};
use bench_engine::clock::ClockMap;
use bench_engine::record::{Dispatch, Ending, Finished, Note, ProtocolError, ReadStamp, notes};
use bench_engine::units::{Instant, WallInstant};
use bench_engine::wire::head;
use content::{ContentFacts, UsageFacts};
use std::collections::BTreeMap;

/// Longest error text kept, in characters.
const MAX_ERROR_CHARS: usize = 300;

/// What was asked of the request; known before it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Place in the window's trace.
    pub trace_id: u64,
    /// Workload class.
    pub class: String,
    /// Warm-up or measured.
    pub phase: Phase,
    /// Prompt length asked for, in tokens.
    pub prompt_tokens: u64,
    /// Output length asked for, in tokens.
    pub output_tokens: u64,
    /// First word of the prompt, or of a turn's own message; else its `user`.
    pub nonce: String,
    /// By what the prompt begins, where that is not the nonce.
    pub begins: Option<String>,
    /// SHA-256 of the prompt, hex.
    pub prompt_sha256: String,
    /// An event stream was asked for.
    pub streamed: bool,
}

/// What stands around a request in its file.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Run id.
    pub run: &'a str,
    /// Load point.
    pub cell: u32,
    /// Window.
    pub window: u32,
    /// Worker.
    pub worker: u32,
    /// The campaign's start: zero of the file's axis.
    pub origin: Instant,
    /// Where the stamps come from.
    pub stamps: StampSource,
    /// The server's addresses, where connections take several in turn; else empty.
    pub addresses: &'a [String],
    /// A text that must not appear in any record.
    pub secret: Option<&'a str>,
}

/// When an event came, before it is placed on the campaign's axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RawStamp {
    read: ReadStamp,
    /// Only framing follows in its read, and the read did not fill its buffer.
    closes_read: bool,
}

#[derive(Clone, Copy, Debug)]
struct RawChunk {
    stamp: RawStamp,
    tokens: Option<u64>,
    choice: u32,
}

/// An event that was dispatched in the current read.
struct Dispatched {
    how: Dispatch,
    name_is_error: bool,
    error_field: Option<Vec<u8>>,
    facts: Option<ContentFacts>,
}

/// Reads the tape of one request, block by block, as it comes.
#[derive(Default)]
pub struct Reading {
    keep_text: bool,
    closed: bool,
    // the current read, head, event
    read: Option<ReadStamp>,
    trailing: bool,
    body_end: bool,
    head: Vec<u8>,
    data: Vec<u8>,
    name: Vec<u8>,
    error_field: Option<Vec<u8>>,
    dispatched: Vec<Dispatched>,
    // what was found
    heads: Vec<Vec<u8>>,
    document: Option<Vec<u8>>,
    first_byte: Option<RawStamp>,
    first_event: Option<RawStamp>,
    first_token: Option<RawStamp>,
    first_answer: Option<RawStamp>,
    last_token: Option<RawStamp>,
    done: Option<RawStamp>,
    end: Option<RawStamp>,
    chunks: Vec<RawChunk>,
    events: u32,
    token_events: u32,
    empty_events: u32,
    keepalive: u32,
    bad_events: u32,
    after_done: u32,
    unterminated: bool,
    stream_error: Option<String>,
    usage: UsageFacts,
    running_usage: Option<u64>,
    untold_tokens: bool,
    token_ids: u64,
    all_have_ids: bool,
    seen_choices: Vec<u32>,
    thinking: bool,
    finish_reasons: BTreeMap<u32, String>,
    model: Option<String>,
    timings: Option<String>,
    texts: BTreeMap<u32, String>,
    /// Of choice 0.
    beside_text: BesideText,
}

/// What a choice said that is no answer text.
#[derive(Default)]
struct BesideText {
    calls: bool,
    parts: bool,
    thoughts: bool,
}

impl Reading {
    /// A reading that also keeps the answers' text.
    pub fn keeping_text() -> Self {
        Reading { keep_text: true, ..Reading::default() }
    }

    /// The answer text of `choice`, when texts are kept.
    pub fn text(&self, choice: u32) -> &str {
        self.texts.get(&choice).map_or("", String::as_str)
    }

    /// Token events of the reads that are over so far.
    pub fn token_events(&self) -> u32 {
        self.token_events
    }

    /// Takes in the next block of the tape.
    pub fn block(&mut self, filled: &[u8]) {
        for note in notes(filled) {
            self.note(note);
        }
    }

    fn note(&mut self, note: Note<'_>) {
        match note {
            Note::Read(stamp) => {
                self.close_read();
                self.read = Some(stamp);
                self.first_byte.get_or_insert(RawStamp { read: stamp, closes_read: false });
            }
            Note::Head(bytes) => self.head.extend_from_slice(bytes),
            Note::HeadEnd => self.heads.push(std::mem::take(&mut self.head)),
            Note::Data(bytes) => self.data.extend_from_slice(bytes),
            Note::EventName(bytes) => self.name.extend_from_slice(bytes),
            Note::ErrorField(bytes) => self.error_field.get_or_insert_default().extend_from_slice(bytes),
            Note::Event(how) => self.dispatch(how),
            Note::KeepAlive => self.keepalive += 1,
            Note::Trailing => self.trailing = true,
            Note::Body(bytes) => self.document.get_or_insert_default().extend_from_slice(bytes),
            Note::BodyEnd => self.body_end = true,
        }
    }

    fn dispatch(&mut self, how: Dispatch) {
        let facts = match how {
            Dispatch::Whole | Dispatch::Unterminated => content::read(&self.data, self.keep_text),
            Dispatch::Done | Dispatch::UnterminatedDone | Dispatch::Bare => None,
        };
        self.dispatched.push(Dispatched {
            how,
            name_is_error: self.name == b"error",
            error_field: self.error_field.take(),
            facts,
        });
        // a line of megabytes is read once; its buffer is not kept for the rest of the stream
        if self.data.capacity() > 64 * 1024 {
            self.data = Vec::new();
        }
        self.data.clear();
        self.name.clear();
    }

    /// A read is over: now it is known whether its last event closes it.
    fn close_read(&mut self) {
        let trailing = std::mem::take(&mut self.trailing);
        let body_end = std::mem::take(&mut self.body_end);
        let Some(read) = self.read.take() else { return };
        let mut dispatched = std::mem::take(&mut self.dispatched);
        let last = dispatched.len().saturating_sub(1);
        for (i, event) in dispatched.drain(..).enumerate() {
            let stamp = RawStamp { read, closes_read: i == last && !trailing && !read.filled };
            self.event(event, stamp);
        }
        self.dispatched = dispatched;
        if body_end {
            self.end = Some(RawStamp { read, closes_read: !read.filled });
        }
    }

    fn event(&mut self, event: Dispatched, stamp: RawStamp) {
        self.unterminated |= matches!(event.how, Dispatch::Unterminated | Dispatch::UnterminatedDone);
        if let Some(words) = &event.error_field {
            self.report_error(content::error_body_words(words));
        }
        if event.name_is_error {
            let words = event.facts.as_ref().and_then(|f| f.error.clone());
            self.report_error(words.unwrap_or_else(|| "an event named `error`".to_owned()));
        }
        match event.how {
            Dispatch::Bare => return,
            Dispatch::Done | Dispatch::UnterminatedDone => {
                self.done.get_or_insert(stamp);
                return;
            }
            Dispatch::Whole | Dispatch::Unterminated => {}
        }
        if self.done.is_some() {
            self.after_done += 1;
            if let Some(words) = event.facts.and_then(|f| f.error) {
                self.report_error(words);
            }
            return;
        }
        match event.facts {
            Some(facts) => self.content(facts, stamp),
            None if event.name_is_error => {}
            None => self.bad_events += 1,
        }
    }

    fn report_error(&mut self, words: String) {
        self.stream_error.get_or_insert(words);
    }

    /// An event that parsed, or the document of a reply that is no stream.
    fn content(&mut self, mut facts: ContentFacts, stamp: RawStamp) {
        self.events += 1;
        self.first_event.get_or_insert(stamp);
        if let Some(words) = facts.error.take() {
            self.report_error(words);
        }
        self.model = self.model.take().or(facts.model.take());
        self.timings = facts.timings.take().or(self.timings.take());
        let finishes = facts.choices.iter().any(|c| c.finish_reason.is_some());
        let running = facts.usage.and_then(|u| u.completion);
        let rise = match (self.running_usage, running) {
            (Some(before), Some(now)) => now.checked_sub(before).filter(|n| *n > 0),
            _ => None,
        };
        // a rise seen only on the finish event is no token of its own
        let proven = rise.is_some() && !facts.choices.is_empty() && !finishes;
        let told =
            running.filter(|_| !self.untold_tokens).map(|now| now.saturating_sub(self.running_usage.unwrap_or(0)));
        let has_token = proven || facts.choices.iter().any(content::ChoiceFacts::has_token);
        if has_token {
            self.token_event(&facts, stamp, told.filter(|n| *n > 0));
            self.untold_tokens = running.is_none();
        } else if self.is_empty_event(&facts, finishes) {
            self.empty_events += 1;
        }
        for choice in facts.choices {
            self.thinking |= choice.thinking;
            if choice.index == 0 {
                let beside = &mut self.beside_text;
                beside.calls |= choice.calls;
                beside.parts |= choice.parts;
                beside.thoughts |= choice.thinking;
            }
            if choice.answer {
                self.first_answer.get_or_insert(stamp);
            }
            if !self.seen_choices.contains(&choice.index) {
                self.seen_choices.push(choice.index);
            }
            if let Some(reason) = choice.finish_reason {
                if reason == "error" {
                    self.report_error("finish reason `error`".to_owned());
                }
                self.finish_reasons.entry(choice.index).or_insert(reason);
            }
            if self.keep_text {
                self.texts.entry(choice.index).or_default().push_str(&choice.text);
            }
        }
        self.running_usage = running.or(self.running_usage);
        if let Some(usage) = facts.usage {
            self.usage.update(usage);
        }
    }

    fn token_event(&mut self, facts: &ContentFacts, stamp: RawStamp, told: Option<u64>) {
        self.first_token.get_or_insert(stamp);
        self.last_token = Some(stamp);
        let ids: u64 = facts.choices.iter().filter_map(|c| c.token_ids).sum();
        self.all_have_ids = ids > 0 && (self.token_events == 0 || self.all_have_ids);
        self.token_ids += ids;
        self.token_events += 1;
        let choice = facts.choices.iter().find(|c| c.has_token()).or(facts.choices.first()).map_or(0, |c| c.index);
        self.chunks.push(RawChunk { stamp, tokens: Some(ids).filter(|n| *n > 0).or(told), choice });
    }

    /// Tokens may hide in an event with choices and nothing in them, unless it only opens its choices.
    fn is_empty_event(&self, facts: &ContentFacts, finishes: bool) -> bool {
        let opens = |c: &content::ChoiceFacts| c.has_role && !self.seen_choices.contains(&c.index);
        !facts.choices.is_empty() && !finishes && !facts.choices.iter().all(opens)
    }

    /// Everything is in: the row.
    pub fn finish(mut self, finished: &Finished, asked: &Asked, place: Place<'_>, map: &ClockMap) -> FinishedRow {
        self.close(asked.streamed);
        let mut on_axis = OnAxis { map, place, out_of_order: 0 };
        let outcome = self.outcome(finished, asked, place.secret);
        let row = self.row(finished, asked, outcome, &mut on_axis);
        let (text, left_out) = (self.texts.remove(&0).unwrap_or_default(), self.left_out());
        FinishedRow { row, out_of_order: on_axis.out_of_order, text, left_out, lets_go_on: self.lets_go_on() }
    }

    /// What the reply held beside the answer text of choice 0.
    fn left_out(&self) -> Vec<LeftOut> {
        let beside = &self.beside_text;
        let thoughts = beside.thoughts || self.usage.reasoning.is_some_and(|tokens| tokens > 0);
        [(beside.calls, LeftOut::ToolCalls), (beside.parts, LeftOut::Parts), (thoughts, LeftOut::Reasoning)]
            .into_iter()
            .filter_map(|(there, what)| there.then_some(what))
            .collect()
    }

    /// What its row will say of the outcome, as soon as everything is in.
    pub fn outcome_of(&mut self, finished: &Finished, asked: &Asked) -> Outcome {
        self.close(asked.streamed);
        self.outcome(finished, asked, None).0
    }

    /// The read that ended the reply, when one did. Once everything is in.
    pub fn end(&self) -> Option<ReadStamp> {
        self.end.map(|end| end.read)
    }

    /// Tokens as the server counted them, prompt and completion. Once everything is in.
    pub fn counted_tokens(&self) -> (Option<u64>, Option<u64>) {
        (self.usage.prompt, self.completion().0)
    }

    /// Nothing more comes. Said again, it does nothing.
    fn close(&mut self, streamed: bool) {
        if std::mem::replace(&mut self.closed, true) {
            return;
        }
        self.close_read();
        if !streamed && self.status().is_some_and(|s| (200..300).contains(&s)) {
            self.read_document();
        }
    }

    fn completion(&self) -> (Option<u64>, Option<TokensSource>) {
        match (self.usage.completion, self.all_have_ids) {
            (Some(n), _) => (Some(n), Some(TokensSource::Usage)),
            (None, true) => (Some(self.token_ids), Some(TokensSource::TokenIds)),
            (None, false) => (None, None),
        }
    }

    /// A reply that is one document is one event at the end of its body.
    fn read_document(&mut self) {
        let (Some(body), Some(end)) = (&self.document, self.end) else { return };
        match content::read(body, self.keep_text) {
            Some(facts) => self.content(facts, end),
            None => self.bad_events += 1,
        }
    }

    fn status(&self) -> Option<u16> {
        let status =
            |head: &Vec<u8>| std::str::from_utf8(head.trim_ascii_start().get(9..12)?).ok()?.parse::<u16>().ok();
        self.heads.last().and_then(status).filter(|s| *s >= 200)
    }

    fn outcome(&self, finished: &Finished, asked: &Asked, secret: Option<&str>) -> (Outcome, Option<RowError>) {
        match finished.ending {
            Ending::Censored => return (Outcome::Censored, None),
            Ending::NotSent => {
                let error = RowError { class: "interrupted".to_owned(), text: finished.ending.to_string() };
                return (Outcome::NotSent, Some(error));
            }
            _ => {}
        }
        let location = self.field("location");
        let failure = outcome::failure(&outcome::Marks {
            ending: finished.ending,
            streamed: asked.streamed,
            status: self.status(),
            location: location.as_deref(),
            document: self.document.as_deref().or(self.is_document().then_some(&[])),
            stream_error: self.stream_error.as_deref(),
            done: self.done.is_some(),
            token_events: self.token_events,
            finished: !self.finish_reasons.is_empty(),
        });
        match failure {
            None => (Outcome::Ok, None),
            Some((class, words)) => {
                (Outcome::Failed, Some(RowError { class: class.to_string(), text: printable_cut(&words, secret) }))
            }
        }
    }

    /// What the final head announced of its connection (RFC 9112, 9.3); None: there was none, or it is not readable.
    fn lets_go_on(&self) -> Option<bool> {
        let (_, head) = head::parse_whole(self.heads.last()?.trim_ascii_start()).ok()??;
        (head.status >= 200).then_some(head.keep_alive)
    }

    /// The final head announced a JSON document, even if nothing of it came.
    fn is_document(&self) -> bool {
        self.field("content-type").is_some_and(|t| t.to_ascii_lowercase().contains("json"))
    }

    fn field(&self, name: &str) -> Option<String> {
        let mut found = None;
        head::each_field(self.heads.last()?, |n, value| {
            if n.eq_ignore_ascii_case(name) {
                found = Some(String::from_utf8_lossy(value).into_owned());
            }
        });
        found
    }

    fn flags(&self, finished: &Finished) -> Vec<String> {
        let ok_end = finished.ending == Ending::Complete;
        let coalesced = coalesced(&self.chunks);
        let sum_differs = match self.usage {
            UsageFacts { prompt: Some(p), completion: Some(c), total: Some(t), .. } => t != p.saturating_add(c),
            _ => false,
        };
        let http_1_0 = self.field("content-length").is_none() && self.field("transfer-encoding").is_none();
        let close_delimited = ok_end && self.end.is_some() && self.status() != Some(204) && http_1_0;
        let counted = |name: &str, n: u32| (n > 0).then(|| format!("{name}={n}"));
        let plain = |name: &str, yes: bool| yes.then(|| name.to_owned());
        let streamed_reply = self.document.is_none();
        let no_done = streamed_reply && self.done.is_none() && ok_end && !self.finish_reasons.is_empty();
        let compressed = finished.ending == Ending::Protocol(ProtocolError::Compressed);
        let hidden = self.usage.reasoning.is_some_and(|n| n > 0) && !self.thinking;
        let interim = self.heads.iter().filter_map(|h| {
            let code = std::str::from_utf8(h.trim_ascii_start().get(9..12)?).ok()?;
            code.starts_with('1').then(|| format!("interim_{code}"))
        });
        let mut flags: Vec<String> = [
            plain("no_done", no_done),
            counted("after_done", self.after_done),
            counted("keepalive", self.keepalive),
            counted("bad_event", self.bad_events),
            plain("close_delimited", close_delimited),
            plain("unterminated_tail", self.unterminated),
            plain("bad_end", self.done.is_some() && !ok_end && finished.ending != Ending::Censored),
            plain("compressed", compressed),
            plain("usage_sum", sum_differs),
            plain("hidden_reasoning", hidden),
            counted("coalesced", coalesced),
            plain("reopened", finished.reopened),
        ]
        .into_iter()
        .flatten()
        .chain(interim)
        .collect();
        flags.sort_unstable();
        flags.dedup();
        flags
    }

    fn row(
        &mut self,
        finished: &Finished,
        asked: &Asked,
        (outcome, error): (Outcome, Option<RowError>),
        axis: &mut OnAxis<'_>,
    ) -> Row {
        let (completion, source) = self.completion();
        // a document is one event at its end: there is no first token to speak of
        let streamed = asked.streamed;
        let when = |stamp: Option<RawStamp>| stamp.filter(|_| streamed);
        let (first_token, first_answer) = (when(self.first_token), when(self.first_answer));
        Row {
            run: axis.place.run.to_owned(),
            cell: axis.place.cell,
            window: axis.place.window,
            trace_id: asked.trace_id,
            class: asked.class.clone(),
            phase: asked.phase,
            worker: axis.place.worker,
            conn: finished.conn,
            conn_reused: finished.conn_reused,
            retries: finished.retries,
            due: finished.due.wall.and_then(|w| axis.wall(w, finished.due.at)).unwrap_or(axis.harness(finished.due.at)),
            taken: finished.taken.map(|t| axis.harness(t)),
            submit: finished.submit.map(|t| axis.harness(t)),
            handed: finished.handed.map(|t| axis.harness(t)),
            sent: finished.sent.map(|t| axis.harness(t)),
            wire_out: finished.wire_out.and_then(|(wall, read)| axis.wall(wall, read)),
            first_byte: axis.stamp(self.first_byte),
            first_event: axis.stamp(self.first_event),
            first_token: axis.stamp(first_token),
            first_answer: axis.stamp(first_answer),
            last_token: axis.stamp(self.last_token),
            done: axis.stamp(self.done),
            end: axis.stamp(self.end).or_else(|| {
                // broken off or given up: its slot was busy until then
                let given_up = finished.taken.is_some() && finished.ending != Ending::Censored;
                let seen = axis.harness(finished.ended);
                given_up.then_some(Stamp { seen, arrived: None, arrived_lo: None })
            }),
            chunks: self.chunks.iter().map(|c| axis.chunk(c)).collect(),
            dns: None,
            connect: finished.connect.map(bench_engine::units::Nanos::ns),
            tls: finished.tls.map(bench_engine::units::Nanos::ns),
            bytes_out: finished.bytes_out,
            bytes_in: finished.bytes_in,
            reads: finished.reads,
            events: self.events,
            token_events: self.token_events,
            empty_events: self.empty_events,
            http_status: self.status(),
            retry_after: self.field("retry-after").map(|v| printable(&v, axis.place.secret)),
            outcome,
            error,
            flags: self.flags(finished),
            finish_reason: self.finish_reasons.values().next().map(|r| printable(r, axis.place.secret)),
            prompt_tokens: self.usage.prompt,
            completion_tokens: completion,
            cached_tokens: self.usage.cached,
            reasoning_tokens: self.usage.reasoning,
            tokens_source: source,
            asked_prompt_tokens: asked.prompt_tokens,
            asked_output_tokens: asked.output_tokens,
            length_met: completion.map(|n| n == asked.output_tokens),
            model_echo: self.model.take().map(|m| printable(&m, axis.place.secret)),
            server_timings: self.timings.take().and_then(|t| document_without(&t, axis.place.secret)),
            nonce: asked.nonce.clone(),
            begins: asked.begins.clone(),
            prompt_sha256: asked.prompt_sha256.clone(),
            stamps: axis.place.stamps,
            address: finished.conn.and_then(|_| axis.place.addresses.get(finished.address as usize).cloned()),
            session: None,
        }
    }
}

/// A row, and what was noticed while making it.
#[derive(Debug)]
pub struct FinishedRow {
    /// The row.
    pub row: Row,
    /// Kernel stamps that were later than the reading of them.
    pub out_of_order: u32,
    /// Answer text of choice 0, when texts are kept.
    pub text: String,
    /// What choice 0 held beside it.
    pub left_out: Vec<LeftOut>,
    /// Whether its reply announced that the connection can carry another; None: there was no reply.
    pub lets_go_on: Option<bool>,
}

/// Token events that share a read with another one.
fn coalesced(chunks: &[RawChunk]) -> u32 {
    let groups = chunks.chunk_by(|a, b| a.stamp.read.read_no == b.stamp.read.read_no);
    groups.filter(|g| g.len() > 1).map(|g| g.len() as u32).sum()
}

/// A document of JSON without the secrets. They are sought in its strings and names as they are read: in its text they may
/// stand escaped. None: it is none.
pub fn document_without(text: &str, secrets: Option<&str>) -> Option<serde_json::Value> {
    fn clean(value: &mut serde_json::Value, secrets: Option<&str>) {
        match value {
            serde_json::Value::String(words) => *words = without(words, secrets),
            serde_json::Value::Array(all) => all.iter_mut().for_each(|value| clean(value, secrets)),
            serde_json::Value::Object(fields) => {
                *fields = std::mem::take(fields)
                    .into_iter()
                    .map(|(name, mut value)| {
                        clean(&mut value, secrets);
                        (without(&name, secrets), value)
                    })
                    .collect();
            }
            _ => {}
        }
    }
    let mut document = serde_json::from_str(text).ok()?;
    if secrets.is_some() {
        clean(&mut document, secrets);
    }
    Some(document)
}

/// Words for a record: one line, of bounded length, without control characters or the secret. What else would
/// steer a reader stays: a record is compared with what was asked, and screens make it visible (`crate::lettering`).
pub fn printable(words: &str, secret: Option<&str>) -> String {
    one_line(&without(words, secret))
}

/// The same of words that may have been cut off, like a body that did not come whole or was not kept whole: the beginning
/// of the secret at their very end is taken out too.
pub fn printable_cut(words: &str, secret: Option<&str>) -> String {
    one_line(&redaction::without_cut(words, secret))
}

fn one_line(words: &str) -> String {
    let clean = words.replace(|c: char| c.is_control(), " ");
    match clean.char_indices().nth(MAX_ERROR_CHARS) {
        Some((at, _)) => format!("{}...", &clean[..at]),
        None => clean,
    }
}

/// Places stamps on the campaign's axis.
struct OnAxis<'a> {
    map: &'a ClockMap,
    place: Place<'a>,
    out_of_order: u32,
}

impl OnAxis<'_> {
    fn harness(&self, at: Instant) -> u64 {
        at.saturating_since(self.place.origin).ns()
    }

    fn wall(&mut self, stamp: WallInstant, read_at: Instant) -> Option<u64> {
        match self.map.map(stamp, read_at) {
            Ok(at) => Some(self.harness(at)),
            Err(bench_engine::clock::Unmapped::OutOfOrder) => {
                self.out_of_order += 1;
                None
            }
            Err(_) => None,
        }
    }

    fn stamp(&mut self, stamp: Option<RawStamp>) -> Option<Stamp> {
        let stamp = stamp?;
        let read = stamp.read;
        let arrived = read.wall.and_then(|w| self.wall(w, read.seen));
        let earliest = |axis: &mut Self, arrived: u64| {
            let previous = read.previous_wall.and_then(|w| axis.wall(w, read.seen)).unwrap_or(0);
            previous.max(axis.harness(read.emptied)).min(arrived)
        };
        let arrived_lo = arrived.map(|a| if stamp.closes_read { a } else { earliest(self, a) });
        Some(Stamp { seen: self.harness(read.seen), arrived, arrived_lo })
    }

    fn chunk(&mut self, chunk: &RawChunk) -> Chunk {
        let at = self.stamp(Some(chunk.stamp));
        let (seen, arrived, lo) = at.map_or((0, None, None), |s| (s.seen, s.arrived, s.arrived_lo));
        let read = chunk.stamp.read;
        Chunk(seen, arrived, lo, chunk.tokens, read.read_no, chunk.choice, read.batch, read.pos)
    }
}
