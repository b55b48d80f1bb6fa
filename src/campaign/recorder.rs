//! The record reader: takes blocks and finished exchanges from the workers, reads JSON, maps stamps, writes
//! `requests.jsonl`, and `canary.jsonl` when there is a canary. It runs on the control core and takes the clock pairs as well.

use super::afterwards::AtomicAfterwards;
use super::conductor::Replied;
use super::feeder::Tickets;
use super::{RowFile, Ticket, canary};
use crate::analysis::saturation::growth;
use crate::live::seen::{Seen, Sight, Watched};
use crate::reading::turns::Turns;
use crate::reading::{FinishedRow, Place, Reading};
use crate::rundir::chain::Chain;
use crate::rundir::row::{Outcome, Row, StampSource};
use bench_engine::clock::{Clock, ClockMap, SystemClock};
use bench_engine::record::Finished;
use bench_engine::units::{Instant, Nanos, WallInstant};
use bench_engine::worker::{Message, Shared};
use std::collections::{HashMap, VecDeque};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// Clock pairs are taken this often.
const PAIR_EVERY: Nanos = Nanos::from_millis(50);
/// A record waits at most this long for its TX stamp.
const TX_STAMP_WAIT: Nanos = Nanos::from_millis(100);
/// Between looks for messages, when there were none.
const IDLE: Duration = Duration::from_millis(1);
/// The same while a turn may wait for the reply that it needs.
const IDLE_IN_SESSIONS: Duration = Duration::from_micros(100);
/// A reply that was seen is not taken to have arrived earlier than that before the clocks are compared again: a step of
/// the wall clock that nobody knows of yet must not send a turn before its time.
const ARRIVED_WITHIN: Nanos = Nanos::from_millis(100);

/// What is told of the current window while it runs, and after it.
#[derive(Debug, Default)]
pub struct Tally {
    /// Rows written.
    pub rows: AtomicU64,
    /// Failed ones among them.
    pub failed: AtomicU64,
    /// Of the first requests by trace id ([`growth::FIRST`]) those that are over.
    pub first: AtomicU64,
    /// Requests sent without the TX stamp they should have.
    pub tx_stamps_missing: AtomicU64,
    /// Stamps later than their reading.
    pub out_of_order: AtomicU64,
    /// Token events of the load read so far, those of requests that still run included.
    pub token_events: AtomicU64,
    /// What became of connections behind their replies.
    pub afterwards: AtomicAfterwards,
}

impl Tally {
    fn clear(&self) {
        for n in
            [&self.rows, &self.failed, &self.first, &self.tx_stamps_missing, &self.out_of_order, &self.token_events]
        {
            n.store(0, Ordering::Relaxed);
        }
        self.afterwards.clear();
    }
}

/// What the recorder shares with the control thread.
#[derive(Debug, Default)]
pub struct Desk {
    /// Of the current window.
    pub tally: Tally,
    /// End when nothing is left.
    pub over: AtomicBool,
    /// Rows of the load written so far, in all windows.
    pub recorded: AtomicU64,
    /// Of them those that are in their file.
    pub in_file: AtomicU64,
    /// The file of rows that is written to, from 1.
    pub part: AtomicU32,
    /// h of the last row.
    pub last_h: Mutex<String>,
    /// Uncertainty of the stamp mapping, ns.
    pub map_uncertainty_ns: AtomicU64,
    /// Steps of the wall clock so far.
    pub clock_steps: AtomicU64,
    /// Requests of the canary that failed.
    pub canary_failed: AtomicU64,
    /// Writing failed: the run must end.
    pub broken: AtomicBool,
    /// Requests of the load that are over and wait for their clock pair or stamp.
    pub waiting: AtomicU64,
    /// Who is told of each turn of a session at once; None: the requests of this window stand alone.
    replies: Mutex<Option<Sender<Replied>>>,
    /// The same in short: texts of replies are wanted.
    in_sessions: AtomicBool,
    /// What a live view tells of the current window; None: nobody looks.
    seen: Mutex<Option<Seen>>,
    /// The recorder is to sleep once nothing is left to record: another campaign has its turn.
    asleep: Mutex<bool>,
    woken: Condvar,
}

/// Tells the recorder that it is over when it is dropped, by a panic too: nobody waits for ever.
pub struct Told<'a>(pub &'a Desk);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Release);
        self.0.wake_up();
    }
}

impl Desk {
    /// Before a window.
    pub fn begin_window(&self) {
        self.tally.clear();
        self.in_sessions.store(false, Ordering::Release);
        if let Ok(mut replies) = self.replies.lock() {
            *replies = None;
        }
    }

    /// Before a window of sessions: what becomes of its turns.
    pub fn tell_of_turns(&self) -> Receiver<Replied> {
        let (tell, told) = channel();
        if let Ok(mut replies) = self.replies.lock() {
            *replies = Some(tell);
        }
        self.in_sessions.store(true, Ordering::Release);
        told
    }

    /// Before a window that is looked at while it runs.
    pub fn watch(&self, window: Watched) {
        if let Ok(mut seen) = self.seen.lock() {
            *seen = Some(Seen::of(window));
        }
    }

    /// What is seen of it so far.
    pub fn sight(&self) -> Sight {
        self.seen.lock().ok().and_then(|seen| seen.as_ref().map(Seen::sight)).unwrap_or_default()
    }

    /// Lets the recorder sleep without looking up, as soon as everything is recorded.
    pub fn fall_asleep(&self) {
        if let Ok(mut asleep) = self.asleep.lock() {
            *asleep = true;
        }
    }

    /// Before the campaign's next window. The recorder takes a clock pair first.
    pub fn wake_up(&self) {
        if let Ok(mut asleep) = self.asleep.lock() {
            *asleep = false;
        }
        self.woken.notify_all();
    }

    fn sleep_when_asked(&self) {
        if let Ok(asleep) = self.asleep.lock() {
            drop(self.woken.wait_while(asleep, |asleep| *asleep));
        }
    }

    /// h of the last row written.
    pub fn last_h(&self) -> String {
        self.last_h.lock().map(|h| h.clone()).unwrap_or_default()
    }
}

/// The recorder.
pub struct Recorder<'a, W: Write> {
    /// From the workers, and blocks back to them.
    pub shared: &'a Shared,
    /// What was asked.
    pub tickets: &'a Tickets,
    /// Shared with control.
    pub desk: &'a Desk,
    /// Run id.
    pub run: &'a str,
    /// Zero of the file's axis.
    pub origin: Instant,
    /// Kernel or user stamps.
    pub stamps: StampSource,
    /// The server's addresses, where connections take several in turn; else empty.
    pub addresses: Vec<String>,
    /// Must not appear in a record.
    pub secret: Option<&'a str>,
    /// Slots of each worker that carry load: any beyond them is its canary's.
    pub load_slots: Vec<u32>,
    /// `requests.jsonl`.
    pub out: W,
    /// `canary.jsonl`, when there is a canary. It has a hash chain of its own.
    pub canary_out: Option<W>,
}

struct Waiting {
    worker: u32,
    reading: Reading,
    finished: Finished,
}

impl<W: Write> Recorder<'_, W> {
    /// Records until told that it is over and everything is written.
    ///
    /// # Errors
    /// When the file cannot be written; [`Desk::broken`] is set then, and the workers' blocks still go back.
    pub fn run(mut self) -> io::Result<()> {
        // a chain's next call waits for these sleeps (prctl(2), PR_SET_TIMERSLACK)
        let _ = nix::sys::prctl::set_timerslack(1);
        let mut readings: HashMap<(u32, u32), Reading> = HashMap::new();
        let mut waiting: VecDeque<Waiting> = VecDeque::new();
        let (mut map, mut chain, mut canary_chain) = (ClockMap::default(), Chain::default(), Chain::default());
        let mut turns = Turns::default();
        let mut next_pair = Instant::default();
        let mut failure: Option<io::Error> = None;
        self.publish(&chain);
        loop {
            if SystemClock.now() >= next_pair {
                map.observe(SystemClock.pair());
                next_pair = SystemClock.now() + PAIR_EVERY;
                self.desk.clock_steps.store(map.steps() as u64, Ordering::Relaxed);
                let uncertainty = map.uncertainty().map_or(0, Nanos::ns);
                self.desk.map_uncertainty_ns.store(uncertainty, Ordering::Relaxed);
            }
            let over = self.desk.over.load(Ordering::Acquire);
            let mut idle = true;
            while let Some(message) = self.shared.messages.pop() {
                idle = false;
                match message {
                    Message::Block { worker, conn, block } => {
                        let reading = readings.entry((worker, conn)).or_insert_with(|| self.reading());
                        let before = reading.token_events();
                        reading.block(block.filled());
                        if self.load_slots.get(worker as usize).is_some_and(|slots| conn < *slots) {
                            self.count_tokens(before, reading.token_events());
                        }
                        self.give_back(block);
                    }
                    Message::Finished(worker, mut finished) => {
                        let conn = finished.conn.unwrap_or(u32::MAX);
                        let mut reading = readings.remove(&(worker, conn)).unwrap_or_else(|| self.reading());
                        if let Some(block) = finished.block.take() {
                            let before = reading.token_events();
                            reading.block(block.filled());
                            if !canary::is_canary(finished.job) {
                                self.count_tokens(before, reading.token_events());
                            }
                            self.give_back(block);
                        }
                        self.tell_of(&mut reading, &finished, &map);
                        finished.request = None;
                        waiting.push_back(Waiting { worker, reading, finished });
                    }
                    Message::LateWireOut { worker, sequence, wall, at } => {
                        late(&mut waiting, worker, sequence, (wall, at));
                    }
                }
                // a long backlog must not keep clock pairs from being taken
                if SystemClock.now() >= next_pair {
                    break;
                }
            }
            let before = waiting.len();
            while waiting.front().is_some_and(|w| self.is_ready(&w.finished, &map)) {
                if let (Some(done), None) = (waiting.pop_front(), &failure) {
                    failure = self.record(done, &map, &mut turns, &mut chain, &mut canary_chain).err();
                }
            }
            let waits = |w: &&Waiting| self.canary_out.is_none() || !canary::is_canary(w.finished.job);
            self.desk.waiting.store(waiting.iter().filter(waits).count() as u64, Ordering::Relaxed);
            if let (Some(_), false) = (&failure, self.desk.broken.load(Ordering::Relaxed)) {
                self.desk.broken.store(true, Ordering::Release);
            }
            if idle && before == waiting.len() {
                if over && waiting.is_empty() {
                    break;
                }
                if failure.is_none() {
                    failure = self.flush().err();
                    self.desk.broken.fetch_or(failure.is_some(), Ordering::Release);
                }
                if waiting.is_empty() {
                    self.desk.sleep_when_asked();
                }
                let in_sessions = self.desk.in_sessions.load(Ordering::Acquire);
                std::thread::sleep(if in_sessions { IDLE_IN_SESSIONS } else { IDLE });
            }
        }
        match failure {
            Some(error) => Err(error),
            None => self.flush(),
        }
    }

    /// Of a request of the current window.
    fn reading(&self) -> Reading {
        match self.desk.in_sessions.load(Ordering::Acquire) {
            true => Reading::keeping_text(),
            false => Reading::default(),
        }
    }

    /// Tells of a turn that is over, to whom the next one waits with.
    fn tell_of(&self, reading: &mut Reading, finished: &Finished, map: &ClockMap) {
        let Ok(replies) = self.desk.replies.lock() else { return };
        let Some(replies) = replies.as_ref() else { return };
        let ticket = self.tickets.lock().ok().and_then(|tickets| tickets.get(&finished.job).cloned());
        let Some((turn, asked)) = ticket.and_then(|ticket| Some((ticket.turn?, ticket.asked))) else { return };
        let outcome = reading.outcome_of(finished, &asked);
        let ended = match reading.end() {
            Some(read) => {
                // the row's figure can be by the mapping's uncertainty later than this one
                let later = map.uncertainty().unwrap_or(Nanos::ZERO);
                let arrived = read.wall.and_then(|wall| map.map(wall, read.seen).ok()).map(|at| at + later);
                let earliest = Instant::from_ns(read.seen.ns().saturating_sub(ARRIVED_WITHIN.ns()));
                arrived.unwrap_or(read.seen).clamp(earliest, read.seen)
            }
            None => finished.ended,
        };
        let (prompt_tokens, completion_tokens) = reading.counted_tokens();
        let text = reading.text(0).to_owned();
        // with nobody left to be told the window is over
        let _ = replies.send(Replied { session: turn.id, outcome, ended, text, prompt_tokens, completion_tokens });
    }

    fn flush(&mut self) -> io::Result<()> {
        let rows = self.desk.recorded.load(Ordering::Relaxed);
        self.out.flush()?;
        self.canary_out.as_mut().map_or(Ok(()), Write::flush)?;
        self.desk.in_file.store(rows, Ordering::Release);
        Ok(())
    }

    fn give_back(&self, mut block: bench_engine::record::Block) {
        block.clear();
        // the pool has room for every block there is
        let _ = self.shared.pool.push(block);
    }

    /// A clock pair taken after its end is known, and its TX stamp is there or late.
    fn is_ready(&self, finished: &Finished, map: &ClockMap) -> bool {
        let covered = map.covered_until().is_some_and(|t| t >= finished.ended);
        let stamped = self.stamps == StampSource::User || finished.wire_out.is_some() || finished.sent.is_none();
        covered && (stamped || SystemClock.now() >= finished.ended + TX_STAMP_WAIT)
    }

    fn record(
        &mut self,
        done: Waiting,
        map: &ClockMap,
        turns: &mut Turns,
        chain: &mut Chain,
        canary_chain: &mut Chain,
    ) -> io::Result<()> {
        let ticket = self.tickets.lock().ok().and_then(|mut t| t.remove(&done.finished.job));
        let ticket = ticket.ok_or_else(|| io::Error::other("a request was finished that nobody made"))?;
        let before = done.reading.token_events();
        let job = done.finished.job;
        let mut finished = self.read(done, &ticket, map);
        if let Some(turn) = &ticket.turn {
            turns.place(&mut finished.row, job, turn, &finished.text, &finished.left_out);
        }
        match (ticket.file, &mut self.canary_out) {
            (RowFile::Canary, Some(out)) => {
                let failed = finished.row.outcome == Outcome::Failed;
                self.desk.canary_failed.fetch_add(u64::from(failed), Ordering::Relaxed);
                write_row(out, &finished.row, canary_chain)
            }
            (RowFile::Canary, None) => Err(io::Error::other("a canary's request was finished, and there is none")),
            (RowFile::Requests, _) => {
                write_row(&mut self.out, &finished.row, chain)?;
                self.publish(chain);
                self.count_tokens(before, finished.row.token_events);
                self.count(&finished);
                Ok(())
            }
        }
    }

    fn read(&self, done: Waiting, ticket: &Ticket, map: &ClockMap) -> FinishedRow {
        let place = Place {
            run: self.run,
            cell: ticket.cell,
            window: ticket.window,
            worker: done.worker,
            origin: self.origin,
            stamps: self.stamps,
            // a canary has one address
            addresses: if ticket.file == RowFile::Requests { &self.addresses } else { &[] },
            secret: self.secret,
        };
        done.reading.finish(&done.finished, &ticket.asked, place, map)
    }

    fn count_tokens(&self, before: u32, now: u32) {
        self.desk.tally.token_events.fetch_add(u64::from(now.saturating_sub(before)), Ordering::Relaxed);
    }

    fn count(&self, finished: &FinishedRow) {
        let (row, tally) = (&finished.row, &self.desk.tally);
        if let Ok(mut seen) = self.desk.seen.lock()
            && let Some(seen) = seen.as_mut()
        {
            seen.take(row);
        }
        let missing = self.stamps == StampSource::Kernel && row.sent.is_some() && row.wire_out.is_none();
        tally.tx_stamps_missing.fetch_add(u64::from(missing), Ordering::Relaxed);
        tally.out_of_order.fetch_add(u64::from(finished.out_of_order), Ordering::Relaxed);
        tally.failed.fetch_add(u64::from(row.outcome == Outcome::Failed), Ordering::Relaxed);
        tally.first.fetch_add(u64::from(row.trace_id < growth::FIRST), Ordering::Relaxed);
        tally.afterwards.count(row, finished.lets_go_on);
        self.desk.recorded.fetch_add(1, Ordering::Release);
        tally.rows.fetch_add(1, Ordering::Release);
    }

    fn publish(&self, chain: &Chain) {
        if let Ok(mut last) = self.desk.last_h.lock() {
            chain.last_hex().clone_into(&mut last);
        }
    }
}

fn write_row(out: &mut impl Write, row: &Row, chain: &mut Chain) -> io::Result<()> {
    let mut line = serde_json::to_string(row)?;
    chain.seal(&mut line);
    line.push('\n');
    out.write_all(line.as_bytes())
}

fn late(waiting: &mut VecDeque<Waiting>, worker: u32, sequence: u64, stamp: (WallInstant, Instant)) {
    if let Some(w) = waiting.iter_mut().find(|w| w.worker == worker && w.finished.sequence == sequence) {
        w.finished.wire_out.get_or_insert(stamp);
    }
}
