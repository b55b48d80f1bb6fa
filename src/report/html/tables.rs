//! Tables that pages share with the Markdown report, and those of any JSON object.

use maud::{Markup, html};
use serde_json::Value;

use super::foreign;

/// Rows of an object; more are counted.
const MOST_ROWS: usize = 300;
/// Objects in objects are told by dotted names down to this depth, then as JSON.
const DEPTH: usize = 3;

/// Tables written in Markdown, as elements: each heading row, its rule and its rows.
pub(super) fn of_markdown(lines: &[&str]) -> Markup {
    let mut tables: Vec<(Vec<String>, Vec<Vec<String>>)> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let is_rule = |line: &str| line.starts_with("|--") || line.starts_with("|-");
        match line {
            line if !line.starts_with('|') || is_rule(line) => {}
            line if lines.get(at + 1).is_some_and(|next| is_rule(next)) => tables.push((cells(line), Vec::new())),
            line => {
                if let Some((_, rows)) = tables.last_mut() {
                    rows.push(cells(line));
                }
            }
        }
    }
    html! {
        @for (heads, rows) in tables {
            div class="scroll" tabindex="0" {
                table class="sort" {
                    thead { tr { @for head in &heads { th scope="col" { (head) } } } }
                    tbody {
                        @for row in &rows {
                            tr {
                                @for (i, cell) in row.iter().enumerate() {
                                    @if i == 0 { th scope="row" { (foreign::name(cell)) } } @else { td { (foreign::name(cell)) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The cells of a Markdown row, as they were before they were made one.
fn cells(line: &str) -> Vec<String> {
    let inner = line.trim().trim_start_matches('|');
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    let mut found = vec![String::new()];
    let mut escaped = false;
    for c in inner.chars() {
        match (c, escaped) {
            ('\\', false) => escaped = true,
            ('|', false) => found.push(String::new()),
            (c, was) => {
                let last = found.last_mut();
                if let Some(cell) = last {
                    if was && !matches!(c, '|' | '(' | '[') {
                        cell.push('\\');
                    }
                    cell.push(c);
                }
                escaped = false;
            }
        }
    }
    found.into_iter().map(|cell| cell.trim().replace("&lt;", "<")).collect()
}

/// An object as a table of names and values.
pub(super) fn object(value: &Value) -> Markup {
    let mut rows = Vec::new();
    flattened("", value, DEPTH, &mut rows);
    html! {
        @if rows.is_empty() { p class="note" { "not recorded" } } @else {
            div class="scroll" tabindex="0" {
                table {
                    thead { tr { th scope="col" class="k" { "what" } th scope="col" class="w" { "value" } } }
                    tbody {
                        @for (name, text) in rows.iter().take(MOST_ROWS) {
                            tr { th scope="row" class="k" { (foreign::name(name)) } td class="w" { (foreign::sentence(text)) } }
                        }
                    }
                }
            }
            @if rows.len() > MOST_ROWS { p class="note" { (rows.len() - MOST_ROWS) " more rows are in plan.json." } }
        }
    }
}

fn flattened(name: &str, value: &Value, depth: usize, rows: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) if depth > 0 && !fields.is_empty() => {
            for (key, field) in fields {
                let key = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                flattened(&key, field, depth - 1, rows);
            }
        }
        _ if name.is_empty() => {}
        Value::String(text) => rows.push((name.to_owned(), text.clone())),
        other => rows.push((name.to_owned(), other.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::markdown::cell_text;
    use proptest::prelude::*;

    #[test]
    fn a_markdown_table_becomes_one_of_elements() {
        let lines = ["| a | b |", "|---|--:|", "| x \\| y | &lt;b> |", "", "| c |", "|---|", "| 1 |"];
        let html = of_markdown(&lines).into_string();
        assert!(html.contains("<bdi>x | y</bdi></th><td><bdi>&lt;b&gt;</bdi></td>"), "{html}");
        assert_eq!(html.matches("<table").count(), 2);
    }

    #[test]
    fn an_object_is_told_by_dotted_names() {
        let value = serde_json::json!({"a": {"b": {"c": {"d": 1}}}, "e": [1, 2], "f": {}});
        let mut rows = Vec::new();
        flattened("", &value, DEPTH, &mut rows);
        let rows: Vec<(&str, &str)> = rows.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(rows, [("a.b.c", "{\"d\":1}"), ("e", "[1,2]"), ("f", "{}")]);
    }

    proptest! {
        #[test]
        fn cells_come_back_as_they_were(words in prop::collection::vec("[a-z<>| ]{1,8}", 1..5)) {
            let words: Vec<String> = words.iter().map(|w| format!("x{}", w.trim())).collect();
            let line = format!("| {} |", words.iter().map(|w| cell_text(w)).collect::<Vec<_>>().join(" | "));
            prop_assert_eq!(cells(&line), words);
        }
    }
}
