//! What to say to a request.

use super::admission::Turn;
use super::journal::Record;
use super::metrics::{Gauges, Stages};
use super::openai::{self, Asked, Endpoint, Naming, Shape, StreamBytes, UsageSent};
use super::prefix_cache::BLOCK;
use super::reply::{Reply, Score};
use super::request::Request;
use super::script::SCRIPT_HEAD;
use super::server::{Arrived, Server};
use super::timeline::{Timeline, fnv, request_seed, splitmix64};
use super::{ColdStart, MockConfig};
use bench_engine::clock::Clock;
use bench_engine::units::{Instant, Nanos, WallInstant};

/// How long a refused client may go on sending before the socket closes on it.
const LINGER: Nanos = Nanos::from_secs(2);
/// Blocks of the key-value cache when no prefix cache says how many there are.
const NOMINAL_BLOCKS: u64 = 65_536;

/// A reply, and its head when that is to be written at once.
#[derive(Debug)]
pub(super) struct Answer {
    pub reply: Reply,
    pub head: Option<Vec<u8>>,
}

/// When a request was there, by three clocks.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    rx: Option<WallInstant>,
    rx_user: Instant,
    /// The kernel's stamp on the axis, or else `rx_user`.
    at: Instant,
}

impl Server {
    pub(super) fn answer(&mut self, slot: u32, arrived: Arrived) -> Answer {
        let Arrived { what, rx, rx_user } = arrived;
        let request = match what {
            Ok(request) => request,
            Err(why) => {
                let until = self.clock.now() + LINGER;
                let body = openai::error_body(why.status(), &why.to_string(), None);
                if let Some(connection) = self.slots[slot as usize].connection.as_deref_mut() {
                    connection.lingering = Some(until);
                    connection.arrived.clear();
                }
                return self.plain(why.status(), "", &body, true);
            }
        };
        let close = request.close;
        let v1 = request.path.starts_with("/v1/");
        if let Some(key) = self.config.api_key.as_deref().filter(|_| v1) {
            let given = request.authorization.as_deref().and_then(|value| value.strip_prefix(b"Bearer "));
            if given.map(<[u8]>::trim_ascii) != Some(key.as_bytes()) {
                return self.plain(401, "www-authenticate: Bearer\r\n", "{\"error\":\"Unauthorized\"}", close);
            }
        }
        let endpoint = match (request.method.as_str(), request.path.as_str()) {
            ("POST", "/v1/chat/completions") => Endpoint::Chat,
            ("POST", "/v1/completions") => Endpoint::Completions,
            ("GET", "/v1/models") => {
                let mut models = vec![self.config.model.as_str()];
                if let Some(cases) = &self.cases {
                    models = cases.keys().map(String::as_str).collect();
                    models.sort_unstable();
                }
                let body = openai::models_body(&models, self.clock.wall().ns() / 1_000_000_000);
                return self.plain(200, "", &body, close);
            }
            ("GET", "/version") => {
                let body = format!("{{\"version\":\"tarebench-mock {}\"}}", env!("CARGO_PKG_VERSION"));
                return self.plain(200, "", &body, close);
            }
            ("GET", "/health") => return self.plain(200, "", "", close),
            ("GET", "/metrics") => {
                let body = self.metrics.print(self.gauges());
                let bytes = openai::plain_reply(200, "", openai::PROMETHEUS, &body, close);
                return Answer { reply: Reply::new(Score::Plain, None, close), head: Some(bytes) };
            }
            (_, "/v1/chat/completions" | "/v1/completions") => {
                return self.plain(405, "allow: POST\r\n", "{\"detail\":\"Method Not Allowed\"}", close);
            }
            (_, "/v1/models" | "/version" | "/health" | "/metrics") => {
                return self.plain(405, "allow: GET\r\n", "{\"detail\":\"Method Not Allowed\"}", close);
            }
            _ => return self.plain(404, "", "{\"detail\":\"Not Found\"}", close),
        };
        let at = rx.and_then(|stamp| self.map.map(stamp, rx_user).ok()).unwrap_or(rx_user);
        let arrival = Arrival { rx, rx_user, at };
        if self.cases.is_some() {
            return self.play(slot, &request, arrival);
        }
        self.generate(slot, endpoint, &request, arrival)
    }

    fn gauges(&self) -> Gauges {
        let blocks = match self.config.prefix_cache_blocks {
            0 => NOMINAL_BLOCKS,
            blocks => u64::from(blocks),
        };
        Gauges {
            running: self.admission.running(),
            waiting: self.admission.waiting(),
            blocks: (self.blocks_held, blocks),
            prefix_cache: self.prefix_cache.is_some(),
        }
    }

    /// Tokens, as asked and as configured.
    fn generate(&mut self, slot: u32, endpoint: Endpoint, request: &Request, arrival: Arrival) -> Answer {
        let close = request.close;
        let refuse = |server: &mut Server, param, message: &str| {
            server.plain(400, "", &openai::error_body(400, message, Some(param)), close)
        };
        let mut asked = match Asked::read(endpoint, &request.body, self.prefix_cache.is_some()) {
            Ok(asked) => asked,
            Err(e) => return refuse(self, e.param, &e.message),
        };
        asked.count(self.config.tokens_per_word, self.config.template_tokens);
        let profile = match self.config.profile().of(&self.config.classes, &asked.wish, asked.max_tokens) {
            Ok(profile) => profile,
            Err(message) => return refuse(self, "mock", &message),
        };
        if asked.stream && request.http10 {
            let body = openai::error_body(505, "a streamed reply needs HTTP/1.1", None);
            return self.plain(505, "", &body, true);
        }
        let MockConfig { seed, stamp_every, split_writes, usage, role_event, .. } = self.config;
        let cached = self.prefix_cache.as_mut().map(|cache| cache.take_in(fnv(asked.model.as_bytes()), &asked.words));
        if let Some(cached) = cached {
            self.metrics.looked_up(asked.prompt_tokens, cached);
        }
        let prefill = asked.prompt_tokens.saturating_sub(cached.unwrap_or(0));
        let mut extra = Nanos::from_ns(self.config.prefill_per_token.ns().saturating_mul(prefill));
        if let Some(ColdStart { extra: cold, requests }) = self.config.cold_start
            && self.asked < requests
        {
            extra = extra + cold;
        }
        self.asked += 1;

        let tokens = profile.tokens.unwrap_or(asked.max_tokens);
        let per_event = profile.tokens_per_event;
        let naming = Naming {
            asked: &asked,
            serial: splitmix64(&mut self.serials),
            created: self.clock.wall().ns() / 1_000_000_000,
            tokens,
            usage: UsageSent::of(&asked, usage),
            cached,
            shape: Shape { per_event, reasoning: profile.reasoning, event_bytes: profile.event_bytes, role_event },
        };
        let timeline = Timeline::new(profile.pace, arrival.at, extra, request_seed(seed, &asked.nonce))
            .drifting(self.config.drift, self.started());
        let stops = naming.stops();
        let (score, head, chunks) = if asked.stream {
            let bytes = Box::new(StreamBytes::new(&naming));
            let head = openai::stream_head(close, self.config.close_after_reply).to_vec();
            let chunks = bytes.events() as usize;
            (Score::Stream { bytes, timeline, next: 0, merge: profile.merge_writes }, Some(head), chunks)
        } else {
            let bytes = openai::plain_reply(200, "", openai::JSON, &openai::whole_body(&naming), close);
            (Score::Whole { bytes, tokens, events: tokens.div_ceil(per_event), timeline }, None, 1)
        };
        let close = close || (asked.stream && self.config.close_after_reply);
        let record = self.record(slot, asked.nonce, asked.model, arrival, chunks);
        let mut reply = Reply::new(score, Some(record), close).written(stamp_every, split_writes);
        let blocks = (asked.prompt_tokens + u64::from(tokens)).div_ceil(BLOCK as u64);
        let prompt_tokens = asked.prompt_tokens;
        let Arrival { at, .. } = arrival;
        reply.stages = Some(Stages { arrival: at, started: at, first: None, last: at, prompt_tokens, stops, blocks });
        reply.turn = self.admission.arrive(slot, self.slots[slot as usize].generation);
        if reply.turn == Turn::Running {
            reply.run(at);
            self.blocks_held += blocks;
        }
        let waiting = u64::from(self.admission.waiting());
        self.journal.totals.max_waiting = self.journal.totals.max_waiting.max(waiting);
        Answer { reply, head }
    }

    fn plain(&mut self, status: u16, extra: &str, body: &str, close: bool) -> Answer {
        self.journal.totals.refused += u64::from(status >= 400);
        let bytes = openai::plain_reply(status, extra, openai::JSON, body, close);
        Answer { reply: Reply::new(Score::Plain, None, close), head: Some(bytes) }
    }

    /// A recorded stream.
    fn play(&mut self, slot: u32, request: &Request, arrival: Arrival) -> Answer {
        let Some(model) = openai::model_of(&request.body) else {
            let body = openai::error_body(400, "the body must be JSON with a `model`, the id of a case", Some("model"));
            return self.plain(400, "", &body, request.close);
        };
        let Some(case) = self.cases.as_ref().and_then(|cases| cases.get(&model)).cloned() else {
            let body = openai::error_body(404, &format!("The case `{model}` does not exist."), Some("model"));
            return self.plain(404, "", &body, request.close);
        };
        let nonce = [Endpoint::Chat, Endpoint::Completions]
            .into_iter()
            .find_map(|endpoint| Asked::read(endpoint, &request.body, false).ok())
            .map_or_else(String::new, |asked| asked.nonce);
        let record = self.record(slot, nonce, model, arrival, case.writes.len());
        let raw = case.raw;
        let close = raw || request.close;
        let piece = self.config.script_bytes.unwrap_or(usize::MAX);
        let score = Score::Script { case, arrival: arrival.at, next: 0, offset: 0, piece };
        let reply = Reply::new(score, Some(record), close).written(self.config.stamp_every, None);
        Answer { reply, head: (!raw).then(|| SCRIPT_HEAD.to_vec()) }
    }

    fn record(&mut self, slot: u32, nonce: String, model: String, arrival: Arrival, chunks: usize) -> Record {
        let (conn, peer_port, request_no) = match self.slots[slot as usize].connection.as_deref_mut() {
            Some(connection) => {
                connection.requests += 1;
                (connection.serial, connection.peer_port, connection.requests - 1)
            }
            None => (0, 0, 0),
        };
        Record {
            nonce,
            model,
            conn,
            peer_port,
            request_no,
            rx: arrival.rx,
            rx_user: arrival.rx_user,
            started: None,
            head_written: None,
            chunks: Vec::with_capacity(chunks.min(4096)),
            done_written: None,
            tokens: 0,
            aborted: false,
            blocked: false,
            closed: arrival.rx_user,
            stamps_asked: 0,
        }
    }
}
