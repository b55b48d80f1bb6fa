//! Secrets taken out of what others said.

/// What stands in the place of a secret.
const SHOWN: &str = "[key]";

/// `text` with the secrets, one a line, taken out, also where some or all of their characters are percent-coded (RFC 3986,
/// 2.1).
pub fn without(text: &str, secrets: Option<&str>) -> String {
    let lines = secrets.unwrap_or_default().lines().filter(|s| !s.is_empty());
    lines.fold(text.to_owned(), |text, secret| without_coded(text.replace(secret, SHOWN), secret))
}

fn without_coded(text: String, secret: &str) -> String {
    let (mut clean, mut from, mut at) = (String::new(), 0, 0);
    while let Some(sign) = text[at..].find('%').map(|ahead| at + ahead) {
        // the first characters of the secret may stand there as they are
        let begins = sign.saturating_sub(secret.len()).max(from)..=sign;
        let found = begins.filter(|begin| text.is_char_boundary(*begin)).find_map(|begin| {
            let length = coded_length(&text.as_bytes()[begin..], secret)?;
            Some((begin, begin + length))
        });
        match found {
            Some((begin, end)) => {
                clean.push_str(&text[from..begin]);
                clean.push_str(SHOWN);
                (from, at) = (end, end);
            }
            None => at = sign + 1,
        }
    }
    match from {
        0 => text,
        _ => clean + &text[from..],
    }
}

/// How long the secret is at the beginning of `text`, each character as it is or coded. None: it is not there.
fn coded_length(text: &[u8], secret: &str) -> Option<usize> {
    let hex = |digit: u8| char::from(digit).to_digit(16);
    let mut at = 0;
    for byte in secret.bytes() {
        at += match text.get(at..)? {
            [b'%', high, low, ..] if hex(*high).zip(hex(*low)).is_some_and(|(h, l)| h << 4 | l == u32::from(byte)) => 3,
            [plain, ..] if *plain == byte => 1,
            _ => return None,
        };
    }
    Some(at)
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

    proptest! {
        #[test]
        fn coded_in_any_way_it_is_found(
            key in "[0-9A-Za-z+/=_.~-]{4,24}",
            coded in proptest::collection::vec(any::<bool>(), 24),
            around in "[a-z%\u{e9}]{0,6}",
        ) {
            let each = |(byte, coded): (u8, &bool)| match coded {
                true => format!("%{byte:02x}"),
                false => char::from(byte).to_string(),
            };
            let written: String = key.bytes().zip(&coded).map(each).collect();
            let clean = without(&format!("{around} {written} {around}"), Some(&key));
            prop_assert!(!clean.contains(&written) && clean.contains(SHOWN), "{clean}");
        }

        #[test]
        fn arbitrary_text_never_panics(text in ".{0,80}", key in "[!-~]{1,12}") {
            let clean = without(&text, Some(&key));
            prop_assert!(clean == text || clean.contains(SHOWN));
        }
    }
}
