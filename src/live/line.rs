//! One line of the view: parts that are shortened, then left out, until they fit.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Between two parts.
const BETWEEN: &str = "  ";
/// Parts with no more `keep` than this are not worth a shorter word elsewhere.
const ADORNMENT: u8 = 3;

/// How a part looks where colours are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tone {
    /// As it is.
    #[default]
    Plain,
    /// Yellow: beyond a warning.
    Warn,
    /// Red: beyond what may be believed.
    Void,
}

/// A piece of a line: its wordings, the longest first, and how long it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    forms: Vec<String>,
    tone: Tone,
    keep: u8,
}

impl Part {
    /// A part that says `words`. Where there is no room, those with the smallest `keep` are shortened and go first.
    pub fn new(keep: u8, words: impl Into<String>) -> Part {
        Part { forms: vec![words.into()], tone: Tone::Plain, keep }
    }

    /// A shorter wording.
    pub fn or(mut self, shorter: impl Into<String>) -> Part {
        self.forms.push(shorter.into());
        self
    }

    /// The same in another tone; what is in alarm is kept longer.
    pub fn toned(mut self, tone: Tone) -> Part {
        self.keep = self.keep.saturating_add(if tone > self.tone { 10 } else { 0 });
        self.tone = tone;
        self
    }

    /// The longest wording.
    pub fn words(&self) -> &str {
        self.forms.first().map_or("", String::as_str)
    }
}

/// A line of at most `width` columns. Without `color` there is no escape sequence in it.
pub fn line(parts: &[Part], width: usize, color: bool) -> String {
    let mut line = String::new();
    for (words, tone) in fit(parts, width) {
        if !line.is_empty() {
            line.push_str(BETWEEN);
        }
        match tone {
            Tone::Warn if color => line.push_str(&format!("\x1b[33m{words}\x1b[0m")),
            Tone::Void if color => line.push_str(&format!("\x1b[31m{words}\x1b[0m")),
            _ => line.push_str(&words),
        }
    }
    line
}

/// Leaves out what only adorns; then shortens, then leaves out the rest, from the least wanted part on; then gives back
/// what there is room for after all, to the most wanted first.
fn fit(parts: &[Part], width: usize) -> Vec<(String, Tone)> {
    // which wording of each part; None: left out
    let mut chosen: Vec<Option<usize>> = vec![Some(0); parts.len()];
    let mut by_want: Vec<usize> = (0..parts.len()).collect();
    by_want.sort_by_key(|&i| u8::MAX - parts[i].keep);
    let adorns = |i: usize| parts[i].keep <= ADORNMENT;
    let fits = |chosen: &[Option<usize>]| columns_of(parts, chosen) <= width;
    while !fits(&chosen) {
        let there = || by_want.iter().rev().copied().filter(|&i| chosen[i].is_some());
        let shorter = there().find(|&i| chosen[i].is_some_and(|form| form + 1 < parts[i].forms.len()));
        match (there().find(|&i| adorns(i)), shorter, there().next()) {
            _ if there().count() == 1 && shorter.is_none() => break,
            (Some(i), _, _) if there().count() > 1 => chosen[i] = None,
            (_, Some(i), _) => chosen[i] = chosen[i].map(|form| form + 1),
            (_, None, Some(i)) => chosen[i] = None,
            (_, None, None) => break,
        }
    }
    for &i in &by_want {
        for form in 0..chosen[i].unwrap_or(parts[i].forms.len()) {
            let mut longer = chosen.clone();
            longer[i] = Some(form);
            if fits(&longer) {
                chosen = longer;
                break;
            }
        }
    }
    let said = |(part, form): (&Part, &Option<usize>)| Some((clip(&part.forms[(*form)?], width), part.tone));
    parts.iter().zip(&chosen).filter_map(said).collect()
}

fn columns_of(parts: &[Part], chosen: &[Option<usize>]) -> usize {
    let widths = parts.iter().zip(chosen).filter_map(|(part, form)| Some(columns(&part.forms[(*form)?])));
    let (n, sum) = widths.fold((0usize, 0), |(n, sum), columns| (n + 1, sum + columns));
    sum + n.saturating_sub(1) * BETWEEN.len()
}

/// Columns that a text may take up on a terminal. Of the two ways to count, as a whole and character by character
/// (terminals that join no emoji), the larger one.
pub fn columns(text: &str) -> usize {
    let apart: usize = text.chars().map(|c| c.width().unwrap_or(0)).sum();
    text.width().max(apart)
}

/// The beginning of `text` that takes up at most `width` columns.
pub fn clip(text: &str, width: usize) -> String {
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
    let end = ends.take_while(|&end| columns(&text[..end]) <= width).last().unwrap_or(0);
    text[..end].to_owned()
}

/// A foreign name as part of a line: nothing in it moves the cursor or turns the direction of writing, and it takes up
/// at most `width` columns.
pub fn name(text: &str, width: usize) -> String {
    let turns =
        |c: char| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let clean: String = text.chars().filter(|c| !turns(*c)).map(|c| if c.is_control() { ' ' } else { c }).collect();
    clip(clean.trim(), width)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> Vec<Part> {
        vec![
            Part::new(5, "in flight 50 of 50").or("in flight 50"),
            Part::new(2, "model").toned(Tone::Plain),
            Part::new(4, "24.9 requests/s").or("24.9/s"),
        ]
    }

    #[test]
    fn parts_are_shortened_then_left_out() {
        assert_eq!(line(&parts(), 80, false), "in flight 50 of 50  model  24.9 requests/s");
        assert_eq!(line(&parts(), 41, false), "in flight 50 of 50  24.9 requests/s", "what adorns goes first");
        assert_eq!(
            line(&parts(), 34, false),
            "in flight 50 of 50  model  24.9/s",
            "and comes back where there is room"
        );
        assert_eq!(line(&parts(), 32, false), "in flight 50 of 50  24.9/s");
        assert_eq!(line(&parts(), 25, false), "in flight 50  24.9/s");
        assert_eq!(line(&parts(), 18, false), "in flight 50 of 50", "the room of what went is used");
        assert_eq!(line(&parts(), 12, false), "in flight 50");
        assert_eq!(line(&parts(), 5, false), "in fl");
        assert_eq!(line(&[], 5, false), "");
    }

    #[test]
    fn an_alarm_is_kept_and_coloured_where_that_is_wanted() {
        let mut parts = parts();
        parts[1] = parts[1].clone().toned(Tone::Void);
        assert_eq!(line(&parts, 12, false), "model");
        assert_eq!(line(&parts, 12, true), "\x1b[31mmodel\x1b[0m");
    }

    #[test]
    fn names_are_measured_as_they_are_shown() {
        assert_eq!(["abc", "模型", "👩‍👩‍👧", "مرحبا", ""].map(columns), [3, 4, 6, 5, 0]);
        assert_eq!(clip("模型七", 5), "模型");
        assert_eq!(name("\u{202e}evil\u{1b}[2J\n\u{2066}name", 40), "evil [2J name");
        assert_eq!(name("نموذج", 3), "نمو");
    }
}
