//! Request bodies of the OpenAI API, chat and text. Sampling fields are always sent, so that no server
//! default decides.

use crate::workload::conversation::Message;
use crate::workload::prompt::{Made, Prompt};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Which of the two APIs an endpoint speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Api {
    /// `messages` in, `delta` or `message` out.
    Chat,
    /// `prompt` in, `text` out.
    Completions,
}

impl Api {
    /// By the endpoint's path: `.../chat/completions` is chat, any other `.../completions` is text.
    pub fn of_endpoint(path: &str) -> Self {
        match path.ends_with("/completions") && !path.ends_with("/chat/completions") {
            true => Api::Completions,
            false => Api::Chat,
        }
    }
}

/// How a server is asked to prove tokens that have no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenProof {
    /// Not at all.
    None,
    /// `return_token_ids` (vLLM).
    Ids,
    /// `stream_options.continuous_usage_stats` (vLLM, SGLang).
    Usage,
}

/// Everything of a body but the prompt and its output length.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BodyTemplate {
    /// Chat or text.
    pub api: Api,
    /// `model`.
    pub model: String,
    /// `stream`; usage is asked for only then.
    pub stream: bool,
    /// `temperature`.
    pub temperature: f64,
    /// `top_p`.
    pub top_p: f64,
    /// `ignore_eos`, sent only when true: strict servers refuse it.
    pub ignore_eos: bool,
    /// Proof of tokens.
    pub token_proof: TokenProof,
    /// Fields that replace or join ours.
    pub extra: Map<String, Value>,
}

impl BodyTemplate {
    /// The body of a made prompt.
    pub fn body_of(&self, made: &Made) -> String {
        self.with_user(&made.prompt, made.output_tokens, made.user.as_deref())
    }

    /// The body for `prompt`, at most `output_tokens` long.
    pub fn body(&self, prompt: &Prompt, output_tokens: u64) -> String {
        self.with_user(prompt, output_tokens, None)
    }

    /// The body of a turn: everything that was said in its session, the made message last, as
    /// [`Conversation::ask`](crate::workload::conversation::Conversation::ask) leaves it; without a `user` of ours. A chat
    /// only: plans refuse other endpoints.
    pub fn body_of_turn(&self, messages: &[Message], made: &Made) -> String {
        let mut body = Map::new();
        body.insert("model".to_owned(), json!(self.model));
        body.insert("messages".to_owned(), json!(messages));
        self.sampled(&mut body, made.output_tokens);
        self.finished(body, None)
    }

    fn with_user(&self, prompt: &Prompt, output_tokens: u64, user: Option<&str>) -> String {
        let mut body = Map::new();
        let put = |body: &mut Map<String, Value>, name: &str, value| body.insert(name.to_owned(), value);
        put(&mut body, "model", json!(self.model));
        match (prompt, self.api) {
            (Prompt::Text(text), Api::Chat) => {
                put(&mut body, "messages", json!([{"role": "user", "content": text}]));
            }
            (Prompt::Text(text), Api::Completions) => {
                put(&mut body, "prompt", json!(text));
            }
            // plans refuse ids for a chat: it has no field for them
            (Prompt::Ids(ids), _) => {
                put(&mut body, "prompt", json!(ids));
            }
            (Prompt::Body(_), _) => {}
        }
        self.sampled(&mut body, output_tokens);
        if let Prompt::Body(fields) = prompt {
            if fields.contains_key("max_completion_tokens") {
                body.shift_remove("max_tokens");
            }
            body.extend(fields.clone());
            put(&mut body, "model", json!(self.model));
            body.shift_remove("stream_options");
        }
        self.finished(body, user)
    }

    fn sampled(&self, body: &mut Map<String, Value>, output_tokens: u64) {
        body.insert("max_tokens".to_owned(), json!(output_tokens));
        body.insert("temperature".to_owned(), json!(self.temperature));
        body.insert("top_p".to_owned(), json!(self.top_p));
    }

    fn finished(&self, mut body: Map<String, Value>, user: Option<&str>) -> String {
        let put = |body: &mut Map<String, Value>, name: &str, value| body.insert(name.to_owned(), value);
        put(&mut body, "stream", json!(self.stream));
        if self.stream {
            let running = self.token_proof == TokenProof::Usage;
            let options = match running {
                true => json!({"include_usage": true, "continuous_usage_stats": true}),
                false => json!({"include_usage": true}),
            };
            put(&mut body, "stream_options", options);
        }
        if self.ignore_eos {
            put(&mut body, "ignore_eos", json!(true));
        }
        if self.token_proof == TokenProof::Ids {
            put(&mut body, "return_token_ids", json!(true));
        }
        if let Some(user) = user {
            put(&mut body, "user", json!(user));
        }
        body.extend(self.extra.clone());
        Value::Object(body).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hi() -> Prompt {
        Prompt::Text("hi \"there\"".to_owned())
    }

    fn template() -> BodyTemplate {
        BodyTemplate {
            api: Api::Chat,
            model: "m".to_owned(),
            stream: true,
            temperature: 0.0,
            top_p: 1.0,
            ignore_eos: false,
            token_proof: TokenProof::None,
            extra: Map::new(),
        }
    }

    #[test]
    fn a_chat_body() {
        assert_eq!(
            template().body(&hi(), 5),
            r#"{"model":"m","messages":[{"role":"user","content":"hi \"there\""}],"max_tokens":5,"temperature":0.0,"top_p":1.0,"stream":true,"stream_options":{"include_usage":true}}"#
        );
    }

    #[test]
    fn variants() {
        let text =
            BodyTemplate { api: Api::of_endpoint("/v1/completions"), stream: false, ..template() }.body(&hi(), 1);
        assert!(text.contains(r#""prompt":"hi \"there\"""#) && !text.contains("stream_options"), "{text}");
        let proof = BodyTemplate { token_proof: TokenProof::Usage, ignore_eos: true, ..template() }.body(&hi(), 1);
        assert!(proof.contains("continuous_usage_stats") && proof.contains(r#""ignore_eos":true"#), "{proof}");
        let mut extra = Map::new();
        extra.insert("temperature".to_owned(), json!(0.7));
        let replaced = BodyTemplate { extra, ..template() }.body(&hi(), 1);
        assert!(replaced.contains(r#""temperature":0.7"#) && !replaced.contains(r#""temperature":0.0"#), "{replaced}");
        assert_eq!(Api::of_endpoint("/v1/chat/completions"), Api::Chat);
    }

    #[test]
    fn a_nonce_beside_the_prompt_is_its_user() {
        let made = Made {
            nonce: "n".to_owned(),
            user: Some("n".to_owned()),
            begins: None,
            prompt: Prompt::Ids(vec![7, 9]),
            prompt_tokens: 2,
            output_tokens: 1,
            sha256: String::new(),
        };
        assert!(template().body_of(&made).ends_with(r#","user":"n"}"#));
        assert!(!template().body_of(&Made { user: None, ..made }).contains("user\":\"n"));
    }

    #[test]
    fn ids_and_whole_bodies() {
        let ids = BodyTemplate { api: Api::Completions, ..template() }.body(&Prompt::Ids(vec![7, 9]), 1);
        assert!(ids.contains(r#""prompt":[7,9]"#), "{ids}");
        let whole = json!({"model": "theirs", "messages": [], "max_completion_tokens": 4, "temperature": 0.5,
            "stream": false, "stream_options": {"include_usage": false}, "user": "u"});
        let Value::Object(whole) = whole else { panic!("an object") };
        assert_eq!(
            template().body(&Prompt::Body(whole), 9),
            r#"{"model":"m","temperature":0.5,"top_p":1.0,"messages":[],"max_completion_tokens":4,"stream":true,"user":"u","stream_options":{"include_usage":true}}"#
        );
    }
}
