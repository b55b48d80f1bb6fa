//! Text of others as it is printed: what in it would steer a terminal or turn its neighbours around, and how wide it stands.
//!
//! A model's name or a server's words may hold anything. Controls would move the cursor; the controls of the bidirectional
//! algorithm (Unicode 16, UAX 9) make a reader see another order than the one that is there.

use std::borrow::Cow;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Whether a character is no letter but an order to whoever draws: controls, separators of lines and paragraphs, controls
/// of direction, and what is invisible and can hide text (tags, annotations, zero-width space and no-break space).
/// Joiners are none: scripts and emoji need them.
pub fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// The same text with nothing in it that steers: `?` for a control, `<U+202E>` for what else does.
pub fn legible(text: &str) -> Cow<'_, str> {
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            c if c.is_control() => clean.push('?'),
            c if steers(c) => clean.push_str(&escape(c)),
            c => clean.push(c),
        }
    }
    Cow::Owned(clean)
}

/// `<U+202E>`.
pub fn escape(c: char) -> String {
    format!("<U+{:04X}>", u32::from(c))
}

/// Columns that a text takes on a terminal.
pub fn width(text: &str) -> usize {
    text.width()
}

/// A text in a column of `columns`, at its left end.
pub fn left(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// A text in a column of `columns`, at its right end.
pub fn right(text: &str, columns: usize) -> String {
    format!("{}{text}", " ".repeat(columns.saturating_sub(width(text))))
}

/// A text in pieces of at most `columns` each; at least one character stands in each. Cuts between characters, so that
/// an emoji of several may fall apart.
pub fn pieces(text: &str, columns: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for c in text.chars() {
        let Some(last) = pieces.last_mut() else { break };
        // of a sequence the width is not the sum of its parts
        let mut grown = last.clone();
        grown.push(c);
        match width(&grown) > columns && !last.is_empty() && c.width().unwrap_or(0) > 0 {
            true => pieces.push(c.to_string()),
            false => *last = grown,
        }
    }
    pieces
}

/// A text that takes at most `columns`: what is cut off stands as `..`.
pub fn shortened(text: &str, columns: usize) -> String {
    match width(text) <= columns {
        true => text.to_owned(),
        false => format!("{}..", pieces(text, columns.saturating_sub(2)).swap_remove(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_steers_is_shown() {
        assert_eq!(legible("abc\u{202e}def"), "abc<U+202E>def");
        assert_eq!(legible("\u{1b}[31mred\n"), "?[31mred?");
        assert_eq!(legible("\u{2066}\u{200f}\u{feff}\u{e0041}"), "<U+2066><U+200F><U+FEFF><U+E0041>");
        for kept in ["שלום", "مرحبا", "日本語", "👩\u{200d}🔬", "e\u{301}", "می\u{200c}خواهم"] {
            assert!(matches!(legible(kept), Cow::Borrowed(text) if text == kept), "{kept}");
        }
    }

    #[test]
    fn columns_are_of_the_terminal() {
        assert_eq!((width("日本"), width("שלום"), width("e\u{301}")), (4, 4, 1));
        assert_eq!((left("日", 4), right("日", 4)), ("日  ".to_owned(), "  日".to_owned()));
        assert_eq!(pieces("日本語x", 5), ["日本", "語x"]);
        assert_eq!((shortened("日本語", 6), shortened("日本語", 5)), ("日本語".into(), "日..".into()));
    }

    proptest! {
        #[test]
        fn pieces_fit_and_lose_nothing(text in "\\PC{0,60}", columns in 2_usize..30) {
            let cut = pieces(&text, columns);
            prop_assert_eq!(cut.concat(), text.clone());
            prop_assert!(cut.iter().all(|piece| width(piece) <= columns), "{:?}", cut);
        }

        #[test]
        fn nothing_steers_afterwards(text in any::<String>()) {
            prop_assert!(!legible(&text).contains(steers));
        }
    }
}
