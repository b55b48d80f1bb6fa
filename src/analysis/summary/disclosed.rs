//! What the rows of a window say for the fifteen boxes, gathered while they go by.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use crate::analysis::definitions::{self, millis, seconds, sessions};
use crate::analysis::percentiles;
use crate::analysis::statistics::length_differences::LengthDifferences;
use crate::analysis::statistics::token_counts::{TokenCounts, variation};
use crate::rundir::disclosed::{Cached, ClassLengths, Disclosed, Dropped, FirstSent, LengthMet, Lengths, Timed};
use crate::rundir::row::{Outcome, Phase, Row, StampSource};

/// Facts for the boxes, while rows are read.
#[derive(Default)]
pub(super) struct DisclosedTally {
    stamped: [u64; 2],
    timed: Timed,
    dropped: Dropped,
    dropped_ttft: Vec<i64>,
    first_sent: Option<(u64, FirstSent)>,
    first_cold: Option<(u64, FirstSent)>,
    /// First 16 bytes of the SHA-256 of each.
    beginnings: Vec<[u8; 16]>,
    cached: Cached,
    classes: BTreeMap<String, ClassTally>,
}

/// Lengths of one class.
#[derive(Default)]
struct ClassTally {
    requests: u64,
    asked_prompt: Counted<u64>,
    prompt: Counted<u64>,
    asked_output: Counted<u64>,
    output: Counted<u64>,
    length_met: LengthMet,
    /// Prompt tokens asked for, and by usage.
    prompts: Counted<(u64, u64)>,
}

/// Values that come again and again, ascending, each with how often it came.
struct Counted<T>(BTreeMap<T, u64>);

impl<T> Default for Counted<T> {
    fn default() -> Self {
        Counted(BTreeMap::new())
    }
}

impl<T: Ord + Copy> Counted<T> {
    fn to_vec(&self) -> Vec<T> {
        self.0.iter().flat_map(|(value, n)| std::iter::repeat_n(*value, *n as usize)).collect()
    }
}

impl<T: Ord> Extend<T> for Counted<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        values.into_iter().for_each(|value| *self.0.entry(value).or_default() += 1);
    }
}

impl DisclosedTally {
    /// Takes a row that was sent.
    pub(super) fn take(&mut self, row: &Row) {
        if sessions::is_arrival(row) {
            self.beginnings.push(named(row.beginning()));
        }
        let ttft = definitions::ttft(row);
        if let Some(submit) = row.submit {
            let first = FirstSent {
                trace_id: row.trace_id,
                sent_s: seconds(submit),
                dropped: row.phase == Phase::Warmup,
                outcome: row.outcome,
                connect_ms: definitions::tcp(row).map(millis),
                ttft_gross_ms: ttft.gross.map(millis),
                ttft_net_ms: ttft.net.map(|net| millis(net.at)),
            };
            earlier(&mut self.first_sent, submit, first);
            if !row.conn_reused {
                earlier(&mut self.first_cold, submit, first);
            }
        }
        match row.phase {
            Phase::Warmup => self.dropped(row, ttft.gross),
            Phase::Measured => self.kept(row, ttft.gross),
        }
    }

    fn dropped(&mut self, row: &Row, ttft: Option<i64>) {
        let (dropped, id) = (&mut self.dropped, row.trace_id);
        dropped.first_id = Some(dropped.first_id.map_or(id, |first| first.min(id)));
        dropped.last_id = Some(dropped.last_id.map_or(id, |last| last.max(id)));
        if row.outcome == Outcome::Ok {
            dropped.ok += 1;
            self.dropped_ttft.extend(ttft);
        }
    }

    fn kept(&mut self, row: &Row, ttft: Option<i64>) {
        self.stamped[usize::from(row.stamps == StampSource::User)] += 1;
        if let Some(tokens) = row.cached_tokens {
            self.cached.reported += 1;
            self.cached.hit += u64::from(tokens > 0);
            add(&mut self.cached.tokens, Some(tokens));
            add(&mut self.cached.prompt_tokens, row.prompt_tokens);
        }
        let class = self.classes.entry(row.class.clone()).or_default();
        class.requests += 1;
        class.asked_prompt.extend([row.asked_prompt_tokens]);
        class.prompt.extend(row.prompt_tokens);
        class.prompts.extend(row.prompt_tokens.map(|tokens| (row.asked_prompt_tokens, tokens)));
        class.asked_output.extend([row.asked_output_tokens]);
        if row.outcome == Outcome::Ok {
            class.output.extend(row.completion_tokens);
            if let Some(tokens) = row.completion_tokens.filter(|_| row.asked_output_tokens > 0) {
                let (asked, found) = (row.asked_output_tokens, &mut class.length_met);
                found.known += 1;
                found.met += u64::from(tokens == asked);
                found.shorter += u64::from(tokens < asked);
            }
            let timed = &mut self.timed;
            timed.first_token += u64::from(ttft.is_some());
            timed.first_answer += u64::from(definitions::ttfo(row).gross.is_some());
            timed.answer_later += u64::from(definitions::ttfo(row).gross > ttft && ttft.is_some());
            timed.last_token += u64::from(definitions::e2e(row).gross.is_some());
        }
    }

    /// The facts, less what the window's gates withhold of gross and net.
    pub(super) fn finish(mut self, no_gross: bool, no_net: bool) -> (Disclosed, Lengths) {
        let warm_up = percentiles::figures(&mut self.dropped_ttft).filter(|_| !no_gross);
        self.dropped.ttft_gross_p50_ms = warm_up.and_then(|f| f.percentiles_ms[0]);
        self.dropped.ttft_gross_max_ms = warm_up.map(|f| f.max_ms);
        let seen = |first: Option<(u64, FirstSent)>| {
            first.map(|(_, first)| FirstSent {
                ttft_gross_ms: first.ttft_gross_ms.filter(|_| !no_gross),
                ttft_net_ms: first.ttft_net_ms.filter(|_| !no_net),
                ..first
            })
        };
        let all = |of: fn(&ClassTally) -> &Counted<u64>| {
            self.classes.values().flat_map(|class| of(class).to_vec()).collect::<Vec<u64>>()
        };
        let disclosed = Disclosed {
            kernel_stamped: self.stamped[0],
            user_stamped: self.stamped[1],
            timed: self.timed,
            dropped: self.dropped,
            first_sent: seen(self.first_sent),
            first_cold: seen(self.first_cold),
            shared_beginnings: shared(self.beginnings),
            cached: self.cached,
            prompt_variation: variation(&mut all(|c| &c.prompt)),
            asked_prompt_variation: variation(&mut all(|c| &c.asked_prompt)),
        };
        let lengths = self.classes.into_iter().map(|(name, class)| (name, class.finish())).collect();
        (disclosed, lengths)
    }
}

impl ClassTally {
    fn finish(self) -> ClassLengths {
        ClassLengths {
            requests: self.requests,
            asked_prompt: TokenCounts::of(&mut self.asked_prompt.to_vec()),
            prompt: TokenCounts::of(&mut self.prompt.to_vec()),
            asked_output: TokenCounts::of(&mut self.asked_output.to_vec()),
            output: TokenCounts::of(&mut self.output.to_vec()),
            length_met: self.length_met,
            prompt_off: LengthDifferences::of(&self.prompts.to_vec()),
        }
    }
}

fn earlier(known: &mut Option<(u64, FirstSent)>, submit: u64, found: FirstSent) {
    if known.is_none_or(|(at, first)| (submit, found.trace_id) < (at, first.trace_id)) {
        *known = Some((submit, found));
    }
}

/// Two beginnings have the same name only if they are the same, but for one chance in 2^80 among 2^24.
fn named(beginning: &str) -> [u8; 16] {
    let mut name = [0; 16];
    name.copy_from_slice(&Sha256::digest(beginning)[..16]);
    name
}

/// How many share their value with another.
fn shared(mut values: Vec<[u8; 16]>) -> u64 {
    values.sort_unstable();
    values.chunk_by(|a, b| a == b).filter(|same| same.len() > 1).map(|same| same.len() as u64).sum()
}

fn add(sum: &mut Option<u64>, tokens: Option<u64>) {
    if let Some(tokens) = tokens {
        *sum = Some(sum.unwrap_or(0).saturating_add(tokens));
    }
}
