//! The pool the kernel receives into: fixed buffers, provided by `IORING_OP_PROVIDE_BUFFERS`, given back as
//! soon as a completion was handled.
//!
//! Not the newer buffer *ring* (`io_uring_register_buf_ring(3)`): there a buffer is only peeked at when it is
//! selected and taken when the receive completes. On Linux 6.18, under multishot `recvmsg` from many sockets,
//! a completion now and then named a buffer that another completion of the same enter named too, so that one
//! reply's bytes were overwritten by another's (seen about once in 200,000 reads). A provided buffer
//! leaves the kernel's list when it is selected, so that cannot happen; it costs one entry per run of
//! buffers given back.

use io_uring::{opcode, squeue};

/// Size of one buffer. Small enough that a backlog is not swallowed under one stamp, large enough for a
/// message header, its control data, and some twenty token events.
pub const BUFFER_BYTES: usize = 4096;

/// The buffers of one io_uring.
pub struct Buffers {
    group: u16,
    count: u16,
    memory: Box<[u8]>,
    /// Handled, and not yet given back.
    handled: Vec<u16>,
    #[cfg(debug_assertions)]
    with_kernel: Vec<bool>,
}

impl Buffers {
    /// `count` buffers as group `group`, all waiting to be given to the kernel.
    pub fn new(group: u16, count: u16) -> Self {
        Buffers {
            group,
            count,
            memory: vec![0; usize::from(count) * BUFFER_BYTES].into_boxed_slice(),
            handled: (0..count).collect(),
            #[cfg(debug_assertions)]
            with_kernel: vec![false; usize::from(count)],
        }
    }

    /// Bytes of memory held for receiving.
    pub fn pool_bytes(&self) -> usize {
        self.memory.len()
    }

    /// Buffer `id`, which a completion has just named: the kernel does not touch it until it is given back.
    pub fn get(&self, id: u16) -> &[u8] {
        let start = usize::from(id) * BUFFER_BYTES;
        &self.memory[start..start + BUFFER_BYTES]
    }

    /// Buffer `id` was handled.
    pub fn give(&mut self, id: u16) {
        assert!(id < self.count, "the kernel names only buffers we gave it");
        #[cfg(debug_assertions)]
        assert!(std::mem::replace(&mut self.with_kernel[usize::from(id)], false), "a buffer is named once");
        self.handled.push(id);
    }

    /// The next run of handled buffers, as an entry that gives them back without a completion.
    pub fn take_back(&mut self) -> Option<squeue::Entry> {
        let first = *self.handled.first()?;
        let run = self.handled.iter().zip(first..).take_while(|(id, next)| **id == *next).count();
        self.handled.drain(..run);
        #[cfg(debug_assertions)]
        self.with_kernel[usize::from(first)..usize::from(first) + run].fill(true);
        let start = self.memory[usize::from(first) * BUFFER_BYTES..].as_mut_ptr();
        let entry = opcode::ProvideBuffers::new(start, BUFFER_BYTES as i32, run as u16, self.group, first).build();
        Some(entry.flags(squeue::Flags::SKIP_SUCCESS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_go_back_in_runs() {
        let mut buffers = Buffers::new(0, 8);
        let mut entries = 0;
        while buffers.take_back().is_some() {
            entries += 1;
        }
        assert_eq!(entries, 1, "all of them at the start");
        for id in [3, 4, 5, 0, 7] {
            buffers.give(id);
        }
        let runs: Vec<bool> = (0..4).map(|_| buffers.take_back().is_some()).collect();
        assert_eq!(runs, [true, true, true, false]);
    }
}
