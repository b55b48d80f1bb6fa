//! What one socket has to send. As a rule that is one request and nothing else, for which nothing is allocated; only TLS puts
//! bytes of its own beside it.

use bytes::Bytes;
use std::collections::VecDeque;

/// Bytes on their way.
#[derive(Debug)]
pub struct Outgoing {
    /// All of them.
    pub bytes: Bytes,
    /// The request they are; None: they are no request.
    pub sequence: Option<u64>,
    /// How many the kernel has taken.
    pub offset: usize,
}

impl Outgoing {
    /// Nothing of it has left.
    pub fn new(bytes: Bytes, sequence: Option<u64>) -> Self {
        Outgoing { bytes, sequence, offset: 0 }
    }
}

/// What a socket has to send, in order.
#[derive(Debug, Default)]
pub struct Queue {
    first: Option<Outgoing>,
    behind: VecDeque<Outgoing>,
}

impl Queue {
    /// There is nothing.
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// There is a request.
    pub fn has_request(&self) -> bool {
        self.first.iter().chain(&self.behind).any(|out| out.sequence.is_some())
    }

    /// Puts bytes last; whether they are the first as well.
    pub fn push(&mut self, out: Outgoing) -> bool {
        if self.first.is_some() {
            self.behind.push_back(out);
            return false;
        }
        self.first = Some(out);
        true
    }

    /// The first.
    pub fn first(&self) -> Option<&Outgoing> {
        self.first.as_ref()
    }

    /// The first, to be moved on.
    pub fn first_mut(&mut self) -> Option<&mut Outgoing> {
        self.first.as_mut()
    }

    /// The first has left.
    pub fn pop(&mut self) {
        self.first = self.behind.pop_front();
    }

    /// Nothing of it will leave.
    pub fn clear(&mut self) {
        self.first = None;
        self.behind.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_first_leaves_first() {
        let mut queue = Queue::default();
        assert!(queue.is_empty() && !queue.has_request());
        assert!(queue.push(Outgoing::new(Bytes::from_static(b"hello"), None)));
        assert!(!queue.push(Outgoing::new(Bytes::from_static(b"request"), Some(7))));
        assert!(queue.has_request());
        queue.pop();
        assert_eq!(queue.first().and_then(|out| out.sequence), Some(7));
        queue.pop();
        assert!(queue.is_empty() && queue.first_mut().is_none());
        queue.push(Outgoing::new(Bytes::new(), None));
        queue.push(Outgoing::new(Bytes::new(), None));
        queue.clear();
        assert!(queue.is_empty());
    }
}
