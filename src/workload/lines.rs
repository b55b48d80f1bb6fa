//! Files that people bring, read once from front to back: bounded, digested, and refused in words that name file and line.

use super::hex;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use thiserror::Error;

/// Longest line, and longest piece of a JSON list, in bytes: memory of a reader does not grow beyond it.
pub const MAX_LINE_BYTES: usize = 64 << 20;

/// A file that requests cannot be made from.
#[derive(Debug, Error)]
pub enum BadFile {
    /// As a whole.
    #[error("{file}: {text}")]
    Whole {
        /// Its path.
        file: String,
        /// What is wrong, and what to do.
        text: String,
    },
    /// In one place.
    #[error("{file}:{line}: {text}")]
    Line {
        /// Its path.
        file: String,
        /// Line, from 1.
        line: u64,
        /// What is wrong, and what to do.
        text: String,
    },
}

impl BadFile {
    /// Of the whole file.
    pub(super) fn whole(path: &Path, text: impl Into<String>) -> Self {
        BadFile::Whole { file: path.display().to_string(), text: text.into() }
    }

    /// Of a line of it.
    pub(super) fn line(path: &Path, line: u64, text: impl Into<String>) -> Self {
        BadFile::Line { file: path.display().to_string(), line, text: text.into() }
    }
}

impl From<BadFile> for io::Error {
    fn from(bad: BadFile) -> Self {
        io::Error::other(bad.to_string())
    }
}

/// Opens a file that is read more than once.
///
/// # Errors
/// It is missing, a directory, a pipe, or empty.
pub(super) fn open(path: &Path) -> Result<File, BadFile> {
    let told = |e: io::Error| BadFile::whole(path, format!("cannot be read: {e}"));
    // asked before opening: a pipe would wait for its writer
    let facts = fs::metadata(path).map_err(told)?;
    if facts.is_dir() {
        return Err(BadFile::whole(path, "is a directory; name a file in it"));
    }
    if !facts.is_file() {
        let text = "is no regular file, but is read again in every window; write what it gives into a file first";
        return Err(BadFile::whole(path, text));
    }
    if facts.len() == 0 {
        return Err(BadFile::whole(path, "is empty"));
    }
    File::open(path).map_err(told)
}

/// Passes bytes on, and digests them.
pub(super) struct Digesting<R> {
    source: R,
    digest: Sha256,
}

impl<R: Read> Digesting<R> {
    /// `source` as it will be read, buffered.
    pub(super) fn buffered(source: R) -> BufReader<Self> {
        BufReader::with_capacity(1 << 18, Digesting { source, digest: Sha256::new() })
    }

    /// SHA-256 of everything that was read, hex.
    pub(super) fn finish(self) -> String {
        hex(&self.digest.finalize())
    }
}

impl<R: Read> Read for Digesting<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.source.read(into)?;
        self.digest.update(&into[..n]);
        Ok(n)
    }
}

/// Skips a UTF-8 mark at the start and refuses those of other encodings. Gives the number of bytes skipped.
pub(super) fn skip_mark(source: &mut impl BufRead, path: &Path) -> Result<u64, BadFile> {
    let start = source.fill_buf().map_err(|e| BadFile::whole(path, format!("cannot be read: {e}")))?;
    if start.starts_with(&[0xff, 0xfe]) || start.starts_with(&[0xfe, 0xff]) {
        return Err(BadFile::whole(path, "is UTF-16; convert it: iconv -f UTF-16 -t UTF-8"));
    }
    let mark = if start.starts_with(&[0xef, 0xbb, 0xbf]) { 3 } else { 0 };
    source.consume(mark);
    Ok(mark as u64)
}

/// The lines of a text file.
pub(super) struct Lines<'a, R> {
    source: R,
    path: &'a Path,
    number: u64,
    offset: u64,
    line: Vec<u8>,
}

/// One of them, without its end.
pub(super) struct Line<'a> {
    /// From 1.
    pub(super) number: u64,
    /// Of its first byte in the file.
    pub(super) offset: u64,
    /// What it says.
    pub(super) text: &'a str,
}

impl<'a, R: BufRead> Lines<'a, R> {
    /// From the start of `source`.
    pub(super) fn new(mut source: R, path: &'a Path) -> Result<Self, BadFile> {
        let offset = skip_mark(&mut source, path)?;
        Ok(Lines { source, path, number: 0, offset, line: Vec::new() })
    }

    /// The next line; None: the file is at its end.
    ///
    /// # Errors
    /// A line that is too long or no UTF-8.
    pub(super) fn next(&mut self) -> Result<Option<Line<'_>>, BadFile> {
        self.offset += self.line.len() as u64;
        self.line.clear();
        self.number += 1;
        let bad = |text: String| BadFile::line(self.path, self.number, text);
        let most = MAX_LINE_BYTES as u64 + 1;
        let read = (&mut self.source).take(most).read_until(b'\n', &mut self.line);
        if read.map_err(|e| bad(format!("cannot be read: {e}")))? == 0 {
            return Ok(None);
        }
        if self.line.len() as u64 == most {
            return Err(bad(format!("has more than {MAX_LINE_BYTES} bytes, the most a line may have")));
        }
        if self.line.contains(&0) {
            let text = "has zero bytes and is no text; if it is UTF-16, convert it: iconv -f UTF-16 -t UTF-8";
            return Err(bad(text.to_owned()));
        }
        let text = std::str::from_utf8(&self.line).map_err(|e| bad(format!("is not UTF-8: {e}")))?;
        let text = text.strip_suffix('\n').unwrap_or(text);
        Ok(Some(Line { number: self.number, offset: self.offset, text: text.strip_suffix('\r').unwrap_or(text) }))
    }

    /// What was read from.
    pub(super) fn into_source(self) -> R {
        self.source
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(bytes: &[u8]) -> Result<Vec<(u64, u64, String)>, BadFile> {
        let path = Path::new("f");
        let mut lines = Lines::new(bytes, path)?;
        let mut found = Vec::new();
        while let Some(line) = lines.next()? {
            found.push((line.number, line.offset, line.text.to_owned()));
        }
        Ok(found)
    }

    #[test]
    fn numbers_offsets_and_ends_of_lines() {
        let line = |number, offset, text: &str| (number, offset, text.to_owned());
        let found = all(b"\xef\xbb\xbfa\r\n\nlast").expect("text");
        assert_eq!(found, [line(1, 3, "a"), line(2, 6, ""), line(3, 7, "last")]);
    }

    #[test]
    fn what_is_no_text_is_refused_in_words() {
        let said = |bytes: &[u8]| all(bytes).expect_err("refused").to_string();
        assert!(said(b"\xff\xfea\0").starts_with("f: is UTF-16"), "{}", said(b"\xff\xfea\0"));
        assert!(said(b"x\na\0b\0").starts_with("f:2: has zero bytes"));
        assert!(said(b"x\n\xc3\x28").starts_with("f:2: is not UTF-8"));
        let endless = BufReader::new(io::repeat(b'x'));
        let mut lines = Lines::new(endless, Path::new("f")).expect("no mark");
        assert!(lines.next().map(|_| ()).expect_err("refused").to_string().starts_with("f:1: has more than"));
    }

    #[test]
    fn what_is_no_file_is_refused_in_words() {
        let said = |path: &str| open(Path::new(path)).expect_err("refused").to_string();
        assert!(said("/").contains("is a directory"), "{}", said("/"));
        assert!(said("/dev/zero").contains("no regular file"));
        assert!(said("/nowhere/x").contains("cannot be read"));
        let empty = tempfile::NamedTempFile::new().expect("file");
        assert!(open(empty.path()).expect_err("refused").to_string().ends_with("is empty"));
    }

    proptest! {
        #[test]
        fn every_text_comes_back(texts in proptest::collection::vec("[^\n\r\0]{0,20}", 1..9)) {
            let whole = texts.join("\n") + "\n";
            prop_assume!(!whole.starts_with('\u{feff}'));
            let found = all(whole.as_bytes()).expect("text");
            let same: Vec<&str> = found.iter().map(|(_, _, text)| text.as_str()).collect();
            prop_assert_eq!(&same, &texts);
            for (_, offset, text) in &found {
                prop_assert!(whole[*offset as usize..].starts_with(text.as_str()));
            }
        }
    }
}
