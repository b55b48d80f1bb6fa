//! HTTP/1.1 requests out of bytes, however they are cut. No socket, no clock.
//!
//! Framing is RFC 9112 section 6: a length or chunks, never both.

use std::fmt;

/// Longest head taken, in bytes.
pub(super) const HEAD_LIMIT: usize = 64 << 10;
/// Longest body taken, in bytes.
pub(super) const BODY_LIMIT: usize = 64 << 20;
/// Most header lines taken.
const HEADER_LINES: usize = 100;
/// Longest chunk-size or trailer line taken, in bytes.
const LINE_LIMIT: usize = 8 << 10;

/// One complete request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    pub method: String,
    /// Path without the query.
    pub path: String,
    pub authorization: Option<Vec<u8>>,
    /// The connection must close after the reply.
    pub close: bool,
    /// The client speaks HTTP/1.0: no chunked reply.
    pub http10: bool,
    pub body: Vec<u8>,
}

/// Why bytes are no request that can be answered with more than a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    BadHead,
    BadFraming,
    HeadTooLong,
    BodyTooLong,
    UnknownExpectation,
}

impl Refusal {
    pub(super) fn status(self) -> u16 {
        match self {
            Refusal::BadHead | Refusal::BadFraming => 400,
            Refusal::HeadTooLong => 431,
            Refusal::BodyTooLong => 413,
            Refusal::UnknownExpectation => 417,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::BadHead => f.write_str("the request head is not HTTP/1.1"),
            Refusal::BadFraming => f.write_str("the request body has no sound length: send Content-Length or chunks"),
            Refusal::HeadTooLong => write!(f, "the request head is longer than {HEAD_LIMIT} bytes"),
            Refusal::BodyTooLong => write!(f, "the request body is longer than {BODY_LIMIT} bytes"),
            Refusal::UnknownExpectation => f.write_str("only `Expect: 100-continue` is known"),
        }
    }
}

/// What a push of bytes brought to light.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// More bytes are needed.
    Nothing,
    /// The head asks for `100 Continue` before its body.
    WantsContinue,
    Request(Box<Request>),
    /// Nothing after this can be read.
    Refused(Refusal),
}

#[derive(Debug)]
enum State {
    Head,
    Sized { left: usize },
    ChunkSize,
    ChunkData { left: usize },
    ChunkEnd,
    Trailer,
    Refused(Refusal),
}

/// Reads requests one after the other from one connection.
#[derive(Debug)]
pub(super) struct RequestReader {
    state: State,
    line: Vec<u8>,
    request: Request,
}

impl Default for RequestReader {
    fn default() -> Self {
        RequestReader { state: State::Head, line: Vec::new(), request: Request::default() }
    }
}

impl RequestReader {
    /// Takes from the front of `bytes` what the next finding needs, and moves `bytes` on.
    ///
    /// [`Found::Nothing`] is only returned with `bytes` empty.
    pub(super) fn push(&mut self, bytes: &mut &[u8]) -> Found {
        loop {
            match &mut self.state {
                State::Refused(why) => {
                    *bytes = &[];
                    return Found::Refused(*why);
                }
                State::Head => match take_head(&mut self.line, bytes) {
                    Take::More => return Found::Nothing,
                    Take::TooLong => self.refuse(Refusal::HeadTooLong),
                    Take::Done => {
                        let head = std::mem::take(&mut self.line);
                        match self.read_head(&head) {
                            Ok(true) => return Found::WantsContinue,
                            Ok(false) => {}
                            Err(why) => self.refuse(why),
                        }
                    }
                },
                State::Sized { left } => {
                    let n = bytes.len().min(*left);
                    self.request.body.extend_from_slice(&bytes[..n]);
                    *bytes = &bytes[n..];
                    *left -= n;
                    if *left > 0 {
                        return Found::Nothing;
                    }
                    return self.complete();
                }
                State::ChunkSize => match take_line(&mut self.line, bytes) {
                    Take::More => return Found::Nothing,
                    Take::TooLong => self.refuse(Refusal::BadFraming),
                    Take::Done => {
                        let size = chunk_size(&self.line);
                        self.line.clear();
                        match size {
                            None => self.refuse(Refusal::BadFraming),
                            Some(0) => self.state = State::Trailer,
                            Some(n) if n > BODY_LIMIT - self.request.body.len() => self.refuse(Refusal::BodyTooLong),
                            Some(n) => self.state = State::ChunkData { left: n },
                        }
                    }
                },
                State::ChunkData { left } => {
                    let n = bytes.len().min(*left);
                    self.request.body.extend_from_slice(&bytes[..n]);
                    *bytes = &bytes[n..];
                    *left -= n;
                    if *left > 0 {
                        return Found::Nothing;
                    }
                    self.state = State::ChunkEnd;
                }
                State::ChunkEnd => match take_line(&mut self.line, bytes) {
                    Take::More => return Found::Nothing,
                    Take::Done if self.line.is_empty() => self.state = State::ChunkSize,
                    Take::Done | Take::TooLong => self.refuse(Refusal::BadFraming),
                },
                State::Trailer => match take_line(&mut self.line, bytes) {
                    Take::More => return Found::Nothing,
                    Take::TooLong => self.refuse(Refusal::BadFraming),
                    Take::Done => {
                        let last = self.line.is_empty();
                        self.line.clear();
                        if last {
                            return self.complete();
                        }
                    }
                },
            }
        }
    }

    fn refuse(&mut self, why: Refusal) {
        self.state = State::Refused(why);
    }

    fn complete(&mut self) -> Found {
        self.state = State::Head;
        Found::Request(Box::new(std::mem::take(&mut self.request)))
    }

    /// True when the client waits for `100 Continue`.
    fn read_head(&mut self, head: &[u8]) -> Result<bool, Refusal> {
        let mut lines = [httparse::EMPTY_HEADER; HEADER_LINES];
        let mut parsed = httparse::Request::new(&mut lines);
        match parsed.parse(head) {
            Ok(httparse::Status::Complete(_)) => {}
            Err(httparse::Error::TooManyHeaders) => return Err(Refusal::HeadTooLong),
            Ok(httparse::Status::Partial) | Err(_) => return Err(Refusal::BadHead),
        }
        let (Some(method), Some(target), Some(minor)) = (parsed.method, parsed.path, parsed.version) else {
            return Err(Refusal::BadHead);
        };
        let mut request = Request {
            method: method.to_owned(),
            path: path_of(target).to_owned(),
            http10: minor == 0,
            close: minor == 0,
            ..Request::default()
        };
        let (mut length, mut chunked, mut wants_continue) = (None::<usize>, false, false);
        for header in parsed.headers.iter() {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            if is("content-length") {
                let text = std::str::from_utf8(header.value).map_err(|_| Refusal::BadFraming)?.trim();
                if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
                    return Err(Refusal::BadFraming);
                }
                let n = text.parse::<usize>().map_err(|_| Refusal::BodyTooLong)?;
                if length.is_some_and(|other| other != n) {
                    return Err(Refusal::BadFraming);
                }
                length = Some(n);
            } else if is("transfer-encoding") {
                if !header.value.trim_ascii().eq_ignore_ascii_case(b"chunked") || chunked {
                    return Err(Refusal::BadFraming);
                }
                chunked = true;
            } else if is("connection") {
                for word in header.value.split(|b| *b == b',') {
                    let word = word.trim_ascii();
                    if word.eq_ignore_ascii_case(b"close") {
                        request.close = true;
                    } else if word.eq_ignore_ascii_case(b"keep-alive") && minor == 0 {
                        request.close = false;
                    }
                }
            } else if is("expect") {
                if !header.value.trim_ascii().eq_ignore_ascii_case(b"100-continue") {
                    return Err(Refusal::UnknownExpectation);
                }
                wants_continue = minor == 1;
            } else if is("authorization") {
                request.authorization = Some(header.value.to_vec());
            }
        }
        self.state = match (chunked, length) {
            (true, Some(_)) => return Err(Refusal::BadFraming),
            (true, None) if minor == 0 => return Err(Refusal::BadFraming),
            (true, None) => State::ChunkSize,
            (false, Some(n)) if n > BODY_LIMIT => return Err(Refusal::BodyTooLong),
            (false, n) => State::Sized { left: n.unwrap_or(0) },
        };
        wants_continue &= !matches!(self.state, State::Sized { left: 0 });
        self.request = request;
        Ok(wants_continue)
    }
}

enum Take {
    More,
    Done,
    TooLong,
}

/// Moves bytes into `line` up to and including the blank line that ends a head; skips blank lines before it.
fn take_head(line: &mut Vec<u8>, bytes: &mut &[u8]) -> Take {
    while let Some((&byte, rest)) = bytes.split_first() {
        if line.is_empty() && (byte == b'\r' || byte == b'\n') {
            *bytes = rest;
            continue;
        }
        // a head's lines end in LF; copy up to the next one at once
        let n = bytes.iter().position(|b| *b == b'\n').map_or(bytes.len(), |at| at + 1);
        if line.len() + n > HEAD_LIMIT {
            return Take::TooLong;
        }
        line.extend_from_slice(&bytes[..n]);
        *bytes = &bytes[n..];
        if line.ends_with(b"\n\r\n") || line.ends_with(b"\n\n") {
            return Take::Done;
        }
    }
    Take::More
}

/// Moves one line into `line`, without its end.
fn take_line(line: &mut Vec<u8>, bytes: &mut &[u8]) -> Take {
    let at = bytes.iter().position(|b| *b == b'\n');
    let n = at.unwrap_or(bytes.len());
    if line.len() + n > LINE_LIMIT {
        return Take::TooLong;
    }
    line.extend_from_slice(&bytes[..n]);
    *bytes = &bytes[at.map_or(n, |at| at + 1)..];
    if at.is_none() {
        return Take::More;
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Take::Done
}

fn chunk_size(line: &[u8]) -> Option<usize> {
    let digits = line.split(|b| *b == b';').next()?.trim_ascii();
    if digits.is_empty() || digits.len() > 15 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    usize::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// The path of an origin-form or absolute-form target.
fn path_of(target: &str) -> &str {
    let from = target.find("://").and_then(|at| target[at + 3..].find('/').map(|slash| at + 3 + slash));
    let path = if target.starts_with('/') { target } else { from.map_or("/", |at| &target[at..]) };
    path.split(['?', '#']).next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(mut bytes: &[u8], cut: usize) -> Vec<Found> {
        let mut reader = RequestReader::default();
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let (mut now, rest) = bytes.split_at(cut.min(bytes.len()));
            while !now.is_empty() {
                match reader.push(&mut now) {
                    Found::Nothing => assert!(now.is_empty()),
                    refused @ Found::Refused(_) => {
                        found.push(refused);
                        return found;
                    }
                    other => found.push(other),
                }
            }
            bytes = rest;
        }
        found
    }

    const TWO: &[u8] = b"\r\nPOST /v1/chat/completions?x=1 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer k\r\n\
        content-length: 4\r\n\r\nbodyPOST http://h:1/v1/completions HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\
        Connection: keep-alive, close\r\n\r\n3;x=y\r\nabc\r\n0A\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\n";

    #[test]
    fn two_requests_cut_at_every_length() {
        let whole = all(TWO, TWO.len());
        let [Found::Request(a), Found::Request(b)] = &whole[..] else { panic!("{whole:?}") };
        assert_eq!((a.path.as_str(), a.body.as_slice(), a.close), ("/v1/chat/completions", &b"body"[..], false));
        assert_eq!(a.authorization.as_deref(), Some(&b"Bearer k"[..]));
        assert_eq!((b.path.as_str(), b.body.as_slice(), b.close), ("/v1/completions", &b"abc0123456789"[..], true));
        for cut in 1..TWO.len() {
            assert_eq!(all(TWO, cut), whole, "cut every {cut}");
        }
    }

    #[test]
    fn refusals_are_the_same_however_cut() {
        let cases: [(&[u8], Refusal); 9] = [
            (b"\x16\x03\x01\x02\x00\x01\n\n", Refusal::BadHead),
            (b"GET /\r\n\r\n", Refusal::BadHead),
            (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", Refusal::BadFraming),
            (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", Refusal::BadFraming),
            (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", Refusal::BadFraming),
            (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", Refusal::BadFraming),
            (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", Refusal::BadFraming),
            (b"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n", Refusal::BodyTooLong),
            (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n4000001\r\n", Refusal::BodyTooLong),
        ];
        for (bytes, why) in cases {
            for cut in 1..=bytes.len() {
                assert_eq!(all(bytes, cut), [Found::Refused(why)], "{:?} cut {cut}", String::from_utf8_lossy(bytes));
            }
        }
        let long = [b"GET / HTTP/1.1\r\nX: ".as_slice(), &vec![b'a'; HEAD_LIMIT]].concat();
        assert_eq!(all(&long, 1000), [Found::Refused(Refusal::HeadTooLong)]);
    }

    #[test]
    fn continue_is_owed_only_when_a_body_follows() {
        let with = b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx";
        assert!(matches!(all(with, 7)[..], [Found::WantsContinue, Found::Request(_)]));
        let without = b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n";
        assert!(matches!(all(without, 7)[..], [Found::Request(_)]));
    }

    proptest! {
        #[test]
        fn any_bytes_any_cut(bytes in proptest::collection::vec(any::<u8>(), 0..400), cut in 1usize..40) {
            let _ = all(&bytes, cut);
        }

        #[test]
        fn damaged_requests_never_panic_and_never_depend_on_the_cut(at in 0usize..TWO.len(), byte: u8, cut in 1usize..40) {
            let mut bytes = TWO.to_vec();
            bytes[at] = byte;
            prop_assert_eq!(all(&bytes, cut), all(&bytes, bytes.len()));
        }
    }
}
