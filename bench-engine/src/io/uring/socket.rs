//! A socket slot of the ring's driver.

use crate::io::ConnId;
use crate::io::outgoing::Queue;
use crate::io::tx_ids::TxIds;
use crate::record::ClientFault;
use crate::units::{Instant, WallInstant};
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, setsockopt, socket, sockopt};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// A socket slot. It is free again when no operation of it is pending.
pub(super) struct Socket {
    pub(super) fd: Option<OwnedFd>,
    /// None once the connection was closed by us.
    pub(super) conn: Option<ConnId>,
    pub(super) pending: u32,
    pub(super) address: Box<SockaddrStorage>,
    /// What is to be sent, the first of it on its way.
    pub(super) outgoing: Queue,
    pub(super) tx: TxIds,
    pub(super) last_wall: Option<WallInstant>,
    pub(super) emptied: Instant,
}

impl Socket {
    /// One that nobody uses.
    pub(super) fn unused() -> Self {
        Socket {
            fd: None,
            conn: None,
            pending: 0,
            address: Box::new(SockaddrStorage::from(SocketAddr::from(([0, 0, 0, 0], 0)))),
            outgoing: Queue::default(),
            tx: TxIds::default(),
            last_wall: None,
            emptied: Instant::default(),
        }
    }
}

/// A TCP socket for that address, which sends without delay.
///
/// # Errors
/// What this host lacks for it.
pub(super) fn new(to: &SocketAddr) -> Result<OwnedFd, ClientFault> {
    let family = if to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let fault = |e: Errno| ClientFault::from_errno(e as i32).unwrap_or(ClientFault::Memory);
    let fd = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).map_err(fault)?;
    setsockopt(&fd, sockopt::TcpNoDelay, &true).map_err(fault)?;
    Ok(fd)
}
