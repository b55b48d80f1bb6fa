//! What an OpenAI-compatible event or document says, read leniently: servers differ in every field, and
//! hostile ones in type. Covers chat and text completions, streamed (`delta`, `text`) and not (`message`).

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// A JSON value of which we ask only whether something is in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Loose<'a> {
    /// Not there.
    #[default]
    Absent,
    /// `null`.
    Null,
    /// A string.
    Text(Cow<'a, str>),
    /// A whole number of at least 0.
    Number(u64),
    /// A list or object of so many members.
    Members(usize),
    /// A boolean, or any other number.
    Other,
}

impl Loose<'_> {
    /// Neither absent, null nor empty.
    pub fn is_something(&self) -> bool {
        match self {
            Loose::Absent | Loose::Null => false,
            Loose::Text(text) => !text.is_empty(),
            Loose::Members(n) => *n > 0,
            Loose::Number(_) | Loose::Other => true,
        }
    }

    fn text(&self) -> Option<&str> {
        match self {
            Loose::Text(text) => Some(text),
            _ => None,
        }
    }

    fn number(&self) -> Option<u64> {
        match self {
            Loose::Number(n) => Some(*n),
            _ => None,
        }
    }

    fn members(&self) -> Option<u64> {
        match self {
            Loose::Members(n) => Some(*n as u64),
            _ => None,
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Loose<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Loose<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any JSON value")
            }
            fn visit_unit<E>(self) -> Result<Loose<'de>, E> {
                Ok(Loose::Null)
            }
            fn visit_borrowed_str<E>(self, s: &'de str) -> Result<Loose<'de>, E> {
                Ok(Loose::Text(Cow::Borrowed(s)))
            }
            fn visit_str<E>(self, s: &str) -> Result<Loose<'de>, E> {
                Ok(Loose::Text(Cow::Owned(s.to_owned())))
            }
            fn visit_u64<E>(self, n: u64) -> Result<Loose<'de>, E> {
                Ok(Loose::Number(n))
            }
            fn visit_i64<E>(self, _: i64) -> Result<Loose<'de>, E> {
                Ok(Loose::Other)
            }
            fn visit_f64<E>(self, _: f64) -> Result<Loose<'de>, E> {
                Ok(Loose::Other)
            }
            fn visit_bool<E>(self, _: bool) -> Result<Loose<'de>, E> {
                Ok(Loose::Other)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Loose<'de>, A::Error> {
                let mut n = 0;
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    n += 1;
                }
                Ok(Loose::Members(n))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Loose<'de>, A::Error> {
                let mut n = 0;
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
                    n += 1;
                }
                Ok(Loose::Members(n))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// A part that is worth nothing when it has another shape than expected.
fn lenient<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    let raw = <&RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(raw.get()).unwrap_or_default())
}

#[derive(serde::Deserialize)]
struct Event<'a> {
    #[serde(default, borrow)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(default, borrow)]
    error: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "lenient")]
    usage: Option<Usage<'a>>,
    #[serde(default, borrow)]
    model: Loose<'a>,
    #[serde(default, borrow)]
    object: Loose<'a>,
    #[serde(default, borrow)]
    message: Loose<'a>,
    #[serde(default, borrow)]
    timings: Option<&'a RawValue>,
    #[serde(default, borrow)]
    metrics: Option<&'a RawValue>,
}

#[derive(serde::Deserialize)]
struct Choice<'a> {
    #[serde(default, borrow)]
    index: Loose<'a>,
    #[serde(default, borrow)]
    delta: Option<Delta<'a>>,
    #[serde(default, borrow)]
    message: Option<Delta<'a>>,
    #[serde(default, borrow)]
    text: Loose<'a>,
    #[serde(default, borrow)]
    finish_reason: Loose<'a>,
    #[serde(default, borrow)]
    token_ids: Loose<'a>,
    #[serde(default, borrow)]
    output_ids: Loose<'a>,
    #[serde(default, borrow, deserialize_with = "lenient")]
    logprobs: Option<Logprobs<'a>>,
}

#[derive(Default, serde::Deserialize)]
struct Delta<'a> {
    #[serde(default, borrow)]
    role: Loose<'a>,
    #[serde(default, borrow)]
    content: Loose<'a>,
    #[serde(default, borrow)]
    refusal: Loose<'a>,
    #[serde(default, borrow)]
    reasoning: Loose<'a>,
    #[serde(default, borrow)]
    reasoning_content: Loose<'a>,
    #[serde(default, borrow, deserialize_with = "lenient")]
    tool_calls: Option<Vec<ToolCall<'a>>>,
    #[serde(default, borrow, deserialize_with = "lenient")]
    function_call: Option<Function<'a>>,
}

#[derive(Default, serde::Deserialize)]
struct ToolCall<'a> {
    #[serde(default, borrow, deserialize_with = "lenient")]
    function: Option<Function<'a>>,
}

#[derive(Default, serde::Deserialize)]
struct Function<'a> {
    #[serde(default, borrow)]
    name: Loose<'a>,
    #[serde(default, borrow)]
    arguments: Loose<'a>,
}

#[derive(Default, serde::Deserialize)]
struct Logprobs<'a> {
    #[serde(default, borrow)]
    content: Loose<'a>,
    #[serde(default, borrow)]
    tokens: Loose<'a>,
}

#[derive(Default, serde::Deserialize)]
struct Usage<'a> {
    #[serde(default, borrow)]
    prompt_tokens: Loose<'a>,
    #[serde(default, borrow)]
    completion_tokens: Loose<'a>,
    #[serde(default, borrow)]
    total_tokens: Loose<'a>,
    #[serde(default, borrow, deserialize_with = "lenient")]
    prompt_tokens_details: Option<Details<'a>>,
    #[serde(default, borrow, deserialize_with = "lenient")]
    completion_tokens_details: Option<Details<'a>>,
}

#[derive(Default, serde::Deserialize)]
struct Details<'a> {
    #[serde(default, borrow)]
    cached_tokens: Loose<'a>,
    #[serde(default, borrow)]
    reasoning_tokens: Loose<'a>,
}

/// Token counts as the server last gave them; each null until given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageFacts {
    /// Prompt tokens.
    pub prompt: Option<u64>,
    /// Completion tokens.
    pub completion: Option<u64>,
    /// The server's own sum.
    pub total: Option<u64>,
    /// Prompt tokens found in the cache.
    pub cached: Option<u64>,
    /// Completion tokens spent thinking.
    pub reasoning: Option<u64>,
}

impl UsageFacts {
    /// Later values replace earlier ones, field by field; nothing is summed.
    pub fn update(&mut self, later: UsageFacts) {
        let put = |place: &mut Option<u64>, value: Option<u64>| *place = value.or(*place);
        put(&mut self.prompt, later.prompt);
        put(&mut self.completion, later.completion);
        put(&mut self.total, later.total);
        put(&mut self.cached, later.cached);
        put(&mut self.reasoning, later.reasoning);
    }
}

/// What one choice of an event carries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChoiceFacts {
    /// Choice index.
    pub index: u32,
    /// The event names a role for it.
    pub has_role: bool,
    /// Visible answer text (refusals included), when texts are kept; else empty.
    pub text: String,
    /// It has visible answer text.
    pub answer: bool,
    /// It has thinking text.
    pub thinking: bool,
    /// It has a tool or function name, or arguments.
    pub tool: bool,
    /// It has a call of a tool or function, of whatever kind.
    pub calls: bool,
    /// Its answer is no text, but a list of parts or the like.
    pub parts: bool,
    /// So many token ids; None when it has no such list.
    pub token_ids: Option<u64>,
    /// It has log probabilities of tokens.
    pub logprobs: bool,
    /// Finish reason, when it has one.
    pub finish_reason: Option<String>,
}

impl ChoiceFacts {
    /// A token in any channel, or the proof of one.
    pub fn has_token(&self) -> bool {
        self.answer || self.thinking || self.tool || self.logprobs || self.token_ids.is_some_and(|n| n > 0)
    }
}

/// What an event or document says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContentFacts {
    /// Its choices; empty for usage and filter events.
    pub choices: Vec<ChoiceFacts>,
    /// Words of an error it reports.
    pub error: Option<String>,
    /// Usage, when it has any.
    pub usage: Option<UsageFacts>,
    /// `model`.
    pub model: Option<String>,
    /// `timings` or `metrics`, verbatim JSON.
    pub timings: Option<String>,
}

/// Reads an event's data or a document. None when it is no JSON object of a shape we know.
/// Answer text is copied only when `keep_text`.
pub fn read(data: &[u8], keep_text: bool) -> Option<ContentFacts> {
    // serde would read a list as an object's fields in order
    data.trim_ascii_start().first().filter(|b| **b == b'{')?;
    let event: Event<'_> = match serde_json::from_slice(data) {
        Ok(event) => event,
        // a shape we do not know can still be an error report
        Err(_) => {
            let value: serde_json::Value = serde_json::from_slice(data).ok()?;
            let error = value.get("error").filter(|e| !e.is_null())?;
            return Some(ContentFacts { error: Some(error_words(error)), ..ContentFacts::default() });
        }
    };
    let said_error = event.error.map(|raw| error_words(&serde_json::from_str(raw.get()).unwrap_or_default()));
    let is_error_object = event.object.text() == Some("error");
    let error = said_error.or_else(|| is_error_object.then(|| event.message.text().unwrap_or("error").to_owned()));
    Some(ContentFacts {
        error,
        usage: event.usage.map(|u| UsageFacts {
            prompt: u.prompt_tokens.number(),
            completion: u.completion_tokens.number(),
            total: u.total_tokens.number(),
            cached: u.prompt_tokens_details.and_then(|d| d.cached_tokens.number()),
            reasoning: u.completion_tokens_details.and_then(|d| d.reasoning_tokens.number()),
        }),
        model: event.model.text().map(str::to_owned),
        timings: event.timings.or(event.metrics).map(|raw| raw.get().to_owned()),
        choices: event.choices.unwrap_or_default().iter().map(|c| choice_facts(c, keep_text)).collect(),
    })
}

fn choice_facts(choice: &Choice<'_>, keep_text: bool) -> ChoiceFacts {
    let nothing = Delta::default();
    let delta = choice.delta.as_ref().or(choice.message.as_ref()).unwrap_or(&nothing);
    let called = |f: &Function<'_>| f.name.is_something() || f.arguments.is_something();
    let in_tool = |t: &ToolCall<'_>| t.function.as_ref().is_some_and(called);
    let visible = [&choice.text, &delta.content, &delta.refusal];
    ChoiceFacts {
        index: choice.index.number().and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
        has_role: delta.role.is_something(),
        text: match keep_text {
            true => visible.iter().filter_map(|t| t.text()).collect(),
            false => String::new(),
        },
        answer: visible.iter().any(|t| t.is_something()),
        thinking: delta.reasoning.is_something() || delta.reasoning_content.is_something(),
        tool: delta.tool_calls.as_ref().is_some_and(|calls| calls.iter().any(in_tool))
            || delta.function_call.as_ref().is_some_and(called),
        calls: delta.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty()) || delta.function_call.is_some(),
        parts: visible.iter().any(|t| t.is_something() && t.text().is_none()),
        token_ids: choice.token_ids.members().or(choice.output_ids.members()),
        logprobs: choice.logprobs.as_ref().is_some_and(|l| l.content.is_something() || l.tokens.is_something()),
        finish_reason: choice.finish_reason.text().filter(|f| !f.is_empty()).map(str::to_owned),
    }
}

/// The words of an `error` value: its message, a `detail`, or the value itself.
fn error_words(error: &serde_json::Value) -> String {
    let message = error.get("message").or_else(|| error.get("detail")).unwrap_or(error);
    match message {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The words for people in the body of an HTTP error: JSON's message or detail, else the text, whole: in a part of it a
/// secret that crosses the cut would not be found.
pub fn error_body_words(body: &[u8]) -> String {
    let words = match serde_json::from_slice::<serde_json::Value>(body) {
        Ok(value) => error_words(value.get("error").filter(|e| !e.is_null()).unwrap_or(&value)),
        Err(_) => String::from_utf8_lossy(body).into_owned(),
    };
    words.trim().to_owned()
}

/// Whether a JSON document is an error report.
pub fn is_error_document(body: &[u8]) -> bool {
    let value: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    value.get("error").is_some_and(|e| !e.is_null()) || value.get("object").is_some_and(|o| o == "error")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(data: &str) -> ChoiceFacts {
        read(data.as_bytes(), true).expect("parses").choices.remove(0)
    }

    #[test]
    fn every_channel_counts() {
        let with = |choice: &str| one(&format!("{{\"choices\":[{{{choice}}}]}}")).has_token();
        for yes in [
            r#""delta":{"content":"A"}"#,
            r#""text":"A""#,
            r#""delta":{"reasoning":"A"}"#,
            r#""delta":{"reasoning_content":"A"}"#,
            r#""delta":{"refusal":"A"}"#,
            r#""delta":{"tool_calls":[{"index":0,"function":{"name":"f"}}]}"#,
            r#""delta":{"tool_calls":[{"function":{"arguments":"{"}}]}"#,
            r#""delta":{"function_call":{"arguments":"{"}}"#,
            r#""delta":{},"token_ids":[5]"#,
            r#""output_ids":[5]"#,
            r#""delta":{"content":""},"logprobs":{"content":[{"token":"x"}]}"#,
            r#""message":{"content":"A"}"#,
        ] {
            assert!(with(yes), "{yes}");
        }
        for no in [
            r#""delta":{"role":"assistant","content":""}"#,
            r#""delta":{"content":null}"#,
            r#""delta":{"tool_calls":[]}"#,
            r#""delta":{"tool_calls":[{"function":{"name":"","arguments":""}}]}"#,
            r#""delta":{},"token_ids":[],"logprobs":{"content":[]}"#,
            r#""delta":null,"finish_reason":"stop","logprobs":null"#,
            r#""delta":{"tool_calls":{"odd":1}},"logprobs":7"#,
        ] {
            assert!(!with(no), "{no}");
        }
    }

    #[test]
    fn escapes_are_decoded_and_texts_joined() {
        assert_eq!(one(r#"{"choices":[{"delta":{"content":"a\u00e9\n"}}]}"#).text, "aé\n");
    }

    #[test]
    fn what_is_no_text_of_an_answer_is_told() {
        let of = |delta: &str| {
            let facts = one(&format!("{{\"choices\":[{{\"delta\":{delta}}}]}}"));
            (facts.calls, facts.parts, facts.text)
        };
        let text = |text: &str| text.to_owned();
        assert_eq!(of(r#"{"content":"a","tool_calls":[]}"#), (false, false, text("a")));
        assert_eq!(
            of(r#"{"content":"a","tool_calls":[{"type":"custom","custom":{"name":"f"}}]}"#),
            (true, false, text("a"))
        );
        assert_eq!(of(r#"{"content":null,"function_call":{"name":"f"}}"#), (true, false, text("")));
        assert_eq!(of(r#"{"content":[{"type":"text","text":"a"}]}"#), (false, true, text("")));
        assert_eq!(of(r#"{"content":[],"refusal":"no"}"#), (false, false, text("no")));
    }

    #[test]
    fn errors_in_any_dress() {
        for (data, words) in [
            (r#"{"error":{"message":"x","code":500}}"#, "x"),
            (r#"{"error":"plain"}"#, "plain"),
            (r#"{"object":"error","message":"old vLLM"}"#, "old vLLM"),
            (r#"{"error":{"a":1},"choices":"odd"}"#, r#"{"a":1}"#),
        ] {
            assert_eq!(read(data.as_bytes(), false).and_then(|f| f.error).as_deref(), Some(words), "{data}");
        }
        assert_eq!(read(br#"{"error":null,"choices":[]}"#, false).expect("parses").error, None);
        assert_eq!(error_body_words(br#"{"detail":"Not Found"}"#), "Not Found");
        assert_eq!(error_body_words(b"<html>no</html>\n"), "<html>no</html>");
    }

    #[test]
    fn a_key_is_in_no_words_of_an_error_wherever_its_body_was_cut() {
        let key: String =
            (0..1_206_u32).map(|i| char::from(b"JWTcharacters_-0123456789"[i as usize * 7 % 25])).collect();
        let words = |body: &str| crate::reading::printable_cut(&error_body_words(body.as_bytes()), Some(&key));
        assert_eq!(words(&format!("Incorrect key {key}, says the proxy")), "Incorrect key [key], says the proxy");
        for kept in [8, 300, 1_205] {
            assert_eq!(words(&format!("Incorrect key {}", &key[..kept])), "Incorrect key [key]");
            assert_eq!(words(&format!("{{\"error\":\"{}", &key[..kept])), "{\"error\":\"[key]");
        }
    }

    #[test]
    fn usage_of_any_shape() {
        let usage = |u: &str| read(format!("{{\"usage\":{u}}}").as_bytes(), false).expect("parses").usage;
        assert_eq!(usage("null"), None);
        assert_eq!(usage("[]").unwrap_or_default(), UsageFacts::default());
        let full = usage(r#"{"prompt_tokens":7,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}"#);
        assert_eq!(
            full,
            Some(UsageFacts { prompt: Some(7), completion: Some(2), cached: Some(4), ..UsageFacts::default() })
        );
        assert_eq!(usage(r#"{"completion_tokens":-3,"prompt_tokens":1.5}"#), Some(UsageFacts::default()));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(data in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&data, true);
            let _ = error_body_words(&data);
        }
    }
}
