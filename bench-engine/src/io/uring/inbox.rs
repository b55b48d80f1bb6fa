//! Where the kernel receives to: one inbox a socket, with its own message header, control data and buffer,
//! and one `recvmsg` at a time for it.
//!
//! Not multishot receives from shared provided buffers, although these cost less: on Linux 6.18, with many
//! sockets and other work on the machine, a completion now and then named a buffer that another completion
//! of the same enter named too, or its message had been laid out without room for control data, so that
//! one reply's bytes were overwritten by another's or lost. It was seen with a buffer ring (about once in
//! 200,000 reads) and with `IORING_OP_PROVIDE_BUFFERS` (once in 2,400,000). What is a socket's own cannot be mixed
//! up.

use super::stamps::CONTROL_BYTES;
use std::ptr::NonNull;

/// Most bytes of one read. Small enough that a backlog is not swallowed under one stamp, large enough for
/// some twenty token events.
pub const READ_BYTES: usize = 4096 - CONTROL_BYTES;
const SLOT_BYTES: usize = READ_BYTES + CONTROL_BYTES;

struct Header {
    message: libc::msghdr,
    vector: libc::iovec,
}

/// The inboxes of all sockets of a driver.
pub struct Inboxes {
    headers: Box<[Header]>,
    /// Data, then control data, of each socket. Pages no socket has used are not resident.
    memory: Box<[u8]>,
    with_control: bool,
}

impl Inboxes {
    /// Inboxes for `count` sockets, with room for stamps if `with_control`.
    pub fn new(count: u32, with_control: bool) -> Self {
        let mut memory = vec![0; count as usize * SLOT_BYTES].into_boxed_slice();
        let headers = memory
            .chunks_exact_mut(SLOT_BYTES)
            .map(|slot| {
                let (data, control) = slot.split_at_mut(READ_BYTES);
                // SAFETY: an all-zero msghdr is a valid empty one.
                let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
                message.msg_control = control.as_mut_ptr().cast();
                Header { message, vector: libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: READ_BYTES } }
            })
            .collect();
        Inboxes { headers, memory, with_control }
    }

    /// Bytes of memory held for receiving.
    pub fn pool_bytes(&self) -> usize {
        self.memory.len()
    }

    /// The message header for the next read of `socket`; it and all it points to live as long as the inboxes.
    pub fn arm(&mut self, socket: u32) -> *mut libc::msghdr {
        let header = &mut self.headers[socket as usize];
        header.message.msg_iov = NonNull::from(&mut header.vector).as_ptr();
        header.message.msg_iovlen = 1;
        header.message.msg_controllen = if self.with_control { CONTROL_BYTES } else { 0 };
        header.message.msg_flags = 0;
        &raw mut header.message
    }

    /// Data and control data of a read of `bytes` bytes that has just completed.
    pub fn read(&self, socket: u32, bytes: usize) -> (&[u8], &[u8]) {
        let start = socket as usize * SLOT_BYTES;
        let (data, control) = self.memory[start..start + SLOT_BYTES].split_at(READ_BYTES);
        let control_bytes = self.headers[socket as usize].message.msg_controllen.min(CONTROL_BYTES);
        (&data[..bytes], &control[..if self.with_control { control_bytes } else { 0 }])
    }
}
