//! A CA for tests, certificates of its making, and servers that show them.

use rcgen::{CertificateParams, DnType, Issuer, KeyPair, date_time_ymd};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::sync::Arc;

/// A certificate with its key, both as PEM.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Its certificate.
    pub chain: String,
    /// Its key.
    pub key: String,
}

/// A CA.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate, PEM.
    pub pem: String,
}

impl Authority {
    /// A CA of this name.
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Authority { issuer: Issuer::new(params, key), pem }
    }

    /// A certificate for these names, valid in these years.
    pub fn certify(&self, names: &[&str], years: (i32, i32)) -> Shown {
        let key = KeyPair::generate().expect("a key");
        let chain = parameters(names, years).signed_by(&key, &self.issuer).expect("signed").pem();
        Shown { chain, key: key.serialize_pem() }
    }

    /// One that is valid for `localhost` and 127.0.0.1.
    pub fn local(&self) -> Shown {
        self.certify(&["localhost", "127.0.0.1"], (2020, 2120))
    }
}

fn parameters(names: &[&str], years: (i32, i32)) -> CertificateParams {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(names).expect("names");
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "a server");
    (params.not_before, params.not_after) = (date_time_ymd(years.0, 1, 1), date_time_ymd(years.1, 1, 1));
    params
}

/// A certificate that signed itself, and says that it is a CA, as `openssl req -x509` makes them.
pub fn self_signed(names: &[&str], years: (i32, i32)) -> Shown {
    let mut params = parameters(names, years);
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    Shown { chain: params.self_signed(&key).expect("a certificate").pem(), key: key.serialize_pem() }
}

/// What a server of a test insists on.
#[derive(Default)]
pub struct Demands<'a> {
    /// Protocols by ALPN; empty: it does not care.
    pub alpn: &'a [&'a str],
    /// A client certificate of this CA.
    pub client_of: Option<&'a Authority>,
    /// TLS 1.2 only.
    pub old: bool,
}

/// A server that shows `shown`.
pub fn server(shown: &Shown, demands: &Demands<'_>) -> Arc<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions: &[_] = if demands.old { &[&rustls::version::TLS12] } else { rustls::ALL_VERSIONS };
    let builder =
        ServerConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(versions).expect("versions");
    let builder = match demands.client_of {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(authority.pem.as_bytes()).expect("PEM")).expect("a CA");
            let asks = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().expect("a CA");
            builder.with_client_cert_verifier(asks)
        }
    };
    let chain = CertificateDer::pem_slice_iter(shown.chain.as_bytes()).collect::<Result<_, _>>().expect("PEM");
    let key = PrivateKeyDer::from_pem_slice(shown.key.as_bytes()).expect("PEM");
    let mut config = builder.with_single_cert(chain, key).expect("a pair");
    config.alpn_protocols = demands.alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::new(config)
}
