//! HdrHistogram's interval log (V2, compressed), as its own log processors, readers and plotters take it: one `.hlog`, one tag a
//! load point, metric and column (`cell0-ttft-gross`), one interval a window.
//!
//! - **Values are ns**; the third field, an interval's maximum, is ms (Java's customary divisor of 1,000,000).
//! - Three digits, from 1 ns to a day: a value is told to 0.1 %. What is longer is counted as a day.
//! - Columns: gross, net (by `arrived`), tare and due of ttft, ttfo and e2e; gross and net of gap, stall and tpot. Tare of
//!   differences is signed, which a histogram cannot hold. A value below 0 (net of two reads that one stamp cannot tell apart)
//!   is left out and counted in a comment.
//! - Load points have tags of their own: a log processor adds up the intervals of a tag, and percentiles over several loads
//!   speak of none.
//! - **Marks.** A column of which `run.json` withholds something is under a tag that ends in `-withheld`, so that no plot mixes
//!   it with the others; comments say why, and that histograms give p99.9 of however few values.

use std::time::Duration;

use anyhow::Context;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use super::measured::{Campaign, MeasuredWindow};
use super::{Exported, Exporter, marks};
use crate::analysis::definitions::{self, Columns};
use crate::reading::printable;
use crate::rundir::row::Row;

/// Largest value, a day in ns.
const LARGEST: u64 = 86_400_000_000_000;
/// Java's divisor for the maximum: ms of values in ns.
const PER_MS: f64 = 1_000_000.0;

/// The format.
#[derive(Debug, Default)]
pub struct Format {
    /// Opening of a window and its lines.
    windows: Vec<(u64, String)>,
}

impl Exporter for Format {
    fn window(&mut self, of: &Campaign, window: &MeasuredWindow) -> anyhow::Result<Vec<Exported>> {
        self.windows.push((window.bounds.opened, lines(of, window)?));
        Ok(Vec::new())
    }

    fn finish(&mut self, of: &Campaign) -> anyhow::Result<Vec<Exported>> {
        self.windows.sort_by_key(|(opened, _)| *opened);
        // as the builder writes them, which takes them from the system's clock only
        let start = format!("{:.3} (seconds since epoch)]", of.started_wall_ns as f64 / 1e9);
        let mut head = Vec::new();
        IntervalLogWriterBuilder::new()
            .add_comment(&format!(
                "[tarebench {}, run {}]",
                of.run.tarebench.as_deref().map(clean).unwrap_or_default(),
                of.run.run_id.as_deref().map(clean).unwrap_or_default()
            ))
            .add_comment("[values are ns; tags are load point, metric, column; intervals are windows]")
            .add_comment(&format!("[StartTime: {start}"))
            .add_comment(&format!("[BaseTime: {start}"))
            .with_max_value_divisor(PER_MS)
            .begin_log_with(&mut head, &mut V2DeflateSerializer::new())?;
        let mut text = String::from_utf8(head)?;
        self.windows.iter().for_each(|(_, lines)| text.push_str(lines));
        Ok(vec![Exported { name: "tarebench.hlog".into(), text }])
    }
}

/// One line, as a comment is.
fn clean(words: &str) -> String {
    printable(words, None)
}

/// The lines of a window, without a header.
fn lines(of: &Campaign, window: &MeasuredWindow) -> anyhow::Result<String> {
    let bounds = &window.bounds;
    let (mut out, mut serializer) = (Vec::new(), V2DeflateSerializer::new());
    let mut log =
        IntervalLogWriterBuilder::new().with_max_value_divisor(PER_MS).begin_log_with(&mut out, &mut serializer)?;
    let place = format!("cell {}, window {}", bounds.cell, bounds.window);
    for mark in marks::of(&of.run, bounds.cell, bounds.window) {
        log.write_comment(&format!("[{place}: {}]", clean(&mark)))?;
    }
    let published = of.published(bounds);
    for (metric, column, values) in columns(window) {
        if values.is_empty() {
            continue;
        }
        let mut histogram = Histogram::<u64>::new_with_bounds(1, LARGEST, 3)?;
        let mut negative = 0_u64;
        for value in values {
            match u64::try_from(value) {
                Ok(value) => histogram.saturating_record(value),
                Err(_) => negative += 1,
            }
        }
        if negative > 0 {
            log.write_comment(&format!("[{place}: {negative} values of {metric} {column} below 0 are left out]"))?;
        }
        if histogram.len() < 1_000 {
            let n = histogram.len();
            log.write_comment(&format!(
                "[{place}: {metric} {column} has {n} values; run.json gives no p99.9 below 1,000, no p99 below 100]"
            ))?;
        }
        let withheld = published.is_some_and(|window| marks::withholds(window, metric, column));
        let tag = format!("cell{}-{metric}-{column}{}", bounds.cell, if withheld { "-withheld" } else { "" });
        log.write_histogram(
            &histogram,
            Duration::from_nanos(bounds.opened),
            Duration::from_nanos(bounds.closed.saturating_sub(bounds.opened)),
            Some(Tag::new(&tag).context("a tag holds no comma and no space")?),
        )
        .map_err(|error| anyhow::anyhow!("{place}, {metric} {column}: {error}"))?;
    }
    let text = String::from_utf8(out)?;
    // what the builder writes first belongs into the header of the file
    Ok(text.split_once('\n').map(|(_, rest)| rest.to_owned()).unwrap_or_default())
}

/// Every column of the ok requests, in ns.
fn columns(window: &MeasuredWindow) -> Vec<(&'static str, &'static str, Vec<i64>)> {
    let mut found: Vec<(&'static str, &'static str, Vec<i64>)> = Vec::new();
    let mut add = |metric, wanted: &[&'static str], of: &mut dyn Iterator<Item = Columns<i64>>| {
        let mut values: Vec<Vec<i64>> = vec![Vec::new(); wanted.len()];
        for columns in of {
            for (values, column) in values.iter_mut().zip(wanted) {
                values.extend(match *column {
                    "gross" => columns.gross,
                    "tare" => columns.tare,
                    "net" => columns.net.map(|net| net.at),
                    _ => columns.due,
                });
            }
        }
        found.extend(wanted.iter().zip(values).map(|(column, values)| (metric, *column, values)));
    };
    let since_send = ["gross", "tare", "net", "due"];
    let between = ["gross", "net"];
    add("ttft", &since_send, &mut window.ok().map(definitions::ttft));
    add("ttfo", &since_send, &mut window.ok().map(definitions::ttfo));
    add("e2e", &since_send, &mut window.ok().map(definitions::e2e));
    add("gap", &between, &mut window.ok().flat_map(definitions::gaps));
    add("stall", &between, &mut window.ok().map(definitions::stall));
    add("tpot", &between, &mut window.ok().map(whole_tpot));
    found
}

/// `tpot` in whole ns.
fn whole_tpot(row: &Row) -> Columns<i64> {
    let of = definitions::tpot(row);
    let whole = |ns: f64| ns.round() as i64;
    let net = of.net.map(|net| definitions::Net { lo: whole(net.lo), at: whole(net.at), hi: whole(net.hi) });
    Columns { gross: of.gross.map(whole), tare: of.tare.map(whole), net, due: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::specimen::{MS, Specimen, shift_answer};
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn a_log_is_read_back_with_its_tags_counts_and_times(later in prop::collection::vec(0_u64..200_000 * MS, 1..40)) {
            let dir = tempfile::tempdir().unwrap();
            let mut specimen = Specimen::two_windows();
            for (_, rows) in &mut specimen.windows {
                for (row, later) in rows.iter_mut().zip(&later) {
                    shift_answer(row, *later);
                }
            }
            specimen.plan["started_at"] = "2026-01-01T00-00-00".into();
            specimen.write(dir.path());
            let of = Campaign::of_directory(dir.path()).unwrap();
            let (mut format, mut expected) = (Format::default(), Vec::new());
            super::super::measured::each_window(dir.path(), |_| true, |window| {
                let counts = columns(&window).into_iter().filter(|(_, _, values)| !values.is_empty());
                expected.extend(counts.map(|(metric, column, values)| {
                    let kept = values.iter().filter(|value| **value >= 0);
                    let largest = kept.clone().max().copied().unwrap_or(0);
                    (format!("cell0-{metric}-{column}"), window.bounds.opened, kept.count() as u64, largest)
                }));
                format.window(&of, &window).map(drop)
            }).unwrap();
            let text = format.finish(&of).unwrap().remove(0).text;
            let intervals = IntervalLogIterator::new(text.as_bytes()).filter_map(|entry| match entry.unwrap() {
                LogEntry::Interval(interval) => Some(interval),
                _ => None,
            });
            let read: Vec<_> = intervals.collect();
            prop_assert_eq!(read.len(), expected.len());
            for (interval, (tag, opened, _, largest)) in read.iter().zip(&expected) {
                let found = interval.tag().unwrap();
                prop_assert_eq!(found.as_str().trim_end_matches("-withheld"), tag);
                prop_assert_eq!(interval.start_timestamp().as_millis(), u128::from(opened / MS));
                let largest = *largest as f64 / 1e6;
                prop_assert!((interval.max() - largest).abs() <= largest * 1e-3 + 1e-3, "{} {}", interval.max(), largest);
            }
        }
    }
}
