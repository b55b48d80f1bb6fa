//! The windows of a campaign, one round of all load points after another, each with its own facts on disk.

use super::canary::Canary;
use super::feeder::{Feeder, Tickets};
use super::recorder::{self, Recorder};
use super::scraper::{self, Scraper};
use super::{Voice, health};
use crate::evidence::CANARY;
use crate::load_point::Cell;
use crate::plan::Plan;
use crate::report::terminal;
use crate::rundir::row::StampSource;
use crate::rundir::window::{Counters, LoadModel, WindowRow, WorkerShare};
use crate::target::metrics_source::MetricsSource;
use crate::target::openai::BodyTemplate;
use crate::workload::nonce::Nonces;
use anyhow::{Context, bail};
use bench_engine::clock::{Clock, SystemClock};
use bench_engine::conn::KeepAlive;
use bench_engine::engine::{Engine, WorkerInfo, keep_alive_of, spread};
use bench_engine::units::{Instant, Nanos};
use bench_engine::wire::request::RequestTemplate;
use bench_engine::worker::{Shared, WindowReport};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Between giving the order and the opening of a window.
const LEAD: Nanos = Nanos::from_millis(20);
/// Pause of the control loop.
const TICK: Duration = Duration::from_millis(20);

/// A campaign under way.
pub(super) struct Campaign<'a> {
    pub(super) plan: &'a Plan,
    pub(super) dir: &'a Path,
    pub(super) run_id: &'a str,
    pub(super) origin: Instant,
    pub(super) engine: &'a Engine,
    pub(super) workers: &'a [WorkerInfo],
    pub(super) shared: &'a Shared,
    pub(super) request: &'a RequestTemplate,
    pub(super) body: &'a BodyTemplate,
    pub(super) canary: Option<&'a Canary>,
    pub(super) metrics: Option<&'a MetricsSource>,
    pub(super) secret: Option<&'a str>,
    pub(super) stamps: StampSource,
    pub(super) stop: &'a AtomicBool,
    pub(super) voice: &'a Voice,
}

impl Campaign<'_> {
    /// Runs every window: one round of all load points after another, so that the windows of a load point lie
    /// apart in time. Whether the user interrupted it, and how many requests of the canary failed.
    pub(super) fn run_windows(&self) -> anyhow::Result<(bool, u64)> {
        let open =
            |name: &str| File::create(self.dir.join(name)).with_context(|| self.dir.join(name).display().to_string());
        let mut files = Files { windows: open("windows.jsonl")?, health: open("health.jsonl")? };
        let tickets = Tickets::default();
        let desk = recorder::Desk::default();
        let recorder = Recorder {
            shared: self.shared,
            tickets: &tickets,
            desk: &desk,
            run: self.run_id,
            origin: self.origin,
            stamps: self.stamps,
            secret: self.secret,
            out: BufWriter::with_capacity(1 << 18, open("requests.jsonl")?),
            canary_out: self.canary.map(|_| open(CANARY.rows)).transpose()?.map(BufWriter::new),
        };
        std::thread::scope(|scope| {
            let recording =
                std::thread::Builder::new().name("recorder".to_owned()).spawn_scoped(scope, || recorder.run())?;
            let told = recorder::Told(&desk.over);
            let scraper = self
                .metrics
                .map(|source| Scraper::start(scope, source, self.origin, open(scraper::FILE)?))
                .transpose()?;
            let ran = self.rounds(&tickets, &desk, scraper.as_ref(), &mut files);
            drop(told);
            let scraped = scraper.map_or(Ok(()), Scraper::end);
            let recorded = recording.join().map_err(|_| anyhow::anyhow!("the record reader ended unexpectedly"))?;
            recorded.with_context(|| format!("{} cannot be written", self.dir.join("requests.jsonl").display()))?;
            scraped?;
            ran.map(|interrupted| (interrupted, desk.canary_failed.load(Ordering::Relaxed)))
        })
    }

    fn rounds(
        &self,
        tickets: &Tickets,
        desk: &recorder::Desk,
        scraper: Option<&Scraper<'_>>,
        files: &mut Files,
    ) -> anyhow::Result<bool> {
        let nonces = Nonces::of_run(self.run_id);
        scraper.into_iter().for_each(Scraper::before);
        let mut serial = 0;
        for window in 0..self.plan.windows {
            if window > 0 {
                self.rest(files)?;
            }
            for (index, cell) in self.plan.cells.iter().enumerate() {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(true);
                }
                let place = WindowPlace { index: index as u32, cell, window, serial };
                let row = self.window(place, &nonces, tickets, desk, scraper, files)?;
                files.window(&row)?;
                serial += 1;
                if row.interrupted {
                    let by_user = self.stop.load(Ordering::Relaxed);
                    if let (false, Some(limit)) = (by_user, self.plan.stop_at_failed) {
                        self.voice.say(format!("the run ends here: --stop-at-failed {limit} is reached"));
                    }
                    return Ok(by_user);
                }
            }
        }
        Ok(self.stop.load(Ordering::Relaxed))
    }

    fn rest(&self, files: &mut Files) -> anyhow::Result<()> {
        let gap = Nanos::from_secs_f64(self.plan.gap_between_windows_s).unwrap_or(Nanos::ZERO);
        let until = SystemClock.now() + gap;
        let mut next_sample = SystemClock.now();
        while SystemClock.now() < until && !self.stop.load(Ordering::Relaxed) {
            self.sample_when_due(&mut next_sample, files)?;
            std::thread::sleep(TICK);
        }
        Ok(())
    }

    fn window(
        &self,
        place: WindowPlace<'_>,
        nonces: &Nonces,
        tickets: &Tickets,
        desk: &recorder::Desk,
        scraper: Option<&Scraper<'_>>,
        files: &mut Files,
    ) -> anyhow::Result<WindowRow> {
        let workers = self.workers.len() as u32;
        let slots = spread(place.cell.slots(), workers);
        let prepared = self.engine.prepare(&spread(place.cell.opened_ahead(), workers))?;
        if let Some(failure) = prepared.iter().find_map(|p| p.failure) {
            let opened: u32 = prepared.iter().map(|p| p.opened).sum();
            if place.serial == 0 && opened == 0 {
                bail!("no connection could be opened for the first window: {failure}");
            }
            self.voice.say(format!("WARNING: not all connections could be opened ahead: {failure}"));
        }
        desk.begin_window();
        self.shared.stop.store(false, Ordering::Relaxed);
        self.shared.supply_over.store(false, Ordering::Release);
        let steps_before = desk.clock_steps.load(Ordering::Relaxed);
        let waits_before = self.shared.reader_waits.load(Ordering::Relaxed);
        let plan = self.plan;
        let feeding = AtomicBool::new(true);
        let opened_at = AtomicU64::new(0);
        let mut opened = Instant::default();
        let mut reports: Vec<WindowReport> = Vec::new();
        let mut next_sample = Instant::default();
        let feeder = Feeder {
            workload: &plan.workload,
            request: self.request,
            body: self.body,
            nonces,
            cell: place.cell,
            index: place.index,
            window: place.window,
            serial: place.serial,
            drop: plan.drop,
            kept: plan.num_prompts,
            min_duration: Nanos::from_secs_f64(plan.min_duration_s).unwrap_or(Nanos::ZERO),
            opened: &opened_at,
            shared: self.shared,
            tickets,
        };
        let made = std::thread::scope(|scope| -> anyhow::Result<u64> {
            // requests are made ahead; the window opens when the first ones are there
            let enough = match place.cell {
                Cell::Closed { concurrency } => (*concurrency as usize).min(self.shared.supply.capacity()),
                Cell::Open(_) => place.cell.supply_depth().min(self.shared.supply.capacity()),
            };
            let start = SystemClock.now() + lead(enough);
            let (feeder, feeding) = (&feeder, &feeding);
            let feeder = std::thread::Builder::new().name("feeder".to_owned()).spawn_scoped(scope, move || {
                let made = feeder.run();
                feeding.store(false, Ordering::Release);
                made
            })?;
            let mut go = || -> anyhow::Result<()> {
                while SystemClock.now() < start && self.shared.supply.len() < enough && feeding.load(Ordering::Acquire)
                {
                    std::thread::sleep(Duration::from_millis(1));
                }
                self.sample(files)?;
                let tend_canary =
                    || self.canary.iter().for_each(|c| c.top_up(self.shared, tickets, desk, place.index, place.window));
                tend_canary();
                opened = SystemClock.now() + LEAD;
                opened_at.store(opened.ns(), Ordering::Release);
                self.engine.begin(place.cell.load(), &slots, opened)?;
                scraper.into_iter().for_each(|s| s.opened(place.index, place.window, opened));
                while !self.engine.poll_window(&mut reports)? {
                    let failed = desk.tally.failed.load(Ordering::Relaxed);
                    let too_many = plan.stop_at_failed.is_some_and(|limit| failed >= limit);
                    let broken = desk.broken.load(Ordering::Relaxed);
                    if self.stop.load(Ordering::Relaxed) || too_many || broken {
                        self.shared.stop.store(true, Ordering::Relaxed);
                    }
                    tend_canary();
                    self.sample_when_due(&mut next_sample, files)?;
                    std::thread::sleep(TICK);
                }
                Ok(())
            };
            let ran = go();
            self.canary.iter().for_each(|c| c.take_back(self.shared, tickets));
            let interrupted = self.shared.stop.load(Ordering::Relaxed);
            // whatever happened, the feeder must not wait for room that nobody makes
            self.shared.stop.store(true, Ordering::Relaxed);
            let made = feeder.join().map_err(|_| anyhow::anyhow!("the request feeder ended unexpectedly"))?;
            self.shared.stop.store(interrupted, Ordering::Relaxed);
            ran.map(|()| made)
        })?;
        let closed = SystemClock.now();
        scraper.into_iter().for_each(|s| s.closed(place.index, place.window));
        self.sample(files)?;
        let unsent = feeder.leave_unsent(made, opened, closed);
        let in_hand: u64 = reports.iter().map(|r| u64::from(r.never_due)).sum();
        let rows = self.wait_for_rows(made + unsent.not_made - unsent.never_due - in_hand, desk);
        scraper.into_iter().for_each(Scraper::settle);
        let waits = self.shared.reader_waits.load(Ordering::Relaxed) - waits_before;
        let counters = self.counters(&reports, desk, steps_before, waits);
        let row = self.window_row(place, opened, closed, rows, counters, &reports, desk);
        self.tell(&row, &reports, desk);
        Ok(row)
    }

    /// Every request that was due becomes a row.
    fn wait_for_rows(&self, expected: u64, desk: &recorder::Desk) -> u64 {
        while desk.tally.rows.load(Ordering::Acquire) < expected && !desk.broken.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(2));
        }
        desk.tally.rows.load(Ordering::Acquire)
    }

    fn counters(
        &self,
        reports: &[WindowReport],
        desk: &recorder::Desk,
        steps_before: u64,
        reader_waits: u64,
    ) -> Counters {
        let sum = |of: fn(&WindowReport) -> u64| reports.iter().map(of).sum::<u64>();
        Counters {
            tx_stamps_missing: desk.tally.tx_stamps_missing.load(Ordering::Relaxed),
            rx_stamps_missing: sum(|r| r.driver.rx_stamps_missing),
            stamps_out_of_order: desk.tally.out_of_order.load(Ordering::Relaxed),
            clock_steps: desk.clock_steps.load(Ordering::Relaxed) - steps_before,
            map_uncertainty_ns: desk.map_uncertainty_ns.load(Ordering::Relaxed),
            ring_overflow: sum(|r| r.driver.ring_overflow),
            receives_repeated: sum(|r| r.driver.receives_repeated),
            pool_exhausted: sum(|r| u64::from(r.pool_exhausted)),
            supply_starved: sum(|r| u64::from(r.starved)),
            reader_waits,
            connections_opened: sum(|r| u64::from(r.opened)),
            connections_closed_by_server: sum(|r| u64::from(r.closed_by_server)),
        }
    }

    #[allow(clippy::too_many_arguments)] // the row has no other maker
    fn window_row(
        &self,
        place: WindowPlace<'_>,
        opened: Instant,
        closed: Instant,
        rows: u64,
        counters: Counters,
        reports: &[WindowReport],
        desk: &recorder::Desk,
    ) -> WindowRow {
        let axis = |at: Instant| at.saturating_since(self.origin).ns();
        let share = |w: &WorkerInfo| {
            let report = reports.iter().find(|r| r.worker == w.index).copied().unwrap_or_default();
            WorkerShare {
                worker: w.index,
                core: Some(w.core as u32),
                tid: w.tid as u64,
                batches: report.driver.batches,
                max_batch: u64::from(report.driver.max_batch),
                busy_ns: report.driver.busy_ns,
            }
        };
        WindowRow {
            run: self.run_id.to_owned(),
            cell: place.index,
            window: place.window,
            load: place.cell.recorded(),
            opened: axis(opened),
            closed: axis(closed),
            planned: self.plan.drop + self.plan.num_prompts,
            drop: self.plan.drop,
            slots: place.cell.slots(),
            trace_hash: self.plan.trace_hash.clone(),
            schedule_hash: place.cell.schedule_hash().map(str::to_owned),
            interrupted: self.shared.stop.load(Ordering::Relaxed),
            rows,
            last_h: desk.last_h(),
            counters,
            workers: self.workers.iter().map(share).collect(),
        }
    }

    fn tell(&self, row: &WindowRow, reports: &[WindowReport], desk: &recorder::Desk) {
        let failed = desk.tally.failed.load(Ordering::Relaxed);
        self.voice.say(format!(
            "window   {}/{} {}: {} requests, {failed} failed, {:.1} s{}",
            row.window + 1,
            self.plan.windows,
            match row.load.model {
                LoadModel::Closed => format!("at concurrency {}", row.slots),
                LoadModel::Open | LoadModel::Trace => terminal::load(&row.load),
            },
            row.rows,
            (row.closed - row.opened) as f64 / 1e9,
            if row.interrupted { ", INTERRUPTED" } else { "" },
        ));
        if row.window == 0 && keep_alive_of(reports) == KeepAlive::Refused {
            self.voice.say(
                "         the server closes each connection after a reply although it announces keep-alive: \
                 every request gets a new one (flag reopened)",
            );
        }
        let c = &row.counters;
        for (n, words) in [
            (c.ring_overflow, "completions were lost: this window is not valid"),
            (c.pool_exhausted, "times no block was free to record in: requests failed as client"),
            (
                c.supply_starved,
                match row.load.model {
                    LoadModel::Closed => "times a free slot found no request ready: the load was late",
                    _ => "requests were not made yet when they were due: the load was late",
                },
            ),
            (c.clock_steps, "steps of the wall clock: kernel stamps around them are null"),
            (c.reader_waits, "times a worker waited for the record reader: this window is not valid"),
        ] {
            if n > 0 {
                self.voice.say(format!("WARNING: {n} {words}"));
            }
        }
    }

    fn sample_when_due(&self, next: &mut Instant, files: &mut Files) -> anyhow::Result<()> {
        if SystemClock.now() >= *next {
            self.sample(files)?;
            *next = SystemClock.now() + Nanos::from_secs(1);
        }
        Ok(())
    }

    fn sample(&self, files: &mut Files) -> anyhow::Result<()> {
        let t = SystemClock.now().saturating_since(self.origin).ns();
        let workers = self.workers.iter().zip(self.engine.busy_ns());
        let workers: BTreeMap<u64, health::Pinned> =
            workers.map(|(w, busy_ns)| (w.tid as u64, health::Pinned { core: w.core as u32, busy_ns })).collect();
        health::sample(t, &workers).iter().try_for_each(|row| write_line(&mut files.health, row))
    }
}

/// Which window.
#[derive(Clone, Copy)]
struct WindowPlace<'a> {
    index: u32,
    cell: &'a Cell,
    window: u32,
    serial: u64,
}

struct Files {
    windows: File,
    health: File,
}

impl Files {
    fn window(&mut self, row: &WindowRow) -> anyhow::Result<()> {
        write_line(&mut self.windows, row)
    }
}

/// Time to make the first requests in: generous, since the window opens as soon as they are there.
fn lead(requests: usize) -> Nanos {
    Nanos::from_millis(200) + Nanos::from_micros(500 * requests as u64)
}

fn write_line(file: &mut File, row: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut line = serde_json::to_string(row)?;
    line.push('\n');
    file.write_all(line.as_bytes()).context("the run directory cannot be written")
}
