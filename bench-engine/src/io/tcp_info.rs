//! What the kernel knows of a TCP connection: its round trip (TCP_INFO, tcp(7); fields as in linux/tcp.h since 4.9).

use nix::sys::socket::GetSockOpt;
use nix::sys::socket::sockopt::GetStruct;
use std::os::fd::AsFd;

/// Round trip of one connection, in us. Never negative; unknown is None.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundTrip {
    /// Smoothed (RFC 6298).
    pub rtt_us: Option<u32>,
    /// Its mean deviation.
    pub rttvar_us: Option<u32>,
    /// Smallest within the kernel's window, 5 minutes unless it was set otherwise.
    pub min_rtt_us: Option<u32>,
}

impl RoundTrip {
    /// Asks the kernel about `socket`; the handshake is the first sample.
    ///
    /// # Errors
    /// The kernel's: no TCP socket, or none at all.
    pub fn of(socket: &impl AsFd) -> nix::Result<Self> {
        Ok(RoundTrip::read(&TcpInfo.get(socket)?))
    }

    fn read(info: &Layout) -> Self {
        // no sample yet: zeros; the smallest of none is the largest number there is
        let sampled = |us: u32| (us > 0 && us < u32::MAX).then_some(us);
        RoundTrip {
            rtt_us: sampled(info.words[15]),
            rttvar_us: sampled(info.words[16]),
            min_rtt_us: sampled(info.more[3]),
        }
    }
}

/// The option.
#[derive(Clone, Copy, Debug)]
struct TcpInfo;

/// `struct tcp_info` up to `tcpi_min_rtt`. The kernel fills as much as it is given room for.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// State, options, window scales.
    bytes: [u8; 8],
    /// From `tcpi_rto`; [15] is `tcpi_rtt`, [16] `tcpi_rttvar`.
    words: [u32; 24],
    /// Pacing rates and bytes.
    rates: [u64; 4],
    /// Segments out and in, bytes not sent, `tcpi_min_rtt`.
    more: [u32; 4],
}

// where the kernel puts it
const _: () = assert!(std::mem::offset_of!(Layout, more) + 12 == 148 && size_of::<Layout>() == 152);

nix::getsockopt_impl!(TcpInfo, libc::IPPROTO_TCP, libc::TCP_INFO, Layout, GetStruct<Layout>);

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    fn a_connection_over_loopback_has_a_round_trip() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let socket = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        let found = RoundTrip::of(&socket).expect("asked");
        let (rtt, min) = (found.rtt_us.expect("a sample"), found.min_rtt_us.expect("a sample"));
        // the handshake is one sample, so that the two agree
        assert!(min <= rtt, "{found:?}");
        assert!(RoundTrip::of(&UdpSocket::bind("127.0.0.1:0").expect("a port")).is_err());
    }

    #[test]
    fn a_figure_that_the_kernel_has_not_is_unknown() {
        let mut info = Layout { bytes: [0; 8], words: [0; 24], rates: [0; 4], more: [0; 4] };
        info.more[3] = u32::MAX;
        assert_eq!(RoundTrip::read(&info), RoundTrip::default());
        (info.words[15], info.words[16], info.more[3]) = (120, 60, 90);
        let known = RoundTrip { rtt_us: Some(120), rttvar_us: Some(60), min_rtt_us: Some(90) };
        assert_eq!(RoundTrip::read(&info), known);
    }
}
