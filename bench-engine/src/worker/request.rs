//! The way of a request through its slot: begun, sent, answered or lost, over.

use super::connection::Gone;
use super::queues::{Message, SlotBlocks};
use super::{Action, Desk};
use crate::conn::{Conn, Current, KeepAlive, Open};
use crate::exchange::{Exchange, Progress};
use crate::record::{Due, Ending, ProtocolError, ReadStamp, Timer};
use bytes::Bytes;

impl Desk {
    /// A free slot begins with a request: on its connection, or on one that is opened for it.
    pub(super) fn start(&mut self, slot: u32, current: Current) {
        self.timers.arm(Timer::Request, slot, self.now);
        match self.slots[slot as usize].conn.leave(false) {
            Conn::Ready(open) => self.send(slot, open, current),
            Conn::Closed { by_server } => self.open(slot, by_server, Some(current)),
            Conn::Opening { .. } | Conn::Securing { .. } | Conn::Busy(..) => {
                panic!("slot {slot} took a request while it had one")
            }
        }
    }

    /// A request goes out on an open connection.
    pub(super) fn send(&mut self, slot: u32, open: Open, mut current: Current) {
        self.sequence += 1;
        current.sequence = self.sequence;
        current.reused = open.carried > 0;
        current.reopened = open.carried == 0 && open.replaces;
        current.address = open.address;
        let streamed = self.server_of(slot).streamed;
        self.timers.arm(Timer::Stall, slot, self.now);
        self.slots[slot as usize].exchange.begin(streamed);
        self.slots[slot as usize].conn = Conn::Busy(open, current);
        self.actions.push(Action::Send(slot));
    }

    /// What of the slot's request goes over the wire, with the number of its send.
    pub(super) fn outgoing(&mut self, slot: u32) -> Option<(u64, Bytes)> {
        let Conn::Busy(open, current) = &mut self.slots[slot as usize].conn else { return None };
        let bytes = match &mut open.tls {
            Some(session) => session.encrypt(&current.job.request),
            None => current.job.request.clone(),
        };
        current.wire_bytes = bytes.len() as u64;
        Some((current.sequence, bytes))
    }

    /// Bytes of a reply, which were `wire_bytes` on the wire; the connection is `ending` when it can carry no other request.
    #[inline]
    pub(super) fn on_received(
        &mut self,
        slot: u32,
        bytes: &[u8],
        wire_bytes: usize,
        mut stamp: ReadStamp,
        ending: bool,
    ) {
        self.now = stamp.seen;
        let current = match &mut self.slots[slot as usize].conn {
            // a request was taken up, but nothing of it has left: what came is not its reply
            Conn::Busy(_, current) if current.submit.is_none() => return self.on_unasked(slot),
            Conn::Busy(_, current) => current,
            // bytes nobody asked for: what they belong to is unknowable, so the connection is given up
            conn @ Conn::Ready(_) => {
                *conn = Conn::Closed { by_server: false };
                return self.close(slot);
            }
            Conn::Closed { .. } | Conn::Opening { .. } | Conn::Securing { .. } => return,
        };
        stamp.read_no = current.reads;
        current.reads += 1;
        current.bytes_in += wire_bytes as u64;
        self.timers.arm(Timer::Stall, slot, self.now);
        let (taken, progress) = self.with_exchange(slot, |exchange, blocks| exchange.on_read(bytes, stamp, blocks));
        match progress {
            Progress::Over(how) => self.on_over(slot, how, taken == bytes.len(), ending, stamp),
            Progress::More => {
                let seen_done = self.slots[slot as usize].exchange.seen_done();
                if seen_done && !self.timers.is_armed(Timer::Drain, slot) {
                    self.timers.arm(Timer::Drain, slot, self.now);
                }
            }
        }
    }

    /// A read of TLS's own records, or of a part of one of the reply's.
    pub(super) fn on_silent_read(&mut self, slot: u32, wire_bytes: usize, of_reply: bool) {
        if let Conn::Busy(_, current) = &mut self.slots[slot as usize].conn
            && current.submit.is_some()
        {
            current.bytes_in += wire_bytes as u64;
            current.reads += u32::from(of_reply);
            self.timers.arm(Timer::Stall, slot, self.now);
        }
    }

    /// A reply is over, by the read stamped `end`; `all` when nothing followed it there, `closing` when the connection's end
    /// did. Whether its connection is kept is decided here.
    fn on_over(&mut self, slot: u32, ending: Ending, all: bool, closing: bool, end: ReadStamp) {
        let Conn::Busy(open, current) = self.slots[slot as usize].conn.leave(false) else {
            panic!("slot {slot} got a reply to nothing")
        };
        let keep_alive = self.slots[slot as usize].exchange.keep_alive();
        let whole = ending == Ending::Complete && all && current.sent.is_some();
        let kept = whole && keep_alive;
        let keeps = keep_alive && !closing;
        let server = self.server_of(slot);
        if kept && open.carried > 0 {
            server.keep_alive.reuse_worked();
        }
        let open = Open { carried: open.carried + 1, idle_since: end.seen, ..open };
        if kept && closing {
            server.keep_alive.found_closed(&open, end.seen);
        }
        let (goes_on, refuses) = (server.reuse.goes_on(open.carried), server.keep_alive == KeepAlive::Refused);
        self.slots[slot as usize].conn = if kept && !closing && goes_on && !refuses {
            Conn::Ready(open)
        } else {
            self.close(slot);
            // where a connection carries no more requests than asked, its end is nobody's doing but ours
            let by_server = whole && goes_on && (!keeps || refuses);
            self.count(slot, |r| &mut r.closed_by_server, u32::from(by_server));
            Conn::Closed { by_server }
        };
        self.end(slot, current, ending, Some(end));
    }

    /// The connection of a request is lost, and was closed: the request is sent anew, or it is over.
    pub(super) fn on_lost(&mut self, slot: u32, open: &Open, current: Current, gone: Gone) {
        if gone.is_theirs() {
            let now = self.now;
            self.server_of(slot).keep_alive.lost_under(&current, open, now);
        }
        if current.may_move() {
            return self.send_on_another(slot, gone.is_theirs(), current.moved());
        }
        let again = current.may_retry() && matches!(gone, Gone::Closed | Gone::Unannounced | Gone::Broken(_));
        if again {
            return self.send_on_another(slot, true, current.retry());
        }
        let ending = self.ending_of_lost(slot, &current, gone);
        self.end(slot, current, ending, None);
    }

    /// How a request ends whose connection is lost: by how far it had come.
    fn ending_of_lost(&mut self, slot: u32, current: &Current, gone: Gone) -> Ending {
        let errno = match gone {
            Gone::Tls(fault) => return Ending::Tls(fault),
            Gone::Client(fault) => return Ending::Client(fault),
            Gone::Broken(errno) => Some(errno),
            Gone::Closed | Gone::Unannounced => current.send_failed,
        };
        match (errno, gone) {
            _ if current.submit.is_none() => Ending::Unsent(errno),
            _ if current.sent.is_none() && current.reads == 0 => Ending::HalfSent(errno),
            (Some(errno), _) => Ending::Broken(errno),
            (None, Gone::Unannounced) => Ending::NoCloseNotify,
            (None, _) => self.with_exchange(slot, |exchange, blocks| exchange.on_close(blocks)),
        }
    }

    /// Bytes came before anything of the request had left. Behind the reply before they are nobody's, and it goes out on
    /// another connection; on a connection of its own it is the server that speaks first.
    fn on_unasked(&mut self, slot: u32) {
        let Conn::Busy(_, current) = self.slots[slot as usize].conn.leave(false) else { return };
        self.close(slot);
        match current.may_move() {
            true => self.send_on_another(slot, false, current.moved()),
            false => self.end(slot, current, Ending::Protocol(ProtocolError::Unasked), None),
        }
    }

    /// Nothing was read of its reply, and another connection is opened for a request.
    fn send_on_another(&mut self, slot: u32, replaces: bool, current: Current) {
        let tape = self.slots[slot as usize].exchange.cut_tape();
        assert!(tape.is_none(), "slot {slot} has a tape of a reply of which nothing was read");
        self.timers.disarm(Timer::Stall, slot);
        self.open(slot, replaces, Some(current));
    }

    /// A request is over: its record goes out, and its slot takes the next one. `end` is the read that ended
    /// it, when one did. The connection's own state has been set by the caller.
    pub(super) fn end(&mut self, slot: u32, current: Current, ending: Ending, end: Option<ReadStamp>) {
        self.timers.disarm_all(slot);
        let mut finished = current.finished(slot, ending, self.now);
        finished.block = self.slots[slot as usize].exchange.cut_tape();
        self.queues.post(Message::Finished(self.options.index, finished));
        self.slots[slot as usize].free_at = match end {
            Some(read) => Due { at: read.seen, wall: read.wall },
            None => Due { at: self.now, wall: None },
        };
        self.is_free(slot);
    }

    #[inline]
    fn with_exchange<T>(&mut self, slot: u32, f: impl FnOnce(&mut Exchange, &mut SlotBlocks<'_>) -> T) -> T {
        let mut blocks = SlotBlocks { queues: &self.queues, worker: self.options.index, slot, exhausted: 0 };
        let result = f(&mut self.slots[slot as usize].exchange, &mut blocks);
        let exhausted = blocks.exhausted;
        self.count(slot, |r| &mut r.pool_exhausted, exhausted);
        result
    }
}
