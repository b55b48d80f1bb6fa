//! Conversations as ShareGPT has them: a JSON list of `{"conversations": [{"from": "human", "value": ".."}, ..]}`, with
//! the names that its copies use, or one such object a line. The first turn of a person is the prompt, the answer to it
//! gives the length that is asked for.

use super::Content;
use super::dataset::Entry;
use super::lines::{BadFile, MAX_LINE_BYTES, skip_mark};
use serde::Deserialize;
use std::fmt;
use std::io::BufRead;
use std::path::Path;

/// Why a conversation gives no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unusable {
    /// No list of turns under any known name.
    NoTurns,
    /// Fewer than two.
    TooFew,
    /// Somebody else begins.
    NotAsked,
    /// The second turn is no answer.
    NotAnswered,
    /// Nothing but blanks.
    EmptyPrompt,
    /// Nothing but blanks.
    EmptyAnswer,
    /// It has fewer exchanges than a session is to have at least.
    TooShort(u32),
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unusable::NoTurns => "no list of turns",
            Unusable::TooFew => "fewer than two turns",
            Unusable::NotAsked => "the first turn is not a person's",
            Unusable::NotAnswered => "the second turn is no answer",
            Unusable::EmptyPrompt => "empty prompt",
            Unusable::EmptyAnswer => "empty answer",
            Unusable::TooShort(least) => return write!(f, "fewer than {least} questions with an answer"),
        })
    }
}

#[derive(Deserialize)]
struct Conversation {
    #[serde(alias = "conversation", alias = "messages")]
    conversations: Option<Vec<Turn>>,
}

#[derive(Deserialize)]
struct Turn {
    #[serde(alias = "role")]
    from: Option<String>,
    #[serde(alias = "content")]
    value: Option<String>,
}

/// Reads a conversation.
///
/// # Errors
/// It is no JSON of that form; in words.
pub(super) fn read(text: &[u8]) -> Result<Result<Entry, Unusable>, String> {
    let first = |mut turns: Vec<Entry>| turns.pop().ok_or(Unusable::TooFew);
    Ok(read_session(text, [1, 1])?.and_then(first))
}

/// Reads a conversation's first exchanges: as many as there are in a row, from `turns[0]` to `turns[1]` of them.
///
/// # Errors
/// It is no JSON of that form; in words.
pub(super) fn read_session(text: &[u8], turns: [u32; 2]) -> Result<Result<Vec<Entry>, Unusable>, String> {
    let whole: Conversation = serde_json::from_slice(text).map_err(|e| format!("is no conversation: {e}"))?;
    Ok(exchanges(whole, turns))
}

fn exchanges(whole: Conversation, [at_least, at_most]: [u32; 2]) -> Result<Vec<Entry>, Unusable> {
    let turns = whole.conversations.ok_or(Unusable::NoTurns)?;
    let is = |turn: &Turn, names: &[&str]| turn.from.as_deref().is_some_and(|from| names.contains(&from));
    // instructions of a system are no turn: neither vLLM nor its kin send them
    let mut turns = turns.into_iter().skip_while(|turn| is(turn, &["system"]));
    let mut found = Vec::new();
    while found.len() < at_most as usize {
        match exchange(turns.next(), turns.next(), is) {
            Ok(entry) => found.push(entry),
            // what follows a turn that cannot be sent is no longer that conversation
            Err(_) if !found.is_empty() => break,
            Err(why) => return Err(why),
        }
    }
    if found.len() < at_least as usize { Err(Unusable::TooShort(at_least)) } else { Ok(found) }
}

/// A question and its answer.
fn exchange(
    asked: Option<Turn>,
    answered: Option<Turn>,
    is: impl Fn(&Turn, &[&str]) -> bool,
) -> Result<Entry, Unusable> {
    let (Some(asked), Some(answered)) = (asked, answered) else { return Err(Unusable::TooFew) };
    if !is(&asked, &["human", "user"]) {
        return Err(Unusable::NotAsked);
    }
    if !is(&answered, &["gpt", "assistant", "chatgpt", "bing", "bard", "model"]) {
        return Err(Unusable::NotAnswered);
    }
    let words = |text: &str| text.split_whitespace().count() as u64;
    let prompt = asked.value.unwrap_or_default();
    let (prompt_words, answer_words) = (words(&prompt), words(answered.value.as_deref().unwrap_or_default()));
    match (prompt_words, answer_words) {
        (0, _) => Err(Unusable::EmptyPrompt),
        (_, 0) => Err(Unusable::EmptyAnswer),
        _ => Ok(Entry { prompt_words, output_tokens: None, content: Content::Conversation { prompt, answer_words } }),
    }
}

/// The objects of a JSON list, or of a file with one after the other, one at a time.
pub(super) struct Objects<'a, R> {
    source: R,
    path: &'a Path,
    place: Place,
    /// Of the next byte.
    offset: u64,
    /// Of the next byte, from 1.
    line: u64,
    object: Vec<u8>,
}

/// Where a reader of objects stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Start,
    /// In the list, where an object may begin.
    InList,
    /// In the list, behind an object.
    Behind,
    /// Objects without a list.
    Bare,
    /// Behind the list.
    Ended,
}

/// One of them.
pub(super) struct Object<'a> {
    /// Line of its first byte, from 1.
    pub(super) line: u64,
    /// Of its first byte in the file.
    pub(super) offset: u64,
    /// What it says.
    pub(super) bytes: &'a [u8],
}

impl<'a, R: BufRead> Objects<'a, R> {
    /// From the start of `source`.
    pub(super) fn new(mut source: R, path: &'a Path) -> Result<Self, BadFile> {
        let offset = skip_mark(&mut source, path)?;
        Ok(Objects { source, path, place: Place::Start, offset, line: 1, object: Vec::new() })
    }

    /// The next object; None: the file is at its end.
    ///
    /// # Errors
    /// What stands there is neither a list of objects nor objects, ends too early, or is too long.
    pub(super) fn next(&mut self) -> Result<Option<Object<'_>>, BadFile> {
        loop {
            let Some(byte) = self.peek()? else {
                return match self.place {
                    Place::Start => Err(BadFile::whole(self.path, "is empty")),
                    Place::InList | Place::Behind => {
                        Err(self.bad("the file ends inside its list; is all of it there?"))
                    }
                    Place::Bare | Place::Ended => Ok(None),
                };
            };
            self.place = match (self.place, byte) {
                (place, b' ' | b'\t' | b'\r' | b'\n') => place,
                (Place::Start, b'[') => Place::InList,
                (Place::Start | Place::Bare, b'{') => return self.object(Place::Bare).map(Some),
                (Place::InList, b'{') => return self.object(Place::Behind).map(Some),
                (Place::Behind, b',') => Place::InList,
                (Place::InList | Place::Behind, b']') => Place::Ended,
                (Place::Ended, _) => return Err(self.bad("something follows the list")),
                (_, 0) => return Err(self.bad("has zero bytes and is no text; if it is UTF-16, convert it")),
                _ => {
                    let what = char::from(byte).escape_default();
                    return Err(self.bad(&format!("'{what}' where a conversation should begin or the list end")));
                }
            };
            self.pass(1, byte == b'\n');
        }
    }

    fn bad(&self, text: &str) -> BadFile {
        BadFile::line(self.path, self.line, text)
    }

    fn peek(&mut self) -> Result<Option<u8>, BadFile> {
        let (path, line) = (self.path, self.line);
        let buffer = self.source.fill_buf().map_err(|e| BadFile::line(path, line, format!("cannot be read: {e}")))?;
        Ok(buffer.first().copied())
    }

    fn pass(&mut self, bytes: usize, ends_line: bool) {
        self.source.consume(bytes);
        self.offset += bytes as u64;
        self.line += u64::from(ends_line);
    }

    /// From its brace to the one that closes it.
    fn object(&mut self, then: Place) -> Result<Object<'_>, BadFile> {
        self.place = then;
        self.object.clear();
        let (path, line, offset) = (self.path, self.line, self.offset);
        let (mut depth, mut in_text, mut escaped) = (0_u64, false, false);
        loop {
            let buffer =
                self.source.fill_buf().map_err(|e| BadFile::line(path, line, format!("cannot be read: {e}")))?;
            if buffer.is_empty() {
                return Err(BadFile::line(path, line, "the file ends inside this conversation; is all of it there?"));
            }
            let mut taken = 0;
            let mut whole = false;
            for byte in buffer {
                taken += 1;
                match (in_text, escaped, byte) {
                    (_, _, b'\n') => self.line += 1,
                    (true, true, _) => escaped = false,
                    (true, false, b'\\') => escaped = true,
                    (true, false, b'"') => in_text = false,
                    (false, _, b'"') => in_text = true,
                    (false, _, b'{' | b'[') => depth += 1,
                    (false, _, b'}' | b']') => depth -= 1,
                    _ => {}
                }
                if depth == 0 {
                    whole = true;
                    break;
                }
            }
            self.object.extend_from_slice(&buffer[..taken]);
            self.source.consume(taken);
            self.offset += taken as u64;
            if self.object.len() > MAX_LINE_BYTES {
                let text = format!("has more than {MAX_LINE_BYTES} bytes, the most a conversation may have");
                return Err(BadFile::line(path, line, text));
            }
            if whole {
                return Ok(Object { line, offset, bytes: &self.object });
            }
        }
    }

    /// What was read from.
    pub(super) fn into_source(self) -> R {
        self.source
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use std::io::BufReader;

    fn entry(value: &Value) -> Result<Entry, Unusable> {
        read(value.to_string().as_bytes()).expect("a conversation")
    }

    #[test]
    fn the_names_of_all_copies_are_known() {
        let turns = |from: &str, value: &str, a: &str, b: &str| json!([{from: a, value: "how are you"}, {from: b, value: "I am fine, thanks"}, {from: a, value: "bye"}]);
        for value in [
            json!({"id": "x", "conversations": turns("from", "value", "human", "gpt")}),
            json!({"conversations": turns("role", "content", "user", "assistant")}),
            json!({"messages": turns("role", "content", "user", "assistant")}),
            json!({"conversation": turns("from", "value", "user", "chatgpt")}),
            json!({"conversations": [{"from": "system", "value": "be nice"}, {"from": "human", "value": "how are you"}, {"from": "gpt", "value": "I am fine, thanks"}]}),
        ] {
            let entry = entry(&value).expect("usable");
            assert_eq!((entry.prompt_words, entry.output_tokens), (3, None), "{value}");
            let content = Content::Conversation { prompt: "how are you".to_owned(), answer_words: 4 };
            assert_eq!(entry.content, content);
        }
    }

    #[test]
    fn each_kind_of_unusable_one_is_named() {
        let of = |turns: Value| entry(&json!({"conversations": turns})).expect_err("unusable");
        assert_eq!(entry(&json!({"id": 1})), Err(Unusable::NoTurns));
        assert_eq!(of(json!([])), Unusable::TooFew);
        assert_eq!(of(json!([{"from": "human", "value": "a"}])), Unusable::TooFew);
        assert_eq!(of(json!([{"from": "gpt", "value": "a"}, {"from": "human", "value": "a"}])), Unusable::NotAsked);
        assert_eq!(
            of(json!([{"from": "human", "value": "a"}, {"from": "human", "value": "a"}])),
            Unusable::NotAnswered
        );
        assert_eq!(of(json!([{"from": "human", "value": " "}, {"from": "gpt", "value": "a"}])), Unusable::EmptyPrompt);
        assert_eq!(of(json!([{"from": "human", "value": "a"}, {"from": "gpt"}])), Unusable::EmptyAnswer);
    }

    #[test]
    fn a_session_has_the_exchanges_that_follow_each_other() {
        let turns = |froms: &[(&str, &str)]| {
            let list: Vec<Value> = froms.iter().map(|(from, value)| json!({"from": from, "value": value})).collect();
            json!({"conversations": list}).to_string()
        };
        let four = turns(&[
            ("system", "s"),
            ("human", "a"),
            ("gpt", "1 2"),
            ("human", "b c"),
            ("gpt", "3"),
            ("human", "d"),
            ("gpt", " "),
            ("human", "e"),
            ("gpt", "4"),
        ]);
        let of = |turns| read_session(four.as_bytes(), turns).expect("a conversation");
        let found = of([2, 6]).expect("usable");
        let said = |prompt: &str, answer_words| Content::Conversation { prompt: prompt.to_owned(), answer_words };
        let contents: Vec<Content> = found.into_iter().map(|entry| entry.content).collect();
        assert_eq!(contents, [said("a", 2), said("b c", 1)], "what follows an empty answer is another conversation");
        assert_eq!(of([1, 1]).expect("usable").len(), 1, "cut to the most");
        assert_eq!(of([3, 6]), Err(Unusable::TooShort(3)));
        assert_eq!(Unusable::TooShort(3).to_string(), "fewer than 3 questions with an answer");
    }

    fn objects(text: &[u8], buffer: usize) -> Result<Vec<(u64, u64, String)>, String> {
        let path = Path::new("f");
        let source = BufReader::with_capacity(buffer, text);
        let mut objects = Objects::new(source, path).map_err(|e| e.to_string())?;
        let mut found = Vec::new();
        loop {
            match objects.next() {
                Ok(Some(o)) => found.push((o.line, o.offset, String::from_utf8_lossy(o.bytes).into_owned())),
                Ok(None) => return Ok(found),
                Err(e) => return Err(e.to_string()),
            }
        }
    }

    #[test]
    fn lists_and_lines() {
        let found = objects(b"[\n {\"a\": \"}\\\"]\"},\n{\"b\":[{}]}\n]\n", 7).expect("a list");
        assert_eq!(found, [(2, 3, "{\"a\": \"}\\\"]\"}".to_owned()), (3, 18, "{\"b\":[{}]}".to_owned())]);
        assert_eq!(objects(b"{}\n{}\n", 3).expect("lines").len(), 2);
        assert_eq!(objects(b" [ ] ", 3).expect("an empty list").len(), 0);
        let said = |text: &str| objects(text.as_bytes(), 5).expect_err("refused");
        assert!(said("[{},").contains("ends inside its list"));
        assert!(
            said("[\n{\"a\":").starts_with("f:2: the file ends inside this conversation"),
            "{}",
            said("[\n{\"a\":")
        );
        assert!(said("[1]").contains("'1' where"));
        assert!(said("[{}{}]").contains("'{' where"));
        assert!(said("[{}] x").contains("follows the list"));
        assert!(said("hello").contains("'h' where"));
        assert!(said(" \n").contains("is empty"));
    }

    proptest! {
        #[test]
        fn the_objects_are_those_of_the_list(texts in proptest::collection::vec("\\PC{0,30}", 0..8), buffer in 3_usize..40, pretty: bool) {
            let list: Vec<Value> = texts.iter().map(|t| json!({"conversations": [{"from": t, "value": [t, {}]}], t: 1})).collect();
            let whole = if pretty { serde_json::to_string_pretty(&list) } else { serde_json::to_string(&list) };
            let whole = whole.expect("json");
            let found = objects(whole.as_bytes(), buffer).expect("a list");
            let same: Vec<Value> = found.iter().map(|(_, _, text)| serde_json::from_str(text).expect("json")).collect();
            prop_assert_eq!(same, list);
            for (line, offset, text) in found {
                prop_assert!(whole[offset as usize..].starts_with(&text));
                prop_assert_eq!(whole[..offset as usize].matches('\n').count() as u64 + 1, line);
            }
        }

        #[test]
        fn no_file_is_too_strange(text in "[\\[\\]{}\":, a\n\\\\]{0,60}", buffer in 3_usize..9) {
            let _ = objects(text.as_bytes(), buffer);
        }
    }
}
