//! Everything that is kept of a window while its rows go by.

use std::collections::BTreeMap;

use super::arrivals::{self, Dispatches, Sending, Sendings};
use super::calibrated::Calibration;
use super::columns::{self, Print, Spread, Withheld};
use super::disclosed::DisclosedTally;
use super::failure::{self, Disturbed};
use super::fitness::{self, Signals};
use super::goals::{self, Keeping};
use super::ledger::Ledger;
use super::occupancy::Occupancy;
use super::packed::{Packed, Values};
use super::sessions::SessionTally;
use super::soak::Soaking;
use super::steady::Course;
use super::{Context, SummaryError};
use crate::analysis::definitions::load::{self, TokenTrail};
use crate::analysis::definitions::sessions;
use crate::analysis::definitions::steadiness;
use crate::analysis::definitions::{self, per_second, rules, seconds, share, wording};
use crate::analysis::percentiles::{self, PUBLISHED};
use crate::goals::Goals;
use crate::rundir::mark::MarkRow;
use crate::rundir::row::{Outcome, Phase, Row, StampSource};
use crate::rundir::run_json::{
    AddressShare, ByConn, CalibratedNet, ClientLoad, ConnRow, Connect, Distribution, FirstRequest, FlagCount, Metrics,
    Rates, Requests, Throughput, TokenSums, Verdict, VerdictKind, Window,
};
use crate::rundir::window::{LoadModel, WindowRow};

/// Values of one window.
pub(super) struct WindowTally<'a> {
    bounds: &'a WindowRow,
    rows: u64,
    last_h: String,
    requests: Requests,
    /// By address.
    addresses: BTreeMap<String, AddressShare>,
    tokens: TokenSums,
    flags: BTreeMap<String, FlagCount>,
    finish_reasons: BTreeMap<String, u64>,
    model_echoes: BTreeMap<String, u64>,
    attempts: u64,
    /// Kept requests that were sent again, and the longest time before a last try, in ns.
    sent_again: Option<(u64, u64)>,
    first_requests: Vec<FirstRequest>,
    empty_events: u64,
    lacking_stamps: u64,
    without_kernel: u64,
    chunking: Chunking,
    schedule: Schedule,
    work: Work,
    latency: Latency,
    course: Course,
    ledger: Ledger,
    disclosed: DisclosedTally,
    client_failures: u64,
    keeping: Keeping,
    sessions: SessionTally,
    /// Where something was done on purpose.
    disturbed: Option<Disturbed>,
    /// Of a window that is long enough.
    soaking: Option<Soaking>,
    /// Known or lower bounds of ttft and e2e of requests that timed out or were censored.
    incomplete: Incomplete,
}

/// Token events against tokens and reads.
#[derive(Default)]
struct Chunking {
    events: u64,
    coalesced: u64,
    counted_events: u64,
    counted_tokens: u64,
    uneven: u64,
}

/// When requests were due, and when something was done about it.
#[derive(Default)]
struct Schedule {
    /// What the load model began.
    sendings: Sendings,
    /// Submits of the turns that came when a reply was in.
    answers: Vec<u64>,
    in_flight: Vec<(u64, u64)>,
    dispatched: Vec<Dispatched>,
}

/// In order of dispatch.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Dispatched {
    action: u64,
    end: u64,
    due: u64,
    /// It is kept and ok.
    counts: bool,
    /// By the load model, not by a reply.
    scheduled: bool,
}

/// What the server delivered.
#[derive(Default)]
struct Work {
    ended_ok: Vec<u64>,
    trails: Trails,
    prompts: Vec<(u64, u64)>,
}

/// The token trails of requests, packed.
#[derive(Default)]
pub(super) struct Trails {
    packed: Packed,
}

impl Trails {
    pub(super) fn push(&mut self, trail: &TokenTrail) {
        trail.pack(|number| self.packed.put(number));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = TokenTrail> + '_ {
        let mut reader = self.packed.reader();
        std::iter::from_fn(move || TokenTrail::unpack(|| reader.number()))
    }
}

#[derive(Default)]
struct Incomplete {
    requests: u64,
    ttft: Vec<i64>,
    e2e: Vec<i64>,
    ttft_due: Vec<i64>,
    e2e_due: Vec<i64>,
}

/// Values of ok requests.
#[derive(Default)]
struct Latency {
    classes: Vec<String>,
    ttft: Spread<i64>,
    ttfo: Spread<i64>,
    e2e: Spread<i64>,
    gap: Spread<i64>,
    stall: Spread<i64>,
    tpot: Spread<f64>,
    tpot_adj: Spread<f64>,
    ntpot: Spread<f64>,
    upload: Values<i64>,
    connect: [Values<i64>; 3],
    by_conn: [(u64, Spread<i64>); 3],
    /// All of them one by one, for lower bounds.
    ttft_gross: Values<i64>,
    ttfo_gross: Values<i64>,
    e2e_gross: Values<i64>,
    ttft_due: Values<i64>,
    e2e_due: Values<i64>,
}

impl<'a> WindowTally<'a> {
    pub(super) fn new(bounds: &'a WindowRow, marks: &[MarkRow]) -> Self {
        WindowTally {
            bounds,
            rows: 0,
            last_h: "0".repeat(64),
            requests: Requests::default(),
            addresses: BTreeMap::new(),
            tokens: TokenSums::default(),
            flags: BTreeMap::new(),
            finish_reasons: BTreeMap::new(),
            model_echoes: BTreeMap::new(),
            attempts: 0,
            sent_again: None,
            first_requests: Vec::new(),
            empty_events: 0,
            lacking_stamps: 0,
            without_kernel: 0,
            chunking: Chunking::default(),
            schedule: Schedule::default(),
            work: Work::default(),
            latency: Latency::default(),
            course: Course::default(),
            ledger: Ledger::default(),
            disclosed: DisclosedTally::default(),
            client_failures: 0,
            keeping: Keeping::default(),
            sessions: SessionTally::default(),
            disturbed: Disturbed::by(marks, bounds),
            soaking: Soaking::of(bounds),
            incomplete: Incomplete::default(),
        }
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Requests of which bytes were sent, retries included.
    pub(super) fn attempts(&self) -> u64 {
        self.attempts
    }

    pub(super) fn take(&mut self, row: &Row, h: &str, goals: Option<&Goals>) -> Result<(), SummaryError> {
        self.rows += 1;
        h.clone_into(&mut self.last_h);
        if (row.phase == Phase::Warmup) != (row.trace_id < self.bounds.drop) {
            let text = format!("trace id {} is {:?}, but {} are dropped", row.trace_id, row.phase, self.bounds.drop);
            return Err(SummaryError::counts(self.bounds, text));
        }
        self.requests.due += 1;
        self.client_failures += u64::from(row.error.as_ref().is_some_and(|e| rules::is_client_loss(&e.class)));
        self.disturbed.iter_mut().for_each(|disturbed| disturbed.take(row));
        if let Some(asked) = &self.bounds.load.sessions {
            self.sessions.take(row, asked, self.bounds)?;
        }
        if row.trace_id < rules::FIRST_REQUESTS {
            self.first_requests.push(first_request(row));
        }
        if row.outcome == Outcome::NotSent {
            self.not_sent(row);
            return Ok(());
        }
        self.sent(row);
        match row.phase {
            Phase::Warmup => self.requests.dropped += 1,
            Phase::Measured => {
                self.kept(row);
                if let Some(goals) = goals {
                    self.keeping.take(row, goals, self.bounds);
                }
            }
        }
        Ok(())
    }

    fn not_sent(&mut self, row: &Row) {
        self.requests.not_sent += 1;
        if sessions::is_arrival(row) {
            let unsent = Sending { trace_id: row.trace_id, due: row.due, sent: false, submit: None, wire: None };
            self.schedule.sendings.take(unsent);
        }
        *self.requests.not_sent_reasons.entry(error_class(row)).or_default() += 1;
    }

    /// What counts for the load, warm-up or not.
    fn sent(&mut self, row: &Row) {
        self.requests.sent += 1;
        if let Some(address) = &row.address {
            let empty = || AddressShare { address: address.clone(), requests: 0, ok: 0, connections: 0 };
            let of = self.addresses.entry(address.clone()).or_insert_with(empty);
            of.requests += 1;
            of.ok += u64::from(row.outcome == Outcome::Ok);
            of.connections += u64::from(row.connect.is_some());
        }
        self.attempts += row.submit.map_or(0, |_| 1 + u64::from(row.retries));
        let in_flight = load::in_flight(row, self.bounds.closed);
        self.ledger.take(row);
        self.disclosed.take(row);
        self.soaking.iter_mut().for_each(|soaking| soaking.take(row, self.bounds.closed));
        let schedule = &mut self.schedule;
        let (trace_id, due, submit, wire) = (row.trace_id, row.due, row.submit, row.wire_out);
        match sessions::is_arrival(row) {
            true => schedule.sendings.take(Sending { trace_id, due, sent: true, submit, wire }),
            false => schedule.answers.extend(submit),
        }
        schedule.in_flight.extend(in_flight);
        if let (Some(action), Some((_, end))) = (definitions::first_action(row), in_flight) {
            let counts = row.outcome == Outcome::Ok && row.phase == Phase::Measured;
            let scheduled = !sessions::needs_reply(row);
            schedule.dispatched.push(Dispatched { action, end, due: row.due, counts, scheduled });
        }
        if row.outcome == Outcome::Ok {
            self.work.ended_ok.extend(in_flight.map(|(_, end)| end));
            self.course.take(row, &definitions::ttft(row), &definitions::e2e(row));
        }
        self.work.trails.push(&TokenTrail::of(row));
        self.work.prompts.extend(load::prompt_read(row).zip(row.prompt_tokens));
    }

    fn kept(&mut self, row: &Row) {
        self.requests.kept += 1;
        add(&mut self.tokens.prompt, row.prompt_tokens);
        add(&mut self.tokens.completion, row.completion_tokens);
        add(&mut self.tokens.cached, row.cached_tokens);
        add(&mut self.tokens.reasoning, row.reasoning_tokens);
        self.empty_events += u64::from(row.empty_events);
        self.lacking_stamps += u64::from(definitions::lacks_stamps(row));
        self.without_kernel += u64::from(row.stamps == StampSource::User);
        row.flags.iter().for_each(|flag| self.flag(flag));
        if let Some(before) = definitions::before_last_try(row) {
            let (n, longest) = self.sent_again.unwrap_or_default();
            self.sent_again = Some((n + 1, longest.max(before)));
        }
        match row.outcome {
            Outcome::Ok => self.ok(row),
            Outcome::Failed => self.failed(row),
            Outcome::Censored | Outcome::NotSent => {
                self.requests.censored += 1;
                self.incomplete.take(row, self.bounds.closed);
            }
        }
    }

    fn flag(&mut self, flag: &str) {
        let (name, count) = flag.split_once('=').unwrap_or((flag, "1"));
        let entry = self.flags.entry(name.into()).or_default();
        entry.requests += 1;
        entry.total = entry.total.saturating_add(count.parse().unwrap_or(1));
    }

    fn failed(&mut self, row: &Row) {
        self.requests.failed += 1;
        let class = error_class(row);
        if class == rules::TIMEOUT_CLASS {
            self.incomplete.take(row, self.bounds.closed);
        }
        *self.requests.by_error.entry(class).or_default() += 1;
    }

    fn ok(&mut self, row: &Row) {
        self.requests.ok += 1;
        let reason = row.finish_reason.clone().unwrap_or_else(|| "none".into());
        *self.finish_reasons.entry(reason).or_default() += 1;
        row.model_echo.iter().for_each(|model| *self.model_echoes.entry(model.clone()).or_default() += 1);
        self.chunking.take(row);
        self.latency.take(row);
    }

    pub(super) fn finish(mut self, context: &Context) -> Result<Window, SummaryError> {
        self.check()?;
        let bounds = self.bounds;
        let occupancy = Occupancy::of(&self.schedule.in_flight, bounds.opened, bounds.closed);
        let asked = bounds.load.sessions.as_ref();
        // users who think are users at once all the same
        let users = asked.map(|asked| self.sessions.end(asked, bounds));
        let full = bounds.load.concurrency.map(|c| c as usize);
        let mut in_flight = occupancy.figures(full);
        if let (Some(users), LoadModel::Closed) = (&users, bounds.load.model) {
            in_flight.full_share = users.figures(full).full_share;
        }
        let (offered_rps, achieved_rps) = self.schedule.sendings.rates(bounds);
        let (late, dispatches) = self.schedule.lateness(bounds);
        let mut client = context.health.client(bounds);
        let calibration = context.calibration.as_ref();
        let throughput_span = self.throughput_span(users.as_ref().unwrap_or(&occupancy));
        client.load = self.load(throughput_span, in_flight.max);
        let events_per_s = client.load.events_per_s;
        client.calibrated = calibration.zip(events_per_s).and_then(|(c, rate)| c.tare(rate));
        let ttft_p99_ms = percentiles::figures(&mut self.latency.ttft_gross.to_vec()).and_then(|f| f.percentiles_ms[3]);
        let signals = Signals {
            bounds,
            user_stamps: self.user_stamps(),
            stamps_missing: share(self.stamps_missing(), self.requests.kept),
            lateness: late.values.clone(),
            turnaround: self.sessions.judged(),
            dispersion: self.schedule.sendings.dispersion(bounds, rules::ARRIVAL_BIN_NS),
            rates: (offered_rps, achieved_rps),
            cap_in_words: self.schedule.sendings.cap_in_words(bounds, &dispatches),
            net_width: self.latency.ttft.widest(),
            ttft_p99_ms,
            calibration,
            client_failures: self.client_failures,
            ledger: &self.ledger,
        };
        fitness::judge(signals, &mut client);
        let withheld = Withheld {
            gross: fitness::voids(&client.gates, "gross"),
            due: fitness::voids(&client.gates, "due"),
            net: fitness::voids(&client.gates, "net"),
            gaps: false,
        };
        let mut verdicts = Vec::new();
        let withheld = self.judge(context.max_failed, withheld, &mut verdicts);
        let throughput = self.throughput(throughput_span);
        if throughput.uncounted_requests > 0 {
            let n = throughput.uncounted_requests;
            verdicts.push(verdict("tokens", "*", VerdictKind::Flag, Some(n as f64), wording::tokens_unknown(n)));
        }
        if let Some((n, longest)) = self.sent_again {
            let text = wording::sent_again(n, self.requests.kept, longest);
            verdicts.push(verdict("*", "*", VerdictKind::Flag, Some(n as f64), text));
        }
        verdicts.extend(fitness::verdicts(&client.gates));
        let arrivals = self.schedule.sendings.figures(bounds, &context.laws, dispatches);
        verdicts.extend(arrivals.iter().flat_map(arrivals::verdicts));
        let calibrated = match (calibration, events_per_s) {
            (Some(c), Some(rate)) if self.user_stamps() && !withheld.gross => self.latency.calibrated(c, rate),
            _ => [None; 3],
        };
        // what starts with the send is counted from due in open loop
        let from_send = withheld.gross || (withheld.due && bounds.load.model != LoadModel::Closed);
        let good = context.goals.as_ref().is_some_and(|goals| !goals.request.is_empty()).then(|| self.keeping.ended());
        let seen = failure::Seen {
            span: throughput_span,
            ended_ok: &self.work.ended_ok,
            good,
            trails: &self.work.trails,
            no_gross: from_send,
        };
        let (failure, recovery) = failure::of(self.disturbed.as_ref(), &seen);
        // what is not needed any more makes room for the columns
        drop((self.work, self.ledger, self.schedule, occupancy));
        let (mut metrics, by_conn) = self.latency.print(withheld, &mut verdicts);
        (metrics.lateness, metrics.dispatch_delay) = late.print();
        [metrics.ttft.calibrated, metrics.ttfo.calibrated, metrics.e2e.calibrated] = calibrated;
        let sessions = asked.zip(users.as_ref()).map(|(asked, users)| {
            verdicts.push(verdict("*", "*", VerdictKind::Flag, None, wording::turns_hang_together()));
            let led_by = bounds.load.concurrency.filter(|_| bounds.load.model == LoadModel::Closed);
            std::mem::take(&mut self.sessions).print((led_by, asked), users, withheld, &mut verdicts)
        });
        let turnaround_p99_ms = sessions.as_ref().and_then(|found| found.turnaround.as_ref()?.p99_ms);
        let late_p99_ms = metrics.lateness.as_ref().and_then(|late| late.p99_ms);
        let void = fitness::voiding(&client.gates, "net").map(|gate| gate.gate.as_str());
        let over_time = Withheld { net: steadiness::net_is_lost(void, late_p99_ms, turnaround_p99_ms), ..withheld };
        let steady = self.course.judge(bounds, over_time, &mut verdicts);
        let soak =
            self.soaking.map(|soaking| soaking.finish(bounds, &context.health, &metrics, &throughput, &mut verdicts));
        for first in &mut self.first_requests {
            first.ttft_gross_ms = first.ttft_gross_ms.filter(|_| !withheld.gross);
            first.ttft_net_ms = first.ttft_net_ms.filter(|_| !withheld.net);
        }
        self.first_requests.sort_by_key(|r| r.trace_id);
        let goals = context.goals.as_ref().map(|asked| {
            let found = goals::Found {
                bounds,
                requests: &self.requests,
                throughput: &throughput,
                span: throughput_span,
                metrics: &metrics,
                sessions: sessions.as_ref(),
                no_gross: from_send,
                recovery,
            };
            self.keeping.print(asked, &found)
        });
        let ok = self.requests.ok;
        verdicts.extend(context.model.as_deref().and_then(|asked| other_model(&self.model_echoes, ok, asked)));
        let (disclosed, lengths) = self.disclosed.finish(withheld.gross, withheld.net);
        Ok(Window {
            window: bounds.window,
            duration_s: seconds(bounds.closed.saturating_sub(bounds.opened)),
            offered_rps,
            achieved_rps,
            arrivals,
            in_flight,
            tokens: self.tokens,
            throughput,
            metrics,
            by_conn,
            addresses: self.addresses.into_values().collect(),
            client,
            verdicts,
            steady,
            first_requests: self.first_requests,
            tokens_per_event: share(self.chunking.counted_tokens, self.chunking.counted_events),
            one_token_per_event: (self.chunking.counted_events > 0).then_some(self.chunking.uneven == 0),
            empty_events: self.empty_events,
            coalesced_share: share(self.chunking.coalesced, self.chunking.events),
            finish_reasons: self.finish_reasons.into_iter().filter_map(|(r, n)| Some((r, share(n, ok)?))).collect(),
            flags: self.flags,
            model_echoes: self.model_echoes,
            server: None,
            interrupted: bounds.interrupted,
            goals,
            failure,
            sessions,
            trace_hash: bounds.trace_hash.clone(),
            lengths,
            disclosed,
            soak,
            requests: self.requests,
        })
    }

    /// The sums of the counts, and what the window's own line says of its rows.
    fn check(&self) -> Result<(), SummaryError> {
        let (r, bounds) = (&self.requests, self.bounds);
        let failures: u64 = r.by_error.values().sum();
        let sums = [
            (self.rows, bounds.rows, "rows in requests.jsonl, rows in windows.jsonl"),
            (r.due, r.not_sent + r.sent, "due, not_sent + sent"),
            (r.sent, r.dropped + r.kept, "sent, dropped + kept"),
            (r.kept, r.ok + r.failed + r.censored, "kept, ok + failed + censored"),
            (r.failed, failures, "failed, sum over classes"),
        ];
        if let Some((a, b, names)) = sums.into_iter().find(|(a, b, _)| a != b) {
            return Err(SummaryError::counts(bounds, format!("{names}: {a}, {b}")));
        }
        if self.last_h != bounds.last_h {
            let text = format!("last_h is {}, its last row has {}", bounds.last_h, self.last_h);
            return Err(SummaryError::counts(bounds, text));
        }
        Ok(())
    }

    /// All kept requests, and there is one, have user stamps only.
    fn user_stamps(&self) -> bool {
        self.without_kernel > 0 && self.without_kernel == self.requests.kept
    }

    /// Kept requests without a stamp that they need.
    fn stamps_missing(&self) -> u64 {
        // beside requests that have them, requests without kernel stamps are a loss like any other
        self.lacking_stamps + if self.user_stamps() { 0 } else { self.without_kernel }
    }

    /// What the client had to do; the bursts are not known yet.
    fn load(&self, throughput: Option<(u64, u64)>, streams: u64) -> ClientLoad {
        let span = load::rated_span(throughput, self.bounds.opened, self.bounds.closed);
        ClientLoad {
            requests_per_s: load::rate(self.schedule.submits(), span),
            events_per_s: load::rate(
                self.work.trails.iter().flat_map(|trail| trail.moments().collect::<Vec<_>>()),
                span,
            ),
            streams,
            burst: None,
        }
    }

    /// Verdicts on the window as a whole, and what they forbid beside the gates.
    fn judge(&self, max_failed: f64, mut withheld: Withheld, verdicts: &mut Vec<Verdict>) -> Withheld {
        let (failed, kept) = (self.requests.failed, self.requests.kept);
        if let Some(found) = share(failed, kept).filter(|s| *s > max_failed) {
            let text = wording::too_many_failed(failed, kept, found, max_failed);
            verdicts.push(verdict("requests", "failed", VerdictKind::Failed, Some(found), text));
        }
        if self.user_stamps() {
            verdicts.push(verdict("*", "net", VerdictKind::Withheld, Some(1.0), wording::no_kernel_stamps()));
        }
        let missing = self.stamps_missing();
        if let Some(found) = share(missing, kept).filter(|s| *s > rules::STAMPS_MISSING) {
            let text = wording::stamps_missing(missing, kept, found);
            verdicts.push(verdict("*", "net", VerdictKind::Withheld, Some(found), text));
        }
        if let Some(found) = share(self.incomplete.requests, kept).filter(|s| *s > rules::OF_COMPLETED) {
            verdicts.push(verdict("*", "*", VerdictKind::Flag, Some(found), wording::of_completed(found)));
            // a bound is made of gross values too
            if !withheld.gross {
                let (latency, cut) = (&self.latency, &self.incomplete);
                verdicts.extend(lower_bounds("ttft", "gross", latency.ttft_gross.iter(), &cut.ttft));
                verdicts.extend(lower_bounds("e2e", "gross", latency.e2e_gross.iter(), &cut.e2e));
                if self.bounds.load.model != LoadModel::Closed && !withheld.due {
                    verdicts.extend(lower_bounds("ttft", "due", latency.ttft_due.iter(), &cut.ttft_due));
                    verdicts.extend(lower_bounds("e2e", "due", latency.e2e_due.iter(), &cut.e2e_due));
                }
            }
        }
        let coalesced = share(self.chunking.coalesced, self.chunking.events);
        if let Some(found) = coalesced.filter(|s| *s >= rules::COALESCED_FLAG) {
            withheld.gaps = found >= rules::COALESCED_WITHHELD;
            let kind = if withheld.gaps { VerdictKind::Withheld } else { VerdictKind::Flag };
            verdicts.push(verdict("gap", "*", kind, Some(found), wording::coalesced(found, withheld.gaps)));
        }
        withheld
    }

    fn throughput_span(&self, occupancy: &Occupancy) -> Option<(u64, u64)> {
        match (self.bounds.load.model, self.bounds.load.concurrency) {
            (LoadModel::Closed, Some(level)) => occupancy.at_least((level as usize).max(1)),
            _ => self.schedule.sendings.span(self.bounds),
        }
    }

    fn throughput(&self, span: Option<(u64, u64)>) -> Throughput {
        let bounds = self.bounds;
        let rates = span.map(|(from, to)| self.work.rates(from, to)).unwrap_or_default();
        let since_opening = |t: u64| seconds(t.saturating_sub(bounds.opened));
        Throughput {
            from_s: span.map(|s| since_opening(s.0)),
            to_s: span.map(|s| since_opening(s.1)),
            requests_per_s: rates.requests_per_s,
            output_tokens_per_s: rates.output_tokens_per_s,
            total_tokens_per_s: rates.total_tokens_per_s,
            uncounted_requests: self.work.uncounted(),
            whole: self.work.rates(bounds.opened, bounds.closed),
        }
    }
}

impl Work {
    fn rates(&self, from: u64, to: u64) -> Rates {
        let inside = |t: &u64| (from..=to).contains(t);
        let span = to.saturating_sub(from);
        let requests = self.ended_ok.iter().filter(|t| inside(t)).count();
        let mut counts: Vec<f64> = self.trails.iter().filter_map(|trail| trail.between(from, to)).collect();
        let output = (!counts.is_empty()).then(|| percentiles::sum(&mut counts));
        let prompts = definitions::tokens(self.prompts.iter().filter(|(t, _)| inside(t)).map(|(_, n)| *n));
        let total = output.filter(|_| !self.prompts.is_empty()).map(|output| output + prompts as f64);
        Rates {
            requests_per_s: per_second(requests as f64, span),
            output_tokens_per_s: output.and_then(|n| per_second(n, span)),
            total_tokens_per_s: total.and_then(|n| per_second(n, span)),
        }
    }

    fn uncounted(&self) -> u64 {
        self.trails.iter().filter(|trail| trail.between(0, 0).is_none()).count() as u64
    }
}

/// Lateness of the ok requests with their due, and delay, in ns.
#[derive(Default)]
struct Late {
    values: Vec<(u64, i64)>,
    delays: Vec<i64>,
}

impl Late {
    fn print(self) -> (Option<Distribution>, Option<Distribution>) {
        (columns::single(self.values.iter().map(|(_, ns)| *ns)), columns::single(self.delays))
    }
}

impl Schedule {
    fn submits(&self) -> impl Iterator<Item = u64> + '_ {
        self.sendings.submits().chain(self.answers.iter().copied())
    }

    /// Lateness and delay of the ok requests, and of all that were tried, once all ends are known.
    fn lateness(&mut self, bounds: &WindowRow) -> (Late, Dispatches) {
        self.dispatched.sort_unstable();
        let cap = bounds.load.concurrency.filter(|_| bounds.load.model != LoadModel::Closed);
        let free = cap.map(|cap| load::slots_free(cap as usize, self.dispatched.iter().map(|d| d.end)));
        let end = self.sendings.span(bounds).map(|(_, end)| end);
        let mut late = Late::default();
        let mut all = Dispatches { delays: free.as_ref().map(|_| Vec::new()), ..Dispatches::default() };
        for (k, d) in self.dispatched.iter().enumerate().filter(|(_, d)| d.scheduled) {
            let slot = free.as_ref().map(|free| free[k]);
            let lateness = definitions::lateness(d.due, d.action, slot);
            let delay = slot.map(|slot| definitions::dispatch_delay(d.due, slot));
            all.lateness.push(lateness);
            all.delays.iter_mut().for_each(|delays| delays.extend(delay));
            all.past_end += u64::from(end.is_some_and(|end| d.due < end && slot >= Some(end)));
            if d.counts {
                late.values.push((d.due, lateness));
                late.delays.extend(delay);
            }
        }
        (late, all)
    }
}

impl Chunking {
    fn take(&mut self, row: &Row) {
        self.events += row.chunks.len() as u64;
        self.coalesced += definitions::coalesced(row);
        let events = u64::from(row.token_events);
        if let Some(tokens) = row.completion_tokens.filter(|_| events > 0) {
            self.counted_events += events;
            self.counted_tokens = self.counted_tokens.saturating_add(tokens);
            self.uneven += u64::from(tokens != events);
        }
    }
}

impl Incomplete {
    fn take(&mut self, row: &Row, closed: u64) {
        self.requests += 1;
        let waited = load::waited(row, closed);
        self.ttft.extend(definitions::ttft(row).gross.or(waited));
        self.e2e.extend(waited);
        let since_due = load::waited_since_due(row, closed);
        self.ttft_due.extend(definitions::ttft(row).due.or(since_due));
        self.e2e_due.extend(since_due);
    }
}

/// A percentile over completed and incomplete requests, these at the time they were waited for, can only be too low.
fn lower_bounds(metric: &str, column: &str, completed: impl Iterator<Item = i64>, incomplete: &[i64]) -> Vec<Verdict> {
    let mut all: Vec<i64> = completed.chain(incomplete.iter().copied()).collect();
    let Some(found) = percentiles::figures(&mut all) else { return Vec::new() };
    let bounds = PUBLISHED.iter().zip(found.percentiles_ms);
    let bound = |(p, ms): (&percentiles::Percentile, Option<f64>)| {
        let flag = verdict(metric, column, VerdictKind::Flag, ms, wording::lower_bound(ms?));
        Some(Verdict { percentile: Some(p.name.into()), ..flag })
    };
    bounds.filter_map(bound).collect()
}

impl Latency {
    fn take(&mut self, row: &Row) {
        let class = self.class(&row.class);
        let ttft = definitions::ttft(row);
        let ttfo = definitions::ttfo(row);
        let e2e = definitions::e2e(row);
        self.ttfo_gross.extend(ttfo.gross);
        self.ttft_gross.extend(ttft.gross);
        self.e2e_gross.extend(e2e.gross);
        self.ttft_due.extend(ttft.due);
        self.e2e_due.extend(e2e.due);
        self.ttft.push(class, ttft);
        self.e2e.push(class, e2e);
        definitions::gaps(row).for_each(|gap| self.gap.push(class, gap));
        self.gap.close(class, row.trace_id);
        self.ttfo.push(0, ttfo);
        self.stall.push(0, definitions::stall(row));
        self.tpot.push(0, definitions::tpot(row));
        self.tpot_adj.push(0, definitions::tpot_adj(row));
        self.ntpot.push(0, definitions::ntpot(row));
        self.upload.extend(definitions::upload(row));
        let parts = [definitions::dns(row), definitions::tcp(row), definitions::tls(row)];
        self.connect.iter_mut().zip(parts).for_each(|(values, part)| values.extend(part));
        let (n, spread) = &mut self.by_conn[conn_state(row)];
        *n += 1;
        spread.push(0, ttft);
    }

    fn class(&mut self, name: &str) -> usize {
        self.classes.iter().position(|c| c == name).unwrap_or_else(|| {
            self.classes.push(name.into());
            self.classes.len() - 1
        })
    }

    /// Net of ttft, ttfo and e2e without stamps of their own.
    fn calibrated(&self, calibration: &Calibration, events_per_s: f64) -> [Option<CalibratedNet>; 3] {
        [&self.ttft_gross, &self.ttfo_gross, &self.e2e_gross]
            .map(|gross| calibration.net(events_per_s, &mut gross.to_vec()))
    }

    fn print(self, withheld: Withheld, verdicts: &mut Vec<Verdict>) -> (Metrics, ByConn) {
        let since = |metric| Print { metric, two_ended: false, classes: &[], withheld };
        let apart = |metric| Print { metric, two_ended: true, classes: &[], withheld };
        let classes = &self.classes;
        let [dns, tcp, tls] = self.connect;
        let metrics = Metrics {
            ttft: self.ttft.with_due(&Print { classes, ..since("ttft") }, verdicts),
            ttfo: self.ttfo.with_due(&since("ttfo"), verdicts),
            e2e: self.e2e.with_due(&Print { classes, ..since("e2e") }, verdicts),
            gap: self.gap.between(&Print { classes, ..apart("gap") }, verdicts),
            stall: self.stall.between(&apart("stall"), verdicts),
            tpot: self.tpot.between(&apart("tpot"), verdicts),
            tpot_adj: self.tpot_adj.between(&apart("tpot_adj"), verdicts),
            ntpot: self.ntpot.between(&since("ntpot"), verdicts),
            upload: columns::single(self.upload.iter()),
            lateness: None,
            dispatch_delay: None,
            connect: Connect {
                dns: columns::single(dns.iter()),
                tcp: columns::single(tcp.iter()),
                tls: columns::single(tls.iter()),
            },
        };
        let [warm, cold, reopened] = self.by_conn;
        let mut row =
            |name, (n, spread): (u64, Spread<i64>)| ConnRow { n, ttft: spread.between(&since(name), verdicts) };
        let by_conn = ByConn {
            warm: row("ttft@warm", warm),
            cold: row("ttft@cold", cold),
            reopened: row("ttft@reopened", reopened),
        };
        (metrics, by_conn)
    }
}

/// 0 warm, 1 cold, 2 reopened.
fn conn_state(row: &Row) -> usize {
    match row.conn_reused {
        true => 0,
        false if row.flags.iter().any(|f| f == "reopened") => 2,
        false => 1,
    }
}

fn first_request(row: &Row) -> FirstRequest {
    let ttft = definitions::ttft(row);
    FirstRequest {
        trace_id: row.trace_id,
        outcome: row.outcome,
        ttft_gross_ms: ttft.gross.map(definitions::millis),
        ttft_tare_ms: ttft.tare.map(definitions::millis),
        ttft_net_ms: ttft.net.map(|net| definitions::millis(net.at)),
    }
}

fn error_class(row: &Row) -> String {
    row.error.as_ref().map_or_else(|| "unnamed".into(), |e| e.class.clone())
}

fn add(sum: &mut Option<u64>, tokens: Option<u64>) {
    if let Some(tokens) = tokens {
        *sum = Some(sum.unwrap_or(0).saturating_add(tokens));
    }
}

/// Answers in another name than the one that was asked for.
fn other_model(echoes: &BTreeMap<String, u64>, ok: u64, asked: &str) -> Option<Verdict> {
    let others: Vec<(&String, &u64)> = echoes.iter().filter(|(name, _)| *name != asked).collect();
    let ((first, _), answers) = (others.first()?, others.iter().map(|(_, n)| **n).sum::<u64>());
    let text = wording::other_model(answers, ok, first, others.len() - 1, asked);
    Some(verdict("model", "*", VerdictKind::Flag, Some(answers as f64), text))
}

pub(super) fn verdict(metric: &str, column: &str, kind: VerdictKind, figure: Option<f64>, text: String) -> Verdict {
    Verdict { metric: metric.into(), column: column.into(), percentile: None, kind, figure, text }
}
