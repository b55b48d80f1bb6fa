//! The server's own counters, read beside the load: by a thread of its own on the control core, so that a slow or dead
//! `/metrics` costs a window nothing.

use crate::live::board::Server;
use crate::rundir::scrape::{Moment, ScrapeRow};
use crate::target::metrics_source::MetricsSource;
use anyhow::Context;
use bench_engine::clock::{Clock, SystemClock};
use bench_engine::units::{Instant, Nanos};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

/// The file.
pub(super) const FILE: &str = "server-metrics.jsonl";
/// Between two scrapes of a window.
const PACE: Nanos = Nanos::from_secs(1);
/// From a window's opening to its first scrape, so that a short window has one as well; and the least between two when
/// they are late.
const FIRST: Nanos = Nanos::from_millis(500);
/// Between windows the campaign waits so long for the scrape that parts them, unless the last two were not answered. No window is
/// open then, and a server that is not busy answers within milliseconds; what comes later would count two windows as one.
const SETTLE: Duration = Duration::from_secs(2);
/// Before the first window it waits as long as a scrape usually takes at most.
const BEGIN: Duration = Duration::from_secs(4);

/// What the scraping thread is told.
enum Order {
    /// A window is open from here on: scrape it at the usual pace.
    Opened((u32, u32), Instant),
    /// Scrape now; no window is open.
    Take(Option<(u32, u32)>, Moment),
}

/// The thread that scrapes, as the campaign sees it.
pub(super) struct Scraper<'scope> {
    orders: Sender<Order>,
    /// A scrape that was ordered is over.
    taken: Receiver<()>,
    /// Scrapes in a row that were not answered.
    unanswered: Arc<AtomicU32>,
    /// The server's gauges as it last told them; None: it did not answer, or tells none.
    gauges: Arc<Mutex<Option<Server>>>,
    thread: ScopedJoinHandle<'scope, anyhow::Result<()>>,
}

impl<'scope> Scraper<'scope> {
    /// Starts it, on the cores of the thread that calls. Lines go to `out`; `origin` is the campaign's start.
    ///
    /// # Errors
    /// No thread can be had.
    pub(super) fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        source: &'env MetricsSource,
        origin: Instant,
        out: impl Write + Send + 'scope,
    ) -> anyhow::Result<Self> {
        let (orders, told) = channel();
        let (done, taken) = channel();
        let unanswered = Arc::<AtomicU32>::default();
        let gauges = Arc::<Mutex<Option<Server>>>::default();
        let mut log =
            ScrapeLog { source, origin, out, unanswered: Arc::clone(&unanswered), gauges: Arc::clone(&gauges) };
        let thread = std::thread::Builder::new()
            .name("metrics".to_owned())
            .spawn_scoped(scope, move || log.follow(&told, &done))?;
        Ok(Scraper { orders, taken, unanswered, gauges, thread })
    }

    /// Scrapes before the first window, and waits for it.
    pub(super) fn before(&self) {
        self.order(Order::Take(None, Moment::Before));
        let _ = self.taken.recv_timeout(BEGIN);
    }

    /// A window has been ordered to open at `opened`.
    pub(super) fn opened(&self, cell: u32, window: u32, opened: Instant) {
        self.order(Order::Opened((cell, window), opened));
    }

    /// The last request of a window has ended.
    pub(super) fn closed(&self, cell: u32, window: u32) {
        // answers that came too late to be waited for
        while self.taken.try_recv().is_ok() {}
        self.order(Order::Take(Some((cell, window)), Moment::After));
    }

    /// Gives the scrape after a window a moment to be done before the next one opens.
    pub(super) fn settle(&self) {
        if self.is_answered() {
            let _ = self.taken.recv_timeout(SETTLE);
        }
    }

    /// Scrapes a last time where there is an answer to be had, and ends the thread.
    ///
    /// # Errors
    /// The file could not be written.
    pub(super) fn end(self) -> anyhow::Result<()> {
        if self.is_answered() {
            self.order(Order::Take(None, Moment::After));
        }
        drop(self.orders);
        self.thread.join().map_err(|_| anyhow::anyhow!("the reader of /metrics ended unexpectedly"))?
    }

    /// What the server works on and keeps waiting, as it told last.
    pub(super) fn gauges(&self) -> Option<Server> {
        self.gauges.lock().map_or(None, |gauges| *gauges)
    }

    /// Who has not answered twice is not waited for.
    fn is_answered(&self) -> bool {
        self.unanswered.load(Ordering::Relaxed) < 2
    }

    /// A thread that has ended says why when it is joined.
    fn order(&self, order: Order) {
        let _ = self.orders.send(order);
    }
}

/// Where scrapes are written.
struct ScrapeLog<'a, W> {
    source: &'a MetricsSource,
    origin: Instant,
    out: W,
    unanswered: Arc<AtomicU32>,
    gauges: Arc<Mutex<Option<Server>>>,
}

/// A window that is being scraped.
struct Watched {
    place: (u32, u32),
    next: Instant,
}

impl<W: Write> ScrapeLog<'_, W> {
    fn follow(&mut self, orders: &Receiver<Order>, done: &Sender<()>) -> anyhow::Result<()> {
        let mut watched: Option<Watched> = None;
        loop {
            let until = watched.as_ref().map(|w| w.next.saturating_since(SystemClock.now()));
            let told = match until {
                None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(wait) => orders.recv_timeout(Duration::from_nanos(wait.ns())),
            };
            match (told, &mut watched) {
                (Ok(Order::Opened(place, opened)), _) => watched = Some(Watched { place, next: opened + FIRST }),
                (Ok(Order::Take(place, moment)), _) => {
                    watched = None;
                    self.scrape(place, moment)?;
                    // nobody may wait for it any more
                    let _ = done.send(());
                }
                (Err(RecvTimeoutError::Timeout), Some(window)) => {
                    self.scrape(Some(window.place), Moment::During)?;
                    window.next = (window.next + PACE).max(SystemClock.now() + FIRST);
                }
                (Err(_), _) => return Ok(()),
            }
        }
    }

    fn scrape(&mut self, place: Option<(u32, u32)>, moment: Moment) -> anyhow::Result<()> {
        let asked = SystemClock.now();
        let (found, rtt_us) = self.source.scrape();
        let took = SystemClock.now().saturating_since(asked);
        let (metrics, error) = match found {
            Ok(found) => (found.values, None),
            Err(why) => (BTreeMap::new(), Some(why)),
        };
        let row = ScrapeRow {
            at: asked.saturating_since(self.origin).ns(),
            cell: place.map(|place| place.0),
            window: place.map(|place| place.1),
            moment,
            error,
            metrics,
            took_ns: took.ns(),
            rtt_us,
        };
        let line = serde_json::to_string(&row)? + "\n";
        let unanswered = if row.error.is_some() { self.unanswered.load(Ordering::Relaxed) + 1 } else { 0 };
        self.unanswered.store(unanswered, Ordering::Relaxed);
        let gauge = |name: &str| row.metrics.get(name).copied();
        let (running, waiting) = (gauge("requests_running"), gauge("requests_waiting"));
        if let Ok(mut gauges) = self.gauges.lock() {
            *gauges = (running.is_some() || waiting.is_some()).then_some(Server { running, waiting });
        }
        self.out.write_all(line.as_bytes()).with_context(|| format!("{FILE} cannot be written"))
    }
}
