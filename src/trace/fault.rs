//! What is wrong with a captured trace, and where.

use super::format::Format;
use std::fmt;
use thiserror::Error;

/// Longest length that is believed, in tokens.
pub const MOST_TOKENS: u64 = 1_000_000_000;
/// Longest piece of a file that is repeated to people, in characters.
const SHOWN: usize = 80;

/// A trace that cannot be replayed, by file and line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{file}{}: {fault}", line.map_or_else(String::new, |n| format!(":{n}")))]
pub struct BadTrace {
    /// As typed.
    pub file: String,
    /// From 1; None: it is not about one line.
    pub line: Option<u64>,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// The system does not give it.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// A directory.
    #[error("it is a directory: name the file in it")]
    Directory,
    /// Nothing in it.
    #[error("it is empty: a trace has at least one row")]
    Empty,
    /// Names of columns alone.
    #[error("there is a header and no row")]
    HeaderOnly,
    /// Rows, but none to send.
    #[error("none of its {read} rows is left: {why}")]
    NothingLeft {
        /// Rows read.
        read: u64,
        /// Where they went.
        why: String,
    },
    /// UTF-16, by its mark or its zeros.
    #[error("it is UTF-16: convert it first (iconv -f UTF-16 -t UTF-8 FILE)")]
    Utf16,
    /// Something else that is no text.
    #[error("it is no text ({0}): a trace is CSV or JSON Lines in UTF-8")]
    Binary(&'static str),
    /// A line without an end.
    #[error("the line is longer than {0} bytes, the most that are read: is this a trace of CSV or JSON Lines?")]
    LongLine(usize),
    /// Not a trace that is known.
    #[error("the first line begins {0:?}, which is neither a JSON object nor a header with the columns of a known trace (wanted: {wanted})", wanted = Format::wanted())]
    Unknown(Shown),
    /// An array of objects.
    #[error("it is one JSON array: one object a line is wanted (jq -c '.[]' FILE)")]
    Array,
    /// A CSV file without the columns.
    #[error("the columns are {found}; {format} needs {missing}")]
    Columns {
        /// Names in the header.
        found: Shown,
        /// Which kind of file it was to be.
        format: Format,
        /// Names that are not there.
        missing: String,
    },
    /// Times that could be s or ms.
    #[error(
        "what unit its times have cannot be told ({0}): say it with --trace-format mooncake (ms, blocks of 512), vllm or bailian (s, blocks of 16), generic (timestamp in s)"
    )]
    Ambiguous(&'static str),
    /// A row that came earlier than the one before.
    #[error("its time is before that of line {0}: sort the file by its column of times")]
    Back(u64),
    /// A field that is not there.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A field that says something else.
    #[error("{name} is {found:?}: {wanted} is wanted")]
    Field {
        /// Its name.
        name: &'static str,
        /// What it says.
        found: Shown,
        /// What it should be.
        wanted: &'static str,
    },
    /// Two fields for one thing.
    #[error("it has both {0} and {1}: keep one of them")]
    Both(&'static str, &'static str),
    /// Not as many fields as names.
    #[error("it has {has} fields, the header has {head}")]
    Fields {
        /// Of the line.
        has: usize,
        /// Of the header.
        head: usize,
    },
    /// A quote without an end.
    #[error("a quoted field has no closing quote on its line")]
    Quote,
    /// Not JSON.
    #[error("it is no JSON object: {0}")]
    Json(String),
    /// `hash_ids` without the length of a block.
    #[error("it has hash_ids, and nothing says how many tokens a block has: add --hash-block N")]
    NoBlock,
    /// A name of somebody's.
    #[error("there are more than {0} different classes: is that column a class?")]
    Classes(usize),
    /// Times too far apart.
    #[error("it is more than 290 years after the first row")]
    TooLate,
}

/// Somebody's text, short and printable.
#[derive(Clone, PartialEq, Eq)]
pub struct Shown(String);

impl Shown {
    /// At most 80 characters, control characters escaped.
    pub fn new(text: &str) -> Shown {
        let mut shown: String = text.chars().take(SHOWN).flat_map(char::escape_debug).collect();
        if text.chars().nth(SHOWN).is_some() {
            shown.push_str("..");
        }
        Shown(shown)
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0)
    }
}

/// A fault and its line, before the file's name is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtLine {
    /// From 1; None: of the whole file.
    pub line: Option<u64>,
    /// What is wrong.
    pub fault: Fault,
}

impl AtLine {
    /// At a line.
    pub fn new(line: u64, fault: Fault) -> AtLine {
        AtLine { line: Some(line), fault }
    }

    /// Of the whole file.
    pub fn whole(fault: Fault) -> AtLine {
        AtLine { line: None, fault }
    }

    /// In a file.
    pub fn of(self, file: &str) -> BadTrace {
        BadTrace { file: file.to_owned(), line: self.line, fault: self.fault }
    }
}
