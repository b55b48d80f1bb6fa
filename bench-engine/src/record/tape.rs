//! The tape of a reply: notes of what came when, written on a worker into fixed blocks and read elsewhere.

use crate::units::{Instant, WallInstant};
use std::fmt;
use thiserror::Error;

/// Size of a block of tape.
pub const BLOCK_BYTES: usize = 4096;

/// A fixed piece of tape, filled on a worker and read elsewhere.
pub struct Block {
    bytes: Box<[u8; BLOCK_BYTES]>,
    len: usize,
}

impl Default for Block {
    fn default() -> Self {
        Block { bytes: Box::new([0; BLOCK_BYTES]), len: 0 }
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block({} of {BLOCK_BYTES} bytes)", self.len)
    }
}

impl Block {
    /// What was written.
    pub fn filled(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Empties it for the next use.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    fn room(&self) -> usize {
        BLOCK_BYTES - self.len
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

/// When a read came, as the driver stamped it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ReadStamp {
    /// The enter that brought it returned.
    pub seen: Instant,
    /// Kernel RX stamp of its last segment; None when the kernel gave none.
    pub wall: Option<WallInstant>,
    /// Kernel RX stamp of the read before it on this socket.
    pub previous_wall: Option<WallInstant>,
    /// Start of the last enter known to have left the socket empty.
    pub emptied: Instant,
    /// Completion batch of the worker.
    pub batch: u64,
    /// Place in that batch, from 0.
    pub pos: u32,
    /// Read of this request, from 0; pieces of one write keep its number.
    pub read_no: u32,
    /// The read filled its buffer, so that its stamp may be that of bytes still to come; or over TLS, bytes that tell nothing
    /// yet came behind those that do.
    pub filled: bool,
}

/// One entry of a tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note<'a> {
    /// A read began; what follows came with it.
    Read(ReadStamp),
    /// Bytes of a response head.
    Head(&'a [u8]),
    /// The head is complete.
    HeadEnd,
    /// Bytes of the current event's data.
    Data(&'a [u8]),
    /// Bytes of the current event's name.
    EventName(&'a [u8]),
    /// Bytes of a field named `error`.
    ErrorField(&'a [u8]),
    /// The current event was dispatched.
    Event(Dispatch),
    /// A comment, or an event with nothing in its data.
    KeepAlive,
    /// Payload followed the last dispatch in the current read.
    Trailing,
    /// Bytes of a body that is no event stream.
    Body(&'a [u8]),
    /// The body ended in the current read.
    BodyEnd,
}

/// How an event was dispatched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// By its blank line.
    Whole,
    /// By the end of the body.
    Unterminated,
    /// By its blank line, and its data are `[DONE]`.
    Done,
    /// By the end of the body, and its data are `[DONE]`.
    UnterminatedDone,
    /// By its blank line, without data: a name or an error field stood alone.
    Bare,
}

const READ_BYTES: usize = 8 * 6 + 4 * 2 + 1;

/// Where full blocks go, and empty ones come from.
pub trait Blocks {
    /// An empty block; None when the pool is used up.
    fn take(&mut self) -> Option<Block>;
    /// A full block of the tape being written.
    fn full(&mut self, block: Block);
}

/// The pool of blocks is used up: the readers have fallen behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no free block to record the reply in")]
pub struct NoBlock;

/// The writing end of a tape.
#[derive(Debug, Default)]
pub struct Tape {
    block: Option<Block>,
}

impl Tape {
    /// Appends a note.
    ///
    /// # Errors
    /// [`NoBlock`]: the note, or the rest of its bytes, is lost.
    pub fn write(&mut self, note: Note<'_>, blocks: &mut impl Blocks) -> Result<(), NoBlock> {
        match note {
            Note::Read(stamp) => {
                let mut bytes = [0; 1 + READ_BYTES];
                encode_read(&stamp, &mut bytes);
                self.room(bytes.len(), blocks)?.put(&bytes);
            }
            Note::Head(bytes) => self.write_bytes(2, bytes, blocks)?,
            Note::Data(bytes) => self.write_bytes(3, bytes, blocks)?,
            Note::EventName(bytes) => self.write_bytes(4, bytes, blocks)?,
            Note::ErrorField(bytes) => self.write_bytes(5, bytes, blocks)?,
            Note::Body(bytes) => self.write_bytes(6, bytes, blocks)?,
            Note::HeadEnd => self.room(1, blocks)?.put(&[7]),
            Note::KeepAlive => self.room(1, blocks)?.put(&[8]),
            Note::Trailing => self.room(1, blocks)?.put(&[9]),
            Note::BodyEnd => self.room(1, blocks)?.put(&[10]),
            Note::Event(how) => self.room(1, blocks)?.put(&[11 + how as u8]),
        }
        Ok(())
    }

    /// Gives the last block away and starts anew.
    pub fn cut(&mut self) -> Option<Block> {
        self.block.take()
    }

    fn write_bytes(&mut self, tag: u8, mut bytes: &[u8], blocks: &mut impl Blocks) -> Result<(), NoBlock> {
        // an empty piece is still written: that a field named `error` was there is the news
        loop {
            let block = self.room(4, blocks)?;
            let n = bytes.len().min(block.room() - 3);
            let [lo, hi] = (n as u16).to_le_bytes();
            block.put(&[tag, lo, hi]);
            block.put(&bytes[..n]);
            bytes = &bytes[n..];
            if bytes.is_empty() {
                return Ok(());
            }
        }
    }

    fn room(&mut self, bytes: usize, blocks: &mut impl Blocks) -> Result<&mut Block, NoBlock> {
        if self.block.as_ref().is_some_and(|b| b.room() < bytes) {
            self.block.take().into_iter().for_each(|full| blocks.full(full));
        }
        if self.block.is_none() {
            self.block = Some(blocks.take().ok_or(NoBlock)?);
        }
        self.block.as_mut().ok_or(NoBlock)
    }
}

fn encode_read(stamp: &ReadStamp, out: &mut [u8; 1 + READ_BYTES]) {
    out[0] = 1;
    let words = [
        stamp.seen.ns(),
        stamp.wall.map_or(0, WallInstant::ns),
        stamp.previous_wall.map_or(0, WallInstant::ns),
        stamp.emptied.ns(),
        stamp.batch,
        u64::from(stamp.pos) << 32 | u64::from(stamp.read_no),
    ];
    for (place, word) in out[1..].chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    out[49] = u8::from(stamp.filled);
}

fn decode_read(bytes: &[u8]) -> ReadStamp {
    let word = |i: usize| {
        let mut b = [0; 8];
        b.copy_from_slice(&bytes[i * 8..i * 8 + 8]);
        u64::from_le_bytes(b)
    };
    let wall = |ns: u64| (ns != 0).then_some(WallInstant::from_ns(ns));
    ReadStamp {
        seen: Instant::from_ns(word(0)),
        wall: wall(word(1)),
        previous_wall: wall(word(2)),
        emptied: Instant::from_ns(word(3)),
        batch: word(4),
        pos: (word(5) >> 32) as u32,
        read_no: word(5) as u32,
        filled: bytes[48] != 0,
    }
}

/// The notes of one block. Blocks hold whole notes.
pub fn notes(mut bytes: &[u8]) -> impl Iterator<Item = Note<'_>> {
    std::iter::from_fn(move || {
        let (&tag, rest) = bytes.split_first()?;
        let split = |at: usize| rest.split_at(at);
        let piece = || {
            let n = usize::from(u16::from_le_bytes([rest[0], rest[1]]));
            (&rest[2..2 + n], &rest[2 + n..])
        };
        let (note, rest) = match tag {
            1 => {
                let (read, rest) = split(READ_BYTES);
                (Note::Read(decode_read(read)), rest)
            }
            2..=6 => {
                let (piece, rest) = piece();
                let note = match tag {
                    2 => Note::Head(piece),
                    3 => Note::Data(piece),
                    4 => Note::EventName(piece),
                    5 => Note::ErrorField(piece),
                    _ => Note::Body(piece),
                };
                (note, rest)
            }
            7 => (Note::HeadEnd, rest),
            8 => (Note::KeepAlive, rest),
            9 => (Note::Trailing, rest),
            10 => (Note::BodyEnd, rest),
            11 => (Note::Event(Dispatch::Whole), rest),
            12 => (Note::Event(Dispatch::Unterminated), rest),
            13 => (Note::Event(Dispatch::Done), rest),
            14 => (Note::Event(Dispatch::UnterminatedDone), rest),
            15 => (Note::Event(Dispatch::Bare), rest),
            other => panic!("a tape has no note {other}: blocks are written and read by this file alone"),
        };
        bytes = rest;
        Some(note)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Heap {
        full: Vec<Block>,
        left: usize,
    }

    impl Blocks for Heap {
        fn take(&mut self) -> Option<Block> {
            self.left = self.left.checked_sub(1)?;
            Some(Block::default())
        }
        fn full(&mut self, block: Block) {
            self.full.push(block);
        }
    }

    #[test]
    fn notes_come_back_in_order_across_blocks() {
        let mut heap = Heap { left: 100, ..Heap::default() };
        let mut tape = Tape::default();
        let stamp = ReadStamp {
            seen: Instant::from_ns(7),
            wall: Some(WallInstant::from_ns(u64::MAX)),
            emptied: Instant::from_ns(5),
            batch: 1 << 40,
            pos: 3,
            read_no: 9,
            filled: true,
            ..ReadStamp::default()
        };
        let long: Vec<u8> = (0..100_000u32).map(|i| i as u8).collect();
        for _ in 0..50 {
            tape.write(Note::Read(stamp), &mut heap).expect("room");
            tape.write(Note::Data(&long[..700]), &mut heap).expect("room");
            tape.write(Note::Event(Dispatch::Done), &mut heap).expect("room");
        }
        tape.write(Note::Data(&long), &mut heap).expect("room");
        tape.write(Note::ErrorField(b""), &mut heap).expect("room");
        let mut blocks = heap.full;
        blocks.extend(tape.cut());
        let (mut data, mut reads, mut done, mut errors) = (Vec::new(), 0, 0, 0);
        for note in blocks.iter().flat_map(|b| notes(b.filled())) {
            match note {
                Note::Read(s) => {
                    assert_eq!(s, stamp);
                    reads += 1;
                }
                Note::Data(bytes) => data.extend_from_slice(bytes),
                Note::Event(Dispatch::Done) => done += 1,
                Note::ErrorField(bytes) => {
                    assert!(bytes.is_empty());
                    errors += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((reads, done, errors), (50, 50, 1));
        assert_eq!(data.len(), 50 * 700 + long.len());
        assert!(data.ends_with(&long));
    }

    #[test]
    fn an_empty_pool_is_an_error_not_a_wait() {
        let mut heap = Heap { left: 1, ..Heap::default() };
        let mut tape = Tape::default();
        assert_eq!(tape.write(Note::Data(&[0; 5000]), &mut heap), Err(NoBlock));
    }
}
