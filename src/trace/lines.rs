//! Lines of a file of somebody's, one at a time and never longer than is sensible.

use super::fault::{AtLine, Fault};
use std::io::{BufRead, Read};

/// Longest line of a table, in bytes.
pub const TABLE_LINE: usize = 64 * 1024;
/// Longest line that begins with `{`, in bytes.
pub const OBJECT_LINE: usize = 16 * 1024 * 1024;

/// Beginnings of files that are often taken for text.
const MAGIC: [(&[u8], &str); 5] = [
    (b"\x1f\x8b", "gzip: zcat FILE | tarebench run --trace -"),
    (b"\x28\xb5\x2f\xfd", "zstd: zstdcat FILE | tarebench run --trace -"),
    (b"PAR1", "Parquet: write it as CSV first"),
    (b"PK\x03\x04", "a zip archive: unzip -p FILE | tarebench run --trace -"),
    (b"BZh", "bzip2: bzcat FILE | tarebench run --trace -"),
];

/// The lines of `reader` that are not blank, without their ends.
#[derive(Debug)]
pub struct Lines<R> {
    reader: R,
    number: u64,
    line: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    /// From the beginning of a file.
    pub fn new(reader: R) -> Self {
        Lines { reader, number: 0, line: Vec::new() }
    }

    /// The next line and its number, from 1; None at the end.
    ///
    /// # Errors
    /// What the reader says; a line that is too long or no UTF-8.
    pub fn read(&mut self) -> Result<Option<(u64, &str)>, AtLine> {
        loop {
            self.line.clear();
            self.number += 1;
            if self.more(TABLE_LINE)? == 0 {
                return Ok(None);
            }
            if self.number == 1 {
                self.check_beginning()?;
            }
            if is_cut(&self.line, TABLE_LINE) {
                let is_object = self.line.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'{');
                let limit = if is_object { OBJECT_LINE } else { TABLE_LINE };
                if !self.line.ends_with(b"\n") {
                    self.more(limit)?;
                }
                if is_cut(&self.line, limit) {
                    return Err(AtLine::new(self.number, Fault::LongLine(limit)));
                }
            }
            if self.line.iter().any(|b| !b.is_ascii_whitespace()) {
                break;
            }
        }
        if self.line.contains(&0) {
            return Err(AtLine::new(self.number, Fault::Binary("it has a byte 0")));
        }
        match std::str::from_utf8(&self.line) {
            Ok(text) => Ok(Some((self.number, text.trim_end_matches(['\n', '\r'])))),
            Err(_) => Err(AtLine::new(self.number, Fault::Binary("it is not UTF-8"))),
        }
    }

    /// Reads on to the end of the line, or until one byte more than `limit` and an end are there.
    fn more(&mut self, limit: usize) -> Result<usize, AtLine> {
        let room = (limit + 2).saturating_sub(self.line.len()) as u64;
        self.reader
            .by_ref()
            .take(room)
            .read_until(b'\n', &mut self.line)
            .map_err(|e| AtLine::whole(Fault::Unreadable(e.to_string())))
    }

    fn check_beginning(&mut self) -> Result<(), AtLine> {
        if self.line.starts_with(b"\xef\xbb\xbf") {
            self.line.drain(..3);
        }
        if let Some((_, what)) = MAGIC.iter().find(|(magic, _)| self.line.starts_with(magic)) {
            return Err(AtLine::whole(Fault::Binary(what)));
        }
        let marked = self.line.starts_with(b"\xff\xfe") || self.line.starts_with(b"\xfe\xff");
        // without its mark: every other byte of plain text is zero
        let zero_at = |at: usize| self.line.len() >= 4 && self.line[at] == 0 && self.line[at + 2] == 0;
        let zeros = self.line.iter().filter(|b| **b == 0).count() * 3;
        let unmarked = (zero_at(0) || zero_at(1)) && zeros > self.line.len() && zeros < 2 * self.line.len();
        if marked || unmarked {
            return Err(AtLine::whole(Fault::Utf16));
        }
        Ok(())
    }
}

/// Longer than `limit` without its end.
fn is_cut(line: &[u8], limit: usize) -> bool {
    line.strip_suffix(b"\n").unwrap_or(line).len() > limit
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{BufReader, Cursor};

    fn all(bytes: &[u8]) -> Result<Vec<(u64, String)>, AtLine> {
        let mut lines = Lines::new(bytes);
        let mut found = Vec::new();
        while let Some((number, text)) = lines.read()? {
            found.push((number, text.to_owned()));
        }
        Ok(found)
    }

    /// So many bytes that nobody could keep them, and how many were asked for.
    struct Endless {
        begun: bool,
        first: u8,
        given: u64,
    }
    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            buffer.fill(b'x');
            if !self.begun {
                buffer[0] = self.first;
                self.begun = true;
            }
            self.given += buffer.len() as u64;
            assert!(self.given < 64 * 1024 * 1024, "it goes on reading");
            Ok(buffer.len())
        }
    }

    #[test]
    fn ends_blank_lines_and_marks() {
        let found = all(b"\xef\xbb\xbfa,b\r\n\r\n  \nc\nlast").expect("text");
        let expected: Vec<(u64, String)> = vec![(1, "a,b".into()), (4, "c".into()), (5, "last".into())];
        assert_eq!(found, expected);
        assert_eq!(all(b"").expect("nothing"), []);
        assert_eq!(all(b"\n\n").expect("nothing"), []);
    }

    #[test]
    fn a_line_without_end_is_given_up_on() {
        for (first, limit) in [(b'x', TABLE_LINE), (b'{', OBJECT_LINE)] {
            let endless = Endless { begun: false, first, given: 0 };
            let mut lines = Lines::new(BufReader::new(endless));
            assert_eq!(lines.read().expect_err("endless"), AtLine::new(1, Fault::LongLine(limit)));
            assert!(lines.line.capacity() <= 4 * limit, "{} bytes are held", lines.line.capacity());
        }
        for (bytes, fine) in [(TABLE_LINE, true), (TABLE_LINE + 1, false)] {
            for end in ["", "\n"] {
                let text = format!("{}{end}", "x".repeat(bytes));
                assert_eq!(all(text.as_bytes()).is_ok(), fine, "{bytes} and {end:?}");
            }
        }
        for bytes in [TABLE_LINE - 3, TABLE_LINE - 2, TABLE_LINE - 1, TABLE_LINE, 200_000] {
            let long_object = format!("{{{}}}\nnext", "x".repeat(bytes));
            assert_eq!(all(long_object.as_bytes()).expect("an object").len(), 2, "{bytes}");
        }
    }

    #[test]
    fn what_is_no_text_is_named() {
        let fault = |bytes: &[u8]| all(bytes).expect_err("no text").fault;
        assert_eq!(fault(b"\xff\xfeT\0I\0"), Fault::Utf16);
        assert_eq!(fault(b"\xfe\xff\0T\0I"), Fault::Utf16);
        assert_eq!(fault(b"T\0I\0M\0E\0\n\0"), Fault::Utf16);
        assert!(matches!(fault(b"\x1f\x8b\x08\0\0"), Fault::Binary(what) if what.contains("zcat")));
        assert!(matches!(fault(b"PAR1\x15\x04"), Fault::Binary(_)));
        assert!(matches!(fault(b"ok\n\xff\xff\n"), Fault::Binary("it is not UTF-8")));
        assert!(matches!(fault(b"ok\na\0b\n"), Fault::Binary("it has a byte 0")));
    }

    proptest! {
        #[test]
        fn any_bytes_give_lines_or_a_fault(bytes in prop::collection::vec(any::<u8>(), 0..400), step in 1usize..9) {
            let whole = all(&bytes);
            // however the bytes come
            let mut lines = Lines::new(BufReader::with_capacity(step, Cursor::new(&bytes)));
            let mut found = Ok(Vec::new());
            loop {
                match lines.read() {
                    Ok(Some((number, text))) => found.as_mut().expect("so far").push((number, text.to_owned())),
                    Ok(None) => break,
                    Err(fault) => {
                        found = Err(fault);
                        break;
                    }
                }
            }
            prop_assert_eq!(whole, found);
        }
    }
}
