//! The life of a connection: opened, secured where that is asked for, given up from either side.

use super::{Action, Desk};
use crate::conn::{Abandoned, Conn, Current, Open};
use crate::record::{ClientFault, Ending, ReadStamp, Timer};
use crate::units::{Instant, Nanos};
use crate::wire::tls::{self, TlsFault};
use std::net::SocketAddr;

/// How a connection ended from the other side.
#[derive(Clone, Copy, Debug)]
pub(super) enum Gone {
    /// With the end of what it sends.
    Closed,
    /// The same without the word that TLS has for it.
    Unannounced,
    /// With an errno.
    Broken(i32),
    /// TLS could not go on.
    Tls(TlsFault),
    /// Not from the other side at all: this host lacks something.
    Client(ClientFault),
}

impl Gone {
    /// What a failed receive means.
    pub(super) fn of_errno(errno: i32) -> Self {
        ClientFault::from_errno(errno).map_or(Gone::Broken(errno), Gone::Client)
    }

    /// The server's doing, or that of what lies between.
    pub(super) fn is_theirs(self) -> bool {
        !matches!(self, Gone::Client(_))
    }
}

impl Desk {
    /// Begins to open a connection: for a request, or ahead of any.
    pub(super) fn open(&mut self, slot: u32, replaces: bool, current: Option<Current>) {
        let address = self.server_of(slot).next_address();
        let current = current.map(|current| Current { address, ..current });
        self.slots[slot as usize].conn = Conn::Opening { since: self.now, replaces, address, current };
        self.timers.arm(Timer::Connect, slot, self.now);
        self.actions.push(Action::Open(slot));
    }

    /// Where the connection that is being opened goes.
    pub(super) fn address_of(&mut self, slot: u32) -> Option<SocketAddr> {
        match self.slots[slot as usize].conn {
            Conn::Opening { address, .. } => self.server_of(slot).address(address),
            _ => None,
        }
    }

    /// Has the driver end a connection. The slot's state is set by the caller.
    pub(super) fn close(&mut self, slot: u32) {
        self.actions.push(Action::Close(slot));
    }

    /// Ends whatever is under way on a slot, and the connection it is on. An idle one is left alone.
    pub(super) fn give_up(&mut self, slot: u32, ending: Ending) {
        match self.slots[slot as usize].conn.abandon() {
            Some(Abandoned::Request(current)) => {
                self.close(slot);
                self.end(slot, current, ending, None);
            }
            Some(Abandoned::OpenedAhead) => {
                self.close(slot);
                self.timers.disarm(Timer::Connect, slot);
                self.not_opened_ahead(ending);
            }
            None => {}
        }
    }

    /// TCP is connected.
    pub(super) fn on_connected(&mut self, slot: u32, at: Instant) {
        self.now = at;
        self.count(slot, |r| &mut r.opened, 1);
        let Conn::Opening { since, replaces, address, current } = self.slots[slot as usize].conn.leave(false) else {
            panic!("slot {slot} was connected without having asked for it");
        };
        let open = Open { carried: 0, replaces, address, idle_since: at, tls: None };
        let tcp = at.saturating_since(since);
        match self.server_of(slot).tls.as_ref().map(tls::Client::session) {
            None => self.is_open(slot, open, current, tcp, None),
            Some(Ok(session)) => {
                let open = Open { tls: Some(Box::new(session)), ..open };
                self.slots[slot as usize].conn = Conn::Securing { since: at, tcp, open, current };
                self.actions.push(Action::SendAside(slot));
            }
            Some(Err(fault)) => {
                self.slots[slot as usize].conn = Conn::Securing { since: at, tcp, open, current };
                self.give_up(slot, Ending::Tls(fault));
            }
        }
    }

    /// TCP could not be connected; the driver has closed the slot already.
    pub(super) fn on_connect_failed(&mut self, slot: u32, at: Instant, ending: Ending) {
        self.now = self.now.max(at);
        if let Conn::Opening { .. } = self.slots[slot as usize].conn {
            self.give_up(slot, ending);
        }
    }

    /// Bytes of a connection that is secured: what they decrypt to is taken in under the stamp of their read.
    pub(super) fn on_encrypted(&mut self, slot: u32, bytes: &[u8], mut stamp: ReadStamp) {
        self.now = stamp.seen;
        let Some(session) = self.slots[slot as usize].conn.tls() else { return };
        let mut plain = std::mem::take(&mut self.plain);
        plain.clear();
        let arrived = session.decrypt(bytes, &mut plain);
        let secured = session.is_open();
        // the stamp is that of the last byte, and what was decrypted ended before it
        stamp.filled |= arrived.more_followed;
        if let Conn::Securing { .. } = self.slots[slot as usize].conn {
            match arrived.fault.or(arrived.closed.then_some(TlsFault::CutInHandshake)) {
                Some(fault) => self.give_up(slot, Ending::Tls(fault)),
                None if secured => self.on_secured(slot),
                None => {}
            }
        }
        let gone = arrived.fault.map(Gone::Tls).or(arrived.closed.then_some(Gone::Closed));
        // each step may have given the connection up, and its session with it
        if self.slots[slot as usize].conn.is_encrypted() {
            if plain.is_empty() {
                self.on_silent_read(slot, bytes.len(), arrived.inside_record);
            } else {
                self.on_received(slot, &plain, bytes.len(), stamp, gone.is_some());
            }
        }
        if let (Some(gone), true) = (gone, self.slots[slot as usize].conn.is_encrypted()) {
            self.on_gone(slot, stamp.seen, gone);
        }
        if self.slots[slot as usize].conn.tls().is_some_and(|session| session.has_outgoing()) {
            self.actions.push(Action::SendAside(slot));
        }
        self.plain = plain;
    }

    /// The TLS handshake is over: what waits goes out.
    fn on_secured(&mut self, slot: u32) {
        let Conn::Securing { since, tcp, open, current } = self.slots[slot as usize].conn.leave(false) else {
            panic!("slot {slot} was secured without having asked for it");
        };
        let open = Open { idle_since: self.now, ..open };
        self.is_open(slot, open, current, tcp, Some(self.now.saturating_since(since)));
    }

    /// A connection has come as far as to carry requests: the one that waits for it goes out.
    fn is_open(&mut self, slot: u32, open: Open, current: Option<Current>, tcp: Nanos, tls: Option<Nanos>) {
        self.timers.disarm(Timer::Connect, slot);
        match current {
            Some(current) => self.send(slot, open, Current { connect: Some(tcp), tls, ..current }),
            None => {
                self.slots[slot as usize].conn = Conn::Ready(open);
                self.opened_ahead(tcp);
            }
        }
    }

    /// The peer closed, or the connection broke.
    pub(super) fn on_gone(&mut self, slot: u32, at: Instant, gone: Gone) {
        self.now = self.now.max(at);
        match self.slots[slot as usize].conn.leave(gone.is_theirs()) {
            Conn::Busy(open, current) => {
                self.close(slot);
                self.count(slot, |r| &mut r.closed_by_server, u32::from(gone.is_theirs()));
                self.on_lost(slot, &open, current, gone);
            }
            Conn::Ready(open) => {
                self.close(slot);
                self.count(slot, |r| &mut r.closed_by_server, u32::from(gone.is_theirs()));
                let now = self.now;
                if gone.is_theirs() {
                    self.server_of(slot).keep_alive.found_closed(&open, now);
                }
            }
            securing @ Conn::Securing { .. } => {
                self.slots[slot as usize].conn = securing;
                self.give_up(slot, Ending::Tls(TlsFault::CutInHandshake));
            }
            // of the connection before
            other @ (Conn::Closed { .. } | Conn::Opening { .. }) => self.slots[slot as usize].conn = other,
        }
    }
}
