//! Kernel stamps: asking for them, and reading them out of control messages
//! (Documentation/networking/timestamping.rst).

use crate::units::WallInstant;
use nix::sys::socket::TimestampingFlag;
use nix::sys::socket::{setsockopt, sockopt};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Room for one SCM_TIMESTAMPING message: a header and three timespecs, and some to spare.
pub const CONTROL_BYTES: usize = 128;

/// `SOF_TIMESTAMPING_OPT_ID_TCP`, Linux 6.2.
const OPT_ID_TCP: u32 = 1 << 16;

const TIMESPEC_BYTES: usize = size_of::<libc::timespec>();

/// Asks for software RX stamps and for TX stamps with byte ids. On TCP, byte ids count from here, so the
/// socket must be connected and must not have sent anything.
///
/// # Errors
/// What setsockopt says.
pub fn switch_on(socket: &impl AsFd) -> io::Result<()> {
    let base = TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_TX_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_OPT_ID
        | TimestampingFlag::SOF_TIMESTAMPING_OPT_TSONLY;
    let with_tcp_ids = base | TimestampingFlag::from_bits_retain(OPT_ID_TCP as libc::c_uint);
    // before 6.2 ids count from what was acknowledged: the same on a socket that has sent nothing
    setsockopt(socket, sockopt::Timestamping, &with_tcp_ids)
        .or_else(|_| setsockopt(socket, sockopt::Timestamping, &base))
        .map_err(io::Error::from)
}

/// The software stamp in a message's control data.
pub fn rx_stamp(mut control: &[u8]) -> Option<WallInstant> {
    while let Some((level, kind, data, rest)) = next_control_message(control) {
        if level == libc::SOL_SOCKET && kind == libc::SCM_TIMESTAMPING {
            return software_stamp(data);
        }
        control = rest;
    }
    None
}

/// Takes one TX stamp from a socket's error queue: the byte id and the stamp.
///
/// None when the queue is empty. The io_uring command for it (`SOCKET_URING_OP_TX_TIMESTAMP`, Linux 6.17) is not
/// used: on Linux 6.18, beside other work on the machine, it made the kernel run other entries of the same ring
/// twice, and replies were mixed up (ARCHITECTURE.md has the figures).
pub fn from_error_queue(socket: BorrowedFd<'_>) -> Option<(u32, WallInstant)> {
    #[repr(align(8))]
    struct Control([u8; 256]);
    let mut control = Control([0; 256]);
    // SAFETY: an all-zero msghdr is a valid empty one.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_control = control.0.as_mut_ptr().cast();
    loop {
        message.msg_controllen = control.0.len();
        // SAFETY: `message` points to `control`, which outlives the call and has the length given.
        let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) };
        if got < 0 {
            return None;
        }
        if let Some(found) = tx_in_control(&control.0[..message.msg_controllen.min(control.0.len())]) {
            return Some(found);
        }
    }
}

/// Byte id and stamp of an error queue message: SCM_TIMESTAMPING beside IP(V6)_RECVERR with
/// `sock_extended_err` of origin SO_EE_ORIGIN_TIMESTAMPING and info SCM_TSTAMP_SND.
fn tx_in_control(mut control: &[u8]) -> Option<(u32, WallInstant)> {
    const ORIGIN_TIMESTAMPING: u8 = 4;
    let (mut id, mut stamp) = (None, None);
    while let Some((level, kind, data, rest)) = next_control_message(control) {
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => stamp = software_stamp(data),
            (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR) if data.len() >= 16 => {
                // ee_errno u32, ee_origin u8, ee_type u8, ee_code u8, ee_pad u8, ee_info u32, ee_data u32
                let word = |at: usize| u32::from_ne_bytes([data[at], data[at + 1], data[at + 2], data[at + 3]]);
                if data[4] == ORIGIN_TIMESTAMPING && word(8) == 0 {
                    id = Some(word(12));
                }
            }
            _ => {}
        }
        control = rest;
    }
    Some((id?, stamp?))
}

fn software_stamp(timespecs: &[u8]) -> Option<WallInstant> {
    let mut bytes = [0; TIMESPEC_BYTES];
    bytes.copy_from_slice(timespecs.get(..TIMESPEC_BYTES)?);
    let word = |at: usize| {
        let mut w = [0; 8];
        w.copy_from_slice(&bytes[at..at + 8]);
        i64::from_ne_bytes(w)
    };
    let ns = u64::try_from(word(0)).ok()?.checked_mul(1_000_000_000)?.checked_add(u64::try_from(word(8)).ok()?)?;
    (ns > 0).then_some(WallInstant::from_ns(ns))
}

/// Level, type and data of the first message, and what follows it (`cmsg(3)`).
fn next_control_message(control: &[u8]) -> Option<(i32, i32, &[u8], &[u8])> {
    const HEADER: usize = size_of::<libc::cmsghdr>();
    let mut len = [0; 8];
    len.copy_from_slice(control.get(..8)?);
    let len = usize::try_from(u64::from_ne_bytes(len)).ok()?;
    let int = |at: usize| {
        Some(i32::from_ne_bytes([
            *control.get(at)?,
            *control.get(at + 1)?,
            *control.get(at + 2)?,
            *control.get(at + 3)?,
        ]))
    };
    let (level, kind) = (int(8)?, int(12)?);
    let data = control.get(HEADER..len)?;
    let aligned = len.checked_next_multiple_of(8)?.min(control.len());
    Some((level, kind, data, &control[aligned..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let mut m = (16 + data.len() as u64).to_ne_bytes().to_vec();
        m.extend(level.to_ne_bytes());
        m.extend(kind.to_ne_bytes());
        m.extend(data);
        m.resize(m.len().next_multiple_of(8), 0);
        m
    }

    fn timespecs(s: i64, ns: i64) -> Vec<u8> {
        [s, ns, 0, 0, 0, 0].iter().flat_map(|w| w.to_ne_bytes()).collect()
    }

    #[test]
    fn the_software_stamp_is_found_among_other_messages() {
        let control =
            [message(41, 50, &[1, 2, 3]), message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &timespecs(3, 7))].concat();
        assert_eq!(rx_stamp(&control), Some(WallInstant::from_ns(3_000_000_007)));
        assert_eq!(rx_stamp(&message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &timespecs(0, 0))), None);
        assert_eq!(rx_stamp(&[]), None);
    }

    #[test]
    fn an_error_queue_message_gives_byte_id_and_stamp() {
        let mut err = [0u8; 16];
        err[4] = 4;
        err[12..16].copy_from_slice(&99u32.to_ne_bytes());
        let stamp = message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &timespecs(1, 1));
        let control = [stamp, message(libc::SOL_IP, libc::IP_RECVERR, &err)].concat();
        assert_eq!(tx_in_control(&control), Some((99, WallInstant::from_ns(1_000_000_001))));
    }

    proptest! {
        #[test]
        fn arbitrary_control_data_never_panics(control in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (rx_stamp(&control), tx_in_control(&control));
        }
    }
}
