//! Body framing (RFC 9112 section 7): which bytes of a connection are payload, and where the body ends.

use super::head::Framing;
use thiserror::Error;

/// Longest chunk extension, and longest trailer section, accepted.
pub const MAX_FRAMING_BYTES: u32 = 16 * 1024;

/// Where in a body we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// So many payload bytes to come.
    Length(u64),
    /// Payload until the peer closes.
    UntilClose,
    /// Within chunked framing.
    Chunked(Chunk),
    /// The end was reached.
    Done,
}

/// Where in chunked framing we are.
#[allow(missing_docs)] // the fields are named in each variant's sentence
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunk {
    /// In a size, with so many hex digits read.
    Size { size: u64, digits: u8 },
    /// In what follows a size, up to its line end.
    Extension { size: u64, read: u32 },
    /// After the CR of a size line.
    SizeLf { size: u64 },
    /// In payload.
    Data { left: u64 },
    /// Before the CR that ends payload.
    DataCr,
    /// Before the LF that ends payload.
    DataLf,
    /// In the trailer section: bytes of the current line, and of the whole section.
    Trailer { line: u32, read: u32 },
    /// After the CR that ends a trailer line; `last` when that line was empty.
    TrailerLf { last: bool, read: u32 },
}

/// A piece of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Payload.
    Payload(&'a [u8]),
    /// Bytes of framing.
    Framing,
}

/// Framing that cannot be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BodyError {
    /// A chunk size that is no hex number, or too large.
    #[error("a chunk of the response has an unusable size")]
    BadChunkSize,
    /// Something else than CRLF after a size line or after payload.
    #[error("a chunk of the response does not end in CRLF")]
    BadChunkEnd,
    /// More extension or trailer bytes than [`MAX_FRAMING_BYTES`].
    #[error("chunk extensions or trailers of the response are longer than {MAX_FRAMING_BYTES} bytes")]
    TooMuchFraming,
}

impl Body {
    /// The start of a body.
    pub fn new(framing: Framing) -> Self {
        match framing {
            Framing::Empty | Framing::Length(0) => Body::Done,
            Framing::Length(n) => Body::Length(n),
            Framing::UntilClose => Body::UntilClose,
            Framing::Chunked => Body::Chunked(Chunk::Size { size: 0, digits: 0 }),
        }
    }

    /// Takes the next piece of `input`, which must not be empty: how many bytes, and what they are.
    /// Nothing is taken once the body is [`Body::Done`].
    ///
    /// # Errors
    /// [`BodyError`]; the connection cannot be used any further.
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Result<(usize, Piece<'a>), BodyError> {
        match self {
            Body::Done => Ok((0, Piece::Framing)),
            Body::UntilClose => Ok((input.len(), Piece::Payload(input))),
            Body::Length(left) => {
                let n = take(*left, input.len());
                *left -= n as u64;
                if *left == 0 {
                    *self = Body::Done;
                }
                Ok((n, Piece::Payload(&input[..n])))
            }
            Body::Chunked(Chunk::Data { left }) => {
                let n = take(*left, input.len());
                *left -= n as u64;
                if *left == 0 {
                    *self = Body::Chunked(Chunk::DataCr);
                }
                Ok((n, Piece::Payload(&input[..n])))
            }
            Body::Chunked(chunk) => {
                let mut taken = 0;
                while taken < input.len() {
                    taken += 1;
                    match chunk.step(input[taken - 1])? {
                        Some(next) => *chunk = next,
                        None => {
                            *self = Body::Done;
                            break;
                        }
                    }
                    if matches!(chunk, Chunk::Data { .. }) {
                        break;
                    }
                }
                Ok((taken, Piece::Framing))
            }
        }
    }

    /// Whether the peer may close now without breaking the body off.
    pub fn may_end(&self) -> bool {
        matches!(self, Body::Done | Body::UntilClose)
    }
}

fn take(left: u64, available: usize) -> usize {
    usize::try_from(left).unwrap_or(usize::MAX).min(available)
}

impl Chunk {
    /// One byte of framing; None at the end of the body.
    fn step(self, byte: u8) -> Result<Option<Chunk>, BodyError> {
        let next = match (self, byte) {
            (Chunk::Size { size, digits }, b) if b.is_ascii_hexdigit() => {
                if size >> 60 != 0 || digits == u8::MAX {
                    return Err(BodyError::BadChunkSize);
                }
                let digit = u64::from((b as char).to_digit(16).unwrap_or(0));
                Chunk::Size { size: size << 4 | digit, digits: digits + 1 }
            }
            (Chunk::Size { digits: 0, .. }, _) => return Err(BodyError::BadChunkSize),
            (Chunk::Size { size, .. } | Chunk::Extension { size, .. }, b'\r') => Chunk::SizeLf { size },
            (Chunk::Size { size, .. }, b';' | b' ' | b'\t') => Chunk::Extension { size, read: 1 },
            (Chunk::Size { .. }, _) => return Err(BodyError::BadChunkSize),
            (Chunk::Extension { .. }, b'\n') => return Err(BodyError::BadChunkEnd),
            (Chunk::Extension { size, read }, _) => Chunk::Extension { size, read: bounded(read)? },
            (Chunk::SizeLf { size: 0 }, b'\n') => Chunk::Trailer { line: 0, read: 0 },
            (Chunk::SizeLf { size }, b'\n') => Chunk::Data { left: size },
            (Chunk::DataCr, b'\r') => Chunk::DataLf,
            (Chunk::DataLf, b'\n') => Chunk::Size { size: 0, digits: 0 },
            (Chunk::Trailer { line, read }, b'\r') => Chunk::TrailerLf { last: line == 0, read: bounded(read)? },
            (Chunk::Trailer { line: 0, .. }, b'\n') => return Ok(None),
            (Chunk::Trailer { read, .. }, b'\n') => Chunk::Trailer { line: 0, read: bounded(read)? },
            (Chunk::Trailer { line, read }, _) => Chunk::Trailer { line: line + 1, read: bounded(read)? },
            (Chunk::TrailerLf { last: true, .. }, b'\n') => return Ok(None),
            (Chunk::TrailerLf { last: false, read }, b'\n') => Chunk::Trailer { line: 0, read },
            (Chunk::SizeLf { .. } | Chunk::DataCr | Chunk::DataLf | Chunk::TrailerLf { .. }, _) => {
                return Err(BodyError::BadChunkEnd);
            }
            (Chunk::Data { .. }, _) => unreachable!("payload is taken in whole pieces, not byte by byte"),
        };
        Ok(Some(next))
    }
}

fn bounded(read: u32) -> Result<u32, BodyError> {
    if read >= MAX_FRAMING_BYTES { Err(BodyError::TooMuchFraming) } else { Ok(read + 1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Feeds `wire` cut at `cuts`: the payload, and what was left over after the end.
    fn decode(framing: Framing, wire: &[u8], cuts: &[usize]) -> Result<(Vec<u8>, Body, usize), BodyError> {
        let mut cuts: Vec<usize> = cuts.iter().map(|c| c % (wire.len() + 1)).chain([wire.len()]).collect();
        cuts.sort_unstable();
        let (mut body, mut payload, mut at) = (Body::new(framing), Vec::new(), 0);
        for cut in cuts {
            while at < cut && body != Body::Done {
                let (taken, piece) = body.next(&wire[at..cut])?;
                assert!(taken > 0, "progress");
                at += taken;
                if let Piece::Payload(bytes) = piece {
                    payload.extend_from_slice(bytes);
                }
            }
        }
        Ok((payload, body, wire.len() - at))
    }

    #[test]
    fn chunked_with_extensions_and_trailers() {
        let wire = b"0003;a=\"b\"\r\nabc\r\n2 \r\nde\r\n0\r\nX-T: 1\r\nY: 2\r\n\r\nNEXT";
        assert_eq!(decode(Framing::Chunked, wire, &[]), Ok((b"abcde".to_vec(), Body::Done, 4)));
    }

    #[test]
    fn the_next_reply_is_not_eaten() {
        assert_eq!(decode(Framing::Length(2), b"okHTTP/1.1", &[]), Ok((b"ok".to_vec(), Body::Done, 8)));
        assert_eq!(decode(Framing::Empty, b"HTTP/1.1", &[]), Ok((vec![], Body::Done, 8)));
    }

    #[test]
    fn broken_framing_is_named() {
        let cases: [(&[u8], BodyError); 7] = [
            (b"\r\n", BodyError::BadChunkSize),
            (b"xyz\r\n", BodyError::BadChunkSize),
            (b"-1\r\n", BodyError::BadChunkSize),
            (b"11111111111111111\r\n", BodyError::BadChunkSize),
            (b"1\r\nab\r\n", BodyError::BadChunkEnd),
            (b"1\rX", BodyError::BadChunkEnd),
            (b"1;a\nb", BodyError::BadChunkEnd),
        ];
        for (wire, error) in cases {
            assert_eq!(decode(Framing::Chunked, wire, &[]), Err(error), "{}", wire.escape_ascii());
        }
        let long = [b"1;".to_vec(), vec![b'x'; 20_000]].concat();
        assert_eq!(decode(Framing::Chunked, &long, &[]), Err(BodyError::TooMuchFraming));
        let endless = [b"0\r\n".to_vec(), b"a: b\r\n".repeat(4_000)].concat();
        assert_eq!(decode(Framing::Chunked, &endless, &[]), Err(BodyError::TooMuchFraming));
    }

    #[test]
    fn only_some_bodies_may_end_with_the_connection() {
        assert!(Body::new(Framing::UntilClose).may_end());
        assert!(Body::new(Framing::Empty).may_end());
        assert!(!Body::new(Framing::Length(3)).may_end());
        assert!(!Body::new(Framing::Chunked).may_end());
    }

    proptest! {
        #[test]
        fn any_payload_in_any_chunks_cut_anywhere_comes_back(
            payload in proptest::collection::vec(any::<u8>(), 0..200),
            sizes in proptest::collection::vec(1usize..40, 1..20),
            cuts in proptest::collection::vec(any::<usize>(), 0..8),
        ) {
            let (mut wire, mut rest, mut sizes) = (Vec::new(), &payload[..], sizes.into_iter().cycle());
            while !rest.is_empty() {
                let (now, later) = rest.split_at(sizes.next().unwrap_or(1).min(rest.len()));
                wire.extend(format!("{:X}\r\n", now.len()).bytes());
                wire.extend_from_slice(now);
                wire.extend(b"\r\n");
                rest = later;
            }
            wire.extend(b"0\r\n\r\n");
            prop_assert_eq!(decode(Framing::Chunked, &wire, &cuts), Ok((payload, Body::Done, 0)));
        }

        #[test]
        fn arbitrary_bytes_never_panic_and_cuts_never_matter(
            wire in proptest::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'0'), Just(b'3'), any::<u8>()], 0..60),
            cuts in proptest::collection::vec(any::<usize>(), 0..8),
        ) {
            prop_assert_eq!(decode(Framing::Chunked, &wire, &cuts), decode(Framing::Chunked, &wire, &[]));
        }
    }
}
