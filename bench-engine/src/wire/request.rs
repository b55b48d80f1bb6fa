//! The bytes of a request: head and body in one buffer, made before the request is due.

use std::fmt::{self, Write};
use thiserror::Error;
use zeroize::Zeroizing;

/// A header field that would break the head apart.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "header {name:?}: a name is letters, digits and - (Content-Length and Transfer-Encoding are ours), a value has no line \
     breaks or control characters"
)]
pub struct BadField {
    /// Its name; the value may be a secret.
    pub name: String,
}

/// Everything of a head that does not change between requests. It may hold keys: it is wiped when it is dropped, and is not
/// printed.
#[derive(Clone)]
pub struct RequestTemplate {
    head: Zeroizing<String>,
}

impl fmt::Debug for RequestTemplate {
    /// Its first line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RequestTemplate").field(&self.head.lines().next().unwrap_or_default()).finish()
    }
}

impl RequestTemplate {
    /// `method` to `path` at `authority` (host, with the port when it is not the scheme's own).
    /// `accept` is the media type asked for; content codings are refused, so that a token is not held
    /// back by a compressor. Fields given replace those made here.
    ///
    /// # Errors
    /// [`BadField`] names the first field that cannot stand in a head.
    pub fn new(
        method: &str,
        path: &str,
        authority: &str,
        accept: &str,
        fields: &[(String, String)],
    ) -> Result<Self, BadField> {
        let mut head = Zeroizing::new(format!("{method} {path} HTTP/1.1\r\n"));
        let own = [
            ("Host", authority),
            ("User-Agent", concat!("tarebench/", env!("CARGO_PKG_VERSION"))),
            ("Accept", accept),
            ("Accept-Encoding", "identity"),
        ];
        for (name, value) in own {
            if !fields.iter().any(|(n, _)| n.eq_ignore_ascii_case(name)) {
                let _ = write!(head, "{name}: {value}\r\n");
            }
        }
        for (name, value) in fields {
            if !well_formed(name, value) {
                return Err(BadField { name: name.clone() });
            }
            let _ = write!(head, "{name}: {value}\r\n");
        }
        Ok(RequestTemplate { head })
    }

    /// The same without the fields of this name, of those that it has so far. `Host` stays: a request without it is none.
    pub fn without(self, name: &str) -> Self {
        let of_name = |line: &&str| {
            let found = line.split_once(':').map_or("", |(found, _)| found);
            !found.eq_ignore_ascii_case("host") && found.eq_ignore_ascii_case(name)
        };
        let mut lines = self.head.split_inclusive("\r\n");
        let first = lines.next().unwrap_or_default();
        let mut head = Zeroizing::new(String::with_capacity(self.head.len()));
        head.push_str(first);
        lines.filter(|line| !of_name(line)).for_each(|line| head.push_str(line));
        RequestTemplate { head }
    }

    /// The request with `body` as JSON, ready to be sent in one go.
    pub fn with_json(&self, body: &str) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.head.len() + 64 + body.len());
        bytes.extend_from_slice(self.head.as_bytes());
        bytes.extend_from_slice(
            format!("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(),
        );
        bytes.extend_from_slice(body.as_bytes());
        bytes
    }

    /// The request without a body.
    pub fn without_body(&self) -> Vec<u8> {
        format!("{}\r\n", *self.head).into_bytes()
    }
}

/// Whether a field can stand in a head: [RFC 9110] 5.1 and 5.5, and it is none of those that frame the body.
///
/// [RFC 9110]: https://www.rfc-editor.org/rfc/rfc9110
pub fn well_formed(name: &str, value: &str) -> bool {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !name.is_empty()
        && name.bytes().all(token)
        && !name.eq_ignore_ascii_case("content-length")
        && !name.eq_ignore_ascii_case("transfer-encoding")
        && value.bytes().all(|b| b == b'\t' || (b >= b' ' && b != 0x7f))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_buffer_with_the_body_in_it() {
        let fields = [("X-A".to_string(), "1".to_string()), ("accept".to_string(), "*/*".to_string())];
        let template = RequestTemplate::new("POST", "/v1/x", "h:8000", "text/event-stream", &fields).expect("fields");
        let text = String::from_utf8(template.with_json("{}")).expect("text");
        assert!(text.starts_with("POST /v1/x HTTP/1.1\r\nHost: h:8000\r\n"), "{text}");
        assert!(text.ends_with("Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"), "{text}");
        assert!(text.contains("Accept-Encoding: identity\r\n"), "{text}");
        assert_eq!(text.matches("ccept: ").count(), 1, "a given field replaces ours: {text}");
        assert!(!text.contains("Authorization"), "no key, no header: {text}");
    }

    #[test]
    fn fields_are_removed_by_name_and_none_is_printed() {
        let fields = [("X-Key".to_string(), "sk-planted".to_string())];
        let template = RequestTemplate::new("GET", "/v1", "h", "*/*", &fields).expect("fields");
        assert_eq!(format!("{template:?}"), r#"RequestTemplate("GET /v1 HTTP/1.1")"#);
        let without = template.without("user-agent").without("x-key").without("HOST").without("GET /v1 HTTP/1.1");
        let text = String::from_utf8(without.without_body()).expect("text");
        assert_eq!(text, "GET /v1 HTTP/1.1\r\nHost: h\r\nAccept: */*\r\nAccept-Encoding: identity\r\n\r\n");
    }

    #[test]
    fn a_field_cannot_smuggle_another() {
        for (name, value) in [("X", "a\r\nEvil: 1"), ("X Y", "a"), ("", "a"), ("Content-Length", "0"), ("X", "\0")] {
            let fields = [(name.to_string(), value.to_string())];
            assert!(RequestTemplate::new("GET", "/", "h", "*/*", &fields).is_err(), "{name}");
        }
    }
}
