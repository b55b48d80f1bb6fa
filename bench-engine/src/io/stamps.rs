//! Kernel stamps of a socket: asking for them, and reading them with plain calls
//! (Documentation/networking/timestamping.rst).

use crate::units::WallInstant;
use nix::libc;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, RecvMsg, TimestampingFlag, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// `SOF_TIMESTAMPING_OPT_ID_TCP`, Linux 6.2.
const OPT_ID_TCP: libc::c_uint = 1 << 16;
/// `SO_EE_ORIGIN_TIMESTAMPING` of linux/errqueue.h.
const ORIGIN_TIMESTAMPING: u8 = 4;
/// `SCM_TSTAMP_SND`: the stamp of leaving for the device.
const STAMP_SENT: u32 = 0;

/// Room for the control messages of one `recvmsg`, aligned as `cmsg(3)` asks: three timespecs and, on the error queue,
/// an extended error with an address, and some to spare.
#[derive(Debug)]
#[repr(align(8))]
pub struct Control([u8; 256]);

impl Default for Control {
    fn default() -> Self {
        Control([0; 256])
    }
}

impl Control {
    /// The room, to be filled.
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

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
    let with_tcp_ids = base | TimestampingFlag::from_bits_retain(OPT_ID_TCP);
    // before 6.2 ids count from what was acknowledged: the same on a socket that has sent nothing
    setsockopt(socket, sockopt::Timestamping, &with_tcp_ids)
        .or_else(|_| setsockopt(socket, sockopt::Timestamping, &base))
        .map_err(io::Error::from)
}

/// The software RX stamp that came with a read. For TCP it is that of the last segment in it.
pub fn rx_stamp(message: &RecvMsg<'_, '_, ()>) -> Option<WallInstant> {
    message.cmsgs().ok()?.find_map(|one| match one {
        ControlMessageOwned::ScmTimestampsns(stamps) => wall(stamps.system),
        _ => None,
    })
}

/// Takes one TX stamp from a socket's error queue: the byte id and the stamp.
///
/// None when the queue is empty. The io_uring command for it (`SOCKET_URING_OP_TX_TIMESTAMP`, Linux 6.17) is not
/// used: on Linux 6.18, beside other work on the machine, it made the kernel run other entries of the same ring
/// twice, and replies were mixed up (ARCHITECTURE.md has the figures).
pub fn from_error_queue(socket: BorrowedFd<'_>, control: &mut Control) -> Option<(u32, WallInstant)> {
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    loop {
        let message = recvmsg::<()>(socket.as_raw_fd(), &mut [], Some(control.room()), flags).ok()?;
        // SCM_TIMESTAMPING beside IP_RECVERR or IPV6_RECVERR with the byte id
        let (mut byte, mut stamp) = (None, None);
        for one in message.cmsgs().into_iter().flatten() {
            match one {
                ControlMessageOwned::ScmTimestampsns(stamps) => stamp = wall(stamps.system),
                ControlMessageOwned::Ipv4RecvErr(error, _) => byte = byte_id(&error),
                ControlMessageOwned::Ipv6RecvErr(error, _) => byte = byte_id(&error),
                _ => {}
            }
        }
        // what is no stamp is passed over
        if let (Some(byte), Some(stamp)) = (byte, stamp) {
            return Some((byte, stamp));
        }
    }
}

fn byte_id(error: &libc::sock_extended_err) -> Option<u32> {
    (error.ee_origin == ORIGIN_TIMESTAMPING && error.ee_info == STAMP_SENT).then_some(error.ee_data)
}

fn wall(stamp: TimeSpec) -> Option<WallInstant> {
    let s = u64::try_from(stamp.tv_sec()).ok()?;
    let ns = s.checked_mul(1_000_000_000)?.checked_add(u64::try_from(stamp.tv_nsec()).ok()?)?;
    (ns > 0).then_some(WallInstant::from_ns(ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_stamp_of_leaving_names_a_byte() {
        let of = |ee_origin, ee_info| {
            byte_id(&libc::sock_extended_err {
                ee_errno: libc::ENOMSG as u32,
                ee_origin,
                ee_type: 0,
                ee_code: 0,
                ee_pad: 0,
                ee_info,
                ee_data: 99,
            })
        };
        assert_eq!(of(ORIGIN_TIMESTAMPING, STAMP_SENT), Some(99));
        assert_eq!(of(ORIGIN_TIMESTAMPING, 2), None, "an acknowledgement");
        assert_eq!(of(2, STAMP_SENT), None, "an ICMP message");
    }

    #[test]
    fn a_stamp_of_zero_is_none() {
        assert_eq!(wall(TimeSpec::new(3, 7)), Some(WallInstant::from_ns(3_000_000_007)));
        assert_eq!(wall(TimeSpec::new(0, 0)), None);
        assert_eq!(wall(TimeSpec::new(-1, 0)), None);
    }
}
