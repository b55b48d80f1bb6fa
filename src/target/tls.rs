//! How connections to a server are secured: the flags, and what a handshake showed.

use super::address::Target;
use crate::workload::hex;
use bench_engine::clock::SystemClock;
use bench_engine::wire::certificate::Certificate;
use bench_engine::wire::tls::{Agreed, BadClient, Client, ClientOptions, Identity, Trust};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;
use zeroize::Zeroizing;

/// The flags of TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsWords {
    /// `--ca-file`.
    pub ca_file: Option<PathBuf>,
    /// `--client-cert` and `--client-key`.
    pub client: Option<(PathBuf, PathBuf)>,
    /// `--insecure`.
    pub insecure: bool,
    /// `--tls-resume`.
    pub resume: bool,
}

/// Flags of TLS that lead to nothing.
#[derive(Debug, Error)]
pub enum BadTls {
    /// A file that cannot be read.
    #[error("{flag} {}: {why}", path.display())]
    Unreadable {
        /// Which flag.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's words.
        why: io::Error,
    },
    /// A file that is not what it should be.
    #[error("{flag} {}: {bad}", path.display())]
    Useless {
        /// Which flag.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        bad: BadClient,
    },
    /// Something else.
    #[error("TLS: {0}")]
    Other(BadClient),
}

impl TlsWords {
    /// A client for this host.
    ///
    /// # Errors
    /// [`BadTls`] names the flag and the file.
    pub fn client(&self, host: &str) -> Result<Client, BadTls> {
        let read = |flag, path: &Path| {
            let bytes = std::fs::read(path).map(Zeroizing::new);
            bytes.map_err(|why| BadTls::Unreadable { flag, path: path.to_owned(), why })
        };
        let roots = self.ca_file.as_deref().map(|path| read("--ca-file", path)).transpose()?;
        let shown = match &self.client {
            None => None,
            Some((chain, key)) => Some((read("--client-cert", chain)?, read("--client-key", key)?)),
        };
        let options = ClientOptions {
            host,
            trust: match (&roots, self.insecure) {
                (_, true) => Trust::Anyone,
                (Some(pem), false) => Trust::Pem(pem),
                (None, false) => Trust::Public,
            },
            identity: shown.as_ref().map(|(chain, key)| Identity { chain, key }),
            resume: self.resume,
            now: || SystemClock.wall(),
        };
        Client::new(&options).map_err(|bad| {
            let (flag, path) = match (&bad, &self.ca_file, &self.client) {
                (BadClient::NoRoots | BadClient::BadRoot(_), Some(path), _) => ("--ca-file", path),
                (BadClient::NoChain | BadClient::NotAPair(_), _, Some((chain, _))) => ("--client-cert", chain),
                (BadClient::NoKey, _, Some((_, key))) => ("--client-key", key),
                _ => return BadTls::Other(bad),
            };
            BadTls::Useless { flag, path: path.clone(), bad }
        })
    }

    /// The same towards somebody else: who we are is shown to the server alone.
    pub fn to_others(&self) -> TlsWords {
        TlsWords { client: None, ..self.clone() }
    }

    /// Whose word is taken for the server's certificate.
    pub fn roots(&self) -> Roots {
        match (self.insecure, &self.ca_file) {
            (true, _) => Roots::Nobody,
            (false, Some(_)) => Roots::File,
            (false, None) => Roots::WebpkiRoots,
        }
    }

    /// What of it is part of a plan. Paths are not: what they lead to is told by the handshake.
    pub fn planned(&self) -> Planned {
        Planned { roots: self.roots(), client_certificate: self.client.is_some(), resume: self.resume }
    }
}

/// Whose word is taken for a server's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Roots {
    /// The list of CAs that is built in.
    WebpkiRoots,
    /// `--ca-file`.
    File,
    /// Nobody's: `--insecure`.
    Nobody,
}

/// TLS as planned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Planned {
    /// Who vouches for the server.
    pub roots: Roots,
    /// A client certificate is shown when it is asked for.
    pub client_certificate: bool,
    /// Sessions are resumed where the server offers it.
    pub resume: bool,
}

/// What one handshake showed, for `plan.json` and for people.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shown {
    /// `TLS 1.3`, `TLS 1.2`.
    pub version: &'static str,
    /// Cipher suite.
    pub cipher: String,
    /// Protocol chosen by ALPN; null: the server chose none.
    pub alpn: Option<String>,
    /// Length of the handshake as this process saw it, in us: TCP's is not in it.
    pub handshake_us: f64,
    /// Name that the certificate was held against.
    pub server_name: String,
    /// Who vouched for it.
    #[serde(flatten)]
    pub planned: Planned,
    /// The server's own certificate; null: it is not readable.
    pub certificate: Option<ShownCertificate>,
    /// Certificates that the server sent.
    pub certificates_sent: usize,
}

/// The server's own certificate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShownCertificate {
    /// Whose it is.
    pub subject: String,
    /// Who signed it.
    pub issuer: String,
    /// First second of its validity, RFC 3339.
    pub not_before: String,
    /// Last second.
    pub not_after: String,
    /// SHA-256 of its DER, hex.
    pub sha256: String,
}

impl Shown {
    /// What was agreed on with `target`, in so many microseconds.
    pub fn of(target: &Target, agreed: Agreed, handshake_us: f64) -> Shown {
        let certificate = agreed.chain.first().and_then(|der| {
            let said = Certificate::read(der)?;
            let legible = |text: &str| crate::lettering::legible(text).into_owned();
            Some(ShownCertificate {
                subject: legible(&said.subject),
                issuer: legible(&said.issuer),
                not_before: date(said.not_before),
                not_after: date(said.not_after),
                sha256: hex(&Sha256::digest(der)),
            })
        });
        Shown {
            version: agreed.version,
            cipher: agreed.cipher,
            alpn: agreed.alpn,
            handshake_us,
            server_name: target.host.clone(),
            planned: target.tls_words.planned(),
            certificate,
            certificates_sent: agreed.chain.len(),
        }
    }

    /// `TLS 1.3, TLS_AES_256_GCM_SHA384, ALPN http/1.1; certificate CN=x of CN=y until 2027-01-01; roots of --ca-file`.
    pub fn words(&self) -> String {
        let alpn = self.alpn.as_ref().map_or_else(|| "no ALPN".to_owned(), |name| format!("ALPN {name}"));
        let certificate = self.certificate.as_ref().map_or_else(String::new, |c| {
            let day = c.not_after.split('T').next().unwrap_or_default();
            format!("; certificate {} of {} until {day}", c.subject, c.issuer)
        });
        let roots = match self.planned.roots {
            Roots::WebpkiRoots => "verified by the built-in list of CAs",
            Roots::File => "verified by --ca-file",
            Roots::Nobody => "NOT VERIFIED (--insecure): it may be anybody",
        };
        let identity =
            if self.planned.client_certificate { "; a client certificate is shown when asked for" } else { "" };
        let resume = if self.planned.resume { "; sessions are resumed" } else { "; every handshake is a full one" };
        format!("{}, {}, {alpn}{certificate}; {roots}{identity}{resume}", self.version, self.cipher)
    }
}

/// RFC 3339 of seconds since 1970; years outside 1970..9999 stand as the nearest that can be written.
fn date(seconds: i64) -> String {
    let seconds = seconds.clamp(0, 253_402_300_799) as u64;
    let stamp = crate::campaign::timestamp_of_second(seconds);
    let (day, time) = stamp.split_once('T').unwrap_or((&stamp, ""));
    format!("{day}T{}Z", time.replace('-', ":"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_and_its_file_are_named() {
        let said = |words: &TlsWords| words.client("h").expect_err("refused").to_string();
        let mut file = tempfile::NamedTempFile::new().expect("file");
        std::io::Write::write_all(&mut file, b"hello\n").expect("written");
        let path = file.path().to_owned();
        let none = TlsWords { ca_file: Some("/nowhere/ca.pem".into()), ..TlsWords::default() };
        assert!(said(&none).starts_with("--ca-file /nowhere/ca.pem: "), "{}", said(&none));
        let empty = TlsWords { ca_file: Some(path.clone()), ..TlsWords::default() };
        assert!(said(&empty).starts_with(&format!("--ca-file {}: no certificate in it", path.display())));
        let identity = TlsWords { client: Some((path.clone(), path)), ..TlsWords::default() };
        assert!(said(&identity).starts_with("--client-cert "), "{}", said(&identity));
        assert!(TlsWords::default().client("a b").expect_err("no name").to_string().contains("a b"));
    }

    #[test]
    fn who_vouches_is_said() {
        let words = TlsWords { insecure: true, resume: true, ..TlsWords::default() };
        let planned = serde_json::to_string(&words.planned()).expect("JSON");
        assert_eq!(planned, r#"{"roots":"nobody","client_certificate":false,"resume":true}"#);
        assert_eq!(TlsWords::default().roots(), Roots::WebpkiRoots);
        let shown = Shown {
            version: "TLS 1.3",
            cipher: "TLS_AES_128_GCM_SHA256".to_owned(),
            alpn: None,
            handshake_us: 1.5,
            server_name: "h".to_owned(),
            planned: words.planned(),
            certificate: None,
            certificates_sent: 0,
        };
        assert!(shown.words().contains("NOT VERIFIED") && shown.words().contains("resumed"), "{}", shown.words());
        assert_eq!(date(1_796_149_375), "2026-12-01T18:22:55Z");
        assert_eq!((date(-5), date(i64::MAX)), ("1970-01-01T00:00:00Z".to_owned(), "9999-12-31T23:59:59Z".to_owned()));
    }
}
