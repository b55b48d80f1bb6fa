//! What connections to one server have in common: whom it is taken for, who vouches for it, what is shown to it.

use super::fault::TlsFault;
use super::session::Session;
use super::verifier::{Unasked, Vouched};
use crate::units::WallInstant;
use rustls::client::Resumption;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, ClientConnection, Error, RootCertStore};
use std::fmt;
use std::sync::Arc;
use thiserror::Error as Fault;

/// The one protocol offered by ALPN (RFC 7301).
const HTTP_1_1: &[u8] = b"http/1.1";
/// Sessions remembered where resumption is asked for.
const REMEMBERED: usize = 64;

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
        Ok(Session::new(made.map_err(|_| TlsFault::Local)?, self.shows_certificate))
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
