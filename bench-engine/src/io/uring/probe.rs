//! What this kernel offers, found out by trying it on a loopback connection.

use super::{RingError, UringDriver, UringOptions};
use crate::io::{ConnId, Driver, Event, Events};
use crate::units::Nanos;
use bytes::Bytes;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// What was found.
#[derive(Debug)]
pub struct Capabilities {
    /// Kernel stamps come.
    pub stamps: bool,
    /// Keeps stamping switched on in the kernel: the first sockets after a pause would have no stamps.
    pub keeper: Option<(TcpStream, TcpStream)>,
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
            Event::ReceiveFailed { .. } | Event::SendFailed(_) => self.failed = true,
            Event::Handed { .. } | Event::Sent { .. } => {}
        }
    }
}

/// Tries a ring, then stamps, on a loopback connection. Takes at most a second.
///
/// # Errors
/// [`RingError`] when there is no ring at all.
pub fn capabilities() -> Result<Capabilities, RingError> {
    UringDriver::new(UringOptions { connections: 1, stamps: false })?;
    let keeper = stamping_pair().ok();
    let stamps = stamps_come()?;
    Ok(Capabilities { stamps, keeper: keeper.filter(|_| stamps) })
}

/// A connected pair with stamping on. The kernel switches stamping on shortly after the first such socket
/// appears, and off after the last is gone.
fn stamping_pair() -> std::io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    super::stamps::switch_on(&near)?;
    Ok((near, far))
}

/// Whether both stamps of a byte sent there and back are read.
fn stamps_come() -> Result<bool, RingError> {
    let mut driver = UringDriver::new(UringOptions { connections: 1, stamps: true })?;
    let far = TcpListener::bind("127.0.0.1:0").map_err(RingError::Io)?;
    let address = far.local_addr().map_err(RingError::Io)?;
    let (conn, mut seen) = (ConnId(0), Seen::default());
    let turn = |driver: &mut UringDriver, seen: &mut Seen| {
        let until = driver.now() + Nanos::from_millis(10);
        driver.turn(until, seen);
    };
    driver.open(conn, address);
    for _ in 0..20 {
        if !seen.connected && !seen.failed {
            turn(&mut driver, &mut seen);
        }
    }
    if !seen.connected {
        return Ok(false);
    }
    let (mut peer, _) = far.accept().map_err(RingError::Io)?;
    peer.set_read_timeout(Some(Duration::from_millis(200))).map_err(RingError::Io)?;
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
