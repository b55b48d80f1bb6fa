//! The way to a server: both ends of a connection, its handshake and round trip, and whether it leaves this host at all.

use super::address::Target;
use super::fetch::{self, FetchError};
use super::tls::Shown;
use bench_engine::clock::{Clock, SystemClock};
use bench_engine::io::tcp_info::RoundTrip;
use bench_engine::units::Nanos;
use nix::ifaddrs::getifaddrs;
use serde::Serialize;
use std::net::IpAddr;

/// What one connection showed. Unknown is null.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Route {
    /// This end.
    pub local: Option<String>,
    /// The server's end.
    pub peer: String,
    /// The peer's address is one of this host's own: client and server share its cores and its memory.
    pub co_located: bool,
    /// Length of the TCP handshake as this process saw it, in us; waking up is in it.
    pub handshake_us: f64,
    /// Smoothed round trip (TCP_INFO), in us: of the handshake, since nothing else was sent.
    pub rtt_us: Option<u32>,
    /// Its mean deviation, in us.
    pub rttvar_us: Option<u32>,
    /// Smallest round trip, in us.
    pub min_rtt_us: Option<u32>,
    /// What its TLS handshake showed; None: there was none.
    #[serde(skip)]
    pub tls: Option<Shown>,
}

impl Route {
    /// Opens one connection to `target`, and closes it again. Connecting takes at most `timeout`, the TLS handshake
    /// included.
    ///
    /// # Errors
    /// [`FetchError::Connect`], [`FetchError::Tls`].
    pub fn probe(target: &Target, timeout: Nanos) -> Result<Route, FetchError> {
        let address = target.address;
        let before = SystemClock.now();
        let socket = fetch::connect(address, timeout)?;
        let until = before + timeout;
        let handshake = SystemClock.now().saturating_since(before);
        let local = socket.local_addr().ok();
        let RoundTrip { rtt_us, rttvar_us, min_rtt_us } = RoundTrip::of(&socket).unwrap_or_default();
        let connected = SystemClock.now();
        let stream = fetch::secure(socket, target.tls.as_ref(), address, until, timeout)?;
        let took = SystemClock.now().saturating_since(connected);
        let tls = stream.agreed().map(|agreed| Shown::of(target, agreed, took.ns() as f64 / 1e3));
        Ok(Route {
            local: local.map(|local| local.to_string()),
            peer: address.to_string(),
            co_located: is_own(address.ip(), &own_addresses()),
            handshake_us: handshake.ns() as f64 / 1e3,
            rtt_us,
            rttvar_us,
            min_rtt_us,
            tls,
        })
    }

    /// For people: `smallest round trip 45 us, handshake 112 us, on this host`.
    pub fn words(&self) -> String {
        let rtt = match (self.min_rtt_us, self.rtt_us) {
            (Some(us), _) | (None, Some(us)) => format!("round trip {us} us"),
            (None, None) => "round trip unknown".to_owned(),
        };
        let place = if self.co_located { "on this host" } else { "on another host" };
        let tls =
            self.tls.as_ref().map_or_else(String::new, |tls| format!(", TLS handshake {:.0} us", tls.handshake_us));
        format!("{rtt}, handshake {:.0} us{tls}, server {place}", self.handshake_us)
    }
}

/// Addresses of this host's interfaces, those that are down as well: they are reached without leaving it.
fn own_addresses() -> Vec<IpAddr> {
    let interfaces = getifaddrs().into_iter().flatten();
    let address = |found: nix::ifaddrs::InterfaceAddress| {
        let address = found.address?;
        let v4 = address.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))
    };
    interfaces.filter_map(address).collect()
}

fn is_own(peer: IpAddr, own: &[IpAddr]) -> bool {
    // an IPv4 address in IPv6 clothes is that address
    let peer = peer.to_canonical();
    peer.is_loopback() || own.contains(&peer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::tls::TlsWords;
    use std::net::TcpListener;

    #[test]
    fn a_listener_here_is_on_this_host() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let target = Target::resolve(&format!("http://{address}"), None, &TlsWords::default()).expect("resolves");
        let route = Route::probe(&target, Nanos::from_secs(5)).expect("connects");
        assert!(route.co_located && route.min_rtt_us.is_some() && route.handshake_us > 0.0, "{route:?}");
        assert_eq!(route.peer, address.to_string());
        assert!(route.local.as_ref().is_some_and(|local| local.starts_with("127.0.0.1:")), "{route:?}");
        assert!(route.words().ends_with("server on this host"), "{}", route.words());
    }

    #[test]
    fn what_is_on_this_host() {
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        let own = [ip("10.1.2.3"), ip("fe80::1")];
        for (peer, expected) in [
            ("127.0.0.9", true),
            ("::1", true),
            ("10.1.2.3", true),
            ("::ffff:10.1.2.3", true),
            ("fe80::1", true),
            ("10.1.2.4", false),
            ("2001:db8::1", false),
        ] {
            assert_eq!(is_own(ip(peer), &own), expected, "{peer}");
        }
        assert!(own_addresses().iter().any(IpAddr::is_loopback), "{:?}", own_addresses());
    }
}
