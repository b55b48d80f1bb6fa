//! The Prometheus text format (and of OpenMetrics what it shares with it), sample by sample. Text from anywhere: what is
//! no sample is passed over, never an error, and nothing is kept beyond the line at hand.

use std::borrow::Cow;

/// One line with a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample<'a> {
    /// Metric name, e.g. `vllm:request_success_total`.
    pub name: Cow<'a, str>,
    /// Labels in their order, values unescaped.
    pub labels: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// May be infinite or NaN.
    pub value: f64,
}

impl Sample<'_> {
    /// Value of the label `name`.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_ref())
    }
}

/// The samples of `text`, in order.
pub fn samples(text: &str) -> impl Iterator<Item = Sample<'_>> {
    text.lines().filter_map(sample)
}

/// The sample on one line; None for comments, blank lines, and anything else.
fn sample(line: &str) -> Option<Sample<'_>> {
    let mut rest = line.trim();
    let mut name = None;
    if !rest.starts_with(['{', '#']) {
        let end = rest.find(|c: char| c == '{' || c.is_ascii_whitespace())?;
        name = Some(&rest[..end]).filter(|n| is_name(n));
        name?;
        rest = rest[end..].trim_start();
    }
    let mut name = name.map(Cow::Borrowed);
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = braces(inside, &mut name, &mut labels)?;
    }
    let mut words = rest.split_ascii_whitespace();
    let value = number(words.next()?)?;
    match words.next() {
        // a time, or what only OpenMetrics has
        Some(word) if number(word).is_none() && !word.starts_with('#') => None,
        _ => Some(Sample { name: name?, labels, value }),
    }
}

/// Labels up to the closing brace; gives what follows. A quoted word alone is the name (Prometheus 3).
fn braces<'a>(
    mut rest: &'a str,
    name: &mut Option<Cow<'a, str>>,
    labels: &mut Vec<(Cow<'a, str>, Cow<'a, str>)>,
) -> Option<&'a str> {
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        if let Some(after) = rest.strip_prefix('}') {
            return Some(after);
        }
        let label = match rest.strip_prefix('"') {
            Some(inside) => {
                let (word, after) = quoted(inside)?;
                rest = after.trim_start();
                word
            }
            None => {
                let end = rest.find(|c: char| c == '=' || c.is_ascii_whitespace())?;
                let word = Some(&rest[..end]).filter(|n| is_name(n))?;
                rest = rest[end..].trim_start();
                Cow::Borrowed(word)
            }
        };
        match rest.strip_prefix('=') {
            Some(after) => {
                let (value, after) = quoted(after.trim_start().strip_prefix('"')?)?;
                labels.push((label, value));
                rest = after;
            }
            None if name.is_none() => *name = Some(label),
            None => return None,
        }
    }
}

/// What stands before the closing quote, unescaped, and what follows it.
fn quoted(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let end = text.find(['"', '\\'])?;
    if text[end..].starts_with('"') {
        return Some((Cow::Borrowed(&text[..end]), &text[end + 1..]));
    }
    let mut word = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((Cow::Owned(word), &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => word.push('\n'),
                other => word.push(other),
            },
            other => word.push(other),
        }
    }
    None
}

fn is_name(word: &str) -> bool {
    let mut bytes = word.bytes();
    let first = bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_' || b == b':');
    // dots are written by some exporters, against the letter of the format
    first && bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b':' | b'.'))
}

/// A number as Go writes it: also `+Inf`, `-Inf`, `NaN`.
fn number(word: &str) -> Option<f64> {
    word.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Name, labels, value.
    type Plain = (String, Vec<(String, String)>, f64);

    fn one(line: &str) -> Option<Plain> {
        let found = sample(line)?;
        let labels = found.labels.into_iter().map(|(n, v)| (n.into_owned(), v.into_owned())).collect();
        Some((found.name.into_owned(), labels, found.value))
    }

    #[test]
    fn lines_as_servers_write_them() {
        let label = |n: &str, v: &str| (n.to_owned(), v.to_owned());
        for (line, name, labels, value) in [
            ("up 1", "up", vec![], 1.0),
            ("  llamacpp:requests_processing  0  ", "llamacpp:requests_processing", vec![], 0.0),
            (
                r#"vllm:request_success_total{engine="0",finished_reason="stop"} 12.0"#,
                "vllm:request_success_total",
                vec![label("engine", "0"), label("finished_reason", "stop")],
                12.0,
            ),
            ("a{} +Inf", "a", vec![], f64::INFINITY),
            ("a{x=\"1\",} 2e3 1795969151000", "a", vec![label("x", "1")], 2_000.0),
            (r#"a { x = "q\"b\\c\nd" , y="}" } 3"#, "a", vec![label("x", "q\"b\\c\nd"), label("y", "}")], 3.0),
            (r#"a_bucket{le="0.1"} 4 # {trace_id="7"} 0.05 1.5"#, "a_bucket", vec![label("le", "0.1")], 4.0),
            (r#"{"my.metric","a b"="c"} 5"#, "my.metric", vec![label("a b", "c")], 5.0),
        ] {
            assert_eq!(one(line), Some((name.to_owned(), labels, value)), "{line}");
        }
        assert!(one("a NaN").is_some_and(|(.., value)| value.is_nan()));
    }

    #[test]
    fn what_is_no_sample() {
        for line in [
            "",
            "# HELP a 1",
            "# TYPE a counter",
            "# EOF",
            "a",
            "a b",
            "a 1 b",
            "1a 1",
            "a{x=\"1\" 1",
            "a{x=1} 1",
            "a{x=\"1} 1",
            "a{\"b\"} 1",
            "{x=\"1\"} 1",
            "<html> 1",
            "{\"iteration\": 12}",
            "a{x=\"\\",
        ] {
            assert_eq!(one(line), None, "{line}");
        }
    }

    #[test]
    fn hostile_texts_are_passed_over() {
        let long = |piece: &str| piece.repeat(100_000);
        for text in [
            long("{"),
            long("a{"),
            format!("a{}", long("{x=\"")),
            format!("a{{x=\"{}", long("\\")),
            format!("a{{{}", long(",")),
            format!("a {}", long("9")),
            long("a\0 1"),
            long("\u{feff}"),
            "a 1\r".repeat(10),
        ] {
            assert!(samples(&text).all(|found| found.name.len() < 4), "{}", &text[..4]);
        }
        // a value too large for a number is infinite, and no figure is made of it
        assert!(one(&format!("a {}", long("9"))).is_some_and(|(.., value)| value.is_infinite()));
        assert_eq!(samples(&format!("{}\nb 2\n", long("x"))).count(), 1);
    }

    proptest! {
        #[test]
        fn anything_is_survived(text in "(?s).{0,300}") {
            for found in samples(&text) {
                prop_assert!(!found.name.is_empty() || text.contains("\"\""));
            }
        }

        #[test]
        fn pieces_of_the_format_in_any_order(pieces in prop::collection::vec(
            prop::sample::select(vec!["a", "{", "}", "\"", "\\", "=", ",", " ", "1", "#", "\n", "x=\"y\"", "é", "+Inf"]), 0..40,
        )) {
            let text = pieces.concat();
            prop_assert!(samples(&text).count() <= text.lines().count());
        }

        #[test]
        fn what_is_written_is_read(value in prop::num::f64::NORMAL, labels in prop::collection::vec(("[a-z_]{1,6}", "(?s).{0,12}"), 0..4)) {
            let escape = |v: &str| v.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            // other line ends cannot stand in a value
            let labels: Vec<(String, String)> = labels.into_iter().map(|(n, v)| (n, v.replace('\r', ""))).collect();
            let inside: Vec<String> = labels.iter().map(|(n, v)| format!("{n}=\"{}\"", escape(v))).collect();
            let line = format!("m{{{}}} {value:?}", inside.join(","));
            prop_assert_eq!(one(&line), Some(("m".to_owned(), labels, value)));
        }
    }
}
