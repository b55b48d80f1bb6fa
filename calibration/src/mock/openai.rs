//! The OpenAI dialect as vLLM's Python front end speaks it: what a body asks, and the bytes of the answer.

use super::script::http_chunk;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    Chat,
    Completions,
}

/// What one request asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub endpoint: Endpoint,
    pub model: String,
    /// First whitespace-separated word of the first message or of the prompt.
    pub nonce: String,
    /// Whitespace-separated words, or token ids.
    pub prompt_tokens: u64,
    pub max_tokens: u32,
    pub stream: bool,
    pub include_usage: bool,
    /// Running usage on every event; only together with `include_usage`, as in vLLM.
    pub usage_each: bool,
    pub token_ids: bool,
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

#[derive(Deserialize)]
struct Body {
    model: Option<String>,
    messages: Option<Vec<Message>>,
    prompt: Option<Text>,
    max_tokens: Option<i64>,
    max_completion_tokens: Option<i64>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    n: Option<i64>,
    return_token_ids: Option<bool>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: Text,
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
struct Text {
    words: u64,
    first: Option<String>,
}

impl Text {
    fn join(&mut self, next: Text) {
        self.words += next.words;
        if self.first.is_none() {
            self.first = next.first;
        }
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        source.deserialize_any(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text, a list of texts or parts, or token ids")
    }
    fn visit_str<E>(self, text: &str) -> Result<Text, E> {
        let mut words = text.split_whitespace();
        let first = words.next().map(|word| word.chars().take(NONCE_LIMIT).collect());
        Ok(Text { words: u64::from(first.is_some()) + words.count() as u64, first })
    }
    fn visit_u64<E>(self, id: u64) -> Result<Text, E> {
        Ok(Text { words: 1, first: Some(id.to_string()) })
    }
    fn visit_unit<E>(self) -> Result<Text, E> {
        Ok(Text::default())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Text, A::Error> {
        let mut all = Text::default();
        while let Some(part) = parts.next_element::<Text>()? {
            all.join(part);
        }
        Ok(all)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut part: A) -> Result<Text, A::Error> {
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
    /// Reads a body.
    ///
    /// # Errors
    /// [`BadRequest`] with the parameter at fault.
    pub(super) fn read(endpoint: Endpoint, body: &[u8]) -> Result<Asked, BadRequest> {
        let body: Body = match serde_json::from_slice(body) {
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
                    // the nonce is the first word of the first message only
                    let mut messages = messages.into_iter().map(|message| message.content);
                    let mut all = messages.next().unwrap_or_default();
                    all.words += messages.map(|content| content.words).sum::<u64>();
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
        Ok(Asked {
            endpoint,
            model,
            nonce: text.first.unwrap_or_default(),
            prompt_tokens: text.words,
            max_tokens,
            stream,
            include_usage,
            usage_each: include_usage && each.unwrap_or(false),
            token_ids: body.return_token_ids.unwrap_or(false),
        })
    }
}

/// The model named in a body, for scripts, where nothing else matters.
pub(super) fn model_of(body: &[u8]) -> Option<String> {
    serde_json::from_slice::<ModelOnly>(body).ok().map(|body| body.model)
}

/// What all replies of one request share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Naming<'a> {
    pub asked: &'a Asked,
    /// Makes the reply's id.
    pub serial: u64,
    /// Seconds since the epoch.
    pub created: u64,
    pub tokens: u32,
    pub usage: bool,
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

    fn finish_reason(&self) -> &'static str {
        if self.tokens < self.asked.max_tokens { "stop" } else { "length" }
    }

    fn usage_json(&self, tokens: u32) -> String {
        let (prompt, completion) = (self.asked.prompt_tokens, u64::from(tokens));
        let total = prompt + completion;
        format!("{{\"prompt_tokens\":{prompt},\"total_tokens\":{total},\"completion_tokens\":{completion}}}")
    }
}

/// One write with tokens in it: its text counts the tokens (`t0000 t0001 `), patched in place.
#[derive(Debug)]
struct TokenWrite {
    bytes: Vec<u8>,
    text_at: usize,
    ids_at: Option<usize>,
    /// Running usage: prompt tokens, and where the total and the completion tokens stand.
    usage: Option<(u64, usize, usize)>,
    tokens: u32,
}

impl TokenWrite {
    fn new(naming: &Naming<'_>, before: &[u8], tokens: u32, finish: bool) -> Self {
        let mut data = naming.event_start().into_bytes();
        let chat = naming.asked.endpoint == Endpoint::Chat;
        data.extend_from_slice(if chat {
            b"{\"index\":0,\"delta\":{\"content\":\""
        } else {
            b"{\"index\":0,\"text\":\""
        });
        let text_in_data = data.len();
        (0..tokens).for_each(|_| data.extend_from_slice(b"t0000 "));
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
        if naming.usage && naming.asked.usage_each {
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
        let chunk = http_chunk(&data);
        // everything in front of the data inside the write: earlier chunks and this chunk's size line
        let shift = before.len() + (chunk.len() - data.len() - 2);
        let text_at = shift + text_in_data;
        let ids_at = ids_in_data.map(|at| shift + at);
        let usage = usage_in_data.map(|(prompt, total, completion)| (prompt, shift + total, shift + completion));
        TokenWrite { bytes: [before, &chunk].concat(), text_at, ids_at, usage, tokens }
    }

    /// The bytes with tokens numbered from `number` on, modulo 10,000.
    fn numbered(&mut self, number: u32) -> &[u8] {
        for k in 0..self.tokens {
            let mut rest = number.wrapping_add(k) % 10_000;
            let place = WORD * k as usize + 1;
            for digit in (0..4).rev() {
                let ascii = b'0' + (rest % 10) as u8;
                rest /= 10;
                self.bytes[self.text_at + place + digit] = ascii;
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

/// Writes a number into its place, blanks in front: JSON allows those, and the length stays.
fn right_aligned(place: &mut [u8], mut number: u64) {
    for (at, byte) in place.iter_mut().rev().enumerate() {
        *byte = if at > 0 && number == 0 { b' ' } else { b'0' + (number % 10) as u8 };
        number /= 10;
    }
}

/// All writes of one streamed reply after its head, formatted before the first is due.
#[derive(Debug)]
pub(super) struct StreamBytes {
    first: Option<TokenWrite>,
    middle: Option<TokenWrite>,
    last: TokenWrite,
    tail: Vec<u8>,
    events: u32,
    per_event: u32,
}

impl StreamBytes {
    /// `naming.tokens` tokens, `per_event` of them in each event but perhaps the last. Both at least 1.
    pub(super) fn new(naming: &Naming<'_>, per_event: u32) -> Self {
        let events = naming.tokens.div_ceil(per_event);
        let in_last = naming.tokens - (events - 1) * per_event;
        let role = match naming.asked.endpoint {
            Endpoint::Chat => {
                let role = "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\
                            \"finish_reason\":null}]";
                let usage = match naming.usage && naming.asked.usage_each {
                    true => format!(",\"usage\":{}", naming.usage_json(0)),
                    false => String::new(),
                };
                let end = ",\"prompt_token_ids\":null,\"prompt_text\":null}\n\n";
                http_chunk([&naming.event_start(), role, &usage, end].concat().as_bytes())
            }
            Endpoint::Completions => Vec::new(),
        };
        let before_last: &[u8] = if events == 1 { &role } else { &[] };
        let last = TokenWrite::new(naming, before_last, in_last, true);
        let first = (events > 1).then(|| TokenWrite::new(naming, &role, per_event, false));
        let middle = (events > 2).then(|| TokenWrite::new(naming, &[], per_event, false));
        let mut tail = Vec::new();
        if naming.usage {
            let usage = naming.usage_json(naming.tokens);
            let event =
                format!("{}],\"usage\":{usage},\"system_fingerprint\":\"tarebench-mock\"}}\n\n", naming.event_start());
            tail = http_chunk(event.as_bytes());
        }
        tail.extend_from_slice(&http_chunk(b"data: [DONE]\n\n"));
        tail.extend_from_slice(b"0\r\n\r\n");
        StreamBytes { first, middle, last, tail, events, per_event }
    }

    /// Number of token events, each one write.
    pub(super) fn events(&self) -> u32 {
        self.events
    }

    /// The bytes and the tokens of event `k`, counted from 0.
    pub(super) fn event(&mut self, k: u32) -> (&[u8], u32) {
        let write = match (k + 1 == self.events, k) {
            (true, _) => &mut self.last,
            (false, 0) => self.first.as_mut().expect("more than one event has a first"),
            (false, _) => self.middle.as_mut().expect("more than two events have a middle"),
        };
        let tokens = write.tokens;
        (write.numbered(k.wrapping_mul(self.per_event)), tokens)
    }

    /// Usage, `[DONE]` and the last chunk.
    pub(super) fn tail(&self) -> &[u8] {
        &self.tail
    }
}

/// A reply that is not streamed.
pub(super) fn whole_body(naming: &Naming<'_>) -> String {
    let text: String = (0..naming.tokens).map(|k| format!("t{:04} ", k % 10_000)).collect();
    let ids = match naming.asked.token_ids {
        true => {
            let ids: Vec<String> = (0..naming.tokens).map(|k| format!("1{:04}", k % 10_000)).collect();
            format!("[{}]", ids.join(","))
        }
        false => "null".to_owned(),
    };
    let (object, choice) = match naming.asked.endpoint {
        Endpoint::Chat => (
            "chat.completion",
            format!(
                "\"message\":{{\"role\":\"assistant\",\"content\":\"{text}\",\"refusal\":null,\"reasoning\":null}}"
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

/// A whole reply: head and body in one write.
pub(super) fn plain_reply(status: u16, extra: &str, body: &str, close: bool) -> Vec<u8> {
    let connection = if close { "connection: close\r\n" } else { "" };
    format!(
        "HTTP/1.1 {status} {}\r\nserver: tarebench-mock\r\n{extra}{connection}content-length: {}\r\n\
         content-type: application/json\r\n\r\n{body}",
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
        Asked::read(Endpoint::Chat, body.as_bytes())
    }

    #[test]
    fn words_and_nonce_of_every_shape_of_prompt() {
        let count = |endpoint, body: &str| {
            Asked::read(endpoint, body.as_bytes()).map(|asked| (asked.nonce, asked.prompt_tokens)).unwrap()
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
                r#"{"model":"m","messages":[{"content":[{"type":"text","text":"x y"},{"image_url":{"text":1}}]}]}"#,
                n("x", 2),
            ),
            (Completions, r#"{"model":"m","prompt":"a b c"}"#, n("a", 3)),
            (Completions, r#"{"model":"m","prompt":[5,6,7]}"#, n("5", 3)),
            (Completions, r#"{"model":"m","prompt":["a b","c"]}"#, n("a", 3)),
            (Completions, r#"{"model":"m","prompt":""}"#, n("", 0)),
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
    fn a_stream_counts_its_tokens_and_ends_once() {
        for (endpoint, tokens, per_event) in [
            (Endpoint::Chat, 1, 1),
            (Endpoint::Chat, 2, 1),
            (Endpoint::Chat, 7, 3),
            (Endpoint::Completions, 1, 4),
            (Endpoint::Completions, 5, 1),
        ] {
            let asked = Asked {
                endpoint,
                model: "m\"x".to_owned(),
                nonce: String::new(),
                prompt_tokens: 3,
                max_tokens: tokens,
                stream: true,
                include_usage: true,
                usage_each: true,
                token_ids: true,
            };
            let naming = Naming { asked: &asked, serial: 1, created: 2, tokens, usage: true };
            let mut stream = StreamBytes::new(&naming, per_event);
            assert_eq!(stream.events(), tokens.div_ceil(per_event));
            let (mut text, mut ids, mut total) = (String::new(), Vec::new(), 0);
            for k in 0..stream.events() {
                let (bytes, n) = stream.event(k);
                total += n;
                let mut chunks = unchunk(bytes);
                if k == 0 && endpoint == Endpoint::Chat {
                    let role = data(&chunks.remove(0));
                    assert_eq!(role["choices"][0]["delta"]["role"], "assistant");
                    assert_eq!(role["usage"]["completion_tokens"], 0);
                }
                assert_eq!(chunks.len(), 1);
                let event = data(&chunks[0]);
                assert_eq!(event["model"], "m\"x");
                assert_eq!(
                    (&event["usage"]["completion_tokens"], &event["usage"]["total_tokens"]),
                    (&total.into(), &(3 + total).into())
                );
                let choice = &event["choices"][0];
                let part = if endpoint == Endpoint::Chat { &choice["delta"]["content"] } else { &choice["text"] };
                text += part.as_str().unwrap();
                ids.extend(choice["token_ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()));
                let finish = if k + 1 == stream.events() { Value::from("length") } else { Value::Null };
                assert_eq!(choice["finish_reason"], finish);
            }
            assert_eq!(total, tokens);
            assert_eq!(text, (0..tokens).map(|k| format!("t{k:04} ")).collect::<String>());
            assert_eq!(ids, (0..u64::from(tokens)).map(|k| 10_000 + k).collect::<Vec<_>>());
            let tail = unchunk(stream.tail().strip_suffix(b"0\r\n\r\n").unwrap());
            assert_eq!(data(&tail[0])["usage"]["completion_tokens"], tokens);
            assert_eq!(tail[1], "data: [DONE]\n\n");
            let whole: Value = serde_json::from_str(&whole_body(&naming)).unwrap();
            assert_eq!(whole["usage"]["prompt_tokens"], 3);
        }
    }

    #[test]
    fn a_token_event_has_the_size_of_vllms() {
        let body = r#"{"model":"mock","messages":[{"content":"a"}],"stream":true,"max_tokens":9}"#;
        let asked = chat(body).unwrap();
        let naming = Naming { asked: &asked, serial: 1, created: 1_795_969_149, tokens: 9, usage: false };
        let size = StreamBytes::new(&naming, 1).event(1).0.len();
        assert!((190..=240).contains(&size), "{size}");
    }
}
