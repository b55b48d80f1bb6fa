//! One socket: bytes out with what would not fit kept back, bytes in with their kernel stamp, transmit stamps.

use super::journal::Record;
use bench_engine::clock::{Clock, SystemClock};
use bench_engine::units::{Instant, WallInstant};
use nix::cmsg_space;
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, TimestampingFlag, Timestamps, recvmsg, send, setsockopt, sockopt,
};
use nix::sys::time::TimeSpec;
use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, OwnedFd};

/// `ee_origin` of a transmit stamp, `SO_EE_ORIGIN_TIMESTAMPING` (linux/errqueue.h).
const ORIGIN_TIMESTAMPING: u8 = 4;
/// `ee_info` of a stamp taken when the packet was handed to the device, `SCM_TSTAMP_SND` (linux/errqueue.h).
const STAMP_SENT: u32 = 0;

/// Receive stamps, from the software stack. Set on the listener: accepted sockets inherit it, so that data which
/// came before `accept` is stamped too.
pub(super) const RX_STAMPS: TimestampingFlag =
    TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE.union(TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE);
/// Numbers transmit stamps by byte, and sends them back without the data.
const BYTE_IDS: TimestampingFlag =
    TimestampingFlag::SOF_TIMESTAMPING_OPT_ID.union(TimestampingFlag::SOF_TIMESTAMPING_OPT_TSONLY);

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrote {
    All,
    /// The socket is full; the rest is kept.
    Part,
    /// The client is gone.
    Gone,
}

/// What a read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    Bytes {
        len: usize,
        stamp: Option<WallInstant>,
    },
    Nothing,
    /// End of file, or the connection is broken.
    Gone,
}

/// Which transmit stamps this socket asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TxStamps {
    Off,
    /// The kernel refused.
    Refused,
    /// Every write is stamped.
    On,
    /// Stamping is possible and switched off just now.
    Paused,
}

/// The socket and what is between us and it.
#[derive(Debug)]
pub(super) struct Wire {
    socket: OwnedFd,
    tx: TxStamps,
    /// Bytes handed to the kernel so far, modulo 2^32 as the kernel numbers them.
    sent: u32,
    rest: Vec<u8>,
    rest_from: usize,
    /// Last byte, first chunk and number of chunks of the writes whose stamps are still out.
    awaited: VecDeque<(u32, u32, u32)>,
}

impl Wire {
    /// `tx` asks for transmit stamps.
    pub(super) fn new(socket: OwnedFd, tx: bool) -> Self {
        let mut wire = Wire {
            socket,
            tx: if tx { TxStamps::Paused } else { TxStamps::Off },
            sent: 0,
            rest: Vec::new(),
            rest_from: 0,
            awaited: VecDeque::new(),
        };
        // a refusal only means events that wait for acknowledgements, which lateness then shows
        let _ = setsockopt(&wire.socket, sockopt::TcpNoDelay, &true);
        if tx {
            // byte numbers count from here, before the first byte out
            wire.set_tx(false);
        }
        wire
    }

    pub(super) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    fn set_tx(&mut self, on: bool) {
        let tx = if on { TimestampingFlag::SOF_TIMESTAMPING_TX_SOFTWARE } else { TimestampingFlag::empty() };
        self.tx = match setsockopt(&self.socket, sockopt::Timestamping, &(RX_STAMPS | BYTE_IDS | tx)) {
            Ok(()) if on => TxStamps::On,
            Ok(()) => TxStamps::Paused,
            Err(_) => TxStamps::Refused,
        };
    }

    /// Switches the stamping of the writes to come. True when they will be stamped.
    pub(super) fn want_stamp(&mut self, on: bool) -> bool {
        match (self.tx, on) {
            (TxStamps::Paused, true) | (TxStamps::On, false) => self.set_tx(on),
            _ => {}
        }
        self.tx == TxStamps::On
    }

    /// The write just completed was stamped on behalf of `chunks` chunks from `chunk` on.
    pub(super) fn await_stamp(&mut self, chunk: u32, chunks: u32) {
        self.awaited.push_back((self.sent.wrapping_sub(1), chunk, chunks));
    }

    pub(super) fn awaited(&self) -> usize {
        self.awaited.len()
    }

    pub(super) fn forget_stamps(&mut self) {
        self.awaited.clear();
    }

    pub(super) fn has_rest(&self) -> bool {
        self.rest_from < self.rest.len()
    }

    /// Writes `bytes`; nothing may be kept back from before.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Wrote {
        debug_assert!(!self.has_rest(), "bytes would overtake those kept back");
        let (n, wrote) = self.send(bytes);
        if wrote == Wrote::Part {
            self.rest.clear();
            self.rest.extend_from_slice(&bytes[n..]);
            self.rest_from = 0;
        }
        wrote
    }

    /// Writes what was kept back.
    pub(super) fn flush(&mut self) -> Wrote {
        let rest = std::mem::take(&mut self.rest);
        let (n, wrote) = self.send(&rest[self.rest_from..]);
        self.rest_from += n;
        self.rest = rest;
        if wrote != Wrote::Part {
            self.rest.clear();
            self.rest_from = 0;
        }
        wrote
    }

    fn send(&mut self, bytes: &[u8]) -> (usize, Wrote) {
        let mut n = 0;
        while n < bytes.len() {
            match send(self.socket.as_raw_fd(), &bytes[n..], MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL) {
                Ok(more) => {
                    n += more;
                    self.sent = self.sent.wrapping_add(more as u32);
                }
                Err(Errno::EINTR) => {}
                // again after a short count, until the kernel says it is full: only then does it promise a wake-up
                Err(Errno::EAGAIN | Errno::ENOBUFS) => return (n, Wrote::Part),
                Err(_) => return (n, Wrote::Gone),
            }
        }
        (n, Wrote::All)
    }

    /// Reads what is there into `buffer`, with the kernel's stamp of its last segment.
    pub(super) fn read(&self, buffer: &mut [u8], control: &mut [u8]) -> Read {
        loop {
            let mut into = [IoSliceMut::new(buffer)];
            let got = recvmsg::<()>(self.socket.as_raw_fd(), &mut into, Some(control), MsgFlags::MSG_DONTWAIT);
            match got {
                Ok(message) if message.bytes == 0 => return Read::Gone,
                Ok(message) => {
                    let stamp = message.cmsgs().ok().and_then(|mut all| {
                        all.find_map(|one| match one {
                            ControlMessageOwned::ScmTimestampsns(stamps) => wall(stamps.system),
                            _ => None,
                        })
                    });
                    return Read::Bytes { len: message.bytes, stamp };
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Read::Nothing,
                Err(_) => return Read::Gone,
            }
        }
    }

    /// Takes one transmit stamp off the error queue into `record`. False when there was none.
    pub(super) fn take_stamp(&mut self, control: &mut [u8], clock: &SystemClock, record: &mut Record) -> bool {
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let Ok(message) = recvmsg::<()>(self.socket.as_raw_fd(), &mut [], Some(control), flags) else { return false };
        let seen = clock.now();
        let (mut stamp, mut byte) = (None, None);
        for one in message.cmsgs().into_iter().flatten() {
            match one {
                ControlMessageOwned::ScmTimestampsns(stamps) => stamp = wall(stamps.system),
                ControlMessageOwned::Ipv4RecvErr(error, _) => byte = byte_id(&error),
                ControlMessageOwned::Ipv6RecvErr(error, _) => byte = byte_id(&error),
                _ => {}
            }
        }
        if let (Some(stamp), Some(byte)) = (stamp, byte) {
            self.stamped(byte, stamp, seen, record);
        }
        true
    }

    /// The first stamp of a byte counts; stamps of writes nobody asked about, and second stamps, are passed over.
    fn stamped(&mut self, byte: u32, stamp: WallInstant, seen: Instant, record: &mut Record) {
        // wrapping order: a stamp of a later byte means those before it are lost
        while let Some((awaited, chunk, chunks)) = self.awaited.front().copied() {
            let ahead = byte.wrapping_sub(awaited) as i32;
            if ahead < 0 {
                return;
            }
            self.awaited.pop_front();
            if ahead == 0 {
                for chunk in record.chunks.iter_mut().skip(chunk as usize).take(chunks as usize) {
                    (chunk.left, chunk.left_seen) = (stamp, seen);
                }
                return;
            }
        }
    }
}

/// Room for the control messages of both queues.
pub(super) fn control_buffer() -> Vec<u8> {
    cmsg_space!(Timestamps, libc::sock_extended_err, libc::sockaddr_in6, [u64; 16])
}

fn wall(stamp: TimeSpec) -> Option<WallInstant> {
    let ns = u64::try_from(stamp.tv_sec()).ok()? * 1_000_000_000 + u64::try_from(stamp.tv_nsec()).ok()?;
    (ns > 0).then_some(WallInstant::from_ns(ns))
}

fn byte_id(error: &libc::sock_extended_err) -> Option<u32> {
    (error.ee_origin == ORIGIN_TIMESTAMPING && error.ee_info == STAMP_SENT).then_some(error.ee_data)
}
