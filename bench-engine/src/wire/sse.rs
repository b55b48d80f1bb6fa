//! Server-sent events, as the WHATWG HTML standard parses them (section 9.2.6), in pieces and in place.
//!
//! Differences, on purpose: every line ending dispatches at once (a bare CR swallows a following LF),
//! a field named `error` is reported (llama.cpp once wrote errors that way), and an event whose data are
//! all empty is reported as a keep-alive instead of an event.

use memchr::{memchr, memchr2};
use thiserror::Error;

/// Longest line, and most data in one event, accepted.
pub const MAX_LINE_BYTES: u64 = 16 * 1024 * 1024;
/// Longest field name we tell apart from an unknown one.
const LONGEST_NAME: usize = 5;

/// What a stretch of stream means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// A piece of the current event's data. Several lines are joined by `\n`, which comes as a piece.
    Data(&'a [u8]),
    /// A piece of the current event's name.
    EventName(&'a [u8]),
    /// A piece of the value of a field named `error`.
    ErrorField(&'a [u8]),
    /// A field named `error` began.
    ErrorStart,
    /// A comment line began.
    Comment,
    /// A blank line.
    Blank {
        /// The block had a data line.
        data_line: bool,
        /// Its data are not all empty.
        has_data: bool,
    },
}

/// A stream that cannot be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SseError {
    /// See [`MAX_LINE_BYTES`].
    #[error("a line, or the data of one event, is longer than {MAX_LINE_BYTES} bytes")]
    TooLong,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Data,
    Event,
    Error,
    Ignored,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Before the first byte, with so many bytes of a byte order mark read.
    Mark(u8),
    /// At the start of a line.
    LineStart,
    /// In a field name.
    Name,
    /// After the colon, where one space is skipped.
    ValueStart(Field),
    /// In a value.
    Value(Field),
}

/// The parser's whole state: no bytes of the stream but the start of a field name.
#[derive(Clone, Debug)]
pub struct Sse {
    at: At,
    after_cr: bool,
    name: [u8; LONGEST_NAME],
    name_len: usize,
    line_bytes: u64,
    event_bytes: u64,
    data_lines: u32,
}

impl Default for Sse {
    fn default() -> Self {
        Sse {
            at: At::Mark(0),
            after_cr: false,
            name: [0; LONGEST_NAME],
            name_len: 0,
            line_bytes: 0,
            event_bytes: 0,
            data_lines: 0,
        }
    }
}

const BYTE_ORDER_MARK: [u8; 3] = [0xEF, 0xBB, 0xBF];

impl Sse {
    /// Takes the next stretch of `input`, which must not be empty: how many bytes, and what they mean, if
    /// anything. At least one byte is taken, except where an item comes between bytes.
    ///
    /// # Errors
    /// [`SseError`]; the stream cannot be followed any further.
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Result<(usize, Option<Item<'a>>), SseError> {
        if self.after_cr {
            self.after_cr = false;
            if input[0] == b'\n' {
                return Ok((1, None));
            }
        }
        match self.at {
            At::Mark(n) if input[0] == BYTE_ORDER_MARK[usize::from(n)] => {
                self.at = if n == 2 { At::LineStart } else { At::Mark(n + 1) };
                Ok((1, None))
            }
            At::Mark(n) => {
                // what looked like a mark was the start of a field name that nobody knows
                self.at = if n == 0 { At::LineStart } else { At::Name };
                self.name_len = if n == 0 { 0 } else { LONGEST_NAME + 1 };
                self.next(input)
            }
            At::LineStart => self.line_start(input),
            At::Name => self.field_name(input),
            At::ValueStart(field) => {
                self.at = At::Value(field);
                let space = usize::from(input[0] == b' ');
                self.line_bytes += space as u64;
                if field == Field::Data && self.data_lines > 1 {
                    self.event_bytes += 1;
                    return Ok((space, Some(Item::Data(b"\n"))));
                }
                if field == Field::Error {
                    return Ok((space, Some(Item::ErrorStart)));
                }
                if space == 1 { Ok((1, None)) } else { self.value(input, field) }
            }
            At::Value(field) => self.value(input, field),
        }
    }

    /// The end of a body that broke no framing: the last event without its blank line, if it has data.
    pub fn finish(&mut self) -> Option<Item<'static>> {
        if self.at == At::Name {
            self.enter_field();
        }
        let (data_line, has_data) = (self.data_lines > 0, self.event_bytes > 0);
        self.end_event();
        data_line.then_some(Item::Blank { data_line, has_data })
    }

    fn line_start<'a>(&mut self, input: &'a [u8]) -> Result<(usize, Option<Item<'a>>), SseError> {
        self.line_bytes = 0;
        match input[0] {
            b'\r' | b'\n' => {
                self.after_cr = input[0] == b'\r';
                let item = Item::Blank { data_line: self.data_lines > 0, has_data: self.event_bytes > 0 };
                self.end_event();
                Ok((1, Some(item)))
            }
            b':' => {
                self.at = At::Value(Field::Ignored);
                Ok((1, Some(Item::Comment)))
            }
            _ => {
                self.at = At::Name;
                self.name_len = 0;
                self.field_name(input)
            }
        }
    }

    fn field_name<'a>(&mut self, input: &'a [u8]) -> Result<(usize, Option<Item<'a>>), SseError> {
        let end = input.iter().position(|b| matches!(b, b':' | b'\r' | b'\n'));
        let name = &input[..end.unwrap_or(input.len())];
        self.line_grows(name.len())?;
        for byte in name {
            if self.name_len < LONGEST_NAME {
                self.name[self.name_len] = *byte;
            }
            self.name_len = (self.name_len + 1).min(LONGEST_NAME + 1);
        }
        match end {
            None => Ok((input.len(), None)),
            Some(end) => {
                let field = self.enter_field();
                if input[end] == b':' {
                    self.at = At::ValueStart(field);
                    return Ok((end + 1, None));
                }
                // a field without a colon has an empty value; the line end is read as the value's
                self.at = At::ValueStart(field);
                Ok((end, None))
            }
        }
    }

    /// A field begins: which, and the counts that follow from it.
    fn enter_field(&mut self) -> Field {
        let name = &self.name[..self.name_len.min(LONGEST_NAME)];
        let field = match name {
            _ if self.name_len > LONGEST_NAME => Field::Ignored,
            b"data" => Field::Data,
            b"event" => Field::Event,
            b"error" => Field::Error,
            _ => Field::Ignored,
        };
        self.data_lines += u32::from(field == Field::Data);
        field
    }

    fn value<'a>(&mut self, input: &'a [u8], field: Field) -> Result<(usize, Option<Item<'a>>), SseError> {
        // streams that matter end their lines in LF: one pass for it, and a look for CR before it
        let end = match memchr(b'\n', input) {
            Some(lf) => Some(memchr(b'\r', &input[..lf]).unwrap_or(lf)),
            None => memchr2(b'\r', b'\n', input),
        };
        if let Some(0) = end {
            self.after_cr = input[0] == b'\r';
            self.at = At::LineStart;
            return Ok((1, None));
        }
        let piece = &input[..end.unwrap_or(input.len())];
        self.line_grows(piece.len())?;
        if field == Field::Data {
            self.event_bytes += piece.len() as u64;
            if self.event_bytes > MAX_LINE_BYTES {
                return Err(SseError::TooLong);
            }
        }
        let item = match field {
            Field::Data => Some(Item::Data(piece)),
            Field::Event => Some(Item::EventName(piece)),
            Field::Error => Some(Item::ErrorField(piece)),
            Field::Ignored => None,
        };
        Ok((piece.len(), item))
    }

    fn line_grows(&mut self, by: usize) -> Result<(), SseError> {
        self.line_bytes += by as u64;
        if self.line_bytes > MAX_LINE_BYTES { Err(SseError::TooLong) } else { Ok(()) }
    }

    fn end_event(&mut self) {
        self.at = At::LineStart;
        self.event_bytes = 0;
        self.data_lines = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Default, Clone, PartialEq, Eq)]
    struct Seen {
        events: Vec<(Vec<u8>, Vec<u8>)>,
        errors: Vec<Vec<u8>>,
        comments: u32,
        empty: u32,
        tail: bool,
    }

    fn read(stream: &[u8], cuts: &[usize]) -> Seen {
        let mut cuts: Vec<usize> = cuts.iter().map(|c| c % (stream.len() + 1)).chain([stream.len()]).collect();
        cuts.sort_unstable();
        let (mut sse, mut seen, mut at) = (Sse::default(), Seen::default(), 0);
        let (mut data, mut name) = (Vec::new(), Vec::new());
        let mut take = |item: Item<'_>, seen: &mut Seen| match item {
            Item::Data(bytes) => data.extend_from_slice(bytes),
            Item::EventName(bytes) => name.extend_from_slice(bytes),
            Item::ErrorStart => seen.errors.push(Vec::new()),
            Item::ErrorField(bytes) => {
                if let Some(e) = seen.errors.last_mut() {
                    e.extend_from_slice(bytes);
                }
            }
            Item::Comment => seen.comments += 1,
            Item::Blank { data_line, has_data } => {
                let event = (std::mem::take(&mut name), std::mem::take(&mut data));
                if has_data {
                    seen.events.push(event);
                } else {
                    seen.empty += u32::from(data_line);
                }
            }
        };
        for cut in cuts {
            while at < cut {
                let (taken, item) = sse.next(&stream[at..cut]).expect("no limit reached");
                at += taken;
                if let Some(item) = item {
                    take(item, &mut seen);
                }
            }
        }
        if let Some(item) = sse.finish() {
            seen.tail = true;
            take(item, &mut seen);
        }
        seen
    }

    fn data(stream: &str) -> Vec<String> {
        read(stream.as_bytes(), &[]).events.into_iter().map(|(_, d)| String::from_utf8_lossy(&d).into_owned()).collect()
    }

    #[test]
    fn every_line_ending() {
        for eol in ["\n", "\r", "\r\n"] {
            let stream = format!("data: a{eol}data: b{eol}{eol}data:c{eol}{eol}");
            assert_eq!(data(&stream), ["a\nb", "c"], "{eol:?}");
        }
        assert_eq!(data("data: a\r\ndata: b\n\rdata: c\r\r"), ["a\nb", "c"]);
    }

    #[test]
    fn a_bare_cr_dispatches_at_the_cr() {
        let mut sse = Sse::default();
        let stream = b"data: a\r\r";
        let mut at = 0;
        let mut last = None;
        while at < stream.len() {
            let (taken, item) = sse.next(&stream[at..]).expect("short");
            at += taken;
            last = item.or(last);
        }
        assert_eq!(last, Some(Item::Blank { data_line: true, has_data: true }));
        assert_eq!(sse.next(b"\n"), Ok((1, None)), "the LF after it is swallowed");
    }

    #[test]
    fn values_and_names() {
        assert_eq!(data("data:  two spaces\n\n"), [" two spaces"]);
        assert_eq!(data("data\ndata\n\n"), ["\n"], "two empty lines joined");
        assert_eq!(data("data: x: y\nevent: m\nid: 1\nretry: 5\nweird: z\ndatax: no\ndat: no\n\n"), ["x: y"]);
        assert_eq!(data("retry: 3000\n\nid: 7\n\n"), Vec::<String>::new());
        let seen = read(b": ping\n\n:\n\ndata:\n\nevent: error\n\n", &[]);
        assert_eq!((seen.comments, seen.empty, seen.events.len()), (2, 1, 0));
        assert_eq!(read(b"error: {\"m\":1}\n\n", &[]).errors, [b"{\"m\":1}".to_vec()]);
        assert_eq!(read(b"error:\n\n", &[]).errors, [b"".to_vec()]);
    }

    #[test]
    fn byte_order_mark_only_at_the_start() {
        assert_eq!(data("\u{feff}data: a\n\ndata: \u{feff}b\n\n\u{feff}data: c\n\n"), ["a", "\u{feff}b"]);
        assert_eq!(read(b"\xEF\xBBdata: a\n\n", &[]).events.len(), 0, "half a mark makes an unknown field");
    }

    #[test]
    fn an_unterminated_tail_is_told_apart() {
        assert_eq!(read(b"data: a\n\ndata: [DONE]", &[]).events.len(), 2);
        assert!(read(b"data: a\n\ndata: [DONE]", &[]).tail);
        assert!(!read(b"data: a\n\n", &[]).tail);
        assert!(!read(b"data: a\n\nid: 5\n", &[]).tail);
    }

    #[test]
    fn lines_up_to_the_limit() {
        let mut sse = Sse::default();
        let block = vec![b'x'; 1 << 20];
        sse.next(b"data:").expect("name");
        let mut took = 0u64;
        let error = loop {
            match sse.next(&block) {
                Ok((n, _)) => took += n as u64,
                Err(e) => break e,
            }
        };
        assert_eq!((error, took >= 15 << 20), (SseError::TooLong, true));
    }

    proptest! {
        #[test]
        fn any_stream_cut_anywhere_gives_the_same_events(
            stream in proptest::collection::vec(prop_oneof![
                Just(b"data: ".to_vec()), Just(b"data".to_vec()), Just(b"event:".to_vec()), Just(b"error: ".to_vec()),
                Just(b"\r".to_vec()), Just(b"\n".to_vec()), Just(b"\n\n".to_vec()), Just(b"\r\n".to_vec()),
                Just(b": c".to_vec()), Just(b"\xEF\xBB\xBF".to_vec()), Just(b" ".to_vec()),
                proptest::collection::vec(any::<u8>(), 0..6),
            ], 0..24).prop_map(|parts| parts.concat()),
            cuts in proptest::collection::vec(any::<usize>(), 0..10),
        ) {
            prop_assert_eq!(read(&stream, &cuts), read(&stream, &[]));
            let every: Vec<usize> = (0..stream.len()).collect();
            prop_assert_eq!(read(&stream, &every), read(&stream, &[]));
        }
    }
}
