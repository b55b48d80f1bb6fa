//! Where a server is: its base URL, taken apart and resolved once, before anything is measured.

use super::secret::Way;
use super::tls::{BadTls, TlsWords};
use bench_engine::wire::tls::Client;
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
    /// The address of whatever is asked once.
    pub address: SocketAddr,
    /// Those that connections take in turn, the one above first.
    pub used: Vec<SocketAddr>,
    /// Everything the name resolved to, or `--address`.
    pub resolved: Vec<SocketAddr>,
    /// They were given by `--address`.
    pub pinned: bool,
    /// How connections are secured; None: plain HTTP.
    pub tls: Option<Client>,
    /// The flags behind that.
    pub tls_words: TlsWords,
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
    /// Flags of TLS.
    #[error(transparent)]
    Tls(#[from] BadTls),
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
    /// `--address` is no IP.
    #[error(
        "--address {0:?} is no IP address, e.g. 127.0.0.1 or ::1, nor several with commas between them; a port stands in \
         --base-url"
    )]
    BadPin(String),
    /// `--address` is of the other family than the address in the URL.
    #[error("--address {address} is an {} address, and the host of {flag}, {host}, an {}: give one of its family, or a name as the host", family(*address), family(*literal))]
    OtherFamily {
        /// As given.
        address: IpAddr,
        /// Where the host was given.
        flag: &'static str,
        /// As it stands in the URL.
        host: String,
        /// What that is.
        literal: IpAddr,
    },
}

fn family(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}

/// A base URL taken apart. Nothing was asked of anybody.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Parts {
    flag: &'static str,
    secure: bool,
    /// As it stands in the URL.
    host: String,
    port: u16,
    /// The port stands in the URL.
    has_port: bool,
    prefix: String,
}

impl Parts {
    fn of(flag: &'static str, url: &str) -> Result<Parts, AddressError> {
        // what may be a secret (user info, a query) is not repeated
        let shown = url.split(['?', '#']).next().unwrap_or_default();
        let shown = shown.rsplit_once('@').map_or(shown.to_owned(), |(_, host)| format!("...@{host}"));
        let not_a_url = |why: &str| AddressError::NotAUrl { flag, url: shown.clone(), why: why.to_owned() };
        let uri: Uri = url.parse().map_err(|e: http::uri::InvalidUri| not_a_url(&e.to_string()))?;
        let secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            Some(other) => return Err(not_a_url(&format!("scheme {other:?}"))),
            None => return Err(not_a_url("no http:// or https:// in front")),
        };
        if uri.authority().is_some_and(|a| a.as_str().contains('@')) {
            return Err(not_a_url(
                "user and password in a URL would be printed; use --header, --api-key-env or --api-key-file",
            ));
        }
        if uri.query().is_some() {
            return Err(not_a_url(
                "a query would be printed and never sent; use --header, --api-key-env or --api-key-file",
            ));
        }
        let host = uri.host().filter(|h| !h.is_empty()).ok_or_else(|| not_a_url("no host"))?;
        Ok(Parts {
            flag,
            secure,
            host: host.to_owned(),
            port: uri.port_u16().unwrap_or(if secure { 443 } else { 80 }),
            has_port: uri.port().is_some(),
            prefix: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    /// An IPv6 address stands in brackets in a URL.
    fn bare_host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    fn pinned(&self, pin: &str) -> Result<Vec<SocketAddr>, AddressError> {
        let all: Result<Vec<IpAddr>, _> = pin.split(',').map(|one| one.trim().parse()).collect();
        let all = all.map_err(|_| AddressError::BadPin(pin.to_owned()))?;
        let literal = self.bare_host().parse::<IpAddr>().ok();
        let other = |literal: IpAddr| all.iter().find(|ip| ip.is_ipv4() != literal.is_ipv4()).map(|ip| (*ip, literal));
        if let Some((address, literal)) = literal.and_then(other) {
            return Err(AddressError::OtherFamily { address, flag: self.flag, host: self.host.clone(), literal });
        }
        Ok(all.into_iter().map(|ip| SocketAddr::new(ip, self.port)).collect())
    }
}

/// Whether what was given can lead to a server at all, as far as that can be said without asking anybody: the URL, the
/// addresses instead of its host's, the files of TLS.
///
/// # Errors
/// [`AddressError`], all but [`AddressError::Dns`].
pub fn check(flag: &'static str, url: &str, pin: Option<&str>, tls: &TlsWords) -> Result<(), AddressError> {
    let parts = Parts::of(flag, url)?;
    pin.map(|pin| parts.pinned(pin)).transpose()?;
    if parts.secure {
        tls.client(parts.bare_host())?;
    }
    Ok(())
}

impl Target {
    /// Takes the `--base-url` apart and resolves its host, once. `pin` replaces the resolved addresses.
    ///
    /// # Errors
    /// [`AddressError`].
    pub fn resolve(url: &str, pin: Option<&str>, tls: &TlsWords) -> Result<Self, AddressError> {
        Target::resolve_given_by("--base-url", url, pin, tls)
    }

    /// The same for a URL given by another flag.
    ///
    /// # Errors
    /// [`AddressError`], which names the flag.
    pub fn resolve_given_by(
        flag: &'static str,
        url: &str,
        pin: Option<&str>,
        tls: &TlsWords,
    ) -> Result<Self, AddressError> {
        let parts = Parts::of(flag, url)?;
        let resolved: Vec<SocketAddr> = match pin {
            // a pinned address is used or nothing is; the name need not resolve here
            Some(pin) => parts.pinned(pin)?,
            None => {
                let found = (parts.bare_host(), parts.port).to_socket_addrs();
                found.map_err(|why| AddressError::Dns { flag, host: parts.host.clone(), why })?.collect()
            }
        };
        let resolved: Vec<SocketAddr> = without_repeats(resolved);
        let address = *resolved.first().ok_or_else(|| AddressError::Dns {
            flag,
            host: parts.host.clone(),
            why: std::io::Error::other("no address"),
        })?;
        let tls_client = if parts.secure { Some(tls.client(parts.bare_host())?) } else { None };
        let Parts { host, port, has_port, prefix, .. } = parts;
        Ok(Target {
            base_url: url.trim_end_matches('/').to_owned(),
            authority: if has_port { format!("{host}:{port}") } else { host.clone() },
            host,
            port,
            prefix,
            address,
            used: vec![address],
            resolved,
            pinned: pin.is_some(),
            tls: tls_client,
            tls_words: tls.clone(),
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

    /// Settles which addresses are used: all that were pinned, whether or not they answer; else those that `answers`
    /// says yes to, of the family of the first such one: `localhost` is ::1 and 127.0.0.1, and a server with an address
    /// of either family is one server. With none that answers nothing changes.
    ///
    /// # Errors
    /// The first refusal when none of them answers, or one that was pinned does not.
    pub fn settle<E>(&mut self, mut answers: impl FnMut(SocketAddr) -> Result<(), E>) -> Result<(), E> {
        let (mut used, mut refusal): (Vec<SocketAddr>, Option<E>) = (Vec::new(), None);
        for address in &self.resolved {
            let family = used.first().map(SocketAddr::is_ipv4);
            if !self.pinned && family.is_some_and(|v4| v4 != address.is_ipv4()) {
                continue;
            }
            match answers(*address) {
                Ok(()) => used.push(*address),
                Err(why) if self.pinned => return Err(why),
                Err(why) => refusal = refusal.or(Some(why)),
            }
        }
        match (used.first(), refusal) {
            (None, Some(why)) => return Err(why),
            (None, None) => {}
            (Some(first), _) => {
                self.address = *first;
                self.used = used;
            }
        }
        Ok(())
    }

    /// How well the way there is guarded.
    pub fn way(&self) -> Way {
        match (&self.tls, self.tls_words.insecure) {
            _ if self.is_loopback() => Way::Loopback,
            (Some(_), false) => Way::Verified,
            (Some(_), true) => Way::Unverified,
            (None, _) => Way::Open,
        }
    }

    /// The server is on this machine's loopback.
    pub fn is_loopback(&self) -> bool {
        self.used.iter().all(|address| address.ip().is_loopback())
    }
}

fn without_repeats(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let mut seen = Vec::with_capacity(addresses.len());
    for address in addresses {
        if !seen.contains(&address) {
            seen.push(address);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_as_people_write_them() {
        let t = resolve("http://127.0.0.1:8000/v1/", None).expect("resolves");
        assert_eq!((t.authority.as_str(), t.port, t.is_loopback()), ("127.0.0.1:8000", 8000, true));
        assert_eq!(t.path("/v1/chat/completions"), "/v1/chat/completions");
        assert_eq!(t.metrics_path(), "/metrics");
        let t = resolve("http://127.0.0.1/team/a", None).expect("resolves");
        assert_eq!(t.metrics_path(), "/team/a/metrics");
        assert_eq!((t.authority.as_str(), t.port), ("127.0.0.1", 80));
        assert_eq!(t.path("/v1/models"), "/team/a/v1/models");
        let t = resolve("http://[::1]:9", None).expect("resolves");
        assert_eq!((t.authority.as_str(), t.address.to_string().as_str()), ("[::1]:9", "[::1]:9"));
        let t = resolve("http://localhost:9", Some("127.0.0.1")).expect("resolves");
        assert_eq!(t.address.to_string(), "127.0.0.1:9");
        let t = resolve("https://127.0.0.1/v1", None).expect("resolves");
        assert_eq!((t.port, t.authority.as_str(), t.tls.is_some()), (443, "127.0.0.1", true));
        let t = resolve("https://gw.invalid:8443", Some("127.0.0.1, 127.0.0.2,127.0.0.1")).expect("no name is asked");
        let shown: Vec<String> = t.resolved.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["127.0.0.1:8443", "127.0.0.2:8443"]);
    }

    #[test]
    fn addresses_that_answer_are_used_in_turn_and_one_family_only() {
        let with = |addresses: &[&str], pinned: bool, refuse: &[&str]| {
            let mut target = resolve("http://127.0.0.1:1", None).expect("resolves");
            target.resolved = addresses.iter().map(|a| a.parse().expect("an address")).collect();
            target.pinned = pinned;
            let settled = target.settle(|address| match refuse.contains(&address.to_string().as_str()) {
                true => Err(address),
                false => Ok(()),
            });
            settled.map(|()| {
                assert_eq!(target.address, target.used[0]);
                target.used.iter().map(ToString::to_string).collect::<Vec<_>>()
            })
        };
        let localhost = ["[::1]:1", "127.0.0.1:1"];
        assert_eq!(with(&localhost, false, &[]).expect("ok"), ["[::1]:1"]);
        assert_eq!(with(&localhost, false, &["[::1]:1"]).expect("ok"), ["127.0.0.1:1"]);
        assert_eq!(with(&localhost, false, &localhost).expect_err("none").to_string(), "[::1]:1", "the first refusal");
        let three = ["10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"];
        assert_eq!(with(&three, false, &["10.0.0.2:1"]).expect("ok"), ["10.0.0.1:1", "10.0.0.3:1"]);
        assert_eq!(with(&three, true, &["10.0.0.2:1"]).expect_err("pinned").to_string(), "10.0.0.2:1");
        assert_eq!(with(&["[::1]:1", "127.0.0.1:1"], true, &[]).expect("ok"), localhost, "pinned ones as they are");
    }

    #[test]
    fn the_way_there_is_guarded_or_not() {
        let way = |url: &str, insecure: bool| {
            let words = TlsWords { insecure, ..TlsWords::default() };
            Target::resolve(url, None, &words).expect("resolves").way()
        };
        assert_eq!(way("http://127.0.0.1:1", false), Way::Loopback);
        assert_eq!(way("http://192.0.2.1:1", false), Way::Open);
        assert_eq!(way("https://192.0.2.1:1", false), Way::Verified);
        assert_eq!(way("https://192.0.2.1:1", true), Way::Unverified);
    }

    fn resolve(url: &str, pin: Option<&str>) -> Result<Target, AddressError> {
        Target::resolve(url, pin, &TlsWords::default())
    }

    #[test]
    fn what_is_wrong_is_said() {
        let words = |url: &str| resolve(url, None).expect_err("refused").to_string();
        assert!(words("127.0.0.1:8000").contains("http://"), "{}", words("127.0.0.1:8000"));
        assert!(words("ftp://x").contains("ftp"));
        assert!(
            words("http://u:secret@x/").contains("user and password")
                && !words("http://u:secret@x/").contains("secret")
        );
        assert!(!words("https://u:secret@x/?key=secret").contains("secret"));
        assert!(words("http://x/?key=hidden").contains("query") && !words("http://x/?key=hidden").contains("hidden"));
        assert!(words("http://no-such-host.invalid:1").starts_with("dns:"));
    }

    #[test]
    fn what_leads_nowhere_is_known_without_asking() {
        let said = |url: &str, pin: Option<&str>| {
            let words = |error: AddressError| error.to_string();
            let checked = check("--base-url", url, pin, &TlsWords::default()).map_err(words);
            // who goes there finds the same
            if !url.contains("invalid") || pin.is_some() {
                assert_eq!(resolve(url, pin).map(drop).map_err(|e| e.to_string()), checked);
            }
            checked.err().unwrap_or_default()
        };
        for pin in ["nonsense", "", "10.0.0.1:8000", "10.0.0.1,", "10.0.0.300", "[::1]", "http://10.0.0.1"] {
            let told = said("http://host.invalid:1", Some(pin));
            assert!(told.starts_with(&format!("--address {pin:?} is no IP address")), "{told}");
        }
        for (url, pin, host) in
            [("http://127.0.0.1:1", "::1", "127.0.0.1"), ("http://[::1]:1", "::1,127.0.0.1", "[::1]")]
        {
            let told = said(url, Some(pin));
            assert!(told.contains("address, and the host of --base-url, ") && told.contains(host), "{told}");
        }
        assert_eq!(said("http://host.invalid:1", Some("::1,127.0.0.1")), "");
        // a tunnel: the address in the URL is that of its other end
        assert_eq!(said("https://10.0.0.5:8443", Some("127.0.0.1")), "");
        assert_eq!(said("http://host.invalid:1", None), "", "a name is asked for later");
        assert!(said("gw:8000", None).starts_with("--base-url \"gw:8000\" is no URL"));
        let words = TlsWords { ca_file: Some("/nowhere/ca.pem".into()), ..TlsWords::default() };
        let told = check("--base-url", "https://host.invalid", None, &words).expect_err("refused").to_string();
        assert!(told.starts_with("--ca-file /nowhere/ca.pem: "), "{told}");
    }
}
