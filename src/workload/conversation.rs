//! What was said in a session so far, as its next turn sends it.
//!
//! A router sees the requests of one session as requests of one chat that grows: each begins with all of the one before,
//! byte for byte, and none has a `user` of ours. One that keeps a prefix, a conversation or an address on one server
//! finds the cache of the turn before; one that goes by `user` has none to go by, or the same for all where
//! `--extra-body` sets it. In a server's log a turn is known by the first word of its own message, the last one of a user,
//! where that is its nonce: not in messages that are sent as their file has them, and not in first messages that begin with
//! what all sessions share.

use super::prompt::{Made, Prompt, PromptMaker};
use super::sessions::TurnShape;
use serde::Serialize;
use serde_json::Value;

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions in front.
    System,
    /// Us.
    User,
    /// The server.
    Assistant,
}

/// One message of a chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Message {
    /// Of whom.
    pub role: Role,
    /// Plain text.
    pub content: String,
}

/// A session's messages, and by what its first one begins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    messages: Vec<Message>,
    begins: Option<String>,
}

impl Conversation {
    /// Adds the message of the next turn, which is request `trace_id` of window number `serial` of the run. What is made
    /// tells of this message alone: its length, its hash, its nonce. After the first turn `begins` is the beginning of the
    /// first message, which all requests of the session share. No turn has a `user`: one that changed with every turn
    /// would send a session from server to server, away from the cache that it is to find.
    pub fn ask(&mut self, maker: &PromptMaker, serial: u64, trace_id: u64, turn: &TurnShape) -> Made {
        let is_first = self.messages.is_empty();
        let mut made = match is_first {
            true => maker.make(serial, trace_id, &turn.shape),
            false => maker.make_later(serial, trace_id, &turn.shape),
        };
        match &made.prompt {
            Prompt::Text(text) => self.say(Role::User, text.clone()),
            Prompt::Body(fields) => self.messages.extend(fields.get("messages").map(said).unwrap_or_default()),
            // plans refuse ids for a chat
            Prompt::Ids(_) => {}
        }
        match is_first {
            true => self.begins = Some(made.begins.clone().unwrap_or_else(|| made.nonce.clone())),
            false => made.begins.clone_from(&self.begins),
        }
        made.user = None;
        made
    }

    /// Adds the reply to the last turn: its text exactly as the server sent it, which may be empty.
    pub fn answered(&mut self, text: String) {
        self.say(Role::Assistant, text);
    }

    /// Everything that was said, in order.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    fn say(&mut self, role: Role, content: String) {
        self.messages.push(Message { role, content });
    }
}

/// The messages of a body of somebody's; readers let none through that is not plain text.
fn said(messages: &Value) -> Vec<Message> {
    let one = |message: &Value| {
        let role = match message.get("role")?.as_str()? {
            "system" | "developer" => Role::System,
            "assistant" => Role::Assistant,
            _ => Role::User,
        };
        Some(Message { role, content: message.get("content")?.as_str()?.to_owned() })
    };
    messages.as_array().into_iter().flatten().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::super::cache::Cache;
    use super::super::gauge::Gauge;
    use super::super::ids::PromptForm;
    use super::super::nonce::Nonces;
    use super::super::{Content, Shape};
    use super::*;
    use crate::target::openai::{Api, BodyTemplate, TokenProof};
    use bench_engine::units::Nanos;
    use serde_json::{Map, json};

    fn maker(cache: Cache) -> PromptMaker {
        PromptMaker {
            seed: 7,
            nonces: Nonces::of_run("r1"),
            window_words: Nonces::of_run("r1"),
            gauge: Gauge::WORD_EACH,
            tokenizer: None,
            cache,
            texts_counted: true,
            form: PromptForm::Text,
            drop: 3,
        }
    }

    fn turn(content: Content) -> TurnShape {
        let shape = Shape { class: "c".to_owned(), prompt_tokens: 30, output_tokens: 5, content };
        TurnShape { shape, pause: Nanos::ZERO }
    }

    fn said(conversation: &Conversation) -> Vec<(Role, &str)> {
        conversation.messages().iter().map(|m| (m.role, m.content.as_str())).collect()
    }

    const REPLIES: [&str; 3] = ["", "a \"quoted\"\nline \u{1f600}", "  blanks  "];

    #[test]
    fn each_turn_sends_everything_that_was_said() {
        let body = BodyTemplate {
            api: Api::Chat,
            model: "m".to_owned(),
            stream: true,
            temperature: 0.0,
            top_p: 1.0,
            ignore_eos: false,
            token_proof: TokenProof::None,
            extra: Map::new(),
        };
        let (maker, mut conversation) = (maker(Cache::Unique), Conversation::default());
        let mut messages: Vec<Value> = Vec::new();
        for (trace_id, reply) in (9..).zip(REPLIES) {
            let made = conversation.ask(&maker, 4, trace_id, &turn(Content::Words));
            let Prompt::Text(text) = &made.prompt else { panic!("text") };
            messages.push(json!({"role": "user", "content": text}));
            let sent: Value = serde_json::from_str(&body.body_of_turn(conversation.messages(), &made)).expect("JSON");
            assert_eq!(sent["messages"], json!(messages));
            assert_eq!((&sent["max_tokens"], &sent["stream_options"]["include_usage"]), (&json!(5), &json!(true)));
            let is_first = trace_id == 9;
            assert_eq!((sent.get("user"), &made.user), (None, &None), "a router must not take turns for users");
            assert_eq!(made.begins, (!is_first).then(|| maker.nonces.nonce(4, 9)), "all begin with the first message");
            assert!(text.starts_with(&maker.nonces.nonce(4, trace_id)) && text.split(' ').count() == 30);
            conversation.answered(reply.to_owned());
            messages.push(json!({"role": "assistant", "content": reply}));
        }
        assert_eq!(conversation.messages().len(), 6);
        // a single request is the same as a first turn
        let alone = maker.make(4, 9, &turn(Content::Words).shape);
        let first = Conversation::default().ask(&maker, 4, 9, &turn(Content::Words));
        let one = [Message { role: Role::User, content: messages[0]["content"].as_str().expect("text").to_owned() }];
        assert_eq!((body.body_of(&alone), &alone), (body.body_of_turn(&one, &first), &first));
    }

    #[test]
    fn what_sessions_share_stands_in_their_first_message() {
        let maker = maker(Cache::SharedPrefix { tokens: 20 });
        let two = |first: u64| {
            let mut conversation = Conversation::default();
            let made = [first, first + 1].map(|id| {
                let made = conversation.ask(&maker, 4, id, &turn(Content::Words));
                conversation.answered("r".to_owned());
                made
            });
            (conversation, made)
        };
        let ((a, made), (b, _)) = (two(10), two(20));
        let words = |c: &Conversation, at: usize| {
            c.messages()[at].content.split(' ').take(20).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(words(&a, 0), words(&b, 0));
        assert_ne!(words(&a, 2)[0], words(&b, 2)[0]);
        assert_eq!(made[0].begins, made[1].begins);
        assert_eq!([&made[0].user, &made[1].user], [&None, &None], "not even where the nonce is not the first word");
    }

    #[test]
    fn texts_of_somebody_keep_their_system_in_front() {
        let fields =
            json!({"messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]});
        let Value::Object(fields) = fields else { panic!("an object") };
        let later = || turn(Content::Text("and then".to_owned()));
        let (marked, mut conversation) = (maker(Cache::Unique), Conversation::default());
        let first = conversation.ask(&marked, 0, 9, &turn(Content::Body(fields.clone())));
        conversation.answered("ho".to_owned());
        let second = conversation.ask(&marked, 0, 10, &later());
        let (front, own) = (format!("{} be brief", first.nonce), format!("{} and then", second.nonce));
        assert_eq!(
            said(&conversation),
            [(Role::System, front.as_str()), (Role::User, "hi"), (Role::Assistant, "ho"), (Role::User, &own)]
        );
        assert_eq!((second.prompt_tokens, second.begins), (3, Some(first.nonce)));
        let (as_is, mut conversation) = (maker(Cache::AsIs), Conversation::default());
        let first = conversation.ask(&as_is, 0, 9, &turn(Content::Body(fields)));
        conversation.answered("ho".to_owned());
        let second = conversation.ask(&as_is, 0, 10, &later());
        assert_eq!(said(&conversation)[3], (Role::User, "and then"));
        assert_eq!((second.begins, first.user, second.user), (first.begins, None, None));
    }
}
