//! The command line: flags by purpose, one struct a subcommand. A flag of `run` can also stand in a TOML
//! file; flags win.

mod calibrate;
mod compare;
pub mod export;
mod import;
mod mock;
mod report;
mod run;
pub mod saturate;
mod shell;

pub use calibrate::CalibrateArgs;
pub use compare::{CompareArgs, Margin};
pub use export::ExportArgs;
pub use import::{ImportArgs, TimeUnit};
pub use mock::{MockArgs, MockUsage};
pub use report::{DiscloseArgs, ReportArgs, ReportFormat};
pub use run::{Arm, Connection, Form, InterleaveOrder, Profile, Proof, RunArgs, Stamps, Switch, TraceFormat};
pub use shell::{CompletionsArgs, ManArgs};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Parser, Subcommand};
use serde::{Deserialize, Deserializer, Serialize};
use std::ffi::{OsStr, OsString};
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
    #[command(after_help = calibrate::EXAMPLES)]
    Calibrate(CalibrateArgs),
    /// Serve known truth: OpenAI-compatible streams on a given timeline, with a log of what was really done
    #[command(after_help = mock::EXAMPLES)]
    Mock(Box<MockArgs>),
    /// Ask a server what it is, send one request, show its stream event by event
    #[command(after_help = PROBE_EXAMPLES)]
    Probe(ProbeArgs),
    /// Hold two campaigns against each other: what is a claim, what is below the noise
    #[command(after_help = compare::EXAMPLES)]
    Compare(CompareArgs),
    /// Put recorded streams through the same parsers, offline: one line of figures for each
    #[command(after_help = DECODE_EXAMPLES)]
    Decode(DecodeArgs),
    /// Analyse latencies that another tool recorded: percentiles with their intervals, and what n does not carry
    #[command(after_help = import::EXAMPLES)]
    Import(ImportArgs),
    /// Rebuild every published number of a run from its raw files, bit for bit
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(VerifyArgs),
    /// Every campaign that was ever started beside a ledger, how each ended, and whether a line is missing
    #[command(after_help = LEDGER_EXAMPLES)]
    Ledger(LedgerArgs),
    /// Print the report of a run again, from its files, or those of several runs side by side
    #[command(after_help = report::EXAMPLES)]
    Report(ReportArgs),
    /// Print the fifteen boxes of a run: what a reader needs before believing it
    #[command(after_help = report::DISCLOSE_EXAMPLES)]
    Disclose(DiscloseArgs),
    /// Write a run in the files of other tools, each figure recomputed as that tool defines it
    #[command(after_help = export::EXAMPLES)]
    Export(ExportArgs),
    /// Print a script that completes commands and flags in a shell
    #[command(after_help = shell::COMPLETIONS_EXAMPLES)]
    Completions(CompletionsArgs),
    /// Print the manual page, or write one for each command
    #[command(after_help = shell::MAN_EXAMPLES)]
    Man(ManArgs),
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
  tarebench run --base-url http://gpu-7:8000 --sessions 2..6 --think-time exp:5s --max-concurrency 8,32
      8, then 32 people who each lead one conversation after another; each turn carries the replies before it
  tarebench run --base-url http://gpu-7:8000 --chain 10 --tool-time lognormal:1s/0.5s --session-rate 0.5
      an agent's tasks of ten dependent calls, of which one begins every two seconds in the mean, whatever the server does
  zcat day.csv.gz | tarebench run --base-url http://gpu-7:8000 --trace - --time-scale 1,2
      captured traffic with its own times and lengths, as it was and twice as fast
  tarebench run --config campaign.toml --seed 8
      flags win over the file
  tarebench run --base-url http://gpu-7:8000 --interleave http://gpu-8:8000 --windows 4 --max-concurrency 8
      two servers in turns (ABBAABBA); --json then prints {\"a\": run.json, \"b\": run.json}

Exit status: 0 complete and valid; 1 could not be carried out; 2 wrong usage; 3 complete, but a window is
invalid or too many requests failed; 130 interrupted, everything measured kept.";
const PROBE_EXAMPLES: &str = "Example:
  tarebench probe --base-url http://127.0.0.1:8000 --prompt 'Name three colours.' --max-tokens 16";
const DECODE_EXAMPLES: &str = "Example:
  tarebench decode tests/cases/streams.jsonl";
const VERIFY_EXAMPLES: &str = "Example:
  tarebench verify runs/2026-11-29T18-22-55-campaign";
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

/// `NAME=VALUE`. The value may be a secret, and is not printed for debugging.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pair(pub String, pub String);

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}=..", self.0)
    }
}

impl FromStr for Pair {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let (name, value) = s.split_once('=').ok_or_else(|| "write it as NAME=VALUE".to_owned())?;
        Ok(Pair(name.trim().to_owned(), value.trim().to_owned()))
    }
}

/// The command line, read: the program's name, then its words.
///
/// # Errors
/// Wrong usage, in words, without what may be a secret.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(with_negative_values(words)).map_err(without_values).map_err(of_numbers)
}

/// `--flag -1` as `--flag=-1`. Otherwise clap takes such a value for a flag, and says that there is none of this name: what
/// is wrong is the value, and who reads the value says so. No flag of ours begins with a digit.
fn with_negative_values(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let (mut all, mut flags_are_over) = (Vec::<OsString>::new(), false);
    for word in words {
        flags_are_over |= word == "--";
        match all.last_mut() {
            Some(flag) if !flags_are_over && is_negative(&word) && is_flag(flag) => {
                flag.push("=");
                flag.push(word);
            }
            _ => all.push(word),
        }
    }
    all
}

/// `-1`, `-0.5s`, `-inf`.
fn is_negative(word: &OsStr) -> bool {
    let bare = word.as_encoded_bytes().strip_prefix(b"-").unwrap_or_default();
    bare.first().is_some_and(|b| b.is_ascii_digit() || *b == b'.') || bare.starts_with(b"inf") || bare == b"nan"
}

/// `--flag` without a value in it.
fn is_flag(word: &OsStr) -> bool {
    let bytes = word.as_encoded_bytes();
    bytes.len() > 2 && bytes.starts_with(b"--") && !bytes.contains(&b'=')
}

/// A usage error without what was given to flags whose value may be a secret.
fn without_values(mut error: clap::Error) -> clap::Error {
    let is_secret = |value: &ContextValue| match value {
        ContextValue::String(arg) => ["--header", "--api-key"].iter().any(|flag| arg.starts_with(flag)),
        _ => false,
    };
    if error.get(ContextKind::InvalidArg).is_some_and(is_secret) {
        error.insert(ContextKind::InvalidValue, ContextValue::String("[not shown]".to_owned()));
    }
    error
}

/// Why a value is no number, as the standard library says it and as people do.
const NO_NUMBER: [(&str, &str); 3] = [
    ("invalid digit found in string", "it must be a whole number, 0 or more"),
    ("invalid float literal", "it must be a number"),
    ("cannot parse integer from empty string", "it must be a whole number, 0 or more"),
];

/// An error about a value that is no number, in words for people.
fn of_numbers(error: clap::Error) -> clap::Error {
    let told = error.to_string();
    match NO_NUMBER.iter().find(|(said, _)| error.kind() == ErrorKind::ValueValidation && told.contains(said)) {
        Some((said, words)) => {
            let told = told.replace(said, words);
            clap::Error::raw(ErrorKind::ValueValidation, told.strip_prefix("error: ").unwrap_or(&told))
        }
        None => error,
    }
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

/// Flags of `probe`.
#[derive(Clone, Debug, Args)]
pub struct ProbeArgs {
    /// Server, e.g. `http://gpu-7:8000` or `https://gw.example`
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
    /// Environment variable with the API key [default: OPENAI_API_KEY, on loopback and to a server verified by TLS only,
    /// unless this flag is given]
    #[arg(long, value_name = "NAME")]
    pub api_key_env: Option<String>,
    /// File with the API key on its only line
    #[arg(long, value_name = "FILE")]
    pub api_key_file: Option<PathBuf>,
    /// Use this IP address instead of what the host name resolves to
    #[arg(long, value_name = "IP")]
    pub address: Option<String>,
    /// PEM file with the CA of an https server, or its own certificate [default: the list of public CAs built in]
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// PEM file with the client's certificate, shown when the server asks
    #[arg(long, value_name = "FILE")]
    pub client_cert: Option<PathBuf>,
    /// PEM file with its key
    #[arg(long, value_name = "FILE")]
    pub client_key: Option<PathBuf>,
    /// Take any certificate of an https server for good
    #[arg(long)]
    pub insecure: bool,
    /// JSON object whose fields join or replace those of the request body
    #[arg(long, value_name = "JSON")]
    pub extra_body: Option<String>,
    /// Limit of each connect, TLS handshake included
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub connect_timeout: f64,
    /// How the client is built [default: uring; where this host refuses io_uring, epoll, with a warning]
    #[arg(long, value_enum)]
    pub arm: Option<Arm>,
    /// Print the record as JSON instead
    #[arg(long)]
    pub json: bool,
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
    /// Print {"verified": true, ..} or {"verified": false, "difference": ..}, and nothing else
    #[arg(long)]
    pub json: bool,
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
            let told = parse(words.map(OsString::from)).expect_err("no =").to_string();
            assert!(told.contains("--header") && told.contains("NAME=VALUE") && !told.contains("hidden"), "{told}");
        }
        assert!(told(&["--windows", "many"]).contains("many"), "other values are repeated");
    }

    /// Of `run` without any other flag.
    fn told(words: &[&str]) -> String {
        let words = ["tarebench", "run"].iter().chain(words).map(OsString::from);
        parse(words).expect_err("refused").to_string()
    }

    #[test]
    fn a_negative_value_is_a_value_of_its_flag() {
        // of every flag of every command: whoever reads the value has to say what is wrong with it
        for command in Cli::command().get_subcommands() {
            let flags = command.get_arguments().filter(|arg| arg.get_action().takes_values());
            for flag in flags.filter_map(|arg| arg.get_long()) {
                for value in ["-1", "-2s", "-.5", "-inf", "-1,2"] {
                    let words = ["tarebench", command.get_name(), &format!("--{flag}"), value].map(OsString::from);
                    let Err(error) = parse(words) else { continue };
                    let told = error.to_string();
                    assert_ne!(
                        error.kind(),
                        ErrorKind::UnknownArgument,
                        "{} --{flag} {value}: {told}",
                        command.get_name()
                    );
                }
            }
        }
        let count = told(&["--num-prompts", "-1"]);
        assert!(
            count.starts_with("error: invalid value '-1' for '--num-prompts <N>': it must be a whole number, 0"),
            "{count}"
        );
        assert!(count.contains("--help") && !count.contains("digit"), "{count}");
        let list = told(&["--cores", "0,-1"]);
        assert!(list.contains("\"-1\": it must be a whole number"), "{list}");
        assert!(told(&["--quiet", "-1"]).contains("unexpected value '-1' for '--quiet'"));
        // what is none is left alone
        assert!(told(&["-1"]).contains("unexpected argument '-1'"));
        assert!(told(&["--seed", "--quiet"]).contains("a value is required for '--seed <N>'"));
        let kept = with_negative_values(["x", "--", "--seed", "-1", "a", "-1"].map(OsString::from));
        assert_eq!(kept, ["x", "--", "--seed", "-1", "a", "-1"]);
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
