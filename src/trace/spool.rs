//! The arrivals of a trace in an unnamed file: written once, read again by every window.
//!
//! A record is its length (u32), then its time, prompt and output length (u64 each), its class (u16 and bytes), what is
//! given of its prompt (one byte for the kind) and that. All numbers are little-endian.

use super::row::Given;
use serde_json::Value;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Read and written at a time, in bytes.
const BUFFER: usize = 256 * 1024;
const TIME_BYTES: usize = 8;

/// An arrival as it will be asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// From the first arrival, in ns of the trace's own time.
    pub at_ns: u64,
    /// Its kind.
    pub class: String,
    /// Prompt length in tokens.
    pub prompt_tokens: u64,
    /// Output length in tokens.
    pub output_tokens: u64,
    /// What is given of its prompt.
    pub given: Given,
}

/// A spool being written.
#[derive(Debug)]
pub struct Writer {
    out: BufWriter<File>,
    record: Vec<u8>,
    records: u64,
    largest: u64,
}

/// A spool, ready to be read any number of times, by several at once.
#[derive(Debug)]
pub struct Spool {
    file: File,
    records: u64,
    largest: u64,
}

impl Writer {
    /// Into an empty file, which nobody else writes.
    pub fn new(file: File) -> Writer {
        Writer { out: BufWriter::with_capacity(BUFFER, file), record: Vec::new(), records: 0, largest: 0 }
    }

    /// Adds a record.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn put(&mut self, record: &Record) -> io::Result<()> {
        let bytes = &mut self.record;
        bytes.clear();
        for number in [record.at_ns, record.prompt_tokens, record.output_tokens] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        let class = record.class.as_bytes();
        let length = u16::try_from(class.len()).map_err(|_| io::Error::other("a class has more than 65,535 bytes"))?;
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(class);
        match &record.given {
            Given::Length => bytes.push(0),
            Given::Blocks(ids) => {
                bytes.push(1);
                ids.iter().for_each(|id| bytes.extend_from_slice(&id.to_le_bytes()));
            }
            Given::Text(text) => {
                bytes.push(2);
                bytes.extend_from_slice(text.as_bytes());
            }
            Given::Body(body) => {
                bytes.push(3);
                serde_json::to_writer(&mut *bytes, body)?;
            }
        }
        let length = u32::try_from(bytes.len()).map_err(|_| io::Error::other("a row has more than 4 GiB"))?;
        self.out.write_all(&length.to_le_bytes())?;
        self.out.write_all(bytes)?;
        self.records += 1;
        self.largest = self.largest.max(u64::from(length));
        Ok(())
    }

    /// No more records.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(self) -> io::Result<Spool> {
        let Writer { out, records, largest, .. } = self;
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(Spool { file, records, largest })
    }
}

impl Spool {
    /// Records in it.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Its largest record, in bytes.
    pub fn largest(&self) -> u64 {
        self.largest
    }
}

/// Reads a spool from its beginning.
#[derive(Debug)]
pub struct Reader {
    from: BufReader<From>,
    record: Vec<u8>,
}

/// A place in the file that moves for nobody else.
#[derive(Debug)]
struct From {
    spool: Arc<Spool>,
    at: u64,
}

impl Read for From {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.spool.file.read_at(buffer, self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

impl Reader {
    /// Of a spool.
    pub fn new(spool: Arc<Spool>) -> Reader {
        Reader { from: BufReader::with_capacity(BUFFER, From { spool, at: 0 }), record: Vec::new() }
    }

    /// Goes to the next record, which must be there: its time.
    ///
    /// # Errors
    /// The file cannot be read, or has not the record.
    pub fn advance(&mut self) -> io::Result<u64> {
        let mut length = [0; 4];
        self.from.read_exact(&mut length)?;
        self.record.resize(u32::from_le_bytes(length) as usize, 0);
        self.from.read_exact(&mut self.record)?;
        number(&self.record, 0)
    }

    /// The record that [`Reader::advance`] went to.
    ///
    /// # Errors
    /// It is not as it was written.
    pub fn record(&self) -> io::Result<Record> {
        let bytes = &self.record;
        let (at_ns, prompt_tokens, output_tokens) = (number(bytes, 0)?, number(bytes, 8)?, number(bytes, 16)?);
        let rest = bytes.get(3 * TIME_BYTES..).ok_or_else(broken)?;
        let (length, rest) = rest.split_first_chunk::<2>().ok_or_else(broken)?;
        let (class, rest) = rest.split_at_checked(u16::from_le_bytes(*length) as usize).ok_or_else(broken)?;
        let (kind, rest) = rest.split_first().ok_or_else(broken)?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| broken());
        let given = match kind {
            0 => Given::Length,
            1 => Given::Blocks(rest.as_chunks().0.iter().map(|id| u64::from_le_bytes(*id)).collect()),
            2 => Given::Text(text(rest)?),
            _ => match serde_json::from_slice(rest)? {
                Value::Object(body) => Given::Body(body),
                _ => return Err(broken()),
            },
        };
        Ok(Record { at_ns, class: text(class)?, prompt_tokens, output_tokens, given })
    }
}

fn number(bytes: &[u8], at: usize) -> io::Result<u64> {
    let chunk = bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or_else(broken)?;
    Ok(u64::from_le_bytes(*chunk))
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the spooled trace is not as it was written: is its disk full?")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Map, json};

    fn given() -> impl Strategy<Value = Given> {
        prop_oneof![
            Just(Given::Length),
            prop::collection::vec(any::<u64>(), 0..9).prop_map(Given::Blocks),
            ".{0,30}".prop_map(Given::Text),
            ("[a-z]{1,5}", ".{0,9}").prop_map(|(k, v)| Given::Body(Map::from_iter([(k, json!(v))]))),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_by_each_reader(
            written in prop::collection::vec((any::<[u64; 3]>(), ".{0,9}", given()), 0..20)
        ) {
            let mut writer = Writer::new(tempfile::tempfile().expect("a file"));
            let records: Vec<Record> = written
                .into_iter()
                .map(|([at_ns, prompt_tokens, output_tokens], class, given)| {
                    Record { at_ns, class, prompt_tokens, output_tokens, given }
                })
                .collect();
            records.iter().for_each(|record| writer.put(record).expect("written"));
            let spool = Arc::new(writer.finish().expect("written"));
            prop_assert_eq!(spool.records(), records.len() as u64);
            let mut readers = [Reader::new(spool.clone()), Reader::new(spool.clone())];
            for record in &records {
                for reader in &mut readers {
                    prop_assert_eq!(reader.advance().expect("there"), record.at_ns);
                    prop_assert_eq!(&reader.record().expect("whole"), record);
                }
            }
            prop_assert!(readers[0].advance().is_err(), "there are no more");
        }
    }
}
