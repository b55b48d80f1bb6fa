//! How many tokens the server counts for what is sent to it, learnt before the first window from a few short requests.
//! They are no part of the load: no window, row or count has them; `plan.json` has what they showed.

use super::Voice;
use super::arm::Arm;
use crate::cli::Switch;
use crate::plan::Plan;
use crate::reading::content::{self, error_body_words};
use crate::reading::{printable, printable_cut};
use crate::target::facts;
use crate::target::fetch::{self, FetchError, Reply};
use crate::target::openai::BodyTemplate;
use crate::tokenizer::Tokenizer;
use crate::workload::gauge::{Counted, Fit, Gauge, NoFit};
use crate::workload::nonce::Nonces;
use crate::workload::prompt::{Prompt, even_text};
use bench_engine::units::Nanos;
use bench_engine::wire::sse::{Item, Sse};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use thiserror::Error;

/// Requests of one probe, each with twice the words of the one before.
const REQUESTS: u32 = 5;
/// Words of the longest, at most; fewer where the workload's prompts are shorter, so that what a server can take is kept.
const LONGEST: f64 = 512.0;
/// And at least: the shortest is then the nonce alone.
const SHORTEST: f64 = 16.0;
/// Longest wait for one reply, whatever longer ones the load may have.
const PATIENCE: Nanos = Nanos::from_secs(60);
/// Longest reply: one token, but some servers send logs and prompts with it.
const MOST_BYTES: usize = 4 << 20;
/// Names the probe's nonces. They are the same in every run, so that every run against a server learns the same.
const NONCES: &str = "length probe";
/// Share by which the server's count may differ from ours before it is a warning.
const LIKE: f64 = 0.05;
/// Share by which the lengths of the prompts of two arms may differ before it is said.
const ALIKE: f64 = 0.01;

/// How prompts are made to their lengths, and why so.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lengths {
    /// What makes a prompt's length of an asked one.
    pub(super) gauge: Gauge,
    /// Requests that were sent for it.
    sent: usize,
    source: Source,
}

/// Where the gauge comes from.
#[derive(Clone, Debug, PartialEq)]
enum Source {
    /// Nothing was asked, for this reason.
    NotAsked(NotAsked),
    /// The server's counts.
    Probe { counted: Vec<Counted>, fit: Fit, failed: Option<String> },
    /// It was asked and told nothing that can be used.
    Nothing { counted: Vec<Counted>, why: NothingLearnt },
}

/// Why no probe was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
enum NotAsked {
    #[error("--length-probe off")]
    Off,
    #[error("the mock counts words")]
    Mock,
    #[error("whole bodies and token ids have their lengths")]
    NoWords,
}

/// Why the probe told nothing.
#[derive(Clone, Debug, PartialEq, Error)]
enum NothingLearnt {
    #[error("{0}")]
    Unanswered(String),
    #[error(transparent)]
    NoFit(#[from] NoFit),
    #[error("interrupted")]
    Interrupted,
}

/// A request of the probe that told no length.
#[derive(Debug, Error)]
enum NoCount {
    /// Another request may fare better.
    #[error("{0}")]
    This(String),
    /// No other will.
    #[error("{0}")]
    Any(String),
}

impl Default for Lengths {
    /// Before anything was asked.
    fn default() -> Self {
        Lengths { gauge: Gauge::WORD_EACH, sent: 0, source: Source::NotAsked(NotAsked::Off) }
    }
}

impl Lengths {
    /// Asks the server, unless the plan or the server's kind says otherwise. Never an error: what could not be learnt is said,
    /// and a word is taken for a token.
    pub(super) fn learn(arm: &Arm<'_>, stop: &AtomicBool) -> Lengths {
        let plan = arm.plan;
        if let Some(reason) = not_asked(plan, arm) {
            let source = Source::NotAsked(reason);
            return Lengths { gauge: unasked(plan.tokenizer.as_ref()), sent: 0, source };
        }
        let (mut sent, mut counted, mut failed) = (0, Vec::new(), None);
        for (n, words) in lengths(plan.mean_prompt_tokens).into_iter().enumerate() {
            if stop.load(Ordering::Relaxed) {
                let source = Source::Nothing { counted, why: NothingLearnt::Interrupted };
                return Lengths { gauge: unasked(plan.tokenizer.as_ref()), sent, source };
            }
            sent += 1;
            let text = even_text(&Nonces::of_run(NONCES).nonce(0, n as u64), words);
            let ours = plan.tokenizer.as_ref().map_or(words, |tokenizer| tokenizer.count(&text));
            match ask(arm, text, stop) {
                Ok(server) => counted.push(Counted { ours, server }),
                Err(no_count) => {
                    let failure = format!("a prompt of {words} words: {no_count}");
                    let is_last = matches!(no_count, NoCount::Any(_));
                    failed = failed.or(Some(failure));
                    if is_last {
                        break;
                    }
                }
            }
        }
        Lengths { sent, ..Lengths::of(counted, failed, plan.tokenizer.as_ref()) }
    }

    fn of(counted: Vec<Counted>, failed: Option<String>, tokenizer: Option<&Tokenizer>) -> Lengths {
        match (Fit::through(&counted), failed) {
            (Ok(fit), failed) => {
                // a tokenizer of our own knows what words cost; the template is the server's
                let per_word = tokenizer.map_or(fit.gauge.per_word, Tokenizer::per_word);
                let gauge = Gauge { per_word, ..fit.gauge };
                Lengths { gauge, sent: counted.len(), source: Source::Probe { counted, fit, failed } }
            }
            (Err(no_fit), failed) => {
                let why = failed.map_or(NothingLearnt::NoFit(no_fit), NothingLearnt::Unanswered);
                Lengths { gauge: unasked(tokenizer), sent: counted.len(), source: Source::Nothing { counted, why } }
            }
        }
    }

    /// `gauge` of `plan.json`.
    pub(super) fn facts(&self, tokenizer: Option<&Tokenizer>) -> Value {
        let (counted, fit, why) = match &self.source {
            Source::NotAsked(reason) => (&[][..], None, Some(reason.to_string())),
            Source::Probe { counted, fit, failed } => (&counted[..], Some(fit), failed.clone()),
            Source::Nothing { counted, why } => (&counted[..], None, Some(why.to_string())),
        };
        json!({
            "overhead": self.gauge.overhead,
            "per_word": self.gauge.per_word,
            "tokenizer": tokenizer.map(Tokenizer::facts),
            "probe": match self.source {
                Source::NotAsked(_) => "not_asked",
                Source::Probe { .. } => "learnt",
                Source::Nothing { .. } => "nothing_learnt",
            },
            "why": why,
            "requests": self.sent,
            // ours: words, with a tokenizer its tokens
            "counted": counted,
            "ratio": fit.map(|fit| fit.gauge.per_word),
            "scatter": fit.map(|fit| fit.scatter),
            "odd": fit.and_then(|fit| fit.odd),
        })
    }

    /// What is said of it before the first window.
    pub(super) fn tell(&self, tokenizer: Option<&Tokenizer>, voice: &Voice) {
        self.words(tokenizer).into_iter().for_each(|line| voice.say(line));
    }

    fn words(&self, tokenizer: Option<&Tokenizer>) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(tokenizer) = tokenizer {
            let facts = tokenizer.facts();
            lines.push(format!(
                "tokens   lengths by {} ({} entries, SHA-256 {}..), {:.2} tokens a word",
                tokenizer.path().display(),
                facts.vocabulary,
                &facts.sha256[..12],
                tokenizer.per_word()
            ));
            if !tokenizer.meets_every_length() {
                lines.push(
                    "WARNING: no words have every number of tokens by this tokenizer: prompts are made as near to the \
                     asked length as words come"
                        .to_owned(),
                );
            }
        }
        let begin = if tokenizer.is_some() { "         " } else { "tokens   " };
        let unit = if tokenizer.is_some() { "for each of its tokens" } else { "a word" };
        match &self.source {
            Source::NotAsked(NotAsked::NoWords) if tokenizer.is_none() => {
                lines.push(format!("{begin}nothing is asked first ({})", NotAsked::NoWords));
            }
            Source::NotAsked(reason) => {
                let words = match tokenizer {
                    Some(_) => "no template is taken off",
                    None => "a word is taken for a token",
                };
                lines.push(format!("{begin}{words} ({reason})"));
            }
            Source::Probe { counted, fit, failed } => {
                let Gauge { overhead, per_word } = fit.gauge;
                let template = match overhead.round() {
                    more if more < 0.0 => format!("{} fewer in all", -more),
                    more => format!("{more} more for its template"),
                };
                let made = match tokenizer {
                    Some(_) => "its template is taken off what prompts are made of",
                    None => "prompts are made so that its count meets the asked length",
                };
                lines.push(format!(
                    "{begin}the server counts {per_word:.2} tokens {unit} and {template} ({} requests, scatter {:.1}): {made}",
                    counted.len(),
                    fit.scatter,
                ));
                if let Some(odd) = fit.odd {
                    lines.push(format!(
                        "WARNING: of a prompt of {} {} the server counted {} tokens, which does not go with its other \
                         counts and was left out: does it cut long prompts?",
                        odd.ours,
                        if tokenizer.is_some() { "tokens" } else { "words" },
                        odd.server
                    ));
                }
                if let Some(failed) = failed {
                    lines.push(format!("WARNING: the length probe went on without {failed}"));
                }
                if (per_word - 1.0).abs() > LIKE {
                    lines.push(match tokenizer {
                        Some(tokenizer) => format!(
                            "WARNING: the server counts {per_word:.2} tokens for each one that {} has (ratio {per_word:.2}): \
                             it has another tokenizer. Prompts have the asked length by that file, not by the server's count",
                            tokenizer.path().display()
                        ),
                        None => format!(
                            "WARNING: the server's count is {per_word:.2} times one token a word (ratio {per_word:.2}): \
                             prompts have {} words than tokens are asked, so that its count is met",
                            if per_word > 1.0 { "fewer" } else { "more" }
                        ),
                    });
                }
            }
            Source::Nothing { why, .. } => {
                let words = match tokenizer {
                    Some(_) => "no template is taken off, and whether the server counts as that file does is not known",
                    None => "a word is taken for a token, and what the server counts may differ",
                };
                lines.push(format!("WARNING: the length probe told nothing ({why}): {words}"));
            }
        }
        lines
    }

    /// Two arms: what is said when the same asked length gives prompts of different lengths.
    pub(super) fn unlike(a: &Lengths, b: &Lengths, mean_prompt_tokens: f64) -> Option<String> {
        let tokens = mean_prompt_tokens.round().max(1.0) as u64;
        a.gauge.differs(&b.gauge, tokens, ALIKE).then(|| {
            format!(
                "WARNING: the two servers count differently: for {tokens} tokens arm a gets {} words and arm b {}; their \
                 prompts have the same length by their own counts, and not the same words",
                a.gauge.words(tokens),
                b.gauge.words(tokens)
            )
        })
    }
}

/// What holds while nothing is known of the server.
fn unasked(tokenizer: Option<&Tokenizer>) -> Gauge {
    tokenizer.map_or(Gauge::WORD_EACH, |tokenizer| Gauge { overhead: 0.0, per_word: tokenizer.per_word() })
}

fn not_asked(plan: &Plan, arm: &Arm<'_>) -> Option<NotAsked> {
    match plan.length_probe {
        _ if !plan.workload.is_of_words() => Some(NotAsked::NoWords),
        Some(Switch::Off) => Some(NotAsked::Off),
        Some(Switch::On) => None,
        None => facts::is_mock(&arm.server.identity).then_some(NotAsked::Mock),
    }
}

/// Words of the probe's prompts, for a workload whose prompts have so many tokens in the mean.
fn lengths(mean_prompt_tokens: f64) -> Vec<u64> {
    let longest = mean_prompt_tokens.clamp(SHORTEST, LONGEST);
    (0..REQUESTS).rev().map(|halves| (longest / f64::from(1_u32 << halves)).floor() as u64).collect()
}

/// Tokens that the server counts in `text`.
fn ask(arm: &Arm<'_>, text: String, stop: &AtomicBool) -> Result<u64, NoCount> {
    let request = arm.request.with_json(&arm.body.body(&Prompt::Text(text), shortest_output(&arm.body)));
    let limits = &arm.plan.limits;
    let patience = limits.request.min(limits.stall).min(PATIENCE);
    let connect = limits.connect;
    let secret = arm.server.secret.as_deref();
    match fetch::send(&arm.server.target, &request, connect, patience, MOST_BYTES, stop) {
        Ok(reply) => prompt_tokens(&reply, arm.plan.stream, secret).map_err(NoCount::This),
        Err(error @ (FetchError::Protocol(_) | FetchError::ClosedAtOnce)) => {
            Err(NoCount::This(printable_cut(&error.to_string(), secret)))
        }
        // it does not answer, and each further try would take as long
        Err(error) => Err(NoCount::Any(printable_cut(&error.to_string(), secret))),
    }
}

/// One token, unless the user's own fields want more.
fn shortest_output(body: &BodyTemplate) -> u64 {
    body.extra.get("min_tokens").and_then(Value::as_u64).unwrap_or(1).max(1)
}

/// The server's count of the prompt in a reply of either kind.
fn prompt_tokens(reply: &Reply, streamed: bool, secret: Option<&str>) -> Result<u64, String> {
    if let Some(encoding) = &reply.encoding {
        return Err(format!("the reply is compressed ({})", printable(encoding, secret)));
    }
    if reply.status != 200 {
        let said = error_body_words(&reply.body);
        return Err(format!("HTTP {} {}", reply.status, printable_cut(&said, secret)));
    }
    let mut documents = Vec::new();
    match streamed {
        true => events(&reply.body, &mut documents),
        false => documents.push(reply.body.clone()),
    }
    let mut tokens = None;
    for facts in documents.iter().filter_map(|document| content::read(document, false)) {
        if let Some(error) = facts.error {
            return Err(format!("an error in the reply: {}", printable_cut(&error, secret)));
        }
        tokens = facts.usage.and_then(|usage| usage.prompt).or(tokens);
    }
    tokens.ok_or_else(|| "the reply has no usage.prompt_tokens".to_owned())
}

/// The data of each event.
fn events(mut stream: &[u8], out: &mut Vec<Vec<u8>>) {
    let (mut sse, mut data) = (Sse::default(), Vec::new());
    let mut take = |item: Option<Item<'_>>| match item {
        Some(Item::Data(bytes)) => data.extend_from_slice(bytes),
        Some(Item::Blank { .. }) => out.push(std::mem::take(&mut data)),
        _ => {}
    };
    while !stream.is_empty() {
        // what cannot be followed has told what it had
        let Ok((taken, item)) = sse.next(stream) else { return };
        take(item);
        stream = &stream[taken..];
    }
    take(sse.finish());
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench_engine::io::tcp_info::RoundTrip;

    fn reply(status: u16, body: &str) -> Reply {
        Reply { status, server: None, encoding: None, body: body.into(), round_trip: RoundTrip::default() }
    }

    fn counts(of: impl Fn(u64) -> u64) -> Vec<Counted> {
        lengths(940.0).into_iter().map(|ours| Counted { ours, server: of(ours) }).collect()
    }

    #[test]
    fn lengths_halve_and_follow_the_workload() {
        assert_eq!(lengths(940.0), [32, 64, 128, 256, 512]);
        assert_eq!(lengths(94.0), [5, 11, 23, 47, 94]);
        assert_eq!(lengths(1.0), [1, 2, 4, 8, 16]);
    }

    #[test]
    fn the_count_stands_in_replies_of_both_kinds() {
        let stream = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"A\"}}]}\n\n\
                      data: {\"choices\":[],\"usage\":{\"prompt_tokens\":41,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n";
        assert_eq!(prompt_tokens(&reply(200, stream), true, None), Ok(41));
        let unended = stream.trim_end().trim_end_matches("data: [DONE]").trim_end();
        assert_eq!(prompt_tokens(&reply(200, unended), true, None), Ok(41));
        let document = "{\"choices\":[],\"usage\":{\"prompt_tokens\":7}}";
        assert_eq!(prompt_tokens(&reply(200, document), false, None), Ok(7));
    }

    #[test]
    fn what_is_no_count_is_told_without_the_key() {
        let words = |status, body: &str| prompt_tokens(&reply(status, body), true, Some("sk-1")).expect_err("no count");
        assert_eq!(words(401, "{\"error\":{\"message\":\"bad key sk-1\"}}"), "HTTP 401 bad key [key]");
        assert_eq!(words(200, "data: {\"choices\":[]}\n\n"), "the reply has no usage.prompt_tokens");
        assert!(words(200, "data: {\"error\":{\"message\":\"full\"}}\n\n").ends_with("full"));
        assert_eq!(words(200, "<html>"), "the reply has no usage.prompt_tokens");
        let zipped = Reply { encoding: Some("gzip".to_owned()), ..reply(200, "") };
        assert!(prompt_tokens(&zipped, true, None).expect_err("no count").contains("compressed"));
    }

    #[test]
    fn a_count_that_is_off_is_a_warning_with_its_ratio() {
        let told = |of: fn(u64) -> u64| Lengths::of(counts(of), None, None).words(None).join("\n");
        let off = told(|n| 9 + (n * 113 + 50) / 100);
        assert!(
            off.starts_with("tokens   the server counts 1.13 tokens a word and 9 more for its template (5 requests")
        );
        assert!(off.contains("WARNING") && off.contains("(ratio 1.13)") && off.contains("fewer words"), "{off}");
        assert!(told(|n| n * 9 / 10).contains("(ratio 0.90): prompts have more words"));
        let like = told(|n| n + 4);
        assert!(!like.contains("WARNING") && like.contains("1.00 tokens a word and 4 more"), "{like}");
    }

    #[test]
    fn a_probe_that_tells_nothing_leaves_a_word_a_token() {
        let nothing = Lengths::of(Vec::new(), Some("a prompt of 32 words: HTTP 500".to_owned()), None);
        assert_eq!(nothing.gauge, Gauge::WORD_EACH);
        let told = nothing.words(None).join("\n");
        assert!(
            told.starts_with("WARNING: the length probe told nothing (a prompt of 32 words: HTTP 500): a word"),
            "{told}"
        );
        let flat = Lengths::of(counts(|_| 3), None, None);
        assert_eq!(flat.gauge, Gauge::WORD_EACH);
        assert!(flat.words(None)[0].contains("0.00 tokens"), "{:?}", flat.words(None));
        // the longest was refused: the others do
        let longest = Some("a prompt of 512 words: HTTP 400".to_owned());
        let most = Lengths::of(counts(|n| n + 4)[..4].to_vec(), longest, None);
        assert!((most.gauge.overhead - 4.0).abs() < 1e-6, "{most:?}");
        assert!(most.words(None).join("\n").contains("went on without a prompt of 512 words"));
    }

    #[test]
    fn two_arms_that_count_differently_are_told() {
        let of = |of: fn(u64) -> u64| Lengths::of(counts(of), None, None);
        assert_eq!(Lengths::unlike(&of(|n| n + 4), &of(|n| n + 5), 940.0), None);
        let told = Lengths::unlike(&of(|n| n + 4), &of(|n| 2 * n + 4), 940.0).expect("said");
        assert!(told.contains("arm a gets 936 words and arm b 468"), "{told}");
    }
}
