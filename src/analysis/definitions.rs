//! The one home of every metric's formula over a [`Row`].
//!
//! Spans are whole ns with a sign; only what is divided by a token count (`tpot`, `tpot_adj`, `ntpot`) is a float,
//! one division of exact integers. What is not defined is None, never 0.
//!
//! **Net is an interval**: the figure `at` is made of `arrived` alone, as the table of metrics has it; `lo` and `hi`
//! are how small and how large it can have been, given `arrived_lo`. Since the send, `hi` is `at`; between two events
//! both ends move: `lo = lo(i) - hi(i-1)`, `hi = hi(i) - lo(i-1)`. The ends are never clamped at zero: a low end below
//! zero says that the stamps could not tell the two events apart, and hiding that would make the interval look
//! narrower than it is.
//!
//! **gross = tare + upload + net** holds to the ns for each request, net being `at`; for differences of two events the
//! send side drops out, and tare is what the second event's delay had more than the first's: it is signed.

pub mod arrivals;
pub mod calibrated;
pub mod curve;
pub mod failure;
pub mod gates;
pub mod goals;
pub mod ids;
pub mod labels;
pub mod load;
pub mod rules;
pub mod server;
pub mod sessions;
pub mod soak;
pub mod steadiness;
#[cfg(test)]
mod tests;
pub mod wording;

use crate::rundir::row::{Chunk, Row, Stamp, StampSource};

/// A net value and its ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Net<T> {
    /// The smallest it can have been.
    pub lo: T,
    /// By `arrived`.
    pub at: T,
    /// The largest it can have been.
    pub hi: T,
}

/// One value in its columns, in ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Columns<T> {
    /// What the harness saw.
    pub gross: Option<T>,
    /// The harness's own share.
    pub tare: Option<T>,
    /// Server and network.
    pub net: Option<Net<T>>,
    /// From when it was due.
    pub due: Option<T>,
}

impl<T> Columns<T> {
    const UNDEFINED: Columns<T> = Columns { gross: None, tare: None, net: None, due: None };
}

/// Time to the first token.
pub fn ttft(row: &Row) -> Columns<i64> {
    since_send(row, row.first_token)
}

/// Time to the first visible answer text.
pub fn ttfo(row: &Row) -> Columns<i64> {
    since_send(row, row.first_answer)
}

/// Time to the last token.
pub fn e2e(row: &Row) -> Columns<i64> {
    since_send(row, row.last_token)
}

/// Each gap of a request, in order: between consecutive token events of one choice that came in different reads.
pub fn gaps(row: &Row) -> impl Iterator<Item = Columns<i64>> + '_ {
    ended_gaps(row).map(|(_, gap)| gap)
}

/// The same, each with the stamps of the event that ended it.
pub fn ended_gaps(row: &Row) -> impl Iterator<Item = (Stamp, Columns<i64>)> + '_ {
    let net_is_open = answered_after_sent(row);
    let mut last_of_choice: Vec<&Chunk> = Vec::new();
    row.chunks.iter().filter_map(move |chunk| {
        let Some(last) = last_of_choice.iter_mut().find(|last| last.5 == chunk.5) else {
            last_of_choice.push(chunk);
            return None;
        };
        let before = std::mem::replace(last, chunk);
        (before.4 != chunk.4).then(|| (event(chunk), difference(event(before), event(chunk), net_is_open)))
    })
}

/// The longest gap, column by column; net only when every gap has one.
pub fn stall(row: &Row) -> Columns<i64> {
    let longest = gaps(row).reduce(|a, b| Columns {
        gross: a.gross.max(b.gross),
        tare: None,
        net: a.net.zip(b.net).map(|(a, b)| Net { lo: a.lo.max(b.lo), at: a.at.max(b.at), hi: a.hi.max(b.hi) }),
        due: None,
    });
    longest.map_or(Columns::UNDEFINED, |c| Columns { tare: signed_tare(c.gross, c.net), ..c })
}

/// Time per output token after the first.
pub fn tpot(row: &Row) -> Columns<f64> {
    between_tokens(row, Some(1))
}

/// Time per output token after those of the first token event.
pub fn tpot_adj(row: &Row) -> Columns<f64> {
    between_tokens(row, row.chunks.first().and_then(|c| c.3))
}

/// End to end, per output token.
pub fn ntpot(row: &Row) -> Columns<f64> {
    match row.completion_tokens.filter(|&n| n > 0 && !several_choices(row)) {
        Some(n) => Columns { due: None, ..per(e2e(row), n) },
        None => Columns::UNDEFINED,
    }
}

/// From the hand-over to the wire.
pub fn upload(row: &Row) -> Option<i64> {
    Some(span(row.handed?, row.wire_out?).max(0))
}

/// First action, from the later of due and the moment the slot was free, in ns. `slot_free` is None where the load
/// model has no slots beside `due` itself: in closed loop `due` is the slot's freeing.
pub fn lateness(due: u64, first_action: u64, slot_free: Option<u64>) -> i64 {
    span(due.max(slot_free.unwrap_or(0)), first_action)
}

/// How long a cap held a request back after it was due, in ns.
pub fn dispatch_delay(due: u64, slot_free: u64) -> i64 {
    span(due, due.max(slot_free))
}

/// The first thing done for a request: the start of its connection where one was opened for it, else submit.
/// Looking a name up is a part of opening. Of a request that was tried again both are the last try's: the first try went out
/// when a worker took it up, and what passed between the two was the server's.
pub fn first_action(row: &Row) -> Option<u64> {
    let opening = [row.dns, row.connect, row.tls].into_iter().flatten().fold(0, u64::saturating_add);
    let action = row.submit?.saturating_sub(opening);
    Some(row.taken.filter(|_| row.retries > 0).map_or(action, |taken| taken.min(action)))
}

/// From the moment a worker took a request up to the submit of its last try, in ns; None of one that was sent once. Gross,
/// tare and net are of the last try: this is in figures from due alone.
pub fn before_last_try(row: &Row) -> Option<u64> {
    Some(row.submit?.saturating_sub(row.taken.filter(|_| row.retries > 0)?))
}

/// Name resolution, when done for this request.
pub fn dns(row: &Row) -> Option<i64> {
    row.dns.map(signed)
}

/// TCP handshake, when done for this request.
pub fn tcp(row: &Row) -> Option<i64> {
    row.connect.map(signed)
}

/// TLS handshake, when done for this request.
pub fn tls(row: &Row) -> Option<i64> {
    row.tls.map(signed)
}

/// Token events that share a read with another one of this request.
pub fn coalesced(row: &Row) -> u64 {
    row.chunks.chunk_by(|a, b| a.4 == b.4).filter(|read| read.len() > 1).map(|read| read.len() as u64).sum()
}

/// Whether a kernel stamp that a net value of this request needs is not there.
pub fn lacks_stamps(row: &Row) -> bool {
    let half = |s: Stamp| s.arrived.is_none() || s.arrived_lo.is_none();
    let events = [row.first_token, row.first_answer, row.last_token].into_iter().flatten();
    row.stamps == StampSource::Kernel
        && answered_after_sent(row)
        && (row.wire_out.is_none() || events.chain(row.chunks.iter().map(event)).any(half))
}

/// When an event was there: in the kernel where that is known, else at the harness.
pub fn moment(stamp: Stamp) -> u64 {
    stamp.arrived.unwrap_or(stamp.seen)
}

/// The stamps of a token event.
pub fn event(chunk: &Chunk) -> Stamp {
    Stamp { seen: chunk.0, arrived: chunk.1, arrived_lo: chunk.2 }
}

/// Relative difference of two windows: `|a - b| / mean(a, b)`. None where the mean is not positive.
pub fn noise_gap(a: f64, b: f64) -> Option<f64> {
    let mean = (a + b) / 2.0;
    (mean > 0.0).then(|| (a - b).abs() / mean)
}

/// Index of dispersion of counts in bins: variance over mean, 1 for a Poisson process, 0 for an even one. None with
/// fewer than two bins, or nothing in them.
pub fn dispersion(counts: &[u64]) -> Option<f64> {
    let n = counts.len() as i128;
    let sum: i128 = counts.iter().map(|&c| i128::from(c)).sum();
    let squares: i128 = counts.iter().map(|&c| i128::from(c) * i128::from(c)).sum();
    (n > 1 && sum > 0).then(|| (n * squares - sum * sum) as f64 / (n * sum) as f64)
}

/// How far the dispersion of what went out is from the schedule's own: as a share of it, or of a Poisson process's
/// where that is larger. An even schedule has nearly none, and a share of nothing would say nothing.
pub fn dispersion_distance(planned: f64, sent: f64) -> f64 {
    (sent - planned).abs() / planned.max(1.0)
}

/// Sum of counts that a server told: it may tell anything.
pub fn tokens(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// ns in s.
pub fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// ns in ms.
pub fn millis(ns: i64) -> f64 {
    ns as f64 / 1e6
}

/// A part of a whole; None of nothing.
pub fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// A count over a span in ns, per s; None over no time.
pub fn per_second(count: f64, ns: u64) -> Option<f64> {
    (ns > 0).then(|| count * 1e9 / ns as f64)
}

/// Whether the answer began only after the request was sent to its last byte: else there is no net.
fn answered_after_sent(row: &Row) -> bool {
    matches!((row.sent, row.first_byte), (Some(sent), Some(byte)) if sent <= byte.seen)
}

fn since_send(row: &Row, event: Option<Stamp>) -> Columns<i64> {
    let Some(event) = event else { return Columns::UNDEFINED };
    let gross = row.submit.map(|submit| span(submit, event.seen));
    let net = row.wire_out.filter(|_| answered_after_sent(row)).and_then(|out| {
        let at = span(out, event.arrived?);
        Some(Net { lo: span(out, event.arrived_lo?), at, hi: at })
    });
    let tare = gross
        .zip(upload(row))
        .zip(net)
        .map(|((gross, upload), net)| gross.saturating_sub(upload).saturating_sub(net.at));
    Columns { gross, tare, net, due: Some(span(row.due, event.seen)) }
}

fn difference(before: Stamp, after: Stamp, net_is_open: bool) -> Columns<i64> {
    let gross = Some(span(before.seen, after.seen));
    // the two events are wrong independently: the shortest is from the latest start to the earliest end
    let interval = || {
        Some(Net {
            lo: span(before.arrived?, after.arrived_lo?),
            at: span(before.arrived?, after.arrived?),
            hi: span(before.arrived_lo?, after.arrived?),
        })
    };
    let net = if net_is_open { interval() } else { None };
    Columns { gross, tare: signed_tare(gross, net), net, due: None }
}

fn signed_tare(gross: Option<i64>, net: Option<Net<i64>>) -> Option<i64> {
    Some(gross?.saturating_sub(net?.at))
}

/// First to last token over `N - first` tokens.
fn between_tokens(row: &Row, first: Option<u64>) -> Columns<f64> {
    let tokens = || row.completion_tokens?.checked_sub(first?).filter(|&n| n > 0);
    let apart = matches!((row.chunks.first(), row.chunks.last()), (Some(a), Some(b)) if a.4 != b.4);
    match (tokens(), row.first_token, row.last_token) {
        (Some(n), Some(a), Some(b)) if apart && !several_choices(row) => {
            per(difference(a, b, answered_after_sent(row)), n)
        }
        _ => Columns::UNDEFINED,
    }
}

fn several_choices(row: &Row) -> bool {
    row.chunks.windows(2).any(|pair| pair[0].5 != pair[1].5)
}

fn per(columns: Columns<i64>, tokens: u64) -> Columns<f64> {
    let divided = |ns: i64| ns as f64 / tokens as f64;
    Columns {
        gross: columns.gross.map(divided),
        tare: columns.tare.map(divided),
        net: columns.net.map(|net| Net { lo: divided(net.lo), at: divided(net.at), hi: divided(net.hi) }),
        due: columns.due.map(divided),
    }
}

fn span(from: u64, to: u64) -> i64 {
    signed(to).saturating_sub(signed(from))
}

fn signed(ns: u64) -> i64 {
    // a hostile or broken file may hold anything; 292 years are enough for the rest
    i64::try_from(ns).unwrap_or(i64::MAX)
}
