//! A socket of the epoll driver, from its connect on.

use crate::io::outgoing::Queue;
use crate::io::tx_ids::TxIds;
use crate::io::{ConnId, Event};
use crate::record::ClientFault;
use crate::units::{Instant, WallInstant};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, connect, setsockopt, socket, sockopt};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

/// Where a socket is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Connecting.
    Opening,
    /// Open.
    Open,
    /// The peer's end is on its way: it is read until it comes.
    Ending,
    /// Nothing is read any more.
    Over,
}

/// The socket of a connection, and how far it has been read and written.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) fd: OwnedFd,
    pub(super) stage: Stage,
    /// What is to be sent, the first of it on its way.
    pub(super) outgoing: Queue,
    /// It is in the outbox; else what it has to send waits for room in the socket.
    pub(super) queued: bool,
    pub(super) tx: TxIds,
    pub(super) last_wall: Option<WallInstant>,
    pub(super) emptied: Instant,
    /// It has not been read to its end, and is in the backlog for that.
    pub(super) behind: bool,
    /// Batch of its last read.
    pub(super) read_in: u64,
}

/// A connection that was refused at once.
#[derive(Clone, Copy, Debug)]
pub(super) enum Refusal {
    Fault(ClientFault),
    Errno(i32),
}

impl Refusal {
    /// What an errno of a connect means.
    pub(super) fn of(errno: Errno) -> Self {
        ClientFault::from_errno(errno as i32).map_or(Refusal::Errno(errno as i32), Refusal::Fault)
    }

    /// The same as it is told.
    pub(super) fn event(self, at: Instant) -> Event<'static> {
        match self {
            Refusal::Fault(fault) => Event::NoSocket { at, fault },
            Refusal::Errno(errno) => Event::ConnectFailed { at, errno },
        }
    }
}

impl Socket {
    /// A socket on its way to `to` from `since` on, in the epoll set under the name of `conn`.
    ///
    /// # Errors
    /// [`Refusal`]: there is none, or the kernel refuses the connect at once.
    pub(super) fn connecting(epoll: &Epoll, conn: ConnId, to: &SocketAddr, since: Instant) -> Result<Socket, Refusal> {
        let family = if to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        // whatever keeps a socket from being made is ours
        let fault = |e: Errno| Refusal::Fault(ClientFault::from_errno(e as i32).unwrap_or(ClientFault::Memory));
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket(family, SockType::Stream, flags, None).map_err(fault)?;
        setsockopt(&fd, sockopt::TcpNoDelay, &true).map_err(fault)?;
        match connect(fd.as_raw_fd(), &SockaddrStorage::from(*to)) {
            Ok(()) | Err(Errno::EINPROGRESS | Errno::EINTR) => {}
            Err(errno) => return Err(Refusal::of(errno)),
        }
        // after the connect: an unconnected socket would be reported as hung up
        let all = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET;
        epoll.add(&fd, EpollEvent::new(all, u64::from(conn.0))).map_err(fault)?;
        Ok(Socket {
            fd,
            stage: Stage::Opening,
            outgoing: Queue::default(),
            queued: false,
            tx: TxIds::default(),
            last_wall: None,
            emptied: since,
            behind: false,
            read_in: 0,
        })
    }
}
