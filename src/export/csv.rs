//! CSV (RFC 4180): `requests.csv`, one line a request that was due, warm-up included; `gaps.csv`, one line between two token
//! events; `windows.csv`, the figures of `run.json`, one a line.
//!
//! Times are ns from the campaign's start, durations ns; in `windows.csv` latencies are ms as in `run.json`. What is not
//! defined is an empty field. Of sessions `concurrency` is users and `rate` sessions/s, and `load_model` says so. Formulas are those of `run.json` (its `definitions`); a net value stands with its two ends.
//!
//! **Texts** come from servers and files. A spreadsheet runs a field that begins with `=`, `+`, `-`, `@`, tab or CR as a
//! formula, so that one gets an apostrophe in front, which spreadsheets take for "this is text" (OWASP, CSV injection).
//! Control characters and directional marks become spaces. Numbers are never touched: tare may be negative.
//!
//! **Marks.** `window_valid` is false where something speaks against the window as a whole; in `windows.csv` a percentile that
//! is withheld is empty, and `mark` says why; `requests.csv` and `gaps.csv` hold what was observed, for whoever knows why
//! a figure made of it is withheld.
//!
//! **No Parquet.** Columnar files need the crates of Arrow, a large part of the build for one format, while
//! `duckdb -c "copy 'requests.csv' to 'requests.parquet'"`, pandas or polars make the file in one line.

use csv::{QuoteStyle, Terminator, WriterBuilder};

use super::measured::{Campaign, MeasuredWindow};
use super::{Exported, Exporter, marks, published};
use crate::analysis::definitions::{self, Columns, Net};
use crate::rundir::row::{Outcome, Phase, Row, Stamp, StampSource, TokensSource};
use crate::rundir::run_json::{Distribution, VerdictKind, Window};
use crate::rundir::window::WindowRow;

/// The format.
#[derive(Debug, Default)]
pub struct Format {
    begun: bool,
    windows: Vec<WindowRow>,
}

impl Exporter for Format {
    fn window(&mut self, of: &Campaign, window: &MeasuredWindow) -> anyhow::Result<Vec<Exported>> {
        let valid = marks::is_valid(&of.run, window.bounds.cell, window.bounds.window);
        let mut requests = Table::default();
        let mut gaps = Table::default();
        if !std::mem::replace(&mut self.begun, true) {
            requests.line(request_columns())?;
            gaps.line(GAP_COLUMNS.map(str::to_owned))?;
        }
        for row in &window.rows {
            requests.line(request(row, valid))?;
            for line in between(row, valid) {
                gaps.line(line)?;
            }
        }
        self.windows.push(window.bounds.clone());
        Ok(vec![requests.part("requests.csv")?, gaps.part("gaps.csv")?])
    }

    fn finish(&mut self, of: &Campaign) -> anyhow::Result<Vec<Exported>> {
        let mut table = Table::default();
        table.line(WINDOW_COLUMNS.map(str::to_owned))?;
        self.windows.sort_by_key(|bounds| (bounds.cell, bounds.window));
        for bounds in &self.windows {
            figures(of, bounds, &mut table)?;
        }
        Ok(vec![table.part("windows.csv")?])
    }
}

/// Lines of a file, quoted where they must be.
struct Table(csv::Writer<Vec<u8>>);

impl Default for Table {
    fn default() -> Self {
        let mut builder = WriterBuilder::new();
        Table(builder.terminator(Terminator::CRLF).quote_style(QuoteStyle::Necessary).from_writer(Vec::new()))
    }
}

impl Table {
    fn line(&mut self, fields: impl IntoIterator<Item = String>) -> anyhow::Result<()> {
        Ok(self.0.write_record(fields)?)
    }

    fn part(self, name: &str) -> anyhow::Result<Exported> {
        Ok(Exported { name: name.to_owned(), text: String::from_utf8(self.0.into_inner()?)? })
    }
}

/// A text as a field: no formula, one line.
fn text(words: &str) -> String {
    let formula = words.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let clean: String = words.chars().map(|c| if c.is_control() || is_directional(c) { ' ' } else { c }).collect();
    // after a space too, which some programs cut off
    let hidden = clean.trim_start().starts_with(['=', '+', '-', '@']);
    if formula || hidden { format!("'{clean}") } else { clean }
}

/// Marks that turn the text after them around.
fn is_directional(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn number<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

const STAMPS: [&str; 7] = ["first_byte", "first_event", "first_token", "first_answer", "last_token", "done", "end"];
const METRICS: [&str; 7] = ["ttft", "ttfo", "e2e", "stall", "tpot", "tpot_adj", "ntpot"];

fn request_columns() -> Vec<String> {
    let mut names: Vec<String> = [
        "run",
        "cell",
        "window",
        "window_valid",
        "trace_id",
        "class",
        "phase",
        "outcome",
        "error_class",
        "error_text",
        "http_status",
        "retry_after",
        "worker",
        "conn",
        "conn_reused",
        "retries",
        "stamps",
        "due",
        "taken",
        "submit",
        "handed",
        "sent",
        "wire_out",
    ]
    .map(str::to_owned)
    .into();
    for stamp in STAMPS {
        names.extend(["seen", "arrived", "arrived_lo"].map(|part| format!("{stamp}_{part}")));
    }
    for metric in METRICS {
        names.extend(["gross", "tare", "net", "net_lo", "net_hi"].map(|column| format!("{metric}_{column}")));
        if ["ttft", "ttfo", "e2e"].contains(&metric) {
            names.push(format!("{metric}_due"));
        }
    }
    names.extend(
        [
            "upload",
            "dns",
            "connect",
            "tls",
            "bytes_out",
            "bytes_in",
            "reads",
            "events",
            "token_events",
            "empty_events",
            "coalesced",
            "finish_reason",
            "prompt_tokens",
            "completion_tokens",
            "cached_tokens",
            "reasoning_tokens",
            "tokens_source",
            "asked_prompt_tokens",
            "asked_output_tokens",
            "length_met",
            "model_echo",
            "flags",
            "nonce",
            "begins",
            "prompt_sha256",
            "server_timings",
            "session",
            "turn",
            "turns",
            "user",
            "after",
            "pause",
            "turnaround",
        ]
        .map(str::to_owned),
    );
    names
}

fn request(row: &Row, valid: bool) -> Vec<String> {
    let phase = if row.phase == Phase::Warmup { "warmup" } else { "measured" };
    let outcome = match row.outcome {
        Outcome::Ok => "ok",
        Outcome::Failed => "failed",
        Outcome::Censored => "censored",
        Outcome::NotSent => "not_sent",
    };
    let error = row.error.as_ref();
    let optional = |words: &Option<String>| words.as_deref().map(text).unwrap_or_default();
    let mut line = vec![
        text(&row.run),
        row.cell.to_string(),
        row.window.to_string(),
        valid.to_string(),
        row.trace_id.to_string(),
        text(&row.class),
        phase.into(),
        outcome.into(),
        error.map(|error| text(&error.class)).unwrap_or_default(),
        error.map(|error| text(&error.text)).unwrap_or_default(),
        number(row.http_status),
        optional(&row.retry_after),
        row.worker.to_string(),
        number(row.conn),
        row.conn_reused.to_string(),
        row.retries.to_string(),
        if row.stamps == StampSource::Kernel { "kernel" } else { "user" }.into(),
        row.due.to_string(),
    ];
    line.extend([row.taken, row.submit, row.handed, row.sent, row.wire_out].map(number));
    let stamps: [Option<Stamp>; 7] =
        [row.first_byte, row.first_event, row.first_token, row.first_answer, row.last_token, row.done, row.end];
    for stamp in stamps {
        line.push(number(stamp.map(|stamp| stamp.seen)));
        line.push(number(stamp.and_then(|stamp| stamp.arrived)));
        line.push(number(stamp.and_then(|stamp| stamp.arrived_lo)));
    }
    for of in [definitions::ttft(row), definitions::ttfo(row), definitions::e2e(row)] {
        line.extend(columns(of));
        line.push(number(of.due));
    }
    line.extend(columns(definitions::stall(row)));
    for of in [definitions::tpot(row), definitions::tpot_adj(row), definitions::ntpot(row)] {
        line.extend(columns(of));
    }
    line.extend(
        [definitions::upload(row), definitions::dns(row), definitions::tcp(row), definitions::tls(row)].map(number),
    );
    line.extend([row.bytes_out, row.bytes_in].map(|n| n.to_string()));
    line.extend([row.reads, row.events, row.token_events, row.empty_events].map(|n| n.to_string()));
    line.push(definitions::coalesced(row).to_string());
    line.push(optional(&row.finish_reason));
    line.extend([row.prompt_tokens, row.completion_tokens, row.cached_tokens, row.reasoning_tokens].map(number));
    line.push(match row.tokens_source {
        Some(TokensSource::Usage) => "usage".into(),
        Some(TokensSource::TokenIds) => "token_ids".into(),
        None => String::new(),
    });
    line.extend([row.asked_prompt_tokens, row.asked_output_tokens].map(|n| n.to_string()));
    line.push(number(row.length_met));
    line.push(optional(&row.model_echo));
    line.push(text(&row.flags.join(" ")));
    line.push(text(&row.nonce));
    line.push(optional(&row.begins));
    line.push(text(&row.prompt_sha256));
    line.push(row.server_timings.as_ref().map(|timings| text(&timings.to_string())).unwrap_or_default());
    let turn = row.session.as_ref();
    line.push(number(turn.map(|turn| turn.id)));
    line.push(number(turn.map(|turn| turn.turn)));
    line.push(number(turn.map(|turn| turn.turns)));
    line.push(number(turn.and_then(|turn| turn.user)));
    line.push(number(turn.and_then(|turn| turn.after)));
    line.push(number(turn.map(|turn| turn.pause)));
    line.push(number(definitions::sessions::turnaround(row)));
    line
}

fn columns<T: ToString + Copy>(of: Columns<T>) -> [String; 5] {
    let end = |pick: fn(Net<T>) -> T| number(of.net.map(pick));
    [number(of.gross), number(of.tare), end(|net| net.at), end(|net| net.lo), end(|net| net.hi)]
}

const GAP_COLUMNS: [&str; 20] = [
    "run",
    "cell",
    "window",
    "window_valid",
    "trace_id",
    "phase",
    "outcome",
    "choice",
    "event",
    "read_no",
    "tokens",
    "seen",
    "arrived",
    "arrived_lo",
    "gap_gross",
    "gap_tare",
    "gap_net",
    "gap_net_lo",
    "gap_net_hi",
    "same_read",
];

/// One line for each token event: its stamps, and the gap from the event of the same choice before it. A first event, and
/// one that came in the same read as the one before it (`same_read`), ends no gap.
fn between(row: &Row, valid: bool) -> impl Iterator<Item = Vec<String>> + '_ {
    let phase = if row.phase == Phase::Warmup { "warmup" } else { "measured" };
    let outcome = match row.outcome {
        Outcome::Ok => "ok",
        Outcome::Failed => "failed",
        Outcome::Censored => "censored",
        Outcome::NotSent => "not_sent",
    };
    let mut gaps = definitions::gaps(row);
    let mut read_of_choice: Vec<(u32, u32)> = Vec::new();
    row.chunks.iter().enumerate().map(move |(event, chunk)| {
        let before = read_of_choice.iter_mut().find(|(choice, _)| *choice == chunk.5);
        let same_read = before.as_ref().is_some_and(|(_, read)| *read == chunk.4);
        let gap = if before.is_some() && !same_read { gaps.next() } else { None };
        match before {
            Some(before) => before.1 = chunk.4,
            None => read_of_choice.push((chunk.5, chunk.4)),
        }
        let mut line = vec![
            text(&row.run),
            row.cell.to_string(),
            row.window.to_string(),
            valid.to_string(),
            row.trace_id.to_string(),
            phase.into(),
            outcome.into(),
            chunk.5.to_string(),
            event.to_string(),
            chunk.4.to_string(),
            number(chunk.3),
            chunk.0.to_string(),
            number(chunk.1),
            number(chunk.2),
        ];
        line.extend(gap.map(columns).unwrap_or_default());
        line.push(same_read.to_string());
        line
    })
}

const WINDOW_COLUMNS: [&str; 14] = [
    "run",
    "cell",
    "window",
    "window_valid",
    "load_model",
    "concurrency",
    "rate",
    "metric",
    "column",
    "statistic",
    "value",
    "ci_lo",
    "ci_hi",
    "mark",
];

/// One figure of `windows.csv`.
struct Figure {
    metric: String,
    column: &'static str,
    statistic: String,
    value: Option<f64>,
    ci: Option<[f64; 2]>,
    mark: String,
}

fn figures(of: &Campaign, bounds: &WindowRow, table: &mut Table) -> anyhow::Result<()> {
    let Some(window) = of.published(bounds) else { return Ok(()) };
    let valid = marks::is_valid(&of.run, bounds.cell, bounds.window);
    let plain = published::figures(window)?.into_iter().map(|figure| Figure {
        metric: figure.metric,
        column: "",
        statistic: figure.name,
        value: figure.value,
        ci: None,
        mark: String::new(),
    });
    let mut found: Vec<Figure> = plain.collect();
    let metrics = published::distributions(&window.metrics);
    for (metric, column, of) in metrics.into_iter().chain(published::of_sessions(window)) {
        found.extend(of_distribution(window, metric, column, of));
        for (class, of) in &of.per_class {
            found.extend(of_distribution(window, &format!("{metric}/{class}"), column, of));
        }
    }
    for figure in found {
        table.line([
            text(&bounds.run),
            bounds.cell.to_string(),
            bounds.window.to_string(),
            valid.to_string(),
            bounds.load.model_name().to_owned(),
            number(bounds.load.concurrency),
            number(bounds.load.rate),
            text(&figure.metric),
            text(figure.column),
            text(&figure.statistic),
            number(figure.value),
            number(figure.ci.map(|[lo, _]| lo)),
            number(figure.ci.map(|[_, hi]| hi)),
            text(&figure.mark),
        ])?;
    }
    Ok(())
}

fn of_distribution(window: &Window, metric: &str, column: &'static str, of: &Distribution) -> Vec<Figure> {
    let figure = |statistic: String, value, ci, mark: String| Figure {
        metric: metric.to_owned(),
        column,
        statistic,
        value,
        ci,
        mark,
    };
    let mut found = vec![figure("n".into(), Some(of.n as f64), None, String::new())];
    for (name, value) in [("mean_ms", of.mean_ms), ("sd_ms", of.sd_ms), ("min_ms", of.min_ms), ("max_ms", of.max_ms)] {
        let mark = if value.is_none() { "withheld, or n too small" } else { "" };
        found.push(figure(name.into(), value, None, mark.into()));
    }
    for known in published::percentiles(of) {
        let mark = match (known.value, known.ci) {
            (Some(_), Some(_)) => String::new(),
            (Some(_), None) => "n too small for an interval".into(),
            (None, _) => match why(window, metric, column, known.name) {
                none if none.is_empty() => "n too small".into(),
                why => format!("withheld: {why}"),
            },
        };
        found.push(figure(format!("{}_ms", known.name), known.value, known.ci, mark));
        for (end, value) in [("lo", known.lo), ("hi", known.hi)] {
            if value.is_some() {
                found.push(figure(format!("{}_{end}_ms", known.name), value, None, String::new()));
            }
        }
    }
    found
}

/// Why a percentile is withheld; empty where nothing withholds it.
fn why(window: &Window, metric: &str, column: &str, percentile: &str) -> String {
    let speaks = |of: &str, name: &str| of == name || of == "*";
    // the time of sessions is counted from due
    let column = if metric == "session" { "due" } else { column };
    let verdicts = window.verdicts.iter().filter(|verdict| {
        verdict.kind == VerdictKind::Withheld
            && speaks(&verdict.metric, metric)
            && speaks(&verdict.column, column)
            && verdict.percentile.as_deref().is_none_or(|name| name == percentile)
    });
    let texts = verdicts.map(|verdict| verdict.text.strip_prefix("withheld: ").unwrap_or(&verdict.text).to_owned());
    texts.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::specimen::request as specimen;
    use crate::rundir::row::RowError;
    use proptest::prelude::*;

    fn read(text: &str) -> Vec<csv::StringRecord> {
        csv::ReaderBuilder::new()
            .has_headers(false)
            .from_reader(text.as_bytes())
            .records()
            .map(Result::unwrap)
            .collect()
    }

    #[test]
    fn every_line_has_every_column() {
        let row = specimen(1, 0);
        assert_eq!(request(&row, true).len(), request_columns().len());
        assert!(between(&row, true).all(|line| line.len() == GAP_COLUMNS.len()));
        let at = |name: &str| request_columns().iter().position(|known| known == name).unwrap();
        let line = request(&row, true);
        // first token 5,040 us after due, submit at 10, wire at 25
        let field = |name: &str| line[at(name)].as_str();
        assert_eq!([field("ttft_gross"), field("ttft_net"), field("ttft_due")], ["5030000", "5000000", "5040000"]);
        assert_eq!([field("ttft_tare"), field("upload"), field("tpot_gross")], ["25000", "5000", "1550000"]);
        assert_eq!([field("end_seen"), field("dns")], ["8140000", ""]);
    }

    #[test]
    fn gaps_stand_at_the_event_that_ends_them() {
        let mut row = specimen(0, 0);
        (row.chunks[1].4, row.chunks[1].5) = (0, 1);
        let lines: Vec<Vec<String>> = between(&row, true).collect();
        // the second event is the first of its choice; the third one's gap is from the first
        let gross: Vec<&str> = lines.iter().map(|line| line[14].as_str()).collect();
        assert_eq!(gross, ["", "", "3100000"]);
    }

    proptest! {
        #[test]
        fn any_text_is_read_back_as_one_harmless_field(words in "\\PC{0,30}|[=+@\\-\\t\\r\\n \",;']{1,6}.{0,9}") {
            let mut row = specimen(1, 0);
            row.error = Some(RowError { class: "http_status".into(), text: words.clone() });
            row.model_echo = Some(words.clone());
            let mut table = Table::default();
            table.line(request(&row, true)).unwrap();
            let read = read(&table.part("x").unwrap().text);
            prop_assert_eq!(read.len(), 1);
            prop_assert_eq!(read[0].len(), request_columns().len());
            let field = &read[0][9];
            prop_assert!(!field.trim_start().starts_with(['=', '+', '-', '@']), "{:?}", field);
            prop_assert!(!field.contains(char::is_control));
            let kept: String = words.chars().map(|c| if c.is_control() || is_directional(c) { ' ' } else { c }).collect();
            prop_assert!(field == kept || field.strip_prefix('\'') == Some(&kept), "{:?} {:?}", field, kept);
        }
    }
}
