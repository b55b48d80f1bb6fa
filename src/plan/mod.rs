//! What was typed becomes what is meant, once: a checked and hashed plan. Deeper code sees no string option.

mod duration;
mod goals;
mod injection;
mod load;
mod sessions;
mod target;
mod trace;
mod work;

pub use load::Interleave;
pub use sessions::Sessions;
pub use target::{MetricsWords, TargetWords};

use crate::cli::{Arm, Connection, Profile, Proof, RunArgs, Stamps, Switch};
use crate::goals::{BadGoals, Goals};
use crate::injection::Injection;
use crate::interleave::Sequence;
use crate::load_point::{Cell, Extent};
use crate::shard::Shard;
use crate::target::address::AddressError;
use crate::target::openai::{Api, TokenProof};
use crate::target::secret::NoKey;
use crate::target::tls::Planned;
use crate::tokenizer::{BadTokenizer, Tokenizer};
use crate::trace::captured::BadReplay;
use crate::trace::fault::BadTrace;
use crate::workload::cache::Cache;
use crate::workload::ids::PromptForm;
use crate::workload::{BadWorkload, Lengths, Workload, hex, nonce};
use bench_engine::timers::Limits;
use bench_engine::units::Nanos;
use duration::Until;
use goals::goals;
use load::{Arrivals, cells, interleave, shard};
use serde::Serialize;
use serde_json::{Map, Value, json};
use sessions::Asked;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::PathBuf;
use target::{addresses, extra_body, has_user_info, headers, key, planned_tls, removed_headers, tls};
use thiserror::Error;
use work::{tokenizer, workload};

/// Where the results go.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// `--out`.
    pub dir: Option<PathBuf>,
    /// `--force`.
    pub force: bool,
    /// `--quiet`.
    pub quiet: bool,
    /// `--json`.
    pub json: bool,
    /// `--dry-run`.
    pub dry_run: bool,
    /// Most bytes of a file of rows.
    pub raw_file_bytes: u64,
    /// `--calibrations`.
    pub calibrations: Calibrations,
}

/// Where the calibration of a run is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Calibrations {
    /// In this directory; None: in the user's.
    In(Option<PathBuf>),
    /// Nowhere, for this reason.
    Unused(String),
}

/// What ends a window early: of a search, not of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EarlyEnd {
    /// The load is more than the server can do, see [`crate::analysis::saturation::growth`].
    pub when_over_saturated: bool,
    /// It has lasted so long, s.
    pub at_most_s: f64,
}

/// A checked plan. What is serialised is what `plan_hash` covers; it decides every byte that is sent, but for
/// the nonces.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// Campaign name.
    pub name: String,
    /// `mock` or the base URL.
    pub base_url: String,
    /// Path of the API.
    pub endpoint: String,
    /// Chat or text.
    pub api: Api,
    /// Stream or document.
    pub stream: bool,
    /// How long connections are kept.
    pub connection: Connection,
    /// How connections are secured; None: they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Planned>,
    /// Names of the headers sent beside ours; their values may be secrets.
    pub header_names: Vec<String>,
    /// Names of the headers of ours that are not sent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub removed_headers: Vec<String>,
    /// Load points, in order.
    pub cells: Vec<Cell>,
    /// The part of each schedule that is sent from here; None: all of it.
    pub shard: Option<Shard>,
    /// Windows of each.
    pub windows: u32,
    /// Lengths and seed.
    pub workload: Workload,
    /// Names the lengths of a window, in order.
    pub trace_hash: String,
    /// Kept in each window, on all hosts together.
    pub num_prompts: u64,
    /// Dropped before them.
    pub drop: u64,
    /// Where requests are turns of sessions: how many of these; `num_prompts` and `drop` are their turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sessions: Option<Sessions>,
    /// Rest between rounds.
    pub gap_between_windows_s: f64,
    /// Rest before each load point, also within a round; between rounds the longer of the two counts.
    #[serde(skip_serializing_if = "is_zero")]
    pub gap_between_cells_s: f64,
    /// A window goes on until it has lasted so long.
    pub min_duration_s: f64,
    /// Time alone ends a window: no request is due after it, and `num_prompts` is only the number over which the mix of
    /// lengths is exact. None: the number of requests ends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_s: Option<f64>,
    /// `temperature`.
    pub temperature: f64,
    /// `top_p`.
    pub top_p: f64,
    /// `ignore_eos`.
    pub ignore_eos: bool,
    /// Proof of tokens.
    pub token_proof: TokenProof,
    /// Fields that join or replace those of each body.
    pub extra_body: Map<String, Value>,
    /// Whether the server is asked how it counts tokens; None: as its kind wants it.
    pub length_probe: Option<Switch>,
    /// Counts the tokens of made prompts.
    pub tokenizer: Option<Tokenizer>,
    /// Every bounded wait, in seconds.
    pub timeouts_s: BTreeMap<&'static str, f64>,
    /// Share of failed requests that invalidates a window.
    pub max_failed: f64,
    /// Failed requests of a window that end the run.
    pub stop_at_failed: Option<u64>,
    /// What ends a window before its last request, beside failures; None: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early_end: Option<EarlyEnd>,
    /// What the load must keep to.
    pub goals: Option<Goals>,
    /// What is done on purpose in every window, in order of time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub injections: Vec<Injection>,
    /// Client architecture: what was asked for, or the default.
    pub arm: Arm,
    /// Stamps asked for.
    pub stamps: Stamps,
    /// A stream to a mock beside the load.
    pub canary: bool,
    /// Workers never sleep while a window runs.
    pub spin: bool,
    /// Worker threads; None: as many as there are cores but one.
    pub workers: Option<u32>,
    /// Their cores; None: the first ones allowed.
    pub cores: Option<Vec<usize>>,
    /// The published protocol that this is, and in what it differs from it.
    pub protocol: Option<String>,
    /// Declared, not measured.
    pub declared: BTreeMap<String, String>,
    #[serde(skip)]
    /// Mean prompt length asked for in a window, in tokens; of turns that of their own messages.
    pub mean_prompt_tokens: f64,
    #[serde(skip)]
    /// Mean output length asked for in a window, in tokens.
    pub mean_output_tokens: f64,
    #[serde(skip)]
    /// The architecture was asked for by name: nothing else will do.
    pub arm_by_name: bool,
    #[serde(skip)]
    /// Arm B, when there are two.
    pub interleave: Option<Interleave>,
    #[serde(skip)]
    /// The bounded waits.
    pub limits: Limits,
    #[serde(skip)]
    /// The server, as typed.
    pub target: TargetWords,
    #[serde(skip)]
    /// Where the results go.
    pub output: Output,
}

/// A plan that cannot be.
#[derive(Debug, Error)]
pub enum BadPlan {
    /// A flag's value is out of range.
    #[error("{flag} must be {range}, not {got}")]
    Range {
        /// Which.
        flag: &'static str,
        /// What it may be.
        range: &'static str,
        /// What it is.
        got: String,
    },
    /// The workload.
    #[error(transparent)]
    Workload(#[from] BadWorkload),
    /// `--tokenizer`.
    #[error("--tokenizer {}: {bad}", path.display())]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        bad: BadTokenizer,
    },
    /// `--extra-body`.
    #[error("--extra-body must be a JSON object like '{{\"min_tokens\": 5}}': {0}")]
    ExtraBody(String),
    /// A flag that says nothing without another one.
    #[error("{flag} has no meaning without {other}: add it, or leave {flag} out")]
    Alone {
        /// Which.
        flag: &'static str,
        /// What it belongs to.
        other: &'static str,
    },
    /// `--goodput`, `--slo`.
    #[error("{flag}: {bad}")]
    Goals {
        /// Which.
        flag: String,
        /// What is wrong.
        bad: BadGoals,
    },
    /// Two flags that do not go together.
    #[error("{flag} and {other} do not go together: {why}")]
    Together {
        /// One.
        flag: &'static str,
        /// The other.
        other: &'static str,
        /// Why not, and what to do.
        why: &'static str,
    },
    /// `--arrivals`, `--stages`.
    #[error("{flag}: {bad}")]
    Arrivals {
        /// Which.
        flag: &'static str,
        /// What is wrong.
        bad: String,
    },
    /// A schedule with an end that has too few requests.
    #[error(
        "{flag}: the whole schedule has {scheduled} with this seed; --drop {drop} leaves {} to keep, not the {wanted} of \
         --num-prompts: make the schedule longer, or ask for fewer",
        scheduled.saturating_sub(*drop)
    )]
    TooFew {
        /// What makes the schedule.
        flag: &'static str,
        /// Requests that come.
        scheduled: u64,
        /// Of `--drop`.
        drop: u64,
        /// Kept ones asked for.
        wanted: u64,
    },
    /// A schedule with an end that warm-up uses up.
    #[error(
        "{flag}: the whole schedule has {scheduled} with this seed, and --drop {drop} leaves none to keep: make the schedule \
         longer, or drop fewer"
    )]
    NoneKept {
        /// What makes the schedule.
        flag: &'static str,
        /// Requests that come.
        scheduled: u64,
        /// Of `--drop`.
        drop: u64,
    },
    /// `--shard` without a request to keep.
    #[error(
        "--shard {}/{} has none of the {requests} requests of a window to keep (--drop {drop}): raise --num-prompts, or \
         use fewer hosts",
        shard.index,
        shard.of
    )]
    EmptyShard {
        /// Which.
        shard: Shard,
        /// Of the whole schedule.
        requests: u64,
        /// Of `--drop`.
        drop: u64,
    },
    /// `--trace`.
    #[error("--trace {0}")]
    Trace(#[from] BadTrace),
    /// What is to be replayed of it.
    #[error(transparent)]
    Replay(#[from] BadReplay),
    /// `--at`, `--inject`: nothing would be left of the load by then.
    #[error(
        "{flag}: at {at_s} s the load is over, its last request is due at {last_due_s:.1} s: ask for more requests \
         (--num-prompts), a longer window (--min-duration), or an earlier time"
    )]
    TooLate {
        /// Which.
        flag: &'static str,
        /// When it would be.
        at_s: f64,
        /// Of the shortest load point.
        last_due_s: f64,
    },
    /// `--api-key-env`, `--api-key-file`.
    #[error(transparent)]
    NoKey(#[from] NoKey),
    /// A URL, `--address`, or a file of TLS.
    #[error(transparent)]
    Address(#[from] AddressError),
}

fn range(flag: &'static str, range: &'static str, got: impl ToString) -> BadPlan {
    BadPlan::Range { flag, range, got: got.to_string() }
}

fn seconds(flag: &'static str, value: Option<f64>, default: f64, zero: bool) -> Result<(f64, Nanos), BadPlan> {
    let s = value.unwrap_or(default);
    let span = Nanos::from_secs_f64(s).filter(|n| (zero || n.ns() > 0) && s <= 366.0 * 86_400.0);
    let allowed = if zero { "a number of seconds, 0 or more" } else { "a number of seconds above 0" };
    span.map(|n| (s, n)).ok_or_else(|| range(flag, allowed, s))
}

/// What nobody asked for is not in the plan: its hash stays what it was.
fn is_zero(s: &f64) -> bool {
    *s == 0.0
}

impl Plan {
    /// The plan behind the flags. `environment` looks up variables.
    ///
    /// # Errors
    /// [`BadPlan`] names the flag.
    pub fn from_args(args: &RunArgs, environment: impl Fn(&str) -> Option<String>) -> Result<Plan, BadPlan> {
        let asked = Asked::of(args)?;
        let prepared = injection::prepared(args)?;
        let args = prepared.as_ref().unwrap_or(args);
        let built_in = args.base_url.is_none();
        let kept_of_profile = match args.profile {
            Some(Profile::Standard) => 1_000,
            Some(Profile::Tail) => 10_000,
            Some(Profile::Quick | Profile::SeedV1) | None => 300,
        };
        let drop = args.drop.unwrap_or(10);
        let arrivals = Arrivals::of(args)?;
        let seed = args.seed.unwrap_or(7);
        let duration = duration::of(args, arrivals.as_ref())?;
        let of_schedule = arrivals.as_ref().map(|arrivals| arrivals.kept(args, seed, drop)).transpose()?.flatten();
        let given = args.num_prompts.or(args.profile.map(|_| kept_of_profile));
        let num_prompts = args.num_prompts.or(of_schedule).unwrap_or(kept_of_profile);
        if num_prompts == 0 || num_prompts + drop > nonce::MAX_TRACE_ID {
            return Err(range("--num-prompts", "1 to 16,777,000, --drop included", num_prompts));
        }
        // the protocol of the seed is the same against every server
        let shortened = built_in && args.profile != Some(Profile::SeedV1);
        let endpoint = args.endpoint.clone().unwrap_or_else(|| "/v1/chat/completions".to_owned());
        if !endpoint.starts_with('/') || endpoint.bytes().any(|b| !b.is_ascii_graphic()) {
            return Err(range("--endpoint", "a path like /v1/chat/completions", endpoint));
        }
        let captured = trace::captured(args, drop, given)?;
        // a schedule that has an end decides how many there are
        let num_prompts = captured.as_ref().map_or(num_prompts, |captured| captured.requests - drop);
        let workload = match &captured {
            Some(captured) => work::replayed(args, captured)?,
            None => {
                let (parts, turns) = match &asked {
                    Some(asked) => ((asked.drop, asked.kept), Some(asked.law.turns)),
                    None => ((drop, num_prompts), None),
                };
                workload(args, Api::of_endpoint(&endpoint), shortened, parts, turns)?
            }
        };
        let survey = asked.as_ref().map(|asked| asked.survey(&workload)).transpose()?;
        // of sessions, their turns: those of the dropped ones have the first ids
        let (drop, num_prompts) =
            survey.as_ref().map_or((drop, num_prompts), |s| (s.dropped_turns, s.turns - s.dropped_turns));
        let (gap_between_windows_s, _) = seconds("--gap-between-windows", args.gap_between_windows, 0.0, true)?;
        let (gap_between_cells_s, _) = seconds("--gap-between-cells", args.gap_between_cells, 0.0, true)?;
        // a schedule with an end is as long as it is
        let goes_on = of_schedule.is_none() && captured.is_none() && duration.is_none();
        let (min_duration_s, min_duration) =
            seconds("--min-duration", args.min_duration, if goes_on && shortened { 2.0 } else { 0.0 }, true)?;
        let (mean_prompt_tokens, mean_output_tokens) = match &survey {
            Some(survey) => (survey.mean_message_tokens, survey.mean_output_tokens),
            None => workload.mean_lengths(drop, num_prompts).map_err(BadWorkload::from)?,
        };
        let shard = shard(args, arrivals.is_some() || captured.is_some())?;
        let extent = match duration {
            Some(duration) => Extent { seed, at_least: 0, until: duration, mean_output_tokens, shard },
            None => Extent { seed, at_least: drop + num_prompts, until: min_duration, mean_output_tokens, shard },
        };
        let cells = match asked.as_ref().zip(survey.as_ref()) {
            Some((asked, survey)) => asked.cells(args, &workload, survey, Until::of(duration, min_duration))?,
            None => cells(args, arrivals.as_ref(), captured.as_ref(), extent)?,
        };
        if duration.is_some() {
            duration::check(&cells, drop)?;
        }
        if let Some(shard) = shard.filter(|shard| shard.share(drop + num_prompts) == shard.share(drop)) {
            return Err(BadPlan::EmptyShard { shard, requests: drop + num_prompts, drop });
        }
        let windows = args.windows.unwrap_or(if duration.is_some() { 1 } else { 2 });
        if windows == 0 || u64::from(windows) * cells.len() as u64 > nonce::MAX_WINDOWS {
            return Err(range("--windows", "at least 1, and at most 65,536 in all load points together", windows));
        }
        let default = Limits::default();
        let (request_s, request) = seconds("--timeout", args.timeout, default.request.secs_f64(), false)?;
        let (stall_s, stall) = seconds("--stall-timeout", args.stall_timeout, default.stall.secs_f64(), false)?;
        let (connect_s, connect) =
            seconds("--connect-timeout", args.connect_timeout, default.connect.secs_f64(), false)?;
        let max_failed = args.max_failed.unwrap_or(0.01);
        if !(0.0..=1.0).contains(&max_failed) {
            return Err(range("--max-failed", "a share between 0 and 1", max_failed));
        }
        let temperature = args.temperature.unwrap_or(0.0);
        if !(temperature.is_finite() && temperature >= 0.0) {
            return Err(range("--temperature", "0 or more", temperature));
        }
        let top_p = args.top_p.unwrap_or(1.0);
        if !(top_p > 0.0 && top_p <= 1.0) {
            return Err(range("--top-p", "above 0, at most 1", top_p));
        }
        if args.workers == Some(0) {
            return Err(range("--workers", "at least 1", 0));
        }
        for (flag, url) in [("--base-url", &args.base_url), ("--interleave", &args.interleave)] {
            if url.as_deref().is_some_and(has_user_info) {
                let allowed = "a URL without user and password (--api-key-env sends a key)";
                return Err(range(flag, allowed, "one that has them"));
            }
        }
        let key = key(args, &environment)?;
        let injections = injection::injections(args, &cells, duration, &environment)?;
        let tls = tls(args)?;
        addresses(args, &tls)?;
        let plan = Plan {
            name: args.name.clone().unwrap_or_else(|| "campaign".to_owned()),
            base_url: args.base_url.clone().unwrap_or_else(|| "mock".to_owned()),
            api: Api::of_endpoint(&endpoint),
            endpoint,
            stream: !args.no_stream,
            connection: args.connection.unwrap_or(Connection::Reuse),
            tls: planned_tls(args.base_url.as_deref(), &tls),
            header_names: args.header.iter().map(|p| p.0.clone()).collect(),
            removed_headers: removed_headers(args)?,
            cells,
            shard,
            windows,
            trace_hash: match &survey {
                Some(survey) => survey.hash.clone(),
                None => workload.trace_hash(drop, num_prompts).map_err(BadWorkload::from)?,
            },
            sessions: asked.zip(survey).map(|(asked, survey)| Sessions {
                law: asked.law,
                num_sessions: asked.kept,
                drop_sessions: asked.drop,
                survey,
            }),
            workload,
            num_prompts,
            drop,
            gap_between_windows_s,
            gap_between_cells_s,
            min_duration_s,
            duration_s: duration.map(Nanos::secs_f64),
            temperature,
            top_p,
            ignore_eos: args.ignore_eos,
            token_proof: match args.token_proof.unwrap_or(Proof::None) {
                Proof::None => TokenProof::None,
                Proof::Ids => TokenProof::Ids,
                Proof::Usage => TokenProof::Usage,
            },
            extra_body: extra_body(args.extra_body.as_deref())?,
            length_probe: args.length_probe,
            tokenizer: args.tokenizer.as_deref().map(tokenizer).transpose()?,
            timeouts_s: BTreeMap::from([
                ("request", request_s),
                ("stall", stall_s),
                ("connect", connect_s),
                ("drain", default.drain.secs_f64()),
            ]),
            max_failed,
            stop_at_failed: args.stop_at_failed,
            early_end: None,
            goals: goals(args)?,
            injections,
            arm: args.arm.unwrap_or(Arm::Uring),
            mean_prompt_tokens,
            mean_output_tokens,
            arm_by_name: args.arm.is_some(),
            stamps: args.stamps.unwrap_or(Stamps::Kernel),
            canary: args.canary,
            spin: args.spin,
            workers: args.workers,
            cores: args.cores.as_ref().map(|c| c.0.clone()),
            protocol: None,
            declared: args.declare.iter().map(|p| (p.0.clone(), p.1.clone())).collect(),
            interleave: interleave(args)?,
            limits: Limits { connect, stall, request, drain: default.drain },
            target: TargetWords {
                base_url: args.base_url.clone(),
                address: args.address.clone(),
                model: args.model.clone(),
                wait: seconds("--wait", args.wait, 0.0, true)?.1,
                headers: headers(args)?,
                remote_truth: None,
                mock_flags: Vec::new(),
                key,
                tls,
                metrics: MetricsWords::of(args.metrics_url.as_deref()),
            },
            output: Output {
                dir: args.out.clone(),
                force: args.force,
                quiet: args.quiet,
                json: args.json,
                dry_run: args.dry_run,
                raw_file_bytes: duration::raw_file_bytes(args)?,
                calibrations: Calibrations::In(args.calibrations.clone()),
            },
        };
        let protocol = (args.profile == Some(Profile::SeedV1)).then(|| plan.seed_v1());
        Ok(Plan { protocol, ..plan })
    }

    /// `seed-v1`, and whatever of this plan is not so in that protocol.
    fn seed_v1(&self) -> String {
        let loads = [1, 8, 50].map(|concurrency| Cell::Closed { concurrency });
        let lengths = Lengths::seed_mix();
        let same = [
            (format!("length scale {}", self.workload.length_scale), self.workload.length_scale == 1.0),
            ("other loads".to_owned(), self.cells == loads),
            (format!("{} kept", self.num_prompts), self.num_prompts == 300),
            (format!("{} dropped", self.drop), self.drop == 10),
            (format!("{} windows", self.windows), self.windows == 2),
            ("another workload".to_owned(), self.workload.lengths == lengths),
            (format!("seed {}", self.workload.seed), self.workload.seed == 7),
            ("other output caps".to_owned(), self.workload.max_tokens.is_none()),
            (format!("cache {}", self.workload.cache), self.workload.cache == Cache::Unique),
            (format!("prompts as {}", self.workload.prompt_form), self.workload.prompt_form == PromptForm::Text),
            (format!("temperature {}", self.temperature), self.temperature == 0.0),
            ("not streamed".to_owned(), self.stream),
            ("what is done on purpose".to_owned(), self.injections.is_empty()),
            ("other request fields".to_owned(), self.extra_body.is_empty() && !self.ignore_eos),
            (format!("windows of at least {} s", self.min_duration_s), self.min_duration_s == 0.0),
            (format!("rests of {} s between loads", self.gap_between_cells_s), self.gap_between_cells_s == 0.0),
            ("windows of a given length".to_owned(), self.duration_s.is_none()),
        ];
        let differences: Vec<String> = same.into_iter().filter(|(_, same)| !same).map(|(words, _)| words).collect();
        match differences.is_empty() {
            true => "seed-v1".to_owned(),
            false => format!("seed-v1 but for {}", differences.join(", ")),
        }
    }

    /// SHA-256 of the plan and the model it was resolved to, hex.
    pub fn hash(&self, model: &str) -> String {
        hex(&Sha256::digest(json!({"plan": self, "model": model}).to_string()))
    }

    /// What decides which requests and windows count, fixed before the first request: the drop rule, the numbers, what
    /// invalidates a window or ends the run, and the goals.
    pub fn rules(&self) -> Value {
        let mut rules = json!({
            "drop": self.drop,
            "num_prompts": self.num_prompts,
            "windows": self.windows,
            "min_duration_s": self.min_duration_s,
            "max_failed": self.max_failed,
            "stop_at_failed": self.stop_at_failed,
            "goals": self.goals,
        });
        // what counts are whole sessions: their numbers decide those of the requests
        if let Some(sessions) = &self.sessions {
            rules["sessions"] = json!(sessions);
        }
        if let (Value::Object(fields), Some(duration_s)) = (&mut rules, self.duration_s) {
            fields.insert("duration_s".to_owned(), json!(duration_s));
        }
        rules
    }

    /// SHA-256 of `rules` as they are written, hex.
    pub fn rules_hash(rules: &Value) -> String {
        hex(&Sha256::digest(rules.to_string()))
    }

    /// The plan of arm B: the same but for the server. None: there is one arm only.
    pub fn other_arm(&self) -> Option<Plan> {
        let url = &self.interleave.as_ref()?.url;
        let target = TargetWords { base_url: Some(url.clone()), ..self.target.clone() };
        let tls = planned_tls(Some(url), &self.target.tls);
        Some(Plan { base_url: url.clone(), target, tls, interleave: None, ..self.clone() })
    }

    /// Rest before a window at load point `cell` of round `window`; none before the first.
    pub fn rest_before(&self, window: u32, cell: usize) -> Nanos {
        let s = match (window, cell) {
            (0, 0) => 0.0,
            (_, 0) => self.gap_between_windows_s.max(self.gap_between_cells_s),
            _ => self.gap_between_cells_s,
        };
        // checked when the plan was made
        Nanos::from_secs_f64(s).unwrap_or(Nanos::ZERO)
    }

    /// The order of the windows of two arms, from the plan's seed. None: there is one arm only.
    pub fn sequence(&self) -> Option<Sequence> {
        let order = self.interleave.as_ref()?.order;
        Some(Sequence::draw(order, self.workload.seed, self.cells.len(), self.windows))
    }

    /// Measured requests of the longest window; in closed loop without those of `--min-duration`.
    pub fn most_measured(&self) -> u64 {
        let of_window =
            |cell: &Cell| cell.requests().map_or(self.num_prompts, |requests| requests.saturating_sub(self.drop));
        self.cells.iter().map(of_window).max().unwrap_or(self.num_prompts)
    }

    /// Measured sessions of the longest window, without those of `--min-duration` where users lead them.
    pub fn most_measured_sessions(&self) -> u64 {
        let of_window = |cell: &Cell| match cell {
            Cell::Sessions(load) => load.planned - load.drop,
            Cell::Closed { .. } | Cell::Open(_) | Cell::Trace(_) => 0,
        };
        self.cells.iter().map(of_window).max().unwrap_or(0)
    }

    /// Most connections at once.
    pub fn most_connections(&self) -> u32 {
        self.cells.iter().map(Cell::slots).max().unwrap_or(0)
    }

    /// Most requests that are ready at once.
    pub fn supply_depth(&self) -> usize {
        self.cells.iter().map(Cell::supply_depth).max().unwrap_or(1)
    }

    /// Requests of a window that are sent from here, dropped ones included; in closed loop without those of
    /// `--min-duration`, and 0 where time alone ends it.
    pub fn requests_of_window(&self, cell: &Cell) -> u64 {
        cell.requests().unwrap_or(if self.duration_s.is_some() { 0 } else { self.num_prompts + self.drop })
    }

    /// `--duration`.
    pub fn duration(&self) -> Option<Nanos> {
        self.duration_s.and_then(Nanos::from_secs_f64)
    }

    /// Requests of the whole campaign that are sent from here; in closed loop without those of `--min-duration`.
    pub fn requests(&self) -> u64 {
        self.cells.iter().map(|cell| self.requests_of_window(cell)).sum::<u64>() * u64::from(self.windows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{InterleaveOrder, List, Pair};
    use crate::interleave::Order;

    fn plan(change: impl Fn(&mut RunArgs)) -> Result<Plan, BadPlan> {
        let mut args = RunArgs::default();
        change(&mut args);
        Plan::from_args(&args, |name| (name == "KEY").then(|| "secret".to_owned()))
    }

    #[test]
    fn defaults_against_the_mock_and_against_a_server() {
        let mock = plan(|_| {}).expect("default");
        assert_eq!((mock.workload.length_scale, mock.min_duration_s, mock.cells.len()), (0.1, 2.0, 3));
        let server = plan(|a| a.base_url = Some("http://x".to_owned())).expect("default");
        assert_eq!((server.workload.length_scale, server.min_duration_s), (1.0, 0.0));
        assert_eq!(server.requests(), 310 * 2 * 3);
    }

    #[test]
    fn the_protocol_of_the_seed_is_exact_or_says_in_what_it_is_not() {
        let of = |change: fn(&mut RunArgs)| {
            let plan = plan(|a| {
                a.profile = Some(Profile::SeedV1);
                change(a);
            });
            plan.expect("ok").protocol.expect("named")
        };
        assert_eq!(of(|_| {}), "seed-v1", "against the mock as well");
        assert_eq!(of(|a| a.base_url = Some("http://x".to_owned())), "seed-v1");
        assert_eq!(of(|a| a.length_scale = Some(0.1)), "seed-v1 but for length scale 0.1");
        let loads = |a: &mut RunArgs| (a.max_concurrency, a.seed) = (Some(List(vec![1, 8])), Some(8));
        assert_eq!(of(loads), "seed-v1 but for other loads, seed 8");
        assert_eq!(plan(|_| {}).expect("ok").protocol, None);
    }

    #[test]
    fn rates_and_caps_are_all_pairs() {
        let plan = plan(|a| {
            a.request_rate = Some(List(vec![10.0, f64::INFINITY]));
            a.max_concurrency = Some(List(vec![4, 8]));
            a.burstiness = Some(2.0);
        });
        let plan = plan.expect("ok");
        let of = |c: &Cell| match c {
            Cell::Open(open) => (open.rate, open.concurrency, open.arrivals),
            other => panic!("a rate makes an open loop, not {other:?}"),
        };
        let found: Vec<_> = plan.cells.iter().map(of).collect();
        let gamma = |cap| (Some(10.0), Some(cap), "gamma");
        assert_eq!(found, [gamma(4), gamma(8), (None, Some(4), "at_once"), (None, Some(8), "at_once")]);
        assert_eq!((plan.most_connections(), plan.requests()), (8, 4 * 2 * 310));
        assert_eq!(plan.supply_depth(), 310, "all of those that are due at once");
    }

    #[test]
    fn the_seed_and_the_rate_decide_the_schedule_and_the_hash_covers_it() {
        let of = |rate: f64, seed: u64| {
            let plan = plan(|a| {
                a.request_rate = Some(List(vec![rate]));
                a.seed = Some(seed);
            });
            let plan = plan.expect("ok");
            (plan.cells[0].schedule_hash().map(str::to_owned), plan.hash("m"))
        };
        assert_eq!(of(10.0, 7), of(10.0, 7));
        assert_ne!(of(10.0, 7).0, of(10.0, 8).0);
        assert_ne!(of(10.0, 7).1, of(11.0, 7).1);
    }

    #[test]
    fn nonsense_is_refused_by_its_flag() {
        let words = |change: fn(&mut RunArgs)| plan(change).expect_err("refused").to_string();
        assert!(words(|a| a.max_concurrency = Some(List(vec![1, 0]))).starts_with("--max-concurrency"));
        assert!(words(|a| a.num_prompts = Some(0)).starts_with("--num-prompts"));
        assert!(words(|a| a.request_rate = Some(List(vec![1.0, 0.0]))).starts_with("--request-rate"));
        assert!(
            words(|a| a.burstiness = Some(2.0))
                .starts_with("--burstiness has no meaning without --request-rate, --arrivals")
        );
        let with_rate = |a: &mut RunArgs| a.request_rate = Some(List(vec![100_000.0]));
        let words_with = |change: fn(&mut RunArgs)| {
            plan(|a| {
                with_rate(a);
                change(a);
            })
            .expect_err("refused")
            .to_string()
        };
        assert!(words_with(|a| a.burstiness = Some(0.0)).starts_with("--burstiness"));
        assert!(words_with(|a| a.min_duration = Some(1000.0)).starts_with("--min-duration"));
        assert!(words(|a| a.windows = Some(0)).starts_with("--windows"));
        assert!(words(|a| a.timeout = Some(-1.0)).starts_with("--timeout"));
        assert!(words(|a| a.stall_timeout = Some(f64::INFINITY)).starts_with("--stall-timeout"));
        assert!(words(|a| a.temperature = Some(-5.0)).starts_with("--temperature"));
        assert!(words(|a| a.extra_body = Some("[1]".to_owned())).starts_with("--extra-body"));
        let with_password = words(|a| a.base_url = Some("http://me:hidden@host/v1".to_owned()));
        assert!(with_password.starts_with("--base-url") && !with_password.contains("hidden"), "{with_password}");
        assert!(plan(|a| a.base_url = Some("http://host/a@b".to_owned())).is_ok());
        assert!(words(|a| a.api_key_env = Some("NOPE".to_owned())).contains("no variable of the name"));
        assert!(words(|a| a.workload = Some("sharegtp".to_owned())).contains("seed-mix"));
        assert!(words(|a| a.endpoint = Some("v1".to_owned())).starts_with("--endpoint"));
    }

    #[test]
    fn negative_values_are_refused_in_words_about_the_value() {
        let rate = ["--request-rate", "5"];
        for (flag, value, with) in [
            ("--request-rate", "-1", &[][..]),
            ("--request-rate", "5,-1", &[]),
            ("--burstiness", "-1", &rate),
            ("--session-rate", "-1", &["--sessions", "2"]),
            ("--think-time", "-2s", &["--sessions", "2"]),
            ("--turn-every", "-2s", &["--sessions", "2"]),
            ("--tool-time", "-2s", &["--chain", "2"]),
            ("--sessions", "-2", &[]),
            ("--chain", "-2", &[]),
            ("--stages", "-5s@2", &[]),
            ("--arrivals", "-5", &[]),
            ("--shard", "-1/2", &rate),
            ("--length-scale", "-1", &[]),
            ("--random-range-ratio", "-0.5", &["--workload", "random"]),
            ("--temperature", "-1", &[]),
            ("--top-p", "-.5", &[]),
            ("--gap-between-windows", "-1", &[]),
            ("--gap-between-cells", "-1", &[]),
            ("--min-duration", "-5", &[]),
            ("--duration", "-5s", &[]),
            ("--timeout", "-1", &[]),
            ("--stall-timeout", "-1", &[]),
            ("--connect-timeout", "-1", &[]),
            ("--max-failed", "-0.1", &[]),
            ("--at-timeout", "-1", &["--at", "1s=true"]),
            ("--at", "-1s=true", &[]),
            ("--wait", "-1", &[]),
            ("--connection", "-1", &[]),
            ("--raw-file-size", "-1", &[]),
            ("--token-ids", "-1..5", &["--endpoint", "/v1/completions", "--prompt-form", "ids"]),
        ] {
            let words = [&["tarebench", "run"], with, &[flag, value]].concat();
            let told = match crate::cli::parse(words.iter().map(std::ffi::OsString::from)) {
                Err(error) => error.to_string(),
                Ok(crate::cli::Cli { command: crate::cli::Command::Run(args) }) => {
                    Plan::from_args(&args, |_| None).expect_err(flag).to_string()
                }
                Ok(other) => panic!("{other:?}"),
            };
            let part = value.rsplit(',').next().unwrap_or(value).trim_end_matches("=true");
            let shown = part.trim_start_matches("-.");
            assert!(told.contains(flag) && told.contains(shown), "{flag} {value}: {told}");
            assert!(!told.contains("unexpected argument"), "{flag} {value}: {told}");
        }
    }

    fn open(plan: &Plan) -> &crate::load_point::OpenLoop {
        match &plan.cells[0] {
            Cell::Open(open) => open,
            other => panic!("{other:?} is no open loop"),
        }
    }

    #[test]
    fn a_schedule_with_an_end_decides_the_number() {
        let stages = |a: &mut RunArgs| {
            a.stages = Some("6s@5,1s@0,3s@20".parse().expect("a list"));
            a.burstiness = Some(f64::INFINITY);
        };
        let all = plan(stages).expect("ok");
        assert_eq!((all.num_prompts, all.drop, all.min_duration_s, all.requests()), (80, 10, 0.0, 90 * 2));
        assert_eq!((open(&all).requests, open(&all).rate), (90, Some(9.0)));
        let with = |change: fn(&mut RunArgs)| {
            plan(|a| {
                stages(a);
                change(a);
            })
        };
        let first = with(|a| a.num_prompts = Some(20)).expect("ok");
        assert_eq!((first.num_prompts, open(&first).requests, open(&first).last_due_s), (20, 30, 5.8));
        let caps = with(|a| a.max_concurrency = Some(List(vec![2, 4]))).expect("ok");
        assert_eq!((caps.cells.len(), caps.most_connections()), (2, 4));
        let drawn = with(|a| (a.burstiness, a.seed) = (None, Some(3))).expect("ok");
        let other = with(|a| (a.burstiness, a.seed) = (None, Some(4))).expect("ok");
        assert_ne!(drawn.num_prompts, other.num_prompts, "as many as come");
        let words = |change| with(change).expect_err("refused").to_string();
        let few = words(|a| a.num_prompts = Some(81));
        assert!(
            few.starts_with("--stages: the whole schedule has 90")
                && few.contains("leaves 80 to keep, not the 81 of --num-prompts")
        );
        let none = words(|a| a.drop = Some(90));
        assert!(none.starts_with("--stages: the whole schedule has 90") && none.contains("--drop 90"), "{none}");
        assert!(words(|a| a.min_duration = Some(1.0)).starts_with("--stages and --min-duration"));
        assert!(with(|a| a.min_duration = Some(0.0)).is_ok());
        assert!(words(|a| a.profile = Some(Profile::Tail)).starts_with("--stages and --profile"));
        let long = plan(|a| a.arrivals = Some("ramp:1000000..1000000/1h".to_owned())).expect_err("refused").to_string();
        assert!(long.starts_with("--arrivals ramp: a window would have more than 16,777,000"), "{long}");
    }

    #[test]
    fn arrivals_that_go_on_keep_the_number_and_the_duration() {
        let of = |arrivals: &str, rate: Option<f64>| {
            plan(|a| {
                a.arrivals = Some(arrivals.to_owned());
                a.request_rate = rate.map(|rate| List(vec![rate]));
            })
            .expect("ok")
        };
        let batches = of("batch:40/1s", None);
        assert_eq!((batches.num_prompts, batches.min_duration_s, open(&batches).requests), (300, 2.0, 310));
        assert_eq!((open(&batches).rate, open(&batches).last_due_s), (Some(40.0), 7.0));
        let on_off = of("on-off:1s/3s", Some(100.0));
        assert_eq!((open(&on_off).rate, open(&on_off).arrivals), (Some(25.0), "poisson"));
        assert_ne!(of("spike:4x/1s@1s", Some(100.0)).hash("m"), of("spike:5x/1s@1s", Some(100.0)).hash("m"));
    }

    #[test]
    fn flags_of_arrivals_that_do_not_go_together() {
        let words = |change: fn(&mut RunArgs)| plan(change).expect_err("refused").to_string();
        let both =
            words(|a| (a.arrivals, a.stages) = (Some("batch:1/1s".to_owned()), Some(List(vec!["1s@1".to_owned()]))));
        assert!(both.starts_with("--arrivals and --stages do not go together"), "{both}");
        assert!(words(|a| a.arrivals = Some("on-off:1s/1s".to_owned())).contains("without --request-rate"));
        for (text, flag) in [("batch:5/1s", "batch"), ("ramp:1..2/9s", "ramp")] {
            let with_rate = plan(|a| (a.arrivals, a.request_rate) = (Some(text.to_owned()), Some(List(vec![5.0]))));
            let said = with_rate.expect_err("refused").to_string();
            assert!(said.starts_with(&format!("--arrivals {flag} and --request-rate do not go together")), "{said}");
        }
        let spike = |a: &mut RunArgs| a.arrivals = Some("spike:9x/1s@1s".to_owned());
        let of_spike = |rate: f64| {
            let refused = plan(|a| {
                spike(a);
                a.request_rate = Some(List(vec![rate]));
            });
            refused.expect_err("refused").to_string()
        };
        assert!(of_spike(f64::INFINITY).starts_with("--arrivals spike and --request-rate inf"));
        assert!(of_spike(0.0).starts_with("--request-rate must be"));
        let high = of_spike(500_000.0);
        assert!(high.starts_with("--arrivals spike: a rate must be") && high.contains("4500000"), "{high}");
        let burst = words(|a| (a.arrivals, a.burstiness) = (Some("batch:5/1s".to_owned()), Some(2.0)));
        assert!(burst.starts_with("--arrivals batch and --burstiness"), "{burst}");
        let form = words(|a| a.arrivals = Some("batch:5".to_owned()));
        assert!(
            form.starts_with("--arrivals must be batch:N/T") && form.ends_with("like batch:50/10s, not \"batch:5\"")
        );
        let stage = words(|a| a.stages = Some(List(vec!["60s@5".to_owned(), "x".to_owned()])));
        assert!(stage.starts_with("--stages must be a list of T@R") && stage.ends_with("not \"x\""), "{stage}");
        let rates = words(|a| (a.arrivals, a.burstiness) = (Some("ramp:1..2/9s".to_owned()), Some(0.0)));
        assert!(rates.starts_with("--burstiness must be"), "{rates}");
    }

    #[test]
    fn a_shard_is_part_of_a_schedule() {
        let of = |shard: &str| {
            plan(|a| {
                (a.shard, a.request_rate) = (Some(shard.to_owned()), Some(List(vec![100.0])));
                (a.num_prompts, a.drop, a.min_duration) = (Some(20), Some(2), Some(0.0));
            })
        };
        let parts: Vec<Plan> = ["1/4", "2/4", "3/4", "4/4"].iter().map(|shard| of(shard).expect("ok")).collect();
        assert_eq!(parts.iter().map(Plan::requests).collect::<Vec<_>>(), [12, 12, 10, 10], "22 in two windows");
        assert!(parts.iter().all(|p| p.cells[0].schedule_hash() == parts[0].cells[0].schedule_hash()));
        assert!(parts.iter().all(|p| (p.num_prompts, &p.trace_hash) == (20, &parts[0].trace_hash)), "of the whole");
        let text = serde_json::to_string(&parts[1]).expect("JSON");
        assert!(text.contains(r#""shard":{"index":2,"of":4}"#), "{text}");
        let none = of("23/30").expect_err("refused").to_string();
        assert!(none.starts_with("--shard 23/30 has none of the 22 requests") && none.contains("--drop 2"), "{none}");
        assert!(of("2/30").is_err(), "its only request is warm-up");
        let form = of("5/4").expect_err("refused").to_string();
        assert!(form.starts_with("--shard must be I/N") && form.ends_with("not \"5/4\""), "{form}");
        let closed = plan(|a| a.shard = Some("1/2".to_owned())).expect_err("refused").to_string();
        assert!(
            closed.starts_with("--shard and a closed loop do not go together: its requests start when"),
            "{closed}"
        );
    }

    #[test]
    fn the_hash_covers_what_is_sent_and_not_where_it_is_written() {
        let base = plan(|_| {}).expect("default").hash("m");
        assert_eq!(plan(|a| a.out = Some("x".into())).expect("ok").hash("m"), base);
        assert_ne!(plan(|a| a.seed = Some(8)).expect("ok").hash("m"), base);
        assert_ne!(plan(|_| {}).expect("ok").hash("n"), base);
    }

    #[test]
    fn goals_are_part_of_the_plan() {
        let file = tempfile::NamedTempFile::new().expect("file");
        std::fs::write(file.path(), "[window]\n\"ttft.p99\" = 900\n").expect("written");
        let with = |goodput: Option<&str>| {
            plan(|a| {
                a.slo = Some(file.path().to_owned());
                a.goodput = goodput.map(|text| text.parse().expect("list"));
            })
        };
        let goals = with(Some("ttft:500,tpot:40")).expect("ok").goals.expect("goals");
        assert_eq!((goals.request.len(), goals.window.len()), (2, 1));
        assert_ne!(with(None).expect("ok").hash("m"), plan(|_| {}).expect("ok").hash("m"));
        let said = with(Some("ttft")).expect_err("refused").to_string();
        assert!(said.starts_with("--goodput: \"ttft\""), "{said}");
        std::fs::write(file.path(), "[windows]\n").expect("written");
        let said = with(None).expect_err("refused").to_string();
        assert!(said.starts_with(&format!("--slo {}", file.path().display())) && said.contains("windows"), "{said}");
        let endless = plan(|a| a.slo = Some("/dev/zero".into())).expect_err("refused").to_string();
        assert!(endless.contains("more than 1048576 bytes"), "{endless}");
        let said = plan(|a| a.slo = Some("/nowhere/slo.toml".into())).expect_err("refused").to_string();
        assert!(said.starts_with("--slo /nowhere/slo.toml"), "{said}");
    }

    #[test]
    fn rules_are_what_was_fixed_and_nothing_else() {
        let rules = |change: fn(&mut RunArgs)| plan(change).expect("ok").rules();
        let base = rules(|_| {});
        let words = r#"{"drop":10,"num_prompts":300,"windows":2,"min_duration_s":2.0,"max_failed":0.01,"stop_at_failed":null,"goals":null}"#;
        assert_eq!(base.to_string(), words);
        assert_eq!(rules(|a| a.seed = Some(8)), base);
        let hash = Plan::rules_hash(&base);
        let others: [fn(&mut RunArgs); 6] = [
            |a| a.drop = Some(9),
            |a| a.num_prompts = Some(299),
            |a| a.windows = Some(3),
            |a| a.min_duration = Some(1.0),
            |a| a.max_failed = Some(0.02),
            |a| a.stop_at_failed = Some(5),
        ];
        assert!(others.into_iter().all(|change| Plan::rules_hash(&rules(change)) != hash));
    }

    #[test]
    fn load_points_and_rounds_are_rested_before() {
        let of = |windows: f64, cells: f64| {
            let plan = plan(|a| (a.gap_between_windows, a.gap_between_cells) = (Some(windows), Some(cells)));
            let plan = plan.expect("ok");
            [(0, 0), (0, 1), (1, 0), (1, 2)].map(|(window, cell)| plan.rest_before(window, cell).secs_f64())
        };
        assert_eq!(of(30.0, 0.0), [0.0, 0.0, 30.0, 0.0]);
        assert_eq!(of(30.0, 5.0), [0.0, 5.0, 30.0, 5.0]);
        assert_eq!(of(0.0, 5.0), [0.0, 5.0, 5.0, 5.0]);
        let hash = |s: Option<f64>| plan(|a| a.gap_between_cells = s).expect("ok").hash("m");
        assert_eq!(hash(None), hash(Some(0.0)));
        assert_ne!(hash(None), hash(Some(1.0)));
        let bad = plan(|a| a.gap_between_cells = Some(-1.0)).expect_err("refused").to_string();
        assert!(bad.starts_with("--gap-between-cells must be"), "{bad}");
    }

    #[test]
    fn two_arms_differ_in_the_server_only() {
        let two = |change: fn(&mut RunArgs)| {
            plan(|a| {
                (a.base_url, a.interleave) = (Some("http://a".to_owned()), Some("http://b".to_owned()));
                change(a);
            })
        };
        let a = two(|_| {}).expect("ok");
        let b = a.other_arm().expect("two arms");
        assert_eq!((b.base_url.as_str(), b.target.base_url.as_deref()), ("http://b", Some("http://b")));
        let alone = plan(|args| args.base_url = Some("http://a".to_owned())).expect("ok");
        assert_eq!(a.hash("m"), alone.hash("m"), "the order decides nothing that is sent");
        assert_eq!(Plan { base_url: a.base_url.clone(), ..b.clone() }.hash("m"), a.hash("m"));
        assert_eq!((b.other_arm(), alone.sequence()), (None, None));
        assert_eq!(a.sequence(), Some(Sequence::draw(Order::Abba, 7, 3, 2)));
        assert!(two(|a| a.base_url = None).expect_err("refused").to_string().contains("--base-url"));
        assert!(two(|a| a.address = Some("::1".to_owned())).expect_err("refused").to_string().contains("--address"));
        let order = plan(|a| a.interleave_order = Some(InterleaveOrder::Pairs)).expect_err("refused").to_string();
        assert!(order.starts_with("--interleave-order has no meaning without --interleave"), "{order}");
    }

    #[test]
    fn a_key_is_in_no_plan() {
        let planted = plan(|a| {
            a.api_key_env = Some("KEY".to_owned());
            a.header = vec![Pair("X-Api-Key".to_owned(), "sk-planted-77".to_owned())];
        });
        let planted = planted.expect("ok");
        let text = format!("{} {planted:?}", serde_json::to_string(&planted).expect("json"));
        assert!(!text.contains("secret") && !text.contains("sk-planted") && text.contains("X-Api-Key"), "{text}");
    }

    #[test]
    fn headers_of_ours_are_removed_by_name() {
        let with = |name: &str| plan(|a| a.remove_header = vec![name.to_owned()]);
        assert_eq!(with("user-Agent").expect("ok").removed_headers, ["user-agent"]);
        assert_ne!(with("Accept").expect("ok").hash("m"), plan(|_| {}).expect("ok").hash("m"));
        for wrong in ["Host", "Authorization", "Content-Length", ""] {
            let said = with(wrong).expect_err("refused").to_string();
            assert!(said.starts_with("--remove-header must be Accept, Accept-Encoding or User-Agent"), "{said}");
        }
    }

    #[test]
    fn flags_of_tls_go_with_an_https_url() {
        let secure = |change: fn(&mut RunArgs)| {
            plan(|a| {
                a.base_url = Some("https://gw.example/v1".to_owned());
                change(a);
            })
        };
        let words = |change: fn(&mut RunArgs)| secure(change).expect_err("refused").to_string();
        let plain = plan(|a| (a.base_url, a.insecure) = (Some("http://x".to_owned()), true)).expect_err("refused");
        assert_eq!(
            plain.to_string(),
            "--insecure has no meaning without an https:// URL: add it, or leave --insecure out"
        );
        assert!(
            words(|a| a.client_cert = Some("c.pem".into()))
                .starts_with("--client-cert has no meaning without --client-key")
        );
        assert!(
            words(|a| (a.insecure, a.ca_file) = (true, Some("ca.pem".into()))).starts_with("--insecure and --ca-file")
        );
        let both = words(|a| (a.api_key_env, a.api_key_file) = (Some("KEY".to_owned()), Some("f".into())));
        assert!(both.starts_with("--api-key-file and --api-key-env do not go together"), "{both}");
        let base = secure(|_| {}).expect("ok");
        let text = serde_json::to_string(&base).expect("json");
        assert!(text.contains(r#""tls":{"roots":"webpki-roots","client_certificate":false,"resume":false}"#), "{text}");
        assert_ne!(secure(|a| a.insecure = true).expect("ok").hash("m"), base.hash("m"));
        let plain = serde_json::to_string(&plan(|_| {}).expect("ok")).expect("json");
        assert!(!plain.contains("tls"), "old hashes stay");
        let mixed = secure(|a| a.interleave = Some("http://b".to_owned())).expect("ok");
        assert_eq!(mixed.other_arm().expect("two arms").tls, None);
    }

    #[test]
    fn connections_are_kept_as_asked() {
        for (text, json) in [("reuse", "reuse"), ("per-request", "per-request"), ("1", "per-request"), ("20", "20")] {
            let args: RunArgs = toml::from_str(&format!("connection = '{text}'")).expect("parses");
            assert_eq!(args.connection, Some(text.parse().expect("parses")));
            let with = plan(|a| a.connection = Some(text.parse().expect("parses"))).expect("ok");
            assert_eq!(serde_json::to_value(with.connection).expect("json"), json);
        }
        assert_eq!(toml::from_str::<RunArgs>("connection = 20").expect("parses").connection, "20".parse().ok());
        for wrong in ["0", "-1", "keep", ""] {
            assert!(wrong.parse::<Connection>().is_err(), "{wrong}");
        }
    }
}
