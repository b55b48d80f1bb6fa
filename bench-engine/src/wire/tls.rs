//! TLS as a box: the bytes of the wire in, plain bytes out, and the other way round. The only file that names rustls.
//!
//! What decrypts is told record by record, so that the stamp of a read keeps its meaning: an event belongs to the read that
//! completed its record, and [`Arrived::more_followed`] says that other bytes came behind it in that read.
//!
//! rustls allocates: a session's buffers, every record that goes out. A worker that speaks TLS therefore does allocate in a
//! window, and its cost is in its tare.

use crate::units::WallInstant;
use bytes::Bytes;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::time_provider::TimeProvider;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, HandshakeKind,
    PeerIncompatible, RootCertStore, SignatureScheme,
};
use std::fmt;
use std::io::{BufRead, Write};
use std::sync::Arc;
use thiserror::Error as Fault;

use super::certificate::Certificate;

/// The one protocol offered by ALPN (RFC 7301).
const HTTP_1_1: &[u8] = b"http/1.1";
/// Sessions remembered where resumption is asked for.
const REMEMBERED: usize = 64;
/// Bytes of a record's head (RFC 8446, 5.1).
const RECORD_HEAD: usize = 5;

/// Whose word is taken for a server's certificate.
#[derive(Clone, Copy, Debug)]
pub enum Trust<'a> {
    /// The CAs of Mozilla's list, as built into the binary.
    Public,
    /// Those of a PEM file and nobody else. A server's own certificate may stand in it.
    Pem(&'a [u8]),
    /// Nobody is asked: whoever answers is believed.
    Anyone,
}

/// The certificate that the client shows, and its key, as PEM.
#[derive(Clone, Copy)]
pub struct Identity<'a> {
    /// Its chain, its own certificate first.
    pub chain: &'a [u8],
    /// Its key.
    pub key: &'a [u8],
}

/// What connections to one server have in common.
#[derive(Clone, Copy)]
pub struct ClientOptions<'a> {
    /// Name or address that the server's certificate must have; also sent as SNI when it is a name.
    pub host: &'a str,
    /// Who vouches for it.
    pub trust: Trust<'a>,
    /// What is shown when the server asks.
    pub identity: Option<Identity<'a>>,
    /// Sessions are resumed by ticket where the server offers it: a shorter handshake.
    pub resume: bool,
    /// The time, for the validity of certificates.
    pub now: fn() -> WallInstant,
}

/// Why TLS cannot be spoken as asked.
#[derive(Clone, Debug, PartialEq, Eq, Fault)]
pub enum BadClient {
    /// No certificate in the file of CAs.
    #[error("no certificate in it: a PEM file with -----BEGIN CERTIFICATE----- is needed")]
    NoRoots,
    /// A certificate in it that cannot be used.
    #[error("a certificate in it cannot be used: {0}")]
    BadRoot(String),
    /// No certificate in the client's own file.
    #[error(
        "no certificate in it: a PEM file with the client's certificate, then those that lead to its CA, is needed"
    )]
    NoChain,
    /// No key in the client's own file. What is in it is not repeated.
    #[error("no private key in it: a PEM file with an unencrypted key (PKCS#8, PKCS#1 or SEC1) is needed")]
    NoKey,
    /// They do not belong together, or are of a kind that is not known here.
    #[error("certificate and key do not go together: {0}")]
    NotAPair(String),
    /// The server has a name that no certificate can have.
    #[error("{0:?} is no host name that a certificate can have")]
    BadName(String),
    /// rustls refuses.
    #[error("{0}")]
    Other(String),
}

/// How connections to one server are secured. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    shows_certificate: bool,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PartialEq for Client {
    /// The very same settings.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.config, &other.config) && self.name == other.name
    }
}

impl Eq for Client {}

impl Client {
    /// A client as asked.
    ///
    /// # Errors
    /// [`BadClient`], without anything of a key.
    pub fn new(options: &ClientOptions<'_>) -> Result<Client, BadClient> {
        let other = |e: Error| BadClient::Other(e.to_string());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let name = ServerName::try_from(options.host.trim_matches(['[', ']']).to_owned())
            .map_err(|_| BadClient::BadName(options.host.to_owned()))?;
        let verifier: Arc<dyn ServerCertVerifier> = match options.trust {
            Trust::Anyone => Arc::new(Unasked(provider.signature_verification_algorithms)),
            Trust::Public => {
                let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
                Arc::new(Vouched::of(roots, Vec::new(), &provider)?)
            }
            Trust::Pem(pem) => {
                let given = certificates(pem).map_err(BadClient::BadRoot)?;
                if given.is_empty() {
                    return Err(BadClient::NoRoots);
                }
                let mut roots = RootCertStore::empty();
                for one in &given {
                    roots.add(one.clone()).map_err(|e| BadClient::BadRoot(e.to_string()))?;
                }
                Arc::new(Vouched::of(roots, given, &provider)?)
            }
        };
        let builder = ClientConfig::builder_with_details(provider, Arc::new(Now(options.now)))
            .with_safe_default_protocol_versions()
            .map_err(other)?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match options.identity {
            None => builder.with_no_client_auth(),
            Some(Identity { chain, key }) => {
                let chain = certificates(chain).map_err(|_| BadClient::NoChain)?;
                if chain.is_empty() {
                    return Err(BadClient::NoChain);
                }
                let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| BadClient::NoKey)?;
                builder.with_client_auth_cert(chain, key).map_err(|e| BadClient::NotAPair(e.to_string()))?
            }
        };
        config.alpn_protocols = vec![HTTP_1_1.to_vec()];
        config.resumption =
            if options.resume { Resumption::in_memory_sessions(REMEMBERED) } else { Resumption::disabled() };
        Ok(Client { config: Arc::new(config), name, shows_certificate: options.identity.is_some() })
    }

    /// A new session, which begins with what [`Session::outgoing`] gives.
    ///
    /// # Errors
    /// [`TlsFault::Local`]: what a session needs of this host is not there.
    pub fn session(&self) -> Result<Session, TlsFault> {
        let made = ClientConnection::new(Arc::clone(&self.config), self.name.clone());
        let mut connection = made.map_err(|_| TlsFault::Local)?;
        // a request goes out whole, however long it is
        connection.set_buffer_limit(None);
        Ok(Session {
            connection,
            records: Records::default(),
            shows_certificate: self.shows_certificate,
            greeted: false,
            ended: false,
            detail: None,
        })
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|e| e.to_string())
}

/// The time as the caller tells it.
struct Now(fn() -> WallInstant);

impl fmt::Debug for Now {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Now")
    }
}

impl TimeProvider for Now {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(core::time::Duration::from_nanos((self.0)().ns())))
    }
}

/// A CA vouches for the server, or its own certificate is among those that were given.
#[derive(Debug)]
struct Vouched {
    by_ca: Arc<WebPkiServerVerifier>,
    given: Vec<CertificateDer<'static>>,
}

impl Vouched {
    fn of(
        roots: RootCertStore,
        given: Vec<CertificateDer<'static>>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, BadClient> {
        let by_ca = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
            .build()
            .map_err(|e| BadClient::Other(e.to_string()))?;
        Ok(Vouched { by_ca, given })
    }
}

impl ServerCertVerifier for Vouched {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // `openssl req -x509` makes a CA of itself, which as a server's own certificate would be refused by the rules of CAs
        if !self.given.contains(end_entity) {
            return self.by_ca.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        }
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        let said = Certificate::read(end_entity).ok_or(CertificateError::BadEncoding)?;
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        if seconds < said.not_before {
            return Err(CertificateError::NotValidYet.into());
        }
        if seconds > said.not_after {
            return Err(CertificateError::Expired.into());
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_ca.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_ca.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by_ca.supported_verify_schemes()
    }
}

/// Whoever has the key of the certificate shown is believed, whatever the certificate says.
#[derive(Debug)]
struct Unasked(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for Unasked {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

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
                    // what a record's head was taken to be is how a status line begins
                    TlsFault::NotTls if self.records.head == *b"HTTP/" => TlsFault::PlainHttp,
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

/// Where records begin and end in the bytes of a connection.
#[derive(Debug, Default)]
struct Records {
    head: [u8; RECORD_HEAD],
    /// Bytes of the head that were seen.
    seen: usize,
    /// Bytes of the record that are still to come, behind its head.
    left: usize,
}

impl Records {
    /// How many of these bytes belong to the current record: all, or as far as its end.
    fn next(&mut self, bytes: &[u8]) -> usize {
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

    /// In the middle of one.
    fn inside(&self) -> bool {
        self.seen > 0
    }
}

/// Why there is no TLS session, or no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Fault)]
pub enum TlsFault {
    /// Its validity is over.
    #[error("the server's certificate has expired: it must be renewed, or the clock of this host is wrong")]
    Expired,
    /// Its validity has not begun.
    #[error("the server's certificate is not valid yet: the clock of this host or of its CA is wrong")]
    NotYetValid,
    /// It is for other names.
    #[error(
        "the server's certificate is for another host: give a name that stands in it as --base-url (--address says where it is)"
    )]
    WrongHost,
    /// Nobody trusted has signed it.
    #[error("the server's certificate is of an unknown CA: --ca-file FILE trusts the one of a private CA")]
    UnknownCa,
    /// Its CA has withdrawn it.
    #[error("the server's certificate was revoked")]
    Revoked,
    /// It is made for something else.
    #[error("the server's certificate is not made for servers (extended key usage, or it is a CA's own)")]
    WrongPurpose,
    /// Anything else about it.
    #[error("the server's certificate cannot be used: malformed, badly signed, or of a kind that is not known here")]
    BadCertificate,
    /// It showed none.
    #[error("the server showed no certificate")]
    NoCertificate,
    /// No version in common.
    #[error("no shared version: the server speaks neither TLS 1.3 nor TLS 1.2, and older ones are not safe")]
    NoSharedVersion,
    /// No cipher suite, group or signature scheme in common.
    #[error("no shared cipher: the server and this client have no cipher suite, key exchange or signature in common")]
    NoSharedCipher,
    /// The server chose no protocol of ours.
    #[error(
        "the server speaks no HTTP/1.1 over TLS (ALPN): it insists on another protocol, as a rule HTTP/2, which is not spoken here"
    )]
    NoHttp11,
    /// It wants to know who we are.
    #[error("the server wants a client certificate: give --client-cert and --client-key")]
    ClientCertificateWanted,
    /// It does not like who we are.
    #[error(
        "the server refused the client certificate (alert {0}): is it of the CA that the server trusts, and valid?"
    )]
    ClientCertificateRefused(Alert),
    /// `handshake_failure` can mean either.
    #[error(
        "the server refused the handshake (alert {0}): no shared cipher, or it wants another or any client certificate"
    )]
    Refused(Alert),
    /// It knows no such name.
    #[error("the server has nothing under this host name (alert {0}): give the name it serves as --base-url")]
    UnknownName(Alert),
    /// Any other alert.
    #[error("the server ended TLS with alert {0}")]
    Alert(Alert),
    /// It does not speak TLS.
    #[error("what the server sends is not TLS: is it a plain http:// port?")]
    NotTls,
    /// It speaks plain HTTP.
    #[error("the server answered in plain HTTP: this port speaks http://, and was asked over https://")]
    PlainHttp,
    /// It does, but wrongly.
    #[error("the server breaks the rules of TLS")]
    Broken,
    /// A record that does not decrypt.
    #[error("a TLS record does not decrypt: it was changed on the way, or the keys differ")]
    Undecryptable,
    /// Closed before the handshake was over.
    #[error("the connection was cut in the TLS handshake")]
    CutInHandshake,
    /// No answer to the handshake in time.
    #[error("no answer to the TLS handshake in time: is it a plain http:// port?")]
    Silent,
    /// This host has no randomness or no time.
    #[error("this host gives no random bytes for TLS")]
    Local,
}

impl TlsFault {
    fn of(error: &Error, shows_certificate: bool, greeted: bool) -> TlsFault {
        match error {
            Error::InvalidCertificate(bad) => TlsFault::of_certificate(bad),
            Error::NoCertificatesPresented => TlsFault::NoCertificate,
            Error::NoApplicationProtocol => TlsFault::NoHttp11,
            Error::AlertReceived(alert) => TlsFault::of_alert(*alert, shows_certificate),
            Error::DecryptError => TlsFault::Undecryptable,
            Error::PeerIncompatible(
                PeerIncompatible::ServerDoesNotSupportTls12Or13
                | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
                | PeerIncompatible::SupportedVersionsExtensionRequired,
            ) => TlsFault::NoSharedVersion,
            Error::PeerIncompatible(_) => TlsFault::NoSharedCipher,
            Error::InvalidMessage(_) if !greeted => TlsFault::NotTls,
            Error::FailedToGetCurrentTime | Error::FailedToGetRandomBytes => TlsFault::Local,
            _ => TlsFault::Broken,
        }
    }

    fn of_certificate(bad: &CertificateError) -> TlsFault {
        match bad {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => TlsFault::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => TlsFault::NotYetValid,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => TlsFault::WrongHost,
            CertificateError::UnknownIssuer => TlsFault::UnknownCa,
            CertificateError::Revoked => TlsFault::Revoked,
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => TlsFault::WrongPurpose,
            // a certificate that signed itself is a CA's own, and no CA that is trusted
            CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => TlsFault::UnknownCa,
            _ => TlsFault::BadCertificate,
        }
    }

    fn of_alert(alert: AlertDescription, shows_certificate: bool) -> TlsFault {
        let code = Alert(alert.into());
        match alert {
            AlertDescription::CertificateRequired | AlertDescription::NoCertificate => {
                TlsFault::ClientCertificateWanted
            }
            AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied => match shows_certificate {
                true => TlsFault::ClientCertificateRefused(code),
                false => TlsFault::ClientCertificateWanted,
            },
            AlertDescription::ProtocolVersion => TlsFault::NoSharedVersion,
            AlertDescription::InsufficientSecurity => TlsFault::NoSharedCipher,
            AlertDescription::NoApplicationProtocol => TlsFault::NoHttp11,
            AlertDescription::HandshakeFailure => TlsFault::Refused(code),
            AlertDescription::UnrecognisedName => TlsFault::UnknownName(code),
            _ => TlsFault::Alert(code),
        }
    }
}

/// The number of an alert (RFC 8446, 6), shown with its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alert(pub u8);

impl fmt::Display for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match AlertDescription::from(self.0) {
            AlertDescription::Unknown(n) => write!(f, "{n}"),
            named => write!(f, "{} {named:?}", self.0),
        }
    }
}
