//! What the prompts of a window share, and so what a server's prefix cache can save.

use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// What the prompts of a window share. Windows, load points and runs share nothing but in `AsIs`; the warm-up shares
/// nothing with what is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cache {
    /// Nothing: each begins with a nonce.
    #[default]
    Unique,
    /// Their first tokens; then each has a nonce and words of its own.
    SharedPrefix {
        /// How many tokens, at least 1.
        tokens: u64,
    },
    /// Everything: one request again and again.
    Repeat,
    /// Whatever they share in the file they come from; the same in every window.
    AsIs,
}

impl Cache {
    /// The server's cache is meant to help: titles say so.
    pub fn is_test(self) -> bool {
        matches!(self, Cache::SharedPrefix { .. } | Cache::Repeat)
    }

    /// As the announcement says it.
    pub fn words(self) -> String {
        match self {
            Cache::Unique => "a nonce first in every prompt".to_owned(),
            Cache::SharedPrefix { tokens } => {
                format!("CACHE TEST: the first {tokens} tokens the same in all prompts of a window")
            }
            Cache::Repeat => "CACHE TEST: one request again and again in each window".to_owned(),
            Cache::AsIs => "prompts as the file has them, the same in every window".to_owned(),
        }
    }

    /// The same of sessions, within which each turn repeats what was said before.
    pub fn words_of_sessions(self) -> String {
        match self {
            Cache::Unique => "a nonce first in every message: no session has the beginning of another".to_owned(),
            Cache::SharedPrefix { tokens } => {
                format!("CACHE TEST: the first {tokens} tokens the same in all sessions of a window")
            }
            Cache::Repeat | Cache::AsIs => "messages as the file has them, the same in every window".to_owned(),
        }
    }
}

impl fmt::Display for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cache::Unique => f.write_str("unique"),
            Cache::SharedPrefix { tokens } => write!(f, "shared-prefix:{tokens}"),
            Cache::Repeat => f.write_str("repeat"),
            Cache::AsIs => f.write_str("as-is"),
        }
    }
}

impl FromStr for Cache {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "unique" => Ok(Cache::Unique),
            "repeat" => Ok(Cache::Repeat),
            "as-is" => Ok(Cache::AsIs),
            _ => match text.strip_prefix("shared-prefix:").map(str::parse::<u64>) {
                Some(Ok(tokens)) if (1..=super::distributions::MAX_TOKENS).contains(&tokens) => {
                    Ok(Cache::SharedPrefix { tokens })
                }
                _ => Err(text.to_owned()),
            },
        }
    }
}

impl Serialize for Cache {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back() {
        for cache in [Cache::Unique, Cache::SharedPrefix { tokens: 128 }, Cache::Repeat, Cache::AsIs] {
            assert_eq!(cache.to_string().parse(), Ok(cache));
        }
        for bad in ["", "shared-prefix", "shared-prefix:0", "shared-prefix:x", "Repeat"] {
            assert_eq!(bad.parse::<Cache>(), Err(bad.to_owned()));
        }
    }
}
