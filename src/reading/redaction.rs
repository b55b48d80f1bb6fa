//! Secrets taken out of what others said.

/// What stands in the place of a secret.
const SHOWN: &str = "[key]";
/// So many bytes at the beginning of a secret tell of it; fewer may be any word.
const TELLING: usize = 8;
/// With what a coded character begins.
const SIGNS: [u8; 3] = [b'%', b'\\', b'&'];
/// No coded character is longer, bytes: `\ud83d\udd11`.
const LONGEST_CODED: usize = 12;
/// Characters that have a name in HTML.
const NAMED: [(&str, char); 8] = [
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("sol", '/'),
    ("plus", '+'),
    ("equals", '='),
];

/// `text` with the secrets, one a line, taken out, also where some or all of their characters are percent-coded (RFC 3986,
/// 2.1), escaped as in JSON (RFC 8259, 7), or character references of HTML.
pub fn without(text: &str, secrets: Option<&str>) -> String {
    lines(secrets).fold(text.to_owned(), |text, secret| {
        let text = text.replace(secret, SHOWN);
        match text.bytes().any(|byte| SIGNS.contains(&byte)) {
            true => without_coded(text, secret, false),
            false => text,
        }
    })
}

/// The same of a text that may have been cut off: also what stands at its very end of a secret.
pub fn without_cut(text: &str, secrets: Option<&str>) -> String {
    lines(secrets).fold(without(text, secrets), |text, secret| without_coded(text, secret, true))
}

/// A text whose beginning was cut off, without what stands of a secret at its very beginning.
pub fn without_rest(text: &str, secrets: Option<&str>) -> String {
    let rest = |text: &str, secret: &str| {
        // of a coded character that was cut in two, the rest stands before
        let coded = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'#' | b';');
        let before = text.bytes().take(LONGEST_CODED).take_while(|byte| coded(byte)).count();
        let ends = || secret.char_indices().skip(1).map(|(at, _)| &secret[at..]).filter(|end| end.len() >= TELLING);
        (0..=before).find_map(|at| {
            let length = ends().find_map(|end| length(&text.as_bytes()[at..], end, false))?;
            Some(at..at + length)
        })
    };
    lines(secrets).fold(text.to_owned(), |mut text, secret| {
        if let Some(rest) = rest(&text, secret) {
            text.replace_range(rest, SHOWN);
        }
        text
    })
}

fn lines(secrets: Option<&str>) -> impl Iterator<Item = &str> {
    secrets.unwrap_or_default().lines().filter(|secret| !secret.is_empty())
}

fn without_coded(text: String, secret: &str, is_cut: bool) -> String {
    let bytes = text.as_bytes();
    let (mut clean, mut from, mut at) = (String::new(), 0, 0);
    while let Some(byte) = bytes.get(at) {
        let begins = secret.as_bytes().first() == Some(byte) || SIGNS.contains(byte);
        match begins.then(|| length(&bytes[at..], secret, is_cut)).flatten() {
            Some(length) => {
                clean.push_str(&text[from..at]);
                clean.push_str(SHOWN);
                at += length;
                from = at;
            }
            None => at += 1,
        }
    }
    match from {
        0 => text,
        _ => clean + &text[from..],
    }
}

/// How long the secret is at the beginning of `text`, each character as it is or coded; of a text that was cut off, also
/// as much of it as is there. None: it is not there.
fn length(text: &[u8], secret: &str, is_cut: bool) -> Option<usize> {
    let mut at = 0;
    for (before, character) in secret.char_indices() {
        let rest = text.get(at..)?;
        match length_of_one(rest, character) {
            Some(length) => at += length,
            // a coded character may itself be cut in two
            None => {
                let cut = rest.first().is_none_or(|byte| SIGNS.contains(byte) && rest.len() < LONGEST_CODED);
                let cut = cut || rest == "\u{fffd}".as_bytes();
                return (is_cut && cut && before >= TELLING).then_some(text.len());
            }
        }
    }
    Some(at)
}

fn length_of_one(text: &[u8], character: char) -> Option<usize> {
    in_json(text, character).or_else(|| in_html(text, character)).or_else(|| in_url(text, character))
}

/// `\/`, `\u002b`; `\\/`, `\\u002b` in a document that is a string of another.
fn in_json(text: &[u8], character: char) -> Option<usize> {
    let signs = text.iter().take(LONGEST_CODED).take_while(|byte| **byte == b'\\').count();
    let outer = if character == '\\' { 0 } else { signs.saturating_sub(1) };
    let text = &text[outer..];
    let length = match text {
        [b'\\', sign, ..] if character.is_ascii_punctuation() && char::from(*sign) == character => Some(2),
        [b'\\', b'u', ..] => {
            let mut at = 0;
            for unit in character.encode_utf16(&mut [0; 2]) {
                let [b'\\', b'u', digits @ ..] = text.get(at..at + 6)? else { return None };
                (hexadecimal(digits)? == u32::from(*unit)).then_some(())?;
                at += 6;
            }
            Some(at)
        }
        _ => None,
    };
    length.map(|length| outer + length)
}

/// `&#43;`, `&#x2b;`, `&plus;`.
fn in_html(text: &[u8], character: char) -> Option<usize> {
    let [b'&', reference @ ..] = text else { return None };
    let length = reference.iter().take(LONGEST_CODED).position(|byte| *byte == b';')?;
    let is_it = match &reference[..length] {
        [b'#', b'x' | b'X', digits @ ..] => hexadecimal(digits) == Some(character.into()),
        [b'#', digits @ ..] => std::str::from_utf8(digits).ok()?.parse() == Ok(u32::from(character)),
        name => NAMED.iter().any(|(known, meant)| known.as_bytes() == name && *meant == character),
    };
    is_it.then_some(length + 2)
}

/// `%2b`, or as it is.
fn in_url(text: &[u8], character: char) -> Option<usize> {
    let mut at = 0;
    for byte in character.encode_utf8(&mut [0; 4]).bytes() {
        at += match text.get(at..)? {
            [b'%', high, low, ..] if hexadecimal(&[*high, *low]) == Some(byte.into()) => 3,
            [plain, ..] if *plain == byte => 1,
            _ => return None,
        };
    }
    Some(at)
}

fn hexadecimal(digits: &[u8]) -> Option<u32> {
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_key_is_found_however_much_of_it_is_coded() {
        let key = "sk-pl?nted+1>";
        let clean = |text: &str| without(text, Some(key));
        // as encodeURIComponent, quote and whoever codes everything write it
        let all: String = key.bytes().map(|b| format!("%{b:02X}")).collect();
        for coded in ["sk-pl%3Fnted%2B1%3E", "sk-pl%3fnted%2b1%3e", "sk%2Dpl%3Fnted+1%3e", &all, &all.to_lowercase()] {
            assert_eq!(clean(&format!("auth=Bearer%20{coded}&x=%2")), "auth=Bearer%20[key]&x=%2", "{coded}");
            assert_eq!(clean(&format!("{coded}{coded}")), "[key][key]", "{coded}");
        }
        assert_eq!(clean("100 % of sk-pl%3Fnted, %"), "100 % of sk-pl%3Fnted, %", "a part is not the key");
        assert_eq!(clean("\u{e9}%sk-pl%3Fnted%2B1%3E\u{e9}"), "\u{e9}%[key]\u{e9}");
        assert_eq!(without("100%", None), "100%");
    }

    #[test]
    fn a_key_is_found_in_escapes_of_json_and_html() {
        let key = "sk-pl/nted+1&<\"'";
        for coded in [
            r#"sk-pl\/nted+1&<\"'"#,
            r#"sk-pl/nted\u002B1\u0026\u003c\u0022\u0027"#,
            r#"\u0073k-pl\/nted%2b1\u0026&lt;&quot;&#39;"#,
            r#"sk-pl\\\/nted\\u002B1\\\u0026<\\"\\\\u0027"#,
            "sk-pl&#x2F;nted&#43;1&amp;&lt;&quot;&#39;",
            "sk&#45;pl&sol;nted&plus;1&amp;&#060;&quot;&apos;",
        ] {
            assert_eq!(without(&format!(r"<p>\ & {coded}&amp;"), Some(key)), r"<p>\ & [key]&amp;", "{coded}");
        }
        assert_eq!(without(r"\ud83d\uDD11\u00e9&#233;%c3%A9", Some("\u{1f511}\u{e9}\u{e9}\u{e9}")), SHOWN);
        assert_eq!(without(r"\u002 &#; &x; \", Some(key)), r"\u002 &#; &x; \");
    }

    #[test]
    fn the_beginning_of_a_key_at_the_end_of_a_text_is_taken_out_where_it_may_have_been_cut() {
        let key = "sk-planted/0123456789";
        for cut in
            ["sk-plant", r"sk-planted\", r"sk-planted\u00", "sk-planted&#4", "sk-planted%2", "sk-planted\u{fffd}"]
        {
            let text = format!("Incorrect key {cut}");
            assert_eq!(without_cut(&text, Some(key)), "Incorrect key [key]");
            assert_eq!(without(&text, Some(key)), text, "whole as it is");
        }
        for whole in ["sk-plan", "sk-planted.", "sk-planted/ 0"] {
            assert_eq!(without_cut(whole, Some(key)), whole);
        }
        assert_eq!(without_cut(&format!("{key} {key}"), Some(key)), "[key] [key]");
    }

    #[test]
    fn the_end_of_a_key_at_the_beginning_of_a_text_is_taken_out_where_it_was_cut() {
        let key = "sk-planted/0123456789";
        for (text, clean) in [
            ("k-planted/0123456789 no", "[key] no"),
            ("23456789", SHOWN),
            ("3456789", "3456789"),
            ("2Dplanted%2F0123456789!", "2D[key]!"),
            ("x0123456788", "x0123456788"),
            ("", ""),
        ] {
            assert_eq!(without_rest(text, Some(key)), clean);
        }
    }

    proptest! {
        #[test]
        fn coded_in_any_way_it_is_found(
            key in "[0-9A-Za-z+/=_.~-]{4,24}",
            coded in proptest::collection::vec(0..5_u8, 24),
            around in "[a-z%\\\\&\u{e9}]{0,6}",
        ) {
            let each = |(byte, coded): (u8, &u8)| match coded {
                0 => format!("%{byte:02x}"),
                1 => format!("\\u{byte:04X}"),
                2 => format!("&#{byte};"),
                3 => format!("&#x{byte:X};"),
                _ => char::from(byte).to_string(),
            };
            let written: String = key.bytes().zip(&coded).map(each).collect();
            let clean = without(&format!("{around} {written} {around}"), Some(&key));
            prop_assert!(!clean.contains(&written) && clean.contains(SHOWN), "{clean}");
            for end in 0..written.len() {
                let words = without_cut(&format!("{around} {}", &written[..end]), Some(&key));
                let shown: usize = words.strip_prefix(&format!("{around} ")).map_or(0, str::len);
                prop_assert!(words.ends_with(SHOWN) || shown <= 6 * TELLING + LONGEST_CODED, "{words}");
            }
        }

        #[test]
        fn arbitrary_text_never_panics(text in ".{0,80}", key in "[!-~]{1,12}") {
            for clean in [without, without_cut, without_rest].map(|without| without(&text, Some(&key))) {
                prop_assert!(clean == text || clean.contains(SHOWN));
            }
        }
    }
}
