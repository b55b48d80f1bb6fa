//! The command line: flags by purpose, one struct a subcommand. A flag of `run` can also stand in a TOML
//! file; flags win.

pub mod export;
mod run;
pub mod saturate;

pub use export::ExportArgs;
pub use run::{Arm, Connection, Form, InterleaveOrder, Profile, Proof, RunArgs, Stamps, Switch, TraceFormat};

use crate::analysis::comparison::metric::Metric;
use calibration::mock::{Class, ColdStart, Law, SplitWrites};
use clap::error::{ContextKind, ContextValue};
use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::{Deserialize, Deserializer, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// `tarebench 0.1.0 (revision, features)`.
pub const VERSION: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (revision ", env!("TAREBENCH_REVISION"), ", features: io_uring, epoll)");

/// A load harness for LLM inference that weighs itself before it weighs a server.
///
/// For every latency it prints gross (what the client saw), tare (the harness's own share, measured on that
/// very request) and net (server plus network).
#[derive(Debug, Parser)]
#[command(name = "tarebench", version = VERSION, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run one campaign of load points x windows against a server, or against the built-in mock
    #[command(after_help = RUN_EXAMPLES)]
    Run(Box<RunArgs>),
    /// Weigh this host: clock, parser, and how far the harness is from the truth at rising load
    #[command(after_help = CALIBRATE_EXAMPLES)]
    Calibrate(CalibrateArgs),
    /// Serve known truth: OpenAI-compatible streams on a given timeline, with a log of what was really done
    #[command(after_help = MOCK_EXAMPLES)]
    Mock(Box<MockArgs>),
    /// Ask a server what it is, send one request, show its stream event by event
    #[command(after_help = PROBE_EXAMPLES)]
    Probe(ProbeArgs),
    /// Hold two campaigns against each other: what is a claim, what is below the noise
    #[command(after_help = COMPARE_EXAMPLES)]
    Compare(CompareArgs),
    /// Put recorded streams through the same parsers, offline: one line of figures for each
    #[command(after_help = DECODE_EXAMPLES)]
    Decode(DecodeArgs),
    /// Analyse latencies that another tool recorded: percentiles with their intervals, and what n does not carry
    #[command(after_help = IMPORT_EXAMPLES)]
    Import(ImportArgs),
    /// Rebuild every published number of a run from its raw files, bit for bit
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(VerifyArgs),
    /// Every campaign that was ever started beside a ledger, how each ended, and whether a line is missing
    #[command(after_help = LEDGER_EXAMPLES)]
    Ledger(LedgerArgs),
    /// Print the report of a run again, from its files
    #[command(after_help = REPORT_EXAMPLES)]
    Report(ReportArgs),
    /// Print the fifteen boxes of a run: what a reader needs before believing it
    #[command(after_help = DISCLOSE_EXAMPLES)]
    Disclose(DiscloseArgs),
    /// Write a run in the files of other tools, each figure recomputed as that tool defines it
    #[command(after_help = export::EXAMPLES)]
    Export(ExportArgs),
    /// Search the highest load that still meets the goals, the knee, and how much the server can do
    #[command(after_help = saturate::EXAMPLES)]
    Saturate(Box<saturate::SaturateArgs>),
}

const RUN_EXAMPLES: &str = "Examples:
  tarebench run
      three loads x two windows against the built-in mock, in under 30 s
  tarebench run --base-url http://gpu-7:8000 --max-concurrency 1,8,50
      the seed mix (70/20/10 % of 200/1,000/6,000-token prompts) against a vLLM, SGLang or llama.cpp
  tarebench run --base-url http://127.0.0.1:8102 --max-concurrency 1,8 --num-prompts 40 --length-scale 0.1
      a small server with a small context
  tarebench run --base-url http://gpu-7:8000 --request-rate 2,5,10 --num-prompts 1000
      open loop: requests arrive as a Poisson process, however slow the server is
  tarebench run --base-url http://gpu-7:8000 --request-rate 5 --arrivals spike:4x/10s@30s --min-duration 60
  tarebench run --base-url http://gpu-7:8000 --stages 60s@5,120s@20 --shard 2/4
      a rate that changes over time; and one sent from four hosts, of which this is the second
  zcat day.csv.gz | tarebench run --base-url http://gpu-7:8000 --trace - --time-scale 1,2
      captured traffic with its own times and lengths, as it was and twice as fast
  tarebench run --config campaign.toml --seed 8
      flags win over the file
  tarebench run --base-url http://gpu-7:8000 --interleave http://gpu-8:8000 --windows 4 --max-concurrency 8
      two servers in turns (ABBAABBA); --json then prints {\"a\": run.json, \"b\": run.json}

Exit status: 0 complete and valid; 1 could not be carried out; 2 wrong usage; 3 complete, but a window is
invalid or too many requests failed; 130 interrupted, everything measured kept.";
const CALIBRATE_EXAMPLES: &str = "Examples:
  tarebench calibrate --quick
      under a minute: what the harness costs on this host, and the load up to which it is trustworthy here
  tarebench calibrate --base-url http://gpu-7:9000 --truth-url http://gpu-7:9001/truth
      the same through the network, against `tarebench mock --listen 0.0.0.0:9000 --truth-listen 0.0.0.0:9001` there
  tarebench calibrate --show
      the newest calibration that fits this host and these flags
  tarebench calibrate --check runs/2026-11-29T18-22-55-campaign
      was that run inside its envelope?
  tarebench calibrate --at-limit 0.7
      one step of each kind at 70 % of the stored limits, in a fresh process: does the verdict hold?

Exit status: 0 also when the verdict is poor; 1 could not be carried out, or --at-limit could
show nothing; 2 wrong usage; 3 --check: outside, or --at-limit: the verdict does not hold;
130 interrupted.";
const MOCK_EXAMPLES: &str = "Examples:
  tarebench mock --listen 127.0.0.1:8000 --ttft 50 --itl 10 --truth truth.jsonl
  tarebench mock --listen 0.0.0.0:8000 --truth-listen 0.0.0.0:8001
      for calibrate on another host
  tarebench mock --ttft 20 --itl 8 --lockstep 8 --max-num-seqs 64 --prefill-us-per-token 100 --prefix-cache 4096
      a server that batches, queues and caches
  tarebench mock --class short=max_tokens:1-64,ttft:10 --class long=max_tokens:65-4096,ttft:80,itl:20

A request's own \"mock\" object wins over the flags, for example {\"model\": .., \"mock\": {\"ttft\": 20, \"itl\": 5}}. Its
keys: ttft, itl, lockstep (ms), jitter, ttft_dist, itl_dist, tokens, tokens_per_event, event_bytes, reasoning,
merge_writes, class. Also served: /v1/models, /version, /health, and /metrics under vLLM's names.";
const PROBE_EXAMPLES: &str = "Example:
  tarebench probe --base-url http://127.0.0.1:8000 --prompt 'Name three colours.' --max-tokens 16";
const COMPARE_EXAMPLES: &str = "Examples:
  tarebench compare runs/before runs/after
      the same plan on two servers, or on one server before and after a change
  tarebench compare runs/x/a runs/x/b
      the two arms of run --interleave
  tarebench compare runs/a-morning,runs/a-night runs/b-morning,runs/b-night
      windows of several runs of one plan, put together for each arm
  tarebench compare runs/fp16 runs/fp8 --varies model --metrics ttft.p50 --margin 2%
      the one question: with one metric at one load four windows an arm suffice
  tarebench compare runs/uring runs/epoll --varies arm --metrics ttft.tare.p99,ttft.net.p99

Metrics: METRIC[.COLUMN].PERCENTILE (ttft.p50, gap.net.p99), throughput.requests, throughput.output,
throughput.total. Without a column: from due in open loop (ttft, ttfo, e2e), else gross. What may be named in
--varies and --allow-differences: base_url, server, declared, model, endpoint, workload, sampling, stream, loads,
schedule, protocol, connection, headers, token_proof, host, location, arm, stamps, cores, canary, spin, version.

Verdicts, the first that holds:
  NO RESULT: client    a window is not valid, or a gate withholds the figure
  NO RESULT: unstable  the server drifted within a window, or failed too many requests
  EQUIVALENT           enough windows, and a difference of the margin or more is ruled out
  NOT A CLAIM          not more than the noise
  SUGGESTIVE           more than that, but too few windows for a test: all metrics x loads count as one family,
                       and 1 test needs 4 windows an arm, 2 to 6 need 5, 7 to 23 need 6 (pairs: 1 needs 6, 2 or 3
                       need 7, 4 to 6 need 8)
  SUPPORTED            p at most 0.05 (Holm), and beyond the margin
  INCONCLUSIVE         neither

The noise is the amount by which two windows of one arm typically differ: the mean over all pairs of its windows, of
the arms the larger. The test deals the windows to the arms anew (permutation). Of windows that run --interleave
measured with --interleave-order pairs, the noise is the amount by which the differences B - A of two pairs typically
differ, and the test turns their signs: what moves both servers alike is in neither.

Exit status: 0 compared, also when nothing was found; 1 not comparable (every difference is listed), or no run
directory; 2 wrong usage; 3 NO RESULT everywhere.";
const DECODE_EXAMPLES: &str = "Example:
  tarebench decode tests/cases/streams.jsonl";
const VERIFY_EXAMPLES: &str = "Example:
  tarebench verify runs/2026-11-29T18-22-55-campaign";
const REPORT_EXAMPLES: &str = "Examples:
  tarebench report runs/2026-11-29T18-22-55-campaign
  tarebench report runs/2026-11-29T18-22-55-campaign --format markdown

Exit status: 0; 1 when there is no report: box 1, 2 or 3 is empty (nothing was answered, the counts do not close, or
requests.jsonl is missing), so that nobody could check a figure.";
const DISCLOSE_EXAMPLES: &str = "Examples:
  tarebench disclose runs/2026-11-29T18-22-55-campaign
      one page of Markdown, to be put beside the figures
  tarebench disclose runs/2026-11-29T18-22-55-campaign --json

A box is measured, declared (somebody's word: --declare of run), not verifiable (it cannot be known from here), or
empty; of an empty one the page says what would fill it. Nothing declared makes a box measured.";

const IMPORT_EXAMPLES: &str = "Examples:
  tarebench import study/mistral-3-14B.json
      the record files of the serverless tail-latency study: sweep, chains, and whether the file agrees with itself
  tarebench import latencies.csv --total-column wait_s --by arm
      named columns, a group for each arm; a file of bare numbers is read as total in ms

Forms: JSON with baseline_sweep.concurrency_N.records[] and chained_session; an array, or records, requests, results or
raw, of objects with ttft_ms, total_ms, max_gap_ms, completion_tokens, error, abandoned_after_ms; one such object a line;
delimited text (comma, semicolon, tab), whose columns may end in _ms, _us, _ns or _s.";
const LEDGER_EXAMPLES: &str = "Examples:
  tarebench ledger
      the campaigns in runs/
  tarebench ledger runs/2026-11-29T18-22-55-campaign --verify
      those beside this run, and the files of each against what its end line says of them

Exit status: 0 the chain is whole; 1 there is no ledger, or it is not what was written: a line was changed or removed, or
(--verify) a file is another one.";

/// Comma-separated numbers; in TOML a number, a list, or such a string.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct List<T>(pub Vec<T>);

impl<T: FromStr<Err: std::fmt::Display>> FromStr for List<T> {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let parse = |item: &str| item.trim().parse().map_err(|e| format!("{item:?}: {e}"));
        s.split(',').map(parse).collect::<Result<Vec<T>, _>>().map(List)
    }
}

impl<'de, T: Deserialize<'de> + FromStr<Err: std::fmt::Display>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written<T> {
            Many(Vec<T>),
            One(T),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Many(items) => Ok(List(items)),
            Written::One(item) => Ok(List(vec![item])),
            Written::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

/// `NAME=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pair(pub String, pub String);

impl FromStr for Pair {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let (name, value) = s.split_once('=').ok_or_else(|| "write it as NAME=VALUE".to_owned())?;
        Ok(Pair(name.trim().to_owned(), value.trim().to_owned()))
    }
}

/// A usage error without what was given to `--header`, which may be a secret.
pub fn without_values(mut error: clap::Error) -> clap::Error {
    let of_header = |value: &ContextValue| matches!(value, ContextValue::String(arg) if arg.starts_with("--header"));
    if error.get(ContextKind::InvalidArg).is_some_and(of_header) {
        error.insert(ContextKind::InvalidValue, ContextValue::String("[not shown]".to_owned()));
    }
    error
}

impl TryFrom<String> for Pair {
    type Error = String;
    fn try_from(s: String) -> Result<Self, String> {
        s.parse()
    }
}

impl From<Pair> for String {
    fn from(pair: Pair) -> String {
        format!("{}={}", pair.0, pair.1)
    }
}

/// Flags of `import`.
#[derive(Clone, Debug, Args)]
pub struct ImportArgs {
    /// Files of records
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Delimited text: column of the time to first token [default: ttft, time_to_first_token, first_token]
    #[arg(long, value_name = "NAME")]
    pub ttft_column: Option<String>,
    /// Delimited text: column of the total [default: total, e2e, e2el, latency, duration, elapsed]
    #[arg(long, value_name = "NAME")]
    pub total_column: Option<String>,
    /// Delimited text: a group for each value of this column
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
    /// Delimited text: unit of columns whose names do not tell [default: ms]
    #[arg(long, value_enum, value_name = "UNIT")]
    pub unit: Option<TimeUnit>,
    /// Print one JSON document a file, one a line
    #[arg(long)]
    pub json: bool,
}

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TimeUnit {
    /// Seconds
    S,
    /// Milliseconds
    Ms,
    /// Microseconds
    Us,
    /// Nanoseconds
    Ns,
}

impl TimeUnit {
    /// ms in one of them.
    pub fn ms(self) -> f64 {
        match self {
            TimeUnit::S => 1e3,
            TimeUnit::Ms => 1.0,
            TimeUnit::Us => 1e-3,
            TimeUnit::Ns => 1e-6,
        }
    }
}

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

/// Flags of `calibrate`.
#[derive(Clone, Debug, Args)]
pub struct CalibrateArgs {
    /// Short windows and coarse limits, under 60 s [default: up to 10 minutes]
    #[arg(long, help_heading = "What to do")]
    pub quick: bool,
    /// Show a stored calibration: the newest that fits, or the one with this id or directory
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "", help_heading = "What to do")]
    pub show: Option<String>,
    /// Say whether a run stayed inside what was calibrated for it
    #[arg(long, value_name = "RUN", conflicts_with_all = ["show", "quick"], help_heading = "What to do")]
    pub check: Option<PathBuf>,
    /// One step of each kind at F times the stored limit: does the verdict still hold?
    #[arg(long, value_name = "F", conflicts_with_all = ["show", "check", "quick"], help_heading = "What to do")]
    pub at_limit: Option<f64>,
    /// A mock on another host instead of one started here
    #[arg(long, value_name = "URL", requires = "truth_url", help_heading = "Target")]
    pub base_url: Option<String>,
    /// Where that mock serves its truth log (`--truth-listen` there)
    #[arg(long, value_name = "URL", requires = "base_url", help_heading = "Target")]
    pub truth_url: Option<String>,
    /// Worker threads [default: cores - 1, at least 1]
    #[arg(long, value_name = "N", help_heading = "Harness")]
    pub workers: Option<u32>,
    /// Cores of the workers, in order [default: the first ones this process may use]
    #[arg(long, value_name = "N,..", help_heading = "Harness")]
    pub cores: Option<List<usize>>,
    /// Workers never sleep, as in run --spin
    #[arg(long, help_heading = "Harness")]
    pub spin: bool,
    /// How the client is built [default: uring, else epoll, aloud]
    #[arg(long, value_enum, help_heading = "Harness")]
    pub arm: Option<Arm>,
    /// Kernel stamps (falling back aloud), or the harness's own only [default: kernel]
    #[arg(long, value_enum, help_heading = "Harness")]
    pub stamps: Option<Stamps>,
    /// Directory of calibrations [default: $TAREBENCH_CALIBRATIONS, else tarebench/calibrations in $XDG_STATE_HOME]
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub calibrations: Option<PathBuf>,
    /// Print nothing but errors
    #[arg(long, help_heading = "Output")]
    pub quiet: bool,
    /// Print calibration.json on standard output (with --check, --at-limit: their answer), and nothing else there
    #[arg(long, help_heading = "Output")]
    pub json: bool,
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

/// Flags of `probe`.
#[derive(Clone, Debug, Args)]
pub struct ProbeArgs {
    /// Server, e.g. http://gpu-7:8000
    #[arg(long, value_name = "URL")]
    pub base_url: String,
    /// Path of the API
    #[arg(long, value_name = "PATH", default_value = "/v1/chat/completions")]
    pub endpoint: String,
    /// Model name [default: first of /v1/models]
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Prompt
    #[arg(long, default_value = "Name three colours.")]
    pub prompt: String,
    /// Output length
    #[arg(long, default_value_t = 16, value_name = "N")]
    pub max_tokens: u64,
    /// Ask for one JSON document instead of a stream
    #[arg(long)]
    pub no_stream: bool,
    /// Extra request header (repeatable)
    #[arg(long, value_name = "NAME=VALUE")]
    pub header: Vec<Pair>,
    /// Environment variable with the API key [default: OPENAI_API_KEY, on loopback only unless this flag is given]
    #[arg(long, value_name = "NAME")]
    pub api_key_env: Option<String>,
    /// JSON object whose fields join or replace those of the request body
    #[arg(long, value_name = "JSON")]
    pub extra_body: Option<String>,
    /// How the client is built [default: uring; where this host refuses io_uring, epoll, with a warning]
    #[arg(long, value_enum)]
    pub arm: Option<Arm>,
    /// Print the record as JSON instead
    #[arg(long)]
    pub json: bool,
}

/// Flags of `compare`.
#[derive(Clone, Debug, Args)]
pub struct CompareArgs {
    /// Run directory of the first arm; several, separated by commas, are put together
    #[arg(value_name = "A[,A2..]")]
    pub a: List<PathBuf>,
    /// Run directory of the second arm, likewise
    #[arg(value_name = "B[,B2..]")]
    pub b: List<PathBuf>,
    /// What is compared: each one counts as a test [default: ttft.p50,ttft.p99,e2e.p50]
    #[arg(long, value_name = "METRIC,..")]
    pub metrics: Option<List<Metric>>,
    /// Smallest difference that matters, in percent or as a share
    #[arg(long, value_name = "SHARE", default_value = "5%")]
    pub margin: Margin,
    /// What the comparison is about [default: the server, and what is declared of it]
    #[arg(long, value_name = "NAME,..")]
    pub varies: Option<List<String>>,
    /// What else may differ between the runs
    #[arg(long, value_name = "NAME,..")]
    pub allow_differences: Option<List<String>>,
    /// Print the whole comparison as JSON
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print it as Markdown
    #[arg(long)]
    pub markdown: bool,
}

/// A share above 0 and below 1: `5%`, `0.05`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Margin(pub f64);

impl FromStr for Margin {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let (digits, per) = s.trim().strip_suffix('%').map_or((s, 1.0), |percent| (percent, 100.0));
        let share = digits.trim().parse::<f64>().ok().map(|value| value / per);
        let words = || format!("{s:?} is no margin: write it as 5% or 0.05, above 0 and below 100 %");
        share.filter(|share| *share > 0.0 && *share < 1.0).map(Margin).ok_or_else(words)
    }
}

/// Flags of `decode`.
#[derive(Clone, Debug, Args)]
pub struct DecodeArgs {
    /// File of cases, one a line; - for standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Print the record that a run would have written instead of the figures
    #[arg(long)]
    pub record: bool,
}

/// Flags of `verify`.
#[derive(Clone, Debug, Args)]
pub struct VerifyArgs {
    /// Run directory
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}

/// Flags of `ledger`.
#[derive(Clone, Debug, Args)]
pub struct LedgerArgs {
    /// A ledger, a directory with one, or a run directory beside one
    #[arg(value_name = "PATH", default_value = "runs")]
    pub path: PathBuf,
    /// Print it as JSON, and nothing else
    #[arg(long)]
    pub json: bool,
    /// Hold the files of every run directory that is still there against the SHA-256 in its end line, too
    #[arg(long)]
    pub verify: bool,
}

/// How a report is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// At most 100 columns wide, as `run` prints it.
    Terminal,
    /// As in report.md.
    Markdown,
}

/// Flags of `report`.
#[derive(Clone, Debug, Args)]
pub struct ReportArgs {
    /// Run directory
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// How it is printed
    #[arg(long, value_enum, default_value = "terminal", help_heading = "Output")]
    pub format: ReportFormat,
}

/// Flags of `disclose`.
#[derive(Clone, Debug, Args)]
pub struct DiscloseArgs {
    /// Run directory
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Print boxes.json, and nothing else
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_value_of_a_header_is_in_no_error() {
        for command in ["run", "probe"] {
            let words = ["tarebench", command, "--base-url", "http://x", "--header", "X-Key: hidden-value"];
            let error = without_values(Cli::try_parse_from(words).expect_err("no ="));
            let told = error.to_string();
            assert!(told.contains("--header") && told.contains("NAME=VALUE") && !told.contains("hidden"), "{told}");
        }
        let error = Cli::try_parse_from(["tarebench", "run", "--windows", "many"]).expect_err("no number");
        assert!(without_values(error).to_string().contains("many"), "other values are repeated");
    }

    #[test]
    fn a_margin_is_a_share() {
        for (written, share) in [("5%", 0.05), ("0.05", 0.05), (" 2.5 %", 0.025)] {
            assert!((written.parse::<Margin>().expect("a margin").0 - share).abs() < 1e-12, "{written}");
        }
        for written in ["", "%", "0", "0%", "-1%", "100%", "5", "nan", "inf", "x"] {
            assert!(written.parse::<Margin>().is_err(), "{written}");
        }
    }

    #[test]
    fn flags_win_over_the_file_and_unknown_keys_are_errors() {
        let file: RunArgs =
            toml::from_str("max-concurrency = [1, 2]\nseed = 9\nquiet = true\nheader = ['a=b']").expect("parses");
        let flags = RunArgs { seed: Some(3), ..RunArgs::default() };
        let both = flags.over(file);
        assert_eq!((both.seed, both.max_concurrency, both.quiet), (Some(3), Some(List(vec![1, 2])), true));
        assert_eq!(both.header, [Pair("a".to_owned(), "b".to_owned())]);
        assert!(toml::from_str::<RunArgs>("max-concurency = 1").is_err());
        let rates = |text| toml::from_str::<RunArgs>(text).expect("parses").request_rate;
        assert_eq!(rates("request-rate = [2, 0.5, inf]"), Some(List(vec![2.0, 0.5, f64::INFINITY])));
        assert_eq!(rates("request-rate = '2,inf'"), Some(List(vec![2.0, f64::INFINITY])));
        assert_eq!(
            toml::from_str::<RunArgs>("max-concurrency = '1,8'").expect("text").max_concurrency,
            Some(List(vec![1, 8]))
        );
    }
}
