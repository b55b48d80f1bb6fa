//! The known-truth server: OpenAI-compatible, streams on a given timeline, and logs what it really did.
//!
//! One thread on epoll and a timer: every write has an absolute deadline on CLOCK_MONOTONIC, slept for until
//! shortly before and then waited for busily. Run it as a process of its own, so that it goes on telling the
//! truth while its client is stopped.

mod connection;
mod journal;
mod openai;
mod pacing;
mod reply;
mod request;
mod script;
mod server;
#[cfg(test)]
mod tests;
mod timeline;

pub use crate::truth::Summary;
use bench_engine::units::Nanos;
use nix::errno::Errno;
use nix::sys::eventfd::EventFd;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use thiserror::Error;

/// What the mock is to do.
#[derive(Clone, Debug)]
pub struct MockConfig {
    /// Address to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Name in `/v1/models`. Requests for other models are answered all the same, under the name they ask for.
    pub model: String,
    /// From the arrival of a request's last byte to its first token event.
    pub ttft: Nanos,
    /// Between token events.
    pub itl: Nanos,
    /// 0 to 1: each interval is multiplied by `1 + jitter * u`, u uniform in [-1, 1). The same seed and the same
    /// first word of a prompt give the same intervals.
    pub jitter: f64,
    /// Seed of the jitter.
    pub seed: u64,
    /// Tokens of every reply, 1 to 1,000,000; None: what the request's `max_completion_tokens` or `max_tokens` says,
    /// else 16.
    pub tokens: Option<u32>,
    /// Tokens in one event, 1 to 10,000. The interval is between events.
    pub tokens_per_event: u32,
    /// Longest busy wait before a deadline.
    pub spin: Nanos,
    /// Core to run on; None leaves that to the kernel.
    pub core: Option<usize>,
    /// File of the truth log, written anew; its rows are in [`crate::truth`].
    pub truth: Option<PathBuf>,
    /// Kernel transmit stamp on each k-th token event of a reply, the first always; 0: on none.
    pub stamp_every: u32,
    /// Recorded streams to play instead; a request's `model` names the case.
    pub script: Option<PathBuf>,
    /// Script: most bytes a write; None: each recorded write whole.
    pub script_bytes: Option<usize>,
    /// Script: factor on the recorded times; 0 plays without waiting.
    pub time_scale: f64,
    /// End when standard input does (it must be a pipe, a terminal or a socket).
    pub until_stdin_closes: bool,
    /// Close the connection after each streamed reply although its head says keep-alive, as llama.cpp does.
    pub close_after_reply: bool,
    /// Send usage when asked for (`stream_options.include_usage`); false: never while streaming.
    pub usage: bool,
    /// Key wanted as `Authorization: Bearer KEY` on every path under `/v1`.
    pub api_key: Option<String>,
}

impl Default for MockConfig {
    fn default() -> Self {
        MockConfig {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            model: "mock".to_owned(),
            ttft: Nanos::from_millis(5),
            itl: Nanos::from_millis(1),
            jitter: 0.0,
            seed: 7,
            tokens: None,
            tokens_per_event: 1,
            spin: Nanos::from_micros(200),
            core: None,
            truth: None,
            stamp_every: 1,
            script: None,
            script_bytes: None,
            time_scale: 1.0,
            until_stdin_closes: false,
            close_after_reply: false,
            usage: true,
            api_key: None,
        }
    }
}

/// Why the mock could not start, or had to end.
#[derive(Debug, Error)]
pub enum MockError {
    /// A value of the configuration is outside its range.
    #[error("mock: {what} must be {range}, not {got}")]
    Config {
        /// Which value.
        what: &'static str,
        /// What it may be.
        range: &'static str,
        /// What it is.
        got: String,
    },
    /// The address cannot be listened on.
    #[error("mock: cannot listen on {addr}: {source}; choose another address, or port 0 for any free one")]
    Listen {
        /// The address asked for.
        addr: SocketAddr,
        /// The kernel's answer.
        source: Errno,
    },
    /// The script cannot be read.
    #[error("mock: cannot read the script {}: {source}", path.display())]
    ScriptUnreadable {
        /// The script.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line of the script is malformed.
    #[error("{}:{line}: {reason}", path.display())]
    ScriptLine {
        /// The script.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The truth log cannot be created or written; without it the mock's word is worth nothing.
    #[error("mock: cannot write the truth log {}: {source}", path.display())]
    Truth {
        /// The log.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The core cannot be had.
    #[error("mock: cannot run on core {core}: {reason}; the cores of this process are {allowed}")]
    Core {
        /// The core asked for.
        core: usize,
        /// What stood in the way.
        reason: String,
        /// Cores that can be had.
        allowed: String,
    },
    /// Standard input cannot be watched.
    #[error("mock: standard input cannot be watched ({source}): it must be a pipe, a terminal or a socket")]
    Stdin {
        /// The kernel's answer.
        source: Errno,
    },
    /// A system call failed that never should.
    #[error("mock: {call} failed: {source}")]
    System {
        /// The call.
        call: &'static str,
        /// The kernel's answer.
        source: Errno,
    },
}

impl MockConfig {
    fn check(&self) -> Result<(), MockError> {
        let wrong = |what, range, got: String| Err(MockError::Config { what, range, got });
        if !(0.0..=1.0).contains(&self.jitter) {
            return wrong("the jitter", "between 0 and 1", self.jitter.to_string());
        }
        if let Some(n) = self.tokens.filter(|n| !(1..=openai::TOKEN_LIMIT).contains(n)) {
            return wrong("the number of tokens", "1 to 1,000,000", n.to_string());
        }
        if !(1..=10_000).contains(&self.tokens_per_event) {
            return wrong("the number of tokens per event", "1 to 10,000", self.tokens_per_event.to_string());
        }
        if !(self.time_scale.is_finite() && self.time_scale >= 0.0) {
            return wrong("the time scale", "0 or more", self.time_scale.to_string());
        }
        if self.script_bytes == Some(0) {
            return wrong("the number of bytes per write", "1 or more", "0".to_owned());
        }
        Ok(())
    }
}

/// A mock that listens and does not serve yet.
#[derive(Debug)]
pub struct Mock {
    server: server::Server,
    addr: SocketAddr,
    stop: Arc<EventFd>,
}

/// Ends a mock from another thread.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<EventFd>);

impl Stopper {
    /// Makes [`Mock::run`] end as if standard input had: replies in flight are logged as aborted.
    pub fn stop(&self) {
        // fails only when the counter is full, that is, when it was stopped before
        let _ = self.0.write(1);
    }
}

impl Mock {
    /// Listens, loads the script, creates the truth log. Connections queue in the kernel from here on.
    ///
    /// # Errors
    /// Any [`MockError`] but those of a running mock.
    pub fn bind(config: MockConfig) -> Result<Mock, MockError> {
        config.check()?;
        let stop = EventFd::from_flags(nix::sys::eventfd::EfdFlags::EFD_NONBLOCK)
            .map_err(|source| MockError::System { call: "eventfd", source })?;
        let (server, addr) = server::Server::bind(config)?;
        Ok(Mock { server, addr, stop: Arc::new(stop) })
    }

    /// The address it listens on, with the port the kernel chose.
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// A handle that ends it.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.stop))
    }

    /// Serves until standard input ends (if asked), SIGTERM or SIGINT comes, or a [`Stopper`] is used; then writes
    /// the rest of the truth log.
    ///
    /// Sets the calling thread's affinity and timer slack, and takes the two signals for this thread.
    ///
    /// # Errors
    /// [`MockError::Core`], [`MockError::Stdin`], [`MockError::Truth`] or [`MockError::System`].
    pub fn run(self) -> Result<Summary, MockError> {
        self.server.run(&self.stop)
    }
}
