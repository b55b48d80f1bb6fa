//! A line of a JSONL file of requests: a prompt, or a whole body.

use super::Content;
use super::body::{self, PromptField};
use super::dataset::Entry;
use super::distributions::MAX_TOKENS;
use serde_json::{Map, Value};

/// Fields of a completions request other than its prompt and its length: a line that has one is a whole body.
const FIELDS: [&str; 14] = [
    "model",
    "temperature",
    "top_p",
    "top_k",
    "n",
    "stream",
    "stream_options",
    "stop",
    "seed",
    "logprobs",
    "echo",
    "presence_penalty",
    "frequency_penalty",
    "max_completion_tokens",
];

/// What bodies must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// For which endpoint.
    pub field: PromptField,
    /// A nonce is put in front of their text.
    pub marked: bool,
}

/// Reads a line.
///
/// # Errors
/// What is wrong with it, in words.
pub(super) fn read(line: &str, wanted: Wanted) -> Result<Entry, String> {
    let fields: Map<String, Value> =
        serde_json::from_str(line).map_err(|e| format!("is no JSON object with a prompt, messages or a body: {e}"))?;
    let asked = tokens(&fields, &["output_tokens"])?;
    if let Some(inner) = fields.get("body") {
        let Value::Object(inner) = inner else { return Err("\"body\" is no object".to_owned()) };
        return whole(inner.clone(), asked, wanted);
    }
    if fields.contains_key("messages") || FIELDS.iter().any(|name| fields.contains_key(*name)) {
        let mut body = fields;
        body.shift_remove("output_tokens");
        return whole(body, asked, wanted);
    }
    match fields.get("prompt") {
        Some(Value::String(prompt)) if prompt.trim().is_empty() => Err("\"prompt\" is empty".to_owned()),
        Some(Value::String(prompt)) => Ok(Entry {
            prompt_words: prompt.split_whitespace().count() as u64,
            output_tokens: asked.or(tokens(&fields, &["max_tokens"])?),
            content: Content::Text(prompt.clone()),
        }),
        Some(_) => {
            let mut body = fields;
            body.shift_remove("output_tokens");
            whole(body, asked, wanted)
        }
        None => {
            let names: Vec<&str> = fields.keys().map(String::as_str).take(8).collect();
            Err(format!("has none of \"prompt\", \"messages\" and \"body\", only {names:?}"))
        }
    }
}

/// Fields of a line of a session that say nothing that could not be said here: this side names the model, and streams.
const OURS: [&str; 3] = ["model", "stream", "stream_options"];
/// Fields that change what is replied, and are not among [`FIELDS`].
const TOOLS: [&str; 3] = ["tools", "tool_choice", "response_format"];
/// Fields that give the length of each reply, the first of them that is there.
const LENGTHS: [&str; 3] = ["output_tokens", "max_completion_tokens", "max_tokens"];

/// Reads the turns of a line with `messages`: what its user says, at most `at_most` times. What stands in front as system
/// goes with the first; replies of an assistant are left out, the server gives its own.
///
/// # Errors
/// What is wrong with it, in words.
pub(super) fn read_session(line: &str, at_most: u32) -> Result<Vec<Entry>, String> {
    let mut fields: Map<String, Value> =
        serde_json::from_str(line).map_err(|e| format!("is no JSON object with messages: {e}"))?;
    let mut output_tokens = tokens(&fields, &["output_tokens"])?;
    if let Some(inner) = fields.get("body") {
        let Value::Object(inner) = inner else { return Err("\"body\" is no object".to_owned()) };
        fields = inner.clone();
    }
    output_tokens = tokens(&fields, &LENGTHS)?.or(output_tokens);
    let Some(Value::Array(messages)) = fields.get("messages") else {
        return Err(
            "has no \"messages\": a session needs several turns of a user, and a single prompt has one; leave \
                    --sessions and --chain out to send single prompts"
                .to_owned(),
        );
    };
    let known =
        |name: &str| name == "messages" || name == "custom_id" || OURS.contains(&name) || LENGTHS.contains(&name);
    let of_request = |name: &str| FIELDS.contains(&name) || TOOLS.contains(&name);
    if let Some(other) = fields.keys().find(|name| of_request(name) && !known(name)) {
        return Err(format!("{other:?} cannot be kept in a session: take it out, and give it for all (--extra-body)"));
    }
    let mut turns: Vec<Entry> = Vec::new();
    let mut system: Vec<Value> = Vec::new();
    let mut before = "";
    for message in messages {
        let (role, text) = said(message)?;
        match role {
            "system" | "developer" if turns.is_empty() => system.push(message.clone()),
            "user" if before == "user" => {
                return Err("two messages of a user follow each other: a reply must stand between turns".to_owned());
            }
            "user" if turns.len() as u64 == u64::from(at_most) => break,
            "user" => {
                let words = text.split_whitespace().count() as u64;
                if words == 0 {
                    return Err("a message of the user is empty".to_owned());
                }
                let (prompt_words, content) = match system.is_empty() || !turns.is_empty() {
                    true => (words, Content::Text(text.to_owned())),
                    false => {
                        system.push(message.clone());
                        let all = Value::Array(std::mem::take(&mut system));
                        let body = Map::from_iter([("messages".to_owned(), all)]);
                        (body::words(&body), Content::Body(body))
                    }
                };
                turns.push(Entry { prompt_words, output_tokens, content });
            }
            "assistant" if !turns.is_empty() => {}
            other => {
                return Err(format!("a message of {other:?} where a user or a reply should speak"));
            }
        }
        before = role;
    }
    Ok(turns)
}

/// Role and text of a message.
fn said(message: &Value) -> Result<(&str, &str), String> {
    match (message.get("role").and_then(Value::as_str), message.get("content").and_then(Value::as_str)) {
        (Some(role), Some(text)) => Ok((role, text)),
        (None, _) => Err("a message without a role".to_owned()),
        (Some(role), None) => Err(format!("a message of {role:?} that is not plain text, which a session needs")),
    }
}

fn whole(body: Map<String, Value>, asked: Option<u64>, wanted: Wanted) -> Result<Entry, String> {
    wanted.field.check(&body)?;
    let own = tokens(&body, &["max_completion_tokens", "max_tokens"])?;
    if wanted.marked && !body::mark(&mut body.clone(), "") {
        return Err("the body has no text at its beginning that a nonce could be put in front of; \
                    --cache as-is sends it as it is"
            .to_owned());
    }
    Ok(Entry { prompt_words: body::words(&body), output_tokens: own.or(asked), content: Content::Body(body) })
}

/// The first of `names` that is there and not null.
fn tokens(fields: &Map<String, Value>, names: &[&str]) -> Result<Option<u64>, String> {
    for name in names {
        match fields.get(*name) {
            None | Some(Value::Null) => {}
            Some(value) => {
                let number = value.as_u64().filter(|n| (1..=MAX_TOKENS).contains(n));
                return match number {
                    Some(_) => Ok(number),
                    None => Err(format!("\"{name}\" must be a number of tokens from 1 to 10,000,000, not {value}")),
                };
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const CHAT: Wanted = Wanted { field: PromptField::Messages, marked: true };
    const TEXT: Wanted = Wanted { field: PromptField::Prompt, marked: true };

    fn of(line: Value, wanted: Wanted) -> Result<Entry, String> {
        read(&line.to_string(), wanted)
    }

    #[test]
    fn prompts_with_and_without_their_length() {
        for (line, output) in [
            (json!({"prompt": "a b", "output_tokens": 9, "id": "x"}), Some(9)),
            (json!({"prompt": "a b", "max_tokens": 8}), Some(8)),
            (json!({"prompt": "a b", "output_tokens": null}), None),
        ] {
            for wanted in [CHAT, TEXT] {
                let entry = of(line.clone(), wanted).expect("a prompt");
                assert_eq!((entry.prompt_words, entry.output_tokens), (2, output));
                assert_eq!(entry.content, Content::Text("a b".to_owned()));
            }
        }
    }

    #[test]
    fn bodies_bare_wrapped_and_of_a_batch() {
        let body = json!({"messages": [{"role": "user", "content": "hi there"}], "max_tokens": 3, "temperature": 1});
        let batch = json!({"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": body});
        for line in [body.clone(), json!({"body": body}), batch] {
            let entry = of(line, CHAT).expect("a body");
            assert_eq!((entry.prompt_words, entry.output_tokens), (2, Some(3)));
            assert_eq!(entry.content, Content::Body(body.as_object().expect("object").clone()));
        }
        let text = of(json!({"prompt": "a", "temperature": 0.5, "output_tokens": 4}), TEXT).expect("a body");
        assert_eq!(text.output_tokens, Some(4));
        assert_eq!(
            text.content,
            Content::Body(json!({"prompt": "a", "temperature": 0.5}).as_object().expect("o").clone())
        );
        let ids = of(json!({"prompt": [1, 2, 3]}), Wanted { marked: false, ..TEXT }).expect("ids");
        assert_eq!(ids.prompt_words, 3);
    }

    #[test]
    fn bad_lines_say_what_is_wrong() {
        let said = |line: Value, wanted| of(line, wanted).expect_err("refused");
        assert!(said(json!({"text": "a"}), CHAT).contains("has none of"));
        assert!(said(json!({"prompt": ""}), CHAT).contains("is empty"));
        assert!(said(json!({"prompt": "a", "output_tokens": -1}), CHAT).contains("\"output_tokens\" must be"));
        assert!(said(json!({"prompt": "a", "model": "m"}), CHAT).contains("--endpoint takes messages"));
        assert!(said(json!({"body": [1]}), CHAT).contains("no object"));
        assert!(said(json!({"messages": [{"role": "user", "content": null}]}), CHAT).contains("--cache as-is"));
        assert!(read("{", CHAT).expect_err("refused").contains("is no JSON object"));
        assert!(read("[1]", CHAT).is_err());
    }

    fn session(line: &Value, at_most: u32) -> Result<Vec<Entry>, String> {
        read_session(&line.to_string(), at_most)
    }

    fn messages(of: &[(&str, &str)]) -> Value {
        of.iter().map(|(role, text)| json!({"role": role, "content": text})).collect()
    }

    #[test]
    fn turns_are_what_a_user_says() {
        let list = messages(&[
            ("system", "be brief"),
            ("user", "how are you"),
            ("assistant", "fine"),
            ("user", "bye now"),
            ("assistant", "bye"),
        ]);
        let line = json!({"id": 1, "model": "m", "max_tokens": 9, "messages": list});
        let entries = session(&line, 6).expect("turns");
        let first = json!({"messages": list.as_array().expect("list")[..2]});
        assert_eq!(entries[0].content, Content::Body(first.as_object().expect("o").clone()));
        assert_eq!(entries[1].content, Content::Text("bye now".to_owned()));
        let lengths: Vec<_> = entries.iter().map(|e| (e.prompt_words, e.output_tokens)).collect();
        assert_eq!(lengths, [(5, Some(9)), (2, Some(9))]);
        assert_eq!(session(&line, 1).expect("turns").len(), 1);
        let wrapped = json!({"custom_id": "1", "body": {"messages": list}, "output_tokens": 4});
        assert_eq!(session(&wrapped, 6).expect("turns")[1].output_tokens, Some(4));
    }

    #[test]
    fn lines_that_are_no_session_say_why() {
        let said = |line: Value| session(&line, 6).expect_err("refused");
        assert!(said(json!({"prompt": "a"})).contains("a session needs several turns"));
        let two = said(json!({"messages": messages(&[("user", "a"), ("user", "b")])}));
        assert!(two.contains("follow each other"), "{two}");
        assert!(said(json!({"messages": messages(&[("assistant", "a")])})).contains("\"assistant\" where"));
        assert!(said(json!({"messages": messages(&[("user", "a"), ("tool", "b")])})).contains("\"tool\""));
        assert!(said(json!({"messages": messages(&[("user", " ")])})).contains("is empty"));
        let picture = json!({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]});
        assert!(said(picture).contains("not plain text"));
        let tools = json!({"messages": messages(&[("user", "a")]), "tools": []});
        assert!(said(tools).starts_with("\"tools\" cannot be kept"));
        assert!(said(json!({"messages": [], "output_tokens": 0})).contains("must be a number"));
        assert_eq!(session(&json!({"messages": []}), 6), Ok(Vec::new()));
    }

    proptest! {
        #[test]
        fn no_session_is_too_strange(line in "[\\[\\]{}\":, a-z0-9]{0,60}") {
            let _ = read_session(&line, 3);
        }

        #[test]
        fn every_prompt_comes_back(prompt in "\\PC{1,80}", output in proptest::option::of(1_u64..MAX_TOKENS)) {
            prop_assume!(!prompt.trim().is_empty());
            let entry = of(json!({"prompt": prompt, "output_tokens": output}), CHAT).expect("a prompt");
            prop_assert_eq!(entry.content, Content::Text(prompt));
            prop_assert_eq!(entry.output_tokens, output);
        }

        #[test]
        fn no_line_is_too_strange(line in "[\\[\\]{}\":, a-z0-9]{0,60}") {
            let _ = read(&line, CHAT);
        }
    }
}
