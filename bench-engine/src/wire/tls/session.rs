//! The TLS of one connection, from its handshake to its end.

use super::fault::TlsFault;
use super::records::Records;
use bytes::Bytes;
use rustls::{ClientConnection, HandshakeKind};
use std::fmt;
use std::io::{BufRead, Write};

/// What both ends agreed on in a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// `TLS 1.3`, `TLS 1.2`.
    pub version: &'static str,
    /// Cipher suite, by its IANA name.
    pub cipher: String,
    /// Protocol chosen by ALPN; None: the server chose none.
    pub alpn: Option<String>,
    /// An earlier session was resumed: no certificate was looked at.
    pub resumed: bool,
    /// The server's certificates as it sent them, its own first, DER.
    pub chain: Vec<Vec<u8>>,
}

/// What a read brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    /// Bytes came behind the last record with plain bytes in it: part of a record, or records of TLS itself. They may have
    /// come later than what is before them, and a read has one stamp.
    pub more_followed: bool,
    /// It ends inside a record.
    pub inside_record: bool,
    /// The peer said that it will send no more.
    pub closed: bool,
    /// The session is over by this fault. What was decrypted before it counts.
    pub fault: Option<TlsFault>,
}

/// One connection's TLS.
pub struct Session {
    connection: ClientConnection,
    records: Records,
    shows_certificate: bool,
    /// A record of the server was understood.
    greeted: bool,
    /// Nothing more is taken in.
    ended: bool,
    detail: Option<String>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("open", &self.is_open()).finish_non_exhaustive()
    }
}

impl Session {
    /// One that has neither sent nor received anything.
    pub(super) fn new(mut connection: ClientConnection, shows_certificate: bool) -> Self {
        // a request goes out whole, however long it is
        connection.set_buffer_limit(None);
        Session {
            connection,
            records: Records::default(),
            shows_certificate,
            greeted: false,
            ended: false,
            detail: None,
        }
    }

    /// The handshake is over.
    pub fn is_open(&self) -> bool {
        !self.connection.is_handshaking()
    }

    /// There is something that [`Session::outgoing`] would give.
    pub fn has_outgoing(&self) -> bool {
        self.connection.wants_write()
    }

    /// What the session itself has to send: of the handshake, or an alert. The answer to a key update is not among it: it
    /// goes out in front of the next request (RFC 8446, 4.6.3).
    pub fn outgoing(&mut self) -> Option<Bytes> {
        self.connection.wants_write().then(|| self.drain(0))
    }

    /// A request as it goes out, behind whatever the session still had to send.
    pub fn encrypt(&mut self, plain: &[u8]) -> Bytes {
        self.connection.writer().write_all(plain).expect("the buffer of what is sent has no limit");
        self.drain(plain.len())
    }

    fn drain(&mut self, about: usize) -> Bytes {
        // a record holds 16 KiB, and head, type and tag are some 22 bytes
        let mut bytes = Vec::with_capacity(about + about / 16_384 * 22 + 512);
        while self.connection.wants_write() {
            self.connection.write_tls(&mut bytes).expect("a vector takes all");
        }
        Bytes::from(bytes)
    }

    /// Takes in a read, and puts behind `plain` what it decrypts to.
    pub fn decrypt(&mut self, mut wire: &[u8], plain: &mut Vec<u8>) -> Arrived {
        let mut arrived = Arrived::default();
        while !wire.is_empty() && !self.ended {
            let (piece, rest) = wire.split_at(self.records.next(wire));
            wire = rest;
            let before = plain.len();
            let taken = self.take_in(piece, plain);
            arrived.more_followed = plain.len() == before;
            match taken {
                Ok(closed) => {
                    arrived.closed |= closed;
                    self.ended |= closed;
                }
                Err(fault) => {
                    arrived.fault = Some(fault);
                    self.ended = true;
                }
            }
        }
        arrived.inside_record = self.records.inside();
        arrived.more_followed |= !wire.is_empty();
        arrived
    }

    /// Takes in at most one record; whether it was the peer's last.
    fn take_in(&mut self, mut piece: &[u8], plain: &mut Vec<u8>) -> Result<bool, TlsFault> {
        let mut closed = false;
        while !piece.is_empty() && !closed {
            // some 4 KiB a call
            let before = piece.len();
            self.connection.read_tls(&mut piece).map_err(|_| TlsFault::Broken)?;
            let state = self.connection.process_new_packets().map_err(|error| {
                self.detail = Some(error.to_string());
                match TlsFault::of(&error, self.shows_certificate, self.greeted) {
                    TlsFault::NotTls if self.records.are_plain_http() => TlsFault::PlainHttp,
                    fault => fault,
                }
            })?;
            closed = state.peer_has_closed();
            let mut left = state.plaintext_bytes_to_read();
            let mut reader = self.connection.reader();
            while left > 0 {
                let n = match reader.fill_buf() {
                    Ok(bytes) if !bytes.is_empty() => {
                        plain.extend_from_slice(bytes);
                        bytes.len()
                    }
                    // rustls said that there is more
                    _ => return Err(TlsFault::Broken),
                };
                reader.consume(n);
                left = left.saturating_sub(n);
            }
            if piece.len() == before && !closed {
                return Err(TlsFault::Broken);
            }
        }
        self.greeted |= !self.records.inside();
        Ok(closed)
    }

    /// What was agreed on; None before the end of the handshake.
    pub fn agreed(&self) -> Option<Agreed> {
        let version = self.connection.protocol_version().filter(|_| self.is_open())?;
        Some(Agreed {
            version: match version {
                rustls::ProtocolVersion::TLSv1_3 => "TLS 1.3",
                _ => "TLS 1.2",
            },
            cipher: self
                .connection
                .negotiated_cipher_suite()
                .map_or_else(String::new, |suite| format!("{:?}", suite.suite()).replace("TLS13_", "TLS_")),
            alpn: self.connection.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned()),
            resumed: self.connection.handshake_kind() == Some(HandshakeKind::Resumed),
            chain: self.connection.peer_certificates().unwrap_or_default().iter().map(|der| der.to_vec()).collect(),
        })
    }

    /// More words for the fault it ended with, of rustls.
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// Changes this end's keys, and asks the peer to change its own, with the next bytes sent (RFC 8446, 4.6.3). Only
    /// TLS 1.3 can.
    ///
    /// # Errors
    /// [`TlsFault::Broken`] over TLS 1.2 and before the end of the handshake.
    pub fn renew_keys(&mut self) -> Result<(), TlsFault> {
        self.connection.refresh_traffic_keys().map_err(|_| TlsFault::Broken)
    }
}
