//! What the pictures of a report are drawn of: more than `run.json` holds, less than the rows. One pass over the raw files,
//! in memory that follows the largest window, and of a size that does not grow with the number of requests.
//!
//! Nothing here knows what is withheld: who draws asks `run.json` (a percentile that is null there is in no picture).
//! Latencies are ms, times s.

mod client;
mod gap_map;
mod quantiles;
mod server;
pub(in crate::analysis) mod slices;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use crate::analysis::definitions::{self, seconds};
use crate::analysis::summary::SummaryError;
use crate::analysis::summary::client::Health;
use crate::analysis::summary::raw_files::{read_health, read_marks, read_rows, read_scrapes, read_windows};
use crate::rundir::mark::MarkRow;
use crate::rundir::row::{Outcome, Phase, Row};
use crate::rundir::scrape::ScrapeRow;
use crate::rundir::window::WindowRow;
use gap_map::Gaps;
use quantiles::Values;
use slices::{Course, Cut};

/// At most so many [`Slice`]s a window.
pub const MOST_SLICES: usize = 120;
/// Rows of a [`GapMap`].
pub const GAP_ROWS: usize = 24;

/// What is drawn of a campaign.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exhibits {
    /// In the order of `windows.jsonl`, which is that of time.
    pub windows: Vec<WindowExhibits>,
    /// What was done to the server or the client on purpose, in order of time; in s from the campaign's start.
    pub marks: Vec<Mark>,
}

/// Something that was done on purpose.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// s from the campaign's start.
    pub at_s: f64,
    /// What.
    pub text: String,
}

/// What is drawn of a window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WindowExhibits {
    /// Load point, from 0.
    pub cell: u32,
    /// Window of it, from 0.
    pub window: u32,
    /// Its opening, s from the campaign's start.
    pub opened_s: f64,
    /// To its close.
    pub duration_s: f64,
    /// The last request of the warm-up (trace ids below the drop) was submitted here, s from the opening; None where none
    /// was.
    pub warmup_until_s: Option<f64>,
    /// Length of a slice, one that an axis can be labelled by (1, 2 or 5 ms, .., 15 s, .., 1 min); the last one may be
    /// shorter.
    pub slice_s: f64,
    /// Equal parts of the window, in order of time, at least one, at most [`MOST_SLICES`]. What happened beside the
    /// window's bounds counts in the slice next to it.
    pub slices: Vec<Slice>,
    /// Time to first token of the ok requests.
    pub ttft: Spread,
    /// Time to last token.
    pub e2e: Spread,
    /// Between token events of different reads.
    pub gap: Spread,
    /// When gaps of which length ended.
    pub gap_map: GapMap,
    /// The client, worker by worker and there in order of time; at most one sample a slice and worker.
    pub client: Vec<ClientSample>,
    /// The server's own gauges, scrape by scrape, at most one a slice; empty where none were read.
    pub server: Vec<ServerSample>,
}

/// A part of a window's time. Warm-up requests count in what the server did, and are in no latency.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slice {
    /// Its beginning, s from the opening.
    pub from_s: f64,
    /// Requests submitted in it.
    pub sent: u64,
    /// Ok requests that ended in it.
    pub ok: u64,
    /// Failed ones that ended in it; those that were never submitted where they were taken up.
    pub failed: u64,
    /// Mean requests in flight.
    pub in_flight: f64,
    /// Output tokens that arrived in it, per s; None where those that came were all of requests that did not tell their
    /// tokens, and in a window in which none did.
    pub output_tokens_per_s: Option<f64>,
    /// Median time to first token of the measured ok requests submitted in it, gross.
    pub ttft_gross_p50_ms: Option<f64>,
    /// Largest of these.
    pub ttft_gross_max_ms: Option<f64>,
    /// Their 95th percentile; None below 20.
    pub ttft_gross_p95_ms: Option<f64>,
    /// Median of net.
    pub ttft_net_p50_ms: Option<f64>,
    /// Largest of net.
    pub ttft_net_max_ms: Option<f64>,
    /// Their 95th percentile.
    pub ttft_net_p95_ms: Option<f64>,
    /// Largest lateness of the requests due in it, warm-up and failed ones too; None in closed loop, and where none was
    /// due.
    pub lateness_max_ms: Option<f64>,
}

/// The columns of one metric.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spread {
    /// What the client saw.
    pub gross: Quantiles,
    /// The harness's own share.
    pub tare: Quantiles,
    /// Server and network.
    pub net: Quantiles,
    /// From when it was due; empty for gaps.
    pub due: Quantiles,
}

/// A distribution as a curve over a percentile axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quantiles {
    /// Values.
    pub n: u64,
    /// `(percentile, ms)`: from (0, smallest) to (100, largest), ascending, at most 60 points, the published percentiles
    /// among them (those that n is large enough for: the same bits as in `run.json`); between these every halving of the
    /// distance to 100 has some, as long as at least one value lies beyond. Type 7. Empty without values.
    pub points: Vec<(f64, f64)>,
}

/// Counts of gaps (gross) of the measured ok requests by when they were seen to end and how long they were.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GapMap {
    /// Lower edge of the lowest row, ms; rows are equal in the logarithm. Above it lie 99 in 100 gaps or more; the shorter
    /// ones count in the lowest row.
    pub floor_ms: f64,
    /// Upper edge of the highest row, ms: the longest gap, at least four times the floor.
    pub ceiling_ms: f64,
    /// One a slice of the window: counts from the lowest row up, [`GAP_ROWS`] each; empty without gaps.
    pub columns: Vec<Vec<u64>>,
}

/// The client between two samples of `health.jsonl`; where several samples fall into one slice, the largest of each figure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientSample {
    /// The end of the time it speaks of, s from the opening; the last one may lie a little beyond the close.
    pub at_s: f64,
    /// Worker, from 0.
    pub worker: u32,
    /// CPU time per wall time; of workers that spin, busy time.
    pub cpu_per_wall: Option<f64>,
    /// Time on non-empty batches and on submitting, per wall time.
    pub busy: Option<f64>,
    /// Time runnable but not running, per wall time.
    pub run_queue: Option<f64>,
    /// Time that the hypervisor took from its core, per wall time.
    pub steal: Option<f64>,
}

/// The server's own gauges at a scrape; where several fall into one slice, the largest of each.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServerSample {
    /// s from the opening.
    pub at_s: f64,
    /// Requests running.
    pub running: Option<f64>,
    /// Requests waiting.
    pub waiting: Option<f64>,
    /// Use of the key-value cache, as a share.
    pub kv_cache_usage: Option<f64>,
}

impl Exhibits {
    /// Of a run directory. Rows are read once; a window's values are freed as soon as its last row was read. A file that
    /// breaks off is read as far as it goes; rows of a window without a line are in no exhibit.
    ///
    /// # Errors
    /// A file that cannot be read, or a line of it that is not what it must be.
    pub fn of_directory(dir: &Path) -> Result<Exhibits, SummaryError> {
        let windows = read_windows(dir)?.rows;
        let health = Health::new(read_health(dir)?.0);
        let scrapes = read_scrapes(dir)?.0;
        let mut gathered = Gathered::new(&windows, &health, &scrapes);
        read_rows(dir, &mut |row, _, _| {
            gathered.take(&row);
            Ok(())
        })?;
        let (marks, _) = read_marks(dir)?;
        let mark = |row: MarkRow| Some(Mark { at_s: row.started? as f64 / 1e9, text: row.text });
        Ok(Exhibits { windows: gathered.finish(), marks: marks.into_iter().filter_map(mark).collect() })
    }

    /// One window: load points take turns, so that the order here, of time, is not that of `run.json`.
    pub fn window(&self, cell: u32, window: u32) -> Option<&WindowExhibits> {
        self.windows.iter().find(|w| (w.cell, w.window) == (cell, window))
    }
}

/// Windows that are still being read, and those that are done.
struct Gathered<'a> {
    windows: &'a [WindowRow],
    health: &'a Health,
    scrapes: &'a [ScrapeRow],
    places: BTreeMap<(u32, u32), usize>,
    open: BTreeMap<usize, Window<'a>>,
    done: BTreeMap<usize, WindowExhibits>,
}

impl<'a> Gathered<'a> {
    fn new(windows: &'a [WindowRow], health: &'a Health, scrapes: &'a [ScrapeRow]) -> Self {
        // of two lines for one window the first counts, as everywhere
        let places = windows.iter().enumerate().rev().map(|(place, w)| ((w.cell, w.window), place)).collect();
        Gathered { windows, health, scrapes, places, open: BTreeMap::new(), done: BTreeMap::new() }
    }

    fn take(&mut self, row: &Row) {
        let Some(place) = self.places.get(&(row.cell, row.window)).copied() else { return };
        let bounds = &self.windows[place];
        let window = self.open.entry(place).or_insert_with(|| Window::new(bounds));
        window.take(row);
        if window.rows == bounds.rows {
            self.close(place);
        }
    }

    fn close(&mut self, place: usize) {
        let window = self.open.remove(&place).unwrap_or_else(|| Window::new(&self.windows[place]));
        self.done.insert(place, window.finish(self.health, self.scrapes));
    }

    fn finish(mut self) -> Vec<WindowExhibits> {
        // without rows, or with fewer than its line says
        let missing: Vec<usize> = (0..self.windows.len()).filter(|place| !self.done.contains_key(place)).collect();
        missing.into_iter().for_each(|place| self.close(place));
        self.done.into_values().collect()
    }
}

/// What is kept of a window while its rows go by.
struct Window<'a> {
    bounds: &'a WindowRow,
    cut: Cut,
    rows: u64,
    /// Last submit of the warm-up.
    warm_up: Option<u64>,
    course: Course,
    ttft: Values,
    e2e: Values,
    gap: Values,
    gaps: Gaps,
}

impl<'a> Window<'a> {
    fn new(bounds: &'a WindowRow) -> Self {
        let cut = Cut::of(bounds);
        Window {
            bounds,
            cut,
            rows: 0,
            warm_up: None,
            course: Course::new(cut),
            ttft: Values::default(),
            e2e: Values::default(),
            gap: Values::default(),
            gaps: Gaps::default(),
        }
    }

    fn take(&mut self, row: &Row) {
        self.rows += 1;
        if row.outcome == Outcome::NotSent {
            return;
        }
        self.course.take(row, self.bounds.closed);
        if row.phase == Phase::Warmup {
            self.warm_up = self.warm_up.max(row.submit);
        } else if row.outcome == Outcome::Ok {
            self.ttft.push(definitions::ttft(row));
            self.e2e.push(definitions::e2e(row));
            for (end, gap) in definitions::ended_gaps(row) {
                self.gap.push(gap);
                gap.gross.into_iter().for_each(|ns| self.gaps.push(self.cut.place(end.seen), ns));
            }
        }
    }

    fn finish(self, health: &Health, scrapes: &[ScrapeRow]) -> WindowExhibits {
        let (bounds, cut) = (self.bounds, self.cut);
        WindowExhibits {
            cell: bounds.cell,
            window: bounds.window,
            opened_s: seconds(bounds.opened),
            duration_s: seconds(bounds.closed.saturating_sub(bounds.opened)),
            warmup_until_s: self.warm_up.map(|t| cut.at_s(t)),
            slice_s: cut.length_s(),
            slices: self.course.finish(bounds),
            ttft: self.ttft.finish(),
            e2e: self.e2e.finish(),
            gap: self.gap.finish(),
            gap_map: self.gaps.finish(&cut),
            client: client::of_window(health, bounds, &cut),
            server: server::of_window(scrapes, bounds, &cut),
        }
    }
}
