//! What this host offers, found out by trying it: which driver serves, and whether kernel stamps come.

use super::epoll::EpollDriver;
use super::stamps::switch_on;
use super::uring::{RingError, UringDriver};
use super::{ConnId, Driver, DriverError, DriverKind, DriverOptions, Event, Events};
use crate::units::Nanos;
use bytes::Bytes;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// The driver that serves.
#[derive(Debug)]
pub struct Choice {
    /// Which.
    pub driver: DriverKind,
    /// Why it is not io_uring, where nobody asked for another.
    pub refused: Option<RingError>,
}

/// The driver for `asked`; None leaves the choice: io_uring, and epoll where that is refused.
///
/// # Errors
/// [`RingError`] when io_uring was asked for by name and is refused here: what was asked for is not replaced.
pub fn choose(asked: Option<DriverKind>) -> Result<Choice, RingError> {
    settle(asked, || UringDriver::new(DriverOptions { connections: 1, stamps: false }).map(drop))
}

fn settle(asked: Option<DriverKind>, ring: impl FnOnce() -> Result<(), RingError>) -> Result<Choice, RingError> {
    let (driver, refused) = match asked {
        Some(DriverKind::Epoll) => (DriverKind::Epoll, None),
        Some(DriverKind::Uring) => ring().map(|()| (DriverKind::Uring, None))?,
        None => match ring() {
            Ok(()) => (DriverKind::Uring, None),
            Err(error) => (DriverKind::Epoll, Some(error)),
        },
    };
    Ok(Choice { driver, refused })
}

/// What was found.
#[derive(Debug)]
pub struct Capabilities {
    /// The driver it was found with, which serves.
    pub driver: DriverKind,
    /// Kernel stamps come.
    pub stamps: bool,
    /// Keeps stamping switched on in the kernel: the first sockets after a pause would have no stamps.
    pub keeper: Option<(TcpStream, TcpStream)>,
}

/// Tries `driver`, and whether both stamps of a byte sent there and back come through it on a loopback connection.
/// Takes at most a second.
///
/// # Errors
/// [`DriverError`] when there is no such driver here.
pub fn capabilities(driver: DriverKind) -> Result<Capabilities, DriverError> {
    let keeper = stamping_pair().ok();
    let options = DriverOptions { connections: 1, stamps: true };
    // a host without a loopback to try it on has no stamps that could be relied on
    let stamps = match driver {
        DriverKind::Uring => stamps_come(UringDriver::new(options)?),
        DriverKind::Epoll => stamps_come(EpollDriver::new(options)?),
    }
    .unwrap_or(false);
    Ok(Capabilities { driver, stamps, keeper: keeper.filter(|_| stamps) })
}

#[derive(Default)]
struct Seen {
    connected: bool,
    rx: bool,
    tx: bool,
    failed: bool,
}

impl Events for Seen {
    fn on(&mut self, _: ConnId, event: Event<'_>) {
        match event {
            Event::Connected { .. } => self.connected = true,
            Event::Received(_, stamp) => self.rx |= stamp.wall.is_some(),
            Event::WireOut { .. } => self.tx = true,
            Event::ConnectFailed { .. } | Event::NoSocket { .. } | Event::PeerClosed { .. } => self.failed = true,
            Event::ReceiveFailed { .. } | Event::SendFailed { .. } => self.failed = true,
            Event::Handed { .. } | Event::Sent { .. } => {}
        }
    }
}

/// A connected pair with stamping on. The kernel switches stamping on shortly after the first such socket
/// appears, and off after the last is gone.
fn stamping_pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    switch_on(&near)?;
    Ok((near, far))
}

fn turn(driver: &mut impl Driver, seen: &mut Seen) {
    let until = driver.now() + Nanos::from_millis(10);
    driver.turn(until, seen);
}

/// Whether both stamps of a byte sent there and back are read.
fn stamps_come(mut driver: impl Driver) -> io::Result<bool> {
    let far = TcpListener::bind("127.0.0.1:0")?;
    let (conn, mut seen) = (ConnId(0), Seen::default());
    driver.open(conn, far.local_addr()?);
    for _ in 0..20 {
        if !seen.connected && !seen.failed {
            turn(&mut driver, &mut seen);
        }
    }
    if !seen.connected {
        return Ok(false);
    }
    let (mut peer, _) = far.accept()?;
    peer.set_read_timeout(Some(Duration::from_millis(200)))?;
    // stamping starts with a delay: a few tries, ten ms each
    for attempt in 0..20 {
        seen.rx = false;
        seen.tx = false;
        driver.send(conn, attempt, Bytes::from_static(b"?"));
        turn(&mut driver, &mut seen);
        let mut byte = [0];
        let echoed = peer.read_exact(&mut byte).and_then(|()| peer.write_all(&byte));
        if echoed.is_err() || seen.failed {
            return Ok(false);
        }
        for _ in 0..3 {
            if !(seen.rx && seen.tx) {
                turn(&mut driver, &mut seen);
            }
        }
        if seen.rx && seen.tx {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_by_name_is_not_replaced() {
        let refused = || Err(RingError::Missing);
        let granted = || Ok(());
        let of = |choice: Result<Choice, RingError>| choice.map(|c| (c.driver, c.refused.is_some())).ok();
        assert_eq!(of(settle(None, granted)), Some((DriverKind::Uring, false)));
        assert_eq!(of(settle(None, refused)), Some((DriverKind::Epoll, true)), "and the reason goes with it");
        assert_eq!(of(settle(Some(DriverKind::Uring), granted)), Some((DriverKind::Uring, false)));
        assert_eq!(of(settle(Some(DriverKind::Uring), refused)), None);
        let never = || panic!("no ring is needed");
        assert_eq!(of(settle(Some(DriverKind::Epoll), never)), Some((DriverKind::Epoll, false)));
    }
}
