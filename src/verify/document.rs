//! Comparing a stored document with a recomputed one, line by line, each line knowing its field.
//!
//! Floats are written as the shortest text that reads back as the same bits, so equal text is equal bits.

use serde_json::Value;

use super::Difference;

/// Compares pretty-printed JSON; gives the number of lines.
pub(super) fn compare(file: &'static str, stored: &str, recomputed: &Value) -> Result<usize, Difference> {
    let mut expected = Lines::default();
    expected.value("", "", recomputed, "");
    let mut there = stored.split('\n');
    for (index, (field, line)) in expected.lines.iter().enumerate() {
        let found = there.next().unwrap_or_default();
        if found != line {
            return Err(differs(file, index, field, found, line));
        }
    }
    match (there.next(), there.next(), there.next()) {
        (Some(""), None, None) => Ok(expected.lines.len()),
        (rest, ..) => Err(differs(file, expected.lines.len(), "end of file", rest.unwrap_or("no line end"), "")),
    }
}

/// Longest part of a line of text that is shown, in characters.
const SHOWN: usize = 160;

/// Compares text that has no fields.
pub(super) fn compare_text(file: &'static str, stored: &str, recomputed: &str) -> Result<(), Difference> {
    if stored == recomputed {
        return Ok(());
    }
    let (mut a, mut b) = (stored.split('\n'), recomputed.split('\n'));
    let mut index = 0;
    loop {
        match (a.next(), b.next()) {
            (Some(found), Some(line)) if found == line => index += 1,
            (found, line) => {
                let [found, line] = where_they_part(found.unwrap_or(""), line.unwrap_or(""));
                return Err(differs(file, index, "text", &found, &line));
            }
        }
    }
}

/// A line of a page may hold a whole picture: of a long one only the place at which the two begin to differ.
fn where_they_part(found: &str, line: &str) -> [String; 2] {
    let same = found.chars().zip(line.chars()).take_while(|(a, b)| a == b).count();
    let from = same.saturating_sub(SHOWN / 4);
    [found, line].map(|text| {
        let shown = || text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c });
        let length = text.chars().count();
        if length <= SHOWN {
            return shown().collect();
        }
        let before = if from > 0 { ".." } else { "" };
        let after = if length > from + SHOWN { ".." } else { "" };
        format!("{before}{}{after}", shown().skip(from).take(SHOWN).collect::<String>())
    })
}

fn differs(file: &'static str, index: usize, field: &str, found: &str, line: &str) -> Difference {
    let (found, line) = (found.trim(), line.trim());
    // the same key on both sides stands in the field already
    let key = line.split_once(": ").map(|(key, _)| key).filter(|key| key.starts_with('"') && found.starts_with(*key));
    let bare = |text: &str| {
        let value = key.and_then(|key| text.strip_prefix(key)?.strip_prefix(": ")).unwrap_or(text);
        let value = value.trim_end_matches(',');
        if value.is_empty() { "nothing".to_string() } else { value.to_string() }
    };
    Difference::Value {
        file: file.into(),
        line: index + 1,
        field: field.into(),
        stored: bare(found),
        recomputed: bare(line),
    }
}

/// Pretty-printed JSON as serde_json writes it, with the path of each line.
#[derive(Default)]
struct Lines {
    lines: Vec<(String, String)>,
}

impl Lines {
    /// `lead` stands before the value (indent and key), `comma` after it.
    fn value(&mut self, path: &str, lead: &str, value: &Value, comma: &str) {
        let indent = &lead[..lead.len() - lead.trim_start().len()];
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                self.push(path, format!("{lead}{{"));
                for (i, (key, field)) in fields.iter().enumerate() {
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    let lead = format!("{indent}  {}: ", Value::from(key.as_str()));
                    self.value(&path, &lead, field, if i + 1 < fields.len() { "," } else { "" });
                }
                self.push(path, format!("{indent}}}{comma}"));
            }
            Value::Array(items) if !items.is_empty() => {
                self.push(path, format!("{lead}["));
                for (i, item) in items.iter().enumerate() {
                    let comma = if i + 1 < items.len() { "," } else { "" };
                    self.value(&format!("{path}[{i}]"), &format!("{indent}  "), item, comma);
                }
                self.push(path, format!("{indent}]{comma}"));
            }
            leaf => self.push(path, format!("{lead}{leaf}{comma}")),
        }
    }

    fn push(&mut self, path: &str, line: String) {
        self.lines.push((path.to_string(), line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sample() -> Value {
        json!({"a": 1, "b": {"c": [1.5, null, {}], "d \"q\"": []}, "e": "x, y: z"})
    }

    #[test]
    fn the_lines_are_those_of_the_pretty_printer() {
        let text = serde_json::to_string_pretty(&sample()).unwrap() + "\n";
        assert_eq!(compare("run.json", &text, &sample()), Ok(12));
    }

    #[test]
    fn a_changed_digit_is_named_with_its_path() {
        let text = serde_json::to_string_pretty(&sample()).unwrap() + "\n";
        let found = compare("run.json", &text.replace("1.5", "1.25"), &sample()).unwrap_err().to_string();
        assert_eq!(found, "run.json:5: b.c[0]: stored 1.25, recomputed 1.5");
        let found = compare("run.json", &text.replace("\"a\": 1", "\"a\": 7"), &sample()).unwrap_err().to_string();
        assert_eq!(found, "run.json:2: a: stored 7, recomputed 1");
        assert!(compare("run.json", text.trim_end(), &sample()).is_err());
        assert!(compare("run.json", &text[..20], &sample()).is_err());
    }

    #[test]
    fn of_a_long_line_the_place_is_shown() {
        let text = |n: u32| format!("<h1>\n<path d=\"{}L{n} {}\"/>\n", "1,2 ".repeat(400), "3,4 ".repeat(400));
        let found = compare_text("report.html", &text(77), &text(78)).unwrap_err().to_string();
        assert!(found.starts_with("report.html:2: text: stored ..") && found.len() < 420, "{found}");
        assert!(found.contains("L77 3,4") && found.contains("L78 3,4"), "{found}");
        let found = compare_text("report.html", "a\u{1b}[2J\n", "b\n").unwrap_err().to_string();
        assert_eq!(found, "report.html:1: text: stored a\u{fffd}[2J, recomputed b");
        // one that is cut short after a long common part
        let found = compare_text("report.html", &text(7)[..900], &text(7)).unwrap_err().to_string();
        assert!(found.contains("report.html:2: text: stored .."), "{found}");
    }
}
