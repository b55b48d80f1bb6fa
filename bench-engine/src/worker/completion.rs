//! What each completion of the driver means for its slot.

use super::Desk;
use super::connection::Gone;
use super::queues::Message;
use crate::conn::{Conn, Current};
use crate::io::{ConnId, Event, Events};
use crate::record::Ending;

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
            // what the server has to say about it may still be read: the receiving side ends the request
            Event::SendFailed(errno) => {
                if let Conn::Busy(_, current) = &mut self.slots[slot as usize].conn {
                    current.send_failed = Some(errno);
                }
            }
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
            Event::ReceiveFailed { at, errno } => self.on_gone(slot, at, Gone::Broken(errno)),
        }
    }
}

impl Desk {
    /// The request of `slot`, when its last send is `sequence`.
    fn current(&mut self, slot: u32, sequence: u64) -> Option<&mut Current> {
        match &mut self.slots[slot as usize].conn {
            Conn::Busy(_, current) if current.sequence == sequence => Some(current),
            _ => None,
        }
    }
}
