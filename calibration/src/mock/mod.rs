//! The known-truth server: OpenAI-compatible, streams on a given timeline, and logs what it really did.
//!
//! One thread paces, on epoll and a timer: every write has an absolute deadline on CLOCK_MONOTONIC, slept for until
//! shortly before and then waited for busily. It formats the truth in the gaps between deadlines; a second thread
//! does nothing but write blocks of it to the file, and a third serves it over HTTP if asked. Run the mock as a
//! process of its own, so that it goes on telling the truth while its client is stopped.

mod admission;
mod connection;
mod journal;
mod log_file;
mod metrics;
mod openai;
mod pacing;
mod prefix_cache;
mod profile;
mod reply;
mod request;
mod routes;
mod script;
mod server;
#[cfg(test)]
mod tests;
mod timeline;
mod truth_server;

pub use self::profile::{Class, Settings};
pub use self::timeline::{Drift, LAW_LIMIT, Law, Pareto};
pub use crate::truth::Summary;
use bench_engine::units::Nanos;
use nix::errno::Errno;
use nix::sys::eventfd::EventFd;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use thiserror::Error;

/// Which usage streamed replies carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UsageMode {
    /// As the request's `stream_options` say.
    #[default]
    Asked,
    /// Never.
    None,
    /// After the last token, asked for or not; running usage as asked.
    Final,
    /// Running usage on every event and after the last token, asked for or not.
    Every,
}

/// Token events written in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitWrites {
    /// Bytes of a piece, at least 1.
    pub bytes: usize,
    /// Between the due times of two pieces.
    pub pause: Nanos,
}

impl FromStr for SplitWrites {
    type Err = String;

    /// `BYTES` or `BYTES:US`.
    fn from_str(text: &str) -> Result<SplitWrites, String> {
        let (bytes, pause) = text.split_once(':').unwrap_or((text, "0"));
        let bytes = bytes.parse::<usize>().ok().filter(|n| *n > 0);
        let pause = pause.parse::<f64>().ok().and_then(|us| Nanos::from_secs_f64(us / 1e6));
        let both = bytes.zip(pause).map(|(bytes, pause)| SplitWrites { bytes, pause });
        both.ok_or_else(|| format!("pieces are BYTES or BYTES:US, with 1 byte or more and 0 us or more, not {text:?}"))
    }
}

/// The first requests take longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColdStart {
    /// So much is added to their time to first token.
    pub extra: Nanos,
    /// How many they are.
    pub requests: u64,
}

impl FromStr for ColdStart {
    type Err = String;

    /// `MS:N`.
    fn from_str(text: &str) -> Result<ColdStart, String> {
        let (ms, n) = text.split_once(':').unwrap_or((text, ""));
        let extra = ms.parse::<f64>().ok().and_then(|ms| Nanos::from_secs_f64(ms / 1e3));
        let both = extra.zip(n.parse::<u64>().ok()).map(|(extra, requests)| ColdStart { extra, requests });
        both.ok_or_else(|| format!("a cold start is MS:N, so many ms for the first N requests, not {text:?}"))
    }
}

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
    /// How `ttft` varies from request to request.
    pub ttft_law: Law,
    /// How `itl` varies from event to event.
    pub itl_law: Law,
    /// 0 to 1: each interval is multiplied by `1 + jitter * u`, u uniform in [-1, 1). The same seed and the same
    /// first word of a prompt give the same intervals.
    pub jitter: f64,
    /// Seed of the laws and the jitter.
    pub seed: u64,
    /// Every interval becomes longer with time. None: it does not.
    pub drift: Option<Drift>,
    /// Every token event is due on a multiple of this period of CLOCK_MONOTONIC, at most one event of a stream on
    /// each: all streams emit at once, in the order of their connections. None or zero: each as its own timeline says.
    pub lockstep: Option<Nanos>,
    /// Kinds of requests with settings of their own.
    pub classes: Vec<Class>,
    /// Added to the time to first token for each token of the prompt that the prefix cache does not hold.
    pub prefill_per_token: Nanos,
    /// Blocks of 16 words that the prefix cache holds; 0: there is no cache.
    pub prefix_cache_blocks: u32,
    /// The first requests take longer.
    pub cold_start: Option<ColdStart>,
    /// Most requests that run at once; the others wait, first come first served. None: no limit.
    pub max_num_seqs: Option<u32>,
    /// Tokens of every reply, 1 to 1,000,000; None: what the request's `max_completion_tokens` or `max_tokens` says,
    /// else 16.
    pub tokens: Option<u32>,
    /// Tokens in one event, 1 to 10,000. The interval is between events.
    pub tokens_per_event: u32,
    /// A chat begins with an event that holds nothing but the role.
    pub role_event: bool,
    /// So many tokens of a chat's reply come as reasoning, before the answer. They are among its tokens.
    pub reasoning: u32,
    /// Each token event of a stream is padded with text to so many bytes, HTTP chunk framing included; 0: it is not.
    pub event_bytes: u32,
    /// Consecutive events of a stream that share a write, due with the last of them; 1 to 1,000.
    pub merge_writes: u32,
    /// Token events of a stream are written in pieces. The k-th piece is due k pauses after the event.
    pub split_writes: Option<SplitWrites>,
    /// Longest busy wait before a deadline.
    pub spin: Nanos,
    /// Core to run on; None leaves that to the kernel.
    pub core: Option<usize>,
    /// File of the truth log, written anew; its rows are in [`crate::truth`].
    pub truth: Option<PathBuf>,
    /// Address on which the truth log and the summary so far are served over HTTP. Without `truth` the log is a
    /// temporary file.
    pub truth_listen: Option<SocketAddr>,
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
    /// Tokens that a prompt is counted as for each of its words, above 0 and at most 100; of all words together, rounded.
    /// A token id is one token.
    pub tokens_per_word: f64,
    /// Tokens counted beside those of a prompt's words or ids, as a chat template's.
    pub template_tokens: u32,
    /// Close the connection after each streamed reply although its head says keep-alive, as llama.cpp does.
    pub close_after_reply: bool,
    /// Which usage streamed replies carry; others always have it.
    pub usage: UsageMode,
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
            ttft_law: Law::Constant,
            itl_law: Law::Constant,
            jitter: 0.0,
            seed: 7,
            drift: None,
            lockstep: None,
            classes: Vec::new(),
            prefill_per_token: Nanos::ZERO,
            prefix_cache_blocks: 0,
            cold_start: None,
            max_num_seqs: None,
            tokens: None,
            tokens_per_event: 1,
            role_event: true,
            reasoning: 0,
            event_bytes: 0,
            merge_writes: 1,
            split_writes: None,
            spin: Nanos::from_micros(200),
            core: None,
            truth: None,
            truth_listen: None,
            stamp_every: 1,
            script: None,
            script_bytes: None,
            time_scale: 1.0,
            until_stdin_closes: false,
            tokens_per_word: 1.0,
            template_tokens: 0,
            close_after_reply: false,
            usage: UsageMode::Asked,
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
    /// What a request is served with that says nothing about it and has no class.
    fn profile(&self) -> profile::Profile {
        let MockConfig { ttft, itl, ttft_law, itl_law, jitter, lockstep, .. } = *self;
        profile::Profile {
            pace: timeline::Pace { ttft, itl, ttft_law, itl_law, jitter, lockstep },
            tokens: self.tokens,
            tokens_per_event: self.tokens_per_event,
            event_bytes: self.event_bytes,
            reasoning: self.reasoning,
            merge_writes: self.merge_writes,
        }
    }

    fn check(&self) -> Result<(), MockError> {
        let wrong = |what, range, got: String| Err(MockError::Config { what, range, got });
        if let Some((what, range, got)) = self.profile().fault() {
            return wrong(what, range, got);
        }
        if self.max_num_seqs == Some(0) {
            return wrong("the number of running requests", "1 or more", "0".to_owned());
        }
        if self.split_writes.is_some_and(|split| split.bytes == 0) {
            return wrong("the size of a piece", "1 byte or more", "0".to_owned());
        }
        if !(self.time_scale.is_finite() && self.time_scale >= 0.0) {
            return wrong("the time scale", "0 or more", self.time_scale.to_string());
        }
        if !(self.tokens_per_word > 0.0 && self.tokens_per_word <= 100.0) {
            return wrong("the number of tokens a word", "above 0, at most 100", self.tokens_per_word.to_string());
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
    /// Listens, loads the script, creates the truth log and the thread that writes it. Connections queue in the kernel
    /// from here on. Raises the soft limit of open files to the hard one.
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

    /// Where the truth is served over HTTP, with the port the kernel chose.
    pub fn truth_addr(&self) -> Option<SocketAddr> {
        self.server.truth_addr()
    }

    /// What was done to the process that its owner should know, as sentences.
    pub fn notes(&self) -> &[String] {
        self.server.notes()
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
