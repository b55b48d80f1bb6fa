//! A calibration on a terminal, at most 100 columns wide.

use crate::calibrate::step::GROSS_BOUND_NS;
use crate::calibrations::document::{Calibration, Family, Step, StepLoad};
use crate::evidence::NET_BOUND_NS;
use crate::report::quantity::{count, fraction, rate};
use calibration::clock_cost::ClockCost;
use calibration::closure::Closure;
use calibration::parser_cost::ParserCost;
use calibration::spread::Errors;
use std::fmt::Write;

/// The whole of it.
pub fn render(calibration: &Calibration) -> String {
    let mut text = String::new();
    let unknown = || "unknown".to_owned();
    let (host, config) = (&calibration.host, &calibration.config);
    let mut line = |words: String| {
        text.push_str(words.trim_end());
        text.push('\n');
    };
    line(format!("calibration {} ({}, {})", calibration.id, calibration.depth, calibration.placement));
    line(format!(
        "host      {}, kernel {}, {} (CPUs {}), clock source {}, governor {}",
        host.name.clone().unwrap_or_else(unknown),
        host.kernel.clone().unwrap_or_else(unknown),
        host.cpu_model.clone().unwrap_or_else(unknown),
        host.cpus_online.clone().unwrap_or_else(unknown),
        host.clocksource.clone().unwrap_or_else(unknown),
        host.governor.clone().unwrap_or_else(unknown),
    ));
    let cores: Vec<String> = config.cores.iter().map(usize::to_string).collect();
    line(format!(
        "harness   {}, {} worker(s) on core {}, control {}, {} stamps, binary {}",
        config.arm,
        config.cores.len(),
        cores.join(","),
        config.control_core.map_or("shares the workers'".to_owned(), |core| format!("on core {core}")),
        config.stamps,
        config.binary,
    ));
    line(clock(&calibration.clock));
    line(parser(&calibration.parser));
    line(String::new());
    line(format!(
        "{:<14}{:>9}  {:<20} {:<20} {:<13} {:>5} {:>8}",
        "ladder", "events/s", " net - truth, us", " gross - truth, us", " tare, us", "busy", "mock us"
    ));
    line(format!(
        "{:<14}{:>9}  {:>6}{:>7}{:>7} {:>6}{:>7}{:>7} {:>6}{:>7} {:>5} {:>8}",
        "", "came", "p50", "p99", "max", "p50", "p99", "max", "p50", "p99", "", "late p99"
    ));
    for words in calibration.ladder.iter().map(step) {
        line(words);
    }
    line(String::new());
    line(format!(
        "{:<14}{:>9}  {:<13} {:<14} {:>7} {:>5} {:>9} {:>9} {:>8}",
        "client", "offered", " send, us", " receive, us", "came of", "CPU", "drain, us", "wait, us", "batch"
    ));
    line(format!(
        "{:<14}{:>9}  {:>6}{:>7} {:>7}{:>7} {:>7} {:>5} {:>9} {:>9} {:>8}",
        "", "req/s", "p50", "p99", "p50", "p99", "offered", "", "p99.9", "mean", "mean/max"
    ));
    calibration.ladder.iter().for_each(|step| line(client(step)));
    line(String::new());
    if let Some(all) = &calibration.closure_us {
        line(format!(
            "closure   {} requests of valid steps, |net - truth| of ttft: p50 {}, p99 {}, max {} us (aim 20 at p99 on a quiet host)",
            count(all.n),
            us(all.p50),
            us(all.p99),
            us(all.max)
        ));
    }
    for words in model(calibration) {
        line(words);
    }
    wrapped(&format!("verdict   {}", calibration.verdict.text), 10, &mut line);
    line(format!("held to   {}", held_to(calibration)));
    line(String::new());
    line(
        "Errors are absolute. tare p99 is the harness's own share of a time to first token; net has it taken off,"
            .into(),
    );
    line("request by request. `mock us` is how late the mock itself was: that is in its log, in no error here.".into());
    text
}

/// What a step cost the client, and where its tare came from.
fn client(step: &Step) -> String {
    let (send, receive) = (&step.closure.tare_us.send, &step.closure.tare_us.receive);
    let client = &step.client;
    let share = step.achieved_rps.zip(step.offered_rps).filter(|(_, offered)| *offered > 0.0).map(|(a, o)| a / o);
    format!(
        "{:<14}{:>9}  {:>6}{:>7} {:>7}{:>7} {:>7} {:>5} {:>9} {:>9} {:>8}",
        load(&step.load),
        rate(step.offered_rps),
        us(send.p50),
        us(send.p99),
        us(receive.p50),
        us(receive.p99),
        share.map_or("-".to_owned(), |s| format!("{s:.3}")),
        fraction(client.cpu_per_wall),
        us(client.burst_drain_us),
        us(client.mean_wait_us),
        client.mean_batch.map_or("-".to_owned(), |mean| format!("{mean:.1}/{}", client.max_batch)),
    )
}

/// What reading the clock costs.
pub fn clock(clock: &ClockCost) -> String {
    let reads = &clock.reads;
    let agreement: Vec<String> = clock
        .agreement
        .iter()
        .map(|a| format!("cores {} and {} agree within {} ns", a.core, a.other, count(a.bound_ns)))
        .collect();
    let ns = |v: Option<f64>| v.map_or("-".to_owned(), |v| format!("{v:.0}"));
    format!(
        "clock     {} ns a reading, steps from {} ns, longest {} us, backwards {}; {}",
        ns(reads.mean_ns),
        reads.resolution_ns.map_or("-".to_owned(), |n| n.to_string()),
        reads.longest_ns / 1000,
        reads.backwards,
        if agreement.is_empty() { "one core only".to_owned() } else { agreement.join(", ") }
    )
}

/// What the parsers cost.
pub fn parser(parser: &ParserCost) -> String {
    let wrong: u64 = parser.streams.iter().map(|s| s.cuts_wrong).sum();
    let costs: Vec<String> = parser
        .streams
        .iter()
        .filter_map(|s| {
            let (event, byte) = s.one_by_one.ns_per_event.zip(s.one_by_one.ns_per_byte)?;
            Some(format!("{}: {event:.0} ns an event, {byte:.2} a byte", s.name))
        })
        .collect();
    let cuts: u64 = parser.streams.iter().map(|s| s.cuts).sum();
    format!("parser    {}; {wrong} of {} cuts wrong", costs.join("; "), count(cuts))
}

/// A step in one line, while the calibration goes on.
pub fn progress(number: usize, step: &Step) -> String {
    let outcome = match (step.valid, step.mock_limited) {
        (true, _) => "good",
        (false, true) => "the mock was full",
        (false, false) => "not to be trusted",
    };
    format!(
        "step {number:>3}  {:<14} gross {:>7} us and net {:>7} us from the truth at p99: {outcome}",
        load(&step.load),
        us(step.gross_err_us.p99),
        us(step.net_err_us.p99)
    )
}

/// A step, with what is to be said of it below.
pub fn step(step: &Step) -> String {
    let mut text = row(step);
    for reason in &step.reasons {
        wrapped(&format!("! {reason}"), 16, &mut |words| {
            text.push('\n');
            text.push_str(&words);
        });
    }
    text
}

fn row(step: &Step) -> String {
    let errors = |e: &Errors| format!("{:>6}{:>7}{:>7}", us(e.p50), us(e.p99), us(e.max));
    format!(
        "{:<14}{:>9}  {} {} {:>6}{:>7} {:>5} {:>8}{}",
        load(&step.load),
        rate(Some(step.achieved_events_per_s)),
        errors(&step.net_err_us),
        errors(&step.gross_err_us),
        us(step.tare_us.p50),
        us(step.tare_us.p99),
        fraction(step.client.busy),
        us(step.closure.mock_lateness_us.p99),
        match (step.valid, step.mock_limited) {
            (true, _) => "",
            (false, true) => "  mock",
            (false, false) => "  NOT",
        }
    )
}

/// What a step varied: `1 stream`.
pub fn load(load: &StepLoad) -> String {
    let n = load.value.round() as u64;
    let value = count(n);
    match load.family {
        Family::Streams if n == 1 => "1 stream".to_owned(),
        Family::Streams => format!("{value} streams"),
        Family::Requests => format!("{value} req/s"),
        Family::Events => format!("{value} ev/s"),
        Family::Burst => format!("burst {value}"),
        Family::Cold => format!("{value} cold"),
    }
}

/// What a good step has shown.
fn held_to(calibration: &Calibration) -> String {
    match calibration.config.stamps.as_str() {
        "user" => format!(
            "|gross - truth| of ttft at most {} ms at p99: without kernel stamps there is no net; every gate of the client",
            GROSS_BOUND_NS / 1_000_000
        ),
        _ => format!(
            "|net - truth| of ttft at most {} us at p99, or the truth inside net's interval; every gate of the client",
            NET_BOUND_NS / 1000
        ),
    }
}

/// How a run stands against the log of a mock, in a few lines.
pub fn truth(name: &str, place: &str, closure: &Closure) -> String {
    let mut text =
        format!("\n{name:<9}{} requests, {place}: distance of ttft from the truth, us\n", count(closure.matched));
    let mut row = |what: &str, errors: &Errors| {
        if errors.n > 0 {
            text.push_str(&format!(
                "         {what:<7} p50 {:>7}  p99 {:>7}  max {:>7}\n",
                us(errors.p50),
                us(errors.p99),
                us(errors.max)
            ));
        }
    };
    row("gross", &closure.ttft.gross_err_us);
    row("net", &closure.ttft.net_err_us);
    let wide = closure.ttft.net_err_us.n - closure.narrow.ttft_err_us.n;
    if wide > 0 {
        row("net, *", &closure.narrow.ttft_err_us);
        text.push_str(&format!("         * without {} whose net is an interval of more than 50 us\n", count(wide)));
    }
    let outside = &closure.outside;
    let lost = closure.mismatched + closure.observed_without_truth + closure.ambiguous;
    text.push_str("         ");
    if outside.ttft_n > 0 {
        text.push_str(&format!(
            "{} of {} truths outside net's interval by more than {:.0} us; ",
            count(outside.ttft),
            count(outside.ttft_n),
            outside.uncertainty_us
        ));
    }
    text.push_str(&format!("the mock itself was {} us late at p99", us(closure.mock_lateness_us.p99)));
    if lost > 0 {
        text.push_str(&format!("; {} not matched", count(lost)));
    }
    text.push('\n');
    text
}

/// us with three digits or so.
fn us(value: Option<f64>) -> String {
    match value {
        None => "-".into(),
        Some(v) if v.abs() >= 100_000.0 => format!("{:.0}k", v / 1e3),
        Some(v) if v.abs() >= 100.0 => count(v.abs().round() as u64),
        Some(v) => format!("{v:.1}"),
    }
}

fn model(calibration: &Calibration) -> Vec<String> {
    let Some(fit) = &calibration.model else {
        return vec!["model     no fit: too few valid points below half load".to_owned()];
    };
    let r2 = |r2: Option<f64>| match r2 {
        None => "null".to_owned(),
        Some(r2) if r2 < 0.0 => "below 0".to_owned(),
        Some(r2) => format!("{r2:.2}"),
    };
    let shares = [fit.r2, fit.r2_batch, fit.r2_from_busy];
    let fitted = format!(
        "service {:.2} us an event, C2 {:.1}, floor {:.1} us, from {} points below half load",
        fit.service_us, fit.c2, fit.floor_us, fit.fitted_points,
    );
    let said = match fit.predicts() {
        true => format!(
            "model     M/G/1: {fitted}; on the rest R2 {}, batch form {}, from the busy share {}",
            r2(fit.r2),
            r2(fit.r2_batch),
            r2(fit.r2_from_busy)
        ),
        false if shares.iter().all(Option::is_none) => format!(
            "model     the model does not predict the waits here: {}; it was fitted to {fitted}",
            match fit.predicted.len() {
                0 | 1 => "fewer than two valid steps lie above half load",
                _ => "it has the client overloaded at loads that the client carried",
            }
        ),
        false => format!(
            "model     the model does not predict the waits here: on the steps above half load their mean would be a \
             better guess (R2 {}, batch form {}, from the busy share {}); it was fitted to {fitted}",
            r2(fit.r2),
            r2(fit.r2_batch),
            r2(fit.r2_from_busy)
        ),
    };
    let mut lines = Vec::new();
    wrapped(&said, 10, &mut |line| lines.push(line));
    for point in &fit.predicted {
        lines.push(format!(
            "          {:>9} events/s{}: mean wait measured {} us, predicted {} us, batch form {} us",
            rate(Some(point.events_per_s)),
            point.lock_step.map_or(String::new(), |l| format!(", {} at {:.1} us in lock step", l.burst, l.spacing_us)),
            us(Some(point.measured_mean_wait_us)),
            us(point.predicted_mean_wait_us),
            us(point.batch_predicted_mean_wait_us),
        ));
    }
    lines
}

/// Breaks `words` at spaces so that no line is wider than 100 columns; later lines are indented.
fn wrapped(words: &str, indent: usize, line: &mut impl FnMut(String)) {
    let lead = if words.starts_with('!') { indent - 2 } else { 0 };
    let mut current = " ".repeat(lead);
    for (at, word) in words.split(' ').enumerate() {
        if at > 0 && current.chars().count() + 1 + word.chars().count() > 100 {
            line(std::mem::replace(&mut current, " ".repeat(indent)));
        } else if at > 0 {
            current.push(' ');
        }
        let _ = write!(current, "{word}");
    }
    line(current);
}
