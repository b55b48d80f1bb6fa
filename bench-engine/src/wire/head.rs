//! The head of an HTTP/1.x response (RFC 9112): at most 16 KiB and 64 fields, parsed by httparse; what
//! it says about the body's framing (RFC 9112 section 6.3) and about reuse of the connection (9.3).

use thiserror::Error;

/// Longest head accepted, in bytes.
pub const MAX_HEAD_BYTES: usize = 16 * 1024;
/// Most fields accepted.
pub const MAX_FIELDS: usize = 64;

/// How a record with an alert begins: its type and the major version (RFC 8446, 5.1).
const TLS_ALERT: [u8; 2] = [21, 3];

/// How the end of a body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    Empty,
    /// So many bytes.
    Length(u64),
    /// Chunks, RFC 9112 section 7.1.
    Chunked,
    /// All bytes until the peer closes.
    UntilClose,
}

/// What the body is said to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaType {
    /// `text/event-stream`.
    EventStream,
    /// `application/json` or a `+json` type.
    Json,
    /// Anything else, or nothing said.
    Other,
}

/// What the load path needs to know of a head; the rest is read later from its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// Status code, 100 to 999.
    pub status: u16,
    /// Framing of the body.
    pub framing: Framing,
    /// The connection may carry another request afterwards.
    pub keep_alive: bool,
    /// Kind of the body.
    pub media: MediaType,
    /// A content coding other than identity was applied.
    pub encoded: bool,
}

/// A head that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HeadError {
    /// Longer than [`MAX_HEAD_BYTES`].
    #[error("the response head is longer than {MAX_HEAD_BYTES} bytes")]
    TooLong,
    /// More than [`MAX_FIELDS`] fields.
    #[error("the response head has more than {MAX_FIELDS} fields")]
    TooManyFields,
    /// An HTTP/2 frame where a status line should be.
    #[error("the server answered in HTTP/2 frames: it speaks only HTTP/2, and tarebench speaks HTTP/1.1")]
    Http2,
    /// A TLS alert where a status line should be.
    #[error("the server answered in TLS: this port speaks https://, and was asked over http://")]
    Tls,
    /// Not HTTP at all.
    #[error("the response does not start with an HTTP/1.x head ({0})")]
    Malformed(&'static str),
    /// Two lengths, or one that is no number.
    #[error("the response has an unusable Content-Length")]
    BadLength,
}

/// Collects a head that may come in pieces, without allocating.
#[derive(Debug)]
pub struct HeadReader {
    bytes: Box<[u8]>,
    len: usize,
}

impl Default for HeadReader {
    fn default() -> Self {
        HeadReader { bytes: vec![0; MAX_HEAD_BYTES].into_boxed_slice(), len: 0 }
    }
}

impl HeadReader {
    /// Nothing was collected yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Forgets what it holds.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// The bytes of the head so far, complete after [`HeadReader::push`] gave one.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Takes bytes up to the end of the head: how many, and the head when it is complete.
    ///
    /// # Errors
    /// [`HeadError`]; the connection cannot be used any further.
    pub fn push(&mut self, input: &[u8]) -> Result<(usize, Option<ResponseHead>), HeadError> {
        let mut taken = 0;
        while taken < input.len() {
            let line_end = memchr::memchr(b'\n', &input[taken..]).map(|at| taken + at + 1);
            let upto = line_end.unwrap_or(input.len());
            let piece = &input[taken..upto];
            if self.len + piece.len() > MAX_HEAD_BYTES {
                return Err(if self.looks_like_http2() { HeadError::Http2 } else { HeadError::TooLong });
            }
            self.bytes[self.len..self.len + piece.len()].copy_from_slice(piece);
            self.len += piece.len();
            taken = upto;
            let held = &self.bytes[..self.len];
            // httparse starts over on every call: ask it only when a blank line may have ended the head,
            // or when the first line can already be judged
            let blank = held.ends_with(b"\n\r\n") || held.ends_with(b"\n\n");
            if line_end.is_some()
                && blank
                && let Some(head) = parse(held)?
            {
                return Ok((taken, Some(head)));
            }
        }
        if self.looks_like_http2() {
            return Err(HeadError::Http2);
        }
        if self.begins_like_tls() {
            return if self.len >= TLS_ALERT.len() { Err(HeadError::Tls) } else { Ok((taken, None)) };
        }
        // nothing that starts otherwise can become HTTP: say so now instead of waiting for a blank line
        let start = self.bytes().trim_ascii_start();
        if !start.starts_with(&b"HTTP/1."[..start.len().min(7)]) {
            return Err(HeadError::Malformed("no status line"));
        }
        Ok((taken, None))
    }

    /// An HTTP/2 connection opens with a SETTINGS frame: 24-bit length, type 4, stream 0 (RFC 9113 3.4).
    fn looks_like_http2(&self) -> bool {
        let held = self.bytes();
        held.len() >= 9 && held[0] == 0 && held[3] == 4 && held[5..9] == [0; 4]
    }

    /// So far: a plain request is no ClientHello, and the answer to it is an alert.
    fn begins_like_tls(&self) -> bool {
        let known = self.len.min(TLS_ALERT.len());
        known > 0 && self.bytes[..known] == TLS_ALERT[..known]
    }
}

/// The head at the start of `input`, and its length, when all of it is there: no need to collect it.
///
/// # Errors
/// [`HeadError`], as [`HeadReader::push`].
pub fn parse_whole(input: &[u8]) -> Result<Option<(usize, ResponseHead)>, HeadError> {
    let end = memchr::memmem::find(input, b"\r\n\r\n").map(|at| at + 4).filter(|end| *end <= MAX_HEAD_BYTES);
    match end {
        Some(end) if input.starts_with(b"HTTP/1.") => Ok(parse(&input[..end])?.map(|head| (end, head))),
        _ => Ok(None),
    }
}

/// Parses a complete head; None when it is not complete.
fn parse(bytes: &[u8]) -> Result<Option<ResponseHead>, HeadError> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut response = httparse::Response::new(&mut fields);
    match response.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(HeadError::TooManyFields),
        Err(httparse::Error::Version) => return Err(HeadError::Malformed("unknown version")),
        Err(httparse::Error::Status) => return Err(HeadError::Malformed("bad status line")),
        Err(_) => return Err(HeadError::Malformed("bad header field")),
    }
    let status = response.code.unwrap_or(0);
    if !(100..=999).contains(&status) {
        return Err(HeadError::Malformed("bad status code"));
    }
    let version_1_1 = response.version == Some(1);
    let mut says = Said::default();
    for field in response.headers.iter() {
        says.read(field.name, field.value)?;
    }
    let framing = match says {
        _ if matches!(status, 100..=199 | 204 | 304) => Framing::Empty,
        Said { transfer_coded: true, chunked_last: true, .. } => Framing::Chunked,
        Said { transfer_coded: true, .. } => Framing::UntilClose,
        Said { length: Some(n), .. } => Framing::Length(n),
        _ => Framing::UntilClose,
    };
    // a length beside a transfer coding is a sign of tampering (RFC 9112 6.3): read it, but do not go on
    let suspicious = says.transfer_coded && (says.length.is_some() || !version_1_1);
    let keep_alive = !says.close
        && (version_1_1 || says.keep_alive)
        && !suspicious
        && (framing != Framing::UntilClose)
        && status != 101;
    Ok(Some(ResponseHead { status, framing, keep_alive, media: says.media, encoded: says.encoded }))
}

struct Said {
    length: Option<u64>,
    transfer_coded: bool,
    chunked_last: bool,
    close: bool,
    keep_alive: bool,
    media: MediaType,
    encoded: bool,
}

impl Default for Said {
    fn default() -> Self {
        Said {
            length: None,
            transfer_coded: false,
            chunked_last: false,
            close: false,
            keep_alive: false,
            media: MediaType::Other,
            encoded: false,
        }
    }
}

impl Said {
    fn read(&mut self, name: &str, value: &[u8]) -> Result<(), HeadError> {
        if name.eq_ignore_ascii_case("content-length") {
            for item in list(value) {
                let n = parse_length(item).ok_or(HeadError::BadLength)?;
                if self.length.is_some_and(|m| m != n) {
                    return Err(HeadError::BadLength);
                }
                self.length = Some(n);
            }
            if self.length.is_none() {
                return Err(HeadError::BadLength);
            }
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            for item in list(value) {
                self.transfer_coded = true;
                self.chunked_last = item.eq_ignore_ascii_case(b"chunked");
            }
        } else if name.eq_ignore_ascii_case("connection") {
            for item in list(value) {
                self.close |= item.eq_ignore_ascii_case(b"close");
                self.keep_alive |= item.eq_ignore_ascii_case(b"keep-alive");
            }
        } else if name.eq_ignore_ascii_case("content-type") {
            self.media = media_type(value);
        } else if name.eq_ignore_ascii_case("content-encoding") {
            self.encoded |= list(value).any(|item| !item.eq_ignore_ascii_case(b"identity"));
        }
        Ok(())
    }
}

fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|b| *b == b',').map(<[u8]>::trim_ascii).filter(|item| !item.is_empty())
}

fn parse_length(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0u64, |n, b| match b {
        b'0'..=b'9' => n.checked_mul(10)?.checked_add(u64::from(b - b'0')),
        _ => None,
    })
}

fn media_type(value: &[u8]) -> MediaType {
    let essence = value.split(|b| *b == b';').next().unwrap_or_default().trim_ascii();
    let ends_in_json = essence.len() >= 5 && essence[essence.len() - 5..].eq_ignore_ascii_case(b"+json");
    if essence.eq_ignore_ascii_case(b"text/event-stream") {
        MediaType::EventStream
    } else if essence.eq_ignore_ascii_case(b"application/json") || ends_in_json {
        MediaType::Json
    } else {
        MediaType::Other
    }
}

/// Calls `visit` with every field of a complete head, for readers off the load path.
pub fn each_field(bytes: &[u8], mut visit: impl FnMut(&str, &[u8])) {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut response = httparse::Response::new(&mut fields);
    if response.parse(bytes).is_ok() {
        response.headers.iter().filter(|f| !f.name.is_empty()).for_each(|f| visit(f.name, f.value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn whole(text: &str) -> Result<(usize, Option<ResponseHead>), HeadError> {
        HeadReader::default().push(text.as_bytes())
    }

    fn head(text: &str) -> ResponseHead {
        whole(text).expect("parses").1.expect("complete")
    }

    #[test]
    fn framing_follows_rfc_9112() {
        let cases = [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", Framing::Length(5), true),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n", Framing::Length(5), true),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n", Framing::Chunked, true),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", Framing::Chunked, true),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 9\r\n\r\n", Framing::Chunked, false),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", Framing::UntilClose, false),
            ("HTTP/1.1 200 OK\r\n\r\n", Framing::UntilClose, false),
            ("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", Framing::Empty, true),
            ("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n", Framing::Length(5), false),
            ("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\n", Framing::Length(5), true),
            (
                "HTTP/1.1 200 OK\r\nConnection: keep-alive, close\r\nContent-Length: 5\r\n\r\n",
                Framing::Length(5),
                false,
            ),
            ("HTTP/1.1 100 Continue\r\n\r\n", Framing::Empty, true),
        ];
        for (text, framing, keep_alive) in cases {
            let got = head(text);
            assert_eq!((got.framing, got.keep_alive), (framing, keep_alive), "{text}");
        }
    }

    #[test]
    fn hostile_heads_are_named() {
        assert_eq!(whole("HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\n"), Err(HeadError::BadLength));
        assert_eq!(whole("HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n"), Err(HeadError::BadLength));
        assert_eq!(whole("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n"), Err(HeadError::BadLength));
        assert_eq!(whole("SSH-2.0-OpenSSH\r\n"), Err(HeadError::Malformed("no status line")));
        let frame = "\0\0\x12\x04\0\0\0\0\0\0\x03\0\0\0\u{7f}";
        assert_eq!(whole(frame), Err(HeadError::Http2));
        // protocol_version and unexpected_message, whose number is that of a line end
        for alert in ["\u{15}\u{3}\u{1}\0\u{2}\u{2}\u{46}", "\u{15}\u{3}\u{3}\0\u{2}\u{2}\u{a}"] {
            assert_eq!(whole(alert), Err(HeadError::Tls));
            let mut reader = HeadReader::default();
            assert_eq!(reader.push(&alert.as_bytes()[..1]), Ok((1, None)), "not known yet");
            assert_eq!(reader.push(&alert.as_bytes()[1..]), Err(HeadError::Tls));
        }
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(65));
        assert_eq!(whole(&many), Err(HeadError::TooManyFields));
        let long = format!("HTTP/1.1 200 OK\r\na: {}\r\n\r\n", "b".repeat(MAX_HEAD_BYTES));
        assert_eq!(whole(&long), Err(HeadError::TooLong));
        // a keep-alive field ending in 0 before the blank line is not the end of a chunked body
        assert_eq!(head("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nKeep-Alive: timeout=5, max=100\r\n\r\n").status, 200);
    }

    #[test]
    fn media_and_coding_are_read() {
        let h =
            head("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncontent-encoding: gzip\r\n\r\n");
        assert_eq!((h.media, h.encoded), (MediaType::EventStream, true));
        assert_eq!(head("HTTP/1.1 400 X\r\nContent-Type: application/problem+json\r\n\r\n").media, MediaType::Json);
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_head(cuts in proptest::collection::vec(0usize..90, 0..6)) {
            let text = b"\r\nHTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nREST";
            let mut cuts = cuts;
            cuts.push(text.len());
            cuts.sort_unstable();
            let mut reader = HeadReader::default();
            let (mut at, mut found) = (0, None);
            'cuts: for cut in cuts {
                while at < cut {
                    let (taken, head) = reader.push(&text[at..cut]).expect("parses");
                    at += taken;
                    if head.is_some() {
                        found = head;
                        break 'cuts;
                    }
                }
            }
            prop_assert_eq!(found.map(|h| h.framing), Some(Framing::Chunked));
            prop_assert_eq!(&text[at..], b"REST");
            let whole = parse_whole(&text[2..]).expect("parses").expect("complete");
            prop_assert_eq!(Some(whole.1), found);
            prop_assert_eq!(&text[2 + whole.0..], b"REST");
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = HeadReader::default().push(&bytes);
        }
    }
}
