//! What each completion of the driver means for its slot.

use super::Desk;
use super::connection::Gone;
use super::queues::Message;
use crate::conn::{Conn, Current};
use crate::io::{ConnId, Event, Events};
use crate::record::{ClientFault, Ending};
use crate::units::Instant;

impl Events for Desk {
    fn on(&mut self, conn: ConnId, event: Event<'_>) {
        let slot = conn.0;
        match event {
            Event::Connected { at } => self.on_connected(slot, at),
            Event::ConnectFailed { at, errno } => self.on_connect_failed(slot, at, Ending::NoConnection(errno)),
            Event::NoSocket { at, fault } => self.on_connect_failed(slot, at, Ending::Client(fault)),
            Event::Handed { sequence, submit, handed } => {
                if let Some(current) = self.current(slot, sequence) {
                    (current.submit, current.handed) = (Some(submit), Some(handed));
                }
            }
            Event::Sent { sequence, at } => {
                if let Some(current) = self.current(slot, sequence) {
                    current.sent = Some(at);
                }
            }
            Event::SendFailed { at, errno } => self.on_send_failed(slot, at, errno),
            Event::WireOut { sequence, wall, at } => match self.current(slot, sequence) {
                Some(current) => current.wire_out = Some((wall, at)),
                None => {
                    let worker = self.options.index;
                    self.queues.post(Message::LateWireOut { worker, sequence, wall, at });
                }
            },
            Event::Received(bytes, stamp) => match self.slots[slot as usize].conn.is_encrypted() {
                true => self.on_encrypted(slot, bytes, stamp),
                false => self.on_received(slot, bytes, bytes.len(), stamp, false),
            },
            Event::PeerClosed { at } => match self.slots[slot as usize].conn.is_encrypted() {
                true => self.on_gone(slot, at, Gone::Unannounced),
                false => self.on_gone(slot, at, Gone::Closed),
            },
            Event::ReceiveFailed { at, errno } => self.on_gone(slot, at, Gone::of_errno(errno)),
        }
    }
}

impl Desk {
    /// Nothing more of what was being sent will leave.
    fn on_send_failed(&mut self, slot: u32, at: Instant, errno: i32) {
        self.now = self.now.max(at);
        match (&mut self.slots[slot as usize].conn, ClientFault::from_errno(errno)) {
            // the connection is whole, and the server waits for the rest: nothing would ever come
            (Conn::Busy(..) | Conn::Securing { .. }, Some(fault)) => self.give_up(slot, Ending::Client(fault)),
            // what the server has to say about it may still be read: the receiving side ends the request
            (Conn::Busy(_, current), None) => current.send_failed = Some(errno),
            _ => {}
        }
    }

    /// The request of `slot`, when its last send is `sequence`.
    #[inline]
    fn current(&mut self, slot: u32, sequence: u64) -> Option<&mut Current> {
        match &mut self.slots[slot as usize].conn {
            Conn::Busy(_, current) if current.sequence == sequence => Some(current),
            _ => None,
        }
    }
}
