//! Why TLS failed, in words that say what to do.

use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};
use std::fmt;
use thiserror::Error as Fault;

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
    /// Behind an error of rustls; `greeted` when the server had been understood before.
    pub(super) fn of(error: &Error, shows_certificate: bool, greeted: bool) -> TlsFault {
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
