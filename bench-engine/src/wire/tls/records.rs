//! The framing of TLS: which bytes of a connection are one record.

/// Bytes of a record's head (RFC 8446, 5.1).
const RECORD_HEAD: usize = 5;

/// Where records begin and end in the bytes of a connection.
#[derive(Debug, Default)]
pub(super) struct Records {
    head: [u8; RECORD_HEAD],
    /// Bytes of the head that were seen.
    seen: usize,
    /// Bytes of the record that are still to come, behind its head.
    left: usize,
}

impl Records {
    /// How many of these bytes belong to the current record: all, or as far as its end.
    pub(super) fn next(&mut self, bytes: &[u8]) -> usize {
        let of_head = bytes.len().min(RECORD_HEAD - self.seen);
        self.head[self.seen..self.seen + of_head].copy_from_slice(&bytes[..of_head]);
        if self.seen < RECORD_HEAD && self.seen + of_head == RECORD_HEAD {
            self.left = usize::from(u16::from_be_bytes([self.head[3], self.head[4]]));
        }
        self.seen += of_head;
        let of_body = (bytes.len() - of_head).min(self.left);
        self.left -= of_body;
        if self.seen == RECORD_HEAD && self.left == 0 {
            self.seen = 0;
        }
        of_head + of_body
    }

    /// What was taken for the current record's head, or the last one's, is how a status line of HTTP begins.
    pub(super) fn are_plain_http(&self) -> bool {
        self.head == *b"HTTP/"
    }

    /// In the middle of one.
    pub(super) fn inside(&self) -> bool {
        self.seen > 0
    }
}
