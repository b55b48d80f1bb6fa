//! The figures of one window, from all of its rows at once.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::arrivals::{self, Course, Times};
use super::calibrated;
use super::client::Samples;
use super::disclosed;
use super::distributions::{Forbidden, Metric, distribution};
use super::failure;
use super::gates::{self, Evidence};
use super::goals::Judged;
use super::max_failed;
use super::raw::number;
use super::server;
use super::sessions;
use super::soak;
use super::steady::{self, Bounds};
use crate::analysis::definitions::load::{self, TokenTrail};
use crate::analysis::definitions::sessions::{could_go_out, is_arrival, needs_reply, turnaround};
use crate::analysis::definitions::steadiness;
use crate::analysis::definitions::{self, Columns, per_second, rules, seconds, share, wording};
use crate::analysis::percentiles::{self, PUBLISHED, Sample};
use crate::rundir::row::{Outcome, Phase, Row, StampSource};

/// One window under recomputation.
struct Recount<'a> {
    line: &'a Value,
    rows: &'a [Row],
    sent: Vec<&'a Row>,
    kept: Vec<&'a Row>,
    ok: Vec<&'a Row>,
    /// What the load model began: no answer to a reply.
    arrivals: Vec<&'a Row>,
    opened: u64,
    closed: u64,
}

/// A metric that starts with the send.
type SinceSend = fn(&Row) -> Columns<i64>;

/// The window object of `run.json`.
pub(super) fn figures(line: &Value, rows: &[Row], health: &Samples, marks: &[Value], plan: &Value) -> Value {
    let sent: Vec<&Row> = rows.iter().filter(|r| r.outcome != Outcome::NotSent).collect();
    let kept: Vec<&Row> = sent.iter().copied().filter(|r| r.phase == Phase::Measured).collect();
    let ok = kept.iter().copied().filter(|r| r.outcome == Outcome::Ok).collect();
    let (opened, closed) = (number(line, "opened"), number(line, "closed"));
    let arrivals = rows.iter().filter(|r| is_arrival(r)).collect();
    let recount = Recount { line, rows, sent, kept, ok, arrivals, opened, closed };
    let (mut window, addresses) = (recount.window(health, marks, plan), recount.addresses());
    if let (Value::Object(fields), false) = (&mut window, addresses.is_empty()) {
        let at = fields.keys().position(|key| key == "client").unwrap_or(fields.len());
        fields.shift_insert(at, "addresses".to_owned(), addresses.into());
    }
    window
}

impl Recount<'_> {
    /// Requests, ok ones and opened connections of each address that rows name.
    fn addresses(&self) -> Vec<Value> {
        let mut names: Vec<&str> = self.sent.iter().filter_map(|r| r.address.as_deref()).collect();
        names.sort_unstable();
        names.dedup();
        let of = |name: &str| {
            let here: Vec<&&Row> = self.sent.iter().filter(|r| r.address.as_deref() == Some(name)).collect();
            json!({
                "address": name,
                "requests": here.len(),
                "ok": here.iter().filter(|r| r.outcome == Outcome::Ok).count(),
                "connections": here.iter().filter(|r| r.connect.is_some()).count(),
            })
        };
        names.into_iter().map(of).collect()
    }

    fn window(&self, health: &Samples, marks: &[Value], plan: &Value) -> Value {
        let calibration = calibrated::matching(plan);
        let in_flight = self.in_flight();
        let rated = load::rated_span(self.throughput_bounds(), self.opened, self.closed);
        let submits = self.sent.iter().filter_map(|r| r.submit);
        let trails: Vec<TokenTrail> = self.sent.iter().map(|r| TokenTrail::of(r)).collect();
        let rate = load::rate(trails.iter().flat_map(TokenTrail::moments), rated);
        let (offered, achieved) = self.rates();
        let mut client = health.client(self.line);
        client["load"] = json!({
            "requests_per_s": load::rate(submits, rated),
            "events_per_s": rate,
            "streams": in_flight["max"],
            "burst": null,
        });
        client["calibrated"] = calibrated::tare(calibration, rate);
        let dispatched = self.dispatched();
        let dispatched: Vec<_> = dispatched.iter().map(|(times, slot, _)| (*times, *slot)).collect();
        let sent_arrivals: Vec<&Row> = self.sent.iter().copied().filter(|r| is_arrival(r)).collect();
        let course = Course {
            line: self.line,
            rows: &self.arrivals,
            sent: &sent_arrivals,
            end: self.arrivals_end(),
            rates: (offered, achieved),
            dispatched: &dispatched,
        };
        let evidence = Evidence {
            line: self.line,
            sent: &self.sent,
            ok: &self.ok,
            not_sent: self.rows.iter().filter(|r| r.outcome == Outcome::NotSent).collect(),
            user_stamps: self.all_user(),
            stamps_missing: share(self.stamps_missing(), self.kept.len() as u64),
            lateness: self.late(),
            turnaround: self.turnaround(),
            dispersion: course.dispersion(rules::ARRIVAL_BIN_NS).1,
            rates: (offered, achieved),
            cap_in_words: course.cap_in_words(),
            calibration,
        };
        evidence.complete(&mut client);
        let no_gross = gates::withhold(&client, "gross");
        let mut verdicts = Vec::new();
        let no_due = gates::withhold(&client, "due");
        let no_gaps = self.judge(max_failed(plan), no_gross, no_due, &mut verdicts);
        let no_net = gates::withhold(&client, "net");
        let forbidden = Forbidden { gross: no_gross, due: no_due, net: no_net, percentiles: no_gaps };
        // what starts with the send is counted from due in open loop
        let from_send = if self.closed_loop() { no_gross } else { no_gross || no_due };
        let throughput = self.throughput();
        if let Some(n) = throughput["uncounted_requests"].as_u64().filter(|n| *n > 0) {
            verdicts.push(verdict("tokens", "*", None, "flag", Some(n as f64), &wording::tokens_unknown(n)));
        }
        let again: Vec<u64> = self.kept.iter().filter_map(|row| definitions::before_last_try(row)).collect();
        if let Some(longest) = again.iter().max() {
            let (n, kept) = (again.len() as u64, self.kept.len() as u64);
            verdicts.push(verdict("*", "*", None, "flag", Some(n as f64), &wording::sent_again(n, kept, *longest)));
        }
        verdicts.extend(gates::verdicts(&client));
        let arrivals = course.figures(plan);
        verdicts.extend(arrivals::verdicts(&arrivals));
        let mut metrics = self.metrics(forbidden, &mut verdicts);
        if let (Some(calibration), Some(rate), true, false) = (calibration, rate, self.all_user(), no_gross) {
            for (name, of) in
                [("ttft", definitions::ttft as SinceSend), ("ttfo", definitions::ttfo), ("e2e", definitions::e2e)]
            {
                let gross = self.ok.iter().filter_map(|r| of(r).gross).collect();
                metrics[name]["calibrated"] = calibrated::net(calibration, rate, gross);
            }
        }
        let by_conn = self.by_conn(forbidden, &mut verdicts);
        let sessions = self.sessions();
        let sessions =
            sessions.map(|course| course.figures(Forbidden { percentiles: false, ..forbidden }, &mut verdicts));
        let disturbed = failure::Disturbed {
            line: self.line,
            rows: self.rows,
            sent: &self.sent,
            kept: &self.kept,
            opened: self.opened,
            closed: self.closed,
            open: !self.closed_loop(),
            span: self.throughput_bounds(),
            no_gross: from_send,
        };
        let (failure, recovery) = disturbed.by(marks, plan);
        let judged = Judged {
            kept: &self.kept,
            closed: self.closed,
            open: !self.closed_loop(),
            no_gross: from_send,
            span: self.throughput_bounds(),
            window: &json!({"throughput": throughput, "metrics": metrics, "sessions": sessions}),
            recovery,
        };
        let goals = judged.by(plan);
        let bounds = Bounds { opened: self.opened, closed: self.closed, drop: number(self.line, "drop") };
        let void = gates::voiding(&client, "net").filter_map(|gate| gate["gate"].as_str());
        let turnaround = sessions.as_ref().and_then(|found| found["turnaround"]["p99_ms"].as_f64());
        let no_net = steadiness::net_is_lost(void, metrics["lateness"]["p99_ms"].as_f64(), turnaround);
        let over_time = steady::Withheld { gross: no_gross, net: no_net };
        let steady = steady::steady(&self.sent, bounds, over_time, &mut verdicts);
        let soak = soak::soak(
            self.line,
            &self.sent,
            health,
            &json!({"throughput": throughput, "metrics": metrics}),
            &mut verdicts,
        );
        let (model_echoes, other_model) = server::echoes(&self.ok, plan);
        verdicts.extend(other_model);
        let counted = || self.ok.iter().filter(|r| r.token_events > 0 && r.completion_tokens.is_some());
        let events: u64 = counted().map(|r| u64::from(r.token_events)).sum();
        let tokens = definitions::tokens(counted().filter_map(|r| r.completion_tokens));
        let even = counted().all(|r| r.completion_tokens == Some(u64::from(r.token_events)));
        let mut figures = json!({
            "window": self.line["window"],
            "duration_s": seconds(self.closed.saturating_sub(self.opened)),
            "requests": self.requests(),
            "offered_rps": offered,
            "achieved_rps": achieved,
            "arrivals": arrivals,
            "in_flight": in_flight,
            "tokens": self.tokens(),
            "throughput": throughput,
            "metrics": metrics,
            "by_conn": by_conn,
            "client": client,
            "verdicts": verdicts,
            "steady": steady,
            "first_requests": self.first_requests(forbidden),
            "tokens_per_event": share(tokens, events),
            "one_token_per_event": (events > 0).then_some(even),
            "empty_events": self.kept.iter().map(|r| u64::from(r.empty_events)).sum::<u64>(),
            "coalesced_share": self.coalesced(),
            "finish_reasons": self.finish_reasons(),
            "flags": self.flags(),
            "model_echoes": model_echoes,
            "server": null,
            "interrupted": self.line["interrupted"],
            "goals": goals,
            "failure": failure,
            "sessions": sessions,
            "trace_hash": self.line["trace_hash"],
            "lengths": disclosed::lengths(&self.kept),
            "disclosed": disclosed::facts(&self.sent, forbidden.gross, forbidden.net),
        });
        if let (Some(soak), Value::Object(fields)) = (soak, &mut figures) {
            fields.insert("soak".into(), soak);
        }
        figures
    }

    fn requests(&self) -> Value {
        let count = |outcome| self.kept.iter().filter(|r| r.outcome == outcome).count();
        let not_sent: Vec<&Row> = self.rows.iter().filter(|r| r.outcome == Outcome::NotSent).collect();
        let failed = self.kept.iter().copied().filter(|r| r.outcome == Outcome::Failed);
        json!({
            "due": self.rows.len(),
            "not_sent": not_sent.len(),
            "sent": self.sent.len(),
            "dropped": self.sent.len() - self.kept.len(),
            "kept": self.kept.len(),
            "ok": self.ok.len(),
            "failed": count(Outcome::Failed),
            "censored": count(Outcome::Censored),
            "by_error": classes(failed),
            "not_sent_reasons": classes(not_sent.into_iter()),
        })
    }

    fn tokens(&self) -> Value {
        let sum = |of: fn(&Row) -> Option<u64>| self.kept.iter().filter_map(|r| of(r)).reduce(u64::saturating_add);
        json!({
            "prompt": sum(|r| r.prompt_tokens),
            "completion": sum(|r| r.completion_tokens),
            "cached": sum(|r| r.cached_tokens),
            "reasoning": sum(|r| r.reasoning_tokens),
        })
    }

    fn sessions(&self) -> Option<sessions::Course<'_>> {
        sessions::Course::of(self.line, self.rows, &self.sent)
    }

    /// Requests in flight over time.
    fn levels(&self) -> Vec<(u64, u64, i64)> {
        let spans = self.sent.iter().filter_map(|r| load::in_flight(r, self.closed));
        levels(spans, self.opened, self.closed)
    }

    /// What the load of a closed loop is counted in over time: requests in flight, or users in a session.
    fn loads(&self) -> Vec<(u64, u64, i64)> {
        self.sessions().map_or_else(|| self.levels(), |course| course.levels())
    }

    fn in_flight(&self) -> Value {
        let concurrency = self.line["load"]["concurrency"].as_i64();
        let mut found = weighted(self.levels(), concurrency);
        if self.closed_loop() {
            found["full_share"] = weighted(self.loads(), concurrency)["full_share"].clone();
        }
        found
    }

    fn closed_loop(&self) -> bool {
        self.line["load"]["model"] == "closed"
    }

    fn arrivals_end(&self) -> Option<u64> {
        let refused = self.arrivals.iter().filter(|r| r.outcome == Outcome::NotSent).map(|r| r.due).min();
        let end = refused.or_else(|| self.arrivals.iter().map(|r| r.due).max())?;
        (!self.closed_loop() && end > self.opened).then_some(end)
    }

    fn rates(&self) -> (Option<f64>, Option<f64>) {
        let Some(end) = self.arrivals_end() else { return (None, None) };
        let inside = |t: u64| self.opened <= t && t < end;
        let due = self.arrivals.iter().filter(|r| inside(r.due)).count();
        let sent = self.sent.iter().filter(|r| is_arrival(r));
        let submitted = sent.filter(|r| r.submit.is_some_and(inside)).count();
        (per_second(due as f64, end - self.opened), per_second(submitted as f64, end - self.opened))
    }

    fn throughput_bounds(&self) -> Option<(u64, u64)> {
        let full = self.line["load"]["concurrency"].as_i64().filter(|_| self.closed_loop()).map(|c| c.max(1));
        match full {
            Some(least) => {
                let at_full: Vec<_> = self.loads().into_iter().filter(|l| l.2 >= least).collect();
                at_full.first().zip(at_full.last()).map(|(first, last)| (first.0, last.1))
            }
            None => self.arrivals_end().map(|end| (self.opened, end)),
        }
    }

    fn throughput(&self) -> Value {
        let bounds = self.throughput_bounds();
        let mut throughput = Map::new();
        throughput.insert("from_s".into(), json!(bounds.map(|b| seconds(b.0.saturating_sub(self.opened)))));
        throughput.insert("to_s".into(), json!(bounds.map(|b| seconds(b.1.saturating_sub(self.opened)))));
        throughput.extend(bounds.map_or_else(no_rates, |(from, to)| self.work(from, to)));
        let unknown = self.sent.iter().filter(|r| TokenTrail::of(r).between(0, u64::MAX).is_none()).count();
        throughput.insert("uncounted_requests".into(), json!(unknown));
        throughput.insert("whole".into(), Value::Object(self.work(self.opened, self.closed)));
        Value::Object(throughput)
    }

    fn work(&self, from: u64, to: u64) -> Map<String, Value> {
        let inside = |t: u64| from <= t && t <= to;
        let span = to.saturating_sub(from);
        let ended = self.sent.iter().filter(|r| r.outcome == Outcome::Ok);
        let requests = ended.filter_map(|r| load::in_flight(r, self.closed)).filter(|(_, end)| inside(*end)).count();
        let mut counts: Vec<f64> = self.sent.iter().filter_map(|r| TokenTrail::of(r).between(from, to)).collect();
        let output = if counts.is_empty() { None } else { Some(percentiles::sum(&mut counts)) };
        let prompts: Vec<(u64, u64)> =
            self.sent.iter().filter_map(|r| load::prompt_read(r).zip(r.prompt_tokens)).collect();
        let prompt = definitions::tokens(prompts.iter().filter(|p| inside(p.0)).map(|p| p.1));
        let total = output.filter(|_| !prompts.is_empty()).map(|output| output + prompt as f64);
        Map::from_iter([
            ("requests_per_s".to_string(), json!(per_second(requests as f64, span))),
            ("output_tokens_per_s".to_string(), json!(output.and_then(|n| per_second(n, span)))),
            ("total_tokens_per_s".to_string(), json!(total.and_then(|n| per_second(n, span)))),
        ])
    }

    fn all_user(&self) -> bool {
        !self.kept.is_empty() && self.kept.iter().all(|r| r.stamps == StampSource::User)
    }

    fn stamps_missing(&self) -> u64 {
        let all_user = self.all_user();
        let lacks = |r: &&&Row| definitions::lacks_stamps(r) || (!all_user && r.stamps == StampSource::User);
        self.kept.iter().filter(lacks).count() as u64
    }

    /// Verdicts on the window; whether gap percentiles are forbidden.
    fn judge(&self, max_failed: f64, no_gross: bool, no_due: bool, verdicts: &mut Vec<Value>) -> bool {
        let kept = self.kept.len() as u64;
        let failed = self.kept.iter().filter(|r| r.outcome == Outcome::Failed).count() as u64;
        if let Some(found) = share(failed, kept).filter(|s| *s > max_failed) {
            let text = wording::too_many_failed(failed, kept, found, max_failed);
            verdicts.push(verdict("requests", "failed", None, "failed", Some(found), &text));
        }
        if self.all_user() {
            verdicts.push(verdict("*", "net", None, "withheld", Some(1.0), &wording::no_kernel_stamps()));
        }
        let missing = self.stamps_missing();
        if let Some(found) = share(missing, kept).filter(|s| *s > rules::STAMPS_MISSING) {
            let text = wording::stamps_missing(missing, kept, found);
            verdicts.push(verdict("*", "net", None, "withheld", Some(found), &text));
        }
        self.completed_only(no_gross, no_due, verdicts);
        let lumped = self.coalesced().filter(|s| *s >= rules::COALESCED_FLAG);
        let no_gaps = lumped.is_some_and(|s| s >= rules::COALESCED_WITHHELD);
        if let Some(found) = lumped {
            let kind = if no_gaps { "withheld" } else { "flag" };
            verdicts.push(verdict("gap", "*", None, kind, Some(found), &wording::coalesced(found, no_gaps)));
        }
        no_gaps
    }

    fn completed_only(&self, no_gross: bool, no_due: bool, verdicts: &mut Vec<Value>) {
        let open = |r: &Row| {
            let class = r.error.as_ref().map(|e| e.class.as_str());
            r.outcome == Outcome::Censored || (r.outcome == Outcome::Failed && class == Some(rules::TIMEOUT_CLASS))
        };
        let incomplete: Vec<&Row> = self.kept.iter().copied().filter(|r| open(r)).collect();
        let found = share(incomplete.len() as u64, self.kept.len() as u64);
        let Some(found) = found.filter(|s| *s > rules::OF_COMPLETED) else { return };
        verdicts.push(verdict("*", "*", None, "flag", Some(found), &wording::of_completed(found)));
        if no_gross {
            return;
        }
        let mut bound = |name: &str, column: &str, of: SinceSend, first: bool| {
            let value = |r: &Row| if column == "due" { of(r).due } else { of(r).gross };
            let waited = |r: &Row| {
                if column == "due" { load::waited_since_due(r, self.closed) } else { load::waited(r, self.closed) }
            };
            // a first token may have come before the request was cut off; a last one has not
            let at_least = |r: &&Row| if first { value(r).or(waited(r)) } else { waited(r) };
            let completed = self.ok.iter().filter_map(|r| value(r));
            let values = completed.chain(incomplete.iter().filter_map(at_least)).collect();
            lower_bounds(name, column, values, verdicts);
        };
        for column in ["gross", "due"] {
            if column == "gross" || !(self.closed_loop() || no_due) {
                bound("ttft", column, definitions::ttft, true);
                bound("e2e", column, definitions::e2e, false);
            }
        }
    }

    fn coalesced(&self) -> Option<f64> {
        let events = self.ok.iter().map(|r| r.chunks.len() as u64).sum();
        share(self.ok.iter().map(|r| definitions::coalesced(r)).sum(), events)
    }

    fn metrics(&self, forbidden: Forbidden, verdicts: &mut Vec<Value>) -> Value {
        let ok = &self.ok;
        let allowed = Forbidden { percentiles: false, ..forbidden };
        let since = |name, of: fn(&Row) -> Columns<i64>, by_class, verdicts: &mut Vec<Value>| {
            let of = move |row: &Row| vec![of(row)];
            Value::Object(
                Metric { name, of: &of, two_ended: false, forbidden: allowed }.with_due(ok, by_class, verdicts),
            )
        };
        let ttft = since("ttft", definitions::ttft, true, verdicts);
        let ttfo = since("ttfo", definitions::ttfo, false, verdicts);
        let e2e = since("e2e", definitions::e2e, true, verdicts);
        let gaps = |row: &Row| definitions::gaps(row).collect();
        let gap = Metric { name: "gap", of: &gaps, two_ended: true, forbidden }.columns(ok, true, verdicts);
        let stall = one("stall", definitions::stall, true, allowed, ok, verdicts);
        let tpot = one("tpot", definitions::tpot, true, allowed, ok, verdicts);
        let tpot_adj = one("tpot_adj", definitions::tpot_adj, true, allowed, ok, verdicts);
        let ntpot = one("ntpot", definitions::ntpot, false, allowed, ok, verdicts);
        let plain = |of: fn(&Row) -> Option<i64>| distribution(ok.iter().filter_map(|r| of(r)).collect());
        let (lateness, delay) = self.lateness();
        json!({
            "ttft": ttft, "ttfo": ttfo, "e2e": e2e,
            "gap": gap, "stall": stall, "tpot": tpot, "tpot_adj": tpot_adj, "ntpot": ntpot,
            "upload": plain(definitions::upload), "lateness": lateness, "dispatch_delay": delay,
            "connect": {"dns": plain(definitions::dns), "tcp": plain(definitions::tcp), "tls": plain(definitions::tls)},
        })
    }

    fn lateness(&self) -> (Value, Value) {
        let counted: Vec<_> = self.dispatched().into_iter().filter(|d| d.2).collect();
        let late = counted.iter().map(|((action, _, due), slot, _)| definitions::lateness(*due, *action, *slot));
        let delay =
            counted.iter().filter_map(|((_, _, due), slot, _)| Some(definitions::dispatch_delay(*due, (*slot)?)));
        (distribution(late.collect::<Vec<i64>>()), distribution(delay.collect::<Vec<i64>>()))
    }

    /// `(due, lateness)` of the ok requests.
    fn late(&self) -> Vec<(u64, i64)> {
        let late = |((action, _, due), slot, _)| (due, definitions::lateness(due, action, slot));
        self.dispatched().into_iter().filter(|d| d.2).map(late).collect()
    }

    /// `(when it could go out, turnaround)` of the ok turns that follow a reply; None where none that was sent does.
    fn turnaround(&self) -> Option<Vec<(u64, i64)>> {
        let late = |row: &&Row| Some((could_go_out(row)?, turnaround(row)?));
        let any = self.sent.iter().any(|row| needs_reply(row));
        any.then(|| self.ok.iter().filter_map(late).collect())
    }

    /// What was tried by the load model, when each found a free slot, and whether it is kept and ok; in order of
    /// dispatch. Turns that answer a reply take slots and are not told.
    fn dispatched(&self) -> Vec<(Times, Option<u64>, bool)> {
        let act = |r: &&Row| Some((definitions::first_action(r)?, load::in_flight(r, self.closed)?.1, r.due));
        let mut order: Vec<(Times, bool, bool)> = Vec::new();
        for row in &self.sent {
            let counts = row.outcome == Outcome::Ok && row.phase == Phase::Measured;
            order.extend(act(row).map(|times| (times, counts, !needs_reply(row))));
        }
        order.sort_unstable();
        let cap = self.line["load"]["concurrency"].as_u64().filter(|_| !self.closed_loop());
        let free = cap.map(|cap| load::slots_free(cap as usize, order.iter().map(|o| o.0.1)));
        let slot = |k: usize| free.as_ref().and_then(|free| free.get(k)).copied();
        order.iter().enumerate().filter(|(_, o)| o.2).map(|(k, o)| (o.0, slot(k), o.1)).collect()
    }

    fn by_conn(&self, forbidden: Forbidden, verdicts: &mut Vec<Value>) -> Value {
        let reopened = |r: &Row| r.flags.contains(&"reopened".to_string());
        let mut row = |name: &str, holds: &dyn Fn(&Row) -> bool| {
            let rows: Vec<&Row> = self.ok.iter().copied().filter(|r| holds(r)).collect();
            let allowed = Forbidden { percentiles: false, ..forbidden };
            json!({"n": rows.len(), "ttft": one(name, definitions::ttft, false, allowed, &rows, verdicts)})
        };
        let warm = row("ttft@warm", &|r| r.conn_reused);
        let cold = row("ttft@cold", &|r| !r.conn_reused && !reopened(r));
        let again = row("ttft@reopened", &|r| !r.conn_reused && reopened(r));
        json!({"warm": warm, "cold": cold, "reopened": again})
    }

    fn first_requests(&self, forbidden: Forbidden) -> Vec<Value> {
        let mut first: Vec<&Row> = self.rows.iter().filter(|r| r.trace_id < rules::FIRST_REQUESTS).collect();
        first.sort_by_key(|r| r.trace_id);
        let show = |row: &Row| {
            let ttft = definitions::ttft(row);
            json!({
                "trace_id": row.trace_id,
                "outcome": row.outcome,
                "ttft_gross_ms": ttft.gross.filter(|_| !forbidden.gross).map(definitions::millis),
                "ttft_tare_ms": ttft.tare.map(definitions::millis),
                "ttft_net_ms": ttft.net.filter(|_| !forbidden.net).map(|net| definitions::millis(net.at)),
            })
        };
        first.into_iter().map(show).collect()
    }

    fn finish_reasons(&self) -> BTreeMap<&str, Option<f64>> {
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for row in &self.ok {
            *counts.entry(row.finish_reason.as_deref().unwrap_or("none")).or_default() += 1;
        }
        counts.into_iter().map(|(reason, n)| (reason, share(n, self.ok.len() as u64))).collect()
    }

    fn flags(&self) -> Value {
        let mut flags: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for flag in self.kept.iter().flat_map(|r| &r.flags) {
            let mut parts = flag.splitn(2, '=');
            let entry = flags.entry(parts.next().unwrap_or_default()).or_default();
            entry.0 += 1;
            entry.1 = entry.1.saturating_add(parts.next().map_or(1, |count| count.parse().unwrap_or(1)));
        }
        let show = |(name, (n, total)): (&str, (u64, u64))| (name.to_string(), json!({"requests": n, "total": total}));
        Value::Object(flags.into_iter().map(show).collect())
    }
}

/// Level over time: +1 where a span begins, -1 where it ends, all changes of one moment together; cut to the window.
pub(super) fn levels(spans: impl Iterator<Item = (u64, u64)>, opened: u64, closed: u64) -> Vec<(u64, u64, i64)> {
    let mut changes: BTreeMap<u64, i64> = BTreeMap::from([(opened, 0), (closed, 0)]);
    for (from, to) in spans {
        *changes.entry(from.max(opened).min(closed.max(opened))).or_default() += 1;
        *changes.entry(to.max(opened).min(closed.max(opened))).or_default() -= 1;
    }
    let mut level = 0;
    let moments: Vec<(u64, i64)> = changes.into_iter().collect();
    let spans = moments.windows(2).map(|pair| {
        level += pair[0].1;
        (pair[0].0, pair[1].0, level)
    });
    spans.collect()
}

/// A level weighted by time, and the share of the time at `concurrency` or above.
pub(super) fn weighted(mut levels: Vec<(u64, u64, i64)>, concurrency: Option<i64>) -> Value {
    let total: u64 = levels.iter().map(|(from, to, _)| to - from).sum();
    let weighted: u128 = levels.iter().map(|(from, to, level)| u128::from(to - from) * *level as u128).sum();
    let full = |least: i64| levels.iter().filter(|l| l.2 >= least).map(|(from, to, _)| to - from).sum::<u64>();
    let full_share = concurrency.and_then(|least| share(full(least), total));
    levels.sort_by_key(|l| l.2);
    let mut time = 0_u128;
    let p95 = levels.iter().find(|(from, to, _)| {
        time += u128::from(to - from);
        time * 100 >= u128::from(total) * 95
    });
    json!({
        "mean": (total > 0).then(|| weighted as f64 / total as f64),
        "p95": p95.map(|l| l.2),
        "max": levels.last().map_or(0, |l| l.2),
        "full_share": full_share,
    })
}

fn one<T: Sample>(
    name: &str,
    of: fn(&Row) -> Columns<T>,
    two_ended: bool,
    forbidden: Forbidden,
    rows: &[&Row],
    verdicts: &mut Vec<Value>,
) -> Value {
    let of = move |row: &Row| vec![of(row)];
    Value::Object(Metric { name, of: &of, two_ended, forbidden }.columns(rows, false, verdicts))
}

fn no_rates() -> Map<String, Value> {
    let names = ["requests_per_s", "output_tokens_per_s", "total_tokens_per_s"];
    names.iter().map(|name| ((*name).to_string(), Value::Null)).collect()
}

fn classes<'a>(rows: impl Iterator<Item = &'a Row>) -> BTreeMap<&'a str, u64> {
    let mut counts = BTreeMap::new();
    for row in rows {
        *counts.entry(row.error.as_ref().map_or("unnamed", |e| e.class.as_str())).or_default() += 1;
    }
    counts
}

fn lower_bounds(metric: &str, column: &str, mut values: Vec<i64>, verdicts: &mut Vec<Value>) {
    let Some(found) = percentiles::figures(&mut values) else { return };
    for (p, ms) in PUBLISHED.iter().zip(found.percentiles_ms) {
        let Some(ms) = ms else { continue };
        verdicts.push(verdict(metric, column, Some(p.name), "flag", Some(ms), &wording::lower_bound(ms)));
    }
}

pub(super) fn verdict(
    metric: &str,
    column: &str,
    percentile: Option<&str>,
    kind: &str,
    figure: Option<f64>,
    text: &str,
) -> Value {
    json!({"metric": metric, "column": column, "percentile": percentile, "kind": kind, "figure": figure, "text": text})
}
