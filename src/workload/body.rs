//! Request bodies of somebody's: where their text begins, and how much of it there is.

use serde_json::{Map, Value};

/// The field in which an endpoint takes its prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptField {
    /// `messages`: a chat.
    Messages,
    /// `prompt`: text.
    Prompt,
}

impl PromptField {
    fn name(self) -> &'static str {
        match self {
            PromptField::Messages => "messages",
            PromptField::Prompt => "prompt",
        }
    }

    fn other(self) -> PromptField {
        match self {
            PromptField::Messages => PromptField::Prompt,
            PromptField::Prompt => PromptField::Messages,
        }
    }

    /// Whether `body` is for such an endpoint.
    ///
    /// # Errors
    /// It is for the other one, or for none; in words.
    pub fn check(self, body: &Map<String, Value>) -> Result<(), String> {
        let (name, other) = (self.name(), self.other().name());
        match (body.contains_key(name), body.contains_key(other)) {
            (true, false) => {}
            (true, true) => return Err(format!("a body with both {name} and {other}")),
            (false, true) => return Err(format!("a body with {other}, but --endpoint takes {name}")),
            (false, false) => return Err(format!("a body without {name}")),
        }
        let field = &body[name];
        let fits = match self {
            PromptField::Messages => {
                field.as_array().is_some_and(|list| !list.is_empty() && list.iter().all(Value::is_object))
            }
            PromptField::Prompt => field.is_string() || field.as_array().is_some_and(|list| !list.is_empty()),
        };
        match fits {
            true => Ok(()),
            false => Err(format!("{name} is not what that endpoint takes")),
        }
    }
}

/// Where the text of a body begins: the first message's content or its first text part, or the prompt.
fn beginning(body: &mut Map<String, Value>) -> Option<&mut String> {
    let place = match body.contains_key("messages") {
        true => body.get_mut("messages")?.as_array_mut()?.first_mut()?.get_mut("content")?,
        false => body.get_mut("prompt")?,
    };
    match place {
        Value::String(text) => Some(text),
        Value::Array(parts) => parts.iter_mut().find_map(|part| match part {
            Value::String(text) => Some(text),
            Value::Object(part) => match part.get_mut("text") {
                Some(Value::String(text)) => Some(text),
                _ => None,
            },
            _ => None,
        }),
        _ => None,
    }
}

/// Puts `words` in front of the text of `body`. False: it has none at its beginning.
pub fn mark(body: &mut Map<String, Value>, words: &str) -> bool {
    match beginning(body) {
        Some(text) => {
            *text = format!("{words} {text}");
            true
        }
        None => false,
    }
}

/// Words of the text of `body`; token ids count as words.
pub fn words(body: &Map<String, Value>) -> u64 {
    fn of(value: &Value) -> u64 {
        match value {
            Value::String(text) => text.split_whitespace().count() as u64,
            Value::Number(_) => 1,
            Value::Array(list) => list.iter().map(of).sum(),
            Value::Object(part) => part.get("text").or_else(|| part.get("content")).map_or(0, of),
            _ => 0,
        }
    }
    ["messages", "prompt"].iter().filter_map(|name| body.get(*name)).map(of).sum()
}

/// The first 16 words of the text of `body`, which is what a server's cache knows a prompt by.
pub(super) fn first_words(body: &Map<String, Value>) -> String {
    fn of(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::String(text) => {
                let more = BEGINNING_WORDS.saturating_sub(found.len());
                found.extend(text.split_whitespace().take(more).map(str::to_owned));
            }
            Value::Number(id) if found.len() < BEGINNING_WORDS => found.push(id.to_string()),
            Value::Array(list) => list.iter().for_each(|value| of(value, found)),
            Value::Object(part) => {
                if let Some(value) = part.get("text").or_else(|| part.get("content")) {
                    of(value, found);
                }
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    ["messages", "prompt"].iter().filter_map(|name| body.get(*name)).for_each(|value| of(value, &mut found));
    found.join(" ")
}

/// Words by which prompts are said to begin alike: a block of vLLM's cache has so many tokens.
pub(super) const BEGINNING_WORDS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(fields) => fields,
            other => panic!("no object: {other}"),
        }
    }

    #[test]
    fn the_first_text_is_marked() {
        for (body, marked) in [
            (
                json!({"messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]}),
                json!({"messages": [{"role": "system", "content": "n be brief"}, {"role": "user", "content": "hi"}]}),
            ),
            (
                json!({"messages": [{"content": [{"type": "image_url"}, {"type": "text", "text": "what"}]}]}),
                json!({"messages": [{"content": [{"type": "image_url"}, {"type": "text", "text": "n what"}]}]}),
            ),
            (json!({"prompt": "a"}), json!({"prompt": "n a"})),
            (json!({"prompt": ["a", "b"]}), json!({"prompt": ["n a", "b"]})),
        ] {
            let mut found = object(body);
            assert!(mark(&mut found, "n"));
            assert_eq!(Value::Object(found), marked);
        }
        for body in [json!({"messages": [{"content": null}]}), json!({"prompt": [1, 2]}), json!({"messages": []})] {
            assert!(!mark(&mut object(body), "n"));
        }
    }

    #[test]
    fn words_of_every_shape() {
        let n = |body| words(&object(body));
        assert_eq!(n(json!({"prompt": "a b  c", "user": "x y"})), 3);
        assert_eq!(n(json!({"prompt": [1, 2, 3]})), 3);
        let parts =
            json!({"messages": [{"role": "a", "content": "x y"}, {"content": [{"type": "text", "text": "z"}]}]});
        assert_eq!(n(parts.clone()), 3);
        assert_eq!(first_words(&object(parts)), "x y z");
        assert_eq!(first_words(&object(json!({"prompt": "w ".repeat(40)}))).split(' ').count(), 16);
    }

    #[test]
    fn bodies_for_another_endpoint_are_refused() {
        let said = |field: PromptField, body| field.check(&object(body)).expect_err("refused");
        assert!(said(PromptField::Prompt, json!({"messages": []})).contains("--endpoint takes prompt"));
        assert!(said(PromptField::Messages, json!({"prompt": "a"})).contains("--endpoint takes messages"));
        assert!(said(PromptField::Messages, json!({"messages": "a"})).contains("is not what"));
        assert!(said(PromptField::Prompt, json!({"prompt": 5})).contains("is not what"));
        assert!(PromptField::Messages.check(&object(json!({"messages": [{"role": "user"}]}))).is_ok());
    }
}
