//! Flags of `mock`.

use calibration::mock::{Class, ColdStart, Drift, Law, SplitWrites};
use clap::{Args, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "Examples:
  tarebench mock --listen 127.0.0.1:8000 --ttft 50 --itl 10 --truth truth.jsonl
  tarebench mock --listen 0.0.0.0:8000 --truth-listen 0.0.0.0:8001
      for calibrate on another host
  tarebench mock --ttft 20 --itl 8 --lockstep 8 --max-num-seqs 64 --prefill-us-per-token 100 --prefix-cache 4096
      a server that batches, queues and caches
  tarebench mock --class short=max_tokens:1-64,ttft:10 --class long=max_tokens:65-4096,ttft:80,itl:20

A request's own \"mock\" object wins over the flags, for example {\"model\": .., \"mock\": {\"ttft\": 20, \"itl\": 5}}. Its
keys: ttft, itl, lockstep (ms), jitter, ttft_dist, itl_dist, tokens, tokens_per_event, event_bytes, reasoning,
merge_writes, class. Also served: /v1/models, /version, /health, and /metrics under vLLM's names.";

/// Which usage the mock's streamed replies carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MockUsage {
    /// As the request's stream_options say
    Asked,
    /// Never
    None,
    /// After the last token, asked for or not
    Final,
    /// On every event and after the last token, asked for or not
    Every,
}

/// Flags of `mock`.
#[derive(Clone, Debug, Args)]
// so that what is wrong with a negative time is said in words
#[command(allow_negative_numbers = true)]
pub struct MockArgs {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDR", help_heading = "Address")]
    pub listen: SocketAddr,
    /// Name in /v1/models and /metrics
    #[arg(long, default_value = "mock", help_heading = "Address")]
    pub model: String,
    /// Environment variable with the key that clients must send
    #[arg(long, value_name = "NAME", help_heading = "Address")]
    pub api_key_env: Option<String>,
    /// End when standard input does
    #[arg(long, help_heading = "Address")]
    pub until_stdin_closes: bool,

    /// ms from the start of a request to its first token
    #[arg(long, default_value_t = 5.0, value_name = "MS", help_heading = "Timeline")]
    pub ttft: f64,
    /// ms between token events
    #[arg(long, default_value_t = 1.0, value_name = "MS", help_heading = "Timeline")]
    pub itl: f64,
    /// How --ttft varies: constant, lognormal:SIGMA (--ttft is the median), pareto:ALPHA (--ttft is the mean); never
    /// more than 1,000 times --ttft
    #[arg(long, default_value = "constant", value_name = "LAW", help_heading = "Timeline")]
    pub ttft_dist: Law,
    /// How --itl varies, likewise
    #[arg(long, default_value = "constant", value_name = "LAW", help_heading = "Timeline")]
    pub itl_dist: Law,
    /// 0 to 1: each interval is multiplied by 1 + jitter * u, u uniform in [-1, 1)
    #[arg(long, default_value_t = 0.0, value_name = "F", help_heading = "Timeline")]
    pub jitter: f64,
    /// Seed of the laws and the jitter
    #[arg(long, default_value_t = 7, help_heading = "Timeline")]
    pub seed: u64,
    /// Every interval of a timeline grows by this share in each such time since the mock's start, continuously; 1%/10m, or
    /// negative to become faster. The truth log has the due times that follow
    #[arg(long, value_name = "PERCENT%/TIME", help_heading = "Timeline")]
    pub drift: Option<Drift>,
    /// Lock-step: every token event is due on a multiple of so many ms, at most one of a stream on each, so that all
    /// streams emit at once as in continuous batching
    #[arg(long, value_name = "MS", help_heading = "Timeline")]
    pub lockstep: Option<f64>,
    /// us added to the time to first token for each token of the prompt (a word or a token id) that is not cached
    #[arg(long, default_value_t = 0.0, value_name = "US", help_heading = "Timeline")]
    pub prefill_us_per_token: f64,
    /// Blocks of 16 words of a prefix cache: a repeated beginning costs no prefill and is in the usage as cached_tokens;
    /// 0: no cache
    #[arg(long, default_value_t = 0, value_name = "BLOCKS", help_heading = "Timeline")]
    pub prefix_cache: u32,
    /// The first N requests take so many ms longer to their first token
    #[arg(long, value_name = "MS:N", help_heading = "Timeline")]
    pub cold_start: Option<ColdStart>,
    /// Kind of request with settings of its own: keys of a request's "mock" object, and max_tokens:LOW-HIGH. A request
    /// is of the class its "mock" object names, else of the first whose range its max_tokens lies in (repeatable)
    #[arg(long, value_name = "NAME=KEY:VALUE,..", help_heading = "Timeline")]
    pub class: Vec<Class>,

    /// Tokens of every reply [default: what the request asks for]
    #[arg(long, value_name = "N", help_heading = "Stream shape")]
    pub tokens: Option<u32>,
    /// Tokens in one event
    #[arg(long, default_value_t = 1, value_name = "N", help_heading = "Stream shape")]
    pub tokens_per_event: u32,
    /// Send no event with nothing but the role first
    #[arg(long, help_heading = "Stream shape")]
    pub no_role_event: bool,
    /// The first N tokens of a chat's reply come as reasoning (reasoning and reasoning_content)
    #[arg(long, default_value_t = 0, value_name = "N", help_heading = "Stream shape")]
    pub reasoning: u32,
    /// Pad each token event with text to so many bytes, HTTP chunk framing included; 0: do not
    #[arg(long, default_value_t = 0, value_name = "BYTES", help_heading = "Stream shape")]
    pub event_bytes: u32,
    /// N consecutive events of a stream in one write, due with the last of them
    #[arg(long, default_value_t = 1, value_name = "N", help_heading = "Stream shape")]
    pub merge_writes: u32,
    /// Write each event in pieces of so many bytes, so many us apart
    #[arg(long, value_name = "BYTES[:US]", help_heading = "Stream shape")]
    pub split_writes: Option<SplitWrites>,
    /// Which usage streamed replies carry
    #[arg(long, value_enum, default_value_t = MockUsage::Asked, value_name = "WHICH", help_heading = "Stream shape")]
    pub usage: MockUsage,
    /// Tokens that a prompt is counted as for each of its words; all words together are rounded. Token ids are one each
    #[arg(long, default_value_t = 1.0, value_name = "F", help_heading = "Stream shape")]
    pub tokens_per_word: f64,
    /// Tokens counted beside those of a prompt's words, as a chat template's
    #[arg(long, default_value_t = 0, value_name = "N", help_heading = "Stream shape")]
    pub template_tokens: u32,
    /// Close after each streamed reply although keep-alive is announced, as llama.cpp does
    #[arg(long, help_heading = "Stream shape")]
    pub close_after_reply: bool,

    /// Most requests that run at once; the others wait in a queue, first come first served [default: no limit]
    #[arg(long, value_name = "K", help_heading = "Capacity")]
    pub max_num_seqs: Option<u32>,
    /// us of busy waiting before a deadline, at most
    #[arg(long, default_value_t = 200.0, value_name = "US", help_heading = "Capacity")]
    pub spin: f64,
    /// Core to run on
    #[arg(long, value_name = "N", help_heading = "Capacity")]
    pub core: Option<usize>,

    /// Log of what was really done, one line a request
    #[arg(long, value_name = "FILE", help_heading = "Truth")]
    pub truth: Option<PathBuf>,
    /// Serve the log as /truth?from=BYTE and the mock's own fitness so far as /summary; without --truth the log is a
    /// temporary file
    #[arg(long, value_name = "ADDR", help_heading = "Truth")]
    pub truth_listen: Option<SocketAddr>,
    /// Kernel transmit stamp on each k-th token event, the first always; 0: none
    #[arg(long, default_value_t = 1, value_name = "K", help_heading = "Truth")]
    pub stamp_every: u32,

    /// Play recorded streams; the request's model names the case
    #[arg(long, value_name = "FILE", help_heading = "Script")]
    pub script: Option<PathBuf>,
    /// Most bytes a write
    #[arg(long, value_name = "N", help_heading = "Script")]
    pub script_bytes: Option<usize>,
    /// Factor on the recorded times; 0 plays without waiting
    #[arg(long, default_value_t = 1.0, value_name = "F", help_heading = "Script")]
    pub time_scale: f64,
}
