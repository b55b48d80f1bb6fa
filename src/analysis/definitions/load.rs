//! When requests occupied a slot, and when their tokens came.

use std::collections::BTreeMap;

use super::{event, moment, per_second, rules, tokens};
use crate::rundir::row::{Outcome, Row};
use crate::workload::nonce::MAX_TRACE_ID;
use crate::workload::sessions::MOST_TURNS;

/// Time a request was in flight, in ns from the campaign's start: submit, of one that was sent again when its first try
/// was taken up, to the end of its body. A censored one runs until the window closed; a failed one without an end runs to
/// its last stamp. None when it was never submitted.
pub fn in_flight(row: &Row, closed: u64) -> Option<(u64, u64)> {
    let submit = row.submit?;
    let from = super::before_last_try(row).map_or(submit, |before| submit - before);
    let end = match (row.end, row.outcome) {
        (Some(end), _) => moment(end),
        (None, Outcome::Censored) => closed,
        (None, _) => last_stamp(row).unwrap_or(submit),
    };
    Some((from, end.max(submit)))
}

/// How long a request that did not complete had been waited for since its last try, in ns: its latency is at least that.
pub fn waited(row: &Row, closed: u64) -> Option<i64> {
    let (_, end) = in_flight(row, closed)?;
    i64::try_from(end - row.submit?).ok()
}

/// The same since it was due.
pub fn waited_since_due(row: &Row, closed: u64) -> Option<i64> {
    let (_, end) = in_flight(row, closed)?;
    i64::try_from(end.saturating_sub(row.due)).ok()
}

/// When each request found a free slot under a cap, in ns; 0 for those that found one unused. `ends` are those of
/// the requests in order of dispatch. Request k starts once all but `cap - 1` of the k before it are over, so it
/// waits for the (k - cap + 1)-th end; ends of later requests cannot be among these.
pub fn slots_free(cap: usize, ends: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut ends: Vec<u64> = ends.collect();
    ends.sort_unstable();
    (0..ends.len()).map(|k| k.checked_sub(cap).map_or(0, |freed| ends[freed])).collect()
}

/// A window, of a closed loop where `closed`, that ended before the `asked_s` that it was to last, since its requests are all
/// that can be told apart: `due` of them, or so many that the next session has more turns than there are numbers left.
pub fn is_used_up(closed: bool, due: u64, lasted_s: f64, asked_s: f64) -> bool {
    let all_but_a_session = MAX_TRACE_ID + 1 - u64::from(MOST_TURNS);
    closed && lasted_s < asked_s && due >= all_but_a_session
}

/// When the prompt counts as read: with the first token, else the last, else the end of the body.
pub fn prompt_read(row: &Row) -> Option<u64> {
    row.first_token.or(row.last_token).or(row.end).map(moment)
}

/// The output tokens of one request over time.
#[derive(Clone, Debug)]
pub struct TokenTrail {
    at: Vec<u64>,
    tokens: Tokens,
}

#[derive(Clone, Debug)]
enum Tokens {
    PerEvent(Vec<u64>),
    /// Known in sum only: spread evenly over the events.
    Sum(u64),
    Unknown,
}

impl TokenTrail {
    /// Token events of a request; one not streamed has its tokens at its last token.
    pub fn of(row: &Row) -> TokenTrail {
        let mut at: Vec<u64> = row.chunks.iter().map(|c| moment(event(c))).collect();
        if at.is_empty() {
            at.extend(row.last_token.map(moment));
        }
        let per_event: Option<Vec<u64>> = row.chunks.iter().map(|c| c.3).collect();
        let known = match (per_event, row.completion_tokens) {
            (Some(counts), _) if !counts.is_empty() => Tokens::PerEvent(counts),
            (_, Some(sum)) => Tokens::Sum(sum),
            (_, None) => Tokens::Unknown,
        };
        TokenTrail { at, tokens: known }
    }

    /// The trail as numbers that are small, or close to the one before, so that many can be kept: see [`TokenTrail::unpack`].
    pub fn pack(&self, mut put: impl FnMut(i64)) {
        put(self.at.len() as i64);
        match &self.tokens {
            Tokens::PerEvent(_) => put(0),
            Tokens::Sum(sum) => [1, sum.cast_signed()].into_iter().for_each(&mut put),
            Tokens::Unknown => put(2),
        }
        let mut last = 0;
        for at in &self.at {
            put(at.wrapping_sub(last).cast_signed());
            last = *at;
        }
        if let Tokens::PerEvent(counts) = &self.tokens {
            counts.iter().for_each(|n| put(n.cast_signed()));
        }
    }

    /// The trail that was packed into these numbers; None at their end.
    pub fn unpack(mut next: impl FnMut() -> Option<i64>) -> Option<TokenTrail> {
        let n = next()?;
        let kind = next()?;
        let sum = if kind == 1 { next()?.cast_unsigned() } else { 0 };
        let mut last = 0_u64;
        let mut moment = || {
            last = last.wrapping_add(next()?.cast_unsigned());
            Some(last)
        };
        let at: Vec<u64> = (0..n).map_while(|_| moment()).collect();
        let tokens = match kind {
            0 => Tokens::PerEvent((0..n).map_while(|_| next().map(i64::cast_unsigned)).collect()),
            1 => Tokens::Sum(sum),
            _ => Tokens::Unknown,
        };
        Some(TokenTrail { at, tokens })
    }

    /// When its token events came, in ns.
    pub fn moments(&self) -> impl Iterator<Item = u64> + '_ {
        self.at.iter().copied()
    }

    /// Tokens of each part of the time, by the place that `part` gives a moment; None when the server told no count.
    pub fn by_part(&self, part: impl Fn(u64) -> i64) -> Option<BTreeMap<i64, f64>> {
        let mut parts: BTreeMap<i64, u64> = BTreeMap::new();
        let mut add = |at: u64, n: u64| {
            let sum = parts.entry(part(at)).or_default();
            *sum = sum.saturating_add(n);
        };
        match &self.tokens {
            _ if self.at.is_empty() => {}
            Tokens::PerEvent(counts) => self.at.iter().zip(counts).for_each(|(at, n)| add(*at, *n)),
            Tokens::Sum(_) => self.at.iter().for_each(|at| add(*at, 1)),
            Tokens::Unknown => return None,
        }
        let share = |n: u64| match &self.tokens {
            Tokens::Sum(sum) => *sum as f64 * n as f64 / self.at.len() as f64,
            _ => n as f64,
        };
        Some(parts.into_iter().map(|(place, n)| (place, share(n))).collect())
    }

    /// Tokens at or after `from` and at or before `to`; None when the server told no count.
    pub fn between(&self, from: u64, to: u64) -> Option<f64> {
        let inside = |t: u64| (from..=to).contains(&t);
        match &self.tokens {
            _ if self.at.is_empty() => Some(0.0),
            Tokens::PerEvent(counts) => {
                let within = self.at.iter().zip(counts).filter(|(t, _)| inside(**t));
                Some(tokens(within.map(|(_, n)| *n)) as f64)
            }
            Tokens::Sum(sum) => {
                let within = self.at.iter().filter(|t| inside(**t)).count();
                Some(*sum as f64 * within as f64 / self.at.len() as f64)
            }
            Tokens::Unknown => None,
        }
    }
}

/// The time over which the rates of a window are held against a calibration, in ns: that of its throughput (at full
/// concurrency, or from the opening to the last due) where it is long enough to have a rate
/// ([`rules::LOAD_SPAN_NS`]), else the whole window.
pub fn rated_span(throughput: Option<(u64, u64)>, opened: u64, closed: u64) -> (u64, u64) {
    let long = |(from, to): &(u64, u64)| to.saturating_sub(*from) >= rules::LOAD_SPAN_NS;
    throughput.filter(long).unwrap_or((opened, closed))
}

/// Moments at or after `from` and before `to`, per s; None over no time.
pub fn rate(moments: impl Iterator<Item = u64>, (from, to): (u64, u64)) -> Option<f64> {
    per_second(moments.filter(|t| (from..to).contains(t)).count() as f64, to.saturating_sub(from))
}

fn last_stamp(row: &Row) -> Option<u64> {
    let events = [row.first_byte, row.first_event, row.last_token, row.done].into_iter().flatten().map(moment);
    events.chain([row.sent, row.wire_out, row.handed].into_iter().flatten()).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_was_sent_again_was_in_flight_from_its_first_try() {
        let mut row = crate::analysis::specimen::request(0, 1_000_000_000);
        let (submit, end) = in_flight(&row, 0).unwrap();
        row.taken = Some(submit - 400_000_000);
        assert_eq!((in_flight(&row, 0), super::super::before_last_try(&row)), (Some((submit, end)), None));
        row.retries = 1;
        assert_eq!(in_flight(&row, 0), Some((submit - 400_000_000, end)));
        assert_eq!(super::super::before_last_try(&row), Some(400_000_000));
        assert_eq!(waited(&row, 0), i64::try_from(end - submit).ok(), "latency is of the last try");
    }

    #[test]
    fn a_rate_is_of_the_time_under_load_where_that_is_long_enough() {
        let second = 1_000_000_000;
        assert_eq!(rated_span(Some((second, 2 * second)), 0, 9 * second), (second, 2 * second));
        assert_eq!(rated_span(Some((second, 2 * second - 1)), 0, 9 * second), (0, 9 * second));
        assert_eq!(rated_span(None, 0, 9), (0, 9));
        assert_eq!(rate([0, 1, second, 2 * second].into_iter(), (1, second)), Some(1e9 / (second - 1) as f64));
        assert_eq!(rate([3].into_iter(), (3, 3)), None);
    }

    #[test]
    fn a_packed_trail_is_the_same() {
        let of = |at: &[u64], tokens| TokenTrail { at: at.to_vec(), tokens };
        let trails = [
            of(&[5, 9, 8, u64::MAX], Tokens::PerEvent(vec![1, 2, 0, u64::MAX])),
            of(&[], Tokens::Sum(7)),
            of(&[3], Tokens::Unknown),
        ];
        let mut numbers = Vec::new();
        trails.iter().for_each(|trail| trail.pack(|n| numbers.push(n)));
        let mut from = numbers.into_iter();
        for trail in trails {
            let again = TokenTrail::unpack(|| from.next()).unwrap();
            assert_eq!(format!("{again:?}"), format!("{trail:?}"));
        }
        assert!(TokenTrail::unpack(|| from.next()).is_none());
    }

    #[test]
    fn a_capped_request_waits_for_the_slot_that_was_freed() {
        // two slots; the third waits for the first end (at 50), the fourth for the second (at 70)
        assert_eq!(slots_free(2, [70, 50, 90, 95].into_iter()), [0, 0, 50, 70]);
    }
}
