//! The provided-buffer ring (`io_uring_register_buf_ring(3)`): fixed blocks of one pool into which the
//! kernel receives, and which go back as soon as a completion was handled.

use crate::io::READ_BYTES;
use io_uring::Submitter;
use io_uring::types::BufRingEntry;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

/// A ring of buffers, registered with one io_uring.
pub struct BufferRing {
    entries: NonNull<BufRingEntry>,
    map_bytes: usize,
    count: u16,
    tail: u16,
    buffers: Box<[u8]>,
    /// Buffers that are the kernel's to fill.
    lent: Box<[bool]>,
}

impl BufferRing {
    /// `count` buffers as group `group`; a power of two, at most 32,768.
    ///
    /// # Errors
    /// What mmap or the registration says.
    pub fn register(submitter: &Submitter<'_>, group: u16, count: u16) -> io::Result<Self> {
        assert!(count.is_power_of_two(), "the kernel masks ring positions");
        let map_bytes = usize::from(count) * size_of::<BufRingEntry>();
        // SAFETY: an anonymous mapping at an address of the kernel's choice aliases nothing.
        let map = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                map_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let entries =
            NonNull::new(map.cast::<BufRingEntry>()).ok_or_else(|| io::Error::other("mmap gave no address"))?;
        let buffers = vec![0; usize::from(count) * READ_BYTES].into_boxed_slice();
        let lent = vec![false; usize::from(count)].into_boxed_slice();
        let mut ring = BufferRing { entries, map_bytes, count, tail: 0, buffers, lent };
        // SAFETY: the mapping is page-aligned, holds `count` entries and lives until `Drop`, which is after the
        // io_uring was closed (the driver declares its ring first).
        unsafe { submitter.register_buf_ring_with_flags(entries.as_ptr() as u64, count, group, 0)? };
        for id in 0..count {
            ring.give(id);
        }
        ring.publish();
        Ok(ring)
    }

    /// Bytes of memory held for receiving.
    pub fn pool_bytes(&self) -> usize {
        self.buffers.len()
    }

    /// Takes buffer `id` back, which a completion has just named.
    ///
    /// # Panics
    /// When it was not the kernel's: then one reply's bytes have been overwritten by another's, and no figure of
    /// this run can be believed.
    pub fn take(&mut self, id: u16) {
        let lent = std::mem::replace(&mut self.lent[usize::from(id)], false);
        assert!(lent, "the kernel filled receive buffer {id}, which it had given back: this kernel corrupts replies");
    }

    /// Buffer `id`, taken back: the kernel does not touch it until it is given again.
    pub fn get(&self, id: u16) -> &[u8] {
        let start = usize::from(id) * READ_BYTES;
        &self.buffers[start..start + READ_BYTES]
    }

    /// Gives buffer `id` back; visible to the kernel after [`BufferRing::publish`].
    pub fn give(&mut self, id: u16) {
        self.lent[usize::from(id)] = true;
        let start = usize::from(id) * READ_BYTES;
        let address = self.buffers[start..].as_mut_ptr();
        let place = usize::from(self.tail & (self.count - 1));
        // SAFETY: `place < count`, so the entry lies in the mapping; the kernel reads entries below the published
        // tail only, and this one is not below it yet.
        let entry = unsafe { &mut *self.entries.as_ptr().add(place) };
        entry.set_addr(address as u64);
        entry.set_len(READ_BYTES as u32);
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
    }

    /// Makes the buffers given back visible to the kernel.
    pub fn publish(&self) {
        // SAFETY: the first entry is initialised, and its tail field is the ring's tail, a u16 that the kernel only
        // reads; an atomic store is what it expects (io_uring_register_buf_ring(3)).
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(self.entries.as_ptr()).cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }
}

impl Drop for BufferRing {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `register`, and nothing refers to it any more.
        unsafe { libc::munmap(self.entries.as_ptr().cast(), self.map_bytes) };
    }
}
