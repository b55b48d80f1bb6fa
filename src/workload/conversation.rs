//! What was said in a session so far, as its next turn sends it.

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
    /// first message, which all requests of the session share; `user` then carries the nonce.
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
