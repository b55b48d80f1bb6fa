//! Formats of captured traces, and how one is known by its first line.

use super::fault::{Fault, Shown};
use super::objects::Names;
use super::table;
use serde::Serialize;
use std::fmt;

/// Who writes a trace so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Azure LLM inference traces: CSV with dates.
    Azure,
    /// BurstGPT: CSV with seconds, in releases of 6 and 8 columns.
    Burstgpt,
    /// Mooncake: JSON Lines with ms and hashes of blocks of 512 tokens.
    Mooncake,
    /// vLLM's timed trace: JSON Lines with seconds and hashes of blocks of 16 tokens.
    Vllm,
    /// Bailian (Qwen): JSON Lines with seconds, hashes of blocks of 16 tokens and conversations.
    Bailian,
    /// JSON Lines with the time in `arrival_ms` or in `timestamp` (s), and prompts or bodies if there are any.
    Generic,
}

/// A format, and how it was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Which.
    pub format: Format,
    /// By what, in words.
    pub by: &'static str,
}

impl Format {
    /// Tokens of a block of `hash_ids`, where the format says so.
    pub fn block_tokens(self) -> Option<u64> {
        match self {
            Format::Mooncake => Some(512),
            Format::Vllm | Format::Bailian => Some(16),
            Format::Azure | Format::Burstgpt | Format::Generic => None,
        }
    }

    /// What a first line can be.
    pub(super) fn wanted() -> &'static str {
        "TIMESTAMP,ContextTokens,GeneratedTokens; Timestamp,..,Request tokens,Response tokens; or objects with \
         timestamp or arrival_ms, input_length and output_length"
    }

    /// The format of a file whose first line is `line`.
    ///
    /// # Errors
    /// It is none that is known, or it could be several.
    pub fn sniff(line: &str) -> Result<Known, Fault> {
        match line.trim_start().as_bytes().first() {
            Some(b'{') => Format::of_object(line),
            Some(b'[') => Err(Fault::Array),
            _ => Format::of_header(line),
        }
    }

    fn of_header(line: &str) -> Result<Known, Fault> {
        let head = table::fields(line)?;
        for format in [Format::Azure, Format::Burstgpt] {
            if table::missing(&head, format).is_empty() {
                return Ok(Known { format, by: "the names of its columns" });
            }
        }
        // half of the names: the file was meant
        for format in [Format::Azure, Format::Burstgpt] {
            let missing = table::missing(&head, format);
            if missing.len() < table::columns(format).len() {
                let found = Shown::new(&head.join(", "));
                return Err(Fault::Columns { found, format, missing: missing.join(", ") });
            }
        }
        Err(Fault::Unknown(Shown::new(line)))
    }

    fn of_object(line: &str) -> Result<Known, Fault> {
        let names = Names::of(line)?;
        let known = |format, by| Ok(Known { format, by });
        if names.has("arrival_ms") {
            return known(Format::Generic, "its field arrival_ms");
        }
        if !names.has("timestamp") {
            return Err(Fault::Unknown(Shown::new(line)));
        }
        if names.has("chat_id") || names.has("parent_chat_id") {
            return known(Format::Bailian, "its field chat_id");
        }
        let (Some(tokens), Some(blocks)) = (names.input_length, names.blocks) else {
            return Err(Fault::Ambiguous("a timestamp without hash_ids and input_length"));
        };
        match (tokens.div_ceil(512) == blocks, tokens.div_ceil(16) == blocks) {
            (true, false) => known(Format::Mooncake, "one hash for every 512 tokens in its first row"),
            (false, true) => known(Format::Vllm, "one hash for every 16 tokens in its first row"),
            _ => Err(Fault::Ambiguous("the first row has a hash neither for every 512 tokens nor for every 16")),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Azure => "azure",
            Format::Burstgpt => "burstgpt",
            Format::Mooncake => "mooncake",
            Format::Vllm => "vllm",
            Format::Bailian => "bailian",
            Format::Generic => "generic",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_by_the_first_line() {
        let of = |line: &str| Format::sniff(line).map(|known| known.format);
        assert_eq!(of("TIMESTAMP,ContextTokens,GeneratedTokens"), Ok(Format::Azure));
        assert_eq!(of("\"TIMESTAMP\",\"ContextTokens\",\"GeneratedTokens\""), Ok(Format::Azure));
        assert_eq!(of("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"), Ok(Format::Burstgpt));
        assert_eq!(
            of("Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type"),
            Ok(Format::Burstgpt)
        );
        let blocks = |n: usize| (0..n).map(|i| i.to_string()).collect::<Vec<_>>().join(",");
        let timed =
            |n| format!(r#"{{"timestamp":0,"input_length":6755,"output_length":500,"hash_ids":[{}]}}"#, blocks(n));
        assert_eq!(of(&timed(14)), Ok(Format::Mooncake));
        assert_eq!(of(&timed(423)), Ok(Format::Vllm));
        assert!(matches!(of(&timed(100)), Err(Fault::Ambiguous(_))));
        assert_eq!(of(r#"{"chat_id":1,"timestamp":0.5,"input_length":3,"output_length":5}"#), Ok(Format::Bailian));
        assert_eq!(of(r#"{"arrival_ms":1,"input_tokens":3,"output_tokens":5}"#), Ok(Format::Generic));
    }

    #[test]
    fn what_could_be_s_or_ms_is_not_guessed() {
        for line in [
            r#"{"timestamp":1,"input_length":30,"output_length":5}"#,
            r#"{"timestamp":1,"input_tokens":30,"output_tokens":5}"#,
            r#"{"timestamp":1,"input_length":3,"output_length":5,"hash_ids":[1]}"#,
        ] {
            let said = Format::sniff(line).expect_err("ambiguous").to_string();
            assert!(said.contains("--trace-format"), "{said}");
        }
    }

    #[test]
    fn wrong_columns_are_named() {
        let said = Format::sniff("TIMESTAMP,Context,GeneratedTokens").expect_err("a column is missing").to_string();
        assert!(said.contains("Context, GeneratedTokens") && said.contains("azure needs ContextTokens"), "{said}");
        let said = Format::sniff("id;time\u{7};n").expect_err("unknown").to_string();
        assert!(said.contains(r"id;time\u{7};n") && said.contains("ContextTokens"), "{said}");
        assert_eq!(Format::sniff("[{"), Err(Fault::Array));
        assert!(matches!(Format::sniff(r#"{"timestamp": NaN}"#), Err(Fault::Json(_))));
    }
}
