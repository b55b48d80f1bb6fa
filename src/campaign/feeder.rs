//! Makes requests ahead of their turn, on the control core: text, body, head, in order of trace id.

use super::{RowFile, Ticket};
use crate::load_point::Cell;
use crate::reading::Asked;
use crate::rundir::row::Phase;
use crate::shard::Shard;
use crate::target::openai::BodyTemplate;
use crate::workload::nonce::MAX_TRACE_ID;
use crate::workload::prompt::PromptMaker;
use crate::workload::{Shape, Workload};
use bench_engine::clock::{Clock, SystemClock};
use bench_engine::conn::Job;
use bench_engine::units::{Instant, Nanos};
use bench_engine::wire::request::RequestTemplate;
use bench_engine::worker::{Message, Shared};
use std::collections::HashMap;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Requests made and not yet recorded, by job id.
pub type Tickets = Mutex<HashMap<u64, Ticket>>;

/// What a stopped window leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unsent {
    /// Requests that were due and not sent: each becomes a row.
    pub rows: u64,
    /// Those of them that had not been made.
    pub not_made: u64,
    /// Requests made that were not due.
    pub never_due: u64,
}

/// Time for which requests beyond the planned ones are made ahead: with more of them a window that has lasted long
/// enough would go on until they are used up.
const AHEAD: Nanos = Nanos::from_millis(100);

/// The supply of one window.
pub struct Feeder<'a> {
    /// Lengths and contents.
    pub workload: &'a Workload,
    /// Head.
    pub request: &'a RequestTemplate,
    /// Body.
    pub body: &'a BodyTemplate,
    /// Prompts.
    pub prompts: &'a PromptMaker,
    /// Load point.
    pub cell: &'a Cell,
    /// Its number.
    pub index: u32,
    /// The part of the schedule that is sent from here; None: all of it.
    pub shard: Option<Shard>,
    /// Window.
    pub window: u32,
    /// Window number of the run.
    pub serial: u64,
    /// Warm-up requests.
    pub drop: u64,
    /// Kept requests, at least.
    pub kept: u64,
    /// Closed loop: goes on past their number until the window has lasted so long.
    pub min_duration: Nanos,
    /// When the window opened, in ns; 0 before that.
    pub opened: &'a AtomicU64,
    /// Where the requests go.
    pub shared: &'a Shared,
    /// What is known of them.
    pub tickets: &'a Tickets,
}

impl Feeder<'_> {
    /// Fills the supply until the window has its number and its duration, or is stopped. Gives the number of
    /// requests made.
    ///
    /// # Errors
    /// The file that requests come from can be read no more.
    pub fn run(&self) -> io::Result<u64> {
        let made = self.fill();
        self.shared.supply_over.store(true, Ordering::Release);
        made
    }

    fn fill(&self) -> io::Result<u64> {
        let planned = self.drop + self.kept;
        let mut made = 0;
        for request in self.requests()? {
            let (trace_id, shape, due) = request?;
            // an open loop's schedule has an end of its own
            if due.is_none() && trace_id >= planned && !self.wait_to_go_on(made) {
                break;
            }
            if !self.push(self.make(trace_id, &shape, due)) {
                break;
            }
            made += 1;
        }
        Ok(made)
    }

    /// After a window that was stopped at `at`, with `made` requests made by [`Feeder::run`]: those that had become
    /// due and that no worker took, made or not, go to the record reader as not sent.
    ///
    /// # Errors
    /// As for [`Feeder::run`].
    pub fn leave_unsent(&self, made: u64, opened: Instant, at: Instant) -> io::Result<Unsent> {
        let mut unsent = Unsent::default();
        while let Some(job) = self.shared.supply.pop() {
            match job.due {
                Some(due) if opened + due <= at => self.not_sent(job, opened, at, &mut unsent),
                _ => unsent.never_due += 1,
            }
        }
        if let Cell::Open(_) | Cell::Trace(_) = self.cell {
            for request in self.requests()?.skip(made as usize) {
                let (trace_id, shape, due) = request?;
                if due.is_none_or(|due| opened + due > at) {
                    break;
                }
                unsent.not_made += 1;
                self.not_sent(self.make(trace_id, &shape, due), opened, at, &mut unsent);
            }
        }
        Ok(unsent)
    }

    fn not_sent(&self, job: Job, opened: Instant, at: Instant, unsent: &mut Unsent) {
        unsent.rows += 1;
        // no worker had it: it is recorded under the first one
        self.shared.post(Message::Finished(0, job.not_sent(opened, at)));
    }

    /// Trace id, shape and due of each request that is sent from here, in order.
    fn requests(&self) -> io::Result<impl Iterator<Item = io::Result<(u64, Shape, Option<Nanos>)>>> {
        let dues: Box<dyn Iterator<Item = io::Result<Option<Nanos>>>> = match self.cell {
            Cell::Closed { .. } | Cell::Sessions(_) => Box::new(std::iter::repeat_with(|| Ok(None))),
            Cell::Open(open) => Box::new(open.dues()?.map(|due| due.map(Some))),
            Cell::Trace(replay) => Box::new(replay.dues().map(|due| due.map(Some))),
        };
        let shapes = self.workload.shapes(self.drop, self.kept)?;
        let numbered = (0..=MAX_TRACE_ID).zip(shapes).zip(dues);
        let shard = self.shard;
        // by its place in the whole, so that each request is the same whoever sends it
        let from_here = numbered.filter(move |((trace_id, _), _)| shard.is_none_or(|shard| shard.sends(*trace_id)));
        Ok(from_here.map(|((trace_id, shape), due)| Ok((trace_id, shape?, due?))))
    }

    fn make(&self, trace_id: u64, shape: &Shape, due: Option<Nanos>) -> Job {
        let made = self.prompts.make(self.serial, trace_id, shape);
        let request = self.request.with_json(&self.body.body_of(&made));
        let asked = Asked {
            trace_id,
            class: shape.class.clone(),
            phase: if trace_id < self.drop { Phase::Warmup } else { Phase::Measured },
            prompt_tokens: made.prompt_tokens,
            output_tokens: made.output_tokens,
            nonce: made.nonce,
            begins: made.begins,
            prompt_sha256: made.sha256,
            streamed: self.body.stream,
        };
        let id = self.serial << 24 | trace_id;
        if let Ok(mut tickets) = self.tickets.lock() {
            tickets.insert(
                id,
                Ticket { cell: self.index, window: self.window, file: RowFile::Requests, asked, turn: None },
            );
        }
        Job { due, ..Job::new(id, request) }
    }

    /// Closed loop: whether the window wants more than its number; waits while enough of them are ready.
    fn wait_to_go_on(&self, made: u64) -> bool {
        while self.min_duration > Nanos::ZERO && !self.shared.stop.load(Ordering::Relaxed) {
            let opened = Instant::from_ns(self.opened.load(Ordering::Acquire));
            let open_for = SystemClock.now().saturating_since(opened);
            let is_open = opened > Instant::default();
            if is_open && open_for >= self.min_duration {
                return false;
            }
            let ready = self.shared.supply.len() as u64;
            let used = u128::from(made.saturating_sub(ready));
            // at the rate so far; the burst at the opening is no rate
            let soon = used * u128::from(AHEAD.ns()) / u128::from(open_for.max(AHEAD).ns());
            if u128::from(ready) < soon.max(u128::from(self.cell.slots())) {
                return true;
            }
            std::thread::sleep(Duration::from_micros(300));
        }
        false
    }

    /// Waits for room; false when the window was stopped.
    fn push(&self, job: Job) -> bool {
        let mut job = job;
        loop {
            if self.shared.stop.load(Ordering::Relaxed) {
                return false;
            }
            match self.shared.supply.push(job) {
                Ok(()) => return true,
                Err(back) => job = back,
            }
            std::thread::sleep(Duration::from_micros(300));
        }
    }
}
