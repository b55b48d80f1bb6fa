//! The windows of a campaign, one round of all load points after another, each with its own facts on disk. Two arms run
//! each window one right after the other; the one whose turn it is not sleeps.

use super::arm::Arm;
use super::conductor::Conductor;
use super::feeder::{Feeder, Tickets};
use super::injector::{Injector, Surroundings};
use super::mock_child::MockChild;
use super::over_saturation::Watch;
use super::recorder::{self, Recorder};
use super::scraper::{self, Scraper};
use super::supply::Supply;
use super::{Voice, canary, health};
use crate::analysis::definitions::load::is_used_up;
use crate::analysis::definitions::wording;
use crate::evidence::CANARY;
use crate::interleave::{self, Sequence};
use crate::live::Live;
use crate::live::board::{Counts, End, Facts, Window};
use crate::live::course::{Course, Rests};
use crate::live::seen::Watched;
use crate::load_point::Cell;
use crate::report::saturation::over_saturated;
use crate::report::terminal;
use crate::rundir::mark;
use crate::rundir::opening;
use crate::rundir::rows::{REQUESTS, RowFiles};
use crate::rundir::window::{self, Counters, LoadModel, WindowRow, WorkerShare};
use crate::workload::nonce::Nonces;
use crate::workload::prompt::PromptMaker;
use anyhow::{Context, bail};
use bench_engine::clock::{Clock, SystemClock};
use bench_engine::conn::KeepAlive;
use bench_engine::engine::{WorkerInfo, keep_alive_of, spread};
use bench_engine::units::{Instant, Nanos};
use bench_engine::worker::WindowReport;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Between giving the order and the opening of a window.
const LEAD: Nanos = Nanos::from_millis(20);
/// Said before the reason when the file that requests come from fails in the middle of a run.
const OUT_OF_REQUESTS: &str = "the next request cannot be made";
/// Pause of the control loop.
const TICK: Duration = Duration::from_millis(20);

/// A campaign under way.
pub(super) struct Campaign<'a> {
    pub(super) arm: &'a Arm<'a>,
    pub(super) stop: &'a AtomicBool,
    pub(super) live: &'a RefCell<Live>,
}

/// How the windows ended.
pub(super) struct Ran {
    /// The user ended them.
    pub(super) interrupted: bool,
    /// Failed requests of each arm's canary.
    pub(super) canary_failed: Vec<u64>,
}

/// What a campaign shares with its recorder.
#[derive(Default)]
struct Books {
    tickets: Tickets,
    desk: recorder::Desk,
}

/// Runs every window: one round of all load points after another, so that the windows of a load point lie apart in time.
/// With a sequence there are two campaigns, and each window is run by both in the order that it says.
pub(super) fn run(campaigns: &[Campaign<'_>], sequence: Option<&Sequence>) -> anyhow::Result<Ran> {
    let mut files = campaigns.iter().map(Campaign::files).collect::<anyhow::Result<Vec<_>>>()?;
    let books: Vec<Books> = campaigns.iter().map(|_| Books::default()).collect();
    let recorders: Vec<_> =
        campaigns.iter().zip(&books).map(|(c, books)| c.recorder(books)).collect::<Result<_, _>>()?;
    if campaigns.len() > 1 {
        books.iter().for_each(|books| books.desk.fall_asleep());
    }
    std::thread::scope(|scope| {
        let told: Vec<_> = books.iter().map(|books| recorder::Told(&books.desk)).collect();
        let mut recording = Vec::new();
        for recorder in recorders {
            let thread = std::thread::Builder::new().name("recorder".to_owned());
            recording.push(thread.spawn_scoped(scope, move || recorder.run())?);
        }
        let scrapers = campaigns.iter().map(|c| c.scraper(scope)).collect::<anyhow::Result<Vec<_>>>()?;
        let ran = rounds(campaigns, sequence, &books, &scrapers, &mut files);
        drop(told);
        let scraped: Vec<_> = scrapers.into_iter().flatten().map(Scraper::end).collect();
        for (campaign, recording) in campaigns.iter().zip(recording) {
            let recorded = recording.join().map_err(|_| anyhow::anyhow!("the record reader ended unexpectedly"))?;
            let path = campaign.arm.dir.join(REQUESTS);
            recorded.with_context(|| format!("{} cannot be written", path.display()))?;
        }
        scraped.into_iter().collect::<anyhow::Result<()>>()?;
        let canary_failed = books.iter().map(|books| books.desk.canary_failed.load(Ordering::Relaxed)).collect();
        ran.map(|interrupted| Ran { interrupted, canary_failed })
    })
}

/// The rounds of all campaigns. Whether the user interrupted them.
fn rounds(
    campaigns: &[Campaign<'_>],
    sequence: Option<&Sequence>,
    books: &[Books],
    scrapers: &[Option<Scraper<'_>>],
    files: &mut [Files],
) -> anyhow::Result<bool> {
    let Campaign { arm, stop, .. } = &campaigns[0];
    let prompts: Vec<PromptMaker> = campaigns.iter().map(Campaign::prompts).collect();
    scrapers.iter().flatten().for_each(Scraper::before);
    let mut serial = 0;
    for window in 0..arm.plan.windows {
        for (index, cell) in arm.plan.cells.iter().enumerate() {
            rest(campaigns, files, arm.plan.rest_before(window, index))?;
            // both arms ask the same of a window, in the same words but for the nonces
            let place = WindowPlace { index: index as u32, cell, window, serial };
            serial += 1;
            for turn in turns(sequence, index, window) {
                if stop.load(Ordering::Relaxed) {
                    return Ok(true);
                }
                let campaign = &campaigns[turn];
                let scraper = scrapers[turn].as_ref();
                if sequence.is_some() {
                    books[turn].desk.wake_up();
                    // both arms may be one server: what the other one asked of it since must not count here
                    scraper.into_iter().for_each(Scraper::before);
                }
                let row = campaign.window(place, &prompts[turn], &books[turn], scraper, &mut files[turn])?;
                if books[turn].desk.broken.load(Ordering::Relaxed) {
                    // the recorder says why. Its last rows may not be in their file, so the window gets no line: it is told
                    // by those that are
                    return Ok(false);
                }
                files[turn].window(&row)?;
                if sequence.is_some() {
                    books[turn].desk.fall_asleep();
                }
                if row.interrupted {
                    let by_user = stop.load(Ordering::Relaxed);
                    if let (false, Some(limit)) = (by_user, campaign.arm.plan.stop_at_failed) {
                        campaign.say(format!("the run ends here: --stop-at-failed {limit} is reached"));
                    }
                    return Ok(by_user);
                }
            }
        }
    }
    Ok(stop.load(Ordering::Relaxed))
}

/// Which campaigns run a window, in order.
fn turns(sequence: Option<&Sequence>, cell: usize, window: u32) -> Vec<usize> {
    let place = |arm: interleave::Arm| arm as usize;
    sequence.map_or_else(|| vec![0], |sequence| sequence.pair(cell, window).map(place).to_vec())
}

/// Nothing is sent for so long; the host is watched.
fn rest(campaigns: &[Campaign<'_>], files: &mut [Files], gap: Nanos) -> anyhow::Result<()> {
    if gap == Nanos::ZERO {
        return Ok(());
    }
    let until = SystemClock.now() + gap;
    let mut next_sample = vec![SystemClock.now(); campaigns.len()];
    campaigns[0].live.borrow_mut().rest(SystemClock.now(), until);
    while SystemClock.now() < until && !campaigns[0].stop.load(Ordering::Relaxed) {
        for ((campaign, files), next) in campaigns.iter().zip(files.iter_mut()).zip(&mut next_sample) {
            campaign.sample_when_due(next, files)?;
        }
        campaigns[0].live.borrow_mut().tick(SystemClock.now(), Counts::default);
        std::thread::sleep(TICK);
    }
    Ok(())
}

/// Tells of the windows of all arms while they run.
pub(super) fn live_view(arms: &[Arm<'_>], voice: &Voice) -> anyhow::Result<Live> {
    let plan = arms[0].plan;
    let length = |cell: &Cell| {
        last_due(cell)
            .map(|last| last.max(Nanos::from_secs_f64(plan.min_duration_s).unwrap_or(last)))
            .or(plan.duration())
    };
    let planned = plan.cells.iter().map(length).collect();
    let rests = Rests { rounds: plan.rest_before(1, 0), load_points: plan.rest_before(0, 1) };
    let facts = Facts {
        model: arms[0].server.model.clone(),
        max_failed: plan.max_failed,
        course: Course::new(planned, plan.windows, arms.len() as u32, rests),
    };
    Ok(Live::start(voice, plan.output.quiet || plan.output.json, facts)?)
}

/// From a window's opening to the last request of its schedule; None in closed loop.
fn last_due(cell: &Cell) -> Option<Nanos> {
    match cell {
        Cell::Closed { .. } | Cell::Sessions(_) => None,
        Cell::Open(open) => Nanos::from_secs_f64(open.last_due_s),
        Cell::Trace(replay) => Nanos::from_secs_f64(replay.last_due_s),
    }
}

impl Campaign<'_> {
    fn say(&self, words: impl AsRef<str>) {
        self.live.borrow().say(words);
    }

    fn create(&self, name: &str) -> anyhow::Result<File> {
        let path = self.arm.dir.join(name);
        File::create(&path).with_context(|| path.display().to_string())
    }

    fn files(&self) -> anyhow::Result<Files> {
        let marks = (!self.arm.plan.injections.is_empty()).then(|| self.create(mark::FILE)).transpose()?;
        let dir = self.arm.dir.to_path_buf();
        Ok(Files { windows: self.create("windows.jsonl")?, health: self.create("health.jsonl")?, marks, dir })
    }

    /// What is done on purpose in a window that opens then.
    fn injector(&self, place: WindowPlace<'_>, opened: Instant) -> Injector<'_> {
        let server = &self.arm.server;
        let surroundings = Surroundings {
            base_url: &server.target.base_url,
            server: server.mock.as_ref().map(MockChild::id),
            secret: server.secret.as_deref(),
            origin: self.arm.origin,
            cell: place.index,
            window: place.window,
        };
        Injector::new(&self.arm.plan.injections, opened, surroundings)
    }

    fn prompts(&self) -> PromptMaker {
        let plan = self.arm.plan;
        let nonces = Nonces::of_run(&self.arm.run_id);
        PromptMaker {
            seed: plan.workload.seed,
            // hosts that share a load share blocks, and know nothing of each other's run
            window_words: plan.shard.map_or_else(|| nonces.clone(), |_| Nonces::of_shards(plan.workload.seed)),
            nonces,
            gauge: self.arm.lengths.gauge,
            tokenizer: plan.tokenizer.clone(),
            cache: plan.workload.cache,
            form: plan.workload.prompt_form,
            texts_counted: plan.workload.lengths.dataset().is_some(),
            drop: plan.drop,
        }
    }

    fn scraper<'scope, 'env>(
        &'env self,
        scope: &'scope std::thread::Scope<'scope, 'env>,
    ) -> anyhow::Result<Option<Scraper<'scope>>> {
        let Ok(source) = &self.arm.server.metrics else { return Ok(None) };
        Ok(Some(Scraper::start(scope, source, self.arm.origin, self.create(scraper::FILE)?)?))
    }

    fn recorder<'b>(&'b self, books: &'b Books) -> anyhow::Result<Recorder<'b, RowFiles<'b>>> {
        let rows = |first, most, part| {
            RowFiles::create(self.arm.dir, first, most, part)
                .with_context(|| self.arm.dir.join(first).display().to_string())
        };
        // the canary is slow: its rows stay in one file
        let canary_out = self.arm.canary.as_ref().map(|_| rows(CANARY.rows, u64::MAX, None)).transpose()?;
        Ok(Recorder {
            shared: &self.arm.shared,
            tickets: &books.tickets,
            desk: &books.desk,
            run: &self.arm.run_id,
            origin: self.arm.origin,
            stamps: self.arm.stamps,
            addresses: match &*self.arm.server.target.used {
                [_] => Vec::new(),
                several => several.iter().map(ToString::to_string).collect(),
            },
            secret: self.arm.server.secret.as_deref(),
            load_slots: spread(self.arm.plan.most_connections(), self.arm.workers.len() as u32),
            out: rows(REQUESTS, self.arm.plan.output.raw_file_bytes, Some(&books.desk.part))?,
            canary_out,
        })
    }

    fn window(
        &self,
        place: WindowPlace<'_>,
        prompts: &PromptMaker,
        books: &Books,
        scraper: Option<&Scraper<'_>>,
        files: &mut Files,
    ) -> anyhow::Result<WindowRow> {
        let Arm { shared, engine, canary, plan, .. } = self.arm;
        let Books { tickets, desk } = books;
        let workers = self.arm.workers.len() as u32;
        let slots = spread(place.cell.slots(), workers);
        self.announce(place, desk);
        let prepared = engine.prepare(&spread(place.cell.opened_ahead(), workers))?;
        if let Some(failure) = prepared.iter().find_map(|p| p.failure) {
            let opened: u32 = prepared.iter().map(|p| p.opened).sum();
            if place.serial == 0 && opened == 0 {
                bail!("no connection could be opened for the first window: {failure}");
            }
            self.say(format!("WARNING: not all connections could be opened ahead: {failure}"));
        }
        desk.begin_window();
        shared.stop.store(false, Ordering::Relaxed);
        shared.supply_over.store(false, Ordering::Release);
        let steps_before = desk.clock_steps.load(Ordering::Relaxed);
        let waits_before = shared.reader_waits.load(Ordering::Relaxed);
        let feeding = AtomicBool::new(true);
        let opened_at = AtomicU64::new(0);
        let mut opened = Instant::default();
        let mut reports: Vec<WindowReport> = Vec::new();
        let mut next_sample = Instant::default();
        let early_end = plan.early_end.as_ref();
        let mut watch = match early_end.is_some_and(|end| end.when_over_saturated) {
            true => Watch::of(place.cell).context(OUT_OF_REQUESTS)?,
            false => None,
        };
        let at_most = early_end.and_then(|end| Nanos::from_secs_f64(end.at_most_s));
        let primed = AtomicBool::new(false);
        let mut supply = self.supply(place, prompts, books, &opened_at, &primed).context(OUT_OF_REQUESTS)?;
        let made = std::thread::scope(|scope| -> anyhow::Result<u64> {
            // requests are made ahead; the window opens when the first ones are there
            let enough = match place.cell {
                Cell::Closed { concurrency } => (*concurrency as usize).min(shared.supply.capacity()),
                Cell::Open(_) | Cell::Trace(_) | Cell::Sessions(_) => {
                    place.cell.supply_depth().min(shared.supply.capacity())
                }
            };
            let ready = || shared.supply.len() >= enough || primed.load(Ordering::Acquire);
            let start = SystemClock.now() + lead(enough);
            let (supply, feeding) = (&mut supply, &feeding);
            let feeder = std::thread::Builder::new().name("feeder".to_owned()).spawn_scoped(scope, move || {
                let made = supply.run();
                feeding.store(false, Ordering::Release);
                made
            })?;
            let mut go = || -> anyhow::Result<()> {
                while SystemClock.now() < start && !ready() && feeding.load(Ordering::Acquire) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                self.sample(files)?;
                let tend_canary =
                    || canary.iter().for_each(|c| c.top_up(shared, tickets, desk, place.index, place.window));
                tend_canary();
                opened = SystemClock.now() + LEAD;
                opened_at.store(opened.ns(), Ordering::Release);
                engine.begin(place.cell.load(), &slots, opened)?;
                self.live.borrow_mut().open(opened);
                // closes now, as far as anybody could say if the run were killed
                let begun = self.window_row(place, opened, opened, 0, Counters::default(), &[], desk);
                opening::write(self.arm.dir, &begun).with_context(|| not_written(self.arm.dir, opening::FILE))?;
                scraper.into_iter().for_each(|s| s.opened(place.index, place.window, opened));
                let clock = || SystemClock.now();
                let mut injector = self.injector(place, opened);
                while !engine.poll_window(&mut reports)? {
                    let failed = desk.tally.failed.load(Ordering::Relaxed);
                    let too_many = plan.stop_at_failed.is_some_and(|limit| failed >= limit);
                    let broken = desk.broken.load(Ordering::Relaxed);
                    let open_for = SystemClock.now().saturating_since(opened);
                    let too_long = at_most.is_some_and(|most| open_for > most);
                    let too_much = watch.as_mut().is_some_and(|watch| self.is_over_saturated(watch, open_for, desk));
                    if self.stop.load(Ordering::Relaxed) || too_many || broken || too_long || too_much {
                        shared.stop.store(true, Ordering::Relaxed);
                    }
                    tend_canary();
                    injector
                        .tend(clock, shared.stop.load(Ordering::Relaxed), &mut files.marks, &|words| self.say(words))?;
                    self.sample_when_due(&mut next_sample, files)?;
                    let now = SystemClock.now();
                    self.live.borrow_mut().tick(now, || self.counts(place, now, opened, books, scraper));
                    let idle = injector.idle(clock()).map(|idle| Duration::from_nanos(idle.ns()));
                    std::thread::sleep(idle.map_or(TICK, |idle| idle.min(TICK)));
                }
                injector.close(clock, &mut files.marks, &|words| self.say(words))
            };
            let ran = go();
            canary.iter().for_each(|c| c.take_back(shared, tickets));
            let interrupted = shared.stop.load(Ordering::Relaxed);
            // whatever happened, the feeder must not wait for room that nobody makes
            shared.stop.store(true, Ordering::Relaxed);
            let made = feeder.join().map_err(|_| anyhow::anyhow!("the request feeder ended unexpectedly"))?;
            shared.stop.store(interrupted, Ordering::Relaxed);
            ran?;
            made.context(OUT_OF_REQUESTS)
        })?;
        let closed = SystemClock.now();
        self.live.borrow_mut().close(closed);
        scraper.into_iter().for_each(|s| s.closed(place.index, place.window));
        self.sample(files)?;
        let in_hand: u64 = reports.iter().map(|r| u64::from(r.never_due)).sum();
        let unsent = supply.leave_unsent(opened, closed, in_hand).context(OUT_OF_REQUESTS)?;
        let rows = self.wait_for_rows(made + unsent.not_made - unsent.never_due - in_hand, desk);
        scraper.into_iter().for_each(Scraper::settle);
        let waits = shared.reader_waits.load(Ordering::Relaxed) - waits_before;
        let mut counters = self.counters(&reports, desk, steps_before, waits);
        counters.supply_starved += supply.late();
        let row = self.window_row(place, opened, closed, rows, counters, &reports, desk);
        self.live.borrow_mut().end(SystemClock.now());
        self.tell(&row, &reports, desk);
        Ok(row)
    }

    /// What makes the requests of a window, and is ready to begin.
    fn supply<'w>(
        &'w self,
        place: WindowPlace<'w>,
        prompts: &'w PromptMaker,
        Books { tickets, desk }: &'w Books,
        opened: &'w AtomicU64,
        primed: &'w AtomicBool,
    ) -> io::Result<Supply<'w>> {
        let Arm { shared, plan, request, body, .. } = self.arm;
        let min_duration = Nanos::from_secs_f64(plan.min_duration_s).unwrap_or(Nanos::ZERO);
        let WindowPlace { index, cell, window, serial } = place;
        let drop = plan.drop;
        if let Cell::Sessions(load) = cell {
            let conductor = Conductor {
                request,
                body,
                prompts,
                load,
                index,
                window,
                serial,
                drop,
                min_duration: plan.duration().unwrap_or(min_duration),
                opened,
                shared,
                tickets,
                primed,
            };
            let conducting = conductor.with(load.sessions(&plan.workload)?, desk.tell_of_turns())?;
            return Ok(Supply::Conducted(Box::new(conducting)));
        }
        let feeder = Feeder {
            workload: &plan.workload,
            request,
            body,
            prompts,
            cell,
            index,
            shard: plan.shard,
            window,
            serial,
            drop,
            kept: plan.num_prompts,
            min_duration,
            until: plan.duration().filter(|_| matches!(cell, Cell::Closed { .. })),
            opened,
            shared,
            tickets,
        };
        Ok(Supply::Listed { feeder, made: 0 })
    }

    /// To whoever looks on: which window is made ready, and what the recorder shall see of it.
    fn announce(&self, place: WindowPlace<'_>, desk: &recorder::Desk) {
        let plan = self.arm.plan;
        let recorded = place.cell.recorded();
        let mut live = self.live.borrow_mut();
        if live.is_told() {
            desk.watch(Watched {
                streamed: plan.stream,
                scheduled: recorded.model != LoadModel::Closed,
                cap: recorded.concurrency,
                hosts: plan.shard.map_or(1, |shard| shard.of),
            });
        }
        let end = match last_due(place.cell) {
            Some(last_due) => End::Schedule { last_due },
            None if plan.duration_s.is_some() => End::Time { lasts: plan.duration().unwrap_or(Nanos::ZERO) },
            None => End::Number { at_least: Nanos::from_secs_f64(plan.min_duration_s).unwrap_or(Nanos::ZERO) },
        };
        let window = Window {
            arm: self.arm.side.map(|side| side.name()),
            load_point: place.index as usize,
            window: place.window,
            load: terminal::load(&recorded),
            planned: plan.requests_of_window(place.cell),
            slots: place.cell.slots(),
            end,
            streamed: plan.stream,
            spin: plan.spin,
        };
        live.prepare(SystemClock.now(), window);
    }

    /// How the window stands at `now`, from what is there anyway: no worker is asked.
    fn counts(
        &self,
        place: WindowPlace<'_>,
        now: Instant,
        opened: Instant,
        Books { tickets, desk }: &Books,
        scraper: Option<&Scraper<'_>>,
    ) -> Counts {
        let of_load = |job: &&u64| self.arm.canary.is_none() || !canary::is_canary(**job);
        let made = tickets.lock().map_or(0, |tickets| tickets.keys().filter(of_load).count() as u64);
        let ready = self.arm.shared.supply.len() as u64;
        let over = desk.waiting.load(Ordering::Relaxed);
        // under a schedule each worker with a free slot holds the next request until it is due
        let held =
            last_due(place.cell).filter(|last| now < opened + *last).map_or(0, |_| self.arm.workers.len() as u64);
        let slots = u64::from(place.cell.slots());
        let taken = made.saturating_sub(ready + over);
        Counts {
            sight: desk.sight(),
            token_events: desk.tally.token_events.load(Ordering::Relaxed),
            in_flight: if taken >= slots { slots } else { taken.saturating_sub(held) },
            server: scraper.and_then(Scraper::gauges),
        }
    }

    /// Whether the load is more than the server can do, said when it is.
    fn is_over_saturated(&self, watch: &mut Watch, open_for: Nanos, desk: &recorder::Desk) -> bool {
        let count = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let found = watch.look(open_for.secs_f64(), count(&desk.tally.rows), count(&desk.tally.first));
        if let Some(growth) = &found {
            self.say(format!("         {}; the window ends here", over_saturated(growth)));
        }
        found.is_some()
    }

    /// Every request that was due becomes a row, and is in its file before the window's line promises it.
    fn wait_for_rows(&self, expected: u64, desk: &recorder::Desk) -> u64 {
        let is_there = |n: &AtomicU64, wanted: u64| n.load(Ordering::Acquire) >= wanted;
        while !is_there(&desk.tally.rows, expected) && !desk.broken.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(2));
        }
        let recorded = desk.recorded.load(Ordering::Acquire);
        while !is_there(&desk.in_file, recorded) && !desk.broken.load(Ordering::Relaxed) {
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
        let axis = |at: Instant| at.saturating_since(self.arm.origin).ns();
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
            run: self.arm.run_id.clone(),
            cell: place.index,
            window: place.window,
            load: place.cell.recorded(),
            opened: axis(opened),
            closed: axis(closed),
            planned: self.arm.plan.requests_of_window(place.cell),
            drop: self.arm.plan.drop,
            slots: place.cell.slots(),
            spin: self.arm.plan.spin,
            trace_hash: self.arm.plan.trace_hash.clone(),
            schedule_hash: place.cell.schedule_hash().map(str::to_owned),
            interrupted: self.arm.shared.stop.load(Ordering::Relaxed),
            rows,
            last_h: desk.last_h(),
            part: desk.part.load(Ordering::Relaxed).max(1),
            counters,
            workers: self.arm.workers.iter().map(share).collect(),
        }
    }

    fn tell(&self, row: &WindowRow, reports: &[WindowReport], desk: &recorder::Desk) {
        let failed = desk.tally.failed.load(Ordering::Relaxed);
        let arm = self.arm.side.map_or_else(String::new, |side| format!("{}, ", side.name()));
        self.say(format!(
            "window   {arm}{}/{} {}: {} requests, {failed} failed, {:.1} s{}",
            row.window + 1,
            self.arm.plan.windows,
            match row.load {
                window::Load { model: LoadModel::Closed, sessions: None, .. } => {
                    format!("at concurrency {}", row.slots)
                }
                _ => terminal::load(&row.load),
            },
            row.rows,
            (row.closed - row.opened) as f64 / 1e9,
            if row.interrupted { ", INTERRUPTED" } else { "" },
        ));
        let lasted_s = (row.closed - row.opened) as f64 / 1e9;
        let asked_s = self.arm.plan.duration_s.unwrap_or(self.arm.plan.min_duration_s);
        if !row.interrupted && is_used_up(row.load.model == LoadModel::Closed, row.rows, lasted_s, asked_s) {
            self.say(format!("WARNING: {}", wording::used_up(row.rows, lasted_s, asked_s)));
        }
        let ended_here = keep_alive_of(reports) == KeepAlive::Refused;
        let afterwards = desk.tally.afterwards.so_far().words(ended_here);
        if let (0, Some(words)) = (row.window, afterwards) {
            self.say(format!("         {words}"));
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
                self.say(format!("WARNING: {n} {words}"));
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
        let t = SystemClock.now().saturating_since(self.arm.origin).ns();
        let workers = self.arm.workers.iter().zip(self.arm.engine.busy_ns());
        let workers: BTreeMap<u64, health::Pinned> =
            workers.map(|(w, busy_ns)| (w.tid as u64, health::Pinned { core: w.core as u32, busy_ns })).collect();
        let rows = health::sample(t, &workers);
        self.live.borrow_mut().health(&rows);
        let told = || not_written(&files.dir, "health.jsonl");
        rows.iter().try_for_each(|row| write_line(&mut files.health, row)).with_context(told)
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
    /// Where something is done on purpose.
    marks: Option<File>,
    dir: PathBuf,
}

impl Files {
    fn window(&mut self, row: &WindowRow) -> anyhow::Result<()> {
        write_line(&mut self.windows, row).with_context(|| not_written(&self.dir, "windows.jsonl"))?;
        opening::remove(&self.dir).with_context(|| not_written(&self.dir, opening::FILE))
    }
}

/// Time to make the first requests in: generous, since the window opens as soon as they are there.
fn lead(requests: usize) -> Nanos {
    Nanos::from_millis(200) + Nanos::from_micros(500 * requests as u64)
}

fn write_line(file: &mut File, row: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut line = serde_json::to_string(row)?;
    line.push('\n');
    Ok(file.write_all(line.as_bytes())?)
}

fn not_written(dir: &Path, name: &str) -> String {
    format!("{} cannot be written", dir.join(name).display())
}
