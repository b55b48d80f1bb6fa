//! Where a server is: its base URL, taken apart and resolved once, before anything is measured.

use http::Uri;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use thiserror::Error;

/// A server's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// As given, without a trailing slash.
    pub base_url: String,
    /// Host as it stands in the URL.
    pub host: String,
    /// Port.
    pub port: u16,
    /// `Host` header.
    pub authority: String,
    /// Path before the endpoint, without a trailing slash.
    pub prefix: String,
    /// The address used throughout.
    pub address: SocketAddr,
    /// Everything the name resolved to.
    pub resolved: Vec<SocketAddr>,
}

/// A base URL that leads nowhere.
#[derive(Debug, Error)]
pub enum AddressError {
    /// Not a URL.
    #[error("{flag} {url:?} is no URL of the form http://host:port ({why})")]
    NotAUrl {
        /// Where it was given.
        flag: &'static str,
        /// As given.
        url: String,
        /// What is wrong.
        why: String,
    },
    /// https.
    #[error(
        "{flag} {url:?}: https is not supported yet; give a plain http:// address, e.g. of the server itself behind its proxy"
    )]
    Https {
        /// Where it was given.
        flag: &'static str,
        /// As given.
        url: String,
    },
    /// The name is not known.
    #[error("dns: the host {host:?} of {flag} does not resolve: {why}")]
    Dns {
        /// Where it was given.
        flag: &'static str,
        /// The name.
        host: String,
        /// The resolver's words.
        why: std::io::Error,
    },
    /// `--address` is not among what the name resolved to, nor an IP.
    #[error("--address {0:?} is no IP address, e.g. 127.0.0.1")]
    BadPin(String),
}

impl Target {
    /// Takes the `--base-url` apart and resolves its host. `pin` replaces the resolved address.
    ///
    /// # Errors
    /// [`AddressError`].
    pub fn resolve(url: &str, pin: Option<&str>) -> Result<Self, AddressError> {
        Target::resolve_given_by("--base-url", url, pin)
    }

    /// The same for a URL given by another flag.
    ///
    /// # Errors
    /// [`AddressError`], which names the flag.
    pub fn resolve_given_by(flag: &'static str, url: &str, pin: Option<&str>) -> Result<Self, AddressError> {
        // what may be a secret (user info, a query) is not repeated
        let shown = url.split(['?', '#']).next().unwrap_or_default();
        let shown = shown.rsplit_once('@').map_or(shown.to_owned(), |(_, host)| format!("...@{host}"));
        let not_a_url = |why: &str| AddressError::NotAUrl { flag, url: shown.clone(), why: why.to_owned() };
        let uri: Uri = url.parse().map_err(|e: http::uri::InvalidUri| not_a_url(&e.to_string()))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(AddressError::Https { flag, url: shown }),
            Some(other) => return Err(not_a_url(&format!("scheme {other:?}"))),
            None => return Err(not_a_url("no http:// in front")),
        }
        if uri.authority().is_some_and(|a| a.as_str().contains('@')) {
            return Err(not_a_url("user and password in a URL would be printed; use --header or --api-key-env"));
        }
        if uri.query().is_some() {
            return Err(not_a_url("a query would be printed and never sent; use --header or --api-key-env"));
        }
        let host = uri.host().filter(|h| !h.is_empty()).ok_or_else(|| not_a_url("no host"))?;
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let port = uri.port_u16().unwrap_or(80);
        let resolved: Vec<SocketAddr> = (bare, port)
            .to_socket_addrs()
            .map_err(|why| AddressError::Dns { flag, host: host.to_owned(), why })?
            .collect();
        let resolved = match pin {
            // a pinned address is used or nothing is
            Some(pin) => {
                vec![SocketAddr::new(pin.parse::<IpAddr>().map_err(|_| AddressError::BadPin(pin.to_owned()))?, port)]
            }
            None => resolved,
        };
        let address = *resolved.first().ok_or_else(|| AddressError::Dns {
            flag,
            host: host.to_owned(),
            why: std::io::Error::other("no address"),
        })?;
        Ok(Target {
            base_url: url.trim_end_matches('/').to_owned(),
            host: host.to_owned(),
            port,
            authority: if uri.port().is_some() { format!("{host}:{port}") } else { host.to_owned() },
            prefix: uri.path().trim_end_matches('/').to_owned(),
            address,
            resolved,
        })
    }

    /// The path of `endpoint` on this server. A base URL that ends in `/v1` and an endpoint that begins with
    /// it share it.
    pub fn path(&self, endpoint: &str) -> String {
        let shared = self.prefix.ends_with("/v1") && endpoint.starts_with("/v1/");
        format!("{}{}", self.prefix, if shared { &endpoint[3..] } else { endpoint })
    }

    /// Where this server's `/metrics` would be: beside `/v1`, not below it.
    pub fn metrics_path(&self) -> String {
        format!("{}/metrics", self.prefix.strip_suffix("/v1").unwrap_or(&self.prefix))
    }

    /// Uses the next address that answers, for names that resolve to several (`localhost` to ::1 and 127.0.0.1).
    pub fn use_address(&mut self, address: SocketAddr) {
        self.address = address;
    }

    /// The server is on this machine's loopback.
    pub fn is_loopback(&self) -> bool {
        self.address.ip().is_loopback()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_as_people_write_them() {
        let t = Target::resolve("http://127.0.0.1:8000/v1/", None).expect("resolves");
        assert_eq!((t.authority.as_str(), t.port, t.is_loopback()), ("127.0.0.1:8000", 8000, true));
        assert_eq!(t.path("/v1/chat/completions"), "/v1/chat/completions");
        assert_eq!(t.metrics_path(), "/metrics");
        let t = Target::resolve("http://127.0.0.1/team/a", None).expect("resolves");
        assert_eq!(t.metrics_path(), "/team/a/metrics");
        assert_eq!((t.authority.as_str(), t.port), ("127.0.0.1", 80));
        assert_eq!(t.path("/v1/models"), "/team/a/v1/models");
        let t = Target::resolve("http://[::1]:9", None).expect("resolves");
        assert_eq!((t.authority.as_str(), t.address.to_string().as_str()), ("[::1]:9", "[::1]:9"));
        let t = Target::resolve("http://localhost:9", Some("127.0.0.1")).expect("resolves");
        assert_eq!(t.address.to_string(), "127.0.0.1:9");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let words = |url: &str| Target::resolve(url, None).expect_err("refused").to_string();
        assert!(words("127.0.0.1:8000").contains("http://"), "{}", words("127.0.0.1:8000"));
        assert!(words("https://x").contains("https is not supported yet"));
        assert!(words("ftp://x").contains("ftp"));
        assert!(
            words("http://u:secret@x/").contains("user and password")
                && !words("http://u:secret@x/").contains("secret")
        );
        assert!(!words("https://u:secret@x/?key=secret").contains("secret"));
        assert!(words("http://x/?key=hidden").contains("query") && !words("http://x/?key=hidden").contains("hidden"));
        assert!(words("http://no-such-host.invalid:1").starts_with("dns:"));
    }
}
