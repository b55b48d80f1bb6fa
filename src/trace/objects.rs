//! Traces as JSON Lines: one object an arrival, numbers read from their own digits.

use super::fault::{AtLine, Fault, Shown};
use super::format::Format;
use super::row::{Given, Row, time, tokens};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// The fields that are known, as they are written. Others are let go by.
#[derive(Debug, Deserialize)]
struct Fields<'a> {
    #[serde(borrow, default)]
    timestamp: Option<&'a RawValue>,
    #[serde(borrow, default)]
    arrival_ms: Option<&'a RawValue>,
    #[serde(borrow, default)]
    input_length: Option<&'a RawValue>,
    #[serde(borrow, default)]
    input_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    prompt_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    output_length: Option<&'a RawValue>,
    #[serde(borrow, default)]
    output_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    max_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    hash_ids: Option<&'a RawValue>,
    #[serde(borrow, default)]
    chat_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    parent_chat_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    class: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    prompt: Option<&'a RawValue>,
    #[serde(borrow, default)]
    messages: Option<&'a RawValue>,
    #[serde(borrow, default)]
    body: Option<&'a RawValue>,
}

/// What the first line shows of a format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Names {
    found: Vec<&'static str>,
    /// `input_length`, where it is a number of tokens.
    pub(super) input_length: Option<u64>,
    /// Elements of `hash_ids`.
    pub(super) blocks: Option<u64>,
}

impl Names {
    pub(super) fn of(line: &str) -> Result<Names, Fault> {
        let fields = parsed(line)?;
        let there = [
            ("arrival_ms", fields.arrival_ms),
            ("timestamp", fields.timestamp),
            ("chat_id", fields.chat_id),
            ("parent_chat_id", fields.parent_chat_id),
        ];
        let found = there.into_iter().filter(|(_, value)| value.is_some()).map(|(name, _)| name).collect();
        let input_length = fields.input_length.and_then(|n| tokens("input_length", n.get()).ok());
        let blocks = fields.hash_ids.map(hash_ids).transpose()?.map(|ids| ids.len() as u64);
        Ok(Names { found, input_length, blocks })
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.found.contains(&name)
    }
}

/// A row of a file of this format.
///
/// # Errors
/// What is wrong with it.
pub fn row(format: Format, number: u64, line: &str) -> Result<Row, AtLine> {
    of_line(format, line).map_err(|fault| AtLine::new(number, fault))
}

fn of_line(format: Format, line: &str) -> Result<Row, Fault> {
    let fields = parsed(line)?;
    let seconds = |value: Option<&RawValue>| {
        value.ok_or(Fault::Missing("timestamp")).and_then(|value| time("timestamp", value.get(), 9))
    };
    let at_ns = match format {
        Format::Mooncake => {
            let at = fields.timestamp.ok_or(Fault::Missing("timestamp"))?;
            time("timestamp", at.get(), 6)?
        }
        Format::Generic => match one([("arrival_ms", fields.arrival_ms), ("timestamp", fields.timestamp)])? {
            Some(("arrival_ms", at)) => time("arrival_ms", at.get(), 6)?,
            Some((_, at)) => seconds(Some(at))?,
            None => return Err(Fault::Missing("arrival_ms or timestamp")),
        },
        _ => seconds(fields.timestamp)?,
    };
    let generic = format == Format::Generic;
    let given = given(&fields, generic)?;
    let input = match generic {
        true => one([
            ("input_tokens", fields.input_tokens),
            ("input_length", fields.input_length),
            ("prompt_tokens", fields.prompt_tokens),
        ])?,
        false => fields.input_length.map(|value| ("input_length", value)),
    };
    let output = match generic {
        true => one([
            ("output_tokens", fields.output_tokens),
            ("output_length", fields.output_length),
            ("max_tokens", fields.max_tokens),
        ])?,
        false => fields.output_length.map(|value| ("output_length", value)),
    };
    let prompt_tokens = input.map(|(name, value)| tokens(name, value.get())).transpose()?;
    if prompt_tokens.is_none() && !matches!(given, Given::Text(_) | Given::Body(_)) {
        return Err(Fault::Missing(if generic {
            "input_tokens (or input_length, prompt_tokens)"
        } else {
            "input_length"
        }));
    }
    // a body's own limit is what is sent
    let limit = match &given {
        Given::Body(body) => limit_of(body)?,
        _ => None,
    };
    let output_tokens = match (limit, output) {
        (Some(limit), _) => limit,
        (None, Some((name, value))) => tokens(name, value.get())?,
        (None, None) => {
            return Err(Fault::Missing(if generic {
                "output_tokens (or output_length, max_tokens)"
            } else {
                "output_length"
            }));
        }
    };
    let class = fields.class.filter(|_| generic).or(fields.kind.filter(|_| format == Format::Bailian));
    Ok(Row { at_ns, class: class.map(words), prompt_tokens, output_tokens, failed: false, given })
}

fn given(fields: &Fields<'_>, generic: bool) -> Result<Given, Fault> {
    let hash_ids = fields.hash_ids.map(|value| ("hash_ids", value));
    let found = match generic {
        true => one([
            ("prompt", fields.prompt),
            ("messages", fields.messages),
            ("body", fields.body),
            ("hash_ids", fields.hash_ids),
        ])?,
        false => hash_ids,
    };
    let wrong = |name, value: &RawValue, wanted| Fault::Field { name, found: Shown::new(value.get()), wanted };
    match found {
        None => Ok(Given::Length),
        Some(("hash_ids", value)) => Ok(Given::Blocks(self::hash_ids(value)?)),
        Some(("prompt", value)) => match serde_json::from_str::<String>(value.get()) {
            Ok(text) => Ok(Given::Text(text)),
            Err(_) => Err(wrong("prompt", value, "a text")),
        },
        Some(("messages", value)) => match serde_json::from_str::<Value>(value.get()) {
            Ok(messages @ Value::Array(_)) => Ok(Given::Body(Map::from_iter([("messages".to_owned(), messages)]))),
            _ => Err(wrong("messages", value, "an array of messages")),
        },
        Some((_, value)) => match serde_json::from_str::<Value>(value.get()) {
            Ok(Value::Object(body)) => Ok(Given::Body(body)),
            _ => Err(wrong("body", value, "an object")),
        },
    }
}

/// Fields of a body that limit its output.
pub(super) const LIMITS: [&str; 2] = ["max_completion_tokens", "max_tokens"];

fn limit_of(body: &Map<String, Value>) -> Result<Option<u64>, Fault> {
    let found = LIMITS.into_iter().find_map(|name| Some((name, body.get(name).filter(|value| !value.is_null())?)));
    found.map(|(name, value)| tokens(name, &value.to_string())).transpose()
}

fn parsed(line: &str) -> Result<Fields<'_>, Fault> {
    if !line.trim_start().starts_with('{') {
        return Err(Fault::Json(format!("it begins {:?}", Shown::new(line))));
    }
    serde_json::from_str(line).map_err(|error| {
        // the line is told by the caller
        let words = error.to_string();
        let words = words.split(" at line ").next().unwrap_or_default();
        match error.is_eof() {
            true => Fault::Json(format!("it ends too soon, after {} characters: was it cut short?", error.column())),
            false => Fault::Json(format!("{words}, at character {}", error.column())),
        }
    })
}

/// The one of several fields that is there.
fn one<'a, const N: usize>(
    fields: [(&'static str, Option<&'a RawValue>); N],
) -> Result<Option<(&'static str, &'a RawValue)>, Fault> {
    let mut there = fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let (first, second) = (there.next(), there.next());
    match (first, second) {
        (Some((a, _)), Some((b, _))) => Err(Fault::Both(a, b)),
        _ => Ok(first),
    }
}

fn hash_ids(value: &RawValue) -> Result<Vec<u64>, Fault> {
    let wrong = || Fault::Field {
        name: "hash_ids",
        found: Shown::new(value.get()),
        wanted: "an array of whole numbers from 0 to 18,446,744,073,709,551,615",
    };
    serde_json::from_str(value.get()).map_err(|_| wrong())
}

/// A class as it is written: a text without its quotes, anything else as it stands.
fn words(value: &RawValue) -> String {
    let text: Result<Cow<'_, str>, _> = serde_json::from_str(value.get());
    text.map_or_else(|_| value.get().to_owned(), Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fine(format: Format, line: &str) -> Row {
        row(format, 1, line).unwrap_or_else(|bad| panic!("{line}: {bad:?}"))
    }

    fn said(format: Format, line: &str) -> String {
        row(format, 1, line).expect_err("wrong").fault.to_string()
    }

    #[test]
    fn rows_of_each_format() {
        let line = r#"{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 2353]}"#;
        let mooncake = fine(Format::Mooncake, line);
        assert_eq!((mooncake.at_ns, mooncake.prompt_tokens, mooncake.output_tokens), (27_482_000_000, Some(6955), 52));
        assert_eq!(mooncake.given, Given::Blocks(vec![46, 47, 2353]));
        assert_eq!(fine(Format::Vllm, line).at_ns, 27_482_000_000_000, "seconds there");
        let line = r#"{"chat_id": 159, "parent_chat_id": -1, "timestamp": 61.114, "input_length": 521, "output_length": 132, "type": "text", "turn": 1, "hash_ids": [1089, 18446744073709551615]}"#;
        let bailian = fine(Format::Bailian, line);
        assert_eq!((bailian.at_ns, bailian.class.as_deref()), (61_114_000_000, Some("text")));
        assert_eq!(bailian.given, Given::Blocks(vec![1089, u64::MAX]));
    }

    #[test]
    fn generic_rows_in_all_their_forms() {
        let generic = |line: &str| fine(Format::Generic, line);
        for (input, output) in
            [("input_tokens", "output_tokens"), ("input_length", "output_length"), ("prompt_tokens", "max_tokens")]
        {
            let found = generic(&format!(r#"{{"arrival_ms":1.5,"{input}":9,"{output}":4}}"#));
            assert_eq!((found.at_ns, found.prompt_tokens, found.output_tokens), (1_500_000, Some(9), 4));
        }
        let exact = generic(r#"{"timestamp":1700000000.123456789,"input_tokens":9,"output_tokens":4,"class":"chat"}"#);
        assert_eq!((exact.at_ns, exact.class.as_deref()), (1_700_000_000_123_456_789, Some("chat")));
        let text = generic(r#"{"arrival_ms":0,"prompt":"say \"hi\"","max_tokens":4}"#);
        assert_eq!((text.given, text.prompt_tokens), (Given::Text("say \"hi\"".to_owned()), None));
        let body = generic(r#"{"arrival_ms":0,"body":{"messages":[],"max_completion_tokens":7},"output_tokens":4}"#);
        assert_eq!(body.output_tokens, 7, "what the body says is what is sent");
        let messages = generic(r#"{"arrival_ms":0,"messages":[{"role":"user","content":"x"}],"output_tokens":4}"#);
        assert!(matches!(&messages.given, Given::Body(body) if body["messages"][0]["content"] == "x"));
        assert_eq!(messages.output_tokens, 4);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let mooncake = |line: &str| said(Format::Mooncake, line);
        assert!(mooncake(r#"{"timestamp": 1, "input_length": 5, "output_l"#).contains("cut short"));
        assert!(mooncake(r#"{"timestamp": NaN, "input_length": 5}"#).starts_with("it is no JSON object"));
        assert!(mooncake("[1]").starts_with("it is no JSON object"));
        assert!(mooncake(r#"{"timestamp": "x", "input_length": 5, "output_length": 5}"#).starts_with("timestamp is"));
        assert!(mooncake(r#"{"timestamp": 1e999, "input_length": 5, "output_length": 5}"#).starts_with("timestamp is"));
        let negative = mooncake(r#"{"timestamp": 1, "input_length": -5, "output_length": 5, "hash_ids": []}"#);
        assert!(negative.starts_with("input_length is \"-5\""), "{negative}");
        assert_eq!(mooncake(r#"{"timestamp": 1, "output_length": 5}"#), "input_length is missing");
        assert_eq!(mooncake(r#"{"timestamp": 1, "input_length": 5}"#), "output_length is missing");
        assert!(mooncake(r#"{"timestamp": 1, "timestamp": 2}"#).contains("duplicate field `timestamp`"));
        let ids = mooncake(r#"{"timestamp": 1, "input_length": 5, "output_length": 5, "hash_ids": [1, -2]}"#);
        assert!(ids.starts_with("hash_ids is \"[1, -2]\""), "{ids}");
        let generic = |line: &str| said(Format::Generic, line);
        assert!(
            generic(r#"{"arrival_ms":0,"timestamp":0,"input_tokens":1}"#).contains("both arrival_ms and timestamp")
        );
        assert!(generic(r#"{"arrival_ms":0,"input_tokens":1,"input_length":1}"#).contains("keep one"));
        assert!(generic(r#"{"arrival_ms":0,"prompt":"a","body":{},"max_tokens":1}"#).contains("both prompt and body"));
        assert!(generic(r#"{"arrival_ms":0,"prompt":["a"],"max_tokens":1}"#).contains("a text is wanted"));
        assert!(generic(r#"{"input_tokens":1,"max_tokens":1}"#).contains("arrival_ms or timestamp is missing"));
        assert!(generic(r#"{"arrival_ms":0,"body":{"max_tokens":-1}}"#).starts_with("max_tokens is \"-1\""));
    }

    proptest! {
        #[test]
        fn any_line_is_a_row_or_a_fault(line in "[^\n]{0,120}") {
            for format in [Format::Mooncake, Format::Vllm, Format::Bailian, Format::Generic] {
                let _ = row(format, 1, &line);
            }
            let _ = Format::sniff(&line);
        }

        #[test]
        fn a_line_of_nearly_the_right_form_too(
            time in "[0-9.eE+-]{0,9}|null|\"[a-z]*\"",
            length in "[0-9.-]{0,12}|null|\\[\\]",
            ids in "\\[([0-9.,-]{0,9})\\]|null|[0-9]",
        ) {
            let line = format!(r#"{{"timestamp":{time},"input_length":{length},"output_length":3,"hash_ids":{ids}}}"#);
            for format in [Format::Mooncake, Format::Vllm, Format::Bailian, Format::Generic] {
                let _ = row(format, 1, &line);
            }
            let _ = Format::sniff(&line);
        }
    }
}
