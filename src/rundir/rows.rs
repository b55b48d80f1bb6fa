//! The files that rows are written to and read from: `requests.jsonl`, then `requests.2.jsonl` and so forth, each at most
//! a given size, in one hash chain. Whoever writes or reads rows goes through here, so that nobody else needs to know
//! how many files there are.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, bail};
use thiserror::Error;

use crate::rundir::chain::Chain;
use crate::rundir::row::Row;

/// The first file of the rows of the load.
pub const REQUESTS: &str = "requests.jsonl";
/// Most bytes of a file where nothing else is asked for.
pub const PART_BYTES: u64 = 256 << 20;

/// The name of a file of rows within a run directory, or of any other file there.
pub type FileName = Cow<'static, str>;

/// The name of the `n`-th part of `first`, from 1.
pub fn part(first: &'static str, n: u32) -> FileName {
    match (n, first.strip_suffix(".jsonl")) {
        (0 | 1, _) | (_, None) => first.into(),
        (_, Some(stem)) => format!("{stem}.{n}.jsonl").into(),
    }
}

/// The number of a part by its name; None when it is none.
fn number_of(first: &str, name: &str) -> Option<u32> {
    if name == first {
        return Some(1);
    }
    let number = name.strip_prefix(first.strip_suffix(".jsonl")?)?.strip_prefix('.')?.strip_suffix(".jsonl")?;
    // "requests.02.jsonl" is no name that was ever written
    number.parse().ok().filter(|n: &u32| *n > 1 && n.to_string() == number)
}

/// Whether a file of that name is a part of `first`.
pub fn is_part(first: &str, name: &str) -> bool {
    number_of(first, name).is_some()
}

/// Numbers of the parts of `first` that are there, ascending; empty where there is no such directory.
fn there(dir: &Path, first: &str) -> Vec<u32> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    let mut numbers: Vec<u32> = entries.filter_map(|e| number_of(first, e.file_name().to_str()?)).collect();
    numbers.sort_unstable();
    numbers
}

/// The parts that are there, in order, gaps and all: for lists of files.
pub fn parts_there(dir: &Path, first: &'static str) -> Vec<FileName> {
    there(dir, first).into_iter().map(|n| part(first, n)).collect()
}

/// `names` with every part of the rows that is there, and `requests.jsonl` itself in any case, in its place.
pub fn with_parts(dir: &Path, names: &[&'static str]) -> Vec<FileName> {
    let of = |name: &&'static str| match *name {
        REQUESTS => {
            let later = there(dir, REQUESTS).into_iter().filter(|n| *n > 1).map(|n| part(REQUESTS, n));
            std::iter::once(FileName::from(REQUESTS)).chain(later).collect()
        }
        other => vec![other.into()],
    };
    names.iter().flat_map(of).collect()
}

/// What is wrong with files of rows, whatever stands in their lines.
#[derive(Debug, Error)]
pub enum PartFault {
    /// One cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Its name.
        file: FileName,
        /// Why.
        source: io::Error,
    },
    /// One is not there, and a later one is.
    #[error("{file} is missing: {later} is there")]
    Missing {
        /// Which.
        file: FileName,
        /// The later one.
        later: FileName,
    },
    /// A line that is no text.
    #[error("{place}: {text}")]
    NotText {
        /// Where.
        place: Place,
        /// Why not.
        text: String,
    },
    /// One ends in the middle of a line, and goes on in the next.
    #[error("{file}:{line}: half-written, and {later} follows")]
    Torn {
        /// Which.
        file: FileName,
        /// From 1.
        line: u64,
        /// The next one.
        later: FileName,
    },
}

/// A line of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The part.
    pub file: FileName,
    /// From 1, in that part.
    pub line: u64,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Hands on every whole line of all parts of `first`, without its end. Gives the place of a last line without its end:
/// it was being written when the run was ended.
///
/// # Errors
/// [`PartFault`], or what `take` says.
pub fn each_line<E: From<PartFault>>(
    dir: &Path,
    first: &'static str,
    take: &mut dyn FnMut(&Place, &str) -> Result<(), E>,
) -> Result<Option<Place>, E> {
    let last = there(dir, first).last().copied().unwrap_or(1);
    let mut text = Vec::new();
    for n in 1..=last {
        let mut place = Place { file: part(first, n), line: 0 };
        let path = dir.join(&*place.file);
        let unreadable = |source| PartFault::Unreadable { path: path.clone(), file: place.file.clone(), source };
        let file = File::open(&path).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound if n < last => {
                PartFault::Missing { file: place.file.clone(), later: part(first, last) }
            }
            _ => unreadable(e),
        })?;
        let mut reader = BufReader::with_capacity(1 << 20, file);
        loop {
            text.clear();
            if reader.read_until(b'\n', &mut text).map_err(unreadable)? == 0 {
                break;
            }
            place.line += 1;
            if text.pop() != Some(b'\n') {
                if n < last {
                    let Place { file, line } = place;
                    return Err(PartFault::Torn { file, line, later: part(first, n + 1) }.into());
                }
                return Ok(Some(place));
            }
            let line = std::str::from_utf8(&text)
                .map_err(|e| PartFault::NotText { place: place.clone(), text: e.to_string() })?;
            take(&place, line)?;
        }
    }
    Ok(None)
}

/// Hands on every row of a chained file and of what follows it, for what is derived beside the figures. A last line
/// without its end was being written when the run was ended.
///
/// # Errors
/// A file that cannot be read, a line that is no row or was changed.
pub fn each_row(dir: &Path, first: &'static str, mut take: impl FnMut(Row)) -> anyhow::Result<()> {
    let mut chain = Chain::default();
    each_line(dir, first, &mut |place, line| -> anyhow::Result<()> {
        let at = || format!("{}:{}", dir.join(&*place.file).display(), place.line);
        let Some(plain) = chain.open(line) else {
            bail!("{}: its h does not continue the chain: a line was changed", at());
        };
        take(serde_json::from_str(&plain).with_context(at)?);
        Ok(())
    })?;
    Ok(())
}

/// Rows on their way to the disk. A part is ended, at the end of a line, before it would become larger than asked for; one
/// line that is larger alone has a part of its own.
#[derive(Debug)]
pub struct RowFiles<'a> {
    dir: PathBuf,
    first: &'static str,
    most_bytes: u64,
    out: BufWriter<File>,
    part: u32,
    /// Where others read which part it is.
    told: Option<&'a AtomicU32>,
    bytes: u64,
    at_line_end: bool,
}

impl<'a> RowFiles<'a> {
    /// Creates the first part. `told` is set to the part that was written to last, from 1.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn create(
        dir: &Path,
        first: &'static str,
        most_bytes: u64,
        told: Option<&'a AtomicU32>,
    ) -> io::Result<RowFiles<'a>> {
        let out = buffered(File::create(dir.join(first))?);
        told.into_iter().for_each(|told| told.store(1, Ordering::Relaxed));
        Ok(RowFiles { dir: dir.to_owned(), first, most_bytes, out, part: 1, told, bytes: 0, at_line_end: true })
    }

    fn next_part(&mut self) -> io::Result<()> {
        self.out.flush()?;
        let name = part(self.first, self.part + 1);
        let file = File::create(self.dir.join(&*name)).map_err(|e| io::Error::new(e.kind(), format!("{name}: {e}")))?;
        self.out = buffered(file);
        (self.part, self.bytes) = (self.part + 1, 0);
        self.told.into_iter().for_each(|told| told.store(self.part, Ordering::Relaxed));
        Ok(())
    }
}

fn buffered(file: File) -> BufWriter<File> {
    BufWriter::with_capacity(1 << 18, file)
}

impl Write for RowFiles<'_> {
    /// A line that is handed over whole stays whole.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.at_line_end && self.bytes > 0 && self.bytes.saturating_add(bytes.len() as u64) > self.most_bytes {
            self.next_part()?;
        }
        self.out.write_all(bytes)?;
        self.bytes += bytes.len() as u64;
        self.at_line_end = bytes.last().is_none_or(|last| *last == b'\n');
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(dir: &Path) -> Result<(Vec<String>, Option<Place>), PartFault> {
        let mut found = Vec::new();
        let tail = each_line(dir, REQUESTS, &mut |_, line| -> Result<(), PartFault> {
            found.push(line.to_owned());
            Ok(())
        })?;
        Ok((found, tail))
    }

    fn write(dir: &Path, lines: &[&str], most: u64) -> u32 {
        let part = AtomicU32::new(0);
        let mut files = RowFiles::create(dir, REQUESTS, most, Some(&part)).unwrap();
        lines.iter().for_each(|line| files.write_all(format!("{line}\n").as_bytes()).unwrap());
        files.flush().unwrap();
        part.load(Ordering::Relaxed)
    }

    #[test]
    fn parts_have_names_that_sort_by_number() {
        assert_eq!([1, 2, 12].map(|n| part(REQUESTS, n)), ["requests.jsonl", "requests.2.jsonl", "requests.12.jsonl"]);
        for (name, n) in [("requests.jsonl", Some(1)), ("requests.2.jsonl", Some(2)), ("requests.10.jsonl", Some(10))] {
            assert_eq!(number_of(REQUESTS, name), n);
        }
        for other in ["requests.1.jsonl", "requests.02.jsonl", "requests.x.jsonl", "requests2.jsonl", "requests.2.json"]
        {
            assert_eq!(number_of(REQUESTS, other), None, "{other}");
        }
        let dir = tempfile::tempdir().unwrap();
        (1..12).for_each(|n| std::fs::write(dir.path().join(&*part(REQUESTS, n)), "").unwrap());
        assert_eq!(parts_there(dir.path(), REQUESTS)[9..], ["requests.10.jsonl", "requests.11.jsonl"]);
        assert_eq!(with_parts(dir.path(), &["plan.json", REQUESTS, "run.json"]).len(), 13);
    }

    #[test]
    fn a_gap_and_a_torn_part_are_named() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(write(dir.path(), &["aaaa", "bbbb", "cccc", "dddd"], 10), 2);
        assert_eq!(std::fs::read_to_string(dir.path().join("requests.2.jsonl")).unwrap(), "cccc\ndddd\n");
        std::fs::write(dir.path().join("requests.3.jsonl"), "ee").unwrap();
        let (found, tail) = lines(dir.path()).unwrap();
        assert_eq!((found.len(), tail), (4, Some(Place { file: "requests.3.jsonl".into(), line: 1 })));
        std::fs::write(dir.path().join("requests.2.jsonl"), "cccc\ndd").unwrap();
        let torn = lines(dir.path()).unwrap_err().to_string();
        assert_eq!(torn, "requests.2.jsonl:2: half-written, and requests.3.jsonl follows");
        std::fs::remove_file(dir.path().join("requests.2.jsonl")).unwrap();
        let gap = lines(dir.path()).unwrap_err().to_string();
        assert_eq!(gap, "requests.2.jsonl is missing: requests.3.jsonl is there");
        let empty = tempfile::tempdir().unwrap();
        assert!(lines(empty.path()).unwrap_err().to_string().contains("requests.jsonl"));
    }

    proptest! {
        #[test]
        fn whatever_the_size_the_lines_are_those_that_were_written(
            written in prop::collection::vec("[a-z]{0,30}", 0..60), most in 1_u64..200,
        ) {
            let dir = tempfile::tempdir().unwrap();
            let given: Vec<&str> = written.iter().map(String::as_str).collect();
            let parts = write(dir.path(), &given, most);
            let (found, tail) = lines(dir.path()).unwrap();
            prop_assert_eq!((&found, tail), (&written, None));
            prop_assert_eq!(parts_there(dir.path(), REQUESTS).len() as u32, parts);
            for name in parts_there(dir.path(), REQUESTS) {
                let text = std::fs::read_to_string(dir.path().join(&*name)).unwrap();
                prop_assert!(text.len() as u64 <= most || text.lines().count() == 1, "{} of {}", text.len(), most);
            }
        }
    }
}
