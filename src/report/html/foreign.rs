//! Text that servers and users wrote: shown, never obeyed.
//!
//! Markup is escaped by maud. What would reorder the line around it, move the cursor or show nothing is shown by its
//! number, and what is very long is cut with a word about how much is missing.

use maud::{Markup, html};

/// Of a name: a model, a class, a run id.
pub(super) const NAME: usize = 160;
/// Of a sentence or a value.
pub(super) const SENTENCE: usize = 2_000;

/// A name, apart from the direction of the text around it.
pub(super) fn name(text: &str) -> Markup {
    html! { bdi { (plain(text, NAME)) } }
}

/// A sentence that may hold somebody's words.
pub(super) fn sentence(text: &str) -> Markup {
    html! { bdi { (plain(text, SENTENCE)) } }
}

/// The same without an element around it, for titles and pictures; `most` characters.
pub(super) fn plain(text: &str, most: usize) -> String {
    let mut out = String::with_capacity(text.len().min(4 * most));
    for c in text.chars().take(most) {
        match c {
            '\t' | '\n' | '\r' => out.push(' '),
            c if is_hidden(c) => out.push_str(&format!("[U+{:04X}]", u32::from(c))),
            c => out.push(c),
        }
    }
    let all = text.chars().count();
    if all > most {
        out.push_str(&format!("... ({} characters)", crate::report::quantity::count(all as u64)));
    }
    out
}

/// Control characters, and those that change the direction of others or are not seen. Joiners are: emoji and scripts
/// need them.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}'
            | '\u{e0000}'..='\u{e001f}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_would_turn_a_line_around_is_shown_by_its_number() {
        assert_eq!(plain("a\u{202e}b\u{1b}[31m\nc", 99), "a[U+202E]b[U+001B][31m c");
        assert_eq!(plain("\u{1f469}\u{200d}\u{1f4bb} \u{5e9}", 99), "\u{1f469}\u{200d}\u{1f4bb} \u{5e9}");
        assert_eq!(plain(&"x".repeat(10_000), 3), "xxx... (10,000 characters)");
        assert_eq!(name("<b>&").into_string(), "<bdi>&lt;b&gt;&amp;</bdi>");
    }

    proptest! {
        #[test]
        fn any_text_is_bounded_and_holds_nothing_hidden(text in ".{0,300}") {
            let shown = plain(&text, 100);
            prop_assert!(!shown.contains(is_hidden));
            prop_assert!(shown.chars().count() <= 100 * 10 + 30);
        }
    }
}
