//! Byte ids of the requests on one socket: how a TX stamp finds the request whose last byte it dates.
//!
//! With SOF_TIMESTAMPING_OPT_ID the kernel numbers the bytes of a TCP socket from the moment stamping was switched on,
//! modulo 2^32, and a stamp names the last byte of the packet it belongs to (Documentation/networking/timestamping.rst).

/// The byte ids of a socket whose TX stamps are awaited.
#[derive(Clone, Copy, Debug, Default)]
pub struct TxIds {
    /// Bytes given since stamping was switched on, as the kernel counts them.
    sent_bytes: u32,
    /// Last byte and sequence of the two latest requests: the stamp of one may come after the next has begun.
    awaited: [Option<(u32, u64)>; 2],
}

impl TxIds {
    /// A request of `bytes` bytes is to go out whole as send `sequence`; its last byte's stamp is awaited.
    pub fn expect(&mut self, bytes: usize, sequence: u64) {
        self.pass(bytes);
        self.awaited = [Some((self.sent_bytes.wrapping_sub(1), sequence)), self.awaited[0]];
    }

    /// Bytes that are no request are to go out: they have ids as well, and nobody awaits their stamps.
    pub fn pass(&mut self, bytes: usize) {
        // modulo 2^32, as the kernel counts
        self.sent_bytes = self.sent_bytes.wrapping_add(bytes as u32);
    }

    /// The send whose last byte `byte` is. The first stamp of that byte is the one that counts: later ones, and those
    /// of other bytes, give None.
    pub fn stamped(&mut self, byte: u32) -> Option<u64> {
        let awaited = self.awaited.iter_mut().find(|a| a.is_some_and(|(id, _)| id == byte))?;
        awaited.take().map(|(_, sequence)| sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_stamp_of_a_last_byte_counts() {
        let mut ids = TxIds::default();
        ids.expect(10, 1);
        assert_eq!(ids.stamped(4), None, "a byte in its middle");
        assert_eq!(ids.stamped(9), Some(1));
        assert_eq!(ids.stamped(9), None, "sent again");
        ids.expect(5, 2);
        ids.expect(1, 3);
        assert_eq!((ids.stamped(15), ids.stamped(14)), (Some(3), Some(2)), "in any order");
    }

    #[test]
    fn bytes_of_a_handshake_have_ids_too() {
        let mut ids = TxIds::default();
        ids.pass(300);
        ids.expect(10, 1);
        ids.pass(5);
        ids.expect(1, 2);
        assert_eq!((ids.stamped(299), ids.stamped(309), ids.stamped(314)), (None, Some(1), None));
        assert_eq!(ids.stamped(315), Some(2));
    }

    #[test]
    fn a_stamp_may_lag_by_one_request_but_not_by_two() {
        let mut ids = TxIds::default();
        (1..=3).for_each(|sequence| ids.expect(10, sequence));
        assert_eq!((ids.stamped(9), ids.stamped(19), ids.stamped(29)), (None, Some(2), Some(3)));
    }

    proptest! {
        #[test]
        fn every_request_finds_its_own_stamp_beyond_four_gibibytes(
            sizes in proptest::collection::vec(1usize..3_000_000_000, 1..50)
        ) {
            let (mut ids, mut total) = (TxIds::default(), 0u64);
            for (sequence, size) in (1u64..).zip(sizes) {
                ids.expect(size, sequence);
                total += size as u64;
                prop_assert_eq!(ids.stamped((total - 1) as u32), Some(sequence));
            }
        }
    }
}
