//! The RX stamp in the control data of a multishot `recvmsg`, which comes as plain bytes in a ring buffer
//! (Documentation/networking/timestamping.rst).

use crate::units::WallInstant;

/// Room for one SCM_TIMESTAMPING message: a header and three timespecs, and some to spare.
pub const CONTROL_BYTES: usize = 128;

const TIMESPEC_BYTES: usize = size_of::<libc::timespec>();

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

    proptest! {
        #[test]
        fn arbitrary_control_data_never_panics(control in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = rx_stamp(&control);
        }
    }
}
