//! Numbers kept in few bytes while rows go by: a window of a long run has ten million of them, and most are small or close
//! to the one before.

use std::marker::PhantomData;

use crate::analysis::percentiles::Sample;

/// Largest chunk, in bytes.
const CHUNK: usize = 1 << 20;
/// First chunk: most columns of most windows are short.
const FIRST_CHUNK: usize = 64;
/// Bytes of the longest number.
const LONGEST: usize = 10;

/// Numbers one after another, in as many bytes as each needs (LEB128, signs folded in). It grows by chunks, so that
/// nothing is copied and no half of it is empty.
#[derive(Debug, Default)]
pub(in crate::analysis) struct Packed {
    chunks: Vec<Vec<u8>>,
}

impl Packed {
    pub(in crate::analysis) fn put(&mut self, number: i64) {
        self.put_natural((number.cast_unsigned() << 1) ^ (number >> 63).cast_unsigned());
    }

    pub(in crate::analysis) fn put_natural(&mut self, mut number: u64) {
        let chunk = self.chunk();
        while number >= 0x80 {
            chunk.push(number as u8 | 0x80);
            number >>= 7;
        }
        chunk.push(number as u8);
    }

    fn put_float(&mut self, number: f64) {
        self.chunk().extend(number.to_le_bytes());
    }

    /// One with room for a number.
    fn chunk(&mut self) -> &mut Vec<u8> {
        let full = self.chunks.last().is_none_or(|chunk| chunk.capacity() - chunk.len() < LONGEST);
        if full {
            let size = self.chunks.last().map_or(FIRST_CHUNK, |last| (last.capacity() * 2).min(CHUNK));
            self.chunks.push(Vec::with_capacity(size));
        }
        self.chunks.last_mut().expect("one was just made sure of")
    }

    pub(in crate::analysis) fn reader(&self) -> Reader<'_> {
        Reader { chunks: self.chunks.iter(), now: &[] }
    }
}

/// Reads numbers in the order in which they were put; None at the end.
#[derive(Clone, Debug)]
pub(in crate::analysis) struct Reader<'a> {
    chunks: std::slice::Iter<'a, Vec<u8>>,
    now: &'a [u8],
}

impl Reader<'_> {
    pub(in crate::analysis) fn number(&mut self) -> Option<i64> {
        let folded = self.natural()?;
        Some((folded >> 1).cast_signed() ^ -((folded & 1).cast_signed()))
    }

    pub(in crate::analysis) fn natural(&mut self) -> Option<u64> {
        self.ready()?;
        let (mut number, mut shift) = (0, 0);
        loop {
            let (byte, rest) = self.now.split_first()?;
            self.now = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
            shift += 7;
        }
    }

    fn float(&mut self) -> Option<f64> {
        self.ready()?;
        let (bytes, rest) = self.now.split_first_chunk()?;
        self.now = rest;
        Some(f64::from_le_bytes(*bytes))
    }

    /// No number lies across two chunks.
    fn ready(&mut self) -> Option<()> {
        while self.now.is_empty() {
            self.now = self.chunks.next()?;
        }
        Some(())
    }
}

/// What a column of values is made of.
pub(in crate::analysis) trait Kept: Sample {
    fn put(self, into: &mut Packed);
    fn get(from: &mut Reader<'_>) -> Option<Self>;
}

impl Kept for i64 {
    fn put(self, into: &mut Packed) {
        into.put(self);
    }
    fn get(from: &mut Reader<'_>) -> Option<i64> {
        from.number()
    }
}

impl Kept for f64 {
    fn put(self, into: &mut Packed) {
        into.put_float(self);
    }
    fn get(from: &mut Reader<'_>) -> Option<f64> {
        from.float()
    }
}

/// Values of one kind, in the order in which they came.
#[derive(Debug)]
pub(in crate::analysis) struct Values<T> {
    packed: Packed,
    n: usize,
    kind: PhantomData<T>,
}

impl<T> Default for Values<T> {
    fn default() -> Self {
        Values { packed: Packed::default(), n: 0, kind: PhantomData }
    }
}

impl<T: Kept> Values<T> {
    pub(in crate::analysis) fn push(&mut self, value: T) {
        value.put(&mut self.packed);
        self.n += 1;
    }

    pub(in crate::analysis) fn len(&self) -> usize {
        self.n
    }

    pub(in crate::analysis) fn iter(&self) -> impl Iterator<Item = T> + '_ {
        let mut reader = self.packed.reader();
        std::iter::from_fn(move || T::get(&mut reader))
    }

    /// All of them, unpacked.
    pub(in crate::analysis) fn to_vec(&self) -> Vec<T> {
        let mut all = Vec::with_capacity(self.n);
        all.extend(self.iter());
        all
    }
}

impl<T: Kept> Extend<T> for Values<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        values.into_iter().for_each(|value| self.push(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn small_numbers_take_few_bytes() {
        let mut packed = Packed::default();
        [0, -1, 63, -64].into_iter().for_each(|n| packed.put(n));
        assert_eq!(packed.chunks.iter().map(Vec::len).sum::<usize>(), 4);
        packed.put(10_000_000);
        assert_eq!(packed.chunks.iter().map(Vec::len).sum::<usize>(), 8, "a gap of 10 ms");
    }

    proptest! {
        #[test]
        fn what_was_put_comes_back(numbers in prop::collection::vec(any::<i64>(), 0..300), floats in prop::collection::vec(any::<f64>(), 0..100)) {
            let mut packed = Packed::default();
            numbers.iter().for_each(|n| packed.put(n >> (n & 63)));
            let mut reader = packed.reader();
            for n in &numbers {
                prop_assert_eq!(reader.number(), Some(n >> (n & 63)));
            }
            prop_assert_eq!(reader.number(), None);
            let mut values: Values<f64> = Values::default();
            values.extend(floats.iter().copied());
            prop_assert_eq!(values.len(), floats.len());
            let bits = |all: Vec<f64>| all.into_iter().map(f64::to_bits).collect::<Vec<_>>();
            prop_assert_eq!(bits(values.to_vec()), bits(floats));
            let mut natural = Packed::default();
            numbers.iter().for_each(|n| natural.put_natural(n.cast_unsigned()));
            let mut reader = natural.reader();
            prop_assert!(numbers.iter().all(|n| reader.natural() == Some(n.cast_unsigned())));
        }
    }
}
