//! Flags of `run`. Each can also stand in a TOML file; flags win.

use super::{List, Pair};
use bench_engine::conn::Reuse;
use bench_engine::io::DriverKind;
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;

/// How long connections are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "String")]
pub enum Connection {
    /// As long as the server lets them: `reuse`.
    Reuse,
    /// One for each request: `per-request`.
    PerRequest,
    /// For so many requests, two or more.
    AtMost(NonZeroU32),
}

/// As it stands in TOML: a word or a number.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Number(u32),
    Word(String),
}

impl FromStr for Connection {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "reuse" => Ok(Connection::Reuse),
            "per-request" => Ok(Connection::PerRequest),
            number => match number.parse::<u32>().ok().and_then(NonZeroU32::new) {
                Some(NonZeroU32::MIN) => Ok(Connection::PerRequest),
                Some(n) => Ok(Connection::AtMost(n)),
                None => Err("write reuse, per-request, or a number of requests".to_owned()),
            },
        }
    }
}

impl TryFrom<Written> for Connection {
    type Error = String;
    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::Number(n) => n.to_string().parse(),
            Written::Word(word) => word.parse(),
        }
    }
}

impl fmt::Display for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Connection::Reuse => f.write_str("reuse"),
            Connection::PerRequest => f.write_str("per-request"),
            Connection::AtMost(n) => write!(f, "{n}"),
        }
    }
}

impl From<Connection> for String {
    fn from(connection: Connection) -> String {
        connection.to_string()
    }
}

impl From<Connection> for Reuse {
    fn from(connection: Connection) -> Reuse {
        match connection {
            Connection::Reuse => Reuse::Unlimited,
            Connection::PerRequest => Reuse::PER_REQUEST,
            Connection::AtMost(n) => Reuse::AtMost(n),
        }
    }
}

/// Where stamps come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stamps {
    /// The kernel, falling back aloud.
    Kernel,
    /// The harness only: net is not available.
    User,
}

/// How the client is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arm {
    /// io_uring.
    Uring,
    /// epoll and plain calls: where io_uring is forbidden, and to compare with.
    Epoll,
}

impl From<Arm> for DriverKind {
    fn from(arm: Arm) -> Self {
        match arm {
            Arm::Uring => DriverKind::Uring,
            Arm::Epoll => DriverKind::Epoll,
        }
    }
}

/// Order of the windows of two arms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InterleaveOrder {
    /// ABBA or BAAB, drawn for each load point.
    Abba,
    /// Drawn for each pair.
    Pairs,
}

/// How a server proves tokens that have no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Proof {
    /// Not at all.
    None,
    /// Token ids (vLLM).
    Ids,
    /// Running usage (vLLM, SGLang).
    Usage,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Switch {
    /// On.
    On,
    /// Off.
    Off,
}

/// In which form prompts are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// Text.
    Text,
    /// Token ids.
    Ids,
}

/// Who writes a captured trace so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TraceFormat {
    /// By the first line.
    Auto,
    /// CSV: TIMESTAMP (a date), ContextTokens, GeneratedTokens.
    Azure,
    /// CSV: Timestamp (s), Model, Request tokens, Response tokens.
    Burstgpt,
    /// JSON Lines: timestamp (ms), input_length, output_length, hash_ids of 512 tokens.
    Mooncake,
    /// JSON Lines: timestamp (s), input_length, output_length, hash_ids of 16 tokens.
    Vllm,
    /// JSON Lines: timestamp (s), input_length, output_length, hash_ids of 16 tokens, type.
    Bailian,
    /// JSON Lines: arrival_ms or timestamp (s), lengths, and a prompt, messages or a body if there is one.
    Generic,
}

/// Sets of protocol defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// 300 kept a window: no p99 interval.
    Quick,
    /// 1,000 kept a window.
    Standard,
    /// 10,000 kept a window.
    Tail,
    /// Closed loop 1, 8, 50; 310 sent, 10 dropped; seed mix, seed 7, temperature 0; two windows.
    SeedV1,
}

/// Makes the struct, its reading from TOML, and `over`: flags win over the file.
macro_rules! run_args {
    ($($(#[$meta:meta])* $name:ident: $type:ty),+ $(,)?) => {
        /// Flags of `run`. None and empty mean not given.
        #[derive(Clone, Debug, Default, PartialEq, Args, Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
        pub struct RunArgs {
            /// TOML file with any of these flags by their names; flags win, unknown keys are an error
            #[arg(long, value_name = "FILE", help_heading = "Output")]
            #[serde(skip)]
            pub config: Option<PathBuf>,
            $($(#[$meta])* pub $name: $type,)+
        }

        impl RunArgs {
            /// These flags where given, else the file's.
            pub fn over(self, file: RunArgs) -> RunArgs {
                RunArgs { config: self.config, $($name: self.$name.or_else_from(file.$name),)+ }
            }
        }
    };
}

/// "Where given", for the three kinds of flag.
trait OrElseFrom {
    fn or_else_from(self, other: Self) -> Self;
}
impl<T> OrElseFrom for Option<T> {
    fn or_else_from(self, other: Self) -> Self {
        self.or(other)
    }
}
impl<T> OrElseFrom for Vec<T> {
    fn or_else_from(self, other: Self) -> Self {
        if self.is_empty() { other } else { self }
    }
}
impl OrElseFrom for bool {
    fn or_else_from(self, other: Self) -> Self {
        self || other
    }
}

run_args! {
    /// Server, e.g. `http://gpu-7:8000` or `https://gw.example` [default: the built-in mock, started and stopped here]
    #[arg(long, value_name = "URL", help_heading = "Target")]
    base_url: Option<String>,
    /// Where the server's own counters are read, once a second beside the load: Prometheus text of vLLM, SGLang, TGI or
    /// llama.cpp; none switches it off [default: /metrics of --base-url, when it answers with that]
    #[arg(long, value_name = "URL", help_heading = "Target")]
    metrics_url: Option<String>,
    /// Path of the API: .../chat/completions is chat, any other .../completions is text [default: /v1/chat/completions]
    #[arg(long, value_name = "PATH", help_heading = "Target")]
    endpoint: Option<String>,
    /// Model name [default: first of /v1/models]
    #[arg(long, value_name = "NAME", help_heading = "Target")]
    model: Option<String>,
    /// Ask for one JSON document instead of a stream: e2e only
    #[arg(long, help_heading = "Target")]
    no_stream: bool,
    /// Extra request header; one of ours is replaced (repeatable)
    #[arg(long, value_name = "NAME=VALUE", help_heading = "Target")]
    header: Vec<Pair>,
    /// Leave out the header of this name that requests of the load would have: Accept, Accept-Encoding or User-Agent
    /// (repeatable)
    #[arg(long, value_name = "NAME", help_heading = "Target")]
    remove_header: Vec<String>,
    /// Environment variable with the API key [default: OPENAI_API_KEY, on loopback and to a server verified by TLS only,
    /// unless this flag is given]
    #[arg(long, value_name = "NAME", help_heading = "Target")]
    api_key_env: Option<String>,
    /// File with the API key on its only line
    #[arg(long, value_name = "FILE", help_heading = "Target")]
    api_key_file: Option<PathBuf>,
    /// Keep connections (reuse), open one for each request (per-request), or one for every N requests [default: reuse]
    #[arg(long, value_name = "reuse|per-request|N", help_heading = "Target")]
    connection: Option<Connection>,
    /// Use these IP addresses instead of what the host name resolves to. New connections take several in turn, and so they
    /// take those of the name that answer, of one family
    #[arg(long, value_name = "IP,..", help_heading = "Target")]
    address: Option<String>,
    /// PEM file with the CA of an https server, or its own certificate; nobody else is then trusted [default: the list of
    /// public CAs built in]
    #[arg(long, value_name = "FILE", help_heading = "Target")]
    ca_file: Option<PathBuf>,
    /// PEM file with the client's certificate, shown to the server of --base-url when it asks
    #[arg(long, value_name = "FILE", help_heading = "Target")]
    client_cert: Option<PathBuf>,
    /// PEM file with its key
    #[arg(long, value_name = "FILE", help_heading = "Target")]
    client_key: Option<PathBuf>,
    /// Take any certificate of an https server for good: stands in every title
    #[arg(long, help_heading = "Target")]
    insecure: bool,
    /// Resume TLS sessions where the server offers it: shorter handshakes, and no certificate is looked at again [default:
    /// every handshake is a full one]
    #[arg(long, help_heading = "Target")]
    tls_resume: bool,
    /// JSON object whose fields join or replace those of every request body
    #[arg(long, value_name = "JSON", help_heading = "Target")]
    extra_body: Option<String>,
    /// Wait so long for a port that is closed, or a server that is still loading (503) [default: 0]
    #[arg(long, value_name = "SECONDS", help_heading = "Target")]
    wait: Option<f64>,

    /// A second server, B, measured in turns with --base-url, A: same flags, requests, headers and key, two run
    /// directories (a and b in --out), and of each window of A one of B right before or after it
    #[arg(long, value_name = "URL", help_heading = "Target")]
    interleave: Option<String>,
    /// Which arm goes first: abba (drawn for the first window of each load point, then in turn) or pairs (drawn for each
    /// pair of windows; compare can then use the sign-flip test) [default: abba]
    #[arg(long, value_enum, value_name = "ORDER", help_heading = "Target")]
    interleave_order: Option<InterleaveOrder>,

    /// Closed loop: so many requests at once; a list gives several load points [default: 1,8,50]. With --request-rate:
    /// a cap, and lists of both are all pairs [default then: as many as a window has requests, at most 4096]
    #[arg(long, value_name = "N,..", help_heading = "Load")]
    max_concurrency: Option<List<u32>>,
    /// Open loop: requests/s, sent at times drawn before the run whatever the server does; inf: all at once
    #[arg(long, value_name = "R,..", help_heading = "Load")]
    request_rate: Option<List<f64>>,
    /// Open loop: shape of the gamma distribution of the times between requests; 1: Poisson, below: in bursts, above:
    /// more regular, inf: evenly spaced [default: 1]
    #[arg(long, value_name = "SHAPE", help_heading = "Load")]
    burstiness: Option<f64>,
    /// Open loop whose rate changes: batch:N/T (N at once every T), ramp:A..B/T (A to B requests/s, then over), or with
    /// --request-rate on-off:ON/OFF (in turns), spike:Kx/T@START (K times the rate for T); T like 500ms, 10s, 2m, 1h
    #[arg(long, value_name = "PATTERN", help_heading = "Load")]
    arrivals: Option<String>,
    /// Open loop: rates one after another, T@R each, like 60s@5,120s@20 (0: a pause). Like a ramp it decides the number of
    /// requests: all that come, or with --num-prompts the first ones
    #[arg(long, value_name = "T@R,..", help_heading = "Load")]
    stages: Option<List<String>>,
    /// Open loop: this is host I of N, and sends every Nth request of the schedule; the N together send exactly it.
    /// --max-concurrency is then the cap of each host
    #[arg(long, value_name = "I/N", help_heading = "Load")]
    shard: Option<String>,

    /// Conversations of so many turns, 4 or 2..6 (each number as likely): each turn sends what was said before, the replies
    /// as the server gave them, and a new message of --workload. --max-concurrency is then the number of users, who lead
    /// one conversation after another [default then: 1,4,16]
    #[arg(long, value_name = "TURNS", help_heading = "Sessions")]
    sessions: Option<String>,
    /// Tasks of an agent: so many calls, 10 or 5..15, each needing the reply before, as in --sessions. --max-concurrency is
    /// then the number of agents [default then: 1,4,16]
    #[arg(long, value_name = "CALLS", help_heading = "Sessions")]
    chain: Option<String>,
    /// --sessions: how long a user takes from the end of a reply to the next turn: 2s, exp:2s (mean), uniform:1s..3s or
    /// lognormal:2s/1s (mean/standard deviation), drawn for each turn [default: none, the next turn is sent at once]
    #[arg(long, value_name = "TIME", help_heading = "Sessions")]
    think_time: Option<String>,
    /// --sessions: a turn is due every so often from the start of its conversation, however long replies take; it is sent
    /// when it is due and the reply before is in. In place of --think-time
    #[arg(long, value_name = "TIME", help_heading = "Sessions")]
    turn_every: Option<String>,
    /// --chain: how long an agent's tools take between a reply and the next call, as in --think-time [default: none]
    #[arg(long, value_name = "TIME", help_heading = "Sessions")]
    tool_time: Option<String>,
    /// Sessions kept in each window [default: 30]
    #[arg(long, value_name = "N", help_heading = "Sessions")]
    num_sessions: Option<u64>,
    /// Warm-up sessions before them, dropped by id [default: 2]
    #[arg(long, value_name = "N", help_heading = "Sessions")]
    drop_sessions: Option<u64>,
    /// Sessions begin at times drawn before the run, so many a second (a Poisson process; --burstiness changes its shape),
    /// however many are under way, in place of users; a list gives several load points, inf: all at once
    #[arg(long, value_name = "R,..", help_heading = "Sessions")]
    session_rate: Option<List<f64>>,

    /// Replay captured traffic with its own times and lengths: CSV or JSON Lines; - reads standard input, once. Every
    /// request of it, unless --num-prompts is given; --max-concurrency is a cap
    #[arg(long, value_name = "FILE", help_heading = "Trace")]
    trace: Option<PathBuf>,
    /// What wrote the trace [default: auto, by its first line]
    #[arg(long, value_enum, value_name = "FORMAT", help_heading = "Trace")]
    trace_format: Option<TraceFormat>,
    /// Seconds of the trace that pass in one second: 60 replays an hour in a minute; a list gives several load points
    /// [default: 1]
    #[arg(long, value_name = "F,..", help_heading = "Trace")]
    time_scale: Option<List<f64>>,
    /// Leave out what comes earlier, in seconds of the trace after its first row [default: 0]
    #[arg(long, value_name = "SECONDS", help_heading = "Trace")]
    trace_from: Option<f64>,
    /// Leave out what comes then or later, in seconds of the trace after its first row [default: its end]
    #[arg(long, value_name = "SECONDS", help_heading = "Trace")]
    trace_to: Option<f64>,
    /// Go through the trace so often; each pass begins one mean gap after the last arrival of the one before, and has
    /// blocks of its own [default: 1]
    #[arg(long, value_name = "N", help_heading = "Trace")]
    trace_loop: Option<u64>,
    /// Tokens of a block of hash_ids [default: mooncake 512, vllm and bailian 16]
    #[arg(long, value_name = "N", help_heading = "Trace")]
    hash_block: Option<u64>,
    /// Cut longer prompts of the trace, after --length-scale; counted and said
    #[arg(long, value_name = "N", help_heading = "Trace")]
    max_input_tokens: Option<u64>,
    /// Cut longer outputs of the trace, after --length-scale; counted and said
    #[arg(long, value_name = "N", help_heading = "Trace")]
    max_output_tokens: Option<u64>,

    /// seed-mix (70/20/10 % of 200/100, 1000/300, 6000/600 prompt/output tokens), random, or drawn lengths in tokens:
    /// lognormal:in=512/300,out=128/100 and normal:.. (mean/standard deviation of the lengths themselves; with bounds,
    /// as in=512/300[16..4096], what falls outside is drawn again), uniform:in=16..1024,out=1..256, histogram:FILE (CSV
    /// or JSONL of input_tokens, output_tokens, count); or texts: sharegpt:FILE (first turn of each conversation, as
    /// long an answer), jsonl:FILE (prompt with output_tokens, messages, or body with a whole body; 256 tokens where no
    /// length is given). Texts come in an order of the seed, none again before all were used [default: seed-mix]
    #[arg(long, visible_alias = "dataset-name", value_name = "NAME", help_heading = "Work")]
    workload: Option<String>,
    /// The file of --workload histogram, sharegpt or jsonl (also: custom) where none stands in it
    #[arg(long, value_name = "FILE", help_heading = "Work")]
    dataset_path: Option<PathBuf>,
    /// What the prompts of a window share: unique (nothing: a nonce is put first), shared-prefix:N (their first N
    /// tokens) or repeat (one request again and again), both titled CACHE TEST; as-is (texts as their file has them, the
    /// same in every window). The warm-up never sends what is measured [default: unique]
    #[arg(long, value_name = "MODE", help_heading = "Work")]
    cache: Option<String>,
    /// Drawn prompts as text, or as token ids of exactly the asked length (completions endpoint) [default: text]
    #[arg(long, value_enum, help_heading = "Work")]
    prompt_form: Option<Form>,
    /// Token ids to draw from, both ends included [default: 1000..10000]
    #[arg(long, value_name = "FIRST..LAST", help_heading = "Work")]
    token_ids: Option<String>,
    /// Multiplies every drawn length [default: 1; 0.1 for seed-mix and random against the built-in mock]
    #[arg(long, value_name = "F", help_heading = "Work")]
    length_scale: Option<f64>,
    /// random: prompt length in tokens [default: 1024]
    #[arg(long, value_name = "N", help_heading = "Work")]
    random_input_len: Option<u64>,
    /// random: output length in tokens [default: 128]
    #[arg(long, value_name = "N", help_heading = "Work")]
    random_output_len: Option<u64>,
    /// random: lengths are uniform in L(1-r)..L(1+r) [default: 0]
    #[arg(long, value_name = "R", help_heading = "Work")]
    random_range_ratio: Option<f64>,
    /// Of order, lengths and words [default: 7]
    #[arg(long, value_name = "N", help_heading = "Work")]
    seed: Option<u64>,
    /// Sampling temperature, always sent [default: 0]
    #[arg(long, value_name = "T", help_heading = "Work")]
    temperature: Option<f64>,
    /// Nucleus sampling, always sent [default: 1]
    #[arg(long, value_name = "P", help_heading = "Work")]
    top_p: Option<f64>,
    /// Replaces every asked output length
    #[arg(long, value_name = "N", help_heading = "Work")]
    max_tokens: Option<u64>,
    /// Ask the server to generate up to the limit (vLLM, SGLang, llama.cpp)
    #[arg(long, help_heading = "Work")]
    ignore_eos: bool,
    /// Ask for proof of tokens without text: ids or running usage (vLLM, SGLang) [default: none]
    #[arg(long, value_enum, help_heading = "Work")]
    token_proof: Option<Proof>,

    /// tokenizer.json of the model: prompts are made to the asked length by its count, the server's template taken off
    #[arg(long, value_name = "FILE", help_heading = "Work")]
    tokenizer: Option<PathBuf>,
    /// Before the first window: five short requests, in no count, that show how many tokens the server counts a word; prompts
    /// then have the asked length by its count [default: on; off against the built-in mock and others of its kind]
    #[arg(long, value_enum, value_name = "WHETHER", help_heading = "Work")]
    length_probe: Option<Switch>,

    /// Requests kept in each window [default: 300]
    #[arg(long, value_name = "N", help_heading = "Protocol")]
    num_prompts: Option<u64>,
    /// Warm-up requests before them, dropped by trace id [default: 10]
    #[arg(long, value_name = "N", help_heading = "Protocol")]
    drop: Option<u64>,
    /// Windows of each load point [default: 2]
    #[arg(long, value_name = "N", help_heading = "Protocol")]
    windows: Option<u32>,
    /// Rest between one round of all load points and the next [default: 0]
    #[arg(long, value_name = "SECONDS", help_heading = "Protocol")]
    gap_between_windows: Option<f64>,
    /// Rest before each load point, also within a round; between rounds the longer of the two counts [default: 0]
    #[arg(long, value_name = "SECONDS", help_heading = "Protocol")]
    gap_between_cells: Option<f64>,
    /// Go on past the number of prompts until a window has lasted so long; in open loop the schedule goes on by the same
    /// law, all at once stays as it is [default: 0; 2 against the built-in mock]
    #[arg(long, value_name = "SECONDS", help_heading = "Protocol")]
    min_duration: Option<f64>,
    /// A soak: each window goes on for so long (90s, 20m, 4h), and time decides the number of requests. Closed loop begins none
    /// after it, the schedule of an open loop goes on until then; what is under way then ends by its own limits. Comes
    /// with one window a load point; instead of --num-prompts, --min-duration and --profile
    #[arg(long, value_name = "TIME", help_heading = "Protocol")]
    duration: Option<String>,
    /// Limit of a whole request [default: 7200]
    #[arg(long, value_name = "SECONDS", help_heading = "Protocol")]
    timeout: Option<f64>,
    /// Limit between bytes of a reply, and before its first [default: 1200]
    #[arg(long, value_name = "SECONDS", help_heading = "Protocol")]
    stall_timeout: Option<f64>,
    /// Limit of a connect, TLS handshake included; also of those before the load, by which the server is found and asked what
    /// it is (readings of its counters beside the load: at most 2) [default: 10]
    #[arg(long, value_name = "SECONDS", help_heading = "Protocol")]
    connect_timeout: Option<f64>,
    /// Share of failed requests above which a window is invalid [default: 0.01]
    #[arg(long, value_name = "SHARE", help_heading = "Protocol")]
    max_failed: Option<f64>,
    /// End the run when so many requests of a window have failed
    #[arg(long, value_name = "N", help_heading = "Protocol")]
    stop_at_failed: Option<u64>,
    /// Goals of each request in ms, fixed and hashed before the run: ttft, ttfo, e2e (from due in open loop), tpot, ntpot,
    /// stall. A load meets them when 99 % of the kept requests do
    #[arg(long, value_name = "METRIC:MS,..", help_heading = "Protocol")]
    goodput: Option<List<String>>,
    /// TOML file of goals: a table request as in --goodput, share = 0.99, a table window with "ttft.p99" = 900 (ms), failed,
    /// output_tokens_per_s, requests_per_s, recovery_s (after --at and --inject), of sessions and chains session.p95 (from
    /// first due to last token) and waited.p95 (of that without the pauses): each passes, fails, or is inconclusive by its 95 % interval
    #[arg(long, value_name = "FILE", help_heading = "Protocol")]
    slo: Option<PathBuf>,
    /// quick, standard, tail (300, 1,000, 10,000 kept a window), seed-v1 (the seed's protocol exactly)
    #[arg(long, value_enum, help_heading = "Protocol")]
    profile: Option<Profile>,

    /// In every window, so long after its opening, run a command in a shell of its own (repeatable; 60s,120s='..' runs it
    /// twice), off the workers' cores. It finds TAREBENCH_BASE_URL, TAREBENCH_CELL, TAREBENCH_WINDOW and, with the
    /// built-in mock, TAREBENCH_SERVER_PID; what came of it goes into marks.jsonl, and the report says what it did to the
    /// load. The command stands in the plan: keep keys in the environment
    #[arg(long, value_name = "TIME='COMMAND'", help_heading = "Failure")]
    at: Vec<String>,
    /// Limit of a command of --at; it is killed with all it started then, or when the window ends [default: 60]
    #[arg(long, value_name = "SECONDS", help_heading = "Failure")]
    at_timeout: Option<f64>,
    /// In every window, on purpose: node-loss:T@START (the built-in mock is stopped for T from START on; bare: 5s@20s) or
    /// spike:Kx/T@START (the load of --arrivals spike, marked and judged; bare: 4x/10s@30s). Repeatable. Without any flag
    /// of Load it comes with --request-rate 50, and without --min-duration with --min-duration 60
    #[arg(long, value_name = "PRESET", help_heading = "Failure")]
    inject: Vec<String>,

    /// Worker threads [default: cores - 1, at least 1]
    #[arg(long, value_name = "N", help_heading = "Harness")]
    workers: Option<u32>,
    /// Cores of the workers, in order [default: the first ones this process may use]
    #[arg(long, value_name = "N,..", help_heading = "Harness")]
    cores: Option<List<usize>>,
    /// How the client is built [default: uring; where this host refuses io_uring, epoll, with a warning]. uring asked for
    /// by name and refused ends the run
    #[arg(long, value_enum, help_heading = "Harness")]
    arm: Option<Arm>,
    /// Keep one slow stream from each worker to a mock on this host while the load runs: its rows (canary.jsonl) against
    /// the mock's log (canary-truth.jsonl) show the client's error under this load, and count in no result
    #[arg(long, help_heading = "Harness")]
    canary: bool,
    /// Workers look for events without ever sleeping: no wake-up delays their sends and reads, and each takes its core
    /// for itself
    #[arg(long, help_heading = "Harness")]
    spin: bool,
    /// Kernel stamps (falling back aloud), or the harness's own only [default: kernel]
    #[arg(long, value_enum, help_heading = "Harness")]
    stamps: Option<Stamps>,

    /// Run directory [default: runs/TIME-NAME]; one that is not empty is refused
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    out: Option<PathBuf>,
    /// Write into a directory that is not empty
    #[arg(long, help_heading = "Output")]
    force: bool,
    /// Name of the campaign [default: campaign]
    #[arg(long, value_name = "NAME", help_heading = "Output")]
    name: Option<String>,
    /// Print nothing but errors
    #[arg(long, help_heading = "Output")]
    quiet: bool,
    /// Print run.json on standard output, and nothing else there
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// What only people know, printed as declared in the box it belongs to (repeatable). Known keys: url, why-drop, cache,
    /// restarted, warmed-up, traffic, why-loads, source-of-mix, precision, quantisation, engine, image, hardware,
    /// model-revision, region, cloud, client-type, network, proxy, runs, price; any other is printed beside
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Output")]
    declare: Vec<Pair>,
    /// Directory of calibrations [default: $TAREBENCH_CALIBRATIONS, else tarebench/calibrations in $XDG_STATE_HOME]
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    calibrations: Option<PathBuf>,
    /// Most bytes of a file of rows, at least 1MiB: beyond it requests.jsonl goes on in requests.2.jsonl and so forth, in
    /// one hash chain [default: 256MiB]
    #[arg(long, value_name = "SIZE", help_heading = "Output")]
    raw_file_size: Option<String>,
    /// Print the plan and what it will take; send no request
    #[arg(long, help_heading = "Output")]
    dry_run: bool,
}
