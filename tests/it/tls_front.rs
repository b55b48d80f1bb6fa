//! TLS in front of a server that speaks plain HTTP, for tests: it passes bytes on as they come, and remembers what went in.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustls::{ServerConfig, ServerConnection};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A front that is up until the process ends.
pub struct Front {
    pub address: SocketAddr,
    /// Plain bytes that clients sent, over all connections.
    pub said: Arc<Mutex<Vec<u8>>>,
    /// Connections on which TLS came about.
    pub secured: Arc<AtomicU64>,
}

impl Front {
    /// In front of `upstream`, on `ip`, and on `port` when it is not 0.
    pub fn start(config: Arc<ServerConfig>, upstream: SocketAddr, ip: IpAddr, port: u16) -> Front {
        let listener = TcpListener::bind((ip, port)).expect("a port");
        let address = listener.local_addr().expect("bound");
        let (said, secured): (Arc<Mutex<Vec<u8>>>, Arc<AtomicU64>) = Default::default();
        let (heard, count) = (Arc::clone(&said), Arc::clone(&secured));
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (config, heard, count) = (Arc::clone(&config), Arc::clone(&heard), Arc::clone(&count));
                std::thread::spawn(move || serve(client, config, upstream, &heard, &count));
            }
        });
        Front { address, said, secured }
    }

    /// All that clients said, as text.
    pub fn heard(&self) -> String {
        String::from_utf8_lossy(&self.said.lock().expect("whole")).into_owned()
    }
}

fn serve(
    mut client: TcpStream,
    config: Arc<ServerConfig>,
    upstream: SocketAddr,
    said: &Mutex<Vec<u8>>,
    secured: &AtomicU64,
) {
    let Ok(mut tls) = ServerConnection::new(config) else { return };
    let Ok(mut server) = TcpStream::connect(upstream) else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let mut buffer = [0; 16 * 1024];
    let mut counted = false;
    loop {
        let mut fds = [PollFd::new(client.as_fd(), PollFlags::POLLIN), PollFd::new(server.as_fd(), PollFlags::POLLIN)];
        if poll(&mut fds, PollTimeout::NONE).is_err() {
            return;
        }
        let ready = fds.map(|fd| fd.any() == Some(true));
        if ready[0] {
            match tls.read_tls(&mut client) {
                Ok(0) => return,
                Err(error) if error.kind() != ErrorKind::WouldBlock => return,
                _ => {}
            }
            let understood = tls.process_new_packets().is_ok();
            let n = tls.reader().read(&mut buffer).unwrap_or(0);
            said.lock().expect("whole").extend_from_slice(&buffer[..n]);
            if !understood || server.write_all(&buffer[..n]).is_err() {
                let _ = tls.write_tls(&mut client);
                return;
            }
        }
        if !counted && !tls.is_handshaking() {
            counted = true;
            secured.fetch_add(1, Ordering::Relaxed);
        }
        if ready[1] {
            match server.read(&mut buffer) {
                Ok(0) | Err(_) => {
                    tls.send_close_notify();
                    let _ = tls.write_tls(&mut client);
                    return;
                }
                Ok(n) => tls.writer().write_all(&buffer[..n]).expect("room"),
            }
        }
        while tls.wants_write() {
            if tls.write_tls(&mut client).is_err() {
                return;
            }
        }
    }
}
