//! The hash chain of `requests.jsonl`: each line ends in `"h"`, the SHA-256 of the previous line's h and
//! of the line without h. A changed, lost or inserted line breaks it at that line.

use sha2::{Digest, Sha256};

/// Running end of a chain.
#[derive(Clone, Debug)]
pub struct Chain {
    last_hex: String,
}

impl Default for Chain {
    fn default() -> Self {
        Chain { last_hex: "0".repeat(64) }
    }
}

impl Chain {
    /// The chain as it stands after the line with this h: from there on it can be checked without what came before.
    pub fn after(h: &str) -> Self {
        Chain { last_hex: h.to_owned() }
    }

    /// The h of the last line, 64 hex digits; zeros before the first.
    pub fn last_hex(&self) -> &str {
        &self.last_hex
    }

    /// Appends `h` to `line`, a JSON object without it and without a line end.
    ///
    /// # Panics
    /// When `line` does not end in `}`.
    pub fn seal(&mut self, line: &mut String) {
        self.advance(line);
        let closed = line.pop();
        assert_eq!(closed, Some('}'), "a row is a JSON object");
        line.push_str(",\"h\":\"");
        line.push_str(&self.last_hex);
        line.push_str("\"}");
    }

    /// Takes a sealed line apart and checks it: the line without h, when its h continues the chain.
    pub fn open(&mut self, sealed: &str) -> Option<String> {
        let (body, h) = sealed.strip_suffix("\"}")?.rsplit_once(",\"h\":\"")?;
        let line = format!("{body}}}");
        self.advance(&line);
        let holds = self.last_hex == h;
        // the lines after a changed one are judged by the h that stands there
        h.clone_into(&mut self.last_hex);
        holds.then_some(line)
    }

    fn advance(&mut self, line: &str) {
        let digest = Sha256::new().chain_update(&self.last_hex).chain_update(line).finalize();
        self.last_hex.clear();
        self.last_hex.extend(
            digest.iter().flat_map(|b| [b >> 4, b & 15]).map(|d| char::from(b"0123456789abcdef"[usize::from(d)])),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_digit_is_found_at_its_line() {
        let mut chain = Chain::default();
        let mut lines: Vec<String> = (0..3).map(|i| format!("{{\"seen\":{i}}}")).collect();
        lines.iter_mut().for_each(|l| chain.seal(l));
        lines[1] = lines[1].replace("\"seen\":1", "\"seen\":7");
        let mut check = Chain::default();
        let found: Vec<bool> = lines.iter().map(|l| check.open(l).is_some()).collect();
        assert_eq!(found, [true, false, true]);
    }

    #[test]
    fn a_line_can_be_checked_by_the_h_before_it() {
        let mut chain = Chain::default();
        let mut lines: Vec<String> = (0..2).map(|i| format!("{{\"seen\":{i}}}")).collect();
        chain.seal(&mut lines[0]);
        let before = chain.last_hex().to_owned();
        chain.seal(&mut lines[1]);
        assert_eq!(Chain::after(&before).open(&lines[1]).as_deref(), Some("{\"seen\":1}"));
        assert_eq!(Chain::default().open(&lines[1]), None);
    }

    #[test]
    fn sealing_and_opening_agree() {
        let (mut a, mut b) = (Chain::default(), Chain::default());
        let mut line = "{\"x\":\"},\\\"h\\\":\\\"\"}".to_string();
        let plain = line.clone();
        a.seal(&mut line);
        assert_eq!(b.open(&line), Some(plain));
        assert_eq!(a.last_hex(), b.last_hex());
    }
}
