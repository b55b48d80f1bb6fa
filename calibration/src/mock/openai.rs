//! The OpenAI dialect as vLLM's Python front end speaks it: what a body asks, and the bytes of the answer.

use super::UsageMode;
use super::profile::Wish;
use super::script::http_chunk;
use super::timeline::fnv;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::ops::Range;

/// Most tokens a reply can have.
pub(super) const TOKEN_LIMIT: u32 = 1_000_000;
/// Tokens of a reply when the request does not say.
const DEFAULT_TOKENS: u32 = 16;
/// Longest nonce kept, in characters.
const NONCE_LIMIT: usize = 256;
/// Width of one token's text, and of one token id with its comma.
const WORD: usize = 6;
/// Width of a running count.
const COUNT: usize = 9;

/// Which endpoint was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Endpoint {
    #[default]
    Chat,
    Completions,
}

/// What one request asks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Asked {
    pub endpoint: Endpoint,
    pub model: String,
    /// `user`, else the first whitespace-separated word of the prompt; of a chat that goes on, where a user has spoken
    /// more than once, that of the last message of a user, and of one that begins, that of the first message.
    pub nonce: String,
    /// One for each whitespace-separated word, by [`Asked::count`] another number, and one for each token id.
    pub prompt_tokens: u64,
    /// How many of them are ids.
    pub ids: u64,
    pub max_tokens: u32,
    pub stream: bool,
    pub include_usage: bool,
    /// Running usage on every event; only together with `include_usage`, as in vLLM.
    pub usage_each: bool,
    pub token_ids: bool,
    /// Hashes of the prompt's words, when they were wanted.
    pub words: Vec<u64>,
    /// Its `mock` object.
    pub wish: Wish,
}

/// A request that is answered with status 400.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BadRequest {
    pub message: String,
    pub param: &'static str,
}

fn bad<T>(param: &'static str, message: impl Into<String>) -> Result<T, BadRequest> {
    Err(BadRequest { message: message.into(), param })
}

/// `HASHED`: hashes of the words are kept.
#[derive(Deserialize)]
struct Body<const HASHED: bool> {
    model: Option<String>,
    messages: Option<Vec<Message<HASHED>>>,
    prompt: Option<Text<HASHED>>,
    max_tokens: Option<i64>,
    max_completion_tokens: Option<i64>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    n: Option<i64>,
    user: Option<String>,
    return_token_ids: Option<bool>,
    mock: Option<serde_json::Map<String, serde_json::Value>>,
}

#[derive(Deserialize)]
struct Message<const HASHED: bool> {
    #[serde(default)]
    role: Role,
    #[serde(default)]
    content: Text<HASHED>,
}

/// Whether a message is of a user; whatever else may stand there.
#[derive(Default, Deserialize)]
#[serde(from = "serde_json::Value")]
struct Role {
    is_user: bool,
}

impl From<serde_json::Value> for Role {
    fn from(role: serde_json::Value) -> Self {
        Role { is_user: role == "user" }
    }
}

#[derive(Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
    continuous_usage_stats: Option<bool>,
}

#[derive(Deserialize)]
struct ModelOnly {
    model: String,
}

/// Text of any shape the dialect knows (string, parts, strings, token ids), counted and not kept.
#[derive(Debug, Default, PartialEq, Eq)]
struct Text<const HASHED: bool> {
    words: u64,
    /// Of these, token ids.
    ids: u64,
    first: Option<String>,
    hashes: Vec<u64>,
}

impl<const HASHED: bool> Text<HASHED> {
    fn join(&mut self, next: Self) {
        self.words += next.words;
        self.ids += next.ids;
        if self.first.is_none() {
            self.first = next.first;
        }
        self.hashes.extend_from_slice(&next.hashes);
    }
}

impl<'de, const HASHED: bool> Deserialize<'de> for Text<HASHED> {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        source.deserialize_any(TextVisitor)
    }
}

struct TextVisitor<const HASHED: bool>;

impl<'de, const HASHED: bool> Visitor<'de> for TextVisitor<HASHED> {
    type Value = Text<HASHED>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text, a list of texts or parts, or token ids")
    }
    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        let first = text.split_whitespace().next().map(|word| word.chars().take(NONCE_LIMIT).collect());
        if HASHED {
            let hashes: Vec<u64> = text.split_whitespace().map(|word| fnv(word.as_bytes())).collect();
            return Ok(Text { words: hashes.len() as u64, ids: 0, first, hashes });
        }
        Ok(Text { words: text.split_whitespace().count() as u64, ids: 0, first, hashes: Vec::new() })
    }
    fn visit_u64<E>(self, id: u64) -> Result<Self::Value, E> {
        let hashes = if HASHED { vec![fnv(&id.to_le_bytes())] } else { Vec::new() };
        Ok(Text { words: 1, ids: 1, first: Some(id.to_string()), hashes })
    }
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Text::default())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
        let mut all = Text::default();
        while let Some(part) = parts.next_element::<Text<HASHED>>()? {
            all.join(part);
        }
        Ok(all)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut part: A) -> Result<Self::Value, A::Error> {
        let mut all = Text::default();
        while let Some(key) = part.next_key::<String>()? {
            if key == "text" {
                all.join(part.next_value()?);
            } else {
                part.next_value::<IgnoredAny>()?;
            }
        }
        Ok(all)
    }
}

impl Asked {
    /// Reads a body; `hashed` keeps the hashes of the prompt's words.
    ///
    /// # Errors
    /// [`BadRequest`] with the parameter at fault.
    pub(super) fn read(endpoint: Endpoint, body: &[u8], hashed: bool) -> Result<Asked, BadRequest> {
        if hashed { Asked::read_as::<true>(endpoint, body) } else { Asked::read_as::<false>(endpoint, body) }
    }

    fn read_as<const HASHED: bool>(endpoint: Endpoint, body: &[u8]) -> Result<Asked, BadRequest> {
        let body: Body<HASHED> = match serde_json::from_slice(body) {
            Ok(body) => body,
            Err(e) => return bad("body", format!("the body is not the JSON of a request: {e}")),
        };
        let Some(model) = body.model.filter(|model| !model.is_empty()) else {
            return bad("model", "`model` is required");
        };
        let text = match endpoint {
            Endpoint::Chat => match body.messages {
                None => return bad("messages", "`messages` is required"),
                Some(messages) if messages.is_empty() => return bad("messages", "`messages` must not be empty"),
                Some(messages) => {
                    let mut of_user = messages.iter().enumerate().filter(|(_, message)| message.role.is_user);
                    // a chat that begins may have instructions in front of its one message, and its nonce in front of them
                    let asks = of_user.next().and(of_user.next_back()).map_or(0, |(place, _)| place);
                    let mut messages: Vec<Text<HASHED>> = messages.into_iter().map(|message| message.content).collect();
                    let first = messages[asks].first.take();
                    let mut all = Text::default();
                    messages.into_iter().for_each(|content| all.join(content));
                    all.first = first;
                    all
                }
            },
            Endpoint::Completions => match body.prompt {
                None => return bad("prompt", "`prompt` is required"),
                Some(prompt) => prompt,
            },
        };
        let (param, max_tokens) = match (body.max_completion_tokens, body.max_tokens) {
            (Some(n), _) => ("max_completion_tokens", n),
            (None, n) => ("max_tokens", n.unwrap_or(i64::from(DEFAULT_TOKENS))),
        };
        if max_tokens < 1 {
            return bad(param, format!("{param} must be at least 1, got {max_tokens}."));
        }
        let Some(max_tokens) = u32::try_from(max_tokens).ok().filter(|n| *n <= TOKEN_LIMIT) else {
            return bad(param, format!("{param}={max_tokens} cannot be greater than {TOKEN_LIMIT}."));
        };
        if body.n.is_some_and(|n| n != 1) {
            return bad("n", "Only n=1 is supported");
        }
        let stream = body.stream.unwrap_or(false);
        if body.stream_options.is_some() && !stream {
            return bad("stream_options", "Stream options can only be defined when `stream=True`.");
        }
        let (include_usage, each) =
            body.stream_options.map_or((None, None), |o| (o.include_usage, o.continuous_usage_stats));
        let include_usage = include_usage.unwrap_or(false);
        let wish = match body.mock.as_ref().map(Wish::read) {
            None => Wish::default(),
            Some(Ok(wish)) => wish,
            Some(Err(message)) => return bad("mock", message),
        };
        Ok(Asked {
            endpoint,
            model,
            nonce: match body.user {
                Some(user) if !user.is_empty() => user.chars().take(NONCE_LIMIT).collect(),
                _ => text.first.unwrap_or_default(),
            },
            prompt_tokens: text.words,
            ids: text.ids,
            max_tokens,
            stream,
            include_usage,
            usage_each: include_usage && each.unwrap_or(false),
            token_ids: body.return_token_ids.unwrap_or(false),
            words: text.hashes,
            wish,
        })
    }
}

impl Asked {
    /// Counts the words anew: so many tokens each, all of them together rounded, and so many more for a template.
    pub(super) fn count(&mut self, tokens_per_word: f64, template_tokens: u32) {
        let words = self.prompt_tokens - self.ids;
        let of_words = (words as f64 * tokens_per_word).round() as u64;
        self.prompt_tokens = of_words + self.ids + u64::from(template_tokens);
    }
}

/// The model named in a body, for scripts, where nothing else matters.
pub(super) fn model_of(body: &[u8]) -> Option<String> {
    serde_json::from_slice::<ModelOnly>(body).ok().map(|body| body.model)
}

/// Which usage a reply carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct UsageSent {
    /// After the last token.
    pub last: bool,
    /// Running, on every event.
    pub each: bool,
}

impl UsageSent {
    /// What a streamed reply carries: as the request asks, unless the mock is told otherwise.
    pub(super) fn of(asked: &Asked, mode: UsageMode) -> UsageSent {
        match mode {
            UsageMode::Asked => UsageSent { last: asked.include_usage, each: asked.usage_each },
            UsageMode::None => UsageSent::default(),
            UsageMode::Final => UsageSent { last: true, each: asked.usage_each },
            UsageMode::Every => UsageSent { last: true, each: true },
        }
    }
}

/// How a reply is cut into events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Tokens in one event, at least 1.
    pub per_event: u32,
    /// So many tokens come as reasoning first (chat only).
    pub reasoning: u32,
    /// Each token event is padded to so many bytes, framing included; 0: it is not.
    pub event_bytes: u32,
    /// A first event with nothing but the role (chat only).
    pub role_event: bool,
}

/// What all replies of one request share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Naming<'a> {
    pub asked: &'a Asked,
    /// Makes the reply's id.
    pub serial: u64,
    /// Seconds since the epoch.
    pub created: u64,
    /// At least 1.
    pub tokens: u32,
    pub usage: UsageSent,
    /// Tokens of the prompt that the prefix cache held; None without a cache.
    pub cached: Option<u64>,
    pub shape: Shape,
}

impl Naming<'_> {
    fn id(&self) -> String {
        let prefix = if self.asked.endpoint == Endpoint::Chat { "chatcmpl" } else { "cmpl" };
        format!("{prefix}-{:016x}", self.serial)
    }

    fn model_json(&self) -> String {
        serde_json::Value::from(self.asked.model.as_str()).to_string()
    }

    fn event_start(&self) -> String {
        let object = if self.asked.endpoint == Endpoint::Chat { "chat.completion.chunk" } else { "text_completion" };
        let (id, model) = (self.id(), self.model_json());
        format!(
            "data: {{\"id\":\"{id}\",\"object\":\"{object}\",\"created\":{},\"model\":{model},\"choices\":[",
            self.created
        )
    }

    /// The reply ends before the request's limit.
    pub(super) fn stops(&self) -> bool {
        self.tokens < self.asked.max_tokens
    }

    fn finish_reason(&self) -> &'static str {
        if self.stops() { "stop" } else { "length" }
    }

    /// Tokens that come as reasoning.
    fn reasoning(&self) -> u32 {
        if self.asked.endpoint == Endpoint::Chat { self.shape.reasoning.min(self.tokens) } else { 0 }
    }

    fn usage_json(&self, tokens: u32) -> String {
        let (prompt, completion) = (self.asked.prompt_tokens, u64::from(tokens));
        let total = prompt + completion;
        let mut json =
            format!("{{\"prompt_tokens\":{prompt},\"total_tokens\":{total},\"completion_tokens\":{completion}");
        if let Some(cached) = self.cached {
            json += &format!(",\"prompt_tokens_details\":{{\"cached_tokens\":{cached}}}");
        }
        if self.reasoning() > 0 {
            let reasoning = self.reasoning().min(tokens);
            json += &format!(",\"completion_tokens_details\":{{\"reasoning_tokens\":{reasoning}}}");
        }
        json + "}"
    }
}

/// What a token's text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Channel {
    Reasoning,
    Answer,
}

/// One event with tokens in it: its text counts the tokens (`t0000 t0001 `), patched in place.
#[derive(Debug)]
struct TokenEvent {
    bytes: Vec<u8>,
    /// Where the text stands; reasoning stands under both its names.
    text_at: [usize; 2],
    ids_at: Option<usize>,
    /// Running usage: prompt tokens, and where the total and the completion tokens stand.
    usage: Option<(u64, usize, usize)>,
    tokens: u32,
}

impl TokenEvent {
    fn new(naming: &Naming<'_>, channel: Channel, tokens: u32, finish: bool) -> Self {
        let plain = TokenEvent::padded(naming, channel, tokens, finish, 0);
        let asked = naming.shape.event_bytes as usize;
        if asked <= plain.bytes.len() {
            return plain;
        }
        let data = plain.bytes.len() - 4 - hex_digits_of_chunk(plain.bytes.len());
        let pad = data_of_chunk(asked).saturating_sub(data);
        TokenEvent::padded(naming, channel, tokens, finish, pad)
    }

    /// With `pad` bytes of text after the tokens.
    fn padded(naming: &Naming<'_>, channel: Channel, tokens: u32, finish: bool, pad: usize) -> Self {
        let mut data = naming.event_start().into_bytes();
        let chat = naming.asked.endpoint == Endpoint::Chat;
        let names: &[&[u8]] = match (chat, channel) {
            (true, Channel::Answer) => &[b"{\"index\":0,\"delta\":{\"content\":\""],
            // vLLM has used either name, and both at once
            (true, Channel::Reasoning) => {
                &[b"{\"index\":0,\"delta\":{\"reasoning\":\"", b"\",\"reasoning_content\":\""]
            }
            (false, _) => &[b"{\"index\":0,\"text\":\""],
        };
        let mut text_in_data = [0; 2];
        for (at, name) in names.iter().enumerate() {
            data.extend_from_slice(name);
            text_in_data[at..].fill(data.len());
            (0..tokens).for_each(|_| data.extend_from_slice(b"t0000 "));
        }
        data.resize(data.len() + pad, b'x');
        data.extend_from_slice(if chat { b"\"},\"logprobs\":null" } else { b"\",\"logprobs\":null" });
        match finish {
            true => data.extend_from_slice(format!(",\"finish_reason\":\"{}\"", naming.finish_reason()).as_bytes()),
            false => data.extend_from_slice(b",\"finish_reason\":null"),
        }
        if finish || !chat {
            data.extend_from_slice(b",\"stop_reason\":null");
        }
        if !chat {
            data.extend_from_slice(b",\"prompt_token_ids\":null");
        }
        data.extend_from_slice(b",\"token_ids\":");
        let mut ids_in_data = None;
        if naming.asked.token_ids {
            ids_in_data = Some(data.len() + 1);
            let ids: Vec<&str> = (0..tokens).map(|_| "10000").collect();
            data.extend_from_slice(format!("[{}]", ids.join(",")).as_bytes());
        } else {
            data.extend_from_slice(b"null");
        }
        data.extend_from_slice(b"}]");
        let mut usage_in_data = None;
        if naming.usage.each {
            let prompt = naming.asked.prompt_tokens;
            data.extend_from_slice(format!(",\"usage\":{{\"prompt_tokens\":{prompt},\"total_tokens\":").as_bytes());
            let total_at = data.len();
            data.extend_from_slice(&[b' '; COUNT]);
            data.extend_from_slice(b",\"completion_tokens\":");
            usage_in_data = Some((prompt, total_at, data.len()));
            data.extend_from_slice(&[b' '; COUNT]);
            data.push(b'}');
        }
        data.extend_from_slice(b"}\n\n");
        let bytes = http_chunk(&data);
        // the chunk's size line stands in front of the data
        let shift = bytes.len() - data.len() - 2;
        TokenEvent {
            text_at: text_in_data.map(|at| shift + at),
            ids_at: ids_in_data.map(|at| shift + at),
            usage: usage_in_data.map(|(prompt, total, completion)| (prompt, shift + total, shift + completion)),
            bytes,
            tokens,
        }
    }

    /// The bytes with tokens numbered from `number` on, modulo 10,000.
    fn numbered(&mut self, number: u32) -> &[u8] {
        for k in 0..self.tokens {
            let mut rest = number.wrapping_add(k) % 10_000;
            let place = WORD * k as usize + 1;
            for digit in (0..4).rev() {
                let ascii = b'0' + (rest % 10) as u8;
                rest /= 10;
                self.bytes[self.text_at[0] + place + digit] = ascii;
                self.bytes[self.text_at[1] + place + digit] = ascii;
                if let Some(ids_at) = self.ids_at {
                    self.bytes[ids_at + place + digit] = ascii;
                }
            }
        }
        if let Some((prompt, total_at, completion_at)) = self.usage {
            let completion = u64::from(number) + u64::from(self.tokens);
            right_aligned(&mut self.bytes[total_at..total_at + COUNT], prompt + completion);
            right_aligned(&mut self.bytes[completion_at..completion_at + COUNT], completion);
        }
        &self.bytes
    }
}

/// Hex digits in the size line of a chunk that is `len` bytes long with its framing.
fn hex_digits_of_chunk(len: usize) -> usize {
    (1..16).find(|digits| len >= 4 + digits && len - 4 - digits < 1 << (4 * digits)).unwrap_or(15)
}

/// Most data that a chunk of `len` bytes can carry, framing included. One length in each power of 16 cannot be
/// reached; the chunk is then a byte shorter.
fn data_of_chunk(len: usize) -> usize {
    let digits = hex_digits_of_chunk(len);
    len.saturating_sub(4 + digits)
}

/// Writes a number into its place, blanks in front: JSON allows those, and the length stays.
fn right_aligned(place: &mut [u8], mut number: u64) {
    for (at, byte) in place.iter_mut().rev().enumerate() {
        *byte = if at > 0 && number == 0 { b' ' } else { b'0' + (number % 10) as u8 };
        number /= 10;
    }
}

/// All events of one streamed reply, formatted before the first is due.
///
/// Reasoning and answer never share an event.
#[derive(Debug)]
pub(super) struct StreamBytes {
    role: Vec<u8>,
    reasoning: Option<TokenEvent>,
    /// The last event of the reasoning, when it has fewer tokens and is not the last of all.
    reasoning_rest: Option<TokenEvent>,
    answer: Option<TokenEvent>,
    last: TokenEvent,
    tail: Vec<u8>,
    tokens: u32,
    reasoning_tokens: u32,
    reasoning_events: u32,
    events: u32,
    per_event: u32,
}

impl StreamBytes {
    pub(super) fn new(naming: &Naming<'_>) -> Self {
        let Shape { per_event, role_event, .. } = naming.shape;
        let (tokens, reasoning_tokens) = (naming.tokens, naming.reasoning());
        let reasoning_events = reasoning_tokens.div_ceil(per_event);
        let answer_tokens = tokens - reasoning_tokens;
        let events = reasoning_events + answer_tokens.div_ceil(per_event);
        let mut role = Vec::new();
        if naming.asked.endpoint == Endpoint::Chat && role_event {
            let choice = "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\
                          \"finish_reason\":null}]";
            let usage = match naming.usage.each {
                true => format!(",\"usage\":{}", naming.usage_json(0)),
                false => String::new(),
            };
            let end = ",\"prompt_token_ids\":null,\"prompt_text\":null}\n\n";
            role = http_chunk([&naming.event_start(), choice, &usage, end].concat().as_bytes());
        }
        let in_last_of = |tokens: u32| tokens - (tokens.div_ceil(per_event) - 1) * per_event;
        let event = |channel, tokens| TokenEvent::new(naming, channel, tokens, false);
        let (last, reasoning, reasoning_rest, answer) = if answer_tokens == 0 {
            let last = TokenEvent::new(naming, Channel::Reasoning, in_last_of(reasoning_tokens), true);
            (last, (reasoning_events > 1).then(|| event(Channel::Reasoning, per_event)), None, None)
        } else {
            let last = TokenEvent::new(naming, Channel::Answer, in_last_of(answer_tokens), true);
            let rest = reasoning_tokens % per_event;
            (
                last,
                (reasoning_tokens >= per_event).then(|| event(Channel::Reasoning, per_event)),
                (rest > 0).then(|| event(Channel::Reasoning, rest)),
                (answer_tokens > per_event).then(|| event(Channel::Answer, per_event)),
            )
        };
        let mut tail = Vec::new();
        if naming.usage.last {
            let usage = naming.usage_json(naming.tokens);
            let event =
                format!("{}],\"usage\":{usage},\"system_fingerprint\":\"tarebench-mock\"}}\n\n", naming.event_start());
            tail = http_chunk(event.as_bytes());
        }
        tail.extend_from_slice(&http_chunk(b"data: [DONE]\n\n"));
        tail.extend_from_slice(b"0\r\n\r\n");
        StreamBytes {
            role,
            reasoning,
            reasoning_rest,
            answer,
            last,
            tail,
            tokens,
            reasoning_tokens,
            reasoning_events,
            events,
            per_event,
        }
    }

    /// Number of token events.
    pub(super) fn events(&self) -> u32 {
        self.events
    }

    /// The event that carries the role and comes in front of the first token event; may be empty.
    pub(super) fn role(&self) -> &[u8] {
        &self.role
    }

    /// The bytes and the tokens of event `k`, counted from 0.
    pub(super) fn event(&mut self, k: u32) -> (&[u8], u32) {
        let (event, number) = if k + 1 == self.events {
            let number = self.tokens - self.last.tokens;
            (&mut self.last, number)
        } else if k < self.reasoning_events {
            let is_rest = k + 1 == self.reasoning_events && self.reasoning_rest.is_some();
            let event = if is_rest { self.reasoning_rest.as_mut() } else { self.reasoning.as_mut() };
            (event.expect("reasoning before the last event has its event"), k * self.per_event)
        } else {
            let number = self.reasoning_tokens + (k - self.reasoning_events) * self.per_event;
            (self.answer.as_mut().expect("an answer of several events has one that is not its last"), number)
        };
        let tokens = event.tokens;
        (event.numbered(number), tokens)
    }

    /// Usage, `[DONE]` and the last chunk.
    pub(super) fn tail(&self) -> &[u8] {
        &self.tail
    }
}

/// A reply that is not streamed.
pub(super) fn whole_body(naming: &Naming<'_>) -> String {
    let numbers = |tokens: Range<u32>, before: char, after: char| {
        let mut out = String::with_capacity(WORD * tokens.len());
        for k in tokens {
            let digit = |power: u32| char::from(b'0' + (k / power % 10) as u8);
            out.extend([before, digit(1000), digit(100), digit(10), digit(1), after]);
        }
        out
    };
    let reasoning_tokens = naming.reasoning();
    let text = numbers(reasoning_tokens..naming.tokens, 't', ' ');
    let reasoning = match reasoning_tokens {
        0 => "null".to_owned(),
        n => format!("\"{}\"", numbers(0..n, 't', ' ')),
    };
    let ids = match naming.asked.token_ids {
        true => format!("[{}]", numbers(0..naming.tokens, '1', ',').trim_end_matches(',')),
        false => "null".to_owned(),
    };
    let (object, choice) = match naming.asked.endpoint {
        Endpoint::Chat => (
            "chat.completion",
            format!(
                "\"message\":{{\"role\":\"assistant\",\"content\":\"{text}\",\"refusal\":null,\
                 \"reasoning\":{reasoning},\"reasoning_content\":{reasoning}}}"
            ),
        ),
        Endpoint::Completions => ("text_completion", format!("\"text\":\"{text}\"")),
    };
    let finish = naming.finish_reason();
    format!(
        "{{\"id\":\"{}\",\"object\":\"{object}\",\"created\":{},\"model\":{},\"choices\":[{{\"index\":0,{choice},\
         \"logprobs\":null,\"finish_reason\":\"{finish}\",\"stop_reason\":null,\"token_ids\":{ids}}}],\
         \"system_fingerprint\":\"tarebench-mock\",\"usage\":{}}}",
        naming.id(),
        naming.created,
        naming.model_json(),
        naming.usage_json(naming.tokens),
    )
}

/// The body of `/v1/models`.
pub(super) fn models_body(models: &[&str], created: u64) -> String {
    let data: Vec<serde_json::Value> = models
        .iter()
        .map(|id| {
            serde_json::json!({"id": id, "object": "model", "created": created, "owned_by": "tarebench", "root": id,
                               "parent": null, "max_model_len": TOKEN_LIMIT})
        })
        .collect();
    serde_json::json!({"object": "list", "data": data}).to_string()
}

/// The body of an error, in vLLM's shape.
pub(super) fn error_body(status: u16, message: &str, param: Option<&str>) -> String {
    let kind = match status {
        404 => "NotFoundError",
        _ => "BadRequestError",
    };
    serde_json::json!({"error": {"message": message, "type": kind, "param": param, "code": status}}).to_string()
}

/// The type of every body but that of `/metrics`.
pub(super) const JSON: &str = "application/json";
/// The type of `/metrics`.
pub(super) const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A whole reply: head and body in one write.
pub(super) fn plain_reply(status: u16, extra: &str, kind: &str, body: &str, close: bool) -> Vec<u8> {
    let connection = if close { "connection: close\r\n" } else { "" };
    format!(
        "HTTP/1.1 {status} {}\r\nserver: tarebench-mock\r\n{extra}{connection}content-length: {}\r\n\
         content-type: {kind}\r\n\r\n{body}",
        reason(status),
        body.len(),
    )
    .into_bytes()
}

/// The head of a streamed reply.
pub(super) fn stream_head(close: bool, claims_keep_alive: bool) -> &'static [u8] {
    match (close, claims_keep_alive) {
        (true, _) => {
            b"HTTP/1.1 200 OK\r\nserver: tarebench-mock\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
              connection: close\r\ntransfer-encoding: chunked\r\n\r\n"
        }
        (false, true) => {
            b"HTTP/1.1 200 OK\r\nserver: tarebench-mock\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
              keep-alive: timeout=5, max=100\r\ntransfer-encoding: chunked\r\n\r\n"
        }
        (false, false) => {
            b"HTTP/1.1 200 OK\r\nserver: tarebench-mock\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
              transfer-encoding: chunked\r\n\r\n"
        }
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        405 => "Method Not Allowed",
        413 => "Content Too Large",
        417 => "Expectation Failed",
        431 => "Request Header Fields Too Large",
        505 => "HTTP Version Not Supported",
        _ => "Error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn chat(body: &str) -> Result<Asked, BadRequest> {
        Asked::read(Endpoint::Chat, body.as_bytes(), false)
    }

    const SHAPE: Shape = Shape { per_event: 1, reasoning: 0, event_bytes: 0, role_event: true };
    const ALL_USAGE: UsageSent = UsageSent { last: true, each: true };

    #[test]
    fn words_and_nonce_of_every_shape_of_prompt() {
        let count = |endpoint, body: &str| {
            let plain = Asked::read(endpoint, body.as_bytes(), false).unwrap();
            let hashed = Asked::read(endpoint, body.as_bytes(), true).unwrap();
            assert_eq!((plain.words.len(), hashed.words.len() as u64), (0, plain.prompt_tokens), "{body}");
            (plain.nonce, plain.prompt_tokens)
        };
        let n = |nonce: &str, words| (nonce.to_owned(), words);
        use Endpoint::{Chat, Completions};
        for (endpoint, body, expected) in [
            (Chat, r#"{"model":"m","messages":[{"role":"user","content":" ab  c\nd "}]}"#, n("ab", 3)),
            (
                Chat,
                r#"{"model":"m","messages":[{"content":"a"},{"role":"assistant"},{"content":"b \u00e9"}]}"#,
                n("a", 3),
            ),
            (Chat, r#"{"model":"m","messages":[{"content":null},{"content":"b"}]}"#, n("", 1)),
            (
                Chat,
                r#"{"model":"m","messages":[{"role":"system","content":"a b"},{"role":"user","content":"c"}]}"#,
                n("a", 3),
            ),
            (
                Chat,
                r#"{"model":"m","messages":[{"role":"system","content":"a"},{"role":"user","content":"b"},
                    {"role":"assistant","content":"c"},{"role":"user","content":"d e"}]}"#,
                n("d", 5),
            ),
            (
                Chat,
                r#"{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},
                    {"role":"user","content":[{"type":"text","text":"c d"}]},{"role":"tool","content":"e"}],"user":""}"#,
                n("c", 5),
            ),
            (Chat, r#"{"model":"m","messages":[{"role":["user"],"content":"a"},{"role":7,"content":"b"}]}"#, n("a", 2)),
            (
                Chat,
                r#"{"model":"m","messages":[{"content":[{"type":"text","text":"x y"},{"image_url":{"text":1}}]}]}"#,
                n("x", 2),
            ),
            (Completions, r#"{"model":"m","prompt":"a b c"}"#, n("a", 3)),
            (Completions, r#"{"model":"m","prompt":[5,6,7]}"#, n("5", 3)),
            (Completions, r#"{"model":"m","prompt":["a b","c"]}"#, n("a", 3)),
            (Completions, r#"{"model":"m","prompt":""}"#, n("", 0)),
            (Completions, r#"{"model":"m","prompt":[5,6],"user":"u"}"#, n("u", 2)),
            (Chat, r#"{"model":"m","messages":[{"content":"a b"}],"user":""}"#, n("a", 2)),
        ] {
            assert_eq!(count(endpoint, body), expected, "{body}");
        }
    }

    #[test]
    fn wrong_bodies_name_the_parameter() {
        for (body, param) in [
            ("", "body"),
            ("{\"model\":", "body"),
            ("[1]", "body"),
            (r#"{"model":1}"#, "body"),
            (r#"{"messages":[{"content":"a"}]}"#, "model"),
            (r#"{"model":"m"}"#, "messages"),
            (r#"{"model":"m","messages":[]}"#, "messages"),
            (r#"{"model":"m","messages":[{}],"max_tokens":0}"#, "max_tokens"),
            (r#"{"model":"m","messages":[{}],"max_tokens":5,"max_completion_tokens":-1}"#, "max_completion_tokens"),
            (r#"{"model":"m","messages":[{}],"max_tokens":1000001}"#, "max_tokens"),
            (r#"{"model":"m","messages":[{}],"n":2}"#, "n"),
            (r#"{"model":"m","messages":[{}],"mock":{"tft":2}}"#, "mock"),
            (r#"{"model":"m","messages":[{}],"mock":[]}"#, "body"),
            (r#"{"model":"m","messages":[{}],"stream_options":{}}"#, "stream_options"),
        ] {
            assert_eq!(chat(body).unwrap_err().param, param, "{body}");
        }
        let deep = format!(r#"{{"model":"m","messages":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(chat(&deep).unwrap_err().param, "body");
    }

    /// Splits whole HTTP chunks and gives their data.
    fn unchunk(mut bytes: &[u8]) -> Vec<String> {
        let mut out = Vec::new();
        while !bytes.is_empty() {
            let line = bytes.iter().position(|b| *b == b'\r').unwrap();
            let size = usize::from_str_radix(std::str::from_utf8(&bytes[..line]).unwrap(), 16).unwrap();
            out.push(String::from_utf8(bytes[line + 2..line + 2 + size].to_vec()).unwrap());
            assert_eq!(&bytes[line + 2 + size..line + 4 + size], b"\r\n");
            bytes = &bytes[line + 4 + size..];
        }
        out
    }

    fn data(chunk: &str) -> Value {
        serde_json::from_str(chunk.strip_prefix("data: ").unwrap().strip_suffix("\n\n").unwrap()).unwrap()
    }

    #[test]
    fn words_are_counted_otherwise_when_told_and_ids_are_not() {
        let count = |endpoint, body: &str, per_word| {
            let mut asked = Asked::read(endpoint, body.as_bytes(), false).unwrap();
            asked.count(per_word, 9);
            asked.prompt_tokens
        };
        let chat = r#"{"model":"m","messages":[{"role":"user","content":"a b c d e f g"}]}"#;
        assert_eq!(count(Endpoint::Chat, chat, 1.13), 17, "7.91 rounded, and the template");
        assert_eq!(count(Endpoint::Chat, chat, 1.0), 16);
        let ids = r#"{"model":"m","prompt":[1,2,3]}"#;
        assert_eq!(count(Endpoint::Completions, ids, 1.5), 12);
    }

    #[test]
    fn a_stream_counts_its_tokens_and_ends_once() {
        for (endpoint, tokens, per_event, reasoning, role_event) in [
            (Endpoint::Chat, 1, 1, 0, true),
            (Endpoint::Chat, 2, 1, 0, false),
            (Endpoint::Chat, 7, 3, 0, true),
            (Endpoint::Chat, 7, 1, 3, true),
            (Endpoint::Chat, 9, 2, 5, true),
            (Endpoint::Chat, 9, 2, 4, false),
            (Endpoint::Chat, 3, 2, 1, true),
            (Endpoint::Chat, 5, 2, 8, true),
            (Endpoint::Chat, 2, 2, 2, true),
            (Endpoint::Completions, 1, 4, 0, true),
            (Endpoint::Completions, 5, 1, 2, true),
        ] {
            let asked = Asked {
                endpoint,
                model: "m\"x".to_owned(),
                prompt_tokens: 3,
                max_tokens: tokens,
                stream: true,
                token_ids: true,
                ..Asked::default()
            };
            let shape = Shape { per_event, reasoning, role_event, ..SHAPE };
            let naming =
                Naming { asked: &asked, serial: 1, created: 2, tokens, usage: ALL_USAGE, cached: Some(2), shape };
            let chat = endpoint == Endpoint::Chat;
            let reasoning = if chat { reasoning.min(tokens) } else { 0 };
            let mut stream = StreamBytes::new(&naming);
            let events = reasoning.div_ceil(per_event) + (tokens - reasoning).div_ceil(per_event);
            assert_eq!(stream.events(), events);
            match unchunk(stream.role()).first() {
                Some(role) => {
                    let role = data(role);
                    assert_eq!(role["choices"][0]["delta"]["role"], "assistant");
                    assert_eq!(role["usage"]["completion_tokens"], 0);
                }
                None => assert!(!chat || !role_event),
            }
            let (mut thought, mut text, mut ids, mut total) = (String::new(), String::new(), Vec::new(), 0);
            for k in 0..stream.events() {
                let (bytes, n) = stream.event(k);
                total += n;
                let chunks = unchunk(bytes);
                assert_eq!(chunks.len(), 1);
                let event = data(&chunks[0]);
                assert_eq!(event["model"], "m\"x");
                assert_eq!(
                    (&event["usage"]["completion_tokens"], &event["usage"]["total_tokens"]),
                    (&total.into(), &(3 + total).into())
                );
                let choice = &event["choices"][0];
                if chat {
                    let delta = &choice["delta"];
                    assert_eq!(delta["reasoning"], delta["reasoning_content"]);
                    assert!(delta["reasoning"].is_string() != delta["content"].is_string());
                    thought += delta["reasoning"].as_str().unwrap_or("");
                    text += delta["content"].as_str().unwrap_or("");
                } else {
                    text += choice["text"].as_str().unwrap();
                }
                ids.extend(choice["token_ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()));
                let finish = if k + 1 == stream.events() { Value::from("length") } else { Value::Null };
                assert_eq!(choice["finish_reason"], finish);
            }
            let numbered = |range: Range<u32>| range.map(|k| format!("t{k:04} ")).collect::<String>();
            assert_eq!(total, tokens);
            assert_eq!((thought, text), (numbered(0..reasoning), numbered(reasoning..tokens)));
            assert_eq!(ids, (0..u64::from(tokens)).map(|k| 10_000 + k).collect::<Vec<_>>());
            let tail = unchunk(stream.tail().strip_suffix(b"0\r\n\r\n").unwrap());
            let usage = &data(&tail[0])["usage"];
            assert_eq!(usage["completion_tokens"], tokens);
            assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], 2);
            let expected = if reasoning > 0 { Value::from(reasoning) } else { Value::Null };
            assert_eq!(usage["completion_tokens_details"]["reasoning_tokens"], expected);
            assert_eq!(tail[1], "data: [DONE]\n\n");
            let whole: Value = serde_json::from_str(&whole_body(&naming)).unwrap();
            assert_eq!(whole["usage"], *usage);
            assert_eq!(whole["choices"][0]["token_ids"].as_array().unwrap().len(), tokens as usize);
            if chat {
                let message = &whole["choices"][0]["message"];
                assert_eq!(message["content"], numbered(reasoning..tokens));
                let thought = if reasoning > 0 { Value::from(numbered(0..reasoning)) } else { Value::Null };
                assert_eq!((&message["reasoning"], &message["reasoning_content"]), (&thought, &thought));
            }
        }
    }

    #[test]
    fn usage_is_sent_as_asked_or_as_told() {
        let asked = |include_usage, usage_each| Asked { include_usage, usage_each, ..Asked::default() };
        let sent = |asked, mode| {
            let UsageSent { last, each } = UsageSent::of(&asked, mode);
            (last, each)
        };
        assert_eq!(sent(asked(false, false), UsageMode::Asked), (false, false));
        assert_eq!(sent(asked(true, true), UsageMode::Asked), (true, true));
        assert_eq!(sent(asked(true, true), UsageMode::None), (false, false));
        assert_eq!(sent(asked(false, false), UsageMode::Final), (true, false));
        assert_eq!(sent(asked(true, true), UsageMode::Final), (true, true));
        assert_eq!(sent(asked(false, false), UsageMode::Every), (true, true));
    }

    fn event_size(event_bytes: u32) -> usize {
        let body = r#"{"model":"mock","messages":[{"content":"a"}],"stream":true,"max_tokens":9}"#;
        let asked = chat(body).unwrap();
        let (usage, shape) = (UsageSent::default(), Shape { event_bytes, ..SHAPE });
        let created = 1_795_969_149;
        let naming = Naming { asked: &asked, serial: 1, created, tokens: 9, usage, cached: None, shape };
        let mut stream = StreamBytes::new(&naming);
        let bytes = stream.event(1).0;
        let event = data(&unchunk(bytes)[0]);
        assert!(event["choices"][0]["delta"]["content"].as_str().unwrap().starts_with("t0001 "));
        bytes.len()
    }

    #[test]
    fn a_token_event_has_the_size_of_vllms() {
        assert!((190..=240).contains(&event_size(0)), "{}", event_size(0));
    }

    #[test]
    fn events_are_padded_to_the_byte() {
        for size in [250, 261, 263, 300, 4_096, 65_536, 1 << 20] {
            assert_eq!(event_size(size), size as usize);
        }
        // no chunk is so long: 0xff bytes of data make 261, 0x100 make 263
        for (size, nearest) in [(262, 261), (4_102, 4_102), (4_103, 4_102), (65_544, 65_543)] {
            assert_eq!(event_size(size), nearest, "{size}");
        }
        assert_eq!(event_size(10), event_size(0), "never cut");
    }
}
