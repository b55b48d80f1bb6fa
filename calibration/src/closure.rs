//! Closure: how far a client's gross and net figures are from what the mock really did.
//!
//! Requests are joined with the truth log by nonce. Only differences of stamps of one side are compared, so the
//! two sides need not share a clock: a mock on another host works too, with the way there and back in the error.
//!
//! - Truth of ttft: the first token event left the mock - the request was in. Kernel stamps of the mock where it
//!   has them, else its own readings, which is counted.
//! - Truth of a gap: difference of two consecutive departures, both by kernel stamps, else both by its readings.
//! - Two token events that came in one read have no gap.
//! - gross = tare + upload + net, per request and to the ns; a request's own tare is thus what gross has too much.

use crate::spread::{Errors, Spread};
use crate::truth::TruthRow;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// A request as the client saw it; ns on the client's axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// First word of its prompt, or of a turn's own message; else its `user`.
    pub nonce: String,
    /// Just before the enter that carried its first byte.
    pub submit: u64,
    /// On return of that enter.
    pub handed: u64,
    /// Kernel transmit stamp of its last byte; None when there is none, or when the answer began before the
    /// request was sent to its end: then it has no net.
    pub wire_out: Option<u64>,
    /// A connection was opened for it.
    pub cold: bool,
    /// Its token events in order, of one choice.
    pub tokens: Vec<ObservedToken>,
}

/// A token event as the client saw it; ns on the client's axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObservedToken {
    /// The batch with the read that completed it was reaped.
    pub seen: u64,
    /// Kernel receive stamp of that read.
    pub arrived: Option<u64>,
    /// The earliest it can have arrived.
    pub arrived_lo: Option<u64>,
    /// Which read of this request, from 0.
    pub read_no: u32,
}

/// How far the client was from the truth over one step of load. Errors are client - truth.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Closure {
    /// Requests the client observed.
    pub requests: u64,
    /// Of these, joined with the truth: all figures below are of them.
    pub matched: u64,
    /// Of these, left out because client and mock count different numbers of token events, or none.
    pub mismatched: u64,
    /// Of these, left out because the truth log has no row for them.
    pub observed_without_truth: u64,
    /// Of these, left out because their nonce stands in the truth log, or was observed, more than once.
    pub ambiguous: u64,
    /// Rows of the truth log that the client observed nothing of.
    pub truth_without_observed: u64,
    /// Where the mock's kernel stamps were missing.
    pub truth_from_user: TruthFromUser,
    /// Time to the first token, all matched requests.
    pub ttft: ErrorPair,
    /// Gaps between token events of different reads.
    pub gap: ErrorPair,
    /// Time to the first token where a connection was opened for the request.
    pub cold: ErrorPair,
    /// Time to the first token on connections that were open.
    pub warm: ErrorPair,
    /// gross - truth of time to the first token, with a table of quantiles: the client's own share as the truth has
    /// it, kernel stamps or not.
    pub overhead_us: Spread,
    /// The client's own share of time to the first token.
    pub tare_us: Tare,
    /// Errors of net where it claims to know: a read that swallowed several events has a wide interval instead.
    pub narrow: Narrow,
    /// Truths outside the interval that net claims.
    pub outside: Outside,
    /// written - due of every token event of the matched requests that never waited for the client. It is in the
    /// truth, and so in no error above.
    pub mock_lateness_us: Spread,
}

/// Requests and gaps whose truth is by the mock's own readings, for want of kernel stamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TruthFromUser {
    /// Requests whose first token event has no transmit stamp: `written` stands for it, a little late.
    pub first_token: u64,
    /// Requests without a receive stamp: `rx_user` stands for it, late by the mock's own delay.
    pub request: u64,
    /// Gaps with a transmit stamp missing at either end.
    pub gaps: u64,
}

/// Errors of the two ways to state a figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorPair {
    /// By the harness clock: everything of the client's is in it.
    pub gross_err_us: Errors,
    /// By the client's kernel stamps, where it has them.
    pub net_err_us: Errors,
}

/// The client's own share, in us.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tare {
    /// wire_out - submit - upload, upload being max(0, wire_out - handed).
    pub send: Spread,
    /// First token event: seen - arrived.
    pub receive: Spread,
    /// gross - upload - net of ttft, which is the sum of the two; with a table of quantiles.
    pub total: Spread,
    /// Every token event: seen - arrived.
    pub events: Spread,
}

/// net - truth of the values whose interval is at most this wide.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Narrow {
    /// Widest interval, us: [`NARROW_NS`].
    pub width_us: f64,
    /// Time to the first token.
    pub ttft_err_us: Errors,
    /// Gaps.
    pub gap_err_us: Errors,
}

/// Net's interval is narrow up to this width, ns: below it, only one of its ends is ever printed.
pub const NARROW_NS: i64 = 50_000;

/// How often the truth lies outside `[arrived_lo - wire_out, arrived - wire_out]` (for a gap
/// `[lo - hi before, hi - lo before]`), widened by the uncertainty on either side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outside {
    /// What the interval is widened by, us: the uncertainty of the stamps and the way of the bytes there and back,
    /// which net contains and the truth does not.
    pub uncertainty_us: f64,
    /// Requests with an interval.
    pub ttft_n: u64,
    /// Of these, outside.
    pub ttft: u64,
    /// Of these, above it: the way of the bytes only makes net longer, so a stamp is wrong.
    pub ttft_above: u64,
    /// Gaps with an interval.
    pub gap_n: u64,
    /// Of these, outside.
    pub gap: u64,
    /// Farthest outside the unwidened interval, us; 0 when all lie inside.
    pub farthest_us: f64,
}

/// What of a truth row is needed.
#[derive(Debug)]
struct Truth {
    rx: Option<u64>,
    rx_user: u64,
    blocked: bool,
    events: Vec<TruthEvent>,
}

#[derive(Clone, Copy, Debug)]
struct TruthEvent {
    due: u64,
    written: u64,
    left: Option<u64>,
}

#[derive(Debug)]
enum Entry {
    One(Truth),
    /// Several rows of the log, or already observed: which is which cannot be told.
    Spent {
        rows: u64,
    },
}

/// Differences of one kind of figure, ns.
#[derive(Debug, Default)]
struct Pair {
    gross: Vec<i64>,
    net: Vec<i64>,
}

impl Pair {
    fn push(&mut self, gross: i64, net: Option<i64>) {
        self.gross.push(gross);
        self.net.extend(net);
    }

    fn errors(&self) -> ErrorPair {
        ErrorPair { gross_err_us: Errors::of(&self.gross), net_err_us: Errors::of(&self.net) }
    }
}

/// Joins what the client observed with the truth, request by request. Memory is linear in the number of values.
#[derive(Debug)]
pub struct Joiner {
    truth: HashMap<String, Entry>,
    uncertainty_ns: u64,
    closure: Closure,
    cold: Pair,
    warm: Pair,
    gap: Pair,
    narrow_ttft: Vec<i64>,
    narrow_gap: Vec<i64>,
    send: Vec<i64>,
    receive: Vec<i64>,
    total: Vec<i64>,
    events: Vec<i64>,
    lateness: Vec<i64>,
    farthest_ns: u64,
}

impl Joiner {
    /// With the whole truth log of the step. `uncertainty_ns` widens net's interval, see [`Outside`].
    pub fn new(rows: impl IntoIterator<Item = TruthRow>, uncertainty_ns: u64) -> Joiner {
        let mut truth: HashMap<String, Entry> = HashMap::new();
        for row in rows {
            let events = row.chunks.iter().map(|c| TruthEvent { due: c.due, written: c.written, left: c.left });
            let entry = Truth { rx: row.rx, rx_user: row.rx_user, blocked: row.blocked, events: events.collect() };
            truth
                .entry(row.nonce)
                .and_modify(|e| {
                    let rows = if let Entry::Spent { rows } = e { *rows } else { 1 };
                    *e = Entry::Spent { rows: rows + 1 };
                })
                .or_insert(Entry::One(entry));
        }
        Joiner {
            truth,
            uncertainty_ns,
            closure: Closure::default(),
            cold: Pair::default(),
            warm: Pair::default(),
            gap: Pair::default(),
            narrow_ttft: Vec::new(),
            narrow_gap: Vec::new(),
            send: Vec::new(),
            receive: Vec::new(),
            total: Vec::new(),
            events: Vec::new(),
            lateness: Vec::new(),
            farthest_ns: 0,
        }
    }

    /// Takes in a request that the client counts as answered.
    pub fn observe(&mut self, request: &Observed) {
        self.closure.requests += 1;
        let Some(entry) = self.truth.get_mut(&request.nonce) else {
            self.closure.observed_without_truth += 1;
            return;
        };
        let found = std::mem::replace(entry, Entry::Spent { rows: 0 });
        let Entry::One(truth) = found else {
            self.closure.ambiguous += 1;
            return;
        };
        match (request.tokens.first(), truth.events.first()) {
            (Some(first), Some(first_truth)) if request.tokens.len() == truth.events.len() => {
                self.closure.matched += 1;
                self.first_token(request, *first, &truth, *first_truth);
                self.gaps(request, &truth);
                if !truth.blocked {
                    self.lateness.extend(truth.events.iter().map(|e| span(e.due, e.written)));
                }
            }
            _ => self.closure.mismatched += 1,
        }
    }

    fn first_token(&mut self, request: &Observed, first: ObservedToken, truth: &Truth, event: TruthEvent) {
        self.closure.truth_from_user.first_token += u64::from(event.left.is_none());
        self.closure.truth_from_user.request += u64::from(truth.rx.is_none());
        let true_ttft = span(truth.rx.unwrap_or(truth.rx_user), event.left.unwrap_or(event.written));
        let own = OwnShare::of(request, first);
        let pair = if request.cold { &mut self.cold } else { &mut self.warm };
        pair.push(own.gross - true_ttft, own.net.map(|net| net - true_ttft));
        self.send.extend(own.send);
        self.receive.extend(own.receive);
        self.total.extend(own.tare());
        if let (Some(out), Some(lo), Some(hi)) = (request.wire_out, first.arrived_lo, first.arrived) {
            let (lo, hi) = (span(out, lo), span(out, hi));
            let beyond = beyond(true_ttft, lo, hi);
            self.narrow_ttft.extend((hi - lo <= NARROW_NS).then_some(hi - true_ttft));
            self.closure.outside.ttft_n += 1;
            self.closure.outside.ttft_above += u64::from(beyond > self.uncertainty_ns && true_ttft > hi);
            self.closure.outside.ttft += u64::from(beyond > self.uncertainty_ns);
            self.farthest_ns = self.farthest_ns.max(beyond);
        }
    }

    fn gaps(&mut self, request: &Observed, truth: &Truth) {
        self.events.extend(request.tokens.iter().filter_map(|t| Some(span(t.arrived?, t.seen))));
        let pairs = request.tokens.windows(2).zip(truth.events.windows(2));
        for (seen, left) in pairs.filter(|(seen, _)| seen[0].read_no != seen[1].read_no) {
            let by_kernel = left[0].left.zip(left[1].left);
            self.closure.truth_from_user.gaps += u64::from(by_kernel.is_none());
            let true_gap = by_kernel.map_or_else(|| span(left[0].written, left[1].written), |(a, b)| span(a, b));
            let net = seen[0].arrived.zip(seen[1].arrived).map(|(a, b)| span(a, b));
            self.gap.push(span(seen[0].seen, seen[1].seen) - true_gap, net.map(|net| net - true_gap));
            let ends = |t: &ObservedToken| t.arrived_lo.zip(t.arrived);
            if let (Some((lo_before, hi_before)), Some((lo, hi))) = (ends(&seen[0]), ends(&seen[1])) {
                let (at, lo, hi) = (span(hi_before, hi), span(hi_before, lo), span(lo_before, hi));
                let beyond = beyond(true_gap, lo, hi);
                self.narrow_gap.extend((hi - lo <= NARROW_NS).then_some(at - true_gap));
                self.closure.outside.gap_n += 1;
                self.closure.outside.gap += u64::from(beyond > self.uncertainty_ns);
                self.farthest_ns = self.farthest_ns.max(beyond);
            }
        }
    }

    /// The figures, and net - truth of every time to the first token, ns, so that steps can be taken together.
    pub fn finish(mut self) -> (Closure, Vec<i64>) {
        let left_over = |entry: &Entry| match entry {
            Entry::One(_) => 1,
            Entry::Spent { rows } => *rows,
        };
        let mut ttft = Pair::default();
        for pair in [&self.cold, &self.warm] {
            ttft.gross.extend(&pair.gross);
            ttft.net.extend(&pair.net);
        }
        let closure = Closure {
            truth_without_observed: self.truth.values().map(left_over).sum(),
            overhead_us: Spread::with_table(&mut ttft.gross.clone()),
            ttft: ttft.errors(),
            gap: self.gap.errors(),
            cold: self.cold.errors(),
            warm: self.warm.errors(),
            tare_us: Tare {
                send: Spread::of(&mut self.send),
                receive: Spread::of(&mut self.receive),
                total: Spread::with_table(&mut self.total),
                events: Spread::of(&mut self.events),
            },
            narrow: Narrow {
                width_us: NARROW_NS as f64 / 1e3,
                ttft_err_us: Errors::of(&self.narrow_ttft),
                gap_err_us: Errors::of(&self.narrow_gap),
            },
            outside: Outside {
                uncertainty_us: self.uncertainty_ns as f64 / 1e3,
                farthest_us: self.farthest_ns as f64 / 1e3,
                ..self.closure.outside
            },
            mock_lateness_us: Spread::of(&mut self.lateness),
            ..self.closure
        };
        (closure, ttft.net)
    }
}

/// A request's time to the first token, taken apart; ns.
#[derive(Clone, Copy, Debug)]
struct OwnShare {
    gross: i64,
    upload: Option<i64>,
    net: Option<i64>,
    send: Option<i64>,
    receive: Option<i64>,
}

impl OwnShare {
    fn of(request: &Observed, first: ObservedToken) -> OwnShare {
        let upload = request.wire_out.map(|out| span(request.handed, out).max(0));
        OwnShare {
            gross: span(request.submit, first.seen),
            upload,
            net: request.wire_out.zip(first.arrived).map(|(out, arrived)| span(out, arrived)),
            send: request.wire_out.zip(upload).map(|(out, upload)| span(request.submit, out) - upload),
            receive: first.arrived.map(|arrived| span(arrived, first.seen)),
        }
    }

    fn tare(&self) -> Option<i64> {
        Some(self.gross - self.upload? - self.net?)
    }
}

/// `to - from` in ns; stamps are at most 2^61 apart, or their difference is cut there so that sums stay exact.
fn span(from: u64, to: u64) -> i64 {
    const MOST: i128 = 1 << 61;
    (i128::from(to) - i128::from(from)).clamp(-MOST, MOST) as i64
}

/// How far `x` lies outside `[lo, hi]`.
fn beyond(x: i64, lo: i64, hi: i64) -> u64 {
    (lo.saturating_sub(x)).max(x.saturating_sub(hi)).max(0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::truth::TruthChunk;
    use proptest::prelude::*;

    const US: u64 = 1_000;

    /// Due at the write, written 3 us and left 1 us after it.
    fn truth(nonce: &str, rx: Option<u64>, writes: &[u64]) -> TruthRow {
        let chunk = |at: u64| TruthChunk {
            due: at - 5 * US,
            before_write: at,
            written: at + 3 * US,
            left: Some(at + US),
            bytes: 10,
            tokens: 1,
        };
        TruthRow {
            nonce: nonce.into(),
            model: "m".into(),
            conn: 0,
            peer_port: 1,
            request_no: 0,
            rx,
            rx_user: 1_000_020 * US,
            started: None,
            head_written: None,
            chunks: writes.iter().map(|&at| chunk(at)).collect(),
            done_written: None,
            tokens: writes.len() as u64,
            aborted: false,
            blocked: false,
        }
    }

    fn token(arrived: u64, lo: u64, seen: u64, read_no: u32) -> ObservedToken {
        ObservedToken { seen, arrived: Some(arrived), arrived_lo: Some(lo), read_no }
    }

    /// Sent at 10 (wire 14, handed 12), on the client's axis in us; tokens by arrival, seen 30 us later.
    fn observed(nonce: &str, arrivals: &[u64]) -> Observed {
        let token = |(i, &at): (usize, &u64)| token(at * US, at * US, (at + 30) * US, i as u32);
        Observed {
            nonce: nonce.into(),
            submit: 10 * US,
            handed: 12 * US,
            wire_out: Some(14 * US),
            cold: false,
            tokens: arrivals.iter().enumerate().map(token).collect(),
        }
    }

    fn close(rows: Vec<TruthRow>, requests: &[Observed]) -> Closure {
        let mut joiner = Joiner::new(rows, 2 * US);
        requests.iter().for_each(|r| joiner.observe(r));
        joiner.finish().0
    }

    const RX: u64 = 1_000_000 * US;

    #[test]
    fn a_client_that_is_right_by_its_kernel_and_late_by_its_own_clock() {
        // truth: left 101 us after rx, then gaps of 50 and 80 us
        let row = truth("a", Some(RX), &[RX + 100 * US, RX + 150 * US, RX + 230 * US]);
        // net 103 (2 us of way), gaps 50 and 81; seen 30 us late each
        let found = close(vec![row], &[observed("a", &[117, 167, 248])]);
        assert_eq!((found.requests, found.matched, found.mismatched), (1, 1, 0));
        let ttft = &found.ttft;
        // gross = 147 - 10 = 137
        assert_eq!((ttft.gross_err_us.n, ttft.gross_err_us.max, ttft.gross_err_us.p99), (1, Some(36.0), None));
        assert_eq!((ttft.net_err_us.max, ttft.net_err_us.signed_mean), (Some(2.0), Some(2.0)));
        assert_eq!((found.gap.gross_err_us.n, found.gap.net_err_us.max), (2, Some(1.0)));
        assert_eq!((found.warm.net_err_us.n, found.cold.net_err_us.n), (1, 0));
        // upload 14 - 12; send = 14 - 10 - 2
        let tare = &found.tare_us;
        assert_eq!((tare.send.mean, tare.receive.mean, tare.total.mean), (Some(2.0), Some(30.0), Some(32.0)));
        assert_eq!((tare.events.n, tare.events.max), (3, Some(30.0)));
        assert_eq!(tare.total.quantiles_us.as_ref().map(Vec::len), Some(12));
        assert_eq!((found.outside.ttft_n, found.outside.ttft, found.outside.farthest_us), (1, 0, 2.0));
        assert_eq!((found.outside.gap_n, found.outside.gap), (2, 0));
        assert_eq!((found.mock_lateness_us.n, found.mock_lateness_us.max), (3, Some(8.0)));
        assert_eq!(found.truth_from_user, TruthFromUser::default());
    }

    #[test]
    fn a_truth_outside_nets_interval_is_counted() {
        let row = || truth("a", Some(RX), &[RX + 100 * US]);
        let mut late = observed("a", &[118]); // net 104 against 101: 3 us, beyond the 2 us allowed
        let found = close(vec![row()], &[late.clone()]);
        assert_eq!((found.outside.ttft, found.outside.farthest_us), (1, 3.0));
        assert_eq!(found.outside.ttft_above, 0);
        late.tokens[0].arrived_lo = Some(110 * US); // an interval that says so
        assert_eq!(close(vec![row()], &[late]).outside.ttft, 0);
        // net 98 against 101: no way of bytes explains that
        let early = observed("a", &[112]);
        assert_eq!(close(vec![row()], &[early]).outside.ttft_above, 1);
    }

    #[test]
    fn what_net_does_not_claim_to_know_is_apart() {
        let row = truth("a", Some(RX), &[RX + 100 * US, RX + 150 * US, RX + 200 * US]);
        let mut request = observed("a", &[417, 467, 518]);
        request.tokens[0].arrived_lo = Some(110 * US);
        let found = close(vec![row], &[request]);
        assert_eq!(found.narrow.width_us, 50.0);
        assert_eq!((found.ttft.net_err_us.max, found.narrow.ttft_err_us.n), (Some(302.0), 0));
        // the first gap inherits the width, the second is known
        assert_eq!((found.gap.net_err_us.n, found.narrow.gap_err_us.n), (2, 1));
        assert_eq!(found.narrow.gap_err_us.max, Some(1.0));
    }

    #[test]
    fn events_of_one_read_have_no_gap() {
        let row = truth("a", Some(RX), &[RX + 100 * US, RX + 150 * US, RX + 230 * US]);
        let mut request = observed("a", &[167, 167, 247]);
        request.tokens[1].read_no = 0;
        let found = close(vec![row], &[request]);
        assert_eq!((found.gap.gross_err_us.n, found.gap.net_err_us.max), (1, Some(0.0)));
    }

    #[test]
    fn missing_stamps_are_null_or_counted() {
        let mut no_tx = truth("a", Some(RX), &[RX + 100 * US, RX + 150 * US]);
        no_tx.chunks[0].left = None;
        let no_rx = truth("b", None, &[RX + 100 * US]);
        let mut blind = observed("a", &[119, 167]);
        blind.wire_out = None;
        blind.tokens[1].arrived = None;
        let found = close(vec![no_tx, no_rx], &[blind, observed("b", &[97])]);
        assert_eq!(found.truth_from_user, TruthFromUser { first_token: 1, request: 1, gaps: 1 });
        // a: written 103 after rx; gross 139. b: left 81 after rx_user; net 83
        assert_eq!((found.ttft.gross_err_us.n, found.ttft.net_err_us.n), (2, 1));
        assert_eq!((found.ttft.gross_err_us.max, found.ttft.net_err_us.max), (Some(36.0), Some(2.0)));
        assert_eq!((found.tare_us.send.n, found.tare_us.receive.n, found.tare_us.total.n), (1, 2, 1));
        assert_eq!((found.gap.gross_err_us.n, found.gap.net_err_us.n, found.outside.gap_n), (1, 0, 0));
        // the user's gap: written - written
        assert_eq!(found.gap.gross_err_us.max, Some(2.0));
    }

    #[test]
    fn what_cannot_be_joined_is_counted_and_left_out() {
        let one = |nonce: &str| truth(nonce, Some(RX), &[RX + 100 * US]);
        let rows = vec![one("a"), one("twice"), one("twice"), one("short"), one("unseen"), one("also"), one("also")];
        let requests =
            ["a", "a", "twice", "nowhere"].map(|n| observed(n, &[117])).into_iter().chain([observed("short", &[])]);
        let found = close(rows, &requests.collect::<Vec<_>>());
        assert_eq!((found.requests, found.matched, found.mismatched), (5, 1, 1));
        assert_eq!((found.observed_without_truth, found.ambiguous, found.truth_without_observed), (1, 2, 3));
        assert_eq!(found.ttft.gross_err_us.n, 1);
    }

    #[test]
    fn a_write_that_waited_for_the_client_is_not_the_mocks_lateness() {
        let row = TruthRow { blocked: true, ..truth("a", Some(RX), &[RX + 100 * US]) };
        let found = close(vec![row], &[observed("a", &[117])]);
        assert_eq!((found.matched, found.mock_lateness_us.n), (1, 0));
    }

    #[test]
    fn a_closure_reads_back() {
        let found = close(vec![truth("a", Some(RX), &[RX + 100 * US])], &[observed("a", &[117])]);
        let json = serde_json::to_string(&found).unwrap();
        assert_eq!(serde_json::from_str::<Closure>(&json).unwrap(), found);
    }

    proptest! {
        #[test]
        fn gross_is_tare_and_upload_and_net(
            submit in 0_u64..1 << 60, handed in 0_u64..1_000_000, out in 0_u64..10_000_000,
            arrived in 0_u64..1 << 50, late in 0_u64..1 << 40,
        ) {
            let request = Observed {
                submit, handed: submit + handed, wire_out: Some(submit + out), ..observed("a", &[])
            };
            let first = token(submit + arrived, submit, submit + arrived + late, 0);
            let own = OwnShare::of(&request, first);
            let tare = own.tare().unwrap();
            prop_assert_eq!(own.gross, tare + own.upload.unwrap() + own.net.unwrap());
            prop_assert_eq!(tare, own.send.unwrap() + own.receive.unwrap());
            prop_assert_eq!(own.send.unwrap(), out.min(handed) as i64);
        }

        #[test]
        fn every_request_and_every_row_is_counted_once(
            rows in prop::collection::vec((0_u8..6, 0_usize..3), 0..20), seen in prop::collection::vec((0_u8..6, 0_usize..3), 0..20),
        ) {
            let total = rows.len() as u64;
            let rows: Vec<TruthRow> = rows
                .iter()
                .map(|(n, k)| truth(&n.to_string(), Some(RX), &[RX + 100 * US, RX + 200 * US][..*k]))
                .collect();
            let seen: Vec<Observed> = seen.iter().map(|(n, k)| observed(&n.to_string(), &[117, 217][..*k])).collect();
            let c = close(rows, &seen);
            prop_assert_eq!(c.requests, seen.len() as u64);
            prop_assert_eq!(c.requests, c.matched + c.mismatched + c.observed_without_truth + c.ambiguous);
            prop_assert!(c.matched + c.mismatched + c.truth_without_observed <= total);
            prop_assert_eq!(c.ttft.gross_err_us.n, c.matched);
            prop_assert_eq!(c.ttft.gross_err_us.n, c.cold.gross_err_us.n + c.warm.gross_err_us.n);
        }
    }
}
