//! Request bodies of the OpenAI API, chat and text. Sampling fields are always sent, so that no server
//! default decides.

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
    /// The body for `prompt`, at most `output_tokens` long.
    pub fn body(&self, prompt: &str, output_tokens: u64) -> String {
        let mut body = Map::new();
        let mut put = |name: &str, value: Value| body.insert(name.to_owned(), value);
        put("model", json!(self.model));
        match self.api {
            Api::Chat => put("messages", json!([{"role": "user", "content": prompt}])),
            Api::Completions => put("prompt", json!(prompt)),
        };
        put("max_tokens", json!(output_tokens));
        put("temperature", json!(self.temperature));
        put("top_p", json!(self.top_p));
        put("stream", json!(self.stream));
        if self.stream {
            let running = self.token_proof == TokenProof::Usage;
            let options = match running {
                true => json!({"include_usage": true, "continuous_usage_stats": true}),
                false => json!({"include_usage": true}),
            };
            put("stream_options", options);
        }
        if self.ignore_eos {
            put("ignore_eos", json!(true));
        }
        if self.token_proof == TokenProof::Ids {
            put("return_token_ids", json!(true));
        }
        body.extend(self.extra.clone());
        Value::Object(body).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            template().body("hi \"there\"", 5),
            r#"{"model":"m","messages":[{"role":"user","content":"hi \"there\""}],"max_tokens":5,"temperature":0.0,"top_p":1.0,"stream":true,"stream_options":{"include_usage":true}}"#
        );
    }

    #[test]
    fn variants() {
        let text = BodyTemplate { api: Api::of_endpoint("/v1/completions"), stream: false, ..template() }.body("x", 1);
        assert!(text.contains(r#""prompt":"x""#) && !text.contains("stream_options"), "{text}");
        let proof = BodyTemplate { token_proof: TokenProof::Usage, ignore_eos: true, ..template() }.body("x", 1);
        assert!(proof.contains("continuous_usage_stats") && proof.contains(r#""ignore_eos":true"#), "{proof}");
        let mut extra = Map::new();
        extra.insert("temperature".to_owned(), json!(0.7));
        let replaced = BodyTemplate { extra, ..template() }.body("x", 1);
        assert!(replaced.contains(r#""temperature":0.7"#) && !replaced.contains(r#""temperature":0.0"#), "{replaced}");
        assert_eq!(Api::of_endpoint("/v1/chat/completions"), Api::Chat);
    }
}
